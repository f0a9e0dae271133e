"""The correlations of metrics and outcomes: over all keys, within slices and in each slice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankql import text as show
from rankql.decisions.key_join import KeyJoin
from rankql.decisions.regression import TOO_FEW, Coefficient, pearson, ranks, spearman, varies
from rankql.decisions.sample import Array
from rankql.evaluation.summary import slice_queries

_COEFFICIENTS = ("pearson", "spearman")
SCHEMA = {
    **dict.fromkeys(("metric", "outcome", "slice"), pl.String),
    "n": pl.Int64,
    **{f"{name}{part}": pl.Float64 for name in _COEFFICIENTS for part in ("", "_lo", "_hi", "_p")},
    **dict.fromkeys(("remark", "sentence"), pl.String),
}
SIMPSON = "another sign {} (Simpson)"
NOT_SIGNIFICANT = "at least one of them is not significant"


def correlate_pairs(
    pairs: pl.DataFrame, join: KeyJoin, confidence: float, change: bool
) -> tuple[pl.DataFrame, list[str]]:
    """The table of all correlations, and notes on slices that reverse the sign."""
    values = {name: _read_numbers(pairs, name) for name in (*join.metrics, *join.outcome_columns)}
    notes = []
    rows: dict[tuple[str, str], list[dict[str, Any]]]
    rows = {pair: [] for pair in itertools.product(join.metrics, join.outcome_columns)}
    overall: dict[tuple[str, str], list[Coefficient]] = {}
    for label, part, codes in _list_parts(pairs, join.groups):
        columns = {name: column[part] for name, column in values.items()}
        ranked = {name: ranks(x, codes) for name, x in columns.items() if not np.isnan(x).any()}
        for metric, outcome in rows:
            x, y, known_codes, coefficients = _correlate(
                metric, outcome, columns, ranked, codes, confidence
            )
            row = _row(metric, outcome, label, len(x), coefficients)
            remarks = _remarks(coefficients, {metric: x, outcome: y}, known_codes)
            first = overall.setdefault((metric, outcome), coefficients)
            if codes is not None and (reversal := _describe_reversal(first, coefficients)):
                notes.append(f"{metric} and {outcome}: {reversal.format(label)}")
                simpson = f"perhaps {SIMPSON}" if reversal.endswith(NOT_SIGNIFICANT) else SIMPSON
                remarks.append(simpson.format("over all"))
                total = rows[metric, outcome][0]
                remarks_overall = [total["remark"], simpson.format(label)]
                total["remark"] = "; ".join(filter(None, remarks_overall))
            row["remark"] = "; ".join(remarks) or None
            row["sentence"] = _sentence(row, coefficients, join.unit, change)
            rows[metric, outcome].append(row)
    return pl.DataFrame([*itertools.chain(*rows.values())], schema=SCHEMA), notes


class _Part(NamedTuple):
    """The rows of a correlation: all, those of a slice, or all with the codes of their slices."""

    label: str
    rows: NDArray[np.intp]
    codes: NDArray[np.intp] | None = None


def _list_parts(pairs: pl.DataFrame, groups: Sequence[Sequence[str]]) -> Iterator[_Part]:
    index = "rankql row"  # no column of a user's has this name
    rows = np.arange(len(pairs))
    yield _Part("all", rows)
    for group in groups:
        frame = pairs.select(pl.Series(index, rows), *dict.fromkeys(group))
        parts = {label: part.to_numpy() for label, part in slice_queries(frame, [group]).items()}
        del parts["all"]
        codes = np.empty(len(pairs), np.intp)
        for code, part in enumerate(parts.values()):
            codes[part] = code
        yield _Part(f"within {', '.join(group)}", rows, codes)
        yield from (_Part(label, part) for label, part in parts.items())


def _read_numbers(pairs: pl.DataFrame, name: str) -> Array:
    """A column, NaN where it has no value."""
    return pairs[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _correlate(
    metric: str, outcome: str, columns: Mapping[str, Array], ranked: Mapping[str, Array],
    codes: NDArray[np.intp] | None, confidence: float,
) -> tuple[Array, Array, NDArray[np.intp] | None, list[Coefficient]]:  # fmt: skip
    """The values where both are known, the codes of their slices, and both coefficients."""
    x, y = columns[metric], columns[outcome]
    if metric in ranked and outcome in ranked:
        ranks_x, ranks_y = ranked[metric], ranked[outcome]
    else:
        known = ~np.isnan(x) & ~np.isnan(y)
        x, y = x[known], y[known]
        if codes is not None:
            codes = np.unique(codes[known], return_inverse=True)[1]
        ranks_x, ranks_y = ranks(x, codes), ranks(y, codes)
    return (
        x,
        y,
        codes,
        [
            pearson(x, y, confidence, codes),
            spearman(ranks_x, ranks_y, confidence, codes),
        ],
    )


def _remarks(
    coefficients: Sequence[Coefficient], values: Mapping[str, Array],
    codes: NDArray[np.intp] | None,
) -> list[str]:  # fmt: skip
    """Why there is no coefficient, or no interval."""
    reasons = list(dict.fromkeys(x.reason for x in coefficients if x.reason))
    if TOO_FEW in reasons or coefficients[0].r is not None:
        return reasons
    where = "" if codes is None else " within every slice"
    return [f"{name} is constant{where}" for name, x in values.items() if not varies(x, codes)]


def _describe_reversal(overall: Sequence[Coefficient], within: Sequence[Coefficient]) -> str | None:
    """Simpson's paradox: a coefficient of another sign within slices, and what to make of it."""
    for name, total, part in zip(_COEFFICIENTS, overall, within, strict=True):
        if total.r is not None and part.r is not None and total.r * part.r < 0:
            advice = NOT_SIGNIFICANT
            if total.sign * part.sign < 0:
                advice = "Simpson's paradox, trust the value within slices"
            return f"{name.capitalize()} {total.text} over all, but {part.text} {{}}: {advice}"
    return None


