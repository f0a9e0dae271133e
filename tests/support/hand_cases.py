"""The hand-checked cases of cases/*.csv and cases/beyond/*.csv."""

import ast
import csv
import math
from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from support import metric_engines, signatures
from support.paths import ROOT

CASES = ROOT / "tests" / "cases"


def number(text):
    """One entry of a list of cells: `-` is NULL."""
    if text == "-":
        return None
    value = float(text)
    return int(value) if value.is_integer() else value


def cells(text):
    """`3 - 2` -> [3, None, 2]; the word NULL is no list at all."""
    return None if text == "NULL" else [number(cell) for cell in text.split()]


def cell(name, text):
    """One value of a column of the metrics beyond accuracy."""
    if text == "-":
        return None
    kind = metric_engines.BEYOND[name]
    if isinstance(kind, pl.List):
        entries = [] if text == "[]" else text.split(",")
        return [float(entry) for entry in entries] if name == "embedding" else entries
    if kind == pl.Boolean:
        return text == "t"
    return text if kind == pl.String else float(text) if kind == pl.Float64 else int(text)


def option(text):
    name, value = text.split("=", 1)
    if name == "query":
        return name, metric_engines.Column(value)
    try:
        return name, ast.literal_eval(value)
    except ValueError:
        return name, value


# `5 + 2/log2(3)` in the column `expected`.
FUNCTIONS = {"log2": math.log2, "ln": math.log, "sqrt": math.sqrt}


@dataclass
class Case:
    family: str
    metric: str
    options: dict
    group: object
    expected: float | None
    published: str
    where: str


def group_of(metric, row):
    if metric in signatures.BEYOND:
        names = metric_engines.names(metric)
        rows = [text.split() for text in row["rows"].split(";") if text]
        return [tuple(map(cell, names, texts)) for texts in rows]
    if metric.startswith("list_"):
        return cells(row["rels"]), cells(row["ideal"]) if row["ideal"] else None
    if metric in signatures.TWO_RANKINGS:
        return list(zip(cells(row["reference"]), cells(row["pos"]), strict=True))
    rel = cells(row["rel"])
    if metric.endswith("_by_score"):
        score = [None if cell == "-" else float(cell) for cell in row["score"].split()]
        return list(zip(rel, score, row["item"].split(), strict=True))
    if metric in signatures.RATING:
        return list(zip(rel, cells(row["score"]), strict=True))
    pos = cells(row["pos"]) or list(range(1, len(rel) + 1))
    if metric in signatures.MICRO:
        return list(zip(rel, pos, cells(row["query"]), strict=True))
    return list(zip(rel, pos, strict=True))


def load(path):
    with path.open(newline="", encoding="utf-8") as lines:
        for line, row in enumerate(csv.DictReader(lines), 2):
            assert None not in row, f"{path.name}:{line} has too many cells"
            metric, expected = row["metric"], row["expected"]
            options = dict(map(option, row["options"].replace(", ", ",").split()))
            value = None if expected == "NULL" else float(eval(expected, dict(FUNCTIONS)))
            where = f"{path.name}:{line} {row['source']} {row['note']}"
            group = group_of(metric, row)
            published = row.get("published", "")
            yield Case(path.stem, metric, options, group, value, published, where)


# By file, which is a family of metrics or of forms.
FAMILIES = {path.stem: list(load(path)) for path in sorted(CASES.rglob("*.csv"))}


def by_metric(cases):
    result = defaultdict(list)
    for case in cases:
        result[case.metric].append(case)
    return dict(sorted(result.items()))


METRICS = by_metric(case for cases in FAMILIES.values() for case in cases)
ALL = [case for cases in METRICS.values() for case in cases]


# Two items at one position, near the top and far from it: a join repeats an item below a gap.
REPEATED = {10: [(0, 1), (1, 10), (1, 10)], 200: [(0, 1), (1, 200), (1, 200)]}
# What else these rows hold, and the options that metrics need.
CELLS = {"query": 1, "item": "a", "category": "a", "attribute": "a", "attributes": ["a"]}
CELLS |= {"subtopics": ["a"], "embedding": [1.0], "baseline": False}
NEEDED = {"rbo": {"p": 0.9}, "near_duplicate_share": {"similarity": 0.9}, **signatures.REQUIRED}


def of_repeated_positions():
    """These rows for every metric with positions, and their grades for every list form."""
    for metric in (*signatures.METRICS, *signatures.BEYOND, *signatures.LISTS):
        names, listed = metric_engines.names(metric), metric.startswith("list_")
        if "pos" not in names and not listed:
            continue
        for last, rows in REPEATED.items():
            options = dict(NEEDED.get(metric.removeprefix("list_"), {}))
            options |= {"k": 10} if last == 10 and signatures.takes_k(metric) else {}
            options |= {"query": metric_engines.Column("query")} if "query" in names else {}
            cells = [
                CELLS | {"rel": rel, "pos": pos, "reference": i}
                for i, (rel, pos) in enumerate(rows, 1)
            ]
            group = [tuple(map(each.get, names)) for each in cells]
            group = ([rel for rel, _ in rows], None) if listed else group
            where = f"{metric}:{last} by hand two items at position {last}"
            yield Case("repeated positions", metric, options, group, None, "", where)


FAMILIES["repeated positions"] = [*of_repeated_positions()]
