#!/usr/bin/env bash
# pytrec-eval-terrier 0.5.11
# A good guess: the item with the higher score stands first.
# What happens: scores are rounded to 32 bits: 1.00000001 and 1 are equal, and the item with the later id stands first.
# Output in November 2026: pytrec_eval-terrier 0.5.11: recip_rank = 0.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pytrec-eval-terrier==0.5.11
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
import pytrec_eval
run = {"q": {"a": 1.00000001, "b": 1.0}}
value = pytrec_eval.RelevanceEvaluator({"q": {"a": 1}}, {"recip_rank"}).evaluate(run)["q"]["recip_rank"]
print(f"pytrec_eval-terrier {version('pytrec_eval-terrier')}: recip_rank = {value}")
assert value == 0.5
PYTHON
