"""Metrics of a share of queries: all relevant items are shown (AllRel), nothing forbidden is."""

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few
from support.refusals import refuses

QRELS = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "c", "c", "d", "e"],
        "item": ["x", "y", "x", "x", "y", "z", "x", "x"],
        "rel": [1, 1, 1, 1, 1, 1, 0, 1],
    }
)
RUN = pl.DataFrame(
    {
        "query": ["a", "a", "b", "b", "c", "c", "d"],
        "item": ["x", "y", "w", "x", "x", "y", "x"],
        "score": [2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0],
    }
)


def test_all_relevant_items_are_shown():
    """The run lacks e, which counts 0; d has no relevant item; c has three for two positions."""
    result = rankql.evaluate(RUN, QRELS, ["AllRel@2", "AllRel@1", "AllRel"], interval=None)
    columns = result.per_query.sort("query")
    assert columns["AllRel@2"].to_list() == [1, 1, 0, None, 0]
    assert columns["AllRel@1"].to_list() == [0, 0, 0, None, 0]
    assert result["AllRel"] == 2 / 4
    assert "AllRel@2 is 0 for 1 of 5 queries, which has more than 2 relevant items" in result.notes
    assert not any(note.startswith("AllRel is 0") for note in result.notes)


def test_a_question_without_evidence_counts_1_in_longmemeval():
    result = rankql.evaluate(RUN, QRELS, "AllRel@2", undefined="one", interval=None)
    assert result["AllRel@2"] == 3 / 5
    assert rankql.evaluate(RUN, QRELS, "AllRel@2", negative="unjudged")["AllRel@2"] == 2 / 4


def test_its_interval_is_that_of_a_share():
    qrels = pl.DataFrame({"query": range(40), "item": 1, "rel": 1})
    run = qrels.select("query", item=1 + (pl.col("query") % 4 == 0), score=1.0)
    result = rankql.evaluate(run, qrels, ["AllRel@1", "Success@1"])
    ends = result.summary.select("mean", "lo", "hi").rows()
    assert ends[0] == ends[1] and ends[0][0] == 0.75


LISTS = pl.DataFrame(
    {
        "question": ["a", "b", "c", "d"],
        "retrieved": [["x", "y", "z"], ["y", "w"], [], ["v", "x"]],
        "relevant": [["x"], ["w"], ["v"], ["v"]],
        "must_not_retrieve": [["z"], ["q", None], ["x"], [None]],
    }
)
OTHERS = ["nDCG@5", "Bpref", "infAP", "Judged@5", "n = count(*)"]


def forbidden_values(*tables, **options):
    result = rankql.evaluate(*tables, "Forbidden@5", interval=None, **options)
    return result.per_query["Forbidden@5"].to_list()


def test_forbidden_lists_are_read_for_forbidden_alone():
    """In c nothing is retrieved, in d nothing is forbidden: an id that is NULL is none."""
    option = {"forbidden": "must_not_retrieve"}
    judged, run = LISTS.drop("retrieved"), LISTS.select("question", "retrieved")
    numbers = LISTS.with_columns(
        pl.col("retrieved", "relevant").list.eval(pl.element().replace_strict(
            {x: i for i, x in enumerate("vwxyz")}, return_dtype=pl.Int64)),
        pl.col("must_not_retrieve").list.eval(
            pl.element().replace_strict({"z": "4", "q": "9", "x": "2"}, default=None)),
    )  # fmt: skip
    names = ["Forbidden@5", "Forbidden@2"]
    result = rankql.evaluate(LISTS, metrics=names, interval=None, **option)
    assert result.per_query.select(names).rows() == [(1, 0), (0, 0), (0, 0), (None, None)]
    assert forbidden_values(numbers, None, **option) == [1, 0, 0, None]
    plain = rankql.evaluate(run, judged, OTHERS, interval=None)
    marked = rankql.evaluate(run, judged, [*OTHERS, names[0]], interval=None, **option)
    assert plain.per_query.equals(marked.per_query.drop(names[0]))
    assert marked.per_query[names[0]].to_list() == [1, 0, 0, None]
    assert "forbidden = must_not_retrieve" in repr(result)
    assert "forbidden_at(rel, pos, 5)" in result.sql.rpartition(";")[2]


def test_an_unread_list_of_forbidden_items_is_named_with_the_call():
    result = rankql.evaluate(LISTS, metrics="Forbidden@5")
    assert "not read: must_not_retrieve" in repr(result)
    assert any("pass forbidden='must_not_retrieve'" in note for note in result.notes)
    assert result.per_query["Forbidden@5"].null_count() == 4


def flagged(shown):
    """Rankings of 40 queries with a forbidden item at position 3, or another one there."""
    run = pl.DataFrame({"query": range(40)}).join(pl.DataFrame({"pos": range(1, 6)}), how="cross")
    item = pl.col("pos") if shown else pl.col("pos") + 100 * (pl.col("pos") == 3)
    return run.with_columns(item=item)


def forbidding():
    """Item 1 is relevant, item 3 is forbidden and has no grade."""
    rows = flagged(True).filter(pl.col("pos").is_in([1, 2, 3]))
    grade = pl.when(pl.col("pos") == 3).then(None).otherwise(pl.col("pos") == 1).cast(pl.Int64)
    return rows.select("query", "item", rel=grade, withdrawn=pl.col("pos") == 3)


