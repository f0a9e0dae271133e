"""Frames of polars are reduced to the same rows as by DuckDB."""

import random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.core.evaluation.evaluate import evaluate, open_evaluation
from rankql.core.evaluation.reduce import in_memory
from rankql.core.evaluation.reduce.reduce import choose_reduction
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.request import RankingRules, Request
from support.parameters import few

METRICS = ["nDCG@3", "P@5", "RR@10", "AP", "R@5", "nDCG", "Rprec", "Judged@4", "ERR(max_rel=3)@7"]
METRICS += ["nDCG@35", "P@40"]


def random_tables(seed):
    """A run and judgments with ties, NULL, queries that one side lacks, and few or many items."""
    rnd = random.Random(seed)
    queries = [f"q{i}" for i in range(rnd.choice([1, 4, 15]))]
    items = [f"d{i}" for i in range(rnd.choice([6, 12, 40]))]
    if rnd.random() < 0.3:
        queries, items = [*range(len(queries))], [*range(len(items))]
    levels = rnd.choice([3, 10, 1000])
    scored = rnd.random() < 0.7
    run, qrels = [], []
    for query in queries:
        if rnd.random() < 0.9:
            shown = rnd.sample(items, rnd.randint(1, len(items)))
            for pos, item in enumerate(shown, 1):
                number = rnd.randrange(levels) / 7 if scored else pos
                run.append((query, item, None if rnd.random() < 0.03 else number))
        if rnd.random() < 0.9:
            for item in rnd.sample(items, rnd.randint(1, len(items))):
                grade = rnd.choice([0, 0, 1, 1, 2, 3])
                qrels.append((query, item, None if rnd.random() < 0.05 else grade))
    names = ["query", "item", "score" if scored else "pos"]
    return (
        pl.DataFrame(run, names, orient="row"),
        pl.DataFrame(qrels, ["query", "item", "rel"], orient="row"),
    )


def both_ways(run, qrels, metrics, **options):
    """The rows of a reduction by polars and by DuckDB, and the reduction."""
    rules = RankingRules.of(options, evaluate)
    with open_evaluation(Request(run, qrels, metrics, rules)) as evaluation:
        reduction = choose_reduction(evaluation)
        rows = fetch_frame(evaluation.session, reduction.sql)
        small = in_memory.reduce_frames(reduction)
        return reduction, small and small.frame, rows


def as_compared(reduction, frame):
    """The columns without the order of lists, and without what flagged rankings do not need."""
    names = sorted(frame.columns)
    flag = "tied" if "tied" in names else "shared"
    flagged = pl.col(flag).fill_null(False) & pl.lit(not reduction.ranks_ties)
    frame = frame.select(names).with_columns(
        pl.when(~flagged).then(pl.col(x)).alias(x)
        for x in names
        if x in ("places", "rels", "common") or x.startswith("word")
    )
    if "places" in names:
        pairs = (
            frame.with_row_index("row").select("row", "places", "rels").explode("places", "rels")
        )
        pairs = pairs.drop_nulls().cast({"places": pl.Float64, "rels": pl.Float64}).sort(pl.all())
        return frame.drop("places", "rels").fill_null(0).fill_null(False), pairs
    return frame.fill_null(0).fill_null(False), None


@few(20)("seed", range(100))
def test_rows_of_both_are_equal(seed):
    run, qrels = random_tables(seed)
    rnd = random.Random(-seed)
    metrics = rnd.sample(METRICS, rnd.randint(1, 4))
    options = rnd.choice([{}, {}, {"ties": "expected"}, {"threshold": 2}, {"descending": False}])
    if "pos" in run.columns:
        options = {"threshold": 2} if "threshold" in options else {}
    try:
        reduction, mine, rows = both_ways(run, qrels, metrics, **options)
    except rankql.RankqlError:
        return  # as of a run that has no judged item
    if mine is None:
        assert any(pl.Null in table.dtypes for table in (run, qrels)) or not reduction.metrics
        return
    (mine, pairs), (rows, other_pairs) = (as_compared(reduction, x) for x in (mine, rows))
    assert_frame_equal(mine, rows, check_dtypes=False, check_column_order=False)
    if pairs is not None:
        assert_frame_equal(pairs, other_pairs, check_dtypes=False)


@pytest.mark.parametrize("place", range(2, 6))
def test_ties_and_repeats_next_to_a_cutoff(place):
    """Of k = 3: an item has the score or the position of the one above, or the id of the first."""
    ids, scores, other = [*"abcdef"], [6, 5, 4, 3, 2, 1], pl.int_range(1, 7) == place
    rows = {"query": "q", "item": ids, "score": scores, "rel": [0, 1, 1, 1, 2, 0]}
    qrels = pl.DataFrame(rows).drop("score")
    all_differ = pl.DataFrame(rows).drop("rel").cast({"score": float})
    run = all_differ.with_columns(pl.col("score") + other.cast(float))
    placed = run.select("query", "item", pos=7 - pl.col("score").cast(int))
    twice = all_differ.with_columns(item=pl.when(other).then(pl.lit("a")).otherwise("item"))
    for table, metric in ((run, "nDCG@3"), (run, "AP@3"), (twice, "nDCG@3"), (placed, "nDCG@3")):
        reduction, mine, rows = both_ways(table, qrels, [metric])
        mine, rows = (as_compared(reduction, x)[0] for x in (mine, rows))
        assert_frame_equal(mine, rows, check_dtypes=False, check_column_order=False)


