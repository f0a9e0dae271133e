"""Files with the values of several systems, for compare."""

import polars as pl
import pytest

import rankql
from rankql.core.base.errors import Question
from support.parameters import few

VALUES = pl.DataFrame({
    "query": [f"q{i // 2}" for i in range(60)], "setup": ["old", "new"] * 30,
    "ndcg": [0.5 + 0.01 * (i % 7) + 0.05 * (i % 2) for i in range(60)],
})  # fmt: skip


@few(2)("name", ["model", "variant", "app_name"])
def test_a_usual_name_of_the_systems_is_read(name, tmp_path):
    VALUES.rename({"setup": name}).write_parquet(tmp_path / "values.parquet")
    assert rankql.compare(tmp_path / "values.parquet").systems == ["old", "new"]


@few(2)("name", ["config_id", "pipeline_number"])
def test_a_name_that_may_be_of_systems_is_asked_about(name, tmp_path):
    VALUES.rename({"setup": name}).write_csv(tmp_path / "values.csv")
    with pytest.raises(Question) as asked:
        rankql.compare(tmp_path / "values.csv")
    assert asked.value.calls == [{"system": name}]
    assert rankql.compare(tmp_path / "values.csv", system=name).systems == ["old", "new"]


def test_another_name_is_passed(tmp_path):
    VALUES.write_csv(tmp_path / "values.csv")
    assert rankql.compare(tmp_path / "values.csv", system="setup").systems == ["old", "new"]
    read = rankql.read_values(VALUES, system="setup")
    with pytest.raises(rankql.RankqlError, match="system= is an option for runs, but these are"):
        rankql.compare(read, system="setup")
