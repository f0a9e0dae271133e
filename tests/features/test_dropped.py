"""Items that do not count as shown: the query itself, and those below a score."""

import random

import duckdb
import polars as pl
import pytest
import pytrec_eval
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import few
from support.refusals import refuses

METRICS = ["ndcg_cut_10", "map", "recip_rank", "P_5", "recall_10"]


def duplicates(seed=3, queries=60):
    """As of ArguAna: each query is an item too, which most rankings have at the top."""
    rng = random.Random(seed)
    run, qrels = {}, {}
    for query in range(queries):
        items = rng.sample(range(queries), 25)
        scores = {f"d{item}": rng.choice([0.2, 0.4, 0.5, rng.random()]) for item in items}
        if rng.random() < 0.9:
            scores[f"d{query}"] = 1.0
        run[f"d{query}"] = scores
        qrels[f"d{query}"] = {f"d{rng.randrange(queries)}": 1, f"d{(query + 1) % queries}": 1}
    return run, qrels


def frame(data, value):
    rows = [(query, item, x) for query, items in data.items() for item, x in items.items()]
    return pl.DataFrame(rows, ["query", "item", value], orient="row")


@few(1)("form", ["scores", "positions", "one table"])
def test_identical_ids_are_ignored_as_by_pytrec_eval_without_them(form):
    run, qrels = duplicates()
    without = {q: {item: x for item, x in items.items() if item != q} for q, items in run.items()}
    expected = pytrec_eval.RelevanceEvaluator(qrels, {*METRICS}).evaluate(without)
    data, judged = frame(run, "score"), frame(qrels, "rel")
    if form != "scores":
        data = data.pipe(rankql.ranked).drop("score")
    if form == "one table":
        data, judged = data.join(judged, on=["query", "item"], how="full", coalesce=True), None
    result = rankql.evaluate(data, judged, METRICS, ignore_identical_ids=True)
    assert len(expected) == len(run)
    for row in result.per_query.iter_rows(named=True):
        for metric in METRICS:
            assert row[metric] == pytest.approx(expected[row["query"]][metric], abs=1e-12)
    (note,) = [note for note in result.notes if note.startswith("ignore_identical_ids")]
    dropped = sum(query in items for query, items in run.items())
    assert note.startswith(f"ignore_identical_ids: {dropped} of {len(frame(run, 'score')):,} items")
    with_them = rankql.evaluate(data, judged, METRICS)
    assert with_them["recip_rank"] != result["recip_rank"]


@pytest.mark.slow
def test_the_option_is_one_of_all_functions():
    run, qrels = (
        frame(data, name) for data, name in zip(duplicates(), ("score", "rel"), strict=True)
    )
    option = {"ignore_identical_ids": True}
    result = rankql.evaluate(run, qrels, "RR", **option)
    comparison = rankql.compare({"a": run, "b": run}, qrels, "RR", **option)
    assert comparison.summary["mean"].to_list() == [result["RR"]] * 2
    gate = rankql.gate(run, qrels, minimum="RR>=0.1", **option)
    assert gate.table["mean"].to_list() == [result["RR"]]
    explained = rankql.explain(run, qrels, "d1", "RR", **option).value
    assert explained == pytest.approx(result.per_query.filter(query="d1")["RR"][0])
    assert rankql.check(run, qrels, **option).passed
    parts = [data.with_columns(part=1) for data in (run, qrels)]
    with pytest.raises(RankqlError, match="needs one column of each"):
        rankql.evaluate(*parts, "RR", query=["query", "part"], **option)
    with pytest.raises(RankqlError, match="must be True, False or 'both', not 1"):
        rankql.evaluate(run, qrels, "RR", ignore_identical_ids=1)


# Of image retrieval: each picture is in its own class, and c alone in its.
SHOWN = {"a": ["a", "c", "b"], "b": ["b", "a", "c"], "c": ["c", "a"]}
CLASSES = {"a": ["a", "b"], "b": ["b", "a"], "c": ["c"]}
THEMSELVES = "queries are judged relevant to themselves"


