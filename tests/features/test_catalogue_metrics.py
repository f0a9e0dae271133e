"""Metrics of the catalogue and of lists in evaluate and compare; of all rankings by brute force."""

import random
import re

import polars as pl
import pyndeval
import pytest

import rankql
from rankql import RankqlError
from support.calls import connected
from support.parameters import cycled, few
from support.refusals import refuses

RUN = pl.DataFrame(
    [
        (f"u{user}", f"i{item}", place, item * item % 50, ["a", "b"][item % 2])
        for user in range(12)
        for place, item in enumerate(random.Random(user).sample(range(20), 5), 1)
    ],
    schema=["query", "item", "pos", "popularity", "category"],
    orient="row",
).with_columns(created=pl.col("popularity") / 2, shown=pl.col("pos") + 30.0)
METRICS = {
    "coverage@3": "catalogue_coverage(item, catalogue := 25)",
    "gini@3": "gini(item, 25)",
    "gini": "gini(item, catalogue := 25, norm := 'n-1')",
    "entropy@3": "shannon_entropy(item)",
    "popularity@4": "average_popularity(popularity)",
    "novelty@4": "novelty(popularity, users := 60)",
    "freshness@3": "freshness(created, shown)",
    "personalisation@3": "personalisation(query, item)",
}
GINI = {"gini@3": METRICS["gini@3"]}
TWO = GINI | {"coverage@3": METRICS["coverage@3"]}
OTHER = RUN.with_columns(pl.col("item").replace({"i1": "i2"}))
OTHER = OTHER.unique(["query", "item"], maintain_order=True)
QRELS = RUN.select("query", "item", rel=1)


def value_of(run, metric):
    """The value of all rankings."""
    con = connected(run.filter(pl.col("pos") <= int(metric.partition("@")[2] or 5)))
    return con.sql(f"SELECT {METRICS[metric]} FROM input_rows").fetchall()[0][0]


@pytest.mark.slow
def test_values_of_slices_are_those_of_their_rankings():
    """Without an interval, and without a value per query. Some rows lack their slice."""
    slice_ = pl.when(pl.col("query") < "u3").then(pl.lit("x")).otherwise(pl.lit("y"))
    run = RUN.with_columns(part=pl.when(pl.col("pos") != 2).then(slice_))
    result = rankql.evaluate(run, metrics=METRICS, rel="1", by="part", interval="t")
    parts = {"part=x": RUN.filter(slice_ == "x"), "part=y": RUN.filter(slice_ == "y"), "all": RUN}
    for row in result.summary.iter_rows(named=True):
        rows = parts[row["slice"]]
        assert row["mean"] == pytest.approx(value_of(rows, row["metric"]), abs=1e-11)
        assert (row["lo"], row["hi"]) == (None, None)
        assert (row["queries"], row["undefined"]) == (rows["query"].n_unique(), 0)
    assert result.per_query.columns == ["query", "part"]
    assert any("no confidence interval" in line for line in result.remarks())
    assert result["gini@3"] == pytest.approx(value_of(RUN, "gini@3"))


@pytest.mark.slow
@few(1)("missing", ["zero", "skip"])
def test_judged_queries_count_and_missing_ones_show_nothing(missing):
    early = pl.col("query") < "u6"
    qrels = QRELS.filter(pl.col("query") != "u5")
    run = RUN.filter(pl.col("query") != "u3").with_columns(score=-pl.col("pos")).drop("pos")
    metrics = TWO | {"novelty@4": METRICS["novelty@4"]}
    about = QRELS.select("query", early=early)
    options = {"missing": missing, "undefined": "zero", "attributes": about, "by": "early"}
    result = rankql.evaluate(run, qrels, metrics, **options)
    rows = RUN.filter(~pl.col("query").is_in(["u3", "u5"]))
    parts = {"all": rows, "early=true": rows.filter(early), "early=false": rows.filter(~early)}
    for row in result.summary.iter_rows(named=True):
        value = value_of(parts[row["slice"]], row["metric"])
        assert row["mean"] == pytest.approx(value, abs=1e-11)


