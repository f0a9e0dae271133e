"""The report: its structure, names that try to break out of it, and what a browser makes of it."""

import html.parser
import itertools
import json
import random
import re

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import text as show
from rankql.cli import demo
from rankql.cli.main import main
from rankql.diagnostics.explain import explain_items
from rankql.output import page as html_page
from rankql.output import report_sections
from rankql.output.texts import Texts
from support import components
from support.parameters import cycled
from support.paths import DL19
from support.screens import SCREENS

alt = components.optional("altair")
charts = components.optional("rankql.output.difference_charts")
mean_charts = components.optional("rankql.output.mean_charts")
panels = components.optional("rankql.output.panels")
pytestmark = pytest.mark.report

RUNS = {"bm25": "BM25", "tas-b": "D_BERT_KD_TASB", "splade": "SPLADE_P_P_ENSEMBLE_DISTIL"}
DATE = "2026-11-20"

BREAK = "</script><img src=x onerror=alert(1)>"
NASTY = [BREAK, "=1+1", "[x](javascript:alert(1))", "a.b[0]:c\u2028\"'", "{{ 7 * 7 }}`@user`"]

LABEL = "<b>a.b[0]</b>: `x`"


def simulated(systems, queries=24, sliced="all", items=None):
    """Runs that are better one after the other, and judgments with the column `part`."""
    draw = random.Random(7)
    items = items or [f"i{i}" for i in range(12)]
    names = [f"q{i}" for i in range(queries)]
    grades = {(q, i): draw.choice([0, 0, 1, 2, 3]) for q in names for i in items}
    parts = [sliced] if isinstance(sliced, str) else sliced
    rows = [(q, i, g, parts[int(q[1:]) % len(parts)]) for (q, i), g in grades.items()]
    qrels = pl.DataFrame(rows, schema=["query", "item", "rel", "part"], orient="row")
    runs = {
        name: pl.DataFrame(
            [(q, i, g * better / 4 + draw.gauss(0, 1)) for (q, i), g in grades.items()],
            schema=["query", "item", "score"],
            orient="row",
        )
        for better, name in enumerate(systems)
    }
    return runs, qrels


@pytest.fixture(scope="module")
def sliced():
    runs, qrels = simulated(["old", "new", "新模型"], sliced=["中文", "English"])
    metrics = ["nDCG@10", "P(rel=2)@5", "Recall@5"]
    return rankql.compare(runs, qrels, metrics, baseline="old", by=["part"])


@pytest.fixture(scope="module")
def nasty():
    """Names that would break out of HTML, JSON, Markdown or CSV wherever they can stand."""
    runs, qrels = simulated(NASTY, sliced=NASTY, items=[*NASTY, "i1", "i2", "i3"])
    named = {f"q{i}": f"{NASTY[i % 5]} {i}" for i in range(24)}
    rename = pl.col("query").replace_strict(named)
    runs = {name: run.with_columns(rename) for name, run in runs.items()}
    metrics = ["nDCG@3", "P(rel=2)@3", f"{LABEL} = max(rel)"]
    qrels = qrels.with_columns(rename)
    return rankql.compare(runs, qrels, metrics, baseline=NASTY[0], by=["part"])


@pytest.fixture(scope="module")
def pages(sliced, nasty, tmp_path_factory):
    """The reports as files."""
    folder = tmp_path_factory.mktemp("report")
    many = rankql.compare(*simulated([f"system {i}" for i in range(12)], 12), ["nDCG@10", "RR"])
    one = rankql.compare(*simulated(["only"]), ["nDCG@10"])
    result = {"sliced": sliced, "nasty": nasty, "many": many, "one": one}
    if DL19.is_dir():
        runs = {name: DL19 / f"{file}.run" for name, file in RUNS.items()}
        metrics = ["nDCG@10", "AP(rel=2)"]
        result["dl19"] = rankql.compare(runs, DL19 / "dl19.qrels", metrics, baseline="bm25")
    for name, comparison in result.items():
        comparison.save(folder / f"{name}.html", date=DATE)
    return {name: folder / f"{name}.html" for name in result}


