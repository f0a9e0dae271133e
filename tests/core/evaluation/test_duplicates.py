"""Queries and items that only one table has, ids that match wrongly, comments like rows."""

import pandas
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import cycled, few
from support.samples import QRELS, RUN

FLOATS = {"2^53": 2.0**53, "fraction": 1.5}


@few(1)(
    ("form", "role", "value"),
    cycled(["pandas", "polars", "parquet", "float32"] * 2, ["query", "item"],
           [*FLOATS.values()] * 2 + [1.5, 2.0**53] * 2),
)  # fmt: skip
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


@few(1)("blank", [" ", "\t", "  "])
def test_comments_that_look_like_rows_are_counted(blank, tmp_path):
    run, qrels = (tmp_path / name for name in ("a.run", "a.qrels"))
    rows = ["#1 Q0 d1 1 3 t", "#1 Q0 d2 2 2 t", "# made by me", "2 Q0 d1 1 3 t"]
    run.write_text("\n".join(rows).replace(" ", blank))
    qrels.write_text("#1 0 d2 1\n2 0 d1 1\n".replace(" ", blank))
    notes = "\n".join(rankql.evaluate(run, qrels, "RR", interval=None).notes)
    assert "run: 2 lines begin with #" in notes and "qrels: 1 line begins with #" in notes
    assert [x.kind for x in rankql.check(run, qrels)].count("comments") == 2


def test_examples_of_queries_that_are_not_judged_differ():
    with pytest.raises(RankqlError, match="qrels has 'q0'"):
        rankql.evaluate(RUN, QRELS.with_columns(query=pl.lit("q0")))


@pytest.mark.slow
def test_runs_of_one_of_many_judged_queries():
    """Also if the sample of queries, in which items in common are counted, does not have it."""
    qrels = pl.DataFrame({"query": range(3000), "item": ["a"] * 3000, "rel": [1] * 3000})
    for query in range(8):
        run = pl.DataFrame({"query": [query], "item": ["a"], "score": [1.0]})
        assert rankql.evaluate(run, qrels, "RR", missing="skip", interval=None)["RR"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "every"), [(3000, 25), (30, 1), (999, 25)])
def test_few_items_in_common_are_noted(queries, every, tmp_path):
    """One item in `every` is judged, one query is not. Of many queries, only some are compared."""
    ids = pl.DataFrame({"query": [f"{{it's}} {i}" for i in range(5000)]})
    items = ids.join(pl.DataFrame({"item": range(25)}), how="cross")
    shift = pl.when(pl.col("item") % every > 0).then(25).otherwise(0)
    qrels = items.with_columns(pl.col("item") + shift, rel=1)
    unjudged = items.head(1).with_columns(query=pl.lit("other"))
    run = pl.concat([items.head(queries * 25), unjudged]).with_columns(score=1.0)
    run.write_parquet(tmp_path / "run.parquet")
    systems = pl.concat([run.with_columns(system=pl.lit(name)) for name in "AB"])
    for data, options in ((run, {}), (systems, {"system": "system"}), (tmp_path, {})):
        result = rankql.evaluate(data, qrels, "RR", interval=None, **options)
        notes = [note for note in result.notes if "Only" in note]
        assert len(notes) == (1 + len(options) if every == 25 else 0)


READS = ["nDCG@10", "AP", "RR@10", "P@5", "R@100", "Bpref", "Judged@10", "infAP", "Rprec"]


@few(2)(
    ("metric", "copies", "grades"),
    cycled(READS * 4, [1, 2500], [[1, -1], [-2, 0], [-1, -2], [1, 2], [0, 0], [-1, -1], [0, 0]]),
)  # as many copies as counters or polars compare
def test_contradictory_grades_are_refused_alike(metric, copies, grades):
    """Also if one grade counts as unjudged, whatever the metric reads. A single equal row counts
    once.
    """
    several = ["Bpref", "Judged@10", "infAP"] if copies > 1 else []
    refused = several if grades[0] == grades[1] else READS
    ids = pl.DataFrame({"query": range(copies)})
    run = ids.join(pl.DataFrame({"item": ["x", "y"], "score": [2.0, 1.0]}), how="cross")
    rows = pl.DataFrame({"item": ["y", "x", "x"], "rel": [1, *grades]})
    qrels = ids.join(rows, how="cross")
    if metric not in refused:
        assert rankql.evaluate(run, qrels, metric, negative="unjudged")[metric] is not None
        return
    with pytest.raises(RankqlError, match="qrels has duplicates: query 0, item 'x'"):
        rankql.evaluate(run, qrels, metric, negative="unjudged")


@pytest.mark.parametrize(("countries", "every"), [(2, 1), (3, 2), (6, 3)])
def test_a_column_of_few_values_by_query_is_part_of_the_key(countries, every):
    """Judgments may lack it. Where each query has all its values, it may be either."""
    rows = [(f"q{q}", f"c{c}", f"d{i}", -i) for q in range(12) for c in range(countries)
            if (q + c) % every == 0 for i in range(3)]  # fmt: skip
    if every == 3:
        rows += [(q, "all", i, s) for q, c, i, s in rows if c == "c0"]
    run = pl.DataFrame(rows, ["query_text", "country", "item", "score"], orient="row")
    qrels = pl.DataFrame({"query_text": [f"q{q}" for q in range(12)], "item": "d0", "rel": 1})
    key = "query=['query_text', 'country']"
    with pytest.raises(rankql.RankqlError, match="duplicates") as error:
        rankql.evaluate(run, qrels, "RR")
    assert key in str(error.value)
    first = "the column of the systems" if every == 1 else "the key of the queries"
    assert f"or pass {first}:\n    " in str(error.value) and "system='country'" in str(error.value)


def test_the_files_of_a_glob_may_be_runs(tmp_path):
    """One run of each system: the best row of all systems would be the ranking of none."""
    run = pl.DataFrame({"query": ["q", "q"], "item": ["x", "y"], "score": [2.0, 1.0]})
    qrels = pl.DataFrame({"query": ["q"], "item": ["x"], "rel": [1]})
    several = "If each file of .* is a run, pass one file for each system"
    run.write_csv(tmp_path / "a.csv")
    pl.concat([run, run]).write_csv(tmp_path / "b.csv")
    with pytest.raises(RankqlError, match=rf"duplicates: (?!.*{several})"):
        rankql.evaluate(str(tmp_path / "b*.csv"), qrels, "RR")
    for runs in (str(tmp_path / "*.csv"), {"all": str(tmp_path / "*.csv")}):
        with pytest.raises(RankqlError, match=rf"duplicates: .*'\. {several}\. Else keep one row"):
            rankql.evaluate(runs, qrels, "RR")
    files = {name: str(tmp_path / f"{name}.csv") for name in "ac"}
    run.write_csv(files["c"])
    assert rankql.evaluate(files, qrels, "RR").summary["mean"].to_list() == [1, 1]
    for part in (1, 2):  # parts of one run, or of one run by attribute
        run.write_csv(tmp_path / f"part-{part}.csv")
    with pytest.raises(RankqlError, match=rf"Keep one row of each(.|\n)*{several}$"):
        rankql.evaluate(str(tmp_path / "part*.csv"), qrels, "RR")
