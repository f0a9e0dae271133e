"""The result of an evaluation: values per query, means by slice, and the ways out."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.errors import RankqlError, needs
from rankql.macros import MISSING, OURS, called, literal, quoted
from rankql.registry.conventions import Conventions
from rankql.registry.parse import (
    EVERY,
    has_direction,
    is_metric,
    lower_is_better,
    parse,
    value_range,
)
from rankql.text import TEXT

if TYPE_CHECKING:
    import altair as alt

RESAMPLES = 2000
SEED = 7
SUFFIXES = (".parquet", ".pq")


def parse_groupings(by: str | Sequence[str | Sequence[str]]) -> list[list[str]]:
    """The groupings that are asked for: names are one grouping, lists of names one each."""
    if isinstance(by, str):
        return [[by]]
    if not isinstance(by, list | tuple):
        raise RankqlError(f"by must be names of columns, or lists of them, not {by!r}")
    if all(isinstance(name, str) for name in by):
        return [list(by)] if by else []
    found = [[group] if isinstance(group, str) else list(group) for group in by]
    if not all(isinstance(name, str) for group in found for name in group):
        raise RankqlError(f"by must be names of columns, or lists of them, not {by!r}")
    return [group for i, group in enumerate(found) if group and group not in found[:i]]


def _labelled(name: str, column: str) -> str:
    """The label of the slices by an attribute, as SQL: every value has one of its own."""
    value, quote = f"CAST({column} AS VARCHAR)", literal("'")
    unclear = f"{value} = 'NULL' OR starts_with({value}, {quote}) OR contains({value}, ', ')"
    inside = f"{quote} || replace({value}, {quote}, {quote} || {quote}) || {quote}"
    text = f"CASE WHEN {unclear} THEN {inside} ELSE coalesce({value}, 'NULL') END"
    return f"{literal(name + '=')} || {text}"


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Where results are summed up; to open one each time would take longer than that.

    One thread adds up the rows in their order: sums are the same, to the last bit, every time.
    """
    return duckdb.connect(config={"threads": 1})


