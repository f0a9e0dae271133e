"""Parameters of tests: every value, without every combination."""


def cycled(*values):
    """As many tuples as the longest list has values; the shorter lists start again."""
    return [
        tuple(each[place % len(each)] for each in values) for place in range(max(map(len, values)))
    ]
