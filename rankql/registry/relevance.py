"""The records of the metrics of relevance: how good the items at the top are."""

from __future__ import annotations

from functools import partial

from rankql.registry.metric_record import ExplanationSql, MetricRecord
from rankql.registry.parameters import (
    AP_DENOMINATOR,
    CONTINUATION,
    GRADED,
)

NO_RELEVANT_ITEM = "no judged item is relevant"
NO_GAIN = "no grade is positive"

# SQL that every database takes.
RELEVANT = "count(CASE WHEN rel >= {threshold} THEN 1 END)"
RETRIEVED = "coalesce({k}, count({pos}))"

_of_relevant = partial(MetricRecord, undefined=NO_RELEVANT_ITEM)

RELEVANCE = (
    MetricRecord(
        function="ndcg",
        name="nDCG",
        trec_eval={"ndcg_cut_": {"gain": "linear", "ideal": "judged", "negative": "zero"}},
        undefined=NO_GAIN,
        sums_gains=True,
        explanation=ExplanationSql(
            "1 / {discount}",
            "contribution = gain / discount / IDCG",
            gain="rankql_negative({gain}, {negative})",
            normalised=True,
        ),
        packed="{normalized_gains}",
    ),
    MetricRecord(
        function="dcg",
        name="DCG",
        lowest=None,
        highest=None,
        rows="judged",
        sums_gains=True,
        explanation=ExplanationSql(
            "1 / {discount}", "contribution = gain / discount", gain="{gain}"
        ),
        packed="{discounted_gains}",
    ),
    MetricRecord(
        function="idcg",
        name="IDCG",
        better="neither",
        highest=None,
        sums_gains=True,
        packed="{ideal_gains}",
    ),
    MetricRecord(
        function="cg",
        name="CG",
        lowest=None,
        highest=None,
        rows="judged",
        sums_gains=True,
        explanation=ExplanationSql("1", "contribution = gain", gain="{gain}"),
        packed="CAST({gains} AS DOUBLE)",
    ),
    _of_relevant(
        function="ap",
        name="AP",
        aliases=("MAP", "average_precision"),
        trec_eval={"map": {"denominator": "R"}, "map_cut_": {"denominator": "R"}},
        own=(AP_DENOMINATOR,),
        no_expected_ties={"denominator": "found"},
        explanation=ExplanationSql(
            "{hits} / {place} / nullif({over}, 0)",
            "gain 1 if relevant, weight = precision at pos / denominator",
        ),
        packed="CASE WHEN {relevant} > 0 THEN coalesce({precisions} / nullif({divisor}, 0), 0) END",
    ),
    _of_relevant(
        function="rr",
        name="RR",
        aliases=("MRR", "reciprocal_rank"),
        trec_eval={"recip_rank": {}},
        explanation=ExplanationSql(
            "CAST({hits} = 1 AS DOUBLE) / {place}",
            "gain 1 if relevant, weight 1 / pos for the first that is",
        ),
        packed="CASE WHEN {relevant} > 0 THEN coalesce(1 / {first}, 0) END",
    ),
    MetricRecord(
        function="precision_at",
        name="P",
        aliases=("Precision",),
        trec_eval={
            "P_": {"denominator": "k"},
            "set_P": {"denominator": "retrieved"},
            "relative_P_": {"denominator": "min"},
        },
        ir_measures={
            "SetP": {"denominator": "retrieved"},
            "R_cap": {"denominator": "min"},  # as in BEIR
        },
        counts_retrieved=True,
        explanation=ExplanationSql(
            "1 / nullif({over}, 0)",
            "gain 1 if relevant, weight 1 / the number of items in the denominator",
        ),
        packed="coalesce({hits} / nullif({divisor}, 0), 0)",
    ),
    _of_relevant(
        function="recall_at",
        name="R",
        aliases=("Recall",),
        trec_eval={"recall_": {}, "set_recall": {}},
        ir_measures={"SetR": {}},
        explanation=ExplanationSql(
            "1 / nullif(relevant, 0)", "gain 1 if relevant, weight 1 / the number of relevant items"
        ),
        packed="{hits} / nullif({relevant}, 0)",
    ),
    _of_relevant(
        function="f1_at",
        name="F1",
        trec_eval={"set_F": {"denominator": "retrieved"}},
        ir_measures={"SetF": {"denominator": "retrieved"}},
        counts_retrieved=True,
        explanation=ExplanationSql(
            "2 / nullif({over} + relevant, 0)",
            "gain 1 if relevant, weight 2 / (number of items shown + number of relevant items)",
        ),
        packed="CASE WHEN {relevant} > 0 THEN 2 * {hits} / ({divisor} + {relevant}) END",
    ),
    _of_relevant(
        function="hit_at",
        name="Success",
        aliases=("Hit", "HR", "HitRate", "hit_rate"),
        trec_eval={"success_": {}},
        is_share=True,
        explanation=ExplanationSql(
            "CAST({hits} = 1 AS DOUBLE)", "gain 1 if relevant, weight 1 for the first that is"
        ),
        packed="CASE WHEN {relevant} > 0 THEN least({hits}, 1) END",
    ),
    _of_relevant(
        function="r_precision",
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
        name="SetAP",
        trec_eval={"set_map": {}},
        counts_retrieved=True,
    ),
    _of_relevant(
        function="infap",
        name="infAP",
        rows="judged",
        reads_sample=True,
        no_expected_ties={},
    ),
    _of_relevant(function="bpref", name="Bpref", rows="judged"),
    MetricRecord(
        function="judged_at",
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
        name="ERR",
        own=(CONTINUATION,),
        undefined=NO_GAIN,
        no_expected_ties={},
        explanation=ExplanationSql(
            "{left} * rankql_utility({place}, {p})",
            "gain = chance to stop there, weight = chance to get there * utility of pos",
            gain="rankql_stop(rel, {max_rel}, {stop})",
        ),
        packed="CASE WHEN {positive} > 0 THEN {stops} END",
    ),
    MetricRecord(
        function="nerr",
        name="nERR",
        own=(CONTINUATION,),
        undefined=NO_GAIN,
        no_expected_ties={},
    ),
    MetricRecord(
        function="rbp",
        name="RBP",
        own=(GRADED,),
        explanation=ExplanationSql(
            "(1 - rankql_patience({p})) * rankql_look({place}, {p})",
            "gain = worth, weight = (1 - p) * p^(pos - 1)",
            gain="rankql_worth(rel, {threshold}, {max_rel})",
        ),
        packed="{looks}",
    ),
    MetricRecord(
        function="rbp_residual",
        name="RBPres",
        aliases=("rbp_resid",),
        better="lower",
        rows="judged",
        reads_judged=True,
    ),
    _of_relevant(
        function="arhr",
        name="ARHR",
        highest=None,
        explanation=ExplanationSql("1 / {place}", "gain 1 if relevant, weight 1 / pos"),
        packed="CASE WHEN {relevant} > 0 THEN {reciprocals} END",
    ),
)

