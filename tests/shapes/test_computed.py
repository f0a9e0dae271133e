"""Columns by SQL expressions, keys of several columns, and their errors."""

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import cycled, few
from support.reading import read, refused
from support.samples import written

# Positions from 0, ratings, ids with a variant, and sessions of users.
KEYS = {"user": ["1", "1", "1,"], "session": ["2", "3", "2"]}
RUN = pl.DataFrame(
    {"query": ["a", "a", "b"], "item": ["X#1", "y#2", "X#3"], "position": [0, 1, 0], **KEYS}
)
QRELS = pl.DataFrame(
    {"query": ["a", "a", "b"], "docno": ["x", "y", "x"], "rating": [3, 5, 4], **KEYS}
)
ITEM = ("lower(split_part(item, '#', 1))", "docno")


@pytest.fixture(params=["frame", "csv", "table"])
def data(request, tmp_path):
    """Both tables: typed, as files without types, and in a database."""
    run, con = written(RUN, request.param, tmp_path, "run")
    qrels, con = written(QRELS, request.param, tmp_path, "qrels", con)
    return {"run": run, "qrels": qrels} | ({"con": con} if con else {})


@pytest.mark.few(1)
def test_columns_are_expressions(data):
    """By hand: y is second for a, x first for b; with the threshold 4, x is not relevant for a."""
    options = data | {"pos": "position + 1", "item": ITEM}
    result = read(rel="CAST(rating >= 4 AS INT)", **options)
    assert result.values() == {"a": 0.5, "b": 1}
    assert result.columns["run"]["pos"] == "position + 1"
    assert read(rel="rating / 2", **options).values("DCG@1") == {"a": 1.5, "b": 2}
    assert read(metrics="RR", score="-position", item=ITEM, rel="1", **data)["RR"] == 1
    assert rankql.check(**options, rel="rating - 2").passed
    assert read(metrics="RR", rel="rating - 3", **options)["RR"] == 0.75
    assert rankql.explain(of="a", metric="RR", rel="rating - 3", **options).value == 0.5


@pytest.mark.few(1)
def test_an_exact_name_wins(data):
    for name in ("position + 1", "Position + 1"):
        run = RUN.with_columns(pl.Series(name, [3, 4, 5]))
        result = read(run, QRELS, pos="position + 1", item=ITEM)
        assert result["RR"] == pytest.approx((1 / 3 + 1 / 5) / 2)


@pytest.mark.few(1)
def test_keys_have_several_columns(data):
    """The key of 'b' is written so that no other key can be the same."""
    options = data | {"metrics": "RR", "pos": "position + 1", "item": ITEM, "rel": "rating - 3"}
    about = pl.DataFrame({"user": ["1", "1"], "session": ["2", "3"], "device": ["tv", "pc"]})
    if "con" not in data:
        options |= {"attributes": about, "by": "device"}
    for query in (["user", "session"], [["user", "session"]] * 2):
        result = rankql.evaluate(query=query, **options)
        rows = result.per_query.select("user, session", "RR").rows()
        assert rows == [("1, 2", None), ("1, 3", 0.5), ("1,,, 2", 1.0)]
        if "con" not in data:
            assert result.per_query["device"].to_list() == ["tv", "pc", None]
    ranked = RUN.with_columns(rel=pl.Series([0, 1, 1]))
    result = rankql.evaluate(ranked, metrics="RR", query=["user", "session"], pos="position + 1")
    assert result["RR"] == 0.75 and result.meta.query == "user, session"


def test_two_names_that_may_be_a_key_or_a_pair_are_asked_about():
    run = pl.DataFrame({"uid": [1, 2], "day": [1, 1], "item": ["a", "b"], "score": [1, 1]})
    qrels = run.rename({"uid": "user", "score": "rel"})
    both = r"^query=\['uid', 'day'\] may be one key or a pair"
    refused(run, qrels, query=["uid", "day"], match=both)
    for query, height in (([["uid", "day"], ["user", "day"]], 2), ([["uid"], ["day"]], 1)):
        assert len(read(run, qrels, query=query).values()) == height


