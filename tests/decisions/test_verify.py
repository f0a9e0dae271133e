"""verify finds every change of the inputs, the options and the file, and nothing else."""

import json
import random
import re
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import rankql
from rankql.cli.main import main
from rankql.core.base.errors import RankqlError
from rankql.core.base.manifest import MANIFEST_SUFFIXES, hash_numbers, read_manifest
from rankql.core.base.writing import public_name
from rankql.decisions import verify as module
from rankql.features import table_hashes
from support.parameters import few

FORMATS = (".html", ".md", ".json", ".parquet")
# A page of a comparison is its report.
MARKED = [pytest.param(x, marks=pytest.mark.report) if x == ".html" else x for x in FORMATS]
EVIL = "</script><script>alert(1)</script>--><!-- &amp;"


def make_run(seed, queries=12, items=10):
    rng = random.Random(seed)
    rows = [(f"q{q}", f"d{i}", rng.random()) for q in range(queries) for i in range(items)]
    return pl.DataFrame(rows, ["query", "item", "score"], orient="row")


OLD, NEW = make_run(1), make_run(2)
QRELS = OLD.select("query", "item").with_columns(
    rel=pl.Series([(7 * i * i + i // 3) % 4 for i in range(len(OLD))])
)
RUNS = {"old": OLD, "new": NEW}
QUERIES = QRELS.select("query").unique(maintain_order=True)
PARTS = QUERIES.with_columns(
    part=pl.int_range(pl.len()) % 2, weight=1.0 + pl.int_range(pl.len()) % 3
)
TRAIN = OLD.select("query", "item").gather_every(7)
METRICS = ["nDCG@5", "AP", "RR"]


def changed(frame, row, **values):
    """The frame with other values in a row."""
    here = pl.int_range(pl.len()) == row % len(frame)
    return frame.with_columns(
        pl.when(here).then(pl.lit(x, frame.schema[name])).otherwise(name).alias(name)
        for name, x in values.items()
    )


def shuffled(data):
    if isinstance(data, dict):
        return {name: shuffled(each) for name, each in data.items()}
    return data.sample(fraction=1, shuffle=True, seed=5)


def parts(verification):
    return verification.table["part"].to_list()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@cache
def compared():
    return rankql.compare(RUNS, QRELS, METRICS)


def saved(suffix=".md", run=None, **options):
    result = rankql.compare(run, QRELS, METRICS, **options) if run else compared()
    result.save(f"saved{suffix}")
    return f"saved{suffix}"


@few(1)(
    ("function", "suffix"),
    [("evaluate", ".json"), ("compare", ".md"), ("wide", ".parquet"), ("one system", ".md"),
     pytest.param("evaluate", ".html", marks=pytest.mark.report)],
)  # fmt: skip
def test_the_same_inputs_in_any_order_are_verified(function, suffix):
    runs = OLD if function == "one system" else RUNS
    call = rankql.compare if function in ("compare", "wide") else rankql.evaluate
    result = call(runs, QRELS, METRICS, attributes=PARTS, by="part")
    (result.wide() if function == "wide" else result).save(f"x{suffix}")
    run, qrels, about = map(shuffled, (runs, QRELS, PARTS))
    verification = rankql.verify(f"x{suffix}", run, qrels, attributes=about)
    assert verification.passed, verification
    runs_text = "1 run" if function == "one system" else "2 runs"
    title = f"Verified: {runs_text}, judgments, attributes, conventions and "
    assert verification.title.startswith(title)
    assert verification.title.endswith("numbers are the same") and not parts(verification)


OPTIONS = {
    "seen": {"metrics": ["Novelty@5", "nDCG@5"], "train": TRAIN, "seen": "drop"},
    "catalogue": {"metrics": ["Coverage@5"], "catalogue": QRELS.select("item").unique()},
    "catalogue size": {"metrics": ["Coverage@5"], "catalogue": 40},
    "weight": {"attributes": PARTS, "weight": "weight", "by": ["part + 1 AS more"],
               "min_score": {"old": 0.3, "new": 0.4}},
    "own metric": {"metrics": ["spread = max(score) - min(score)", "AP"], "interval": None},
    "profile": {"conventions": "trec_eval", "metrics": "map,ndcg_cut_5"},
    "convention": {"gain": "exp2", "ties": "expected", "undefined": "zero", "interval": "t",
                   "confidence": 0.9},
}  # fmt: skip
TABLES = ("attributes", "train", "catalogue")
NOT_COMPARED = {"own metric", "convention", "catalogue", "catalogue size"}


@few(1)(
    ("name", "function"),
    [*((name, rankql.evaluate) for name in OPTIONS),
     *((name, rankql.compare) for name in OPTIONS if name not in NOT_COMPARED)],
)  # fmt: skip
def test_options_come_from_the_file(name, function):
    options = {"metrics": METRICS, **OPTIONS[name]}
    tables = {x: options[x] for x in TABLES if isinstance(options.get(x), pl.DataFrame)}
    function(RUNS, QRELS, **options).save("x.md")
    assert rankql.verify("x.md", RUNS, QRELS, **tables).passed
    others = {label: table.head(len(table) - 1) for label, table in tables.items()}
    if others:
        assert {*others} <= {*parts(rankql.verify("x.md", RUNS, QRELS, **others))}


def test_options_of_compare():
    runs = {**RUNS, "third": make_run(3)}
    options = {"baseline": "new", "test": "randomisation", "resamples": 500, "seed": 3}
    path = saved(run=runs, **options, confidence=0.9, correction="bh")
    assert rankql.verify(path, [OLD, NEW, runs["third"]], QRELS).passed
    assert rankql.verify(path, {name: runs[name] for name in reversed(runs)}, QRELS).passed


@few(1)("rel", [{"buy": 3, "click": 1}, ("outcome", {"buy": 3, "click": 1})])
def test_events(rel):
    column = "event" if isinstance(rel, dict) else rel[0]
    events = QRELS.select("query", "item", pl.when(pl.col("rel") > 1).then(pl.lit("buy"))
                          .otherwise(pl.lit("click")).alias(column))  # fmt: skip
    rankql.evaluate(OLD, events, "nDCG@5", rel=rel).save("x.json")
    assert rankql.verify("x.json", OLD, events).passed


@pytest.mark.report
def test_judge():
    human = QRELS.filter(pl.col("query") != "q0")
    human = pl.concat([human, human.with_columns(query=pl.col("query") + "b")])
    run = pl.concat([OLD, OLD.with_columns(query=pl.col("query") + "b")])
    judge = pl.concat([QRELS, QRELS.with_columns(query=pl.col("query") + "b")])
    runs = {"old": run, "new": run.with_columns(score=-pl.col("score"))}
    rankql.compare(runs, human, "AP", judge=judge).save("x.html")
    assert "judge" in rankql.verify("x.html", runs, human, judge=judge).title
    other = changed(judge, 1, rel=9)
    assert parts(rankql.verify("x.html", runs, human, judge=other))[0] == "judge"


@pytest.mark.slow
def test_one_table():
    """With its own grades, and with the runs of several systems."""
    both = [run.join(QRELS, on=["query", "item"]).with_columns(system=pl.lit(name))
            for name, run in RUNS.items()]  # fmt: skip
    table, alone = pl.concat(both), both[0].drop("system")
    rankql.compare(table, metrics="AP", pool=False).save("x.md")
    rankql.evaluate(alone, metrics="AP").save("y.md")
    rankql.evaluate(table, metrics="AP", pool=True).save("z.md")
    assert rankql.verify("z.md", shuffled(table)).passed
    for path, rows in (("x.md", table), ("y.md", alone)):
        assert rankql.verify(path, rows).passed and rankql.verify(path, shuffled(rows)).passed
        assert parts(rankql.verify(path, changed(rows, 3, rel=9)))[0] == "run"


def test_a_manifest_must_say_whose_grades_count():
    rows = [("a", "q", "x", 1, 3), ("b", "q", "y", 1, 1)]
    table = pl.DataFrame(rows, ["system", "query", "item", "pos", "rel"], orient="row")
    result = rankql.evaluate(table, metrics="AP", pool=False)
    result.save("x.json")
    assert rankql.verify("x.json", table).passed
    del result.meta.call["options"]["pool"]  # as an earlier version wrote it
    result.save("y.json")
    with pytest.raises(rankql.RankqlError, match="does not say whose grades count"):
        rankql.verify("y.json", table)


@pytest.mark.slow
def test_files_frames_and_tables():
    """A hash is of values, not of types of files; 32-bit scores are other values."""
    Path("old.run").write_text("".join(f"{q} Q0 {d} 1 {s!r} x\n" for q, d, s in OLD.rows()))
    Path("my.qrels").write_text("".join(f"{q} 0 {d} {rel}\n" for q, d, rel in QRELS.rows()))
    OLD.write_csv("old.csv")
    OLD.write_csv("bare.csv", include_header=False)
    con = duckdb.connect()
    con.execute("CREATE TABLE runs AS FROM 'old.csv'")
    rankql.evaluate("old.run", "my.qrels", METRICS).save("x.md")
    for run in ("old.run", OLD, OLD.to_pandas()):
        assert rankql.verify("x.md", run, QRELS).passed
    con.register("judged", QRELS.to_arrow())
    assert rankql.verify("x.md", "runs", "judged", con=con).passed
    rankql.evaluate("bare.csv", "my.qrels", METRICS, columns=OLD.columns).save("y.md")
    assert rankql.verify("y.md", "bare.csv", "my.qrels").passed
    # Three metrics have a mean, two ends and three counts each.
    assert "conventions and 18 numbers are" in rankql.verify("x.md", OLD, QRELS).title
    short = OLD.with_columns(pl.col("score").cast(pl.Float32))
    assert parts(rankql.verify("x.md", short, QRELS))[0] == "run"


def test_values_per_query():
    """Ids are named, because the file has them."""
    rankql.evaluate(RUNS, QRELS, METRICS, output="x.parquet")
    rankql.evaluate(RUNS, QRELS, METRICS).save_values("y.parquet")
    for path in ("x.parquet", "y.parquet"):
        verification = rankql.verify(path, RUNS, QRELS)
        assert verification.passed and "72 numbers" in verification.title  # 2 runs, 3 metrics
    wrong = rankql.verify("x.parquet", RUNS, changed(QRELS, 0, rel=9))
    assert parts(wrong) == ["qrels", "numbers"] and ", q0 is" in wrong.table["difference"][1]


def test_what_differs_is_named():
    path = saved()

    def verify(runs=RUNS, qrels=QRELS):
        return dict(rankql.verify(path, runs, qrels).table.rows())

    differs = verify({"old": changed(OLD, 4, score=7.0), "new": NEW})
    assert differs["run old"] == "different scores" and {*differs} == {"run old", "numbers"}
    assert verify(qrels=changed(QRELS, 4, item="x"))["qrels"] == "different pairs; different grades"
    assert verify(qrels=QRELS.head(99))["qrels"].startswith("rows: 120 in the file, 99 now; diff")
    differs = verify(qrels=QRELS.rename({"rel": "grade"}))
    assert differs == {"qrels": "column of rel: 'rel' in the file, 'grade' now"}
    rankql.evaluate(OLD, QRELS, "ERR@5").save("x.md")
    differs = dict(rankql.verify("x.md", OLD, changed(QRELS, 4, rel=5)).table.rows())
    assert differs["conventions"] == "max_rel: 3.0 in the file, 5.0 now"


def test_numbers_although_inputs_are_equal(monkeypatch):
    path = saved()
    monkeypatch.setattr(module, "_list_numbers", lambda *_: ({"mean": 0.5}, {"mean": 0.5 + 1e-9}))
    (difference,) = rankql.verify(path, RUNS, QRELS).table.rows()
    assert difference[1].startswith("1 differ although all inputs are the same; mean is 0.5 in")
    monkeypatch.setattr(module, "_list_numbers", lambda *_: ({"mean": 0.5}, {"mean": 0.5 + 1e-11}))
    assert rankql.verify(path, RUNS, QRELS).passed


def test_another_version_and_another_hash_function(monkeypatch):
    path = saved()
    with monkeypatch.context() as patch:
        patch.setattr(rankql, "__version__", "99.0")
        assert parts(rankql.verify(path, RUNS, QRELS)) == ["version"]
    monkeypatch.setattr(table_hashes, "hash_function", lambda: {"duckdb": "9.9", "rows": "1"})
    ((part, text),) = rankql.verify(path, RUNS, changed(QRELS, 0, query="other")).table.rows()[:1]
    assert part == "hash" and text.startswith("cannot compare the tables: DuckDB ")
    verification = rankql.verify(path, {"old": NEW, "new": NEW}, QRELS)
    assert "run old" not in parts(verification) and "numbers" in parts(verification)


def test_data_that_fails():
    """Tables are compared even if they cannot be evaluated any more; a file must be there."""
    path = saved()
    twice = pl.concat([OLD, OLD.sort("score").tail(1).with_columns(pl.col("score") + 1)])
    verification = rankql.verify(path, {**RUNS, "old": twice}, QRELS)
    assert parts(verification) == ["run old", "evaluation"]
    with pytest.raises(RankqlError, match="does not exist"):
        rankql.verify(path, RUNS, "none.parquet")
    with pytest.raises(RankqlError, match=r"of run old, run new and qrels\. Pass these tables"):
        rankql.verify(path, {"old": OLD, "other": NEW}, QRELS)
    with pytest.raises(RankqlError, match="Pass these tables"):
        rankql.verify(path, RUNS, QRELS, train=TRAIN)


def test_files_without_a_manifest():
    rankql.compare(RUNS, QRELS).save("x.csv")
    rankql.evaluate(RUNS, QRELS, output="x.parquet")
    with pytest.raises(RankqlError, match=r"'x.csv' has no manifest: only .html, .md, .json, .par"):
        rankql.verify("x.csv", RUNS, QRELS)
    rankql.compare("x.parquet").save("y.md")  # of results, not of runs
    rankql.check(OLD, QRELS).save("z.json")
    rankql.combine(["x.parquet"]).save_values("c.parquet")
    QRELS.write_parquet("q.parquet")
    for path in ("y.md", "z.json", "c.parquet", "q.parquet"):
        with pytest.raises(RankqlError, match="has no manifest: it lacks the options of the call"):
            rankql.verify(path, RUNS, QRELS)
    assert not set(MANIFEST_SUFFIXES) & {".csv", ".tex", ".xlsx"}


def test_files_of_earlier_versions_are_read():
    """Their metadata had the sum of the hashes of the judgments alone."""
    rankql.evaluate(OLD, QRELS, METRICS, output="new.parquet")
    table = parquet.read_table("new.parquet")
    meta = json.loads(parquet.read_metadata("new.parquet").metadata[b"rankql"])
    number = meta.pop("tables")["qrels"]["grades"]
    for name in ("call", "hash", "digest"):
        del meta[name]
    meta["fingerprint"] = number
    parquet.write_table(table.replace_schema_metadata({"rankql": json.dumps(meta)}), "old.parquet")
    with pytest.raises(RankqlError, match="lacks the options of the call and the hashes"):
        rankql.verify("old.parquet", OLD, QRELS)
    both = {"a": "old.parquet", "b": rankql.evaluate(NEW, QRELS, METRICS)}
    assert not [note for note in rankql.compare(both).notes if "not known whether" in note]
    both["b"] = rankql.evaluate(NEW, changed(QRELS, 0, rel=9), METRICS)
    with pytest.raises(RankqlError, match="different judgments"):
        rankql.compare(both)


@few(2)("suffix", MARKED)
def test_a_manifest_is_text(suffix):
    """A label is no part of a page or a comment, and the file is still verified."""
    runs = {EVIL: OLD, '"rankql_manifest": {}': NEW}
    path = saved(suffix, runs)
    assert rankql.verify(path, runs, QRELS).passed
    if suffix in (".html", ".md"):
        text = Path(path).read_text("utf-8")
        manifest = text[text.rindex("rankql-manifest") :]
        manifest = manifest[manifest.index("{") : manifest.rindex("}") + 1]
        assert not {*"<>&"} & {*manifest.partition("}</script>")[0]} and EVIL not in manifest
        assert EVIL in json.loads(manifest.partition("</script>")[0])["systems"]


@pytest.mark.parametrize(("path", "name"), [
    ("s3://k:secret@b/x.parquet?X-Amz-Signature=1", "x.parquet"),
    ("s3://k:secret@b", "b"),
    ("https://user:pw@host/a/x.csv.gz?token=a/b.c#d", "x.csv.gz"),
    ("/home/someone/secret/x.parquet", "x.parquet"),
    (Path("secret", "x.run"), "x.run"),
    (r"C:\secret\x.csv", "x.csv"),
    ("day=?/*.parquet", "*.parquet"),
    ("table", "table"),
    (QRELS, ""),
])  # fmt: skip
def test_names_of_tables(path, name):
    assert public_name(path) == name


def test_no_path_no_query_and_no_id_is_in_a_manifest(tmp_path):
    folder = tmp_path / "secret"
    folder.mkdir()
    run = OLD.with_columns(query=pl.col("query") + "SECRET", item=pl.col("item") + "SECRET")
    qrels = QRELS.with_columns(query=pl.col("query") + "SECRET", item=pl.col("item") + "SECRET")
    run.write_parquet(folder / "run.parquet")
    result = rankql.evaluate(folder / "run.parquet", qrels, METRICS)
    for suffix in FORMATS:
        result.save(f"x{suffix}")
        manifest, intact = read_manifest(f"x{suffix}")
        text = json.dumps(manifest)
        assert intact and "secret" not in text.lower() and str(tmp_path) not in text
        assert manifest["call"]["inputs"] == {"run": "run.parquet", "qrels": ""}
        assert result.sql[:30] not in text and "SELECT" not in text


def test_a_manifest_names_no_file_to_read_or_to_write():
    """Even if somebody wrote one into it."""
    path = saved(".json")
    text = Path(path).read_text("utf-8")
    for option in ('"output": "evil.parquet"', '"train": "evil.csv"', '"catalogue": "evil.csv"'):
        Path("y.json").write_text(text.replace('"metrics":[', f'{option},"metrics":[', 2))
        assert "file" in parts(rankql.verify("y.json", RUNS, QRELS))
        assert not Path("evil.parquet").exists()
    Path("y.json").write_text(text.replace('"nDCG@5"', '"x = (SELECT 1)"'))
    assert {*parts(rankql.verify("y.json", RUNS, QRELS))} >= {"file"}


@few(2)("suffix", MARKED)
def test_a_line_end_is_no_change_but_a_digit_is(suffix):
    path = Path(saved(suffix))
    if suffix == ".parquet":
        table = pl.read_parquet(path)
        kept = pl.read_parquet_metadata(path)
        other = changed(table, 1, lo=table["lo"][1] + 1e-6)
        other.write_parquet(path, metadata={"rankql": kept["rankql"]})
        assert parts(rankql.verify(path, RUNS, QRELS)) == ["numbers"]
        return
    text = path.read_text("utf-8")
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert rankql.verify(path, RUNS, QRELS).passed
    digits = [match.start() for match in re.finditer(r"\d\.\d{4}", text)]
    place = digits[0]
    path.write_text(f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}", "utf-8")
    assert parts(rankql.verify(path, RUNS, QRELS)) == ["file"]


# Random mutations


def mutate_table(rng, frame, value):
    """The frame after a change of a row: of an id or the value, added or removed."""
    row = rng.randrange(len(frame))
    kind = rng.choice(["value", "null", "item", "query", "remove", "add", "swap", "repeat"])
    if kind == "value":
        return kind, changed(frame, row, **{value: frame[value][row] + rng.choice([1, 2])})
    if kind == "null":
        return kind, changed(frame, row, **{value: None})
    if kind in ("item", "query"):
        return kind, changed(frame, row, **{kind: f"new{rng.randrange(9)}"})
    if kind == "remove":
        return kind, frame.filter(pl.int_range(pl.len()) != row)
    if kind in ("add", "repeat"):
        added = frame[row] if kind == "repeat" else changed(frame[row], 0, item="added")
        return kind, pl.concat([frame, added])
    other = next(x for x in range(len(frame)) if frame[value][x] != frame[value][row])
    values = frame[value][other], frame[value][row]
    frame = changed(frame, row, **{value: values[0]})
    return kind, changed(frame, other, **{value: values[1]})


def mutate_file(rng, path):
    """Change a character of a text, or a number of Parquet, that is not only white space."""
    if path.suffix == ".parquet":
        table, kept = pl.read_parquet(path), pl.read_parquet_metadata(path)
        names = [x for x in table.columns if table[x].dtype == pl.Float64]
        name, row = rng.choice(names), rng.randrange(len(table))
        value = 0.5 if table[name][row] is None else table[name][row] * 1.01 + 0.001
        changed(table, row, **{name: value}).write_parquet(
            path, metadata={"rankql": kept["rankql"]}
        )
        return
    text = path.read_text("utf-8")
    start = text.index("<header>") if path.suffix == ".html" else 0
    place = rng.choice([i for i in range(start, len(text)) if not text[i].isspace()])
    other = rng.choice([x for x in "0123456789abcxyz" if x != text[place]])
    path.write_text(f"{text[:place]}{other}{text[place + 1 :]}", "utf-8")


@pytest.mark.report
def test_random_mutations_are_named():
    rng = random.Random(0)
    original = {suffix: Path(f"original{suffix}") for suffix in FORMATS}
    compared, evaluated = rankql.compare(RUNS, QRELS, METRICS), rankql.evaluate(RUNS, QRELS, "P@3")
    for suffix, path in original.items():
        (evaluated if suffix == ".md" else compared).save(path)
    for _ in range(25):
        part, suffix = rng.choice(["run old", "run new", "qrels", "file"]), rng.choice(FORMATS)
        path = original[suffix]
        if part == "file":
            path = path.with_stem("mutated")
            path.write_bytes(original[suffix].read_bytes())
            mutate_file(rng, path)
            try:
                assert {*parts(rankql.verify(path, RUNS, QRELS))} & {"file", "numbers"}
            except RankqlError as error:  # the manifest cannot be read, or is not found
                assert "manifest" in str(error) or "The saved result is of" in str(error)
            continue
        name = part.removeprefix("run ")
        is_run = name in RUNS
        kind, table = mutate_table(rng, RUNS.get(name, QRELS), "score" if is_run else "rel")
        runs = {**RUNS, name: table} if is_run else RUNS
        verification = rankql.verify(path, runs, QRELS if is_run else table)
        assert part in parts(verification), (kind, verification)


# The command line


def run_cli(*arguments):
    return CliRunner().invoke(main, arguments)


@pytest.mark.slow
def test_command():
    for name, frame in {"a": OLD, "b": NEW, "q": QRELS, "t": TRAIN}.items():
        frame.write_parquet(f"{name}.parquet")
    metrics = ["-m", "AP", "-m", "Novelty@5"]
    made = run_cli("report", "old=a.parquet", "new=b.parquet", "q.parquet", *metrics,
                   "--train", "t.parquet", "-o", "r.md")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    inputs = ["new=b.parquet", "old=a.parquet", "train=t.parquet", "qrels=q.parquet"]
    for files in (["a.parquet", "b.parquet", "q.parquet", "t.parquet"],
                  ["q.parquet", "new=b.parquet", "train=t.parquet", "old=a.parquet"]):  # fmt: skip
        done = run_cli("verify", "r.md", *files)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.startswith("Verified: 2 runs, judgments, train, conventions and ")
    done = run_cli("verify", "r.md", "b.parquet", "a.parquet", "q.parquet", "t.parquet")
    assert done.exit_code == 1 and done.stdout.startswith("Differs: run old, run new and numbers")
    for files in (inputs[:3], [*inputs, "a.parquet"], ["x=a.parquet", *inputs[1:]]):
        done = run_cli("verify", "r.md", *files)
        assert done.exit_code == 2 and "Pass" in done.stderr, done.stderr
    assert run_cli("verify", "a.parquet", *inputs).exit_code == 2
    made = run_cli("eval", "a.parquet", "q.parquet", "-o", "v.parquet")
    assert run_cli("verify", "v.parquet", "a.parquet", "q.parquet").exit_code == 0


def test_no_manifest_is_an_error():
    for text in ("", "{", "[]", '{"rankql_manifest": []}', '{"rankql_manifest": {"call": 3}}', "é"):
        Path("x.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(RankqlError, match="manifest"):
            rankql.verify("x.json", RUNS, QRELS)
    with pytest.raises(RankqlError, match="No such file"):
        rankql.verify("none.json", RUNS, QRELS)


def test_the_result_of_a_comparison():
    """Its means are of the queries that all systems define."""
    rankql.compare(RUNS, QRELS.filter(pl.col("query") != "q1"), METRICS).result.save("x.json")
    assert rankql.verify("x.json", RUNS, QRELS.filter(pl.col("query") != "q1")).passed


def test_a_digit_that_changes_no_number():
    """The text of the manifest counts, not what its numbers are rounded to."""
    path = Path(saved(".json"))
    text = path.read_text("utf-8")
    for match in re.finditer(r"0\.\d{17}", text):
        for digit in "0123456789":
            other = f"{match[0][:-1]}{digit}"
            if other != match[0] and float(other) == float(match[0]):
                path.write_text(text[: match.start()] + other + text[match.end() :], "utf-8")
                assert parts(rankql.verify(path, RUNS, QRELS)) == ["file"]
                return
    pytest.fail("no such number")


# The size of a manifest


MANY = [*(f"nDCG@{k}" for k in range(1, 26)), *(f"P@{k}" for k in range(1, 26))]


@pytest.mark.parametrize(
    ("function", "suffix"),
    [("evaluate", ".md"), pytest.param("compare", ".html", marks=pytest.mark.report)],
)
def test_a_manifest_of_text_has_two_kilobytes_at_most(function, suffix):
    """It has a hash per metric for the numbers, which the file shows; slices add nothing."""
    call, path = getattr(rankql, function), Path(f"x{suffix}")
    for metrics, options in (
        (MANY, {}),
        (METRICS, {"attributes": PARTS, "by": ["part", "weight"]}),
    ):
        call(RUNS, QRELS, metrics, **options).save(path)
        text = path.read_text("utf-8")
        end = text.index("</script>", text.rindex("rankql-manifest")) if suffix != ".md" else None
        assert len(text[text.rindex("rankql-manifest") : end].encode()) <= 2048
        assert rankql.verify(path, RUNS, QRELS, attributes=options.get("attributes")).passed


def test_a_metric_whose_numbers_differ_is_named_with_numbers_of_now():
    """Of other metrics nothing is said: their hashes are the same."""
    path = saved()
    manifest, _ = read_manifest(path)
    hashes = manifest["hashes"]["means"]
    text = Path(path).read_text("utf-8")
    Path(path).write_text(text.replace(hashes, hashes[:4] + "AAAA" + hashes[8:]), "utf-8")
    differs = dict(rankql.verify(path, RUNS, QRELS).table.rows())
    assert {*differs} == {"file", "numbers"}
    mean = rankql.compare(RUNS, QRELS, METRICS).summary.filter(metric="AP")["mean"][0]
    assert differs["numbers"].startswith(f"1 differ; AP is different in the file, {mean:.9g} (mean")
    assert differs["numbers"].count("(means: ") == 3 and "nDCG@5" not in differs["numbers"]


def test_a_hash_is_of_nine_significant_digits():
    """Sums in another order are the same numbers."""
    numbers = {"a": 0.1234567891, "b": 3, "c": "word", "d": 1e-17}
    close = {**numbers, "a": numbers["a"] * (1 + 1e-13), "d": 0.0}
    assert hash_numbers(numbers) == hash_numbers(close)
    for other in ({"a": 0.12345678912}, {"b": 4}, {"c": "other"}, {"d": 1e-9}):
        assert (hash_numbers({**numbers, **other}) == hash_numbers(numbers)) == ("a" in other)
    assert hash_numbers({**numbers, "a": 0.1234568}) != hash_numbers(numbers)


def test_without_inputs_those_of_the_file_are_named(tmp_path):
    OLD.write_csv("old.csv")
    QRELS.write_csv("my.csv")
    rankql.evaluate("old.csv", "my.csv", METRICS).save("x.md")
    message = "The saved result is of run (old.csv) and qrels (my.csv). Pass these tables"
    with pytest.raises(RankqlError, match=re.escape(message)):
        rankql.verify("x.md")
    done = CliRunner().invoke(main, ["verify", "x.md"])
    assert done.exit_code == 2 and message in done.output
