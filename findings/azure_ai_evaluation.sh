#!/usr/bin/env bash
# azure-ai-evaluation 1.18.10
# A good guess: a perfect list of relevant documents has xdcg@3 = 100.
# What happens: with grades of 0 and 1 a perfect list has 25, and the default threshold for passing is 50.
# Output in November 2026: azure-ai-evaluation 1.18.10: xdcg@3 = 25.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q azure-ai-evaluation==1.18.10
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
from azure.ai.evaluation import DocumentRetrievalEvaluator
evaluator = DocumentRetrievalEvaluator(ground_truth_label_min=0, ground_truth_label_max=1)
names = ["a", "b", "c"]
found = evaluator(
    retrieval_ground_truth=[{"document_id": name, "query_relevance_label": 1} for name in names],
    retrieved_documents=[{"document_id": name, "relevance_score": 3.0 - i} for i, name in enumerate(names)],
)
value = next(v for k, v in {**found, **found.get("document_retrieval_properties", {})}.items() if k == "xdcg@3")
print(f"azure-ai-evaluation {version('azure-ai-evaluation')}: xdcg@3 = {value}")
assert abs(value - 25) < 1e-6
PYTHON