def test_two_names_are_a_pair_unless_all_tables_have_both():
    run = RUN.rename({"query": "qid"})
    options = {"pos": "position + 1", "item": ITEM}
    for each in (run, run.with_columns(query=pl.lit("red shoe"))):
        assert read(each, QRELS, query=["qid", "query"], **options)["RR"] == 1
    options["query"] = ["qid", "user", "query"]
    refused(run, QRELS, **options, match="^query='query': no column of that name in run")


SCALAR = "must be one SQL expression of the columns of a row"


@few(6)(
    ("options", "message"),
    [
        ("place", r"^pos='place': no column of that name in run and qrels. Available: query, "),
        ("place + 1", r"in run, and not an SQL expression of its columns \(Referenced column"),
        ("position +", "is not valid SQL: syntax error"),
        ("position; DROP TABLE run", "is not valid SQL: syntax error"),
        ("1); DROP TABLE run; SELECT (1", r"is not valid SQL: Only SELECT"),
        ("1), (2", SCALAR),
        ("1) FROM run WHERE (true", SCALAR),
        ("1) UNION SELECT (2", SCALAR),
        ("1) ORDER BY (2", SCALAR),
        ("(SELECT 1)", SCALAR),
        ("position IN (SELECT 1)", SCALAR),
        ("position + ?", SCALAR),
        ("max(position)", r"\(WHERE clause cannot contain aggregates\). Available: query"),
        ("row_number() OVER ()", "without a subquery, a window function"),
        ("COLUMNS(*)", r"\(it has many columns\)"),
        ("*", r"not an SQL expression"),
        ("position, 1", r"^run: position, 1 must be a number, not "),
        ("item || '1'", r"^run: item \|\| '1' must be a number, not text. Cast it first"),
        ("position", r"counts from 0 .* the top: add 1. Pass: pos='position \+ 1'"),
        ("position - 1", r"^run: position - 1 must be a whole number from 1, not -1"),
        ({"item": "lower(item)"}, r"in qrels, and not an SQL expression .*\"item\""),
        ({"rel": 1}, "^rel must be a column or an SQL expression in quotes, n"),
    ],
)
def test_texts_that_are_not_an_expression_are_refused(options, message):
    if isinstance(options, str):
        options = {"pos": options, "item": ITEM}
    refused(RUN, QRELS, **options, match=message)


def test_macros_of_the_user_are_expressions_too():
    con = duckdb.connect()
    con.execute("CREATE TEMP MACRO place(x) AS x + 1")
    con.execute("CREATE TABLE run AS FROM RUN; CREATE TABLE qrels AS FROM QRELS")
    result = read("run", "qrels", "P@1", pos="place(position)", item=ITEM, con=con)
    assert result["P@1"] == 1


@pytest.mark.slow
@few(1)("rel", ["buy = 3, click=.5", "event=buy:3,click:0", "CAST(event = 'buy' AS INT)"])
def test_options_of_commands_are_expressions(rel, tmp_path):
    RUN.write_csv(tmp_path / "run.csv")
    events = QRELS.select("query", *KEYS, item="docno", event=pl.Series(["click", "buy", "buy"]))
    events.write_csv(tmp_path / "qrels.csv")
    paths = [str(tmp_path / name) for name in ("run.csv", "qrels.csv")]
    item = "lower(split_part(item, '#', 1))"
    options = ["-m", "RR", "-q", "--format", "csv", "--pos", "position + 1", "--item", item]

    def printed(*more):
        done = CliRunner().invoke(main, ["eval", *paths, *options, *more])
        return done.stdout or done.stderr

    assert printed("--rel", rel) == "query,RR\na,0.5\nb,1.0\n"
    keys = printed("--query", "user,session", "--rel", "buy=1,click=0")
    assert keys.splitlines()[-1] == '"1,,, 2",1.0'
    assert "has no grade for event 'click'" in printed("--rel", "buy=3")
    pasted = "    --rel 1\n\nOr a grade for each value:\n    --rel event=buy:...,click:...\n"
    assert pasted in printed()
    CliRunner().invoke(main, ["convert", paths[0], str(tmp_path / "a.run"), *options[-4:-2]])
    assert (tmp_path / "a.run").read_text().startswith("a Q0 X#1 1 ")


