"""What is no number, no position, no option: one clear line, the same on every engine and form.

The messages of the metrics of one ranking stand here and nowhere else.
"""

import math
import re
import zlib

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.base.errors import database_message
from support import calls, metric_engines, signatures
from support.metric_engines import Column
from support.parameters import cycled, few

NAN, INF = math.nan, math.inf
REQUIRED = signatures.REQUIRED
TEXT = "{} must be a number, not text. Cast it first"
REL = "rel must be a finite number, not {}"
SCORE = "score must be a finite number, not {}"
DISCOUNTS = "discounts has {} entries, but position {} is counted: give more, or a lower k"


def shown(value):
    """How an engine may print a value: 3, 3.0; nan or NaN; NULL or None; an entry or its list."""
    if isinstance(value, list):
        return f".*{shown(value[1])}.*"
    if value is None:
        return "(NULL|None)"
    if isinstance(value, str):
        return f"'?{value}'?"
    if math.isfinite(value) and value < 2**53:
        return re.escape(f"{value:g}") + r"(\.0+)?"
    return f"(?i:{value})"


def message(text, *values):
    """The message as a pattern, with {} where the values stand."""
    parts = [re.escape(part) for part in text.split("{}")]
    return "".join(a + b for a, b in zip(parts, [*map(shown, values), ""], strict=True))


def complaint(name, metric, groups, options, **types):
    run = metric_engines.ENGINES[name].run
    return metric_engines.complaint(lambda: run(metric, groups, options, **types))


@pytest.fixture
def assert_refused(request):
    """One engine of each kind, and in the slow tests one of the others, which take turns."""
    is_slow = request.node.get_closest_marker("slow")

    def assert_refused(metric, groups, options, pattern, names=None, **types):
        """The engines that have words for the groups refuse them with this message."""
        names = metric_engines.engines_for(metric) if names is None else names
        able = [
            name
            for name in names
            if not any(metric_engines.ENGINES[name].cannot(metric, options, g) for g in groups)
        ]
        plain = [name for name in able if name in metric_engines.PLAIN]
        others = [name for name in able if name not in plain] if is_slow or not plain else []
        turn = zlib.crc32(f"{metric} {pattern}".encode()) % max(len(others), 1)
        able = plain + others[turn:][:1]
        messages = {name: complaint(name, metric, groups, options, **types) for name in able}
        wrong = {name: text for name, text in messages.items() if not re.fullmatch(pattern, text)}
        assert messages and not wrong, f"{metric} {options} of {groups}: expected {pattern}"

    return assert_refused


def options_of(metric):
    with_k = metric in signatures.RANKING and signatures.takes_k(metric)
    cutoff = {"k": 2} if with_k else {}
    return {**REQUIRED.get(metric, {}), **cutoff}


# bad values in the rows

BAD_REL = [NAN, INF, -INF]
# Where a bad grade may hide: at the top, beyond k, judged but not retrieved.
PLACES = {
    "top": lambda rel: [(rel, 1), (1, 2), (0, None)],
    "beyond k": lambda rel: [(1, 1), (0, 2), (rel, 3)],
    "not retrieved": lambda rel: [(1, 1), (0, 2), (rel, None)],
}


def forms_at(metric, place):
    """The engines; a list form without `ideal` does not see what was not retrieved."""
    forms = metric_engines.engines_for(metric)
    if place == "not retrieved" and metric not in signatures.TAKES_IDEAL:
        return [name for name in forms if name not in metric_engines.LIST]
    return forms


@few(3)(
    ("metric", "place", "bad"),
    [
        (metric, place, bad)
        for i, metric in enumerate(signatures.RANKING)
        for j, (place, bad) in enumerate(cycled([*PLACES], BAD_REL))
        if (i + j) % 2 == 0
    ],
)
def test_rel_is_finite_in_every_form(assert_refused, metric, place, bad):
    """Wherever the grade stands; the other group is in order."""
    groups, names = [[(1, 1), (0, 2)], PLACES[place](bad)], forms_at(metric, place)
    kind = "FLOAT" if place == "beyond k" else "DOUBLE"
    assert_refused(metric, groups, options_of(metric), message(REL, bad), names, rel=kind)


