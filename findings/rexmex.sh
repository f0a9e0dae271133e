#!/usr/bin/env bash
# rexmex 0.1.3
# A good guess: kendall_tau and spearmans_rho of two rankings say how alike they order their items, so that other names of
# the items change nothing.
# What happens: they correlate the ids, number by number, as if these were ranks. The same two rankings are alike or
# opposite, depending on what the items are called. The share of hits_at_k is of the items shown, not of k or of users.
# Output in November 2026:
#   two pairs swapped: tau 0.3333, rho 0.6
#   the same items with other ids: tau -1.0, rho -1.0
#   hits_at_k(k=10) of three items with two hits: 0.6667
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q rexmex==0.1.3 numpy==1.26.4 scipy==1.13.1 pandas==2.3.3 scikit-learn==1.9.1 six==1.17.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from rexmex.metrics.ranking import hits_at_k, kendall_tau, spearmans_rho
one, other = [1, 2, 3, 4], [2, 1, 4, 3]
ids = {1: 10, 2: 40, 3: 20, 4: 30}
def of(one, other):
    return tuple(round(float(measure(one, other)[0]), 4) for measure in (kendall_tau, spearmans_rho))
plain, renamed = of(one, other), of([ids[x] for x in one], [ids[x] for x in other])
print("two pairs swapped: tau {}, rho {}".format(*plain))
print("the same items with other ids: tau {}, rho {}".format(*renamed))
hits = round(hits_at_k([1, 2], [1, 2, 3], k=10), 4)
print("hits_at_k(k=10) of three items with two hits:", hits)
assert plain[0] > 0 > renamed[0] and hits == 0.6667
PYTHON
