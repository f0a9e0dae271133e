"""Numbers, words and tables as text, Markdown, HTML and LaTeX."""

from __future__ import annotations

import html
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

TableRows = list[list[str]]


class Cell(str):
    """The text of a cell with a mark behind it, such as † or letters.

    The best ones are bold in Markdown, HTML and LaTeX.
    """

    mark: str
    best: bool

    def __new__(cls, words: str, mark: str = "", best: bool = False) -> Cell:
        """Add the mark and the weight to a text."""
        cell = super().__new__(cls, words)
        cell.mark, cell.best = mark, best
        return cell


class Math(Cell):
    """A cell that is LaTeX of math mode, where a hyphen is a minus."""


class Name(str):
    """A name, which plain text cuts in the middle if it is long."""


class Status(Name):
    """A verdict or status, which has a sign and a colour in HTML."""


# The sign of a status, and its colour: on a page that of the style, which is legible in the dark.
_SIGNS = {
    "better": ("▲", "better", "#12936b"), "worse": ("▼", "worse", "#d1601f"),
    "passed": ("✓", "better", "#12936b"), "failed": ("✗", "worse", "#d1601f"),
    "inconclusive": ("?", "open", "#97790b"), "alarm": ("!", "worse", "#d1601f"),
}  # fmt: skip

TEXT_TYPES = (pl.String, pl.Categorical, pl.Enum)


def format_count(n: int, noun: str) -> str:
    """Format a number of things: '1 query', '19,255 queries'."""
    return f"{n:,} {noun if n == 1 else pluralise(noun)}"


