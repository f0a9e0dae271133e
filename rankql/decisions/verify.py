"""Is a saved result what its inputs give? They are evaluated again, and compared with the file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql.core.base.errors import Question, RankqlError
from rankql.core.base.manifest import HASH_LENGTH, NOISE, plain_manifest, read_manifest, recording
from rankql.core.base.results import TableResult
from rankql.core.base.text import format_count, join_words
from rankql.core.base.writing import PARQUET, remember_inputs
from rankql.core.evaluation.evaluate import evaluate
from rankql.core.tables.session import is_several_runs
from rankql.core.tables.tables import Data
from rankql.decisions.compare import compare
from rankql.features.table_hashes import list_values

# Numbers that differ by less, relative to their size, are the same.
_RELATIVE = 1e-9
# Of more numbers that differ, the others are counted.
_EXAMPLES = 3


@dataclass(eq=False, repr=False)
class Verification(TableResult):
    """Whether a saved result is what its inputs give: `ok`.

    `table` has a row per difference: the part, such as the table, and what of it differs.
    """

    table: pl.DataFrame
    title: str
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Is everything the same?"""
        return self.table.is_empty()


@remember_inputs
def verify(
    path: str | os.PathLike[str],
    runs: Data | Mapping[str, Data] | Sequence[Data] | None = None,
    qrels: Data | None = None,
    *,
    attributes: Data | None = None,
    judge: Data | None = None,
    train: Data | None = None,
    catalogue: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Verification:
    """Check that a saved result is what its inputs give.

    Evaluates the inputs again with the options that the file holds. Tables may come in any order of
    rows, and as other files or frames.

    Parameters
    ----------
    path : path
        An .html, .md, .json or .parquet file of `evaluate`, `compare` or a report.
    runs : path, table, frame, dict or list
        The runs, by the names in the file or in their order. Without them, the error names all
        tables that the result was computed from.
    qrels, attributes, judge, train, catalogue, con
        As in `evaluate`: each table that was passed to it.

    Examples
    --------
    >>> import polars as pl
    >>> import rankql
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> rankql.evaluate(run, qrels, "RR@10").save("result.json")
    >>> rankql.verify("result.json", run, qrels).passed
    True
    """
    saved, intact = read_manifest(path)
    tables = {"qrels": qrels, "attributes": attributes, "judge": judge, "train": train,
              "catalogue": catalogue}  # fmt: skip
    runs = _name_runs(saved["call"]["inputs"], runs, tables)
    differs = {} if intact else {"file": ["it was changed after rankql wrote it"]}
    numbers = dict[str, Any]()
    try:
        now, result = _evaluate_again(saved, runs, {**tables, "con": con})
        for part, text in _compare_records(saved, now):
            differs.setdefault(part, []).append(text)
        if isinstance(result, RankqlError):
            differs["evaluation"] = [f"it fails now: {result}"]
        else:
            numbers, others = _list_numbers(Path(path).expanduser(), saved, now, result)
            if wrong := [*_compare_numbers(numbers, others)]:
                equal = "" if differs else " although all inputs are the same"
                differs["numbers"] = [f"{len(wrong):,} differ{equal}", *wrong[:_EXAMPLES]]
    except (RankqlError, KeyError, TypeError, AttributeError, ValueError):
        if intact:
            raise
    rows = [(part, "; ".join(texts)) for part, texts in differs.items()]
    table = pl.DataFrame(rows, {"part": pl.String, "difference": pl.String}, orient="row")
    if differs:
        return Verification(table, f"Differs: {join_words([*differs])}")
    same = [format_count(len(now["systems"]) or 1, "run")]
    same += ["judgments"] * any("grades" in record for record in now["tables"].values())
    same += [x for x in now["tables"] if x != "qrels" and not x.startswith("run")]
    count = sum(type(x) in (int, float) for x in numbers.values())
    same += ["conventions", format_count(count, "number")]
    return Verification(table, f"Verified: {join_words(same)} are the same")


def _name_runs(names: Mapping[str, str], runs: Any, tables: Mapping[str, Any]) -> Any:
    """The runs as in the call of the file; refuse others, and tables that it has not or lacks."""
    labels = [label for label in names if label == "run" or label.startswith("run ")]
    if is_several_runs(runs):
        by_label = {f"run {name}": run for name, run in runs.items()}
        if labels == ["run"]:
            by_label = dict(zip(labels, runs.values(), strict=False))
    else:
        listed = runs if isinstance(runs, list) and labels != ["run"] else [runs]
        listed = [x for x in listed if x is not None]
        by_label = dict(zip([*labels, *range(len(listed))], listed, strict=False))
    passed = {*by_label, *(name for name, table in tables.items() if table is not None)}
    if passed != {*names}:
        listed = [f"{label} ({file})" if file else label for label, file in names.items()]
        raise RankqlError(f"The saved result is of {join_words(listed)}. Pass these tables")
    return by_label["run"] if labels == ["run"] else {x[4:]: by_label[x] for x in labels}


def _evaluate_again(
    saved: Mapping[str, Any], runs: Any, tables: Mapping[str, Any]
) -> tuple[dict[str, Any], Any]:
    """The manifest of the inputs and their result, or what is known if it fails, and the error."""
    options = saved["call"]["options"]
    size = options.get("catalogue") if isinstance(options.get("catalogue"), int) else None
    # Nothing of a manifest names a file to read or to write.
    options = {**options, **tables, "catalogue": size or tables["catalogue"]}
    options.pop("output", None)
    if isinstance(rel := options.get("rel"), list):
        options["rel"] = tuple(rel)  # the column of the events, and their grades
    function: Any = {"evaluate": evaluate, "compare": compare}[saved["call"]["function"]]
    with recording(saved["systems"]) as recorded:
        try:
            result = function(runs, **options)
            return plain_manifest(result.manifest()), result
        except RankqlError as error:
            if isinstance(error, Question) and error.metrics:
                raise RankqlError(
                    "The saved result does not say whose grades count, as it was written by an "
                    "earlier version of rankql. Evaluate the runs again with pool=, and save it"
                ) from None
            if not recorded.tables:  # the tables cannot be read
                raise
            failure = error
    found, *judged = recorded.tables
    found |= {"judge": judged[0]["qrels"]} if judged else {}
    return {**saved, "tables": plain_manifest(found)}, failure


def _compare_records(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What differs in version, tables and conventions: the part, and what of it."""
    rules = "conventions" if "conventions" in saved else "changed"
    before, after = (
        {"version": {"rankql": x["version"]}, "conventions": x[rules], **x["tables"]}
        for x in (saved, now)
    )
    hashed = saved["hash"]["rows"] == now["hash"]["rows"]
    if not hashed:
        versions = f"{saved['hash']['duckdb']} and {now['hash']['duckdb']}"
        yield "hash", f"cannot compare the tables: DuckDB {versions} have other hash functions"
    for part in {**before, **after}:
        old, new = before.get(part, {}), after.get(part, {})
        for name in {**old, **new}:
            values = old.get(name), new.get(name)
            is_hash = part in saved["tables"] and name != "rows" and "column of " not in name
            if values[0] != values[1] and (hashed or not is_hash):
                text = "{}: {!r} in the file, {!r} now".format(name, *values)
                yield part, f"different {name}" if is_hash else text


def _list_numbers(
    path: Path, saved: Mapping[str, Any], now: Mapping[str, Any], result: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The numbers of a file, and those of now: of Parquet its rows, else those of its manifest.

    A manifest of hashes has numbers that differ by metric alone.
    """
    if path.suffix.lower() not in PARQUET:
        before = saved.get("numbers", saved["hashes"])
        kinds = {name.partition(":")[0] for name in before}  # means, and maybe pairs
        after = {x: y for x, y in now["numbers"].items() if x.partition(":")[0] in kinds}
        if "numbers" in saved:
            return before, after
        before = dict(after)
        for kind, i, metric in ((x, i, y) for x in kinds for i, y in enumerate(result.metrics)):
            of_metric = slice(i * HASH_LENGTH, (i + 1) * HASH_LENGTH)
            if saved["hashes"][kind][of_metric] != now["hashes"][kind][of_metric]:
                own = [f"{y:.9g} ({x})" for x, y in now["numbers"].items() if x.startswith(kind)
                       and metric in x.split(", ") and isinstance(y, float)]  # fmt: skip
                before[metric], after[metric] = "different", ", ".join(own[:_EXAMPLES])
        return before, after
    file = pl.read_parquet(path)
    frames = [result.data, result.wide().table, getattr(result, "result", result).frame()]
    frame = next((x for x in frames if {*x.columns} == {*file.columns}), frames[0])
    before, after = (
        list_values(rows, saved["query"])
        | {f"{metric} {i}": row["value"] for metric, values in manifest["catalogue"].items()
           for i, row in enumerate(values)}
        for rows, manifest in ((file, saved), (frame, now))
    )  # fmt: skip
    return before, after


def _compare_numbers(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A text for each number that is not the same."""
    for name in {**saved, **now}:
        x, y = saved.get(name), now.get(name)
        if isinstance(x, int | float) and isinstance(y, int | float):
            same = math.isclose(x, y, rel_tol=_RELATIVE, abs_tol=NOISE)
        else:
            same = str(x) == str(y)
        if not same:
            before, after = (f"{v:.10g}" if isinstance(v, float) else v for v in (x, y))
            yield f"{name} is {before} in the file, {after} now"
