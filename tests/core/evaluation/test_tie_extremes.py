"""ties='best' and 'worst' are the extremes over all orders of tied items, or refused."""

import itertools
import random

import polars as pl
import pytest

import rankql
from rankql.core.metrics.all_metrics import EVALUATED, SHOWN
from rankql.core.metrics.parse import _SUBTOPIC_METRICS
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


def list_orders(scores):
    """All orders of the items, with the highest score first."""
    groups = [
        [item for item, score in scores.items() if score == value]
        for value in sorted({*scores.values()}, reverse=True)
    ]
    for order in itertools.product(*map(itertools.permutations, groups)):
        items = [*itertools.chain(*order)]
        yield {item: float(len(items) - place) for place, item in enumerate(items)}


@few(1)("seed", range(3))
def test_best_and_worst_are_the_extremes_over_all_orders(seed):
    rng = random.Random(seed)
    grades = [-1, 0, 0, 1, 2, 3] if seed % 3 == 0 else [0, 0, 1, 2, 3]
    scores = {item: rng.choice([1, 1, 2]) for item in "abcd"}
    qrels = {"q": {item: rng.choice(grades) for item in "abcdef" if rng.random() < 0.8} | {"g": 1}}
    orders = {f"s{i}": {"q": order} for i, order in enumerate(list_orders(scores))}
    # With grades below 0, no order is the best of these and of the others.
    names = [x for x in NAMES if seed % 3 or not x.startswith(("Judged", "RBPres"))]
    values = rankql.evaluate(orders, qrels, names, interval=None)
    for ties in ("best", "worst"):
        of_ties = rankql.evaluate({"q": scores}, qrels, names, interval=None, ties=ties).per_query
        for name in values.metrics:
            column = values.per_query[name]
            lower = name.startswith(("RBPres", "False", "Forbidden", "TauDistance"))
            highest = (ties == "best") != lower
            expected = column.max() if highest else column.min()
            assert of_ties[name][0] == pytest.approx(expected, abs=1e-12), name


# Wrong by the order of grades: the worst values over all orders are 0.8333.
@pytest.mark.parametrize(
    ("metric", "scores", "grades"),
    [
        ("AP(denominator=found)@3", {"a": 3, "b": 2, "c": 2, "d": 2}, {"a": 1, "b": 0, "d": 1}),
        ("infAP", {"t": 9, "0": 1, "1": 1, "2": 1}, {"t": 1, "0": -1, "1": 1}),
    ],
)
def test_what_no_order_of_grades_gives_is_refused(metric, scores, grades):
    orders = {f"s{i}": {"q": order} for i, order in enumerate(list_orders(scores))}
    values = rankql.evaluate(orders, {"q": grades}, metric, interval=None).per_query[metric]
    assert values.min() == pytest.approx(0.8333, abs=1e-4) and values.max() > 0.99999
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
