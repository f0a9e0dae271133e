"""How an evaluation computes its values: `choose_plan` decides, from facts about the data.

A plan is a ranker, which gives the rows of `ranked` their positions, and a computer: one macro per
metric, or packed sums that polars finishes (`packed_metrics`). All give the same values. A plan may
assume what is not known yet, such as that no scores are tied. If the rows then show otherwise, they
raise `WrongAssumption`, and `choose_plan` decides again with the corrected fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

from rankql.evaluation.ctes import can_pack_lists, ranks_before_join
from rankql.evaluation.facts import Facts
from rankql.evaluation.metric_columns import (
    last_position,
    metric_calls,
    needs_scores,
    reads_judged,
    rows_needed,
)
from rankql.evaluation.packed import Top
from rankql.evaluation.packed_metrics import pack_metrics
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

# "rows": positions as given, or by a window over the rows. "judged": positions of the judged items
# from lists of all scores. "top": positions of the best items from lists of the best scores.
# "untied": the same if these are not tied. "best": no positions, but lists of the best items.
Ranker: TypeAlias = Literal["rows", "judged", "top", "untied", "best"]

# Packed sums. DuckDB takes 5 ms longer to plan a macro. Where nobody notices, with few rows and
# metrics, the query that runs is the one that `result.sql` shows.
PACKED_FROM_ROWS, PACKED_FROM_METRICS = 2_000, 3
# Without hashing of integer keys, nDCG@10 of 10M rows in 100,000 rankings takes 75% of the
# time, or half in random order. For fewer rows the settings take longer.
UNHASHED_FROM_ROWS = 100_000
# Judged lists. AP of 10M rows with 2.5M judgments takes 3 to 3.5 plain joins, with a window 5. In
# smaller runs a window is as fast, and so it is if most scores are tied, or if lists are searched
# for very many judged items.
JUDGED_LISTS_FROM_ROWS = 500_000
MAX_TIED_SHARE = 0.05
MAX_JUDGED_ITEMS = 200
# Top lists. nDCG@10 of 3M rows with 750,000 judgments takes 70% of the time of a window.
TOP_LISTS_FROM_ROWS = 500_000
# Untied lists. nDCG@10 of 1M rows takes half the time of the average over all orders of tied items.
UNTIED_LISTS_FROM_ROWS = 100_000
# Best lists. nDCG@10 of 1M rows in 10,000 rankings takes a third of the time of a window.
BEST_LISTS_FROM_ROWS = 50_000
# An item of a best list takes so many bytes at most. DuckDB 1 reserves them for all k + 1. Lists
# that may take more than so many GiB, or than a share of the memory limit, are used only if
# rankings have several times k items on average.
BEST_ITEM_BYTES, BEST_LISTS_GIB, BEST_LISTS_SHARE = 40, 1, 1 / 4
MIN_ITEMS_PER_K = 3


@dataclass(frozen=True)
class Plan:
    """The metrics and conventions in force, and how their values are computed."""

    metrics: Sequence[Metric]
    conventions: Conventions
    ranker: Ranker = "rows"
    # All grades are whole numbers from 0 to this one, so tops are packed; 0: a macro per metric.
    scale: int = 0
    # Judged items that are not retrieved have grade 0, so they do not count in the ideal.
    zeroes: bool = False
    # Integer keys are indexed, not hashed.
    indexes_keys: bool = False

    @property
    def assumes_no_ties(self) -> bool:
        """Are values wrong if the best scores of a ranking are tied?"""
        return self.ranker != "rows" and self.conventions.ties == "expected"

    @property
    def effective(self) -> Conventions:
        """The conventions of the SQL. Without ties, all orders of tied items are one."""
        ties = "item" if self.assumes_no_ties else self.conventions.ties
        if ties in ("best", "worst") and all(map(reads_judged, self.metrics)):
            ties += " judged"
        ideal = "judged" if self.zeroes else self.conventions.ideal
        return replace(self.conventions, ties=ties, ideal=ideal)

    @cached_property
    def packed(self) -> tuple[Top | None, dict[str, str]]:
        """The packed top, and the metrics that it is enough for, as SQL by name."""
        if not self.scale:
            return None, {}
        return pack_metrics(self.scale, self.metrics, vars(self.effective))

    @property
    def readable(self) -> Plan:
        """The plan without lists and packed sums: a window, and one macro per metric."""
        return Plan(self.metrics, self.conventions)

    def rows(self, inputs: Inputs) -> Rows:
        """The rows that the values depend on."""
        before = ranks_before_join(inputs, self.effective)
        return rows_needed(self.metrics, self.effective) if before else "all"


def choose_plan(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, facts: Facts
) -> Plan:
    """Choose the fastest plan that gives the values of `Plan(metrics, conventions)`."""
    plan = Plan(metrics, conventions)
    packs = facts.packs
    if packs is None:
        packs = facts.rows >= PACKED_FROM_ROWS or len(metrics) >= PACKED_FROM_METRICS
    if not packs:
        return plan
    untied = replace(conventions, ties="item") if conventions.ties == "expected" else conventions
    plan = replace(plan, zeroes=_can_zero_others(inputs, plan, untied, facts))
    untied = replace(untied, ideal=plan.effective.ideal)
    if inputs.qrels is None:
        ranked = _choose_best_lists(inputs, replace(plan, scale=facts.grade_scale), untied, facts)
    else:
        ranked = _choose_score_lists(inputs, plan, untied, facts)
    if ranked.effective.ties == "expected" or facts.crowded:
        return replace(ranked, scale=0, zeroes=False)
    ranked = replace(ranked, scale=facts.grade_scale)
    return replace(ranked, indexes_keys=True) if _can_index_keys(inputs, ranked, facts) else ranked


def _can_zero_others(inputs: Inputs, plan: Plan, untied: Conventions, facts: Facts) -> bool:
    """Whether ideal='retrieved' is the same as grade 0 for every item that is not retrieved.

    For packed nDCG and IDCG it is. nDCG@10 of a run with judgments then takes a third of the time
    of macros with ties='expected', and 80% with ties='item'.
    """
    if untied.ideal != "retrieved" or untied.undefined == "drop" or not facts.grade_scale:
        return False
    if not all(
        metric.record and metric.arguments(vars(untied)).get("ideal") == "retrieved"
        for metric in plan.metrics
    ):
        return False
    judged = replace(untied, ideal="judged")
    _, packed = pack_metrics(facts.grade_scale, plan.metrics, vars(judged))
    if len(packed) < len(plan.metrics):
        return False
    if inputs.qrels is None:
        return facts.retrieves_all_rows
    return ranks_before_join(inputs, judged)


def _can_index_keys(inputs: Inputs, plan: Plan, facts: Facts) -> bool:
    """Whether all metrics are sums by one integer key, over many rows."""
    integers = not inputs.many and all(table.integer("query") for table in inputs.tables)
    if not integers or facts.rows < UNHASHED_FROM_ROWS:
        return False
    _, packed = plan.packed
    return len(packed) == len(metric_calls(plan.metrics, plan.effective)[0])


def _choose_best_lists(inputs: Inputs, plan: Plan, untied: Conventions, facts: Facts) -> Plan:
    """Lists of the best items, for a large table with grades and scores."""
    if not can_pack_lists(inputs, untied) or facts.rows < BEST_LISTS_FROM_ROWS or facts.crowded:
        return plan
    top, packed = pack_metrics(plan.scale, plan.metrics, vars(untied))
    calls, _ = metric_calls(plan.metrics, untied)
    if packed.keys() != calls.keys() or (plan.conventions.ties == "expected" and facts.tied_tops):
        return plan
    room = min(BEST_LISTS_GIB, BEST_LISTS_SHARE * facts.memory_gib) * 2**30
    fits = facts.rows * (top.k + 1) * BEST_ITEM_BYTES <= room
    if not fits and facts.rows < MIN_ITEMS_PER_K * top.k * facts.approximate_rankings:
        return plan
    return replace(plan, ranker="best")


def _choose_score_lists(inputs: Inputs, plan: Plan, untied: Conventions, facts: Facts) -> Plan:
    """Lists of scores, for a large run that is joined with judgments."""
    if not inputs.scored or not ranks_before_join(inputs, untied):
        return plan
    k, rows = last_position(plan.metrics, untied), rows_needed(plan.metrics, untied)
    if k is not None and untied.ties == plan.conventions.ties:
        large = facts.rows >= TOP_LISTS_FROM_ROWS
        return replace(plan, ranker="top") if large else plan
    if rows == "all" or needs_scores(plan.metrics) or inputs.own:
        return plan
    if plan.conventions.ties == "expected":
        if k is None or facts.rows < UNTIED_LISTS_FROM_ROWS or facts.are_tops_tied(k):
            return plan
        return replace(plan, ranker="untied")
    if facts.rows < JUDGED_LISTS_FROM_ROWS:
        return plan
    if facts.judges_more_than(MAX_JUDGED_ITEMS, rows) or facts.tied_share > MAX_TIED_SHARE:
        return plan
    return replace(plan, ranker="judged")
