"""A metric is one record: it agrees with SQL and polars, and nothing else knows its name."""

import ast
import os
import re
import shutil
import subprocess
import sys
from string import Formatter

import polars as pl
import pytest

import rankql
from rankql import macros
from rankql.evaluation import packed_metrics
from rankql.registry import parse
from rankql.registry.all_metrics import FUNCTIONS, RECORDS
from support.paths import PACKAGE, ROOT

# Columns of its own table, which are called as the metrics that they estimate.
NAMES_METRICS = {"logs/counterfactuals.py"}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name or record.function)
def test_a_record_agrees_with_sql_and_polars(record):
    """Its columns and parameters, in their order and with their defaults; its module."""
    columns = dict.fromkeys(record.columns)
    options = {option.name: option.sql_default for option in record.parameters}
    expected = macros.read_parameters()[record.function]
    assert [*(columns | options).items()] == [*expected.items()]
    assert record.definition.endswith(".")
    family = getattr(rankql, record.function).__module__.removeprefix("rankql.expressions.")
    assert record.function in macros.list_metric_macros(family)


def placeholders(template):
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_templates(function):
    """What stands in braces is known where the SQL is filled in."""
    record = FUNCTIONS[function]
    assert placeholders(record.packed) <= {*packed_metrics.QUANTITIES, *record.options}
    gains = {"gain", "threshold", "negative", "max_rel", "stop"}
    weights = {"place", "hits", "left", "over", "discount", *record.options}
    if record.explanation:
        assert placeholders(record.explanation.gain) <= gains
        assert placeholders(record.explanation.weight) <= weights


def test_options_have_a_default_within_their_range():
    for record in RECORDS:
        for option in record.parameters:
            assert bool(option.choices) == (option.kind == "choice"), option
            if option.choices:
                assert option.default in option.choices
            elif option.default is not None and option.kind == "number":
                option.check(option.default)


def test_no_other_module_names_a_metric():
    uses = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value!r}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ("registry", "expressions")
        and path.relative_to(PACKAGE).as_posix() not in NAMES_METRICS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in FUNCTIONS
    ]
    assert not uses, "\n".join(uses)


# A new metric: what is added to which file.
NEW = {
    "sql/precision.sql": """
CREATE OR REPLACE MACRO hits_at(rel, pos, k := NULL, threshold := 1) AS
    CAST(sum(CASE WHEN pos <= coalesce(k, pos) THEN rankql_hit(rel, threshold) ELSE 0 END)
         AS DOUBLE);
COMMENT ON MACRO hits_at IS 'Hits: the number of relevant items in the first k positions.';
""",
    "rankql/expressions/precision.py": '''

@metric()
def hits_at(
    rel: Rel = "rel", pos: Column = "pos", k: int | None = None, threshold: float = 1
) -> pl.Expr:
    """Hits: the number of relevant items in the first k positions."""
    r = ranking(rel, pos, k)
    return r.top(r.mean(r.hits(threshold))).sum()
''',
    "rankql/registry/relevance.py": """
RELEVANCE = (
    *RELEVANCE,
    MetricRecord(
        function="hits_at",
        name="Hits",
        aliases=("NumHits",),
        highest=None,
    ),
)
""",
    "rankql/__init__.pyi": "\nfrom .expressions.precision import hits_at\n",
}
CALLS = """
import duckdb, polars as pl, rankql
from support import metric_pages

rows = {"query": 1, "item": ["a", "b", "c", "d"], "rel": [1, 0, 3, 2], "pos": [1, 2, 3, 4]}
rows = pl.DataFrame(rows)
# The cases: k, threshold, value.
for k, threshold, value in [(1, 1, 1), (3, 1, 2), (3, 2, 1), (None, 1, 3)]:
    assert rows.select(rankql.hits_at("rel", "pos", k, threshold)).item() == value
    assert rows.pipe(rankql.hits_at, by="query", k=k, threshold=threshold).rows() == [(1, value)]
    con = duckdb.connect()
    rankql.register(con)
    call = f"hits_at(rel, pos, {k or 'NULL'}, threshold := {threshold})"
    assert con.sql(f"SELECT {call} FROM rows").fetchall() == [(value,)]
    name = f"numhits(rel={threshold})" + (f"@{k}" if k else "")
    result = rankql.evaluate(rows, metrics=name)
    canonical = ("Hits" if threshold == 1 else "Hits(rel=2)") + (f"@{k}" if k else "")
    assert [*result] == [name] and result[canonical] == value
    portable = rankql.translate(f"SELECT {call} FROM rows", "postgres")
    assert con.sql(portable).fetchall() == [(value,)]
try:
    rankql.evaluate(rows, metrics="Hits(p=1)")
except rankql.RankqlError as error:
    assert "Hits has no option 'p'. Available: k, rel" in str(error), error
table = metric_pages.table("precision.md")
assert "| `hits_at`, `Hits` | `rel, pos` | ranking | higher | ≥ 0 |" in table
rows.write_csv("rows.csv")
"""


@pytest.mark.slow
def test_a_new_metric(tmp_path):
    """A macro, a function and a record in a copy: it works in every place, and in the tables."""
    for folder in ("rankql", "sql"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc"))
    for name, text in NEW.items():
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(text)
    stub = tmp_path / "rankql/__init__.pyi"
    stub.write_text(stub.read_text().replace('    "hit_at",\n', '    "hit_at",\n    "hits_at",\n'))

    def python(*arguments):
        paths = os.pathsep.join(map(str, (tmp_path, ROOT / "tests")))
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths},
            capture_output=True, text=True, encoding="utf-8",
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout

    python("-c", CALLS)
    printed = python("-m", "rankql", "eval", "rows.csv", "-m", "Hits@3", "--format", "csv")
    assert "Hits@3,2" in printed
    assert "Hits,hits_at" in python("-m", "rankql", "metrics", "--format", "csv")


@pytest.mark.parametrize("name", [*parse._CLOSEST, "Rprec_mult_0.20", "unj_5"])
def test_what_comes_closest_is_a_metric(name):
    """Of metrics that other tools have: the hint names metrics, or an expression that works."""
    with pytest.raises(rankql.RankqlError) as raised:
        parse.parse(name)
    _, closest = str(raised.value).split("The closest is ")
    if own := re.fullmatch("'(.+)'", closest):
        closest = own[1]
        rows = {"query": ["a"] * 3, "rel": [1, 0, 1], "pos": [1, 2, None], "item": [*"xyz"]}
        result = rankql.evaluate(pl.DataFrame(rows), metrics=closest, interval=None)
        assert result[name] == {"num_nonrel_judged_ret": 1, "utility": 0}[name]
    elif name not in ("relstring", "num_q", "numq"):
        assert parse.is_metric(re.split(r", |\. ", closest)[0])
