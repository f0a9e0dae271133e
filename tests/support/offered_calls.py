"""`evaluate` that runs every call that a question offers, and `check` on what it reads."""

import functools
import inspect
import os
import re

import rankql
from rankql.errors import Question
from rankql.sources.request import ReadingOptions

CHECKED = set()  # the test functions of which a call was checked


# Words of names, and the arguments for which no call may offer them.
NEVER = {
    "query": {
        *("system", "model", "arm", "adapter", "retriever", "variant", "method", "engine"),
        *("config", "strategy", "pipeline", "ranker", "algorithm", "rank", "place", "score"),
    },
    "system": {"rank", "place", "score", "page"},
    "rel": {"index", "offset", "timestamp"},
    "score": {"timestamp"},
}
# Words that only ids of one side have, by the place of the side in a pair.
OTHER_SIDE = [{"gold", "expected", "accepted", "truth"}, {"retrieved", "predicted", "hits"}]


def nonsense_in(call):
    """The names of a call that no column of its role has."""
    found = []
    for role, value in call.items():
        names = value if isinstance(value, list | tuple) else [value]
        words = [{*re.split(r"[\W_]+", str(name).lower())} for name in names]
        found += [x for x, each in zip(names, words, strict=True) if each & NEVER.get(role, set())]
        if role == "query" and len({*names}) == 1:
            found += [x for x in names if x in ("split", "fold", "page")]
        if role == "item" and len({*names}) == 2:
            found += [x for x, each, other in zip(names, words, OTHER_SIDE, strict=True)
                      if each & other]  # fmt: skip
    return found


def checked(evaluate):
    """Raise an AssertionError if an offered call matches no judged item; it must not raise."""

    @functools.wraps(evaluate)
    def call_all(*args, **options):
        try:
            return evaluate(*args, **options)
        except Question as question:
            given = inspect.signature(evaluate).bind(*args, **options).arguments
            given |= given.pop("options", {})
            given |= {"metrics": "Judged@1000", "interval": None}
            for call in question.calls:
                assert not nonsense_in(call), call
                means = evaluate(**{**given, **call}).summary["mean"]
                assert max(means) > 0, call
            raise

    return call_all


def without_findings(evaluate):
    """Raise an AssertionError if `check` has an error in what the first call of a function reads.

    `check` takes longer than `evaluate`. Metrics have no cutoff.
    """
    read = inspect.signature(rankql.check).parameters.keys() | ReadingOptions.__annotations__.keys()

    @functools.wraps(evaluate)
    def and_check(run, qrels=None, *args, **options):
        result = evaluate(run, qrels, *args, **options)
        test = os.environ["PYTEST_CURRENT_TEST"].partition("[")[0]
        if test in CHECKED:
            return result
        CHECKED.add(test)
        given = {name: value for name, value in options.items() if name in read - {"k"}}
        findings = rankql.check(run, qrels, **given).findings
        assert not [x for x in findings if x.level == "error"], findings
        return result

    return and_check
