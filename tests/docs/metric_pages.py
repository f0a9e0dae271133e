"""The tables of metrics on the pages of the documentation, their plain SQL, and their number."""

import re

import doc_tables
import rankql
from support import signatures
from support.paths import ROOT

FOLDER = ROOT / "docs" / "reference"


def page(function):
    """The page of a function's family."""
    families = signatures.METRIC_FAMILIES
    if not function:
        return "../rag.md#one-truth-for-every-chunker"  # of spans, which only evaluate has
    return next(
        f"../metrics/{family}.md" for family in families if function in signatures.macros_of(family)
    )


def table():
    """`rankql.metrics()` in Markdown."""
    lines = [
        "| function, name in evaluate | reads | one value per | better | range | NULL if |",
        "|---" * 6 + "|",
    ]
    for row in rankql.metrics().to_dicts():
        function, home = row["function"], page(row["function"])
        low, high = (None if end is None else f"{end:g}" for end in (row["lowest"], row["highest"]))
        reach = f"≥ {low}" if high is None else f"{low} to {high}"
        cells = [
            f"[`{function or row['name']}`]({home})"
            + ("" if row["name"] == function or not function else f", `{row['name']}`"),
            f"`{row['columns']}`",
            row["level"],
            row["better"],
            "any" if low is None else reach,
            row["undefined"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# Generated: all metrics, and all statements of sql/textbook.sql.
PAGES = ["metrics.md", "plain-sql.md"]


def written(name):
    """A generated page as it is now."""
    if name == "plain-sql.md":
        return plain_page()
    return doc_tables.with_table(FOLDER / name, "metrics", table())


TITLE = re.compile(r"^-- ([^:\n]+): ", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(\.\./reference/plain-sql\.md#([\w-]+)\)")
PLAIN = """# All metrics in plain SQL

<!-- Written by tests/generate.py metrics from sql/textbook.sql. -->

Each statement needs no function of rankql, and runs on DuckDB, SQLite, Postgres and Spark. They
read one of two tables: `ranked (query, item, rel, pos)`, in which pos is 1 for the first item and
NULL if an item was judged but not retrieved, or `scored (query, item, rel, score)`. Write your
number for the one after `/*k*/`. `rankql sql --plain` prints them for your tables. Nothing is
refused: positions must be distinct whole numbers, items distinct within a query, and grades finite.
"""


def plain_statements():
    """By title: nDCG(gain=exp2)@k."""
    parts = re.split(r"\n\n+", (ROOT / "sql" / "textbook.sql").read_text("utf-8"))
    return {TITLE.match(part)[1]: part for part in parts if part.endswith(";")}


def plain_page():
    """All statements, each under its title."""
    statements = plain_statements().items()
    sections = (f"\n## {title}\n\n```{{code-block}} sql\n{x}\n```\n" for title, x in statements)
    return PLAIN + "".join(sections)


# Texts that say how many metrics there are.
COUNTED = ("README.md", "pyproject.toml", "docs/index.md", "docs/zh/start.md")


def counted(name):
    """A text with the number of metrics as it is now."""
    n = len({*rankql.metrics()["function"]} - {""})  # functions of SQL and polars
    text = (ROOT / name).read_text("utf-8")
    text = re.sub(r"(?<=nDCG, MRR, MAP and )\d+(?= more)", str(n - 3), text)
    return re.sub(r"(?<=nDCG、MRR、MAP 等 )\d+(?= 个指标)", str(n), text)
