"""Interleaving: lists and credit by hand, bias by enumeration, SQL as Python, the sign test."""

from datetime import date
from fractions import Fraction
from itertools import permutations, product
from uuid import UUID

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest

import rankql
from support import calls, metric_engines
from support.calls import assert_message
from support.parameters import few

A, B = list("abcd"), list("bcda")


def tosses(seed):
    """Who picks first in each round: of rankings without a common item, every second pick."""
    picks = rankql.team_draft([*"abcdef"], [*"uvwxyz"], seed=seed)
    return tuple(pick["team"] == "A" for pick in picks)[::2]


# A seed for every outcome of the first two tosses, and of six.
SEED_OF = {tosses(seed)[:2]: seed for seed in range(40)}
ALL_SEEDS = {tosses(seed): seed for seed in range(600)}


def drafted(picks):
    return "".join(f"{pick['item']}{pick['team'] or '-'}" for pick in picks)


@pytest.mark.parametrize(
    ("heads", "options", "a", "b", "shown"),
    [
        ((True, True), {}, "abcd", "bcda", "aAbBcAdB"),
        ((True, False), {}, "abcd", "bcda", "aAbBcBdA"),
        ((False, True), {}, "abcd", "bcda", "bBaAcAdB"),
        ((False, False), {}, "abcd", "bcda", "bBaAcBdA"),
        ((True, True), {"k": 3}, "abcd", "bcda", "aAbBcA"),
        # The tops that are the same are of no team, the first pick after them is tossed for.
        ((False, True), {"prefix": True}, "abcd", "abdc", "a-b-dBcA"),
        ((True,), {"prefix": True, "k": 1.0}, "abcd", "abdc", "a-"),
        ((True,), {"prefix": True}, "ab", "ab", "a-b-"),
        # It ends where one has nothing new; a round has two picks whoever goes first, or one.
        ((True, True), {}, "a", "xyz", "aAxB"),
        ((False, True), {}, "a", "xyz", "xBaA"),
        ((True, True), {}, "a", "ab", "aA"),
        ((False, True), {}, "a", "ab", "aB"),
        ((True,), {}, "", "xyz", ""),
    ],
)
def test_team_draft_by_hand(heads, options, a, b, shown):
    seed = next(seed for tossed, seed in SEED_OF.items() if tossed[: len(heads)] == heads)
    assert drafted(rankql.team_draft([*a], [*b], seed=seed, **options)) == shown


RANKINGS = st.lists(st.sampled_from("abcdefgé"), max_size=6, unique=True)


@given(a=RANKINGS, b=RANKINGS, k=st.sampled_from([None, 1, 2, 3, 4]), prefix=st.booleans())
def test_clicks_by_place_favour_no_ranking(a, b, k, prefix):
    """A click that looks at the place alone prefers neither, whatever the rankings."""
    balance = Fraction(0)
    assert len(ALL_SEEDS) == 2**6
    for seed in ALL_SEEDS.values():
        picks = rankql.team_draft(a, b, k, seed, prefix)
        credits = [rankql.team_draft_credit(picks, [pick["item"]]) for pick in picks]
        balance += Fraction(int(sum(credits)), max(1, len(picks)))
    assert balance == 0


def test_credit_goes_to_the_ranking_with_more_clicks():
    picks = rankql.team_draft(A, B, seed=1)  # b, c of B and a, d of A
    assert drafted(picks) == "bBaAcBdA"
    for clicks, credit in [("b", -1), ("bc", -1), ("bcd", -1), ("ab", 0), ("adc", 1), ("", 0)]:
        assert rankql.team_draft_credit(picks, list(clicks)) == credit
    assert rankql.team_draft_credit([{"item": "a", "team": None}], ["a"]) == 0


SHOWINGS = st.lists(
    st.tuples(RANKINGS, RANKINGS, st.integers(0, 99), st.lists(st.sampled_from("abcdefg"))),
    min_size=1,
    max_size=8,
)


# All rankings of up to two of three items, each showing with four seeds.
SHORT = [list(items) for n in range(3) for items in permutations("abc", n)]
EVERY = [(a, b, seed, ["a"]) for a, b in product(SHORT, repeat=2) for seed in range(4)]


