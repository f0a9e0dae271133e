"""Beyond accuracy: catalogue and diversity, by hand, against the reference and other libraries."""

import math
import re
from collections import defaultdict

import duckdb
import polars as pl
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import entropy

import rankql
from rankql.core.expressions import in_duckdb
from support import calls, metric_engines, signatures
from support.hand_cases import ALL
from support.parameters import cycled, few

CASES = [case for case in ALL if case.metric in signatures.BEYOND]
NAMES = ["sql", "polars", "polars streaming", "sql whole table", "polars select"]
columns = metric_engines.names


def run(name, metric, groups, options, **types):
    return metric_engines.ENGINES[name].run(metric, groups, options, **types)


def agree(metric, groups, options, values, names=NAMES, **types):
    values = [None if value is None else float(value) for value in values]
    metric_engines.assert_agree(metric, groups, options, values, names, **types)


KINDS = [pl.Int8, pl.UInt16, pl.UInt64, pl.Float32, pl.Decimal(9, 2)]


@few(2)(("metric", "kind"), cycled([*signatures.BEYOND], KINDS))
def test_numbers_have_any_type(metric, kind):
    types = {n: kind for n in columns(metric) if metric_engines.BEYOND[n] in (pl.Float64, pl.Int64)}
    types = {n: k for n, k in types.items() if n not in metric_engines.NUMBERS}
    types |= {"embedding": pl.List(kind)} if metric == "cosine_diversity" else {}
    cases = [c for c in CASES if c.metric == metric and "." not in str(c.group).replace(".0", "")]
    together = defaultdict(list)
    for case in cases:
        whole = [
            tuple(int(x) if isinstance(x, float) and name != "embedding" else x
                  for name, x in zip(columns(metric), row, strict=True))
            for row in case.group
        ]  # fmt: skip
        if whole and not (kind in (pl.UInt16, pl.UInt64) and "-" in str(whole)):
            together[str(case.options)].append((case.options, whole, case.expected))
    for each in together.values():
        (options, *_), groups, values = zip(*each, strict=True)
        agree(metric, groups, options, values, ["sql", "polars"], **types)


def test_grades_of_shown_items_may_be_true_or_false():
    rows = pl.DataFrame({"rel": [True, False, None], "baseline": [False, False, True]})
    rows = rows.with_columns(pos=pl.int_range(1, 4))
    assert rows.select(rankql.serendipity()).item() == 1 / 3
    found = metric_engines.connection().sql("SELECT serendipity(rel, baseline, pos) FROM rows")
    assert found.fetchall() == [(1 / 3,)]


def test_columns_that_polars_checked_are_not_checked_again():
    """Their checks take most of the time of a macro to plan; the others are the macro's own."""
    queries = []
    with pytest.MonkeyPatch.context() as patch:
        create = in_duckdb.create_macros
        patch.setattr(
            in_duckdb, "create_macros", lambda *args: queries.append(create(*args)) or queries[-1]
        )
        rows = pl.DataFrame({"item": ["a", "a", "b"], "pos": [1, 2, 3], "user": 1})
        assert rows.pipe(rankql.duplicate_share).item(0, 1) == 1 / 3
        assert rows.pipe(rankql.catalogue_coverage, catalogue=4).item() == 1 / 2
    checked = [re.findall(r'"rankql (checked )?\w+"', query)[0] for query in queries]
    assert checked == ["", "checked "]


def test_vectors_and_lists_of_fixed_size():
    rows = [([1.0, 0.0], 1), (None, 2), ([0.0, 2.0], 3), ([2.0, 0.0], 4)]
    for metric, options, value in [
        ("cosine_diversity", {}, 2 / 3),
        ("near_duplicate_share", {"similarity": 0.9}, 1 / 4),
    ]:
        for inner in (pl.Float64, pl.Float32):
            kinds = {"embedding": pl.Array(inner, 2)}
            agree(metric, [rows], options, [value], ["sql", "polars"], **kinds)
    kinds = {"attributes": pl.Array(pl.String, 2), "subtopics": pl.Array(pl.String, 2)}
    texts = [(["a", "b"], 1), (None, 2), (["a", "c"], 3)]
    agree("jaccard_diversity", [texts], {}, [2 / 3], ["sql", "polars"], **kinds)
    agree("subtopic_recall", [texts], {"k": 1}, [2 / 3], ["sql", "polars"], **kinds)


