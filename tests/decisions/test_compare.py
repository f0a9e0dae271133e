"""Comparisons of runs and results: their numbers, sentences, notes and methods."""

import json

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import special

import rankql
from rankql.cli.main import main
from rankql.core.base import text as show
from support.own_values import compare_values, gate_values
from support.parameters import cycled, few

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
RUNS = {"old": OLD, "new": NEW}


def frame(queries, values, **attributes):
    return pl.DataFrame({"query": queries, **attributes, "AP": values})


@pytest.fixture
def two():
    return rankql.compare(RUNS, QRELS, ["nDCG@2", "RR", "P@1"])


def test_by_hand(two):
    row = two.pairs.row(1, named=True)
    assert (row["metric"], row["a"], row["b"], row["slice"]) == ("RR", "old", "new", "all")
    # d has no relevant item; a goes from 1/2 to 1, b stays at 1 and c at 1/2.
    assert (row["mean_a"], row["mean_b"]) == pytest.approx((2 / 3, 5 / 6))
    assert (row["wins"], row["ties"], row["losses"], row["n"]) == (1, 2, 0, 3)
    expected = (1 / 6, (1 / 6) / (1 / 12) ** 0.5)
    assert (row["difference"], row["effect"]) == pytest.approx(expected)
    # t = 1 with 2 degrees of freedom has p .42, which a difference of one query cannot show.
    assert (row["p"], row["p_floor"]) == (1, 1)
    assert row["verdict"] == "cannot be decided: 1 of 3 queries differs, 6 are needed"
    assert two.pairs["n"].to_list() == [3, 3, 4]  # P@1 of a query without a relevant item is 0
    # Metrics that differ are named.
    left_out = "Queries: 1 of 4 (nDCG@2 and RR) undefined in at least one system and left out"
    assert left_out in two.notes and left_out in two.remarks()
    assert "nothing could be tested, 3 to 4 queries by metric" in two.method
    differences = [("b", 1, 1, 0), ("c", 0.5, 0.5, 0), ("a", 0.5, 1.0, 0.5)]
    assert two.differences("mrr", "old", "new").rows() == differences


def test_the_same_from_results_files_and_frames(two, tmp_path):
    names = two.metrics
    results = {name: rankql.evaluate(run, QRELS, names) for name, run in RUNS.items()}
    files = {name: tmp_path / f"{name}.parquet" for name in results}
    for name, result in results.items():
        result.save_values(files[name])
    frames = {name: result.per_query for name, result in results.items()}
    for systems in (results, files, frames):
        assert compare_values(systems).pairs.equals(two.pairs)
    results["old"].save(tmp_path / "means.parquet")
    with pytest.raises(rankql.RankqlError, match="'new' is a result, but 'old' is a run"):
        rankql.compare(files | {"old": tmp_path / "means.parquet"})
    expected = rankql.compare(RUNS, QRELS, "RR").pairs
    assert compare_values(results, metrics="mrr").pairs.equals(expected)
    together = compare_values(rankql.evaluate(RUNS, QRELS, names), baseline="old")
    assert together.pairs.drop("sentence").equals(two.pairs.drop("sentence"))


def test_cutoffs(two):
    curve = two.cutoffs("nDCG", [1, 2])
    assert curve.metrics == ["nDCG@1", "nDCG@2"]
    expected = rankql.compare(RUNS, QRELS, curve.metrics)
    assert curve.pairs.equals(expected.pairs)
    assert two.cutoffs([], [1]).metrics == [two.cutoffs(None, [1]).metrics[0]]
    with pytest.raises(rankql.RankqlError, match="not 5"):
        two.cutoffs(5)


def test_one_system():
    alone = rankql.compare({"only": OLD}, QRELS, "RR")
    assert alone.pairs.is_empty() and alone.pairs.columns[0] == "metric"
    assert alone.notes[0] == "There is only one system, 'only', so nothing is compared"
    assert "0.6667" in repr(alone)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    OLD.write_parquet("old.parquet")
    NEW.write_parquet("new.parquet")
    QRELS.write_parquet("qrels.parquet")


