"""Rivals: unread columns that fit a role better than what was read, or split its queries.

Each is named by the data: a column that both tables share, or a number called like a prediction.
What the data prove, or what is right by its name alone, is asked; of others, a note has the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from rankql.core.base.column_names import (
    TIMES,
    describe_span,
    is_part,
    level_of,
    list_side,
    says,
    squash,
    words_in_order,
    words_of,
)
from rankql.core.base.errors import Call, Question, as_arguments
from rankql.core.base.text import join_words
from rankql.core.metrics.macros import quote
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.numbers.order import other_order
from rankql.core.tables.reader import first_rows
from rankql.core.tables.tables import FIRST_ROWS, id_text, is_id, is_number, is_text, quote_name
from rankql.shapes.doubts.sample import Pair, Reading

# Of predictions beside a place, more than this share of queries may be of another order by merit.
_FEW = 0.1
# Names of what has a ranking of its own in each query, of what may have, and of what documents
# have too.
_STEPS = {x + y for x in ("turn", "session", "step") for y in ("", "id", "number", "no")}
_DAYS = {"date", "day"}
_SLICES = {"lang", "language", "locale", "subset", "dataset", "split", "market"}


def shared_column(pair: Pair) -> Iterator[str]:
    """A column of both tables with a ranking of its own for each value within a query."""
    run, qrels = pair.run, pair.qrels
    if qrels is None or pair.is_one_table or run.table.lists or "query" in pair.named:
        return
    theirs = {squash(x): x for x in qrels.free}
    known = _STEPS | _DAYS | _SLICES
    names = {x: theirs[squash(x)] for x in run.free if squash(x) in known and squash(x) in theirs}
    names = {x: y for x, y in names.items() if _splits_queries(pair, x, y)}
    if not names:
        return
    keys = [[side.table.roles["query"], *columns] for side, columns in
            ((run, names), (qrels, names.values()))]  # fmt: skip
    call: Call = {"query": keys[0] if keys[0] == keys[1] else [tuple(x) for x in keys]}
    text = f"{join_words([*names])} of both tables {'has' if len(names) == 1 else 'have'} several "
    text += f"values within a {run.table.roles['query']}, each with its own judgments"
    if any(squash(x) not in _SLICES for x in names):
        text += ". Is it a part of the query?"
        raise Question(run.note(text), [call, {"query": run.table.roles["query"]}])
    yield run.note(f"{text}. If each is a query, pass {as_arguments(call)}")


def _splits_queries(pair: Pair, name: str, other: str) -> bool:
    """Has a query several values in both tables, each with judgments and mostly several rows?

    Judged pairs have their values in the run too. Places must start again at 1, and of days, an
    item must stand under two.
    """
    run, qrels = pair.run, pair.qrels
    assert qrels
    values = [(run, *run.free[name]), (qrels, *qrels.free[other])]
    if not all(is_id(kind) or kind == "DATE" or kind.startswith("TIME") for *_, kind in values):
        return False
    mine, theirs = (
        f"(SELECT {x.query} AS q, {x.item} AS i, CAST({sql} AS VARCHAR) AS v, "
        f"{x.table.number('pos') if 'pos' in x.table.roles else 1} AS p FROM {x.rows})"
        for x, sql, _ in values
    )
    several = "SELECT max(n) > 1 FROM (SELECT count(DISTINCT v) AS n FROM {} GROUP BY {})".format
    groups = f"SELECT q, v, count(*) AS n, min(p) AS first FROM {mine} SEMI JOIN {theirs} USING (q)"
    groups = f"({groups} GROUP BY q, v)"
    sql = f"""SELECT ({several(mine, "q")}) AND ({several(theirs, "q")})
        AND ({several(mine, "i") if squash(name) in _DAYS else "true"})
        AND NOT EXISTS (FROM {theirs} SEMI JOIN (SELECT q, i FROM {mine}) USING (q, i)
            ANTI JOIN {mine} USING (q, i, v))
        AND (SELECT avg(CAST(n > 1 AS INT)) > 0.5 AND max(first) = 1 AND bool_and((q, v) IN
            (SELECT (q, v) FROM {theirs})) FROM {groups})"""
    return bool(run.value(sql))


def ids_beside_lists(pair: Pair) -> Sequence[str]:
    """One id where the judged list is NULL or empty: a column that is never filled with it."""
    side, run = pair.qrels, pair.run
    if side is None or not (side.column or side.table.unit == "rows"):
        return ()
    kinds = {x: kind for x, (_, kind) in side.fields.items() if x in side.free or x == side.name}
    lists = [side.column] if side.column else [x for x in kinds if kinds[x].endswith("[]")]
    ones = [x for x in kinds if x != side.name] if side.column else [side.name]
    for name, many in product(ones, lists):
        if side.source.columns.get(many) != f"{kinds.get(name)}[]" or name not in side.fields:
            continue
        value, ids = quote(name), f"nullif(len({quote(many)}), 0)"
        known = f"(SELECT CAST({run.item} AS VARCHAR) FROM {run.rows})"
        is_known = f"{id_text(value, kinds[name])} IN {known}"
        sql = f"""SELECT count({value}) > 0 AND count({ids}) > 0
            AND count(*) FILTER ({value} IS NOT NULL AND {ids} IS NOT NULL) = 0
            AND count(*) FILTER ({is_known}) > 0 FROM {side.sample}"""
        if not side.value(sql):
            continue
        cells = many in side.source.origins  # of a text, which has one id or several
        one = quote_name(name) if cells else f"[{quote_name(name)}]"
        call = pair.named_items(qrels=f"coalesce({quote_name(many)}, {one})")
        text = f"{name} has one id where {many} is NULL"
        if "item" in pair.named:
            return [side.note(f"{text}. If both are relevant, pass {as_arguments(call)}")]
        raise Question(side.note(f"{text}. Are both relevant?"), [call])
    return ()


def times_of_rankings(pair: Pair) -> Iterator[str]:
    """A time that several rows of a query share, where each has its own order and its own labels.

    A time of each item is another one in most rows, or the same in all of its rows.
    """
    run, roles = pair.run, pair.run.table.roles
    order = roles.get("pos", roles.get("score"))
    if pair.qrels is not None or run.table.lists or "query" in pair.named or order is None:
        return
    if not {"item", "rel"} <= {*roles}:
        return
    grade, place = (run.table.number_or_null(x) for x in (roles["rel"], order))
    for name, (value, kind) in run.free.items():
        named = says(name, "time") or words_in_order(name)[-1] in TIMES
        of_day = kind.startswith(("DATE", "TIME"))
        if not (kind.startswith("TIMESTAMP") or (named and (is_id(kind) or of_day))):
            continue
        groups = f"""SELECT {run.query} AS q, count(*) AS n, min({grade}) < max({grade}) AS differ,
            count(DISTINCT {place}) = count(*) AS ordered FROM {run.rows} GROUP BY q, {value}"""
        sql = f"""SELECT sum(n) >= 2 * count(*) AND bool_and(ordered)
            AND 2 * count(*) FILTER (differ) > count(*) AND count(*) > count(DISTINCT q)
            FROM ({groups})"""
        items = f"SELECT DISTINCT {run.query} AS q, {run.item} AS i, {value} AS t FROM {run.rows}"
        again = "count(DISTINCT (i, t)) > count(DISTINCT i)"  # the time is none of the item
        again += " OR count(*) = count(DISTINCT i)" * named
        if run.value(sql) and run.value(f"SELECT {again} FROM ({items})"):
            call: Call = {"query": [roles["query"], name]}
            text = f"{name} has several values within a {roles['query']}, each with rows and "
            text += f"labels of its own. If each is a ranking, pass {as_arguments(call)}"
            yield run.note(text)


def other_orders(pair: Pair) -> Iterator[str]:
    """A prediction beside the place of a log, or beside the number that rel= computes grades of."""
    table, roles = pair.run.table, pair.run.table.roles
    if pair.qrels is not None or table.lists or "score" in pair.named:
        return
    place = roles.get("pos", roles.get("score", ""))
    numbers = [x for x, (_, kind) in pair.run.free.items() if is_number(kind) or table.text]
    numbers = [x for x in numbers if x in table.columns]
    if roles.get("rel") in table.computed and table.sources([roles["rel"]]) == [place]:
        if "pos" in pair.named:
            return
        text = f"rel= computes the grades of {place}, which orders the items too"
        orders = [x for x in numbers if says(x, "prediction", "score", "pos", "weaker score")]
        if not orders:
            yield pair.run.note(f"{text}. Name the column that orders them: score= or pos=")
            return
        calls = [_order_by(x) for x in (*orders, place)]
        raise Question(pair.run.note(f"{text}. Which column orders them?"), calls)
    if "pos" not in roles or "score" in roles or table.is_assumed("pos"):
        return
    for name in [x for x in numbers if says(x, "prediction")]:
        first = first_rows(table, [place, name])
        if {row[3] for row in first.rows} - {0, 1, None}:  # not flags
            yield from other_order(table, first, place, _order_by(name), least=_FEW)


def _order_by(name: str) -> Call:
    """The call that ranks by a column."""
    if says(name, "place"):
        return {"pos": name}
    return {"score": name, **({"descending": False} if says(name, "distance") else {})}


def other_level(pair: Pair) -> Sequence[str]:
    """Judgments at two levels, documents and their parts, that the run has both."""
    run, qrels = pair.run, pair.qrels
    if qrels is None or "item" in pair.named:
        return ()
    if not (run.column or qrels.column):
        return _other_level_of_rows(pair, run, qrels)
    judged, own = qrels.name.rpartition(".")[2], run.name
    for name, kind in qrels.source.columns.items():
        parts = is_part(name, judged), is_part(judged, name)
        if not any(parts) or (pair.is_one_table and list_side(name) != "qrels"):
            continue
        if not is_id(kind.removesuffix("[]")):
            continue
        fields = [f"{run.column}.{x}" for x in fields_of(run.kind) if run.column]
        names = [x for x in (*fields, *run.source.columns) if list_side(x) != "qrels"]
        found = [x for x in names if level_of(x) & level_of(name) and x != own]
        if not found or not level_of(own) & level_of(judged):
            continue
        whole, part = (own, judged), (found[0], name)
        whole, part = (whole, part) if parts[0] else (part, whole)
        count = "(SELECT count(DISTINCT v) FROM ({} UNION ALL {}))".format
        several, one = (
            count(*(f"SELECT unnest({_texts(*x)}) AS v FROM {x[0].sample}" for x in
                    ((run, names[0]), (qrels, names[1]))))
            for names in (part, whole)
        )  # fmt: skip
        if run.value(f"SELECT {several} > {one}"):
            low, high = (min(level_of(x[1])).replace("doc", "document") for x in (part, whole))
            text = f"{part[1]} and {whole[1]} are of different levels: several {low}s of one "
            text += f"{high} count as one {high}. Which is evaluated?"
            calls = [pair.named_items(), pair.named_items(found[0], name)]
            raise Question(qrels.note(text), calls[::-1] if parts[0] else calls)
    return ()


def _other_level_of_rows(pair: Pair, run: Reading, qrels: Reading) -> Sequence[str]:
    """The same of rows, where a document stands in several of a query, each with a part of it."""
    for name in qrels.free:
        own = next((x for x in run.free if squash(x) == squash(name)), None)
        finer = is_part(name, qrels.name) or says(name, "part")
        if own is None or not (finer or is_part(qrels.name, name)):
            continue
        both = ((run.name, own), (qrels.name, name))
        wholes, parts = zip(*both if finer else (x[::-1] for x in both), strict=True)
        whole, part = (f"CAST({quote(x[0])} AS VARCHAR)" for x in (wholes, parts))
        sql = f"""SELECT count(DISTINCT (q, w)) BETWEEN count(DISTINCT q) + 1 AND count(*) - 1
                AND count(DISTINCT (q, w, p)) = count(*)
                AND count(DISTINCT (w, p)) > count(DISTINCT w),
            count(DISTINCT (w, p)) > count(DISTINCT p)
            FROM (SELECT {run.query} AS q, {whole} AS w, {part} AS p FROM {run.rows})"""
        several, of_pairs = run.session.row(sql)
        if several:
            keys = [", ".join(x) if of_pairs else x[1] for x in zip(wholes, parts, strict=True)]
            text = f"{parts[1]} and {wholes[1]} are of different levels. Which is evaluated?"
            coarse = {**pair.named_items(*wholes), "collapse": wholes[0], "positions": "keep"}
            fine = {"item": keys if keys[0] != keys[1] else keys[0]}
            raise Question(qrels.note(text), [fine, coarse])
    return ()


def _texts(side: Reading, name: str) -> str:
    """The SQL of the ids of a row as a list of texts."""
    if field := fields_of(side.kind).get(name.removeprefix(f"{side.column}.")):
        ids = f"list_transform({quote(side.column)}, lambda x_: CAST({field.of('x_')} AS VARCHAR))"
        return ids if side.kind.endswith("]") else f"[CAST({quote(name)} AS VARCHAR)]"
    listed = side.source.columns[name].endswith("]")
    return f"CAST({quote(name)} AS VARCHAR[])" if listed else f"[CAST({quote(name)} AS VARCHAR)]"


def found_list(pair: Pair) -> Iterator[str]:
    """A list that is read as the ranking, and has only what was found."""
    name = pair.run.column
    if name and _is_found(pair, name):
        text = f"{name} has only relevant ids, so it is what was found and no ranking. "
        yield pair.run.note(f"{text}Name the list of all retrieved ids: item=")


def _is_found(pair: Pair, name: str) -> bool:
    """Is a list of a row what was found of its relevant ids, and no ranking?

    All its ids are relevant, others are too, and another column proves it: the rest as misses, a
    longer list that has all of them, or their share as recall.
    """
    run, qrels = pair.run, pair.qrels
    columns = run.source.columns
    if not (qrels and pair.is_one_table and name and qrels.column):
        return False
    if not all(is_id(columns[x].removesuffix("[]")) for x in (name, qrels.column)):
        return False
    hits, gold = _texts(run, name), _texts(run, qrels.column)
    proofs = ["false"]
    for x, kind in columns.items():
        if x in (name, qrels.column):
            continue
        words, listed = words_of(x), kind.endswith("]")
        if listed and words & {"miss", "misses", "missed", "missing"}:
            proofs.append(f"bool_and(list_has_all({hits} || {_texts(run, x)}, {gold}))")
        elif listed and list_side(x) != "qrels" and is_id(kind.removesuffix("[]")):
            proofs.append(_has_more(hits, _texts(run, x)))
        elif listed:
            for field in fields_of(kind).values():
                text = f"CAST({field.of('x_')} AS VARCHAR)"
                every = f"list_transform({quote(x)}, lambda x_: {text})"
                proofs += [_has_more(hits, every)] if is_id(field.kind) else []
        elif is_number(kind) and kind != "BOOLEAN" and words & {"recall", "precision"}:
            share = f"abs({quote(x)} - len({hits}) / len({gold})) < 0.01"
            proofs.append(f"bool_and({share}) AND min({quote(x)}) < 1")
    some = f"bool_and(list_has_all({gold}, {hits})) AND NOT bool_and(list_has_all({hits}, {gold}))"
    if len(proofs) == 1:
        return False
    proven = " OR ".join(f"({x})" for x in proofs)
    return bool(run.value(f"SELECT {some} AND ({proven}) FROM {run.sample}"))


def _has_more(hits: str, every: str) -> str:
    """Has a list all hits of each row, and in some rows more?"""
    return f"bool_and(list_has_all({every}, {hits})) AND bool_or(len({every}) > len({hits}))"


def part_of_key(pair: Pair) -> Iterator[str]:
    """A column of both sides that differs for the same query and item."""
    run, qrels = pair.run, pair.qrels
    if qrels is None:
        return
    known = {squash(x.rpartition(".")[2]): x for x in run.free if x not in qrels.used}
    for name, (sql, kind) in qrels.free.items():
        tail = squash(name.rpartition(".")[2])
        own = known.get(tail)
        if own is None or (pair.is_one_table and "." not in name) or kind[-1:] == "]":
            continue
        place = says(tail, "part")
        if not (place or is_id(kind)) or says(tail, "ordering") or says(tail, "rel"):
            continue
        if is_text(kind) and not place:  # texts and titles are read whole to compare them
            rows = qrels.rows if qrels.column else qrels.source.sql  # without counting queries
            first = f"SELECT {sql} AS t FROM {rows} LIMIT {FIRST_ROWS}"
            if qrels.value(f"SELECT avg(CAST(contains(trim(t), ' ') AS INT)) > 0.5 FROM ({first})"):
                continue
        mine = f"SELECT {run.query} AS q, {run.item} AS i, CAST({run.free[own][0]} AS VARCHAR) AS v"
        theirs = f"SELECT {qrels.query} AS q, {qrels.item} AS i, CAST({sql} AS VARCHAR) AS w"
        sql = f"""SELECT count(*), count(*) FILTER (list_contains(vs, w)) FROM
            (SELECT q, i, list(v) AS vs FROM ({mine} FROM {run.rows}) WHERE v IS NOT NULL
                GROUP BY ALL)
            JOIN (SELECT DISTINCT * FROM ({theirs} FROM {qrels.rows}) WHERE w IS NOT NULL)
            USING (q, i)"""
        common, equal = run.session.row(sql)
        if equal == common or not (place or equal >= 0.1 * common):
            continue
        text = f"{own} of {run.table.label} and {name} of {qrels.table.label} differ for "
        text += f"{common - equal:,} of {common:,} items that both have{run.extent}"
        if "item" in pair.named:
            yield f"{text}. They are not read"
            continue
        if spans := describe_span(run.free, qrels.free):
            raise Question(f"{text}. {spans}", [pair.named_items()])
        keys = [
            ", ".join((x, y.removeprefix(f"{side.column}.") if side.column else y))
            for side, x, y in ((run, run.name, own), (qrels, qrels.name, name))
        ]
        key = {"item": keys if keys[0] != keys[1] else keys[0]}
        text += ". Are they a part of the item's key?"
        raise Question(text, [key, pair.named_items()])
