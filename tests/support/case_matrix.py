"""The matrix of engines and hand-checked cases: who runs what, and what each engine refuses.

An engine answers all cases of a metric at once, in the forms in which it can be asked. A case is
equal where every answer is, to 1e-12 and NULL where NULL; it is refused where REFUSED says so, with
the error that stands there. Nothing is left out.
"""

import re
import zlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from support import hand_cases, metric_engines, native_databases, signatures, spark_sessions
from support.components import COMPONENTS


@dataclass(frozen=True)
class Engine:
    """An engine, as it is called in the table; `forms` are those of the place where it runs."""

    name: str
    forms: Callable[[Any], Iterable[Any]]
    place: str = "here"

    @property
    def marks(self):
        """The markers of its tests."""
        if self.name in ("DuckDB", "polars", "Snowflake handlers"):
            return []
        return [getattr(pytest.mark, self.place if self.place in COMPONENTS else "slow")]


# What is started once, for all engines that run there.
PLACES = {
    "here": nullcontext,
    "spark": lambda: nullcontext(spark_sessions.of_process()),
    **{name: partial(native_databases.opened, name) for name in native_databases.NAMES},
}


# Without groups a query is planned for each case: the first of a metric, and those without rows.
FIRST = {metric: cases[0].group for metric, cases in hand_cases.by_metric(hand_cases.ALL).items()}
WHOLE = ("sql whole table", "polars select", "polars select streaming", "pipe whole")
# Forms of metrics of one ranking that take turns with the options; another form is asked for all.
TURNS = (
    ("evaluate joined", "evaluate scored"),
    ("sql list", "sql score", "sql score expected"),
    ("polars over", "polars list", "polars score", "polars score expected"),
    ("polars over streaming", "polars list streaming", "polars score streaming"),
    ("pipe streaming", "pipe score"),
)


@dataclass(frozen=True)
class Form:
    """One of engines.py, for the metrics that have this form."""

    name: str

    @property
    def run(self):
        return metric_engines.ENGINES[self.name].run

    def cannot(self, metric, options, group):
        if group in hand_cases.REPEATED.values() and metric in signatures.RANKING:
            return any(word in self.name for word in ("list", "score"))
        if self.name not in {**metric_engines.MORE, **metric_engines.with_evaluate(metric)}:
            return True
        if self.name in WHOLE and group and group != FIRST[metric]:
            return True
        for forms in TURNS if metric in signatures.RANKING else ():
            turn = forms[zlib.crc32(str(options).encode()) % len(forms)]
            if self.name in forms and self.name != turn:
                return True
        return metric_engines.ENGINES[self.name].cannot(metric, options, group)


# In this process: the forms of each engine.
CONTEXTS = ("over", "select", "list", "score")
HERE = {
    "DuckDB": ("sql", "sql whole table", "sql list", "sql score", "sql score expected"),
    "polars": ("polars", *(f"polars {x}" for x in CONTEXTS), "polars score expected"),
    "polars streaming": ("polars streaming", *(f"polars {x} streaming" for x in CONTEXTS)),
    "polars .pipe": ("pipe", "pipe streaming", "pipe whole", "pipe list", "pipe score"),
    "evaluate": [f"evaluate {x}" for x in ("ranked", "joined", "scored", "scores", "whole")],
}
# Where each is started.
DATABASES = {"Postgres": "postgres18", "ClickHouse": "clickhouse"}
HANDLERS = {"Snowflake handlers": "snowflake", "BigQuery handlers": "bigquery"}
NATIVE = {"Postgres": "postgres", "ClickHouse": "clickhouse"} | HANDLERS


def engines():
    for name, forms in HERE.items():
        yield Engine(name, lambda _, forms=forms: [Form(form) for form in forms])
    yield Engine("Spark", lambda spark: [spark_sessions.Frames(spark)], "spark")
    for name, place in DATABASES.items():
        yield Engine(name, lambda database: [native_databases.Calls(database)], place)
    for name, place in HANDLERS.items():
        yield Engine(name, lambda engine: [native_databases.Handlers(engine)], place)


ENGINES = {engine.name: engine for engine in engines()}


