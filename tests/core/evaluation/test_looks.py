"""What evaluate sees in the rows of some queries, with the eyes of check."""

from random import Random
from statistics import fmean
from urllib.parse import quote

import duckdb
import polars as pl
import pytest
from scipy.stats import mannwhitneyu

import rankql
from rankql.core.evaluation.checks import looks, record
from support.parameters import few

# One id as run and judgments write it.
ALIKE = {
    "extension": ("guide-{}.md", lambda x: x[:-3]),
    "folder": ("src/a-{}.py", lambda x: "/srv/repo/" + x),
    "name alone": ("docs/a-{}.md", lambda x: x[5:]),
    "backslash": ("docs/a-{}.md", lambda x: x.replace("/", "\\")),
    "percent": ("a {} b.md", quote),
    "entity": ("a&b-{}", lambda x: x.replace("&", "&amp;")),
    "version": ("report-{}", lambda x: x + "@v2"),
    "lines": ("src/a-{}.py", lambda x: x + ":12-30"),
    "chunk": ("guide-{}", lambda x: x + "_chunk_3"),
    "quotes": ("guide-{}", lambda x: f'"{x}"'),
    "invisible": ("guide-{}", lambda x: x + "\u200b"),
    "scheme": ("http://x.org/{}", lambda x: x.replace("http", "https")),
    "hyphens": ("0a1b2c3d-4e5f-6071-8293-{:012d}", lambda x: x.replace("-", "")),
    "full width": ("使用指南（{}）", lambda x: x.replace("（", "(").replace("）", ")")),
    "other letters": ("Größe {}", lambda x: x.lower().replace(" ", "_")),
}
# Ids of two things.
APART = {
    "variant": ("SKU-{}", lambda x: x + "-RED"),
    "page below": ("guide/{}", lambda x: x + "/install"),
    "version": ("v1.{}1", lambda x: "v" + x[1:].replace(".", "", 1) + ".1"),
    "film": ("Paris {}", lambda x: x + " (film)"),
    "longer": ("doc{}", lambda x: x + "7"),
}
QUERIES = range(40)


def tables(pattern, spell, other=False):
    """A run that writes every second relevant id in another way, and the judgments."""
    gold = [pattern.format(n + 1) for n in QUERIES]
    found = [spell(x) if n % 2 else x for n, x in enumerate(gold)]
    run = pl.DataFrame({
        "query": [f"q{n}" for n in QUERIES for _ in range(2)],
        "docid": [x for n, y in enumerate(found) for x in (y, f"zz{n}")],
        "score": [2.0, 1.0] * len(QUERIES),
    })  # fmt: skip
    judged = [(f"q{n}", x, 1) for n, x in enumerate(gold)]
    if other:  # each form is judged for the next query
        judged += [(f"q{(n + 1) % len(gold)}", spell(x), 1) for n, x in enumerate(gold)]
    return run, pl.DataFrame(judged, schema=["query", "doc", "rel"], orient="row")


def notes(*tables, metrics="RR", **options):
    return rankql.evaluate(*tables, metrics=metrics, interval=None, **options).notes


@few(1)("name", ALIKE)
def test_ids_in_another_form_are_noted_with_a_call(name):
    run, qrels = tables(*ALIKE[name])
    (note,) = (x for x in notes(run, qrels) if "spelled differently" in x)
    assert note.startswith("20 relevant ids are spelled differently in the run and not found")
    if ". Pass item=" not in note:
        assert name in ("folder", "invisible", "hyphens", "other letters")
        return
    value = eval(note.partition("Pass item=")[2])  # a text or a list of two, as we wrote it
    assert rankql.evaluate(run, qrels, "RR", interval=None, item=value)["RR"] == 1


@few(2)("name", APART)
def test_ids_of_other_things_are_not_noted(name):
    assert not any("spelled" in note for note in notes(*tables(*APART[name], other=True)))


@few(1)("change", [str.upper, lambda x: "docs/" + x, lambda x: x + ".md"])
@pytest.mark.parametrize("queries", [3, 40])
def test_an_expression_that_repairs_all_ids_is_in_the_error(change, queries):
    if queries == 3 and change is not str.upper:
        return  # that takes 5 ids
    gold = [f"guide-{n}" for n in range(queries)]
    run = pl.DataFrame({"query": gold, "item": [change(x) for x in gold], "score": 1.0})
    qrels = pl.DataFrame({"query": gold, "item": gold, "rel": 1})
    with pytest.raises(rankql.RankqlError, match="No item of the run is judged") as error:
        rankql.evaluate(run, qrels, "RR", interval=None)
    (call,) = error.value.remedies
    assert rankql.evaluate(run, qrels, "RR", interval=None, **call)["RR"] == 1


