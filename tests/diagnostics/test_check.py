"""check: findings and what reports look like. cases/faults.toml has each finding by itself."""

import importlib
import json
import math
from collections import Counter

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from rankql.cli.main import main
from rankql.core.base.doors import Door
from rankql.core.base.errors import RankqlError
from rankql.core.evaluation.checks.sampled import SAMPLED
from rankql.core.evaluation.evaluate import evaluate
from rankql.diagnostics.check import CheckResult, Finding, check
from rankql.diagnostics.row_checks import COLUMNS, ROWS
from support import drawn_faults, faults
from support.parameters import cycled, few
from support.paths import DL19

check_module = importlib.import_module("rankql.diagnostics.check")

QRELS = [("a", "x", 1), ("a", "y", 0), ("b", "x", 1), ("b", "y", 0)]
RUN = [("a", "x", 2.0), ("a", "y", 1.0), ("b", "x", 2.0), ("b", "y", 1.0)]
PLACES = [("a", "x", 1.0), ("a", "y", 2.0), ("b", "x", 1.0), ("b", "y", 2.0)]
INF, NAN = math.inf, math.nan


def scored(*more, rows=RUN):
    return pl.DataFrame(
        [*rows, *more], {"query": pl.String, "item": pl.String, "score": pl.Float64}, orient="row"
    )


def placed(*more, rows=PLACES):
    return scored(*more, rows=rows).rename({"score": "pos"})


def judged(*more, rows=QRELS):
    return scored(*more, rows=rows).rename({"score": "rel"})


def row(query, item=None, **more):
    return {"query": query} | ({"item": item} if item else {}) | more


def kinds(report):
    return [finding.kind for finding in report]


def levels(report):
    return [(finding.kind, finding.level) for finding in report]


def one(report):
    (finding,) = report
    return finding


def test_no_problems():
    for run in (scored(), placed()):
        report = check(run, judged(), k=2)
        assert list(report) == [] and report.passed and report
        assert repr(report) == "Check of run (4 rows), qrels (4 rows) at k = 2: no problems found"
        assert list(check(run, k=2)) == []


@pytest.mark.parametrize("second", ["y", "below"])
def test_what_evaluate_reads_is_no_error(second):
    """A duplicate below the cutoff, and an item without gain that is judged twice."""
    items = ["x", second, *"abcdefghi", "below"]
    run = scored(rows=[("a", item, -float(place)) for place, item in enumerate(items)])
    qrels = judged(("a", "z", 0), ("a", "z", 0))
    report = check(run, qrels)
    found = {x.kind: x.level for x in report if x.kind.startswith("duplicate")}
    twice = {"duplicate-items": "warning"} if second == "below" else {}
    assert found == twice | {"duplicate-judgments": "warning"} and report.passed
    evaluate(run, qrels, "nDCG@10")


def test_questions_without_an_answer_are_no_problem():
    rows = [
        {"question": "a", "retrieved": ["x"], "relevant": ["x"]},
        {"question": "b", "retrieved": ["x"], "relevant": []},
        {"question": "c", "retrieved": ["x"], "relevant": None},
    ]
    report = check(rows)
    assert report.passed and "null-ids" not in kinds(report)
    found = {x.kind: (x.level, x.count) for x in report}
    assert found["unjudged-queries"] == found["no-relevant"] == ("warning", 1)
    assert check({"a": ["x"], "b": ["y"]}, {"a": ["x"], "b": []}).passed


def test_every_check_is_in_the_matrix_of_faults():
    rules = [rule for rules in COLUMNS.values() for rule in rules]
    found = " ".join(fault.cells["check"] for fault in faults.FAULTS)
    sampled = [y for x in SAMPLED for y in (x.load() if isinstance(x, Door) else [x])]
    assert {
        check.name for check in [*ROWS, *sampled, *rules] if f" {check.name} of" not in found
    } == {
        "ratings",  # in tests/core/evaluation/test_convention_options.py
        "reversed-scores",  # in tests/core/tables/test_inputs.py
        "sentinels",  # in tests/shapes/test_sentinels.py
        "padding",  # in tests/shapes/test_sentinels.py
        "short-lists",  # in tests/core/evaluation/test_looks.py
    }


