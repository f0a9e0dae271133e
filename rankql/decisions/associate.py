"""Do metrics go with business outcomes? Tables joined by key, then correlated."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.association import Association, AssociationTable
from rankql.decisions.key_join import KeyJoin, match_keys, read_number
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.combining import compare_evaluations, open_result, read_metadata
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.result import Result
from rankql.evaluation.summary import compared_value
from rankql.evaluation.values import is_number_column, resolve_directions
from rankql.registry.argument_checks import normal_z, require
from rankql.registry.conventions import Conventions
from rankql.registry.parse import is_metric, resolve_names
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, Table, require_column
from rankql.writing import remember_inputs


@remember_inputs
def associate(
    per_query: Data,
    outcomes: Data,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    metrics: str | Sequence[str] | None = None,
    outcome: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    baseline: str | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Correlate metrics with outcomes, such as clicks or revenue, by key and within slices.

    If a key has several rows, metrics and rates are averaged, and ratios are taken of the sums. If
    both tables have a column `system` with two systems, the differences are correlated.

    Intervals are Fisher's z for Pearson, and Bonett and Wright (2000) for Spearman. The p-value
    belongs to the interval. A sentence says "higher" or "lower" only if Spearman's interval
    excludes 0 and there are at least 10 keys (within slices, 9 plus the number of slices). It is
    then wrong for at most 5% of unrelated columns, including skewed and tied ones. NULLs and ratios
    with divisor 0 are dropped and counted. Values that are not finite are an error.

    Parameters
    ----------
    per_query : result or table
        A result of `evaluate`, a file that its `output=` wrote, or any table with the key and
        metrics.
    outcomes : table
        Any table with the key and outcomes.
    on : str, list of str or dict
        Key that joins both tables.

        Such as 'query', 'user', 'day' or several columns, or {'query': 'search'} if the names
        differ.
    metrics : str or list of str, optional
        Metrics; by default all columns named like metrics or, if there are none, all of numbers.
    outcome : str, list of str or dict, optional
        KPIs: columns of rates, or ratios of sums; by default all columns of numbers.

        Ratios are {'CTR': ('clicks', 'impressions')}.
    by : str or list, optional
        Add slices: correlations within all slices together, and in each.

        Over all slices, the deviations from the slices' means are correlated.
    baseline : str, optional
        The system to start from, if there are two.
    higher_is_better : bool or dict, optional
        Direction of columns that are not metrics of rankql, for `quadrants`: {'wait': False}. The
        default is True.
    confidence : float
        Level of the confidence intervals.
    con : duckdb.DuckDBPyConnection, optional
        The connection whose tables are named.

    Examples
    --------
    >>> import polars as pl
    >>> scores = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "AP": [0.1, 0.4, 0.5, 0.7, 0.9]})
    >>> log = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "CTR": [0.0, 0.2, 0.1, 0.3, 0.4]})
    >>> associate(scores, log, on="query").table["pearson"].round(3).item()
    0.938
    """
    require_package("scipy", "stats", "associate")
    normal_z(confidence)  # refused before any data is read
    from rankql.decisions.correlations import correlate_pairs

    keys, groups = _parse_key(on), parse_groupings(by)
    with open_session(con, per_query, outcomes) as session:
        inputs = {"per_query": per_query, "outcomes": outcomes}
        inputs = {label: _open_result(data, label) for label, data in inputs.items()}
        results = {label: data for label, data in inputs.items() if isinstance(data, Result)}
        # Two results may have different judgments on purpose, such as grades and clicks.
        mismatches = compare_evaluations(results, "note")
        left, result_metrics = _open_table(session, inputs["per_query"], "per_query")
        right, _ = _open_table(session, inputs["outcomes"], "outcomes")
        keys = {
            require_column(left, one, "on"): require_column(right, other, "on")
            for one, other in keys.items()
        }
        attributes = {"system", *itertools.chain(*groups)}
        names = _resolve_metrics(session, left, metrics, result_metrics, {*keys, *attributes})
        columns = _resolve_outcomes(session, right, outcome, {*keys.values(), *attributes})
        join = KeyJoin(left, right, keys, groups, names, columns)
        join.validate()
        pairs, systems, notes = match_keys(session, join, baseline)
    directions, _ = resolve_directions(names, higher_is_better, [*columns])
    table, sign_notes = correlate_pairs(pairs, join, confidence, systems is not None)
    if systems:
        change = f"Each value is the change per {join.unit}: {systems[1]} - {systems[0]}"
        notes = [change, *notes]
    notes += mismatches + sign_notes
    if metrics is None and not any(map(is_metric, names)):
        notes.insert(
            0,
            f"No column of per_query is named like a metric. All its numbers are used: "
            f"{text.join_words(names)}",
        )
    if lower := [name for name, higher in directions.items() if not higher]:
        notes.append(f"Lower is better: {', '.join(lower)}")
    if len(table) > 1:
        notes.append(
            f"p-values are not adjusted for the {len(table):,} rows of the table. Of unrelated "
            "columns, about 1 in 20 is below 0.05"
        )
    notes.append("Correlation does not show causation")
    return Association(
        table, pairs, [*keys], names, [*columns], groups, systems, confidence, notes, directions
    )


