"""Comparisons as a user makes them: from runs and results, shown, and asked for more."""

import json
import math
from datetime import date

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import special

import rankql
from rankql import text as show
from rankql.cli.main import main
from rankql.stats.power import detectable_difference
from rankql.stats.sample import Sample

QRELS = pl.DataFrame(
    {
        "query": ["a", "a", "b", "b", "c", "c", "d"],
        "item": ["x", "y", "x", "y", "x", "y", "x"],
        "rel": [1, 0, 1, 2, 0, 3, 0],
    }
)


def run(**orders):
    rows = [(q, i, -float(n)) for q, items in orders.items() for n, i in enumerate(items)]
    return pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")


OLD = run(a="yx", b="xy", c="xy", d="x")
NEW = run(a="xy", b="yx", c="xy", d="x")


@pytest.fixture
def two():
    return rankql.compare({"old": OLD, "new": NEW}, QRELS, ["nDCG@2", "RR", "P@1"])


def test_by_hand(two):
    row = two.table.row(1, named=True)
    assert (row["metric"], row["a"], row["b"], row["slice"]) == ("RR", "old", "new", "all")
    # d has no relevant item; a goes from 1/2 to 1, b stays at 1 and c at 1/2.
    assert row["mean_a"] == pytest.approx(2 / 3) and row["mean_b"] == pytest.approx(5 / 6)
    assert row["difference"] == pytest.approx(1 / 6)
    assert (row["wins"], row["ties"], row["losses"], row["n"]) == (1, 2, 0, 3)
    assert row["effect"] == pytest.approx((1 / 6) / (1 / 12) ** 0.5)
    assert row["p"] == pytest.approx(0.42264973081037427)  # t = 1 with 2 degrees of freedom
    assert row["verdict"] == "not significant"
    assert two.table["n"].to_list() == [3, 3, 4]  # precision of nothing found is 0
    assert "nDCG@2: 1 of 4 queries is undefined in at least one system and left out" in two.notes
    assert any("Holm-adjusted for 3 tests" in note for note in two.notes)


def test_the_same_from_results_files_and_frames(two, tmp_path):
    names = two.metrics
    results = {name: rankql.evaluate(r, QRELS, names) for name, r in (("old", OLD), ("new", NEW))}
    files = {name: tmp_path / f"{name}.parquet" for name in results}
    for name, result in results.items():
        result.save_values(files[name])
    frames = {name: result.per_query for name, result in results.items()}
    together = rankql.evaluate({"old": OLD, "new": NEW}, QRELS, names)
    for given in (results, files, frames):
        assert rankql.compare(given).table.equals(two.table)
    assert rankql.compare(results, metrics="mrr").table.equals(
        rankql.compare({"old": OLD, "new": NEW}, QRELS, "RR").table
    )
    swapped = rankql.compare(together, baseline="old")
    assert swapped.table.select("a", "b").unique().rows() == [("old", "new")]
    assert swapped.table.drop("sentence").equals(two.table.drop("sentence"))


def test_differences(two):
    found = two.differences("mrr", "old", "new")
    assert found.rows() == [("b", 1, 1, 0), ("c", 0.5, 0.5, 0), ("a", 0.5, 1.0, 0.5)]
    worst = rankql.compare({"old": OLD, "new": NEW}, QRELS, "TauDistance")
    assert worst.differences("TauDistance", "new", "old")["query"].to_list()[:2] == ["a", "b"]


def test_what_a_metric_tells_apart():
    systems = {"old": OLD, "new": NEW, "same": NEW}
    found = rankql.compare(systems, QRELS, ["RR", "P@1", "nDCG@2"])
    assert found.agreement().rows()[0] == ("RR", "P@1", pytest.approx(1), 0, 3)
    with pytest.raises(
        AttributeError, match=r"^Comparison.discriminative_power was removed .*agreement"
    ):
        found.discriminative_power()
    with pytest.raises(AttributeError, match="no attribute 'agrement'"):
        found.agrement()


