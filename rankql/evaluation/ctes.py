"""The CTEs of the rankings: rows of runs, judgments and attributes, ranked, joined and cut.

Rankings by score are cut at the k-th score before they are joined with the judgments. For nDCG@10
this takes as long as 1.25 plain joins, or less in large runs: see `judged_rank_ctes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rankql.evaluation.metric_columns import judged_rows, last_position, needs_scores
from rankql.evaluation.packed import Top
from rankql.evaluation.steps import BEST, CANDIDATES, CUTS, RANKS, TOP, select_from
from rankql.macros import JUDGED_ROWS, MISSING, TIED, literal, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.grades import SUBTOPICS
from rankql.sources.inputs import Inputs

# The order of equal scores: items descending by the bytes of their text, as in trec_eval.
BY_ITEM = "encode(CAST(item AS VARCHAR)) DESC"
# The order of tied items: by the bytes of the item, by row, or by their gain.
TIE_ORDERS = {
    "item": BY_ITEM,
    "order": "line ASC",
    "best": f"coalesce(rel, 0) DESC, rel IS NULL ASC, {BY_ITEM}",
    "worst": f"coalesce(rel, 0) ASC, rel IS NULL DESC, {BY_ITEM}",
    # For metrics that read only whether items are judged, whatever the grade.
    "best judged": f"rel IS NULL ASC, {BY_ITEM}",
    "worst judged": f"rel IS NULL DESC, {BY_ITEM}",
}
# How errors about duplicates begin.
DUPLICATES = "duplicates among the items"
# The rows of the run that are judged.
JUDGED = (
    "WHERE EXISTS (SELECT 1 FROM qrels "
    "WHERE qrels.query = run.query AND qrels.item = run.item AND qrels.rel IS NOT NULL)"
)


def ranking_ctes(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    rows: Rows,
    ranker: str = "rows",
    zeroes: bool = False,
) -> dict[str, str]:
    """The CTEs with the rows that count, their grades and positions.

    ranker, zeroes: those of the plan.
    """
    if ranker == "best":
        return {"ranked": select_from("run", ["*"])}
    if not ranks_before_join(inputs, conventions):
        queries = {} if inputs.qrels is None else _query_ctes(inputs, rows)
        return queries | _join_then_rank(inputs, conventions)
    k = last_position(metrics, conventions)
    keys, order = inputs.keys, TIE_ORDERS[conventions.ties]
    if ranker == "untied":
        assert k is not None
        cuts = top_score_cuts(keys, k, tied=True)
        top_rows = untied_rank_rows(keys, _judgments(inputs), judged_rows(rows), zeroes)
        return _query_ctes(inputs, rows, cuts, tied=True) | {"ranked": top_rows}
    if ranker == "judged":
        listed = "list_sort(list(score) FILTER (WHERE score IS NOT NULL), 'DESC', 'NULLS LAST')"
        cuts = select_from("run", [keys, f"{listed} AS best"], f"GROUP BY {keys}")
        judged = judged_rank_ctes(keys, _judgments(inputs), judged_rows(rows), order)
        return _query_ctes(inputs, rows, cuts) | judged
    cuts = ""
    if ranker == "top" and k is not None:
        cuts = top_score_cuts(keys, k, tied=False)
    elif inputs.scored and k is not None:
        cuts = select_from("run", [keys, f"max(score, {k})[-1] AS least"], f"GROUP BY {keys}")
    scores = needs_scores(metrics) and inputs.every("score")
    own = [*map(quote, inputs.own)]
    top, side = {}, "FULL" if rows == "all" else "LEFT"
    if ranker == "top" and k is not None:
        top = top_rank_ctes(keys, k, order, ["line"] if conventions.ties == "order" else [])
    elif inputs.scored:
        name = TOP if cuts else "numbered"
        top = {name: _top(keys, k, score_order(conventions.ties), own)}
    join = f"{_judgments(inputs)} {side} JOIN {[*top][-1] if top else 'run'} USING ({keys}, item)"
    rel = "rel"
    if zeroes:
        rel, place = "CASE WHEN retrieved THEN rel ELSE 0 END AS rel", "score" if top else "pos"
        items = f"SELECT {keys}, item, true AS retrieved FROM run WHERE {place} IS NOT NULL"
        join += f"\n    LEFT JOIN ({items}) USING ({keys}, item)"
    fields = [keys, "item", rel, "pos", *([original_score(inputs)] if scores else []), *own]
    fields += [SUBTOPICS] if inputs.subtopics else []
    ranked = select_from(join, fields, judged_rows(rows))
    queries = _query_ctes(inputs, rows, cuts, top=top if cuts else {})
    return queries | top | {"ranked": ranked}


def checks_top(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, ranker: str
) -> bool:
    """Does the query itself refuse an item that occurs twice in the first k?"""
    top = ranker in ("rows", "top") and inputs.scored and ranks_before_join(inputs, conventions)
    return top and last_position(metrics, conventions) is not None


def can_pack_lists(inputs: Inputs, conventions: Conventions) -> bool:
    """Can the tops of rankings be packed from lists of their best items?"""
    every_row = conventions.unjudged == "zero" and conventions.ties != "expected"
    return inputs.qrels is None and inputs.scored and every_row


def _query_ctes(
    inputs: Inputs,
    rows: Rows,
    cuts: str = "",
    tied: bool = False,
    top: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The CTEs with several systems, `cuts` and `top` if there are any, and the judged queries.

    Of every query and system they have the attributes and whether the run lacks it, with `tied`
    whether the scores in `cuts` are tied too. Items that occur twice in `top` are refused.
    """
    ctes: dict[str, str] = {}
    keys, rankings = inputs.keys, CUTS if cuts else "run"
    if inputs.many:
        names = inputs.systems or [name for name in inputs.runs if name is not None]
        exact = next(iter(inputs.runs.values())).exact
        ctes["systems"] = f"    SELECT unnest({literal(names)}){exact} AS system"
        if inputs.system is not None and not inputs.systems:
            ctes["systems"] = select_from("run", ["DISTINCT system"])
    if cuts:
        ctes[CUTS] = cuts
    ctes |= top or {}
    count = "count(*) FILTER (WHERE rel > 0)" if rows == "gain" else "count(rel)"
    judged = f"SELECT query, {count} AS {JUDGED_ROWS}{_any_values(inputs, 'qrels')} FROM qrels"
    missing = "retrieved IS NULL"
    if top:
        repeats = f"SELECT count(*) > count(DISTINCT hash({keys}, item)) FROM {TOP}"
        missing = f"CASE WHEN ({repeats}) THEN rankql_fail('{DUPLICATES}') ELSE {missing} END"
    distinct = f"SELECT DISTINCT {keys}, true AS retrieved FROM {rankings}"
    if tied:
        distinct = f"SELECT {keys}, true AS retrieved, {TIED} FROM {rankings}"
    joined = f"({judged} GROUP BY query)"
    joined += "\n    CROSS JOIN systems" if inputs.many else ""
    joined += f"\n    LEFT JOIN ({distinct}) USING ({keys})"
    for home in ("run", "attributes"):
        if inputs.attributes_in(home):
            joined += f"\n    LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
    fields = [keys, JUDGED_ROWS, f"{missing} AS {MISSING}", *map(inputs.attribute, inputs.by)]
    ctes["queries"] = select_from(joined, [*fields, *([TIED] if tied else [])])
    return ctes


