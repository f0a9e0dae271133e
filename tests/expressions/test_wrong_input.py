"""What is no number, no position, no option: one clear line, the same on every engine and form."""

import dataclasses
import decimal
import gzip
import math
import re
import runpy

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from conftest import SEEN
from rankql.cli.main import main
from rankql.engines import partitions
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from support import metric_engines, signatures, triggered_errors
from support.metric_engines import Column
from support.parameters import cycled

NAN, INF = math.nan, math.inf
PLAIN = {"err": {"max_rel": 4}, "rbp": {"p": 0.5}, "rbp_residual": {"p": 0.5}}


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
    said = complaint(name, metric, groups, options, **types)
    if re.fullmatch(pattern, said):
        return None
    call = metric_engines.call(metric, metric_engines.names(metric), options)
    return f"{name}: {call} of {groups}: {said!r}"


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


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("metric", signatures.RANKING)
def test_rel(metric, place):
    """A grade that is no number is refused wherever it stands; the other group is in order.

    The metrics take turns with the numbers.
    """
    options = {**PLAIN.get(metric, {}), **({"k": 2} if metric in WITH_K else {})}
    names = [
        name
        for name in metric_engines.engines_for(metric)
        # A list form without `ideal` does not see what was not retrieved.
        if place != "not retrieved"
        or name not in metric_engines.LIST
        or metric in signatures.TAKES_IDEAL
    ]
    bad = BAD_REL[(signatures.RANKING.index(metric) + [*PLACES].index(place)) % len(BAD_REL)]
    groups = [[(1, 1), (0, 2)], PLACES[place](bad)]
    pattern = message("rel must be a finite number, not {}", bad)
    assert_refused(metric, groups, options, pattern, names)


@pytest.mark.parametrize("place", ["top", "beyond k", "not retrieved"])
@pytest.mark.parametrize("metric", signatures.RANKING)
def test_rel_float32(metric, place):
    options = {**PLAIN.get(metric, {}), **({"k": 2} if metric in WITH_K else {})}
    pattern = message("rel must be a finite number, not {}", NAN)
    assert_refused(metric, [PLACES[place](NAN)], options, pattern, ["sql", "polars"], rel="FLOAT")


@pytest.mark.parametrize("metric", signatures.RANKING)
def test_rel_text(metric):
    """Text is refused even where it reads as a number."""
    groups = [[("1", 1), ("0", 2)]]
    pattern = message("rel must be a number, not text. Cast it first")
    assert_refused(metric, groups, PLAIN.get(metric, {}), pattern, rel="VARCHAR")


# A bad position is refused also where the item is unjudged, not relevant or beyond k.
POSITIONS = [0, -1, 1.5, NAN, INF]


TURNED = [*POSITIONS[2:], *POSITIONS[:2]]
WITH_POS = [*signatures.RANKING, *signatures.MICRO]


@pytest.mark.parametrize(
    ("metric", "bad"), [*cycled(WITH_POS, POSITIONS), *cycled(WITH_POS, TURNED)]
)
def test_pos(metric, bad):
    """Each metric refuses two of them, and each of them is refused by several metrics."""
    options = {**PLAIN.get(metric, {}), **({"k": 2} if metric in WITH_K else {})}
    remedy = ". Position 1 is the top: add 1" if bad == 0 else ""
    pattern = message("pos must be a whole number from 1, not {}" + remedy, bad)
    turn = POSITIONS.index(bad) % 2
    for rel in [(1, -1), (0, None)][turn]:
        group = [(1, 1), (rel, bad)]
        if metric in signatures.MICRO:
            group = [(*row, 1) for row in group]
        assert_refused(metric, [group], options, pattern, metric_engines.ROWS, pos="DOUBLE")
    if bad in (0, -1):
        assert_refused(metric, [group], options, pattern, metric_engines.ROWS, pos="INTEGER")


