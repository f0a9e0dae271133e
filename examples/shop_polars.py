"""nDCG of a simulated shop by segment, in polars, streamed from Parquet.

python -m rankql demo && python examples/shop_polars.py
"""

import polars as pl

import rankql

log = pl.scan_parquet("rankql-demo/shop.parquet")
ranking = ["segment", "query"]

# One value per ranking first; the average after, with what it leaves out.
quality = log.group_by(ranking).agg(
    rankql.ndcg("rel", "pos", k=10),
    rankql.ndcg(rankql.exp2_gain("rel"), "pos", k=10).alias("ndcg_exponential"),
    rankql.rr("rel", "pos", threshold=3).alias("rr_bought"),
    rankql.judged_at("rel", "pos", k=10),
)
by_segment = quality.group_by("segment").agg(
    queries=pl.len(), undefined=pl.col("ndcg").null_count(), mean=pl.col("ndcg").mean()
)
print(by_segment.sort("segment").collect(engine="streaming"))

# Without positions: the same from the scores.
by_score = log.group_by(ranking).agg(rankql.ndcg_by_score("rel", "score", "item", k=10))
print(by_score.select(pl.col("ndcg_by_score").mean()).collect())
