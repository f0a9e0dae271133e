"""The correlations of metrics and outcomes: over all keys, within slices and in each slice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from rankql import text
from rankql.decisions.association import name_unit
from rankql.evaluation.means import slice_queries
from rankql.macros import INTERNAL_PREFIX
from rankql.stats.means import ROUNDING
from rankql.stats.sample import Array

Codes: TypeAlias = NDArray[np.intp]

TOO_FEW = "too few to correlate"
NO_INTERVAL = "too few for an interval"
PERFECT = "a perfect correlation: no interval"
REPEATED_DAYS = "several rows of a day are not independent: no interval"
# Fewer degrees of freedom (10 values; slices cost one each) make a correlation not significant:
# if values are tied, up to 1 in 10 of unrelated columns would seem related.
FREEDOM = 8
# Ranks tie values that agree to this many significant digits.
DIGITS = 12
_NAMES = ("pearson", "spearman")
_ENDS = ("", "_lo", "_hi", "_p")
SCHEMA = {
    **dict.fromkeys(("metric", "outcome", "slice"), pl.String),
    "n": pl.Int64,
    **{name + end: pl.Float64 for name in _NAMES for end in _ENDS},
    **dict.fromkeys(("remark", "sentence"), pl.String),
}


def correlate_pairs(
    pairs: pl.DataFrame,
    keys: Sequence[str],
    measures: Sequence[tuple[str, str]],
    groups: Sequence[Sequence[str]],
    confidence: float,
    change: bool,
) -> tuple[pl.DataFrame, list[str]]:
    """The table of the correlations of metrics and outcomes, and notes, such as reversed signs."""
    columns = pairs.select(
        pl.col({*itertools.chain(*measures)}).cast(pl.Float64).fill_null(math.nan)
    )
    rows, notes = [], []
    parts, all_days = [*_list_parts(pairs, groups)], _read_days(pairs, keys)
    if all_days is not None:
        notes.append(
            "The keys are days: weekday and linear trend are taken out, and days that resemble "
            "each other count as fewer. A season or a change of level that both share is not taken "
            "out"
        )
    for names in measures:
        overall: list[Coefficient] = []
        for label, part, codes in parts:
            x, y = (columns[name].to_numpy()[part] for name in names)
            known = ~np.isnan(x) & ~np.isnan(y)
            values = x[known], y[known]
            days = None if all_days is None else all_days[part][known]
            if codes is not None:
                codes = np.unique(codes[known], return_inverse=True)[1]
            coefficients = [
                correlate_values(values, confidence, codes, days, names, ranks)
                for ranks in (False, True)
            ]
            overall = overall or coefficients
            if codes is not None and (reversal := _describe_reversal(overall, coefficients)):
                notes.append(f"{' and '.join(names)}: {reversal.format(label)}")
            row = {"metric": names[0], "outcome": names[1], "slice": label, "n": int(known.sum())}
            for name, coefficient in zip(_NAMES, coefficients, strict=True):
                numbers = (coefficient.r, coefficient.lo, coefficient.hi, coefficient.p)
                row |= dict(zip((name + end for end in _ENDS), numbers, strict=True))
            row["remark"] = next((x.reason for x in coefficients if x.reason), None)
            row["sentence"] = _sentence(row, coefficients, name_unit(keys), change)
            rows.append(row)
    return pl.DataFrame(rows, schema=SCHEMA), notes


def _list_parts(
    pairs: pl.DataFrame, groups: Sequence[Sequence[str]]
) -> Iterator[tuple[str, Codes, Codes | None]]:
    """The rows of each correlation: all; all with the codes of their slices; those of a slice."""
    rows = np.arange(len(pairs))
    yield "all", rows, None
    for group in groups:
        index = pl.Series(f"{INTERNAL_PREFIX}row", rows)
        slices = slice_queries(pairs.select(index, *dict.fromkeys(group)), [group])
        del slices["all"]
        codes = np.empty(len(pairs), np.intp)
        for code, part in enumerate(slices.values()):
            codes[part.to_numpy()] = code
        yield f"within {', '.join(group)}", rows, codes
        yield from ((label, part.to_numpy(), None) for label, part in slices.items())


@dataclass(frozen=True)
class Coefficient:
    """A correlation with its interval and p-value, or the reason why it has none."""

    r: float | None = None
    lo: float | None = None
    hi: float | None = None
    p: float | None = None
    reason: str | None = None
    # 0 if it is not significant, None if there are too few values to say.
    sign: int | None = None

    @property
    def text(self) -> str:
        """The coefficient with its interval."""
        if self.r is None:
            return "undefined"
        if self.lo is None or self.hi is None:
            return text.format_decimal(self.r, 2)
        return text.format_estimate(self.r, self.lo, self.hi, 2)


def correlate_values(
    values: tuple[Array, Array],
    confidence: float,
    codes: Codes | None = None,
    days: Codes | None = None,
    names: tuple[str, str] = ("x", "y"),
    ranks: bool = False,
) -> Coefficient:
    """Pearson's r, or Spearman's rho of ranks; with codes, the correlation within their slices.

    Within slices, r is that of the deviations from the slices' means: the partial correlation given
    the slice. With n values in G slices (without codes, G = 1) and f = n - 1 - G degrees of
    freedom, the variance of atanh(r) is 1 / (f - 1), for the interval (Fisher's z) and for p. That
    of atanh(rho) is (1 + rho^2 / 2) / (f - 1): Bonett and Wright 2000. With days, see
    `_independent_share`.
    """
    x, y = (_rank(z, codes) for z in values) if ranks else values
    repeated = days is not None and len(np.unique(days)) < len(days)
    calendar = None if days is None or repeated or len(x) < 3 else _calendar(days, codes)
    free = len(x) - 1.0 - (1 if codes is None else int(codes.max(initial=-1)) + 1)
    if calendar is not None:
        free = len(x) - 1.0 - calendar.shape[1]
    if free < 1:
        return Coefficient(reason=TOO_FEW)
    x, y = _deviations(x, codes, calendar), _deviations(y, codes, calendar)
    if not (x.any() and y.any()):
        where = "" if codes is None else " within every slice"
        where += "" if calendar is None else " except for weekday and trend"
        constant = (
            f"{name} is constant{where}"
            for name, z in zip(names, (x, y), strict=True)
            if not z.any()
        )
        return Coefficient(reason="; ".join(constant))
    r = float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))
    if repeated:
        return Coefficient(r, reason=REPEATED_DAYS)
    if calendar is not None and days is not None:
        free *= _independent_share(x, y, days)
    sign = int(math.copysign(1, r)) if free >= FREEDOM else None
    if 1 - abs(r) <= ROUNDING:
        return Coefficient(math.copysign(1.0, r), reason=PERFECT, sign=sign)
    if free < 2:
        return Coefficient(r, reason=NO_INTERVAL)
    error = math.sqrt((1 + ranks * r * r / 2) / (free - 1))
    z, width = math.atanh(r), float(special.ndtri((1 + confidence) / 2)) * error
    lo, hi, p = math.tanh(z - width), math.tanh(z + width), float(2 * special.ndtr(-abs(z) / error))
    return Coefficient(r, lo, hi, p, sign=0 if sign and lo <= 0 <= hi else sign)


def _read_days(pairs: pl.DataFrame, keys: Sequence[str]) -> Codes | None:
    """The number of each row's day, if a column of the key has dates."""
    for key in keys:
        texts = pairs[key].cast(pl.String)
        iso = texts.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
        for days in (iso, texts.str.to_date("%Y%m%d", strict=False)):
            if len(days) and not days.null_count() and days.dt.year().is_between(1900, 2200).all():
                return days.to_physical().to_numpy().astype(np.intp)
    return None


def _calendar(days: Codes, codes: Codes | None) -> Array:
    """Weekdays (if the days are not weeks or months apart), trend and slices, orthonormal."""
    week = days % 7 if np.ptp(days) < 2 * len(days) else np.zeros_like(days)
    columns = [week[:, None] == np.unique(week), days[:, None] - days.mean()]
    if codes is not None:
        columns.append(codes[:, None] == np.unique(codes))
    left, sizes, _ = np.linalg.svd(np.hstack(columns).astype(float), full_matrices=False)
    return np.asarray(left[:, sizes > ROUNDING * sizes[0]])


def _independent_share(x: Array, y: Array, days: Codes) -> float:
    """The share of days that are independent: 1 / (1 + 2 sum of p_k a_k b_k), at most 1.

    a_k and b_k are the autocorrelations of both series at a lag of k days, and p_k is the number of
    pairs of days with this lag over the number of days (Bartlett 1935). Lags above a quarter of the
    period are too noisy. About 5% of unrelated series then seem related (test_associate.py).
    """
    place = days - days.min()
    span = int(place.max()) + 1
    sums = []
    for z in (x, y, np.ones(len(x))):  # the sums of products at each lag, by Fourier transform
        grid = np.zeros(span)
        grid[place] = z
        sums.append(np.fft.irfft(np.square(np.abs(np.fft.rfft(grid, 2 * span))), 2 * span))
    of_x, of_y, pairs = (z[1 : 1 + span // 4] for z in sums)
    known = pairs > 0.5
    products = of_x[known] * of_y[known] / (pairs[known] * (x @ x) * (y @ y))
    return 1 / max(1.0, 1 + 2 * len(x) * float(products.sum()))


def _deviations(values: Array, codes: Codes | None, calendar: Array | None) -> Array:
    """Deviations from the mean of all or of the slice; 0 if they are only rounding.

    Values are divided by the largest one first, so that their squares do not overflow.
    """
    values = values / (np.abs(values).max(initial=0) or 1.0)
    if calendar is not None:
        deviations = values - calendar @ (calendar.T @ values)
    elif codes is None:
        deviations = values - values.mean()
    else:
        deviations = values - (np.bincount(codes, values) / np.bincount(codes))[codes]
    return np.asarray(deviations * (np.abs(deviations).max(initial=0) > ROUNDING))


def _rank(values: Array, codes: Codes | None) -> Array:
    """Mean ranks; within slices divided by their size plus 1. Rounding does not break ties."""
    rank = pl.col("value").round_sig_figs(DIGITS).rank("average")
    frame = pl.DataFrame({"value": values} | ({} if codes is None else {"slice": codes}))
    rank = rank if codes is None else (rank / (pl.len() + 1)).over("slice")
    return frame.select(rank).to_series().to_numpy()


def _describe_reversal(overall: Sequence[Coefficient], within: Sequence[Coefficient]) -> str | None:
    """Simpson's paradox: a coefficient whose sign within slices differs, with advice."""
    for name, total, part in zip(_NAMES, overall, within, strict=True):
        if total.r is not None and part.r is not None and total.r * part.r < 0:
            advice = "At least one of them is not significant"
            if total.sign and part.sign:
                advice = "This is Simpson's paradox: trust the value within slices"
            return f"{name.capitalize()} is {total.text} overall, but {part.text} {{}}. {advice}"
    return None


def _sentence(
    row: Mapping[str, Any], coefficients: Sequence[Coefficient], unit: str, change: bool
) -> str:
    """The finding in words."""
    of = "the change of " if change else ""
    metric, outcome = f"{of}{row['metric']}", f"{of}{row['outcome']}"
    count = text.format_count(row["n"], unit)
    pearson, spearman = coefficients
    if pearson.r is None or spearman.r is None:
        return f"no correlation of {metric} and {outcome}: {row['remark']} ({count})"
    values = f"Pearson {pearson.text}, Spearman {spearman.text}"
    if spearman.reason == REPEATED_DAYS:
        start = f"no evidence about {metric} and {outcome}, because days repeat in the key"
    elif spearman.sign is None:
        start = f"too few {text.pluralise(unit)} to say whether {outcome} goes with {metric}"
    elif spearman.sign == 0:
        start = f"no significant association between {metric} and {outcome}"
        if pearson.sign:
            values += " (only Pearson's interval excludes 0, and it depends on extreme values)"
    else:
        direction = "higher" if spearman.sign > 0 else "lower"
        start = f"{outcome} is {direction} where {metric} is higher"
    return f"{start}: {values}, {count}"
