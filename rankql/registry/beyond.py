"""The records of the metrics beyond accuracy, of a catalogue and of a list: functions alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rankql.registry.metric_record import MetricRecord
from rankql.registry.parameters import (
    ALPHA,
    ATTENTION,
    CATALOGUE,
    MISSING,
    NORM,
    NORMALIZED,
    SIMILARITY,
    THRESHOLD,
    UNSEEN,
    UNSEEN_NOVELTY,
    USERS,
    K,
)

NOTHING_SHOWN = "nothing is shown"
NO_PAIR = "there are not two items"
NO_SUBTOPIC = "no item has a subtopic"

_of_catalogue = partial(MetricRecord, asked_by=(), level="catalogue")
_of_list = partial(MetricRecord, asked_by=(), level="list")
_of_subtopics = partial(MetricRecord, asked_by=(), columns=("subtopics", "pos"))

CATALOGUE_METRICS = (
    _of_catalogue(
        function="catalogue_coverage",
        columns=("item",),
        parameters=(
            replace(CATALOGUE, required=True, help="the number of items that could be shown"),
        ),
        source="Herlocker et al. 2004; Ge et al. 2010",
    ),
    _of_catalogue(
        function="gini",
        columns=("item",),
        parameters=(replace(CATALOGUE, required=True), NORM),
        better="lower",
        undefined=NOTHING_SHOWN,
        source="Fleder and Hosanagar 2009",
    ),
    _of_catalogue(
        function="shannon_entropy",
        columns=("item",),
        parameters=(CATALOGUE, NORMALIZED),
        highest=None,
        undefined=NOTHING_SHOWN,
        source="Shannon 1948",
    ),
    _of_catalogue(
        function="average_popularity",
        columns=("popularity",),
        parameters=(UNSEEN,),
        better="neither",
        highest=None,
        undefined=NOTHING_SHOWN,
        source="Yin et al. 2012",
    ),
    _of_catalogue(
        function="novelty",
        columns=("popularity",),
        parameters=(USERS, UNSEEN_NOVELTY, NORMALIZED),
        highest=None,
        undefined=NOTHING_SHOWN,
        source="Zhou et al. 2010; Vargas and Castells 2011",
    ),
    _of_catalogue(
        function="freshness",
        columns=("created_at", "shown_at"),
        better="lower",
        highest=None,
        undefined=NOTHING_SHOWN,
    ),
    _of_catalogue(
        function="personalisation",
        columns=("user", "item"),
        undefined="there are not two users",
        source="Zhou et al. 2010",
    ),
    _of_catalogue(
        function="exposure",
        columns=("pos",),
        parameters=(K, ATTENTION),
        better="neither",
        highest=None,
        source="Singh and Joachims 2018",
    ),
    _of_catalogue(
        function="exposure_disparity",
        columns=("exposure", "merit"),
        better="lower",
        undefined="there is no exposure or no merit",
        source="Singh and Joachims 2018, as one distance over any number of groups",
    ),
    _of_catalogue(
        function="expected_exposure_loss",
        columns=("exposure", "target"),
        better="lower",
        highest=None,
        source="Diaz et al. 2020",
    ),
)

DIVERSITY_METRICS = (
    _of_list(
        function="category_diversity",
        columns=("category", "pos"),
        parameters=(K, MISSING),
        undefined=NO_PAIR,
        source="Ziegler et al. 2005",
    ),
    _of_list(
        function="jaccard_diversity",
        columns=("attributes", "pos"),
        parameters=(K, MISSING),
        undefined=NO_PAIR,
    ),
    _of_list(
        function="cosine_diversity",
        columns=("embedding", "pos"),
        parameters=(K, MISSING),
        highest=2,
        undefined=NO_PAIR,
        source="Zhang and Hurley 2008",
    ),
    _of_list(
        function="missing_at",
        columns=("attribute", "pos"),
        parameters=(K,),
        better="lower",
        undefined=NOTHING_SHOWN,
    ),
    _of_list(
        function="duplicate_share",
        columns=("item", "pos"),
        parameters=(K,),
        better="lower",
        undefined=NOTHING_SHOWN,
    ),
    _of_list(
        function="near_duplicate_share",
        columns=("embedding", "pos"),
        parameters=(K, SIMILARITY),
        better="lower",
        undefined=NOTHING_SHOWN,
        source="Carbonell and Goldstein 1998",
    ),
    _of_list(
        function="unexpectedness",
        columns=("baseline", "pos"),
        parameters=(K,),
        undefined=NOTHING_SHOWN,
        source="Murakami et al. 2008; Ge et al. 2010",
    ),
    _of_list(
        function="serendipity",
        columns=("rel", "baseline", "pos"),
        parameters=(K, THRESHOLD),
        undefined=NOTHING_SHOWN,
        source="Ge et al. 2010",
    ),
    _of_subtopics(
        function="subtopic_recall",
        parameters=(K,),
        undefined=NO_SUBTOPIC,
        source="Zhai, Cohen and Lafferty 2003",
    ),
    _of_subtopics(
        function="alpha_dcg", parameters=(K, ALPHA), highest=None, source="Clarke et al. 2008"
    ),
    _of_subtopics(
        function="alpha_ndcg",
        parameters=(K, ALPHA),
        highest=None,
        undefined=NO_SUBTOPIC,
        source="Clarke et al. 2008",
    ),
    _of_subtopics(
        function="err_ia",
        parameters=(K, ALPHA),
        undefined=NO_SUBTOPIC,
        source="Chapelle et al. 2011",
    ),
)

BEYOND = (*CATALOGUE_METRICS, *DIVERSITY_METRICS)
