"""Whose grades count: pool=True is qrels= of all rows, pool=False each run alone."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.base.errors import Question
from rankql.core.metrics.all_metrics import EVALUATED
from rankql.core.metrics.metric_record import MetricRecord

METRICS = ["nDCG@10", "nDCG", "AP", "R@3", "P@2", "Rprec", "bpref", "RR", "nDCG(gain=exp2)@2",
           "Judged@3", "ERR(max_rel=3)@5", "F1@3", "AP@2", "InfAP", "RBP(p=0.8)"]  # fmt: skip
FEW = ["nDCG@10", "R@3", "P@2"]
OPTIONS: list[dict[str, Any]] = [
    {}, {}, {"by": "slice"}, {"weight": "weight"}, {"conventions": "trec_eval"},
    {"conventions": "ranx"}, {"undefined": "zero"}, {"ties": "expected"}, {"ties": "best"},
    {"unjudged": "remove"}, {"negative": "unjudged"}, {"threshold": 2}, {"ideal": "retrieved"},
    {"min_score": 0.5}, {"seen": "drop"}, {"collapse": "#"}, {"undefined": "drop"},
    {"ignore_identical_ids": True}, {"missing": "skip"}, {"by": [["slice"], ["weight"]]},
    {"query": ["query", "part"]},
]  # fmt: skip


def make_rows(rng: random.Random) -> list[dict[str, Any]]:
    """Rows of 1 to 4 systems that share items and grades, as far as chance has it."""
    systems, kind = "abcd"[: rng.randint(1, 4)], rng.choice(["judged"] * 4 + ["clicks", "own"])
    grades, ungraded = rng.choice([(0, 1), (0, 0, 0, 1, 2, 3), (-1, 0, 1), (0.3, 1.1, 2)]), ""
    if rng.random() < 0.1:
        ungraded = rng.choice(systems)
    nulls, queries = rng.choice([0, 0, 0.3]), [f"q{i}" for i in range(rng.randint(1, 6))]
    judged = defaultdict(lambda: rng.choice(grades))
    rows = []
    for system, query in itertools.product(systems, queries):
        if rng.random() < 0.12:
            continue
        pool = [f"{query}" if i == 7 else f"d{i % 5}#{i}" for i in range(rng.randint(2, 9))]
        shown = rng.sample(pool, rng.randint(1, len(pool)))
        scores = rng.sample(range(20), len(shown))
        if rng.random() < 0.2:
            scores = [rng.randrange(3) for _ in shown]
        for pos, (item, score) in enumerate(zip(shown, scores, strict=True), start=1):
            item = item + system * (kind == "own")
            rel, number = judged[query, item, system * (kind == "clicks")], int(query[1:])
            rel = None if system == ungraded or rng.random() < nulls else rel
            rows.append({"system": system, "query": query, "item": item, "score": score / 20,
                         "pos": pos, "rel": rel, "slice": "s" + query[-1],
                         "part": number % 2, "weight": 1.0 + number % 2})  # fmt: skip
    rng.shuffle(rows)
    return rows


def find_pool(frame: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """The judgments of all rows, and whether each item has one grade in a query."""
    graded = frame.drop_nulls("rel").select("query", "item", "rel").unique()
    return graded, not graded.select("query", "item").is_duplicated().any()


def read_values(call: Any, **keys: Any) -> dict[Any, Any] | str:
    """The values by system, query and metric, or the error."""
    try:
        result = call()
    except rankql.RankqlError as error:
        return str(error)
    values = {}
    for row in result.per_query.to_dicts():
        key = (row.pop("system", keys.get("system")), row.pop(result.meta.query))
        values |= {(*key, name): value for name, value in row.items()}
    return values


def is_same(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Are values equal to 1e-12?"""

    def close(x: Any, y: Any) -> bool:
        floats = isinstance(x, float) and isinstance(y, float)
        return math.isclose(x, y, rel_tol=1e-12, abs_tol=1e-12) if floats else bool(x == y)

    return one.keys() == other.keys() and all(close(x, other[key]) for key, x in one.items())


