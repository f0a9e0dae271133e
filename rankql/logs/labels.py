"""Labels: from events and annotators to grades, how far annotators agree, splits of a log.

What is asked of a log is asked before anything is evaluated: the grades that come out are the `rel`
of every metric. A NULL event, an impression that nothing came of, has no grade: it is unjudged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

import polars as pl

from rankql.expressions.columns import Column, as_float, column, refuse_values
from rankql.expressions.variants import Frame, in_frame_like, metric, require_columns
from rankql.logs.table_macros import add_column_by_table_macro, run_table_macro
from rankql.registry.options import as_number, is_whole_number, require, require_choice
from rankql.text import TEXT_TYPES

Moment: TypeAlias = date | datetime | float
Duration: TypeAlias = timedelta | float


@metric(by=("user", "item"))
def graded(
    event: Column,
    grades: Mapping[str, float | None],
    how: str = "max",
    cap: float | None = None,
    moment: Column | None = None,
    until: Moment | None = None,
    within: Duration | None = None,
    half_life: Duration | None = None,
    unknown: str | float | None = "error",
) -> pl.Expr:
    """The grade of events by a mapping: the highest or the sum, which may fade with time.

    The sum is cut off at `cap`. With `until` what happened from then on is left out, and with
    `within` what happened earlier than so long before; with `half_life` the grade of an event of
    age t is multiplied by 2^(-t / half_life). An event without a grade is an error that names it,
    or has the grade `unknown`; None leaves it out. NULL where no event counts. Events
    are text, whole numbers or booleans. A month of an SQL INTERVAL is 30 days.

    >>> log = pl.DataFrame({"user": [1] * 3, "item": ["a", "a", "b"], "event": ["view", "buy", ""]})
    >>> log.pipe(graded, "event", {"view": 1, "buy": 3, "": 0}).sort("item").rows()
    [(1, 'a', 3.0), (1, 'b', 0.0)]
    """
    require_choice("how", how, "max", "sum")
    require(how == "sum" or cap is None, "cap is for how 'sum', not for 'max'")
    value = _left(moment, until, within, half_life) * _grade(event, grades, unknown)
    if how == "max":
        return value.max()
    check_cap(cap)
    total = value.sum() if cap is None else value.sum().clip(upper_bound=float(cap))
    return pl.when(value.count() > 0).then(total)


def _grade(event: Column, grades: Mapping[str, float | None], unknown: object) -> pl.Expr:
    """The grade of each event."""
    check_grades(grades, unknown)
    strict = isinstance(unknown, str)
    names = [event_name(name) for name in grades]
    listed = ", ".join(names)

    def known(events: pl.Series) -> pl.Series:
        dtype = events.dtype
        fit = dtype.is_integer() or dtype in (*TEXT_TYPES, pl.Boolean, pl.Null)
        remedy = "cast it to text"
        require(fit, f"event must be text, a whole number or a boolean, not {dtype}; {remedy}")
        events = events.cast(pl.String)
        if strict:
            for name in events.filter(~events.is_in(names) & events.is_not_null()).head(1):
                hint = "add it to grades, or give unknown a grade"
                require(False, f"event {name} has no grade; {hint}; there are: {listed}")
        return events

    events = column(event).map_batches(known, pl.String, is_elementwise=True)
    other = None if strict or unknown is None else decimal_as_float(unknown)
    found = pl.lit(other, pl.Float64)
    if names:
        values = [None if grade is None else decimal_as_float(grade) for grade in grades.values()]
        found = events.replace_strict(names, values, default=other, return_dtype=pl.Float64)
    return pl.when(events.is_not_null()).then(found)


def check_grades(grades: Mapping[str, float | None], unknown: object) -> None:
    """The mapping of events to grades, and the grade of all others."""
    kind = type(grades).__name__
    require(
        isinstance(grades, Mapping), f"grades must be a dict of events and grades, not a {kind}"
    )
    sound = all(grade is None or is_finite(grade) for grade in grades.values())
    require(sound, f"grades must be finite numbers, not {grades}")
    once = len({event_name(name) for name in grades}) == len(grades)
    require(once, f"grades must name an event once, as text, not {grades}")
    sound = unknown is None or (isinstance(unknown, str) and unknown == "error")
    require(
        sound or is_finite(unknown),
        f"unknown must be a grade or 'error', not {unknown}",
    )


def check_cap(cap: float | None) -> None:
    """The most that events add up to."""
    require(cap is None or is_finite(cap), f"cap must be a finite number, not {cap}")


def event_name(name: object) -> str:
    """An event as text, as a column of them is cast."""
    return str(name).lower() if isinstance(name, bool) else str(name)


def decimal_as_float(value: object) -> float:
    """A number as a float, one of a column of DECIMAL too; NaN where it cannot be one."""
    return as_number(float(value) if isinstance(value, Decimal) else value)


def is_finite(value: object) -> bool:
    """Is it a number that a float can be?"""
    return math.isfinite(decimal_as_float(value))


def _left(
    moment: Column | None, until: Moment | None, within: Duration | None, half_life: Duration | None
) -> pl.Expr:
    """What is left of each event at `until`: NULL from there on and before the window."""
    if until is None:
        message = "until must be given: the time that within and half_life count back from"
        require(within is None and half_life is None, message)
        return pl.lit(1.0)
    require(moment is not None, "moment must be a timestamp or a finite number, not None")

    def left(times: pl.Series) -> pl.Series:
        times = check_moment("moment", times)
        clock = _is_time(times)
        ages = _instant("until", until, clock) - _numbers(times)
        counts = ages > 0
        if within is not None:
            counts &= ages <= _length("within", within, clock)
        faded = pl.repeat(1.0, len(ages), eager=True)
        if half_life is not None:
            faded = 2 ** (-ages / _length("half_life", half_life, clock))
        return pl.select(pl.when(counts).then(faded)).to_series()

    return column(moment or "").map_batches(left, pl.Float64, is_elementwise=True)


def check_moment(name: str, times: pl.Series) -> pl.Series:
    """The times, an error where they are none."""
    dtype = times.dtype
    if dtype == pl.Null and times.is_empty():
        return times.cast(pl.Float64)
    kind = "text" if dtype in TEXT_TYPES else str(dtype)
    fit = dtype.is_numeric() or dtype == pl.Date or dtype == pl.Datetime or dtype == pl.Null
    require(fit, f"{name} must be a timestamp or a number, not {kind}; cast it first")
    bad = times.is_null()
    if dtype.is_float():
        bad |= ~times.is_finite().fill_null(True)
    if dtype.is_temporal():
        # DuckDB's infinite dates and timestamps, for which polars and Python have no text.
        ends = times.to_physical().cast(pl.Int64)
        for end in ends.filter(ends.abs() >= (_DAYS if dtype == pl.Date else 2**63 - 1)).head(1):
            infinity = "infinity" if end > 0 else "-infinity"
            require(False, f"{name} must be a timestamp or a finite number, not {infinity}")
    refuse_values(f"{name} must be a timestamp or a finite number", times, bad)
    return times


_DAYS = 2**63 // (24 * 60 * 60 * 10**6)  # as many as there are microseconds for


def _is_time(times: pl.Series) -> bool:
    return times.dtype.is_temporal()


def _numbers(times: pl.Series) -> pl.Series:
    """Times as microseconds, or as the numbers that they are."""
    if _is_time(times):
        times = times.cast(pl.Datetime("us")).cast(pl.Int64)
    return times.cast(pl.Float64)


def _instant(name: str, value: Moment, clock: bool) -> float:
    """A moment as a number on the clock of a column."""
    kind = "a timestamp" if clock else "a finite number"
    fit = isinstance(value, date) if clock else is_finite(value)
    require(fit, f"{name} must be {kind}, as moment is, not {value}")
    if not isinstance(value, date):
        return float(value)
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    value = value if value.tzinfo else value.replace(tzinfo=UTC)
    return float((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


def _length(name: str, value: Duration, clock: bool) -> float:
    """A length of time on the clock of a column."""
    given = value / timedelta(microseconds=1) if isinstance(value, timedelta) else value
    fit = isinstance(value, timedelta) == clock and is_finite(given) and given > 0
    kinds = ("an interval", "a timestamp") if clock else ("a number", "a number")
    require(fit, f"{name} must be {kinds[0]} above 0, as moment is {kinds[1]}, not {value}")
    return float(given)


@metric(by=("user", "item"))
def consensus(
    rel: Column = "rel", weight: Column | float = 1, how: str = "mean", ties: str = "low"
) -> pl.Expr:
    """One grade from those of several annotators: their weighted mean, median or majority.

    The median has half of the weight on either side, and is the mean of two grades where both have.
    The majority is the grade of most weight; of several, the lowest ("low"), the highest ("high")
    or NULL ("null"). Weights that differ by less than 1e-9 of the whole are equal. A NULL grade is
    an annotator who did not judge the item.

    >>> df = pl.DataFrame({"rel": [1, 2, 2, 5], "weight": [1, 1, 1, 4]})
    >>> df.select(consensus(), median=consensus(how="median"), w=consensus(weight="weight")).row(0)
    (2.5, 2.0, 3.5714285714285716)
    """
    require_choice("how", how, "mean", "median", "majority")
    require_choice("ties", ties, "low", "high", "null")
    grades, weights = as_float(rel), _weights(rel, weight)
    given = pl.when(weights.count() > 0).then(weights.sum())
    whole = given.map_batches(_need_weight, pl.Float64, is_elementwise=True)
    if how == "mean":
        return (grades * weights).sum() / whole
    votes = grades.filter(weights > 0)
    down = weights.filter(weights > 0).sort_by(votes).cum_sum()
    votes = votes.sort()
    if how == "median":
        low = votes.filter(down >= whole * (0.5 - _DUST)).min()
        return (low + votes.filter(down > whole * (0.5 + _DUST)).min()) / 2
    last = votes.ne_missing(votes.shift(-1))
    down = down.filter(last)
    own = down - down.shift(1, fill_value=0)
    most = votes.filter(last).filter(own >= own.max() - whole * _DUST)
    alone = pl.when(most.len() == 1).then(most.first())
    return {"low": most.min(), "high": most.max(), "null": alone}[ties]


_DUST = 1e-9


def _weights(rel: Column, weight: Column | float) -> pl.Expr:
    """The weight of each label, NULL where there is none."""

    def sound(rows: pl.Series) -> pl.Series:
        labels, given = rows.struct.field("rel"), rows.struct.field("weight")
        fit = given.dtype.is_numeric() or given.dtype in (pl.Boolean, pl.Null)
        none = pl.repeat(None, len(given), dtype=pl.Float64, eager=True)
        values = given.cast(pl.Float64) if fit else none
        good = (values >= 0) & values.is_finite()
        missing = labels.is_null() & given.is_null()
        bad = ~(good.fill_null(False) | missing)
        refuse_values("weight must be a finite number from 0", given, bad)
        return values.set(labels.is_null(), None)

    given = column(weight) if isinstance(weight, Column) else pl.lit(weight)
    rows = pl.struct(rel=column(rel), weight=given)
    return rows.map_batches(sound, pl.Float64, is_elementwise=True)


def _need_weight(sums: pl.Series) -> pl.Series:
    require(not sums.eq(0).any(), "weight must not be 0 for all labels of a group")
    return sums


def krippendorff_alpha(
    frame: Frame,
    level: str = "ordinal",
    unit: Column = "unit",
    annotator: Column | None = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> Frame:
    """Krippendorff's alpha: how far annotators agree beyond chance; labels may be missing.

    1 - the disagreement of two labels of one unit over that of any two labels, in the mean over the
    labels of units that have two or more; `single` counts the other units. Two labels disagree by
    whether they differ ("nominal"), by the labels between them ("ordinal": the difference of their
    mean ranks, squared), by their difference, squared ("interval"), or by their difference over
    their sum, squared ("ratio": labels from 0; the time grows with the square of the number of
    distinct labels). NULL where all labels are equal. Grades are ordinal. Krippendorff 2011,
    Computing Krippendorff's Alpha-Reliability.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(krippendorff_alpha, "nominal").rows()
    [(0.4, 2, 4, 0)]
    """
    columns = {"unit": unit, "annotator": annotator, "label": label, "slice": slice}
    return run_table_macro(frame, "krippendorff_alpha", columns, {"level": level}, _ALPHA)


_ALPHA = pl.Schema(
    {
        "krippendorff_alpha": pl.Float64,
        "units": pl.Int64,
        "labels": pl.Int64,
        "single": pl.Int64,
    }
)


def cohen_kappa(
    frame: Frame,
    weights: str = "none",
    unit: Column = "unit",
    annotator: Column = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> Frame:
    """Cohen's kappa of every two annotators: how far they agree beyond chance.

    1 - how far their labels of one unit are apart, over how far any label of the one is from any
    label of the other, over the units that both have labelled. Two labels are apart by whether they
    differ ("none"), by their difference ("linear") or its square ("quadratic"). NULL where each has
    one and the same label throughout. Cohen 1960, 1968.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(cohen_kappa).rows()
    [('a', 'b', 0.33333333333333337, 2)]
    """
    require_choice("weights", weights, "none", "linear", "quadratic")
    given = _labels(frame, unit, annotator, label, slice)
    pairs = given.join(given, on=["s", "u"], nulls_equal=True).filter(
        pl.col("a") < pl.col("a_right")
    )
    both = ["s", "a", "a_right"]
    n = pl.len().cast(pl.Float64).alias("n")
    counted = pairs.group_by(*both, "v", "v_right").agg(n)
    ones, others = pairs.group_by(*both, "v").agg(n), pairs.group_by(*both, "v_right").agg(n)
    chance = ones.join(others, on=both, nulls_equal=True).select(
        *both, "v", "v_right", n=pl.col("n") * pl.col("n_right")
    )
    x, y = pl.col("v"), pl.col("v_right")
    apart = (x != y).cast(pl.Float64)
    if weights != "none":
        gap = _label("v", f"weights {weights!r}") - _label("v_right", f"weights {weights!r}")
        apart = gap.abs() if weights == "linear" else gap.pow(2)
    mean = (pl.col("n") * apart).sum() / pl.col("n").sum()
    found = counted.group_by(both).agg(seen=mean, units=pl.col("n").sum().cast(pl.Int64))
    found = found.join(chance.group_by(both).agg(chance=mean), on=both, nulls_equal=True).select(
        "s",
        annotator="a",
        other="a_right",
        cohen_kappa=1 - pl.col("seen") / pl.col("chance").replace(0, None),
        units="units",
    )
    return in_frame_like(frame, found, slice)


def fleiss_kappa(
    frame: Frame,
    unit: Column = "unit",
    annotator: Column | None = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> Frame:
    """Fleiss' kappa: how far annotators agree beyond chance, as many of them on every unit.

    1 - the share of pairs of labels of one unit that differ over that of all labels, drawn with
    putting back. Units with unequal numbers of labels are an error. NULL where all labels are
    equal. Fleiss 1971.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(fleiss_kappa).rows()
    [(0.19999999999999996, 2, 4)]
    """
    given = _labels(frame, unit, annotator, label, slice)

    def equal(rows: pl.Series) -> pl.Series:
        for row in rows.filter(rows.struct.field("least") < rows.struct.field("most")).head(1):
            require(
                False,
                f"fleiss_kappa needs as many labels of every unit: one has {row['least']:.0f}, "
                f"another {row['most']:.0f}; use krippendorff_alpha, for which labels may be "
                "missing",
            )
        return pl.repeat(True, len(rows), eager=True)

    n, d = pl.col("v").count().cast(pl.Float64), _unlike()
    units = given.group_by("s", "u").agg(n=n, d=d)
    units = units.group_by("s").agg(
        seen=pl.col("d").mean(),
        units=pl.len().cast(pl.Int64),
        least=pl.col("n").min(),
        most=pl.col("n").max(),
    )
    whole = given.group_by("s").agg(n=n, d=d).join(units, on="s", nulls_equal=True)
    sound = pl.struct("least", "most").map_batches(equal, pl.Boolean, is_elementwise=True)
    chance = pl.col("d") * (pl.col("n") - 1) / pl.col("n")
    found = whole.select(
        "s",
        fleiss_kappa=pl.when(sound).then(1 - pl.col("seen") / chance.replace(0, None)),
        units="units",
        labels=pl.col("n").cast(pl.Int64),
    )
    return in_frame_like(frame, found, slice)


def _labels(
    frame: Frame, unit: Column, annotator: Column | None, label: Column, slice: Column | None
) -> pl.LazyFrame:
    """The labels of a table: s the slice, u the unit, a the annotator, v the label."""
    needed = {"s": slice, "u": unit, "a": annotator, "v": label}
    columns = {name: column(given) for name, given in needed.items() if given is not None}
    require_columns(frame, *columns.values())
    lines = {name: expr.meta.output_name() for name, expr in columns.items()}
    columns = {"s": pl.lit(0), "a": pl.lit(0)} | columns

    def sound(rows: pl.Series) -> pl.Series:
        row = rows.struct
        for name in ("u", "a"):
            require(row.field(name).null_count() == 0, f"{lines.get(name)} must not be NULL")
        values = row.field("v")
        if values.dtype.is_float():
            refuse_values(f"{lines['v']} must be a finite number", values, ~values.is_finite())
        if annotator is not None:
            for twice in rows.filter(row.field("n") > 1).head(1):
                require(
                    False,
                    f"{lines['a']} {twice['a']} has labelled {lines['u']} {twice['u']} twice; "
                    "keep one of the labels",
                )
        return values

    given = frame.lazy().select(**columns).filter(pl.col("v").is_not_null())
    rows = pl.struct(*columns, n=pl.len().over("s", "u", "a"))
    # What the function returns has the type of the labels.
    checked = rows.map_batches(sound, given.collect_schema()["v"], is_elementwise=True)
    return given.with_columns(v=checked)


def _label(name: str, what: str) -> pl.Expr:
    """Labels as numbers."""

    def sound(labels: pl.Series) -> pl.Series:
        dtype = labels.dtype
        kind = "text" if dtype in TEXT_TYPES else str(dtype)
        fit = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
        require(fit, f"labels must be numbers for {what}, not {kind}; cast them first")
        return labels.cast(pl.Float64)

    return pl.col(name).map_batches(sound, pl.Float64, is_elementwise=True)


def _unlike() -> pl.Expr:
    """The chance that two of the labels, drawn without putting back, differ."""
    n = pl.col("v").count().cast(pl.Float64)
    alike = pl.col("v").drop_nulls().unique_counts().cast(pl.Float64).pow(2).sum()
    return (n.pow(2) - alike) / (n * (n - 1)).replace(0, None)


def tally(frame: Frame, label: Column = "rel", slice: Column | None = None) -> Frame:
    """Which grades there are, and how often; NULL is an item that nobody judged.

    >>> pl.DataFrame({"rel": [0, 2, 0, None]}).pipe(tally).rows()
    [(0, 2, 0.5), (2, 1, 0.25), (None, 1, 0.25)]
    """
    grade, by = column(label), pl.lit(0) if slice is None else column(slice)
    require_columns(frame, grade, by)
    given = frame.lazy().select(s=by, grade=grade)
    found = given.group_by("s", "grade").agg(n=pl.len().cast(pl.Int64))
    share = pl.col("n") / pl.col("n").sum().over("s")
    return in_frame_like(frame, found.with_columns(share=share), slice)


def leave_one_out(
    frame: Frame,
    n: int = 1,
    query: Column = "user",
    item: Column = "item",
    moment: Column = "time",
) -> Frame:
    """The log with `split`: test for the last event of each user, train for those before.

    The last n. Of events at one time the item that is higher as text is the later one, as of equal
    scores it stands first; rows of one time and item go together. A user of whom nothing would be
    left to train on is left whole.

    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "item": [*"abca"], "time": [1, 2, 2, 1]})
    >>> log.pipe(leave_one_out)["split"].to_list()
    ['train', 'train', 'test', 'train']
    """
    require(is_whole_number(n), f"n must be a whole number from 1, not {n}")
    times, text = _logged(frame, moment), column(item).cast(pl.String)
    require_columns(frame, text, column(query))
    _no_split(frame)
    place = pl.struct(times, text.fill_null("")).rank("min", descending=True).over(query)
    last = place <= n
    split = pl.when(last & ~last.all().over(query)).then(pl.lit("test"))
    return frame.with_columns(split=split.otherwise(pl.lit("train")))


def time_split(
    frame: Frame,
    since: Moment | None = None,
    share: float | None = None,
    query: Column | None = None,
    moment: Column = "time",
) -> Frame:
    """The log with `split`: test from a time on, or for the last share of the rows, train before.

    Rows of one time go together: test has the latest times, as many as make up no more than `share`
    of the rows, or with `query` of the rows of each user. The latest time is always in it, also
    where it holds more than `share`, unless it is the only one.

    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "time": [1, 2, 2, 3]})
    >>> log.pipe(time_split, since=2)["split"].to_list()
    ['train', 'test', 'test', 'test']
    >>> log.pipe(time_split, share=0.5)["split"].to_list()
    ['train', 'train', 'train', 'test']
    """
    _no_split(frame)
    columns = {"query": query, "moment": moment}
    options = {"since": since, "share": share}
    return add_column_by_table_macro(frame, "time_split", columns, options, "split")


def _logged(frame: pl.DataFrame | pl.LazyFrame, moment: Column) -> pl.Expr:
    """The times of a log, as they are."""
    times = column(moment)
    require_columns(frame, times)
    ((name, dtype),) = frame.lazy().select(times).collect_schema().items()

    def sound(values: pl.Series) -> pl.Series:
        return check_moment(name, values)

    return times.map_batches(sound, dtype, is_elementwise=True)


def _no_split(frame: pl.DataFrame | pl.LazyFrame) -> None:
    names = frame.collect_schema().names()
    message = "the log has a column 'split' already: drop or rename it"
    require("split" not in map(str.lower, names), message)
