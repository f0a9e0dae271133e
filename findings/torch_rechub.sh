#!/usr/bin/env bash
# torch-rechub 0.9.0
# A good guess: Hit@2 is the share of users with a relevant item among the first 2, as elsewhere, and all metrics of one
# call count the same users.
# What happens: Hit@2 is the share of all relevant items that are found, over all users at once: less than Recall@2 here.
# A user without a relevant item lowers Recall, NDCG, MRR and Precision, and not Hit.
# Output in November 2026:
#   three users: Hit@2: 0.4, Recall@2: 0.75
#   with one more, who has no relevant item: Hit@2: 0.4, Recall@2: 0.5625
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 torch-rechub==0.9.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from torch_rechub.basic.metric import topk_metrics
shown = {"a": [1, 2], "b": [1, 9], "c": [5, 9]}
relevant = {"a": [1, 2, 3, 4, 6, 7, 8, 10], "b": [1], "c": [5]}
def of(relevant, shown):
    result = topk_metrics(relevant, shown, (2,))
    return ", ".join(result[name][0] for name in ("Hit", "Recall"))
three = of(relevant, shown)
four = of(relevant | {"d": []}, shown | {"d": [1, 2]})
print("three users:", three)
print("with one more, who has no relevant item:", four)
assert (three, four) == ("Hit@2: 0.4, Recall@2: 0.75", "Hit@2: 0.4, Recall@2: 0.5625")
PYTHON
