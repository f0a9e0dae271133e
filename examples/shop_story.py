"""A shop with a sponsored first slot: what clicks tell and what they hide, on simulated data.

pip install '.[report]' && python examples/shop_story.py [folder]
"""

import sys
from pathlib import Path

import altair as alt
import duckdb
import polars as pl
import simulate

import rankql
from rankql.pages.panels import CONFIG, PALETTE

folder = Path(*sys.argv[1:2] or ["rankql-stories"]) / "shop"
simulate.shop(folder)
con = duckdb.connect()
rankql.register(con)
for name in ("candidates", "log", "events", "trial"):
    con.read_parquet(f"{folder}/{name}.parquet").create_view(name)

print(
    "1. Turn events into grades: for each item shown in a session, the grade of its highest event\n"
)
con.execute("""
    CREATE TABLE graded AS
    SELECT session, query, item, coalesce(rel, 0) AS rel FROM log LEFT JOIN (
        SELECT session, item, graded(event, MAP {'click': 1, 'cart': 2, 'purchase': 3}) AS rel
        FROM events GROUP BY session, item) USING (session, item)
""")
print(con.sql("FROM tally('graded')").pl())

print("\n2. Uncorrected grades prefer the ranker that collected them\n")
con.execute("""
    CREATE TABLE naive AS SELECT query, item, avg(rel) AS rel FROM graded GROUP BY ALL;
    CREATE TABLE rankings AS
    SELECT query, item, product, crowded, appeal, system, row_number() OVER best AS pos
    FROM candidates UNPIVOT (score FOR system IN ("old", "new"))
    WINDOW best AS (PARTITION BY query, system ORDER BY score DESC, item);
""")
arguments = {"con": con, "system": "system", "pos": "pos"}
naive = rankql.compare("rankings", "naive", "nDCG@5", baseline="old", **arguments)
print("nDCG@5:", *naive.pairs["sentence"])

print("\n3. How likely users look at each slot, estimated from items that were in several slots\n")
con.execute("CREATE TABLE slots AS FROM harvested_propensity('log', slice := 'device')")
slots = con.sql("SELECT slice, pos, propensity, lo, hi FROM slots").pl()
print(slots.pivot("slice", index="pos", values="propensity"))
fading = simulate.FADING
chance = pl.col("pos") ** -pl.col("slice").replace_strict(fading)
contained = slots.filter(chance < 1).select(chance.is_between("lo", "hi")).to_series()
print(
    f"In truth 1 / slot^{fading['desktop']} on desktops, 1 / slot^{fading['phone']} on phones: "
    f"{contained.sum()} of {len(contained)} intervals contain it"
)

print("\n4. Clicks divided by the propensity: what both rankers would earn\n")
con.execute("""
    CREATE TABLE impressions AS
    SELECT query, item, click, least(propensity, 1) AS propensity
    FROM log JOIN slots ON slots.slice = log.device AND slots.pos = log.pos
    WHERE propensity IS NOT NULL;
    CREATE TABLE grades AS
    SELECT query, item, avg(click::INT) AS clicked, debiased(click, propensity) AS rel
    FROM impressions GROUP BY ALL;
    CREATE TABLE replayed AS
    SELECT system, query, item, click, propensity, pos FROM rankings
    LEFT JOIN impressions USING (query, item);
""")
estimates = con.sql("FROM counterfactual('replayed', k := 5, slice := 'system', clip := 0.2)").pl()
# Only the simulation knows the truth.
true = dict(con.sql("""
    SELECT system, avg(value) FROM (
        SELECT system, query, dcg(appeal, pos, 5) AS value FROM rankings GROUP BY system, query)
    GROUP BY system
""").fetchall())  # fmt: skip
dcg = estimates.filter(pl.col("metric") == "DCG@5", pl.col("estimator") != "SNIPS")
values = dcg.pivot("slice", index="estimator", values="value").select("estimator", "old", "new")
truth = pl.DataFrame({"estimator": ["truth"], "old": [true["old"]], "new": [true["new"]]})
print(pl.concat([values, truth]))
print(
    dcg.filter(estimator="IPS").select("slice", "lo", "hi", "effective_sample_size", "unsupported")
)

print("\nSponsored and other items:\n")
sold = con.sql("""
    SELECT sponsored, avg(clicked) AS clicked, avg(rel) AS corrected, avg(appeal) AS truth
    FROM grades JOIN candidates USING (query, item) GROUP BY sponsored ORDER BY sponsored DESC
""").pl()
print(sold)

print("\n5. More relevant, but repetitive: several sellers offer the same product\n")
lists = con.sql("""
    SELECT system, crowded, avg(dcg) AS "DCG@5", avg(repeated) AS repeated,
           avg(diversity) AS diversity
    FROM (SELECT system, crowded, query, dcg(rel, pos, 5) AS dcg,
                 duplicate_share(product, pos, 5) AS repeated,
                 category_diversity(product, pos, 5) AS diversity
          FROM rankings LEFT JOIN grades USING (query, item) GROUP BY ALL)
    GROUP BY ALL ORDER BY ALL DESC
""").pl()
print(lists)

