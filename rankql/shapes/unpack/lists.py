"""Tables with one row per query: the retrieved ids in order, and the relevant ids.

Evaluations of RAG write them (Ragas, MLflow, LlamaIndex, Haystack). DuckDB unnests the lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from rankql.core.base.column_names import LIST_GRADES, LIST_SCORES, find_name, list_side, says
from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.base.text import NO_OTHERS
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.tables.candidates import (
    entries_of,
    fields_of,
    find_field,
    find_list,
    lists_of,
    wrong_type,
)
from rankql.core.tables.ids import Ids
from rankql.core.tables.reader import refuse_rounded
from rankql.core.tables.tables import (
    CHOSEN,
    Runs,
    Table,
    is_id,
    is_nested,
    is_number,
    is_text,
    mentioned,
    require_column,
    text_number,
)
from rankql.shapes.choose.cells import (
    Items,
    find_items,
    join_grades,
    split_cell,
    split_groups,
    unpack_cells,
)
from rankql.shapes.choose.choice import (
    ROW,
    Choice,
    Specs,
    choose_all,
    compute_columns,
    named_columns,
)
from rankql.shapes.choose.paths import write_ids
from rankql.shapes.choose.row_keys import find_row_keys, require_one_row
from rankql.shapes.unpack.unnamed import require_known_list, require_known_lists

# The column with the places in a list.
PLACE = f"{INTERNAL_PREFIX}place"
# A table with its ids.
_Listed: TypeAlias = tuple[Table, Ids]


def unnest_lists(
    runs: Runs,
    qrels: Table | None,
    columns: Mapping[str, Any],
    attributes: Sequence[str] = (),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Runs, Table | None, Mapping[str, Any]]:
    """The runs and judgments with their queries and items, one row per item, and the columns.

    attributes: those of queries that are read. options: of the caller, such as order='list' if
    numbers do not rank the ids; the column forbidden= belongs to the judgments.
    """
    item = columns.get("item")
    names = item if isinstance(item, list | tuple) else [item]
    others = " ".join(map(str, (*attributes, *columns.values())))
    runs = {name: unpack_cells(table, names, others) for name, table in runs.items()}
    qrels = qrels and unpack_cells(qrels, names, others)
    if options.get("groups") and qrels:
        qrels = split_groups(qrels)
    elif options.get("groups"):
        runs = {name: split_groups(table) for name, table in runs.items()}
    ranked, judged = specs = named_columns(runs, qrels, columns)
    for name, table in runs.items():
        runs[name] = compute_columns(table, (*ranked, None if qrels else judged[1]))
    qrels = qrels and compute_columns(qrels, judged)
    return _Lists(runs, qrels, columns, attributes, options, specs).unnest()


@dataclass
class _Lists:
    """Runs and judgments that may have lists, what the caller says of them, and what is found."""

    runs: Runs
    qrels: Table | None
    columns: Mapping[str, Any]
    attributes: Sequence[str]
    options: Mapping[str, Any]
    specs: Specs
    # The columns that may be the items of the runs and of the judgments.
    ranked: Items = field(default_factory=dict)
    judged: Items = field(default_factory=dict)
    # The lists and fields of lists that the caller names as grades or scores, by role.
    numbers: dict[str, str] = field(default_factory=dict)

    def unnest(self) -> tuple[Runs, Table | None, Mapping[str, Any]]:
        before, rel, own = self.runs, self.columns.get("rel"), self.qrels is None
        self.ranked, flags = self._find_ranked(), dict[str | None, str]()
        if own and not self.is_pair:
            self.runs = {x: join_grades(t, self.ranked[x], rel) for x, t in before.items()}
            if any(table is not before[x] for x, table in self.runs.items()):
                self.ranked = self._find_ranked()
        listed = any(x.column for ids in self.ranked.values() for x in ids)
        if own and not listed:
            self._require_known_lists()
            return self.runs, None, self.columns
        if own:
            flags = {x: _find_flag(t, self.ranked[x], rel) for x, t in self.runs.items()}
        graded = own and all(flags.values())
        self.judged = {} if graded else self._find_judged()
        if own:
            self.runs = find_row_keys(self.runs, self.specs[0][0], self.options.get("system"))
        self.numbers = self._named_numbers()
        self.columns = {**self.columns, **dict.fromkeys(self.numbers)}
        if graded:
            runs = {name: self._read_graded(name, flags[name], before) for name in self.runs}
            return runs, None, {**self.columns, "query": None, "item": None, "rel": None}
        choices = choose_all(self.runs, self.qrels, self.ranked, self.judged, self.specs)
        for name, choice in choices.items() if own else ():  # both sides read the same rows
            for ids in choice.items:
                self.runs[name] = _split_cells(self.runs[name], ids, choice.items)
        runs = {
            name: self._read_run(table, choices[name]) if name in choices else table
            for name, table in self.runs.items()
        }
        judging = {next(iter(self.runs), None): self.qrels} if self.qrels else self.runs
        judged = [_read_side(x, choices[name], 1) for name, x in judging.items() if name in choices]
        if not judged:
            return runs, self.qrels, self.columns
        table, column = judged[0][0], judged[0][1].column
        if column or listed:  # the tables have these roles
            self.columns = {**self.columns, "query": None, "item": None}
        if not column:
            return runs, table, self.columns
        rel, fields = self.columns.get("rel"), fields_of(table.columns[column])
        if isinstance(rel, list | tuple) and isinstance(rel[0], str):
            self.columns = {**self.columns, "rel": (rel[0].removeprefix(f"{column}."), *rel[1:])}
        elif isinstance(rel, str) and fields and not find_field(table, column, rel):
            # In an expression, the fields of the list are columns.
            names = "|".join(map(re.escape, fields))
            prefix = rf"\b{re.escape(column)}\.(?=({names})\b)"
            self.columns = {**self.columns, "rel": re.sub(prefix, "", rel)}
        return runs, self._read_judged(judged), self.columns

    @property
    def is_pair(self) -> bool:
        """Does the caller name both lists of one table?"""
        ranked, judged = (item for _, item in self.specs)
        return self.qrels is None and ranked is not None and ranked != judged

    @property
    def named(self) -> list[str]:
        """The numbers that the caller names."""
        values = (self.columns.get(role) for role in ("rel", "pos", "score"))
        return [name for name in values if isinstance(name, str)]

    @property
    def taken(self) -> set[str]:
        """The columns that are no ids."""
        return {*self.attributes, *self.named}

    def _find_ranked(self) -> Items:
        """The columns that may have the retrieved ids of each run."""
        named = () if self.is_pair else self.named
        ranked = ("retrieved", self.specs[0][1], self.taken, self.is_pair, named)
        return {x: find_items(table, *ranked) for x, table in self.runs.items()}

    def _require_known_lists(self) -> None:
        """Refuse runs without lists of retrieved ids that have others."""
        for table in self.runs.values():
            if self.columns.get("rel") and (table.known("pos") or table.known("score")):
                continue  # a row per item, and lists of something else
            if not (self.specs[0][1] or table.known("item")) and lists_of(table):
                judged = find_items(table, "relevant", None, self.taken)
                require_known_lists(table, None, (), judged)

    def _find_judged(self) -> Items:
        """The columns that may have the relevant ids of each run: of the judgments, or its own."""
        (_, ranked), (_, spec) = self.specs
        if self.qrels is None:
            judged = {}
            for name, table in self.runs.items():
                used = {x.column for x in self.ranked[name]} - {""}  # one list is not both
                key = isinstance(spec, tuple) and spec[0].partition(".")[0] not in used  # of both
                own = spec if self.specs[1] != self.specs[0] or key else None
                pair = ranked is not None and own is not None
                ids = find_items(table, "relevant", own, self.taken, pair)
                judged[name] = [x for x in ids if x.column not in used]
                require_known_lists(table, own, self.ranked[name], judged[name])
            return judged
        relevant = find_list(self.qrels, "relevant", spec)
        if relevant and not spec and find_list(self.qrels, "retrieved") not in (None, relevant):
            raise RankqlError(
                "qrels has lists of retrieved ids, as a run. Pass several runs as a dict, such as "
                "{'a': a, 'b': b}, without qrels, because their relevant ids are in the same table"
            )
        items = find_items(self.qrels, "relevant", spec, self.taken)
        for name, table in self.runs.items():
            require_known_list(table, self.ranked[name], ranked)
        require_known_list(self.qrels, items, spec)
        return dict.fromkeys(self.runs or [None], items)

    def _named_numbers(self) -> dict[str, str]:
        tables = [*self.runs.values(), *([self.qrels] if self.qrels else [])]
        rel, score = (self.columns.get(role) for role in ("rel", "score"))
        numbers = {
            role: name
            for role, name in (("rel", rel), ("score", score))
            if isinstance(name, str) and any(is_nested(x.columns.get(name, "")) for x in tables)
        }
        if rel in [f"{x.column}.2" for ids in self.judged.values() for x in ids if x.column]:
            numbers["rel"] = rel  # the second part of each pair, which is read anyway
        lists = (
            (self.runs[x], y.column) for x, ids in self.ranked.items() for y in ids if y.column
        )
        if isinstance(score, str) and any(find_field(table, x, score) for table, x in lists):
            numbers["score"] = score
        return numbers

    def _names_of(self, role: str, names: Sequence[str]) -> Sequence[str]:
        """The list of numbers of a role that the caller names, or the names it may have."""
        if role in self.numbers:
            return [self.numbers[role]]
        return [name for name in names if name not in self.numbers.values()]

    def _read_graded(self, name: str | None, flag: str, before: Runs) -> Table:
        """A run whose retrieved objects have their grades in a field."""
        ids = min(self.ranked[name], key=lambda x: x.rank)
        table = self._read_run(self.runs[name], Choice((ROW, ROW), (ids, ids)), flag)
        alone = before[name].has(flag)  # a list of its own
        table.note(
            f"{flag if alone else f'{ids.column}.{flag}'} is the grade of each retrieved item"
            + NO_OTHERS
        )
        return table

    def _read_run(self, table: Table, choice: Choice, flag: str = "") -> Table:
        """The run with its query and item: a row per item, and its place in a list or its score.

        flag: the field with grades.
        """
        table, ids = _read_side(table, choice, 0)
        if not (column := ids.column):
            return table
        require_one_row(table, column, self.options.get("system"))
        ids, fields = _read_numbers(table, ids, 1), fields_of(table.columns[column])
        scores = self._names_of("score", () if flag else LIST_SCORES)
        score = find_field(table, column, scores[0]) if len(scores) == 1 else None
        if self.options.get("order") == "list" and table.columns[column].endswith("]"):
            ids = ids._replace(number="")
        elif score:
            value = fields[score].of("x_")
            number = f"CAST({value} AS DOUBLE)"
            ids = ids._replace(number=number, numbers=score, fields=((score, value),))
        elif not ids.number:
            ids = _add_numbers(table, ids, scores, find_list(table, "relevant"))
        roles, columns = {**table.roles, "item": ids.name}, table.columns
        if ids.number:
            positions = table.known("pos")  # of the row, not of its ids
            columns = {n: kind for n, kind in columns.items() if n not in positions}
            name = f"{column}.{ids.numbers}" if ids.numbers else f"score in {column}"
            number, roles["score"] = f"{ids.number} AS {quote(name)}", name
            origins = {name: ids.numbers or f"scores in {column}"}
        else:
            roles["pos"], number, origins = PLACE, PLACE, {PLACE: f"order in {column}"}
        if flag:
            roles["rel"], origins["rel"] = "rel", f"{column}.{flag}"
            value = fields[flag].of("x_")
            number += f", {value} AS rel"
            ids = ids._replace(fields=(*ids.fields, (flag, value)))
        others = _other_columns(replace(table, columns=columns), self.attributes)
        unnested = _load(table, _unnest(table, ids, others, number), roles, origins)
        return replace(unnested, lists=ids, with_lists=table)

    def _read_judged(self, judged: Sequence[_Listed]) -> Table:
        """The judgments of a table with lists, or of those of the runs."""
        own, rel = self.qrels is None, self.columns.get("rel", 1)
        names = self._names_of("rel", LIST_GRADES if self.columns.get("rel") is None else ())
        lists = []
        for table, ids in judged:
            other = find_list(table, "retrieved") if own else None
            lists.append((table, _add_numbers(table, _read_numbers(table, ids, rel), names, other)))
        if own and (len(self.runs) > 1 or self.options.get("system")):
            _require_equal_lists(lists)
        others = [self._next_to_judged(table) for table, _ in lists]
        table, first = lists[0]
        lists[0] = (replace(table, label="qrels") if own else table, first)
        qrels = _load_qrels(lists, others)
        if isinstance(rel, str) and not first.number:
            read = mentioned(dict(first.fields), rel)
            first = first._replace(fields=tuple(x for x in first.fields if x[0] in read))
        return replace(qrels, lists=first, with_lists=lists[0][0])

    def _next_to_judged(self, table: Table) -> str:
        """The columns next to the relevant ids; of those in runs, the query and forbidden=."""
        if self.qrels is not None:
            return _other_columns(table, self.attributes)
        forbidden = self.options.get("forbidden")
        names = [require_column(table, forbidden, "forbidden")] if forbidden else []
        return ", ".join(map(quote, [table.roles["query"], *names]))


def _find_flag(table: Table, items: Sequence[Ids], rel: Any) -> str:
    """The field of retrieved objects that has their grades, if no list has the relevant ids.

    rel: what the caller names.
    """
    column = items[0].column if items else ""
    if not column or not table.columns[column].startswith("STRUCT("):
        return ""
    judged = find_list(table, "relevant")
    if isinstance(rel, str):  # which may be that of the relevant ids
        own = not judged or rel.startswith(f"{column}.") or not find_field(table, judged, rel)
        return (own and find_field(table, column, rel)) or ""
    if rel is not None or judged:
        return ""
    flag = find_name(fields_of(table.columns[column]), "flag", "grades", "rel") or ""
    return "" if flag and _has_gold(table, items[0]) else flag


def _has_gold(table: Table, ids: Ids) -> bool:
    """Has another list, called like relevant ids, some of these?"""
    lists = [x for x in lists_of(table) if x != ids.column and list_side(x) == "qrels"]
    lists = [x for x in lists if is_id(table.columns[x].removesuffix("[]"))]
    own = f"CAST({write_ids([ids])} AS VARCHAR[])"
    shared = [f"bool_or(list_has_any({own}, CAST({quote(x)} AS VARCHAR[])))" for x in lists]
    return bool(lists) and bool(table.value(" OR ".join(shared)))


def _read_side(table: Table, choice: Choice, side: int) -> tuple[Table, Ids]:
    """The table with the query and the item as roles, and its ids."""
    query, ids = choice.queries[side], choice.items[side]
    roles = table.roles if query is ROW else {**table.roles, "query": query.name}
    decided = {CHOSEN: choice.named} if choice.named else {}
    table = replace(table, roles=roles, context={**table.context, **decided})
    if not ids.column:
        return replace(table, roles={**table.roles, "item": ids.name}), ids
    table = _split_cells(table, ids, choice.items)
    listed = table.columns[ids.column].endswith("]")
    return table, ids._replace(values=quote(ids.column)) if listed else ids


def _split_cells(table: Table, ids: Ids, both: Sequence[Ids]) -> Table:
    """The table with a list in place of each cell that has ids, or a number for each id."""
    if not ids.column or is_nested(table.columns[ids.column]):
        return table
    ids_per_cell = "one id" if ids.reading == 0 else "several ids"
    origins = {**table.origins, ids.column: f"{ids.column} ({ids_per_cell} per cell)"}
    values = split_cell(ids.column, ids.reading)
    if ids is both[1]:  # of text, NULL is an empty cell
        values = f"coalesce({values}, [])"
    taken = {x.column for x in both}
    texts = [x for x, kind in table.columns.items() if kind == "VARCHAR" and x not in taken]
    for name in texts if ids.reading else ():
        numbers = f"TRY_CAST({split_cell(name, ids.reading)} AS DOUBLE[])"
        if table.value(f"bool_and(len({numbers}) = len({values}))"):
            table = table.with_values(name, numbers, "DOUBLE[]")
    return replace(table.with_values(ids.column, values, "VARCHAR[]"), origins=origins)


def _read_numbers(table: Table, ids: Ids, rel: Any) -> Ids:
    """The ids of a column of lists, with their grades if they are in the lists.

    rel: the argument of the caller; 1 if the ids need no grades.
    """
    column, kind = ids.column, table.columns[ids.column]
    if not kind.endswith("]"):  # {"id": grade}
        if kind.startswith("STRUCT("):
            name = quote(column)
            fields = table.describe(f"(SELECT {name}.* FROM {table.sql})").columns
            finite = " AND ".join(
                f"count({quote(x)}) = count(*) FILTER (isfinite({text_number(x)}))"
                for x, kind in fields.items()
                if is_text(kind)
            )
            numbers = all(is_number(kind) or is_text(kind) for kind in fields.values())
            if not numbers or not table.value(f"{finite or 'true'} FROM (SELECT {name}.*", ")"):
                raise wrong_type(table, column)
        return ids
    elements = f"(SELECT unnest({ids.values}) AS x_ FROM {table.sql})"
    if kind.endswith("[][]"):
        wrong = f"len(x_) <> 2 OR NOT coalesce(isfinite({ids.number}), false)"
        if table.session.rows(f"SELECT 1 FROM {elements} WHERE {wrong} LIMIT 1"):
            require(
                rel is not None,
                f"{table.label}: {column} has lists of lists. If one item of each inner list "
                "suffices, pass groups='any'. KILT's evidence sets need all items of one inner "
                "list, which no metric counts",
            )
            raise wrong_type(table, column)
        refuse_rounded(table, column, "unnest(x_)[1]", kind)
    elif kind.startswith("STRUCT("):
        return _read_fields(table, ids, rel)
    elif kind.startswith("JSON"):  # of a file with numbers and text, or with nothing in the lists
        of_objects = "json_type(x_) IN ('OBJECT', 'ARRAY')"
        if table.session.rows(f"SELECT 1 FROM {elements} WHERE {of_objects} LIMIT 1"):
            raise wrong_type(table, column)
    else:
        refuse_rounded(table, column, "unnest(x_)", kind)
    return ids


def _read_fields(table: Table, ids: Ids, rel: Any) -> Ids:
    """The ids of objects in lists, with the field of their grades, or those that rel= needs."""
    column, kind = ids.column, table.columns[ids.column]
    fields, own = fields_of(kind), ids.name.removeprefix(f"{column}.")
    if own in fields:  # not a key of several
        refuse_rounded(table, column, fields[own].of("unnest(x_)"), fields[own].kind)
    names = [rel] if isinstance(rel, str) else rel if isinstance(rel, list | tuple) else []
    named = (names and find_field(table, column, str(names[0]))) or ""
    if isinstance(rel, Mapping | list | tuple) or (names and not named):
        free = ((n, x.of("x_")) for n, x in fields.items() if n != own and not table.has(n))
        return ids._replace(fields=tuple(free))
    texts = [name for name, x in fields.items() if is_text(x.kind)]
    known = find_name(fields, "rel") or find_name(texts, "event")
    if not (grade := named or (known if rel is None else None)):
        return ids
    number = fields[grade].of("x_")
    # As the caller writes it.
    said = str(names[0]) if named else grade if grade in texts else ""
    return ids._replace(number=number, numbers=said, fields=((grade, number),))


def _other_columns(table: Table, attributes: Sequence[str]) -> str:
    """The columns next to the ids: numbers, keys and attributes, but no texts."""
    names = {*map(str.lower, attributes), *(role.lower() for role in table.roles.values())}
    return ", ".join(
        quote(name)
        for name, kind in table.columns.items()
        if name.lower() in names or not (is_nested(kind) or is_text(kind))
    )


def _unnest(table: Table, ids: Ids, others: str, number: str) -> str:
    """SQL with a row per id; others: the columns next to the lists; number: that of each id."""
    beside = f", unnest({ids.beside}) AS n_" if ids.beside else ""
    beside += f", generate_subscripts({ids.values}, 1) AS {PLACE}" if PLACE in number else ""
    return (
        f"(SELECT {others}, {ids.sql} AS {quote(ids.name)}, {number} FROM (SELECT {others}, "
        f"unnest({ids.values}) AS x_{beside} FROM {table.sql}))"
    )


def _add_numbers(table: Table, ids: Ids, names: Sequence[str], other: str | None) -> Ids:
    """The ids with their grades or scores, if a column of one of these names has them.

    other: the lists of the other side, to which numbers of as many ids may belong.
    """
    # Objects in lists have ids of their own.
    nested = [
        x for x, kind in table.columns.items()
        if is_nested(kind) and x != ids.name and not (kind.endswith("]") and fields_of(kind))
    ]  # fmt: skip
    if (name := find_name(nested, names)) is None:
        return ids
    numbers = quote(name)
    sides, lacking, of_fields = [ids.values, *([quote(other)] if other else [])], ["false"], "false"
    if table.columns[name].endswith("]"):
        fits = [f"len({x}) = len({numbers})" for x in sides]
    else:
        entries = f"map_from_entries({entries_of(name)})"
        number = f"{entries}[CAST({ids.sql} AS VARCHAR)]"
        numbers = f"list_transform({ids.values}, lambda x_: {number})"
        lacking = [f"len(list_filter({x}, lambda x_: {number} IS NULL)) = 0" for x in sides]
        keys = f"map_keys({entries})"  # those of fields are the same in all rows, and no ids
        same = f"count(*) > 1 AND len(list_distinct(flatten(list({keys})))) = max(len({keys}))"
        of_fields = f"{same} AND count(DISTINCT {ids.values}) > 1 AND coalesce("
        of_fields += f"max(len(list_filter({numbers}, lambda x_: x_ IS NOT NULL))), 0) = 0"
        counts = (f"len({x}) = cardinality({entries})" for x in sides)
        fits = [*map("{} AND {}".format, counts, lacking)]
    checks = map("bool_and(coalesce({}, {} IS NULL))".format, fits, sides)
    more = " OR ".join(f"bool_and(coalesce({x}, true))" for x in lacking)
    fields, more, fit, *others = table.row(f"{of_fields}, {more}, {', '.join(checks)}")
    if fields:
        table.note(f"{name} has no number for an id of {ids.name} and is not read")
        return ids
    shared = name in names and says(name, "grade list") and says(name, "score list")
    if not fit and ((shared and any(others)) or (more and says(name, "grade list"))):
        return ids  # grades of more ids are judgments
    require(fit, f"{table.label}: {name} has other ids or another number of values than "
            f"{ids.name}. Write one number for each of its ids, or leave it out")  # fmt: skip
    if shared and any(others) and len(names) > 1:
        text = f"{table.label}: {name} may be the grades or the scores, because both lists have as "
        raise Question(f"{text}many ids", [{"rel": name}, {"score": name}])
    return ids._replace(number="n_", numbers=name, beside=numbers)


def _load_qrels(lists: Sequence[_Listed], others: Sequence[str]) -> Table:
    """The judgments with a row per relevant id, from one table or from those of the runs."""
    table, first = lists[0]
    fields = ", ".join(f"{sql} AS {quote(name)}" for name, sql in first.fields)
    graded, parts, empty = first.number or not fields, [], False
    for (each, ids), columns in zip(lists, others, strict=True):
        nulls = f"len(list_filter({ids.values}, lambda x_: {ids.sql} IS NULL)) > 0"
        counts = f"count(*) FILTER (len({ids.values}) = 0), count(*) FILTER ({ids.values} IS NULL)"
        lacking, missing, queries, has_null = each.row(f"{counts}, count(*), bool_or({nulls})")
        require(
            not (lacking and has_null),
            f"{each.label}: {ids.name} has a list with NULL. Leave it out",
        )
        empty = empty or lacking > 0
        if missing and missing < queries:
            each.note(
                f"{missing:,} of {queries:,} rows have NULL in {ids.name} "
                "and count as not judged; [] means that nothing is relevant",
            )
        values = f"CASE WHEN len({ids.values}) = 0 THEN [NULL] ELSE {ids.values} END"
        grade = f"{ids.grade} AS {quote(first.grade_name)}" if graded else fields
        parts.append(f"FROM {_unnest(each, ids._replace(values=values), columns, grade)}")
    sql = " UNION ALL ".join(parts)
    roles = {"query": table.roles["query"], "item": first.name}
    roles |= {"rel": first.grade_name} if graded else {}
    origins = {first.grade_name: first.grade_origin} if first.grade_origin else {}
    rows = _load(table, f"(SELECT DISTINCT * FROM ({sql}))", roles, origins)
    return replace(rows, empty=empty)


def _load(table: Table, sql: str, roles: dict[str, str], origins: dict[str, str]) -> Table:
    """The rows of a table with lists, unnested once: several queries read them."""
    of_run = {x: value for x, value in table.context.items() if x != "system" or "rel" not in roles}
    fields: dict[str, Any] = {"origins": {**table.origins, **origins}, "context": of_run}
    return table.load(sql, text=False, unit="ids", roles=roles, **fields)


def _require_equal_lists(relevant: Sequence[_Listed]) -> None:
    """Refuse runs whose relevant ids differ."""
    parts = []
    for table, ids in relevant:
        grade = f"({ids.beside})[i_]" if ids.beside else ids.grade
        pair = f"[CAST({ids.sql} AS VARCHAR), CAST(CAST({grade} AS DOUBLE) AS VARCHAR)]"
        pairs = f"list_distinct(list_transform({ids.values}, lambda x_, i_: {pair}))"
        query = f"CAST({quote(table.roles['query'])} AS VARCHAR)"
        lists = f"coalesce(CAST(list_sort({pairs}) AS VARCHAR), '[]')"
        parts.append(f"SELECT {query} AS q_, {lists} AS lists_ FROM {table.sql}")
    rows = f"SELECT q_ FROM ({' UNION ALL '.join(parts)}) GROUP BY q_"
    different = f"{rows} HAVING count(DISTINCT lists_) > 1 ORDER BY q_ LIMIT 1"
    for (query,) in relevant[0][0].session.rows(different):
        raise RankqlError(
            f"The runs have different relevant ids for query {query!r}. Write the same into all "
            "runs, or pass the judgments once: qrels="
        )