@pytest.mark.parametrize("metric", [*signatures.RANKING, *signatures.MICRO])
def test_pos_text(metric):
    pattern = message("pos must be a number, not text. Cast it first")
    group = [(1, "1"), (0, "2")]
    if metric in signatures.MICRO:
        group = [(*row, 1) for row in group]
    options = PLAIN.get(metric, {})
    assert_refused(metric, [group], options, pattern, metric_engines.ROWS, pos="VARCHAR")


@pytest.mark.parametrize("metric", signatures.RANKING)
def test_score(metric):
    """A score may be infinite but not NaN, also where the item is unjudged or beyond k."""
    options = {**PLAIN.get(metric, {}), **({"k": 2} if metric in WITH_K else {})}
    for rel in (1, 0, None):
        groups = [[(1, 2.0, "a"), (1, 3.0, "b"), (0, INF, "c"), (rel, NAN, "d")]]
        pattern = message("score must be a number, not {}", NAN)
        assert_refused(f"{metric}_by_score", groups, options, pattern)
    groups = [[(1, "2", "a"), (0, "3", "b")]]
    pattern = message("score must be a number, not text. Cast it first")
    assert_refused(f"{metric}_by_score", groups, PLAIN.get(metric, {}), pattern, score="VARCHAR")


@pytest.mark.parametrize("metric", signatures.RATING)
def test_rating(metric):
    for bad in BAD_REL:
        pattern = message("rel must be a finite number, not {}", bad)
        assert_refused(metric, [[(1, 2), (bad, 1)]], {}, pattern)
        assert_refused(metric, [[(1, 2), (bad, None)]], {}, pattern)
    pattern = message("score must be a finite number, not {}", NAN)
    assert_refused(metric, [[(1, 2), (1, NAN)]], {}, pattern)
    assert_refused(metric, [[(1, 2), (None, NAN)]], {}, pattern)
    for column in ("rel", "score"):
        pattern = message(f"{column} must be a number, not text. Cast it first")
        groups = [[("1", 2)]] if column == "rel" else [[(1, "2")]]
        assert_refused(metric, groups, {}, pattern, **{column: "VARCHAR"})


@pytest.mark.parametrize("metric", signatures.MICRO)
def test_micro_rel(metric):
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
def test_rel_above_max_rel(metric, place):
    names = [
        name
        for name in metric_engines.engines_for(metric)
        if place != "not retrieved"
        or name not in metric_engines.LIST
        or metric in signatures.TAKES_IDEAL
    ]
    options = {"k": 2, "max_rel": 4} | ({"p": 0.5} if metric == "rbp" else {})
    pattern = message("rel must not exceed max_rel: {} is above {}", 5, 4)
    assert_refused(metric, [PLACES[place](5)], options, pattern, names)


@pytest.mark.parametrize("metric", ["dcg", "ndcg"])
def test_short_discounts(metric):
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
def test_short_discounts_of_the_ideal(metric):
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


def arguments() -> list[tuple]:
    """Every bad value of every option of every metric."""
    table = []
    for metric in [*signatures.RANKING, *signatures.MICRO]:
        for name in signatures.ROWS[metric]:
            rules = ARGUMENTS.get(name, [])
            if name == "denominator":
                rules = [(AP if metric == "ap" else PRECISION, "n")]
            if name == "p" and metric != "err":
                rules = [*rules, (P, 1), (P_NEEDED, None)]
            if name == "p" and metric == "err":
                rules = [*rules, (P, None)]
            if name == "max_rel" and metric == "err":
                rules = [*rules, (MAX_REL_NEEDED, None)]
            for text, bad in rules:
                table.append((metric, name, bad, text))
    return table


