"""Which system is better: paired comparisons of systems on the same queries."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from rankql.decisions.arguments import (
    Results,
    arrange_arguments,
    combine_results,
    list_options,
    select_metrics,
)
from rankql.decisions.comparison import ComparedRuns, Comparison
from rankql.engines.evaluate import evaluate
from rankql.errors import RankqlError, describe_unknown, require_package
from rankql.evaluation.arguments import DEFAULT_METRICS, parse_groupings
from rankql.evaluation.values import Request, set_directions
from rankql.sources.tables import Data


def compare(
    runs: Data | Mapping[str, Data] | Sequence[Data] | Results | Mapping[str, Results],
    *data: Any,
    qrels: Data | None = None,
    metrics: str | Sequence[str] | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    baseline: str | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    cluster: str | None = None,
    test: str = "t",
    correction: str = "holm",
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 7,
    min_queries: int = 0,
    bounds: Mapping[str, Sequence[float]] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Comparison:
    """Compare systems on the same queries: how large each difference is, and whether it is noise.

    `runs` is a dict of name: run, a list of runs, one table with the column `system`, or the first
    of two runs: `compare(a, b, qrels, metrics)`. Runs are evaluated with `evaluate`, which explains
    `qrels`, `metrics`, `by`, `con` and the further options. Without `qrels`, they are results:
    those of `evaluate`, files that `output=` wrote, or any tables with one row per query (a key and
    columns of numbers, such as revenue). Every pair is compared, or with `baseline` every other
    system with that one. The difference is b - a, over the queries for which both are defined; a
    query that is missing in one counts as the conventions say.

    `higher_is_better` is the direction of columns that are not metrics of rankql: True, False or a
    dict of name: bool. Without it, higher is assumed to be better, and a note says so.

    `test` is 't', 'randomisation', 'bootstrap' or 'anytime'. Only 'anytime' stays valid if you look
    again as queries come in; it needs metrics of a known range, or `bounds`, such as
    {'DCG@10': (0, 20)}. `correction` adjusts for multiple tests, over all rows of the table:
    'holm', 'bonferroni', 'bh' or 'none'. Each interval is shown at the level of its own test, so
    that it excludes 0 exactly where the verdict is better or worse. `cluster` names the attribute
    of queries that belong together, such as a user: 't' and 'randomisation' then treat each cluster
    as a whole, and need 10 of them. `resamples` and `seed` are those of resampling. Slices with
    fewer than `min_queries` queries are shown, not tested.

    >>> import polars as pl
    >>> old = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.5, 0.2, 0.4]})
    >>> new = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.7, 0.5, 0.5]})
    >>> print(compare({"old": old, "new": new}).sentences[0])
    AP: no significant difference between new and old: 0.20 (95% CI -0.05 to 0.45; p = 0.074; \
3 queries). A difference of about 0.31 would have been detected with 80% power
    """
    require_package("scipy", "stats", "compare")
    from rankql.decisions.alignment import align_systems
    from rankql.decisions.pair_table import compare_pairs
    from rankql.decisions.settings import Settings

    settings = Settings(test, correction, confidence, cluster, baseline, resamples, seed,
                        min_queries, bounds)  # fmt: skip
    settings.check()
    for option in ("interval", "output"):
        if option in options:
            raise RankqlError(f"{option}= is an option of evaluate; compare has none")
    for name in options:
        if name not in (known := list_options(compare)):
            raise RankqlError(describe_unknown("option", name, known))
    groups = parse_groupings(by)
    source = None
    keywords = {"con": con, "conventions": conventions, **options}
    runs, qrels, metrics, name_notes = arrange_arguments(runs, data, qrels, metrics, keywords)
    attributes = [*itertools.chain(*groups), *([] if cluster is None else [cluster])]
    request = Request.of(keywords, metrics, attributes, higher_is_better)
    result = combine_results(runs, qrels, request)
    if result is not None:
        _require_no_run_options(keywords)
        result = select_metrics(result, metrics, attributes)
    else:
        keywords["by"] = groups if cluster is None else [*groups, [cluster]]
        result = evaluate(runs, qrels, metrics or DEFAULT_METRICS, interval=None, **keywords)
        source = ComparedRuns(runs, qrels, keywords, compare)
    result = set_directions(result, higher_is_better)
    result.notes[:0] = name_notes
    if isinstance(runs, Mapping):
        systems = list(runs)
    else:
        several = result.meta["system"]
        systems = result.frame()["system"].unique().sort().to_list() if several else ["run"]
    aligned = align_systems(result, systems)
    result = replace(aligned, interval="auto", confidence=confidence, _summary=None)
    result.meta["groupings"] = groups
    table, notes = compare_pairs(result, systems, settings)
    return Comparison(result, table, settings, systems, [*notes, *result.notes], source)


def _require_no_run_options(keywords: Mapping[str, Any]) -> None:
    """Refuse the options of runs where results were given."""
    used = ("con", "query")  # to read tables of values
    unused = [name for name in keywords if name not in used and keywords[name] is not None]
    if unused:
        raise RankqlError(
            f"{unused[0]}= is an option for runs. These are results, evaluated already: leave "
            "it out, or pass the runs."
        )