def test_on_the_command_line(files, two):
    def call(*arguments, code=0):
        done = CliRunner().invoke(main, ["compare", *arguments])
        assert done.exit_code == code, done.output
        return done

    runs = ["old.parquet", "new.parquet", "qrels.parquet"]
    metrics = ["-m", "nDCG@2", "-m", "RR", "-m", "P@1"]
    assert call(*runs, *metrics).stdout == repr(two) + "\n"
    plain = json.loads(call(*runs, *metrics, "--format", "json").stdout)
    assert plain == json.loads(two.to_json())
    csv = call("before=old.parquet", "now=new.parquet", "qrels.parquet", "--format", "csv")
    assert "before,now," in csv.stdout and "Method: paired t test" in csv.stderr
    for name, run in (("old", OLD), ("new", NEW)):
        rankql.evaluate(run, QRELS, two.metrics, output=f"{name}_values.parquet")
    values = call("old=old_values.parquet", "new=new_values.parquet", "--format", "json")
    assert json.loads(values.stdout)["table"] == plain["table"]


def test_too_few_resamples_for_so_many_tests():
    """The least p of 199 resamples is 1/200; Holm makes 0.075 of it for 15 pairs."""
    base = pl.Series([(i * 7 % 11) / 40 for i in range(30)])
    frames = {f"s{n}": frame(range(30), base + n / 10) for n in range(6)}
    frames["s0"] = frames["s0"].with_columns(pl.col("AP") ** 1.1)
    few = compare_values(frames, test="randomisation", resamples=199)
    assert few.pairs["p_adjusted"].min() == 15 / 200
    assert any("no interval: too few queries, different values or resamples=" in x
               for x in few.notes)  # fmt: skip
    many = compare_values(frames, test="randomisation", resamples=599)
    assert many.pairs["p_adjusted"].min() < 0.05


@pytest.mark.slow
def test_columns_may_have_any_name():
    expected = rankql.compare(RUNS, QRELS, "RR").pairs

    def compare(name):
        renamed = {side: run.rename({"query": name}) for side, run in RUNS.items()}
        return rankql.compare(renamed, QRELS.rename({"query": name}), "RR", query=name)

    for name in ("missing", "a", "difference"):
        assert compare(name).pairs.equals(expected)
        assert compare(name).differences("RR", "old", "new")["difference"].len()
    alone = rankql.evaluate(OLD.with_columns(system=pl.lit("x")), QRELS, "RR", by="system")
    for function, argument in (
        (compare, "system"), (rankql.compare, {"a": alone, "b": alone}), (rankql.compare, alone)
    ):  # fmt: skip
        with pytest.raises(rankql.RankqlError, match="'system' is also the column that names"):
            function(argument)
    for key in ("i", "slice", "metric", "rows", "system_"):
        frames = {
            name: pl.DataFrame({key: ["a", "b", "c"], "AP 0": ["u", "v", "v"], "AP": values})
            for name, values in (("x", [0.1, 0.2, 0.4]), ("y", [0.3, 0.3, 0.3]))
        }
        values = {name: rankql.read_values(x, query=key) for name, x in frames.items()}
        assert rankql.compare(values, by="AP 0").pairs["n"].to_list() == [3, 1, 2]


