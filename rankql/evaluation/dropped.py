"""Items that do not count as shown: seen in train, the query itself, and those below a score."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rankql import errors
from rankql.evaluation.catalogue import train_steps
from rankql.evaluation.ctes import with_ctes
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.conventions import Conventions
from rankql.sources.account import orders_items
from rankql.sources.inputs import Inputs
from rankql.sources.reader import fetch
from rankql.sources.session import Session
from rankql.sources.tables import Table
from rankql.text import is_or_are, run_label, unique_names

# So many lowest scores are compared, unless the caller names them.
SCORES = 20
LINE, DROPPED = f"{INTERNAL_PREFIX}line", f"{INTERNAL_PREFIX}dropped"


def drop_seen(session: Session, inputs: Inputs, conventions: Conventions) -> Inputs:
    """The runs without the items that the user has in train; those below move up. With a note."""

    def is_seen(table: Table) -> str:
        query, item = (table.key(role, inputs.as_text(role)) for role in ("query", "item"))
        return f"coalesce(({query}, {item}) IN (SELECT query, item FROM train), false)"

    remedy = "Pass the interactions before the run as train="
    texts = "seen='drop'", "in train for the same user", remedy
    train = with_ctes(train_steps(inputs))
    return _drop_rows(session, inputs, conventions, train, is_seen, texts)


def drop_identical(session: Session, inputs: Inputs, conventions: Conventions) -> Inputs:
    """The runs without items that have the id of their query. With a note."""
    for table in inputs.runs.values():
        errors.require(
            table.roles.keys() >= {"query", "item"}
            and table.computed.keys().isdisjoint((table.roles["query"], table.roles["item"])),
            "ignore_identical_ids= compares the id of an item with that of its query, so it needs "
            f"one column of each. {table.label} has others. Leave it out",
        )

    def is_identical(table: Table) -> str:
        return f"coalesce({table.key('query', True)} = {table.key('item', True)}, false)"

    texts = "ignore_identical_ids", "the query itself", "Leave it out"
    return _drop_rows(session, inputs, conventions, "", is_identical, texts)


def _drop_rows(
    session: Session, inputs: Inputs, conventions: Conventions, ctes: str,
    condition: Callable[[Table], str], texts: tuple[str, str, str],
) -> Inputs:  # fmt: skip
    """The runs without the rows of a condition; those below move up. With a note.

    texts: the option, what the rows are, and the remedy if nothing is left.
    """
    runs, notes, (option, why, remedy) = {}, [], texts
    for system, table in inputs.runs.items():
        line, dropped = map(quote, unique_names([LINE, DROPPED], table.columns))
        place = table.roles["score" if inputs.scored else "pos"]
        value, origins = quote(place), dict(table.origins)
        rows = (
            f"(SELECT *, {value} IS NOT NULL AND {condition(table)} AS {dropped}, "
            f"row_number() OVER () AS {line} FROM {table.sql})"
        )
        if not inputs.scored:
            ids = ", ".join(quote(x) for x in inputs.ids(table) if x != table.roles["item"])
            pos = table.number("pos")
            order = f"ORDER BY {pos} ASC NULLS LAST"
            before = f"dense_rank() OVER (PARTITION BY {ids} {order})"
            after = f"dense_rank() OVER (PARTITION BY {ids}, {dropped} {order})"
            value = f"CAST({pos} - {before} + {after} AS BIGINT)"
            origins[place] = f"{table.role_columns['pos']} (renumbered)"
        moved = f"SELECT * REPLACE (CASE WHEN NOT {dropped} THEN {value} END AS {quote(place)})"
        order = f" ORDER BY {line}" if conventions.ties == "order" else ""
        loaded = session.load(table.label, f"({ctes}{moved} FROM {rows}{order})", text=False)
        counts = f"count({quote(place)}), count(*) FILTER (WHERE {dropped})"
        ((remaining, count),) = fetch(session, f"SELECT {counts} FROM {loaded.sql}")
        if not remaining:
            raise errors.RankqlError(
                f"{option} leaves nothing: every item of {run_label(system)} is {why}. {remedy}"
            )
        # The item of a table with grades stays judged.
        rest = f" WHERE NOT {dropped}" if inputs.qrels else ""
        runs[system] = replace(
            table,
            sql=f"(SELECT * EXCLUDE ({dropped}, {line}) FROM {loaded.sql}{rest})",
            columns={**table.columns, place: loaded.columns[place]},
            origins=origins,
        )
        notes.append(
            f"{option}: {count:,} of {remaining + count:,} items of {run_label(system)} "
            f"{is_or_are(count)} {why} and left out; the items below move up"
        )
    return replace(inputs, runs=runs, notes=[*inputs.notes, *notes])


def keep_scores(session: Session, inputs: Inputs, min_score: Any) -> Inputs:
    """The runs with items of at least this score, or of the score of each system by name.

    Others count as not retrieved, so a query without one stays in its run and shows nothing. If
    the lowest score is best, it is the highest score that is kept. A tuple with a list of scores,
    or None for those of `list_best_scores`, makes a system of each.
    """
    for table in inputs.runs.values():
        if "score" not in table.roles:
            label = f"run {inputs.unscored!r}" if inputs.unscored else table.label
            numbers = [x for x in table.unread if orders_items(x)]
            raise errors.Question(f"min_score needs scores, and {label} has none",
                           [{"score": x} for x in numbers], otherwise="Pass score=")  # fmt: skip
    asked = min_score
    if isinstance(min_score, tuple):
        alone = len(inputs.runs) == 1 and inputs.system is None
        errors.require(alone, "min_scores compares the scores of one run. Pass one")
        (table,), (scores,) = inputs.runs.values(), min_score
        min_score = {str(x): x for x in scores or list_best_scores(session, inputs, table)}
        inputs = replace(inputs, runs=dict.fromkeys(min_score, table))
    limits = min_score if isinstance(min_score, Mapping) else {None: min_score}
    for value in limits.values():
        finite = math.isfinite(errors.as_number(value))
        errors.require(finite, f"min_score must be a finite number, not {errors.describe(value)}")
    named = {*limits} - {None}
    alone = bool(named) and not inputs.many
    errors.require(not alone, "min_score= has names of systems, but there is one run")
    runs, of_row = {}, inputs.system and f"CAST({quote(inputs.system)} AS VARCHAR)"
    for system, table in inputs.runs.items():
        of = of_row or literal(system)
        cases = " ".join(f"WHEN {literal(x)} THEN {literal(y)}" for x, y in limits.items() if x)
        least = f"(CASE {of} {cases} END)" if named else literal(min_score)
        reaches = f"{table.number('score')} >= {table.signed('score', least)}"
        fits = f"coalesce({reaches}, {least} IS NULL)"
        places = [table.roles[role] for role in ("pos", "score") if role in table.roles]
        values = ", ".join(f"CASE WHEN {fits} THEN {quote(x)} END AS {quote(x)}" for x in places)
        runs[system] = replace(table, sql=f"(SELECT * REPLACE ({values}) FROM {table.sql})")
    if named and (systems := read_systems(session, inputs)) and (unknown := named - {*systems}):
        error = errors.describe_unknown("system in min_score", min(unknown), systems)
        raise errors.RankqlError(error)
    return replace(inputs, runs=runs, min_score=asked)


def list_best_scores(session: Session, inputs: Inputs, table: Table) -> list[float]:
    """Up to 20 quantiles of the best score of each query."""
    best = (
        f"SELECT max({table.read('score')}) AS best FROM {table.sql} GROUP BY {table.key('query')}"
    )
    shares = ", ".join(f"{i / (SCORES - 1)!r}" for i in range(SCORES))
    sql = f"SELECT unnest(list_distinct(quantile_disc(best, [{shares}]))) AS x FROM ({best})"
    scores = [float(x) for (x,) in fetch(session, f"{sql} ORDER BY x") if x is not None]
    return [-x for x in scores] if table.ascending else scores


def read_systems(session: Session, inputs: Inputs) -> list[str]:
    """The names of the systems."""
    if inputs.system is None:
        return [name for name in inputs.runs if name is not None]
    (table,), name = inputs.runs.values(), f"CAST({quote(inputs.system)} AS VARCHAR)"
    sql = f"SELECT DISTINCT {name} FROM {table.sql} WHERE {name} IS NOT NULL ORDER BY 1"
    return [system for (system,) in fetch(session, sql)]
