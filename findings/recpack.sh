#!/usr/bin/env bash
# recpack 0.3.6
# A good guess: of recommendations with equal scores, the first columns (or the last) are the top k, so that an item which
# is recommended below all of them changes nothing.
# What happens: a partial sort (numpy 1.26.4) leaves equal scores where it happens to, and which of them are in the top 2
# depends on how many recommendations the user has. Recall@2 of the user whose item is in column 3 falls from 1 to 0
# when a worse item is added; the user of column 1 gains what it loses.
# Output in November 2026:
#   four equal scores, columns in the top 2: [2, 3]
#   and a lower score in a fifth column: [1, 2]
#   six equal scores: [1, 5]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==1.26.4 scipy==1.17.1 pandas==2.3.3 scikit-learn==1.9.1 tqdm==4.70.1 PyYAML==6.0.4
"$folder/venv/bin/pip" install -q --no-deps recpack==0.3.6  # its metrics need neither torch nor hyperopt
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from recpack.metrics import RecallK
from scipy.sparse import csr_matrix
def found(scores, k=2):
    """The columns whose user, to whom nothing else is relevant, has a recall above 0."""
    columns = []
    for column in range(len(scores)):
        metric = RecallK(k)
        relevant = csr_matrix(([1.0], ([0], [column])), shape=(1, len(scores)))
        metric.calculate(relevant, csr_matrix([scores]))
        columns += [column] if metric.value == 1 else []
    return columns
four, five, six = found([1.0] * 4), found([1.0] * 4 + [0.5]), found([1.0] * 6)
print("four equal scores, columns in the top 2:", four)
print("and a lower score in a fifth column:", five)
print("six equal scores:", six)
assert (four, five, six) == ([2, 3], [1, 2], [1, 5])
PYTHON
