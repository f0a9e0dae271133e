"""The colours, sizes and configuration of all charts."""

from __future__ import annotations

from typing import Any

# Contrast of about 4:1 on white and on near black, and distinct for colour-blind readers.
PALETTE = ("#2b7fc4", "#d1601f", "#12936b", "#b266ad",
           "#97790b", "#2397ab", "#c9506a", "#6f74d6")  # fmt: skip
# Systems beyond the palette; text and lines, which must be legible on white and on black.
GREY = "#7d8590"
WIDTH, HEIGHT, ROW_HEIGHT = 480, 260, 36

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
