"""The errors that rankql raises, for `except`."""

from rankql.core.base.errors import Question, RankqlError

__all__ = ["Question", "RankqlError"]
