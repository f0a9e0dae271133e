"""All results share one contract: a table with notes, conversions and files."""

import copy
import html
import inspect
import json
import re
import tempfile
import zipfile
from datetime import date, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

import rankql
from rankql.core.base.errors import RankqlError
from rankql.core.base.manifest import embed_manifest
from rankql.core.base.results import SUFFIXES, TableResult, drop_idle_columns
from rankql.core.base.text import Note, escape_controls
from support.parameters import few

EVIL = "<b>a&b</b>|50%_$"
ITEMS = 6


def ranking(strength):
    """A run of 24 queries; relevant items move up with the strength."""
    places = [(q, i) for q in range(24) for i in range(ITEMS)]
    scores = [(7 * i + 3 * q) % 11 + strength * (i < 2) * (q % 5) for q, i in places]
    ids = {"query": [f"q{q:02}" for q, _ in places], "item": [f"i{i}" for _, i in places]}
    return pl.DataFrame(ids | {"score": scores})


OLD, NEW = ranking(1), ranking(3)
QRELS = OLD.select("query", "item", rel=pl.col("item").is_in(["i0", "i1"]).cast(pl.Int64))
PARTS = QRELS.select("query").unique(maintain_order=True).with_columns(
    part=pl.when(pl.int_range(pl.len()) < 12).then(pl.lit(EVIL)).otherwise(pl.lit("b"))
)  # fmt: skip
JUDGED = QRELS.with_columns(rel=pl.col("item").is_in(["i0", "i2"]).cast(pl.Int64))
RUNS = {"old": OLD, EVIL: NEW}
COUNTS = PARTS.select("query", **{EVIL: 1000.5 * (pl.int_range(pl.len()) * 7 % 24)})

