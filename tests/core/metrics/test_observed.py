"""What other tools printed, row by row, and what rankql gives under their conventions."""

import json
from collections import Counter, defaultdict

import polars as pl
import pytest

import rankql
from rankql.core.metrics.conventions import PROFILES
from rankql.core.metrics.profiles import TOOLS
from support.paths import ROOT

ROWS = [*map(json.loads, (ROOT / "tests/cases/observed.jsonl").read_text().splitlines())]
# Tools of 32 bits, and those that round what they print.
TOLERANCES = {"torchmetrics": 1e-6, "rax": 1e-6, "keras_rs": 1e-6, "beir": 5.1e-6, "mteb": 5.1e-6,
              "recbole": 1e-6, "trec_eval_10": 5.1e-5, "quepid": 1e-6,
              "search_relevance": 5e-3}  # fmt: skip


def read_input(row):
    """The arguments of a row: a run and judgments, or groups of labels and scores."""
    if "run" in row:
        return row["run"], row["qrels"]
    groups = enumerate(zip(row["labels"], row["scores"], strict=True))
    rows = [
        (str(group), str(item), float(label), float(score))
        for group, (labels, scores) in groups
        for item, (label, score) in enumerate(zip(labels, scores, strict=True))
    ]
    return pl.DataFrame(rows, schema=["query", "item", "rel", "score"], orient="row"), None


def evaluate(rows):
    """The means of rows that have the same input and options."""
    first = rows[0]
    options = {"interval": None, **first.get("options", {})}
    if first["tool"] in PROFILES:
        options["conventions"] = first["tool"]
    names = [row["metric"] for row in rows]
    result = rankql.evaluate(*read_input(first), names, **options)
    return dict(result.summary.select("metric", pl.col("mean").fill_null(0)).rows())


@pytest.mark.few(1)
@pytest.mark.parametrize("tool", dict.fromkeys(row["tool"] for row in ROWS))
def test_what_the_tool_printed(tool):
    tolerance, together = TOLERANCES.get(tool, 1e-12), defaultdict(list)
    for row in ROWS:
        if row["tool"] == tool and row["printed"] == "refused":
            with pytest.raises(rankql.RankqlError):
                evaluate([row])
        elif row["tool"] == tool:
            given = {key: row.get(key) for key in ("run", "qrels", "labels", "scores", "options")}
            together[json.dumps(given), row["metric"].endswith("-")].append(row)
    for rows in together.values():
        values = evaluate(rows)
        for row in rows:
            ours = values[row["metric"].partition(" = ")[0]]
            assert ours == pytest.approx(row["printed"], abs=tolerance), row


def test_every_tool_has_rows():
    counts = Counter(row["tool"] for row in ROWS)
    cases = defaultdict(set)
    for row in ROWS:
        cases[row["tool"]] |= {*row["case"].split(", ")}
    for name in PROFILES.keys() - {"rankql"}:
        assert counts[name] >= 6, name
    assert TOOLS.keys() - counts.keys() == {"rankql"}
    for name in ("lightgbm", "xgboost", "catboost", "torchmetrics", "rax", "evidently"):
        assert {"graded", "perfect"} <= cases[name], name
        assert any("empty" in case for case in cases[name]), name
        assert any("equal scores" in case for case in cases[name]), name
    for name in ("beir", "mteb"):
        assert {"equal scores", "empty query", "fewer items than k", "missing query", "graded",
                "perfect"} <= cases[name]  # fmt: skip


def test_every_version_is_that_of_the_record():
    for row in ROWS:
        assert TOOLS[row["tool"]].version.removesuffix(" (source)") == row["version"]


def test_an_unknown_profile_that_is_a_tool_shows_its_call():
    for name, tool in TOOLS.items():
        if tool.call:
            with pytest.raises(rankql.RankqlError) as error:
                rankql.evaluate({"q": ["a"]}, {"q": ["a"]}, conventions=name)
            assert tool.call in str(error.value)
