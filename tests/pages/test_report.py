"""The report: its structure, names that try to break out of it, and what a browser makes of it."""

import html.parser
import json
import random
import re

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import read_values
from rankql.cli.main import main
from rankql.core.base import text as show
from rankql.diagnostics.explain import explain_items
from rankql.pages import report
from rankql.pages.report import Texts
from support import components
from support.parameters import cycled
from support.screens import SCREENS

charts = components.optional("rankql.pages.charts")
pytestmark = pytest.mark.report

DATE = "2026-11-20"

BREAK = "</script><img src=x onerror=alert(1)>"
NASTY = [BREAK, "=1+1", "[x](javascript:alert(1))", "a.b[0]:c\u2028\"'", "{{ 7 * 7 }}`@user`"]
LABEL = "<b>a.b[0]</b>: `x`"


def simulated(systems, queries=24, parts=("all",), items=None):
    """Runs that are better one after the other, and judgments with the column `part`."""
    draw = random.Random(7)
    items = items or [f"i{i}" for i in range(12)]
    grades = [(f"q{q}", i, draw.choice([0, 0, 1, 2, 3])) for q in range(queries) for i in items]
    rows = [(q, i, g, parts[int(q[1:]) % len(parts)]) for q, i, g in grades]
    qrels = pl.DataFrame(rows, schema=["query", "item", "rel", "part"], orient="row")
    runs = {}
    for better, name in enumerate(systems):
        rows = [(q, i, g * better / 4 + draw.gauss(0, 1)) for q, i, g in grades]
        runs[name] = pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")
    return runs, qrels


@pytest.fixture(scope="module")
def sliced():
    runs, qrels = simulated(["old", "new", "新模型"], parts=["中文", "English"])
    metrics = ["nDCG@10", "P(rel=2)@5", "Recall@5"]
    return rankql.compare(runs, qrels, metrics, baseline="old", by=["part"])


@pytest.fixture(scope="module")
def nasty():
    """Names that would break out of HTML, JSON, Markdown or CSV wherever they can stand."""
    runs, qrels = simulated(NASTY, parts=NASTY, items=[*NASTY, "i1", "i2", "i3"])
    named = {f"q{i}": f"{NASTY[i % 5]} {i}" for i in range(24)}
    rename = pl.col("query").replace_strict(named)
    runs = {name: run.with_columns(rename) for name, run in runs.items()}
    metrics = ["nDCG@3", "P(rel=2)@3", f"{LABEL} = max(rel)"]
    qrels = qrels.with_columns(rename)
    return rankql.compare(runs, qrels, metrics, baseline=NASTY[0], by=["part"])


@pytest.fixture(scope="module")
def pages(sliced, nasty, tmp_path_factory):
    """The reports as files."""
    paths, folder = {}, tmp_path_factory.mktemp("report")
    many = rankql.compare(
        *simulated([f"system {i}" for i in range(12)], 12), ["nDCG@10", "RR", "P@5"]
    )
    one = rankql.compare(*simulated(["only"]), ["nDCG@10"])
    for name, compared in {"sliced": sliced, "nasty": nasty, "many": many, "one": one}.items():
        paths[name] = folder / f"{name}.html"
        compared.save(paths[name], date=DATE)
    return paths


