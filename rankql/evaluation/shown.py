"""Metrics of shown items, such as Coverage@10 and Novelty@10, and items that users had before.

They read the first k items of each ranking, the interactions of training (`train=`) and the
catalogue, each once, into temporary tables. Metrics of a list have a value per query, those of the
catalogue one by system and slice, from how often each item is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.evaluation.overlap import format_examples, run_label
from rankql.evaluation.readable import catalogue_slices, is_catalogue, join_attributes
from rankql.evaluation.resolve import Facts
from rankql.evaluation.steps import ranking_ctes, select_from, source_ctes, with_ctes, within
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
# The hashes of so many interactions say in polars which are repeated, in half of the time that
# DuckDB takes for distinct ones. They take 8 bytes each, to which memory_limit does not apply.
IN_POLARS = range(500_000, 100_000_000)
# A larger share of items that the user has in train is worth a note.
MUCH_SEEN = 0.01


def require_sources(inputs: Inputs, metrics: Sequence[Metric], seen: str | None) -> None:
    """Refuse metrics whose tables are missing, and options without a metric that reads them."""
    needs_train = "needs the interactions of training. Pass train= (CLI: --train)"
    if seen is not None and inputs.train is None:
        raise RankqlError(f"seen={seen!r} {needs_train}")
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
            raise RankqlError(f"{metric.name} {needs_train}")
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
    return [*others, replace(_read_positions(metrics), label=POSITIONS)]


def _read_positions(metrics: Sequence[Metric]) -> Metric:
    """A metric of the positions that these read."""
    return replace(parse("P")[0], k=_cutoff(metrics))


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
    # The users of train, and the items that could be shown.
    users: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.session, self.inputs = self.facts.session, self.facts.inputs
        self.known = [metric for metric in self.metrics if metric.shown]
        first = _read_positions(self.metrics)
        k = first.k
        graded = any("rel" in metric.shown.of_shown for metric in self.known if metric.shown)
        steps = source_ctes(self.inputs, self.conventions)
        steps |= ranking_ctes(self.inputs, [first], self.conventions, "all" if graded else "shown")
        fields = [self.inputs.keys, "item", "pos", *(["rel"] if graded else [])]
        fields += map(self.inputs.attribute, self.inputs.by)
        rows = select_from(join_attributes(self.inputs), fields, within(k))
        self.shown = self._load("shown", with_ctes(steps) + rows)
        if self.inputs.train:
            self._load_train("" if k is None else f" in the first {k} positions")
        if readers := [metric for metric in self.known if _reads_catalogue(metric)]:
            self._load_catalogue(readers)

    def compute(self, values: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, list[dict[str, Any]]]]:
        """The values per query with these metrics, and those of the catalogue."""
        catalogue: dict[str, list[dict[str, Any]]] = {}
        columns: dict[str, pl.Series] = {}
        for k in dict.fromkeys(metric.k for metric in self.known):
            metrics = [metric for metric in self.known if metric.k == k]
            if together := [metric for metric in metrics if is_catalogue(metric)]:
                catalogue |= self._compute_together(together, within(k))
            if lists := [metric for metric in metrics if metric not in together]:
                columns |= self._compute_lists(values, lists, within(k))
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
        query = create_macros(self.session.con, sql)
        table = self.session.load(label, f"(\n{query}\n)", text=False)
        name = [*self.session.loaded][-1]
        self.session.loaded[name] = f"CREATE TEMP TABLE {quote(name)} AS\n{shown or sql}"
        return table.sql

    def _load_train(self, positions: str) -> None:
        """The popularity of items, the number of users, and the pairs that were seen before."""
        train = train_cte(self.inputs)
        if self.known:
            pairs = "SELECT DISTINCT query, item FROM train"
            distinct = f"SELECT item, count(*) AS users FROM ({pairs}) GROUP BY item"
            place = "row_number() OVER (ORDER BY users DESC, item ASC NULLS LAST) AS place"
            ranked, counts = f"{train}SELECT *, {place} FROM ({{}})", self._count_users(train)
            popular = ranked.format(counts or distinct)
            self.popular = self._load("popular", popular, ranked.format(distinct))
            users = f"{train}SELECT count(DISTINCT query) FROM train"
            ((self.users,),) = fetch(self.session, users)
            self._count_items(self.popular, "train")
        both = f"train SEMI JOIN {self.shown} AS shown USING (query, item)"
        self.seen = self._load("seen", f"{train}SELECT DISTINCT query, item, 1 AS seen FROM {both}")
        counts_of = self._count(self.shown, self.seen, "query, item")
        for system, total, count in counts_of:
            if count > MUCH_SEEN * total:
                self.notes.append(
                    f"{count / total:.1%} of the items of {run_label(system)}{positions} are "
                    "in train for the same user. seen='drop' (CLI: --seen drop) removes them"
                )
        if not any(count for *_, count in counts_of):
            users = f"SELECT 1 FROM train SEMI JOIN {self.shown} AS shown USING (query) LIMIT 1"
            if not fetch(self.session, train + users):
                self.notes.append(
                    "No user of the run is in train. If this is not true, write their ids the same "
                    "way in both"
                )

    def _count_users(self, train: str) -> str:
        """SQL of the number of users of each item, from its rows and its repeated pairs; or ""."""
        assert self.inputs.train
        rows, _ = count_values(self.session, self.inputs.train, [])
        if rows not in IN_POLARS or may_lack_threads():
            return ""
        pair = "hash(query, item)"
        hashes = fetch_frame(self.session, f"{train}SELECT {pair} AS h FROM train", few=False)["h"]
        hashes = hashes.sort()
        repeated = hashes.filter(hashes == hashes.shift()).unique().to_frame()
        name = self.session.register("repeated", repeated).sql
        more = "SELECT item, count(*) - count(DISTINCT query) AS more FROM train "
        more += f"WHERE {pair} IN (FROM {name}) GROUP BY item"
        counts = "SELECT item, count(*) AS n FROM train GROUP BY item"
        both = f"({counts}) LEFT JOIN ({more}) USING (item)"
        return f"SELECT item, n - coalesce(more, 0) AS users FROM {both}"

    def _count(self, rows: str, table: str, key: str) -> list[tuple[str | None, int, int]]:
        """How many rows each system has, and of how many the table has the key."""
        system = "system" if self.inputs.many else "NULL"
        common = f"(SELECT {key}, true AS common FROM {table}) AS others USING ({key})"
        sql = f"SELECT {system}, count(*), count(common) FROM {rows} AS shown LEFT JOIN {common}"
        return fetch(self.session, f"{sql} GROUP BY ALL ORDER BY 1")

    def _count_items(
        self, table: str, label: str, where: str = ""
    ) -> list[tuple[str | None, int, int]]:
        """How many items each system shows, and how many of them a table has.

        Refuses a table without any of them: their ids are probably written differently.
        """
        keys = self.inputs.keys.replace("query", "item")
        rows = f"(SELECT DISTINCT {keys} FROM {self.shown} AS shown {where})"
        counts = self._count(rows, table, "item")
        if counts and not any(count for *_, count in counts):
            least = "(SELECT min(DISTINCT item, 3) FROM {})".format
            ((items, others),) = fetch(self.session, f"SELECT {least(self.shown)}, {least(table)}")
            raise RankqlError(
                f"No item of the run is in {label}: the run has {format_examples(items)}, {label} "
                f"has {format_examples(others)}. Write item ids the same way in both"
            )
        return counts

    def _load_catalogue(self, readers: Sequence[Metric]) -> None:
        """The items that could be shown, and their number.

        Refuses a number below that of the items shown, and notes items that are not in the table.
        """
        given = self.inputs.catalogue
        if given is None:
            graded = f"SELECT item FROM {self.inputs.graded} WHERE rel IS NOT NULL"
            rows = f"SELECT item FROM {self.popular} UNION {graded}"
            rows = with_ctes(source_ctes(self.inputs, self.conventions)) + rows
        elif isinstance(given, int):
            rows = f"SELECT DISTINCT item FROM {self.shown}"
        else:
            item = given.key("item", self.inputs.as_text("item"))
            rows = f"SELECT DISTINCT {item} AS item FROM {given.sql}"
        self.items = self._load("catalogue", rows)
        ((count,),) = fetch(self.session, f"SELECT count(*) FROM {self.items}")
        self.size = given if isinstance(given, int) else count
        names = [metric.name for metric in readers]
        rows = within(_cutoff(readers))
        for system, total, known in self._count_items(self.items, "catalogue", rows):
            if known > self.size:
                raise RankqlError(
                    f"catalogue={self.size} is less than the {total:,} items that "
                    f"{run_label(system)} shows. Pass the number of items that could be shown, or "
                    "a table of them"
                )
            if known < total:
                self.notes.append(
                    f"{join_words(names)} {'leaves' if len(names) == 1 else 'leave'} out "
                    f"{total - known:,} of {total:,} items of {run_label(system)} that "
                    f"{is_or_are(total - known)} not in the catalogue of {self.size:,} items"
                )

    def _compute_lists(
        self, values: pl.DataFrame, metrics: Sequence[Metric], where: str
    ) -> dict[str, pl.Series]:
        """The columns of metrics of a list, all with one cutoff."""
        names, calls = [metric.name for metric in metrics], map(self._call, metrics)
        rows = f"{self.shown} AS shown LEFT JOIN {self.popular} AS popular USING (item) "
        rows += f"LEFT JOIN {self.seen} AS seen USING (query, item)"
        sql = select_from(rows, [self.inputs.keys, *calls], f"{where} GROUP BY {self.inputs.keys}")
        self.queries.append(sql)
        found = fetch_frame(self.session, sql, few=False)
        queries = [*(["system"] if self.inputs.many else []), self.inputs.query]
        # Names of users may be patterns of polars.
        keys = [str(i) for i in range(len(queries))]
        order = pl.DataFrame([values[n].alias(key) for n, key in zip(queries, keys, strict=True)])
        found.columns = [*keys, *(f"metric {i}" for i in range(len(names)))]
        joined = order.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")
        return dict(zip(names, joined.get_columns()[len(keys) :], strict=True))

    def _call(self, metric: Metric) -> str:
        """A metric over the rows of a list, or over lists of counts."""
        assert metric.shown
        rules = vars(self.conventions)
        options = {name: literal(metric.value(name, rules)) for name in metric.shown.options}
        options |= {"k": str(metric.k), "size": str(self.size), "train_users": str(self.users)}
        return metric.shown.of_shown.format(**options)

    def _compute_together(
        self, metrics: Sequence[Metric], where: str
    ) -> dict[str, list[dict[str, Any]]]:
        """The values of metrics of the catalogue, all with one cutoff, by system and slice."""
        columns, sets = catalogue_slices(self.inputs, self.groups)
        keys = self.inputs.keys.replace("query", "slice")

        def grouped(count: str, *more: str) -> str:
            rest = f"{where} GROUP BY GROUPING SETS ({sets(more)})"
            return select_from(f"{self.shown} AS shown", [columns, *more, count], rest)

        known = any(map(_reads_catalogue, metrics))
        inside = f"item IN (SELECT item FROM {self.items})" if known else "true"
        ordered = "list(n ORDER BY n ASC NULLS LAST)"
        lists = f"{ordered} AS shown, coalesce({ordered} FILTER (WHERE inside), []) AS known"
        counts = f"(SELECT *, {inside} AS inside FROM counts)"
        steps = {
            "counts": grouped("CAST(count(*) AS DOUBLE) AS n", "item"),
            "lists": select_from(counts, [keys, lists], f"GROUP BY {keys}"),
        }
        source, calls = "lists", [self._call(metric) for metric in metrics]
        if any("people" in call for call in calls):
            steps["people"] = grouped("count(DISTINCT query) AS people")
            source = f"lists JOIN people USING ({keys})"
        order = f"ORDER BY {keys.replace(',', ' ASC,')} ASC"
        sql = with_ctes(steps) + select_from(source, [keys, *calls], order)
        self.queries.append(sql)
        return fetch_by_slice(self.session, self.inputs, sql, [metric.name for metric in metrics])


def fetch_by_slice(
    session: Session, inputs: Inputs, sql: str, names: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The values of metrics of the catalogue by system and slice."""
    values: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in fetch(session, sql, True):
        *system, part = row[: 1 + inputs.many]
        place = {"system": system[0] if system else None, "slice": part}
        for name, value in zip(names, row[1 + inputs.many :], strict=True):
            if value is not None and not math.isfinite(value):
                raise RankqlError(f"metrics: {name} is {value:g}, but must be a finite number")
            values[name].append(place | {"value": value})
    return values