def test_cutoffs(two):
    curve = two.cutoffs("nDCG", [1, 2])
    assert curve.metrics == ["nDCG@1", "nDCG@2"]
    assert curve.table.filter(metric="nDCG@2").equals(
        rankql.compare({"old": OLD, "new": NEW}, QRELS, ["nDCG@1", "nDCG@2"]).table.filter(
            metric="nDCG@2"
        )
    )
    with pytest.raises(rankql.RankqlError, match="Bpref has no cutoff"):
        rankql.compare({"old": OLD, "new": NEW}, QRELS, "Bpref").cutoffs()
    results = {"old": rankql.evaluate(OLD, QRELS), "new": rankql.evaluate(NEW, QRELS)}
    with pytest.raises(rankql.RankqlError, match="cutoffs needs runs"):
        rankql.compare(results).cutoffs()


def test_shown(two):
    text = repr(two)
    assert two.table["sentence"][0] in text and "Note: Paired t test" in text
    assert "slice" not in text.splitlines()[0]
    said = json.loads(two.to_json())
    assert len(said["table"]) == 3 and said["settings"]["test"] == "auto"
    assert said["conventions"]["gain"] == "linear" and said["summary"]
    assert two.to_markdown().count("| nDCG@2 |") == 1
    assert "<table>" in two._repr_html_()


def test_the_printed_table_fits(two):
    title, table, *_ = repr(two).split("\n\n")
    header = table.splitlines()[0]
    assert title == two.title and "verdict" in header and "ties" not in header
    assert max(map(len, table.splitlines())) <= 100
    assert {"ties", "effect", "detectable"} < {*two.displayed(complete=True)[0].columns}


def test_one_system():
    alone = rankql.compare({"only": OLD}, QRELS, "RR")
    assert alone.table.is_empty() and alone.table.columns[0] == "metric"
    assert alone.notes[0] == "There is only one system, 'only', so nothing is compared"
    assert "0.6667" in repr(alone)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"test": "tt"}, "Unknown test 'tt'"),
        ({"correction": "holmes"}, "'holm'"),
        ({"baseline": "odl"}, "Unknown system in baseline=: 'odl'"),
        ({"baseline": 1}, "Unknown system in baseline=: 1"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"confidence": 1 - 1e-13}, "confidence"),
        ({"confidence": "0.95"}, "not the text '0.95'"),
        ({"resamples": 10}, "resamples must be a whole number from 100"),
        ({"seed": 1.5}, "seed must be a whole number from 0"),
        ({"min_queries": -1}, "min_queries must be a whole number from 0"),
        ({"cluster": "query", "test": "anytime"}, "does not support cluster="),
        ({"cluster": ""}, "''"),
        ({"basline": "old"}, "Did you mean 'baseline'?"),
        ({"tie": 1}, "Unknown option 'tie'"),
        ({"interval": "t"}, "interval= is an option of evaluate"),
        ({"output": "x.parquet"}, "output= is an option of evaluate"),
        *(({"equivalence": x}, "equivalence must be") for x in (0, -1, "x", math.nan, math.inf)),
        ({"equivalence": 0.1, "confidence": 0.5}, "needs confidence above 0.5"),
        *(({"correction": "tukey"} | x, "correction='tukey'") for x in (
            {"test": "auto"}, {"test": "anytime"}, {"test": "t", "baseline": "old"})),
    ],
)  # fmt: skip
def test_refused(keywords, said):
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.compare({"old": OLD, "new": NEW}, QRELS, "RR", **keywords)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_runs_that_are_refused():
    with pytest.raises(rankql.RankqlError, match="compare needs at least one run"):
        rankql.compare({}, QRELS)
    with pytest.raises(rankql.RankqlError, match="Did you mean 'metrics'"):
        rankql.compare([OLD, NEW, OLD], QRELS, metric="RR")


