"""Names that rankql used to have, and what to use instead."""

from __future__ import annotations

from rankql.errors import RankqlError

_USE_TEA_TASTING = "Use the package tea-tasting: docs/experiment.md"
# By name as the user writes it: a function, method, command, or an option with its value.
RETIRED = {
    "interval='bootstrap'": "Use interval='auto', the default.",
    "test='bootstrap'": "Use test='t', the default, or test='randomisation', which is exact for up "
    "to 20 queries.",
    **dict.fromkeys(("experiment", "plan_experiment", "Experiment"), _USE_TEA_TASTING),
    "rankql experiment": _USE_TEA_TASTING,
    "Comparison.discriminative_power": "Use agreement(), and queries_needed() for the effects.",
    "Verdict.pairs": "Use verdict.differences(metric).",
    "rankql demo --out": "Use --output.",
    "rankql report --stage": "Use rankql funnel.",
    **dict.fromkeys(
        ("rankql gate --github", "rankql gate --no-github"),
        "Annotations are written if GITHUB_ACTIONS=true.",
    ),
    **dict.fromkeys(
        ("monitor(states=)", "rankql monitor --states"),
        "Pass all days: a billion rows are computed again in seconds.",
    ),
    **dict.fromkeys(
        ("monitor(gaps=)", "rankql monitor --gaps"), "Leave it out: a note counts the days."
    ),
    **dict.fromkeys(
        ("monitor(alpha=)", "rankql monitor --alpha"),
        "Leave it out: at most 5% of years have a false alarm.",
    ),
    **dict.fromkeys(
        ("monitor(higher_is_better=)", "rankql monitor --lower-is-better"),
        "Negate the metric, such as 'speed = -avg(seconds)'.",
    ),
    **dict.fromkeys(
        ("gate(beyond_noise=)", "rankql gate --any-drop"),
        "Leave it out: intervals decide. The means alone are in the table of the verdict.",
    ),
    "rankql monitor --report": "Use --output.",
    "rankql monitor --junit": "Use the exit code, which is 1 if there is an alarm.",
}


class RetiredName(RankqlError, AttributeError):
    """Use of a retired name. Also an AttributeError, so that hasattr() is False."""


def refuse_retired(name: str) -> None:
    """Raise an error if rankql used to have a name: what to use instead."""
    if instead := RETIRED.get(name):
        raise RetiredName(f"{name} was removed from rankql. {instead}")
