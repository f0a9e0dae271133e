"""Files that cannot be read as they are, and text that is no number or controls a terminal."""

import bz2
import gzip
import os
import pty
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.base.errors import RankqlError
from rankql.logs.table_macros import read_rows
from support.parameters import cycled, few
from support.reading import read, refused
from support.samples import write_rows

QRELS = pl.DataFrame({"query": ["q1", "q2"], "item": ["x", "y"], "rel": [1, 1]})
ROWS = [(f"q{i % 50}", f"d{i * 7919 % 5000}", i * 31 % 97) for i in range(5000)]
TEXTS = {
    ".csv": "query,item,score\nq1,x,1\n" + "".join(f"{q},{d},{s}\n" for q, d, s in ROWS),
    ".run": "q1 Q0 x 1 1 t\n" + "".join(f"{q} Q0 {d} 1 {s} t\n" for q, d, s in ROWS),
    ".json": '{"q1": {"x": 1' + "".join(f', "{q}{d}": {s}' for q, d, s in ROWS) + "}}",
}


def zstd(data):
    """The bytes compressed by DuckDB."""
    with tempfile.NamedTemporaryFile(suffix=".zst") as file:
        duckdb.sql(f"""COPY (SELECT unnest(string_split('{data.decode()}', chr(10))))
            TO '{file.name}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01',
            COMPRESSION zstd)""")
        return Path(file.name).read_bytes()


def flip(data, where):
    data = bytearray(data)
    data[where] ^= 0x55
    return bytes(data)


@few(6)("suffix", TEXTS)
@pytest.mark.parametrize(
    ("end", "damage", "message"),
    [
        (".gz", lambda data: flip(gzip.compress(data), 40), "is damaged"),
        (".gz", lambda data: flip(gzip.compress(data), -6), "is damaged"),
        (".gz", lambda data: gzip.compress(data)[:-9], "is damaged or cut off"),
        (".gz", lambda data: data, "is damaged"),
        (".zst", lambda data: zstd(data)[:20], "is damaged or cut off"),
        (".zst", lambda data: zstd(data)[:-3], "is damaged or cut off"),
        (".zst", lambda data: data, "is damaged"),
        ("", gzip.compress, r"run: .*'.*run\.\w+'"),
        (".bz2", bz2.compress, r"run: .*'.*run\.\w+\.bz2'"),
        (".gz", gzip.compress, None),
        (".zst", zstd, None),
    ],
)
def test_compressed_files_are_read_unless_damaged_or_misnamed(
    tmp_path, suffix, end, damage, message
):
    path = tmp_path / f"run{suffix}{end}"
    path.write_bytes(damage(TEXTS[suffix].encode()))
    if message is None:
        (plain := tmp_path / f"plain{suffix}").write_text(TEXTS[suffix])
        assert len({read(run, QRELS)["RR"] for run in (path, plain)}) == 1
        return
    for function in (rankql.evaluate, rankql.check):
        with pytest.raises(RankqlError, match=message):
            function(path, QRELS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "query,item,score\nq1,x,1_0\n"),
        ("a.csv", "query,item,pos\nq1,x,1_0\n"),
        ("a.run", "q1 Q0 x 1 1_0 t\n"),
        ("a.json", '{"q1": {"x": "1_0"}}'),
    ],
)
def test_underscores_are_not_part_of_a_number(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    refused(tmp_path / name, QRELS, match="1_0")


def test_a_nul_in_a_name_is_refused():
    """polars would end the process."""
    refused({"q1": {"x": 1}}, QRELS, {"a\0": "avg(rel)"}, match=r"a\\x00")
    named = pl.DataFrame({"q\0": ["q1"], "item": ["x"], "score": [1]})
    refused(named, QRELS, match=r"run: .*q\\x00")


@pytest.mark.parametrize(
    ("run", "metrics"), [("late.run", "AP"), ("texts", {"a": "avg(CAST(item AS DOUBLE))"})]
)
def test_an_open_transaction_does_not_hide_the_cause(tmp_path, run, metrics, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "late.run").write_text(f"{TEXTS['.run']}q1 Q0 x\n")
    con = duckdb.connect()
    con.execute("CREATE TABLE texts AS SELECT 'q1' AS query, 'x' AS item, 1 AS pos")
    con.execute("BEGIN")
    cause = "without 6 columns: 'q1 Q0 x'|string 'x' to DOUBLE"
    refused(run, QRELS, metrics, con=con, match=cause)


@pytest.mark.slow
def test_threads_register_at_once(tmp_path):
    con = duckdb.connect(tmp_path / "a.duckdb")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: rankql.register(con.cursor(), persist=True), range(3)))
    value = con.sql("SELECT rankql.rr(rel, pos) FROM (VALUES (0, 1), (1, 2)) AS t (rel, pos)")
    assert value.fetchall() == [(0.5,)]