def test_results_and_runs_do_not_mix():
    result = rankql.evaluate(OLD, QRELS, "RR")
    for given, qrels, said in (
        ({"old": result, "new": NEW}, QRELS, "'old' is a result"),
        ({"old": result, "new": result}, QRELS, "qrels= is an option for runs"),
        ({"old": result, "new": rankql.evaluate(NEW, QRELS, "AP")}, None, "no metric in common"),
        (
            {"old": result, "new": rankql.evaluate(NEW, QRELS, "RR", undefined="zero")},
            None,
            "different conventions",
        ),
    ):
        with pytest.raises(rankql.RankqlError, match=said):
            rankql.compare(given, qrels)
    with pytest.raises(rankql.RankqlError, match="ties= is an option for runs"):
        rankql.compare({"old": result}, ties="expected")
    with pytest.raises(rankql.RankqlError, match="no attribute 'segment'"):
        rankql.compare({"old": result}, by="segment")
    with pytest.raises(rankql.RankqlError, match="Unknown metric 'AP'"):
        rankql.compare({"old": result}, metrics="AP")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    OLD.write_parquet("old.parquet")
    NEW.write_parquet("new.parquet")
    QRELS.write_parquet("qrels.parquet")


def test_on_the_command_line(files, two):
    def said(*arguments):
        done = CliRunner().invoke(main, ["compare", *arguments])
        assert done.exit_code == 0, done.output
        return done

    runs = ["old.parquet", "new.parquet", "qrels.parquet"]
    metrics = ["-m", "nDCG@2", "-m", "RR", "-m", "P@1"]
    assert said(*runs, *metrics).stdout == repr(two) + "\n"
    assert said(*runs, *metrics, "--wide").stdout == repr(two.wide()) + "\n"
    assert json.loads(said(*runs, *metrics, "--format", "json").stdout) == json.loads(two.to_json())
    csv = said("before=old.parquet", "now=new.parquet", "qrels.parquet", "--format", "csv")
    assert "before,now," in csv.stdout and "Note: Paired t test" in csv.stderr
    for name in ("old", "new"):
        arguments = ["eval", f"{name}.parquet", "qrels.parquet", *metrics]
        CliRunner().invoke(main, [*arguments, "--output", f"{name}_values.parquet"])
    values = ["old=old_values.parquet", "new=new_values.parquet"]
    table = json.loads(said(*values, "--format", "json").stdout)["table"]
    assert table == json.loads(two.to_json())["table"]
    done = CliRunner().invoke(main, ["compare", *runs, "--test", "student"])
    assert done.exit_code == 2 and "Unknown test 'student'" in done.stderr
    done = CliRunner().invoke(main, ["compare", "old.parquet", "old.parquet", "qrels.parquet"])
    assert done.exit_code == 2 and "Name each run: NAME=PATH" in done.stderr


def test_more_tests_than_resamples_can_tell():
    """The least p of 199 resamples is 1/200; of 15 pairs Holm makes 0.075 of it."""
    queries = [f"q{i}" for i in range(30)]
    frames = {
        f"s{n}": pl.DataFrame(
            {"query": queries, "AP": [(i * 7 % 11) / 40 + n / 10 for i in range(30)]}
        )
        for n in range(6)
    }
    frames["s0"] = frames["s0"].with_columns(pl.col("AP") ** 1.1)
    few = rankql.compare(frames, test="randomisation", resamples=199)
    assert few.table["p_adjusted"].min() == 15 / 200
    assert sum("cannot give an adjusted p-value of 0.05" in note for note in few.notes) == 1
    (note,) = (note for note in few.notes if "Pass resamples=" in note)
    enough = int(note.split("resamples=")[1].split()[0])
    many = rankql.compare(frames, test="randomisation", resamples=enough)
    assert many.table["p_adjusted"].min() < 0.05 and "cannot give" not in str(many.notes)


