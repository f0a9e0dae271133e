"""Data with several faults: every source and plan names the same one."""

import itertools

import duckdb
import polars as pl
import pytest

import rankql

RUN = pl.DataFrame(
    {"query": [*"aabb"], "item": [*"xyxz"], "score": [2.0, 1, 2, 1], "day": [1, 1, 2, 2]}
)
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1.0, 2]})


def change(row, **values):
    """A fault: other values in one row."""
    other = pl.int_range(pl.len()) == row
    return lambda frame: frame.with_columns(
        **{name: pl.when(other).then(pl.lit(x)).otherwise(name) for name, x in values.items()}
    )


def repeat(**values):
    """A fault: the first row once more, with other values."""
    return lambda frame: pl.concat(
        [frame, frame[:1].with_columns(**{name: pl.lit(x) for name, x in values.items()})]
    )


FAULTS = {
    "run without an id": ("run", change(3, item=None)),
    "judgments without an id": ("qrels", change(1, item=None)),
    "infinite grade": ("qrels", change(1, rel=float("inf"))),
    "two attributes": ("run", change(1, day=9)),
    "duplicate item": ("run", repeat(score=0.5)),
    "duplicate judgment": ("qrels", repeat()),
    "two grades": ("qrels", repeat(rel=0.0)),
    "no common query": ("qrels", lambda f: f.with_columns(pl.col("query").str.to_uppercase())),
}


@pytest.mark.slow
@pytest.mark.parametrize("names", [*itertools.combinations(FAULTS, 2)])
def test_sources_and_metrics_name_the_same_fault(names, tmp_path):
    frames = {"run": RUN, "qrels": QRELS}
    for table, fault in map(FAULTS.get, names):
        frames[table] = fault(frames[table])
    run, qrels = frames.values()
    con = duckdb.connect()
    con.execute("CREATE TABLE run AS FROM run; CREATE TABLE qrels AS FROM qrels")
    for name, frame in frames.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    sources = [(run, qrels), (run.to_pandas(), qrels.to_pandas()), ("run", "qrels")]
    messages = set()
    for tables in (*sources, [tmp_path / f"{name}.parquet" for name in frames]):
        for metrics in ("nDCG@10", ["AP", "TauB"]):
            with pytest.raises(rankql.RankqlError) as error:
                rankql.evaluate(*tables, metrics, by="day", con=con)
            messages.add(str(error.value))
    assert len(messages) == 1
