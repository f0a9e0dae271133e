"""`compare` and `gate` of frames with values per query, which are read as results first."""

from collections.abc import Mapping
from typing import Any

import polars as pl

import rankql


def as_values(data: Any, **options: Any) -> Any:
    """The results of frames; columns that the options name are attributes."""
    if isinstance(data, Mapping):
        return {name: as_values(each, **options) for name, each in data.items()}
    if not isinstance(data, pl.DataFrame):
        return data
    groups = options.get("by") or ()
    groups = [groups] if isinstance(groups, str) else groups
    names = [name for group in groups for name in ([group] if isinstance(group, str) else group)]
    attributes = {*names, options.get("cluster"), options.get("weight")}
    metrics = rankql.read_values(data).metrics
    return rankql.read_values(data, metrics=[x for x in metrics if x not in attributes] or None)


def compare_values(frames: Any, **options: Any) -> Any:
    """Compare values per query."""
    return rankql.compare(as_values(frames, **options), **options)


def gate_values(run: Any, *, baseline: Any = None, **options: Any) -> Any:
    """Check values per query against limits."""
    run, baseline = (as_values(data, **options) for data in (run, baseline))
    return rankql.gate(run, baseline=baseline, **options)