# A bad position is refused also where the item is unjudged, not relevant or beyond k.
POSITIONS = [0, -1, 1.5, NAN, INF, 2**60]


def with_query(metric, group):
    return [(*row, 1) for row in group] if metric in signatures.MICRO else group


@few(8)(("metric", "bad"), cycled([*signatures.RANKING, *signatures.MICRO], POSITIONS))
def test_pos_is_a_whole_number_from_1(assert_refused, metric, bad):
    remedies = dict.fromkeys((NAN, INF, 2**60), ". Use NULL for items that were not retrieved")
    remedies[0] = ". Position 1 is the top: add 1, or is the order rel, pos?"
    remedies[1.5] = ". If it is a score, rank by it first, as ndcg_by_score does"
    remedy = remedies.get(bad, "")
    pattern = message("pos must be a whole number from 1, not {}" + remedy, bad)
    kind = {0: "INTEGER", 2**60: "BIGINT"}.get(bad, "DOUBLE")
    rel = 1 if bad == 0 else None
    groups = [with_query(metric, [(1, 1), (rel, bad)])]
    assert_refused(metric, groups, options_of(metric), pattern, metric_engines.ROWS, pos=kind)


@few(2)("metric", [*signatures.RANKING, *signatures.MICRO])
def test_text_is_refused(assert_refused, metric):
    """Also where it reads as a number."""
    options = REQUIRED.get(metric, {})
    groups = [with_query(metric, [("1", 1), ("0", 2)])]
    assert_refused(metric, groups, options, message(TEXT.format("rel")), rel="VARCHAR")
    groups = [with_query(metric, [(1, "1"), (0, "2")])]
    pattern = message(TEXT.format("pos"))
    assert_refused(metric, groups, options, pattern, metric_engines.ROWS, pos="VARCHAR")


@few(3)(("metric", "rel"), cycled([*signatures.RANKING], [1, 0, None]))
def test_a_score_may_be_infinite_but_not_nan(assert_refused, metric, rel):
    """Also where the item is unjudged or beyond k."""
    groups = [[(1, 2.0, "a"), (1, 3.0, "b"), (0, INF, "c"), (rel, NAN, "d")]]
    pattern = message("score must be a number, not {}", NAN)
    assert_refused(f"{metric}_by_score", groups, options_of(metric), pattern)
    groups, options = [[(1, "2", "a"), (0, "3", "b")]], REQUIRED.get(metric, {})
    pattern = message(TEXT.format("score"))
    assert_refused(f"{metric}_by_score", groups, options, pattern, score="VARCHAR")
    groups, options = [[(1, 2.0, "a"), (0, 2.0, "b")]], {**options, "ties": "best"}
    pattern = message("ties must be 'item' or 'expected', not {}", "best")
    assert_refused(f"{metric}_by_score", groups, options, pattern)


