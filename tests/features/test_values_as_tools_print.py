"""Values per query as tools print them: several configurations, states, tuples, and parts."""

import json

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

PER_QUERY = {"s1": {"state": "MEASURED", "ndcg": 1.0}, "s2": {"state": "MEASURED", "ndcg": 0.5}}


@few(2)("name", ["config_id", "engine", "model_name", "retriever", "run_id"])
def test_configurations_are_offered_as_systems(name):
    rows = [
        {"query": q, name: system, "map": value}
        for system, value in (("bm25", 0.25), ("dense", 0.75))
        for q in ("s1", "s2", "s3")
    ]
    if name not in ("run_id", "model_name"):  # usual names of systems
        with pytest.raises(RankqlError, match=f"Pass:\n    system='{name}'$"):
            rankql.read_values(rows)
    result = rankql.read_values(rows, system=name)
    assert dict(result.summary.select("system", "mean").rows()) == {"bm25": 0.25, "dense": 0.75}


def test_queries_that_repeat_without_a_system_are_refused():
    rows = pl.DataFrame({"query": ["s1", "s1"], "engine": ["a", "a"], "map": [0.5, 1.0]})
    with pytest.raises(RankqlError, match="occur twice"):
        rankql.read_values(rows)


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("in_file", [False, True])
def test_a_state_beside_the_values_is_no_value(part, in_file, tmp_path):
    data = {"per_query": PER_QUERY, "k": 10, "means": {"ndcg": 0.75}} if part else PER_QUERY
    if in_file:
        (tmp_path / "values.json").write_text(json.dumps(data))
        data = tmp_path / "values.json"
    result = rankql.read_values(data)
    assert (result.metrics, result["ndcg"]) == (["ndcg"], 0.75)


def test_tuples_are_read_as_a_frame_is():
    data = {"query": ("s1", "s2"), "map": (0.5, 1.0)}
    assert rankql.read_values(data)["map"] == rankql.read_values(pl.DataFrame(data))["map"] == 0.75
    with pytest.raises(RankqlError, match="No query column in values"):
        rankql.read_values({"map": (0.5, 1.0)})


def test_values_beside_a_name_are_read():
    values = {q: {"ndcg": row["ndcg"], "map": 0.5} for q, row in PER_QUERY.items()}
    result = rankql.read_values({"results": values, "name": "nightly"})
    assert (result["ndcg"], result["map"]) == (0.75, 0.5)
