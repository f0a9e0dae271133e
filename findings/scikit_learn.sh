#!/usr/bin/env bash
# scikit-learn 1.9.1
# A good guess: quadratic kappa weighs a disagreement by the distance of the grades.
# What happens: it weighs by the index among the grades that occur: without a grade 2, grades 1 and 3 are one step apart.
# Output in November 2026: scikit-learn 1.9.1: kappa = 0.8000; with labels=[0, 1, 2, 3] 0.6667
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sklearn
from sklearn.metrics import cohen_kappa_score
a, b = [0, 1, 3], [0, 3, 3]
used = cohen_kappa_score(a, b, weights="quadratic")
all_grades = cohen_kappa_score(a, b, weights="quadratic", labels=[0, 1, 2, 3])
print(f"scikit-learn {sklearn.__version__}: kappa = {used:.4f}; with labels=[0, 1, 2, 3] {all_grades:.4f}")
assert abs(used - all_grades) > 0.01
PYTHON
