"""rankql: ranking metrics where your data lives, as DuckDB macros and polars expressions."""

import ast
import os
from importlib import import_module
from pathlib import Path
from types import FunctionType

import lazy_loader

# The process that imported rankql: one that is forked from it lacks threads.
__process__ = os.getpid()
# What opens what core does not know, and is imported with core.
__doors__ = "rankql.doors"

# The names are in __init__.pyi and imported on first use: `rankql --help` need not wait for polars
# and duckdb. The forms of metrics are declared there, as a loop in `forms` makes them.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
_NAMES = dict[str, list[str]]()
for _node in _STUB:
    if isinstance(_node, ast.ImportFrom) and _node.level and _node.module:
        _NAMES.setdefault(_node.module, []).extend(alias.name for alias in _node.names)
_MODULES = ("errors", "spark", "testing")
_DECLARED = [node.target for node in _STUB if isinstance(node, ast.AnnAssign)]
_FORMS = [node.id for node in _DECLARED if isinstance(node, ast.Name) and node.id[:2] != "__"]
_lazy_getattr, _, __all__ = lazy_loader.attach(
    __name__, submod_attrs=_NAMES | {"core.expressions.forms": _FORMS}
)


def __dir__() -> list[str]:
    """List all names but variants of metrics, which `__all__` has too."""
    return sorted(
        name for name in {*__all__} - {*_FORMS} if not name.startswith(("micro_", "num_"))
    )


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            installed = version("rankql")
        except PackageNotFoundError:  # a checkout on the path, not installed
            installed = "unknown"
        return globals().setdefault(name, installed)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    try:
        value = _lazy_getattr(name)
    except ModuleNotFoundError as error:
        from rankql.core.base.errors import name_stats_extra

        raise name_stats_extra(error, name) from None
    except AttributeError:
        module = Path(__file__).with_name(name)
        if name.startswith("_") or module.exists() or module.with_suffix(".py").exists():
            raise
        from rankql.core.base.errors import RENAMED
        from rankql.core.metrics.macros import nearest_names
        from rankql.core.metrics.parse import function_called

        stem, by_score, _ = name.partition("_by_score")
        known = RENAMED.get(name) or (function_called(stem) and function_called(stem) + by_score)
        names = [f"rankql.{x}" for x in ([known] if known else nearest_names(name, __dir__()))]
        use = f". Use {' or '.join(names)}" if names else ""
        raise AttributeError(f"rankql has no {name!r}{use}") from None
    if isinstance(value, FunctionType):
        from rankql.core.base.errors import for_callers

        value = globals()[name] = for_callers(value)
    return value