@dataclass(frozen=True)
class Refused:
    """What engines refuse, in words, and the error that it must be."""

    engines: tuple[str, ...]
    what: str
    cases: Callable[[hand_cases.Case], bool]
    # Of cases that an error does not concern: None. They have a value.
    error: str | None


# Of the catalogue and of lists: those that need no more of DuckDB than Spark has.
IN_SPARK = [
    *("catalogue_coverage", "average_popularity", "novelty", "exposure", "exposure_disparity"),
    *("missing_at", "duplicate_share", "unexpectedness", "serendipity"),
]


def beyond(case):
    return case.metric in signatures.BEYOND


def listed(case):
    return case.metric.startswith("list_")


def no_table(case):
    """Is nothing judged, or nothing scored?"""
    sides = {0, 1} if case.metric in signatures.RATING else {0}
    known = case.metric in (*signatures.RANKING, *signatures.RATING)
    return (
        known and bool(case.group) and any({row[i] for row in case.group} == {None} for i in sides)
    )


CATALOGUE = "metrics of the catalogue and of diversity"
REPEATED = "two items at one position"
SHARED = (
    "several items share a position: if a join repeats an item, keep one row per query and item. "
    r"If the group holds several queries, .*(GROUP BY|group by).*(row_number|rank\('ordinal')"
)
# They describe several rankings at once, which have some positions in common.
MANY_RANKINGS = (*signatures.MICRO, "exposure")


def repeats(case):
    """Do two items share a position?"""
    return case.family == "repeated positions"


def repeats_one(case):
    """Do two items of one ranking share a position?"""
    other = (*MANY_RANKINGS, *signatures.TWO_RANKINGS)
    return repeats(case) and not listed(case) and case.metric not in other


SQL = ("DuckDB", "polars", "polars streaming", *NATIVE)
REFUSED = [Refused(*row) for row in (
    ((*SQL, "polars .pipe"), REPEATED, repeats_one, SHARED),
    (("Spark",), REPEATED,
     lambda case: repeats_one(case) and (not beyond(case) or case.metric in IN_SPARK), SHARED),
    (("evaluate",), REPEATED,
     lambda case: repeats(case) and case.metric in (*signatures.RANKING, *signatures.MICRO),
     "RankqlError: run has duplicates: (g|query) [01], pos (10|200). Keep one row of each"),
    ((*SQL, "polars .pipe", "Spark"), f"{REPEATED} of two rankings",
     lambda case: repeats(case) and case.metric in signatures.TWO_RANKINGS,
     "(pos|reference) must not be the same for two items of a group: ties have no order"),
    ((*SQL, "polars .pipe", "Spark"),
     f"not concerned by {REPEATED}: micro metrics and exposure, which describe many rankings",
     lambda case: repeats(case) and case.metric in MANY_RANKINGS, None),
    ((*SQL, "Spark"), f"not concerned by {REPEATED}: list forms, which have no positions",
     lambda case: repeats(case) and listed(case), None),
    (("polars .pipe",), "list forms", listed, "RankqlError: {metric} takes columns, not a frame"),
    (("evaluate",), f"list forms, AP correlation, RBO, {CATALOGUE}",
     lambda case: listed(case) or beyond(case) or case.metric in signatures.TWO_RANKINGS,
     # It takes subtopics from judgments with one row for each, and reads popularity from train=.
     "RankqlError: (Unknown metric '{metric}'|metrics='(subtopics|item)': no column"
     "|evaluate does not compute '{metric}'"
     r"|{metric}\(.*ids of items|'{metric}\(.*(has no option|needs a cutoff))"),
    (("evaluate",), "a table in which nothing is judged or ranked", no_table,
     "RankqlError: (No item has a grade|Every score of the run is NULL)"),
    (("evaluate",), "a query that is NULL",
     lambda case: case.metric in signatures.MICRO and None in [row[2] for row in case.group],
     "RankqlError: run: query is NULL"),
    (("Spark",), f"{CATALOGUE} that need lists or histograms",
     lambda case: beyond(case) and case.metric not in IN_SPARK,
     "RankqlError: {metric}: .* has no translation for Spark"),
)]  # fmt: skip


def refused(engine, case):
    """What of REFUSED the case is, None where it is to be answered."""
    (result, *more) = [
        entry for entry in REFUSED if engine.name in entry.engines and entry.cases(case)
    ] or [None]
    assert not more, f"{engine.name} has two errors for {case.where}"
    return result


