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
f1_at(rel, pos, k=None, threshold=1, denominator='k')
hit_at(rel, pos, k=None, threshold=1)
r_precision(rel, pos, threshold=1)
ap(rel, pos, k=None, threshold=1, denominator='min')
interpolated_precision(rel, pos, recall=None, threshold=1)
set_ap(rel, pos, threshold=1)
infap(rel, pos, threshold=1)
bpref(rel, pos, threshold=1)
judged_at(rel, pos, k=None)
num_ret(rel, pos)
num_rel(rel, pos, threshold=1)
num_rel_ret(rel, pos, threshold=1)
micro_precision_at(rel, pos, k=None, threshold=1, query=None, denominator='k')
micro_recall_at(rel, pos, k=None, threshold=1)
micro_f1_at(rel, pos, k=None, threshold=1, query=None, denominator='k')
rr(rel, pos, k=None, threshold=1)
arhr(rel, pos, k=None, threshold=1)
err(rel, pos, k=None, max_rel=None, p=1, stop='exp2')
nerr(rel, pos, k=None, max_rel=None, p=1, stop='exp2', ideal='judged')
rbp(rel, pos, k=None, p=None, threshold=1, max_rel=None)
rbp_residual(rel, pos, k=None, p=None)
kendall_tau_distance(rel, pos, k=None, normalized=False)
kendall_tau_b(rel, pos, k=None)
auc(rel, pos, threshold=1)
tau_ap(reference, pos, k=None)
rbo(reference, pos, k=None, p=None, bound='ext')
rmse(rel, score)
mse(rel, score)
mae(rel, score)
graded(event, grades, how='max', cap=None, moment=None, until=None, within=None, half_life=None, \
unknown='error')
consensus(rel, weight=1, how='mean', ties='low')
grades_of(retrieved, relevant)
discounted_gain(rel, factor)
"""

# Of a table, the first argument: its name in SQL, a frame in polars.
TABLE_SIGNATURES = """
ranked(scores, query='user', item='item', score='score')
collapsed(chunks, document='document', positions='renumber', query='query')
krippendorff_alpha(labels, level='ordinal', unit='unit', annotator='annotator', label='label', \
slice=None)
cohen_kappa(labels, weights='none', unit='unit', annotator='annotator', label='label', slice=None)
fleiss_kappa(labels, unit='unit', annotator='annotator', label='label', slice=None)
tally(labels, label='rel', slice=None)
leave_one_out(log, n=1, query='user', item='item', moment='time')
time_split(log, since=None, share=None, query=None, moment='time')
counterfactual(log, k=None, clip=None, predicted=None, examination=None, query='query', \
item='item', click='click', propensity='propensity', pos='pos', slice=None, confidence=0.95)
propensity_scored(rankings, k=None, threshold=1, query='query', rel='rel', pos='pos', \
propensity='propensity', slice=None, confidence=0.95)
randomised_propensity(log, query='query', pos='pos', click='click', slice=None, confidence=0.95)
harvested_propensity(log, pairs='all', query='query', item='item', pos='pos', click='click', \
slice=None, confidence=0.95)
click_model(log, query='query', item='item', pos='pos', click='click', slice=None, \
confidence=0.95, max_iterations=10000)
"""

# Beyond accuracy, on other columns: see tests/expressions/test_beyond_accuracy.py.
CATALOGUE_SIGNATURES = """
catalogue_coverage(item, catalogue=None)
gini(item, catalogue=None, norm='n')
shannon_entropy(item, catalogue=None, normalized=False)
average_popularity(popularity, unseen='zero')
novelty(popularity, users=None, unseen='one_user', normalized=False)
freshness(created_at, shown_at)
personalisation(user, item)
exposure(pos, k=None, attention=None)
exposure_disparity(exposure, merit)
expected_exposure_loss(exposure, target)
"""
DIVERSITY_SIGNATURES = """
category_diversity(category, pos, k=None, missing='drop')
jaccard_diversity(attributes, pos, k=None, missing='drop')
cosine_diversity(embedding, pos, k=None, missing='drop')
missing_at(attribute, pos, k=None)
duplicate_share(item, pos, k=None)
near_duplicate_share(embedding, pos, k=None, similarity=None)
unexpectedness(baseline, pos, k=None)
serendipity(rel, baseline, pos, k=None, threshold=1)
subtopic_recall(subtopics, pos, k=None)
alpha_dcg(subtopics, pos, k=None, alpha=0.5)
alpha_ndcg(subtopics, pos, k=None, alpha=0.5)
err_ia(subtopics, pos, k=None, alpha=0.5)
"""

# Of lists of items and of clicks: tests/logs/test_interleaving.py has their cases.
INTERLEAVING_SIGNATURES = """
team_draft(a, b, k=None, seed=None, prefix=False)
team_draft_credit(picks, clicks)
sign_test(preference)
"""

# Of clicks and of what is missing: tests/logs/test_debias.py has their cases.
DEBIAS_SIGNATURES = """
debiased(click, propensity, clip=None, predicted=None)
effective_sample_size(click, propensity, clip=None)
item_propensity(popularity, users, a=0.55, b=1.5)
weighted_mean(value, weight, confidence=0.95)
"""

NEEDED = "a parameter without a default"


def parse(line):
    """The name and the parameters (name -> default) of one signature."""
    arguments = (function := ast.parse(f"def {line}: pass").body[0]).args
    names = [argument.arg for argument in arguments.args]
    defaults = [ast.literal_eval(default) for default in arguments.defaults]
    padded = [NEEDED] * (len(names) - len(defaults)) + defaults
    return function.name, dict(zip(names, padded, strict=True))


def parsed(signatures):
    return dict(map(parse, signatures.strip().split("\n")))


ROWS, TABLES = parsed(ROW_SIGNATURES), parsed(TABLE_SIGNATURES)
CATALOGUE, DIVERSITY = parsed(CATALOGUE_SIGNATURES), parsed(DIVERSITY_SIGNATURES)
BEYOND = {**CATALOGUE, **DIVERSITY}
INTERLEAVING, DEBIAS = parsed(INTERLEAVING_SIGNATURES), parsed(DEBIAS_SIGNATURES)

MICRO = [metric for metric in ROWS if metric.startswith("micro_")]
RATING = ["rmse", "mse", "mae"]
# Of two rankings: columns of positions alone, in no list of grades and by no score.
TWO_RANKINGS = ["tau_ap", "rbo"]
# What comes before the metrics: tests/logs/test_grading.py has their cases.
LABELS = ["graded", "consensus", "grades_of", "discounted_gain"]
# The metrics of one ranking: these have a list form and a score form too.
RANKING = [m for m in ROWS if m not in {"exp2_gain", *MICRO, *RATING, *TWO_RANKINGS, *LABELS}]
# NULL without a relevant item; the others are 0.
NULL_WITHOUT_RELEVANT = [
    *("ndcg", "recall_at", "f1_at", "hit_at", "r_precision", "ap", "interpolated_precision"),
    *("rr", "arhr", "err", "bpref", "nerr", "set_ap", "infap"),
]
# Those that need all judged items: their list form takes them as `ideal`.
TAKES_IDEAL = [*NULL_WITHOUT_RELEVANT, "idcg", "precision_at", "num_rel"]


def list_parameters(metric):
    row = {name: ROWS[metric][name] for name in ROWS[metric] if name not in {"rel", "pos", "ideal"}}
    return {"rels": NEEDED, **row, **({"ideal": None} if metric in TAKES_IDEAL else {})}


def score_parameters(metric):
    row = {name: ROWS[metric][name] for name in ROWS[metric] if name not in {"rel", "pos"}}
    return {"rel": NEEDED, "score": NEEDED, "item": NEEDED, **row, "ties": "item"}


LISTS = {f"list_{metric}": list_parameters(metric) for metric in RANKING}
SCORES = {f"{metric}_by_score": score_parameters(metric) for metric in RANKING}
EVERYTHING = {**ROWS, **LISTS, **SCORES, **BEYOND, **INTERLEAVING, **DEBIAS, **TABLES}