@few(2)("meta", ["text", "[1]", '{"metrics": 5}', '{"monitor": {}}', "null"])
def test_metadata_of_another_program(tmp_path, meta):
    path = tmp_path / "values.parquet"
    duckdb.sql(f"""COPY (SELECT unnest(['q1', 'q2', 'q3']) AS query, random() AS worth)
        TO '{path}' (FORMAT parquet, KV_METADATA {{rankql: '{meta}'}})""")
    with pytest.raises(RankqlError, match="is neither a result nor a file with values per query"):
        rankql.combine([path])
    assert rankql.read_values(path).metrics == ["worth"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_controls_reach_no_terminal(form, tmp_path):
    """They stay in the data of a file or a pipe."""
    odd = "a\x1b[31m\u202eb"
    frame = pl.DataFrame({"query": [odd, "b"], "item": ["x", "y"], "pos": [1, 2], "rel": [1, 0]})
    frame.write_parquet(tmp_path / "a.parquet")
    command = f"{sys.executable} -m rankql eval a.parquet -m RR -q --format {form}".split()
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert "\u202e" in piped.stdout.decode()
    seen, terminal = pty.openpty()
    subprocess.run(command, cwd=tmp_path, stdout=terminal, check=True)
    os.close(terminal)
    printed = os.read(seen, 100_000).decode()
    assert "\x1b" not in printed and "\u202e" not in printed and r"\u202eb" in printed


# No type, quote or delimiter of a file is decided by a sample: the odd row comes last

# More rows than DuckDB reads to infer types.
MANY = 20_500
UUID = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"


def last_rows(path):
    """The grades and positions of the last query of a ranked table, and the queries with any."""
    result = read(path)
    return result.rankings["last"], [*result.values()]


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
    assert last_rows(write_rows(tmp_path / name, rows)) == last_rows(frame)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.jsonl", "run.json"])
def test_columns_and_lists_after_the_sample(tmp_path, name):
    rows = [{"query": f"q{i}", "item": "a", "score": 1} for i in range(MANY)]
    rows += [{"query": "last", "item": "a", "score": 2, "rel": 1}]
    path = write_rows(tmp_path / name, rows)
    assert [*read(path).values()] == ["last"]
    lists = [{"query": i, "retrieved": None, "relevant": ["a"]} for i in range(MANY)]
    lists += [{"query": "last", "retrieved": ["2020-1-2", 7, UUID], "relevant": [7]}]
    assert read(write_rows(tmp_path / name, lists)).values()["last"] == 1 / 2


@few(2)(("ids", "name"), cycled([
    [UUID, UUID.lower(), "x"], ["2020-1-2", "2020-01-02", "1:02:03"], ["1", "01", "1.0"],
    [7, 70, 700], [2**53, 2**53 + 1, 12345678901234567890123], ['"a"', "a\\b", 'a"é\n\t'],
    ["[a]", "{a}", "true"], [1, "1e3", "x"],
], ["run.jsonl", "run.json"]))  # fmt: skip
def test_ids_are_the_text_in_the_file(tmp_path, name, ids):
    """The same ids in JSON and in CSV are the same ids, in queries and in items."""
    rows = [{"query": q, "item": i, "score": -n} for q in ids for n, i in enumerate(ids)]
    run = write_rows(tmp_path / name, rows)
    qrels = pl.DataFrame({"query": map(str, ids), "item": map(str, ids), "rel": [1, 2, 3]})
    qrels.write_csv(tmp_path / "qrels.csv")
    for judgments in (tmp_path / "qrels.csv", qrels):
        assert read(run, judgments).values() == {str(i): 1 / n for n, i in enumerate(ids, 1)}


@few(2)(
    ("delimiter", "late"), [(",", '"d2"'), ("\t", '"d,;\t|3"'), (";", '"d""4"'), ("|", '"d\n5"')]
)
def test_quotes_after_the_sample(tmp_path, delimiter, late):
    item = late[1:-1].replace('""', '"')
    rows = [("query", "item", "score"), *[(f"q{i}", "d1", "1") for i in range(MANY)]]
    rows += [("last", "d1", "2"), ("last", late, "1")]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    qrels = {"last": {item: 1}, "q0": {"d1": 1}}
    assert read(path, qrels).values() == {"last": 0.5, "q0": 1}


def test_a_backslash_escapes_a_late_quote(tmp_path):
    lines = ["query,item,score", *[f"q{i},d1,1" for i in range(MANY)], 'last,"d\\"2",1']
    (tmp_path / "run.csv").write_text("\n".join(lines))
    values = read(tmp_path / "run.csv", {"last": {'d"2': 1}})
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
    result = read_rows(path)
    assert result.schema == rows.with_columns(pl.col("at").str.to_datetime("%FT%T")).schema
    assert result.drop("at").equals(rows.drop("at"))


def test_an_open_transaction_survives(tmp_path):
    path = write_rows(
        tmp_path / "run.jsonl", [{"query": "q", "retrieved": ["a"], "relevant": ["a"]}]
    )
    con = duckdb.connect()
    con.begin()
    con.execute("CREATE TABLE mine AS SELECT 1 AS x")
    assert read(path, con=con)["RR"] == 1.0
    con.commit()
    assert con.sql("FROM mine").fetchall() == [(1,)]


def test_yaml_has_a_document_for_each_query(tmp_path):
    path = tmp_path / "gold.yaml"
    path.write_text("query: a\nrelevant: [y]\n---\nquery: b\nrelevant: [z]\n")
    run = {"a": ["x", "y"], "b": ["z"]}
    assert rankql.evaluate(run, str(path), "RR")["RR"] == 0.75
