"""correlate: how similar rankings are to those of a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Unpack

import polars as pl

from rankql import text
from rankql.errors import RankqlError
from rankql.evaluation.checks import require_unique, validate_columns
from rankql.evaluation.compute import count_rankings
from rankql.evaluation.means import Meta, require_interval
from rankql.evaluation.notes import COUNTED, describe
from rankql.evaluation.overlap import format_examples, no_common_item_message, require_ranked_rows
from rankql.evaluation.readable import macro_call
from rankql.evaluation.request import (
    DEFAULT_CORRELATIONS,
    Columns,
    Reading,
    parse_groupings,
)
from rankql.evaluation.result import Result
from rankql.evaluation.steps import BY_ITEM, SqlRunner, attributes_by_query, source_ctes, with_ctes
from rankql.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.registry.all_metrics import CORRELATIONS
from rankql.registry.argument_checks import require_whole_number
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.reader import fetch_frame, render_script
from rankql.sources.session import duckdb_errors, open_session
from rankql.sources.tables import Data
from rankql.writing import remember_inputs

if TYPE_CHECKING:
    import duckdb

# The number of items per query in the reference, in the run and in both.
_COUNTS = (IN_REFERENCE, IN_RUN, IN_BOTH) = tuple(
    f"{INTERNAL_PREFIX}in_{side}" for side in ("reference", "run", "both")
)
# The position of an item in the reference.
_REFERENCE_POS = f"{INTERNAL_PREFIX}reference_pos"


@remember_inputs
def correlate(
    run: Data | Mapping[str, Data],
    reference: Data,
    metrics: str | Sequence[str] = DEFAULT_CORRELATIONS,
    *,
    k: int | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    **columns: Unpack[Columns],
) -> Result:
    """Measure how similar the rankings of one or more runs are to those of a reference.

    Notes count the queries and items that are in one table only.

    Parameters
    ----------
    run, reference : path, table, frame or dict
        Rankings with the columns query, item, and score or pos. If the names of columns differ,
        pass a pair: `item=("docno", "doc_id")`.
    metrics : str or list of str
        Measures of similarity.

        `RBO(p=0.9)` compares all items of both rankings; with bound=min, max or residual it
        returns the bounds for longer rankings. `TauB`, `TauAP` and `TauDistance` compare the items
        that are in both rankings.
    k : int, optional
        Compare the first k items of each ranking, as a cutoff such as `RBO(p=0.9)@10` does.
    by, attributes, con, interval, confidence, **columns
        As in `evaluate`.

    Examples
    --------
    >>> first = pl.DataFrame({"query": ["a"] * 3, "item": ["x", "y", "z"], "pos": [1, 2, 3]})
    >>> second = pl.DataFrame({"query": ["a"] * 3, "item": ["x", "z", "w"], "pos": [1, 2, 3]})
    >>> correlate(second, first, "RBO(p=0.9)")["RBO(p=0.9)"]
    0.685
    """
    require_interval(interval, confidence)
    reading = Reading.of(columns, correlate, Columns)
    if reading.columns["rel"] is not None:
        raise RankqlError("Rankings have no grades. Leave rel= out")
    parsed, groups = _with_cutoff(parse(metrics, CORRELATIONS), k), parse_groupings(by)
    conventions = Conventions()
    with open_session(con, run, reference, attributes) as session:
        inputs = read_inputs(
            session,
            run,
            None,
            attributes,
            reading.columns,
            reading.system,
            groups,
            reference,
            reading.descending,
        )
        validate_columns(session, inputs)
        sql = _query_sql(inputs, parsed, conventions)
        with duckdb_errors(session):
            ask = SqlRunner(session, inputs, conventions)
            _require_unique(ask, inputs)
            rows, counters = fetch_frame(session, sql), count_rankings(session, inputs, conventions)
            require_ranked_rows(counters)
            notes = [
                *describe(COUNTED[:2], counters),
                *_describe_overlap(rows, inputs, parsed, ask),
            ]
        in_both = pl.all_horizontal(pl.col(IN_REFERENCE, IN_RUN) > 0)
        return Result(
            meta=Meta(
                query=inputs.query,
                metrics=[metric.name for metric in parsed],
                canonical={m.name: m.canonical for m in parsed if m.name != m.canonical},
                # Those about grades are None.
                conventions={
                    field.name: getattr(conventions, field.name)
                    if field.name in ("profile", "ties", "undefined")
                    else None
                    for field in fields(Conventions)
                },
                system=inputs.many,
                by=list(inputs.by),
                groupings=groups,
            ),
            sql=render_script(session, sql),
            columns={table.label: table.role_columns for table in inputs.tables},
            notes=notes,
            interval=interval,
            confidence=confidence,
            values=rows.filter(in_both).drop(_COUNTS),
        )


def _with_cutoff(metrics: Sequence[Metric], k: int | None) -> list[Metric]:
    """The metrics, with the cutoff k if they have none."""
    if k is not None:
        require_whole_number("k", k, 1)
    for metric in metrics:
        if metric.record is None:
            raise RankqlError(
                f"correlate does not support SQL expressions such as {metric.label!r}. Use metrics "
                "of two rankings, such as TauB"
            )
    metrics = [metric if metric.k or k is None else metric.at(k) for metric in metrics]
    return list({metric.canonical: metric for metric in reversed(metrics)}.values())[::-1]


def _require_unique(ask: SqlRunner, inputs: Inputs) -> None:
    """Refuse rankings with duplicate items or positions."""
    for source, scored in (("run", inputs.scored), ("reference", _scored(inputs))):
        place = "score" if scored else "pos"
        columns = ["item", *([] if scored else ["pos"])]
        where = f"WHERE {place} IS NOT NULL"
        require_unique(ask, inputs, [(source, column, where) for column in columns])


def _scored(inputs: Inputs) -> bool:
    """Whether scores order the reference."""
    assert inputs.reference
    return "pos" not in inputs.reference.roles


def _query_sql(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> str:
    """The SQL of all metrics: one row per query and system."""
    cutoffs = [metric.k for metric in metrics]
    k = None if None in cutoffs else max(cutoffs, key=lambda cutoff: cutoff or 0)
    steps = source_ctes(inputs, conventions)
    steps["shown"] = _ranked("run", inputs.keys, inputs.scored, k)
    steps["expected"] = _ranked("reference", "query", _scored(inputs), k)
    expected = "expected"
    if inputs.many:
        names = literal([name for name in inputs.runs if name is not None])
        systems = f"SELECT unnest({names}) AS system"
        if inputs.system is not None:
            systems = "SELECT DISTINCT system FROM run"
        expected = f"(FROM expected CROSS JOIN ({systems}))"
    # Not a FULL JOIN, after which DuckDB 1.4 groups a query twice.
    steps["pairs"] = (
        f"    SELECT {inputs.keys}, item, max(theirs) AS {_REFERENCE_POS}, max(ours) AS pos\n"
        "    FROM (\n"
        f"        SELECT {inputs.keys}, item, pos AS theirs, NULL::DOUBLE AS ours FROM {expected}\n"
        f"        UNION ALL SELECT {inputs.keys}, item, NULL, pos FROM shown\n"
        f"    ) GROUP BY {inputs.keys}, item"
    )
    values = {
        IN_REFERENCE: f"count({_REFERENCE_POS})",
        IN_RUN: "count(pos)",
        IN_BOTH: f"count({_REFERENCE_POS} + pos)",
        **{metric.name: _call(metric) for metric in metrics},
    }
    homes = [home for home in ("attributes", "reference", "run") if inputs.attributes_in(home)]
    joins = "".join(
        f"\nLEFT JOIN {attributes_by_query(inputs, home)} USING (query)" for home in homes
    )
    named = [
        *(["system"] if inputs.many else []),
        f"query AS {quote(inputs.query)}",
        *(f"any_value({inputs.attribute(name)}) AS {quote(name)}" for name in inputs.by),
        f"false AS {MISSING}",
        *(f"{value} AS {quote(name)}" for name, value in values.items()),
    ]
    order = ", ".join(f"{key} ASC NULLS LAST" for key in inputs.keys.split(", "))
    return (
        f"{with_ctes(steps)}SELECT " + ",\n    ".join(named) + f"\nFROM pairs{joins}\n"
        f"GROUP BY {inputs.keys}\nORDER BY {order}"
    )


def _ranked(source: str, keys: str, scored: bool, k: int | None) -> str:
    """The first k items of every ranking, with their positions."""
    if not scored:
        top = "" if k is None else f" AND pos <= {k}"
        return f"    SELECT {keys}, item, pos FROM {source} WHERE pos IS NOT NULL{top}"
    top = "" if k is None else f"\n    QUALIFY pos <= {k}"
    order = f"PARTITION BY {keys} ORDER BY score DESC NULLS LAST, {BY_ITEM} NULLS LAST"
    return (
        f"    SELECT {keys}, item, CAST(row_number() OVER ({order}) AS DOUBLE) AS pos\n"
        f"    FROM {source} WHERE score IS NOT NULL{top}"
    )


def _call(metric: Metric) -> str:
    """The call of a macro; metrics of grades take the negative position in the reference."""
    assert metric.record
    reference, macro = _REFERENCE_POS, metric.record.macro
    if "rel" in metric.record.columns:
        top = "" if metric.k is None else f"WHEN {reference} <= {metric.k} "
        reference = f"CASE {top}THEN -{reference} END" if top else f"-{reference}"
    return macro_call(macro, [reference, "pos"], metric.arguments(vars(Conventions())))


def _describe_overlap(
    rows: pl.DataFrame, inputs: Inputs, metrics: Sequence[Metric], ask: SqlRunner
) -> Iterator[str]:
    """Notes on queries and items in one table only; an error if none are in both."""
    for system in rows["system"].unique(maintain_order=True) if inputs.many else [None]:
        run = "the run" if system is None else f"run {system!r}"
        queries = rows if system is None else rows.filter(system=system)
        in_run, in_reference = (queries.filter(pl.col(n) > 0) for n in (IN_RUN, IN_REFERENCE))
        in_both = in_run.filter(pl.col(IN_REFERENCE) > 0)
        if in_both.is_empty():
            raise RankqlError(
                f"No query of {run} is in the reference: it has {_some(in_run, inputs)}, the "
                f"reference has {_some(in_reference, inputs)}. Write query ids the same way in both"
            )
        for column, total, source, other in (
            (IN_REFERENCE, in_run, run, "the reference"),
            (IN_RUN, in_reference, "the reference", run),
        ):
            left_out = total.filter(pl.col(column) == 0)
            if len(left_out):
                are = text.is_or_are(len(left_out))
                yield (
                    f"{len(left_out):,} of {len(total):,} queries of {source} {are} not in {other} "
                    f"and left out ({_some(left_out, inputs)}"
                    f"{', ...' if len(left_out) > 3 else ''})."
                )
        common = int(in_both[IN_BOTH].sum())
        items = int(in_both[IN_RUN].sum()) + int(in_both[IN_REFERENCE].sum()) - common
        only = "" if system is None else f"WHERE system = {literal(system)}"
        anywhere = f"SELECT 1 FROM run JOIN reference USING (query, item) {only} LIMIT 1"
        if not common and not ask(anywhere):
            raise RankqlError(no_common_item_message(ask, inputs, system))
        if common < items:
            names = [m.name for m in metrics if m.record and m.record.shared_items]
            uses = "use" if len(names) > 1 else "uses"
            only_these = f" {text.join_words(names)} {uses} these only." if names else ""
            are = text.is_or_are(common)
            both = f"{run} and the reference"
            yield f"{common:,} of {items:,} items {are} in both {both}.{only_these}"


def _some(rows: pl.DataFrame, inputs: Inputs) -> str:
    return format_examples(rows[inputs.query][:3].to_list())
