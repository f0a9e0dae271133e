"""Reduce each table to one row per ranking, in one pass: what the metrics need, and counters.

`Reduction` writes the query. A ranking has a row if it is in the run or its query is judged. The
metrics follow from its columns (`columns`), errors and notes about the data from the counters;
`protocol` has the table of both. Its layout depends on the metrics and on the tables:

- With small cutoffs only, the grades of the first items are bits of words (`Words`): "words" of a
  table with grades and positions, with more words for hits at larger cutoffs if all positions are
  up to MAX_HITS; "joined" of a run with positions and judgments; "cuts" of a run with scores and
  judgments: the best k + 1 scores of each ranking, then the items that reach the k-th, then their
  grades; "hashes" of scores next to grades, and if ideal rankings have the retrieved items only.
- "lists": a metric reads more. One join and one GROUP BY collect the scores of a ranking, and the
  scores and grades of its judged items, whose positions are those of their scores in the sorted
  list.
- "counters": nothing but counters. The readable query computes the metrics: it is as fast on a
  table with grades and positions and a metric without a cutoff.

Positions that are found in a list of scores are right if no score occurs twice. Where one does, or
where items share a position, the ranking is flagged, and the readable query computes it.
docs/appendix/speed.md has what each layout gains over "lists" that are cut at the largest k, or
over the readable query: 1.2 to 4 times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import duckdb
import polars as pl

from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query import ctes
from rankql.core.evaluation.query.readable import unique_columns
from rankql.core.evaluation.query.ties import WITHOUT_GRADES, score_order
from rankql.core.evaluation.reduce import formulas, protocol
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, quote
from rankql.core.metrics.metric_record import Metric, Rows
from rankql.core.tables.frames import may_lack_threads
from rankql.core.tables.inputs import Inputs

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
FLAGGED = f"{INTERNAL_PREFIX}flagged"


@dataclass(frozen=True)
class Reduction:
    """How rankings are reduced, the options of each metric that follows, and the rows."""

    evaluation: Evaluation
    layout: protocol.Layout = "counters"
    metrics: Mapping[str, tuple[Metric, formulas.Options]] = field(default_factory=dict)
    # All grades are whole numbers from 0 to this one; 0: they are not.
    end: int = 0
    # The rows that metrics read from lists.
    reads: Rows = "gain"
    # In the layout "words": is each ranking looked at for shared positions, not all at once?
    looks_at_each: bool = False
    # The rows of the query, notes on how it ran, and the error of DuckDB if it failed.
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)
    # The ranked rows with their grades, if they are in memory.
    ranked: pl.DataFrame | None = None
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
    def queries(self) -> pl.Series | None:
        """The queries of the rows, if there are any."""
        return self.frame["query"] if self.frame.width else None

    @property
    def counts(self) -> bool:
        """Are there counters? In a table with grades and positions, nothing can be wrong."""
        own = self.inputs.qrels is None and not self.inputs.scored
        return self.layout in protocol.COUNTING and not (self.layout == "counters" and own)

    def has(self, name: str) -> bool:
        """Has its layout a column of the protocol?"""
        column = protocol.COLUMNS[name]
        there = {"": True, "qrels": self.inputs.qrels is not None}
        return self.layout in column.layouts and there.get(column.needs, column.needs == self.place)

    @cached_property
    def k(self) -> int:
        """The last position of which metrics read the grade."""
        cutoffs = (o["k"] or 0 for name, (_, o) in self.metrics.items() if name not in self.of_hits)
        return max(cutoffs, default=1)

    @property
    def ideal_retrieved(self) -> bool:
        """Has an ideal ranking the retrieved items only?"""
        return any(o.get("ideal") == "retrieved" for _, o in self.metrics.values())

    @property
    def words(self) -> protocol.Words:
        """The words of a ranking."""
        return protocol.Words(self.end, self.k)

    @cached_property
    def of_hits(self) -> dict[str, int]:
        """The metrics that read hits in all positions, and the lowest grade of a hit."""
        if self.layout != "words":
            return {}
        large = ((name, o) for name, (metric, o) in self.metrics.items() if not _is_small(metric))
        return {name: math.ceil(options["threshold"]) for name, options in large}

    @property
    def place(self) -> str:
        """What ranks the items."""
        return "score" if self.inputs.scored else "pos"

    @property
    def sql(self) -> str:
        """The query."""
        steps, select = self.steps()
        return ctes.with_ctes(steps) + select

    def steps(self) -> tuple[dict[str, str], str]:
        """The steps of the query, and the final SELECT."""
        inputs, keys = self.inputs, self.inputs.keys
        steps = ctes.source_ctes(inputs, self.conventions, integers=self.layout == "words")
        write: Mapping[protocol.Layout, Callable[[dict[str, str]], tuple[str, list[str]]]] = {
            "words": self._word_rows,
            "joined": self._joined_rows,
            "cuts": self._cut_rows,
            "hashes": self._hash_rows,
            "lists": self._list_rows,
            "counters": self._count_rows,
        }
        rankings, fields = write[self.layout](steps)
        by = [] if self.layout == "counters" else inputs.by
        if inputs.qrels is not None:
            judged = self._aggregates("judged") | self._grade_columns() | self._attributes("qrels")
            if inputs.unjudged_queries == "count":  # NULL if it has no judgment
                judged["judged"] = "CASE WHEN count(item) + count(rel) > 0 THEN count(rel) END"
            columns = ["query", *_columns(judged)]
            steps["judged"] = ctes.select_from("qrels", columns, "GROUP BY query")
            fields = [*judged, *fields]
            queries = "judged"
            if inputs.many:
                read = ("cuts", "lists", "counts", "hashes", "words")
                source = next(name for name in read if name in steps)
                steps["systems"] = ctes.list_systems(inputs, source)
                queries = "(FROM judged CROSS JOIN systems)"
            rankings = f"{queries} FULL JOIN {rankings} USING ({keys})"
        columns = [inputs.attribute(name) for name in by]
        for cte in ("run", "attributes"):
            if by and {*map(inputs.attribute, inputs.attributes_in(cte))} - {*fields}:
                attributes = ctes.attributes_by_query(inputs, cte)
                rankings += f"\n    LEFT JOIN {attributes} USING (query)"
        order = ", ".join(f"{key} ASC NULLS LAST" for key in keys.split(", "))
        names = [keys, *(x for x in columns if x not in fields), *map(quote, fields)]
        if self.has("repeats"):
            same = f"count(*) > count(DISTINCT hash({keys}, item))"
            names.append(f"(SELECT {same} FROM candidates) AS repeats")
        return steps, ctes.select_from(rankings, names, f"ORDER BY {order}")

    def _aggregates(self, *names: str) -> dict[str, str]:
        """Columns of the protocol as aggregates over the rows of a ranking."""
        return {name: protocol.COLUMNS[name].sql.format(place=self.place) for name in names}

    def _grade_columns(self) -> dict[str, str]:
        """The aggregates that count the items of each grade, for ideal rankings."""
        return {} if self.layout == "counters" else protocol.grade_counts("ideal", self.end)

    def _counters(self) -> dict[str, str]:
        """The aggregates over a run that count."""
        counters = self._aggregates("rows", "placed", "lowest")
        if self.inputs.qrels is None and self.inputs.every("rel"):
            counters |= self._aggregates("judged") | self._grade_columns()
        return counters | self._attributes("run")

    @cached_property
    def unique_checks(self) -> dict[str, tuple[ctes.Column, str]]:
        """Whether attributes have one value per query: by name, the table, the column and SQL."""
        inputs = self.inputs
        checks = (
            ((cte, inputs.attribute(name)), ctes.has_one_value(inputs, name))
            for cte in ("run", "qrels")[inputs.many :]  # of a query, not of each ranking
            for name in inputs.attributes_in(cte)
        )
        return {f"unique {i}": check for i, check in enumerate(checks)}

    def _attributes(self, cte: str) -> dict[str, str]:
        """The aggregates of the attributes in a table, and whether they have one value."""
        inputs, columns = self.inputs, {}
        # If there are several rankings of a query, `steps` joins the attributes by query.
        if not (cte == "run" and inputs.many and inputs.qrels is not None):
            attributes = map(inputs.attribute, inputs.attributes_in(cte))
            columns = {column: f"min({column})" for column in attributes}
        checks = self.unique_checks.items()
        return columns | {name: sql for name, ((table, _), sql) in checks if table == cte}

    def _group(self, source: str, columns: Mapping[str, str]) -> str:
        """A GROUP BY of a run."""
        keys = self.inputs.keys
        return ctes.select_from(source, [keys, *_columns(columns)], f"GROUP BY {keys}")

    def _retrieved_grades(self) -> dict[str, str]:
        """The counts of the grades of retrieved items, if ideal rankings have no others."""
        retrieved = f"{self.place} IS NOT NULL"
        if not self.ideal_retrieved:
            return {}
        return protocol.grade_counts("retrieved", self.end, among=retrieved)

    def _word_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The grades of the first k items of a table with positions."""
        grade, pos = (f"{INTERNAL_PREFIX}{name}" for name in ("rel", "pos"))
        columns = self._attributes("run") | protocol.grade_counts("ideal", self.end, grade)
        columns |= self._retrieved_grades() | self.words.sums(grade, pos)
        for lowest in {*self.of_hits.values()}:
            columns |= protocol.hit_words(lowest, grade, pos)
        ones = self.words.count_ones(grade, pos)
        if self.of_hits:
            shared = f"coalesce(bit_count({protocol.place_bits(pos)}), 0) < count({pos})"
        elif self.looks_at_each:
            shared = f"{ones} < count(CASE WHEN {pos} <= {self.k} THEN 1 END)"
        else:
            shared = f"sum({ones}) OVER () < (SELECT count_if({pos} <= {self.k}) FROM run)"
        columns["shared"] = shared
        steps["words"] = self._group("run", columns)
        return "words", [*columns]

    def _joined_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The grades of the first k items of a run with positions, joined with the judgments."""
        columns = self._counters() | self._aggregates("highest", "common")
        columns |= self._retrieved_grades() | self.words.sums("rel", "pos")
        ones = self.words.count_ones("rel", "pos")
        columns["shared"] = f"{ones} < count(CASE WHEN pos <= {self.k} THEN 1 END)"
        steps["words"] = self._group("run LEFT JOIN qrels USING (query, item)", columns)
        return "words", [*columns]

    def _hash_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The words of rows with grades and scores, in one pass.

        An item is bits of the hashes of score and item, and the grade. Also the hashes of all items
        with a gain, to find duplicates.
        """
        bits = HASH_BITS
        score, item = (
            f"CAST(hash({name}) >> {64 - bits} AS BIGINT) << {shift}"
            for name, shift in (("score", GRADE_BITS + bits), ("item", GRADE_BITS))
        )
        row = f"({score}) | ({item}) | coalesce(CAST(rel AS BIGINT), 0)"
        columns = self._counters() | self._aggregates("highest", "gains")
        columns["items"] = f"arg_max({row}, score, {self.k + 1})"
        source = "run"
        if self.inputs.qrels is not None:
            source = "run LEFT JOIN qrels USING (query, item)"
            columns |= self._aggregates("common")
        columns |= self._retrieved_grades()
        steps["hashes"] = self._group(source, columns)
        scores = f"list_transform(items, lambda x: x >> {GRADE_BITS + bits})"
        grades = f"list_transform(items, lambda x: x & {(1 << GRADE_BITS) - 1})"
        flags = {"tied": f"coalesce({are_tied(scores)}, false)", "grades": grades}
        steps["grades"] = ctes.select_from("hashes", ["*", *_columns(flags)])
        words = self.words.of_list("grades")
        fields = [self.inputs.keys, *map(quote, columns), "tied", *_columns(words)]
        steps["words"] = ctes.select_from("grades", fields)
        return "words", [*columns, "tied", *words]

    @property
    def ranks_ties(self) -> bool:
        """Are tied items of the top put in order by the reduction?"""
        orders = self.layout == "cuts" or (self.inputs.scored and self.ranked is not None)
        return orders and self.conventions.ties in WITHOUT_GRADES

    def _cut_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The words of the best scores of a run, joined with the judgments."""
        counters = self._counters()
        cuts = self._group("run", {"ordered": f"max(score, {self.k + 1})"} | counters)
        flags = {
            "least": f"ordered[least({self.k}, len(ordered))]",
            "tied": f"coalesce({are_tied('ordered')}, false)",
            "highest": "ordered[1]",
        }
        steps["cuts"] = ctes.select_from(f"(\n{cuts})", ["*", *_columns(flags)])
        # The items that reach the k-th score, and the first k of them in order.
        keys, ties = self.inputs.keys, self.conventions.ties
        read = [keys, "item", "score", *(["line"] if ties == "order" else [])]
        # Without the condition DuckDB 2.0.1 takes the lists for the larger side and hashes the run.
        listed = "least IS NOT NULL" + ("" if self.ranks_ties else " AND NOT tied")
        source = f"run JOIN (FROM cuts WHERE {listed}) USING ({keys})"
        fields = [*read, "tied", "list_position(ordered, score) AS rank"]
        steps["candidates"] = ctes.select_from(source, fields, "WHERE score >= least")
        top = ctes.select_from("candidates", [keys, "item", "rank AS pos"], "WHERE NOT tied")
        if self.ranks_ties:
            order = f"PARTITION BY {keys} ORDER BY {score_order(ties)}"
            position = f"row_number() OVER ({order}) AS pos"
            rest = f"WHERE tied QUALIFY pos <= {self.k}"
            tied = ctes.select_from("candidates", [keys, "item", position], rest)
            top = f"{top}\n    UNION ALL\n{tied}"
        steps["top"] = top
        words = {"common": "count(rel)"} | self.words.sums("rel", "pos")
        steps["words"] = self._group("top JOIN qrels USING (query, item)", words)
        rankings = f"cuts LEFT JOIN words USING ({keys})"
        return rankings, [*counters, "tied", "highest", *words]

    def _list_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        """The positions and grades of the retrieved items with judgments."""
        place = self.place
        read = "rel > 0" if self.reads == "gain" else "rel IS NOT NULL"
        read = f"FILTER (WHERE {read} AND {place} IS NOT NULL)"
        counters, source = self._counters(), "run"
        lists = {"places": f"list({place}) {read}", "rels": f"list(rel) {read}"}
        if self.inputs.qrels is not None:
            counters |= self._aggregates("common")
            # Only what is read: an item may have several judgments of grade 0.
            judged = "(FROM qrels WHERE rel > 0)" if self.reads == "gain" else "qrels"
            source = f"run LEFT JOIN {judged} USING (query, item)"
        columns = [self.inputs.keys, *map(quote, counters)]
        if not self.inputs.scored:
            k = ctes.last_position(self.evaluation.computed, self.conventions)
            shown = "pos" if k is None else f"CASE WHEN pos <= {k} THEN 1 END"
            more = self._aggregates("highest")
            more["shared"] = f"count({shown}) > rankql_different(pos, {k or 'NULL'})"
            steps["lists"] = self._group(source, counters | more | lists)
            return "lists", [*counters, *more, *lists]
        every = "list(score) FILTER (WHERE score IS NOT NULL)"
        scores = {"ordered": f"list_sort({every}, 'DESC', 'NULLS LAST')"}
        steps["lists"] = self._group(source, counters | scores | lists)
        short = f"len(places) <= {MAX_LISTED} AND len(places) * len(ordered) <= {MAX_STEPS}"
        places = "list_transform(places, lambda x: list_position(ordered, x))"
        positions = [
            f"CASE WHEN {short} THEN {places} END AS places",
            f"coalesce(NOT ({short}), false) AS many",
        ]
        steps["found"] = ctes.select_from("lists", [*columns, "ordered", "rels", *positions])
        tied = "list_bool_or(list_transform(places, lambda p: ordered[p + 1] = ordered[p]))"
        flags = {"tied": f"many OR coalesce({tied}, false)", "highest": "ordered[1]"}
        fields = [*columns, "places", "rels", *_columns(flags)]
        steps["rankings"] = ctes.select_from("found", fields)
        return "rankings", [*counters, *flags, *lists]

    def _count_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        counters = self._counters() | self._aggregates("highest")
        fields = [*counters]
        steps["counts"] = self._group("run", counters)
        if self.inputs.qrels is None:
            return "counts", fields
        keys = self.inputs.keys
        known = "run SEMI JOIN (FROM qrels WHERE rel IS NOT NULL) USING (query, item)"
        rest = f"WHERE {self.place} IS NOT NULL GROUP BY {keys}"
        steps["hits"] = ctes.select_from(known, [keys, "count(*) AS common"], rest)
        return f"counts LEFT JOIN hits USING ({keys})", [*fields, "common"]

    @cached_property
    def values(self) -> pl.DataFrame | None:
        """The values of the metrics; None if the readable query computes all of them."""
        if not self.metrics:
            return None
        every = self.inputs.qrels is None or self.inputs.unjudged_queries == "count"
        every = every or not self.frame["judged"].null_count()
        judged = self.frame if every else self.frame.filter(pl.col("judged").is_not_null())
        return pl.concat(self.read(judged))

    def unique_columns(self) -> list[ctes.Unique]:
        """What must be unique in the tables, and was not looked at by the reduction."""
        metrics = self.evaluation.computed
        complete = self.values is not None and len(self.metrics) == len(metrics)
        distinct = complete and not self.values[FLAGGED].any()  # type: ignore[index]
        columns = unique_columns(self.inputs, metrics, self.conventions, distinct)
        if complete and self.repeats is False:
            columns = [column for column in columns if column[0] != "run"]
        return columns

    @cached_property
    def repeats(self) -> bool | None:
        """Does an item occur twice in a top? None if this was not looked at."""
        if self.has("repeats"):
            return bool(self.frame["repeats"].any())
        if not self.has("gains"):
            return None
        if self.ranked is not None:  # those tied with the last one count too
            read = (pl.col("rel") > 0) | (pl.col("pos") <= self.k) | pl.col("equal")
            return bool(self.ranked.filter(read).select("query", "item").is_duplicated().any())
        numbered = self.frame.select("items", "gains", i=pl.int_range(pl.len(), dtype=pl.UInt64))
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

    def read(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """The values of the rankings with judgments, in batches, and which are flagged."""
        width = 3 * (self.k if self.layout != "lists" else MAX_LISTED) + 30
        if self.layout == "lists" and frame.height * width > CELLS:
            width = 3 * _longest(frame["places"].list.len()) + 30
        batches = [*frame.iter_slices(max(CELLS // width, 1))] or [frame]
        if len(batches) == 1:
            return [self._read_batch(frame)]
        with ThreadPoolExecutor(min(THREADS, pl.thread_pool_size())) as pool:
            return [*pool.map(self._read_batch, batches)]

    def _read_batch(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The values of some rankings, and which are flagged."""
        rankings, flagged = self._rankings(batch)
        known = {f.name: getattr(rankings, f.name) for f in fields(rankings) if f.init}
        of_hits = {
            lowest: formulas.HitRankings(
                **known, words=[batch[x] for x in protocol.hit_words(lowest, "", "")]
            )
            for lowest in {*self.of_hits.values()}
        }
        values, weights = {}, {}
        for name, (metric, options) in self.metrics.items():
            assert metric.record
            formula, read = formulas.METRICS[metric.record.function], rankings
            if name in self.of_hits:
                read = of_hits[self.of_hits[name]]
            values[name] = formula.value(read, options)
            if metric.record.weight:
                assert formula.weight
                weights[f"{INTERNAL_PREFIX}weight of {name}"] = formula.weight(read, options)
        values |= weights
        if self.conventions.undefined == "drop":
            relevant = rankings.relevant(self.conventions.threshold)
            values = {name: formulas.if_positive(relevant, value) for name, value in values.items()}
        inputs, missing = self.inputs, _repeat(False, batch.height)
        if inputs.qrels and batch["rows"].null_count():
            missing = batch["rows"].is_null()
        columns = {"system": batch["system"]} if inputs.many else {}
        columns |= {inputs.query: batch["query"]}
        columns |= {name: batch[inputs.attribute(name).strip('"')] for name in inputs.by}
        columns |= {MISSING: missing, **values, FLAGGED: flagged}
        return pl.DataFrame([column.alias(name) for name, column in columns.items()])

    def _rankings(self, batch: pl.DataFrame) -> tuple[formulas.Rankings, pl.Series]:
        """The columns of a batch, and which rankings the readable query computes."""
        zero = _repeat(0.0, batch.height)
        flagged = _repeat(False, batch.height)
        cutoffs = [*dict.fromkeys(options["k"] for _, options in self.metrics.values())]
        known: dict[str, Any] = {"zero": zero, "cutoffs": cutoffs}
        known["counts"] = protocol.read_counts("ideal", self.end, batch)
        if self.counts:
            for name, column in (("retrieved", "placed"), ("judged", "judged")):
                known[name] = protocol.filled(batch[column].cast(pl.Float64), 0.0)
        name = "tied" if self.inputs.scored else "shared"
        if self.has(name) and not self.ranks_ties:
            flagged = flagged | protocol.filled(batch[name], False)
        if self.layout != "lists":
            if self.ideal_retrieved:
                known["ideal_counts"] = protocol.read_counts("retrieved", self.end, batch)
            words = [*enumerate(self.words.read(batch), start=1)]
            return formulas.Rankings(words, **known), flagged
        items, longer = _item_columns(batch, sort=self.ranked is None)
        flagged = flagged | longer
        known["highest"] = batch["places"].list.max().max() or 0
        if self.ideal_retrieved:
            known["ideal_counts"] = [
                formulas.sum_columns((formulas.to_double(rel >= grade) for _, rel in items), zero)
                for grade in range(1, self.end + 1)
            ]
        return formulas.Rankings(items, **known), flagged


