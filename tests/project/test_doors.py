"""The doors of core: what they name exists, and what a tidy evaluation leaves closed."""

import re
import subprocess
import sys
from functools import cache

from rankql.core.base.doors import DOORS, FUNCTIONS, Door
from support.paths import PACKAGE, ROOT

# What a tidy evaluation may load. It grows only if somebody decides so.
MOST_MODULES = 77
TIDY = """
import sys
import polars as pl
from rankql.core.evaluation.evaluate import evaluate

run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
print(evaluate(run, qrels, ["RR@10", "nDCG@10"])["RR@10"])
print(*sorted(name for name in sys.modules if name.split(".")[0] == "rankql"))
print(evaluate({"a": {"x": 2.0, "y": 1.0}}, {"a": {"y": 1}}, "RR@10")["RR@10"])
print(*sorted(name for name in sys.modules if name.startswith("rankql.shapes")))
"""


@cache
def modules_loaded():
    """The lines that `TIDY` prints in a process of its own."""
    command = [sys.executable, "-c", TIDY]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_tidy_evaluation_opens_no_door():
    value, modules = modules_loaded()[:2]
    print(*modules.split(), sep="\n")
    assert value == "0.5"
    beside = ("shapes", "features", "decisions", "diagnostics")
    assert [name for name in modules.split() if name.startswith(beside, 7)] == []
    assert len(modules.split()) <= MOST_MODULES, modules


def test_evaluate_of_core_opens_what_it_does_not_know():
    value, modules = modules_loaded()[2:]
    assert value == "0.5" and "rankql.shapes.open.shapes" in modules.split()


def test_every_door_leads_somewhere():
    doors = [door for each in DOORS.values() for door in each]
    for door in [*doors, *(Door(bool, place) for place in FUNCTIONS.values())]:
        behind = door.load()
        assert callable(behind) or all(check.find for check in behind), door


def test_core_asks_for_the_doors_that_there_are():
    """A name that nobody registers, or that nobody asks for, is an error."""
    text = "".join(path.read_text("utf-8") for path in PACKAGE.joinpath("core").rglob("*.py"))
    tested = re.findall(r"(?:find_door\(|DOORS\[)\"([^\"]+)\"", text)
    called = re.findall(r"call_extra,?\(?\s*\"([^\"]+)\"", text)
    assert ({*tested}, {*called}) == ({*DOORS}, {*FUNCTIONS})


def test_contributing_names_the_file_where_each_thing_is_added():
    section = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8").partition("## Where to add")[2]
    lines = [x for x in section.partition("\n## ")[0].splitlines() if x.startswith("- ")]
    assert [x.split("**")[1].split()[1] for x in lines] == ["metric", "file", "check", "interval"]
    for line in lines:
        path, name = re.findall("`([^`]+)`", line)
        assert re.search(rf"^(def )?{name}\b", ROOT.joinpath(path).read_text("utf-8"), re.MULTILINE)