def wrong_rows():
    """Metric, group, options, message and types of what a metric or two refuse."""
    for metric in signatures.RATING:
        yield from ((metric, [(1, 2), (bad, 1)], {}, message(REL, bad), {}) for bad in BAD_REL)
        yield metric, [(1, 2), (NAN, None)], {}, message(REL, NAN), {}
        yield from ((metric, [(1, 2), (1, bad)], {}, message(SCORE, bad), {}) for bad in (NAN, INF))
        # DuckDB does not look at what is subtracted from a vector of NULL.
        yield metric, [(None, NAN)], {}, message(SCORE, NAN), {}
        for column, row in (("rel", ("1", 2)), ("score", (1, "2"))):
            yield metric, [row], {}, message(TEXT.format(column)), {column: "VARCHAR"}
    for metric in signatures.MICRO:
        options = {"k": 2} | ({} if metric == "micro_recall_at" else {"query": Column("query")})
        for bad, pos in zip(BAD_REL, (1, 3, None), strict=True):
            yield metric, [(1, 1, 1), (0, 2, 1), (bad, pos, 2)], options, message(REL, bad), {}
    for metric in ("micro_precision_at", "micro_f1_at"):
        pattern = message("query must be given with k: the column that distinguishes the rankings")
        yield metric, [(1, 1, 1), (0, 2, 2)], {"k": 2}, pattern, {}
    # A judged item at a position without a discount; or more positive grades than discounts.
    short, pattern = {"discounts": [1, 2]}, message(DISCOUNTS, 2, 3)
    for metric in ("dcg", "ndcg"):
        yield metric, [(1, 1), (0, 2), (0, 3)], short, pattern, {}
        yield metric, [(1, 1), (0, 2), (1, 3)], {**short, "k": 3}, pattern, {}
    for metric in ("idcg", "ndcg"):
        for options in (short, {**short, "k": 3}):
            yield metric, [(1, 1), (1, 2), (1, None), (0, None)], options, pattern, {}
    # Every discount is checked, also one that no item needs.
    for metric in ("dcg", "idcg", "ndcg"):
        for options in ({"discounts": [1, 2, -1]}, {"discounts": [1, -1], "k": 1}):
            pattern = "discounts must be finite numbers above 0, not .*-1.*"
            yield metric, [(1, 1), (0, None)], options, pattern, {}
    # With stop 'rel' grades are probabilities, which are on no scale.
    for bad in (2, -0.5):
        pattern = message("rel must lie between 0 and 1 for stop 'rel', not {}", bad)
        yield "err", [(1, 1), (bad, 2)], {"stop": "rel"}, pattern, {}
        yield "list_err", ([1, bad], None), {"stop": "rel"}, pattern, {}
    pattern = message("max_rel is for stop 'exp2', not for 'rel'")
    yield "err", [(1, 1), (0, 2)], {"stop": "rel", "max_rel": 4}, pattern, {}


@few(10)(("metric", "group", "options", "pattern", "types"), [*wrong_rows()])
def test_wrong_rows_are_refused(assert_refused, metric, group, options, pattern, types):
    assert_refused(metric, [group], options, pattern, **types)


@few(2)("lazy", [False, True])
@pytest.mark.parametrize("metric", ["ndcg", "rr"])
def test_a_null_in_the_last_column_of_by_is_refused_where_the_frame_runs(metric, lazy):
    """As a query that is NULL in evaluate. Columns before the last one may be NULL."""
    function = getattr(rankql, metric)
    rows = pl.DataFrame({"a": ["x", None], "query": [1, 2], "rel": [1, 1], "pos": [1, 1]})
    frame = rows.lazy() if lazy else rows
    assert len(frame.pipe(function, by=["a", "query"]).lazy().collect()) == 2
    for by, name in ((["query", "a"], "a"), ("a", "a"), (pl.col("a").alias("b"), "b")):
        with pytest.raises(Exception, match=f"by: {name} is NULL in some rows. Leave them out"):
            frame.pipe(function, by=by).lazy().collect()


@few(2)("metric", ["err", "rbp"])
@pytest.mark.parametrize("place", PLACES)
def test_rel_above_max_rel_is_refused(assert_refused, metric, place):
    options = {"k": 2, "max_rel": 4} | ({"p": 0.5} if metric == "rbp" else {})
    pattern = message("rel must not exceed max_rel: {} is above {}", 5, 4)
    assert_refused(metric, [PLACES[place](5)], options, pattern, forms_at(metric, place))


@few(2)(
    ("metric", "group", "k"),
    [
        *((metric, [(1, 1), (1, 2), (0, None)], None) for metric in ("dcg", "ndcg")),
        *((metric, [(1, 1), (0, 2), (None, 3)], None) for metric in ("dcg", "ndcg")),
        *((metric, [(1, 1), (1, 2), (1, 3)], 2) for metric in ("dcg", "ndcg")),
        *((metric, [(1, 1), (1, 2), (1, None)], k) for metric in ("idcg", "ndcg") for k in (1, 2)),
    ],
)
def test_what_is_not_counted_needs_no_discount(metric, group, k):
    for name in ("sql", "sql list", "sql score", "polars", "polars list", "polars score"):
        text = complaint(name, metric, [group], {"discounts": [1, 2], "k": k})
        assert text.startswith("no error"), name


