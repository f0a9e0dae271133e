"""How far to trust labels by language models: their agreement with human labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.compare import compare
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import EvaluationOptions, require_known_options
from rankql.evaluation.evaluate import evaluate
from rankql.evaluation.result import Result
from rankql.registry.argument_checks import require_probability
from rankql.results import TableResult, drop_idle_columns
from rankql.sources.dicts import is_several_runs
from rankql.sources.grades import assume_grades
from rankql.sources.macro_sql import fetch_frame
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, Table, assign_roles
from rankql.stats.means import Interval, logistic_interval, mean_interval, t_quantile
from rankql.writing import remember_inputs

# Tables of counts with more grades are too sparse, and too large.
MOST_GRADES = 50
# The measures of agreement, and their ranges.
MEASURES = {
    "exact_agreement": (0.0, 1.0),
    "cohen_kappa": (-1.0, 1.0),
    "weighted_kappa": (-1.0, 1.0),
    "krippendorff_alpha": (-1.0, 1.0),
    "false_positives": (0.0, 1.0),
    "false_negatives": (0.0, 1.0),
    "mean_difference": (-math.inf, math.inf),
}
# Intervals of fewer queries are rough.
FEW_QUERIES = 10


@dataclass(repr=False, eq=False)
class JudgeReport(TableResult):
    """The result of `judges`.

    `table` has one row per judge: exact agreement, Cohen's kappa, kappa with quadratic weights,
    Krippendorff's alpha (ordinal), false positives (the share of the items irrelevant to people
    that the judge calls relevant), false negatives, and the mean difference judge - human.
    `summary` has one row per judge and measure, with its confidence interval. `grades` has the
    share of each grade under both, and `confusion` how often the judge gave each grade to items of
    a human grade. With runs, `systems` has the mean of every system under both labels and their
    difference (`bias`), and `orders` how far both order the systems alike.
    """

    measures: pl.DataFrame
    grades: pl.DataFrame
    confusion: pl.DataFrame
    systems: pl.DataFrame
    orders: pl.DataFrame
    threshold: float
    confidence: float
    notes: list[str] = field(default_factory=list)
    sql: str = ""

    @property
    def summary(self) -> pl.DataFrame:
        """One row per judge and measure, with its confidence interval."""
        return self.measures

    @property
    def table(self) -> pl.DataFrame:
        """One row per judge."""
        keys = ["judge", "pairs", "queries"]
        return self.measures.pivot("measure", index=keys, values="value")

    @property
    def sentences(self) -> list[str]:
        """The findings in words."""
        judges = self.measures["judge"].unique(maintain_order=True)
        return [line for judge in judges for line in self._describe(judge)]

    def displayed(self) -> list[pl.DataFrame]:
        """The table, and how far both labels order the systems alike."""
        return [drop_idle_columns(frame) for frame in (self.table, self.orders) if frame.height]

    def _details(self) -> dict[str, Any]:
        frames = ("summary", "grades", "confusion", "systems", "orders")
        values = {name: getattr(self, name).to_dicts() for name in frames}
        return {**values, "threshold": self.threshold, "confidence": self.confidence}

    def _describe(self, judge: str) -> Iterator[str]:
        """The findings about one judge."""
        rows = self.measures.filter(judge=judge)
        values = {row["measure"]: row for row in rows.iter_rows(named=True)}
        exact, kappa, weighted, alpha, positive, negative = (
            _estimate(values[name]) for name in [*MEASURES][:-1]
        )
        pairs, queries = values["exact_agreement"]["pairs"], values["exact_agreement"]["queries"]
        level = text.format_percent(self.confidence)
        yield (
            f"{judge} and people give the same grade to {exact} of {pairs:,} items in "
            f"{text.format_queries(queries)} ({level} CI). Beyond chance: Cohen's kappa {kappa}, "
            f"with quadratic weights {weighted}, Krippendorff's alpha {alpha}"
        )
        relevant = self.grades.filter(pl.col("judge") == judge, pl.col("grade") >= self.threshold)
        human, own = relevant["human"].sum(), relevant["llm"].sum()
        yield (
            f"{judge} calls {own:.0%} of the items relevant, people {human:.0%}: it calls "
            f"{positive} of the irrelevant items relevant, and misses {negative} of the relevant "
            f"ones. Its grades are {_shift(values['mean_difference'], 'value')} on average"
        )
        for row in self.orders.rows(named=True):
            if row["judge"] == judge:
                yield _describe_order(row)


def _estimate(row: Mapping[str, Any]) -> str:
    """A value with its interval; a share in percent."""
    value, *ends = bounds = row["value"], row["lo"], row["hi"]
    if MEASURES[row["measure"]][0] != 0 or value is None:
        return text.format_interval(bounds)
    return f"{value:.0%}" + ("" if None in ends else " ({:.0%} to {:.0%})".format(*ends))


def _shift(row: Mapping[str, Any], name: str) -> str:
    """A difference in words, with its interval: 0.10 (0.05 to 0.15) lower."""
    value, lo, hi = row[name], row["lo"], row["hi"]
    if value is None or value >= 0:
        return f"{text.format_interval((value, lo, hi))} higher"
    ends = (None, None) if lo is None else (-hi, -lo)
    return f"{text.format_interval((-value, *ends))} lower"


def _describe_order(row: Mapping[str, Any]) -> str:
    """What changes for the systems if the judge replaces people."""
    judge, metric, systems = row["judge"], row["metric"], row["systems"]
    line = f"{metric}: means under {judge}'s labels are {_shift(row, 'bias')} on average"
    if systems < 2:
        return line
    tau = "undefined" if row["tau_b"] is None else f"{row['tau_b']:.2f}"
    swapped = text.format_count(systems * (systems - 1) // 2, "pair")
    line += f". {row['swapped']:,} of {swapped} of systems swap their order (tau-b {tau})"
    stays = "stays" if row["best_stays"] else "does not stay"
    return line + f". The best system under human labels, {row['best']}, {stays} among the best"


@remember_inputs
def judges(
    llm: Data | Mapping[str, Data],
    human: Data,
    runs: Data | Mapping[str, Data] | None = None,
    metrics: str | Sequence[str] = ("nDCG@10",),
    *,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> JudgeReport:
    """Compare labels by language models with human labels of the same items.

    Only items that both labelled count. They are relevant from the grade `threshold`. Intervals
    leave out one query at a time (jackknife), as items of a query are not independent. Labels can
    agree badly and still order systems well, and the other way round.

    Parameters
    ----------
    llm : table or dict
        Labels by a language model (query, item and grade), or a dict of name: table for several.
    human : table
        Human labels of some of the same items.
    runs : run or dict, optional
        Runs to evaluate under both labels, as in `compare`.

        Every metric is evaluated on the same queries: how much the judge changes the means, and
        whether it orders the systems alike.
    metrics : str or list of str
        Metrics of the runs.
    confidence : float
        Level of the confidence intervals.
    con, **options
        As in `evaluate`.

    Examples
    --------
    >>> human = pl.DataFrame({"query": [1, 1, 2, 2], "item": [*"abab"], "rel": [0, 1, 1, 2]})
    >>> llm = human.with_columns(rel=pl.Series([0, 1, 1, 1]))
    >>> judges(llm, human).summary.select("measure", "value").rows()[:2]
    [('exact_agreement', 0.75), ('cohen_kappa', 0.5555555555555556)]
    """
    require_package("scipy", "stats", "judges")
    require_known_options(options, judges)
    require_probability("confidence", confidence)
    threshold = options.get("threshold", 1)
    if not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise RankqlError(f"threshold must be a finite number, not {threshold!r}")
    tables = dict(llm) if is_several_runs(llm) else {"llm": llm}
    notes: list[str] = []
    queries = {}
    columns = {name: options.get(name) for name in ("query", "item", "rel")}
    frames: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("measures", "grades", "confusion", "systems", "orders")
    }
    with open_session(con, human, *tables.values()) as session:
        people = read_labels(session, human, "human", columns)
        for name, data in tables.items():
            labels = read_labels(session, data, f"judge {name!r}", columns)
            sql = labels_sql(people, labels)
            counts = fetch_frame(session, sql, checked=True)
            notes += _check(counts, name, labels.label)
            both = counts.drop_nulls()
            queries[name] = both["query"].n_unique()
            for frame, rows in _measure(both, threshold, confidence).items():
                frames[frame] += [{"judge": name, **row} for row in rows]
    if (least := min(queries.values())) < FEW_QUERIES:
        notes.append(
            f"Intervals of {text.format_queries(least)} are rough. Label at least {FEW_QUERIES}"
        )
    keywords: dict[str, Any] = {"con": con, **options}
    for name, data in tables.items() if runs is not None else ():
        of_human, of_judge = (
            evaluate(runs, labels, metrics, interval=None, **keywords) for labels in (human, data)
        )
        for frame, rows in _compare_systems(of_human, of_judge, confidence).items():
            frames[frame] += [{"judge": name, **row} for row in rows]
    return JudgeReport(
        **{name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in frames.items()},
        threshold=threshold,
        confidence=confidence,
        notes=notes,
        sql=sql,
    )


def read_labels(session: Session, data: Data, label: str, columns: Mapping[str, Any]) -> Table:
    """A table of labels, with its columns recognised or named."""
    # The numbers of a dict are grades if it is called qrels.
    table = session.table(data, "qrels" if isinstance(data, Mapping) else label)
    table = replace(table, label=label)
    table, names = assume_grades(session, table, dict(columns))
    return assign_roles(table, names, ("query", "item", "rel"))


def labels_sql(human: Table, llm: Table) -> str:
    """Counts of items by query and both grades; NULL if one has no label. Ids are text."""

    def labels(table: Table, name: str) -> str:
        keys = ", ".join(f"{table.key(role, True)} AS {role}" for role in ("query", "item"))
        return (
            f"{name} AS (\n"
            f"    SELECT query, item, any_value(rel) AS {name}, count(*) AS {name}_rows\n"
            f"    FROM (SELECT {keys}, {table.read('rel')} AS rel FROM {table.sql})\n"
            "    WHERE rel IS NOT NULL GROUP BY query, item\n)"
        )

    return (
        f"WITH {labels(human, 'human')}, {labels(llm, 'llm')}\n"
        "SELECT query, human, llm, count(*) AS n, max(human_rows) AS human_rows,\n"
        "    max(llm_rows) AS llm_rows, min(item) AS item\n"
        "FROM human FULL JOIN llm USING (query, item)\n"
        "GROUP BY query, human, llm ORDER BY query, human, llm"
    )


def _check(counts: pl.DataFrame, name: str, label: str) -> Iterator[str]:
    """Refuse repeated labels and labels of nothing in common; note those of one only."""
    for side, table in (("human", "human"), ("llm", label)):
        for row in counts.filter(pl.col(f"{side}_rows") > 1).head(1).iter_rows(named=True):
            raise RankqlError(
                f"{table} has several labels for an item of query {row['query']!r}. Keep one, or "
                "combine them with consensus"
            )
    both = counts.drop_nulls()["n"].sum()
    only = {side: counts.filter(pl.col(side).is_null())["n"].sum() for side in ("llm", "human")}
    if not both:
        raise RankqlError(
            f"{label} and human have no item in common: such as "
            f"{counts.drop_nulls('human')['query', 'item'].row(0) if only['llm'] else None} and "
            f"{counts.drop_nulls('llm')['query', 'item'].row(0) if only['human'] else None}. "
            "Write the ids alike"
        )
    grades = pl.concat([counts["human"], counts["llm"]]).drop_nulls().n_unique()
    if grades > MOST_GRADES:
        raise RankqlError(
            f"{label}: {grades} different grades. Round them to at most {MOST_GRADES}"
        )
    if only["llm"]:
        yield f"{only['llm']:,} items with human labels have none of {name} and are left out"


def _measure(
    counts: pl.DataFrame, threshold: float, confidence: float
) -> dict[str, list[dict[str, Any]]]:
    """The rows of the measures, of the grades and of the confusion."""
    from rankql.stats.agreement import Agreement

    columns = ("query", "human", "llm", "n")
    agreement = Agreement.of(*(counts[name].to_numpy() for name in columns))
    measured, queries = agreement.measure(threshold), len(agreement.cells)
    quantile = t_quantile((1 + confidence) / 2, max(queries - 1, 1))

    def estimate(name: str, ends: tuple[float, float]) -> tuple[float | None, ...]:
        value, error = measured[name]
        if math.isnan(value):
            return None, None, None
        if not error > 0:  # unknown, or all queries agree
            return value, None, None
        width = quantile * error
        if ends[0] == 0:
            return value, *logistic_interval(value, width, 0, 1)
        return value, *Interval(value - width, value + width).within(*ends)

    n = {"pairs": int(counts["n"].sum()), "queries": queries}
    names = ("value", "lo", "hi")
    measures = [
        {"measure": name, **dict(zip(names, estimate(name, ends), strict=True)), **n}
        for name, ends in MEASURES.items()
    ]
    shares, confusion, total = [], [], agreement.cells.sum(axis=0)
    for i, grade in enumerate(agreement.grades):
        both = (*estimate(f"human {grade:g}", (0, 1)), *estimate(f"llm {grade:g}", (0, 1)))
        ends = ("human", "human_lo", "human_hi", "llm", "llm_lo", "llm_hi")
        shares.append({"grade": grade, **dict(zip(ends, both, strict=True))})
        for j, other in enumerate(agreement.grades):
            share = dict(
                zip(("share", "lo", "hi"), estimate(f"{grade:g} as {other:g}", (0, 1)), strict=True)
            )
            confusion.append({"human": grade, "llm": other, "pairs": int(total[i, j]), **share})
    return {"measures": measures, "grades": shares, "confusion": confusion}


def _compare_systems(
    human: Result, judge: Result, confidence: float
) -> dict[str, list[dict[str, Any]]]:
    """The means of all systems under both labels, and their orders, by metric."""
    from scipy.stats import kendalltau

    from rankql.evaluation.judge import HUMAN, LABELLED, pair_values  # which needs scipy

    paired, key = pair_values(human, judge).filter(LABELLED), human.meta.query
    if not human.meta.system:
        paired = paired.with_columns(system=pl.lit("run"))
    ids = paired[key].implode()
    same = pl.col(judge.meta.query).cast(paired.schema[key]).is_in(ids)
    judge = replace(judge, values=judge.frame().filter(same), _summary=None)
    systems: list[dict[str, Any]] = []
    orders: list[dict[str, Any]] = []
    for metric in (name for name in human.metrics if name not in human.overall_metrics):
        values = paired.select("system", key, human=HUMAN + metric, llm=metric)
        values = values.drop_nulls(["human", "llm"]).with_columns(
            bias=pl.col("llm") - pl.col("human")
        )
        means = values.group_by("system", maintain_order=True).agg(
            pl.col("human", "llm").mean(), pl.col("bias"), queries=pl.len()
        )
        systems += [
            {"metric": metric, **row, **_paired(row["bias"], confidence)}
            for row in means.iter_rows(named=True)
        ]
        overall = values.group_by(key).agg(pl.col("bias").mean()).sort(key)["bias"].to_list()
        order = {"metric": metric, "systems": means.height, "queries": len(overall)}
        orders.append(order | _paired(overall, confidence))
        if means.height > 1:
            sign = -1 if human.lower_is_better(metric) else 1
            ranked = means.with_columns(pl.col("human", "llm").round(12) * sign)
            ranked = ranked.sort("human", descending=True, maintain_order=True)
            tau = float(kendalltau(ranked["human"], ranked["llm"]).statistic)
            pairs = (
                itertools.combinations(ranked["llm"], 2),
                itertools.combinations(ranked["human"], 2),
            )
            best = ranked["system"][0]
            board = compare(judge, metrics=metric, confidence=confidence).leaderboard()
            orders[-1] |= {
                "tau_b": None if math.isnan(tau) else tau,
                "swapped": sum(a < b and c > d for (a, b), (c, d) in zip(*pairs, strict=True)),
                "best": best,
                "best_stays": board.filter(slice="all", system=best)["maybe_best"].any(),
            }
    return {"systems": systems, "orders": orders}


def _paired(bias: Sequence[float], confidence: float) -> dict[str, float | None]:
    """The mean of paired differences with its interval."""
    from rankql.stats.sample import Sample  # which needs numpy

    sample = Sample(pl.Series(bias).to_numpy())
    ends = mean_interval(sample.moments, confidence) if len(bias) > 1 else None
    lo, hi = ends or (None, None)
    return {"bias": sample.mean, "lo": lo, "hi": hi}
