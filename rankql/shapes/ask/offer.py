"""A question with calls that answer it, each tried, or with the columns that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rankql.core.base.errors import Call, Question, RankqlError, Ungraded
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import infer_types
from rankql.core.tables.reading import OtherTables
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Runs
from rankql.shapes.ask.columns import with_columns
from rankql.shapes.ask.structure import name_columns, name_grades
from rankql.shapes.ask.trials import has_matches, verified


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
        of_runs = {x: infer_types(session, table) for x, table in runs.items()}
        others = {x: table and infer_types(session, table) for x, table in tables.items()}
        try:  # with types, few columns may have a role
            read(of_runs, others, options)
        except Question as typed:
            asked, typed.hint = typed, question.hint
            runs, tables = of_runs, others
        except RankqlError:
            pass
    item = options["item"]
    if isinstance(item, list | tuple) and len(item) == 2:  # the question is about the first
        asked.calls = [
            {x: [y, item[1]] if x == "item" and isinstance(y, str) else y for x, y in call.items()}
            for call in asked.calls
        ]
    if runs and all({*x} <= {"query", "item"} for x in asked.calls):
        calls = name_columns(session, next(iter(runs.values())), tables["qrels"], options)
        asked.calls = calls + [x for x in asked.calls if x not in calls]
    if isinstance(asked, Ungraded) and runs and not (asked.calls or tables["qrels"]):
        asked.calls = name_grades(session, next(iter(runs.values())), options)
    session.opened = {**runs}, {**tables}
    if session.defers:
        return asked

    def is_answer(call: Call) -> bool:
        noted, named = len(session.notes), {**options, **call}
        try:
            return has_matches(session, read(runs, tables, named), named["collapse"] is not None)
        finally:
            del session.notes[noted:]

    tried = verified(asked, is_answer)
    opened = [*runs.values(), *filter(None, [tables["qrels"]])]
    return with_columns(session, tried, opened, bool(runs))
