#!/usr/bin/env bash
# irrCAC 0.4.4, krippendorff 0.9.0
# A good guess: krippendorff() with weights="ordinal" is Krippendorff's alpha for ordinal labels, as it is with "identity",
# "quadratic" and "ratio" for nominal, interval and ratio labels.
# What happens: its ordinal weights are Gwet's, which know the number of categories between two labels and not how many
# labels these have. Alpha is .776 where Krippendorff's is .818.
# Output in November 2026:
#   nominal 0.3982 0.3982
#   ordinal 0.7764 0.8178
#   interval 0.8347 0.8347
#   ratio 0.8041 0.8041
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q irrCAC==0.4.4 krippendorff==0.9.0 numpy==1.26.4 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import krippendorff
import numpy
import pandas
from irrCAC.raw import CAC
random = numpy.random.default_rng(0)
first = random.integers(1, 5, 40)
second = numpy.clip(first + random.integers(-1, 2, 40), 1, 4)
labels = numpy.column_stack([first, second]).astype(float)
alphas = {}
for level, weights in {"nominal": "identity", "ordinal": "ordinal", "interval": "quadratic", "ratio": "ratio"}.items():
    own = CAC(pandas.DataFrame(labels), weights=weights).krippendorff()["est"]["coefficient_value"]
    alphas[level] = round(own, 4), round(krippendorff.alpha(labels.T, level_of_measurement=level), 4)
    print(level, *alphas[level])
# Krippendorff's ordinal distance: the labels from a to b, those at the ends half.
counts = [int((labels == value).sum()) for value in (1, 2, 3, 4)]
def distance(a, b):
    low, high = sorted((int(a), int(b)))
    return (sum(counts[low - 1 : high]) - (counts[low - 1] + counts[high - 1]) / 2) ** 2
observed = sum(distance(a, b) for a, b in labels) / len(labels)
values = [*labels.ravel()]
expected = sum(distance(a, b) for a in values for b in values) / len(values) / (len(values) - 1)
assert round(1 - observed / expected, 4) == alphas["ordinal"][1] == 0.8178
assert alphas["ordinal"][0] == 0.7764
assert all(own == other for level, (own, other) in alphas.items() if level != "ordinal")
PYTHON
