"""The template of every page, the JavaScript of Vega, Vega-Lite and vega-embed, and pictures."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rankql.core.base.results import TableResult, make_block
from rankql.core.base.text import escape_html, format_html, format_sentence

if TYPE_CHECKING:
    import altair as alt

# Fonts of equal widths. A picture has the font for which it was laid out, or one of these.
PICTURE_FONTS = "Arial, Liberation Sans, Helvetica, sans-serif"


def render_page(title: str, body: str, scripts: Sequence[str] = ()) -> str:
    """Render a page that loads nothing from the network."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    return read_file("page.html").format(
        allowed=" ".join(hashes) or "'none'",
        title=escape_html(title),
        style=read_file("page.css"),
        body=body,
        scripts="".join(f"<script>{script}</script>" for script in scripts),
    )


def render_result(result: TableResult) -> str:
    """Render what a notebook displays, the sentences first, and charts."""
    title = result._headline() or result.caption or result.title or type(result).__name__
    tables, sentences, notes = result._render_parts("")
    lacking = result.lacks_charts
    shown, folded = map(_draw, ((), ()) if lacking else result._charts())
    more = f"<details><summary>More charts</summary>{folded}</details>" if folded else ""
    for name, frame in result._folded():
        block = make_block(frame)
        tables += f"<details><summary>{format_sentence(name)}</summary>"
        tables += f"{format_html(block.rows, block.right)}</details>"
    facts = "".join(f"<span>{format_sentence(x)}</span>" for x in result._facts())
    facts = f'<p class="facts">{facts}</p>' if facts else ""
    notes += "".join(f"<p><small>{format_sentence(line)}</small></p>" for line in lacking)
    head = f"<header><h1>{format_sentence(title)}</h1>{facts}</header>"
    return render_page(title, f"{head}\n<main>{sentences}{tables}{shown}{more}{notes}</main>")


def _draw(specs: Sequence[Any]) -> str:
    """The charts as pictures of a page."""
    figures = [f"<figure>{render_svg(spec)}</figure>" for spec in specs]
    return f'<div class="figures chart">{"".join(figures)}</div>' if figures else ""


def read_file(name: str) -> str:
    """Read a file of this package."""
    return (files("rankql.pages") / name).read_text(encoding="utf-8")


@cache
def bundle_vega() -> str:
    """Bundle Vega, Vega-Lite and vega-embed."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle


def to_altair(spec: dict[str, Any]) -> alt.TopLevelMixin:
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
            suffix = format or str(fp).rpartition(".")[2]
            if suffix == "html" and find_spec("vl_convert"):
                options = {"inline": True, **options}
            chart = kind.from_dict(_as_picture(self.to_dict())) if suffix == "svg" else self
            kind.save(chart, fp, format, **options)

        def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> Any:
            if alt.renderers.active != "default" or not find_spec("vl_convert"):
                return super()._repr_mimebundle_(*arguments, **options)
            # Programs that know Vega-Lite draw it. Others, and exported pages, show the picture.
            mime = f"application/vnd.vegalite.{alt.SCHEMA_VERSION.partition('.')[0]}+json"
            with alt.theme.enable("none"):
                picture = render_svg(self.to_dict())
            return {mime: self.to_dict(), "image/svg+xml": picture}

    return Chart


def _as_picture(spec: dict[str, Any]) -> dict[str, Any]:
    """The definition of a chart, without the font of the page in which it would be."""
    return spec | {"config": {**spec.get("config", {}), "font": PICTURE_FONTS}}


def render_svg(spec: dict[str, Any]) -> str:
    """Render a chart as SVG."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(_as_picture(spec))
    return svg
