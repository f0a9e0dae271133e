"""Reading: from what people pass to `Inputs`, tables whose columns have roles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from rankql.core.base.column_names import ROLES, Named, find_name, says
from rankql.core.base.doors import call_extra, find_door
from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.base.text import Note, format_count, format_queries, is_or_are
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.tables.candidates import assign_roles, name_ids
from rankql.core.tables.frames import export_call
from rankql.core.tables.inputs import Inputs, TidyTables
from rankql.core.tables.numbers.judgments import mark_forbidden, merge_rows, merge_systems
from rankql.core.tables.numbers.order import (
    add_row_number,
    check_order,
    drop_positions,
    lowest_is_best,
    order_of_scores,
    rank_by_score,
)
from rankql.core.tables.numbers.values import (
    read_numbers,
    refuse_padding,
    refuse_rounded_scores,
    without_equal_rows,
    without_fill_rows,
)
from rankql.core.tables.reader import list_in_order
from rankql.core.tables.request import Request
from rankql.core.tables.session import Session, is_several_runs
from rankql.core.tables.sql_expressions import split_aggregate
from rankql.core.tables.tables import (
    FIRST_ROWS,
    Data,
    Runs,
    Table,
    is_text,
    refuse_repeated,
    require_column,
    unknown_column,
)

# The judgments, attributes and interactions of training, as the caller passes them.
OtherTables: TypeAlias = Mapping[str, Table | None]


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
    if "run" in request.once:
        runs = {x: without_equal_rows(session, table) for x, table in runs.items()}
    if "qrels" in request.once and tables["qrels"]:
        tables["qrels"] = without_equal_rows(session, tables["qrels"])
    by = dict.fromkeys(itertools.chain(*request.groupings), "by")
    for name in (x for x in by if isinstance(x, Named)):
        column = f"{name.sql} AS {name}"
        if any(x and x.has(column) for x in (*runs.values(), *tables.values())):
            name.sql = quote(column)
    if request.cluster is not None:
        by.setdefault(request.cluster, "cluster")
    if isinstance(request.time, str):
        by.setdefault(request.time, "time")
    if request.weight is not None:
        by[request.weight] = "weight"
    names = ("system", "descending", "order", "collapse", "forbidden")
    options = {**rules.columns, **{name: getattr(rules, name) for name in names}}
    if rules.groups:
        require(options["rel"] is None, "groups= does not support rel=. Leave out one of them")
        options |= {"groups": "any", "rel": "1"}  # of each id

    def read(runs: Runs, tables: OtherTables, options: Mapping[str, Any]) -> Inputs:
        if rules.span is not None:
            runs, tables, options = call_extra("read ends", session, rules, runs, tables, options)
        inputs = _read_tables(session, runs, tables, options, by, request.catalogue)
        return replace(inputs, weight=request.weight)

    session.opened = {**runs}, tables
    try:
        return read(runs, tables, options)
    except Question as question:
        raise call_extra("offer", session, question, runs, tables, options, read) from None


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
    tidy = _make_tidy(session, runs, tables, options, by)
    ranked, notes, unscored = _rank_runs(session, tidy, options["descending"])
    qrels, forbidden = _judge(session, tidy, ranked, options, by)
    others = [*ranked.values(), *filter(None, [qrels])]
    about = _assign_attributes(session, tidy, others) if tidy.attributes else None
    inputs = _place_attributes(Inputs(
        ranked, qrels, about, tidy.system, [*by], arguments=by, unscored=unscored,
        forbidden=forbidden,
    ))  # fmt: skip
    if tidy.system is not None:
        inputs = _order_systems(session, inputs, tidy.system, tidy.opened[0])
    if tidy.train or catalogue is not None:
        inputs = _read_shown(session, inputs, tidy, catalogue)
    _require_different_names(inputs)
    notes += [*_describe_types(session, inputs), *_describe_attributes(session, inputs)]
    for table in inputs.tables:
        refuse_repeated(table, [*inputs.by, *([inputs.system] if inputs.system else [])])
    inputs = replace(inputs, notes=notes)
    named = frozenset(x for x, y in tidy.options.items() if y is not None)
    if (door := find_door("doubts", inputs)) is not None:
        accounted: Inputs = door.load()(session, inputs, named)
        return accounted
    doubts = (partial(order_of_scores, table, named) for table in inputs.runs.values())
    return replace(inputs, notes=[*inputs.notes, *note_doubts(session, doubts)])


def _make_tidy(
    session: Session,
    runs: Runs,
    tables: Mapping[str, Table | None],
    options: Mapping[str, Any],
    by: Mapping[str, str],
) -> TidyTables:
    """The tables with a row per item. Those that have one are left as they are."""
    qrels, attributes, train = (tables[x] for x in ("qrels", "attributes", "train"))
    if any(table and find_name(table.columns, "split") for table in (qrels, train)):
        named = {x: options.get(x) for x in ROLES}
        qrels, train = call_extra("split", session, runs.values(), qrels, train, named)
    tidy = TidyTables(runs, qrels, attributes, train, options["system"], ({}, {}), [], options)
    if not attributes and (ids := name_ids(runs, qrels, options, [*by])):
        none = dict.fromkeys(ROLES)
        return replace(tidy, runs=ids[0], qrels=ids[1], names=(none, none), opened=[*runs.values()])
    unpacked: TidyTables = call_extra("unpack", session, tidy, by)
    return unpacked


def _judge(
    session: Session, tidy: TidyTables, runs: Runs, options: Mapping[str, Any], by: Iterable[str]
) -> tuple[Table | None, Table | None]:
    """The judgments with their roles, and those of forbidden items."""
    forbidden, qrels = options.get("forbidden") or "", tidy.qrels
    if qrels:
        several = options.get("groups") or options.get("span")  # rows of an item
        attributes = None if several else [*by, forbidden]
        ranked = [*runs.values()]
        qrels = _assign_qrels(qrels, tidy.names[1], ranked, attributes)
        if attributes is not None and tidy.system is not None and qrels.has(tidy.system):
            qrels = merge_systems(qrels, attributes, tidy.system)
    return mark_forbidden(session, qrels, forbidden) if forbidden else (qrels, None)


def _assign_attributes(session: Session, tidy: TidyTables, others: Sequence[Table]) -> Table:
    """The attributes; their query column is called as the caller says, or as in other tables."""
    assert tidy.attributes
    table, (of_runs, of_qrels) = tidy.attributes, tidy.names
    names = of_runs if of_runs.get("query") in table.columns else of_qrels
    same = {"query": [x.roles["query"].lower() for x in others]}
    table = assign_roles(table, names, ["query"], same, only=True)
    return _with_keys_of(table, others)


def _place_attributes(inputs: Inputs) -> Inputs:
    """The inputs with the place of each attribute: attributes, judgments or run."""
    own = (("attributes", inputs.attributes), ("qrels", inputs.qrels))
    places = {x: [table] for x, table in own if table} | {"run": [*inputs.runs.values()]}
    ctes = {x: _cte_of_attribute(x, places, argument) for x, argument in inputs.arguments.items()}
    return replace(inputs, ctes=ctes)


def with_rows_of(session: Session, inputs: Inputs, complete: Inputs) -> Inputs:
    """The inputs with the attributes of all rows of the complete runs."""
    names = inputs.attributes_in("run")
    if not names or inputs.attributes is not None:
        return inputs
    key = next(iter(complete.runs.values())).roles["query"]
    fields = ", ".join(map(quote, names))
    rows = (
        f"SELECT {quote(x.roles['query'])} AS {quote(key)}, {fields} FROM {x.sql}"
        for x in complete.runs.values()
    )
    sql = f"(SELECT DISTINCT * FROM ({' UNION ALL '.join(rows)}))"
    about = replace(session.describe("attributes", sql), of_runs=True, roles={"query": key})
    ctes = {**inputs.ctes, **dict.fromkeys(names, "attributes")}
    return replace(inputs, attributes=about, ctes=ctes)


def _order_systems(session: Session, inputs: Inputs, system: str, opened: Table) -> Inputs:
    """The inputs with the order in which a run, as it was opened, has its systems."""
    for table in inputs.runs.values():
        require_column(table, system, "system")
    if not opened.has(system):
        return inputs
    inputs = replace(inputs, first_to_last=list_in_order(opened, system))
    lists = next(iter(inputs.runs.values())).with_lists
    if not lists or not lists.has(system):
        return inputs
    every = f"SELECT DISTINCT CAST({quote(system)} AS VARCHAR) FROM {{}} ORDER BY 1"
    found, known = ([x for (x,) in session.rows(every.format(x.sql))]
                    for x in (lists, next(iter(inputs.runs.values()))))  # fmt: skip
    return inputs if found == known else replace(inputs, systems=found)  # some retrieved nothing


def _read_shown(
    session: Session, inputs: Inputs, tidy: TidyTables, catalogue: Data | int | None
) -> Inputs:
    """The inputs with what metrics of shown items read: training and the catalogue."""
    names = {role: tidy.options.get(role) for role in ROLES}
    tables = inputs.tables
    train, items = call_extra(
        "shown items", session, tidy.train, catalogue, names, tidy.opened, tables
    )
    others = [*inputs.runs.values(), *filter(None, [inputs.qrels])]
    train = train and _with_keys_of(train, others)
    return inputs.with_beyond(train=train, catalogue=items)


def note_doubts(session: Session, doubts: Iterable[Callable[[], Iterable[str]]]) -> list[Note]:
    """The notes of doubts. A question is raised, or is a note if the session does not ask."""
    notes: dict[Note, None] = {}
    for doubt in doubts if session.reads_values else ():
        try:
            notes |= dict.fromkeys(map(Note.of, doubt()))
        except Question as question:
            if session.asks:
                raise
            notes[Note(question.text, level="error")] = None
    session.notes += [] if session.asks else notes
    return [*notes]


def _rank_runs(
    session: Session, tidy: TidyTables, descending: bool | None
) -> tuple[Runs, list[str], str]:
    """The runs with their roles and orders, notes, and the first run without scores.

    Runs are ranked alike, by positions or scores; where one has no scores, each by what it has.
    """
    names, judged = tidy.names[0], tidy.qrels is not None
    runs = {x: _assign_run(t, names, judged, descending) for x, t in tidy.runs.items()}
    for table in runs.values():
        if table.unit == "ids":
            refuse_padding(table, tidy.qrels)
        elif not names.get("query") and says(table.roles["query"], "request"):
            _refuse_single_rows(table)
    runs = {x: read_numbers(table) for x, table in runs.items()}
    notes: list[str] = []
    for table in runs.values():
        named = descending is None and bool(names.get("score"))
        refuse_rounded_scores(table)
        notes += check_order(table, named)
    unscored = ""
    if len({"pos" in table.roles for table in runs.values()}) > 1:
        lack = (x for x, t in runs.items() if "score" not in t.roles or t.is_assumed("pos"))
        unscored = str(next(lack, next(iter(runs)) if names.get("pos") else ""))
        for label, table in runs.items():
            if unscored and "pos" not in table.roles:
                runs[label] = rank_by_score(table)
            elif not unscored and "pos" in table.roles:
                table = drop_positions(table, str(label))
                runs[label] = replace(table, ascending=lowest_is_best(table, descending))
    if unscored:
        orders = (f"{x} by {t.role_columns['pos']}" for x, t in runs.items())
        apart = "Each run is ranked by what it has"
        notes.append(Note(", ".join(orders), heading=apart, kind="ranked-apart"))
    if len({"score" in table.roles for table in runs.values()}) > 1:  # all have positions
        runs = {label: table.without("score") for label, table in runs.items()}
    return runs, notes, unscored


def _assign_qrels(
    table: Table,
    names: Mapping[str, Any],
    runs: Sequence[Table],
    by: Sequence[str] | None,
) -> Table:
    """The judgments with their roles, and one grade for each query and item. by: None for groups
    and spans, of which several may have an item.
    """
    table = assign_roles(table, names, ("query", "item", "rel"), only=True)
    refuse_padding(table, next(iter(runs), None))
    table = _with_keys_of(table, runs)
    table = read_numbers(table)
    rel = table.roles["rel"]
    # Grades in the data must be unique; only a constant like '1' is assumed.
    aggregate, _ = split_aggregate(rel) if rel in table.computed else ("", rel)
    if not aggregate and (table.is_assumed("rel") or table.computed.get(rel) == []):
        aggregate = "last"
    if by is not None and aggregate:
        table = merge_rows(table, by, aggregate)
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
        place = (table for table in tables if inputs.cte_of(table) == inputs.ctes[name])
        if (first := next(place, None)) is None:
            continue  # lists that were unnested
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


def _with_keys_of(table: Table, others: Sequence[Table]) -> Table:
    """The table of a text file with integers as queries, if those of the others are."""
    name, kinds = table.roles["query"], [x.columns[x.roles["query"]] for x in others]
    column = quote(name)
    integer = f"CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR)"
    integers = all(kind.endswith(("INT", "INTEGER")) for kind in kinds)
    same = f"bool_and(coalesce({integer} = {column}, {column} IS NULL))"
    if table.text and is_text(table.columns[name]) and integers and table.value(same):
        return table.with_values(name, f"CAST({column} AS BIGINT)", "BIGINT")
    return table


def _refuse_single_rows(table: Table) -> None:
    """Refuse a request as the query, by its name, if each has one row: it may be that of a row."""
    key = table.roles["query"]
    single = f"SELECT count(*) > 1 AND count(*) = count(DISTINCT {quote(key)}) FROM "
    first = f"(FROM {table.sql} LIMIT {FIRST_ROWS})"
    if all(table.session.value(single + rows) for rows in (first, table.sql)):
        raise Question(f"{table.label}: each {key} has one row. Is it the query?",
                       [{"query": key}], others=["pass the column of the queries"])  # fmt: skip


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
    if not named and (call := export_call(next(iter(run.values()), None)).replace("data.", "x.")):
        remedy = f"pd.concat({{q: {call} for q, x in run.items()}}, names=['query'])"
        remedy = f"Pass {remedy}.reset_index('query') if each has the items of a query"
        raise RankqlError(f"run is a dict of {type(next(iter(run.values()))).__name__}. {remedy}")
    require(named, "A dict of runs must map at least one name to a run")
    tables, parts = {}, [name for name, data in run.items() if isinstance(data, Mapping)]
    for name, data in run.items():
        try:
            tables[name] = session.table(data, f"run {name!r}")
        except RankqlError as error:  # what describes the one run
            if isinstance(data, str) and len(parts) == 1:
                hint = f"If {parts[0]} alone is the run, pass part={parts[0]!r}"
                error.text = f"{error.text}. {hint}"
            raise
    return tables


def _assign_run(
    table: Table, names: Mapping[str, Any], judged: bool, descending: bool | None
) -> Table:
    """The run with its roles and the order of its scores; not judged: it has the grades itself."""
    needed = ["query", "item"] if judged else ["query", "rel"]
    table = assign_roles(table, names, needed)
    if judged:
        table = table.without("rel")
    if names.get("score") and not names.get("pos"):
        table = table.without("pos")
    table, nearest = without_fill_rows(table)
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
        table = add_row_number(table, "item", name, "row number")
        table = replace(table, computed={**table.computed, name: []})
    assign_roles(table, names, ["score", "item"])  # the item orders equal scores
    if nearest is None or descending is not None:
        nearest = lowest_is_best(table, descending)
    return replace(table, ascending=nearest)


def _cte_of_attribute(name: str, places: Mapping[str, Sequence[Table]], argument: str) -> str:
    """The place of an attribute: attributes, judgments or run."""
    for cte, tables in places.items():
        if any(name in table.columns for table in tables):
            for table in tables:
                require_column(table, name, argument)
            return cte
    raise unknown_column(argument, name, [*itertools.chain(*places.values())])
