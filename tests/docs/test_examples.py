"""The examples run as their first lines say."""

import itertools
import os
import sys

import pytest

from support import components
from support.environments import run
from support.paths import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the demo's data and the SQL of the project."""
    path = tmp_path_factory.mktemp("examples")
    (path / "sql").symlink_to(ROOT / "sql")
    run(sys.executable, "-m", "rankql", "demo", cwd=path)
    return path


@pytest.mark.duckdb_cli
def test_sql(folder):
    cli = components.program("duckdb")
    text = (ROOT / "examples" / "shop.sql").read_text()
    printed = run(cli, "-csv", "-bail", cwd=folder, input=text)
    expected = [
        "regular,8083,186,0.7386,0.7007",
        "users,ndcg\n9986,0.6913",
        "regular,0.7229",
        "ndcg_of_new\n0.7013",  # as evaluate says, in the README
        "ndcg_of_lists\n0.6786",
        'q10910,0.0,0.0769,"[0, 0, ',
    ]
    assert [words for words in expected if words not in printed] == []


# Runs a script, then says how much memory it had at most. (What getrusage says is inherited.)
MEASURED = """
import re, runpy, sys
script, *sys.argv = sys.argv[1:]
sys.path.insert(0, str(script.rpartition("/")[0]))
runpy.run_path(script, run_name="__main__")
print("kB:", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
def test_polars_streams_what_memory_could_not_hold(tmp_path):
    script = ROOT / "examples" / "shop_polars.py"
    command = [sys.executable, "-c", MEASURED, script, script, "24"]
    run(*command, cwd=tmp_path)  # writes the data
    printed = run(*command, cwd=tmp_path, env={**os.environ, "POLARS_MAX_THREADS": "2"})
    assert "0.6 GB of columns" in printed and "0.1729" in printed
    assert int(printed.split("kB:")[1]) < 400_000


# The same for the same seed, on every version.
STORIES = {
    "shop_story.py": [
        "nDCG@5: new loses to old by 0.043",
        "18 of 18 intervals contain it",
        "(0.064 and 0.058), but fewer users like them (corrected 0.08 and 0.25;",
        "the new ranker's DCG@5 is 39% higher\n(truth: 45%)",
        "67% of the list repeats\na product",
    ],
    "feed_story.py": [
        "no significant difference between topics in turn and taste",
        "most novel (6.7 bits), but hardly watched (nDCG@3 0.004)",
        "have a similar nDCG@3, 0.078\nand 0.079",
        "55% of the pairs of 'topics in turn' have different topics,\nagainst 42%",
    ],
}


@pytest.mark.report
@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_stories(story, tmp_path):
    printed = run(sys.executable, ROOT / "examples" / story, cwd=tmp_path)
    assert [words for words in STORIES[story] if words not in printed] == []
    assert len([*tmp_path.glob("rankql-stories/*/*.png")]) == 2


@pytest.mark.report
def test_pictures_of_the_report(tmp_path):
    image = components.optional("PIL.Image")
    # A process of its own, because another test of this one may have started a browser.
    take = "import report_picture as r; r.take_pictures(r.write_report(p := r.Path.cwd()), p)"
    path = os.pathsep.join([str(ROOT / "examples"), str(ROOT)])
    run(sys.executable, "-c", take, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    colours = {"light": (255, 255, 255), "dark": (20, 24, 29)}
    sizes = {"": (1280, 800), "-phone": (780, 1280)}
    folders = (tmp_path, ROOT / "docs" / "images")
    for scheme, screen, folder in itertools.product(colours, sizes, folders):
        path = folder / f"report-{scheme}{screen}.png"
        picture = image.open(path).convert("RGB")
        assert picture.size == sizes[screen] and path.stat().st_size < 150_000
        assert picture.getpixel((5, 5)) == pytest.approx(colours[scheme], abs=3)