def check_case(seed: int, folder: Path) -> str:
    """Compare pool=True with judgments of all rows, and pool=False with each system alone."""
    rng = random.Random(seed)
    rows, options = make_rows(rng), {**rng.choice(OPTIONS)}
    if not rows:
        return "empty"
    place = "score" if "min_score" in options or rng.random() < 0.6 else "pos"
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if frame["rel"].dtype == pl.Null:
        return "no grade"
    if options.pop("seen", None):
        train = frame.select("query", "item").sample(fraction=0.3, seed=seed)
        options |= {"seen": "drop", "train": train}
    metrics = rng.choice([METRICS, FEW, ["nDCG@10"], ["AP"]])
    attributes = [x for x in ("slice", "weight", "part") if x in str(options)]
    frame = frame.select("system", "query", "item", place, "rel", *attributes)
    form = rng.choice(["column", "column", "dict", "parquet", "csv"])
    if frame["rel"].dtype == pl.Float64 and rng.random() < 0.3 and form != "csv":
        frame = frame.with_columns(pl.col("rel").cast(pl.Float32))

    def pass_on(table: pl.DataFrame) -> Any:
        if form == "column":
            return table
        parts = {x: table.filter(system=x).drop("system") for x in sorted({*table["system"]})}
        if form == "dict":
            return parts
        for name, part in parts.items():
            part.write_parquet(folder / f"{name}.parquet")
            part.write_csv(folder / f"{name}.csv")
        return {name: str(folder / f"{name}.{form}") for name in parts}

    def run(table: pl.DataFrame, *qrels: Any, **more: Any) -> dict[Any, Any] | str:
        data = pass_on(table)
        known = {"metrics": metrics, **options, **more}
        return read_values(lambda: rankql.evaluate(data, *qrels, **known))

    judged, is_one = find_pool(frame)
    own = run(frame, pool=False)
    for (system,), part in frame.group_by("system"):
        if form == "column" or isinstance(own, str):
            break
        alone = run(part)
        if not isinstance(alone, str):
            some = {x: v for x, v in own.items() if x in alone}  # without queries of NULLs
            assert is_same(alone, some), (seed, options, form, system)
    got = run(frame, pool=True)
    if not is_one and "collapse" not in options:
        assert isinstance(got, str), (seed, got)
        return "two grades" if "two grades in a query" in got else "error"
    if "query" in options:
        judged = judged.with_columns(part=pl.col("query").str.slice(1).cast(pl.Int64) % 2)
    given = run(frame.drop("rel"), judged, none_judged="zero")
    if isinstance(given, str) or isinstance(got, str):
        both = isinstance(given, str) and isinstance(got, str)
        # Chunks may have two grades of which their document has the higher one.
        assert both or "collapse" in options, (seed, options, given, got)
        return "error"
    assert is_same(got, given), (seed, options, form, place)
    return "pooled"


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(x, x + 100) for x in range(0, 1000, 100)], ids=str)
def test_pool_equals_judgments_or_each_run_alone(seeds: range, tmp_path: Path) -> None:
    kinds = [check_case(seed, tmp_path) for seed in seeds]
    assert kinds.count("pooled") > len(seeds) / 3 and kinds.count("two grades") > len(seeds) / 20


def test_pool_equals_judgments_or_each_run_alone_of_few(tmp_path: Path) -> None:
    assert {"pooled", "two grades"} <= {check_case(seed, tmp_path) for seed in range(40)}


def frame(columns: str, *rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, columns.split(), orient="row")


def means(*tables: Any, metric: str = "nDCG@10", **options: Any) -> dict[str, float]:
    """The means of a metric by system."""
    result = rankql.evaluate(*tables, metrics=metric, interval=None, **options)
    return dict(result.summary.select("system", "mean").rows())


def shown(*rows: tuple[str, str, int | None], queries: int = 4) -> pl.DataFrame:
    """Systems that show items of these grades for each query, in this order."""
    return frame(
        "system query item score rel",
        *(
            (s, f"q{q}", i, 1 - n / 10, g)
            for q in range(queries)
            for n, (s, i, g) in enumerate(rows)
        ),
    )


# a shows x above z, b shows y above x: all three are judged.
SHARED = shown(("a", "x", 3), ("a", "z", 0), ("b", "y", 1), ("b", "x", 3))
IDEAL = 3 + 1 / math.log2(3)
POOLED = {"a": 3 / IDEAL, "b": (1 + 3 / math.log2(3)) / IDEAL}
OWN = {"a": 1.0, "b": (1 + 3 / math.log2(3)) / IDEAL}


