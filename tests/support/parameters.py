"""Parameters of tests: every value, without every combination; and which of them are slow."""

import pytest


def cycled(*values):
    """As many tuples as the longest list has values; the shorter lists start again."""
    return [
        tuple(each[place % len(each)] for each in values) for place in range(max(map(len, values)))
    ]


def crossed(rows, columns, full):
    """Pairs: every row with each column of `full`, and with one of the others by turns."""
    others = [column for column in columns if column not in full]
    turns = [(row, others[place % len(others)]) for place, row in enumerate(rows)]
    return [*((row, column) for row in rows for column in full), *turns]


def slow(*values, **options):
    return pytest.param(*values, marks=pytest.mark.slow, **options)


def few(n):
    """Parametrize as pytest does, with n light parameters: `@few(2)("k", [1, 2, 3])`."""

    def parametrize(names, values, **options):
        mark = pytest.mark.parametrize(names, values, **options)
        return lambda test: pytest.mark.few(n)(mark(test))

    return parametrize


def of_each_kind(cases):
    """Parametrize by cases with names such as "kind: case", of which one of each kind is light."""
    pairs = [(name.partition(": ")[0], name) for name in cases]
    return few(len({kind for kind, _ in pairs}))(("kind", "case"), pairs, ids=cases)