@few(5)("seed", range(40))
def test_text_files_are_reduced_as_the_frames_that_they_hold(seed, tmp_path):
    """By polars, for CSV with NULL as an empty cell and JSON; ids stay text."""
    frames = [x.cast({"query": pl.String, "item": pl.String}) for x in random_tables(seed)]
    paths = [str(tmp_path / f"{name}.{('csv', 'jsonl')[seed % 2]}") for name in ("run", "qrels")]
    for path, frame in zip(paths, frames, strict=True):
        (frame.write_csv if path.endswith("csv") else frame.write_ndjson)(path)
    if any(pl.Null in x.dtypes or x.is_empty() for x in frames):
        return
    metrics = random.Random(-seed).sample(METRICS, 2)
    outcomes = []
    for sources in (frames, paths):
        try:
            _, mine, rows = both_ways(*sources, metrics)
        except rankql.RankqlError as error:
            outcomes.append(type(error))
            continue
        assert mine is not None
        outcomes.append((mine.to_dicts(), rows.height))
    assert outcomes[0] == outcomes[1]


@few(2)(
    ("scores", "order"),
    [
        (["2", "10", "3"], "bca"),  # numbers, not text
        (["1e1", "-2.5", "0.5"], "acb"),
        (["NA", "1", "2"], "cb"),
        (["9007199254740991", "1", "2"], "acb"),
    ],
)
def test_numbers_in_text_are_those_of_duckdb(scores, order, tmp_path):
    """In whatever form polars knows, or leaves to DuckDB."""
    rows = "".join(f"1,{item},{x}\n" for item, x in zip("abc", scores, strict=True))
    (tmp_path / "run.csv").write_text(f"query,item,score\n{rows}")
    run, qrels = str(tmp_path / "run.csv"), {"1": {order[0]: 1}}
    for place, item in enumerate(order, 1):
        result = rankql.evaluate(run, {"1": {item: 1}}, "RR", interval=None)
        assert result.summary["mean"].item() == 1 / place
    assert rankql.evaluate(run, qrels, "RR", interval=None).summary["mean"].item() == 1


@few(2)("score", ["1_000", "12345678901234567890", "nan", "x"])
def test_text_that_is_no_plain_number_is_refused_as_before(score, tmp_path):
    (tmp_path / "run.csv").write_text(f"query,item,score\n1,a,{score}\n1,b,2\n1,c,1\n")
    with pytest.raises(rankql.RankqlError, match="score"):
        rankql.evaluate(str(tmp_path / "run.csv"), {"1": {"a": 1}}, "RR")


def test_an_item_that_stands_again_without_a_score_is_refused():
    """Its grade would count, although the row has no position."""
    rows = {"query": "q", "item": [*"abb"], "score": [2.0, 1.0, None]}
    with pytest.raises(rankql.RankqlError, match="run has duplicates: query 'q', item 'b'"):
        rankql.evaluate(pl.DataFrame({**rows, "rel": [0, 1, 1]}), None, "nDCG@3")


def test_an_item_twice_that_is_tied_at_the_cutoff_is_refused_by_both():
    """Positions 2 and 3 have one score: which is first is a matter of order."""
    run = pl.DataFrame({"query": ["q"] * 3, "item": ["a", "x", "x"], "score": [2.0, 1.0, 1.0]})
    qrels = pl.DataFrame({"query": ["q"], "item": ["x"], "rel": [1]})
    reduction, small, rows = both_ways(run, qrels, ["nDCG@2"])
    assert small["repeats"].to_list() == rows["repeats"].to_list() == [True], reduction.form
    with pytest.raises(rankql.RankqlError, match="run has duplicates: query 'q', item 'x'"):
        rankql.evaluate(run, qrels, "nDCG@2")


@few(2)("kind", [pl.Int32, pl.String, pl.Int64, pl.UInt8, pl.UInt64])
def test_queries_keep_their_type(kind, monkeypatch):
    """Whatever reduces them: values per query are joined with the tables of the user."""
    rows = {"query": [1, 1, 2], "item": [1, 2, 3], "score": [3, 2, 1], "rel": [1, 0, 1]}
    table = pl.DataFrame(rows).cast({"query": kind})
    run, qrels = table.drop("rel"), table.drop("score")
    for most in (0, in_memory.MOST_ROWS):
        monkeypatch.setattr(in_memory, "MOST_ROWS", most)
        for tables in ((table, None), (run, qrels), ({"a": run, "b": run}, qrels)):
            values = rankql.evaluate(*tables, ["AP", "nDCG@2"], interval=None).per_query
            assert values.schema["query"] == kind
