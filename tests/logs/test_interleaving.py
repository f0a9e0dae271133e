"""Interleaving: lists and credit by hand, bias by enumeration, SQL as Python, the sign test."""

import math
import random
import re
from collections import Counter
from datetime import date, datetime
from fractions import Fraction
from itertools import permutations, product
from uuid import UUID

import duckdb
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest

import rankql
from rankql.errors import database_message
from rankql.logs import interleaving
from support import metric_engines

A, B = list("abcd"), list("bcda")


def tosses(monkeypatch, heads):
    """Let the tosses of the rounds be these."""
    monkeypatch.setattr(interleaving, "_is_heads", lambda seed, toss: [*heads, True][toss])


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
        ((True,), {"prefix": True, "k": 1}, "abcd", "abdc", "a-"),
        ((True,), {"prefix": True}, "ab", "ab", "a-b-"),
        # It ends where one has nothing new; a round has two picks whoever goes first, or one.
        ((True, True), {}, "a", "xyz", "aAxB"),
        ((False, True), {}, "a", "xyz", "xBaA"),
        ((True, True), {}, "a", "ab", "aA"),
        ((False, True), {}, "a", "ab", "aB"),
        ((True,), {}, "", "xyz", ""),
    ],
)
def test_team_draft(monkeypatch, heads, options, a, b, shown):
    """By hand."""
    tosses(monkeypatch, heads)
    assert drafted(rankql.team_draft(a, b, seed=0, **options)) == shown


def shares(outcomes):
    """The chances that A wins and that B does."""
    counts, outcomes = Counter(outcomes), list(outcomes)
    return tuple(Fraction(counts[sign], len(outcomes)) for sign in (1, -1))


@pytest.mark.parametrize("k", [2, 3, 4])
def test_team_draft_is_not(monkeypatch, k):
    outcomes = []
    for heads in product([True, False], repeat=2):
        tosses(monkeypatch, heads)
        picks = rankql.team_draft(A, B, k, seed=0)
        outcomes += [rankql.team_draft_credit(picks, [pick["item"]]) for pick in picks]
    assert shares(outcomes) == (Fraction(1, 2), Fraction(1, 2))


RANKINGS = st.lists(st.sampled_from("abcdefgé"), max_size=6, unique=True)


@given(a=RANKINGS, b=RANKINGS, k=st.sampled_from([None, 1, 2, 3, 4]), prefix=st.booleans())
def test_team_draft_favours_nobody(a, b, k, prefix):
    """A click that looks at the place alone prefers neither, whatever the rankings."""
    balance = Fraction(0)
    with pytest.MonkeyPatch.context() as patch:
        for heads in product([True, False], repeat=6):
            tosses(patch, heads)
            picks = rankql.team_draft(a, b, k, 0, prefix)
            credits = [rankql.team_draft_credit(picks, [pick["item"]]) for pick in picks]
            balance += Fraction(int(sum(credits)), max(1, len(picks)))
    assert balance == 0


def test_tosses_are_even():
    """And those of one seed do not tell those of the next, nor of the next round."""
    heads = [[interleaving._is_heads(seed, toss) for toss in range(2)] for seed in range(4000)]
    counts = Counter(map(tuple, heads))
    assert all(abs(count - 1000) < 4 * math.sqrt(750) for count in counts.values())


def test_credit():
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
def test_sql_as_python(showings, k, prefix):
    """The same seed shows the same list, and the same clicks prefer the same ranking."""
    con = metric_engines.connection()
    kinds = {"a": pl.List(pl.String), "b": pl.List(pl.String), "seed": pl.Int64,
             "clicks": pl.List(pl.String)}  # fmt: skip
    con.register("handed", pl.DataFrame(showings, kinds, orient="row").with_row_index().to_arrow())
    k_sql = metric_engines.literal(k)
    found = con.execute(f"""
        SELECT drafted, team_draft_credit(drafted, clicks)
        FROM (SELECT *, team_draft(a, b, {k_sql}, seed, prefix := {prefix}) AS drafted FROM handed)
        ORDER BY index
    """).fetchall()
    for (a, b, seed, clicks), row in zip(showings, found, strict=True):
        picks = rankql.team_draft(a, b, k, seed, prefix)
        assert row == (picks, rankql.team_draft_credit(picks, clicks))


