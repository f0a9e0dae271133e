"""Evaluation: from tables and metrics to values per query, and from these to a `Result`.

`evaluate` makes a `request`, from which `plan` reads the inputs (`dropped` leaves out items that
do not count, `catalogue` knows the items of train and others) and resolves metrics and
conventions. An `Evaluation` (`evaluation`) has all of it, answers what the grades are, and
every later query takes it. `reduce` writes the query that gives one row per ranking, with columns
of the `protocol`, and `formulas` has the metrics as columns of polars; `readable` writes the query
of named `ctes` that `result.sql` shows, a macro per metric; `compute` runs both. The `checks` are
all that can be wrong with the data, or is worth a note. `result` holds and checks the values,
`means_result` what is displayed of them. `means` averages them, with the intervals of `stats`;
`system_values` respects clusters and a `judge`, `combine` joins results, `values` reads tables of
values per query, and `convert` writes runs and judgments in other formats. It imports sources and
what is below; is imported by engines, diagnostics, decisions, output and cli. `plot` loads output
when it is called, like the other `plot` and `save` methods: the only imports that point upwards.
"""
