"""Which tests rest at a commit, as git knows it."""

import subprocess

import pytest

from support import hand_cases, turns
from support.turns import FAMILIES, Turn, this_turn


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A repository with two commits, and its git."""
    monkeypatch.setenv("RANKQL_TURN", "1")

    def git(*arguments):
        names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *names, *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    for name in ("one", "two"):
        commit(git, tmp_path, name)
    return git


def commit(git, folder, name):
    (folder / name).write_text(name)
    git("add", "-A")
    git("commit", "-q", "-m", name)


def test_a_branch_changes_what_differs_from_main(git, tmp_path):
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("switch", "-q", "-c", "work")
    for name in ("three", "four"):
        commit(git, tmp_path, name)
    (tmp_path / "one").write_text("not committed")
    (tmp_path / "new").write_text("not in git")
    turn = this_turn(tmp_path)
    assert turn.number == int(git("rev-parse", "HEAD"), 16)
    assert {*turn.changed} == {"three", "four", "one", "new"}


def test_main_changes_what_its_last_commit_does(git, tmp_path):
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert this_turn(tmp_path).changed == ("two",)


def test_a_merge_changes_what_it_brings(git, tmp_path):
    """As CI fetches a pull request: without the branch main of the server."""
    git("switch", "-q", "-c", "work", "HEAD~1")
    for name in ("three", "four"):
        commit(git, tmp_path, name)
    git("switch", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merged", "work")
    assert {*this_turn(tmp_path).changed} == {"three", "four"}


def test_all_run_if_git_does_not_know(git, tmp_path, monkeypatch):
    assert this_turn(tmp_path) is None  # neither a merge nor a main to compare with
    assert this_turn(tmp_path.parent) is None  # no repository
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert this_turn(tmp_path)
    with monkeypatch.context() as without:
        without.setenv("PATH", "")
        assert this_turn(tmp_path) is None  # no git
    monkeypatch.delenv("RANKQL_TURN")
    assert this_turn(tmp_path) is None  # .ci/run --all


PROJECT = """[project]
dependencies = ["a>={}"]
[project.optional-dependencies]
test = ["b"]
test-all = ["c>={}"]
"""


@pytest.mark.parametrize(("versions", "counts"), [((2, 1), True), ((1, 2), False)])
def test_the_project_counts_where_the_dependencies_of_the_light_tests_differ(
    git, tmp_path, versions, counts
):
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(1, 1))
    commit(git, tmp_path, "three")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("switch", "-q", "-c", "work")
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(*versions))
    commit(git, tmp_path, "four")
    turn = this_turn(tmp_path)
    assert ("pyproject.toml" in turn.changed) is turn.runs_oldest is counts


def test_everything_has_its_turn():
    assert {*FAMILIES} == {*hand_cases.FAMILIES}
    each = [Turn(number, ()) for number in range(12 * len(FAMILIES))]
    for family in FAMILIES:
        assert sum(turn.runs_family(family) for turn in each) == 12
    for place in range(5):
        runs = [turn.runs_repetition(place, "tests/cli/test_cli.py") for turn in each]
        assert sum(runs) == len(each) / turns.REPETITIONS


@pytest.mark.parametrize(
    ("changed", "families"),
    [
        ("sql/order.sql", {"order", "list", "score", "repeated positions"}),
        ("tests/cases/gain.csv", {"gain"}),
        ("sql/spark.sql", {*FAMILIES}),
        ("tests/conftest.py", {*FAMILIES}),
        ("tests/support/signatures.py", {*FAMILIES}),  # by way of case_matrix.py
        ("docs/start.md", set()),
    ],
)
def test_families_that_a_commit_changes_run(changed, families):
    number = FAMILIES.index("rating")
    running = {x for x in FAMILIES if Turn(number, (changed,)).runs_family(x)}
    assert running == families | {"rating"}


@pytest.mark.parametrize(
    ("changed", "commits"),
    [
        ("rankql/core/tables/files.py", 2),  # a package that they test
        ("tests/cases/faults.toml", 1),
        ("tests/shapes/test_files.py", 6),
        ("tests/support/samples.py", 6),  # which it imports
        ("tests/support/paths.py", 6),  # as conftest.py does
        ("tests/support/spark_sessions.py", 1),
        ("tests/core/tables/test_tidy.py", 1),
        ("rankql/cli/main.py", 1),
    ],
)
def test_of_six_commits_that_change_a_file_so_many_run_a_repetition(changed, commits):
    each = [Turn(number, (changed,)) for number in range(6)]
    assert sum(x.runs_repetition(1, "tests/shapes/test_files.py") for x in each) == commits


@pytest.mark.parametrize(
    ("changed", "names", "quick"),
    [
        ("rankql/pages/report.py", {"report", "browser"}, False),
        ("docs/start.md", {"report", "browser"}, False),
        ("rankql/decisions/gate.py", {"report", "browser"}, False),
        ("sql/gain.sql", {"postgres", "postgres18", "clickhouse", "mariadb", "spark"}, True),
        ("rankql/core/metrics/parse.py", {"postgres", "clickhouse", "mariadb", "spark"}, True),
        ("rankql/core/tables/files.py", set(), True),
        ("rankql/shapes/ask/pairs.py", set(), True),
        ("rankql/logs/bias.py", set(), False),
        ("tests/conftest.py", {*turns.TESTED}, True),
        ("tests/engines/test_spark.py", {*turns.TESTED}, True),  # the tests' own file
    ],
)
def test_components_run_where_what_they_test_changes(changed, names, quick):
    turn, path = Turn(0, (changed,)), "tests/engines/test_spark.py"
    running = {x for x in turns.TESTED if turn.runs_components([x], path)}
    assert names <= running <= names | {"postgres18"}
    assert turn.runs_components(["spark"], path, quick=True) == quick
    assert turn.runs_components([], path) and turn.runs_components(["duckdb_cli"], path)


def test_repetitions_of_a_table_run_with_it():
    table = Turn(0, ("tests/cases/faults.toml",))
    assert table.runs_repetition(1, "tests/core/evaluation/test_faults.py")


def test_the_turn_is_said():
    turn = Turn(4, ())
    resting = "report, browser, postgres, postgres18, clickhouse, mariadb, spark"
    said = f"turn 5 of 6, Spark: none, without tests of {resting}, without the oldest versions"
    assert str(turn).startswith(said)
    assert "with the oldest" in str(Turn(4, ("pyproject.toml",)))
    assert str(Turn(4, ("sql/gain.sql",))).startswith(
        "turn 5 of 6, Spark: gain, list, repeated positions, score, without tests of report"
    )
