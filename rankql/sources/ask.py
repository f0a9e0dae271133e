"""Calls that answer a question, each tried before it is offered.

A call counts if it reads the tables, matches a judged item, and leaves no item twice in a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb

from rankql.errors import Call, Question, RankqlError

# More calls are a list to read, not an answer; so many are tried, of each further question fewer,
# and so many questions are answered by one call.
_OFFERED, _TRIED, _FURTHER, _QUESTIONS = 3, 12, 4, 4


def verified(question: Question, read: Callable[[Call], bool]) -> Question:
    """The question with the calls that work.

    read: run a call, and say whether it matches and has unique rows. It may raise.
    """
    calls: list[Call] = []
    for call in question.calls[:_TRIED]:
        calls += [x for x in _try(call, read) if x not in calls]
        if len(calls) >= _OFFERED:
            break
    return type(question)(question.text, calls[:_OFFERED], question.hint, question.otherwise)


def _try(call: Call, read: Callable[[Call], bool], questions: int = _QUESTIONS) -> Iterator[Call]:
    """The call if it works; if it leads to another question, with the first answer to that."""
    try:
        if read(call):
            yield call
    except Question as question:
        for more in question.calls[:_FURTHER] if questions > 1 else ():
            pairs = {x: [call[x], y] for x, y in more.items() if isinstance(call.get(x), str)}
            if works := [*_try({**call, **more, **pairs}, read, questions - 1)]:
                yield from works
                break
    except (RankqlError, duckdb.Error):
        return
