"""Whether metrics go with what the business counts: joined by key, correlated, put into words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl

from rankql import text as show
from rankql.decisions.matching import (
    Given,
    OutcomeNames,
    Side,
    key_columns,
    matched,
    metric_columns,
    opened,
    outcome_columns,
    read,
    unit_of,
)
from rankql.errors import RankqlError, did_you_mean, needs
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.summary import slice_queries
from rankql.evaluation.values import resolve_directions
from rankql.registry.options import normal_z, require
from rankql.registry.parse import is_metric, parse
from rankql.sources.run import execute
from rankql.sources.session import duckdb_errors, open_session
from rankql.sources.tables import Data

if TYPE_CHECKING:
    import altair as alt
    import numpy as np
    from numpy.typing import NDArray

    from rankql.decisions.regression import Coefficient

_COEFFICIENTS = ("pearson", "spearman")
SCHEMA = {
    **dict.fromkeys(("metric", "outcome", "slice"), pl.String),
    "n": pl.Int64,
    **{f"{name}{part}": pl.Float64 for name in _COEFFICIENTS for part in ("", "_lo", "_hi", "_p")},
    **dict.fromkeys(("remark", "sentence"), pl.String),
}
SIMPSON = "another sign {} (Simpson)"
IN_NOISE = "at least one of them is not significant"
# What it means that metric and outcome moved so, where more is better of both.
READINGS = {
    (1, 1): "better, and noticed",
    (1, -1): "relevant but not attractive",
    (-1, 1): "attractive but not relevant (clickbait?)",
    (-1, -1): "worse",
}


def associate(
    per_query: Data | Mapping[str, Data],
    outcomes: Data | Mapping[str, Data],
    *,
    on: str | Sequence[str] | Mapping[str, str],
    metrics: str | Sequence[str] | None = None,
    outcome: OutcomeNames | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    baseline: str | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Whether metrics go with outcomes, such as clicks or revenue, key by key and within slices.

    `per_query` is a result of `evaluate`, a file that its `output=` wrote, or any table with the
    key and metrics; `outcomes` any table with the key and outcomes. `on` names the key, such as
    'query', 'user', 'day' or several columns; {'query': 'search'} where the names differ.
    `outcome` names columns of rates, or gives ratios of totals: {'CTR': ('clicks',
    'impressions')}. Of several rows of a key, metrics and rates are averaged and ratios taken of
    the sums. `metrics` are by default all columns named like metrics or, if there are none, all
    columns of numbers; `outcome` all columns of numbers. `higher_is_better` is the direction of
    those that rankql does not know, which `quadrants` reads: {'wait': False}; True by default.

    `by` names attributes of the keys: correlations are pooled, within all slices together (of the
    deviations from their means), and in each slice. Of two systems, a dict or the column `system`
    in both tables, the differences are correlated, other - baseline (of a dict the first).

    Intervals are Fisher's z for Pearson, Bonett and Wright (2000) for Spearman; p belongs to the
    interval. A sentence says "higher" or "lower" only if Spearman's interval excludes 0 and there
    are at least 10 keys (within slices, 9 plus the number of slices): then it is wrong for at most
    5% of unrelated columns, skewed and tied ones included. NULL and ratios by 0 are left out and
    counted; values that are not finite are an error.

    >>> import polars as pl
    >>> found = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "AP": [0.1, 0.4, 0.5, 0.7, 0.9]})
    >>> log = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "CTR": [0.0, 0.2, 0.1, 0.3, 0.4]})
    >>> associate(found, log, on="query").table["pearson"].round(3).item()
    0.938
    """
    needs("scipy", "stats", "associate")
    normal_z(confidence)  # refused before anything is read
    keys, groups = key_columns(on), parse_groupings(by)
    with open_session(con, per_query, outcomes) as here:
        scores, counts = opened(here, per_query, "per_query"), opened(here, outcomes, "outcomes")
        by_names = ["system", *(name for group in groups for name in group)]
        named = metric_columns(here, scores, metrics, [*keys, *by_names])
        taken = [*keys.values(), *by_names]
        counted = outcome_columns(here, counts, outcome, taken)
        given = Given(scores, counts, keys, groups, named, counted)
        given.check(here)
        rows = read(here, given)
    directions, _ = resolve_directions(named, higher_is_better, list(counted))
    pairs, systems, notes = matched(rows, given, baseline)
    table, turned = _correlated(pairs, given, confidence, systems is not None)
    if systems:
        one = unit_of([*keys])
        notes = [f"every value is the change per {one}: {systems[1]} - {systems[0]}", *notes]
    notes += turned
    if metrics is None and not any(map(is_metric, named)):
        notes.insert(
            0, f"per_query has no column named like a metric: {', '.join(named)} are taken"
        )
    if lower := [name for name, higher in directions.items() if not higher]:
        notes.append(f"lower is better: {', '.join(lower)}")
    if len(table) > 1:
        notes.append(
            f"p-values are not adjusted for the {len(table)} rows of the table: of unrelated "
            "columns, about 1 in 20 is below 0.05"
        )
    notes.append("an association does not show that one causes the other")
    return Association(
        table, pairs, [*keys], named, [*counted], groups, systems, confidence, notes, directions
    )


