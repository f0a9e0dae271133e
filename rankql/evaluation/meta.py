"""What a result must know about its values, besides the values: `Meta`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


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
    # The column with the weights of each metric that is one mean over all rows.
    metric_weights: dict[str, str] = field(default_factory=dict)
    # The values of each metric that describes all rankings of a slice together, with their slices.
    catalogue: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # The directions of metrics that rankql does not know.
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    # Whether the judgments were a table of their own; None: not known.
    judgments: bool | None = None
    # The sum of the hashes of the judgments, in any order.
    fingerprint: str | None = None
    # The version of rankql.
    version: str | None = None

    def canonical_name(self, metric: str) -> str:
        """The name by which metrics match: RR for MRR."""
        return self.canonical.get(metric, metric)

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Meta:
        """Read the fields; those of later versions are left out."""
        known = {field.name for field in fields(cls)}
        values = {"metric_weights": values.get("weights", {}), **values}  # its name in older files
        return cls(**{name: value for name, value in values.items() if name in known})
