"""The records of the metrics of the order of all items, and of the scores themselves."""

from __future__ import annotations

from functools import partial

from rankql.registry.metric_record import MetricRecord

# Of the retrieved items, as SQL that every database takes.
_HITS = "count(CASE WHEN rel >= {threshold} THEN {pos} END)"
_JUDGED = "count(CASE WHEN rel IS NOT NULL THEN {pos} END)"

_auc = partial(
    MetricRecord,
    function="auc",
    undefined="the judged retrieved items are all relevant, or none is",
    rows="judged",
)
ORDER = (
    _auc(name="AUC", aliases=("ROC_AUC",)),
    MetricRecord(
        function="rbo", name="RBO", asked_by=("correlate",), undefined="a ranking is empty"
    ),
    MetricRecord(
        function="kendall_tau_b",
        name="TauB",
        asked_by=("evaluate", "correlate"),
        lowest=-1,
        undefined="no two grades or no two positions differ",
        shared_items=True,
        rows="judged",
    ),
    MetricRecord(
        function="tau_ap",
        name="TauAP",
        asked_by=("correlate",),
        lowest=-1,
        undefined="there are not two items in both rankings",
        shared_items=True,
    ),
    MetricRecord(
        function="kendall_tau_distance",
        name="TauDistance",
        asked_by=("evaluate", "correlate"),
        better="lower",
        highest=None,
        undefined="never (normalized: no two grades differ)",
        shared_items=True,
        rows="judged",
    ),
)

_of_rating = partial(
    MetricRecord,
    better="lower",
    highest=None,
    undefined="no row has grade and score",
    rows="judged",
)
RATING = (
    _of_rating(function="rmse", name="RMSE"),
    _of_rating(function="mse", name="MSE"),
    _of_rating(function="mae", name="MAE"),
)

# Means over rankings that weigh each row the same; of rmse, mse and mae, those of all rows at once.
_of_all_ratings = partial(_of_rating, level="rankings", weight="count(rel + score)")
WEIGHTED = (
    _auc(
        name="GAUC",
        level="rankings",
        weight=f"CASE WHEN {_HITS} BETWEEN 1 AND {_JUDGED} - 1 THEN {_JUDGED} ELSE 0 END",
    ),
    _of_all_ratings(function="rmse", name="microRMSE", overall="root"),
    _of_all_ratings(function="mse", name="microMSE"),
    _of_all_ratings(function="mae", name="microMAE"),
)
