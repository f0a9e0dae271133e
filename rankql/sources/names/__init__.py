"""Names: the candidates for each role by the names and types of columns; no row is read."""
