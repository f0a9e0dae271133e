"""What compare, gate, judges and queries_needed refuse, and the words of each error."""

import math

import polars as pl
import pytest

import rankql
from rankql import RankqlError, compare, gate, judges, queries_needed
from support.judged_runs import simulated
from support.parameters import few

RUN = pl.DataFrame({"query": [*"aabb"], "item": [*"xyxy"], "score": [2.0, 1, 2, 1]})
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [1, 1]})
RUNS = {"old": RUN, "new": RUN}
RESULT = rankql.evaluate(RUN, QRELS, "AP")
JUDGED, HUMAN, JUDGE, _ = simulated()
CORRECTED = rankql.evaluate(JUDGED, HUMAN, "AP", judge=JUDGE)


def values(queries="abc", name="AP", numbers=(0.1, 0.3, 0.4), **columns):
    """One row per query, as a result in a table."""
    frame = {"query": [*queries], name: [*numbers][: len(queries)], **columns}
    return rankql.read_values(pl.DataFrame(frame, strict=False))


GOOD = values(segment=["x", "x", "y"])
FLAT = RUN.select("query", "item", pos=pl.lit([1, 2, 1, 2]).explode(), rel=1)


def require_refused(text, function, *arguments, **keywords):
    with pytest.raises(RankqlError) as caught:
        function(*arguments, **keywords)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@few(4)(
    ("keywords", "text"),
    [
        ({"test": "tt"}, "Unknown test 'tt'. Did you mean 't'?"),
        ({"correction": "holmes"}, "Unknown correction 'holmes'. Did you mean 'holm'?"),
        ({"baseline": "odl"}, "Unknown system in baseline=: 'odl'"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"confidence": 1 - 1e-13}, "confidence"),
        ({"resamples": 10}, "resamples must be a whole number from 100"),
        ({"seed": 1.5}, "seed must be a whole number from 0"),
        ({"min_queries": -1}, "min_queries must be a whole number from 0"),
        ({"cluster": "sg"}, "cluster='sg': no column of that name in qrels, run 'old' and run"),
        ({"cluster": "query"}, "cluster='query' is the column of the queries"),
        ({"basline": "old"}, "Did you mean 'baseline'?"),
        ({"interval": "t"}, "interval must be 'auto' or 'anytime', not 't'"),
        ({"judge": JUDGE, "test": "randomisation"}, "test='randomisation' does not support judge="),
    ],
)  # fmt: skip
def test_options_of_compare(keywords, text):
    require_refused(text, compare, RUNS, QRELS, "RR", **keywords)


@few(5)(
    ("arguments", "keywords", "text"),
    [
        (({}, QRELS), {}, "compare needs at least one run"),
        (({"old": RESULT, "new": RUN}, QRELS), {}, "'old' is a result"),
        (({"old": RESULT, "new": RESULT}, QRELS), {}, "qrels= is an option for runs"),
        (({"old": RESULT, "new": rankql.evaluate(RUN, QRELS, "RR")},), {}, "no metric in common"),
        (({"old": RESULT, "new": rankql.evaluate(RUN, QRELS, "AP", undefined="zero")},), {},
         "Results have different conventions: {'undefined': 'skip'} and {'undefined': 'zero'}."),
        (({"old": RESULT},), {"ties": "expected"}, "ties= is an option for runs"),
        (({"old": RESULT},), {"by": "segment"}, "The results have no attribute 'segment'"),
        (({"old": RESULT},), {"metrics": "RR"}, "Unknown metric 'RR'"),
        (({"old": RESULT},), {"judge": JUDGE}, "judge= is an option for runs"),
        (({"a": CORRECTED, "b": RESULT},), {}, "judge="),
        (({"x": RUN.head(2), "y": RUN.tail(2)}, QRELS), {}, "'x' has no query in common with the"),
        (({"x": GOOD, "y": values("yz")},), {}, "'x' has no query in common with the other"),
        (({"x": GOOD, "y": values([1, 2, 3])},), {}, "'x' has no query in common with the"),
        *((({name: GOOD, "b": GOOD},), {}, "Names of systems must be non-empty strings")
          for name in (None, 1, "")),
        (({"x": values(segment=["x", None, "y"])},), {"cluster": "segment"},
         "cluster: segment is NULL for query 'b'"),
        (({"a": JUDGED}, HUMAN, "Coverage@3"), {"judge": JUDGE}, "Coverage"),
    ],
)  # fmt: skip
def test_inputs_of_compare(arguments, keywords, text):
    require_refused(text, compare, *arguments, **keywords)


