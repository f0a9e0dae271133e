"""The names of columns that are recognised, and how names are compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from rankql.core.base import nouns
from rankql.core.base.errors import Question, RankqlError
from rankql.core.base.nouns import as_id, ids_of, with_ids

# Ids of queries, their texts, topics, sessions, users and groups: the first that a table has is its
# key. Names in one line have equal rank.
KEYS = (
    ("query_id", "qid", "q_id", "question_id", "prompt_id"),
    (*nouns.QUESTIONS, "user_input"),
    ("query_text",),
    ("topic", "topic_id"),
    ("session", "session_id"),
    (*with_ids(nouns.USERS), "uid"),
    ("group", "group_id"),  # in learning to rank
    (*ids_of(nouns.REQUESTS), *nouns.REQUESTS[:-1]),
)
# Names of items that only a word of identity makes one.
_ITEM_IDS = ids_of(nouns.OTHER_ITEMS)
# Those that may be of a row, and are sought only if nothing else is.
REQUESTS = KEYS[-1]
# Names of those whose queries belong together, squashed. Some are never names of queries.
USERS = {
    *("session", "sessionid", "user", "uid", "visitor", "customer", "seller"),
    *(f"{noun}id" for noun in (*nouns.USERS, "device", "seller")),
}
# The text columns that rel={...} maps to grades; columns called like a grade are mapped too.
EVENTS = ("event", "action", "event_type", "interaction", "feedback")
# Who gave a label.
ANNOTATORS = ("annotator", "rater", "judge", "labeler", "assessor", "worker")
# LanceDB's score after reranking, which orders the rows although others stand beside it.
RERANKED = "_relevance_score"
# The roles of columns, each with the names that are recognised, the likeliest first.
ROLES = {
    # Next to an id, `query` is its text. In PyTerrier, `docid` is an internal number.
    "query": tuple(name for names in KEYS for name in names),
    "item": (
        *("item", "item_id", "doc", "doc_id", "docno", "docid", "document", "document_id"),
        *("product", "product_id", "iid", "corpus_id", "passage_id", "pid", "chunk_id"),
        *("movie_id", "book_id", "track_id", "article_id", "sku", "asin"),
        *("passage", "chunk", "movie", "book", "track"),
    ),
    "rel": ("rel", "relevance", "grade", "label", "judgment", "judgement", "rating"),
    "pos": ("pos", "position", "rank", "doc_position"),
    "score": (RERANKED, "score", "similarity", "sim", "prediction", "pred", "distance", "dist"),
}
# Names that are recognised if no column has one of the above. Positions also need a table without a
# score.
WEAKER = {
    "query": ("input", "search_term", "search_query", "user_query", "keyword", "q"),
    "rel": ("is_relevant", "human_label", "relevant"),
    "pos": ("rn", "rnk", "row_number", "ranking", "slot"),
    "score": ("rerank_score", "bm25", "probability"),
}
_IDS = ("_ids", "_doc_ids", "_document_ids", "_context_ids", "_chunk_ids", "_node_ids", "_item_ids")
_ENDS = (*_IDS, "", "_docs", "_documents", "_chunks", "_nodes", "_items")
# The names of lists that are recognised, the likeliest first.
RETRIEVED = [name + end for name in ("retrieved", "recommended", "ranked") for end in _ENDS]
RELEVANT = [
    *(name + end for name in ("relevant", "expected", "reference", "ground_truth", "gold")
      for end in _ENDS),
    "retrieval_gt",  # of AutoRAG
]  # fmt: skip
# Names of lists, as Kaggle has them, that are scores if they are numbers.
PREDICTED = ("prediction", "predictions")
# Names of columns that are lists of ids if no column has one of the above, by their side.
WEAKER_LISTS = {
    "run": ("recommendations", "recs", "top_k", "ranking", "items", "item_ids"),
    "qrels": ("purchased", "items", "item_ids"),
}
# Names of text that is an answer, and not ids, if another column has relevant ids.
ANSWERS = ("ground_truth", "expected", "reference", "answer")
# Names of lists with the grades of relevant ids and the scores of retrieved ids, in another column.
LIST_GRADES = ("relevance_grades", "graded_relevance", "relevance_scores")
LIST_SCORES = ("score", "scores", "distances", "relevance_scores")
# Names of grades in retrieved objects, and of lists of them.
FLAGS = ("has_answer", "relevant", "is_relevant")
GRADE_LISTS = ("label", "labels", "relevance", "rel", "grades", "is_relevant", "gains")
# Words of the names of other lists, by their side.
_LIST_WORDS = {
    "run": {
        *("retrieved", "retrieval", "recommended", "ranked", "hits", "results", "result"),
        *("predicted", "prediction", "predictions", "candidates", "output", "outputs", "ctxs"),
        *("reranked", "rec", "recs"),
    },
    "qrels": {
        *("relevant", "expected", "reference", "truth", "gold", "golden", "correct", "answer"),
        *("positive", "positives", "target", "targets", "actual", "label", "labels", "qrels"),
        *("ratings", "judgments", "judgements", "acceptable", "accepted", "supporting", "true"),
        "rui",  # r_ui, the true rating in Surprise
    },
}
# The column of the lists of subtopics, and names of columns with one subtopic per judgment.
SUBTOPICS, SUBTOPIC_NAMES = "subtopics", ("subtopic", "intent", "iteration")
# The names of a question or its id; next to them, `topic` or `user` is an attribute.
QUESTIONS = (*KEYS[0], *KEYS[1])
# The names of times, which are no grades.
TIMES = ("time", "ts", "timestamp", "date", "day", "event_time", "created_at")
# What files of data frames call the numbers of their rows, which are no data.
ROW_NUMBERS = ("column0", "column00", "unnamed: 0", "__index_level_0__")
# The columns that dlt adds, with the roles that some have, and the details of argilla's labels.
_ADDED_ROLES = {"query": "_dlt_parent_id", "pos": "_dlt_list_idx", "score": "_dlt_list_idx"}
_DETAIL = re.compile(r"(.+\.(?:suggestion|responses))\.(?:score|agent|status|users)")
# The names of what says where or what an item is, which are no grades.
LOCATORS = (
    *("page", "lang", "language", "source", "title", "content", "text", "url", "file", "line"),
    *("start", "end", "offset", "index", "section", "type", "category", "version", "name"),
    *("author", "year", *ROW_NUMBERS),
)
# Names of the two ends of a place, squashed; the second may be a length.
ENDS = (
    *(("start", "end"), ("charstart", "charend"), ("startchar", "endchar"), ("begin", "end")),
    *(("firstline", "lastline"), ("startline", "endline"), ("offset", "length")),
    *(("startindex", "endindex"), ("startcharidx", "endcharidx")),
)
# Squashed names of places in a document, which may be part of the key of an item.
KEY_PLACES = {
    *("page", "pagenumber", "chunk", "chunkid", "chunkindex", "line", "section", "paragraph"),
    *("clause", "span", *(x for pair in ENDS for x in pair if x != "length")),
}
# Those of what has places, if it is called like no item.
PARENTS = {"source", "url", "file", "filename", "path", "filepath"}
# The names of systems in a table of values per query, and in one of rankings.
SYSTEMS = ("system", "variant")
RANKERS = ("system", "run", "run_id", "ranker", "algorithm")
RANKED_SYSTEMS = (*RANKERS, *(x for x in nouns.SYSTEMS if x not in RANKERS))
# The columns of a log that is split, and how they call its parts.
SPLITS = ("split", "fold", "is_test")
PARTS = {"test": "test", "testing": "test", "train": "train", "training": "train"}
# The names of pages of results, which are no rankings of their own.
PAGES = ("page", "page_number", "page_num", "page_no")
# Names of scores of which the lowest is best, unless the caller says otherwise, and the highest.
DISTANCES, _SIMILARITIES = ("distance", "distances", "dist"), ("similarity", "sim", "score")
# What may stand before them: how vectors are compared. Alone they say no direction.
MEASURES = ("l2", "cosine", "euclidean", "manhattan", "hamming", "vector")
_MEASURED = re.compile(rf"(?:{'|'.join(MEASURES)})({'|'.join(DISTANCES + _SIMILARITIES)})")


@cache
def squash(name: str) -> str:
    """A name without case, '-', '_', blanks and RecBole's type, as names are compared."""
    return re.sub(r"[-_\s]|:(token|float)(_seq)?$", "", name.lower())


