"""An evaluation by spans: the values of each ranking are put into the inputs as columns of the run.

What follows has a row per ranking, with one item that is judged, so queries, attributes, weights
and missing queries go the way of all evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.base.text import Note, format_count, is_or_are, run_label
from rankql.core.evaluation.checks.duplicates import require_unique_positions
from rankql.core.evaluation.plan.columns import validate_columns
from rankql.core.evaluation.query.ties import PLACE, WITHOUT_GRADES, score_order
from rankql.core.metrics.macros import literal, quote
from rankql.core.metrics.metric_record import IS_RELEVANT
from rankql.core.metrics.parse import parse, span_column
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.request import Request
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table
from rankql.features.catalogue import load_query
from rankql.features.spans.ends import END, EVIDENCE, START
from rankql.features.spans.pieces import Pieces

# From so many queries on, a run without any document of the spans is an error.
SEVERAL_QUERIES = 5


def place_spans(session: Session, inputs: Inputs, request: Request) -> Inputs:
    """The inputs with a row per ranking, which has the values of the metrics, and notes."""
    rules = request.rules.conventions
    assert inputs.qrels
    qrels = replace(inputs.qrels, empty=True)
    inputs = replace(inputs, qrels=qrels)
    validate_columns(inputs)
    metrics = parse(request.metrics, rules.profile)
    require_unique_positions(session, inputs)
    require(
        not inputs.scored or rules.ties in WITHOUT_GRADES,
        f"{metrics[0].name} needs positions, but ties={rules.ties!r} gives tied chunks none. Use "
        "ties='item'",
    )
    for table in [*inputs.runs.values(), qrels]:
        require_places(table, bool(request.rules.options.get("inclusive")))
    spans = load_query(session, "spans", _write_spans(inputs, rules.threshold)).sql
    chunks = rows = load_query(session, "chunks", _write_chunks(inputs, rules.ties)).sql
    relevant = f"(FROM {spans} WHERE relevant)"
    notes = [*_compare_documents(session, inputs, chunks, relevant)]
    notes += _note_rows(session, inputs, chunks, relevant)
    # A ranking r is a query, or the number of a system and a query.
    chunks, relevant = (f"(SELECT *, query AS r FROM {x})" for x in (chunks, relevant))
    if inputs.many:
        keys = (
            f"SELECT row_number() OVER () AS r, * FROM (SELECT DISTINCT system, query FROM {rows})"
        )
        numbers = load_query(session, "rankings", keys).sql
        chunks = f"(FROM {rows} JOIN {numbers} USING (system, query))"
        relevant = (
            f"(SELECT spans.*, r FROM {spans} AS spans JOIN {numbers} USING (query) WHERE relevant)"
        )
    named = request.rules.options.get("evidence") is not None
    pieces = Pieces(chunks, relevant, metrics, named)
    truth = load_query(session, "evidence", _write_truth(inputs, spans, rules.threshold))
    values = load_query(session, "values", _write_rankings(inputs, chunks, truth.sql, pieces))
    columns = [*map(span_column, metrics)]
    runs = {x: _as_rankings(inputs, y, values, x, columns) for x, y in inputs.runs.items()}
    judged = _as_rankings(inputs, qrels, truth)
    return replace(inputs, runs=runs, qrels=judged, notes=[*inputs.notes, *notes])


def require_places(table: Table, inclusive: bool) -> None:
    """Refuse ends that are no span, with the row. Judgments may have one row without a place."""
    query, item = (quote(table.roles[x]) if x in table.roles else "NULL" for x in ("query", "item"))
    is_run = "rel" not in table.roles
    ends = f"{START} >= 0 AND {END} > {START} AND {START} = floor({START}) AND {END} = floor({END})"
    right = f"coalesce(isfinite({START}) AND isfinite({END}) AND {ends}, false)"
    none = f"{item} IS NULL AND {START} IS NULL AND {END} IS NULL"
    wrong = f"NOT ({right} AND {item} IS NOT NULL)" + f" AND NOT ({none})" * (not is_run)
    row, first = f"{query}, {item}, {START}, {END}", f" WHERE {wrong} ORDER BY ALL LIMIT 1"
    for key, document, start, end in table.rows(row, first):
        names = table.context["span"].split(", ")
        values = (x if x is None or x != x else f"{x:g}" for x in (start, end and end - inclusive))
        places = " and ".join(
            f"{x} {'NULL' if y is None else y}" for x, y in zip(names, values, strict=True)
        )
        rule = "first <= last" if inclusive else "start < end, without the end itself"
        where = f"document {document!r}" + f" and query {key!r}" * (key is not None)
        raise RankqlError(
            f"{table.label}: {places} of {where} are not two ends of a span. Write whole numbers "
            f"with 0 <= {rule}"
        )
    several = f" GROUP BY {query} HAVING count(*) > 1 AND bool_or({none}) LIMIT 1"
    for (key,) in () if is_run else table.rows(query, several):
        raise RankqlError(
            f"{table.label}: query {key!r} has a row without a document and ends, and others. A "
            "query without evidence has one row. Leave this row out"
        )


def _attributes(inputs: Inputs, cte: str) -> str:
    """The attributes in a table, after other columns."""
    return "".join(f", {inputs.attribute(name)}" for name in inputs.attributes_in(cte))


def _read(inputs: Inputs, table: Table, name: str | None = None) -> str:
    """The fields of a table of places."""
    fields = dict(inputs.fields(table, name))
    fields["document"] = fields.pop("item")
    fields |= {"s": f"CAST({START} AS BIGINT)", "e": f"CAST({END} AS BIGINT)"}
    for attribute in inputs.attributes_in(inputs.cte_of(table)):
        fields[inputs.attribute(attribute)] = inputs.read_attribute(table, attribute)
    return ", ".join(f"{value} AS {x}" for x, value in fields.items())


def _compare_documents(session: Session, inputs: Inputs, chunks: str, spans: str) -> Iterator[Note]:
    """Refuse a run without any document of the relevant spans; a note if queries are few."""
    system = "system" if inputs.many else "NULL"
    sql = f"""SELECT {system}, min(CAST(document AS VARCHAR)), bool_or(document IN (SELECT document
        FROM {spans})), (SELECT min(CAST(document AS VARCHAR)) FROM {spans}),
        (SELECT count(DISTINCT query) FROM {spans}) FROM {chunks} GROUP BY 1 ORDER BY 1"""
    for name, mine, common, other, queries in session.rows(sql):
        if other is None:
            raise RankqlError("No row of qrels is a relevant span. Pass a lower threshold=, or "
                              "rows with a document, a start and an end")  # fmt: skip
        if common:
            continue
        text = f"No chunk of {run_label(name)} is in a document of the relevant spans: it has "
        text += f"{mine!r}, qrels has {other!r}. Write the ids of documents the same way in both"
        if queries >= SEVERAL_QUERIES and inputs.none_judged != "zero":
            raise Question(text, others=["pass none_judged='zero' if no document is right"])
        yield Note(text, level="warning")


def _note_rows(session: Session, inputs: Inputs, chunks: str, spans: str) -> Iterator[Note]:
    """Notes on chunks without a position, and on places that a query has twice."""
    key = f"hash({inputs.keys}, document, s, e)"
    sql = f"SELECT count(*), count(pos), count(DISTINCT {key}) FILTER (pos IS NOT NULL)"
    total, rows, places = session.row(f"{sql} FROM {chunks}")
    copies = rows - places
    if lacking := total - rows:
        text = f"{lacking:,} of {format_count(total, 'chunk')} {is_or_are(lacking)} without a score"
        yield Note(f"{text} or position (NULL) and not retrieved")
    if copies:
        yield Note(
            f"{copies:,} of {format_count(rows, 'chunk')} {is_or_are(copies)} at a place that the "
            "ranking already has. Their positions are kept, and characters count once"
        )
    key = "hash(query, document, s, e, evidence)"
    rows, copies = session.row(f"SELECT count(*), count(*) - count(DISTINCT {key}) FROM {spans}")
    if copies:
        text = f"qrels: {copies:,} of {format_count(rows, 'relevant span')} {is_or_are(copies)} a "
        yield Note(f"{text}copy of another one of the query. Copies count once")


def _write_spans(inputs: Inputs, threshold: float) -> str:
    """The judged spans. A query without evidence has one row without a place."""
    assert inputs.qrels
    fields = f"{_read(inputs, inputs.qrels)}, {EVIDENCE} AS evidence"
    relevant = IS_RELEVANT.format(threshold=threshold)
    relevant = f"coalesce({relevant}, false) AND s IS NOT NULL AS relevant"
    rows = f"SELECT {fields} FROM {inputs.qrels.sql}"
    return f"SELECT *, {relevant} FROM ({rows}) WHERE rel IS NOT NULL OR s IS NULL"


def _write_chunks(inputs: Inputs, ties: str) -> str:
    """The chunks of all runs with their positions. Tied ones are in the order of their places."""
    line = ", row_number() OVER () AS line" * (ties == "order")
    rows = " UNION ALL ".join(
        f"SELECT {_read(inputs, table, name)}{line} FROM {table.sql}"
        for name, table in inputs.runs.items()
    )
    if not inputs.scored:
        return rows
    order = score_order("order" if line else PLACE)
    place = f"PARTITION BY {inputs.keys}, score IS NULL ORDER BY {order}"
    position = f"CASE WHEN score IS NOT NULL THEN row_number() OVER ({place}) END AS pos"
    return f"SELECT *, {position} FROM ({rows})"


def _write_truth(inputs: Inputs, spans: str, threshold: float) -> str:
    """A row per query and value of its attributes, with a hash of its spans as the item."""
    attributes = _attributes(inputs, "qrels")
    digest = "CAST(sum(hash(document, s, e, rel, evidence)) OVER one AS VARCHAR) AS digest"
    grade = f"CASE WHEN bool_or(relevant) OVER one THEN {max(threshold, 1)} ELSE 0 END AS rel"
    rows = f"SELECT DISTINCT query{attributes}, {digest}, {grade} FROM {spans}"
    number = "row_number() OVER (PARTITION BY query)"
    return (
        f"SELECT * EXCLUDE (digest), digest || repeat('#', {number} - 1) AS item\n"
        f"FROM ({rows} WINDOW one AS (PARTITION BY query))"
    )


def _write_rankings(inputs: Inputs, chunks: str, truth: str, pieces: Pieces) -> str:
    """A row per ranking and value of its attributes, with the values and the item of the truth."""
    keys, attributes = inputs.keys, _attributes(inputs, "run")
    rows = f"SELECT DISTINCT r, {keys}{attributes} FROM {chunks}"
    number = f"row_number() OVER (PARTITION BY {keys}) AS pos"
    known = f"SELECT query, item FROM {truth} WHERE item NOT LIKE '%#'"
    return (
        f"SELECT * EXCLUDE (r, item), coalesce(item, 'none') || repeat('#', pos - 1) AS item\n"
        f"FROM (SELECT *, {number} FROM ({rows}))\nLEFT JOIN ({known}) USING (query)\n"
        f"LEFT JOIN (\n{pieces.sql}\n) USING (r)"
    )


def _as_rankings(
    inputs: Inputs, table: Table, rows: Table, name: str | None = None, values: Sequence[str] = ()
) -> Table:
    """A table of rankings or of judged queries, with the names of its columns as they were."""
    fields = {table.roles["query"]: "query", table.roles["item"]: "item"}
    if table is inputs.qrels:
        fields[table.roles["rel"]] = "rel"
    else:
        place = "score" if inputs.scored else "pos"
        fields[table.roles[place]] = "pos"
        system = inputs.system
        fields |= {table.actual_name(system): "system"} if system else {}
        fields |= {x: quote(x) for x in values}
    for attribute in inputs.attributes_in(inputs.cte_of(table)):
        fields[table.actual_name(attribute)] = inputs.attribute(attribute)
    where = f" WHERE system = {literal(name)}" if name is not None else ""
    selected = ", ".join(f"{value} AS {quote(x)}" for x, value in fields.items())
    kinds = {x: rows.columns[value.strip('"')] for x, value in fields.items()}
    roles = {x: y for x, y in table.roles.items() if y in fields}
    return replace(
        table, sql=f"(SELECT {selected} FROM {rows.sql}{where})", columns=kinds, roles=roles,
        text=False, ascending=False, ordered=False, computed={}, lists=None, with_lists=None,
        before=None,
    )  # fmt: skip