@dataclass(eq=False)
class Result(show.Tabular):
    """Values per query, and their means by system and slice.

    `per_query` has one row per query (and system), NULL where a metric is undefined; `summary` one
    row per system, slice and metric. `result["nDCG@10"]` is the mean over all queries. The same
    values have the same summary, to the last bit; a value that adds up fractions may differ there
    where the rows of the tables stand in another order.
    """

    meta: dict[str, Any]
    sql: str = ""
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    interval: str | None = "auto"
    confidence: float = 0.95
    # The values, with what is needed beside them for the means: here, or in a file.
    rows: pl.DataFrame | Path = field(default_factory=pl.DataFrame, repr=False)
    _summary: pl.DataFrame | None = field(default=None, repr=False)

    @property
    def metrics(self) -> list[str]:
        """The metrics, by their canonical names."""
        return list(self.meta["metrics"])

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions in force."""
        return dict(self.meta["conventions"])

    def lower_is_better(self, metric: str) -> bool:
        """Is a lower value better? By higher_is_better= for columns that rankql does not know."""
        given: dict[str, bool] = self.meta.get("higher_is_better", {})
        return not given[metric] if metric in given else lower_is_better(metric)

    @property
    def keys(self) -> list[str]:
        """The columns that tell one row of `per_query` from the next."""
        return [*(["system"] if self.meta["system"] else []), self.meta["query"]]

    def _attribute(self, name: str) -> str:
        """What an attribute is called within our SQL, where any name may be taken."""
        return f"{OURS}by_{self.meta['by'].index(name)}"

    @property
    def per_query(self) -> pl.DataFrame:
        """The value of every metric for every query, NULL where undefined."""
        return self.frame().select(*self.keys, *self.meta["by"], *self.metrics)

    def frame(self) -> pl.DataFrame:
        """The values with what is needed beside them, read where they are in a file."""
        return pl.read_parquet(self.rows) if isinstance(self.rows, Path) else self.rows

    @property
    def summary(self) -> pl.DataFrame:
        """The means by system and slice, with their intervals and the number of queries."""
        if self._summary is None:
            self._summary = self._summarised()
        return self._summary

    def __getitem__(self, metric: str) -> float | None:
        name = metric
        if name not in self.metrics:  # another spelling of it
            wanted = parse(metric, EVERY)
            name = wanted[0].under(self.conventions).name if len(wanted) == 1 else metric
        if name not in self.metrics:
            raise RankqlError(f"{metric!r} was not evaluated; there are: {', '.join(self.metrics)}")
        if self.meta["system"]:
            raise RankqlError("the result holds several systems: read their means in .summary")
        means = self.summary.filter(pl.col("metric") == name, pl.col("slice") == "all")
        return None if means.is_empty() else means["mean"][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def to_polars(self) -> pl.DataFrame:
        """The summary as a polars frame."""
        return self.summary

    def to_dict(self) -> dict[str, Any]:
        """Summary, conventions, columns and notes as plain values."""
        return {
            "summary": self.summary.to_dicts(),
            "conventions": self.conventions,
            "columns": self.columns,
            "notes": self.notes,
        }

    def to_markdown(self) -> str:
        """The summary and the conventions as Markdown."""
        return show.markdown(self.table(), self.remarks())

    def table(self) -> show.Rows:
        """The summary as text; columns that say nothing are left out."""
        frame = self.summary
        empty = [name for name in ("lo", "hi") if frame[name].null_count() == len(frame)]
        names = (attribute_column(name) for name in self.meta["by"])
        by = [name for name in names if name in frame.columns]
        drop = [*empty, *by, *([] if by else ["slice"])]
        return show.cells(frame.drop(drop))

    def remarks(self) -> list[str]:
        """What belongs under every table: conventions, columns, notes."""
        used = "; ".join(
            f"{label}: {', '.join(f'{role} = {column}' for role, column in roles.items())}"
            for label, roles in self.columns.items()
        )
        lines = [
            f"Conventions: {Conventions(**self.conventions)}",
            *([f"Columns: {used}"] if used else []),
        ]
        return [*lines, *(f"Note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        return show.text(self.table(), self.remarks())

    def _repr_html_(self) -> str:
        return show.as_html(self.table(), self.remarks())

    def plot(self, kind: str = "means", metric: str | None = None) -> alt.TopLevelMixin:
        """An altair chart: means with intervals, or the distribution; of one metric or of all."""
        needs("altair", "report", "plot")
        from rankql.output import charts

        return charts.of_result(self, kind, metric)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the values per query to a Parquet file, which `combine` takes in again."""
        with self._connection() as con:
            self.copy(con, "FROM rows", parquet_path(path))

    def copy(self, con: duckdb.DuckDBPyConnection, sql: str, path: Path) -> None:
        """Write what a query returns to a file, which appears whole or not at all."""
        meta = literal(json.dumps(self.meta, ensure_ascii=False))
        with atomic_path(path) as beside:
            con.execute(
                f"COPY ({sql}) TO {literal(str(beside))} "
                f"(FORMAT parquet, KV_METADATA {{rankql: {meta}}})"
            ).fetchall()
            self.rows = beside
            self.check()
        self.rows = path

    def check(self) -> None:
        """Refuse undefined values and missing queries where the conventions say so."""
        for kind in ("undefined", "missing"):
            if self.conventions[kind] == "error":
                self._refuse(kind)

    def _refuse(self, kind: str) -> None:
        empty = " OR ".join(f"{quoted(name)} IS NULL" for name in self.metrics)
        where = empty if kind == "undefined" else MISSING
        with self._connection() as con:
            key = quoted(self.meta["query"])
            sql = f"SELECT DISTINCT {key} FROM rows WHERE {where} ORDER BY 1"
            queries = [row[0] for row in con.sql(sql).fetchall()]
        if queries:
            some = ", ".join(map(repr, queries[:3]))
            what = (
                "have an undefined metric"
                if kind == "undefined"
                else "are judged but not in the run"
            )
            raise RankqlError(f"{len(queries)} queries {what}, such as {some} ({kind}='error')")

    @contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with the view `rows`."""
        con = _database(os.getpid()).cursor()
        if isinstance(self.rows, Path):
            path = literal(str(self.rows))
            con.execute(f"CREATE TEMP VIEW rows AS FROM read_parquet({path})").fetchall()
        else:
            con.register("rows", self.rows)
        try:
            yield con
        finally:
            con.close()

    def _long(self) -> str:
        """One row per query and metric: its value in the mean, and its weight there."""
        zero = self.conventions["undefined"] == "zero"
        systems = ["system"] if self.meta["system"] else []
        keys = f"{quoted(self.meta['query'])} AS query"
        by = [f"{quoted(name)} AS {self._attribute(name)}" for name in self.meta["by"]]
        keys = ", ".join([keys, *systems, *by])
        parts = []
        for i, name in enumerate(self.metrics):
            column, weight = quoted(name), self.meta["weights"].get(name)
            value = f"coalesce({column}, 0)" if zero and not weight else column
            undefined = f"{column} IS NULL"
            if self.conventions["missing"] == "zero" and not weight and has_direction(name):
                value = f"CASE WHEN {MISSING} AND {column} IS NOT NULL THEN 0 ELSE {value} END"
            if bounded := self._bounded(name):
                # Over the queries of the metric itself, or its mean could lie outside its bounds.
                undefined = f"{quoted(bounded)} IS NULL"
                end = "least" if name.endswith(" low") else "greatest"
                instead = f"{end}(0, coalesce({column}, 0))" if zero else "NULL"
                value = f"CASE WHEN {undefined} THEN {instead} ELSE {column} END"
            parts.append(
                f"SELECT {keys}, {MISSING} AS missing, {i} AS i, {value} AS value, "
                f"{undefined} AS undefined, {weight is not None} AS weighed, "
                f"CAST({quoted(weight) if weight else 1} AS DOUBLE) AS weight FROM rows"
            )
        return "\nUNION ALL ".join(parts)

    def _bounded(self, name: str) -> str | None:
        """The metric that this one is a bound of, if it is one."""
        metric = re.sub(" (low|high)$", "", name)
        bounds = self.conventions["unjudged"] == "bounds" and metric != name
        return metric if bounds and metric in self.metrics else None

    def _summarised(self) -> pl.DataFrame:
        systems = ["system"] if self.meta["system"] else []
        sliced = {name for group in self.meta["groupings"] for name in group}
        by = [name for name in self.meta["by"] if name in sliced]  # not what clusters alone
        keys = ", ".join(f"{key} ASC" for key in [*systems, "query"])
        inner = {name: self._attribute(name) for name in by}
        sets = [
            [*systems, *(inner[name] for name in group), "i"]
            for group in ([], *self.meta["groupings"])
        ]
        label = ", ".join(
            f"CASE WHEN grouping({column}) = 0 THEN {_labelled(name, column)} END"
            for name, column in inner.items()
        )
        slice_ = f"coalesce(nullif(concat_ws(', ', {label}), ''), 'all')" if by else "'all'"
        order = [
            *systems,
            *(f"grouping({column}) DESC, {column} NULLS LAST" for column in inner.values()),
            "i",
        ]
        kept = "FILTER (WHERE NOT missing)" if self.conventions["missing"] == "skip" else ""
        sample = (
            f"list({{'value': value, 'weight': weight}} ORDER BY {keys}) {kept}"
            if self.interval == "bootstrap"
            else "NULL"
        )
        # Student's t, where all queries weigh the same.
        width = (
            "CASE WHEN NOT any_value(weighed) "
            f"THEN stddev_samp(value) {kept} / sqrt(count(value) {kept}) "
            f"* rankql_t_quantile({(1 + self.confidence) / 2}, count(value) {kept} - 1) END"
            if self.interval in ("auto", "t")
            else "NULL::DOUBLE"
        )
        columns = ", ".join(inner.values())
        macros, sql = called(f"""
            SELECT {"system, " if systems else ""}{slice_} AS slice, {columns and columns + ","}
                   i, CASE WHEN any_value(weighed)
                           -- where nothing weighs, all values are alike
                           THEN coalesce(fsum(value * weight) {kept}
                                         / nullif(fsum(weight) {kept}, 0), max(value) {kept})
                           ELSE favg(value) {kept} END AS mean,
                   {width} AS width, min(value) {kept} AS least, max(value) {kept} AS most,
                   {sample} AS sample, any_value(weighed) AS weighed,
                   count(*) AS queries,
                   count(*) FILTER (WHERE undefined) AS undefined,
                   count(*) FILTER (WHERE missing) AS missing
            FROM ({self._long()})
            GROUP BY GROUPING SETS ({", ".join(f"({', '.join(s)})" for s in sets)})
            ORDER BY {", ".join(order)}
        """)
        with self._connection() as con:
            if macros:
                con.execute(macros).fetchall()
            means: pl.DataFrame = con.sql(sql).pl()
        metric = pl.col("i").replace_strict(dict(enumerate(self.metrics)), return_dtype=pl.String)
        counts = [pl.col(name).cast(pl.Int64) for name in ("queries", "undefined", "missing")]
        attributes = [
            pl.col(column).alias(attribute_column(name)) for name, column in inner.items()
        ]
        return means.with_columns(*self._interval(means), metric.alias("metric")).select(
            *systems, "slice", *attributes, "metric", "mean", "lo", "hi", *counts
        )

    def _interval(self, means: pl.DataFrame) -> list[pl.Series]:
        """The confidence interval of every mean, NULL where there is none."""
        if self.interval == "bootstrap":
            pairs = zip(means["sample"].to_list(), means["weighed"], strict=True)
            bounds = [_bootstrap(sample, weighed, self.confidence) for sample, weighed in pairs]
            return [
                pl.Series(name, [pair[side] for pair in bounds], dtype=pl.Float64)
                for side, name in enumerate(("lo", "hi"))
            ]
        ranges = [value_range(name) for name in self.metrics]
        lowest, highest = (
            pl.col("i").replace_strict(
                {i: pair[side] for i, pair in enumerate(ranges)}, return_dtype=pl.Float64
            )
            for side in (0, 1)
        )
        # Options may take values out of the metric's range, which then is not theirs.
        framed = means.with_columns(
            lowest=pl.when(pl.col("least") >= lowest - 1e-9).then(lowest),
            highest=pl.when(pl.col("most") <= highest + 1e-9).then(highest),
        )
        lo, hi = interval_within_range(self.interval != "t")
        return framed.select(lo=lo, hi=hi).get_columns()


def interval_within_range(logistic: bool) -> tuple[pl.Expr, pl.Expr]:
    """The ends of the interval of a mean, which stays between `lowest` and `highest`.

    If `logistic` and both bounds are known, Student's t interval is that of the logit of the mean,
    its standard error found by the delta method: it is shorter towards the nearer bound. Otherwise
    mean - width and mean + width are cut at the bounds that are known.
    """
    mean, width, lowest, highest = map(pl.col, ("mean", "width", "lowest", "highest"))
    plain = (pl.max_horizontal(mean - width, lowest), pl.min_horizontal(mean + width, highest))
    if not logistic:
        known = width.is_not_null()
        return pl.when(known).then(plain[0]), pl.when(known).then(plain[1])
    share = (mean - lowest) / (highest - lowest)
    reach = width / (highest - lowest) / (share * (1 - share))
    ends = []
    for end, cut in ((reach, plain[0]), (-reach, plain[1])):
        inside = lowest + (highest - lowest) * share / (share + (1 - share) * end.exp())
        # At a bound itself all values are the same.
        value = pl.when((share > 0) & (share < 1)).then(inside).otherwise(cut)
        ends.append(pl.when(width.is_not_null()).then(value))
    return ends[0], ends[1]


_SUMMARY = ("system", "slice", "metric", "mean", "lo", "hi", "queries", "undefined", "missing")


def attribute_column(attribute: str, columns: Sequence[str] = _SUMMARY) -> str:
    """The column of an attribute among other columns: by_mean for the attribute mean, where the
    table has a column mean itself; else the name as it is."""
    return f"by_{attribute}" if attribute.lower() in columns else attribute


def slice_queries(queries: pl.DataFrame, by: Sequence[Sequence[str]]) -> dict[str, pl.Series]:
    """The queries of every slice, in the order of a summary; a frame of them, id first."""
    found = {"all": queries.to_series()}
    inner = {name: f"{OURS}by_{i}" for i, name in enumerate(queries.columns)}
    key, rows = next(iter(inner.values())), queries.rename(inner)
    with _database(os.getpid()).cursor() as con:
        con.register("rows", rows)
        for group in by:
            labelled = (_labelled(name, inner[name]) for name in group)
            label = f"concat_ws(', ', {', '.join(labelled)})"
            names = ", ".join(inner[name] for name in group)
            order = ", ".join(f"{inner[name]} ASC NULLS LAST" for name in group)
            labels = con.sql(
                f"SELECT {label} AS slice, list({key} ORDER BY {key} ASC) AS queries FROM rows "
                f"GROUP BY {names} ORDER BY {order}"
            ).pl()
            found |= dict(zip(labels["slice"], labels["queries"], strict=True))
    return found


def _bootstrap(
    sample: list[dict[str, float | None]], weighed: bool, confidence: float
) -> tuple[Any, Any]:
    """The percentile interval of a mean, weighted or not, over resampled queries."""
    import numpy as np
    from scipy.stats import bootstrap

    # An undefined value weighs in a weighted mean, and is left out of a plain one.
    kept = [row for row in sample if row["weight"] and (weighed or row["value"] is not None)]
    values = np.array([row["value"] or 0.0 for row in kept])
    weights = np.array([row["weight"] for row in kept])
    if len(values) < 2 or not weights.sum():
        return None, None

    def mean(value: Any, weight: Any, axis: int) -> Any:
        return (value * weight).sum(axis) / weight.sum(axis)

    found = bootstrap(
        (values, weights),
        mean,
        paired=True,
        n_resamples=RESAMPLES,
        batch=max(1, 2_000_000 // len(values)),
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def parquet_path(path: str | os.PathLike[str], inputs: Iterable[Any] = ()) -> Path:
    """A path to write a Parquet file to: not in place of an input, a device or another kind."""
    target = Path(path).expanduser().resolve()
    if target.suffix not in SUFFIXES:
        raise RankqlError(f"output is a Parquet file: {str(path)!r} must end in .parquet")
    if os.path.exists(target) and not target.is_file():
        raise RankqlError(f"output {str(path)!r} is no regular file")
    for data in inputs:
        if isinstance(data, str | os.PathLike) and Path(data).expanduser().resolve() == target:
            raise RankqlError(f"output {str(path)!r} would overwrite what is evaluated")
    return target


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A path to write to, which then takes the place of this one: whole, or not at all."""
    path = path.expanduser()
    if not path.parent.is_dir():
        raise RankqlError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise RankqlError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def require_interval(interval: str | None, confidence: float) -> None:
    """Refuse intervals that there are not."""
    if interval not in ("auto", "t", "bootstrap", None):
        raise RankqlError(f"interval must be 'auto', 't', 'bootstrap' or None, not {interval!r}")
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise RankqlError(f"confidence must lie between 0 and 1, not {confidence!r}")
    if interval == "bootstrap":
        needs("scipy", "stats", f"interval={interval!r}")


