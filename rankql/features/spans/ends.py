"""The ends of chunks and of relevant spans: which columns have them, and what span= supports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.core.base.column_names import ROLES, find_ends, find_name, squash, words_of
from rankql.core.base.errors import Question, RankqlError, require, require_flag
from rankql.core.base.text import format_count, join_words
from rankql.core.metrics.all_metrics import SPANS
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.metrics.metric_record import Metric
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.request import RankingRules, Request
from rankql.core.tables.session import Session
from rankql.core.tables.tables import (
    Runs,
    Table,
    is_id,
    is_number,
    is_text,
    mentioned,
    require_column,
    unknown_column,
)
from rankql.shapes.choose.computed import add_column

# The columns of the ends, [start, end), and of the evidence that a span is a part of.
START, END, EVIDENCE = (f"{INTERNAL_PREFIX}{name}" for name in ("start", "end", "evidence"))
# Names of documents, the likeliest first. A name of an item is mostly that of a chunk.
DOCUMENTS = (
    *("doc_id", "document_id", "docid", "docno", "doc", "document", "source", "source_id", "file"),
    *("file_path", "filename", "path", "url", "article_id", "page_id", "corpus_id"),
)
# Names of the text of a chunk.
_TEXTS = ("text", "content", "page_content", "chunk_text", "passage_text", "chunk", "passage")
# The labels of tables of relevant spans.
_JUDGED = ("qrels", "spans")
# The functions that take span=; the last reads calls that answer a question.
_FUNCTIONS = ("evaluate", "compare", "gate", "_with_call")
# What has no meaning for places, by the argument.
_OPTIONS = ("groups", "collapse", "positions", "conventions", "forbidden", "ignore_identical_ids")
_ARGUMENTS = ("judge", "judge_rel", "min_score", "train", "catalogue", "seen")


def require_spans(options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse span= of a function or next to an option that does not support it."""
    known = {name: value for name, value in options.items() if value is not None}
    own = [x for x in ("inclusive", "chunk", "evidence") if x in known]
    if "span" not in known:
        require(not own, f"{'='.join(own[:1])}= is for span=. Pass span=('start', 'end')")
        return
    name = getattr(function, "__name__", "this")
    require(
        name in _FUNCTIONS,
        f"{name} does not support span=, which {join_words(_FUNCTIONS[:-1])} take. Pass the table "
        "of span_judgments as qrels, and leave span= out",
    )
    if "inclusive" in known:
        require_flag("inclusive", known["inclusive"])
    pairs_of(known["span"])
    refused = [x for x in _OPTIONS if known.get(x)]
    refused += [x for x, y in (("unjudged", "remove"), ("unjudged_queries", "count"))
                if known.get(x) == y]  # fmt: skip
    for name in refused:
        raise RankqlError(f"{name}={known[name]!r} does not support span=. Leave out one of them")


def require_span_metrics(request: Request, metrics: Sequence[Metric]) -> None:
    """Refuse metrics of spans without span=, and with it other metrics and arguments."""
    if request.rules.span is None:
        name = next(metric.name for metric in metrics if metric.spans)
        raise RankqlError(
            f"{name} reads the ends of chunks and of relevant spans. Name their columns: "
            "span=('start', 'end')"
        )
    require(
        request.qrels is not None,
        "span= needs the relevant spans in a table of their own. Pass qrels= with a document, a "
        "start and an end",
    )
    for metric in metrics:
        require(
            metric.spans is not None,
            f"span=: {metric.name} counts items, and spans are covered by several chunks together. "
            f"Use {', '.join(record.name for record in SPANS)}, such as SpanR@5, or pass "
            "qrels=rankql.span_judgments(chunks, spans), and leave span= out",
        )
        require(
            metric.characters is None or not request.rules.options.get("inclusive"),
            f"{metric.name} counts characters, and inclusive=True is for lines and pages. Use "
            f"{metric.known.name if metric.known else ''}@5",
        )
    for name in _ARGUMENTS:
        none = getattr(request, name) is None
        require(none, f"{name}= does not support span=. Leave out one of them")


def pairs_of(span: Any) -> list[tuple[str, str]]:
    """The names of the two ends in the runs and in the judgments."""
    listed = isinstance(span, list | tuple) and len(span) == 2
    pairs = [span, span] if listed and all(isinstance(x, str) for x in span) else span
    if not listed or not all(
        isinstance(x, list | tuple) and len(x) == 2 and all(isinstance(y, str) for y in x)
        for x in pairs
    ):
        raise RankqlError(
            f"span must be two columns, such as ('start', 'end'), or two pairs if run and qrels "
            f"differ, not {span!r}"
        )
    return [tuple(pair) for pair in pairs]


