"""The base of results of an evaluation: means by slice, with what was assumed for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.means import ERROR, SKEWED, Meta, attribute_column, system_columns
from rankql.evaluation.readable import describe_together
from rankql.evaluation.result_checks import describe_weights
from rankql.registry.column_names import squash
from rankql.registry.conventions import Conventions
from rankql.registry.parse import lower_is_better, reason_undefined, resolve_names, value_range
from rankql.results import Rendered, TableResult, draw_chart, drop_idle_columns
from rankql.stats.means import ROUNDING
from rankql.text import Strong, format_decimal, format_interval, format_percent, join_words

if TYPE_CHECKING:
    import altair as alt


@dataclass(eq=False, repr=False)
class MeansResult(TableResult):
    """Means by system and slice. Subclasses hold the values per query, or what is left of them."""

    meta: Meta
    sql: str = ""
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    interval: str | None = "auto"
    confidence: float = 0.95
    # The table has the same numbers.
    _prints_title = False

    if TYPE_CHECKING:

        @property
        def means(self) -> pl.DataFrame:
            """The summary, with the columns `SKEWED` and maybe `ERROR`."""

        def frame(self) -> pl.DataFrame:
            """The values per query with the other columns that the means need."""

        def weight_sums(self) -> dict[str, Any]:
            """Sums of the weights of the queries."""

    @property
    def summary(self) -> pl.DataFrame:
        """The means by system and slice, with their intervals and the number of queries."""
        return self.means.drop(SKEWED, ERROR, strict=False)

    @property
    def metrics(self) -> list[str]:
        """The metrics, by the names that they were asked for by."""
        return list(self.meta.metrics)

    @property
    def catalogue_metrics(self) -> list[str]:
        """The metrics of the complete catalogue, which have no values per query."""
        return [name for name in self.metrics if name in self.meta.catalogue]

    @property
    def overall_metrics(self) -> list[str]:
        """The metrics with one value for all queries: of the catalogue, and micro averages."""
        return [*self.catalogue_metrics, *self.meta.metric_weights]

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions."""
        return dict(self.meta.conventions)

    def lower_is_better(self, metric: str) -> bool:
        """Is a lower value better? By definition, or by higher_is_better=."""
        directions: dict[str, bool] = self.meta.higher_is_better
        return not directions[metric] if metric in directions else lower_is_better(metric)

    @property
    def keys(self) -> list[str]:
        """The columns that identify a row of `per_query`."""
        return [*system_columns(self.meta), self.meta.query]

    @property
    def table(self) -> pl.DataFrame:
        """The summary."""
        return self.summary

    def __getitem__(self, metric: str) -> float | None:
        name, *others = resolve_names(metric, self.metrics, self.conventions)
        if others or name not in self.metrics:
            raise RankqlError(f"{metric!r} was not evaluated{did_you_mean(metric, self.metrics)}")
        if self.meta.system:
            raise RankqlError("The result has several systems. Read their means in .summary")
        means = self.summary.filter(pl.col("metric") == name, pl.col("slice") == "all")
        return None if means.is_empty() else means["mean"][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    @property
    def title(self) -> str:
        """The means over all queries, of several systems which has the best ones."""
        means = self.summary.filter(pl.col("slice") == "all").drop_nulls("mean")
        if not self.meta.system:
            rows = means["metric", "mean", "lo", "hi"].rows()
            return ", ".join(f"{name} {format_interval(bounds)}" for name, *bounds in rows)
        best: dict[str, list[str]] = {}
        for metric, systems in means.group_by("metric", maintain_order=True):
            worst_first = systems.sort("mean", descending=self.lower_is_better(str(metric[0])))
            best.setdefault(worst_first["system"][-1], []).append(str(metric[0]))
        leads = [f"best {join_words(names)}: {system}" for system, names in best.items()]
        return f"{'; '.join(leads)} (not tested)" if leads else ""

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        level = (
            ""
            if self.interval is None
            else f" with {format_percent(self.confidence)} confidence intervals"
        )
        return f"Means by metric{level}"

    def wide(self) -> WideTable:
        """The means with systems or slices as rows and metrics as columns, as papers have them."""
        higher = {name: not self.lower_is_better(name) for name in self.metrics}
        return make_wide_table(self.summary, higher, notes=self.notes, input_paths=self.input_paths)

    def displayed(self) -> list[pl.DataFrame]:
        """The summary without attributes, because slices name them."""
        attributes = [attribute_column(name) for name in self.meta.by]
        return [drop_idle_columns(self.summary, attributes)]

    def remarks(self) -> list[str]:
        """The lines below the table: conventions, columns, notes."""
        tables: dict[str, list[str]] = {}
        for label, roles in self.columns.items():
            named = {
                role: f"({x})" if ", " in x and "(" not in x else x for role, x in roles.items()
            }
            used = ", ".join(f"{role} = {column}" for role, column in named.items())
            tables.setdefault(used, []).append(label)
        used = "; ".join(f"{join_words(labels)}: {used}" for used, labels in tables.items())
        others = [f"{name} = {x}" for name, x in self.meta.canonical.items()
                  if name in self.metrics and squash(name) != squash(x)]  # fmt: skip
        conventions = "; ".join([f"Conventions: {Conventions(**self.conventions)}", *others])
        columns = [f"Columns: {used}"] if used else []
        weighting = []
        if self.meta.weight:
            weighting = [describe_weights(self.meta, self.weight_sums())]
        missing = [*self._missing_means(), *self._missing_interval(), *self._uncorrected()]
        skewed = [f"Note: {note}" for note in self._skewed()]
        return [conventions, *columns, *weighting, *super().remarks(), *skewed, *missing]

    def to_dict(self) -> dict[str, Any]:
        """The table with its metadata and notes, as plain values."""
        return super().to_dict() | {"notes": [*self.notes, *self._skewed()]}

    def _skewed(self) -> Iterator[str]:
        """Which intervals may be too narrow, because there are few queries for such values."""
        rows = self.means.filter(SKEWED)
        everywhere = rows.filter(slice="all")["metric"].unique(maintain_order=True)
        others = rows.filter(~pl.col("metric").is_in(everywhere.implode()))
        for part in (rows.filter(slice="all"), others):
            names, slices = (
                part[x].unique(maintain_order=True).to_list() for x in ("metric", "slice")
            )
            if names:
                listed = slices[:3] + [f"{len(slices) - 3} more slices"] * (len(slices) > 3)
                where = "" if slices == ["all"] else f" in {join_words(listed)}"
                yield (
                    f"{join_words(names)}: few queries{where} for values this skewed, so the "
                    "interval of the mean may be too narrow"
                )

    def _missing_means(self) -> list[str]:
        """Which metrics have no value at all, although others may have some."""
        rows = self.summary.group_by("metric", maintain_order=True).agg(pl.col("mean").count())
        names = rows.filter(mean=0)["metric"].to_list()
        if not names or not self.summary["queries"].max():
            return []
        shown = any(name in self.catalogue_metrics for name in names)
        hint = "Is any item shown, with its columns?" if shown else "Is any item relevant?"
        hints: dict[str, list[str]] = {}
        for name in names:
            reason = reason_undefined(name)
            hints.setdefault(f"In each, {reason}" if reason else hint, []).append(name)
        return [f"Note: {join_words(x)}: no query has a value. {why}" for why, x in hints.items()]

    def _missing_interval(self) -> list[str]:
        """Why no mean has an interval, or which ones cannot have one."""
        notes, names, others = [], self.catalogue_metrics, self.overall_metrics
        if names:
            together = describe_together(names)
            why = "A query has no value of its own, so there is no confidence interval"
            notes = [f"Note: {together}. {why}"]
        known = self.summary.filter(pl.col("mean").is_not_null() & ~pl.col("metric").is_in(others))
        if self.interval is None or known.is_empty() or known["lo"].count():
            return notes
        # If a metric has both bounds, equal values have an interval too.
        unbounded = all(None in value_range(metric) for metric in known["metric"])
        different = " with different values" if unbounded and self.interval != "t" else ""
        least = f"at least 2 {'clusters' if self.meta.cluster else 'queries'}{different}"
        return [*notes, f"Note: There is no confidence interval: it needs {least}"]

    def _uncorrected(self) -> list[str]:
        """Which slices a judge does not correct."""
        if "lambda" not in self.summary.columns:
            return []
        small = self.summary.filter(pl.col("lambda").is_null() & pl.col("mean").is_not_null())
        parts = small["slice"].unique(maintain_order=True).to_list()
        few = "Note: Few human queries, so the judge does not correct the means of"
        return [f"{few} {join_words(parts)}"] if parts else []

    def _details(self) -> dict[str, Any]:
        weight = {"weight": self.meta.weight} if self.meta.weight else {}
        return {"conventions": self.conventions, "columns": self.columns, **weight}

    def plot(self, metric: str | None = None) -> alt.TopLevelMixin:
        """An altair chart of the means with intervals, of one metric or of all.

        "precision-recall" draws `IPrec` by recall, a line for each system.
        """
        return draw_chart("charts", "plot_means", self, metric)


MARKS = {"better": "†", "worse": "‡"}
# Means with larger values have two decimals: DCG, revenue.
DECIMALS, FEW_DECIMALS, LARGE = 4, 2, 10


@dataclass(eq=False, repr=False)
class WideTable(TableResult):
    """Means with systems or slices as rows and metrics as columns.

    `table` has the means. The best system of each slice is bold in Markdown, HTML and LaTeX; a mark
    says which systems differ significantly from the baseline.
    """

    table: pl.DataFrame
    metrics: list[str]
    higher_is_better: Mapping[str, bool]
    verdicts: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    input_paths: Sequence[str] = ()
    caption: str = "Means"

    def _rendered(self) -> list[Rendered]:
        """The header and the rows as text, numbers aligned right."""
        best = {metric: self._find_best(metric) for metric in self.metrics}
        decimals = {
            metric: FEW_DECIMALS
            if any(abs(mean) >= LARGE for mean in self.table[metric].drop_nulls())
            else DECIMALS
            for metric in self.metrics
        }
        keys = [name for name in self.table.columns if name not in self.metrics]
        body = []
        for i, row in enumerate(self.table.to_dicts()):
            place = (row.get("system") or "", row.get("slice", "all"))
            cells = []
            for metric in self.metrics:
                mark = MARKS.get(self.verdicts.get((metric, *place), ""), "")
                value = row[metric]
                cell = "" if value is None else f"{format_decimal(value, decimals[metric])}{mark}"
                cells.append(Strong(cell) if i in best[metric] else cell)
            named = [f"{row[key]:,}" if key == "queries" else str(row[key]) for key in keys]
            body.append([*named, *cells])
        first = sum(name != "queries" for name in keys)
        right = range(first, len(self.table.columns))
        return [Rendered([[*keys, *self.metrics], *body], right)]

    def _find_best(self, metric: str) -> set[int]:
        """The rows with the best mean of their slice, if it has several systems."""
        if "system" not in self.table.columns:
            return set()
        part = "slice" if "slice" in self.table.columns else pl.lit("all")
        value = pl.col(metric) if self.higher_is_better[metric] else -pl.col(metric)
        is_best = (value.count() > 1) & (value >= value.max() - ROUNDING)
        return {*self.table.select(is_best.over(part)).to_series().arg_true()}


def make_wide_table(
    summary: pl.DataFrame, higher_is_better: Mapping[str, bool], **fields: Any
) -> WideTable:
    """Turn a summary around: one row per slice and system, one column per metric."""
    for name in ("slice", "system", "queries"):
        if name in higher_is_better:
            raise RankqlError(f"wide has a column {name!r}, as the metric. Rename the metric")
    keys = [name for name in ("slice", "system") if name in summary.columns]
    means = summary.select(*keys, "metric", "mean").pivot(
        "metric", index=keys, values="mean", maintain_order=True
    )
    slices = summary["slice"].unique(maintain_order=True)
    if len(slices) == 1:
        means = means.drop("slice")
    else:
        counts = summary.group_by(keys).agg(pl.col("queries").max())
        order = pl.col("slice").cast(pl.Enum(slices))
        means = means.join(counts, on=keys, maintain_order="left").sort(order, maintain_order=True)
    first = [name for name in (*keys, "queries") if name in means.columns]
    return WideTable(
        means.select(*first, *higher_is_better), [*higher_is_better], higher_is_better, **fields
    )