def _judgments(inputs: Inputs) -> str:
    """The judgments, repeated for every system."""
    return "(FROM qrels CROSS JOIN systems)" if inputs.many else "qrels"


def _join_then_rank(inputs: Inputs, conventions: Conventions) -> dict[str, str]:
    """The CTEs that join the run with its grades, then number positions."""
    keys, ctes, source = inputs.keys, {}, "run"
    if inputs.qrels is not None:
        source = "joined"
        # The CTE `queries` has the attributes.
        names = [*inputs.attributes_in("qrels"), *inputs.attributes_in("run")]
        excluded = ", ".join(map(inputs.attribute, names))
        fields = [f"* EXCLUDE ({excluded})" if excluded else "*"]
        join = f"{_judgments(inputs)} FULL JOIN run USING ({keys}, item)"
        ctes["joined"] = select_from(join, fields)
    if conventions.unjudged == "remove":
        ctes["condensed"] = _condensed(inputs, source)
        source = "condensed"
    fields = ["*"]
    if inputs.scored and conventions.ties != "expected":
        pos = number_positions(keys, "score", score_order(conventions.ties))
        restored = f"* REPLACE ({original_score(inputs)})" if inputs.ascending else "*"
        fields = [f"{restored}, {pos}"]
    return ctes | {"ranked": select_from(source, fields)}