def combine(
    results: Sequence[Result | str | os.PathLike[str] | pl.DataFrame],
    interval: str | None = "auto",
    confidence: float = 0.95,
) -> Result:
    """One result of several, of other queries each: earlier days, other shards.

    Takes results, files that were written by `output=` or `write()`, and `per_query` frames, which
    do not say under which conventions their values stand (those of the others, or ours) nor which
    queries were missing. Metrics, slices and conventions must agree, and no query may come twice.

    >>> days = [pl.DataFrame({"query": [q], "AP": [ap]}) for q, ap in [("a", 0.5), ("b", 1.0)]]
    >>> combine(days)["AP"]
    0.75
    """
    require_interval(interval, confidence)
    if isinstance(results, str | os.PathLike | Result | pl.DataFrame):
        results = [results]
    if not results:
        raise RankqlError("combine needs at least one result")
    known = [_part(result) for result in results if not isinstance(result, pl.DataFrame)]
    meta = known[0].meta if known else None
    parts = [_of_frame(r, meta) for r in results if isinstance(r, pl.DataFrame)] + known
    _agree(parts, ("query", "system", "metrics", "by", "groupings", "conventions"))
    first = parts[0]
    frames = [part.frame() for part in parts]
    rows = require_one_row_per_query(pl.concat(frames, how="vertical_relaxed"), first.keys).sort(
        first.keys
    )
    return Result(
        first.meta,
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
        columns=first.columns,
        interval=interval,
        confidence=confidence,
        rows=rows,
    )


