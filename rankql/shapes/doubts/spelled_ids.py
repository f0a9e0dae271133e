"""A closer look at ids: which relevant ones a system spells differently, and what repairs them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rankql.core.base.errors import Advice, advise
from rankql.core.evaluation.checks.looks import SampledRows, Spelling
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.metrics.macros import literal
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.session import Session
from rankql.shapes.doubts.spelling import (
    difference,
    find_repair,
    loose_forms,
    repair_call,
    respell_pairs,
)

# So many relevant ids of a query that are not found are looked at, and so many ids like one.
_MISSING, _ALIKE = 5, 20
# From so many ids on, and this share of those not found, a difference that has no step is one.
_LEAST, _SHARE = 5, 0.1
# The relevant ids that a ranking lacks, each with ids of it that are not judged and look like it.
_LACKING = """,
    missing AS MATERIALIZED (
        SELECT {keys}, CAST(item AS VARCHAR) AS item
        FROM (SELECT DISTINCT {keys} FROM run)
        JOIN (SELECT query, item FROM qrels WHERE {relevant} AND item IS NOT NULL)
            USING (query)
        ANTI JOIN run USING ({keys}, item)
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY item) <= {most}),
    found AS (
        SELECT {keys}, CAST(item AS VARCHAR) AS item FROM run
        ANTI JOIN (SELECT query, item FROM qrels WHERE item IS NOT NULL) USING (query, item)
        SEMI JOIN missing USING ({keys}))
    SELECT {system} AS system, a.item, min(b.item, {alike}) FILTER (b.item IS NOT NULL)
    FROM {missing} AS a LEFT JOIN {found} AS b ON {same} AND (a.form = b.form
        OR (a.letters AND b.letters AND (contains(a.form, b.form) OR contains(b.form, a.form))))
    GROUP BY {both}, a.item ORDER BY ALL"""


def look_at_ids(sample: SampledRows) -> list[Spelling]:
    """The ways in which each system spells relevant ids that it does not find."""
    evaluation, inputs = sample.evaluation, sample.evaluation.inputs
    if inputs.qrels is None or not inputs.has_text_items:
        return []
    keys = inputs.keys.split(", ")
    sql = _LACKING.format(
        keys=inputs.keys, system="a.system" if inputs.many else "NULL", most=_MISSING,
        relevant=evaluation.is_relevant(), alike=_ALIKE,
        both=", ".join(f"a.{key}" for key in keys),
        same=" AND ".join(f"a.{key} = b.{key}" for key in keys),
        missing=loose_forms("missing"), found=loose_forms("found"),
    )  # fmt: skip
    rows = sample.fetch(sql)
    of_rows = [(i, one) for i, (*_, alike) in enumerate(rows) for one in alike or ()]
    pairs = [(rows[i][0], one, rows[i][1]) for i, one in of_rows]
    if not pairs:
        return []
    lacking = Counter(name for name, *_ in rows)
    steps, _ = respell_pairs(evaluation.session.con, [pair[1:] for pair in pairs])
    ways = [
        "step" if is_step else difference(*pair)
        for is_step, (_, *pair) in zip(steps, pairs, strict=True)
    ]
    alike = [x for x, way in zip(pairs, ways, strict=True) if way]
    known = _ids_of_both(evaluation, alike) if alike else set()
    spellings = defaultdict[tuple[str | None, str], dict[int, tuple[str, str]]](dict)
    for (i, _), (name, ranked, missed), way in zip(of_rows, pairs, ways, strict=True):
        others = [("run", name, missed)] if way != "step" else []
        if way and known.isdisjoint([("qrels", None, ranked), *others]):
            spellings[name, way].setdefault(i, (ranked, missed))
    return [
        Spelling(name, [*ids.values()])
        for (name, way), ids in spellings.items()
        if len(ids) >= _SHARE * lacking[name] and (way == "step" or len(ids) >= _LEAST)
    ]


def describe_repair(session: Session, inputs: Inputs, pairs: Sequence[tuple[str, str]]) -> Advice:
    """What to pass so that these ids of run and judgments match, if an expression does it."""
    assert inputs.qrels
    ways = find_repair(session.con, pairs)
    tables = (next(iter(inputs.runs.values())), inputs.qrels)
    call = repair_call("item", tables, ways) if ways else {}
    return advise(". Pass ", call) if call else Advice()


def _ids_of_both(
    evaluation: Evaluation, pairs: Sequence[tuple[str | None, str, str]]
) -> set[tuple[str, str | None, str]]:
    """The ids of runs that are judged for some query, and the judged ids in each system."""
    _, ranked, missed = zip(*pairs, strict=True)
    known = set[tuple[str, str | None, str]]()
    system = "system" if evaluation.inputs.many else "NULL"
    for fields, table, ids in (("NULL", "qrels", ranked), (system, "run", missed)):
        some = ", ".join(map(literal, {*ids}))
        sql = f"SELECT DISTINCT '{table}', {fields}, CAST(item AS VARCHAR) AS i FROM {table} "
        known |= {*evaluation.run_sql(f"{sql}WHERE i IN ({some})")}
    return known
