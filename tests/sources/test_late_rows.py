"""No type, quote or delimiter of a file is decided by a sample: the odd row comes last."""

import gzip
import json

import duckdb
import polars as pl
import pytest

import rankql
from rankql.logs.table_macros import _read_frame

# More rows than DuckDB reads to infer types.
MANY = 20_500
UUID = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"


def write(path, rows):
    """Write rows as the suffix of the path says."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    text = "\n".join(lines) if ".jsonl" in path.name else f"[{','.join(lines)}]"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def values(path, **options):
    """The values of one query of a ranked table."""
    metrics = ["CG", "RR(rel=1.5)", "nDCG"]
    return rankql.evaluate(path, metrics=metrics, interval=None, **options).per_query


@pytest.mark.slow
@pytest.mark.parametrize(("name", "column", "first", "last"), [
    ("run.jsonl", "rel", 1, 1.5), ("run.json", "rel", None, 1), ("run.jsonl.gz", "rel", 0, "1.5"),
    ("run.jsonl", "rel", False, True), ("run.json", "score", 1, 1.4),
    ("run.jsonl", "score", 2, None), ("run.json", "pos", 1, 1e3),
])  # fmt: skip
def test_numbers_after_the_sample(tmp_path, name, column, first, last):
    row = {"item": "a", "rel": 0, "score": 1} | {column: first}
    rows = [{"query": f"q{i}", **row} for i in range(MANY)]
    rows += [{"query": "last", **row, "item": item} for item in ("b", "c")]
    rows[-1][column] = last
    if column == "pos":
        rows = [{k: v for k, v in row.items() if k != "score"} for row in rows]
    numbers = pl.col("^(rel|score|pos)$").cast(pl.Float64)
    frame = pl.DataFrame(rows, infer_schema_length=None, strict=False).with_columns(numbers)
    result = values(write(tmp_path / name, rows)).filter(query="last")
    assert result.rows() == values(frame).filter(query="last").rows()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.jsonl", "run.json"])
def test_columns_and_lists_after_the_sample(tmp_path, name):
    rows = [{"query": f"q{i}", "item": "a", "score": 1} for i in range(MANY)]
    rows += [{"query": "last", "item": "a", "score": 2, "rel": 1}]
    path = write(tmp_path / name, rows)
    assert values(path)["query"].to_list() == ["last"]
    lists = [{"query": i, "retrieved": None, "relevant": ["a"]} for i in range(MANY)]
    lists += [{"query": "last", "retrieved": ["2020-1-2", 7, UUID], "relevant": [7]}]
    result = rankql.evaluate(write(tmp_path / name, lists), metrics="RR", interval=None)
    assert result.per_query.filter(query="last")["RR"].to_list() == [1 / 2]


@pytest.mark.few(2)
@pytest.mark.parametrize("ids", [
    [UUID, UUID.lower(), "x"], ["2020-1-2", "2020-01-02", "1:02:03"], ["1", "01", "1.0"],
    [7, 70, 700], [2**53, 2**53 + 1, 12345678901234567890123], ['"a"', "a\\b", 'a"é\n\t'],
    ["[a]", "{a}", "true"], [1, "1e3", "x"],
])  # fmt: skip
@pytest.mark.parametrize("name", ["run.jsonl", "run.json"])
def test_ids_are_the_text_in_the_file(tmp_path, name, ids):
    """The same ids in JSON and in CSV are the same ids, in queries and in items."""
    rows = [{"query": q, "item": i, "score": -n} for q in ids for n, i in enumerate(ids)]
    run = write(tmp_path / name, rows)
    qrels = pl.DataFrame({"query": map(str, ids), "item": map(str, ids), "rel": [1, 2, 3]})
    qrels.write_csv(tmp_path / "qrels.csv")
    for judgments in (tmp_path / "qrels.csv", qrels):
        result = rankql.evaluate(run, judgments, "RR", interval=None).per_query
        assert dict(result.rows()) == {str(i): 1 / n for n, i in enumerate(ids, 1)}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("delimiter", "late"), [(",", '"d2"'), ("\t", '"d,;\t|3"'), (";", '"d""4"'), ("|", '"d\n5"')]
)
def test_quotes_after_the_sample(tmp_path, delimiter, late):
    item = late[1:-1].replace('""', '"')
    rows = [("query", "item", "score"), *[(f"q{i}", "d1", "1") for i in range(MANY)]]
    rows += [("last", "d1", "2"), ("last", late, "1")]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    qrels = {"last": {item: 1}, "q0": {"d1": 1}}
    result = rankql.evaluate(path, qrels, "RR", interval=None).per_query
    assert result.rows() == [("last", 0.5), ("q0", 1.0)]


def test_a_backslash_escapes_a_late_quote(tmp_path):
    lines = ["query,item,score", *[f"q{i},d1,1" for i in range(MANY)], 'last,"d\\"2",1']
    (tmp_path / "run.csv").write_text("\n".join(lines))
    values = rankql.evaluate(tmp_path / "run.csv", {"last": {'d"2': 1}}, "RR", interval=None)
    assert values["RR"] == 1.0


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_logs_have_the_types_of_all_rows(tmp_path, name):
    """Numbers and times are read as such if all rows have them; ids stay text."""
    rows = pl.DataFrame({
        "query": ["1"] * MANY + ["007"], "item": [UUID] * MANY + ["x"],
        "event": [0.0] * MANY + [1.5], "at": ["2024-01-02T03:04:05"] * (MANY + 1),
    })  # fmt: skip
    path = tmp_path / name
    rows.write_csv(path) if name.endswith("csv") else rows.write_ndjson(path)
    result = _read_frame(path)
    assert result.schema == rows.with_columns(pl.col("at").str.to_datetime("%FT%T")).schema
    assert result.drop("at").equals(rows.drop("at"))


def test_an_open_transaction_survives(tmp_path):
    path = write(tmp_path / "run.jsonl", [{"query": "q", "retrieved": ["a"], "relevant": ["a"]}])
    con = duckdb.connect()
    con.begin()
    con.execute("CREATE TABLE mine AS SELECT 1 AS x")
    assert rankql.evaluate(path, metrics="RR", con=con, interval=None)["RR"] == 1.0
    con.commit()
    assert con.sql("FROM mine").fetchall() == [(1,)]
