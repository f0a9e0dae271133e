"""The SQL of what the first chunks of a ranking cover together.

Each span is cut into pieces at the ends of the chunks that overlap it, and nowhere else. A piece
has its length, the first position of a chunk that holds it, and the offset in the context at which
it first stands, so all cutoffs are sums over one table of pieces. Metrics of characters read the
intervals of the union of the spans instead, and CharP and CharIoU the union of the chunks too, by a
running maximum of their ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rankql.core.metrics.macros import quote
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import span_column

# The steps that are read twice, or computed once for a join.
_MATERIALIZED = ("places", "intervals", "pairs", "many", "shared", "sums")
_WHOLE, _CHARACTERS, _UNION = (
    ("SpanR", "AllSpans"),
    ("CharR", "CharP", "CharIoU"),
    ("CharP", "CharIoU"),
)


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
        """The condition on the chunks that it needs."""
        if self.characters:
            return f"off < {self.characters}"
        return f"pos <= {self.k}" if self.k else "true"

    @property
    def held(self) -> str:
        """The characters of a piece that it has. DuckDB's least() skips NULL."""
        if self.characters:
            left = f"least(len, {self.characters} - off)"
            return f"CASE WHEN off < {self.characters} THEN {left} ELSE 0 END"
        return f"CASE WHEN pos <= {self.k} THEN len ELSE 0 END" if self.k else "len"

    @property
    def end(self) -> str:
        """The end of a chunk in it."""
        return f"least(e, s + {self.characters} - off)" if self.characters else "e"


