"""The macros in a database file of their own, as any DuckDB attaches it."""

import duckdb
import pytest
from click.testing import CliRunner

from rankql.cli.main import main

CALL = "ndcg(rel, pos, 3) FROM (VALUES (5, 1), (2, 2), (3, 3)) AS t (rel, pos)"
NDCG = [(pytest.approx(7.7618595071429155 / 7.892789260714372),)]


def write(path):
    return CliRunner().invoke(main, ["sql", "--database", str(path)])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("it's") / "metrics.duckdb"
    done = write(path)
    text = str(path).replace("'", "''")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"Next, in DuckDB: ATTACH '{text}' AS rankql (READ_ONLY);\n"
    assert list(path.parent.iterdir()) == [path]
    return path


@pytest.fixture
def con(path):
    with duckdb.connect() as con:
        attach(con, path)
        yield con


def attach(con, path):
    text = str(path).replace("'", "''")
    con.execute(f"ATTACH '{text}' AS rankql (READ_ONLY)")


@pytest.mark.slow
def test_the_format_is_that_of_1_4(path):
    """DuckDB 1.4 has 67, and 1.4.3 opens no file of a newer one."""
    assert path.read_bytes()[12:20] == (67).to_bytes(8, "little")


def test_where_it_is_called_from(con, path, tmp_path):
    assert con.cursor().sql(f"SELECT rankql.{CALL}").fetchall() == NDCG
    con.execute(f"CREATE VIEW quality AS SELECT rankql.{CALL}")
    assert con.sql("FROM quality").fetchall() == NDCG
    with pytest.raises(duckdb.ConversionException, match="rankql: k must be a whole number"):
        con.sql(f"SELECT rankql.{CALL.replace('3)', '0)', 1)}").fetchall()
    con.execute("USE rankql")
    assert con.sql(f"SELECT {CALL}").fetchall() == NDCG
    with duckdb.connect(tmp_path / "shop.duckdb") as shop:
        attach(shop, path)
        shop.execute(f"CREATE VIEW quality AS SELECT rankql.{CALL}")
    con.execute(f"ATTACH '{tmp_path}/shop.duckdb'")
    assert con.sql("FROM shop.quality").fetchall() == NDCG


def test_ranked_adds_a_position(con):
    row = "SELECT 1 AS query, 'a' AS item, 0.5 AS score"
    con.execute(f"CREATE TABLE scored AS {row}, {{'pos': 1}} AS \"a pos\"")
    assert con.sql("SELECT pos, item FROM rankql.ranked('scored')").fetchall() == [(1, "a")]
    con.execute(f"CREATE TABLE placed AS {row}, 1 AS Pos")
    with pytest.raises(duckdb.Error, match="rankql: the table has a column 'pos' already: drop or"):
        con.sql("SELECT count(*) FROM rankql.ranked('placed')").fetchall()


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "rankql.duckdb"
    path.write_text("mine")
    done = write(path)
    assert done.exit_code == 2 and "exists and is not overwritten. Delete it" in done.stderr
    assert path.read_text() == "mine" and list(tmp_path.iterdir()) == [path]
    assert "folder" in write(tmp_path / "no" / "rankql.duckdb").stderr
    done = CliRunner().invoke(main, ["sql", "a.parquet", "--database", str(tmp_path / "b.duckdb")])
    assert done.exit_code == 2 and "With --database, pass no other arguments" in done.stderr
