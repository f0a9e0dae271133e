"""The base class of results: a table with notes, its conversions, and files.

A `Block` is a table as text: how long and wide ones fit a screen.
"""

from __future__ import annotations

import copy
import json
import math
import os
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import polars as pl

from rankql.core.base import text
from rankql.core.base.arrow import polars_to_pandas, require_pyarrow
from rankql.core.base.errors import RENAMED, did_you_mean, name_stats_extra, require_package
from rankql.core.base.manifest import MANIFEST_SUFFIXES, embed_manifest, format_manifest
from rankql.core.base.text import Name, Note
from rankql.core.base.writing import CALL_PATHS, output_path, write_file

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq", ".csv", ".json", ".md", ".html", ".tex", ".xlsx")
# Markdown shows so many sentences.
SENTENCES = 12
# A longer table is printed without the rows in the middle. Files have all rows.
ROWS = 60
# The display columns of a table, if there is no terminal.
WIDTH = 80
# The display columns of a name in plain text.
NAME = 16
# So many names that were cut are below a table.
LEGEND = 20
# Between the attributes of a slice.
_ATTRIBUTES = re.compile(r", (?=[^,=]+=)")
# The columns that say how something went.
STATUSES = ("verdict", "status", "alarm")

# A chart of altair, which is imported when one is drawn.
Chart: TypeAlias = "alt.TopLevelMixin"
# The packages of charts, and how to install them.
CHARTS = ("altair", "vl_convert")
INSTALL = "pip install 'rankql[report]'"


@dataclass(frozen=True)
class Block:
    """A table as text, the header first. Columns `right` are aligned right; a wide one may wrap."""

    rows: text.TableRows
    right: Sequence[int] = ()
    title: str = ""
    wraps: bool = False
    # The two lines of a cell of the header, in LaTeX.
    heads: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def cut(self) -> Block:
        """Replace the middle of a long table by the number of its rows."""
        header, *body = self.rows
        if (hidden := len(body) - ROWS) <= 0:
            return self
        gap = [f"... {text.format_count(hidden, 'more row')} ...", *[""] * (len(header) - 1)]
        half = ROWS // 2
        top, (first, *rest) = body[:half], body[-half:]
        if not first[0]:  # as in the rows above, of which the last with a name may be hidden
            first = [next((row[0] for row in body[-half::-1] if row[0]), ""), *first[1:]]
        return replace(self, rows=[header, *top, gap, first, *rest])

    def nest(self) -> Block:
        """Put the last attribute of long slices below a row with the others: none is cut."""
        header, *body = self.rows
        if "slice" not in header:
            return self
        at, above, rows = header.index("slice"), "", [header]
        labels = [_ATTRIBUTES.split(row[at]) for row in body]
        if all(len(x) < 2 or text.display_width(", ".join(x)) <= NAME for x in labels):
            return self
        for row, (*others, last) in zip(body, labels, strict=True):
            first = ", ".join(others)
            if others and first != above:
                rows.append([*row[:at], first, *[""] * len(row[at + 1 :])])
            above = first or last
            rows.append([*row[:at], "  " * bool(others) + last, *row[at + 1 :]])
        return replace(self, rows=rows)

    def wrap(self, room: int) -> list[Block]:
        """Parts with as many columns as fit, each with those before the numbers."""
        if not self.wraps:
            return [self]
        keys = [*range(min(self.right, default=1))]
        (block,), _ = cut_names([self.cut().nest()])
        widths = text.text_widths(block.rows)
        parts = [[*keys]]
        for column in range(len(keys), len(widths)):
            if parts[-1] != keys and sum(widths[i] + 2 for i in [*parts[-1], column]) - 2 > room:
                parts.append([*keys])
            parts[-1].append(column)
        rows = [[[row[i] for i in part] for row in self.rows] for part in parts]
        right = [[new for new, old in enumerate(part) if old in self.right] for part in parts]
        return [replace(self, rows=x, right=y) for x, y in zip(rows, right, strict=True)]


