"""How far annotators agree, beyond what chance would do."""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import Column
from rankql.logs.table_macros import Schema, table_function
from rankql.sources.tables import Data

_ALPHA = {
    "krippendorff_alpha": pl.Float64,
    "units": pl.Int64,
    "labels": pl.Int64,
    "single": pl.Int64,
}
_COHEN: Schema = {
    "annotator": "annotator",
    "other": "annotator",
    "cohen_kappa": pl.Float64,
    "units": pl.Int64,
}
_FLEISS = {"fleiss_kappa": pl.Float64, "units": pl.Int64, "labels": pl.Int64}


@table_function(_ALPHA)
def krippendorff_alpha(
    frame: Data,
    level: str = "ordinal",
    unit: Column = "unit",
    annotator: Column | None = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> None:
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


@table_function(_COHEN)
def cohen_kappa(
    frame: Data,
    weights: str = "none",
    unit: Column = "unit",
    annotator: Column = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> None:
    """Cohen's kappa of every two annotators: how far they agree beyond chance.

    1 - how far their labels of one unit are apart, over how far any label of the one is from any
    label of the other, over the units that both have labelled. Two labels are apart by whether they
    differ ("none"), by their difference ("linear") or its square ("quadratic"). NULL where each has
    one and the same label throughout. Cohen 1960, 1968.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(cohen_kappa).rows()
    [('a', 'b', 0.33333333333333337, 2)]
    """


@table_function(_FLEISS)
def fleiss_kappa(
    frame: Data,
    unit: Column = "unit",
    annotator: Column | None = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> None:
    """Fleiss' kappa: how far annotators agree beyond chance, as many of them on every unit.

    1 - the share of pairs of labels of one unit that differ over that of all labels, drawn with
    putting back. Units with unequal numbers of labels are an error. NULL where all labels are
    equal. Fleiss 1971.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(fleiss_kappa).rows()
    [(0.19999999999999996, 2, 4)]
    """
