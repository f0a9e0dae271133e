"""`span_judgments`: judgments of the chunks of a collection, from relevant spans."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from rankql.core.base.arrow import polars_to_pandas
from rankql.core.base.column_names import find_name
from rankql.core.base.errors import require, require_flag
from rankql.core.evaluation.plan.columns import require_ids, validate_numbers
from rankql.core.expressions.checked_columns import is_pandas
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.tables.candidates import assign_roles
from rankql.core.tables.numbers.judgments import assume_grades
from rankql.core.tables.reader import count_values, fetch_frame
from rankql.core.tables.session import open_session
from rankql.core.tables.tables import Data, Table, require_column, same_kind
from rankql.features.spans.covered import require_places
from rankql.features.spans.ends import (
    END,
    EVIDENCE,
    START,
    add_ends,
    describe_tokens,
    find_document,
    pairs_of,
)

# Names of the ids of chunks, the likeliest first.
_CHUNKS = ("chunk_id", "chunk", "passage_id", "node_id", "item_id", "item", "id")


def span_judgments(
    chunks: Data,
    spans: Data,
    *,
    cover: float | None = None,
    iou: float | None = None,
    span: Sequence[str] | Sequence[Sequence[str]] = ("start", "end"),
    inclusive: bool | None = None,
    query: str | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    chunk: str | None = None,
    evidence: str | None = None,
    threshold: float = 1,
    collection: bool = True,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Any:
    """Return judgments of chunks, from relevant spans: one table for every chunker.

    A chunk is judged for a query if it covers a span of it, with the highest grade of these spans.
    `share` is how much of that span it has, and `subtopics` lists the relevant spans, or their
    evidence, for STREC and alpha_nDCG. A relevant span that no chunk covers is a row with its
    place as the item, so that its query counts it as not found.

    Parameters
    ----------
    chunks : path, table or frame
        All chunks of the collection: the document, the two ends, and the id of the chunk if it has
        one; otherwise the place is its id, such as d1:0-500.
    spans : path, table or frame
        The relevant spans: the query, the document, the two ends, and the grade if there are some.
    cover : float, optional
        The share of a span that a chunk must have, such as 0.5. By default, one character.
    iou : float, optional
        Instead of cover, the least intersection / union of a chunk and a span. It depends on the
        size of the chunk: one of 500 characters with a whole answer of 100 has 0.2.
    span : pair of str
        Columns of the two ends, in characters without the end itself. Other known names are
        recognised, and two pairs name the columns of chunks and spans.
    inclusive : bool, optional
        Whether a span has its end too, as lines and pages do.
    query, rel : str, optional
        Columns of the spans. Usual names are recognised.
    item : str or pair of str, optional
        Column of the document, or those of chunks and spans.
    chunk : str, optional
        Column of the ids of chunks.
    evidence : str, optional
        Column of the spans that several share if one of them suffices.
    threshold : float
        Lowest grade of a relevant span.
    collection : bool
        Whether chunks are the complete collection, or those of a run, with a warning.
    con : duckdb.DuckDBPyConnection, optional
        The connection whose tables are named.

    Examples
    --------
    >>> import polars as pl
    >>> chunks = pl.DataFrame({"chunk_id": ["c1", "c2"], "doc_id": "d", "start": [0, 50],
    ...                        "end": [60, 120]})
    >>> spans = pl.DataFrame({"query": ["a", "a"], "doc_id": "d", "start": [40, 200],
    ...                       "end": [80, 230]})
    >>> span_judgments(chunks, spans, cover=0.6).select("query", "item", "rel", "share").rows()
    [('a', 'c2', 1.0, 0.75), ('a', 'd:200-230', 1.0, 0.0)]
    """
    require_flag("collection", collection)
    if inclusive is not None:
        require_flag("inclusive", inclusive)
    listed = [*item] if isinstance(item, list | tuple) else []
    names: list[Any] = [item, item] if isinstance(item, str | None) else listed
    require(len(names) == 2, f"item must be a column, or those of chunks and spans, not {item!r}")
    options = {"inclusive": inclusive, "chunk": chunk, "evidence": evidence}
    with open_session(con, chunks, spans) as session:
        tables = [
            _read(session.table(data, label), named, options, name)
            for data, label, named, name in zip(
                (chunks, spans), ("chunks", "spans"), pairs_of(span), names, strict=True
            )
        ]
        _require_collection(tables[0], collection)
        judged, columns = assume_grades(tables[1], {"query": query, "rel": rel})
        document = judged.roles["item"]
        judged = assign_roles(judged, {**columns, "item": document}, ("query", "rel"), only=True)
        judged = replace(judged, roles={**judged.roles, "item": document})
        require_ids("spans", *count_values(judged, [judged.roles["query"]]))
        validate_numbers(judged, ("rel",))
        for table in (tables[0], judged):
            require_places(table, bool(inclusive))
        macro_options = {"cover": cover, "iou": iou, "threshold": threshold}
        sql = _write(tables[0], judged, chunk, macro_options)
        rows = fetch_frame(session, sql, True)
    return polars_to_pandas(rows) if is_pandas(spans) else rows


def _read(
    table: Table, named: tuple[str, str], options: Mapping[str, Any], item: str | None
) -> Table:
    """A table with its ends and its document."""
    if table.label == "chunks" and options["chunk"] is not None:
        require_column(table, options["chunk"], "chunk")
    table = add_ends(table, named, options)
    document = require_column(table, item, "item") if item else find_document(table, options)
    in_characters = table.label == "chunks" and options["inclusive"] is None
    if in_characters and (tokens := describe_tokens(table, document)):
        warnings.warn(f"span_judgments: chunks: {tokens}", stacklevel=3)
    return replace(table, roles={"item": document})


def _require_collection(table: Table, collection: bool) -> None:
    """Refuse a run as the collection, or warn of what its judgments do not know."""
    names = [table.find("query"), table.find("score") or table.find("pos")]
    if collection:
        require(
            not all(names),
            f"chunks has {' and '.join(filter(None, names))}: is it a run? A run lacks chunks that "
            "were not returned. Pass all chunks of the collection, or collection=False",
        )
    else:
        warnings.warn(
            "span_judgments: chunks are those of a run, so recall and nDCG do not know the "
            "relevant chunks that it did not return",
            stacklevel=3,
        )


def _write(
    chunks: Table, spans: Table, chunk: str | None, options: Mapping[str, float | None]
) -> str:
    """The call of the macro."""
    text = not same_kind([table.columns[table.roles["item"]] for table in (chunks, spans)])
    name = chunk or find_name([x for x in chunks.columns if x != chunks.roles["item"]], _CHUNKS)
    place = f'CAST({START} AS BIGINT) AS "start", CAST({END} AS BIGINT) AS "end"'
    fields = (
        (chunks, f"{quote(name) if name else 'NULL'} AS item"),
        (spans, f"{spans.key('query')} AS query, {spans.number('rel')} AS rel, "
                f"{EVIDENCE} AS evidence"),
    )  # fmt: skip
    names = [f"{INTERNAL_PREFIX}{table.label}" for table, _ in fields]
    ctes = (
        f"{called} AS (SELECT {own}, {table.key('item', text)} AS document, {place} "
        f"FROM {table.sql})"
        for called, (table, own) in zip(names, fields, strict=True)
    )
    given = "".join(f", {x} := {literal(y)}" for x, y in options.items() if y is not None)
    return f"WITH {', '.join(ctes)} FROM span_judged({', '.join(map(literal, names))}{given})"
