"""The records of the metrics beyond accuracy, of a catalogue and of a list: functions alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rankql.registry.metric_record import MetricRecord
from rankql.registry.parameters import (
    CATALOGUE,
    UNSEEN_NOVELTY,
)

COULD_BE_SHOWN = "the number of items that could be shown"
NOTHING_SHOWN = "nothing is shown"
NO_PAIR = "there are not two items"
NO_SUBTOPIC = "no item has a subtopic"

_of_catalogue = partial(MetricRecord, asked_by=(), level="catalogue")
_of_list = partial(MetricRecord, asked_by=(), level="list")
_of_subtopics = partial(MetricRecord, asked_by=())

CATALOGUE_METRICS = (
    _of_catalogue(
        function="catalogue_coverage",
        own=(replace(CATALOGUE, required=COULD_BE_SHOWN),),
    ),
    _of_catalogue(
        function="gini",
        own=(
            replace(
                CATALOGUE, required=f"{COULD_BE_SHOWN} (or 'shown', to count the items that were)"
            ),
        ),
        better="lower",
        undefined=NOTHING_SHOWN,
    ),
    _of_catalogue(function="shannon_entropy", highest=None, undefined=NOTHING_SHOWN),
    _of_catalogue(
        function="average_popularity", better="neither", highest=None, undefined=NOTHING_SHOWN
    ),
    _of_catalogue(function="novelty", own=(UNSEEN_NOVELTY,), highest=None, undefined=NOTHING_SHOWN),
    _of_catalogue(function="freshness", better="lower", highest=None, undefined=NOTHING_SHOWN),
    _of_catalogue(function="personalisation", undefined="there are not two users"),
    _of_catalogue(function="exposure", better="neither", highest=None),
    _of_catalogue(
        function="exposure_disparity", better="lower", undefined="there is no exposure or no merit"
    ),
    _of_catalogue(function="expected_exposure_loss", better="lower", highest=None),
)

DIVERSITY_METRICS = (
    _of_list(function="category_diversity", undefined=NO_PAIR),
    _of_list(function="jaccard_diversity", undefined=NO_PAIR),
    _of_list(function="cosine_diversity", highest=2, undefined=NO_PAIR),
    _of_list(function="missing_at", better="lower", undefined=NOTHING_SHOWN),
    _of_list(function="duplicate_share", better="lower", undefined=NOTHING_SHOWN),
    _of_list(function="near_duplicate_share", better="lower", undefined=NOTHING_SHOWN),
    _of_list(function="unexpectedness", undefined=NOTHING_SHOWN),
    _of_list(function="serendipity", undefined=NOTHING_SHOWN),
    _of_subtopics(function="subtopic_recall", undefined=NO_SUBTOPIC),
    _of_subtopics(function="alpha_dcg", highest=None),
    _of_subtopics(function="alpha_ndcg", highest=None, undefined=NO_SUBTOPIC),
    _of_subtopics(function="err_ia", undefined=NO_SUBTOPIC),
)

BEYOND = (*CATALOGUE_METRICS, *DIVERSITY_METRICS)