@few(2)(
    ("found", "ids", "noted", "form"),
    [
        (11, "doc{}", True, "distance"), (10, "doc{}", False, "pos"), (11, "9000{}", True, "pos"),
        # Small numbers meet by chance.
        (18, "{}", True, "score"), (17, "{}", False, "score"),
    ],
)  # fmt: skip
def test_queries_that_find_themselves(found, ids, noted, form):
    """Of 20 queries, the first `found` have the item with their id at the top."""
    rows = []
    for query in range(20):
        first = query if query < found else (query + 5) % 20
        others = [item for item in range(20) if item not in (first, query)][:4]
        items = [first, *others, *([query] if query >= found else [])]
        rows += [(ids.format(query), ids.format(x), place) for place, x in enumerate(items, 1)]
    run = pl.DataFrame(rows, ["query", "item", form], orient="row")
    if form == "score":
        run = run.with_columns(score=-pl.col("score"))
    qrels = judged(*((ids.format(q), ids.format((q + 1) % 20), 1) for q in range(20)))
    findings = [x for x in check(run, qrels, k=3) if x.kind == "self-match"]
    assert [x.count for x in findings] == [found] * noted
    if noted:
        assert f"are the same at position 1 in {found} of 20 queries" in findings[0].message
        without = check(run, qrels, k=3, ignore_identical_ids=True)
        assert "self-match" not in kinds(without)


@pytest.mark.parametrize(
    ("grades", "kind", "count"),
    [([1, 1, None], "unjudged-queries", 1), ([None, None, None], "no-overlap", 2)],
)
def test_a_table_with_its_own_grades_may_have_unjudged_queries(grades, kind, count):
    table = placed(rows=PLACES[:3]).with_columns(rel=pl.Series(grades, dtype=pl.Int64))
    finding = check(table, k=2).findings[0]
    assert (finding.kind, finding.table, finding.count) == (kind, "run", count)


def test_ties_at_k():
    """Positions win: then scores may be tied."""
    run = scored(("b", "z", 1.0), ("a", "z", 0.5), ("a", "w", 0.5))
    across = one(check(run, judged(("b", "z", 0)), k=2))
    assert across.examples == (row("b", score=1.0),) and "positions 2 and 3" in across.message
    places = run.with_columns(pos=pl.Series([1, 2, 1, 2, 3, 3, 4]))
    assert list(check(places, judged(), k=2)) == []


@few(5)("seed", range(60))
def test_findings_are_counted_as_by_loops(seed, monkeypatch):
    """Of rows, items, queries and systems, with any number of faults, as if another column differs
    in rows that repeat.
    """
    monkeypatch.setattr(check_module, "find_equal_rows", lambda *_: 0.0)
    run, qrels, ordered, k = drawn_faults.draw(seed)
    report = check(run, qrels, k=k, system="system")
    found = Counter((x.kind, x.level, x.count) for x in report if x.kind != "deciding-ties")
    assert found == drawn_faults.count(run, qrels, ordered, k)


def test_spelling_across_types():
    run = pl.DataFrame({"query": ["01", "01"], "item": ["x", "y"], "score": [2.0, 1.0]})
    qrels = pl.DataFrame({"query": [1], "item": ["x"], "rel": [1]})
    report = check(run, qrels, k=1)
    assert kinds(report) == ["no-overlap", "id-spelling"]
    assert report.findings[1].examples == ({"run": "01", "qrels": "1"},)
    assert list(check(run.with_columns(query=pl.lit(1.0)), qrels, k=1)) == []
    # Ids that differ by more are different ids.
    qrels = judged(("a", "z10", 0), ("a", "10", 0), ("a", "x-0", 0))
    assert list(check(scored(("a", "z1", 0.5), ("a", "100", 0.4)), qrels, k=2)) == []


@pytest.mark.slow
def test_systems_in_a_column():
    first, other = (
        scored(rows=RUN[:n]).with_columns(model=pl.lit(m)) for n, m in ((4, "m"), (2, "n"))
    )
    run = pl.concat([first, other])
    finding = one(check(run, judged(), k=2))
    assert (finding.kind, finding.table) == ("missing-queries", "run, system 'n'")
    assert finding.examples == ({"query": "b"},)
    finding = check(run.rename({"model": "mine"}), judged(), k=2).findings[0]
    assert finding.kind == "duplicate-items" and "system=" in finding.why
    elsewhere = run.with_columns(query=pl.when(model="n").then(pl.lit("c")).otherwise("query"))
    finding = check(elsewhere, judged(), k=2, system="model").findings[0]
    assert (finding.kind, finding.table) == ("no-overlap", "run, system 'n'")
    twice = check(pl.concat([run, other]), judged(), k=2, system="model").findings[0]
    assert twice.examples[0] == {"system": "n", "query": "a", "item": "x", "rows": 2}
    assert "pass system=" not in twice.why


