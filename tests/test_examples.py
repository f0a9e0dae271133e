"""The examples run as their first lines say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the demo's data and the SQL of the project."""
    path = tmp_path_factory.mktemp("examples")
    (path / "sql").symlink_to(ROOT / "sql")
    subprocess.run([sys.executable, "-m", "rankql", "demo"], cwd=path, check=True, capture_output=True)
    return path


def test_sql(folder):
    cli = Path(sys.executable).with_name("duckdb")
    text = (ROOT / "examples" / "shop.sql").read_text()
    done = subprocess.run([cli, "-csv"], input=text, cwd=folder, check=True, capture_output=True, text=True)
    assert "regular,8083,186,0.7385" in done.stdout and "rr_bought" in done.stdout


def test_polars(folder):
    script = ROOT / "examples" / "shop_polars.py"
    done = subprocess.run([sys.executable, script], cwd=folder, check=True, capture_output=True, text=True)
    assert "0.738578" in done.stdout and "ndcg_by_score" in done.stdout
