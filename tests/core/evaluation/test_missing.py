"""A missing query counts as the worst value of each metric: no run gains by leaving queries out."""

import random
from functools import cache

import polars as pl
import pytest

import rankql
from rankql.core.evaluation.means.means import COUNTED
from rankql.decisions.pair_table import OWN_MEANS
from support.parameters import cycled, few

HIGHER = [
    "nDCG@10", "DCG@10", "CG@10", "AP", "RR", "P@3", "R@3", "F1@3", "Success@1", "Rprec", "IPrec",
    "RBP(p=0.8)", "ERR(max_rel=3)", "nERR(max_rel=3)", "Bpref", "infAP", "ARHR",
]  # fmt: skip
LOWER = ["RBPres(p=0.8)", "TauDistance", "RMSE", "MSE", "MAE", "FalseAbstention"]


def rankings(seed, signed=False, queries=30):
    """A run and judgments; in some queries nothing is relevant."""
    rng, run, qrels = random.Random(seed), [], []
    grades = [0, 0, 1, 2, 3] + [-1] * signed
    for query in range(queries):
        for item in range(6):
            run.append((f"q{query}", f"d{item}", rng.gauss(0, 1)))
            if item == 5 or rng.random() < 0.8:
                grade = rng.choice(grades) if query % 6 else 0
                qrels.append((f"q{query}", f"d{item}", grade))
    columns = ["query", "item", "score"], ["query", "item", "rel"]
    return tuple(
        pl.DataFrame(rows, names, orient="row")
        for rows, names in zip((run, qrels), columns, strict=True)
    )


@cache
def evaluated(seed):
    return rankql.evaluate(*rankings(seed), HIGHER + LOWER, interval=None)


def without_worst(run, seed, metric, count):
    """The run without the queries with the worst values."""
    values = evaluated(seed).per_query.select("query", metric).drop_nulls()
    worst = values.sort(metric, descending=metric in LOWER)["query"].head(count)
    return run.filter(~pl.col("query").is_in(worst.implode()))


@few(2)(("metric", "seed"), cycled([*dict.fromkeys(["nDCG@10", "RMSE", *HIGHER, *LOWER])], [1, 2]))
def test_no_run_gains_by_leaving_out_its_worst_queries(metric, seed):
    run, qrels = rankings(seed)
    part = without_worst(run, seed, metric, 10)
    full, partial = evaluated(seed), rankql.evaluate(part, qrels, metric, interval=None)
    sign = -1 if metric in LOWER else 1
    # A metric without a worst value leaves queries out and says so.
    bounded = metric not in ("TauDistance", "RMSE", "MSE", "MAE")
    if bounded:
        assert sign * partial[metric] <= sign * full[metric] + 1e-12
    else:
        assert f"{metric}: " in " ".join(partial.notes) and "left out" in " ".join(partial.notes)
    if metric not in ("nDCG@10", "RBPres(p=0.8)", "RMSE"):
        return
    comparison = rankql.compare({"full": run, "part": part}, qrels, metric)
    row = comparison.pairs.row(0, named=True)
    if bounded:
        assert row["mean_b"] == pytest.approx(partial[metric], abs=1e-12)
        (summary,) = full.summary.filter(metric=metric).to_dicts()
        assert row["n"] == summary["queries"] - summary["undefined"]
    else:
        assert row["n"] == 20 and row["mean_a"] == pytest.approx(row["mean_b"], abs=1e-12)
        assert "20 queries that both rank" in repr(comparison).split("\n")[0]
    limit = rankql.gate(part, qrels, baseline=run, max_drop=f"{metric}:0", min_queries=1)
    mean, baseline = (limit.table[name][0] for name in ("mean", "baseline"))
    assert mean == pytest.approx(row["mean_b"]) and baseline == pytest.approx(row["mean_a"])


def test_0_is_not_the_worst_of_a_query_with_a_grade_below_0():
    """The query is left out of the sums of gains, as they may be below 0."""
    run, qrels = rankings(3, signed=True)
    negative = qrels.filter(pl.col("rel") < 0)["query"].unique()
    part, metrics = run.filter(~pl.col("query").is_in(negative.implode())), ["DCG", "CG", "nDCG"]
    values = rankql.evaluate(part, qrels, metrics, negative="keep").per_query
    absent = values.filter(pl.col("query").is_in(negative.implode()))
    for metric in metrics:
        assert len(absent) == len(negative) == absent[metric].null_count()


