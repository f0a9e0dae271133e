"""The query that is printed in every dialect, and where its text is kept."""

from support.paths import ROOT

PRINTED = ["snowflake", "bigquery", "databricks", "trino", "redshift"]
SNAPSHOT = (
    "SELECT user, ndcg(exp2_gain(rel), pos, 10), ap(rel, pos) AS ap, bpref(rel, pos) AS bpref,"
    " err(rel, pos, 10, max_rel := 4, p := 0.9) AS err, rbp(rel, pos, p := 0.8) AS rbp,"
    " r_precision(rel, pos) AS rp, ndcg(rel, pos, 2, discounts := [0.8, 1]) AS boosted,"
    " hit_at(rel, pos, 5) AS hit, micro_precision_at(rel, pos, 5, query := day) AS micro,"
    " count(*) AS n"
    " FROM shown WHERE day >= 3 GROUP BY user ORDER BY ap DESC"
)


def snapshot(dialect):
    """The file that keeps the text printed in a dialect."""
    return ROOT / "tests" / "snapshots" / f"{dialect}.sql"