def frame(queries, values, **attributes):
    return pl.DataFrame({"query": queries, **attributes, "AP": values})


def test_results_are_refused_where_queries_are_not_told_apart():
    good = frame(["a", "b", "c"], [0.1, 0.3, 0.4])
    for bad, said in (
        (frame(["a", "a", "b"], [0.1, 0.2, 0.3]), "to queries that occur twice, such as 'a'"),
        (frame(["a", None, "b"], [0.1, 0.2, 0.3]), "query is NULL in 1 of 3 rows"),
        (
            frame(["y", "z"], [0.1, 0.2]),
            "'x' has no query in common with the other systems: it has 'a'",
        ),
        (frame([1, 2, 3], [0.1, 0.2, 0.3]), "text in 'x', numbers in 'y'"),
        (frame([date(2020, 1, i) for i in (1, 2)], [0.1, 0.2]), "text in 'x', Date in 'y'"),
    ):
        with pytest.raises(rankql.RankqlError, match=said):
            rankql.compare({"x": good, "y": bad})
    with pytest.raises(rankql.RankqlError, match="The results have no queries"):
        rankql.compare({"x": good.head(0), "y": good.head(0)})
    for names in ({None: good, "b": good}, {1: good, 2: good}, {"": good, "b": good}):
        with pytest.raises(rankql.RankqlError, match="Names of systems must be non-empty"):
            rankql.compare(names)


def test_queries_under_a_name_of_ours():
    def compared(name):
        values = {side: r.rename({"query": name}) for side, r in (("old", OLD), ("new", NEW))}
        return rankql.compare(values, QRELS.rename({"query": name}), "RR", query=name)

    expected = rankql.compare({"old": OLD, "new": NEW}, QRELS, "RR").table
    for name in ("missing", "a", "difference"):
        assert compared(name).table.equals(expected)
        assert compared(name).differences("RR", "old", "new")["difference"].len()
    with pytest.raises(rankql.RankqlError, match="'system' is also the column that names the runs"):
        compared("system")
    frames = {n: pl.DataFrame({"system_": ["a"], "RR": [1.0]}) for n in "ab"}
    alone = rankql.evaluate(OLD.with_columns(system=pl.lit("x")), QRELS, "RR", by="system")
    for values in ({"a": alone, "b": alone}, alone):
        with pytest.raises(rankql.RankqlError, match="'system' is also the column that names"):
            rankql.compare(values)
    assert rankql.compare(frames).table["n"][0] == 1


def test_every_value_of_an_attribute_is_a_slice_of_its_own():
    queries = [f"q{i}" for i in range(8)]
    segments = ["NULL", None, "a, b=1", "a", "'a'", "'a", "", " "]
    numbers = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    one = frame(queries, numbers, seg=segments, b=["0"] * 8)
    found = rankql.compare({"x": one, "y": one}, by=[["seg"], ["seg", "b"]])
    labels = found.table["slice"].to_list()
    assert len(labels) == len(set(labels)) == 17
    quoted = {"seg='NULL'", "seg='a, b=1'", "seg='''a'", "seg=''", "seg=' '"}
    assert {"seg=NULL", "seg=a", *quoted} <= set(labels)
    assert set(found.summary["slice"]) == set(labels)


def test_columns_with_the_names_of_ours():
    queries = ["a", "b", "c"]
    for key in ("i", "slice", "metric", "rows"):
        frames = {
            name: pl.DataFrame({key: queries, "AP 0": ["u", "v", "v"], "AP": values})
            for name, values in (("x", [0.1, 0.2, 0.4]), ("y", [0.3, 0.3, 0.3]))
        }
        assert rankql.compare(frames, by="AP 0").table["n"].to_list() == [3, 1, 2]