def test_freshness_of_timestamps():
    """In days; a clock with a time zone is read in UTC."""
    con = metric_engines.connection()
    values = """(VALUES ('a', DATE '2024-05-01', TIMESTAMP '2024-05-03 12:00'),
        ('a', NULL, TIMESTAMP '2024-05-03'), ('b', DATE '2024-05-01', TIMESTAMP '2024-05-11'))
        AS t (query, created_at, shown_at)"""
    query = f"SELECT query, freshness(created_at, shown_at) FROM {values} GROUP BY ROLLUP (query)"
    assert {*con.execute(query).fetchall()} == {(None, 6.25), ("a", 2.5), ("b", 10)}
    table = con.sql(f"FROM {values}").pl()
    assert sorted(table.pipe(rankql.freshness, by="query").rows()) == [("a", 2.5), ("b", 10)]
    zoned = table.with_columns(pl.col("shown_at").dt.replace_time_zone("UTC"))
    assert zoned.select(rankql.freshness()).item() == 6.25
    query = "SELECT freshness(TIMESTAMPTZ '2024-05-01 02:00:00+02', TIMESTAMP '2024-05-02')"
    assert con.execute(query).fetchall() == [(1,)]


@few(2)(
    ("created_at", "message"),
    [
        ("1", "created_at and shown_at must be of one kind, timestamps or numbers, not"),
        ("DATE '-infinity'", "created_at must be a timestamp or a finite number, not -infinity"),
        ("TIMESTAMP 'infinity'", "created_at must be a timestamp or a finite number, not infinity"),
    ],
)
def test_times_are_finite_and_of_one_kind(created_at, message):
    con = metric_engines.connection()
    rows = f"(SELECT {created_at} AS created_at, TIMESTAMP '2024-05-02' AS shown_at)"
    with pytest.raises(duckdb.Error, match=message):
        con.execute(f"SELECT freshness(created_at, shown_at) FROM {rows}").fetchall()
    with pytest.raises(rankql.RankqlError, match=message):
        con.sql(f"FROM {rows}").pl().select(rankql.freshness())


@few(1)("n", [2, 3, 50])
def test_equal_vectors_are_at_no_distance(n):
    """Nothing below 0 is left of 1 - 1, be it by a hair."""
    rows = [([0.1, 0.7, 0.3], pos) for pos in range(1, n + 1)]
    for name in ("sql", "polars"):
        assert 0 <= run(name, "cosine_diversity", [rows], {})[0] < 1e-15


# Other libraries


def test_entropy_and_diversity_equal_scipy():
    items = [(item,) for item in "abracadabra"]
    agree("shannon_entropy", [items], {}, [entropy([5, 2, 2, 1, 1], base=2)])
    vectors = [[1.0, 2.0, 0.5], [0.0, 1.0, -1.0], [3.0, 0.0, 0.25], [1.0, 2.0, 0.5]]
    rows = [(vector, pos) for pos, vector in enumerate(vectors, 1)]
    agree("cosine_diversity", [rows], {}, [pdist(vectors, "cosine").mean()])
    sets = [[True, True, False, False], [True, False, True, False], [False, False, True, True]]
    rows = [([str(i) for i, x in enumerate(row) if x], pos) for pos, row in enumerate(sets, 1)]
    agree("jaccard_diversity", [rows], {}, [pdist(sets, "jaccard").mean()])


# Bad input


