"""Metrics as columns of polars give the values of their macros, to 1e-12, and the same NULLs."""

import itertools
from math import log2

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankql
from rankql.core.evaluation.finish import formulas
from rankql.core.evaluation.reduce import protocol, reduce
from rankql.core.metrics import macros, parse
from rankql.core.metrics.all_metrics import EVALUATED
from rankql.core.metrics.conventions import PROFILES
from rankql.core.metrics.metric_record import MetricRecord, Parameter
from support import strategies
from support.parameters import cycled, few
from support.reductions import compare
from support.samples import SHAPES, ranked, ranked_table

ENDS = protocol.SCALES
GAINS = ["", "gain=exp2", "gain=binary"]
LEVELS = ["", "rel=2", "rel=1.5", "rel=0.5", "rel=5", "rel=9"]
IDEALS = ["", "ideal=retrieved"]
SIZES = ["", "denominator=min", "denominator=retrieved"]
# Every metric with its options.
FORMS = {
    **{name: [GAINS] for name in ("CG", "DCG")},
    "IDCG": [GAINS, IDEALS],
    "nDCG": [GAINS, ["", "negative=keep"], IDEALS],
    "AP": [LEVELS, ["", "denominator=R", "denominator=found", "denominator=k"]],
    **{name: [LEVELS, SIZES] for name in ("P", "F1", "microP", "microF1")},
    **{name: [LEVELS] for name in ("R", "microR", "Success", "RR", "ARHR", "AllRel")},
    **{name: [LEVELS] for name in ("Rprec", "SetAP", "Bpref")},
    "ERR": [["", "max_rel=7", "max_rel=5.5"], ["", "p=0.8", "p=0.05"]],
    "RBP": [["p=0.8", "p=0.125"], LEVELS, ["", "max_rel=5", "max_rel=7.5"]],
    "Judged": [[""]],
}
RECORDS = {record.name: record for record in EVALUATED}
OWN = "own = ndcg(rel, pos, 5)"
MICRO = ["microP@5", "microR@10", "microF1@10"]
SMALL = ["nDCG@5", "AP@20", "P(rel=2)@10", "ERR@10"]


def forms(name, cutoffs):
    """A metric with all its options, at cutoffs that take turns."""
    for number, options in enumerate(itertools.product(*FORMS[name])):
        text = f"({', '.join(filter(None, options))})" if any(options) else ""
        k = cutoffs[(number + number // len(cutoffs)) % len(cutoffs)]
        yield f"{name}{text}" + (f"@{k}" if k and RECORDS[name].has_cutoff else "")


def test_forms_are_all():
    assert {RECORDS[name].function for name in FORMS} == {*formulas.METRICS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "end", "shape", "other"),
    cycled([*FORMS], ENDS, [*SHAPES], [*SMALL, "nDCG(gain=exp2)@27", "RR"]),
)
def test_all_options_at_once(name, end, shape, other):
    """At cutoffs that share what they have in common, next to others, and without a cutoff."""
    metrics = [*forms(name, [1, 16, 50, None]), other, OWN]
    compare(*SHAPES[shape](ranked(end, queries=40)), [*dict.fromkeys(metrics)])


BY_HAND = {
    **{"RR": 1 / 2, "P": 1 / 2, "R": 1 / 2, "F1": 1 / 2, "Success": 1, "AllRel": 0, "AP": 1 / 4},
    **{"DCG(gain=binary)": 1 / log2(3), "CG(gain=binary)": 1, "ERR(max_rel=2)": 3 / 8, "CG": 2},
}


@pytest.mark.parametrize(("cutoff", "shape"), [("", "ranked"), ("@2", "ranked"), ("", "joined")])
def test_a_grade_at_the_threshold_and_a_hit_at_the_cutoff_count(cutoff, shape):
    """Grade 2 of two items, of which one is at position 2."""
    data = SHAPES[shape](ranked_table([(1, 0, 1), (1, 2, 2), (1, 2, None)]))
    metrics = {f"{name}{cutoff}": value for name, value in BY_HAND.items()} | {"Rprec": 1 / 2}
    result = rankql.evaluate(*data, [*metrics], threshold=2, interval=None)
    assert {name: result[name] for name in metrics} == pytest.approx(metrics)


@st.composite
def any_metric(draw):
    name = draw(st.sampled_from(sorted(FORMS)))
    options = ", ".join(filter(None, (draw(st.sampled_from(part)) for part in FORMS[name])))
    cutoff = RECORDS[name].has_cutoff and draw(st.none() | st.integers(1, 90))
    return f"{name}({options})" + (f"@{cutoff}" if cutoff else "")


@few(1)("end", [*ENDS, 0.5, 7])
@given(data=st.data())
def test_any_rankings_and_metrics(end, data):
    """In any shape, with metrics that have no columns, in batches of any size."""
    grades = st.sampled_from([None, 0, *range(int(end) + 1), end])
    steps = st.sampled_from([0, 1, 1, 1, 2, 5, 19])
    groups = data.draw(strategies.batches(strategies.rankings(grades, steps)))
    rows = [(100, max(end, 1), 1), *((g, *row) for g, group in enumerate(groups) for row in group)]
    metrics = data.draw(st.lists(any_metric(), min_size=1, max_size=6))
    metrics += data.draw(st.lists(st.sampled_from(["IPrec@0.5", "nDCG(base=3)@5", OWN])))
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce, "CELLS", data.draw(st.sampled_from([1, 300, reduce.CELLS])))
        compare(*SHAPES[shape](ranked_table(rows)), [*dict.fromkeys(metrics)])


