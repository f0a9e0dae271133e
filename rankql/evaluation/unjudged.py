"""unjudged_queries="count": queries without judgments are judged, with nothing relevant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankql.errors import RankqlError, require
from rankql.macros import quote
from rankql.registry.metric_record import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.session import Session
from rankql.text import format_queries

# Metrics of the queries without an answer, or of forbidden items, for which no purchase is neither.
_OTHERS = ("FalseAnswer", "FalseAbstention", "Forbidden")


def count_unjudged(session: Session, inputs: Inputs, metrics: Sequence[Metric]) -> Inputs:
    """The inputs whose judgments have a row without an item for each other query of a run."""
    qrels, option = inputs.qrels, "unjudged_queries='count'"
    if qrels is None:
        raise RankqlError(f"{option} needs judgments in a table of their own. Pass qrels=")
    names = [x.name for x in metrics if x.record and x.record.name in _OTHERS]
    message = f"{option} does not support {', '.join(names)}. Evaluate without them"
    require(not names, message)
    text, (query, item, rel) = inputs.as_text("query"), (
        qrels.roles[role] for role in ("query", "item", "rel")
    )  # fmt: skip
    if text:
        qrels = qrels.with_values(query, qrels.key("query", True), "VARCHAR")
    own = [name for name in inputs.by if qrels.has(name)]
    asked = []
    for table in inputs.runs.values():
        values = (quote(x) if table.has(x) else "NULL" for x in own)
        named = ", ".join(f"{x} AS {quote(y)}" for x, y in zip(values, own, strict=True))
        key = f"{table.key('query', text)} AS {quote(query)}"
        asked.append(f"SELECT {', '.join(filter(None, (key, named)))} FROM {table.sql}")
    firsts = ", ".join(f"any_value({quote(x)}) AS {quote(x)}" for x in own)
    columns = ", ".join(filter(None, (quote(query), firsts)))
    rows = f"SELECT {columns} FROM ({' UNION ALL '.join(asked)}) GROUP BY {quote(query)}"
    rest = f"SELECT * FROM ({rows}) ANTI JOIN {qrels.sql} AS judged USING ({quote(query)})"
    count, every = session.row(
        f"SELECT (SELECT count(*) FROM ({rest})), (SELECT count(*) FROM ({rows}))"
    )
    wrong = f"{option}: no query of the run is judged. Make the ids alike first"
    require(count < every or not every, wrong)
    split = qrels.context.get("split") == "test"
    wrong = f"{option}: {count:,} of {format_queries(every)} have no row of test. Leave them out"
    require(not (split and count), wrong)
    if not count:
        return inputs
    kinds, cast = qrels.columns, f"CAST({{}} AS {qrels.columns[rel]})"
    item_, zero = f"CAST(NULL AS {kinds[item]}) AS {quote(item)}", cast.format(0)
    value = f"SELECT *, {item_}, {zero} AS {quote(rel)}"
    judged = replace(
        qrels, sql=f"(FROM {qrels.sql} UNION ALL BY NAME {value} FROM ({rest}))", empty=True
    )
    if not qrels.empty:
        grade = f"CASE WHEN {quote(item)} IS NULL THEN {zero} ELSE {quote(rel)} END"
        judged = judged.with_values(rel, grade, kinds[rel])
    total = format_queries(every)
    note = f"{count:,} of {total} have no judgments and count, with nothing relevant"
    return replace(inputs, qrels=judged, notes=[*inputs.notes, note])
