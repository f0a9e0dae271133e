"""What a comparison shows: one layout for text, Markdown, LaTeX, HTML and .xlsx."""

import re

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli import demo
from rankql.cli.main import main
from rankql.core.base.results import Block, cut_in_middle
from rankql.core.base.text import display_width, format_shares
from rankql.decisions.comparison import name_letters
from support.own_values import compare_values
from support.parameters import few

METRICS = ["nDCG@10", "AP", "RR@10"]


def values(names, metrics=METRICS, n=60, gap=0.05, **attributes):
    """Values per query: each system is better than the one before by the gap."""
    frames = {}
    for i, name in enumerate(names):
        about = {key: [each[q % len(each)] for q in range(n)] for key, each in attributes.items()}
        columns = {
            metric: [(q * 7 % 11) / 30 + gap * i + (q * (3 + i + k) % 7) / 70 for q in range(n)]
            for k, metric in enumerate(metrics)
        }
        frames[name] = pl.DataFrame({"query": range(n), **about, **columns})
    return frames


def printed(result):
    """The tables below the title, and the lines below them."""
    text = repr(result).partition("\n\n")[2]
    tables, _, rest = text.partition("\nMethod: ")
    return [line for line in tables.split("\n") if "  " in line], f"Method: {rest}".split("\n")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    demo.write_shop(folder, 1000)
    return folder


@few(1)(("options", "most"), [([], 20), (["--by", "segment"], 37)])
def test_the_demo_fits_a_terminal(shop, options, most):
    """Each sentence and each note is a line."""
    files = [f"old={shop}/shop.parquet", f"new={shop}/new.parquet", f"{shop}/shop.parquet"]
    done = CliRunner().invoke(main, ["compare", *files, "--score", "score", *options])
    lines = done.stdout.rstrip("\n").split("\n")
    assert done.exit_code == 0 and len(lines) <= most, done.stdout
    end = lines.index("", 2)
    assert lines[0].startswith("Is new better than old? ") and lines[1] == ""
    table, below = lines[2:end], lines[end:]
    assert max(map(len, table)) <= 100 and table[0].split()[-1] == "verdict"
    assert {"old", "new"} < {*table[0].split()} and "0.6" in table[1]
    for start in ("Method: ", "Queries: ", "Conventions: ", "Columns: "):
        assert sum(line.startswith(start) for line in below) == 1
    assert sum("undefined" in line for line in below) == 1


def test_two_systems_have_a_row_per_metric():
    compared = compare_values(values(["old", "new"]))
    table, below = printed(compared)
    assert re.split("  +", table[0]) == [
        "metric", "old", "new", "new - old", "95% CI", "p", "verdict"
    ]  # fmt: skip
    row = compared.pairs.row(0, named=True)
    mean_a, mean_b, difference = (f"{row[name]:.4f}" for name in ("mean_a", "mean_b", "difference"))
    interval = f"{row['lo']:.4f} to {row['hi']:.4f}"
    assert re.split("  +", table[1]) == [
        "nDCG@10", mean_a, mean_b, difference, interval, "<0.001", "better"
    ]  # fmt: skip
    assert "Holm-adjusted for 3 tests, 60 queries" in below[0]
    assert compared.table.columns == [
        "metric", "old", "new", "new - old", "lo", "hi", "p", "verdict"
    ]  # fmt: skip
    assert compared.table["old"].to_list() == compared.pairs["mean_a"].to_list()
    assert {"ties", "effect", "detectable"} < {*compared.long().displayed()[0].columns}
    assert compared.to_dict()["settings"]["test"] == "auto"
    turned = compare_values(values(["old", "new"]), baseline="new")
    assert turned.table.columns[1:4] == ["new", "old", "old - new"]


