"""A source of rows as typed columns with roles: query, item, grade, score or position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypeAlias

from rankql.core.base.column_names import (
    ROLES,
    find_name,
    is_added,
    is_called,
    list_side,
    recognise,
    says,
    squash,
)
from rankql.core.base.errors import Question, RankqlError, advise, did_you_mean, require
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.tables.ids import Ids

Data: TypeAlias = Any
"""A path or glob, the name of a table, a DuckDB relation, or a frame of any Arrow library."""
Rel: TypeAlias = str | Mapping[str, float] | tuple[str, Mapping[str, float]] | None
"""The column of the grades, the grades of events, or both."""

# What the Columns line calls the option that names columns which values decided.
CHOSEN = "chosen by values"
# What it calls the columns that no role has.
UNREAD = "not read"
# The roles of numbers.
NUMBERS = ("pos", "score", "rel")
# The rows that say how columns order the items of queries, before all are read.
FIRST_ROWS = 1000
# Compares a text byte by byte, whatever the collation of the connection.
EXACT = ' COLLATE "C"'


Runs: TypeAlias = dict[str | None, "Table"]
"""The runs by the name of their system."""


class Unused(str):
    """What the Columns line says of a column that is not used."""


@dataclass(frozen=True)
class Table:
    """A source of rows: its label in errors, its SQL, its columns and their types."""

    label: str
    sql: str
    columns: dict[str, str]
    trec: bool = False
    # Text files have no types: numbers are parsed from text, ids stay text.
    text: bool = False
    roles: dict[str, str] = field(default_factory=dict)
    # It is a frame or a file, whose rows have an order, or several files.
    ordered: bool | Literal["files"] = False
    # The files that rank other items of the same queries, each from the top.
    collections: Sequence[str] = ()
    # The SQL of a permanent table of the database, from which it may be computed.
    permanent: str = ""
    # The lowest score is the best: `number` and `read` return -score.
    ascending: bool = False
    # What the Columns line says of columns whose values are not as the source has them, by column.
    origins: Mapping[str, str] = field(default_factory=dict)
    # What it says of the rest: the part of a file or of a split log, the column of the systems, and
    # how to name columns that values decided.
    context: Mapping[str, str] = field(default_factory=dict)
    # The columns of the source that each computed column reads.
    computed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The columns that the caller names, each with its role, or "" for attributes. They are not
    # recognised for another role.
    named: Mapping[str, str] = field(default_factory=dict)
    # EXACT if the connection has a collation.
    exact: str = ""
    # What its rows are called in errors.
    unit: str = "rows"
    # The names that several columns of the source have, in lower case.
    repeated: Sequence[str] = ()
    # Is there one id per row for sure, because lists and cells were looked at before?
    unnested: bool = False
    # Are they judgments of which some queries have no relevant item, in a row with item NULL?
    empty: bool = False
    # Is it of pandas, where NaN may be a missing value?
    nan: bool = False
    # The column of the judgments that several queries share, because it is one of their key.
    shared: str = ""
    # Was it {query: {item: number}}, a map, or {query: [(item, number)]}, pairs?
    shape: Literal["", "map", "pairs"] = ""
    # The ids of the lists that it was unnested from, and the table with a row per list.
    lists: Ids | None = None
    with_lists: Table | None = None
    # Are they the attributes of the rows of runs, of which some have no item?
    of_runs: bool = False
    # The table with all rows and columns, if only one row of each item in a query is kept.
    before: Table | None = None
    # Is it a lazy frame, whose values are read once, at the end?
    lazy: bool = False
    # The columns of the source that were not read.
    unread: Sequence[str] = ()
    # The session that reads it.
    session: Any = field(default=None, compare=False, repr=False)

    def rows(self, what: str, rest: str = "") -> list[tuple[Any, ...]]:
        """The rows of a query of this table alone; rest: what follows its name."""
        rows: list[tuple[Any, ...]] = self.session.rows(f"SELECT {what} FROM {self.sql}{rest}")
        return rows

    def row(self, what: str, rest: str = "") -> tuple[Any, ...]:
        """The first row of such a query."""
        return self.rows(what, rest)[0]

    def value(self, what: str, rest: str = "") -> Any:
        """The first value of such a query."""
        return self.rows(what, rest)[0][0]

    def has_row(self, condition: str) -> bool:
        """Does a condition hold in some row?"""
        return bool(self.rows("1", f" WHERE {condition} LIMIT 1"))

    def load(self, sql: str, **fields: Any) -> Table:
        """A temporary table of a query, with its label: see `Reader.load`."""
        loaded: Table = self.session.load(self.label, sql, **fields)
        return loaded

    def describe(self, sql: str, **fields: Any) -> Table:
        """The table of a query, with its label: see `Reader.describe`."""
        described: Table = self.session.describe(self.label, sql, **fields)
        return described

    def note(self, words: str, kind: str = "") -> None:
        """Add a note on how it was read."""
        self.session.note(self.label, words, kind)

    @property
    def is_accounted(self) -> bool:
        """Has each column a role or a name that the caller gives, as it came?"""
        known = {*self.roles.values(), *self.named}
        odd = self.lists or self.before or self.shape or self.origins or self.computed
        return not (odd or self.ascending) and known.issuperset(self.columns)

    @property
    def role_columns(self) -> dict[str, str]:
        """The columns by role, and the order of the scores if the lowest is best."""
        columns = {role: self.origins.get(name, name) for role, name in self.roles.items()}
        order = {"order": "ascending"} if self.ascending else {}
        unread = {UNREAD: ", ".join(self.unread)} if self.unread else {}
        return columns | dict(self.context) | order | unread

    def is_assumed(self, role: str) -> bool:
        """Are the values of a role not as a column of the source has them?"""
        return self.roles.get(role) in self.origins

    @property
    def has_one_grade(self) -> bool:
        """Is the grade a constant, by an expression or because no column has grades?"""
        return not self.computed.get(self.roles.get("rel", ""), ["rel"])

    @property
    def id_roles(self) -> tuple[str, ...]:
        """The roles of the ids that no row may lack."""
        return ("query",) if self.empty else ("query", "item")

    @property
    def own_columns(self) -> list[str]:
        """Its columns for errors, without those that we added."""
        added = {*self.computed}
        return [x for x in self.columns if x not in added and not x.startswith(INTERNAL_PREFIX)]

    def has(self, name: str) -> bool:
        """Is there a column of this name?"""
        return name.lower() in map(str.lower, self.columns)

    def with_column(
        self,
        name: str,
        value: str,
        kind: str,
        reads: Sequence[str] = (),
        source: str = "",
        selected: str = "*",
        **fields: Any,
    ) -> Table:
        """The table with a computed column, from a source with other types if needed."""
        return replace(
            self,
            sql=f"(SELECT {selected}, {value} AS {quote(name)} FROM {source or self.sql})",
            columns={**self.columns, name: kind},
            computed={**self.computed, name: reads},
            **fields,
        )

    def with_values(self, name: str, value: str, kind: str) -> Table:
        """The table with other values in a column."""
        return replace(
            self,
            sql=f"(SELECT * REPLACE ({value} AS {quote(name)}) FROM {self.sql})",
            columns={**self.columns, name: kind},
        )

    def with_undefined(self) -> Table:
        """The table with NULL for NaN of pandas, which among values is undefined or missing."""
        floats = [quote(x) for x, kind in self.columns.items() if kind in ("FLOAT", "DOUBLE")]
        values = ", ".join(f"nullif({x}, 'nan') AS {x}" for x in floats)
        sql = f"(SELECT * REPLACE ({values}) FROM {self.sql})"
        return replace(self, sql=sql) if self.nan and floats else self

    def without(self, role: str) -> Table:
        """The table without a role, and without what the Columns line says of it."""
        roles, context = (
            {x: name for x, name in names.items() if x != role}
            for names in (self.roles, self.context)
        )
        return replace(self, roles=roles, context=context)

    def sources(self, names: Iterable[str]) -> list[str]:
        """The columns of the source that these columns are, or are computed from."""
        return [source for name in names for source in self.computed.get(name, [name])]

    def find(self, role: str, name: Any = None, preferred: Sequence[str] = ()) -> str | None:
        """The column of a role: the one of this name, or a preferred or known name."""
        column = self._find(role, name, preferred)
        kind = self.columns[column] if column and role == "query" else ""
        if is_nested(kind):
            fields = [
                x for x in self.columns if x.startswith(f"{column}.") and x not in self.computed
            ]
            plain = [x for x in fields if not is_nested(self.columns[x]) and "," not in x]
            likely = [x for x in (*self.columns, *plain) if says(x, "id")]
            likely = [x for x in likely if not is_nested(self.columns[x]) and not list_side(x)]
            raise Question(
                f"{self.label}: {column} has lists or objects, which are no ids of queries",
                [{"query": x} for x in dict.fromkeys(likely)] + [{"query": plain}] * bool(plain),
                blanks={"query": "..."},
            )
        return column

    def _find(self, role: str, name: Any, preferred: Sequence[str]) -> str | None:
        if isinstance(name, str) and self.has(name):
            return self.actual_name(name)
        if role in self.roles:
            return self.roles[role]
        if self.trec and role == "pos" and "tag" in self.columns:
            return None  # as in trec_eval
        free = self.free_columns(role)
        if preferred and role != "query" and (column := find_name(free, preferred)):
            return column
        if role == "pos" and not self.known("pos") and find_name(free, "score", "weaker score"):
            return None
        likely = [column for column in free if preferred and is_called(column, preferred)]
        if len(likely) == 1:
            return likely[0]
        return recognise(role, likely or free, place=f" of {self.label}")

    def free_columns(self, role: str) -> list[str]:
        """The columns without another role, and that are no part of the key of the queries.

        by= may name the column of the queries, which is an error of its own.
        """
        allowed = (role, "") if role == "query" else (role,)
        parts = dict.fromkeys(self.sources([self.roles.get("query", "")]), "query")
        taken = {**parts, **{name: other for other, name in self.roles.items()}, **self.named}
        free = [name for name in self.columns if taken.get(name, role) in allowed]
        return [name for name in free if not is_added(name, self.columns, role)]

    def actual_name(self, name: str) -> str:
        """The name of a column as the table spells it."""
        if name in self.columns:
            return name
        return next(column for column in self.columns if column.lower() == name.lower())

    def known(self, role: str) -> list[str]:
        """All columns with a recognised name of a role."""
        return [name for name in self.free_columns(role) if says(name, role)]

    def number(self, role: str) -> str:
        """The column of a role as DOUBLE; `read` also checks its values."""
        name = self.roles[role]
        kind = self.columns[name]
        text = self.text and is_text(kind)
        is_flag = role == "pos" and kind == "BOOLEAN"
        if not text and (is_flag or not is_number(kind)):
            kind = "text" if is_text(kind) else kind
            label, why = (
                label_in(name, kind),
                f"{self.label}: {name} must be a number, not {kind}. ",
            )
            if label and is_nested(kind):
                raise RankqlError(advise(why, "Pass ", {role: quote_name(name) + label[0]}))
            require(not is_nested(kind), f"{why}Pass an expression of it")
            lost, cast = self.cast_to_number(role, name)
            raise RankqlError(advise(f"{why}Cast it first: ", cast, lost))
        value = text_number(name) if text else f"CAST({quote(name)} AS DOUBLE)"
        return self.signed(role, value)

    def cast_to_number(self, role: str, name: str) -> tuple[str, dict[str, str] | str]:
        """The values that a cast loses, and the call that casts a column: a time to seconds or to
        whether it is known, a text to its number. For words alone and for yes and no, a text that
        says how, as only the caller knows which.
        """
        column, kind = quote_keyword(name), self.columns[name]
        if kind == "BOOLEAN":
            return "", f"{role}={f'CASE WHEN {column} THEN 1 ELSE 2 END'!r}"
        if not is_text(kind):
            return "", (
                {"rel": f"{column} IS NOT NULL"} if role == "rel" else {"score": f"epoch({column})"}
            )
        value, number = quote(name), f"TRY_CAST({quote(name)} AS DOUBLE)"
        words = f"FILTER ({value} IS NOT NULL AND {number} IS NULL)"
        counts = f"count({number}), count(*) {words}, min(DISTINCT {value}, 4) {words}"
        numbers, count, found = self.row(counts)
        if not count:
            return "", {role: f"CAST({column} AS DOUBLE)"}
        if not numbers:
            case = f"CASE {column} WHEN {literal(found[0])} THEN 1 ELSE 2 END"
            return "", f"{role}={case!r}"
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        lost = f"{rows} {', '.join(map(repr, found))}"
        effect = "NULL, unjudged" if role == "rel" else "NULL, without a place"
        return f". {lost}, which becomes {effect}", {role: f"TRY_CAST({column} AS DOUBLE)"}

    def number_or_null(self, name: str) -> str:
        """The number in a column, NULL where it has none."""
        text = is_text(self.columns[name])
        return text_number(name) if text else f"CAST({quote(name)} AS DOUBLE)"

    def signed(self, role: str, value: str) -> str:
        """The value of a role, with its sign changed if the lowest score is best."""
        return f"(0 - {value})" if role == "score" and self.ascending else value

    def integer(self, role: str) -> str | None:
        """The column of a role if its type is an integer, else None."""
        name = self.roles.get(role)
        kind = "" if name is None else self.columns[name]
        integers = kind.endswith("INT") or kind in ("INTEGER", "UINTEGER")
        return quote(name) if name is not None and integers and not self.text else None

    def read(self, role: str) -> str:
        """The column of a role as a number; an error if a value is not a number."""
        self.number(role)  # refuses other types
        name = self.roles[role]
        value = f"rankql_read_{role}({quote(name)}, {literal(f'{self.label}: {name}')})"
        return self.signed(role, value)

    def key(self, role: str, as_text: bool = False) -> str:
        """The column of a role that is an id."""
        column = quote(self.roles[role])
        if role == "query":
            self.refuse_interval(self.roles[role])
        as_text = as_text or is_text(self.columns[self.roles[role]])
        return f"CAST({column} AS VARCHAR){self.exact}" if as_text else column

    def refuse_interval(self, name: str) -> None:
        """Refuse a column of results that polars cannot hold."""
        interval = f"{self.label}: {name} is an INTERVAL. Cast it to text first"
        require(not self.columns[name].startswith("INTERVAL"), interval)


def describe_roles(roles: Mapping[str, str]) -> list[str]:
    """What was read, for people.

    Nothing is reported of a column that is called like its role, unless it had a rival.
    """
    unused = any(isinstance(x, Unused) for x in roles.values())
    rivals = {"pos", "score"} if {"pos", "score"} <= roles.keys() and not unused else {}
    used = []
    for role, x in roles.items():
        if role == CHOSEN:
            used.append(f"{role}, pass {x} to name them")
        elif (x != role or role in rivals) and role != UNREAD:
            name = f"({x})" if ", " in x and "(" not in x else x
            used.append(name if isinstance(name, Unused) else f"{role} = {name}")
    return used


def require_named(columns: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse columns that values decided: with other data, others may match."""
    for label, roles in columns.items():
        if CHOSEN in roles:
            raise RankqlError(
                f"{label}: values decide which columns are the query and the item, and other "
                f"values may decide otherwise. Name them: {roles[CHOSEN]}"
            )