class Page(html.parser.HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.raw, self.inside = [], [], {}, ""
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

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

    def specs(self):
        return json.loads(self.raw["script"][0])["specs"]


def saved(comparison, folder, **options):
    """The report as a page."""
    comparison.save(folder / "page.html", **options)
    return Page((folder / "page.html").read_text())


@pytest.fixture(scope="module")
def parsed(pages):
    return {name: Page(path.read_text()) for name, path in pages.items()}


def test_structure(pages, parsed):
    for name, page in parsed.items():
        assert page.all("html") == [{"lang": "en"}]
        assert len(page.all("h1")) == 1 and len(page.all("main")) == 1
        ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
        assert len(ids) == len(set(ids))
        links = [attrs["href"] for attrs in page.all("a")]
        assert all(link[0] == "#" and link[1:] in ids for link in links) and len(links) > 3
        navigation = re.findall(r'<li><a href="#(.*?)">(.*?)</a>', pages[name].read_text())
        titles = re.findall(r'<h2 id="(.*?)-title">(.*?)</h2>', pages[name].read_text())
        assert navigation == titles and len(titles) > 2
        assert all(attrs["scope"] in ("col", "row") for attrs in page.all("th"))
        assert len(page.all("caption")) == len(page.all("table"))
        by_class = [(attrs.get("class"), attrs) for _, attrs in page.elements]
        assert all(x["tabindex"] == "0" and x["aria-label"] for c, x in by_class if c == "scroll")
        drawn = [attrs for kind, attrs in by_class if kind == "chart"]
        assert drawn and all(x["role"] == "img" and len(x["aria-label"]) > 20 for x in drawn)
        assert sorted(page.specs()) == sorted(attrs["id"] for attrs in drawn)


def test_nothing_comes_from_elsewhere(parsed):
    for page in parsed.values():
        (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a]
        assert policy.startswith("default-src 'none'") and "unsafe-eval" not in policy
        assert "unsafe-inline" not in policy.split("style-src")[0]
        for tag, attrs in page.elements:
            assert tag not in ("iframe", "img", "object", "embed", "base"), tag
            for name in ("src", "href", "srcset", "data", "action"):
                assert not attrs.get(name) or attrs[name].startswith(("#", "data:")), attrs
            assert not any(name.startswith("on") for name in attrs)
        assert "url(" not in page.raw["style"][0] and "@import" not in page.raw["style"][0]


def test_the_order_of_the_page(sliced, pages, parsed, tmp_path):
    """The verdict comes first; the date alone differs from day to day."""
    text = parsed["sliced"].text
    order = [f"{sliced.title}.", "Means Differences Queries", "Means by slice",
             "Differences over all queries", "Each dot is a mean", "A line shows the share",
             "Each bar is a query",
             "The mean by cutoff k", "The 5 queries that lose most", "Settings"]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places) and all(note in text for note in sliced.notes)
    sliced.save(tmp_path / "a.html", date="2026-01-02")
    page = pages["sliced"].read_text()
    assert DATE in page
    first, second = (
        re.sub(r'"digest": "\w+"', "", text)  # of the rest of the page, with its date
        for text in ((tmp_path / "a.html").read_text().replace("2026-01-02", DATE), page)
    )
    assert first == second


def test_every_metric_is_under_means_and_each_difference_is_headed_by_its_pair(sliced, pages):
    """On a phone the first cell of a row is its heading."""
    page = pages["sliced"].read_text()
    means, folded = page.partition('<h2 id="means-title">')[2].split("<details>")[:2]
    heads = re.compile(r'<th scope="row"[^>]*>(.*?)</th>')
    assert heads.findall(means) == sliced.metrics
    for name in sliced.metrics:
        means_of = sliced.summary.filter(metric=name, slice="all")["mean"]
        (row,) = re.findall(rf"<tr><th[^>]*>{re.escape(name)}</th>.*?</tr>", means)
        assert all(f"{mean:.4f}" in row for mean in means_of)
        assert f'<caption style="text-align:left">{name}</caption>' in folded
    differences = page.partition('<h2 id="differences-title">')[2].partition("<details>")[0]
    assert heads.findall(differences) == ["新模型 − old", "new − old"] * len(sliced.metrics)


@pytest.mark.parametrize("name", ["new", "新模型"])
def test_the_queries_that_lost_most_and_their_items(sliced, parsed, name):
    text = parsed["sliced"].text
    assert not re.search(r"(-\d+|\b0) more items moved", text)
    frame = sliced.differences("nDCG@10", "old", name)
    query, a, b, difference = frame.select("query", "a", "b", "difference").row(-1)
    assert f"Query {query} : {a:.3f} → {b:.3f} ({difference:+.3f})" in text
    assert f"Items that moved query {query}: contributions" in text
    explained = rankql.explain(sliced.source.runs[name], sliced.source.qrels, query, "nDCG@10")
    assert f"{name}: nDCG@10 {explained.value:.4f}; contribution = gain / discount / IDCG" in text