@cache
def core_of(name: str) -> str:
    """A squashed name without what is before its object and its measure, and an id for any other
    word of identity: hit.l2_distance is distance, doc_uuid docid.
    """
    tail = squash(name.rpartition(".")[2])
    measured = _MEASURED.fullmatch(tail)
    return measured[1] if measured else as_id(tail)


# All recognised names.
COLUMN_NAMES = {
    *(squash(name) for names in ROLES.values() for name in names),
    *map(squash, _ITEM_IDS),
}


def names_of(*names: str | Iterable[str]) -> list[str]:
    """The names of these: each a key of `CALLED`, or names."""
    return [y for x in names for y in (CALLED[x] if isinstance(x, str) else x)]


def find_name(columns: Iterable[str], *called: str | Iterable[str]) -> str | None:
    """The column with the first of these names: spelled exactly, else in another way, else without
    a measure.
    """
    columns, names = list(columns), names_of(*called)
    for spell in (str.lower, squash, core_of):
        spelled = {spell(column): column for column in reversed(columns)}
        for name in names:
            if spell(name) in spelled:
                several = spell is core_of and len(spelled) < len(columns)
                alike = [x for x in columns if several and spell(x) == spell(name)]
                return None if len(alike) > 1 else spelled[spell(name)]
    return None


