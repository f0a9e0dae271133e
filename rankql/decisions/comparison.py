"""Which system is better: paired comparisons of systems on the same queries."""

from __future__ import annotations

import inspect
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.engines.evaluate import evaluate
from rankql.errors import RankqlError, did_you_mean, needs, unknown
from rankql.evaluation.arguments import DEFAULT_METRICS, parse_groupings
from rankql.evaluation.combining import combine_systems, read_metadata
from rankql.evaluation.result import Result
from rankql.evaluation.summary import attribute_column
from rankql.evaluation.values import Request, align_results, read_result, set_directions
from rankql.registry.conventions import option_names
from rankql.registry.options import require
from rankql.registry.parse import is_metric, parse
from rankql.sources.tables import Data

if TYPE_CHECKING:
    import altair as alt

    from rankql.decisions.pairing import Settings

Results = Result | str | os.PathLike[str] | pl.DataFrame

# The cutoffs at which `Comparison.cutoffs` looks.
CUTOFFS = (1, 3, 5, 10, 20, 50, 100)
# So many sentences stand in Markdown before the table.
SENTENCES = 12


def compare(
    runs: Data | Mapping[str, Data] | Sequence[Data] | Results | Mapping[str, Results],
    *data: Any,
    qrels: Data | None = None,
    metrics: str | Sequence[str] | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    baseline: str | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    cluster: str | None = None,
    test: str = "t",
    correction: str = "holm",
    family: str = "all",
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 7,
    min_queries: int = 0,
    bounds: Mapping[str, Sequence[float]] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Comparison:
    """Compare systems on the same queries: how large each difference is, and whether it is noise.

    `runs` is a dict of name: run, a list of runs, one table with the column `system`, or the first
    of two runs: `compare(a, b, qrels, metrics)`. Runs are evaluated with `evaluate`, which explains
    `qrels`, `metrics`, `by`, `con` and the further options. Without `qrels`, they are results:
    those of `evaluate`, files that `output=` wrote, or any tables with one row per query (a key and
    columns of numbers, such as revenue). Every pair is compared, or with `baseline` every other
    system with that one. The difference is b - a, over the queries for which both are defined; a
    query that is missing in one counts as the conventions say.

    `higher_is_better` is the direction of columns that are not metrics of rankql: True, False or a
    dict of name: bool. Without it, higher is assumed to be better, and a note says so.

    `test` is 't', 'randomisation', 'bootstrap', 'wilcoxon', 'tukey', 'randomised_tukey' or
    'anytime'. Only 'anytime' stays valid if you look again as queries come in; it needs metrics of
    a known range, or `bounds`, such as {'DCG@10': (0, 20)}. `correction` adjusts for multiple
    tests: 'holm', 'bonferroni', 'bh' or 'none', over all tests (family='all') or those of a metric
    ('metric'). Each interval is shown at the level of its own test, so that it excludes 0 exactly
    where the verdict is better or worse; 'wilcoxon' has none. `cluster` names the attribute of
    queries that belong together, such as a user: 't' and 'randomisation' then treat each cluster as
    a whole, and need 10 of them. `resamples` and `seed` are those of resampling. Slices with fewer
    than `min_queries` queries are shown, not tested.

    >>> import polars as pl
    >>> old = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.5, 0.2, 0.4]})
    >>> new = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.7, 0.5, 0.5]})
    >>> print(compare({"old": old, "new": new}).sentences[0])
    AP: no significant difference between new and old: 0.20 (95% CI -0.05 to 0.45; p = 0.074; \
3 queries). A difference of about 0.31 would have been detected with 80% power
    """
    needs("scipy", "stats", "compare")
    from rankql.decisions.pairing import Settings, compared, lined_up

    settings = Settings(test, correction, family, confidence, cluster, baseline, resamples, seed,
                        min_queries, bounds)  # fmt: skip
    settings.check()
    for option in ("interval", "output"):
        if option in options:
            raise RankqlError(f"{option}= is an option of evaluate; compare has none")
    for name in options:
        if name not in (known := option_names_of(compare)):
            raise RankqlError(unknown("option", name, known))
    groups = parse_groupings(by)
    source = None
    keywords = {"con": con, "conventions": conventions, **options}
    runs, qrels, metrics, named = _arranged(runs, data, qrels, metrics, keywords)
    attributes = [*itertools.chain(*groups), *([] if cluster is None else [cluster])]
    request = Request.of(keywords, metrics, attributes, higher_is_better)
    result = _results(runs, qrels, request)
    if result is not None:
        used = ("con", "query")  # to read tables of values
        unused = [name for name in keywords if name not in used and keywords[name] is not None]
        if unused:
            raise RankqlError(
                f"{unused[0]}= is an option for runs. These are results, evaluated already: leave "
                "it out, or pass the runs."
            )
        result = _chosen(result, metrics, groups, cluster)
    else:
        keywords["by"] = groups if cluster is None else [*groups, [cluster]]
        result = evaluate(runs, qrels, metrics or DEFAULT_METRICS, interval=None, **keywords)
        source = Source(runs, qrels, keywords)
    result = set_directions(result, higher_is_better)
    result.notes[:0] = named
    if isinstance(runs, Mapping):
        systems = list(runs)
    else:
        several = result.meta["system"]
        systems = result.frame()["system"].unique().sort().to_list() if several else ["run"]
    result = replace(
        lined_up(result, systems), interval="auto", confidence=confidence, _summary=None
    )
    result.meta["groupings"] = groups
    table, notes = compared(result, systems, settings)
    return Comparison(result, table, settings, systems, [*notes, *result.notes], source)


@dataclass(frozen=True)
class Source:
    """The runs that were compared, to look into them again."""

    runs: Any
    qrels: Any
    keywords: Mapping[str, Any]

    def ask(self, function: Any, only: str | None = None, **keywords: Any) -> Any:
        """What a function of ours, one without slices, says of the same runs, or of only one."""
        runs = self.runs
        if only is not None and isinstance(runs, Mapping):
            runs = runs[only]
        elif only is not None and self.keywords.get("system"):
            keywords["which"] = only
        sliced = ("by", "attributes", "output")
        known = {name: value for name, value in self.keywords.items() if name not in sliced}
        return function(runs, self.qrels, **known | keywords)


def option_names_of(function: Any) -> list[str]:
    """The options of `compare` or `gate`: its own and those that it passes on to `evaluate`."""
    own = [name for name in inspect.signature(function).parameters if name not in _NOT_OPTIONS]
    passed = [name for name in inspect.signature(evaluate).parameters if name not in _NOT_OPTIONS]
    return list(dict.fromkeys([*own, *passed, *option_names()]))


_NOT_OPTIONS = ("run", "runs", "data", "interval", "output", "options")


def _arranged(
    runs: Any, data: Sequence[Any], qrels: Any, metrics: Any, keywords: Mapping[str, Any]
) -> tuple[Any, Any, Any, list[str]]:
    """The runs by name, the judgments, the metrics, and a note on names that were made up."""
    given = list(data)
    if len(given) > 1 and given[-1] is None:  # no metrics
        given.pop()
    several = isinstance(runs, list | tuple)
    if given and metrics is None and _are_metrics(given, several or isinstance(runs, Mapping)):
        metrics = given.pop()
    room = 0 if qrels is not None else 1
    two = len(given) > room or (
        len(given) == 1 and not several and not isinstance(runs, Mapping)
        and (qrels is not None or _are_values(given[0], runs, metrics, keywords))
    )  # fmt: skip
    if len(given) > room + two or (two and (several or isinstance(runs, Mapping))):
        raise RankqlError(
            "compare takes runs, qrels and metrics. Pass more than two runs as a dict, such as "
            "compare({'old': old, 'new': new}, qrels)."
        )
    if two:
        runs, several = [runs, given.pop(0)], True
    qrels = given.pop() if given else qrels
    if two and qrels is not None and _are_values(qrels, runs[0], metrics, keywords):
        raise RankqlError(
            "compare takes two results as arguments. Pass more of them as a dict, such as "
            "compare({'old': old, 'new': new, 'newer': newer})."
        )
    if several and not runs:
        raise RankqlError("compare needs at least one run")
    if not several:
        return runs, qrels, metrics, []
    names = _named(runs)
    note = (
        f"systems are named {show.listed([*names])}, in the order given (pass a dict to name them)"
    )
    return dict(zip(names, runs, strict=True)), qrels, metrics, [note]


def _named(runs: Sequence[Any]) -> list[str]:
    """Names of runs in a list: those of their files, or run 1, run 2."""
    paths = [run for run in runs if isinstance(run, str | os.PathLike)]
    names = [Path(os.fspath(path).removesuffix(".gz")).stem for path in paths]
    if len(paths) == len(runs) and len({*names}) == len(names) and all(names):
        return names
    return [f"run {i}" for i in range(1, len(runs) + 1)]


def _are_metrics(given: Sequence[Any], several: bool) -> bool:
    """Is the last positional argument the metrics, and not data?"""
    last = given[-1]
    if isinstance(last, list | tuple):
        return True
    if not isinstance(last, str):
        return False
    file = bool(Path(last).suffix) or os.path.exists(last)
    return is_metric(last) or (not file and len(given) > (1 if several else 2))


def _are_values(second: Any, first: Any, metrics: Any, keywords: Mapping[str, Any]) -> bool:
    """Are two positional arguments results, and not a run and its judgments?"""
    request = Request.of(keywords, metrics, (), None)
    return all(read_result(data, "run", request) is not None for data in (first, second))


def _results(runs: Any, qrels: Any, request: Request) -> Result | None:
    """The results of the systems, if results were given and not runs."""
    several = isinstance(runs, Mapping)
    given = runs if several else {"run": runs}
    if not given:
        raise RankqlError("compare needs at least one run")
    if not all(isinstance(name, str) and name for name in given):
        raise RankqlError("the systems must be named by text that is not empty")
    certain = [name for name, data in given.items() if is_result(data)]
    if qrels is not None:
        if len(certain) == len(given):
            raise RankqlError(
                "qrels= is for runs. These are results, evaluated already: leave it out, or pass "
                "the runs."
            )
        if certain:
            raise RankqlError(
                f"{certain[0]!r} is a result; evaluate the others too, or give its run"
            )
        return None
    read = {name: read_result(data, name, request) for name, data in given.items()}
    results = {name: result for name, result in read.items() if result is not None}
    if not results:
        return None
    if len(results) < len(given):
        one = next(name for name, result in read.items() if result is not None)
        other = next(name for name, result in read.items() if result is None)
        raise RankqlError(
            f"{one!r} is a result, {other!r} is not: it is a run, or has several rows per query. "
            "Evaluate it too, or give the runs."
        )
    tables = [name for name in given if name not in certain]
    if tables:
        results = align_results(results, tables, request.attributes)
    return combine_systems(results) if several else next(iter(results.values()))


def is_result(data: Any) -> bool:
    """Is it a result of `evaluate`, or a file that it wrote?"""
    return isinstance(data, Result) or (
        isinstance(data, str | os.PathLike) and read_metadata(data) is not None
    )


def _chosen(
    result: Result, metrics: Any, groups: Sequence[Sequence[str]], cluster: str | None
) -> Result:
    """The result with the metrics that are asked for, if it has the columns that are."""
    known = result.meta["by"]
    for name in [*itertools.chain(*groups), *([] if cluster is None else [cluster])]:
        if name not in known:
            hint = did_you_mean(name, known) if known else "; evaluate them with by="
            raise RankqlError(f"the results have no attribute {name!r}{hint}")
    if metrics is None:
        return result
    named = []
    for text in [metrics] if isinstance(metrics, str) else metrics:
        if text in result.metrics:
            named.append(text)
            continue
        if not is_metric(text):
            raise RankqlError(unknown("metric", text, result.metrics))
        named += [metric.under(result.conventions).name for metric in parse(text)]
    for name in named:
        if name not in result.metrics:
            raise RankqlError(f"{name!r} was not evaluated{did_you_mean(name, result.metrics)}")
    return replace(result, meta=result.meta | {"metrics": list(dict.fromkeys(named))})


@dataclass(eq=False)
class Comparison(show.Tabular):
    """Systems compared, pair by pair.

    `table` has a row per metric, slice and pair: the means, the difference b - a with its interval,
    p, p_adjusted (over the family), effect (Cohen's d_z), wins, ties and losses of b, n, detectable
    (the difference that would be detected with 80% power, about), a verdict ('better', 'worse',
    'not significant' or why it was not tested) and a sentence.
    `result` has the values per query and the means of the systems.
    """

    result: Result
    table: pl.DataFrame
    settings: Settings
    systems: list[str]
    notes: list[str] = field(default_factory=list)
    # The runs, to look into; None where results were compared.
    source: Source | None = field(default=None, repr=False)

    @property
    def metrics(self) -> list[str]:
        """The metrics, by their canonical names."""
        return self.result.metrics

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """The direction of every metric."""
        return {name: not self.result.lower_is_better(name) for name in self.metrics}

    @property
    def summary(self) -> pl.DataFrame:
        """The means of the systems by slice."""
        return self.result.summary

    @property
    def per_query(self) -> pl.DataFrame:
        """The values of every system and query."""
        return self.result.per_query

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        columns = ("metric", "slice", "sentence")
        return [
            f"{metric}{'' if part == 'all' else f', {part}'}: {sentence}"
            for metric, part, sentence in self.table.select(columns).iter_rows()
        ]

    def differences(self, metric: str, a: str, b: str) -> pl.DataFrame:
        """What each query gained from a to b, the most lost first; undefined ones left out."""
        from rankql.decisions.pairing import compared_value

        name = metric
        if name not in self.metrics and is_metric(name):  # another spelling of it
            name = parse(metric)[0].under(self.result.conventions).name
        for asked, known in ((name, self.metrics), (a, self.systems), (b, self.systems)):
            if asked not in known:
                raise RankqlError(
                    f"nothing was compared by the name {asked!r}{did_you_mean(asked, known)}"
                )
        key, by = self.result.meta["query"], self.result.meta["by"]
        value = compared_value(name, self.result.conventions)
        rows = self.result.frame()
        about = {name: attribute_column(name, ("a", "b", "difference")) for name in [key, *by]}
        key = about[key]
        named = [pl.col(name).alias(column) for name, column in about.items()]
        sides = [
            rows.filter(pl.col("system") == system).select(*named, value.alias(side))
            for system, side in ((a, "a"), (b, "b"))
        ]
        gain = pl.col("b") - pl.col("a")
        return (
            sides[0]
            .join(sides[1].select(key, "b"), on=key)
            .with_columns(gain.alias("difference"))
            .drop_nulls("difference")
            .sort((-gain if self.result.lower_is_better(name) else gain), key)
        )

    def discriminative_power(self) -> pl.DataFrame:
        """By metric, the share of pairs with p <= 1 - confidence, uncorrected (Sakai 2006)."""
        alpha = self.settings.alpha
        return (
            self.table.filter(pl.col("slice") == "all")
            .group_by("metric", maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("pairs"),
                (pl.col("p") <= alpha).fill_null(False).sum().cast(pl.Int64).alias("significant"),
            )
            .with_columns((pl.col("significant") / pl.col("pairs")).alias("share"))
        )

    def agreement(self) -> pl.DataFrame:
        """How alike two metrics order the systems: Kendall's tau-b of their means.

        `swapped` counts the pairs of systems that one has the other way round. NULL where a metric
        tells no two systems apart.
        """
        from scipy.stats import kendalltau

        means = self.summary.filter(pl.col("slice") == "all")
        found = []
        for one, other in itertools.combinations(self.metrics, 2):
            values = [
                means.filter(pl.col("metric") == name).sort("system")["mean"].round(12)
                * (-1 if self.result.lower_is_better(name) else 1)
                for name in (one, other)
            ]
            pairs = list(itertools.combinations(zip(*values, strict=True), 2))
            swapped = sum((x[0] - y[0]) * (x[1] - y[1]) < 0 for x, y in pairs if None not in x + y)
            tau = float(kendalltau(*values).statistic)
            found.append((one, other, None if math.isnan(tau) else tau, swapped, len(pairs)))
        kinds = [pl.String, pl.String, pl.Float64, pl.Int64, pl.Int64]
        names = ["metric", "other", "tau_b", "swapped", "pairs"]
        return pl.DataFrame(found, schema=dict(zip(names, kinds, strict=True)), orient="row")

    def cutoffs(self, metric: str | None = None, ks: Sequence[int] = CUTOFFS) -> Comparison:
        """The same comparison of one metric at several cutoffs: which k to choose.

        Its `summary` are the curves, `discriminative_power()` says at which k the systems are told
        apart, `agreement()` whether their order depends on k.
        """
        if self.source is None:
            raise RankqlError("cutoffs needs the runs; these are results: compare the runs")
        given = parse(metric or self.metrics[0])[0]
        if given.measure is None or "k" not in given.measure.defaults:
            raise RankqlError(f"{given.name} has no cutoff")
        if not isinstance(ks, list | tuple | range) or not ks:
            raise RankqlError(f"ks must be a list of cutoffs, such as [5, 10, 20], not {ks!r}")
        names = [f"{replace(given, k=None).name}@{k}" for k in ks]
        keywords = {**self.source.keywords, **asdict(self.settings), "by": ()}
        if self.settings.bounds is not None:
            known = [name for name in names if name in self.settings.bounds]
            keywords["bounds"] = {name: self.settings.bounds[name] for name in known}
        return compare(self.source.runs, qrels=self.source.qrels, metrics=names, **keywords)

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Table, means, settings, conventions and notes as plain values."""
        return {
            "table": self.table.to_dicts(),
            "summary": self.summary.to_dicts(),
            "settings": asdict(self.settings),
            "conventions": self.result.conventions,
            "higher_is_better": self.higher_is_better,
            "columns": self.result.columns,
            "notes": self.notes,
        }

    def to_markdown(self) -> str:
        """The comparison as Markdown, for a pull request: what was found, then the table."""
        said, rows = self.sentences, self.rows()
        found = [f"- {show.paragraph(sentence)}" for sentence in said[:SENTENCES]]
        if len(said) > SENTENCES:
            found.append(f"- and {len(said) - SENTENCES} more, in the table")
        table = [show.markdown(rows)] if said else []
        if len(rows) > 2 * SENTENCES:
            table = _folded("The table", table)
        notes = [show.paragraph(remark) for remark in self.remarks()]
        below = _folded("Conventions, columns and notes", notes)
        return "\n\n".join(["\n".join(found)] * bool(found) + table + below)

    def plot(
        self,
        kind: str = "differences",
        metric: str | None = None,
        a: str | None = None,
        b: str | None = None,
    ) -> alt.TopLevelMixin:
        """An altair chart: differences, means, intervals, distribution, slices or cutoffs.

        Of one metric, or of all; the differences and slices of the pair a, b, or of all.
        """
        needs("altair", "report", "plot")
        from rankql.output import charts

        return charts.of_comparison(self, kind, metric, a, b)

    def save(
        self, path: str | os.PathLike[str], *, title: str | None = None, date: str | None = None
    ) -> None:
        """Write it to a file: .html (a report), .md, .csv, .json or .parquet (the table)."""
        from rankql.output import report as reporting

        reporting.save(self, Path(path), title, date)

    def rows(self) -> show.Rows:
        """The table as text; columns that say nothing are left out. Of one system, its means."""
        if self.table.is_empty():
            return self.result.table()
        frame = self.table.drop("sentence", "p_error")
        if (frame["slice"] == "all").all():
            frame = frame.drop("slice")
        if (frame["p"] == frame["p_adjusted"]).all():
            frame = frame.drop("p_adjusted")
        return show.cells(show.small(frame, "p", "p_adjusted"))

    def remarks(self) -> list[str]:
        """What belongs under the table: conventions, columns, notes."""
        return replace(self.result, notes=self.notes).remarks()

    def __repr__(self) -> str:
        return show.text(self.rows(), [*self.sentences, "", *self.remarks()])

    def _repr_html_(self) -> str:
        return show.as_html(self.rows(), [*self.sentences, *self.remarks()])


def _folded(summary: str, parts: Sequence[str]) -> list[str]:
    """Parts of Markdown that open when they are asked for."""
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]


def queries_needed(effect: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """How many queries a paired t test needs to show an effect d_z with this power.

    The least n at which `P(|T| > t(1 - alpha/2, n - 1))` reaches the power, T noncentral t with
    n - 1 degrees of freedom and noncentrality d_z sqrt(n).

    >>> [queries_needed(effect) for effect in (0.2, 0.3, 0.5, 0.8)]
    [199, 90, 34, 15]
    """
    needs("scipy", "stats", "queries_needed")
    from scipy import special, stats

    for name, value in (("effect", effect), ("alpha", alpha), ("power", power)):
        require(isinstance(value, int | float), f"{name} must be a number, not {value!r}")
    require(effect != 0 and math.isfinite(effect), f"effect must be a number but 0, not {effect}")
    require(0 < alpha < 1, f"alpha must lie between 0 and 1, not {alpha}")
    require(alpha < power < 1, f"power must lie between alpha and 1, not {power}")

    def reached(n: int) -> bool:
        critical = special.stdtrit(n - 1, 1 - alpha / 2)
        centre = abs(effect) * math.sqrt(n)
        return bool(
            stats.nct.sf(critical, n - 1, centre) + stats.nct.cdf(-critical, n - 1, centre) >= power
        )

    high = 2
    while not reached(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