def _condensed(inputs: Inputs, source: str) -> str:
    """The rows without unjudged items. Positions move up by the items that are removed above.

    A ranking of a table with grades keeps its rows if all are unjudged, but nothing is retrieved.
    """
    alone = "rel IS NOT NULL"
    if inputs.qrels is None:
        alone += f" OR NOT bool_or(rel IS NOT NULL) OVER (PARTITION BY {inputs.keys})"
    if inputs.scored and inputs.qrels is not None:
        return select_from(source, ["*"], f"WHERE {alone}")
    place = "score" if inputs.scored else "pos"
    number = place
    if not inputs.scored:
        order = "ORDER BY pos ASC NULLS LAST, rel IS NULL ASC ROWS UNBOUNDED PRECEDING"
        above = f"OVER (PARTITION BY {inputs.keys} {order})"
        number = f"pos - count(*) FILTER (WHERE rel IS NULL) {above}"
    fields = [f"* REPLACE (CASE WHEN rel IS NOT NULL THEN {number} END AS {place})"]
    return select_from(source, fields, f"QUALIFY {alone}")


def number_positions(keys: str, place: str, order: str) -> str:
    """The column `pos`: the rows of a ranking numbered in an order, NULL without a place."""
    number = f"row_number() OVER (PARTITION BY {keys}, {place} IS NULL ORDER BY {order})"
    return f"CASE WHEN {place} IS NOT NULL THEN {number} END AS pos"


def ranks_before_join(inputs: Inputs, conventions: Conventions) -> bool:
    """Are positions independent of the grades, so that they can be numbered before the join?"""
    alone = conventions.ties in ("item", "order") and conventions.unjudged != "remove"
    return inputs.qrels is not None and alone


def original_score(inputs: Inputs) -> str:
    """The score as the user passed it, for expressions of the user."""
    return "0 - score AS score" if inputs.ascending else "score"


def _top(keys: str, k: int | None, order: str, own: Sequence[str]) -> str:
    """The positions by score; only the first k if no metric reads more."""
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
    fields = [keys, "item", "score", position, *own]
    if k is None:
        return select_from("run", fields, "WHERE score IS NOT NULL")
    rest = f"WHERE score >= least QUALIFY pos <= {k}"
    return select_from(f"run JOIN {CUTS} USING ({keys})", fields, rest)


def score_order(ties: str) -> str:
    """Best score first, then the order of tied items."""
    return f"score DESC, {TIE_ORDERS[ties]}"


def attributes_by_query(inputs: Inputs, home: str) -> str:
    """The attributes in a table, by query."""
    return f"(SELECT query{_any_values(inputs, home)} FROM {home} GROUP BY query)"


def _any_values(inputs: Inputs, home: str) -> str:
    """The attributes in a table, as aggregates."""
    columns = map(inputs.attribute, inputs.attributes_in(home))
    return "".join(f", any_value({column}) AS {column}" for column in columns)