def unknown_column(argument: str, name: str, tables: Sequence[Table]) -> RankqlError:
    """The error about a column that no table has."""
    from rankql.core.base.text import join_words  # imports polars

    columns = list(dict.fromkeys(column for table in tables for column in table.own_columns))
    labels = join_words([*dict.fromkeys(table.label for table in tables)])
    in_lists = re.compile(rf'STRUCT\((.*, )?"?{re.escape(name)}"? ')
    rows = any(in_lists.match(kind) for table in tables for kind in table.columns.values())
    return RankqlError(
        f"{argument}={name!r}: no column of that name in {labels}{did_you_mean(name, columns)}"
        + f". The lists have it: {AS_FRAMES}" * (rows and argument == "query")
    )


# The columns of a dict of objects by query. Rows of systems that are read so are passed as frames.
OF_OBJECTS = ["query", "retrieved"]
AS_FRAMES = "pass rows as frames, such as {'system': pl.DataFrame(rows)}"


def require_column(table: Table, name: str, argument: str) -> str:
    """The name of a column as the table spells it; an error if it has none."""
    require(isinstance(name, str), f"{argument} must be the name of a column, not {name!r}")
    if not table.has(name):
        raise unknown_column(argument, name, [table])
    return table.actual_name(name)


def mentioned(columns: Iterable[str], text: str) -> list[str]:
    """The columns whose names occur in a text of SQL, and maybe some more."""
    return [column for column in columns if column.lower() in text.lower()]


