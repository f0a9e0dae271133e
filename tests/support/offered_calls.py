"""`evaluate` that runs every call that a question offers."""

import functools
import inspect

from rankql.errors import Question


def checked(evaluate):
    """Raise an AssertionError if an offered call matches no judged item; it must not raise."""

    @functools.wraps(evaluate)
    def call_all(*args, **options):
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

    return call_all
