"""Statistics: samples in, intervals and p-values out. Arrays and numbers, no tables and no words.

- `means`: Student's t and the interval of a mean, from its moments, without numpy and scipy.
- `sample`: values with their clusters and weights, and what follows from them.
- `tests`: the significance tests, one class each; several at once, and the size that they detect.
- `anytime`: the interval of a mean that holds at every number of queries.
- `correlation`: of independent values, and of days that resemble each other.
- `prediction_powered`: means of the human labels of some queries, corrected by a judge of all.
- `published`: means and numbers of queries alone, without values.

It imports only errors. evaluation, diagnostics, decisions and `rankql.testing` import it. All but
`means` needs scipy, so import it inside functions.
"""
