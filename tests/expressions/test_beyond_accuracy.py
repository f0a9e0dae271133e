"""Beyond accuracy: catalogue and diversity, by hand, against the reference and other libraries."""

import math
from itertools import combinations, permutations

import duckdb
import polars as pl
import pyndeval
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankql
from support import definitions, metric_engines, signatures
from support.hand_cases import ALL
from support.parameters import cycled, slow_except

TYPES, columns = metric_engines.BEYOND, metric_engines.names
CASES = [case for case in ALL if case.metric in signatures.BEYOND]


def frame(metric, groups, **types):
    """All rows, with the number of the group in `g`."""
    names = columns(metric)
    rows = [(g, *row) for g, group in enumerate(groups) for row in group]
    schema = {"g": pl.Int64, **{name: {**TYPES, **types}[name] for name in names}}
    return pl.DataFrame(rows, schema=schema, orient="row")


def over(group, values, table, con=None):
    con = con or metric_engines.connection()
    con.register("beyond", table)
    try:
        return con.execute(f"SELECT {values} FROM beyond {group}").fetchall()
    finally:
        con.unregister("beyond")


def sql(metric, table, options, con=None):
    value = metric_engines.call(metric, columns(metric), options)
    return over("GROUP BY g", f"g, {value}", table, con)


def sql_whole(metric, table, options):
    value = metric_engines.call(metric, columns(metric), options)
    return [(g, over(f"WHERE g = {g}", value, table)[0][0]) for g in table["g"].unique()]


def of(metric, options):
    return getattr(rankql, metric)(*columns(metric), **options)


ENGINES = {
    "sql": sql,
    "sql whole table": sql_whole,
    "polars": lambda m, t, o: t.group_by("g").agg(of(m, o)).rows(),
    "polars lazy": lambda m, t, o: t.lazy().group_by("g").agg(of(m, o)).collect().rows(),
    "polars streaming": lambda m, t, o: (
        t.lazy().group_by("g").agg(of(m, o)).collect(engine="streaming").rows()
    ),
    "polars select": lambda m, t, o: [
        (g, t.filter(g=g).select(of(m, o)).item()) for g in t["g"].unique()
    ],
    "pipe": lambda m, t, o: t.pipe(getattr(rankql, m), *columns(m), by="g", **o).rows(),
}


def run(name, metric, groups, options, **types):
    """One value per group, None where NULL; groups without rows are asked for by themselves."""
    table = frame(metric, groups, **types).sample(fraction=1, shuffle=True, seed=3)
    found = dict(ENGINES[name](metric, table, options))
    if [] in groups:
        value = metric_engines.call(metric, columns(metric), options)
        ((nothing,),) = over("", value, table.clear())
        nothing = nothing if "sql" in name else table.clear().select(of(metric, options)).item()
        found |= {g: nothing for g, group in enumerate(groups) if not group}
    return [found[g] for g in range(len(groups))]


def agree(metric, groups, options, values, names=tuple(ENGINES), **types):
    for name in names:
        found = run(name, metric, groups, options, **types)
        wrong = [row for row in zip(groups, found, values, strict=True) if not same(*row[1:])]
        assert not wrong, f"{metric} {options} {name}: {wrong[0]}"


def same(value, expected):
    """Equal to 1e-12, NULL where NULL, and a float."""
    return metric_engines.same(value, None if expected is None else float(expected))


# By hand; that every engine gives their values is test_matrix.py


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.metric}-{case.where.split()[0]}")
def test_reference(case):
    found = getattr(definitions, case.metric)(case.group, **case.options)
    assert same(None if found is None else float(found), case.expected)


def test_every_metric_and_option_has_cases():
    for metric, parameters in signatures.BEYOND.items():
        cases = [case for case in CASES if case.metric == metric]
        assert len(cases) >= 3, metric
        options = {name for name, default in parameters.items() if default is not signatures.NEEDED}
        assert options <= {name for case in cases for name in case.options}, metric


# Drawn at random, against the reference