def pluralise(noun: str) -> str:
    """Return the plural of an English noun; keep plurals and words in other scripts."""
    end = noun.lower()
    if not noun.isascii() or (end.endswith("s") and not end.endswith("ss")):
        return noun
    if end.endswith(("ss", "x", "z", "ch", "sh")):
        return f"{noun}es"
    if end.endswith("y") and end[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def is_or_are(n: int) -> str:
    """Return the verb for a number of things."""
    return "is" if n == 1 else "are"


def has_or_have(n: int) -> str:
    """Return the verb for what a number of things have."""
    return "has" if n == 1 else "have"


def format_queries(n: int) -> str:
    """Format a number of queries."""
    return format_count(n, "query")


# The heading of the line about queries that some means lack.
QUERIES = "Queries"
# The notes that change how numbers are read are of so large a share.
LARGE_SHARE = 0.05
# Of more different shares of queries, the smallest ones are counted.
SHARES = 5


# The kind of a note that is printed above the table: which way metrics are assumed to be better.
DIRECTION = "direction"


# The end of a note on grades that lists of a run have themselves.
NO_OTHERS = ". Others have none, so recall counts retrieved items only"


class Note(str):
    """A note with the name and the level of its check. A warning changes how numbers are read.

    The heading is what its words are about, such as a table. A note on queries that some means lack
    has the largest `share` of them, and is part of one line.
    """

    kind = heading = ""
    level = "note"
    share: float | None = None
    words: str

    def __new__(cls, words: str, **about: Any) -> Note:
        """Put the heading before the words."""
        heading = about.get("heading")
        note = super().__new__(cls, f"{heading}: {words}" if heading else words)
        vars(note).update(about, words=words)
        return note

    @classmethod
    def of(cls, note: str) -> Note:
        """A note, or a text as one."""
        return note if isinstance(note, Note) else cls(note)

    def reword(self, write: Callable[[str], str]) -> Note:
        """The note in other words."""
        return Note(**{**vars(self), "words": write(self.words)})


def note_shares(rows: Iterable[tuple[str, int, int]], end: str) -> list[Note]:
    """A note on shares of queries that some means lack, by name, unless all are 0."""
    rows = [*rows]
    share = max((count / total for _, count, total in rows if count), default=0)
    return [Note(f"{format_shares(rows)} {end}", heading=QUERIES, share=share)] if share else []


def join_queries(notes: Sequence[Note]) -> Note:
    """The line about queries that some means lack."""
    share = max(note.share or 0 for note in notes)
    level, words = "warning" if share > LARGE_SHARE else "note", "; ".join(x.words for x in notes)
    return Note(words, level=level, heading=QUERIES, share=share)


def format_shares(rows: Iterable[tuple[str, int, int]]) -> str:
    """Format shares of queries by name, without zeros: '9 of 60 (a), 8 of 60 (b and c)'.

    The largest come first. Names are left out if all have the same share.
    """
    names: dict[tuple[int, int], list[str]] = {}
    for name, count, total in rows:
        names.setdefault((count, total), []).append(name)
    shares = sorted(filter(lambda share: share[0], names), key=lambda share: -share[0] / share[1])
    listed = [
        f"{count:,} of {total:,}" + f" ({join_words(names[count, total])})" * (len(names) > 1)
        for count, total in shares[:SHARES]
    ]
    more = sum(len(names[share]) for share in shares[SHARES:])
    return ", ".join([*listed, *[f"fewer ({more:,} more)"] * (more > 0)])


def format_p(p: float, alpha: float = 0.0) -> str:
    """Format a p-value, with enough digits to see whether it is above alpha."""
    if p < 0.001 and not p > alpha > 0:
        return "p < 0.001"
    text = _on_its_side(p, alpha, (f"{p:#.{digits}g}" for digits in range(2, 12)))
    if text == "1.0":
        return "p = 1" if p > 1 - 1e-6 else "p > 0.99"
    return f"p = {text}"


def format_p_cell(p: float | None, alpha: float) -> str:
    """Format a p-value in a table: three decimals, or as many as show whether p is above alpha."""
    if p is None:
        return ""
    if p < 0.001 and not p > alpha:
        return "<0.001"
    return _on_its_side(p, alpha, (f"{p:.{decimals}f}" for decimals in range(3, 12)))


def _on_its_side(p: float, alpha: float, texts: Iterable[str]) -> str:
    """The first text of p that is on the same side of alpha as p is."""
    return next((x for x in texts if (float(x) <= alpha) == (p <= alpha)), str(p))


def format_percent(share: float) -> str:
    """Format a share or a confidence level: '95%'."""
    return f"{100 * share:.12g}%"


# An interval that is narrower, relative to its bounds, differs from a point by rounding only.
ROUNDING = 1e-9
# A bound that is closer to a limit lies on it.
_EQUAL = 1e-12


def count_decimals(lo: float, hi: float, least: int = 0) -> int:
    """Count the decimals that show two digits of half an interval.

    If the interval is as narrow as rounding, they show three digits of its bounds.
    """
    size, half = max(abs(lo), abs(hi)), (hi - lo) / 2
    if half > ROUNDING * size:
        return max(least, 1 - math.floor(math.log10(half)))
    return max(least, 2 - math.floor(math.log10(size))) if size else 3


def count_decimals_apart(lo: float, hi: float, limit: float = 0.0) -> int:
    """Count the decimals that also show whether each bound is above or below a limit."""
    decimals = max(0, count_decimals(lo, hi))
    bounds = [bound for bound in (lo, hi) if abs(bound - limit) > _EQUAL]

    def is_across(bound: float) -> bool:
        """Return whether rounding moves a bound to the limit or across it."""
        rounded = round(bound, decimals)
        return abs(rounded - limit) <= _EQUAL or (rounded > limit) != (bound > limit)

    while decimals < 12 and any(map(is_across, bounds)):
        decimals += 1
    return decimals


def format_decimal(value: float, decimals: int, sign: str = "") -> str:
    """Format a number with thousands separators and no negative zero."""
    return f"{value:{sign}z,.{decimals}f}"


def format_interval(bounds: Sequence[Any], sign: str = "") -> str:
    """Format mean, lo and hi, any of which may be undefined: '0.20 (-0.05 to 0.45)'."""
    mean, ends = format_ends(bounds, sign)
    return f"{mean} ({ends})" if ends else mean


def format_ends(bounds: Sequence[Any], sign: str = "") -> tuple[str, str]:
    """Format a mean, and its interval, '' if there is none.

    They have two digits of half the interval, and a bound of a difference, which has a sign, does
    not become 0. Without an interval, the mean has three decimals.
    """
    mean, lo, hi = bounds
    if mean is None:
        return "undefined", ""
    if lo is None or hi is None:
        return f"{mean:{sign}z.3f}", ""
    count = count_decimals_apart if sign or lo < 0 else count_decimals
    decimals = max(3, count(lo, hi))
    mean, low, high = (format_decimal(x, decimals, sign) for x in (mean, lo, hi))
    return mean, f"{low} to {high}"


def format_number(value: float) -> str:
    """Format a number with three significant digits: 0.0123, 12.3, 12,300."""
    if not 1e3 <= abs(value) < 1e15:
        return f"{value + 0.0:.3g}"
    return f"{float(f'{value:.3g}'):,.0f}"


def round_significant(value: float) -> str:
    """Round a positive number to two significant digits, and keep zeros at the end: 0.070."""
    places = 1 - math.floor(math.log10(float(f"{value:.2g}")))
    if abs(places) > 15:
        return f"{value:.2g}"
    return f"{round(value, places):,.{max(0, places)}f}"


def add_slice(name: str, part: str, *, brackets: bool = False) -> str:
    """Add the slice to a name, unless it has all queries: 'AP, lang=en' or 'AP [lang=en]'."""
    if part == "all":
        return name
    return f"{name} [{part}]" if brackets else f"{name}, {part}"


def show_id(value: object) -> str:
    """An id in a sentence. Letters with separate accents look like others, so they are escaped."""
    looks_alike = isinstance(value, str) and not unicodedata.is_normalized("NFC", value)
    return ascii(value) if looks_alike else repr(value)


def run_label(system: str | None) -> str:
    """The name of a run in an error or a note."""
    return "the run" if system is None else f"run {system!r}"


def join_words(words: Sequence[str]) -> str:
    """Join words for a sentence: a, b and c."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def join_some(words: Sequence[str], most: int = 3) -> str:
    """Join the first words, and count the others: a, b and 3 more."""
    more = [f"{len(words) - most:,} more"] * (len(words) > most)
    return join_words([*words[:most], *more])


# Characters of the names that a line lists.
_NAMES_WIDTH = 120


def list_names(names: Sequence[str]) -> str:
    """As many names as a line has room for, and how many more there are."""
    lengths = itertools.accumulate(len(name) + 2 for name in names)
    count = max(1, sum(length <= _NAMES_WIDTH + 2 for length in lengths))
    more = [f"{len(names) - count} more"] * (count < len(names))
    return " and ".join([", ".join(names[:count]), *more])


# Columns of results that are not formatted as others of their type.
_COUNTS = {
    "added", "count", "items", "judged", "losses", "lost", "missing", "n", "n_a", "n_b", "pairs",
    "queries", "queries_hi", "queries_lo", "queries_needed", "rows", "ties", "times", "undefined",
    "units", "units_needed", "wins", "worth",
}  # fmt: skip
_P_VALUES = {"p", "p_adjusted", "p_floor", "p_lo", "p_hi", "pearson_p", "spearman_p"}
_FORMATS = {**dict.fromkeys(("rel", "gain", "grade", "ideal_rel"), "z.6g"), "n_eff": ",.1f"}
# Columns in the unit of the interval in lo and hi.
_MEANS = {"mean_a", "mean_b"}
_ESTIMATES = {"mean", "difference", "share", "detectable", "lo", "hi", *_MEANS}


def format_table(frame: pl.DataFrame) -> TableRows:
    """Format the frame of a result: counts with separators, small p-values as <0.0001.

    Numbers up to 1 have four decimals, larger ones as many as their interval supports; both have
    more if the interval is too narrow to be seen. The means of a metric have the same decimals.
    """
    rows: list[dict[str, Any]] = frame.to_dicts()
    decimals: list[int | None] = []
    of_means: dict[Any, int] = {}
    for row in rows:
        count, lo, hi, metric = None, *map(row.get, ("lo", "hi", "metric"))
        if lo is not None and hi is not None:
            count = count_decimals(lo, hi, 4 if max(-lo, hi) <= 1 else 0)
            of_means[metric] = max(count, of_means.get(metric, 0))
        decimals.append(count)

    def cell(name: str, value: Any, count: int | None) -> str:
        if isinstance(value, int) and name in _COUNTS:
            return f"{value:,}"
        if isinstance(value, float) and name in _ESTIMATES and count is not None:
            return format_decimal(value, count)
        if isinstance(value, float) and name in _P_VALUES and value < 0.0001:
            return "<0.0001"
        if isinstance(value, float) and name in _FORMATS:
            return format(value, _FORMATS[name])
        return format_cell(value)

    body = []
    for row, count in zip(rows, decimals, strict=True):
        shared = of_means.get(row.get("metric"))
        body.append([cell(x, value, shared if x in _MEANS else count) for x, value in row.items()])
    return [frame.columns, *body]


def format_cell(value: Any) -> str:
    """Format a value: a float with four decimals, nothing for NULL."""
    if value is None:
        return ""
    return f"{value:z,.4f}" if isinstance(value, float) else str(value)


def format_csv(frame: pl.DataFrame) -> str:
    """Format a frame as CSV, with no text that a spreadsheet takes for a formula."""
    risky, texts = r"^([=+\-@\t\r])", [x for x, kind in frame.schema.items() if kind in TEXT_TYPES]
    safe = pl.col(texts).cast(pl.String).str.replace(risky, "'${1}")
    names = {name: re.sub(risky, r"'\1", name) for name in frame.columns}
    return frame.with_columns(safe).rename(names).write_csv()


def unique_names(names: Sequence[str], taken: Collection[str] = (), kind: str = "") -> list[str]:
    """Names that differ in more than case, also from those taken: p, p (system), p (2)."""
    used, unique = {name.lower() for name in taken}, list[str]()
    for name in names:
        others = [f"{name} ({kind})"] * bool(kind)
        numbered = (f"{name} ({n})" for n in itertools.count(2))
        candidates = itertools.chain([name, *others], numbered)
        unique.append(next(x for x in candidates if x.lower() not in used))
        used.add(unique[-1].lower())
    return unique


def escape_controls(words: str) -> str:
    """Escape line breaks, and characters that control a terminal or a CI log."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)


_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def show_controls(words: Any) -> Any:
    """A text for HTML with escapes for characters that control a terminal or the direction."""
    if not isinstance(words, str) or hasattr(words, "__html__"):
        return words
    return _CONTROLS.sub(lambda control: repr(control[0])[1:-1], words)


def escape_html(words: str) -> str:
    """Escape what HTML would interpret, and control characters."""
    return html.escape(show_controls(words))


def display_width(words: str) -> int:
    """Return the number of terminal columns of a text: Chinese characters take two."""
    if words.isascii():
        return len(words)
    marks = sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in words)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in words)
    return len(words) - marks + wide


