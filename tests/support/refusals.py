"""What functions refuse: `cases/refusals.toml` has calls, and the words of their errors.

A table is of one test module, whose names its calls use. In the words, ... stands for any text.
"""

import math
import re
import tomllib

import polars as pl
import pytest

import rankql
from rankql.core.base.errors import Question, RankqlError
from support.parameters import few
from support.paths import ROOT
from support.reading import one_line

REFUSALS = tomllib.loads((ROOT / "tests" / "cases" / "refusals.toml").read_text("utf-8"))
WORDS = {"{run}": r"(the run|run 'new'|run)", "...": ".*", "{end}": "$"}


def begins(text, pattern):
    """Does a text begin so?"""
    parts = re.split(r"({run}|{end}|\.\.\.)", pattern)
    return re.match("".join(WORDS.get(x, re.escape(x)) for x in parts), text)


def require_refused(call, words, names):
    """A call is an error that begins with these words; if it offers no call, on one line."""
    with pytest.raises(RankqlError) as caught:
        eval(call, {"math": math, "pl": pl, "rankql": rankql, **names})
    error = caught.value
    assert begins(one_line(error), words), str(error)
    assert isinstance(error, Question) or error.remedies or "\n" not in str(error), str(error)


def refuses(table, names, form="%s", light=3):
    """A test that each call of a table is refused, as a part of the form; so many are light."""

    @few(light)(("call", "words"), REFUSALS[table].items())
    def test(call, words):
        require_refused(form % call, words, names)

    return test