def _repeat(value: float | bool, height: int) -> pl.Series:
    """A column of one value, which `pl.repeat` makes more slowly."""
    return pl.Series([value]).new_from_index(0, height)


def _item_columns(
    batch: pl.DataFrame, sort: bool
) -> tuple[list[tuple[pl.Series, pl.Series]], pl.Series]:
    """The positions and grades of the first items of each ranking, by position, and whether it has
    more. sort: the lists are in another order.
    """
    lists = _sort_items(batch) if sort else batch
    lengths = protocol.filled(batch["places"].list.len(), 0)
    width, found = _longest(lengths), list[list[pl.Series]]()
    for name, absent in (("places", math.inf), ("rels", 0.0)):
        items = lists[name].list.to_struct(fields=[f"{name} {i}" for i in range(width)])
        values = pl.all().cast(pl.Float64).fill_null(absent)
        found.append(items.struct.unnest().select(values).get_columns() if width else [])
    return [*zip(*found, strict=True)], lengths > MAX_LISTED


def _sort_items(batch: pl.DataFrame) -> pl.DataFrame:
    """The lists of each ranking by position."""
    numbered = batch.lazy().select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("i"), "places", "rels"
    )
    rows = numbered.filter(pl.col("places").list.len() > 0).explode("places", "rels")
    rows = rows.sort("i", "places").cast({"places": pl.Float64})
    lists = rows.group_by("i", maintain_order=True).agg("places", "rels")
    return numbered.select("i").join(lists, on="i", how="left", maintain_order="left").collect()


