"""docs/coming-from.md: every name and number of another tool is correct."""

import math
import re

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval

import rankql
import tools_table
from doc_blocks import cells, run_blocks
from rankql.core.metrics.conventions import PROFILES
from rankql.core.metrics.parse import OTHERS, find_shown, parse
from rankql.core.metrics.profiles import TOOLS
from support import metric_engines, other_tools, samples
from support.parameters import few
from support.paths import ROOT
from support.samples import frames

PAGE = (ROOT / "docs" / "coming-from.md").read_text()
NAMES = PAGE.partition("## The names\n\n")[2].partition("\n\n")[0]
CHINESE = (ROOT / "docs" / "zh" / "coming-from.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in row.strip("|").split("|")] for row in NAMES.splitlines()]
# Queries that both have: what the means make of others is in the blocks of the page.
RUN, QRELS = samples.random_data(4, longest=12)
RUN, QRELS = ({q: items[q] for q in sorted(RUN.keys() & QRELS.keys())} for items in (RUN, QRELS))


def names(peer):
    """The names of a peer, with ours; a remark in brackets says that it is not quite the same."""
    column = ROWS[0].index(peer)
    for row in ROWS[2:]:
        if "` (" not in row[column]:
            ours, theirs = (re.findall("`(.+?)`", row[at]) for at in (0, column))
            yield from zip(ours, theirs, strict=False)


def evaluated(name, **options):
    result = rankql.evaluate(*frames(RUN, QRELS), name, interval=None, **options)
    return dict(result.per_query.select("query", pl.last().fill_null(0)).rows())


def test_names_of_other_tools_are_accepted():
    """As the page writes them. Arguments of a command line, and calls, are no names."""
    count = 0
    for peer in ("trec_eval, pytrec_eval", "ir_measures", "ranx"):
        for row in ROWS[2:]:
            for name in re.findall("`(.+?)`", row[ROWS[0].index(peer)]):
                if name != "-l 2":
                    count += bool(parse(name.removeprefix("-m "), peer))
    assert count > 50


def test_the_chinese_page_has_the_same_names():
    table = CHINESE.partition("## 指标名称\n\n")[2].partition("\n\n")[0]
    codes = [re.findall("`.+?`", row) for row in table.splitlines()]
    assert codes == [re.findall("`.+?`", row) for row in NAMES.splitlines()]
    assert len(codes) == len(ROWS)


def test_a_name_that_means_something_else_is_accepted_or_says_so():
    """The section of its tool has it, with the closest of rankql."""
    refused = []
    for names, tools, meaning, closest in OTHERS:
        for name in names.split(", "):
            assert PAGE.count(f"`{name}`") and closest in PAGE
            if not find_shown(name):
                sentence = f"{name!r} of {tools}: {meaning}. The closest"
                with pytest.raises(rankql.RankqlError, match=re.escape(sentence)):
                    parse(f"{name}@10")
                refused.append(name)
    assert len(refused) > 20


@pytest.mark.slow
def test_queries():
    """The two columns that are ours."""
    con = metric_engines.connect()
    rows = [
        (query, item, QRELS[query].get(item), RUN[query].get(item))
        for query in QRELS
        for item in QRELS[query].keys() | RUN[query].keys()
    ]
    scored = pl.DataFrame(rows, ["query", "item", "rel", "score"], orient="row")
    con.register("scored", scored)
    compared = 0
    for name, call in names("SQL and polars"):
        table = "ranked('scored', query := 'query')"
        result = con.sql(
            f"SELECT query, coalesce({call}, 0) FROM {table} GROUP BY query"
        ).fetchall()
        assert evaluated(name) == pytest.approx(dict(result), abs=1e-12), name
        compared += 1
    assert compared == len(ROWS) - 2


@pytest.mark.slow
def test_trec_eval():
    for name, theirs in names("trec_eval, pytrec_eval"):
        level = 2 if "rel=2" in name else 1
        evaluator = pytrec_eval.RelevanceEvaluator(QRELS, {theirs}, relevance_level=level)
        result = {query: values[theirs] for query, values in evaluator.evaluate(RUN).items()}
        ours = evaluated(name, conventions="trec_eval")
        assert ours == pytest.approx(result, abs=1e-12), name
        if level == 1:
            assert evaluated(theirs, conventions="trec_eval") == ours, theirs


@pytest.mark.slow
def test_ir_measures():
    """Without ties, which its providers order differently."""
    ranks = {q: {item: rank for rank, item in enumerate(order(q))} for q in RUN}
    for name, theirs in names("ir_measures"):
        measure = ir_measures.parse_measure(theirs)
        result = {m.query_id: m.value for m in ir_measures.iter_calc([measure], QRELS, ranks)}
        assert evaluated(name, conventions="trec_eval") == pytest.approx(result, abs=1e-12), name


def order(query):
    """The items of a query from the last to the first, as trec_eval ranks them."""
    return sorted(RUN[query], key=lambda item: (np.float32(RUN[query][item]), item.encode()))


def test_ranx():
    """The names under which tests/core/metrics/test_profiles.py compares the values."""
    compared = [*names("ranx")]
    assert len(compared) > 12
    for name, theirs in compared:
        assert other_tools.ranx_name(name) == theirs


@pytest.mark.ranx
@pytest.mark.slow
def test_blocks(tmp_path, monkeypatch):
    """The blocks that test_blocks.py leaves out, with those before them."""
    monkeypatch.chdir(tmp_path)
    other_tools.ranx_library()
    every = PAGE.replace("```py\n", "```python\n")
    assert every != PAGE
    with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
        assert cells(run_blocks(every)) == cells(every)


def test_numbers_are_equal():
    """What the page asks of every peer is answered with yes."""
    answers = re.findall(r"^>>> same\(.*\n(.*)$", PAGE, re.MULTILINE)
    assert answers == ["True"] * 4


def test_what_other_tools_count_otherwise():
    """Hamming diversity, popularity and novelty by interactions, users without test rows, None."""
    kinds = [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    pairs = [(a, b) for i, a in enumerate(kinds) for b in kinds[i + 1 :]]
    hamming = sum(sum(x != y for x, y in zip(a, b, strict=True)) for a, b in pairs) / len(pairs)
    frame = pl.DataFrame({"category": [*"xyy"], "pos": [1, 2, 3]})
    assert 2 * frame.select(rankql.category_diversity("category")).item() == pytest.approx(hamming)

    train = pl.DataFrame({"user": [1, 1, 2, 3, 3], "item": [*"ababc"]})
    run = pl.DataFrame({"user": [1, 1, 2, 2, 4], "item": [*"cbaca"], "pos": [1, 2, 1, 2, 1]})
    test = pl.DataFrame({"user": [1, 2], "item": [*"cc"]})
    share = {"a": 2 / 5, "b": 2 / 5, "c": 1 / 5}
    result = rankql.evaluate(run, test, ["Popularity@10", "Novelty@10"], train=train)
    shown = [[share[item] for item in items] for items in ("cb", "ac")]
    expected = sum(map(sum, shown)) / 4
    assert result["Popularity@10"] / len(train) == pytest.approx(expected)
    # RecTools has the third user, whose items nobody has in test.
    counts = train.group_by("item").agg(popularity=pl.len())
    lists = run.join(counts, on="item").group_by("user").agg(
        all_users=rankql.novelty("popularity", users=3),
        interactions=rankql.novelty("popularity", users=len(train)))  # fmt: skip
    inverse = {item: -math.log2(value * 5 / 3) for item, value in share.items()}
    by_user = [(inverse["c"] + inverse["b"]) / 2, (inverse["a"] + inverse["c"]) / 2, inverse["a"]]
    assert lists["all_users"].mean() == pytest.approx(sum(by_user) / 3)
    assert result["Novelty@10"] == pytest.approx(sum(by_user[:2]) / 2)
    logs = {item: -math.log2(value) for item, value in share.items()}
    microsoft = sum(logs[item] for item in "cbac") / 4
    assert lists.filter(pl.col("user") < 3)["interactions"].mean() == pytest.approx(microsoft)

    orders = pl.DataFrame({"query": [1, 1, 2], "item": ["a", "b", "None"], "rel": 1})
    guess = pl.DataFrame({"query": [1, 2, 2], "item": ["a", "None", "c"], "pos": [1, 1, 2]})
    f1 = rankql.evaluate(guess, orders, "SetF")["SetF"]
    assert f1 == pytest.approx((2 / 3 + 2 / 3) / 2)


SMALL = PAGE.partition("## Small packages")[2].partition("\n## ")[0]


@few(3)(("package", "call", "run", "qrels", "options", "value"), [
    ("torchrec 1.9.2", "nDCG", {"q": "ab"}, {"q": {"a": 1, "b": 2}}, {}, 1 - 0.1403),
    ("recsys-metrics-polars 0.0.3", "R_cap@2", {"q": "ab"}, {"q": dict.fromkeys("abcd", 1)}, {}, 1),
    ("graphrag-eval 6.6.1", "R@1", {"q": "ba"}, {"q": {"a": 1, "b": 1}}, {}, 0.5),
    ("allrank 1.4.3", "RR(rel=3)", {"q": "abc"}, {"q": {"a": 1, "b": 0, "c": 3}}, {}, 1 / 3),
    ("allrank 1.4.3", "nDCG(gain=exp2)", {"q": "a"}, {"q": {"a": 0}}, {"undefined": "one"}, 1),
    ("szl-retrieval-bench 0.3.1", "nDCG(gain=exp2)", {"q": "ab"}, {"q": {"a": 1, "b": 2}}, {},
     0.7967),
    ("authorized-recall 0.2.0", "R@1", {"q": "a"}, {"q": {"a": 0}}, {"undefined": "one"}, 1),
    ("authorized-recall 0.2.0", "nDCG@1", {"q": "a"}, {"q": {"a": 0}}, {"undefined": "zero"}, 0),
    ("anchor-eval 0.3.1", "Success@3", {"p": "ax", "q": "axyzv"}, {"p": {"a": 1}, "q": {"a": 1}},
     {}, 1),
    ("hitgate 0.1.1", "RR@5", {"q": [*"uvwxyz", "a"]}, {"q": {"a": 1}}, {}, 0),
    ("torcheval 0.0.7", "P@2", {"q": "ab"}, {"q": {"a": 3, "b": 0}}, {}, 0.5),
    ("LensKit 2026.4.0", "P@2", {"q": "ab", "r": "ab"}, {"q": {"a": 1}, "r": {"a": 0}},
     {"undefined": "drop"}, 0.5),
    ("LensKit 2026.4.0", "P@2", {"q": "ab", "r": "ab"}, {"q": {"a": 1}, "r": {"a": 0}},
     {"undefined": "zero"}, 0.25),
])  # fmt: skip
def test_calls_of_small_packages(package, call, run, qrels, options, value):
    """The row of the package has the call and its options, which give our number."""
    row = next(x for x in SMALL.splitlines() if package in x)
    asked = call.replace("@1", "@k").replace("@2", "@k")
    assert options or any(x in row for x in (call, asked, call.partition("@")[0]))
    assert all(f'{x}="{y}"' in row for x, y in options.items())
    runs = {x: {item: -i for i, item in enumerate(y)} for x, y in run.items()}
    assert rankql.evaluate(runs, qrels, call, **options)[call] == pytest.approx(value, abs=6e-5)


@pytest.mark.parametrize("language", tools_table.PAGES)
def test_the_sections_of_tools_are_those_of_the_rows(language):
    """Each tool has one, in the order of their names."""
    page = tools_table.PAGES[language].read_text("utf-8")
    assert tools_table.with_sections(language) == page, "run python tests/generate.py tools"
    assert page.count('`conventions="') >= len(PROFILES) - 1
    said = [tools_table.sentence(name, language) for name in TOOLS if name != "rankql"]
    assert all(page.count(sentence) == 1 for sentence in said)
    titles = re.findall("^### (.+)$", page, re.MULTILINE)
    assert titles == sorted(titles, key=str.lower) and len(titles) > 40
    sections = [tools_table.keys(title) for title in titles]
    assert sorted(key for named, _ in sections for key in named) == sorted({*TOOLS} - {"rankql"})
    others = {tool for row in OTHERS for tool in row[1].split(", ")}
    assert {tool for _, names in sections for tool in names} == others