# The third does not reach the end of its scale.
GRADES = ["rel - 1", "rel / 2", "rel + 1", "rel * 2", "-rel", "rel * 0", "rel * NULL"]
SCALED = ["ERR(max_rel=7)@5", "RBP(p=0.8, max_rel=7)@5", "nDCG(negative=keep)@5", "nDCG@7"]


@pytest.mark.slow
@pytest.mark.parametrize(("grade", "shape"), cycled(GRADES, [*SHAPES]))
def test_grades_of_any_kind(grade, shape):
    """Below 0, fractions, and above 5: next to metrics that read what others do not."""
    data = SHAPES[shape](ranked(3, queries=40).with_columns(rel=pl.sql_expr(grade)))
    ideal = ["IDCG(ideal=retrieved)@5", "nDCG(gain=exp2, ideal=retrieved)"]
    for metrics in (SCALED, [*SCALED, "CG", "Bpref", "AP", *ideal], ["AP", *MICRO]):
        compare(*data, metrics)
    compare(*data, [*SCALED, "Bpref"], negative="keep")
    compare(*data, [*ideal, "Bpref"], negative="unjudged")


# Conventions.

CONVENTIONS = [
    *({"conventions": profile} for profile in PROFILES),
    *({"gain": gain} for gain in ("exp2", "binary", {0: 0, 1: 1, 2: 5, 3: 7})),
    *({"threshold": threshold, "gain": "binary"} for threshold in (0.5, 2, 4)),
    *({"undefined": "drop", "threshold": threshold} for threshold in (0, 1, 1.5, 4)),
    *({"undefined": undefined} for undefined in ("zero", "error")),
    *({"negative": negative} for negative in ("keep", "unjudged", "error")),
    *({"ties": ties} for ties in ("order", "best", "worst", "expected")),
    *({"missing": missing} for missing in ("skip", "error")),
    *({"precision_denominator": of} for of in ("retrieved", "min")),
    *({"ap_denominator": of} for of in ("R", "found", "k")),
    {"unjudged": "remove"},
    {"unjudged": "remove", "ties": "worst", "undefined": "drop"},
    *({"ideal": "retrieved", "missing": missing} for missing in ("zero", "skip")),
    *({"ideal": "retrieved", "undefined": undefined} for undefined in ("zero", "drop")),
    {"discounts": [1.0, 1.5, *range(2, 2000)]},
    {"max_rel": 6},
    {"float32": True},
]


MORE = ["nDCG(gain=exp2)@10", "P@5", "RR(rel=1)@5", "ERR@10", *MICRO[:2], "AP", "Bpref"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "shape", "metrics"),
    cycled(
        CONVENTIONS,
        ["ranked", "joined by score", "joined", "ranked by score"],
        [SMALL, MORE, SMALL, MORE, MORE, SMALL, MORE, SMALL],
    ),
    ids=lambda options: str(options)[:60],
)
def test_every_convention(options, shape, metrics):
    data = SHAPES[shape](ranked(3, queries=40, most=45))
    expected = PROFILES[options.get("conventions", "rankql")].ties == "expected"
    expected = (expected or options.get("ties") == "expected") and "score" in data[0].columns
    if expected:  # these are refused
        metrics = [m for m in metrics if not m.startswith(("ERR", "micro"))]
    compare(*data, metrics, **options)


