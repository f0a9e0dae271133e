"""What did the change do for users? The randomised arms of an experiment compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.online.experiment_result import Experiment
from rankql.online.unit_states import open_units
from rankql.registry.argument_checks import as_number, require, require_probability
from rankql.sources.session import open_session
from rankql.sources.tables import Data

# A plan: the largest lift, the fewest units of a table, and the most units per arm.
MOST_LIFT = 10
LEAST_PLANNED = 10
_MOST_NEEDED = 10**10
_PLAN = {
    "metric": pl.String,
    "units": pl.Int64,
    **dict.fromkeys(("mean", "sd", "detectable", "detectable_lift", "lift"), pl.Float64),
    "units_needed": pl.Int64,
}


def experiment(
    table: Data,
    *,
    metrics: str | Sequence[str],
    arm: str = "arm",
    unit: str = "user",
    control: str | None = None,
    ratio: Mapping[str, float] | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    before: str | Mapping[str, str] | None = None,
    correction: str = "holm",
    confidence: float = 0.95,
    sequential: bool = False,
    burn_in: int = 1_000,
    bounds: Mapping[str, Sequence[float]] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Experiment:
    """Compare the arms of an A/B test: how large is each difference, and is it significant?

    `table` has a row per user, or several, with the column `arm`. Users without events must be in
    it too, with 0. `metrics` are columns of numbers. The rows of a user are added up first; those
    of ranking metrics, such as 'nDCG@10', are averaged. 'sum(x)', 'mean(x)' and 'max(x)' choose.
    'clicks/impressions' is the ratio of the arm's totals. Every arm is compared with `control`,
    which is recognised by its name: 'control', 'baseline', 'A', 'old', 'off', 0.

    The difference b - a has the interval and p-value of Welch's t test over users; for ratios, with
    the standard error of the delta method. The lift, (b - a) / a, has Fieller's interval. It is the
    delta method's where the control's mean is many standard errors above 0, and excludes 0 exactly
    if the difference does. `correction` adjusts for all rows of the table: 'holm', 'bonferroni',
    'bh' or 'none'; each interval has the level of its own test. `by` names attributes of users for
    slices, known before the experiment: a slice whose size depends on the arm is refused.

    `ratio` is the planned split, such as {'A': 9, 'B': 1}; equal by default. If the sizes of the
    arms contradict it (chi-square p < 0.001), nothing is computed. `before` is a column from before
    the experiment, such as last month's revenue, or a dict of metric: column. It removes the part
    of the variance that it explains (CUPED, Deng et al. 2013). Users without a value get the mean.

    p-values hold for one look. With `sequential`, they hold at every look: by betting for columns
    with `bounds`, such as {'bought': (0, 1)}, for any number of users; else asymptotically
    (Waudby-Smith et al. 2024), from `burn_in` users per arm on. A user must then count only once
    his value is final, such as the revenue of the first 7 days.

    >>> import polars as pl
    >>> sleep = pl.DataFrame({"user": range(20), "arm": ["A"] * 10 + ["B"] * 10, "hours": [
    ...     0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0,
    ...     1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]})
    >>> print(experiment(sleep, metrics="hours").sentences[0])
    hours: no significant difference between B and A: 1.6 (95% CI -0.2 to 3.4; p = 0.079; \
10 and 10 users). A difference of about 2.5 would have been detected with 80% power
    """
    require_package("scipy", "stats", "experiment")
    from rankql.online.arm_differences import (
        SCHEMA,
        ExperimentSettings,
        check_known,
        check_ratio,
        check_slices,
        choose_control,
        compare_arms,
    )
    from rankql.online.arm_sentences import describe_arm, describe_experiment

    ranges: Any = dict(bounds or {})
    settings = ExperimentSettings(correction, confidence, sequential, burn_in, ranges)
    settings.check()
    with open_session(con, table) as session:
        units = open_units(session, table, metrics, unit, arm, before, parse_groupings(by), ranges)
        states, notes = units.read()
        sizes = dict(
            states.filter(slice="all").select("arm", "units").unique(maintain_order=True).rows()
        )
        control_arm = choose_control([*sizes], control)
        ratio_note = check_ratio(sizes, ratio, units.noun)
        check_slices(states, units.noun)
        left_out = [*check_known(states, units.noun)]
        rows = compare_arms(session, states, control_arm, settings, before is not None)
    tests = sum(row["p"] is not None for row in rows)
    table_rows, sentences = [], []
    for row in rows:
        verdict, sentence = describe_arm(row, units.noun, settings, tests)
        names = {"a": control_arm, "b": row["arm"], "mean_a": row["control"],
                 "mean_b": row["treatment"], "verdict": verdict, "sentence": sentence}  # fmt: skip
        table_rows.append({name: (row | names).get(name) for name in SCHEMA})
        sentences.append(f"{text.add_slice(row['metric'], row['slice'])}: {sentence}")
    if control is None:
        ratio_note += f". The control is {control_arm!r}"
    notes = [ratio_note, *left_out, *describe_experiment(rows, units.noun, settings, tests), *notes]
    conventions = {
        "unit": unit, "arm": arm, "control": control_arm, "ratio": ratio,
        "metrics": {m.name: m.aggregate if m.divisor is None else "ratio" for m in units.metrics},
        "before": {m.name: m.before for m in units.metrics if m.before}, "correction": correction,
        "confidence": confidence, "sequential": sequential,
        "burn_in": burn_in if sequential else None, "bounds": ranges,
    }  # fmt: skip
    return Experiment(pl.DataFrame(table_rows, schema=SCHEMA), conventions, notes, sentences)


def plan_experiment(
    table: Data,
    *,
    metrics: str | Sequence[str],
    unit: str = "user",
    lift: float = 0.05,
    before: str | Mapping[str, str] | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Experiment:
    """How many users does an A/B test need, and what could the users of a table detect?

    `table`, `metrics`, `unit` and `before` are those of `experiment`, without arms. `detectable` is
    the difference that a t test with two equal arms of these users detects with this power:
    (t(1 - alpha / 2) + t(power)) * 2 * sd / sqrt(users), with users - 2 degrees of freedom, and one
    less with `before`.
    `units_needed` is the smallest number of users per arm for which that is at most `lift` times
    the mean: about 2 * (z(1 - alpha / 2) + z(power))^2 * sd^2 / (lift * mean)^2. The sd of a ratio
    is that of the delta method; with `before`, what remains.

    >>> import polars as pl
    >>> users = pl.DataFrame({"user": range(1000), "orders": [0, 1, 0, 1, 2] * 200})
    >>> plan_experiment(users, metrics="orders", lift=0.1).table["units_needed"].item()
    1376
    """
    require_package("scipy", "stats", "plan_experiment")
    from scipy import special

    from rankql.online.arm_differences import ExperimentSettings, compare_states

    require_probability("confidence", confidence)
    require_probability("power", power)
    require(
        power > 1 - confidence,
        f"power must be above {1 - confidence:.3g}, the power without a difference, not {power}",
    )
    require(
        0 < as_number(lift) <= MOST_LIFT,
        f"lift= (CLI: --plan) must be a number above 0 and at most {MOST_LIFT}, such as 0.05 "
        f"for 5%, not {lift!r}",
    )

    def detect(sd: float, adjusts: bool, per_arm: float) -> float:
        """The difference that this many units per arm detect."""
        quantiles = special.stdtrit(2 * per_arm - 2 - adjusts, [(1 + confidence) / 2, power])
        return float(quantiles.sum()) * sd * math.sqrt(2 / per_arm)

    settings = ExperimentSettings("none", confidence, False, 2, {})
    rows, sentences = [], []
    with open_session(con, table) as session:
        units = open_units(session, table, metrics, unit, None, before, [], {})
        states, notes = units.read()
        # The standard error of an arm compared with itself is sd * sqrt(2 / n).
        twice = states.join(states, on=["metric", "slice"], maintain_order="left")
        compared = compare_states(session, twice, [confidence] * len(twice), settings)
    nouns = text.pluralise(units.noun)
    for row in compared:
        require(
            row["n_a"] >= LEAST_PLANNED,
            f"{row['metric']} has a value for {text.format_count(row['n_a'], units.noun)}. A plan "
            f"needs at least {LEAST_PLANNED}",
        )
        if row["error"] is None:
            why = "has a divisor that adds up to 0" if row["control"] is None else "does not vary"
            raise RankqlError(f"{row['metric']} {why} over {nouns}. Remove it")
        n, mean, sd = row["n_a"], row["control"], row["error"] * math.sqrt(row["n_a"] / 2)
        detects = partial(detect, sd, row["before"] is not None)
        detectable = detects(n / 2)
        lifts: dict[str, Any] = {"detectable_lift": None, "units_needed": None}
        sentence = f"{row['metric']}: {n:,} {nouns}, split evenly, detect a difference of about "
        sentence += text.round_significant(detectable)
        of_lift = "" if row["lift"] is None else f" (a lift of {detectable / mean:.1%})"
        sentence += f"{of_lift} with {text.format_percent(power)} power. "
        if row["lift"] is None:
            sentence += "It has no lift, because its mean is not clearly above 0"
        else:
            needed = _count_needed(detects, lift * mean)
            lifts = {"detectable_lift": detectable / mean, "units_needed": needed}
            sentence += f"A lift of {lift:.3g} needs {needed:,} {nouns} per arm"
        sentences.append(sentence)
        rows.append({"metric": row["metric"], "units": n, "mean": mean, "sd": sd,
                     "detectable": detectable, "lift": float(lift), **lifts})  # fmt: skip
    conventions = {"unit": unit, "confidence": confidence, "power": power, "lift": lift,
                   "before": {m.name: m.before for m in units.metrics if m.before}}  # fmt: skip
    table_rows = pl.DataFrame(rows, schema=_PLAN)
    return Experiment(table_rows, conventions, notes, sentences)


def _count_needed(detect: Callable[[float], float], difference: float) -> int:
    """The smallest number of units per arm that detects a difference."""
    # About: without the degrees of freedom, which matter if there are few.
    about = _MOST_NEEDED * (detect(_MOST_NEEDED) / difference) ** 2
    if not about <= _MOST_NEEDED:
        raise RankqlError(
            f"lift= (CLI: --plan): a difference of {difference:.3g} needs about {about:.0e} units "
            "per arm. Pass a larger lift, such as 0.05"
        )
    needed = max(2, math.ceil(about))
    while detect(needed) > difference:
        needed += 1
    return needed