print("\n6. The A/B test: does the metric agree with clicks and sales?\n")
offline = rankql.evaluate("rankings", "grades", "DCG@5", by="crowded", interval=None, **arguments)
rates = {"CTR": ("clicks", "shown"), "conversion": ("sold", "sessions")}
trial = {"outcomes": "trial", "on": "query", "outcome": rates, "baseline": "old", "con": con}
link = rankql.associate(offline, **trial)
crowded = rankql.associate(offline.per_query.filter(pl.col("crowded")), **trial)
for part in (link, crowded):
    print(part.table.select("outcome", "n", "spearman", "spearman_lo", "spearman_hi"))
moves = link.pairs.select(pl.col("DCG@5", "conversion").sign().cast(int)).drop_nulls()
print(moves.group_by(pl.all()).len("queries").sort(pl.all(), descending=True))
print(
    con.sql("""
    SELECT crowded, system, sum(clicks) / sum(shown) AS CTR, sum(sold) / sum(sessions) AS conversion
    FROM trial JOIN (SELECT DISTINCT query, crowded FROM candidates) USING (query)
    GROUP BY ALL ORDER BY ALL DESC
""").pl()
)

print("\n7. Conclusion\n")
sales = crowded.table.filter(outcome="conversion").row(0, named=True)
naive_gain = naive.pairs.row(0, named=True)["difference"]
repeated = lists.filter(system="new", crowded=True)["repeated"].item()
gain = {name: b / a - 1 for name, a, b in pl.concat([values, truth]).rows()}
paid, rest = sold.rows(named=True)
print(
    f"Uncorrected clicks rate the new ranker worse ({naive_gain:+.3f} nDCG@5), because they\n"
    f"reward the slots of the old ranker. Sponsored items are clicked more often than others\n"
    f"({paid['clicked']:.3f} and {rest['clicked']:.3f}), but fewer users like them "
    f"(corrected {paid['corrected']:.2f} and {rest['corrected']:.2f};\n"
    f"truth {paid['truth']:.2f} and {rest['truth']:.2f}). After the correction, the new ranker's "
    f"DCG@5 is {gain['IPS']:.0%} higher\n(truth: {gain['truth']:.0%}), and sales rise, "
    f"except where several sellers offer the same product: {repeated:.0%} of the list "
    f"repeats\na product, clicks rise, and sales do not follow the metric (Pearson "
    f"{sales['pearson']:.2f}, 95% CI {sales['pearson_lo']:.2f} to "
    f"{sales['pearson_hi']:.2f}). Show each product once."
)

coloured = alt.Color("slice", title=None)
base = alt.Chart(slots).encode(
    x=alt.X("pos:O", title="slot").axis(labelAngle=0), color=coloured.scale(range=PALETTE[2:4])
)
attention = alt.layer(
    base.mark_rule().encode(y=alt.Y("lo", title="propensity, relative to slot 1"), y2="hi"),
    base.mark_line(point=True).encode(y="propensity"),
).properties(width=300, height=240, title="Propensities, with intervals")
systems = coloured.scale(domain=["old", "new"], range=PALETTE[:2])
base = alt.Chart(dcg).encode(
    y=alt.Y("estimator", title=None, sort=["naive", "IPS", "clipped IPS"]),
    yOffset=alt.YOffset("slice", sort=["old", "new"]),
    color=systems,
)
truths = alt.Chart(pl.DataFrame({"slice": [*true], "value": [*true.values()]}))
estimated = alt.layer(
    base.mark_rule().encode(x=alt.X("lo", title="DCG@5"), x2="hi"),
    base.mark_point(filled=True, size=70, opacity=1).encode(x="value"),
    truths.mark_rule(strokeDash=[4, 3]).encode(x="value", color=systems),
).properties(width=300, height=240, title="Estimates and the truth (dashed)")
both = alt.hconcat(attention, estimated).resolve_scale(color="independent")
both.configure(**{**CONFIG, "background": "white"}).save(folder / "story.png", scale_factor=2)
kinds = offline.per_query.select("query", "crowded").unique()
changes = link.pairs.join(kinds, on="query", maintain_order="left")
points = alt.Chart(changes.select("crowded", metric="DCG@5", conversion="conversion"))
points = points.mark_point(filled=True).encode(
    x=alt.X("metric", title="change of DCG@5"),
    y=alt.Y("conversion", title="change of conversion"),
    color="crowded:N",
)
points.configure(**{**CONFIG, "background": "white"}).save(
    folder / "conversion.png", scale_factor=2
)
print(f"\nCharts: {folder}/story.png, {folder}/conversion.png")
