"""Every call that a question of `evaluate` offers is run, in all tests of this folder."""

import functools

import pytest

import rankql
from rankql.errors import Question

evaluate = rankql.evaluate


@pytest.fixture(autouse=True)
def offered_calls_work(monkeypatch):
    """Fail if an offered call raises, or leaves every query without a judged item."""

    @functools.wraps(evaluate)
    def checked(*args, **options):
        try:
            return evaluate(*args, **options)
        except Question as question:
            for call in question.calls:
                result = evaluate(*args, **{**options, "metrics": "Judged"} | dict(call))
                assert max(result.summary["mean"]) > 0, call
            raise

    monkeypatch.setattr(rankql, "evaluate", checked)