def read_ends(
    session: Session,
    rules: RankingRules,
    runs: Runs,
    tables: Mapping[str, Table | None],
    options: Mapping[str, Any],
) -> tuple[Runs, dict[str, Table | None], dict[str, Any]]:
    """The runs and judgments with the ends of each row, and the options with the document as item.

    The ends are in columns of the SQL that are not among the columns of the table, so nobody asks
    what they mean.
    """
    of_runs, of_qrels = pairs_of(rules.span)
    opened = [*runs.values(), *filter(None, [tables["qrels"]])]
    runs = {name: add_ends(table, of_runs, rules.options) for name, table in runs.items()}
    qrels = tables["qrels"] and add_ends(tables["qrels"], of_qrels, rules.options)
    tidy = [*runs.values(), *([qrels] if qrels else [])]
    read = [squash(table.context["span"]) for table in tidy]
    for pair in (of_runs, of_qrels):
        if squash(", ".join(pair)) not in read:
            raise unknown_column("span", pair[0], opened)
    item = options["item"]
    for table in () if rules.options.get("inclusive") is not None else runs.values():
        document = item[0] if isinstance(item, list | tuple) else item
        document = document or find_document(table, rules.options)
        if tokens := describe_tokens(table, document):
            table.note(tokens)
    if options["item"] is None:
        names = [find_document(table, rules.options) for table in tidy]
        run_name = {*names[: len(runs)]}
        require(len(run_name) == 1, f"The documents are called {join_words(sorted(run_name))} in "
                "the runs. Rename these columns")  # fmt: skip
        options = {**options, "item": names[-1] if len({*names}) == 1 else [names[0], names[-1]]}
    return runs, {**tables, "qrels": qrels}, {**options, "span": rules.span}


def add_ends(table: Table, named: tuple[str, ...], options: Mapping[str, Any]) -> Table:
    """The table with the ends of each row, which may be an object in a list."""
    written, ends = ", ".join(named), find_ends(table.columns, named)
    if not ends:
        table = _unnest(table, named)
        named = _in_list(named, table.context.get("list", ""))
        ends = _find_ends(table.columns, named)
    if not ends:
        raise unknown_column("span", next(x for x in named if not table.has(x)), [table])
    computed = any(not table.has(x) for x in ends)
    for name in ends:
        table = add_column(table, "span", name)
    read = [x for x in (options.get("chunk"),) if x and table.has(x)]
    evidence, context = "NULL", {"span": written if computed or "." in written else ", ".join(ends)}
    if table.label in _JUDGED and options.get("evidence") is not None:
        name = require_column(table, options["evidence"], "evidence")
        evidence, context["evidence"] = quote(name), name
        read.append(name)
    start, end = (_number(table, name) for name in ends)
    if squash(ends[1].rpartition(".")[2]) == "length":
        end = f"{start} + {end}"
    inclusive = options.get("inclusive")
    lines = squash(ends[1]).endswith("line")
    require(not lines or inclusive is not None, f"{table.label}: is {ends[1]} the last line, or "
            "the one after it? Pass inclusive=True or inclusive=False")  # fmt: skip
    end += " + 1" * bool(inclusive)
    fields = f"*, {start} AS {START}, {end} AS {END}, CAST({evidence} AS VARCHAR) AS {EVIDENCE}"
    read = [x.lower() for x in (*ends, *read)]
    columns = {x: kind for x, kind in table.columns.items() if x.lower() not in read}
    return replace(
        table, sql=f"(SELECT {fields} FROM {table.sql})", columns=columns,
        context={**table.context, **context}, unnested=True,
    )  # fmt: skip


