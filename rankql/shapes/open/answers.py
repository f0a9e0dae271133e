"""Answers of search engines: where their hits are, and requests and answers of _rank_eval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import polars as pl

from rankql.core.base import column_names
from rankql.core.base.column_names import RELEVANT, RETRIEVED, ROLES, find_name, list_side, squash
from rankql.core.base.errors import BY_HAND
from rankql.shapes.open import plain
from rankql.shapes.open.plain import DICTS

# The names of columns: an object with several of them is a row, or a column of pandas.
NAMES = {*column_names.COLUMN_NAMES, *map(squash, (*RETRIEVED, *RELEVANT))}
QUERIES = {squash(name) for name in ROLES["query"]}
# What the key of a query may be called in an answer.
_QUERY = (*column_names.QUESTIONS, "id")
# The rows of a shape, and other fields of their table.
Rows: TypeAlias = tuple[pl.DataFrame, dict[str, Any]]
_Hit: TypeAlias = tuple[Any, int, Mapping[str, Any], Any]

# Where engines answer their hits, and a field of a hit without which it may be a list of rows.
HITS = (
    (("hits", "hits"), ""),  # OpenSearch, Elasticsearch
    (("hits",), "document"),  # Typesense
    (("points",), "id"),  # Qdrant
    (("result", "points"), ""),
    (("matches",), "id"),  # Pinecone
    (("response", "docs"), ""),  # Solr
    (("root", "children"), ""),  # Vespa
    (("retrievalResults",), "content"),  # Bedrock
    (("value",), "@search.score"),  # Azure
)
OF_ANSWERS = {"responses", "error", "ids", *(path[0] for path, _ in HITS)}
# The id and the score of a hit: the first of these that it has.
_IDS = ("_id", "id", "document.id", "location.s3Location.uri")
_SCORES = ("_score", "score", "relevance", "text_match")


def hint_of(label: str) -> str:
    """What to pass as the run, or as the judgments."""
    if label == "qrels":
        hint = "Pass {query: {item: grade}}, or {query: [relevant items]}"
    else:
        hint = "Pass {query: {item: score}}, {query: [items in order]}, or {name: run} for several "
        hint += "systems"
    return f"{hint}. See {BY_HAND('loop')}"


def _hits(rows: Iterable[_Hit], label: str) -> Rows:
    """Rows of queries, places, hits, and their scores, or grades if they have no place."""
    if not (rows := [*rows]):
        raise ValueError("no query has an item. Check what wrote it")
    for *_, number in rows:
        if not isinstance(number, int | float | None):
            raise ValueError(f"{number!r} is not a number. Correct it")
    ranked, hint = rows[0][1] > 0, hint_of(label)
    places = {"pos": [place for _, place, *_ in rows]} if ranked else {}
    queries, _, hits, numbers = map(list, zip(*rows, strict=True))
    frame = pl.DataFrame(
        {
            "query": plain.id_column(queries, label, "query", hint),
            "item": plain.id_column([_field(hit, _IDS) for hit in hits], label, "item", hint),
            **places,
            "score" if ranked else "rel": pl.Series(numbers, dtype=pl.Float64),
            "_index": [hit.get("_index") for hit in hits],
        }
    )
    return frame, {"origins": {"pos": "order of the hits"} if ranked else {}}


def rated_requests(objects: Sequence[Any], label: str) -> Rows:
    """Its ratings, which are judgments."""
    rated = (
        (request["id"], 0, rating, rating.get("rating"))
        for request in objects[0]["requests"]
        for rating in request.get("ratings", ())
    )
    return _hits(rated, label)


def rated_hits(objects: Sequence[Any], label: str) -> Rows:
    """Its hits. Their ratings are not all there are."""
    for query in objects[0].get("failures") or ():
        raise ValueError(f"the search of {query} failed. Repeat it")
    ranked = (
        (query, place, hit["hit"], hit["hit"].get("_score"))
        for query, details in objects[0]["details"].items()
        for place, hit in enumerate(details["hits"], 1)
    )
    return _hits(ranked, label)


def read_answers(objects: Sequence[Any], label: str) -> Rows:
    """The hits of searches. One that failed or is incomplete is an error."""
    parts, what = objects, ""
    if "responses" in objects[0]:
        parts, what = [part for each in objects for part in each["responses"]], plain.IN_RESPONSES
    if len(parts) == 1 and len(ids := parts[0].get("ids", ())) > 1 and isinstance(ids[0], list):
        parts = [{"query": i, "ids": [ids]} for i, ids in enumerate(ids)]
    key = None if what else find_name(list(dict.fromkeys(chain(*parts))), _QUERY)
    what = what or ("" if key else plain.ROW_NUMBER)
    queries = [part.get(key) if key else place for place, part in enumerate(parts)]
    for query, part in zip(queries, parts, strict=True):
        failed = part.get("_shards", {}).get("failed")
        if part.get("error") is not None or part.get("timed_out") or failed:
            name = "a search without query" if query is None else f"the search of query {query}"
            raise ValueError(f"{name} failed or is incomplete. Repeat it")
    ranked = (
        (query, place, hit, _field(hit, _SCORES))
        for query, part in zip(queries, parts, strict=True)
        for place, hit in enumerate(_hits_of(part), 1)
    )
    frame, fields = _hits(ranked, label)
    return frame, {"origins": fields["origins"] | ({"query": what} if what else {})}


def are_answers(keys: set[tuple[str, ...]]) -> bool:
    """Are they the keys of answers, and not of rows with relevant ids?"""
    if any(list_side(name) == "qrels" for name, *more in keys if not more):
        return False
    own = {(*path, field) if field else path for path, field in HITS}
    own |= {("responses", *path) for path in own}
    own |= {("responses", "error"), ("error", "root_cause")}
    return not keys.isdisjoint(own) or (
        {("ids",), ("distances",)} <= keys  # Chroma
        and NAMES & {squash(name) for name, *_ in keys} <= QUERIES
    )


def _hits_of(answer: Mapping[str, Any]) -> Sequence[Any]:
    """The hits of one query."""
    if "ids" in answer:
        lists = (x if isinstance(x, list) else [x] for x in answer["ids"])
        return [{"id": x} for x in chain.from_iterable(lists)]
    if (hits := find_hits(answer)) is None:
        raise LookupError("'hits'")
    return [*map(plain.unwrap, hits)]


def find_hits(answer: Mapping[str, Any]) -> list[Any] | None:
    """The list of hits of an answer. That of Vespa has none if nothing was found."""
    if _field(answer, ["root.fields.totalCount"]) == 0:
        return []
    lists = (_field(answer, [".".join(path)]) for path, _ in HITS)
    return next((x for x in lists if isinstance(x, list)), None)


def _field(value: Any, names: Sequence[str]) -> Any:
    """The value of the first of these dotted names."""
    for name in names:
        part = value
        for key in name.split("."):
            part = part.get(key) if isinstance(part, DICTS) else None
        if part is not None:
            return part
    return None
