"""Rankings of documents from rankings of chunks: collapse= keeps the best chunk of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from rankql.errors import RankqlError, require
from rankql.evaluation.checks.columns import validate_columns
from rankql.evaluation.checks.duplicates import require_unique_rows
from rankql.evaluation.ctes import BY_ITEM
from rankql.evaluation.evaluation import Evaluation
from rankql.evaluation.request import RankingRules
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.conventions import Conventions
from rankql.sources.computed import add_column
from rankql.sources.inputs import Inputs
from rankql.sources.session import Session
from rankql.sources.tables import Table

# The columns of the positions and grades of documents, and of the ranks of chunks.
POS, REL, PLACE, LINE = (f"{INTERNAL_PREFIX}{x}" for x in ("moved", "highest", "chunk", "line"))


def collapse_chunks(session: Session, inputs: Inputs, rules: RankingRules) -> Inputs:
    """The inputs with documents instead of chunks, and notes on what was dropped."""
    assert rules.collapse is not None
    validate_columns(session, inputs)
    if not inputs.scored:  # renumbering would hide them
        unique = [("run", "pos", "WHERE pos IS NOT NULL")]
        require_unique_rows(Evaluation(session, inputs, Conventions()), unique)
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
            return add_column(self.session, table, "collapse", self.rule)
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
            f"qrels: {self._count(table):,} judgments of chunks count as {self._count(judged):,} "
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

    def _count(self, table: Table) -> int:
        return int(self.session.value(f"SELECT count(*) FROM {table.sql}"))

    def _load(
        self, table: Table, sql: str, roles: dict[str, str], origins: Mapping[str, str]
    ) -> Table:
        """The rows of documents, computed once: several queries read them."""
        loaded = self.session.load(table.label, sql, text=table.text)
        documents = replace(loaded, origins=origins, context=table.context)
        return replace(documents, roles=roles, ascending=table.ascending)