def text_number(name: str) -> str:
    """The number that a column of text holds, or NULL. DuckDB reads 1_0 as 10."""
    column = f"CAST({quote(name)} AS VARCHAR)"
    return f"TRY_CAST(CASE WHEN NOT contains({column}, '_') THEN {column} END AS DOUBLE)"


def key_text(values: Sequence[str], kinds: Sequence[str]) -> str:
    """A key of several values, in SQL."""
    return join_key(map(id_text, values, kinds))


def join_key(texts: Iterable[str]) -> str:
    """A key of several texts, in any SQL. A comma in one is doubled, so that keys differ."""
    return " || ', ' || ".join(map("replace({}, ',', ',,')".format, texts))


def id_text(column: str, kind: str) -> str:
    """The SQL of an id as text; 1.0 is 1, as where numbers are compared, and midnight its day."""
    text = f"CAST({column} AS VARCHAR)"
    if kind.startswith("TIMESTAMP"):  # as pandas has days
        return midnight_as_day(text)
    if not kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")):
        return text
    is_whole = f"{column} = floor({column}) AND abs({column}) < 1e15"
    return f"CASE WHEN {is_whole} THEN CAST(CAST({column} AS BIGINT) AS VARCHAR) ELSE {text} END"


def midnight_as_day(text: str) -> str:
    """The SQL of a text of which midnight is its day."""
    return f"regexp_replace({text}, ' 00:00:00$', '')"


