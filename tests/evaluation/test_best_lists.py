"""Packed tops from lists of the best grades equal those of the window, ties and all."""

import random

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import best_lists, list_choice
from support import metric_engines
from support.parameters import cycled

TIED = [0.0, -0.0, 1.0, 2.0, 0.5, 1e300, float("inf"), float("-inf"), None]
FEW_TIES = [*range(300), None]
METRICS = {
    1: ["nDCG@10", "AP@20", "RR@7", "P@10", "R@10", "F1@5"],
    3: ["nDCG@10,20", "nDCG(gain=exp2)@5", "IDCG@5", "ERR@10", "RBP(p=0.8)@20", "P(rel=2)@10"],
    5: ["nDCG@1,12", "DCG@3", "CG@5", "Success@2", "ARHR@15"],
}
# Those with an average over the orders of tied items.
EXPECTED = ["nDCG@10,20", "nDCG(gain=exp2)@5", "IDCG@5", "RBP(p=0.8)@20", "P(rel=2)@10", "AP@9"]
EXPECTED += ["DCG@3", "CG@5", "Success@2", "ARHR@15", "RR@7", "R@10", "F1@5"]
LAST = {1: 90, 3: 30, 5: 22}


def ranked_by_score(seed, end, scores, systems="AB"):
    """Rankings of 0 to 60 items; some are unjudged, some have no gain."""
    rng = random.Random(f"{seed} {end}")
    rows = [
        (system, f"q{name}", f"d{i}", rng.choice(grades), score, name % 3)
        for system in systems
        for name in range(25)
        for grades in [[*range(end + 1), None, 0, 0] if name % 4 else [0, None]]
        for i, score in enumerate(rng.choices(scores, k=rng.choice([1, 5, 20, 60])))
    ]
    rng.shuffle(rows)
    columns = ["system", "query", "item", "rel", "score", "segment"]
    schema = [*columns[:3], ("rel", pl.Int64), ("score", pl.Float64), columns[5]]
    return pl.DataFrame(rows, schema, orient="row")


def evaluated(monkeypatch, by_lists, table, metrics, reads_lists=None, **options):
    monkeypatch.setattr(list_choice, "suit_best_lists", lambda *_, **suited: by_lists)
    result = rankql.evaluate(table, None, metrics, interval=None, **options)
    assert ("arg_max" in result.sql) == (by_lists if reads_lists is None else reads_lists)
    return result


def hold(monkeypatch, table, metrics, reads_lists=True, **options):
    """The values by lists are those of the window."""
    window = evaluated(monkeypatch, False, table, metrics, **options)
    lists = evaluated(monkeypatch, True, table, metrics, reads_lists, **options)
    assert_frame_equal(lists.per_query, window.per_query, abs_tol=1e-12, rel_tol=1e-12)
    assert_frame_equal(lists.summary, window.summary, abs_tol=1e-12, rel_tol=1e-12)
    assert lists.conventions == window.conventions
    return lists


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", ["item", "order", "best", "worst"])
@pytest.mark.parametrize("end", METRICS)
def test_equal_to_the_window(monkeypatch, seed, ties, end):
    """With many ties or few, infinite scores, zeros of both signs and items without a score."""
    table = ranked_by_score(seed, end, TIED if seed else FEW_TIES)
    hold(monkeypatch, table, METRICS[end], ties=ties, system="system", by="segment")


@pytest.mark.parametrize(("end", "k"), cycled([1, 3, 5] * 2, [-1, 0]))
def test_most_digits(monkeypatch, end, k):
    """The last position that can be packed, which takes an integer of 128 bits."""
    table = ranked_by_score(7, end, TIED)
    hold(monkeypatch, table, f"nDCG@{LAST[end] + k}", system="system")
    full = [("q", f"d{i}", end, float(i)) for i in range(120)]
    table = pl.DataFrame(full, ["query", "item", "rel", "score"], orient="row")
    assert hold(monkeypatch, table, f"nDCG@{LAST[end] + k}").per_query.row(0)[1] == 1


