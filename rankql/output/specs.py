"""Charts as Vega-Lite in plain dicts, and their colours; the report writes and altair reads them.

Making and checking altair's objects took a third of the time of a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from polars import selectors

if TYPE_CHECKING:
    import altair as alt

Spec: TypeAlias = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

# Contrast of about 4:1 on white and on near black, and distinct for colour-blind readers.
PALETTE = ("#2b7fc4", "#d1601f", "#12936b", "#b266ad",
           "#97790b", "#2397ab", "#c9506a", "#6f74d6")  # fmt: skip
# Systems beyond the palette; text and lines, which must be legible on white and on black.
GREY = "#7d8590"
WIDTH, HEIGHT, ROW_HEIGHT = 480, 260, 26

CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "title": {"anchor": "start", "color": GREY, "fontSize": 13, "limit": WIDTH},
    "axis": {
        "domain": False, "ticks": False, "grid": False, "gridColor": GREY, "gridOpacity": 0.25,
        "labelColor": GREY, "labelFontSize": 12, "labelPadding": 6, "labelLimit": 170,
        "labelSeparation": 8, "labelFlush": False,
        "titleColor": GREY, "titleFontSize": 12, "titleFontWeight": "normal",
    },
    "legend": {"orient": "top", "title": None, "labelColor": GREY, "labelFontSize": 12,
               "columns": 2, "symbolOpacity": 1},
    "text": {"color": GREY, "fontSize": 12},
}  # fmt: skip


def quantitative(field: str, **options: Any) -> Spec:
    """Encode a column of numbers."""
    return {"field": field, "type": "quantitative", **options}


def nominal(field: str, **options: Any) -> Spec:
    """Encode a column of names."""
    return {"field": field, "type": "nominal", **options}


def make_layer(mark: str, encoding: Spec, **style: Any) -> Spec:
    """Draw a mark, such as 'point', for every row."""
    return {"mark": {"type": mark, **style}, "encoding": encoding}


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

    kinds = {"layer": alt.LayerChart, "concat": alt.ConcatChart, "vconcat": alt.VConcatChart}
    kind = next(kinds[name] for name in spec if name in kinds)
    chart: alt.TopLevelMixin = _offline(kind).from_dict(spec)
    return chart


@cache
def _offline(kind: Any) -> Any:
    """Make a class of charts that load no script from the network, shown or saved."""
    import altair as alt

    class Chart(kind):  # type: ignore[misc]
        def save(self, fp: Any, format: Any = None, **options: Any) -> None:
            if find_spec("vl_convert") and (format or str(fp).rpartition(".")[2]) == "html":
                options = {"inline": True, **options}
            super().save(fp, format, **options)

        def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> Any:
            if alt.renderers.active != "default" or not find_spec("vl_convert"):
                return super()._repr_mimebundle_(*arguments, **options)
            # Programs that know Vega-Lite draw it. Others, and exported pages, show the picture.
            mime = f"application/vnd.vegalite.{alt.SCHEMA_VERSION.partition('.')[0]}+json"
            return {mime: self.to_dict(), "image/svg+xml": render_svg(self)}

    return Chart


def render_svg(chart: alt.TopLevelMixin) -> str:
    """Render a chart as SVG."""
    import altair as alt
    import vl_convert

    with alt.theme.enable("none"):
        svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    return svg
