"""Hints in the language of the command line: its options, and the name of the program.

Messages come from Python and name arguments. Text replacement turns these into options, so that
one message serves both.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import click

from rankql.registry.conventions import CHOICES

# Arguments that a hint may name: columns and conventions.
_NAMES = "|".join(["system", "pos", "score", "rel", "item", "query", "max_rel", *CHOICES])
_HINT = re.compile(rf"(?<![\w(@])(?P<name>{_NAMES})=(?:'(?P<value>[^']*)'|(?![\w.@]))", re.ASCII)


def as_cli_options(text: str) -> str:
    """Replace the arguments that a message names by options: rel='...' by --rel COLUMN."""

    def option(match: re.Match[str]) -> str:
        name = f"--{match['name'].replace('_', '-')}"
        value = "COLUMN" if match["value"] == "..." else match["value"] or ""
        return f"{name} {shlex.quote(value)}" if value else name

    text = re.sub(r"\bpass descending=False", "pass --ascending", text)
    text = re.sub(r"\bpass descending=True", "pass --descending", text)
    text = re.sub(r"\bdescending=False", "--ascending", text)
    text = re.sub(r"\bdescending=True", "--descending", text)
    text = text.replace("leave out descending", "leave it out")
    return _HINT.sub(option, text)


def program_name(ctx: click.Context) -> str:
    """Find how the user called rankql, so that printed commands can be copied."""
    name, script = ctx.find_root().command_path, Path(sys.argv[0])
    if name == "python -m rankql":  # set in __main__.py, for every Python
        return f"{shlex.quote(sys.orig_argv[0])} -m rankql"
    if script.stem == "rankql" and script.is_file():
        on_path = shutil.which("rankql")
        if not on_path or not script.samefile(on_path):
            return shlex.quote(sys.argv[0])  # a path, such as .venv/bin/rankql
    return name
