"""Every arm against the control on every metric and slice: intervals and adjusted p-values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from rankql import text
from rankql.decisions.sample import NO_DIFFERENCE, NOT_TESTABLE, POWER, ZERO_VARIANCE
from rankql.decisions.significance import (
    CORRECTIONS,
    LEAST_ALPHA,
    adjust_p_values,
    significance_levels,
)
from rankql.errors import RankqlError, describe_unknown
from rankql.macros import literal
from rankql.online.bounded_sequence import compare_bounded
from rankql.online.unit_states import LARGEST
from rankql.registry.argument_checks import (
    as_number,
    require,
    require_probability,
    require_whole_number,
)
from rankql.sources.macro_sql import fetch_frame
from rankql.sources.session import Session

BURN_IN = "before the burn-in"
NO_CONTROL = "no control"
NO_DIVISOR = "no divisor"
EXPLAINED = "explained by before="
# The smallest p-values of a plausible split of units into arms, and of one without a remark.
_SRM_ALPHA = 0.001
_UNUSUAL = 0.05
_CONTROLS = ("control", "baseline", "a", "old", "off", "false", "0", "0.0")

SCHEMA = {
    **dict.fromkeys(("metric", "slice", "a", "b"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b", "difference", "lo", "hi", "p", "p_adjusted"), pl.Float64),
    **dict.fromkeys(("lift", "lift_lo", "lift_hi", "detectable"), pl.Float64),
    **dict.fromkeys(("n_a", "n_b"), pl.Int64),
    **dict.fromkeys(("verdict", "sentence"), pl.String),
}


@dataclass(frozen=True)
class ExperimentSettings:
    """How arms are compared."""

    correction: str
    confidence: float
    sequential: bool
    burn_in: int
    bounds: Mapping[str, tuple[float, float]]

    def check(self) -> None:
        """Refuse unknown choices, and options that do not go together."""
        if self.correction not in CORRECTIONS:
            raise RankqlError(describe_unknown("correction", self.correction, [*CORRECTIONS]))
        require_probability("confidence", self.confidence, LEAST_ALPHA)
        require_whole_number("burn_in", self.burn_in, 2)
        require(
            self.sequential or not self.bounds, "bounds= needs sequential=True (CLI: --sequential)"
        )
        for name, ends in self.bounds.items():
            pair = isinstance(ends, list | tuple) and len(ends) == 2
            valid = pair and -LARGEST <= as_number(ends[0]) < as_number(ends[1]) <= LARGEST
            require(valid, f"bounds= of {name} must be its lowest and highest value, not {ends}")

    @property
    def alpha(self) -> float:
        """The significance level."""
        return round(1 - self.confidence, 12)


def choose_control(arms: Sequence[str], control: str | None) -> str:
    """The control: named by the caller, or recognised by its name."""
    if len(arms) < 2:
        raise RankqlError(f"There is only one arm, {arms[0]!r}. Pass a table with two or more")
    if control is not None:
        name = str(control).lower() if isinstance(control, bool) else str(control)
        require(name in arms, describe_unknown("arm in control=:", control, [*arms]))
        return name
    known = [arm for name in _CONTROLS for arm in arms if arm.lower() == name]
    if not known:
        names = ", ".join(map(repr, arms))
        raise RankqlError(f"No arm is named like a control. Pass control=, one of {names}")
    return known[0]


def check_ratio(units: Mapping[str, int], ratio: Mapping[str, float] | None, noun: str) -> str:
    """A note on the sizes of the arms; an error if they contradict the planned ratio."""
    plan = dict.fromkeys(units, 1) if ratio is None else ratio
    valid = isinstance(plan, Mapping) and {*map(str, plan)} == {*units}
    if not valid or not all(0 < as_number(share) < math.inf for share in plan.values()):
        names = ", ".join(map(repr, units))
        raise RankqlError(f"ratio= must have a share above 0 for each arm: {names}, not {ratio!r}")
    planned = {str(arm): float(share) for arm, share in plan.items()}
    total, whole = sum(units.values()), sum(planned.values())
    expected = {arm: total * planned[arm] / whole for arm in units}
    chi2 = sum((units[arm] - expected[arm]) ** 2 / expected[arm] for arm in units)
    p = float(special.chdtrc(len(units) - 1, chi2))
    counts = text.join_words([f"{n:,} in {quote_arm(arm)}" for arm, n in units.items()])
    shares = ":".join(f"{planned[arm]:g}" for arm in units)
    if p < _SRM_ALPHA:
        raise RankqlError(
            f"The arms have the wrong sizes: {counts} ({text.pluralise(noun)}), but {shares} was "
            f"planned (chi-square {text.format_p(p)}). Assignment or logging depends on the arm, "
            "so no difference can be trusted. Find the cause, or pass the planned shares: ratio="
        )
    fits = "agrees with" if p >= _UNUSUAL else "is unusual for"
    return (
        f"{text.pluralise(noun).capitalize()}: {counts}. This {fits} the planned ratio "
        f"{shares} (chi-square {text.format_p(p)})"
    )


def check_slices(states: pl.DataFrame, noun: str) -> None:
    """Refuse a slice whose share of the units depends on the arm."""
    units = states.select("slice", "arm", "units").unique(maintain_order=True)
    every = dict(units.filter(slice="all").select("arm", "units").rows())
    slices = [*units.filter(pl.col("slice") != "all").group_by("slice", maintain_order=True)]
    for (name,), of in slices:
        sizes = dict.fromkeys(every, 0) | dict(of.select("arm", "units").rows())
        p = min(1.0, _independence_p([*every.values()], [*sizes.values()]) * len(slices))
        if p < _SRM_ALPHA:
            counts = text.join_words(
                [f"{n:,} of {every[arm]:,} {text.pluralise(noun)} in {quote_arm(arm)}"
                 for arm, n in sizes.items()]
            )  # fmt: skip
            raise RankqlError(
                f"by: the slice {name} has {counts}. Its size depends on the arm "
                f"({text.format_p(p)}), so its arms cannot be compared. Slice by attributes from "
                "before the experiment"
            )


def check_known(states: pl.DataFrame, noun: str) -> Iterator[str]:
    """Notes on metrics that are NULL for some units; an error if it depends on the arm."""
    arms = states.filter(slice="all").with_columns(n=pl.col("state").struct["n"].cast(pl.Int64))
    for (metric,), of in arms.group_by("metric", maintain_order=True):
        total, known = int(of["units"].sum()), int(of["n"].sum())
        if known == total:
            continue
        counts = text.join_words(
            [f"{units - n:,} of {units:,} {text.pluralise(noun)} in {quote_arm(arm)}"
             for arm, units, n in of.select("arm", "units", "n").rows()]
        )  # fmt: skip
        p = _independence_p(of["units"].to_list(), of["n"].to_list())
        if p < _SRM_ALPHA:
            raise RankqlError(
                f"{metric} is NULL for {counts}. This depends on the arm ({text.format_p(p)}), so "
                "those with a value cannot be compared. If NULL means 0, as after a LEFT JOIN, "
                f"fill it with 0. Otherwise, remove {metric} from metrics= (CLI: -m)"
            )
        yield (
            f"{metric} is NULL for {counts}, which {text.is_or_are(total - known)} left out. If "
            "NULL means 0, as after a LEFT JOIN, fill it"
        )


def _independence_p(units: Sequence[int], known: Sequence[int]) -> float:
    """The exact p-value of the most unusual arm for its number of units with a value, Bonferroni.

    It holds for small numbers too, which chi-square does not.
    """
    from scipy import stats

    sample = (sum(units), sum(known), units)
    more = stats.hypergeom.sf(np.array(known) - 1, *sample)
    tails = np.minimum(stats.hypergeom.cdf(known, *sample), more)
    # In two arms, one p-value is that of the other.
    return min(1.0, 2 * float(tails.min()) * (len(units) if len(units) > 2 else 1))


def quote_arm(arm: str) -> str:
    """The name of an arm in a sentence, in quotes if it would not be seen without."""
    return arm if arm == arm.strip() != "" else repr(arm)


def compare_arms(
    session: Session,
    states: pl.DataFrame,
    control: str,
    settings: ExperimentSettings,
    adjusts: bool,
) -> list[dict[str, Any]]:
    """One dict per metric, slice and arm: the difference to the control and its test.

    If a metric `adjusts` for a pre-period column, each row has its error without that too.
    """
    keys = ["metric", "slice"]
    others = states.filter(pl.col("arm") != control)
    pairs = others.join(
        states.filter(pl.col("arm") == control), on=keys, how="left", maintain_order="left"
    )
    level = [settings.confidence] * len(pairs)
    rows = compare_states(session, pairs, level, settings)
    plain = compare_states(session, _without_before(pairs), level, settings) if adjusts else rows
    for row, other in zip(rows, plain, strict=True):
        row["error_plain"] = other["error"]
        row["reason"] = _explain_untested(row)
        if row["reason"]:
            row |= dict.fromkeys(("p", "lo", "hi", "lift_lo", "lift_hi"))
    tested = [i for i, row in enumerate(rows) if row["p"] is not None]
    p = [rows[i]["p"] for i in tested]
    adjusted = adjust_p_values(p, settings.correction)
    levels = significance_levels(p, adjusted, settings.correction, settings.alpha) if p else []
    again = [rows[i] for i in tested]
    if any(level != settings.alpha for level in levels):
        again = compare_states(session, pairs[tested], [1 - level for level in levels], settings)
    for i, row, p_adjusted in zip(tested, again, adjusted, strict=True):
        half, freedom = (row["hi"] - row["lo"]) / 2, row["df"] or float("inf")
        detectable = half + float(special.stdtrit(freedom, POWER)) * (row["error"] or 0)
        low, high = settings.bounds.get(row["metric"], (-math.inf, math.inf))
        possible = detectable <= high - low
        rows[i] |= row | {"p_adjusted": p_adjusted, "detectable": detectable if possible else None}
    return rows


def compare_states(
    session: Session, pairs: pl.DataFrame, confidence: list[float], settings: ExperimentSettings
) -> list[dict[str, Any]]:
    """Compare the states of each pair with `experiment_difference`, or the values in bounds."""
    columns = pairs.select(
        i=pl.int_range(pl.len()), treatment="state", control="state_right",
        confidence=pl.Series(confidence, dtype=pl.Float64),
    )  # fmt: skip
    burn_in = literal(settings.burn_in if settings.sequential else None)
    compared = fetch_frame(
        session,
        f"SELECT experiment_difference(treatment, control, confidence, {burn_in}) AS compared "
        f"FROM {session.table(columns, 'pairs').sql} ORDER BY i",
        checked=True,
    )
    rows = pairs.drop("state", "state_right", "values", "values_right").to_dicts()
    for i, (row, found) in enumerate(zip(rows, compared["compared"].to_list(), strict=True)):
        state, other = pairs["state"][i], pairs["state_right"][i] or {"n": 0}
        row |= found | {"n_b": state["n"], "n_a": other["n"]}
        if row["metric"] in settings.bounds and min(row["n_a"], row["n_b"]) > 0:
            treatment, control = (pairs[name][i].to_numpy() for name in ("values", "values_right"))
            bounds = settings.bounds[row["metric"]]
            p, lo, hi = compare_bounded(treatment, control, bounds, 1 - confidence[i])
            row |= {"p": p, "lo": lo, "hi": hi, "lift_lo": None, "lift_hi": None, "df": None}
    return rows


def _without_before(pairs: pl.DataFrame) -> pl.DataFrame:
    """The states of each pair as if there were no pre-period column."""
    zeros = [pl.lit(0.0).alias(name) for name in ("vb", "db", "bb")]
    # One by one: polars 1.36 puts the second column into the first.
    states = (pl.col(name).struct.with_fields(zeros) for name in ("state", "state_right"))
    return pairs.with_columns(*states)


def _explain_untested(row: Mapping[str, Any]) -> str:
    """The reason why a row is not tested, or ''."""
    if row["n_a"] == 0:
        return NO_CONTROL
    if min(row["n_a"], row["n_b"]) < 2:
        return NOT_TESTABLE
    if row["difference"] is None:
        return NO_DIVISOR
    if row["error"] is None and row["error_plain"] is not None:
        return EXPLAINED
    if row["error"] is None and row["p"] is None:
        differs = abs(row["difference"]) > 1e-12 * abs(row["control"])
        return ZERO_VARIANCE if differs else NO_DIFFERENCE
    return BURN_IN if row["p"] is None else ""
