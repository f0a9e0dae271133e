"""The formulas give what their metrics are defined as, of batches of rankings that nothing reduced.

A case draws rankings as lists of numbers and writes the columns of a reduction by hand. That tables
are reduced to such columns is tested by test_one_oracle.py.
"""

import random
from math import ceil

import polars as pl
import pytest

from rankql.core.evaluation.plan.evaluation import SCALES
from rankql.core.evaluation.query import ctes
from rankql.core.evaluation.reduce import formulas, protocol, reduce
from rankql.core.metrics import macros, parse
from rankql.core.metrics.all_metrics import EVALUATED
from rankql.core.metrics.conventions import choose
from rankql.core.metrics.metric_record import MetricRecord, Parameter
from support import definitions
from support.formula_cases import FORMS, RECORDS, define, draw_metric
from support.metric_engines import same
from support.parameters import few
from support.reductions import compare
from support.samples import ranked_table


def test_forms_are_all():
    assert {RECORDS[name].function for name in FORMS} == {*formulas.METRICS}


def draw_ranking(r, end, last, gaps):
    """Rows (rel, pos): some are unjudged, or judged and not retrieved; or none."""
    grades = r.choice([[*range(end + 1), 0, None], [0, None], [None], [end], range(1, end + 1)])
    size = min(r.choice([0, 1, 3, 20, last]), last)
    places = r.sample(range(1, last + 1), size) if gaps else range(1, size + 1)
    others = [None] * r.choice([0, 0, 2, 9])
    return [(r.choice(grades), pos) for pos in [*places, *others]]


def of_each(groups, number, dtype=pl.Float64):
    """A number of each ranking."""
    return pl.Series([number(rows) for rows in groups], dtype=dtype)


def count_grades(groups, end, grades):
    """As formulas take them, from the number of items of each grade."""
    sums = {
        f"n {x}": of_each(groups, lambda rows, x=x: grades(rows).count(x))
        for x in range(1, end + 1)
    }
    return protocol.read_counts("n", end, pl.DataFrame(sums))


def as_bits(groups, digit, first, last, bits=1):
    """The items from one position to another as bits of a word."""
    shown = lambda rows: ((x, pos - first) for x, pos in rows if pos and first <= pos <= last)  # noqa: E731
    return of_each(groups, lambda rows: sum(digit(x) << bits * i for x, i in shown(rows)), pl.Int64)


def grades_in_words(groups, words):
    """The grades of the first positions."""
    sums = {
        name: as_bits(groups, lambda rel: 2 * (rel or 0) + 1, first, last, words.bits)
        for name, first, last in words.spans()
    }
    return [*enumerate(words.read(pl.DataFrame(sums)), 1)]


def grades_in_lists(groups, reads):
    """The places and grades of items that are judged, or that have a gain."""
    lists = [[(pos, rel) for rel, pos in rows if pos and rel is not None] for rows in groups]
    lists = [[pair for pair in x if pair[1] or reads != "gain"] for x in lists]
    data = {
        name: [[pair[i] for pair in x] for x in lists] for i, name in enumerate(["places", "rels"])
    }
    frame = pl.DataFrame(data, dict.fromkeys(data, pl.List(pl.Float64)))
    return reduce._item_columns(frame, sort=True)[0]


def hits_in_words(groups, least):
    """The positions of items from a grade on."""
    starts = range(1, protocol.MAX_HITS, protocol.WORD)
    hits = [[(rel, pos) for rel, pos in rows if (rel or 0) >= least] for rows in groups]
    return [as_bits(hits, lambda rel: 1, x, x + protocol.WORD - 1) for x in starts]


def weigh(metric, rows, rules):
    """The weight of a ranking in a metric over all rankings."""
    arguments, threshold = metric.arguments(rules), metric.threshold(rules)
    of = arguments.get("denominator", "k")
    size = definitions.precision_size(rows, arguments.get("k"), threshold, of)
    hits, kind = definitions.relevant(rows, threshold), metric.record.function
    weights = {"micro_precision_at": size, "micro_recall_at": hits, "micro_f1_at": size + hits}
    return float(weights[kind])