# The positions in the lists of `ranks`, as rows.
_PLACES = "unnest(places) AS rank, unnest(are_tied) AS tied"
# Without the condition DuckDB 2.0.1 takes the lists for the larger side, and hashes the run.
_LISTED_CUTS = f"(FROM {CUTS} WHERE least IS NOT NULL)"


def judged_rank_ctes(keys: str, judgments: str, where: str, order: str) -> dict[str, str]:
    """The CTEs up to `ranked`: the grades of the judged items and their positions.

    They read the CTE `cuts`, with the lists of scores. judgments: repeated for every system.
    where: selects the judgments. order: of tied items.
    """
    scored = f"(SELECT {keys}, item, score FROM run WHERE score IS NOT NULL)"
    judged = f"""    SELECT {keys}, list(rel) AS rels, list(score) AS scores
    FROM {scored} RIGHT JOIN (SELECT {keys}, item, rel FROM {judgments} {where})
        USING ({keys}, item) GROUP BY {keys}"""
    places = f"""    SELECT {keys}, rels, scores, best,
        list_transform(scores, lambda x: list_position(best, x)) AS places
    FROM judged LEFT JOIN {CUTS} USING ({keys})"""
    ranks = f"""    SELECT {keys}, rels, scores, places,
        list_transform(scores, lambda x, i: coalesce(best[places[i] + 1] = x, false)) AS are_tied
    FROM places"""
    tied_scores = f"""    SELECT DISTINCT {keys}, score, rank
    FROM (SELECT {keys}, unnest(scores) AS score, {_PLACES} FROM ranks
          WHERE list_contains(are_tied, true)) WHERE tied"""
    numbered = f"""    SELECT {keys}, item,
        rank + row_number() OVER (PARTITION BY {keys}, score ORDER BY {order}) - 1 AS pos
    FROM run JOIN tied_scores USING ({keys}, score)"""
    # Without it, DuckDB hashes all judgments although no score is tied.
    few = "    SELECT *\n    FROM qrels SEMI JOIN tied_scores USING (query)"
    ranked = f"""    SELECT {keys}, rel, rank AS pos
    FROM (SELECT {keys}, unnest(rels) AS rel, {_PLACES} FROM ranks) WHERE NOT tied
    UNION ALL
    SELECT {keys}, rel, pos FROM numbered JOIN few USING (query, item) {where}"""
    steps = {"judged": judged, "places": places, RANKS: ranks, "tied_scores": tied_scores}
    return steps | {"numbered": numbered, "few": few, "ranked": ranked}


def top_rank_ctes(keys: str, k: int, order: str, reads: Sequence[str]) -> dict[str, str]:
    """The CTEs up to `top`: the first k items of each ranking and their positions.

    order: of tied items, and what it reads.
    """
    columns = ", ".join([keys, "item", "score", *reads])
    candidates = f"""    SELECT {columns}, list_position(best, score) AS rank,
        coalesce(best[list_position(best, score) + 1] = score, false) AS tied
    FROM run JOIN {_LISTED_CUTS} USING ({keys}) WHERE score >= least"""
    top = f"""    SELECT {keys}, item, rank AS pos FROM candidates WHERE NOT tied
    UNION ALL
    SELECT {keys}, item,
        rank + row_number() OVER (PARTITION BY {keys}, score ORDER BY {order}) - 1 AS pos
    FROM candidates WHERE tied QUALIFY pos <= {k}"""
    return {CANDIDATES: candidates, "top": top}


def top_score_cuts(keys: str, k: int, tied: bool) -> str:
    """The body of `cuts`: the best k + 1 scores, the k-th, and with `tied` if they are tied."""
    scores = f"max(score, {k + 1})"
    least = f"{scores}[least({k}, len({scores}))] AS least"
    fields = [keys, f"{scores} AS best", least]
    fields += [f"coalesce({are_tied(scores)}, false) AS {TIED}"] if tied else []
    return select_from("run", fields, f"GROUP BY {keys}")


