"""What a rule of the reader buys: verdicts of recorded cases, with it and without it.

    python tests/shapes/knock_out.py                   the verdict of each case
    python tests/shapes/knock_out.py RULE... [-j 2]    cases that change without each rule
    python tests/shapes/knock_out.py --rules           the rules

The suites are those of ../shared/prototypes, or of the folder in RANKQL_CASES. A rule of reading
names the public inputs that need it; this command shows what else it decides.
"""

import argparse
import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get("RANKQL_CASES", ROOT.parent / "shared" / "prototypes"))
# Modules with a function per case, and scripts that print what does not hold.
MODULES = ("search", "logs", "engines")
SCRIPTS = ("reading3/spelling", "bring_cases", "other_cases", "reading_cases")
# Inputs that only a test has, of rules that no recorded case needs.
OWN = {
    "answers from 0, queries from 1": (
        '[{"hits": {"hits": [{"_id": x}]}} for x in "ab"]',
        "{1: {'a': 1}, 2: {'b': 1}}",
    ),
    "a request with one row each": (
        "pl.DataFrame({'request_id': ['1', '2'], 'pos': [2, 1], 'rel': [1, 1]})",
        "None",
    ),
    "the query has another name": (
        "pl.DataFrame({'qid': ['a', 'b'], 'item': ['x', 'y'], 'score': [1.0, 2.0]})",
        "pl.DataFrame({'q': ['a', 'b'], 'user': [1, 1], 'item': ['x', 'y'], 'rel': [1, 1]})",
    ),
}
# What stands in for a function: module, name, and the replacement as Python.
RULES = {
    "trial of offers": (
        "shapes.ask.trials", "verified", "lambda question, read: type(question)(question.text, "
        "was._likely(question)[:3], question.hint, question.otherwise, question.others)"),
    "offers": (
        "shapes.ask.trials", "verified", "lambda question, read: type(question)(question.text, [], "
        "question.hint, question.otherwise, question.others)"),
    "offers make sense": ("shapes.ask.trials", "_makes_sense", "lambda call: True"),
    "columns to fill in": (
        "shapes.ask.answers", "with_columns", "lambda session, question, tables: question"),
    "names alone decide": ("core.tables.candidates", "name_ids", "lambda *arguments: None"),
    "choice by values": (
        "shapes.choose.choice", "choose_columns",
        "lambda session, run, qrels, by_values=True: old(session, run, qrels, False)"),
    "other query that matches": ("shapes.choose.choice", "suggest_query", "lambda *arguments: ''"),
    "one name per number": (
        "shapes.choose.choice", "require_one_name", "lambda session, table, *_: table"),
    "system by values": ("shapes.choose.choice", "find_system", "lambda *arguments: None"),
    "cells with several ids": (
        "shapes.choose.cells", "unpack_cells",
        "lambda session, table, names=(): was.unpack_objects(table)"),
    "query of rows with lists": (
        "shapes.choose.row_keys", "find_ids", "lambda *arguments, **options: []"),
    "order of positions": ("core.tables.numbers.order", "check_order", "lambda *arguments: ()"),
    "order of scores": (
        "core.tables.numbers.order", "order_of_scores", "lambda *arguments: iter(())"),
    "item -1": ("core.tables.numbers.values", "refuse_padding", "lambda *arguments: None"),
    "fill-ins": (
        "core.tables.numbers.values", "without_fill_rows", "lambda session, table: (table, None)"),
    "long integers as scores": (
        "core.tables.numbers.values", "refuse_rounded_scores", "lambda *arguments: None"),
    "text as numbers": (
        "core.tables.numbers.values", "read_numbers", "lambda session, table: table"),
    "requests with one row": (
        "core.tables.reading", "_refuse_single_rows", "lambda *arguments: None"),
    "numbered columns": ("shapes.open.wide_columns", "fold_columns", "lambda reader, table: table"),
    "answers of engines": ("shapes.open.shapes", "find_shape", "lambda keys: None"),
    "split logs": (
        "features.training", "split_log", "lambda s, runs, qrels, train, o: (qrels, train)"),
    "words of list names": ("core.base.column_names", "list_side", "lambda name: ''"),
}  # fmt: skip


def rules():
    from rankql.shapes.doubts import account

    return [*RULES, *(f"doubt {doubt.__name__.strip('_')}" for doubt in account.DOUBTS)]


