"""What would make the numbers wrong or misleading, found before anything is evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.errors import RankqlError
from rankql.evaluation.ctes import BY_ITEM, HIGHEST_K, score_cuts_sql
from rankql.evaluation.overlap import (
    few_common_items_note,
    find_example_items,
    is_small_overlap,
    item_overlap,
)
from rankql.macros import literal, quoted
from rankql.sources.inputs import Inputs, open_runs, read_inputs
from rankql.sources.run import execute
from rankql.sources.session import Session, duckdb_errors, flatten_inputs, open_session
from rankql.sources.tables import ROLES, Data, Table, same_kind

LEVELS = ("error", "warning", "note")
# More findings of one kind than this are summed up where a report is shown.
SHOWN = 5


def check(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    *,
    k: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
) -> Report:
    """Look for what would make the metrics of a run wrong or misleading.

    Takes the runs, the judgments and the names of columns that `evaluate` takes; `k` is the cutoff
    for ties and for the share that is judged. A run may be checked without judgments.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "x"], "score": [2.0, 1.0]})
    >>> check(run, k=2).findings[0].message
    'the same item more than once in a ranking: 1 item'
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < HIGHEST_K:
        raise RankqlError(f"k must be a whole number from 1 to {HIGHEST_K - 1}, not {k!r}")
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    with open_session(con, run, qrels) as here:
        given = _given(here, run, qrels, columns, system, descending)
        with duckdb_errors(here):
            case = _Case(here, given, k)
            findings = [finding for one in CHECKS for finding in one(case)]
            tables = {side.label: {"rows": side.rows, "columns": side.assumed}
                      for side in case.sides}  # fmt: skip
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    return Report(findings, tables, k)


def _given(
    here: Session,
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    columns: Mapping[str, Any],
    system: str | None,
    descending: bool | None = None,
) -> Inputs:
    """The tables that evaluate would read, or a run that has no judgments as yet."""
    if qrels is None:
        run = open_runs(here, run)
        if not any(table.find("rel", columns["rel"]) for table in flatten_inputs(run)):
            nothing = pl.DataFrame(schema=dict.fromkeys(("query", "item", "rel"), pl.String))
            given = read_inputs(here, run, nothing, None, columns, system, descending=descending)
            return replace(given, qrels=None)
    return read_inputs(here, run, qrels, None, columns, system, descending=descending)


