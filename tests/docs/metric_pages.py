"""The tables of metrics on the pages of the documentation, their plain SQL, and their number."""

import re

import doc_tables
import rankql
from support import signatures
from support.paths import ROOT

FOLDER = ROOT / "docs" / "metrics"


def page(function):
    """The page of a function's family."""
    families = signatures.METRIC_FAMILIES
    if not function:
        return "../one-truth.md"  # of spans, which only evaluate has
    return next(f"{family}.md" for family in families if function in signatures.macros_of(family))


def table(name):
    """`rankql.metrics()` in Markdown: all of them in the index, those of the family on a page."""
    lines = [
        "| function, name in evaluate | reads | one value per | better | range | NULL if |",
        "|---" * 6 + "|",
    ]
    for row in rankql.metrics().to_dicts():
        function, home = row["function"], page(row["function"])
        if name not in ("index.md", home):
            continue
        low, high = (None if end is None else f"{end:g}" for end in (row["lowest"], row["highest"]))
        reach = f"≥ {low}" if high is None else f"{low} to {high}"
        cells = [
            (f"[`{function or row['name']}`]({home})" if name == "index.md" else f"`{function}`")
            + ("" if row["name"] == function or not function else f", `{row['name']}`"),
            f"`{row['columns']}`",
            row["level"],
            row["better"],
            "any" if low is None else reach,
            row["undefined"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PAGES = ["index.md", *sorted(f"{family}.md" for family in signatures.METRIC_FAMILIES)]


def written(name):
    """The page with its table and its folds as they are now."""
    return FOLD.sub(fold, doc_tables.with_table(FOLDER / name, "metrics", table(name)))


# The statements of sql/textbook.sql with their comments, of which a page shows those that it names.
FOLD = re.compile(
    r"(?<=:::\{dropdown\} In plain SQL\n```\{code-block\} sql\n).*?(?=```\n:::)", re.DOTALL
)
TITLE = re.compile(r"^-- ([^:\n]+): ", re.MULTILINE)


def plain_statements():
    """By title: nDCG(gain=exp2)@k."""
    parts = re.split(r"\n\n+", (ROOT / "sql" / "textbook.sql").read_text("utf-8"))
    return {TITLE.match(part)[1]: part for part in parts if part.endswith(";")}


def fold(match):
    statements = plain_statements()
    return "\n\n".join(statements[title] for title in TITLE.findall(match[0])) + "\n"


# Texts that say how many metrics there are.
COUNTED = ("README.md", "pyproject.toml", "docs/index.md", "docs/zh/start.md")


def counted(name):
    """A text with the number of metrics as it is now."""
    n = len({*rankql.metrics()["function"]} - {""})  # functions of SQL and polars
    text = (ROOT / name).read_text("utf-8")
    text = re.sub(r"(?<=nDCG, MRR, MAP and )\d+(?= more)", str(n - 3), text)
    return re.sub(r"(?<=nDCG、MRR、MAP 等 )\d+(?= 个指标)", str(n), text)
