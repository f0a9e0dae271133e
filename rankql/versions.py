"""The versions of what is installed, for a bug report."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

# As in pyproject.toml, which a test checks.
REQUIRED = ("click", "duckdb", "lazy-loader", "polars", "pyarrow")
OPTIONAL = (
    "altair",
    "dbt-core",
    "dbt-duckdb",
    "pandas",
    "pyspark",
    "scipy",
    "sqlglot",
    "vl-convert-python",
    "xlsxwriter",
)


def show_versions() -> None:
    """Print the versions of rankql, Python, the system, and the packages that rankql can use.

    No package is imported; a missing one is "not installed". `rankql versions` prints the same.

    >>> show_versions()  # doctest: +ELLIPSIS
    rankql             ...
    Python             ...
    system             ...
    <BLANKLINE>
    needed
    click              ...
    """
    print(_align("rankql", find_version("rankql")))
    print(_align("Python", platform.python_version()))
    print(_align("system", platform.platform()))
    for title, names in {"needed": REQUIRED, "optional": OPTIONAL}.items():
        print(f"\n{title}")
        for name in names:
            print(_align(name, find_version(name)))


def find_version(name: str) -> str:
    """Return the version of a package, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@cache
def own_version() -> str:
    """The version of rankql. To read it from its metadata takes 3 ms."""
    return find_version("rankql")


def _align(name: str, value: str) -> str:
    return f"{name:<17}  {value}"
