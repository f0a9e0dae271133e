"""compare of two columns of scores in one table, as of two runs."""

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

RUN = pl.DataFrame(
    [
        (f"q{q}", f"d{d}", float((7 * q + 3 * d) % 11), float((5 * q + 2 * d) % 13), "xy"[q % 2])
        for q in range(12)
        for d in range(6)
    ],
    schema=["query", "item", "lgb", "xgb", "country"],
    orient="row",
)
QRELS = RUN.select("query", "item", rel=(pl.int_range(pl.len()) * 5 % 7 == 0).cast(int))


@few(1)("options", [{}, {"by": "country", "test": "t", "baseline": "xgb"}])
def test_two_columns_of_scores_are_two_systems(options):
    runs = {name: RUN.select("query", "item", "country", score=name) for name in ("lgb", "xgb")}
    expected = rankql.compare(runs, QRELS, ["nDCG@3", "RR"], **options)
    result = rankql.compare(RUN, QRELS, ["nDCG@3", "RR"], score=["lgb", "xgb"], **options)
    assert result.pairs.equals(expected.pairs)
    assert result.title == expected.title


def test_a_score_that_is_missing_is_named():
    with pytest.raises(RankqlError, match="score='svm': no column of that name"):
        rankql.compare(RUN, QRELS, score=["lgb", "svm"])