@few(1)("kind", [pl.Datetime("ms"), pl.Datetime("ns")])
def test_a_day_in_a_key_may_be_its_midnight(kind):
    """pandas has times for days."""
    day = pl.date(2026, 1, 1) + pl.duration(days=pl.int_range(3) % 2)
    run, qrels = RUN.with_columns(day=day), QRELS.with_columns(day=day)
    options = {"query": ["query", "day"], "pos": "position + 1", "item": ITEM, "rel": "rating - 3"}
    expected = read(run, qrels, **options)["RR"]
    other = run.with_columns(pl.col("day").cast(kind))
    for each in (other, other.to_pandas()):
        assert read(each, qrels, **options)["RR"] == expected
    late = other.with_columns(pl.col("day").dt.offset_by("1h"))
    refused(late, qrels, **options, match="No query of the run is judged")


def test_parts_of_a_key_are_compared_as_numbers():
    """1.0 in one table is 1 in the other, as in a key of one column."""
    run = pl.DataFrame({"user": [1.0, 2.5], "day": [7, 7], "item": ["a", "a"], "score": [1.0, 1.0]})
    qrels = pl.DataFrame({"user": [1.0, 2.5], "day": [7.0, 7.0], "item": ["b", "a"], "rel": [1, 1]})
    result = rankql.evaluate(run[1:], qrels, "RR", query=["user", "day"])
    assert result.per_query.rows() == [("1, 7", 0.0), ("2.5, 7", 1.0)]
    first = qrels[:1].with_columns(pl.col("user").cast(pl.Int64), item=pl.lit("a"))
    assert read(run, first, query=["user", "day"])["RR"] == 1


# Columns of yes and no

FLAGS = pl.DataFrame({
    "query": ["a"] * 4,
    "item": ["x", "y", "z", "w"],
    "clicked": [True, True, None, False],
    "bought": [False, True, None, False],
})  # fmt: skip
FLAGGED_RUN, FLAG_GRADES = {"a": ["x", "y", "z"]}, {"bought": 3, "clicked": 1}
BY_FLAGS = pytest.approx(
    rankql.evaluate(FLAGGED_RUN, {"a": {"x": 1, "y": 3, "z": 0, "w": 0}}, "nDCG@5")["nDCG@5"]
)


@few(1)(
    ("form", "kind"),
    cycled(["frame", "pandas", "csv", "jsonl"], [pl.Boolean, pl.Int64, pl.Float64]),
)
def test_columns_of_yes_and_no_are_grades(form, kind, tmp_path):
    flags = FLAGS.with_columns(pl.col("clicked", "bought").cast(kind))
    path = tmp_path / f"flags.{form}"
    if form == "csv":
        flags.write_csv(path)
    elif form == "jsonl":
        flags.write_ndjson(path)
    data = {"frame": flags, "pandas": flags.to_pandas().convert_dtypes()}.get(form, path)
    result = read(FLAGGED_RUN, data, "nDCG@5", rel=FLAG_GRADES)
    assert result["nDCG@5"] == BY_FLAGS
    assert result.columns["qrels"]["rel"] == "bought: 3, clicked: 1"
    placed = flags.with_columns(pos=pl.Series([1, 2, 3, None]))
    assert read(placed, None, "nDCG@5", rel=FLAG_GRADES)["nDCG@5"] == BY_FLAGS


@pytest.mark.parametrize(("flags", "message"), [
    (FLAGS.with_columns(bought=2), "^qrels: bought has '2', but rel="),
    (FLAGS.with_columns(bought=pl.lit("often")), "^qrels: bought has 'often', but rel="),
    (FLAGS.with_columns(event=pl.lit("bought")), "may map the values of event, or the columns"),
    (FLAGS.drop("bought"), "needs a text column in qrels"),
])  # fmt: skip
def test_columns_that_are_not_yes_and_no_are_refused(flags, message):
    refused(FLAGGED_RUN, flags, "nDCG@5", rel=FLAG_GRADES, match=message)


def test_a_named_event_column_wins_over_columns_of_yes_and_no():
    flags = FLAGS.with_columns(event=pl.Series(["clicked", "bought", "none", "none"]))
    rel = ("event", {**FLAG_GRADES, "none": 0})
    assert read(FLAGGED_RUN, flags, "nDCG@5", rel=rel)["nDCG@5"] == BY_FLAGS