def repeated_names(names: Iterable[object]) -> list[str]:
    """The names that occur more than once, in any case: DuckDB numbers the later ones."""
    return [name for name, count in Counter(str(x).lower() for x in names).items() if count > 1]


def refuse_repeated(table: Table, names: Iterable[str]) -> None:
    """Refuse the use of a column whose name another one has too."""
    for name in table.sources([*table.roles.values(), *names]):
        several = f"{table.label} has several columns called {name!r}. Rename or remove all but one"
        require(name.lower() not in table.repeated, several)


def format_mapping(grades: Mapping[str, Any], column: str = "") -> str:
    """How rel= maps labels to grades, in a column of another name than the known ones."""
    python = f"{{{', '.join(f'{label!r}: {grade}' for label, grade in grades.items())}}}"
    return f"rel=({column!r}, {python})" if column else f"rel={python}"


def is_text(kind: str) -> bool:
    """Is it a type of text in DuckDB?"""
    return kind.startswith(("VARCHAR", "ENUM", "JSON"))


def is_nested(kind: str) -> bool:
    """Is it a type of lists, maps or structs?"""
    return kind.endswith("]") or kind.startswith(("MAP(", "STRUCT("))


# Names of labels, without the s of several.
_LABELS = {*map(squash, ROLES["rel"]), "choice", "response", "accept"}