@pytest.mark.parametrize(("metric", "name", "bad", "text"), arguments(), ids=str)
def test_argument(metric, name, bad, text):
    """Refused on every engine, in every form; in polars as soon as the function is called."""
    options = {**PLAIN.get(metric, {}), name: bad}
    if metric in signatures.MICRO:
        groups = [[(1, 1, 1), (0, 2, 1), (1, 3, 2)]]
        options |= {"query": Column("query")} if "query" in signatures.ROWS[metric] else {}
    else:
        groups = [[(1, 1), (0, 2), (1, 3)]]
    pattern = message(text, bad) if "{}" in text else message(text)
    first = next(case for case in arguments() if case[:2] == (metric, name))
    # A list form has no option `ideal` of that kind: there it is the column of judged items.
    names = [
        n
        for n in metric_engines.engines_for(metric)
        if (name != "ideal" or n not in metric_engines.LIST)
        # The first of its bad values in all forms, the others in the two that all are made of.
        and (n in ("sql", "polars") or first[2:] == (bad, text))
    ]
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


def test_stop_probabilities():
    """With stop 'rel' grades are probabilities, which are on no scale."""
    for bad in (2, -0.5):
        pattern = message("rel must lie between 0 and 1 for stop 'rel', not {}", bad)
        assert_refused("err", [[(1, 1), (bad, 2)]], {"stop": "rel"}, pattern)
        for name in metric_engines.LIST:
            said = refuses(name, "list_err", [([1, bad], None)], {"stop": "rel"}, pattern)
            assert said is None, said
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
            found = metric_engines.ENGINES[name].run(metric, [group], {"max_rel": max_rel})
            assert found == [value], name


@pytest.mark.parametrize(
    ("metric", "options"),
    [("ndcg", {"k": 10**400}), ("ap", {"threshold": 10**400}), ("rbp", {"p": -(10**400)})],
)
def test_numbers_beyond_floats(metric, options):
    """Of an int, which Python cannot make a float."""
    ((name, bad),) = options.items()
    with pytest.raises(rankql.RankqlError, match=rf"{name} must .*{bad}"):
        getattr(rankql, metric)("rel", "pos", **options)


@pytest.mark.parametrize("metric", ["dcg", "idcg", "ndcg"])
def test_unused_discounts(metric):
    """Every discount is checked, also one that no item needs."""
    pattern = r"discounts must be finite numbers above 0, not .*-1.*"
    for options in ({"discounts": [1, 2, -1]}, {"discounts": [1, -1], "k": 1}):
        assert_refused(metric, [[(1, 1), (0, None)]], options, pattern)


@pytest.mark.parametrize("metric", signatures.RANKING)
def test_ties(metric):
    groups = [[(1, 2.0, "a"), (0, 2.0, "b")]]
    plain = PLAIN.get(metric, {})
    pattern = message("ties must be 'item' or 'expected', not {}", "best")
    assert_refused(f"{metric}_by_score", groups, {**plain, "ties": "best"}, pattern)


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("err", {"max_rel": 1}),
        ("ap", {"denominator": "found"}),
        ("kendall_tau_distance", {"k": 1}),
        ("kendall_tau_distance", {"k": 1, "normalized": True}),
        ("kendall_tau_b", {"k": 1}),
    ],
    ids=str,
)
def test_no_expectation(metric, options):
    """Where the mean over all orders has no closed form, it is refused, in the same words."""
    groups = [[(1, 2.0, "a"), (0, 2.0, "b")]]
    given = {**options, "ties": "expected"}
    said = {
        name: complaint(name, f"{metric}_by_score", groups, given) for name in metric_engines.SCORE
    }
    assert len(set(said.values())) == 1, said
    pattern = rf"ties 'expected' is not available .*{metric}.*\. .+"
    if metric == "err":
        pattern = "ties 'expected' is not available for err. Use 'item'"
    assert re.fullmatch(pattern, said["sql score"])


@pytest.mark.parametrize("metric", ["micro_precision_at", "micro_f1_at"])
def test_query_needed(metric):
    pattern = message("query must be given with k: the column that distinguishes the rankings")
    assert_refused(metric, [[(1, 1, 1), (0, 2, 2)]], {"k": 2}, pattern)


@pytest.mark.parametrize("bad", [*BAD_REL, "1"])
def test_exp2_gain(bad):
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


