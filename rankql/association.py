"""Whether metrics go with what the business counts: joined by key, correlated, put into words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl

from rankql import show
from rankql.arguments import check, option, whole, z
from rankql.errors import RankqlError, did_you_mean, needs
from rankql.execution import execute, reporting
from rankql.matching import (
    Given,
    OutcomeNames,
    Side,
    Unit,
    key_columns,
    matched,
    metric_columns,
    opened,
    outcome_columns,
    read,
)
from rankql.names import is_metric, lower_is_better, parse
from rankql.result import groupings, slices
from rankql.tables import Data, session

if TYPE_CHECKING:
    import altair as alt
    import numpy as np
    from numpy.typing import NDArray

    from rankql.regression import Coefficient

_COEFFICIENTS = ("pearson", "spearman")
SCHEMA = {
    **dict.fromkeys(("metric", "outcome", "slice"), pl.String),
    "n": pl.Int64,
    **{f"{name}{part}": pl.Float64 for name in _COEFFICIENTS for part in ("", "_lo", "_hi", "_p")},
    **dict.fromkeys(("remark", "sentence"), pl.String),
}
SIMPSON = "another sign {} (Simpson)"
IN_NOISE = "at least one is within noise of 0"
# Fewer launches cannot be evidence: not even if all agreed would chance be below 1 in 20.
LAUNCHES = 6
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
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Whether metrics go with outcomes, such as clicks or revenue, key by key and within slices.

    `per_query` is a result of `evaluate`, a file that its `output=` wrote, or any table with the
    key and metrics; `outcomes` any table with the key and outcomes. `on` names the key, such as
    'query', 'user', 'day' or several columns; {'query': 'search'} where the names differ.
    `outcome` names columns of rates, or gives ratios of totals: {'CTR': ('clicks',
    'impressions')}. Of several rows of a key, metrics and rates are averaged and ratios taken of
    the sums. `metrics` are all by default, `outcome` all columns of numbers.

    `by` names attributes of the keys: correlations are pooled, within all slices together (of the
    deviations from their means), and in each slice. Of two systems, a dict or the column `system`
    in both tables, the differences are correlated, other - baseline (of a dict the first).

    Pearson's interval is by Fisher's z, Spearman's by that of Bonett and Wright (2000). NULL and
    ratios by 0 are left out and counted; what is no finite number is refused.

    >>> import polars as pl
    >>> found = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "AP": [0.1, 0.4, 0.5, 0.7, 0.9]})
    >>> log = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "CTR": [0.0, 0.2, 0.1, 0.3, 0.4]})
    >>> associate(found, log, on="query").table["pearson"].round(3).item()
    0.938
    """
    needs("scipy", "stats", "associate")
    z(confidence)  # refused before anything is read
    keys, groups = key_columns(on), groupings(by)
    with session(con, per_query, outcomes) as here:
        scores, counts = opened(here, per_query, "per_query"), opened(here, outcomes, "outcomes")
        named = metric_columns(scores, metrics)
        taken = [*keys.values(), "system", *(name for group in groups for name in group)]
        counted = outcome_columns(here, counts, outcome, taken)
        given = Given(scores, counts, keys, groups, named, counted)
        given.check(here)
        rows = read(here, given)
    pairs, systems, notes = matched(rows, given, baseline)
    table, turned = _correlated(pairs, given, confidence, systems is not None)
    if systems:
        one = Unit.of([*keys]).one
        notes = [f"every value is what a {one} gained: {systems[1]} - {systems[0]}", *notes]
    lower = [metric for metric in named if lower_is_better(metric)]
    notes += [*turned, *([f"less is better of {', '.join(lower)}"] if lower else [])]
    if len(table) > 1:
        notes.append(
            f"p is not adjusted for the {len(table)} rows: where nothing is related, 1 in 20 is "
            "still below 0.05"
        )
    notes.append("that they go together does not say that one moves the other")
    return Association(table, pairs, [*keys], named, [*counted], groups, systems, confidence, notes)


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
        found = {label: part.to_numpy() for label, part in slices(frame, [group]).items()}
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

    from rankql.regression import pearson, ranks, spearman

    unit = Unit.of([*given.keys])
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
    from rankql.regression import TOO_FEW, varies

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
                advice = "Simpson's paradox, go by what is within"
            return f"{name.capitalize()} {one.said} over all, but {other.said} {{}}: {advice}"
    return None


