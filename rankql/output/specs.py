"""Charts as Vega-Lite in plain dicts, which the report writes and altair reads.

Making and checking altair's objects took a third of the time of a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from polars import selectors

from rankql.output.style import CONFIG

if TYPE_CHECKING:
    import altair as alt

Spec: TypeAlias = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


def quantitative(field: str, **options: Any) -> Spec:
    """Encode a column of numbers."""
    return {"field": field, "type": "quantitative", **options}


def nominal(field: str, **options: Any) -> Spec:
    """Encode a column of names."""
    return {"field": field, "type": "nominal", **options}


def make_layer(mark: str, encoding: Spec, **style: Any) -> Spec:
    """Draw a mark, such as 'point', for every row."""
    return {"mark": {"type": mark, **style}, "encoding": encoding}


def calculate(**columns: str) -> Spec:
    """Add columns to the data of a layer: name=expression of Vega."""
    return {"transform": [{"calculate": value, "as": name} for name, value in columns.items()]}


def inline_data(frame: pl.DataFrame) -> Spec:
    """Put the rows into the chart: numbers with nine digits, NULL for NaN and infinity."""
    number = selectors.float()
    rounded = pl.when(number.is_finite()).then(number.round_sig_figs(9))
    return {"values": frame.with_columns(rounded.name.keep()).to_dicts()}


def join_panels(panels: Sequence[Spec], columns: int = 1) -> Spec:
    """Put panels together, with one configuration for all."""
    plain = [{name: panel[name] for name in panel if name != "config"} for panel in panels]
    layout = {"vconcat": plain} if columns == 1 else {"concat": plain, "columns": columns}
    return layout | {"config": CONFIG}


def to_altair(spec: Spec) -> alt.TopLevelMixin:
    """Make an altair chart, which can be changed, shown and saved."""
    import altair as alt

    kinds: Spec = {
        "layer": alt.LayerChart,
        "concat": alt.ConcatChart,
        "vconcat": alt.VConcatChart,
    }
    kind = next(kinds[name] for name in spec if name in kinds)
    chart: alt.TopLevelMixin = kind.from_dict(spec)
    return chart
