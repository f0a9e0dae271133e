"""All metrics: one record each, in the order of the documentation, and the table of metrics()."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rankql.core.metrics.metric_record import (
    AP_DENOMINATOR,
    CATALOGUE,
    CONTINUATION,
    COVER,
    GRADED,
    IS_RELEVANT,
    NO_CUTOFF,
    RELEVANT,
    UNSEEN_NOVELTY,
    ExplanationSql,
    K,
    MetricRecord,
)

if TYPE_CHECKING:
    import polars as pl

# Why databases other than DuckDB have no function.
SEVERAL_RANKINGS = "it reads several rankings, not one"
PAIRS_OF_ITEMS = "it compares pairs of items"
OTHER_COLUMNS = "it reads other columns than grades and positions"
NO_RELEVANT_ITEM = "no judged item is relevant"
NO_GAIN = "no grade is positive"

_of_relevant = partial(MetricRecord, undefined=NO_RELEVANT_ITEM)

RELEVANCE = (
    MetricRecord(
        function="ndcg",
        name="nDCG",
        aliases=("normalized_dcg",),
        ir_measures={"ndcg_burges@": {"gain": "exp2"}},  # of ranx
        trec_eval={"ndcg_cut_": {"gain": "linear", "ideal": "judged", "negative": "zero"}},
        undefined=NO_GAIN,
        sums_gains=True,
        explanation=ExplanationSql(
            "1 / {discount}",
            "contribution = gain / discount / IDCG",
            gain="rankql_negative({gain}, {negative})",
            normalised=True,
        ),
    ),
    MetricRecord(
        function="dcg",
        unshown="nothing",
        name="DCG",
        ir_measures={"dcg_burges@": {"gain": "exp2"}},
        lowest=None,
        highest=None,
        rows="judged",
        sums_gains=True,
        explanation=ExplanationSql(
            "1 / {discount}", "contribution = gain / discount", gain="{gain}"
        ),
    ),
    MetricRecord(function="idcg", name="IDCG", better="neither", highest=None, sums_gains=True),
    MetricRecord(
        function="cg",
        unshown="nothing",
        name="CG",
        lowest=None,
        highest=None,
        rows="judged",
        sums_gains=True,
        explanation=ExplanationSql("1", "contribution = gain", gain="{gain}"),
    ),
    _of_relevant(
        function="ap",
        per_relevant=True,
        name="AP",
        aliases=("MAP", "average_precision"),
        trec_eval={"map": {"denominator": "R"}, "map_cut_": {"denominator": "R"}},
        own=(AP_DENOMINATOR,),
        no_expected_ties={"denominator": "found"},
        explanation=ExplanationSql(
            "{hits} / {place} / nullif({over}, 0)",
            "gain 1 if relevant, weight = precision at pos / denominator",
        ),
    ),
    _of_relevant(
        function="rr",
        unshown="presence",
        name="RR",
        aliases=("MRR", "reciprocal_rank", "RecipRank"),
        trec_eval={"recip_rank": {}},
        explanation=ExplanationSql(
            "CAST({hits} = 1 AS DOUBLE) / {place}",
            "gain 1 if relevant, weight 1 / pos for the first that is",
        ),
    ),
    MetricRecord(
        function="precision_at",
        unshown="nothing",
        name="P",
        aliases=("Precision",),
        trec_eval={
            "P_": {"denominator": "k"},
            "set_P": {"denominator": "retrieved"},
            "relative_P_": {"denominator": "min"},
        },
        ir_measures={
            "SetP": {"denominator": "retrieved"},
            "R_cap@": {"denominator": "min"},  # as in BEIR
        },
        counts_retrieved=True,
        explanation=ExplanationSql(
            "1 / nullif({over}, 0)",
            "gain 1 if relevant, weight 1 / the number of items in the denominator",
        ),
    ),
    _of_relevant(
        function="recall_at",
        per_relevant=True,
        name="R",
        aliases=("Recall",),
        trec_eval={"recall_": {}, "set_recall": {}},
        ir_measures={"SetR": {}},
        explanation=ExplanationSql(
            "1 / nullif(relevant, 0)", "gain 1 if relevant, weight 1 / the number of relevant items"
        ),
    ),
    _of_relevant(
        function="f1_at",
        per_relevant=True,
        name="F1",
        trec_eval={"set_F": {"denominator": "retrieved"}},
        ir_measures={"SetF": {"denominator": "retrieved"}},
        counts_retrieved=True,
        explanation=ExplanationSql(
            "2 / nullif({over} + relevant, 0)",
            "gain 1 if relevant, weight 2 / (number of items shown + number of relevant items)",
        ),
    ),
    _of_relevant(
        function="hit_at",
        unshown="presence",
        name="Success",
        aliases=("Hit", "HR", "HitRate", "HitRatio", "Accuracy", "recall_any"),
        trec_eval={"success_": {}},
        is_share=True,
        explanation=ExplanationSql(
            "CAST({hits} = 1 AS DOUBLE)", "gain 1 if relevant, weight 1 for the first that is"
        ),
    ),
    _of_relevant(
        function="all_rel_at",
        per_relevant=True,
        name="AllRel",
        aliases=("recall_all", "full_recall", "all_recall"),
        is_share=True,
    ),
    _of_relevant(
        function="r_precision",
        own=(NO_CUTOFF,),
        per_relevant=True,
        name="Rprec",
        explanation=ExplanationSql(
            "1 / nullif(relevant, 0)",
            "gain 1 if relevant, weight 1 / the number of relevant items",
            cut="relevant",
        ),
    ),
    _of_relevant(
        function="interpolated_precision",
        name="IPrec",
        trec_eval={"iprec_at_recall_": {}, "11pt_avg": {}},
        no_expected_ties={},
    ),
    _of_relevant(
        function="set_ap",
        own=(NO_CUTOFF,),
        name="SetAP",
        trec_eval={"set_map": {}},
        counts_retrieved=True,
    ),
    _of_relevant(
        function="infap",
        own=(NO_CUTOFF,),
        name="infAP",
        rows="judged",
        reads_sample=True,
        no_expected_ties={},
    ),
    _of_relevant(function="bpref", own=(NO_CUTOFF,), name="Bpref", rows="judged"),
    MetricRecord(
        function="judged_at",
        unshown="nothing",
        name="Judged",
        better="neither",
        rows="judged",
        reads_judged=True,
        counts_retrieved=True,
        explanation=ExplanationSql(
            "1 / nullif({over}, 0)",
            "gain 1 if judged, weight 1 / the number of items in the denominator",
            gain="CAST(rel IS NOT NULL AS DOUBLE)",
        ),
    ),
    MetricRecord(
        function="err",
        unshown="presence",
        name="ERR",
        aliases=("expected_reciprocal_rank",),
        own=(CONTINUATION,),
        undefined=NO_GAIN,
        no_expected_ties={},
        explanation=ExplanationSql(
            "{left} * rankql_utility({place}, {p})",
            "gain = chance to stop there, weight = chance to get there * utility of pos",
            gain="rankql_stop(rel, {max_rel}, {stop})",
        ),
    ),
    MetricRecord(
        function="nerr", name="nERR", own=(CONTINUATION,), undefined=NO_GAIN, no_expected_ties={}
    ),
    MetricRecord(
        function="rbp",
        unshown="nothing",
        name="RBP",
        own=(GRADED,),
        explanation=ExplanationSql(
            "(1 - rankql_patience({p})) * rankql_look({place}, {p})",
            "gain = worth, weight = (1 - p) * p^(pos - 1)",
            gain="rankql_worth(rel, {threshold}, {max_rel})",
        ),
    ),
    MetricRecord(
        function="rbp_residual",
        unshown="nothing",
        name="RBPres",
        aliases=("rbp_resid",),
        better="lower",
        rows="judged",
        reads_judged=True,
    ),
    MetricRecord(
        function="false_answer",
        own=(NO_CUTOFF,),
        name="FalseAnswer",
        better="lower",
        undefined="something is relevant, or nothing is judged",
        rows="judged",
        counts_retrieved=True,
        if_silent=0,
    ),
    _of_relevant(
        function="false_abstention",
        own=(NO_CUTOFF,),
        unshown="presence",
        name="FalseAbstention",
        better="lower",
        counts_retrieved=True,
        if_silent=1,
    ),
    MetricRecord(
        function="forbidden_at",
        unshown="presence",
        name="Forbidden",
        aliases=("leak", "leak_rate"),
        better="lower",
        undefined="no grade is below 0",
        rows="judged",
        reads_forbidden=True,
        if_silent=0,
    ),
    _of_relevant(
        function="arhr",
        unshown="presence",
        name="ARHR",
        highest=None,
        explanation=ExplanationSql("1 / {place}", "gain 1 if relevant, weight 1 / pos"),
    ),
)

# Counts of one ranking, which `evaluate` adds up, as trec_eval and ir_measures do.
_count = partial(MetricRecord, highest=None, weight="1", overall="sum")
COUNTS = (
    _count(
        function="num_ret",
        unshown="nothing",
        name="NumRet",
        trec_eval={"num_ret": {}},
        better="neither",
        counts_retrieved=True,
    ),
    _count(
        function="num_rel",
        own=(NO_CUTOFF,),
        name="NumRel",
        trec_eval={"num_rel": {}},
        better="neither",
    ),
    _count(
        function="num_rel_ret", unshown="nothing", name="NumRelRet", trec_eval={"num_rel_ret": {}}
    ),
)

# Metrics of the order of all items, and of the scores themselves.
ORDER = (
    MetricRecord(
        function="auc",
        unshown="nothing",
        own=(NO_CUTOFF,),
        name="AUC",
        aliases=("ROC_AUC", "AUROC"),
        not_native=PAIRS_OF_ITEMS,
        halves_ties=True,
        undefined="the judged retrieved items are all relevant, or none is",
        rows="judged",
    ),
    MetricRecord(function="rbo", undefined="a ranking is empty", not_native=SEVERAL_RANKINGS),
    MetricRecord(
        function="kendall_tau_b",
        unshown="nothing",
        not_native=PAIRS_OF_ITEMS,
        name="TauB",
        lowest=-1,
        undefined="no two grades or no two positions differ",
        rows="judged",
    ),
    MetricRecord(
        function="tau_ap",
        not_native=SEVERAL_RANKINGS,
        lowest=-1,
        undefined="there are not two items in both rankings",
    ),
    MetricRecord(
        function="kendall_tau_distance",
        unshown="nothing",
        not_native=PAIRS_OF_ITEMS,
        name="TauDistance",
        better="lower",
        highest=None,
        undefined="never (normalized: no two grades differ)",
        rows="judged",
    ),
)

_of_rating = partial(
    MetricRecord,
    unshown="nothing",
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


def _of_all(function: str, name: str, weight: str, **fields: Any) -> MetricRecord:
    """The metric of all rankings at once, which `evaluate` takes as a weighted mean."""
    records = (*RELEVANCE, *ORDER, *RATING)
    record = next(record for record in records if record.function == function)
    none: dict[str, Any] = {"aliases": (), "trec_eval": {}, "ir_measures": {}, "explanation": None}
    return replace(record, name=name, weight=weight, level="rankings", **{**none, **fields})


def _micro(function: str, name: str, weight: str, **fields: Any) -> MetricRecord:
    """The metric of all rankings at once that has a function of its own."""
    record = _of_all(function, name, weight, macro_of_one=function, **fields)
    return replace(record, function=f"micro_{function}", not_native=SEVERAL_RANKINGS)


GEOMETRIC = (
    _of_all("ap", "GMAP", "1", trec_eval={"gm_map": {"denominator": "R"}}, overall="geometric"),
)
MICRO = (
    _micro(
        "precision_at", "microP", "{size}", ir_measures={"microR_cap@": {"denominator": "min"}}
    ),  # as of OTTO
    _micro("recall_at", "microR", RELEVANT),
    _micro("f1_at", "microF1", f"{{size}} + {RELEVANT}"),
)
# Of the retrieved items, as SQL that every database takes.
_HITS = f"count(CASE WHEN {IS_RELEVANT} THEN {{pos}} END)"
_JUDGED = "count(CASE WHEN rel IS NOT NULL THEN {pos} END)"
# Means over rankings that weigh each row the same; of rmse, mse and mae, those of all rows at once.
_WEIGHT_OF_AUC = f"CASE WHEN {_HITS} BETWEEN 1 AND {_JUDGED} - 1 THEN {_JUDGED} ELSE 0 END"
WEIGHTED = (
    _of_all("auc", "GAUC", _WEIGHT_OF_AUC),
    _of_all("rmse", "microRMSE", "count(rel + score)", overall="root"),
    _of_all("mse", "microMSE", "count(rel + score)"),
    _of_all("mae", "microMAE", "count(rel + score)"),
)

# Metrics beyond accuracy, of a catalogue and of a list: functions alone.
COULD_BE_SHOWN = "the number of items that could be shown"
NOTHING_SHOWN = "nothing is shown"
NO_PAIR = "there are not two items"
NO_SUBTOPIC = "no item has a subtopic"

_of_catalogue = partial(MetricRecord, level="catalogue", not_native=OTHER_COLUMNS)
_of_list = partial(MetricRecord, level="list", not_native=OTHER_COLUMNS)

CATALOGUE_METRICS = (
    _of_catalogue(
        function="catalogue_coverage", own=(replace(CATALOGUE, required=COULD_BE_SHOWN),)
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
)

_of_subtopics = partial(MetricRecord, not_native=OTHER_COLUMNS)
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


def _of_shown(function: str, name: str, sql: str, *aliases: str, **fields: Any) -> MetricRecord:
    record = next(record for record in BEYOND if record.function == function)
    own = tuple(replace(parameter, required="") for parameter in record.parameters)
    return replace(record, name=name, aliases=aliases, own=own, of_shown=sql, **fields)


# Metrics of the first k items, which `evaluate` knows by name. Those of a list are averaged over
# the users.
SHOWN = (
    _of_shown("catalogue_coverage", "Coverage",
              "count(DISTINCT CASE WHEN {known} THEN item END) / {size}::DOUBLE",
              "catalogue_coverage", "ItemCoverage"),
    _of_shown("gini", "Gini",
              "rankql_gini(rankql_counts(CASE WHEN {known} THEN item END), {size}::DOUBLE, "
              "({norm} = 'n-1')::INT)", "GiniIndex"),
    _of_shown("shannon_entropy", "Entropy", "rankql_entropy(rankql_counts(item))",
              "shannon_entropy", "distributional_coverage"),
    _of_shown("personalisation", "Personalisation",
              "rankql_personalisation(rankql_counts(item), count(DISTINCT query))",
              "Personalization"),
    _of_shown("average_popularity", "Popularity",
              "average_popularity({users_of}, unseen := {unseen})",
              "AveragePopularity", "AvgRecPopularity", "ARP", level="list"),
    _of_shown("novelty", "Novelty",
              "novelty({users_of}, {train_users}, {unseen}, {normalized})",
              "MeanInvUserFreq", "MIUF", level="list"),
    _of_shown("serendipity", "Serendipity",
              f"avg((coalesce({{place}} > {{k}}, true) AND coalesce({IS_RELEVANT}, false))::INT)"),
    _of_shown("unexpectedness", "Repeats", "avg(coalesce({seen}, 0))", better="neither"),
)  # fmt: skip

_of_spans = partial(MetricRecord, function="", undefined="no span is relevant")
_of_whole_spans = partial(_of_spans, own=(K, COVER))
_of_characters = partial(_of_spans, own=(K,))
# Metrics of what the first k chunks cover together, which `evaluate` knows by name, with span=.
SPANS = (
    _of_whole_spans(name="SpanR", aliases=("SpanRecall",),
                    text="Share of the relevant spans that the first k chunks cover together."),
    _of_whole_spans(name="AllSpans",
                    text="1 if the first k chunks cover all relevant spans together, else 0."),
    _of_characters(name="CharR", aliases=("CharRecall",),
                   text="Share of the relevant characters that the first k chunks have."),
    _of_characters(name="CharP", aliases=("CharPrecision",),
                   text="Share of the characters of the first k chunks that are relevant."),
    _of_characters(name="CharIoU",
                   text="Characters in both the first k chunks and the relevant spans, divided by "
                   "those in either."),
)  # fmt: skip

RECORDS: tuple[MetricRecord, ...] = (
    *RELEVANCE, *COUNTS, *ORDER, *RATING, *MICRO, *GEOMETRIC, *WEIGHTED, *BEYOND
)  # fmt: skip
# The metrics that `evaluate` knows by name.
EVALUATED = tuple(record for record in RECORDS if record.name)
# By function name.
FUNCTIONS = {record.function: record for record in RECORDS if record not in (*GEOMETRIC, *WEIGHTED)}


def metrics() -> pl.DataFrame:
    """Return all metrics: their names, columns, level, direction, range, when they are undefined.

    name: the name in `evaluate`, or else the function. function: the name in SQL
    and polars. columns: what it is computed from. level: a value is for a judged 'ranking', a
    'list' with or without judgments, all 'rankings' together, or a 'catalogue'; do not average
    values of the last two. better: 'higher', 'lower' or 'neither'. lowest, highest: the range with
    default options, NULL without a bound.

    >>> metrics().filter(name="Bpref").select("columns", "better", "highest", "undefined").row(0)
    ('rel, pos', 'higher', 1.0, 'no judged item is relevant')
    """
    import polars as pl

    rows = [
        {
            "name": record.name or record.function,
            "function": record.function,
            "columns": ", ".join(record.columns),
            "level": record.level,
            "better": record.better,
            "lowest": record.lowest,
            "highest": record.highest,
            "undefined": record.undefined,
            "definition": record.definition,
            "aliases": ", ".join(record.aliases),
            "options": ", ".join(
                name if option.default is None else f"{name}={option.sql_default}"
                for name, option in record.options.items()
            ),
        }
        for record in (*EVALUATED, *(record for record in RECORDS if not record.name), *SPANS)
    ]
    return pl.DataFrame(rows, schema_overrides={"lowest": pl.Float64, "highest": pl.Float64})
