"""Hints in the language of the command line: its options, and the name of the program.

Messages come from Python and name arguments. Text replacement turns these into options, so that
one message serves both.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import sys
from pathlib import Path

import click

# An argument in a message, with its value if that is quoted: rel=, rel='grade', item="lower(id)".
_ARGUMENT = re.compile(r"(?<![\w(@,])(\w+)=(?:'([^']*)'|\"([^\"]*)\"|(?!\.?\w|[@\[({]))", re.ASCII)

# A list of names in a message, which is one value of an option: query=['user', 'day'].
_QUOTED = r"(?:'[^']*'|\"[^\"]*\")"
_LIST = re.compile(rf"(?<![\w(@,])(query|item)=(\[{_QUOTED}(?:, {_QUOTED})*\])")

# An argument with the option it stands for: minimum= (CLI: --min).
_VALUE = r"'[^']*'|\([^()]*\)|\{[^}]*\}|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\w*"
_BOTH_LANGUAGES = re.compile(rf"(?<![\w(])\w+=(?:{_VALUE}) \(CLI: (.*?)\)(?=[\s.,;:]|$)", re.ASCII)


def as_cli_options(text: str) -> str:
    """Replace the arguments that a message names by options: rel='...' by --rel COLUMN."""
    ctx = click.get_current_context().find_root()
    assert isinstance(ctx.command, click.Group)
    # Messages also name options of eval, as in a hint on the evaluation that follows.
    options = {
        parameter.name: parameter.opts[-1]
        for name in ("eval", ctx.invoked_subcommand or "eval")
        for parameter in ctx.command.commands[name].get_params(ctx)
        if isinstance(parameter, click.Option)
    }

    def option(match: re.Match[str]) -> str:
        name, value = options.get(match[1]), match[2] or match[3]
        if name is None:
            return match[0]
        value = "COLUMN" if value == "..." else value
        return f"{name} {_quote(value)}" if value else name

    for value, name in (("False", "--ascending"), ("True", "--descending")):
        text = re.sub(rf"\bdescending={value}", name, text)
    text = _BOTH_LANGUAGES.sub(r"\1", text)
    text = _LIST.sub(lambda m: f"--{m[1]} {shlex.quote(','.join(ast.literal_eval(m[2])))}", text)
    return _ARGUMENT.sub(option, text)


def _quote(value: str) -> str:
    """The value for a shell, in double quotes if it has single ones."""
    return (
        f'"{value}"' if "'" in value and not re.search(r'["$`\\!]', value) else shlex.quote(value)
    )


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
