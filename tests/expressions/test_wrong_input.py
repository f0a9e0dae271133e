"""What is no number, no position, no option: one clear line, the same on every engine and form."""

import math
import re

import duckdb
import polars as pl
import pytest

import rankql
from support import metric_engines, signatures
from support.metric_engines import Column
from support.parameters import cycled, slow_except

NAN, INF = math.nan, math.inf
LIGHT = ("ndcg", "ap", "rr", "bpref")
PLAIN = {
    "err": {"max_rel": 4},
    "nerr": {"max_rel": 4},
    "rbp": {"p": 0.5},
    "rbp_residual": {"p": 0.5},
}


def shown(value):
    """How an engine may print a value: 3, 3.0; nan or NaN; NULL or None; an entry or its list."""
    if isinstance(value, list):
        return f".*{shown(value[1])}.*"
    if value is None:
        return "(NULL|None)"
    if isinstance(value, str):
        return f"'?{value}'?"
    if math.isfinite(value):
        return re.escape(f"{value:g}") + r"(\.0+)?"
    return f"(?i:{value})"


def message(text, *values):
    """The message as a pattern, with {} where the values stand."""
    parts = [re.escape(part) for part in text.split("{}")]
    return "".join(a + b for a, b in zip(parts, [*map(shown, values), ""], strict=True))


def complaint(name, metric, groups, options, **types):
    return metric_engines.complaint(
        lambda: metric_engines.ENGINES[name].run(metric, groups, options, **types)
    )


def refuses(name, metric, groups, options, pattern, **types):
    """Why the engine does not refuse this as it should, or None."""
    text = complaint(name, metric, groups, options, **types)
    if re.fullmatch(pattern, text):
        return None
    call = metric_engines.call(metric, metric_engines.names(metric), options)
    return f"{name}: {call} of {groups}: {text!r}"


def assert_refused(metric, groups, options, pattern, names=None, **types):
    names = metric_engines.engines_for(metric) if names is None else names
    wrong = []
    for name in names:
        reasons = [metric_engines.ENGINES[name].cannot(metric, options, group) for group in groups]
        if not any(reasons):
            wrong.append(refuses(name, metric, groups, options, pattern, **types))
    assert any(reason is None for reason in wrong) or wrong, "no form can say it"
    wrong = [reason[:400] for reason in wrong if reason]
    if wrong:
        pytest.fail(f"wanted {pattern}\n" + "\n".join(wrong))


# bad values in the rows

BAD_REL = [NAN, INF, -INF]
# Where a bad grade may hide: at the top, beyond k, judged but not retrieved.
PLACES = {
    "top": lambda rel: [(rel, 1), (1, 2), (0, None)],
    "beyond k": lambda rel: [(1, 1), (0, 2), (rel, 3)],
    "not retrieved": lambda rel: [(1, 1), (0, 2), (rel, None)],
}
WITH_K = [metric for metric in signatures.RANKING if "k" in signatures.ROWS[metric]]


def options_of(metric):
    return {**PLAIN.get(metric, {}), **({"k": 2} if metric in WITH_K else {})}


def forms_at(metric, place):
    """The engines; a list form without `ideal` does not see what was not retrieved."""
    unseen = place == "not retrieved" and metric not in signatures.TAKES_IDEAL
    return [
        name
        for name in metric_engines.engines_for(metric)
        if not unseen or name not in metric_engines.LIST
    ]


@pytest.mark.parametrize(
    ("metric", "place", "bad"), cycled(signatures.RANKING, [*PLACES], [*BAD_REL, *BAD_REL[1:]])
)
def test_rel_is_finite_in_every_form(metric, place, bad):
    """Wherever the grade stands; the other group is in order."""
    groups = [[(1, 1), (0, 2)], PLACES[place](bad)]
    pattern = message("rel must be a finite number, not {}", bad)
    assert_refused(metric, groups, options_of(metric), pattern, forms_at(metric, place))


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("place", PLACES)
def test_rel_is_finite_in_every_metric(place, kind):
    pattern = message("rel must be a finite number, not {}", NAN)
    for metric in signatures.RANKING:
        groups = [PLACES[place](NAN)]
        assert_refused(metric, groups, options_of(metric), pattern, ["sql", "polars"], rel=kind)


