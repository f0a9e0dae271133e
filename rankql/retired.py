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
    "rankql report --stage": "Use rankql funnel.",
    **dict.fromkeys(
        ("rankql gate --github", "rankql gate --no-github"),
        "Annotations are written if GITHUB_ACTIONS=true.",
    ),
}


class RetiredName(RankqlError, AttributeError):
    """Use of a retired name. Also an AttributeError, so that hasattr() is False."""


def refuse_retired(name: str) -> None:
    """Raise an error if rankql used to have a name: what to use instead."""
    if instead := RETIRED.get(name):
        raise RetiredName(f"{name} was removed from rankql. {instead}")
