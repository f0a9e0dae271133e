"""Packed sums, the fast way of `evaluate`, give the values of the macros to 1e-12."""

import itertools
import os
import random
import re
import subprocess
import sys

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
from support.parameters import cycled, slow, slow_except
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


def evaluate(*args, packs, **options):
    """The result with packed sums or by the macros alone, or the error."""
    try:
        return evaluate_in_duckdb(make_arguments(*args, packs=packs, interval=None, **options))
    except rankql.RankqlError as error:
        return str(error)


def packs(*args, **options):
    """Whether values are computed from packed sums."""
    _, plan, _ = evaluate_plan(*args, packs=True, **options)
    return bool(packed_metrics.pack_metrics(plan.scale, plan.metrics, vars(plan.effective))[1])


def require_equal(left, right):
    """The same rows, numbers to 1e-12, NULL where NULL."""
    assert_frame_equal(left, right, abs_tol=1e-12, rel_tol=1e-12)


def compare(run, qrels, metrics, fast=True, **options):
    """The result, whose rows in their order and means, or error, are those of the macros."""
    result = evaluate(run, qrels, metrics, packs=True, **options)
    plain = evaluate(run, qrels, metrics, packs=False, **options)
    if isinstance(plain, str) or isinstance(result, str):
        assert result == plain
        return result
    assert packs(run, qrels, metrics, **options) == fast
    require_equal(result.per_query, plain.per_query)
    require_equal(result.summary, plain.summary)
    keys = result.per_query[[*result.keys[: 1 + ("system" in result.keys)]]]
    assert_frame_equal(keys, keys.sort(pl.all(), nulls_last=True))
    return result


def frame(rows, rel=pl.Float64, pos=pl.Int64):
    """Rows (query, rel, pos) as a ranked table."""
    table = pl.DataFrame(rows, {"query": pl.Int64, "rel": rel, "pos": pos}, orient="row")
    return table.with_columns(item=pl.int_range(pl.len()))


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


SHAPES = {
    "ranked": lambda table: (table, None),
    "ranked without items": lambda table: (table.drop("item"), None),
    "ranked by score": lambda table: (
        table.select("query", "item", "rel", score=1.0 - pl.col("pos") // 3),
        None,
    ),
    "joined": joined,
    "joined by score": lambda table: joined(table, "score"),
}


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
    """A metric with all its options, which take turns at the cutoffs."""
    for number, options in enumerate(itertools.product(*FORMS[name])):
        text = f"({', '.join(filter(None, options))})" if any(options) else ""
        yield from (f"{name}{text}@{k}" for k in cutoffs[number % 2 :: 2])


def test_forms_are_all_and_digits_fill_several_words():
    assert {names.parse(f"{name}(p=0.5)@1" if name == "RBP" else f"{name}@1")[0].record.macro
            for name in FORMS} == {m.macro for m in EVALUATED if m.packed}  # fmt: skip
    for end, bits in BITS.items():
        assert packed.digit_bits(end) == bits
        assert LAST[end] > WORD[end] + 1  # a second word is begun
        for k in (LAST[end], LAST[end] + 1):
            compare(ranked(end), None, f"nDCG@{k}", fast=k == LAST[end])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "end"), cycled([*FORMS], [*ENDS]))
def test_all_options_at_once(name, end):
    """At cutoffs that share what they have in common."""
    cutoffs = [1, 4, SHORT[end], SHORT[end] + 1, WORD[end], WORD[end] + 1, LAST[end]]
    compare(ranked(end), None, list(forms(name, cutoffs)))


@pytest.mark.parametrize("top", slow_except([None, 0, 2, 4], None, 2))
def test_scales_that_are_not_used_up_to_their_end(top):
    grades = pl.lit(None, pl.Int32) if top is None else pl.col("rel").clip(0, top)
    table = ranked(5).with_columns(rel=grades)
    compare(table, None, PANEL)
    if top is not None:
        compare(*joined(table), [*PANEL, *MICRO])


@st.composite
def any_metric(draw, last):
    name = draw(st.sampled_from(sorted(FORMS)))
    options = ", ".join(filter(None, (draw(st.sampled_from(part)) for part in FORMS[name])))
    return f"{name}({options})@{draw(st.integers(1, last))}"


