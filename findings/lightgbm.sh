#!/usr/bin/env bash
# lightgbm 4.7.0
# A good guess: a group without relevant rows is left out of the mean of ndcg, or counts 0.
# What happens: it counts 1, so labels 0, 0, 0 and 0, 1, 0 have the mean 0.815 instead of 0.631 or 0.315.
# Output in November 2026: lightgbm 4.7.0: ndcg@3 = 0.8155
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lightgbm==4.7.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import lightgbm, numpy
labels, scores, sizes = [0, 0, 0, 0, 1, 0], [3.0, 2, 1, 3, 2, 1], [3, 3]
options = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [3], "verbose": -1,
           "min_data_in_leaf": 1, "feature_pre_filter": False}
data = lightgbm.Dataset(numpy.zeros((6, 1)), label=labels, group=sizes, init_score=scores, params=options)
found = {}
lightgbm.train(options, data, 1, valid_sets=[data], valid_names=["rows"],
               callbacks=[lightgbm.record_evaluation(found)])
value = found["rows"]["ndcg@3"][0]
print(f"lightgbm {lightgbm.__version__}: ndcg@3 = {value:.4f}")
assert abs(value - (1 + 0.6309297536) / 2) < 1e-6
PYTHON
