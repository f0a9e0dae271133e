"""Metrics of shown items, such as Coverage@10 and Novelty@10, and items that users had before.

They read the first k items of each ranking, the interactions of training (`train=`) and the
catalogue, each once, into temporary tables. Metrics of a list have a value per query, those of the
catalogue one by system and slice, from how often each item is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.evaluation.means import Meta, grouping_sets, slice_columns, sliced_attributes
from rankql.evaluation.overlap import format_examples, run_label
from rankql.evaluation.readable import is_catalogue
from rankql.evaluation.resolve import Facts
from rankql.evaluation.steps import (
    attributes_by_query,
    ranking_ctes,
    select_from,
    source_ctes,
    with_ctes,
)
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.processes import may_lack_threads
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.private import create_macros
from rankql.sources.reader import count_values, fetch, fetch_frame
from rankql.sources.session import Session
from rankql.text import is_or_are, join_words

# The column of a metric that reads as many positions, so that these are checked.
POSITIONS = f"{INTERNAL_PREFIX}positions"
SEEN, LINE, QUERY, ITEM = (f"{INTERNAL_PREFIX}{name}" for name in ("seen", "line", "q", "i"))
# Whether so many interactions are distinct, their hashes say in polars in a third of the time that
# DuckDB takes. They take 16 bytes each, to which memory_limit does not apply.
IN_POLARS = range(500_000, 100_000_000)
# A larger share of items that the user has in train is worth a note.
MUCH_SEEN = 0.01


def require_sources(inputs: Inputs, metrics: Sequence[Metric], seen: str | None) -> None:
    """Refuse metrics whose tables are missing, and options without a metric that reads them."""
    if seen is not None and inputs.train is None:
        raise RankqlError(f"seen={seen!r} needs the interactions of training. Pass train=")
    shown = [metric for metric in metrics if metric.shown]
    if inputs.catalogue is not None and not any(map(_reads_catalogue, shown)):
        raise RankqlError(
            "catalogue is an option of Coverage and Gini, such as Coverage@10. Write it in the "
            "metric of an expression: gini(item, catalogue := 500)"
        )
    for metric in shown:
        assert metric.shown
        if not inputs.every("item") or inputs.numbered:
            raise RankqlError(f"{metric.name} needs ids of items. Name their column: item='...'")
        if inputs.train is None and metric.shown.level == "list":
            raise RankqlError(
                f"{metric.name} needs the interactions of training. Pass train= (CLI: --train)"
            )
        if inputs.train is None and inputs.catalogue is None and _reads_catalogue(metric):
            raise RankqlError(
                f"{metric.name} needs the items that could be shown. Pass train= (CLI: --train), "
                "or a table of them or their number as catalogue= (CLI: --catalogue)"
            )


def _reads_catalogue(metric: Metric) -> bool:
    return metric.shown is not None and "known" in metric.shown.of_shown


def reduced_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that are not of shown items, and one that reads the positions of these."""
    others = [metric for metric in metrics if not metric.shown]
    if len(others) == len(metrics):
        return others
    return [*others, replace(parse("P")[0], k=_cutoff(metrics), label=POSITIONS)]


def _cutoff(metrics: Sequence[Metric]) -> int | None:
    """The last position that is read; of other metrics, the highest cutoff."""
    shown = [metric.k for metric in metrics if metric.shown]
    cutoffs = [k for k in shown or [metric.k for metric in metrics] if k is not None]
    return None if len(cutoffs) < len(shown) else max(cutoffs, default=None)


