"""The fast way of evaluate, the packed tops of the rankings, equals the macros to 1e-12.

The macros alone are used where the grades are said to have no scale.
"""

import itertools
import os
import random
import re
import subprocess
import sys
from functools import cache

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import packed, packed_metrics
from rankql.evaluation.evaluate import evaluate_in_duckdb
from rankql.registry import parse as names
from rankql.registry.all_metrics import EVALUATED
from rankql.registry.conventions import PROFILES, Conventions
from support import definitions, metric_engines, strategies
from support.parameters import cycled
from support.plans import evaluate_plan, make_arguments

ENDS = packed.SCALES
# The bits of a digit, of which two highest grades must not carry into the next one.
BITS = {1: 1, 3: 3, 5: 4}
# The last position that can be packed, and how many there are in a word of 64 bits.
LAST = {end: packed.BITS // bits for end, bits in BITS.items()}
WORD = {end: packed.WORD // bits for end, bits in BITS.items()}
# The last position whose sums are DOUBLE.
SHORT = {end: packed.SHORT // bits for end, bits in BITS.items()}
PANEL = [
    "nDCG@5,10,20,27",
    "nDCG(gain=exp2)@10",
    *("CG@5", "DCG@10", "IDCG@10", "AP@5,20", "RR@10", "ARHR@7", "P@1,10", "P(rel=3)@5"),
    *("R@10,25", "F1@10", "Success@3", "ERR@5,10", "RBP(p=0.8)@20"),
]
UNPACKED = ["AP", "Bpref", "Rprec", "nDCG@999", "P(denominator=retrieved)@5", "nDCG(base=3)@5"]
MICRO = ["microP@5", "microR@10", "microF1@10"]
SMALL = ["nDCG@5", "AP@20", "P(rel=2)@10", "ERR@10"]


def outcome(*args, **options):
    """The result, or the error."""
    try:
        return evaluate_in_duckdb(make_arguments(*args, packs=True, interval=None, **options))
    except rankql.RankqlError as error:
        return str(error)


def plain(*args, **options):
    """The outcome by the macros alone."""
    try:
        return evaluate_in_duckdb(make_arguments(*args, packs=False, interval=None, **options))
    except rankql.RankqlError as error:
        return str(error)


def packs(*args, **options):
    """Whether values are computed from packed sums."""
    _, plan, _ = evaluate_plan(*args, packs=True, **options)
    return bool(packed_metrics.pack_metrics(plan.scale, plan.metrics, vars(plan.effective))[1])


def close(got, want):
    """The same rows, numbers to 1e-12, NULL where NULL."""
    assert_frame_equal(got, want, abs_tol=1e-12, rel_tol=1e-12)


def hold(run, qrels, metrics, fast=True, want=None, **options):
    """The fast form to the plain one: the rows in their order, the means, or else the errors.

    `want` is the plain outcome of the same rows, where it is known.
    """
    got = outcome(run, qrels, metrics, **options)
    want = plain(run, qrels, metrics, **options) if want is None else want
    if isinstance(want, str) or isinstance(got, str):
        assert got == want
        return got
    assert packs(run, qrels, metrics, **options) == fast
    close(got.per_query, want.per_query)
    close(got.summary, want.summary)
    keys = got.per_query[[*got.keys[: 1 + ("system" in got.keys)]]]
    assert_frame_equal(keys, keys.sort(pl.all(), nulls_last=True))
    return got


def frame(rows, rel=pl.Float64, pos=pl.Int64):
    """Rows (query, rel, pos) as a ranked table."""
    made = pl.DataFrame(rows, {"query": pl.Int64, "rel": rel, "pos": pos}, orient="row")
    return made.with_columns(item=pl.int_range(pl.len()))


def ranked(end, seed=1, queries=120, most=120):
    """Rankings with gaps, unjudged items and such as were not retrieved; some have no gain."""
    rng = random.Random(f"{end} {seed}")
    rows = []
    for query in range(queries):
        grades = [*range(end + 1), None, 0] if query % 7 else [0, None] if query % 2 else [None]
        if query % 11 == 0:  # full of the highest grade, or of others
            grades = [end] if query % 2 else range(1, end + 1)
        places = rng.sample(range(1, most), rng.choice([1, 3, 20, most - 1]))
        rows += [(query, rng.choice(grades), pos) for pos in places]
        rows += [(query, rng.choice(grades), None) for _ in range(rng.choice([0, 0, 2, 9]))]
    rows.append((queries, end, 1))
    rng.shuffle(rows)
    return frame(rows)


def joined(table, place="pos"):
    """The same as a run and judgments, with queries on one side only."""
    run = table.filter(pl.col("pos").is_not_null(), pl.col("query") != 3)
    if place == "score":
        run = run.with_columns(score=1.0 - pl.col("pos") // 3)  # three have the same
    qrels = table.filter(pl.col("rel").is_not_null(), pl.col("query") != 5)
    return run.select("query", "item", place), qrels.select("query", "item", "rel")


def by_score(table):
    """The same as a ranked table with scores."""
    return table.select("query", "item", "rel", score=1.0 - pl.col("pos") // 3), None


SHAPES = {
    "ranked": lambda table: (table, None),
    "ranked without items": lambda table: (table.drop("item"), None),
    "ranked by score": by_score,
    "joined": joined,
    "joined by score": lambda table: joined(table, "score"),
}


@cache
def plain_of(shape, end, *metrics):
    """What the macros alone make of the rankings, wherever these are and of whatever type."""
    return plain(*SHAPES[shape](ranked(end)), [*metrics])


# Every metric with its options.

GAINS = ["", "gain=exp2", "gain=binary"]
LEVELS = ["", "rel=2", "rel=1.5", "rel=0.5", "rel=5", "rel=9"]
FORMS = {
    **{name: [GAINS] for name in ("CG", "DCG", "IDCG")},
    "nDCG": [GAINS, ["", "negative=keep"]],
    "AP": [LEVELS, ["", "denominator=R", "denominator=found", "denominator=k"]],
    "P": [LEVELS, ["", "denominator=min"]],
    **{name: [LEVELS] for name in ("R", "F1", "Success", "RR", "ARHR")},
    **{name: [LEVELS] for name in ("microP", "microR", "microF1")},
    "ERR": [["", "max_rel=7", "max_rel=5.5"], ["", "p=0.8", "p=0.05"]],
    "RBP": [["p=0.8", "p=0.125"], LEVELS, ["", "max_rel=5", "max_rel=7.5"]],
}


def forms(name, cutoffs):
    """A metric with all its options; pairs of these take turns, so that each meets all cutoffs."""
    for numbered in itertools.product(*map(enumerate, FORMS[name])):
        text = ", ".join(option for _, option in numbered if option)
        turn = sum(number for number, _ in numbered) % 2
        part = cutoffs if len(numbered) == 1 else cutoffs[turn::2]
        yield from (f"{name}({text})@{k}" if text else f"{name}@{k}" for k in part)


def test_forms_are_all():
    assert {names.parse(f"{name}(p=0.5)@1" if name == "RBP" else f"{name}@1")[0].record.macro
            for name in FORMS} == {m.macro for m in EVALUATED if m.packed}  # fmt: skip


def test_limits():
    for end, bits in BITS.items():
        assert packed.digit_bits(end) == bits
        assert LAST[end] > WORD[end] + 1  # a second word is begun


@pytest.mark.slow
@pytest.mark.parametrize(("name", "end"), cycled([*FORMS], [*ENDS]))
def test_options(name, end):
    """All options at once, at cutoffs that share what they have in common; by both gradings."""
    cutoffs = [1, 4, WORD[end], WORD[end] + 1, LAST[end]]
    hold(ranked(end), None, list(forms(name, cutoffs)))


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_one_cutoff(end):
    """From the first position to the last that can be packed, and the next one."""
    metrics = ["nDCG(gain=exp2)", "AP", "AP(rel=2)", "RR", "P", "ERR", "RBP(p=0.8)", "ARHR", "CG"]
    short, word, last = SHORT[end], WORD[end], LAST[end]
    for k in {1, short, short + 1, word, word + 1, last, last + 1}:
        hold(ranked(end, k), None, [f"{metric}@{k}" for metric in metrics], fast=k <= last)


@pytest.mark.parametrize("top", [0, 2, 4])
def test_highest_grades(top):
    """Scales that are not used up to their end; grades of 0 alone."""
    table = ranked(5).with_columns(pl.col("rel").clip(0, top))
    hold(table, None, [*PANEL, *MICRO])
    hold(*joined(table), [*PANEL, *MICRO])


def test_no_grades():
    table = ranked(1).with_columns(rel=pl.lit(None, pl.Int32))
    hold(table, None, PANEL)


@st.composite
def any_metric(draw, last):
    name = draw(st.sampled_from(sorted(FORMS)))
    options = ", ".join(filter(None, (draw(st.sampled_from(part)) for part in FORMS[name])))
    return f"{name}({options})@{draw(st.integers(1, last))}"


@pytest.mark.parametrize("end", ENDS)
@given(data=st.data())
def test_any(end, data):
    """Any rankings, in any shape, under any metrics, with others that cannot be packed."""
    grades = st.sampled_from([None, 0, *range(end + 1), end])
    steps = st.sampled_from([0, 1, 1, 1, 2, 5, 19])
    groups = data.draw(strategies.batches(strategies.rankings(grades, steps)))
    rows = [(100, end, 1), *((g, *row) for g, group in enumerate(groups) for row in group)]
    metrics = data.draw(st.lists(any_metric(LAST[end]), min_size=1, max_size=6))
    metrics += data.draw(st.lists(st.sampled_from(UNPACKED), max_size=2))
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    hold(*SHAPES[shape](frame(rows)), metrics)


# Conventions, and what stands beside.

CHOSEN = [
    *({"conventions": profile} for profile in PROFILES),
    *({"gain": gain} for gain in ("exp2", "binary", {0: 0, 1: 1, 2: 5, 3: 7})),
    *({"threshold": threshold, "gain": "binary"} for threshold in (0.5, 2, 4)),
    *({"undefined": "drop", "threshold": threshold} for threshold in (0, 1, 1.5, 4)),
    *({"undefined": undefined} for undefined in ("zero", "error")),
    *({"negative": negative} for negative in ("keep", "unjudged", "error")),
    *({"ties": ties} for ties in ("order", "best", "worst", "expected")),
    *({"missing": missing} for missing in ("skip", "error")),
    *({"precision_denominator": of} for of in ("retrieved", "min")),
    *({"ap_denominator": of} for of in ("R", "found", "k")),
    {"unjudged": "remove"},
    {"unjudged": "bounds"},
    {"unjudged": "remove", "ties": "worst", "undefined": "drop"},
    {"ideal": "retrieved"},
    {"discounts": [1.0, 1.5, *range(2, 2000)]},
    {"max_rel": 6},
    {"float32": True},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "shape"),
    cycled(CHOSEN, ["ranked", "joined by score"]),
    ids=lambda options: str(options)[:60],
)
def test_conventions(options, shape):
    """Every convention, with metrics that cannot be packed."""
    data = SHAPES[shape](ranked(3, queries=40, most=45))
    expected = PROFILES[options.get("conventions", "rankql")].ties == "expected"
    expected = (expected or options.get("ties") == "expected") and "score" in data[0].columns
    metrics = [*SMALL, "P@5", "nDCG(gain=exp2)@10", "RR(rel=1)@5", *MICRO[:2], "AP", "Bpref"]
    if expected or options.get("unjudged") == "bounds":  # what is refused there
        metrics = [m for m in metrics if not m.startswith(("ERR", "micro"))]
    plainly = expected or options.get("unjudged") == "bounds" or options.get("threshold") == 0
    hold(*data, metrics, fast=not plainly, **options)


@pytest.mark.slow
@pytest.mark.parametrize("undefined", ["skip", "zero", "drop"])
@pytest.mark.parametrize("missing", ["zero", "skip"])
@pytest.mark.parametrize("shape", ["joined", "joined by score", "ranked"])
def test_ideal_of_retrieved_items(shape, missing, undefined):
    """Judged items that are not retrieved have no grade, but their queries are judged."""
    table = ranked(3).with_columns(
        pos=pl.when(pl.col("query") % 10 > 0).then("pos").when(pl.col("rel") == 0).then("pos")
    )
    metrics = ["nDCG@5,20", "nDCG(gain=exp2)@10", "IDCG@5", "IDCG(gain=binary)@10"]
    options = {"ideal": "retrieved", "missing": missing, "undefined": undefined}
    fast = shape != "ranked" and undefined != "drop"
    hold(*SHAPES[shape](table), metrics, fast, **options)
    hold(*SHAPES[shape](table), [*metrics, "P@5"], **options)
    both = {name: SHAPES[shape](ranked(3, name)) for name in ("one", "two")}
    runs = {name: run for name, (run, _) in both.items()}
    hold(runs, both["one"][1], metrics, fast, **options)


@pytest.mark.parametrize("threshold", [0, 0.5, 1, 1.5, 2, 5])
def test_own_threshold(threshold):
    """That of a metric goes before that of the conventions, 1 too."""
    metrics = [f"{name}(rel={rel})@5" for name in ("P", "AP", "RR", "R") for rel in (1, 2, 3)]
    hold(ranked(3), None, [*metrics, "RBP(p=0.5,rel=1)@5"], threshold > 0, threshold=threshold)
    hold(ranked(3), None, metrics, threshold > 0, threshold=threshold, undefined="drop")


def test_own_denominators():
    metrics = ["P(denominator=k)@5", "AP(denominator=min)@5", "nDCG(gain=linear)@5", "ERR(p=1)@5"]
    options = {"precision_denominator": "min", "ap_denominator": "R", "gain": "exp2"}
    hold(ranked(3), None, metrics, **options)


@pytest.mark.parametrize("max_rel", [3, 4.5, 60, 1000, 1023, 1024, 2000])
def test_far_scales(max_rel):
    hold(ranked(3), None, [f"ERR(max_rel={max_rel})@5", f"RBP(p=0.5,max_rel={max_rel})@5"])


@pytest.mark.parametrize("p", ["0.000001", "0.999999", "1e-200"])
def test_far_patience(p):
    hold(ranked(3), None, [f"ERR(p={p})@25", f"RBP(p={p})@25"])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_beside_plain_metrics(shape):
    """One that can be packed between those that cannot, in the order that was asked for."""
    own = ["items = count(rel)", "best = max(rel)", "own = ndcg(rel, pos, 5)"]
    metrics = ["AP", "nDCG@10", *MICRO, "Bpref", own[0], "P@5", own[1], "microR", own[2], "RR@7"]
    if shape == "joined":  # there is no score for them
        metrics = [metric for metric in metrics if metric not in own]
    data = SHAPES[shape](ranked(3, queries=40, most=45))
    assert list(hold(*data, metrics).per_query.columns)[1:] == [
        metric.partition(" = ")[0] for metric in metrics
    ]
    hold(*data, metrics, undefined="drop")


OUR_NAMES = ["top", "counts 1", "all counts 1", "firsts", "word 0", "packed"]
OUR_NAMES += ["from 1", "hits 1 0", "grade 1", "digits"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OUR_NAMES, "dcg linear to 5", "grade", "place", "sums"])
def test_names_of_ours(name):
    """Whoever calls a query or an expression as we call a step or a column of it."""
    table = ranked(3, queries=20)
    hold(table, None, ["nDCG@5", f"{name} = max(rel) + 0.5", "P@5"])
    about = table.with_columns((pl.col("query") % 3 + 0.5).alias(name))
    hold(about, None, ["nDCG@5", "P@5"], by=name)
    renamed = table.rename({"query": name})
    hold(renamed, None, ["nDCG@5", "P@5"], query=name)
    run, qrels = joined(table, "score")
    run, qrels = (table.rename({"query": name}) for table in (run, qrels))
    hold(run, qrels, ["nDCG@5", "P@5"], query=name)


@pytest.mark.parametrize("name", ["^.*$", "^nDCG.*$", "*", 'a"b', "{0}", "a.b"])
def test_names_that_mean_more_to_polars_or_sql(name):
    table = ranked(3, queries=20)
    about = table.with_columns((pl.col("query") % 3).alias(name))
    hold(table.rename({"query": name}), None, SMALL, query=name)
    hold(about, None, SMALL, by=name)


@pytest.mark.slow
@pytest.mark.parametrize("home", ["run", "qrels", "attributes"])
@pytest.mark.parametrize("shape", SHAPES)
def test_by(shape, home):
    table = ranked(3)
    run, qrels = SHAPES[shape](table)
    about = pl.DataFrame({"query": range(200)}).with_columns(
        segment=pl.col("query") % 3, city=pl.when(pl.col("query") % 5 > 0).then(pl.lit("x"))
    )
    options = {"by": ["segment", ["segment", "city"]]}
    if home == "attributes":
        options["attributes"] = about
    elif home == "run" or qrels is None:
        run = run.join(about, "query")
    else:
        qrels = qrels.join(about, "query")
    hold(run, qrels, ["nDCG@10", "P@5", "microR@5", "AP"], **options)
    hold(run, qrels, ["nDCG@10", "P@5"], **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_systems(shape):
    """A dict of runs, and a column that tells them apart."""
    both = {name: SHAPES[shape](ranked(5, name)) for name in ("one", "two")}
    qrels = both["one"][1]
    runs = {name: run for name, (run, _) in both.items()}
    hold(runs, qrels, [*SMALL, *MICRO])
    one = pl.concat([run.with_columns(name=pl.lit(name)) for name, run in runs.items()])
    hold(one, qrels, [*SMALL, "AP"], system="name")


# The data: types, sources, connections.

WHOLE = ["TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER"]
TYPES = [*WHOLE, "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL(9,2)", "DECIMAL(38,4)",
         "FLOAT", "DOUBLE"]  # fmt: skip


def connect(end=3, rel="DOUBLE", pos="BIGINT", **settings):
    """A connection with the tables `ranked`, `run` and `qrels`."""
    con, table = metric_engines.connect(**settings), ranked(end)
    for name, made in zip(("ranked", "run", "qrels"), (table, *joined(table)), strict=True):
        kinds = {"rel": rel, "pos": pos}
        casts = [f"CAST({c} AS {kinds[c]}) AS {c}" for c in kinds if c in made.columns]
        con.register("made", made.to_arrow())
        con.execute(f"CREATE TABLE {name} AS SELECT * REPLACE ({', '.join(casts)}) FROM made")
    con.unregister("made")
    return con


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rel", "pos"),
    [
        *zip(TYPES, [*TYPES[1:], TYPES[0]], strict=True),
        ("TINYINT", "TINYINT"),
        ("UTINYINT", "UTINYINT"),
        ("FLOAT", "FLOAT"),
        ("BOOLEAN", "TINYINT"),
    ],
)
def test_types(rel, pos):
    """Columns of any type that holds numbers: no sum and no shift overflows."""
    end = 1 if rel == "BOOLEAN" or pos == "TINYINT" else 5
    con = connect(end, rel, pos)
    metrics = ["nDCG@5", f"IDCG@{LAST[end]}", f"P@{LAST[end]}"]
    hold("ranked", None, metrics, want=plain_of("ranked", end, *metrics), con=con)
    hold("run", "qrels", "RR@7", want=plain_of("joined", end, "RR@7"), con=con)


def test_text_is_refused():
    con = connect(3, "VARCHAR")
    assert "must be a number" in hold("ranked", None, "nDCG@5", con=con)


SOURCES = {
    "table": lambda con, name, path: name,
    "schema": lambda con, name, path: f"main.{name}",
    "temp": lambda con, name, path: con.execute(f"CREATE TEMP TABLE t{name} AS FROM {name}")
    and f"t{name}",
    "view": lambda con, name, path: con.execute(f"CREATE VIEW v{name} AS FROM {name}")
    and f"v{name}",
    "relation": lambda con, name, path: con.table(name),  # of a connection that must be named
    "polars": lambda con, name, path: con.table(name).pl(),
    "lazy": lambda con, name, path: con.table(name).pl().lazy(),
    "pandas": lambda con, name, path: con.table(name).df(),
    "arrow": lambda con, name, path: con.table(name).pl().to_arrow(),
    **{
        kind: lambda con, name, path, kind=kind: con.execute(f"COPY {name} TO '{path}.{kind}'")
        and f"{path}.{kind}"
        for kind in ("parquet", "csv", "json")
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_sources(source, tmp_path):
    con = connect(3, "INTEGER")
    named = {"con": con} if source in ("table", "schema", "temp", "view", "relation") else {}
    run, qrels, both = (
        SOURCES[source](con, name, tmp_path / name) for name in ("run", "qrels", "ranked")
    )
    # In CSV and JSON, queries are text.
    want, joined = (
        None if source in ("csv", "json") else plain_of(shape, 3, *SMALL, *more)
        for shape, more in (("ranked", []), ("joined", ["AP"]))
    )
    hold(both, None, SMALL, want=want, **named)
    hold(run, qrels, [*SMALL, "AP"], want=joined, **named)
    if not named:
        hold(both, None, SMALL, want=want, con=con)


def test_transaction_sees_its_own_rows():
    """Rows that are not yet committed, of tables, judgments and new tables."""
    con = connect(3, "INTEGER")
    before = hold("ranked", None, "nDCG@10", con=con).per_query
    con.execute("BEGIN; INSERT INTO ranked (query, item, rel, pos) VALUES (-1, -1, 3, 2)")
    con.execute("UPDATE ranked SET rel = 0 WHERE query = 1 AND rel IS NOT NULL")
    con.execute("CREATE TABLE fresh AS FROM ranked")
    for name in ("ranked", "fresh"):
        made = hold(name, None, "nDCG@10", con=con).per_query
        assert made.height == before.height + 1
        assert made.row(0)[1] == pytest.approx(0.63, abs=0.001)
        assert made.filter(query=1)["nDCG@10"].item() is None
    con.execute("ROLLBACK")
    assert_frame_equal(hold("ranked", None, "nDCG@10", con=con).per_query, before)


SETTINGS = {
    "none": {},
    "integer division": {"integer_division": "true"},
    "no order": {"preserve_insertion_order": "false", "threads": 4},
    "nulls first": {"default_null_order": "nulls_first"},
    "descending": {"default_order": "desc", "default_null_order": "nulls_last"},
    "many threads": {"threads": 8},
    "little memory": {"memory_limit": "200MB"},
    "threshold": {"perfect_ht_threshold": 3},
    "no optimizer": {"disabled_optimizers": "statistics_propagation,filter_pushdown"},
    "errors for infinity": {"ieee_floating_point_ops": "false"},
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_settings(settings, tmp_path):
    """The same rows in order whatever the settings of the user, which stay as they are."""
    con = connect(3, "INTEGER", **SETTINGS[settings])
    con.execute("CREATE TEMP TABLE mine AS FROM ranked")
    before = metric_engines.state(con)
    expected = plain_of("ranked", 3, *SMALL)
    for table in ("ranked", "mine"):
        hold(table, None, SMALL, want=expected, con=con)
    hold("run", "qrels", [*SMALL, "AP"], want=plain_of("joined", 3, *SMALL, "AP"), con=con)
    path = tmp_path / "out.parquet"
    rankql.evaluate("ranked", None, SMALL, con=con, interval=None, output=path)
    close(pl.read_parquet(path), expected.values)
    assert metric_engines.state(con) == before
    assert con.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(("key", "own"), cycled(
    [
        "CAST(query AS UTINYINT)",
        "query - 60",
        "query * 1000000007",
        "CAST(query AS VARCHAR)",
        "DATE '2026-01-01' + CAST(query AS INTEGER)",
        "CAST(query AS HUGEINT) << 90",
        "query > 60",
    ],
    [True, False, False],
))  # fmt: skip
def test_keys(key, own):
    """Queries by any key, hashed or not, on the connection of the user and on one of our own."""
    con = connect(3, "INTEGER")
    if "> 60" in key:  # two queries, so the positions of one after those of the other
        con.execute("DELETE FROM ranked WHERE query NOT IN (1, 61)")
    con.execute(f"CREATE TABLE keyed AS SELECT * REPLACE ({key} AS query) FROM ranked")
    keyed = {"run": "keyed", "con": con} if own else {"run": con.table("keyed").pl()}
    made = hold(qrels=None, metrics=SMALL, **keyed)
    judged = "SELECT count(DISTINCT query) FROM keyed WHERE rel IS NOT NULL"
    ((queries,),) = con.sql(judged).fetchall()
    assert made.per_query.height == queries


# What cannot be packed.


@pytest.mark.parametrize(
    ("rel", "pos", "shape"),
    cycled([0.5, 2.999, 6, 1e300, -1, -0.5, 0.5], [1, None], ["ranked", "ranked", "joined"]),
)
def test_other_grades_fall_back(rel, pos, shape):
    """One such grade among many, wherever it stands."""
    table = ranked(3)
    one = [(7_000, rel, pos), (7_000, 1, 2), (7_000, 3, None)]
    data = SHAPES[shape](pl.concat([table, frame(one).with_columns(pl.col("item") + 10**6)]))
    metrics = ["nDCG@5", "AP@5", *([] if rel == 1e300 else ["ERR@5"])]
    made = hold(*data, metrics, fast=False).per_query.filter(query=7_000)
    rows = [(rel, pos) for _, rel, pos in one]
    assert metric_engines.same(made["nDCG@5"].item(), definitions.ndcg(rows, 5))
    assert metric_engines.same(made["AP@5"].item(), definitions.ap(rows, 5))


@pytest.mark.parametrize("kind", ["DECIMAL(9,2)", "FLOAT", "DOUBLE"])
def test_fractions_of_any_type_fall_back(kind):
    con = connect(3, kind)
    con.execute("UPDATE ranked SET rel = 1.5 WHERE rel = 2; UPDATE qrels SET rel = rel / 2")
    hold("ranked", None, SMALL, fast=False, con=con)
    hold("run", "qrels", SMALL, fast=False, con=con)


@pytest.mark.parametrize("rel", [float("nan"), float("inf"), float("-inf")])
def test_no_numbers_are_refused(rel, tmp_path):
    table = pl.concat([ranked(3), frame([(0, rel, None)])])
    table.write_parquet(tmp_path / "ranked.parquet")
    for run in (table, tmp_path / "ranked.parquet"):
        assert "rel must be a finite number" in hold(run, None, "nDCG@5")


# Duplicates.


def of_one(*rows):
    """A ranking of these (rel, pos) beside another one."""
    return frame([(8, *row) for row in rows] + [(2, 1, 1)])


def refused(run, qrels, metrics, words, **options):
    """Refused by both, in the same words."""
    error = hold(run, qrels, metrics, **options)
    assert isinstance(error, str), f"not refused: {error.per_query}"
    assert re.search(words, error), error


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", ["first", "end of a word", "next word", "last"])
def test_positions_that_come_twice(end, place):
    """Alone, and where all others are full, so that sums carry far."""
    last, word = LAST[end], WORD[end]
    pos = {"first": 1, "end of a word": word, "next word": word + 1, "last": last}[place]
    words = f"^run has duplicates: query 8, pos {pos}. Keep one"
    others = [(end, other) for other in range(1, last + 3) if other != pos]
    for grades in ([1, 1], [1, end], [end] * 3, [end] * 9):
        twice = [(grade, pos) for grade in grades]
        refused(of_one(*twice), None, f"P@{last}", words)
        refused(of_one(*twice, *others), None, [f"P@{pos}", "nDCG@1"], words)
    refused(*joined(of_one(*twice)), [f"P@{pos}", "nDCG@1"], words)


@pytest.mark.parametrize("pos", [2, 20, 21, LAST[3]])
def test_cutoff_of_duplicates(pos):
    """Positions beyond all cutoffs may come twice, those of any metric may not."""
    table = of_one((3, 1), (1, pos), (2, pos)).drop("item")
    words = f"^run has duplicates: query 8, pos {pos}. Keep one"
    hold(table, None, [f"nDCG@{pos - 1}", "P@1"])
    hold(table, None, ["nDCG@1", f"nDCG(base=3)@{pos - 1}"])
    refused(table, None, ["P@1", f"nDCG@{pos}"], words)
    refused(table, None, ["nDCG@1", f"nDCG(base=3)@{pos}"], words)
    refused(table, None, [f"nDCG@{pos - 1}", "AP"], words)


def listed(columns):
    return ", ".join(f'{value} AS "{name}"' for name, value in columns.items())


@pytest.mark.parametrize("end", ENDS)
def test_any_two_at_one_position_show(end):
    """Of all sets of up to four rows, the sums tell which are no rankings."""
    rows = list(itertools.product([None, *range(end + 1)], range(1, 5)))
    groups = [g for n in range(1, 5) for g in itertools.combinations_with_replacement(rows, n)]
    flat = [(query, *row) for query, group in enumerate(groups) for row in group]
    top, _ = packed_metrics.pack_metrics(end, names.parse("P@3"), vars(Conventions()))
    con = duckdb.connect()
    con.register("rankings", frame(flat, pl.Int32).to_arrow())
    for first in (False, True):
        sums = listed(top.sums("rel", "pos", first))
        source = f"(SELECT query, {sums} FROM rankings GROUP BY query)"
        for columns in (top.integers(), *top.steps().values()):
            source = f"(SELECT *, {listed(columns)} FROM {source})"
        found = dict(con.sql(f"SELECT query, {top.repeats_position()} FROM {source}").fetchall())
        for query, group in enumerate(groups):
            taken = [pos for rel, pos in group if pos <= 3 and (rel or (first and pos == 1))]
            assert found[query] == (len(taken) > len(set(taken))), group


@pytest.mark.parametrize("end", ENDS)
def test_polynomials_are_exact(end):
    """Each step of Horner's rule and each sum is a whole number that DOUBLE holds."""
    for counts in packed.Top(end, [3]).counts.values():
        for grade in range(end + 1):
            value = 0
            for factor in reversed(counts.polynomial.factors):
                value = value * grade + factor
                assert abs(value) * max(grade, 1) <= 2**packed.EXACT
            ones = [1 << counts._shift(g) for g in counts.grades if g <= grade]
            assert value == counts.polynomial.denominator * sum(ones)
        most = counts.polynomial.denominator << counts.bits * len(counts.grades)
        assert most <= 2**packed.EXACT


def test_rounding_is_that_of_the_macros():
    con = duckdb.connect()
    rankql.register(con)
    assert con.sql("SELECT rankql_rounding()").fetchall() == [(packed_metrics.ROUNDING,)]


@pytest.mark.parametrize("k", [5, 20])
def test_one_position_of_millions_of_items(k):
    """Their sum is larger than DOUBLE holds exactly, or than 64 bits."""
    con = duckdb.connect()
    rows = "SELECT 1 AS query, 2::TINYINT AS rel, 1::TINYINT AS pos FROM range(3_000_000)"
    con.execute(f"CREATE TABLE merged AS {rows}").fetchall()
    with pytest.raises(rankql.RankqlError, match="duplicates: query 1, pos 1"):
        rankql.evaluate("merged", None, f"nDCG@{k}", con=con)


@pytest.mark.parametrize("end", ENDS)
def test_gains_are_whole_numbers(end):
    """One item of each grade, at each position: no rounding, of powers of two either."""
    items = list(itertools.product(range(1, end + 1), range(1, LAST[end] + 1)))
    run = frame((query, *item) for query, item in enumerate(items))
    metrics = [f"CG@{LAST[end]}", f"CG(gain=exp2)@{LAST[end]}"]
    result = rankql.evaluate(run, None, metrics)
    assert packs(run, None, metrics)
    values = result.per_query.sort("query")
    assert values[metrics[0]].to_list() == [grade for grade, _ in items]
    assert values[metrics[1]].to_list() == [2**grade - 1 for grade, _ in items]


@pytest.mark.parametrize("end", [3, 5])
def test_more_items_than_the_counts_hold(end, tmp_path):
    """Then the macros compute the values, within a transaction too."""
    top, _ = packed_metrics.pack_metrics(end, names.parse("P@3"), vars(Conventions()))
    most = [(end - pos % 2, pos) for pos in range(1, top.limit)]
    hold(of_one(*most), None, ["nDCG@5", "AP@5"])
    more = of_one(*most, (1, top.limit))
    hold(more, None, ["nDCG@5", "AP@5"], fast=False)
    got = rankql.evaluate(more, None, "P@5", output=tmp_path / "values.parquet")
    assert got["P@5"] == 0.6
    con = duckdb.connect()
    con.register("more", more.to_arrow())
    con.execute("BEGIN")
    con.execute("CREATE TABLE here AS FROM more").fetchall()
    assert rankql.evaluate("here", None, "P@5", con=con)["P@5"] == 0.6
    rankql.evaluate("here", None, "P@5", con=con, output=tmp_path / "more.parquet")
    assert con.execute("SELECT count(*) FROM here").fetchall() == [(more.height,)]


@pytest.mark.parametrize("k", [1, WORD[1], LAST[1]])
def test_very_many_at_one_position(k):
    table = frame([(1, 1, 1)] * 200_000).drop("item")
    refused(table, None, f"nDCG@{k}", "^run has duplicates: query 1, pos 1.")


def test_duplicates_do_not_end_a_transaction():
    con = duckdb.connect()
    con.execute("BEGIN; CREATE TABLE twice AS SELECT 1 AS query, 1 AS rel, 1 AS pos FROM range(2)")
    with pytest.raises(rankql.RankqlError, match=r"has duplicates: query 1, pos 1\."):
        rankql.evaluate("twice", None, "nDCG@10", con=con)
    assert con.execute("SELECT count(*) FROM twice").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("shape", "unjudged", "metrics"),
    cycled(
        [shape for shape in SHAPES if "without" not in shape] * 2,
        ["zero", "zero", "zero", "zero", "remove", "remove", "remove", "remove"],
        ["nDCG@5", "AP", ["nDCG@5", "AP"]],
    ),
)
def test_items_that_come_twice(shape, unjudged, metrics):
    run, qrels = SHAPES[shape](of_one((1, 1), (0, 2), (3, 3)))
    for table in (run, qrels):
        if table is not None:
            twice = pl.concat([table, table.filter(item=2)])
            if "pos" in table.columns:
                twice = twice.with_columns(pos=pl.int_range(1, pl.len() + 1))
            both = (twice, qrels) if table is run else (run, twice)
            words = "^(run|qrels) has duplicates: query 8, item 2. Keep"
            refused(*both, metrics, words, unjudged=unjudged)


@pytest.mark.parametrize(
    ("shape", "unjudged", "metrics"),
    cycled(
        ["ranked", "ranked without items", "joined"] * 2,
        ["zero", "remove"],
        ["nDCG@5", "nDCG@5", ["nDCG@5", "AP"], ["nDCG@5", "AP"]],
    ),
)
def test_positions_under_conventions(shape, unjudged, metrics):
    """Positions that come twice are refused though what is unjudged leaves its own."""
    data = SHAPES[shape](of_one((1, 2), (2, 2), (None, 1), (3, 3)))
    refused(*data, metrics, "duplicates: query 8, pos 2.", unjudged=unjudged)


def test_harmless_duplicates():
    """The fast path counts rows that gain: others may share a position, which the macros refuse."""
    table = of_one((1, 1), (0, 2), (None, 2), (3, 2), (0, 3), (0, 3), (2, 50), (3, 51), (2, 52))
    made = outcome(table, None, ["nDCG@5", "P@5", "AP@20"])
    assert packs(table, None, ["nDCG@5", "P@5", "AP@20"])
    assert made.per_query.filter(query=8)["P@5"].item() == 0.4
    assert "has duplicates: query 8" in plain(table, None, ["nDCG@5", "P@5", "AP@20"])


# Much of it.

MANY = """
    CREATE TABLE many AS SELECT {query} AS query, CAST(hash(i) % 4 AS TINYINT) AS rel, {pos} AS pos
    FROM range({rows}) AS r (i)
"""


@pytest.mark.slow
def test_one_large_ranking():
    con = metric_engines.connect(threads=4)
    pos = "CASE WHEN i % 10 > 0 THEN 3000000 - i END"
    con.execute(MANY.format(query="0", pos=pos, rows=3_000_000))
    metrics = ["nDCG@10,25", "R@10", "AP@20", "F1@25", "ERR@10"]
    made = hold("many", None, metrics, fast=False, con=con)
    ((relevant,),) = con.sql("SELECT count(*) FROM many WHERE rel >= 1").fetchall()
    hits = "SELECT count(*) FROM many WHERE rel >= 1 AND pos <= 10"
    assert made["R@10"] == pytest.approx(con.sql(hits).fetchall()[0][0] / relevant, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["hash(i // 3)", "i // 3 * 1", "md5(CAST(i // 3 AS VARCHAR))"])
def test_many_rankings(query, tmp_path):
    """A million of them, and a few, in order, from the memory and in a file."""
    con = metric_engines.connect(threads=4, preserve_insertion_order="false")
    con.execute(MANY.format(query=query, pos="1 + i % 3", rows=3_000_000))
    metrics = ["nDCG@10", "P@2", "RR@3"]
    rows = hold("many", None, metrics, con=con).values
    assert rows.height == 1_000_000
    con.execute("CREATE TABLE few AS FROM many LIMIT 300_000")
    assert rankql.evaluate("few", None, "nDCG@10", con=con).per_query["query"].is_sorted()
    rankql.evaluate("many", None, metrics, con=con, interval=None, output=tmp_path / "x.pq")
    close(pl.read_parquet(tmp_path / "x.pq"), rows)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked there")
@pytest.mark.parametrize(
    "metrics", [["nDCG@3"], ["nDCG@3", "P@1", "P@2", "AP@3", "ERR(max_rel=2)@2"]]
)
def test_forked_processes_evaluate(metrics):
    """They lack the threads of polars, and would wait for ever."""
    code = f"""
import os, signal, warnings
import polars as pl, rankql
warnings.simplefilter("ignore")
rows = pl.DataFrame({{"query": [1, 1, 2], "pos": [1, 2, 1], "rel": [0, 1, 2]}})
rows.lazy().select(pl.all().sum()).collect()
if child := os.fork():
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
else:
    signal.alarm(30)
    rankql.evaluate(rows, None, {metrics}, interval=None)
    os._exit(0)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


@pytest.mark.parametrize("threads", ["1", "2", "8"])
def test_values_are_one_chunk(threads):
    """More chunks would open a second database for the means."""
    code = """
import polars as pl, rankql
rows = pl.DataFrame({"query": range(1000), "pos": [1] * 1000, "rel": [1] * 1000})
for metrics in (["nDCG@3"], ["nDCG@3", "P@1", "P@2", "AP@3"]):
    print(rankql.evaluate(rows, None, metrics).frame().n_chunks())
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "POLARS_MAX_THREADS": threads},
        capture_output=True,
        text=True,
    )
    assert (ran.stdout, ran.stderr) == ("1\n1\n", "")
