"""Reduce: one row per ranking, in DuckDB or in polars."""