@few(40)("seed", range(600))
def test_any_rankings(seed):
    """Metrics with any options: from words of grades, from words of hits and from lists."""
    r, names = random.Random(seed), [*FORMS]
    end, gaps, last = r.choice(SCALES), r.random() < 0.7, r.choice([4, 25, 120])
    groups = [draw_ranking(r, end, last, gaps) for _ in range(r.choice([1, 4, 12]))]
    rules = choose({"max_rel": end})
    drawn = parse.parse([draw_metric(r, names[(7 * seed + i) % len(names)]) for i in range(7)])
    pairs = [(x, formulas.supported_options(x, rules, scored=not gaps)) for x in drawn]
    pairs = [(metric, options) for metric, options in pairs if options]
    shown, judged = definitions.shown, definitions.judged
    known = {
        "counts": count_grades(groups, end, judged),
        "ideal_counts": count_grades(groups, end, lambda rows: judged(shown(rows))),
        "retrieved": of_each(groups, lambda rows: len(shown(rows))),
        "judged": of_each(groups, lambda rows: len(judged(rows))),
        "zero": of_each(groups, lambda rows: 0),
        "cutoffs": [*dict.fromkeys(options["k"] for _, options in pairs)],
    }
    small = [options["k"] for metric, options in pairs if reduce._is_small(metric)]
    grades = grades_in_words(groups, protocol.Words(end, max(small, default=1)))
    in_words = formulas.Rankings(grades, **known)
    reads = ctes.rows_needed([metric for metric, _ in pairs], rules)
    in_lists = formulas.Rankings(grades_in_lists(groups, reads), **known)
    for metric, options in pairs:
        ways = [in_lists, *([in_words] if reduce._is_small(metric) else [])]
        if reduce._reads_hits(metric, options):
            hits = hits_in_words(groups, ceil(options["threshold"]))
            ways.append(formulas.HitRankings((), **known, words=hits))
        formula = formulas.METRICS[metric.record.function]
        for rankings in ways:
            columns = [(define, formula.value)]
            if metric.record.function.startswith("micro_"):
                columns.append((weigh, formula.weight))
            for expected, column in columns:
                for rows, value in zip(groups, column(rankings, options), strict=True):
                    assert same(value, expected(metric, rows, vars(rules))), (metric.label, rows)


@few(1)("metrics", ["R2@2", ["R2@2", "R2(rel=1)@2", "nDCG@2", "P@2", "own = ndcg(rel, pos, 5)"]])
@pytest.mark.parametrize("rows", [1, 3000])
def test_a_record_may_have_a_threshold_of_its_own(metrics, rows, monkeypatch):
    """The default of its macro, whatever computes it."""
    sql = macros.read_sql() + (
        "\nCREATE OR REPLACE MACRO recall_of_2(rel, pos, k := NULL, threshold := 2) AS\n"
        "    recall_at(rel, pos, k, threshold);"
    )
    own = Parameter("threshold", 2)
    records = (*EVALUATED, MetricRecord(function="recall_of_2", name="R2", own=(own,)))
    caches = [macros.read_parameters, macros._statements, macros._private_statement]
    caches += [parse._index, parse.record_of]
    monkeypatch.setattr(macros, "read_sql", lambda: sql)
    monkeypatch.setattr(parse, "EVALUATED", records)
    monkeypatch.setitem(formulas.METRICS, "recall_of_2", formulas.METRICS["recall_at"])
    try:
        for cached in caches:
            cached.cache_clear()
        table = ranked_table([(q, *row) for q in range(rows) for row in [(1, 1), (2, 3), (3, 2)]])
        for options in ({}, {"threshold": 3}):
            values = compare(table, None, metrics, **options).per_query
            assert values["R2@2"].unique().to_list() == [0.5]
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()


@few(2)("function", ["dcg", "cg", "precision_at", "recall_at", "ap", "arhr"])
def test_a_cutoff_reads_the_columns_of_the_first_items_alone(function):
    """The item in column i is at position i or below, so the others are beyond the cutoff."""
    k, ones = 5, [pl.Series([1.0])]
    items = [(pl.Series([2.0 * i]), pl.Series([float(i % 3 == 2)])) for i in range(1, 40)]
    options = {"k": k, "threshold": 1, "gain": "linear", "denominator": "min"}
    value = {}
    for some in (items, items[:k]):
        rankings = formulas.Rankings(some, ones, cutoffs=[k])
        value[len(some)] = formulas.METRICS[function].value(rankings, options).item()
        sums = [
            x for key, x in rankings._columns.items() if isinstance(key, tuple) and key[-1] == k
        ]
        assert sums and all(len(x) <= k for x in sums)
    assert value[len(items)] == value[k]
