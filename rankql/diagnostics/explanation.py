"""Why a value is what it is: what each item contributes where it stands, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.columns import validate_columns
from rankql.evaluation.ctes import (
    BY_ITEM,
    ranking_ctes,
    source_ctes,
    sql_runner,
    with_ctes,
    with_source_ctes,
)
from rankql.evaluation.metric_columns import gain_sql
from rankql.evaluation.overlap import require_common_items, require_ranked_rows
from rankql.evaluation.planning import pending_result, resolve_conventions
from rankql.evaluation.query import build_query
from rankql.evaluation.result import Result
from rankql.evaluation.validation import evaluation_errors, find_duplicates, validate_inputs
from rankql.macros import literal, quoted
from rankql.registry.conventions import Conventions, choose
from rankql.registry.options import require_whole_number
from rankql.registry.parse import MEASURES, Metric, Rows, parse
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.run import execute
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, Table, assign_roles

# Beyond as many rows a table shows only the positions where there is something to see.
LONG = 40
# What is less is what remains of adding up fractions.
DUST = 1e-12


def explain(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    of: Any = None,
    metric: str = "nDCG@10",
    *,
    which: str | None = None,
    worst: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Explanation:
    """What each item of a query contributes to a metric and costs it; without `of` the worst.

    `of` is the id of a query, `which` the system where there are several; everything else is as in
    `evaluate`, whose value is explained. The contribution of an item is its term of the sum that
    the metric is, for nDCG gain / discount / IDCG. In the ideal ranking the judged items stand best
    first, equals in the order in which they stand in the run, those not retrieved last by item::

        loss = contribution at the item's ideal position - contribution where it stands

    It is 0 where it is not in the ranking, or not in the ideal one. So an item that stands too high
    has a loss below 0, for which others pay; an item without gain costs nothing itself; of equals
    none is to blame for standing above another; and the losses add up to the ideal value - the
    value, which is 1 - nDCG. Without `of` they are summed over all queries, by query and by item.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> explain(run, qrels, "a", "RR").positions["item", "contribution", "loss"].rows()
    [('x', 0.0, 0.0), ('y', 0.5, 0.5)]
    """
    require_whole_number("worst", worst, 1)
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    wanted, chosen = _one(metric), choose(conventions, options)
    with open_session(con, run, qrels) as here:
        given = read_inputs(here, run, qrels, None, columns, system, descending=descending)
        validate_columns(here, given)
        for table in given.runs.values():
            assign_roles(table, {}, () if "item" in table.roles else ("item",))
        chosen, (wanted,) = resolve_conventions(here, given, [wanted], chosen)
        _explainable(wanted, chosen)
        with evaluation_errors(here, given, chosen):
            if which is not None:
                given = _of_system(here, given, which)
            if of is None:
                return _all_queries(here, given, wanted, chosen, which, worst)
            if given.many:
                which, given = _only_system(here, given)
            # Of all queries, as the one may well have no judged item in the run.
            ask = sql_runner(here, given, chosen)
            notes = require_ranked_rows(ask, given)
            if given.qrels is not None:
                notes += require_common_items(ask, given)
            explained = _one_query(here, given, wanted, chosen, which, of)
            explained.result.notes += notes
            return explained


@dataclass(eq=False)
class Explanation(show.Tabular):
    """What was explained, and the tables: `positions` of one query, or `queries` and `items`.

    `value` and `ideal` are those of the query, or means over the run (None for several systems).
    """

    metric: str
    sql: str
    result: Result = field(repr=False)
    query: Any = None
    system: str | None = None
    value: float | None = None
    ideal: float | None = None
    positions: pl.DataFrame | None = None
    queries: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    # Of each system the means over the run.
    means: pl.DataFrame | None = None
    worst: int = 10
    formula: str = ""

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions in force."""
        return self.result.conventions

    def to_polars(self) -> pl.DataFrame:
        """The positions of the query, or all queries of the run, the costliest first."""
        frame = self.queries if self.positions is None else self.positions
        assert frame is not None
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; of queries and items the worst."""
        frames = {name: frame.to_dicts() for name, frame in self._frames().items()}
        said = {name: getattr(self, name) for name in ("metric", "system", "query", "value")}
        if self.positions is None:
            said.pop("query")
        about = {"conventions": self.conventions, "columns": self.result.columns}
        return {**said, "ideal": self.ideal, **frames, **about, "notes": self.result.notes}

    def to_markdown(self) -> str:
        """The tables as Markdown."""
        return "\n\n".join(show.markdown(rows, remarks) for rows, remarks in self._tables())

    def __repr__(self) -> str:
        return "\n\n".join(show.text(rows, remarks) for rows, remarks in self._tables())

    def _repr_html_(self) -> str:
        return "".join(show.as_html(rows, remarks) for rows, remarks in self._tables())

    def _frames(self) -> dict[str, pl.DataFrame]:
        if self.positions is not None:
            return {"positions": self.positions}
        frames = {"queries": self.queries, "items": self.items}
        return {name: frame.head(self.worst) for name, frame in frames.items() if frame is not None}

    def _tables(self) -> list[tuple[show.Rows, list[str]]]:
        """The tables as text, each with what belongs below it."""
        if self.positions is None:
            queries, items = self._frames().values()
            return [(_cells(queries), []), (_cells(items), [*self._sums(), *self.result.remarks()])]
        frame, notes = self.positions, []
        if len(frame) > LONG:
            seen = frame.filter(pl.any_horizontal(pl.col(_WORTH).fill_null(0) != 0))
            notes = [f"{len(frame) - len(seen)} positions without gain are not shown"]
            frame = seen
        of = "" if self.system is None else f"{self.system}, "
        notes.append(f"{of}query {show.plain(str(self.query))}: {self.formula}")
        return [(_cells(frame), [*notes, *self._sums(), *self.result.remarks()])]

    def _sums(self) -> list[str]:
        """What the losses add up to, for each system that there is."""
        if self.positions is not None:
            if self.value is None or self.ideal is None:
                return [f"{self.metric} is undefined: there is nothing to be found"]
            loss = float(self.positions["loss"].sum())
            return [f"losses add up to {_equation(loss, self.ideal, self.metric, self.value)}"]
        assert self.queries is not None
        assert self.means is not None
        return [self._sum(mean) for mean in self.means.to_dicts()]

    def _sum(self, mean: dict[str, Any]) -> str:
        system, value, ideal = mean.get("system", self.system), mean["value"], mean["ideal"]
        named = "" if system is None else f" of {system}"
        if value is None:
            return f"{self.metric}{named} is undefined"
        mine = pl.lit(True) if "system" not in mean else pl.col("system") == system
        losses = self.to_polars().filter(mine)["loss"].drop_nulls()
        return (
            f"losses of {len(losses)} queries{named} add up to {losses.sum():z.4f}; "
            f"the mean is {_equation(ideal - value, ideal, self.metric, value)}"
        )


_WORTH = ["contribution", "ideal_contribution", "loss"]


def _equation(loss: float, ideal: float, metric: str, value: float) -> str:
    best = f"{ideal:z.4f}" if abs(ideal - 1) > DUST else "1"
    named = best if best == "1" else f"ideal {best}"
    return f"{loss:z.4f} = {named} - {metric} {value:z.4f}"


def _cells(frame: pl.DataFrame) -> show.Rows:
    """A frame as text: grades as they are given, and no line breaks."""
    exact = [frame.columns.index(name) for name in _EXACT if name in frame.columns]

    def cell(i: int, value: Any) -> str:
        if isinstance(value, float):
            return f"{value:z.6g}" if i in exact else f"{value:z.4f}"
        return show.plain(show.cell(value))

    return [frame.columns, *([cell(i, v) for i, v in enumerate(row)] for row in frame.rows())]


_EXACT = ("rel", "gain", "ideal_rel")


@dataclass(frozen=True)
class Terms:
    """A metric as a sum over the items: the gain of each * the weight of the place it stands at."""

    gain: str
    weight: str
    # What is said of it below the table.
    formula: str
    # The positions that count, and how many of them the ideal ranking may fill.
    cut: str
    room: str
    # What the gain is divided by instead; for nDCG the sum over the ideal ranking becomes 1.
    discount: str = ""
    scaled: bool = False
    # The divisor of each position, where it may be any.
    discounts: tuple[float, ...] = ()
    # The items that the ideal ranking is made of.
    pool: str = "true"


# The weight of a {place}: {hits} stand down to it, {left} is the chance that a user gets there.
_WEIGHTS = {
    "ndcg": "1 / {discount}",
    "dcg": "1 / {discount}",
    "cg": "1",
    "precision_at": "1 / nullif({over}, 0)",
    "judged_at": "1 / nullif({over}, 0)",
    "recall_at": "1 / nullif(relevant, 0)",
    "r_precision": "1 / nullif(relevant, 0)",
    "f1_at": "2 / nullif({over} + relevant, 0)",
    "hit_at": "CAST({hits} = 1 AS DOUBLE)",
    "rr": "CAST({hits} = 1 AS DOUBLE) / {place}",
    "arhr": "1 / {place}",
    "ap": "{hits} / {place} / nullif({over}, 0)",
    "err": "{left} * rankql_utility({place}, {p})",
    "rbp": "(1 - rankql_patience({p})) * rankql_look({place}, {p})",
}
_FORMULAS = {
    "ndcg": "contribution = gain / discount / IDCG",
    "dcg": "contribution = gain / discount",
    "cg": "contribution = gain",
    "precision_at": "gain 1 if relevant, weight 1 / the number of items that it is a share of",
    "judged_at": "gain 1 if judged, weight 1 / the number of items that it is a share of",
    "recall_at": "gain 1 if relevant, weight 1 / the number of relevant items",
    "r_precision": "gain 1 if relevant, weight 1 / the number of relevant items",
    "f1_at": "gain 1 if relevant, weight 2 / (number of items shown + number of relevant items)",
    "hit_at": "gain 1 if relevant, weight 1 for the first that is",
    "rr": "gain 1 if relevant, weight 1 / pos for the first that is",
    "arhr": "gain 1 if relevant, weight 1 / pos",
    "ap": "gain 1 if relevant, weight = precision at pos / denominator",
    "err": "gain = chance to stop there, weight = chance to get there * utility of pos",
    "rbp": "gain = worth, weight = (1 - p) * p^(pos - 1)",
}
EXPLAINED = tuple(m.name for m in MEASURES if m.macro in _WEIGHTS and not m.weight)


def _one(metric: str) -> Metric:
    """The one metric that is named."""
    wanted = parse(metric)
    if len(wanted) > 1:
        raise RankqlError(f"explain takes one metric, not {', '.join(m.name for m in wanted)}")
    return wanted[0]


def _explainable(metric: Metric, chosen: Conventions) -> None:
    """Refuse what is no sum over positions."""
    if metric.measure is None or metric.measure.name not in EXPLAINED:
        raise RankqlError(
            f"{metric.name} is no sum over positions; what can be explained: {', '.join(EXPLAINED)}"
        )
    if chosen.ties not in ("item", "order"):
        raise RankqlError(
            f"with ties={chosen.ties!r} items stand at no one position; "
            "explain one order of them: ties='item' or 'order'"
        )
    if chosen.unjudged == "bounds":
        raise RankqlError(
            "unjudged='bounds' has two values; explain one of them: unjudged='zero' or 'remove'"
        )


def _terms(metric: Metric, chosen: Conventions) -> Terms:
    """A metric under the conventions as a sum."""
    assert metric.measure
    macro = metric.measure.macro
    option: dict[str, Any] = {k: v.strip("'") for k, v in metric.measure.defaults.items()}
    option |= metric.arguments(vars(chosen))
    cut = "relevant" if macro == "r_precision" else literal(metric.k)
    over, room = _over(macro, cut, option.get("denominator", "k"))
    discount, discounts = "", ()
    if macro in ("ndcg", "dcg"):
        discount = f"(log2({{place}} + 1) / log2({option['base']}::DOUBLE))"
        if isinstance(option["discounts"], tuple):
            discounts = option["discounts"]
            discount = f"({literal(discounts)}::DOUBLE[])[CAST({{place}} AS BIGINT)]"
    weight = _WEIGHTS[macro].replace("{discount}", discount).replace("{over}", over)
    return Terms(
        _gain(metric, chosen, option),
        weight.replace("{p}", str(option.get("p"))),
        _FORMULAS[macro],
        cut,
        room or cut,
        discount,
        macro == "ndcg",
        discounts,
        "pos IS NOT NULL" if option.get("ideal") == "retrieved" else "true",
    )


def _gain(metric: Metric, chosen: Conventions, option: Mapping[str, Any]) -> str:
    """What an item gains by its grade."""
    assert metric.measure
    macro = metric.measure.macro
    threshold = metric.threshold(vars(chosen))
    grade = gain_sql(metric.gain(vars(chosen)), threshold)
    return {
        "ndcg": f"rankql_negative({grade}, {literal(option.get('negative'))})",
        "dcg": grade,
        "cg": grade,
        "judged_at": "CAST(rel IS NOT NULL AS DOUBLE)",
        "err": f"rankql_stop(rel, {literal(option.get('max_rel'))}, "
        f"{literal(option.get('stop', 'exp2'))})",
        "rbp": f"rankql_worth(rel, {threshold}, {option.get('max_rel')})",
    }.get(macro, f"rankql_hit(rel, {threshold})")


def _over(macro: str, cut: str, denominator: str) -> tuple[str, str]:
    """What a share is taken of; and the room of the ideal ranking, where that depends on it."""
    if macro not in ("precision_at", "judged_at", "f1_at", "ap"):
        return "", ""
    over = {
        "k": f"rankql_size({cut}, retrieved)",
        "retrieved": "retrieved",
        "min": f"least({cut}, relevant)",
        "R": "relevant",
        "found": "{found}",
    }[denominator]
    shown = denominator == "retrieved" or (denominator == "k" and cut == "NULL")
    return over, "retrieved" if shown else ""


def _explained(
    given: Inputs, metric: Metric, chosen: Conventions, rows: Rows, every: bool = False
) -> str:
    """The SQL up to `rankql_explained`: the items with gain, or every one, with their losses."""
    terms, keys = _terms(metric, chosen), given.keys
    group = f"OVER (PARTITION BY {keys})"
    # Items beyond the cutoff have a position too: it tells which of equals stands higher.
    ctes = source_ctes(given, chosen) | ranking_ctes(given, [replace(metric, k=None)], chosen, rows)
    known = "" if given.qrels is None else f"SEMI JOIN queries USING ({keys})"
    if chosen.undefined == "drop":
        known += f" QUALIFY count(*) FILTER (WHERE rel >= {chosen.threshold}) {group} > 0"
    ctes["gains"] = f"""
    SELECT {keys}, item, rel, pos, coalesce(CAST({terms.gain} AS DOUBLE), 0) AS gain
    FROM ranked {known}"""
    counts = {
        "relevant": f"CAST(count(*) FILTER (WHERE gain > 0) {group} AS DOUBLE)",
        "retrieved": f"count(CASE WHEN {metric.k or 'pos'} >= pos THEN 1 END) {group}",
    }
    asked = f"{terms.weight} {terms.cut} {terms.room}"
    counted = "".join(f", {count} AS {name}" for name, count in counts.items() if name in asked)
    ctes["counts"] = f"""
    SELECT *{counted} FROM gains"""
    ctes["places"] = f"""
    SELECT *, CASE WHEN {terms.cut} IS NULL OR pos <= {terms.cut} THEN CAST(pos AS DOUBLE) END
        AS place FROM counts {"" if every else "WHERE gain <> 0"}"""
    ctes["ideals"] = f"""
    SELECT *, CASE WHEN {terms.room} IS NULL OR rank <= {terms.room} THEN {_best(terms, metric)} END
        AS ideal_pos
    FROM (SELECT *, CASE WHEN gain > 0 AND {terms.pool} THEN {_rank(terms, keys)} END AS rank
          FROM places)"""
    here, ideal = (_weighed(terms, place, keys) for place in ("place", "ideal_pos"))
    total = f"sum(gain * {ideal}) {group}" if terms.scaled else "1"
    ctes["worths"] = f"""
    SELECT *, {here} AS weight, {ideal} AS ideal_weight, {total} AS total FROM ideals"""
    ctes["rankql_explained"] = """
    SELECT *, ideal_contribution - contribution AS loss
    FROM (SELECT *, coalesce(gain * weight / total, 0) AS contribution,
                 coalesce(gain * ideal_weight / total, 0) AS ideal_contribution FROM worths)"""
    steps = {name: body.lstrip("\n") for name, body in ctes.items()}
    return with_ctes(steps, kept="rankql_explained")


def _rank(terms: Terms, keys: str) -> str:
    """The rank in the ideal ranking: the best first, of equals that which stands higher."""
    # By a list of discounts a higher position may be a worse one.
    place = [terms.discount.format(place="place")] if terms.discounts else []
    ascending = [f"{each} ASC NULLS LAST" for each in (*place, "pos")]
    order = ", ".join(["gain DESC", *ascending, BY_ITEM])
    return f"row_number() OVER (PARTITION BY {keys}, gain > 0 AND {terms.pool} ORDER BY {order})"


def _best(terms: Terms, metric: Metric) -> str:
    """The position of a rank in the ideal ranking: where the discounts are least, the best."""
    if not terms.discounts:
        return "rank"
    least = terms.discounts[: metric.k]
    places = sorted(range(1, len(least) + 1), key=lambda place: least[place - 1])
    return f"{literal(places)}[rank]"


def _weighed(terms: Terms, place: str, keys: str) -> str:
    """The weight of the place of every item, NULL where it has none that counts."""
    order = f"PARTITION BY {keys} ORDER BY {place} ASC NULLS LAST"
    weight = (
        terms.weight.replace("{hits}", f"sum(gain) OVER ({order})")
        .replace("{left}", f"coalesce(product(1 - gain) OVER ({order} {_BEFORE}), 1)")
        .replace("{found}", f"count({place}) FILTER (WHERE gain > 0) OVER (PARTITION BY {keys})")
        .replace("{place}", place)
    )
    return f"CASE WHEN {place} IS NOT NULL THEN {weight} END"


_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"

# The items of the ranking beside those of the ideal one, then what else would belong in it.
_POSITIONS = """
SELECT CAST(coalesce(shown.place, best.ideal_pos) AS BIGINT) AS pos, shown.item, shown.rel,
    shown.gain, {weight} AS {column}, shown.contribution, best.item AS ideal_item,
    best.rel AS ideal_rel, best.ideal_contribution, CAST(shown.ideal_pos AS BIGINT) AS ideal_pos,
    shown.loss, coalesce(shown.total, best.total) AS total, 0 AS outside
FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY gain DESC) AS nth
      FROM rankql_explained WHERE place IS NOT NULL) AS shown
FULL JOIN (FROM rankql_explained WHERE ideal_pos IS NOT NULL) AS best
    ON shown.place = best.ideal_pos AND shown.nth = 1
UNION ALL
SELECT CAST(pos AS BIGINT), item, rel, gain, NULL, contribution, NULL, NULL, NULL,
    CAST(ideal_pos AS BIGINT), loss, total, 1
FROM rankql_explained WHERE place IS NULL AND ideal_pos IS NOT NULL
ORDER BY outside ASC, pos ASC NULLS LAST, ideal_pos ASC NULLS LAST"""

_WORST = """
SELECT {keys}, item, sum(ideal_contribution) AS ideal, sum(loss) AS loss,
    count(*) FILTER (WHERE abs(loss) > {dust}) AS queries, grouping(item) = 1 AS whole
FROM rankql_explained
GROUP BY GROUPING SETS (({keys}), ({item}))
HAVING whole OR queries > 0"""


def _one_query(
    here: Session, given: Inputs, metric: Metric, chosen: Conventions, which: str | None, of: Any
) -> Explanation:
    """The explanation of one ranking; only its rows are read."""
    given, key, missing = _of_query(here, given, chosen, of)
    terms = _terms(metric, chosen)
    column, weight = "weight", "shown.weight"
    if terms.discount:
        column, weight = "discount", "1 / shown.weight"
    sql = _explained(given, metric, chosen, "all", every=True) + _POSITIONS.format(
        weight=weight, column=column
    )
    with evaluation_errors(here, given, chosen):
        result, _ = _valued(here, given, metric, chosen, True, missing)
        rows = execute(here, sql).pl()
    if missing:
        result.notes = [f"the run has no row of query {key!r}"]
    value = result.frame()[metric.name][0]
    formula = terms.formula
    if value is None:
        rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in _WORTH)
    elif terms.scaled:
        formula += f" {rows['total'][0]:.6g}"
    return Explanation(
        metric=metric.name,
        sql=sql,
        result=result,
        query=key,
        system=which,
        value=value,
        ideal=None if value is None else float(rows["ideal_contribution"].sum()),
        positions=rows.drop("total", "outside"),
        formula=formula,
    )


def _all_queries(
    here: Session, given: Inputs, metric: Metric, chosen: Conventions, which: str | None, worst: int
) -> Explanation:
    """The queries of the run, and the items, by what they cost."""
    systems = ["system"] if given.many else []
    with evaluation_errors(here, given, chosen):
        result, rows = _valued(here, given, metric, chosen)
        sql = _explained(given, metric, chosen, rows)
        sql += _WORST.format(keys=given.keys, item=", ".join([*systems, "item"]), dust=DUST)
        sums = execute(here, sql).pl()
    keys = [*systems, "query"]
    ideals = sums.filter("whole").select(*keys, "ideal")
    found = result.frame()
    values = found.rename({result.meta["query"]: "query", metric.name: "value"})
    queries = values.join(ideals, on=keys, how="left", maintain_order="left").select(
        *keys,
        "value",
        ideal=pl.when(pl.col("value").is_not_null()).then(pl.col("ideal").fill_null(0)),
    )
    best = replace(
        result, _summary=None, rows=found.with_columns(queries["ideal"].alias(metric.name))
    )
    means = result.summary.select(*systems, value="mean").with_columns(ideal=best.summary["mean"])
    explained = Explanation(
        metric=metric.name,
        sql=sql,
        result=result,
        system=which,
        means=means,
        queries=queries.with_columns(loss=pl.col("ideal") - pl.col("value")).sort(
            "loss", *keys, descending=[True, *(False for _ in keys)], nulls_last=True
        ),
        items=sums.filter(~pl.col("whole"))
        .select(*systems, "item", pl.col("queries").cast(pl.Int64), "loss")
        .sort("loss", *systems, "item", descending=[True, *(False for _ in systems), False]),
        worst=worst,
    )
    if not systems and len(means):
        explained.value, explained.ideal = means.row(0)
    return explained


def _valued(
    here: Session,
    given: Inputs,
    metric: Metric,
    chosen: Conventions,
    one: bool = False,
    missing: bool = False,
) -> tuple[Result, Rows]:
    """What evaluate makes of it, by its own query; and the rows that this depends on.

    one: of one query alone, which the run may lack (missing).
    """
    built = build_query(given, [metric], chosen)
    result = pending_result(here, given, built, chosen)
    if not missing:
        result.notes = validate_inputs(here, given, chosen, built, one)
    elif twice := find_duplicates(sql_runner(here, given, chosen), given, "qrels", "item"):
        raise RankqlError(twice)
    result.rows = execute(here, built.sql).pl()
    return result, built.rows


def _of_system(here: Session, given: Inputs, which: str) -> Inputs:
    """The run of one system alone."""
    if not given.many:
        raise RankqlError(f"which={which!r}: there is one run, without a name; leave which= out")
    names = _systems(here, given)
    if which not in names:
        raise RankqlError(f"which={which!r}: no system of that name{did_you_mean(which, names)}")
    if given.system is None:
        return replace(given, runs={None: given.runs[which]})
    (table,) = given.runs.values()
    condition = f"CAST({quoted(given.system)} AS VARCHAR) = {literal(which)}"
    return replace(given, runs={None: _filtered(table, condition)}, system=None)


def _only_system(here: Session, given: Inputs) -> tuple[str, Inputs]:
    """The one system that there is, or an error that asks which."""
    names = _systems(here, given)
    if len(names) != 1:
        some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise RankqlError(f"there are several systems; say which='...'. There are: {some}")
    return names[0], _of_system(here, given, names[0])


def _systems(here: Session, given: Inputs) -> list[str]:
    if given.system is None:
        return [name for name in given.runs if name is not None]
    (table,) = given.runs.values()
    name = f"CAST({quoted(given.system)} AS VARCHAR)"
    sql = f"SELECT DISTINCT {name} FROM {table.sql} WHERE {name} IS NOT NULL ORDER BY 1"
    return [row[0] for row in here.con.sql(sql).fetchall()]


def _of_query(
    here: Session, given: Inputs, chosen: Conventions, of: Any
) -> tuple[Inputs, Any, bool]:
    """The rows of one query, its id, and whether the run lacks it."""
    text = given.as_text("query")
    runs = {name: _filtered(t, _is(t, of, text)) for name, t in given.runs.items()}
    qrels = given.qrels and _filtered(given.qrels, _is(given.qrels, of, text))
    one = replace(given, runs=runs, qrels=qrels)
    shown = _queries(here, one, chosen, "run", "LIMIT 1")
    judged = shown if qrels is None else _queries(here, one, chosen, "qrels", "LIMIT 1")
    if judged:
        return one, judged[0], not shown
    if shown:
        raise RankqlError(
            f"query {shown[0]!r} is in the run, but not judged: qrels has no row of it"
        )
    home = "run" if qrels is None else "qrels"
    name = "CAST(query AS VARCHAR)"
    near = f"ORDER BY jaro_winkler_similarity({name}, {literal(str(of))}) DESC, {name} LIMIT 5"
    close = map(str, _queries(here, given, chosen, home, f"GROUP BY query {near}"))
    raise RankqlError(
        f"there is no query {of!r} in {home}{did_you_mean(str(of), list(close))}, ..."
    )


def _queries(
    here: Session, given: Inputs, chosen: Conventions, source: str, rest: str
) -> list[Any]:
    sql = f"{with_source_ctes(given, chosen)}SELECT query FROM {source} {rest}"
    return [row[0] for row in execute(here, sql).fetchall()]


def _is(table: Table, of: Any, as_text: bool) -> str:
    """The condition that a row is of the query, whose id may be given as text."""
    kind, key, value = table.columns[table.roles["query"]], table.key("query", as_text), str(of)
    if key.startswith("CAST("):
        return f"{key} = {literal(value)}"
    same = f"{key} = TRY_CAST({literal(value)} AS {kind})"
    if re.search(r"INT(EGER)?$|^DECIMAL", kind):  # a cast would round
        same += f" AND {key} = TRY_CAST({literal(value)} AS DOUBLE)"
    return same


def _filtered(table: Table, condition: str) -> Table:
    return replace(table, sql=f"(SELECT * FROM {table.sql} WHERE {condition})")