@pytest.mark.parametrize("rules", [{"missing": "skip"}, {"undefined": "zero"}, {}])
def test_differences_are_those_of_the_table(rules):
    short = run(a="xy", b="yx")
    compared = rankql.compare({"old": OLD, "short": short}, QRELS, "RR", **rules)
    found = compared.differences("RR", "old", "short")
    assert len(found) == compared.table["n"][0]
    assert found["difference"].mean() == pytest.approx(compared.table["difference"][0])


def test_undefined_as_zero_as_in_evaluate():
    """d has no relevant item, so its nDCG is undefined: the mean counts it as 0."""
    runs = {"old": OLD, "new": NEW}
    row = rankql.compare(runs, QRELS, "nDCG@2", undefined="zero").table.row(0, named=True)
    for name, mean in (("old", row["mean_a"]), ("new", row["mean_b"])):
        expected = rankql.evaluate(runs[name], QRELS, "nDCG@2", undefined="zero")
        assert mean == pytest.approx(expected["nDCG@2"], abs=1e-12)
    assert row["n"] == 4


def test_a_table_of_values_has_the_conventions_of_the_results_beside_it():
    """Values of a table say nothing of theirs: 0 for undefined is what the result says."""
    result = rankql.evaluate(OLD, QRELS, "nDCG@2", undefined="zero")
    values = rankql.evaluate(NEW, QRELS, "nDCG@2").per_query
    row = rankql.compare({"old": result, "new": values}).table.row(0, named=True)
    assert row["n"] == 4
    expected = rankql.evaluate(NEW, QRELS, "nDCG@2", undefined="zero")["nDCG@2"]
    assert row["mean_b"] == pytest.approx(expected, abs=1e-12)


def test_the_detectable_difference_is_that_of_the_family():
    """A difference that one test would detect, and a family of 40 would not."""
    values = [0.05 + (0.1 if i % 2 else -0.1) for i in range(40)]
    queries = [f"q{i}" for i in range(40)]
    base = frame(queries, [0.5] * 40)
    others = {f"s{n}": frame(queries, [0.5 + v for v in values]) for n in range(40)}
    one = rankql.compare({"b": base, "s0": others["s0"]}).table.row(0, named=True)
    found = rankql.compare({"b": base, **others}, baseline="b").table.row(0, named=True)
    assert one["verdict"] == "better" and found["verdict"] == "not significant"
    sample = Sample(np.array(values))
    assert one["detectable"] == pytest.approx(detectable_difference(sample, 0.05))
    assert found["detectable"] == pytest.approx(detectable_difference(sample, 0.05 / 40))
    assert one["detectable"] < 0.05 < found["detectable"] == pytest.approx(0.0693, abs=5e-5)
    assert found["sentence"].endswith(
        "A difference of about 0.069 would have been detected with 80% power"  # as the table
    )


def test_a_difference_beyond_the_range_of_a_metric_is_not_called_detectable():
    def compared(metric):
        base = pl.DataFrame({"query": ["q1", "q2", "q3"], metric: [0.9, 0.1, 0.5]})
        other = base.with_columns(pl.Series(metric, [0.1, 0.6, 0.5]))
        return rankql.compare({"a": base, "b": other}, metrics=metric).table.row(0, named=True)

    assert compared("nDCG@10")["detectable"] is None
    assert (compared("nDCG@10")["lo"], compared("nDCG@10")["hi"]) == (-1, 1)
    assert compared("revenue")["detectable"] > 1 and compared("revenue")["lo"] < -1
    assert compared("nDCG@10")["sentence"].endswith(
        "These are too few queries to detect any difference with 80% power"
    )
    assert "A difference of about 2." in compared("revenue")["sentence"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0714, "0.071"), (0.07, "0.070"), (0.069999999999999, "0.070"), (1.21, "1.2"), (12, "12"),
     (1234, "1,200"), (0.30804, "0.31"), (9.96, "10.0"), (1e-5, "0.000010")],
)  # fmt: skip
def test_significant_digits(value, text):
    assert show.round_significant(value) == text


