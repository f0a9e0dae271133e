"""nDCG by segment, in polars, streamed from a Parquet that need not fit into memory.

python examples/shop_polars.py [million rows, 40 if left out] [streaming or in-memory]

On simulated data. A few row groups at a time are in memory, and a few numbers for each user.
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

# One value per user first; the average after, with what it leaves out.
log, users = pl.scan_parquet(folder / "log.parquet"), pl.scan_parquet(folder / "users.parquet")
quality = log.pipe(rankql.ndcg, by="user", k=10).join(users, on="user")
by_segment = quality.group_by("segment").agg(
    users=pl.len(), undefined=pl.col("ndcg").null_count(), mean=pl.col("ndcg").mean()
)
start = time.perf_counter()
print(by_segment.sort("segment").collect(engine=engine))
print(f"{millions * 24 / 1000:.1f} GB of columns in {time.perf_counter() - start:.1f} s")