def test_options(monkeypatch):
    table = ranked_by_score(2, 3, TIED)
    only = table.filter(pl.col("system") == "A").drop("system")
    hold(monkeypatch, only, "nDCG@10")
    hold(monkeypatch, only, "nDCG@10", descending=False)
    hold(monkeypatch, only.with_columns(-pl.col("score").fill_null(0).abs()), "nDCG@10")
    hold(monkeypatch, only, ["nDCG@10", "P@3"], undefined="drop")
    hold(monkeypatch, only, ["nDCG@10"], unjudged="remove", reads_lists=False)
    hold(monkeypatch, only, ["nDCG@10", "AP"], reads_lists=False)
    hold(monkeypatch, only, ["nDCG@10", "microP@5", "microR@10"], reads_lists=False)
    about = only.select("query", part=pl.col("query").str.len_chars()).unique()
    hold(monkeypatch, only.drop("segment"), "nDCG@10", attributes=about, by="part")
    hold(monkeypatch, {"a": only, "b": only.with_columns(-pl.col("score"))}, "nDCG@10")
    for name in ("items", "invalid", "best", "tied", "tops", "least"):
        renamed = only.rename({"query": name}).with_columns(tied_cuts=pl.col("segment"))
        hold(monkeypatch, renamed, "nDCG@10", query=name, by="tied_cuts")
    hold(monkeypatch, only, ["nDCG@10", "own = count(score)"], reads_lists=False)
    hold(monkeypatch, only.with_columns(pl.col("rel") * 1.5), "nDCG@10", reads_lists=False)


def untied(seed):
    """Every score once."""
    table = ranked_by_score(seed, 3, [0.0]).sample(fraction=1, shuffle=True, seed=seed)
    return table.with_columns(score=pl.int_range(pl.len()).cast(pl.Float64))


@pytest.mark.parametrize("conventions", ["sklearn", "rankql"])
@pytest.mark.parametrize("seed", range(2))
def test_expected_ties(monkeypatch, seed, conventions):
    """Rankings without ties need no average. Ties after the first k + 1 are none that matter."""
    options = {"system": "system", "conventions": conventions, "ties": "expected"}
    table = untied(seed)
    hold(monkeypatch, table, EXPECTED, **options)
    last = pl.col("score").rank(descending=True).over("system", "query")

    def tied_from(position):
        return table.with_columns(score=pl.when(last >= position).then(-1.0).otherwise("score"))

    hold(monkeypatch, tied_from(21), ["nDCG@20", "P@5"], **options)
    hold(monkeypatch, tied_from(20), ["nDCG@20", "P@5"], reads_lists=False, **options)
    hold(monkeypatch, table.with_columns(score=pl.when(last > 1).then("score")), "nDCG@3",
         reads_lists=False, **options)  # fmt: skip


@pytest.mark.parametrize("metric", ["ERR(max_rel=3)@5", "AP(denominator=found)@5"])
def test_no_expected_ties(monkeypatch, metric):
    """What cannot be averaged over orders is refused, with ties or without."""
    words = []
    for by_lists in (False, True):
        with pytest.raises(rankql.RankqlError) as error:
            evaluated(monkeypatch, by_lists, untied(1), metric, system="system", ties="expected")
        words.append(str(error.value))
    con = metric_engines.connect()
    macro = "ap_by_score(1, 2.0, 3, denominator := 'found', ties := 'expected')"
    macro = (
        "err_by_score(1, 2.0, 3, max_rel := 3, ties := 'expected')" if "ERR" in metric else macro
    )
    with pytest.raises(duckdb.Error) as error:
        con.sql(f"SELECT {macro}").fetchall()
    assert words[0] == words[1] and words[0] in str(error.value)


def test_ties_in_a_transaction(monkeypatch):
    """A query that fails would end it, so it is not tried."""
    con = duckdb.connect()
    con.register("frame", ranked_by_score(1, 3, TIED, "A").drop("system").to_arrow())
    con.execute("CREATE TABLE t AS FROM frame; BEGIN").fetchall()
    hold(monkeypatch, "t", "nDCG@10", reads_lists=False, conventions="sklearn", con=con)
    hold(monkeypatch, "t", "nDCG@10", con=con)
    con.execute("COMMIT")
    hold(monkeypatch, "t", "nDCG@10", reads_lists=False, conventions="sklearn", con=con)
    hold(monkeypatch, "t", "nDCG@10", con=con)


