"""How far annotators agree, beyond what chance would do."""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import Column, column, refuse_values
from rankql.expressions.variants import Frame, in_frame_like, require_columns
from rankql.logs.table_macros import run_table_macro
from rankql.registry.argument_checks import require, require_choice
from rankql.text import TEXT_TYPES


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
    labels = _select_labels(frame, unit, annotator, label, slice)
    pairs = labels.join(labels, on=["s", "u"], nulls_equal=True).filter(
        pl.col("a") < pl.col("a_right")
    )
    by = ["s", "a", "a_right"]
    n = pl.len().cast(pl.Float64).alias("n")
    counted = pairs.group_by(*by, "v", "v_right").agg(n)
    ones, others = pairs.group_by(*by, "v").agg(n), pairs.group_by(*by, "v_right").agg(n)
    chance = ones.join(others, on=by, nulls_equal=True).select(
        *by, "v", "v_right", n=pl.col("n") * pl.col("n_right")
    )
    x, y = pl.col("v"), pl.col("v_right")
    apart = (x != y).cast(pl.Float64)
    if weights != "none":
        what = f"weights {weights!r}"
        gap = _labels_as_numbers("v", what) - _labels_as_numbers("v_right", what)
        apart = gap.abs() if weights == "linear" else gap.pow(2)
    mean = (pl.col("n") * apart).sum() / pl.col("n").sum()
    kappas = counted.group_by(by).agg(seen=mean, units=pl.col("n").sum().cast(pl.Int64))
    kappas = kappas.join(chance.group_by(by).agg(chance=mean), on=by, nulls_equal=True).select(
        "s",
        annotator="a",
        other="a_right",
        cohen_kappa=1 - pl.col("seen") / pl.col("chance").replace(0, None),
        units="units",
    )
    return in_frame_like(frame, kappas, slice)


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
    rows = _select_labels(frame, unit, annotator, label, slice)

    def equal(rows: pl.Series) -> pl.Series:
        for row in rows.filter(rows.struct.field("least") < rows.struct.field("most")).head(1):
            require(
                False,
                f"fleiss_kappa needs as many labels of every unit: one has {row['least']:.0f}, "
                f"another {row['most']:.0f}; use krippendorff_alpha, for which labels may be "
                "missing",
            )
        return pl.repeat(True, len(rows), eager=True)

    n, d = pl.col("v").count().cast(pl.Float64), _chance_of_difference()
    units = rows.group_by("s", "u").agg(n=n, d=d)
    units = units.group_by("s").agg(
        seen=pl.col("d").mean(),
        units=pl.len().cast(pl.Int64),
        least=pl.col("n").min(),
        most=pl.col("n").max(),
    )
    all_labels = rows.group_by("s").agg(n=n, d=d).join(units, on="s", nulls_equal=True)
    checked = pl.struct("least", "most").map_batches(equal, pl.Boolean, is_elementwise=True)
    chance = pl.col("d") * (pl.col("n") - 1) / pl.col("n")
    kappas = all_labels.select(
        "s",
        fleiss_kappa=pl.when(checked).then(1 - pl.col("seen") / chance.replace(0, None)),
        units="units",
        labels=pl.col("n").cast(pl.Int64),
    )
    return in_frame_like(frame, kappas, slice)


def _select_labels(
    frame: Frame, unit: Column, annotator: Column | None, label: Column, slice: Column | None
) -> pl.LazyFrame:
    """The labels of a table: s the slice, u the unit, a the annotator, v the label."""
    needed = {"s": slice, "u": unit, "a": annotator, "v": label}
    columns = {name: column(source) for name, source in needed.items() if source is not None}
    require_columns(frame, *columns.values())
    lines = {name: expr.meta.output_name() for name, expr in columns.items()}
    columns = {"s": pl.lit(0), "a": pl.lit(0)} | columns

    def check(rows: pl.Series) -> pl.Series:
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

    source = frame.lazy().select(**columns).filter(pl.col("v").is_not_null())
    rows = pl.struct(*columns, n=pl.len().over("s", "u", "a"))
    # What the function returns has the type of the labels.
    checked = rows.map_batches(check, source.collect_schema()["v"], is_elementwise=True)
    return source.with_columns(v=checked)


def _labels_as_numbers(name: str, what: str) -> pl.Expr:
    """Labels as numbers."""

    def read_numbers(labels: pl.Series) -> pl.Series:
        dtype = labels.dtype
        kind = "text" if dtype in TEXT_TYPES else str(dtype)
        fit = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
        require(fit, f"labels must be numbers for {what}, not {kind}; cast them first")
        return labels.cast(pl.Float64)

    return pl.col(name).map_batches(read_numbers, pl.Float64, is_elementwise=True)


def _chance_of_difference() -> pl.Expr:
    """The chance that two of the labels, drawn without putting back, differ."""
    n = pl.col("v").count().cast(pl.Float64)
    equal_pairs = pl.col("v").drop_nulls().unique_counts().cast(pl.Float64).pow(2).sum()
    return (n.pow(2) - equal_pairs) / (n * (n - 1)).replace(0, None)