def test_lists_are_told_with_an_expression_of_the_list():
    rows = [{"query": f"q{n}", "retrieved": [f"page-{n}.md", f"z{n}"], "relevant": [f"page-{n}"]}
            for n in QUERIES]  # fmt: skip
    rows[0]["retrieved"][0] = "page-0"  # one is found
    (note,) = (x for x in notes(rows) if "spelled differently" in x)
    value = eval(note.partition("Pass item=")[2])
    assert rankql.evaluate(rows, metrics="RR", interval=None, item=value)["RR"] == 1


def ranking(scores, grades, queries=QUERIES):
    rows = [(f"q{q}", f"d{i}", float(s), g) for q in queries
            for i, (s, g) in enumerate(zip(scores, grades, strict=True))]  # fmt: skip
    return pl.DataFrame(rows, schema=["query", "item", "score", "rel"], orient="row")


def test_scores_in_reverse_are_noted():
    """Rows are not in the order of their scores, so only the judgments say it."""
    data = ranking([3, 1, 4, 2, 5], [0, 1, 0, 0, 0])
    (note,) = notes(data)
    assert note == (
        "relevant items of the run rank higher in reverse order: RR 1.000, not 0.200. If score is "
        "best at the other end, pass descending=False"
    )
    assert notes(data, descending=False) == notes(data, descending=True) == []


def test_queries_that_find_themselves_are_noted():
    rows = [(f"q{q}", item, score, int(item == "d")) for q in QUERIES
            for item, score in ((f"q{q}", 2.0), ("d", 1.0))]  # fmt: skip
    data = pl.DataFrame(rows, schema=["query", "item", "score", "rel"], orient="row")
    (note,) = (x for x in notes(data) if "ignore_identical_ids=True" in x)
    assert "the same at position 1 in 40 of 40 queries" in note
    assert not any("position 1" in x for x in notes(data, ignore_identical_ids=True))


def test_ties_that_decide_are_noted():
    tied = ranking([3, 2, 2, 1], [0, 1, 0, 0])
    (note,) = notes(tied)
    assert note == (
        "in 40 of 40 queries of the run, item ids order equal scores of items of different "
        "relevance. To average over all orders, pass ties='expected'"
    )
    (note,) = notes(tied, metrics=["RR", "nERR"])  # which has no mean over all orders
    assert note.endswith("of different relevance")
    assert notes(tied, ties="expected") == notes(tied, ties="item") == []
    # Not below the cutoff, of equal grades, or in few queries.
    assert notes(tied, metrics="RR@1") == notes(ranking([2, 1, 1], [1, 0, 0])) == []
    few = ranking([2, 2, 1], [1, 0, 0], range(2))
    assert notes(pl.concat([few, ranking([3, 2, 1], [1, 0, 0], range(2, 42))])) == []
    findings = [x for x in rankql.check(tied).findings if x.kind == "deciding-ties"]
    assert [x.count for x in findings] == [40]


OTHER_IDS = {
    "text": pl.col("query"), "braces and quotes": "{" + pl.col("query") + "'}",
    "category": pl.col("query").cast(pl.Categorical),
    "numbers": pl.col("query").str.slice(1).cast(pl.Int64) - 500,
}  # fmt: skip


@few(2)("name", OTHER_IDS)
def test_of_many_queries_some_are_looked_at(name, monkeypatch):
    monkeypatch.setattr(looks, "_ROWS", 200)
    data = ranking([3, 2, 2, 1], [0, 1, 0, 0], range(1000))
    data = data.with_columns(query=OTHER_IDS[name])
    (note,) = notes(data)
    (count,) = {int(x.replace(",", "")) for x in note.split() if x.isdigit()}
    assert 20 <= count <= 100 and "queries of a sample" in note


@few(2)("queries", [1, 3, 1000])
def test_of_a_large_file_ranges_of_queries_are_copied(queries, monkeypatch, tmp_path):
    """Into temporary tables, of which nothing is left."""
    monkeypatch.setattr(looks, "_ROWS", 2)
    monkeypatch.setattr(looks, "_MANY_ROWS", 0)
    data, path = ranking([3, 2, 2, 1], [0, 1, 0, 0], range(queries)), tmp_path / "run.parquet"
    pl.concat([data.with_columns(system=pl.lit(x)) for x in "ab"]).write_parquet(path)
    seen = record_looks(monkeypatch)
    with duckdb.connect() as con:
        found = notes(path, con=con, system="system")
        assert con.sql("SELECT table_name FROM duckdb_tables()").fetchall() == []
    assert [x.system for x in seen] == ["a", "b"]
    assert all(0 < x.queries == x.tied <= 10 for x in seen)
    assert queries == 1 or any("queries of a sample of" in x for x in found)


def record_looks(monkeypatch):
    """What later calls see in rankings."""
    seen, look = [], record.look_at_rankings
    monkeypatch.setattr(record, "look_at_rankings", lambda *x: seen.extend(look(*x)) or seen)
    return seen