def _parse_key(on: Any) -> dict[str, str]:
    """The columns of the key: their names in per_query, and those in outcomes."""
    columns = _parse_columns(on)
    valid = bool(columns) and all(len(parts) == 1 for parts in columns.values())
    require(valid, f"on= must name the columns of the key, not {on!r}")
    require("system" not in columns, "on= cannot contain 'system'. Name the key, such as 'query'")
    return {name: parts[0] for name, parts in columns.items()}


def _parse_columns(value: Any) -> dict[str, tuple[str, ...]]:
    """Columns by name, from a text, a list or a dict; empty for anything else."""
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        names = dict(zip(names, names, strict=True))
    if not isinstance(names, Mapping):
        return {}
    columns = {x: tuple(y) if isinstance(y, list | tuple) else (y,) for x, y in names.items()}
    valid = all(isinstance(x, str) for name, parts in columns.items() for x in (name, *parts))
    return columns if valid else {}


def _open_result(data: Any, label: str) -> Any:
    """The result that the input is or that its file holds, else the input itself."""
    if isinstance(data, Mapping):
        raise RankqlError(
            f"{label} must be one table, not a dict. Put systems in one table with a column "
            "'system'"
        )
    if isinstance(data, str | os.PathLike) and (meta := read_metadata(data)) is not None:
        data = Result(meta, values=Path(data))
    return open_result(data) if isinstance(data, MeansResult) else data


def _open_table(session: Session, data: Any, label: str) -> tuple[Table, list[str]]:
    """The input as a table, and its metrics if it is a result."""
    if not isinstance(data, Result):
        return session.table(data, label), []
    metrics = [name for name in data.metrics if name not in data.catalogue_metrics]
    values = [compared_value(name, data.conventions) for name in metrics]
    rows = data.frame().select(*data.keys, *data.meta.by, *values)
    return session.table(rows, label), metrics


def _resolve_metrics(
    session: Session, table: Table, metrics: Any, known: Collection[str], excluded: Collection[str]
) -> list[str]:
    """The metric columns: those asked for, those named like metrics, or all numbers."""
    if metrics is None:
        numbers = _list_numbers(session, table, excluded)
        require(bool(numbers), "per_query has no numeric column. Pass metrics=")
        return [name for name in numbers if name in known or is_metric(name)] or numbers
    texts = {} if isinstance(metrics, Mapping) else _parse_columns(metrics)
    require(bool(texts), f"metrics= must name columns of per_query, not {metrics!r}")
    rules, names = Conventions().as_dict(), []
    for metric in texts:
        names += resolve_names(metric, list(table.columns), rules)
    return list(dict.fromkeys(require_column(table, name, "metrics") for name in names))