@pytest.mark.parametrize("metric", signatures.TAKES_IDEAL)
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


@pytest.mark.parametrize("metric", signatures.TAKES_IDEAL)
def test_ideal_list(metric):
    """The list of all judged items is checked as the list shown is."""
    for bad in BAD_REL:
        pattern = message("rel must be a finite number, not {}", bad)
        assert_refused(f"list_{metric}", [([1, 0], [1, 0, bad])], PLAIN.get(metric, {}), pattern)
    pattern = message("rel must be a number, not text. Cast it first")
    kinds = {"ideal": "VARCHAR"}
    assert_refused(
        f"list_{metric}", [([1, 0], ["1", "0"])], PLAIN.get(metric, {}), pattern, **kinds
    )


def test_error_class():
    """One class to catch, which is a ValueError."""
    assert issubclass(rankql.RankqlError, ValueError)
    assert rankql.RankqlError is __import__("rankql.errors").errors.RankqlError


def test_errors_are_read_from_the_source():
    found = [*triggered_errors.in_python(), *triggered_errors.in_sql()]
    assert len(found) > 550 and len({text for error in found for text in error.texts}) > 430


def test_raisers_are_functions_of_the_source():
    source = "\n".join(path.read_text("utf-8") for path in triggered_errors.PACKAGE.rglob("*.py"))
    assert [name for name in triggered_errors.RAISERS if f"def {name}(" not in source] == []


def test_an_error_that_no_test_triggers_is_found():
    """Of all errors only those stay that were not raised, in Python and in SQL."""
    before = triggered_errors.unseen(SEEN)
    nothing = triggered_errors.unseen(set())
    assert (
        len(nothing)
        == len([*triggered_errors.in_python(), *triggered_errors.in_sql()])
        >= len(before)
    )
    with pytest.raises(rankql.RankqlError, match="threshold must be a finite number"):
        rankql.rr("rel", "pos", threshold=NAN)
    with pytest.raises(duckdb.ConversionException, match="base must be"):
        metric_engines.connection().execute("SELECT list_dcg([1], base := 0)").fetchall()
    gone = {str(error) for error in nothing} - {
        str(error) for error in triggered_errors.unseen(SEEN)
    }
    assert any("threshold must" in at for at in gone)
    assert "sql/gain.sql base must be a finite number above 1, not …" in gone


# What no other test triggers: the call, and what is said.

RUN = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "score": [2.0, 1.0, 1.0]})
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1, 1]})
POSITIONS_GIVEN = RUN.select("query", "item", pos=pl.Series([1, 2, 1]))
CLICKS = pl.DataFrame({"query": [1, 1], "item": [1, 2], "pos": [1, 2], "tapped": [1, None]})
KEYS = pl.DataFrame({"query": ["a", "b", "c"], "clicks": [1, 2, 3]})


def rr(runs=RUN, *more, **options):
    return rankql.evaluate(runs, QRELS, "RR", *more, interval=None, **options)


def compared(runs=None, **options):
    runs = {"one": RUN, "two": RUN} if runs is None else runs
    return rankql.compare(runs, QRELS, "RR", **options)


def linked(values, clicks=(1, 2, 3), keys=("a", "b", "c")):
    scores = pl.DataFrame({"query": ["a", "b", "c"], **values})
    return rankql.associate(scores, pl.DataFrame({"query": keys, "clicks": clicks}), on="query")


def sliced(name):
    return RUN.with_columns(segment=pl.lit(name))


PLOTS = {
    "Unknown kind of plot 'pie'": lambda: compared().plot("pie"),
    "Nothing to plot: no pair was compared": lambda: compared({"one": RUN}).plot(),
    "The pair is incomplete. Pass both systems: a= and b=": lambda: compared().plot(
        "differences", b="two"
    ),
}


@pytest.mark.report
@pytest.mark.parametrize("said", PLOTS)
def test_plots(said):
    with pytest.raises(rankql.RankqlError, match=re.escape(said)):
        PLOTS[said]()