@given(st.lists(st.sampled_from([None, 1, 1, 0, -1, 0.5]), max_size=40))
def test_sign_test(values):
    """As scipy, ties left out; SQL as polars."""
    wins, losses = (sum(1 for v in values if v and v * side > 0) for side in (1, -1))
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else None
    frame = pl.DataFrame({"preference": values}, {"preference": pl.Float64})
    metric_engines.connection().register("handed", frame.to_arrow())
    sql = (
        metric_engines.connection()
        .execute("SELECT sign_test(preference) FROM handed")
        .fetchall()[0][0]
    )
    for found in (sql, frame.select(rankql.sign_test()).item()):
        assert metric_engines.same(found, None if expected is None else float(expected))


def test_sign_test_of_many():
    """lgamma() is good enough for a million showings."""
    for wins in (499_000, 500_000, 0):
        values = pl.Series("preference", [1.0]).new_from_index(0, wins)
        values = values.append(pl.Series("preference", [-1.0]).new_from_index(0, 1_000_000 - wins))
        expected = binomtest(wins, 1_000_000).pvalue
        frame = values.to_frame()
        metric_engines.connection().register("handed", frame.to_arrow())
        found = metric_engines.connection().execute("SELECT sign_test(preference) FROM handed")
        assert abs(found.fetchall()[0][0] - expected) < 1e-7
        if wins == 0:
            assert frame.select(rankql.sign_test()).item() == 0


def test_a_log_of_showings():
    """An experiment end to end: users who like B's first item, found in SQL."""
    draw = random.Random(5)
    rows = []
    for showing in range(400):
        shown = rankql.team_draft(A, ["d", "a", "b", "c"], 2, seed=showing)
        clicks = [
            p["item"] for p in shown if draw.random() < {"d": 0.5, "a": 0.2}.get(p["item"], 0)
        ]
        rows.append((showing, clicks))
    kinds = {"showing": pl.Int64, "clicks": pl.List(pl.String)}
    metric_engines.connection().register(
        "handed", pl.DataFrame(rows, kinds, orient="row").to_arrow()
    )
    won, p = (
        metric_engines.connection()
        .execute("""
        SELECT avg(preference), sign_test(preference) FROM (
            SELECT team_draft_credit(
                team_draft(['a', 'b', 'c'], ['d', 'a', 'b'], 2, showing), clicks) AS preference
            FROM handed)
    """)
        .fetchall()[0]
    )
    assert won < -0.2 and p < 0.001