@few(1)("undefined", ["skip", None, "zero", "one"])
def test_it_is_left_out_whatever_an_undefined_value_counts(undefined, tmp_path):
    """By hand: q1 is missing and has a grade below 0, so the mean of DCG is that of -1 and 3."""
    run = [("q3", "a", 2.0), ("q3", "g", 1.0), ("q4", "d", 1.0)]
    qrels = [("q1", "c", 0), ("q1", "f", 3), ("q1", "d", -1), ("q3", "b", 0), ("q3", "a", -1)]
    qrels += [("q4", "d", 3), ("q4", "g", 1)]
    run = pl.DataFrame(run, ["query", "item", "score"], orient="row")
    qrels = pl.DataFrame(qrels, ["query", "item", "rel"], orient="row")
    rule = {"unjudged_queries": "count"} if undefined is None else {"undefined": undefined}
    metrics = ["DCG@3", "CG@3"]
    result = rankql.evaluate(run, qrels, metrics, **rule)
    assert result.summary["mean"].to_list() == [1, 1]
    assert result.summary.select("queries", "undefined", "missing").rows() == [(3, 0, 1)] * 2
    assert "DCG@3: missing queries are left out, as it has no worst value" in repr(result)
    last = pl.col("query") == "q4"
    days = [rankql.evaluate(run.filter(x), qrels.filter(x), metrics, **rule) for x in (~last, last)]
    assert rankql.combine(days).summary.equals(result.summary)
    full = pl.concat([run, pl.DataFrame({"query": ["q1"], "item": ["d"], "score": [1.0]})])
    pairs = rankql.compare({"full": full, "run": run}, qrels, metrics, **rule).pairs
    assert pairs.select("mean_a", "mean_b", "n").rows() == [(1, 1, 2)] * 2
    drop = rankql.gate(run, qrels, baseline=full, max_drop="DCG@3:1", min_queries=1, **rule).table
    assert drop.select("mean", "baseline", "n").row(0) == (1, 1, 2)


def test_what_a_missing_query_counts():
    """By hand: q is judged and missing, in n nothing is relevant."""
    run = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [1.0]})
    qrels = pl.DataFrame({"query": [*"aqn"], "item": [*"xyz"], "rel": [1, 2, 0]})
    names = ["nDCG", "DCG", "RBPres(p=0.8)", "IDCG", "FalseAnswer", "FalseAbstention"]
    names += ["TauDistance"]
    for rule in ("zero", "skip"):
        frame = rankql.evaluate(run, qrels, names, missing=rule, interval=None).per_query
        values = {row[0]: row[1:] for row in frame.rows()}
        silent = (None, 1), (0, None)
        assert (values["q"][4:6], values["n"][4:6]) == silent
        if rule == "zero":
            assert values["q"][:4] == (0, 0, 1, 0) and values["q"][6] is None


# a and b lack 10 queries each, 5 of them both. Of 15 queries nothing is relevant.
IDS = [f"q{i:03}" for i in range(100)]
LISTS = pl.DataFrame({"query": IDS}).join(pl.DataFrame({"item": [*"vwxyz"]}), how="cross")
GRADED = LISTS.with_columns(
    w=pl.col("query").str.tail(1).cast(int), score=pl.int_range(500) * 7 % 11,
    rel=pl.int_range(500) * 5 % 13 % 3 * (pl.col("query").str.tail(3).cast(int) % 7 > 0),
)  # fmt: skip
JUDGED, SCORED = GRADED.drop("score"), GRADED.drop("rel", "w")
TWO = {
    "a": SCORED.filter(pl.col("query").is_in(IDS[:90])),
    "b": SCORED.filter(pl.col("query").is_in(IDS[5:95])).with_columns(-pl.col("score")),
}
EMPTY = {x for x in IDS if int(x[1:]) % 7 == 0}
NAMES = ["nDCG@3", "P@3", "RMSE", "FalseAnswer", "microP@3"]


