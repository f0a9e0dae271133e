"""Every hand-checked case of cases/*.csv, on every engine and in every form that can say it."""

import ast
import csv
import math
import operator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import api
import engines
import pytest
import reference

CASES = Path(__file__).parent / "cases"


def number(text):
    """One entry of a list of cells: `-` is NULL."""
    if text == "-":
        return None
    value = float(text)
    return int(value) if value.is_integer() else value


def cells(text):
    """`3 - 2` -> [3, None, 2]; the word NULL is no list at all."""
    return None if text == "NULL" else [number(cell) for cell in text.split()]


def option(text):
    name, value = text.split("=", 1)
    try:
        return name, ast.literal_eval(value)
    except ValueError:
        return name, value


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
FUNCTIONS = {"log2": math.log2, "ln": math.log, "sqrt": math.sqrt}


def evaluate(node):
    """The value of an arithmetic expression such as `5 + 2/log2(3)`; nothing else is understood."""
    match node:
        case ast.Expression(body):
            return evaluate(body)
        case ast.Constant(int() | float() as value):
            return value
        case ast.UnaryOp(ast.USub(), operand):
            return -evaluate(operand)
        case ast.BinOp(left, kind, right):
            return OPERATORS[type(kind)](evaluate(left), evaluate(right))
        case ast.Call(ast.Name(name), [argument], []):
            return FUNCTIONS[name](evaluate(argument))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")


@dataclass
class Case:
    metric: str
    options: dict
    group: object
    expected: float | None
    published: str
    where: str


def group_of(metric, row):
    if metric.startswith("list_"):
        return cells(row["rels"]), cells(row["ideal"]) if row["ideal"] else None
    if metric in api.TWO_RANKINGS:
        return list(zip(cells(row["reference"]), cells(row["pos"]), strict=True))
    rel = cells(row["rel"])
    if metric.endswith("_by_score"):
        score = [None if cell == "-" else float(cell) for cell in row["score"].split()]
        return list(zip(rel, score, row["item"].split(), strict=True))
    if metric in api.RATING:
        return list(zip(rel, cells(row["score"]), strict=True))
    pos = cells(row["pos"]) or list(range(1, len(rel) + 1))
    if metric in api.MICRO:
        return list(zip(rel, pos, cells(row["query"]), strict=True))
    return list(zip(rel, pos, strict=True))


def load():
    for path in sorted(CASES.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as lines:
            for line, row in enumerate(csv.DictReader(lines), 2):
                assert None not in row, f"{path.name}:{line} has too many cells"
                metric, expected = row["metric"], row["expected"]
                options = dict(map(option, row["options"].replace(", ", ",").split()))
                value = None
                if expected != "NULL":
                    value = float(evaluate(ast.parse(expected, mode="eval")))
                where = f"{path.name}:{line} {row['source']} {row['note']}"
                group = group_of(metric, row)
                yield Case(metric, options, group, value, row["published"], where)


ALL = list(load())
METRICS = {
    metric: list(cases)
    for metric, cases in groupby(
        sorted(ALL, key=lambda case: case.metric), key=lambda case: case.metric
    )
}


def check(engine, cases):
    """Run the cases, those of equal options together; the lines that tell what is wrong."""
    wrong = []
    for case in cases:
        if case.options.get("query"):
            case.options["query"] = engines.Column(case.options["query"])
    for _, alike in groupby(sorted(cases, key=lambda c: str(c.options)), lambda c: str(c.options)):
        alike = list(alike)
        wrong += engines.differences(
            engine,
            alike[0].metric,
            [case.group for case in alike],
            alike[0].options,
            [case.expected for case in alike],
        )
    return wrong


@pytest.mark.parametrize(
    ("metric", "name"),
    [(metric, name) for metric in METRICS for name in engines.with_evaluate(metric)],
)
def test_case(metric, name):
    engine, cases = engines.ENGINES[name], METRICS[metric]
    reasons = {engine.cannot(metric, case.options, case.group) for case in cases}
    if None not in reasons:
        pytest.skip(f"{name} cannot say any case of {metric}: {reasons}")
    wrong = check(engine, cases)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.metric}-{case.where.split()[0]}")
def test_reference(case):
    """The reference agrees with what was worked by hand."""
    options = {name: value for name, value in case.options.items() if name not in ("gain", "query")}
    metric, group = case.metric, case.group
    if "gain" in case.options:
        place = [tuple(cell) for cell in group] if metric.startswith("list_") else group
        if metric.startswith("list_"):
            group = tuple([reference.exp2_gain(rel) for rel in rels] for rels in place)
        else:
            group = [(reference.exp2_gain(rel), *rest) for rel, *rest in place]
    if metric.endswith("_by_score"):
        plain = getattr(reference, metric.removesuffix("_by_score"))
        value = reference.by_score(plain, group, **options)
    elif metric.startswith("list_"):
        if group[0] is None:
            assert case.expected is None
            return
        plain = getattr(reference, metric.removeprefix("list_"))
        value = plain(reference.from_list(*group), **options)
    else:
        value = getattr(reference, metric)(group, **options)
    assert value is case.expected or abs(value - case.expected) < 1e-14 * (1 + abs(value))


@pytest.mark.parametrize(
    "case",
    [case for case in ALL if case.published],
    ids=lambda case: f"{case.metric}-{case.where.split()[0]}",
)
def test_published(case):
    """The exact value is what the source printed, to a unit of its last digit: some cut it off."""
    printed, _, given = case.published.partition("+-")
    unit = 10.0 ** -len(printed.partition(".")[2])
    assert abs(case.expected - float(printed)) <= float(given or unit)


ELSEWHERE = {"exp2_gain", *api.LABELS}


def test_every_metric_has_cases():
    """Three cases at least for a metric, one for its list form, one for its score form."""
    few = {metric: len(METRICS.get(metric, [])) for metric in api.ROWS if metric not in ELSEWHERE}
    assert {metric: n for metric, n in few.items() if n < 3} == {}
    assert {*api.LISTS, *api.SCORES} - set(METRICS) == set()


def test_every_option_has_cases():
    """Every option of every metric is given in some case, so that no engine may ignore it."""
    given = {
        metric: {name for case in METRICS[metric] for name in case.options} for metric in METRICS
    }
    for metric, parameters in api.ROWS.items():
        if metric in ELSEWHERE:
            continue
        options = {name for name, default in parameters.items() if default is not api.NEEDED}
        assert options <= given.get(metric, set()), metric


@pytest.mark.parametrize("metric", api.RANKING)
def test_forms_say_enough(metric):
    """The rule for what a form cannot say leaves most of the cases of each metric in."""
    for name in ("sql list", "sql score"):
        engine, cases = engines.ENGINES[name], METRICS[metric]
        said = [c for c in cases if engine.cannot(metric, c.options, c.group) is None]
        assert len(said) >= 0.7 * len(cases), name