def sql(text):
    return lambda: metric_engines.connection().execute(f"SELECT {text}").fetchall()


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda: rankql.team_draft("ab", "ba"), "seed must be given: .*"),
        (sql("team_draft(['a', 'b'], ['b', 'a'])"), "seed must be given: .*"),
        (lambda: rankql.team_draft("aa", "b", seed=1), "a must not hold an item twice"),
        (sql("team_draft(['a', 'a'], ['b'], seed := 1)"), "a must not hold an item twice"),
        (lambda: rankql.team_draft("a", "bb", seed=1), "b must not hold an item twice"),
        (sql("team_draft(['a'], ['b', 'b'], seed := 1)"), "b must not hold an item twice"),
        (lambda: rankql.team_draft(["a", None], "b", seed=1), "a must not hold NULL"),
        (sql("team_draft(['a', NULL], ['b'], seed := 1)"), "a must not hold NULL"),
        (lambda: rankql.team_draft("a", "b", 0, seed=1), "k must be a whole number .* not 0. .*"),
        (sql("team_draft(['a'], ['b'], 0, 1)"), "k must be a whole number .* not 0. .*"),
        (lambda: rankql.team_draft("a", "b", 1, 1, "yes"), "prefix must be true or false, not yes"),
        (sql("team_draft(['a'], ['b'], 1, 1, 'yes')"), "prefix must be true or false, not yes"),
        (lambda: pl.DataFrame({"preference": [math.nan]}).select(rankql.sign_test()),
         "preference must be a finite number, not (?i:nan)"),
        (sql("sign_test('nan'::DOUBLE)"), "preference must be a finite number, not nan"),
        (lambda: pl.DataFrame({"preference": ["1"]}).select(rankql.sign_test()),
         "preference must be a number, not text. Cast it first"),
        (lambda: pl.DataFrame({"preference": [date(2024, 5, 1)]}).select(rankql.sign_test()),
         "preference must be a finite number, not 2024-05-01"),
        (sql("sign_test(DATE '2024-05-01')"), "preference must be a finite number, not 2024-05-01"),
        (sql("sign_test('1')"), "preference must be a number, not text. Cast it first"),
        # One item is not a list of items, nor of the letters of its name.
        (lambda: rankql.team_draft_credit([], "tea"), "clicks must be a list of items, not tea"),
        (sql("team_draft_credit(team_draft(['a'], ['b'], seed := 1), 'a')"),
         "clicks must be a list of items, not a"),
        *((lambda picks=picks: rankql.team_draft_credit(picks, ["a"]),
           "picks must be a list of items and their teams, as of team_draft, not .*")
          for picks in ("a", None, ["a"], [{"item": "a"}])),
        *((sql(f"team_draft_credit({picks}, ['a'])"),
           "picks must be a list of items and their teams, as of team_draft, not .*")
          for picks in ("'a'", "['a']", "[{'item': 'a', 'steam': 'A'}]", "[{'team': 'A'}]")),
        (lambda: rankql.team_draft({"a"}, "b", seed=1), "a must be a list of items, not {'a'}"),
        (lambda: rankql.team_draft(None, "b", seed=1), "a must be a list of items, not None"),
        (lambda: rankql.team_draft("a", 3, seed=1), "b must be a list of items, not 3"),
        (sql("team_draft('abc', 'bca', seed := 1)"), "a must be a list of items, not abc"),
        (sql("team_draft(['a'], 3, seed := 1)"), "b must be a list of items, not 3"),
        *((lambda seed=seed: rankql.team_draft("a", "b", seed=seed),
           "seed must be text, a whole number or a UUID, not .*")
          for seed in (True, 1.0, date(2024, 5, 1), datetime(2024, 5, 1, 1, 1, 1, 5), b"x", [1])),
        *((sql(f"team_draft(['a'], ['b'], seed := {seed})"),
           "seed must be text, a whole number or a UUID, not .*")
          for seed in ("true", "1.0", "1e0", "DATE '2024-05-01'", "now()", "'x'::BLOB", "['a']")),
    ],
)  # fmt: skip
def test_refuses(run, said):
    with pytest.raises((rankql.RankqlError, duckdb.ConversionException)) as error:
        run()
    text = database_message(error.value)
    assert re.fullmatch(said, text)


@pytest.mark.parametrize(
    "seed", [7, -(2**70), "é:1", "True", UUID("6F9619FF-8B86-D011-B42D-00CF4FC964FF")], ids=str
)
def test_seeds_are_written_alike(seed):
    """Several showings each, so that a toss that differs is seen."""
    given = f"'{seed}'::UUID" if isinstance(seed, UUID) else metric_engines.literal(seed)
    a, b = list("abcdefghij"), list("jihgfedcba")
    call = f"team_draft({metric_engines.literal(a)}, {metric_engines.literal(b)}, seed := {given})"
    assert sql(call)() == [(rankql.team_draft(a, b, seed=seed),)]


def test_collation_merges_no_items():
    con = metric_engines.connect(default_collation="nocase")
    a, b, clicks = list("aAbB"), list("Aab"), ["a", "B"]
    listed = ", ".join(map(metric_engines.literal, (a, b)))
    for seed in range(4):
        picks = rankql.team_draft(a, b, seed=seed, prefix=True)
        found = con.execute(f"""
            SELECT *, team_draft_credit(picks, {clicks})
            FROM (SELECT team_draft({listed}, seed := {seed}, prefix := true) AS picks)
        """).fetchall()
        assert found == [(picks, rankql.team_draft_credit(picks, clicks))]


def test_picks_from_a_log():
    """With fields of its own, in any order; items as they are."""
    picks = "[{'pos': 1, 'team': 'A', 'item': 7}, {'pos': 2, 'team': 'B', 'item': 8}]"
    assert sql(f"team_draft_credit({picks}, [8])")() == [(-1.0,)]


def test_a_whole_k_may_be_a_float():
    picks = rankql.team_draft("abc", "abd", k=2.0, seed=1, prefix=True)
    assert drafted(picks) == "a-b-"
