"""What a caller sees of an error: their own lines, one frame of ours, and the message."""

import contextlib
import io
import pickle
import subprocess
import sys
import traceback
from copy import copy
from pathlib import Path

import duckdb
import polars as pl
import pytest

import rankql
from support.components import optional
from support.parameters import few

shells = optional("IPython.core.interactiveshell")

FRAME = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "score": [2.0, 1.0]})
RACES = FRAME.rename({"query": "race_id", "item": "horse_id"})
QRELS = {"1": ["a"]}
CALLS = {
    "evaluate": lambda: rankql.evaluate(RACES, metrics="RR"),
    "compare": lambda: rankql.compare({"a": RACES}, QRELS, "RR"),
    "check": lambda: rankql.check(FRAME, 3),
    "ranked": lambda: rankql.ranked(FRAME.drop("score")),
    "ndcg": lambda: rankql.ndcg(FRAME, by="query"),
    "most_popular": lambda: rankql.most_popular(RACES, 2),
    "translate": lambda: rankql.translate("SELECT 1", "no dialect"),
    "convert": lambda: rankql.convert("no.csv", "there.run"),
    "register": lambda: rankql.register(3),
}


class Mine(dict):
    """A run whose method fails."""

    def values(self):
        raise LookupError

    items = keys = __iter__ = values


def files_of(error):
    return [Path(x.filename).name for x in traceback.extract_tb(error.__traceback__)]


@few(5)("name", CALLS)
def test_one_frame_of_ours_stays(name, monkeypatch):
    with pytest.raises(rankql.RankqlError) as caught:
        CALLS[name]()
    here = Path(__file__).name
    assert files_of(caught.value) == [here, here, "errors.py"]
    last = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][-1]
    assert last.f_locals["__tracebackhide__"]  # of pytest
    monkeypatch.setenv("RANKQL_DEBUG", "1")
    with pytest.raises(rankql.RankqlError) as caught:
        CALLS[name]()
    assert len(files_of(caught.value)) > 3


def test_causes_and_contexts_stay():
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.evaluate(FRAME, QRELS, "RR", item="lower(itm)")
    cause = caught.value.__cause__
    assert isinstance(cause, duckdb.Error) and files_of(cause) == []
    with pytest.raises(rankql.RankqlError) as caught:
        try:
            raise KeyError("mine")
        except KeyError:
            rankql.ndcg(FRAME, by="query")
    assert "KeyError: 'mine'" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(LookupError) as own:
        rankql.evaluate(Mine(QRELS), QRELS, "RR")
    assert len(files_of(own.value)) > 3 and files_of(own.value)[-1] == Path(__file__).name


@pytest.mark.notebooks
@pytest.mark.parametrize("debug", ["", "1"])
def test_ipython_shows_lines_of_the_caller(debug, monkeypatch):
    monkeypatch.setenv("RANKQL_DEBUG", debug)
    shell = shells.InteractiveShell.instance(colors="nocolor")
    shell.user_ns["call"] = CALLS["evaluate"]
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            shell.run_cell("call()")
    finally:
        shells.InteractiveShell.clear_instance()
    text = printed.getvalue()
    assert "Question: No query column in run." in text and "\n    query='...'" in text
    assert ("evaluate.py" in text) == bool(debug)


def test_modules_are_there_after_an_import():
    code = (
        "import rankql; print(rankql.errors.RankqlError is rankql.RankqlError, rankql.Question is "
    )
    code += "rankql.errors.Question, callable(rankql.testing.assert_no_regression))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True True True\n", done.stderr


def test_functions_and_questions_are_pickled():
    assert pickle.loads(pickle.dumps(rankql.evaluate)) is rankql.evaluate
    with pytest.raises(rankql.Question) as caught:
        rankql.evaluate(RACES, metrics="RR")
    for again in (pickle.loads(pickle.dumps(caught.value)), copy(caught.value)):
        assert str(again) == str(caught.value) and again.calls == caught.value.calls
