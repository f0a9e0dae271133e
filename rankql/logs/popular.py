"""The most popular items of a log as a run, the baseline of every recommender."""

from __future__ import annotations

from typing import Any

import polars as pl
from duckdb import DuckDBPyRelation

from rankql.core.base.arrow import polars_to_pandas, relation_to_polars
from rankql.core.base.column_names import SPLITS, find_name
from rankql.core.base.errors import Question, require, require_whole_number
from rankql.core.evaluation.plan.columns import require_ids
from rankql.core.expressions.checked_columns import is_pandas
from rankql.core.expressions.in_duckdb import value_sql
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.tables.candidates import assign_roles
from rankql.core.tables.reader import count_values, fetch, fetch_frame
from rankql.core.tables.session import duckdb_errors, open_session
from rankql.core.tables.tables import Data, is_nan, require_column, same_kind

LOG, ASKED = f"{INTERNAL_PREFIX}log", f"{INTERNAL_PREFIX}asked"


def most_popular(
    train: Data,
    k: int = 10,
    seen: str | None = "drop",
    users: Data | None = None,
    query: str = "user",
    item: str = "item",
    split: str | None = "auto",
) -> Any:
    """A run that shows each user the most popular items of a log that the user does not have yet.

    The log is a file, a table or a frame, as for `evaluate`, with a row per interaction of a user
    and an item. The popularity of an item is the number of its users, and ties go to the lower
    item. With seen="drop", users get the first k of the items that they do not have in the log,
    with None the first k of all.
    Of a log with a column `split`, `fold` or `is_test`, as `leave_one_out` and `time_split` write
    it, only the rows of train count; split=None counts all rows.
    The run has a list for each user of the log, those of the test too, or of `users`, a table or a
    list of ids: users without a row in train get the most popular items. The score is 1 / pos, for
    an evaluation with runs that have scores. The result is in polars, or in pandas for a pandas
    log. The time is that of k rows per user and of the rows of the log.

    >>> log = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "b"]})
    >>> most_popular(log, k=1, users=[1, 2, 3]).rows()
    [(2, 'a', 1, 1.0), (3, 'b', 1, 1.0)]
    """
    run, _ = count_and_rank(train, k, seen, users, query, item, split)
    return polars_to_pandas(run) if is_pandas(train) else run


def count_and_rank(
    train: Data,
    k: int = 10,
    seen: str | None = "drop",
    users: Data | None = None,
    query: str = "user",
    item: str = "item",
    split: str | None = "auto",
) -> tuple[pl.DataFrame, int]:
    """The run of `most_popular`, and how many rows of the log count."""
    require_whole_number("k", k, 1)
    require(split in (None, "auto"), f"split must be 'auto' or None, not {split!r}")
    require(seen in (None, "drop"), f"seen must be 'drop' or None, not {seen!r}")
    two = f"query={query!r} and item={item!r} must be the names of two columns"
    require(str(query).lower() != str(item).lower(), two)
    if isinstance(users, list | tuple | range | pl.Series):
        ids = pl.Series(users)
        of_rows = ids.dtype == pl.Struct and not isinstance(users, pl.Series)
        users = users if of_rows else pl.DataFrame({query: ids})
    # A relation belongs to another connection.
    train, users = (
        relation_to_polars(x) if isinstance(x, DuckDBPyRelation) else x for x in (train, users)
    )
    with open_session(None, train, users) as session:
        session.hint = "To read a table of a database, pass the relation con.table('...')"
        names = {"query": query, "item": item}
        log = session.table(train, "train")
        for name, known in ((query, "user"), (item, "item")):
            if name != known:
                require_column(log, name, "query" if known == "user" else known)
        parts = find_name(log.columns, [x for x in SPLITS if x not in (query, item)])
        try:
            log = assign_roles(log, names, ("query", "item"), only=True)
        except Question as question:
            # It names the item too, if no column has its name.
            likely = [call["query"] for call in question.calls if [*call] == ["query"]][:2]
            if len(likely) == 2 and not log.known("item") and not log.has(item):
                likely.sort(key=[*log.columns].index)
                question.calls = [{"query": x, "item": y} for x, y in (likely, likely[::-1])]
            raise
        tables, others = [log], ""
        if users is not None:
            table = session.table(users, "users")
            same = {"query": [log.roles["query"]]}
            if len(table.columns) == 1:
                same = {"query": [*table.columns]}
            tables.append(assign_roles(table, names | {"item": None}, ("query",), same, only=True))
            others = f", users := '{ASKED}'"
        for table in tables:
            require_ids(table.label, *count_values(table, [*table.roles.values()]))
            for name in table.roles.values():
                if table.columns[name] in ("FLOAT", "DOUBLE"):
                    nan, rows = table.row(f"count_if({is_nan(quote(name))}), count(*)")
                    wrong = f"{table.label}: {name} is NaN in {nan} of {rows} rows"
                    require(not nan, f"{wrong}. Leave them out")
        text = not same_kind([table.columns[table.roles["query"]] for table in tables])
        ctes = []
        for name, table in zip((LOG, ASKED), tables, strict=False):
            columns = [f"{table.key(r, text and r == 'query')} AS {r}" for r in table.roles]
            columns += [quote(parts)] if parts and table is log else []
            ctes.append(f"{name} AS (SELECT {', '.join(columns)} FROM {table.sql})")
        keys = [quote(log.roles[role]) for role in ("query", "item")]
        of_log = f"query := 'query', split := {value_sql(split)}"
        options = f"k := {k}, seen := {value_sql(seen)}{others}, {of_log}"
        fields = f'"user" AS {keys[0]}, item AS {keys[1]}, pos, score'
        sql = f"WITH {', '.join(ctes)} SELECT {fields} FROM most_popular('{LOG}', {options})"
        rows = (
            f"WITH {ctes[0]} SELECT count(*) FROM rankql_train('{LOG}', {of_log}, item := 'item')"
        )
        with duckdb_errors():
            run = fetch_frame(session, sql, checked=True)
            ((count,),) = fetch(session, rows, checked=True)
        lacks = f"train has no row of train in {parts}. Pass split=None to count all rows"
        require(count > 0 or not parts, lacks)
    return run, count