class Page(html.parser.HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.raw, self.inside = [], [], {}, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.raw.setdefault(self.inside, []).append(data)
        else:
            self.words.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def parsed(pages):
    return {name: Page(path.read_text()) for name, path in pages.items()}


def test_structure(parsed):
    for page in parsed.values():
        assert page.all("html") == [{"lang": "en"}]
        assert len(page.all("h1")) == 1 and len(page.all("main")) == 1
        ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
        assert len(ids) == len(set(ids))
        links = [attrs["href"] for attrs in page.all("a")]
        assert all(link[0] == "#" and link[1:] in ids for link in links) and len(links) > 4
        assert all(attrs["scope"] in ("col", "row") for attrs in page.all("th"))
        assert len(page.all("caption")) == len(page.all("table"))
        assert all(attrs["tabindex"] == "0" and attrs["aria-label"] for _, attrs in page.elements
                   if attrs.get("class") == "scroll")  # fmt: skip
        drawn = [attrs for _, attrs in page.elements if attrs.get("class") == "chart"]
        assert drawn and all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in drawn)
        specs = json.loads(page.raw["script"][0])["specs"]
        assert sorted(specs) == sorted(attrs["id"] for attrs in drawn)
        (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a]
        assert policy.startswith("default-src 'none'") and "unsafe-eval" not in policy
        assert "unsafe-inline" not in policy.split("style-src")[0]


def test_navigation_is_labelled_as_the_headings(pages, parsed):
    for name, path in pages.items():
        links = re.findall(r'<li><a href="#(.*?)">(.*?)</a>', path.read_text())
        titles = re.findall(r'<h2 id="(.*?)-title">(.*?)</h2>', path.read_text())
        assert links == titles and len(links) > 3, name


def test_nothing_comes_from_elsewhere(parsed):
    for page in parsed.values():
        for tag, attrs in page.elements:
            assert tag not in ("iframe", "img", "object", "embed", "base"), tag
            for name in ("src", "href", "srcset", "data", "action"):
                assert not attrs.get(name) or attrs[name].startswith(("#", "data:")), attrs
            assert not any(name.startswith("on") for name in attrs)
        assert "url(" not in page.raw["style"][0] and "@import" not in page.raw["style"][0]


def test_the_verdict_comes_first(sliced, parsed):
    text = parsed["sliced"].text
    order = [f"{sliced.title}.", "Means Differences Slices", "Means with 95% confidence intervals",
             "nDCG@10: means", "Differences with confidence intervals",
             "Each dot is a mean difference", "One chart per pair", "The mean by cutoff k",
             "The 5 queries that lose most", "The charts show how much", "Settings",
             "rankql (defaults)"]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert DATE in text and "rankql" in text
    for note in sliced.notes:
        assert note in text


def test_the_date_alone_differs(sliced, pages, tmp_path):
    sliced.save(tmp_path / "a.html", date="2026-01-02")
    page = pages["sliced"].read_text()
    assert DATE in page
    assert (tmp_path / "a.html").read_text().replace("2026-01-02", DATE) == page


def test_the_queries_that_lost_most_and_their_items(sliced, parsed):
    text = parsed["sliced"].text
    assert not re.search(r"(-\d+|\b0) more items moved", text)
    for name in ("new", "新模型"):
        frame = sliced.differences("nDCG@10", "old", name)
        query, a, b, difference = frame.select("query", "a", "b", "difference").row(-1)
        assert f"Query {query} : {a:.3f} → {b:.3f} ({difference:+.3f})" in text
        assert f"Items that moved query {query}: contributions" in text
        explained = sliced.source.runs[name], sliced.source.qrels, query
        value = rankql.explain(*explained, "nDCG@10").value
        assert f"{name}: nDCG@10 {value:.4f}; contribution = gain / discount / IDCG" in text


def test_items_of_many_queries_are_those_of_each(sliced):
    """The report explains all queries at once."""
    queries, columns = ["q3", "q7"], ["item", "rel", "pos", "contribution", "loss"]
    for metric in ("nDCG@10", "AP(rel=2)", "ERR@5"):
        items, _ = sliced.source.call(explain_items, of=queries, metric=metric)
        for (system, query), part in items.group_by("system", "query"):
            run = sliced.source.runs[system]
            each = rankql.explain(run, sliced.source.qrels, query, metric).positions
            each = each.drop_nulls("item").select(columns)
            own = part.select(columns)
            assert_frame_equal(
                own.sort("item"), each.sort("item"), check_dtypes=False, abs_tol=1e-12
            )
        assert items.select("system", "query").n_unique() == 6


