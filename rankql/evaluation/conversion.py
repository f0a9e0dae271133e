"""Convert runs and judgments between TREC files, those of BEIR, and tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import duckdb

from rankql.errors import RankqlError
from rankql.evaluation.arguments import Columns, Reading
from rankql.evaluation.ctes import BY_ITEM
from rankql.macros import literal
from rankql.sources.computed import resolve_columns
from rankql.sources.grades import assume_grades
from rankql.sources.inputs import keep_scores, lowest_is_best
from rankql.sources.macro_sql import fetch
from rankql.sources.private import create_macros
from rankql.sources.session import Session, duckdb_errors, open_session
from rankql.sources.tables import Data, Table, assign_roles, require_column
from rankql.text import format_count
from rankql.writing import name_columns, output_path, write_file

_TABLES = {".parquet": "FORMAT parquet", ".csv": "FORMAT csv, HEADER true"}
# The files of BEIR; in JSON, control characters are escaped, so no value contains a tab.
_BEIR = {
    ".tsv": "FORMAT csv, HEADER true, DELIMITER '\t'",
    ".json": "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\t'",
}
# Nothing is quoted in a TREC file.
_TREC = "FORMAT csv, HEADER false, QUOTE '', ESCAPE ''"
# White space, by which readers of TREC files may split, beyond ASCII too.
_WHITE = r"[\s\v\x1c-\x1f\x{85}\pZ]"


def convert(
    source: Data,
    target: str | os.PathLike[str],
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    tag: str = "rankql",
    **columns: Unpack[Columns],
) -> Path:
    """Write a run or judgments to a file: Parquet, CSV or BEIR by its suffix, else TREC.

    Tables get the columns query, item and rel, score or pos, and `system` if you name that column.
    `.tsv` is a file of BEIR, with the columns query-id, corpus-id and score, and `.json` is {query:
    {item: score}}; in judgments, the score is the grade. In a TREC run, ranks follow the score,
    then the item in descending order. Rows without a score or position are left out. If there are
    only positions, scores count down to 1. If the target is called `.qrel` or `.qrels`, or with
    rel='rel', numbers in dicts and JSON are grades, and items without grades get 1. If the lowest
    score is best (a column named distance, or descending=False), -score is written, because the
    highest is best in TREC and BEIR. The file appears complete or not at all.

    Parameters
    ----------
    source : path, table, frame or dict
        What `evaluate` takes as a run or as qrels.
    target : path
        The file. `.gz` or `.zst` at the end compresses a text file.
    tag : str
        Last column of a TREC run, unless it is the system.
    con, **columns
        As in `evaluate`.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [1.0, 2.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(convert(run, Path(folder) / "example.run").read_text())
    a Q0 y 1 2.5 rankql
    a Q0 x 2 1.0 rankql
    <BLANKLINE>
    """
    path = output_path(target, inputs=[source])
    if names := columns.pop("columns", None):
        source = name_columns(source, names)
    reading = Reading.of(columns, convert, Columns)
    roles, system = reading.columns, reading.system
    options, suffix = _format(path)
    if suffix in _BEIR and system is not None:
        raise RankqlError(
            f"system={system!r}: a file of BEIR holds one run. Write .parquet or .csv"
        )
    judged = roles["rel"] in (None, "rel") and roles["score"] is None and roles["pos"] is None
    judged = judged and (roles["rel"] is not None or ".qrel" in path.name.lower())
    with open_session(con, source) as session:
        table = session.table(source, "qrels" if judged else "source")
        (roles, _), ((table,), *_) = resolve_columns(
            session, roles, [[replace(table, label="source")]], attributes=[system]
        )
        if judged:
            table, roles = assume_grades(session, table, roles)
            assign_roles(table, roles, ["rel"])
        (table,) = keep_scores(session, [_read(table, roles, system, reading.descending)])
        with duckdb_errors():
            _refuse(session, table, "id IS NULL", "is NULL")
            if suffix not in _TABLES:
                table = _select_roles(table, roles, path)
                _refuse_rows(session, table)
            if suffix in _BEIR:
                sql = _beir(session, table, suffix)
            else:
                sql = (_table if suffix in _TABLES else partial(_trec, tag=tag))(session, table)
            with write_file(path) as temporary:
                copy = f"COPY ({create_macros(session.con, sql)}) TO {literal(str(temporary))}"
                session.con.execute(f"{copy} ({options})").fetchall()
    return Path(target)


# Suffixes of other formats, which are not written.
_OTHERS = (
    *(".jsonl", ".ndjson", ".xlsx", ".xls", ".arrow", ".feather", ".avro", ".orc"),
    *(".duckdb", ".db", ".sqlite"),
)


def _format(path: Path) -> tuple[str, str]:
    """The options of COPY, and the suffix without that of the compression."""
    zipped = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    suffix = Path(path.stem if zipped else path.name).suffix.lower()
    if suffix in _OTHERS:
        raise RankqlError(
            f"{str(path)!r}: cannot write {suffix}. Use .parquet, .csv, TREC, or "
            ".tsv or .json of BEIR"
        )
    options = (_TABLES | _BEIR).get(suffix, f"{_TREC}, DELIMITER ' '")
    if zipped and suffix == ".parquet":
        raise RankqlError(
            f"{str(path)!r}: a Parquet file is compressed already. Leave out {path.suffix}"
        )
    return options + (f", COMPRESSION {zipped}" if zipped else ""), suffix


def _read(
    table: Table,
    columns: Mapping[str, str | None],
    system: str | None,
    descending: bool | None,
) -> Table:
    """The table with its roles."""
    if system is not None:
        require_column(table, system, "system")
    table = assign_roles(table, columns, ["query", "item"])
    if "score" in table.roles:
        table = replace(table, ascending=lowest_is_best(table, descending))
    if not table.roles.keys() & {"rel", "score", "pos"}:
        assign_roles(table, columns, ["score"])
    if system is not None:
        table.roles["system"] = table.actual_name(system)
    return table


def _select_roles(table: Table, columns: Mapping[str, str | None], path: Path) -> Table:
    """The roles of a run or of judgments, because a file of TREC or BEIR cannot hold both."""
    roles, ranking = dict(table.roles), {"score", "pos"}
    named = {role for role, name in columns.items() if name is not None}
    if "rel" in roles and roles.keys() & ranking:
        is_run, is_qrels = bool(named & ranking), "rel" in named
        if is_run == is_qrels:
            is_run, is_qrels = ".run" in path.suffixes, ".qrel" in path.name.lower()
        if is_run == is_qrels:
            raise RankqlError(
                "source has both grades and a ranking, but a file of TREC or BEIR has one of them. "
                "Pass rel= for judgments, score= or pos= for a run"
            )
        for role in {"rel"} if is_run else ranking:
            roles.pop(role, None)
    for role, other in (("pos", "score"), ("score", "pos")):
        if other in named and role not in named:
            roles.pop(role, None)
    return replace(table, roles=roles)


def _refuse(session: Session, table: Table, where: str, what: str) -> None:
    """Refuse ids that cannot be written."""
    for role in ("system", "query", "item"):
        if role in table.roles:
            ids = f"(SELECT {table.key(role, as_text=True)} AS id FROM {table.sql})"
            sql = f"SELECT count(*), min(id) FROM {ids} WHERE {where}"
            ((count, example),) = session.con.execute(sql).fetchall()
            if count:
                example_text = "" if example is None else f", {example!r}"
                rows = format_count(count, "row")
                column = f"{table.label}: {table.roles[role]}"
                raise RankqlError(f"{column} {what} ({rows}{example_text}). Correct these first")


def _refuse_rows(session: Session, table: Table) -> None:
    """Refuse judgments without any grade, and an item that is written twice for a query."""
    keys = ", ".join(table.key(r) for r in ("query", "item", "system") if r in table.roles)
    number = next(role for role in ("rel", "pos", "score") if role in table.roles)
    value = table.read(number)
    sql = f"SELECT count(*), count({value}) FROM {table.sql}"
    ((rows, numbers),) = fetch(session, sql)
    if number == "rel" and rows and not numbers:
        raise RankqlError(
            f"{table.label} has no grades: {table.roles['rel']} is NULL in every row. "
            "Pass the column with the grades: rel="
        )
    repeated = f"SELECT {keys} FROM {table.sql} WHERE {value} IS NOT NULL GROUP BY ALL"
    for query, item, *_ in fetch(session, f"{repeated} HAVING count(*) > 1 ORDER BY ALL LIMIT 1"):
        raise RankqlError(
            f"{table.label} has duplicates: query {query!r}, item {item!r}. Keep one row of each"
        )


def _table(session: Session, table: Table) -> str:
    """The columns under their standard names, numbers as numbers."""
    fields = [f"{table.key(r)} AS {r}" for r in ("system", "query", "item") if r in table.roles]
    for role in ("pos", "score", "rel"):
        if role in table.roles:
            fields.append(f"CAST({table.read(role)} AS {_type(session, table, role)}) AS {role}")
    return f"SELECT {', '.join(fields)} FROM {table.sql}"


def _type(session: Session, table: Table, role: str) -> str:
    """BIGINT for positions, and for grades that are all whole numbers."""
    if role == "rel":
        fractions = f"{table.read(role)} AS rel FROM {table.sql}) WHERE rel <> floor(rel)"
        sql = f"SELECT count(*) FROM (SELECT {fractions} OR abs(rel) >= 1e15"
        ((count,),) = fetch(session, sql)
        return "DOUBLE" if count else "BIGINT"
    return "BIGINT" if role == "pos" else table.score_type


def _beir(session: Session, table: Table, suffix: str) -> str:
    """The rows of a TSV file, or the one object of a JSON file."""
    if "rel" in table.roles:
        kind = _type(session, table, "rel")
        if kind != "BIGINT" and suffix == ".tsv":
            raise RankqlError(
                f"{table.label}: {table.roles['rel']} has fractions, but grades of BEIR are whole "
                "numbers. Write .json, .parquet or .csv"
            )
        keys = f"{table.key('query')} AS query, {table.key('item')} AS item"
        values = f"SELECT {keys}, CAST({table.read('rel')} AS {kind}) AS score FROM {table.sql}"
    else:
        values = f"SELECT query, item, score FROM ({_ranking(session, table, 'NULL')})"
    rows = f"(FROM ({values}) WHERE score IS NOT NULL)"
    if suffix == ".tsv":
        names = 'query AS "query-id", item AS "corpus-id", score'
        return f"SELECT {names} FROM {rows} ORDER BY query, score DESC, item"
    pair = "{{'key': CAST({} AS VARCHAR), 'value': {}}}".format
    items = f"map_from_entries(list({pair('item', 'score')} ORDER BY score DESC, item))"
    queries = f"SELECT query, {items} AS items FROM {rows} GROUP BY query"
    queries = f"SELECT list({pair('query', 'items')} ORDER BY query) AS queries FROM ({queries})"
    json = "CAST(to_json(map_from_entries(queries)) AS VARCHAR)"
    return f"SELECT coalesce({json}, '{{}}') FROM ({queries})"


def _trec(session: Session, table: Table, tag: str) -> str:
    """The lines of a TREC file, one column for each of its fields."""
    blank = f"id = '' OR regexp_matches(id, {literal(_WHITE)})"
    _refuse(
        session,
        table,
        blank,
        "is empty or has white space, which separates TREC fields",
    )
    if "rel" in table.roles:
        keys = ", ".join(f"{table.key(role)} AS {role}" for role in ("query", "item"))
        rel = table.read("rel")
        integer = "rel = floor(rel) AND abs(rel) < 1e15"
        return f"""
            SELECT query, '0', item, CASE WHEN {integer} THEN CAST(CAST(rel AS BIGINT) AS VARCHAR)
                                            ELSE CAST(rel AS VARCHAR) END
            FROM (SELECT {keys}, {rel} AS rel FROM {table.sql}) WHERE rel IS NOT NULL
            ORDER BY query, item"""
    if not tag or tag.split() != [tag]:
        raise RankqlError(f"tag must be one word, not {tag!r}")
    system = table.key("system", as_text=True) if "system" in table.roles else literal(tag)
    return f"""
        SELECT query, 'Q0', item, rank, score, system FROM ({_ranking(session, table, system)})
        ORDER BY system, query, rank"""


def _ranking(session: Session, table: Table, system: str) -> str:
    """The query, item, system, rank and score of the rows of a run that are ranked."""
    keys = ", ".join(f"{table.key(role)} AS {role}" for role in ("query", "item"))
    numbers = [role for role in ("pos", "score") if role in table.roles]
    fields = ", ".join([keys, *(f"{table.read(role)} AS {role}" for role in numbers)])
    source = f"(SELECT {fields}, {system} AS system FROM {table.sql})"
    source = f"(SELECT * FROM {source} WHERE {numbers[0]} IS NOT NULL)"
    order = f"ORDER BY score DESC, {BY_ITEM}"
    score = "score"
    if "pos" in table.roles:
        score = _scores(session, table, source, order)
        order = "ORDER BY pos"
    return f"""
            SELECT query, item, system, row_number() OVER ranking AS rank, {score} AS score
            FROM {source} WINDOW ranking AS (PARTITION BY system, query {order})"""


def _scores(session: Session, table: Table, source: str, order: str) -> str:
    """The scores of a ranking with positions, which must agree with these."""
    gap = f"""SELECT query, count(*), max(pos) FROM {source} GROUP BY system, query
              HAVING count(*) <> max(pos) OR count(*) <> count(DISTINCT pos)
              ORDER BY query LIMIT 1"""
    for query, count, last in fetch(session, gap):
        raise RankqlError(
            f"source: positions of query {query!r} have gaps or repeat ({count} rows, the last at "
            f"{last:g}), but ranks in the file go up from 1. Number them again"
        )
    if "score" not in table.roles:
        return "count(*) OVER (PARTITION BY system, query) + 1 - CAST(pos AS BIGINT)"
    places = f"row_number() OVER (PARTITION BY system, query {order}) AS place"
    moved = f"""SELECT query, item FROM (SELECT *, {places} FROM {source})
                WHERE place <> pos OR score IS NULL ORDER BY query, pos LIMIT 1"""
    for query, item in fetch(session, moved):
        names = table.roles
        raise RankqlError(
            f"source: {names['score']} and {names['pos']} order query {query!r} differently (item "
            f"{item!r}). Choose one: score= or pos="
        )
    return "score"