def lacks(engine, case):
    """Has the engine no function for the case? To call it is an error of the engine."""
    native = NATIVE.get(engine.name)
    return native is not None and not native_databases.has(case.metric, native, case.options)


def key(case):
    # Of lists, those without `ideal` are called without it.
    return str(case.options), case.metric.startswith("list_") and case.group[1] is None


def together(form, metric, cases):
    """The values of the cases, those of equal options asked for together."""
    batches = [list(cases) for _, cases in groupby(sorted(cases, key=key), key)]
    calls = [(cases[0].options, [case.group for case in cases]) for cases in batches]
    if hasattr(form, "many"):
        values = form.many(metric, calls)
    else:
        values = [value for options, groups in calls for value in form.run(metric, groups, options)]
    return zip((case for cases in batches for case in cases), values, strict=True)


def answers(form, metric, cases):
    """What the form says to each case, a value or an error; those it has no words for left out."""
    cannot = getattr(form, "cannot", lambda *_: None)
    able = [case for case in cases if not cannot(metric, case.options, case.group)]
    try:
        yield from together(form, metric, able) if able else ()
    except Exception as error:
        if len(able) == 1:
            yield able[0], error
            return
        # Which one is it? If none, all together are.
        result = [pair for case in able for pair in answers(form, metric, [case])]
        alone = any(isinstance(answer, Exception) for _, answer in result)
        yield from result if alone else ((case, error) for case in able)


def wrong(entry, case, answer):
    """What is wrong with an answer to a case, as a line to read, or nothing."""
    error = isinstance(answer, Exception)
    text = f"{type(answer).__name__}: {answer}" if error else repr(answer)
    if entry and entry.error is None:
        right, expected = not error, "a value"
    elif entry:
        pattern = entry.error.format(metric=case.metric)
        ours = "RankqlError" not in pattern or "\n" not in text
        right = error and ours and re.search(pattern, text)
        expected = f"an error that says {pattern!r}"
    else:
        right = not error and metric_engines.same(answer, case.expected)
        expected = case.expected
    call = metric_engines.call(case.metric, metric_engines.names(case.metric), case.options)
    line = f"{case.where.split()[0]}: {call} of {case.group}: {text}, expected {expected}"
    return "" if right else line


def run(engine, place, cases):
    """The lines that say which cases are neither equal nor refused as expected."""
    forms, lines = list(engine.forms(place)), []
    cases = [case for case in cases if not lacks(engine, case)]
    for metric, of_metric in hand_cases.by_metric(cases).items():
        messages = {entry: [] for entry in (None, *REFUSED)}
        for case in of_metric:
            messages[refused(engine, case)].append(case)
        for entry, listed in messages.items():
            # What is refused is refused by itself.
            batches = [[case] for case in listed] if entry else [listed]
            result = [
                pair for form in forms for batch in batches for pair in answers(form, metric, batch)
            ]
            lines += filter(None, (wrong(entry, *pair) for pair in result))
            answered = {case.where for case, _ in result}
            missing = {case.where for case in listed} - answered
            lines += [f"{where}: {engine.name} is not asked" for where in sorted(missing)]
    return lines


def assert_alike(ours, theirs):
    """The same result: values to 1e-12, types, conventions, columns, notes."""
    values = theirs.collect() if hasattr(theirs, "collect") else theirs
    for one, other in ((ours.per_query, values.per_query), (ours.summary, theirs.summary)):
        assert_frame_equal(one, other, check_exact=False, abs_tol=1e-12, rel_tol=0)
    # Rows have no order in Spark, so systems have none. Tables are not hashed there.
    here, there = (replace(x.meta, systems=[], tables={}, call={}) for x in (ours, theirs))
    assert here == there
    assert ours.columns == theirs.columns
    # Spark does not look for users with several queries, nor at values in judgments.
    unseen = ("are not independent", "has no worst value", "nothing relevant: ")
    # Nor does it look at the rows of rankings.
    unseen += ("of different relevance", "in reverse order", "at position 1", "spelled differently")
    unseen += ("at most half of",)
    here, there = (
        [x for x in each.notes if not any(y in x for y in unseen)] for each in (ours, theirs)
    )
    assert here == there
