#!/usr/bin/env bash
# polars 2.1.0
# A good guess: the first 10 rows of sort("score", descending=True) are those of top_k(10, by="score"), in a frame as in a
# lazy frame, whatever the engine: equal scores are in one order.
# What happens: the engine in memory makes a search for the 10 largest of both, and takes other rows of equal scores than
# a sort does, also if the query sorts. Streaming, the default, takes those of the sort for both. A frame has both answers.
# Output in November 2026: precision of the first 10
#   frame: sort 0.3, top_k 0.1
#   in-memory: sort 0.1, top_k 0.1
#   streaming: sort 0.3, top_k 0.3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q polars==2.1.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import random
import polars as pl
random.seed(7)
rows = [(round(random.random(), 1), random.random() < 0.3) for _ in range(1000)]
items = pl.DataFrame(rows, schema=["score", "relevant"], orient="row")
ways = {
    "sort": lambda frame: frame.sort("score", descending=True).head(10),
    "top_k": lambda frame: frame.top_k(10, by="score"),
}
seen = {"frame": {name: take(items) for name, take in ways.items()}}
for engine in ("in-memory", "streaming"):
    seen[engine] = {name: take(items.lazy()).collect(engine=engine) for name, take in ways.items()}
precision = {where: [round(top["relevant"].mean(), 1) for top in tops.values()] for where, tops in seen.items()}
print("precision of the first 10")
for where, (of_sort, of_top_k) in precision.items():
    print(f"{where}: sort {of_sort}, top_k {of_top_k}")
assert precision == {"frame": [0.3, 0.1], "in-memory": [0.1, 0.1], "streaming": [0.3, 0.3]}
PYTHON
