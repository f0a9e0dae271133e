"""Checks: everything that can be wrong with the data, or is worth a note, each one a `Check`.

`rankings` has the list for runs and judgments as an evaluation sees them, in the order in which
errors are raised and notes are given, with those of features where their doors open. `evaluate`
runs it, as far as `counters` say that there is something to find; Spark those that need counters
alone; `check` all, and those of rows in `diagnostics.row_checks`. `duplicates` finds rows that
occur twice. It imports query, plan and reduce; is imported by finish, features, engines and
diagnostics.
"""
