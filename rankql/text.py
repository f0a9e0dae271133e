"""Tables of a few rows as text, Markdown and HTML."""

from __future__ import annotations

import html
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Rows = list[list[str]]
TEXT = (pl.String, pl.Categorical, pl.Enum)


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


def count(n: int, noun: str) -> str:
    """A number of things: '1 query', '19,255 queries'."""
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def noun(column: str) -> str:
    """What a row of a key column stands for: 'user' of user_id; 'key' where the name is no word."""
    name = column.removesuffix("_id")
    is_word = len(name) > 2 and name[-1:].isalpha()
    return name if is_word or not name.isascii() else "key"


def plural(noun: str) -> str:
    """The plural of an English noun; words of other scripts and plurals stay as they are."""
    end = noun.lower()
    if not noun.isascii() or (end.endswith("s") and not end.endswith("ss")):
        return noun
    if end.endswith(("ss", "x", "z", "ch", "sh")):
        return f"{noun}es"
    if end.endswith("y") and end[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def are(n: int) -> str:
    """The verb for a number of things."""
    return "is" if n == 1 else "are"


def queries(n: int) -> str:
    """A number of queries in words."""
    return count(n, "query")


def chance(p: float, alpha: float = 0.0) -> str:
    """A p-value in words, with as many digits as show on which side of alpha it lies."""
    if p < 0.001 and not p > alpha > 0:
        return "p < 0.001"
    texts = (f"{p:.{digits}g}" for digits in range(2, 12))
    return f"p = {next((x for x in texts if (float(x) <= alpha) == (p <= alpha)), p)}"


# An interval this narrow, relative to its bounds, differs from a point by rounding only.
ROUNDING = 1e-9
# A bound this close to a limit lies on it.
_EQUAL = 1e-12


def digits(lo: float, hi: float, least: int = 0) -> int:
    """The number of decimals that shows two digits of half an interval.

    Of an interval as narrow as rounding, the number that shows three digits of its bounds.
    """
    size, half = max(abs(lo), abs(hi)), (hi - lo) / 2
    if half > ROUNDING * size:
        return max(least, 1 - math.floor(math.log10(half)))
    return max(least, 2 - math.floor(math.log10(size))) if size else 3


def digits_apart(lo: float, hi: float, limit: float = 0.0) -> int:
    """The number of decimals that also shows on which side of a limit each bound lies."""
    decimals = max(0, digits(lo, hi))
    bounds = [bound for bound in (lo, hi) if abs(bound - limit) > _EQUAL]
    while decimals < 12 and any(_crossed(bound, decimals, limit) for bound in bounds):
        decimals += 1
    return decimals


def _crossed(bound: float, decimals: int, limit: float) -> bool:
    """Whether rounding moves a bound to, or across, the limit."""
    shown = round(bound, decimals)
    return abs(shown - limit) <= _EQUAL or (shown > limit) != (bound > limit)


def decimal(value: float, decimals: int, sign: str = "") -> str:
    """A number as text: thousands separators, never a negative zero."""
    return f"{value:{sign}z,.{decimals}f}"


def estimate(value: float, lo: float, hi: float, least: int = 0, sign: str = "") -> str:
    """A number with its interval, to two digits of half of it: '0.20 (-0.05 to 0.45)'."""
    decimals = digits(lo, hi, least)
    value, lo, hi = (decimal(x, decimals, sign) for x in (value, lo, hi))  # type: ignore[assignment]
    return f"{value} ({lo} to {hi})"


def format_interval(bounds: Sequence[Any], sign: str = "") -> str:
    """A mean with its interval, as text: three digits, or two of the interval."""
    mean, lo, hi = bounds
    if mean is None:
        return "undefined"
    if lo is None or hi is None:
        return f"{mean:{sign}z.3f}"
    return estimate(mean, lo, hi, 3, sign)


def rounded(value: float, digits: int = 3) -> str:
    """A number with so many significant digits: 0.0123, 12.3, 12,300."""
    if not 1e3 <= abs(value) < 1e15:
        return f"{value + 0.0:.{digits}g}"
    return f"{float(f'{value:.{digits}g}'):,.0f}"


def rounded_up(value: float, digits: int = 2) -> str:
    """A positive number, rounded up to so many significant digits."""
    places = digits - 1 - math.floor(math.log10(value))
    if abs(places) > 15:
        return f"{value:.{digits}g}"
    up = math.ceil(round(value * 10.0**places, 6)) / 10.0**places
    return f"{up:,.{max(0, places)}f}"


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
    return f"{value:z.4f}" if isinstance(value, float) else str(value)


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


def display_width(words: str) -> int:
    """The number of terminal columns that a text takes: Chinese characters take two each."""
    if words.isascii():
        return len(words)
    marks = sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in words)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in words)
    return len(words) - marks + wide


def padded(words: str, width: int) -> str:
    """A text filled up with spaces to a display width."""
    return words + " " * (width - display_width(words))


def text(rows: Rows, remarks: Sequence[str] = ()) -> str:
    """The rows in aligned columns, the remarks below."""
    rows = [list(map(plain, row)) for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(padded, row, widths)).rstrip() for row in rows]
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
