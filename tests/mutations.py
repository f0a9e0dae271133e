"""How many small edits of the code the tests notice.

python tests/mutations.py --package rankql/logs rankql/pages --edits 20 --seed 1

Each edit changes one operator, number or name in a copy of the repository, where pytest then runs
the light tests of its folder with -x: of the files that --tests names, or else of the folder of the
package's name. What they miss is tried with the slow tests of all files that import the edited
module. An edit that no test notices is printed with its place, and so is one whose tests took too
long: nobody knows whether they would have noticed it. --package may also be a file, or `sql`. The
same seed edits the same places as long as the code stays as it is. With --ci, of repetitions and of
components only those run that `.ci/run` runs for a commit with the edit: what they miss and all
tests notice, the night notices.
"""

import argparse
import ast
import io
import keyword
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from support.paths import ROOT

OPPOSITE = {"not": "", "%": "*", "//": "/", "<>": "=", "in": "not in", "is": "is not"}
for one, other in (
    *(("==", "!="), ("<", "<="), (">", ">="), ("+", "-"), ("*", "/"), ("&", "|"), ("and", "or")),
    *(("AND", "OR"), ("True", "False"), ("min", "max"), ("DESC", "ASC")),
):
    OPPOSITE |= {one: other, other: one}
NUMBER = re.compile(r"\d+(\.\d+)?")
# Outside of strings and comments.
SQL_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|COMMENT ON [^;]*;|<>|[<>]=|[-+*/<>]|\b[\w.]+\b")
LIGHT = "not (slow or simulation)"
IGNORED = {"node_modules", ".git", ".venv", ".venv-all", ".venv-lowest", "site", "dist"}


def code_lines(source):
    """The lines that run, without imports, docstrings, decorators and signatures."""
    lines = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if not text and not isinstance(statement, ast.Import | ast.ImportFrom):
                    lines.update(range(statement.lineno, statement.end_lineno + 1))
    return lines


def python_edits(source):
    """Every edit of a module: (start, end, replacement)."""
    lines = code_lines(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    variables = defaultdict(set)  # of each line
    triples = [*zip(tokens, tokens[1:], tokens[2:], strict=False)]
    for before, token, after in triples:
        name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
        if name and before.string != "." and after.string not in ("(", "="):
            variables[token.start[0]].add(token.string)
    for before, token, after in triples:
        line, column = token.start
        if line not in lines:
            continue
        start = starts[line - 1] + column
        end = start + len(token.string)
        if token.string in OPPOSITE and not (token.string == "*" and before.string in "(,["):
            if token.string in ("is", "in") and (after.string == "not" or before.string == "for"):
                continue
            yield start, end, OPPOSITE[token.string]
        elif token.type == tokenize.NUMBER and NUMBER.fullmatch(token.string):
            yield start, end, str(ast.literal_eval(token.string) + 1)
        elif token.string in variables[line] and before.string != "." and after.string in ",)]":
            for other in sorted(variables[line] - {token.string})[:1]:
                yield start, end, other


def sql_edits(source):
    """Every edit of a file of macros: (start, end, replacement)."""
    for token in SQL_TOKEN.finditer(source):
        text = token.group()
        if text in OPPOSITE:
            yield *token.span(), OPPOSITE[text]
        elif NUMBER.fullmatch(text):
            yield *token.span(), str(ast.literal_eval(text) + 1)


def edits(package):
    """Every edit that compiles, as (path, line, start, end, replacement)."""
    paths = [package] if package.is_file() else sorted(package.rglob("*.*"))
    for path in paths:
        if path.suffix not in (".py", ".sql") or path.name == "rankql.sql" or "dbt" in path.parts:
            continue
        source = path.read_text()
        for start, end, text in (python_edits if path.suffix == ".py" else sql_edits)(source):
            line = source.count("\n", 0, start) + 1
            yield path.relative_to(ROOT), line, start, end, text


def importers(tree, path):
    """The files of tests that import a module."""
    package, _, name = ".".join(path.with_suffix("").parts).rpartition(".")
    wanted = re.compile(
        rf"^(from|import) {re.escape(package)}\.{name}\b"
        rf"|^from {re.escape(package)} import (\(\n)?[^)\n]*\b{name}\b",
        re.MULTILINE,
    )
    files = sorted((tree / "tests").rglob("test_*.py"))
    return [str(file.relative_to(tree)) for file in files if wanted.search(file.read_text())]


def files_of_folder(tree, path):
    """The files of tests of the folder that tests a module, of its package's name."""
    folder = tree / "tests" / path.parent.relative_to("rankql" if path.suffix == ".py" else ".")
    while not folder.is_dir():
        folder = folder.parent
    return [str(file.relative_to(tree)) for file in sorted(folder.rglob("test_*.py"))]


def run_tests(tree, tests, mark, timeout):
    """Whether the tests pass in a tree; None if they took too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-m", mark, *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # rewritten assertions take long, and are kept
    environment |= {"RANKQL_TURN": "1"} if (tree / ".git").exists() else {}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        run = subprocess.run(command, cwd=tree, env=environment, timeout=timeout, **quiet)
    except subprocess.TimeoutExpired:
        return None
    return run.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED)


def commit_all(tree):
    """Make the copy a commit on the main branch of the server, from which the edit differs."""
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "before the edit"],
                    ["update-ref", "refs/remotes/origin/main", "HEAD"],
                    ["commit", "-q", "--allow-empty", "-m", "the edit"]):  # fmt: skip
        subprocess.run(["git", *names, *command], cwd=tree, check=True)


def outcome(tree, path, options):
    """Which tests notice the edit of a module, if any."""
    importing = importers(tree, path)
    files = options.tests or files_of_folder(tree, path)
    files = sorted(files, key=lambda file: file not in importing)  # these notice soonest
    passed = run_tests(tree, files, LIGHT, options.timeout)
    if passed and importing:
        passed = run_tests(tree, importing, "slow and not simulation", options.timeout)
        return {True: "missed", False: "noticed by slow tests", None: "unknown"}[passed]
    return {True: "missed", False: "noticed", None: "unknown"}[passed]


def main():
    """Edit, test, and print what the tests miss."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    help_ = "folders or files, or sql"
    parser.add_argument("--package", nargs="+", default=["rankql"], help=help_)
    parser.add_argument("--tests", nargs="+", help="default: those of the package's folder")
    parser.add_argument("--edits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ci", action="store_true", help="the tests that .ci/run runs")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    options = parser.parse_args()
    possible = [edit for package in options.package for edit in edits(ROOT / package)]
    chosen = random.Random(options.seed).sample(possible, min(options.edits, len(possible)))
    counts = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=lambda _, names: IGNORED & {*names})
        if options.ci:
            commit_all(tree)
        used = {tuple(options.tests or files_of_folder(tree, path)) for path, *_ in chosen}
        if not all(run_tests(tree, files, LIGHT, options.timeout) for files in used):
            raise SystemExit("The tests fail before any edit.")  # or take too long
        for path, line, start, end, text in chosen:
            source = (ROOT / path).read_text()
            (tree / path).write_text(source[:start] + text + source[end:])
            found = outcome(tree, path, options)
            counts[found] += 1
            if found != "noticed":
                print(f"{found}: {path}:{line}  {source[start:end]} -> {text}", flush=True)
            (tree / path).write_text(source)
    counted = ", ".join(f"{count} {found}" for found, count in counts.most_common())
    print(f"{counted} of {len(chosen)} edits")


if __name__ == "__main__":
    main()