@pytest.mark.parametrize("metric", slow_except(signatures.RANKING, *LIGHT))
def test_rel_as_text_is_refused(metric):
    """Text is refused even where it reads as a number."""
    groups = [[("1", 1), ("0", 2)]]
    pattern = message("rel must be a number, not text. Cast it first")
    assert_refused(metric, groups, PLAIN.get(metric, {}), pattern, rel="VARCHAR")


# A bad position is refused also where the item is unjudged, not relevant or beyond k.
POSITIONS = [0, -1, 1.5, NAN, INF]


@pytest.mark.parametrize(
    ("metric", "bad"), cycled([*signatures.RANKING, *signatures.MICRO], POSITIONS)
)
def test_pos_is_a_whole_number_from_1(metric, bad):
    remedy = ". Position 1 is the top: add 1" if bad == 0 else ""
    pattern = message("pos must be a whole number from 1, not {}" + remedy, bad)
    for rel in [(1, -1), (0, None)][POSITIONS.index(bad) % 2]:
        group = [(1, 1), (rel, bad)]
        if metric in signatures.MICRO:
            group = [(*row, 1) for row in group]
        kind = "INTEGER" if bad in (0, -1) and rel == -1 else "DOUBLE"
        assert_refused(metric, [group], options_of(metric), pattern, metric_engines.ROWS, pos=kind)


@pytest.mark.parametrize("metric", [*signatures.RANKING, *signatures.MICRO])
def test_pos_as_text_is_refused(metric):
    pattern = message("pos must be a number, not text. Cast it first")
    group = [(1, "1"), (0, "2")]
    if metric in signatures.MICRO:
        group = [(*row, 1) for row in group]
    options = PLAIN.get(metric, {})
    assert_refused(metric, [group], options, pattern, metric_engines.ROWS, pos="VARCHAR")


@pytest.mark.parametrize("metric", slow_except(signatures.RANKING, *LIGHT))
def test_a_score_may_be_infinite_but_not_nan(metric):
    """A score may be infinite but not NaN, also where the item is unjudged or beyond k."""
    options = options_of(metric)
    for rel in (1, 0, None):
        groups = [[(1, 2.0, "a"), (1, 3.0, "b"), (0, INF, "c"), (rel, NAN, "d")]]
        pattern = message("score must be a number, not {}", NAN)
        assert_refused(f"{metric}_by_score", groups, options, pattern)
    groups = [[(1, "2", "a"), (0, "3", "b")]]
    pattern = message("score must be a number, not text. Cast it first")
    assert_refused(f"{metric}_by_score", groups, PLAIN.get(metric, {}), pattern, score="VARCHAR")


@pytest.mark.parametrize("metric", signatures.RATING)
def test_ratings_are_finite_numbers(metric):
    for bad in BAD_REL:
        pattern = message("rel must be a finite number, not {}", bad)
        assert_refused(metric, [[(1, 2), (bad, 1)]], {}, pattern)
        assert_refused(metric, [[(1, 2), (bad, None)]], {}, pattern)
    for bad in (NAN, INF):
        pattern = message("score must be a finite number, not {}", bad)
        assert_refused(metric, [[(1, 2), (1, bad)]], {}, pattern)
        assert_refused(metric, [[(1, 2), (None, bad)]], {}, pattern)
    for column in ("rel", "score"):
        pattern = message(f"{column} must be a number, not text. Cast it first")
        groups = [[("1", 2)]] if column == "rel" else [[(1, "2")]]
        assert_refused(metric, groups, {}, pattern, **{column: "VARCHAR"})


@pytest.mark.parametrize("metric", signatures.MICRO)
def test_rel_of_micro_averages_is_finite(metric):
    for bad in BAD_REL:
        for pos in (1, 3, None):
            groups = [[(1, 1, 1), (0, 2, 1), (bad, pos, 2)]]
            options = (
                {"k": 2} if metric == "micro_recall_at" else {"k": 2, "query": Column("query")}
            )
            pattern = message("rel must be a finite number, not {}", bad)
            assert_refused(metric, groups, options, pattern)
    pattern = message("rel must be a number, not text. Cast it first")
    assert_refused(metric, [[("1", 1, 1)]], {}, pattern, rel="VARCHAR")


