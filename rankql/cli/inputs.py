"""Arguments of a command as arguments of a function: runs, judgments, columns and slices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rankql.evaluation.values import Request


def split_inputs(inputs: Sequence[str], request: Request | None = None) -> tuple[Any, str | None]:
    """Split RUN... [QRELS] into the run, or the runs by name, and the judgments if there are any.

    A run is named by NAME=PATH or after its file. The last input is a run too if eval --output
    wrote it, if it has lists of retrieved ids, or values as this request describes them. A database
    opens in the background, so call this before polars is imported.
    """
    from rankql.sources.private import open_in_background

    open_in_background()
    from rankql.evaluation.values import Request, identify

    request = request or Request(is_run=True)
    no_qrels = (
        len(inputs) == 1 or identify(split_name(inputs[-1])[1], request=request).kind != "rows"
    )
    runs, qrels = (inputs, None) if no_qrels else (inputs[:-1], inputs[-1])
    if len(runs) == 1 and split_name(runs[0])[1] == runs[0]:
        return runs[0], qrels
    by_name = dict(map(split_name, runs))
    if len(by_name) < len(runs):
        raise click.UsageError("Two runs have the same name. Name each run: NAME=PATH.")
    return by_name, qrels


def split_name(run: str) -> tuple[str, str]:
    """Split NAME=PATH; a path alone is named after its file.

    A path or glob that contains "=", such as day=2024/*.parquet, has no name.
    """
    from rankql.sources.files import is_path

    name, equals, path = run.partition("=")
    if equals and "/" not in name and not is_path(run):
        return name, path
    return Path(re.sub(r"\.(gz|zst)$", "", run)).stem, run


def keyword_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Turn options that are set into keyword arguments, with pairs and the grades of events."""
    keywords = {name: value for name, value in options.items() if value is not None}
    for name in {"query", "item"} & keywords.keys():
        if "," in keywords[name] and not re.search(r"[()\[']", keywords[name]):
            keywords[name] = keywords[name].split(",")  # not an expression, such as f(a, b)
    rel = keywords.get("rel", "")
    column, _, mapping = rel.partition("=")
    for text, sign, name in ((rel, "=", ""), (mapping, ":", column)):
        pairs = [part.rpartition(sign) for part in text.split(",")]
        if all(_EVENT.fullmatch(f"{event}={grade}") for event, _, grade in pairs):
            numbers = {event.strip(): float(grade) for event, _, grade in pairs}
            grades = {event: int(x) if x.is_integer() else x for event, x in numbers.items()}
            keywords["rel"] = (name, grades) if name else grades
    if "ascending" in keywords:
        keywords["descending"] = not keywords.pop("ascending")
    return keywords


# The grade of an event, as in buy=3.
_EVENT = re.compile(r"\s*\w[\w .:/-]*=\s*-?(\d+\.?\d*|\.\d+)\s*")


def split_slices(by: Sequence[str]) -> list[list[str]]:
    """Split each --by into its attributes."""
    return [group.split(",") for group in by]
