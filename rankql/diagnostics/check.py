"""check: find problems in the data before they make metrics wrong."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.column_names import SUBTOPICS
from rankql.core.base.errors import EqualRows, RankqlError, as_arguments
from rankql.core.base.results import TableResult
from rankql.core.base.text import format_count
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.checks.duplicates import (
    count_equal_once,
    describe_key,
    describe_separator,
    find_equal_rows,
)
from rankql.core.evaluation.checks.rankings import RANKINGS, REFUSED
from rankql.core.evaluation.checks.record import Facts, open_checks, write
from rankql.core.evaluation.checks.sampled import SAMPLED
from rankql.core.evaluation.plan.plan import read_rankings
from rankql.core.metrics.macros import quote
from rankql.core.tables.numbers.judgments import list_subtopics
from rankql.core.tables.numbers.values import MOST_EQUAL
from rankql.core.tables.reader import fetch
from rankql.core.tables.request import RankingRules, ReadingOptions, Request
from rankql.core.tables.session import Session, duckdb_errors, open_session
from rankql.core.tables.tables import FLOATS, Data, Table, is_rounded
from rankql.diagnostics.checked_tables import CheckData, CheckedTable
from rankql.diagnostics.row_checks import COLUMNS, ROWS, RowCheck, is_numeric
from rankql.features.collections import require_one_collection
from rankql.shapes.doubts.spelling import repair_call, respell_pairs

# The highest k of max(score, k).
HIGHEST_K = 999_999
_TOPICS = "Metrics of subtopics, such as alpha_nDCG and STREC, read them. Others refuse the rows."
_EMPTY = "There is nothing to evaluate. Check the path, the filter or the name."
# The findings about rows that repeat, by table.
_OF_ROWS = {"run": {"duplicate-items", "duplicate-positions"}, "qrels": {"duplicate-judgments"}}


@remember_inputs
def check(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    *,
    k: int = 10,
    train: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[ReadingOptions],
) -> CheckResult:
    """Find problems in runs and judgments that make metrics wrong or misleading.

    Parameters
    ----------
    run, qrels, collapse, con
        As in `evaluate`. Without `qrels`, only the run is checked.
    k : int
        Cutoff for ties and for the share of judged items.
    train : table, optional
        Interactions that the model was trained on, as in `evaluate`.
    **options
        How the data are read, as in `evaluate`: query, item, rel, score, pos, system, descending,
        columns, order, collapse, positions, conventions, threshold, groups, unjudged_queries,
        none_judged.

    Examples
    --------
    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "x"], "score": [2.0, 1.0]})
    >>> check(run, k=2).findings[0].message
    'item appears more than once in a ranking: 1 item'
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < HIGHEST_K:
        raise RankqlError(f"k must be a whole number from 1 to {HIGHEST_K - 1}, not {k!r}")
    rules = RankingRules.of(options, check, ReadingOptions)
    require_one_collection(run, qrels, options.get("part"), "check")
    with open_session(con, run, qrels, train) as session:
        session.asks = False
        request = Request(run, qrels, (), rules, train=train)
        findings, sources = count_equal_once(session, request, partial(_find_all, session, k))
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    return CheckResult(findings, sources, k)


def _find_all(
    session: Session, k: int, request: Request
) -> tuple[list[Finding], dict[str, dict[str, Any]]]:
    """All findings, and the rows and columns of the tables."""
    rules = request.rules
    inputs = read_rankings(session, request, graded=False, keeps_unjudged=True)
    judged, several = inputs.qrels, 0
    if judged and {"item", "rel"} <= judged.roles.keys():
        with suppress(RankqlError):  # judgments without subtopics
            listed, _ = list_subtopics(judged, rules.conventions.threshold)
            several = listed.value(f"count(*) FILTER (len({SUBTOPICS}) > 1)")
            inputs = replace(inputs, qrels=listed)
    with duckdb_errors():
        data = CheckData(session, inputs, k, rules.conventions.threshold)
        empty = [table.label for table in data.tables if not table.rows]
        findings = [
            *(Finding("empty", "error", x, 1, "the table is empty", _EMPTY) for x in empty),
            *check_columns(data),
            *_check_rankings(data),
            *_check_rows(data),
            *_find_rounded_ids(data),
            *_report_reading(data),
        ]
        if several and not rules.groups:
            message = f"item has several subtopics: {format_count(several, 'item')}"
            findings.append(Finding("subtopics", "warning", "qrels", several, message, _TOPICS))
        sources = {table.label: {"rows": table.rows, "columns": table.columns}
                   for table in data.tables}  # fmt: skip
    found = {finding.kind for finding in findings if finding.level == "error"}
    for source in (source for source, kinds in _OF_ROWS.items() if kinds & found):
        if 0 < find_equal_rows(session, inputs, request.once, source) <= MOST_EQUAL:
            raise EqualRows("", source)
    return findings, sources


