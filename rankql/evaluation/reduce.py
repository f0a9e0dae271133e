"""Reduce each table to one row per ranking, in one pass: what the metrics need, and counters.

`Reduction` writes the query. A ranking has a row if it is in the run or its query is judged. The
metrics follow from its columns (`columns`), errors and notes about the data from the counters. Its
form depends on the metrics and on whether judgments are joined:

- "words": every metric has a small cutoff. The grades of the first k items, as bits of words
  (`Words`). Of scores: the best k + 1 of each ranking, then the items that reach the k-th, then
  their grades.
- "lists": a metric reads more. One join and one GROUP BY collect the scores of a ranking, and the
  scores and grades of its judged items, whose positions are those of their scores in the sorted
  list.
- "counters": nothing but counters. The readable query computes the metrics: it is as fast on a
  table with grades and positions and a metric without a cutoff, and faster on few rows.

`joined` and `ranked` in docs/speed.md measure the first two.

Positions that are found in a list of scores are right if no score occurs twice. Where one does, or
where items share a position, the ranking is flagged, and the readable query computes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import duckdb
import polars as pl

from rankql.evaluation.columns import (
    METRICS,
    Options,
    Rankings,
    Words,
    count_grades,
    if_positive,
    read_counts,
    sum_columns,
    to_double,
)
from rankql.evaluation.evaluation import REDUCED_FROM_ROWS, Evaluation
from rankql.evaluation.grades import grade_scale
from rankql.evaluation.overlap import Counters, read_counters
from rankql.evaluation.readable import unique_columns
from rankql.evaluation.steps import (
    Unique,
    attributes_by_query,
    has_one_value,
    list_systems,
    rows_needed,
    score_order,
    select_from,
    source_ctes,
    with_ctes,
)
from rankql.macros import INTERNAL_PREFIX, MISSING, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Metric, Rows
from rankql.sources.inputs import Inputs

Form: TypeAlias = Literal["words", "lists", "counters"]

# The bits of a grade from 0 to 5, and of the hashes of an item and a score. All fit into a BIGINT.
GRADE_BITS, HASH_BITS = 3, 30

# Multiplies numbers of rankings to other numbers.
_ODD = 0x9E3779B97F4A7C15
# max(score, k) reserves 16 bytes times k per ranking.
MAX_WORDS_K = 50
# The most items of a ranking that metrics read from lists, as columns.
MAX_LISTED = 200
# The most steps to find the scores of its judged items in the list of all scores.
MAX_STEPS = 5_000_000
# The numbers that a thread holds at once, as columns of polars, and the most threads.
CELLS = 5_000_000
THREADS = 4
# Whether no value of a group occurs twice.
UNIQUE = "count({0}) = count(DISTINCT {0})"
FLAGGED = f"{INTERNAL_PREFIX}flagged"


@dataclass(frozen=True)
class Reduction:
    """How rankings are reduced, the options of each metric that follows, and the rows."""

    evaluation: Evaluation
    form: Form = "counters"
    metrics: Mapping[str, tuple[Metric, Options]] = field(default_factory=dict)
    # All grades are whole numbers from 0 to this one; 0: they are not.
    end: int = 0
    rows: Rows = "gain"
    # With few rows, one query finds duplicates too: each query takes a millisecond or more to plan.
    few: bool = False
    # The rows of the query, notes on how it ran, and the error of DuckDB if it failed.
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)
    notes: Sequence[str] = ()
    failure: duckdb.Error | None = None

    @property
    def inputs(self) -> Inputs:
        """The tables."""
        return self.evaluation.inputs

    @property
    def conventions(self) -> Conventions:
        """The conventions."""
        return self.evaluation.conventions

    @property
    def k(self) -> int:
        """The last position that is read."""
        return max(options["k"] or 0 for _, options in self.metrics.values())

    @property
    def ideal_retrieved(self) -> bool:
        """Has an ideal ranking the retrieved items only?"""
        each = self.metrics.values()
        return any(options.get("ideal") == "retrieved" for _, options in each)

    @property
    def place(self) -> str:
        """What ranks the items."""
        return "score" if self.inputs.scored else "pos"

    def steps(self) -> tuple[dict[str, str], str]:
        """The steps of the query, and the final SELECT."""
        inputs, keys = self.inputs, self.inputs.keys
        integers = self.form == "words" and inputs.qrels is None and not inputs.scored
        steps = source_ctes(inputs, self.conventions, integers=integers)
        write = {
            "words": self._word_rows,
            "lists": self._list_rows,
            "counters": self._count_rows,
        }[self.form]
        rankings, fields = write(steps)
        by = [] if self.form == "counters" else inputs.by
        if inputs.qrels is not None:
            judged = {"judged": "count(rel)"} | self._grade_columns()
            if self.few:
                judged |= {"single qrels item": UNIQUE.format("item"), "best_grade": "max(rel)"}
            judged |= self._attributes("qrels")
            steps["judged"] = select_from("qrels", ["query", *_columns(judged)], "GROUP BY query")
            fields = [*judged, *fields]
            queries = "judged"
            if inputs.many:
                read = ("cuts", "lists", "counts", "best", "words")
                source = next(name for name in read if name in steps)
                steps["systems"] = list_systems(inputs, source)
                queries = "(FROM judged CROSS JOIN systems)"
            rankings = f"{queries} FULL JOIN {rankings} USING ({keys})"
        columns = [inputs.attribute(name) for name in by]
        for home in ("run", "attributes"):
            if by and {*map(inputs.attribute, inputs.attributes_in(home))} - {*fields}:
                rankings += f"\n    LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
        order = ", ".join(f"{key} ASC NULLS LAST" for key in keys.split(", "))
        names = [keys, *(x for x in columns if x not in fields), *map(quote, fields)]
        if "candidates" in steps:
            names.append(
                f"(SELECT count(*) > count(DISTINCT hash({keys}, item)) FROM candidates) AS repeats"
            )
        return steps, select_from(rankings, names, f"ORDER BY {order}")

    @property
    def sql(self) -> str:
        """The query."""
        steps, select = self.steps()
        return with_ctes(steps) + select

    def _grade_columns(self) -> dict[str, str]:
        """The aggregates over judgments that give the ideal ranking."""
        return {} if self.form == "counters" else count_grades(self.end, "from")

    def _counters(self) -> dict[str, str]:
        """The aggregates over a run that count."""
        place = self.place
        counters = {"rows": "count(*)", "placed": f"count({place})", "lowest": f"min({place})"}
        if self.few:
            unique = ["item"] * self.inputs.every("item") + ["pos"] * (place == "pos")
            counters |= {f"single run {name}": UNIQUE.format(name) for name in unique}
        return counters | self._attributes("run")

    def _attributes(self, home: str) -> dict[str, str]:
        """The aggregates that give the attributes in a table, and whether they have one value."""
        inputs, columns = self.inputs, {}
        several = home == "run" and inputs.many  # rankings of a query
        if several and inputs.qrels is not None:  # `steps` joins them by query
            return {}
        for name in inputs.attributes_in(home):
            column = inputs.attribute(name)
            columns[column] = f"min({column})"
            if not several:
                columns[f"single {home} {column}"] = has_one_value(inputs, name)
        return columns

    def _group(self, source: str, columns: Mapping[str, str]) -> str:
        """A GROUP BY of a run."""
        keys = self.inputs.keys
        return select_from(source, [keys, *_columns(columns)], f"GROUP BY {keys}")

    def _word_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The grades of the first k items; for an ideal of retrieved items, all their grades."""
        if self.cuts_first:
            return self._cut_rows(steps)
        source, columns = "run", self._counters()
        if self.inputs.qrels is not None:
            source = "run LEFT JOIN qrels USING (query, item)"
            columns |= {"common": f"count(rel) FILTER (WHERE {self.place} IS NOT NULL)"}
        elif self.inputs.scored:
            columns |= {"judged": "count(rel)"} | self._grade_columns()
        else:  # nothing can be wrong, so nothing is counted
            columns = self._attributes("run") | self._grade_columns()
        if self.ideal_retrieved:
            columns |= count_grades(self.end, "ideal", f"{self.place} IS NOT NULL")
        if self.inputs.scored:
            return self._score_words(steps, source, columns)
        words, prefix = Words(self.end, self.k), INTERNAL_PREFIX if source == "run" else ""
        grade, pos = f"{prefix}rel", f"{prefix}pos"
        shared = {"shared": words.have_shared(grade, pos), "highest": f"max({pos})"}
        columns |= words.sums(grade, pos) | shared
        steps["words"] = self._group(source, columns)
        return "words", [*columns]

    def _score_words(
        self, steps: dict[str, str], source: str, columns: dict[str, str]
    ) -> tuple[str, list[str]]:
        """The words of rows with grades and scores, in one pass.

        An item is bits of the hashes of score and item, and the grade. Also the hashes of all items
        with a gain, to find duplicates.
        """
        bits = HASH_BITS
        score, item = (
            f"CAST(hash({name}) >> {64 - bits} AS BIGINT) << {shift}"
            for name, shift in (("score", GRADE_BITS + bits), ("item", GRADE_BITS))
        )
        best = f"({score}) | ({item}) | coalesce(CAST(rel AS BIGINT), 0)"
        columns |= {
            "items": f"arg_max({best}, score, {self.k + 1})",
            "gains": "list(hash(item)) FILTER (WHERE rel > 0)",
            "highest": "max(score)",
        }
        steps["best"] = self._group(source, columns)
        scores = f"list_transform(items, lambda x: x >> {GRADE_BITS + bits})"
        grades = f"list_transform(items, lambda x: x & {(1 << GRADE_BITS) - 1})"
        flags = {"tied": f"coalesce({are_tied(scores)}, false)", "grades": grades}
        steps["grades"] = select_from("best", ["*", *_columns(flags)])
        words = Words(self.end, self.k).of_list("grades")
        fields = [self.inputs.keys, *map(quote, columns), "tied", *_columns(words)]
        steps["words"] = select_from("grades", fields)
        return "words", [*columns, "tied", *words]

    @property
    def cuts_first(self) -> bool:
        """Are scores cut to the best of each ranking before the judgments are joined?"""
        joined = self.form == "words" and self.inputs.scored and self.inputs.qrels is not None
        return joined and not self.ideal_retrieved

    @property
    def ranks_ties(self) -> bool:
        """Are tied items of the top put in order by the reduction?"""
        return self.cuts_first and self.conventions.ties in ("item", "order")

    def _cut_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The words of the best scores of a run, joined with the judgments."""
        counters = self._counters()
        cuts = self._group("run", {"best": f"max(score, {self.k + 1})"} | counters)
        flags = {
            "least": f"best[least({self.k}, len(best))]",
            "tied": f"coalesce({are_tied('best')}, false)",
            "highest": "best[1]",
        }
        steps["cuts"] = select_from(f"(\n{cuts})", ["*", *_columns(flags)])
        # The items that reach the k-th score, and the first k of them in order.
        keys, ties = self.inputs.keys, self.conventions.ties
        read = [keys, "item", "score", *(["line"] if ties == "order" else [])]
        # Without the condition DuckDB 2.0.1 takes the lists for the larger side and hashes the run.
        listed = "least IS NOT NULL" + ("" if self.ranks_ties else " AND NOT tied")
        source = f"run JOIN (FROM cuts WHERE {listed}) USING ({keys})"
        fields = [*read, "tied", "list_position(best, score) AS rank"]
        steps["candidates"] = select_from(source, fields, "WHERE score >= least")
        top = select_from("candidates", [keys, "item", "rank AS pos"], "WHERE NOT tied")
        if self.ranks_ties:
            order = f"PARTITION BY {keys} ORDER BY {score_order(ties)}"
            position = f"row_number() OVER ({order}) AS pos"
            rest = f"WHERE tied QUALIFY pos <= {self.k}"
            top += "\n    UNION ALL\n" + select_from("candidates", [keys, "item", position], rest)
        steps["top"] = top
        words = {"common": "count(rel)"} | Words(self.end, self.k).sums("rel", "pos")
        steps["words"] = self._group("top JOIN qrels USING (query, item)", words)
        rankings = f"cuts LEFT JOIN words USING ({self.inputs.keys})"
        return rankings, [*counters, "tied", "highest", *words]

    @cached_property
    def values(self) -> pl.DataFrame | None:
        """The values of the metrics; None if the readable query computes all of them."""
        if not self.metrics:
            return None
        alone = self.inputs.qrels is None
        judged = self.frame if alone else self.frame.filter(pl.col("judged").is_not_null())
        return pl.concat(self.read(judged))

    @cached_property
    def counters(self) -> Counters:
        """What the rows count."""
        return read_counters(self.frame, self.evaluation, self._find_repeats())

    def unique_columns(self) -> list[Unique]:
        """What must be unique in the tables, and was not looked at by the reduction."""
        metrics = self.evaluation.computed
        every = self.values is not None and len(self.metrics) == len(metrics)
        distinct = every and not self.values[FLAGGED].any()  # type: ignore[index]
        columns = unique_columns(self.inputs, metrics, self.conventions, distinct)
        if every and self.counters.repeats is False:
            columns = [column for column in columns if column[0] != "run"]
        return columns

    def _find_repeats(self) -> bool | None:
        """Does an item occur twice in a top? None if this was not looked at."""
        frame = self.frame
        if "repeats" in frame.columns:
            return bool(frame["repeats"].any())
        if "gains" not in frame.columns:
            return None
        numbered = frame.select(
            pl.int_range(pl.len(), dtype=pl.UInt64).alias("i"), "items", "gains"
        )
        top, gains = (numbered.select("i", x).explode(x).drop_nulls() for x in ("items", "gains"))
        # A number of its own for every ranking and item. The product wraps.
        own = pl.col("i") * _ODD
        item = (pl.col("items").cast(pl.UInt64) // (1 << GRADE_BITS)) & (1 << HASH_BITS) - 1
        for hashes in (top.select(item + own), gains.select(pl.col("gains") + own)):
            if hashes.n_unique() < hashes.height:
                return True
        # An item without a gain in the top may have one below.
        others = top.filter(pl.col("items") & (1 << GRADE_BITS) - 1 == 0).select(item + own)
        below = gains.select(pl.col("gains") // (1 << 64 - HASH_BITS) + own)
        return bool(below.to_series().is_in(others.to_series().implode()).any())

    def _list_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The positions and grades of the retrieved items with judgments."""
        place = self.place
        read = "rel > 0" if self.rows == "gain" else "rel IS NOT NULL"
        read = f"FILTER (WHERE {read} AND {place} IS NOT NULL)"
        counters = self._counters()
        counters |= {"common": f"count(rel) FILTER (WHERE {place} IS NOT NULL)"}
        lists = {"places": f"list({place}) {read}", "rels": f"list(rel) {read}"}
        source = "run"
        if self.inputs.qrels is None:
            counters |= {"judged": "count(rel)"} | self._grade_columns()
        else:
            # Only what is read: an item may have several judgments of grade 0.
            judged = "(FROM qrels WHERE rel > 0)" if self.rows == "gain" else "qrels"
            source = f"run LEFT JOIN {judged} USING (query, item)"
        kept = [self.inputs.keys, *map(quote, counters)]
        if not self.inputs.scored:
            more = {"highest": f"max({place})", "firsts": "count(*) FILTER (WHERE pos = 1)"}
            steps["lists"] = self._group(source, counters | more | lists)
            return "lists", [*counters, *more, *lists]
        scores = "list(score) FILTER (WHERE score IS NOT NULL)"
        best = {"best": f"list_sort({scores}, 'DESC', 'NULLS LAST')"}
        steps["lists"] = self._group(source, counters | best | lists)
        few = f"len(places) <= {MAX_LISTED} AND len(places) * len(best) <= {MAX_STEPS}"
        places = "list_transform(places, lambda x: list_position(best, x))"
        found = [
            f"CASE WHEN {few} THEN {places} END AS places",
            f"coalesce(NOT ({few}), false) AS many",
        ]
        steps["found"] = select_from("lists", [*kept, "best", "rels", *found])
        tied = "list_bool_or(list_transform(places, lambda p: best[p + 1] = best[p]))"
        flags = {"tied": f"many OR coalesce({tied}, false)", "highest": "best[1]"}
        steps["rankings"] = select_from("found", [*kept, "places", "rels", *_columns(flags)])
        return "rankings", [*counters, *flags, *lists]

    def _count_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        place, counters = self.place, self._counters()
        if self.inputs.qrels is None and self.inputs.every("rel"):
            counters |= {"judged": "count(rel)"}
        counters |= {"highest": f"max({place})"}
        fields = [*counters]
        steps["counts"] = self._group("run", counters)
        if self.inputs.qrels is None:
            return "counts", fields
        keys = self.inputs.keys
        known = "run SEMI JOIN (FROM qrels WHERE rel IS NOT NULL) USING (query, item)"
        rest = f"WHERE {place} IS NOT NULL GROUP BY {keys}"
        steps["hits"] = select_from(known, [keys, "count(*) AS common"], rest)
        return f"counts LEFT JOIN hits USING ({keys})", [*fields, "common"]

    def read(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """The values of the rankings with judgments, in batches, and which are flagged."""
        width = 3 * (self.k if self.form != "lists" else _longest(frame["places"])) + 30
        batches = [*frame.iter_slices(max(CELLS // width, 1))] or [frame]
        if len(batches) == 1:
            return [self._read_batch(frame)]
        with ThreadPoolExecutor(min(THREADS, pl.thread_pool_size())) as pool:
            return [*pool.map(self._read_batch, batches)]

    def _read_batch(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The values of some rankings, and which are flagged."""
        rankings, flagged = self._rankings(batch)
        values = {
            name: METRICS[metric.record.function].value(rankings, options)  # type: ignore[union-attr]
            for name, (metric, options) in self.metrics.items()
        }
        for name, (metric, options) in self.metrics.items():
            if metric.record and metric.record.weight:
                weight = METRICS[metric.record.function].weight
                assert weight
                values[f"{INTERNAL_PREFIX}weight of {name}"] = weight(rankings, options)
        if self.conventions.undefined == "drop":
            relevant = rankings.relevant(self.conventions.threshold)
            values = {name: if_positive(relevant, value) for name, value in values.items()}
        missing = (
            batch["rows"].is_null()
            if self.inputs.qrels
            else pl.repeat(False, batch.height, eager=True)
        )
        attributes = {
            name: batch[self.inputs.attribute(name).strip('"')] for name in self.inputs.by
        }
        keys = {"system": batch["system"]} if self.inputs.many else {}
        return pl.DataFrame(
            [
                column.alias(name)
                for name, column in (
                    keys | {self.inputs.query: batch["query"]} | attributes
                    | {MISSING: missing} | values | {FLAGGED: flagged}
                ).items()
            ]
        )  # fmt: skip

    def _rankings(self, batch: pl.DataFrame) -> tuple[Rankings, pl.Series]:
        """The columns of a batch, and which rankings the readable query computes."""
        zero = pl.repeat(0.0, batch.height, dtype=pl.Float64, eager=True)
        counts = read_counts(self.end, "from", batch)
        flagged = pl.repeat(False, batch.height, eager=True)
        cutoffs = [*dict.fromkeys(options["k"] for _, options in self.metrics.values())]
        given: dict[str, Any] = {"counts": counts, "zero": zero, "cutoffs": cutoffs}
        if "placed" in batch.columns:
            for name, column in (("retrieved", "placed"), ("judged", "judged")):
                given[name] = batch[column].cast(pl.Float64).fill_null(0.0)
        name = "tied" if self.inputs.scored else "shared"
        if name in batch.columns and not self.ranks_ties:
            flagged = flagged | batch[name].fill_null(False)
        if self.form == "words":
            if self.ideal_retrieved:
                given["ideal_counts"] = read_counts(self.end, "ideal", batch)
            grades = Words(self.end, self.k).read(batch)
            return Rankings([*enumerate(grades, start=1)], **given), flagged
        places, rels, shared = _sort_items(batch)
        if not self.inputs.scored:
            flagged = flagged | shared | (batch["firsts"].fill_null(0) > 1)
            flagged = flagged | (batch["places"].list.len().fill_null(0) > MAX_LISTED)
        items = [*zip(_list_columns(places, math.inf), _list_columns(rels, 0.0), strict=True)]
        if self.ideal_retrieved:
            given["ideal_counts"] = [
                sum_columns((to_double(rel >= grade) for _, rel in items), zero)
                for grade in range(1, self.end + 1)
            ]
        return Rankings(items, **given), flagged


def _sort_items(batch: pl.DataFrame) -> tuple[pl.Series, pl.Series, pl.Series]:
    """The positions and grades of each ranking, by position, and whether two items share one."""
    numbered = batch.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("i"), "places", "rels")
    rows = numbered.filter(pl.col("places").list.len() > 0).explode("places", "rels")
    rows = rows.sort("i", "places").cast({"places": pl.Float64})
    shared = rows.filter(
        (rows["i"] == rows["i"].shift()) & (rows["places"] == rows["places"].shift())
    )
    lists = rows.group_by("i", maintain_order=True).agg("places", "rels")
    every = numbered.select("i", pl.col("i").is_in(shared["i"].unique().implode()).alias("shared"))
    every = every.join(lists, on="i", how="left", maintain_order="left")
    return every["places"], every["rels"], every["shared"]


def _longest(lists: pl.Series) -> int:
    """The length of the longest list."""
    lengths = lists.list.len().fill_null(0)
    return min([*lengths.sort(descending=True)[:1], MAX_LISTED]) if lengths.len() else 0


def _list_columns(lists: pl.Series, absent: float) -> list[pl.Series]:
    """The first elements of lists as columns, with a value where there is none."""
    return [
        lists.list.get(i, null_on_oob=True).cast(pl.Float64).fill_null(absent)
        for i in range(_longest(lists))
    ]


def _columns(columns: Mapping[str, str]) -> list[str]:
    return [f"{value} AS {quote(name)}" for name, value in columns.items()]


def are_tied(scores: str) -> str:
    """Are two scores of a sorted list the same? The list is NULL if it would be empty.

    list_distinct() takes longer.
    """
    next_one = "lambda a, b: CASE WHEN a <> b THEN b END"
    return f"{scores} IS NOT NULL AND list_reduce({scores}, {next_one}) IS NULL"


def choose_reduction(evaluation: Evaluation) -> Reduction:
    """What the metrics that have a formula need; only counters if none is reduced."""
    inputs, conventions = evaluation.inputs, evaluation.conventions
    metrics, few = evaluation.computed, evaluation.rows < REDUCED_FROM_ROWS
    counters = Reduction(evaluation, few=few)
    if not evaluation.reduced or conventions.unjudged == "remove":
        return counters
    options = {m.name: formula_options(m, conventions, inputs) for m in metrics}
    named = {metric.name: (metric, o) for metric in metrics if (o := options[metric.name])}
    if not named or not (end := grade_scale(evaluation.session, inputs)):
        return counters
    reduced = [metric for metric, _ in named.values()]
    rows = rows_needed(reduced, conventions)
    words = Reduction(evaluation, "words", named, end, rows, few)
    # Do metrics read no more than the grades of the first few positions?
    if all(
        m.k is not None and m.k <= MAX_WORDS_K
        and not (m.record and m.record.rows == "judged" and m.record.reads_judged)
        for m in reduced
    ):  # fmt: skip
        return words
    positions = inputs.qrels is None and not inputs.scored
    return counters if positions else replace(words, form="lists")


def formula_options(metric: Metric, conventions: Conventions, inputs: Inputs) -> Options | None:
    """The options of a metric's formula; None if it has none that is valid for them."""
    formula = METRICS.get(metric.record.function) if metric.record else None
    if formula is None or metric.record is None:
        return None
    known = vars(conventions)
    arguments, gain, threshold = (
        metric.arguments(known),
        metric.gain(known),
        metric.threshold(known),
    )
    if (
        not arguments.keys() <= formula.options | {"k", "negative"}
        or not isinstance(gain, str)
        or min(threshold, conventions.threshold) <= 0
    ):
        return None
    defaults = {name: option.default for name, option in metric.record.options.items()}
    options = {"k": None, **defaults, **arguments, "gain": gain, "threshold": threshold}
    counts_shown = options.get("denominator") == "retrieved" and options["k"] is not None
    return None if counts_shown and not inputs.scored else options
