#!/usr/bin/env bash
# ranx 0.3.21
# A good guess: the default random_seed makes Fisher's p-values repeatable.
# What happens: two calls on the same runs have different p-values.
# Output in November 2026: ranx 0.3.21: p = [0.108, 0.121, ...] in 8 calls
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ranx==0.3.21
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
import random
from ranx import Qrels, Run, compare
random.seed(1)
queries = [f"q{i}" for i in range(40)]
judged = Qrels({q: {"a": 1} for q in queries})
def make(name, hits):
    return Run({q: {"a": 2.0 if random.random() < hits else 0.5, "b": 1.0} for q in queries}, name=name)
runs = [make("old", 0.4), make("new", 0.7)]
values = []
for _ in range(8):
    report = compare(judged, runs, ["mrr"], stat_test="fisher").to_dict()
    values.append(report["old"]["comparisons"]["new"]["mrr"])
print(f"ranx {version('ranx')}: p = {values}")
assert len(set(values)) > 1
PYTHON