def label_in(name: str, kind: str) -> tuple[str, str] | None:
    """The path to the first label in a list or an object, and the type of the label.

    A place in a text has a label too, which is not that of the item.
    """
    if kind.endswith("]"):
        label = label_in(name, re.sub(r"\[\d*\]$", "", kind))
        return label and (f"[1]{label[0]}", label[1])
    if not kind.startswith("STRUCT("):
        return ("", kind) if squash(name.rpartition(".")[2]).rstrip("s") in _LABELS else None
    import duckdb  # not at the top: what reads no table starts faster

    fields = dict(duckdb.sqltype(kind).children)
    for x, each in fields.items() if not {"start", "end"} <= {*fields} else ():
        called = name if x == "score" and name.startswith("response") else x
        if label := label_in(called, str(each)):
            return f".{quote_name(x)}{label[0]}", label[1]
    return None


def is_number(kind: str) -> bool:
    """Is it a type of numbers in DuckDB?"""
    numbers = ("INTEGER", "UINTEGER", "BIGNUM", "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN", '"NULL"')
    return kind.endswith("INT") or (kind.startswith(numbers) and not kind.endswith("]"))


def same_kind(kinds: Sequence[str]) -> bool:
    """Can columns of these types be compared without casts?"""
    classes = {"text" if is_text(kind) else "number" if is_number(kind) else kind for kind in kinds}
    return len(classes) == 1