def test_the_question_has_both_answers_and_their_values() -> None:
    with pytest.raises(Question) as error:
        rankql.evaluate(SHARED, metrics=["P@2", "R@10", "nDCG@10"])
    assert (
        str(error.value)
        == """\
a and b have grades of their own. Which count for R@10?

Pass one of:
    pool=True     all grades are one set of judgments   a 0.5000, b 1.0000
    pool=False    each run is measured by its own rows  a 1.0000, b 1.0000"""
    )
    for call, right in zip(error.value.calls, (POOLED, OWN), strict=True):
        assert means(SHARED, **call) == pytest.approx(right)


def test_the_question_is_that_of_every_function() -> None:
    runs = {name: SHARED.filter(system=name).drop("system") for name in "ab"}
    calls: list[Callable[[], Any]] = [
        lambda: rankql.compare(SHARED, metrics="nDCG@10"),
        lambda: rankql.gate(runs["b"], baseline=runs["a"], max_drop="nDCG@10:0.1"),
        lambda: rankql.explain(runs, metric="nDCG@10"),
        lambda: rankql.explain(SHARED, of={"system": "a", "query": "q1"}),
    ]
    for call in calls:
        with pytest.raises(Question, match=r"Which count for nDCG@10\?"):
            call()


def test_the_first_metric_that_differs_is_shown_for_three_systems() -> None:
    rows = [(s, i, g) for s in "abcd" for i, g in (("x", 3), (f"own {s}", 0))]
    with pytest.raises(Question) as error:
        rankql.evaluate(shown(*rows, ("d", "y", 1)), metrics=["RR", "nDCG@10"])
    text = str(error.value)
    assert "4 systems have grades of their own. Which count for nDCG@10?" in text
    assert "a 0.8262, b 0.8262, c 0.8262" in text and "d 0" not in text


def test_what_is_not_asked() -> None:
    same = shown(("a", "x", 3), ("a", "y", 0), ("b", "y", 0), ("b", "x", 3))
    assert means(same) == pytest.approx({"a": 1, "b": 1 / math.log2(3)})
    twice = pl.concat([same, same.filter(system="b", item="y").with_columns(score=pl.lit(0.1))])
    assert means(twice, metric="nDCG@1", system="system") == {"a": 1, "b": 0}
    assert means(SHARED, metric="P@2") == {"a": 0.5, "b": 1}
    assert means(SHARED, ideal="retrieved") == pytest.approx(OWN)
    assert means(SHARED, metric="RR", undefined="zero") == {"a": 1, "b": 1}
    own = SHARED.with_columns(query=pl.col("query") + pl.col("system"))
    assert means(own, system="system", missing="skip") == pytest.approx(OWN)
    assert means(SHARED.drop("item"), system="system") == pytest.approx(OWN)
    one = SHARED.filter(system="a").drop("system")
    assert rankql.evaluate(one, metrics="nDCG@10", pool=True)["nDCG@10"] == 1


@pytest.mark.parametrize("metric", ["RR", "nDCG@10", "AP(denominator=k)@2", "P(denominator=min)@2"])
def test_one_row_does_not_decide(metric: str) -> None:
    same = shown(("a", "x", 3), ("a", "y", 0), ("b", "y", 0), ("b", "x", 3), queries=50)
    means(same, metric=metric)
    with pytest.raises(Question, match="Which count"):
        means(pl.concat([same, same[:1].with_columns(item=pl.lit("w"))]), metric=metric)


def test_two_grades_are_an_error_with_three_of_them() -> None:
    data = SHARED.with_columns(rel=pl.col("rel") + (pl.col("system") == "b").cast(pl.Int64))
    with pytest.raises(rankql.RankqlError) as error:
        means(data, pool=True)
    assert "4 items with two grades in a query ('x' in query 'q0': 3 and 4" in str(error.value)
    assert str(error.value).count("3 and 4") == 3
    means(data, data, rel="max(rel)")  # what it offers
    with pytest.raises(Question) as asked:
        means(data)
    assert asked.value.calls == [{"pool": False}] and "rel='max(rel)'" in str(asked.value)