def _row(
    metric: str, outcome: str, label: str, n: int, found: Sequence[Coefficient]
) -> dict[str, Any]:
    row: dict[str, Any] = {"metric": metric, "outcome": outcome, "slice": label, "n": n}
    for name, each in zip(_COEFFICIENTS, found, strict=True):
        parts = {"": each.r, "_lo": each.lo, "_hi": each.hi, "_p": each.p}
        row |= {f"{name}{part}": value for part, value in parts.items()}
    return row


def _sentence(
    row: Mapping[str, Any], found: Sequence[Coefficient], unit: Unit, change: bool
) -> str:
    """What was found, in words."""
    of = "the change of " if change else ""
    metric, outcome = f"{of}{row['metric']}", f"{of}{row['outcome']}"
    count = unit.count(row["n"])
    if found[0].r is None:
        return f"{metric} and {outcome} cannot be correlated: {row['remark']}, {count}"
    said = ", ".join(
        f"{name.capitalize()} {each.said}" for name, each in zip(_COEFFICIENTS, found, strict=True)
    )
    signs = [each.sign for each in found]
    if not any(signs):
        start = f"no evidence that {outcome} goes with {metric}"
    elif 1 in signs and -1 in signs:
        start = f"Pearson and Spearman disagree on how {outcome} goes with {metric}"
    else:
        weak = "weak evidence: " if 0 in signs else ""
        start = f"{weak}{outcome} is {'higher' if 1 in signs else 'lower'} where {metric} is higher"
    return f"{start}: {said}, {count}"


# What is made of it


@dataclass(frozen=True)
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


