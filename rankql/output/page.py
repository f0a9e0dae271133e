"""The template of every page, and the JavaScript of Vega, Vega-Lite and vega-embed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from rankql.text import escape_html


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


def read_file(name: str) -> str:
    """Read a file of this package."""
    return (files("rankql.output") / name).read_text(encoding="utf-8")


@cache
def bundle_vega() -> str:
    """Bundle Vega, Vega-Lite and vega-embed."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle
