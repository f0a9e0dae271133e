"""Errors of `evaluate`: each names what is wrong."""

import ast
import math
import re

import duckdb
import numpy as np
import polars as pl
import pytest

import rankql
from support import metric_engines, signatures
from support.parameters import cycled, few
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


def change(**columns):
    """The run with other values in a column."""
    return RUN.with_columns(**{name: pl.lit(value) for name, value in columns.items()})


PLACED = RUN.drop("score").with_columns(pos=1)


def graded(level):
    """A ranked table with this grade."""
    return pl.DataFrame({"query": "q", "rel": [level, 1], "pos": [1, 2]})


# Arguments of evaluate, and words of the error.
DATA = [  # what is wrong in the values is in cases/faults.toml
    ("no.parquet", QRELS, {}, "run: file 'no.parquet' does not exist"),
    ("", QRELS, {}, "run must be a path, a table, a relation or a frame, not an empty text"),
    (3, QRELS, {}, "run must be a path, a table, a relation or a frame, not int"),
    ({}, QRELS, {}, "A dict of runs must map at least one name"),
    ({"a": RUN, "b": change(query="z")}, QRELS, {}, "No query of run 'b' is judged"),
    ({"q": [*"aba"]}, {"q": ["b"]}, {}, "run has duplicates: query 'q', item 'a'.*collapse="),
    (RUN.rename({"item": "thing"}), QRELS, {}, "No item column in run: expected .*item='thing'"),
    (RUN, QRELS, {"query": ("query", "q")}, "query='q': no column of that name in qrels"),
    (RUN, QRELS, {"query": ["", "q"]}, "'q'. has an empty name"),
    (RUN, QRELS, {"item": ["item"]}, "a pair names the columns of run"),
    (RUN, QRELS, {"item": ""}, "item='' has an empty name"),
    (RUN, QRELS, {"attribute": "x"}, "'attributes'"),
    (RUN, QRELS, {"k": 10}, "nDCG@10"),
    (RUN, QRELS, {"score": "score + 1", "by": "z"}, r"Available: query, item, rel, score$"),
    (RUN, QRELS, {"by": "segmnt"}, "by='segmnt': no column of that name in "),
    (RUN, QRELS, {"by": "query"}, "by='query' is the column of the queries"),
    (RUN, QRELS, {"by": ["a", 1]}, "by must be names of columns, or lists"),
    (RUN, QRELS, {"by": 5}, "by must be names of columns"),
    (RUN, QRELS, {"system": "model"}, "system='model': no column of that name in run"),
    (RUN, QRELS, {"system": 5}, "system must be the name of a column"),
    (RUN, QRELS, {"cluster": 5}, "cluster must be the name of a column"),
    (RUN, QRELS, {"output": 5}, "output must be the path of a file, not 5"),
    (RUN, QRELS, {"output": "x.csv"}, "'x.csv' must end in one of: .parquet"),
    (RUN, QRELS, {"ties": "bets"}, "ties must be 'item', 'order', 'expected', 'best' or"),
    (RUN, QRELS, {"gain": "exp"}, "gain must be 'linear', 'exp2', 'binary' or a dict"),
    (RUN, QRELS, {"gain": {}}, "gain is an empty dict"),
    (RUN, QRELS, {"threshold": "2"}, "threshold must be a finite number, not the text '2'"),
    (RUN, QRELS, {"discounts": [1, 0]}, "discounts must be a list of finite numbers above 0"),
    (RUN, QRELS, {"conventions": "trec"}, "Unknown profile 'trec'. Did you mean 'trec_eval'"),
    (RUN, QRELS, {"conventions": ["a"]}, "Unknown profile"),
    (RUN, QRELS, {"interval": "z"}, "interval must be"),
    (RUN, QRELS, {"confidence": 95}, "confidence must lie between 0 and 1, not 95"),
    (RUN, QRELS, {"ties": "best", "gain": {0: 0, 1: 3, 2: 1, 3: 4}}, "gains must rise with"),
    (RUN, QRELS, {"ties": "worst", "discounts": [2.0, 1.0]}, "and discounts with the position"),
    (graded(5), None, {"metrics": ["ERR(max_rel=3)", "ERR(max_rel=9)"]}, "max_rel=3 is below the"),
    (graded(5), None, {"metrics": "RBP(p=0.8, max_rel=3)"}, "below the highest grade, 5"),
    (graded(5), None, {"metrics": "ERR(stop=rel)"}, "rel must lie between 0 and 1 for stop 'rel'"),
    (graded(1001), None, {"metrics": "nDCG(gain=exp2)"}, "overflows for grade 1001"),
]
METRICS = [
    (None, {}, "metrics must be names such as"),
    ([], {}, r"metrics must be names such as 'nDCG@10', not \[\]"),
    ([3], {}, "A metric must be a name"),
    ("nDGC@10", {}, "Unknown metric 'nDGC'. Did you mean 'nDCG'"),
    ("coverage@10", {}, "needs the items that could be shown. Pass train="),
    ("Freshness@10", {}, r"evaluate does not compute 'Freshness'. Call freshness\(\)"),
    ("ndcg10", {}, "Did you mean 'nDCG'"),
    ("MAP@R", {}, "k must be a whole number from 1 to 9007199254740992, not R"),
    ("context_recall", {}, "by a model. The closest in rankql: R@k"),
    ("P@0", {}, "k must be a whole number from 1 to 9007199254740992, not 0"),
    ("P@ten", {}, "k must be a whole number from 1 to 9007199254740992, not ten"),
    (f"P@{2**53 + 1}", {}, "k must be a whole number from 1 to 9007199254740992, not 90071992547"),
    ("Rprec@5", {}, "Rprec has no cutoff"),
    ("nDCG(k=1)@10", {}, "the cutoff is given twice"),
    ("P(rel=1, rel=2)@10", {}, "threshold must have one value"),
    ("P(rel=x)@5", {}, "threshold must be a finite number, not the text 'x'"),
    ("P(foo=1)@5", {}, "P has no option 'foo'"),
    ("P(denominator=R)@5", {}, "denominator must be 'k', 'retrieved' or 'min', not R"),
    ("microP(denominator=found)@5", {}, "denominator must be 'k', 'retrieved' or 'min', not"),
    ("RBP@5", {}, "p must be given"),
    ("AP", {"undefined": "error"}, "undefined='error'"),
    ("AP", {"missing": "error"}, "missing='error'"),
    ("RBP(p=1)@5", {}, "p must lie between 0 and 1, not 1"),
    ("ERR(stop=rel, max_rel=4)", {}, "max_rel is for stop 'exp2', not for 'rel'"),
    ("ERR@5", {"ties": "expected"}, "ties 'expected' is not available for err"),
    ("DCG@9", {"discounts": [1, 2]}, "discounts has 2 entries, but position"),
    (["x = 1", "x = 2"], {}, "Two metrics are called 'x'"),
    (["x = max(rel)", "X = min(rel)"], {}, "Two columns of the result would be called 'X'"),
    ("AP = 1", {}, "'AP' is the name of a metric of rankql"),
    ("x = foo(rel)", {}, "foo"),
    ("x = rbp(rel, pos, p := 2)", {}, "p must lie between 0 and 1"),
]
CALLS = [
    (lambda: rankql.evaluate(PLACED, QRELS, "RMSE"), "RMSE compares grades with scores"),
    (lambda: rankql.evaluate(RUN, QRELS)["nDCG@5,10"], "'nDCG@5,10' was not evaluated"),
    (lambda: rankql.compare({"a": RUN, "b": RUN}, QRELS, k=10), "nDCG@10"),
    (lambda: rankql.compare({"a": RUN, "b": RUN}, QRELS, attribute="x"), "'attributes'"),
    (lambda: rankql.gate(QRELS, RUN, minimum="AP>=0.1"), "The run comes first"),
    (lambda: rankql.combine([3]), "3 is neither a result nor a file with values"),
    (lambda: rankql.gate(RUN, minimum="x>=1", baseline="x" * 5000), "Unknown metric 'x'"),
    *((lambda a=a: rankql.evaluate(*a[:2], **a[2]), a[3]) for a in DATA),
    *((lambda a=a: rankql.evaluate(RUN, QRELS, a[0], **a[1]), a[2]) for a in METRICS),
]


