"""Experiments on users, and metrics by day. The statistics are sql/experiments.sql and monitor.sql.

- `experiment`: unit_states (one aggregate per arm) > arm_differences (tests) > experiment_result.
- `plan_experiment`: what a table can detect, before there are arms.
- `monitor`: day_states (metrics of each day) > alarms (sql/monitor.sql, causes) > monitor_result.
- `bounded_sequence`: the confidence sequence of a column with known bounds.

It imports decisions, evaluation, sources and the packages below. cli imports it.
"""