def combine_systems(
    results: Mapping[str, Result | str | os.PathLike[str] | pl.DataFrame],
) -> Result:
    """One result of several systems, each of which has one of its own."""
    known = [_part(part) for part in results.values() if not isinstance(part, pl.DataFrame)]
    meta = known[0].meta if known else None
    parts = [
        _of_frame(part, meta) if isinstance(part, pl.DataFrame) else _part(part)
        for part in results.values()
    ]
    for name, part in zip(results, parts, strict=True):
        if part.meta["system"]:
            raise RankqlError(f"the result {name!r} holds several systems; give it alone")
    _agree(parts, ("query", "by", "conventions"))
    first = parts[0]
    metrics = [name for name in first.metrics if all(name in part.metrics for part in parts)]
    if not metrics:
        raise RankqlError("the results have no metric in common")
    require_no_system(first)
    keys = [*first.keys, *first.meta["by"], MISSING]
    weights = {name: w for name, w in first.meta["weights"].items() if name in metrics}
    columns = list(dict.fromkeys([*keys, *metrics, *weights.values()]))
    frames = [
        part.frame().select(pl.lit(name).alias("system"), *columns)
        for name, part in zip(results, parts, strict=True)
    ]
    types = [frame[first.meta["query"]].dtype for frame in frames]
    kinds = dict(zip(map(_kind, types), results, strict=True))
    if len(kinds) > 1:
        said = ", ".join(f"{kind} in {name!r}" for kind, name in kinds.items())
        raise RankqlError(f"the ids of the queries are {said}; make them alike")
    meta = first.meta | {"system": True, "metrics": metrics, "weights": weights}
    return Result(
        meta,
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
        columns=first.columns,
        rows=require_one_row_per_query(
            pl.concat(frames, how="vertical_relaxed"), ["system", first.meta["query"]]
        ),
    )