def describe_tokens(table: Table, document: str) -> str:
    """A note if chunks are short for their text in most documents, as those in tokens are.

    Where one text has all ends, it may be that of the document.
    """
    text = find_name([x for x in table.columns if is_text(table.columns[x])], _TEXTS)
    if text is None or not table.has(document):
        return ""
    each = quote(text)
    own = f"count(DISTINCT {each}) > 1 OR max({END}) > max(length({each}))"
    small = f"CASE WHEN {own} THEN 2 * sum({END} - {START}) < sum(length({each})) END AS small"
    chunks = f"SELECT DISTINCT {quote(document)} AS d, {each}, {START}, {END} FROM {table.sql}"
    chunks += f" WHERE {each} IS NOT NULL AND {END} - {START} IS NOT NULL"
    rows = f"SELECT {small} FROM ({chunks}) GROUP BY d"
    count, total = table.session.row(f"SELECT count(*) FILTER (small), count(small) FROM ({rows})")
    ends = f"are {table.context['span']} counted in tokens? Spans are counted in characters"
    half = f"{count:,} of {format_count(total, 'document')} have chunks of less than half of their "
    return f"{half}text ({text}): {ends}" if 2 * count > total else ""


def _find_ends(columns: Iterable[str], named: Sequence[str]) -> tuple[str, ...]:
    """The two ends: columns, or expressions of them."""
    columns = [*columns]
    computed = [not x.isidentifier() and bool(mentioned(columns, x)) for x in named]
    return find_ends(columns, named) or (tuple(named) if all(computed) else ())


def _in_list(named: Sequence[str], column: str) -> tuple[str, ...]:
    """The names of the ends without the list of their objects, as in hits.start."""
    prefix = rf"\b{re.escape(column)}\."
    return tuple(re.sub(prefix, "", x) if column else x for x in named)


def _number(table: Table, name: str) -> str:
    """A column as a number: NaN for text that is none."""
    kind = table.columns[name]
    require(
        is_number(kind) or is_text(kind), f"{table.label}: {name} must be whole numbers, not {kind}"
    )
    number = table.number_or_null(name)
    if is_number(kind):
        return number
    return f"CASE WHEN trim({quote(name)}) <> '' THEN coalesce({number}, 'nan'::DOUBLE) END"


def _unnest(table: Table, named: tuple[str, ...]) -> Table:
    """The table with a row per object of the only list of objects with two ends.

    Judgments with an empty list keep a row, and a run gets positions from the order of the list.
    """
    lists = {
        name: (sql, fields)
        for name, (sql, kind) in _nested(table)
        if kind.endswith("]") and _find_ends((fields := fields_of(kind)), _in_list(named, name))
    }
    if len(lists) != 1:
        return table
    ((column, (items, fields)),) = lists.items()
    others = [x for x in table.columns if x != column.partition(".")[0] and x not in fields]
    is_run, values = table.label not in _JUDGED, [f"{field.of('x_')} AS {quote(x)}"
                                              for x, field in fields.items()]  # fmt: skip
    columns = {x: table.columns[x] for x in others} | {x: y.kind for x, y in fields.items()}
    placed = find_name(columns, (*ROLES["pos"], *ROLES["score"]))
    if is_run and not placed:
        values.append(f"n_ AS {quote('pos')}")
        columns["pos"] = "BIGINT"
    items = items if is_run else f"CASE WHEN len({items}) > 0 THEN {items} ELSE [NULL] END"
    number = f"unnest(range(1, len({items}) + 1))"
    rows = f"(SELECT *, unnest({items}) AS x_, {number} AS n_ FROM {table.sql})"
    sql = f"(SELECT {', '.join([*map(quote, others), *values])} FROM {rows})"
    return replace(table, sql=sql, columns=columns, context={**table.context, "list": column})


def _nested(table: Table) -> Iterator[tuple[str, tuple[str, str]]]:
    """The columns and the fields of objects, by name: the SQL and the type."""
    for name, kind in table.columns.items():
        yield name, (quote(name), kind)
        for x, field in (fields_of(kind) if not kind.endswith("]") else {}).items():
            yield f"{name}.{x}", (field.of(quote(name)), field.kind)


def find_document(table: Table, options: Mapping[str, Any]) -> str:
    """The column of the documents. Asks if no name says so."""
    if name := find_name(table.columns, DOCUMENTS):
        return name
    others = [name for role, names in ROLES.items() if role != "item" for name in names]
    kinds = table.columns.items()
    likely = [x for x, kind in kinds if is_id(kind) and not find_name([x], others)]
    likely = [x for x in likely if words_of(x).isdisjoint(("chunk", "passage", "node", "span"))]
    known = f", chunk={literal(options['chunk'])}" if options.get("chunk") else ""
    raise Question(
        f"{table.label}: which column is the document of a chunk{known}?",
        [{"item": x} for x in likely],
        blanks={"item": "..."},
    )