@example(showings=EVERY, k=None, prefix=False)
@example(showings=EVERY, k=None, prefix=True)
@given(showings=SHOWINGS, k=st.sampled_from([None, 1, 2, 3, 5, 9]), prefix=st.booleans())
def test_sql_equals_python(showings, k, prefix):
    """The same seed shows the same list, and the same clicks prefer the same ranking."""
    con = metric_engines.connection()
    kinds = {"a": pl.List(pl.String), "b": pl.List(pl.String), "seed": pl.Int64,
             "clicks": pl.List(pl.String)}  # fmt: skip
    con.register(
        "input_rows", pl.DataFrame(showings, kinds, orient="row").with_row_index().to_arrow()
    )
    k_sql = metric_engines.literal(k)
    result = con.execute(f"""
        SELECT drafted, team_draft_credit(drafted, clicks)
        FROM (SELECT *, team_draft(a, b, {k_sql}, seed, prefix := {prefix}) AS drafted
              FROM input_rows)
        ORDER BY index
    """).fetchall()
    for (a, b, seed, clicks), row in zip(showings, result, strict=True):
        picks = rankql.team_draft(a, b, k, seed, prefix)
        assert row == (picks, rankql.team_draft_credit(picks, clicks))


@given(st.lists(st.sampled_from([None, 1, 1, 0, -1, 0.5]), max_size=40))
def test_sign_test_equals_scipy(values):
    """Ties are left out."""
    wins, losses = (sum(1 for v in values if v and v * side > 0) for side in (1, -1))
    expected = float(binomtest(wins, wins + losses).pvalue) if wins + losses else None
    frame = pl.DataFrame({"preference": values}, {"preference": pl.Float64})
    for result in calls.both("sign_test(preference)", frame):
        assert metric_engines.same(result, expected)


def sql(text):
    return lambda: metric_engines.connection().execute(f"SELECT {text}").fetchall()


SEED = {"seed": 1}
LISTED, TEAMS, SEEDS = (
    "must be a list of items, not ",
    "picks must be a list of items and their teams, as of team_draft, not .*",
    "seed must be text, a whole number or a UUID, not .*",
)


@few(3)(
    ("a", "b", "options", "message"),
    [
        (["a", "b"], ["b", "a"], {}, "seed must be given: .*"),
        (["a", "a"], ["b"], SEED, "a must not hold an item twice"),
        (["a"], ["b", "b"], SEED, "b must not hold an item twice"),
        (["a", None], ["b"], SEED, "a must not hold NULL"),
        (["a"], ["b"], SEED | {"k": 0}, "k must be a whole number .* not 0. .*"),
        (["a"], ["b"], SEED | {"prefix": "yes"}, "prefix must be true or false, not yes"),
        (["a"], 3, SEED, f"b {LISTED}3"),
        ("abc", ["b"], SEED, f"a {LISTED}abc"),  # or the name of a column
        *((["a"], ["b"], {"seed": seed}, SEEDS) for seed in (True, 1.5, date(2024, 5, 1), ["a"])),
    ],
)
def test_team_draft_refuses(a, b, options, message):
    call = f"team_draft({calls.literal(a)}, {calls.literal(b)}{calls.options_of(options)})"
    assert_message("sql", sql(call), message)
    assert_message("python", lambda: rankql.team_draft(a, b, **options), message)


@few(3)(
    ("run", "message"),
    [
        (lambda: rankql.team_draft(None, "b", seed=1), f"a {LISTED}None"),
        (sql("team_draft(['a'], ['b'], seed := now())"), SEEDS),
        (sql("team_draft_credit(team_draft(['a'], ['b'], seed := 1), 'a')"), f"clicks {LISTED}a"),
        *((lambda picks=picks: rankql.team_draft_credit(picks, ["a"]), TEAMS)
          for picks in ("a", None, ["a"], [{"item": "a"}])),
        *((sql(f"team_draft_credit({picks}, ['a'])"), TEAMS)
          for picks in ("'a'", "['a']", "[{'item': 'a', 'steam': 'A'}]")),
    ],
)  # fmt: skip
def test_arguments_of_the_wrong_type_are_refused(run, message):
    assert_message("", run, message)


@few(2)("seed", [7, -(2**70), "é:1", "True", UUID("6F9619FF-8B86-D011-B42D-00CF4FC964FF")], ids=str)
def test_a_seed_draws_the_same_in_sql_and_python(seed):
    """Several showings each, so that a toss that differs is seen."""
    text = f"'{seed}'::UUID" if isinstance(seed, UUID) else metric_engines.literal(seed)
    a, b = list("abcdefghij"), list("jihgfedcba")
    call = f"team_draft({metric_engines.literal(a)}, {metric_engines.literal(b)}, seed := {text})"
    assert sql(call)() == [(rankql.team_draft(a, b, seed=seed),)]
