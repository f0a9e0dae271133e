"""Folders that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rankql"
# Judgments and runs of TREC 2019 Deep Learning; tests are skipped where they are absent.
DL19 = ROOT.parent / "shared" / "data" / "dl19"