def test_names_are_shown_and_not_interpreted_in_html(nasty, pages, parsed):
    raw, page = pages["nasty"].read_text(), parsed["nasty"]
    assert BREAK not in raw and "\u2028" not in page.raw["script"][0]
    assert not page.all("img") and not page.all("b")[0]
    for name in [*NASTY, LABEL]:
        assert " ".join(name.split()) in page.text
    assert "49" not in [cell.strip() for cell in page.words]
    specs = json.loads(page.raw["script"][0])["specs"]
    shown = {row.get("system") for spec in specs.values() for row in spec["data"]["values"]}
    assert {*NASTY} <= shown


def test_names_are_shown_and_not_interpreted_in_markdown(nasty):
    text = nasty.to_markdown()
    for bad in ("<img", "<b>", "`@user`", "@user", "\u2028", "\n=1"):
        assert bad not in text, bad
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "\\[x\\](javascript:alert(1))" in text and "\\`@<!-- -->user\\`" in text


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("*a*", "\\*a\\*"),
        ("_a_ mean_a", "\\_a\\_ mean_a"),
        ("# a", "\\# a"),
        ("1. a", "1<!-- -->. a"),
        ("- a", "\\- a"),
        ("nDCG@10", "nDCG@10"),
        ("#12 @ann", "\\#<!-- -->12 @<!-- -->ann"),
        ("https://x.org", "https:<!-- -->//x.org"),
        (":bug: a: b", ":<!-- -->bug: a: b"),
        ("a|b\nc", "a\\|b c"),
        ("<!-- & -->", "&lt;!-- &amp; --&gt;"),
        ("~~$a$~~", "\\~\\~\\$a\\$\\~\\~"),
    ],
)
def test_markdown_is_literal(given, written):
    assert show.format_paragraph(given) == written


def per_query(**columns):
    """A table of values by query; of columns that rankql does not know, higher is better."""
    return pl.DataFrame({"query": range(20), **columns})


SPREAD = [0.1 + 0.02 * i for i in range(20)]


@pytest.mark.parametrize(
    ("systems", "words"),
    [
        ({"a": {"AP": 0, "RR": 0}, "b": {"AP": 0.3, "RR": 0.3}},
         "b is best on both metrics, and significantly better than a"),
        ({"a": {"AP": 0, "RR": 0}, "b": {"AP": 0.3, "RR": -0.05}},
         "b is best on AP, and significantly better than a. "
         "a is best on RR, and significantly better than b"),
        ({"a": {"AP": 0}, "b": {"AP": "noise"}},
         "b is best on AP, but the lead is not significant"),
        ({"a": {"AP": 0, "RR": 0}, "b": {"AP": 0.3, "RR": "noise"}},
         "b is best on AP, and significantly better than a. "
         "b is best on RR, but the lead is not significant"),
        ({"a": {"AP": 0}, "b": {"AP": 0}}, "a and b are tied for best on AP"),
        ({"a": {"AP": 0}, "b": {"AP": 0.1}, "c": {"AP": 0.3}},
         "AP: c is significantly better than every other system"),
        ({f"s{i}": {"AP": i / 20} for i in range(6)},
         "AP: s5 is significantly better than every other system"),
        ({"a": {"RBPres(p=0.5)": 0}, "b": {"RBPres(p=0.5)": 0.2}},
         "a is best on RBPres(p=0.5), and significantly better than b"),
    ],
)  # fmt: skip
def test_verdict_names_the_best_system(systems, words):
    def values(change):
        if change == "noise":
            return [x + (0.05 if i % 2 else -0.04) for i, x in enumerate(SPREAD)]
        steps = round(20 * change)
        return [x + change + 0.001 * (i * steps % 11) for i, x in enumerate(SPREAD)]

    tables = {name: per_query(**{metric: values(change) for metric, change in metrics.items()})
              for name, metrics in systems.items()}  # fmt: skip
    assert rankql.compare(tables).title == words


def test_verdict_of_one_system_and_of_reversed_slices(tmp_path):
    (tables,) = [{"only": per_query(AP=SPREAD)}]
    assert rankql.compare(tables).title.startswith("only: AP 0.29")
    demo.write_shop(tmp_path, 4000)
    old, new = (str(tmp_path / f"{name}.parquet") for name in ("shop", "new"))
    result = rankql.compare({"old": old, "new": new}, old, "nDCG@10", by="segment", score="score")
    assert result.title == (
        "new is best on nDCG@10, and significantly better than old. "
        "The reverse is true for segment=vip"
    )