ITEM = st.sampled_from([None, "a", "a", "b", "c", "d", "A", "é", ""])
AMOUNT = st.sampled_from([None, 0, 0.25, 1, 1, 2, 3.5])
PLACE = st.none() | st.integers(1, 12)
TOPICS = st.none() | st.lists(st.sampled_from(["1", "2", "3", "4", "10", "x", "X"]), max_size=3)
DIMENSION = 3
VECTOR = st.none() | st.lists(
    st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0]), min_size=DIMENSION, max_size=DIMENSION
).filter(any)
DRAWN = {
    "item": ITEM,
    "user": st.sampled_from([None, 1, 2, 3]),
    "popularity": st.sampled_from([None, 0, 1, 2, 5, 5, 8]),
    "created_at": st.sampled_from([None, 0, 1.5, 3]),
    "shown_at": st.sampled_from([None, 3, 4.5, 100]),
    "exposure": AMOUNT,
    "merit": AMOUNT,
    "target": AMOUNT,
    "category": ITEM,
    "attribute": ITEM,
    "attributes": TOPICS,
    "embedding": VECTOR,
    "baseline": st.sampled_from([None, False, True]),
    "rel": st.sampled_from([None, -1, 0, 1, 1, 2]),
    "subtopics": TOPICS,
    "pos": PLACE,
}
CHOICES = {
    "catalogue": st.sampled_from([8, 9, 100]),
    "users": st.sampled_from([8, 9, 100]),
    "norm": st.sampled_from(["n", "n-1"]),
    "normalized": st.booleans(),
    "k": st.sampled_from([None, 1, 2, 3, 5, 100]),
    "attention": st.sampled_from([None, [1 / n for n in range(1, 13)]]),
    "missing": st.sampled_from(["drop", "different", "same"]),
    "similarity": st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    "threshold": st.sampled_from([1, 2]),
    "alpha": st.sampled_from([0, 0.3, 0.5, 1]),
}
NEEDED = {"catalogue", "users", "similarity"}


@st.composite
def asked(draw, metric):
    """Groups of rows, in diversity each item at a place of its own; and options."""
    parameters = signatures.BEYOND[metric]
    names = columns(metric)
    places = "pos" in names and metric in signatures.DIVERSITY
    distinct = (lambda row: row[-1] if row[-1] is not None else object()) if places else None
    row = st.tuples(*(DRAWN[name] for name in names))
    groups = draw(st.lists(st.lists(row, max_size=8, unique_by=distinct), min_size=1, max_size=8))
    given_options = {}
    for name, default in parameters.items():
        if default is not signatures.NEEDED and (name in NEEDED or draw(st.booleans())):
            of_metric = {
                "novelty": ["one_user", "drop", "max"],
                "average_popularity": ["zero", "drop"],
            }
            choice = st.sampled_from(of_metric[metric]) if name == "unseen" else CHOICES[name]
            given_options[name] = draw(choice)
    if metric == "shannon_entropy":
        given_options.setdefault("catalogue", "shown")
    return groups, given_options


def expected(metric, groups, options):
    return [getattr(definitions, metric)(group, **options) for group in groups]


@pytest.mark.parametrize("metric", signatures.BEYOND)
@given(data=st.data())
def test_properties(metric, data):
    """NULLs, ties, gaps, any k, empty groups: SQL and polars equal the definition to 1e-12."""
    groups, options = data.draw(asked(metric))
    names = ["sql", "polars", "polars streaming"]
    agree(metric, groups, options, expected(metric, groups, options), names)