def text_widths(rows: TableRows) -> list[int]:
    """The display columns of each column, with the marks."""
    columns = ([*zip(*map(_measure, column), strict=True)] for column in zip(*rows, strict=True))
    return [max(widths) + max(of_marks) for _, _, widths, of_marks in columns]


def _measure(cell: str) -> tuple[str, str, int, int]:
    """The words of a cell and the mark behind them, and the display columns of both."""
    words, mark = escape_controls(cell), _mark(cell)
    return words, mark, display_width(words), display_width(mark) if mark else 0


def _mark(cell: str) -> str:
    """The mark of a cell: letters behind a blank, or † and ‡."""
    mark: str = getattr(cell, "mark", "")
    return f" {mark}" if mark[:1].isalnum() else mark


def format_text(
    rows: TableRows, right: Collection[int] = (), others: TableRows | None = None
) -> str:
    """Format rows in aligned columns; columns `right` are aligned right.

    Columns are as wide as in other rows too.
    """
    columns = list[list[str]]()
    for i, column in enumerate(zip(*rows, *(others or ()), strict=True)):
        cells = [*map(_measure, column)]
        _, _, widths, of_marks = zip(*cells, strict=True)
        most, most_of_marks = max(widths), max(of_marks)
        align = str.rjust if i in right else str.ljust
        columns.append([
            align(words, most - width + len(words)) + mark + " " * (most_of_marks - of_mark)
            for words, mark, width, of_mark in cells[: len(rows)]
        ])  # fmt: skip
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def format_markdown(rows: TableRows, right: Collection[int] = ()) -> str:
    """Format rows as a Markdown table; columns `right` are aligned right."""

    def escaped(cell: str) -> str:
        words = _escape_markdown(cell, in_table=True)
        return (f"**{words}**" if getattr(cell, "best", False) else words) + _mark(cell)

    header, *body = [[*map(escaped, row)] for row in rows]
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *body])