def test_compare_shows_both_values_and_no_test():
    comparison = rankql.compare({"a": RUN, "b": OTHER}, QRELS, metrics=TWO)
    for row in comparison.pairs.to_dicts():
        value, changed = (value_of(run, row["metric"]) for run in (RUN, OTHER))
        assert row["mean_a"] == pytest.approx(value, abs=1e-11)
        assert row["difference"] == pytest.approx(changed - value, abs=1e-11)
        assert (row["p"], row["lo"], row["hi"], row["wins"], row["n"]) == (*[None] * 4, 12)
        assert row["verdict"] == "one value for all queries"
        assert not re.search("beats|better|CI|p =", row["sentence"])
    result = rankql.evaluate(RUN, QRELS, TWO)
    assert result.lower_is_better("gini@3") and not result.lower_is_better("coverage@3")
    results = {"a": result, "b": rankql.evaluate(OTHER, QRELS, TWO)}
    assert rankql.compare(results).pairs.equals(comparison.pairs)
    three = rankql.compare(results | {"c": result}, metrics="gini@3")
    assert three.leaderboard()["rank_hi"].to_list() == [3, 3, 3]
    alone = rankql.compare({"a": result})
    assert alone.summary["mean"].to_list() == result.summary["mean"].to_list()


def test_gate_holds_values_to_limits():
    """There is no interval, so a default limit of 0 and a bound of the mean are refused."""
    old, new = (
        rankql.evaluate(
            run.with_columns(part=pl.col("query") < "u3"), metrics=TWO, rel="1", by="part"
        )
        for run in (RUN, OTHER)
    )
    options = {"by": "part", "min_queries": 2, "baseline": old, "minimum": "coverage@3>=0.5"}
    verdict = rankql.gate(new, max_drop=["gini@3:0.1", "coverage@3:0.001"], **options)
    table = verdict.table.filter(slice="all")
    assert table["status"].to_list() == ["passed", "passed", "failed"]
    drop = value_of(OTHER, "gini@3") - value_of(RUN, "gini@3")
    assert table["mean"][1] - table["baseline"][1] == pytest.approx(drop)
    assert verdict.table["lo"].null_count() == 9
    for texts in (table["message"][1:], [" ".join(verdict.remarks())]):
        assert all("no confidence interval" in text for text in texts)
    for refused in ({}, {"minimum_bound": True, "max_drop": "gini@3:0.1"}):
        with pytest.raises(RankqlError, match="has no confidence interval"):
            rankql.gate(new, **options, **refused)


WEIGHED = RUN.with_columns(w=1.0, category=pl.lit("a"), score=-pl.col("pos")).drop("pos")
test_what_is_refused = refuses("catalogue", globals(), "rankql.%s")


def test_metrics_of_all_lists_by_name():
    """Their cutoff is of the lists. The user's own may have the name too."""
    names = ["personalization@1,2", {"personalisation": "1 - personalisation(query, item)"}]
    run = pl.DataFrame({"query": [1, 1, 2, 2], "item": [1, 2, 1, 3], "rel": 1, "pos": [1, 2, 1, 2]})
    result = rankql.evaluate(run, metrics=names)
    values = {"personalization@1": 0, "personalization@2": 0.5, "personalisation": 0.5}
    assert {name: result[name] for name in result} == values
    for name in ("personalization@0", "personalization(p=1)", "gini@10"):
        with pytest.raises(rankql.RankqlError):
            rankql.evaluate(run, metrics=name)


def test_one_list_and_expressions_have_values():
    metrics = {"one": "personalisation(query, item)", "even@3": "1 - gini(item, 5 * 5)"}
    alone = rankql.evaluate(RUN[:5], metrics=metrics, rel="1")
    assert alone["one"] is None and "no query has a value" in repr(alone)
    even = rankql.evaluate(RUN, metrics=metrics, rel="1")["even@3"]
    assert even == pytest.approx(1 - value_of(RUN, "gini@3"))