def test_large_numbers_have_separators():
    assert [show.format_number(x) for x in (0.01234, -12.34, 12345.6, -1e9, 1e30, -0.0)] == [
        "0.0123", "-12.3", "12,300", "-1,000,000,000", "1e+30", "0"
    ]  # fmt: skip
    assert show.format_decimal(-1234567.8, 0) == "-1,234,568"
    assert show.format_decimal(-0.004, 2) == "0.00"
    assert show.round_significant(1.5e-20) == "1.5e-20"


def test_sentences():
    """Who beats whom, the interval, the adjusted p, the number of queries; slices that differ."""
    queries = [f"q{i:04}" for i in range(1200)]
    segments = ["a"] * 600 + ["b"] * 600
    x = frame(queries, [0.5 + i % 7 / 20 for i in range(1200)], seg=segments)
    gain = [(0.05 if i < 600 else -0.02) + (i * 37 % 11 - 5) / 50 for i in range(1200)]
    y = x.with_columns(pl.col("AP") + pl.Series(gain))
    found = rankql.compare({"old": x, "new": y}, by="seg")
    assert found.sentences == [
        "AP: new beats old by 0.0149 (95% CI 0.0108 to 0.0190; p < 0.001, Holm-adjusted for 3 "
        "tests; 1,200 queries)",
        "AP, seg=b: new loses to old by 0.0201 (95% CI 0.0143 to 0.0259; p < 0.001, Holm-adjusted "
        "for 3 tests; 600 queries)",
    ]
    one = rankql.compare({"old": x, "new": y}, confidence=0.9)
    assert one.sentences == [
        "AP: new beats old by 0.0149 (90% CI 0.0115 to 0.0184; p < 0.001; 1,200 queries)"
    ]
    errors = {name: each.rename({"AP": "RMSE"}) for name, each in (("old", y), ("new", x))}
    assert rankql.compare(errors).sentences == [
        "RMSE: new beats old by 0.0149 (95% CI 0.0108 to 0.0190; p < 0.001; 1,200 queries)"
    ]


def test_the_same_value_of_one_query():
    one = frame(["a"], [0.5])
    (sentence,) = rankql.compare({"x": one, "y": one}).sentences
    assert sentence == "AP: y and x have the same value for every query (1 query)"


def test_rows_without_an_interval_are_counted():
    old, new = frame(range(5), [0.5] * 5), frame(range(5), [0.8] + [0.6] * 4)
    comparison = rankql.compare({"old": old, "new": new}, test="randomisation")
    assert comparison.table["lo"].item() is None and comparison.table["p"].item() == 2 / 2**5
    assert "1 row has no interval: too few queries for an interval" in comparison.notes


def test_p_values_are_not_rounded_to_one():
    assert [show.format_p(p) for p in (1.0, 0.998, 0.97)] == ["p = 1", "p > 0.99", "p = 0.97"]


def test_no_difference_is_not_minus_zero():
    x = frame(list("abcd"), [0.5, 0.6, 0.7, 0.8])
    y = frame(list("abcd"), [0.6, 0.5, 0.8, 0.7 - 1e-9])
    (sentence,) = rankql.compare({"x": x, "y": y}).sentences
    assert "between y and x: 0.00 (95% CI -0.18 to 0.18; p = 1; 4 queries)" in sentence


def test_no_difference_beyond_the_bounds_is_detectable():
    few = {"a": pl.DataFrame({"query": [1, 2], "m": [0.2, 0.4]}),
           "b": pl.DataFrame({"query": [1, 2], "m": [0.3, 0.6]})}  # fmt: skip
    found = rankql.compare(few, test="anytime", bounds={"m": (0, 1)})
    assert found.table["detectable"].to_list() == [None]
    assert found.sentences[0].endswith("too few queries to detect any difference with 80% power")