def test_a_table_of_values_has_the_conventions_of_the_results_beside_it():
    """Values of a table say nothing of theirs: 0 for undefined is what the result says."""
    result = rankql.evaluate(OLD, QRELS, "nDCG@2", undefined="zero")
    values = rankql.evaluate(NEW, QRELS, "nDCG@2").per_query
    row = compare_values({"old": result, "new": values}).pairs.row(0, named=True)
    assert row["n"] == 4
    expected = rankql.evaluate(NEW, QRELS, "nDCG@2", undefined="zero")["nDCG@2"]
    assert row["mean_b"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((show.round_significant(value), text) for value, text in (
            (0.0714, "0.071"), (0.07, "0.070"), (0.069999999999999, "0.070"), (1.21, "1.2"),
            (12, "12"), (1234, "1,200"), (0.30804, "0.31"), (9.96, "10"), (1e-5, "0.000010"),
            (1.5e-20, "1.5e-20"))),
        *((show.format_number(value), text) for value, text in (
            (0.01234, "0.0123"), (-12.34, "-12.3"), (12345.6, "12,300"), (-1e9, "-1,000,000,000"),
            (1e30, "1e+30"), (-0.0, "0"))),
        *((show.format_decimal(*value), text) for value, text in (
            ((-1234567.8, 0), "-1,234,568"), ((-0.004, 2), "0.00"))),
        *((show.format_p(p, alpha), f"p {text}") for p, alpha, text in (
            (0.0499, 0.05, "= 0.050"), (0.05, 0.05, "= 0.050"), (0.0503, 0.05, "= 0.0503"),
            (0.2, 0.05, "= 0.20"), (0.0004, 0.05, "< 0.001"), (0.0004, 0.0001, "= 0.00040"),
            (0.017, 0.05, "= 0.017"), (1.0, 0.05, "= 1"), (0.998, 0.05, "> 0.99"))),
    ],
)  # fmt: skip
def test_numbers_as_text(text, expected):
    """With significant digits and separators; p shows its side of alpha."""
    assert text == expected


def test_sentences():
    """Who beats whom, the interval, the adjusted p, the number of queries; slices that differ."""
    segments = ["a"] * 600 + ["b"] * 600
    x = frame(range(1200), [0.5 + i % 7 / 20 for i in range(1200)], seg=segments)
    gain = [(0.05 if i < 600 else -0.02) + (i * 37 % 11 - 5) / 50 for i in range(1200)]
    y = x.with_columns(pl.col("AP") + pl.Series(gain))
    errors = {name: each.rename({"AP": "RMSE"}) for name, each in (("old", y), ("new", x))}
    four = frame([*"abcd"], [0.5, 0.6, 0.7, 0.8]), frame([*"abcd"], [0.6, 0.5, 0.8, 0.7 - 1e-9])
    eight = [frame(range(8), [*x["AP"], *x["AP"]]) for x in four]
    beats = "new beats old by 0.0149 (95% CI 0.0108 to 0.0190; p < 0.001"
    for systems, options, sentences in (
        ({"old": x, "new": y}, {"by": "seg"}, [
            f"AP: {beats}, Holm-adjusted for 3 tests; 1,200 queries)",
            "AP, seg=b: new loses to old by 0.0201 (95% CI 0.0143 to 0.0259; p < 0.001, "
            "Holm-adjusted for 3 tests; 600 queries)"]),
        ({"old": x, "new": y}, {"confidence": 0.9}, [
            "AP: new beats old by 0.0149 (90% CI 0.0115 to 0.0184; p < 0.001; 1,200 queries)"]),
        (errors, {}, [f"RMSE: {beats}; 1,200 queries)"]),
        (dict.fromkeys("xy", frame("a", [0.5])), {}, [
            "AP: y and x have the same value for every query (1 query)"]),
        (dict(zip("xy", four, strict=True)), {}, [
            "AP: cannot be decided whether y and x differ: 0.00 (95% CI -0.18 to 0.18; p = 1; 4 "
            "queries). 4 of 4 queries differ, 6 are needed"]),
        (dict(zip("xy", eight, strict=True)), {}, [
            "AP: no significant difference between y and x: 0.000 (95% CI -0.089 to 0.089; p = 1; "
            "8 queries). A difference of about 0.12 would have been detected with 80% power"]),
    ):  # fmt: skip
        compared = compare_values(systems, **options)
        assert ("adjusted" in compared.method) == (len(sentences) > 1)
        found = compared.pairs["metric", "slice", "sentence"].rows()
        rows = [f"{show.add_slice(name, part)}: {x}" for name, part, x in found]
        assert [x for x in rows if "seg=a" not in x] == sentences


