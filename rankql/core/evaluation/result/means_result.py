"""The base of results of an evaluation: means by slice, with what was assumed for them.

A `WideTable` has systems or slices as rows and metrics as columns, as papers have them.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from rankql.core.base import text
from rankql.core.base.column_names import squash
from rankql.core.base.errors import RankqlError, as_arguments, did_you_mean, name_arguments, require
from rankql.core.base.results import Block, Chart, TableResult, draw_chart, drop_idle_columns
from rankql.core.evaluation.means import means
from rankql.core.evaluation.means.means import COUNTED, SKEWED, attribute_columns
from rankql.core.evaluation.plan.meta import MEAN_OF_SLICES, Meta
from rankql.core.evaluation.query.readable import describe_together
from rankql.core.evaluation.query.script import Script
from rankql.core.metrics import parse
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import quote
from rankql.core.stats.means import ROUNDING
from rankql.core.tables.frames import register_frame
from rankql.core.tables.private import private_connection
from rankql.core.tables.tables import UNREAD, describe_roles

# Means have four decimals. Metrics with values from 100 on, such as revenue, have two.
DECIMALS, FEW_DECIMALS, LARGE = 4, 2, 100
# The mean over collections, in which each counts once, and what a system has of one that it lacks.
MACRO, _NOTHING, _ALONE = "mean of collections", {"mean": None, "queries": 0}, (None, 0)
# The columns of what a system alone has, if it has queries that another one lacks.
OWN_HEADS = ("own mean", "own queries")
# Rows and columns of a table of metrics and systems, and whether systems are the columns.
TURNED = {(None, None): False, ("system", "metric"): False, ("metric", "system"): True}


@dataclass(eq=False, repr=False)
class MeansResult(TableResult):
    """Means by system and slice. Subclasses hold the values per query, or what is left of them."""

    meta: Meta
    # Its text, or what writes it.
    _script: Script | str = ""
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    # Notes on the data and on how it was read.
    data_notes: list[str] = field(default_factory=list)
    interval: str | None = "auto"
    confidence: float = 0.95
    # The values under the labels of a judge, which corrects the means.
    judge: Self | None = None
    # Is the summary displayed, even of several systems?
    _long = False
    _details = ("conventions", "columns", "meta.weight?")

    if TYPE_CHECKING:

        @property
        def means(self) -> pl.DataFrame:
            """The summary, with the columns `SKEWED`, `COUNTED` and maybe `ERROR`."""

        def frame(self) -> pl.DataFrame:
            """The values per query with the other columns that the means need."""

        def weight_sums(self) -> dict[str, Any]:
            """Sums of the weights of the queries."""

        def without_judge(self) -> MeansResult:
            """The result of the human labels alone."""

    @property
    def sql(self) -> str:
        """The query that gives the values, '' if there is none."""
        return self._script if isinstance(self._script, str) else self._script.sql

    @property
    def summary(self) -> pl.DataFrame:
        """The means by system and slice, with their intervals and the number of queries."""
        return self.means.drop(SKEWED, means.ERROR, COUNTED, strict=False)

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
        higher = self.meta.higher_is_better.get(metric)
        return parse.lower_is_better(metric) if higher is None else not higher

    def higher_is_better(self, metric: str) -> bool | None:
        """Is a higher value better? None if neither a higher nor a lower one is."""
        named = self.meta.higher_is_better
        neither = named[metric] is None if metric in named else parse.lacks_direction(metric)
        return None if neither else not self.lower_is_better(metric)

    @property
    def keys(self) -> list[str]:
        """The columns that identify a row of `per_query`."""
        return [*means.system_columns(self.meta), self.meta.query]

    @property
    def systems(self) -> list[str]:
        """The systems in the order of the caller; none if the result has no column for them."""
        if not self.meta.system:
            return []
        names = self.summary["system"].unique(maintain_order=True).to_list()
        known = [name for name in self.meta.systems if name in names]
        return [*known, *(name for name in names if name not in known)]

    @property
    def best_first(self) -> list[str]:
        """The systems by their means of the first metric, those of equal means by name."""
        if not self.meta.system:
            return []
        metric = self.metrics[0]
        rows = self.summary.filter(slice="all", metric=metric).drop_nulls("mean")
        means = dict(rows["system", "mean"].rows())
        sign = 1 if self.lower_is_better(metric) else -1
        return sorted(self.systems, key=lambda x: (sign * means.get(x, sign * math.inf), x))

    @property
    def _is_wide(self) -> bool:
        """Without intervals. What a judge corrects has no other home of its intervals."""
        several = self.meta.system and self.summary["system"].n_unique() > 1
        return bool(several or self.meta.collections) and not self._long and self.judge is None

    def _view(self) -> WideTable | None:
        return self.wide() if self._is_wide else None

    @property
    def table(self) -> pl.DataFrame:
        """What is displayed: of several systems their means, otherwise the summary."""
        view = self._view()
        return self.summary if view is None else view.table

    @property
    def data(self) -> pl.DataFrame:
        """The summary."""
        return self.summary

    def long(self) -> Self:
        """The same result, displayed with a row per system, metric and slice, with intervals."""
        result = copy.copy(self)
        result._long = True
        return result

    def __getitem__(self, metric: str) -> float | None:
        name, *others = parse.resolve_names(metric, self.metrics, self.conventions)
        if others or name not in self.metrics:
            raise RankqlError(f"{metric!r} was not evaluated{did_you_mean(metric, self.metrics)}")
        if self.meta.system:
            raise RankqlError("The result has several systems. Read their means in .summary")
        means = self.summary.filter(pl.col("metric") == name, pl.col("slice") == "all")
        return None if means.is_empty() else means["mean"][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        if self._is_wide or not self.summary["lo"].count():
            return "Means by metric"
        return f"Means by metric with {text.format_percent(self.confidence)} confidence intervals"

    def wide(
        self,
        rows: str | None = None,
        columns: str | Sequence[str] | None = None,
        n: bool = False,
        margins: bool = False,
    ) -> WideTable:
        """The means with systems or slices as rows and metrics as columns, as papers have them.

        Slices of several systems have a column for each system. Of slices by two attributes, the
        values of `rows` are rows and those of `columns` columns; with `n`, the number of queries of
        each mean is right of it, and with `margins` there are the slices by each attribute alone
        and all queries too, as "all". With rows="system" and columns=["collection", "metric"], each
        value of the attribute has a column for each metric, as in the table of a paper, which
        several collections have by default, with their mean and that over all queries.
        """
        notes = [text.join_queries(self._count_parts()), *self.data_notes]
        if rows not in (None, "system") and len(self.metrics) == 1 and isinstance(columns, list):
            columns = next((name for name in columns if name != "metric"), None)
        if across := find_across(self, rows, columns):
            return make_wide_table(
                self, self.systems, False, across=across, notes=notes, source=self
            )
        turned = TURNED.get((rows, str(columns) if columns else None))
        if turned is not None and (not turned or len(self.systems) > 1):
            for name, value in {"n": n, "margins": margins}.items():
                needs = f"{name}= needs slices by two attributes. Pass rows= and columns="
                require(not value, needs)
            return make_wide_table(self, self.systems, turned, notes=notes, source=self)
        group = next((x for x in self.meta.groupings if x[1:] and {*x} == {rows, columns}), None)
        if group is None:
            raise _refuse_wide(self, rows, columns)
        groupings = [group, *([[name] for name in group] if margins else [])]
        left_out = [MEAN_OF_SLICES, *["all"] * (not margins)]
        summary = self._slices(groupings).filter(~pl.col("slice").is_in(left_out))
        table = make_cross_table(summary, groupings, n, str(rows), str(columns))
        return replace(table, notes=notes, source=self, input_paths=self.input_paths)

    def _slices(self, groupings: list[list[str]]) -> pl.DataFrame:
        """The means with only the slices by these attributes."""
        if self.meta.groupings != groupings:
            by = groupings if len(groupings) > 1 else groupings[0]
            raise RankqlError(f"wide needs a result with by={by} alone. Evaluate again")
        return self.means

    def displayed(self) -> list[pl.DataFrame]:
        """The means of several systems, or the summary without attributes: slices name them."""
        if self._is_wide:
            return super().displayed()
        attributes = attribute_columns(self.meta.by)
        return [drop_idle_columns(self.summary, [*attributes.values()])]

    @property
    def notes(self) -> list[str]:
        """What to know about the numbers: notes on the data, and on the means."""
        of_means = [*self._skewed(), *self._missing_means()]
        of_means += [*self._missing_interval(), *self._uncorrected()]
        return [*dict.fromkeys([*self.data_notes, *map(text.Note, of_means)])]

    def _assumptions(self) -> list[text.Note]:
        """The conventions, the columns and the weights."""
        tables: dict[str, list[str]] = {}
        for label, roles in self.columns.items():
            if used := describe_roles(roles):
                tables.setdefault(", ".join(used), []).append(label)
        named = [f"{text.join_words(labels)}: {x}" for x, labels in tables.items()] or ["as named"]
        others = [f"{name} = {x}" for name, x in self.meta.canonical.items()
                  if name in self.metrics and squash(name) != squash(x)]  # fmt: skip
        rules, skipped = str(Conventions(**self.conventions)), "missing=skip"
        silent = [x for x in self.metrics if parse.record_of(x).if_silent is not None]
        if silent:  # they measure whether nothing is shown, so missing queries count
            rules = rules.replace(skipped, f"{skipped} (not {text.join_words(silent)})")
        used_rules = "; ".join([rules, *others])
        unread = {label: roles[UNREAD] for label, roles in self.columns.items() if UNREAD in roles}
        ends = [text.list_names(names.split(", ")) for names in unread.values()]
        if len(unread) > 1:
            ends = [f"{names} ({label})" for names, label in zip(ends, unread, strict=True)]
        named += [f"not read: {', '.join(ends)}"] if ends else []
        notes = [text.Note(used_rules, heading="Conventions")]
        notes += [text.Note("; ".join(named), heading="Columns")] if self.columns else []
        notes += [self._weighting()] if self.meta.weight else []
        why = "each slice counts once, and the slices are fixed, not a sample"
        method = text.Note(f"in the {MEAN_OF_SLICES}, {why}", heading="Method")
        return notes + [method] * bool(self.meta.mean)

    def _weighting(self) -> text.Note:
        """The effective number of queries, and the number of those that do not count."""
        sums = self.weight_sums()
        queries, squares = sums["queries"], sums["squares"]
        number = sums["defined"] ** 2 / squares if squares else 0
        counts = {"of weight 0": sums["idle"], "without a value": sums["undefined"]}
        lacking = ((what, n, "does" if n == 1 else "do") for what, n in counts.items() if n)
        left_out = [f"; {text.format_queries(n)} {what} {do} not count" for what, n, do in lacking]
        return text.Note(
            f"{self.meta.weight}. {text.format_queries(queries)} "
            f"{'weighs' if queries == 1 else 'weigh'} as much as about {number:,.0f} with equal "
            f"weights (n_eff){''.join(left_out)}",
            heading="Weights",
        )

    def _count_queries(self) -> list[text.Note]:
        """The numbers of queries that a table of several systems lacks."""
        return self._count_parts() if self._is_wide else []

    def _count_parts(self) -> list[text.Note]:
        """The number of queries, and how many are missing or undefined."""
        rows = self.summary.filter(slice="all")
        ends = dict.fromkeys(f"{n:,}" for n in rows["queries"].sort()[[0, -1]])
        parts = [text.Note(" to ".join(ends), share=0)]
        # The same numbers of all metrics, or else of all systems, are said once.
        names = [pl.col("metric")]
        if self.meta.system:
            names = [pl.col("system"), *names, pl.format("{} of {}", "metric", "system")]
        for column in ("missing", "undefined"):
            tables = (rows.select(name, column, "queries").unique(maintain_order=True)
                      for name in names)  # fmt: skip
            table = next(table for table in tables if table.to_series().is_unique().all())
            parts += text.note_shares(table.rows(), column)
        return parts

    def _skewed(self) -> list[str]:
        """Which intervals may be too narrow, because there are few queries for such values."""
        rows = self.means.filter(SKEWED)
        names, slices = (rows[x].unique(maintain_order=True).to_list() for x in ("metric", "slice"))
        listed = slices[:3] + [f"{len(slices) - 3} more slices"] * (len(slices) > 3)
        where = "" if "all" in slices else f" in {'; '.join(listed)}"
        why = "for values this skewed, so the interval of the mean may be too narrow"
        return [f"{text.join_words(names)}: few queries{where} {why}"] if names else []

    def _missing_means(self) -> list[str]:
        """Which metrics have no value at all, although others may have some."""
        rows = self.summary.group_by("metric", maintain_order=True).agg(pl.col("mean").count())
        names = rows.filter(mean=0)["metric"].to_list()
        known = names and self.summary["queries"].max()
        return [f"{text.join_words(names)}: no query has a value"] if known else []

    def _missing_interval(self) -> list[str]:
        """Why no mean has an interval, or which ones cannot have one."""
        notes, names, others = [], self.catalogue_metrics, self.overall_metrics
        if names:
            why = "A query has no value of its own, so there is no confidence interval"
            notes = [f"{describe_together(names)}. {why}"]
        known = self.summary.filter(pl.col("mean").is_not_null() & ~pl.col("metric").is_in(others))
        if self.interval is None or known.is_empty() or known["lo"].count():
            return notes
        # If a metric has both bounds, equal values have an interval too.
        unbounded = all(None in parse.value_range(metric) for metric in known["metric"])
        different = " with different values" if unbounded and self.interval != "t" else ""
        least = f"at least 2 {'clusters' if self.meta.cluster else 'queries'}{different}"
        return [*notes, f"There is no confidence interval: it needs {least}"]

    def _uncorrected(self) -> list[str]:
        """Which slices a judge does not correct, and how many means."""
        if "lambda" not in self.summary.columns:
            return []
        small = self.summary.filter(pl.col("lambda").is_null() & pl.col("mean").is_not_null())
        parts = small["slice"].unique(maintain_order=True).to_list()
        few = "Too few human queries or clusters, so the judge does not correct the means of"
        notes = [f"{few} {'; '.join(parts)}"] if parts else []
        return notes + means.describe_uncorrected(self.summary["lambda"])

    @name_arguments
    def plot(self, metric: str | None = None) -> Chart:
        """An altair chart of the means, of one metric or of all: .save("means.html") writes it."""
        return draw_chart("plot_means", self, metric)


@dataclass(eq=False, repr=False)
class WideTable(TableResult):
    """Means with systems or slices as rows and metrics as columns.

    `table` has the means. The best system of each slice is bold in Markdown, HTML and LaTeX. If
    systems were compared, marks behind the means say which differ significantly.
    """

    table: pl.DataFrame
    # The columns of means: is higher better?
    higher_is_better: Mapping[str, bool | None]
    # The columns of marks, by column of means.
    marks: Mapping[str, str] = field(default_factory=dict)
    # The columns with the numbers of queries, by column of means.
    counts: Mapping[str, str] = field(default_factory=dict)
    # The columns whose values have a block of rows each.
    parts: Sequence[str] = ()
    # With a column for each system: whether higher is better, by metric.
    directions: Mapping[str, bool | None] = field(default_factory=dict)
    # The two lines of the head of a column, of a table by an attribute and metric.
    heads: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    method: str = ""
    notes: list[str] = field(default_factory=list)
    input_paths: Sequence[str] = ()
    caption: str = "Means"
    # The result that it shows.
    source: TableResult | None = None

    def manifest(self) -> dict[str, Any] | None:
        """What the means were computed from."""
        return None if self.source is None else self.source.manifest()

    def _rendered(self) -> list[Block]:
        """A block for each part, such as a metric."""
        means = [*self.higher_is_better]
        cells = {name: self._cells(name) for name in means}
        others = [*means, *self.marks.values(), *self.counts.values(), *self.parts]
        keys = [name for name in self.table.columns if name not in others]
        header = ["" if name == "letter" else name for name in keys]
        for name in means:
            count = OWN_HEADS[1] if name.endswith(OWN_HEADS[0]) else "n"
            header += [text.Name(name), *[count] * (name in self.counts)]
        blocks: dict[tuple[Any, ...], list[list[str]]] = {}
        for i, row in enumerate(self.table.to_dicts()):
            line = [f"{row[x]:,}" if x == "queries" else text.Name(row[x]) for x in keys]
            for name in means:
                line.append(cells[name][i])
                line += [f"{row[self.counts[name]] or 0:,}"] if name in self.counts else []
            blocks.setdefault(tuple(row[x] for x in self.parts), [header]).append(line)
        right = range(len(keys) - ("queries" in keys), len(header))
        return [Block(x, right, ", ".join(part), True, self.heads) for part, x in blocks.items()]

    def _cells(self, column: str) -> list[text.Cell]:
        """The means of a column with their marks, the best of each slice in bold."""
        means, best = self.table[column], self._find_best(column)
        marks = self.table[self.marks[column]] if column in self.marks else [""] * len(means)
        decimals = FEW_DECIMALS if (means.abs() >= LARGE).any() else DECIMALS
        texts = ["" if mean is None else text.format_decimal(mean, decimals) for mean in means]
        return [text.Cell(x, marks[i], i in best) for i, x in enumerate(texts)]

    def _find_best(self, column: str) -> set[int]:
        """The rows where this system has the best mean; equal values have no best one."""
        table, names = self.table, [*self.higher_is_better]
        if self.higher_is_better[column] is None:
            return set()
        if self.directions:
            names = [name for name in names if self.higher_is_better[name] is not None]
            signs = {metric: 0 if x is None else 2 * x - 1 for metric, x in self.directions.items()}
            sign = pl.col("metric").replace_strict(signs)
            others = [sign * pl.col(name) for name in names if name != column]
            best = sign * pl.col(column) > pl.max_horizontal(others) + ROUNDING
            return {*table.select(best.fill_null(False)).to_series().arg_true()}
        higher = self.higher_is_better[column]
        if "system" not in table.columns or "system" in self.parts:
            return set()
        value = pl.col(column) if higher else -pl.col(column)
        is_best = (value.count() > 1) & (value >= value.max() - ROUNDING)
        return {*table.select(is_best & (is_best.sum() == 1)).to_series().arg_true()}


def find_across(
    result: MeansResult, rows: str | None, columns: str | Sequence[str] | None
) -> list[str]:
    """The attribute and "metric", in the order of the heads; [] if no list of columns is given.

    Without rows and columns, several collections have a column for each collection and metric.
    """
    if result.meta.collections and rows is None and columns is None:
        return ["collection", "metric"]
    if columns is None or isinstance(columns, str):
        return []
    by = [name for name in columns if name != "metric"]
    one = len(columns) == 2 and len(by) == 1 and by in result.meta.groupings
    if rows != "system" or not one or not (result.meta.collections or len(result.systems) > 1):
        raise _refuse_wide(result, rows, columns)
    return [*columns]


def _refuse_wide(result: MeansResult, rows: str | None, columns: object) -> RankqlError:
    """The error about a table that wide cannot make, with the calls that work."""
    groups, offers = result.meta.groupings, list[str]()
    calls: list[Any] = [{"rows": x[0], "columns": x[1]} for x in groups if len(x) == 2]
    if len(result.systems) > 1:
        calls += [{"rows": "system", "columns": [*x, "metric"]} for x in groups if not x[1:]]
    for call in calls:
        with suppress(RankqlError):
            result.wide(**call)
            offers.append(as_arguments(call))
    other, message = "Leave out both", f"wide has no rows={rows!r} with columns={columns!r}"
    return RankqlError(f"{message}. {'Pass ' * bool(offers)}{' or '.join(offers) or other}")


def make_wide_table(
    result: MeansResult,
    systems: Sequence[str],
    turned: bool,
    marks: Mapping[tuple[str, str, str], str] | None = None,
    letters: Mapping[str, str] | None = None,
    across: Sequence[str] = (),
    own: Mapping[tuple[str, str, str], tuple[float | None, int]] | None = None,
    **fields: Any,
) -> WideTable:
    """Turn a summary around: one row per slice or system, one column per metric.

    Of slices of several systems, or `turned`, one row per metric and slice, one column per system.
    Marks are by metric, slice and system. With `across`, one row per system and one column per
    value of an attribute and metric. `own` is the own mean of each system with its own queries, by
    metric, slice and system.
    """
    summary, by_system = result.summary, False
    higher_is_better = {name: result.higher_is_better(name) for name in result.metrics}
    directions = [*higher_is_better.values()]
    means = {(x["slice"], x.get("system"), x["metric"]): x for x in summary.to_dicts()}
    slices = [*dict.fromkeys(part for part, *_ in means)]
    several, sliced, labels = "system" in summary.columns, len(slices) > 1, {}
    rows: list[tuple[list[Any], list[tuple[Any, Any, str]]]] = []
    if across:
        by = next(name for name in across if name != "metric")
        labels = _label_slices(summary, [[by]])
        parts = {x: y[by] for x, y in labels.items() if x in (*across[2:], f"{by}={y[by]}")}
        if result.meta.collections:
            named = dict.fromkeys(itertools.chain(*result.meta.collections.values()))
            parts = {f"{by}={x}": x for x in named} | {MEAN_OF_SLICES: MACRO, "all": "all queries"}
        order = [(part, metric) for part in parts for metric in higher_is_better]
        if across[0] == "metric":
            order = [(part, metric) for metric in higher_is_better for part in parts]
        keys = [*["letter"] * bool(letters), "system"]
        pairs = [(parts[x], y) if across[0] == by else (y, parts[x]) for x, y in order]
        names = [*map(" ".join, pairs)]
        fields["heads"] = dict(zip(names, pairs, strict=True))
        directions = [higher_is_better[metric] for _, metric in order]
        for name in systems:
            rows.append(([*[(letters or {}).get(name)] * bool(letters), name],
                         [(part, name, metric) for part, metric in order]))  # fmt: skip
    elif by_system := len(systems) > 1 and (turned or sliced):
        labels = _label_slices(summary, result.meta.groupings)
        keys = ["metric", *attribute_columns([*labels["all"]]).values(), "queries"]
        names = [f"{letters[name]} {name}" if letters else name for name in systems]
        for metric, (part, values) in itertools.product(higher_is_better, labels.items()):
            rows.append(([metric, *values.values()], [(part, name, metric) for name in systems]))
    else:
        there = {"slice": sliced, "letter": several and letters, "system": several}
        keys, names = [name for name, has in there.items() if has], [*higher_is_better]
        for part, system in itertools.product(slices, systems if several else [None]):
            known = {"slice": part, "letter": (letters or {}).get(str(system)), "system": system}
            rows.append(([known[x] for x in keys], [(part, system, name) for name in names]))
        keys += ["queries"] * sliced
    heads = text.unique_names(names, keys, "system" if by_system else "metric")
    marked = text.unique_names([f"{x} marks" for x in heads], [*keys, *heads]) if marks else []
    of_own = [(f"{x} " * (len(heads) > 1) + y) for x in heads for y in OWN_HEADS] if own else []
    of_own = text.unique_names(of_own, [*keys, *heads, *marked])
    data = []
    for left, places in rows:
        of = [means.get(place, _NOTHING) for place in places]
        queries = [max(x["queries"] for x in of)] if "queries" in keys else []
        noted = [marks.get((name, part, str(x)), "") for part, x, name in places] if marks else []
        of_places = ((own or {}).get((name, part, str(x)), _ALONE) for part, x, name in places)
        alone = itertools.chain(*of_places) if own else ()
        data.append([*left, *queries, *(x["mean"] for x in of), *noted, *alone])
    kinds = (pl.Int64 if name == "queries" else pl.String for name in keys)
    types: dict[str, Any] = dict(zip(keys, kinds, strict=True)) | dict.fromkeys(heads, pl.Float64)
    types |= dict.fromkeys(marked, pl.String)
    types |= {x: pl.Int64 if i % 2 else pl.Float64 for i, x in enumerate(of_own)}
    table = pl.DataFrame(data, types, orient="row")
    marks_of = dict(zip(heads, marked, strict=False))
    counts = dict(zip(of_own[::2], of_own[1::2], strict=True))
    fields |= {"marks": marks_of, "counts": counts, "input_paths": fields["source"].input_paths}
    if by_system:
        fields |= {"parts": ["metric"] * (len(labels) > 1), "directions": higher_is_better}
        return WideTable(table, dict.fromkeys(heads, True) | dict.fromkeys(counts), **fields)
    groups = [heads, [*marks_of.values()], of_own[::2], of_own[1::2]]
    heads_in_order = itertools.chain(*zip(*filter(None, groups), strict=True))
    table = table.select(*keys, *heads_in_order)
    named = dict(zip(heads, directions, strict=True))
    better = {x: named.get(x) for x in table.columns if x in named or x in counts}
    return WideTable(table, better, **fields)


def _label_slices(
    summary: pl.DataFrame, groupings: Sequence[Sequence[str]]
) -> dict[str, dict[str, str]]:
    """The values of the attributes of each slice, as text; "all" of those that it is not by.

    If a value is called so, it is "(all)".
    """
    columns = attribute_columns([*dict.fromkeys(itertools.chain(*groupings))])
    with private_connection(threads=1) as con:
        register_frame(con, "means", summary)
        values = ", ".join(means.value_label(quote(x)) for x in columns.values())
        rows = con.sql(f"SELECT slice, {values} FROM means").fetchall()
    labels = dict[str, dict[str, str]]()
    every = "(all)" if any("all" in texts for _, *texts in rows) else "all"
    for part, *texts in rows:
        known = dict(zip(columns, texts, strict=True))
        by = next((g for g in groupings if ", ".join(f"{x}={known[x]}" for x in g) == part), [])
        labels[part] = {name: known[name] if name in by else every for name in columns}
    if MEAN_OF_SLICES in labels:
        labels[MEAN_OF_SLICES] = dict.fromkeys(columns, "") | {next(iter(columns)): MEAN_OF_SLICES}
    return labels


def make_cross_table(
    summary: pl.DataFrame, groupings: Sequence[Sequence[str]], n: bool, rows: str, columns: str
) -> WideTable:
    """Slices by two attributes: the values of one as rows, of the other as columns."""
    parts = [x for x in ("metric", "system") if x in summary.columns and summary[x].n_unique() > 1]
    labels, named = _label_slices(summary, groupings), attribute_columns(groupings[0])
    texts = summary.select(
        *parts, "mean", COUNTED,
        *(pl.Series(named[x], [labels[y][x] for y in summary["slice"]]) for x in (rows, columns)),
    )  # fmt: skip
    rows, columns = named[rows], named[columns]
    keys = [*parts, rows]
    values = texts[columns].unique(maintain_order=True)
    names = dict(zip(values, text.unique_names([*values], keys), strict=True))
    texts = texts.with_columns(pl.col(columns).replace_strict(names))
    table, numbers = (texts.pivot(columns, index=keys, values=value) for value in ("mean", COUNTED))
    counts = {}
    if n:
        free = text.unique_names([f"{name} n" for name in names.values()], table.columns)
        counts = dict(zip(names.values(), free, strict=True))
        table = table.join(numbers.rename(counts), on=keys, maintain_order="left")
        table = table.select(*keys, *(x for pair in counts.items() for x in pair))
    return WideTable(table, dict.fromkeys(names.values(), True), {}, counts, parts)
