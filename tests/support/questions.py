"""What a newcomer gets of a table: the first call, then the first offered call, followed through
further questions; and the verdict on it.

`right`: read rightly at once. `noted`: a note names the doubt, and its call is right. `asked`: the
first offered call is right. `later`: the second or third is. `misled`: the first offered call gives
a wrong number, or one of several right readings is not offered. `dead end`: no call gives a number.
`silent`: a wrong number without a question. `crash`: an error that is not rankql's.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

import rankql
from rankql.core.base.errors import Question, RankqlError

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_MAP = rf"\{{(?:{_TEXT}|[^{{}}'\"])*\}}"
_INNER = rf"\((?:{_TEXT}|[^(){{}}'\"]|{_MAP})*\)|{_MAP}"
_VALUE = rf"{_TEXT}|\[(?:{_TEXT}|[^\[\]'\"])*\]|{_INNER}|True|False|-?\d[\d.]*"
_NAMES = (
    "query|item|rel|score|pos|system|by|columns|part|order|collapse|positions|threshold|train|seen|"
    "ties|descending|missing|undefined|unjudged_queries|ignore_identical_ids"
)
_ONE = rf"(?:{_NAMES})=(?:{_VALUE})"
_CALL = re.compile(rf"\b{_ONE}(?:, {_ONE})*")


def frame(head, *values):
    """A frame: the names of its columns in one text, and the values of each row."""
    return pl.DataFrame([*values], schema=head.split(), orient="row")


def rows(head, *values):
    """The same as objects."""
    return [dict(zip(head.split(), x, strict=True)) for x in values]


class File:
    """A file that a case writes: its lines, of which objects are JSON."""

    def __init__(self, name, *lines):
        self.name = name
        self.lines = [x if isinstance(x, str) else json.dumps(x) for x in lines]

    def write(self, folder):
        path = Path(folder) / self.name
        path.write_text("".join(f"{line}\n" for line in self.lines))
        return str(path)


@dataclass
class Case:
    """Tables as people have them, and what a newcomer gets of them."""

    verdict: str
    run: Any
    qrels: Any
    options: Mapping[str, Any]
    # The right values: a number each, or a number of each system; none if nothing is right.
    right: tuple[Any, ...]
    metrics: str = "RR"
    # Has each right value to be offered, or does one suffice?
    every: bool = False
    # What a right note says, and words that are right without a call.
    note: str = ""
    clear: str = ""
    # Grades for the words of a call to fill in.
    fill: Mapping[str, float] = field(default_factory=dict)


def case(verdict, run, qrels=None, *, right=None, **more):
    """A case with these options of `evaluate`. If nothing else is said, the first relevant items
    are at 2 and at 1.
    """
    own = {name: more.pop(name) for name in Case.__annotations__.keys() & more.keys()}
    right = rr(2, 1) if right is None else right
    right = right if isinstance(right, tuple) else (right,)
    return Case(verdict, run, qrels, more, right, **own)


def follow(function, *args, words=None, **options):
    """The result of the first call that a question offers. words: grades for its blanks."""
    with pytest.raises(Question) as asked:
        function(*args, **options)
    first = {**[*asked.value.calls, *asked.value.open][0]}
    if words:
        column, blanks = first["rel"]
        first["rel"] = column, {word: words[word] for word in blanks}
    return function(*args, **options, **first)


def rr(*ranks):
    """The mean reciprocal rank of the first relevant items; 0 if there is none."""
    return fmean(1 / rank if rank else 0 for rank in ranks)


def ndcg(*pairs):
    """The mean nDCG of pairs of grades as ranked and the grades in the best order."""
    dcg = [
        [sum(x / log2(i + 2) for i, x in enumerate(grades)) for grades in pair] for pair in pairs
    ]
    return fmean(one / best for one, best in dcg)


def near(one, other):
    if isinstance(other, dict):
        return (
            isinstance(one, dict)
            and one.keys() == other.keys()
            and all(near(one[x], other[x]) for x in other)
        )
    return isinstance(one, int | float) and abs(one - other) < 5e-4


def _fill(case, value):
    if isinstance(value, dict):
        return {x: case.fill.get(x, "...") if y is ... else y for x, y in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_fill(case, x) for x in value)
    return "..." if value is ... else value


def calls_in(case, text):
    """The calls that a text prints, without those that lack a value."""
    calls = []
    for match in _CALL.finditer(text):
        keywords = ast.parse(f"f({match[0]})", mode="eval").body.keywords
        calls.append({x.arg: _fill(case, ast.literal_eval(x.value)) for x in keywords})
    return [x for x in calls if "..." not in str(x) and [*x] != ["positions"]]


def _attempt(case, made, call):
    """What a call gives: its kind, the value or the text, the notes and the offered calls."""
    run, qrels, options = made
    others = [] if qrels is None else [qrels]
    try:
        result = rankql.evaluate(run, *others, metrics=case.metrics, **{**options, **call})
    except RankqlError as error:
        offered = [dict(x) for x in error.calls] if isinstance(error, Question) else []
        offered = [x for x in offered if "..." not in str(x) and ... not in x.values()]
        offered += [x for x in calls_in(case, str(error)) if x not in offered]
        return "asks", str(error), [], offered
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}", [], []
    notes = [str(x) for x in result.notes]
    means = {
        str(x["system" if "system" in x else "slice"]): x["mean"] for x in result.summary.to_dicts()
    }
    value = means if len(means) > 1 else next(iter(means.values()))
    return "value", value, notes, [x for note in notes for x in calls_in(case, note)]


def _follow(case, made, call):
    for left in (2, 1, 0):
        outcome = _attempt(case, made, call)
        asks = outcome[0] == "asks" and left
        more = [x for x in outcome[3] if {**call, **x} != call] if asks else []
        if not more:
            return outcome, call
        call = {**call, **more[0]}


def verdict(case, folder):
    """The verdict on a case, and what was tried: pairs of a call and its outcome."""
    tables = (x.write(folder) if isinstance(x, File) else x for x in (case.run, case.qrels))
    made = (*tables, case.options)
    first = _attempt(case, made, {})
    followed = []
    for call in first[3][:3] if first[0] == "asks" else []:
        followed.append(_follow(case, made, call))
        if followed[0][0][0] == "value" and not case.every:
            break  # the others say nothing more
    tried = [({}, first), *((call, outcome) for outcome, call in followed)]
    return _judge(case, made, tried), tried


def _judge(case, made, tried):
    def is_right(value):
        return any(near(value, right) for right in case.right)

    (_, first), *followed = tried
    if any(outcome[0] == "crash" for _, outcome in tried):
        return "crash"
    call, top = ({}, first) if first[0] == "value" or not followed else followed[0]
    values = [outcome[1] for _, outcome in followed]
    if top[0] != "value":
        if any(map(is_right, values)):
            return "later"
        clear = case.clear and re.search(case.clear, first[1])
        return "right" if not case.right or clear else "dead end"
    others = [_attempt(case, made, {**call, **x})[1] for x in top[3][:3]]
    said = bool(case.note) and any(re.search(case.note, x) for x in top[2])
    noted = said or any(is_right(x) and not near(x, top[1]) for x in others)
    numbers = [x for x in others if not isinstance(x, str)]
    good = is_right(top[1])
    if top is first:
        if good and (noted or not case.every):
            return "right"
        astray = any(not is_right(x) and not near(x, top[1]) for x in numbers)
        return "noted" if noted else "misled" if astray else "silent"
    offered = values + numbers
    lacks = case.every and not all(any(near(x, right) for x in offered) for right in case.right)
    if good and (noted or not lacks):
        return "asked"
    return "noted" if noted and not good else "misled"