def _longest(lengths: pl.Series) -> int:
    """The number of columns for lists of these lengths."""
    return min(int(lengths.max() or 0), MAX_LISTED)  # type: ignore[arg-type]


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
    inputs, conventions, metrics = evaluation.inputs, evaluation.conventions, evaluation.computed
    counters = Reduction(evaluation)
    if may_lack_threads() or conventions.unjudged == "remove":
        return counters
    options = {m.name: formulas.supported_options(m, conventions, inputs.scored) for m in metrics}
    named = {metric.name: (metric, o) for metric in metrics if (o := options[metric.name])}
    if not named or not (end := evaluation.grade_scale):
        return counters
    ranked = inputs.qrels is None and not inputs.scored
    if ranked:  # for other metrics, macros are faster than lists
        of_hits = {name for name, pair in named.items() if _reads_hits(*pair)}
        if of_hits and evaluation.has_grade((">", protocol.MAX_HITS), role="pos"):
            of_hits = set()
        named = {x: pair for x, pair in named.items() if x in of_hits or _is_small(pair[0])}
    reduced = [metric for metric, _ in named.values()]
    if not reduced:
        return counters
    layout: protocol.Layout = "words" if ranked else "joined"
    reads = ctes.rows_needed(reduced, conventions)
    reduction = Reduction(evaluation, layout, named, end, reads)
    if not ranked and not all(map(_is_small, reduced)):
        layout = "lists"
    elif inputs.scored:
        layout = "hashes" if inputs.qrels is None or reduction.ideal_retrieved else "cuts"
    return replace(reduction, layout=layout)


def _is_small(metric: Metric) -> bool:
    """Does a metric read the first items only, few enough for words?"""
    reads_all = metric.record and metric.record.rows == "judged" and metric.record.reads_judged
    return metric.k is not None and metric.k <= MAX_WORDS_K and not reads_all


def _reads_hits(metric: Metric, options: formulas.Options) -> bool:
    """Does a metric without a small cutoff follow from the positions of the hits?"""
    assert metric.record
    formula, by = formulas.METRICS[metric.record.function], options.get("denominator")
    counts_shown = options["k"] is None and (metric.record.counts_retrieved or by == "k")
    return formula.reads_hits and not counts_shown and not _is_small(metric)