def pictures(form, path):
    """The same pictures in a form, and the options of its call."""
    run, qrels = (
        pl.DataFrame([(q, x, y) for q in data for y, x in enumerate(data[q], 1)],
                     ["query", "item", name], orient="row")
        for data, name in ((SHOWN, "pos"), (CLASSES, "rel"))
    )  # fmt: skip
    qrels = qrels.with_columns(rel=1)
    if form == "lists":
        return [{"query": x, "retrieved": SHOWN[x], "relevant": CLASSES[x]} for x in SHOWN], None
    if form == "one table":
        return run.join(qrels, on=["query", "item"], how="full", coalesce=True), None
    if form == "scores":
        return run.select("query", "item", score=-pl.col("pos")), qrels
    if form in ("parquet", "csv"):
        for name, frame in (("run", run), ("qrels", qrels)):
            getattr(frame, f"write_{form}")(path / f"{name}.{form}")
        return path / f"run.{form}", path / f"qrels.{form}"
    return (SHOWN, CLASSES) if form == "dicts" else (run, qrels)


@few(4)("form", ["dicts", "frames", "scores", "one table", "lists", "parquet", "csv"])
def test_queries_are_taken_out_of_their_judgments_too(form, tmp_path):
    run, qrels = pictures(form, tmp_path)
    metrics, own = ["AP", "R@1", "nDCG@2", "P@1"], {"interval": None}
    both = rankql.evaluate(run, qrels, metrics, ignore_identical_ids="both", **own)
    assert both.per_query["AP"].to_list() == [0.5, 1, None]  # c has nothing relevant, and is judged
    assert both.summary["mean"].to_list() == pytest.approx([0.75, 0.5, 0.8155, 1 / 3], abs=1e-4)
    assert any(x.endswith(f"3 {THEMSELVES}. These judgments are left out") for x in both.notes)
    of_runs = rankql.evaluate(run, qrels, "AP", ignore_identical_ids=True, **own)
    assert of_runs["AP"] == 0.25
    (note,) = [x for x in of_runs.notes if THEMSELVES in x]
    assert note.endswith("pass ignore_identical_ids='both'")
    assert any("ignore_identical_ids='both'" in x for x in rankql.evaluate(run, qrels, "AP").notes)


def test_the_sql_has_judgments_without_the_queries():
    run, qrels = pictures("scores", None)
    result = rankql.evaluate(run, qrels, "AP", ignore_identical_ids="both", interval=None)
    step = result.steps.run("qrels").to_dicts()
    assert {(x["query"], x["item"], x["rel"]) for x in step} == {
        ("a", "b", 1), ("b", "a", 1), ("c", "c", 0),
    }  # fmt: skip


def test_few_queries_that_are_relevant_to_themselves_stay_without_a_note():
    few_own = {**CLASSES, "b": ["a"], "c": ["a"]}
    result = rankql.evaluate(SHOWN, few_own, "AP", ignore_identical_ids=True, interval=None)
    assert not any("judged relevant to" in x for x in result.notes)
    result = rankql.evaluate(SHOWN, {x: ["a"] for x in "bc"}, "AP", interval=None)
    assert not any("'both'" in x for x in result.notes)


# Queries that are relevant to themselves and another, and shown for others only.
NEAR = {f"i{k}": [f"i{(k + 5) % 12}", f"i{(k + 1) % 12}"] for k in range(12)}
OWN = {f"i{k}": [f"i{k}", f"i{(k + 1) % 12}"] for k in range(12)}
NO_RUN = "12 of 12 queries are among their own relevant items, and no run shows one."


def frames_of(run, qrels):
    run = {x: {item: -place for place, item in enumerate(items)} for x, items in run.items()}
    return frame(run, "score"), frame({x: dict.fromkeys(y, 1) for x, y in qrels.items()}, "rel")


