"""Which system is better? Paired comparisons of systems on the same queries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import duckdb
import polars as pl

from rankql.core.base.doors import find_door
from rankql.core.base.errors import (
    Question,
    RankqlError,
    as_arguments,
    require,
    require_package,
    require_probability,
)
from rankql.core.base.text import Note
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.checks.values import OF_COUNTS
from rankql.core.evaluation.evaluate import evaluate_request
from rankql.core.evaluation.plan.meta import average_slices
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.parse import list_metrics
from rankql.core.tables.request import (
    DEFAULT_METRICS,
    RankingRules,
    Request,
    SpanOptions,
    parse_groupings,
)
from rankql.core.tables.session import is_several_runs
from rankql.core.tables.tables import UNREAD, Data
from rankql.decisions import alignment
from rankql.decisions.alignment import Results
from rankql.decisions.comparison import ComparedRuns, Comparison
from rankql.decisions.pair_table import OWN, OWN_MEANS
from rankql.features.collections import find_collections
from rankql.features.systems import find_values
from rankql.features.values import set_directions
from rankql.shapes.ask.structure import find_systems

if TYPE_CHECKING:
    from rankql.decisions.pairs import Settings


@remember_inputs
def compare(
    runs: Data | Mapping[str, Data] | Sequence[Data] | Results | Mapping[str, Results],
    qrels: Data | None = None,
    metrics: str | Sequence[str] | None = None,
    *,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    baseline: str | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    cluster: str | None = None,
    mean: Literal["slices"] | None = None,
    weight: str | None = None,
    judge: Data | None = None,
    judge_rel: str | Mapping[str, float] | None = None,
    train: Data | None = None,
    catalogue: Data | int | None = None,
    seen: Literal["drop"] | None = None,
    min_score: float | Mapping[str, float] | None = None,
    test: str = "auto",
    correction: str = "holm",
    interval: Literal["auto", "anytime"] = "auto",
    time: str | Literal[False] | None = None,
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 7,
    min_queries: int = 0,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[SpanOptions],
) -> Comparison:
    """Compare systems on the same queries: how large is each difference, and is it significant?

    The difference is b - a. Means, order and tests of a metric use the queries for which all
    systems define it. A query that one system lacks counts as the conventions say.

    Parameters
    ----------
    runs : dict, list or table
        A dict of name: run, a list of runs, or one table with a column `system`.

        Systems of a column are in the order of the rows of a frame or a file, otherwise of their
        names. Without `qrels`, they have the grades too, or are results: of `evaluate`, files that
        `output=` wrote, or values of your own, such as revenue, by `read_values`.
    qrels, by, attributes, mean, judge_rel, train, catalogue, seen, min_score, con, **options
        As in `evaluate`, which evaluates the runs.
    metrics : str or list of str, optional
        Metrics; by default nDCG@10, AP, RR@10, P@5 and R@100, or all that results have.
    higher_is_better : bool or dict, optional
        Direction of columns that are not metrics of rankql: True, False or a dict of name: bool. By
        default, higher is assumed to be better, and a note says so.
    baseline : str, optional
        Compare the other systems with this one. By default, every pair is compared.
    cluster : str, optional
        Attribute that groups dependent queries, such as the user: at least 10 clusters.
    weight : str, optional
        Column with one weight per query, such as its traffic, which means and tests then respect.
    judge : table, optional
        Labels of all queries by a language model, if the judgments are human labels of a random
        sample of at least 20 queries.

        Differences are then those under human labels, corrected by the judge, with test='auto' or
        't': see `evaluate`.
    test : str
        Significance test: auto, t or randomisation.

        'auto' is the paired t test, widened for skewed differences, with an interval for equal
        differences too if the range of the metric is known. All tests are for one look at a number
        of queries that you fixed before; for others see `interval`.
    correction : str
        Adjustment for multiple tests, over all rows of the table: holm, bonferroni, bh or none.
    interval : 'auto' or 'anytime'
        Intervals and p of the test, or those that hold at every number of queries.

        'anytime' bets on the queries in the order of `time`, so you may look after each one, and
        stop. It is for one metric with two bounds, two systems, and queries that come at random.
        Slices share its level (Bonferroni).
    time : str or False, optional
        Column or expression of the time of each query, for interval='anytime'.

        False shuffles the queries once, for a set that does not grow.
    confidence : float
        Level of the confidence intervals.

        Each interval has the level of its own test, so it excludes 0 exactly where the verdict is
        better or worse. If m of the queries differ, no exact paired test has a p below 2^(1 - m),
        nor has this one: a row that could not have been significant cannot be decided.
    resamples : int
        Number of random sign patterns of the randomisation test.
    seed : int
        Seed of the sign patterns.
    min_queries : int
        Slices with fewer queries are shown, but not tested.

    Examples
    --------
    >>> import polars as pl
    >>> import rankql
    >>> old = pl.DataFrame({"query": [*"abcdef"], "AP": [0.5, 0.2, 0.4, 0.6, 0.3, 0.7]})
    >>> new = pl.DataFrame({"query": [*"abcdef"], "AP": [0.7, 0.5, 0.5, 0.5, 0.7, 0.9]})
    >>> results = {"old": rankql.read_values(old), "new": rankql.read_values(new)}
    >>> print(compare(results).pairs["sentence"][0])
    no significant difference between new and old: 0.18 (95% CI -0.18 to 0.36; p = 0.13; \
6 queries). A difference of about 0.25 would have been detected with 80% power
    """
    require_package("scipy", "stats", "compare")
    from rankql.decisions.pairs import Settings, compare_pairs
    from rankql.features.anytime import require_anytime

    anytime = interval == "anytime"
    is_known = anytime or interval == "auto"
    require(is_known, f"interval must be 'auto' or 'anytime', not {interval!r}")
    require_anytime(
        interval, time, cluster=cluster, weight=weight, mean=mean, judge=judge,
        test=None if test == "auto" else test, min_queries=min_queries or None,
        correction="bh" if correction == "bh" else None,
    )  # fmt: skip
    correction = "bonferroni" if anytime and correction == "holm" else correction
    settings = Settings(test, correction, confidence, cluster, baseline, resamples, seed,
                        min_queries, weight, interval, time)  # fmt: skip
    settings.check()
    if judge is not None and test not in ("t", "auto"):
        raise RankqlError(f"test={test!r} does not support judge=. Use 'auto' or 't'")
    if "output" in options:
        raise RankqlError("output= is an option of evaluate, not of compare. Leave it out")
    asked: Any = (
        DEFAULT_METRICS if isinstance(metrics, Sequence | None) and not metrics else metrics
    )
    request = Request(
        runs, qrels, asked, RankingRules.of(options, compare, SpanOptions), attributes, con,
        parse_groupings(by), weight, cluster, time, mean, interval=None if anytime else "auto",
        train=train, catalogue=catalogue, seen=seen, min_score=min_score, judge=judge,
        judge_rel=judge_rel,
    )  # fmt: skip
    scores = options.get("score")
    if isinstance(scores, list | tuple) and len(scores) > 1 and not isinstance(runs, Mapping):
        require(all(isinstance(x, str) for x in scores), f"score must be names, not {scores}")
        rules = {name: request.rules.by_score(name) for name in scores}
        alone = replace(request, interval=None)
        by_score = {x: evaluate_request(replace(alone, rules=y)) for x, y in rules.items()}
        by_score = {x: _with_scores(y, scores) for x, y in by_score.items()}
        return compare(by_score, by=by, higher_is_better=higher_is_better, **asdict(settings))
    try:
        opened, result, names, source = _open(request, metrics)
    except Question as question:
        of_scores = [x["score"] for x in question.calls if [*x] == ["score"]]
        if 1 < len(of_scores) == len(question.calls) and not is_several_runs(runs):
            question.calls = [{"score": of_scores}]  # a system of each
        raise
    weighted = set_directions(result.weighted_by(weight), higher_is_better)
    settings = replace(settings, weight=weighted.meta.weight)
    systems = names or _list_systems(weighted)
    call = weighted.meta.call if source else {}
    aligned = _align(weighted, opened, call, systems, settings, higher_is_better)
    own, shared = alignment.own_means(aligned), alignment.keep_shared_queries(aligned)
    pairs, tests, notes = compare_pairs(shared, systems, settings)
    if len(systems) < 2 and source and (named := find_systems(request)):
        pass_it = f"If {named['system']} names systems, pass {as_arguments(named)}"
        notes.append(f"{pass_it}: now each has queries of its own")
    if own := own if len(pairs) else {}:
        notes.append(OWN_MEANS)
        places = {x: map(own.get, pairs["metric", "slice", x].rows()) for x in "ab"}
        frames = [
            pl.DataFrame([*y], [f"{n}_{x}" for n in OWN], orient="row") for x, y in places.items()
        ]
        pairs = pl.concat([pairs, *frames], how="horizontal")
    notes = list(dict.fromkeys([*notes, *shared.notes]))
    return Comparison(shared, pairs, settings, systems, tests, notes, source, own)


def _with_scores(result: Result, scores: Sequence[str]) -> Result:
    """The result of one score of a table, whose columns name the scores of all systems."""
    columns = dict(result.columns)
    for label in (x for x in columns if x == "run"):
        unread = [x for x in columns[label].get(UNREAD, "").split(", ") if x and x not in scores]
        roles = {x: y for x, y in columns[label].items() if x != UNREAD}
        left = {UNREAD: ", ".join(unread)} if unread else {}
        columns[label] = {**roles, "score": ", ".join(scores), **left}
    return result.derive(columns=columns)


def _open(
    request: Request, metrics: str | Sequence[str] | None
) -> tuple[Request, Result, list[str], ComparedRuns | None]:
    """The request with the runs by name, the values of the systems, their names if they have some,
    and the runs, if they were evaluated, and not those of several collections.
    """
    if find_door("evaluation", request) and find_collections(request.run, request.qrels):
        result = evaluate_request(request)
        groups, systems = result.meta.groupings, [*request.run]  # type: ignore[misc]
        return replace(request, groupings=groups, mean="slices"), result, systems, None
    runs, notes = alignment.name_systems(request.run, request.qrels, metrics, request.con)
    request, names = replace(request, run=runs), list_metrics(metrics)
    systems = [*runs] if is_several_runs(runs) else []
    used = (request.cluster, request.weight, request.time)
    attributes = [*itertools.chain(*request.groupings), *(x for x in used if isinstance(x, str))]
    known = find_values(request, attributes)
    if known is not None:
        alignment.require_attributes(known, attributes, request.cluster)
        known = alignment.select_metrics(known, names)
        return request, known.derive(data_notes=[*notes, *known.data_notes]), systems, None
    result = evaluate_request(replace(request, metrics=names or DEFAULT_METRICS))
    result = result.derive(data_notes=[*notes, *result.data_notes])
    fields = ("con", "attributes", "train", "catalogue", "seen", "min_score")
    keywords = {name: getattr(request, name) for name in fields} | dict(request.rules.options)
    keywords["by"] = request.groupings
    return request, result, systems, ComparedRuns(runs, request.qrels, keywords, compare)


def _list_systems(result: Result) -> list[str]:
    """The systems of one table: in its order, others by their names."""
    if "system" not in result.frame().columns:
        return ["run"]
    names, known = result.frame()["system"].unique().sort().to_list(), result.meta.systems
    return [*(x for x in known if x in names), *(x for x in names if x not in known)]


def _align(
    result: Result, request: Request, call: dict[str, Any], systems: list[str], settings: Settings,
    directions: Any,
) -> Result:  # fmt: skip
    """The result with a row per system and query, and the meta of a comparison."""
    from rankql.features.anytime import require_one_mean

    # The counts of other notes are not those of the comparison.
    notes = [x for x in result.data_notes if Note.of(x).kind not in OF_COUNTS]
    aligned = alignment.align_systems(result.derive(data_notes=notes), systems)
    if call:
        kept = {name: x for name, x in call["options"].items() if name != "interval"}
        kept |= {"higher_is_better": directions, **asdict(settings)}
        call = {**call, "function": "compare", "options": kept}
    cluster = request.cluster or aligned.meta.cluster
    changes: dict[str, Any] = {"systems": systems, "cluster": cluster, "time": request.time}
    meta = replace(aligned.meta, groupings=request.groupings, call=call, **changes)
    anytime = settings.interval == "anytime"
    if anytime:
        require_one_mean(meta, len(systems), 2)
    meta = average_slices(meta) if request.mean else replace(meta, mean=None)
    shown = None if anytime else "auto"  # means alone may drift where differences do not
    return aligned.derive(meta=meta, interval=shown, confidence=settings.confidence)


def queries_needed(effect: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """The number of queries that a paired t test needs to detect an effect size d_z.

    Tests that are not Student's need more: `compare` with test='auto' has 68% power instead of 80%
    with 10 queries, and 50% with 34 if losses are skewed.

    The smallest n for which `P(|T| > t(1 - alpha/2, n - 1))` reaches the power, where T is
    noncentral t with n - 1 degrees of freedom and noncentrality d_z sqrt(n).

    >>> [queries_needed(effect) for effect in (0.2, 0.3, 0.5, 0.8)]
    [199, 90, 34, 15]
    """
    require_package("scipy", "stats", "queries_needed")
    from rankql.core.stats.tests import required_queries

    for name, value in (("effect", effect), ("alpha", alpha), ("power", power)):
        require(isinstance(value, int | float), f"{name} must be a number, not {value!r}")
    valid = 1e-100 < abs(effect) < math.inf
    require(valid, f"effect must be finite and not 0, not {effect}")
    require_probability("alpha", alpha)
    require(alpha < power < 1, f"power must lie between alpha and 1, not {power}")
    return required_queries(effect, alpha, power)