def test_verdict_where_nothing_is_relevant():
    """Nobody is best with 0."""
    zeros = {name: per_query(AP=0.0, RR=SPREAD) for name in "ab"}
    assert rankql.compare(zeros).title == (
        "No system has a mean above 0 on AP. a and b are tied for best on RR"
    )


def test_verdict_of_means_over_different_queries():
    """The best mean is not that of the best system, if it is over easier queries."""
    old = pl.DataFrame({"user": range(30), "rev": [100.0] * 15 + [1.0 + i % 3 for i in range(15)]})
    new = pl.DataFrame({"user": range(15, 30), "rev": [5.0 + i % 4 for i in range(15)]})
    result = rankql.compare({"old": old, "new": new}, metrics="rev")
    assert result.sentences[0].startswith("rev: new beats old by 4.40")
    assert result.title == (
        "old has the best mean on rev, but not over the same queries: new is better on those of "
        "both"
    )
    assert "'missing': 15" in str(mean_charts.draw_means(result, "rev"))


@pytest.mark.parametrize("kind", ["dict", "polars", "pandas", "csv", "tsv", "parquet"])
def test_texts_come_from_dicts_frames_and_files(kind, tmp_path):
    texts = {"q1": "a  <b>query</b>\n", "2": "x" * 500, "other": "?"}
    frame = pl.DataFrame({"rank": 1, "qid": [*texts], "text": [*texts.values()]})
    source = {"dict": texts, "polars": frame, "pandas": frame.to_pandas()}.get(kind)
    if source is None:
        source = tmp_path / f"texts.{kind}"
        if kind == "parquet":
            frame.write_parquet(source)
        else:
            frame.write_csv(source, separator="\t" if kind == "tsv" else ",")
    result = Texts({"query": source}).label("query", ["q1", 2, "q3"])
    assert result == {"q1": "q1: a <b>query</b>", "2": f"2: {'x' * 159}…", "q3": "q3"}


def test_texts_without_a_header(tmp_path):
    """As the queries of MS MARCO: ids and texts."""
    (tmp_path / "q.tsv").write_text("17\twhat is a metric\n18\thow are ties counted\n")
    assert Texts({"query": str(tmp_path / "q.tsv")}).find("query", [17, "18"]) == {
        "17": "what is a metric", "18": "how are ties counted"
    }  # fmt: skip


def test_wrong_texts_are_refused():
    with pytest.raises(rankql.RankqlError, match="keys 'query' and 'item'"):
        Texts({"queries": {}})
    with pytest.raises(rankql.RankqlError, match=r"texts\['item'\] has one column"):
        Texts({"item": pl.DataFrame({"item": ["a"]})}).find("item", ["a"])


def test_texts_stand_where_ids_are(sliced, tmp_path):
    texts = {
        "query": {f"q{i}": f"{BREAK} {i}" for i in range(24)},
        "item": {"i1": "https://x.org/?a=<1>&b", "i2": "javascript:alert(1)", "i3": BREAK},
    }
    sliced.save(tmp_path / "a.html", texts=texts, title="A <title>")
    raw = (tmp_path / "a.html").read_text()
    page = Page(raw)
    assert BREAK not in raw and not page.all("img") and "<h1>A &lt;title&gt;</h1>" in raw
    query = sliced.differences("nDCG@10", "old", "new")["query"][0]
    assert f"Query {query}: {BREAK} {query[1:]} :" in page.text
    assert "i2: javascript:alert(1)" in page.text and f"i3: {BREAK}" in page.text
    links = {attrs["href"] for attrs in page.all("a") if not attrs["href"].startswith("#")}
    assert links == {"https://x.org/?a=<1>&b"}
    specs = json.loads(page.raw["script"][0])["specs"]
    rows = specs["differences-4"]["data"]["values"]
    assert {row["query"]: row["text"] for row in rows} == texts["query"]