SETTINGS = [
    {"default_null_order": "nulls_first", "default_order": "desc"},
    {"default_null_order": "nulls_last_on_asc_first_on_desc", "integer_division": True},
    {"ieee_floating_point_ops": False, "preserve_insertion_order": False, "threads": 1},
    {"default_collation": "NOCASE"},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@given(data=st.data())
def test_settings(setting, data):
    """The user's settings of DuckDB change nothing; each example asks another metric."""
    metric = data.draw(st.sampled_from(list(signatures.BEYOND)))
    groups, options = data.draw(asked(metric))
    groups = [group for group in groups if group]
    found = dict(sql(metric, frame(metric, groups), options, metric_engines.connection(**setting)))
    values = expected(metric, groups, options)
    assert all(same(found[g], value) for g, value in enumerate(values)), (metric, groups, options)


KINDS = [pl.Int8, pl.UInt16, pl.UInt64, pl.Float32, pl.Decimal(9, 2)]


@pytest.mark.parametrize(("metric", "kind"), cycled([*signatures.BEYOND], KINDS))
def test_types(metric, kind):
    """Numbers in columns of any type."""
    types = {n: kind for n in columns(metric) if TYPES[n] in (pl.Float64, pl.Int64)}
    types |= {"embedding": pl.List(kind)} if metric == "cosine_diversity" else {}
    cases = [c for c in CASES if c.metric == metric and "." not in str(c.group).replace(".0", "")]
    for case in cases:
        whole = [
            tuple(int(x) if isinstance(x, float) and name != "embedding" else x
                  for name, x in zip(columns(metric), row, strict=True))
            for row in case.group
        ]  # fmt: skip
        if kind in (pl.UInt16, pl.UInt64) and "-" in str(whole):
            continue
        agree(metric, [whole], case.options, [case.expected], ["sql", "polars"], **types)


def test_arrays():
    """Vectors and lists of a fixed size, of which one is NULL."""
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
    """Dates and timestamps are in days; a clock with a time zone is read in UTC."""
    con = metric_engines.connection()
    values = """(VALUES ('a', DATE '2024-05-01', TIMESTAMP '2024-05-03 12:00'),
        ('a', NULL, TIMESTAMP '2024-05-03'), ('b', DATE '2024-05-01', TIMESTAMP '2024-05-11'))
        AS t (query, created_at, shown_at)"""
    query = f"SELECT query, freshness(created_at, shown_at) FROM {values} GROUP BY ROLLUP (query)"
    assert {*con.sql(query).fetchall()} == {(None, 6.25), ("a", 2.5), ("b", 10)}
    table = con.sql(f"FROM {values}").pl()
    assert sorted(table.pipe(rankql.freshness, by="query").rows()) == [("a", 2.5), ("b", 10)]
    zoned = table.with_columns(pl.col("shown_at").dt.replace_time_zone("UTC"))
    assert zoned.select(rankql.freshness()).item() == 6.25
    query = "SELECT freshness(TIMESTAMPTZ '2024-05-01 02:00:00+02', TIMESTAMP '2024-05-02')"
    assert con.sql(query).fetchall() == [(1,)]
    message = "created_at and shown_at must be of one kind, timestamps or numbers, not"
    with pytest.raises(Exception, match=message):
        con.sql("SELECT freshness(1, DATE '2024-05-01')").fetchall()
    with pytest.raises(Exception, match=message):
        table.select(rankql.freshness(pl.lit(1), "shown_at"))
    for time in ("DATE '-infinity'", "TIMESTAMP 'infinity'"):
        sql = f"SELECT {time} AS created_at, TIMESTAMP '2024-05-02' AS shown_at"
        message = "created_at must be a timestamp or a finite number, not -?infinity"
        with pytest.raises(duckdb.Error, match=message):
            con.sql(f"SELECT freshness(created_at, shown_at) FROM ({sql})").fetchall()
        with pytest.raises(rankql.RankqlError, match=message):
            con.sql(sql).pl().select(rankql.freshness())


@pytest.mark.parametrize("n", [2, 3, 50])
def test_equal_vectors_are_at_no_distance(n):
    """Nothing below 0 is left of 1 - 1, be it by a hair."""
    rows = [([0.1, 0.7, 0.3], pos) for pos in range(1, n + 1)]
    for name in ("sql", "polars"):
        assert 0 <= run(name, "cosine_diversity", [rows], {})[0] < 1e-15


# What must hold of any correct implementation, whatever the reference says

BOTH = ["sql", "polars"]
SHOWN = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("abcde")), min_size=1, max_size=20)
# With what they look at in rows (user, item), and the options.
CATALOGUE = {
    "catalogue_coverage": ("item", {"catalogue": 6}),
    "gini": ("item", {"catalogue": 6}),
    "shannon_entropy": ("item", {}),
    "average_popularity": ("popularity", {}),
    "novelty": ("popularity", {"users": 10}),
}


def seen_as(kind, rows):
    return [(item,) if kind == "item" else (ord(item) - 96,) for _, item in rows]


@pytest.mark.parametrize("name", BOTH)
@given(rows=SHOWN)
def test_users_by_other_names(name, rows):
    """Users renamed, whichever way: nothing changes."""
    renamed = [({1: 3, 2: 4, 3: 1, 4: 2}[user], item) for user, item in rows]
    one, other = run(name, "personalisation", [rows, renamed], {})
    assert metric_engines.same(one, other)


@pytest.mark.parametrize("name", BOTH)
@given(rows=SHOWN)
def test_every_user_doubled(name, rows):
    """Each user twice: the shares of the catalogue stay, users grow more alike."""
    doubled = rows + [(user + 10, item) for user, item in rows]
    for metric, (kind, options) in CATALOGUE.items():
        one, two = run(name, metric, [seen_as(kind, rows), seen_as(kind, doubled)], options)
        assert metric_engines.same(one, two), metric
    one, two = run(name, "personalisation", [rows, doubled], {})
    assert two <= (1 if one is None else one) + 1e-12


