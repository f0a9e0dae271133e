"""The public interface as the tests expect it: one signature per metric; the rest follows."""

import ast

ROW_SIGNATURES = """
exp2_gain(rel)
cg(rel, pos, k=None)
dcg(rel, pos, k=None, discounts=None, base=2)
idcg(rel, pos, k=None, discounts=None, base=2, ideal='judged')
ndcg(rel, pos, k=None, discounts=None, base=2, ideal='judged', negative='zero')
precision_at(rel, pos, k=None, threshold=1, denominator='k')
recall_at(rel, pos, k=None, threshold=1)
f1_at(rel, pos, k=None, threshold=1)
hit_at(rel, pos, k=None, threshold=1)
r_precision(rel, pos, threshold=1)
ap(rel, pos, k=None, threshold=1, denominator='min')
bpref(rel, pos, threshold=1)
judged_at(rel, pos, k=None)
micro_precision_at(rel, pos, k=None, threshold=1, query=None)
micro_recall_at(rel, pos, k=None, threshold=1)
micro_f1_at(rel, pos, k=None, threshold=1, query=None)
rr(rel, pos, k=None, threshold=1)
arhr(rel, pos, k=None, threshold=1)
err(rel, pos, k=None, max_rel=None, p=1)
rbp(rel, pos, k=None, p=None, threshold=1, max_rel=None)
rbp_residual(rel, pos, k=None, p=None)
kendall_tau_distance(rel, pos, k=None, normalized=False)
kendall_tau_b(rel, pos, k=None)
tau_ap(reference, pos, k=None)
rbo(reference, pos, k=None, p=None, bound='ext')
rmse(rel, score)
mae(rel, score)
"""

NEEDED = "a parameter without a default"


def parse(line):
    """The name and the parameters (name -> default) of one signature."""
    arguments = (function := ast.parse(f"def {line}: pass").body[0]).args
    names = [argument.arg for argument in arguments.args]
    defaults = [ast.literal_eval(default) for default in arguments.defaults]
    padded = [NEEDED] * (len(names) - len(defaults)) + defaults
    return function.name, dict(zip(names, padded, strict=True))


ROWS = dict(map(parse, ROW_SIGNATURES.split("\n")[1:-1]))

MICRO = [metric for metric in ROWS if metric.startswith("micro_")]
RATING = ["rmse", "mae"]
# Of two rankings: columns of positions alone, in no list of grades and by no score.
TWO_RANKINGS = ["tau_ap", "rbo"]
# The metrics of one ranking: these have a list form and a score form too.
RANKING = [m for m in ROWS if m not in {"exp2_gain", *MICRO, *RATING, *TWO_RANKINGS}]
# Those that ask for the judged set: their list form takes it as `ideal`.
TAKES_IDEAL = [
    "idcg",
    "ndcg",
    "precision_at",
    "recall_at",
    "f1_at",
    "hit_at",
    "r_precision",
    "ap",
    "bpref",
    "rr",
    "arhr",
    "err",
]
# What asks for the relevant items is NULL where there are none; the rest is 0.
NULL_WITHOUT_RELEVANT = [
    "ndcg",
    "recall_at",
    "f1_at",
    "hit_at",
    "r_precision",
    "ap",
    "rr",
    "arhr",
    "err",
    "bpref",
]


def list_parameters(metric):
    row = {name: ROWS[metric][name] for name in ROWS[metric] if name not in {"rel", "pos", "ideal"}}
    return {"rels": NEEDED, **row, **({"ideal": None} if metric in TAKES_IDEAL else {})}


def score_parameters(metric):
    row = {name: ROWS[metric][name] for name in ROWS[metric] if name not in {"rel", "pos"}}
    return {"rel": NEEDED, "score": NEEDED, "item": NEEDED, **row, "ties": "item"}


LISTS = {f"list_{metric}": list_parameters(metric) for metric in RANKING}
SCORES = {f"{metric}_by_score": score_parameters(metric) for metric in RANKING}
RANKED = {"ranked": {"table": NEEDED, "query": "user", "item": "item", "score": "score"}}
EVERYTHING = {**ROWS, **LISTS, **SCORES, **RANKED}
