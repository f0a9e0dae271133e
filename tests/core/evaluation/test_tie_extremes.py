"""ties='best' and 'worst' are the extremes over all orders of tied items, or refused."""

import itertools
import random

import polars as pl
import pytest

import rankql
from rankql.core.metrics.all_metrics import EVALUATED, SHOWN
from rankql.core.metrics.conventions import choose
from rankql.core.metrics.parse import _SUBTOPIC_METRICS, parse
from support.formula_cases import define
from support.parameters import few

NAMES = [
    "nDCG@3", "nDCG", "DCG@3", "CG@2", "IDCG@3", "AP", "AP@3", "AP(denominator=found)",
    "AP(denominator=k)@3", "RR", "RR@2", "P@3", "P", "P(denominator=retrieved)@3",
    "P(denominator=min)@3", "R@3", "F1@3", "Success@2", "AllRel@3", "Rprec", "IPrec@0.5", "IPrec",
    "Bpref", "Judged@3", "ERR(max_rel=3)@3", "nERR(max_rel=3)@3", "RBP(p=0.8)",
    "RBP(p=0.8, max_rel=3)", "RBPres(p=0.8)", "FalseAnswer", "FalseAbstention", "Forbidden@2",
    "ARHR@3", "nDCG(gain=exp2)@3", "nDCG(ideal=retrieved)@3", "DCG(discounts=[1,2,3])@3",
    "nDCG(discounts=[1,2,3])@3", "nDCG(negative=keep)@3", "Bpref(rel=2)", "AP(rel=2)", "SetAP",
    "TauB", "TauDistance", "GMAP", "NumRet", "NumRel", "NumRelRet", "microP@3", "microR@3",
    "microF1@3",
]  # fmt: skip


# Of negative grades and others, no order is the best of these and of the others.
APART = [x for x in NAMES if x.startswith(("Judged", "RBPres"))]
RULES = vars(choose({"max_rel": 3}))


def order_values(name, scores, grades):
    """The values of the definition in all orders of the items with the highest score first."""
    (metric,) = parse(name)
    groups = [[x for x in scores if scores[x] == s] for s in sorted({*scores.values()})[::-1]]
    others = [(grade, None) for item, grade in grades.items() if item not in scores]
    for order in itertools.product(*map(itertools.permutations, groups)):
        shown = enumerate(itertools.chain(*order), 1)
        yield define(metric, [*((grades.get(item), pos) for pos, item in shown), *others], RULES)


@few(1)("seed", range(12))
def test_best_and_worst_are_the_extremes_over_all_orders(seed):
    rng = random.Random(seed)
    negative = seed % 3 == 0
    grades = [-1, 0, 0, 1, 2, 3] if negative else [0, 0, 1, 2, 3]
    scores = {item: rng.choice([1, 1, 2]) for item in "abcd"}
    judged = {item: rng.choice(grades) for item in "abcdef" if rng.random() < 0.8} | {"g": 1}
    for names in [[x for x in NAMES if x not in APART], APART] if negative else [NAMES]:
        for ties, end in (("best", max), ("worst", min)):
            result = rankql.evaluate({"q": scores}, {"q": judged}, names, interval=None, ties=ties)
            for name in result.metrics:
                lower = name.startswith(("RBPres", "False", "Forbidden", "TauDistance"))
                values = {*order_values(name, scores, judged)} - {None}
                expected = (min if lower == (end is max) else max)(values, default=None)
                value = result.per_query[name][0]
                assert value == pytest.approx(expected, abs=1e-12), name


@few(1)("metric", ["Judged@1", "Judged@2", "RBPres(p=.5)"])
def test_no_order_of_negative_grades_is_the_best_of_all_metrics(metric):
    data = {"a": {"x": 1, "y": 1}}, {"a": {"x": -1, "z": 1}}
    with pytest.raises(rankql.RankqlError, match="below 0"):
        rankql.evaluate(*data, [metric, "nDCG"], ties="best")
    assert rankql.evaluate(*data, [metric, "nDCG"], ties="best", negative="unjudged")


# Wrong by the order of grades: the worst values over all orders are 0.8333.
@pytest.mark.parametrize(
    ("metric", "scores", "grades"),
    [
        ("AP(denominator=found)@3", {"a": 3, "b": 2, "c": 2, "d": 2}, {"a": 1, "b": 0, "d": 1}),
        ("infAP", {"t": 9, "0": 1, "1": 1, "2": 1}, {"t": 1, "0": -1, "1": 1}),
    ],
)
def test_what_no_order_of_grades_gives_is_refused(metric, scores, grades):
    values = [*order_values(metric, scores, grades)]
    assert min(values) == pytest.approx(0.8333, abs=1e-4) and max(values) > 0.99999
    for ties in ("best", "worst"):
        with pytest.raises(rankql.RankqlError, match=f"does not give the {ties} {metric[:2]}"):
            rankql.evaluate({"q": scores}, {"q": grades}, metric, ties=ties)


TIED = {"q": {"d1": 1.0, "d2": 1.0, "d3": 1.0}}
SUBTOPICS = pl.DataFrame(
    {"query": ["q"] * 3, "item": ["d1", "d2", "d3"], "subtopic": ["s1", "s1", "s2"], "rel": 1}
)
TRAIN = pl.DataFrame({"query": ["a", "b", "b"], "item": ["d1", "d1", "d2"]})


@few(4)(
    ("metric", "options"),
    [
        *((f"{name}@2", {"qrels": SUBTOPICS}) for name in _SUBTOPIC_METRICS),
        *((f"{record.name}@2", {"train": TRAIN}) for record in SHOWN),
        ("TauB@2", {}),
        ("TauDistance@2", {}),
    ],
)
def test_metrics_of_items_and_pairs_are_refused_where_scores_may_be_equal(metric, options):
    """The order by grade is not the one that makes them high or low."""
    options = {"qrels": {"q": {"d1": 1, "d2": 0, "d3": 2}}, **options}
    qrels = options.pop("qrels")
    for ties in ("best", "worst"):
        with pytest.raises(rankql.RankqlError, match=rf"ties='{ties}'.* {ties} {metric}"):
            rankql.evaluate(TIED, qrels, metric, ties=ties, **options)
    if "Tau" not in metric:
        with pytest.raises(rankql.RankqlError, match=f"^{metric} needs positions, but ties='exp"):
            rankql.evaluate(TIED, qrels, metric, ties="expected", **options)


def test_an_expression_of_positions_has_no_expected_order():
    with pytest.raises(rankql.RankqlError, match=r"^x needs positions, but ties='exp"):
        rankql.evaluate(TIED, {"q": {"d1": 1}}, "x = sum(rel / pos)", ties="expected")


def test_all_metrics_of_the_registry_are_tried():
    tried = {name.split("@")[0].split("(")[0] for name in NAMES} | {"infAP"}
    # They read scores, or count a tied pair half by definition.
    of_scores = {r.name for r in EVALUATED if r.compares_scores or r.halves_ties}
    assert {record.name for record in EVALUATED} - tried - of_scores == set()
