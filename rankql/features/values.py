"""Values per query that rankql did not compute, such as revenue: read as results, and directions.

The caller says that a table has values: `read_values`. On the command line it is a file of a query,
numbers, and a system or a day.

Values that other tools have printed are read as one row per query: rows of text are query, metric
and value, or metric, query and value. Frames have a column of metrics and one of values. In dicts,
the keys that are names of metrics decide.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import polars as pl

from rankql.core.base import column_names, text
from rankql.core.base.column_names import (
    RANKED_SYSTEMS,
    ROLES,
    SYSTEMS,
    TIMES,
    find_name,
    is_called,
    says,
)
from rankql.core.base.errors import (
    Question,
    RankqlError,
    describe_unknown,
    parse_number,
    require,
    require_plain_name,
)
from rankql.core.base.text import join_words
from rankql.core.base.writing import is_path, remember_inputs
from rankql.core.evaluation.plan.meta import Meta
from rankql.core.evaluation.result.result import Result, connect, require_finite
from rankql.core.expressions.checked_columns import is_pandas
from rankql.core.metrics import parse
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import MISSING, literal, quote
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.files import CSV, JSON, PARQUET, open_file, read_text, suffix_of
from rankql.core.tables.first_ranks import first_rank_error
from rankql.core.tables.private import private_connection
from rankql.core.tables.reader import fetch_frame, list_in_order
from rankql.core.tables.session import duckdb_errors, open_session
from rankql.core.tables.sql_expressions import number_type
from rankql.core.tables.tables import (
    Data,
    Table,
    has_decimal_comma,
    is_number,
    require_column,
    text_number,
)
from rankql.features.combine import require_one_row_per_query
from rankql.shapes.choose.cells import unpack_objects
from rankql.shapes.choose.choice import find_system
from rankql.shapes.open.plain import unwrap

Direction = bool | Mapping[str, bool] | None
# A row per query and system, and notes.
Printed = tuple[pl.DataFrame, list[str]]

# Words in names of columns of which lower values may be better.
LOWER_WORDS = re.compile(
    r"(?<![a-z])(abandon(ed|ment)?|bounced?|churn|complaint|cost|crash(es)?|defect|delay|err|error|"
    r"fail(ed|ure)?|hallucination|latency|latencies|loss(es)?|miss(es)?|(no|null|zero)[^a-z]?(hit|"
    r"answer|result)|perplexity|refund|refusal|reformulation|regret|timeout|toxicity|unanswered|"
    r"unsubscribed?)s?(?![a-z])"
)
# What TruLens and others call a query and a system, if no column has a usual name.
_INPUTS, _RUNS = ("input", "record_id"), ("run_id", "run")
_APPS = ("app_name", "app_version", "app_id", "app", "model", "model_name", "experiment")
# What the Columns line calls tables of values.
VALUES = "values"


@remember_inputs
def read_values(
    table: Data,
    *,
    query: str | None = None,
    metrics: str | Sequence[str] | None = None,
    system: str | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Result:
    """Read values per query of your own, such as revenue per user, for `compare` and `gate`.

    Parameters
    ----------
    table : path, table, frame or dict
        One row per query, user or day, and per system if it has several. Or what a tool printed:
        `trec_eval -q`, `ir_measures -q`, a frame with a query, a metric and a value in each row, or
        {query: {metric: value}}.
    query : str, optional
        Column of the query; by default the one with a usual name, such as query, user or day.
    metrics : str or list of str, optional
        Columns of numbers to read as metrics; by default all. The other columns are attributes,
        which by=, cluster= and weight= can name.
    system : str, optional
        Column of the system; by default `system`, or `variant` if queries repeat.
    con : duckdb.DuckDBPyConnection, optional
        The connection whose table is named.

    Examples
    --------
    >>> import polars as pl
    >>> shop = pl.DataFrame({"user": ["u1", "u2"], "country": ["de", "fr"], "revenue": [3.0, 5.0]})
    >>> read_values(shop)["revenue"]
    4.0
    """
    several = f"query must be one column of values, not {query!r}. Make one of them first"
    require(isinstance(query, str | None), several)
    names = [metrics] if isinstance(metrics, str) else metrics
    of_python = isinstance(table, list | tuple | Iterator | Mapping)  # where NaN is undefined
    table = _as_rows(table, query)
    result = open_printed(table, query, names, system) if con is None else None
    if result is None:
        with open_session(con, table) as session:
            rows = session.table(table, VALUES)
            rows = replace(rows, nan=rows.nan or of_python)
            result = _read(rows, query, names, system)
    return ask_first_ranks(result) if names is None else result


def _as_rows(data: Any, query: str | None) -> Any:
    """The values with the queries of an unnamed index of pandas, or those of ir_measures."""
    index: Any = getattr(data, "index", None)
    unnamed = is_pandas(data) and index.name is None and index.nlevels == 1
    if unnamed and index.dtype.kind != "i" and query is None:
        known = find_name(map(str, data.columns), (*ROLES["query"], *_INPUTS, *TIMES))
        return data if known else data.rename_axis("query").reset_index()
    rows = [*data] if isinstance(data, list | Iterator) else []
    if rows and all(hasattr(x, "measure") and hasattr(x, "query_id") for x in rows):
        values = [(x.query_id, str(x.measure), x.value) for x in rows]
        return pl.DataFrame(values, ["query", "metric", "value"], orient="row")
    if isinstance(data, Mapping) and all(isinstance(x, list | tuple) for x in data.values()):
        lengths = {*map(len, data.values())}
        flat = not any(isinstance(y, list | tuple | dict) for x in data.values() for y in x)
        numbers = any(isinstance(y, float) for x in data.values() for y in x)
        return pl.DataFrame({**data}) if len(lengths) == 1 and flat and numbers else data
    return rows or data


def ask_first_ranks(result: Result, label: str = VALUES) -> Result:
    """Values whose names do not say that they are ranks of first hits; others are an error."""
    for name in [x for x in result.metrics if column_names.says(x, "first rank")]:
        values = result.frame()[name].drop_nulls()
        if len(values) and (values % 1 == 0).all() and (values >= 1).all():
            raise first_rank_error(label, name)
    return result


def open_printed(
    data: Any,
    query: str | None = None,
    metrics: Sequence[str] | None = None,
    system: str | None = None,
) -> Result | None:
    """The values that another tool printed; None if they are something else."""
    header = read_header(data) if isinstance(data, str | os.PathLike) else data
    columns = () if isinstance(data, pl.DataFrame) else getattr(header, "columns", ())
    if find_name(map(str, columns), ["value"]):
        with open_session(None) as session:
            table = session.table(data, VALUES).with_undefined()
            data = fetch_frame(session, f"SELECT * FROM {table.sql}")
    printed = read_printed(data, query, system)
    if printed is None:
        return None
    rows, notes = printed
    with open_session(None) as session:
        result = _read(session.table(rows, VALUES), None, metrics, None)
    return result.derive(data_notes=[*result.data_notes, *notes])


@dataclass(frozen=True)
class Names:
    """The columns of values that the caller names: of other types, and by other names."""

    query: str | None = None
    metrics: Sequence[str] = ()
    attributes: Sequence[str] = ()
    system: str | None = None


def read_values_file(path: str | os.PathLike[str], names: Names) -> Result | None:
    """The values in a file of a query, numbers, and a system or a day; None if it is another."""
    if printed := open_printed(path, names.query, system=names.system):
        return printed
    table = read_header(path)
    columns = table.columns if table else {}
    key = names.query or find_name(columns, (*ROLES["query"], *TIMES))
    named = [name for name in dict.fromkeys(names.metrics) if name in columns and name != key]
    of_runs = map(table.known, ("item", "rel", "score", "pos")) if table else ()
    runs = {*itertools.chain(*of_runs)}
    if named and key not in columns and not runs and MISSING not in columns:
        raise column_names.missing_column("query", f" in {os.fspath(path)!r}", [*columns])
    taken = (key, names.system, *names.attributes, *named)
    known = (*TIMES, *column_names.ROW_NUMBERS)
    others = [x for x in columns if x not in taken and not is_called(x, known)]
    others = [x for x in others if not _may_name_systems(x)]
    values = [x for x in others if _is_number(columns[x]) or _is_flag(x, columns[x])]
    rest = {columns[x] for x in others if x not in values} - {"BOOLEAN"}  # flags are attributes
    if table is None or key not in columns or not (named or values):
        return None
    if rest or not {*runs, MISSING}.isdisjoint(others):  # MISSING is in files of results
        return None
    with open_session(None) as session:
        table = session.table(path, repr(os.fspath(path)))
        return _read(table, key, [*named, *values], names.system)


def read_header(path: str | os.PathLike[str]) -> Table | None:
    """The columns of a file with a header, as DuckDB finds them; None if it finds none."""
    name = os.path.expanduser(os.fspath(path))
    if suffix_of(name) in (*PARQUET, *CSV, *JSON) and is_path(name):
        with suppress(duckdb.Error), private_connection() as con:
            rows = con.sql(f"FROM {literal(name)} LIMIT 0")
            return Table(name, "", dict(zip(rows.columns, map(str, rows.types), strict=True)))
    return None


def _read(
    table: Table, query: str | None, names: Sequence[str] | None, system: str | None
) -> Result:
    """The values of a table with one row per query, as a result."""
    objects = {x for x, kind in table.columns.items() if fields_of(kind)}
    table = unpack_objects(table).with_undefined()
    known = (*ROLES["query"], *_INPUTS, *TIMES)
    key = query if query is not None else find_name(table.columns, known)
    if key is None:
        raise column_names.missing_column("query", f" in {table.label}", table.own_columns)
    key = require_column(table, key, "query")
    if system is None and "system" not in table.columns:
        system = find_system(table, {"query": key}, (), (*SYSTEMS, *_RUNS, *_APPS))
        if system is None and is_called(key, ["record_id"]):  # of one answer of one app
            apps = [
                x for x in _APPS if table.has(x) and table.value(f"count(DISTINCT {quote(x)}) > 1")
            ]
            if apps:
                asked = f"{table.label}: {join_words(apps)} may name systems"
                raise Question(asked, [{"system": name} for name in apps])
    else:
        system = require_column(table, system or "system", "system")
        other = f"{table.label} has a column system beside {system!r}. Rename or remove it"
        require(system.lower() == "system" or not table.has("system"), other)
    require(isinstance(names, Sequence | None), f"metrics must be columns, not {names!r}")
    others = [x for x in table.columns if x not in (key, system, MISSING, *objects)]
    if names is None:
        flags = [x for x in others if _is_flag(x, table.columns[x])]
        metrics = [x for x in others if x in flags or is_number_column(table, x)]
    else:
        metrics = [require_column(table, name, "metrics") for name in dict.fromkeys(names)]
    if not metrics:
        call = describe_commas(table, others) or ". Pass metrics="
        raise Question(
            f"{table.label} has no column of numbers to read as a metric{call}",
            found=table.own_columns,
        )
    by = [name for name in others if name not in metrics]
    for name in (key, *by, *metrics):
        require_plain_name(name)
    numbers = [
        f"{replace(table, roles={'rel': name}).number('rel')} AS {quote(name)}" for name in metrics
    ]
    fields = [*map(quote, (key, *by)), f"false AS {MISSING}"]
    if system:
        fields.insert(0, f"CAST({quote(system)} AS VARCHAR) AS system")
    with duckdb_errors():
        selected = f"SELECT {', '.join([*fields, *numbers])} FROM {table.sql}"
        rows = fetch_frame(table.session, selected)
    for name in metrics:
        if rows[name].null_count() and (wrong := _find_text(table, name)) is not None:
            call = describe_commas(table, [name])
            raise RankqlError(f"{table.label}: {name} must be a number, not {wrong!r}{call}")
    rows, notes = drop_totals(rows, key, metrics, bool(system))
    conventions = Conventions().as_dict()
    if not any(map(parse.is_metric, metrics)):
        conventions["missing"] = "skip"  # they are not 0 for missing queries
    canonical = {name: parse.canonical_names(name, conventions)[0] for name in metrics}
    meta = Meta(
        query=key,
        metrics=metrics,
        conventions=conventions,
        system=system is not None,
        systems=list_in_order(table, system) if system else [],
        by=by,
        canonical={name: x for name, x in canonical.items() if x != name},
    )
    roles = {"query": key, "metrics": ", ".join(metrics)} | ({"system": system} if system else {})
    roles |= {"attributes": ", ".join(by)} if by else {}
    result = Result(meta, columns={VALUES: roles}, values=rows, data_notes=notes)
    if not system and rows[key].is_duplicated().any():
        ranked = filter(_may_name_systems, rows.columns)
        alone = [x for x in ranked if not rows.select(key, x).is_duplicated().any()]
        if alone and key not in alone:
            asked = f"{table.label}: queries repeat, and {join_words(alone)} may name systems"
            raise Question(asked, [{"system": name} for name in alone])
    require_one_row_per_query(rows, result.keys)
    with connect(meta, rows) as con:
        require_finite(con, meta, metrics, table.label)
    return result


def _is_number(kind: str) -> bool:
    return is_number(kind) and kind not in ("BOOLEAN", '"NULL"')


def _is_flag(name: str, kind: str) -> bool:
    """Is it a flag called like the value of a metric, such as a hit, and not like an attribute?"""
    measured = parse.is_metric(name.rpartition(".")[2]) or says(name, "flag")
    return kind == "BOOLEAN" and measured


def _may_name_systems(name: str) -> bool:
    """May a column of values say which system has them, by its name?"""
    return is_called(name, (*SYSTEMS, *_APPS, *RANKED_SYSTEMS)) or says(name, "system")


def is_number_column(table: Table, name: str) -> bool:
    """Is it a column of numbers? Of a text file, are all its values numbers?"""
    if column_names.says(name, "row number"):
        return False
    if table.text:
        return number_type(table, name) is not None
    return _is_number(table.columns[name])


def _find_text(table: Table, name: str) -> str | None:
    """A value of a column of a text file that is not a number."""
    value = f"CAST({quote(name)} AS VARCHAR)"
    wrong = f"min({value}) FILTER (WHERE {text_number(name)} IS NULL)"
    return table.value(wrong) if table.text else None


def describe_commas(table: Table, names: Iterable[str]) -> str:
    """What to pass if a column of a text file has numbers such as 0,5; '' if none has."""
    for name in names:
        if has_decimal_comma(value := _find_text(table, name) or ""):
            return (
                f". The values of {name} have decimal commas, such as {value}: write points, or "
                "pass pl.read_csv(path, separator=';', decimal_comma=True)"
            )
    return ""


def align_values(results: Mapping[str, Result], attributes: Sequence[str]) -> dict[str, Result]:
    """Make results that `read_values` read agree with the others.

    They get the name of the key and the conventions of the results of `evaluate`, and keep only the
    attributes that are asked for: others may differ between the systems.
    """
    tables = [name for name, result in results.items() if VALUES in result.columns]
    if not tables:
        return dict(results)
    known = [result for name, result in results.items() if name not in tables]
    first = (known or [*results.values()])[0]
    by = first.meta.by
    if not known:
        by = [x for x in by if all(x in result.meta.by for result in results.values())]
        by = [x for x in by if x in attributes] if {*attributes} <= {*by} else by
    conventions = (known or [results[tables[0]]])[0].conventions
    if not known and any(each.conventions["missing"] != "skip" for each in results.values()):
        conventions = Conventions().as_dict()
    aligned = dict(results)
    for name in tables:
        result = results[name]
        for column in by:
            lacks = f"{name!r} has no column {column!r}, which the others have."
            require(column in result.frame().columns, lacks)
        shared = {x: getattr(first.meta, x) for x in ("query", "groupings", "weight")}
        metrics = [metric for metric in result.metrics if metric not in by]
        values = result.frame().rename({result.meta.query: first.meta.query})
        aligned[name] = result.derive(
            metrics=metrics, conventions=conventions, by=by, values=values, **shared
        )
    return aligned


def set_directions(
    result: Result, higher_is_better: Direction, others: Sequence[str] = ()
) -> Result:
    """The result with the directions of metrics that rankql does not know, and a note.

    A dict may name `others` too; True or False is for the metrics that rankql does not know.
    """
    if higher_is_better is None or isinstance(higher_is_better, Mapping):
        known = result.meta.higher_is_better
        known = {k: v for k, v in known.items() if k in result.metrics and v is not None}
        higher_is_better = {**known, **(higher_is_better or {})}  # type: ignore[dict-item]
    metrics, notes = result.metrics, [*result.data_notes]
    # Metrics without a direction, unless the caller states one.
    neither = [name for name in metrics if result.higher_is_better(name) is None]
    # The user may have written another expression under the name of a metric of shown items.
    own = [name for name in metrics if not parse.is_metric(name) or parse.find_shown(name)]
    directed = [name for name in metrics if name not in (*own, *neither)]
    defined = {name: not parse.lower_is_better(name) for name in directed}
    if isinstance(higher_is_better, Mapping):
        names, stated = [*dict.fromkeys([*metrics, *others])], {}
        for name, value in higher_is_better.items():
            matches = parse.resolve_names(name, names, Conventions().as_dict())
            unknown = describe_unknown("name in higher_is_better:", name, names)
            require(len(matches) == 1 and matches[0] in names, unknown)
            stated[matches[0]] = value
    else:
        stated = dict.fromkeys(own or metrics, higher_is_better)
    for name, value in stated.items():
        wrong = "higher_is_better must be True, False or a dict of name: True or False, not"
        require(isinstance(value, bool), f"{wrong} {value!r}.")
        contradicts = f"higher_is_better={value} contradicts the definition of {name}. Leave it out"
        require(defined.get(name, value) == value, contradicts)
    if assumed := [name for name in own if name not in stated and name not in neither]:
        _ask_direction(result, [name for name in assumed if _may_be_lower(name)])
        higher = f"Higher {text.join_words(assumed)} {text.is_or_are(len(assumed))}"
        words = f"{higher} assumed to be better. If not, set higher_is_better="
        notes.append(text.Note(words, kind=text.DIRECTION))
    directions = dict.fromkeys(neither) | defined | dict.fromkeys(assumed, True) | stated
    return result.derive(higher_is_better=directions, data_notes=notes)


def _may_be_lower(name: str) -> bool:
    """Does the name have a word, such as latency or zeroResults, of which lower is better?"""
    return LOWER_WORDS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) is not None


def _ask_direction(result: Result, names: Sequence[str]) -> None:
    """Ask whether lower values are better, but for expressions that negate them."""
    spelled = result.meta.call.get("options", {}).get("metrics") or ()
    own = (
        spelled if isinstance(spelled, Mapping) else dict(x.partition(" = ")[::2] for x in spelled)
    )
    negated = {name for name, sql in own.items() if sql.lstrip(" (").startswith("-")}
    if names := [x for x in names if x not in negated and not x.startswith("-")]:
        calls = [{"higher_is_better": dict.fromkeys(names, value)} for value in (False, True)]
        raise Question(f"{text.join_words(names)}: is lower or higher better?", calls)


# Names of the row with the means, and what trec_eval counts once for a run.
_TOTALS = ("all", "amean")
_OF_RUN = ("runid", "num_q")
# Two printed numbers of d digits may differ by as much as one in the last of them.
_ROUNDING = 1.01


def read_printed(data: Any, query: str | None, system: str | None) -> Printed | None:
    """The values that a tool printed; None if they are something else.

    query, system: columns that the caller names.
    """
    if isinstance(data, str | os.PathLike):
        name = os.path.expanduser(os.fspath(data))
        if suffix_of(name) in {*PARQUET, *CSV} - {".tsv"} or not os.path.isfile(name):
            return None
        with suppress(UnicodeDecodeError, json.JSONDecodeError):
            if suffix_of(name) not in JSON:
                return _read_text(name)
            data = json.loads(read_text(name))
    if isinstance(data, Mapping):
        return _read_dict(data)
    return _read_frame(data, query, system) if isinstance(data, pl.DataFrame) else None


def _read_dict(data: Mapping[Any, Any]) -> Printed | None:
    """{query: {metric: value}} or {metric: {query: value}}."""
    parts = [x for x in data.values() if isinstance(x, Mapping) and _has_dicts(x)]
    data = parts[0] if len(parts) == 1 and not _has_dicts(data) else data
    inner = [*data.values()]
    if not inner or not all(isinstance(x, Mapping) and x for x in inner):
        return None
    names = {key for each in inner for key in each}
    within, around = _are_metrics(names), _are_metrics(data)
    if not any(parse.is_metric(key) for key in (*names, *data) if isinstance(key, str)):
        return None
    if any(isinstance(x, str) for each in inner for x in each.values()) and not around:
        named = [{"query": str(q), **x} for q, x in data.items()]
        return pl.DataFrame(named, infer_schema_length=None).fill_nan(None), []
    if within == around:
        make = "read_values(pl.DataFrame([{'query': q, 'metric': m, 'value': x} for"
        raise RankqlError(
            "Which keys are metrics? If the inner ones are, pass "
            f"{make} q, of in data.items() for m, x in of.items()])); if the outer ones are, "
            f"{make} m, of in data.items() for q, x in of.items()]))"
        )
    rows = [(b, a, x) if around else (a, b, x) for a, of in data.items() for b, x in of.items()]
    texts = [(str(a), str(b), _number_text(x)) for a, b, x in rows]
    frame = pl.DataFrame(texts, ["query", "metric", "value"], orient="row")
    return _widen(frame, [], "values")


def _number_text(value: Any) -> str | None:
    """A number as text: a flag is 0 or 1, and NaN is undefined."""
    value = unwrap(value)
    return None if value != value else str(int(value) if isinstance(value, bool) else value)


def _has_dicts(data: Mapping[Any, Any]) -> bool:
    """Is each value a dict of numbers and text, such as that of a query?"""
    return bool(data) and all(
        isinstance(x, Mapping) and not any(isinstance(y, Mapping | list) for y in x.values())
        for x in data.values()
    )


def _read_text(path: str) -> Printed | None:
    """Lines of metric, query and value (trec_eval), or query, metric and value (ir_measures), the
    latter also after the run, as boards have them.
    """
    first = next(map(str.split, open_file(path, repr(path), "").lines), [])
    systems = ["system"] * (len(first) == 4)
    if len(first) not in (3, 4) or parse_number(first[-1]) is None:
        return None
    place = next((i for i in ((2,) if systems else (0, 1)) if parse.is_metric(first[i])), None)
    if place is None:
        return None
    names = [*systems, *(("metric", "query") if place == 0 else ("query", "metric")), "value"]
    lines = [x for x in map(str.split, read_text(path).splitlines()) if len(x) == len(names)]
    return _widen(pl.DataFrame(lines, names, orient="row"), systems, os.path.basename(path))


def _are_metrics(keys: Iterable[Any]) -> bool:
    return all(isinstance(key, str) and parse.is_metric(key) for key in keys)


def _read_frame(frame: pl.DataFrame, query: str | None, system: str | None) -> Printed | None:
    """A column of queries, one of metrics, and `value`."""
    columns, value = frame.columns, find_name(frame.columns, ["value"])
    named = find_name(columns, ["measure", "metric"])
    metric = named or find_name(columns, ["name"])
    key = find_name(columns, [query] if query else ROLES["query"])
    graded = find_name(columns, (*ROLES["item"], *ROLES["rel"]))
    if value is None or metric is None or key is None or graded is not None:
        return None
    kept = {key: "query", metric: "metric", value: "value"}
    known = [system] if system else [*["name"] * bool(named), *SYSTEMS, *_RUNS]
    if system := find_name(columns, known):
        kept[system] = "system"
    texts = frame.select([*kept]).rename(kept).cast(pl.String)
    return _widen(texts, ["system"] if system else [], "values")


def drop_totals(rows: pl.DataFrame, key: str, metrics: Sequence[str], several: bool) -> Printed:
    """A row per query without a row of the means, and a note on it."""
    systems = ["system"] * several
    total = pl.col(key).cast(pl.String).is_in(_TOTALS)
    if not rows.select(total.any() & ~total.all()).item():
        return rows, []
    long = rows.unpivot(metrics, index=[*systems, key], variable_name="metric")
    _, notes = _widen(long.rename({key: "query"}).cast(pl.String), systems, "values")
    return rows.filter(~total), notes


def _widen(rows: pl.DataFrame, systems: list[str], label: str) -> Printed:
    """One row per query and system, without the rows of means."""
    number = pl.col("value").cast(pl.Float64, strict=False)
    rows = rows.filter(~pl.col("metric").is_in(_OF_RUN), number.is_not_null())
    keys = [*systems, "query", "metric"]
    twice = rows.filter(pl.struct(keys).is_duplicated())
    require(
        twice.is_empty(), f"{label} has several values of {twice[:1].select(keys).rows()}. Pass one"
    )
    totals = rows.filter(pl.col("query").is_in(_TOTALS))
    rest = rows.filter(~pl.col("query").is_in(_TOTALS)).with_columns(number)
    means = rest.group_by(*systems, "metric").agg(pl.mean("value").alias("mean"))
    for row in totals.join(means, on=[*systems, "metric"]).rows(named=True):
        digits = len(row["value"].partition(".")[2].partition("e")[0])
        differ = abs(row["mean"] - float(row["value"])) > max(_ROUNDING * 10.0**-digits, 1e-9)
        if differ and parse.record_of(row["metric"]).overall == "mean":
            raise RankqlError(
                f"{label}: {row['query']!r} has {row['metric']} = {row['value']}, which is not the "
                f"mean of the others, {row['mean']:.6g}. If it is a query, rename it; if not, "
                "remove its rows"
            )
    names = totals["query"].unique(maintain_order=True).to_list()
    notes = [f"{join_words([*map(repr, names)])} has the means and is left out"] if names else []
    index = [*systems, "query"]
    return rest.pivot(on="metric", index=index, values="value", maintain_order=True), notes
