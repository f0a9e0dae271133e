"""The sentences and notes about the arms of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankql import text
from rankql.decisions.sample import NO_DIFFERENCE, NOT_TESTABLE, ZERO_VARIANCE
from rankql.decisions.significance import describe_adjustment, describe_detectable
from rankql.online.arm_differences import (
    BURN_IN,
    EXPLAINED,
    NO_CONTROL,
    NO_DIVISOR,
    ExperimentSettings,
    quote_arm,
)

_REASONS = {
    NO_CONTROL: "the control has none in this slice",
    NOT_TESTABLE: "an interval needs at least 2 with a value in each arm",
    NO_DIVISOR: "the divisor of an arm adds up to 0",
    NO_DIFFERENCE: "all have the same value",
    ZERO_VARIANCE: "in each arm, all have the same value",
    EXPLAINED: "the column of before= explains every value",
    BURN_IN: "an arm has fewer than {burn_in:,}, the burn_in= (CLI: --burn-in)",
}


def describe_arm(
    row: Mapping[str, Any], noun: str, settings: ExperimentSettings, tests: int
) -> tuple[str, str]:
    """The verdict on an arm, and its sentence."""
    control, b = row["arm_right"], quote_arm(row["arm"])
    a = "the control" if control is None else quote_arm(control)
    counts = f"{row['n_b']:,} and {row['n_a']:,} {text.pluralise(noun)}"
    if row["reason"]:
        why = _REASONS[row["reason"]].format(burn_in=settings.burn_in)
        return row["reason"], f"{b} and {a} are not tested ({counts}): {why}"
    significant = row["p_adjusted"] <= settings.alpha
    sign = -1 if significant and row["difference"] < 0 else 1
    ends = sorted((sign * row["lo"], sign * row["hi"]))
    digits = text.count_decimals_apart(*ends)
    values = (sign * row["difference"], *ends)
    difference, lo, hi = (text.format_decimal(value, digits) for value in values)
    p = text.format_p(row["p_adjusted"], settings.alpha)
    family = describe_adjustment(settings.correction, tests)
    evidence = ", ".join(filter(None, [p, family]))
    lift = "" if row["lift"] is None else f"; lift {_format_lift(row)}"
    basis = (
        f"({text.format_percent(settings.confidence)} CI {lo} to {hi}{lift}; {evidence}; {counts})"
    )
    if significant:
        verdict = "lower" if row["difference"] < 0 else "higher"
        return verdict, f"{b} is {difference} {verdict} than {a} {basis}"
    words = f"no significant difference between {b} and {a}: {difference} {basis}"
    if row["detectable"] is None or row["detectable"] > abs(row["difference"]):
        words += f". {describe_detectable(row['detectable'])}"
    return "not significant", words


def _format_lift(row: Mapping[str, Any]) -> str:
    if row["lift_lo"] is None:
        return f"{row['lift']:+z.1%}"
    digits = max(1, text.count_decimals_apart(100 * row["lift_lo"], 100 * row["lift_hi"]))
    lift, lo, hi = (f"{row[name]:+z.{digits}%}" for name in ("lift", "lift_lo", "lift_hi"))
    return f"{lift}, {lo} to {hi}"


def describe_experiment(
    rows: Sequence[Mapping[str, Any]], noun: str, settings: ExperimentSettings, tests: int
) -> Iterator[str]:
    """Notes on the tests, and on what was left out."""
    units = text.pluralise(noun)
    family = describe_adjustment(settings.correction, tests)
    adjusted = f". p-values are {family} (metrics x arms x slices)" if family else ""
    if settings.sequential:
        asymptotic = {row["metric"] for row in rows} - {*settings.bounds}
        kinds = [f"betting within its bounds for {text.join_words([*settings.bounds])}"] \
            if settings.bounds else []  # fmt: skip
        if asymptotic:
            kinds.append(
                f"asymptotic for {text.join_words(sorted(asymptotic))}, from {settings.burn_in:,} "
                f"{units} per arm on"
            )
        yield f"Confidence sequences: {', '.join(kinds)}{adjusted}"
        yield f"Valid however often you look, if the values of {units} are final when they count"
    else:
        yield f"Welch's t test{adjusted}"
        yield (
            "p-values hold for one look at a size that was planned. To look again and again, pass "
            "sequential=True (CLI: --sequential)"
        )
    if tests:
        level = " (each at the level of its p-value)" if family else ""
        yield (
            f"lo, hi: the {text.format_percent(settings.confidence)} confidence interval of b - a"
            f"{level}. It excludes 0 exactly if the adjusted p-value is at most {settings.alpha:g}"
        )
    for metric in dict.fromkeys(row["metric"] for row in rows):
        of = [row for row in rows if row["metric"] == metric]
        tested = [row for row in of if row["p"] is not None and row["error"]]
        unlifted = [row for row in tested if row["lift"] is None]
        least = settings.burn_in if settings.sequential else 0
        early = [min(row["n_a"], row["n_b"]) < least for row in unlifted]
        if any(early):
            enough = f"{least:,} {units} per arm, the burn_in= (CLI: --burn-in)"
            yield f"{metric} has no lift below {enough}"
        if not all(early):
            yield f"{metric} has no lift where the control's mean is not clearly above 0"
        every = [row for row in of if row["slice"] == "all"]
        first = every[0]
        # The control is in the row of each arm.
        total, known = (sum(row[name] for row in every) + first[f"{name}_right"]
                        for name in ("units", "known"))  # fmt: skip
        if first["before"] is not None and first["error"] is not None:
            removed = 1 - (first["error"] / first["error_plain"]) ** 2
            note = f"{metric}: adjusted for {first['before']} (CUPED), which "
            note += f"removes {removed:.0%} of" if removed > 0 else "does not reduce"
            note += f" the variance of {first['arm']} against {first['arm_right']}"
            if len(every) > 1:
                note += ". The control is adjusted for each arm, so its means differ"
            if removed == 0:
                note = f"{metric}: not adjusted for {first['before']} (CUPED), which is constant, "
                note += f"or of which an arm has fewer than 3 {units}"
            if known < total:
                note += f". {total - known:,} of {total:,} {units} have no value and get the mean"
            yield note
