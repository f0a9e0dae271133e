#!/usr/bin/env bash
# crowd-kit 1.4.2
# A good guess: the columns of fit_predict_proba are the labels in order, 0, 1, 2, as in scikit-learn, so argmax is the grade.
# What happens: they are in the order in which labels first occur, so the same labels in other rows give another argmax.
# Output in November 2026: crowd-kit 1.4.2: columns [2, 0, 1], argmax [0, 1, 2], labels [2, 0, 1]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q crowd-kit==1.4.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
import pandas
from crowdkit.aggregation import MajorityVote
rows = [("a", "w1", 2), ("a", "w2", 2), ("b", "w1", 0), ("b", "w2", 0), ("c", "w1", 1), ("c", "w2", 1)]
shares = MajorityVote().fit_predict_proba(pandas.DataFrame(rows, columns=["task", "worker", "label"])).sort_index()
columns, argmax = shares.columns.tolist(), shares.to_numpy().argmax(axis=1).tolist()
labels = shares.idxmax(axis=1).tolist()
print(f"crowd-kit {version('crowd-kit')}: columns {columns}, argmax {argmax}, labels {labels}")
assert columns == [2, 0, 1] and argmax == [0, 1, 2] and labels == [2, 0, 1]
PYTHON