@pytest.mark.parametrize("end", ENDS)
@given(data=st.data())
def test_any_rankings_and_metrics(end, data):
    """In any shape, with metrics that cannot be packed."""
    grades = st.sampled_from([None, 0, *range(end + 1), end])
    steps = st.sampled_from([0, 1, 1, 1, 2, 5, 19])
    groups = data.draw(strategies.batches(strategies.rankings(grades, steps)))
    rows = [(100, end, 1), *((g, *row) for g, group in enumerate(groups) for row in group)]
    metrics = data.draw(st.lists(any_metric(LAST[end]), min_size=1, max_size=6))
    metrics += data.draw(st.lists(st.sampled_from(UNPACKED), max_size=2))
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    compare(*SHAPES[shape](frame(rows)), metrics)


# Conventions, names and shapes.

CONVENTIONS = [
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
    {"unjudged": "remove", "ties": "worst", "undefined": "drop"},
    *({"ideal": "retrieved", "missing": missing} for missing in ("zero", "skip")),
    *({"ideal": "retrieved", "undefined": undefined} for undefined in ("zero", "drop")),
    {"discounts": [1.0, 1.5, *range(2, 2000)]},
    {"max_rel": 6},
    {"float32": True},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "shape"),
    cycled(CONVENTIONS, ["ranked", "joined by score"]),
    ids=lambda options: str(options)[:60],
)
def test_every_convention(options, shape):
    """With metrics that cannot be packed."""
    data = SHAPES[shape](ranked(3, queries=40, most=45))
    expected = PROFILES[options.get("conventions", "rankql")].ties == "expected"
    expected = (expected or options.get("ties") == "expected") and "score" in data[0].columns
    metrics = [*SMALL, "P@5", "nDCG(gain=exp2)@10", "RR(rel=1)@5", *MICRO[:2], "AP", "Bpref"]
    if expected:  # these are refused
        metrics = [m for m in metrics if not m.startswith(("ERR", "micro"))]
    compare(*data, metrics, fast=not expected and options.get("threshold") != 0, **options)


OWN_LEVELS = [f"{name}(rel={rel})@5" for name in ("P", "AP", "RR", "R") for rel in (1, 2, 3)]


@pytest.mark.parametrize(
    ("metrics", "options"),
    [
        *([OWN_LEVELS, {"threshold": threshold}] for threshold in (0, 0.5, 1, 1.5, 2, 5)),
        (["RBP(p=0.5,rel=1)@5", *OWN_LEVELS], {"threshold": 2, "undefined": "drop"}),
        (["P(denominator=k)@5", "AP(denominator=min)@5"], {"precision_denominator": "min"}),
        (["AP(denominator=min)@5", "P@5"], {"ap_denominator": "R"}),
        (["nDCG(gain=linear)@5", "DCG@5", "ERR(p=1)@5"], {"gain": "exp2"}),
    ],
)
def test_options_of_a_metric_win_over_the_conventions(metrics, options):
    compare(ranked(3), None, metrics, options.get("threshold") != 0, **options)


def test_far_scales_and_patience():
    scales = (3, 4.5, 60, 1000, 1023, 1024, 2000)
    options = [f"max_rel={x}" for x in scales] + [f"p={p}" for p in (1e-6, 0.999999, 1e-200)]
    metrics = [f"ERR({option})@5" for option in options]
    metrics += [f"RBP(p=0.5,max_rel={x})@5" for x in scales] + [f"RBP({p})@25" for p in options[7:]]
    compare(ranked(3), None, metrics)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["ranked", "joined by score"])
def test_metrics_keep_the_order_of_the_request(shape):
    """Also those that can be packed between those that cannot."""
    own = ["items = count(rel)", "best = max(rel)", "own = ndcg(rel, pos, 5)"]
    metrics = ["AP", "nDCG@10", *MICRO, "Bpref", own[0], "P@5", own[1], "microR", own[2], "RR@7"]
    data = SHAPES[shape](ranked(3, queries=40, most=45))
    columns = compare(*data, metrics).per_query.columns
    assert columns[1:] == [metric.partition(" = ")[0] for metric in metrics]
    compare(*data, metrics, undefined="drop")


NAMES = ["counts 1", "all counts 1", "firsts", "word 0", "from 1", "hits 1 0", "grade 1", "place"]
NAMES += ["dcg linear to 5", "sums", "nDCG@5.", "*", 'a"b', "{0}", "a.b"]


