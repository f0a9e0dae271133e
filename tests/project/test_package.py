"""What is shipped: wheel and sdist carry the SQL, and a plain DuckDB reads it without Python."""

import json
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata

from rankql.core.metrics import macros
from support import components
from support.environments import run
from support.paths import ROOT

README = ROOT / "README.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
STATED = re.compile(
    r"a\s+wheel\s+of\s+(\d+)\s+kB\s+and\s+(\d+)\s+dependencies,\s+(\d+)\s+with\s+theirs"
)
CALL = "SELECT ndcg(rel, pos, 3) FROM (VALUES (5, 1), (2, 2), (3, 3)) AS t (rel, pos)"
NDCG = "0.983411472263"
# With what is in no dependency: pandas, and scipy for the interval of a mean.
CONVERTED = """
import polars as pl, rankql, sys
ranked = pl.DataFrame({"query": ["q", "r", "s"], "rel": [1, 1, 1], "pos": [1, 2, 4]})
result = rankql.evaluate(ranked, metrics="RR", interval="t")
result.to_arrow(), result.to_json(), repr(result), result._repr_html_(), result.to_markdown()
print("pandas" in sys.modules, *result.summary.select("mean", "lo").row(0))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.mark.package
def test_both_carry_the_sql(built):
    sdist, wheel = built
    for path in filter(Path.is_file, (ROOT / "sql").rglob("*")):
        file = path.relative_to(ROOT).as_posix()
        with zipfile.ZipFile(wheel) as archive:
            assert archive.read(f"rankql/{file}") == path.read_bytes()
        with tarfile.open(sdist) as archive:
            name = f"{sdist.name.removesuffix('.tar.gz')}/{file}"
            assert archive.extractfile(name).read() == path.read_bytes()


@pytest.mark.package
def test_the_records_of_tools_are_shipped_and_the_findings_are_in_the_sdist(built):
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = {*archive.namelist()}
    assert {"rankql/core/metrics/profiles.toml", "rankql/core/metrics/other_names.txt"} <= names
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    findings = {path.relative_to(ROOT).as_posix() for path in (ROOT / "findings").iterdir()}
    assert len(findings) > 10 and findings <= inside


@pytest.mark.package
@pytest.mark.parametrize("versions", ["newest", "lowest"])
def test_in_a_fresh_environment(built, tmp_path, versions):
    """The wheel with the dependencies; with the newest ones then the sdist in its place."""
    needs = PROJECT["dependencies"] if versions == "lowest" else []
    uv, python = components.program("uv"), tmp_path / "venv" / "bin" / "python"
    run(uv, "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    install = [uv, "pip", "install", "-q", "--python", python]
    sdist, wheel = built
    run(*install, wheel, *(need.replace(">=", "==") for need in needs))
    works(python, tmp_path / "wheel")
    if versions == "newest":
        listed = json.loads(run(uv, "pip", "list", "--python", python, "--format", "json"))
        # What the documentation says of the size and the dependencies, which are bounds.
        texts = [README, *(ROOT / "docs").rglob("*.md")]
        matches = [STATED.search(text.read_text("utf-8")) for text in texts]
        size, direct, all_of_them = next(map(int, match.groups()) for match in matches if match)
        assert size * 0.8 < wheel.stat().st_size / 1000 <= size
        assert direct == len(PROJECT["dependencies"]) <= 5
        assert len(listed) - 1 == all_of_them, listed
        run(*install, "--no-deps", "--reinstall", sdist)
        works(python, tmp_path / "sdist")


def works(python, folder):
    """The demo, a query, the text of the macros, and a result, without pandas and scipy."""
    folder.mkdir()
    printed = run(python.parent / "rankql", "demo", "--queries", 500, cwd=folder)
    assert "nDCG@10" in printed and "│ all" in printed
    assert (folder / "rankql-demo" / "shop.parquet").exists()
    query = "import duckdb, rankql; rankql.register(duckdb); print(duckdb.sql(%r).fetchall())"
    assert run(python, "-c", query % CALL, cwd=folder).startswith(f"[({NDCG}")
    assert run(python, "-m", "rankql", "sql", cwd=folder) == macros.read_sql()
    assert run(python, "-c", CONVERTED, cwd=folder).startswith("False 0.58333333333333")


@pytest.mark.package
def test_what_an_index_shows(built):
    """The metadata is valid; the description is the README, without links that lead nowhere."""
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name)
    with tarfile.open(sdist) as archive:
        name = f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO"
        assert archive.extractfile(name).read() == text
    metadata = Metadata.from_email(text, validate=True)
    assert metadata.description_content_type == "text/markdown"
    assert set(metadata.provides_extra) == set(PROJECT["optional-dependencies"])
    code = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    assert code.findall(metadata.description) == code.findall(README.read_text("utf-8"))
    links = re.findall(r"\]\(([^)\s]*)\)", code.sub("", metadata.description))
    assert [link for link in links if not link.startswith(("#", "https://"))] == []


@pytest.mark.package
def test_what_an_index_accepts(built):
    """The description renders, and the wheel has no file that it should not have."""
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    run(sys.executable, "-m", "check_wheel_contents", built[1])


def test_workflows():
    """One runs .ci/run, the other publishes a tag without a password, after its checks."""
    folder = ROOT / ".github" / "workflows"
    ci, release = (
        yaml.safe_load((folder / f"{x}.yml").read_text("utf-8")) for x in ("ci", "release")
    )
    test, all_of_them = ci["jobs"]["test"], ci["jobs"]["all"]
    assert "bash .ci/run" in test["steps"][-1]["run"]
    assert test["steps"][0]["with"] == {"fetch-depth": 2}
    assert all_of_them["steps"][-1]["run"].endswith("bash .ci/run --all")
    # YAML 1.1 reads `on` as true.
    assert [*ci[True]] == ["push", "pull_request", "schedule"]
    assert release[True] == {"push": {"tags": ["v*"]}}
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    commands = "\n".join(step.get("run", "") for step in build["steps"])
    for command in ("-m build", "twine check --strict", "check_wheel_contents", "GITHUB_REF_NAME"):
        assert command in commands
    assert publish["permissions"] == {"id-token": "write"} and publish["needs"] == "build"
    assert "password" not in (folder / "release.yml").read_text("utf-8").partition("jobs:")[2]


def test_classifiers_name_the_versions_that_are_tested():
    listed = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert listed == [*dict.fromkeys(re.findall(r'python-version: "(.*)"', text))]
    assert PROJECT["requires-python"] == f">={listed[0]}"


def test_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert {"cff-version", "message", "title", "authors", "type"} <= citation.keys()
    package = yaml.safe_load((ROOT / "sql" / "dbt_project.yml").read_text("utf-8"))
    assert package["version"] == PROJECT["version"]


def test_issue_forms():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        form = yaml.safe_load(path.read_text("utf-8"))
        assert form["name"] and form["description"]
        ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert ids and len(ids) == len(set(ids)), path.name


def test_links_of_the_readme():
    """What it links to by a path is there, for those who read it in a checkout."""
    for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", README.read_text("utf-8")):
        assert (ROOT / link).exists(), link


@pytest.mark.duckdb_cli
@pytest.mark.parametrize("files", [["rankql"], ["common", "packed", "gain"]])
def test_a_duckdb_without_python_reads_them(files):
    cli = components.program("duckdb")
    commands = [f".read sql/{file}.sql" for file in files]
    text = "\n".join([*commands, CALL + ";"])
    assert NDCG in run(cli, "-noheader", "-list", input=text, cwd=ROOT)