def test_runs_in_a_dict():
    finding = one(check({"good": scored(), "it's": scored(("a", "x", 3.0))}, judged(), k=2))
    assert (finding.kind, finding.table) == ("duplicate-items", 'run "it\'s"')
    assert finding.examples == ({"system": "it's", "query": "a", "item": "x", "rows": 2},)


def test_no_or_few_items_in_common():
    qrels = judged(rows=[("a", f"{'x' if i else 'd'}{i}", 1) for i in range(100)])
    runs = {
        name: scored(rows=[("a", f"{name}{i}", float(-i)) for i in range(100)]) for name in "de"
    }
    findings = [f for f in check(runs, qrels) if f.kind.endswith("common-items")]
    assert [(f.kind, f.level, f.table, f.count) for f in findings] == [
        ("no-common-items", "warning", "run 'e'", 100),
        ("few-common-items", "warning", "run 'd'", 1),
    ]
    # The ids of another run do not decide whether this one may have no hit.
    notes = evaluate(runs, qrels, "RR", interval=None).notes
    assert [note for note in notes if note == findings[0].message]


def test_run_with_its_own_grades():
    """NULL means that an item was not retrieved or not judged; if all are, nothing is ranked."""
    table = placed(("a", "z", None)).with_columns(rel=pl.Series([1, 0, 1, None, 2]))
    finding = one(check(table, k=2))
    assert (finding.kind, finding.count) == ("judged-share", 1)
    assert finding.examples == ({"query": "b", "judged": 1, "retrieved": 2},)
    bad = table.with_columns(rel=pl.Series([0.0, 0.0, INF, 2.0, 0.0]))
    assert kinds(check(bad, k=2)) == ["infinite-grades", "no-relevant"]
    unscored = table.with_columns(score=pl.when(pl.col("item") != "z").then(1.0))
    assert kinds(check(unscored, k=2)) == ["judged-share"]
    none = check(scored().with_columns(rel=1, score=pl.lit(None, pl.Float64)), k=2)
    assert ("null-scores", "error") in levels(none)
    # Positions need no items.
    assert list(check(placed().drop("item").with_columns(rel=1), k=2)) == []


def test_columns_that_are_not_read_have_no_findings():
    """Where positions make the ranking, scores are not read, and the other way round."""
    run = placed().with_columns(score=pl.Series([2.0, NAN, 2.0, 1.0]))
    assert kinds(check(run, judged(), k=2)) == []
    assert kinds(check(scored().with_columns(pos=0), judged(), k=2, score="score")) == []


@pytest.mark.slow
def test_text_files(tmp_path):
    run, qrels = tmp_path / "run.csv", tmp_path / "qrels.csv"
    scored().write_csv(run)
    judged().write_csv(qrels)
    assert list(check(run, qrels, k=2)) == []
    with run.open("a") as file:
        file.write("a,z,high\n")
    with qrels.open("a") as file:
        file.write("a,z,good\na,w,\n")
    report = check(run, str(qrels), k=2)
    assert [(f.kind, f.level, f.count) for f in report] == [
        ("text-scores", "error", 1),
        ("text-grades", "error", 1),
        ("null-grades", "warning", 1),
    ]
    assert report.findings[0].examples == ({"query": "a", "item": "z", "score": "high"},)
    run.write_text("query,item,pos\na,x,1\na,y,first\n")
    assert "text-positions" in kinds(check(run, qrels, k=2))
    # Their ids have no type.
    run.write_text("query,item,score\n1,x,2\n1,y,1\n")
    assert list(check(run, judged(rows=QRELS[:2]).with_columns(query=1), k=2)) == []


@few(2)(
    ("rows", "findings"),
    [
        ("a Q0 x 0 2.5 t\na Q0 y 1 1.5 t\n", []),
        ("a Q0 x 1 1.5 t\na Q0 y 2 2.5 t\n", [("rank-score-order", "warning")]),
        ("a Q0 x 1 2.5 t\na Q0 y 2 nan t\n", [("nan-scores", "error")]),
    ],
)
def test_ranks_of_trec_files_are_checked_too(rows, findings, tmp_path):
    (tmp_path / "a.qrels").write_text("a 0 x 1\na 0 y 0\n")
    (tmp_path / "a.run").write_text(rows)
    assert levels(check(tmp_path / "a.run", tmp_path / "a.qrels", k=2)) == findings