GEOMETRIC = (
    _of_relevant(
        function="ap",
        name="GMAP",
        trec_eval={"gm_map": {"denominator": "R"}},
        own=(AP_DENOMINATOR,),
        level="rankings",
        no_expected_ties={"denominator": "found"},
        weight="1",
        overall="geometric",
    ),
)

# Counts of one ranking, which `evaluate` adds up, as trec_eval and ir_measures do.
_count = partial(MetricRecord, highest=None, weight="1", overall="sum")
COUNTS = (
    _count(
        function="num_ret",
        name="NumRet",
        trec_eval={"num_ret": {}},
        better="neither",
        counts_retrieved=True,
    ),
    _count(
        function="num_rel",
        name="NumRel",
        trec_eval={"num_rel": {}},
        better="neither",
    ),
    _count(
        function="num_rel_ret",
        name="NumRelRet",
        trec_eval={"num_rel_ret": {}},
    ),
)

# Of all rankings at once, which `evaluate` takes as a weighted mean of those of one.
MICRO = (
    MetricRecord(
        function="micro_precision_at",
        name="microP",
        ir_measures={"microR_cap": {"denominator": "min"}},  # as of OTTO
        level="rankings",
        counts_retrieved=True,
        macro_of_one="precision_at",
        weight="{size}",
    ),
    _of_relevant(
        function="micro_recall_at",
        name="microR",
        level="rankings",
        macro_of_one="recall_at",
        weight=RELEVANT,
    ),
    _of_relevant(
        function="micro_f1_at",
        name="microF1",
        level="rankings",
        counts_retrieved=True,
        macro_of_one="f1_at",
        weight=f"{{size}} + {RELEVANT}",
    ),
)