@pytest.mark.parametrize("metric", ["err", "rbp"])
@pytest.mark.parametrize("place", PLACES)
def test_rel_above_max_rel_is_refused(metric, place):
    names = forms_at(metric, place)
    options = {"k": 2, "max_rel": 4} | ({"p": 0.5} if metric == "rbp" else {})
    pattern = message("rel must not exceed max_rel: {} is above {}", 5, 4)
    assert_refused(metric, [PLACES[place](5)], options, pattern, names)


@pytest.mark.parametrize("metric", ["dcg", "ndcg"])
def test_every_counted_position_needs_a_discount(metric):
    """A judged item shown at a position without a discount; what is not counted may stand there."""
    pattern = message(
        "discounts has {} entries, but position {} is counted: give more, or a lower k", 2, 3
    )
    short = {"discounts": [1, 2]}
    assert_refused(metric, [[(1, 1), (0, 2), (0, 3)]], short, pattern)
    assert_refused(metric, [[(1, 1), (0, 2), (1, 3)]], {**short, "k": 3}, pattern)
    for group in ([(1, 1), (1, 2), (0, None)], [(1, 1), (0, 2), (None, 3)]):
        assert complaint("sql", metric, [group], short).startswith("no error")
        assert complaint("polars", metric, [group], short).startswith("no error")
    beyond = [(1, 1), (1, 2), (1, 3)]
    assert complaint("sql", metric, [beyond], {**short, "k": 2}).startswith("no error")
    assert complaint("polars", metric, [beyond], {**short, "k": 2}).startswith("no error")


@pytest.mark.parametrize("metric", ["idcg", "ndcg"])
def test_every_position_of_the_ideal_needs_a_discount(metric):
    """More positive grades to place than discounts: the ideal ranking may be the longer one."""
    pattern = message(
        "discounts has {} entries, but position {} is counted: give more, or a lower k", 2, 3
    )
    group = [(1, 1), (1, 2), (1, None), (0, None)]
    assert_refused(metric, [group], {"discounts": [1, 2]}, pattern)
    assert_refused(metric, [group], {"discounts": [1, 2], "k": 3}, pattern)
    for k in (1, 2):
        options = {"discounts": [1, 2], "k": k}
        for name in ("sql", "sql list", "sql score", "polars", "polars list", "polars score"):
            assert complaint(name, metric, [group], options).startswith("no error"), name


# bad arguments: option -> (value, message) of every metric that has the option

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
        *((K.format("the text '{}'"), bad) for bad in ("ten", "10")),
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
    "p": [
        *((P, bad) for bad in (0, -0.1, 1.5, NAN, INF)),
        (P.format("the text '{}'"), "0.5"),
    ],
    "stop": [("stop must be 'exp2' or 'rel', not {}", bad) for bad in ("exp", None)],
}


def arguments():
    """A bad value of every option of every metric; each bad value of an option for one metric.

    The first metric that has the option refuses it in every form.
    """
    table, tried = [], set()
    for metric in [*signatures.RANKING, *signatures.MICRO]:
        for name in signatures.ROWS[metric]:
            rules = ARGUMENTS.get(name, [])
            if name == "denominator":
                rules = [(AP if metric == "ap" else PRECISION, "n")]
            if name == "p" and "err" not in metric:
                rules = [*rules, (P, 1), (P_NEEDED, None)]
            if name == "p" and "err" in metric:
                rules = [*rules, (P, None)]
            if name == "max_rel" and "err" in metric:
                rules = [*rules, (MAX_REL_NEEDED, None)]
            for place, (text, bad) in enumerate(rules):
                if place == 0 or (name, text, str(bad)) not in tried:
                    first = place == 0 and (name, text, str(bad)) not in tried
                    table.append((metric, name, bad, text, first))
                    tried.add((name, text, str(bad)))
    return table


