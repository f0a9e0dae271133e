"""The findings of `check`, and the report that displays them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from rankql import text
from rankql.results import TableResult

LEVELS = ("error", "warning", "note")
_COLUMNS = ("level", "kind", "table", "count", "message", "examples", "why")
_SCHEMA = {name: pl.Int64 if name == "count" else pl.String for name in _COLUMNS}


@dataclass(frozen=True)
class Finding:
    """One problem in the data.

    `level` is 'error' (`evaluate` refuses the data), 'warning' (metrics may mislead) or 'note'.
    `message` says what is wrong, `why` says why it matters and what to do.
    """

    kind: str
    level: str
    table: str
    count: int
    message: str
    why: str
    examples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class Report(TableResult):
    """The findings of `check`, errors first."""

    findings: Sequence[Finding]
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    k: int = 10
    # Always empty: everything is a finding.
    notes: list[str] = field(default_factory=list)
    _details = ("ok", "k", "tables")

    @property
    def ok(self) -> bool:
        """Whether no finding is an error; warnings and notes are allowed."""
        return all(finding.level != "error" for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return True  # even without findings; see .ok

    @property
    def table(self) -> pl.DataFrame:
        """One row per finding, its examples as JSON."""
        return self._tabulate(lambda examples: json.dumps(examples, ensure_ascii=False))

    def _tabulate(self, write: Callable[[Sequence[Any]], str]) -> pl.DataFrame:
        rows = [{**asdict(each), "examples": write(each.examples)} for each in self.findings]
        return pl.DataFrame(rows, schema=_SCHEMA)

    def to_dict(self) -> dict[str, Any]:
        """The findings and the checked tables, as plain values."""
        findings = [
            {**asdict(finding), "examples": list(finding.examples)} for finding in self.findings
        ]
        return {**super().to_dict(), "table": findings}

    @property
    def title(self) -> str:
        """The tables and the number of findings, in one line."""
        tables = ", ".join(
            f"{label} ({text.format_count(about['rows'], 'row')})"
            for label, about in self.tables.items()
        )
        counts = [
            (level, sum(finding.level == level for finding in self.findings)) for level in LEVELS
        ]
        totals = ", ".join(text.format_count(count, level) for level, count in counts if count)
        judged = any({"rel", "grade"} & {*about["columns"]} for about in self.tables.values())
        unread = "" if judged else ", without judgments"
        return f"Check of {tables}{unread} at k = {self.k}: {totals or 'no problems found'}"

    def __repr__(self) -> str:
        lines = [self.title]
        cells = [("", "", ""), *((f.kind, f.table, f"{f.count:,}") for f in self.findings)]
        kind, table, count = (max(map(len, column)) for column in zip(*cells, strict=True))
        margin = " " * (kind + table + count + 8)
        for level in LEVELS:
            of_level = [f for f in self.findings if f.level == level]
            lines += ["", f"{level}s"] if of_level else []
            for f in of_level:
                head = f"  {f.kind:{kind}}  {f.table:{table}}  {f.count:>{count},}"
                lines.append(f"{head}  {f.message}")
                lines += [f"{margin}e.g. {_example_text(example)}" for example in f.examples]
                lines.append(f"{margin}why: {f.why}")
        return "\n".join(map(text.escape_controls, lines))

    def displayed(self) -> list[pl.DataFrame]:
        """The findings, with their examples as text."""
        frame = self._tabulate(lambda examples: "; ".join(map(_example_text, examples)))
        return [frame] if self.findings else []


def _example_text(example: Mapping[str, Any]) -> str:
    values = {
        name: f"{value:.15g}" if isinstance(value, float) else text.show_id(value)
        for name, value in example.items()
    }
    return ", ".join(f"{name} {value}" for name, value in values.items())


def as_examples(
    rows: Sequence[Mapping[str, Any]] | None, hidden: Collection[str] = ()
) -> tuple[dict[str, Any], ...]:
    """Rows as examples, without hidden columns."""
    return tuple(
        {name: _json_value(value) for name, value in row.items() if name not in hidden}
        for row in rows or ()
    )


def _json_value(value: object) -> Any:
    """A value that JSON can hold: text where JSON has no type for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, int | float | str) else str(value)
