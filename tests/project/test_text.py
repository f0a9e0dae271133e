"""Numbers as people read them: no negative zero, no digits of rounding, no '1 tests'."""

import copy
import json
import pickle

import polars as pl
import pytest

from rankql.core.base import text as show
from rankql.core.base.results import TableResult


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((-0.0001, -0.25, 0.248), "0.000 (-0.250 to 0.248)"),
        ((0.1, 0.1 - 1e-17, 0.1 + 2e-17), "0.100 (0.100 to 0.100)"),
        ((12345.678, 12000.0, 12700.0), "12,345.678 (12,000.000 to 12,700.000)"),
        ((0.0, 0.0, 0.0), "0.000 (0.000 to 0.000)"),
        ((0.096, -0.0003, 0.1923), "0.0960 (-0.0003 to 0.1923)"),
        ((0.5, 0.49985, 0.50015), "0.50000 (0.49985 to 0.50015)"),
        ((3e-12, 1e-12, 5e-12), "0.0000000000030 (0.0000000000010 to 0.0000000000050)"),
    ],
)
def test_estimates(values, text):
    assert show.format_interval(values) == text


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ({"mean": 0.45, "lo": 0.3, "hi": 0.6}, "0.4500 0.3000 0.6000"),
        ({"mean": 12345.678, "lo": 12000.0, "hi": 12700.0}, "12,346 12,000 12,700"),
        ({"mean": 3.4567, "lo": 3.2, "hi": 3.7}, "3.46 3.20 3.70"),
        ({"mean": 0.5, "lo": 0.499985, "hi": 0.500015}, "0.500000 0.499985 0.500015"),
        ({"mean": 1234.5, "lo": None, "hi": None}, "1,234.5000  "),
        ({"p": 0.00002, "n": 19255, "query": 2024, "rel": 0.5}, "<0.0001 19,255 2024 0.5"),
        ({"difference": -0.00001, "effect": -0.00001}, "0.0000 0.0000"),
    ],
)
def test_tables(row, cells):
    assert show.format_table(pl.DataFrame([row]))[1] == cells.split(" ")


def test_a_mean_has_one_rounding():
    """Whatever the interval of the difference in its row."""
    frame = pl.DataFrame({"metric": "m", "mean_a": 12.15671, "difference": [0.0199, 0.76, None],
                          "lo": [0.0186, -0.19, None], "hi": [0.0212, 1.71, None]})  # fmt: skip
    rows = [row[1:3] for row in show.format_table(frame)[1:]]
    assert rows == [["12.1567", "0.0199"], ["12.1567", "0.76"], ["12.1567", ""]]


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        *(("*a*", "\\*a\\*"), ("_a_ mean_a", "\\_a\\_ mean_a"), ("# a", "\\# a")),
        *(("1. a", "1\\. a"), ("- a", "\\- a"), ("nDCG@10", "nDCG@10")),
        *(("#12 @ann", "`#12` `@ann`"), (":bug: a: b", "`:bug:` a: b")),
        *(("https://x.org", "`https://x.org`"), ("a|b\nc", "a\\|b c")),
        *(
            ("<!-- & -->", "\\<!-- & -->"),
            ("&lt; <b>", "\\&lt; \\<b>"),
            ("`@a``", "``` `@a`` ```"),
            ("~~$a$~~", "\\~\\~\\$a\\$\\~\\~"),
        ),
    ],
)
def test_markdown_is_literal(text, markdown):
    assert show.format_paragraph(text) == markdown


def test_latex_is_literal():
    rows = [["a_b", "c"], [r"\x{50%} #1 $&~^", "[2]<3>"]]
    assert show.format_latex(rows).split("\n")[2:5] == [
        r"a\_b & c \\",
        r"\midrule",
        r"\textbackslash{}x\{50\%\} \#1 \$\&\textasciitilde{}\textasciicircum{} & "
        r"{[}2]\textless{}3\textgreater{} \\",
    ]


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [(1, "test", "1 test"), (2, "test", "2 tests"), (0, "query", "0 queries"),
     (4, "launch", "4 launches"), (19255, "query", "19,255 queries"), (2, "x-ray", "2 x-rays")],
)  # fmt: skip
def test_counts(n, noun, text):
    assert show.format_count(n, noun) == text


def test_a_note_keeps_what_it_is_about():
    """Also in another process, and in a result whose notes are written for the command line."""
    note = show.Note("9 rows are left out", kind="left-out", level="warning", heading="run")
    for same in (note, copy.copy(note), pickle.loads(pickle.dumps(note))):
        assert same == "run: 9 rows are left out" == json.loads(json.dumps([same]))[0]
        about = same.kind, same.level, same.heading, same.words
        assert about == ("left-out", "warning", "run", "9 rows are left out")


def test_quiet_keeps_warnings_and_large_shares():
    result = TableResult()
    result.table = pl.DataFrame({"x": [1]})
    result.notes = [
        show.Note("a warning", level="warning"), show.Note("a note", kind="b"), "a sentence",
        *show.note_shares([("", 9, 60)], "missing"), *show.note_shares([("", 0, 60)], "undefined"),
    ]  # fmt: skip
    assert result.quiet().remarks() == ["Queries: 9 of 60 missing", "Note: a warning"]
    result.notes = show.note_shares([("9 of 10", 3, 60), ("b", 0, 60)], "missing")
    assert (
        result.remarks() == ["Queries: 3 of 60 (9 of 10) missing"] and not result.quiet().remarks()
    )
