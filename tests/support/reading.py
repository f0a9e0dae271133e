"""The level below `evaluate`: what is read of tables, and the calls that a question offers.

`read` ends before anything is computed. Values are those of the definitions in plain Python, over
the rows as they were read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from statistics import fmean
from typing import Any

import pytest

import rankql
from rankql.core.base.errors import Question, RankqlError
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.evaluate import open_evaluation
from rankql.core.evaluation.query.ties import score_order
from rankql.core.metrics.parse import parse
from rankql.core.tables.request import RankingRules, Request, parse_groupings, require_tables
from rankql.core.tables.tables import Data
from support import definitions

# Words of names, and the arguments for which no call may offer them.
NEVER = {
    "query": {
        *("system", "model", "arm", "adapter", "retriever", "variant", "method", "engine"),
        *("config", "strategy", "pipeline", "ranker", "algorithm", "rank", "place", "score"),
    },
    "system": {"rank", "place", "score", "page"},
    "rel": {"index", "offset", "timestamp"},
    "score": {"timestamp"},
}
# Words that only ids of one side have, by the place of the side in a pair.
OTHER_SIDE = [{"gold", "expected", "accepted", "truth"}, {"retrieved", "predicted", "hits"}]


# A remedy in a note: the call, and the argument that it replaces.
_VALUE = r"(?:'[^']*'|\[[^\]]*\]|True|False)"
REMEDY = re.compile(rf"pass (\w+={_VALUE}(?:, \w+={_VALUE})*)(?: instead of (\w+)=)?")


class Reading:
    """What is read: the columns by role, the notes, and the rows of each ranking."""

    def __init__(self, evaluation):
        inputs, keys = evaluation.inputs, evaluation.inputs.keys
        self.columns = evaluation.columns
        self.notes = [*evaluation.session.notes, *inputs.notes]
        order = score_order("order" if evaluation.conventions.ties == "order" else "item")
        place = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order})"
        place = place if inputs.scored else "pos"
        sql = f"SELECT {keys}, rel, {place} FROM run"
        if inputs.qrels is not None:
            systems = "(SELECT DISTINCT system FROM run) CROSS JOIN " if inputs.many else ""
            sql = f"""SELECT {keys}, grade, place FROM (SELECT *, {place} AS place FROM run)
                FULL JOIN (SELECT {keys}, item, rel AS grade FROM {systems}qrels)
                USING ({keys}, item)"""
        self.threshold = evaluation.conventions.threshold
        self.rankings = defaultdict(list)
        for *key, rel, pos in sorted(evaluation.run_sql(sql), key=str):
            self.rankings[key[0] if len(key) == 1 else (*key,)].append((rel, pos))

    def values(self, metric="RR"):
        """The value by query, or by system and query, of those with judgments."""
        (known,) = parse(metric)
        options = {**known.options, **({} if known.k is None else {"k": known.k})}
        if "threshold" in known.record.options:
            options = {"threshold": self.threshold, **options}
        return {
            key: definitions.value(known.record.function, rows, **options)
            for key, rows in self.rankings.items()
            if any(rel is not None for rel, _ in rows)
        }

    def means(self, metric="RR"):
        """The mean of each system."""
        systems = defaultdict(list)
        for key, value in self.values(metric).items():
            systems[key[0] if isinstance(key, tuple) else None].append(value)
        values = ([x for x in each if x is not None] for each in systems.values())
        return [fmean(each) if each else None for each in values]

    def __getitem__(self, metric):
        (mean,) = self.means(metric)
        return mean

    def __str__(self):
        """The notes, and the columns that were not read."""
        unread = {label: x["not read"] for label, x in self.columns.items() if "not read" in x}
        ends = [f"{x} ({label})" if len(unread) > 1 else x for label, x in unread.items()]
        return "\n".join([*self.notes, f"not read: {', '.join(ends)}" if ends else ""])


def make_request(run, qrels, metrics, by=(), **options):
    """The request of `evaluate`."""
    own = {name: options.pop(name) for name in Request.__annotations__.keys() & options.keys()}
    rules = RankingRules.of(options, rankql.evaluate)
    return Request(run, qrels, metrics, rules, groupings=parse_groupings(by), **own)


def open_reading(run, qrels, metrics, **options):
    """What is read, without a look at the notes."""
    with open_evaluation(make_request(run, qrels, metrics, **options)) as evaluation:
        return Reading(evaluation)


@remember_inputs
def read(run: Data, qrels: Data = None, metrics: Any = "RR", **options: Any) -> Reading:
    """What `evaluate` reads. Every call that a question or a note offers is run: that of a note
    changes the rankings, and that of a question has a judged item in them. A question keeps in
    `readings` what its calls read.
    """
    require_tables(run, qrels, options.get("con"))
    try:
        reading = open_reading(run, qrels, metrics, **options)
        for note in reading.notes:
            for call, instead in REMEDY.findall(str(note)):
                kept = {x: y for x, y in options.items() if x != instead}
                given = {**kept, **eval(f"dict({call})")}
                with suppress(Question):
                    changed = open_reading(run, qrels, metrics, **given)
                    assert changed.rankings != reading.rankings, call
        return reading
    except Question as question:
        run_calls(question, run, qrels, **options)
        raise


def run_calls(question, run, qrels, **options):
    """Read what each offered call reads, in which some item is judged."""
    question.readings = []
    for call in question.calls:
        assert not nonsense_in(call), call
        found = open_reading(run, qrels, **{**options, "metrics": "Judged", **call})
        rows = (row for each in found.rankings.values() for row in each)
        assert any(rel is not None and pos is not None for rel, pos in rows), call
        question.readings.append(found)


def refused(run, qrels=None, metrics="RR", match=None, error=RankqlError, **options):
    """The error of `evaluate`, on one line. Each call that a question offers was run."""
    with pytest.raises(error) as caught:
        read(run, qrels, metrics, **options)
        rankql.evaluate(run, qrels, metrics, **options)
    question = caught.value
    assert match is None or re.search(match, one_line(question)), one_line(question)
    if isinstance(question, Question) and not hasattr(question, "readings"):
        run_calls(question, run, qrels, **options)  # which only values show
    return question


def one_line(error):
    """What an error says, without its layout."""
    return " ".join(str(error).split())


def asked(run, qrels=None, metrics="RR", match=None, **options):
    """The question that the tables raise, whose calls were run."""
    return refused(run, qrels, metrics, match, Question, **options)


def assert_read(run, qrels, options, value, *said):
    """Require the mean, or those of several runs, and texts of the columns or notes."""
    result = read(run, qrels, **options)
    means = result.means(options.get("metrics", "RR"))
    assert means == pytest.approx(value if isinstance(value, list) else [value])
    assert all(text in f"{result.columns} {result}" for text in said), result


def assert_offered(run, qrels, options, expected):
    """Require the offered calls by a part of their text, in this order, with these means."""
    question = asked(run, qrels, **options)
    for call, found, (text, mean) in zip(question.calls, question.readings, expected, strict=True):
        assert text in repr(call)
        means = found.means(options.get("metrics", "RR"))
        assert mean is None or means == pytest.approx([mean])


def nonsense_in(call):
    """The names of a call that no column of its role has."""
    found = []
    for role, value in call.items():
        names = value if isinstance(value, list | tuple) else [value]
        words = [{*re.split(r"[\W_]+", str(name).lower())} for name in names]
        found += [x for x, each in zip(names, words, strict=True) if each & NEVER.get(role, set())]
        if role == "query" and len({*names}) == 1:
            found += [x for x in names if x in ("split", "fold", "page")]
        if role == "item" and len({*names}) == 2:
            found += [x for x, each, other in zip(names, words, OTHER_SIDE, strict=True)
                      if each & other]  # fmt: skip
    return found