def format_paragraph(words: str) -> str:
    """Format text as one line of Markdown in which nothing is interpreted."""
    return re.sub(r"^(\d*)([#+=>.)-])", r"\1\\\2", _escape_markdown(words))


def _escape_markdown(words: str, in_table: bool = False) -> str:
    """Escape what Markdown would interpret; words that a forge would link become code."""
    words = escape_controls(" ".join(words.split()) if not words.isprintable() else words.strip())
    return " ".join(
        _code(word, in_table) if _LINKS.search(word) else _SPECIAL.sub(r"\\\1", word)
        for word in words.split(" ")
    )


# Characters that Markdown may interpret.
_SPECIAL = re.compile(r"([\\`*\[\]|~$<]|(?<!\w)_|_(?!\w)|&(?=#?\w+;))")
# Forges link people, issues, addresses and emoji even if the character is escaped.
_LINKS = re.compile(r"@(?=[^\W\d])|(?<!\w)[@#](?=\w)|:(?=//|[\w+-]+:)|\bwww(?=\.)")


def _code(word: str, in_table: bool) -> str:
    """A word as code, which is not linked."""
    fence = "`" * (1 + max(map(len, re.findall("`+", word)), default=0))
    space = " " if word[0] == "`" or word[-1] == "`" else ""
    word = word.replace("|", "\\|") if in_table else word
    return f"{fence}{space}{word}{space}{fence}"


