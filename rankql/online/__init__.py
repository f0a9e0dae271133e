"""Experiments on users: what randomised arms changed. The statistics are sql/experiments.sql.

- `experiment`: unit_states (one aggregate per arm) > arm_differences (tests) > experiment_result.
- `plan_experiment`: what a table can detect, before there are arms.
- `bounded_sequence`: the confidence sequence of a column with known bounds.

It imports decisions, evaluation, sources and the packages below. cli imports it.
"""
