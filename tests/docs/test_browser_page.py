"""The page for the browser: its values are rankql's, and nothing leaves the machine."""

import functools
import http.server
import importlib.util
import json
import random
import subprocess
import threading

import polars as pl
import pytest

import rankql
from support import metric_engines
from support.components import program
from support.paths import ROOT
from support.screens import SCREENS

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
    cases = [random_ranking(rng) for _ in range(100)]
    cases += [[[2, 3, 1, 0], {}], [[3, 0, 3, 0], {}], [[5, 2, 3], {"maxRel": 5}], [[0, None], {}]]
    script = f"""
        import {{ asCode, evaluateRanking }} from {json.dumps((SOURCES / "metrics.js").as_uri())};
        const cases = {json.dumps(cases)};
        console.log(JSON.stringify(cases.map((c) => [evaluateRanking(...c), asCode(...c)])));"""
    done = subprocess.run(
        [program("node"), "--input-type=module"], input=script, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    con = metric_engines.connect()
    for number, (values, code) in enumerate(json.loads(done.stdout)):
        case = cases[number]
        assert tuple(values) == NAMES
        expected = pytest.approx(numbers(values.values()), abs=1e-12, rel=0)
        if number % 25 == 0:  # DuckDB takes 0.2 s to plan it
            assert numbers(con.execute(code["sql"]).fetchone()) == expected, case
        (polars,) = eval(code["polars"], {"pl": pl, "rankql": rankql}).rows()
        assert numbers(polars) == expected, case


def numbers(values):
    """The values, with a number for NULL, because approx does not compare None."""
    return [-99 if value is None else value for value in values]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(folder):
    """A server of a folder, and its address."""
    handler = functools.partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


def load_build():
    spec = importlib.util.spec_from_file_location("browser_page", ROOT / "docs" / "browser_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = load_build()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page as it is built without npm."""
    folder = tmp_path_factory.mktemp("by_hand")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BUILD, "CACHE", folder / "cache")
        patch.setenv("PATH", "")
        assert BUILD.build_folder(folder / "browser") == "npm is not installed"
    server, url = serve(folder / "browser")
    yield url
    server.shutdown()


def opened(browser, url, **screen):
    """The page, and what it logs; every address but its own is refused and noted."""
    page, events = browser.new_page(**screen), []
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on("request", lambda r: r.url.startswith((url, "blob:")) or events.append(r.url))
    page.goto(f"{url}/index.html")
    page.locator("[data-metric=ndcg]").wait_for()
    return page, events


def value(page, metric):
    return page.locator(f"[data-metric={metric}]").inner_text()


WIDER = "() => document.documentElement.scrollWidth > innerWidth"


@pytest.mark.parametrize("screen", SCREENS)
def test_by_hand_in_a_browser(browser, address, screen):
    page, events = opened(browser, address, **SCREENS[screen])
    assert not page.evaluate(WIDER)
    page.context.set_offline(True)
    page.select_option("#example", label="3, 0, 3, 0")
    assert [value(page, name) for name in ("dcg", "ap", "rr")] == ["4.5000", "0.8333", "1.0000"]
    # By mouse: the first item below the last.
    first, last = page.locator(".handle").first, page.locator("#ranking tbody tr").last
    start, end = first.bounding_box(), last.bounding_box()
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    for share in (0.3, 0.6, 1):
        page.mouse.move(start["x"] + 5, start["y"] + share * (end["y"] - start["y"]) + 30)
    page.mouse.up()
    grades = page.locator(".grade").evaluate_all("all => all.map(x => x.value)")
    assert grades == ["0", "3", "0", "3"]
    assert value(page, "rr") == "0.5000"
    page.fill("#k", "0")
    assert page.locator("#problem").inner_text() == (
        "The cutoff k must be a whole number from 1, not '0'."
    )
    assert "built without npm" in page.locator("#no-engine").inner_text()
    assert events == []
    page.close()


def test_opened_as_a_file_it_says_what_to_do(browser):
    """A browser does not load modules from a file, so the tables would be empty."""
    page = browser.new_page()
    page.goto((SOURCES / "index.html").as_uri())
    assert "python -m http.server --directory site" in page.inner_text("#not-started")
    visible = "[...document.querySelectorAll('section')].some((each) => each.offsetHeight)"
    assert page.evaluate(visible) is False
    page.close()


def test_by_hand_with_the_keyboard(browser, address):
    page, events = opened(browser, address)
    page.select_option("#example", label="2, 3, 1, 0")
    handle = page.get_by_role("button", name="Item 2", exact=True)
    handle.focus()
    page.keyboard.press("ArrowUp")
    assert value(page, "ndcg") == "1.0000"
    assert page.locator("#moved").inner_text() == "Item 2: position 1 of 4, nDCG 1.0000"
    assert handle.evaluate("node => node === document.activeElement")
    page.keyboard.press("End")
    assert value(page, "rr") == "1.0000"
    assert page.locator(".grade").last.input_value() == "3"
    # A quiz hides the values until the answer is right.
    page.select_option("#example", label="What is the DCG of 5, 2, 3?")
    assert value(page, "dcg") == "?"
    page.fill("#answer", "9")
    page.keyboard.press("Enter")
    assert "Not 9" in page.locator("#reply").inner_text()
    page.fill("#answer", "7.76")
    page.keyboard.press("Enter")
    assert "Correct" in page.locator("#reply").inner_text()
    assert value(page, "dcg") == "7.7619"
    assert events == []
    page.close()


# Evaluate your own files

METRICS = (
    "nDCG@5,10, nDCG(gain=exp2)@5, AP(denominator=R)@10, RR@10, ERR@10, RBP(p=0.8), P(rel=2)@5, "
    "F1@10, Judged@10"
)
NAMES_OF_METRICS = METRICS.replace(", ", ",").replace("@5,10", "@5,nDCG@10").split(",")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The page in a folder, with what it brings by npm."""
    folder = tmp_path_factory.mktemp("built") / "browser"
    assert BUILD.build_folder(folder) == ""
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two runs of 60 queries and their judgments; one query is not in the runs, one not judged."""
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(7)
    rows = [(f"q{q}", f"d{i}", rng.randrange(4), "ab"[q % 2]) for q in range(60) for i in range(25)]
    items = pl.DataFrame(rows, ["qid", "docno", "label", "segment"], orient="row")
    kept = [rng.random() < 0.6 and query != "q7" for query in items["qid"]]
    qrels = items.filter(kept)
    qrels.write_parquet(folder / "qrels.parquet")
    for name, noise in (("old", 3), ("new", 1)):
        scores = [grade + rng.randint(-noise, noise) for grade in items["label"]]  # with ties
        shown = [rng.random() < 0.7 and query != "q3" for query in items["qid"]]
        run = items.select("qid", "docno", pl.Series("similarity", scores)).filter(shown)
        run.write_parquet(folder / f"{name}.parquet")
        run.write_csv(folder / f"{name}.csv")
        lines = [f"{q}  Q0\t{d} 1 {s} run\n" for q, d, s in run.rows()]
        (folder / f"{name}.run").write_text("".join(lines))
    lines = [f"{q} 0 {d} {rel}\n" for q, d, rel, _ in qrels.rows()]
    (folder / "qrels.txt").write_text("".join(lines))
    shown = pl.int_range(1, pl.len() + 1).over("qid")
    items.with_columns(rank=shown, brand=pl.col("docno")).write_csv(folder / "ranked.csv")
    return folder


@pytest.fixture(scope="module")
def page(browser, built):
    """One page for all tests of this section, because DuckDB takes seconds to open."""
    server, url = serve(built)
    page, events = opened(browser, url)
    page.on("dialog", lambda dialog: events.append(dialog.message))
    page.events = events
    yield page
    server.shutdown()


@pytest.fixture
def files(page):
    """Adds files to the page, which has none before."""
    page.set_viewport_size(SCREENS["wide"]["viewport"])
    remove_all(page)
    page.events.clear()

    def add(*paths):
        page.set_input_files("#chooser", paths)
        return done(page)

    return add


def remove_all(page):
    while page.locator("#loaded fieldset").count():
        page.get_by_role("button", name="Remove", exact=True).first.click()
        done(page)


def done(page):
    """Wait for the task; return its error."""
    page.locator("#progress:empty").wait_for(state="attached", timeout=90_000)
    return page.locator("#files-problem:not([hidden])").all_inner_texts()


def evaluate(page, metrics, by=""):
    page.fill("#metrics", metrics)
    page.select_option("#by", by)
    page.click("#evaluate")
    return done(page)


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


@pytest.mark.npm
def test_two_runs_equal_python(page, files, data):
    runs = {name: str(data / f"{name}.parquet") for name in ("old", "new")}
    qrels = str(data / "qrels.parquet")
    assert files(qrels, *runs.values()) == []
    assert evaluate(page, METRICS, "segment") == []
    keys = ["system", "slice", "metric"]
    expected = rankql.evaluate(runs, qrels, NAMES_OF_METRICS, by="segment").summary
    columns = [*keys, "mean", "lo", "hi", "queries", "undefined", "missing"]
    same(downloaded(page, "summary.csv").sort(keys), expected.select(columns).sort(keys))

    compared = rankql.compare(runs, qrels, NAMES_OF_METRICS, by="segment", test="t").pairs
    compared = compared.rename({"p_adjusted": "adjusted p", "n": "queries"})
    columns = ["slice", "metric", "difference", "lo", "hi", "p", "adjusted p", "queries"]
    result = downloaded(page, "comparison.csv").sort(keys[1:])
    same(result, compared.select(columns).sort(keys[1:]))
    assert page.events == []


FORMATS = [["ranked.csv"], ["new.run", "qrels.txt"], ["old.csv", "qrels.parquet"]]


@pytest.mark.npm
@pytest.mark.parametrize("names", FORMATS)
def test_formats_equal_python(page, files, data, names):
    paths = [str(data / name) for name in names]
    assert files(*paths) == []
    assert evaluate(page, "nDCG@10, AP") == []
    expected = rankql.evaluate(*paths, metrics=["nDCG@10", "AP"]).summary
    same(downloaded(page, "summary.csv"), expected)
    assert page.events == []


WRONG = {
    "damaged": (["damaged.parquet"], "Cannot read damaged.parquet as Parquet: "),
    "empty": (["empty.csv"], "empty.csv is empty. "),
    "json": (["run.json"], "Cannot read run.json: it is JSON. Supported: Parquet, CSV"),
    "marco": (["marco.tsv"], "marco.tsv looks like an MS MARCO run, which has no names of columns"),
    "utf-16": (["utf16.csv"], "utf16.csv is not UTF-8 text. Convert it"),
    "grades": (["old.csv"], "No grade column in old.csv: expected one of rel, relevance,"),
    "text": (["text.csv"], "text.csv: rel must be a finite number, not good"),
    "position": (["zero.csv"], "zero.csv: pos must be a whole number from 1, not 0"),
    "twice": (["twice.csv"], "Item 'd1' of query 'q1' is in twice or its judgments twice. Keep"),
    "ids": (
        ["old.csv", "other.csv"],
        "No query of old.csv is judged: it has 'q0', 'q1',",
    ),
}


@pytest.fixture(scope="module")
def wrong(data):
    qrels = (data / "qrels.parquet").read_bytes()
    (data / "damaged.parquet").write_bytes(qrels[: len(qrels) // 2])
    (data / "utf16.csv").write_text("query,item,rel,pos\nq1,d1,1,1\n", "utf-16")
    for name, text in {
        "empty.csv": "",
        "run.json": '{"q1": {"d1": 1}}',
        "marco.tsv": "q1\td1\t1\nq1\td2\t2\n",
        "text.csv": "query,item,rel,pos\nq1,d1,good,1\n",
        "zero.csv": "query,item,rel,pos\nq1,d1,1,0\n",
        "twice.csv": "query,item,rel,pos\nq1,d1,1,1\nq1,d1,1,2\n",
        "other.csv": "query,item,rel\n1,d1,1\n",
    }.items():
        (data / name).write_text(text)
    return data


@pytest.mark.npm
def test_wrong_files(page, files, wrong):
    """Each error names the file, and the next file is read."""
    for names, expected in WRONG.values():
        remove_all(page)
        (message,) = files(*(wrong / name for name in names)) or evaluate(page, "nDCG@10")
        assert message.startswith(expected)
    remove_all(page)
    assert files(wrong / "ranked.csv") == []
    for metric, expected in {
        "nDGC": "Unknown metric 'nDGC'. Available: nDCG, DCG,",
        "RBP": "'RBP': p must be given, as in RBP(p=0.8).",
        "P(rel=x)@5": "'P(rel=x)@5': rel must be a number, not x.",
        "Rprec@5": "Rprec has no cutoff. Leave out @5.",
    }.items():
        (message,) = evaluate(page, metric)
        assert message.startswith(expected)
    (message,) = evaluate(page, "AP", "brand")
    assert message.startswith("brand must have one value per query, but query 'q0' has 'd0' and")


@pytest.mark.npm
def test_hostile_names_and_cells(page, files, data):
    """They are shown as text, and are no code in SQL or HTML."""
    name = data / f"{HOSTILE.replace('/', '')}'\"; DROP TABLE ranking; --.csv"
    rows = f'query,item,rel,pos,"{HOSTILE}"\n{HOSTILE},d1,1,1,"\'; x"\n"=1+1",d1,0,1,<b>\n'
    name.write_text(rows)
    assert files(name) == []
    assert page.locator("legend").inner_text() == f"{name.name}: 2 rows"
    assert evaluate(page, "nDCG@10", HOSTILE) == []
    text = page.locator("#results").inner_text()
    assert HOSTILE in text and f"{HOSTILE}='; x" in text
    assert downloaded(page, "per_query.csv")["query"].to_list() == [HOSTILE, "=1+1"]
    assert page.locator("main img, #results b").count() == 0
    assert page.events == []


@pytest.mark.npm
def test_sql_editor(page, files, data):
    assert files(data / "qrels.txt", data / "old.csv", data / "new.csv") == []
    assert evaluate(page, "nDCG@10") == []
    page.locator("#editor summary").click()

    def answer(sql):
        page.fill("#query", sql)
        page.locator("#query").press("Control+Enter")
        return done(page) or page.locator("#answer-table td").all_inner_texts()

    page.click("#run-query")  # the example
    assert done(page) == []
    assert page.locator("#answer-table tbody tr").count() == 10
    assert answer("SELECT round(list_ndcg([2, 3, 1, 0]), 4), 7::HUGEINT, [1]") == [
        "0.9225", "7", "[1]",
    ]  # fmt: skip
    assert answer("SELECT count(DISTINCT query) FROM ranking;") == ["59"]
    assert answer("SELECT ndcg(rel, pos, 0) FROM ranking")[0].startswith("k must be a whole number")
    (message,) = answer("SELECT grades_of(['a'], ['a'])")
    assert message.startswith("grades_of does not run in the browser")
    # DuckDB fetches nothing, neither data nor extensions.
    for sql in ("FROM read_csv('https://example.com/a.csv')", "LOAD spatial"):
        answer(sql)
        assert page.locator("#files-problem").is_visible(), sql
    assert not [event for event in page.events if event.startswith("http")]


@pytest.mark.npm
def test_on_a_phone_in_the_dark_with_the_keyboard_and_without_network(page, files, data):
    page.context.set_offline(True)
    page.bring_to_front()
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(SCREENS["phone"]["viewport"])
    with page.expect_file_chooser() as chooser:
        page.locator("#chooser").press("Enter")
    chooser.value.set_files([data / "new.parquet", data / "old.csv", data / "qrels.txt"])
    assert done(page) == []
    page.locator("#metrics").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("AP")
    page.keyboard.press("Enter")
    assert done(page) == []
    assert page.locator("#results caption").all_inner_texts()[1] == "Differences"
    assert "(95% CI " in page.locator("#results").inner_text()
    assert not page.evaluate(WIDER)
    page.emulate_media(color_scheme="light")
    page.context.set_offline(False)
    assert page.events == []


@pytest.mark.npm
def test_one_file(browser, data, tmp_path):
    """It opens without a server and a network, and reads files."""
    path = tmp_path / "rankql.html"
    BUILD.build_one_file(path)
    assert path.stat().st_size < 15e6
    context = browser.new_context(offline=True)
    page, events = context.new_page(), []
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on(
        "request", lambda r: r.url.startswith(("file:", "blob:", "data:")) or events.append(r.url)
    )
    page.goto(path.as_uri())
    page.set_input_files("#chooser", [data / "qrels.parquet", data / "new.csv"])
    assert done(page) == []
    assert evaluate(page, "nDCG@10") == []
    paths = [str(data / name) for name in ("new.csv", "qrels.parquet")]
    same(downloaded(page, "summary.csv"), rankql.evaluate(*paths, metrics="nDCG@10").summary)
    assert value(page, "ndcg") == "0.7562"
    assert events == []
    context.close()


def test_packages_are_checked(tmp_path, monkeypatch):
    """A package with another digest stops the build, and is brought again the next time."""
    monkeypatch.setattr(BUILD, "CACHE", tmp_path)
    archive = tmp_path / "duckdb-duckdb-wasm-1.32.0.tgz"
    archive.write_bytes(b"another file")
    with pytest.raises(SystemExit, match=r"@duckdb/duckdb-wasm@1\.32\.0 has another digest"):
        BUILD.build_folder(tmp_path / "page")
    assert not archive.exists()
