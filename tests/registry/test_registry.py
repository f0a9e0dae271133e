"""A metric is one record: it agrees with SQL and polars, and nothing else knows its name."""

import ast

from rankql.registry.all_metrics import FUNCTIONS, RECORDS
from support import completeness
from support.paths import PACKAGE

# Columns of its own table, which are called as the metrics that they estimate; and formulas.
NAMES_METRICS = {"logs/counterfactuals.py", "evaluation/columns.py"}


def test_no_metric_lacks_anything():
    """The one test that names what a new metric lacks, and where it belongs."""
    lines = completeness.missing()
    assert not lines, "\n".join(lines)


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
