"""The parameters of metrics."""

from __future__ import annotations

from rankql.registry.metric_record import Parameter

# For `evaluate` only: in SQL and polars, pass an expression instead of the grade.
GAIN = Parameter(
    "gain",
    "linear",
    "the grade as a gain: itself, 2^rel - 1, or 1 where it is relevant",
    kind="choice",
    choices=("linear", "exp2", "binary"),
    convention="gain",
)
K = Parameter(
    "k", None, "the positions that count, from the top; all of them when left out", kind="count"
)
THRESHOLD = Parameter("threshold", 1, "relevant from this grade", convention="threshold")
DISCOUNTS = Parameter(
    "discounts", None, "a divisor for each position", kind="list", convention="discounts"
)
BASE = Parameter("base", 2, "the base of the logarithm of the discount", above=1)
IDEAL = Parameter(
    "ideal",
    "judged",
    "what the ideal ranking is made of: all judged items, or those retrieved",
    kind="choice",
    choices=("judged", "retrieved"),
    convention="ideal",
)
NEGATIVE = Parameter(
    "negative",
    "zero",
    "a negative grade gains nothing, or keeps its sign",
    kind="choice",
    choices=("zero", "keep"),
    convention="negative",
)
PRECISION_DENOMINATOR = Parameter(
    "denominator",
    "k",
    "what precision is divided by: k, the number of items retrieved, or min(k, R)",
    kind="choice",
    choices=("k", "retrieved", "min"),
    convention="precision_denominator",
)
AP_DENOMINATOR = Parameter(
    "denominator",
    "min",
    "what the sum of precisions is divided by: min(k, R), R, the hits found, or k",
    kind="choice",
    choices=("min", "R", "found", "k"),
    convention="ap_denominator",
    same_without_k=("min", "R"),
)
QUERY = Parameter(
    "query",
    None,
    "the column that distinguishes the rankings, needed with k",
    kind="column",
    required=True,
)
_PATIENCE = "the chance to look at the next item, between 0 and 1"
P = Parameter("p", None, _PATIENCE, above=0, below=1, required=True)
STOP = Parameter(
    "stop",
    "exp2",
    "the chance to stop at an item: (2^rel - 1) / 2^max_rel, or the grade itself",
    kind="choice",
    choices=("exp2", "rel"),
)
CONTINUATION = Parameter("p", 1, _PATIENCE, above=0, highest=1)
SCALE = Parameter(
    "max_rel", None, "the highest grade of the scale", above=0, required=True,
    convention="max_rel", only_with=("stop", "exp2"),
)  # fmt: skip
GRADED = Parameter("max_rel", None, "the highest grade, if a grade is worth rel / max_rel", above=0)
BOUND = Parameter(
    "bound",
    "ext",
    "what lies beyond the ends: extrapolated, the least, the most, or their difference",
    kind="choice",
    choices=("ext", "min", "max", "residual"),
)
NORMALIZED = Parameter("normalized", False, "divided by its highest value", kind="flag")
CATALOGUE = Parameter(
    "catalogue",
    None,
    "the number of items that could be shown, or 'shown': those that were",
    kind="count",
)
USERS = Parameter("users", None, "the number of users", kind="count")
NORM = Parameter(
    "norm", "n", "the highest value is 1 - 1/n, or 1", kind="choice", choices=("n", "n-1")
)
ATTENTION = Parameter("attention", None, "the attention that each position gets", kind="list")
MISSING = Parameter(
    "missing",
    "drop",
    "an item without the attribute is left out, differs from all others, or from none",
    kind="choice",
    choices=("drop", "different", "same"),
)
SIMILARITY = Parameter(
    "similarity",
    None,
    "the cosine from which two items are duplicates, such as 0.95",
    lowest=-1,
    highest=1,
    required=True,
)
ALPHA = Parameter(
    "alpha", 0.5, "the gain that is lost when a subtopic is shown again", lowest=0, highest=1
)
UNSEEN = Parameter(
    "unseen",
    "zero",
    "the popularity of an item never seen in training: 0, or left out",
    kind="choice",
    choices=("zero", "drop"),
)
UNSEEN_NOVELTY = Parameter(
    "unseen",
    "one_user",
    "an item never seen in training counts as known to one user, is left out, or is as the rarest",
    kind="choice",
    choices=("one_user", "drop", "max"),
)
