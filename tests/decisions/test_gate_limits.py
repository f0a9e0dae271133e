"""What limits decide against a plain definition: values per query in, statuses out."""

import math
import re
from types import SimpleNamespace

import pytest

from rankql.decisions.gate_limits import limit_rows
from support.drawn_limits import NOTHING, decide, draw_limit
from support.parameters import few

FAILS = re.compile(", (beyond|below|above|not above|not below) the limit of ")


def rows_of(drawn):
    metric = drawn.limit.metric.name
    result = SimpleNamespace(metrics=[metric], conventions={})
    options = (drawn.alpha, drawn.min_queries, drawn.anytime)
    return [*limit_rows([drawn.limit], drawn.pairs, result, *options)]


def assert_printed(drawn, row, ends):
    """The ends of the interval are printed on their sides of the limit."""
    target, side = drawn.target
    turned = 1
    if not drawn.limit.operator:  # a change has its size, and none that of a loss
        change = row["difference"]
        turned = (1 if change > 0 else -1) if abs(change) > NOTHING else -side
    printed = re.search(r"CI (\S+) to (\S+)\)", row["message"]).groups()
    for text, end in zip(printed, sorted(turned * x for x in ends), strict=True):
        beyond = end - turned * target
        number = float(text.replace(",", ""))
        assert abs(beyond) < 1e-7 or (number > turned * target) == (beyond > 0), row


@few(3)("block", range(20))
def test_limits_decide_as_their_definition(block):
    """Of all queries and of slices; the interval, its level and the message go with the status."""
    for seed in range(80 * block, 80 * (block + 1)):
        drawn = draw_limit(seed)
        expected, rows = decide(drawn), rows_of(drawn)
        assert [row["slice"] for row in rows] == [
            x.slice for x in drawn.pairs if x.slice in expected
        ]
        for row in rows:
            status, ends, level = expected[row["slice"]]
            assert row["status"] == status, (seed, row)
            found = [math.nan if row[x] is None else row[x] for x in ("lo", "hi", "confidence")]
            wanted = [math.nan] * 3 if ends is None else [*ends, 1 - level]
            assert found == pytest.approx(wanted, nan_ok=True, abs=1e-12), (seed, row)
            defined = "undefined" not in row["message"]
            assert bool(FAILS.search(row["message"])) == (status == "failed" and defined)
            if ends is not None:
                assert_printed(drawn, row, ends)
