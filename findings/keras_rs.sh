#!/usr/bin/env bash
# keras-rs 0.4.0
# A good guess: shuffle_ties=False keeps equal scores in the order of the rows.
# What happens: equal scores are shuffled all the same: the value changes from call to call.
# Output in November 2026: keras-rs 0.4.0: several different values in 12 calls
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q keras-rs==0.4.0 keras==3.15.1 jax==0.10.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import os
os.environ["KERAS_BACKEND"] = "jax"
from importlib.metadata import version
import numpy
from keras_rs.metrics import NDCG
values = set()
for _ in range(12):
    metric = NDCG(shuffle_ties=False)
    metric.update_state(numpy.array([[0.0, 0.0, 1.0]]), numpy.array([[1.0, 1.0, 1.0]]))
    values.add(round(float(metric.result()), 4))
print(f"keras-rs {version('keras-rs')}: {sorted(values)}")
assert len(values) > 1
PYTHON
