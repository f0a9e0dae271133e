"""What charts are drawn of; test_chart_specs.py has the rows, their order and their intervals."""

import copy
import warnings
from datetime import date

import polars as pl
import pytest

import rankql
from rankql.decisions.pair_table import orient_pairs
from rankql.pages import charts

pytestmark = pytest.mark.report

# The position of the one relevant item of each query, which alone is judged; 0: not retrieved.
OLD, NEW = {"a": 1, "b": 2, "c": 4, "d": 0}, {"a": 2, "b": 1, "c": 1, "d": 4}
QRELS = pl.DataFrame({"query": list("abcd"), "item": ["x"] * 4, "rel": [1] * 4})


def run(positions):
    rows = [
        (query, "x" if pos == place else f"other {pos}", pos)
        for query, place in positions.items()
        for pos in range(1, 5)
    ]
    return pl.DataFrame(rows, schema=["query", "item", "pos"], orient="row")


def compare(metrics, **options):
    return rankql.compare({"old": run(OLD), "new": run(NEW)}, QRELS, metrics, **options)


def panels(chart):
    """The panels of a chart, as plain values, each data set where it is drawn."""
    spec = copy.deepcopy(chart) if isinstance(chart, dict) else chart.to_dict()
    parts = spec.get("concat", [spec])
    for each in [layer for part in parts for layer in (part, *part["layer"]) if "data" in layer]:
        data = each["data"]
        each["data"] = data["values"] if "values" in data else spec["datasets"][data["name"]]
    return parts


def test_the_scale_of_differences_has_0():
    """Also where all differences and intervals are on one side of it."""
    new = {**dict.fromkeys("abcdefg", 1), "a": 2}
    runs = {"old": run(dict.fromkeys(new, 4)), "new": run(new)}
    qrels = {query: {"x": 1} for query in new}
    (panel,) = panels(rankql.compare(runs, qrels, "RR", test="t").plot("slices"))
    assert panel["data"][0]["lo"] > 0
    scales = [layer["encoding"].get("x", {}).get("scale") for layer in panel["layer"]]
    assert {scale["domain"][0] for scale in scales if scale} == {0}


def test_metrics_without_a_value_are_not_drawn():
    """Of no kind: a panel without rows looked like a value of 0."""
    systems = {"old": run(OLD), "new": run(NEW)}
    none = "RR2 = nullif(rr(rel, pos), rr(rel, pos))"
    comparison = rankql.compare(systems, QRELS, ["RR", none])
    for kind in ("means", "distribution", "slices", "differences"):
        (panel,) = panels(comparison.plot(kind))
        assert panel["title"].startswith("RR:")
    (panel,) = panels(rankql.evaluate(run(OLD), QRELS, ["RR", none]).plot())
    assert panel["title"] == "RR: means"
    with pytest.raises(rankql.RankqlError, match="Nothing to plot"):
        rankql.evaluate(run(OLD), QRELS, none).plot()


def test_metrics_of_the_catalogue_have_no_difference_by_query():
    comparison = compare(["RR", "g = gini(item, catalogue := 50)"])
    (only,) = panels(comparison.plot())
    assert only["title"] == "RR: new − old"
    assert len(panels(comparison.plot("slices"))) == 2
    with pytest.raises(rankql.RankqlError, match="no query has a difference"):
        comparison.plot(metric="g")


def test_charts_load_nothing_from_the_network(tmp_path):
    chart = compare("RR").plot("means").properties(width=300)
    bundle = chart._repr_mimebundle_()
    assert "text/html" not in bundle and bundle["image/svg+xml"].startswith("<svg")
    # The font for which labels have room: system fonts of browsers are wider.
    chart.save(tmp_path / "chart.svg")
    for picture in (bundle["image/svg+xml"], (tmp_path / "chart.svg").read_text()):
        assert 'font-family="Arial' in picture and "system-ui" not in picture
    chart.save(tmp_path / "chart.html")
    page = (tmp_path / "chart.html").read_text()
    assert 'src="http' not in page and "vegaEmbed" in page