@few(10)(
    ("arguments", "keywords", "text"),
    [
        ((RUN, QRELS), {}, "Nothing to check. Pass minimum="),
        ((RUN, QRELS, RUN), {"max_drop": ()}, "Nothing to check. Pass minimum= or max_drop="),
        ((RUN, QRELS), {"max_drop": "AP:0"}, "max_drop= needs a baseline. Pass baseline="),
        ((RUN, QRELS), {"equivalence": "AP:0.1"}, "equivalence= needs a baseline. Pass baseline="),
        ((RUN, QRELS, RUN), {"equivalence": "AP:0"}, "METRIC:NUMBER with a number above 0"),
        ((RUN, QRELS, RUN), {"equivalence": "AP:0.1", "alpha": 0.5}, "alpha below 0.5, not 0.5"),
        ((RUN, QRELS, RUN), {"minimum_bound": True}, "needs a limit on a mean. Pass minimum="),
        ((RUN, QRELS), {"minimum": "AP=0.4"}, "Cannot parse the limit 'AP=0.4' of minimum=."),
        ((RUN, QRELS), {"minimum": "AP>=2"}, "minimum='AP>=2': AP is between 0 and 1."),
        ((RUN, QRELS), {"minimum": "TauB>=-1.5"}, "TauB is between -1 and 1."),
        ((RUN, QRELS, RUN), {"max_drop": "AP:1"}, "max_drop='AP:1' can never fail: AP is between"),
        ((RUN, QRELS), {"minimum": "AP=>0.4"}, "Cannot parse the metric 'AP='"),
        ((RUN, QRELS), {"minimum": "nDCB>=0.4"}, "Unknown metric 'nDCB'. Did you mean 'nDCG'?"),
        ((RUN, QRELS), {"minimum": 0.4}, "minimum= must be a string or a list of strings, not 0.4"),
        ((RUN, QRELS), {"minimum": "microP@1>=0", "minimum_bound": True},
         "microP@1 is one value for all queries, so it has no confidence interval"),
        ((RUN, QRELS, RUN), {"minimum": "microP@1>=0"}, "microP@1 is one value for all queries"),
        *(((RUN, QRELS, RUN), {"max_drop": x}, f"Cannot parse the limit '{x}' of max_drop=.")
          for x in ("AP", "AP:-0.1", "AP:inf")),
        ((RUN, QRELS, RUN), {"max_drop": {"AP": "often"}}, "AP:often"),
        ((RUN, QRELS), {"minimum": {"P@1": "high"}}, "Cannot parse the limit 'P@1>=high'"),
        ((RUN, QRELS, RUN), {"alpha": 5}, "alpha must lie between 0 and 1, not 5"),
        ((RUN, QRELS, RUN), {"min_queries": 0}, "min_queries must be a whole number from 1, not 0"),
        ((RUN, QRELS, RUN), {"test": "t"}, "Unknown option 'test'."),
        ((RUN, QRELS, RUN), {"inconclusive": "pass"}, "inconclusive must be 'fail' or 'warn'"),
        ((RUN, QRELS), {"minimum_bound": 1}, "minimum_bound must be true or false, not 1"),
        ((RUN, QRELS, RUN), {"by": "segment"}, "by='segment': no column of that name"),
        ((RUN, QRELS, "no.parquet"), {}, "run 'baseline': file 'no.parquet' does not exist"),
        ((RUNS, QRELS), {"minimum": "AP>=0"}, "run has several systems"),
        ((RUN, QRELS, RUN.select("query", "item", pos=pl.lit([1, 2, 1, 2]).explode())),
         {"max_drop": "AP:0", "min_score": 0}, "min_score needs scores, and run 'baseline' has"),
        ((RUN, QRELS, {"a": RUN}), {"minimum": "AP>=0"}, "baseline"),
        ((RESULT,), {"minimum": "RR>=0"}, "run: Unknown metric 'RR'. Available: AP"),
        ((RESULT,), {"minimum": "AP>=0", "judge": JUDGE}, "judge= needs rankings, not results"),
        ((RUN, QRELS, RESULT), {"max_drop": "RR:0"}, "baseline: Unknown metric 'RR'"),
        ((RUN, QRELS, RESULT), {"gain": "exp2", "max_drop": "AP:0"}, "and {'gain': 'exp2'}."),
        ((GOOD,), {"minimum": "AP>=0", "by": "segmet"}, "by: Unknown attribute 'segmet'. Did you"),
        ((GOOD, None, GOOD), {"cluster": "sg"}, "cluster: Unknown attribute 'sg'"),
        ((GOOD, None, GOOD), {"higher_is_better": {"x": False}}, "Available: AP"),
        ((GOOD, None, values("xyz")), {}, "'run' has no query in common with the other systems"),
        ((FLAT,), {"minimum": "AP>=0", "judge": JUDGE}, "human labels"),
    ],
)  # fmt: skip
def test_gate(arguments, keywords, text):
    require_refused(text, gate, *arguments, **keywords)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *(([x], "effect must be finite and not 0") for x in (0, math.nan, math.inf, 1e-200)),
        (["x"], "effect must be a number, not 'x'"),
        ([0.5, 0], "alpha must lie between 0 and 1"),
        ([0.5, 0.05, 1], "power must lie between alpha and 1"),
        ([0.5, 0.05, 0.05], "power must lie between alpha and 1"),
    ],
)
def test_queries_needed(arguments, text):
    require_refused(text, queries_needed, *arguments)


