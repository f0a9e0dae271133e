"""Four newcomers reach their first right number in two attempts: flows.md prints what it shows."""

import polars as pl
import pytest

from support.doc_blocks import FLOWS, cells, run_blocks


@pytest.mark.slow
def test_the_flows_of_newcomers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = FLOWS.read_text("utf-8")
    with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
        assert cells(run_blocks(text)) == cells(text), "run python tests/generate.py docs"


def test_no_flow_has_a_second_error():
    """Each section refuses at most one call, and its pages exist."""
    _, *flows = FLOWS.read_text("utf-8").split("\n## ")
    assert len(flows) == 4
    for flow in flows:
        assert flow.count("except rankql.RankqlError") <= 1
        page = flow.partition("](")[2].partition(")")[0]
        assert (FLOWS.parent / page).is_file()
