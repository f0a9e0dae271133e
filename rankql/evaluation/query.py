"""The one SQL query of an evaluation: every metric of every query of every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rankql.errors import RankqlError
from rankql.evaluation.packed import Top
from rankql.macros import MISSING, OURS, literal, parameters, quoted
from rankql.registry.conventions import Conventions
from rankql.registry.parse import RATINGS, RELEVANT, Metric, Rows
from rankql.sources.inputs import Inputs
from rankql.sources.run import execute
from rankql.sources.session import Session
from rankql.sources.tables import Table

# A gain and a threshold as the gain of a row.
Gained: TypeAlias = Callable[[str | Mapping[float, float], float], str]

# Equal scores: the higher item first, by the bytes of its text, as in trec_eval.
BY_ITEM = "encode(CAST(item AS VARCHAR)) DESC"

# max(score, k) knows no higher k.
HIGHEST_K = 999_999

# It reserves 16 * k bytes for each ranking beforehand: beyond this k, all rows are sorted.
SMALL_K = 100

# The step with the k-th score of each ranking, which is asked for twice.
CUTS = "cuts"

# What an error about a score begins with: evaluate() then looks whose it is.
NO_SCORE = "a score is NaN"

# What errors about duplicates begin with: evaluate() then looks for examples.
DUPLICATES = "duplicates among the judged items"
SHARED = "several items share a position"


# The rows of the run that are judged.
JUDGED = (
    "WHERE EXISTS (SELECT 1 FROM qrels WHERE qrels.query = run.query AND qrels.item = run.item)"
)


@dataclass(frozen=True)
class Query:
    """The SQL of an evaluation, and the columns it returns after those of the keys."""

    sql: str
    metrics: list[str]
    weights: dict[str, str]
    # The rows that were looked at: those with gain, all judged ones, or those unjudged too.
    rows: Rows
    # What must not stand twice within a query: in which table, which column, of which rows.
    once: Sequence[tuple[str, str, str]]
    # An expression of the user may call our macros with anything: they check it.
    checked: bool = False
    # Each ranking is a few sums, no more.
    sums: bool = False
    # It looks itself whether scores are numbers.
    cut: bool = False
    # The last position that a metric looks at, None where one looks at all.
    last: int | None = None


def build_query(
    inputs: Inputs, metrics: Sequence[Metric], chosen: Conventions, end: int = 0
) -> Query:
    """The SQL that computes all the metrics, one row per query and system.

    end: all grades are whole numbers from 0 to this; 0 where they may be anything.
    """
    conventions = vars(chosen)
    _refuse(inputs, metrics, chosen)
    whole = chosen.unjudged == "bounds" or not ranks_before_join(inputs, chosen)
    rows: Rows = "all" if whole else rows_needed(metrics, chosen)

    steps = source_ctes(inputs, chosen) | ranking_ctes(inputs, metrics, chosen, rows)
    names = [metric.name for metric in metrics]
    calls, weights = metric_calls(metrics, chosen)
    _unique([*_named(inputs), *calls])
    in_order = f"\nORDER BY {_keys(inputs)}"
    if chosen.unjudged == "bounds":
        lists, bounds = _bounds(metrics, chosen)
        _unique([*_named(inputs), *calls, *lists])
        values = with_ctes(steps) + _select(inputs, mask_undefined(calls, chosen) | lists)
        sql = _with_bounds(values, names, list(lists), bounds) + in_order
        found = [f"{name}{side}" for name in names for side in ("", " low", " high")]
        return Query(sql, found, {}, rows, _once(inputs, chosen, rows, None))
    top = Top(end if chosen.ties != "expected" else 0, metrics, conventions)
    plain = [metric for metric in metrics if metric.name not in top.values]
    once = _once(inputs, chosen, rows, last_position(plain, chosen) if plain else 0)
    if top.values:
        more, last = _from_top(inputs, chosen, top, calls)
        steps |= more
    else:
        last = _select(inputs, mask_undefined(calls, chosen)) + in_order
    return Query(
        with_ctes(steps) + last,
        names,
        weights,
        rows,
        once,
        checked=any(metric.measure is None for metric in metrics),
        sums=top.values.keys() == calls.keys(),
        cut=CUTS in steps and not any(run.text for run in inputs.runs.values()),
        last=last_position(metrics, chosen),
    )


def gain_sql(gain: str | Mapping[float, float], threshold: float) -> str:
    """The gain of a row, as SQL."""
    if isinstance(gain, Mapping):
        cases = " ".join(f"WHEN {grade} THEN {value}" for grade, value in gain.items())
        error = "rankql_fail('gain does not say what grade ' || rel || ' is worth')"
        other = f"CASE WHEN rel IS NOT NULL THEN {error} END"
        return f"CAST(CASE rel {cases} ELSE {other} END AS DOUBLE)"
    return {
        "linear": "rel",
        "exp2": "exp2_gain(rel)",
        "binary": f"CAST(rel >= {threshold} AS DOUBLE)",
    }[gain]


def metric_calls(
    metrics: Sequence[Metric], chosen: Conventions, gained: Gained = gain_sql
) -> tuple[dict[str, str], dict[str, str]]:
    """The metrics and their weights in the mean as calls, by name; and which has which weight."""
    weighed = [m.name for m in metrics if m.measure and m.measure.weight]
    weights = {name: f"{OURS}weight of {name}" for name in weighed}
    calls = {metric.name: metric_call(metric, chosen, gained) for metric in metrics}
    calls |= {weights[m.name]: m.weight(vars(chosen)) for m in metrics if m.name in weights}
    return calls, weights


def rows_needed(metrics: Sequence[Metric], chosen: Conventions) -> Rows:
    """The rows that the values depend on."""
    need = {metric.rows(vars(chosen)) for metric in metrics}
    if isinstance(chosen.gain, Mapping) or chosen.threshold <= 0:
        need.add("judged")
    order: tuple[Rows, ...] = ("all", "judged", "gain")
    return next(kind for kind in order if kind in need)


def _from_top(
    inputs: Inputs, chosen: Conventions, top: Top, calls: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """The steps from the rows to the metrics, by way of the packed tops; and the last one."""
    plain = {name: value for name, value in calls.items() if name not in top.values}
    steps, grade, place = {}, "CAST(rel AS INTEGER)", "pos"
    if inputs.qrels is None and not inputs.scored and chosen.unjudged != "remove":
        # Whole numbers as they are: quicker to add up than the DOUBLE of the macros.
        grade, place = f"{OURS}rel", f"{OURS}pos"
        steps["run"] = source_ctes(inputs, chosen, whole=True)["run"]
    # Names that are not ours are out of the way until the end.
    given = _named(inputs) | mask_undefined(plain, chosen)
    hidden = {name: f"{OURS}column_{i}" for i, name in enumerate(given)}
    columns = {hidden[name]: value for name, value in given.items()} | top.sums(grade, place)
    # In order from here on, while there is little to be moved: steps keep the order of the rows.
    order = f"\nORDER BY {_ascending(inputs.keys.split(', '))}"
    before, steps["sums"] = "sums", _grouped(inputs, columns) + order
    for step, columns in top.steps().items():
        added = [f"{value} AS {quoted(name)}" for name, value in columns.items()]
        steps[step] = _from(before, ["*", *added])
        before = step
    values = {name: quoted(column) for name, column in hidden.items()}
    values[MISSING] = (
        f"CASE WHEN {top.twice()} THEN rankql_fail('{DUPLICATES}') ELSE {values[MISSING]} END"
    )
    values |= mask_undefined(top.values, chosen, top.relevant(chosen.threshold))
    fields = [f"{values[name]} AS {quoted(name)}" for name in {**_named(inputs), **calls}]
    return steps, "SELECT " + ",\n    ".join(fields) + f"\nFROM {before}"


def _once(
    inputs: Inputs, chosen: Conventions, rows: Rows, k: int | None
) -> list[tuple[str, str, str]]:
    """What must not stand twice in the tables: of the positions, the first k."""
    once = []
    if not inputs.scored:
        # Rankings that were merged share this one, also where only rows with gain are looked at.
        once.append(("run", "pos", "WHERE pos = 1"))
    removed = chosen.unjudged == "remove"  # and who is left has a position of its own
    if inputs.qrels is not None:
        once.append(("qrels", "item", "WHERE rel > 0" if rows == "gain" else ""))
        if removed and not inputs.scored:
            once.append(("run", "pos", f"{JUDGED} AND pos IS NOT NULL"))
        return once
    if inputs.every("item"):
        once.append(("run", "item", "WHERE rel > 0"))
    if not inputs.scored and (removed or k != 0):
        within = "" if removed or k is None else f" AND pos <= {k}"
        once.append(("run", "pos", f"WHERE rel > 0 AND pos IS NOT NULL{within}"))
    return once


def mask_undefined(
    columns: Mapping[str, str], chosen: Conventions, relevant: str | None = None
) -> dict[str, str]:
    """The columns, NULL where nothing is relevant if the conventions say so."""
    if chosen.undefined != "drop":
        return dict(columns)
    relevant = relevant or RELEVANT.format(threshold=chosen.threshold)
    return {name: f"CASE WHEN {relevant} > 0 THEN {v} END" for name, v in columns.items()}


def _refuse(inputs: Inputs, metrics: Sequence[Metric], chosen: Conventions) -> None:
    """Refuse what would have no value, or one that means nothing."""
    scores = all("score" in table.roles for table in inputs.runs.values())
    for metric in metrics:
        if metric.measure and metric.measure.macro in RATINGS and not scores:
            raise RankqlError(f"{metric.name} compares grades with scores; name them: score='...'")
    _refuse_orders(inputs, metrics, chosen)
    gains = chosen.gain.items() if isinstance(chosen.gain, Mapping) else ()
    if chosen.ties in ("best", "worst"):
        discounts = list(chosen.discounts or ())
        rising = [gain for _, gain in sorted(gains)]
        if discounts != sorted(discounts) or rising != sorted(rising):
            raise RankqlError(
                f"ties={chosen.ties!r} puts tied items in the order of their grades: it asks for "
                "gains that rise with the grade, and for discounts that rise with the position"
            )
    if chosen.unjudged == "bounds" and any(grade == 0 != gain for grade, gain in gains):
        raise RankqlError("unjudged='bounds' asks for a gain of 0 for grade 0")


def _refuse_orders(inputs: Inputs, metrics: Sequence[Metric], chosen: Conventions) -> None:
    """Refuse metrics that read scores of which it is not clear whether they are -score."""
    if not inputs.ascending or not needs_scores(metrics):
        return
    name = next(metric.name for metric in metrics if needs_scores([metric]))
    if not all(table.ascending for table in inputs.runs.values()):
        raise RankqlError(
            f"{name} reads scores, which ascend in some runs and descend in others. "
            "Evaluate these runs one by one"
        )
    if chosen.ties == "expected":
        raise RankqlError(
            f"{name} reads scores, which ties='expected' takes as descending. Evaluate it with "
            "ties='item', or pass -score"
        )


def _keys(inputs: Inputs) -> str:
    """The keys under the names that they have in the result."""
    key = quoted(inputs.query)
    return _ascending(["system", key] if inputs.many else [key])


def _ascending(keys: Sequence[str]) -> str:
    """In this order whatever the settings."""
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


def _bounds(metrics: Sequence[Metric], chosen: Conventions) -> tuple[dict[str, str], list[str]]:
    """The lists that the bounds of the metrics are found from, and the calls that find them."""
    lists: dict[str, str] = {}
    calls = []
    for metric in metrics:
        macro = f"rankql_bounds_{metric.measure.macro}" if metric.measure else ""
        knows = parameters().get(macro, {})
        if not knows or (metric.measure and metric.measure.weight) or chosen.ties == "expected":
            under = " with ties='expected'" if chosen.ties == "expected" else ""
            raise RankqlError(f"unjudged='bounds' is not available for {metric.name}{under}")
        given = metric.arguments(vars(chosen))
        gain, threshold = metric.gain(vars(chosen)), metric.threshold(vars(chosen))
        rel = gain_sql(gain, threshold)
        ideal = " AND pos IS NOT NULL" if given.pop("ideal", "judged") == "retrieved" else ""
        items = f"list({{'pos': CAST(pos AS DOUBLE), 'rel': {rel}}} ORDER BY pos ASC)"
        arguments = []
        for part in (
            f"{items} FILTER (WHERE pos IS NOT NULL)",
            f"list({rel}) FILTER (WHERE rel IS NOT NULL{ideal})",
        ):
            lists.setdefault(part, f"{OURS}list_{len(lists)}")
            arguments.append(quoted(lists[part]))
        k = literal(given.pop("k", None))
        levels = {_level(gain, threshold, grade) for grade in chosen.levels or ()}
        arguments += [*([k] if "k" in knows else []), literal(sorted(levels))]
        arguments += [f"{name} := {_sql(value)}" for name, value in given.items()]
        calls.append(f"{macro}({', '.join(arguments)})")
    return {name: part for part, name in lists.items()}, calls


def _with_bounds(
    values: str, names: Sequence[str], lists: Sequence[str], bounds: Sequence[str]
) -> str:
    """The values per query with the lowest and the highest beside them."""
    pairs = [f"{OURS}bounds_{i}" for i in range(len(names))]
    found = ",\n    ".join(f"{b} AS {quoted(p)}" for b, p in zip(bounds, pairs, strict=True))
    ends = [
        f"{quoted(pair)}.{side} AS {quoted(f'{name} {side}')}"
        for name, pair in zip(names, pairs, strict=True)
        for side in ("low", "high")
    ]
    return (
        f"SELECT * EXCLUDE ({', '.join(map(quoted, [*lists, *pairs]))}), {', '.join(ends)}\n"
        f"FROM (SELECT *,\n    {found}\nFROM (\n{values}\n))"
    )


def _level(gain: str | Mapping[float, float], threshold: float, grade: float) -> float:
    """The gain of a grade."""
    if isinstance(gain, Mapping):
        return gain.get(grade, 0.0)
    gains = {"linear": grade, "exp2": pow(2.0, grade) - 1, "binary": float(grade >= threshold)}
    return float(gains[gain])


def with_source_ctes(inputs: Inputs, chosen: Conventions) -> str:
    """The sources alone, to ask something else of them."""
    return with_ctes(source_ctes(inputs, chosen))


def with_ctes(ctes: Mapping[str, str], kept: str = "") -> str:
    """The steps of a query, each read where it is asked for, but for those that are kept."""
    parts = (
        f"{name} AS {'' if name in (CUTS, kept) else 'NOT '}MATERIALIZED (\n{body}\n)"
        for name, body in ctes.items()
    )
    return "WITH " + ", ".join(parts) + "\n"


def source_ctes(inputs: Inputs, chosen: Conventions, whole: bool = False) -> dict[str, str]:
    """The runs, the judgments and the attributes, as they are given, in columns of one name.

    whole: grades and positions of a run as whole numbers too.
    """
    text = {role: inputs.as_text(role) for role in ("query", "item")}

    def keys(table: Table) -> list[str]:
        return [f"{table.key(r, text[r])} AS {r}" for r in text if r in table.roles]

    def attributes(home: str) -> list[str]:
        return [f"{quoted(name)} AS {inputs.attribute(name)}" for name in inputs.homed(home)]

    runs = []
    for name, table in inputs.runs.items():
        fields = keys(table)
        if inputs.system is not None:
            fields.insert(0, f"CAST({quoted(inputs.system)} AS VARCHAR) AS system")
        elif name is not None:
            fields.insert(0, f"{literal(name)} AS system")
        places = [role for role in ("pos", "score") if role in table.roles]
        fields += [f"{_number(table, role, chosen)} AS {role}" for role in places]
        if chosen.ties == "order":
            fields.append("row_number() OVER () AS line")
        if "rel" in table.roles:
            fields.append(f"{_number(table, 'rel', chosen)} AS rel")
        if whole:
            grade, place = (table.integer(role) or table.number(role) for role in ("rel", "pos"))
            fields += [f"CAST({grade} AS INTEGER) AS {OURS}rel", f"{place} AS {OURS}pos"]
        runs.append(_from(table.sql, fields + attributes("run")))
    ctes = {"run": "\n    UNION ALL\n".join(runs)}
    if inputs.qrels is not None:
        table = inputs.qrels
        grade = _number(table, "rel", chosen)
        fields = [*keys(table), f"{grade} AS rel", *attributes("qrels")]
        ctes["qrels"] = _from(table.sql, fields, f"WHERE {grade} IS NOT NULL")
    if inputs.reference is not None:
        table = inputs.reference
        role = "pos" if "pos" in table.roles else "score"
        fields = [*keys(table), f"{_number(table, role, chosen)} AS {role}"]
        ctes["reference"] = _from(table.sql, fields + attributes("reference"))
    if inputs.attributes is not None:
        fields = keys(inputs.attributes) + attributes("attributes")
        ctes["attributes"] = _from(inputs.attributes.sql, fields)
    if inputs.part:
        ctes = {n: f"    FROM (\n{body}\n    ) WHERE {inputs.part}" for n, body in ctes.items()}
    return ctes


def _from(source: str, fields: Sequence[str], rest: str = "") -> str:
    lines = [f"SELECT {', '.join(fields)}", f"FROM {source}", *([rest] if rest else [])]
    return "\n".join(f"    {line}" for line in lines)


def _number(table: Table, role: str, chosen: Conventions) -> str:
    """The number in a column, as the conventions have it."""
    value = table.number(role)
    if role == "score" and chosen.float32:
        return f"rankql_float32({value})"
    if role == "rel" and chosen.negative == "unjudged":
        return f"CASE WHEN {value} >= 0 THEN {value} END"
    if role == "rel" and chosen.negative == "error":
        must = literal(f"{table.label}: {table.roles[role]} must not be negative, but there is ")
        return f"CASE WHEN {value} < 0 THEN rankql_fail({must} || {value}) ELSE {value} END"
    return value


def ranking_ctes(
    inputs: Inputs, metrics: Sequence[Metric], chosen: Conventions, rows: Rows
) -> dict[str, str]:
    """The rows that count, with their grades and positions."""
    keys, qrels = inputs.keys, inputs.qrels
    ctes: dict[str, str] = {}
    judged = "qrels"
    if qrels is not None:
        if inputs.many:
            names = inputs.systems or [name for name in inputs.runs if name is not None]
            ctes["systems"] = f"    SELECT unnest({literal(names)}) AS system"
            if inputs.system is not None and not inputs.systems:
                ctes["systems"] = _from("run", ["DISTINCT system"])
            judged = "(FROM qrels CROSS JOIN systems)"
        k = last_position(metrics, chosen)
        cut = ranks_before_join(inputs, chosen) and inputs.scored and k is not None
        if cut and k is not None:
            ctes[CUTS] = f"    {score_cuts_sql('run', keys, k)}"
        ctes["queries"] = _queries(inputs, rows, CUTS if cut else "run")
    if ranks_before_join(inputs, chosen):
        top = "run"
        if inputs.scored:
            top = "top"
            ctes["top"] = _top(keys, k, score_order(chosen.ties))
        scored = needs_scores(metrics) and inputs.every("score")
        fields = [keys, "item", "rel", "pos", *([original_score(inputs)] if scored else [])]
        join = f"{judged} {'FULL' if rows == 'all' else 'LEFT'} JOIN {top} USING ({keys}, item)"
        ctes["ranked"] = _from(join, fields, "WHERE rel > 0" if rows == "gain" else "")
        return ctes
    source = "run"
    if qrels is not None:
        source = "joined"
        # The attributes stand in the step `queries`.
        homed = ", ".join(map(inputs.attribute, [*inputs.homed("qrels"), *inputs.homed("run")]))
        fields = [f"* EXCLUDE ({homed})" if homed else "*"]
        ctes["joined"] = _from(f"{judged} FULL JOIN run USING ({keys}, item)", fields)
    place = "score" if inputs.scored else "pos"
    fields = ["*"]
    if chosen.ties != "expected" and (inputs.scored or chosen.unjudged == "remove"):
        order = score_order(chosen.ties) if inputs.scored else "pos ASC"
        number = f"row_number() OVER (PARTITION BY {keys}, {place} IS NULL ORDER BY {order})"
        pos = f"CASE WHEN {place} IS NOT NULL THEN {number} END AS pos"
        fields = [f"*, {pos}" if inputs.scored else f"* REPLACE ({pos})"]
        if inputs.ascending:
            fields = [f"* REPLACE ({original_score(inputs)}), {pos}"]
    ctes["ranked"] = _from(
        source, fields, "WHERE rel IS NOT NULL" if chosen.unjudged == "remove" else ""
    )
    return ctes


def ranks_before_join(inputs: Inputs, chosen: Conventions) -> bool:
    """Do positions not depend on the grades, so that the join may come after them?"""
    alone = chosen.ties in ("item", "order") and chosen.unjudged != "remove"
    return inputs.qrels is not None and alone


def original_score(inputs: Inputs) -> str:
    """The score as the user gave it, who may compute with it."""
    return "0 - score AS score" if inputs.ascending else "score"


def _top(keys: str, k: int | None, order: str) -> str:
    """The positions by score, of the first k alone where no metric looks further."""
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
    fields = [keys, "item", "score", position]
    if k is None:
        return _from("run", fields, "WHERE score IS NOT NULL")
    rest = f"WHERE score >= least QUALIFY pos <= {k}"
    return _from(f"run JOIN {CUTS} USING ({keys})", fields, rest)


def score_cuts_sql(source: str, keys: str, k: int) -> str:
    """The rankings of a run, each with `least`, the k-th score.

    That is quick to find, and few rows of as much or more are left to be sorted.
    """
    best = f"max(score, {k})"
    least = f"CASE WHEN isnan({best}[1]) THEN rankql_fail('{NO_SCORE}') ELSE {best}[-1] END"
    return f"SELECT {keys}, {least} AS least FROM {source} GROUP BY {keys}"


def last_position(metrics: Sequence[Metric], chosen: Conventions) -> int | None:
    """The first position that no metric looks beyond."""
    further = needs_scores(metrics) or chosen.unjudged == "bounds"
    further = further or any(
        metric.k is None or metric.arguments(vars(chosen)).get("ideal") == "retrieved"
        for metric in metrics
    )
    k = max(metric.k or 0 for metric in metrics)
    return None if further or k > SMALL_K else k


def score_order(ties: str, by_item: str = BY_ITEM) -> str:
    """Best score first; equal scores by the bytes of the item, by row, or by what they gain."""
    return (
        "score DESC, "
        + {
            "item": by_item,
            "order": "line ASC",
            "best": f"coalesce(rel, 0) DESC, rel IS NULL ASC, {by_item}",
            "worst": f"coalesce(rel, 0) ASC, rel IS NULL DESC, {by_item}",
        }[ties]
    )


def needs_scores(metrics: Sequence[Metric]) -> bool:
    """Does one of them look at the scores?"""
    return any(m.measure is None or m.measure.macro in RATINGS for m in metrics)


def _queries(inputs: Inputs, rows: Rows, shown: str) -> str:
    """Every judged query, for every system: its attributes, and whether the run lacks it.

    shown: a step with all rankings of the run.
    """
    keys = inputs.keys
    count = "count(*) FILTER (WHERE rel > 0)" if rows == "gain" else "count(*)"

    attributes = "".join(f", {inputs.attribute(name)}" for name in inputs.by)
    body = (
        f"    SELECT {keys}, judged, retrieved IS NULL AS {MISSING}{attributes}\n"
        f"    FROM (SELECT query, {count} AS judged{_any_values(inputs, 'qrels')} FROM qrels "
        "GROUP BY query)\n"
    )
    if inputs.many:
        body += "    CROSS JOIN systems\n"
    distinct = f"SELECT DISTINCT {keys}, true AS retrieved FROM {shown}"
    body += f"    LEFT JOIN ({distinct}) USING ({keys})"
    for home in ("run", "attributes"):
        if inputs.homed(home):
            body += f"\n    LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
    return body


def attributes_by_query(inputs: Inputs, home: str) -> str:
    """The attributes that a table has, by query."""
    return f"(SELECT query{_any_values(inputs, home)} FROM {home} GROUP BY query)"


def _any_values(inputs: Inputs, home: str) -> str:
    """The attributes that a table has, as aggregates by query."""
    columns = map(inputs.attribute, inputs.homed(home))
    return "".join(f", any_value({column}) AS {column}" for column in columns)


def _unique(names: Sequence[str]) -> None:
    """Refuse a column name that would come twice."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise RankqlError(f"{name!r} would be the name of two columns; call one otherwise")
        seen.add(name.lower())


