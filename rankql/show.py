"""Tables of a few rows as text, Markdown and HTML."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.arguments import TEXT

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Rows = list[list[str]]


class Plain:
    """What is plain values, as `to_dict` gives them."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2, default=str)


class Tabular(Plain):
    """What is a table at heart, which `to_polars` gives."""

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas frame."""
        return self.to_polars().to_pandas()

    def to_arrow(self) -> pa.Table:
        """The same as an Arrow table."""
        return self.to_polars().to_arrow()


def queries(count: int) -> str:
    """A number of queries in words."""
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def chance(p: float) -> str:
    """A p-value in words."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def digits(lo: float, hi: float, least: int = 0) -> int:
    """How many digits behind the point show two of half an interval."""
    return max(least, 1 - math.floor(math.log10((hi - lo) / 2))) if hi > lo else 3


def small(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The frame with p-values as text; what would be 0.0000 is below that."""
    return frame.with_columns(
        pl.when(pl.col(name) < 0.0001)
        .then(pl.lit("<0.0001"))
        .otherwise(pl.col(name).map_elements(cell, return_dtype=pl.String))
        .alias(name)
        for name in names
        if name in frame.columns
    )


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: a, b and c."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def cells(frame: pl.DataFrame) -> Rows:
    """The header of a frame, and its rows, as text."""
    return [frame.columns, *([cell(value) for value in row] for row in frame.rows())]


def cell(value: Any) -> str:
    """A value as text: four digits of a fraction, nothing for NULL."""
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def csv(frame: pl.DataFrame) -> str:
    """A frame as CSV, no text of which a spreadsheet takes for a formula."""
    columns = [pl.col(name).cast(pl.String) for name, kind in frame.schema.items() if kind in TEXT]
    risky = [column.str.contains(r"^[=+\-@\t\r]") for column in columns]
    safe = [
        pl.when(formula).then(pl.concat_str(pl.lit("'"), column)).otherwise(column)
        for formula, column in zip(risky, columns, strict=True)
    ]
    names = [f"'{name}" if name.startswith(tuple("=+-@\t\r")) else name for name in frame.columns]
    named = [
        value.alias(column.meta.output_name()) for value, column in zip(safe, columns, strict=True)
    ]
    return (
        frame.with_columns(named).rename(dict(zip(frame.columns, names, strict=True))).write_csv()
    )


def plain(words: str) -> str:
    """Text on one line: what could break it, or steer a terminal or a log of CI, is escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)


def text(rows: Rows, remarks: Sequence[str] = ()) -> str:
    """The rows in aligned columns, the remarks below."""
    rows = [list(map(plain, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *([""] if remarks else []), *map(plain, remarks)])


def markdown(rows: Rows, remarks: Sequence[str] = ()) -> str:
    """The rows as a Markdown table."""
    header, *body = [list(map(_literal, line)) for line in rows]
    table = ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *body]]
    return "\n".join([*table, *(part for remark in remarks for part in ("", paragraph(remark)))])


def paragraph(words: str) -> str:
    """Text as Markdown in which nothing is interpreted, on one line."""
    return re.sub(r"^([#+=-]|\d+(?=[.)]))", _begun, _literal(words))


def _begun(match: re.Match[str]) -> str:
    """What would begin a heading or a list."""
    start = match[0]
    return f"{start}<!-- -->" if start.isdigit() else f"\\{start}"


def _literal(words: str) -> str:
    text = " ".join(words.split()) if not words.isprintable() else words.strip()
    text = html.escape(re.sub(r"([\\`*\[\]|~$]|(?<!\w)_|_(?!\w))", r"\\\1", text), quote=False)
    # Forges link people, issues, addresses and emoji even where the character is escaped.
    return _LINKED.sub(r"\g<0><!-- -->", text)


_LINKED = re.compile(r"@(?=[^\W\d])|(?<!\w)[@#](?=\w)|:(?=//|[\w+-]+:)|\bwww(?=\.)")


def as_html(rows: Rows, remarks: Sequence[str] = ()) -> str:
    """The rows as an HTML table, everything escaped."""

    def line(tag: str, words: Sequence[str]) -> str:
        inside = "".join(f"<{tag}>{html.escape(word)}</{tag}>" for word in words)
        return f"<tr>{inside}</tr>"

    header, *body = rows
    below = "".join(f"<p><small>{html.escape(remark)}</small></p>" for remark in remarks)
    return (
        f"<table><thead>{line('th', header)}</thead>"
        f"<tbody>{''.join(line('td', row) for row in body)}</tbody></table>{below}"
    )
