"""TREC runs with six columns, TREC judgments with four, and MS MARCO runs with three or four."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import squash
from rankql.sources.files import ends_with_number, read_as_text, read_head, reads_as_number
from rankql.sources.tables import COLUMN_NAMES

_QRELS = ("query", "iteration", "item", "rel")
_RUN = ("query", "q0", "item", "rank", "score", "tag")
_MARCO = ("query", "item", "rank", "score")


@dataclass(frozen=True)
class TrecFile:
    """The columns of a TREC file (or of several, by a pattern), and how to read it.

    As in trec_eval 10, lines that begin with # are comments (those that look like other lines are
    counted), and words after the sixth column of a
    run are ignored. But if that column is a number, an id may contain a space: refused.
    """

    # The pattern of the files, as SQL.
    pattern: str
    columns: tuple[str, ...]
    # The single character that separates all columns of the first lines, "" if there is none.
    delimiter: str
    # The first value of a header, if there is one.
    header: str = ""

    @property
    def delimited(self) -> str:
        """SQL that reads columns separated by one character: DuckDB's parallel reader."""
        return read_as_text(self.pattern, self.delimiter, self.columns)

    @property
    def split(self) -> str:
        """SQL that reads columns separated by any white space."""
        fields = ", ".join(f"line[{i}] AS {quote(name)}" for i, name in enumerate(self.columns, 1))
        return f"(SELECT {fields} FROM {self._lines})"

    @property
    def malformed(self) -> str:
        """SQL that returns a line with other columns, if there is one."""
        unlike = f"len(line) <> {len(self.columns)}"
        if self.columns == _RUN:
            score, tag = (f"TRY_CAST(line[{i}] AS DOUBLE) IS NULL" for i in (5, 6))
            unlike = f"len(line) < 6 OR len(line) > 6 AND ({score} OR NOT {tag})"
        return f"SELECT array_to_string(line, ' ') FROM {self._lines} WHERE {unlike} LIMIT 1"

    @property
    def _lines(self) -> str:
        trimmed = "trim(line, ' ' || chr(9))"
        words = f"(SELECT string_split_regex({trimmed}, '\\s+') AS line "
        words += f"FROM {read_as_text(self.pattern)} WHERE {trimmed} <> '')"
        comment = f"starts_with(line[1], '#') AND len(line) <> {len(self.columns)}"
        return f"(FROM {words} WHERE NOT ({comment}))"


def detect_trec(path: str, pattern: str, label: str) -> TrecFile:
    """Detect the columns of a file from its first lines; refuse a file that is not TREC."""
    lines = [line for line in read_head(path) if not line.lstrip().startswith("#")]
    if not lines:
        raise RankqlError(f"{label}: {path!r} is empty")
    first, header = lines[0].split(), ""
    columns: tuple[str, ...] | None = {4: _QRELS, 6: _RUN}.get(len(first))
    if len(first) in (3, 4) and _is_marco(lines):
        columns = _MARCO[: len(first)]
    if len(first) > 6 and reads_as_number(first[4]) and not reads_as_number(first[5]):
        columns = _RUN
    if len({*map(squash, first)} & COLUMN_NAMES) > 1:
        columns, header = tuple(first), first[0]
    if columns is None:
        raise RankqlError(
            f"{label}: cannot read {path!r}: unknown format. Supported: Parquet, CSV, JSON and "
            "TREC "
            f"(4 or 6 columns; its first line has {len(first)}), optionally .gz or .zst. Rename a "
            "file with commas or tabs to .csv or .tsv, with a header such as query,item,rel"
        )
    delimiters = (d for d in " \t" if all(_is_split_by(d, line, columns) for line in lines))
    return TrecFile(literal(pattern), columns, next(delimiters, ""), header)


def has_no_header(path: str) -> bool:
    """Is a .tsv file one of MS MARCO or TREC, whose first line ends with numbers?"""
    names = (".tsv", ".tsv.gz", ".tsv.zst")
    if not path.lower().endswith(names):
        return False
    return ends_with_number(next(iter(read_head(path, 1)), "").split("\t"))


def _is_marco(lines: Sequence[str]) -> bool:
    """Are they query, item and rank, and not the judgments of TREC: do ranks go up by 1?"""
    rows = [line.split() for line in lines[:1000]]
    if not all(len(row) == len(rows[0]) and row[2].isdecimal() for row in rows):
        return False
    ranks = [int(row[2]) for row in rows if row[0] == rows[0][0]]
    items = {row[1] for row in rows}
    # The iteration of judgments is the same in all lines.
    judgments = len(items) == 1 and (len(rows) > 1 or items <= {"0", "Q0"})
    return ranks == [*range(1, len(ranks) + 1)] and not judgments


def _is_split_by(delimiter: str, line: str, columns: Sequence[str]) -> bool:
    return line.split(delimiter) == line.split() and len(line.split()) == len(columns)
