"""Data with several faults: every source and plan names the same one."""

import itertools

import duckdb
import polars as pl
import pytest

import rankql

RUN = pl.DataFrame({
    "query": ["a", "a", "b", "b"], "item": ["x", "y", "x", "z"], "score": [2.0, 1, 2, 1],
    "day": [1, 1, 2, 2],
})  # fmt: skip
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1.0, 2]})


def change(side, row, **values):
    """A fault: other values in one row of the run or of the judgments."""

    def apply(tables):
        columns = {
            name: pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(name)
            for name, value in values.items()
        }
        return tables | {side: tables[side].with_columns(**columns)}

    return apply


def repeat(side, **values):
    """A fault: the first row once more, with other values."""

    def apply(tables):
        more = tables[side].head(1).with_columns(**{k: pl.lit(v) for k, v in values.items()})
        return tables | {side: pl.concat([tables[side], more])}

    return apply


FAULTS = {
    "run without an id": change("run", 3, item=None),
    "judgments without an id": change("qrels", 1, item=None),
    "infinite grade": change("qrels", 1, rel=float("inf")),
    "two attributes": change("run", 1, day=9),
    "duplicate item": repeat("run", score=0.5),
    "duplicate judgment": repeat("qrels"),
    "two grades": repeat("qrels", rel=0.0),
    "no common query": lambda tables: (
        tables | {"qrels": tables["qrels"].with_columns(pl.col("query").str.to_uppercase())}
    ),
}


def sources(tables, folder):
    """The tables from each kind of source, with the options of `evaluate`."""
    con = duckdb.connect()
    for name, frame in tables.items():
        con.register(f"frame_{name}", frame)
        con.execute(f"CREATE TABLE {name} AS FROM frame_{name}")
        frame.write_parquet(folder / f"{name}.parquet")
    yield (tables["run"], tables["qrels"]), {}
    yield (tables["run"].to_pandas(), tables["qrels"].to_pandas()), {}
    yield (folder / "run.parquet", folder / "qrels.parquet"), {}
    yield ("run", "qrels"), {"con": con}


@pytest.mark.slow
@pytest.mark.parametrize("names", [*itertools.combinations(FAULTS, 2)])
def test_sources_and_metrics_name_the_same_fault(names, tmp_path):
    tables = {"run": RUN, "qrels": QRELS}
    for name in names:
        tables = FAULTS[name](tables)
    messages = set()
    for inputs, options in sources(tables, tmp_path):
        for metrics in ("nDCG@10", ["AP", "TauB"]):
            with pytest.raises(rankql.RankqlError) as error:
                rankql.evaluate(*inputs, metrics, by="day", **options)
            messages.add(str(error.value))
    assert len(messages) == 1