def untied_rank_rows(keys: str, judgments: str, where: str, zeroes: bool) -> str:
    """The body of `ranked`: the judged items, each at the position of its score in the list.

    Rankings with ties, whose values are wrong anyway, have no positions. judgments: repeated for
    every system. where: selects the judgments. zeroes: items that are not retrieved have grade 0.
    """
    pos = f"CASE WHEN score >= least AND NOT {TIED} THEN list_position(best, score) END AS pos"
    rel = "CASE WHEN retrieved THEN rel ELSE 0 END AS rel" if zeroes else "rel"
    items = (
        f"SELECT {keys}, item, {pos}, true AS retrieved FROM run JOIN {_LISTED_CUTS} USING ({keys})"
    )
    join = f"{judgments} LEFT JOIN ({items} WHERE score IS NOT NULL) USING ({keys}, item)"
    return select_from(join, [keys, "item", rel, "pos"], where)


def are_tied(scores: str) -> str:
    """Are two scores of a sorted list the same? The list is NULL if it would be empty.

    list_distinct() takes seven times as long for 10 to 100 scores.
    """
    next_one = "lambda a, b: CASE WHEN a <> b THEN b END"
    return f"{scores} IS NOT NULL AND list_reduce({scores}, {next_one}) IS NULL"


# The bits of a grade from 0 to 5, below those of the hash. Both fit into a BIGINT.
GRADE_BITS = 3


def best_list_ctes(
    top: Top,
    columns: dict[str, str],
    keys: str,
    order: str,
    group: Callable[..., str],
    assumes_no_ties: bool,
) -> dict[str, str]:
    """The CTEs up to `sums`, from `run` and from `ranked`, whose rows need no positions.

    columns: what else to select, by name. order: of tied items. group: writes a SELECT by ranking.
    assumes_no_ties: the column TIED says where tied items make the result wrong.
    """
    names = {key: key for key in keys.split(", ")}
    of_score = f"CAST(hash(score) >> {GRADE_BITS + 1} AS BIGINT) << {GRADE_BITS}"
    item = f"({of_score}) | coalesce(CAST(rel AS BIGINT), 0)"
    lists = {"items": f"arg_max({item}, score, {top.k + 1})"}
    best = group(names | columns | lists | top.counted_rows())
    fields = [*map(quote, [*columns, *top.counts])]
    grades = f"list_transform(items[:{top.k}], lambda item: item & {(1 << GRADE_BITS) - 1})"
    packed = top.packed_list(grades)
    tied = are_tied(f"list_transform(items, lambda item: item >> {GRADE_BITS})")
    if assumes_no_ties:
        fields += [f"{top.integer(f'coalesce({packed}, 0)')} AS top", f"{tied} AS {TIED}"]
        return {BEST: best, "sums": select_from(BEST, fields)}
    tied_rows = f"run SEMI JOIN (FROM {BEST} WHERE {tied}) USING ({keys})"
    least = f"max(score, {top.k})[-1] AS least"
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
    fields.append(f"{top.integer(f'coalesce(tops.packed, {packed}, 0)')} AS top")
    rows, at_least = f"run JOIN tied_cuts USING ({keys})", "WHERE score >= least"
    sums = [keys, f"{top.packed_rows('CAST(rel AS INTEGER)', 'pos')} AS packed"]
    return {
        BEST: best,
        "tied_cuts": select_from(tied_rows, [keys, least], f"GROUP BY {keys}"),
        "tied": select_from(rows, [keys, "rel", position], at_least),
        "tops": select_from("tied", sums, f"GROUP BY {keys}"),
        "sums": select_from(f"{BEST} LEFT JOIN tops USING ({keys})", fields),
    }