def test_null_is_no_judgment_and_has_the_grade_of_another_row() -> None:
    data = shown(("a", "x", 3), ("a", "z", 0), ("a", "w", None), ("b", "y", 1), ("b", "x", None))
    assert means(data, pool=True) == pytest.approx(POOLED)
    (note,) = [x for x in rankql.evaluate(data, pool=True).notes if x.startswith("Grades")]
    assert note == "Grades: 4 rows without a grade have that of another row"
    with pytest.raises(Question) as error:
        means(data)
    assert error.value.calls[0] == {"pool": False}


def test_a_system_without_a_grade_has_zero_or_no_value() -> None:
    data = pl.concat([SHARED, shown(("c", "k", None), ("c", "w", None))])
    assert means(data, pool=True)["c"] == 0
    assert means(data, pool=False)["c"] is None
    alone = data.with_columns(rel=pl.lit(None, pl.Int64))
    for pool in (True, False):
        with pytest.raises(rankql.RankqlError, match="No item has a grade"):
            means(alone, pool=pool)


def test_own_metrics_read_the_rows_that_a_system_shows() -> None:
    for pool in (True, False):
        assert means(SHARED, metric="n = count(*)", pool=pool) == {"a": 2, "b": 2}
        assert means(SHARED, metric="share = avg(rel)", pool=pool) == {"a": 1.5, "b": 2}
    both = rankql.evaluate(SHARED, metrics=["nDCG@10", "n = count(*)"], pool=True)
    assert both.per_query["n"].to_list() == [2.0] * 8


def test_collapsed_documents_are_pooled() -> None:
    data = shown(("a", "d1#1", 1), ("a", "d1#2", 1), ("a", "d2#1", 1),
                 ("b", "d3#1", 1), ("b", "d3#2", 1), ("b", "d2#1", 1))  # fmt: skip
    with pytest.raises(Question, match="Which count"):
        means(data, metric="R@3", collapse="#")
    third = pytest.approx({"a": 2 / 3, "b": 2 / 3})
    assert means(data, metric="R@3", collapse="#", pool=True) == third
    assert means(data, metric="R@3", collapse="#", pool=False) == {"a": 1, "b": 1}


def test_seen_items_are_dropped_without_a_wrong_note() -> None:
    train = frame("query item", *((f"q{n}", "z") for n in range(4)))
    result = rankql.evaluate(SHARED, metrics="P@2", train=train, seen="drop")
    assert not any("no position" in x for x in result.notes)


def test_the_sql_of_a_result_runs_twice(tmp_path: Path) -> None:
    runs = {x: str(tmp_path / f"{x}.parquet") for x in "ab"}
    for name, path in runs.items():
        SHARED.filter(system=name).drop("system").write_parquet(path)
    sql = rankql.evaluate(runs, metrics="nDCG@10", pool=True, interval=None).sql
    con = duckdb.connect()
    rankql.register(con)
    values = [con.sql(sql).pl() for _ in range(2)]
    assert values[0].equals(values[1])
    found = dict(values[0].group_by("system").agg(pl.col("nDCG@10").mean()).rows())
    assert found == pytest.approx(POOLED)


def test_names_of_columns_may_differ() -> None:
    runs = {x: SHARED.filter(system=x).drop("system") for x in "ab"}
    other = runs["b"].rename({"rel": "grade", "item": "doc_id"})
    assert means({"a": runs["a"], "b": other}, pool=True) == pytest.approx(POOLED)


def test_slices_of_a_pool_are_those_of_judgments() -> None:
    data = SHARED.with_columns(part=pl.col("query"))
    judged = SHARED.select("query", "item", "rel").unique()
    one, other = (
        rankql.evaluate(*tables, metrics="nDCG@10", by="part", **options).summary
        for tables, options in (((data,), {"pool": True}), ((data.drop("rel"), judged), {}))
    )
    assert one.equals(other)


def test_pool_needs_grades_inside_the_runs_and_ids() -> None:
    judged = SHARED.select("query", "item", "rel").unique()
    for pool in (True, False):
        with pytest.raises(rankql.RankqlError, match="pool= is for grades inside the runs"):
            means(SHARED.drop("rel"), judged, pool=pool)
    with pytest.raises(rankql.RankqlError, match="pool=True needs ids"):
        means(SHARED.drop("item"), system="system", pool=True)
    with pytest.raises(rankql.RankqlError, match="pool must be True or False, not 'yes'"):
        means(SHARED, pool="yes")


