"""Evaluation: from tables and metrics to values per query, and from these to a `Result`.

`evaluate` goes one road through the folders, each of which imports only those before it:

- `query` writes the `readable` query of named `ctes`, in the order of `ties`, and its `script`;
- `plan` reads the inputs, and resolves metrics, conventions and the order of ties: an `Evaluation`;
  `columns` refuses ids and numbers that are none, `meta` is what a result must know;
- `reduce` gives one row per ranking, with columns of the `protocol`; `formulas` read them;
- `checks` are all that can be wrong with the data, or is worth a note;
- `finish` makes values, by formulas or by the readable query;
- `means` averages values;
- `result` holds and checks values, and displays means; `system_values` respects clusters and a
  judge.

It imports the rest of core; is imported by features and all packages above. `plot` loads pages when
it is called, like the other `plot` and `save` methods.
"""