def test_three_systems_have_letters_for_those_that_are_worse():
    """The best first: bc beats both, and equal ones beat none."""
    systems = values(["bm25", "tasb", "splade"])
    systems["splade"] = systems["tasb"].with_columns(pl.col("nDCG@10") + 0.001)
    compared = compare_values(systems)
    table, below = printed(compared)
    assert [line.split()[:2] for line in table[1:]] == [
        ["a", "splade"], ["b", "tasb"], ["c", "bm25"]
    ]  # fmt: skip
    pairs = compared.pairs.filter(metric="AP")["a", "b", "verdict"].rows()
    few = "cannot be decided: 0 of 60 queries differ, 9 are needed"  # at that of 7 tests
    assert [verdict for *_, verdict in pairs] == ["better", "better", few]
    assert compared.table["AP marks"].to_list() == ["c", "c", ""]
    assert "letters: systems that are significantly worse" in below[0]
    latex = compared.to_latex()
    assert latex.startswith("\\begin{table}\n\\centering\n\\caption{Means of ")
    assert " on 60 queries. Paired t test" in latex
    assert (
        "Holm-adjusted for 7 tests, 60 queries; letters: " in latex
        and "\\textsuperscript{c}" in latex
    )
    assert latex.index("\\end{table}") < latex.index("\n% ")


def test_with_a_baseline_marks_are_against_it_alone():
    compared = compare_values(values([*"abc"]), baseline="b")
    assert compared.table["system"].to_list() == ["b", "c", "a"]
    assert compared.table["AP marks"].to_list() == ["", "†", "‡"]
    assert "† significantly better than b, ‡ significantly worse" in compared.method
    assert compared.title.endswith(", significantly better than b")


def test_slices_of_several_systems_are_rows_beside_their_attributes(tmp_path):
    """A block for each metric, a column for each system, in every format."""
    compared = compare_values(values([*"abc"], part="xy"), by="part")
    blocks = compared._rendered()
    assert [block.title for block in blocks] == compared.metrics
    header, every, *others = ([str(x) for x in row] for row in blocks[0].rows)
    order = compared.result.best_first
    assert header == ["part", "queries", *(f"{x} {y}" for x, y in zip("abc", order, strict=True))]
    assert every[:2] == ["all", "60"] and [row[0] for row in others] == ["x", "y"]
    assert f"**{compared.metrics[0]}**" in compared.to_markdown()
    assert f"\\multicolumn{{5}}{{l}}{{{compared.metrics[0]}}}" in compared.to_latex()
    assert compared.to_markdown().count("| **0.") == 3 * len(blocks)


@few(1)("names", [("p", "metric"), ("verdict", "lo"), ("system", "letter")])
def test_systems_may_have_the_names_of_columns(names):
    systems = values(names, part="xy")
    for several in (systems, systems | values(["third"], part="xy")):
        compared = compare_values(several, by="part")
        assert all(name in repr(compared) for name in names)
        assert all(f"{compared.summary['mean'][0]:.4f}" in x for x in (repr(compared),))


WIDE = {
    "long": ["colbert-v2-2024-seed-1-final", "colbert-v2-2024-seed-2-final"],
    "Chinese": ["基于稠密向量的检索系统版本一", "基于稠密向量的检索系统版本二"],
    "many": [f"s{i}" for i in range(15)],
    "special": ["a|b&c_$<x>^~", "@team/run #1"],
    "short": [*"ab"],
}


@few(1)(
    ("names", "by"),
    [(names, by) for names in WIDE for by in (None, [["国家"], ["国家", "device"]])
     if names != "many" or not by],  # 105 pairs by slice
)  # fmt: skip
@pytest.mark.parametrize("metrics", [METRICS, [f"nDCG@{k}" for k in range(1, 13)]])
def test_names_are_cut_and_means_are_in_blocks_of_80_columns(names, metrics, by):
    """The table of a pair has all its columns, whatever the room."""
    about = {"国家": ["中国", "法国"], "device": ["desktop", "mobile", "tablet"]} if by else {}
    systems = values(WIDE[names], metrics[: 3 if names == "many" else 12], gap=0.002, **about)
    compared = compare_values(systems, by=by or (), correction="bonferroni")
    table, _ = printed(compared)
    assert max(map(display_width, table)) <= (80 if names == "many" else 132)
    text = repr(compared)
    assert all(name in text for name in WIDE[names])
    assert f"{compared.summary['mean'].max():.4f}" in text
    markdown, latex = compared.to_markdown(), compared.to_latex()
    assert "…" not in markdown + latex
    for line in latex.split("\\midrule")[1].split("\\bottomrule")[0].strip().split("\n"):
        line = re.sub(r"\$[-\d.,{}\\;\[\] ]+\$", "", line)  # numbers in math mode
        assert line.endswith("\\\\") and not re.search(r"(?<!\\)[_#$<>^~|]", line)


