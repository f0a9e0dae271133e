#!/usr/bin/env bash
# crowd-kit 1.4.2
# A good guess: a tied majority vote does not depend on the order of the rows.
# What happens: the label that stands first in the table wins.
# Output in November 2026: crowd-kit 1.4.2: ['no', 'yes']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q crowd-kit==1.4.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
import pandas
from crowdkit.aggregation import MajorityVote
rows = [("t", "w1", "no"), ("t", "w2", "yes")]
found = [MajorityVote().fit_predict(pandas.DataFrame(order, columns=["task", "worker", "label"]))["t"]
         for order in (rows, rows[::-1])]
print(f"crowd-kit {version('crowd-kit')}: {found}")
assert found == ["no", "yes"]
PYTHON
