"""The template of every page, and the JavaScript of Vega, Vega-Lite and vega-embed.

vl_convert bundles the JavaScript. This takes two to three seconds and holds the GIL, so the command
line bundles in a second process while it compares. In Python it does not: only the command line
knows that `sys.executable` is Python.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.resources import files

from rankql.text import escape_html

# UTF-8, whatever the locale.
_BUNDLE = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())
"""
# The second process, if one is bundling.
_STARTED: list[subprocess.Popen[bytes]] = []


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


@contextmanager
def bundle_in_background() -> Iterator[None]:
    """Bundle in a second process, which ends with the block."""
    with ExitStack() as stack:
        # A frozen program would start itself.
        if sys.executable and not getattr(sys, "frozen", False):
            # -P: not a module of this name in the working directory.
            command = [sys.executable, "-P", "-c", _BUNDLE]
            with suppress(OSError):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                stack.enter_context(process)
                stack.callback(process.kill)
                _STARTED.append(process)
                stack.callback(_STARTED.clear)
        yield


@cache
def bundle_vega() -> str:
    """Bundle Vega, Vega-Lite and vega-embed, or take the bundle of the second process."""
    for process in _STARTED:
        bundle = process.communicate()[0]
        if process.returncode == 0 and bundle:
            return bundle.decode()
    import vl_convert

    made: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return made
