#!/usr/bin/env bash
# torchmetrics 1.9.0, torch 2.13.0
# A good guess: precision and recall of the same top 5 count the same hits, also if scores are equal.
# What happens: precision takes its top by topk(), recall by argsort(), and each orders equal scores in its own
# way: with eight equal scores and one relevant item, recall@5 is 1 (it was found) and precision@5 is 0 (it was not).
# Seen too: on a GPU (torch 2.11.0) the same call has other values than on a CPU, as both orders are others there.
# Output in November 2026: torchmetrics 1.9.0, torch 2.13.0+cpu: item 0 relevant: recall@5 1.0, precision@5 0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 torchmetrics==1.9.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
import torchmetrics
from torchmetrics.functional.retrieval import retrieval_precision, retrieval_recall
scores, differ = torch.ones(8), []
for relevant in range(8):
    judged = torch.zeros(8, dtype=torch.int)
    judged[relevant] = 1
    recall = retrieval_recall(scores, judged, top_k=5).item()
    precision = retrieval_precision(scores, judged, top_k=5).item()
    if (recall > 0) != (precision > 0):
        differ.append(f"item {relevant} relevant: recall@5 {recall:.1f}, precision@5 {precision:.1f}")
print(f"torchmetrics {torchmetrics.__version__}, torch {torch.__version__}", *differ, sep="\n")
assert differ
PYTHON