@pytest.mark.parametrize("name", BOTH)
@given(rows=SHOWN)
def test_what_is_never_shown(name, rows):
    """Items that are never shown raise Gini, lower coverage and evenness, and leave entropy."""
    items = seen_as("item", rows)

    def values(metric, **options):
        return [run(name, metric, [items], {"catalogue": n, **options})[0] for n in (5, 6, 60)]

    for norm in ("n", "n-1"):
        # Where one item has all, Gini with n - 1 is 1 already.
        few, some, many = values("gini", norm=norm)
        assert few < some < many <= 1 or (few == some == many == 1 and norm == "n-1")
    few, some, many = values("catalogue_coverage")
    assert few > some > many > 0
    few, some, many = values("shannon_entropy", normalized=True)
    assert few > some > many or few == some == many == 0
    assert len(set(values("shannon_entropy"))) == 1


@pytest.mark.parametrize(
    "metric", slow_except(signatures.DIVERSITY, "alpha_ndcg", "jaccard_diversity")
)
@given(data=st.data())
def test_k_beyond_the_list(metric, data):
    """A k beyond the list is the whole list: nothing is divided by k."""
    groups, options = data.draw(asked(metric))
    whole, beyond = ({**options, "k": k} for k in (None, 1000))
    for name in BOTH:
        one, other = run(name, metric, groups, whole), run(name, metric, groups, beyond)
        assert all(map(metric_engines.same, one, other)), name


def test_slices_are_no_means():
    """Each user is shown one item alone, all of them another: no mean over users tells."""
    items = [(item,) for item in "abcd"]
    for name in BOTH:
        for metric, mean, together in [("catalogue_coverage", 0.25, 1.0), ("gini", 0.75, 0.0)]:
            each = run(name, metric, [[item] for item in items], {"catalogue": 4})
            assert sum(each) / 4 == mean
            assert run(name, metric, [items], {"catalogue": 4}) == [together]


@given(lists=st.lists(st.sets(st.sampled_from("abcdef"), min_size=3, max_size=3), min_size=2))
def test_personalisation_is_the_mean_over_pairs(lists):
    """With lists of one length L: the mean of Zhou's distance 1 - common / L over all pairs."""
    rows = [(user, item) for user, items in enumerate(lists) for item in items]
    pairs = [1 - len(a & b) / 3 for a, b in combinations(lists, 2)]
    for name in BOTH:
        assert metric_engines.same(
            run(name, "personalisation", [rows], {})[0], sum(pairs) / len(pairs)
        )


# Other libraries


def ndeval(topics, ranking, alpha=0.5, k=20):
    """What pyndeval makes of a ranking of documents."""
    judged = [("q", topic, doc, 1) for doc, found in topics.items() for topic in found]
    run = [("q", doc, -float(i)) for i, doc in enumerate(ranking)]
    names = [f"{name}@{k}" for name in ("alpha-nDCG", "alpha-DCG", "ERR-IA", "strec")]
    found = pyndeval.ndeval(judged, run, measures=names, alpha=alpha)["q"]
    return [found[name] for name in names]


JUDGED = st.lists(st.sets(st.sampled_from("1234"), min_size=1), min_size=1, max_size=4)


@pytest.mark.parametrize("name", BOTH)
@given(
    sets=JUDGED,
    order=st.randoms(),
    alpha=st.sampled_from([0.5, 0.3, 0.75]),
    k=st.sampled_from([2, 3, 20]),
)
def test_pyndeval(name, sets, order, alpha, k):
    """It divides alpha-DCG and ERR-IA by what a ranking of items with all subtopics would have."""
    docs = [f"d{i}" for i in range(len(sets))]
    ranking = order.sample(docs, order.randint(1, len(docs)))
    rows = [
        (sorted(topics), ranking.index(doc) + 1 if doc in ranking else None)
        for doc, topics in zip(docs, sets, strict=True)
    ]
    subtopics = len(set().union(*sets))
    _, dcg, err, recall = ndeval(dict(zip(docs, sets, strict=True)), ranking, alpha, k)

    def most(discount):
        return subtopics * sum((1 - alpha) ** (r - 1) / discount(r) for r in range(1, k + 1))

    def ours(metric, **options):
        return run(name, metric, [rows], {"k": k, **options})[0]

    def close(value, theirs):  # they print six digits less than we have
        return math.isclose(value, theirs, rel_tol=1e-9, abs_tol=1e-9)

    assert close(ours("subtopic_recall"), recall)
    assert close(ours("alpha_dcg", alpha=alpha), dcg * most(lambda r: math.log2(r + 1)))
    assert close(ours("err_ia", alpha=alpha), err * most(lambda r: r) * alpha / subtopics)
    # Their ideal breaks ties by name: ours is that of one of the ways to name the documents.
    theirs = {
        ndeval(
            dict(zip(names, sets, strict=True)),
            [names[docs.index(doc)] for doc in ranking],
            alpha,
            k,
        )[0]
        for names in permutations(docs)
    }
    value = ours("alpha_ndcg", alpha=alpha)
    assert any(close(value, other) for other in theirs)


