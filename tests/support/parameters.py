"""Parameters of tests: every value, without every combination; and which of them are slow."""

import itertools

import pytest


def cycled(*values):
    """As many tuples as the longest list has values; the shorter lists start again."""
    return [
        tuple(each[place % len(each)] for each in values) for place in range(max(map(len, values)))
    ]


def by_turns(*values):
    """All tuples; only those of `cycled` belong to the default run."""
    light = cycled(*map(list, values))
    return [each if each in light else slow(*each) for each in itertools.product(*values)]


def crossed(rows, columns, full):
    """Pairs: every row with each column of `full`, and with one of the others by turns."""
    others = [column for column in columns if column not in full]
    turns = [(row, others[place % len(others)]) for place, row in enumerate(rows)]
    return [*((row, column) for row in rows for column in full), *turns]


def slow(*values, **options):
    return pytest.param(*values, marks=pytest.mark.slow, **options)


def first_light(rows):
    """The rows, of which only the first belongs to the default run."""
    first, *others = rows
    return [first, *(slow(*row) for row in others)]


def slow_except(values, *light):
    """The values, of which only the light ones belong to the default run."""
    return [value if value in light else slow(value) for value in values]
