"""Convert runs and judgments between TREC files and tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import duckdb

from rankql.core.base.errors import RankqlError, require
from rankql.core.base.text import format_count
from rankql.core.base.writing import name_columns, output_path, write_file
from rankql.core.evaluation.query.ties import score_order
from rankql.core.metrics.macros import literal
from rankql.core.tables.candidates import assign_roles
from rankql.core.tables.numbers.judgments import assume_grades
from rankql.core.tables.numbers.order import lowest_is_best
from rankql.core.tables.numbers.values import refuse_rounded_scores
from rankql.core.tables.private import create_macros
from rankql.core.tables.reader import fetch
from rankql.core.tables.request import Columns, RankingRules
from rankql.core.tables.session import duckdb_errors, open_session
from rankql.core.tables.tables import Data, Table, refuse_repeated, require_column
from rankql.shapes.choose.computed import resolve_columns

_TABLES = {".parquet": "FORMAT parquet", ".csv": "FORMAT csv, HEADER true"}
# Nothing is quoted in a TREC file.
_TREC = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER ' '"
# White space, by which readers of TREC files may split, beyond ASCII too.
_WHITE = r"[\s\v\x1c-\x1f\x{85}\pZ]"
_IDS = ("system", "query", "item")
# Suffixes of other formats, which are not written.
_OTHERS = (
    *(".json", ".jsonl", ".ndjson", ".tsv", ".xlsx", ".xls", ".arrow", ".feather", ".avro", ".orc"),
    *(".duckdb", ".db", ".sqlite"),
)


def convert(
    source: Data,
    target: str | os.PathLike[str],
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    tag: str = "rankql",
    **columns: Unpack[Columns],
) -> Path:
    """Write a run or judgments to a file: Parquet or CSV by its suffix, else TREC.

    Tables get the columns query, item and rel, score or pos, and `system` if you name that column.
    In a TREC run, ranks follow the score, then the item in descending order. Rows without a score
    or position are left out. If there are only positions, scores count down to 1. If the target is
    called `.qrel` or `.qrels`, or with rel='rel', numbers in dicts and JSON are grades, and items
    without grades get 1. If the lowest score is best (a column named distance, or
    descending=False), -score is written, because the highest is best in TREC. The file appears
    complete or not at all.

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
    if (names := columns.pop("columns", None)) is not None:
        source = name_columns(source, names)
    rules = RankingRules.of(columns, convert, Columns)
    roles, system = rules.columns, rules.system
    zipped = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    suffix = Path(path.stem if zipped else path.name).suffix.lower()
    if suffix in _OTHERS or (zipped and suffix == ".parquet"):
        kind = suffix + (path.suffix if zipped else "")
        raise RankqlError(f"{str(path)!r}: cannot write {kind}. Use .parquet, .csv or TREC")
    options = _TABLES.get(suffix, _TREC) + (f", COMPRESSION {zipped}" if zipped else "")
    judged = roles["rel"] in (None, "rel") and roles["score"] is None and roles["pos"] is None
    judged = judged and (roles["rel"] is not None or ".qrel" in path.name.lower())
    with open_session(con, source) as session:
        table = session.table(source, "qrels" if judged else "source")
        (roles, _), ((table,), *_) = resolve_columns(
            session, roles, [[replace(table, label="source")]], attributes=[system]
        )
        if judged:
            table, roles = assume_grades(table, roles)
            assign_roles(table, roles, ["rel"])
        if system is not None:
            require_column(table, system, "system")
        table = assign_roles(table, roles, ["query", "item"])
        if not table.roles.keys() & {"rel", "score", "pos"}:
            assign_roles(table, roles, ["score"])
        if "score" in table.roles:
            table = replace(table, ascending=lowest_is_best(table, rules.descending))
        if system is not None:
            table.roles["system"] = table.actual_name(system)
        refuse_repeated(table, [])
        refuse_rounded_scores(table)
        with duckdb_errors():
            _refuse(table, "id IS NULL", "is NULL")
            if suffix in _TABLES:
                sql = _table(table)
            else:
                sql = _trec(_select_roles(table, roles, path), tag)
            with write_file(path) as temporary:
                copy = f"COPY ({create_macros(session.con, sql)}) TO {literal(str(temporary))}"
                session.rows(f"{copy} ({options})")
    return Path(target)


def _select_roles(table: Table, columns: Mapping[str, str | None], path: Path) -> Table:
    """The roles of a run or of judgments, because a TREC file cannot hold both."""
    roles, ranking = dict(table.roles), {"score", "pos"}
    named = {role for role, name in columns.items() if name is not None}
    if "rel" in roles and roles.keys() & ranking:
        is_run, is_qrels = bool(named & ranking), "rel" in named
        if is_run == is_qrels:
            is_run, is_qrels = ".run" in path.suffixes, ".qrel" in path.name.lower()
        if is_run == is_qrels:
            raise RankqlError(
                "source has both grades and a ranking, but a TREC file has one of them. Pass rel= "
                "for judgments, score= or pos= for a run"
            )
        for role in {"rel"} if is_run else ranking:
            roles.pop(role, None)
    for role, other in (("pos", "score"), ("score", "pos")):
        if other in named and role not in named:
            roles.pop(role, None)
    return replace(table, roles=roles)


