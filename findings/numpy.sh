#!/usr/bin/env bash
# numpy 2.4.6, scikit-learn 1.9.1, pandas 3.1.1
# A good guess: the same versions on the same numbers give the same ndcg_score(ignore_ties=True) on every processor, and
# sort_values() the same order.
# What happens: argsort uses the widest instructions of the processor, and each kind orders equal scores in its own way, so
# that two machines in one cloud have another top 10 and another nDCG. Averaged over ties it is the same. On a processor
# with AVX-512; one with AVX2 shows the second line twice.
# Output in November 2026:
#   all instructions: ignore_ties 0.4898, averaged 0.4861, the first rows of pandas 95,958,94
#   without AVX-512: ignore_ties 0.7316, averaged 0.4861, the first rows of pandas 26,27,910
#   without AVX2: ignore_ties 0.447, averaged 0.4861, the first rows of pandas 206,507,414
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scikit-learn==1.9.1 pandas==3.1.1
cat > "$folder/score.py" <<'PYTHON'
import numpy
import pandas
from sklearn.metrics import ndcg_score
random = numpy.random.default_rng(0)
scores, grades = numpy.round(random.random(1000), 1)[None], random.integers(0, 4, 1000)[None]
one, mean = (round(float(ndcg_score(grades, scores, k=10, ignore_ties=x)), 4) for x in (True, False))
rows = pandas.Series(scores[0]).sort_values(ascending=False).index[:3]
print(f"ignore_ties {one}, averaged {mean}, the first rows of pandas", ",".join(map(str, rows)))
PYTHON
# In numpy's names X86_V3 has AVX2, X86_V4 and the others AVX-512.
run() { NPY_DISABLE_CPU_FEATURES="$1" "$folder/venv/bin/python" -W ignore "$folder/score.py"; }
echo "all instructions: $(run "")"
echo "without AVX-512: $(run "X86_V4 AVX512_ICL AVX512_SPR" | tee "$folder/narrower")"
echo "without AVX2: $(run "X86_V3 X86_V4 AVX512_ICL AVX512_SPR" | tee "$folder/oldest")"
! cmp -s "$folder/narrower" "$folder/oldest"
