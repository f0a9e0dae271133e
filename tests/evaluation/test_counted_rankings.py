"""Runs are evaluated first and checked then: values, notes and errors are the same."""

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import evaluate, list_choice, overlap, query, validation
from rankql.macros import FOUND, JUDGED_ROWS, MISSING, RANKINGS

QRELS = pl.DataFrame(
    {"query": [f"q{i % 6}" for i in range(60)], "item": range(60), "rel": [0, 1, 2] * 20}
)
RUN = QRELS.select("query", "item", score=pl.col("item") * 37 % 61 * 1.0)
NO_NAN = pl.col("score").replace(RUN["score"][7], float("nan"))
CASES = {
    "all judged": (RUN, QRELS, {}),
    "some queries only": (RUN.filter(pl.col("query") > "q1"), QRELS, {}),
    "unjudged queries": (RUN, QRELS.filter(pl.col("query") > "q3"), {}),
    "no judged query": (RUN.with_columns("Q" + pl.col("query")), QRELS, {}),
    "no judged item": (RUN.with_columns(pl.col("item") + 100), QRELS, {}),
    "run twice": (pl.concat([RUN, RUN.head(7)]), QRELS, {}),
    "qrels twice": (RUN, pl.concat([QRELS, QRELS.head(7)]), {}),
    "two grades": (RUN, pl.concat([QRELS, QRELS[:1].with_columns(rel=pl.lit(1, pl.Int64))]), {}),
    "NaN": (RUN.with_columns(NO_NAN), QRELS, {}),
    "NaN in another query": (
        RUN.with_columns(NO_NAN),
        QRELS.filter(pl.col("query") != RUN["query"][7]),
        {},
    ),
    "ties, and NaN": (RUN.with_columns(NO_NAN // 10), QRELS, {}),
    "no score": (RUN.with_columns(score=pl.lit(None, pl.Float64)), QRELS, {}),
    "missing query": (RUN.filter(pl.col("query") > "q1"), QRELS, {"missing": "error"}),
    "missing query, other items": (
        RUN.filter(pl.col("query") > "q1").with_columns(pl.col("item") + 100),
        QRELS,
        {"missing": "error"},
    ),
    "undefined": (RUN, QRELS.with_columns(rel=pl.lit(0)), {"undefined": "error"}),
    "grades above 5": (RUN, QRELS.with_columns(pl.col("rel") * 9), {}),
    "slices": (RUN.with_columns(market=pl.col("query") > "q2"), QRELS, {"by": "market"}),
}
HIDDEN = {RANKINGS, JUDGED_ROWS, FOUND}


def outcome(run, qrels, metrics=("nDCG@10", "P@5"), **options):
    """Values, means and notes, or the error."""
    try:
        result = rankql.evaluate(run, qrels, metrics, **options)
    except rankql.RankqlError as error:
        return str(error)
    assert not HIDDEN & {*result.frame().columns}
    assert FOUND not in result.sql and RANKINGS not in result.sql
    return result.per_query, result.summary, result.notes


def by_lists(monkeypatch, chosen):
    for suit in ("suit_lists", "suit_top_lists", "suit_untied_lists"):
        monkeypatch.setattr(list_choice, suit, lambda *_, **options: chosen)


@pytest.mark.parametrize(
    ("metrics", "ties"),
    [(["nDCG@10", "P@5"], "item"), (["nDCG@10", "P@5"], "expected"), (["AP", "RR"], "item")],
)
@pytest.mark.parametrize("case", CASES)
def test_same_outcome(monkeypatch, case, metrics, ties):
    run, qrels, options = CASES[case]
    by_lists(monkeypatch, False)
    window = outcome(run, qrels, metrics, ties=ties, **options)
    by_lists(monkeypatch, True)
    lists = outcome(run, qrels, metrics, ties=ties, **options)
    if isinstance(window, str):
        assert lists == window
    else:
        for found, expected in zip(lists[:2], window[:2], strict=True):
            assert_frame_equal(found, expected, abs_tol=1e-12, rel_tol=1e-12)
        assert lists[2] == window[2]


BY_POSITION = RUN.with_columns(pos=pl.int_range(pl.len()).over("query") + 1).drop("score")
HALF = RUN.filter(pl.col("item") % 2 == 0)
FORMS = {
    "scores": lambda run: run,
    "positions": lambda run: BY_POSITION,
    "two runs": lambda run: {"a": run, "b": HALF},
    "two runs, the same": lambda run: {"a": run, "b": run},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("metrics", "options"),
    [
        (["nDCG@10", "P@5"], {}),
        (["AP", "RR"], {}),
        (["nDCG@10", "R@5", "P@5", "RR@10", "ERR@10"], {"missing": "skip"}),
        (["nDCG@10", "Judged@10"], {}),
        ("nDCG@10", {"unjudged": "bounds"}),
        ("nDCG@10", {"unjudged": "remove"}),
        ("nDCG@10", {"ideal": "retrieved"}),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_same_outcome_as_if_checked_first(monkeypatch, case, metrics, options, form):
    run, qrels, more = CASES[case]
    run, options = FORMS[form](run), options | more
    after = outcome(run, qrels, metrics, **options)
    monkeypatch.setattr(query, "overlap_counts", lambda *_: {})
    before = outcome(run, qrels, metrics, **options)
    if isinstance(before, str):
        # Of two faults, the other one may be named.
        assert after == before or after == "run: score must be a number, not nan"
    else:
        for found, expected in zip(after[:2], before[:2], strict=True):
            assert_frame_equal(found, expected, abs_tol=1e-12, rel_tol=1e-12)
        assert after[2] == before[2]


def test_repeated_judgments_are_refused_before_the_join(monkeypatch):
    """If items repeat in both tables, the join has the product of their rows."""
    monkeypatch.setattr(evaluate, "_fill", lambda *_: pytest.fail("the query ran"))
    run = pl.DataFrame({"query": ["q"] * 100, "item": ["x"] * 100, "score": range(100)})
    for forced in (False, True):
        by_lists(monkeypatch, forced)
        message = outcome(run, run.select("query", "item", rel=1), "nDCG@10")
        assert message.startswith("qrels has duplicates: query 'q', item 'x'.")


@pytest.mark.parametrize("rows", [range(0), range(10**9)])
@pytest.mark.parametrize("twice", ["run", "qrels", None])
def test_repeated_items_in_either_engine(monkeypatch, rows, twice):
    """DuckDB or polars compares the hashes of rows."""
    monkeypatch.setattr(validation, "IN_POLARS", rows)
    _refuse_repeats(twice, many=1000)


def test_repeated_judgments_among_many():
    """Two million rows are compared by polars."""
    for twice in ("qrels", None):
        _refuse_repeats(twice, many=validation.IN_POLARS.start)


def _refuse_repeats(twice, many):
    items = pl.DataFrame({"item": range(many)}).with_columns(query=pl.col("item") // 100)
    tables = {
        "run": items.with_columns(score=pl.col("item") % 100 / 64),
        "qrels": items.with_columns(rel=pl.col("item") % 3 + 1),
    }
    item = many // 2 + 97
    if twice:
        tables[twice] = pl.concat([tables[twice], tables[twice].slice(item, 1)])
    message = outcome(*tables.values(), "nDCG@10")
    if twice:
        assert message.startswith(f"{twice} has duplicates: query {item // 100}, item {item}.")
    else:
        assert not isinstance(message, str)


@pytest.mark.parametrize("name", [*sorted(HIDDEN), MISSING])
def test_names_of_hidden_columns(name):
    """They are ours."""
    named = QRELS.with_columns((pl.col("query") > "q2").alias(name))
    message = f"Two columns of the result would be called {name!r}. Rename one of them"
    assert outcome(RUN, named, "P@5", by=name) == message


@pytest.mark.parametrize(
    ("shared", "compared", "noted"), [(50, False, False), (6, True, False), (2, True, True)]
)
def test_items_are_compared_if_few_are_found(monkeypatch, shared, compared, noted):
    """2,000 queries with 50 judged items. The run has them after all others."""
    asked, count = [], overlap.item_overlap
    monkeypatch.setattr(overlap, "item_overlap", lambda *args: asked.append(1) or count(*args))
    queries = pl.DataFrame({"query": range(2000)})
    items = queries.join(pl.DataFrame({"item": range(50)}), how="cross")
    other = pl.when(pl.col("item") < shared).then(0).otherwise(100)
    run = items.with_columns(pl.col("item") + other).with_columns(score=pl.col("item") / 64)
    result = rankql.evaluate(run, items.with_columns(rel=1), "P@10", interval=None)
    assert (bool(asked), bool(result.notes)) == (compared, noted)


@pytest.mark.parametrize("case", ["all judged", "some queries only", "unjudged queries"])
def test_queries_are_counted_once(monkeypatch, case):
    """The query that counts those of both tables runs only if a query is not judged."""
    asked, count = [], validation.query_overlap
    monkeypatch.setattr(validation, "query_overlap", lambda *args: asked.append(1) or count(*args))
    by_lists(monkeypatch, True)
    run, qrels, options = CASES[case]
    outcome(run, qrels, **options)
    assert len(asked) == (case == "unjudged queries")


@pytest.mark.parametrize(
    ("metrics", "ties"), [("nDCG@10", "item"), ("nDCG@10", "expected"), ("AP", "item")]
)
@pytest.mark.parametrize("case", ["all judged", "unjudged queries", "NaN"])
def test_in_parts(monkeypatch, case, metrics, ties):
    """If the first try needs too much memory."""
    run, qrels, _ = CASES[case]
    by_lists(monkeypatch, True)
    expected = outcome(run, qrels, metrics, ties=ties)
    once, fetch_values = [1], evaluate.fetch_values

    def fail_once(*args, **options):
        if once:
            raise duckdb.OutOfMemoryException(once.pop())
        return fetch_values(*args, **options)

    monkeypatch.setattr(evaluate, "fetch_values", fail_once)
    found = outcome(run, qrels, metrics, ties=ties)
    assert not once
    if isinstance(expected, str):
        assert found == expected
    else:
        assert_frame_equal(found[0], expected[0], abs_tol=1e-12, rel_tol=1e-12)
        assert [note for note in found[2] if "4 parts" not in note] == expected[2]


@pytest.mark.parametrize("kind", ["UUID", "BIT", "DATE", "HUGEINT", "VARCHAR"])
def test_queries_of_any_type(monkeypatch, kind):
    """More judged queries than are compared at once, in a table whose types are its own."""
    as_kind = {
        "UUID": "md5(q::VARCHAR)::UUID",
        "BIT": "q::BIT",
        "DATE": "'2020-01-01'::DATE + q::INT",
    }
    query = as_kind.get(kind, f"q::{kind}")
    con = duckdb.connect()
    rows = f"SELECT {query} AS query, item, {{}} FROM range(3000) AS a (q), range(3) AS b (item)"
    con.execute(f"CREATE TABLE run AS {rows.format('item * 1.5 AS score')}")
    con.execute(f"CREATE TABLE qrels AS {rows.format('item % 2 AS rel')}")
    unjudged = "SELECT query FROM run ORDER BY query LIMIT 1"
    con.execute(f"CREATE TABLE fewer AS FROM qrels WHERE query NOT IN ({unjudged})")
    for chosen in (False, True):
        by_lists(monkeypatch, chosen)
        for qrels in ("qrels", "fewer"):
            assert rankql.evaluate("run", qrels, ["nDCG@10", "AP"], con=con)["AP"] == 0.5


def test_output_has_no_other_columns(monkeypatch, tmp_path):
    by_lists(monkeypatch, True)
    rankql.evaluate(RUN, QRELS, "nDCG@10", output=tmp_path / "values.parquet")
    columns = pl.read_parquet(tmp_path / "values.parquet").columns
    assert not HIDDEN & {*columns}


@pytest.mark.parametrize("metric", ["nDCG@10", "AP"])
@pytest.mark.parametrize("case", ["all judged", "no judged query", "NaN"])
def test_transactions_of_the_user_go_on(monkeypatch, case, metric):
    """An error of our checks does not end the transaction, as one of DuckDB would."""
    run, qrels, _ = CASES[case]
    con = duckdb.connect()
    con.execute("CREATE TABLE kept AS SELECT 1 AS x")
    by_lists(monkeypatch, True)
    con.execute("BEGIN; INSERT INTO kept VALUES (2)").fetchall()
    found = outcome(run, qrels, metric, con=con)
    if case == "NaN":
        assert found == "run: score must be a number, not nan"
    else:
        assert con.execute("SELECT count(*) FROM kept").fetchall() == [(2,)]
    con.execute("ROLLBACK").fetchall()
    assert con.execute("SELECT count(*) FROM kept").fetchall() == [(1,)]