DAYS = pl.DataFrame([
    {"day": date(2026, 9, 1) + timedelta(day), "query": query, "item": EVIL + str(pos), "pos": pos,
     "rel": (day * query + pos) % 3 if day < 32 else pos // 2, "part": EVIL if query % 2 else "b"}
    for day in range(34) for query in range(20) for pos in (1, 2)
])  # fmt: skip


def verify_changed():
    """A result that its inputs do not give any more."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved.json")
        rankql.evaluate(RUNS, QRELS, ["nDCG@3", "AP"]).save(path)
        return rankql.verify(path, RUNS | {"old": NEW}, QRELS.head(5))


INSTANCES = {
    "Result": lambda: rankql.evaluate(RUNS, QRELS, ["nDCG@3", "AP"], attributes=PARTS, by="part"),
    "Result of one system": lambda: rankql.evaluate(OLD, QRELS, "AP"),
    "Result with a judge": lambda: rankql.evaluate(
        RUNS, QRELS.head(20 * ITEMS), ["nDCG@3", "AP"], judge=JUDGED
    ),
    "JudgeReport": lambda: rankql.judges({EVIL: JUDGED, "b": JUDGED}, QRELS, RUNS),
    "Comparison": lambda: rankql.compare(RUNS, qrels=QRELS, metrics=["nDCG@3", "AP"]),
    "WideTable": lambda: make("Comparison").wide(),
    "Verification": lambda: verify_changed(),
    "Comparison of one system": lambda: rankql.compare({EVIL: OLD}, qrels=QRELS, metrics="AP"),
    "Verdict": lambda: rankql.gate(
        NEW, QRELS, baseline=OLD, minimum="AP>=0.9", max_drop="nDCG@3:0.01", by="part",
        attributes=PARTS, min_queries=14,
    ),
    "Verdict that passed": lambda: rankql.gate(NEW, QRELS, minimum=["AP>=0.1", "RR>=0.1"]),
    "Funnel": lambda: rankql.funnel({"found": OLD, "rank" + EVIL: OLD}, QRELS, 3),
    "Explanation of a query": lambda: rankql.explain(
        *(frame.with_columns(pl.col("item") + EVIL) for frame in (OLD, QRELS)), "q03", "nDCG@3"
    ),
    "Missed": lambda: rankql.explain(RUNS, QRELS, metric="R@1", missed=True),
    "Explanation of runs": lambda: rankql.explain(RUNS, QRELS, metric="AP", worst=4),
    "Audit": lambda: rankql.audit(table=pl.DataFrame(
        {"system": ["a", EVIL, "c"], "nDCG@10": ["0.88", "0.92", "0.9"], "HR@5": ["0.9"] * 3}
    ), queries=50),
    "CheckResult": lambda: rankql.check({EVIL: OLD.with_columns(item=pl.lit(EVIL))}, QRELS),
    "MinScores": lambda: rankql.min_scores(
        OLD, QRELS.with_columns(rel=pl.col("rel") * (pl.col("query") > "q05"))
    ),
    "Association": lambda: rankql.associate(
        rankql.evaluate(OLD, QRELS, ["AP", "RR"]).per_query, COUNTS, on="query"
    ),
    "Monitoring": lambda: rankql.monitor(DAYS, metrics=["nDCG@3", "AP"], by="part"),
}  # fmt: skip


# Results with notes on their means, which follow from the values: on skewed ones, and on those that
# leave no interval.
RARE = pl.DataFrame({"query": range(40), "AP": [0.0] * 37 + [0.3, 0.5, 0.9], "RR": 0.5})
SPARSE, LESS = (rankql.read_values(x) for x in (RARE, RARE.with_columns(pl.col("AP") / 2)))
NOTED = {
    "Result of skewed values": lambda: SPARSE,
    "Result of a query": lambda: rankql.read_values(RARE.head(1)),
    "Comparison of skewed values": lambda: rankql.compare({"a": SPARSE, "b": LESS}),
    "Verdict on skewed values": lambda: rankql.gate(
        LESS, baseline=SPARSE, minimum="AP>=0.01", minimum_bound=True
    ),
    "Result of undefined values": lambda: rankql.evaluate(
        OLD, QRELS.with_columns(rel=0), ["AP", "P@1"]
    ),
}


@cache
def make(name):
    return (INSTANCES | NOTED)[name]()


def test_every_result_class_is_tested_and_exported():
    """Also those that public functions and methods of results return."""
    public = [getattr(rankql, name) for name in rankql.__all__]
    classes = [*filter(inspect.isclass, public)]
    results = {each for each in classes if issubclass(each, TableResult)}
    assert {type(make(name)) for name in INSTANCES} == results
    methods = [x for each in classes for x in inspect.getmembers(each, inspect.isfunction)]
    functions = [method for name, method in methods if not name.startswith("_")]
    functions += filter(inspect.isfunction, public)
    assert len(functions) > 150
    for function in functions:
        for name in re.findall(r"\b[A-Z]\w+", str(inspect.signature(function).return_annotation)):
            kind = getattr(inspect.getmodule(function), name, None)
            ours = inspect.isclass(kind) and kind.__module__.startswith("rankql")
            if ours and not issubclass(kind, str):  # a note is a text
                assert name in rankql.__all__, f"{function.__qualname__} returns {name}"


@pytest.mark.parametrize("name", [*INSTANCES, *NOTED])
def test_all_notes_are_printed_and_all_that_is_printed_is_a_note(name):
    result = make(name)
    printed = [line.words for line in result.remarks() if line.heading == "Note"]
    assert printed == [note for note in map(Note.of, result.notes) if note.share is None]
    text = repr(result)
    assert all(f"Note: {escape_controls(note)}" in text for note in printed)
    assert result.to_dict()["notes"] == result.notes
    assert printed or name not in NOTED
    if "skewed" in name and "Verdict" not in name:
        assert any("values this skewed" in note for note in result.notes)


@few(4)("name", INSTANCES)
def test_attributes_and_conversions(name):
    result = make(name)
    assert isinstance(result.table, pl.DataFrame) and len(result.summary)
    for sentences in (result.notes, [*result.sentences]):
        assert type(sentences) is list
        assert all(isinstance(each, str) and " " in each and "\n" not in each for each in sentences)
    assert type(result.title) is type(result.sql) is str and "\n" not in result.title
    assert result == result != copy.copy(result) and len({result, copy.copy(result)}) == 2
    assert list(result.to_pandas().columns) == result.data.columns
    assert pl.from_arrow(result.to_arrow()).equals(result.data)
    plain = result.to_dict()
    if name == "CheckResult":  # whose table has the findings in other words
        assert len(plain["table"]) == len(result.data)
    else:
        assert plain["table"] == result.data.to_dicts()
    assert plain.get("method", "") == result.method
    assert plain["notes"] == result.notes
    assert json.loads(result.to_json()).keys() == plain.keys()
    if not name.startswith(
        ("CheckResult", "Association", "Audit", "Monitoring", "Wide", "Judge", "Verif", "Min")
    ):
        assert {"query", *result.summary["metric"]} <= {*result.per_query.columns}
        assert result.conventions["gain"] == "linear" and "SELECT" in result.sql
    if name == "Explanation of runs":
        assert result.table.equals(result.queries.head(4)) and len(result.queries) > 4


@few(2)("name", INSTANCES)
def test_saved(name, tmp_path):
    result = make(name)
    texts = {".json": result.to_json, ".md": result.to_markdown, ".tex": result.to_latex}
    for suffix in SUFFIXES:
        if suffix == ".html" and name.startswith("Comparison"):
            continue  # its report needs altair
        if suffix == ".xlsx" and not find_spec("xlsxwriter"):
            continue
        path = tmp_path / f"result{suffix.upper()}"
        path.write_text("before")
        result.save(path if suffix != ".md" else str(path))
        if suffix in (".parquet", ".pq"):
            assert pl.read_parquet(path).equals(result.data)
        elif suffix == ".csv":
            table = pl.read_csv(path, infer_schema=False)
            assert table.shape == result.data.shape and table.columns == result.data.columns
        elif suffix == ".html":
            page = path.read_text("utf-8")
            assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
            assert "<table" in page and "<b>a&b" not in page
        elif suffix == ".xlsx":
            with zipfile.ZipFile(path) as book:
                strings = html.unescape(book.read("xl/sharedStrings.xml").decode())
                assert b"<f>" not in book.read("xl/worksheets/sheet1.xml")
            frames = result.displayed()
            assert all(f">{name}<" in strings for frame in frames for name in frame.columns)
            assert all(line in strings for line in result.remarks())
        else:
            text, written = texts[suffix](), path.read_text("utf-8")
            if suffix != ".tex" and result.manifest() is not None:
                text = embed_manifest(text + "\n", suffix, result.manifest()).removesuffix("\n")
                assert len(text) > len(texts[suffix]()) + 500
            assert written == text + "\n"


def test_other_suffixes_are_refused(tmp_path):
    for name in ("a.docx", "a"):
        with pytest.raises(RankqlError, match=r"must end in one of: \.parquet, \.pq, \.csv"):
            make("CheckResult").save(tmp_path / name)
    assert not [*tmp_path.iterdir()]


@few(3)("name", INSTANCES)
def test_escaped(name):
    result = make(name)
    page, text, latex = result._repr_html_(), result.to_markdown(), result.to_latex()
    assert "<b>" not in page and not re.search(r"(?<!\\)<b>|<!--|<details|&lt;", text)
    blocks = [block for block in result._rendered() if len(block.rows) > 1]
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    widths = sorted({len(block.rows[0]) for block in blocks})
    assert sorted({len(re.findall(r"(?<!\\)\|", line)) - 1 for line in lines}) == widths
    rows = [line for line in latex.split("\n") if line.endswith(r"\\")]
    titles = [row for row in rows if row.startswith(r"\multicolumn")]
    assert len(titles) == sum(bool(block.title) for block in blocks)
    rows = [re.sub(r"\$[-\d.,{}\\;\[\] ]+\$", "", row) for row in rows if row not in titles]
    widths = [4] if name == "Comparison" else widths  # with intervals in brackets
    assert sorted({len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows}) == widths
    assert len(rows) == sum(len(block.rows) for block in blocks)
    assert not any(re.search(r"(?<!\\)[%$#_<>]", line) for line in rows)


@pytest.mark.parametrize("name", ["Result", "Comparison", "Verdict"])
def test_tables_in_a_notebook_have_a_caption_and_aligned_numbers(name):
    result = make(name)
    page, (block, *_) = result._repr_html_().partition("</table>")[0], result._rendered()
    (caption,) = re.findall(r"<caption .*?>(.*?)</caption>", page)
    title = result._headline() or result.caption
    assert caption.startswith(html.escape(title)) and html.escape(block.title) in caption
    head = re.findall(r'<th scope="col" style="text-align:(\w+).*?">(.*?)</th>', page)
    numbers = [html.escape(block.rows[0][i]) for i in block.right]
    assert [name for side, name in head if side == "right"] == numbers and numbers
    cells = re.findall(r'<t[dh] (?:scope="row"|data-label=".*?") style="text-align:(\w+)', page)
    assert cells == [side for side, _ in head] * (len(block.rows) - 1)


def test_the_instances_have_something_to_escape():
    evil = [name for name in INSTANCES if "&lt;b&gt;a&amp;b" in make(name)._repr_html_()]
    plain = ["Result of one system", "Verdict that passed", "MinScores"]
    assert [name for name in INSTANCES if name not in plain] == evil


@pytest.mark.parametrize(("n", "is_long"), [(12, False), (13, True)])
def test_markdown_shows_12_sentences(n, is_long):
    result = TableResult()
    result.table, result.notes = pl.DataFrame({"x": range(2 * n - 1)}), []
    result.sentences = [f"sentence {i}" for i in range(n)]
    text = result.to_markdown()
    assert (f"- and {n - 12} more in the table" in text) == is_long
    assert text.count("- sentence ") == 12


def test_idle_columns_are_left_out():
    frame = pl.DataFrame({"slice": ["all", "all"], "x": [None, None], "y": [1, None]})
    assert drop_idle_columns(frame).columns == ["y"]
    slices = pl.DataFrame({"slice": ["all", "a=1"], "x": [None, 1]})
    assert drop_idle_columns(slices).equals(slices)
    assert drop_idle_columns(slices.clear().drop("slice")).columns == ["x"]
    (displayed,) = make("Comparison").long().displayed()
    assert "p_adjusted" in displayed.columns and "sentence" not in displayed.columns
    one = rankql.compare(RUNS, qrels=QRELS, metrics="AP").long().displayed()[0]
    assert "p" in one.columns and "p_adjusted" not in one.columns


@few(4)("name", INSTANCES)
def test_notes_and_sentences_are_displayed(name):
    result = make(name)
    remarks, notes = result.remarks(), [f"Note: {note}" for note in result.notes]
    assert [remark for remark in remarks if remark in notes] == notes
    lines = [result._headline(), *result.sentences, *(remarks if name != "CheckResult" else ())]
    page = re.sub(r"</?span.*?>", "", result._repr_html_())  # of dates, which are not broken
    for line in lines:
        assert line in repr(result) and html.escape(line) in page
        assert f"% {line}\n" in f"{result.to_latex()}\n" or not line


def is_displayed(value, cell):
    """Is a cell this value, rounded?"""
    if isinstance(value, float):
        if cell.startswith("<"):
            return 0 <= value < float(cell[1:])
        decimals = len(cell.partition(".")[2])
        return cell in (f"{value:z,.{decimals}f}", f"{value:z.6g}")
    if isinstance(value, date | bool):
        return cell == str(value)
    return cell == ("" if value is None else f"{value:,}" if type(value) is int else value)


OWN_LAYOUT = {"CheckResult", "WideTable", "Comparison", "Result", "Result with a judge"}


@pytest.mark.parametrize("name", [*sorted({*INSTANCES} - OWN_LAYOUT), "Result, long"])
def test_the_table_is_displayed(name):
    result = make("Result").long() if name == "Result, long" else make(name)
    page, table = result._repr_html_().partition("</table>")[0], result.table
    page = re.sub(r"<span [^>]*>(?:\W )?(.*?)</span>", r"\1", page)  # the sign of a status
    cell = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
    lines = page.split("<tr>")[1:]
    header, *rows = [[*map(html.unescape, cell.findall(line))] for line in lines]
    if name == "Verdict":
        order = {"failed": 0, "too few queries": 2, "passed": 3}
        assert {*table["status"]} == {*order}
        table = table.filter((pl.col("status") != "passed") | (pl.col("slice") == "all"))
        table = table.sort(pl.col("status").replace_strict(order), maintain_order=True)
    if name == "Missed":
        table = table.head(result.most)
    if name == "Monitoring":  # the last week of the metrics, and the last day of all series
        day, last = pl.col("day"), table["day"].max()
        week = (day > last - timedelta(7)) & (pl.col("slice") == "all")
        table = table.filter((day == last) | (week & (pl.col("kind") == "metric")))
        alarm = pl.when("alarm").then(pl.lit("alarm")).otherwise(pl.lit(""))
        table = table.with_columns(day.cast(pl.String), alarm=alarm)
    assert {*header} <= {*table.columns} and len(rows) == len(table) > 0
    for cells, row in zip(rows, table.iter_rows(named=True), strict=True):
        for column, cell in zip(header, cells, strict=True):
            assert is_displayed(row[column], cell), (column, row[column], cell)


def test_a_check_names_every_finding():
    result = make("CheckResult")
    assert repr(result).startswith(result.title) and len(result.table) == len(result.findings) > 1
    page = html.unescape(result._repr_html_())
    for message in result.table["message"]:
        assert message in repr(result) and message.split(":")[0] in page
