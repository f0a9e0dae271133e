"""Finish: values per query, by formulas over columns or by the readable query."""
