"""Ids that run and judgments write in different forms, of which a part matches."""

import re
import unicodedata

import polars as pl
import pytest

import rankql

PAIRS = [(f"q{q}", f"é{i * 7 + q}") for q in range(40) for i in range(10)]
NUMBERS = [(f"q{q}", str(i * 1500 + q)) for q in range(40) for i in range(10)]


def frame(pairs, value, number=None):
    rows = [(query, item, number or i) for i, (query, item) in enumerate(pairs)]
    return pl.DataFrame(rows, schema=["query", "item", value], orient="row")


def notes(run, qrels, **options):
    return rankql.evaluate(run, qrels, "AP", interval=None, **options).notes


def every_third(pairs, change):
    return [(q, change(item) if i % 3 == 0 else item) for i, (q, item) in enumerate(pairs)]


FORMS = {
    "zeros": (NUMBERS, lambda x: f"{x:0>5}"),
    "float": (NUMBERS, lambda x: f"{x}.0"),
    "case": (PAIRS, str.upper),
    "blank": (PAIRS, lambda x: f"{x} "),
    "no-break": (PAIRS, lambda x: f"\xa0{x}"),
    "accents": (PAIRS, lambda x: unicodedata.normalize("NFD", x)),
    "both": (PAIRS, lambda x: f" {x.upper()}"),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("side", ["run", "qrels"])
def test_ids_in_another_form_are_noted(form, side):
    pairs, change = FORMS[form]
    changed = every_third(pairs, change)
    sides = (changed, pairs) if side == "run" else (pairs, changed)
    run, qrels = frame(sides[0], "score"), frame(sides[1], "rel", 1)
    (note,) = notes(run, qrels)
    count = sum(pair != other for pair, other in zip(changed, pairs, strict=True))
    assert note.startswith("the run and qrels write item ids such as ")
    assert f"differently: {count} more items would match. Pass item=" in note
    item = re.search(r'Pass item="(.*)"$', note)[1]
    assert rankql.evaluate(run, qrels, "R", item=item)["R"] == 1
    (finding,) = [f for f in rankql.check(run, qrels).findings if f.kind == "id-spelling"]
    assert finding.level == "error" and f'Pass item="{item}"' in finding.why
    if form == "accents":
        assert r"e\u0301" in note and r"e\u0301" in repr(rankql.check(run, qrels))


def test_numbers_and_text():
    """As text, 00004 is not 4."""
    qrels = frame(NUMBERS, "rel", 1).cast({"item": pl.Int64})
    run = frame([(q, f"{x:0>5}") for q, x in NUMBERS], "score")
    (note,) = notes(run, qrels)
    item = re.search(r'Pass item="(.*)"$', note)[1]
    assert "CAST(item AS VARCHAR)" in item
    assert rankql.evaluate(run, qrels, "R", item=item)["R"] == 1


def test_queries_and_names_of_columns():
    run = frame([(q.upper() if q.endswith("3") else q, i) for q, i in PAIRS], "score")
    qrels = frame(PAIRS, "rel", 1)
    assert notes(run, qrels)[-1].endswith('40 more items would match. Pass query="lower(query)"')
    named = frame(every_third(PAIRS, str.upper), "score").rename({"item": "docid"})
    assert notes(named, qrels)[-1].endswith("Pass item=['lower(docid)', 'lower(item)']")
    pair = ["lower(docid)", "lower(item)"]
    assert rankql.evaluate(named, qrels, "R", item=pair)["R"] == 1


def test_one_of_several_runs():
    runs = {"a": frame(PAIRS, "score"), "b": frame(every_third(PAIRS, str.upper), "score")}
    (note,) = notes(runs, frame(PAIRS, "rel", 1))
    assert note.startswith("run 'b' and qrels write item ids such as ")


def test_ids_that_differ_are_not_merged():
    """Ids of which one side has both forms, and a few ids in another form."""
    both = [*PAIRS, *((q, x.upper()) for q, x in PAIRS)]
    run = frame(every_third(PAIRS, str.upper), "score")
    assert notes(run, frame(both[:-5], "rel", 1)) == []
    few = [(q, x.upper() if i < 15 else x) for i, (q, x) in enumerate(PAIRS)]
    assert notes(frame(few, "score"), frame(PAIRS, "rel", 1)) == []


@pytest.mark.parametrize("ids", [
    [(q, x) for q, x in PAIRS],
    [(q, f"{x}Ab{x[::-1]}") for q, x in PAIRS],
    [(q, f"0{x}") for q, x in NUMBERS],
])  # fmt: skip
def test_unjudged_items_are_not_noted(ids):
    qrels = frame(ids[::2], "rel", 1)
    run = frame([*ids, *((q, f"{x}7") for q, x in ids)], "score")
    assert notes(run, qrels) == []


def test_the_command_line_names_the_option(tmp_path):
    from click.testing import CliRunner

    from rankql.cli.main import main

    paths = [str(tmp_path / name) for name in ("run.csv", "qrels.csv")]
    run = frame(every_third(PAIRS, str.upper), "score").rename({"item": "docid"})
    run.write_csv(paths[0])
    frame(PAIRS, "rel", 1).write_csv(paths[1])
    result = CliRunner().invoke(main, ["eval", *paths, "-m", "R"])
    assert "Pass --item 'lower(docid),lower(item)'" in result.output
    pair = ["--item", "lower(docid),lower(item)"]
    assert "1.0000" in CliRunner().invoke(main, ["eval", *paths, "-m", "R", *pair]).output