IN_PYTHON = {
    "gain must map numbers to numbers, not 1 to 'x'": lambda: rr(gain={1: "x"}),
    "levels must be a list of grades from 0, not 'x'": lambda: rr(levels="x"),
    "float32 must be true or false, not 1": lambda: rr(float32=1),
    ".xlsx": lambda: rankql.convert(RUN, "x.xlsx"),
    "Some runs have positions, others scores": lambda: rr({"one": RUN, "two": POSITIONS_GIVEN}),
    "system= is for a single run. The runs of a dict have their names already": lambda: rr(
        {"one": sliced("x")}, system="segment"
    ),
    "'nDCG(gain)@10': gain must have a value": lambda: rankql.evaluate(RUN, QRELS, "nDCG(gain)@10"),
    "by: segment must have one value per query, but query 'a' has": lambda: rankql.compare(
        {
            name: pl.DataFrame({"query": ["a"], "segment": [name], "RR": [1.0]})
            for name in ("one", "two")
        },
        by="segment",
    ),
    "Two columns of the result would be called 'RR'": lambda: rr(
        RUN.with_columns(RR=pl.lit(1)), by="RR"
    ),
    "by must be names of columns, or lists of them, not [['a'], [1]]": lambda: rr(by=[["a"], [1]]),
    "combine needs at least one result": lambda: rankql.combine([]),
    "File 'no.parquet' does not exist": lambda: rankql.combine(["no.parquet"]),
    "The result 'one' has several systems. Pass it alone": lambda: rankql.compare(
        {"one": rr({"a": RUN, "b": RUN}), "two": rr()}
    ),
    "rels must be a list of grades, not Int64": lambda: QRELS.select(rankql.list_ndcg("rel")),
    "No query has values of both 'RR' and 'clicks'": lambda: rankql.associate(
        *(
            pl.concat(
                KEYS.with_columns(pl.lit(None, pl.Float64).alias(value), system=pl.lit(name))
                for name in "ab"
            )
            for value in ("RR", "clicks")
        ),
        on="query",
        baseline="a",
    ).quadrants(),
    "clicks is too large for some query. Scale it down": lambda: linked(
        {"RR": [1.0, 0.5, 0.2]}, (1.7e308, 1.7e308, 1), ("a", "a", "b")
    ),
    "attention must be a list of numbers, not int": lambda: rankql.exposure("pos", attention=1),
    "normalized must be true or false, not 1": lambda: rankql.novelty(
        "popularity", users=9, normalized=1
    ),
}


@pytest.mark.parametrize("said", IN_PYTHON)
def test_in_python(said):
    with pytest.raises(rankql.RankqlError, match=re.escape(said)):
        IN_PYTHON[said]()


FILES = {
    "run: 'x.run' is empty": lambda: rr("x.run"),
    "'x.run.gz' is damaged or cut off (Not a gzipped file": lambda: rr("x.run.gz"),
    "'half.run.gz' is damaged or cut off (Compressed file ended": lambda: rr("half.run.gz"),
    "'x.parquet' is not a Parquet file": lambda: rankql.combine(["x.parquet"]),
    "output 'folder.parquet' is not a regular file": lambda: rr(output="folder.parquet"),
}


def test_decimals_are_told_from_numbers():
    with pytest.raises(rankql.RankqlError, match=r"between 0 and 1, not Decimal\('0\.5'\)"):
        rankql.rbp("rel", "pos", p=decimal.Decimal("0.5"))


