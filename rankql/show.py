"""Tables of a few rows as text, Markdown and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import polars as pl

Rows = list[list[str]]


def cells(frame: pl.DataFrame) -> Rows:
    """The header of a frame, and its rows, as text."""
    return [frame.columns, *([cell(value) for value in row] for row in frame.rows())]


def cell(value: Any) -> str:
    """A value as text: four digits of a fraction, nothing for NULL."""
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def text(rows: Rows, remarks: Sequence[str] = ()) -> str:
    """The rows in aligned columns, the remarks below."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *([""] if remarks else []), *remarks])


def markdown(rows: Rows, remarks: Sequence[str] = ()) -> str:
    """The rows as a Markdown table."""

    def safe(words: str) -> str:
        return html.escape(words.replace("\\", "\\\\").replace("|", "\\|"), quote=False).replace(
            "\n", " "
        )

    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    table = ["| " + " | ".join(map(safe, line)) + " |" for line in lines]
    return "\n".join([*table, *(part for remark in remarks for part in ("", safe(remark)))])


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
