#!/usr/bin/env bash
# numpy 2.4.6, scikit-learn 1.9.1
# A good guess: the same versions on the same numbers give the same ndcg_score(ignore_ties=True) on every processor.
# What happens: argsort uses the widest instructions of the processor, and each kind orders equal scores in its own way, so
# that two machines in one cloud have another nDCG. Without ignore_ties it is averaged over ties, and the same. On a
# processor with AVX-512; one with AVX2 shows the second and third.
# Output in November 2026: all instructions 0.4898, without AVX-512 0.7316, without AVX2 0.447; averaged over ties 0.4861
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scikit-learn==1.9.1
cat > "$folder/score.py" <<'PYTHON'
import numpy
from sklearn.metrics import ndcg_score
random = numpy.random.default_rng(0)
scores, grades = numpy.round(random.random(1000), 1)[None], random.integers(0, 4, 1000)[None]
print(*(round(float(ndcg_score(grades, scores, k=10, ignore_ties=x)), 4) for x in (True, False)))
PYTHON
# In numpy's names X86_V3 has AVX2, X86_V4 and the others AVX-512.
run() { NPY_DISABLE_CPU_FEATURES="$1" "$folder/venv/bin/python" -W ignore "$folder/score.py"; }
widest=$(run "") narrower=$(run "X86_V4 AVX512_ICL AVX512_SPR") oldest=$(run "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
echo "ignore_ties=True and False: all instructions $widest, without AVX-512 $narrower, without AVX2 $oldest"
[ "${narrower% *}" != "${oldest% *}" ] && [ "${widest#* }" = "${oldest#* }" ]