def test_rankings_are_looked_at_by_their_definition(monkeypatch):
    """With the test of Mann and Whitney in SciPy, and with ties."""
    random, rows, gaps, variances, ranks, tied = Random(7), [], [], [], [], 0
    for query in range(50):
        scores = [random.choice([0.5, 1, 2, random.random() * 3]) for _ in range(12)]
        grades = [random.choice([None, 0, 0, 1, 2]) for _ in scores]
        rows += [(f"q{query}", f"d{i}", *x) for i, x in enumerate(zip(scores, grades, strict=True))]
        hits = [s for s, g in zip(scores, grades, strict=True) if g]
        others = [s for s, g in zip(scores, grades, strict=True) if not g]
        if hits and others:
            gaps.append(mannwhitneyu(hits, others).statistic - len(hits) * len(others) / 2)
            variances.append(len(hits) * len(others) * 13 / 12)
            ranks.append((1 / (1 + sum(x > max(hits) for x in scores)),
                          1 / (1 + sum(x < min(hits) for x in scores))))  # fmt: skip
        fifth = sorted(scores)[-5]
        worth = {x: {g or 0 for s, g in zip(scores, grades, strict=True) if s == x} for x in scores}
        tied += any(len(y) > 1 and x >= fifth for x, y in worth.items())
    seen = record_looks(monkeypatch)
    notes(pl.DataFrame(rows, schema=["query", "item", "score", "rel"], orient="row"), metrics="P@5")
    (look,) = seen
    assert look.z == pytest.approx(sum(gaps) / sum(variances) ** 0.5)
    assert (look.forward, look.backward) == pytest.approx(
        [fmean(x) for x in zip(*ranks, strict=True)]
    )
    assert look.tied == tied


@few(3)("seed", range(30))
def test_the_gap_of_ranks_is_that_of_mann_and_whitney(seed):
    rng = Random(seed)
    n = rng.randrange(3, 30)
    places = rng.sample(range(1, n + 1), rng.randrange(1, n))
    others = [x for x in range(1, n + 1) if x not in places]
    u = mannwhitneyu(others, places).statistic
    gap, variance = looks.rank_gap(n, len(places), sum(places))
    assert gap == u - len(places) * len(others) / 2
    assert variance == len(places) * len(others) * (n + 1) / 12


def lists(short, long=12, queries=20, at=3):
    """Every `at`th query has a short list."""
    sizes = [long if n % at else short for n in range(queries)]
    return {f"q{n}": {f"d{i}": float(-i) for i in range(size)} for n, size in enumerate(sizes)}


def short_lists(run, metrics="R@10"):
    """The notes on short lists."""
    qrels = {q: ["d1", "d11"] for q in run.get("b", run)}
    return [x for x in rankql.evaluate(run, qrels, metrics).notes if "at most half" in x]


@few(3)(
    ("run", "metrics", "words"),
    [
        (lists(5), "R@10", "7 of 20 queries of the run have at most half of 10 items. What"),
        (lists(1), ["RR", "R@5", "R@20"], "7 of 20 queries of the run have at most half of 20"),
        (lists(5) | {"q1": {}}, "R@10", "8 of 20 queries of the run have at most half of 10 item"),
        ({"a": lists(2, 40), "b": lists(40, 40)}, "P@20", "7 of 20 queries of run 'a' have at m"),
        (lists(0), "R@10", ""),  # missing, as another note says
        (lists(6), "R@10", ""),  # more than half
        (lists(5), "RR", ""),
        (lists(5, at=20), "R@10", ""),  # one of 20
        (lists(4, long=9), "R@10", ""),  # short by nature
        (lists(5, long=10), "R@100", ""),  # all are cut
        (lists(5, queries=9), "R@10", ""),
    ],
)
def test_many_short_lists_are_noted(run, metrics, words):
    notes = short_lists(run, metrics)
    assert bool(notes) == bool(words)
    assert all(words in x for x in notes)


def test_short_lists_of_queries_that_are_not_judged_are_not_noted():
    run = lists(12) | {f"u{n}": {"d1": 1.0} for n in range(9)}
    qrels = {q: ["d1", "d11"] for q in lists(12)}
    counted = rankql.evaluate(run, qrels, "R@10", unjudged_queries="count")
    assert "9 of 29 queries of the run have at most half of 10 items" in str(counted)
    assert "at most half" not in str(rankql.evaluate(run, qrels, "R@10"))


@pytest.mark.parametrize("system", [None, "a"])
def test_check_says_which_lists_are_short(system):
    run = lists(6) | {"q0": {}}
    runs = {"a": run, "b": lists(12)} if system else run
    (found,) = [x for x in rankql.check(runs, {q: ["d1"] for q in run}) if x.kind == "short-lists"]
    assert "6 of 19 queries have fewer than 10 items" in str(found)
    nothing = rankql.check(lists(12), {q: ["d1"] for q in run})
    assert "short-lists" not in {x.kind for x in nothing}