@pytest.mark.parametrize(("metric", "name", "bad", "text", "every_form"), arguments(), ids=str)
def test_options_are_checked(metric, name, bad, text, every_form):
    """In polars as soon as the function is called."""
    options = {**PLAIN.get(metric, {}), name: bad}
    groups = [[(1, 1), (0, 2), (1, 3)]]
    if metric in signatures.MICRO:
        groups = [[(1, 1, 1), (0, 2, 1), (1, 3, 2)]]
        options |= {"query": Column("query")} if "query" in signatures.ROWS[metric] else {}
    pattern = message(text, bad) if "{}" in text else message(text)
    names = metric_engines.engines_for(metric) if every_form else ["sql", "polars"]
    if name == "ideal":  # of a list form it is the column of judged items
        names = [form for form in names if form not in metric_engines.LIST]
    assert_refused(metric, groups, options, pattern, names)
    calls = {metric: [n for n in metric_engines.names(metric) if n != "query"]}
    if metric in signatures.RANKING:
        calls[f"{metric}_by_score"] = ["rel", "score", "item"]
        if name != "ideal":
            calls[f"list_{metric}"] = ["rels"]
    for function, columns in calls.items():
        with pytest.raises(rankql.RankqlError) as raised:
            getattr(rankql, function)(*columns, **options)
        assert re.fullmatch(pattern, str(raised.value)), function


def test_polars_adds_nothing_to_errors():
    """It would put the whole expression below the message, up to 8 kB."""
    rows = pl.DataFrame({"user": [1, 1], "rel": [1.0, NAN], "pos": [1, 2]})
    metric = rankql.ndcg("rel", "pos", k=10)
    lists = pl.DataFrame({"rels": [[1.0, NAN]]})
    for ask in (
        lambda: rows.group_by("user").agg(1 + metric),
        lambda: rows.lazy().group_by("user").agg(metric).collect(),
        lambda: rows.lazy().group_by("user").agg(metric).collect(engine="streaming"),
        lambda: rows.select(metric.over("user")),
        lambda: rows.pipe(rankql.ndcg, by="user"),
        lambda: lists.select(rankql.list_ndcg("rels")),
    ):
        with pytest.raises(rankql.RankqlError) as raised:
            ask()
        assert str(raised.value) == "rel must be a finite number, not nan"


def test_stop_probabilities_lie_between_0_and_1():
    """With stop 'rel' grades are probabilities, which are on no scale."""
    for bad in (2, -0.5):
        pattern = message("rel must lie between 0 and 1 for stop 'rel', not {}", bad)
        assert_refused("err", [[(1, 1), (bad, 2)]], {"stop": "rel"}, pattern)
        for name in metric_engines.LIST:
            text = refuses(name, "list_err", [([1, bad], None)], {"stop": "rel"}, pattern)
            assert text is None, text
    pattern = message("max_rel is for stop 'exp2', not for 'rel'")
    assert_refused("err", [[(1, 1), (0, 2)]], {"stop": "rel", "max_rel": 4}, pattern)


@pytest.mark.parametrize("max_rel", [1e300, 2000])
def test_scales_beyond_what_2_can_be_raised_to(max_rel):
    """(2^rel - 1) / 2^max_rel is 0 there for low grades, and 1 for the highest, in each form."""
    for metric, group in (("err", [(max_rel, 1), (1, 2)]), ("err", [(1, 1), (max_rel, 2)])):
        value = 1.0 if group[0][0] == max_rel else 0.5
        for name in metric_engines.engines_for(metric):
            if "expected" in name:
                continue  # not available for err
            result = metric_engines.ENGINES[name].run(metric, [group], {"max_rel": max_rel})
            assert result == [value], name


@pytest.mark.parametrize(
    ("metric", "options"),
    [("ndcg", {"k": 10**400}), ("ap", {"threshold": 10**400}), ("rbp", {"p": -(10**400)})],
)
def test_numbers_beyond_floats_are_refused(metric, options):
    """Of an int, which Python cannot make a float."""
    ((name, bad),) = options.items()
    with pytest.raises(rankql.RankqlError, match=rf"{name} must .*{bad}"):
        getattr(rankql, metric)("rel", "pos", **options)


@pytest.mark.parametrize("metric", ["dcg", "idcg", "ndcg"])
def test_unused_discounts_are_checked(metric):
    """Every discount is checked, also one that no item needs."""
    pattern = r"discounts must be finite numbers above 0, not .*-1.*"
    for options in ({"discounts": [1, 2, -1]}, {"discounts": [1, -1], "k": 1}):
        assert_refused(metric, [[(1, 1), (0, None)]], options, pattern)


