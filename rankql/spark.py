"""The metrics in Spark: as columns, in a query, and over whole runs."""