@few(1)("max_rel", [1e300, 2000])
def test_scales_beyond_what_2_can_be_raised_to(max_rel):
    """(2^rel - 1) / 2^max_rel is 0 there for low grades, and 1 for the highest, in each form."""
    for group, value in (([(max_rel, 1), (1, 2)], 1.0), ([(1, 1), (max_rel, 2)], 0.5)):
        for name in metric_engines.engines_for("err").keys() - metric_engines.EXPECTED:
            result = metric_engines.ENGINES[name].run("err", [group], {"max_rel": max_rel})
            assert result == [value], name


# bad arguments: option -> (message, value) of every metric that has the option

P = "p must lie between 0 and 1, not {}"
P_NEEDED = "p must be given: the probability of looking at the next item, between 0 and 1"
MAX_REL = "max_rel must be a finite number above 0, not {}"
MAX_REL_NEEDED = "max_rel must be given: the highest grade of the scale"
AP = "denominator must be 'min', 'R', 'found' or 'k', not {}"
PRECISION = "denominator must be 'k', 'retrieved' or 'min', not {}"
K = "k must be a whole number from 1, not {}. Leave k out for the complete ranking"
ARGUMENTS = {
    "k": [
        *((K, bad) for bad in (0, -1, 2.5, NAN, INF)),
        (K.format("the text '{}'"), "10"),
    ],
    "threshold": [
        *(("threshold must be a finite number, not {}", bad) for bad in (NAN, INF, -INF)),
        ("threshold must be a finite number, not the text '{}'", "1"),
    ],
    "base": [("base must be a finite number above 1, not {}", bad) for bad in (1, 0, -2, NAN, INF)],
    "discounts": [
        ("discounts must be finite numbers above 0, not {}", [1, bad, 2])
        for bad in (0, -1, NAN, INF, None)
    ],
    "ideal": [("ideal must be 'judged' or 'retrieved', not {}", "shown")],
    "negative": [("negative must be 'zero' or 'keep', not {}", "drop")],
    "max_rel": [(MAX_REL, bad) for bad in (0, -1, NAN, INF)],
    "p": [*((P, bad) for bad in (0, -0.1, 1.5, NAN, INF)), (P.format("the text '{}'"), "0.5")],
    "stop": [("stop must be 'exp2' or 'rel', not {}", bad) for bad in ("exp", None)],
}


def arguments():
    """A bad value of every option of every metric; each bad value of an option for one metric.

    The first metric that has the option refuses it in every form.
    """
    tried = set()
    for metric in [*signatures.RANKING, *signatures.MICRO]:
        for name in signatures.ROWS[metric]:
            if name == "k" and not signatures.takes_k(metric):
                continue
            rules = list(ARGUMENTS.get(name, []))
            if name == "denominator":
                rules = [(AP if metric == "ap" else PRECISION, "n")]
            elif name == "p":
                rules += [(P, None)] if "err" in metric else [(P, 1), (P_NEEDED, None)]
            elif name == "max_rel" and "err" in metric:
                rules += [(MAX_REL_NEEDED, None)]
            for place, (text, bad) in enumerate(rules):
                rule = (name, text, str(bad))
                if place == 0 or rule not in tried:
                    yield metric, name, bad, text, place == 0 and rule not in tried
                    tried.add(rule)


@few(10)(("metric", "name", "bad", "text", "every_form"), [*arguments()], ids=str)
def test_options_are_checked(assert_refused, metric, name, bad, text, every_form):
    """In polars as soon as the function is called."""
    options = {**REQUIRED.get(metric, {}), name: bad}
    group = with_query(metric, [(1, 1), (0, 2), (1, 3)])
    if "query" in signatures.ROWS[metric]:
        options["query"] = Column("query")
    pattern = message(text, bad) if "{}" in text else message(text)
    names = metric_engines.engines_for(metric) if every_form else ["sql", "polars"]
    if name == "ideal":  # of a list form it is the column of judged items
        names = [form for form in names if form not in metric_engines.LIST]
    assert_refused(metric, [group], options, pattern, names)
    functions = {metric: [n for n in metric_engines.names(metric) if n != "query"]}
    if metric in signatures.RANKING:
        functions[f"{metric}_by_score"] = ["rel", "score", "item"]
        if name != "ideal":
            functions[f"list_{metric}"] = ["rels"]
    for function, columns in functions.items():
        with pytest.raises(rankql.RankqlError) as raised:
            getattr(rankql, function)(*columns, **options)
        assert re.fullmatch(pattern, str(raised.value)), function


