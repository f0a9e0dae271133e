"""`show_versions`: what is installed, for a report of a bug."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

# A test compares both with pyproject.toml.
NEEDED = ("click", "duckdb", "lazy-loader", "polars", "pyarrow")
OPTIONAL = (
    "altair",
    "dbt-core",
    "dbt-duckdb",
    "pandas",
    "pyspark",
    "scipy",
    "sqlglot",
    "vl-convert-python",
)


def show_versions() -> None:
    """Print the versions of rankql, Python, the system, and what rankql needs or can use.

    Nothing is imported to find out; what is missing is "not installed". `rankql versions` prints
    the same.

    >>> show_versions()  # doctest: +ELLIPSIS
    rankql             ...
    Python             ...
    system             ...
    <BLANKLINE>
    needed
    click              ...
    """
    print(_line("rankql", _installed("rankql")))
    print(_line("Python", platform.python_version()))
    print(_line("system", platform.platform()))
    for title, names in {"needed": NEEDED, "optional": OPTIONAL}.items():
        print(f"\n{title}")
        for name in names:
            print(_line(name, _installed(name)))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _line(name: str, value: str) -> str:
    return f"{name:<17}  {value}"
