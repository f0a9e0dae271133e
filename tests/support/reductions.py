"""Evaluate by the reduction and by the readable query, which must give the same."""

from unittest.mock import patch

from polars.testing import assert_frame_equal

import rankql
from rankql.core.evaluation.evaluate import evaluate_in_duckdb
from support.reading import make_request


def evaluate(*args, reduces, **options):
    """The result, or the error. reduces: may rankings be reduced? Without threads they are not."""
    with patch("rankql.core.evaluation.reduce.reduce.may_lack_threads", lambda: not reduces):
        try:
            return evaluate_in_duckdb(make_request(*args, interval=None, **options))
        except rankql.RankqlError as error:
            return str(error)


def require_equal(left, right):
    """The same rows in their order, numbers to 1e-12, NULL where NULL."""
    assert_frame_equal(left, right, abs_tol=1e-12, rel_tol=1e-12)


def compare(run, qrels, metrics, **options):
    """The result or the error, which must be that of the readable query."""
    reduced, readable = (evaluate(run, qrels, metrics, reduces=p, **options) for p in (True, False))
    if isinstance(reduced, str) or isinstance(readable, str):
        assert str(reduced) == str(readable)
        return reduced
    require_equal(reduced.per_query, readable.per_query)
    require_equal(reduced.summary, readable.summary)
    assert reduced.notes == readable.notes
    return reduced
