"""The packages import one way, and their modules stay short."""

import ast
import re
import sys
from functools import cache
from types import SimpleNamespace

import pytest

import conftest
from support.components import COMPONENTS, Component
from support.paths import PACKAGE, ROOT

# Each may import those before it.
LAYERS = [
    "core.base", "core.stats", "core.metrics", "core.tables", "core.expressions",
    "core.evaluation", "errors", "shapes", "features", "logs", "engines", "spark", "diagnostics",
    "decisions", "testing", "pages", "cli", "doors", "__main__",
]  # fmt: skip
# The folders of `shapes`, in the order in which data flow.
ROAD = ["open", "choose", "unpack", "doubts", "ask"]
# Those of `core.evaluation`, and its module that opens them.
ROAD_OF_EVALUATION = [
    "query", "plan", "reduce", "checks", "finish", "means", "result", "evaluate"
]  # fmt: skip
# What is in them beside rankql and the standard library.
LIBRARIES = {
    "core.base": {"polars"},
    "core.metrics": (),
    "core.expressions": {"duckdb", "polars"},
    "core.tables": {"duckdb", "polars", "pyarrow"},
    "shapes": {"duckdb", "polars"},
}


def modules():
    """The modules by dotted name, `rankql.` left out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if name != "__init__":
            yield name.removesuffix(".__init__"), path


@cache
def parse(path):
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path):
    """All imports: the module, and whether it is imported inside a function or for types only."""
    return [*imports_within(parse(path), False)]


@cache
def is_module(name):
    path = ROOT / name.replace(".", "/")
    return name.startswith("rankql.") and (path.is_dir() or path.with_suffix(".py").exists())


def imports_within(scope, later):
    later |= isinstance(scope, ast.FunctionDef)
    later |= isinstance(scope, ast.If) and ast.unparse(scope.test) == "TYPE_CHECKING"
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Import):
            yield from ((alias.name, later) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} has a relative import"
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            is_modules = [is_module(name) or node.module == "rankql" for name in within]
            names = [x if own else node.module for x, own in zip(within, is_modules, strict=True)]
            yield from ((name, later) for name in names)
        elif not isinstance(node, ast.expr):
            yield from imports_within(node, later)


def package(name):
    parts = name.split(".")
    return ".".join(parts[: 1 + (parts[0] == "core")])


@cache
def graph():
    """The modules of rankql that each imports, those for types included."""
    return {
        name: {imported[7:] for imported, _ in imports(path) if imported.startswith("rankql.")}
        for name, path in modules()
    }


def is_core(name):
    return name.startswith("core.")


def test_packages_import_one_way():
    wrong = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others
        if LAYERS.index(package(name)) < LAYERS.index(package(other))
    ]
    assert not wrong, "\n".join(wrong)


def test_core_imports_no_extra():
    """Extras stand beside it: a door of `rankql/doors.py` opens them."""
    arrows = sorted(
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others
        if is_core(name) and not is_core(other)
    )
    assert not arrows, "\n".join(arrows)


def backward(place, folders):
    """Where a folder imports one that comes after it."""

    def step(name):
        return folders.index(name.removeprefix(place).split(".")[0])

    roads = {x: y for x, y in graph().items() if x.startswith(place)}
    return [
        f"{name} imports {other}"
        for name, others in roads.items()
        for other in others
        if other.startswith(place) and step(name) < step(other)
    ]


def test_shapes_are_one_road():
    """A folder imports only those before it."""
    wrong = backward("shapes.", ROAD)
    assert not wrong, "\n".join(wrong)


def test_evaluation_is_one_road():
    """A folder imports only those before it, and `evaluate` the last ones."""
    wrong = backward("core.evaluation.", ROAD_OF_EVALUATION)
    assert not wrong, "\n".join(wrong)


def test_modules_of_a_package_import_one_way():
    """No circle of modules, those for types included."""
    done = set()

    def visit(name, path):
        assert name not in path, " > ".join([*path[path.index(name) :], name])
        if name not in done:
            for imported in sorted(graph().get(name, ())):
                if package(name) == package(imported):
                    visit(imported, [*path, name])
            done.add(name)

    for name in graph():
        visit(name, [])


@pytest.mark.parametrize("layer", LIBRARIES)
def test_libraries(layer):
    """What a package needs when it is imported."""
    standard = {*sys.stdlib_module_names, "rankql"}
    needed = {
        package(imported)
        for name, path in modules()
        if package(name) == layer
        for imported, later in imports(path)
        if not later
    }
    assert needed - standard <= {*LIBRARIES[layer]}


def test_every_package_says_what_it_is():
    """Its first paragraph, what may import it, and what it may import."""
    for path in [*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("core/*/__init__.py")]:
        text = ast.get_docstring(parse(path))
        assert len(text.split("\n\n")) >= 2 and "import" in text, path


def test_modules_are_short():
    for name, path in modules():
        lines = len(path.read_text("utf-8").splitlines())
        assert lines <= 600, f"{name} has {lines} lines"


def test_public_names_have_one_home():
    """A function or class without an underscore is defined in one module."""
    homes = {}
    for name, path in modules():
        for node in parse(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(name)
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert twice == {}


# The default tests need nothing but the extra test

TESTS = ROOT / "tests"
PATHS = {path.name: path for path in TESTS.rglob("*.py") if "benchmarks" not in path.parts}


@pytest.mark.slow
def test_tests_import_neither_heavy_packages_nor_each_other():
    """At the top of a file, heavy packages would stop the collection of all tests.

    What several test modules share lives in tests/support.
    """
    refused = {name for component in COMPONENTS.values() for name in component.modules}
    refused |= {name.removesuffix(".py") for name in PATHS if name.startswith("test_")}
    wrong = {
        name: refused & {package(imported) for imported, later in imports(path) if not later}
        for name, path in PATHS.items()
    }
    assert not any(wrong.values()), wrong


def test_no_test_is_skipped_in_ci_for_want_of_a_package():
    """importorskip would do that; a marker of tests/support/components.py does not."""
    # Python itself has no `resource` on Windows.
    skips = re.compile(r"pytest\.importorskip\((?!.resource)")
    assert [name for name, path in PATHS.items() if skips.search(path.read_text("utf-8"))] == []


def test_offered_calls_of_shapes_are_run():
    """`asked` runs them; `pytest.raises(Question)` alone does not."""
    files = [*(TESTS / "shapes").glob("*.py"), *(TESTS / "core/tables").glob("*.py")]
    assert [x.name for x in files if "pytest.raises(Question" in x.read_text("utf-8")] == []


def test_a_missing_component_is_a_skip_and_in_ci_a_failure(monkeypatch):
    missing = Component(("no_such_package",), (("no-such-program",),))
    monkeypatch.setitem(COMPONENTS, "gone", missing)
    test = SimpleNamespace(iter_markers=lambda: [SimpleNamespace(name="gone")])
    message = r"not installed: no_such_package, no-such-program; pip install -e '.\[test-all\]'"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=message):
        conftest.pytest_runtest_setup(test)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=message):
        conftest.pytest_runtest_setup(test)


# The methods that look into a text.
READING = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "find"),
    *("search", "match", "fullmatch", "findall", "finditer", "sub"),
}
OURS = re.compile(r"\b(notes?|remarks?|sentences?|messages?|findings?|headline|question)\b")


def test_no_code_reads_a_sentence_of_ours():
    """A note has its kind, level, heading and numbers as data. polars adds lines to an error."""
    reading = [
        f"{name}: {ast.unparse(node)}"
        for name, path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in READING and OURS.search(ast.unparse(node))
    ]
    assert [x.partition("(")[0] for x in reading] == ["core.base.errors: str"], reading


# A rule stands in one file: what writes it, and where.
RULES = {
    r"rel >= \{+\w*threshold": "core/metrics/metric_record.py",  # relevant, in SQL
    r"rel >= 1\b": None,
    r"lit\(.*\.worst\b": "core/evaluation/plan/meta.py",  # what a missing query counts
    r"score DESC, \{": "core/evaluation/query/ties.py",  # equal scores
    r"features\.filters:": "doors.py",  # what leaves out rows
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_stands_in_one_file(rule):
    places = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(rule, path.read_text())
    }
    assert places == {*filter(None, [RULES[rule]])}