def hash_column(name: str, kinds: Sequence[str]) -> str:
    """The hash of a column, the same for equal values of all these types."""
    if len(set(kinds)) == 1:
        return f"hash({name})"
    common = "DOUBLE" if all(map(is_number, kinds)) else "VARCHAR"
    return f"hash(CAST({name} AS {common}))"


def quote_name(name: str) -> str:
    """A name in an expression, in quotes if it needs them."""
    return name if name.isidentifier() else quote(name)


def quote_keyword(name: str) -> str:
    """The same in an error, which may take the time to see whether it is a keyword."""
    return quote(name) if name.isidentifier() and is_keyword(name) else quote_name(name)


@cache
def is_keyword(name: str) -> bool:
    """Is an identifier a keyword of SQL, such as at, so that a column needs quotes?"""
    import duckdb  # which takes time, and not all commands need

    try:
        duckdb.extract_statements(f"SELECT - {name} + abs({name})")
    except duckdb.Error:
        return True
    return False


# The types that are no ids.
_NO_IDS = ("TIME", "DATE", "INTERVAL", "BOOLEAN", "BLOB", "STRUCT", "MAP", "UNION")
FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")


def is_id(kind: str) -> bool:
    """May values of this type be ids, although no name says so?"""
    return not kind.startswith((*_NO_IDS, *FRACTIONS)) and not kind.endswith("]")


# The types of floating point, as DuckDB calls them and their lists.
FLOATS = ("DOUBLE", "FLOAT")


def is_nan(column: str) -> str:
    """The condition that a number is NaN.

    isnan() of DuckDB 2.0 misses NaN in Parquet files, whose statistics leave it out (duckdb issue
    25521).
    """
    return f"(NOT isfinite({column}) AND NOT isinf({column}))"


def has_decimal_comma(value: str) -> bool:
    """Is a text a number such as 0,5?"""
    return re.fullmatch(r"[-+]?\d*,\d+", value) is not None


def is_rounded(column: str, kind: str) -> str:
    """The condition that a floating-point number may stand for several ids."""
    most = 2**24 if kind[0] == "F" else 2**53  # of Parquet, DuckDB 2.0 takes no NaN to be above it
    return f"{column} <> floor({column}) OR abs({column}) >= {most} OR NOT isfinite({column})"
