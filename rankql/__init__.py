"""rankql: ranking metrics where the data lies, as DuckDB macros and polars expressions."""

import lazy_loader

# The names stand in __init__.pyi and are imported when first asked for: `rankql --help` need not
# wait for polars and duckdb.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
