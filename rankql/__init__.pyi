# What rankql offers, and where it is: __init__.py imports each name when it is first asked for.

from collections.abc import Callable

import polars as pl

from rankql.core.expressions.variants import MetricFunction

from . import errors as errors
from . import testing as testing
from .core.base.errors import Question, RankqlError
from .core.evaluation.evaluate import evaluate
from .core.evaluation.result.means_result import WideTable
from .core.evaluation.result.result import Result
from .core.expressions.cascade import (
    arhr,
    err,
    nerr,
    rbp,
    rbp_residual,
    rr,
)
from .core.expressions.catalogue import (
    average_popularity,
    catalogue_coverage,
    exposure,
    exposure_disparity,
    freshness,
    gini,
    novelty,
    personalisation,
    shannon_entropy,
)
from .core.expressions.diversity import (
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
from .core.expressions.gain import (
    cg,
    dcg,
    discounted_gain,
    exp2_gain,
    idcg,
    ndcg,
)
from .core.expressions.order import (
    auc,
    kendall_tau_b,
    kendall_tau_distance,
    rbo,
    tau_ap,
)
from .core.expressions.precision import (
    all_rel_at,
    ap,
    bpref,
    f1_at,
    false_abstention,
    false_answer,
    forbidden_at,
    hit_at,
    infap,
    interpolated_precision,
    judged_at,
    micro_f1_at,
    micro_precision_at,
    micro_recall_at,
    num_rel,
    num_rel_ret,
    num_ret,
    precision_at,
    r_precision,
    recall_at,
    set_ap,
)
from .core.expressions.rating import mae, mse, rmse
from .core.expressions.variants import ranked
from .core.metrics.all_metrics import metrics
from .core.metrics.conventions import PROFILES, Conventions
from .core.metrics.macros import register
from .decisions.associate import Association, associate
from .decisions.audit import Audit, audit
from .decisions.compare import compare, queries_needed
from .decisions.comparison import Comparison
from .decisions.gate import gate
from .decisions.judges import JudgeReport, judges
from .decisions.verdict import Verdict
from .decisions.verify import Verification, verify
from .diagnostics.check import CheckResult, Finding, check
from .diagnostics.explain import Explanation, explain
from .diagnostics.funnel import Funnel, funnel
from .diagnostics.min_scores import MinScores, min_scores
from .diagnostics.missed import Missed
from .diagnostics.monitor import Monitoring, monitor
from .engines.native import native_sql, translate
from .engines.textbook import plain_sql
from .features.combine import combine
from .features.convert import convert
from .features.spans.judged_spans import span_judgments
from .features.values import read_values
from .logs.debiasing import counterfactual, debiased, harvested_propensity, randomised_propensity
from .logs.interleaving import (
    sign_test,
    team_draft,
    team_draft_credit,
)
from .logs.labels import (
    cohen_kappa,
    collapsed,
    consensus,
    grade_events,
    graded,
    grades_of,
    krippendorff_alpha,
    leave_one_out,
    tally,
    time_split,
    weighted_mean,
)
from .logs.popular import most_popular

__version__: str
__process__: int
__doors__: str
all_rel_at_by_score: MetricFunction[...]
ap_by_score: MetricFunction[...]
arhr_by_score: MetricFunction[...]
auc_by_score: MetricFunction[...]
bpref_by_score: MetricFunction[...]
cg_by_score: MetricFunction[...]
dcg_by_score: MetricFunction[...]
err_by_score: MetricFunction[...]
f1_at_by_score: MetricFunction[...]
false_abstention_by_score: MetricFunction[...]
false_answer_by_score: MetricFunction[...]
forbidden_at_by_score: MetricFunction[...]
hit_at_by_score: MetricFunction[...]
idcg_by_score: MetricFunction[...]
infap_by_score: MetricFunction[...]
interpolated_precision_by_score: MetricFunction[...]
judged_at_by_score: MetricFunction[...]
kendall_tau_b_by_score: MetricFunction[...]
kendall_tau_distance_by_score: MetricFunction[...]
list_all_rel_at: Callable[..., pl.Expr]
list_ap: Callable[..., pl.Expr]
list_arhr: Callable[..., pl.Expr]
list_auc: Callable[..., pl.Expr]
list_bpref: Callable[..., pl.Expr]
list_cg: Callable[..., pl.Expr]
list_dcg: Callable[..., pl.Expr]
list_err: Callable[..., pl.Expr]
list_f1_at: Callable[..., pl.Expr]
list_false_abstention: Callable[..., pl.Expr]
list_false_answer: Callable[..., pl.Expr]
list_forbidden_at: Callable[..., pl.Expr]
list_hit_at: Callable[..., pl.Expr]
list_idcg: Callable[..., pl.Expr]
list_infap: Callable[..., pl.Expr]
list_interpolated_precision: Callable[..., pl.Expr]
list_judged_at: Callable[..., pl.Expr]
list_kendall_tau_b: Callable[..., pl.Expr]
list_kendall_tau_distance: Callable[..., pl.Expr]
list_ndcg: Callable[..., pl.Expr]
list_nerr: Callable[..., pl.Expr]
list_num_rel: Callable[..., pl.Expr]
list_num_rel_ret: Callable[..., pl.Expr]
list_num_ret: Callable[..., pl.Expr]
list_precision_at: Callable[..., pl.Expr]
list_r_precision: Callable[..., pl.Expr]
list_rbp: Callable[..., pl.Expr]
list_rbp_residual: Callable[..., pl.Expr]
list_recall_at: Callable[..., pl.Expr]
list_rr: Callable[..., pl.Expr]
list_set_ap: Callable[..., pl.Expr]
ndcg_by_score: MetricFunction[...]
nerr_by_score: MetricFunction[...]
num_rel_by_score: MetricFunction[...]
num_rel_ret_by_score: MetricFunction[...]
num_ret_by_score: MetricFunction[...]
precision_at_by_score: MetricFunction[...]
r_precision_by_score: MetricFunction[...]
rbp_by_score: MetricFunction[...]
rbp_residual_by_score: MetricFunction[...]
recall_at_by_score: MetricFunction[...]
rr_by_score: MetricFunction[...]
set_ap_by_score: MetricFunction[...]

__all__ = [
    "PROFILES",
    "Association",
    "Audit",
    "CheckResult",
    "Comparison",
    "Conventions",
    "Explanation",
    "Finding",
    "Funnel",
    "JudgeReport",
    "MinScores",
    "Missed",
    "Monitoring",
    "Question",
    "RankqlError",
    "Result",
    "Verdict",
    "Verification",
    "WideTable",
    "all_rel_at",
    "all_rel_at_by_score",
    "alpha_dcg",
    "alpha_ndcg",
    "ap",
    "ap_by_score",
    "arhr",
    "arhr_by_score",
    "associate",
    "auc",
    "auc_by_score",
    "audit",
    "average_popularity",
    "bpref",
    "bpref_by_score",
    "catalogue_coverage",
    "category_diversity",
    "cg",
    "cg_by_score",
    "check",
    "cohen_kappa",
    "collapsed",
    "combine",
    "compare",
    "consensus",
    "convert",
    "cosine_diversity",
    "counterfactual",
    "dcg",
    "dcg_by_score",
    "debiased",
    "discounted_gain",
    "duplicate_share",
    "err",
    "err_by_score",
    "err_ia",
    "evaluate",
    "exp2_gain",
    "explain",
    "exposure",
    "exposure_disparity",
    "f1_at",
    "f1_at_by_score",
    "false_abstention",
    "false_abstention_by_score",
    "false_answer",
    "false_answer_by_score",
    "forbidden_at",
    "forbidden_at_by_score",
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
    "infap",
    "infap_by_score",
    "interpolated_precision",
    "interpolated_precision_by_score",
    "jaccard_diversity",
    "judged_at",
    "judged_at_by_score",
    "judges",
    "kendall_tau_b",
    "kendall_tau_b_by_score",
    "kendall_tau_distance",
    "kendall_tau_distance_by_score",
    "krippendorff_alpha",
    "leave_one_out",
    "list_all_rel_at",
    "list_ap",
    "list_arhr",
    "list_auc",
    "list_bpref",
    "list_cg",
    "list_dcg",
    "list_err",
    "list_f1_at",
    "list_false_abstention",
    "list_false_answer",
    "list_forbidden_at",
    "list_hit_at",
    "list_idcg",
    "list_infap",
    "list_interpolated_precision",
    "list_judged_at",
    "list_kendall_tau_b",
    "list_kendall_tau_distance",
    "list_ndcg",
    "list_nerr",
    "list_num_rel",
    "list_num_rel_ret",
    "list_num_ret",
    "list_precision_at",
    "list_r_precision",
    "list_rbp",
    "list_rbp_residual",
    "list_recall_at",
    "list_rr",
    "list_set_ap",
    "mae",
    "metrics",
    "micro_f1_at",
    "micro_precision_at",
    "micro_recall_at",
    "min_scores",
    "missing_at",
    "monitor",
    "most_popular",
    "mse",
    "native_sql",
    "ndcg",
    "ndcg_by_score",
    "near_duplicate_share",
    "nerr",
    "nerr_by_score",
    "novelty",
    "num_rel",
    "num_rel_by_score",
    "num_rel_ret",
    "num_rel_ret_by_score",
    "num_ret",
    "num_ret_by_score",
    "personalisation",
    "plain_sql",
    "precision_at",
    "precision_at_by_score",
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
    "read_values",
    "recall_at",
    "recall_at_by_score",
    "register",
    "rmse",
    "rr",
    "rr_by_score",
    "serendipity",
    "set_ap",
    "set_ap_by_score",
    "shannon_entropy",
    "sign_test",
    "span_judgments",
    "subtopic_recall",
    "tally",
    "tau_ap",
    "team_draft",
    "team_draft_credit",
    "time_split",
    "translate",
    "unexpectedness",
    "verify",
    "weighted_mean",
]
