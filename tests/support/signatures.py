"""The public functions by kind, with their parameters, read from the macros."""

import ast
import re

import rankql
from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.core.metrics.macros import _HINTS, read_parameters, read_sql
from support import definitions
from support.paths import ROOT

NEEDED = "a parameter without a default"
# Table macros that Python has in another form.
SQL_ONLY = ("ranked_table", "monitor_days", "monitor_baseline", "span_judged")
CONSTANTS = {"NULL": None, "true": True, "false": False}


def python_default(text):
    if text is None:
        return NEEDED
    return CONSTANTS[text] if text in CONSTANTS else ast.literal_eval(text)


def macros_of(family):
    """The public macros of sql/<family>.sql."""
    text = (ROOT / "sql" / f"{family}.sql").read_text("utf-8")
    return re.findall(r"^CREATE OR REPLACE MACRO (?!rankql_)(\w+)", text, re.MULTILINE)


# The families whose macros are metrics, but for these.
METRIC_FAMILIES = ("gain", "precision", "cascade", "order", "rating", "catalogue", "diversity")
NO_METRICS = ("exp2_gain", *_HINTS)


def metric_of(name):
    """The metric of a list or score form, or the name itself."""
    return name.removeprefix("list_").removesuffix("_by_score")


def takes_k(name):
    """Has a macro a cutoff, and not a place for one that it refuses?"""
    record = FUNCTIONS.get(metric_of(name))
    return "k" in read_parameters()[name] and (record is None or record.has_cutoff)


def is_complete(name):
    """Is a macro public, and its metric recorded and defined? Else completeness.py names it."""
    metric = metric_of(name)
    known = metric in NO_METRICS or (metric in FUNCTIONS and hasattr(definitions, metric))
    return known and name in rankql.__all__


INCOMPLETE = {
    name for family in METRIC_FAMILIES for name in macros_of(family) if not is_complete(name)
}
EVERYTHING = {
    name: {parameter: python_default(text) for parameter, text in parameters.items()}
    for name, parameters in read_parameters().items()
    if not name.startswith("rankql_") and name not in (*SQL_ONLY, *INCOMPLETE)
}


def of(names):
    return {name: EVERYTHING[name] for name in names if name in EVERYTHING}


def of_family(family):
    return of(macros_of(family))


TABLES = of(
    re.findall(r"^CREATE OR REPLACE MACRO (\w+)\([^)]*\) AS TABLE", read_sql(), re.MULTILINE)
)
LISTS = of(name for name in EVERYTHING if name.startswith("list_"))
SCORES = of(name for name in EVERYTHING if name.endswith("_by_score"))
DIVERSITY = of_family("diversity")
# Beyond accuracy, on other columns: see tests/core/expressions/test_beyond_accuracy.py.
BEYOND = {**of_family("catalogue"), **DIVERSITY}
# Of clicks and weights: see tests/logs/test_debias.py and tests/core/evaluation/test_weights.py.
DEBIAS = of(("debiased", "weighted_mean"))
INTERLEAVING = of_family("interleaving")
OTHERS = {**TABLES, **LISTS, **SCORES, **BEYOND, **DEBIAS, **INTERLEAVING}
ROWS = of(name for name in EVERYTHING if name not in OTHERS)

MICRO = [metric for metric in ROWS if metric.startswith("micro_")]
RATING = ["rmse", "mse", "mae"]
# Of two rankings: columns of positions alone, in no list of grades and by no score.
TWO_RANKINGS = ["tau_ap", "rbo"]
# What comes before the metrics: tests/logs/test_grading.py has their cases.
LABELS = ["graded", "consensus", "grades_of", "discounted_gain"]
# The metrics of rows of grades.
METRICS = [metric for metric in ROWS if metric not in (*NO_METRICS, *LABELS)]
# The metrics of one ranking, which have a list form and a score form too.
RANKING = [metric for metric in ROWS if f"list_{metric}" in LISTS]
# Those that need all judged items: their list form takes them as `ideal`.
TAKES_IDEAL = [metric for metric in RANKING if "ideal" in LISTS[f"list_{metric}"]]
# Options that some of them need.
REQUIRED = {"err": {"max_rel": 4}, "nerr": {"max_rel": 4}, "rbp": {"p": 0.8}}
REQUIRED |= {"rbp_residual": REQUIRED["rbp"]}