@pytest.mark.parametrize("said", FILES)
def test_files(said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.parquet").mkdir()
    for name, text in {"x.run": "", "x.run.gz": "no", "x.parquet": "no"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "half.run.gz").write_bytes(gzip.compress(b"1 Q0 a 1 0.5 x\n" * 999)[:50])
    with pytest.raises(rankql.RankqlError, match=re.escape(said)):
        FILES[said]()


NEEDS = {
    "compare needs scipy: pip install 'rankql[stats]'": compared,
    "gate needs scipy: pip install 'rankql[stats]'": lambda: rankql.gate(
        {"a": RUN, "b": RUN}, QRELS, baseline="a"
    ),
    "queries_needed needs scipy: pip install 'rankql[stats]'": lambda: rankql.queries_needed(0.3),
    "plot needs altair: pip install 'rankql[report]'": lambda: rr().plot(),
    "dialect spark needs sqlglot: pip install 'rankql[dialects]'": lambda: rankql.translate(
        "SELECT 1", "spark"
    ),
    **{
        f"{what} needs {package}: pip install 'rankql[{extra}]'": lambda stem=stem: runpy.run_path(
            str(triggered_errors.PACKAGE / "engines" / f"{stem}.py")
        )
        for stem, what, package, extra in [
            ("spark", "rankql.spark", "pyspark", "spark"),
        ]
    },
}


@pytest.mark.parametrize("said", NEEDS)
def test_missing_packages(said, monkeypatch):
    monkeypatch.setattr("rankql.errors.find_spec", lambda name: None)
    with pytest.raises(rankql.RankqlError, match=re.escape(said)):
        NEEDS[said]()


def test_packages_missing_later(monkeypatch, tmp_path):
    """To plot and to write a report, which come after scipy was needed."""
    comparison, link = compared(), linked({"RR": [1.0, 0.5, 0.2]})
    monkeypatch.setattr("rankql.errors.find_spec", lambda name: None)
    for shown in (comparison, link):
        with pytest.raises(rankql.RankqlError, match="plot needs altair"):
            shown.plot()
    with pytest.raises(rankql.RankqlError, match="report needs"):
        comparison.save(tmp_path / "report.html")


IN_SQL = {
    "reference must be a number, not text. Cast it first": "tau_ap('1'::TEXT, 1)",
    "exposure must be a number, not text. Cast it first": "exposure_disparity('1', 1)",
    "target must be a number, not text. Cast it first": "expected_exposure_loss(1, '1')",
    "grades must be a MAP of events and their grades, not 3": "graded('view', 3)",
    "since must be a timestamp, as moment is, not 3": (
        "split FROM time_split('timed', since := 3)"
    ),
    "within must be an interval above 0, as moment is a timestamp, not 3": (
        "graded('view', MAP {'view': 1}, moment := TIMESTAMP '2026-01-01', "
        "until := TIMESTAMP '2026-01-02', within := 3)"
    ),
    "tapped must be 0 or 1, not NULL": "* FROM harvested_propensity('clicks', click := 'tapped')",
    "b must not hold NULL": "team_draft(['x'], ['y', NULL], seed := 1)",
}


@pytest.mark.parametrize("said", IN_SQL)
def test_in_sql(said):
    with metric_engines.connect() as con:
        con.register("clicks", CLICKS)
        con.execute("CREATE TEMP TABLE timed AS SELECT TIMESTAMP '2026-01-01' AS time")
        with pytest.raises(duckdb.ConversionException, match=re.escape(said)):
            con.execute(f"SELECT {IN_SQL[said]}").fetchall()


CG = "SELECT u, cg(rel, pos) FROM t"
# By engine: what is refused, and of which query.
NO_TRANSLATION = {
    **{
        (engine, said): query
        for engine in ("spark", "clickhouse")
        for said, query in {
            "list_sort() in another order than 'ASC' or 'DESC'": "SELECT list_sort(x) FROM t",
            "Bracket": "SELECT x[2:3] FROM t",
            "SimilarTo": "SELECT x SIMILAR TO y FROM t",
            "the table function ABS(3)": "FROM abs(3)",
            "a cast": "SELECT CAST(x AS INT) FROM t",
            "Like": "SELECT x LIKE 'a%' FROM t",
            "BY NAME": "SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS a",
            # Where the word is no keyword it would be an alias of t, and the join another one.
            "POSITIONAL JOIN": "FROM t POSITIONAL JOIN s",
            "ASOF JOIN": "FROM t ASOF JOIN s USING (u)",
        }.items()
    },
    ("postgres", "SEMI JOIN"): f"{CG} SEMI JOIN s USING (u) GROUP BY u",
    ("postgres", "ANTI JOIN"): f"{CG} ANTI JOIN s USING (u) GROUP BY u",
    ("postgres", "ORDER BY within sum()"): f"SELECT sum(x ORDER BY y), {CG[7:]} GROUP BY u",
    ("postgres", "strftime()"): f"SELECT strftime(u, '%Y'), {CG[7:]} GROUP BY u",
    ("postgres", "Bracket"): "SELECT cg(rel[1], pos) FROM t",
    ("postgres", "GROUP BY with grouping sets"): f"{CG} GROUP BY u WITH ROLLUP",
}


@pytest.mark.parametrize(("engine", "said"), NO_TRANSLATION)
def test_no_translation(engine, said):
    with pytest.raises(rankql.RankqlError, match=rf"{re.escape(said)}.* has no translation for"):
        rankql.translate(NO_TRANSLATION[engine, said], engine)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT u FROM a EXCEPT ({CG} GROUP BY u)", "Except has no translation for Postgres"),
        ("SELECT cg(rel, pos, k := DATE '2026-01-01') FROM t", "An option must be a number, a"),
    ],
)
def test_no_window_form(query, said):
    with pytest.raises(rankql.RankqlError, match=re.escape(said)):
        rankql.translate(query, "postgres")


