#!/usr/bin/env bash
# llama-index-core 0.14.25
# A good guess: NDCG and average precision are at most 1.
# What happens: one expected id that was retrieved twice counts twice: 1.63 and 2.0.
# Output in November 2026: llama-index-core 0.14.25: NDCG = 1.6309, AP = 2.0000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q llama-index-core==0.14.25
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
from llama_index.core.evaluation.retrieval.metrics import NDCG, AveragePrecision
ids = {"expected_ids": ["a"], "retrieved_ids": ["a", "a"]}
ndcg, ap = NDCG().compute(**ids).score, AveragePrecision().compute(**ids).score
print(f"llama-index-core {version('llama-index-core')}: NDCG = {ndcg:.4f}, AP = {ap:.4f}")
assert ndcg > 1.6 and ap == 2
PYTHON