@few(1)("ties", ["item", "expected", "best", "worst"])
def test_a_gate_tells_two_runs_apart_that_no_other_metric_distinguishes(ties):
    option = {"forbidden": "withdrawn", "ties": ties}
    means = []
    for shown in (True, False):
        run = flagged(shown).select("query", "item", score=-pl.col("pos"))
        if ties == "item":
            verdict = rankql.gate(run, forbidding(), minimum={"Forbidden@5": 0}, **option)
            assert verdict.passed is not shown
        names = ["nDCG@5", "Judged@5", *(["Bpref", "infAP"] if ties == "item" else [])]
        result = rankql.evaluate(run, forbidding(), [*names, "Forbidden@5"], **option)
        assert result["Forbidden@5"] == float(shown)
        means.append([result[name] for name in names])
    assert means[0] == means[1]


def test_tied_forbidden_items_are_expected_best_and_worst():
    run = flagged(True).select("query", "item", score=0.0)
    values = {
        ties: rankql.evaluate(run, forbidding(), "Forbidden@2", forbidden="withdrawn", ties=ties)
        for ties in ("expected", "best", "worst")
    }
    means = [round(result["Forbidden@2"], 12) for result in values.values()]
    assert means == [2 / 5, 0, 1]


def test_a_flag_in_several_runs_is_that_of_the_judgments():
    run = {"a": flagged(True), "b": flagged(False)}
    result = rankql.evaluate(
        run, forbidding(), ["Forbidden@3", "Forbidden@2"], forbidden="withdrawn"
    )
    means = result.summary.select("system", "metric", "mean").rows()
    assert [mean for *_, mean in means] == [1, 0, 0, 0]


GRADED = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "e"],
        "item": ["x", "y", "x", "x", "x"],
        "rel": [1, -1, -1, 1, -2],
    }
)


@few(1)(("negative", "missing"), [("zero", "skip"), ("keep", "zero"), ("unjudged", "zero")])
def test_grades_below_0_are_read_whatever_negative_is(negative, missing):
    """The run lacks e, which shows nothing; c has no forbidden item."""
    options = {"negative": negative, "missing": missing}
    assert forbidden_values(RUN, GRADED, **options) == [1, 1, None, 0]
    both = rankql.evaluate(RUN, GRADED, ["R@5", "leak@1", "leak_rate@2"], **options)
    assert both.per_query["leak@1"].to_list() == [0, 0, None, 0] and both["leak_rate@2"] == 2 / 3
    if negative == "zero":
        assert rankql.evaluate(RUN, GRADED, ["infAP", "Forbidden@1"])["Forbidden@1"] == 0


def test_negative_error_stays_one_and_a_profile_hides_none():
    with pytest.raises(rankql.RankqlError, match="rel must not be negative"):
        rankql.evaluate(RUN, GRADED, "Forbidden@5", conventions="sklearn")
    assert rankql.evaluate(RUN, GRADED, "Forbidden@5", conventions="trec_eval")["Forbidden@5"] > 0


def test_queries_are_not_left_out_for_lack_of_a_relevant_item():
    values, dropped = (
        rankql.evaluate(RUN, GRADED, ["P@1", "Forbidden@5"], negative="unjudged", **options)
        for options in ({}, {"undefined": "drop"})
    )
    assert values.per_query["Forbidden@5"].equals(dropped.per_query["Forbidden@5"])
    assert not any("Forbidden" in note for note in values.notes)


def test_a_gate_fails_if_nothing_was_checked():
    run = flagged(True).select("query", "item", score=-pl.col("pos"))
    verdict = rankql.gate(run, forbidding().drop("withdrawn"), minimum={"Forbidden@5": 0})
    assert not verdict.passed and "none of 40 queries has a value" in verdict.table["message"][0]


TEXT = "i" + pl.col("item").cast(str)
NAMED, FLAGS = flagged(True).select("query", item=TEXT, score="pos", rel=1), forbidding()
CALL = {"qrels": FLAGS.with_columns(item=TEXT), "metrics": "Forbidden@5"}
test_what_forbidden_refuses = refuses(
    "forbidden", globals(), "rankql.evaluate(NAMED, **CALL | dict(%s))"
)


def test_forbidden_on_the_command_line(tmp_path):
    LISTS.write_parquet(tmp_path / "lists.parquet")
    call = ["eval", str(tmp_path / "lists.parquet"), "-m", "Forbidden@5"]
    done = CliRunner().invoke(main, [*call, "--forbidden", "must_not_retrieve", "--format", "json"])
    assert done.exit_code == 0 and '"mean":0.333' in done.output.replace(" ", ""), done.output


def test_lists_are_compared_by_bytes_whatever_the_collation_is():
    con = duckdb.connect(config={"default_collation": "nocase"})
    con.execute(
        "CREATE TABLE lists (query VARCHAR, retrieved VARCHAR[], relevant VARCHAR[], bad VARCHAR[])"
    )
    con.execute(
        "INSERT INTO lists VALUES ('a', ['X', 'x'], ['X'], ['x']), ('A', ['x', 'Y'], ['x'], ['X'])"
    )
    result = rankql.evaluate(
        "lists", metrics=["Forbidden@1", "Forbidden@2"], con=con, forbidden="bad"
    )
    values = {row[0]: row[1:] for row in result.per_query.rows()}
    assert values == {"a": (0, 1), "A": (0, 0)}
