"""Objects that a tool printed into the cells of a file are no ids; ids with ( = : stay ids."""

import polars as pl
import pytest

from support.parameters import few
from support.reading import read, refused

QRELS = {"a": ["d1"], "b": ["d2"]}
# Of Haystack 3.4.1, LangChain and LlamaIndex, FAISS' (id, score), and NumPy.
PRINTED = [
    (
        "[Document(id=d1, content: 'text d1', score: 0.5), Document(id=d3, content: 'x')]",
        "Document",
    ),
    ("Document(id='d1', page_content='a b', metadata={})", "Document"),
    ("[NodeWithScore(node=TextNode(id_='d1'), score=0.5)]", "NodeWithScore"),
    ("[<Document: {'content': 'a'}>]", "Document"),
    ("[('d1', 0.5), ('d2', 0.4)]", "tuple"),
    ("('d1', 'd2')", "tuple"),
    ("array(['d1', 'd2'], dtype=object)", "array"),
]


def table(cell, name="retrieved"):
    return pl.DataFrame({"question": ["a", "b"], name: [cell, ""]})


@few(6)(("cell", "kind"), PRINTED)
@pytest.mark.parametrize("name", ["retrieved", "documents", "reference_context_ids"])
def test_they_are_refused_with_their_class(cell, kind, name, tmp_path):
    right = {"tuple": "[x[0] for x in results]", "array": "array.tolist()"}
    expected = f"{name} has the text of {kind} objects, such as {cell[:40]!r}. Write ids, such as "
    expected += right.get(kind, "[d.id for d in documents]")
    table(cell, name).write_csv(tmp_path / "t.csv")
    for data in (table(cell, name), tmp_path / "t.csv"):
        pair = (QRELS, data) if name.startswith("reference") else (data, QRELS)
        error = refused(*pair, "RR", item=None if name != "documents" else name)
        assert expected in str(error)


@few(2)("cell", ["Mercury_(planet)", "https://x.org/?id=2", "doc:12", "f(x)=2"])
def test_ids_stay_ids(cell):
    lists = [cell, f"other {cell}", f"['{cell}']", f"other;{cell}"]
    for text, value in zip(lists, [1, 0.5, 1, 0.5], strict=True):
        assert read(table(text), {"a": [cell], "b": [cell]})["RR"] == value / 2


def test_ids_in_angle_brackets_stay_ids():
    run = table("<dbpedia:Mercury_(planet)> <http://x.org/a>")
    judged = {"a": ["<http://x.org/a>"], "b": ["<http://x.org/a>"]}
    assert read(run, judged)["RR"] == 0.25
