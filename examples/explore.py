# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""Compare two simulated rankers with sliders and SQL cells: a marimo notebook.

pip install '.[report]' 'marimo[sql]' && marimo run examples/explore.py
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="Which is better?", sql_output="polars")


@app.cell
def _():
    import altair as alt
    import duckdb
    import marimo as mo
    import simulate

    import rankql
    from rankql.pages.panels import CONFIG, GREY, PALETTE

    folder = simulate.search("rankql-stories/search")
    con = duckdb.connect(":default:")  # the one of SQL cells
    rankql.register(con)
    return CONFIG, GREY, PALETTE, alt, con, folder, mo


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # Which is better?

    Compare the old and the new ranker of a simulated shop. Choose the cutoff, the gain of a grade
    and the grade from which an item is relevant. The results below update.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    k = mo.ui.slider(1, 20, value=10, label="cutoff k", show_value=True)
    threshold = mo.ui.slider(1, 3, value=1, label="relevant from grade", show_value=True)
    gain = mo.ui.dropdown(
        {"linear": "rel", "exponential": "exp2_gain(rel)", "only the best": "CAST(rel = 3 AS INT)"},
        value="linear",
        label="gain",
    )
    kind = mo.ui.dropdown(["all", "need", "part number", "product name"], "all", label="queries")
    mo.hstack([k, threshold, gain, kind], justify="start", gap=1.5, wrap=True)
    return gain, k, kind, threshold


@app.cell
def _(con, folder, mo):
    runs = mo.sql(
        f"""
        WITH judged AS (
            SELECT query, item, consensus(rel, how := 'majority') AS rel
            FROM '{folder}/judgments.parquet' GROUP BY query, item
        ), shown AS (
            SELECT 'old' AS system, * FROM '{folder}/old.parquet'
            UNION ALL SELECT 'new', * FROM '{folder}/new.parquet'
        )
        SELECT system, kind, query, item, rel, score
        FROM (FROM judged, (VALUES ('old'), ('new')) AS systems (system))
        FULL JOIN shown USING (system, query, item) JOIN '{folder}/queries.parquet' USING (query)
        """,
        output=False,
        engine=con,
    )
    return (runs,)


@app.cell
def _(con, gain, k, kind, mo, runs, threshold):
    per_query = mo.sql(
        f"""
        SELECT system, kind, query,
               ndcg_by_score({gain.value}, score, item, {k.value}) AS "nDCG",
               precision_at_by_score(relevant, score, item, {k.value}) AS "P",
               rr_by_score(relevant, score, item, {k.value}) AS "RR"
        FROM (SELECT *, CAST(rel >= {threshold.value} AS INT) AS relevant FROM runs)
        WHERE '{kind.value}' IN ('all', kind)
        GROUP BY system, kind, query
        """,
        output=False,
        engine=con,
    )
    return (per_query,)


@app.cell
def _(con, mo, per_query):
    means = mo.sql(
        """
        SELECT coalesce(kind, 'together') AS kind, system, metric,
               avg(value) AS mean, count(value) AS queries
        FROM per_query UNPIVOT (value FOR metric IN ("nDCG", "P", "RR"))
        GROUP BY GROUPING SETS ((kind, system, metric), (system, metric))
        ORDER BY ALL
        """,
        output=False,
        engine=con,
    )
    return (means,)


@app.cell(hide_code=True)
def _(k, means, mo):
    together = {row[1:3]: row[3:] for row in means.filter(kind="together").rows()}

    def card(metric):
        old, new = (together[system, metric] for system in ("old", "new"))
        return mo.stat(
            f"{new[0]:.3f}",
            label=f"{metric}@{k.value} of new",
            caption=f"{new[0] - old[0]:+.3f} on {new[1]} queries",
            direction="increase" if new[0] >= old[0] else "decrease",
            bordered=True,
        )

    mo.hstack([card(metric) for metric in ("nDCG", "P", "RR")], justify="start", wrap=True)
    return


@app.cell(hide_code=True)
def _(CONFIG, GREY, PALETTE, alt, means, mo):
    base = alt.Chart(means).encode(y=alt.Y("kind", title=None))
    colour = alt.Color("system", sort=["old", "new"]).scale(
        domain=["old", "new"], range=PALETTE[:2]
    )
    panels = alt.layer(
        base.mark_rule(strokeWidth=3, opacity=0.4, color=GREY).encode(
            x="min(mean)", x2="max(mean)"
        ),
        base.mark_point(filled=True, size=90, opacity=1).encode(
            x=alt.X("mean", title=None).scale(domain=[0, 1]),
            color=colour,
            tooltip=["kind", "system", "metric", alt.Tooltip("mean", format=".4f"), "queries"],
        ),
    ).properties(width="container", height=alt.Step(28))
    charts = [
        panels.transform_filter(alt.datum.metric == metric)
        .properties(title=metric)
        .configure(**CONFIG)
        for metric in ("nDCG", "P", "RR")
    ]
    # Side by side where there is room, and one below the other on a phone.
    grid = "display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr))"
    mo.Html(f'<div style="{grid}">{"".join(mo.as_html(chart).text for chart in charts)}</div>')
    return


if __name__ == "__main__":
    app.run()