@dataclass
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

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        rows = self.table.select("slice", "sentence").rows()
        return [said if part == "all" else f"{part}: {said}" for part, said in rows]

    def calibration(
        self, metric: str | None = None, outcome: str | None = None, bins: int = 10
    ) -> Finding:
        """The mean outcome by tenths of the metric, with Student's interval.

        Keys of equal values stay in one bin, so that there may be fewer. Each key counts once,
        however many rows it has.
        """
        from rankql.regression import binned, half_width

        metric, outcome = self._named(metric, outcome)
        whole("bins", bins, 2)
        rows = self._known([metric], outcome)
        x, y = pl.col(metric), pl.col(outcome)
        frame = (
            rows.group_by(bin=pl.Series(binned(_numbers(rows, metric), bins)) + 1)
            .agg(pl.len().cast(pl.Int64).alias("n"), x.min().alias("from"), x.max().alias("to"),
                 y.mean().alias("mean"), (y.std() / pl.len().sqrt()).alias("width"))
            .sort("bin")
        )  # fmt: skip
        width = half_width(_numbers(frame, "width"), frame["n"].to_numpy(), self.confidence)
        reach = pl.Series(width).fill_nan(None)
        frame = frame.with_columns(lo=pl.col("mean") - reach, hi=pl.col("mean") + reach)
        frame = frame.select("bin", "n", "from", "to", "mean", "lo", "hi")
        means = frame["mean"].to_list()
        ups = sum(b > a for a, b in itertools.pairwise(means))
        said = [
            f"mean {self.called(outcome)} is {means[0]:.3g} in the lowest bin by "
            f"{self.called(metric)}, {means[-1]:.3g} in the highest; it rises in {ups} of "
            f"{len(means) - 1} steps"
        ]
        if len(frame) < bins:
            bin_ = "bin" if len(frame) == 1 else "bins"
            said.append(
                f"{len(frame)} {bin_} in place of {bins}: equal values of {metric} stay together"
            )
        return Finding(frame, said)

    def quadrants(self, metric: str | None = None, outcome: str | None = None) -> Finding:
        """How many keys moved which way, metric and outcome, from one system to the other.

        More is taken to be better of an outcome; of one where less is, give the negative.
        """
        metric, outcome = self._named(metric, outcome)
        if self.systems is None:
            raise RankqlError(
                "quadrants needs two systems: associate({'old': ..., 'new': ...}, ...)"
            )
        rows = self._known([metric], outcome)
        moved = [pl.col(name).sign().cast(pl.Int8) for name in (metric, outcome)]
        counts = dict.fromkeys(itertools.product((1, -1, 0), repeat=2), 0)
        counts |= {(x, y): n for x, y, n in rows.group_by(x=moved[0], y=moved[1]).len().rows()}
        sign = -1 if lower_is_better(metric) else 1
        words = {1: "up", -1: "down", 0: "same"}
        found = [
            (words[x], words[y], n, n / len(rows), READINGS.get((sign * x, y), "unchanged"))
            for (x, y), n in sorted(counts.items(), key=lambda item: 0 in item[0])
        ]
        names = {"metric": pl.String, "outcome": pl.String, "n": pl.Int64, "share": pl.Float64,
                 "reading": pl.String}  # fmt: skip
        a, b = self.systems
        said = [
            f"from {a} to {b}, {metric} {x} and {outcome} {y}: {Unit.of(self.on).count(n)} "
            f"({share:.1%}), {reading}"
            for x, y, n, share, reading in found if n and reading != "unchanged"
        ]  # fmt: skip
        still = sum(row[2] for row in found if row[4] == "unchanged")
        said += [f"{Unit.of(self.on).count(still)} did not move in one or both"] if still else []
        return Finding(pl.DataFrame(found, schema=names, orient="row"), said)

    def best(
        self,
        outcome: str | None = None,
        folds: int = 5,
        group: str | None = None,
        shape: str = "linear",
        seed: int = 7,
    ) -> Finding:
        """Which metric, at which cutoff, predicts an outcome best: cross-validated.

        The keys are dealt into `folds` at random, those of one `group` (a column of the key or of
        by=) into the same; each is predicted from one metric by a line ('linear') or the best
        monotone curve ('monotone') through the other folds. r2 is 1 - sum of squared errors / that
        of the mean of the other folds: from 0 down, no better than the mean. `behind` is how much
        less it is than that of the best, with an interval over keys or groups. All metrics are
        compared on the keys for which all have a value.
        """
        import numpy as np

        from rankql.regression import SHAPES, predicted, varies
        from rankql.significance import Sample, Setting, t

        outcome = _one("outcome", outcome, self.outcomes)
        option("shape", shape, *SHAPES)
        whole("folds", folds, 2)
        whole("seed", seed, 0)
        known = [*self.on, *dict.fromkeys(itertools.chain(*self.groupings))]
        if group is not None and group not in known:
            raise RankqlError(f"group: there is no column {group!r}{did_you_mean(group, known)}")
        names = [name for name in self.metrics if self.pairs[name].null_count() < len(self.pairs)]
        check(bool(names), f"no metric has a value for any {Unit.of(self.on).one}")
        rows = self._known(names, outcome)
        y = _numbers(rows, outcome)
        units = np.arange(len(rows))
        if group is not None:
            units = rows[group].rank("dense").fill_null(0).to_numpy().astype(np.intp)
            units = np.unique(units, return_inverse=True)[1]
        many = len(np.unique(units))
        unit = Unit.of(self.on if group is None else [group])
        check(many >= folds, f"folds={folds} needs as many {unit.many}; there are {many}")
        if not varies(y):
            raise RankqlError(f"{outcome} is constant: there is nothing to predict")
        found = predicted({n: _numbers(rows, n) for n in names}, y, units, folds, seed, shape)
        names.sort(key=lambda name: -found.r2(name))
        table = []
        for name in names:
            by_fold = found.r2_by_fold(name)
            sample = Sample(found.lost(name, names[0]), None if group is None else units)
            lo = hi = None
            if name != names[0] and not sample.constant:
                behind = t(sample, Setting(alpha=1 - self.confidence))
                lo, hi = behind.lo, behind.hi
            table.append((name, len(rows), found.r2(name), by_fold.min(), by_fold.max(),
                          sample.mean, lo, hi))  # fmt: skip
        kinds = {"metric": pl.String, "n": pl.Int64} | dict.fromkeys(
            ("r2", "lowest_fold", "highest_fold", "behind", "behind_lo", "behind_hi"), pl.Float64
        )
        frame = pl.DataFrame(table, schema=kinds, orient="row")
        said = _ranked(frame, outcome, "the change of " if self.systems else "")
        return Finding(frame, [*said, *self._left(rows, names)])

    def plot(
        self, kind: str = "scatter", metric: str | None = None, outcome: str | None = None
    ) -> alt.TopLevelMixin:
        """An altair chart: scatter, slices (their correlations), calibration or quadrants."""
        needs("altair", "report", "plot")
        from rankql import charts

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

    def _known(self, metrics: Sequence[str], outcome: str) -> pl.DataFrame:
        """The rows that have a value of all of them."""
        rows = self.pairs.drop_nulls([*metrics, outcome])
        what = ", ".join([*metrics, outcome])
        check(len(rows) > 0, f"no {Unit.of(self.on).one} has a value of all of {what}")
        return rows

    def _left(self, rows: pl.DataFrame, names: Sequence[str]) -> list[str]:
        """What was left out of a comparison of the metrics."""
        unit, left = Unit.of(self.on), len(self.pairs) - len(rows)
        never = [name for name in self.metrics if name not in names]
        said = [f"{left:,} of {unit.count(len(self.pairs))} have not all values and are left out"]
        return [*(said if left else []), *(f"{name} has no value at all" for name in never)]

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
        check(len(known) == 1, f"name the {what}: {what}= one of {', '.join(known)}")
        return known[0]
    if name not in known:
        raise RankqlError(f"{what}: there is no {name!r}{did_you_mean(name, known)}")
    return name


