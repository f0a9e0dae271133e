#!/usr/bin/env bash
# rectools 0.19.0
# A good guess: NDCG of a perfect list is 1.
# What happens: it is divided by the DCG of k relevant items: one relevant item at the top has 0.22 at k = 10.
# Output in November 2026: rectools 0.19.0: NDCG@10 = 0.2201
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q rectools==0.19.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
import pandas
from rectools import Columns
from rectools.metrics import NDCG
shown = pandas.DataFrame({Columns.User: [1], Columns.Item: ["a"], Columns.Rank: [1]})
liked = pandas.DataFrame({Columns.User: [1], Columns.Item: ["a"]})
value = NDCG(k=10).calc(shown, liked)
print(f"rectools {version('rectools')}: NDCG@10 = {value:.4f}")
assert abs(value - 0.22009) < 1e-5
PYTHON