def test_the_choice_of_k_decides_only_where_bands_part():
    def frame(*rows):
        names = ["system", "k", "mean", "lo", "hi"]
        return pl.DataFrame(rows, schema=names, orient="row")

    same = [("a", 1, 0.5, 0.4, 0.6), ("b", 1, 0.3, 0.2, 0.35), ("a", 5, 0.6, 0.5, 0.7)]
    describe = mean_charts.describe_order
    assert describe(frame(*same, ("b", 5, 0.5, 0.4, 0.55))) == (
        "the order of the systems is the same at every k"
    )
    assert describe(frame(*same, ("b", 5, 0.65, 0.6, 0.72))) == (
        "lines cross, but their bands overlap: no evidence that the choice of k decides"
    )
    assert describe(frame(*same, ("b", 5, 0.9, 0.8, 0.95))) == (
        "the choice of k decides between a and b"
    )
    assert describe(frame(*same, ("b", 5, 0.9, None, None))).startswith("lines cross")
    assert describe(frame(*same).head(0)) == "undefined at every k"


def test_long_names_keep_what_differs():
    """In the middle of the name, and in pairs of names."""
    a, b = (f"experiment-of-2024-05-01-{name}-with-everything-switched-on" for name in "ab")
    short = panels.shorten_names([a, b])
    assert short == {a: "…a-with-everything-…", b: "…b-with-everything-…"}
    assert panels.shorten_names([f"{a}\n− {b}"]) == {f"{a}\n− {b}": f"{short[a]}\n− {short[b]}"}


def test_left_out_charts_are_explained(nasty, pages):
    text = Page(pages["nasty"].read_text()).text
    assert "To keep the page fast, this section shows 12 charts and leaves out" in text
    assert "comparison.plot(" in text


def test_csv_is_no_formula(nasty, tmp_path):
    nasty.save(tmp_path / "a.csv")
    text = (tmp_path / "a.csv").read_text()
    assert "'=1+1" in text and not re.search(r"(^|,)\"?=", text, re.M)
    frame = pl.DataFrame({"=n": [-1.5, None], "t": ["-1", "\tx"], "u": ["a=b", None]})
    assert show.format_csv(frame) == "'=n,t,u\n-1.5,'-1,a=b\n,'\tx,\n"


def test_without_the_runs_it_says_what_is_absent(tmp_path):
    frame = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.1, 0.2, 0.4], "mean time": 1.0})
    other = frame.with_columns(pl.col("AP", "mean time") * 1.5)
    rankql.compare({"a": frame, "b": other}).save(tmp_path / "a.html")
    text = Page((tmp_path / "a.html").read_text()).text
    assert text.count("Not shown: the runs are needed") == 3
    assert "mean time" in text


def test_runs_that_are_gone_do_not_break_it(tmp_path):
    runs, qrels = simulated(["a", "b"])
    for name, run in runs.items():
        run.write_parquet(tmp_path / f"{name}.parquet")
    files = {name: tmp_path / f"{name}.parquet" for name in runs}
    comparison = rankql.compare(files, qrels, ["nDCG@5"])
    files["b"].unlink()
    comparison.save(tmp_path / "a.html")
    text = Page((tmp_path / "a.html").read_text()).text
    assert text.count("Not shown: the runs could not be read again: ") == 3
    import duckdb

    con = duckdb.connect()
    for name, run in runs.items():
        con.register(name, run)
    comparison = rankql.compare({"a": "a", "b": "b"}, qrels, ["nDCG@5"], con=con)
    con.close()
    comparison.save(tmp_path / "b.html")
    assert "could not be read again" in (tmp_path / "b.html").read_text()


def test_one_table_of_systems_and_attributes_elsewhere(tmp_path):
    runs, qrels = simulated(["a", "b"], sliced=["x", "y"])
    table = pl.concat(
        [run.with_columns(pl.lit(name).alias("system")) for name, run in runs.items()]
    )
    attributes = qrels.select("query", "part").unique()
    options = {"by": "part", "attributes": attributes, "system": "system", "cluster": "part"}
    result = rankql.compare(table, qrels.drop("part"), ["nDCG@5", "microP@5"], **options)
    result.save(tmp_path / "a.html")
    text = Page((tmp_path / "a.html").read_text()).text
    assert "part=x" in text and "b gains most against a" in text and "Not shown" not in text


def test_a_report_without_defined_metric(tmp_path):
    runs, qrels = simulated(["a", "b"])
    result = rankql.compare(runs, qrels.with_columns(rel=0), ["nDCG@5"])
    result.save(tmp_path / "a.html")
    assert "No metric is defined on these queries." in Page((tmp_path / "a.html").read_text()).text


def test_many_systems_are_counted(parsed):
    text = parsed["many"].text
    assert "The charts show 6 of 66 pairs: the best system, system 1" in text
    assert "8 systems have a colour" in text


