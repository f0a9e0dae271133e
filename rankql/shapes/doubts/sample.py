"""A run and its judgments as they were read: their columns and fields, and a sample of queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankql.core.base.column_names import is_added
from rankql.core.base.errors import Call
from rankql.core.base.text import Note
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, id_text, is_nested

# Words for nothing that stand in the place of an id.
NOTHING = (
    *("", "none", "null", "nan", "na", "nil", "nothing", "noresults", "noresultsfound", "noanswer"),
    *("noanswers", "noanswerfound", "abstain", "unanswerable", "outofscope", "notfound"),
    *("insufficientinformation", "norelevantdocument", "norelevantdocuments"),
)
# What such words are read without: blanks and marks.
MARKS = r"[\s\p{P}]"
# The places of a list that show how ids are written.
_FIRST_PLACES = 10


def says_nothing(text: str) -> str:
    """The SQL of whether a text stands for nothing, whatever its case, blanks and marks."""
    letters = f"regexp_replace(lower({text}), '{MARKS}', '', 'g')"
    return f"(length({text}) < 32 AND {letters} IN ({', '.join(map(literal, NOTHING))}))"


@dataclass(frozen=True)
class Reading:
    """The run or the judgments, with what was there before lists were unnested."""

    session: Session
    table: Table
    # Of how many queries one is looked at.
    every: Callable[[], int] = lambda: 1

    def note(self, words: str) -> Note:
        """A note on the table."""
        return Note(words, heading=self.table.label)

    @property
    def source(self) -> Table:
        """The table as it came: with a row per list, or with the rows of one item in a query."""
        return self.table.with_lists or self.table.before or self.table

    @property
    def column(self) -> str:
        """The column of the lists; "" if there are none."""
        return self.table.lists.column if self.table.lists else ""

    @property
    def kind(self) -> str:
        """The type of the lists; "" if there are none."""
        return self.source.columns[self.column] if self.column else ""

    @property
    def query(self) -> str:
        """The SQL of the query, as text."""
        name = self.table.roles["query"]
        return id_text(quote(name), self.table.columns[name])

    @property
    def item(self) -> str:
        """The SQL of the item, as text."""
        name = self.table.roles["item"]
        value = self.table.lists.sql if self.table.lists else quote(name)
        return id_text(value, self.table.columns[name])

    @property
    def name(self) -> str:
        """The item as item= names it."""
        objects = not self.column or self.kind.startswith("STRUCT(")
        return self.table.roles["item"] if objects else self.column

    @property
    def extent(self) -> str:
        """What a message says of a count, if it is that of a sample."""
        return " of a sample of the queries" if self.every() > 1 else ""

    @cached_property
    def sample(self) -> str:
        """The rows of the source of the sampled queries."""
        return f"(FROM {self.source.sql}{self._where()})"

    def _where(self) -> str:
        every = self.every()
        return f" WHERE hash({self.query}) % {every} = 0" if every > 1 else ""

    @cached_property
    def rows(self) -> str:
        """The sampled rows; of lists, a row for each element x_."""
        ids = self.table.lists
        return f"(SELECT *, unnest({ids.values}) AS x_ FROM {self.sample})" if ids else self.sample

    @cached_property
    def items(self) -> str:
        """The queries q and items i of the sample."""
        return self._read_items("true")

    def _read_items(self, condition: str) -> str:
        name, where = self.table.roles["item"], self._where() or " WHERE true"
        item = id_text(quote(name), self.table.columns[name])
        rows = f"SELECT {self.query} AS q, {item} AS i FROM {self.table.sql}{where}"
        return f"(FROM ({rows} AND {condition}) WHERE i IS NOT NULL)"

    @cached_property
    def marks(self) -> tuple[bool, str | None]:
        """Are all ids plain, so that they are spelled in one way; and one that says nothing."""
        words = says_nothing("i")
        plain = "bool_and(regexp_full_match(i, '[1-9a-z][0-9a-z_-]*'))"
        rows, place = self.items, self.table.roles.get("pos")
        if place:  # the first items show how ids are written
            rows = self._read_items(f"{quote(place)} <= {_FIRST_PLACES}")
        return self.session.row(f"SELECT {plain}, min(i) FILTER ({words}) FROM {rows}")

    @cached_property
    def fields(self) -> dict[str, tuple[str, str]]:
        """The SQL and the type of each column, and of the fields of the objects in lists."""
        columns = self.source.own_columns
        nested = [x for x in columns if is_nested(self.source.columns[x])]
        parents = {x for x in nested if any(y.startswith(f"{x}.") for y in columns)}
        own = {x: (quote(x), self.source.columns[x]) for x in columns if x not in parents}
        inner = fields_of(self.kind) if self.kind.endswith("]") else {}
        return {f"{self.column}.{x}": (y.of("x_"), y.kind) for x, y in inner.items()} | own

    @cached_property
    def used(self) -> set[str]:
        """The columns and fields that a role has, or that the caller names."""
        used, lists = set[str](), self.table.lists
        if lists:  # which may be computed
            used |= {*lists.used, *self.source.sources([lists.column])}
        for table in (self.table, self.source):
            used |= {*table.sources([*table.roles.values(), *table.named])}
        used |= {*filter(None, [self.table.context.get("forbidden")])}
        return used

    @cached_property
    def free(self) -> dict[str, tuple[str, str]]:
        """The columns and fields that no role has, but may have."""
        used, fields = self.used, self.fields
        return {x: y for x, y in fields.items() if x not in used and not is_added(x, fields)}

    def value(self, sql: str) -> Any:
        """The first value of a query."""
        return self.session.value(sql)


@dataclass(frozen=True)
class Pair:
    """A run and its judgments, None if the run has the grades; the roles that the caller names."""

    run: Reading
    qrels: Reading | None
    named: frozenset[str]

    @property
    def is_one_table(self) -> bool:
        """Are the lists of both in one table?"""
        return self.qrels is not None and self.qrels.source.sql == self.run.source.sql

    def named_items(self, run: str = "", qrels: str = "") -> Call:
        """The call that names the items of both."""
        assert self.qrels
        return {"item": [run or self.run.name, qrels or self.qrels.name]}
