"""Every chart as Vega-Lite is that of the file: data, channels, scales, words.

`python tests/pages/test_chart_specs.py` writes the file again; look at the pictures then.
"""

import json
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

import rankql
from support import components

alt = components.optional("altair")
pytestmark = pytest.mark.report

FILE = Path(__file__).with_name("chart_specs.json")
PLACES = {"old": (1, 2, 4, 3, 2, 1), "new": (2, 1, 1, 4, 1, 1), "third": (4, 4, 3, 3, 2, 1)}
QUERIES = [*"abcdef"]
QRELS = pl.DataFrame({"query": QUERIES, "item": "x", "rel": 1})
ABOUT = pl.DataFrame({"query": QUERIES, "part": ["a very long name of a slice", "b"] * 3})
ABOUT = ABOUT.with_columns(kind=pl.Series([*"uuvvvv"]), w=pl.Series([1.0, 1, 2, 1, 1, 1]))


def make_run(places):
    places = zip(QUERIES, places, strict=True)
    rows = [(x, "x" if pos == y else f"{pos}", pos) for x, y in places for pos in range(1, 5)]
    return pl.DataFrame(rows, schema=["query", "item", "pos"], orient="row")


def make_charts():
    runs = {name: make_run(places) for name, places in PLACES.items()}
    two = rankql.compare({x: runs[x] for x in ("old", "new")}, QRELS, ["RR", "RBPres(p=0.5)@1"])
    three = rankql.compare(
        runs, QRELS, "RR", baseline="old", attributes=ABOUT, by=[["part", "kind"]], weight="w"
    )
    one = rankql.evaluate(runs["old"], QRELS, ["RR", "P@1"], attributes=ABOUT, by="part")
    scored = runs["old"].with_columns(score=1 / pl.col("pos") + pl.int_range(pl.len()) / 99)
    none = QRELS.with_columns(rel=pl.col("rel") * (pl.col("query") > "b"))
    days = [
        {"day": date(2026, 9, 1) + timedelta(day), "query": query, "item": str(pos), "pos": pos,
         "rel": (day * query + pos) % 3 if day < 32 else pos // 2}
        for day in range(34) for query in range(12) for pos in (1, 2)
    ]  # fmt: skip
    kinds = ("differences", "means", "distribution", "slices", "cutoffs")
    return {
        **{f"two {kind}": two.plot(kind) for kind in kinds},
        **{f"three {kind}": three.plot(kind) for kind in ("differences", "slices", "means")},
        "one": one.plot(),
        "one distribution": one.plot(kind="distribution"),
        "funnel": rankql.funnel({"found": runs["old"], "rank": runs["new"]}, QRELS, 1).plot(),
        "min_scores": rankql.min_scores(scored.drop("pos"), none, "RR", min_scores=[0.5, 1]).plot(),
        "days": rankql.monitor(pl.DataFrame(days), metrics="nDCG@3").plot(),
    }


def read_specs():
    with alt.data_transformers.enable(consolidate_datasets=False):
        specs = {name: chart.to_dict() for name, chart in make_charts().items()}
    assert len({json.dumps(spec.pop("config")) for spec in specs.values()}) == 1
    # Of sums over several threads, the last digits differ.
    return json.loads(json.dumps(specs), parse_float=lambda x: round(float(x), 6))


@pytest.fixture(scope="module")
def specs():
    return read_specs()


@pytest.mark.parametrize("name", json.loads(FILE.read_text("utf-8")) if FILE.exists() else ())
def test_the_specification_of_a_chart_is_that_of_the_file(specs, name):
    assert specs[name] == json.loads(FILE.read_text("utf-8"))[name]


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(x)}" for name, x in read_specs().items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
