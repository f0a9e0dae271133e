"""What opens what, and when it is imported: the one file that knows core and extras.

Each door is a cheap test of what core has at hand, and the function behind it, whose module is
imported if the test holds. `FUNCTIONS` are those that core calls where it has decided itself. A
new format, or a feature of `evaluate`, is a line here and a function in a file of its own.
`core.base.doors` reads both.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_OPEN, _LISTS = "shapes.open", (Mapping, list, tuple, set, frozenset)

DOORS: dict[str, Sequence[tuple[Callable[..., Any], str]]] = {
    # What is no table with columns, by its type or the format of its file: (session, source).
    "source": (
        (lambda x: isinstance(x.data, Mapping), f"{_OPEN}.shapes:open_dict"),
        (lambda x: isinstance(x.data, list | tuple) or hasattr(x.data, "tolist"),
         f"{_OPEN}.shapes:open_list"),
        (lambda x: x.name and x.format == "json", f"{_OPEN}.json_files:open_json"),
        (lambda x: x.name and x.format == "yaml", f"{_OPEN}.json_files:open_yaml"),
        (lambda x: x.name and x.format == "text", f"{_OPEN}.text_files:open_text"),
    ),
    # One id per query in place of judgments: (run, qrels), both or None.
    "truths": (
        (lambda _, x: (hasattr(x, "shape") and not hasattr(x, "columns"))
         or (isinstance(x, list | tuple) and isinstance(x[:1] and x[0], str | int | list))
         or (isinstance(x, dict) and type(next(iter(x.values()), None)) is int),
         f"{_OPEN}.truths:pair_truths"),
    ),
    # Columns that are folded or unpacked before they have roles: (table).
    "columns": (
        (lambda x: (x.label == "qrels" or x.label[:3] == "run")
         and any(name[-1:].isdigit() for name in x.columns), f"{_OPEN}.wide_columns:fold_columns"),
        (lambda x: x.label[:3] == "run" and any(y[:7] == "STRUCT(" for y in x.columns.values()),
         f"{_OPEN}.shapes:open_hits"),
        (lambda x: x.label[:3] != "run" and any(y.endswith(".responses") for y in x.columns),
         f"{_OPEN}.label_tools:open_responses"),
    ),
    # Columns without a role, or with one that is not as it came: (session, inputs, named).
    "doubts": (
        (lambda x: not (x.runs and all(y.is_accounted and not y.collections for y in x.tables)),
         "shapes.doubts.account:account_for"),
    ),
    # What options of `evaluate` require: (request).
    "requirements": (
        (lambda x: x.interval == "anytime" or x.time is not None, "features.anytime:require_order"),
        (lambda x: x.judge is not None or x.judge_rel is not None, "features.judge:require_judge"),
    ),
    # Several evaluations in one: (request, evaluate), a result or None.
    "evaluation": (
        (lambda x: isinstance(x.run, _LISTS) and isinstance(x.qrels, _LISTS),
         "features.collections:evaluate_collections"),
    ),
    # What leaves out rankings, before metrics are known, and what leaves out items that do not
    # count as shown: (session, inputs, request).
    "rankings": (
        (lambda _, x: bool(x.rules.ignore_identical_ids), "features.filters:drop_identical"),
        (lambda _, x: x.rules.collapse is not None, "features.filters:collapse_chunks"),
        (lambda _, x: x.rules.span is not None, "features.spans.covered:place_spans"),
    ),
    "items": (
        (lambda x, _: x.unjudged_queries == "count", "features.filters:count_unjudged"),
        (lambda _, x: bool(x.seen), "features.filters:drop_seen"),
        (lambda _, x: x.min_score is not None, "features.filters:keep_scores"),
    ),
    # Checks of judgments in which all items have one grade, by the evidence.
    "checks of one grade": (
        (lambda x: any(y.has_one_grade and y.unread for y in x.inputs.judging),
         "shapes.doubts.unread_grades:CHECKS"),
    ),
    # Checks of judged items that may be words, by the evidence.
    "checks of words": (
        (lambda x: x.has_words, "shapes.doubts.no_answers:CHECKS"),
    ),
    # Checks of ratings, by the evidence.
    "checks of ratings": (
        (lambda x: x.has_ratings, "shapes.doubts.sentinels:CHECKS"),
    ),
    # Checks of grades of -1, by the evidence.
    "checks of padding": (
        (lambda x: x.has_padding, "shapes.doubts.sentinels:PADDING"),
    ),
    # Checks of the items that are shown, and of relevant ones, by the evidence.
    "checks of shown items": (
        (lambda x: x.reads_beyond, "features.training_checks:SHOWN"),
    ),
    "checks of relevant items": (
        (lambda x: x.reads_beyond, "features.training_checks:JUDGED"),
    ),
    # What changes or refuses a result: (request, result).
    "results": (
        (lambda x: x.judge is not None, "features.judge:correct_means"),
        (lambda x: x.interval == "anytime", "features.anytime:require_random"),
    ),
}  # fmt: skip

FUNCTIONS = {
    # Of foreign shapes.
    "are several runs": f"{_OPEN}.shapes:has_several_runs",
    "JSON runs": f"{_OPEN}.json_files:several_runs",
    "column of objects": f"{_OPEN}.plain:read_column",
    "unpack": "shapes.unpack.rows:make_tidy",
    "answer": "shapes.ask.answers:answered",
    "offer": "shapes.ask.answers:offer_calls",
    "suggest query": "shapes.choose.choice:suggest_query",
    "look at ids": "shapes.doubts.spelled_ids:look_at_ids",
    "describe repair": "shapes.doubts.spelled_ids:describe_repair",
    # Of training and the catalogue.
    "split": "features.training:split_log",
    "shown items": "features.training:read_beyond",
    "require sources": "features.catalogue:require_sources",
    "add training": "features.catalogue:add_training",
    "join items": "features.catalogue:join_items",
    "count seen": "features.catalogue:count_seen",
    "catalogue values": "features.catalogue:add_catalogue",
    "catalogue query": "features.catalogue:write_catalogue_query",
    # Of spans.
    "require spans": "features.spans.ends:require_spans",
    "require metrics": "features.spans.ends:require_span_metrics",
    "read ends": "features.spans.ends:read_ends",
    # Of means that are watched.
    "require one mean": "features.anytime:require_one_mean",
    "sort by arrival": "features.anytime:sort_by_arrival",
    "describe anytime": "features.anytime:describe_anytime",
    # Of manifests.
    "record tables": "features.table_hashes:record_tables",
    "hash function": "features.table_hashes:hash_function",
    "list values": "features.table_hashes:list_values",
}
