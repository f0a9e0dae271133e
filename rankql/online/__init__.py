"""Metrics by day. The statistics are sql/monitor.sql.

- `monitor`: day_states (metrics of each day) > alarms (sql/monitor.sql, causes) > monitor_result.

It imports decisions, evaluation, sources and the packages below. cli imports it.
"""
