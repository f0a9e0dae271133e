"""Every error of rankql, read from the source: where it is raised and what it says.

A text is a list of parts, in which None stands for what is known only when the error is raised, and
a `Parameter` for an argument of the function or macro that raises it: each call of such a function
is an error of its own.
"""

import ast
import itertools
import json
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sqlglot
from sqlglot import exp

from rankql import macros
from rankql.errors import database_message
from support.paths import PACKAGE, ROOT

HOLE = "…"
# What raises: the classes whose first argument is the message.
RAISED = ("RankqlError", "click.UsageError")
# The functions that raise what their callers say: each call of them is an error.
RAISERS = (
    *("require", "require_choice", "require_flag", "require_whole_number"),
    *("require_package", "require_column", "refuse_values", "as_floats", "refuse", "_refuse"),
    "_need_numbers",
)


# What helpers could say by what they are called with, but never come to.
NEVER = (
    # A list of text is refused before its entries are looked at.
    "attention must be a number, not text. Cast it first",
    # Compared with 0, which no number of users is below.
    "users must be the number of users in the training data: … is less than the … that were shown",
)


@dataclass(frozen=True)
class Parameter:
    """An argument that is put into a message."""

    name: str


@dataclass(frozen=True)
class Error:
    """One place where an error is raised: what it may say, and in Python its lines."""

    file: str
    texts: frozenset[str]
    lines: range = range(0)

    def __str__(self):
        line = f":{self.lines[0]}" if self.lines else ""
        return f"{self.file}{line} {' | '.join(sorted(self.texts))}"


def written(text):
    """A text as the documentation shows it."""
    shown = "".join(part if isinstance(part, str) else HOLE for part in text)
    return re.sub(f"({HOLE})+", HOLE, " ".join(shown.split())).removesuffix(";")


def bound(texts, arguments):
    """The texts with what the arguments say in place of the parameters."""
    for text in texts:
        choices = [
            arguments.get(part.name, [[None]]) if isinstance(part, Parameter) else [[part]]
            for part in text
        ]
        for chosen in itertools.product(*choices):
            yield [part for parts in chosen for part in parts]


def parameters(texts):
    return {part.name for text in texts for part in text if isinstance(part, Parameter)}


# Python


