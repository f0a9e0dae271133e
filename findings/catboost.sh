#!/usr/bin/env bash
# catboost 1.2.10
# A good guess: NDCG of equal predictions is the mean over their orders, or depends on the order of the rows.
# What happens: it is that of the worst order, whatever the order of the rows: 0.5, where the mean is 0.71.
# Output in November 2026: catboost 1.2.10: NDCG of equal predictions = [0.5, 0.5, 0.5]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q catboost==1.2.10
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import catboost
from catboost.utils import eval_metric
values = [eval_metric(labels, [0.0, 0.0, 0.0], "NDCG", group_id=[0, 0, 0])[0]
          for labels in ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0])]
print(f"catboost {catboost.__version__}: NDCG of equal predictions = {values}")
assert values == [0.5, 0.5, 0.5]
PYTHON