@few(2)("form", ["dicts", "frames", "tables"])
def test_queries_that_a_run_leaves_out_are_noted(form):
    run, qrels = (NEAR, OWN) if form == "dicts" else frames_of(NEAR, OWN)
    con = duckdb.connect() if form == "tables" else None
    if con:
        con.sql("CREATE TABLE own_run AS FROM run; CREATE TABLE own_qrels AS FROM qrels")
        run, qrels = "own_run", "own_qrels"
    result = rankql.evaluate(run, qrels, "R@2", con=con, interval=None)
    assert result["R@2"] == 0.5
    (note,) = (x for x in result.notes if "own" in x)
    assert note.startswith(f"{NO_RUN} If they are left out, pass ignore_identical_ids='both'")
    call = {"ignore_identical_ids": "both", "con": con, "interval": None}
    assert rankql.evaluate(run, qrels, "R@2", **call)["R@2"] == 1
    named = rankql.evaluate(run, qrels, "R@2", **{**call, "ignore_identical_ids": False})
    assert not any("own" in x for x in named.notes)


@few(2)(
    ("run", "qrels"),
    [
        ({x: y[::-1] for x, y in NEAR.items()}, {x: [x] for x in NEAR}),  # aligned pairs
        (NEAR, {x: y if x < "i2" else y[1:] for x, y in OWN.items()}),  # few of them
        ({**NEAR, "i3": ["i3", "i4"]}, OWN),  # one is shown
        ({x: ["j1", y[1].upper(), *y[1:2]][:2] for x, y in NEAR.items()}, OWN),  # shown nowhere
        ({x[1:]: [z[1:] for z in y] for x, y in NEAR.items()},
         {x[1:]: [z[1:] for z in y] for x, y in OWN.items()}),  # row numbers
    ],
)  # fmt: skip
def test_other_queries_among_their_items_stay_without_a_note(run, qrels):
    for data in ((run, qrels), frames_of(run, qrels)):
        result = rankql.evaluate(*data, "R@2", interval=None, none_judged="zero")
        assert not any("own relevant" in x for x in result.notes)


def test_the_command_line_takes_queries_out_of_both(tmp_path):
    run, qrels = map(str, pictures("csv", tmp_path))

    def means(*words):
        result = CliRunner().invoke(main, ["eval", *words, "-m", "AP", "--format", "csv"])
        return result.output.splitlines()[1].split(",")

    option = "--ignore-identical-ids"
    assert "0.25" in means(run, qrels, option) == means(option, run, qrels)
    assert "0.75" in means(run, qrels, option, "both") == means(f"{option}=both", run, qrels)


RUN = pl.DataFrame({
    "query": [*"aabbc"], "item": [*"xyxzx"], "score": [0.9, 0.2, 0.3, 0.1, 0.8],
})  # fmt: skip
# b has nothing relevant, d is missing.
QRELS = pl.DataFrame({"query": [*"abcd"], "item": [*"yzxx"], "rel": [1, 0, 1, 1]})
NAMES = ["RR", "FalseAnswer", "FalseAbstention"]


@few(2)("form", ["scores", "distances", "positions", "system"])
@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (0.25, {"a": (0, None, 0), "b": (None, 1, None), "c": (1, None, 0), "d": (0, None, 1)}),
        (0.85, {"a": (0, None, 0), "b": (None, 0, None), "c": (0, None, 1), "d": (0, None, 1)}),
        (5, {"a": (0, None, 1), "b": (None, 0, None), "c": (0, None, 1), "d": (0, None, 1)}),
    ],
)
def test_items_below_a_score_are_not_shown(least, expected, form):
    """A query without any stays in the run, and positions of the rest stay."""
    data, options = RUN, {}
    if form == "distances":
        data, least = RUN.select("query", "item", distance=-pl.col("score")), -least
    elif form == "positions":
        data, options = RUN.pipe(rankql.ranked), {"pos": "pos"}
    elif form == "system":
        data = pl.concat([RUN.with_columns(system=pl.lit(name)) for name in ("m", "n")])
        options, least = {"system": "system"}, {"m": least}
    result = rankql.evaluate(data, QRELS, NAMES, min_score=least, interval=None, **options)
    values = result.per_query
    if form == "system":
        rest = values.filter(system="n").drop("system")
        assert {row[0]: row[1:] for row in rest.rows()}["a"] == (0.5, None, 0)
        values = values.filter(system="m").drop("system")
    assert {row[0]: row[1:] for row in values.rows()} == expected
    assert result.summary["missing"].unique().to_list() == [1]


test_a_wrong_score_is_refused = refuses("min_score", globals(), "rankql.%s")
