"""A metric is one record: it agrees with SQL and polars, and nothing else knows its name."""

import ast
import re

import pytest

import rankql
from rankql.core.metrics.all_metrics import FUNCTIONS, RECORDS, SPANS
from rankql.core.metrics.parse import lower_is_better
from support import completeness, signatures
from support.metric_engines import Sql
from support.parameters import few
from support.paths import PACKAGE
from support.samples import columns_of, draw_rows, options_of

# Columns of its own table, which are called as the metrics that they estimate; and formulas.
MAY_NAME = ("core/metrics/", "core/expressions/", "core/evaluation/reduce/formulas.py")


def test_no_metric_lacks_anything():
    """The one test that names what a new metric lacks, and where it belongs."""
    lines = completeness.missing()
    assert not lines, "\n".join(lines)


def test_options_have_a_default_within_their_range():
    for record in RECORDS:
        for option in record.parameters:
            assert bool(option.choices) == (option.kind == "choice"), option
            if option.choices:
                assert option.default in option.choices
            elif option.default is not None and option.kind == "number":
                option.check(option.default)


def test_no_other_module_names_a_metric():
    quoted = re.compile(rf"""["']({"|".join(FUNCTIONS)})["']""")
    uses = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value!r}"
        for path in PACKAGE.rglob("*.py")
        if not path.relative_to(PACKAGE).as_posix().startswith(MAY_NAME)
        if quoted.search(text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in FUNCTIONS
    ]
    assert not uses, "\n".join(uses)


# What is said of every metric holds: its level, direction, range, and when it is undefined.


def values(name, rankings):
    if name in signatures.MICRO:
        rankings = [[[*row, 1] for row in ranking] for ranking in rankings]
    return Sql(whole=rankings == [[]]).run(name, rankings, options_of(name))


COMPLETE = [name for name in FUNCTIONS if name in signatures.EVERYTHING]
# No value if something is relevant, or without a grade below 0, as in all that are drawn here.
DRAWN = [name for name in COMPLETE if name not in ("false_answer", "forbidden_at")]


@few(14)("name", COMPLETE)
def test_undefined_of_nothing_just_where_it_says_so(name):
    assert (values(name, [[]]) == [None]) == (not FUNCTIONS[name].undefined.startswith("never"))


@few(14)("name", DRAWN)
def test_values_lie_within_the_range(name):
    lowest, highest = FUNCTIONS[name].lowest, FUNCTIONS[name].highest
    results = values(name, [draw_rows(name, seed) for seed in range(6)])
    results = [value for value in results if value is not None]
    assert results
    assert lowest is None or min(results) >= lowest - 1e-12
    assert highest is None or max(results) <= highest + 1e-12


@few(9)(
    "name",
    [name for name in DRAWN if columns_of(name)[:2] == ["rel", "pos"] and name != "rbp_residual"],
)
def test_the_better_direction_is_that_of_better_items_on_top(name):
    """Two neighbours swapped so that the better comes first: no metric of relevance is worse."""
    pairs = []
    for seed in range(6):
        grades = [row[0] for row in sorted(draw_rows(name, seed), key=lambda row: row[1])]
        pairs += [(grades, [*grades[:i], grades[i + 1], grades[i], *grades[i + 2 :]])
                  for i in range(5) if grades[i] < grades[i + 1]]  # fmt: skip
    rankings = [[[g, pos] for pos, g in enumerate(order, 1)] for pair in pairs for order in pair]
    results = values(name, rankings)
    both = zip(results[::2], results[1::2], strict=True)
    moved = [new - old for old, new in both if new is not None]
    sign = {"higher": 1, "lower": -1, "neither": 0}[FUNCTIONS[name].better]
    assert moved
    assert all(sign * move >= -1e-12 if sign else abs(move) < 1e-12 for move in moved)


def test_metrics_is_the_table_of_them():
    table = rankql.metrics()
    assert table["name"].is_unique().all()
    assert set(table["function"]) == {*FUNCTIONS, ""}  # "": metrics of spans
    assert {*table.filter(function="")["name"]} == {record.name for record in SPANS}
    micro = table.filter(name="microP").row(0, named=True)
    assert (micro["level"], micro["function"]) == ("rankings", "micro_precision_at")
    lower = {*table.filter(better="lower")["name"]}
    assert {"RMSE", "microMSE"} <= lower and "nDCG" not in lower


@pytest.mark.parametrize(
    ("name", "is_lower"),
    [
        *((name, True) for name in ("RMSE", "RBPres(p=.5)", "microMAE")),
        *((name, False) for name in ("nDCG@10", "a = 1", "RBPres(p=.5)@5,10", "my own")),
    ],
)
def test_the_better_direction_by_name(name, is_lower):
    """It is known of a name that stands for one metric."""
    assert lower_is_better(name) == is_lower
