"""Structs in ClickHouse, whose fields have no names there.

x.name is the n-th field of x, as says the struct that x comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sqlglot import exp

from rankql.engines.folding import function_call
from rankql.engines.sql_trees import replace_node


def replace_structs(tree: exp.Expr) -> exp.Expr:
    """Structs as tuples, and their fields by place."""
    fields = _StructFields(tree)
    structs = [(node, fields.struct_of(node.this)) for node in tree.find_all(exp.Dot)]
    places = [(node, _place(struct, node)) for node, struct in structs if struct]
    for node, place in reversed(places):
        element = function_call("tupleElement", node.this, exp.Literal.number(place + 1))
        tree = replace_node(tree, node, element)
    for struct in reversed([*tree.find_all(exp.Struct)]):
        values = (field.expression for field in struct.expressions)
        tree = replace_node(tree, struct, function_call("tuple", *values))
    return tree


class _StructFields:
    """The structs of a tree, found from where they are made to where a field is taken."""

    def __init__(self, tree: exp.Expr) -> None:
        # What the variables of lambdas stand for: an entry of a list, or a first value.
        self._entries: dict[str, exp.Expr] = {}
        self._values: dict[str, exp.Expr] = {}
        for call in tree.find_all(exp.Anonymous):
            first, *lists = call.expressions or [None]
            if not isinstance(first, exp.Lambda):
                continue
            names = [name.name for name in first.expressions]
            if call.name == "arrayFold":
                self._values[names.pop(0)] = lists[1]
            self._entries.update(zip(names, lists, strict=False))

    def struct_of(self, node: Any) -> exp.Struct | None:
        """The struct that a value is."""
        match node:
            case exp.Struct():
                return node
            case exp.Paren():
                return self.struct_of(node.this)
            case exp.Case():
                return _first_known(
                    self.struct_of, [branch.args["true"] for branch in node.args["ifs"]]
                )
            case exp.Dot():
                return self.struct_of(self.field_of(node))
            case exp.Column() if node.name in self._entries:
                return self.struct_of(self.entry_of(self._entries[node.name]))
            case exp.Column() if node.name in self._values:
                return self.struct_of(self._values[node.name])
            case exp.Anonymous(this="arrayElement"):
                return self.struct_of(self.entry_of(node.expressions[0]))
            case exp.Anonymous(this="arrayFold"):
                return self.struct_of(node.expressions[2])
            case exp.Anonymous(this="coalesce"):
                return _first_known(self.struct_of, node.expressions)
            case exp.Anonymous(this="tupleElement"):
                return self.struct_of(self._tuple_element(node))
        return None

    def entry_of(self, node: Any) -> Any:
        """What the entries of a list are made by."""
        match node:
            case exp.Array():
                return node.expressions[0] if node.expressions else None
            case exp.Paren() | exp.Filter():
                return self.entry_of(node.this)
            case exp.Case():
                return _first_known(
                    self.entry_of, [branch.args["true"] for branch in node.args["ifs"]]
                )
            case exp.Dot():
                return self.entry_of(self.field_of(node))
            case exp.Column() if node.name in self._entries:
                return self.entry_of(self.entry_of(self._entries[node.name]))
            case exp.Anonymous(this="arrayMap"):
                return node.expressions[0].this
            case exp.Anonymous(this="groupArray"):
                return node.expressions[0]
            case exp.Anonymous(this="arrayFilter"):
                return self.entry_of(node.expressions[1])
            case exp.Anonymous(this="arraySort" | "arrayReverseSort" | "arraySlice"):
                return self.entry_of(node.expressions[0])
            case exp.Anonymous(this="arrayConcat" | "coalesce"):
                return _first_known(self.entry_of, node.expressions)
            case exp.Anonymous(this="arrayElement" | "arrayFlatten"):
                return self.entry_of(self.entry_of(node.expressions[0]))
            case exp.Anonymous(this="tupleElement"):
                return self.entry_of(self._tuple_element(node))
        return None

    def field_of(self, node: exp.Dot) -> Any:
        """What a field of a struct is made by."""
        struct = self.struct_of(node.this)
        return struct.expressions[_place(struct, node)].expression if struct else None

    def _tuple_element(self, node: exp.Anonymous) -> Any:
        tuple_, place = node.expressions
        made = self._tuple_of(tuple_)
        return made.expressions[int(place.name) - 1] if made else None

    def _tuple_of(self, node: Any) -> Any:
        if isinstance(node, exp.Column) and node.name in self._entries:
            return self._tuple_of(self.entry_of(self._entries[node.name]))
        return node if isinstance(node, exp.Anonymous) and node.name == "tuple" else None


F = TypeVar("F")


def _first_known(found: Callable[[exp.Expr], F | None], nodes: Iterable[exp.Expr]) -> F | None:
    return next((made for made in map(found, nodes) if made is not None), None)


def _place(struct: exp.Struct, node: exp.Dot) -> int:
    return [field.name for field in struct.expressions].index(node.expression.name)
