"""One record per check, and what checks read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import Any, Literal, NamedTuple, TypeAlias

import polars as pl

from rankql.core.base.doors import Door, call_extra
from rankql.core.base.errors import Advice, RankqlError, remedies_of
from rankql.core.base.text import QUERIES, Note, format_count, join_words, run_label
from rankql.core.evaluation.checks.causes import Causes
from rankql.core.evaluation.checks.counters import (
    Counters,
    ItemMatch,
    find_judged_queries,
    match_items,
)
from rankql.core.evaluation.checks.looks import (
    LAST,
    RankingLook,
    SampledRows,
    Spelling,
    look_at_rankings,
    read_all,
    read_some,
)
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query.ctes import Unique
from rankql.core.evaluation.reduce.fetch import source_frame
from rankql.core.metrics.macros import MISSING
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import numbers_in_memory
from rankql.core.tables.tables import is_text

# The check of a column that may have the grades, which metrics do not read.
UNREAD_GRADES = "unread-grades"
# Of more queries, judgments that are not in memory are not looked at for words.
_FEW = 2000
# The names of ratings, of which some may say that nobody rated.
_RATINGS = ("rating", "ratings", "star", "stars", "score")
# What a sentence says, by the names in its text.
Facts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """A check: when it runs, how bad it is, how it is found, and what is said.

    `find` returns facts, a dict for each sentence, none if all is well. They may have the `system`,
    another `level`, and for `check` the `count` and `examples`.
    """

    name: str
    # Counters of rankings, which Spark has too; an evaluation; or its values.
    reads: Literal["counters", "evaluation", "values"]
    # "error": `evaluate` refuses the data.
    level: Literal["error", "warning", "note"]
    text: str
    find: Callable[[Evidence], Iterable[Facts]]
    # What a note of `evaluate` says instead of the text, and what `check` says of the consequences.
    # Without `why`, `check` says it in another way.
    note: str = ""
    why: str = ""
    # Whether it runs.
    when: Callable[[Evidence], object] = lambda _: True


@dataclass(frozen=True)
class Evidence:
    """What checks read. Each question is asked at most once, and if a counter says so."""

    evaluation: Evaluation
    counters: Counters
    # The values per query, once they are computed.
    values: pl.DataFrame = field(default_factory=pl.DataFrame)
    # What must be unique: see `unique_columns`.
    unique: Sequence[Unique] = ()
    # The items shown of each system and those that the user has in train; and the different items
    # of each, and those in the catalogue.
    seen: Mapping[str | None, tuple[int, int]] = field(default_factory=dict)
    outside: Mapping[str | None, tuple[int, int]] = field(default_factory=dict)
    # The queries, of which some are looked at, and the cutoff of ties, if metrics do not say it.
    queries: pl.Series | None = None
    k: int = LAST
    # The looks that have a cause; without it, all are taken.
    causes: Causes | None = None
    # Whether the caller can average over ties, which `explain` cannot.
    averages: bool = True
    # The tables as the caller has them, if the evaluation reads others.
    original: Inputs | None = None

    @cached_property
    def has_words(self) -> bool:
        """Has a query no hit, and may a judged id be a word: in memory, has one no digit? Else, the
        only judged item of a query is missed.
        """
        evaluation, qrels = self.evaluation, self.evaluation.inputs.qrels
        if qrels is None or self.causes is None or qrels.lists or "item" not in qrels.roles:
            return False
        frame, name = evaluation.session.frames.get(qrels.sql), qrels.roles["item"]
        if not any((self.values[x.name] == 0).any() for x in evaluation.metrics):
            return False
        if frame is None or name not in frame:
            of_several = qrels.shared or len(self.values) > _FEW
            if of_several or not is_text(qrels.columns[name]):
                return False
            rows = self.causes.reduction.frame
            return bool(((rows["judged"] == 1) & (rows["common"].fill_null(0) == 0)).any())
        return frame[name].dtype == pl.String and not frame[name].str.contains("[0-9]").all()

    @property
    def has_ratings(self) -> bool:
        """Is a grade called rating, stars or score, and is one -1, 99 or 999?"""
        tables = (x for x in self.inputs.judging if not x.lists)
        names = (x.roles.get("rel", "") for x in tables)
        if not any(x.rpartition(".")[2].lower() in _RATINGS for x in names):
            return False
        has_grade, known = self.evaluation.has_grade, self.evaluation.grade_scale
        return not known and has_grade(("=", -1), ("=", 99), ("=", 999))

    @property
    def has_padding(self) -> bool:
        """Is a grade -1 beside a score? `evaluate` asks it of tables in memory alone."""
        tables, runs = self.inputs.judging, self.inputs.runs.values()
        graded = all("rel" in x.roles for x in tables)
        if not (graded and all("score" in x.roles for x in runs)):
            return False
        if self.causes and any(numbers_in_memory(x, x.roles["rel"]) is None for x in tables):
            return False
        return self.evaluation.has_grade(("=", -1))

    def facts(self, sql: str, *names: str) -> list[Facts]:
        """The rows of a query on the CTEs of the sources, whose columns have these names."""
        return [dict(zip(names, row, strict=True)) for row in self.evaluation.run_sql(sql)]

    @property
    def named(self) -> Mapping[str, Any]:
        """The options of the caller; `check` has none."""
        request = self.evaluation.request
        return request.rules.options if request else {}

    @property
    def reads_beyond(self) -> bool:
        """Are there train or the catalogue?"""
        beyond = self.inputs.beyond
        return beyond.train is not None or beyond.catalogue is not None

    @property
    def lists_ids(self) -> bool:
        """Has a run lists of ids?"""
        return any(table.unit == "ids" for table in self.inputs.runs.values())

    @cached_property
    def lacks_queries(self) -> bool:
        """Is a judged query missing from a run?"""
        return MISSING in self.values.columns and bool(self.values[MISSING].any())

    @property
    def is_perfect(self) -> bool:
        """Has each query 1 as the value of each metric, and is one of them of the order?"""
        metrics = self.evaluation.metrics
        if not any(x.record and x.record.name in ("nDCG", "AP", "RR") for x in metrics):
            return False
        values = (self.values[x.name] for x in metrics)
        return all(x.dtype.is_numeric() and len(x) > 1 and x.min() == x.max() == 1 for x in values)

    @cached_property
    def counts_hits(self) -> bool:
        """Does a metric read which grades reach the threshold, which nobody named?"""
        evaluation, rules = self.evaluation, vars(self.evaluation.conventions)
        reading = any(
            "threshold" in metric.record.options
            and "max_rel" not in metric.options  # fractions count
            and metric.threshold(rules) == evaluation.conventions.threshold
            for metric in evaluation.metrics
            if metric.record
        )
        assumed = any(table.is_assumed("rel") for table in self.inputs.judging)
        return reading and not assumed and "threshold" not in self.named

    def count_items(self, k: int) -> list[tuple[str | None, int, int, int]]:
        """Of each system, the queries with few items, those with none, and all: for `check` with
        fewer than k, else with at most half of k, as counters say of the queries that count.
        """
        inputs = self.evaluation.inputs
        if self.causes:
            frame = self.causes.reduction.frame
            if inputs.qrels and inputs.unjudged_queries != "count":
                frame = frame.filter(pl.col("judged").is_not_null())
            n, name = pl.col("placed").fill_null(0), pl.lit(None, pl.String).alias("system")
            groups = frame.group_by(pl.col("system") if inputs.many else name)
            counts = groups.agg((2 * n <= k).sum(), none=(n == 0).sum(), all=pl.len())
            return sorted(counts.rows(), key=str)
        system, place = ("system" if inputs.many else "NULL"), "score" if inputs.scored else "pos"
        sql = f"SELECT {inputs.keys}, count({place}) AS n FROM run GROUP BY {inputs.keys}"
        few = f"count(*) FILTER (n < {k}), count(*) FILTER (n = 0), count(*)"
        return self.evaluation.run_sql(f"SELECT {system}, {few} FROM ({sql}) GROUP BY 1 ORDER BY 1")

    @cached_property
    def attributes(self) -> tuple[int, int, Sequence[object]]:
        """The queries, those with attributes, and examples of others."""
        source = self.evaluation.inputs.judging_cte
        judged, known = (source_frame(self.evaluation, x) for x in (source, "attributes"))
        if (
            judged is not None
            and known is not None
            and (judged["query"].dtype == known["query"].dtype)
        ):
            queries = judged["query"].drop_nulls().unique()
            lacking = queries.filter(~queries.is_in(known["query"].implode()))
            return len(queries), len(queries) - len(lacking), lacking.sort().head(3).to_list()
        ((queries, known, missing),) = self.evaluation.run_sql(
            f"""SELECT count(*), count(known), min(query, 3) FILTER (WHERE known IS NULL)
            FROM (SELECT DISTINCT query FROM {self.evaluation.inputs.judging_cte})
            LEFT JOIN (SELECT DISTINCT query, true AS known FROM attributes) USING (query)"""
        )
        return queries, known, missing

    @cached_property
    def judged_queries(self) -> Sequence[object] | None:
        """Some queries that are judged."""
        known = self.counters.judged_queries
        return find_judged_queries(self.evaluation) if known is None else known

    @cached_property
    def sample(self) -> SampledRows:
        """The rows that are looked at: of all queries, or of some of those known."""
        known = self.queries
        return read_all(self.evaluation) if known is None else read_some(self.evaluation, known)

    @property
    def inputs(self) -> Inputs:
        """The tables, with the names that the caller knows."""
        return self.original or self.evaluation.inputs

    @property
    def extent(self) -> str:
        """What a sentence says of a count, if it is that of a sample."""
        return " of a sample" if self.sample.is_part else ""

    @cached_property
    def rankings(self) -> Sequence[RankingLook]:
        """What the rows of rankings show."""
        cutoffs = [metric.k or LAST for metric in self.evaluation.metrics]
        return look_at_rankings(self.sample, max(cutoffs, default=self.k))

    @cached_property
    def spellings(self) -> Sequence[Spelling]:
        """The ids that are spelled differently."""
        spellings: Sequence[Spelling] = call_extra("look at ids", self.sample)
        return spellings

    @cached_property
    def matches(self) -> Sequence[ItemMatch]:
        """The systems with few judged items, or none, in their queries."""
        known = self.counters.matches
        return match_items(self.evaluation, self.counters) if known is None else known


def open_checks(checks: Iterable[Check | Door], evidence: Evidence) -> Iterator[Check]:
    """The checks that run, and those behind doors that the evidence opens."""
    for each in checks:
        if isinstance(each, Door):
            if each.applies(evidence):
                yield from open_checks(each.load(), evidence)
        elif each.when(evidence):
            yield each


def inspect(checks: Iterable[Check | Door], evidence: Evidence) -> list[str]:
    """Raise the first error; return the notes. One that several runs have names them all.

    A door has the checks of a feature.
    """
    alike: dict[str, tuple[Check, list[Facts]]] = {}
    for check in open_checks(checks, evidence):
        for facts in check.find(evidence):
            if facts.get("level", check.level) == "error":
                raise RankqlError(write(check.text, facts))
            words = {x: y for x, y in facts.items() if x not in ("system", "examples")}
            words = {x: y for x, y in words.items() if not isinstance(y, int | float)}
            alike.setdefault(repr((check.name, words)), (check, []))[1].append(facts)
    return [note for check, each in alike.values() for note in _join(check, each)]


def _join(check: Check, each: Sequence[Facts]) -> Iterator[Note]:
    """The notes of a check, one for the runs of which it says the same. Different numbers of more
    than two are their range, with the run that has most.
    """
    text, several, same = check.note or check.text, "", dict[str, list[Facts]]()
    for facts in each:
        same.setdefault(SENTENCES.vformat(text, (), {"run": "", **facts}), []).append(facts)
    if len(same) > 2 and "system" in each[0]:
        most = max(each, key=lambda x: x.get("count", x.get("missing", 0)) / x.get("total", 1))
        spans = {x: Span(min(y[x] for y in each), max(y[x] for y in each))
                 for x, value in most.items() if isinstance(value, int | float)}  # fmt: skip
        several = f"{len(each)} runs (most: {most['system']!r})"
        same = {several: [{**most, **spans}]}
    for facts, *others in same.values():
        runs = [run_label(x["system"]) for x in (facts, *others) if "system" in x]
        run = several or f"{'each of ' * (len(runs) > 1)}{join_words(runs)}" if runs else ""
        note = SENTENCES.vformat(text, (), {"run": run, **facts})
        about = {"heading": QUERIES, "share": facts["lacking"]} if "lacking" in facts else {}
        yield Note(note, kind=check.name, level=facts.get("level", check.level), **about)


def write(text: str, facts: Facts) -> Advice:
    """A sentence of a check about one run, with the calls that its facts name."""
    known = {"run": run_label(facts.get("system")), **facts}
    advice = Advice(SENTENCES.vformat(text, (), known))
    advice.calls = remedies_of(*(x for x in facts.values() if isinstance(x, Advice)))
    return advice


class Span(NamedTuple):
    """The least and the highest number of several runs."""

    least: float
    most: float


class _Sentences(Formatter):
    """Texts in which {count:is|are} agrees with a number, and {count:#query} counts things."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """The value, or the words that go with it."""
        if isinstance(value, Span):
            most = self.format_field(value.most, format_spec)
            if value.least == value.most or "|" in format_spec:
                return most
            least = self.format_field(value.least, "," if format_spec[:1] == "#" else format_spec)
            return f"{least} to {most}"
        one, _, several = format_spec.partition("|")
        if several:
            return one if value == 1 else several
        if format_spec.startswith("#"):
            return format_count(value, format_spec[1:])
        return str(super().format_field(value, format_spec))


SENTENCES = _Sentences()