def test_floats_of_two_widths_are_one_grade() -> None:
    narrow = SHARED.with_columns(rel=(pl.col("rel") / 10).cast(pl.Float32))
    wide = narrow.with_columns(rel=pl.col("rel").cast(pl.Float64).round(3))
    runs = {"a": narrow.filter(system="a"), "b": wide.filter(system="b")}
    runs = {name: x.drop("system") for name, x in runs.items()}
    assert means(runs, pool=True) == pytest.approx(POOLED)


def test_max_rel_is_the_highest_grade_of_all_runs() -> None:
    result = rankql.evaluate(SHARED, metrics="ERR", pool=False, interval=None)
    assert result.conventions["max_rel"] == 3
    assert means(SHARED.filter(pl.col("rel") < 3), metric="ERR", pool=False)["b"] == 0.5


def test_check_says_that_evaluate_asks() -> None:
    found = " ".join(x.message for x in rankql.check(SHARED).findings)
    assert "evaluate asks which count: pass pool=" in found
    for pool in (True, False):
        found = " ".join(x.message for x in rankql.check(SHARED, pool=pool).findings)
        assert "evaluate asks" not in found


def test_an_invalid_grade_is_an_error_of_the_run() -> None:
    data = SHARED.with_columns(rel=pl.col("rel").cast(pl.Float64).replace(1, math.nan))
    with pytest.raises(rankql.RankqlError, match="run: rel must be a finite number"):
        rankql.evaluate(data)


def test_several_systems_are_explained_one_by_one() -> None:
    one = rankql.explain(SHARED, of={"system": "a", "query": "q1"}, pool=True)
    assert one.value == pytest.approx(POOLED["a"]) and one.system == "a"
    both = [{"system": x, "query": "q1"} for x in "ab"]
    for pool, right in ((True, POOLED), (False, OWN)):
        explained = rankql.explain(SHARED, of=both, pool=pool)
        assert [x.value for x in explained.parts] == pytest.approx([*right.values()])
        assert explained.positions is not None
        assert sorted(explained.positions["system"].unique()) == ["a", "b"]
    missed = rankql.explain(SHARED, metric="nDCG@10", pool=True, missed=True).table
    assert missed.select("system", "item").unique().rows() == [("a", "y")]
    with pytest.raises(Question) as error:
        rankql.explain(SHARED, of="q1", pool=True)
    assert error.value.calls[0] == {"of": {"system": "a", "query": "q1"}}
    with pytest.raises(Question, match="Unknown system 'c'"):
        rankql.explain(SHARED, of={"system": "c", "query": "q1"}, pool=True)


MORE = {"ERR": "(max_rel=3)", "nERR": "(max_rel=3)", "RBP": "(p=0.8)", "RBPres": "(p=0.8)",
        "IPrec": "(recall=0.5)"}  # fmt: skip
RECORDS = [x for x in EVALUATED if not x.of_shown]


def draw(seed: int, lowest: int = 0) -> pl.DataFrame:
    """Two systems that have every query and show other items of it, of one grade each."""
    rng, rows = random.Random(seed), []
    for query in "vwxyz":
        grade = {f"d{i}": rng.choice([0, 0, 0, 1, 2, 3]) + lowest for i in range(9)}
        for system in "ab":
            items = rng.sample([*grade], rng.randint(2, 6))
            rows += [(system, query, x, 5 - i / 2, grade[x]) for i, x in enumerate(items, 1)]
    return frame("system query item score rel", *rows)


@pytest.mark.parametrize("undefined", ["skip", "zero"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda x: x.name)
def test_what_reads_unshown_items_differs_and_nothing_else(
    record: MetricRecord, undefined: str
) -> None:
    name, differs = record.name + MORE.get(record.name, ""), False
    for seed in range(8):
        data, values = draw(seed, -1 if record.name == "Forbidden" else 0), []
        for pool in (True, False):
            options: dict[str, Any] = {"pool": pool, "undefined": undefined, "interval": None}
            result = rankql.evaluate(data, metrics=name, **options)
            rows = result.per_query.sort("system", result.meta.query)
            column = rows[rows.columns[-1]] if rows.width > 2 else result.summary["mean"]
            column = column.fill_null(0) if undefined == "zero" else column
            values.append([None if x is None else round(x, 9) for x in column])
        differs |= values[0] != values[1]
    counted = "presence" if undefined == "zero" else "nothing"
    assert differs == (record.unshown not in ("nothing", counted))