@dataclass(frozen=True)
class Finding:
    """One thing that is amiss: 'error' (a value would be wrong, or `evaluate` refuses), 'warning'
    (it may mislead) or 'note'."""

    kind: str
    level: str
    table: str
    count: int
    message: str
    why: str
    examples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class Report:
    """What `check` found, the worst first."""

    findings: Sequence[Finding]
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    k: int = 10

    @property
    def ok(self) -> bool:
        """Is there no error? (There may be warnings.)"""
        return all(finding.level != "error" for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return True  # a report without findings is still a report; ask for .ok

    def to_polars(self) -> pl.DataFrame:
        """One row per finding, its examples as JSON."""
        rows = [
            {**asdict(finding), "examples": json.dumps(finding.examples, ensure_ascii=False)}
            for finding in self.findings
        ]
        texts = ("kind", "level", "table", "count", "message", "why", "examples")
        return pl.DataFrame(
            rows, schema={name: pl.Int64 if name == "count" else pl.String for name in texts}
        )

    def to_dict(self) -> dict[str, Any]:
        """The findings and what was looked at, as plain values."""
        return {
            "ok": self.ok,
            "k": self.k,
            "tables": {label: dict(about) for label, about in self.tables.items()},
            "findings": [
                {**asdict(finding), "examples": list(finding.examples)} for finding in self.findings
            ],
        }

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_markdown(self) -> str:
        """The findings as a Markdown table."""
        return show.markdown(self.table(), [self.summary()])

    def summary(self) -> str:
        """What was looked at, and how much was found, in one line."""
        seen = ", ".join(
            f"{label} ({_counted(about['rows'], 'rows')})" for label, about in self.tables.items()
        )
        counts = [
            (level, sum(finding.level == level for finding in self.findings)) for level in LEVELS
        ]
        found = ", ".join(_counted(count, f"{level}s") for level, count in counts if count)
        return f"Check of {seen} at k = {self.k}: {found or 'nothing found'}"

    def __repr__(self) -> str:
        lines = [self.summary()]
        shown = self._shown()
        widths = [max((len(f.kind) for f, _ in shown), default=0)]
        widths += [max((len(f.table) for f, _ in shown), default=0)]
        widths += [max((len(f"{f.count:,}") for f, _ in shown), default=0)]
        margin = " " * (sum(widths) + 8)
        for level in LEVELS:
            here = [(finding, more) for finding, more in shown if finding.level == level]
            lines += ["", f"{level}s"] if here else []
            for finding, more in here:
                lines.append(
                    f"  {finding.kind:{widths[0]}}  {finding.table:{widths[1]}}  "
                    f"{finding.count:>{widths[2]},}  {finding.message}"
                )
                lines += [f"{margin}e.g. {_example(example)}" for example in finding.examples]
                lines.append(f"{margin}why: {finding.why}")
                lines += [f"{margin}{_and_more(finding, more)}"] if more else []
        return "\n".join(map(show.plain, lines))

    def _repr_html_(self) -> str:
        return show.as_html(self.table(), [self.summary()])

    def _shown(self) -> list[tuple[Finding, int]]:
        """The findings that are shown, each with the number of its kind that are not."""
        kinds: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            kinds.setdefault((finding.level, finding.kind), []).append(finding)
        return [
            (finding, len(same) - SHOWN if i == SHOWN else 0)
            for same in kinds.values()
            for i, finding in enumerate(same[:SHOWN], 1)
        ]

    def table(self) -> show.Rows:
        """The findings as text."""
        rows = [["level", "kind", "table", "count", "what", "examples", "why"]]
        for f, more in self._shown():
            shown = "; ".join(map(_example, f.examples))
            rows.append([f.level, f.kind, f.table, f"{f.count:,}", f.message, shown, f.why])
            if more:
                rows.append([f.level, f.kind, "", "", _and_more(f, more), "", ""])
        return rows


def _and_more(finding: Finding, more: int) -> str:
    return f"and {more:,} more of {finding.kind}: see .to_polars()"


def _example(example: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in example.items())


def _counted(count: int, things: str) -> str:
    """A number of things, in the singular where it is one."""
    one = things[:-3] + "y" if things.endswith("ies") else things[:-1]
    return f"{count:,} {one if count == 1 else things}"


def _plain(value: object) -> Any:
    """A value as an example holds it: what JSON can say, the rest as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _without(name: str, rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Rows as examples, without the column that they were ordered by."""
    return tuple({n: _plain(value) for n, value in row.items() if n != name} for row in rows)


@dataclass(frozen=True)
class _Side:
    """A run or the judgments, as the checks read them: columns of one name, numbers as DOUBLE."""

    table: Table
    rows: int
    # The roles with their columns, those too that evaluate leaves aside (a rank beside scores).
    roles: dict[str, str]
    raw: str
    clean: str
    keys: str = "query"
    unused: str | None = None

    @property
    def label(self) -> str:
        return self.table.label

    @property
    def scored(self) -> bool:
        """Do scores make the ranking?"""
        return "score" in self.roles and self.unused != "score"

    @property
    def assumed(self) -> dict[str, str]:
        """The columns, and the order of the scores where it is not the usual one."""
        return self.roles | ({"order": "ascending"} if self.table.ascending else {})

    def as_given(self, rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """Examples with the scores that the table has, of which the lowest may be the best."""
        if not self.table.ascending:
            return tuple(rows)
        scores = ("score", "score_above")
        return tuple(
            {n: -v if n in scores and isinstance(v, float) else v for n, v in row.items()}
            for row in rows
        )

    @property
    def place(self) -> str:
        """The column that makes the ranking; where it is NULL, nothing was retrieved."""
        return "score" if self.scored else "pos"


@dataclass(frozen=True)
class _Case:
    """All that is checked."""

    here: Session
    given: Inputs
    k: int

    @cached_property
    def runs(self) -> list[_Side]:
        return [self._side(table, name) for name, table in self.given.runs.items()]

    @cached_property
    def qrels(self) -> _Side | None:
        return self._side(self.given.qrels, graded=True) if self.given.qrels else None

    @property
    def sides(self) -> list[_Side]:
        return [*self.runs, *([self.qrels] if self.qrels else [])]

    @property
    def graded(self) -> list[_Side]:
        """Where the grades are."""
        return [side for side in self.sides if "rel" in side.roles]

    @property
    def judged_runs(self) -> list[tuple[_Side, _Side]]:
        """Each run with the judgments, where neither is empty."""
        return [(r, self.qrels) for r in self.runs if self.qrels and self.qrels.rows and r.rows]

    def _side(self, table: Table, name: str | None = None, graded: bool = False) -> _Side:
        roles = dict(table.roles)
        unused = None
        if graded:
            roles = {role: roles[role] for role in ("query", "item", "rel")}
        elif "pos" in roles:
            unused = "score" if "score" in roles else None
        elif ranks := next((c for c in table.columns if c.lower() in ROLES["pos"]), None):
            roles["pos"], unused = ranks, "pos"
        fields, system = [], None
        if not graded and self.given.many:
            system = literal(name) if name else f"CAST({quoted(str(self.given.system))} AS VARCHAR)"
            fields.append(f"{system} AS system")
        fields += [
            f"{table.key(role, self.given.as_text(role))} AS {role}"
            for role in ("query", "item")
            if role in roles
        ]
        keys = [text.rsplit(" AS ", 1)[1] for text in fields]
        numbers = [role for role in ("score", "pos", "rel") if role in roles]
        fields += [f"{quoted(roles[role])} AS given_{role}" for role in numbers]
        fields += [
            f"{table.signed(role, _double(table, roles[role]))} AS {role}" for role in numbers
        ]
        raw = f"(SELECT {', '.join(fields)} FROM {table.sql})"
        values = ", ".join(f"CASE WHEN NOT {_nan(role)} THEN {role} END AS {role}"
                           for role in numbers)  # fmt: skip
        there = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        clean = f"(SELECT {', '.join([*keys, values])} FROM {raw} WHERE {there})"
        ((rows,),) = self.fetch(f"SELECT count(*) FROM {table.sql}")
        ranking = "system, query" if system else "query"
        return _Side(table, rows, roles, raw, clean, ranking, unused)

    def fetch(self, sql: str) -> list[Any]:
        return execute(self.here, sql).fetchall()

    def examples(self, sql: str, order: str = "ALL") -> tuple[dict[str, Any], ...]:
        """The first three rows of a query."""
        found = execute(self.here, f"SELECT * FROM {sql} ORDER BY {order} LIMIT 3")
        names = found.columns
        return tuple(
            {name: _plain(value) for name, value in zip(names, row, strict=True)}
            for row in found.fetchall()
        )

    def find(
        self, kind: str, level: str, side: _Side, what: str, things: str, sql: str, why: str,
        order: str = "ALL",
    ) -> Iterator[Finding]:  # fmt: skip
        """The finding that a query has as many rows as things, if it has any."""
        ((count,),) = self.fetch(f"SELECT count(*) FROM {sql}")
        if count:
            message = f"{what}: {_counted(count, things)}"
            found = side.as_given(self.examples(sql, order))
            yield Finding(kind, level, side.label, count, message, why, found)


def _double(table: Table, column: str) -> str:
    """A column as DOUBLE, NULL where it is no number."""
    name = quoted(column)
    if _numeric(table, column):
        return f"CAST({name} AS DOUBLE)"
    return f"TRY_CAST(CAST({name} AS VARCHAR) AS DOUBLE)"


def _nan(column: str) -> str:
    """Is it NaN? isnan() is not asked: DuckDB 2.0 answers it from the bounds in a Parquet file,
    which leave NaN out (duckdb issue 25521)."""
    return f"(NOT isfinite({column}) AND NOT isinf({column}))"


def _numeric(table: Table, column: str) -> bool:
    return same_kind([table.columns[column], "DOUBLE"])


def _of_system(side: _Side, system: str | None) -> str:
    """The label of a table, or of one of the systems in it."""
    return side.label if system is None or side.table.label != "run" else f"run, system {system!r}"


# Tables and ids


def empty(case: _Case) -> Iterator[Finding]:
    """Tables without rows."""
    for side in case.sides:
        if not side.rows:
            why = "there is nothing to evaluate: look at the path, the filter or the name"
            yield Finding("empty", "error", side.label, 1, "the table has no rows", why)


def null_ids(case: _Case) -> Iterator[Finding]:
    """Rows that say of no query or item."""
    for side in case.sides:
        roles = {**side.roles, **({"system": case.given.system} if case.given.system else {})}
        columns = {role: roles[role] for role in ("system", "query", "item") if role in roles}
        if side is case.qrels:
            columns.pop("system", None)
        for role, column in columns.items():
            rest = "".join(f", given_{r} AS {r}" for r in ("score", "pos", "rel")
                           if r in side.roles)  # fmt: skip
            sql = f"(SELECT {', '.join(columns)}{rest} FROM {side.raw} WHERE {role} IS NULL)"
            why = "evaluate refuses it, as NULL matches nothing: leave these rows out"
            yield from case.find("null-ids", "error", side, f"{column} is NULL", "rows", sql, why)


def id_types(case: _Case) -> Iterator[Finding]:
    """Ids that are numbers on one side and text on the other."""
    for run, qrels in case.judged_runs:
        # A text file does not say what its ids are.
        for role in ("query", "item") if not (run.table.text or qrels.table.text) else ():
            kinds = {side.label: side.table.columns[side.roles[role]] for side in (run, qrels)}
            if role in run.roles and not same_kind(list(kinds.values())):
                types = " and ".join(f"{kind} in {label}" for label, kind in kinds.items())
                yield Finding(
                    "id-types", "warning", run.label, 1, f"{role} ids are {types}",
                    "they are compared as text, and 1.0 or 01 is not 1: cast both to one type",
                    (kinds,),
                )  # fmt: skip


# What spellings of one id are made of: blanks around, case, accents' code points; and of numbers,
# the zeros before and the .0 behind, looked for only where they can be.
_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
_NORMAL = f"lower(trim(nfc_normalize(id), {_BLANKS}))"
_FLOAT = r"regexp_replace(normal, '^(-?[0-9]+)\.0+$', '\1')"
_FLOAT = f"CASE WHEN contains(normal, '.') THEN {_FLOAT} ELSE normal END"
_PADDED = r"regexp_replace(normal, '^(-?)0+([0-9])', '\1\2')"
_PADDED = f"CASE WHEN normal[:1] IN ('0', '-') THEN {_PADDED} ELSE normal END"


def _normal(ids: str) -> str:
    sql = f"(SELECT CAST(id AS VARCHAR) AS id FROM {ids})"
    for normal in (_NORMAL, _FLOAT, _PADDED):
        sql = f"(SELECT id, {normal} AS normal FROM {sql})"
    return sql


def id_spelling(case: _Case) -> Iterator[Finding]:
    """Ids that would match if both sides wrote them alike."""
    for run, qrels in case.judged_runs:
        for role in ("query", "item"):
            if role not in run.roles or all(_numeric(s.table, s.roles[role]) for s in (run, qrels)):
                continue
            ours = f"(SELECT DISTINCT {role} AS id FROM {qrels.clean})"
            theirs = f"(SELECT DISTINCT {role} AS id FROM {run.clean})"
            alone = f"(FROM {theirs} ANTI JOIN {ours} USING (id))"
            sql = f"""(
                SELECT r.id AS run, min(q.id) AS qrels
                FROM {_normal(alone)} AS r JOIN {_normal(ours)} AS q USING (normal)
                GROUP BY r.id)"""
            yield from case.find(
                "id-spelling", "error", run, f"{role} is spelled otherwise in qrels", "ids", sql,
                "they count as unjudged or missing: write ids alike (blanks, case, zeros, type)",
            )  # fmt: skip


# Numbers


@dataclass(frozen=True)
class _Rule:
    """Rows whose number is amiss."""

    kind: str
    level: str
    where: str
    what: str
    why: str


_REFUSED = "evaluate refuses it: "
# The rules that find NaN.
_NAN_RULES = ("nan-scores", "text-positions", "nan-grades")
_RULES = {
    "score": (
        _Rule("text-scores", "error", "given_score IS NOT NULL AND score IS NULL",
              "is not a number", _REFUSED + "mend these rows or leave them out"),
        _Rule("nan-scores", "error", _nan("score"),
              "is NaN", _REFUSED + "NaN has no place in an order; look where it comes from"),
        _Rule("null-scores", "warning", "given_score IS NULL",
              "is NULL", "these rows take no position, as if they were not in the run"),
        _Rule("infinite-scores", "warning", "isinf(score)",
              "is infinite", "infinite scores are all tied: look for a division by 0 or log(0)"),
    ),
    "pos": (
        _Rule("text-positions", "error",
              f"given_pos IS NOT NULL AND (pos IS NULL OR {_nan('pos')})",
              "is not a number", _REFUSED + "mend these rows or leave them out"),
        _Rule("null-positions", "warning", "given_pos IS NULL",
              "is NULL", "these rows take no position, as if they were not in the run"),
        _Rule("positions-from-0", "error", "pos = 0",
              "begins at 0", _REFUSED + "position 1 is the top; add 1"),
        _Rule("positions-below-1", "error", "pos < 1 AND pos <> 0",
              "is below 1", _REFUSED + "position 1 is the top"),
        _Rule("fractional-positions", "error", "pos > 1 AND pos <> floor(pos)",
              "is not a whole number", _REFUSED + "is it a score? Then name it: score="),
        _Rule("huge-positions", "error", f"pos > 9007199254740992 AND NOT {_nan('pos')}",
              "is infinite or too large", _REFUSED + "make it NULL where nothing was retrieved"),
    ),
    "rel": (
        _Rule("text-grades", "error", "given_rel IS NOT NULL AND rel IS NULL",
              "is not a number", _REFUSED + "say by number what each grade is worth"),
        _Rule("nan-grades", "error", _nan("rel"),
              "is NaN", _REFUSED + "leave these rows out, or make them NULL: unjudged"),
        _Rule("null-grades", "warning", "given_rel IS NULL",
              "is NULL", "these rows are left out: NULL is unjudged, not 0"),
        _Rule("infinite-grades", "error", "isinf(rel)",
              "is infinite", _REFUSED + "look for a division by 0 or log(0)"),
        _Rule("negative-grades", "warning", "rel < 0 AND NOT isinf(rel)",
              "is below 0", "it counts as judged and not relevant, with gain 0 (option: negative)"),
        _Rule("grades-below-1", "warning", "rel > 0 AND rel < 1",
              "is between 0 and 1", "relevant is what has grade 1 or more: set threshold="),
        _Rule("fractional-grades", "note", "rel > 1 AND isfinite(rel) AND rel <> floor(rel)",
              "is not a whole number", "trec_eval and others would cut it off to a whole number"),
        _Rule("high-grades", "warning", "rel > 10 AND isfinite(rel)",
              "is above 10", "few such rows outweigh all others, most of all with exp2 gain: "
              "is it a count or a percentage?"),
    ),
}  # fmt: skip


def column_types(case: _Case) -> Iterator[Finding]:
    """Numbers in a column of another type."""
    for side in case.sides:
        for role in _RULES:
            column = side.roles.get(role)
            if column and not side.table.text and not _numeric(side.table, column):
                yield Finding(
                    "column-type", _level(side, role, "error"), side.label, side.rows,
                    f"{column} is a column of {side.table.columns[column]}, not of numbers",
                    _REFUSED + "cast it first",
                )  # fmt: skip


def numbers(case: _Case) -> Iterator[Finding]:
    """Scores, positions and grades that are amiss, in one pass over each table."""
    for side in case.sides:
        # A run with grades of its own says by NULL: not retrieved, or not judged.
        own = side is not case.qrels and "rel" in side.roles
        rules = [
            (role, rule)
            for role, some in _RULES.items()
            for rule in some
            if role in side.roles and not (own and rule.kind in ("null-positions", "null-grades"))
        ]
        counts = ", ".join(f"count(*) FILTER ({rule.where})" for _, rule in rules)
        (found,) = case.fetch(f"SELECT {counts} FROM {side.raw}") if rules else [()]
        # DuckDB reads the NaN of pandas as NULL.
        nans = {role: side.table.nans(role) for role in _RULES if role in side.roles}
        for (role, rule), count in zip(rules, found, strict=True):
            if nans[role] and rule.kind in _NAN_RULES:
                count += nans[role]
                rule = replace(rule, where=f"{rule.where} OR given_{role} IS NULL")
            elif nans[role] and rule.kind.startswith("null-"):
                count -= nans[role]
            nothing = rule.kind in ("null-scores", "null-positions") and count == side.rows
            if nothing and role == side.place:
                rule = replace(rule, level="error", why=_REFUSED + "nothing is ranked")
            elif own and rule.kind == "null-scores":
                count = 0
            if count:
                ids = [*side.keys.split(", "), *(["item"] if "item" in side.roles else [])]
                fields = f"{', '.join(ids)}, given_{role} AS {role}"
                rows = case.examples(f"(SELECT {fields} FROM {side.raw} WHERE {rule.where})")
                level, why = _level(side, role, rule.level), rule.why
                what = f"{side.roles[role]} {rule.what}: {_counted(count, 'rows')}"
                if role == side.unused:
                    why = f"it is not used, as {side.place} makes the ranking"
                yield Finding(rule.kind, level, side.label, count, what, why, rows)


def _level(side: _Side, role: str, level: str) -> str:
    """A column that is not used spoils no number."""
    return "note" if role == side.unused else level


# Rankings


def duplicate_items(case: _Case) -> Iterator[Finding]:
    """Items that a ranking has twice."""
    for run in case.runs:
        if "item" in run.roles:
            sql = f"""(SELECT {run.keys}, item, count(*) AS rows FROM {run.clean}
                       GROUP BY {run.keys}, item HAVING count(*) > 1)"""
            hint = "" if case.given.many else ", or name the column that tells systems apart"
            yield from case.find(
                "duplicate-items", "error", run, "the same item more than once in a ranking",
                "items", sql, f"its gain would count twice: keep one row of each{hint}",
            )  # fmt: skip


def duplicate_positions(case: _Case) -> Iterator[Finding]:
    """Positions that a ranking has twice."""
    for run in case.runs:
        if "pos" in run.roles:
            sql = f"""(SELECT {run.keys}, pos, count(*) AS rows FROM {run.clean}
                       WHERE pos IS NOT NULL GROUP BY {run.keys}, pos HAVING count(*) > 1)"""
            hint = "" if case.given.many else ", or name the column that tells systems apart"
            why = f"two items at one position make metrics exceed 1: number them anew{hint}"
            if run.unused == "pos":
                why = "it is not used, as score makes the ranking"
            yield from case.find(
                "duplicate-positions", _level(run, "pos", "error"), run,
                "several items at one position", "positions", sql, why,
            )  # fmt: skip


def position_gaps(case: _Case) -> Iterator[Finding]:
    """Rankings that lack positions before their last one."""
    for run in case.runs:
        if "pos" in run.roles and run.unused != "pos":
            sql = f"""(
                SELECT {run.keys}, count(DISTINCT pos) AS positions, max(pos) AS last
                FROM {run.clean} WHERE pos BETWEEN 1 AND 9007199254740992 AND pos = floor(pos)
                GROUP BY {run.keys} HAVING max(pos) > count(DISTINCT pos))"""
            yield from case.find(
                "position-gaps", "note", run, "positions are missing before the last", "queries",
                sql, "what is missing counts as not relevant: right if the rows were left out on "
                "purpose",
            )  # fmt: skip


def rank_score_order(case: _Case) -> Iterator[Finding]:
    """Rankings that positions order otherwise than scores."""
    for run in case.runs:
        if {"pos", "score"} <= run.roles.keys():
            item = "item" if "item" in run.roles else "NULL AS item"
            above = f"lag(score) OVER (PARTITION BY {run.keys} ORDER BY pos, score DESC)"
            sql = f"""(
                SELECT {run.keys}, unnest(arg_min(
                    {{'item': item, 'pos': pos, 'score': score, 'score_above': above}}, pos))
                FROM (SELECT {run.keys}, {item}, pos, score, {above} AS above FROM {run.clean}
                      WHERE pos IS NOT NULL AND score IS NOT NULL)
                WHERE score > above GROUP BY {run.keys})"""
            yield from case.find(
                "rank-score-order", "warning", run,
                f"{run.roles['score']} is not in the order of {run.roles['pos']}", "queries", sql,
                f"{run.roles[run.place]} makes the ranking: name the right one (score= or pos=); "
                "if low scores are best, pass descending=False",
            )  # fmt: skip


def ties_at_k(case: _Case) -> Iterator[Finding]:
    """Rankings where equal scores straddle the cutoff."""
    for run in case.runs:
        if run.scored:
            sql = f"""(
                SELECT {run.keys}, top[{case.k}] AS score FROM (
                    SELECT {run.keys}, max(score, {case.k + 1}) AS top FROM {run.clean}
                    WHERE score IS NOT NULL GROUP BY {run.keys})
                WHERE top[{case.k}] = top[{case.k + 1}])"""
            yield from case.find(
                "ties-at-k", "warning", run, f"equal scores straddle position {case.k}", "queries",
                sql, "the ids decide what is in the top k: ties='expected' averages over the orders"
            )  # fmt: skip


def tied_rows(case: _Case) -> Iterator[Finding]:
    """The share of rows whose score is not theirs alone."""
    for run in case.runs:
        if run.scored:
            tie = ", ".join(
                f"'{name}': {name}" for name in (*run.keys.split(", "), "score", "rows")
            )
            ((tied, worst),) = case.fetch(f"""
                SELECT sum(rows), min({{'order': -rows, {tie}}}, 3)
                FROM (SELECT {run.keys}, score, count(*) AS rows FROM {run.clean}
                      WHERE score IS NOT NULL GROUP BY {run.keys}, score HAVING count(*) > 1)""")
            if tied:
                share = f"{_counted(int(tied), 'rows')} of {run.rows:,} ({tied / run.rows:.1%})"
                yield Finding(
                    "tied-rows", "note", run.label, int(tied), f"scores that others share: {share}",
                    "the order of equal scores says nothing: see the convention ties",
                    run.as_given(_without("order", worst)),
                )  # fmt: skip


def short_rankings(case: _Case) -> Iterator[Finding]:
    """Rankings that end before the cutoff."""
    for run in case.runs:
        sql = f"""(SELECT {run.keys}, count({run.place}) AS items FROM {run.clean}
                   GROUP BY {run.keys} HAVING count({run.place}) < {case.k})"""
        yield from case.find(
            "short-rankings",
            "note",
            run,
            f"fewer than {case.k} items",
            "queries",
            sql,
            "P@k still divides by k: see the option precision_denominator",
        )


# Judgments


def duplicate_judgments(case: _Case) -> Iterator[Finding]:
    """Items that are judged twice for a query, alike or not."""
    side = case.qrels
    for kind, what, test, why in (
        ("duplicate-judgments", "the same judgment more than once", "=",
         "the ideal ranking would count it twice: keep one row of each"),
        ("conflicting-judgments", "different grades for one item", "<",
         "only one can be right: decide which (the latest, the highest, the mean)"),
    ) if side else ():  # fmt: skip
        assert side
        sql = f"""(SELECT query, item, min(rel) AS lowest, max(rel) AS highest, count(*) AS rows
                   FROM {side.clean} WHERE rel IS NOT NULL GROUP BY query, item
                   HAVING count(*) > 1 AND min(rel) {test} max(rel))"""
        yield from case.find(kind, "error", side, what, "items", sql, why)


def no_relevant(case: _Case) -> Iterator[Finding]:
    """Queries without anything relevant."""
    for side in case.graded:
        sql = f"""(SELECT {side.keys}, max(rel) AS highest FROM {side.clean}
                   WHERE rel IS NOT NULL GROUP BY {side.keys} HAVING max(rel) < 1)"""
        yield from case.find(
            "no-relevant",
            "warning",
            side,
            "no item has grade 1 or more",
            "queries",
            sql,
            "nDCG, AP, recall and the like are undefined there and left out of the means "
            "(options: undefined, threshold)",
        )


def coverage(case: _Case) -> Iterator[Finding]:
    """Queries that only the run or only the judgments have."""
    for run, qrels in case.judged_runs:
        shown = f"(SELECT DISTINCT {run.keys} FROM {run.clean})"
        judged = f"(SELECT DISTINCT query FROM {qrels.clean} WHERE rel IS NOT NULL)"
        ((both,),) = case.fetch(f"SELECT count(*) FROM {shown} SEMI JOIN {judged} USING (query)")
        if not both:
            first = [[row["query"] for row in case.examples(sql, "query")]
                     for sql in (shown, judged)]  # fmt: skip
            yield Finding(
                "no-overlap",
                "error",
                run.label,
                run.rows,
                "no query of the run is judged",
                "there is nothing to evaluate: compare how both write their queries",
                tuple({"run": r, "qrels": q} for r, q in zip(*first, strict=False)),
            )
            continue
        yield from _common_items(case, run, qrels)
        all_judged = judged
        if run.keys != "query":
            all_judged = f"(FROM {judged} CROSS JOIN (SELECT DISTINCT system FROM {shown}))"
        for kind, what, sql, why in (
            ("unjudged-queries", "in the run but not judged",
             f"{shown} ANTI JOIN {judged} USING (query)",
             "they are left out of the means: are judgments missing?"),
            ("missing-queries", "judged but not in the run",
             f"{all_judged} ANTI JOIN {shown} USING ({run.keys})",
             "each counts as 0 in the means (option: missing)"),
        ):  # fmt: skip
            yield from _by_system(case, kind, run, what, f"(FROM {sql})", why)


def _common_items(case: _Case, run: _Side, qrels: _Side) -> Iterator[Finding]:
    """Runs of which no item is judged for its query, or few, matched as evaluate does."""
    if "item" not in run.roles:
        return

    def ask(sql: str) -> list[Any]:
        judged = f"(FROM {qrels.clean} WHERE rel IS NOT NULL)"
        return case.fetch(f"WITH run AS {run.clean}, qrels AS {judged} {sql}")

    for counts in item_overlap(ask, case.given):
        system, shown, judged, both = counts
        query, ours, theirs = find_example_items(ask, system)
        example = {"query": _plain(query), "item of run": _plain(ours),
                   "item of qrels": _plain(theirs)}  # fmt: skip
        if judged and not both:
            yield Finding(
                "no-common-items", "error", _of_system(run, system), shown,
                "no item of the run is judged for its query",
                _REFUSED + "write item ids the same way in both, or name the right columns: item=",
                (example,),
            )  # fmt: skip
        elif is_small_overlap(*counts):
            yield Finding(
                "few-common-items", "warning", _of_system(run, system), both,
                few_common_items_note(*counts).partition(":")[0],
                "the others may be written in another way",
            )  # fmt: skip


def _by_system(
    case: _Case, kind: str, run: _Side, what: str, sql: str, why: str
) -> Iterator[Finding]:
    """A warning about queries, for each system by itself."""
    system = "system" if run.keys != "query" else "NULL AS system"
    rows = case.fetch(f"""
        SELECT system, count(*), min(query, 3) FROM (SELECT {system}, query FROM {sql})
        GROUP BY system ORDER BY system""")
    for name, count, queries in rows:
        found = tuple({"query": _plain(query)} for query in queries)
        message = f"{what}: {_counted(count, 'queries')}"
        yield Finding(kind, "warning", _of_system(run, name), count, message, why, found)


def ascending_scores(case: _Case) -> Iterator[Finding]:
    """Rankings in which the relevant items stand at the end: were the scores distances?"""
    for run, qrels in [(run, case.qrels) for run in case.runs if run.scored]:
        system = "system" if run.keys != "query" else "NULL AS system"
        rows = f"(SELECT *, rel >= 1 AS hit FROM {run.clean} WHERE score IS NOT NULL)"
        if qrels:
            rows = f"""(SELECT {run.keys}, item, score, hit FROM {run.clean}
                        LEFT JOIN (SELECT query, item, max(rel) >= 1 AS hit FROM {qrels.clean}
                                   GROUP BY query, item) USING (query, item)
                        WHERE score IS NOT NULL)"""
        elif "rel" not in run.roles:
            continue
        over = f"OVER (PARTITION BY {run.keys} ORDER BY score"
        same = f"OVER (PARTITION BY {run.keys}, score)"
        # Mann and Whitney: U counts the pairs in which the relevant item has the higher score.
        found = case.fetch(f"""
            SELECT system, sum(u - n * m / 2), sqrt(sum(n * m * (n + m + 1) / 12)),
                avg(1 / first), avg(1 / last), count(*)
            FROM (SELECT {system}, query, count(*) FILTER (hit) AS n,
                      count(*) FILTER (hit IS DISTINCT FROM true) AS m,
                      sum(place) FILTER (hit) - n * (n + 1) / 2 AS u,
                      min(down) FILTER (hit) AS first, min(up) FILTER (hit) AS last
                  FROM (SELECT *, rank() {over}) + (count(*) {same} - 1) / 2.0 AS place,
                            row_number() {over} DESC) AS down, row_number() {over} ASC) AS up
                        FROM {rows})
                  GROUP BY {run.keys})
            WHERE n > 0 AND m > 0 GROUP BY system ORDER BY system""")
        for name, excess, error, forward, backward, queries in found:
            if excess < _REVERSED * error and backward > 1.5 * forward:
                here, there = "descending", "False"
                if run.table.ascending:
                    here, there = "ascending", "True"
                yield Finding(
                    "reversed-scores", "warning", _of_system(run, name), queries,
                    f"the reversed order scores far better: RR {backward:.3f}, not {forward:.3f}",
                    f"{run.roles['score']} is taken as {here}: are the best scores at the other "
                    f"end, as with distances? Then pass descending={there}",
                )  # fmt: skip


# So many standard errors below what chance gives are the relevant items of reversed scores.
_REVERSED = -2.3


def judged_share(case: _Case) -> Iterator[Finding]:
    """How much of the top k is judged, in the queries that are."""
    pairs: list[tuple[_Side, _Side | None]] = [*case.judged_runs]
    if not case.qrels:
        pairs = [(run, None) for run in case.graded]
    for run, qrels in pairs:
        system = "system" if run.keys != "query" else "NULL AS system"
        example = "{'share': judged / shown, 'query': query, 'judged': judged, 'shown': shown}"
        rows = case.fetch(f"""
            SELECT system, sum(judged), sum(shown), min({example}, 3) FILTER (judged < shown)
            FROM (SELECT {system}, query, count(rel) AS judged, count(*) AS shown
                  FROM {_judged_tops(case, run, qrels)} GROUP BY {run.keys})
            GROUP BY system ORDER BY system""")
        for name, judged, shown, worst in rows:
            if judged < shown:
                share = f"{judged / shown:.1%} ({int(judged):,} of {int(shown):,})"
                yield Finding(
                    "judged-share",
                    "warning" if judged < shown / 2 else "note",
                    _of_system(run, name),
                    int(shown - judged),
                    f"judged in the top {case.k}: {share}",
                    "what is unjudged counts as not relevant, which may wrong a new system "
                    "(option: unjudged)",
                    _without("share", worst),
                )  # fmt: skip


def _judged_tops(case: _Case, run: _Side, qrels: _Side | None) -> str:
    """The top k of each judged query, with the grades."""
    rel = "" if qrels else ", rel"
    item = ", item" if "item" in run.roles else ""
    top = f"(SELECT {run.keys}{item}{rel} FROM {run.clean} WHERE pos <= {case.k})"
    if run.scored:
        order = f"score DESC, {BY_ITEM}"
        top = f"""(
            SELECT {run.keys}, item{rel} FROM {run.clean}
            JOIN ({score_cuts_sql(run.clean, run.keys, case.k)}) USING ({run.keys})
            WHERE score >= least
            QUALIFY row_number() OVER (PARTITION BY {run.keys} ORDER BY {order}) <= {case.k})"""
    if not qrels:
        return top
    grades = f"""(SELECT query, item, max(rel) AS rel FROM {qrels.clean}
                  GROUP BY query, item)"""
    judged = f"(SELECT DISTINCT query FROM {qrels.clean} WHERE rel IS NOT NULL)"
    return f"""(SELECT * FROM {top} SEMI JOIN {judged} USING (query))
               LEFT JOIN {grades} USING (query, item)"""


CHECKS: tuple[Callable[[_Case], Iterator[Finding]], ...] = (
    empty,
    null_ids,
    id_types,
    id_spelling,
    column_types,
    numbers,
    duplicate_items,
    duplicate_positions,
    duplicate_judgments,
    rank_score_order,
    position_gaps,
    coverage,
    no_relevant,
    ties_at_k,
    tied_rows,
    short_rankings,
    ascending_scores,
    judged_share,
)