def test_pyndeval_depends_on_names():
    """The same ranking of the same documents, named otherwise, scores 1.0 or 1.02; ours is 1."""
    sets = [["1", "2"], ["3", "4"], ["2", "3"]]
    theirs = {
        round(ndeval(dict(zip(names, sets, strict=True)), names)[0], 2)
        for names in permutations("abc")
    }
    assert theirs == {1.0, 1.02}
    ranked = list(zip(sets, [1, 2, 3], strict=True))
    for name in BOTH:
        values = [run(name, "alpha_ndcg", [list(order)], {})[0] for order in permutations(ranked)]
        assert all(metric_engines.same(value, 1.0) for value in values)


def test_scipy_and_sklearn():
    """Entropy, and the mean distance over pairs, from elsewhere; DuckDB has an entropy too."""
    from scipy.spatial.distance import pdist
    from scipy.stats import entropy

    items = [(item,) for item in "abracadabra"]
    value = entropy([5, 2, 2, 1, 1], base=2)
    agree("shannon_entropy", [items], {}, [value])
    assert math.isclose(over("", "entropy(item)", frame("gini", [items]))[0][0], value)
    vectors = [[1.0, 2.0, 0.5], [0.0, 1.0, -1.0], [3.0, 0.0, 0.25], [1.0, 2.0, 0.5]]
    rows = [(vector, pos) for pos, vector in enumerate(vectors, 1)]
    agree("cosine_diversity", [rows], {}, [pdist(vectors, "cosine").mean()])
    sets = [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1]]
    rows = [([str(i) for i, x in enumerate(row) if x], pos) for pos, row in enumerate(sets, 1)]
    agree(
        "jaccard_diversity", [rows], {}, [pdist([[*map(bool, r)] for r in sets], "jaccard").mean()]
    )


def test_recbole_and_rectools():
    """Their formulas, written out: Gini over all items, and novelty as mean log2 of users / n."""
    counts, items = [1, 2, 2, 3], 7
    rows = [(chr(97 + i),) for i, n in enumerate(counts) for _ in range(n)]
    first = items - len(counts) + 1
    sums = sum((2 * i - items - 1) * n for i, n in enumerate(sorted(counts), first))
    agree("gini", [rows], {"catalogue": items}, [sums / sum(counts) / items])
    seen = [8, 3, None]
    novelty = sum(math.log2(10 / (n or 1)) for n in seen) / len(seen)
    agree("novelty", [[(n,) for n in seen]], {"users": 10}, [novelty])


# Where nDCG misleads


def test_duplicates_score_one():
    """The best product five times over: nDCG 1.0, diversity 0, four fifths of it duplicates."""
    rows = [(3, pos, "red shoe", "shoes", [1.0, 0.0]) for pos in range(1, 6)]
    shown = pl.DataFrame(rows, ["rel", "pos", "title", "category", "photo"], orient="row")
    calls = [
        ("ndcg", ["rel", "pos"], {}, 1.0),
        ("category_diversity", ["category", "pos"], {}, 0.0),
        ("cosine_diversity", ["photo", "pos"], {}, 0.0),
        ("duplicate_share", ["title", "pos"], {}, 0.8),
        ("near_duplicate_share", ["photo", "pos"], {"similarity": 0.95}, 0.8),
    ]
    for metric, names, options, value in calls:
        assert metric_engines.same(
            shown.select(getattr(rankql, metric)(*names, **options)).item(), value
        )
        call = metric_engines.call(metric, names, options)
        assert metric_engines.same(over("", call, shown)[0][0], value)


