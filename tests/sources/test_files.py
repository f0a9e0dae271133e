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
from rankql.errors import RankqlError

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


@pytest.mark.few(6)
@pytest.mark.parametrize("suffix", TEXTS)
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
        assert len({rankql.evaluate(run, QRELS, "RR")["RR"] for run in (path, plain)}) == 1
        return
    for function in (rankql.evaluate, rankql.check):
        with pytest.raises(RankqlError, match=message):
            function(path, QRELS)


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1/a.parquet", "s3://bucket/runs", "hf://a/b.csv"]
)
def test_urls_never_reach_duckdb(url, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for function in (rankql.evaluate, rankql.check):
        with pytest.raises(RankqlError, match="does not exist"):
            function(url, QRELS)
    assert not [*tmp_path.iterdir()]


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
    with pytest.raises(RankqlError, match="1_0"):
        rankql.evaluate(tmp_path / name, QRELS, "RR")


def test_a_nul_in_a_name_is_refused():
    """polars would end the process."""
    with pytest.raises(RankqlError, match=r"a\\x00"):
        rankql.evaluate({"q1": {"x": 1}}, QRELS, {"a\0": "avg(rel)"})
    with pytest.raises(RankqlError, match=r"run: .*q\\x00"):
        rankql.evaluate(pl.DataFrame({"q\0": ["q1"], "item": ["x"], "score": [1]}), QRELS, "RR")


@pytest.mark.parametrize(
    ("run", "metrics"), [("late.run", "AP"), ("texts", {"a": "avg(CAST(item AS DOUBLE))"})]
)
def test_an_open_transaction_does_not_hide_the_cause(tmp_path, run, metrics, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "late.run").write_text(f"{TEXTS['.run']}q1 Q0 x\n")
    con = duckdb.connect()
    con.execute("CREATE TABLE texts AS SELECT 'q1' AS query, 'x' AS item, 1 AS pos")
    con.execute("BEGIN")
    with pytest.raises(RankqlError, match=r"without 6 columns: 'q1 Q0 x'|string 'x' to DOUBLE"):
        rankql.evaluate(run, QRELS, metrics, con=con)


@pytest.mark.slow
def test_threads_register_at_once(tmp_path):
    con = duckdb.connect(tmp_path / "a.duckdb")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: rankql.register(con.cursor(), persist=True), range(3)))
    value = con.sql("SELECT rankql.rr(rel, pos) FROM (VALUES (0, 1), (1, 2)) AS t (rel, pos)")
    assert value.fetchall() == [(0.5,)]


@pytest.mark.few(2)
@pytest.mark.parametrize("meta", ["text", "[1]", '{"metrics": 5}', '{"monitor": {}}', "null"])
def test_metadata_of_another_program(tmp_path, meta):
    path = tmp_path / "values.parquet"
    duckdb.sql(f"""COPY (SELECT unnest(['q1', 'q2', 'q3']) AS query, random() AS worth)
        TO '{path}' (FORMAT parquet, KV_METADATA {{rankql: '{meta}'}})""")
    with pytest.raises(RankqlError, match="is neither a result nor a file with values per query"):
        rankql.combine([path])
    assert rankql.compare({"a": path, "b": path}).metrics == ["worth"]


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
