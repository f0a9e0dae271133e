"""Queries in the dialects that no test executes: one to read, and the digest of a longer one."""

import hashlib

from rankql.engines.windows import translate_to_windows
from support.paths import ROOT

PRINTED = ["snowflake", "bigquery", "databricks", "trino", "redshift"]
READABLE = "SELECT user, rr(rel, pos, 10) AS rr FROM shown GROUP BY user"
LONG = (
    "SELECT user, ndcg(exp2_gain(rel), pos, 10), ap(rel, pos) AS ap, bpref(rel, pos) AS bpref,"
    " err(rel, pos, 10, max_rel := 4, p := 0.9) AS err, rbp(rel, pos, p := 0.8) AS rbp,"
    " r_precision(rel, pos) AS rp, ndcg(rel, pos, 2, discounts := [0.8, 1]) AS boosted,"
    " hit_at(rel, pos, 5) AS hit, micro_precision_at(rel, pos, 5, query := day) AS micro,"
    " count(*) AS n"
    " FROM shown WHERE day >= 3 GROUP BY user ORDER BY ap DESC"
)


def snapshot_path(dialect):
    """The file with the text of a dialect."""
    return ROOT / "tests" / "snapshots" / f"{dialect}.sql"


def write_snapshot(dialect):
    """The text of a dialect: the readable query, and the digest of the other one."""
    readable, long = (translate_to_windows(query, dialect) for query in (READABLE, LONG))
    digest = hashlib.sha256(long.encode()).hexdigest()
    return f"{readable}\n-- SHA-256 of LONG in tests/support/printed_dialects.py: {digest}\n"