def test_a_system_without_a_value_is_not_beaten():
    old, new = frame(range(5), [None] * 5), frame(range(5), [0.8] * 5)
    systems = {"old": old.cast({"AP": pl.Float64}), "new": new}
    assert compare_values(systems).title == "Is new better than old? Undecided: AP: not testable"


def test_no_bound_of_a_verdict_is_rounded_to_0():
    """'beats (95% CI 0.00 to 0.29; p = 0.05)' would say both."""
    steps = np.linspace(-1, 1, 30)
    width = special.stdtrit(29, 0.975) * steps.std(ddof=1) / 30**0.5
    for shift, lo in ((0.001, "0.001"), (-0.001, "-0.001")):
        values = [0.0] * 30, steps + width + shift
        a, b = (pl.DataFrame({"query": range(30), "revenue": x}) for x in values)
        compared = compare_values({"a": a, "b": b}, higher_is_better=True)
        assert f"CI {lo} to 0." in compared.pairs["sentence"][0]
        assert compared.pairs["verdict"][0] == ("better" if shift > 0 else "not significant")


@few(1)("kind", [str, int])
def test_users_of_tables_of_values_are_noted(kind):
    """As for runs, unless the column is used."""
    values = np.random.default_rng(1).uniform(size=(2, 60))
    about = {"query": range(60), "user": pl.Series([i // 3 for i in range(60)]).cast(pl.String)}
    if kind is int:
        about = {"query": range(60), "visitor_id": [i // 3 for i in range(60)]}
    old, new = (pl.DataFrame({**about, "AP": x}) for x in values)
    name = [*about][1]
    for options, noted in (({}, True), ({"cluster": name}, False), ({"by": name}, False)):
        compared = compare_values({"old": old, "new": new}, metrics="AP", **options)
        verdict = gate_values(new, baseline=old, max_drop="AP:0.1", **options)
        for result in (compared, verdict):
            notes = [note for note in result.notes if "are not independent" in note]
            assert bool(notes) == noted
            assert not notes or f"pass cluster={name!r}, so that" in notes[0]
    few = [x.with_columns(shop=pl.col("query") % 3) for x in (old, new)]
    compared = compare_values(dict(zip("ab", few, strict=True)), metrics="AP", cluster="shop")
    assert "Not tested: 1 of 1 row (fewer than 2 queries, or 10 clusters: 1)" in compared.notes
    one_each = old.with_columns(pl.col("query").alias(name).cast(old[name].dtype))
    alone = compare_values({"old": one_each, "new": one_each}, metrics="AP")
    assert not any("are not independent" in note for note in alone.notes)


def test_a_system_that_finds_less_does_not_look_better():
    qrels = {f"q{i}": {"a": 1, "b": 0, "c": 0} for i in (1, 2, 3)}
    bad = {"q1": ["b", "c"], "q2": ["b", "c"], "q3": ["a", "b"]}
    good = {"q1": ["b", "a", "c"], "q2": ["b", "a", "c"], "q3": ["a", "b"]}
    runs = {"bad": bad, "good": good}
    evaluated = rankql.evaluate(runs, qrels, "AUC")
    assert evaluated.summary["mean"].to_list() == pytest.approx([1, 2 / 3])
    assert any("AUC: means are over 1 (bad) to 3 queries (good)" in x for x in evaluated.notes)
    two = rankql.compare(runs, qrels, ["AUC", "GAUC"])
    assert two.summary["mean"].to_list() == [1, 1, 1, 1]
    assert (two.pairs["mean_a"] == two.pairs["mean_b"]).all()
    assert not any("means are over" in note for note in two.notes)
    assert two.title == "Is good better than bad? Undecided: +0.000 AUC (not testable)"
    assert "t test widened for skewness, nothing could be tested, 1 query" in two.method
    # One set of queries for all pairs, also with a baseline.
    for baseline in (None, "good"):
        three = rankql.compare({**runs, "other": good}, qrels, "AUC", baseline=baseline)
        assert three.summary["mean"].to_list() == [1, 1, 1] and set(three.pairs["n"]) == {1}
    # A query that a run lacks counts as 0 in a metric that is defined there.
    assert rankql.compare({"x": {"q1": ["a"]}, "y": good}, qrels, "RR").pairs["n"].item() == 3


def systems_table(first, second):
    """Two systems in one table, the first one first."""
    rows = [
        (system, query, item, pos, int((query + pos + shift) % 3 == 0))
        for shift, system in enumerate((first, second))
        for query in range(12) for pos, item in enumerate("abc", 1)
    ]  # fmt: skip
    return pl.DataFrame(rows, ["system", "query", "item", "pos", "rel"], orient="row")


@few(2)(
    ("form", "names"),
    cycled(
        ["polars", "pandas", "parquet", "csv", "jsonl", "values", "result"],
        [("旧版", "新版"), (9, 10), ("old", "new")],
    ),
)
def test_systems_of_a_column_are_in_order_of_first_appearance(form, names, tmp_path):
    """So "is old better than new?" is not asked backwards."""
    frame = systems_table(*names)
    if form == "values":
        frame = frame.group_by("system", "query", maintain_order=True).agg(mine=pl.mean("rel"))
    data = {"pandas": frame.to_pandas, "result": lambda: rankql.evaluate(frame, metrics="RR")}
    data = data.get(form, lambda: frame)()
    if form in ("parquet", "csv", "jsonl"):
        data = str(tmp_path / f"log.{form}")
        write = {"parquet": "write_parquet", "csv": "write_csv", "jsonl": "write_ndjson"}[form]
        getattr(frame, write)(data)
    compare = compare_values if form == "values" else rankql.compare
    result = compare(data, metrics=None if form in ("values", "result") else "RR")
    assert result.systems == [*map(str, names)]
    assert result.pairs.row(0, named=True)["a"] == str(names[0])


def test_systems_without_an_order_are_in_that_of_their_names(tmp_path):
    frame = systems_table("before", "after")
    for name, part in frame.partition_by("system", as_dict=True).items():
        part.write_parquet(tmp_path / f"{name[0][:1] * 2}.parquet")
    con = duckdb.connect()
    con.register("frame", frame)
    con.execute("CREATE TABLE log AS FROM frame")
    for data, options in (("log", {"con": con}), (f"{tmp_path}/*.parquet", {})):
        result = rankql.compare(data, metrics="RR", **options)
        assert result.systems == ["after", "before"]


@few(1)(("seed", "weight"), [(1, "w"), (0, None)])
def test_a_mean_is_the_same_to_the_last_bit_wherever_it_is_printed(seed, weight):
    """In the pairs, the means of the comparison and of each system alone, and by gate."""
    rng = np.random.default_rng(seed)
    about = pl.DataFrame(
        {"query": np.arange(997), "w": rng.random(997), "part": [*"xyz"] * 332 + ["x"]}
    )
    frames = {name: about.with_columns(m=pl.lit(rng.random(997) ** 3 / 7)) for name in "ab"}
    options = {"by": "part", "weight": weight}
    result = compare_values(frames, metrics="m", **options)
    means = {tuple(row): mean for *row, mean in result.summary["slice", "system", "mean"].rows()}
    for part, *pair in result.pairs["slice", "mean_a", "mean_b"].rows():
        assert pair == [means[part, "a"], means[part, "b"]]
    (verdict,) = gate_values(frames["b"], minimum="m>=0", weight=weight).table["mean"]
    # On DuckDB 1.4 the last digit may differ.
    close = 1e-15 if duckdb.__version__ < "1.5" else 0
    assert verdict == pytest.approx(means["all", "b"], rel=close, abs=0)
