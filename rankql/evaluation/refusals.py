"""Check the inputs of an evaluation, and refuse what cannot be evaluated.

Counters of the reduction say whether something is wrong; a query then names three offenders.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import duckdb

from rankql.errors import RankqlError
from rankql.evaluation.evaluation import Evaluation
from rankql.evaluation.overlap import (
    Counters,
    find_judged_queries,
    format_examples,
    require_common_items,
    require_judged_queries,
    require_ranked_rows,
)
from rankql.evaluation.shown import reads_grades
from rankql.evaluation.steps import Column, Unique, has_one_value
from rankql.macros import quote
from rankql.registry.column_names import USERS, squash
from rankql.sources.choice import suggest_query
from rankql.sources.frames import may_lack_threads
from rankql.sources.id_lists import refuse_rounded
from rankql.sources.inputs import Inputs
from rankql.sources.reader import count_values, fetch, reword_error
from rankql.sources.session import Session, duckdb_errors
from rankql.sources.tables import Table, format_mapping, is_text, text_number, unknown_column


def require_sound(
    evaluation: Evaluation,
    counters: Counters,
    unique: Sequence[Unique],
    one_query: bool = False,
) -> Counters:
    """Refuse what cannot be evaluated, in one order; return the counters with what was learnt.

    unique: what must be unique, by table, column and a condition on the rows. one_query: there
    is only one query, whose run may have no judged item.
    """
    session, inputs = evaluation.session, evaluation.inputs
    if counters.has_nan:
        for table in inputs.runs.values():
            validate_numbers(session, table)
    require_one_value_per_query(evaluation, counters.unique)
    require_one_weight(session, inputs)
    if not one_query:
        require_ranked_rows(counters)
    counters = replace(counters, attributes=match_attributes(evaluation))
    if inputs.qrels is not None:
        overlap = counters.queries
        if not all(x.judged for x in overlap):
            hint = suggest_query(session.con, next(iter(inputs.runs.values())), inputs.qrels)
            require_judged_queries(overlap, find_judged_queries(evaluation), hint)
        if reads_grades(evaluation.metrics) and not one_query:
            counters = require_common_items(evaluation, counters)
    require_unique_rows(evaluation, unique, counters.unique)
    return counters


def match_attributes(evaluation: Evaluation) -> tuple[int, int, Sequence[object]]:
    """The queries, those with attributes, and examples of others; refuse attributes of none."""
    inputs = evaluation.inputs
    if inputs.attributes is None:
        return 0, 0, ()
    ((queries, known, missing),) = evaluation.run_sql(
        f"""SELECT count(*), count(known), min(query, 3) FILTER (WHERE known IS NULL)
        FROM (SELECT DISTINCT query FROM {inputs.graded})
        LEFT JOIN (SELECT DISTINCT query, true AS known FROM attributes) USING (query)"""
    )
    if not known:
        ((others,),) = evaluation.run_sql("SELECT min(DISTINCT query, 3) FROM attributes")
        raise RankqlError(
            f"No query has attributes: {inputs.graded} has {format_examples(missing)}, attributes "
            f"has {format_examples(others)}. Write query ids the same way in both"
        )
    return queries, known, missing


def require_one_value_per_query(evaluation: Evaluation, known: Collection[Column] = ()) -> None:
    """Refuse attributes with several values for a query, unless they are known to have one."""
    inputs = evaluation.inputs
    for home in ("attributes", "qrels", "run"):
        for name in inputs.attributes_in(home):
            column = inputs.attribute(name)
            if (home, column) in known:
                continue
            sql = f"""SELECT query, min({column}), nullif(max({column}), min({column})) FROM {home}
                GROUP BY query HAVING NOT ({has_one_value(inputs, name)}) ORDER BY query LIMIT 1"""
            for key, low, high in evaluation.run_sql(sql):
                raise RankqlError(
                    f"{inputs.argument(name)}: {name} must have one value per query, but {home} "
                    f"has {low!r} and {high!r} for query {key!r}"
                )


def require_one_weight(session: Session, inputs: Inputs) -> None:
    """Refuse a column of weights that two tables have with different values."""
    name = inputs.weight
    if name is None:
        return
    first, *others = [table for table in inputs.tables if table.has(name)]

    def weights(table: Table) -> str:
        key, weight = quote(table.roles["query"]), quote(table.actual_name(name))
        columns = f"CAST({key} AS VARCHAR) AS query, TRY_CAST({weight} AS DOUBLE) AS weight"
        return f"(SELECT DISTINCT {columns} FROM {table.sql})"

    for other in others:
        sql = f"""SELECT query, a.weight, b.weight FROM {weights(first)} AS a
            JOIN {weights(other)} AS b USING (query) WHERE a.weight <> b.weight
            ORDER BY query LIMIT 1"""
        for query, one, another in fetch(session, sql):
            raise RankqlError(
                f"weight: {name} is {one:g} in {first.label}, but {another:g} in {other.label}, "
                f"for query {query!r}. Rename or remove one of these columns"
            )


def require_unique_rows(
    evaluation: Evaluation, columns: Sequence[Unique], known: Collection[Column] = ()
) -> None:
    """Refuse duplicates within a query, by table, column and a condition.

    The condition is on rows of the run, or on all judgments of an item. known: tables and columns
    that are known to be unique.
    """
    for source, column, where in columns:
        key = evaluation.inputs.keys if source == "run" else "query"
        some = where if source == "run" else ""
        if (
            (source, column) not in known
            and _repeats(evaluation, source, f"{key}, {column}", some)
            and (message := find_duplicates(evaluation, source, column, where))
        ):
            raise RankqlError(message)


SHARED = "several items share a position"
# polars counts the hashes of so many rows faster than DuckDB, in memory to which memory_limit does
# not apply. For fewer rows it is not worth the import of pyarrow.
IN_POLARS = range(500_000, 20_000_000)
# The number of parts if the hashes of all rows do not fit into memory.
PARTS = 32


def _repeats(evaluation: Evaluation, source: str, columns: str, where: str = "") -> bool:
    """Do two rows have the same hash? Hashes are faster to compare than ids."""
    inputs = evaluation.inputs
    tables = (table for table in inputs.tables if inputs.home(table) == source)
    rows = sum(count_values(evaluation.session, table, [])[0] for table in tables)
    # Hashes of all rows take less time than the ranks of scores.
    sql = f"SELECT hash({columns}) AS h FROM {source} {where.partition('QUALIFY')[0]}"
    if rows in IN_POLARS and not may_lack_threads():
        hashes = evaluation.run_frame(sql)["h"]
        return hashes.n_unique() < len(hashes)
    count = f"SELECT count(DISTINCT h) < count(*) FROM ({sql})"  # faster than GROUP BY h
    try:
        return bool(evaluation.run_sql(count)[0][0])
    except duckdb.OutOfMemoryException:  # compare the hashes in parts
        conditions = (f"WHERE h % {PARTS} = {part}" for part in range(PARTS))
        return any(evaluation.run_sql(f"{count} {where}")[0][0] for where in conditions)


def duplicates_message(evaluation: Evaluation) -> str:
    """The error about duplicates among the items, with three examples."""
    inputs = evaluation.inputs
    message = find_duplicates(evaluation, "run", "item") if inputs.every("item") else None
    if not message and not inputs.scored:
        message = find_duplicates(evaluation, "run", "pos", "WHERE pos IS NOT NULL")
    if not message:
        ((highest,),) = evaluation.run_sql(f"SELECT max(abs(rel)) FROM {inputs.graded}")
        if highest is not None and highest > _HUGE:
            return f"The grades are too large: sums of {highest:g} overflow. Rescale the grades"
    return message or SHARED


def find_duplicates(
    evaluation: Evaluation, source: str, column: str, where: str = ""
) -> str | None:
    """The error about duplicates, with three examples; None if there are none."""
    inputs = evaluation.inputs
    key = inputs.keys if source == "run" else "query"
    columns, several = f"{key}, {column}", "count(*) > 1"
    if source == "qrels" and where:
        where, several = "", f"count(rel) > 1 AND {where}"
        if evaluation.conventions.negative == "unjudged":  # compare what the table says
            rules = replace(evaluation.conventions, negative="keep")
            evaluation = replace(evaluation, conventions=rules)
            several = several.replace("count(rel)", "count(*) FILTER (rel >= 0)")
            several += " OR (min(rel) < 0 AND min(rel) < max(rel))"
    rows = evaluation.run_sql(
        f"""SELECT {columns} FROM (FROM {source} {where}) AS {source}
        GROUP BY {columns} HAVING {several} ORDER BY {columns} LIMIT 3"""
    )
    if not rows:
        return None
    examples = "; ".join(
        ", ".join(
            f"{name} {value:g}" if name == "pos" else f"{name} {value!r}"
            for name, value in zip(columns.split(", "), row, strict=True)
        )
        for row in rows
    )
    hint = ""
    if inputs.collapsible and column == "item" and source == "run":
        (name, *_) = (table.roles["item"] for table in inputs.runs.values())
        hint = f", or the best with collapse={name!r} (positions='keep' leaves gaps)"
    if source == "run" and not inputs.many:
        (table,) = inputs.runs.values()
        hint += _describe_separator(evaluation.session, table, column)
    return f"{source} has duplicates: {examples}. Keep one row of each{hint}"


def _describe_separator(session: Session, table: Table, column: str) -> str:
    """The column that tells the items or positions of a run apart: of systems, or of the key.

    Systems rank at least half of the queries each; users have queries of their own.
    """
    key = table.roles["query"]
    if table.trec:
        return ", or pass the column of the systems: system='tag'"
    names = [name for name in table.own_columns if name not in table.roles.values()]
    for name in sorted(names, key=lambda name: name not in table.known("query")):
        if not table.columns[name].startswith(("FLOAT", "DOUBLE", "DECIMAL", "STRUCT", "MAP")):
            columns = ", ".join(map(quote, (name, key, table.roles[column])))
            unique = f"count(DISTINCT ({columns})) = count(*)"
            several = f"count(DISTINCT {quote(name)}) < count(*)"
            dense = f"2 * count(DISTINCT ({quote(name)}, {quote(key)})) >= "
            dense += f"count(DISTINCT {quote(name)}) * count(DISTINCT {quote(key)})"
            sql = f"SELECT {unique} AND {several}, {dense} FROM {table.sql}"
            ((separates, is_dense),) = fetch(session, sql)
            if separates and (name in table.known("query") or squash(name) in USERS):
                return f", or pass the key of the queries: query={[name, key]!r}"
            if separates and is_dense:
                return f", or pass the column of the systems: system={name!r}"
    return ", or pass the column of the systems: system="


# Sums of higher grades may overflow.
_HUGE = 1e290


@contextmanager
def evaluation_errors(evaluation: Evaluation) -> Iterator[None]:
    """Raise errors of DuckDB as RankqlError, with the duplicates or the table."""
    with duckdb_errors():
        try:
            yield
        except duckdb.Error as error:
            line = reword_error(error)
            if match := re.match('Referenced column "(.+?)" not found', line):
                runs = [*evaluation.inputs.runs.values()]
                raise unknown_column("metrics", match[1], runs) from error
            if SHARED in line:
                raise RankqlError(duplicates_message(evaluation)) from error
            raise


# Errors about NaN in pandas, in the words of the macros for other sources.


def validate_columns(session: Session, inputs: Inputs, counted: bool = False) -> None:
    """Refuse invalid ids, grades, positions and scores.

    counted: NaN among scores is found by a counter.
    """
    with duckdb_errors():
        for table in [*inputs.tables, *inputs.beyond]:
            counts = count_values(session, table, inputs.ids(table))
            require_ids(table.label, *counts, table.unit)
            for name in inputs.ids(table):
                refuse_rounded(session, table, name, "x_", table.columns[name])
            is_number = not table.text and counted and inputs.scored
            validate_numbers(session, table, ("rel", "pos") if is_number else NUMBERS)


def require_ids(label: str, total: int, counts: Mapping[str, int], unit: str = "rows") -> None:
    """Refuse a table that is empty, or in which ids are NULL."""
    if not total:
        raise RankqlError(f"{label} is empty: it has no {unit}")
    for name, count in counts.items():
        if count < total:
            raise RankqlError(
                f"{label}: {name} is NULL in {total - count} of {total} {unit}. Leave them out"
            )


def _refuse_labels(session: Session, table: Table) -> None:
    """Refuse grades that are a few words, with the mapping that reads them."""
    name = table.roles.get("rel")
    if name is None or not is_text(table.columns[name]):
        return
    value = f"CAST({quote(name)} AS VARCHAR)"
    words = f"SELECT count({value}) > 0 AND count({text_number(name)}) = 0 FROM {table.sql}"
    if not session.con.execute(words).fetchall()[0][0]:
        return
    sql = f"SELECT DISTINCT {value} FROM {table.sql} WHERE {value} IS NOT NULL ORDER BY 1 LIMIT 10"
    labels = [label for (label,) in session.con.execute(sql).fetchall()]
    raise RankqlError(
        f"{table.label}: {name} must be a number, not text such as {labels[0]!r}. Write a grade "
        f"for each value: {format_mapping(dict.fromkeys(labels, '...'), name)}"
    )


# The roles of numbers.
NUMBERS = ("rel", "pos", "score")


def validate_numbers(session: Session, table: Table, roles: Sequence[str] = NUMBERS) -> None:
    """Refuse grades, positions and scores that are not numbers."""
    bad = {}
    if "rel" in roles:
        _refuse_labels(session, table)
    for role in roles:
        if role in table.roles and table.integer(role) is None:
            name, value = quote(table.roles[role]), table.number(role)
            bad[role] = f"{name} IS NOT NULL AND NOT coalesce(rankql_is_{role}({value}), false)"
    if bad:
        # No WHERE: DuckDB 2.0 would use the statistics of a file, which ignore NaN.
        columns = ", ".join(f"count(*) FILTER (WHERE {wrong})" for wrong in bad.values())
        (counts,) = fetch(session, f"SELECT {columns} FROM {table.sql}")
        bad = {role: wrong for (role, wrong), n in zip(bad.items(), counts, strict=True) if n}
    for role, wrong in bad.items():
        sql = f"SELECT any_value({table.read(role)}) FILTER (WHERE {wrong}) FROM {table.sql}"
        fetch(session, sql)
    if pos := table.integer("pos"):
        wrong = f"WHERE {pos} < 1 OR {pos} > 9007199254740992 LIMIT 1"
        if session.con.execute(f"SELECT 1 FROM {table.sql} {wrong}").fetchall():
            fetch(session, f"SELECT {table.read('pos')} FROM {table.sql} {wrong}")