def test_names_are_cut_in_the_middle_at_16_display_columns():
    names = ["abcdefghijklmnopqrstuvwxyz", "基于稠密向量的检索系统版本一", "short", "x" * 16]
    short = cut_in_middle(names, 16)
    assert short == {
        names[0]: "abcdefgh…tuvwxyz", names[1]: "基于稠密…版本一", "short": "short",
        names[3]: names[3],
    }  # fmt: skip
    alike = [f"a-system-of-2024-{n}-with-everything" for n in range(30)]
    assert len({*cut_in_middle(alike, 16).values()}) == 30


def test_a_cut_table_names_the_rows_below_the_gap():
    rows = [[x if i == 0 else "", str(i)] for x in ("AP", "RR") for i in range(41)]
    cut = Block([["metric", "n"], *rows]).cut().rows
    assert cut[30:33] == [["", "29"], ["... 22 more rows ...", ""], ["RR", "11"]]


def test_letters_beyond_26():
    names = [*name_letters([f"s{i}" for i in range(29)]).values()]
    assert names[:3] == [*"abc"] and names[25:] == ["z", "aa", "ab", "ac"]


def test_numbers_of_a_row_agree():
    """The sign of the difference of the printed means, and the side of 0 of a bound."""
    shifts = (1e-6, 3e-5, 4e-5, 6e-5, -6e-5, 0.00049, 0.0)
    base = [0.30006 + (q % 8 - 3.5) / 50 for q in range(400)]  # 0.30012 rounds like it
    new = {s: [x + s + (q % 2 - 0.5) * 1e-4 for q, x in enumerate(base)] for s in shifts}
    old = pl.DataFrame({"query": range(400), **{f"own{s}": base for s in shifts}})
    systems = {"old": old, "new": old.with_columns(pl.Series(f"own{s}", new[s]) for s in shifts)}
    compared = compare_values(systems, higher_is_better=True, correction="none")
    table, _ = printed(compared)
    for line, row in zip(table[1:], compared.pairs["verdict"], strict=True):
        cells = re.split("  +", line)
        old, new, difference = map(float, cells[1:4])
        lo, hi = map(float, cells[4].split(" to "))
        assert (new > old) - (new < old) == (difference > 0) - (difference < 0)
        assert len({len(cell.rpartition(".")[2]) for cell in cells[1:5]}) == 1
        assert row == ("better" if lo > 0 else "worse" if hi < 0 else "not significant")