def _select(inputs: Inputs, columns: Mapping[str, str]) -> str:
    """The rankings by query."""
    return _grouped(inputs, {**_named(inputs), **columns})


def _named(inputs: Inputs) -> dict[str, str]:
    """What tells the rankings apart and is said of them, by the names that it has in the result."""
    fields = {"system": "system"} if inputs.many else {}
    fields[inputs.query] = "query"
    fields |= {name: f"any_value({inputs.attribute(name)})" for name in inputs.by}
    return {**fields, MISSING: _missing(inputs)}


def _grouped(inputs: Inputs, columns: Mapping[str, str]) -> str:
    source = f"queries LEFT JOIN ranked USING ({inputs.keys})"
    if inputs.qrels is None:
        source = "ranked"
        if inputs.attributes is not None:
            source += f" LEFT JOIN {attributes_by_query(inputs, 'attributes')} USING (query)"
    shown = (f"{value} AS {quoted(name)}" for name, value in columns.items())
    return "SELECT " + ",\n    ".join(shown) + f"\nFROM {source}\nGROUP BY {inputs.keys}"


def _missing(inputs: Inputs) -> str:
    """Whether the run lacks a query; an error where items come twice."""
    if inputs.qrels is None:
        return "false"
    checks = ["count(rel) > any_value(judged)"]
    if not inputs.scored:
        gaining = "FILTER (WHERE rel > 0)"
        checks.append(f"count(pos) {gaining} > count(DISTINCT pos) {gaining}")
    error = f"rankql_fail('{DUPLICATES}')"
    return f"CASE WHEN {' OR '.join(checks)} THEN {error} ELSE any_value({MISSING}) END"