NAN = float("nan")
A, UNSEEN = [("a",)], "popularity must be a finite number from 0, not"
NORM, EMBEDDING = "norm must be 'n' or 'n-1', not", "embedding must hold finite numbers only"
ALPHA = "alpha must lie between 0 and 1, not"
ERRORS = [
    ("catalogue_coverage", A, {}, "catalogue must be given: the number of items that could"),
    *(("catalogue_coverage", A, {"catalogue": bad},
       f"catalogue must be a whole number from 1, not {bad}") for bad in (0, 1.5, "shown")),
    ("catalogue_coverage", [*A, ("b",)], {"catalogue": 1}, "1 is less than the 2 that were shown"),
    ("gini", A, {}, "catalogue must be given: the number of items that could be shown (or 'shown'"),
    ("gini", A, {"catalogue": "all"}, "catalogue must be a whole number from 1, not all"),
    ("gini", A, {"catalogue": 3, "norm": "n+1"}, f"{NORM} n+1"),
    # DuckDB does not look at what NULL is divided by.
    ("gini", [(None,)], {"catalogue": 3, "norm": "x"}, f"{NORM} x"),
    ("gini", [*A, ("b",)], {"catalogue": 1}, "1 is less than the 2 that were shown"),
    ("shannon_entropy", A, {"normalized": True}, "catalogue must be given"),
    ("shannon_entropy", A, {"normalized": "yes"}, "normalized must be true or false, not yes"),
    *(("average_popularity", [(bad,)], {}, f"{UNSEEN} {bad}") for bad in (-1.0, NAN)),
    ("average_popularity", [(1,)], {"unseen": "max"}, "unseen must be 'zero' or 'drop', not max"),
    ("novelty", [(1,)], {}, "users must be given: the number of users in the training data"),
    ("novelty", [(1,)], {"users": -2}, "users must be a whole number from 1, not -2"),
    ("novelty", [(9,)], {"users": 8}, "popularity must not exceed users: 9.0 is above 8"),
    ("novelty", [(0.02,)], {"users": 8},
     "popularity must be a number of users, 0 or from 1, not 0.02"),
    ("novelty", [(NAN,)], {"users": 8}, UNSEEN),
    ("novelty", [(1,)], {"users": 8, "unseen": "zero"},
     "unseen must be 'one_user', 'drop' or 'max', not zero"),
    ("freshness", [(3, 2)], {}, "created_at must not be after shown_at: 3.0 is after 2.0"),
    ("freshness", [(NAN, 2)], {}, "created_at must be a timestamp or a finite number, not"),
    ("exposure", [(0,)], {}, "pos must be a whole number from 1, not 0"),
    ("exposure", [(3,)], {"attention": [1, 0.5]},
     "attention must have a value for every position shown: there is none for 3"),
    ("exposure", [(1,)], {"attention": [-1]}, "attention must be a finite number from 0, not -1"),
    ("exposure", [(2,)], {"attention": [1, None]}, "attention must"),
    ("exposure", [(1,)], {"k": 0}, "k must be a whole number from 1"),
    ("exposure_disparity", [(-1, 1)], {}, "exposure must be a finite number from 0, not -1"),
    ("exposure_disparity", [(1, NAN)], {}, "merit must be a finite number from 0, not"),
    ("category_diversity", [("a", 1)], {"missing": "skip"},
     "missing must be 'drop', 'different' or 'same', not skip"),
    ("category_diversity", [("a", 0)], {}, "pos must be a whole number from 1, not 0"),
    ("jaccard_diversity", [(["a"], 1)], {"k": 1.5}, "k must be a whole number from 1"),
    *(("cosine_diversity", [(x, 1)], {}, "embedding must not be all zeros") for x in ([0.0], [])),
    ("cosine_diversity", [([1.0, NAN], 1)], {}, EMBEDDING),
    ("cosine_diversity", [([1.0, None], 9)], {"k": 1}, EMBEDDING),
    ("cosine_diversity", [([1.0], 1), ([1.0, 2.0], 2)], {},
     "embedding must have one length in a ranking, not 1 and 2"),
    ("near_duplicate_share", [([1.0], 1)], {}, "similarity must be given: the cosine from which"),
    ("near_duplicate_share", [([1.0], 1)], {"similarity": 95},
     "similarity must lie between -1 and 1, not 95"),
    ("serendipity", [(NAN, True, 1)], {}, "rel must be a finite number"),
    ("serendipity", [(1, True, 1)], {"threshold": NAN}, "threshold must be a finite number"),
    ("alpha_dcg", [(["a"], 1)], {"alpha": 1.5}, f"{ALPHA} 1.5"),
    ("alpha_ndcg", [(["a"], 1)], {"alpha": -0.5}, f"{ALPHA} -0.5"),
    ("err_ia", [(["a"], 1)], {"alpha": NAN}, ALPHA),
]  # fmt: skip