@few(1)("compared", [False, True])
@pytest.mark.parametrize(("missing", "undefined"), [("zero", "skip"), ("skip", "zero")])
def test_a_query_is_missing_or_undefined_or_counts(missing, undefined, compared):
    function = rankql.compare if compared else rankql.evaluate
    result = function(TWO, JUDGED, NAMES, missing=missing, undefined=undefined)
    values = result.result if compared else result
    for row in values.means.to_dicts():
        lacking = set(IDS[90:] if row["system"] == "a" else IDS[:5] + IDS[95:])
        name, absent = row["metric"], {*IDS[:5], *IDS[90:]} if compared else lacking
        skipped = name == "RMSE" or (missing == "skip" and name != "FalseAnswer")
        left_out = absent if skipped else set()
        empty = {"nDCG@3": EMPTY, "FalseAnswer": {*IDS} - EMPTY}.get(name, set()) - left_out
        assert row["missing"] == len(left_out or lacking)
        assert row["undefined"] == len(empty)
        dropped = empty if undefined == "skip" or name == "FalseAnswer" else set()
        assert row[COUNTED] == 100 - len(left_out) - len(dropped)
        if compared:
            pair = result.pairs.filter(metric=name).row(0, named=True)
            assert pair["n"] == row[COUNTED]
            assert pair["difference"] == pytest.approx(pair["mean_b"] - pair["mean_a"])


@few(1)("options", [{"missing": "skip"}, {"conventions": "trec_eval"}, {}])
def test_the_mean_of_the_values_per_query_is_the_mean(options, tmp_path):
    """A missing query that is left out has no value, as in the output of trec_eval -q."""
    result = rankql.evaluate(TWO, JUDGED, ["P@3", "RMSE", "FalseAnswer"], **options)
    means = result.per_query.group_by("system").agg(pl.col(result.metrics).mean())
    for system, *values in means.rows():
        for name, value in zip(result.metrics, values, strict=True):
            mean = result.summary.filter(system=system, metric=name)["mean"].item()
            assert value == pytest.approx(mean)
    absent = result.per_query.filter(pl.col("query").is_in(IDS[90:]), system="a")
    counted = [] if options else ["P@3"]
    assert [x for x in ("P@3", "RMSE") if absent[x].count()] == counted
    result.save_values(tmp_path / "values.parquet")
    again = rankql.combine([tmp_path / "values.parquet"])
    assert again.per_query.equals(result.per_query) and again.summary.equals(result.summary)


@pytest.mark.slow
def test_the_line_of_queries_says_what_the_table_counts():
    def lines(names, function=rankql.compare, **options):
        result = function(TWO, JUDGED, names, **options)
        return [x for x in result.remarks() if x.startswith(("Queries:", "Weights:"))]

    both = lines(["nDCG@3", "P@3"], missing="skip", weight="w")
    assert both == [
        "Queries: 15 of 100 missing in at least one system and left out; 12 of 100 (nDCG@3) "
        f"undefined in at least one system and left out; {OWN_MEANS.words}",
        "Weights: w. 85 queries weigh as much as about 62 with equal weights (n_eff); 8 queries of "
        "weight 0 do not count",
    ]
    assert "85 queries weigh" in lines("nDCG@3", missing="skip", weight="w")[1]
    assert lines(["RMSE", "FalseAnswer"], undefined="zero") == [
        "Queries: 15 of 100 (RMSE) missing in at least one system and left out; 85 of 100 "
        "(FalseAnswer) undefined in at least one system and left out"
    ]
    assert lines("nDCG@3", undefined="zero")[0].endswith(
        "; 15 of 100 undefined in at least one system and counted as 0"
    )
    notes = rankql.compare(TWO, JUDGED, ["AP", "FalseAnswer"], undefined="zero").notes
    assert any("FalseAnswer counts what is shown" in x and "leave" not in x for x in notes)
    alone = lines("nDCG@3", rankql.evaluate, missing="skip")
    assert alone == ["Queries: 100; 10 of 100 missing; 13 of 100 undefined"]


def test_the_profile_of_trec_eval_compares_what_both_rank():
    """A query that b lacks is not 0 in a."""
    comparison = rankql.compare(TWO, JUDGED, ["nDCG@3", "AP"], conventions="trec_eval")
    shared = [run.filter(pl.col("query").is_in(IDS[5:90])) for run in TWO.values()]
    alone = [rankql.evaluate(x, JUDGED, ["nDCG@3", "AP"], conventions="trec_eval") for x in shared]
    for row in comparison.pairs.to_dicts():
        means = [each[row["metric"]] for each in alone]
        assert [row["mean_a"], row["mean_b"]] == pytest.approx(means)
        assert row["difference"] == pytest.approx(means[1] - means[0])


def test_an_error_names_the_run_that_lacks_queries():
    for kind, what in (("missing", "with judgments but not"), ("undefined", "with an undefined")):
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate(TWO, JUDGED, "nDCG@3", **{kind: "error"})
        count = 10 if kind == "missing" else 15
        first, second = str(error.value).split("; ")
        for text, system in ((first, "'a'"), (second, "'b'")):
            assert text.startswith(f"{count} queries {what}") and f" in {system}, such as" in text
    with pytest.raises(rankql.RankqlError, match=r"^5 queries with .* not in 'b', such as 'q000'"):
        rankql.evaluate({"a": GRADED, "b": GRADED[25:]}, JUDGED, "P@3", missing="error")


