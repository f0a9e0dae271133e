"""Grades that were not read: every judged item has the same grade, and a column may say more.

If no column is called like a grade, a question names those that may be it; after rel='1', a note
does. With one grade for all, a metric says only whether judged items are on top. If nothing else is
shown, it is 1 whatever the order, so that neither a comparison nor a gate sees a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rankql.core.base.column_names import ROLES, list_side, number_kind, says
from rankql.core.base.errors import Call, Question, as_arguments, parse_number
from rankql.core.base.text import join_words
from rankql.core.evaluation.checks.looks import LAST
from rankql.core.evaluation.checks.record import UNREAD_GRADES, Check, Evidence, Facts, write
from rankql.core.metrics.macros import quote
from rankql.core.metrics.metric_record import reads_grades
from rankql.core.tables.candidates import entries_of, is_map
from rankql.core.tables.grades import (
    CONSTANT,
    LEVELS,
    find_unread,
    holds,
    is_amount,
    may_be_grade,
)
from rankql.core.tables.tables import Table, id_text, is_number, is_text, label_in, quote_name
from rankql.shapes.doubts.sample import Pair, Reading
from rankql.shapes.doubts.words import are_graded, map_words

# What stands between ids in a cell, and a number at the end of one, after a mark.
_BETWEEN, _END = "[;|,]", r"\s*[:=(^/]\s*([0-9.]+)\)?\s*$"
# Labels in lists have at most so many different values.
_MOST_LABELS = 20
# Every relevant item may be on top by merit, unless nearly all that is shown is judged.
_JUDGED = 0.9
_TEXT = (
    "every judged item counts as equally relevant, and {name}, which is not read, has other "
    "values within {count:,} of {total:#query} ({values}). If {name} is the grade, pass {call}"
)


def possible_grades(pair: Pair) -> Sequence[str]:
    """Numbers and labels next to judgments that have no grade: which call says what they are."""
    side = pair.qrels
    if side is None or "rel" in pair.named or not side.table.is_assumed("rel"):
        return ()
    if side.table.origins[side.table.roles["rel"]] != "1 for every row":
        return _ask_about_pairs(pair, side)
    taken = pair.run.used if pair.is_one_table else set()
    free = {**side.free, **_nested_labels(side, taken)}
    places = pair.run.table.sources([pair.run.table.roles.get("pos", "")])
    item = side.item if side.column else ""
    doubtful = [
        x for x, (value, kind) in free.items()
        if x not in {*taken, *places} and (not side.column or x.startswith(f"{side.column}."))
        and (is_number(kind) or is_text(kind)) and kind[-1:] != "]"
        and not says(x, "beside ids") and number_kind(x) != "place"
        and may_be_grade(side.table, x, value, side.rows, side.query, item)
    ]  # fmt: skip
    if not pair.is_one_table:  # a word of both tables is a part of a key, or a property
        doubtful = [x for x in doubtful if not (x in pair.run.free and is_text(free[x][1]))]
    doubtful = [x for x in doubtful if not says(x, "annotator")] or doubtful
    if ids := [x for x in doubtful if _are_items(pair, side, *free[x])]:
        words = (
            f"are the values of {join_words(ids)}, which the run has as items, the judged items?"
        )
        raise Question(side.note(words), [{"item": x} for x in ids])
    texts, filled, blank, graded = list[str](), list[Call](), list[Call](), False
    for x in sorted(doubtful, key=lambda x: says(x.rpartition(".")[2], "event")):
        value, kind = free[x]
        sql = f"SELECT DISTINCT {value} FROM {side.rows} WHERE {value} IS NOT NULL ORDER BY 1"
        found = [str(label) for (label,) in side.session.rows(f"{sql} LIMIT 10")]
        if is_text(kind) and any(parse_number(label) is None for label in found):
            texts.append(x)
            filled, blank = map_words(x, found)
            graded = are_graded(found)
    values = {x: (free[x][0], side.rows) for x in doubtful if x not in texts}
    ways = ("max({})", "sum({})") if side.table.before else ("{}",)  # of items that repeat
    calls: list[Call] = [*filled, *({"rel": way.format(x)} for x in values for way in ways)]
    own = [x for x in side.source.columns if x not in taken]
    lists = [x for x in own if _are_grades(pair, side, x)]
    maps = {x: call for x in own if (call := _grades_of_ids(pair, side, x))}
    doubtful += [*lists, *maps]
    if not doubtful:
        return ()
    calls += [*({"rel": x} for x in lists), *maps.values()]
    if not blank or not graded or values:
        calls.append({"rel": "1"})
    elif not calls:
        blank.append({"rel": "1"})
    values |= {x: (f"unnest({quote(x)})", side.sample) for x in lists}
    amounts = bool(values) and not maps and all(
        x in side.free and (says(x, "measure") or is_amount(side.table, x, *y))
        for x, y in values.items()
    )  # fmt: skip
    verb = "Is" if len(doubtful) == 1 else "Are"
    of_item = "" if side.name == "1" else f" of {side.name}"  # one item per query
    raise Question(
        f"No grade column in {side.table.label}. {verb} {join_words(doubtful)} the grade{of_item}?",
        sorted(calls, key=lambda call: call != {"rel": "1"}) if amounts else calls,
        open=blank,
        known=ROLES["rel"],
    )


def grades_in_ids(pair: Pair) -> Iterator[str]:
    """Ids of judgments that end in a number, without which the run has them: y:2, y=2 or y(2)."""
    run, side = pair.run, pair.qrels
    if side is None or not (side.column and is_text(side.table.columns[side.table.roles["item"]])):
        return  # of a dict or of rows, ids are not looked at
    if side.marks[0]:
        return
    stem, ends = f"regexp_replace(i, '{_END}', '')", f"regexp_matches(i, '{_END}')"
    cells = side.column in side.source.origins  # whose ids may not have been split
    each = f"unnest(string_split_regex(i, '{_BETWEEN}'))" if cells else "i"
    sql = f"""SELECT min(i) FROM (SELECT q, {each} AS i FROM {side.items})
        WHERE {ends} AND (q, {stem}) IN (FROM {run.items})
        AND NOT EXISTS (FROM {run.items} WHERE {ends})"""
    if (example := side.value(sql)) is None:
        return
    text = f"ids such as {example!r} are in the run without their end. If it is a grade, pass "
    lists = quote_name(side.column)
    lists = f"string_split_regex({lists}, '{_BETWEEN}')" if cells else lists
    grade = f"coalesce(TRY_CAST(regexp_extract(x, '{_END}', 1) AS DOUBLE), 1)"
    pairs = f"list_transform({lists}, lambda x: (regexp_replace(trim(x), '{_END}', ''), {grade}))"
    call = pair.named_items(qrels=f"map_from_entries({pairs})")
    yield side.note(f"{text}{as_arguments(call)}")


def _are_items(pair: Pair, side: Reading, value: str, kind: str) -> bool:
    """Are they ids of the run: most of them, most but once, and more than grades would be?"""
    run, text = pair.run, id_text(value, kind)
    known = f"v IN (SELECT CAST({run.item} AS VARCHAR) FROM {run.rows})"
    ids = f"2 * count(DISTINCT v) FILTER ({known}) >= count(DISTINCT v)"
    once = "2 * count(DISTINCT v) > count(v)"
    many = "true" if is_text(kind) else f"count(DISTINCT v) > {LEVELS}"
    return holds(side.table, f"{ids} AND {once} AND {many}", text, side.rows)


def _nested_labels(side: Reading, taken: set[str]) -> dict[str, tuple[str, str]]:
    """Labels in lists or in their objects, of a row per item, as expressions with their types."""
    labels: dict[str, tuple[str, str]] = {}
    for name, (column, kind) in side.free.items() if not side.column else ():
        found = label_in(name, kind) if kind.endswith("]") and name not in taken else None
        if found is None:
            continue
        path, of_label = found
        counts = f"max(len({column})) > 1, count(DISTINCT {column}{path})"
        several, different = side.session.row(f"SELECT {counts} FROM {side.rows}")
        label = f"{quote_name(name)}{path}"
        if several:
            every = f"list_transform({quote_name(name)}, lambda x_: x_{path.removeprefix('[1]')})"
            label = f"CAST({every} AS VARCHAR)" if is_text(of_label) else f"list_max({every})"
        if different <= _MOST_LABELS:
            labels[label] = label if several else f"{column}{path}", of_label
    return labels


def _ask_about_pairs(pair: Pair, side: Reading) -> Sequence[str]:
    """Are the second parts of pairs the grades, or a part of the key that the run has too?"""
    run, key = pair.run, "list_transform({}, lambda x: x[1] || ', ' || x[2])".format
    fields = [x.rpartition(".")[2] for x in run.free if run.column]
    keys = [f"{run.name}, {x}" for x in fields if says(x, "part")]
    calls: list[Call] = [{"rel": f"{side.column}.2"}, {"rel": "1"}]
    if "item" in pair.named:
        calls, keys = [], [run.name] * (run.kind.startswith("STRUCT(") and "," in run.name)
    keys += [key(quote_name(run.column))] * ("[][]" in run.kind and bool(calls))
    calls += [pair.named_items(x, key(quote_name(side.column))) for x in keys]
    if not calls or not side.kind.endswith("[][]"):
        return ()
    raise Question(side.note(f"is the second part of each pair in {side.column} the grade?"), calls)


def _are_grades(pair: Pair, side: Reading, name: str) -> bool:
    """Is it a list with a number for each judged id, and not for each id of the run?"""
    kind, lists, ranked = side.source.columns[name], side.table.lists, pair.run.table.lists
    if not lists or name in side.used or not (kind.endswith("]") and is_number(kind[:-2])):
        return False
    judged = list_side(name) == "qrels" or says(name, "rel")
    named = number_kind(name)
    if named == "place" or (not judged and (says(name, "ordering") or named == "amount")):
        return False
    value = quote(name)
    fits = f"bool_and(len({value}) IS NOT DISTINCT FROM len({lists.values}))"
    if ranked and pair.is_one_table and pair.run.kind.endswith("]") and not judged:
        fits += f" AND NOT bool_and(len({value}) IS NOT DISTINCT FROM len({ranked.values}))"
    differ = holds(side.table, f"NOT ({CONSTANT})", f"unnest({value})", side.sample)
    return differ and bool(side.value(f"SELECT {fits} FROM {side.sample}"))


def _grades_of_ids(pair: Pair, side: Reading, name: str) -> Call:
    """How to read an object {id: grade} that has all judged ids; nothing if it is none.

    One that has more ids is a table of judgments. One that has all ids of the run too is a score,
    unless its name says that it has grades.
    """
    lists, ranked = side.table.lists, pair.run.table.lists if pair.is_one_table else None
    kind, entries = number_kind(name), f"map_from_entries({entries_of(name)})"
    if not lists or name in side.used or not is_map(side.source, name) or kind == "amount":
        return {}
    ids = "list_transform({0.values}, lambda x_: CAST({0.sql} AS VARCHAR))".format
    judged, shown = ids(lists), ids(ranked) if ranked else "[]"
    fits = [f"list_has_all(map_keys({entries}), {x})" for x in (judged, shown)]
    fits.append(f"cardinality({entries}) = len({judged})")
    sql = ", ".join(f"bool_and(coalesce({x}, {judged} IS NULL))" for x in fits)
    has_all, has_shown, same = side.session.row(f"SELECT {sql} FROM {side.sample}")
    ranks = says(name, "ordering") or (has_shown and ranked is not None)
    ranks = ranks and kind != "grade" and list_side(name) != "qrels"
    scale = "min(n) >= 0 AND (max(n) <= 1 OR (bool_and(n = floor(n)) AND count(DISTINCT n) < 12))"
    scale += f" AND NOT ({same} AND {CONSTANT})"
    value = f"unnest(map_values({entries}))"
    if not has_all or ranks or not holds(side.table, scale, value, side.sample):
        return {}
    return {"rel": name} if same else pair.named_items(qrels=name)


def note_unread_grades(table: Table) -> None:
    """Note on labels that no role has, where nothing is shown."""
    for facts in find_unread(table):
        table.note(write(_TEXT, facts), UNREAD_GRADES)


def _unread_grades(evidence: Evidence) -> Iterable[Facts]:
    """Columns that may have the grades, where nearly all that is shown is judged.

    A warning if a gate should not rely on metrics that are 1 throughout.
    """
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    request, metrics = evaluation.request, evaluation.metrics
    graded = [x for x in metrics if not (x.record and x.record.reads_judged)]
    if metrics and not (graded and reads_grades(graded)):
        return
    found = [x for y in evidence.inputs.judging for x in find_unread(y)]
    if not found:
        return
    judged = "(SELECT *, rel IS NOT NULL AS known FROM run)"
    if inputs.qrels is not None:
        judged = """(SELECT run.*, known IS NOT NULL AS known
            FROM run SEMI JOIN qrels USING (query) LEFT JOIN
            (SELECT DISTINCT query, item, true AS known FROM qrels) USING (query, item))"""
    place, keys = "-score" if inputs.scored else "pos", inputs.keys
    k = max((metric.k or LAST for metric in metrics), default=evidence.k)
    sql = f"""SELECT sum(n), sum(j), count(*), count(*) FILTER (j > 1) FROM
        (SELECT count(*) AS n, count(*) FILTER (known) AS j FROM (SELECT *,
            row_number() OVER (PARTITION BY {keys} ORDER BY {place}) AS r FROM {judged}
            WHERE {place} IS NOT NULL) WHERE r <= {k} GROUP BY {keys})"""
    shown, known, lists, several = evidence.sample.fetch(sql)[0]
    named = request is not None and "rel" in request.rules.options
    for facts in found if lists and known >= _JUDGED * shown else ():
        decides = 2 * several >= lists and (named or facts["graded"])
        yield {**facts, "level": "warning" if decides or request is None else "note"}


CHECKS = (
    Check(
        UNREAD_GRADES, "evaluation", "warning", _TEXT, _unread_grades,
        why="Metrics cannot tell a good order from a bad one.",
    ),
)  # fmt: skip