@dataclass
class Shown:
    """The items shown and what is known of them, in temporary tables of a session."""

    facts: Facts
    conventions: Conventions
    metrics: Sequence[Metric]
    groups: Sequence[Sequence[str]]
    # The SQL of the values, after that of the tables.
    queries: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session, self.inputs = self.facts.session, self.facts.inputs
        self.k = _cutoff(self.metrics)
        calls = "".join(metric.shown.of_shown for metric in self.metrics if metric.shown)
        self.shown = self._load("shown", self._write_shown("rel" in calls))
        self.users = self.size = 0
        if self.inputs.train:
            self._load_train(bool(calls))
        if any(map(_reads_catalogue, self.metrics)):
            self._load_catalogue()

    def compute(self, values: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, list[dict[str, Any]]]]:
        """The values per query with these metrics, and those of the catalogue."""
        catalogue: dict[str, list[dict[str, Any]]] = {}
        columns: dict[str, pl.Series] = {}
        for k in dict.fromkeys(metric.k for metric in self.metrics if metric.shown):
            metrics = [metric for metric in self.metrics if metric.shown and metric.k == k]
            together = [metric for metric in metrics if is_catalogue(metric)]
            lists = [metric for metric in metrics if metric not in together]
            if lists:
                columns |= self._compute_lists(values, lists)
            if together:
                catalogue |= self._compute_together(together)
        if POSITIONS in values.columns:
            if self.conventions.undefined == "drop":
                has_relevant = values[POSITIONS].is_not_null()
                columns = {n: x.zip_with(has_relevant, x.clear(len(x))) for n, x in columns.items()}
            values = values.drop(POSITIONS)
        none = pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
        added = columns | dict.fromkeys(catalogue, none)
        return values.hstack([column.alias(name) for name, column in added.items()]), catalogue

    def _load(self, label: str, sql: str, shown: str = "") -> str:
        """A temporary table of a query, which the SQL of the result has without private names.

        shown: an equal query that it has instead.
        """
        known = {*self.session.loaded}
        query = create_macros(self.session.con, sql)
        table = self.session.load(label, f"(\n{query}\n)", text=False)
        (name,) = self.session.loaded.keys() - known
        self.session.loaded[name] = f"CREATE TEMP TABLE {quote(name)} AS\n{shown or sql}"
        return table.sql

    def _write_shown(self, graded: bool) -> str:
        """The first items of each ranking with the attributes of its query; maybe grades."""
        inputs, keys = self.inputs, self.inputs.keys
        positions, top = [replace(parse("P")[0], k=self.k)], "ranked"
        steps = source_ctes(inputs, self.conventions)
        if self._shows_all():
            top = "(SELECT *, 1 AS pos FROM run WHERE score IS NOT NULL)"
        else:
            steps |= ranking_ctes(inputs, positions, self.conventions, "shown")
        within = "pos IS NOT NULL" if self.k is None else f"pos <= {self.k}"
        alone = inputs.qrels is None
        rows = ", ".join([keys, "item", "pos", *(["rel"] if alone and inputs.every("rel") else [])])
        source = f"(SELECT {rows} FROM {top} WHERE {within})"
        fields = [rows, *map(inputs.attribute, inputs.by)]
        if not alone:
            source += " SEMI JOIN qrels USING (query)"
        if graded and not alone:
            grades = "(SELECT query, item, max(rel) AS rel FROM qrels GROUP BY ALL)"
            source, fields = f"{source} LEFT JOIN {grades} USING (query, item)", [*fields, "rel"]
        for home in ("qrels", "run", "attributes"):
            if inputs.attributes_in(home):
                source += f" LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
        return with_ctes(steps) + select_from(source, fields)

    def _shows_all(self) -> bool:
        """Are all items shown, so that their order says nothing?"""
        cutoffs = {metric.k for metric in self.metrics if metric.shown} or {self.k}
        if not self.inputs.scored or cutoffs != {self.k} or self.conventions.unjudged == "remove":
            return False
        longest = f"SELECT count(score) AS n FROM run GROUP BY {self.inputs.keys}"
        steps = with_ctes(source_ctes(self.inputs, self.conventions))
        return self.k is None or not fetch(
            self.session, f"{steps}SELECT 1 FROM ({longest}) WHERE n > {self.k} LIMIT 1"
        )

    def _load_train(self, asked: bool) -> None:
        """The popularity of items, the number of users, and the pairs that were seen before."""
        train = train_cte(self.inputs)
        if asked:
            self._load_popular(train)
            self._require_common_items(self.popular, "train")
        pairs = f"SELECT query, item FROM {self.shown} AS shown SEMI JOIN train USING (query, item)"
        self.seen = self._load("seen", f"{train}SELECT DISTINCT * FROM ({pairs})")
        counts = self._count_by_system(f"SEMI JOIN {self.seen} USING (query, item)")
        totals = self._count_by_system("") if counts else {}
        first = "" if self.k is None else f" in the first {self.k} positions"
        for system, count in counts.items():
            if count > MUCH_SEEN * totals[system]:
                self.notes.append(
                    f"{count / totals[system]:.1%} of the items of {run_label(system)}{first} are "
                    "in train for the same user. seen='drop' (CLI: --seen drop) removes them"
                )
        if not counts:
            users = f"SELECT 1 FROM train SEMI JOIN {self.shown} AS shown USING (query) LIMIT 1"
            if not fetch(self.session, train + users):
                self.notes.append(
                    "No user of the run is in train. If this is not true, write their ids the same "
                    "way in both"
                )

    def _load_popular(self, train: str) -> None:
        """The items of train with the number of their users and their place by it."""
        assert self.inputs.train
        popular = "SELECT i.value AS item, users, place FROM rankql_popular('train', {})"
        popular = popular.format("'query', 'item'")
        rows, _ = count_values(self.session, self.inputs.train, [])
        if rows not in IN_POLARS or may_lack_threads():
            self.popular = self._load("popular", train + popular)
            ((self.users,),) = fetch(
                self.session, f"{train}SELECT count(DISTINCT query) FROM train"
            )
            return
        pair = "hash(query, item)"
        sql = f"{train}SELECT {pair} AS h, hash(query) AS q FROM train"
        frame = fetch_frame(self.session, sql, few=False)
        self.users, hashes = frame["q"].n_unique(), frame["h"].sort()
        repeated = hashes.filter(hashes == hashes.shift()).unique().alias("h").to_frame()
        counts, size = "SELECT item, count(*) AS n FROM train GROUP BY item", "n"
        if len(repeated):
            name = self.session.register("repeated", repeated).sql
            more = f"FROM train WHERE {pair} IN (FROM {name}) GROUP BY item"
            more = f"SELECT item, count(*) - count(DISTINCT query) AS more {more}"
            counts, size = f"({counts}) LEFT JOIN ({more}) USING (item)", "n - coalesce(more, 0)"
        place = "row_number() OVER (ORDER BY users DESC, rankql_key(item) ASC NULLS LAST) AS place"
        ranked = f"{train}SELECT *, {place} FROM (SELECT item, {size} AS users FROM ({counts}))"
        self.popular = self._load("popular", ranked, train + popular)

    def _count_by_system(self, rest: str) -> dict[str | None, int]:
        system = "system" if self.inputs.many else "NULL"
        sql = f"SELECT {system}, count(*) FROM {self.shown} AS shown {rest} GROUP BY ALL ORDER BY 1"
        return {system: count for system, count in fetch(self.session, sql) if count}

    def _require_common_items(self, table: str, label: str) -> None:
        """Refuse a run without any item of a table: their ids are probably written differently."""
        rows = f"SELECT 1 FROM {self.shown} AS shown SEMI JOIN {table} USING (item) LIMIT 1"
        if fetch(self.session, rows):
            return
        least = "(SELECT min(DISTINCT item, 3) FROM {})".format
        ((items, others),) = fetch(self.session, f"SELECT {least(self.shown)}, {least(table)}")
        if items:
            raise RankqlError(
                f"No item of the run is in {label}: the run has {format_examples(items)}, {label} "
                f"has {format_examples(others)}. Write item ids the same way in both"
            )

    def _load_catalogue(self) -> None:
        """The items that could be shown, and their number."""
        self.items, given = "", self.inputs.catalogue
        if isinstance(given, int):
            self.size = given
            return
        if given is None:
            graded = f"SELECT item FROM {self.inputs.graded} WHERE rel IS NOT NULL"
            rows = f"SELECT item FROM {self.popular} UNION {graded}"
            rows = with_ctes(source_ctes(self.inputs, self.conventions)) + rows
        else:
            item = given.key("item", self.inputs.as_text("item"))
            rows = f"SELECT DISTINCT {item} AS item FROM {given.sql}"
        self.items = self._load("catalogue", rows)
        self._require_common_items(self.items, "catalogue")
        ((self.size,),) = fetch(self.session, f"SELECT count(*) FROM {self.items}")

    def _compute_lists(
        self, values: pl.DataFrame, metrics: Sequence[Metric]
    ) -> dict[str, pl.Series]:
        """The columns of metrics of a list, all with one cutoff."""
        calls = {metric.name: self._call(metric) for metric in metrics}
        rows = (
            f"(SELECT shown.*, users AS popularity, coalesce(place <= {metrics[0].k}, false) AS "
            f"baseline, pairs.item IS NOT NULL AS seen FROM {self.shown} AS shown "
            f"LEFT JOIN {self.popular} USING (item) "
            f"LEFT JOIN {self.seen} AS pairs USING (query, item))"
        ).replace("place <= None", "NULL")
        fields = [self.inputs.keys, *(f"{call} AS {quote(name)}" for name, call in calls.items())]
        sql = select_from(rows, fields, f"{self._within(metrics)}GROUP BY {self.inputs.keys}")
        self.queries.append(sql)
        found = fetch_frame(self.session, sql, few=False)
        names = [*(["system"] if self.inputs.many else []), self.inputs.query]
        # Names of users may be patterns of polars.
        keys = [str(i) for i in range(len(names))]
        order = pl.DataFrame([values[n].alias(key) for n, key in zip(names, keys, strict=True)])
        found.columns = [*keys, *(f"metric {i}" for i in range(len(calls)))]
        joined = order.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")
        return dict(zip(calls, joined.get_columns()[len(keys) :], strict=True))

    def _within(self, metrics: Sequence[Metric]) -> str:
        k = metrics[0].k
        return "" if k is None or k == self.k else f"WHERE pos <= {k} "

    def _call(self, metric: Metric) -> str:
        """A metric over the rows of a list, or over lists of counts."""
        assert metric.shown
        rules = vars(self.conventions)
        options = {name: literal(metric.value(name, rules)) for name in metric.shown.options}
        return metric.shown.of_shown.format(**options, size=self.size, train_users=self.users)

    def _compute_together(self, metrics: Sequence[Metric]) -> dict[str, list[dict[str, Any]]]:
        """The values of metrics of the catalogue, all with one cutoff, by system and slice."""
        meta = Meta("", [], {}, self.inputs.many, [*self.inputs.by], [[*g] for g in self.groups])
        attributes = sliced_attributes(meta)
        slice_, _ = slice_columns(attributes)
        systems = ["system"] if self.inputs.many else []
        keys = ", ".join([*systems, "slice"])
        each = [*systems, f"{slice_} AS slice"]

        def grouped(more: Sequence[str], count: str) -> str:
            rest = f"GROUP BY GROUPING SETS ({grouping_sets(meta, attributes, more)})"
            fields = [*each, *more, count]
            return select_from(f"{self.shown} AS shown", fields, self._within(metrics) + rest)

        readers = [metric.name for metric in metrics if _reads_catalogue(metric)]
        known = f"item IN (SELECT item FROM {self.items})" if readers and self.items else "true"
        steps = {"counts": grouped(["item"], "CAST(count(*) AS DOUBLE) AS n")}
        counts = f"(SELECT *, {known} AS inside FROM counts)"
        ordered = "coalesce(list_sort(list(n) {}, 'ASC', 'NULLS LAST'), []) AS {}"
        lists = [ordered.format("", "shown"), ordered.format("FILTER (WHERE inside)", "known")]
        steps["lists"] = select_from(counts, [keys, *lists], f"GROUP BY {keys}")
        source = "lists"
        calls = [self._call(metric) for metric in metrics]
        if any("people" in call for call in calls):
            steps["people"] = grouped([], "count(DISTINCT query) AS people")
            source = f"lists JOIN people USING ({keys})"
        sizes = ["len(shown)", "len(known)"]
        order = f"ORDER BY {', '.join(f'{x} ASC' for x in keys.split(', '))}"
        sql = with_ctes(steps) + select_from(source, [keys, *calls, *sizes], order)
        self.queries.append(sql)
        values: dict[str, list[dict[str, Any]]] = {metric.name: [] for metric in metrics}
        for row in fetch(self.session, sql):
            (*system, part), (shown, inner) = row[: len(systems) + 1], row[-2:]
            place = {"system": system[0] if system else None, "slice": part}
            for name, value in zip(values, row[len(systems) + 1 :], strict=False):
                values[name].append(place | {"value": value})
            if readers and part == "all":
                self._check_catalogue(readers, place["system"], shown, inner)
        return values

    def _check_catalogue(
        self, names: Sequence[str], system: str | None, shown: int, known: int
    ) -> None:
        """Refuse a number below that of the items shown; note items that are not in the table."""
        if not self.items and shown > self.size:
            raise RankqlError(
                f"catalogue={self.size} is less than the {shown:,} items that {run_label(system)} "
                "shows. Pass the number of items that could be shown, or a table of them"
            )
        if known < shown:
            other = f"{shown - known:,} of {shown:,} items of {run_label(system)}"
            verb = "leaves" if len(names) == 1 else "leave"
            self.notes.append(
                f"{join_words(names)} {verb} out {other} that {is_or_are(shown - known)} not in "
                f"the catalogue of {self.size:,} items"
            )