def switch_off(rule):
    """Replace the function of a rule in every module that has it."""
    from rankql.shapes.doubts import account

    if rule.startswith("doubt "):
        account.DOUBTS = [x for x in account.DOUBTS if x.__name__.strip("_") != rule[6:]]
        return
    place, name, code = RULES[rule]
    was = importlib.import_module(f"rankql.{place}")
    old = getattr(was, name)
    new = eval(code, {"was": was, "old": old})  # of the table above
    for module in [x for key, x in sys.modules.items() if key.startswith("rankql")]:
        for attribute, value in [*vars(module).items()]:
            if value is old:
                setattr(module, attribute, new)


def run_module(name):
    """The verdict of each case of a module: its cases are in CASES, or in PUBLIC and OWN."""
    module = importlib.import_module(name)
    if hasattr(module, "PUBLIC"):
        cases = {x: f for part in (module.PUBLIC, module.OWN) for x, (f, _) in part.items()}
    elif isinstance(module.CASES, list):
        cases = {x: lambda r=r, y=y: module.verdict(r, *y) for x, r, *y in module.CASES}
    else:
        cases = {x: f for x, (_, f) in module.CASES.items()}
    for case, function in cases.items():
        if hasattr(module, "LAST"):
            module.LAST.clear()
            module.LAST["text"] = ""
        try:
            verdict = function()
        except Exception as error:
            verdict = f"crash {type(error).__name__}"
        yield f"{name} {case}", verdict[0] if isinstance(verdict, tuple) else verdict


def run_script(name):
    """What a script says does not hold."""
    code = f"import knock_out, runpy; {RULE!r} and knock_out.switch_off({RULE!r}); "
    code += f"runpy.run_path({str(CASES / name)!r} + '.py', run_name='__main__')"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    script = subprocess.run(command, capture_output=True, text=True, env=paths)
    for line in script.stdout.splitlines():
        if match := re.match(r"(not noted|false notes)[^:]*: (.*)", line):
            yield from ((f"{name} {x}", match[1]) for x in match[2].split(", ") if x)
        elif " | " in line or (": " in line and " of " not in line and not line.startswith("{")):
            yield f"{name} {line.split(': ')[0]}", "does not hold"


def run_own():
    import polars as pl

    import rankql

    for case, texts in OWN.items():
        run, qrels = (eval(text, {"pl": pl}) for text in texts)
        try:
            yield f"own {case}", f"{rankql.evaluate(run, qrels, 'RR')['RR']}"
        except rankql.RankqlError as error:
            yield f"own {case}", f"asked: {str(error)[:90]}"


RULE = ""


def verdicts(rule):
    global RULE
    RULE = rule
    if rule:
        switch_off(rule)
    with contextlib.redirect_stdout(io.StringIO()):
        found = [*run_own()]
        for name in MODULES:
            found += run_module(name)
        for name in SCRIPTS:
            found += run_script(name)
    return dict(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rule", nargs="*")
    parser.add_argument("-j", type=int, default=1, help="processes")
    parser.add_argument("--rules", action="store_true", help="list the rules")
    parser.add_argument("--verdicts", metavar="RULE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rules:
        print(*rules(), sep="\n")
        return
    if options.verdicts is not None:
        for case, verdict in verdicts(options.verdicts).items():
            print(f"{case}\t{verdict}")
        return
    if not CASES.exists():
        sys.exit(f"{CASES} does not exist. Name the folder of the cases: RANKQL_CASES")
    wanted = options.rule if options.rule != ["all"] else rules()
    if unknown := {*wanted} - {*rules()}:
        sys.exit(f"Unknown rules: {', '.join(sorted(unknown))}. --rules lists them")

    def ask(rule):
        command = [sys.executable, __file__, "--verdicts", rule]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return dict(line.split("\t") for line in output.splitlines())

    with ThreadPoolExecutor(options.j) as pool:
        with_all, *without = pool.map(ask, ["", *wanted])
    if not wanted:
        for case, verdict in with_all.items():
            print(f"{verdict:12} {case}")
    for rule, found in zip(wanted, without, strict=True):
        changes = {x for x in {*with_all, *found} if with_all.get(x) != found.get(x)}
        print(f"{rule}: {len(changes)} of {len(with_all)} cases change")
        for case in sorted(changes):
            print(f"    {with_all.get(case, 'holds')} -> {found.get(case, 'holds')}: {case}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent), str(CASES), str(CASES / "reading3")]
    main()