class _Part(NamedTuple):
    """The rows of a correlation: all, those of a slice, or all with the codes of their slices."""

    label: str
    rows: NDArray[np.intp]
    codes: NDArray[np.intp] | None = None


def _parts(pairs: pl.DataFrame, groups: Sequence[Sequence[str]]) -> Iterator[_Part]:
    import numpy as np

    index = "rankql row"  # as no column of a user's is called
    rows = np.arange(len(pairs))
    yield _Part("all", rows)
    for group in groups:
        frame = pairs.select(pl.Series(index, rows), *dict.fromkeys(group))
        found = {label: part.to_numpy() for label, part in slice_queries(frame, [group]).items()}
        del found["all"]
        codes = np.empty(len(pairs), np.intp)
        for code, part in enumerate(found.values()):
            codes[part] = code
        yield _Part(f"within {', '.join(group)}", rows, codes)
        yield from (_Part(label, part) for label, part in found.items())


def _correlated(
    pairs: pl.DataFrame, given: Given, confidence: float, change: bool
) -> tuple[pl.DataFrame, list[str]]:
    """The table of all correlations, and notes on slices that turn the sign."""
    import numpy as np

    from rankql.decisions.regression import pearson, ranks, spearman

    unit = unit_of([*given.keys])
    values = {name: _numbers(pairs, name) for name in (*given.metrics, *given.counted)}
    notes = []
    rows: dict[tuple[str, str], list[dict[str, Any]]]
    rows = {pair: [] for pair in itertools.product(given.metrics, given.counted)}
    pooled: dict[tuple[str, str], list[Coefficient]] = {}
    for label, part, codes in _parts(pairs, given.groups):
        columns = {name: of[part] for name, of in values.items()}
        ranked = {name: ranks(of, codes) for name, of in columns.items() if not np.isnan(of).any()}
        for metric, outcome in rows:
            x, y, inside = columns[metric], columns[outcome], codes
            if metric in ranked and outcome in ranked:
                of_x, of_y = ranked[metric], ranked[outcome]
            else:
                known = ~np.isnan(x) & ~np.isnan(y)
                x, y = x[known], y[known]
                if codes is not None:
                    inside = np.unique(codes[known], return_inverse=True)[1]
                of_x, of_y = ranks(x, inside), ranks(y, inside)
            found = [pearson(x, y, confidence, inside), spearman(of_x, of_y, confidence, inside)]
            row = _row(metric, outcome, label, len(x), found)
            remarks = _remarks(found, {metric: x, outcome: y}, inside)
            first = pooled.setdefault((metric, outcome), found)
            if codes is not None and (turned := _turned(first, found)):
                notes.append(f"{metric} and {outcome}: {turned.format(label)}")
                simpson = f"perhaps {SIMPSON}" if turned.endswith(IN_NOISE) else SIMPSON
                remarks.append(simpson.format("over all"))
                whole = rows[metric, outcome][0]
                whole["remark"] = "; ".join(filter(None, [whole["remark"], simpson.format(label)]))
            row["remark"] = "; ".join(remarks) or None
            row["sentence"] = _sentence(row, found, unit, change)
            rows[metric, outcome].append(row)
    return pl.DataFrame([*itertools.chain(*rows.values())], schema=SCHEMA), notes