def _refuse(table: Table, where: str, what: str, roles: Sequence[str] = _IDS) -> None:
    """Refuse ids that cannot be written."""
    for role in roles:
        if role in table.roles:
            ids = f"(SELECT {table.key(role, as_text=True)} AS id FROM {table.sql})"
            sql = f"SELECT count(*), min(id) FROM {ids} WHERE {where}"
            count, example = table.session.row(sql)
            if count:
                example_text = "" if example is None else f", {example!r}"
                rows = format_count(count, "row")
                column = f"{table.label}: {table.roles[role]}"
                raise RankqlError(f"{column} {what} ({rows}{example_text}). Correct these first")


def _refuse_rows(table: Table) -> None:
    """Refuse judgments without any grade, and an item that is written twice for a query."""
    keys = ", ".join(table.key(r) for r in ("query", "item", "system") if r in table.roles)
    number = next(role for role in ("rel", "pos", "score") if role in table.roles)
    value = table.read(number)
    sql = f"SELECT count(*), count({value}) FROM {table.sql}"
    ((rows, numbers),) = fetch(table.session, sql)
    if rows and not numbers:
        name = table.roles[number]
        raise RankqlError(f"{table.label}: {name} is NULL in every row. Name another: {number}=")
    repeated = f"SELECT {keys} FROM {table.sql} WHERE {value} IS NOT NULL"
    repeated += " GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL"
    for query, item, *_ in fetch(table.session, f"{repeated} LIMIT 1"):
        raise RankqlError(
            f"{table.label} has duplicates: query {query!r}, item {item!r}. Keep one row of each"
        )


def _table(table: Table) -> str:
    """The columns under their standard names, numbers as numbers."""
    fields = [f"{table.key(r)} AS {r}" for r in _IDS if r in table.roles]
    for role in ("pos", "score", "rel"):
        if role in table.roles:
            kind = "BIGINT" if role == "pos" else "DOUBLE"
            if role == "rel":  # BIGINT if all grades are whole numbers
                rel = f"SELECT {table.read(role)} AS rel FROM {table.sql}"
                sql = f"SELECT count(*) FROM ({rel}) WHERE rel <> floor(rel) OR abs(rel) >= 1e15"
                kind = "DOUBLE" if fetch(table.session, sql)[0][0] else "BIGINT"
            fields.append(f"CAST({table.read(role)} AS {kind}) AS {role}")
    return f"SELECT {', '.join(fields)} FROM {table.sql}"


def _trec(table: Table, tag: str) -> str:
    """The lines of a TREC file, one column for each of its fields."""
    _refuse_rows(table)
    blank = f"id = '' OR regexp_matches(id, {literal(_WHITE)})"
    _refuse(table, blank, "is empty or has white space, which separates TREC fields")
    comment = "begins with #, as a comment of a TREC file does"
    _refuse(table, "id[1] = '#'", comment, ["query"])
    keys = ", ".join(f"{table.key(role)} AS {role}" for role in ("query", "item"))
    if "rel" in table.roles:
        rel = table.read("rel")
        integer = "rel = floor(rel) AND abs(rel) < 1e15"
        return f"""
            SELECT query, '0', item, CASE WHEN {integer} THEN CAST(CAST(rel AS BIGINT) AS VARCHAR)
                                            ELSE CAST(rel AS VARCHAR) END
            FROM (SELECT {keys}, {rel} AS rel FROM {table.sql}) WHERE rel IS NOT NULL
            ORDER BY query, item"""
    require(bool(tag) and tag.split() == [tag], f"tag must be one word, not {tag!r}")
    system = table.key("system", as_text=True) if "system" in table.roles else literal(tag)
    numbers = [role for role in ("pos", "score") if role in table.roles]
    fields = ", ".join([keys, *(f"{table.read(role)} AS {role}" for role in numbers)])
    source = f"(SELECT {fields}, {system} AS system FROM {table.sql})"
    source = f"(SELECT * FROM {source} WHERE {numbers[0]} IS NOT NULL)"
    order, score = f"ORDER BY {score_order('item')}", "score"
    if "pos" in table.roles:
        score = _scores(table, source, order)
        order = "ORDER BY pos"
    return f"""
        SELECT query, 'Q0', item, row_number() OVER ranking AS rank, {score}, system
        FROM {source} WINDOW ranking AS (PARTITION BY system, query {order})
        ORDER BY system, query, rank"""


def _scores(table: Table, source: str, order: str) -> str:
    """The scores of a ranking with positions, which must be the ranks in the file."""
    scored = "score" in table.roles
    ranks = f"PARTITION BY system, query {order if scored else 'ORDER BY pos'}"
    wrong = f"place <> pos{' OR score IS NULL' if scored else ''}"
    sql = f"""SELECT query, item, pos, place
              FROM (SELECT *, row_number() OVER ({ranks}) AS place FROM {source})
              WHERE {wrong} ORDER BY query, pos LIMIT 1"""
    for query, item, pos, place in fetch(table.session, sql):
        raise RankqlError(
            f"source: {table.roles['pos']} is {pos:g} for query {query!r}, item {item!r}, whose "
            f"rank in the file would be {place}. Number positions from 1 without gaps, or choose "
            "one of pos= and score="
        )
    down = "count(*) OVER (PARTITION BY system, query) + 1 - CAST(pos AS BIGINT)"
    return "score" if scored else down
