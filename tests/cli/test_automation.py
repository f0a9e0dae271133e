"""The GitHub Action, an example and the hook of pre-commit: their steps run in bash, as a runner
takes them.
"""

import os
import re
import shlex
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from rankql.cli import demo
from rankql.cli.main import main
from support.paths import ROOT

ACTION = yaml.safe_load((ROOT / ".github/actions/gate/action.yml").read_text("utf-8"))
# The command line of GitHub, as far as the action calls it: the artifact is a folder.
GH = """#!/bin/bash
[ "$GH_TOKEN" = secret ] || exit 4
case "$1 $2" in
  "run list") [[ "$*" == *"--workflow ranking --branch main "* ]] && echo 17;;
  "run download") [[ "$*" == *" 17 "*"--name quality "* ]] && cp -r "$ARTIFACT" "${@: -1}";;
esac
"""


@pytest.fixture
def bash(tmp_path):
    """Run a script as a runner does, with the rankql that is here and a stand-in for gh."""
    programs = {"rankql": f'#!/bin/sh\nexec "{sys.executable}" -m rankql "$@"\n', "gh": GH}
    for name, text in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    github = {"ACTIONS": "true", "STEP_SUMMARY": f"{tmp_path}/summary.md", "WORKFLOW": "ranking"}
    environment = os.environ | {f"GITHUB_{name}": value for name, value in github.items()}
    environment |= {
        "PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_REPOSITORY": "me/shop",
        "ARTIFACT": f"{tmp_path}/artifact",
    }

    def bash(script, **values):
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=tmp_path, env=environment | values, capture_output=True, text=True,
        )  # fmt: skip

    return bash


def take(bash, tmp_path, event, skip=(), **inputs):
    """The action's steps by name, until one fails, and the files that the last step keeps."""
    known = {name: about.get("default") for name, about in ACTION["inputs"].items()} | inputs
    context = {f"inputs.{name.replace('_', '-')}": value for name, value in known.items()}
    context |= {"runner.temp": str(tmp_path / "temp"), "github.token": "secret"}
    context |= {"github.base_ref": "main"}

    def resolve(text):
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: context[match[1]], text)

    conditions = {
        None: True,
        "inputs.install != ''": bool(known["install"]),
        "github.event_name == 'pull_request'": event == "pull_request",
    }
    *steps, upload = ACTION["runs"]["steps"]
    assert upload["if"] == "always()" and "upload-artifact" in upload["uses"]
    done = {}
    for step in steps:
        assert "${{" not in step["run"]  # what users write is no part of a script
        if conditions[step.get("if")] and step["name"] not in skip:
            values = {name: resolve(text) for name, text in step["env"].items()}
            done[step["name"]] = bash(step["run"], **values)
            if done[step["name"]].returncode:
                break
    paths = resolve(upload["with"]["path"]).split()
    return done, {os.path.basename(path): path for path in paths if os.path.exists(path)}


@pytest.mark.slow
@pytest.mark.report
def test_the_action(bash, tmp_path):
    """A push to the base branch, then a pull request that is worse, and one without limits."""
    demo.write_shop(tmp_path, 400)
    shop = {"install": "", "name": "quality", "by": "segment", "qrels": "shop.parquet"}
    limits = {"min": "nDCG@10>=0.2 RR@10>=0.1", "max_drop": "nDCG@10:0.1", "run": "shop.parquet"}
    base, kept = take(bash, tmp_path, "push", **shop, **limits)
    assert base["Gate"].stdout.startswith("Gate passed: 8 of 8 checks"), base
    assert set(kept) == {"results.parquet", "report.html", "gate.xml"}

    (tmp_path / "temp" / "quality").rename(tmp_path / "artifact")
    reverse = {"eval_options": "--score score --ascending", "gate_options": "--inconclusive warn"}
    worse, kept = take(bash, tmp_path, "pull_request", **shop, **limits, **reverse)
    assert worse["Results of the base branch"].stdout == "The baseline is run 17 of main.\n"
    assert "| worse |" in worse["Compare and report"].stdout
    assert worse["Gate"].returncode == 1, worse["Gate"]
    assert "::error title=nDCG@10 drop <= 0.1" in worse["Gate"].stderr
    assert ElementTree.parse(kept["gate.xml"]).getroot().get("tests") == "12"
    assert "report.html" in kept  # the artifact is kept all the same
    summary = (tmp_path / "summary.md").read_text()
    assert summary.count("| all | nDCG@10 |") == 2
    assert "**Gate passed" in summary and "**Gate failed" in summary
    assert "| worse |" in summary

    other = shop | {"name": "other", "run": "shop.parquet"}
    first, kept = take(bash, tmp_path, "pull_request", ["Compare and report"], **other)
    assert "::warning::main has no artifact 'other'" in first["Results of the base branch"].stdout
    assert "::notice::Neither a minimum" in first["Gate"].stdout and "gate.xml" not in kept


@pytest.mark.slow
def test_the_hook(bash, tmp_path, monkeypatch):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    for name in ("run.parquet", "data/qrels.csv.gz", "bm25.run", "dl19.qrels"):
        assert re.search(hook["files"], name)
    assert not re.search(hook["files"], "rank.py")
    (tmp_path / "qrels.csv").write_text("query,item,rel\n1,a,1\n2,b,0\n")
    (tmp_path / "good.csv").write_text("query,item,score\n1,a,0.5\n2,b,0.7\n")
    (tmp_path / "bad.csv").write_text("query,item,score\n1,a,0.5\n1,a,0.7\n")
    good, bad = (f"{hook['entry']} {name}.csv qrels.csv" for name in ("good", "bad"))
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, shlex.split(good)[1:]).exit_code == 0
    done = bash(bad)
    assert done.returncode == 1 and "duplicate" in done.stdout


@pytest.mark.slow
def test_the_workflow(bash, tmp_path):
    """The steps of the example."""
    workflow = yaml.safe_load((ROOT / "examples" / "github-actions.yml").read_text("utf-8"))
    steps = workflow["jobs"]["gate"]["steps"]
    scripts = {step["name"]: step["run"] for step in steps if "run" in step}
    assert [*scripts] == ["Install", "Data", "Gate"]
    assert scripts["Install"] == "pip install 'rankql[stats]'"
    assert bash(scripts["Data"]).returncode == 0
    done = bash(scripts["Gate"])
    assert (done.returncode, done.stdout[:28]) == (0, "Gate passed: 12 of 12 checks"), done
    (upload,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    assert upload["if"] == "always()"
    assert ElementTree.parse(tmp_path / upload["with"]["path"]).getroot().get("tests") == "12"
    assert "**Gate passed" in (tmp_path / "summary.md").read_text()
    strict = bash(scripts["Gate"].replace("0.03", "0.001"))
    assert strict.returncode == 1 and strict.stderr.startswith("::error title=nDCG@10 drop <=")
