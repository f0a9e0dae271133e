"""What evaluations have in common: the query run, and refused what cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb

from rankql import macros
from rankql.errors import RankqlError
from rankql.evaluation import packed
from rankql.evaluation.query import DUPLICATES, JUDGED, NO_SCORE, SHARED, Query, with_source_ctes
from rankql.evaluation.result import Result
from rankql.macros import literal, quoted
from rankql.registry.conventions import Conventions
from rankql.registry.parse import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.tables import Session, Table, reword_error


def pending_result(
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
        sql=render_script(here, built.sql),
        columns={table.label: table.assumed for table in given.tables},
        interval=interval,
        confidence=confidence,
    )


def render_script(here: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*here.loaded.values(), sql])


def prepare(here: Session, sql: str, checked: bool = False) -> str:
    """The SQL with its macros made known to the connection."""
    create, query = macros.called(sql, checked)
    if create:
        here.con.execute(create).fetchall()
    return query


def execute(here: Session, sql: str, checked: bool = False) -> duckdb.DuckDBPyRelation:
    """The rows of a query that may call our macros."""
    return here.con.sql(prepare(here, sql, checked))


def resolve_conventions(
    here: Session, given: Inputs, wanted: Sequence[Metric], chosen: Conventions
) -> tuple[Conventions, list[Metric]]:
    """The conventions with the scale of the grades, where a metric needs its end; the metrics
    under their names within the conventions."""
    for metric in wanted:
        if metric.measure is None:
            _require_expression(metric)
    if not given.scored:
        chosen = replace(chosen, ties="item")  # positions are never tied
    scales = [m.options.get("max_rel", chosen.max_rel) for m in wanted if m.scaled]
    exponential = any(m.measure and m.gain(vars(chosen)) == "exp2" for m in wanted)
    limits = [end for end in scales if end is not None] + ([1000] if exponential else [])
    if None in scales or (limits and _any_grade(here, given, f"{{rel}} > {min(limits)}")):
        highest = _highest(here, given, chosen)
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel of grade {highest:g} is beyond all numbers; scale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            chosen = replace(chosen, max_rel=highest or 1.0)
    if chosen.unjudged == "bounds" and chosen.levels is None:
        chosen = replace(chosen, levels=_grades(here, given, chosen))
    return chosen, list({m.name: m for m in (m.under(vars(chosen)) for m in wanted)}.values())


def _require_expression(metric: Metric) -> None:
    """Refuse an expression of the user's that is not one expression in DuckDB's SQL."""
    try:
        parsed = duckdb.extract_statements(f"SELECT (\n{metric.expression}\n)")
    except duckdb.Error as error:
        raise RankqlError(
            f"Cannot parse the metric {metric.label!r} = {metric.expression!r}: {reword_error(error)}"
        ) from error
    if len(parsed) != 1:
        raise RankqlError(
            f"The metric {metric.label!r} must be one SQL expression, not {metric.expression!r}"
        )


def _highest(here: Session, given: Inputs, chosen: Conventions) -> float:
    """The highest grade, from 0."""
    sql = f"{with_source_ctes(given, chosen)}SELECT greatest(max(rel), 0) FROM {given.graded}"
    with duckdb_errors(here, given, chosen):
        return float(execute(here, sql).fetchall()[0][0])


def _grades(here: Session, given: Inputs, chosen: Conventions) -> tuple[float, ...]:
    """The grades that occur, from 0."""
    sql = f"{with_source_ctes(given, chosen)}SELECT DISTINCT rel FROM {given.graded} WHERE rel > 0"
    with duckdb_errors(here, given, chosen):
        return (0.0, *sorted(rel for (rel,) in execute(here, sql).fetchall()))


def find_grade_scale(here: Session, given: Inputs) -> int:
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


def validate_columns(here: Session, given: Inputs, roles: Sequence[str] = ("rel", "pos", "score")) -> None:
    """Refuse tables that hold what cannot be evaluated in the columns of these roles."""
    with duckdb_errors(here):
        for table in given.tables:
            if "rel" in roles:
                require_ids(table.label, *count_ids(here, given, table))
                _refuse_pandas_nan(table)
            validate_numbers(here, table, roles)


def _refuse_pandas_nan(table: Table) -> None:
    """Refuse NaN of pandas, which DuckDB reads as NULL, wherever it refuses NaN of other frames."""
    for role, problem in PANDAS_NAN.items():
        if role == "score" and "pos" in table.roles:
            continue
        if table.nans(role):
            name = table.roles[role]
            remedy = f". If NaN means NULL, pass .astype({{{name!r}: 'Float64'}})"
            raise RankqlError(f"{table.label}: {name} {problem}{'' if role == 'score' else remedy}")


def validate_inputs(
    here: Session, given: Inputs, chosen: Conventions, built: Query, one: bool = False
) -> list[str]:
    """Refuse what cannot be evaluated; return notes on queries and items on one side only.

    one: there is but one query, which may well have no judged item in the run.
    """
    ask = sql_runner(here, given, chosen)
    require_one_value_per_query(ask, given)
    found = [] if one else require_ranked_rows(ask, given)
    if given.qrels is not None:
        found += _one_sided(here, given, chosen)
        if not one:
            found += require_common_items(ask, given)
        require_consistent_grades(ask)
    require_unique(here, given, chosen, built.once)
    if chosen.profile.split(",")[0] == "ranx" and chosen.ties == "order" and given.scored:
        found += _unstable_ties(here, given, chosen, built.last)
    return found


# ranx sorts up to this many items of a query stably (insertion sort), and more of them unstably.
RANX_STABLE = 15


def _unstable_ties(here: Session, given: Inputs, chosen: Conventions, k: int | None) -> list[str]:
    """A note on the rankings whose tied scores ranx itself leaves in no fixed order."""
    within = "" if k is None else f"AND better < {k}"
    ((tied, rankings),) = sql_runner(here, given, chosen)(f"""
        SELECT count(*) FILTER (WHERE items > {RANX_STABLE} AND tied), count(*) FROM (
            SELECT sum(n) AS items, bool_or(n > 1 {within}) AS tied FROM (
                SELECT {given.keys}, count(*) AS n,
                       sum(count(*)) OVER (PARTITION BY {given.keys} ORDER BY score DESC)
                           - count(*) AS better
                FROM run WHERE score IS NOT NULL GROUP BY {given.keys}, score)
            GROUP BY {given.keys})""")
    where = "" if k is None else f" in the first {k:,} positions"
    share = f"{tied:,} of {rankings:,} rankings"
    note = (
        f"{share} have equal scores{where} and more than {RANX_STABLE} items: ranx sorts these in "
        "no fixed order, so its own values may differ. Compare runs without equal scores"
    )
    return [note] if tied else []


# The rows that SQL on the sources finds, in whatever database they are.
RunSql: TypeAlias = Callable[[str], Sequence[Sequence[Any]]]


def sql_runner(here: Session, given: Inputs, chosen: Conventions) -> RunSql:
    """What asks the sources in DuckDB."""
    return lambda sql: execute(here, with_source_ctes(given, chosen) + sql).fetchall()


def require_one_value_per_query(ask: RunSql, given: Inputs) -> None:
    """Refuse attributes that are not those of the query."""
    for home in ("attributes", "qrels", "run"):
        for name in given.homed(home):
            column = given.attribute(name)
            sql = f"""SELECT query, min({column}), max({column}) FROM {home} GROUP BY query
                HAVING min({column}) <> max({column}) ORDER BY query LIMIT 1"""
            for key, *ends in ask(sql):
                # Of truth values some databases have numbers.
                low, high = map(bool, ends) if "BOOLEAN" in given.kinds(name) else ends
                raise RankqlError(
                    f"by: {name} must have one value per query, but {home} has "
                    f"{low!r} and {high!r} for query {key!r}"
                )


# How many parts the hashes of all rows are looked at in, where the memory is too small for all.
PARTS = 32


def require_unique(
    here: Session, given: Inputs, chosen: Conventions, columns: Sequence[tuple[str, str, str]]
) -> None:
    """Refuse what stands twice within a query: in which table, which column, of which rows."""
    ask = sql_runner(here, given, chosen)
    for source, column, where in columns:
        # By their hashes, which are quicker to compare than ids.
        key = given.keys if source == "run" else "query"
        hashes = f"SELECT hash({key}, {column}) AS h FROM {source} {where}"
        try:
            again = ask(f"SELECT h FROM ({hashes}) GROUP BY h HAVING count(*) > 1 LIMIT 1")
        except duckdb.OutOfMemoryException:  # the hashes did not fit: some of them at a time
            again = next(filter(None, (
                ask(f"SELECT h FROM ({hashes}) WHERE h % {PARTS} = {part} "
                    "GROUP BY h HAVING count(*) > 1 LIMIT 1")
                for part in range(PARTS)
            )), [])  # fmt: skip
        if again and (twice := find_duplicates(ask, given, source, column, where)):
            raise RankqlError(twice)


def _one_sided(here: Session, given: Inputs, chosen: Conventions) -> list[str]:
    """Which queries of the run are not judged; refuse a run of which none is."""
    found = []
    for system, shown, both, unjudged in query_overlap(here, given, chosen):
        if not both:
            judgments = find_judged_queries(here, given, chosen)
            raise RankqlError(no_judged_query_message(run_label(system), unjudged, judgments))
        if shown > both:
            found.append(unjudged_queries_note(system, shown, both, unjudged))
    return found


# What is said of a value of pandas that is NaN, as the macros say it of other sources.
PANDAS_NAN = {
    "rel": "must be a finite number, not nan",
    "pos": "must be a whole number from 1, not nan",
    "score": "must be a number, not nan",
}

QueryOverlap: TypeAlias = tuple[str | None, int, int, Sequence[object] | None]


def query_overlap(here: Session, given: Inputs, chosen: Conventions) -> list[QueryOverlap]:
    """By system: the queries of the run, those of them that are judged, and some that are not."""
    system = "system" if given.many else "NULL"
    sql = f"""{with_source_ctes(given, chosen)}
        SELECT {system}, count(*), count(judged), min(query, 3) FILTER (WHERE judged IS NULL)
        FROM (SELECT DISTINCT {given.keys} FROM run)
        LEFT JOIN (SELECT DISTINCT query, true AS judged FROM qrels) USING (query)
        GROUP BY ALL ORDER BY 1"""
    return execute(here, sql).fetchall()


def run_label(system: str | None) -> str:
    """A run, as an error or a note speaks of it."""
    return "the run" if system is None else f"run {system!r}"


def unjudged_queries_note(system: str | None, shown: int, both: int, unjudged: Sequence[object] | None) -> str:
    """The note on queries that are not judged."""
    return (
        f"{shown - both} of {shown} queries of {run_label(system)} are not judged and left out "
        f"({format_examples(unjudged)}{', ...' if shown - both > 3 else ''})"
    )


def require_consistent_grades(ask: RunSql) -> None:
    """Refuse judgments of one item both above 0 and not; two above 0 are duplicates anyway."""
    if not ask("SELECT 1 FROM qrels WHERE rel <= 0 LIMIT 1"):
        return
    found = ask(
        """SELECT less.query, less.item, min(less.rel), max(more.rel)
        FROM qrels AS less JOIN qrels AS more ON less.query = more.query AND less.item = more.item
        WHERE less.rel <= 0 AND more.rel > 0
        GROUP BY less.query, less.item ORDER BY less.query, less.item LIMIT 3"""
    )
    if found:
        pairs = (f"query {q!r}, item {i!r}: {low:g} and {high:g}" for q, i, low, high in found)
        raise RankqlError(
            f"qrels has different grades for one item: {'; '.join(pairs)}. Keep one row of each"
        )


def require_ranked_rows(ask: RunSql, given: Inputs) -> list[str]:
    """Refuse a run without any position or score; note rows that have none."""
    counts = count_ranked_rows(ask, given)
    return [note for count in counts if (note := unranked_rows_note(given.scored, *count))]


def count_ranked_rows(ask: RunSql, given: Inputs) -> list[tuple[str | None, int, int]]:
    """Of each system how many rows there are, and how many of them have a position or score.

    In a table with grades and positions, NULL is how to say that an item was not retrieved.
    """
    if given.qrels is None and given.reference is None and not given.scored:
        return []
    system, place = "system" if given.many else "NULL", "score" if given.scored else "pos"
    group = "GROUP BY system ORDER BY system" if given.many else ""
    rows = ask(f"SELECT {system}, count(*), count({place}) FROM run {group}")
    return [(name, total, count) for name, total, count in rows]


def unranked_rows_note(scored: bool, system: str | None, total: int, count: int) -> str | None:
    """The note on rows without a position or score; an error where all are so."""
    if count == total:
        return None
    what = "score" if scored else "position"
    if not count:
        raise RankqlError(
            f"Every {what} of {run_label(system)} is NULL, so nothing is ranked. Pass the column that "
            f"holds the {what}s: {'score' if scored else 'pos'}="
        )
    return (
        f"{total - count:,} of {total:,} rows of {run_label(system)} have no {what} (NULL) and count "
        "as not retrieved"
    )


# Where the items of a run and of the judgments are compared: first in so many queries.
_SAMPLE = 1000
# A smaller share of items in common is worth a note.
FEW = 0.05

# Of a system: the items of the run and of the judgments, in the queries of both, and those in both.
ItemOverlap: TypeAlias = tuple[str | None, int, int, int]


def require_common_items(ask: RunSql, given: Inputs) -> list[str]:
    """Refuse a run of which no item is judged for its query; note a run of which few are."""
    counts = item_overlap(ask, given, _SAMPLE)
    systems = ask(f"SELECT count(DISTINCT {'system' if given.many else '1'}) FROM run")[0][0]
    if len(counts) < systems or any(is_small_overlap(*count) for count in counts):
        counts = item_overlap(ask, given)
    return [note for count in counts if (note := item_overlap_note(ask, given, count))]


def item_overlap(ask: RunSql, given: Inputs, queries: int | None = None) -> list[ItemOverlap]:
    """How many items are in the run and in the judgments, in all queries or in so many."""
    some = "SELECT query FROM qrels"
    if queries is not None:
        some = f"SELECT DISTINCT query FROM qrels ORDER BY query LIMIT {queries}"
    keys, system = given.keys, "system" if given.many else "NULL"
    group = f"GROUP BY {system} ORDER BY {system}" if given.many else ""
    in_run = ask(f"""SELECT {system}, count(*), count(judged)
        FROM (SELECT {keys}, item FROM run WHERE query IN ({some})) AS items
        LEFT JOIN (SELECT DISTINCT query, item, 1 AS judged FROM qrels) AS theirs
        USING (query, item) {group}""")
    in_qrels = ask(f"""SELECT {system}, count(*)
        FROM (SELECT query FROM qrels WHERE query IN ({some})) AS judged
        JOIN (SELECT DISTINCT {keys} FROM run) AS shown USING (query) {group}""")
    judged = {row[0]: row[1] for row in in_qrels}
    return [(name, shown, judged.get(name, 0), both) for name, shown, both in in_run if shown]


def is_small_overlap(system: str | None, shown: int, judged: int, both: int) -> bool:
    """Are few of the items in the run and in the judgments, or none?"""
    return both < FEW * min(shown, judged)


def item_overlap_note(ask: RunSql, given: Inputs, counts: ItemOverlap) -> str | None:
    """The note on a run and judgments with few items in common; an error where there are none."""
    system, *_, both = counts
    if not both:
        raise RankqlError(no_common_item_message(ask, given, system))
    return few_common_items_note(*counts) if is_small_overlap(*counts) else None


def few_common_items_note(system: str | None, shown: int, judged: int, both: int) -> str:
    """The note on a run and judgments with few items in common."""
    least, what, where = min(
        (judged, "judged items", f"in {run_label(system)}"),
        (shown, f"items of {run_label(system)}", "judged"),
    )
    verb = "is" if both == 1 else "are"
    return (
        f"Only {both:,} of {least:,} {what} {verb} {where}: check that run and qrels write item "
        "ids the same way"
    )


def find_example_items(
    ask: RunSql, system: str | None, other: str = "qrels"
) -> tuple[object, object, object]:
    """A query of both tables, the first item of the run for it, and that of the other table."""
    only = "" if system is None else f"AND system = {literal(system)}"
    first = f"SELECT min(query) FROM run WHERE query IN (SELECT query FROM {other}) {only}"
    ((query, ours),) = ask(f"SELECT min(query), min(item) FROM run WHERE query IN ({first}) {only}")
    ((theirs,),) = ask(f"SELECT min(item) FROM {other} WHERE query IN ({first})")
    return query, ours, theirs


def no_common_item_message(ask: RunSql, given: Inputs, system: str | None) -> str:
    """The error of a run and judgments, or a reference, without an item in common."""
    table = given.qrels or given.reference
    assert table
    query, ours, theirs = find_example_items(ask, system, table.label)
    run = given.runs.get(system) or next(iter(given.runs.values()))
    tables = {run.label: run, table.label: table}
    kinds = ""
    if given.as_text("item"):
        types = (f"{t.columns[t.roles['item']]} in {label}" for label, t in tables.items())
        kinds = f" (items are {' and '.join(types)})"
    others = [
        f"{label} also has {', '.join(known)}"
        for label, t in tables.items()
        if (known := [name for name in t.known("item") if name != t.roles["item"]])
    ]
    hint = f", or name other columns with item=: {'; '.join(others)}" if others else ""
    what = "judged" if given.qrels else "in the reference"
    return (
        f"No item of {run_label(system)} is {what} for its query: for query {query!r} the run has item "
        f"{ours!r}, {table.label} has {theirs!r}{kinds}. Write item ids the same way in both{hint}"
    )


def find_judged_queries(here: Session, given: Inputs, chosen: Conventions) -> Sequence[object] | None:
    """Some queries that are judged."""
    sql = f"{with_source_ctes(given, chosen)}SELECT min(DISTINCT query, 3) FROM qrels"
    found: Sequence[object] | None = execute(here, sql).fetchall()[0][0]
    return found


def no_judged_query_message(run: str, theirs: Sequence[object] | None, ours: Sequence[object] | None) -> str:
    """The error of a run that has nothing to do with the judgments."""
    if not ours:
        return "qrels has no grades: there is nothing to judge the run by"
    return f"no query of {run} is judged: it has {format_examples(theirs)}, qrels has {format_examples(ours)}"


def count_ids(here: Session, given: Inputs, table: Table) -> tuple[int, dict[str, int]]:
    """How many rows a table has, and in how many there is an id, by the name of its column."""
    names = given.ids(table)
    counts = ", ".join(f"count({quoted(name)})" for name in names)
    total, *found = here.con.sql(f"SELECT count(*), {counts} FROM {table.sql}").fetchall()[0]
    return total, dict(zip(names, found, strict=True))


def require_ids(label: str, total: int, found: Mapping[str, int]) -> None:
    """Refuse a table that is empty, or in which ids are NULL."""
    if not total:
        raise RankqlError(f"{label} is empty: it has no rows")
    for name, count in found.items():
        if count < total:
            raise RankqlError(
                f"{label}: {name} is NULL in {total - count} of {total} rows; leave them out"
            )


def validate_numbers(here: Session, table: Table, roles: Sequence[str]) -> None:
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


def format_examples(values: Sequence[object] | None) -> str:
    """A few values, as an error shows them."""
    return ", ".join(map(repr, values or []))


@contextmanager
def duckdb_errors(
    here: Session | None = None, given: Inputs | None = None, chosen: Conventions | None = None
) -> Iterator[None]:
    """Errors of DuckDB in the words of rankql; where all is given, with the duplicates named."""
    try:
        yield
    except duckdb.Error as error:
        line = here.error(error) if here else reword_error(error)
        if line.endswith("must be a whole number from 1, not 0"):
            line += ". Position 1 is the top: add 1, or name scores in place of them: score='...'"
        if here and given and NO_SCORE in line:
            validate_columns(here, given, ("score",))
        if here and given and chosen and (DUPLICATES in line or SHARED in line):
            line = duplicates_message(sql_runner(here, given, chosen), given)
        raise RankqlError(line) from error
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def duplicates_message(ask: RunSql, given: Inputs) -> str:
    """The line that names three of what is there more than once of what is judged."""
    judged = "WHERE rel IS NOT NULL" if given.qrels is None else JUDGED
    found = find_duplicates(ask, given, "run", "item", judged) if given.every("item") else None
    if not found and not given.scored:
        found = find_duplicates(ask, given, "run", "pos", "WHERE pos IS NOT NULL")
    return found or DUPLICATES


def find_duplicates(ask: RunSql, given: Inputs, source: str, column: str, where: str = "") -> str | None:
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
        others = [name for name in table.known("query") if name != table.roles["query"]]
        hint += f", or queries: query={others[0]!r}" if others else ""
    return f"{source} has duplicates: {shown}; keep one row of each{hint}"
