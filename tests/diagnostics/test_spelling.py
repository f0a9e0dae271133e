"""Ids that run and judgments write in different forms: evaluate names `check`, which repairs."""

import ast
import unicodedata

import polars as pl
import pytest

import rankql
from support.parameters import cycled, few

PAIRS = [(f"q{q}", f"é{i * 7 + q}") for q in range(40) for i in range(10)]
NUMBERS = [(f"q{q}", str(i * 1500 + q)) for q in range(40) for i in range(10)]


def frame(pairs, value, number=None):
    rows = [(query, item, number or -i) for i, (query, item) in enumerate(pairs)]
    return pl.DataFrame(rows, schema=["query", "item", value], orient="row")


def notes(run, qrels, **options):
    return rankql.evaluate(run, qrels, "AP", interval=None, **options).notes


def change_items(pairs, change, every=3):
    return [(q, change(item) if i % every == 0 else item) for i, (q, item) in enumerate(pairs)]


def spelling(run, qrels, **options):
    findings = rankql.check(run, qrels, **options).findings
    return [finding for finding in findings if finding.kind == "id-spelling"]


FORMS = {
    "zeros": (NUMBERS, lambda x: f"{x:0>5}"),
    "float": (NUMBERS, lambda x: f"{x}.0"),
    "minus": ([(q, f"-{x}") for q, x in NUMBERS], lambda x: f"-0{x[1:]}"),
    "mark": (PAIRS, lambda x: f"\ufeff{x}"),
    "case": (PAIRS, str.upper),
    "blank": (PAIRS, lambda x: f"{x} "),
    "no-break": (PAIRS, lambda x: f"\xa0{x}"),
    "accents": (PAIRS, lambda x: unicodedata.normalize("NFD", x)),
    "both": (PAIRS, lambda x: f" {x.upper()}"),
}


@few(2)(("form", "side"), cycled([*FORMS], ["run", "qrels"]))
def test_ids_in_another_form_are_repaired(form, side):
    pairs, change = FORMS[form]
    changed = change_items(pairs, change)
    sides = (changed, pairs) if side == "run" else (pairs, changed)
    run, qrels = frame(sides[0], "score"), frame(sides[1], "rel", 1)
    (finding,) = spelling(run, qrels)
    item = ast.literal_eval(finding.why.partition("Pass item=")[2].removesuffix("."))
    assert rankql.evaluate(run, qrels, "R", item=item)["R"] == 1 and finding.level == "warning"
    if form == "accents":
        assert r"e\u0301" in repr(rankql.check(run, qrels))


@pytest.mark.slow
def test_other_queries_types_and_names_of_columns():
    qrels = frame(PAIRS, "rel", 1)
    run = frame([(q.upper() if q.endswith("3") else q, i) for q, i in PAIRS], "score")
    assert "Pass query='lower(query)'" in spelling(run, qrels)[0].why
    named = frame(change_items(PAIRS, str.upper), "score").rename({"item": "docid"})
    assert "Pass item=['lower(docid)', 'lower(item)']" in spelling(named, qrels)[0].why
    numbers = frame(NUMBERS, "rel", 1).cast({"item": pl.Int64})
    (finding,) = spelling(frame([(q, f"{x:0>5}") for q, x in NUMBERS], "score"), numbers)
    assert "CAST(item AS VARCHAR)" in finding.why


OWN_ITEMS = [(f"q{q}", f"é{q} {i}") for q in range(40) for i in range(10)]


def almost_all(change):
    """Pairs of which one in 40 is the same on both sides."""
    return [(q, x if i % 40 == 0 else change(x)) for i, (q, x) in enumerate(OWN_ITEMS)]


@few(1)(
    ("change", "options"),
    [(str.upper, {}), (lambda x: f"other {x}", {"item": ["docid", "item"], "threshold": 2})],
)
def test_few_matching_ids_are_noted(change, options):
    """Each such input has a finding of `check`."""
    run, qrels = frame(almost_all(change), "score"), frame(OWN_ITEMS, "rel", 3)
    run = run.rename({"item": "docid"}) if options else run
    (note,) = notes(run, qrels, **options)
    findings = {finding.kind for finding in rankql.check(run, qrels, **options).findings}
    if change is str.upper:
        assert note.endswith("""found: 'É0 1' and 'é0 1'. Pass item='lower(item)'""")
    else:
        assert note == (
            "Only 10 of 400 items of the run are judged, and few ids are in both tables"
        )
    assert findings >= {"id-spelling" if change is str.upper else "few-common-items"}


def test_a_low_hit_rate_of_the_same_ids_is_not_noted():
    """All 500 items are in both tables, but few for the right query."""
    ids = [(f"q{q}", f"i{i}") for q in range(500) for i in range(q, q + 5)]
    run = frame([(q, f"i{(int(i[1:]) * 7 + 3) % 500}") for q, i in ids], "score")
    run = run.unique(["query", "item"], maintain_order=True)
    qrels = frame([(q, f"i{int(i[1:]) % 500}") for q, i in ids], "rel", 1)
    assert rankql.evaluate(run, qrels, "R", interval=None)["R"] < 0.05
    assert notes(run, qrels) == [] and spelling(run, qrels) == []
    kinds = {finding.kind for finding in rankql.check(run, qrels).findings}
    assert "few-common-items" not in kinds


def test_one_of_several_runs():
    runs = {"a": frame(OWN_ITEMS, "score"), "b": frame(almost_all(str.upper), "score")}
    (note,) = notes(runs, frame(OWN_ITEMS, "rel", 1))
    assert note.startswith("200 relevant ids are spelled differently in run 'b' and not found")


def test_check_reads_what_evaluate_reads():
    """Chunks, lists of interactions, and a threshold."""
    run = pl.DataFrame({"query": [*"aab"], "item": ["x#1", "x#2", "y#1"], "score": [3.0, 2, 1]})
    qrels = pl.DataFrame({"query": [*"ab"], "item": ["x", "y"], "rel": [1, 2]})
    kinds = {f.kind for f in rankql.check(run, qrels, collapse="#", k=1, train=qrels).findings}
    assert kinds.isdisjoint({"no-common-items", "few-common-items", "unjudged-queries"})
    findings = rankql.check(run, qrels, collapse="#", threshold=2).findings
    (finding,) = [finding for finding in findings if finding.kind == "no-relevant"]
    assert finding.message.startswith("no item has grade 2 or more")
