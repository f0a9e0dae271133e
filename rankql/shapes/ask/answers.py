"""Answers to a question or an error: the calls that give a number, by the caller's metrics and
options, or the columns that there are.

Each call is evaluated on a sample of the queries. An error that follows is answered too, so that
one call repairs all that is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb

from rankql.core.base.column_names import says
from rankql.core.base.errors import Call, Question, RankqlError, parse_number
from rankql.core.base.writing import name_columns, pick_part
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.grades import name_grades
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import infer_types
from rankql.core.tables.reading import OtherTables
from rankql.core.tables.request import RankingRules, Request, SpanOptions
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Runs, Table, is_nested, quote_name
from rankql.shapes.ask.listing import list_columns
from rankql.shapes.ask.pairs import FEW_QUERIES, find_pairs, name_lists, name_texts
from rankql.shapes.ask.structure import known_columns, name_by_structure
from rankql.shapes.ask.trials import as_question, has_matches, is_open, verified
from rankql.shapes.choose.paths import find_paths

# About so many queries are evaluated, of tables with more rows.
_QUERIES, _ROWS = 300, 20_000
# The lines that are read of a file without a header.
_LINES = 200
# The inputs of a request, if its evaluation gives a number. It may raise.
Evaluate: TypeAlias = Callable[[Session, Request], Inputs | None]


def offer_calls(
    session: Session,
    question: Question,
    runs: Runs,
    tables: OtherTables,
    options: Mapping[str, Any],
    read: Callable[[Runs, OtherTables, Mapping[str, Any]], Inputs],
) -> Question:
    """The question with the calls that work, of those that it names.

    read: read the tables under the options of a call.
    """
    asked = question
    if any(table and table.text for table in (*runs.values(), *tables.values())):
        of_runs = {x: infer_types(table) for x, table in runs.items()}
        others = {x: table and infer_types(table) for x, table in tables.items()}
        try:  # with types, few columns may have a role
            read(of_runs, others, options)
        except Question as typed:
            asked, typed.hints = typed, question.hints
            runs, tables = of_runs, others
        except RankqlError:
            pass
    item = options["item"]
    opened = [*runs.values(), *filter(None, [tables["qrels"]])]
    lacks_ids = not asked.open and all({"item", "rel"} <= {*x} for x in asked.calls)
    lists = any(is_nested(kind) for table in opened for kind in table.columns.values())
    readable = session.reads_values and not any(table.lazy for table in opened)
    if lacks_ids and lists and readable:
        if runs:
            asked.calls += find_pairs(opened[0], tables["qrels"], options["query"], item)
        asked.calls = asked.calls or name_lists(opened, item)
    elif lacks_ids and readable and runs and isinstance(asked.blanks.get("item"), list):
        asked.calls += name_texts(opened[0])
    if isinstance(item, list | tuple) and len(item) == 2:  # the question is about the first
        asked.calls = [
            {x: [y, item[1]] if x == "item" and isinstance(y, str) else y for x, y in call.items()}
            for call in asked.calls
        ]
    if runs and all({*x} <= {"query", "item"} for x in asked.calls):
        calls = name_by_structure(next(iter(runs.values())), tables["qrels"], options)
        items = [x["item"] for x in calls if "item" in x]  # which are no queries
        more = (x for x in asked.calls if x not in calls and x.get("query") not in items)
        asked.calls = [*calls, *more]
    if tables["qrels"] and any(table.known("rel") for table in runs.values()):  # may be swapped
        asked.calls = [x for x in asked.calls if "order" not in x]
    if asked.ungraded and runs and not (asked.calls or tables["qrels"]):
        run = next(iter(runs.values()))
        asked.calls = name_grades(run, known_columns(run, options))
    if "query" in asked.blanks and len(opened) == len(runs) + 1:
        asked.hints += _are_queries(runs, opened[-1])
    session.opened = {**runs}, {**tables}
    if session.defers or asked.certain:
        return asked

    def is_answer(call: Call) -> bool:
        noted, named = len(session.notes), {**options, **call}
        try:
            return has_matches(session, read(runs, tables, named), named["collapse"] is not None)
        finally:
            del session.notes[noted:]

    tried = verified(asked, is_answer)
    return list_columns(session, tried, opened, bool(runs))


def _are_queries(runs: Runs, qrels: Table) -> list[str]:
    """What to pass where each name of a run is a query of the judgments."""
    known = known_columns(qrels, {}).get("query")
    if not known or None in runs:
        return []
    names = ", ".join(literal(str(x)) for x in runs)
    value = f"CAST({quote(known)} AS VARCHAR)"
    if qrels.value(f"count(DISTINCT {value}) FILTER ({value} IN ({names}))") < len(runs):
        return []
    rows = "[{'query': q, 'retrieved': x} for q, x in run.items()]"
    return [f"If {', '.join(map(repr, [*runs][:2]))} are queries, pass {rows}"]


def answered(
    session: Session, request: Request, error: RankqlError, evaluate: Evaluate
) -> RankqlError:
    """The error with the calls that answer it, if there are any."""
    if session.opened is None and isinstance(error, Question) and error.unnamed:
        error.calls = headers_call(request)
        return error
    if session.opened is None or not session.reads_values:
        return error
    if isinstance(error, Question) and error.certain:
        return error
    try:
        return _answer(session, request, error, evaluate)
    except duckdb.Error:  # in a transaction that an error has ended
        return error


def _answer(
    session: Session, request: Request, error: RankqlError, evaluate: Evaluate
) -> RankqlError:
    assert session.opened
    runs, tables = session.opened
    opened = [*runs.values(), *filter(None, [tables["qrels"]])]
    question = as_question(error)
    if any(table.lazy for table in opened):
        return error
    session.opened, session.mentioned = None, None
    tried = set[str]()

    def gives_number(call: Call) -> bool:
        noted = len(session.notes)
        if _has_other_role(request, call):
            return False
        try:
            collapse = {**request.rules.options, **call}.get("collapse") is not None
            inputs = evaluate(session, _with_call(session, request, runs, tables, call))
            return inputs is not None and has_matches(session, inputs, collapse)
        finally:
            del session.notes[noted:]

    def with_pairs(question: Question) -> Question:
        repeats = any("collapse" in x for x in question.calls)
        run, *_ = runs.values()
        named = request.rules.columns
        pairs = find_pairs(run, tables["qrels"], named["query"], named["item"], repeats)
        # What a doubt found is SQL, which no pair of names says.
        own = [x for x in question.calls if "(" in str(x.get("item"))]
        question.calls = own + pairs + [x for x in question.calls if x not in pairs + own]
        return question

    if question.unnamed:  # columns were read under names that nobody wrote
        unnamed = Question(error.text, headers_call(request))
        if (answer := verified(unnamed, gives_number, tried)).calls:
            return answer
    asks_query = bool(question.calls) and all("query" in x for x in question.calls)
    if tables["qrels"] is None and (question.otherwise or question.blanks) and asks_query:
        question.calls.append({"query": "1"})  # all rows are one ranking
    question.calls += _cast_to_days(opened) if len(opened) == 2 else []
    if parts := [*_find_parts(session, runs, tables["qrels"])]:
        label = "qrels" if isinstance(parts[0]["part"], list) else "run"
        asked = Question(f"{label} is one object. Which part has a row per query?", parts)
        answer = verified(asked, gives_number, tried)
        if answer.calls:
            return answer
    nested = bool(runs) and any(map(_holds_lists, opened))
    if nested and _asks_ids(question):
        question = with_pairs(question)
    answer = verified(question, gives_number, tried)
    if nested and not _asks_ids(question) and not answer.calls and not answer.open:
        question.calls = []
        answer = verified(with_pairs(question), gives_number, tried)
    by_chance = nested and answer.calls and all(map(_matches_by_chance, answer.calls))
    if by_chance and session.value(f"SELECT count(*) < {FEW_QUERIES} FROM {opened[0].sql}"):
        answer.text += ". The values do not decide"
    if not isinstance(error, Question):
        if sorted(map(repr, answer.calls)) == sorted(map(repr, question.calls)):
            answer.text, answer.remedies = error.text, error.remedies
        return answer if answer.calls or answer.open else error
    return list_columns(session, answer, opened, bool(runs))


def _find_parts(
    session: Session, runs: Mapping[str | None, Table], qrels: Table | None
) -> Iterator[Call]:
    """The parts of objects with one row that have a row per query."""
    for n, table in enumerate([*runs.values(), qrels] if len(runs) == 1 else []):
        if not table or table.known("query"):
            continue
        if session.value(f"SELECT count(*) = 1 FROM {table.sql}"):
            for name, kind in table.columns.items():
                of_keys = "STRUCT(" in kind[7:] and len(fields_of(kind)) > 1
                if kind.startswith("STRUCT(") and (kind.endswith("[]") or of_keys):
                    yield {"part": [None, name] if n else name}


def _cast_to_days(tables: Sequence[Table]) -> list[Call]:
    """How to compare days as ids where one table has their times."""
    names, kinds = [x.find("item") for x in tables], list[str]()
    if None in names:
        return []
    kinds = [x.columns[str(name)] for x, name in zip(tables, names, strict=True)]
    times = [x.startswith("TIMESTAMP") for x in kinds]
    if sorted(times) != [False, True] or "DATE" not in kinds:
        return []
    days = [f"CAST({quote_name(str(x))} AS DATE)" if y else str(x)
            for x, y in zip(names, times, strict=True)]  # fmt: skip
    return [{"item": days}]


def _has_other_role(request: Request, call: Call) -> bool:
    """Reads a call a column that the caller has named for another role?"""
    rules = request.rules
    named = {**rules.columns, "system": rules.system}
    for role in (x for x in named if x in call and named[x] is None):
        values = call[role] if isinstance(call[role], list) else [call[role]]
        others = [y for x, y in named.items() if x != role and isinstance(y, str)]
        if any(x in others for x in values):
            return True
    return False


def _asks_ids(question: Question) -> bool:
    """Does a question, or an error without one, leave open which columns are the ids?"""
    calls = [*question.calls, *question.open]
    return not calls or any({"query", "item", "collapse"} & {*x} for x in calls)


def _matches_by_chance(call: Call) -> bool:
    """Are ids of a call numbers that are equal by chance in few queries, by their names?"""
    names = [x for x in call.get("item") or () if "," not in x and isinstance(call["item"], list)]
    return any(says(x, "small number") for x in names)


def _holds_lists(table: Table) -> bool:
    """Has a table lists, also as texts or as a column of each place?"""
    return table.text or any(x.values for x in find_paths(table).values())


def _with_call(
    session: Session,
    request: Request,
    runs: Mapping[str | None, Table],
    tables: Mapping[str, Table | None],
    call: Call,
) -> Request:
    """The request with the arguments of a call, of a sample of the queries."""
    options = {**request.rules.options, **call}
    if is_open(call):  # any grades do, to see what is read
        name, words = call["rel"]
        options["rel"] = (name, {x: n for n, x in enumerate(words)})
    own: dict[str, Any] = {x: options.pop(x) for x in ("train", "seen") if x in call}
    part = options.pop("part", None)
    names = [part, None] if isinstance(part, str) else part or [None, None]
    given = (request.run, request.qrels)
    data = [pick_part(x, name) for x, name in zip(given, names, strict=True)]
    if columns := options.pop("columns", None):
        data = [name_columns(x, columns) for x in data]
    opened = [None if x is old else session.table(x, label)
              for x, old, label in zip(data, given, ("run", "qrels"), strict=True)]  # fmt: skip
    if "system" in call and any(x.trec for x in runs.values()):  # which tags only then
        opened[0] = session.table(request.run, "run")
    runs = {None: opened[0]} if opened[0] else runs
    tables = {**tables, "qrels": opened[1]} if opened[1] else tables
    options.pop("judge_rel", None)
    rules = RankingRules.of(options, _with_call, SpanOptions)
    key = rules.columns["query"]
    sampled = {x: _sample(table, key) for x, table in runs.items()}
    run: Any = sampled[None] if [*sampled] == [None] else sampled
    qrels = tables["qrels"] and _sample(tables["qrels"], key)
    others: dict[str, Any] = {x: tables[x] for x in ("attributes", "train")}
    return replace(request, run=run, qrels=qrels, rules=rules, output=None, **others, **own)


def _sample(table: Table, key: Any) -> Table:
    """The table with some of its queries, if it has many rows."""
    count = table.value("count(*)")
    lists = any(map(is_nested, table.columns.values()))
    if count <= (_QUERIES if lists else _ROWS):
        return table
    names = [key] if isinstance(key, str) else [*(key or ())]
    names = [x for x in names if isinstance(x, str) and table.has(x)][:1]
    if not names and key is None:
        try:
            names = [x for x in [table.find("query")] if x]
        except RankqlError:
            names = []
    if not names:
        sql = f"(FROM {table.sql} LIMIT {_QUERIES})"
        return _load(table, sql) if lists else table
    queries = table.value(f"approx_count_distinct({quote(names[0])})")
    every = max(queries // _QUERIES, count // (10 * _ROWS)) + 1
    where = f"hash(CAST({quote(names[0])} AS VARCHAR)) % {every} = 0"
    return _load(table, f"(FROM {table.sql} WHERE {where})")


def _load(table: Table, sql: str) -> Table:
    """The table of a sample, which many queries read."""
    return replace(table, sql=table.load(sql, text=table.text).sql)


def headers_call(request: Request) -> list[Call]:
    """The call that names the columns of the run and of the judgments; none if they have others."""
    rows = [_read(x) for x in (request.run, request.qrels)]
    if not rows[0] or len(rows[0][0]) not in (2, 3):
        return []
    if len(rows[0][0]) == 2 and not any(parse_number(x) is not None for x in rows[0][0]):
        return []  # the first line may be names
    names, more = ["query", "item", "score"][: len(rows[0][0])], {}
    if len(names) == 3 and _counts_from_zero(rows[0]):
        names, more = ["query", "item", "rank"], {"pos": "rank + 1"}
    lists = [names]
    if rows[1] and len(rows[1][0]) in (2, 3):
        lists.append(["query", "item", "rel"][: len(rows[1][0])])
    return [{"columns": lists if len(lists) > 1 else names, **more}]


def _read(data: Any) -> list[list[str]]:
    """The first rows of a text file, by tabs where it has them."""
    if not isinstance(data, str | os.PathLike) or not os.path.isfile(data):
        return []
    with open(data, encoding="utf-8", errors="replace") as file:
        lines = [x.rstrip("\r\n") for x, _ in zip(file, range(_LINES), strict=False)]
    mark = next((x for x in "\t,;" if lines and x in lines[0]), " ")
    rows = [x.split(mark) for x in lines if x]
    return rows if len({*map(len, rows)}) == 1 else []


def _counts_from_zero(rows: Sequence[Sequence[str]]) -> bool:
    """Does the third column count 0, 1, 2 for each query?"""
    places: dict[str, list[float | None]] = {}
    for query, _, place in rows:
        places.setdefault(query, []).append(parse_number(place))
    return all(x == [*range(len(x))] for x in places.values())