OWN_LEVELS = [f"{name}(rel={rel})@5" for name in ("P", "AP", "RR", "R") for rel in (1, 2, 3)]


@few(1)(
    ("metrics", "options"),
    [
        *([OWN_LEVELS, {"threshold": threshold}] for threshold in (0, 0.5, 1, 1.5, 2, 5)),
        (["RBP(p=0.5,rel=1)@5", *OWN_LEVELS], {"threshold": 2, "undefined": "drop"}),
        (["P(denominator=k)@5", "AP(denominator=min)@5"], {"precision_denominator": "min"}),
        (["AP(denominator=min)@5", "P@5"], {"ap_denominator": "R"}),
        (["nDCG(gain=linear)@5", "DCG@5", "ERR(p=1)@5"], {"gain": "exp2"}),
    ],
)
def test_options_of_a_metric_win_over_the_conventions(metrics, options):
    compare(ranked(3), None, metrics, **options)


@few(1)("metrics", ["R2@2", ["R2@2", "R2(rel=1)@2", "nDCG@2", "P@2", OWN]])
@pytest.mark.parametrize("rows", [1, 3000])
def test_a_record_may_have_a_threshold_of_its_own(metrics, rows, monkeypatch):
    """The default of its macro, whatever computes it."""
    sql = macros.read_sql() + (
        "\nCREATE OR REPLACE MACRO recall_of_2(rel, pos, k := NULL, threshold := 2) AS\n"
        "    recall_at(rel, pos, k, threshold);"
    )
    own = Parameter("threshold", 2)
    records = (*EVALUATED, MetricRecord(function="recall_of_2", name="R2", own=(own,)))
    caches = [macros.read_parameters, macros._statements, macros._private_statement]
    caches += [parse._index, parse.record_of]
    monkeypatch.setattr(macros, "read_sql", lambda: sql)
    monkeypatch.setattr(parse, "EVALUATED", records)
    monkeypatch.setitem(formulas.METRICS, "recall_of_2", formulas.METRICS["recall_at"])
    try:
        for cached in caches:
            cached.cache_clear()
        table = ranked_table([(q, *row) for q in range(rows) for row in [(1, 1), (2, 3), (3, 2)]])
        for options in ({}, {"threshold": 3}):
            values = compare(table, None, metrics, **options).per_query
            assert values["R2@2"].unique().to_list() == [0.5]
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()


def test_far_scales_and_patience():
    scales = (3, 4.5, 60, 1000, 1023, 1024, 2000)
    options = [f"max_rel={x}" for x in scales] + [f"p={p}" for p in (1e-6, 0.999999, 1e-200)]
    metrics = [f"ERR({option})@5" for option in options]
    metrics += [f"RBP(p=0.5,max_rel={x})@5" for x in scales] + [f"RBP({p})@25" for p in options[7:]]
    compare(ranked(3), None, metrics)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["ranked", "joined by score"])
def test_metrics_keep_the_order_of_the_request(shape):
    """Also those with columns between those without."""
    own = ["items = count(rel)", "best = max(rel)", OWN]
    metrics = ["AP", "nDCG@10", *MICRO, "Bpref", own[0], "P@5", own[1], "microR", own[2], "RR@7"]
    data = SHAPES[shape](ranked(3, queries=40, most=45))
    names = compare(*data, metrics).per_query.columns
    assert names[1:] == [metric.partition(" = ")[0] for metric in metrics]
    compare(*data, metrics, undefined="drop")


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_grades_fill_several_words(end):
    """For cutoffs at their ends, full of the highest grade too, and further ones, by turns."""
    places = protocol.Words(end, 1).places
    full = ranked_table([(1, end, pos) for pos in range(1, 120)])
    cutoffs = (places, places + 1, reduce.MAX_WORDS_K, reduce.MAX_WORDS_K + 1)
    for k in cutoffs:
        assert compare(full, None, f"nDCG@{k}")[f"nDCG@{k}"] == 1
    for shape, k in cycled([*SHAPES] * 2, cutoffs):
        compare(*SHAPES[shape](ranked(end)), [f"nDCG@{k}", f"P@{k}", "RR@1"])
