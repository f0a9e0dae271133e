"""Systems as compare and gate get them: opened, aligned on the same queries, and described."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl

from rankql.core.base import text
from rankql.core.base.column_names import says
from rankql.core.base.errors import RankqlError, describe_unknown, require
from rankql.core.base.writing import names_by_file
from rankql.core.evaluation.means import means
from rankql.core.evaluation.plan import meta
from rankql.core.evaluation.query.readable import describe_together
from rankql.core.evaluation.result.result import Result, check_values
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, literal
from rankql.core.metrics.parse import is_metric, record_of, resolve_names, rule
from rankql.core.stats.sample import Sample
from rankql.core.tables.request import require_place_of_qrels
from rankql.features import combine
from rankql.features.combine import find_result
from rankql.features.systems import NO_RUNS
from rankql.features.values import VALUES

Results = Result | str | os.PathLike[str]

_DICT = "Pass several runs as a dict: compare({'a': a, 'b': b}, qrels)"


def name_systems(runs: Any, qrels: Any, metrics: Any, con: Any) -> tuple[Any, list[str]]:
    """The runs, those of a list by name, and a note on generated names."""
    require_place_of_qrels(qrels, con)
    if isinstance(metrics, Mapping):  # {label: SQL}, or judgments
        several = not all(isinstance(sql, str) for sql in metrics.values())
    elif isinstance(metrics, str):
        several = not is_metric(metrics) and os.path.exists(metrics)
    else:
        several = not isinstance(metrics, list | tuple | None)
    several = several or find_result(qrels) is not None
    require(not several, f"compare takes the runs, qrels and metrics by position. {_DICT}")
    if not isinstance(runs, list | tuple):
        return runs, []
    require(bool(runs), NO_RUNS)
    paths = [run for run in runs if isinstance(run, str | os.PathLike)]
    names = names_by_file(paths)
    if not (len(paths) == len(runs) == len({*names}) and all(names)):
        names = [f"run {i}" for i in range(1, len(runs) + 1)]
    note = f"Systems are named {text.join_words([*names])}. Pass a dict to choose other names"
    return dict(zip(names, runs, strict=True)), [note]


def select_metrics(result: Result, metrics: Any) -> Result:
    """The result with only these metrics."""
    if metrics is None:
        return result
    names = []
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        names += resolve_names(metric, result.metrics, result.conventions)
    require_metrics(result, names)
    return result.derive(metrics=list(dict.fromkeys(names)))


def require_metrics(result: Result, names: Sequence[str], label: str = "") -> None:
    """Refuse metrics that a result does not have."""
    for name in names:
        if name not in result.metrics:
            raise RankqlError(label + describe_unknown("metric", name, result.metrics))


def require_attributes(result: Result, names: Sequence[str], cluster: str | None) -> None:
    """Refuse attributes that a result does not have; the cluster is one of them."""
    known = result.meta.by
    for name in names:
        none = f"The results have no attribute {name!r}. Evaluate with by=, cluster= or weight="
        unknown = describe_unknown("attribute", name, known) if known else none
        require(name in known, f"{'cluster' if name == cluster else 'by'}: {unknown}")


def align_systems(result: Result, systems: Sequence[str]) -> Result:
    """The result with one row per system and query.

    A query that a system lacks counts as missing: if another system has a value, it has the worst
    one, or none. Its attributes are those of the other systems.
    """
    key, by, metrics = result.meta.query, result.meta.by, result.metrics
    rows, catalogue = result.frame(), result.meta.catalogue
    worst = {name: f"{INTERNAL_PREFIX}worst_{name}" for name in metrics}
    if not result.meta.system:
        combine.require_no_system(result)
        rows = rows.select(pl.lit(systems[0]).alias("system"), pl.all())
        of_one = {"system": systems[0]}
        catalogue = {name: [row | of_one for row in values] for name, values in catalogue.items()}
    if result.catalogue_metrics:
        require_same_queries(result.derive(values=rows))
    queries = rows.group_by(key).agg(
        *(pl.col(name).drop_nulls().unique().sort() for name in by),
        # The worst value, if another system has one; none if it may be below 0.
        *(
            meta.worst_value(
                name, unless=pl.col(name).is_null().all() | (pl.col(name) < 0).any()
            ).alias(worst[name])
            for name in metrics
        ),
    )
    for name in by:
        argument = "weight" if name == result.meta.weight else "by"
        different = queries.filter(pl.col(name).list.len() > 1).sort(key)
        for query, values in different[key, name].rows():
            raise RankqlError(
                f"{argument}: {name} must have one value per query, but query {query!r} has "
                f"{values[0]!r} and {values[1]!r} in different systems. Make them the same"
            )
    require_overlap(rows, key, systems)
    collections = result.meta.collections.items()  # of which a system has a run
    own = [pl.col("system").eq(x) & pl.col("collection").is_in(y) for x, y in collections]
    aligned = (
        queries.with_columns(pl.col(name).list.first() for name in by)
        .join(pl.DataFrame({"system": systems}), how="cross")
        .join(rows.drop(by), on=["system", key], how="left")
        .with_columns(
            pl.when(pl.col(MISSING).is_null())
            .then(pl.col(worst[name]))
            .otherwise(pl.col(name))
            .alias(name)
            for name in metrics
        )
        .with_columns(pl.col(MISSING).fill_null(True))
        .filter(pl.any_horizontal(own) if own else True)
        .sort("system", key)
        .select("system", key, *by, *(c for c in rows.columns if c not in {"system", key, *by}))
    )
    judge = None if result.judge is None else align_systems(result.judge, systems)
    result = result.derive(system=True, catalogue=catalogue, values=aligned, judge=judge)
    check_values(result.meta, aligned)
    return result.derive(paired=True)


def keep_shared_queries(result: Result) -> Result:
    """The result with each metric on the queries for which all systems define it.

    A system without any value of a metric leaves out no query of the others, nor one without a
    run of a collection.
    """
    if result.meta.collections:
        parts = result.frame().partition_by("collection", maintain_order=True)
        derived = (result.derive(collections={}, values=x) for x in parts)
        every = [keep_shared_queries(x).frame() for x in derived]
        return result.derive(values=pl.concat(every).sort("system", result.meta.query))
    rows, weights = result.frame(), result.meta.metric_weights
    systems = rows["system"].unique().sort().to_list()
    columns = list[pl.Series]()
    for name in result.metrics:
        value = meta.compared_value(name, result.meta).is_not_null()
        if name in weights and meta.left_out_if(name, result.conventions) != meta.MISSED:
            value |= pl.col(MISSING)  # which has no rows, but counts
        # One row per system, one column per query.
        defined = rows.select(value).to_series().to_numpy().reshape(len(systems), -1)
        shared = defined[defined.any(axis=1)].all(axis=0)
        if name in result.catalogue_metrics or not (defined & ~shared).any():
            continue
        kept = pl.Series(np.tile(shared, len(systems)))
        columns.append(rows[name].set(~kept, None))
        if name in weights:
            columns.append(rows[weights[name]].set(~kept, 0))
    return result.derive(values=rows.with_columns(columns)) if columns else result


def own_means(aligned: Result) -> dict[tuple[str, str, str], tuple[float | None, int]]:
    """The mean over the own queries of each system, and their number, by metric, slice and system.

    Nothing if missing queries count, or if no system has queries that another one lacks.
    """
    skipped = any(rule(aligned.conventions, "missing", x) == "skip" for x in aligned.metrics)
    if not skipped or aligned.judge is not None or not aligned.frame()[MISSING].any():
        return {}
    alone = aligned.derive(paired=False)
    own, common = (
        each.means["metric", "slice", "system", "mean", means.COUNTED]
        for each in (alone, keep_shared_queries(aligned))
    )
    if own[means.COUNTED].equals(common[means.COUNTED]):
        return {}
    return {row[:3]: row[3:] for row in own.rows()}


def require_same_queries(result: Result) -> None:
    """Refuse metrics of the complete catalogue if the systems have different queries.

    They describe all rankings together, so a query is not missing from them one by one.
    """
    metrics = result.catalogue_metrics
    rows, key = result.frame(), result.meta.query
    if all(meta.left_out_if(name, result.conventions) == meta.MISSED for name in metrics):
        rows = rows.filter(~pl.col(MISSING))
    if not metrics or rows.is_empty():
        return
    queries = rows[key].unique()
    for (system,), values in rows.sort("system").group_by("system", maintain_order=True):
        if lacking := len(missing := queries.filter(~queries.is_in(values[key].implode()))):
            raise RankqlError(
                f"{describe_together(metrics)}, so every run needs the same queries: {lacking:,} "
                f"of {text.format_queries(len(queries))} {text.is_or_are(lacking)} missing in "
                f"{system!r}, such as {missing.min()!r}. Remove them from the other runs too, or "
                "leave out such metrics"
            )


def require_overlap(rows: pl.DataFrame, key: str, systems: Sequence[str]) -> None:
    """Refuse a system that shares no query with any other."""
    rows = rows.filter(~pl.col(MISSING))
    counts = rows.select("system", key, pl.len().over(key).alias("times"))
    ranked = counts["system"].unique()  # others retrieved nothing
    for system in (x for x in systems if len(ranked) > 1 and x in ranked):
        queries = counts.filter(pl.col("system") == system)
        if (queries["times"] < 2).all():
            others = counts.filter(pl.col("system") != system)
            raise RankqlError(
                f"{system!r} has no query in common with the other systems: it has "
                f"{queries[key].min()!r}, they have {others[key].min()!r}. Runs are compared on "
                "the same queries: use one spelling of ids. Groups of other users, such as the "
                "arms of an experiment, are slices of one run: by= (docs/experiment.md). For "
                "weeks with other queries, use monitor"
            )


def hash_rankings(
    result: Result, systems: Sequence[str | None] = (None,)
) -> dict[str | None, tuple[str | None, ...]]:
    """By system, a number that only the same items in the same order have, read in one pass.

    It is known for runs that were evaluated just now, and have items. None is the only system.
    """
    if result.steps is None:
        return {}
    # Of scores or positions, and of both if there are both.
    number = "hash(CAST(query AS VARCHAR), CAST(item AS VARCHAR), COLUMNS('^(score|pos)$'))"
    filters = ("" if x is None else f" FILTER (WHERE system = {literal(x)})" for x in systems)
    sums = ", ".join(f"CAST(sum({number}){only} AS VARCHAR)" for only in filters)
    try:
        lists = result.steps.run("run", f"[{sums}]").row(0)
    except (RankqlError, duckdb.Error):  # there are no items, or the tables are gone
        return {}
    return dict(zip(systems, zip(*lists, strict=True), strict=True))


def query_differences(result: Result, metric: str, a: str, b: str) -> pl.DataFrame:
    """Each query with its attributes, its values in two systems, and b - a; the worst first."""
    names = means.attribute_columns([result.meta.query, *result.meta.by], ("a", "b", "difference"))
    key = names[result.meta.query]
    attributes = [pl.col(name).alias(column) for name, column in names.items()]
    # Before the rows of others go: a query that a third system lacks is left out too.
    rows = result.frame().with_columns(meta.compared_value(metric, result.meta))
    of_a, of_b = (
        rows.filter(pl.col("system") == system).select(*attributes, pl.col(metric).alias(column))
        for system, column in ((a, "a"), (b, "b"))
    )
    gain = pl.col("b") - pl.col("a")
    both = of_a.join(of_b.select(key, "b"), on=key).with_columns(difference=gain)
    loss_first = -gain if result.lower_is_better(metric) else gain
    return both.drop_nulls("difference").sort(loss_first, key)


def describe_left_out(result: Result) -> Iterator[str]:
    """Notes on queries that are missing or undefined in a system, of aligned systems."""
    rows, rules, key = result.frame(), result.conventions, result.meta.query
    if result.judge is not None:
        yield (
            "The means of a pair are corrected with the weight of the judge for its difference, so "
            "they differ from those of each system alone"
        )
    total = rows[key].n_unique()

    def count(conditions: Mapping[str, pl.Expr], end: str) -> list[text.Note]:
        counts = ((name, rows.filter(x)[key].n_unique(), total) for name, x in conditions.items())
        return text.note_shares(counts, end)

    left_out = {name: meta.is_left_out(name, result.meta) for name in result.metrics}
    names = [name for name in result.metrics if name not in result.catalogue_metrics]
    others = {name: meta.undefined_value(name, rules) for name in names}
    if rules["missing"] != "skip":
        # Whoever rightly shows nothing has the best value, or is left out as undefined.
        best = {x: pl.lit(record_of(x).if_silent is not None) & (pl.col(x) == 0) for x in names}
        has_worst = (
            ~left_out[x] & ~best[x] & (pl.col(x).is_not_null() | (others[x] is not None))
            for x in names
        )
        counted = pl.col(MISSING) & pl.any_horizontal(False, *has_worst)
        counts = dict(rows.group_by("system").agg(counted.sum()).rows())
        of_systems = ((x, counts[x], total) for x in result.systems)
        own = result.meta.judgments is False and VALUES not in result.columns
        end = "missing and counted as the worst value" + "; evaluate leaves them out" * own
        yield from text.note_shares(of_systems, end)
    yield from count(left_out, "missing in at least one system and left out")
    for other in dict.fromkeys(others.values()):
        undefined = {x: pl.col(x).is_null() & ~left_out[x] & (others[x] == other) for x in names}
        rule = "left out" if other is None else f"counted as {other}"
        yield from count(undefined, f"undefined in at least one system and {rule}")


# So many queries miss a loss that hits one in twenty, or one in fifty, in 5% of samples.
RARE, RARER = 59, 149
# Fewer losses say little of their frequency, and smaller ones, as a share of the largest possible
# one, nothing of larger ones.
FEW_LOSSES, SMALL_LOSS = 3, 0.25
# From this share of queries at the best value on, a metric hardly shows a difference.
CEILING = 0.95
# Of more systems, the best is partly the luckiest.
MANY_SYSTEMS = 10
# A share of seen items that is worth a word in the title, if the other system has a tenth of it.
MUCH_SEEN = 0.05


def find_few_ranked(result: Result) -> tuple[str, int, int] | None:
    """A system that ranks less than half of the queries that another one ranks, with both numbers.

    The systems are aligned. One without a run of a collection is named in another way.
    """
    if result.meta.collections:
        return None
    ranked = result.frame().group_by("system").agg((~pl.col(MISSING)).sum().alias("n"))
    most = int(ranked["n"].max() or 0)  # type: ignore[arg-type]
    few = ranked.filter(pl.col("n") * 2 < most).sort("n", "system").rows()
    return None if not few else (few[0][0], few[0][1], most)


def describe_misses(result: Result, metric: str) -> str:
    """The end of a title: how many queries ranks of first hits leave out, as they have none."""
    if VALUES not in result.columns or not says(metric, "first rank"):
        return ""
    rows, key = result.frame(), result.meta.query
    count = rows.filter(pl.col(metric).is_null())[key].n_unique()
    of = f"{count:,} of {text.format_queries(rows[key].n_unique())}"
    return f"; {of} left out, without a {metric} in a system" if count else ""


def describe_seen(result: Result, systems: Sequence[str]) -> str:
    """The end of a title if some systems show items of train and another one does not."""
    shares = {name: result.meta.seen.get(name, 0.0) for name in systems}
    low = min(shares, key=lambda name: shares[name])
    high = [x for x in shares if shares[x] >= max(MUCH_SEEN, 10 * shares[low])]
    if not high:
        return ""
    none = "none" if shares[low] == 0 else f"{shares[low]:.1%}"
    most = f"{'up to ' * (len(high) > 1)}{max(shares.values()):.0%}"
    return (
        f", but {most} of the items of {text.join_words(high)} were seen in train and {none} of "
        f"those of {low}: pass seen='drop'"
    )


def describe_limits(result: Result, systems: Sequence[str]) -> Iterator[str]:
    """Notes on metrics that are the best value for nearly all queries, and on many systems."""
    rows, key = result.frame(), result.meta.query
    for name in result.metrics if len(systems) > 1 else ():
        highest = means.metric_range(name)[1]
        if result.higher_is_better(name) and highest == 1:
            values = rows.select(key, meta.compared_value(name, result.meta))
            best = values.group_by(key).agg((pl.col(name) == 1).all(), n=pl.col(name).count())
            best = best.filter(n=len(systems))
            share = best[name].sum() / len(best) if len(best) else 0.0
            if share >= CEILING:
                both = "both" if len(systems) == 2 else f"all {len(systems)} systems"
                yield (
                    f"{name} is 1 for {share:.0%} of queries in {both}: it can hardly show a "
                    "difference. Choose a stricter one, such as a smaller k"
                )
    if len(systems) > MANY_SYSTEMS:
        yield (
            f"The best of {len(systems)} systems is partly the luckiest: its mean is too high on "
            "average. Confirm it on queries that did not choose it"
        )


def describe_rare_losses(samples: Sequence[Sample]) -> list[str]:
    """A note if a sample is so small that it may contain no rare loss."""
    several = len(samples) > 1
    samples = [x for x in samples if round(x.effective, 9) < RARE or _hides_losses(x)]
    smallest = min(samples, key=lambda sample: sample.effective, default=None)
    if smallest is None:
        return []
    number = round(smallest.effective, 9)
    unit = "query" if smallest.clusters is None else "cluster"
    rate, share, losses = 0.05, "twenty", "Rare losses"
    if number >= RARE:
        rate, share, losses = 0.02, "fifty", f"Losses of one {unit} in fifty"
    count = text.format_count(int(number), unit)
    effectively = "" if number == smallest.units else "effectively "
    smallest_of = " (of the smallest row)" if several else ""
    return [
        f"{losses} may not be seen: {effectively}{count}{smallest_of} contain none of the "
        f"losses that hit one {unit} in {share} in {(1 - rate) ** number:.0%} of samples"
    ]


def _hides_losses(sample: Sample) -> bool:
    """Whether a sample of 59 to 149 queries has few losses, or only small ones."""
    losses = sample.values if sample.mean < 0 else -sample.values
    losses = losses[losses > sample.rounding]
    few, largest = len(losses) < FEW_LOSSES, min(sample.highest, -sample.lowest)
    small = losses.max(initial=0.0) < SMALL_LOSS * largest < math.inf
    return RARE <= round(sample.effective, 9) <= RARER and (few or small)
