"""Agreement of annotators, corrected for chance."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rankql.expressions.checked_columns import Column
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


@table_function(_ALPHA)
def krippendorff_alpha(
    frame: Data,
    level: str = "ordinal",
    unit: Column | Sequence[Column] = "unit",
    annotator: Column | None = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> None:
    """Krippendorff's alpha: how far annotators agree beyond chance; labels may be missing.

    Alpha is 1 - (mean disagreement of two labels of the same unit) / (mean disagreement of any two
    labels). A unit may be several columns, such as ["query", "item"] (a struct in SQL). Units with
    one label do not count; `single` is their number. `level` defines the disagreement of two
    labels:

    - "nominal": 1 if they differ.
    - "ordinal": the squared difference of their mean ranks. Use it for grades.
    - "interval": their squared difference.
    - "ratio": their squared difference divided by their sum, for labels from 0. The time grows
      with the square of the number of distinct labels.

    NULL if all labels are equal. Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(krippendorff_alpha, "nominal").rows()
    [(0.4, 2, 4, 0)]
    """


@table_function(_COHEN)
def cohen_kappa(
    frame: Data,
    weights: str = "none",
    unit: Column | Sequence[Column] = "unit",
    annotator: Column = "annotator",
    label: Column = "label",
    slice: Column | None = None,
) -> None:
    """Cohen's kappa of every two annotators: how far they agree beyond chance.

    Kappa is 1 - (mean distance of their labels of the same unit) / (mean distance of any label of
    one to any label of the other), over the units that both have labelled. The distance of two
    labels is 1 if they differ (weights="none"), their difference ("linear") or its square
    ("quadratic"). A unit may be several columns, such as ["query", "item"] (a struct in SQL). NULL
    if both always give the same label. Cohen 1960, 1968.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(cohen_kappa).rows()
    [('a', 'b', 0.33333333333333337, 2)]
    """
