"""Items that occur twice within the positions that a metric reads, and ids that match wrongly."""

import pandas
import polars as pl
import pytest

import rankql
from rankql import RankqlError

# The item d2 is not judged, and occurs at positions 1 and 3.
ROWS = pl.DataFrame({"query": "q", "item": ["d2", "d3", "d2", "d1"]})
SCORED = ROWS.with_columns(score=pl.Series([4.0, 3, 2, 1]))
PLACED = ROWS.with_columns(pos=pl.Series([1, 2, 3, 4]))
JUDGED = pl.DataFrame({"query": ["q"], "item": ["d1"], "rel": [1]})
GRADES = pl.Series("rel", [0, 0, 0, 1])


GINI = {"m": "gini(item, catalogue := 25)"}


def shapes(folder):
    """The same ranking as a run and judgments, as a table with grades, and as lists."""
    SCORED.write_csv(folder / "run.csv")
    PLACED.write_ndjson(folder / "run.jsonl")
    lines = [f"q Q0 {item} {place} {9 - place} t\n" for _, item, place in PLACED.rows()]
    (folder / "a.run").write_text("".join(lines))
    yield from ((run, JUDGED) for run in (SCORED, PLACED, SCORED.to_pandas()))
    yield from ((str(folder / name), JUDGED) for name in ("run.csv", "run.jsonl", "a.run"))
    yield from ((run.with_columns(GRADES), None) for run in (SCORED, PLACED))
    yield {"q": ROWS["item"].to_list()}, {"q": ["d1"]}
    lists = {"query": ["q"], "retrieved": [ROWS["item"].to_list()], "relevant": [["d1"]]}
    yield pl.DataFrame(lists), None


@pytest.mark.few(1)
@pytest.mark.parametrize("metric", ["RR", "nDCG@3", "P@200", "Bpref", ["RR@2", "RR@3"], GINI])
def test_an_item_within_the_positions_that_are_read_is_refused(metric, tmp_path):
    for run, qrels in shapes(tmp_path):
        with pytest.raises(
            RankqlError, match=r"^run has duplicates: query 'q', item 'd2'.*collapse="
        ):
            rankql.evaluate(run, qrels, metric)


@pytest.mark.slow
def test_an_item_below_them_is_not_refused(tmp_path):
    for run, qrels in shapes(tmp_path):
        assert rankql.evaluate(run, qrels, ["nDCG@2", "P@1"], interval=None)["nDCG@2"] == 0
    for run in (SCORED, PLACED):
        collapsed = rankql.evaluate(run, JUDGED, "RR", collapse="item", interval=None)
        assert collapsed["RR"] == pytest.approx(1 / 3)


FLOATS = {"2^53": 2.0**53, "fraction": 1.5}


@pytest.mark.few(3)
@pytest.mark.parametrize("value", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("role", ["query", "item"])
@pytest.mark.parametrize("form", ["pandas", "polars", "parquet", "float32"])
def test_floats_that_stand_for_several_ids_are_refused(value, role, form, tmp_path):
    """As a column of integers in pandas after a NULL."""
    run = pl.DataFrame({"query": [1, 1], "item": [2**53, 2**53 + 1], "score": [2.0, 1.0]})
    kind = pl.Float32 if form == "float32" else pl.Float64
    judged = pl.DataFrame({"query": [1], "item": [2**53], "rel": [1]})
    judged = judged.with_columns(pl.lit(value, kind).alias(role))
    data = judged.to_pandas() if form == "pandas" else judged
    if form == "parquet":
        judged.write_parquet(data := tmp_path / "judged.parquet")
    with pytest.raises(RankqlError, match=f"qrels: {role} has the id .* different ids"):
        rankql.evaluate(run, data, "RR")
    assert "rounded-ids" in [finding.kind for finding in rankql.check(run, data)]


def test_whole_floats_are_the_same_ids():
    run = pl.DataFrame({"query": [1, 1], "item": [10, 11], "score": [2.0, 1.0]})
    judged = pandas.DataFrame({"query": [1.0], "item": [11.0], "rel": [1]})
    assert rankql.evaluate(run, judged, "RR", interval=None)["RR"] == 0.5


@pytest.mark.parametrize("role", ["query", "item"])
def test_integers_that_became_floats_in_text_are_named(role, tmp_path):
    for name, ids in (("run.csv", ["10.0", "11.0"]), ("qrels.csv", ["10", "11"])):
        rows = {"query": ["q"] * 2, "item": ["a", "b"], "score": [2, 1], "rel": [1, 0], role: ids}
        pl.DataFrame(rows).write_csv(tmp_path / name)
    with pytest.raises(RankqlError, match=r"has (item )?'10\.0'.* qrels has '10'"):
        rankql.evaluate(tmp_path / "run.csv", tmp_path / "qrels.csv", "RR")


@pytest.mark.few(1)
@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_comments_that_look_like_rows_are_counted(blank, tmp_path):
    run, qrels = (tmp_path / name for name in ("a.run", "a.qrels"))
    rows = ["#1 Q0 d1 1 3 t", "#1 Q0 d2 2 2 t", "# made by me", "2 Q0 d1 1 3 t"]
    run.write_text("\n".join(rows).replace(" ", blank))
    qrels.write_text("#1 0 d2 1\n2 0 d1 1\n".replace(" ", blank))
    notes = "\n".join(rankql.evaluate(run, qrels, "RR", interval=None).notes)
    assert "run: 2 lines begin with #" in notes and "qrels: 1 line begins with #" in notes
    assert [x.kind for x in rankql.check(run, qrels)].count("comments") == 2
