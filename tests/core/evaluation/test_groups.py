"""groups="any": relevant ids are lists of lists, and one id of each inner list suffices."""

import json

import polars as pl
import pytest

import rankql
from support.parameters import few
from support.refusals import refuses

ROWS = [
    {"question": "a", "retrieved": ["x", "y", "z"], "relevant": [["x", "q"], ["z"]]},
    {"question": "b", "retrieved": ["y", "w"], "relevant": [["w", "y"], ["v"]]},
    {"question": "c", "retrieved": ["x"], "relevant": [["x", "x"], ["x", "y"], ["x"]]},
    {"question": "d", "retrieved": ["x"], "relevant": []},
    {"question": "e", "retrieved": [], "relevant": [["x"]]},
    {"question": "f", "retrieved": ["q", "z"], "relevant": [["x", "q"], ["z"]]},
]
# By hand, of a to f: d has no relevant item, e retrieves nothing.
EXPECTED = {
    "group_recall@1": [1 / 2, 1 / 2, 1, None, 0, 1 / 2],
    "STREC@2": [1 / 2, 1 / 2, 1, None, 0, 1],
    "AllRel@2": [0, 0, 1, None, 0, 1],
    "AllRel": [1, 0, 1, None, 0, 1],
    "RR": [1, 1, 1, None, 0, 1],
    "Success@1": [1, 1, 1, None, 0, 1],
    "Judged@2": [1 / 2, 1, 1 / 2, 0, 0, 1],
}


def tables(tmp_path):
    frame = pl.DataFrame(ROWS)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    ids = {x: i for i, x in enumerate("qvwxyz")}
    numbers = frame.with_columns(
        pl.col("retrieved").list.eval(pl.element().replace_strict(ids, return_dtype=pl.Int64)),
        pl.Series("relevant", [[[ids[x] for x in g] for g in row["relevant"]] for row in ROWS]),
    )
    yield path, None
    yield frame.rename({"relevant": "retrieval_gt"}), None
    yield numbers, None
    yield frame.select("question", "retrieved"), frame.drop("retrieved")
    yield frame.with_columns(as_text(pl.col("relevant"))), None


def as_text(lists):
    return lists.map_elements(lambda x: json.dumps(x.to_list()), pl.String)


@pytest.mark.slow
def test_one_of_each_inner_list_suffices(tmp_path):
    for run, qrels in tables(tmp_path):
        result = rankql.evaluate(run, qrels, [*EXPECTED], groups="any", interval=None)
        values = result.per_query.sort("question")
        for name, expected in EXPECTED.items():
            assert values[name].to_list() == pytest.approx(expected), name
    assert result.columns["qrels"]["item"] == "one of each list in relevant"
    alone = rankql.evaluate(run, qrels, "RR", groups="any", interval=None).per_query
    assert alone.sort("question")["RR"].to_list() == EXPECTED["RR"]


def test_lists_of_lists_in_text_are_json_of_groups():
    frame = pl.DataFrame(ROWS).with_columns(as_text(pl.col("relevant")))
    with pytest.raises(rankql.RankqlError, match="relevant has lists of lists"):
        rankql.evaluate(frame, metrics="RR")
    text = frame.with_columns(pl.col("relevant").str.replace_all('"', "'"))
    with pytest.raises(rankql.RankqlError, match=r"relevant must be JSON, not such as \"\[\['x'"):
        rankql.evaluate(text, metrics="RR", groups="any")


def test_the_other_functions_read_groups_or_say_why_not():
    findings = rankql.check(pl.DataFrame(ROWS), groups="any").findings
    assert not [x for x in findings if x.level == "error"]
    for name, value in {"groups": "any", "forbidden": "bad"}.items():
        with pytest.raises(rankql.RankqlError, match=f"funnel has no option {name}="):
            rankql.funnel({"one": pl.DataFrame(ROWS)}, **{name: value})


@few(2)("metric", ["R@2", "AP", "nDCG@2", "P@2", "F1@2", "AllRel(rel=2)@2"])
def test_metrics_that_count_items_are_refused(metric):
    with pytest.raises(rankql.RankqlError, match="counts items, but with groups='any' one item"):
        rankql.evaluate(pl.DataFrame(ROWS), metrics=metric, groups="any")


test_what_it_refuses = refuses("groups", globals(), "rankql.%s")


def test_compare_and_gate_take_it():
    frame = pl.DataFrame(ROWS)
    reverse = frame.with_columns(pl.col("retrieved").list.reverse())
    runs = {"a": frame, "b": reverse}
    pair = rankql.compare(runs, metrics="group_recall@1", groups="any").pairs.row(0, named=True)
    assert pair["mean_a"] == pytest.approx(0.5)
    verdict = rankql.gate(frame, minimum="AllRel@2>=0.4", groups="any", min_queries=1)
    assert verdict.passed and verdict.table["mean"][0] == pytest.approx(0.4)
