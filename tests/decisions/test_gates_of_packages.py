"""The rows of rankql in the table of what gates decide, in docs/gate.md."""

import pytest

import rankql
from support.paths import ROOT

QUERIES = [f"q{n:02}" for n in range(1, 41)]
OLD = {q: 2 if q >= "q37" else 1 for q in QUERIES}
LOST = dict.fromkeys(QUERIES[:4])
# The rank of the relevant item of each query, in the old and the new run; None if it is lost.
SETS = {
    "same": (OLD, OLD),
    "worse": (OLD, {**OLD, **dict.fromkeys(QUERIES[:3])}),
    "noisy": (OLD, {**dict.fromkeys(QUERIES, 1), **LOST}),
    "tiny": (dict.fromkeys(QUERIES[:3], 1), {"q01": None, "q02": 1, "q03": 1}),
}
ROWS = {
    'rankql, `max_drop="RR@10:0.02"`': {"max_drop": "RR@10:0.02"},
    "rankql, a baseline alone": {},
}
NAMES = {0: "passed (0)", 1: "failed (1)", 3: "inconclusive (3)"}


def make_run(ranks):
    return {
        q: ["hit" if place == rank else f"x{place}" for place in range(1, 6)]
        for q, rank in ranks.items()
    }


def test_the_sets_are_those_of_the_page():
    means = [sum(1 / rank for rank in run.values() if rank) / len(run) for _, run in SETS.values()]
    assert means == pytest.approx([0.95, 0.875, 0.9, 2 / 3])


@pytest.mark.parametrize("row", ROWS)
def test_pages_have_the_verdicts(row):
    said = []
    for old, new in SETS.values():
        qrels = {q: {"hit": 1} for q in old}
        verdict = rankql.gate(make_run(new), qrels, baseline=make_run(old), **ROWS[row])
        said.append(NAMES[verdict.exit_code])
    page = (ROOT / "docs" / "gate.md").read_text("utf-8")
    (line,) = [x for x in page.splitlines() if x.startswith(f"| {row} |")]
    assert [x.strip() for x in line.split("|")[3:7]] == said
