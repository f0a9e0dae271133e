"""`evaluate`: read the inputs, resolve metrics and conventions, compute the values."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import duckdb
import polars as pl

from rankql.errors import RankqlError, require_package
from rankql.evaluation.checks import evaluation_errors, note_users, validate_columns
from rankql.evaluation.collapse import read_rankings
from rankql.evaluation.compute import compute
from rankql.evaluation.means import Meta, compared_value, count_clusters, require_interval
from rankql.evaluation.readable import (
    catalogue_meta,
    is_catalogue,
    require_compatible,
    write_catalogue_queries,
    write_query,
)
from rankql.evaluation.request import (
    DEFAULT_METRICS,
    EvaluateArguments,
    EvaluationOptions,
    Reading,
    cluster_errors,
    parse_groupings,
)
from rankql.evaluation.resolve import Facts, resolve_conventions
from rankql.evaluation.result import Result
from rankql.evaluation.shown import (
    Shown,
    drop_seen,
    fetch_by_slice,
    reduced_metrics,
    require_sources,
)
from rankql.evaluation.steps import Steps
from rankql.evaluation.threshold import note_threshold
from rankql.macros import quote
from rankql.processes import may_lack_threads
from rankql.registry.all_metrics import RATING
from rankql.registry.argument_checks import require
from rankql.registry.column_names import ROLES, SUBTOPICS
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.computed import holds_numbers
from rankql.sources.inputs import Inputs, list_subtopics
from rankql.sources.reader import fetch, fetch_frame, render_script, reword_error
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, Table, mentioned, require_column
from rankql.text import format_queries, join_words
from rankql.versions import own_version
from rankql.writing import PARQUET, output_path, remember_inputs

# The errors about an expression that DuckDB does not understand or cannot convert to a number.
_REFUSED = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.NotImplementedException,
)


@remember_inputs
def evaluate(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    judge: Data | None = None,
    train: Data | None = None,
    catalogue: Data | int | None = None,
    seen: Literal["drop"] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[EvaluationOptions],
) -> Result:
    """Compute metrics per query for one or several runs, where your data lives.

    Parameters
    ----------
    run : path, table, frame or dict
        The ranking, with the columns query, item and score or pos.

        It is a path or glob (Parquet, CSV, JSON, TREC), a table, view or relation of `con`, a
        polars, pandas or Arrow frame, or a dict: {query: {item: score}} or {query: [items]}.
        Several runs are a dict of name: run, or one table with the column `system`. A table with
        one row per query has lists of ids instead: `retrieved` in order, and `relevant` (ids, a MAP
        of id: grade, or structs with an id and a grade).
    qrels : path, table, frame or dict, optional
        The judgments, with the columns query, item and rel.

        A dict is {query: {item: grade}}. Judgments without grades mean grade 1. Without `qrels`,
        the run is a ranked table with its own rel, or has lists of relevant ids.
    metrics : str or list of str
        Metrics, such as nDCG@10, nDCG@5,10 or P(rel=2)@5, or your own as 'label = SQL'.
    by : str or list, optional
        Add slices of the means: one per value of an attribute of the queries.

        Attributes are columns of `attributes`, the qrels or the run, or SQL expressions of the
        columns of a row, such as "timestamp::date AS day". A nested list is a grouping of its own:
        by=[["segment"], ["segment", "device"]].
    attributes : table, optional
        Table with attributes of the queries, and the query column.
    weight : str, optional
        Column with one weight per query, such as its traffic, its revenue, or 1 / the probability
        that it was sampled. Means and intervals then respect it. It and the next one may be SQL
        expressions.
    cluster : str, optional
        Column of queries that belong together, such as a user, which intervals then respect.
    judge : table, optional
        Labels of all queries by a language model, if the judgments are human labels of a random
        sample of at least 20 queries.

        Means are then those of human labels, corrected by the judge: almost right on average,
        whatever errors it makes, if chance chose the human queries. If it is good, intervals are
        narrower.
    train : table, optional
        Interactions that the model was trained on, with the columns of users and items.

        Popularity@10, Novelty@10, Serendipity@10 and Repeats@10 read them, and Coverage@10 and
        Gini@10 count the items of train and of the judgments. Judgments with the column `split`
        of `leave_one_out` or `time_split` have them already.
    catalogue : table or int, optional
        Items that could be shown, or their number.
    seen : 'drop', optional
        Drop the items that a user has in train, and move the rest up.
    con : duckdb.DuckDBPyConnection, optional
        The connection whose tables are named. It gets TEMP macros called "rankql ...", no more.
    interval : 'auto', 't' or None
        Confidence interval of the means: auto, t or none.

        't' is the mean ± Student's t times the standard error, cut at the metric's range. 'auto'
        covers skewed values better: it applies t to the logit of the mean if the metric has two
        bounds, and otherwise widens it for the skewness of the values.
    confidence : float
        Level of the confidence intervals.
    output : path, optional
        Parquet file for the values per query.
    query : str or list of str, optional
        Column of the query, or a pair if run and qrels differ. Several columns of all tables, such
        as user and session, are one key. Usual names, such as qid, are recognised.
    item : str or list of str, optional
        Column of the item, or a pair. This and the next three may be SQL expressions of the columns
        of a row, such as "position + 1".
    rel : str or dict, optional
        Column of the grade, or the grades of events.

        {"buy": 3, "click": 1} maps a text column `event` to grades, or columns buy and click of
        yes and no, and ("outcome", {"bought": 2}) maps a text column of another name.
    score : str, optional
        Column of the score.
    pos : str, optional
        Column of the position; 1 is the top.
    system : str, optional
        Column of the system, if one table holds the runs of several. Usual names, such as model,
        are recognised if items or positions of a query repeat.
    descending : bool, optional
        Whether the highest score is best, or the lowest, as for distances. By default the highest,
        unless the column is called distance, dist, l2_distance or the like.
    columns : list of str, optional
        Names of the columns of text files without a header, such as ["query", "item", "rel"].

        If those of run and judgments differ, a list of both.
    order : 'rows', optional
        Take positions from the order of the rows of each run, a file or frame.
    collapse : str, optional
        Keep the best chunk of each document: a column, or the text before the number of a chunk,
        such as '#' in 'doc12#3'.
    positions : 'renumber' or 'keep', optional
        With collapse, move the rows below a dropped chunk up, which is the default, or leave its
        position empty, which counts a duplicate once.
    conventions : str, optional
        Match another tool: trec_eval (version 9, as in pytrec_eval), trec_eval_10, sklearn, ranx,
        recbole, spark, mlflow, opensearch or elasticsearch, instead of rankql.
    **options
        Each changes one of the conventions, such as ties='expected': see `rankql.Conventions`.

    Examples
    --------
    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> evaluate(run, qrels, "RR@10")["RR@10"]
    0.5
    """
    require_interval(interval, confidence)
    require(seen in (None, "drop"), f"seen must be 'drop' or None, not {seen!r}")
    if judge is not None:
        require_package("scipy", "stats", "judge=")
        if qrels is None:
            raise RankqlError("judge= needs human labels of some queries. Pass them as qrels")
        if output is not None:
            raise RankqlError("output= does not support judge=. Leave out one of them")
    if cluster is not None:
        require_package("numpy", "stats", "cluster=")
    arguments = EvaluateArguments(
        run=run,
        qrels=qrels,
        metrics=metrics,
        reading=Reading.of(options, evaluate),
        attributes=attributes,
        con=con,
        groupings=parse_groupings(by),
        weight=weight,
        cluster=cluster,
        interval=interval,
        confidence=confidence,
        train=train,
        catalogue=catalogue,
        seen=seen,
        output=None
        if output is None
        else output_path(output, PARQUET, (run, qrels, attributes, train)),
    )
    result = evaluate_in_duckdb(arguments)
    if judge is None:
        return result
    try:
        judged = evaluate_in_duckdb(replace(arguments, qrels=judge))
    except RankqlError as error:
        raise RankqlError(f"judge: {error}") from error
    from rankql.evaluation.judge import correct_result

    return correct_result(result, judged)


def evaluate_in_duckdb(arguments: EvaluateArguments) -> Result:
    """The result of `evaluate` for checked arguments."""
    with open_session(arguments.con, *arguments.sources) as session:
        words = (arguments.metrics, arguments.reading, arguments.groupings, arguments.weight)
        session.mentioned = repr(words).lower()
        inputs, facts, conventions, metrics = prepare(session, arguments)
        result = describe_result(
            session, inputs, metrics, conventions, arguments.groupings, arguments.interval,
            arguments.confidence, partial(_run_step, arguments),
        )  # fmt: skip
        with (
            cluster_errors(arguments.cluster, [*itertools.chain(*arguments.groupings)]),
            evaluation_errors(session, inputs, conventions),
            _own_metric_errors(session, inputs, metrics, conventions),
        ):
            values, notes, counters = compute(facts, reduced_metrics(metrics), conventions)
            queries = write_catalogue_queries(inputs, metrics, conventions, arguments.groupings)
            catalogue: dict[str, list[dict[str, Any]]] = {}
            for name, query in queries.items():
                catalogue |= fetch_by_slice(session, inputs, query, [name])
            if inputs.train or any(metric.shown for metric in metrics):
                shown = Shown(facts, conventions, metrics, arguments.groupings)
                values, together = shown.compute(values)
                catalogue, notes = catalogue | together, notes + shown.notes
                sql = render_script(session, ";\n".join([*shown.queries, result.sql]))
                result = replace(result, sql=sql)
            meta = replace(result.meta, catalogue=catalogue, cluster=arguments.cluster)
            if arguments.output and inputs.qrels:
                meta = replace(meta, fingerprint=facts.fingerprint)
            result = replace(result, meta=meta, values=values)
            if arguments.output is None:
                result.check()
            else:
                result = result.write_values(arguments.output)
        notes += [
            f"{metric.name} is the mean over queries; micro{metric.name} is that of all rows "
            "together"
            for metric in metrics
            if metric.record in RATING
        ]
        notes += _undefined_notes(result, metrics)
        notes += _sample_notes(facts, metrics) + describe_counts(result)
        if not arguments.reading.own_threshold:
            notes += note_threshold(facts, metrics, conventions, counters.highest_grade)
        if arguments.cluster is not None:
            notes.append(count_clusters(result.frame(), result.meta))
        elif arguments.interval is not None:
            notes += note_users(session, inputs)
    return replace(result, notes=notes)


def prepare(
    session: Session, arguments: EvaluateArguments
) -> tuple[Inputs, Facts, Conventions, list[Metric]]:
    """The inputs, what is known about them, and the conventions and metrics in force."""
    conventions = arguments.reading.conventions
    groupings, cluster = arguments.groupings, arguments.cluster
    with cluster_errors(cluster, [*itertools.chain(*groupings)]):
        inputs = read_rankings(
            session,
            arguments.run,
            arguments.qrels,
            arguments.reading,
            arguments.attributes,
            groupings if cluster is None else [*groupings, [cluster]],
            arguments.weight,
            arguments.train,
            arguments.catalogue,
        )
    validate_columns(session, inputs, counted=True)
    metrics = parse(arguments.metrics)
    require_sources(inputs, metrics, arguments.seen)
    if arguments.seen:
        inputs = drop_seen(session, inputs, conventions)
    reads = any(f"({SUBTOPICS}, " in metric.expression for metric in metrics)
    if reads and inputs.qrels and not any(run.has(SUBTOPICS) for run in inputs.runs.values()):
        qrels, notes = list_subtopics(session, inputs.qrels, conventions.threshold)
        inputs = replace(inputs, qrels=qrels, subtopics=True, notes=[*inputs.notes, *notes])
    inputs = replace(inputs, own=own_columns(session, inputs.runs.values(), metrics))
    facts = Facts(session, inputs, conventions, False if may_lack_threads() else arguments.packs)
    conventions, metrics = resolve_conventions(facts, metrics, conventions)
    return inputs, facts, conventions, metrics


def _run_step(arguments: EvaluateArguments, sql: str) -> pl.DataFrame:
    """The rows of a step, from inputs that are read again."""
    with open_session(arguments.con, *arguments.sources) as session:
        inputs, _, conventions, _ = prepare(session, replace(arguments, packs=False))
        with evaluation_errors(session, inputs, conventions):
            return fetch_frame(session, sql, checked=True)


@contextmanager
def _own_metric_errors(
    session: Session, inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions
) -> Iterator[None]:
    """Name the metric of the user that DuckDB refuses."""
    try:
        yield
    except _REFUSED as error:
        for metric in metrics:
            if metric.known is not None:
                continue
            try:
                if is_catalogue(metric):
                    (sql,) = write_catalogue_queries(inputs, [metric], conventions, ()).values()
                else:
                    sql = write_query(inputs, [metric], conventions).sql
                fetch(session, sql, True)
            except _REFUSED as own:
                line = re.sub(r'! Did you mean "(__|rankql ).*', "", reword_error(own))
                if "rankql: " in str(own) or line.startswith("Referenced column"):
                    continue
                raise RankqlError(
                    f"The metric {metric.label!r} = {metric.expression!r} does not give one number "
                    f"per query ({line.rstrip('.!')}). Write an aggregate of DuckDB, such as "
                    "avg(price) or count(*)"
                ) from error
        raise


def render_query(
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    weight: str | None = None,
    **options: Unpack[EvaluationOptions],
) -> str:
    """The SQL of an evaluation, which is that of the result of `evaluate`."""
    arguments = EvaluateArguments(
        run,
        qrels,
        metrics,
        Reading.of(options, evaluate),
        attributes=attributes,
        groupings=parse_groupings(by),
        weight=weight,
        packs=False,
    )
    with open_session(None) as session:
        inputs, _, conventions, parsed = prepare(session, arguments)
        if any(metric.shown for metric in parsed):  # whose SQL depends on the data
            return evaluate_in_duckdb(arguments).sql
        return describe_result(session, inputs, parsed, conventions, arguments.groupings).sql


def own_columns(
    session: Session, runs: Iterable[Table], metrics: Sequence[Metric]
) -> dict[str, str]:
    """The columns of the runs that metrics of the user read: their names, and their SQL.

    In text files, columns of numbers are numbers. `query`, `item`, `rel`, `pos` and `score` are
    those of the evaluation.
    """
    first, *others = runs
    text = " ".join(metric.expression for metric in metrics)
    own = {}
    for name in mentioned(first.columns, text):
        if name.lower() in (*ROLES, "system", "line"):
            continue
        for table in others:
            require_column(table, name, "metrics")
        numbers = first.text and all(holds_numbers(session, t, name) for t in (first, *others))
        own[name] = f"CAST({quote(name)} AS DOUBLE)" if numbers else quote(name)
    return own


def describe_result(
    session: Session,
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    groups: Sequence[Sequence[str]] = (),
    interval: str | None = None,
    confidence: float = 0.95,
    run_step: Callable[[str], pl.DataFrame] | None = None,
) -> Result:
    """The result of an evaluation, without its values; steps if they can be run."""
    require_compatible(inputs, metrics, conventions)
    others = [metric for metric in metrics if not metric.shown]
    query = write_query(inputs, others or metrics, conventions)
    together = write_catalogue_queries(inputs, metrics, conventions, groups)
    return Result(
        meta=Meta(
            query=inputs.query,
            metrics=[metric.name for metric in metrics],
            conventions=conventions.as_dict(),
            system=inputs.many,
            systems=[*filter(None, inputs.runs)],
            by=list(inputs.by),
            groupings=[list(group) for group in groups],
            weight=inputs.weight,
            metric_weights=query.weights,
            judgments=inputs.qrels is not None,
            version=own_version(),
            canonical={m.name: m.canonical for m in metrics if m.name != m.canonical},
            **catalogue_meta(metrics),
        ),
        sql=render_script(session, ";\n".join([*together.values(), query.sql])),
        columns={t.label: t.role_columns for t in (*inputs.tables, *inputs.beyond)},
        interval=interval,
        confidence=confidence,
        steps=run_step and Steps(query.steps, query.select, run_step),
    )


# Below this share of judged items in the sample, infAP is biased: by .05 at a tenth.
LEAST_JUDGED = 1 / 3


def _sample_notes(facts: Facts, metrics: Sequence[Metric]) -> list[str]:
    """A note on metrics of a sample of which few items are judged."""
    names = [metric.name for metric in metrics if metric.record and metric.record.reads_sample]
    if not names or not facts.has_grade("{rel} < 0") or facts.judged_share >= LEAST_JUDGED:
        return []
    return [
        f"Only {facts.judged_share:.0%} of the sampled items are judged (grades from 0), so "
        f"{join_words(names)} is biased. Judge a third of them"
    ]


# Above this share of undefined queries, a note says what the mean over all queries is.
MUCH_UNDEFINED = 0.05


def _undefined_notes(result: Result, metrics: Sequence[Metric]) -> list[str]:
    """A note on each share of queries with a hit that leaves many queries out."""
    frame = result.frame()
    hits = [
        metric.name
        for metric in metrics
        if metric.record
        and metric.record.is_share
        and frame[metric.name].null_count() > MUCH_UNDEFINED * len(frame)
    ]
    if result.conventions["undefined"] != "skip" or not hits:
        return []
    zero = result.conventions | {"undefined": "zero"}
    meta = replace(result.meta, metrics=hits, conventions=zero, groupings=[])
    means = replace(result, meta=meta, interval=None, _summary=None).summary
    notes = []
    for name in hits:
        rows = means.filter(pl.col("metric") == name)
        fewest = min((rows["queries"] - rows["undefined"]).to_list())
        each = ", ".join(
            f"{row['mean']:.3f}" + (f" for {row['system']}" if result.meta.system else "")
            for row in rows.iter_rows(named=True)
        )
        notes.append(
            f"{name} counts only the {format_queries(fewest)} with a relevant item; over all "
            f"queries it is {each} (undefined='zero')"
        )
    return notes


def describe_counts(result: Result) -> list[str]:
    """A note on each metric whose means are over more queries in one system than in another."""
    if not result.meta.system:
        return []
    names = [name for name in result.metrics if name not in result.catalogue_metrics]
    values = (compared_value(name, result.conventions) for name in names)
    rows = result.frame().select("system", *values).group_by("system").agg(pl.all().count())
    notes = []
    for name in names if len(rows) else ():
        counts = rows.sort(name, "system")["system", name].rows()
        (fewest, count), (most, highest) = counts[0], counts[-1]
        if count < highest:
            notes.append(
                f"{name}: means are over {count:,} ({fewest}) to {format_queries(highest)} "
                f"({most}), those with a value; compare uses the same queries for all systems"
            )
    return notes
