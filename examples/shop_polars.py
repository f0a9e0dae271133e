"""nDCG by segment in polars, streamed from a Parquet file that may be larger than memory.

python examples/shop_polars.py [million rows, 40 if left out] [streaming or in-memory]

The data are simulated. Memory holds a few row groups, and a few numbers per user.
"""

import sys
import time
from pathlib import Path

import polars as pl
import simulate

import rankql

millions = int((sys.argv[1:] or ["40"])[0])
engine = (sys.argv[2:] or ["streaming"])[0]
folder = Path("rankql-stories") / f"log-{millions}"
if not folder.exists():
    simulate.large_log(folder, users=millions * 1_000_000 // simulate.LENGTH)

# First one value per user, then the average and the number of undefined values.
log, users = pl.scan_parquet(folder / "log.parquet"), pl.scan_parquet(folder / "users.parquet")
quality = log.pipe(rankql.ndcg, by="user", k=10).join(users, on="user")
by_segment = quality.group_by("segment").agg(
    users=pl.len(), undefined=pl.col("ndcg").null_count(), mean=pl.col("ndcg").mean()
)
start = time.perf_counter()
print(by_segment.sort("segment").collect(engine=engine))
print(f"{millions * 24 / 1000:.1f} GB of columns in {time.perf_counter() - start:.1f} s")