def test_anytime_needs_a_range():
    """Of a metric without one it is asked for by name; values outside it are refused."""
    runs = {"old": OLD, "new": NEW}
    assert rankql.compare(runs, QRELS, ["nDCG@2", "TauB"], test="anytime").table["lo"].len() == 2
    for metric in ("DCG@2", "CG@2", "RMSE", "nDCG(negative=keep)@2"):
        values = frame(list("abc"), [0.1, 0.2, 0.3]).rename({"AP": metric})
        with pytest.raises(rankql.RankqlError, match="test='anytime' needs the range of") as caught:
            rankql.compare({"x": values, "y": values}, test="anytime")
        assert f"--bounds {metric}:LOWEST:HIGHEST" in str(caught.value)
    found = rankql.compare(runs, QRELS, "DCG@2", test="anytime", bounds={"DCG@2": (0, 5)})
    row = found.table.row(0, named=True)
    assert row["lo"] < row["difference"] < row["hi"]
    wide = rankql.compare(runs, QRELS, "DCG@2", test="anytime", bounds={"DCG@2": (0, 50)})
    assert wide.table["hi"][0] > row["hi"]
    assert found.cutoffs("DCG", [2]).table.equals(found.table)
    with pytest.raises(rankql.RankqlError, match=r"DCG@2 is 2.* outside its range of 0 to 1"):
        rankql.compare(runs, QRELS, "DCG@2", test="anytime", bounds={"DCG@2": (0, 1)})
    wrong = frame(list("abc"), [0.1, 1.2, 0.3])
    with pytest.raises(rankql.RankqlError, match=r"AP is 1.2 for a query, outside its range"):
        rankql.compare({"x": wrong, "y": wrong}, test="anytime")
    own = frame(list("abc"), [0.1, 0.2, 0.3]).rename({"AP": "nDCG@2"})
    for bounds, said in (
        ({"AP": (0, 1)}, "Unknown metric in bounds=: 'AP'. Available: nDCG@2"),
        ({"nDCG@2": (1, 0)}, "bounds must be a dict of metric"),
        ({"nDCG@2": (0, float("inf"))}, "bounds must be a dict of metric"),
        ({"nDCG@2": 1}, "bounds must be a dict of metric"),
        ({"nDCG@2": ("0", "1")}, "bounds must be a dict of metric"),
        ((0, 1), "bounds must be a dict of metric"),
    ):
        with pytest.raises(rankql.RankqlError, match=said):
            rankql.compare({"x": own, "y": own}, test="anytime", bounds=bounds)
    with pytest.raises(rankql.RankqlError, match="bounds= has no effect on test='auto'"):
        rankql.compare(runs, QRELS, "DCG@2", bounds={"DCG@2": (0, 5)})


def test_bounds_on_the_command_line(files):
    runs = ["compare", "old.parquet", "new.parquet", "qrels.parquet", "-m", "DCG@2"]
    done = CliRunner().invoke(main, [*runs, "--test", "anytime", "--bounds", "DCG@2:0:5"])
    assert done.exit_code == 0, done.output
    expected = rankql.compare(
        {"old": OLD, "new": NEW}, QRELS, "DCG@2", test="anytime", bounds={"DCG@2": (0, 5)}
    )
    assert expected.sentences[0] in done.output
    for text in ("DCG@2", "DCG@2:0:x", "DCG@2:5"):
        done = CliRunner().invoke(main, [*runs, "--test", "anytime", "--bounds", text])
        assert done.exit_code == 2 and "Expected METRIC:LOWEST:HIGHEST" in done.stderr


def test_small_slices_are_shown_and_not_tested():
    queries = [f"q{i}" for i in range(12)]
    segments = ["big"] * 9 + ["small"] * 3
    x = frame(queries, [i / 20 for i in range(12)], seg=segments)
    y = frame(queries, [i / 19 for i in range(12)], seg=segments)
    found = rankql.compare({"x": x, "y": y}, by="seg", min_queries=5)
    assert found.table["verdict"].to_list()[-1] == "too few queries"
    assert found.table["p"].is_null().to_list() == [False, False, True]
    assert "Holm-adjusted for 2 tests" in found.table["sentence"][0]


