"""Without numpy and scipy, every public function and command runs or names their extra."""

import json
import os
import re
import subprocess
import sys

import pytest

import rankql
from rankql import RankqlError
from rankql.core.base.errors import name_stats_extra
from support.paths import ROOT

NEEDS = r"needs (scipy|numpy): pip install 'rankql\[stats\]'$"
# What needs them, and says so; all else runs.
NAMES = {
    *("Comparison", "JudgeReport", "Verification", "associate", "audit", "compare", "funnel"),
    *("gate", "judges", "queries_needed", "verify"),
}
CALLS = {"cluster=", "mean='slices'", "interval='anytime'", "judge=", "plot"}
COMMANDS = {"associate", "audit", "compare", "funnel", "gate", "judges", "report", "verify"}


@pytest.mark.slow
def test_every_public_function_and_command_runs_or_names_the_extra(tmp_path):
    script = ROOT / "tests" / "support" / "without_stats.py"
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", script], cwd=tmp_path, env=path, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    said = json.loads(printed.splitlines()[-1])
    assert said["unknown"] == []
    assert {*said["names"]} == {*rankql.__all__}
    failed = {part: {x for x, y in said[part].items() if y} for part in said if part != "unknown"}
    assert failed == {
        "names": NAMES, "calls": {*CALLS, "assert_no_regression"}, "commands": COMMANDS,
    }  # fmt: skip
    for part in failed:
        for name in failed[part]:
            called = "gate" if name == "assert_no_regression" else name
            assert re.search(rf"\b{re.escape(called)} {NEEDS}", said[part][name])


@pytest.mark.parametrize("package", ["numpy", "scipy", "scipy.stats", "pandas"])
def test_a_failed_import_names_the_extra(package, monkeypatch):
    def fail(name):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(rankql, "_lazy_getattr", fail)
    known = package != "pandas"
    message = "compare needs scipy: pip install" if known else "No module named 'pandas'"
    with pytest.raises(RankqlError if known else ModuleNotFoundError, match=message):
        rankql.__getattr__("compare")


def test_other_errors_stay():
    error = OSError("full")
    assert name_stats_extra(error, "report") is error
