"""Every metric with a formula and its options, its definition and conventions."""

from rankql.core.metrics.all_metrics import EVALUATED
from rankql.core.metrics.conventions import PROFILES
from support import definitions

RECORDS = {record.name: record for record in EVALUATED}
GAINS = ["", "gain=exp2", "gain=binary", "gain=linear"]
LEVELS = ["", "rel=2", "rel=1.5", "rel=0.5", "rel=1", "rel=3", "rel=5", "rel=9"]
IDEALS = ["", "ideal=retrieved"]
SIZES = ["", "denominator=min", "denominator=retrieved", "denominator=k"]
# Some are beyond what a DOUBLE holds as a power of 2.
SCALES = [f"max_rel={x}" for x in (7, 5.5, 60, 1023, 1024, 2000)]
PATIENCE = [f"p={x}" for x in (0.8, 0.125, 1e-6, 0.999999, 1e-200)]
# Every metric with its options.
FORMS = {
    **{name: [GAINS] for name in ("CG", "DCG")},
    "IDCG": [GAINS, IDEALS],
    "nDCG": [GAINS, ["", "negative=keep"], IDEALS],
    "AP": [LEVELS, ["", *(f"denominator={of}" for of in ("R", "found", "k", "min"))]],
    **{name: [LEVELS, SIZES] for name in ("P", "F1", "microP", "microF1")},
    **{name: [LEVELS] for name in ("R", "microR", "Success", "RR", "ARHR", "AllRel")},
    **{name: [LEVELS] for name in ("Rprec", "SetAP", "Bpref")},
    "ERR": [["", *SCALES], ["", "p=1", *PATIENCE]],
    "RBP": [PATIENCE, LEVELS, ["", *SCALES]],
    "Judged": [[""]],
}
CUTOFFS = ["", "@1", "@2", "@5", "@10", "@15", "@16", "@20", "@21", "@30", "@31", "@50", "@51"]
CUTOFFS += ["@90", "@120"]


def draw_metric(r, name, cutoffs=CUTOFFS):
    """The metric with some of its options, at a cutoff or none."""
    options = ", ".join(filter(None, map(r.choice, FORMS[name])))
    return f"{name}({options})" + (r.choice(cutoffs) if RECORDS[name].has_cutoff else "")


GAINED = {
    "exp2": lambda rel, threshold: definitions.exp2_gain(rel),
    "binary": lambda rel, threshold: None if rel is None else float(rel >= threshold),
    "linear": lambda rel, threshold: rel,
}


def define(metric, rows, rules):
    """The value of a ranking by the definition of the metric. rules: conventions by name."""
    value = getattr(definitions, metric.record.function.removeprefix("micro_"))
    gain, threshold = GAINED[metric.gain(rules)], metric.threshold(rules)
    return value([(gain(rel, threshold), pos) for rel, pos in rows], **metric.arguments(rules))


CONVENTIONS = [
    *({"conventions": profile} for profile in PROFILES),
    *({"gain": gain} for gain in ("exp2", "binary", {0: 0, 1: 1, 2: 5, 3: 7})),
    *({"threshold": threshold, "gain": "binary"} for threshold in (0.5, 2, 4)),
    *({"undefined": "drop", "threshold": threshold} for threshold in (0, 1, 1.5, 4)),
    *({"undefined": undefined} for undefined in ("zero", "error")),
    *({"negative": negative} for negative in ("keep", "unjudged", "error")),
    *({"ties": ties} for ties in ("order", "best", "worst", "expected")),
    *({"missing": missing} for missing in ("skip", "error")),
    *({"precision_denominator": of} for of in ("retrieved", "min")),
    *({"ap_denominator": of} for of in ("R", "found", "k")),
    {"unjudged": "remove"},
    {"unjudged": "remove", "ties": "worst", "undefined": "drop"},
    *({"ideal": "retrieved", "missing": missing} for missing in ("zero", "skip")),
    *({"ideal": "retrieved", "undefined": undefined} for undefined in ("zero", "drop")),
    {"discounts": [1.0, 1.5, *range(2, 2000)]},
    {"max_rel": 6},
    {"float32": True},
]
