"""Grades in several runs are judgments where the data show it: as if their pool was passed."""

import itertools
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rankql

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


def expected_pool(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float] | None:
    """The judgments, by query and item; None if the grades are of each system alone."""
    graded = {row["system"] for row in rows if row["rel"] is not None}
    shown = defaultdict[tuple[str, str], list[float | None]](list)
    for row in rows:
        if row["system"] in graded:
            shown[row["query"], row["item"]].append(row["rel"])
    grades = {pair: [x for x in rels if x is not None] for pair, rels in shown.items()}
    if any(len({*x}) > 1 for x in grades.values()):
        return None
    if not any(x and x[0] > 0 and len(shown[pair]) > 1 for pair, x in grades.items()):
        return None
    return {pair: x[0] for pair, x in grades.items() if x}


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


def same(one: Any, other: Any) -> bool:
    """Are two values equal to 1e-12?"""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    return bool(one == other)


def check_case(seed: int, folder: Path) -> str:
    """Compare the grades of systems with the call with their pool, or with each system alone."""
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

    def run(table: pl.DataFrame, *qrels: Any) -> dict[Any, Any] | str:
        data = pass_on(table)
        return read_values(lambda: rankql.evaluate(data, *qrels, metrics=metrics, **options))

    got = run(frame)
    rows = frame.to_dicts()
    pool = expected_pool(rows)
    if pool is None or frame["system"].n_unique() == 1:
        if form == "column" or isinstance(got, str):
            return "alone"
        expected = dict[Any, Any]()
        for _, part in frame.group_by("system"):
            one = run(part)
            if isinstance(one, str):
                return "alone"
            expected |= one
        kind, got = "alone", {x: v for x, v in got.items() if x in expected}
    else:
        graded = {row["system"] for row in rows if row["rel"] is not None}
        triples = [(*pair, grade) for pair, grade in pool.items()]
        judged = pl.DataFrame(triples, ["query", "item", "rel"], orient="row")
        if "query" in options:
            judged = judged.with_columns(part=pl.col("query").str.slice(1).cast(pl.Int64) % 2)
        given = run(frame.drop("rel"), judged)
        if "seen" in options and "nothing is ranked" in str(got):  # as of each system alone
            return "error"
        if "No two runs share a query" in str(given):
            return "error"
        if isinstance(given, str) or isinstance(got, str):
            assert isinstance(given, str) and isinstance(got, str), (seed, options, given, got)
            return "error"
        pairs = {(row["system"], row["query"]) for row in rows}
        if "query" in options:
            pairs = {(x, f"{q}, {int(q[1:]) % 2}") for x, q in pairs}
        expected = {x: v for x, v in given.items() if x[:2] in pairs}
        names = {x for *_, x in got} - {"slice", "weight"}
        expected |= {x: None for x in expected if x[0] not in graded and x[2] in names}
        kind = "pooled"
    assert got.keys() == expected.keys(), (seed, options, form, {*got} ^ {*expected})
    wrong = {x: (v, expected[x]) for x, v in got.items() if not same(v, expected[x])}
    assert not wrong, (seed, options, form, place, wrong)
    return kind


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(x, x + 200) for x in range(0, 2000, 200)], ids=str)
def test_grades_of_several_systems_are_their_pool(seeds: range, tmp_path: Path) -> None:
    kinds = [check_case(seed, tmp_path) for seed in seeds]
    assert kinds.count("pooled") > len(seeds) / 4 and kinds.count("alone") > len(seeds) / 10


def frame(columns: str, *rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, columns.split(), orient="row")


def means(result: Any) -> dict[str, float]:
    """The means of the first metric by system."""
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


def test_judged_items_of_all_systems_count_for_each() -> None:
    result = rankql.evaluate(SHARED, metrics=["nDCG@10", "R@10", "AP"])
    expected = {"a": 3 / IDEAL, "b": (1 + 3 / math.log2(3)) / IDEAL}
    assert means(rankql.evaluate(SHARED, metrics="nDCG@10")) == pytest.approx(expected)
    assert means(rankql.evaluate(SHARED, metrics="R@10")) == {"a": 0.5, "b": 1.0}
    assert means(rankql.compare(SHARED, metrics="nDCG@10")) == pytest.approx(expected)
    (note,) = [x for x in result.notes if x.startswith("Grades")]
    assert "8 judged items of one system alone count for each" in note
    assert "qrels" in result.columns and "qrels" in result.sql


def test_a_query_without_a_relevant_item_of_its_own_counts_zero() -> None:
    rows = ("a", "z", "x", 1.0, 2), ("b", "z", "w", 1.0, 0)
    data = pl.concat([SHARED, frame("system query item score rel", *rows)])
    result = rankql.evaluate(data, metrics="nDCG@10")
    assert result.per_query.filter(system="b", query="z")["nDCG@10"][0] == 0
    assert any("1 ranking without a relevant item became defined" in x for x in result.notes)


def test_a_query_that_a_system_does_not_have_is_not_added() -> None:
    data = SHARED.filter(~((pl.col("system") == "b") & (pl.col("query") == "q0")))
    result = rankql.evaluate(data, metrics="nDCG@10")
    assert result.summary["queries"].to_list() == [4, 3]
    assert result.summary["missing"].to_list() == [0, 0]
    assert "evaluate leaves them out" in " ".join(rankql.compare(data, metrics="nDCG@10").notes)


def test_null_is_no_grade_and_has_that_of_another_system() -> None:
    data = shown(("a", "x", 3), ("a", "z", 0), ("a", "w", None), ("b", "y", 1), ("b", "x", None))
    assert means(rankql.evaluate(data, metrics="nDCG@10")) == means(
        rankql.evaluate(SHARED, metrics="nDCG@10")
    )
    assert any(" 4 items without a grade" in x for x in rankql.evaluate(data, metrics="AP").notes)