def test_many_queries_are_thinned(tmp_path):
    draw = random.Random(1)
    frames = {
        name: pl.DataFrame(
            {"query": range(20_000), "AP": [draw.random() ** m for _ in [0] * 20_000]}
        )
        for name, m in (("a", 2), ("b", 1.5))
    }
    comparison = rankql.compare(frames)
    comparison.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 1_300_000
    words = "There are 20,000 queries, so one in 67 is drawn"
    assert words in (tmp_path / "a.html").read_text()
    bars = charts.draw_differences(comparison, "AP", "a", "b")["data"]["values"]
    assert len(bars) <= charts.BARS and (bars[0]["from"], bars[-1]["to"]) == (0, 20_000)
    assert all(bar["to"] == after["from"] for bar, after in itertools.pairwise(bars))
    own = comparison.differences("AP", "a", "b")["difference"]
    assert [bar["difference"] for bar in bars] == pytest.approx(
        [own[bar["from"]] for bar in bars], rel=1e-5
    )


KINDS = ["differences", "means", "intervals", "slices", "cutoffs"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_plot_is_drawn(sliced, nasty, kind):
    for comparison in (sliced, nasty):
        chart = comparison.plot(kind)
        assert isinstance(chart, alt.TopLevelMixin)
        assert chart.to_dict()["$schema"]
        comparison.plot(kind, metric="P(rel=2)@5" if comparison is sliced else "nDCG@3")


def test_from_the_command_line(tmp_path, monkeypatch):
    runs, qrels = simulated(["a", "b"], sliced=["x", "y"])
    for name, frame in (*runs.items(), ("qrels", qrels)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)
    inputs = ["a.parquet", "b.parquet", "qrels.parquet", "-m", "nDCG@5", "--baseline", "a"]
    done = CliRunner().invoke(
        main, ["report", *inputs, "--by", "part", "--title", "A < B", "-o", "r.html"]
    )
    progress = "Comparing the runs ...\nWriting the report ...\nWrote r.html\n"
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", progress)
    text = Page((tmp_path / "r.html").read_text()).text
    assert text.startswith("A < B Skip to the means A < B") and "part=x" in text
    pl.DataFrame({"item": ["i1"], "title": ["A <title>"]}).write_csv(tmp_path / "titles.csv")
    done = CliRunner().invoke(
        main, ["report", *inputs, "--texts", "item=titles.csv", "-o", "r.html"]
    )
    assert done.exit_code == 0 and "i1: A &lt;title&gt;" in (tmp_path / "r.html").read_text()
    done = CliRunner().invoke(main, ["report", *inputs, "-o", "r.doc"])
    assert done.exit_code == 2 and done.stderr.startswith(
        "rankql: output 'r.doc' must end in one of"
    )


def test_the_command_line_bundles_in_a_second_process(monkeypatch):
    """The same bundle; where the process fails, it is made here; no process is left."""
    import vl_convert

    monkeypatch.setattr(html_page, "bundle_vega", html_page.bundle_vega.__wrapped__)
    bundle, processes = vl_convert.javascript_bundle(), []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "made here")
    for code, expected in ((html_page._BUNDLE, bundle), ("raise SystemExit(1)", "made here")):
        monkeypatch.setattr(html_page, "_BUNDLE", code)
        with html_page.bundle_in_background():
            processes += html_page._STARTED
            assert html_page.bundle_vega() == expected
    with pytest.raises(ZeroDivisionError), html_page.bundle_in_background():
        processes += html_page._STARTED
        raise ZeroDivisionError
    assert len(processes) == 3 and all(each.returncode is not None for each in processes)
    for name, value in (("executable", ""), ("executable", "no such file"), ("frozen", True)):
        with monkeypatch.context() as patched:
            patched.setattr(f"sys.{name}", value, raising=False)
            with html_page.bundle_in_background():
                assert not html_page._STARTED and html_page.bundle_vega() == "made here"


def test_equal_changes_keep_the_order_of_the_ranking():
    """The last bits of a contribution, a sum over threads, differ from run to run."""
    old = pl.DataFrame({"item": ["x", "y"], "pos": [1, 2], "rel": 1, "contribution": [0.5, 0.25]})
    new = old.with_columns(pos=pl.Series([2, 1]), contribution=pl.Series([0.25, 0.5 + 1.2e-16]))
    assert new["contribution"][1] > 0.5
    labels = {item: item for item in "xy"}
    cases = report_sections._Cases("nDCG", "", old, {}, labels)
    assert [row[0] for row in cases._list_moved(old, new)] == ["x", "y"]