def format_sentence(words: str) -> str:
    """Format a sentence as HTML, everything escaped, in which dates are not broken."""
    unbroken = r'<span style="white-space:nowrap">\g<0></span>'
    return re.sub(r"\b\d{4}-\d\d-\d\d\b", unbroken, escape_html(words))


# Shorter cells are not broken. A wider table is stacked on a phone.
UNBROKEN, PHONE = 24, 42


def format_html(
    rows: TableRows, numbers: Collection[int] = (), caption: str = "",
    escape: Callable[[str], str] = escape_html,
) -> str:  # fmt: skip
    """Format rows as an HTML table, everything escaped; columns of numbers are aligned right.

    It scrolls if it is too wide. The style of a page stacks the cells of a row on a phone instead,
    each behind its header.
    """
    header, *body = rows
    # Counts that are 0 in all rows say nothing on a phone.
    idle = ['class="idle" ' * all(row[i] == "0" for row in body) for i in range(len(header))]
    kinds = [("td", f'data-label="{escape_html(x)}" {idle[i]}') for i, x in enumerate(header)]
    if 0 not in numbers:
        kinds[:1] = [("th", 'scope="row" ')]

    def cell(i: int, word: str, tag: str, attributes: str) -> str:
        words = escape(word)
        if isinstance(word, Status) and word in _SIGNS:
            sign, name, colour = _SIGNS[word]
            style = f"color:var(--{name},{colour});font-weight:600"
            words = f'<span style="{style}">{sign} {words}</span>'
        words = f"<strong>{words}</strong>" if getattr(word, "best", False) else words
        mark = f"<sup>{escape_html(mark)}</sup>" if (mark := _mark(word).strip()) else ""
        style = f"text-align:{'right' if i in numbers else 'left'};padding:.2em .6em"
        style += ";white-space:nowrap" * (display_width(word) <= UNBROKEN)
        return f'<{tag} {attributes}style="{style}">{words}{mark}</{tag}>'

    def line(row: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(i, x, *kinds[i]) for i, x in enumerate(row))}</tr>"

    title = f'<caption style="text-align:left">{escape_html(caption)}</caption>' if caption else ""
    top = "".join(cell(i, word, "th", 'scope="col" ') for i, word in enumerate(header))
    wide = ' class="wide"' * (sum(text_widths(rows)) + 2 * len(header) > PHONE)
    return (
        f'<div class="scroll" style="overflow-x:auto" role="region" tabindex="0" '
        f'aria-label="{escape_html(caption or "Table")}"><table{wide}>{title}'
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(map(line, body))}</tbody></table></div>"
    )


