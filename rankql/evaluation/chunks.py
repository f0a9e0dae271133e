"""Rankings of documents from rankings of chunks: collapse= keeps the best chunk of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.arguments import RankingOptions
from rankql.evaluation.column_checks import validate_columns
from rankql.evaluation.ctes import BY_ITEM, sql_runner
from rankql.evaluation.validation import require_unique
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.conventions import Conventions
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.session import Session
from rankql.sources.tables import Data, Table

# The columns of the documents, their positions and grades, and the places of the chunks.
ITEM = f"{INTERNAL_PREFIX}document"
POS, REL, PLACE = f"{ITEM}_pos", f"{ITEM}_rel", f"{ITEM}_place"


def read_rankings(
    session: Session,
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    attributes: Data | None,
    columns: Mapping[str, Any],
    system: str | None = None,
    groups: Sequence[Sequence[str]] = (),
    descending: bool | None = None,
    ranking: RankingOptions | None = None,
    conventions: Conventions | None = None,
) -> Inputs:
    """The inputs, with the chunks of a document collapsed if the caller says so."""
    ranking = ranking or RankingOptions()
    inputs = read_inputs(
        session, run, qrels, attributes, columns, system, groups, None, descending, ranking.order
    )
    if ranking.collapse is None:
        return inputs
    validate_columns(session, inputs)
    if not inputs.scored:  # renumbering would hide them
        unique = [("run", "pos", "WHERE pos IS NOT NULL")]
        require_unique(sql_runner(session, inputs, Conventions()), inputs, unique)
    task = _Task(session, inputs, ranking.collapse, ranking.positions == "keep")
    task.require_known_ties(conventions or Conventions())
    task.require_documents()
    runs = {name: task.collapse_run(table) for name, table in inputs.runs.items()}
    judged, notes = task.collapse_qrels()
    return replace(inputs, runs=runs, qrels=judged, notes=[*task.count_dropped(runs), *notes])


@dataclass(frozen=True)
class _Task:
    """What is collapsed, and how."""

    session: Session
    inputs: Inputs
    rule: str
    # Do the positions of dropped rows stay empty?
    keep: bool

    def require_known_ties(self, conventions: Conventions) -> None:
        """Refuse a convention for ties that positions='keep' makes void."""
        if self.keep and self.inputs.scored and conventions.ties != "item":
            raise RankqlError(
                f"positions='keep' orders equal scores by item, so ties={conventions.ties!r} has "
                "no effect. Pass ties='item', or positions='renumber'"
            )

    def require_documents(self) -> None:
        """Refuse rows without a document, and a separator that no id contains."""
        chunks = 0
        for table in self.inputs.runs.values():
            document = self.document(table)
            item = table.key("item", True) if "item" in table.roles else "NULL"
            ((rows, known, chunked),) = self.session.con.sql(
                f"SELECT count(*), count({document}), count(*) FILTER (WHERE {item} <> "
                f"CAST({document} AS VARCHAR)) FROM {table.sql}"
            ).fetchall()
            if known < rows:
                raise RankqlError(
                    f"{table.label}: {self.describe(table)} is NULL in {rows - known:,} of {rows:,}"
                    " rows. Fill it, or leave them out"
                )
            chunks += chunked if self.column(table) is None else rows
        if not chunks:
            raise RankqlError(
                f"collapse={self.rule!r}: no id of the run contains {self.rule!r}. Pass the "
                "separator of your ids, or a column of documents"
            )

    def column(self, table: Table) -> str | None:
        """The column of the documents, if the rule is one."""
        known = self.rule.lower() in map(str.lower, table.columns)
        return table.actual_name(self.rule) if known else None

    def document(self, table: Table) -> str:
        """The SQL of the document of a row."""
        if column := self.column(table):
            return quote(column)
        if re.search(r"[^\W_]|\s", self.rule):
            raise RankqlError(
                f"collapse={self.rule!r}: {table.label} has no column of that name"
                f"{did_you_mean(self.rule, list(table.columns))}. For ids such as 'doc12#3', pass "
                "the separator: collapse='#'"
            )
        if "item" not in table.roles:
            raise RankqlError(f"collapse={self.rule!r} needs ids in {table.label}. Pass item='...'")
        pattern = rf"^(.*)\Q{self.rule}\E.*$"
        item = table.key("item", as_text=True)
        return rf"regexp_replace({item}, {literal(pattern)}, '\1', 's')"

    def describe(self, table: Table) -> str:
        """The document in words."""
        return self.column(table) or f"{table.roles['item']} before the last {self.rule!r}"

    def collapse_run(self, table: Table) -> Table:
        """The run with the best chunk of each document."""
        roles, assumed = {**table.roles, "item": ITEM}, {**table.assumed, "item": ""}
        item = table.roles.get("item")
        keys = ", ".join(quote(name) for name in self.inputs.ids(table) if name != item)
        order = "ASC NULLS LAST"
        if self.inputs.scored:
            tied = f", {BY_ITEM.replace('item', quote(item))} NULLS LAST" if item else ""
            order = f"DESC NULLS LAST{tied}"
        best = table.number("score" if self.inputs.scored else "pos")
        fields = ["*", f"{self.document(table)} AS {ITEM}"]
        fields.append(f"row_number() OVER (PARTITION BY {keys} ORDER BY {best} {order}) AS {PLACE}")
        kept, added = ["*"], [f"* EXCLUDE ({PLACE})"]
        if "rel" in roles:
            grade = f"max({table.number('rel')}) OVER (PARTITION BY {keys}, {ITEM})"
            kept.append(f"{grade} AS {REL}")
            roles["rel"], assumed["rel"] = REL, f"highest {table.roles['rel']} of a document"
        if self.inputs.scored == self.keep:
            place = f"CASE WHEN {best} IS NOT NULL THEN {PLACE} END"
            if not self.keep:  # rows move up by the number of those dropped above them
                moved = f"row_number() OVER (PARTITION BY {keys} ORDER BY {PLACE})"
                place = f"{best} - {PLACE} + {moved}"
            added.append(f"CAST({place} AS BIGINT) AS {POS}")
            roles["pos"] = POS
            source = table.roles["score" if self.keep else "pos"]
            assumed["pos"] = f"rank by {source}" if self.keep else f"{source}, renumbered"
        first = f"QUALIFY row_number() OVER (PARTITION BY {keys}, {ITEM} ORDER BY {PLACE}) = 1"
        rows = f"SELECT {', '.join(fields)} FROM {table.sql}"
        rows = f"SELECT {', '.join(kept)} FROM ({rows}) {first}"
        assumed["item"] = self.describe(table)
        return self._load(table, f"SELECT {', '.join(added)} FROM ({rows})", roles, assumed)

    def collapse_qrels(self) -> tuple[Table | None, list[str]]:
        """The judgments of documents, and a note if they were of chunks."""
        qrels = self.inputs.qrels
        if qrels is None or self.column(qrels) == qrels.roles["item"]:
            return qrels, []
        if self.column(qrels) is None and not self._judges_chunks(qrels):
            return qrels, []
        query, rel = quote(qrels.roles["query"]), qrels.number("rel")
        best = f"PARTITION BY {query}, {ITEM} ORDER BY {rel} DESC NULLS LAST"
        sql = f"SELECT *, {self.document(qrels)} AS {ITEM} FROM {qrels.sql}"
        sql += f" QUALIFY row_number() OVER ({best}) = 1"
        assumed = {**qrels.assumed, "item": self.describe(qrels)}
        judged = self._load(qrels, sql, {**qrels.roles, "item": ITEM}, assumed)
        before, after = self._count(qrels), self._count(judged)
        return judged, [
            f"qrels: {before:,} judgments of chunks count as {after:,} of documents, each with the "
            "highest grade of its chunks"
        ]

    def _judges_chunks(self, qrels: Table) -> bool:
        """Are chunks judged, not documents? Refuses both."""
        if any(map(self.column, self.inputs.runs.values())):
            return False
        documents = " UNION ALL ".join(
            f"SELECT {table.key('query', True)} AS q_, {self.document(table)} AS d_ "
            f"FROM {table.sql}"
            for table in self.inputs.runs.values()
        )
        judged = f"SELECT {qrels.key('query', True)} AS q_, {qrels.key('item', True)} AS i_"
        sql = f"""WITH documents AS (SELECT DISTINCT * FROM ({documents})),
            judged AS ({judged}, {self.document(qrels)} AS d_ FROM {qrels.sql})
            SELECT (SELECT min(i_) FROM judged SEMI JOIN documents USING (q_, d_) WHERE i_ <> d_),
                   (SELECT min(i_) FROM judged SEMI JOIN documents
                    ON judged.q_ = documents.q_ AND i_ = documents.d_)"""
        ((chunk, document),) = self.session.con.sql(sql).fetchall()
        if chunk is not None and document is not None:
            raise RankqlError(
                f"qrels judges chunks, such as {chunk!r}, and documents, such as {document!r}. "
                "Write ids of one kind"
            )
        return chunk is not None

    def count_dropped(self, runs: Mapping[str | None, Table]) -> list[str]:
        """A note on the rows that were dropped from each run."""
        result = "their positions stay empty" if self.keep else "the rows below move up"
        notes = []
        for name, table in self.inputs.runs.items():
            rows = self._count(table)
            dropped = rows - self._count(runs[name])
            notes.append(
                f"{table.label}: {dropped:,} of {rows:,} rows repeat a document "
                f"({self.describe(table)}) and are dropped; {result}"
            )
        return notes

    def _count(self, table: Table) -> int:
        ((rows,),) = self.session.con.sql(f"SELECT count(*) FROM {table.sql}").fetchall()
        return int(rows)

    def _load(
        self, table: Table, sql: str, roles: dict[str, str], assumed: dict[str, str]
    ) -> Table:
        """The collapsed rows, computed once: several queries read them."""
        loaded = self.session.load(table.label, f"({sql})", text=table.text)
        return replace(loaded, roles=roles, assumed=assumed, ascending=table.ascending)
