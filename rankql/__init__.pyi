# What rankql offers, and where it is: __init__.py imports each name when it is first asked for.

from .decisions.associate import associate, sign_agreement
from .decisions.association import Association, AssociationTable
from .decisions.compare import compare, queries_needed
from .decisions.comparison import Comparison
from .decisions.gate import gate
from .decisions.verdict import Verdict
from .diagnostics.check import check
from .diagnostics.correlate import correlate
from .diagnostics.explain import Explanation, explain
from .diagnostics.findings import Finding, Report
from .diagnostics.funnel import funnel
from .diagnostics.funnel_result import Funnel
from .diagnostics.limits import limits
from .diagnostics.limits_result import Limits
from .diagnostics.monitor import Monitoring, monitor
from .engines.dialects import translate
from .errors import RankqlError
from .evaluation.combining import combine
from .evaluation.conversion import convert
from .evaluation.evaluate import evaluate
from .evaluation.result import Result
from .evaluation.wide_table import WideTable
from .expressions.cascade import (
    arhr,
    arhr_by_score,
    err,
    err_by_score,
    list_arhr,
    list_err,
    list_rbp,
    list_rbp_residual,
    list_rr,
    rbp,
    rbp_by_score,
    rbp_residual,
    rbp_residual_by_score,
    rr,
    rr_by_score,
)
from .expressions.catalogue import (
    average_popularity,
    catalogue_coverage,
    expected_exposure_loss,
    exposure,
    exposure_disparity,
    freshness,
    gini,
    novelty,
    personalisation,
    shannon_entropy,
)
from .expressions.diversity import (
    alpha_dcg,
    alpha_ndcg,
    category_diversity,
    cosine_diversity,
    duplicate_share,
    err_ia,
    jaccard_diversity,
    missing_at,
    near_duplicate_share,
    serendipity,
    subtopic_recall,
    unexpectedness,
)
from .expressions.gain import (
    cg,
    cg_by_score,
    dcg,
    dcg_by_score,
    discounted_gain,
    exp2_gain,
    idcg,
    idcg_by_score,
    list_cg,
    list_dcg,
    list_idcg,
    list_ndcg,
    ndcg,
    ndcg_by_score,
)
from .expressions.id_lists import grades_of
from .expressions.order import (
    auc,
    auc_by_score,
    kendall_tau_b,
    kendall_tau_b_by_score,
    kendall_tau_distance,
    kendall_tau_distance_by_score,
    list_auc,
    list_kendall_tau_b,
    list_kendall_tau_distance,
    rbo,
    tau_ap,
)
from .expressions.precision import (
    ap,
    ap_by_score,
    bpref,
    bpref_by_score,
    f1_at,
    f1_at_by_score,
    hit_at,
    hit_at_by_score,
    judged_at,
    judged_at_by_score,
    list_ap,
    list_bpref,
    list_f1_at,
    list_hit_at,
    list_judged_at,
    list_precision_at,
    list_r_precision,
    list_recall_at,
    micro_f1_at,
    micro_precision_at,
    micro_recall_at,
    precision_at,
    precision_at_by_score,
    r_precision,
    r_precision_by_score,
    recall_at,
    recall_at_by_score,
)
from .expressions.rating import mae, mse, rmse
from .expressions.variants import ranked
from .logs.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha
from .logs.chunks import collapsed
from .logs.counterfactuals import counterfactual
from .logs.debias import debiased, effective_sample_size
from .logs.grading import consensus, grade_events, graded, tally
from .logs.interleaving import (
    sign_test,
    team_draft,
    team_draft_credit,
)
from .logs.missing_labels import item_propensity, propensity_scored
from .logs.propensity import click_model, harvested_propensity, randomised_propensity
from .logs.splits import leave_one_out, time_split
from .logs.weights import weighted_mean
from .macros import register
from .registry.all_metrics import metrics
from .registry.conventions import Conventions
from .versions import show_versions

__version__: str

__all__ = [
    "Association",
    "AssociationTable",
    "Comparison",
    "Conventions",
    "Explanation",
    "Finding",
    "Funnel",
    "Limits",
    "Monitoring",
    "RankqlError",
    "Report",
    "Result",
    "Verdict",
    "WideTable",
    "alpha_dcg",
    "alpha_ndcg",
    "ap",
    "ap_by_score",
    "arhr",
    "arhr_by_score",
    "associate",
    "auc",
    "auc_by_score",
    "average_popularity",
    "bpref",
    "bpref_by_score",
    "catalogue_coverage",
    "category_diversity",
    "cg",
    "cg_by_score",
    "check",
    "click_model",
    "cohen_kappa",
    "collapsed",
    "combine",
    "compare",
    "consensus",
    "convert",
    "correlate",
    "cosine_diversity",
    "counterfactual",
    "dcg",
    "dcg_by_score",
    "debiased",
    "discounted_gain",
    "duplicate_share",
    "effective_sample_size",
    "err",
    "err_by_score",
    "err_ia",
    "evaluate",
    "exp2_gain",
    "expected_exposure_loss",
    "explain",
    "exposure",
    "exposure_disparity",
    "f1_at",
    "f1_at_by_score",
    "fleiss_kappa",
    "freshness",
    "funnel",
    "gate",
    "gini",
    "grade_events",
    "graded",
    "grades_of",
    "harvested_propensity",
    "hit_at",
    "hit_at_by_score",
    "idcg",
    "idcg_by_score",
    "item_propensity",
    "jaccard_diversity",
    "judged_at",
    "judged_at_by_score",
    "kendall_tau_b",
    "kendall_tau_b_by_score",
    "kendall_tau_distance",
    "kendall_tau_distance_by_score",
    "krippendorff_alpha",
    "leave_one_out",
    "limits",
    "list_ap",
    "list_arhr",
    "list_auc",
    "list_bpref",
    "list_cg",
    "list_dcg",
    "list_err",
    "list_f1_at",
    "list_hit_at",
    "list_idcg",
    "list_judged_at",
    "list_kendall_tau_b",
    "list_kendall_tau_distance",
    "list_ndcg",
    "list_precision_at",
    "list_r_precision",
    "list_rbp",
    "list_rbp_residual",
    "list_recall_at",
    "list_rr",
    "mae",
    "metrics",
    "micro_f1_at",
    "micro_precision_at",
    "micro_recall_at",
    "missing_at",
    "monitor",
    "mse",
    "ndcg",
    "ndcg_by_score",
    "near_duplicate_share",
    "novelty",
    "personalisation",
    "precision_at",
    "precision_at_by_score",
    "propensity_scored",
    "queries_needed",
    "r_precision",
    "r_precision_by_score",
    "randomised_propensity",
    "ranked",
    "rbo",
    "rbp",
    "rbp_by_score",
    "rbp_residual",
    "rbp_residual_by_score",
    "recall_at",
    "recall_at_by_score",
    "register",
    "rmse",
    "rr",
    "rr_by_score",
    "serendipity",
    "shannon_entropy",
    "show_versions",
    "sign_agreement",
    "sign_test",
    "subtopic_recall",
    "tally",
    "tau_ap",
    "team_draft",
    "team_draft_credit",
    "time_split",
    "translate",
    "unexpectedness",
    "weighted_mean",
]