def _report_reading(data: CheckData) -> Iterator[Finding]:
    """What the readers noted about a table, or about none."""
    why = "If this is not what you mean, change the data or name the columns."
    for note in data.session.notes:
        # Lines of a TREC file that look like rows are comments.
        about = ("warning", "These rows are missing.") if note.kind == "comments" else ("note", why)
        if note.level == "error":  # a question of `evaluate`
            about = ("error", "evaluate asks this, and shows the calls that answer it.")
        yield Finding(note.kind or "reading", about[0], note.heading, 1, note.words, about[1])


def _find_rounded_ids(data: CheckData) -> Iterator[Finding]:
    """Ids of floating point that may stand for several integers."""
    for table in data.tables:
        for role in {"query", "item"} & table.roles.keys():
            name = table.roles[role]
            kind = table.table.columns[name]
            if not kind.startswith(FLOATS):
                continue
            where = f" WHERE {is_rounded(quote(name), kind)}"
            count, example = table.table.row(f"count(*), min({quote(name)})", where)
            if count:
                yield Finding(
                    "rounded-ids", "error", table.label, count,
                    f"{name} is a floating-point number that may stand for different ids: "
                    f"{format_count(count, 'row')}", REFUSED + "Write ids as text or as integers.",
                    as_examples([{role: example}]),
                )  # fmt: skip


def _check_rankings(data: CheckData) -> Iterator[Finding]:
    """What `evaluate` says of queries and items of runs and judgments, in its words."""
    order = [*data.inputs.runs]
    for check in open_checks((*RANKINGS, *SAMPLED), data.evidence):
        findings = check.find(data.evidence) if check.why else ()

        def place(facts: Facts) -> int:
            system = facts.get("system", facts.get("of"))
            return order.index(system) if system in order else 0

        for facts in sorted(findings, key=place):
            system, level = facts.get("system", facts.get("of")), facts.get("level", check.level)
            refused = REFUSED if level == "error" and REFUSED not in check.why else ""
            where = facts.get("table") or data.run_of(system).system_label(system)
            yield Finding(
                check.name, level, where, facts["count"],
                write(check.text, facts), refused + write(check.why, facts),
                as_examples(facts.get("examples")),
            )  # fmt: skip


def check_columns(data: CheckData) -> Iterator[Finding]:
    """Look for suspect values in all columns, in one pass over each table."""
    for table in data.tables:
        read = [role for role in table.roles if role != table.unused]
        read = [role for role in read if role != "item" or role in table.table.id_roles]
        checks = [(role, check) for role in read for check in COLUMNS[role]]
        aggregates = (_count_and_examples(table, role, check.sql) for role, check in checks)
        sql = f"SELECT {', '.join(aggregates)} FROM {table.raw}"
        ((*values,),) = fetch(data.session, sql)
        for (role, check), count, rows in zip(checks, values[::2], values[1::2], strict=True):
            level, why = check.level, check.why
            if check.name in ("null-scores", "null-positions", "null-grades"):
                is_unranked = role == table.ranking_role and count == table.rows
                # In a run with grades, NULL means not retrieved or not judged.
                is_valid = table is not data.qrels and "rel" in table.roles
                if is_valid and not (is_unranked and table.scored):
                    continue
                if is_unranked:
                    level, why = "error", REFUSED + "Nothing is ranked."
            if count:
                message = f"{table.roles[role]} {check.text}: {format_count(count, check.noun)}"
                examples = as_examples(rows)
                yield Finding(check.name, level, table.label, count, message, why, examples)
        for role in ("score", "pos", "rel"):
            column = table.roles.get(role)
            readable = table.table.text or role == table.unused
            if column and not readable and not is_numeric(table.table, column):
                yield Finding(
                    "column-type", "error", table.label, table.rows,
                    f"{column} has type {table.table.columns[column]} instead of a number",
                    REFUSED + "Cast the column to a number.",
                )  # fmt: skip


