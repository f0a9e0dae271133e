"""explain(missed=True) against the definition: relevant items that are not within the cutoff."""

import random

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few


def draw(seed, systems=2):
    """Judgments, and the run of each system, in which a query may lack; scores have no ties."""
    rng = random.Random(seed)
    queries, items = [f"q{i}" for i in range(6)], [f"d{i}" for i in range(9)]
    qrels = [(q, d, rng.choice([0, 1, 1, 2])) for q in queries for d in items if rng.random() < 0.5]
    runs = {}
    for name in [f"s{i}" for i in range(systems)]:
        rows = [
            (q, d, rng.random())
            for q in rng.sample(queries, 5) for d in rng.sample(items, rng.randint(1, 9))
        ]  # fmt: skip
        runs[name] = pl.DataFrame(rows, ["query", "item", "score"], orient="row")
    return runs, pl.DataFrame(qrels, ["query", "item", "rel"], orient="row")


def by_definition(run, qrels, k, threshold):
    """The missed items of a system, with their grades and places."""
    missed = []
    for query, item, rel in qrels.rows():
        ranked = run.filter(query=query).sort("score", descending=True)["item"].to_list()
        place = ranked.index(item) + 1 if item in ranked else None
        if rel >= threshold and (place is None or (k is not None and place > k)):
            missed.append((query, item, rel, place))
    return sorted(missed)


@few(2)(("metric", "k", "threshold"), [
    ("R@3", 3, 1), ("nDCG@1", 1, 1), ("P(rel=2)@4", 4, 2), ("AP", None, 1), ("Success@2", 2, 1),
])  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_missed_items_are_those_of_the_definition(metric, k, threshold, seed):
    runs, qrels = draw(seed)
    result = rankql.explain(runs, qrels, missed=True, metric=metric)
    expected = sorted(
        (query, name, item, rel, place)
        for name, run in runs.items()
        for query, item, rel, place in by_definition(run, qrels, k, threshold)
    )
    assert result.table.rows() == expected
    assert result.table.columns == ["query", "system", "item", "grade", "place"]
    single = rankql.explain(runs["s0"], qrels, missed=True, metric=metric)
    assert single.table.rows() == by_definition(runs["s0"], qrels, k, threshold)
    never = sum(row[-1] is None for row in expected)
    assert expected and f"misses {len(expected)} relevant item" in result.title
    assert f"{never:,} never retrieved" in result.title or k is None


def test_a_table_with_grades_and_positions():
    rows = {"user": [1, 1, 1, 2], "item": [*"abca"], "pos": [1, 2, None, 1], "rel": [0, 1, 2, 0]}
    result = rankql.explain(pl.DataFrame(rows), missed=True, metric="R@1", query="user")
    assert result.table.rows() == [(1, "b", 1, 2), (1, "c", 2, None)]
    assert result.table.columns[0] == "user"


@few(1)("suffix", [".parquet", ".csv"])
def test_files_have_the_rows(suffix, tmp_path):
    runs, qrels = draw(3)
    rows = rankql.explain(runs, qrels, missed=True, metric="R@2").table
    path = tmp_path / f"missed{suffix}"
    written = rankql.explain(runs, qrels, missed=True, metric="R@2", output=str(path))
    read = pl.read_parquet if suffix == ".parquet" else pl.read_csv
    assert read(path).rows() == rows.rows() == written.table.rows()
    (tmp_path / "qrels.csv").write_text(qrels.write_csv(), "utf-8")
    for name, run in runs.items():
        run.write_csv(tmp_path / f"{name}.csv")
    command = ["explain", *(f"{x}={tmp_path}/{x}.csv" for x in runs), f"{tmp_path}/qrels.csv"]
    path.unlink()
    done = CliRunner().invoke(main, [*command, "--missed", "-m", "R@2", "-o", str(path)])
    assert done.exit_code == 0 and read(path).rows() == rows.rows()
    assert done.stdout.startswith(written.title)


@few(2)(
    ("options", "message"),
    [
        ({"of": "q1"}, "missed= lists all queries. Leave of= out"),
        ({"output": "x.html"}, "output='x.html': cannot write .html. Use .parquet or .csv"),
        ({"output": "x.csv", "missed": False}, "output= is the file of missed items"),
        ({"ties": "expected"}, "explain does not support ties='expected'"),
    ],
)
def test_what_it_refuses(options, message):
    runs, qrels = draw(1)
    with pytest.raises(rankql.RankqlError) as error:
        rankql.explain(runs["s0"], qrels, **{"missed": True, "metric": "R@2", **options})
    assert str(error.value).startswith(message)