def train_cte(inputs: Inputs) -> str:
    """The interactions of training with standard names, as a WITH clause."""
    assert inputs.train
    fields = [f"{inputs.train.key(r, inputs.as_text(r))} AS {r}" for r in ("query", "item")]
    return with_ctes({"train": select_from(inputs.train.sql, fields)})


def drop_seen(session: Session, inputs: Inputs, conventions: Conventions) -> Inputs:
    """The runs without the items that the user has in train; those below move up. With a note."""
    train, runs, notes = train_cte(inputs), {}, []
    text = {role: inputs.as_text(role) for role in ("query", "item")}
    for system, table in inputs.runs.items():
        query, item = (table.key(role, text[role]) for role in text)
        pairs = f"(SELECT {query} AS query, {item} AS item FROM {table.sql})"
        sql = (
            f"{train}SELECT DISTINCT query AS {QUERY}, item AS {ITEM} FROM train SEMI JOIN {pairs}"
        )
        seen = session.load(
            f"seen of {table.label}", f"({sql} USING (query, item))", text=False
        ).sql
        place = table.roles["score" if inputs.scored else "pos"]
        value, assumed = quote(place), dict(table.assumed)
        if not inputs.scored:
            ids = ", ".join(quote(x) for x in inputs.ids(table) if x != table.roles["item"])
            above = (
                f"count(*) FILTER (WHERE {SEEN}) OVER (PARTITION BY {ids} ORDER BY "
                f"{table.number('pos')} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW "
                "EXCLUDE GROUP)"
            )
            value = f"CAST({table.number('pos')} - {above} AS BIGINT)"
            assumed["pos"] = f"{table.role_columns['pos']} (renumbered)"
        # The item of a table with grades stays judged.
        judged = inputs.qrels is None
        value = f"CASE WHEN NOT {SEEN} THEN {value} END"
        rows = (
            f"(SELECT run_.*, {ITEM} IS NOT NULL AS {SEEN}, row_number() OVER () AS {LINE} "
            f"FROM {table.sql} AS run_ LEFT JOIN {seen} ON {query} = {QUERY} AND {item} = {ITEM})"
        )
        moved = f"SELECT * REPLACE ({value} AS {quote(place)}) FROM {rows}"
        kept = "" if judged else f" WHERE NOT {SEEN}"
        kept += f" ORDER BY {LINE}" if conventions.ties == "order" else ""
        sql = f"(SELECT * EXCLUDE ({SEEN}, {LINE}) FROM ({moved}){kept})"
        ((total, count),) = session.con.execute(
            f"SELECT count({quote(place)}), count({quote(place)}) FILTER (WHERE {SEEN}) FROM {rows}"
        ).fetchall()
        if count == total:
            raise RankqlError(
                f"seen='drop' leaves nothing: every item of {run_label(system)} is in train for "
                "the same user. Pass the interactions before the run as train="
            )
        loaded = session.load(table.label, sql, text=False)
        columns = {**table.columns, place: loaded.columns[place]}
        runs[system] = replace(
            table, sql=loaded.sql, columns=columns, lasting=False, frame=None, assumed=assumed
        )
        notes.append(
            f"seen='drop': {count:,} of {total:,} items of {run_label(system)} {is_or_are(count)} "
            "in train for the same user and left out; the items below move up"
        )
    return replace(inputs, runs=runs, notes=[*inputs.notes, *notes])
