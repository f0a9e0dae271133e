"""From logs of events to labels: grades, agreement, propensities, debiasing, interleaving.

Functions of a whole table run the SQL macro of the same name in DuckDB. It is imported by cli only;
it imports expressions, sources and the running of SQL in evaluation.
"""
