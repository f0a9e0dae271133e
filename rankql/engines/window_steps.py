"""The steps of a window query. Each step adds columns to the rows of the previous step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, cast

from sqlglot import exp

INTERNAL = "rankql"


def transform_parts(tree: exp.Expr, kind: type[exp.Expr], change: Callable[[Any], exp.Expr]) -> Any:
    """Replace the parts of one type in a tree."""
    return tree.transform(lambda part: change(part) if isinstance(part, kind) else part)


def normalise_names(node: exp.Expr) -> str:
    """The text of an expression with names in lower case."""
    return str(
        transform_parts(node, exp.Identifier, lambda n: exp.to_identifier(n.name.lower())).sql()
    )


class WindowSteps:
    """Columns by step. A column can use those of earlier steps."""

    def __init__(self) -> None:
        self.partition: list[exp.Expr] = []
        self.steps: list[dict[str, exp.Expr]] = [{}]
        self._known: dict[str, exp.Column] = {}
        self._step: dict[str, int] = {}

    def column(self, name: str, value: exp.Expr) -> exp.Column:
        """The column for a value, added if it is new."""
        used = [self._step[c.name] for c in value.find_all(exp.Column) if INTERNAL in c.meta]
        if used:
            value = self.carry_columns(value)
        key = value.sql()
        if key not in self._known:
            step = 1 + max(used, default=-1)
            self.steps += [{} for _ in range(step + 1 - len(self.steps))]
            self._known[key] = self._add(step, f"rankql_{name}", value)
        return self._known[key].copy()

    def carry_columns(self, value: exp.Expr) -> exp.Expr:
        """Replace columns of the source by columns of the steps."""
        return cast(
            exp.Expr,
            transform_parts(
                value, exp.Column, lambda c: c if INTERNAL in c.meta else self.source(c)
            ),
        )

    def source(self, column: exp.Column) -> exp.Column:
        """A column of the source, under its own name if that is free."""
        key = normalise_names(column)
        if key not in self._known:
            self._known[key] = self._add(0, column.name, column, column.this.quoted)
        return self._known[key].copy()

    def _add(self, step: int, name: str, value: exp.Expr, quoted: bool = False) -> exp.Column:
        taken = {other.lower() for other in self._step}
        names = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
        free = next(other for other in names if other.lower() not in taken)
        self._step[free] = step
        self.steps[step][free] = exp.alias_(value.copy(), exp.to_identifier(free, quoted=quoted))
        made = exp.column(exp.to_identifier(free, quoted=quoted))
        made.meta[INTERNAL] = True
        return made


def chain_steps(
    made: exp.Select, steps: WindowSteps, source: Mapping[str, Any], with_: exp.With | None
) -> exp.Select:
    """The final query: one CTE per step, then the SELECT over the last step."""
    ctes = list(with_.expressions) if with_ else []
    last = None
    for n, columns in enumerate(steps.steps, 1):
        name = "rankql_rows" if n == 1 else f"rankql_rows_{n}"
        listed = list(columns.values()) or [exp.alias_(exp.Literal.number(1), "rankql_row")]
        if last is None:
            body = exp.Select(expressions=listed, **source)
        else:
            body = exp.Select(expressions=[exp.Star(), *listed]).from_(exp.to_table(last))
        ctes.append(exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(name))))
        last = name
    made = made.from_(exp.to_table(cast(str, last)))
    recursive = bool(with_ and with_.args.get("recursive"))
    made.set("with_", exp.With(expressions=ctes, recursive=recursive))
    return made
