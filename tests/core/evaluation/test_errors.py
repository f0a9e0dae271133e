"""Errors of `evaluate`: each names what is wrong."""

import math
import re

import duckdb
import numpy as np
import polars as pl
import pytest

import rankql
from support import metric_engines, signatures
from support.parameters import cycled, few
from support.refusals import refuses
from support.samples import QRELS, RUN


@few(3)(
    ("name", "text", "message"),
    [
        ("x.run", "q1 Q0 d1 1 2.0 t\nq1 Q0 d2\n", "has a line without 6 columns: 'q1 Q0 d"),
        ("x.run", "q1 Q0 d1 1 2 t\nq1 Q0 d 2 1 2 t\n", "has a line without 6 columns: 'q1 Q0 d"),
        ("x.run", "only three columns\n", r"TREC \(4 or 6 columns; its first line has 3\)"),
        ("x.csv", "query,item,score\nq1,a,2\nq2,a,1,9\n", "its lines have different numbers of"),
        ("x.csv", "query;item;score\nq1;a;2\nq1;b\n", "its lines have different numbers of values"),
        ("x.csv", "query,item,score\n" + "q,a,1\n" * 30_000 + "q,a,1,9\n", "Line: 30002, Expected"),
        ("x.csv", "q1,a,2\nq1,b,3\nq2,a,1\n", "No query column in run"),
        ("x.csv", "query\na,\nb,\n", "No item column in run"),
        ("x.csv", 'doc\n{"a": 1, "b": 2}\n', "No query column in run"),
        ("x.csv", "query,item,score\nq1,a,1.5\nq1,b,high\n", "score must be a number, not high"),
    ],
)
def test_lines_that_cannot_be_right(tmp_path, name, text, message):
    """DuckDB guesses that the first line is no header, or names the line without the reason."""
    (tmp_path / name).write_text(text)
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(tmp_path / name, QRELS, "AP")


PLACED = RUN.drop("score").with_columns(pos=1)


def graded(level):
    """A ranked table with this grade."""
    return pl.DataFrame({"query": "q", "rel": [level, 1], "pos": [1, 2]})


test_calls = refuses("evaluate", globals(), "rankql.%s", light=9)
test_metrics = refuses("metrics", globals(), "rankql.%s", light=8)


@pytest.mark.parametrize("column", ["score", "pos", "rel"])
def test_nan_in_parquet(tmp_path, column):
    """Whose statistics leave NaN out: DuckDB 2.0 answers isnan() and comparisons from them."""
    rows = {"query": ["q"] * 3, "item": ["a", "b", "c"], "rel": [1.0, 0.0, 1.0]}
    rows |= {"score" if column == "rel" else column: [3.0, 2.0, 1.0]}
    rows[column][1] = float("nan")
    pl.DataFrame(rows).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(rankql.RankqlError, match=f"{column} must be a .*number.*, not nan"):
        rankql.evaluate(tmp_path / "x.parquet", metrics="RR")
    con = metric_engines.connection()
    call = "rr(rel, pos)" if column == "pos" else "rr_by_score(rel, score, item)"
    with pytest.raises(duckdb.Error, match=f"{column} must be a .*number.*, not nan"):
        con.sql(f"SELECT {call} FROM '{tmp_path}/x.parquet' GROUP BY query").fetchall()


def test_a_decimal_comma_is_named_with_the_call_that_reads_it(tmp_path):
    """A CSV file of a German, Spanish or Polish spreadsheet."""
    path = tmp_path / "run.csv"
    path.write_text("suche;artikel;punkte\nq;a;0,5\nq;b;1,25\n")
    judged = pl.DataFrame({"suche": ["q"], "artikel": ["a"], "rel": [1]})
    names = {"query": "suche", "item": "artikel", "score": "punkte"}
    with pytest.raises(rankql.RankqlError, match="not 0,5") as error:
        rankql.evaluate(path, judged, "RR", **names)
    assert "comma is a decimal point, pass\n    score=" in str(error.value)
    (call,) = error.value.remedies
    assert rankql.evaluate(path, judged, "RR", **names | call)["RR"] == 0.5
    path.write_text("suche;artikel;punkte\nq;a;1.000,5\nq;b;2\n")  # not read by that call
    with pytest.raises(rankql.RankqlError, match=r"must be a number, not 1\.000,5$"):
        rankql.evaluate(path, judged, "RR", **names)


@few(8)("metric", signatures.RANKING)
def test_every_macro_refuses_nan_in_parquet(metric, tmp_path):
    """Whose statistics have 1 as the only grade."""
    rows = {"rel": [1.0, math.nan, 1.0], "pos": [1, 2, 3]}
    pl.DataFrame(rows).write_parquet(tmp_path / "x.parquet")
    call = metric_engines.call(metric, ["rel", "pos"], {**signatures.REQUIRED.get(metric, {})})
    with pytest.raises(duckdb.Error, match="rel must be a finite number, not nan"):
        metric_engines.connection().sql(f"SELECT {call} FROM '{tmp_path}/x.parquet'").fetchall()