def find_ends(columns: Iterable[str], *named: Sequence[str]) -> tuple[str, ...]:
    """The columns of the two ends of a place: those of these names, or of one known pair; () if
    there are none.
    """
    columns = [*columns][::-1]
    spelled = {squash(x.rpartition(".")[2]): x for x in columns} | {squash(x): x for x in columns}
    pairs = ([*map(squash, pair)] for pair in (*named, *ENDS))
    return next((tuple(map(spelled.__getitem__, x)) for x in pairs if {*x} <= {*spelled}), ())


def describe_span(*tables: Iterable[str]) -> str:
    """What to pass to count what chunks cover, if all tables have the ends of places; else ""."""
    ends = [find_ends(columns) for columns in tables]
    span = ends[0] if len({*ends}) == 1 else ends
    text = f"To count what chunks cover together, pass span={span!r} and metrics such as SpanR@5"
    return text if all(ends) else ""


def is_called(column: str, *names: str | Iterable[str]) -> bool:
    """Has a column one of these names, spelled in any way?"""
    return core_of(column) in map(core_of, names_of(*names))


@lru_cache(10_000)
def says(name: str, *meanings: str) -> bool:
    """Does a name say one of these: see `SAYS` and `CALLED`?"""
    return any(SAYS[x](name) if x in SAYS else is_called(name, x) for x in meanings)


def is_added(name: str, columns: Iterable[str], role: str = "") -> bool:
    """Is it one of the columns that a tool adds, which cannot have this role?"""
    detail = _DETAIL.fullmatch(name)
    added = name.startswith("_dlt_") or (detail is not None and detail[1] in columns)
    return added and _ADDED_ROLES.get(role) != name


