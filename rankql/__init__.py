"""rankql: ranking metrics where your data lives, as DuckDB macros and polars expressions."""

import ast
from pathlib import Path

import lazy_loader

import rankql.processes  # noqa: F401 - it remembers this process

# The names are in __init__.pyi and imported on first use: `rankql --help` need not wait for polars
# and duckdb.
_lazy_getattr, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    """List all names but variants of metrics, which `__all__` has too."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return sorted(
        alias.name
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if not alias.name.startswith(("list_", "micro_", "num_"))
        and not alias.name.endswith("_by_score")
    )


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("rankql")
        except PackageNotFoundError:  # a checkout on the path, not installed
            return "unknown"
    try:
        return _lazy_getattr(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        from rankql.errors import find_closest

        likely = find_closest(name, __all__)
        hint = f". Did you mean {likely}?" if likely else ""
        raise AttributeError(f"module 'rankql' has no attribute {name!r}{hint}") from None
