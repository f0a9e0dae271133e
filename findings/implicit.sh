#!/usr/bin/env bash
# implicit 0.7.3
# A good guess: precision is the mean over users of hits / K: (1 + 1/3) / 2 = 0.667.
# What happens: it is the sum of hits over the sum of min(K, items of the user): (3 + 1) / (3 + 2) = 0.8.
# Output in November 2026: implicit 0.7.3: precision = 0.8000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q implicit==0.7.3 scipy
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import implicit, numpy, scipy.sparse
from implicit.evaluation import ranking_metrics_at_k
class Lists:
    def recommend(self, ids, rows, N=10, **options):
        lists = numpy.array([[0, 1, 2], [3, 4, 5]], dtype=numpy.int32)
        return lists[ids][:, :N], numpy.zeros((len(ids), N), numpy.float32)
liked = scipy.sparse.csr_matrix([[1.0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]], dtype=numpy.float32)
values = ranking_metrics_at_k(Lists(), liked * 0, liked, K=3, show_progress=False, num_threads=1)
print(f"implicit {implicit.__version__}: precision = {values['precision']:.4f}")
assert abs(values["precision"] - 0.8) < 1e-6
PYTHON