@pytest.mark.parametrize("metric", ["nDCG@10", "AP(rel=2)", "ERR@5"])
def test_items_of_many_queries_are_those_of_each(sliced, metric):
    """The report explains all queries at once."""
    columns = ["item", "rel", "pos", "contribution", "loss"]
    items, _ = explain_items(sliced.source.runs, sliced.source.qrels, ["q3", "q7"], metric)
    assert items.select("system", "query").n_unique() == 6
    for (system, query), part in items.group_by("system", "query"):
        alone = rankql.explain(sliced.source.runs[system], sliced.source.qrels, query, metric)
        alone = alone.positions.drop_nulls("item").select(columns).sort("item")
        part = part.select(columns).sort("item")
        assert_frame_equal(part, alone, check_dtypes=False, abs_tol=1e-12)


def test_names_are_shown_and_not_interpreted(nasty, pages, parsed, tmp_path):
    """In HTML, Markdown and CSV."""
    raw, page = pages["nasty"].read_text(), parsed["nasty"]
    assert BREAK not in raw and "\u2028" not in page.raw["script"][0]
    assert not page.all("img") and not page.all("b")[0]
    assert all(" ".join(name.split()) in page.text for name in [*NASTY, LABEL])
    assert "49" not in [cell.strip() for cell in page.words]
    drawn = {row.get("system") for spec in page.specs().values() for row in spec["data"]["values"]}
    assert {*NASTY} <= drawn
    text = nasty.to_markdown()
    assert "@user" in text and "<!--" not in text
    text = re.sub(r"(?<![\\`])(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text)  # code
    assert not re.search(r"(?<!\\)<|@user|\u2028|\n=1|(?<!\\)\]\(", text)
    assert "\\[x\\](javascript:alert(1))" in text
    nasty.save(tmp_path / "a.csv")
    text = (tmp_path / "a.csv").read_text()
    assert "'=1+1" in text and not re.search(r"(^|,)\"?=", text, re.M)
    frame = pl.DataFrame({"=n": [-1.5, None], "t": ["-1", "\tx"], "u": ["a=b", None]})
    assert show.format_csv(frame) == "'=n,t,u\n-1.5,'-1,a=b\n,'\tx,\n"


def values(**changes):
    """Values of 20 queries: those of the worst system, changed by a number and some noise."""
    rows = {
        metric: [0.1 + 0.02 * i + x + 0.002 * (i * round(20 * x) % 11) for i in range(20)]
        for metric, x in changes.items()
    }
    return pl.DataFrame({"query": range(20), **rows})


TEXTS = {"q1": "a  <b>query</b>\n", "2": "x" * 500, "other": "?"}
FRAME = pl.DataFrame({"rank": 1, "qid": [*TEXTS], "text": [*TEXTS.values()]})


@pytest.mark.parametrize("form", ["dict", "polars", "pandas", "parquet", "csv", "tsv"])
def test_texts_come_from_dicts_frames_and_files(form, tmp_path):
    path = tmp_path / f"texts.{form}"
    if form in ("dict", "polars", "pandas"):
        path = {"dict": TEXTS, "polars": FRAME, "pandas": FRAME.to_pandas()}[form]
    elif form == "parquet":
        FRAME.write_parquet(path)
    else:
        FRAME.write_csv(path, separator="\t" if form == "tsv" else ",")
    labels = Texts({"query": path}).label("query", ["q1", 2, "q3"])
    assert labels == {"q1": "q1: a <b>query</b>", "2": f"2: {'x' * 159}…", "q3": "q3"}


def test_texts_without_a_header(tmp_path):
    """As the queries of MS MARCO: ids and texts."""
    (tmp_path / "q.tsv").write_text("17\twhat is a metric\n18\thow are ties counted\n")
    texts = Texts({"query": str(tmp_path / "q.tsv")}).find("query", [17, "18"])
    assert texts == {"17": "what is a metric", "18": "how are ties counted"}


def test_wrong_texts_are_refused():
    calls = "not {'queries': 'q.csv'}. Pass texts={'query': 'titles.csv'} or texts={'item': "
    with pytest.raises(rankql.RankqlError, match=calls):
        Texts({"queries": "q.csv"})
    with pytest.raises(rankql.RankqlError, match="one"):
        Texts({"item": pl.DataFrame({"item": ["a"]})})


def test_texts_stand_where_ids_are(sliced, tmp_path):
    texts = {
        "query": {f"q{i}": f"{BREAK} {i}" for i in range(24)},
        "item": {"i1": "https://x.org/?a=<1>&b", "i2": "javascript:alert(1)", "i3": BREAK},
    }
    page = saved(sliced, tmp_path, texts=texts, title="A <title>")
    raw = (tmp_path / "page.html").read_text()
    assert BREAK not in raw and not page.all("img") and "<h1>A &lt;title&gt;</h1>" in raw
    query = sliced.differences("nDCG@10", "old", "new")["query"][0]
    assert f"Query {query}: {BREAK} {query[1:]} :" in page.text
    assert "i2: javascript:alert(1)" in page.text and f"i3: {BREAK}" in page.text
    links = {attrs["href"] for attrs in page.all("a") if not attrs["href"].startswith("#")}
    assert links == {"https://x.org/?a=<1>&b"}
    rows = page.specs()["queries-2"]["data"]["values"]
    assert {row["query"]: row["text"] for row in rows} == texts["query"]


def test_sections_that_need_the_runs_say_so(tmp_path):
    text = saved(
        rankql.compare({"a": read_values(values(AP=0)), "b": read_values(values(AP=0.3))}), tmp_path
    ).text
    assert text.count("Not shown: the runs are needed") == 2


def test_runs_that_are_gone_do_not_break_the_report(tmp_path):
    """A file is removed; a connection is closed."""
    runs, qrels = simulated(["a", "b"])
    file, con = tmp_path / "b.parquet", duckdb.connect()
    runs["b"].write_parquet(file)
    con.register("b", runs["b"])
    comparisons = [
        rankql.compare({"a": runs["a"], "b": file}, qrels, ["nDCG@5"]),
        rankql.compare({"a": runs["a"], "b": "b"}, qrels, ["nDCG@5"], con=con),
    ]
    file.unlink()
    con.close()
    for comparison in comparisons:
        page = saved(comparison, tmp_path)
        text = page.text
        ids = [section["id"] for section in page.all("section")]
        assert {"differences", "queries"} <= {*ids} and not {"cutoffs", "cases"} & {*ids}
        assert not any(x in text for x in ("Not shown", "read again", "does not exist", "closed"))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("collapse", "form"),
    [("#", "lists"), ("document", "frames"), ("split_part(item, '#', 1)", "files"),
     ("split_part(item, '#', 1)", "lists")],
)  # fmt: skip
def test_a_report_of_collapsed_chunks_has_every_section(collapse, form, tmp_path):
    runs, qrels = simulated(["a", "b"])
    for name, run in runs.items():
        chunks = run.with_columns(document="item").join(pl.DataFrame({"n": [1, 2]}), how="cross")
        runs[name] = chunks.with_columns(
            pl.format("{}#{}", "item", "n").alias("item"), pl.col("score") - pl.col("n") / 100
        ).drop("n")
    if form == "lists":
        collapse = collapse.replace("item", "retrieved").replace("document", "#")
        gold = qrels.filter(pl.col("rel") > 0).group_by("query").agg(relevant="item")
        runs = {
            name: run.sort("score", descending=True).group_by("query").agg(retrieved="item")
            .join(gold, on="query") for name, run in runs.items()
        }  # fmt: skip
        qrels = None
    if form == "files":
        for name, run in runs.items():
            run.write_parquet(tmp_path / f"{name}.parquet")
            runs[name] = str(tmp_path / f"{name}.parquet")
    page = saved(rankql.compare(runs, qrels, ["nDCG@5"], collapse=collapse), tmp_path)
    ids = {section["id"] for section in page.all("section")}
    assert {"differences", "queries", "cutoffs", "cases"} <= ids
    assert not any(words in page.text for words in ("Not shown", "Did you mean", "no column"))


