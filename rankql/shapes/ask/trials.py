"""Calls that answer a question, each tried before it is offered.

A call counts if it reads the tables, matches a judged item, and leaves no item twice in a query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from rankql.core.base.column_names import is_called, list_side, rank_of, says
from rankql.core.base.errors import Call, Question, RankqlError, as_arguments
from rankql.core.metrics.macros import quote
from rankql.core.metrics.parse import is_metric
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, id_text

# More calls are a list to read, not an answer; so many are tried for an error, fewer for each
# further question, and one call answers so many questions.
_OFFERED, TRIED, _FURTHER, _QUESTIONS = 3, 8, 4, 4


def verified(
    question: Question, read: Callable[[Call], bool], tried: set[str] | None = None
) -> Question:
    """The question with the calls that work.

    read: run a call, and say whether it matches and has unique rows. It may raise.
    tried: the calls that were tried for this error, which count.
    """
    calls: list[Call] = []
    others, once = dict.fromkeys(question.others), set[str]() if tried is None else tried

    def read_once(call: Call) -> bool:
        text = repr(sorted(call.items(), key=str))
        if text in once or len(once) >= TRIED:
            return False
        once.add(text)
        return read(call)

    def try_call(call: Call) -> list[Call]:
        return [*_try(call, read_once, others)]

    likely = _likely(question)
    for call in likely:
        calls += [x for x in try_call(call) if x not in calls]
        if len(calls) >= _OFFERED:
            break
    pairs = [call.get("item") for call in calls]
    for n, call in enumerate(likely):  # one way alone is no answer if the other has an id twice
        item = call.get("item")
        if isinstance(item, list) and item[::-1] in pairs and item not in pairs:
            calls[n:n] = try_call({**call, "collapse": item[0]})
    calls = _without_repeats(calls)
    first = next((n for n, x in enumerate(calls) if is_open(x)), len(calls))
    calls, blank = calls[:first][:_OFFERED], [x for x in calls[first:] if x not in calls[:first]]
    blank = blank[: _OFFERED - len(calls)]
    if not blank:  # as other rows of one item may have other words
        blank = [x for x in question.open if x not in calls]
    answer = copy(question)
    answer.calls, answer.others, answer.open = calls, [*others], blank
    return answer


def is_open(call: Call) -> bool:
    """Lacks a call a value that the caller knows?"""
    return "Ellipsis" in repr(call)


def as_question(error: RankqlError) -> Question:
    """An error as a question: its remedies are the answers, collapse= last and with its gaps."""
    if isinstance(error, Question):
        return error
    if not error.remedies:
        return Question(error.text)
    text, _, rest = error.text.partition(". ")
    calls = sorted(error.remedies, key=lambda call: "collapse" in call)
    calls = [{**x, "positions": "keep"} if "collapse" in x else x for x in calls]
    return Question(text, calls, others=["keep one row of each"] * rest.startswith("Keep one row"))


def _without_repeats(calls: Sequence[Call]) -> list[Call]:
    """The calls without one that another says in more words, or that leaves open which of two."""
    texts = [{*map(repr, x.items())} for x in calls]
    longer = [[n for n, x in enumerate(texts) if y < x] for y in texts]
    extra = {n for each in longer if len(each) == 1 for n in each}
    extra |= {n for n, each in enumerate(longer) if len(each) > 1}
    return [x for n, x in enumerate(calls) if n not in extra]


def _likely(question: Question) -> list[Call]:
    """The calls that make sense by the names of columns, those that read an id of runs last."""
    calls = filter(makes_sense, [*question.calls, *question.open])
    return sorted(calls, key=lambda call: any(says(x, "system") for x in _names(call.get("query"))))


def makes_sense(call: Call) -> bool:
    """May the columns of a call have their roles, by their names, whatever they hold?

    What ranked is no query, but a run_id may be; nor is what was retrieved or is relevant, or the
    item. What orders is no query and no system, and no column is both a system and an id. The fold
    of a log and a page of results are no query alone, and a page is no system. A place in a list is
    no grade, and a time or an id neither grade nor score.
    """
    roles = ("query", "item", "system", "rel", "score")
    queries, items, systems, grades, scores = (_names(call.get(x)) for x in roles)
    if any(says(x, "order") for x in (*queries, *systems)) or says(_first(call), "page"):
        return False
    if {*systems} & {*queries, *items} or {*queries} & {*items}:
        return False
    if any(list_side(x) or (says(x, "system") and not is_called(x, ["run_id"])) for x in queries):
        return False
    if any(says(x, "time") for x in (*grades, *scores)) or any(says(x, "id") for x in scores):
        return False
    places = [re.sub(r"[\d\W]+$", "", x) for x in _names(call.get("pos"))]  # id + 1, qid2
    if any(says(x, "id") or rank_of("query", x) is not None for x in places):
        return False
    plain = [x for x in items if "(" not in x]
    derived = len(items) > 1 and any(says(x, "against") for x in plain)
    if derived or any(says(x, "no grade") for x in grades):
        return False
    sides = [list_side(x) for x in items] if len(set(items)) > 1 else []
    alone = len(set(queries)) == 1 and says(queries[0], "split")
    return not alone and sides[:1] != ["qrels"] and sides[1:] != ["run"]


def _names(value: Any) -> list[str]:
    """The names of an argument: one for all tables, or one for each."""
    values = value if isinstance(value, list | tuple) else [value]
    return [x for x in values if isinstance(x, str)]


def _first(call: Call) -> str:
    """The first column of a call that is a query or a system."""
    return next(iter((*_names(call.get("query")), *_names(call.get("system")))), "")


def _try(
    call: Call, read: Callable[[Call], bool], others: dict[str, None], questions: int = _QUESTIONS
) -> Iterator[Call]:
    """The call if it works; if it leads to another question, with the first answer to that.

    others: what else answers one and cannot be tried.
    """
    try:
        if read(call):
            yield call
    except RankqlError as error:
        question = as_question(error)
        answers = _likely(question)[:_FURTHER] if questions > 1 else []
        for n, more in enumerate(answers):
            if more == {"descending": False} and {"descending": True} in answers[:n]:
                continue  # whether ids match does not depend on the order
            texts = ((x, y) for x, y in more.items() if isinstance(y, str))
            pairs = {x: [call[x], y] for x, y in texts if isinstance(call.get(x), str)}
            both = {**call, **more, **pairs}
            if not makes_sense(both):
                continue
            if works := [*_try(both, read, others, questions - 1)]:
                others |= dict.fromkeys(question.others)
                if more == {"rel": "1"}:  # amounts may be gains on purpose
                    others |= dict.fromkeys(map(_write_grades, answers[n + 1 :]))
                yield from works
                if not is_open(works[0]):
                    break
    except Exception:  # of any kind: what does not work is not offered
        return


def _write_grades(call: Call) -> str:
    """A call as text, and that its grades are those of values."""
    return f"pass {'a grade for each value: ' * is_open(call)}{as_arguments(call)}"


def has_matches(session: Session, inputs: Inputs, collapse: bool) -> bool:
    """Has a run a judged item, a number for each grade, and no item twice in a query? The value of
    a metric, which is that of a query, is neither grade nor score.

    collapse: does the caller keep one row of each item?
    """

    def repeats(table: Table, keys: Sequence[str]) -> bool:
        names = ", ".join(map(quote, keys))
        rows = f"(SELECT DISTINCT * FROM {table.sql} WHERE {quote(keys[-1])} IS NOT NULL)"
        return bool(session.value(f"SELECT count(*) > count(DISTINCT ({names})) FROM {rows}"))

    def shares_item(table: Table) -> bool:
        roles, ids = [x for x in ("query", "item") if x in table.roles], []
        for x in (table, judging):
            *_, last = named = [x.roles[role] for role in roles]
            texts = ", ".join(id_text(quote(y), x.columns[y]) for y in named)
            ids.append(f"(SELECT {texts} FROM {x.sql} WHERE {quote(last)} IS NOT NULL)")
        return bool(session.rows(f"{' INTERSECT '.join(ids)} LIMIT 1"))

    def holds_metric(table: Table, role: str) -> bool:
        name, query = table.roles.get(role, ""), quote(table.roles["query"])
        if not is_metric(name.rpartition(".")[2]):
            return False
        same = f"SELECT {query}, count(DISTINCT {quote(name)}) AS n, min({quote(name)}) AS low "
        same += f"FROM {table.sql} GROUP BY {query}"
        return bool(session.value(f"SELECT max(n) = 1 AND min(low) < max(low) FROM ({same})"))

    (judging, *_) = inputs.judging
    if holds_metric(judging, "rel") or any(holds_metric(x, "score") for x in inputs.runs.values()):
        return False
    name = judging.roles["rel"]
    number = f"TRY_CAST({quote(name)} AS DOUBLE)"
    numbers = f"count({quote(name)}) = count({number})"
    if not session.value(f"SELECT {numbers} AND max({number}) > 0 FROM {judging.sql}"):
        return False
    judged_ids = [judging.roles[x] for x in ("query", "item") if inputs.qrels or x == "query"]
    if inputs.system and not inputs.qrels:
        judged_ids.append(inputs.system)
    tables = [*inputs.runs.values()] if inputs.qrels else []
    if tables and not collapse and not any(map(shares_item, tables)):  # chunks of judged ids
        return False
    constant = judging.computed.get(name) == []  # nothing is judged
    if (inputs.qrels or constant) and repeats(judging, judged_ids):
        return False
    for table in inputs.runs.values():
        keys = inputs.ids(table)
        rows = table.unit == "rows" and "pos" not in table.roles and not inputs.qrels
        if rows and not repeats(table, keys[:1]):
            return False  # a row per query is no ranking
        if pos := table.roles.get("pos"):
            number = table.number("pos")
            sql = f"SELECT min({number}) = 1 AND bool_and({number} = floor({number}))"
            places = [*(x for x in keys if x != table.roles.get("item")), pos]
            # What counts from 0 does so in each query, but not ranks of first hits.
            if pos in table.computed and repeats(table, places[:-1]):
                first = f"count(DISTINCT ({', '.join(map(quote, places[:-1]))}))"
                each = f"SELECT {first} = {first} FILTER ({number} = 1) FROM {table.sql}"
                if not session.value(each):
                    return False
            if not session.value(f"{sql} FROM {table.sql}") or repeats(table, places):
                return False
            in_rows = table.unit == "rows" and table.origins.get(pos) == "order of the rows"
            if in_rows and not repeats(table, places[:-1]):
                return False  # rows in order are no rankings of one item each
        elif score := table.roles.get("score"):
            sql = f"SELECT count({table.number('score')}) = count({quote(score)}) FROM {table.sql}"
            if not session.value(sql):
                return False
        if "item" in table.roles and not collapse and repeats(table, keys):
            return False
    return True
