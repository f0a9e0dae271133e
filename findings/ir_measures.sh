#!/usr/bin/env bash
# ir-measures 0.4.3
# A good guess: RR and RR@10 of three items are equal.
# What happens: equal scores are taken by id descending for RR, and ascending for RR@10.
# Output in November 2026: ir_measures 0.4.3: RR = 0.3333, RR@10 = 1.0000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ir-measures==0.4.3 pytrec-eval-terrier==0.5.11
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
import ir_measures
from ir_measures import RR
judged, run = {"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}
values = ir_measures.calc_aggregate([RR, RR @ 10], judged, run)
print(f"ir_measures {version('ir-measures')}: RR = {values[RR]:.4f}, RR@10 = {values[RR @ 10]:.4f}")
assert abs(values[RR] - 1 / 3) < 1e-9 and values[RR @ 10] == 1
PYTHON