def test_skip_names_the_metrics_that_count_missing_queries():
    """They measure whether nothing is shown. Without them the line is plain."""
    names = ["P@3", "FalseAbstention", "FalseAnswer"]
    for rules, expected in (
        ({"missing": "skip"}, "(missing=skip (not FalseAbstention and FalseAnswer))"),
        ({}, "rankql (defaults)"),
    ):
        result = rankql.evaluate(TWO, JUDGED, names, **rules)
        assert any(note.endswith(expected) for note in result.remarks()), result.remarks()
    plain = rankql.evaluate(TWO, JUDGED, "P@3", missing="skip").remarks()
    assert any(note.endswith("(missing=skip)") for note in plain)


def test_a_metric_without_a_worst_value_counts_missing_queries_once():
    result = rankql.evaluate(TWO, JUDGED, ["RMSE", "P@3"])
    assert "Queries: 100; 10 of 100 missing" in result.remarks()
    (note,) = (x for x in result.notes if x.startswith("RMSE"))
    assert note.startswith("RMSE: missing queries are left out, as") and "10" not in note
    signed = JUDGED.with_columns(rel=pl.col("rel") - (pl.col("query") > IDS[93]).cast(int))
    notes = rankql.evaluate(TWO, signed, "DCG@3", negative="keep").notes
    assert any("DCG@3: 6 of 10 (a), 5 of 10 (b) missing queries are left out" in x for x in notes)


def test_tables_of_means_keep_the_line_of_queries():
    result = rankql.evaluate(TWO, JUDGED, ["nDCG@3", "P@3"], by="w")
    line = "Queries: 100; 10 of 100 missing; 15 of 100 (nDCG@3) undefined"
    assert line in result.remarks() and line in result.wide().remarks()
    assert line in rankql.evaluate(TWO["a"], JUDGED, ["nDCG@3", "P@3"], by="w").wide().remarks()
    comparison = rankql.compare(TWO, JUDGED, "nDCG@3", missing="skip")
    lines = [x for x in comparison.remarks() if x.startswith("Queries")]
    assert lines and {*lines} <= {*comparison.wide().remarks()}


def test_a_caption_speaks_of_intervals_that_the_table_has():
    for run, options, has in (
        (TWO, {}, False), (TWO["a"], {}, True), (TWO["a"], {"interval": None}, False)
    ):  # fmt: skip
        result = rankql.evaluate(run, JUDGED, "P@3", **options)
        assert ("intervals" in result.to_latex()) == has
        assert ("intervals" in result._repr_html_()) == has
    long = rankql.evaluate(TWO, JUDGED, "P@3").long()
    assert r"95\% confidence intervals" in long.to_latex()


def noted(runs, qrels, function=rankql.evaluate, **options):
    notes = function(runs, qrels, "RR", **options).notes
    return [note for note in notes if "judged queries (" in note]


def test_many_missing_queries_are_noted():
    """A run that lacks 6 of 20 may be incomplete, and nobody said what they count."""
    qrels = {f"q{i:02}": {"d1": 1} for i in range(20)}
    run = {query: {"d1": 1.0} for query in [*qrels][:14]}
    note = (
        "6 of 20 judged queries (30%) are missing from {} and counted as the worst value. If this "
        "is right, say so: missing='zero' counts them as the worst value, missing='skip' leaves "
        "them out"
    )
    assert noted(run, qrels) == [note.format("the run")]
    full = {query: {"d1": 1.0} for query in qrels}
    for function in (rankql.evaluate, rankql.compare):
        assert noted({"a": full, "b": run}, qrels, function) == [note.format("run 'b'")]
    assert noted(run, qrels, conventions="trec_eval") == [
        note.format("the run").replace("counted as the worst value", "left out")
    ]
    # A fifth is not more than a fifth.
    assert noted({query: {"d1": 1.0} for query in [*qrels][:16]}, qrels) == []
    for missing in ("zero", "skip"):
        assert noted(run, qrels, missing=missing) == []
    # Judgments of other queries too, of which no run has half.
    part = {query: {"d1": 1.0} for query in [*qrels][:9]}
    assert noted(part, qrels) == [] and len(noted({"a": full, "b": part}, qrels)) == 1
