"""The account: what may a column mean that no role has, and what do ids say that match nothing?

Each of `DOUBTS` is a question that stops the evaluation, or a note. A role that the caller names is
not asked about. What is neither is named as not read.

Doubts look at a sample of queries, by the hash of their id as text: those of both tables are the
same, and no part of a file is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TypeAlias

from rankql.core.base.column_names import list_side, says, words_of
from rankql.core.base.errors import Call, Question, as_arguments
from rankql.core.base.text import format_queries, join_words
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import VECTOR
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.numbers.order import order_of_scores
from rankql.core.tables.reading import note_doubts
from rankql.core.tables.session import Session
from rankql.core.tables.tables import (
    Table,
    id_text,
    is_number,
    is_text,
    quote_name,
)
from rankql.shapes.choose.cells import find_items
from rankql.shapes.doubts.rivals import (
    found_list,
    ids_beside_lists,
    other_level,
    other_orders,
    part_of_key,
    shared_column,
    times_of_rankings,
)
from rankql.shapes.doubts.sample import Pair, Reading
from rankql.shapes.doubts.unread_grades import grades_in_ids, possible_grades
from rankql.shapes.open import plain

# Of more queries, about so many are looked at.
_QUERIES = 2000
# What stands between several ids in one text.
_BETWEEN = r"[;|,\s]+"


# What asks or notes something about a run and its judgments.
Doubt: TypeAlias = Callable[[Pair], Iterable[str]]


def account_for(session: Session, inputs: Inputs, named: frozenset[str]) -> Inputs:
    """The inputs with notes on what no role has, and the names of what was not read.

    What may change the result is a question. named: the arguments of the caller.
    """
    is_known = all(table.is_accounted for table in inputs.tables)
    doubts = [_collections, _order_of_scores] if is_known else DOUBTS
    doubts = doubts if inputs.runs else [possible_grades]  # of judgments alone
    notes = note_doubts(session, _list_doubts(session, inputs, named, doubts))
    if not is_known:
        inputs = _name_unread(session, inputs)
    return replace(inputs, notes=[*inputs.notes, *notes])


def _list_doubts(
    session: Session, inputs: Inputs, named: frozenset[str], doubts: Sequence[Doubt]
) -> Iterator[Callable[[], Iterable[str]]]:
    for table in inputs.runs.values() or inputs.judging:
        every = cache(lambda table=table: _count_queries(table) // _QUERIES + 1)
        judged = Reading(session, inputs.qrels, every) if inputs.qrels else None
        pair = Pair(Reading(session, table, every), judged, named)
        yield from (partial(doubt, pair) for doubt in doubts)


def _count_queries(table: Table) -> int:
    if table.with_lists:
        return int(table.with_lists.value("count(*)"))
    key = quote(table.roles["query"])
    return int(table.value(f"approx_count_distinct({key})"))


def _name_unread(session: Session, inputs: Inputs) -> Inputs:
    """The inputs with the names of the columns that were not read."""
    attributes = [*inputs.by, *([inputs.system] if inputs.system else [])]
    read = {*attributes, *(x for table in inputs.tables for x in table.sources(attributes))}
    sides = [Reading(session, table) for table in inputs.tables]
    runs, others = sides[: len(inputs.runs)], sides[len(inputs.runs) :]
    used: dict[str, set[str]] = {}
    for side in sides:
        used.setdefault(side.source.sql, {*map(str.lower, read)}).update(map(str.lower, side.used))
    shared = [side.source.sql for side in runs]
    for side in others:  # the relevant ids of all runs are read
        for sql in shared if side.source.sql in shared else ():
            used[sql].update(map(str.lower, side.used))
    said, tables = set[str](), list[Table]()
    for side in sides:
        known = used[side.source.sql]
        names = [
            x for x in side.fields
            if x.lower() not in known and not any(x.lower().startswith(f"{y}[") for y in known)
        ]  # fmt: skip
        repeats = side in others and side.source.sql in said  # the lists of a run
        said.add(side.source.sql)
        hidden = side.table.trec or repeats
        tables.append(side.table if hidden else replace(side.table, unread=names))
    named = dict(zip(inputs.runs, tables, strict=False))
    qrels, about = [*tables[len(named) :], None, None][:2]
    if not inputs.qrels:
        qrels, about = None, qrels
    return replace(inputs, runs=named, qrels=qrels, attributes=about)


def _number(sql: str, kind: str) -> str:
    """The number that a value is, NULL if it is none."""
    return f"TRY_CAST({sql} AS DOUBLE)" if is_text(kind) else f"CAST({sql} AS DOUBLE)"


def _collections(pair: Pair) -> Sequence[str]:
    """Files of several collections, which are no ranking together."""
    files, name = pair.run.table.collections, pair.run.table.roles.get("score")
    if files and not {"score", "system"} & pair.named:
        text = f"{join_words(files[:3])} rank the same queries, each from the top, and share no "
        text += "item. Are they parts of one ranking by score?"
        alone = "evaluate each file with its judgments, if they are of several collections"
        raise Question(pair.run.note(text), [{"score": name}] if name else [], others=[alone])
    return ()


def _two_graded_runs(pair: Pair) -> Sequence[str]:
    """Ask whether judgments that have places too, as the run has grades, are a second run."""
    run, qrels = pair.run.table, pair.qrels.table if pair.qrels else None
    if qrels is None or run.label != "run" or run.lists or qrels.lists or "rel" in pair.named:
        return ()
    ranks = [name for role in ("pos", "score") for name in qrels.known(role)]
    if not (run.known("rel") and ranks):
        return ()
    opened = run.session.opened
    if opened and {None} == {*opened[0]}:
        tables = [opened[0][None], opened[1]["qrels"] or run]
        columns = [sorted(x.own_columns) for x in tables]
        names = ", ".join(map(quote, columns[0]))
        if columns[0] == columns[1]:
            own, other = (f"SELECT {names} FROM {x.sql}" for x in tables)
            if not run.session.rows(f"{other} EXCEPT {own} LIMIT 1"):
                return ()  # rows of one table, passed as both
    ids = (f"SELECT {x.query}, {x.item} FROM {x.table.sql}" for x in (pair.run, pair.qrels) if x)
    if not run.session.rows(f"{' INTERSECT '.join(ids)} LIMIT 1"):
        return ()
    call = {"rel": qrels.roles["rel"]}
    both = "pass a dict of both runs without qrels, such as {'a': a, 'b': b}; on the command line "
    question = Question(
        f"run and qrels both have grades and places ({run.known('rel')[0]}, {ranks[0]}). Is qrels "
        "a second run?",
        [call], others=[f"{both}name them: a=FILE b=FILE"],
    )  # fmt: skip
    question.meanings[as_arguments(call)] = "no, it has the judgments"
    raise question


def _ids_of_two_parts(pair: Pair) -> Sequence[str]:
    """Ask about pairs of an id and a whole number on both sides, as of a document and its page."""
    run, qrels = pair.run.table, pair.qrels.table if pair.qrels else pair.run.table
    paired = run.shape == qrels.shape == "pairs" and "score" in run.roles and qrels is not run
    if not paired or pair.named & {"score", "rel"}:
        return ()
    score, rel = run.roles["score"], qrels.roles["rel"]
    if not (run.columns[score].endswith("INT") and qrels.columns[rel].endswith("INT")):
        return ()
    items = [f"{x.roles['item']}, {y}" for x, y in ((run, score), (qrels, rel))]
    calls: dict[str, Call] = {
        "a part of the id, such as a page": {"item": items, "rel": "1", "order": "rows"},
        "the score, and the grade": {"score": score, "rel": rel},
    }
    keys = (f"SELECT {x.query}, {x.item}, {quote(y)} FROM {x.table.sql}"
            for x, y in ((pair.run, score), (pair.qrels, rel)) if x)  # fmt: skip
    question = Question("run and qrels have pairs of an id and a whole number. What is it?")
    if pair.run.session.rows(f"{' INTERSECT '.join(keys)} LIMIT 1"):
        question.calls = [*calls.values()]
        question.meanings = {as_arguments(call): words for words, call in calls.items()}
    else:  # nothing is found as a part of the id, which may be so
        ways = (f"{as_arguments(call)} if it is {words}" for words, call in calls.items())
        question.otherwise = f"Pass {'; '.join(ways)}"
    raise question


def _refuse_other_numbers(pair: Pair) -> Sequence[str]:
    """Refuse judgments that count from 1 the answers of a list, which are counted from 0."""
    run, qrels = pair.run, pair.qrels
    if qrels is None or run.table.origins.get(run.table.roles["query"]) not in plain.COUNTED:
        return ()
    ends = "min(q) = 1 AND max(q) >="
    rows = f"(SELECT TRY_CAST({qrels.query} AS BIGINT) AS q FROM {qrels.table.sql})"
    rankings, number = (run.table.with_lists or run.table).sql, f"CAST({run.query} AS BIGINT)"
    count = f"(SELECT CASE min({number}) WHEN 0 THEN max({number}) + 1 END FROM {rankings})"
    if run.value(f"SELECT {ends} {count} FROM {rows}"):
        raise Question(
            run.note("the answers are numbered from 0, and the queries of qrels from 1"),
            otherwise="Pass dict(enumerate(answers, 1)), or number the queries of qrels from 0",
        )
    return ()


def _order_of_lists(pair: Pair) -> Iterator[str]:
    """Numbers inside or next to a list that run against its order."""
    run, lists = pair.run, pair.run.table.lists
    if not lists or not run.kind.endswith("]"):
        return
    numbers = {
        x: f"list_transform({lists.values}, lambda x_: {_number(*field)})"
        for x, field in run.fields.items()
        if x.startswith(f"{run.column}.") and (is_number(field[1]) or is_text(field[1]))
        and says(x, "ordering")
    }  # fmt: skip
    if lists.number and not lists.numbers:
        numbers["the number"] = f"list_transform({lists.values}, lambda x_: {lists.number})"
    judged = pair.qrels.used if pair.qrels else set()
    for x, kind in run.source.columns.items():
        is_list = kind.endswith("]") and is_number(kind[:-2]) and x not in {run.column, *judged}
        if is_list and says(x, "ordering") and list_side(x) != "qrels":
            numbers[x] = f"CASE WHEN len({quote(x)}) = len({lists.values}) THEN {quote(x)} END"
    if not numbers or {"score", "pos", "order", "descending"} & pair.named:
        return
    counts = []
    for x, values in numbers.items():
        known = f"list_filter({values}, lambda y_: y_ IS NOT NULL)"
        order = "ASC" if says(x, "lowest first") else "DESC"
        counts.append(f"count(*) FILTER ({known} <> list_sort({known}, '{order}'))")
        counts.append(f"count(*) FILTER (list_min({known}) < list_max({known}))")
    found = run.session.row(f"SELECT {', '.join(counts)} FROM {run.sample}")
    wrong = dict(zip(numbers, found[::2], strict=True))
    agrees = [x for x, n in zip(numbers, found[1::2], strict=True) if n and not wrong[x]]
    for x, count in wrong.items():
        if not count:
            continue
        queries = format_queries(count) + run.extent
        text = f"{run.column} is not in the order of {x} in {queries}"
        if agrees and x != lists.numbers:
            yield run.note(f"{text}. The order of the list counts")
            continue
        named = {} if x == "the number" else {"score": x}
        ways = [{**named, "descending": way} for way in (True, False)]
        at = says(
            x.rpartition(".")[2].removesuffix("s"), "prediction"
        )  # which ranks after the list
        text += ". Is the list the ranking, or does the number rank?"
        raise Question(run.note(text), [*ways[:at], {"order": "list"}, *ways[at:]])


def _order_of_scores(pair: Pair) -> Iterator[str]:
    return order_of_scores(pair.run.table, pair.named)


def _split_by_type(pair: Pair) -> Sequence[str]:
    """Numbers that dlt has in several columns, one for each type."""
    for side in filter(None, (pair.run, pair.qrels)):
        for role in {"score", "rel"} - pair.named:
            name = side.table.roles.get(role, "")
            if parts := [x for x in side.free if x.startswith(f"{name}__v_")]:
                text = f"{join_words([name, *parts])} are one column, split by type. Read them all?"
                every = f"coalesce({', '.join(map(quote_name, (name, *parts)))})"
                raise Question(side.note(text), [{role: every}, {role: name}])
    return ()


def _other_lists(pair: Pair) -> Iterator[str]:
    """Other lists with ids of the run."""
    run, qrels = pair.run, pair.qrels
    if qrels is None or not (run.column or qrels.column):
        return
    known = [says(run.column, "retrieved"), says(qrels.column, "relevant")]
    for side in [run] if pair.is_one_table else [run, qrels]:
        for name, kind in side.source.columns.items():
            if kind[-1:] != "]" or name in run.used | qrels.used or VECTOR.fullmatch(kind):
                continue
            words = words_of(name)
            judged = list_side(name) == "qrels"
            if "not" in words and "forbidden" not in pair.named:
                yield (
                    f"{side.table.label}: {name} is not read. If its items must not be shown, pass "
                    f"forbidden={name!r}"
                )
            if says(name, "excluded") and side is qrels and "forbidden" not in pair.named:
                query, rows = side.table.sources([side.table.roles["query"]])[0], side.table.label
                yield side.note(
                    f"{name} is not read. To leave its ids out of the ranking, pass them as "
                    f"train=pl.DataFrame({rows}).select({query!r}, {qrels.name}={name!r}), "
                    "seen='drop'"
                )
            if says(name, "not relevant") or (judged and side is run and not pair.is_one_table):
                continue
            if kind.endswith("[][]") or says(name, "ordering"):
                continue
            try:
                ids = find_items(side.source, "retrieved", name, set())
            except Question:
                continue
            of_id = "DOUBLE" if kind.startswith(("DOUBLE", "FLOAT")) else "VARCHAR"
            other = f"(SELECT {side.query} AS q, {id_text(ids[0].sql, of_id)} AS i FROM (SELECT "
            other += f"*, unnest({quote(name)}) AS x_ FROM {side.sample}))"
            sql = f"""SELECT count(*), count(*) FILTER ((q, i) IN (FROM {run.items})),
                count(*) FILTER ((q, i) IN (FROM {qrels.items})) FROM {other}"""
            count, ranked, relevant = side.session.row(sql)
            known_ids = f"SELECT count(*) FROM {qrels.items}"
            copied = count == relevant and count == side.value(known_ids)
            if copied or not (ranked or (judged and relevant)):
                continue
            if side is run and ranked == count and kind == run.kind:
                same = f"SELECT bool_and({quote(name)} = {quote(run.column)}) FROM {side.sample}"
                if side.value(same):
                    continue
            second = ranked == count == side.value(f"SELECT count(*) FROM {run.items}")
            text = f"{name} has ids of the run too"
            if "item" in pair.named or (all(known) and not judged and not second):
                ranks = list_side(name) == "run"
                call = pair.named_items(run=name) if ranks else pair.named_items(qrels=name)
                yield side.note(f"{text}, and is not read. To read it, pass item={call['item']!r}")
                continue
            calls = [pair.named_items()]
            if pair.is_one_table or side is qrels:
                calls.append(pair.named_items(qrels=name))
            if side is run:
                calls.append(pair.named_items(run=name))
            text += ". Which are the retrieved and the relevant ids?"
            raise Question(side.note(text), calls)


def _odd_ids(pair: Pair) -> Sequence[str]:
    """Words for nothing, and several ids in one element of a list."""
    run, qrels = pair.run, pair.qrels
    if qrels is None or not (run.column or qrels.column):
        return ()
    for side, other in ((qrels, run), (run, qrels)):
        if not side.kind.endswith("]") or "[][]" in side.kind or side.kind.startswith("STRUCT("):
            continue
        if not is_text(side.kind):
            continue
        plain, found = side.marks
        if found is not None:
            name, word = quote_name(side.column), literal(found)
            alone = f"GROUP BY q HAVING list_contains(list(i), {word})"
            beside = f"SELECT 1 FROM {{}} {alone} AND count(*) > 1 LIMIT 1".format
            single = f"SELECT 1 FROM {run.items} {alone} AND count(*) = 1 LIMIT 1"
            is_word = side is qrels or side.session.rows(single)
            if not found.strip():  # no id, whatever stands beside it
                is_id = bool(
                    side.session.rows(f"SELECT 1 FROM {other.items} WHERE i = {word} LIMIT 1")
                )
            else:
                is_id = any(side.session.rows(beside(x.items)) for x in (run, qrels))
            if is_word and not is_id:
                drop = f"list_filter({name}, lambda x: x <> {word})"
                if side.column in side.source.origins:  # several ids per cell
                    drop = f"CASE WHEN {name} = {word} THEN '' ELSE {name} END"
                what = "relevant" if side is qrels else "retrieved"
                text = f"does {found!r} in {side.column} say that no item is {what}?"
                named = {"qrels": drop} if side is qrels else {"run": drop}
                calls = [pair.named_items(**named), pair.named_items()]
                return _ask_or_note(pair, side, text, calls)
        if plain:
            continue
        parts = f"list_filter(string_split_regex(trim(i), '{_BETWEEN}'), lambda p: p <> '')"
        both = f"(SELECT q, list(i) AS ids FROM {other.items} GROUP BY q)"
        sql = f"""SELECT count(*), min(i) FROM (SELECT q, i, {parts} AS ps FROM {side.items}
            WHERE regexp_matches(trim(i), '{_BETWEEN}')) JOIN {both} USING (q)
            WHERE len(ps) > 1 AND NOT list_contains(ids, i) AND list_has_any(ids, ps)"""
        count, example = side.session.row(sql)
        if count:
            split = f"flatten(list_transform({quote_name(side.column)}, lambda x: "
            split += f"string_split_regex(trim(x), '{_BETWEEN}')))"
            calls = [pair.named_items(*((split, "") if side is run else ("", split)))]
            text = f"are {example!r} in {side.column} several ids?"
            return _ask_or_note(pair, side, text, [*calls, pair.named_items()])
    return ()


def _ask_or_note(pair: Pair, side: Reading, text: str, calls: Sequence[Call]) -> Sequence[str]:
    """Ask with calls; of items that the caller names, a note has the first."""
    if "item" in pair.named:
        return [side.note(f"{text} If so, pass {as_arguments(calls[0])}")]
    raise Question(side.note(text), calls)


# In this order; a question ends the reading.
DOUBTS: Sequence[Doubt] = (
    _collections,
    _ids_of_two_parts,
    _refuse_other_numbers,
    _split_by_type,
    shared_column,
    ids_beside_lists,
    times_of_rankings,
    other_orders,
    possible_grades,
    _order_of_lists,
    _order_of_scores,
    part_of_key,
    other_level,
    found_list,
    _other_lists,
    _odd_ids,
    grades_in_ids,
    _two_graded_runs,
)