def test_metrics_that_are_the_same_are_named_and_not_drawn(tmp_path):
    changed = values(AP=0.3, RR=0, P=0).with_columns(P=pl.lit(None, pl.Float64))
    page = saved(
        rankql.compare({"a": read_values(values(AP=0, RR=0, P=0)), "b": read_values(changed)}),
        tmp_path,
    )
    assert "The same in all systems, not drawn: RR." in page.text
    assert "Is b better than a? Yes: " in page.text
    assert {*page.specs()} == {"differences-1", "queries-1", "queries-2"}
    rows = page.specs()["differences-1"]["data"]["values"]
    assert [(row["verdict"], row["better"]) for row in rows] == [("better", "b")]


def test_values_per_query_are_drawn_where_there_are_several(tmp_path):
    """Of a pair the first metric with more than two values, of one system each of them."""
    frame = pl.DataFrame({"query": range(40)}).with_columns(
        (pl.col("query") % 2.0).alias("P@1"),
        AP=pl.col("query") / 39,
        RR=1 / (1 + pl.col("query") % 5),
    )
    a, b = (read_values(frame.with_columns(pl.col("AP") ** n)) for n in (1, 2))
    drawn = {"pair": saved(rankql.compare({"a": a, "b": b}), tmp_path),
             "one": saved(rankql.compare({"a": a}), tmp_path)}  # fmt: skip
    lines = {
        name: {
            spec["layer"][0]["encoding"]["x"]["title"]: spec
            for key, spec in page.specs().items()
            if key.startswith("queries") and spec["layer"][0]["mark"]["type"] == "line"
        }
        for name, page in drawn.items()
    }
    assert [*lines["pair"]] == ["AP"] and [*lines["one"]] == ["AP", "RR"]
    rows = pl.DataFrame(lines["pair"]["AP"]["data"]["values"])
    shares = rows.group_by("name").agg(pl.col("share").sum(), pl.len())
    assert (
        shares["share"].to_list() == pytest.approx([1, 1]) and shares["len"].to_list() == [20] * 2
    )
    colour = lines["pair"]["AP"]["layer"][0]["encoding"]["color"]["scale"]
    assert colour["domain"] == ["a", "b"]  # as in the other charts
    few = saved(rankql.compare({"a": read_values(frame.select("query", "P@1"))}), tmp_path)
    assert "Queries" not in few.text.split("Method")[0]


