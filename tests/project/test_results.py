"""All results share one contract: a table with notes, conversions and files."""

import copy
import html
import inspect
import io
import json
import re
from datetime import date, timedelta
from functools import cache

import polars as pl
import pytest

import rankql
from rankql import text
from rankql.errors import RankqlError
from rankql.results import SUFFIXES, TableResult, drop_idle_columns

EVIL = "<b>a&b</b>|50%_$"
ITEMS = 6


def ranking(strength):
    """A run of 24 queries; relevant items move up with the strength."""
    rows = [
        (f"q{q:02}", f"i{i}", (7 * i + 3 * q) % 11 + strength * (i < 2) * (q % 5))
        for q in range(24)
        for i in range(ITEMS)
    ]
    return pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")


OLD, NEW = ranking(1), ranking(3)
QRELS = OLD.select("query", "item", rel=pl.col("item").is_in(["i0", "i1"]).cast(pl.Int64))
PARTS = QRELS.select("query").unique(maintain_order=True).with_columns(
    part=pl.when(pl.int_range(pl.len()) < 12).then(pl.lit(EVIL)).otherwise(pl.lit("b"))
)  # fmt: skip
JUDGED = QRELS.with_columns(rel=pl.col("item").is_in(["i0", "i2"]).cast(pl.Int64))
RUNS = {"old": OLD, EVIL: NEW}
COUNTS = PARTS.select("query", **{EVIL: 1000.5 * (pl.int_range(pl.len()) * 7 % 24)})
LAUNCHES = pl.DataFrame({"offline": [1, 2, -1, 1, 3, 1], "online": [2, 1, -1, 1, 2, -1]})