@pytest.mark.slow
def test_files_hold_what_is_shown(tmp_path, monkeypatch):
    """.csv, .json and .parquet have the rows of pairs whatever is shown."""
    monkeypatch.chdir(tmp_path)
    systems = values(["old", "new"])
    for name, frame in systems.items():
        frame.write_parquet(f"{name}.parquet")

    def run(*options):
        files = ["old=old.parquet", "new=new.parquet"]
        done = CliRunner().invoke(main, ["compare", *files, *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    compared = compare_values(systems)
    views = {(): compared, ("--wide",): compared.wide(), ("--pairs",): compared.long()}
    for options, view in views.items():
        for name, text in (("w.md", view.to_markdown()), ("w.tex", view.to_latex())):
            run(*options, "-o", name)
            assert (tmp_path / name).read_text("utf-8") == text + "\n"
        for name in ("w.csv", "w.json", "w.parquet"):
            run(*options, "-o", name)
        if options:  # without, it is the report
            run(*options, "-o", "w.html")
            page = (tmp_path / "w.html").read_text("utf-8")
            assert all(part in page for part in view._render_parts(""))
        assert pl.read_parquet("w.parquet").equals(compared.pairs)
        assert (tmp_path / "w.json").read_text("utf-8") == compared.to_json() + "\n"
        assert pl.read_csv("w.csv").columns == compared.pairs.columns
        assert run(*options, "--format", "latex") == view.to_latex() + "\n"


def test_xlsx_needs_a_package(tmp_path, monkeypatch):
    monkeypatch.setattr("rankql.core.base.errors.find_spec", lambda name: name != "xlsxwriter")
    compared = compare_values(values(["old", "new"]), test="t")
    with pytest.raises(rankql.RankqlError, match=r"pip install 'rankql\[excel\]'"):
        compared.save(tmp_path / "w.xlsx")
    assert not [*tmp_path.iterdir()]


def test_evaluations_of_several_runs_show_systems_by_metrics():
    """In the order of the caller; undefined and missing queries in one line."""
    grades = {"query": ["a", "b"], "item": ["x", "x"], "rel": [1, 0]}
    new, old = pl.DataFrame({**grades, "pos": [1, 1]}), pl.DataFrame({**grades, "pos": [2, 1]})
    both = rankql.evaluate({"old": old, "new": new}, metrics=["RR", "P@1"])
    assert both.table.rows() == [("old", 0.5, 0.0), ("new", 1.0, 0.5)]
    assert repr(both).startswith("system      RR     P@1\nold     0.5000  0.0000\n")
    assert "Queries: 2; 1 of 2 (RR) undefined\n" in repr(both)
    assert both.long().table.equals(both.summary) and both.data.equals(both.summary)
    assert repr(both.long()).startswith("system  metric")
    qrels = new.select("query", "item", "rel")
    runs = {"old": old.head(1).drop("rel"), "new": new.drop("rel")}
    lacking = rankql.evaluate(runs, qrels, ["RR", "P@1"])
    assert "Queries: 2; 1 of 2 (old) missing; 1 of 2 (RR) undefined\n" in repr(lacking)


def test_one_line_counts_queries_by_run():
    """Missing, undefined and unjudged ones, in the numbers of the table, whatever displays them."""
    qrels = pl.DataFrame({"query": range(40), "item": "x", "rel": [0, 0, *[1] * 38]})
    first, last = {"a": 9, "b": 0, "c": 4}, {"a": 44, "b": 42, "c": 44}
    runs = {
        name: pl.DataFrame({"query": range(start, last[name])}).select("query", item=pl.lit("x"))
        for name, start in first.items()
    }
    runs = {name: frame.with_columns(pos=pl.lit(1)) for name, frame in runs.items()}
    unjudged = ("4 of 35 (a), 4 of 40 (c), 2 of 42 (b) not judged and left out "
                "(40, 41, 42, ...; unjudged_queries='count' counts them)")  # fmt: skip
    result = rankql.evaluate(runs, qrels, ["nDCG", "P@1"])
    line = f"Queries: 40; 9 of 40 (a), 4 of 40 (c) missing; 2 of 40 (nDCG) undefined; {unjudged}"
    noted, many = result.notes
    assert result.remarks()[0] == line and noted == f"Queries: {unjudged}"
    assert many.startswith("9 of 40 judged queries (22%) are missing from run 'a' and counted as")
    counts = result.summary.select("system", "metric", "missing", "undefined")
    assert counts.filter(metric="nDCG").rows() == [
        ("a", "nDCG", 9, 2), ("b", "nDCG", 0, 2), ("c", "nDCG", 4, 2)
    ]  # fmt: skip
    assert result.long().remarks()[0] == f"Queries: {unjudged}"  # the table has the others
    compared = rankql.compare(runs, qrels, ["nDCG", "P@1"])
    (line,) = (x for x in compared.remarks() if x.startswith("Queries: "))
    missing = "Queries: 9 of 40 (a), 4 of 40 (c) missing and counted as the worst value"
    undefined = "2 of 40 (nDCG) undefined in at least one system and left out"
    assert line == f"{missing}; {undefined}; {unjudged}"
    assert missing in compared.notes and f"Queries: {undefined}" in compared.to_dict()["notes"]
    assert not [x for x in compared.remarks() if x.startswith("Note: ") and "undefined" in x]
    assert line in compared.to_markdown() and line in compared.to_latex()
    assert line in compared._repr_html_().replace("&#x27;", "'")


def test_of_many_runs_the_small_shares_are_counted():
    names = [f"r{i}" for i in range(12)]
    shares = [(name, i // 2, 1000) for i, name in enumerate(names)]
    assert format_shares(shares[:4]) == "1 of 1,000 (r2 and r3)"
    assert format_shares([*shares, ("z", 9, 1000)]) == (
        "9 of 1,000 (z), 5 of 1,000 (r10 and r11), 4 of 1,000 (r8 and r9), "
        "3 of 1,000 (r6 and r7), 2 of 1,000 (r4 and r5), fewer (2 more)"
    )
    assert format_shares((name, 3, 40) for name in names) == "3 of 40"
    assert format_shares((name, 0, 40) for name in names) == ""


def test_slices_by_several_attributes_are_not_cut():
    """The last attribute is below the others, in each layout that has a column of slices."""
    log = pl.DataFrame({
        "query": range(12), "item": "x", "rel": [0, 1, 1] * 4, "pos": 1,
        "segment": ["large accounts", "small, old accounts"] * 6,
        "device": [*["phone"] * 6, *["desktop computer"] * 6],
    })  # fmt: skip
    result = rankql.evaluate(log, metrics="P@1", by=["device", ["segment", "device"]])
    nested = ["all", "device=desktop computer", "  segment=large accounts",
              "  segment='small, old accounts'", "device=phone", "  segment=large accounts",
              "  segment='small, old accounts'"]  # fmt: skip
    for view in (result, result.wide()):
        table = repr(view).partition("\n\n")[0].split("\n")
        first = [re.split(r"(?<=\S)  ", line)[0] for line in table]
        assert first[-7:] == nested and "…" not in repr(view)
    compared = rankql.compare({"a": log, "b": log}, metrics="P@1", by=[["segment", "device"]])
    table, _ = printed(compared)
    assert "…" not in repr(compared) and "        segment=large accounts\n" in repr(compared)
    assert sum("          device=phone " in line for line in table) == 2
    assert "segment=large accounts, device=phone" in compared.to_markdown()
    block = Block([["slice", "n"], ["all", "1"], ["a=x, b=y", "2"]], (1,))
    assert block.nest() is block  # which fits
    other = Block([["note", "n"], ["a long sentence, with x=y and z", "2"]], (1,))
    assert other.nest() is other


@pytest.mark.parametrize("systems", [1, 2])
@pytest.mark.parametrize("metrics", [["P@1"], ["P@1", "RR"]])
@pytest.mark.parametrize("by", [["week", "market"], [["week"], ["market"]], ["week"]])
def test_wide_offers_calls_that_were_tried(by, metrics, systems):
    """Columns of an attribute and metric are those of the attribute where there is one metric."""
    rows = [(f"q{q}", x, x == "a", q % 3, q % 2, s) for q in range(12) for x in "ab" for s in "mn"]
    names = ["query", "item", "rel", "week", "market", "system"]
    log = pl.DataFrame(rows, names, orient="row").with_columns(pos=1 + (pl.col("item") == "a"))
    log = log if systems == 2 else log.filter(system="m")
    options = {"system": "system"} if systems > 1 else {}
    result = rankql.evaluate(log, metrics=metrics, by=by, interval=None, **options)
    both = ["market", "metric"]
    for rows, columns in (("week", both), ("system", both), ("item", None), ("week", None)):
        try:
            table = result.wide(rows, columns).table
        except rankql.RankqlError as error:
            offers = str(error).partition(". ")[2]
            if by != ["week", "market"] and systems == 1:
                assert offers == "Leave out both"
                continue
            for offer in offers.removeprefix("Pass ").split(" or "):
                assert eval(f"result.wide({offer})", {"result": result}).table.height
        else:
            crossed = [*["system"] * (systems - 1), "week", "0", "1"]
            assert table.columns == crossed if rows == "week" else systems == 2


def test_slices_by_two_attributes():
    log = pl.DataFrame({
        "query": range(8), "item": "x", "rel": [1, 0, 1, 1, 0, 0, 1, 1], "pos": 1,
        "country": [*"DDDDFFFF"], "week": [1, 2] * 4, "mean": [*"uuuuvvvv"],
    })  # fmt: skip
    result = rankql.evaluate(log, metrics="P@1", by=[["country", "week"], ["mean"]])
    wide = result.wide(rows="country", columns="week")
    assert wide.table.rows() == [("D", 1.0, 0.5), ("F", 0.5, 0.5)]
    assert wide.table.columns == ["country", "1", "2"]
    assert result.wide(rows="week", columns="country").table.columns == ["week", "D", "F"]
    with pytest.raises(rankql.RankqlError, match="Pass rows='country', columns='week'"):
        result.wide(rows="country", columns="mean")
    two = rankql.evaluate(log, metrics=["P@1", "Success@1"], by=["country", "week"])
    titles = [block.title for block in two.wide(rows="country", columns="week")._rendered()]
    assert titles == ["P@1", "Success@1"]
    every = result.wide(rows="country", columns="week", margins=True)
    assert every.table.columns == ["country", "all", "1", "2"]
    expected = [("all", 0.625, 0.75, 0.5), ("D", 0.75, 1.0, 0.5), ("F", 0.5, 0.5, 0.5)]
    assert every.table.rows() == expected
    compared = rankql.compare({"a": log, "b": log}, metrics="P@1", by=["country", "week"])
    crossed = compared.wide(rows="country", columns="week", margins=True)
    assert crossed.table.filter(system="a").drop("system").rows() == every.table.rows()
    odd = log.with_columns(country=pl.lit("all"))
    odd = rankql.evaluate(odd, metrics="P@1", by=["country", "week"])
    odd = odd.wide(rows="country", columns="week", margins=True)
    assert odd.table["country"].to_list() == ["(all)", "all"]
    counts = result.wide(rows="country", columns="week", n=True)
    assert counts.table.rows() == [("D", 1.0, 2, 0.5, 2), ("F", 0.5, 2, 0.5, 2)]
    assert counts.table.columns == ["country", "1", "1 n", "2", "2 n"]
    assert counts.to_markdown().split("\n")[0] == "| country | 1 | n | 2 | n |"
    with pytest.raises(rankql.RankqlError, match="Pass rows= and columns="):
        result.wide(n=True)


@few(2)("values", [("NULL", None), ("'NULL'", "NULL"), ("", None), (1.5, None)])
def test_slices_by_two_attributes_have_a_place_each(values):
    """Values that look alike are told apart as in the labels of slices."""
    log = pl.DataFrame({
        "query": range(8), "item": "x", "rel": [1, 0] * 4, "pos": 1, "n": "u", "v": [*values] * 4,
    }, strict=False)  # fmt: skip
    result = rankql.evaluate(log, metrics="P@1", by=["n", "v"])
    labels = [x.split("v=")[1] for x in result.summary["slice"] if x != "all"]
    wide = result.wide(rows="n", columns="v", n=True).table
    assert wide.columns == ["n", labels[0], f"{labels[0]} n", labels[1], f"{labels[1]} n"]
    assert sorted(wide.row(0)[1:]) == [0, 1, 4, 4]
    turned = result.wide(rows="v", columns="n").table
    assert turned["v"].to_list() == labels and sorted(turned["u"]) == [0, 1]


def test_n_of_a_mean_is_that_of_its_values():
    """A mean leaves out what is undefined, and what is missing where no value is the worst."""
    queries = range(12)
    run = pl.DataFrame({"query": queries, "item": "x", "score": 1.0}).filter(pl.col("query") > 2)
    qrels = pl.DataFrame({"query": queries, "item": "x", "rel": [0, 1] * 6})
    about = pl.DataFrame({"query": queries, "a": "u", "b": "v"})
    n = {"zero": {"AP": 6, "RMSE": 9, "P@1": 12}, "skip": {"AP": 5, "RMSE": 9, "P@1": 9}}
    for missing, expected in n.items():
        result = rankql.evaluate(
            run, qrels, [*expected], attributes=about, by=[["a", "b"]], missing=missing
        )
        wide = result.wide(rows="a", columns="b", n=True).table
        assert dict(wide.select("metric", "v n").rows()) == expected


def test_latex_of_two_systems_is_a_narrow_table():
    """Compiled by hand at 10 pt: with names of 12 letters it fits into 12.2 cm."""
    compared = compare_values(values(["old-system", "b"], part="xy"), by="part")
    latex = compared.to_latex()
    lines = latex.split("\n")
    assert "metric & old-system & b & b - old-system \\\\" in lines
    (row,) = compared.pairs.filter(metric="AP", slice="all").to_dicts()
    shown = f"{row['difference']:.4f}\\;[{row['lo']:.4f}, {row['hi']:.4f}]"
    mark = {"better": "\\dag{}", "worse": "\\ddag{}"}[row["verdict"]]
    assert any(f"${shown}$\\textsuperscript{{{mark}}} \\\\" in line for line in lines)
    assert "% AP, all: p <0.001, " in latex and "\n\\quad part=x & $" in latex
    assert (
        "† significantly" not in latex and "\\dag{} significantly better than old-system" in latex
    )
    assert compared.long().to_latex().count("verdict") == 1