def test_refused(monkeypatch):
    """What the window refuses: NaN, duplicates, and too many items with a gain for the counts."""
    table = untied(1).filter(pl.col("system") == "A").drop("system")
    for wrong, words in (
        (table.with_columns(score=pl.when(pl.col("item") == "d3").then(float("nan"))
                            .otherwise("score")), "score must be a number, not nan"),
        (pl.concat([table, table.filter(rel=3).head(1)]), "run has duplicates"),
    ):  # fmt: skip
        with pytest.raises(rankql.RankqlError, match=words):
            evaluated(monkeypatch, True, wrong, "nDCG@10")
    many = pl.select(query=1, item=pl.int_range(70_000), rel=3, score=pl.int_range(70_000) * 1.0)
    hold(monkeypatch, many, "nDCG@10", reads_lists=False)


def test_settings(monkeypatch):
    """The order of lists is ours, whatever the user's is."""
    con = duckdb.connect()
    con.execute("SET default_order = 'DESC'; SET default_null_order = 'NULLS FIRST'")
    con.register("frame", ranked_by_score(3, 3, TIED, "A").drop("system").to_arrow())
    con.execute("CREATE TABLE t AS FROM frame").fetchall()
    hold(monkeypatch, "t", METRICS[3], con=con)


@pytest.mark.parametrize(
    ("rows", "rankings", "k", "limit", "suits"),
    [(50_000, 1_000, 10, "8GB", True), (49_999, 1_000, 10, "8GB", False),
     (60_000, 60_000, 20, "8GB", True), (60_000, 60_000, 20, "500MB", False),
     (60_000, 600, 20, "500MB", True), (2_000_000, 600, 20, "8GB", True),
     (2_000_000, 1_000_000, 20, "8GB", False)],
)  # fmt: skip
def test_large_tables_with_room_for_the_lists_suit(rows, rankings, k, limit, suits):
    con = duckdb.connect()
    con.execute(
        f"SET memory_limit = '{limit}'; CREATE TABLE run AS "
        f"SELECT i % {rankings} AS query, 'A' AS system FROM range({rows}) t(i)"
    )
    ask = lambda sql: con.execute(sql).fetchall()  # noqa: E731
    assert best_lists.suit_best_lists(ask, rows, "query", k) == suits
    assert best_lists.suit_best_lists(ask, rows, "system, query", k) == suits


def test_short_rankings_in_little_memory():
    """A window spills to disk, in a transaction too."""
    con = duckdb.connect()
    con.execute("""SET memory_limit = '300MB'; CREATE TABLE t AS
        SELECT i // 2 AS query, i AS item, (hash(i) % 4)::INT AS rel, hash(i)::DOUBLE AS score
        FROM range(3_000_000) t(i); BEGIN""").fetchall()
    result = rankql.evaluate("t", None, "nDCG@20", con=con, interval=None)
    assert result.per_query.height == 1_500_000 and "arg_max" not in result.sql


@pytest.mark.parametrize(
    ("query", "suits"),
    [("i // 100", True), ("hash(i) % 1000", True), ("i", False), ("i // 5", False),
     ("hash(i) % 20_000", False),
     # Long rankings come first, or last.
     ("CASE WHEN i < 10_000 THEN i // 1000 ELSE i END", False),
     ("least(i, 10_000 + i // 1000)", False), ("least(greatest(i, 5000), 6000)", True)],
)  # fmt: skip
def test_all_rows_tell_long_rankings(query, suits):
    con = duckdb.connect(config={"memory_limit": "900MB"})
    con.execute(f"CREATE TABLE run AS SELECT {query} AS query FROM range(100_000) t(i)")

    def ask(sql):
        return con.execute(sql).fetchall()

    assert best_lists.suit_best_lists(ask, 100_000, "query", 21) == suits


def test_large_table():
    """As they come: lists for many rows, the window for few, ties or not."""
    table = pl.DataFrame({"i": range(60_000)}).select(
        query=pl.col("i") // 100,
        item=pl.col("i") % 100,
        rel=pl.col("i").hash(1) % 4,
        score=pl.col("i").hash(2) % 1000 / 1000,
    )
    result = rankql.evaluate(table, None, ["nDCG@10", "RR@10"], interval=None)
    assert "arg_max" in result.sql
    small = rankql.evaluate(
        table.filter(pl.col("query") < 300), None, ["nDCG@10", "RR@10"], interval=None
    )
    assert "arg_max" not in small.sql
    assert_frame_equal(result.per_query.head(300), small.per_query, rel_tol=1e-12)