@pytest.mark.parametrize("metric", signatures.RANKING)
def test_unknown_ties_are_refused(metric):
    groups = [[(1, 2.0, "a"), (0, 2.0, "b")]]
    plain = PLAIN.get(metric, {})
    pattern = message("ties must be 'item' or 'expected', not {}", "best")
    assert_refused(f"{metric}_by_score", groups, {**plain, "ties": "best"}, pattern)


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("err", {"max_rel": 1}),
        ("nerr", {"max_rel": 1}),
        ("infap", {}),
        ("interpolated_precision", {}),
        ("ap", {"denominator": "found"}),
        ("kendall_tau_distance", {"k": 1}),
        ("kendall_tau_distance", {"k": 1, "normalized": True}),
        ("kendall_tau_b", {"k": 1}),
    ],
    ids=str,
)
def test_expected_ties_without_a_closed_form_are_refused(metric, options):
    """Where the mean over all orders has no closed form, it is refused, in the same words."""
    groups = [[(1, 2.0, "a"), (0, 2.0, "b")]]
    given = {**options, "ties": "expected"}
    text = {
        name: complaint(name, f"{metric}_by_score", groups, given) for name in metric_engines.SCORE
    }
    assert len(set(text.values())) == 1, text
    pattern = rf"ties 'expected' is not available .*{metric}.*\. .+"
    if metric == "err":
        pattern = "ties 'expected' is not available for err. Use 'item'"
    assert re.fullmatch(pattern, text["sql score"])


@pytest.mark.parametrize("metric", ["micro_precision_at", "micro_f1_at"])
def test_micro_averages_with_k_need_query(metric):
    pattern = message("query must be given with k: the column that distinguishes the rankings")
    assert_refused(metric, [[(1, 1, 1), (0, 2, 2)]], {"k": 2}, pattern)


@pytest.mark.parametrize("bad", [*BAD_REL, "1"])
def test_exp2_gain_refuses_text_and_infinite_grades(bad):
    text = "rel must be a number, not text. Cast it first"
    text = text if isinstance(bad, str) else "rel must be a finite number, not {}"
    pattern = message(text) if isinstance(bad, str) else message(text, bad)
    with pytest.raises(duckdb.ConversionException, match=pattern):
        metric_engines.connection().execute(
            f"SELECT exp2_gain({metric_engines.literal(bad)})"
        ).fetchall()
    for mode in ("eager", "lazy", "streaming"):
        with pytest.raises(rankql.RankqlError, match=pattern):
            made = metric_engines.start(pl.DataFrame({"rel": [bad]}), mode)
            metric_engines.collect(made.select(rankql.exp2_gain("rel")), mode)


@pytest.mark.parametrize("metric", slow_except(signatures.TAKES_IDEAL, *LIGHT))
def test_ideal_contains_the_list(metric):
    """An ideal of the grades that the list lacks would give values above 1."""
    text = (
        "ideal must contain every grade of the list, at least as often. It lacks a {}. "
        "Pass the grades of all judged items, retrieved or not"
    )
    options = PLAIN.get(metric, {})
    for rels, ideal, lacks in (
        ([3, 0, 2], [1, 1], 0), ([3, 3, None], [3, 2, 1], 3), ([-1, 2], [2, 0], -1), ([1], [], 1),
    ):  # fmt: skip
        assert_refused(f"list_{metric}", [([1], [1, 1]), (rels, ideal)], options,
                       message(text, lacks))  # fmt: skip
    for rels, ideal in (([3, None, 2], [2, 3, 3]), ([1], None), ([], [1]), ([None], [])):
        for name in metric_engines.LIST:
            metric_engines.ENGINES[name].run(f"list_{metric}", [(rels, ideal)], options)


@pytest.mark.parametrize("metric", slow_except(signatures.TAKES_IDEAL, *LIGHT))
def test_the_ideal_list_is_checked(metric):
    """The list of all judged items is checked as the list shown is."""
    for bad in BAD_REL:
        pattern = message("rel must be a finite number, not {}", bad)
        assert_refused(f"list_{metric}", [([1, 0], [1, 0, bad])], PLAIN.get(metric, {}), pattern)
    pattern = message("rel must be a number, not text. Cast it first")
    kinds = {"ideal": "VARCHAR"}
    assert_refused(
        f"list_{metric}", [([1, 0], ["1", "0"])], PLAIN.get(metric, {}), pattern, **kinds
    )