def test_tables_that_are_no_results():
    ranked = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [1, 0], "pos": [1, 2]})
    clicks = ranked.with_columns(hit=pl.Series([0.0, 1.0]))
    assert rankql.compare({"x": clicks, "y": clicks}, metrics="RR").table["n"].to_list() == [1]
    priced = frame(["a", "b", "c"], [0.1, 0.5, 0.2], price=[1.5, 2.5, 1.5])
    found = rankql.compare({"x": priced, "y": priced}, by="price")
    assert found.metrics == ["AP"]
    assert found.table["slice"].to_list() == ["all", "price=1.5", "price=2.5"]


def test_cutoffs_and_efforts_are_numbers(two):
    for ks in (5, []):
        with pytest.raises(rankql.RankqlError, match="ks= must be a list of cutoffs"):
            two.cutoffs("nDCG", ks)
    with pytest.raises(rankql.RankqlError, match="k must be a whole number"):
        two.cutoffs("nDCG", [0])
    with pytest.raises(rankql.RankqlError, match="effect must be a number, not 'x'"):
        rankql.queries_needed("x")
    with pytest.raises(rankql.RankqlError, match="Unknown system 1"):
        two.differences("RR", 1, "new")


def _own(values, **columns):
    """Values per query of one's own."""
    names = [f"q{i}" for i in range(len(values))]
    return pl.DataFrame({"query": names, "revenue": pl.Series(values, strict=False), **columns})


def _two(a, b, **keywords):
    return rankql.compare({"a": a, "b": b}, higher_is_better=True, **keywords)


def test_no_bound_of_a_verdict_is_rounded_to_0():
    """'beats (95% CI 0.00 to 0.29; p = 0.05)' would say both."""
    steps = np.linspace(-1, 1, 30)
    width = special.stdtrit(29, 0.975) * steps.std(ddof=1) / 30**0.5
    for shift, lo in ((0.001, "0.001"), (-0.001, "-0.001")):
        found = _two(_own([0.0] * 30), _own([*(steps + width + shift)]))
        assert f"CI {lo} to 0." in found.sentences[0]
        assert found.table["verdict"][0] == ("better" if shift > 0 else "not significant")


@pytest.mark.parametrize(
    ("p", "alpha", "words"),
    [
        (0.0499, 0.05, "p = 0.050"), (0.05, 0.05, "p = 0.050"), (0.0503, 0.05, "p = 0.0503"),
        (0.2, 0.05, "p = 0.20"), (0.0004, 0.05, "p < 0.001"), (0.0004, 0.0001, "p = 0.00040"),
        (0.6007, 0.05, "p = 0.60"), (0.017, 0.05, "p = 0.017"), (1.0, 0.05, "p = 1"),
    ],
)  # fmt: skip
def test_p_values_show_their_side_of_alpha(p, alpha, words):
    assert show.format_p(p, alpha) == words


def test_one_of_everything_reads_well():
    one = _two(_own([1.0]), _own([2.0]))
    assert one.notes[0].endswith("Nothing could be tested")
    assert one.notes[1] == "Not tested: 1 of 1 row (not testable: 1)"
    users = {"u": ["x"] * 4}
    same = _two(_own([1, 2, 3, 7], **users), _own([2, 4, 5, 8], **users), cluster="u")
    assert "needs at least 10 clusters, not 1" in same.sentences[0]
    assert "Queries are clustered by u: 1 cluster of 4 queries" in same.notes
    single = {"u": [*"abcdefghijkl"]}
    each = _two(_own(range(12), **single), _own(range(1, 13), **single), cluster="u")
    assert "Queries are clustered by u: 12 clusters of 1 query" in each.notes