@few(1)("name", ['a"b', "drop table x; --", "it's {0} ünï %s"])
def test_any_name_and_a_connection_that_stays_as_it_was(name, tmp_path):
    """As column, system, id and table; the findings are those of frames."""
    run = scored(("a", "x", 0.5)).with_columns(sys=pl.lit(name))
    run = run.with_columns(query=pl.lit(name) + pl.col("query")).rename({"item": name})
    qrels = judged().with_columns(query=pl.lit(name) + pl.col("query"))
    qrels.write_ndjson(tmp_path / "qrels.jsonl")
    with duckdb.connect(str(tmp_path / "data.db")) as con:
        con.register("frame", run)
        con.execute(f'CREATE TABLE "{name.replace(chr(34), chr(34) * 2)}" AS FROM frame')
    con = duckdb.connect(str(tmp_path / "data.db"), read_only=True)
    con.execute("SET default_null_order = 'nulls_first'")
    options = {"k": 2, "item": (name, "item"), "system": "sys"}
    expected = check(run.lazy(), qrels.to_arrow(), **options).findings
    row = {"system": name, "query": f"{name}a", "item": "x", "rows": 2}
    assert expected[0].kind == "duplicate-items" and expected[0].examples == (row,)
    report = check(name, tmp_path / "qrels.jsonl", **options, con=con)
    assert report.findings == expected and report.tables["run"]["columns"]["item"] == name
    assert con.sql("SHOW ALL TABLES").select("name").fetchall() == [(name,)]


@few(1)("kind", ["UUID", "HUGEINT", "BLOB", "ENUM ('1')", "DATE"])
def test_ids_of_any_type(kind):
    value = {"UUID": "11111111-1111-1111-1111-111111111111", "DATE": "2020-01-01"}.get(kind, "1")
    con = duckdb.connect()
    con.execute(f"""
        CREATE TABLE run AS SELECT '{value}'::{kind} AS query, '{value}'::{kind} AS item,
                                   unnest([1.0, 'nan'::DOUBLE]) AS score;
        CREATE TABLE qrels AS SELECT '{value}'::{kind} AS query, '{value}'::{kind} AS item, 1 AS rel
    """)
    report = check("run", "qrels", k=1, con=con)
    assert kinds(report) == ["nan-scores", "duplicate-items"]
    json.loads(report.to_json())


def test_report():
    bad = {"query": "<b>|", "score": "nan"}
    report = CheckResult(
        [Finding("one", "error", "run", 1234, "what", "why", (bad, bad)),
         Finding("another-kind", "note", "qrels", 2, "what", "why")],
        {"run": {"rows": 5, "columns": {"query": "q"}}}, 3,
    )  # fmt: skip
    assert not report.passed and len(report) == 2
    assert json.loads(report.table["examples"][0]) == [bad, bad]
    assert report.to_dict()["table"][0]["examples"] == [bad, bad]
    assert report.to_dict()["tables"] == report.tables
    example = " " * 30 + "e.g. query '<b>|', score 'nan'"
    assert repr(report).splitlines() == [
        "Check of run (5 rows), without judgments at k = 3: 1 error, 1 note",
        "",
        "errors",
        "  one           run    1,234  what",
        *[example] * 2,
        " " * 30 + "why: why",
        "",
        "notes",
        "  another-kind  qrels      2  what",
        " " * 30 + "why: why",
    ]
    empty = CheckResult([])
    assert empty.passed and empty and empty.table.schema == report.table.schema
    for text in (empty.to_markdown(), empty._repr_html_()):
        assert "no problems found" in text and "|" not in text and "<table" not in text


@pytest.mark.slow
@pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")
def test_dl19():
    assert list(check(DL19 / "BM25.run", DL19 / "dl19.qrels")) == []
    report = check(DL19 / "SPLADE_P_P_ENSEMBLE_DISTIL.run", DL19 / "dl19.qrels")
    assert [(f.kind, f.count) for f in report] == [("judged-share", 32)]
    assert report.findings[0].message == "judged items in the top 10: 92.6% (398 of 430)"


@few(1)("judged", [True, False])
@pytest.mark.parametrize("collapse", ["#", "document"])
def test_chunks_are_checked_as_documents(judged, collapse):
    """With collapse=, the findings are those of the documents."""
    chunks = pl.DataFrame({
        "query": [*"aaabb"], "item": ["f#1", "f#2", "g#1", "f#1", "h#1"], "document": [*"ffgfh"],
        "score": [5.0, 4, 3, 2, 2],
    })  # fmt: skip
    documents = chunks[[0, 2, 3, 4]].with_columns(item="document")
    qrels = pl.DataFrame({"query": [*"ab"], "item": [*"gh"], "rel": 1}) if judged else None
    expected, found = (check(documents, qrels, k=1), check(chunks, qrels, k=1, collapse=collapse))
    facts = [[(x.kind, x.table, x.count) for x in each.findings] for each in (expected, found)]
    assert facts[0] == facts[1]
    assert "ties-at-k" in {kind for kind, *_ in facts[0]}