@few(3)(
    ("change", "keywords", "text"),
    [
        (lambda llm: pl.concat([llm, llm.head(1).with_columns(pl.col("rel") + 1)]), {},
         "several labels for an item of query"),
        (lambda llm: llm.with_columns(item="x" + pl.col("item")), {}, "have no item in common"),
        (lambda llm: llm.with_columns(rel=pl.int_range(pl.len()) / 7), {}, "different grades"),
        (lambda llm: llm.drop("item"), {}, "No item column in judge 'llm'"),
        (lambda llm: llm.to_pandas()[["query", "item", "rel", "rel"]], {}, "columns called 'rel'"),
        (lambda llm: llm.with_columns(rel=pl.lit(None, pl.Int64)), {}, "judge 'llm' has no labels"),
        (lambda llm: {}, {}, "judges needs at least one table of labels"),
        (lambda llm: llm, {"threshold": math.nan}, "threshold must be a finite number, not nan"),
        (lambda llm: llm, {"confidence": 1.5}, "confidence must lie between 0 and 1, not 1.5"),
        (lambda llm: llm.filter(pl.col("item") != llm["item"][0]), {"runs": JUDGED},
         "have both labels. Let the judge label the items that people labelled"),
    ],
)  # fmt: skip
def test_judges(change, keywords, text):
    require_refused(text, judges, change(JUDGE), HUMAN, **keywords)


def test_methods_of_a_comparison():
    comparison = compare(RUNS, QRELS, ["RR", "Bpref"])
    for text, function, *arguments in (
        ("does not support Bpref", comparison.cutoffs, "Bpref"),
        ("ks= must be a list of cutoffs", comparison.cutoffs, "RR", 5),
        ("ks= must be a list of cutoffs", comparison.cutoffs, "RR", []),
        ("k must be a whole number", comparison.cutoffs, "RR", [0]),
        ("cutoffs needs runs", compare({"old": RESULT, "new": RESULT}).cutoffs),
        ("Unknown system 1", comparison.differences, "RR", 1, "new"),
        ("leaderboard needs all pairs", compare(RUNS, QRELS, baseline="old").leaderboard),
    ):
        require_refused(text, function, *arguments)


def test_a_cluster_called_system_is_refused_by_its_option():
    qrels = QRELS.with_columns(system=pl.lit("a"))
    with pytest.raises(rankql.RankqlError, match=r"^cluster: 'system' is also the column"):
        rankql.compare({"old": RUN, "new": RUN}, qrels, cluster="system")