def train_cte(inputs: Inputs) -> str:
    """The interactions of training with standard names, as a WITH clause."""
    assert inputs.train
    fields = [f"{inputs.train.key(r, inputs.as_text(r))} AS {r}" for r in ("query", "item")]
    return with_ctes({"train": select_from(inputs.train.sql, fields)})


def drop_seen(session: Session, inputs: Inputs, conventions: Conventions) -> Inputs:
    """The runs without the items that the user has in train; those below move up. With a note."""
    train, runs, notes = train_cte(inputs), {}, []
    for system, table in inputs.runs.items():
        query, item = (table.key(role, inputs.as_text(role)) for role in ("query", "item"))
        pairs = f"(SELECT {query} AS query, {item} AS item FROM {table.sql}) AS run"
        both = f"train SEMI JOIN {pairs} USING (query, item)"
        seen = f"({train}SELECT DISTINCT query AS {QUERY}, item AS {ITEM} FROM {both})"
        place = table.roles["score" if inputs.scored else "pos"]
        value, assumed = quote(place), dict(table.assumed)
        rows = (
            f"(SELECT run.*, {ITEM} IS NOT NULL AND {value} IS NOT NULL AS {SEEN} FROM (SELECT *, "
            f"row_number() OVER () AS {LINE} FROM {table.sql}) AS run LEFT JOIN {seen} AS seen "
            f"ON {query} = {QUERY} AND {item} = {ITEM})"
        )
        if not inputs.scored:
            ids = ", ".join(quote(x) for x in inputs.ids(table) if x != table.roles["item"])
            pos = table.number("pos")
            order = f"ORDER BY {pos} ASC NULLS LAST"
            before = f"dense_rank() OVER (PARTITION BY {ids} {order})"
            after = f"dense_rank() OVER (PARTITION BY {ids}, {SEEN} {order})"
            value = f"CAST({pos} - {before} + {after} AS BIGINT)"
            assumed["pos"] = f"{table.role_columns['pos']} (renumbered)"
        moved = f"SELECT * REPLACE (CASE WHEN NOT {SEEN} THEN {value} END AS {quote(place)})"
        order = f" ORDER BY {LINE}" if conventions.ties == "order" else ""
        loaded = session.load(table.label, f"({moved} FROM {rows}{order})", text=False)
        counts = f"count({quote(place)}), count(*) FILTER (WHERE {SEEN})"
        ((left, count),) = fetch(session, f"SELECT {counts} FROM {loaded.sql}")
        if not left:
            raise RankqlError(
                f"seen='drop' leaves nothing: every item of {run_label(system)} is in train for "
                "the same user. Pass the interactions before the run as train="
            )
        # The item of a table with grades stays judged.
        kept = f" WHERE NOT {SEEN}" if inputs.qrels else ""
        runs[system] = replace(
            table,
            sql=f"(SELECT * EXCLUDE ({SEEN}, {LINE}) FROM {loaded.sql}{kept})",
            columns={**table.columns, place: loaded.columns[place]},
            lasting=False,
            assumed=assumed,
        )
        notes.append(
            f"seen='drop': {count:,} of {left + count:,} items of {run_label(system)} "
            f"{is_or_are(count)} in train for the same user and left out; the items below move up"
        )
    return replace(inputs, runs=runs, notes=[*inputs.notes, *notes])
