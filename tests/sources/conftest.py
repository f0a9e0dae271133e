"""Every call that a question of `evaluate` offers is run, in all tests of this folder."""

import functools
import inspect

import pytest

import rankql
from rankql.errors import Question

evaluate = rankql.evaluate


@pytest.fixture(autouse=True)
def offered_calls_work(monkeypatch):
    """Fail if an offered call raises, or matches no judged item."""

    @functools.wraps(evaluate)
    def checked(*args, **options):
        try:
            return evaluate(*args, **options)
        except Question as question:
            given = inspect.signature(evaluate).bind(*args, **options).arguments
            given |= given.pop("options", {})
            given |= {"metrics": ["Judged@1000", "P(denominator=retrieved)@1000"], "interval": None}
            for call in question.calls:
                means = evaluate(**{**given, **call}).summary["mean"]
                assert max(means) > 0, call
            raise

    monkeypatch.setattr(rankql, "evaluate", checked)