def test_the_varied_list_is_preferred():
    """Three meanings of a query, equally likely: the list with the lower nDCG serves all users."""
    same_again = [
        (3, 1, ["car"]),
        (3, 2, ["car"]),
        (3, 3, ["car"]),
        (2, None, ["cat"]),
        (2, None, ["os"]),
    ]
    varied = [
        (3, 1, ["car"]),
        (2, 2, ["cat"]),
        (2, 3, ["os"]),
        (3, None, ["car"]),
        (3, None, ["car"]),
    ]
    found = {}
    for name, rows in {"same": same_again, "varied": varied}.items():
        shown = pl.DataFrame(rows, ["rel", "pos", "subtopics"], orient="row")
        calls = ["ndcg(rel, pos, 3)", "subtopic_recall(subtopics, pos, 3)",
                 "alpha_ndcg(subtopics, pos, 3)", "err_ia(subtopics, pos, 3)"]  # fmt: skip
        (found[name],) = over("", ", ".join(calls), shown)
        polars = shown.select(
            rankql.ndcg("rel", "pos", 3),
            rankql.subtopic_recall("subtopics", "pos", 3),
            rankql.alpha_ndcg("subtopics", "pos", 3),
            rankql.err_ia("subtopics", "pos", 3),
        ).row(0)
        assert all(map(metric_engines.same, found[name], polars))
    (same_ndcg, same_served, *same_rest), (ndcg, served, *rest) = found.values()
    assert same_ndcg == 1.0 and 0.75 < ndcg < 0.85
    # Of users of each meaning, those who find theirs among the first three: a third, and all.
    assert math.isclose(same_served, 1 / 3) and served == 1.0
    assert all(low < high for low, high in zip(same_rest, rest, strict=True))


# Bad input


NAN = float("nan")
ERRORS = [
    ("catalogue_coverage", [("a",)], {}, "catalogue must be given: the number of items that could"),
    (
        "catalogue_coverage",
        [("a",)],
        {"catalogue": 0},
        "catalogue must be a whole number from 1, not 0",
    ),
    (
        "catalogue_coverage",
        [("a",)],
        {"catalogue": 1.5},
        "catalogue must be a whole number from 1, not 1.5",
    ),
    (
        "catalogue_coverage",
        [("a",)],
        {"catalogue": "shown"},
        "catalogue must be a whole number from 1",
    ),
    (
        "catalogue_coverage",
        [("a",), ("b",)],
        {"catalogue": 1},
        "1 is less than the 2 that were shown",
    ),
    (
        "gini",
        [("a",)],
        {},
        "catalogue must be given: the number of items that could be shown (or 'shown'",
    ),
    ("gini", [("a",)], {"catalogue": "all"}, "catalogue must be a whole number from 1, not all"),
    ("gini", [("a",)], {"catalogue": 3, "norm": "n+1"}, "norm must be 'n' or 'n-1', not n+1"),
    ("gini", [("a",), ("b",)], {"catalogue": 1}, "1 is less than the 2 that were shown"),
    ("shannon_entropy", [("a",)], {"normalized": True}, "catalogue must be given"),
    (
        "shannon_entropy",
        [("a",)],
        {"normalized": "yes"},
        "normalized must be true or false, not yes",
    ),
    ("average_popularity", [(-1,)], {}, "popularity must be a finite number from 0, not -1"),
    ("average_popularity", [(NAN,)], {}, "popularity must be a finite number from 0, not"),
    ("average_popularity", [(1,)], {"unseen": "max"}, "unseen must be 'zero' or 'drop', not max"),
    ("novelty", [(1,)], {}, "users must be given: the number of users in the training data"),
    ("novelty", [(1,)], {"users": -2}, "users must be a whole number from 1, not -2"),
    ("novelty", [(9,)], {"users": 8}, "popularity must not exceed users: 9.0 is above 8"),
    (
        "novelty",
        [(0.02,)],
        {"users": 8},
        "popularity must be a number of users, 0 or from 1, not 0.02",
    ),
    ("novelty", [(NAN,)], {"users": 8}, "popularity must be a finite number from 0, not"),
    (
        "novelty",
        [(1,)],
        {"users": 8, "unseen": "zero"},
        "unseen must be 'one_user', 'drop' or 'max', not zero",
    ),
    ("freshness", [(3, 2)], {}, "created_at must not be after shown_at: 3.0 is after 2.0"),
    ("freshness", [(NAN, 2)], {}, "created_at must be a timestamp or a finite number, not"),
    ("exposure", [(0,)], {}, "pos must be a whole number from 1, not 0"),
    (
        "exposure",
        [(3,)],
        {"attention": [1, 0.5]},
        "attention must have a value for every position shown: there is none for 3",
    ),
    ("exposure", [(1,)], {"attention": [-1]}, "attention must be a finite number from 0, not -1"),
    ("exposure", [(1,)], {"k": 0}, "k must be a whole number from 1"),
    ("exposure_disparity", [(-1, 1)], {}, "exposure must be a finite number from 0, not -1"),
    ("exposure_disparity", [(1, NAN)], {}, "merit must be a finite number from 0, not"),
    ("expected_exposure_loss", [(1, NAN)], {}, "target must be a finite number from 0, not"),
    (
        "category_diversity",
        [("a", 1)],
        {"missing": "skip"},
        "missing must be 'drop', 'different' or 'same', not skip",
    ),
    ("category_diversity", [("a", 0)], {}, "pos must be a whole number from 1, not 0"),
    ("jaccard_diversity", [(["a"], 1)], {"k": 1.5}, "k must be a whole number from 1"),
    ("cosine_diversity", [([0.0, 0.0], 1)], {}, "embedding must not be all zeros"),
    ("cosine_diversity", [([], 1)], {}, "embedding must not be all zeros"),
    ("cosine_diversity", [([1.0, NAN], 1)], {}, "embedding must hold finite numbers only"),
    ("cosine_diversity", [([1.0, None], 9)], {"k": 1}, "embedding must hold finite numbers only"),
    (
        "cosine_diversity",
        [([1.0], 1), ([1.0, 2.0], 2)],
        {},
        "embedding must have one length in a ranking, not 1 and 2",
    ),
    ("near_duplicate_share", [([1.0], 1)], {}, "similarity must be given: the cosine from which"),
    (
        "near_duplicate_share",
        [([1.0], 1)],
        {"similarity": 95},
        "similarity must lie between -1 and 1, not 95",
    ),
    ("serendipity", [(NAN, True, 1)], {}, "rel must be a finite number"),
    ("serendipity", [(1, True, 1)], {"threshold": NAN}, "threshold must be a finite number"),
    ("alpha_dcg", [(["a"], 1)], {"alpha": 1.5}, "alpha must lie between 0 and 1, not 1.5"),
    ("alpha_ndcg", [(["a"], 1)], {"alpha": -0.5}, "alpha must lie between 0 and 1, not -0.5"),
    ("err_ia", [(["a"], 1)], {"alpha": NAN}, "alpha must lie between 0 and 1, not nan"),
    # DuckDB does not look at what NULL is divided by.
    ("gini", [(None,)], {"catalogue": 3, "norm": "x"}, "norm must be 'n' or 'n-1', not x"),
]