@pytest.mark.parametrize("name", slow_except(["top", "packed", "^.*$", *NAMES], "top", "^.*$"))
def test_names_of_users_may_be_those_of_steps_or_patterns(name):
    """The query, an attribute and a metric of the user."""
    table = ranked(3, queries=20)
    label = name if name.replace(" ", "").isalnum() else "x"
    compare(table, None, ["nDCG@5", f"{label} = max(rel) + 0.5", "P@5"])
    about = table.with_columns((pl.col("query") % 3 + 0.5).alias(name))
    compare(about, None, SMALL, by=name)
    compare(table.rename({"query": name}), None, SMALL, query=name)
    run, qrels = (each.rename({"query": name}) for each in joined(table, "score"))
    compare(run, qrels, ["nDCG@5", "P@5"], query=name)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_slices(shape):
    about = pl.DataFrame({"query": range(200)}).with_columns(
        segment=pl.col("query") % 3, city=pl.when(pl.col("query") % 5 > 0).then(pl.lit("x"))
    )
    options = {"by": ["segment", ["segment", "city"]], "attributes": about}
    for metrics in (["nDCG@10", "P@5"], ["nDCG@10", "P@5", "microR@5", "AP"]):
        compare(*SHAPES[shape](ranked(3)), metrics, **options)


@pytest.mark.parametrize("shape", slow_except(SHAPES, "ranked", "joined by score"))
def test_several_systems(shape):
    """A dict of runs, and a column with their names."""
    both = {name: SHAPES[shape](ranked(5, name)) for name in ("one", "two")}
    qrels = both["one"][1]
    runs = {name: run for name, (run, _) in both.items()}
    compare(runs, qrels, [*SMALL, *MICRO])
    one = pl.concat([run.with_columns(name=pl.lit(name)) for name, run in runs.items()])
    compare(one, qrels, [*SMALL, "AP"], system="name")


# Types of columns, settings and grades.

WHOLE = ["TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT"]
TYPES = [*WHOLE, "UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL(9,2)", "DECIMAL(38,4)", "DOUBLE"]
NARROW = [("TINYINT", "TINYINT"), ("UTINYINT", "UTINYINT"), ("FLOAT", "FLOAT"),
          ("BOOLEAN", "TINYINT")]  # fmt: skip


def connect(end=3, rel="DOUBLE", pos="BIGINT", **settings):
    """A connection with the tables `ranked`, `run` and `qrels`."""
    con, table = metric_engines.connect(**settings), ranked(end)
    for name, rows in zip(("ranked", "run", "qrels"), (table, *joined(table)), strict=True):
        kinds = {"rel": rel, "pos": pos}
        casts = [f"CAST({c} AS {kinds[c]}) AS {c}" for c in kinds if c in rows.columns]
        con.register("rows", rows.to_arrow())
        con.execute(f"CREATE TABLE {name} AS SELECT * REPLACE ({', '.join(casts)}) FROM rows")
    con.unregister("rows")
    return con


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rel", "pos"),
    [*zip(TYPES, [*TYPES[1:], TYPES[0]], strict=True), *NARROW],
)
def test_no_sum_and_no_shift_overflows_for_any_type(rel, pos):
    end = 1 if rel == "BOOLEAN" or pos == "TINYINT" else 5
    con = connect(end, rel, pos)
    compare("ranked", None, ["nDCG@5", f"IDCG@{LAST[end]}", f"P@{LAST[end]}"], con=con)
    compare("run", "qrels", "RR@7", con=con)
    if "INT" not in rel and rel != "BOOLEAN":
        con.execute("UPDATE ranked SET rel = 0.5 WHERE rel = 1; UPDATE qrels SET rel = rel / 2")
        compare("ranked", None, SMALL, fast=False, con=con)
        compare("run", "qrels", SMALL, fast=False, con=con)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"integer_division": "true", "preserve_insertion_order": "false", "threads": 4},
        {"default_order": "desc", "default_null_order": "nulls_last"},
        {"default_null_order": "nulls_first", "memory_limit": "200MB"},
        {"disabled_optimizers": "statistics_propagation,filter_pushdown"},
        {"ieee_floating_point_ops": "false"},
    ],
    ids=str,
)
def test_settings_of_the_user_change_no_value(settings):
    """And stay as they are."""
    con = connect(3, "INTEGER", **settings)
    before = metric_engines.state(con)
    expected = evaluate(ranked(3), None, SMALL, packs=False)
    require_equal(compare("ranked", None, SMALL, con=con).per_query, expected.per_query)
    compare("run", "qrels", [*SMALL, "AP"], con=con)
    assert metric_engines.state(con) == before


