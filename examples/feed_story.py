"""A video feed: recommend what users watch next without repeating it, on simulated data.

pip install '.[report]' && python examples/feed_story.py [folder]
"""

import sys
from pathlib import Path

import altair as alt
import duckdb
import polars as pl
import simulate

import rankql
from rankql.pages.panels import CONFIG, GREY, PALETTE

folder = Path(*sys.argv[1:2] or ["rankql-stories"]) / "feed"
simulate.videos(folder)
con = duckdb.connect()
rankql.register(con)
con.read_parquet(f"{folder}/videos.parquet").create_view("videos")
con.read_parquet(f"{folder}/watched.parquet").create_view("watched")

# The last video of each user is the one to predict. The recommenders learn from the earlier ones.
con.execute("""
    CREATE TABLE log AS FROM leave_one_out('watched');
    CREATE VIEW train AS FROM log WHERE split = 'train';
    CREATE TABLE qrels AS SELECT user, item, 1 AS rel FROM log WHERE split = 'test';
    CREATE TABLE known AS
        SELECT item, topic, count(train.user) AS popularity
        FROM videos LEFT JOIN train USING (item) GROUP BY item, topic;
    CREATE TABLE taste AS
        SELECT user, topic, n / sum(n) OVER (PARTITION BY user) AS liking
        FROM (SELECT user, topic, count(*) AS n FROM train JOIN videos USING (item) GROUP BY ALL);
    CREATE TABLE users AS
        SELECT user, CASE WHEN count(*) < 10 THEN 'few' ELSE 'many' END AS history
        FROM train GROUP BY user;
    CREATE TABLE unseen AS
        SELECT user, item, topic, popularity, coalesce(liking, 0) AS liking,
               row_number() OVER (PARTITION BY user, topic ORDER BY popularity DESC, item) AS place
        FROM users CROSS JOIN known LEFT JOIN taste USING (user, topic)
        WHERE NOT EXISTS (FROM train WHERE train.user = users.user AND train.item = known.item);
""")

# Four rankings of the videos that the user has not seen.
SCORES = {
    "popular": "popularity",
    "taste": "liking * popularity",
    "topics in turn": "liking / place",
    "at random": "md5(user || item)[:8]",
}
con.execute(
    "CREATE TABLE shown (system TEXT, user TEXT, item TEXT, topic TEXT, popularity INT, pos INT)"
)
for system, score in SCORES.items():
    con.execute(
        f"""
        INSERT INTO shown
        SELECT ?, user, item, topic, popularity,
               row_number() OVER (PARTITION BY user ORDER BY {score} DESC, item) AS pos
        FROM unseen QUALIFY pos <= 10""",
        [system],
    )

print("1. Is the video that was watched next in the top 3?\n")
result = rankql.compare(
    "shown", "qrels", "nDCG@3", con=con, query="user", pos="pos", system="system",
    attributes="users", by="history", baseline="taste",
)  # fmt: skip
print(*result.pairs.filter(slice="all")["sentence"], sep="\n")
print(
    result.pairs.filter(pl.col("slice") != "all").select(
        "slice", "b", "mean_a", "mean_b", "verdict"
    )
)

print("\n2. Coverage, concentration, novelty and personalisation of the top 3 of all users:\n")
BEYOND = """
    SELECT {by},
           catalogue_coverage(item, catalogue := (SELECT count(*) FROM videos)) AS coverage,
           gini(item, catalogue := (SELECT count(*) FROM videos))               AS gini,
           novelty(popularity, users := (SELECT count(*) FROM users))           AS novelty,
           personalisation(user, item)                                          AS personalisation
    FROM shown JOIN users USING (user) WHERE pos <= 3 GROUP BY {by} ORDER BY {by}
"""
beyond = con.sql(BEYOND.format(by="system")).pl()
print(beyond)
print("\nBy history, computed from the rows of each slice, not averaged over users:\n")
print(con.sql(BEYOND.format(by="system, history")).pl())

print("\n3. Diversity of single lists, averaged over users:\n")
lists = con.sql("""
    WITH plain AS (SELECT user, item FROM shown WHERE system = 'popular'), rows AS (
        SELECT shown.*, coalesce(rel, 0) AS rel, plain.item IS NOT NULL AS baseline
        FROM shown LEFT JOIN qrels USING (user, item) LEFT JOIN plain USING (user, item)
    )
    SELECT system, avg(diversity) AS topic_diversity, avg(unexpected) AS unexpectedness,
           avg(lucky) AS serendipity
    FROM (SELECT system, user, category_diversity(topic, pos, 10) AS diversity,
                 unexpectedness(baseline, pos, 10) AS unexpected,
                 serendipity(rel, baseline, pos, 10) AS lucky
          FROM rows GROUP BY system, user)
    GROUP BY system ORDER BY system
""").pl()
print(lists)

quality = result.summary.filter(metric="nDCG@3", slice="all").select("system", "mean", "lo", "hi")
both = quality.join(beyond, on="system").join(lists, on="system")
of = {row["system"]: row for row in both.rows(named=True)}
taste, turns, random = of["taste"], of["topics in turn"], of["at random"]
print("\n4. Conclusion\n")
print(
    f"'at random' is the most novel ({random['novelty']:.1f} bits), but hardly watched "
    f"(nDCG@3 {random['mean']:.3f}).\nNovelty alone is not a goal. 'taste' and 'topics in turn' "
    f"have a similar nDCG@3, {taste['mean']:.3f}\nand {turns['mean']:.3f}, but in lists of ten "
    f"{turns['topic_diversity']:.0%} of the pairs of 'topics in turn' have different topics,\n"
    f"against {taste['topic_diversity']:.0%}. Of two equally relevant rankings, choose the more "
    "diverse one."
)

systems = alt.Color("system", legend=None).scale(domain=[*SCORES], range=PALETTE[:4])
base = alt.Chart(both).encode(
    x=alt.X("topic_diversity", title="pairs of different topics in a list of ten")
    .axis(format="%")
    .scale(domain=[0, 1]),
    color=systems,
)
against = alt.layer(
    base.mark_rule().encode(y=alt.Y("lo", title="nDCG@3 with 95% CI"), y2="hi"),
    base.mark_point(filled=True, size=90, opacity=1).encode(y="mean"),
    base.mark_text(align="left", dx=10).encode(y="mean", text="system"),
).properties(width=420, height=280, title="Relevance and diversity")
shares = both.unpivot(["coverage", "gini", "personalisation", "unexpectedness"], index="system")
above = alt.Header(
    labelOrient="top", labelAnchor="start", labelColor=GREY, labelFontSize=12, labelPadding=0
)
bars = (
    alt.Chart(shares)
    .mark_bar()
    .encode(x=alt.X("value", title=None), y=alt.Y("system", title=None, sort=[*SCORES]),
            color=systems, row=alt.Row("variable", title=None, header=above, spacing=4))
    .properties(width=260, height=48, title="Beyond accuracy")
)  # fmt: skip
alt.hconcat(against, bars).configure(**{**CONFIG, "background": "white"}).save(
    folder / "story.png", scale_factor=2
)
result.plot("slices").properties(background="white").save(folder / "intervals.png", scale_factor=2)
print(f"\nCharts: {folder}/story.png, {folder}/intervals.png")
