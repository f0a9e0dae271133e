"""What some tests need beyond the extra `test`: libraries, programs, servers.

Each component is a pytest marker of the same name. A test with such a marker is skipped with the
reason if the component is missing, and fails if CI=true. Tests of heavy components are slow.
"""

import importlib
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from rankql.core.base.errors import RankqlError

EXTRA = "pip install -e '.[test-all]'"


@dataclass(frozen=True)
class Component:
    """Modules to import and programs to run. One program of each group is enough."""

    modules: tuple[str, ...] = ()
    programs: tuple[tuple[str, ...], ...] = ()
    remedy: str = EXTRA
    heavy: bool = True

    @cached_property
    def missing(self) -> str:
        """What is not installed, or an empty text."""
        modules = [name for name in self.modules if not find_spec(name)]
        programs = [group[0] for group in self.programs if not any(map(program, group))]
        return ", ".join(modules + programs)


def program(name):
    """The path of a program, or None. Debian keeps the Postgres server out of the PATH."""
    server = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    here = Path(sys.executable).with_name(name)
    return str(here) if here.exists() else str(server[-1]) if server else shutil.which(name)


class optional:
    """A module that is imported when it is used. Without it, its attributes are empty classes."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("_"):  # pytest looks for marks of its own when it collects
            raise AttributeError(attribute)
        try:
            return getattr(importlib.import_module(self._name), attribute)
        except (ImportError, RankqlError):
            return type(attribute, (), {})


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COMPONENTS = {
    "frames": Component(
        (
            "ibis",
            "narwhals",
            "datasets",
            "dask",
            "deltalake",
            "pyiceberg",
            "fastexcel",
            "xlsxwriter",
        )
    ),
    "browser": Component(("playwright",), (BROWSERS,), f"{EXTRA} && apt-get install chromium"),
    "bigquery": Component((), (("node",),), "apt-get install nodejs"),
    "clients": Component(("duckdb_engine", "ibis", "sql", "sqlalchemy")),
    "clickhouse": Component(("chdb",)),
    # dbt itself is installed by its tests, in an environment of its own.
    "dbt": Component((), (("uv",),)),
    "duckdb_cli": Component((), (("duckdb",),)),
    # Its test installs another DuckDB with the extension.
    "ducklake": Component((), (("uv",),)),
    "lakes": Component(("deltalake", "pyiceberg")),
    "mariadb": Component(
        ("pymysql",), (("mariadbd",),), f"{EXTRA} && apt-get install mariadb-server"
    ),
    "notebooks": Component(("ipykernel", "marimo", "nbclient", "nbformat")),
    "npm": Component((), (("npm",), ("node",)), "apt-get install npm"),
    "package": Component(("build", "check_wheel_contents", "twine"), (("uv",),)),
    "perl": Component((), (("perl",),), "apt-get install perl", heavy=False),
    "postgres": Component(("psycopg",), (("initdb",),), f"{EXTRA} && apt-get install postgresql"),
    "postgres18": Component(("psycopg",), (("npm",),), f"{EXTRA} && apt-get install npm"),
    "ranx": Component(("ranx",)),
    "report": Component(("altair", "vl_convert")),
    "site": Component(("sphinx", "furo", "myst_parser")),
    "spark": Component(
        ("pyspark",), (("java",),), f"{EXTRA} && apt-get install openjdk-17-jre-headless"
    ),
    "statsmodels": Component(("statsmodels",)),
    "tea_tasting": Component(("tea_tasting",)),
    # Their tests install Snowpark and ZetaSQL.
    "warehouses": Component((), (("uv",),)),
}