@pytest.mark.parametrize("name", ["chart.png", "chart.svg", "chart.json"])
def test_pictures_are_saved_without_a_warning(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare("RR").plot("means").save(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 500


def test_values_per_query_are_drawn_by_slice_and_alike_for_systems():
    ranks = {f"q{i}": 1 + i % 4 for i in range(40)}
    qrels = pl.DataFrame({"query": [*ranks], "item": "x", "rel": 1})
    about = pl.DataFrame({"query": [*ranks], "segment": [*"ab"] * 20, "device": [*"cdef"] * 10})
    one = rankql.evaluate(run(ranks), qrels, "RR", attributes=about, by=[["segment", "device"]])
    (panel,) = panels(one.plot("RR", kind="distribution"))
    names = {f"segment={x}, device={y}" for x, y in ("ac", "bd", "ae", "bf")}
    assert {row["name"] for row in panel["data"]} == names
    runs = {"old": run(ranks), "new": run(dict.fromkeys(ranks, 1))}
    drawn = rankql.evaluate(runs, qrels, "RR").plot(kind="distribution")
    (panel,), (same,) = map(panels, (drawn, rankql.compare(runs, qrels, "RR").plot("distribution")))
    assert sorted(map(str, same["data"])) == sorted(map(str, panel["data"]))
    with pytest.raises(rankql.RankqlError, match="kind must be 'means' or 'distribution', not x"):
        one.plot(kind="x")


@pytest.mark.parametrize(("missing", "undefined"), [("zero", "skip"), ("skip", "zero")])
def test_the_values_that_are_drawn_are_those_of_the_mean(missing, undefined):
    """30 queries at rank 1; 5 are missing, and of 5 nothing is relevant."""
    qrels = pl.DataFrame({"query": [f"q{i:02}" for i in range(40)], "item": "x"})
    qrels = qrels.with_columns(rel=(pl.int_range(40) < 35).cast(int))
    ranks = {f"q{i:02}": 1 for i in range(40) if i >= 5}
    options = {"missing": missing, "undefined": undefined}
    zeros, shown = 5 * (missing == "zero") + 5 * (undefined == "zero"), {"a": run(ranks)}
    one = rankql.evaluate(shown["a"], qrels, "RR", **options)
    other = run({**ranks, "q39": 1})
    both = rankql.compare({**shown, "b": other}, qrels, "RR", **options)
    for chart in (one.plot(kind="distribution"), both.plot("distribution")):
        (panel,) = panels(chart)
        assert f"of {30 + zeros} queries" in panel["description"]
        shares = {round(x["value"], 3): x["share"] for x in panel["data"] if x["share"]}
        assert shares[0.975] == pytest.approx(one["RR"]) == pytest.approx(30 / (30 + zeros))
        assert shares.get(0.025, 0) == pytest.approx(zeros / (30 + zeros))


@pytest.mark.parametrize(
    ("metric", "falls", "options"),
    [
        ("AP", True, {}),
        ("AP(denominator=R)", False, {}),
        ("AP", False, {"conventions": "trec_eval"}),
        ("R", False, {}),
    ],
)
def test_the_chart_of_ap_by_cutoff_says_why_it_may_fall(metric, falls, options):
    """Of relevant items at 1 and 4, AP@1 is 1 and AP@3 1/2: its divisor is min(k, R)."""
    frame = pl.DataFrame({"query": "a", "item": [*"wxyz"], "score": [4.0, 3.0, 2.0, 1.0]})
    qrels = pl.DataFrame({"query": "a", "item": ["w", "z"], "rel": [1, 1]})
    result = rankql.compare({"one": frame, "two": frame}, qrels, f"{metric}@10", **options)
    (panel,) = panels(result.plot("cutoffs"))
    assert ("divided by min(k, R): it may fall while k is below R" in panel["title"]) == falls
    values = [row["mean"] for row in panel["data"] if row["system"] == "one"]
    assert (values[1] < values[0]) == falls


def test_of_many_pairs_those_of_the_best_system_are_drawn():
    """Whichever of the two stands first: the difference is that of the other from the best."""
    runs = {name: run({**OLD, "a": abs(n - 2) + 1}) for n, name in enumerate("uvwxy")}
    compared = rankql.compare(runs, QRELS, "RR")
    pairs, all_pairs = charts.select_pairs(compared), compared.pairs.select("a", "b").rows()
    assert len(all_pairs) == 10 and len(pairs) == 4
    assert {*pairs} == {("w", name) for name in "uvxy"}
    (panel,) = charts.draw_slices(compared, "RR", pairs)
    assert panel["title"] == "RR: difference from w"
    values = [row["difference"] for row in panel["data"]["values"]]
    means = dict(compared.summary["system", "mean"].rows())
    assert values == pytest.approx([means[name] - means["w"] for _, name in pairs])
    assert max(values) <= 0 and [name for _, name in pairs] == compared.result.best_first[1:]
    rows = orient_pairs(compared.pairs, [x[::-1] for x in pairs])
    assert rows["difference"].to_list() == pytest.approx([-x for x in values])
    assert rows["verdict"].to_list() == ["better" if x == "worse" else x for x in orient_pairs(
        compared.pairs, pairs)["verdict"]]  # fmt: skip


def test_values_per_query_of_many_systems_are_those_of_three():
    runs = {name: run({**OLD, "a": abs(n - 2) + 1}) for n, name in enumerate("uvwxy")}
    compared = rankql.compare(runs, QRELS, "RR")
    panel = charts.draw_distribution(compared, "RR")
    drawn = {row["name"] for row in panel["data"]["values"]}
    assert drawn == {*compared.result.best_first[:3]} and "w" in drawn
    assert {*panel["layer"][0]["encoding"]["color"]["legend"]["values"]} == drawn


DAYS = [date(2026, 3, day) for day in (2, 9, 16, 23)]


def compare_by_day(kinds=None, systems=("old", "new"), by="day", days=DAYS):
    """Systems of queries at days; without kinds, of one kind."""
    ranks = {f"q{i:02}": 1 + i % 3 for i in range(40)}
    about = pl.DataFrame({"query": [*ranks], "day": days * 10})
    about = about.with_columns(kind=pl.Series([*(kinds or "a")] * 40).head(40).sort())
    qrels = pl.DataFrame({"query": [*ranks], "item": "x", "rel": 1})
    runs = {name: run({q: 1 + (x + n) % 4 for q, x in ranks.items()})
            for n, name in enumerate(systems)}  # fmt: skip
    return rankql.compare(runs, qrels, "RR", attributes=about, by=by)


def lines_of(panel):
    """The lines of a panel: the dates of each name."""
    name = next(iter(panel["data"][0]))
    dates = {}
    for row in panel["data"]:
        dates.setdefault(row[name], []).append(row["date"])
    return dates


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime, pl.Datetime("us", "UTC")])
def test_slices_by_a_date_are_lines_over_time(dtype):
    days = pl.Series(DAYS).cast(pl.Datetime)
    days = (days.dt.replace_time_zone(zone) if (zone := getattr(dtype, "time_zone", None))
            else days.cast(dtype)).to_list()  # fmt: skip
    dates = [str(day) for day in DAYS]
    both, one = compare_by_day(days=days), compare_by_day(systems=["old"], days=days)
    (lines,) = panels(one.result.plot())
    assert lines["title"] == "RR: means by day" and [*lines_of(lines).values()] == [dates]
    x = lines["layer"][1]["encoding"]["x"]
    assert x["type"] == "temporal" and x["scale"] == {"type": "utc"}
    assert [row["mean"] for row in lines["data"]] == pytest.approx(
        one.result.summary["mean"].to_list()[1:], abs=1e-8
    )
    dots, lines = panels(both.plot("means"))
    assert lines_of(lines) == {"old": dates, "new": dates} and len(dots["data"]) == 2
    dots, lines = panels(both.plot("slices"))
    assert [row["slice"] for row in dots["data"]] == ["all"]
    assert lines["title"] == "RR: new − old by day" and [*lines_of(lines).values()] == [dates]
    assert [row["difference"] for row in lines["data"]] == pytest.approx(
        both.pairs["difference"].to_list()[1:], abs=1e-8
    )