@few(1)(("note", "heading"), cycled(["no colon", ": ", "run: a: b", "{x}: 50%", ""], ["run", ""]))
def test_a_note_of_any_text_is_a_finding(note, heading, monkeypatch):
    read = check_module.read_rankings

    def read_and_note(session, *arguments, **options):
        session.note(heading, note)
        return read(session, *arguments, **options)

    monkeypatch.setattr(check_module, "read_rankings", read_and_note)
    report = check(scored(), judged())
    (finding,) = (x for x in report if x.kind == "reading")
    assert (finding.table, finding.message) == (heading, note)
    assert note.strip(" :") in repr(report)


def test_lines_that_count_as_comments_are_a_warning(tmp_path):
    lines = ["#a Q0 x 1 2.0 t", "b Q0 x 1 2.0 t", "b Q0 y 2 1.0 t"]
    path = tmp_path / "my.run"
    path.write_text("\n".join(lines))
    (finding,) = (x for x in check(path) if x.kind == "comments")
    assert (finding.level, finding.table) == ("warning", "run")
    assert finding.message.startswith("1 line begins with # and count as comments")


@pytest.mark.slow
def test_equal_questions_of_several_countries_are_told_by_a_key(tmp_path):
    """check, by= and duplicates name the key, which works; NULL in it names the column."""
    rows = {"query_text": ["red"] * 4, "country": ["de", "de", "fr", "fr"]}
    run = pl.DataFrame({**rows, "item": ["x", "y"] * 2, "score": [2.0, 1.0, 1.0, 2.0]})
    other = {"query_text": ["red"] * 2, "country": ["de", "fr"]}
    qrels = pl.DataFrame({**other, "item": ["x", "x"], "rel": [1, 1]})
    key = ["query_text", "country"]
    report = check(run, qrels)
    assert levels(report)[:2] == [("duplicate-items", "error"), ("duplicate-judgments", "error")]
    assert all(f"query={key!r}" in finding.why for finding in list(report)[:2])
    for options in ({}, {"by": "country"}):
        with pytest.raises(RankqlError, match=r"query=\['query_text', 'country'\]"):
            evaluate(run, qrels, "RR", **options)
    single = run.filter(pl.col("score") > 1)
    with pytest.raises(RankqlError, match=r"^by: country must .*\n    query=.*country"):
        evaluate(single, qrels.head(1).drop("country"), "RR", by="country")
    assert evaluate(run, qrels, "RR", query=key, by="country")["RR"] == 0.75
    assert evaluate(run, qrels.head(1).drop("country"), "RR", query=key)["RR"] == 0.75
    paths = [str(tmp_path / f"{name}.csv") for name in ("run", "qrels")]
    for path, frame in zip(paths, (run, qrels), strict=True):
        frame.write_csv(path)
    printed = CliRunner().invoke(main, ["eval", *paths]).output
    assert "--query query_text,country" in printed
    gaps = run.with_columns(country=pl.Series(["de", None, "fr", "fr"]))
    with pytest.raises(RankqlError, match=r"country is NULL in 1 of 4 rows.*IS NOT NULL"):
        evaluate(gaps, qrels, "RR", query=key)


def test_judgments_of_subtopics_are_no_duplicates():
    run = pl.DataFrame({"query": "a", "item": ["x", "y"], "score": [2.0, 1.0]})
    qrels = pl.DataFrame({"query": "a", "item": ["x", "x", "y"], "subtopic": [*"121"], "rel": 1})
    (finding,) = check(run, qrels).findings
    assert (finding.kind, finding.level, finding.count) == ("subtopics", "warning", 1)
    assert evaluate(run, qrels, "STREC@1")["STREC@1"] == 1
    (other,) = check(run, pl.concat([qrels] * 2).drop("subtopic")).findings
    assert (other.kind, other.level) == ("duplicate-judgments", "error")


def test_an_empty_table_is_an_error_with_what_to_look_at():
    (found, *_) = check(scored().clear(), judged()).findings
    assert (found.kind, found.level, found.table, found.count) == ("empty", "error", "run", 1)
    assert found.why == "There is nothing to evaluate. Check the path, the filter or the name."
