"""What a result must know about its values, `Meta`, and what queries count in a mean."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import polars as pl

from rankql.core.base.errors import RankqlError, require
from rankql.core.metrics import parse
from rankql.core.metrics.conventions import UNDEFINED_VALUES
from rankql.core.metrics.macros import MISSING


@dataclass(frozen=True)
class Meta:
    """What a result must know about its values. Files keep it as JSON."""

    # The column of the queries.
    query: str
    metrics: list[str]
    conventions: dict[str, Any]
    # Is there a column of systems?
    system: bool = False
    # The attributes of the queries, and those that slices are made of.
    by: list[str] = field(default_factory=list)
    groupings: list[list[str]] = field(default_factory=list)
    # The canonical names of the metrics that were asked for by another name.
    canonical: dict[str, str] = field(default_factory=dict)
    # The attribute by which queries are weighted.
    weight: str | None = None
    # The attribute of queries that belong together, such as a user.
    cluster: str | None = None
    # The attribute that has the times of queries, for anytime intervals; False: none, by a hash.
    time: str | bool | None = None
    # The column with the weights of each metric that is one mean over all rows.
    metric_weights: dict[str, str] = field(default_factory=dict)
    # The values of each metric that describes all rankings of a slice together, with their slices.
    catalogue: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # The directions of metrics that rankql does not know.
    higher_is_better: dict[str, bool | None] = field(default_factory=dict)
    # Whether the judgments were a table of their own; None: not known.
    judgments: bool | None = None
    # Of runs with grades of their own: those of all count, or of each alone; None: not said.
    pool: bool | None = None
    # The rows, columns and hashes of each table that was read, if they are known; those of files of
    # older versions are the grades of the judgments alone.
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    # The function that was called, its options, and the names of its tables.
    call: dict[str, Any] = field(default_factory=dict)
    # The version of rankql.
    version: str | None = None
    # The systems in the order of the caller, if it is known.
    systems: list[str] = field(default_factory=list)
    # "slices": there is a row with the mean of the slices' means.
    mean: str | None = None
    # The collections of each system, if there are several.
    collections: dict[str, list[str]] = field(default_factory=dict)
    # "count": queries of a run without judgments count.
    unjudged_queries: str | None = None
    # Are systems compared? A query that is left out of one is then left out of all.
    paired: bool = False
    # The share of shown items that the user has in train, by system, if any.
    seen: dict[str, float] = field(default_factory=dict)
    # The least and the largest value of metrics whose name does not say it.
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str | None:
        """The sum of the hashes of the judgments, or of one run's own grades, in any order."""
        if self.judgments is None or (self.system and not self.judgments):
            return None
        label = "qrels" if self.judgments else "run"
        prints = [x.get("grades") for name, x in self.tables.items() if name[: len(label)] == label]
        return prints[0] if len(prints) == 1 else None

    def lacks(self, system: str, part: str) -> bool:
        """Has a system no run of the collection of a slice, or of one of all collections?"""
        own = self.collections.get(system)
        if own is None:
            return False
        if part.startswith("collection="):
            return part.removeprefix("collection=") not in own
        return len(own) < len({*itertools.chain(*self.collections.values())})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Meta:
        """Read the fields; those of later versions are left out."""
        known = {field.name for field in fields(cls)}
        if values.get("fingerprint") is not None:  # of an older version
            values = {"tables": {"qrels": {"grades": values["fingerprint"]}}, **values}
        return cls(**{name: value for name, value in values.items() if name in known})


def describe_pool(meta: Meta) -> str:
    """The end of a verdict on runs with grades of their own: whose count, if it was said."""
    of_own = "; each run is measured by the grades of its own rows"
    return "" if meta.pool is None else "; the grades of all runs count" if meta.pool else of_own


def average_slices(meta: Meta) -> Meta:
    """The same with the mean of the slices' means. Refuses what has none."""
    require(
        len(meta.groupings) == 1,
        "mean='slices' needs slices by one grouping. Pass by= with one attribute, or with several "
        "that are crossed",
    )
    require(meta.cluster is None, "mean='slices' does not support cluster=. Leave out one of them")
    together = {*meta.catalogue, *meta.metric_weights, *filter(parse.find_shown, meta.metrics)}
    for name in [name for name in meta.metrics if name in together]:
        raise RankqlError(
            f"mean='slices' does not support {name}, which is of all rankings together or of the "
            "items shown. Leave it out"
        )
    return replace(meta, mean="slices")


NO_GRADES = "No item has a grade: there are no judgments, or every grade is NULL"
# The slice with the mean of the slices' means.
MEAN_OF_SLICES = "mean of slices"
# The queries that a mean leaves out: all that are missing, or those that are undefined too.
MISSED, BOTH = "missing", "missing and undefined"


def compared_value(name: str, meta: Meta) -> pl.Expr:
    """The value of a query that is compared; NULL if the query is left out."""
    value, other = pl.col(name), undefined_value(name, meta.conventions)
    if other is not None:
        value = value.fill_null(other)
    return pl.when(~is_left_out(name, meta)).then(value).alias(name)


def is_left_out(name: str, meta: Meta) -> pl.Expr:
    """Is a query left out as it is missing? Always, or where the metric has no worst value."""
    absent = pl.col(MISSING).any().over(meta.query) if meta.paired else pl.col(MISSING)
    both = absent & pl.col(name).is_null()
    return {MISSED: absent, BOTH: both}.get(left_out_if(name, meta.conventions), pl.lit(False))


def left_out_if(name: str, rules: Mapping[str, Any]) -> str:
    """Which queries a mean leaves out: `MISSED`, only those that are undefined too, or none.

    It is the only home of this rule, for SQL, polars and notes. What an undefined value counts does
    not matter: a missing query whose worst value is unknown must not have a good one.
    """
    silent = parse.record_of(name).if_silent
    if parse.rule(rules, "missing", name) == "skip" and silent is None:
        return MISSED
    return BOTH if parse.may_lack_worst(name, rules) else ""


def worst_value(name: str, unless: pl.Expr) -> pl.Expr:
    """The value of a missing query, which is the worst; none where values may be below it."""
    return pl.when(~unless).then(pl.lit(parse.record_of(name).worst, pl.Float64))


def undefined_value(name: str, rules: Mapping[str, Any]) -> float | None:
    """What an undefined value counts, None if it is left out, as where no higher one is better."""
    one_way = parse.lower_is_better(name) or parse.lacks_direction(name)
    return None if one_way else UNDEFINED_VALUES.get(parse.rule(rules, "undefined", name))
