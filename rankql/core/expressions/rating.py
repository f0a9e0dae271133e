"""Rating metrics: errors of predicted scores against grades.

A row where the grade or the score is NULL is left out. Over all rows at once, without a group, each
rating weighs the same; the mean over users of their errors weighs each user the same. In `evaluate`
these are `microRMSE`, `microMSE` and `microMAE`, and `RMSE`, `MSE` and `MAE`. None of them sees the
order: an error may shrink while the ranking gets worse.
"""

from __future__ import annotations

import polars as pl

from rankql.core.expressions.checked_columns import Column, as_float
from rankql.core.expressions.variants import metric


@metric()
def rmse(rel: Column = "rel", score: Column = "score") -> pl.Expr:
    """Root mean squared error of scores against grades. NULL if no row has both.

    >>> pl.DataFrame({"rel": [3, 5, 1], "score": [3, 4, None]}).select(rmse()).item()
    0.7071067811865476
    """
    return _error(rel, score).pow(2).mean().sqrt()


@metric()
def mse(rel: Column = "rel", score: Column = "score") -> pl.Expr:
    """Mean squared error of scores against grades. NULL if no row has both.

    >>> pl.DataFrame({"rel": [3, 5, 1], "score": [3, 4, None]}).select(mse()).item()
    0.5
    """
    return _error(rel, score).pow(2).mean()


@metric()
def mae(rel: Column = "rel", score: Column = "score") -> pl.Expr:
    """Mean absolute error of scores against grades. NULL if no row has both.

    >>> pl.DataFrame({"rel": [3, 5, 1], "score": [3, 4, None]}).select(mae()).item()
    0.5
    """
    return _error(rel, score).abs().mean()


def _error(rel: Column, score: Column) -> pl.Expr:
    return as_float(rel) - as_float(score)
