#!/usr/bin/env bash
# xgboost-cpu 3.2.0
# A good guess: auc of one group is the share of pairs in order: 0.5 for labels 0, 1, 0 by falling prediction.
# What happens: it is 0.667.
# Output in November 2026: xgboost 3.2.0: auc = 0.6667
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q xgboost-cpu==3.2.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy, xgboost
data = xgboost.DMatrix(numpy.zeros((3, 1)), label=numpy.array([0.0, 1.0, 0.0]))
data.set_group([3])
data.set_base_margin(numpy.array([3.0, 2.0, 1.0]))
booster = xgboost.Booster({"objective": "rank:ndcg", "eval_metric": "auc"}, [data])
value = float(booster.eval_set([(data, "rows")], 0).split("rows-auc:")[1].split()[0])
print(f"xgboost {xgboost.__version__}: auc = {value:.4f}")
assert abs(value - 2 / 3) < 1e-6
PYTHON
