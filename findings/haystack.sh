#!/usr/bin/env bash
# haystack-ai 3.4.1
# A good guess: documents are compared by their ids.
# What happens: they are compared by their text: another document with the same text is a hit.
# Output in November 2026: haystack-ai 3.4.1: recall = 1.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q haystack-ai==3.4.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
from haystack import Document
from haystack.components.evaluators import DocumentRecallEvaluator
truth, other = Document(id="contract-2019", content="See annex."), Document(id="contract-2024", content="See annex.")
value = DocumentRecallEvaluator().run(ground_truth_documents=[[truth]], retrieved_documents=[[other]])["score"]
print(f"haystack-ai {version('haystack-ai')}: recall = {value}")
assert value == 1
PYTHON