@pytest.mark.parametrize("name", ["sql", "polars", "polars streaming"])
@pytest.mark.parametrize(("metric", "rows", "options", "message"), ERRORS)
def test_error(metric, rows, options, message, name):
    with pytest.raises(Exception) as info:
        run(name, metric, [rows], options)
    assert message in str(info.value)
    if name == "sql":
        assert "Conversion Error" in str(info.value)
    else:
        assert "RankqlError" in str(type(info.value)) + str(info.value)


WRONG_TYPES = [
    ("jaccard_diversity", "attributes", pl.String, "attributes must be a list, not"),
    ("alpha_ndcg", "subtopics", pl.String, "subtopics must be a list, not"),
    ("cosine_diversity", "embedding", pl.Int64, "embedding must be a list of numbers, not"),
    (
        "cosine_diversity",
        "embedding",
        pl.List(pl.String),
        "embedding must be a list of numbers, not",
    ),
    (
        "near_duplicate_share",
        "embedding",
        pl.Array(pl.List(pl.Float64), 1),
        "embedding must be a list",
    ),
    ("unexpectedness", "baseline", pl.Int64, "baseline must be true or false, not"),
    ("novelty", "popularity", pl.String, "popularity must be a number, not text"),
    ("freshness", "created_at", pl.String, "created_at must be a timestamp or a number, not text"),
    ("freshness", "shown_at", pl.Boolean, "shown_at must be a timestamp or a number, not [Bb]"),
    ("exposure_disparity", "merit", pl.String, "merit must be a number, not text"),
    ("category_diversity", "pos", pl.String, "pos must be a number, not text"),
]