def test_a_report_without_defined_metric(tmp_path):
    runs, qrels = simulated(["a", "b"])
    result = rankql.compare(runs, qrels.with_columns(rel=0), ["nDCG@5"])
    assert "No metric is defined on these queries." in saved(result, tmp_path).text


def test_what_is_left_out_is_counted(parsed):
    assert "each system against system 11: 11 of 66 pairs." in parsed["many"].text
    assert "this section shows 12 charts and leaves out 7" in parsed["many"].text


def test_from_the_command_line(tmp_path, monkeypatch):
    runs, qrels = simulated(["a", "b"], parts=["x", "y"])
    for name, frame in (*runs.items(), ("qrels", qrels)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    pl.DataFrame({"item": ["i1"], "title": ["A <title>"]}).write_csv(tmp_path / "titles.csv")
    monkeypatch.chdir(tmp_path)
    command = "report a.parquet b.parquet qrels.parquet -m nDCG@5 --baseline a --by part -o r.html"
    options = ["--title", "A < B", "--texts", "item=titles.csv"]
    done = CliRunner().invoke(main, [*command.split(), *options])
    progress = "Comparing the runs ...\nWriting the report ...\nWrote r.html\n"
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", progress)
    text = Page((tmp_path / "r.html").read_text()).text
    assert text.startswith("A < B Skip to the results A < B") and "part=x" in text
    assert "i1: A <title>" in text


def test_equal_changes_keep_the_order_of_the_ranking():
    """The last bits of a contribution, a sum over threads, differ from run to run."""
    old = pl.DataFrame({"item": ["x", "y"], "pos": [1, 2], "rel": 1, "contribution": [0.5, 0.25]})
    new = old.with_columns(pos=pl.Series([2, 1]), contribution=pl.Series([0.25, 0.5 + 1.2e-16]))
    assert new["contribution"][1] > 0.5
    moved = report._list_moved({"x": "x", "y": "y"}, old, new)
    assert [row[0] for row in moved] == ["x", "y"]


def test_plots_of_a_result():
    runs, qrels = simulated(["a", "b"], parts=["x", "y"])
    assert rankql.evaluate(runs, qrels, ["nDCG@5", "RR"]).plot().to_dict()["$schema"]
    single = rankql.evaluate(runs["a"], qrels, ["nDCG@5"], by="part")
    with pytest.raises(rankql.RankqlError, match="'AP' was not evaluated"):
        single.plot("AP")


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
    [*cycled(["sliced", "nasty", "many", "one"], [*SCREENS]), ("nasty", "phone")],
)
def test_in_a_browser(browser, pages, name, screen):
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


