"""Pairs of an id and a whole number in run and judgments, and judgments that are a second run."""

import polars as pl

import rankql
from support.reading import asked, refused

PAIRS = {"n1": [("law.pdf", 9), ("tax.pdf", 4)], "n2": [("oil.pdf", 2)]}
GOLD = {"n1": [("law.pdf", 9), ("oil.pdf", 2)], "n2": [("oil.pdf", 5)]}


def test_a_document_and_its_page_may_be_one_id():
    question = asked(PAIRS, GOLD, metrics="R@5")
    assert [x.means("R@5")[0] for x in question.readings] == [0.25, 0.75]
    assert "a part of the id, such as a page" in str(question)


def test_ids_of_which_no_page_is_right_are_asked_about_too():
    run = {"n1": [("law.pdf", 8), ("tax.pdf", 4)], "n2": [("oil.pdf", 2)]}
    text = str(refused(run, GOLD, metrics="R@5"))
    assert "rel='1', order='rows' if it is a part of the id" in text
    call = {"item": ["item, score", "item, rel"], "rel": "1", "order": "rows"}
    assert rankql.evaluate(run, GOLD, "R@5", none_judged="zero", **call)["R@5"] == 0


def test_scores_and_grades_are_read():
    scored = {q: [(x, n / 10) for x, n in each] for q, each in PAIRS.items()}
    plain = {q: [x for x, _ in each] for q, each in GOLD.items()}
    assert rankql.evaluate(scored, GOLD, "R@5", interval=None)["R@5"] == 0.75
    assert rankql.evaluate(PAIRS, plain, "R@5", interval=None)["R@5"] == 0.75
    assert rankql.evaluate(plain, GOLD, "R@5", interval=None)["R@5"] == 1
    named = {"score": "score", "rel": "rel"}
    assert rankql.evaluate(PAIRS, GOLD, "R@5", interval=None, **named)["R@5"] == 0.75


def ranked(*rows):
    names = ["query", "item", "pos", "rel"]
    return pl.DataFrame([(q, *x) for q in "abcdefgh" for x in rows], names, orient="row")


ONE, OTHER = ranked(("u", 1, 0), ("x", 2, 1)), ranked(("x", 1, 1), ("v", 2, 1))


def test_judgments_with_places_may_be_a_second_run():
    question = asked(ONE, OTHER, match="both have grades and places")
    assert question.calls == [{"rel": "rel"}] and "a=FILE b=FILE" in str(question)
    both = rankql.evaluate({"a": ONE, "b": OTHER}, metrics="RR", pool=False, interval=None)
    assert both.summary["mean"].to_list() == [0.5, 1]


def test_one_table_or_a_run_without_grades_is_not_asked_about():
    for run, qrels in ((ONE, ONE), (ONE, ONE.clone()), (ONE.drop("rel"), OTHER),
                       (ONE, OTHER.drop("pos"))):  # fmt: skip
        assert rankql.evaluate(run, qrels, "RR", interval=None)["RR"] == 0.5