@dataclass(frozen=True)
class Pieces:
    """The query of the values of metrics of spans: a row per ranking with relevant spans.

    chunks: a table of query, document, s, e and pos, and system if it is one of the keys, which are
    "query" or "system, query". spans: the relevant ones, with query, document, s, e, evidence.
    """

    chunks: str
    spans: str
    keys: str
    metrics: Sequence[Metric]
    # Are some spans parts of one evidence, of which one suffices?
    evidence: bool = False

    @property
    def sql(self) -> str:
        """The query."""
        steps = dict(self._steps())
        parts = (
            f"{name} AS {'MATERIALIZED ' * name.endswith(_MATERIALIZED)}(\n    {body}\n)"
            for name, body in steps.items()
        )
        known = (name for name in ("by_span", "by_interval", "by_context") if name in steps)
        joined = "".join(f" LEFT JOIN {name} USING ({self.keys})" for name in known)
        values = (f"{self._value(x)} AS {quote(span_column(x))}" for x in self.metrics)
        fields = ",\n    ".join([self.keys, *values])
        return f"WITH {', '.join(parts)}\nSELECT {fields}\nFROM rankings{joined}"

    @cached_property
    def _cuts(self) -> list[Cut]:
        return [*dict.fromkeys(map(_cut, self.metrics))]

    @cached_property
    def _flags(self) -> dict[tuple[Cut, float | None], str]:
        """The column that says whether a span is covered, by cutoff and share."""
        whole = [(_cut(x), _cover(x)) for x in self.metrics if _kind(x) in _WHOLE]
        return {each: f"f{i}" for i, each in enumerate(dict.fromkeys(whole))}

    @property
    def _of_system(self) -> str:
        return "system, " if self.keys != "query" else ""

    def _steps(self) -> Iterator[tuple[str, str]]:
        kinds = {_kind(metric) for metric in self.metrics}
        kept = " OR ".join(cut.context for cut in self._cuts)
        rows = self.chunks
        if any(cut.characters for cut in self._cuts):
            before = f"PARTITION BY {self.keys} ORDER BY pos ROWS UNBOUNDED PRECEDING"
            rows = f"(SELECT *, sum(e - s) OVER ({before}) - (e - s) AS off FROM {rows})"
        yield "context", f"FROM {rows} WHERE pos IS NOT NULL AND ({kept})"
        systems = f" CROSS JOIN (SELECT DISTINCT system FROM {self.chunks})" * bool(self._of_system)
        yield "rankings", f"FROM (SELECT DISTINCT query FROM {self.spans}){systems}"
        if not kinds.isdisjoint(_WHOLE):
            yield from self._span_steps()
        if not kinds.isdisjoint(_CHARACTERS):
            yield from self._interval_steps()
        if not kinds.isdisjoint(_UNION):
            yield from self._context_steps()

    def _ranked(self, of: str) -> str:
        """The places of a step, of each system."""
        return f"rankings JOIN {of} USING (query)" if self._of_system else of

    def _piece_steps(self, of: str, x: str) -> Iterator[tuple[str, str]]:
        """The characters of each place of a step that each cutoff has."""
        key, system = f"{self._of_system}id", self._of_system
        offsets = any(cut.characters for cut in self._cuts)
        first = ", c.off + greatest(c.s, x.s) - c.s AS off" if offsets else ""
        yield (
            f"{x}_pairs",
            (
                f"SELECT {'c.system, ' * bool(system)}x.id, greatest(c.s, x.s) AS cs, "
                f"least(c.e, x.e) AS ce, c.pos{first}\n    FROM {of} x JOIN context c "
                "ON c.query = x.query AND c.document = x.document AND c.s < x.e AND c.e > x.s"
            ),
        )
        yield f"{x}_many", f"SELECT {key} FROM {x}_pairs GROUP BY {key} HAVING count(*) > 1"
        yield f"{x}_shared", f"FROM {x}_pairs SEMI JOIN {x}_many USING ({key})"
        points = (f"SELECT {key}, {end} AS p FROM {x}_shared" for end in ("cs", "ce"))
        yield f"{x}_points", " UNION ".join(points)
        following = f"lead(p) OVER (PARTITION BY {key} ORDER BY p)"
        yield f"{x}_cuts", f"SELECT {key}, p, {following} AS q FROM {x}_points"
        first, least = (", off", ", min(off + p - cs) AS off") if offsets else ("", "")
        yield (
            f"{x}_pieces",
            (
                f"SELECT {key}, ce - cs AS len, pos{first} FROM {x}_pairs ANTI JOIN {x}_many "
                f"USING ({key})\n    UNION ALL SELECT {key}, q - p, min(pos){least} FROM {x}_cuts "
                f"JOIN {x}_shared USING ({key}) WHERE cs <= p AND ce >= q GROUP BY {key}, p, q"
            ),
        )
        sums = ", ".join(f"sum({cut.held}) AS {cut.name}" for cut in self._cuts)
        yield f"{x}_sums", f"SELECT {key}, {sums} FROM {x}_pieces GROUP BY {key}"

    def _span_steps(self) -> Iterator[tuple[str, str]]:
        """The share of the spans that are covered. Exact copies count once."""
        fields = "query, document, s, e, evidence"
        yield (
            "places",
            (
                f"SELECT row_number() OVER () AS id, * FROM (SELECT DISTINCT {fields} "
                f"FROM {self.spans})"
            ),
        )
        yield from self._piece_steps("places", "span")
        covered = {
            flag: f"coalesce({cut.name}, 0) >= {_needed(cover)}"
            for (cut, cover), flag in self._flags.items()
        }
        of_evidence = ""
        if self.evidence:
            covered = {flag: f"bool_or({each})" for flag, each in covered.items()}
            of_evidence = f"\n    GROUP BY {self.keys}, evidence, "
            of_evidence += "CASE WHEN evidence IS NULL THEN id END"
        flags = ", ".join(f"{each} AS {flag}" for flag, each in covered.items())
        yield (
            "evidences",
            (
                f"SELECT {self.keys}, {flags} FROM {self._ranked('places')} "
                f"LEFT JOIN span_sums USING ({self._of_system}id){of_evidence}"
            ),
        )
        shares = ", ".join(
            f"avg({x}::INT) AS share_{x}, bool_and({x})::INT::DOUBLE AS all_{x}"
            for x in self._flags.values()
        )
        yield "by_span", f"SELECT {self.keys}, {shares} FROM evidences GROUP BY {self.keys}"

    def _interval_steps(self) -> Iterator[tuple[str, str]]:
        """The characters of the union of the spans. Copies must go before they are joined."""
        yield (
            "marked",
            (
                "SELECT *, coalesce(s > max(e) OVER (PARTITION BY query, document ORDER BY s, e "
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS fresh\n    "
                f"FROM (SELECT DISTINCT query, document, s, e FROM {self.spans})"
            ),
        )
        yield (
            "grouped",
            (
                "SELECT *, sum(fresh::INT) OVER (PARTITION BY query, document ORDER BY s, e "
                "ROWS UNBOUNDED PRECEDING) AS part FROM marked"
            ),
        )
        yield (
            "intervals",
            (
                "SELECT row_number() OVER () AS id, query, document, min(s) AS s, max(e) AS e "
                "FROM grouped GROUP BY query, document, part"
            ),
        )
        yield from self._piece_steps("intervals", "interval")
        sums = (f"sum(coalesce({cut.name}, 0)) AS both_{cut.name}" for cut in self._cuts)
        yield (
            "by_interval",
            (
                f"SELECT {self.keys}, sum(e - s) AS truth, {', '.join(sums)} "
                f"FROM {self._ranked('intervals')} LEFT JOIN interval_sums "
                f"USING ({self._of_system}id)\n    GROUP BY {self.keys}"
            ),
        )

    def _context_steps(self) -> Iterator[tuple[str, str]]:
        """The different characters of the context."""
        cuts = [*dict.fromkeys(_cut(x) for x in self.metrics if _kind(x) in _UNION)]
        before = (
            f"max(stop) OVER (PARTITION BY {self.keys}, document ORDER BY s "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        )
        # Short contexts are sorted apart, which takes less time than more columns of all chunks.
        reach = (
            f"SELECT {self.keys}, {i} AS cut, s, stop, {before} AS before "
            f"FROM (SELECT *, {cut.end} AS stop FROM context WHERE {cut.context})"
            for i, cut in enumerate(cuts)
        )
        yield "reach", "\n    UNION ALL ".join(reach)
        new = "sum(greatest(0, stop - greatest(s, coalesce(before, s)))) FILTER (cut = {})"
        unions = ", ".join(f"{new.format(i)} AS union_{cut.name}" for i, cut in enumerate(cuts))
        yield "by_context", f"SELECT {self.keys}, {unions} FROM reach GROUP BY {self.keys}"

    def _value(self, metric: Metric) -> str:
        """A metric of a ranking."""
        kind, cut = _kind(metric), _cut(metric)
        if kind in _WHOLE:
            flag = self._flags[cut, _cover(metric)]
            return f"{'share' if kind == 'SpanR' else 'all'}_{flag}"
        both, union = f"both_{cut.name}", f"coalesce(union_{cut.name}, 0)"
        return {
            "CharR": f"{both} / truth",
            "CharP": f"CASE WHEN {union} = 0 THEN 0 ELSE {both} / {union} END",
            "CharIoU": f"{both} / (truth + {union} - {both})",
        }[kind]


def _kind(metric: Metric) -> str:
    assert metric.spans
    return metric.spans.name


def _cut(metric: Metric) -> Cut:
    return Cut(metric.k, metric.characters)


def _cover(metric: Metric) -> float | None:
    return metric.options.get("cover")


def _needed(cover: float | None) -> str:
    """The characters of a span that must be covered. Rounding of the product adds none."""
    if cover is None:
        return "1"
    return f"greatest(1, ceil({cover!r}::DOUBLE * (e - s) * (1 - 1e-12)))"
