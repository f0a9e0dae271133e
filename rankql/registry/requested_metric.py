"""A requested metric with cutoff and options, such as `P(rel=2)@5`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankql.macros import literal
from rankql.registry.metric_record import RELEVANT, RETRIEVED, MetricRecord, Rows


@dataclass(frozen=True)
class Metric:
    """A metric with its cutoff and options, or an SQL expression of the user."""

    record: MetricRecord | None
    k: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    # The name that it was asked for by; of an expression, its name.
    label: str = ""
    expression: str = ""
    # Of a metric of shown items, which has no record: that of its function.
    shown: MetricRecord | None = None

    @property
    def known(self) -> MetricRecord | None:
        """The record of a metric that is not an expression of the user."""
        return self.record or self.shown

    @property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self.label or self.canonical

    @property
    def canonical(self) -> str:
        """The one name that all its names stand for."""
        if self.known is None:
            return self.label
        options = ", ".join(
            f"{'rel' if name == 'threshold' else name}={_as_text(value)}"
            for name, value in self.options.items()
            if name != "recall"
        )
        k = self.options.get("recall", self.k)
        cutoff = "" if k is None else f"@{k}"
        return self.known.name + (f"({options})" if options else "") + cutoff

    def at(self, k: int | None) -> Metric:
        """The metric with another cutoff, or without one."""
        stem = re.sub(r"(@|(?<=_))[\d.]+$", "", self.label)
        if stem and k is not None:
            stem += str(k) if stem.endswith("_") else f"@{k}"
        return replace(self, k=k, label=stem)

    @property
    def scaled(self) -> bool:
        """Does its value depend on the highest grade of the scale?"""
        if self.record is None or "max_rel" in self.options:
            return self.record is not None
        scale = self.record.options.get("max_rel")
        return scale is not None and bool(scale.convention) and self._takes("max_rel")

    def under(self, conventions: Mapping[str, Any]) -> Metric:
        """The metric without options that repeat a convention."""
        if self.known is None:
            return self
        kept = {}
        for name, value in self.options.items():
            default = self.known.default(name, conventions)
            default = tuple(default) if isinstance(default, list) else default  # of a result
            option = self.known.options.get(name)
            same = option.same_without_k if option and self.k is None else ()
            if value != default and not (value in same and default in same):
                kept[name] = value
        return replace(self, options=kept)

    def arguments(self, conventions: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of the macro but the columns."""
        assert self.known
        arguments: dict[str, Any] = {}
        for name, option in self.known.options.items():
            value = self.options.get(name, option.default_under(conventions))
            if value is not None and literal(value) != option.sql_default and self._takes(name):
                arguments[name] = value
        if self.k is not None:
            arguments["k"] = self.k
        return arguments

    def gain(self, conventions: Mapping[str, Any]) -> Any:
        """The gain of a grade: a kind or a mapping."""
        assert self.record
        return self.options.get("gain", self.record.default("gain", conventions)) or "linear"

    def value(self, name: str, conventions: Mapping[str, Any]) -> Any:
        """The value of an option: as asked for, else by the conventions, else its own default."""
        option = self.known.options.get(name) if self.known else None
        if option is None or name in self.options:
            return self.options.get(name)
        return option.default_under(conventions) if option.convention else option.default

    def threshold(self, conventions: Mapping[str, Any]) -> float:
        """The grade from which an item is relevant."""
        value = self.value("threshold", conventions)
        return float(conventions["threshold"] if value is None else value)

    def weight(self, conventions: Mapping[str, Any]) -> str:
        """The weight of a ranking in a mean over all rankings, as SQL."""
        assert self.record and self.record.weight
        k = literal(self.k)
        if conventions["ties"] == "expected":
            place = "score"
            retrieved = "CASE WHEN count({pos}) > {k} THEN {k} ELSE count({pos}) END"
        else:
            place, retrieved = "pos", "count(CASE WHEN {pos} <= {k} THEN 1 END)"
        size = {
            "k": RETRIEVED,
            "min": f"CASE WHEN {RELEVANT} > {{k}} THEN {{k}} ELSE {RELEVANT} END",
            "retrieved": "count({pos})" if self.k is None else retrieved,
        }.get(self.value("denominator", conventions), "")
        weight = self.record.weight.replace("{size}", size)
        return weight.format(k=k, threshold=self.threshold(conventions), pos=place)

    def rows(self, conventions: Mapping[str, Any]) -> Rows:
        """The rows that the value depends on."""
        if self.record is None:
            return "all"
        denominator = self.value("denominator", conventions)
        by_retrieved = self.record.counts_retrieved or denominator == "k"
        if denominator == "retrieved" or (by_retrieved and self.k is None):
            return "all"
        threshold = self.value("threshold", conventions)
        if threshold is not None and threshold <= 0:
            return "judged"
        return "judged" if self.value("negative", conventions) == "keep" else self.record.rows

    def _takes(self, name: str) -> bool:
        """Does the option apply, given the others?"""
        assert self.known
        other = self.known.options[name].only_with
        if other is None:
            return True
        default = self.known.options[other[0]].default
        return bool(self.options.get(other[0], default) == other[1])


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
