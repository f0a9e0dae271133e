"""The words of verdicts, and the result of a gate for people, pull requests and CI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import polars as pl

import rankql
from rankql.core.base import text
from rankql.core.base.results import TableResult, define_chart, drop_idle_columns
from rankql.core.evaluation.plan.meta import describe_pool
from rankql.core.evaluation.result.result import EvaluatedTable, Result

# The verdicts of compare on tested pairs, and on identical rankings.
BETTER, WORSE, NOT_SIGNIFICANT, NO_DIFFERENCE = (
    "better", "worse", "not significant", "no difference"
)  # fmt: skip
SIGNIFICANT = (BETTER, WORSE)
# The verdict of compare on metrics of which neither a higher nor a lower value is better.
NO_DIRECTION = "no direction"
# The statuses of a gate.
FAILED, INCONCLUSIVE, TOO_FEW, PASSED = "failed", "inconclusive", "too few queries", "passed"
STATUSES = (FAILED, INCONCLUSIVE, TOO_FEW, PASSED)
# The check that run and baseline rank the same queries, which inconclusive="warn" does not skip.
RANKED = "queries ranked"
# What is displayed of a limit, and the line on those that are not.
COLUMNS = ("status", "check", "slice", "mean", "baseline", "n", "message")
NOT_SHOWN = "Not shown"
# The choices of inconclusive=.
ON_INCONCLUSIVE = ("fail", "warn")
SCHEMA = {
    **dict.fromkeys(("check", "metric", "slice"), pl.String),
    **dict.fromkeys(("mean", "baseline", "limit", "difference", "lo", "hi"), pl.Float64),
    **{"confidence": pl.Float64, "n": pl.Int64, "queries_needed": pl.Int64},
    **{"status": pl.String, "message": pl.String},
}


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(EvaluatedTable):
    """The result of a gate. It is true if the run passed.

    `table` has one row per limit and slice: the means, the limit, the difference (run - baseline),
    the interval that decided (`lo`, `hi` and its level, `confidence`), the number of queries `n`,
    about how many would decide an inconclusive limit (`queries_needed`), a status ('failed',
    'inconclusive', 'too few queries', 'passed') and a message. `lo` and `hi` are bounds of the
    difference, or of the mean for a minimum; NULL if no interval was needed. `result` has the
    values of the run. `inputs` says what was compared: the paths of the run, the baseline and the
    judgments, or what they were in memory.
    """

    table: pl.DataFrame
    result: Result
    on_inconclusive: str = "fail"
    inputs: Mapping[str, str] = field(default_factory=dict)
    _page_chart = "draw_limit"
    _details = ("passed", "outcome", *EvaluatedTable._details)

    @property
    def outcome(self) -> str:
        """'failed', 'inconclusive' or 'passed'."""
        if len(self.failures):
            return FAILED
        always = (self.inconclusive["check"] == RANKED).any()
        blocked = always or (self.on_inconclusive == "fail" and len(self.inconclusive))
        return INCONCLUSIVE if blocked else PASSED

    @property
    def passed(self) -> bool:
        """Whether the run may ship."""
        return self.outcome == PASSED

    def __bool__(self) -> bool:
        return self.passed

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0 passed, 1 failed, 3 inconclusive."""
        return {PASSED: 0, FAILED: 1, INCONCLUSIVE: 3}[self.outcome]

    @property
    def failures(self) -> pl.DataFrame:
        """The rows of the table that failed."""
        return self.table.filter(pl.col("status") == FAILED)

    @property
    def inconclusive(self) -> pl.DataFrame:
        """The rows of the table that are inconclusive."""
        return self.table.filter(pl.col("status") == INCONCLUSIVE)

    @property
    def notes(self) -> list[str]:
        """Notes on how the limits were tested, and on queries that were left out."""
        return self.result.notes

    @property
    def title(self) -> str:
        """The outcome in one line."""
        counts = Counter(self.table["status"])
        checks = text.format_count(len(self.table), "check")
        others = [x for x in STATUSES if counts[x] and x not in (self.outcome, PASSED)]
        parts = [f"{counts[self.outcome]:,} of {checks}", *(f"{counts[x]:,} {x}" for x in others)]
        return f"Gate {self.outcome}: {', '.join(parts)}{describe_pool(self.result.meta)}"

    def displayed(self) -> list[pl.DataFrame]:
        """All limits; of a gate that did not pass, without the slices that passed."""
        return [drop_idle_columns(self._worst_first().filter(~self._hidden).select(COLUMNS))]

    @property
    def _hidden(self) -> pl.Expr:
        """The slices that passed, if the gate did not."""
        return pl.lit(not self.passed) & (pl.col("status") == PASSED) & (pl.col("slice") != "all")

    def remarks(self) -> list[text.Note]:
        """Where the limits are that are not displayed, and the other lines below the table."""
        hidden = [f"{name}. .table and --format csv have all" for name, _ in self._folded()]
        return [*(text.Note(x, heading=NOT_SHOWN) for x in hidden), *super().remarks()]

    def _facts(self) -> list[str]:
        named = [f"{name} {value}" for name, value in self.inputs.items()]
        return [*named, datetime.now(UTC).date().isoformat(), f"rankql {rankql.__version__}"]

    def _folded(self) -> list[tuple[str, pl.DataFrame]]:
        hidden = self.table.filter(self._hidden).select(COLUMNS)
        name = f"{text.format_count(len(hidden), 'slice')} that passed"
        return [(name, drop_idle_columns(hidden))] if len(hidden) else []

    def _charts(self) -> tuple[list[Any], list[Any]]:
        """A chart for each limit, of its slices."""
        checks = self.table.drop_nulls("limit").partition_by("check", maintain_order=True)
        return [define_chart(self._page_chart, rows) for rows in checks], []

    def _render_page(self, **page: Any) -> str:
        shown = [x for x in self.remarks() if x.heading != NOT_SHOWN]  # which is folded
        return TableResult._render_page(self.with_remarks(shown), **page)

    def _worst_first(self) -> pl.DataFrame:
        return self.table.sort(pl.col("status").cast(pl.Enum(STATUSES)), maintain_order=True)

    def junit(self) -> str:
        """The limits as JUnit XML.

        An inconclusive limit is a failure, or skipped if inconclusive="warn". A slice with too few
        queries is skipped.
        """
        unclear = "failure" if self.on_inconclusive == "fail" else "skipped"
        tags = {FAILED: "failure", INCONCLUSIVE: unclear, TOO_FEW: "skipped", PASSED: "system-out"}
        counts = Counter(tags[status] for status in self.table["status"])
        totals = {
            "name": "rankql gate",
            "tests": str(len(self.table)),
            "failures": str(counts["failure"]),
            "errors": "0",
            "skipped": str(counts["skipped"]),
        }
        root = ElementTree.Element("testsuites", totals)
        suite = ElementTree.SubElement(root, "testsuite", totals)
        for row in self.table.iter_rows(named=True):
            names = {"classname": f"rankql.gate.{row['metric']}", "name": _title(row)}
            names = {key: _xml(value) for key, value in names.items()}
            tag, message = tags[row["status"]], _xml(row["message"])
            case = ElementTree.SubElement(suite, "testcase", names)
            about = {"message": message} if row["status"] != PASSED else {}
            about |= {"type": row["status"]} if tag == "failure" else {}
            ElementTree.SubElement(case, tag, about).text = message
        ElementTree.indent(root)
        xml = ElementTree.tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}\n'

    def annotations(self) -> list[str]:
        """The limits that did not pass, as annotations for GitHub Actions."""
        unclear = "error" if self.on_inconclusive == "fail" else "warning"
        levels = {FAILED: "error", INCONCLUSIVE: unclear, TOO_FEW: "notice"}
        rows = self._worst_first().filter(pl.col("status").is_in([*levels])).to_dicts()
        titles = (_data(_title(row)).replace(":", "%3A").replace(",", "%2C") for row in rows)
        return [
            f"::{levels[row['status']]} title={title}::{_data(row['message'])}"
            for row, title in zip(rows, titles, strict=True)
        ]


def _title(row: Mapping[str, Any]) -> str:
    return text.add_slice(row["check"], row["slice"], brackets=True)


def _data(value: str) -> str:
    return text.escape_controls(value).replace("%", "%25")


def _xml(value: str) -> str:
    """Text without characters that XML does not allow, even escaped."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", value)
