"""A helper for tests: `from rankql.testing import assert_no_regression`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import rankql
from rankql.core.base import text
from rankql.core.tables.tables import Data

if TYPE_CHECKING:
    from rankql.decisions.alignment import Results
    from rankql.decisions.verdict import Verdict


def assert_no_regression(
    run: Data | Results,
    qrels: Data | None = None,
    baseline: Data | Results | None = None,
    **options: Any,
) -> Verdict:
    """Raise AssertionError with the limits that failed, unless the run passes the gate.

    Takes the arguments of `rankql.gate` and returns its verdict. An inconclusive limit raises too;
    with inconclusive="warn" it is a warning instead.

    >>> import polars as pl, rankql
    >>> values = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.4, 0.3, 0.5]})
    >>> assert_no_regression(rankql.read_values(values), minimum="AP>=0.45")
    Traceback (most recent call last):
    AssertionError: Gate failed: 1 of 1 check
    ...
    """
    __tracebackhide__ = True  # pytest then shows the test that failed, not this line
    verdict = rankql.gate(run, qrels, baseline, **options)
    if not verdict:
        raise AssertionError(repr(verdict))
    for row in verdict.inconclusive.iter_rows(named=True):
        name = text.add_slice(row["check"], row["slice"], brackets=True)
        warnings.warn(f"{name}: {row['message']}", stacklevel=2)
    return verdict
