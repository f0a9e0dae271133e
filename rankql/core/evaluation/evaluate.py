"""`evaluate`: read the inputs, resolve metrics and conventions, compute the values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import duckdb
import polars as pl

from rankql.core.base.column_names import Named
from rankql.core.base.doors import DOORS, call_extra, find_door
from rankql.core.base.errors import Question, RankqlError, advise, require, require_package
from rankql.core.base.manifest import RECORDING
from rankql.core.base.text import Note
from rankql.core.base.writing import (
    PARQUET,
    HeaderlessPath,
    Part,
    output_path,
    public_name,
    remember_inputs,
)
from rankql.core.evaluation.checks.causes import Causes
from rankql.core.evaluation.checks.counters import read_counters
from rankql.core.evaluation.checks.duplicates import count_equal_once, find_repeated
from rankql.core.evaluation.checks.rankings import RANKINGS
from rankql.core.evaluation.checks.record import Evidence, inspect
from rankql.core.evaluation.checks.sampled import SAMPLED
from rankql.core.evaluation.checks.values import VALUES
from rankql.core.evaluation.finish import compute
from rankql.core.evaluation.means.means import require_interval
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import make_plan
from rankql.core.evaluation.query.readable import unique_columns
from rankql.core.evaluation.query.script import Steps
from rankql.core.evaluation.reduce.fetch import reduce_tables
from rankql.core.evaluation.reduce.reduce import Reduction
from rankql.core.evaluation.result.result import Result, check_values, write_values
from rankql.core.metrics.macros import MISSING
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.request import (
    DEFAULT_METRICS,
    EvaluationOptions,
    RankingRules,
    Request,
    SpanOptions,
    parse_groupings,
    require_tables,
)
from rankql.core.tables.session import Session, is_several_runs, open_session
from rankql.core.tables.tables import Data


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
    time: str | Literal[False] | None = None,
    mean: Literal["slices"] | None = None,
    judge: Data | None = None,
    judge_rel: str | Mapping[str, float] | None = None,
    train: Data | None = None,
    catalogue: Data | int | None = None,
    seen: Literal["drop"] | None = None,
    min_score: float | Mapping[str, float] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[SpanOptions],
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
        of id: grade, or structs with an id and a grade). Runs on several collections are
        {system: {collection: run}}, or lists in the order of the judgments.
    qrels : path, table, frame or dict, optional
        The judgments, with the columns query, item and rel.

        A dict is {query: {item: grade}}. Judgments without grades mean grade 1. Without `qrels`,
        the run is a ranked table with its own rel, or has lists of relevant ids. Those of several
        collections are {collection: qrels}, or a list.
    metrics : str or list of str
        Metrics, such as nDCG@10, nDCG@5,10 or P(rel=2)@5, or your own as 'label = SQL'.
    by : str or list, optional
        Add slices of the means: one per value of an attribute of the queries.

        Attributes are columns of `attributes`, the qrels or the run, or SQL expressions of the
        columns of a row, such as "timestamp::date AS day". Several attributes are crossed:
        by=["segment", "device"]. A nested list is a grouping of its own: by=[["segment"],
        ["device"]] has the slices of each, as --by segment --by device.
    attributes : table, optional
        Table with attributes of the queries, and the query column.
    weight : str, optional
        Column with one weight per query, such as its traffic, its revenue, or 1 / the probability
        that it was sampled. Means and intervals then respect it. It and the next one may be SQL
        expressions.
    cluster : str, optional
        Column of queries that belong together, such as a user, which intervals then respect.
    time : str or False, optional
        Column or expression of the time of each query, for interval='anytime'.

        Queries of one time are in the order of a hash of their ids. False shuffles all once by it,
        for a set that does not grow. With interval=None, times are kept with the values per query.
    mean : 'slices', optional
        Add the mean of the slices' means, in which each country, say, counts once.
    judge : table, optional
        Labels of all queries by a language model, if the judgments are human labels of a random
        sample of at least 20 queries.

        Means are then those of human labels, corrected by the judge: almost right on average,
        whatever errors it makes, if chance chose the human queries. If it is good, intervals are
        narrower.
    judge_rel : str or dict, optional
        Column of the grade of the judge, such as another column of the table of human labels. By
        default, as `rel`.
    train : table, optional
        Interactions that the model was trained on, with the columns of users and items.

        Popularity@10, Novelty@10, Serendipity@10 and Repeats@10 read them, and Coverage@10 and
        Gini@10 count the items of train and of the judgments. Judgments with the column `split`
        of `leave_one_out` or `time_split` have them already.
    catalogue : table or int, optional
        Items that could be shown, or their number.
    seen : 'drop', optional
        Drop the items that a user has in train, and move the rest up.
    min_score : float or dict, optional
        Show only items with at least this score, or at most, if the lowest is best.

        A dict maps each system to its score. The others count as not retrieved, and the positions
        of the rest stay.
    con : duckdb.DuckDBPyConnection, optional
        The connection whose tables are named, or a backend of ibis. It gets TEMP macros called
        "rankql ...", no more.
    interval : 'auto', 't', 'anytime' or None
        Confidence interval of the means: auto, t, anytime or none.

        't' is the mean ± Student's t times the standard error, cut at the metric's range. 'auto'
        covers skewed values better: it applies t to the logit of the mean if the metric has two
        bounds, and otherwise widens it for the skewness of the values. 'anytime' holds at every
        number of queries while they are added, so you may look after each: it needs `time`, one
        metric with two bounds, and queries that come at random. Slices share its level.
    confidence : float
        Level of the confidence intervals.
    output : path, optional
        Parquet file for the values per query.
    query : str or list of str, optional
        Column of the query, or a pair if run and qrels differ. Several columns of all tables, such
        as user and session, are one key, of which judgments may lack the second. Usual names, such
        as qid, are recognised.
    item : str or list of str, optional
        Column of the item, or a pair. This and the next three may be SQL expressions of the columns
        of a row, such as "position + 1".

        If a row has lists, it is a list of ids, as a column, a path such as hits.key or SQL; of the
        judgments also a MAP of id: grade: item=["hits.key", "map(ids, grades)"].
    rel : str or dict, optional
        Column of the grade, or the grades of events.

        {"buy": 3, "click": 1} maps a text column `event` to grades, or columns buy and click of
        yes and no, and ("outcome", {"bought": 2}) maps a text column of another name.
    score : str, optional
        Column of the score.
    pos : str, optional
        Column of the position; 1 is the top.
    system : str or list of str, optional
        Column of the system, if one table holds the runs of several, or several columns of its key.
        Usual names, such as model, are recognised if items or positions of a query repeat.
    descending : bool, optional
        Whether the highest score is best, or the lowest, as for distances. By default the highest,
        unless the column is called distance, dist, l2_distance or the like.
    columns : list of str, optional
        Names of the columns of text files without a header, such as ["query", "item", "rel"].

        If those of run and judgments differ, a list of both.
    part : str or list of str, optional
        Part of an object or a JSON file that has the run, such as "per_question"; a pair names that
        of the judgments too.
    order : 'rows' or 'list', optional
        Take positions from the order of the rows of each run, a file or frame, or from the order
        of lists whatever scores they have.
    collapse : str, optional
        Keep the best chunk of each document: a column, or the text before the number of a chunk,
        such as '#' in 'doc12#3'.
    positions : 'renumber' or 'keep', optional
        With collapse, move the rows below a dropped chunk up, which is the default, or leave its
        position empty, which counts a duplicate once.
    ignore_identical_ids : bool or 'both', optional
        Drop items that have the id of their query, and move the rest up, as BEIR does. 'both'
        takes them out of the judgments too, where queries are judged relevant to themselves.
    pool : bool, optional
        Of runs with grades: True takes those of all runs as one set of judgments, as qrels= does
        with their rows; False measures each run by the grades of its own rows. Asked where systems
        have other judged items and a metric reads more than the grades of shown rows.
    unjudged_queries : 'skip' or 'count', optional
        Queries of a run without judgments: leave them out, which is the default, or count them as
        queries with nothing relevant, such as users without a purchase. 'count' sets
        undefined='zero'.
    none_judged : 'error' or 'zero', optional
        A run of which no item is judged for its query is an error, the default, because ids are
        mostly spelled differently; with 'zero' it is a note, and its values are 0.
    forbidden : str, optional
        Column of the judgments with items that must not be shown, for Forbidden@10: lists of ids,
        or BOOLEAN. Other metrics do not read it. Without it, they are those with a grade below 0.
    groups : 'any', optional
        Relevant ids are lists of lists, and one id of each inner list suffices: see STREC@10, the
        share of the inner lists that are met, and AllRel@10.
    span : pair of str, optional
        Columns, paths or SQL of the two ends of a chunk, and of a relevant span: start and end,
        in characters without the end itself.

        Items are then documents, and SpanR@5, AllSpans@5, CharR@5, CharP@5 and CharIoU@5 count what
        the first chunks cover together, or those of a context of 2,000 characters: SpanR@2000c. Two
        pairs name the columns of run and judgments.
    inclusive : bool, optional
        With span, whether a span has its end too, as lines and pages do.
    chunk : str, optional
        With span, the column of the ids of chunks, which is not that of the documents.
    evidence : str, optional
        With span, the column of the judgments that several spans share if one of them suffices.
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
    result = evaluate_request(Request(
        run, qrels, metrics, RankingRules.of(options, evaluate, SpanOptions), attributes, con,
        parse_groupings(by), weight, cluster, time, mean, interval, confidence, train, catalogue,
        seen, min_score, None if output is None else output_path(output, PARQUET), judge, judge_rel,
    ))  # fmt: skip
    if result.meta.system and options.get("missing") is None:
        _require_shared_queries(result)
    return result


def _require_shared_queries(result: Result) -> None:
    """Refuse runs that share no query, where the worst value counts for those of the others."""
    if result.conventions["missing"] != "zero":
        return
    names, values = ["system", result.meta.query, MISSING], result.values
    rows = (
        values[names]
        if isinstance(values, pl.DataFrame)
        else pl.read_parquet(values, columns=names)
    )
    if not rows[MISSING].any():
        return
    ranked = rows.filter(~rows[MISSING])
    if ranked["system"].n_unique() > 1 and ranked[result.meta.query].is_unique().all():
        text = "No two runs share a query, so each would count as the worst value for the queries "
        text += "of the others. If they are parts of one run, pass "
        more = ". Else write query ids the same way in all"
        raise RankqlError(advise(text, {"missing": "skip"}, more))


def evaluate_request(request: Request) -> Result:
    """The result of `evaluate`. Refuses options that do not go together."""
    seen, mean, cluster = request.seen, request.mean, request.cluster
    require_interval(request.interval, request.confidence, "anytime")
    require(seen in (None, "drop"), f"seen must be 'drop' or None, not {seen!r}")
    require(mean in (None, "slices"), f"mean must be 'slices' or None, not {mean!r}")
    if request.judge is not None:
        require_package("scipy", "stats", "judge=")
    for door in DOORS["requirements"]:
        if door.applies(request):
            door.load()(request)
    result: Result | None = None
    if (several := find_door("evaluation", request)) is not None:
        result = several.load()(request, evaluate_request)
    if result is not None:
        return result
    require_tables(request.run, request.qrels, request.con)
    if cluster is not None or mean is not None:
        require_package("numpy", "stats", "cluster=" if cluster else "mean='slices'")
    result = evaluate_in_duckdb(request)
    for door in DOORS["results"]:
        if door.applies(request):
            result = door.load()(request, result)
    return result


@contextmanager
def open_evaluation(request: Request, unique: bool = False) -> Iterator[Evaluation]:
    """The plan of a request, while its tables are open. Errors of DuckDB become our own.

    unique: look for rows that are equal in all columns.
    """
    with open_session(request.con, *request.sources) as session:
        session.mentioned = _mentioned(request)

        def plan(request: Request) -> Evaluation:
            evaluation = make_plan(session, request)
            if unique:
                found = unique_columns(
                    evaluation.inputs, evaluation.computed, evaluation.conventions
                )
                with compute.evaluation_errors(evaluation):
                    list(find_repeated(evaluation, found))
            return evaluation

        try:
            evaluation = count_equal_once(session, request, plan)
        except Question as error:
            raise _with_means(session, request, error) from None
        with compute.evaluation_errors(evaluation):
            yield evaluation


def evaluate_in_duckdb(request: Request) -> Result:
    """The result of `evaluate` for checked arguments. An error offers the calls that answer it."""
    with open_session(request.con, *request.sources) as session:
        session.mentioned, session.defers = _mentioned(request), True
        try:
            return _compute_values(session, request)
        except RankqlError as error:
            if (asked := _with_means(session, request, error)) is not error:
                raise asked from None
            raise call_extra(
                "answer", session, request, error, _read_with_value
            ) from error.__cause__


def _compute_values(session: Session, request: Request) -> Result:
    """The result of a request whose tables are open."""

    def compute_values(request: Request) -> Result:
        evaluation = make_plan(session, request)
        with compute.evaluation_errors(evaluation):
            return _evaluate(evaluation, request)

    return count_equal_once(session, request, compute_values)


def _with_means(session: Session, request: Request, error: RankqlError) -> RankqlError:
    """The error; the question whose grades count has the means under both answers."""
    if not (isinstance(error, Question) and error.metrics):
        return error
    from rankql.core.evaluation.plan.pooling import NULLS, with_means  # for several systems alone

    def read_means(
        pool: bool, metrics: Sequence[str]
    ) -> tuple[dict[str, dict[str, float | None]], bool]:
        noted, rules = len(session.notes), replace(request.rules, pool=pool)
        again = replace(request, metrics=metrics, rules=rules, interval=None, output=None)
        if session.opened is not None:  # which may have been read in one pass
            runs, tables = session.opened
            run: Any = runs[None] if [*runs] == [None] else runs
            others: dict[str, Any] = {x: tables[x] for x in ("attributes", "train")}
            again = replace(again, run=run, **others)
        try:
            summary = _compute_values(session, again).summary
            nulls = any(Note.of(x).kind == NULLS for x in session.notes)
        finally:
            del session.notes[noted:]
        rows = summary.unique(["system", "metric"], keep="first", maintain_order=True)
        means = rows.select("system", "metric", "mean").rows()
        return {x: {m: y for name, m, y in means if name == x} for x, _, _ in means}, nulls

    return with_means(error, read_means)


def _read_with_value(session: Session, request: Request) -> Inputs | None:
    """The inputs of a request, if a metric has a value."""
    return count_equal_once(session, request, partial(_read_unique, session))


def _read_unique(session: Session, request: Request) -> Inputs | None:
    evaluation = make_plan(session, request)
    with compute.evaluation_errors(evaluation):
        reduction = reduce_tables(evaluation)
        inspect(RANKINGS, _look_for(evaluation, reduction))
        values = compute.finish(reduction).per_query
    known = any(values[x.name].is_not_null().any() for x in evaluation.metrics)
    return evaluation.inputs if known else None


def _look_for(evaluation: Evaluation, reduction: Reduction) -> Evidence:
    """What the checks of rankings read."""
    return Evidence(
        evaluation,
        read_counters(reduction),
        unique=reduction.unique_columns(),
        queries=reduction.queries,
        causes=Causes(reduction) if reduction.counts else None,
    )


def _mentioned(request: Request) -> str:
    """What the caller wrote of columns and metrics."""
    return repr((request.metrics, request.rules, request.groupings, request.weight)).lower()


def _evaluate(evaluation: Evaluation, request: Request) -> Result:
    """The result of a plan."""
    recorded, tables = RECORDING.get(), dict[str, Any]()
    if request.output is not None or recorded is not None:
        tables = call_extra("record tables", evaluation)
    if recorded is not None:
        recorded.tables.append(tables)
    reduction = reduce_tables(evaluation)
    evaluation = reduction.evaluation  # without padding
    evidence = _look_for(evaluation, reduction)
    notes = inspect([*RANKINGS, *SAMPLED], evidence)
    values = compute.finish(reduction)
    frame = values.per_query
    shares = {system or "run": x / n for system, (n, x) in values.seen.items() if x}
    fields = {"tables": tables, "call": _describe_call(request), "seen": shares}
    meta = evaluation.make_meta(catalogue=values.catalogue, **fields)
    if recorded is not None and recorded.systems:
        meta = replace(meta, systems=[*recorded.systems])
    if request.interval == "anytime":
        systems = frame["system"].n_unique() if meta.system else 1
        call_extra("require one mean", meta, systems)
    if (path := request.output) is None:
        check_values(meta, frame)
    place = frame if path is None else write_values(meta, frame, path)
    evidence = replace(evidence, values=frame, seen=values.seen, outside=values.outside)
    return Result(
        meta=meta,
        _script=evaluation.script,
        columns=evaluation.columns,
        data_notes=[
            *evaluation.session.notes, *evaluation.inputs.notes, *notes,
            *inspect(VALUES, evidence), *values.notes,
        ],
        interval=request.interval,
        confidence=request.confidence,
        values=place,
        steps=Steps(evaluation.script, partial(_run_step, request)),
    )  # fmt: skip


def _run_step(request: Request, task: Callable[[Evaluation], Any]) -> Any:
    """What a function of an evaluation returns, from inputs that are read again."""
    with open_evaluation(request) as evaluation:
        return task(evaluation)


def _describe_call(request: Request) -> dict[str, Any]:
    """The options of the call, and the names of its tables, for a manifest."""
    run = request.run
    tables: dict[str, Any] = {"run": run}
    if is_several_runs(run):
        tables = {f"run {x}": each for x, each in run.items()}
    others = {x: getattr(request, x) for x in ("qrels", "attributes", "train", "catalogue")}
    tables |= {name: table for name, table in others.items() if table is not None}
    names = ("metrics", "weight", "cluster", "time", "mean", "seen", "min_score", "interval",
             "confidence")  # fmt: skip
    options = {name: getattr(request, name) for name in names} | dict(request.rules.options)
    if request.judge_rel is not None:
        options["judge_rel"] = request.judge_rel
    options["by"] = [
        [f"{x.sql} AS {x}" if isinstance(x, Named) else x for x in group]
        for group in request.groupings
    ]
    if isinstance(request.catalogue, int):
        options["catalogue"] = tables.pop("catalogue")
    for name, table in tables.items():
        if isinstance(table, HeaderlessPath):
            options["columns"] = table.columns
        if isinstance(table, Part):
            parts = options.setdefault("part", [None, None])
            parts[name == "qrels"], tables[name] = table.name, table.data
    inputs = {name: public_name(table) for name, table in tables.items()}
    return {"function": "evaluate", "inputs": inputs, "options": options}


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
    rules, groupings = RankingRules.of(options, evaluate), parse_groupings(by)
    request = Request(
        run, qrels, metrics, rules, attributes=attributes, groupings=groupings, weight=weight
    )
    with open_evaluation(request, unique=True) as evaluation:
        return evaluation.script.sql
