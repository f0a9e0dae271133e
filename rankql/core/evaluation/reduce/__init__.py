"""Reduce: one row per ranking, in DuckDB or in polars, and the formulas that read them."""