@pytest.mark.parametrize(
    ("body", "said"),
    [("sum(list_zip(rel, pos))", "list_zip()"), ("sum(rel[pos])", "Bracket")],
)
def test_a_macro_without_window_form(body, said, monkeypatch):
    """What a macro might be written with one day is refused, too, and not passed on."""
    from rankql.engines import windows
    from rankql.engines.sql_trees import parse_sql
    from rankql.engines.window_macros import window_macros

    macro = dataclasses.replace(window_macros()["cg"], body=parse_sql(body, "duckdb"))
    monkeypatch.setitem(window_macros(), "cg", macro)
    with pytest.raises(rankql.RankqlError, match=re.escape(f"cg: {said} has no translation")):
        windows.translate_to_windows(f"{CG} GROUP BY u", "postgres")


@pytest.mark.spark
def test_spark_before_its_session(monkeypatch):
    from rankql.engines import spark

    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(rankql.RankqlError, match="ndcg: start a Spark session first"):
        spark.ndcg("rel", "pos")


def test_what_a_part_of_spark_says():
    """The columns of a part are found out on no rows, where an expression may be wrong."""
    metrics = parse("bought = max(price)")
    task = partitions.Task([None], {}, None, (), [], metrics, Conventions())
    empty = {"run": RUN.clear().to_arrow(), "qrels": QRELS.clear().to_arrow()}
    with pytest.raises(rankql.RankqlError, match="price"):
        partitions.evaluate_partition(task, empty)


def test_judged_twice_and_not_in_the_run():
    twice = pl.concat([QRELS, QRELS.tail(1)])
    with pytest.raises(rankql.RankqlError, match="'x'"):
        rankql.explain(RUN.head(2), twice, "b", "nDCG@10")


def test_a_score_that_is_nan():
    """Also where the best scores of a run are looked at first."""
    for score in ([NAN, 1.0, 1.0], [1.0, NAN, 1.0]):
        with pytest.raises(rankql.RankqlError, match="score must be a number, not"):
            rankql.evaluate(
                RUN.with_columns(score=pl.Series(score)), QRELS, "nDCG@1", interval=None
            )


def test_on_the_command_line():
    for arguments, said in {
        ("sql", "a", "b", "--dialect", "spark"): "With --dialect, pass one QUERY",
        ("correlate", "x"): "Pass RUN... REFERENCE",
    }.items():
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2 and said in done.stderr
