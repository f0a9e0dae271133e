"""The records of the metrics beyond accuracy, of a catalogue and of a list: functions alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rankql.registry.metric_record import MetricRecord
from rankql.registry.parameters import (
    CATALOGUE,
    UNSEEN_NOVELTY,
)

NOTHING_SHOWN = "nothing is shown"
NO_PAIR = "there are not two items"
NO_SUBTOPIC = "no item has a subtopic"

_of_catalogue = partial(MetricRecord, asked_by=(), level="catalogue")
_of_list = partial(MetricRecord, asked_by=(), level="list")
_of_subtopics = partial(MetricRecord, asked_by=())

CATALOGUE_METRICS = (
    _of_catalogue(
        function="catalogue_coverage",
        own=(replace(CATALOGUE, required=True, help="the number of items that could be shown"),),
        source="Herlocker et al. 2004; Ge et al. 2010",
    ),
    _of_catalogue(
        function="gini",
        own=(replace(CATALOGUE, required=True),),
        better="lower",
        undefined=NOTHING_SHOWN,
        source="Fleder and Hosanagar 2009",
    ),
    _of_catalogue(
        function="shannon_entropy",
        highest=None,
        undefined=NOTHING_SHOWN,
        source="Shannon 1948",
    ),
    _of_catalogue(
        function="average_popularity",
        better="neither",
        highest=None,
        undefined=NOTHING_SHOWN,
        source="Yin et al. 2012",
    ),
    _of_catalogue(
        function="novelty",
        own=(UNSEEN_NOVELTY,),
        highest=None,
        undefined=NOTHING_SHOWN,
        source="Zhou et al. 2010; Vargas and Castells 2011",
    ),
    _of_catalogue(
        function="freshness",
        better="lower",
        highest=None,
        undefined=NOTHING_SHOWN,
    ),
    _of_catalogue(
        function="personalisation",
        undefined="there are not two users",
        source="Zhou et al. 2010",
    ),
    _of_catalogue(
        function="exposure",
        better="neither",
        highest=None,
        source="Singh and Joachims 2018",
    ),
    _of_catalogue(
        function="exposure_disparity",
        better="lower",
        undefined="there is no exposure or no merit",
        source="Singh and Joachims 2018, as one distance over any number of groups",
    ),
    _of_catalogue(
        function="expected_exposure_loss",
        better="lower",
        highest=None,
        source="Diaz et al. 2020",
    ),
)

DIVERSITY_METRICS = (
    _of_list(
        function="category_diversity",
        undefined=NO_PAIR,
        source="Ziegler et al. 2005",
    ),
    _of_list(
        function="jaccard_diversity",
        undefined=NO_PAIR,
    ),
    _of_list(
        function="cosine_diversity",
        highest=2,
        undefined=NO_PAIR,
        source="Zhang and Hurley 2008",
    ),
    _of_list(
        function="missing_at",
        better="lower",
        undefined=NOTHING_SHOWN,
    ),
    _of_list(
        function="duplicate_share",
        better="lower",
        undefined=NOTHING_SHOWN,
    ),
    _of_list(
        function="near_duplicate_share",
        better="lower",
        undefined=NOTHING_SHOWN,
        source="Carbonell and Goldstein 1998",
    ),
    _of_list(
        function="unexpectedness",
        undefined=NOTHING_SHOWN,
        source="Murakami et al. 2008; Ge et al. 2010",
    ),
    _of_list(
        function="serendipity",
        undefined=NOTHING_SHOWN,
        source="Ge et al. 2010",
    ),
    _of_subtopics(
        function="subtopic_recall",
        undefined=NO_SUBTOPIC,
        source="Zhai, Cohen and Lafferty 2003",
    ),
    _of_subtopics(function="alpha_dcg", highest=None, source="Clarke et al. 2008"),
    _of_subtopics(
        function="alpha_ndcg",
        highest=None,
        undefined=NO_SUBTOPIC,
        source="Clarke et al. 2008",
    ),
    _of_subtopics(
        function="err_ia",
        undefined=NO_SUBTOPIC,
        source="Chapelle et al. 2011",
    ),
)

BEYOND = (*CATALOGUE_METRICS, *DIVERSITY_METRICS)