@few(9)(("metric", "rows", "options", "message"), ERRORS)
def test_input_is_refused(metric, rows, options, message):
    for name in ("sql", "polars", "polars streaming"):
        complaint = metric_engines.complaint(lambda n=name: run(n, metric, [rows], options))
        assert message in complaint and "Error: " not in complaint, name


TEXT = "must be a number, not text"
WRONG_TYPES = [
    ("jaccard_diversity", "attributes", pl.String, "must be a list, not"),
    ("alpha_ndcg", "subtopics", pl.String, "must be a list, not"),
    ("cosine_diversity", "embedding", pl.Int64, "must be a list of numbers, not"),
    ("cosine_diversity", "embedding", pl.List(pl.String), "must be a list of numbers, not"),
    ("near_duplicate_share", "embedding", pl.Array(pl.List(pl.Float64), 1), "must be a list"),
    ("unexpectedness", "baseline", pl.Int64, "must be true or false, not"),
    ("novelty", "popularity", pl.String, TEXT),
    ("freshness", "created_at", pl.String, "must be a timestamp or a number, not text"),
    ("freshness", "shown_at", pl.Boolean, "must be a timestamp or a number, not [Bb]"),
    ("exposure_disparity", "merit", pl.String, TEXT),
    ("category_diversity", "pos", pl.String, TEXT),
]


@few(5)(("metric", "name", "kind", "message"), WRONG_TYPES)
def test_columns_of_the_wrong_type_are_refused(metric, name, kind, message):
    value = None if isinstance(kind, pl.List | pl.Array) else 1
    others = {"pos": 1, "item": "a"}
    table = pl.DataFrame(
        {column: [others.get(column)] for column in columns(metric)},
        {column: metric_engines.BEYOND[column] for column in columns(metric)},
    ).with_columns(pl.lit(value).cast(kind).alias(name))
    options = {"novelty": {"users": 8}, "near_duplicate_share": {"similarity": 0.9}}.get(metric, {})
    call = metric_engines.call(metric, columns(metric), options)
    calls.assert_both_refuse(call, table, f"(?s){name} {message}")


@few(1)(
    ("settings", "collation"),
    [({"default_collation": "NOCASE"}, ""), ({}, "COLLATE NOCASE"), ({}, "COLLATE NOACCENT")],
)
def test_items_are_compared_byte_by_byte(settings, collation):
    con = metric_engines.connect(**settings)
    con.execute(f"CREATE TABLE collated (item VARCHAR {collation}, n INT)")
    con.execute("INSERT INTO collated VALUES ('e', 1), ('é', 2), ('E', 3), ('b', 4)")
    ids = "list(item ORDER BY n)"
    result = con.execute(f"""
        SELECT jaccard_diversity([item], n), alpha_dcg([item], n, 3), alpha_ndcg([item], n),
               err_ia([item], n, 1), len(team_draft({ids}, {ids}, seed := 1, prefix := true)),
               team_draft_credit([{{'item': 'e', 'team': 'A'}}], {ids}[2:]),
               catalogue_coverage(item, 8)
        FROM collated""").fetchall()
    dcg = 1 + 1 / math.log2(3) + 0.5
    assert result[0] == pytest.approx((1, dcg, 1, 1 / 8, 4, 0, 1 / 2), abs=1e-12)


def test_alpha_ndcg_of_the_ideal_order_is_exactly_1():
    """Subtopics in many orders: the sums are taken in another order than those of the ideal."""
    topics = list("abcdef")
    rankings = [[(topics[i:] + topics[:i], 1), (topics[:i], 2)] for i in range(1, 6)]
    for name in ("sql", "polars"):
        for alpha in (0.1, 0.3, 0.5):
            values = run(name, "alpha_ndcg", rankings, {"alpha": alpha})
            assert values == [1.0] * len(rankings), name
