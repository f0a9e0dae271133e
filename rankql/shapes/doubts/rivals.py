"""Rivals: unread columns that fit a role better than what was read, or split its queries.

Each is named by the data: a column that both tables share, or a number called like a prediction.
What the data prove, or what is right by its name alone, is asked; of others, a note has the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankql.core.base.column_names import (
    ROLES,
    WEAKER,
    is_called,
    is_distance,
    names_prediction,
    ranks_by_place,
    squash,
)
from rankql.core.base.errors import Call, Question, as_arguments
from rankql.core.base.text import join_words
from rankql.core.tables.numbers.order import other_order
from rankql.core.tables.reader import first_rows
from rankql.core.tables.tables import is_id, is_number
from rankql.shapes.doubts.sample import Pair

# Names of what has a ranking of its own in each query, of what may have, and of what documents
# have too.
_STEPS = {x + y for x in ("turn", "session", "step") for y in ("", "id", "number", "no")}
_DAYS = {"date", "day"}
_SLICES = {"lang", "language", "locale", "subset", "dataset", "split", "market"}


def shared_column(pair: Pair) -> Iterator[str]:
    """A column of both tables with a ranking of its own for each value within a query."""
    run, qrels = pair.run, pair.qrels
    if qrels is None or pair.is_one_table or run.table.lists or "query" in pair.named:
        return
    theirs = {squash(x): x for x in qrels.free}
    known = _STEPS | _DAYS | _SLICES
    names = {x: theirs[squash(x)] for x in run.free if squash(x) in known and squash(x) in theirs}
    names = {x: y for x, y in names.items() if _splits_queries(pair, x, y)}
    if not names:
        return
    keys = [[side.table.roles["query"], *columns] for side, columns in
            ((run, names), (qrels, names.values()))]  # fmt: skip
    call: Call = {"query": keys[0] if keys[0] == keys[1] else [tuple(x) for x in keys]}
    text = f"{join_words([*names])} of both tables {'has' if len(names) == 1 else 'have'} several "
    text += f"values within a {run.table.roles['query']}, each with its own judgments"
    if any(squash(x) not in _SLICES for x in names):
        text += ". Is it a part of the query?"
        raise Question(run.note(text), [call, {"query": run.table.roles["query"]}])
    yield run.note(f"{text}. If each is a query, pass {as_arguments(call)}")


def _splits_queries(pair: Pair, name: str, other: str) -> bool:
    """Has a query several values in both tables, each with judgments and mostly several rows?

    Judged pairs have their values in the run too. Of days, an item must stand under two.
    """
    run, qrels = pair.run, pair.qrels
    assert qrels
    values = [(run, *run.free[name]), (qrels, *qrels.free[other])]
    if not all(is_id(kind) or kind == "DATE" or kind.startswith("TIME") for *_, kind in values):
        return False
    mine, theirs = (
        f"(SELECT {x.query} AS q, {x.item} AS i, CAST({sql} AS VARCHAR) AS v FROM {x.rows})"
        for x, sql, _ in values
    )
    several = "SELECT max(n) > 1 FROM (SELECT count(DISTINCT v) AS n FROM {} GROUP BY {})".format
    groups = f"(SELECT q, v, count(*) AS n FROM {mine} SEMI JOIN {theirs} USING (q) GROUP BY ALL)"
    sql = f"""SELECT ({several(mine, "q")}) AND ({several(theirs, "q")})
        AND ({several(mine, "i") if squash(name) in _DAYS else "true"})
        AND NOT EXISTS (FROM {theirs} SEMI JOIN (SELECT q, i FROM {mine}) USING (q, i)
            ANTI JOIN {mine} USING (q, i, v))
        AND (SELECT avg(CAST(n > 1 AS INT)) > 0.5 AND bool_and((q, v) IN
            (SELECT (q, v) FROM {theirs})) FROM {groups})"""
    return bool(run.value(sql))


def other_orders(pair: Pair) -> Iterator[str]:
    """A prediction beside the place of a log, or beside the number that rel= computes grades of."""
    table, roles = pair.run.table, pair.run.table.roles
    if pair.qrels is not None or table.lists or "score" in pair.named:
        return
    place = roles.get("pos", roles.get("score", ""))
    known = (*ROLES["score"], *ROLES["pos"], *WEAKER["score"])
    numbers = [x for x, (_, kind) in pair.run.free.items() if is_number(kind) or table.text]
    numbers = [x for x in numbers if x in table.columns]
    if roles.get("rel") in table.computed and table.sources([roles["rel"]]) == [place]:
        if "pos" in pair.named:
            return
        text = f"rel= computes the grades of {place}, which orders the items too"
        orders = [x for x in numbers if names_prediction(x) or is_called(x, known)]
        if not orders:
            yield pair.run.note(f"{text}. Name the column that orders them: score= or pos=")
            return
        calls = [_order_by(x) for x in (*orders, place)]
        raise Question(pair.run.note(f"{text}. Which column orders them?"), calls)
    if "pos" not in roles or "score" in roles or table.is_assumed("pos"):
        return
    for name in filter(names_prediction, numbers):
        first = first_rows(pair.run.session, table, [place, name])
        if {row[3] for row in first.rows} - {0, 1, None}:  # not flags
            yield from other_order(table, first, place, _order_by(name))


def _order_by(name: str) -> Call:
    """The call that ranks by a column."""
    if ranks_by_place(name):
        return {"pos": name}
    return {"score": name, **({"descending": False} if is_distance(name) else {})}