def _ranked(frame: pl.DataFrame, outcome: str, of: str) -> Iterator[str]:
    """Which metric predicts best, and whether by more than noise."""
    best, *others = frame.to_dicts()
    if best["r2"] <= 0:
        yield f"no metric predicts {of}{outcome} better than its mean does"
        return
    yield (
        f"{of}{best['metric']} predicts {of}{outcome} best: r2 {best['r2']:.3f} out of sample "
        f"(by fold {best['lowest_fold']:.3f} to {best['highest_fold']:.3f})"
    )
    near = [row["metric"] for row in others if row["behind_lo"] is None or row["behind_lo"] <= 0]
    if near:
        yield f"within noise of it: {', '.join(near)}"
    elif others:
        lo, hi = others[0]["behind_lo"], others[0]["behind_hi"]
        yield (
            f"the next, {others[0]['metric']}, is behind by {others[0]['behind']:.3f} "
            f"({lo:.3f} to {hi:.3f})"
        )
    idle = [row["metric"] for row in others if row["r2"] <= 0]
    if idle:
        yield f"no better than the mean: {', '.join(idle)}"


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
    of which more is better. With `experiment`, the column that names the launch, it may have
    several rows, such as slices: signs are those of the launch's means, and the slope's interval is
    clustered by launch (jackknife, CV3). Launches in which either did not move are counted apart.
    The share has Wilson's interval; slope is that of the least-squares line of online on offline.

    >>> import polars as pl
    >>> past = pl.DataFrame({"offline": [1, 2, -1, 1, 3, 1, -2, 1],
    ...                      "online": [2, 1, -1, 1, 2, -1, 1, 3]})
    >>> print(sign_agreement(past).sentences[0])
    6 of 8 launches agree in sign: 0.75 (0.41 to 0.93), no evidence that they do more than by chance
    """
    needs("scipy", "stats", "sign_agreement")
    z(confidence)  # refused before anything is read
    import numpy as np

    from rankql.regression import slope, wilson

    with session(con, experiments) as here:
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
        with reporting():
            sql = f"SELECT {key} AS key, {x} AS x, {y} AS y FROM {side.tables[None].sql}"
            rows = execute(here, sql).pl()
    needed = ["x", "y"] if experiment is None else ["key", "x", "y"]
    kept = rows.drop_nulls(needed)
    check(len(kept) > 0, "experiments has no row with both differences")
    if experiment is None:
        kept = kept.with_columns(key=pl.int_range(pl.len()))
    kept = kept.sort("key", "x", "y")
    # in units of the greatest, so that sums and squares exist
    greatest = {name: float(np.abs(kept[name].to_numpy()).max()) or 1.0 for name in ("x", "y")}
    kept = kept.with_columns(pl.col(name) / of for name, of in greatest.items())
    units = kept["key"].rank("dense").to_numpy().astype(np.intp) - 1
    launches = kept.group_by("key", maintain_order=True).agg(
        pl.when(pl.col(name).mean().abs() <= 1e-12 * pl.col(name).abs().max())
        .then(0.0)
        .otherwise(pl.col(name).mean())
        .sign()
        .alias(name)
        for name in ("x", "y")
    )
    product = launches["x"] * launches["y"]
    agree, disagree = int((product > 0).sum()), int((product < 0).sum())
    n = agree + disagree
    share, lo, hi = (None, None, None) if n == 0 else (agree / n, *wilson(agree, n, confidence))
    line = slope(kept["x"].to_numpy(), kept["y"].to_numpy(), units, confidence)
    scale = greatest["y"] / greatest["x"]
    ends = [end if end is None else end * scale for end in (line.slope, line.lo, line.hi)]
    sound = all(end is None or math.isfinite(end) for end in ends)
    check(sound, f"the slope of {online} on {offline} is beyond all numbers; scale one of them")
    row = {
        "launches": len(launches), "agree": agree, "disagree": disagree,
        "unmoved": len(launches) - n, "share": share, "lo": lo, "hi": hi,
        "rows": len(kept), "slope": ends[0], "slope_lo": ends[1], "slope_hi": ends[2],
    }  # fmt: skip
    kinds = {name: pl.Int64 if isinstance(row[name], int) and name in _COUNTS else pl.Float64
             for name in row}  # fmt: skip
    said = list(_agreeing(row))
    if left := len(rows) - len(kept):
        said.append(f"{left} of {len(rows)} rows have a NULL and are left out")
    return Finding(pl.DataFrame([row], schema=kinds), said)


_COUNTS = ("launches", "agree", "disagree", "unmoved", "rows")


def _agreeing(row: Mapping[str, Any]) -> Iterator[str]:
    """What past launches say, in words."""
    n, share, lo, hi = row["agree"] + row["disagree"], row["share"], row["lo"], row["hi"]
    if n == 0:
        yield "no launch moved both: there are no signs to compare"
    else:
        of = f"{n} launch agrees" if n == 1 else f"{n} launches agree"
        start = f"{row['agree']} of {of} in sign: {share:.2f} ({lo:.2f} to {hi:.2f})"
        if n < LAUNCHES:
            yield f"{start}; so few launches are no evidence, were all of one sign"
        elif lo <= 0.5 <= hi:
            yield f"{start}, no evidence that they do more than by chance"
        else:
            yield f"{start}, {'more' if lo > 0.5 else 'less'} often than by chance"
    if row["unmoved"]:
        yield f"{row['unmoved']} of {row['launches']} launches did not move one or both"
    if row["slope"] is None:
        yield "there is no slope: the offline differences are all the same"
    else:
        size = "no interval: too few launches that differ, or all on one line"
        if row["slope_lo"] is not None:
            clustered = ", clustered by launch" if row["rows"] > row["launches"] else ""
            size = f"{row['slope_lo']:.3g} to {row['slope_hi']:.3g}{clustered}"
        yield f"a launch that gains 1 offline gains {row['slope']:.3g} online ({size})"