def _count_and_examples(table: CheckedTable, role: str, where: str) -> str:
    """The number of rows for which a condition holds, and the first three of them."""
    ids = [*table.keys.split(", "), *(["item"] if "item" in table.roles else [])]
    columns = {name: name for name in ids} | ({} if role in ids else {role: f"raw_{role}"})
    row = ", ".join(f"'{name}': {column}" for name, column in columns.items())
    return f"count(*) FILTER ({where}), min({{{row}}}, 3) FILTER ({where})"


def _check_rows(data: CheckData) -> Iterator[Finding]:
    """Run every check of rows on the tables it applies to."""
    for _, group in itertools.groupby(ROWS, lambda check: check.sql):
        checks = [*group]
        first = checks[0]
        for table in getattr(data, first.tables):
            # Not of a column alone that evaluate ignores.
            reads = table.roles.keys() >= {*first.roles} and first.roles != (table.unused,)
            if reads and first.when(table):
                yield from _find(data, table, checks)


def _find(data: CheckData, table: CheckedTable, checks: Sequence[RowCheck]) -> Iterator[Finding]:
    """The findings in one table of checks with the same SQL."""
    names = _names(data, table)
    by_system = "{system}" in checks[0].sql
    hidden = {"sort", "in_top", *(["system"] if by_system else [])}
    for check, row in _fetch_counts(data, table, checks, names):
        count = int(row["count"])
        words = names | row
        if check.name == "id-spelling":
            ids = [example[name] for example in row["examples"] for name in ("run", "qrels")]
            words["repair"] = _repair(data, table.table, check.roles[0], ids)
        if "{systems}" in check.why and not data.inputs.many:
            hint = describe_separator(table.table, check.roles[0], data.inputs.qrels)
            words["systems"] = hint if hint[-1] != "=" else names["systems"]
        if "{key}" in check.why and data.inputs.qrels:
            words["key"] = describe_key(table.table, [*data.inputs.runs.values()])
        message = check.text.format(**words)
        message += f": {text.format_count(count, check.noun)}" if check.noun else ""
        level, why = row.get("level", check.level), check.why.format(**words)
        examples = as_examples(row.get("examples"), hidden)
        label = table.system_label(row.get("system"))
        yield Finding(check.name, level, label, count, message, why, examples)


def _fetch_counts(
    data: CheckData, table: CheckedTable, checks: Sequence[RowCheck], names: Mapping[str, Any]
) -> Iterator[tuple[RowCheck, dict[str, Any]]]:
    """The rows of checks with the same SQL: a number, examples, and perhaps the system."""
    sql = checks[0].sql.format(**names)
    if " AS count" in sql:
        yield from ((checks[0], row) for row in data.fetch(table, sql))
        return
    columns = ["system"] if "{system}" in checks[0].sql else []
    for i, where in enumerate(check.where.format(**names) for check in checks):
        columns.append(f"count(*) FILTER ({where}) AS count_{i}")
        columns.append(f"min(example, 3) FILTER ({where}) AS examples_{i}")
    sql = f"SELECT {', '.join(columns)} FROM ({sql}) AS example GROUP BY ALL ORDER BY ALL"
    rows = data.fetch(table, sql)
    for (i, check), row in itertools.product(enumerate(checks), rows):
        if row[f"count_{i}"]:
            found = {"count": row[f"count_{i}"], "examples": row[f"examples_{i}"]}
            yield check, found | ({"system": row["system"]} if "system" in row else {})


def _names(data: CheckData, table: CheckedTable) -> dict[str, Any]:
    """The values that the SQL and the sentences of a check can contain."""
    low = table.table.ascending
    return {
        **{f"{role}_column": column for role, column in table.roles.items()},
        "pos_column": table.table.role_columns.get("pos", "").removeprefix("order of "),
        "ranking_column": table.table.role_columns.get(table.ranking_role),
        "k": data.k,
        "after_k": data.k + 1,
        "threshold": data.threshold,
        "rows": "rows",
        "keys": table.keys,
        "system": "system" if table.keys != "query" else "NULL AS system",
        # `score` is negated if low scores are best. Examples show the original score.
        "sign": "0 - " if low else "",
        "place": "pos" if table.ranking_role == "pos" else "-score",
        "position": "pos"
        if table.ranking_role == "pos"
        else f"row_number() OVER (PARTITION BY {table.keys} ORDER BY score DESC NULLS LAST)",
        "order": "ascending" if low else "descending",
        "descending": low,
        "item": "item" if "item" in table.roles else "NULL AS item",
        "key": "",
        "systems": "" if data.inputs.many else ", or pass system= if there are several systems",
    }


