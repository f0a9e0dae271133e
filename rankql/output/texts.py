"""The texts of queries and items, which the report shows along with their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import quote
from rankql.sources.session import open_session

ROLES = ("query", "item")
# Names of the column of texts, the likeliest first.
_COLUMNS = ("text", "title", "name", "query", "question", "description", "url")
# Longer texts are cut.
LENGTH = 160


class Texts:
    """Finds texts by id, in `{"query": ..., "item": ...}`: each a dict, a frame or a file."""

    def __init__(self, sources: Mapping[str, Any] | None) -> None:
        if sources is not None and not (isinstance(sources, Mapping) and {*sources} <= {*ROLES}):
            raise RankqlError(
                "texts must be a dict with the keys 'query' and 'item'. Each value is a dict of "
                "id: text, a frame or a file with a column of ids and a column of texts."
            )
        self._sources = sources or {}
        for role, source in self._sources.items():
            if not isinstance(source, Mapping):
                _read(source, role, set())  # an error now, not in a section of the report

    def find(self, role: str, ids: Iterable[Any]) -> dict[str, str]:
        """Return the known texts of these ids, each on one line."""
        names, source = {str(each) for each in ids}, self._sources.get(role)
        if source is None or not names:
            return {}
        rows = source.items() if isinstance(source, Mapping) else _read(source, role, names)
        return {
            str(key): _shorten(str(text))
            for key, text in rows
            if str(key) in names and text is not None
        }

    def label(self, role: str, ids: Iterable[Any]) -> dict[str, str]:
        """Return each id with its text."""
        ids = [*ids]
        texts = self.find(role, ids)
        return {str(x): f"{x}: {texts[str(x)]}" if str(x) in texts else str(x) for x in ids}


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1].rstrip()}…"


def _read(source: Any, role: str, names: set[str]) -> list[tuple[str, str]]:
    """Read the texts of these ids from a table."""
    label = f"texts[{role!r}]"
    with open_session(None, source) as session:
        table = session.table(source, label)
        columns = [*table.columns]
        if len(columns) < 2:
            raise RankqlError(f"{label} has one column. Expected a column of ids and one of texts.")
        key = table.find(role) or columns[0]
        rest = [name for name in columns if name != key]
        lower = {name.lower(): name for name in rest}
        text = next((lower[name] for name in _COLUMNS if name in lower), rest[0])
        session.con.execute(
            f"SELECT CAST({quote(key)} AS VARCHAR) AS id, CAST({quote(text)} AS VARCHAR) "
            f"FROM {table.sql} WHERE id IN (SELECT unnest($1))", [[*names]]
        )  # fmt: skip
        rows: list[tuple[str, str]] = session.con.fetchall()
        return rows