def test_polars_adds_nothing_to_errors():
    """It would put the whole expression below the message, up to 8 kB."""
    rows = pl.DataFrame({"user": [1, 1], "rel": [1.0, NAN], "pos": [1, 2]})
    metric = rankql.ndcg("rel", "pos", k=10)
    for call in (
        lambda: rows.group_by("user").agg(1 + metric),
        lambda: rows.lazy().group_by("user").agg(metric).collect(),
        lambda: rows.lazy().group_by("user").agg(metric).collect(engine="streaming"),
        lambda: rows.select(metric.over("user")),
        lambda: rows.pipe(rankql.ndcg, by="user"),
        lambda: pl.DataFrame({"rels": [[1.0, NAN]]}).select(rankql.list_ndcg("rels")),
    ):
        with pytest.raises(rankql.RankqlError, match=r"not nan$"):
            call()


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        *(("ndcg", {"k": 10**400}), ("rbp", {"p": -(10**400)}), ("ap", {"threshold": True})),
    ],
)
def test_numbers_beyond_floats_and_true_are_refused(metric, options):
    """Python cannot make a float of such an int; in SQL true counts as 1, as in any sum."""
    ((name, bad),) = options.items()
    with pytest.raises(rankql.RankqlError, match=rf"{name} must .*{bad}"):
        getattr(rankql, metric)("rel", "pos", **options)


NO_CUTOFF = [
    x for x in signatures.RANKING if "k" in signatures.ROWS[x] and not signatures.takes_k(x)
]


@few(3)("metric", NO_CUTOFF)
def test_a_metric_without_a_cutoff_refuses_one(assert_refused, metric):
    """As the third argument, where others have it, a threshold would be another number."""
    pattern = rf"(list_)?{metric}(_by_score)? has no cutoff: write threshold( :)?= ?2(\.0)?"
    assert_refused(metric, [[(1, 1), (0, 2)]], {"k": 2}, pattern)
    with pytest.raises(rankql.RankqlError, match=pattern):
        getattr(rankql, metric)("rel", "pos", 2)
    with pytest.raises(rankql.RankqlError, match=pattern):
        getattr(rankql, f"list_{metric}")("rels", 2)


@few(3)(
    ("metric", "options"),
    [
        *(("err", {"max_rel": 1}), ("nerr", {"max_rel": 1}), ("infap", {})),
        *(("interpolated_precision", {}), ("ap", {"denominator": "found"})),
        *(("kendall_tau_b", {"k": 1}), ("kendall_tau_distance", {"k": 1})),
        ("kendall_tau_distance", {"k": 1, "normalized": True}),
    ],
    ids=str,
)
def test_expected_ties_without_a_closed_form_are_refused(assert_refused, metric, options):
    groups, options = [[(1, 2.0, "a"), (0, 2.0, "b")]], {**options, "ties": "expected"}
    pattern = rf"ties 'expected' is not available .*{metric}.*\. .+"
    assert_refused(f"{metric}_by_score", groups, options, pattern)


@pytest.mark.parametrize("bad", [*BAD_REL, "1"])
def test_exp2_gain_refuses_text_and_infinite_grades(bad):
    pattern = message(TEXT.format("rel")) if isinstance(bad, str) else message(REL, bad)
    calls.assert_both_refuse("exp2_gain(rel)", pl.DataFrame({"rel": [bad]}), pattern)