def require_finite(rows: pl.DataFrame, metrics: Sequence[str], key: str, label: str) -> None:
    """Refuse NaN and infinity: neither is a value, and leaving them out would hide failures."""
    for name in metrics:
        if len(wrong := rows.filter(~pl.col(name).is_finite()).sort(key)):
            raise RankqlError(
                f"{name} of {label} is {wrong[name][0]} for query {wrong[key][0]!r}. A value must "
                "be a finite number, or NULL where undefined"
            )


def require_no_system(result: Result) -> None:
    """Refuse a column of the user's that is called as that of the systems."""
    for name in (result.meta["query"], *result.meta["by"]):
        if name.lower() == "system":
            raise RankqlError(
                f"{name!r} is also the column that names the runs in the result. Rename it"
            )


def require_one_row_per_query(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows, if there are some, each of a query (and system) of its own."""
    if rows.is_empty():
        raise RankqlError("the results hold no query")
    for name in keys:
        if count := rows[name].null_count():
            raise RankqlError(f"{name} is NULL in {count} of {len(rows)} rows; leave them out")
    twice = rows.filter(rows.select(keys).is_duplicated())
    if len(twice):
        some = ", ".join(map(repr, twice[keys[-1]].unique(maintain_order=True)[:3]))
        raise RankqlError(f"{len(twice)} rows are of queries that come twice, such as {some}")
    return rows


def _kind(dtype: pl.DataType) -> str:
    """What values of this type can be compared with."""
    if dtype.is_numeric():
        return "numbers"
    return "text" if dtype in TEXT else str(dtype)


def _agree(parts: Sequence[Result], whats: Sequence[str]) -> None:
    first = parts[0]
    for part in parts[1:]:
        for what in whats:
            if part.meta[what] != first.meta[what]:
                raise RankqlError(
                    f"results of different {what} cannot be combined: "
                    f"{_differing(first.meta[what], part.meta[what])}"
                )


def _differing(one: Any, other: Any) -> str:
    if isinstance(one, dict):
        names = [name for name in one if one[name] != other.get(name)]
        one, other = ({name: each.get(name) for name in names} for each in (one, other))
    return f"{one} and {other}"


def _part(result: Result | str | os.PathLike[str]) -> Result:
    if isinstance(result, Result):
        return result
    if not isinstance(result, str | os.PathLike):
        kind = type(result).__name__
        raise RankqlError(f"combine takes results, their files and per_query frames, not {kind}")
    path = Path(result).expanduser()
    if not os.path.isfile(path):  # of a name that is too long too, which Path refuses
        raise RankqlError(f"there is no file {str(path)!r}")
    meta = read_metadata(path)
    if meta is None:
        raise RankqlError(f"{str(path)!r} was not written by rankql: it has no conventions")
    return Result(meta, rows=path)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What a Parquet file of ours says of the values in it; None if we did not write it."""
    path = os.path.expanduser(path)
    if Path(path).suffix not in SUFFIXES or not os.path.isfile(path):
        return None
    where = f"parquet_kv_metadata({literal(str(path))}) WHERE decode(key) = 'rankql'"
    try:
        with _database(os.getpid()).cursor() as con:
            found = con.execute(f"SELECT decode(value) FROM {where}").fetchall()
    except duckdb.Error as error:
        raise RankqlError(f"{str(path)!r} is no Parquet file") from error
    meta: dict[str, Any] | None = json.loads(found[0][0]) if found else None
    return meta


def _of_frame(frame: pl.DataFrame, meta: dict[str, Any] | None) -> Result:
    """A `per_query` frame: system where there are many, the query, its attributes, the metrics."""
    several = frame.columns[:1] == ["system"]
    if several:
        frame = frame.with_columns(pl.col("system").cast(pl.String))
    names = frame.columns[several:]
    # From the first that we know by its name: an attribute may be such a number too.
    first = next((i for i, name in enumerate(names) if is_metric(name)), 0)
    metrics = [name for name in names[first:] if frame[name].dtype == pl.Float64]
    if not metrics or names[-len(metrics) :] != metrics or len(metrics) == len(names):
        raise RankqlError("a frame to combine must be a per_query: the query, then the metrics")
    made = meta or {
        "query": names[0],
        "system": several,
        "by": (by := names[1 : -len(metrics)]),
        "groupings": [by] if by else [],
        "metrics": metrics,
        "weights": {},
        "conventions": Conventions().as_dict(),
    }
    made = made | {"query": names[0], "system": several, "metrics": metrics}
    if made["weights"]:
        raise RankqlError("micro averages cannot be combined from frames; give results or files")
    return Result(made, rows=frame.with_columns(pl.lit(False).alias(MISSING)).select(
        *frame.columns[: -len(metrics)], MISSING, *metrics))  # fmt: skip
