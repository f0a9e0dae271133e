"""The ids of a table: one record of them, from the choice of a column to doubts about it.

A column of rows has one id each. A list has several: its column, its elements x_, and what is known
of each, such as a number that ranks it or grades it.
"""

from __future__ import annotations

from typing import NamedTuple


class Ids(NamedTuple):
    """A column that may hold ids: of the rows of a table, or of the elements x_ of a list."""

    # As item= names them, and their SQL.
    name: str
    sql: str
    # The place of its name among the known ones, from 0, which is the best.
    rank: int = 0
    # The column of lists and its SQL, if the ids are in one.
    column: str = ""
    values: str = ""
    # The place of what separates the ids of a cell in `SEPARATORS`: nothing if it has one.
    reading: int = 0
    # Are they ids only if most of them are among those of the run: answers, and numbers?
    doubtful: bool = False
    # Are they places in what another field names, such as pages?
    part: bool = False
    # The SQL of their grades or scores, if they have them, and the column or the field that is
    # named for them; "" for pairs and maps.
    number: str = ""
    numbers: str = ""
    # The SQL of lists of numbers n_ next to the ids.
    beside: str = ""
    # The other fields that are read, with their SQL.
    fields: tuple[tuple[str, str], ...] = ()
    # Their type, where it is known.
    kind: str = ""

    @property
    def grade(self) -> str:
        """The SQL of what tells two judgments of an id apart."""
        return self.number or ("hash(x_)" if self.fields else "1")

    @property
    def grade_name(self) -> str:
        """The name of the column with the grades, as errors say it."""
        return self.numbers or f"grade in {self.name}"

    @property
    def grade_origin(self) -> str:
        """What the Columns line says of the grades; "" if rel= names their field."""
        if self.beside:
            return f"{self.numbers} of {self.name}"
        if self.numbers or (self.fields and not self.number):
            return ""
        return f"grades in {self.column}" if self.number else "1 for every row"

    @property
    def used(self) -> set[str]:
        """The columns and fields of the lists that are read."""
        ids = self.name.removeprefix(f"{self.column}.").split(", ")
        fields = (f"{self.column}.{x}" for x in (*ids, *dict(self.fields)))
        return {self.column, *fields, *([self.numbers] if self.beside else [])}