def format_latex(
    rows: TableRows, right: Collection[int] = (), title: str = "",
    heads: Mapping[str, tuple[str, str]] | None = None,
) -> str:  # fmt: skip
    """Format rows as a tabular of booktabs, everything escaped; columns `right` aligned right.

    Cells of the header that `heads` knows have two lines, the first over all that share it.
    """

    def escaped(cell: str) -> str:
        indent = "\\quad " * ((len(cell) - len(cell.lstrip(" "))) // 2)
        words = f"${cell}$" if isinstance(cell, Math) else indent + escape_latex(cell.lstrip(" "))
        mark = escape_latex(_mark(cell).strip())
        words = f"\\textbf{{{words}}}" if getattr(cell, "best", False) else words
        return words + (f"\\textsuperscript{{{mark}}}" if mark else "")

    header, above = rows[0], list[str]()
    if heads:
        pairs = [heads.get(cell, ("", cell)) for cell in header]
        spans = [(top, len([*each])) for top, each in itertools.groupby(top for top, _ in pairs)]
        cells = [f"\\multicolumn{{{n}}}{{c}}{{{escape_latex(top)}}}" for top, n in spans]
        ends = [*itertools.accumulate(n for _, n in spans)]
        rules = (f"\\cmidrule(lr){{{end - n + 1}-{end}}}"
                 for (top, n), end in zip(spans, ends, strict=True) if top)  # fmt: skip
        above = [f"{' & '.join(cells)} \\\\", " ".join(rules)]
        rows = [[bottom for _, bottom in pairs], *rows[1:]]
    lines = [f"{' & '.join(map(escaped, row))} \\\\" for row in rows]
    heading = f"\\multicolumn{{{len(rows[0])}}}{{l}}{{{escape_latex(title)}}} \\\\"
    lines = [*[heading] * bool(title), *above, lines[0], "\\midrule", *lines[1:]]
    columns = "".join("r" if i in right else "l" for i in range(len(rows[0])))
    begin = f"\\begin{{tabular}}{{{columns}}}"
    return "\n".join([begin, "\\toprule", *lines, "\\bottomrule", "\\end{tabular}"])


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "[": "{[}", "|": r"\textbar{}",
    "†": r"\dag{}", "‡": r"\ddag{}",
}  # fmt: skip


def escape_latex(words: str) -> str:
    """Escape what LaTeX would interpret, also [ after a line break."""
    return "".join(_LATEX.get(character, character) for character in escape_controls(words))