@few(1)("metric", signatures.TAKES_IDEAL)
def test_the_ideal_list_is_checked(assert_refused, metric):
    """An ideal that lacks grades of the list would give values above 1; zeros matter to bpref."""
    every = metric == "bpref"
    text = f"ideal must contain every {'' if every else 'positive '}grade of the list, at least as "
    text += "often. It lacks a {}. Pass the grades of all judged items, retrieved or not"
    options = REQUIRED.get(metric, {})
    refused = [([3, 0, 2], [1, 1], message(text, 0 if every else 2))]
    refused += [([3, 3, None], [3, 2, 1], message(text, 3))]
    refused += [([-1, 2], [1, 0], message(text, -1 if every else 2)), ([1], [], message(text, 1))]
    refused += [([1, 0], [1, 0, NAN], message(REL, NAN))]
    rels, ideal, pattern = refused[[*signatures.TAKES_IDEAL].index(metric) % len(refused)]
    groups = [([1], [1, 1]), (rels, ideal)]
    assert_refused(f"list_{metric}", groups, options, pattern)
    groups, pattern = [([1, 0], ["1", "0"])], message(TEXT.format("rel"))
    assert_refused(f"list_{metric}", groups, options, pattern, ideal="VARCHAR")
    groups = [([3, None, 2], [2, 3, 3]), ([1], None), ([], [1]), ([None], [])]
    for name in metric_engines.LIST:
        metric_engines.ENGINES[name].run(f"list_{metric}", groups, options)


# Easily got wrong: NULL items, literal grades, text, options where nothing is relevant

SQL_ERRORS = [
    # What is wrong is refused also where nothing is relevant, so that no value depends on it.
    ("ap(rel, CASE WHEN pos > 1 THEN pos END, denominator := 'x')", "denominator must be"),
    ("hit_at_by_score(rel, pos, pos, ties := 'x')", "ties must be"),
    ("rr_by_score(rel, pos, pos, k := 0)", "k must be a whole number from 1"),
    ("ndcg(rel, pos, 'two')", "k must be a whole number from 1, not the text 'two'"),
    ("ndcg(rel, pos, true)", "k must be a whole number from 1, not true. Leave k out"),
    ("list_ap([rel], k := pos > 0)", "k must be a whole number from 1, not true"),
    ("f1_at_by_score(rel, pos, pos, k := 0)", "k must be a whole number from 1"),
    ("list_ap([0], 0)", "k must be a whole number from 1"),
    ("list_ap([0], denominator := 'x')", "denominator must be"),
    ("list_rr([]::INT[], 0)", "k must be a whole number from 1"),
    ("list_err([0], max_rel := 3, p := 9)", "p must lie between 0 and 1, not 9"),
    # A list is checked also where `ideal` stands for the judged items.
    ("list_hit_at(['nan'::DOUBLE], ideal := [0])", "rel must be a finite number, not nan"),
    ("list_idcg(['nan'::DOUBLE], ideal := [1])", "rel must be a finite number, not nan"),
    ("list_err([9], max_rel := 3, ideal := [9, 0])", "rel must not exceed max_rel: 9"),
    # Text is never read as a number.
    ("list_ndcg('[1, 2]')", "rel must be a number, not text"),
    ("list_ndcg([1, 0], ideal := '[3, 2]')", "ideal must be a list of grades, not [3, 2]"),
    ("list_ndcg(['1', '0']::VARCHAR[2])", "rel must be a number, not text"),
    ("ndcg(rel::VARCHAR::ENUM('0'), pos)", "rel must be a number, not text"),
    ("dcg(rel::BIT, pos)", "rel must be a number, not BIT. Cast it first"),
    ("recall_at(rel, pos::BIT)", "pos must be a number, not BIT. Cast it first"),
    ("list_ap([rel::BIT])", "rel must be a number, not BIT[]. Cast it first"),
    ("mae(rel, pos::BIT)", "score must be a number, not BIT. Cast it first"),
    ("ndcg(rel::JSON, pos)", "rel must be a number, not text"),
    ("err(rel, pos, max_rel := 'x')", "max_rel must be a finite number above 0, not x"),
    ("rbp(rel, pos, p := 0.5, max_rel := '10')", "max_rel must be a finite number above 0, not 10"),
    ("list_dcg([1, 0], base := 'e')", "base must be a finite number above 1, not e"),
    ("dcg(rel, pos, discounts := ['1', '2'])", "discounts must be a list of numbers, not [1, 2]"),
    ("idcg(pos, NULL, discounts := ['a'])", "discounts must be a list of numbers, not [a]"),
    ("list_dcg([rel], discounts := ['1'])", "discounts must be a list of numbers, not [1]"),
    # An option of another type than its other values.
    ("list_ndcg([1], ideal := 3)", "ideal must be a list of grades, not 3"),
    ("ndcg(rel, pos, ideal := 3)", "ideal must be 'judged' or 'retrieved', not 3"),
    ("ndcg(rel, pos, negative := true)", "negative must be 'zero' or 'keep', not true"),
    ("list_ap([1], denominator := 2)", "denominator must be 'min', 'R', 'found' or 'k', not 2"),
    ("novelty(5, users := 1, normalized := true)", "popularity must not exceed users: 5"),
    # DuckDB drops sums over a constant NULL.
    ("ndcg('inf'::DOUBLE, NULL)", "rel must be a finite number, not inf"),
    ("ndcg(rel::VARCHAR, NULL::INT, 2)", "rel must be a number, not text"),
    ("kendall_tau_distance(rel, nullif(pos, 1), normalized := 'no')", "normalized must be true"),
    # The name of the column instead of the column: both rankings would be one.
    ("micro_precision_at(rel, pos, 1, query := 'user')", "query must identify one ranking"),
]


