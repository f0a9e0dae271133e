"""Arguments of a command as arguments of a function: runs and judgments."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from rankql.evaluation.values import Request
    from rankql.writing import HeaderlessPath

Path: TypeAlias = "str | HeaderlessPath"


def split_inputs(
    inputs: Sequence[Path], request: Request | None = None, item: Any = None
) -> tuple[Any, Path | None]:
    """Split RUN... [QRELS] into the run, or the runs by name, and the judgments if there are any.

    A run is named by NAME=PATH or after its file. The last input is a run too if it has a name, if
    eval --output wrote it, if it has lists of retrieved ids, or values as this request describes
    them. A database opens in the background, so call this before polars is imported.
    """
    from rankql.sources.private import open_in_background

    open_in_background()
    from rankql.evaluation.values import Request, identify

    request = request or Request(is_run=True, item=item)
    require_no_metric(inputs)
    path = split_name(inputs[-1])[1]
    named = path != inputs[-1]
    no_qrels = len(inputs) == 1 or named or identify(path, request=request).kind != "rows"
    runs, qrels = (inputs, None) if no_qrels else (inputs[:-1], inputs[-1])
    if len(runs) == 1 and split_name(runs[0])[1] == runs[0]:
        return runs[0], qrels
    return name_runs(runs), qrels


def split_query(inputs: Sequence[Path]) -> tuple[Sequence[Path], dict[str, str]]:
    """Split RUN... [QRELS] [QUERY METRIC] into the files, and the query and the metric if given."""
    from rankql.registry.parse import is_metric
    from rankql.sources.files import is_path

    last = str(inputs[-1])
    is_file = is_path(last) or is_path(str(split_name(inputs[-1])[1]))
    if len(inputs) < 3 or is_file or not is_metric(last):
        return inputs, {}
    return inputs[:-2], {"of": str(inputs[-2]), "metric": last}


def require_no_metric(inputs: Sequence[Path]) -> None:
    """Refuse the name of a metric in place of a file."""
    from rankql.registry.parse import is_metric
    from rankql.sources.files import is_path

    for text in map(str, inputs[1:]):
        if "@" in text and is_metric(text) and not is_path(text) and not os.path.exists(text):
            raise click.UsageError(f"{text!r} is a metric, not a file. Pass -m {text}")


def name_runs(runs: Sequence[Path], kind: str = "run") -> dict[str, Path]:
    """The paths by name; refuse the same name twice."""
    by_name = dict(map(split_name, runs))
    if len(by_name) < len(runs):
        raise click.UsageError(f"Two {kind}s have the same name. Name each {kind}: NAME=PATH.")
    return by_name


def split_name(run: Path) -> tuple[str, Path]:
    """Split NAME=PATH; a path alone is named after its file.

    A path or glob that contains "=", such as day=2024/*.parquet, has no name.
    """
    from rankql.sources.files import is_path

    text = os.fspath(run)
    name, equals, path = text.partition("=")
    if equals and "/" not in name and not is_path(text):
        return name, path if isinstance(run, str) else replace(run, path=path)
    return pathlib.Path(re.sub(r"\.(gz|zst)$", "", text)).stem, run