def test_the_axis_names_what_differs_between_slices():
    names = [f"a long name of a category of products, {word}" for word in ("new", "old", "used")]
    frame = pl.DataFrame({
        "query": range(60), "kind": [names[i % 3] for i in range(60)],
        "item": "a", "pos": 1, "rel": [i % 2 for i in range(60)],
    })  # fmt: skip
    result = rankql.evaluate(frame, metrics="P@1", by="kind")
    other = frame.with_columns(rel=1 - pl.col("rel"))
    three = {"a": frame, "b": other, "c": frame}
    comparisons = [rankql.compare({"a": frame, "b": other}, metrics="P@1", by="kind"),
                   rankql.compare(three, metrics="P@1", by="kind")]  # fmt: skip
    charts = [result.plot(), *(each.plot("slices") for each in comparisons)]
    for chart in charts:
        spec = json.dumps(chart.to_dict())
        for word in ("new", "old", "used"):
            assert re.search(rf"u2026[^\"]{{0,15}}, {word}", spec)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda result, _: result.plot(by="slices"), r"plot takes metric=, kind=: .*'by'"),
        (lambda _, c: c.plot(by="part"), r"plot takes kind=, metric=, a=, b=: .*'by'"),
        (lambda _, c: c.leaderboard("P@5"), "leaderboard takes no arguments. Filter the frame"),
    ],
)
def test_type_errors_name_what_there_is(call, message):
    runs, qrels = simulated(["a", "b"])
    both = rankql.evaluate(runs, qrels, "P@5"), rankql.compare(runs, qrels, "P@5")
    with pytest.raises(TypeError, match=message):
        call(*both)


def test_the_best_system_of_each_slice_is_named_where_they_differ(tmp_path):
    runs, qrels = simulated(["a", "b", "c"])
    best = {"a": "en", "b": "de"}
    rows = {
        name: frame.join(qrels, on=["query", "item"], how="left").select(
            "query", "item", lang=pl.when(pl.col("query").hash() % 2 == 0).then(pl.lit("en"))
            .otherwise(pl.lit("de")), rel=pl.col("rel").fill_null(0), noise=pl.col("score"))
        for name, frame in runs.items()
    }  # fmt: skip
    about = rows["a"].select("query", "lang").unique()
    runs = {
        name: frame.select("query", "item", score=pl.when(pl.col("lang") == best.get(name, ""))
            .then("rel").otherwise(-pl.col("rel")) + pl.col("noise") * 1e-6)
        for name, frame in rows.items()
    }  # fmt: skip
    options = {"by": "lang", "attributes": about, "descending": True}
    page = saved(rankql.compare(runs, qrels, ["nDCG@5"], **options), tmp_path).text
    assert re.search(r"Best by nDCG@5: [ab]; b in lang=de and a in lang=en\.", page)
