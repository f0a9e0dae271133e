"""The page for the browser: its values are rankql's, and nothing leaves the machine."""

import functools
import http.server
import importlib.util
import json
import random
import shutil
import subprocess
import threading

import polars as pl
import pytest

import rankql
from support import metric_engines
from support.components import program
from support.environments import run
from support.paths import ROOT

SOURCES = ROOT / "docs" / "browser"
NAMES = ("dcg", "idcg", "ndcg", "ap", "rr", "err", "rbp")


# nDCG by hand


def random_ranking(rng):
    """A ranking with unjudged and negative grades, and options of the page."""
    scale = rng.choice([1, 3, 5])
    grade = [*range(scale + 1), 0, rng.choice([None, -1, 0.5])]
    options = {
        "k": rng.choice([None, 1, 3, 5, 100]),
        "gain": rng.choice(["linear", "exp2"]),
        "threshold": rng.choice([1, 2, 0, -0.5]),
        "maxRel": scale + rng.choice([0, 2]),
        "p": rng.choice([0.3, 0.8, 0.95]),
        "missing": rng.choices([*range(scale + 1)], k=rng.choice([0, 0, 1, 4])),
    }
    # Grades that are all below the threshold of RBP are refused.
    return [[*rng.choices(grade, k=rng.randint(1, 8)), 1], options]


@pytest.mark.npm
def test_values_by_hand():
    """Values, copied SQL and copied polars line agree to 1e-12, NULL where NULL."""
    rng = random.Random(7)
    cases = [random_ranking(rng) for _ in range(40)]
    cases += [[[2, 3, 1, 0], {}], [[3, 0, 3, 0], {}], [[5, 2, 3], {"maxRel": 5}], [[0, None], {}]]
    script = f"""
        import {{ asCode, evaluateRanking }} from {json.dumps((SOURCES / "metrics.js").as_uri())};
        const cases = {json.dumps(cases)};
        console.log(JSON.stringify(cases.map((c) => [evaluateRanking(...c), asCode(...c)])));"""
    printed = run(program("node"), "--input-type=module", input=script)
    con = metric_engines.connect()
    for number, (values, code) in enumerate(json.loads(printed)):
        case = cases[number]
        assert tuple(values) == NAMES
        expected = pytest.approx(numbers(values.values()), abs=1e-12, rel=0)
        if number % 10 == 0:  # DuckDB takes 0.2 s to plan it
            assert numbers(con.execute(code["sql"]).fetchone()) == expected, case
        (polars,) = eval(code["polars"], {"pl": pl, "rankql": rankql}).rows()
        assert numbers(polars) == expected, case


def numbers(values):
    """The values, with a number for NULL, because approx does not compare None."""
    return [-99 if value is None else value for value in values]


SPEC = importlib.util.spec_from_file_location("browser_page", ROOT / "docs" / "browser_page.py")
BUILD = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BUILD)


# Evaluate your own files


@pytest.mark.npm
@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        ({"query": "query", "item": "item", "score": "score"}, {"rel": "rel"}),
        ({"query": "qid", "item": "item", "score": "score"}, {"rel": "label"}),
        ({"query": "query", "item": "item", "pos": "pos", "score": "score"}, {"rel": "rel"}),
        ({"query": "query", "item": "docno", "pos": "rank"}, {"item": "docno", "rel": "label"}),
    ],
)
def test_the_columns_line_is_that_of_python(run, qrels, tmp_path):
    """Two runs of the same columns are one table there."""
    qrels = {"query": "query", "item": "item", **qrels}
    values = {"query": ["a"], "item": ["x"], "pos": [1], "score": [1.0], "rel": [1]}
    tables = [pl.DataFrame({column: values[role] for role, column in each.items()})
              for each in (run, run, qrels)]  # fmt: skip
    result = rankql.evaluate({"a": tables[0], "b": tables[1]}, tables[2], "RR")
    (line,) = (x for x in result.remarks() if x.startswith("Columns: "))
    for path in SOURCES.glob("*.js"):
        shutil.copy(path, tmp_path)
    (tmp_path / "names.js").write_text(BUILD.names_module(has_engine=False))
    names = ("run 'a'", "run 'b'", "qrels")
    files = [{"name": name, "roles": {role: roles.get(role) for role in BUILD.ROLES}}
             for name, roles in zip(names, (run, run, qrels), strict=True)]  # fmt: skip
    script = f"""
        import {{ columnsLine }} from {json.dumps((tmp_path / "evaluation.js").as_uri())};
        console.log(columnsLine({json.dumps(files)}));"""
    done = subprocess.run(
        [program("node"), "--input-type=module"], input=script, capture_output=True, text=True
    )
    assert done.stdout.rstrip("\n") == line, done.stderr


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def page(browser, tmp_path):
    """The page with what it brings by npm, and what it logs and asks from other addresses."""
    assert BUILD.build_folder(tmp_path / "browser") == ""
    handler = functools.partial(Quiet, directory=tmp_path / "browser")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, page = f"http://127.0.0.1:{server.server_port}", browser.new_page()
    page.events = []
    page.on("console", lambda message: page.events.append(message.text))
    page.on("pageerror", lambda error: page.events.append(str(error)))
    page.on("request", lambda r: r.url.startswith((url, "blob:")) or page.events.append(r.url))
    page.goto(f"{url}/index.html")
    yield page
    server.shutdown()


