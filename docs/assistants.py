"""Write llms.txt and SKILL.md, which tell AI assistants how to call rankql.

    python docs/assistants.py

Metrics, conventions and pages come from the registry and from the documentation.
tests/docs/test_blocks.py asserts that both files are current, and runs the recipes.
"""

import re
from pathlib import Path

import rankql
from rankql import PROFILES

HERE = Path(__file__).parent
LINE = re.compile(r"^\| (?!I want)(.+?) \| (.+\.md.*) \|$", re.MULTILINE)

SKILL = """\
---
name: rankql
description: >-
  Compute ranking metrics (nDCG, MRR, MAP, recall, ...) over tables, Parquet or TREC files; compare
  two rankers with confidence intervals; stop a worse ranker in CI. Use it for search,
  recommendations and RAG.
---

# rankql

Do not write loops over queries or a metric of your own. Take one of these recipes and replace the
paths.

## 1. Evaluate a run against judgments

A run has the columns query, item and score (or pos). Judgments have query, item and rel (the
grade). Usual names such as `qid`, `docno` and `label` are recognised; the result prints which
columns it used. Pass judgments where you have them: grades inside several runs are one set of
judgments only if the runs share relevant items, and a note says whether they are.

```py
import rankql

result = rankql.evaluate("run.parquet", "qrels.parquet", ["nDCG@10", "AP", "R@100"])
print(result)  # means with 95% confidence intervals; result["nDCG@10"] is one mean
result.per_query  # a polars DataFrame with the values of every query
```

On the command line (`-m` repeats, `--by COLUMN` adds segments):

```sh
rankql eval run.parquet qrels.parquet -m nDCG@10 -m AP
```

## 2. A metric in SQL (DuckDB)

One row per query and item. `rel` is NULL if nobody judged the item, `pos` is NULL if it was judged
but not retrieved. Always group by query first, then average.

```py
import duckdb

rankql.register()  # rankql.register(con) for a connection
duckdb.sql(\"\"\"
    SELECT avg(ndcg) FROM (
        SELECT query, ndcg(rel, pos, 10) AS ndcg FROM 'ranked.parquet' GROUP BY query)
\"\"\")
```

On another database (SQLite, Trino, Redshift, Databricks, MySQL 8), do not rewrite the formula: this
prints a SELECT that needs no functions and gives a value per query. It checks nothing.

```sh
rankql sql --plain -m nDCG@10 ranked
```

## 3. A metric in polars

```py
import polars as pl

by_query = pl.read_parquet("ranked.parquet").group_by("query").agg(rankql.ndcg("rel", "pos", k=10))
by_query["ndcg"].mean()
```

## 4. Is the new ranker better?

Never decide from two means. This needs scipy (`pip install '.[stats]'` in a clone of rankql).

```py
runs = {"old": "old.parquet", "new": "new.parquet"}
comparison = rankql.compare(runs, "qrels.parquet", "nDCG@10")
print(comparison)
```

```sh
rankql compare old=old.parquet new=new.parquet qrels.parquet -m nDCG@10
```

## 5. Stop a worse ranker in CI

Exit code 0: passed, 1: failed, 2: wrong use or bad data, 3: too few queries to decide.

```sh
rankql gate new.parquet qrels.parquet --baseline old.parquet --max-drop nDCG@10:0.02
```

## Rules

- Run `rankql check run.parquet qrels.parquet` if a number surprises you. It lists duplicates, ids
  that do not match, and ties.
- Undefined is NULL, not 0: queries without a relevant item are left out of the mean and counted in
  `undefined`.
- For the numbers of another tool pass `conventions=`: {profiles}.
- Cutoffs are part of the name: `nDCG@10`, `P(rel=2)@5`, `nDCG(gain=exp2)@10`, `RBP(p=0.8)`.
- For an A/B test on users, compute metrics per user, and compare the arms with the package
  tea-tasting: docs/experiment.md.
- Errors say what is wrong and what to do. Read them instead of catching them. A question has calls
  that were tried, in `error.calls`.
- Data of any shape can be passed by hand: two dicts, `{query: [ids in order] or {id: score}}` and
  `{query: [ids] or {id: grade}}`, or `item=` with an SQL list of ids: docs/by-hand.md.

## Metrics

| name | SQL and polars | columns | what it is |
|---|---|---|---|
{metrics}
"""

LLMS = """\
# rankql

> Ranking metrics for search, recommendations and RAG, computed where the data lives: DuckDB
> functions and polars expressions, evaluation, comparison with confidence intervals, a gate for CI,
> and an HTML report.

How to call it, with recipes: [SKILL.md](SKILL.md). The pages below are files of docs/ in the
repository.

## Pages

{pages}

## Metrics

{metrics}
"""


def skill() -> str:
    """The recipes, the rules and a table of all metrics."""
    rows = [
        f"| `{row['name']}` | `{row['function'] or 'evaluate'}` | `{row['columns']}` | "
        f"{row['definition']} |"
        for row in rankql.metrics().to_dicts()
    ]
    profiles = ", ".join(f"`{name!r}`" for name in PROFILES if name != "rankql")
    return SKILL.replace("{profiles}", profiles).replace("{metrics}", "\n".join(rows))


def llms() -> str:
    """The pages of the index by what a reader wants, and the names of the metrics."""
    pages = [
        f"- {name} (to {what}): {path}"
        for what, links in LINE.findall((HERE / "index.md").read_text("utf-8"))
        for name, path in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", links)
    ]
    lines = [f"- {row['name']}: {row['definition']}" for row in rankql.metrics().to_dicts()]
    return LLMS.replace("{pages}", "\n".join(pages)).replace("{metrics}", "\n".join(lines))


FILES = {"SKILL.md": skill, "llms.txt": llms}

if __name__ == "__main__":
    for name, text in FILES.items():
        (HERE / name).write_text(text(), "utf-8")
