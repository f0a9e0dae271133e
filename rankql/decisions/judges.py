"""How far to trust labels by language models: their agreement with human labels."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.column_names import ANNOTATORS, ROLES, find_name, says, words_of
from rankql.core.base.errors import (
    Question,
    RankqlError,
    require,
    require_choice,
    require_package,
    require_probability,
)  # fmt: skip
from rankql.core.base.results import TableResult
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.evaluate import evaluate
from rankql.core.evaluation.plan.columns import refuse_labels
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import literal, quote
from rankql.core.stats.means import ROUNDING, Moments, mean_interval
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.reading import read_inputs
from rankql.core.tables.request import (
    EvaluationOptions,
    RankingRules,
    Request,
    require_known_options,
)
from rankql.core.tables.session import Session, is_several_runs, open_session
from rankql.core.tables.tables import Data, Rel, Table, is_number, is_text, require_column
from rankql.decisions.one_id import find_one_id, grade_columns, list_of_labels
from rankql.features.judge import check_pools, note_scales
from rankql.logs.labels import consensus as consensus_of
from rankql.shapes.doubts.unread_grades import note_unread_grades

if TYPE_CHECKING:
    from rankql.core.stats.sample import Array, Estimate

# Tables of counts with more grades are too sparse, and too large.
MOST_GRADES = 50
# A model agrees as much as a person if its weighted kappa is lower by less than this: the lower end
# of the interval, by queries, tells it (`--annotators` of tests/run_simulation.py).
MARGIN = 0.1
# Of a model that fails in whole queries, fewer queries, or one that has most of the pairs, may show
# none of them: one that reverses one query in six is then called as good in 25% of samples of 5.
LEAST_QUERIES, MOST_PAIRS = 20, 1 / 3
# Intervals of fewer queries are rough: if queries differ much, those of weighted kappa contain the
# true value in 79% of samples of 10 queries, and in 88.5% of 25.
FEW_QUERIES = 50
# Words of the names of columns with labels of people, and of models.
HUMAN_WORDS = {"human", "annotator", "expert", "manual"}
MODEL_WORDS = {"llm", "gpt", "model", "ai"}
# What may follow them: gpt4o, annotator1.
VERSION = "0123456789o"


@dataclass(repr=False, eq=False)
class JudgeReport(TableResult):
    """The result of `judges`.

    `table` has one row per judge and measure, with its confidence interval: exact agreement,
    Cohen's kappa, kappa with quadratic weights, Krippendorff's alpha (ordinal), false positives
    (the share of the items irrelevant to people that the judge calls relevant), false negatives,
    and the mean difference judge - human. `grades` has the share of each grade under both, and
    `confusion` how often the judge gave each grade to items of a human grade. With runs, `systems`
    has the mean of every system under both labels and their difference (`bias`), and `orders` how
    far both order the systems alike; of two, `title` and `sentences` say whether the model may
    replace people to compare them. Of several annotators, they say whether a model agrees with the
    first as much as another annotator does.
    """

    table: pl.DataFrame
    grades: pl.DataFrame
    confusion: pl.DataFrame
    systems: pl.DataFrame
    orders: pl.DataFrame
    threshold: float
    confidence: float
    notes: list[str] = field(default_factory=list)
    title: str = ""
    sentences: list[str] = field(default_factory=list)
    _details = ("grades", "confusion", "systems", "orders", "threshold", "confidence")
    _shown = ("table", "orders")


@remember_inputs
def judges(
    llm: Data | Mapping[str, Data],
    human: Data | None = None,
    runs: Data | Mapping[str, Data] | None = None,
    metrics: str | Sequence[str] = ("nDCG@10",),
    *,
    annotators: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    judge_rel: Rel = None,
    consensus: Literal["mean", "median", "majority"] | None = None,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> JudgeReport:
    """Compare labels by language models with human labels of the same items.

    Only items that both labelled count. They are relevant from the grade `threshold`. Intervals
    leave out one query at a time (jackknife), as items of a query are not independent. Labels can
    agree badly and still order systems well, and the other way round.

    A table with a column of grades for each annotator and model is read by `annotators` and
    `models`, as is one with a row for each label and a column of who gave it, such as `annotator`.
    Labels in text get their grades by rel={"FULL": 2, "NONE": 0, "REFUSED": None}. Only items that
    all of them labelled count. The first line of the result says whether a model agrees with the
    first annotator as much as the second does.

    Parameters
    ----------
    llm : table or dict
        Labels by a language model (query, item and grade), or a dict of name: table for several; or
        a table with a column for each annotator and model.
    human : table, optional
        Human labels of some of the same items. Of two annotators, name the other one too:
        judges({"ann": labels}, {"bo": others}).
    runs : run or dict, optional
        Runs to evaluate under both labels, as in `compare`.

        Every metric is evaluated on the same queries: how much the judge changes the means, and
        whether it orders the systems alike.
    metrics : str or list of str
        Metrics of the runs.
    annotators : list of str, optional
        Columns of human labels, the first is the reference. Without models, the others are compared
        with it.
    models : list of str, optional
        Columns of labels by models.
    judge_rel : str or dict, optional
        Column of the labels of the models, if it is not called as that of the people, `rel`. One
        table may have both: judges(labels, rel="human", judge_rel="llm").
    consensus : str, optional
        Combine the annotators into the reference: 'mean', 'median' or 'majority'.
    confidence : float
        Level of the confidence intervals.
    con, **options
        As in `evaluate`.

    Examples
    --------
    >>> human = pl.DataFrame({"query": [1, 1, 2, 2], "item": [*"abab"], "rel": [0, 1, 1, 2]})
    >>> llm = human.with_columns(rel=pl.Series([0, 1, 1, 1]))
    >>> judges(llm, human).table.select("measure", "value").rows()[:2]
    [('exact_agreement', 0.75), ('cohen_kappa', 0.5555555555555556)]
    """
    require_package("scipy", "stats", "judges")
    require_known_options(options, judges)
    require_probability("confidence", confidence)
    threshold = options.get("threshold", 1)
    if not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise RankqlError(f"threshold must be a finite number, not {threshold!r}")
    columns: dict[str, Any] = {name: options.get(name) for name in ("query", "item", "rel")}
    notes: list[str] = []
    other, tables, rels = "people", dict[str, Any](), dict[str, Rel]()
    labels = dict[str, pl.DataFrame]()
    if annotators is not None or models is not None:
        require(human is None, "human and annotators= are given. Pass one table with annotators=")
        require(judge_rel is None, "judge_rel= does not go with annotators=. Name models=")
        several = isinstance(annotators, list | tuple) and len(annotators) > 1
        if annotators and models is None and consensus is None and several:
            annotators, models = annotators[:1], annotators[1:]
        if consensus is not None:
            require_choice("consensus", consensus, "mean", "median", "majority")
        people, labels = _read_annotators(con, llm, annotators, models, consensus, columns, notes)
        other = consensus or str((annotators or ("",))[0])
        named = {x: y for x, y in columns.items() if isinstance(y, str) and x != "rel"}
        human, tables = people.rename(named), {x: y.rename(named) for x, y in labels.items()}
        options.pop("rel", None)
        columns["rel"] = None
    else:
        require(consensus is None, "consensus= needs annotators=, the columns of human labels")
        tables = dict(llm) if is_several_runs(llm) else {"llm": llm}
        if is_several_runs(human):
            require(len(human) == 1, "human must be one table of labels, not several")
            ((other, human),) = human.items()
        require(bool(tables), "judges needs at least one table of labels: a dict of name: table")
        with open_session(con, human, *tables.values()) as session:
            tables = {x: list_of_labels(session, y) for x, y in tables.items()}
            alone, human = next(iter(tables.values())), list_of_labels(session, human)
            if human is None and (judge_rel or _find_label(session, alone, "labels", HUMAN_WORDS)):
                human = alone
            if human is None:
                known = text.join_words([*session.table(alone, "labels").columns])
                raise RankqlError(
                    f"human is missing. The labels have the columns {known}. Pass human labels, or "
                    "of one table rel= with the column of people and judge_rel= with that of "
                    "the model, or annotators= and models="
                )
            of_people, rels = _find_labels(session, human, tables, options.get("rel"), judge_rel)
            columns["rel"], (own, *_) = of_people, rels.values()
            own = own[0] if isinstance(own, tuple) else own
            if not is_several_runs(llm) and isinstance(own, str) and own != of_people:
                tables, rels = {own: alone}, {own: rels["llm"]}  # called like its column
            opened = [_open_labels(session, x, "human") for x in (human, *tables.values())]
            own_rels = [of_people, *rels.values()]
            ids = {x: columns[x] for x in ("query", "item")}
            if runs is None and (one := find_one_id(opened, own_rels, **ids)):
                ids = {"query": one, "item": "1"}
                notes.append(f"{one} is the only id: each counts as one query")
            each = [
                {**_own_names(ids, x, opened), "rel": y}
                for x, y in zip(opened, own_rels, strict=True)
            ]
            people = _read_labels(session, opened[0], "human", each[0])
            labels = {
                x: _read_labels(session, table, f"judge {x!r}", own, "judge_rel")
                for x, table, own in zip(tables, opened[1:], each[1:], strict=True)
            }
            notes += session.notes
    keywords: dict[str, Any] = {"con": con, **options}
    names = ("table", "grades", "confusion", "systems", "orders")
    frames: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    fewest, of_pairs = FEW_QUERIES, list[str]()
    for name, data in tables.items():
        both = _join_labels(people, labels[name], name)
        fewest = min(fewest, both["query"].n_unique())
        if lacking := people.height - both.height:
            notes.append(
                f"{lacking:,} items that {other} labelled have no label of {name}: left out"
            )
        notes += note_scales(other, both["human"], name, both["llm"])
        frames_of_judge = _measure(both, threshold, confidence)
        if runs is not None:
            from rankql.decisions.judged_systems import compare_systems

            notes += check_pools(people, labels[name])
            sides = ((human, columns["rel"]), (data, rels.get(name)))
            results = [
                evaluate(runs, x, metrics, interval=None, **{**keywords, "rel": rel})
                for x, rel in sides
            ]
            compared, words = compare_systems(results[0], results[1], confidence, (other, name))
            frames_of_judge |= compared
            of_pairs += words
            overall = [x for x in results[0].metrics if x in results[0].overall_metrics]
            if overall:
                have = f"{text.join_words(overall)} {text.has_or_have(len(overall))}"
                notes.append(f"{have} one value for all queries: not compared")
        for frame, rows in frames_of_judge.items():
            frames[frame] += [{"judge": name, **row} for row in rows]
    if fewest < FEW_QUERIES:
        rough = f"Intervals of {text.format_queries(fewest)} are rough, and one query has none"
        notes.append(f"{rough}. Label at least {FEW_QUERIES}")
    notes = list(dict.fromkeys(notes))
    told = [*_compare_annotators(people, labels, annotators or (), models or (), confidence)]
    told += of_pairs
    told = told or [*_describe_agreement(frames["table"], other, confidence)]
    return JudgeReport(
        **{x: pl.DataFrame(rows, infer_schema_length=None) for x, rows in frames.items()},
        threshold=threshold,
        confidence=confidence,
        notes=notes,
        title=told[0] if told else "",
        sentences=told[1:],
    )


def _find_labels(
    session: Session, human: Any, tables: Mapping[str, Any], rel: Rel, judge_rel: Rel
) -> tuple[Rel, dict[str, Rel]]:
    """The columns of the labels of people and of each judge: named, or found by words of names."""
    of_people = rel or _find_label(session, human, "human", HUMAN_WORDS, "rel")
    rels: dict[str, Rel] = {}
    for name, data in tables.items():
        of_model = judge_rel
        if judge_rel is None:
            found = _find_label(session, data, f"judge {name!r}", MODEL_WORDS, "judge_rel")
            lacks = isinstance(rel, str) and not session.table(data, "llm").has(rel)
            of_model = found if rel is None or (lacks and found) else rel
            if is_same(human, data):
                calls = [{"rel": of_people, "judge_rel": found}] if of_people and found else []
                which = "Which columns are the labels of people and of the model?"
                asked = f"human and {name} are the same table. {which}"
                raise Question(asked, calls, blanks={"rel": "...", "judge_rel": "..."})
        elif is_same(human, data) and of_people == judge_rel:
            message = f"judge_rel={judge_rel!r} is the column of people too. Pass theirs as rel="
            raise RankqlError(message)
        rels[name] = of_model
    return of_people, rels


def is_same(one: Any, other: Any) -> bool:
    """Are they one table, or the same path?"""
    paths = isinstance(one, str | os.PathLike) and isinstance(other, str | os.PathLike)
    return one is other or (paths and os.fspath(one) == os.fspath(other))


def _find_label(
    session: Session, data: Any, label: str, words: set[str], argument: str = "rel"
) -> str | None:
    """The column of numbers with one of these words in its name, if none is called like a grade."""

    def is_numeric(name: str) -> bool:
        number = f"TRY_CAST({quote(name)} AS DOUBLE) IS NOT NULL OR {quote(name)} IS NULL"
        return bool(table.value(f"bool_and({number})"))

    table = _open_labels(session, data, label)
    if find_name(table.columns, ROLES["rel"]):
        return None
    known = [
        name for name, kind in table.columns.items()
        if not (says(name, "id") or words.isdisjoint(x.rstrip(VERSION) for x in words_of(name)))
        and (is_number(kind) or (is_text(kind) and is_numeric(name)))
    ]  # fmt: skip
    if len(known) > 1:
        either = f"{label}: {' and '.join(known)} may be the labels"
        raise Question(either, [{argument: name} for name in known])
    return known[0] if known else None


def _read_annotators(
    con: duckdb.DuckDBPyConnection | None, data: Data, annotators: Any, models: Any, how: Any,
    columns: Mapping[str, Any], notes: list[str],
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:  # fmt: skip
    """The reference and the other labels of the items that all annotators and models labelled."""
    for name, names in (("annotators", annotators), ("models", models)):
        listed = isinstance(names, list | tuple) and all(isinstance(x, str) for x in names)
        require(listed and bool(names), f"{name}= must be a list of columns, not {names!r}")
    names = [*annotators, *models]
    require(len({*names}) == len(names), f"A column is named twice: {text.join_words(names)}")
    with open_session(con, data) as session:
        table, labels = session.table(data, "labels"), dict[str, pl.DataFrame]()
        who = find_name(table.columns, ANNOTATORS)
        labelled = {*names, who, find_name(table.columns, ROLES["rel"])}
        others = [x for x in table.own_columns if x not in labelled]
        # Each run is of an annotator.
        others = [x for x in others if not (who and says(x, "system"))]
        item = columns["item"] or (others[0] if len(others) == 1 else None)
        if item and not (columns["query"] or find_name(others, ROLES["query"])):
            columns = {**columns, "query": "query", "item": require_column(table, item, "item")}
            table = table.with_column("query", f"CAST({quote(item)} AS VARCHAR)", "VARCHAR")
            notes.append(f"No column has queries: each {item} counts as one")
        for name in names:
            rows, mapping, rel = table, columns["rel"], name
            if is_long := who is not None and not table.has(name):  # a row for each label
                sql = f"(FROM {table.sql} WHERE CAST({quote(who)} AS VARCHAR) = {literal(name)})"
                rows, rel = session.describe(name, sql), columns["rel"]
            else:
                argument = "annotators" if name in annotators else "models"
                require_column(table, name, argument)
                rel = (name, mapping) if isinstance(mapping, Mapping) else name
            repeats = "models" if who and not is_long else "rel"  # in the rows of each annotator
            labels[name] = _read_labels(session, rows, name, {**columns, "rel": rel}, repeats)
        notes += session.notes
    keys = ["query", "item"]
    both = pl.concat([x.select(keys) for x in labels.values()]).group_by(keys).len()
    every = both.filter(len=len(labels)).select(keys)
    if lacking := both.height - every.height:
        notes.append(f"{lacking:,} of {both.height:,} items lack a label: left out")
    labels = {
        x: y.join(every, on=keys, maintain_order="left", how="semi") for x, y in labels.items()
    }
    if how is None:
        return labels.pop(annotators[0]), labels
    human = pl.concat([labels.pop(name) for name in annotators])
    return human.group_by(keys, maintain_order=True).agg(rel=consensus_of("rel", how=how)), labels


def _compare_annotators(
    people: pl.DataFrame, labels: Mapping[str, pl.DataFrame], annotators: Sequence[str],
    models: Sequence[str], confidence: float,
) -> Iterator[str]:  # fmt: skip
    """Whether each model agrees with the first annotator as much as the others do, in words."""
    others = [name for name in annotators[1:] if name in labels]
    few = not is_enough(people["query"].value_counts()["count"].to_list())
    for model, other in itertools.product(models, others):
        tables = [_join_labels(people, labels[name], name) for name in (model, other)]
        (one, two), difference, lo, hi = compare_kappas(*_count_cells(tables), confidence)
        if lo is None or hi is None:
            yield (
                f"Cannot tell whether {model} agrees with {annotators[0]} as much as {other} does: "
                "weighted kappa has no interval, as labels or queries vary too little"
            )
            continue
        how = "less than" if hi < 0 else "more than" if lo > 0 else "as much as"
        told = f"{model} agrees with {annotators[0]} {how} {other} does"
        if hi >= 0 and (lo <= -MARGIN or few):
            told = f"Too few queries to tell whether {told}"
        yield (
            f"{told}: weighted kappa {one:.2f} against {two:.2f}, difference {difference:+.2f} "
            f"({100 * confidence:g}% CI {lo:.2f} to {hi:.2f}; {people.height:,} items)"
        )


def _describe_agreement(
    rows: Sequence[Mapping[str, Any]], other: str, confidence: float
) -> Iterator[str]:
    """How far each judge agrees with the reference, in words."""
    shares = {row["judge"]: row["value"] for row in rows if row["measure"] == "exact_agreement"}
    for row in (row for row in rows if row["measure"] == "weighted_kappa"):
        kappa, ends = text.format_ends([row[x] for x in ("value", "lo", "hi")])
        interval = f" ({text.format_percent(confidence)} CI {ends})" if ends else ""
        yield (
            f"{row['judge']} agrees with {other} on {shares[row['judge']]:.0%} of "
            f"{text.format_count(row['pairs'], 'item')}: weighted kappa {kappa}{interval}"
        )


def is_enough(pairs: Sequence[int]) -> bool:
    """Whether queries with so many pairs can show that a model agrees as much as a person."""
    return len(pairs) >= LEAST_QUERIES and max(pairs) <= MOST_PAIRS * sum(pairs)


def compare_kappas(
    cells: Sequence[Array], grades: Array, confidence: float
) -> tuple[list[float], float, float | None, float | None]:
    """The weighted kappas of two counts over the same queries, and their difference."""
    (one, left_1), (two, left_2) = (_leave_one_out(x, grades)["weighted_kappa"] for x in cells)
    ends = _jackknife(one - two, left_1 - left_2, confidence, (-2, 2))
    return [one, two], one - two, *ends


def _read_labels(
    session: Session, data: Data, label: str, columns: Mapping[str, Any], argument: str = "rel"
) -> pl.DataFrame:
    """The labels in a table, with ids as text. Several labels of an item are refused.

    argument: the one that names their column.
    """
    opened = table = replace(_open_labels(session, data, label), label=label)
    rules = RankingRules(columns, Conventions())
    try:
        table = read_inputs(session, Request(None, table, (), rules)).judging[0]
        note_unread_grades(table)
    except RankqlError as error:
        if isinstance(error, Question):  # labels of one value say nothing, and are no ids
            graded = grade_columns(opened, columns.get("rel"))
            calls = [x for x in error.calls if {x.get("query"), x.get("item")}.isdisjoint(graded)]
            calls = [call for call in calls if call.get("rel") != "1"]
            error.calls, error.others = (calls, []) if calls else (error.calls, error.others)
        error.name_argument("rel", argument)
        raise
    if is_text(table.columns[table.roles["rel"]]):
        refuse_labels(table, column=False)
    keys = ", ".join(f"{table.key(role, True)} AS {role}" for role in ("query", "item"))
    sql = f"SELECT {keys}, CAST({table.read('rel')} AS DOUBLE) AS rel FROM {table.sql}"
    rows = fetch_frame(session, sql, checked=True).drop_nulls("rel")
    rows = rows.unique(maintain_order=True) if argument != "rel" else rows
    require(not rows.is_empty(), f"{label} has no labels")
    for (name,) in rows.filter(rows.select("query", "item").is_duplicated())["query",].rows()[:1]:
        raise RankqlError(
            f"{label} has several labels for an item of query {name!r}. Keep one, or combine them "
            "with consensus"
        )
    return rows


def _open_labels(session: Session, data: Data, label: str) -> Table:
    """The table of labels. The numbers of a dict are grades if it is called qrels."""
    return session.table(data, "qrels" if isinstance(data, Mapping) else label)


def _own_names(ids: Mapping[str, Any], table: Table, tables: Sequence[Table]) -> dict[str, Any]:
    """The names of ids in a table, without those that only another has."""
    others = {x: y for x, y in ids.items() if isinstance(y, str) and not table.has(y)}
    lacks = [x for x, y in others.items() if any(each.has(y) for each in tables)]
    return {x: None if x in lacks else y for x, y in ids.items()}


def _join_labels(human: pl.DataFrame, llm: pl.DataFrame, name: str) -> pl.DataFrame:
    """The items that both have labelled."""
    both = human.rename({"rel": "human"}).join(llm.rename({"rel": "llm"}), on=["query", "item"])
    if both.is_empty():
        examples = (frame.head(1).select("query", "item").rows() for frame in (llm, human))
        raise RankqlError(
            f"judge {name!r} and human have no item in common: such as {next(examples)} and "
            f"{next(examples)}. Write the ids alike"
        )
    grades = pl.concat([both["human"], both["llm"]]).n_unique()
    many = f"judge {name!r}: {grades} different grades. Round them to at most {MOST_GRADES}"
    require(grades <= MOST_GRADES, many)
    return both.sort("query", "item")


def _measure(
    both: pl.DataFrame, threshold: float, confidence: float
) -> dict[str, list[dict[str, Any]]]:
    """The rows of the measures, of the grades and of the confusion."""
    import numpy as np

    from rankql.core.stats.sample import Sample

    human, llm = both["human"].to_numpy(), both["llm"].to_numpy()
    codes = both["query"].rank("dense").to_numpy().astype(np.intp) - 1
    (cells,), grades = _count_cells([both])

    def share(hits: Any, among: Any = True) -> Estimate:
        """The share of these items, with an interval that has queries as clusters."""
        rows = np.broadcast_to(among, len(codes))
        clusters = np.unique(codes[rows], return_inverse=True)[1]
        sample = Sample(hits[rows].astype(float), clusters, None, 0.0, 1.0)
        return sample.estimate(confidence)

    said_relevant, relevant = llm >= threshold, human >= threshold
    measures = {
        "exact_agreement": share(human == llm),
        **{
            name: (None if math.isnan(value) else value, *_jackknife(value, left_out, confidence))
            for name, (value, left_out) in _leave_one_out(cells, grades).items()
        },
        "false_positives": share(said_relevant, ~relevant),
        "false_negatives": share(~said_relevant, relevant),
        "mean_difference": Sample(llm - human, codes).estimate(confidence),
    }
    counts = {"pairs": both.height, "queries": len(cells)}
    return {
        "table": [
            {"measure": name, **_name("value lo hi", values), **counts}
            for name, values in measures.items()
        ],
        "grades": [
            {"grade": grade, **_name("human human_lo human_hi", share(human == grade)),
             **_name("llm llm_lo llm_hi", share(llm == grade))}
            for grade in grades
        ],
        "confusion": [
            {"human": grade, "llm": other, "pairs": int(cells[:, i, j].sum()),
             **_name("share lo hi", share(llm == other, human == grade))}
            for i, grade in enumerate(grades)
            for j, other in enumerate(grades)
        ],
    }  # fmt: skip


def _name(names: str, values: Estimate) -> dict[str, float | None]:
    return dict(zip(names.split(), values, strict=True))


def _count_cells(tables: Sequence[pl.DataFrame]) -> tuple[list[Array], Array]:
    """How often each query has each pair of grades, in every table, and the grades of all."""
    import numpy as np

    pairs = [(x["human"].to_numpy(), x["llm"].to_numpy()) for x in tables]
    grades = np.unique(np.concatenate([values for pair in pairs for values in pair]))
    counts = []
    for table, pair in zip(tables, pairs, strict=True):
        codes = table["query"].rank("dense").to_numpy().astype(np.intp) - 1
        cells = np.zeros((codes.max() + 1, len(grades), len(grades)))
        np.add.at(cells, (codes, *(np.searchsorted(grades, x) for x in pair)), 1)
        counts.append(cells)
    return counts, grades


def _leave_one_out(cells: Array, grades: Array) -> dict[str, tuple[float, Array]]:
    """The coefficients of `cohen_kappa` and `krippendorff_alpha`, and those without each query.

    All are 1 - the mean distance of two labels of an item / the one expected by chance.
    """
    import numpy as np

    total = cells.sum(axis=0)
    tables = np.concatenate([total[None], total - cells])  # of all queries, and without each
    n = tables.sum(axis=(1, 2), keepdims=True)
    result = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = tables / n
        human, llm = shares.sum(axis=2), shares.sum(axis=1)
        pooled = n[:, 0] * (human + llm)
        ranks = np.cumsum(pooled, axis=1) - pooled / 2
        by_chance = human[:, :, None] * llm[:, None, :]
        squares = np.square(grades[:, None] - grades)
        for name, distances, expected in (
            ("cohen_kappa", np.sign(squares), by_chance),
            ("weighted_kappa", squares, by_chance),
            ("krippendorff_alpha", np.square(ranks[:, :, None] - ranks[:, None, :]),
             pooled[:, :, None] * pooled[:, None, :] / (2 * n * (2 * n - 1))),
        ):  # fmt: skip
            observed, chance = ((x * distances).sum(axis=(1, 2)) for x in (shares, expected))
            values = 1 - observed / chance
            result[name] = float(values[0]), values[1:]
    return result


def _jackknife(
    value: float, left_out: Array, confidence: float, limits: tuple[float, float] = (-1, 1)
) -> tuple[float | None, float | None]:
    """The interval of a value by leaving out one query at a time, if it has one."""
    import numpy as np

    queries = len(left_out)
    error = math.sqrt((queries - 1) * np.var(left_out))
    moments = Moments(queries, value, error, queries - 1, 0, value, value, *limits)
    # If labels agree in all queries, the error is not known.
    return (error > ROUNDING and mean_interval(moments, confidence, "t")) or (None, None)
