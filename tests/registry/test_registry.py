"""A metric is one record: it agrees with SQL and polars, and nothing else knows its name."""

import ast
import os
import shutil
import subprocess
import sys
from string import Formatter

import pytest

from rankql.registry.all_metrics import FUNCTIONS, RECORDS
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Metric, MetricRecord, Parameter
from support import completeness
from support.paths import PACKAGE, ROOT

# Columns of its own table, which are called as the metrics that they estimate; and formulas.
NAMES_METRICS = {"logs/counterfactuals.py", "evaluation/columns.py"}


def test_no_metric_lacks_anything():
    """The one test that names what a new metric lacks, and where it belongs."""
    lines = completeness.missing()
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_definition_is_a_sentence(name):
    assert FUNCTIONS[name].definition.endswith(".")


def placeholders(template):
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_templates(function):
    """What stands in braces is known where the SQL is filled in."""
    record = FUNCTIONS[function]
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


@pytest.mark.parametrize(
    ("convention", "options", "conventions", "threshold"),
    [
        ("", {}, {}, 2),
        ("", {}, {"threshold": 3}, 2),
        ("", {"threshold": 1}, {"threshold": 3}, 1),
        ("threshold", {}, {"threshold": 3}, 3),
    ],
)
def test_the_threshold_of_a_record(convention, options, conventions, threshold):
    """Its own default, unless it follows the convention."""
    own = (Parameter("threshold", 2, convention=convention),)
    record = MetricRecord(function="recall_at", name="Own", own=own)
    metric = Metric(record, 5, options)
    assert metric.threshold(vars(Conventions(**conventions))) == threshold
    assert metric.arguments(vars(Conventions(**conventions))).get("threshold", 2) == threshold


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


# A new metric with a cutoff and a threshold of its own: what is added to which file, and after
# which line, or at the end.
NEW = {
    "sql/precision.sql": (
        "",
        """
CREATE OR REPLACE MACRO hits_at(rel, pos, k := NULL, threshold := 2) AS
    rankql_one_ranking(CAST(count(rankql_hit_pos(rel, pos, k, threshold)) AS DOUBLE), pos, k);
COMMENT ON MACRO hits_at IS 'Hits: the number of relevant items in the first k positions.';
""",
    ),
    "rankql/expressions/precision.py": (
        "",
        '''

@metric()
def hits_at(
    rel: Rel = "rel", pos: Column = "pos", k: int | None = None, threshold: float = 2
) -> pl.Expr:
    """Hits: the number of relevant items in the first k positions."""
    r = ranking(rel, pos, k)
    return r.top(r.mean(r.hits(threshold))).sum()
''',
    ),
    "rankql/registry/all_metrics.py": (
        "RELEVANCE = (\n",
        """    MetricRecord(
        function="hits_at",
        name="Hits",
        aliases=("NumHits",),
        highest=None,
        own=(replace(THRESHOLD, default=2, convention=""),),
    ),
""",
    ),
    "rankql/__init__.pyi": ('    "hit_at",\n', '    "hits_at",\n'),
}
IMPORTS = {
    "rankql/registry/all_metrics.py": ("    RELEVANT,\n", "    THRESHOLD,\n"),
    "rankql/__init__.pyi": ("", "\nfrom .expressions.precision import hits_at\n"),
}
# Its definition, its cases and its place on a page.
CASES = {
    "tests/support/definitions.py": (
        "",
        """

def hits_at(rows, k=None, threshold=2):
    return len(hits(rows, k, threshold))
""",
    ),
    "tests/cases/precision.csv": (
        "",
        "".join(
            f"hits_at,{options},1 0 3 2,1 2 3 4,,{value},,by hand,\n"
            for options, value in (("k=1", 0), ("k=3", 1), ("", 2), ("k=3 threshold=1", 2))
        ),
    ),
    "docs/metrics/precision.md": ("", "\nhits_at counts.\n\n.. autofunction:: rankql.hits_at\n"),
}
LACKS = """\
hits_at: a function that defines it, in tests/support/definitions.py
hits_at: three cases, in tests/cases/precision.csv (it has 0)
hits_at: a case with k=, so that no engine may ignore it
hits_at: a case with threshold=, so that no engine may ignore it
hits_at: a text and its autofunction, in docs/metrics/precision.md
"""
CALLS = """
import duckdb, polars as pl, rankql
from support import metric_pages

rows = {"query": 1, "item": ["a", "b", "c", "d"], "rel": [1, 0, 3, 2], "pos": [1, 2, 3, 4]}
rows = pl.DataFrame(rows)
# The cases: k, threshold, value.
for k, threshold, value in [(1, 1, 1), (3, 1, 2), (1, None, 0), (3, None, 1), (None, None, 2)]:
    options = {} if threshold is None else {"threshold": threshold}
    assert rows.select(rankql.hits_at("rel", "pos", k, **options)).item() == value
    assert rows.pipe(rankql.hits_at, by="query", k=k, **options).rows() == [(1, value)]
    con = duckdb.connect()
    rankql.register(con)
    call = ", ".join(["rel, pos", str(k or "NULL"), *(f"{x} := {y}" for x, y in options.items())])
    assert con.sql(f"SELECT hits_at({call}) FROM rows").fetchall() == [(value,)]
    name = "numhits" + (f"(rel={threshold})" if options else "") + (f"@{k}" if k else "")
    for others in ([], ["P@2", "AP", "RR"]):
        result = rankql.evaluate(rows, metrics=[name, *others])
        assert [*result] == [name, *others]
        assert result[name.replace("numhits", "Hits")] == value
    portable = rankql.translate(f"SELECT hits_at({call}) FROM rows", "postgres")
    assert con.sql(portable).fetchall() == [(value,)]
try:
    rankql.evaluate(rows, metrics="Hits(p=1)")
except rankql.RankqlError as error:
    assert "Hits has no option 'p'. Available: k, rel" in str(error), error
table = metric_pages.table("precision.md")
assert "| `hits_at`, `Hits` | `rel, pos` | ranking | higher | ≥ 0 |" in table
rows.write_csv("rows.csv")
"""
MISSING = "from support import completeness; print(*completeness.missing(), sep='\\n')"


@pytest.mark.slow
def test_a_new_metric(tmp_path):
    """A macro, a function and a record in a copy: it works in every place, and in the tables.

    What `test_no_metric_lacks_anything` says then is what a contributor reads.
    """
    for folder in ("rankql", "sql", "docs", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)

    def add(parts):
        for name, (line, text) in parts.items():
            old = (tmp_path / name).read_text("utf-8")
            new = old.replace(line, line + text, 1) if line else old + text
            (tmp_path / name).write_text(new, "utf-8")

    def python(*arguments):
        paths = os.pathsep.join(map(str, (tmp_path, tmp_path / "tests")))
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths},
            capture_output=True, text=True, encoding="utf-8",
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout

    add(NEW)
    add(IMPORTS)
    assert python("-c", MISSING) == LACKS
    add(CASES)
    generated = {line.partition(": ")[2] for line in python("-c", MISSING).splitlines()}
    assert generated == {f"run python tests/generate.py {part}" for part in ("sql", "metrics")}
    python("tests/generate.py", "sql", "metrics")
    assert not python("-c", MISSING).strip()
    python("-c", CALLS)
    printed = python("-m", "rankql", "eval", "rows.csv", "-m", "Hits@3", "--format", "csv")
    assert "Hits@3,1" in printed
    assert "Hits,hits_at" in python("-m", "rankql", "metrics", "--format", "csv")