def _resolve_outcomes(
    session: Session, table: Table, outcome: Any, excluded: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The outcomes by name: one column each, or two whose sums are divided."""
    if outcome is None:
        outcome = _list_numbers(session, table, excluded)
        require(bool(outcome), "outcomes has no numeric column except the key. Pass outcome=")
    columns = _parse_columns(outcome)
    require(
        bool(columns) and all(len(parts) in (1, 2) for parts in columns.values()),
        f"outcome= must name columns, or be a dict of ratios, not {outcome!r}. Example: "
        "{'CTR': ('clicks', 'impressions')}",
    )
    return {
        name: tuple(require_column(table, part, "outcome") for part in parts)
        for name, parts in columns.items()
    }


def _list_numbers(session: Session, table: Table, excluded: Collection[str]) -> list[str]:
    return [x for x in table.columns if x not in excluded and is_number_column(session, table, x)]


@remember_inputs
def sign_agreement(
    experiments: Data,
    offline: str = "offline",
    online: str = "online",
    *,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> AssociationTable:
    """How often the offline and the online metric of past launches changed in the same direction.

    `experiments` is a table with one row per launch. Its columns `offline` and `online` are
    differences, and higher is better for both. Launches where one of them did not change are
    counted separately. The share has the exact interval of Clopper and Pearson.

    >>> import polars as pl
    >>> past = pl.DataFrame({"offline": [1, 2, -1, 1, 3, 1, -2, 1],
    ...                      "online": [2, 1, -1, 1, 2, -1, 1, 3]})
    >>> print(sign_agreement(past).sentences[0])
    6 of 8 launches agree in sign: 0.75 (95% CI 0.35 to 0.97), not significantly different from \
chance
    """
    require_package("scipy", "stats", "sign_agreement")
    normal_z(confidence)  # refused before any data is read
    from scipy.stats import binomtest

    with open_session(con, experiments) as session:
        table = session.table(experiments, "experiments")
        offline = require_column(table, offline, "offline")
        online = require_column(table, online, "online")
        product = " * ".join(f"sign({read_number(table, name)})" for name in (offline, online))
        counts = ", ".join(f"count(*) FILTER (x {test})" for test in ("> 0", "< 0", "= 0"))
        sql = f"SELECT count(*), {counts} FROM (SELECT {product} AS x FROM {table.sql})"
        total, agree, disagree, unchanged = fetch(session, sql)[0]
    n, launches = agree + disagree, agree + disagree + unchanged
    require(launches > 0, "experiments has no row with both differences")
    share, lo, hi, sentences = None, None, None, []
    if n:
        share, (lo, hi) = agree / n, binomtest(agree, n).proportion_ci(confidence, "exact")
        chance = "not significantly different from chance"
        if not lo <= 0.5 <= hi:
            chance = f"{'more' if lo > 0.5 else 'less'} often than by chance"
        agrees = f"{text.format_count(n, 'launch')} {'agrees' if n == 1 else 'agree'} in sign"
        interval = f"{text.format_percent(confidence)} CI {lo:.2f} to {hi:.2f}"
        sentences.append(f"{agree:,} of {agrees}: {share:.2f} ({interval}), {chance}")
    else:
        sentences.append("No launch changed both metrics, so there are no signs to compare")
    if unchanged:
        of = text.format_count(launches, "launch")
        sentences.append(f"{unchanged:,} of {of} did not change one or both metrics")
    if total > launches:
        of = text.format_count(total, "row")
        sentences.append(f"{total - launches:,} of {of} dropped because of a NULL")
    counted = {"launches": launches, "agree": agree, "disagree": disagree, "unmoved": unchanged}
    schema = dict.fromkeys(counted, pl.Int64) | dict.fromkeys(("share", "lo", "hi"), pl.Float64)
    row = counted | {"share": share, "lo": lo, "hi": hi}
    return AssociationTable(pl.DataFrame([row], schema=schema), sentences)