def metric_call(metric: Metric, chosen: Conventions, gained: Gained = gain_sql) -> str:
    """A metric as a call of its macro."""
    if metric.measure is None:
        return f"CAST((\n{metric.expression}\n) AS DOUBLE)"
    macro = metric.measure.macro
    given = metric.arguments(vars(chosen))
    rel = gained(metric.gain(vars(chosen)), metric.threshold(vars(chosen)))
    if macro in RATINGS:
        return f"{macro}(rel, score)"
    columns = [rel, "pos"]
    if chosen.ties == "expected":
        macro, columns = f"{macro}_by_score", [rel, "score", "item"]
        given["ties"] = "expected"
    return macro_call(macro, columns, given)


def macro_call(macro: str, columns: Sequence[str], given: Mapping[str, Any]) -> str:
    """A call of a macro: k by position, the other options by name."""
    arguments = [*columns, *([str(given["k"])] if "k" in given else [])]
    arguments += [f"{name} := {_sql(value)}" for name, value in given.items() if name != "k"]
    return f"{macro}({', '.join(arguments)})"


def _sql(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else literal(value)


# The rows that SQL on the sources finds, in whatever database they are.
RunSql: TypeAlias = Callable[[str], Sequence[Sequence[Any]]]


def sql_runner(session: Session, inputs: Inputs, conventions: Conventions) -> RunSql:
    """What runs SQL on the sources in DuckDB."""
    return lambda sql: execute(session, with_source_ctes(inputs, conventions) + sql).fetchall()
