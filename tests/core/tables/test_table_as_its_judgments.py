"""A table of several systems that is passed as its judgments too: each item has one grade."""

import polars as pl
import pytest

import rankql

ROWS = [("a", "x", 0.9, 3), ("b", "y", 0.9, 2), ("b", "x", 0.8, 3)]
TABLE = pl.DataFrame(
    [(system, query, *rest) for query in ("q1", "q2") for system, *rest in ROWS],
    ["system", "query", "item", "score", "rel"], orient="row",
)  # fmt: skip
IN_B = pl.col("system") == "b"


def evaluate(table: pl.DataFrame, qrels: pl.DataFrame, **options: str) -> dict[str, float]:
    result = rankql.evaluate(table, qrels, "nDCG@10", **options)  # type: ignore[arg-type]
    return dict(result.summary.filter(slice="all").select("system", "mean").rows())


def test_equal_grades_of_an_item_are_one_judgment() -> None:
    alone = evaluate(TABLE, TABLE.unique(["query", "item"]))
    assert evaluate(TABLE, TABLE) == alone == pytest.approx({"a": 0.7039, "b": 0.9134}, abs=1e-4)


def test_attributes_of_the_judgments_stay() -> None:
    table = TABLE.with_columns(part=pl.col("query"))
    assert evaluate(table, table, by="part") == evaluate(TABLE, TABLE)


def test_null_is_no_other_grade() -> None:
    some = TABLE.with_columns(rel=pl.when(~IN_B | (pl.col("item") == "y")).then("rel"))
    assert evaluate(TABLE, some) == evaluate(TABLE, TABLE)


def test_different_grades_of_an_item_are_named() -> None:
    other = TABLE.with_columns(rel=pl.col("rel") - IN_B)
    with pytest.raises(rankql.RankqlError) as error:
        evaluate(other, other)
    assert "query 'q1', item 'x' has grades 2 and 3 in rows of several systems" in str(error.value)
    assert "query=" not in str(error.value)
    assert evaluate(other, other, rel="max(rel)") == pytest.approx(
        evaluate(other, other.unique(["query", "item"], keep="first", maintain_order=True))
    )


def test_an_item_that_a_system_has_twice_is_a_duplicate() -> None:
    """Unless the rows are equal in all columns."""
    assert evaluate(TABLE, pl.concat([TABLE, TABLE[:1]])) == pytest.approx(evaluate(TABLE, TABLE))
    other = TABLE.with_columns(seen=1)
    with pytest.raises(rankql.RankqlError, match="qrels has duplicates"):
        evaluate(TABLE, pl.concat([other, other[:1].with_columns(seen=2)]), rel="rel")
