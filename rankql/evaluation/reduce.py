"""Reduce each table to one row per ranking, in one pass: what the metrics need, and counters.

`Reduction` writes the query. A ranking has a row if it is in the run or its query is judged. The
metrics follow from its columns (`columns`), errors and notes about the data from the counters.
What the metrics need depends on the tables:

- "sums": a table with grades and positions. Packed sums, see `top`.
- "words": scores, and every metric has a small cutoff. The best k + 1 scores of each ranking, then
  the items that reach the k-th, then their grades. nDCG@10 of 3M rows with 750,000 judgments takes
  1.3 plain joins, by a window 3.
- "best": the same of a table with grades, from one list of the best k + 1 items.
- "lists": otherwise. One join and one GROUP BY collect all scores of a ranking, and the scores and
  grades of its judged items, whose positions are those of their scores in the sorted list. AP takes
  2.5 plain joins, by a window 5.
- "counters": nothing but counters.

Positions that are found in a list of scores are right if no score occurs twice. Where one does,
the ranking is flagged, and `evaluate` computes it by the readable query: all orders of tied items
are then one for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import polars as pl

from rankql.evaluation.columns import (
    METRICS,
    Options,
    Rankings,
    at_least_zero,
    if_positive,
    sum_columns,
    to_double,
)
from rankql.evaluation.resolve import Facts
from rankql.evaluation.steps import (
    attributes_by_query,
    has_one_value,
    list_systems,
    rows_needed,
    score_order,
    select_from,
    source_ctes,
    with_ctes,
)
from rankql.evaluation.top import (
    BITS,
    Top,
    Words,
    count_grades,
    digit_bits,
    read_counts,
)
from rankql.macros import INTERNAL_PREFIX, MISSING, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

Form: TypeAlias = Literal["sums", "words", "best", "lists", "counters"]

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
SHARED = f"{INTERNAL_PREFIX}shared"


@dataclass(frozen=True)
class Reduction:
    """How rankings are reduced, and the options of each metric that follows from their columns."""

    inputs: Inputs
    conventions: Conventions
    form: Form = "counters"
    metrics: Mapping[str, tuple[Metric, Options]] = field(default_factory=dict)
    # All grades are whole numbers from 0 to this one; 0: they are not.
    end: int = 0
    rows: Rows = "gain"
    # With few rows, one query finds duplicates too: each query takes a millisecond or more to plan.
    few: bool = False

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
        steps = source_ctes(inputs, self.conventions, integers=self.form == "sums")
        write = {
            "sums": self._sum_rows,
            "words": self._cut_rows,
            "best": self._best_rows,
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
                source = {"words": "cuts", "lists": "lists", "counters": "counts"}[self.form]
                steps["systems"] = list_systems(inputs, source)
                queries = "(FROM judged CROSS JOIN systems)"
            rankings = f"{queries} FULL JOIN {rankings} USING ({keys})"
        columns = [inputs.attribute(name) for name in by]
        for home in ("run", "attributes"):
            if by and {*map(inputs.attribute, inputs.attributes_in(home))} - {*fields}:
                rankings += f"\n    LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
        order = ", ".join(f"{key} ASC NULLS LAST" for key in keys.split(", "))
        names = [keys, *(x for x in columns if x not in fields), *map(quote, fields)]
        if self.form == "words":
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
        if self.form == "counters":
            return {}
        if not self.end:
            return {"grades": _sorted("rel", "rel > 0")}
        counts = count_grades(self.end, "from")
        if self.ideal_retrieved and self.form != "lists":
            counts |= count_grades(self.end, "ideal", f"{self.place} IS NOT NULL")
        return counts

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

    def _alone(self) -> dict[str, str]:
        """The aggregates over the rows of a table with grades."""
        if self.inputs.qrels is not None or not self.inputs.every("rel"):
            return {}
        return {"judged": "count(rel)"} | self._grade_columns()

    def _group(self, source: str, columns: Mapping[str, str]) -> str:
        """A GROUP BY of a run."""
        keys = self.inputs.keys
        return select_from(source, [keys, *_columns(columns)], f"GROUP BY {keys}")

    def _sum_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        top = Top(self.end, self.k)
        grade, pos = f"{INTERNAL_PREFIX}rel", f"{INTERNAL_PREFIX}pos"
        columns = self._grade_columns() | top.sums(grade, pos) | self._attributes("run")
        steps["sums"] = self._group("run", columns)
        return "sums", [*columns]

    def _cut_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The best scores of a run, the items that reach the k-th, and their grades."""
        keys, k, ties = self.inputs.keys, self.k, self.conventions.ties
        counters = self._counters()
        cuts = self._group("run", {"best": f"max(score, {k + 1})"} | counters)
        flags = {
            "least": f"best[least({k}, len(best))]",
            "tied": f"coalesce({are_tied('best')}, false)",
            "highest": "best[1]",
        }
        steps["cuts"] = select_from(f"(\n{cuts})", ["*", *_columns(flags)])
        read = [keys, "item", "score", *(["line"] if ties == "order" else [])]
        ranked = self.ranks_ties
        # Without the condition DuckDB 2.0.1 takes the lists for the larger side and hashes the run.
        listed = f"(FROM cuts WHERE least IS NOT NULL{'' if ranked else ' AND NOT tied'})"
        fields = [*read, "tied", "list_position(best, score) AS rank"]
        source = f"run JOIN {listed} USING ({keys})"
        steps["candidates"] = select_from(source, fields, "WHERE score >= least")
        top = select_from("candidates", [keys, "item", "rank AS pos"], "WHERE NOT tied")
        if ranked:
            order = f"PARTITION BY {keys} ORDER BY {score_order(ties)}"
            position = f"row_number() OVER ({order}) AS pos"
            rest = f"WHERE tied QUALIFY pos <= {k}"
            top += "\n    UNION ALL\n" + select_from("candidates", [keys, "item", position], rest)
        steps["top"] = top
        words = {"common": "count(rel)"} | Words(self.end, k).sums("rel", "pos")
        source = "top JOIN qrels USING (query, item)"
        steps["words"] = select_from(source, [keys, *_columns(words)], f"GROUP BY {keys}")
        return f"cuts LEFT JOIN words USING ({keys})", [*counters, "tied", "highest", *words]

    @property
    def ranks_ties(self) -> bool:
        """Are tied items of the top put in order by the reduction?"""
        return self.form == "words" and self.conventions.ties in ("item", "order")

    def _best_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The best items of a table with grades: bits of the hashes of score and item, the grade.

        Also the hashes of all items with a gain, to find duplicates.
        """
        keys, bits = self.inputs.keys, HASH_BITS
        score, item = (
            f"CAST(hash({name}) >> {64 - bits} AS BIGINT) << {shift}"
            for name, shift in (("score", GRADE_BITS + bits), ("item", GRADE_BITS))
        )
        best = f"({score}) | ({item}) | coalesce(CAST(rel AS BIGINT), 0)"
        columns = {
            "items": f"arg_max({best}, score, {self.k + 1})",
            "gains": "list(hash(item)) FILTER (WHERE rel > 0)",
            "highest": "max(score)",
        }
        columns |= self._counters() | self._alone()
        steps["best"] = self._group("run", columns)
        tied = are_tied(f"list_transform(items, lambda x: x >> {GRADE_BITS + bits})")
        fields = [keys, *map(quote, columns), f"coalesce({tied}, false) AS tied"]
        steps["tops"] = select_from("best", fields)
        return "tops", [*columns, "tied"]

    def find_repeats(self, frame: pl.DataFrame) -> bool | None:
        """Does an item occur twice in a top? None if this was not looked at."""
        if self.form == "words":
            return bool(frame["repeats"].any())
        if self.form != "best":
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
        place, counters = self.place, self._counters() | self._alone()
        read = "rel > 0" if self.rows == "gain" else "rel IS NOT NULL"
        read = f"FILTER (WHERE {read} AND {place} IS NOT NULL)"
        counters |= {"common": f"count(rel) FILTER (WHERE {place} IS NOT NULL)"}
        lists = {"places": f"list({place}) {read}", "rels": f"list(rel) {read}"}
        source = "run"
        if self.inputs.qrels is not None:
            # Only what is read: an item may have several judgments of grade 0.
            judged = "(FROM qrels WHERE rel > 0)" if self.rows == "gain" else "qrels"
            source = f"run LEFT JOIN {judged} USING (query, item)"
        kept = [self.inputs.keys, *map(quote, counters)]
        if not self.inputs.scored:
            more = {"highest": f"max({place})", "firsts": "count(*) FILTER (WHERE pos = 1)"}
            steps["lists"] = self._group(source, counters | more | lists)
            return "lists", [*counters, *more, *lists]
        best = {"best": _sorted("score", "score IS NOT NULL")}
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
        place, counters = self.place, self._counters() | self._alone()
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
        rankings, flagged, shared = self._rankings(batch)
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
                    | {MISSING: missing} | values | {FLAGGED: flagged, SHARED: shared}
                ).items()
            ]
        )  # fmt: skip

    def _rankings(self, batch: pl.DataFrame) -> tuple[Rankings, pl.Series, pl.Series]:
        """The columns of a batch, and where they are wrong, or items share a position."""
        zero = pl.repeat(0.0, batch.height, dtype=pl.Float64, eager=True)
        shared = flagged = pl.repeat(False, batch.height, eager=True)
        cutoffs = [*dict.fromkeys(options["k"] for _, options in self.metrics.values())]
        given: dict[str, Any] = {"zero": zero, "cutoffs": cutoffs}
        if self.end:
            given["counts"], flagged = read_counts(self.end, "from", batch)
            if self.ideal_retrieved and self.form != "lists":
                given["ideal_counts"], _ = read_counts(self.end, "ideal", batch)
        else:
            given["grades"] = _list_columns(batch["grades"], 0.0)
            flagged = batch["grades"].list.len().fill_null(0) > MAX_LISTED
        if self.form == "sums":
            grades, shared = Top(self.end, self.k).read(batch)
            return Rankings([*enumerate(grades, start=1)], **given), flagged, shared
        for name, column in (("retrieved", "placed"), ("judged", "judged")):
            given[name] = batch[column].cast(pl.Float64).fill_null(0.0)
        if self.form in ("words", "best"):
            grades = (
                Words(self.end, self.k).read(batch)
                if self.form == "words"
                else [
                    (batch["items"].list.get(i, null_on_oob=True) & (1 << GRADE_BITS) - 1)
                    .cast(pl.Float64)
                    .fill_null(0.0)
                    for i in range(self.k)
                ]
            )
            tied = pl.repeat(False, 1, eager=True) if self.ranks_ties else batch["tied"]
            tied = tied.fill_null(False)
            return Rankings([*enumerate(grades, start=1)], **given), flagged | tied, shared
        places, rels, shared = _sort_items(batch)
        if self.inputs.scored:
            flagged = flagged | batch["tied"].fill_null(False)
            shared = pl.repeat(False, batch.height, eager=True)
        else:
            flagged = flagged | (batch["places"].list.len().fill_null(0) > MAX_LISTED)
            shared = shared | (batch["firsts"].fill_null(0) > 1)
        items = [*zip(_list_columns(places, math.inf), _list_columns(rels, 0.0), strict=True)]
        if self.ideal_retrieved and self.end:
            given["ideal_counts"] = [
                sum_columns((to_double(rel >= grade) for _, rel in items), zero)
                for grade in range(1, self.end + 1)
            ]
        elif self.ideal_retrieved:
            best = rels.list.sort(descending=True)
            given["ideal_grades"] = [*map(at_least_zero, _list_columns(best, 0.0))]
        return Rankings(items, **given), flagged, shared


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


def _sorted(column: str, where: str) -> str:
    """The values of a ranking, highest first."""
    return f"list_sort(list({column}) FILTER (WHERE {where}), 'DESC', 'NULLS LAST')"


def are_tied(scores: str) -> str:
    """Are two scores of a sorted list the same? The list is NULL if it would be empty.

    list_distinct() takes seven times as long for 10 to 100 scores.
    """
    next_one = "lambda a, b: CASE WHEN a <> b THEN b END"
    return f"{scores} IS NOT NULL AND list_reduce({scores}, {next_one}) IS NULL"


# DuckDB takes 5 ms longer to plan a macro. Where nobody notices, with few rows and metrics, the
# query that runs is the one that `result.sql` shows.
REDUCED_FROM_ROWS, REDUCED_FROM_METRICS = 2_000, 3
# Lists of best scores that may take more than so many GiB, or than a share of the memory limit, are
# used only if rankings have several times k items on average.
SCORE_BYTES, SCORES_GIB, SCORES_SHARE = 16, 1, 1 / 4
MIN_ITEMS_PER_K = 3


def choose_reduction(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, facts: Facts
) -> Reduction:
    """What the metrics that have a formula need; only counters if none is worth it."""
    few = facts.rows < REDUCED_FROM_ROWS
    reduction = Reduction(inputs, conventions, few=few)
    packs = facts.packs
    if packs is None:
        packs = not few or len(metrics) >= REDUCED_FROM_METRICS
    if not packs or conventions.unjudged == "remove":
        return reduction
    end = facts.grade_scale
    named = {
        metric.name: (metric, options)
        for metric in metrics
        if (options := formula_options(metric, conventions, inputs, end))
    }
    if not named:
        return reduction
    rows = rows_needed([metric for metric, _ in named.values()], conventions)
    reduction = replace(reduction, form="lists", metrics=named, end=end, rows=rows)
    if not end or any(_needs_lists(metric, options) for metric, options in named.values()):
        return reduction
    k = reduction.k
    if not inputs.scored:
        summed = inputs.qrels is None and k <= BITS // digit_bits(end)
        return replace(reduction, form="sums") if summed else reduction
    if k > MAX_WORDS_K or (reduction.ideal_retrieved and inputs.qrels is not None):
        return reduction
    room = min(SCORES_GIB, SCORES_SHARE * facts.memory_gib) * 2**30
    fits = facts.rows * (k + 1) * SCORE_BYTES <= room
    if fits or facts.rows >= MIN_ITEMS_PER_K * k * facts.approximate_rankings:
        return replace(reduction, form="words" if inputs.qrels is not None else "best")
    return reduction


def formula_options(
    metric: Metric, conventions: Conventions, inputs: Inputs, end: int
) -> Options | None:
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
    if counts_shown and not inputs.scored:
        return None
    # A macro refuses grades that are all below the threshold, unless there is a scale.
    scaled = formula.options >= {"threshold", "max_rel"}
    return None if scaled and not (end or options["max_rel"]) else options


def _needs_lists(metric: Metric, options: Options) -> bool:
    """Does a metric read more than the grades of the first k positions?"""
    assert metric.record
    return options["k"] is None or (metric.record.rows == "judged" and metric.record.reads_judged)
