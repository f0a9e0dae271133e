"""Ratings: over users and over all rows, and what an error does not see."""

import math

import polars as pl
import pytest

import rankql

# One user rated four items, another one.
RATED = pl.DataFrame({
    "user": [1, 1, 1, 1, 2],
    "item": [*"abcda"],
    "rel": [5, 4, 3, 1, 2],
    "score": [4.0, 4.0, 3.0, 2.0, 5.0],
})  # fmt: skip


def test_micro_ratings_weigh_each_rating_alike():
    """Each user weighs the same, or each rating; overall is what all rows give without a group."""
    names = ["MSE", "microMSE", "MAE", "microMAE", "RMSE", "microRMSE"]
    result = rankql.evaluate(RATED, metrics=names, query="user", interval=None)
    assert result["MSE"] == (2 / 4 + 9) / 2
    assert result["microMSE"] == 11 / 5 == RATED.select(rankql.mse("rel", "score")).item()
    assert result["MAE"] == (2 / 4 + 3) / 2
    assert result["microMAE"] == 5 / 5 == RATED.select(rankql.mae("rel", "score")).item()
    assert result["RMSE"] == (math.sqrt(1 / 2) + 3) / 2
    overall = RATED.select(rankql.rmse("rel", "score")).item()
    assert result["microRMSE"] == overall == pytest.approx(math.sqrt(result["microMSE"]))
    assert "microRMSE is that of all rows" in " ".join(result.notes)
    parts = [
        rankql.evaluate(RATED.filter(user=user), metrics="microRMSE", query="user", interval=None)
        for user in (1, 2)
    ]
    assert rankql.combine(parts)["microRMSE"] == overall
    weighted = RATED.with_columns(traffic=pl.col("user"))
    result = rankql.evaluate(weighted, metrics="microRMSE", query="user", weight="traffic")
    assert result["microRMSE"] == pytest.approx(math.sqrt((2 + 2 * 9) / (4 + 2)))


def test_a_row_without_grade_weighs_nothing():
    more = pl.concat([RATED, RATED.tail(1).with_columns(item=pl.lit("z"), rel=None)])
    assert rankql.evaluate(more, None, "microMAE", query="user", interval=None)["microMAE"] == 1
