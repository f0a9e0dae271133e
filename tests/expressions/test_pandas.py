"""A frame of pandas in, a frame of pandas out, with the values of polars."""

import pandas
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError

COLUMNS = {"user": [*"aabb"], "item": [*"xyxy"], "rel": [0, 2, 1, 0], "pos": [1, 2, 1, 2]}
COLUMNS |= {"score": [0.5, 0.5, 1.0, None], "event": ["view", "buy", "view", "view"]}
ROWS = pl.DataFrame(COLUMNS | {"time": [1, 2, 3, 4]})
FRAME = ROWS.to_pandas().astype({"score": "Float64"}).set_index([[3, 3, 5, 9]])


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "function, options",
    [
        (rankql.ndcg, {"by": "user"}),
        (rankql.ndcg, {"by": ["user"], "k": 1}),
        (rankql.precision_at, {"k": 1, "by": pl.col("user")}),
        (rankql.gini, {"by": None, "catalogue": "shown"}),
        (rankql.tally, {}),
        (rankql.consensus, {"by": "user"}),
        (rankql.grade_events, {"grades": {"view": 1, "buy": 3}}),
    ],
)
def test_pandas_in_pandas_out(function, options):
    result = FRAME.pipe(function, **options)
    assert isinstance(result, pandas.DataFrame)
    expected = ROWS.pipe(function, **options)
    assert_frame_equal(pl.from_pandas(result), expected, check_row_order=False, check_dtypes=False)


@pytest.mark.parametrize(
    "function, column", [(rankql.ranked, "pos"), (rankql.leave_one_out, "split")]
)
def test_a_column_is_added_to_the_frame(function, column):
    """Index and other columns stay, also those that polars cannot read."""
    frame = FRAME.drop(columns="pos").assign(mixed=[1, "a", None, {}])
    result = frame.pipe(function)
    assert result.drop(columns=column).equals(frame)
    expected = ROWS.drop("pos").pipe(function)[column].to_list()
    assert [None if pandas.isna(value) else value for value in result[column]] == expected
    with pytest.raises(RankqlError, match=f"has a column '{column}' already: drop or rename it"):
        result.drop(columns="mixed").pipe(function)


def test_wrong_frames_are_refused():
    with pytest.raises(RankqlError, match="No column 'usr'"):
        FRAME.pipe(rankql.ndcg, by="usr")
    with pytest.raises(RankqlError, match="rel must be a finite number, not nan"):
        FRAME.assign(rel=[1, None, 2, 3]).pipe(rankql.ndcg, by="user")
    with pytest.raises(RankqlError, match=r"^rel, pos, user cannot be read: .*Cast them first"):
        FRAME.assign(rel=[1, "a", 2.5, {}]).pipe(rankql.ndcg, by="user")
    with pytest.raises(
        RankqlError, match=r"^rows must be a frame of polars or pandas, not a Table"
    ):
        rankql.ranked(ROWS.to_arrow())
