"""The errors of rankql."""


class RankqlError(ValueError):
    """What is wrong, with which argument or column, and what to do about it."""