def write_runs(folder):
    """Two runs of 60 queries and their judgments; one query is not in the runs, one not judged."""
    rng = random.Random(7)
    rows = [(f"q{q}", f"d{i}", rng.randrange(4), "ab"[q % 2]) for q in range(60) for i in range(25)]
    items = pl.DataFrame(rows, ["qid", "docno", "label", "segment"], orient="row")
    kept = [rng.random() < 0.6 and query != "q7" for query in items["qid"]]
    items.filter(kept).write_parquet(folder / "qrels.parquet")
    for name, noise in (("old", 3), ("new", 1)):
        scores = [grade + rng.randint(-noise, noise) for grade in items["label"]]  # with ties
        shown = [rng.random() < 0.7 and query != "q3" for query in items["qid"]]
        run = items.select("qid", "docno", pl.Series("similarity", scores)).filter(shown)
        run.write_parquet(folder / f"{name}.parquet")


def done(page):
    """Wait for the task; return its error."""
    page.locator("#progress:empty").wait_for(state="attached", timeout=90_000)
    return page.locator("#files-problem:not([hidden])").all_inner_texts()


def downloaded(page, name):
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download {name}").click()
    return pl.read_csv(download.value.path(), infer_schema_length=None)


def same(result, expected):
    """Are all columns of numbers equal to 1e-12?"""
    assert len(result) == len(expected)
    for name in expected.columns:
        column = [None if value == "" else value for value in result[name].to_list()]
        if expected[name].dtype.is_numeric():
            values = pytest.approx(numbers(expected[name]), abs=1e-12, rel=1e-12)
            assert numbers(column) == values, name
        else:
            assert column == expected[name].to_list(), name


METRICS = ["nDCG@5", "nDCG@10", "nDCG(gain=exp2)@5", "AP(denominator=R)@10", "RR@10", "RBP(p=0.8)"]


@pytest.mark.npm
def test_the_page_opens_and_equals_python(page, tmp_path):
    """Values by hand, two runs as files, a comparison, an error; nothing leaves the machine."""
    write_runs(tmp_path)
    page.select_option("#example", label="3, 0, 3, 0")
    values = [page.locator(f"[data-metric={x}]").inner_text() for x in ("dcg", "ap", "rr")]
    assert values == ["4.5000", "0.8333", "1.0000"]
    runs = {name: str(tmp_path / f"{name}.parquet") for name in ("old", "new")}
    qrels = str(tmp_path / "qrels.parquet")
    page.set_input_files("#chooser", [qrels, *runs.values()])
    assert done(page) == []
    page.fill("#metrics", ", ".join(METRICS))
    page.select_option("#by", "segment")
    page.click("#evaluate")
    assert done(page) == []
    keys = ["system", "slice", "metric"]
    expected = rankql.evaluate(runs, qrels, METRICS, by="segment").summary
    columns = [*keys, "mean", "lo", "hi", "queries", "undefined", "missing"]
    same(downloaded(page, "summary.csv").sort(keys), expected.select(columns).sort(keys))
    compared = rankql.compare(runs, qrels, METRICS, by="segment", test="t").pairs
    compared = compared.rename({"p_adjusted": "adjusted p", "n": "queries"})
    columns = ["slice", "metric", "difference", "lo", "hi", "p", "adjusted p", "queries"]
    result = downloaded(page, "comparison.csv").sort(keys[1:])
    same(result, compared.select(columns).sort(keys[1:]))
    page.click("#editor summary")
    page.fill("#query", "SELECT grades_of(['a', 'b'], [{'id': 'b', 'rel': 2}]) AS grades")
    page.click("#run-query")  # without the extension json
    assert done(page) == []
    assert downloaded(page, "answer.csv").rows() == [("[NULL, 2.0]",)]
    page.fill("#metrics", "nDGC")
    page.click("#evaluate")
    (message,) = done(page)
    assert message.startswith("Unknown metric 'nDGC'. Available: nDCG, DCG,")
    assert page.events == []


def test_packages_are_checked(tmp_path, monkeypatch):
    """A package with another digest stops the build, and is brought again the next time."""
    monkeypatch.setattr(BUILD, "CACHE", tmp_path)
    archive = tmp_path / "duckdb-duckdb-wasm-1.32.0.tgz"
    archive.write_bytes(b"another file")
    with pytest.raises(SystemExit, match=r"@duckdb/duckdb-wasm@1\.32\.0 has another digest"):
        BUILD.build_folder(tmp_path / "page")
    assert not archive.exists()