@few(19)(("call", "message"), CALLS)
def test_errors(call, message):
    with pytest.raises(rankql.RankqlError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("column", ["score", "pos", "rel"])
def test_nan_in_parquet(tmp_path, column):
    """Whose statistics leave NaN out: DuckDB 2.0 answers isnan() and comparisons from them."""
    rows = {"query": ["q"] * 3, "item": ["a", "b", "c"], "rel": [1.0, 0.0, 1.0]}
    rows |= {"score" if column == "rel" else column: [3.0, 2.0, 1.0]}
    rows[column][1] = float("nan")
    pl.DataFrame(rows).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(rankql.RankqlError, match=f"{column} must be a .*number.*, not nan"):
        rankql.evaluate(tmp_path / "x.parquet", metrics="RR")
    con = metric_engines.connect()
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
    score = ast.literal_eval(str(error.value).partition("comma is a decimal point, pass score=")[2])
    assert rankql.evaluate(path, judged, "RR", **names | {"score": score})["RR"] == 0.5
    path.write_text("suche;artikel;punkte\nq;a;1.000,5\nq;b;2\n")  # not read by that call
    with pytest.raises(rankql.RankqlError, match=r"must be a number, not 1\.000,5$"):
        rankql.evaluate(path, judged, "RR", **names)


def test_every_macro_refuses_nan_in_parquet(tmp_path):
    """Whose statistics have 1 as the only grade."""
    rows = {"rel": [1.0, math.nan, 1.0], "pos": [1, 2, 3]}
    pl.DataFrame(rows).write_parquet(tmp_path / "x.parquet")
    con = metric_engines.connect()
    for metric in signatures.RANKING:
        call = metric_engines.call(metric, ["rel", "pos"], {**signatures.REQUIRED.get(metric, {})})
        with pytest.raises(duckdb.Error, match="rel must be a finite number, not nan"):
            con.sql(f"SELECT {call} FROM '{tmp_path}/x.parquet'").fetchall()


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


@pytest.mark.parametrize(
    "metrics", ["nDCG@10", "map", ["nDCG@10", "AP"], ("RR",), ["own = sum(rel)"]]
)
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
