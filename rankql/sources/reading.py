"""Reading: from what people pass to `Inputs`, tables whose columns have roles."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.errors import Call, Question, RankqlError, require
from rankql.macros import INTERNAL_PREFIX, quote
from rankql.registry.column_names import (
    RANKED_SYSTEMS,
    RANKERS,
    REQUESTS,
    RETRIEVED,
    ROLES,
    SPLITS,
    find_name,
    has_two_directions,
    is_called,
    is_distance,
)
from rankql.sources import computed, role_values
from rankql.sources.account import account_for
from rankql.sources.ask import verified
from rankql.sources.candidates import find_list
from rankql.sources.id_lists import unnest_lists
from rankql.sources.inputs import Inputs
from rankql.sources.reader import list_in_order
from rankql.sources.request import Request
from rankql.sources.session import Session
from rankql.sources.shapes import is_several_runs
from rankql.sources.tables import (
    NUMBERS,
    Data,
    Runs,
    Table,
    assign_roles,
    is_nested,
    is_number,
    is_text,
    refuse_repeated,
    require_column,
    unknown_column,
)
from rankql.sources.training import read_beyond, split_log
from rankql.text import Note, format_count, format_queries, is_or_are


def read_inputs(session: Session, request: Request) -> Inputs:
    """Open the tables and recognise their columns. A question offers calls that answer it.

    Without a run, only judgments are read.
    """
    run, rules = request.run, request.rules
    alone = rules.system is None or not is_several_runs(run)
    require(alone, "system= is for a single run. The runs of a dict have their names already")
    opened = {} if run is None else open_runs(session, run)
    others = ((x, getattr(request, x)) for x in ("qrels", "attributes", "train"))
    tables = {x: None if data is None else session.table(data, x) for x, data in others}
    runs = opened if isinstance(opened, dict) else {None: opened}
    by = dict.fromkeys(itertools.chain(*request.groupings), "by")
    if request.cluster is not None:
        by.setdefault(request.cluster, "cluster")
    if request.weight is not None:
        by[request.weight] = "weight"
    names = ("system", "descending", "order", "collapse", "forbidden")
    options = {**rules.columns, **{name: getattr(rules, name) for name in names}}
    if rules.groups:
        require(options["rel"] is None, "groups= does not support rel=. Leave out one of them")
        options |= {"groups": "any", "rel": "1"}  # of each id

    def read(call: Call) -> Inputs:
        inputs = _read_tables(session, runs, tables, {**options, **call}, by, request.catalogue)
        return replace(inputs, weight=request.weight)

    def is_answer(call: Call) -> bool:
        noted = len(session.notes)
        try:
            return _has_matches(session, read(call))
        finally:
            del session.notes[noted:]

    try:
        return read({})
    except Question as question:
        raise verified(question, is_answer) from None


def _has_matches(session: Session, inputs: Inputs) -> bool:
    """Has a run a judged item, a number for each grade, and no item twice in a query?"""

    def repeats(table: Table, keys: Sequence[str]) -> bool:
        names = ", ".join(map(quote, keys))
        rows = f"{table.sql} WHERE {quote(keys[-1])} IS NOT NULL"
        return bool(session.value(f"SELECT count(*) > count(DISTINCT ({names})) FROM {rows}"))

    (judged, *_) = inputs.judging
    name, matched = judged.roles["rel"], inputs.qrels is None or not inputs.runs
    number = f"TRY_CAST({quote(name)} AS DOUBLE)"
    numbers = f"count({quote(name)}) = count({number})"
    if not session.value(f"SELECT {numbers} AND max({number}) > 0 FROM {judged.sql}"):
        return False
    judged_ids = [judged.roles[x] for x in ("query", "item") if inputs.qrels or x == "query"]
    constant = judged.computed.get(name) == []  # nothing is judged
    if (inputs.qrels or constant) and repeats(judged, judged_ids):
        return False
    for table in inputs.runs.values():
        keys, roles = inputs.ids(table), [x for x in ("query", "item") if x in table.roles]
        if pos := table.roles.get("pos"):
            number = table.number("pos")
            sql = f"SELECT min({number}) = 1 AND bool_and({number} = floor({number}))"
            places = [*(x for x in keys if x != table.roles.get("item")), pos]
            if not session.value(f"{sql} FROM {table.sql}") or repeats(table, places):
                return False
        elif score := table.roles.get("score"):
            sql = f"SELECT count({table.number('score')}) = count({quote(score)}) FROM {table.sql}"
            if not session.value(sql):
                return False
        if "item" in table.roles and repeats(table, keys):
            return False
        ids = []
        for x in (table, judged):
            *_, last = named = [x.roles[role] for role in roles]
            texts = ", ".join(computed.id_text(quote(y), x.columns[y]) for y in named)
            ids.append(f"(SELECT {texts} FROM {x.sql} WHERE {quote(last)} IS NOT NULL)")
        matched = matched or bool(session.rows(f"{' INTERSECT '.join(ids)} LIMIT 1"))
    return matched


def _read_tables(
    session: Session,
    runs: Runs,
    tables: Mapping[str, Table | None],
    options: Mapping[str, Any],
    by: Mapping[str, str],
    catalogue: Data | int | None,
) -> Inputs:
    """Recognise the columns of the tables, under the options of the caller.

    by: the attributes, each with the argument that names it.
    """
    columns: Mapping[str, Any] = {role: options.get(role) for role in ROLES}
    system, descending = options["system"], options["descending"]
    judgments, about, history = (tables[x] for x in ("qrels", "attributes", "train"))
    if any(table and find_name(table.columns, SPLITS) for table in (judgments, history)):
        judgments, history = split_log(session, judgments, history, columns)
    opened_runs = [*runs.values()]
    forbidden = options.get("forbidden") or ""
    named = [dict.fromkeys(columns), dict.fromkeys(columns)]
    if judgments and not about and _is_tidy([*opened_runs, judgments], options, by):
        tables_of = [replace(t, named=dict.fromkeys(by, "")) for t in (*opened_runs, judgments)]
        (*opened, judgments), abouts = tables_of, list[Table]()
        graded = [judgments]
    else:
        runs, system = _open_systems(session, runs, system, columns, [*by])
        opened_runs, options = [*runs.values()], {**options, "system": system}
        runs, named, tidied = _make_tidy(session, runs, judgments, about, options, by)
        opened, graded, abouts = tidied
    for judgments in graded:
        judgments, named[1] = computed.assume_grades(session, judgments, named[1])
    runs, notes, unscored = _rank_runs(
        session, dict(zip(runs, opened, strict=True)), named[0], bool(graded), descending
    )
    ranked = [*runs.values()]
    if judgments:
        attributes = None if options.get("groups") else [*by, forbidden]
        judgments = _assign_judgments(session, judgments, named[1], ranked, attributes)
    prohibitions = None
    if forbidden:
        judgments, prohibitions = computed.mark_forbidden(session, judgments, forbidden)
    ranked += [judgments] if judgments else []
    if about:  # the query column as the caller names it, or as in the other tables
        names = named[0] if named[0].get("query") in abouts[0].columns else named[1]
        same = {"query": [table.roles["query"].lower() for table in ranked]}
        about = assign_roles(abouts[0], names, ["query"], same, only=True)
        about = _with_keys_of(session, about, ranked)
    places = {"run": [*runs.values()]}
    places = {x: [t] for x, t in (("attributes", about), ("qrels", judgments)) if t} | places
    ctes = {name: _cte_of_attribute(name, places, argument) for name, argument in by.items()}
    if system is not None:
        for table in runs.values():
            require_column(table, system, "system")
    inputs = Inputs(runs, judgments, about, system, [*by], ctes, by)
    inputs = replace(inputs, unscored=unscored, forbidden=prohibitions)
    if system is not None and opened_runs[0].has(system):
        inputs = replace(inputs, first_to_last=list_in_order(session, opened_runs[0], system))
    if history or catalogue is not None:
        given = {role: options.get(role) for role in ROLES}
        beyond = read_beyond(session, history, catalogue, given, opened_runs, inputs.tables)
        past = beyond[0] and _with_keys_of(session, beyond[0], ranked)
        inputs = replace(inputs, train=past, catalogue=beyond[1])
    _require_different_names(inputs)
    notes += [*_describe_types(session, inputs), *_describe_attributes(session, inputs)]
    inputs = replace(inputs, notes=notes)
    for table in inputs.tables:
        refuse_repeated(table, [*by, *([system] if system else [])])
    return account_for(session, inputs, {x for x, value in options.items() if value is not None})


def _is_tidy(tables: Sequence[Table], options: Mapping[str, Any], by: Iterable[str]) -> bool:
    """Are runs and judgments as the evaluation reads them, so that nothing has to be made of them?

    Then all columns are called as their roles, or are attributes that are named.
    """
    *runs, judgments = tables
    named = (*ROLES, "system", "order", "forbidden", "groups", "collapse")
    if any(options.get(x) is not None for x in named):
        return False
    known = [{"query", "item", "score"}, {"query", "item", "pos"}]
    rest = [{*x.columns} - {*by} for x in runs]
    flat = not any(is_nested(kind) for table in tables for kind in table.columns.values())
    typed = all(is_number(x.columns[y]) for x in tables for y in NUMBERS if y in x.columns)
    judged = {*judgments.columns} - {*by} == {"query", "item", "rel"}
    return judged and flat and typed and all(names in known for names in rest)


def _make_tidy(
    session: Session,
    runs: Runs,
    judgments: Table | None,
    about: Table | None,
    options: Mapping[str, Any],
    by: Mapping[str, str],
) -> tuple[Runs, list[dict[str, str | None]], list[list[Table]]]:
    """The runs, judgments and attributes with a row per item and the columns that are computed,
    and the names of their columns.
    """
    columns: Mapping[str, Any] = {role: options.get(role) for role in ROLES}
    system, opened = options["system"], [*runs.values()]
    if judgments and isinstance(columns.get("query"), list | tuple):
        judgments = computed.spread_judgments(session, opened, judgments, columns["query"])
    words = (re.findall(r"\w+", getattr(name, "sql", name)) for name in by)
    read = [*by, *itertools.chain(*words), system, options.get("forbidden")]
    read = [name for name in read if name]
    runs, judgments, columns = unnest_lists(session, runs, judgments, columns, read, options)
    opened, graded, abouts = [*runs.values()], *([x] if x else [] for x in (judgments, about))
    columns, mapped = computed.map_events(session, columns, graded or opened)
    groups = [opened, mapped, abouts] if graded else [mapped, [], abouts]
    named, groups = computed.resolve_columns(session, columns, groups, [*by, system])
    for name, argument in by.items():
        groups = computed.add_attribute(session, name, argument, groups[::-1])[::-1]
    if options["order"] == "rows":
        numbered = (role_values.number_rows(session, x, named[0], system) for x in groups[0])
        groups[0] = [*numbered]
    return runs, named, groups


def _open_systems(
    session: Session, runs: Runs, system: Any, columns: Mapping[str, Any], by: Sequence[str]
) -> tuple[Runs, str | None]:
    """The runs, with the column of the systems: the one that the caller names, or a known one."""
    if system is None:
        if None in runs and (name := find_system(session, runs[None], columns, by)):
            context = {**runs[None].context, "system": name}
            return {None: replace(runs[None], context=context)}, name
        return runs, None
    names = [system] if isinstance(system, str) else system
    ok = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    require(ok, f"system must be the name of a column, not {system!r}")
    spec = system if isinstance(system, str) else tuple(system)
    if isinstance(spec, str) and any(table.has(spec) for table in runs.values()):
        return runs, spec
    added = {x: computed.add_column(session, t, "system", spec) for x, t in runs.items()}
    return added, computed.column_name(spec)


def _rank_runs(
    session: Session, runs: Runs, names: Mapping[str, Any], judged: bool, descending: bool | None
) -> tuple[Runs, list[str], str]:
    """The runs with their roles and orders, notes, and the first run without scores.

    Runs are ranked alike, by positions or scores; where one has no scores, each by what it has.
    """
    runs = {x: _assign_run(session, t, names, judged, descending) for x, t in runs.items()}
    for table in runs.values():
        if table.unit == "ids":
            role_values.refuse_padding(session, table)
        elif not names.get("query") and is_called(table.roles["query"], REQUESTS):
            _refuse_single_rows(session, table)
    runs = {x: role_values.read_numbers(session, table) for x, table in runs.items()}
    notes: list[str] = []
    for table in runs.values():
        named = descending is None and bool(names.get("score"))
        role_values.refuse_rounded_scores(session, table)
        role_values.refuse_wrong_order(session, table, named)
        notes += role_values.describe_positions(session, table)
    unscored = ""
    if len({"pos" in table.roles for table in runs.values()}) > 1:
        lack = (x for x, t in runs.items() if "score" not in t.roles or t.is_assumed("pos"))
        unscored = str(next(lack, next(iter(runs)) if names.get("pos") else ""))
        for label, table in runs.items():
            if unscored and "pos" not in table.roles:
                runs[label] = role_values.rank_by_score(session, table)
            elif not unscored and "pos" in table.roles:
                table = role_values.drop_positions(session, table, str(label))
                runs[label] = replace(table, ascending=lowest_is_best(table, descending))
    if unscored:
        orders = (f"{x} by {t.role_columns['pos']}" for x, t in runs.items())
        apart = "Each run is ranked by what it has"
        notes.append(Note(", ".join(orders), heading=apart, kind="ranked-apart"))
    if len({"score" in table.roles for table in runs.values()}) > 1:  # all have positions
        runs = {label: table.without("score") for label, table in runs.items()}
    return runs, notes, unscored


def _assign_judgments(
    session: Session,
    table: Table,
    names: Mapping[str, Any],
    runs: Sequence[Table],
    by: Sequence[str] | None,
) -> Table:
    """The judgments with their roles, and one grade for each query and item. by: None for groups,
    of which several may have an item.
    """
    table = role_values.require_one_name(session, table, "rel", names)
    table = assign_roles(table, names, ("query", "item", "rel"), only=True)
    role_values.refuse_padding(session, table)
    table = _with_keys_of(session, table, runs)
    table = role_values.read_numbers(session, table)
    table = table if by is None else computed.keep_highest(session, table, by)
    if not table.empty:
        return table
    item, rel = (table.roles[role] for role in ("item", "rel"))
    grade = f"CASE WHEN {quote(item)} IS NULL THEN 0 ELSE {quote(rel)} END"
    return table.with_values(rel, grade, table.columns[rel])


def _describe_types(session: Session, inputs: Inputs) -> list[str]:
    """Notes on ids of text that are no whole number of the other table only by how they look."""
    notes = []
    every = [*inputs.runs.values(), *([inputs.qrels] if inputs.qrels else [])]
    for role in ("query", "item") if inputs.qrels else ():
        tables = [table for table in every if role in table.roles]
        if not (inputs.as_text(role) and any(table.integer(role) for table in tables)):
            continue
        for table in tables:
            name, text = table.roles[role], f"CAST({quote(table.roles[role])} AS VARCHAR)"
            odd = f"regexp_matches({text}, '^0[0-9]|^\\s|\\s$')"
            sql = f"SELECT count(DISTINCT {text}), min({text}) FROM {table.sql} WHERE {odd}"
            count, least = session.row(sql)
            if count and is_text(table.columns[name]):
                notes.append(
                    f"{table.label}: {format_count(count, 'id')} in {name} {is_or_are(count)} "
                    f"text with leading zeros or blanks, such as {least!r}. The whole "
                    "numbers of the other table do not match them"
                )
    return notes


def _describe_attributes(session: Session, inputs: Inputs) -> Iterator[str]:
    """Notes on attributes of which another table has other values for the same queries."""
    for name in inputs.by if session.reads_values else ():
        tables = [table for table in inputs.tables if name in table.columns]
        first = next(table for table in tables if inputs.cte_of(table) == inputs.ctes[name])
        for other in tables:
            if inputs.cte_of(other) == inputs.ctes[name]:
                continue
            one, two = (
                f"(SELECT DISTINCT {table.key('query', as_text=True)} AS q, "
                f"CAST({quote(name)} AS VARCHAR) AS v FROM {table.sql})"
                for table in (first, other)
            )
            sql = f"SELECT count(DISTINCT q) FROM {one} AS a JOIN {two} AS b USING (q) "
            if count := session.value(f"{sql}WHERE a.v <> b.v"):
                yield (
                    f"{name} is that of {first.label}. In {other.label} {format_queries(count)} "
                    f"{'has' if count == 1 else 'have'} another one"
                )


def _with_keys_of(session: Session, table: Table, others: Sequence[Table]) -> Table:
    """The table of a text file with integers as queries, if those of the others are."""
    name, kinds = table.roles["query"], [x.columns[x.roles["query"]] for x in others]
    column = quote(name)
    integer = f"CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR)"
    integers = all(kind.endswith(("INT", "INTEGER")) for kind in kinds)
    if table.text and is_text(table.columns[name]) and integers:
        sql = f"SELECT bool_and(coalesce({integer} = {column}, {column} IS NULL)) FROM {table.sql}"
        if session.value(sql):
            return table.with_values(name, f"CAST({column} AS BIGINT)", "BIGINT")
    return table


def _refuse_single_rows(session: Session, table: Table) -> None:
    """Refuse a request as the query, by its name, if each has one row: it may be that of a row."""
    key = table.roles["query"]
    single = f"SELECT count(*) > 1 AND count(*) = count(DISTINCT {quote(key)}) FROM "
    first = f"(FROM {table.sql} LIMIT {_FIRST_ROWS})"
    if all(session.value(single + rows) for rows in (first, table.sql)):
        raise Question(f"{table.label}: each {key} has one row. Is it the query?",
                       [{"query": key}], ", or the column of the queries")  # fmt: skip


# Queries that decide whether a column is that of the systems, and rows in which they are sought.
_FEW_QUERIES, _FIRST_ROWS = 20, 1000


def find_system(
    session: Session,
    table: Table,
    columns: Mapping[str, Any],
    by: Sequence[str],
    known: Sequence[str] = RANKED_SYSTEMS,
) -> str | None:
    """The column of a known name without which items or positions of a query repeat, and with
    which none does. Without positions, that of a ranker is one if a query has several.
    """
    query, item = columns.get("query"), columns.get("item")
    item = item[0] if isinstance(item, list | tuple) and item else item
    taken = {*by, *map(str, columns.values())}
    systems = [find_name(table.columns, [name]) for name in known]
    if not (names := [name for name in systems if name is not None and name not in taken]):
        return None
    try:
        keys: Any = query if isinstance(query, list | tuple) else [table.find("query", query)]
    except RankqlError:  # which is raised later, if at all
        return None
    if not keys or not all(isinstance(name, str) and table.has(name) for name in keys):
        return None
    placed, ids = table.find("pos", columns.get("pos")), [list[str]()]
    if not find_list(table, RETRIEVED, item):
        ids = [[x] for x in (table.find("item", item), placed) if x] or ids  # or values
    key = ", ".join(map(quote, keys))
    sample = f"SELECT DISTINCT {key} FROM (FROM {table.sql} LIMIT {_FIRST_ROWS})"
    rows = f"(FROM {table.sql} SEMI JOIN ({sample} LIMIT {_FEW_QUERIES}) USING ({key}))"
    for name in names:
        counts = ", ".join(
            f"count(DISTINCT ({', '.join(map(quote, [*keys, *own, *each]))}))"
            for own in [[], *ids]
            for each in ([], [name])
        )
        sql = f"SELECT count(*), {counts} FROM {rows}"
        total, queries, rankings, *each = session.row(sql)
        several = not placed and queries < rankings and is_called(name, RANKERS)
        repeats = several or any(count < total for count in each[::2])
        if repeats and all(count == total for count in each[1::2]):
            return name
    return None


def _require_different_names(inputs: Inputs) -> None:
    """Refuse two columns of the result with the same name."""
    query = inputs.query.lower()
    for argument, name in [("query", inputs.query), *((inputs.arguments[x], x) for x in inputs.by)]:
        own = argument == "query" or name.lower() != query
        require(own, f"{argument}={name!r} is the column of the queries. Name an attribute of them")
        runs = f"{argument}: {name!r} is also the column that names the runs in the result"
        require(not (inputs.many and name.lower() == "system"), f"{runs}. Rename it")


def open_runs(session: Session, run: Data | Mapping[str, Data]) -> Any:
    """The table of the run, or the tables of several runs by name."""
    run = session.open_runs(run)
    if not is_several_runs(run):
        return session.table(run, "run")
    named = bool(run) and all(isinstance(name, str) and name for name in run)
    require(named, "A dict of runs must map at least one name to a run")
    return {name: session.table(data, f"run {name!r}") for name, data in run.items()}


def _assign_run(
    session: Session, table: Table, names: Mapping[str, Any], judged: bool, descending: bool | None
) -> Table:
    """The run with its roles and the order of its scores; not judged: it has the grades itself."""
    needed = ["query", "item"] if judged else ["query", "rel"]
    for role in ("pos", "score") if judged else ("rel", "pos", "score"):
        table = role_values.require_one_name(session, table, role, names)
    table = assign_roles(table, names, needed)
    if judged:
        table = table.without("rel")
    if names.get("score") and not names.get("pos"):
        table = table.without("pos")
    roles = table.roles
    if "pos" in roles:
        if descending is not None:
            raise RankqlError(
                f"descending={descending} orders scores, but {table.label} is ordered by its "
                f"positions ({table.role_columns['pos']}). Leave it out, or pass score="
            )
        return table
    if not judged and "score" in roles and "item" not in roles and not names.get("item"):
        # As in learning to rank: each row is an item of its own.
        name = f"{INTERNAL_PREFIX}item"
        table = role_values.add_row_number(session, table, "item", name, "row number")
        table = replace(table, computed={**table.computed, name: []})
    assign_roles(table, names, ["score", "item"])  # the item orders equal scores
    return replace(table, ascending=lowest_is_best(table, descending))


def lowest_is_best(table: Table, descending: bool | None) -> bool:
    """Is the lowest score the best? By the caller, or by the name of the column."""
    name = table.roles["score"]
    if descending is None:
        if has_two_directions(name):
            raise Question(
                f"{table.label}: is the lowest or the highest {name} the best?",
                [{"descending": False}, {"descending": True}],
            )
        return is_distance(name)
    return not descending


def _cte_of_attribute(name: str, places: Mapping[str, Sequence[Table]], argument: str) -> str:
    """The place of an attribute: attributes, judgments or run."""
    for cte, tables in places.items():
        if any(name in table.columns for table in tables):
            for table in tables:
                require_column(table, name, argument)
            return cte
    raise unknown_column(argument, name, [*itertools.chain(*places.values())])