def words_in_order(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return re.split(r"[\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def words_of(name: str) -> set[str]:
    """The different words of a name, in lower case."""
    return {*words_in_order(name)}


# Words of names whose ids are the reverse of what the name says, or computed from both lists.
AGAINST = {
    *("not", "non", "un", "ir", "irrelevant", "negative", "negatives", "unrelated"),
    *("missed", "missing", "misses", "matched", "reciprocal"),
}


# Words of ids that a ranking must not have, and of others that are not relevant as such.
EXCLUDED = {"excluded", "exclude", "blocked", "banned", "own", "seen"}
NOT_RELEVANT = (
    AGAINST
    | EXCLUDED
    | {
        *("forbidden", "hard", "distractor", "distractors", "allowed", "eligible", "shown"),
        *("candidates", "candidate"),
    }
)


def list_side(name: str) -> str:
    """Whether the words of a name say that its ids are those of a run or of the qrels; or "".

    The first word decides: expected_results are of the qrels, predicted_labels of the run.
    """
    words = [*words_in_order(name), squash(name)]
    sides = (side for word in words for side, known in _LIST_WORDS.items() if word in known)
    return next(sides, "") if AGAINST.isdisjoint(words) else ""


# Names of ids that say no role, and the rank of the first name that counts only if no better one
# is there, except next to lists.
PLAIN_IDS = ("id", "key", "uuid", "guid", "url", "uri", "task_id", "example_id")
WEAK = {"query": len(KEYS) - 1, "item": 2 * len(ROLES["item"]) + 1}
# Those of items if nothing else can be one.
_SYSTEM_ITEMS = ids_of(("model", "variant"))
_ALONE = (nouns.OTHER_ITEMS, _SYSTEM_ITEMS)
_RANKED: dict[str, Sequence[Sequence[str]]] = {
    "query": [*KEYS, *((x,) for x in WEAKER["query"]), PLAIN_IDS],
    "item": [
        *[()] * len(ROLES["item"]),
        *((x,) for x in ROLES["item"]),
        *(_ITEM_IDS, PLAIN_IDS, *_ALONE),
    ],
}


@cache
def rank_of(role: str, name: str) -> int | None:
    """The place of a name among the known ones of the query or the item; 0 is the likeliest."""
    tail = name.rpartition(".")[2]
    if role == "item" and tail.lower() in ROLES["item"]:  # spelled exactly
        return ROLES["item"].index(tail.lower())
    named = (n for n, names in enumerate(_RANKED[role]) if core_of(tail) in map(squash, names))
    return next(named, None)


_LIKE_ID = {"id", "ids", "uuid", "guid", "key", "url", "uri"}
# Words of the names of numbers that are a part of the key of a query, as others hardly are.
_KEY_PARTS = {
    *("year", "month", "week", "day", "date", "hour", "time", "turn", "step", "round", "session"),
    *("iteration", "fold", "run", "seed", "trial", "attempt", "page", "block", "slot"),
}


def names_part_of_key(name: str, kind: str) -> bool:
    """May a column be a part of the key of a query? Of numbers, the name must say so."""
    words = words_of(name.rpartition(".")[2])
    known = not words.isdisjoint(_LIKE_ID | _KEY_PARTS) or core_of(name) in USERS
    is_integer = kind.endswith(("INT", "INTEGER"))
    return known or is_called(name, (*ROLES["query"], *RANKED_SYSTEMS)) or not is_integer


# Words of numbers of which the lowest may be the best: what is far, costs, or has the sign changed.
_LOW = {
    *(*DISTANCES, "l2", "euclidean", "manhattan", "hamming", "loss", "cost", "error"),
    *("nll", "perplexity", "neg", "negative"),
}


# Words of names of positions, which may have gaps.
PLACES = {"rank", "pos", "position", "slot", "place"}


# Words before a rank that is not the place of the first hit.
_OTHER_RANKS = {
    *("reciprocal", "inverse", "page", "percentile", "percent", "quantile", "normalized"),
    *("mean", "avg", "average", "median", "expected"),
}


# Words of numbers that are grades, that are sums of money, times or sizes, and that are places or
# years.
_GRADES = {"rel", "relevance", "gain", "grade", "rating", "judgment", "judgement", "label", "qrel"}
_AMOUNTS = {
    *("amount", "price", "revenue", "sale", "cost", "umsatz", "preis", "gmv", "spend", "profit"),
    *("usd", "eur", "gbp", "cent", "quantity", "qty", "second", "sec", "minute", "ms", "duration"),
    *("latency", "latencies", "elapsed", "dwell", "byte", "token", "length", "view"),
}
# Words of what is measured of an item, and orders nothing.
_MEASURES = {
    *("x", "y", "z", "lat", "lon", "lng", "latitude", "longitude", "age", "height", "width"),
    *("depth", "weight", "size", "stock", "price"),
}
_WHERE = {"index", "indexes", "indices", "idx", "offset", "line", "page", "year"}


def number_kind(name: str) -> str:
    """What a name says that its numbers are: grade, amount or place; or ""."""
    words = {y for x in words_of(name) for y in (x, x.removesuffix("s"))}
    kinds = {"grade": _GRADES, "amount": _AMOUNTS, "place": _WHERE}
    return next((x for x, known in kinds.items() if not words.isdisjoint(known)), "")


# Words of what a model says, alone or with those of an order; and words that need one of these.
_PREDICTED = {"predicted", "pred", "yhat", "proba", "probability", "logit"}
_MODELS = {"ranking", "model", "new", "final", "ltr", "rerank"}
_PLACED = {"rank", "position"}


# Words of what retrieved texts are, and of the parts of one. A page is either.
_WHOLE = {"doc", "article", "page", "file", "parent"}
_PART = {"page", "chunk", "passage", "node", "section", "span", "sentence", "child"}


@cache
def level_of(name: str) -> frozenset[str]:
    """The words of a name that say whether it has ids of documents or of their parts."""
    words = {x.removesuffix("s").replace("document", "doc") for x in words_of(name)}
    return frozenset(words & (_WHOLE | _PART))


def is_part(name: str, other: str) -> bool:
    """Has a name ids of parts of those of another: chunks of documents, spans of pages?"""
    parts, wholes = level_of(name), level_of(other)
    return bool(parts & _PART and wholes & _WHOLE) and parts.isdisjoint(wholes)


def _is_system(name: str) -> bool:
    noun = words_of(name.rpartition(".")[2]) - {*nouns.IDENTITY, *nouns.NUMBERING, "name"}
    is_system = len(noun) == 1 and noun.issubset(nouns.SYSTEMS)
    return is_system and not is_called(name, _SYSTEM_ITEMS)


def _is_prediction(name: str) -> bool:
    words = words_of(name) - {"y"}
    known = words.issubset(_PREDICTED | _MODELS | _PLACED | {"score"})
    return known and bool(words & _PREDICTED or (words & _MODELS and words & {*_PLACED, "score"}))


def _word(words: Iterable[str], *called: str, tail: bool = False) -> Callable[[str], bool]:
    """Has a name one of these words, or its last part, or is it one of `CALLED`?"""
    known = frozenset(words)

    def says_it(name: str) -> bool:
        name_or_tail = name.rpartition(".")[2] if tail else name
        return not known.isdisjoint(words_of(name_or_tail)) or is_called(name, *called)

    return says_it


_ORDINALS = {"ordinal", "tenant"}
_PROPERTIES = {
    *("section", "type", "types", "source", "lang", "language", "locale", "category", "split"),
    *("brand", "kind", "topic", "domain", "color", "colour", "size", "device", "country", "date"),
}
_OUTCOMES = {
    *("click", "clicks", "clicked", "purchased", "bought", "converted", "correct", "relevant"),
    *("liked", "useful"),
}
# The names of what a column may be, spelled in any way.
CALLED: Mapping[str, Collection[str]] = {
    **ROLES,
    **{f"weaker {role}": names for role, names in WEAKER.items()},
    **{f"{side} list": names for side, names in WEAKER_LISTS.items()},
    "retrieved": RETRIEVED, "relevant": RELEVANT, "predicted": PREDICTED, "answer": ANSWERS,
    "list": (*RETRIEVED, *RELEVANT, *PREDICTED),
    "grade list": LIST_GRADES, "score list": LIST_SCORES, "grades": GRADE_LISTS,
    "flag": FLAGS, "event": EVENTS, "annotator": ANNOTATORS, "time": TIMES, "split": SPLITS,
    "page": PAGES, "ranker": RANKERS, "ranked system": RANKED_SYSTEMS,
    "question": QUESTIONS, "request": REQUESTS, "plain id": PLAIN_IDS, "distance": DISTANCES,
    "subtopic": SUBTOPIC_NAMES, "row number": ROW_NUMBERS, "locator": LOCATORS,
    "user": USERS, "label": ("prediction", "pred"),
}  # fmt: skip
# What is next to ids and not a grade, squashed.
_BESIDE_IDS = KEY_PLACES | {"id", "iteration"}
_BESIDE_IDS |= {*map(squash, names_of("query", "item", TIMES, LOCATORS, RANKED_SYSTEMS, USERS))}
_counts = _word(_ORDINALS | {"label", "count", "level", "group", "number"}, tail=True)
# What a name says, in its words, those of its last part, or as one of `CALLED`.
SAYS: Mapping[str, Callable[[str], bool]] = {
    "id": _word(_LIKE_ID, tail=True),
    # A number of which the lowest is the best; what orders items, so that it is no id.
    "place": _word(PLACES),
    "order": _word(PLACES | {"score", "scores"}, "pos", "score"),
    "event count": _word({"clicks", "orders", "plays", "purchases", "listens"}),
    "measure": _word(_MEASURES, tail=True),
    # Numbers that may be equal by chance in few queries, as places and counts are.
    "small number": lambda x: number_kind(x.rpartition(".")[2]) == "place" or _counts(x),
    # A number that is a place, a tenant or an id, but not relevance_by_id; or next to grades.
    "no grade": lambda x: (
        number_kind(x) == "place"
        or (says(x, "id") and "by" not in words_of(x))
        or not _ORDINALS.isdisjoint(words_of(x))
    ),
    "beside grades": _word(PLACES | {"title", "text", "name", "latency", "url", "id"}),
    "no query": lambda x: says(x, "order") or number_kind(x) == "grade" or says(x, "time"),
    # The system that ranked: system_number, model_name, run_id.
    "system": _is_system,
    # The order of a model: predicted_score, y_pred, new_rank.
    "prediction": _is_prediction,
    # The rank of a first hit, as hit_rank is.
    "first rank": lambda x: (
        words_in_order(x.rpartition(".")[2])[-1] == "rank"
        and _OTHER_RANKS.isdisjoint(words_in_order(x.rpartition(".")[2]))
    ),
    # The lowest may be the best, although it is not called a distance.
    "two directions": lambda x: (
        not _LOW.isdisjoint(words_of(x)) and not is_called(x, DISTANCES, _SIMILARITIES)
    ),
    "against": _word(AGAINST),
    "not relevant": _word(NOT_RELEVANT),
    "excluded": _word(EXCLUDED),
    # A place in a document, which may be part of the key of an item.
    "part": lambda x: squash(x) in KEY_PLACES,
    "parent": lambda x: squash(x) in PARENTS,
    "beside ids": lambda x: squash(x.rpartition(".")[2]) in _BESIDE_IDS,
    # A number that orders items; one of which the lowest comes first.
    "ordering": _word(
        ("score", "scores", "similarity", "similarities", "distance", "distances", "rank"),
        *("score", "pos"),
        tail=True,
    ),
    "lowest first": _word((*DISTANCES, *ROLES["pos"], "ranks"), "distance", tail=True),
    # A property of items, which is no grade.
    "property": _word(_PROPERTIES),
    # Whether an item was good.
    "outcome": _word(_OUTCOMES, tail=True),
}


def recognise(role: str, columns: Sequence[str], argument: str = "", place: str = "") -> str | None:
    """The column of a role by its name. Of two of equal rank, an error asks for one."""
    weaker = WEAKER.get(role, ())
    if role != "query" and (name := find_name(columns, ROLES.get(role, TIMES))):
        return name
    for names in {"query": KEYS, "item": [_ITEM_IDS]}.get(role, ()):
        if name := _only_one(role, columns, names, argument, place):
            return name
    return find_name(columns, weaker)


def recognise_item_alone(columns: Sequence[str], place: str) -> str | None:
    """The column of items where nothing has a better name: hotel, page, model_id."""
    if any(is_called(column, PLAIN_IDS) for column in columns):
        return None
    found = (_only_one("item", columns, names, place=place) for names in _ALONE)
    return next(filter(None, found), None)


def _only_one(
    role: str, columns: Sequence[str], names: Iterable[str], argument: str = "", place: str = ""
) -> str | None:
    """The column with one of these names; an error asks which of several."""
    known = [column for column in columns if core_of(column) in map(squash, names)]
    if len(known) > 1:
        calls: list[dict[str, Any]] = [{argument or role: name} for name in known]
        calls += [{argument: known}] if argument == "by" else []
        raise Question(f"{' and '.join(known)}{place} may both be the {role}", calls)
    return known[0] if known else None


_WORDS = {"rel": "grade", "pos": "position", "moment": "time"}
# Names that say how a column may be called, of roles that have many.
_SUCH_AS = {
    "query": ("query_id", "qid", "query", "question", "topic", "user_id", "visitor_id", "group"),
    "item": ("item", "item_id", "doc_id", "docno", "document", "product_id", "sku", "movie_id"),
}


# What to do about a text file without a header.
ADD_HEADER = (
    "add a header, or name the columns: columns=['query', 'item', 'score'], of judgments 'rel'"
)


def missing_column(
    role: str, place: str, columns: Iterable[str], argument: str = "", hint: str = ""
) -> Question:
    """The question about a role without a column, in a place such as ' in qrels'."""
    return Question(
        missing_text(role, place),
        others=[hint] if hint else [],
        blanks={argument or role: "..."},
        known=known_names(role),
        found=columns,
    )


def missing_text(role: str, place: str) -> str:
    """What is wrong if no column has a role."""
    return f"No {_WORDS.get(role, role)} column{place}"


def known_names(role: str) -> list[str]:
    """The names of a role that an error shows."""
    return [x for x in _SUCH_AS.get(role, ROLES.get(role, TIMES)) if x != RERANKED]


class Named(str):
    """The name of an SQL expression, as in "timestamp::date AS day"."""

    sql: str


def name_expression(text: str) -> str:
    """The name after AS, or the text itself."""
    match = re.fullmatch(r"(?is)(.+?)\s+AS\s+(\w+)", text)
    if not match or isinstance(text, Named):
        return text
    name = Named(match[2])
    name.sql = match[1]
    return name


def find_key(columns: Sequence[str]) -> str:
    """The column that identifies the ranking; an error if there is none."""
    if (key := recognise("query", columns, "by")) is None:
        alone = "by=['...', '...'] for a key of two columns, or by=None if it is one ranking"
        raise missing_column("query", "", columns, "by", alone)
    return key


def recognise_defaults(
    defaults: Mapping[str, Any],
    given: Iterable[str],
    columns: Sequence[str],
    fill: Callable[[Sequence[str], Sequence[str]], Mapping[str, str]] = lambda *_: {},
) -> dict[str, str]:
    """The columns of arguments that are left out, if the table has no column of their default.

    fill: the columns of arguments among those that are left, as far as more than names says it.
    """
    found = dict[str, str]()
    lacks = [x for x, default in defaults.items() if x not in given and isinstance(default, str)]
    lacks = [x for x in lacks if defaults[x] not in columns]
    for role in [x for x in lacks if x in ROLES or x == "moment"]:
        if (column := recognise(role, columns)) is None:
            known = {x: recognise(x, columns) for x in lacks if x in {*ROLES, "moment", "click"}}
            missing = [x for x, name in known.items() if name is None]
            taken = {*known.values(), *map(str, defaults.values())}
            filled = fill(missing, [x for x in columns if x not in taken])
            calls = [{x: filled.get(x, "...") for x in missing}]
            if {"query", "item"} <= {*filled}:  # which no type tells apart
                calls += [{**calls[0], "query": filled["item"], "item": filled["query"]}]
            asked = missing_column(role, "", columns)
            if filled:
                asked.calls += calls
            asked.blanks = calls[0]
            raise asked
        if role == "score" and says(column, "distance"):
            raise RankqlError(
                f"{column} may be the score, but its lowest value is the best, and here the "
                f"highest is. Pass score=-pl.col({column!r})"
            )
        found[role] = column
    return found