class TableResult:
    """A result that is a table.

    `table` has the displayed rows as a polars DataFrame, unrounded; `summary` the means behind
    them, or the same rows. `title` and `sentences` are the findings in words, `method` how they
    were tested, `notes` what to know about them. `sql` is the query that computed the values, '' if
    there is none.
    """

    # What differs by kind: the attributes that `to_dict` has too, in its order ("result.columns" is
    # called columns; one with a ? is left out if there is none), and what draws a page's chart.
    _details: Sequence[str] = ()
    _page_chart = ""
    # The displayed frames by attribute; those without rows are left out.
    _shown: Sequence[str] = ("table",)
    # Are texts in them ids, which plain text cuts in the middle?
    _has_ids = False
    # The caption of the caller, as LaTeX.
    _latex_caption = ""
    # The paths that the arguments named, which `save` does not overwrite.
    input_paths: Sequence[str]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A result of the present call."""
        result = super().__new__(cls)
        vars(result)["input_paths"] = CALL_PATHS.get()  # of a frozen one too
        return result

    # Subclasses have these as fields or properties.
    if TYPE_CHECKING:

        @property
        def table(self) -> pl.DataFrame:
            """The displayed rows, unrounded."""

        @property
        def notes(self) -> list[str]:
            """What to know about the numbers, in sentences."""

        @property
        def sentences(self) -> list[str]:
            """The findings, in words."""

        @property
        def title(self) -> str:
            """The outcome in one line, '' if there is none."""

        @property
        def caption(self) -> str:
            """The caption of the table in a notebook, used without a title."""

        @property
        def method(self) -> str:
            """How the findings were tested, '' if they were not."""

        @property
        def sql(self) -> str:
            """The query that gives the values, '' if there is none."""

        def plot(self) -> Chart:
            """An altair chart of the result."""

    else:
        sentences, title, caption, method, sql = (), "", "", "", ""

    if not TYPE_CHECKING:  # which would allow any name

        def __getattr__(self, name: str) -> Any:
            """Name the nearest attribute, instead of one that another tool has."""
            if hasattr(type(self), name):  # a property that fails
                return object.__getattribute__(self, name)
            known = [] if name[0] == "_" else [x for x in dir(self) if x[0] != "_"]
            nearest = did_you_mean(name, known) if known else ""
            nearest = f". It is {RENAMED[name]} now" if name in RENAMED else nearest
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{nearest}")

    @property
    def summary(self) -> pl.DataFrame:
        """The means behind the table, or the table."""
        return self.table

    @property
    def data(self) -> pl.DataFrame:
        """The rows of files of data, whatever is displayed; of most results the table."""
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """The data as a pandas frame."""
        return polars_to_pandas(self.data)

    def to_arrow(self) -> pa.Table:
        """The data as an Arrow table."""
        require_pyarrow("to_arrow")
        return self.data.to_arrow()

    def to_dict(self) -> dict[str, Any]:
        """The data with its metadata and notes, as plain values."""
        details = {"table": _plain(self.data)}
        for path in (*self._details, *["method"] * bool(self.method)):
            name, optional, _ = path.partition("?")
            value = _plain(attrgetter(name)(self))
            if value is not None or not optional:
                details[name.rpartition(".")[2]] = value
        return details | {"notes": [*self.notes]}

    def to_json(self) -> str:
        """The data with its metadata and notes, as JSON."""
        values = _replace_infinite(self.to_dict())
        return json.dumps(values, ensure_ascii=False, indent=2, default=str, allow_nan=False)

    def to_markdown(self) -> str:
        """The findings, the table and the notes, as Markdown for a pull request."""
        headline = self._headline()
        parts = [f"**{text.format_paragraph(headline)}**"] if headline else []
        bullets = [f"- {text.format_paragraph(line)}" for line in self.sentences[:SENTENCES]]
        if (more := len(self.sentences) - SENTENCES) > 0:
            bullets.append(f"- and {more} more in the table")
        parts += ["\n".join(bullets)] if bullets else []
        for each in self._rendered():
            parts += [f"**{text.format_paragraph(each.title)}**"] if each.title else []
            parts.append(text.format_markdown(each.rows, each.right))
        return "\n\n".join([*parts, *map(text.format_paragraph, self.remarks())])

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """The table for LaTeX with the package booktabs; findings and notes are comments.

        If it has a caption, it is a table with a label, and the caption says how it was tested.
        `caption`, which is LaTeX, replaces its first words, and `label` the label.
        """
        view = self._as_paper()
        if view is not self:
            caption = caption or self._latex_caption or text.escape_latex(f"{view.caption}.")
        return self._typeset(view._rendered(), self.method, (), caption, label)

    def _as_paper(self) -> TableResult:
        """The result as LaTeX has it, if not as it is displayed."""
        return self

    def _typeset(
        self, blocks: Sequence[Block], method: str, more: Sequence[str] = (),
        own_caption: str | None = None, own_label: str | None = None,
    ) -> str:  # fmt: skip
        """The blocks for LaTeX, with lines that are comments."""
        parts = [text.format_latex(x.rows, x.right, x.title, x.heads) for x in blocks]
        own_caption = own_caption or self._latex_caption
        if self.caption or method or own_caption or own_label:
            method = f" {method[0].upper()}{method[1:]}." if method else ""
            caption = own_caption or text.escape_latex(f"{self.caption}.")
            stop = "" if not method or caption.endswith(".") else "."
            caption += stop + text.escape_latex(method)
            label = own_label or f"tab:{self.caption.partition(' ')[0].lower() or 'rankql'}"
            begin = ["\\begin{table}", "\\centering", f"\\caption{{{caption}}}"]
            parts = [*begin, f"\\label{{{label}}}", *parts, "\\end{table}"]
        lines = [self._headline(), *self.sentences, *more, *self.remarks()]
        lines = [line for line in lines if line]
        return "\n".join([*parts, *(f"% {text.escape_controls(line)}" for line in lines)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file, in the format of its suffix.

        .parquet and .csv have the data, .json what `to_dict` returns, .md, .html, .tex and .xlsx
        what is displayed. The file appears complete or not at all. Those of evaluate and compare
        in .parquet, .json, .md and .html say from what they were computed, which `verify` checks.
        """
        save_result(self, path)

    def manifest(self) -> dict[str, Any] | None:
        """What the result was computed from, with its numbers, for `verify`; None if not known."""
        return None

    def remarks(self) -> list[Note]:
        """The lines below the table: method, queries, metadata and notes."""
        notes = [*map(Note.of, self.notes)]
        queries = [*self._count_queries(), *(x for x in notes if x.share is not None)]
        others = [x for x in notes if x.share is None]
        lines = [Note(self.method, heading="Method")] * bool(self.method)
        lines += [text.join_queries(queries)] if queries else []
        lines += self._assumptions()
        return lines + [Note(x, kind=x.kind, level=x.level, heading="Note") for x in others]

    def quiet(self) -> Self:
        """The result with those remarks alone that change how numbers are read."""
        return self.with_remarks([x for x in self.remarks() if x.level == "warning"])

    def with_remarks(self, lines: list[Note]) -> Self:
        """The result with other lines below the table."""
        result = copy.copy(self)
        vars(result)["remarks"] = lambda: lines
        return result

    def _count_queries(self) -> list[Note]:
        """The numbers of queries that the table does not have."""
        return []

    def _assumptions(self) -> list[Note]:
        """What was assumed: conventions, columns and weights."""
        return []

    def _view(self) -> TableResult | None:
        """Another result that is displayed instead of this one."""
        return None

    def displayed(self) -> list[pl.DataFrame]:
        """The displayed frames, without idle columns."""
        if view := self._view():
            return view.displayed()
        frames = [getattr(self, name) for name in self._shown]
        return [drop_idle_columns(frame) for frame in frames if frame.height]

    def _rendered(self) -> list[Block]:
        """The displayed frames as text, numbers aligned right."""
        view = self._view()
        if view is not None:
            return view._rendered()
        return [make_block(frame, ids=self._has_ids) for frame in self.displayed()]

    def _headline(self) -> str:
        """The title, if it is printed."""
        return self.title

    def __repr__(self) -> str:
        room = terminal_width()
        parts = (part for each in self._rendered() for part in each.wrap(room))
        blocks, legend = cut_names([part.cut().nest() for part in parts])
        tables = []
        for each in blocks:
            alike = [row for other in blocks if other.rows[0] == each.rows[0] for row in other.rows]
            title = f"{text.escape_controls(each.title)}\n" if each.title else ""
            tables.append(title + text.format_text(each.rows, each.right, alike))
        tables[-1:] = ["\n".join(filter(None, [*tables[-1:], text.escape_controls(legend)]))]
        remarks = self.remarks()
        above = [x.words for x in remarks if x.kind == text.DIRECTION]
        below = [x for x in remarks if x.kind != text.DIRECTION]
        texts = [self._headline(), *above], self.sentences, below
        head, *lines = ("\n".join(map(text.escape_controls, filter(None, x))) for x in texts)
        return "\n\n".join(filter(None, [head, *tables, *lines]))

    def _repr_html_(self) -> str:
        tables, sentences, notes = self._render_parts(self._headline() or self.caption)
        folded = f"<details><summary>Notes</summary>{notes}</details>" if notes else ""
        return f"{tables}{sentences}{folded}"

    def _render_parts(self, caption: str) -> tuple[str, str, str]:
        """The tables, the first with a caption, the sentences, and the notes."""
        tables = [
            text.format_html(each.cut().rows, each.right, title)
            for i, each in enumerate(self._rendered())
            for title in [": ".join(filter(None, [caption * (i == 0), each.title]))]
        ] or [f"<p>{text.escape_html(self.title)}</p>"]
        sentences = (f"<p>{text.format_sentence(line)}</p>" for line in self.sentences)
        notes = (f"<p><small>{text.format_sentence(line)}</small></p>" for line in self.remarks())
        return "".join(tables), "".join(sentences), "".join(notes)

    @property
    def lacks_charts(self) -> list[str]:
        """The note on a page whose charts are left out, as a package of theirs is missing."""
        missing = [package for package in CHARTS if self._page_chart and not find_spec(package)]
        why = f"Note: The charts are left out, they need {' and '.join(missing)}: {INSTALL}"
        return [why] if missing else []

    def _charts(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The charts of an HTML page, and those that are folded, as definitions of Vega-Lite."""
        return ([define_chart(self._page_chart, self)] if self._page_chart else []), []

    def _facts(self) -> list[str]:
        """The line below the title of an HTML page: what it is of, when and by what it was made."""
        return []

    def _folded(self) -> list[tuple[str, pl.DataFrame]]:
        """The frames of an HTML page that are folded, with their titles."""
        return []

    def _render_page(self, **_: Any) -> str:
        """An HTML page with what a notebook displays, and with charts."""
        return str(load_output("page").render_result(self))


def require_charts() -> None:
    """Refuse a report without a package of its charts."""
    for package in CHARTS:
        require_package(package, "report", "report")


def make_block(
    frame: pl.DataFrame, title: str = "", wraps: bool = False, ids: bool = False
) -> Block:
    """A frame as text, numbers aligned right; words of a status are coloured. ids: are texts?"""
    numbers = [i for i, kind in enumerate(frame.dtypes) if kind.is_numeric()]
    header, *rows = text.format_table(frame)
    for i in (i for i, name in enumerate(header) if name in STATUSES):
        for row in rows:
            row[i] = text.Status(row[i])
    for i in (i for i, kind in enumerate(frame.dtypes) if ids and kind == pl.String):
        for row in rows:
            row[i] = Name(row[i])
    return Block([header, *rows], numbers, title, wraps)


def _plain(value: Any) -> Any:
    """A frame or a dataclass as plain values."""
    if isinstance(value, pl.DataFrame):
        return value.to_dicts()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _replace_infinite(value: Any) -> Any:
    """The value with null for infinity and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _replace_infinite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_replace_infinite, value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save_result(result: TableResult, path: str | os.PathLike[str], **page: Any) -> None:
    """Write a result to a file, in the format of its suffix; a page to standard output.

    page: what a page shows, such as the texts in files, which are not overwritten.
    """
    suffix = output_path(path, SUFFIXES).suffix.lower() or ".html"
    if suffix == ".xlsx":
        require_package("xlsxwriter", "excel", ".xlsx")
    formats: dict[str, Callable[[], str]] = {
        ".csv": lambda: text.format_csv(result.data),
        ".json": lambda: result.to_json() + "\n",
        ".md": lambda: result.to_markdown() + "\n",
        ".tex": lambda: result.to_latex() + "\n",
        ".html": lambda: result._render_page(**page) + "\n",
    }
    with write_file(path, SUFFIXES, [*result.input_paths, page.get("texts")]) as temporary:
        manifest = result.manifest() if suffix in MANIFEST_SUFFIXES else None
        if suffix in formats:
            content = formats[suffix]()
            content = content if manifest is None else embed_manifest(content, suffix, manifest)
            temporary.write_text(content, encoding="utf-8", newline="")
        elif suffix == ".xlsx":
            _write_workbook(result, temporary)
        else:
            kept = None if manifest is None else {"rankql": format_manifest(manifest)}
            buffer = BytesIO()  # polars does not say why it cannot write metadata to a file
            result.data.write_parquet(buffer, metadata=kept)
            temporary.write_bytes(buffer.getvalue())


def _write_workbook(result: TableResult, path: Path) -> None:
    """Write what is displayed to a sheet: numbers that are not rounded, and the lines below."""
    import xlsxwriter

    texts = {"strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    buffer = BytesIO()  # on a full disk, a workbook fails a second time when Python removes it
    with xlsxwriter.Workbook(buffer, {**texts, "in_memory": True}) as book:
        sheet, row = book.add_worksheet("rankql"), 0
        for frame in map(pl.DataFrame.clone, result.displayed()):
            frame.columns = text.unique_names(frame.columns)  # Excel ignores case
            frame.write_excel(book, sheet, position=(row, 0), float_precision=4, autofit=True)
            row += len(frame) + 2
        for line in filter(None, [result._headline(), *result.sentences, *result.remarks()]):
            sheet.write_string(row, 0, line)
            row += 1
    path.write_bytes(buffer.getvalue())


def load_output(module: str) -> Any:
    """Import a module of `output`, the package above, when `plot` or `save` is called."""
    try:
        return import_module(f"rankql.pages.{module}")
    except ModuleNotFoundError as error:
        raise name_stats_extra(error, {"charts": "plot"}.get(module, module)) from None


def define_chart(function: str, *arguments: Any) -> dict[str, Any]:
    """The definition of a chart, by a function of `output`."""
    spec: dict[str, Any] = getattr(load_output("charts"), function)(*arguments)
    return spec


def draw_chart(function: str, *arguments: Any) -> Chart:
    """Draw with a function of `output`, which needs altair. Pages do without: it takes a second."""
    require_package("altair", "report", "plot")
    chart: Chart = load_output("page").to_altair(define_chart(function, *arguments))
    return chart


def drop_idle_columns(frame: pl.DataFrame, idle: Collection[str] = ()) -> pl.DataFrame:
    """A frame without `idle` columns, those that are all NULL except `mean`, and a lone slice."""
    kept = [name for name in frame.columns if name not in idle]
    if "slice" in kept and (frame["slice"] == "all").all():
        kept.remove("slice")
    empty = {name for name in kept if frame[name].null_count() == len(frame) > 0} - {"mean"}
    return frame[[name for name in kept if name not in empty]]


def terminal_width() -> int:
    """The display columns of the terminal, if there is one."""
    if sys.stdout is not None and sys.stdout.isatty():
        with suppress(OSError):  # of a captured stream
            return os.get_terminal_size().columns or WIDTH
    return WIDTH


def cut_names(blocks: Sequence[Block]) -> tuple[list[Block], str]:
    """Cut long names in the middle, and a line that says what they stand for."""
    cells = [cell for block in blocks for row in block.rows for cell in row]
    short = cut_in_middle((cell for cell in cells if isinstance(cell, Name)), NAME)
    rows = (
        [[short[cell] if isinstance(cell, Name) else cell for cell in row] for row in block.rows]
        for block in blocks
    )
    names = [f"{cut} = {name}" for name, cut in short.items() if cut != name]
    more = [f"{len(names) - LEGEND} more"] * (len(names) > LEGEND)
    legend = ", ".join([*names[:LEGEND], *more])
    return [replace(block, rows=cut) for block, cut in zip(blocks, rows, strict=True)], legend


def cut_in_middle(names: Iterable[str], most: int) -> dict[str, str]:
    """Cut names in the middle, to so many display columns or to as many as keep them apart."""
    names = list(dict.fromkeys(names))

    def cut(width: int) -> dict[str, str]:
        return {name: _cut_middle(name, width) for name in names}

    widths = range(most, max(map(text.display_width, names), default=0))
    enough = bisect_left(widths, True, key=lambda width: len({*cut(width).values()}) == len(names))
    return cut(most + enough)


def _cut_middle(name: str, width: int) -> str:
    def cut(size: int) -> str:
        return f"{name[: (size + 1) // 2]}…{name[len(name) - size // 2 :]}"

    if text.display_width(name) <= width:
        return name
    sizes = range(2, len(name))
    return cut(1 + bisect_right(sizes, width, key=lambda size: text.display_width(cut(size))))
