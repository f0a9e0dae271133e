"""Evaluation: from tables and metrics to values per query, and from these to a `Result`.

`evaluate` goes one road through the folders:

- `plan` reads the inputs, and resolves metrics, conventions and the order of ties: an `Evaluation`;
- `reduce` writes the query that gives one row per ranking, with columns of the `protocol`;
- `finish` makes values of them: `formulas` over columns of polars, or the `readable` query of named
  `ctes`; `compute` runs both;
- `means` averages values; `system_values` respects clusters and a judge;
- `result` holds and checks values, and displays means.

`checks` are all that can be wrong with the data, or is worth a note. It imports the rest of core;
is imported by features and all packages above. `plot` loads pages when it is called, like the other
`plot` and `save` methods.
"""
