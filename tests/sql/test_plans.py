"""What DuckDB plans for a metric: over Parquet as over a table, and nothing slow for each row."""

import json
import re

import duckdb
import pytest

from support import metric_engines, signatures

# With negative grades, and the names that the columns of a frame without a header have.
ROWS = """SELECT i // 100 AS "user", CAST(i % 100 + 1 AS INT) AS pos, CAST(i % 4 - 1 AS INT) AS rel,
                 CAST(i AS INT) AS item, CAST(hash(i) AS DOUBLE) AS score,
                 CAST(i % 100 + 1 AS INT) AS "12", i % 100 + 1 AS "1"
          FROM range(10_000) AS r (i)"""


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "t.parquet"
    with metric_engines.connect() as con:
        con.execute(f"CREATE TABLE t AS {ROWS}; COPY t TO '{path}'; CREATE VIEW f AS FROM '{path}'")
        yield con


def projections(con, call, source):
    """The expressions that the plan computes for each row: between the scan and the aggregates."""
    query = f'EXPLAIN (FORMAT json) SELECT "user", {call} FROM {source} GROUP BY "user"'
    nodes, found = json.loads(con.execute(query).fetchall()[0][1]), []
    while nodes:
        node = nodes.pop()
        found.append(node["extra_info"].get("Projections", []) if node["children"] else [])
        found = [] if "GROUP_BY" in node["name"] else found
        nodes += node["children"]
    return [text for texts in found for text in texts]


def call_of(metric):
    options = signatures.REQUIRED.get(metric.removesuffix("_by_score"), {})
    columns = {"query": '"user"', "reference": "101 - pos"}
    named = [x for x in signatures.EVERYTHING[metric].items() if x[1] == signatures.NEEDED]
    arguments = [str(columns.get(name, name)) for name, _ in named if name not in options]
    arguments += [f"{name} := {value}" for name, value in options.items()]
    if signatures.takes_k(metric):
        arguments.append("k := 10")
    return f"{metric}({', '.join(arguments)})"


@pytest.mark.few(2)
@pytest.mark.parametrize("metric", [*signatures.METRICS, *signatures.SCORES])
def test_a_plan_over_parquet_is_that_over_a_table(con, metric):
    call = call_of(metric)
    of_table, of_file = (projections(con, call, source) for source in ("t", "f"))
    assert of_file == of_table
    # A text of the plan that follows AND is computed only where what precedes it is true.
    for text in of_file:
        assert not re.search(r"(?<!AND )regexp_\w+\((?!')", text), text


@pytest.mark.parametrize("column", ["1", "12"])
def test_a_column_with_a_number_as_name_is_a_column(con, column):
    values = f"""SELECT ndcg(rel, "{column}", 10), ndcg(rel, pos, 10),
                        rr_by_score(rel, score, "{column}"), rr_by_score(rel, score, pos)
                 FROM t GROUP BY "user" """
    for mine, named, by_mine, by_item in con.execute(values).fetchall():
        assert mine == named and by_mine == by_item
    with pytest.raises(duckdb.Error, match="pos must be a column, not 12"):
        con.execute("SELECT ndcg(rel, 12) FROM t").fetchall()
