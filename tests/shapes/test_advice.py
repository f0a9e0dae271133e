"""What messages advise works: the input, the message, the call that follows it, and its result.

tests/cli/test_cli.py has the same words as options of the command line.
"""

import polars as pl
import pytest

from support.parameters import few
from support.reading import one_line, read, refused

RUN = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "z"], "score": [2.0, 1.0, 1.0]})
QRELS = pl.DataFrame({"query": ["a", "a", "b"], "item": ["y", "x", "z"], "rel": [1, 0, 1]})
ITEMS = QRELS.drop("rel")
EVENTS = pl.Series(["buy", "view", "buy"])
LISTS = pl.DataFrame({"query": ["a", "b"], "found": [["x", "y"], ["z"]]})
OBJECTS = pl.Series([[{"id": "y", "my": 3}, {"id": "x", "my": 0}], [{"id": "z", "my": 3}]])
# The run, the judgments and the options; what the message advises, and options that follow it; the
# same on the command line. A text is a CSV file. QRELS in the options: the judgments are passed.
# The run, the judgments and the options; what the message advises, and options that follow it. A
# text is a CSV file. QRELS in the options: the judgments are passed.
TABLE = [
    (RUN, None, {}, "Pass qrels=.", {"qrels": QRELS}),
    (RUN, ITEMS.with_columns(event=EVENTS), {}, "rel=('event', {'buy': ..., 'view': ...})",
     {"rel": {"buy": 1, "view": 0}}),
    (RUN, ITEMS.with_columns(says=EVENTS), {"rel": {"buy": 1, "view": 0}},
     "Pass: rel=('says', {'buy': 1, 'view': 0})", {"rel": ("says", {"buy": 1, "view": 0})}),
    (RUN, ITEMS.with_columns(rel=EVENTS), {}, "rel=('rel', {'buy': ..., 'view': ...})",
     {"rel": ("rel", {"buy": 1, "view": 0})}),
    (RUN, ITEMS.with_columns(esci=EVENTS), {"rel": "esci"},
     "rel=('esci', {'buy': ..., 'view': ...})", {"rel": ("esci", {"buy": 1, "view": 0})}),
    (RUN, ITEMS.with_columns(event=EVENTS, buy=pl.Series([1, 0, 1]), view=pl.lit(0)),
     {"rel": {"buy": 1, "view": 0}}, "Pass rel=('event', {'buy': 1, 'view': 0})",
     {"rel": ("event", {"buy": 1, "view": 0})}),
    (RUN, ITEMS.with_columns(bought=pl.Series([5, 0, 1]), seen=pl.lit(0)),
     {"rel": {"bought": 3, "seen": 1}}, "rel='3 * bought + 1 * seen'",
     {"rel": "3 * bought + 1 * seen"}),
    (RUN, ITEMS.rename({"item": "corpus-id"}).with_columns(score=pl.Series([1.5, 0.5, 1.0])), {},
     "or rel='score'", {"rel": "score"}),
    (RUN, ITEMS[[0, 2]].with_columns(n=pl.Series([1, 2])), {}, "rel='1' rel='n'", {"rel": "1"}),
    (LISTS.rename({"found": "retrieved"}), None, {}, "pass qrels=", {"qrels": QRELS}),
    (LISTS.select("query", retrieved="found", relevant=OBJECTS), None, {},
     "Pass one of: rel='relevant.my'", {"rel": "relevant.my"}),
    ("a,x,2,e,f\na,y,1,e,f\nb,z,1,e,f\n", QRELS, {}, "columns=['query', 'item', 'score']",
     {"columns": ["query", "item", "score", "x4", "x5"]}),
    (RUN, "a,y,1\na,x,0\nb,z,1\n", {}, "of judgments 'rel'",
     {"columns": ["query", "item", "rel"]}),
    (RUN.select("query", "item", cosine=pl.col("score") / 4), QRELS, {},
     "Pass: score='cosine'", {"score": "cosine"}),
    (RUN.rename({"score": "distance_score"}), QRELS, {"score": "distance_score"},
     "descending=False descending=True", {"score": "distance_score", "descending": True}),
    (RUN.with_columns(pos=pl.Series([1, 2, 1])), QRELS, {"descending": True}, "or pass score=",
     {"score": "score", "descending": True}),
    (RUN.with_columns(pos=pl.Series([0, 1, 0])), QRELS, {}, "add 1", {"pos": "pos + 1"}),
    (pl.DataFrame({"request_id": ["1", "2"], "pos": [2, 1], "rel": [1, 1]}), None, {},
     "Pass: query='request_id'", {"query": "request_id"}),
    (RUN.rename({"query": "qid"}), QRELS.rename({"query": "q"}).with_columns(user=pl.lit(1)), {},
     "q of qrels matches: query=['qid', 'q']", {"query": ["qid", "q"]}),
]  # fmt: skip


@pytest.mark.few(7)
@pytest.mark.parametrize("row", TABLE, ids=[f"{i}: {row[3]}" for i, row in enumerate(TABLE)])
def test_advice_works(row, tmp_path):
    *inputs, wrong, advice, right = row
    for place, text in enumerate(inputs):
        if isinstance(text, str):
            inputs[place] = tmp_path / "data.csv"
            inputs[place].write_text(text)
    error = refused(*inputs, **wrong)
    assert advice in one_line(error)
    # The item y of query a is relevant and at position 2.
    run, qrels = inputs
    assert read(run, **{"qrels": qrels, "metrics": "RR", **right})["RR"] == 0.75


def test_a_folder_is_advised_by_its_files(tmp_path):
    RUN.write_csv(tmp_path / "a.csv")
    error = refused(tmp_path, QRELS)
    pattern = str(error).rpartition("such as ")[2].strip("'")
    assert read(pattern, QRELS)["RR"] == 0.75


@few(2)("blank", [0, 2])
@pytest.mark.parametrize("broken", ['{"query": "a", "item":', "text", '{"query": "a" "item": 1}'])
def test_a_broken_line_has_its_own_number(broken, blank, tmp_path):
    rows = [f'{{"query": "a", "item": "x{i}", "score": {i}}}' for i in range(9)]
    (tmp_path / "run.jsonl").write_text("\n".join([*rows, *[""] * blank, broken, *rows]) + "\n")
    refused(tmp_path / "run.jsonl", QRELS, match=r"run\.jsonl.* at byte \d+ in line 1[0-3]: ")