def test_transaction_sees_its_own_rows():
    con = connect(3, "INTEGER")
    before = compare("ranked", None, "nDCG@10", con=con).per_query
    con.execute("BEGIN; INSERT INTO ranked (query, item, rel, pos) VALUES (-1, -1, 3, 2)")
    con.execute("UPDATE ranked SET rel = 0 WHERE query = 1 AND rel IS NOT NULL")
    con.execute("CREATE TABLE fresh AS FROM ranked")
    for name in ("ranked", "fresh"):
        values = compare(name, None, "nDCG@10", con=con).per_query
        assert values.height == before.height + 1
        assert values.row(0)[1] == pytest.approx(0.63, abs=0.001)
        assert values.filter(query=1)["nDCG@10"].item() is None


@pytest.mark.parametrize(
    ("rel", "pos", "shape"),
    cycled([0.5, 2.999, 6, 1e300, -1, -0.5, 0.5], [1, None], ["ranked", "ranked", "joined"]),
)
def test_one_other_grade_takes_macros(rel, pos, shape):
    one = [(7_000, rel, pos), (7_000, 1, 2), (7_000, 3, None)]
    data = SHAPES[shape](pl.concat([ranked(3), frame(one).with_columns(pl.col("item") + 10**6)]))
    metrics = ["nDCG@5", "AP@5", *([] if rel == 1e300 else ["ERR@5"])]
    values = compare(*data, metrics, fast=False).per_query.filter(query=7_000)
    rows = [(rel, pos) for _, rel, pos in one]
    assert metric_engines.same(values["nDCG@5"].item(), definitions.ndcg(rows, 5))
    assert metric_engines.same(values["AP@5"].item(), definitions.ap(rows, 5))


# Duplicates.


def of_one(*rows):
    """A ranking of these (rel, pos) beside another one."""
    return frame([(8, *row) for row in rows] + [(2, 1, 1)])


def require_refused(run, qrels, metrics, duplicate, **options):
    """Both refuse it and name the duplicate."""
    error = compare(run, qrels, metrics, **options)
    assert isinstance(error, str) and re.search(f"has duplicates: {duplicate}[. ]", error), error


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", ["first", "end of a word", "next word", "last"])
def test_repeated_positions_are_refused(end, place):
    """Alone, and where all others are full, so that sums carry far."""
    last, word = LAST[end], WORD[end]
    pos = {"first": 1, "end of a word": word, "next word": word + 1, "last": last}[place]
    others = [(end, other) for other in range(1, last + 3) if other != pos]
    for grades in ([1, 1], [1, end], [end] * 3, [end] * 9):
        twice = [(grade, pos) for grade in grades]
        require_refused(of_one(*twice), None, f"P@{last}", f"query 8, pos {pos}")
        run = of_one(*twice, *others)
        require_refused(run, None, [f"P@{pos}", "nDCG@1"], f"query 8, pos {pos}")
    require_refused(*joined(of_one(*twice)), [f"P@{pos}", "nDCG@1"], f"query 8, pos {pos}")


@pytest.mark.parametrize("pos", [2, 20, 21, LAST[3]])
def test_only_positions_beyond_all_cutoffs_may_repeat(pos):
    table = of_one((3, 1), (1, pos), (2, pos)).drop("item")
    for metrics in ([f"nDCG@{pos - 1}", "P@1"], ["nDCG@1", f"nDCG(base=3)@{pos - 1}"]):
        compare(table, None, metrics)
    refused = [["P@1", f"nDCG@{pos}"], ["nDCG@1", f"nDCG(base=3)@{pos}"], [f"nDCG@{pos - 1}", "AP"]]
    for metrics in refused:
        require_refused(table, None, metrics, f"query 8, pos {pos}")


def listed(columns):
    return ", ".join(f'{value} AS "{name}"' for name, value in columns.items())


@pytest.mark.parametrize("end", ENDS)
def test_sums_tell_which_sets_of_rows_are_no_rankings(end):
    """Of all sets of up to four rows."""
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
        repeats = dict(con.sql(f"SELECT query, {top.repeats_position()} FROM {source}").fetchall())
        for query, group in enumerate(groups):
            taken = [pos for rel, pos in group if pos <= 3 and (rel or (first and pos == 1))]
            assert repeats[query] == (len(taken) > len(set(taken))), group


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