def test_control_characters_reach_no_terminal():
    """A line of its own would be a command in a log of CI, ESC one to a terminal."""
    runs = {"old": RUN, "new\n::error::\x1b[2J": RUN}
    for function in (rankql.evaluate, rankql.compare, rankql.check):
        options = {} if function == rankql.check else {"metrics": "RR@2"}
        printed = repr(function(runs, QRELS, **options))
        assert "\x1b" not in printed
        assert not any(line.startswith("::") for line in printed.splitlines())
        assert function == rankql.check or "new\\n::error::\\x1b[2J" in printed


@pytest.mark.report
def test_control_characters_reach_no_page_and_no_sentence(tmp_path):
    odd = "\x1b[31m\x07\u202e"
    run = RUN.with_columns(query=pl.format("{}" + odd, "query"), item=pl.format("{}" + odd, "item"))
    qrels = QRELS.with_columns(query=pl.format("{}" + odd, "query"))
    qrels = qrels.with_columns(item=pl.format("{}" + odd, "item"), part=pl.lit(odd))
    compared = rankql.compare({f"new{odd}": run, "old": run}, qrels, "RR@2", by="part")
    results = [
        compared,
        rankql.evaluate(run, qrels, "RR@2", by="part"),
        rankql.explain(run, qrels, run["query"][0], "RR@2"),
        rankql.explain(run, qrels, metric="RR@2"),
        rankql.funnel({f"first{odd}": run, "second": run}, qrels, k=2),
    ]
    pages = [result._repr_html_() for result in results]
    compared.save(tmp_path / "a.html")
    report = re.sub("<script.*?</script>", "", (tmp_path / "a.html").read_text(), flags=re.DOTALL)
    for words in [report, *pages, *(line for result in results for line in result.sentences)]:
        assert not {*odd} - {*"[31m"} & {*words}
    assert all(r"\x1b[31m\x07\u202e" in page for page in (report, *pages))


def test_grades_whose_sum_overflows():
    run = pl.DataFrame({"query": "a", "item": [*"xyz"], "pos": [1, 2, 3], "rel": 1e308})
    with pytest.raises(rankql.RankqlError, match=r"not 1e\+308. It is at most 1e302"):
        rankql.evaluate(run, metrics="nDCG@3")
    for metric, rel, value in (("CG", 1e302, r"3e\+302"), ("DCG@1", 1e200, r"1e\+200")):
        message = f"^metrics: {metric} is {value} for query 'a', but must be a finite number"
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.evaluate(run.with_columns(rel=rel), metrics=metric)


@few(2)("metrics", ["nDCG@10", "map", ["nDCG@10", "AP"], ("RR",), ["own = sum(rel)"]])
def test_metrics_in_the_place_of_qrels(metrics, tmp_path):
    path = tmp_path / "log.parquet"
    RUN.join(QRELS, on=["query", "item"]).write_parquet(path)
    message = "metrics is the third argument. Pass metrics="
    with pytest.raises(rankql.RankqlError, match=re.escape(f"{message}{metrics!r}")):
        rankql.evaluate(path, metrics)


@few(2)(
    ("make", "group"), cycled([list, tuple, np.array, pl.Series], [[], [[0, 0, 1]], [[0, 0, 1]]])
)
def test_arrays_of_labels_and_scores_are_asked_for_as_a_frame(make, group):
    """The frame that the error shows is read."""
    labels, scores = make([0, 1, 1]), make([0.3, 0.2, 0.9])
    with pytest.raises(rankql.RankqlError, match="not arrays of labels and scores") as error:
        rankql.evaluate(labels, scores, *map(make, group))
    code = re.search(r"pl\.DataFrame\(.*?\}\)", str(error.value))[0]
    names = {"pl": pl, "group": [0, 0, 1], "y_true": labels, "y_score": scores}
    assert rankql.evaluate(eval(code, names), None, "RR")["RR"] == 0.75


@pytest.mark.parametrize(
    ("form", "columns"),
    cycled(["polars", "pandas", "arrow", "csv"], [["query", "item"], ["query", "item", "rel"]]),
)
def test_empty_judgments_of_any_form_are_named(form, columns, tmp_path):
    """Also without a column of grades, where each row is one."""
    empty = QRELS.clear().select(columns)
    empty.write_csv(tmp_path / "qrels.csv")
    forms = {"polars": empty, "pandas": empty.to_pandas(), "arrow": empty.to_arrow()}
    with pytest.raises(rankql.RankqlError, match=r"^qrels is empty: it has no rows$"):
        rankql.evaluate(RUN, forms.get(form, tmp_path / "qrels.csv"), "RR")


def test_grades_below_the_threshold_are_no_silent_0():
    """Every P@5 would be 0. A metric that says its scale reads such grades."""
    table = pl.DataFrame({"query": "q", "pos": [1, 2], "rel": [0.25, 0.5]})
    message = "^P@5 would be 0: the highest grade is 0.5, below the threshold 1. Pass a lower"
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(table, None, "P@5")
    assert rankql.evaluate(table, None, "P@5", threshold=0.5)["P@5"] == 0.2
    assert rankql.evaluate(table, None, "ERR(max_rel=1)@5", interval=None)["ERR(max_rel=1)@5"] > 0


def test_one_pair_of_ids_in_another_case_is_shown():
    """With the call that makes them alike."""
    with pytest.raises(rankql.RankqlError, match="such as 'D1' and 'd1'") as error:
        rankql.evaluate({"q": ["D1", "D2"]}, {"q": {"d1": 1}}, "RR")
    assert error.value.calls == [{"item": "lower(item)"}]
