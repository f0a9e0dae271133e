"""What evaluations have in common: the query run, and refused what cannot be evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb

from rankql import macros, packed
from rankql.conventions import Conventions
from rankql.errors import RankqlError
from rankql.inputs import Inputs
from rankql.macros import quoted
from rankql.names import Metric
from rankql.query import DUPLICATES, JUDGED, NO_SCORE, Query, with_sources
from rankql.result import Result
from rankql.tables import ROLES, Session, Table


def outcome(
    here: Session,
    given: Inputs,
    built: Query,
    chosen: Conventions,
    groups: Sequence[Sequence[str]] = (),
    interval: str | None = None,
    confidence: float = 0.95,
) -> Result:
    """The result of a query that is yet to run."""
    return Result(
        meta={
            "query": given.query,
            "system": given.many,
            "by": list(given.by),
            "groupings": list(groups),
            "metrics": built.metrics,
            "weights": built.weights,
            "conventions": chosen.as_dict(),
        },
        sql=script(here, built.sql),
        columns={table.label: table.roles for table in given.tables},
        interval=interval,
        confidence=confidence,
    )


def script(here: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*here.loaded.values(), sql])


def prepared(here: Session, sql: str, checked: bool = False) -> str:
    """The SQL with its macros made known to the connection."""
    create, query = macros.called(sql, checked)
    if create:
        here.con.execute(create).fetchall()
    return query


def execute(here: Session, sql: str, checked: bool = False) -> duckdb.DuckDBPyRelation:
    """The rows of a query that may call our macros."""
    return here.con.sql(prepared(here, sql, checked))


def complete(
    here: Session, given: Inputs, wanted: Sequence[Metric], chosen: Conventions
) -> tuple[Conventions, list[Metric]]:
    """The conventions with the scale of the grades, where a metric needs its end; the metrics
    under their names within the conventions."""
    if not given.scored:
        chosen = replace(chosen, ties="item")  # positions are never tied
    scales = [m.options.get("max_rel", chosen.max_rel) for m in wanted if m.scaled]
    exponential = any(m.measure and m.gain(vars(chosen)) == "exp2" for m in wanted)
    limits = [1000, *(end for end in scales if end is not None)]
    if None in scales or (
        (scales or exponential) and _any_grade(here, given, f"{{rel}} > {min(limits)}")
    ):
        highest = _highest(here, given, chosen)
        if highest > 1000:
            raise RankqlError(f"2^rel of grade {highest:g} is beyond all numbers; scale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            chosen = replace(chosen, max_rel=highest or 1.0)
    if chosen.unjudged == "bounds" and chosen.levels is None:
        chosen = replace(chosen, levels=_grades(here, given, chosen))
    return chosen, list({m.name: m for m in (m.under(vars(chosen)) for m in wanted)}.values())


def _highest(here: Session, given: Inputs, chosen: Conventions) -> float:
    """The highest grade, from 0."""
    sql = f"{with_sources(given, chosen)}SELECT greatest(max(rel), 0) FROM {given.graded}"
    with reporting(here, given, chosen):
        return float(execute(here, sql).fetchall()[0][0])


def _grades(here: Session, given: Inputs, chosen: Conventions) -> tuple[float, ...]:
    """The grades that occur, from 0."""
    sql = f"{with_sources(given, chosen)}SELECT DISTINCT rel FROM {given.graded} WHERE rel > 0"
    with reporting(here, given, chosen):
        return (0.0, *sorted(rel for (rel,) in execute(here, sql).fetchall()))


def scale(here: Session, given: Inputs) -> int:
    """The end of the scale, if all grades are whole numbers from 0 to a few; else 0."""
    fraction = "" if all(t.integer("rel") for t in given.judging) else " OR {rel} <> floor({rel})"
    for end in packed.SCALES:
        if not _any_grade(here, given, f"{{rel}} < 0 OR {{rel}} > {end}{fraction}"):
            return end
    return 0


def _any_grade(here: Session, given: Inputs, condition: str) -> bool:
    """Is there a grade of which the condition on {rel} holds?"""
    # Of a column as it is: what its statistics rule out DuckDB does not read.
    return any(
        here.con.sql(
            f"SELECT 1 FROM {table.sql} "
            f"WHERE {condition.format(rel=table.integer('rel') or table.number('rel'))} LIMIT 1"
        ).fetchall()
        for table in given.judging
    )


def sound(here: Session, given: Inputs, roles: Sequence[str] = ("rel", "pos", "score")) -> None:
    """Refuse tables that hold what cannot be evaluated in the columns of these roles."""
    with reporting():
        for table in given.tables:
            if "rel" in roles:
                complete_ids(table.label, *present(here, given, table))
            numbers(here, table, roles)


def inspect(here: Session, given: Inputs, chosen: Conventions, built: Query) -> list[str]:
    """Refuse what cannot be evaluated; return what is worth knowing of queries on one side only."""
    alike(asking(here, given, chosen), given)
    found = [] if given.qrels is None else _one_sided(here, given, chosen)
    once(here, given, chosen, built.once)
    return found


# The rows that SQL on the sources finds, in whatever database they are.
Ask: TypeAlias = Callable[[str], Sequence[Sequence[Any]]]


def asking(here: Session, given: Inputs, chosen: Conventions) -> Ask:
    """What asks the sources in DuckDB."""
    return lambda sql: execute(here, with_sources(given, chosen) + sql).fetchall()


def alike(ask: Ask, given: Inputs) -> None:
    """Refuse attributes that are not those of the query."""
    for home in ("attributes", "qrels", "run"):
        for name in given.homed(home):
            column = quoted(name)
            sql = f"""SELECT query, min({column}), max({column}) FROM {home} GROUP BY query
                HAVING min({column}) <> max({column}) ORDER BY query LIMIT 1"""
            for key, *ends in ask(sql):
                # Of truth values some databases have numbers.
                low, high = map(bool, ends) if "BOOLEAN" in given.kinds(name) else ends
                raise RankqlError(
                    f"by: {name} must have one value per query, but {home} has "
                    f"{low!r} and {high!r} for query {key!r}"
                )


def once(
    here: Session, given: Inputs, chosen: Conventions, columns: Sequence[tuple[str, str, str]]
) -> None:
    """Refuse what stands twice within a query: in which table, which column, of which rows."""
    ask = asking(here, given, chosen)
    for source, column, where in columns:
        # By their hashes, which are quicker to compare than ids.
        key = given.keys if source == "run" else "query"
        hashes = f"SELECT hash({key}, {column}) AS h FROM {source} {where}"
        again = ask(f"SELECT h FROM ({hashes}) GROUP BY h HAVING count(*) > 1 LIMIT 1")
        if again and (twice := duplicates(ask, given, source, column, where)):
            raise RankqlError(twice)


def _one_sided(here: Session, given: Inputs, chosen: Conventions) -> list[str]:
    """Which queries of the run are not judged; refuse a run of which none is."""
    found = []
    for system, shown, both, unjudged in sides(here, given, chosen):
        if not both:
            judgments = judged(here, given, chosen)
            raise RankqlError(none_judged(named(system), unjudged, judgments))
        if shown > both:
            found.append(left_out(system, shown, both, unjudged))
    return found


Side: TypeAlias = tuple[str | None, int, int, Sequence[object] | None]


def sides(here: Session, given: Inputs, chosen: Conventions) -> list[Side]:
    """By system: the queries of the run, those of them that are judged, and some that are not."""
    system = "system" if given.many else "NULL"
    sql = f"""{with_sources(given, chosen)}
        SELECT {system}, count(*), count(judged), min(query, 3) FILTER (WHERE judged IS NULL)
        FROM (SELECT DISTINCT {given.keys} FROM run)
        LEFT JOIN (SELECT DISTINCT query, true AS judged FROM qrels) USING (query)
        GROUP BY ALL ORDER BY 1"""
    return execute(here, sql).fetchall()


def named(system: str | None) -> str:
    """A run, as an error or a note speaks of it."""
    return "the run" if system is None else f"run {system!r}"


def left_out(system: str | None, shown: int, both: int, unjudged: Sequence[object] | None) -> str:
    """The note on queries that are not judged."""
    return (
        f"{shown - both} of {shown} queries of {named(system)} are not judged and left out "
        f"({examples(unjudged)}{', ...' if shown - both > 3 else ''})"
    )


def judged(here: Session, given: Inputs, chosen: Conventions) -> Sequence[object] | None:
    """Some queries that are judged."""
    sql = f"{with_sources(given, chosen)}SELECT min(DISTINCT query, 3) FROM qrels"
    found: Sequence[object] | None = execute(here, sql).fetchall()[0][0]
    return found


def none_judged(run: str, theirs: Sequence[object] | None, ours: Sequence[object] | None) -> str:
    """The error of a run that has nothing to do with the judgments."""
    if not ours:
        return "qrels has no grades: there is nothing to judge the run by"
    return f"no query of {run} is judged: it has {examples(theirs)}, qrels has {examples(ours)}"


def present(here: Session, given: Inputs, table: Table) -> tuple[int, dict[str, int]]:
    """How many rows a table has, and in how many there is an id, by the name of its column."""
    names = given.ids(table)
    counts = ", ".join(f"count({quoted(name)})" for name in names)
    total, *found = here.con.sql(f"SELECT count(*), {counts} FROM {table.sql}").fetchall()[0]
    return total, dict(zip(names, found, strict=True))


def complete_ids(label: str, total: int, found: Mapping[str, int]) -> None:
    """Refuse a table that is empty, or in which ids are NULL."""
    if not total:
        raise RankqlError(f"{label} is empty: it has no rows")
    for name, count in found.items():
        if count < total:
            raise RankqlError(
                f"{label}: {name} is NULL in {total - count} of {total} rows; leave them out"
            )


def numbers(here: Session, table: Table, roles: Sequence[str]) -> None:
    """Refuse what is no number where one belongs."""
    bad = {}
    for role in roles:
        if role in table.roles and table.integer(role) is None:
            name, value = quoted(table.roles[role]), table.number(role)
            bad[role] = f"{name} IS NOT NULL AND NOT coalesce(rankql_is_{role}({value}), false)"
    if bad:
        # No WHERE: DuckDB 2.0 would answer it from the statistics of a file, without its NaN.
        counts = ", ".join(f"count(*) FILTER (WHERE {wrong})" for wrong in bad.values())
        (found,) = execute(here, f"SELECT {counts} FROM {table.sql}").fetchall()
        bad = {role: wrong for (role, wrong), n in zip(bad.items(), found, strict=True) if n}
    for role, wrong in bad.items():
        sql = f"SELECT any_value({table.read(role)}) FILTER (WHERE {wrong}) FROM {table.sql}"
        execute(here, sql).fetchall()
    if "pos" in roles and (pos := table.integer("pos")):
        wrong = f"WHERE {pos} < 1 OR {pos} > 9007199254740992 LIMIT 1"
        if here.con.sql(f"SELECT 1 FROM {table.sql} {wrong}").fetchall():
            execute(here, f"SELECT {table.read('pos')} FROM {table.sql} {wrong}").fetchall()


def examples(values: Sequence[object] | None) -> str:
    """A few values, as an error shows them."""
    return ", ".join(map(repr, values or []))


@contextmanager
def reporting(
    here: Session | None = None, given: Inputs | None = None, chosen: Conventions | None = None
) -> Iterator[None]:
    """Errors of DuckDB in the words of rankql; where all is given, with the duplicates named."""
    try:
        yield
    except duckdb.Error as error:
        line = re.sub(r"^[\w ]+ Error: ", "", str(error).splitlines()[0])
        if here and given and NO_SCORE in line:
            sound(here, given, ("score",))
        if here and given and chosen and DUPLICATES in line:
            line = repeated(asking(here, given, chosen), given)
        raise RankqlError(line) from error
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def repeated(ask: Ask, given: Inputs) -> str:
    """The line that names three of what is there more than once of what is judged."""
    judged = "WHERE rel IS NOT NULL" if given.qrels is None else JUDGED
    found = duplicates(ask, given, "run", "item", judged) if given.every("item") else None
    if not found and not given.scored:
        found = duplicates(ask, given, "run", "pos", "WHERE pos IS NOT NULL")
    return found or DUPLICATES


def duplicates(ask: Ask, given: Inputs, source: str, column: str, where: str = "") -> str | None:
    """Three rows that are there more than once, as an error says it."""
    columns = f"{given.keys if source == 'run' else 'query'}, {column}"
    found = ask(
        f"""SELECT {columns} FROM {source} {where} GROUP BY {columns} HAVING count(*) > 1
        ORDER BY {columns} LIMIT 3"""
    )
    if not found:
        return None
    shown = "; ".join(
        ", ".join(
            f"{name} {value:g}" if name == "pos" else f"{name} {value!r}"
            for name, value in zip(columns.split(", "), row, strict=True)
        )
        for row in found
    )
    hint = ""
    if source == "run" and not given.many:
        hint = ", or name the column that tells systems apart: system="
        (table,) = given.runs.values()
        keys = [name for name in table.columns if name.lower() in ROLES["query"]]
        for key in [name for name in keys if name != table.roles["query"]][:1]:
            hint += f", or queries: query={key!r}"
    return f"{source} has duplicates: {shown}; keep one row of each{hint}"
