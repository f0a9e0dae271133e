"""Items that do not count as shown: seen in train, the query itself, and those below a score.

Also chunks of a document but the best one: collapse= makes rankings of documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from rankql.core.base import errors
from rankql.core.base.column_names import says
from rankql.core.base.errors import RankqlError, require
from rankql.core.base.text import format_count, is_or_are, run_label, unique_names
from rankql.core.evaluation.checks.duplicates import require_unique_positions
from rankql.core.evaluation.plan.columns import validate_columns
from rankql.core.evaluation.query.ctes import with_ctes
from rankql.core.evaluation.query.ties import BY_ITEM
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.stats.means import ROUNDING
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import fetch
from rankql.core.tables.request import Request
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table
from rankql.features.catalogue import train_steps
from rankql.shapes.choose.computed import add_column

# So many lowest scores are compared, unless the caller names them.
SCORES = 20
LINE, DROPPED = f"{INTERNAL_PREFIX}line", f"{INTERNAL_PREFIX}dropped"


def count_unjudged(session: Session, inputs: Inputs, _: Request | None = None) -> Inputs:
    """The judgments with a row for each other query of a run: no item, and no grade."""
    qrels, keys = inputs.qrels, inputs.as_text("query")
    assert qrels
    query, rel = (qrels.roles[role] for role in ("query", "rel"))
    if keys:
        qrels = qrels.with_values(query, qrels.key("query", True), "VARCHAR")
    own = [name for name in inputs.by if qrels.has(name)]
    runs = []
    for table in inputs.runs.values():
        values = [quote(name) if table.has(name) else "NULL" for name in own]
        columns = [f"{table.key('query', keys)} AS {quote(query)}"]
        columns += [f"{value} AS {quote(name)}" for value, name in zip(values, own, strict=True)]
        runs.append(f"SELECT {', '.join(columns)} FROM {table.sql}")
    firsts = "".join(f", any_value({quote(name)}) AS {quote(name)}" for name in own)
    key = f"{qrels.key('query', keys)} AS {quote(query)}"
    judged = f"(SELECT {key} FROM {qrels.sql} WHERE {quote(rel)} IS NOT NULL)"
    rest = f"""SELECT {quote(query)}{firsts} FROM ({" UNION ALL ".join(runs)})
        ANTI JOIN {judged} USING ({quote(query)}) GROUP BY {quote(query)}"""
    sql = f"(FROM {qrels.sql} UNION ALL BY NAME {rest})"
    return replace(inputs, qrels=replace(qrels, sql=sql))


def drop_seen(session: Session, inputs: Inputs, request: Request) -> Inputs:
    """The runs without the items that the user has in train; those below move up. With a note."""

    def is_seen(table: Table) -> str:
        pair = "({query}, {item})".format(**inputs.fields(table))
        return f"coalesce({pair} IN (SELECT query, item FROM train), false)"

    remedy = "Pass the interactions before the run as train="
    texts = "seen='drop'", "in train for the same user", remedy
    train = with_ctes(train_steps(inputs))
    return _drop_rows(inputs, request.rules.conventions, train, is_seen, texts)


def drop_identical(session: Session, inputs: Inputs, request: Request) -> Inputs:
    """The runs without items that have the id of their query, or both tables. With notes."""
    for table in inputs.runs.values():
        errors.require(
            table.roles.keys() >= {"query", "item"}
            and table.computed.keys().isdisjoint((table.roles["query"], table.roles["item"])),
            "ignore_identical_ids= compares the id of an item with that of its query, so it needs "
            f"one column of each. {table.label} has others. Leave it out",
        )

    def is_identical(table: Table) -> str:
        return f"coalesce({table.key('query', True)} = {table.key('item', True)}, false)"

    texts = "ignore_identical_ids", "the query itself", "Leave it out"
    rules, notes, both = request.rules, [], request.rules.ignore_identical_ids == "both"
    for table in (x for x in inputs.judging if "rel" in x.roles):
        query, own = table.key("query"), f"bool_or({is_identical(table)})"
        sql = f"FROM {table.sql} WHERE {table.number('rel')} > 0 GROUP BY {query}"
        sql = f"SELECT count(*) FILTER (own), count(*) FROM (SELECT {own} AS own {sql})"
        count, total = session.row(sql)
        text = f"{table.label}: {format_count(count, 'query')} {is_or_are(count)} judged relevant "
        text += f"to {'itself' if count == 1 else 'themselves'}. "
        rest = "These judgments are left out" if both else (
            "Such an item counts as not found. To take it out of the judgments too, pass "
            "ignore_identical_ids='both'")  # fmt: skip
        notes += [text + rest] * (count > (0 if both else total / 2))
    inputs = _drop_rows(inputs, rules.conventions, "", is_identical, texts)
    inputs = replace(inputs, notes=[*inputs.notes, *notes])
    if not both:
        return inputs

    def judge_others(table: Table) -> Table:
        if "rel" not in table.roles:
            return table
        # A query without other judgments stays judged, with nothing relevant.
        rel, same = quote(table.roles["rel"]), is_identical(table)
        ids = ", ".join(quote(x) for x in inputs.ids(table) if x != table.roles["item"])
        first = f"row_number() OVER (PARTITION BY {ids} ORDER BY {same} ASC NULLS LAST) = 1"
        grades = f"SELECT * REPLACE (CASE WHEN {same} THEN '0' ELSE {rel} END AS {rel})"
        return replace(table, sql=f"({grades} FROM {table.sql} QUALIFY NOT {same} OR {first})")

    if inputs.qrels:
        return replace(inputs, qrels=judge_others(inputs.qrels))
    return replace(inputs, runs={name: judge_others(x) for name, x in inputs.runs.items()})


def _drop_rows(
    inputs: Inputs, conventions: Conventions, ctes: str, condition: Callable[[Table], str],
    texts: tuple[str, str, str],
) -> Inputs:  # fmt: skip
    """The runs without the rows of a condition; those below move up. With a note.

    texts: the option, what the rows are, and the remedy if nothing is left.
    """
    runs, notes, (option, why, remedy) = {}, [], texts
    for system, table in inputs.runs.items():
        line, dropped = map(quote, unique_names([LINE, DROPPED], table.columns))
        place = table.roles["score" if inputs.scored else "pos"]
        value, origins = quote(place), dict(table.origins)
        rows = (
            f"(SELECT *, {value} IS NOT NULL AND {condition(table)} AS {dropped}, "
            f"row_number() OVER () AS {line} FROM {table.sql})"
        )
        if not inputs.scored:
            ids = ", ".join(quote(x) for x in inputs.ids(table) if x != table.roles["item"])
            pos = table.number("pos")
            order = f"ORDER BY {pos} ASC NULLS LAST"
            before = f"dense_rank() OVER (PARTITION BY {ids} {order})"
            after = f"dense_rank() OVER (PARTITION BY {ids}, {dropped} {order})"
            value = f"CAST({pos} - {before} + {after} AS BIGINT)"
            origins[place] = f"{table.role_columns['pos']} (renumbered)"
        moved = f"SELECT * REPLACE (CASE WHEN NOT {dropped} THEN {value} END AS {quote(place)})"
        order = f" ORDER BY {line}" if conventions.ties == "order" else ""
        loaded = table.load(f"({ctes}{moved} FROM {rows}{order})", text=False)
        remaining, count = loaded.row(f"count({quote(place)}), count_if({dropped})")
        if not remaining:
            raise errors.RankqlError(
                f"{option} leaves nothing: every item of {run_label(system)} is {why}. {remedy}"
            )
        # The item of a table with grades stays judged, and its query is not missing.
        rest = f" WHERE NOT {dropped}" if inputs.qrels else ""
        runs[system] = replace(
            table,
            sql=f"(SELECT * EXCLUDE ({dropped}, {line}) FROM {loaded.sql}{rest})",
            columns={**table.columns, place: loaded.columns[place]},
            origins=origins,
        )
        notes.append(
            f"{option}: {count:,} of {remaining + count:,} items of {run_label(system)} "
            f"{is_or_are(count)} {why} and left out; the items below move up"
        )
    return replace(inputs, runs=runs, notes=[*inputs.notes, *notes])


def keep_scores(session: Session, inputs: Inputs, request: Request) -> Inputs:
    """The runs with items of at least this score, or of the score of each system by name.

    Others count as not retrieved, so a query without one stays in its run and shows nothing. If
    the lowest score is best, it is the highest score that is kept. A tuple makes a system of each
    score in its list, or if that is None of `list_best_scores` and `find_min_score`.
    """
    for table in inputs.runs.values():
        if "score" not in table.roles:
            label = f"run {inputs.unscored!r}" if inputs.unscored else table.label
            numbers = [x for x in table.unread if says(x, "ordering")]
            raise errors.Question(f"min_score needs scores, and {label} has none",
                           [{"score": x} for x in numbers], blanks={"score": "..."})  # fmt: skip
    asked = min_score = request.min_score
    if isinstance(min_score, tuple):
        alone = len(inputs.runs) == 1 and inputs.system is None
        errors.require(alone, "min_scores compares the scores of one run. Pass one")
        (table,), (scores, limit) = inputs.runs.values(), min_score
        if scores is None:
            scores = list_best_scores(table)
            if limit is not None:
                scores += find_min_score(inputs, limit, request.rules.conventions.threshold)
        min_score = {str(x): x for x in sorted({*scores})}
        inputs = replace(inputs, runs=dict.fromkeys(min_score, table))
    limits = min_score if isinstance(min_score, Mapping) else {None: min_score}
    for value in limits.values():
        finite = math.isfinite(errors.as_number(value))
        errors.require(finite, f"min_score must be a finite number, not {errors.describe(value)}")
    named = {*limits} - {None}
    alone = bool(named) and not inputs.many
    errors.require(not alone, "min_score= has names of systems, but there is one run")
    runs, of_row = {}, inputs.system and f"CAST({quote(inputs.system)} AS VARCHAR)"
    for system, table in inputs.runs.items():
        of = of_row or literal(system)
        cases = " ".join(f"WHEN {literal(x)} THEN {literal(y)}" for x, y in limits.items() if x)
        least = f"(CASE {of} {cases} END)" if named else literal(min_score)
        reaches = f"{table.number('score')} >= {table.signed('score', least)}"
        fits = f"coalesce({reaches}, {least} IS NULL)"
        places = [table.roles[role] for role in ("pos", "score") if role in table.roles]
        values = ", ".join(f"CASE WHEN {fits} THEN {quote(x)} END AS {quote(x)}" for x in places)
        runs[system] = replace(table, sql=f"(SELECT * REPLACE ({values}) FROM {table.sql})")
    if named and (systems := read_systems(session, inputs)) and (unknown := named - {*systems}):
        error = errors.describe_unknown("system in min_score", min(unknown), systems)
        raise errors.RankqlError(error)
    return replace(inputs, runs=runs, min_score=asked)


def list_best_scores(table: Table) -> list[float]:
    """Up to 20 quantiles of the best score of each query."""
    best = (
        f"SELECT max({table.read('score')}) AS best FROM {table.sql} GROUP BY {table.key('query')}"
    )
    shares = ", ".join(f"{i / (SCORES - 1)!r}" for i in range(SCORES))
    sql = f"SELECT unnest(list_distinct(quantile_disc(best, [{shares}]))) AS x FROM ({best})"
    scores = [float(x) for (x,) in fetch(table.session, f"{sql} ORDER BY x") if x is not None]
    return [-x for x in scores] if table.ascending else scores


def find_min_score(inputs: Inputs, limit: float, threshold: float) -> list[float]:
    """The lowest score of the run at which FalseAnswer is within its limit, if there is one."""
    (table,), (judging,) = inputs.runs.values(), inputs.judging
    score, key = table.read("score"), table.key("query")
    rel = judging.read("rel")
    unanswerable = (
        f"SELECT {judging.key('query')} AS q FROM {judging.sql} GROUP BY q "
        f"HAVING count({rel}) > 0 AND NOT coalesce(bool_or({rel} >= {threshold}), false)"
    )
    count = len(fetch(judging.session, unanswerable))
    allowed = math.floor((limit + ROUNDING) * count)
    best = (
        f"SELECT max({score}) AS x FROM {table.sql} WHERE {key} IN ({unanswerable}) GROUP BY {key} "
        f"ORDER BY x DESC NULLS LAST LIMIT 1 OFFSET {allowed}"
    )
    above = f"{score} > coalesce(({best}), '-Infinity'::DOUBLE)"
    ((lowest,),) = fetch(table.session, f"SELECT min({score}) FROM {table.sql} WHERE {above}")
    return [] if lowest is None else [-lowest if table.ascending else lowest]


def read_systems(session: Session, inputs: Inputs) -> list[str]:
    """The names of the systems."""
    if inputs.system is None:
        return [name for name in inputs.runs if name is not None]
    (table,), name = inputs.runs.values(), f"CAST({quote(inputs.system)} AS VARCHAR)"
    sql = f"SELECT DISTINCT {name} FROM {table.sql} WHERE {name} IS NOT NULL ORDER BY 1"
    return [system for (system,) in fetch(session, sql)]


# The columns of the positions and grades of documents, and of the ranks of chunks.
POS, REL, PLACE = (f"{INTERNAL_PREFIX}{x}" for x in ("moved", "highest", "chunk"))


def collapse_chunks(session: Session, inputs: Inputs, request: Request) -> Inputs:
    """The inputs with documents instead of chunks, and notes on what was dropped."""
    rules = request.rules
    assert rules.collapse is not None
    validate_columns(inputs)
    require_unique_positions(session, inputs)  # renumbering would hide them
    ties = rules.conventions.ties
    task = _Task(session, inputs, rules.collapse, rules.positions == "keep", ties)
    require(
        not (task.keep and inputs.scored) or ties == "item",
        f"positions='keep' orders equal scores by item, so ties={ties!r} has no effect. Pass "
        "ties='item', or positions='renumber'",
    )
    runs = {name: task.add_document(table) for name, table in inputs.runs.items()}
    task.require_documents(runs.values())
    collapsed = {name: task.collapse_run(table) for name, table in runs.items()}
    judged, notes = task.collapse_qrels(runs.values())
    dropped = map(task.note_dropped, runs.values(), collapsed.values())
    notes = [*inputs.notes, *filter(None, dropped), *notes]
    return replace(inputs, runs=collapsed, qrels=judged, notes=notes)


def is_separator(rule: str) -> bool:
    """Is it punctuation, as in 'doc12#3', or does it start so, as in 'doc12_chunk_3'?"""
    return re.fullmatch(r"[^\w\s]+|[_#:/|.~-][\w#:/|.~-]*", rule) is not None


@dataclass(frozen=True)
class _Task:
    """What is collapsed, and how."""

    session: Session
    inputs: Inputs
    # A column, a separator, or an SQL expression.
    rule: str
    # Do the positions of dropped rows stay empty?
    keep: bool
    ties: str

    def name(self, table: Table) -> str:
        """The name of the column of documents."""
        if is_separator(self.rule) and not table.has(self.rule):
            return f"{table.roles['item']} before the last {self.rule!r}"
        return table.actual_name(self.rule) if table.has(self.rule) else self.rule

    def add_document(self, table: Table) -> Table:
        """The table with the column of documents."""
        if table.has(self.rule):
            return table
        if not is_separator(self.rule):
            return add_column(table, "collapse", self.rule)
        if "item" not in table.roles:
            raise RankqlError(f"collapse={self.rule!r} needs ids in {table.label}. Pass item='...'")
        item, pattern = table.key("item", as_text=True), rf"^(.*)\Q{self.rule}\E.*$"
        document = rf"regexp_replace({item}, {literal(pattern)}, '\1', 's')"
        return table.with_column(self.name(table), document, "VARCHAR", [table.roles["item"]])

    def require_documents(self, runs: Iterable[Table]) -> None:
        """Refuse rows without a document, and a separator that no id contains."""
        chunks = 0
        for table in runs:
            name = self.name(table)
            document, item = quote(name), quote(table.roles.get("item", name))
            rows, known, chunked = self.session.row(
                f"SELECT count(*), count({document}), count(*) FILTER (WHERE CAST({item} AS "
                f"VARCHAR) <> CAST({document} AS VARCHAR)) FROM {table.sql}"
            )
            chunks += chunked
            require(
                known == rows,
                f"{table.label}: {name} is NULL in {rows - known:,} of {rows:,} rows. Fill it, or "
                "leave them out",
            )
        require(
            bool(chunks) or not is_separator(self.rule),
            f"collapse={self.rule!r}: no id of the run contains {self.rule!r}. Pass the separator "
            "of your ids, or a column of documents",
        )

    def collapse_run(self, table: Table) -> Table:
        """The run with the best chunk of each document."""
        document, item = self.name(table), table.roles.get("item")
        roles, origins = {**table.roles, "item": document}, dict(table.origins)
        keys = ", ".join(quote(name) for name in self.inputs.ids(table) if name != item)
        best, order = table.number("score" if self.inputs.scored else "pos"), "ASC NULLS LAST"
        source, hidden, last = table.sql, PLACE, ""
        if self.inputs.scored and self.ties == "order":
            source = f"(SELECT *, row_number() OVER () AS {LINE} FROM {source})"
            order, hidden = f"DESC NULLS LAST, {LINE}", f"{PLACE}, {LINE}"
            last = f" ORDER BY {LINE}"
        elif self.inputs.scored:
            tied = f", {BY_ITEM.replace('item', quote(item))} NULLS LAST" if item else ""
            order = f"DESC NULLS LAST{tied}"
        place = f"row_number() OVER (PARTITION BY {keys} ORDER BY {best} {order}) AS {PLACE}"
        chunks = f"PARTITION BY {keys}, {quote(document)}"
        fields, moved = "*", f"* EXCLUDE ({hidden})"
        if "rel" in roles:
            fields += f", max({table.number('rel')}) OVER ({chunks}) AS {REL}"
            roles["rel"], origins[REL] = REL, f"highest {table.roles['rel']} of a document"
        if self.inputs.scored and self.keep:
            moved += f", CASE WHEN {best} IS NOT NULL THEN {PLACE} END AS {POS}"
            roles["pos"], origins[POS] = POS, f"rank by {table.roles['score']}"
        elif not (self.inputs.scored or self.keep):
            # Rows move up by the number of those dropped above them; other gaps stay.
            rank = f"row_number() OVER (PARTITION BY {keys} ORDER BY {PLACE})"
            moved += f", CAST({best} - {PLACE} + {rank} AS BIGINT) AS {POS}"
            roles["pos"], origins[POS] = POS, f"{table.role_columns['pos']} (renumbered)"
        rows = f"(SELECT *, {place} FROM {source})"
        first = f"row_number() OVER ({chunks} ORDER BY {PLACE}) = 1"
        rows = f"(SELECT {fields} FROM {rows} QUALIFY {first})"
        return self._load(table, f"(SELECT {moved} FROM {rows}{last})", roles, origins)

    def collapse_qrels(self, runs: Collection[Table]) -> tuple[Table | None, list[str]]:
        """The judgments of documents, and a note if they were of chunks."""
        qrels = self.inputs.qrels
        if qrels is None or self.rule.lower() == qrels.roles["item"].lower():
            return qrels, []
        try:
            table = self.add_document(qrels)
        except RankqlError:  # it has no such column
            return qrels, []
        if not qrels.has(self.rule) and not self._judges_chunks(table, runs):
            return qrels, []
        document = self.name(table)
        best = f"PARTITION BY {quote(table.roles['query'])}, {quote(document)} ORDER BY "
        best += f"{table.number('rel')} DESC NULLS LAST"
        sql = f"(SELECT * FROM {table.sql} QUALIFY row_number() OVER ({best}) = 1)"
        judged = self._load(table, sql, {**table.roles, "item": document}, table.origins)
        return judged, [
            f"qrels: {self._count(table, document):,} judgments of chunks count as "
            f"{self._count(judged, document):,} "
            "of documents, each with the highest grade of its chunks"
        ]

    def _judges_chunks(self, qrels: Table, runs: Iterable[Table]) -> bool:
        """Are chunks judged, not documents? Refuses both."""
        documents, judged = (
            " UNION ALL ".join(
                f"SELECT {table.key('query', True)} AS q_, {table.key('item', True)} AS i_, "
                f"CAST({quote(self.name(table))} AS VARCHAR) AS d_ FROM {table.sql}"
                for table in tables
            )
            for tables in (runs, [qrels])
        )
        sql = f"""WITH documents AS (SELECT DISTINCT q_, d_ FROM ({documents})),
            judged AS ({judged})
            SELECT (SELECT min(i_) FROM judged SEMI JOIN documents USING (q_, d_) WHERE i_ <> d_),
                   (SELECT min(i_) FROM judged SEMI JOIN documents
                    ON judged.q_ = documents.q_ AND i_ = documents.d_)"""
        chunk, document = self.session.row(sql)
        require(
            chunk is None or document is None,
            f"qrels judges chunks, such as {chunk!r}, and documents, such as {document!r}. Write "
            "ids of one kind",
        )
        return chunk is not None

    def note_dropped(self, before: Table, after: Table) -> str:
        """A note on the rows that were dropped from a run, '' if there are none."""
        rows = self._count(before)
        dropped = rows - self._count(after)
        rest = "their positions stay empty" if self.keep else "the rows below move up"
        note = f"{before.label}: {dropped:,} of {rows:,} rows repeat a document "
        return f"{note}({self.name(before)}) and are dropped; {rest}" if dropped else ""

    def _count(self, table: Table, column: str = "") -> int:
        """The rows of a table, or those with a value of a column."""
        counted = quote(column) if column else "*"
        return int(table.value(f"count({counted})"))

    def _load(
        self, table: Table, sql: str, roles: dict[str, str], origins: Mapping[str, str]
    ) -> Table:
        """The rows of documents, computed once: several queries read them."""
        loaded = self.session.load(table.label, sql, text=table.text)
        documents = replace(loaded, origins=origins, context=table.context, empty=table.empty)
        return replace(documents, roles=roles, ascending=table.ascending)