class Module:
    """The functions and constants of a module, and who its names come from."""

    def __init__(self, path):
        self.file = path.relative_to(ROOT).as_posix()
        self.tree = ast.parse(path.read_text("utf-8"))
        self.within = {}  # of each node the functions around it, the innermost last
        self._place(self.tree, ())
        self.imported = {
            alias.asname or alias.name: (f"{node.module.replace('.', '/')}.py", alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def _place(self, node, around):
        self.within[node] = around
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            around = (*around, node)
        for child in ast.iter_child_nodes(node):
            self._place(child, around)

    def function(self, node):
        """The function around a node, and what others call it by."""
        around = [at for at in self.within[node] if isinstance(at, ast.FunctionDef)]
        if not around:
            return None, None
        method = any(isinstance(at, ast.ClassDef) for at in self.within[node])
        return around[-1], (None if method else self.file, around[-1].name)

    def called(self, function):
        """What the function of a call is called by; of a method its name alone."""
        if isinstance(function, ast.Attribute):
            return None, function.attr
        if isinstance(function, ast.Name):
            return self.imported.get(function.id, (self.file, function.id))
        return None, None

    def texts(self, node, seen=()):
        """What an expression may say."""
        if isinstance(node, ast.Constant):
            return [[str(node.value)]] if type(node.value) in (str, int) else [[None]]
        if isinstance(node, ast.JoinedStr):
            return self._product(node.values, seen)
        if isinstance(node, ast.FormattedValue) and node.conversion == -1:
            return self.texts(node.value, seen)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._product([node.left, node.right], seen)
        if isinstance(node, ast.IfExp):
            texts = [*self.texts(node.body, seen), *self.texts(node.orelse, seen)]
            return [text for text in texts if text != [""]]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "literal":
            return [["'", *text, "'"] for text in self.texts(node.args[0], seen)]
        if isinstance(node, ast.Name) and node.id not in seen:
            return self._named(node, (*seen, node.id))
        return [[None]]

    def _product(self, nodes, seen):
        parts = [self.texts(node, seen) for node in nodes]
        return [[*itertools.chain(*chosen)] for chosen in itertools.product(*parts)]

    def _named(self, node, seen):
        """A name: what is assigned to it in the functions around it or in the module."""
        for place in (*reversed(self.within[node]), self.tree):
            found = [
                text
                for at in ast.walk(place)
                if isinstance(at, ast.Assign | ast.AnnAssign) and at.value
                if place is not self.tree or at in self.tree.body
                for target in (at.targets if isinstance(at, ast.Assign) else [at.target])
                if isinstance(target, ast.Name) and target.id == node.id
                for text in self.texts(at.value, seen)
            ]
            if isinstance(place, ast.FunctionDef):
                taken = [*place.args.posonlyargs, *place.args.args, *place.args.kwonlyargs]
                if node.id in {argument.arg for argument in taken}:
                    found.append([Parameter(node.id)])
            if found:
                return found
        return [[None]]

    def arguments(self, call, function, skipped):
        """What each parameter of a function says in a call of it."""
        taken = function.args.args[skipped:]
        given = dict(zip([argument.arg for argument in taken], call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords}
        defaults = dict(
            zip(
                [argument.arg for argument in reversed(taken)],
                reversed(function.args.defaults),
                strict=False,
            )
        )
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        return {} if starred else {n: self.texts(v) for n, v in (defaults | given).items()}


@cache
def in_python():
    """The errors that Python raises."""
    modules = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    calls = [(m, n) for m in modules for n in ast.walk(m.tree) if isinstance(n, ast.Call)]
    found = {
        (module, call): module.texts(call.args[0])
        for module, call in calls
        if ast.unparse(call.func) in RAISED
    }
    raisers, new = {}, dict(found)
    while new:
        for (module, call), texts in new.items():
            function, name = module.function(call)
            if function and function.name in RAISERS and parameters(texts):
                raisers.setdefault(name, (function, []))[1].extend(texts)
        new = {
            (module, call): [*bound(texts, module.arguments(call, function, skipped))]
            for module, call in calls
            if (name := module.called(call.func)) in raisers and (module, call) not in found
            for function, texts in [raisers[name]]
            for skipped in [int(function.args.args[0].arg == "self")]
        }
        found |= new
    return [
        Error(
            module.file,
            frozenset() if module.function(call)[1] in raisers else frozenset(map(written, texts)),
            range(call.lineno, call.end_lineno + 1),
        )
        for (module, call), texts in found.items()
    ]


# SQL


_MACRO = re.compile(
    r"^CREATE OR REPLACE MACRO (\w+)\((.*?)\)\s+AS(?:\s+TABLE)?\s(.*?);\s*$", re.M | re.S
)
_PARAMETER = re.compile(r"(\w+)(?:\s*:=\s*('[^']*'|[\w.]+))?")


def _tree(text):
    # [:f(x)] would be read as a placeholder.
    return sqlglot.parse_one(re.sub(r"(?<=[\w)\]])\[:", "[1:", text), dialect="duckdb")


def _said(tree):
    """What an expression may say: texts put together, and the branches of a CASE."""
    if isinstance(tree, exp.DPipe):
        pairs = itertools.product(_said(tree.left), _said(tree.right))
        return [[*left, *right] for left, right in pairs]
    if isinstance(tree, exp.Paren):
        return _said(tree.this)
    if isinstance(tree, exp.Case):
        branches = [*(branch.args["true"] for branch in tree.args["ifs"]), tree.args.get("default")]
        return [text for branch in branches if branch for text in _said(branch)]
    if isinstance(tree, exp.Literal) and tree.is_string:
        return [[tree.this]]
    if isinstance(tree, exp.Column) and not tree.table:
        return [[Parameter(tree.name)]]
    return [[None]]


@cache
def in_sql():
    """The errors of the macros, and of the SQL that Python writes."""
    parsed = {
        name: (f"sql/{stem}.sql", dict(_PARAMETER.findall(listed)), _tree(body))
        for stem in macros.FAMILIES
        for name, listed, body in _MACRO.findall((ROOT / f"sql/{stem}.sql").read_text("utf-8"))
    }
    calls = {name: [*tree.find_all(exp.Anonymous)] for name, (_, _, tree) in parsed.items()}
    found = []
    for name, (file, taken, _) in parsed.items():
        raised = [call.expressions[0] for call in calls[name] if call.name == "rankql_fail"]
        said = [text for message in raised for text in _said(message)]
        callers = [call for called in calls.values() for call in called if call.name == name]
        arguments = [_arguments(call, taken) for call in callers]
        for text in said:
            texts = [t for given in arguments for t in bound([text], given)] or [*bound([text], {})]
            shown = dict.fromkeys(map(written, texts))
            found += [Error(file, frozenset([text])) for text in shown if text not in NEVER]
    return found + _in_python()


def _arguments(call, taken):
    """What each parameter of a macro says in a call of it."""
    given = {name: _tree(default) for name, default in taken.items() if default}
    given |= dict(
        zip(taken, [n for n in call.expressions if not isinstance(n, exp.PropertyEQ)], strict=False)
    )
    given |= {n.name: n.expression for n in call.expressions if isinstance(n, exp.PropertyEQ)}
    return {name: _said(tree) for name, tree in given.items()}


def _in_python():
    texts = [
        (module.file, written(text))
        for module in map(Module, sorted(PACKAGE.rglob("*.py")))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        for text in module.texts(node)
    ]
    return [
        Error(file, frozenset(map(written, _said(_tree(found)))))
        for file, text in texts
        for found in re.findall(r"\brankql_fail\(([…'].*?)\)(?: |$)", text)
    ]


# What tests have triggered


def unseen(seen):
    """The errors of which `seen` has no trace: in Python their lines, in SQL what they say."""
    lines = {at for at in seen if isinstance(at, tuple)}
    # A message is that of the text with which it has most in common.
    texts = {text for error in in_sql() for text in error.texts}
    texts = sorted(texts, key=lambda text: -len(text.replace(HOLE, "")))
    patterns = {text: re.compile(".*".join(map(re.escape, text.split(HOLE)))) for text in texts}
    messages = {database_message(Exception(at)) for at in seen if isinstance(at, str)}
    said = {next((t for t in texts if patterns[t].fullmatch(at)), None) for at in messages}
    return [
        *(e for e in in_python() if not any((str(ROOT / e.file), n) in lines for n in e.lines)),
        *(e for e in in_sql() if not e.texts & said),
    ]


def record(path, seen):
    """Add what a run has seen to a file, which the next run adds to."""
    lines = {line for line in seen if isinstance(line, str)}
    places = {(file, line) for file, line in seen - lines}
    before = json.loads(path.read_text("utf-8")) if path.exists() else []
    texts = {line for line in before if isinstance(line, str)} | lines
    places |= {tuple(place) for place in before if not isinstance(place, str)}
    path.write_text(json.dumps([*sorted(texts), *sorted(places)], indent=0), "utf-8")


def main():
    """Fail if no run recorded in the file has triggered some error."""
    recorded = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    left = unseen({text if isinstance(text, str) else tuple(text) for text in recorded})
    sys.exit("\n".join(dict.fromkeys(f"no test triggers {error}" for error in left)))
