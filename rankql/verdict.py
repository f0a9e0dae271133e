"""What a gate says: to people, to pull requests and to CI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import polars as pl

from rankql import show
from rankql.comparison import Comparison
from rankql.result import Result

FAILED, TOO_FEW, WITHIN_NOISE, PASSED = "failed", "too few queries", "within noise", "passed"
STATUSES = (FAILED, TOO_FEW, WITHIN_NOISE, PASSED)
SCHEMA = {
    **dict.fromkeys(("check", "metric", "slice"), pl.String),
    **dict.fromkeys(("mean", "baseline", "limit", "difference", "lo", "hi"), pl.Float64),
    **{"p_adjusted": pl.Float64, "n": pl.Int64, "status": pl.String, "message": pl.String},
}


@dataclass(frozen=True, eq=False)
class Verdict(show.Tabular):
    """What a gate says: true if nothing failed.

    `table` has a row per check and slice: the means, limit, difference (run - baseline) with its
    interval, p_adjusted, n, a status ('failed', 'too few queries', 'within noise', 'passed') and a
    message. `result` is that of the run, `comparison` that with the baseline.
    """

    table: pl.DataFrame
    result: Result = field(repr=False)
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Did no check fail?"""
        return self.failures.is_empty()

    def __bool__(self) -> bool:
        return self.passed

    @property
    def failures(self) -> pl.DataFrame:
        """The rows of the table that failed."""
        return self.table.filter(pl.col("status") == FAILED)

    @property
    def notes(self) -> list[str]:
        """What is worth knowing of the queries and the tests."""
        return self.result.notes

    @property
    def summary(self) -> str:
        """How it ended, in one line."""
        counts = Counter(self.table["status"])
        found = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        return f"Gate {'passed' if self.passed else 'failed'}: {found}"

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Verdict, checks, conventions, columns and notes as plain values."""
        return {
            "passed": self.passed,
            "checks": self.table.to_dicts(),
            "conventions": self.result.conventions,
            "columns": self.result.columns,
            "notes": self.notes,
        }

    def to_markdown(self) -> str:
        """The verdict as Markdown, for a pull request."""
        return f"**{self.summary}**\n\n{show.markdown(self.rows(), self.result.remarks())}"

    def rows(self) -> show.Rows:
        """The table as text: what did not pass, or all where nothing failed."""
        frame = self._worst_first()
        if not self.passed:
            frame = frame.filter(pl.col("status") != PASSED)
        frame = frame.select("status", "check", "slice", "mean", "baseline", "n", "message")
        if frame["baseline"].is_null().all():
            frame = frame.drop("baseline")
        if (frame["slice"] == "all").all():
            frame = frame.drop("slice")
        return show.cells(frame)

    def _worst_first(self) -> pl.DataFrame:
        parts = [self.table.filter(pl.col("status") == status) for status in STATUSES]
        return pl.concat(parts)

    def junit(self) -> str:
        """The checks as JUnit XML, in which too few queries are a skipped test."""
        counts = Counter(self.table["status"])
        totals = {
            "name": "rankql gate",
            "tests": str(len(self.table)),
            "failures": str(counts[FAILED]),
            "errors": "0",
            "skipped": str(counts[TOO_FEW]),
        }
        root = ElementTree.Element("testsuites", totals)
        suite = ElementTree.SubElement(root, "testsuite", totals)
        tags = {FAILED: "failure", TOO_FEW: "skipped"}
        for row in self.table.iter_rows(named=True):
            names = {"classname": _xml(f"rankql.gate.{row['metric']}"), "name": _xml(_title(row))}
            case = ElementTree.SubElement(suite, "testcase", names)
            message = _xml(row["message"])
            if tag := tags.get(row["status"]):
                ElementTree.SubElement(case, tag, message=message).text = message
            else:
                ElementTree.SubElement(case, "system-out").text = message
        ElementTree.indent(root)
        text = ElementTree.tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'

    def annotations(self) -> list[str]:
        """What did not pass, as commands that GitHub Actions shows beside a commit."""
        levels = {FAILED: "error", TOO_FEW: "notice", WITHIN_NOISE: "notice"}
        return [
            f"::{levels[row['status']]} title={_property(_title(row))}::{_data(row['message'])}"
            for row in self._worst_first().iter_rows(named=True)
            if row["status"] in levels
        ]

    def __repr__(self) -> str:
        return f"{self.summary}\n\n{show.text(self.rows(), self.result.remarks())}"

    def _repr_html_(self) -> str:
        return f"<p>{self.summary}</p>{show.as_html(self.rows(), self.result.remarks())}"


def _title(row: Mapping[str, Any]) -> str:
    return str(row["check"]) + ("" if row["slice"] == "all" else f" [{row['slice']}]")


def _xml(text: str) -> str:
    """Text without the characters that no XML may hold, not even escaped."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