def _repair(data: CheckData, run: Table, role: str, ids: Sequence[str]) -> str:
    """What to pass so that these ids of run and judgments match."""
    assert data.inputs.qrels
    _, steps = respell_pairs(data.session.con, [*zip(ids[::2], ids[1::2], strict=True)])
    call = repair_call(role, (run, data.inputs.qrels), (steps, steps))
    return f"Pass {as_arguments(call)}" if call else "Write them the same way in both tables"


LEVELS = ("error", "warning", "note")
_COLUMNS = ("level", "kind", "table", "count", "message", "examples", "why")
_SCHEMA = {name: pl.Int64 if name == "count" else pl.String for name in _COLUMNS}


@dataclass(frozen=True)
class Finding:
    """One problem in the data.

    `level` is 'error' (`evaluate` refuses the data), 'warning' (metrics may mislead) or 'note'.
    `message` says what is wrong, `why` says why it matters and what to do.
    """

    kind: str
    level: str
    table: str
    count: int
    message: str
    why: str
    examples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class CheckResult(TableResult):
    """The findings of `check`, errors first."""

    findings: Sequence[Finding]
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    k: int = 10
    # Always empty: everything is a finding.
    notes: list[str] = field(default_factory=list)
    _details = ("passed", "k", "tables")

    @property
    def passed(self) -> bool:
        """Whether no finding is an error; warnings and notes are allowed."""
        return all(finding.level != "error" for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return True  # even without findings; see .passed

    @property
    def table(self) -> pl.DataFrame:
        """One row per finding, its examples as JSON."""
        rows = self._rows(lambda examples: json.dumps(examples, ensure_ascii=False))
        return pl.DataFrame(rows, schema=_SCHEMA)

    def _rows(self, write: Callable[[Sequence[Any]], Any]) -> list[dict[str, Any]]:
        return [{**asdict(each), "examples": write(each.examples)} for each in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """The findings and the checked tables, as plain values."""
        return {**super().to_dict(), "table": self._rows(list)}

    @property
    def title(self) -> str:
        """The tables and the number of findings, in one line."""
        rows = {x: text.format_count(about["rows"], "row") for x, about in self.tables.items()}
        tables = ", ".join(f"{label} ({count})" for label, count in rows.items())
        counts = Counter(finding.level for finding in self.findings)
        totals = ", ".join(text.format_count(counts[x], x) for x in LEVELS if counts[x])
        judged = any({"rel", "grade"} & {*about["columns"]} for about in self.tables.values())
        unread = "" if judged else ", without judgments"
        return f"Check of {tables}{unread} at k = {self.k}: {totals or 'no problems found'}"

    def __repr__(self) -> str:
        lines = [self.title]
        cells = [("", "", ""), *((f.kind, f.table, f"{f.count:,}") for f in self.findings)]
        kind, table, count = (max(map(len, column)) for column in zip(*cells, strict=True))
        margin = " " * (kind + table + count + 8)
        for level in LEVELS:
            of_level = [f for f in self.findings if f.level == level]
            lines += ["", f"{level}s"] if of_level else []
            for f in of_level:
                head = f"  {f.kind:{kind}}  {f.table:{table}}  {f.count:>{count},}"
                lines.append(f"{head}  {f.message}")
                lines += [f"{margin}e.g. {_example_text(example)}" for example in f.examples]
                lines.append(f"{margin}why: {f.why}")
        return "\n".join(map(text.escape_controls, lines))

    def displayed(self) -> list[pl.DataFrame]:
        """The findings, with their examples as text."""
        rows = self._rows(lambda examples: "; ".join(map(_example_text, examples)))
        return [pl.DataFrame(rows, schema=_SCHEMA)] if rows else []


def _example_text(example: Mapping[str, Any]) -> str:
    values = {
        name: f"{value:.15g}" if isinstance(value, float) else text.show_id(value)
        for name, value in example.items()
    }
    return ", ".join(f"{name} {value}" for name, value in values.items())


def as_examples(
    rows: Sequence[Mapping[str, Any]] | None, hidden: Collection[str] = ()
) -> tuple[dict[str, Any], ...]:
    """Rows as examples, without hidden columns."""
    return tuple(
        {name: _json_value(value) for name, value in row.items() if name not in hidden}
        for row in rows or ()
    )


def _json_value(value: object) -> Any:
    """A value that JSON can hold: text where JSON has no type for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, int | float | str) else str(value)
