"""The parameters of metrics."""

from __future__ import annotations

from rankql.registry.metric_record import Parameter

# For `evaluate` only: in SQL and polars, pass an expression instead of the grade.
GAIN = Parameter(
    "gain",
    "linear",
    "the gain of a grade: the grade itself, 2^rel - 1, or 1 if relevant",
    kind="choice",
    choices=("linear", "exp2", "binary"),
    convention="gain",
)
K = Parameter(
    "k", None, "the number of positions that count, from the top; by default all", kind="count"
)
THRESHOLD = Parameter(
    "threshold", 1, "the lowest grade that counts as relevant", convention="threshold"
)
RECALL = Parameter(
    "recall",
    None,
    "the recall from which precision counts; by default the mean over 0, 0.1, ..., 1",
    lowest=0,
    highest=1,
)
DISCOUNTS = Parameter(
    "discounts", None, "a divisor for each position", kind="list", convention="discounts"
)
BASE = Parameter("base", 2, "the base of the logarithm of the discount", above=1)
IDEAL = Parameter(
    "ideal",
    "judged",
    "the items of the ideal ranking: all judged items, or only the retrieved ones",
    kind="choice",
    choices=("judged", "retrieved"),
    convention="ideal",
)
NEGATIVE = Parameter(
    "negative",
    "zero",
    "negative grades count as 0, or keep their sign",
    kind="choice",
    choices=("zero", "keep"),
    convention="negative",
)
PRECISION_DENOMINATOR = Parameter(
    "denominator",
    "k",
    "the divisor of precision: k, the number of items retrieved, or min(k, R)",
    kind="choice",
    choices=("k", "retrieved", "min"),
    convention="precision_denominator",
    same_without_k=("k", "retrieved"),
)
AP_DENOMINATOR = Parameter(
    "denominator",
    "min",
    "the divisor of the sum of precisions: min(k, R), R, the number of hits, or k",
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
_PATIENCE = "the probability of looking at the next item, between 0 and 1"
P = Parameter("p", None, _PATIENCE, above=0, below=1, required=True)
STOP = Parameter(
    "stop",
    "exp2",
    "the probability that a user stops at an item: (2^rel - 1) / 2^max_rel, or the grade itself",
    kind="choice",
    choices=("exp2", "rel"),
)
CONTINUATION = Parameter("p", 1, _PATIENCE, above=0, highest=1)
SCALE = Parameter(
    "max_rel", None, "the highest grade of the scale", above=0, required=True,
    convention="max_rel", only_with=("stop", "exp2"),
)  # fmt: skip
GRADED = Parameter(
    "max_rel", None, "the highest grade of the scale; a grade then counts as rel / max_rel", above=0
)
BOUND = Parameter(
    "bound",
    "ext",
    "the estimate: extrapolated, lower bound, upper bound, or the difference of the bounds",
    kind="choice",
    choices=("ext", "min", "max", "residual"),
)
NORMALIZED = Parameter("normalized", False, "divide by the maximum", kind="flag")
CATALOGUE = Parameter(
    "catalogue",
    None,
    "the number of items that could be shown (or 'shown', to count the items that were)",
    kind="count",
)
USERS = Parameter(
    "users", None, "the number of users in the training data", kind="count", required=True
)
NORM = Parameter(
    "norm", "n", "the maximum of the index: 1 - 1/n, or 1", kind="choice", choices=("n", "n-1")
)
ATTENTION = Parameter("attention", None, "the attention that each position gets", kind="list")
MISSING = Parameter(
    "missing",
    "drop",
    "items without the attribute: left out, different from all others, or equal to all others",
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
    "alpha",
    0.5,
    "the share of the gain that is lost each time a subtopic is shown again",
    lowest=0,
    highest=1,
)
UNSEEN = Parameter(
    "unseen",
    "zero",
    "items not seen in training: popularity 0, or left out",
    kind="choice",
    choices=("zero", "drop"),
)
UNSEEN_NOVELTY = Parameter(
    "unseen",
    "one_user",
    "items not seen in training: known to one user, left out, or as novel as the rarest item",
    kind="choice",
    choices=("one_user", "drop", "max"),
)
