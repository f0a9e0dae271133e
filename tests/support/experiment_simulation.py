"""How often experiments decide wrongly: `python tests/run_simulation.py --experiment`.

The macros compare thousands of simulated experiments in one query.
"""

import duckdb
import numpy as np
import polars as pl

import rankql
from rankql.online.bounded_sequence import bounded_p
from support.simulation import ALPHA, REPEATS, percent, rows

SIZES = (200, 1_000, 5_000)
LIFT = 0.1
LOOKS = 20


def revenue(rng, n, lift):
    """One user in ten buys, for a lognormal amount (skewness about 14); half of it is habit."""
    habit = rng.lognormal(0, 0.7, n)
    buys = rng.random(n) < 0.1
    return buys * habit * rng.lognormal(0, 0.7, n) * (1 + lift), np.ones(n), habit


def watch_time(rng, n, lift):
    """Watch time: exponential, as it was before but for noise."""
    before = rng.exponential(1, n)
    return (0.7 * before + 0.3 * rng.exponential(1, n)) * (1 + lift), np.ones(n), before


def ctr(rng, n, lift):
    """Clicks of impressions: users differ in both."""
    impressions = 1 + rng.negative_binomial(1, 0.1, n)
    rate = rng.beta(1, 9, n)
    return rng.binomial(impressions, rate * (1 + lift)).astype(float), impressions * 1.0, rate


SHAPES = {"revenue": revenue, "watch time": watch_time, "clicks / impressions": ctr}
# The true means: of revenue 0.1 * exp(0.49), and so on.
TRUE = {"revenue": 0.1 * np.exp(0.49), "watch time": 1.0, "clicks / impressions": 0.1}


def draw(shape, n, lift, repeats, seed):
    """Rows of so many experiments, with n users per arm."""
    rng, frames = np.random.default_rng([seed, n]), []
    for arm, effect in (("a", 0.0), ("b", lift)):
        value, divisor, before = SHAPES[shape](rng, n * repeats, effect)
        columns = {"value": value, "divisor": divisor, "before": before}
        index = pl.int_range(n * repeats, eager=True)
        frames.append(pl.DataFrame(columns).with_columns(
            arm=pl.lit(arm), trial=index // n, look=index % n * LOOKS // n))  # fmt: skip
    return pl.concat(frames)


def compared(users, before="0", by="", **options):
    """The differences of all trials, as columns."""
    con = duckdb.connect()
    rankql.register(con)
    con.register("users", users)
    given = "".join(f", {name} := {value}" for name, value in options.items())
    states = f"""SELECT trial, arm, look, experiment_moments(value, divisor, {before}) AS state
                 FROM users GROUP BY ALL"""
    if by == "look":
        states = f"""SELECT trial, arm, looks.look, experiment_merge(state) AS state
            FROM ({states}) AS s JOIN (SELECT DISTINCT look FROM users) AS looks
            ON s.look <= looks.look GROUP BY ALL"""
    else:
        states = states.replace(" look,", " 0 AS look,").replace(
            "users GROUP BY ALL", "users GROUP BY trial, arm"
        )
    found = con.sql(f"""
        WITH states AS MATERIALIZED ({states})
        SELECT trial, b.look, experiment_difference(b.state, a.state{given}) AS d
        FROM states AS a JOIN states AS b USING (trial, look)
        WHERE a.arm = 'a' AND b.arm = 'b' ORDER BY trial, look""").pl()
    return found.unnest("d")


def rates(shape, n, repeats=REPEATS, before="0"):
    """Type I error; coverage of a lift of 10%, as a difference and relative; power."""
    null = compared(draw(shape, n, 0.0, repeats, 1), before)
    real = compared(draw(shape, n, LIFT, repeats, 2), before)
    true = LIFT * TRUE[shape]
    return {
        "type I": null.select((pl.col("p") <= ALPHA).mean()).item(),
        "coverage": real.select(pl.lit(true).is_between("lo", "hi").mean()).item(),
        # Without an interval nothing is claimed.
        "lift": real.drop_nulls("lift_lo")
        .select(pl.lit(LIFT).is_between("lift_lo", "lift_hi").mean()).item(),
        "power": real.select((pl.col("p") <= ALPHA).mean()).item(),
    }  # fmt: skip


def peeked(shape, n, repeats=REPEATS, **options):
    """Twenty looks: the share of experiments without an effect that ever reject; power at last."""
    shares = []
    for lift, last in ((0.0, False), (LIFT, True)):
        found = compared(draw(shape, n, lift, repeats, 3), by="look", **options)
        found = found.filter(look=LOOKS - 1) if last else found
        ever = found.group_by("trial").agg((pl.col("p") <= ALPHA).any())
        shares.append(ever["p"].fill_null(False).mean())
    return tuple(shares)


def betted(n, repeats, rate=0.1):
    """The same for betting on conversions, whose rate doubles if there is an effect."""
    shares = []
    for effect in (1, 2):
        rng, rejected = np.random.default_rng([n, effect]), 0
        for _ in range(repeats):
            a, b = rng.binomial(1, rate, n) * 1.0, rng.binomial(1, rate * effect, n) * 1.0
            looks = range(n // LOOKS, n + 1, n // LOOKS)
            rejected += any(bounded_p(b[:k], a[:k], (0, 1)) <= ALPHA for k in looks)
        shares.append(rejected / repeats)
    return tuple(shares)


def experiment_tables(repeats):
    """The tables of the page on experiments."""
    body = []
    for shape in SHAPES:
        for before in ("0", "before"):
            name = shape + (", CUPED" if before != "0" else "")
            for n in SIZES:
                found = rates(shape, n, repeats, before)
                body.append([name, f"{n:,}", *map(percent, found.values())])
    head = ["metric", "users per arm", "false alarms", "interval holds the true difference",
            "interval holds the true lift", "power"]  # fmt: skip
    print(rows(head, *body), end="\n\n")
    body = []
    for shape in SHAPES:
        for name, options in (("Welch's t test", {}), ("asymptotic", {"burn_in": 500})):
            found = peeked(shape, 5_000, repeats, **options)
            body.append([shape, name, *map(percent, found)])
    found = betted(1_000, repeats // 5)
    body.append(["bought (0 or 1)", "betting, n = 1,000", *map(percent, found)])
    print(rows(["metric", "20 looks with", "ever a false alarm", "power at the end"], *body))
