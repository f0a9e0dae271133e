"""What is shipped: wheel and sdist carry the SQL, and a plain DuckDB reads it without Python."""

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from rankql import macros

ROOT = Path(__file__).parents[1]
CALL = "SELECT ndcg(rel, pos, 3) FROM (VALUES (5, 1), (2, 2), (3, 3)) AS t (rel, pos)"
NDCG = "0.983411472263"


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.mark.slow
def test_both_carry_the_sql(built):
    sdist, wheel = built
    for path in filter(Path.is_file, (ROOT / "sql").rglob("*")):
        file = path.relative_to(ROOT).as_posix()
        with zipfile.ZipFile(wheel) as archive:
            assert archive.read(f"rankql/{file}") == path.read_bytes()
        with tarfile.open(sdist) as archive:
            name = f"{sdist.name.removesuffix('.tar.gz')}/{file}"
            assert archive.extractfile(name).read() == path.read_bytes()


@pytest.mark.slow
def test_the_wheel_in_a_fresh_environment(built, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", with_pip=True)
    run(python, "-m", "pip", "install", "-q", built[1])
    shown = run(python, "-m", "rankql", "demo", "--queries", 500, cwd=tmp_path)
    assert "nDCG@10" in shown and "│ all" in shown
    assert (tmp_path / "rankql-demo" / "shop.parquet").exists()
    assert run(python, "-m", "rankql", "sql", cwd=tmp_path) == macros.sql()
    pandas = "import rankql, sys; print('pandas' in sys.modules)"
    assert run(python, "-c", pandas, cwd=tmp_path) == "False\n"


@pytest.mark.parametrize("files", [["rankql"], ["common", "gain"]])
def test_a_duckdb_without_python_reads_them(files):
    cli = Path(sys.executable).with_name("duckdb")
    cli = str(cli) if cli.exists() else shutil.which("duckdb")
    assert cli, "the DuckDB command line is missing: pip install duckdb-cli"
    commands = [f".read sql/{file}.sql" for file in files]
    text = "\n".join([*commands, CALL + ";"])
    assert NDCG in run(cli, "-noheader", "-list", input=text, cwd=ROOT)
