"""Tests that take turns: a commit runs some, by its hash, and always those of what it changes.

`.ci/run` sets RANKQL_TURN=1, `.ci/run --all` does not. `python tests/support/turns.py` says what
runs, and with `oldest` fails if the oldest versions rest.
"""

import ast
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# One of so many commits runs a repetition, and one of fewer those of a package that it changes,
# whose light tests all run. Of the Spark matrix each commit runs a family.
REPETITIONS, OF_CHANGED = 6, 3
FILES = [path.stem for path in (ROOT / "tests" / "cases").rglob("*.csv")]
TABLES = {path.name for path in (ROOT / "tests" / "cases").glob("*.toml")}
FAMILIES = sorted([*FILES, "repeated positions"])  # which are made of all others
# Their tests read tidy tables and foreign shapes alike.
READERS = ("core/tables", "shapes")
SPARK = ("sql/common.sql", "sql/packed.sql", "sql/spark.sql")
SPARK += ("rankql/engines/", "rankql/spark.py", "tests/engines/")
# What components test: their tests rest if a commit changes none of it. Tests marked `quick` run
# also where the last ones change.
PAGES = ("rankql/pages/", "docs/", "rankql/core/evaluation/result/", "rankql/features/")
ENGINES = ("sql/", "rankql/engines/", "rankql/spark.py", "rankql/core/metrics/")
TESTED = {
    **dict.fromkeys(("report", "browser"), (*PAGES, "rankql/decisions/")),
    **dict.fromkeys(("postgres", "postgres18", "clickhouse", "mariadb", "spark"), ENGINES),
}
QUICK = ("rankql/core/evaluation/", "rankql/core/tables/", "rankql/shapes/")


@cache
def support_of(path):
    """The modules of tests/support and the cases that a file of tests needs."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "support":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = {f"tests/{'/'.join(name.split('.')[:2])}.py" for name in names}
            found |= modules.union(*map(support_of, modules))
        elif isinstance(node, ast.Constant) and node.value in TABLES:
            found.add(f"tests/cases/{node.value}")
    return found


# What all tests stand on: the fixtures, `few`, and the dependencies.
SHARED = ("tests/conftest.py", "tests/support/parameters.py", "pyproject.toml")


def dependencies(text):
    """What pyproject.toml says of the packages that the README's tests need."""
    project = tomllib.loads(text)["project"]
    return project["dependencies"], project["optional-dependencies"]["test"]


@dataclass(frozen=True)
class Turn:
    """The number of a commit, and the paths that it changes."""

    number: int
    changed: tuple[str, ...]

    def changes(self, *starts):
        return any(path.startswith((*starts, *SHARED)) for path in self.changed)

    def runs_repetition(self, place, path):
        """Is it the turn of a repetition, or does the commit change its test or what that reads?"""
        folder = path.removeprefix("tests/").rpartition("/")[0]
        folders = READERS if folder in READERS else (folder,)
        packages = [f"rankql/{x}/" for x in folders]
        each = OF_CHANGED if self.changes(*packages, f"{folder}/") else REPETITIONS
        return place % each == self.number % each or self.changes(path, *support_of(path))

    def runs_components(self, names, path, quick=False):
        """Does the commit change what a test tests that needs these components?"""
        sources = [x for name in names for x in TESTED.get(name, ())]
        more = QUICK if quick else ()
        return not sources or self.changes(*sources, *more, path, *support_of(path))

    def runs_family(self, family):
        """Is it the turn of a family of the Spark matrix, or does the commit change it?"""
        turn = family == FAMILIES[self.number % len(FAMILIES)]
        own = f"sql/{family}.sql"  # forms of several families have none
        sources = own if (ROOT / own).exists() else "sql/"
        support = support_of("tests/engines/test_matrix.py")
        return turn or self.changes(sources, f"tests/cases/{family}.csv", *SPARK, *support)

    @property
    def runs_oldest(self):
        return "pyproject.toml" in self.changed

    def __str__(self):
        families = [family for family in FAMILIES if self.runs_family(family)]
        oldest = "with" if self.runs_oldest else "without"
        resting = [x for x in TESTED if not self.runs_components([x], "tests/conftest.py")]
        without = f"without tests of {', '.join(resting)}, " if resting else ""
        families = families if "spark" not in resting else ["none"]
        return (
            f"turn {self.number % REPETITIONS + 1} of {REPETITIONS}, Spark: {', '.join(families)}, "
            f"{without}{oldest} the oldest versions (.ci/run --all runs everything)"
        )


def this_turn(folder=ROOT):
    """The turn of the commit that is checked out; None, which is all, if git does not know."""
    if os.environ.get("RANKQL_TURN") != "1":
        return None

    def ask(*arguments):
        run = {"cwd": folder, "capture_output": True, "text": True, "check": True}
        return subprocess.run(["git", *arguments], **run).stdout

    def git(*arguments):
        return ask(*arguments).split()

    try:
        (commit,) = git("rev-parse", "HEAD")
        try:
            (base,) = git("merge-base", "HEAD", "origin/main")
        except subprocess.CalledProcessError:
            # Of a pull request, CI fetches the commit that merges it into main.
            (base,) = git("rev-parse", "HEAD^1") if git("rev-parse", "HEAD^2") else ()
        if base == commit:
            base = "HEAD~1"
        changed = git("diff", "--name-only", base)
        changed += git("ls-files", "--others", "--exclude-standard")
        if "pyproject.toml" in changed:
            own, other = (
                (folder / "pyproject.toml").read_text("utf-8"),
                ask("show", f"{base}:pyproject.toml"),
            )
            if dependencies(own) == dependencies(other):
                changed.remove("pyproject.toml")
    except (OSError, subprocess.CalledProcessError):
        return None
    return Turn(int(commit, 16), tuple(changed))


if __name__ == "__main__":
    turn = this_turn()
    if sys.argv[1:] == ["oldest"]:
        sys.exit(turn is not None and not turn.runs_oldest)
    print(turn or "everything ran")