def test_systems_with_different_queries_are_refused():
    """Their values are not those of the same rankings."""
    few = RUN.filter(pl.col("query") < "u4")
    runs = {"a": RUN, "b": few}
    old, new = (rankql.evaluate(run, metrics=GINI, rel="1") for run in (few, RUN))
    for call in (
        lambda: rankql.compare(runs, metrics=GINI, rel="1"),
        lambda: rankql.compare(runs, QRELS, metrics=GINI, missing="skip"),
        lambda: rankql.gate(new, baseline=old, max_drop="gini@3:0.1"),
    ):
        with pytest.raises(
            RankqlError, match=r"^gini@3 .* 6 of 12 queries are missing in '(b|bas)"
        ):
            call()
    with pytest.raises(RankqlError, match=r"^gini@3 cannot be combined"):
        rankql.combine([new, old])
    # A judged query that a run lacks shows nothing, in one run as in the other.
    table = rankql.compare(runs, QRELS, metrics=GINI).pairs
    assert table["mean_b"][0] == pytest.approx(value_of(few, "gini@3"))
    assert table.select("wins", "ties", "losses").row(0) == (None, None, None)


# Metrics of diversity over judgments with one row per subtopic

NDEVAL = {
    "alpha_nDCG@5": "alpha-nDCG@5",
    "alpha_nDCG@10": "alpha-nDCG@10",
    "ERR_IA@5": "ERR-IA@5",
    "STREC@5": "strec@5",
}


def random_judgments(seed):
    """Judgments (query, subtopic, item, rel) and rows of a run, which lacks one query."""
    rng = random.Random(seed)
    items = [f"d{i}" for i in range(16)]
    judged = [
        (q, s, item, rng.choice([0, 1, 1]))
        for q in "abcd" for item in items[:12] for s in "1234" if rng.random() < 0.4
    ]  # fmt: skip
    run = [(q, item, rng.random()) for q in "abc" for item in rng.sample(items, 12)]
    return judged, run


def frames(judged, run):
    run = pl.DataFrame(run, schema=["query", "item", "score"], orient="row")
    return run, pl.DataFrame(judged, schema=["query", "subtopic", "item", "rel"], orient="row")


@few(1)(
    ("seed", "form", "alpha"),
    cycled(range(1, 6), ["file", "frame", "lists", "positions"], [0.5, 0.3]),
)
def test_equal_to_pyndeval(seed, form, alpha, tmp_path):
    """Where the greedy ideal has no ties, which pyndeval breaks by name."""
    judged, rows = random_judgments(seed)
    run, qrels = frames(judged, rows)
    if form == "file":
        qrels = tmp_path / "diversity.qrels"
        qrels.write_text("".join(f"{q} {s} {item} {rel}\n" for q, s, item, rel in judged))
    elif form == "lists":
        relevant = pl.col("subtopic").filter(pl.col("rel") > 0).alias("subtopics")
        qrels = qrels.group_by("query", "item").agg(pl.max("rel"), relevant)
    elif form == "positions":
        run = run.select("query", "item", pos=pl.col("score").rank(descending=True).over("query"))
    theirs = pyndeval.ndeval(judged, rows, measures=[*NDEVAL.values()], alpha=alpha)
    names = [name if "STREC" in name else name.replace("@", f"(alpha={alpha})@") for name in NDEVAL]
    result = rankql.evaluate(run, qrels, names)
    values = {row["query"]: row for row in result.per_query.to_dicts()}
    assert values["d"]["STREC@5"] == 0  # judged, not retrieved
    for query, of_query in theirs.items():
        for name, other in zip(names, NDEVAL.values(), strict=True):
            ours = values[query][name]
            assert ours == pytest.approx(of_query[other], abs=2e-6), (query, name)


def test_beside_metrics_of_grades():
    """The grade of an item is its highest; intervals stay within the range of the metric."""
    run, qrels = frames(*random_judgments(1))
    result = rankql.evaluate(run, qrels, ["STREC@5", "P@5", "s = err_ia(subtopics, pos, 5)"])
    best = qrels.group_by("query", "item").agg(pl.max("rel"))
    assert result["P@5"] == rankql.evaluate(run, best, "P@5")["P@5"]
    assert result.summary["lo"][0] >= 0 and result.summary["hi"][0] <= 1
    assert 0 < result["s"] < 1
    assert any("subtopics are those of subtopic" in note for note in result.notes)


JUDGED_RUN, _ = frames(*random_judgments(1))
ONE = pl.DataFrame({"query": ["a"], "item": ["d1"], "rel": [1]})
test_subtopics_are_needed = refuses("subtopics", globals(), "rankql.%s")
