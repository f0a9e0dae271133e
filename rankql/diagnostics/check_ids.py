"""Checks of the tables and their ids: no rows, NULL, types and spellings that do not match."""

from __future__ import annotations

from collections.abc import Iterator

from rankql.diagnostics.check_data import CheckData, is_numeric
from rankql.diagnostics.findings import Finding
from rankql.sources.tables import same_kind


def find_empty_tables(data: CheckData) -> Iterator[Finding]:
    """Tables without rows."""
    for table in data.tables:
        if not table.rows:
            why = "there is nothing to evaluate: look at the path, the filter or the name"
            yield Finding("empty", "error", table.label, 1, "the table has no rows", why)


def find_null_ids(data: CheckData) -> Iterator[Finding]:
    """Rows in which the system, query or item is NULL."""
    for table in data.tables:
        roles = {**table.roles, **({"system": data.inputs.system} if data.inputs.system else {})}
        columns = {role: roles[role] for role in ("system", "query", "item") if role in roles}
        if table is data.qrels:
            columns.pop("system", None)
        for role, column in columns.items():
            rest = "".join(f", raw_{r} AS {r}" for r in ("score", "pos", "rel")
                           if r in table.roles)  # fmt: skip
            sql = f"(SELECT {', '.join(columns)}{rest} FROM {table.raw} WHERE {role} IS NULL)"
            why = "evaluate refuses it, as NULL matches nothing: leave these rows out"
            yield from data.find_rows(
                "null-ids", "error", table, f"{column} is NULL", "row", sql, why
            )


def find_id_types(data: CheckData) -> Iterator[Finding]:
    """Ids that are numbers in one table and text in the other."""
    for run, qrels in data.judged_runs:
        if run.table.text or qrels.table.text:
            continue  # A text file has no types.
        for role in ("query", "item"):
            types = {table.label: table.table.columns[table.roles[role]]
                     for table in (run, qrels) if role in table.roles}  # fmt: skip
            if role in run.roles and not same_kind(list(types.values())):
                where = " and ".join(f"{kind} in {label}" for label, kind in types.items())
                yield Finding(
                    "id-types", "warning", run.label, 1, f"{role} ids are {where}",
                    "they are compared as text, and 1.0 or 01 is not 1: cast both to one type",
                    (types,),
                )  # fmt: skip


# Spellings of one id differ in blanks around, case and the code points of accents; those of
# numbers in leading zeros and a final .0, which are looked for only where they can be.
_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
_NORMAL = f"lower(trim(nfc_normalize(id), {_BLANKS}))"
_FLOAT = r"regexp_replace(normal, '^(-?[0-9]+)\.0+$', '\1')"
_FLOAT = f"CASE WHEN contains(normal, '.') THEN {_FLOAT} ELSE normal END"
_PADDED = r"regexp_replace(normal, '^(-?)0+([0-9])', '\1\2')"
_PADDED = f"CASE WHEN normal[:1] IN ('0', '-') THEN {_PADDED} ELSE normal END"


def find_id_spellings(data: CheckData) -> Iterator[Finding]:
    """Ids of the run that would match if qrels spelled them in the same way."""
    for run, qrels in data.judged_runs:
        for role in ("query", "item"):
            if role not in run.roles:
                continue
            if all(is_numeric(table.table, table.roles[role]) for table in (run, qrels)):
                continue
            qrels_ids = f"(SELECT DISTINCT {role} AS id FROM {qrels.clean})"
            run_ids = f"(SELECT DISTINCT {role} AS id FROM {run.clean})"
            unmatched = f"(FROM {run_ids} ANTI JOIN {qrels_ids} USING (id))"
            sql = f"""(
                SELECT r.id AS run, min(q.id) AS qrels
                FROM {_normalise(unmatched)} AS r JOIN {_normalise(qrels_ids)} AS q USING (normal)
                GROUP BY r.id)"""
            yield from data.find_rows(
                "id-spelling", "error", run, f"{role} is spelled otherwise in qrels", "id", sql,
                "they count as unjudged or missing: write ids alike (blanks, case, zeros, type)",
            )  # fmt: skip


def _normalise(ids: str) -> str:
    """The ids, each with its normal spelling."""
    sql = f"(SELECT CAST(id AS VARCHAR) AS id FROM {ids})"
    for normal in (_NORMAL, _FLOAT, _PADDED):
        sql = f"(SELECT id, {normal} AS normal FROM {sql})"
    return sql
