"""The query of what the first chunks of a ranking cover together.

Spans are cut into pieces by rankql_pieces of sql/spans.sql, so all cutoffs are sums over one table.
Metrics of characters read the intervals of the union of the spans instead, and CharP and CharIoU
the different characters of the context too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rankql.core.metrics.macros import quote
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import span_column

_WHOLE, _CHARACTERS = ("SpanR", "AllSpans"), ("CharR", "CharP", "CharIoU")
_UNION = _CHARACTERS[1:]


@dataclass(frozen=True)
class Cut:
    """Where the context ends: after k chunks, after so many characters, or nowhere."""

    k: int | None
    characters: int | None

    @property
    def name(self) -> str:
        """The suffix of its columns."""
        return f"c{self.characters}" if self.characters else f"k{self.k or 'all'}"

    @property
    def context(self) -> str:
        """The condition on the chunks that it has."""
        return f"off < {self.characters}" if self.characters else f"pos <= {self.k or 'pos'}"

    @property
    def held(self) -> str:
        """The characters of a piece that it has."""
        held = f"least(len, {self.characters} - off)" if self.characters else "len"
        return f"coalesce(sum({held}) FILTER ({self.context}), 0)"

    @property
    def end(self) -> str:
        """The end of a chunk in it."""
        return f"least(e, s + {self.characters} - off)" if self.characters else "e"


@dataclass(frozen=True)
class Pieces:
    """The query of the values of metrics of spans: a row per ranking r with relevant spans.

    chunks: a table of r, document, s, e and pos. spans: the relevant ones, with r, document, s, e
    and evidence.
    """

    chunks: str
    spans: str
    metrics: Sequence[Metric]
    # Are some spans parts of one evidence, of which one suffices?
    evidence: bool = False

    @property
    def sql(self) -> str:
        """The query."""
        steps = dict(self._steps())
        parts = ", ".join(f"{name} AS (\n    {body}\n)" for name, body in steps.items())
        values = (f"{self._value(x)} AS {quote(span_column(x))}" for x in self.metrics)
        tables = [f"(SELECT DISTINCT r FROM {self.spans})"]
        tables += [f"LEFT JOIN {x} USING (r)" for x in steps if x.startswith("by_")]
        return f"WITH {parts}\nSELECT r, {', '.join(values)}\nFROM {' '.join(tables)}"

    @cached_property
    def _flags(self) -> dict[tuple[Cut, float | None], str]:
        """The column that says whether a span is covered, by cutoff and share."""
        whole = [(_cut(x), x.options.get("cover")) for x in self.metrics if _kind(x) in _WHOLE]
        return {each: f"f{i}" for i, each in enumerate(dict.fromkeys(whole))}

    def _steps(self) -> Iterator[tuple[str, str]]:
        cuts = [*dict.fromkeys(map(_cut, self.metrics))]
        before = "PARTITION BY r ORDER BY pos ROWS UNBOUNDED PRECEDING"
        off = f"sum(e - s) OVER ({before}) - (e - s)" if any(x.characters for x in cuts) else "0"
        rows = f"(SELECT *, {off} AS off FROM {self.chunks} WHERE pos IS NOT NULL)"
        by_length = sorted(cuts, key=lambda x: x.characters or x.k or math.inf)
        longest = {x.characters is None: x for x in by_length}  # of each kind
        yield "context", f"FROM {rows} WHERE {' OR '.join(x.context for x in longest.values())}"
        yield "spans", f"FROM {self.spans}"
        sums = ", ".join(f"{cut.held} AS {cut.name}" for cut in cuts)
        totals = f"SELECT id, {sums} FROM rankql_pieces('context', '{{}}') GROUP BY id"
        if self._flags:
            yield "places", "FROM rankql_places('spans')"
            yield "place_sums", totals.format("places")
            yield from self._share_steps()
        kinds = {_kind(metric) for metric in self.metrics}
        if not kinds.isdisjoint(_CHARACTERS):
            yield "intervals", "FROM rankql_intervals('spans')"
            yield "interval_sums", totals.format("intervals")
            both = ", ".join(f"coalesce(sum({cut.name}), 0) AS both_{cut.name}" for cut in cuts)
            joined = "intervals LEFT JOIN interval_sums USING (id)"
            yield "by_interval", f"SELECT r, sum(e - s) AS truth, {both} FROM {joined} GROUP BY r"
        for cut in dict.fromkeys(_cut(x) for x in self.metrics if _kind(x) in _UNION):
            fields = f"r, document, s, {cut.end} AS e"
            yield f"of_{cut.name}", f"SELECT {fields} FROM context WHERE {cut.context}"
            characters = f"FROM rankql_characters('of_{cut.name}')"
            yield f"by_{cut.name}", f"SELECT r, n AS union_{cut.name} {characters}"

    def _share_steps(self) -> Iterator[tuple[str, str]]:
        """The share of the spans that are covered; of those of one evidence, one suffices."""
        flags, group = [], ""
        for (cut, cover), flag in self._flags.items():
            needed = "1" if cover is None else f"rankql_share_of(e - s, {cover!r})"
            covered = f"coalesce({cut.name}, 0) >= {needed}"
            flags.append(f"{f'bool_or({covered})' if self.evidence else covered} AS {flag}")
        if self.evidence:
            group = " GROUP BY r, evidence, CASE WHEN evidence IS NULL THEN id END"
        joined = f"places LEFT JOIN place_sums USING (id){group}"
        yield "evidences", f"SELECT r, {', '.join(flags)} FROM {joined}"
        shares = (
            f"avg({x}::INT) AS share_{x}, bool_and({x})::INT::DOUBLE AS all_{x}"
            for x in self._flags.values()
        )
        yield "by_span", f"SELECT r, {', '.join(shares)} FROM evidences GROUP BY r"

    def _value(self, metric: Metric) -> str:
        """A metric of a ranking."""
        kind, cut = _kind(metric), _cut(metric)
        if kind in _WHOLE:
            flag = self._flags[cut, metric.options.get("cover")]
            return f"{'share' if kind == 'SpanR' else 'all'}_{flag}"
        both, union = f"both_{cut.name}", f"coalesce(union_{cut.name}, 0)"
        return {
            "CharR": f"{both} / truth",
            "CharP": f"coalesce({both} / nullif({union}, 0), 0)",
            "CharIoU": f"{both} / (truth + {union} - {both})",
        }[kind]


def _kind(metric: Metric) -> str:
    assert metric.spans
    return metric.spans.name


def _cut(metric: Metric) -> Cut:
    return Cut(metric.k, metric.characters)