@pytest.mark.parametrize(("metric", "name", "kind", "message"), WRONG_TYPES)
def test_wrong_type(metric, name, kind, message):
    table = frame(metric, [[(None,) * len(columns(metric))]])
    value = None if isinstance(kind, pl.List | pl.Array) else 1
    table = table.with_columns(pl.lit(value).cast(kind).alias(name))
    table = table.with_columns(pos=1) if name != "pos" and "pos" in columns(metric) else table
    options = {"novelty": {"users": 8}, "near_duplicate_share": {"similarity": 0.9}}.get(metric, {})
    table = table.with_columns(item=pl.lit("a")) if "item" in columns(metric) else table
    for way in (lambda: sql(metric, table, options), lambda: table.select(of(metric, options))):
        with pytest.raises(Exception, match="(?s)" + message):
            way()


def test_in_a_query_of_the_user():
    """As the issue has it: a catalogue metric in a GROUP BY; the catalogue from a subquery."""
    table = pl.DataFrame({"segment": ["x", "x", "y"], "item": ["a", "b", "a"], "pos": [1, 2, 11]})
    query = "gini(item, catalogue := (SELECT count(*) FROM range(4)))"
    found = over("WHERE pos <= 10 GROUP BY segment", f"segment, {query}", table)
    assert found == [("x", 0.5)]
    frame = table.filter(pl.col("pos") <= 10).pipe(rankql.gini, catalogue=4, by="segment")
    assert frame.rows() == found


def test_letters_that_a_collation_takes_for_one():
    con = metric_engines.connection(default_collation="NOCASE")
    rows = "(['a'], 'a', 1), (['A'], 'A', 2), (['b'], 'a', 3), (['a'], 'A', 4)"
    found = con.sql(f"""
        SELECT alpha_ndcg(topics, n), catalogue_coverage(item, 9), jaccard_diversity(topics, n, 2)
        FROM (VALUES {rows}) AS t (topics, item, n)""").fetchall()
    assert found[0] == pytest.approx((1, 2 / 9, 1), abs=1e-12)


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT"])
def test_columns_with_a_collation(collation):
    con = metric_engines.connection()
    con.execute(f"CREATE OR REPLACE TEMP TABLE collated (item VARCHAR COLLATE {collation}, n INT)")
    con.execute("INSERT INTO collated VALUES ('e', 1), ('é', 2), ('E', 3), ('b', 4)")
    ids = "list(item ORDER BY n)"
    found = con.sql(f"""
        SELECT jaccard_diversity([item], n), alpha_dcg([item], n, 3), alpha_ndcg([item], n),
               err_ia([item], n, 1), len(team_draft({ids}, {ids}, seed := 1, prefix := true)),
               team_draft_credit([{{'item': 'e', 'team': 'A'}}], {ids}[2:])
        FROM collated""").fetchall()
    dcg = 1 + 1 / math.log2(3) + 0.5
    assert found[0] == pytest.approx((1, dcg, 1, 1 / 8, 4, 0), abs=1e-12)


def test_entropy_is_not_below_zero():
    con = metric_engines.connection()
    for n in range(1, 60):
        ((bits,),) = con.sql(f"SELECT shannon_entropy(1) FROM range({n})").fetchall()
        assert 0 <= bits < 1e-12
    assert con.sql("SELECT shannon_entropy(NULL)").fetchall() == [(None,)]


def test_arrays_of_nothing_are_missing():
    arrays = pl.Series("attribute", [[None, None], [1, None]], dtype=pl.Array(pl.Int64, 2))
    shown = pl.DataFrame({"attribute": arrays, "pos": [1, 2]})
    assert shown.select(rankql.missing_at("attribute", "pos")).item() == 0.5


@pytest.mark.parametrize("attention", ["['x', 'y']", "1", "'x'", "[1, NULL]", "[-1, 1]"])
def test_attention_is_a_list_of_numbers(attention):
    with pytest.raises(duckdb.Error, match="attention must"):
        metric_engines.connection().sql(
            f"SELECT exposure(pos, attention := {attention}) FROM (VALUES (1), (2)) AS t (pos)"
        ).fetchall()


def test_alpha_ndcg_of_the_ideal_order_is_exactly_1():
    """Subtopics in many orders: the sums are taken in another order than those of the ideal."""
    topics = list("abcdef")
    rankings = [[(topics[i:] + topics[:i], 1), (topics[:i], 2)] for i in range(1, 6)]
    for name in ("sql", "polars"):
        for alpha in (0.1, 0.3, 0.5):
            values = run(name, "alpha_ndcg", rankings, {"alpha": alpha})
            assert values == [1.0] * len(rankings), name
