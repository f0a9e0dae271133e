"""Resolve the conventions and the options of each metric, once, before anything is computed.

What this needs to know about the data are `Facts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from rankql.errors import RankqlError
from rankql.evaluation.checks import evaluation_errors
from rankql.evaluation.packed import SCALES
from rankql.evaluation.readable import reads_judged
from rankql.evaluation.steps import FINGERPRINT, SqlRunner
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.computed import require_scalar
from rankql.sources.inputs import Inputs
from rankql.sources.reader import count_values
from rankql.sources.session import Session


def resolve_conventions(
    facts: Facts, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[Conventions, list[Metric]]:
    """The conventions, with max_rel from the grades if a metric needs it, and the metrics without
    options that repeat a convention.
    """
    for metric in metrics:
        if metric.known is None:
            what = f"The metric {metric.label!r} = {metric.expression!r}"
            require_scalar(metric.expression, what)
    if not facts.inputs.scored:
        conventions = replace(conventions, ties="item")  # positions are never tied
    elif facts.inputs.numbered and conventions.ties == "item":
        conventions = replace(conventions, ties="expected")
    judged = [metric.name for metric in metrics if reads_judged(metric)]
    two_orders = conventions.ties in ("best", "worst") and 0 < len(judged) < len(metrics)
    if two_orders and conventions.negative != "unjudged" and facts.has_grade("{rel} < 0"):
        names = ", ".join(judged)
        raise RankqlError(
            f"ties={conventions.ties!r}: with grades below 0, tied items have no order that is the "
            f"{conventions.ties} for {names} and for the other metrics. Evaluate {names} alone, "
            "or pass negative='unjudged'"
        )
    sampled = next((m.name for m in metrics if m.record and m.record.reads_sample), None)
    if sampled and conventions.negative == "unjudged":
        # For other metrics of the gain, unjudged and not relevant are the same.
        for metric in metrics:
            by_gain = metric.record and metric.record.rows == "gain"
            alike = by_gain and metric.threshold(vars(conventions)) >= 0
            if metric.name != sampled and not alike:
                raise RankqlError(
                    f"{sampled} reads the grades below 0, which are unjudged for {metric.name}. "
                    f"Evaluate {sampled} alone"
                )
        conventions = replace(conventions, negative="zero")
    scales = [m.options.get("max_rel", conventions.max_rel) for m in metrics if m.scaled]
    exponential = any(m.record and m.gain(vars(conventions)) == "exp2" for m in metrics)
    limits = [scale for scale in scales if scale is not None] + ([1000] if exponential else [])
    if None in scales or (limits and facts.has_grade(f"{{rel}} > {min(limits)}")):
        highest = facts.highest_grade
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel overflows for grade {highest:g}. Rescale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            conventions = replace(conventions, max_rel=highest or 1.0)
    _require_reached(facts, metrics, conventions)
    unique: dict[str, Metric] = {}
    for metric in metrics:
        metric = metric.under(vars(conventions))
        unique.setdefault(metric.canonical, metric)
    return conventions, list(unique.values())


def _require_reached(facts: Facts, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics that are 0 because all grades are below 1 and the threshold."""
    for metric in metrics:
        record, least = metric.record, min(1.0, metric.threshold(vars(conventions)))
        if (
            record
            and {"threshold"} <= record.options.keys()
            and record.undefined == "never"
            and "max_rel" not in metric.options
            and not facts.grade_scale
            and not facts.has_grade(f"{{rel}} >= {least}")
            and (highest := facts.highest_grade) > 0
        ):
            graded = ", or max_rel=1 in the metric, so that grades count"
            raise RankqlError(
                f"{metric.name} would be 0: the highest grade is {highest:g}, below the threshold "
                f"{metric.threshold(vars(conventions)):g}. Pass a lower threshold="
                f"{graded if 'max_rel' in record.options else ''}"
            )


class Facts:
    """Facts about the data of an evaluation, each asked at most once and if it is needed.

    packs: whether rankings may be reduced to columns of polars; None: if it is faster.
    """

    def __init__(
        self, session: Session, inputs: Inputs, conventions: Conventions, packs: bool | None = None
    ) -> None:
        self.session, self.inputs, self.conventions = session, inputs, conventions
        self.run_sql = SqlRunner(session, inputs, conventions)
        self.packs = packs

    @cached_property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(count_values(self.session, table, [])[0] for table in self.inputs.tables)

    @cached_property
    def grade_scale(self) -> int:
        """The end of the smallest scale with all grades, if they are whole numbers from 0; or 0."""
        whole = all(table.integer("rel") for table in self.inputs.judging)
        fraction = "" if whole else " OR {rel} <> floor({rel})"
        for end in SCALES:
            if not self.has_grade(f"{{rel}} < 0 OR {{rel}} > {end}{fraction}"):
                return end
        return 0

    @cached_property
    def highest_grade(self) -> float:
        """The highest grade, or 0."""
        # The end of a scale is found without reading all rows.
        if (
            self.packs is not False
            and (end := self.grade_scale)
            and self.has_grade(f"{{rel}} = {end}")
        ):
            return float(end)
        ((highest,),) = self._rows(
            f"SELECT coalesce(max(rel), 0) FROM {self.inputs.graded} WHERE rel > 0"
        )
        return float(highest)

    def has_grade(self, condition: str) -> bool:
        """Whether the condition on {rel} holds for any grade."""
        # Compare the column itself: DuckDB then skips what its statistics rule out.
        return any(
            self.session.con.execute(
                f"SELECT 1 FROM {table.sql} "
                f"WHERE {condition.format(rel=table.integer('rel') or table.number('rel'))} LIMIT 1"
            ).fetchall()
            for table in self.inputs.judging
        )

    @cached_property
    def fingerprint(self) -> str:
        """The sum of the hashes of the judgments, in any order."""
        return str(self._rows(f"SELECT {FINGERPRINT} FROM qrels")[0][0])

    @cached_property
    def judged_share(self) -> float:
        """The share of grades from 0 among all grades."""
        counts = [
            self.session.con.execute(
                f"SELECT count(*) FILTER (WHERE {grade} >= 0), count({grade}) FROM {table.sql}"
            ).fetchall()[0]
            for table in self.inputs.judging
            for grade in [table.number("rel")]
        ]
        return float(sum(judged for judged, _ in counts) / sum(grades for _, grades in counts))

    def _rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with evaluation_errors(self.session, self.inputs, self.conventions):
            return self.run_sql(sql)
