"""rankql: ranking metrics where your data lives, as DuckDB macros and polars expressions."""

import lazy_loader

import rankql.processes  # noqa: F401 - it remembers this process

# The names are in __init__.pyi and imported on first use: `rankql --help` need not wait for polars
# and duckdb.
_lazy_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("rankql")
        except PackageNotFoundError:  # a checkout on the path, not installed
            return "unknown"
    from rankql.retired import refuse_retired

    refuse_retired(name)
    return _lazy_getattr(name)
