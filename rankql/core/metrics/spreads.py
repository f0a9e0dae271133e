"""How the values of metrics spread over queries, for published means without values."""

from __future__ import annotations

# Metrics whose value for a query is 0 or 1: always, or at a cutoff of 1.
SHARES = {"hit_at", "all_rel_at", "false_answer", "forbidden_at"}
SHARES_AT_1 = {"precision_at", "rr"}
# By metric, the standard deviations of the differences of two systems, from those that agree to
# those that do not, and of the values: BM25, a dense and a sparse ranker on the 43 queries of TREC
# 2019 Deep Learning (RR with relevant from grade 1 and 2).
SPREADS = {
    "ndcg": ((0.12, 0.27), (0.21, 0.25)), "ap": ((0.09, 0.23), (0.24, 0.26)),
    "rr": ((0.16, 0.49), (0.13, 0.37)), "precision_at": ((0.13, 0.32), (0.22, 0.34)),
    "recall_at": ((0.09, 0.25), (0.27, 0.28)),
}  # fmt: skip
OTHER_SPREADS = ((0.09, 0.49), (0.13, 0.37))
