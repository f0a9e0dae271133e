"""Query: the SQL of values per query as named steps, with one macro per metric."""