@pytest.mark.parametrize("end", [3, 5])
def test_more_items_than_the_counts_hold_take_macros(end, tmp_path):
    """Within a transaction too, and in a file."""
    top, _ = packed_metrics.pack_metrics(end, names.parse("P@3"), vars(Conventions()))
    most = [(end - pos % 2, pos) for pos in range(1, top.limit)]
    compare(of_one(*most), None, ["nDCG@5", "AP@5"])
    more = of_one(*most, (1, top.limit))
    con = duckdb.connect()
    con.register("more", more.to_arrow())
    con.execute("BEGIN; CREATE TABLE uncommitted AS FROM more")
    for run, options in ((more, {}), ("uncommitted", {"con": con})):
        compare(run, None, ["nDCG@5", "AP@5"], fast=False, **options)
    path = tmp_path / "more.parquet"
    assert rankql.evaluate("uncommitted", None, "P@5", con=con, output=path)["P@5"] == 0.6
    assert con.execute("SELECT count(*) FROM uncommitted").fetchall() == [(more.height,)]


@pytest.mark.parametrize("k", [5, 20, LAST[1]])
@pytest.mark.parametrize("items", [2, 3_000_000])
def test_one_position_of_many_items_is_refused(items, k):
    """A sum may exceed what DOUBLE holds exactly, or 64 bits. The user's transaction goes on."""
    con = duckdb.connect()
    rows = f"SELECT 1 AS query, 2::TINYINT AS rel, 1::TINYINT AS pos FROM range({items})"
    con.execute(f"BEGIN; CREATE TABLE merged AS {rows}").fetchall()
    require_refused("merged", None, f"nDCG@{k}", "query 1, pos 1", con=con)
    assert con.execute("SELECT count(*) FROM merged").fetchall() == [(items,)]


@pytest.mark.parametrize(
    ("shape", "unjudged", "metrics"),
    cycled(
        [shape for shape in SHAPES if "without" not in shape] * 2,
        ["zero"] * 4 + ["remove"] * 4,
        ["nDCG@5", "AP", ["nDCG@5", "AP"]],
    ),
)
def test_repeated_items_are_refused(shape, unjudged, metrics):
    run, qrels = SHAPES[shape](of_one((1, 1), (0, 2), (3, 3)))
    for table in (run, qrels):
        if table is not None:
            twice = pl.concat([table, table.filter(item=2)])
            if "pos" in table.columns:
                twice = twice.with_columns(pos=pl.int_range(1, pl.len() + 1))
            both = (twice, qrels) if table is run else (run, twice)
            require_refused(*both, metrics, "query 8, item 2", unjudged=unjudged)


@pytest.mark.parametrize("shape", ["ranked", "ranked without items", "joined"])
@pytest.mark.parametrize("unjudged", ["zero", "remove"])
def test_positions_are_compared_before_unjudged_items_leave_theirs(shape, unjudged):
    data = SHAPES[shape](of_one((1, 2), (2, 2), (None, 1), (3, 3)))
    for metrics in ("nDCG@5", ["nDCG@5", "AP"]):
        require_refused(*data, metrics, "query 8, pos 2", unjudged=unjudged)


def test_rows_without_a_gain_may_share_a_position():
    """Packed sums count rows that gain; the macros refuse them."""
    table = of_one((1, 1), (0, 2), (None, 2), (3, 2), (0, 3), (0, 3), (2, 50), (3, 51), (2, 52))
    metrics = ["nDCG@5", "P@5", "AP@20"]
    assert packs(table, None, metrics)
    values = evaluate(table, None, metrics, packs=True).per_query
    assert values.filter(query=8)["P@5"].item() == 0.4
    assert "has duplicates: query 8" in evaluate(table, None, metrics, packs=False)


# Threads of polars.


def run_script(code, **env):
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked there")
@pytest.mark.parametrize(
    "metrics", [slow(["nDCG@3"]), ["nDCG@3", "P@1", "P@2", "AP@3", "ERR(max_rel=2)@2"]]
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
    assert run_script(code) == "0\n"


def test_values_are_one_chunk():
    """More chunks would open a second database for the means."""
    code = """
import polars as pl, rankql
rows = pl.DataFrame({"query": range(1000), "pos": [1] * 1000, "rel": [1] * 1000})
for metrics in (["nDCG@3"], ["nDCG@3", "P@1", "P@2", "AP@3"]):
    print(rankql.evaluate(rows, None, metrics).frame().n_chunks())
"""
    assert run_script(code, POLARS_MAX_THREADS="8") == "1\n1\n"
