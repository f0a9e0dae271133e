"""The inputs of an evaluation: runs, judgments and attributes, with recognised columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.tables.tables import Runs, Table, is_text, same_kind


@dataclass(frozen=True)
class TidyTables:
    """Runs, judgments, attributes and training with a row per item, before columns have roles."""

    runs: Runs
    qrels: Table | None
    attributes: Table | None
    train: Table | None
    system: str | None
    # The names of columns by role, in the runs and in the judgments, as far as they are named.
    names: tuple[dict[str, str | None], dict[str, str | None]]
    # The runs as they were opened.
    opened: Sequence[Table]
    # What the caller asked for, and the column of the systems.
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Beyond:
    """What only metrics of shown items read, beyond the runs and judgments."""

    # The interactions of training, and the items that could be shown, or their number.
    train: Table | None = None
    catalogue: Table | int | None = None
    # SQL of their items: with `users` and `place` in train, and `known` of the catalogue.
    popular: str = ""
    known: str = ""
    size: str = ""

    @property
    def tables(self) -> list[Table]:
        """Those that are tables."""
        return [table for table in (self.train, self.catalogue) if isinstance(table, Table)]


@dataclass(frozen=True)
class Inputs:
    """The runs by the name of their system, the judgments, the attributes."""

    runs: Mapping[str | None, Table]
    qrels: Table | None = None
    attributes: Table | None = None
    system: str | None = None
    by: Sequence[str] = ()
    # The CTE of each attribute: 'run', 'qrels' or 'attributes'.
    ctes: Mapping[str, str] = field(default_factory=dict)
    # The argument that names each attribute, for errors.
    arguments: Mapping[str, str] = field(default_factory=dict)
    # All values of `system`, if the table has only some of them.
    systems: Sequence[str] = ()
    # The values of `system` in the order of the rows, if these have one.
    first_to_last: Sequence[str] = ()
    # A condition on the query, written {query}, if only some queries are evaluated.
    where: str = ""
    # Notes on what was dropped.
    notes: Sequence[str] = ()
    # "count": queries of a run without judgments count, each by a row of them without an item.
    unjudged_queries: str | None = None
    # "zero": a run may have no judged item.
    none_judged: str | None = None
    # Of a ranked table: its queries and those without a grade, which are left out.
    left_out: Sequence[Any] = ()
    # The attribute by which queries are weighted in the means; it is in `by` too.
    weight: str | None = None
    # The columns of the runs that metrics of the user read, by name, as SQL.
    extra: Mapping[str, str] = field(default_factory=dict)
    # The lowest score that is shown, that of each system, or a tuple of a list; others are NULL.
    min_score: Any = None
    # The first run without scores, if others have only scores: each is ranked by what it has.
    unscored: str = ""
    # Do the judgments have a column `subtopics`, which metrics read?
    subtopics: bool = False
    # The judgments that metrics of forbidden items read, if forbidden= names these items.
    forbidden: Table | None = None
    # Does the caller have the option collapse=, which errors about duplicates recommend?
    collapsible: bool = False
    # What only metrics of shown items read.
    beyond: Beyond = Beyond()
    # Roles whose ids had different types before the tables were cleaned.
    mixed: Sequence[str] = ()

    @cached_property
    def many(self) -> bool:
        """Does the result have a column system?"""
        return self.system is not None or None not in self.runs

    @cached_property
    def keys(self) -> str:
        """The columns that identify a ranking."""
        return "system, query" if self.many else "query"

    @cached_property
    def scored(self) -> bool:
        """Are the rankings by score? (Positions win over scores.)"""
        return all("pos" not in table.roles for table in self.runs.values())

    @property
    def numbered(self) -> bool:
        """Are the items of a run the numbers of its rows, which give tied items no order?"""
        return any(table.is_assumed("item") for table in self.runs.values())

    @property
    def ascending(self) -> bool:
        """Is the lowest score the best, in at least one run?"""
        return any(table.ascending for table in self.runs.values())

    @property
    def query(self) -> str:
        """The name of the query column: that of the judgments, else of the run."""
        return (self.qrels or next(iter(self.runs.values()))).roles["query"]

    @property
    def about_runs(self) -> bool:
        """Are the attributes those of the rows of the runs, of which some have no item?"""
        return self.attributes is not None and self.attributes.of_runs

    @property
    def judging_cte(self) -> str:
        """The CTE with the grades: `qrels`, or the run itself."""
        return "run" if self.qrels is None else "qrels"

    def run_of(self, system: str | None) -> Table:
        """The table with the rankings of a system: its own, or the one that all share."""
        return self.runs.get(system) or next(iter(self.runs.values()))

    @property
    def judging(self) -> list[Table]:
        """The tables with grades."""
        return [self.qrels] if self.qrels else list(self.runs.values())

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        others = (self.qrels, self.attributes)
        return [*self.runs.values(), *filter(None, others)]

    @property
    def has_text_items(self) -> bool:
        """Are the items of a table text?"""
        tables = (table for table in self.tables if "item" in table.roles)
        return any(is_text(table.columns[table.roles["item"]]) for table in tables)

    def with_beyond(self, **changes: Any) -> Inputs:
        """The same with other fields of `beyond`."""
        return replace(self, beyond=replace(self.beyond, **changes))

    def every(self, role: str) -> bool:
        """Does every run have a column of this role?"""
        return all(role in table.roles for table in self.runs.values())

    def as_text(self, role: str) -> bool:
        """Must ids be compared as text, because the tables have different types?"""
        tables = [*self.tables, *self.beyond.tables]
        kinds = [t.columns[t.roles[role]] for t in tables if role in t.roles]
        return role in self.mixed or not same_kind(kinds)

    def lost_lists(self, table: Table) -> bool:
        """Is it a run of lists that are all empty, beside runs that have items?"""
        runs = self.runs.values()
        return bool(table.with_lists) and table in runs and any(x.value("count(*)") for x in runs)

    def attributes_in(self, cte: str) -> list[str]:
        """The attributes in a table."""
        return [name for name in self.by if self.ctes[name] == cte]

    def attribute(self, name: str) -> str:
        """The column of an attribute in the SQL, where its own name may be taken."""
        return f"{INTERNAL_PREFIX}by_{self.by.index(name)}"

    def read_attribute(self, table: Table, name: str) -> str:
        """The value of an attribute in a table: a number if it is the weight."""
        if name != self.weight:
            table.refuse_interval(table.actual_name(name))
            return quote(name)
        weight = replace(table, roles={"score": table.actual_name(name)}, ascending=False)
        return weight.read("score")  # any number: see `means`

    def cte_of(self, table: Table) -> str:
        """The CTE of a table: `run`, `qrels` or `attributes`."""
        return "run" if table in self.runs.values() else table.label

    def fields(self, table: Table, name: str | None = None) -> dict[str, str]:
        """The columns of a table by their standard names, as SQL. name: of the run."""
        ids = {x: table.key(x, self.as_text(x)) for x in ("query", "item") if x in table.roles}
        numbers = {x: table.number(x) for x in ("pos", "score", "rel") if x in table.roles}
        system = {}
        if self.system is not None and self.cte_of(table) == "run":
            system = {"system": f"CAST({quote(self.system)} AS VARCHAR)"}
        elif name is not None:
            system = {"system": f"{literal(name)}{table.exact}"}
        return system | ids | numbers

    def rows(self, table: Table, *names: str) -> str:
        """The rows of a table with standard columns, all or some of them."""
        fields = self.fields(table)
        columns = ", ".join(f"{fields[x]} AS {x}" for x in names or fields)
        return f"(SELECT {columns} FROM {table.sql})"

    def ids(self, table: Table) -> list[str]:
        """The columns that identify its rows."""
        names = [table.roles[role] for role in table.id_roles if role in table.roles]
        system = self.system if self.cte_of(table) == "run" else None
        return [*names, table.actual_name(system)] if system else names
