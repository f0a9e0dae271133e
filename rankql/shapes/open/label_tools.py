"""Labels as label tools export them: a row for each label, with its annotator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankql.core.metrics.macros import quote
from rankql.core.tables.tables import Table
from rankql.shapes.open import plain
from rankql.shapes.open.answers import Rows

# What Label Studio calls a label of all of an item. That of a part of it has more fields.
_LABELS = ("rating", "number", "choices")


def are_tasks(keys: set[tuple[str, ...]]) -> bool:
    """Are they the keys of Label Studio's tasks?"""
    labelled = ("annotations", "result") in keys or ("predictions",) in keys
    return {("data",), ("annotations",)} <= keys and labelled


def rated_tasks(objects: Sequence[Any], label: str) -> Rows:
    """A row for each annotation of the tasks, without skipped ones, and a column for each control,
    under its name.
    """
    rows, lacking = list[dict[str, Any]](), 0
    for task in objects:
        done = [x for x in task["annotations"] if x.get("result") and not x.get("was_cancelled")]
        lacking += not done
        for annotation in done:
            who = annotation.get("completed_by")
            who = who.get("email", who.get("id")) if isinstance(who, Mapping) else who
            labels = {x.get("from_name", "rating"): _label(x) for x in annotation["result"]}
            rows.append({**task["data"], "annotator": who, **labels})
    if not rows:
        raise ValueError("no task has an annotation. Label them first")
    note = f"{lacking:,} of {len(objects):,} tasks have no annotation, or a skipped one: left out"
    return plain.to_frame(rows, label)[0], {"note": note} if lacking else {}


def _label(result: Mapping[str, Any]) -> Any:
    """The label of an item in a result of its annotation; several choices are one text."""
    value = result.get("value", {})
    label = next(iter(value.values()), None) if {*value} <= {*_LABELS} else None
    return ", ".join(label) if isinstance(label, list) else label


def open_responses(table: Table) -> Table:
    """The table with a row for each submitted response of argilla's flat records.

    Records without one stay, with no label.
    """
    names = [x.removesuffix(".responses") for x in table.columns if table.has(f"{x}.status")]
    if len(names) != 1 or table.has(name := names[0]):
        return table
    lists = [quote(f"{name}.responses{x}") for x in ("", ".users", ".status")]
    kept = f"list_filter(list_zip({', '.join(lists)}), lambda x_: x_[3] = 'submitted')"
    sums = f"sum(len({lists[0]})), sum(len({kept}))"
    every, submitted = table.row(sums)
    if every != submitted:
        others = f"{every - submitted:,} of {every:,} responses are drafts or discarded"
        table.note(f"{others}: left out")
    rows = f"SELECT *, unnest(if(len({kept}) > 0, {kept}, [NULL])) AS x_ FROM {table.sql}"
    labels = f"x_[1] AS {quote(name)}, x_[2] AS annotator"
    sql = f"(SELECT * EXCLUDE ({', '.join(lists)}, x_), {labels} FROM ({rows}))"
    return table.describe(sql, ordered=table.ordered)