def _row(
    metric: str, outcome: str, label: str, n: int, coefficients: Sequence[Coefficient]
) -> dict[str, Any]:
    row: dict[str, Any] = {"metric": metric, "outcome": outcome, "slice": label, "n": n}
    for name, coefficient in zip(_COEFFICIENTS, coefficients, strict=True):
        parts = {
            "": coefficient.r,
            "_lo": coefficient.lo,
            "_hi": coefficient.hi,
            "_p": coefficient.p,
        }
        row |= {f"{name}{part}": value for part, value in parts.items()}
    return row


def _sentence(
    row: Mapping[str, Any], coefficients: Sequence[Coefficient], unit: str, change: bool
) -> str:
    """The finding in words."""
    of = "the change of " if change else ""
    metric, outcome = f"{of}{row['metric']}", f"{of}{row['outcome']}"
    count = show.format_count(row["n"], unit)
    if coefficients[0].r is None:
        return f"{metric} and {outcome} have no correlation: {row['remark']}, {count}"
    values = ", ".join(
        f"{name.capitalize()} {coefficient.text}"
        for name, coefficient in zip(_COEFFICIENTS, coefficients, strict=True)
    )
    pearson, spearman = coefficients
    if not spearman.enough:
        start = f"too few {show.pluralise(unit)} to tell whether {outcome} goes with {metric}"
    elif spearman.sign == 0:
        start = f"no significant association between {metric} and {outcome}"
        if pearson.sign:
            values += " (only Pearson's interval excludes 0, and it depends on extreme values)"
    else:
        direction = "higher" if spearman.sign > 0 else "lower"
        start = f"{outcome} is {direction} where {metric} is higher"
        if pearson.sign == -spearman.sign:
            values += " (opposite signs: extreme values outweigh the rest in Pearson)"
    return f"{start}: {values}, {count}"