def test_lines_over_time_are_slices_of_one_system_and_systems_in_a_slice():
    by = [["kind", "day"]]
    (lines,) = panels(compare_by_day("ab", ["old"], by).result.plot())
    assert {*lines_of(lines)} == {"kind=a", "kind=b"}
    drawn = compare_by_day("ab", by=by).plot("means").to_dict()
    titles = [panel["title"] for panel in drawn["concat"]]
    assert titles == ["RR: means", "RR: means by day, kind=a", "RR: means by day, kind=b"]
    assert drawn["resolve"]["scale"]["color"] == "independent"
    # Of slices by another attribute there are dots too.
    dots, lines = panels(compare_by_day("ab", ["old"], [["kind"], ["day"]]).result.plot())
    assert [row["slice"] for row in dots["data"]] == ["all", "kind=a", "kind=b"]
    assert {*lines_of(lines)} == {"all"}


def test_of_many_slices_over_time_those_with_most_queries_are_lines():
    kinds = "abcdefghij" + "kkk"
    ranks = {f"q{i:03}": 1 for i in range(130)}
    about = pl.DataFrame({"query": [*ranks], "kind": [*kinds] * 10})
    about = about.with_columns(day=pl.Series([DAYS[i // 13 % 4] for i in range(130)]))
    qrels = pl.DataFrame({"query": [*ranks], "item": "x", "rel": 1})
    result = rankql.evaluate(run(ranks), qrels, "RR", attributes=about, by=["kind", "day"])
    (lines,) = panels(result.plot())
    assert lines["title"] == "RR: means by day: the 8 slices with most queries"
    assert len(lines_of(lines)) == 8 and "kind=k" in lines_of(lines)


@pytest.mark.parametrize("days", [[date(2026, 3, 2)] * 4, ["a", "b", "c", "d"], [1, 2, 3, 4]])
def test_one_date_texts_and_numbers_are_dots(days):
    (dots,) = panels(compare_by_day(systems=["old"], days=days).result.plot())
    assert len(dots["data"]) == 1 + len({*days})


def test_reports_have_lines_over_time(tmp_path):
    for systems in (["old"], ["old", "new"], ["old", "new", "third"]):
        compare_by_day(systems=systems).save(tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text("utf-8")
        assert ("RR: means by day" in page) == (len(systems) != 2)
        assert ("by day</" in page) and page.count('"type": "temporal"') > 0


def test_a_title_says_that_the_first_of_several_cutoffs_was_taken():
    runs = {name: run({**OLD, "a": abs(n - 2) + 1}) for n, name in enumerate("uvwxy")}
    title = rankql.compare(runs, QRELS, "R@1,2,3").title
    assert title.startswith("w leads on R@1") and title.endswith(
        "; R@1 is the first of R@1, R@2 and R@3"
    )
    assert "is the first of" not in rankql.compare(runs, QRELS, ["R@1", "RR"]).title


def test_titles_of_watched_series_are_lines_that_fit():
    frame = pl.DataFrame({
        "slice": "market=a rather long name of a market, device=mobile phones and tablets",
        "metric": "nDCG@10", "kind": "metric", "day": [date(2026, 5, 1)], "mean": [0.5],
        "lo": [0.4], "hi": [0.6], "expected": [0.5], "limit": [0.3], "queries": [9], "held": [True],
    })  # fmt: skip
    (panel,) = charts.draw_days(frame)["vconcat"]
    assert panel["title"]["subtitle"] == "grey: what chance explains, orange: alarm"
    assert " ".join(panel["title"]["text"]).endswith("device=mobile phones and tablets by day")
    assert len(panel["title"]["text"]) == 2 and max(map(len, panel["title"]["text"])) <= 60