def _numbers(pairs: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """A column, NaN where it has no value."""
    return pairs[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _remarks(
    found: Sequence[Coefficient], values: Mapping[str, NDArray[np.float64]],
    codes: NDArray[np.intp] | None,
) -> list[str]:  # fmt: skip
    """The words for what there is not."""
    from rankql.decisions.regression import TOO_FEW, varies

    words = list(dict.fromkeys(each.word for each in found if each.word))
    if TOO_FEW in words or found[0].r is not None:
        return words
    where = "" if codes is None else " within every slice"
    return [f"{x} is constant{where}" for x, of in values.items() if not varies(of, codes)]


def _turned(pooled: Sequence[Coefficient], within: Sequence[Coefficient]) -> str | None:
    """Simpson's paradox: a coefficient of another sign within slices, and what to make of it."""
    for name, one, other in zip(_COEFFICIENTS, pooled, within, strict=True):
        if one.r is not None and other.r is not None and one.r * other.r < 0:
            advice = IN_NOISE
            if one.sign * other.sign < 0:
                advice = "Simpson's paradox, trust the value within slices"
            return f"{name.capitalize()} {one.text} over all, but {other.text} {{}}: {advice}"
    return None


def _row(
    metric: str, outcome: str, label: str, n: int, found: Sequence[Coefficient]
) -> dict[str, Any]:
    row: dict[str, Any] = {"metric": metric, "outcome": outcome, "slice": label, "n": n}
    for name, each in zip(_COEFFICIENTS, found, strict=True):
        parts = {"": each.r, "_lo": each.lo, "_hi": each.hi, "_p": each.p}
        row |= {f"{name}{part}": value for part, value in parts.items()}
    return row


def _sentence(row: Mapping[str, Any], found: Sequence[Coefficient], unit: str, change: bool) -> str:
    """What was found, in words."""
    of = "the change of " if change else ""
    metric, outcome = f"{of}{row['metric']}", f"{of}{row['outcome']}"
    count = show.count(row["n"], unit)
    if found[0].r is None:
        return f"{metric} and {outcome} have no correlation: {row['remark']}, {count}"
    values = ", ".join(
        f"{name.capitalize()} {each.text}" for name, each in zip(_COEFFICIENTS, found, strict=True)
    )
    pearson, spearman = found
    if not spearman.enough:
        start = f"too few {show.plural(unit)} to tell whether {outcome} goes with {metric}"
    elif spearman.sign == 0:
        start = f"no significant association between {metric} and {outcome}"
        if pearson.sign:
            values += " (only Pearson's interval excludes 0, and it depends on extreme values)"
    else:
        direction = "higher" if spearman.sign > 0 else "lower"
        start = f"{outcome} is {direction} where {metric} is higher"
        if pearson.sign == -spearman.sign:
            values += " (opposite signs: extreme values outweigh the rest in Pearson)"
    return f"{start}: {values}, {count}"


# What is made of it


@dataclass(frozen=True, eq=False)
class Finding(show.Tabular):
    """A table, and what it says."""

    table: pl.DataFrame
    sentences: list[str]

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Table and sentences as plain values."""
        return {"table": self.table.to_dicts(), "sentences": self.sentences}

    def to_markdown(self) -> str:
        """Table and sentences as Markdown."""
        return show.markdown(show.cells(self.table), self.sentences)

    def __repr__(self) -> str:
        return show.text(show.cells(self.table), self.sentences)

    def _repr_html_(self) -> str:
        return show.as_html(show.cells(self.table), self.sentences)


@dataclass(eq=False)
class Association(show.Tabular):
    """Metrics and outcomes by key, and how they go together.

    `table` has a row per metric, outcome and slice ('all', 'within segment', 'segment=new'): n,
    Pearson's and Spearman's coefficient each with interval and p, a remark, and a sentence. `pairs`
    has the values of every key; of two systems their differences.
    """

    table: pl.DataFrame
    pairs: pl.DataFrame
    on: list[str]
    metrics: list[str]
    outcomes: list[str]
    groupings: list[list[str]]
    # The baseline and the other; None of one system.
    systems: tuple[str, str] | None
    confidence: float
    notes: list[str] = field(default_factory=list)
    # The direction of the metrics, and of the outcomes that were given one.
    higher_is_better: dict[str, bool] = field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        rows = self.table.select("slice", "sentence").rows()
        return [said if part == "all" else f"{part}: {said}" for part, said in rows]

    def quadrants(self, metric: str | None = None, outcome: str | None = None) -> Finding:
        """How many keys moved which way, metric and outcome, from one system to the other.

        `reading` goes by their direction: higher is better of an outcome, unless
        `higher_is_better=` says otherwise.
        """
        metric, outcome = self._named(metric, outcome)
        if self.systems is None:
            raise RankqlError(
                "quadrants needs two systems: associate({'old': ..., 'new': ...}, ...)"
            )
        rows = self.pairs.drop_nulls([metric, outcome])
        one = unit_of(self.on)
        require(len(rows) > 0, f"No {one} has a value of both {metric!r} and {outcome!r}.")
        moved = [pl.col(name).sign().cast(pl.Int8) for name in (metric, outcome)]
        counts = dict.fromkeys(itertools.product((1, -1, 0), repeat=2), 0)
        counts |= {(x, y): n for x, y, n in rows.group_by(x=moved[0], y=moved[1]).len().rows()}
        better = [1 if self.higher_is_better.get(x, True) else -1 for x in (metric, outcome)]
        words = {1: "up", -1: "down", 0: "same"}
        found = [
            (
                words[x],
                words[y],
                n,
                n / len(rows),
                READINGS.get((better[0] * x, better[1] * y), "unchanged"),
            )
            for (x, y), n in sorted(counts.items(), key=lambda item: 0 in item[0])
        ]
        names = {"metric": pl.String, "outcome": pl.String, "n": pl.Int64, "share": pl.Float64,
                 "reading": pl.String}  # fmt: skip
        a, b = self.systems
        said = [
            f"from {a} to {b}, {metric} {x} and {outcome} {y}: {show.count(n, unit_of(self.on))} "
            f"({share:.1%}), {reading}"
            for x, y, n, share, reading in found if n and reading != "unchanged"
        ]  # fmt: skip
        if still := sum(row[2] for row in found if row[4] == "unchanged"):
            said.append(f"{show.count(still, unit_of(self.on))} did not move in one or both")
        return Finding(pl.DataFrame(found, schema=names, orient="row"), said)

    def plot(
        self, kind: str = "scatter", metric: str | None = None, outcome: str | None = None
    ) -> alt.TopLevelMixin:
        """An altair chart: scatter, slices (their correlations) or quadrants."""
        needs("altair", "report", "plot")
        from rankql.output import charts

        metric, outcome = self._named(metric, outcome)
        return charts.of_association(self, kind, metric, outcome)

    def called(self, name: str) -> str:
        """What the values of a metric or an outcome are: of two systems, changes."""
        return f"change of {name}" if self.systems else name

    def _named(self, metric: str | None, outcome: str | None) -> tuple[str, str]:
        if metric is not None and metric not in self.metrics and is_metric(metric):
            name = parse(metric)[0].name  # another spelling of it
            metric = next(
                (m for m in self.metrics if is_metric(m) and parse(m)[0].name == name), metric
            )
        return _one("metric", metric, self.metrics), _one("outcome", outcome, self.outcomes)

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Table, key, systems and notes as plain values."""
        return {
            "table": self.table.to_dicts(),
            "on": self.on,
            "systems": self.systems,
            "confidence": self.confidence,
            "higher_is_better": self.higher_is_better,
            "notes": self.notes,
        }

    def to_markdown(self) -> str:
        """What was found, then the table and the notes, as Markdown."""
        found = "\n".join(f"- {show.paragraph(sentence)}" for sentence in self.sentences)
        return f"{found}\n\n{show.markdown(self.rows(), self.remarks())}"

    def rows(self) -> show.Rows:
        """The table as text; columns that say nothing are left out."""
        frame = self.table.drop("sentence")
        idle = ["slice"] if not self.groupings else []
        idle += ["remark"] if frame["remark"].null_count() == len(frame) else []
        return show.cells(show.small(frame.drop(idle), "pearson_p", "spearman_p"))

    def remarks(self) -> list[str]:
        """The notes, as they stand below."""
        return [f"Note: {note}" for note in self.notes]

    def __repr__(self) -> str:
        return show.text(self.rows(), [*self.sentences, "", *self.remarks()])

    def _repr_html_(self) -> str:
        return show.as_html(self.rows(), [*self.sentences, *self.remarks()])


def _one(what: str, name: str | None, known: Sequence[str]) -> str:
    """The one that is named, or the only one."""
    if name is None:
        require(len(known) == 1, f"name the {what}: {what}= one of {', '.join(known)}")
        return known[0]
    if name not in known:
        raise RankqlError(f"{what}: there is no {name!r}{did_you_mean(name, known)}")
    return name


# Across experiments


def sign_agreement(
    experiments: Data,
    offline: str = "offline",
    online: str = "online",
    experiment: str | None = None,
    *,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Finding:
    """How often past launches moved the offline metric and the online one the same way.

    `experiments` is a table with a row per launch: the differences `offline` and `online`, of both
    of which more is better. With `experiment`, the column that names the launch, a launch may have
    several rows, such as slices: their means count. Launches in which either did not move are
    counted separately. The share has the exact interval of Clopper and Pearson. `slope` is the
    least-squares slope of online on offline, one point per launch, with Student's interval from 6
    launches on.

    >>> import polars as pl
    >>> past = pl.DataFrame({"offline": [1, 2, -1, 1, 3, 1, -2, 1],
    ...                      "online": [2, 1, -1, 1, 2, -1, 1, 3]})
    >>> print(sign_agreement(past).sentences[0])
    6 of 8 launches agree in sign: 0.75 (0.35 to 0.97), not significantly different from chance
    """
    needs("scipy", "stats", "sign_agreement")
    normal_z(confidence)  # refused before anything is read
    import numpy as np
    from scipy.stats import binomtest

    from rankql.decisions.regression import slope

    with open_session(con, experiments) as here:
        side = Side("experiments", {None: here.table(experiments, "experiments")})
        for argument, name in (
            ("offline", offline),
            ("online", online),
            ("experiment", experiment),
        ):
            if name is not None:
                side.need(name, argument)
        key = "NULL" if experiment is None else side.key(experiment, False)[0]
        ((x,), (y,)) = side.number(offline), side.number(online)
        with duckdb_errors():
            sql = f"SELECT {key} AS key, {x} AS x, {y} AS y FROM {side.tables[None].sql}"
            rows = execute(here, sql).pl()
    needed = ["x", "y"] if experiment is None else ["key", "x", "y"]
    kept = rows.drop_nulls(needed)
    require(len(kept) > 0, "experiments has no row with both differences")
    if experiment is None:
        kept = kept.with_columns(key=pl.int_range(pl.len()))
    kept = kept.sort("key", "x", "y")
    # in units of the greatest, so that sums and squares exist
    greatest = {name: float(np.abs(kept[name].to_numpy()).max()) or 1.0 for name in ("x", "y")}
    kept = kept.with_columns(pl.col(name) / of for name, of in greatest.items())
    means = kept.group_by("key", maintain_order=True).agg(
        pl.when(pl.col(name).mean().abs() <= 1e-12 * pl.col(name).abs().max())
        .then(0.0)
        .otherwise(pl.col(name).mean())
        .alias(name)
        for name in ("x", "y")
    )
    launches = means.select(pl.col("x", "y").sign())
    product = launches["x"] * launches["y"]
    agree, disagree = int((product > 0).sum()), int((product < 0).sum())
    n = agree + disagree
    share, lo, hi = None, None, None
    if n:
        share, (lo, hi) = agree / n, binomtest(agree, n).proportion_ci(confidence, "exact")
    line = slope(means["x"].to_numpy(), means["y"].to_numpy(), confidence)
    scale = greatest["y"] / greatest["x"]
    ends = [end if end is None else end * scale for end in line]
    sound = all(end is None or math.isfinite(end) for end in ends)
    require(sound, f"the slope of {online} on {offline} is beyond all numbers; scale one of them")
    row = {
        "launches": len(launches), "agree": agree, "disagree": disagree,
        "unmoved": len(launches) - n, "share": share, "lo": lo, "hi": hi,
        "rows": len(kept), "slope": ends[0], "slope_lo": ends[1], "slope_hi": ends[2],
    }  # fmt: skip
    kinds = {name: pl.Int64 if isinstance(row[name], int) and name in _COUNTS else pl.Float64
             for name in row}  # fmt: skip
    said = list(_agreeing(row))
    if left := len(rows) - len(kept):
        said.append(f"{left} of {show.count(len(rows), 'row')} left out because of a NULL")
    return Finding(pl.DataFrame([row], schema=kinds), said)


_COUNTS = ("launches", "agree", "disagree", "unmoved", "rows")


def _agreeing(row: Mapping[str, Any]) -> Iterator[str]:
    """What past launches say, in words."""
    from rankql.decisions.regression import LAUNCHES

    n, share, lo, hi = row["agree"] + row["disagree"], row["share"], row["lo"], row["hi"]
    if n == 0:
        yield "no launch moved both: there are no signs to compare"
    else:
        agree = "agrees" if n == 1 else "agree"
        size = f"{share:.2f} ({lo:.2f} to {hi:.2f})"
        start = f"{row['agree']} of {show.count(n, 'launch')} {agree} in sign: {size}"
        if lo <= 0.5 <= hi:
            yield f"{start}, not significantly different from chance"
        else:
            yield f"{start}, {'more' if lo > 0.5 else 'less'} often than by chance"
    if row["unmoved"]:
        of = show.count(row["launches"], "launch")
        yield f"{row['unmoved']} of {of} did not move one or both"
    if row["slope"] is None:
        yield "no slope: all offline differences are the same"
    else:
        few = row["launches"] < LAUNCHES
        size = f"no interval: fewer than {LAUNCHES} launches" if few else "all lie on one line"
        if row["slope_lo"] is not None:
            size = f"{show.rounded(row['slope_lo'])} to {show.rounded(row['slope_hi'])}"
        moves = f"{'gains' if row['slope'] >= 0 else 'loses'} {show.rounded(abs(row['slope']))}"
        yield f"a launch that gains 1 offline {moves} online ({size})"