@few(6)(("call", "message"), SQL_ERRORS)
def test_sql_refuses(call, message):
    query = f"SELECT {call} FROM (VALUES (0, 1), (0, 2), (0, 1)) AS t (rel, pos)"
    with pytest.raises(duckdb.ConversionException) as error:
        metric_engines.connection().execute(query).fetchall()
    line = database_message(error.value)
    assert line.startswith(message) and "\n" not in line


def test_an_item_that_is_null_stands_last_of_its_peers():
    rows = [(3, 0.5, "a"), (0, 0.5, None), (2, 0.5, "c"), (1, 0.1, "z")]
    frame = pl.DataFrame(rows, schema=["rel", "score", "item"], orient="row")
    for k, expected in ((1, 2), (2, 5), (3, 5), (4, 6)):
        assert calls.both(f"cg_by_score(rel, score, item, {k})", frame) == (expected, expected)
    grades = [2, 3, 0, 1]
    query = "SELECT rel FROM ranked('input_rows', query := NULL) ORDER BY pos"
    assert [rel for (rel,) in calls.connected(frame).execute(query).fetchall()] == grades
    assert rankql.ranked(frame, query=None).sort("pos")["rel"].to_list() == grades


@pytest.mark.parametrize("by", ["_rel", "_pos", "_dcg", "_counters", "_other"])
def test_group_columns_of_any_name(by):
    frame = pl.DataFrame({by: [7, 7], "rel": [0, 1], "pos": [1, 2]})
    assert frame.pipe(rankql.ndcg, by=by)["ndcg"].round(4).to_list() == [0.6309]
    with pytest.raises(rankql.RankqlError, match="by= contains 'ndcg'"):
        frame.rename({by: "ndcg"}).pipe(rankql.ndcg, by="ndcg")


FRAME = pl.DataFrame({"group": [1, 1, 1, 2], "rel": [1, 0, 1, 0], "pos": [1, 2, 3, 1]})
FRAME = FRAME.with_columns(one=1, view=pl.lit("view"), sets=pl.lit(["a"]))
# A column, the literal that holds the same values, and a call with either.
LITERALS = [
    ("one", pl.lit(1), lambda x: rankql.exposure_disparity("pos", x)),
    ("sets", pl.lit(pl.Series([["a"]])), rankql.alpha_ndcg),
    ("one", pl.lit(1), rankql.sign_test),
    ("one", pl.lit(1), lambda x: rankql.debiased(x, x)),
    ("view", pl.lit("view"), lambda x: rankql.graded(x, {"view": 1}, how="sum")),
    ("one", pl.lit(1), lambda x: rankql.weighted_mean("rel", x)),
    ("one", pl.lit(1), lambda x: rankql.ndcg(x, "pos")),
    ("one", pl.lit(1), lambda x: rankql.micro_precision_at("rel", "pos", 3, query=x)),
]