DAYS = pl.DataFrame([
    {"day": date(2026, 9, 1) + timedelta(day), "query": query, "item": EVIL + str(pos), "pos": pos,
     "rel": (day * query + pos) % 3 if day < 32 else pos // 2, "part": EVIL if query % 2 else "b"}
    for day in range(34) for query in range(20) for pos in (1, 2)
])  # fmt: skip


def associate_runs():
    values = rankql.evaluate(RUNS, QRELS, "AP").per_query
    counts = [COUNTS.with_columns(pl.col(EVIL) * n, system=pl.lit(s)) for n, s in enumerate(RUNS)]
    return rankql.associate(values, pl.concat(counts), on="query", baseline="old")


INSTANCES = {
    "Result": lambda: rankql.evaluate(RUNS, QRELS, ["nDCG@3", "AP"], attributes=PARTS, by="part"),
    "Result of one system": lambda: rankql.evaluate(OLD, QRELS, "AP"),
    "Result with a judge": lambda: rankql.evaluate(
        RUNS, QRELS.head(15 * ITEMS), ["nDCG@3", "AP"], judge=JUDGED
    ),
    "JudgeReport": lambda: rankql.judges({EVIL: JUDGED, "b": JUDGED}, QRELS, RUNS),
    "Comparison": lambda: rankql.compare(RUNS, qrels=QRELS, metrics=["nDCG@3", "AP"]),
    "WideTable": lambda: make("Comparison").wide(),
    "Comparison of one system": lambda: rankql.compare({EVIL: OLD}, qrels=QRELS, metrics="AP"),
    "Verdict": lambda: rankql.gate(
        NEW, QRELS, baseline=OLD, minimum="AP>=0.9", max_drop="nDCG@3:0.01", by="part",
        attributes=PARTS, min_queries=14,
    ),
    "Verdict that passed": lambda: rankql.gate(NEW, QRELS, minimum=["AP>=0.1", "RR>=0.1"]),
    "Funnel": lambda: rankql.funnel({"found": OLD, "rank" + EVIL: OLD}, QRELS, 3),
    "Limits": lambda: rankql.limits(RUNS, QRELS, ["nDCG@3", "RR"]),
    "Explanation of a query": lambda: rankql.explain(
        *(frame.with_columns(pl.col("item") + EVIL) for frame in (OLD, QRELS)), "q03", "nDCG@3"
    ),
    "Explanation of runs": lambda: rankql.explain(RUNS, QRELS, metric="AP", worst=4),
    "Report": lambda: rankql.check({EVIL: OLD.with_columns(item=pl.lit(EVIL))}, QRELS),
    "Association": lambda: rankql.associate(
        rankql.evaluate(OLD, QRELS, ["AP", "RR"]).per_query, COUNTS, on="query"
    ),
    "Monitoring": lambda: rankql.monitor(DAYS, metrics=["nDCG@3", "AP"], by="part"),
    "AssociationTable of quadrants": lambda: associate_runs().quadrants(),
    "AssociationTable of launches": lambda: rankql.sign_agreement(LAUNCHES),
}  # fmt: skip
OF_RUNS = [
    name
    for name in INSTANCES
    if not name.startswith(("Report", "Association", "Monitoring", "Wide", "Judge"))
]


@cache
def make(name):
    return INSTANCES[name]()


def test_every_result_class_is_tested():
    exported = {each for each in map(rankql.__getattr__, rankql.__all__) if inspect.isclass(each)}
    classes = {each for each in exported if issubclass(each, TableResult)}
    assert {type(make(name)) for name in INSTANCES} == classes


def test_every_returned_class_is_exported():
    """Of the public functions and of the methods of results."""
    public = [getattr(rankql, name) for name in rankql.__all__]
    classes = [each for each in public if inspect.isclass(each)]
    methods = [m for c in classes for _, m in inspect.getmembers(c, inspect.isfunction)]
    methods = [method for method in methods if not method.__name__.startswith("_")]
    functions = [each for each in public if inspect.isfunction(each)] + methods
    assert len(functions) > 150
    for function in functions:
        for name in re.findall(r"\b[A-Z]\w+", str(inspect.signature(function).return_annotation)):
            found = getattr(inspect.getmodule(function), name, None)
            if inspect.isclass(found) and found.__module__.startswith("rankql"):
                assert name in rankql.__all__, f"{function.__qualname__} returns {name}"


def test_each_name_is_the_same_kind_everywhere():
    names = [name for name in vars(TableResult) if not name.startswith("__")]
    for name in [*names, "table", "notes", "sentences", "title", "sql", "per_query", "conventions"]:
        kinds = {
            callable(getattr(make(each), name)) for each in INSTANCES if hasattr(make(each), name)
        }
        assert len(kinds) == 1, name


@pytest.mark.parametrize("name", INSTANCES)
def test_attributes(name):
    result = make(name)
    assert isinstance(result.table, pl.DataFrame) and isinstance(result.summary, pl.DataFrame)
    assert len(result.summary)
    for sentences in (result.notes, [*result.sentences]):
        assert type(sentences) is list
        assert all(type(each) is str and " " in each and "\n" not in each for each in sentences)
    assert type(result.title) is type(result.sql) is str and "\n" not in result.title
    for other in ("rows", "write", "to_polars", "frames"):
        assert not hasattr(result, other)
    assert result == result != copy.copy(result) and len({result, copy.copy(result)}) == 2


@pytest.mark.parametrize("name", OF_RUNS)
def test_results_of_runs(name):
    result = make(name)
    assert {"query", *result.summary["metric"]} <= {*result.per_query.columns}
    assert result.conventions["gain"] == "linear" and "SELECT" in result.sql


@pytest.mark.parametrize("name", INSTANCES)
def test_conversions(name):
    result = make(name)
    assert list(result.to_pandas().columns) == result.table.columns
    assert pl.from_arrow(result.to_arrow()).equals(result.table)
    plain = result.to_dict()
    assert len(plain["table"]) == len(result.table) and plain["notes"] == result.notes
    assert json.loads(result.to_json()).keys() == plain.keys()
    if name == "Limits":
        assert plain["sensitivity"] == result.sensitivity.to_dicts()
    if name == "Explanation of runs":
        assert result.table.equals(result.queries.head(4)) and len(result.queries) > 4


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        pytest.param(
            name,
            suffix,
            marks=[pytest.mark.report] if (name[:10], suffix) == ("Comparison", ".html") else [],
        )
        for name in INSTANCES
        for suffix in SUFFIXES
    ],
)
def test_saved(name, suffix, tmp_path):
    result, path = make(name), tmp_path / f"result{suffix.upper() if suffix == '.csv' else suffix}"
    path.write_text("before")
    result.save(path if suffix != ".md" else str(path))
    if suffix in (".parquet", ".pq"):
        assert pl.read_parquet(path).equals(result.table)
    else:
        text = path.read_text("utf-8")
        if suffix == ".csv":
            read = pl.read_csv(io.StringIO(text), infer_schema=False)
            assert read.shape == result.table.shape and read.columns == result.table.columns
        elif suffix == ".html":
            assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
            assert "<table>" in text and "<b>a&b" not in text
        else:
            shown = {".json": result.to_json, ".md": result.to_markdown, ".tex": result.to_latex}
            assert text == shown[suffix]() + "\n"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_file_appears_complete_or_not_at_all(tmp_path, monkeypatch):
    result, path = make("Association"), tmp_path / "result.md"
    path.write_text("before")
    monkeypatch.setattr(TableResult, "to_markdown", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.save(path)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda self, to: to.touch() or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.save(tmp_path / "half.parquet")
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    ("path", "message"),
    [("a.docx", r"must end in one of: \.parquet, \.pq, \.csv"), ("a", "must end in one of"),
     ("none/a.md", "folder .* does not exist"), ("folder.csv", "is not a regular file")],
)  # fmt: skip
def test_files_that_are_refused(path, message, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(RankqlError, match=message):
        make("Report").save(tmp_path / path)
    assert len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("name", INSTANCES)
def test_escaped(name):
    result = make(name)
    page, text, latex = result._repr_html_(), result.to_markdown(), result.to_latex()
    assert "<b>" not in page and "<b>" not in text
    tables = [frame for frame in result.displayed() if len(frame)]
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    widths = sorted({len(frame.columns) for frame in tables})
    assert sorted({len(re.findall(r"(?<!\\)\|", line)) - 1 for line in lines}) == widths
    rows = [line for line in latex.split("\n") if line.endswith(r"\\")]
    assert sorted({len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows}) == widths
    assert len(rows) == sum(len(frame) + 1 for frame in tables)
    assert not any(re.search(r"(?<!\\)[%$#_<>]", line) for line in rows)


@pytest.mark.parametrize("name", ["Result", "Comparison", "Verdict"])
def test_tables_in_a_notebook_have_a_caption_and_aligned_numbers(name):
    result = make(name)
    page, (frame, *_) = result._repr_html_(), result.displayed()
    (caption,) = re.findall(r"<caption .*?>(.*?)</caption>", page)
    assert caption == html.escape(result._headline() or result.caption) and len(caption) > 10
    head = re.findall(r'<th style="text-align:(\w+).*?">(.*?)</th>', page)
    assert [name for side, name in head if side == "right"] == [
        name for name, kind in frame.schema.items() if kind.is_numeric()
    ]
    cells = re.findall(r'<td style="text-align:(\w+)', page)
    assert cells == [side for side, _ in head] * len(frame)


def test_the_instances_have_something_to_escape():
    evil = [name for name in INSTANCES if "&lt;b&gt;a&amp;b" in make(name)._repr_html_()]
    plain = ["Result of one system", "Verdict that passed", "AssociationTable of launches"]
    assert [name for name in INSTANCES if name not in plain] == evil


def test_latex_is_literal():
    rows = [["a_b", "c"], [r"\x{50%} #1 $&~^", "[2]<3>"]]
    assert text.format_latex(rows).split("\n")[2:5] == [
        r"a\_b & c \\",
        r"\midrule",
        r"\textbackslash{}x\{50\%\} \#1 \$\&\textasciitilde{}\textasciicircum{} & "
        r"{[}2]\textless{}3\textgreater{} \\",
    ]


def test_long_results_in_markdown():
    """Twelve sentences and 24 rows are displayed at once."""
    for n, is_long in ((12, False), (13, True), (24, True)):
        frame = pl.DataFrame({"x": range(2 * n - 1)})
        text = rankql.AssociationTable(frame, [f"sentence {i}" for i in range(n)]).to_markdown()
        assert (f"- and {n - 12} more in the table" in text) == is_long
        assert ("<details><summary>The table</summary>" in text) == is_long
        assert text.count("- sentence ") == 12


def test_columns_that_say_nothing_are_left_out():
    frame = pl.DataFrame({"slice": ["all", "all"], "x": [None, None], "y": [1, None]})
    assert drop_idle_columns(frame).columns == ["y"]
    slices = pl.DataFrame({"slice": ["all", "a=1"], "x": [None, 1]})
    assert drop_idle_columns(slices).equals(slices)
    assert drop_idle_columns(slices.clear().drop("slice")).columns == ["x"]
    for name in ("Result", "Association", "Comparison of one system"):
        assert not {"part", "sentence", "slice" if name != "Result" else ""} & {
            *make(name).displayed()[0].columns
        }
    assert "p_adjusted" in make("Comparison").displayed()[0].columns
    one = rankql.compare(RUNS, qrels=QRELS, metrics="AP").displayed()[0]
    assert "p" in one.columns and "p_adjusted" not in one.columns


@pytest.mark.parametrize("name", INSTANCES)
def test_all_that_is_to_know_is_displayed(name):
    result = make(name)
    notes = [f"Note: {note}" for note in result.notes]
    assert result.remarks()[len(result.remarks()) - len(notes) :] == notes
    for line in [
        result._headline(),
        *result.sentences,
        *([] if name == "Report" else result.remarks()),
    ]:
        assert line in repr(result) and html.escape(line) in result._repr_html_()
        assert f"% {line}\n" in f"{result.to_latex()}\n" or not line


def printed_table(result):
    """The first table in a notebook: its header, and the cells of each row."""
    table = result._repr_html_().partition("</table>")[0]
    cell = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
    header, *rows = [
        [html.unescape(each) for each in cell.findall(line)] for line in table.split("<tr>")[1:]
    ]
    return header, rows


def is_displayed(value, cell):
    """Is a cell this value, rounded?"""
    if isinstance(value, float):
        if cell.startswith("<"):
            return 0 <= value < float(cell[1:])
        decimals = len(cell.partition(".")[2])
        return cell == f"{value:z,.{decimals}f}" or cell == f"{value:z.6g}"
    if isinstance(value, date | bool):
        return cell == str(value)
    return cell == ("" if value is None else f"{value:,}" if type(value) is int else value)


@pytest.mark.parametrize(
    "name", [name for name in INSTANCES if name not in ("Report", "WideTable")]
)
def test_the_table_is_what_is_displayed(name):
    result = make(name)
    header, rows = printed_table(result)
    table = result.summary if name == "Comparison of one system" else result.table
    if name == "Verdict":
        assert {*table["status"]} == {"failed", "passed", "too few queries"}
        order = {"failed": 0, "inconclusive": 1, "too few queries": 2, "passed": 3}
        table = table.filter((pl.col("status") != "passed") | (pl.col("slice") == "all"))
        table = table.sort(pl.col("status").replace_strict(order), maintain_order=True)
    if name == "Monitoring":  # the last week of the metrics, and the last day of all series
        last = pl.col("day") == table["day"].max()
        week = pl.col("day") > table["day"].max() - timedelta(7)
        table = table.filter(
            last | (week & (pl.col("slice") == "all") & (pl.col("kind") == "metric"))
        )
        table = table.with_columns(pl.col("day").cast(pl.String))
    assert {*header} <= {*table.columns} and len(rows) == len(table) > 0
    for cells, row in zip(rows, table.iter_rows(named=True), strict=True):
        for column, cell in zip(header, cells, strict=True):
            assert is_displayed(row[column], cell), (column, row[column], cell)


def test_a_check_names_every_finding():
    result = make("Report")
    assert repr(result).startswith(result.title) and len(result.table) == len(result.findings) > 1
    page = html.unescape(result._repr_html_())
    for message in result.table["message"]:
        assert message in repr(result) and message.split(":")[0] in page


def test_repr_does_not_read_all_values(tmp_path, monkeypatch):
    """The means of a file are computed in DuckDB; its values are not read into memory."""
    file = tmp_path / "values.parquet"
    result = rankql.evaluate(OLD, QRELS, "AP", output=file)
    monkeypatch.setattr(pl, "read_parquet", lambda *_: pytest.fail("reads the values"))
    assert "AP" in repr(result) and result.values == file
    result.save(tmp_path / "means.csv")


def test_values_are_saved_for_later(tmp_path):
    result = rankql.evaluate(OLD, QRELS, "AP")
    result.save_values(tmp_path / "values.parquet")
    read = rankql.combine([tmp_path / "values.parquet"])
    assert read.per_query.equals(result.per_query) and read.table.equals(result.table)
    result.save(tmp_path / "means.parquet")
    with pytest.raises(RankqlError, match="was not written by rankql"):
        rankql.combine([tmp_path / "means.parquet"])


def test_a_mean_has_one_rounding():
    """Whatever the interval of the difference in its row."""
    frame = pl.DataFrame({"metric": "m", "mean_a": 12.15671, "difference": [0.0199, 0.76, None],
                          "lo": [0.0186, -0.19, None], "hi": [0.0212, 1.71, None]})  # fmt: skip
    rows = text.format_table(frame)[1:]
    assert [row[1:3] for row in rows] == [
        ["12.1567", "0.0199"],
        ["12.1567", "0.76"],
        ["12.1567", ""],
    ]