def test_null_has_the_grade_of_another_system_that_shows_the_same_items() -> None:
    same = shown(("a", "x", 3), ("a", "y", 1), ("b", "y", None), ("b", "x", 3))
    ideal = {"a": 1.0, "b": (1 + 3 / math.log2(3)) / IDEAL}
    assert means(rankql.evaluate(same, metrics="nDCG@10")) == pytest.approx(ideal)


def test_a_system_without_a_grade_has_no_value() -> None:
    others = shown(("c", "x", None), ("c", "y", None))
    result = rankql.evaluate(pl.concat([SHARED, others]), metrics=["nDCG@10", "P@5"])
    assert result.per_query.filter(system="c")["nDCG@10"].null_count() == 4
    assert result.per_query.filter(system="c")["P@5"].null_count() == 4
    rest = rankql.evaluate(SHARED, metrics=["nDCG@10", "P@5"]).per_query
    assert result.per_query.filter(pl.col("system") != "c").equals(rest)


def test_a_system_without_a_grade_may_show_other_items() -> None:
    others = SHARED.head(4)["system", "item", "rel"].rows()
    data = [shown(("c", "k", None), queries=9), shown(*others, queries=9)]
    result = rankql.evaluate(pl.concat(data, how="vertical_relaxed"), metrics="nDCG@10")
    assert means(result)["c"] is None


def test_a_query_without_a_grade_is_left_out() -> None:
    other = SHARED.head(4).with_columns(query=pl.lit("z"), rel=pl.lit(None, pl.Int64))
    result = rankql.evaluate(pl.concat([SHARED, other]), metrics="nDCG@10")
    assert means(result) == means(rankql.evaluate(SHARED, metrics="nDCG@10"))
    assert "Queries: 1 of 5 not judged and left out ('z')" in result.notes


# What is measured against the items that each system shows itself, and what its note says.
ALONE = {
    "clicks": (shown(("a", "x", 1), ("a", "y", 0), ("b", "y", 1), ("b", "z", 0)), {},
               "the same item has grades 0 and 1 in query 'q0', and so have 4 of 4 shared items"),
    "two chunkers": (shown(("a", "x", 3), ("a", "v", 0), ("b", "y", 0), ("b", "w", 1)), {},
                     "no relevant item is shown by two systems"),
    "only zeros shared": (shown(("a", "x", 3), ("a", "z", 0), ("b", "z", 0), ("b", "y", 1)), {},
                          "no relevant item is shown by two systems"),
    "rates": (SHARED.with_columns(rel=pl.col("rel") / 10 + (pl.col("system") == "b") * 0.001),
              {"threshold": 0.1}, "the same item has grades 0.3 and 0.301"),
    "sklearn": (SHARED, {"conventions": "sklearn"}, ""),
    "same items": (shown(("a", "x", 3), ("a", "y", 0), ("b", "y", 0), ("b", "x", 3)), {}, ""),
    "same items, clicks": (shown(("a", "x", 1), ("a", "y", 0), ("b", "y", 1), ("b", "x", 0)), {},
                           ""),
    "one ungraded": (shown(("a", "x", 3), ("a", "z", 0), ("b", "y", None), ("b", "x", None)), {},
                     ""),
    "no items": (SHARED.drop("item"), {"system": "system"}, ""),
    "own queries": (SHARED.with_columns(query=pl.col("query") + pl.col("system")),
                    {"system": "system"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_other_grades_are_those_of_each_system(name: str) -> None:
    data, options, words = ALONE[name]
    result = rankql.evaluate(data, metrics=["nDCG@10", "AP"], **options)
    for system in ("a", "b"):
        rows = data.filter(system=system)
        if not rows["rel"].null_count():
            alone = rankql.evaluate(
                rows, metrics=["nDCG@10", "AP"], **{"system": "system"} | options
            )
            assert result.per_query.filter(system=system).equals(alone.per_query)
    notes = [x for x in result.notes if x.startswith("Grades")]
    assert len(notes) == bool(words) and words in "".join(notes)


def test_floats_of_two_widths_are_one_grade() -> None:
    narrow = SHARED.with_columns(rel=(pl.col("rel") / 10).cast(pl.Float32))
    wide = narrow.with_columns(rel=pl.col("rel").cast(pl.Float64).round(3))
    runs = {"a": narrow.filter(system="a"), "b": wide.filter(system="b")}
    runs = {name: x.drop("system") for name, x in runs.items()}
    assert means(rankql.evaluate(runs, metrics="nDCG@10")) == pytest.approx(
        means(rankql.evaluate(SHARED, metrics="nDCG@10"))
    )


def test_an_item_that_a_system_has_with_two_grades_is_a_duplicate() -> None:
    rows = [*(("a", f"i{n}", 0) for n in range(12)), ("a", "x", 3), ("a", "w", 1), ("a", "w", 2)]
    with pytest.raises(rankql.RankqlError, match="item 'w'"):
        data = shown(*rows, ("b", "x", 3), ("b", "y", 1))
        rankql.evaluate(data, metrics="nDCG@10", system="system")


def test_check_says_whose_grades_count() -> None:
    assert "grades-pooled" in {x.kind for x in rankql.check(SHARED).findings}
    assert "grades-apart" in {x.kind for x in rankql.check(ALONE["clicks"][0]).findings}


def test_an_invalid_grade_is_an_error_of_the_run() -> None:
    data = SHARED.with_columns(rel=pl.col("rel").cast(pl.Float64).replace(1, math.nan))
    with pytest.raises(rankql.RankqlError, match="run: rel must be a finite number"):
        rankql.evaluate(data)