@few(2)(("column", "literal", "call"), LITERALS)
def test_literals_have_a_value_in_every_row(column, literal, call):
    by_column, by_literal = call(column).alias("value"), call(literal).alias("value")
    assert FRAME[:3].select(by_column).rows() == FRAME[:3].select(by_literal).rows()
    for engine in ("in-memory", "streaming"):
        grouped = FRAME.lazy().group_by("group", maintain_order=True)
        one, other = (grouped.agg(x).collect(engine=engine) for x in (by_column, by_literal))
        assert one.equals(other)


def test_large_numbers_do_not_overflow():
    for k in (2**31, 2**52):
        assert FRAME.select(
            rankql.micro_precision_at("rel", "pos", k, query="group").alias("p"),
            rankql.micro_precision_at("rel", "pos", k, query="group", denominator="min").alias("m"),
            rankql.micro_f1_at("rel", "pos", k, query="group").alias("f1"),
            rankql.catalogue_coverage("pos", k).alias("coverage"),
        ).row(0) == pytest.approx((1 / k, 1, 4 / (2 * k + 2), 3 / k))


def test_equal_scores_of_equal_items_are_in_the_best_order():
    for rel in ([0, 1], [1, 0]):
        rows = {"rel": [*rel, 0], "score": [1.0, 1.0, 0.5], "item": ["a", "a", "b"]}
        assert calls.both("ndcg_by_score(rel, score, item)", pl.DataFrame(rows)) == (1, 1)


# Calls in which another value stands where the position or the item belongs, such as the cutoff.
FORGOTTEN = [
    *(f"{metric}(rel, {{}})" for metric in ("ndcg", "dcg", "cg", "rr", "arhr", "ap", "judged_at")),
    *(f"{metric}_at(rel, {{}})" for metric in ("precision", "recall", "f1", "hit")),
    *(f"{metric}(rel, {{}})" for metric in ("bpref", "r_precision", "kendall_tau_b")),
    *("err(rel, {}, max_rel := 3)", "rbp(rel, {}, p := 0.8)", "tau_ap(pos, {})"),
    *("kendall_tau_distance(rel, {})", "duplicate_share(item, {})", "alpha_ndcg(sets, {})"),
    *(
        f"{metric}_by_score(rel, score, {{}})"
        for metric in ("ndcg", "ap", "rr", "kendall_tau_b", "precision_at")
    ),
]


@few(1)("call", FORGOTTEN)
def test_the_position_or_item_is_a_column_that_distinguishes_items(call):
    rows = {"rel": [1, 0, 0], "pos": [1, 2, 3], "score": [0.9, 0.8, 0.7], "item": ["a", "b", "c"]}
    three = pl.DataFrame(rows | {"sets": [["s"]] * 3, "ten": 10, "places": [10, 11, 12]})
    calls.assert_both_refuse(call.format("3"), three[:1], "(pos|item) must be a column")
    pattern = ".*(several items share|the same for two|must distinguish)"
    calls.assert_both_refuse(call.format("ten"), three, pattern)
    for argument, frame in (("ten", three[:1]), ("places", three)):
        in_sql, in_polars = calls.both(call.format(argument), frame)
        assert in_sql == pytest.approx(in_polars)


def test_several_k_are_one_expression_each():
    """As the message writes them."""
    frame = pl.DataFrame({"q": ["a", "a"], "rel": [0, 1], "pos": [1, 2]})
    for call in (
        lambda: rankql.ndcg("rel", "pos", k=(1, 5)),
        lambda: rankql.ndcg(frame, "rel", "pos", [1, 5], by="q"),
    ):
        with pytest.raises(
            rankql.RankqlError, match=r"k must be a whole number from 1, not [\[(]1, 5"
        ) as error:
            call()
    written = str(error.value).partition("write ")[2].replace("...", "'rel', 'pos'")
    values = frame.group_by("q").agg(eval(written, {"ndcg": rankql.ndcg}))
    assert values.row(0) == ("a", 0.0, pytest.approx(0.6309, abs=1e-4))
    assert values.columns == ["q", "ndcg@1", "ndcg@5"]