def test_plots_of_a_result():
    runs, qrels = simulated(["a", "b"], sliced=["x", "y"])
    several = rankql.evaluate(runs, qrels, ["nDCG@5", "RR"])
    single = rankql.evaluate(runs["a"], qrels, ["nDCG@5"], by="part")
    for result in (several, single):
        assert result.plot().to_dict()["$schema"]
    (rows,) = single.plot().to_dict()["datasets"].values()
    assert [row["slice"] for row in rows] == ["all", "part=x", "part=y"]
    with pytest.raises(rankql.RankqlError, match="'AP' was not evaluated"):
        single.plot("AP")


def test_a_system_has_one_colour(sliced):
    result = {}
    for kind in KINDS:
        for panel in json.dumps(sliced.plot(kind).to_dict()).split('"scale": ')[1:]:
            scale = json.JSONDecoder().raw_decode(panel)[0]
            if "range" in scale and isinstance(scale.get("domain"), list):
                for name, colour in zip(scale["domain"], scale["range"], strict=False):
                    if name in sliced.systems:
                        assert result.setdefault(name, colour) == colour
    assert len({*result.values()}) == 3


# In a browser


def opened(browser, path, **screen):
    """The page when its charts are drawn, and everything that went wrong or was asked for."""
    context = browser.new_context(offline=True, **screen)
    page, events = context.new_page(), []
    page.on("console", lambda message: events.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: events.append(f"error: {error}"))
    page.on("dialog", lambda dialog: events.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: events.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=60_000)
    return page, [event for event in events if event != path.as_uri()]


@pytest.mark.parametrize(
    ("name", "screen"),
    [*cycled(["sliced", "nasty", "many", "one", "dl19"], [*SCREENS]), ("nasty", "phone")],
)
def test_in_a_browser(browser, pages, name, screen):
    if name not in pages:
        pytest.skip(f"no data: {DL19} is absent")
    page, events = opened(browser, pages[name], **SCREENS[screen])
    assert events == []
    holders = page.query_selector_all(".chart")
    assert len(holders) == int(page.get_attribute("html", "data-drawn")) > 0
    for holder in holders:
        box = holder.query_selector("svg").bounding_box()
        assert box["width"] > 200 and box["height"] > 30
        assert box["x"] >= 0 and box["x"] + box["width"] <= SCREENS[screen]["viewport"]["width"]
        marks = holder.query_selector_all("svg .role-mark path, svg .role-mark line, svg text")
        assert len(marks) > 1
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    # Shadows show that a table scrolls.
    scrolls = page.evaluate("getComputedStyle(document.querySelector('.scroll'))"
                            ".backgroundAttachment")  # fmt: skip
    assert scrolls == "local, local, scroll, scroll"
    page.context.close()


def test_dark_and_light_can_be_read(browser, pages):
    def contrast(page, selector, property_):
        back, front = (
            [int(part) for part in re.findall(r"\d+", value)[:3]]
            for value in page.evaluate(
                "([selector, property]) => [getComputedStyle(document.body).backgroundColor, "
                "getComputedStyle(document.querySelector(selector))[property]]",
                [selector, property_],
            )
        )
        parts = ([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in
                  (v / 255 for v in colour)] for colour in (back, front))  # fmt: skip
        lights = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05 for r, g, b in parts)
        return lights[1] / lights[0]

    for screen in ("wide", "dark"):
        page, _ = opened(browser, pages["sliced"], **SCREENS[screen])
        for selector, property_ in (("body", "color"), (".reading", "color"), ("a", "color"),
                                    (".chart text", "fill"), ("summary", "color")):  # fmt: skip
            assert contrast(page, selector, property_) >= 4.5, (screen, selector)
        page.context.close()


def test_on_paper_and_by_keyboard(browser, pages):
    page, _ = opened(browser, pages["sliced"], **SCREENS["dark"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the means"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#means"
    page.emulate_media(media="print")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert (ink, paper) == ("rgb(26, 31, 38)", "rgb(255, 255, 255)")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details.print:not([open])').length") == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelectorAll('details.print:not([open])').length") > 0
    page.context.close()
