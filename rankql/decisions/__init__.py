"""Is it better, may it ship, does it pay: compare, gate, associate, and their statistics.
compare: arguments > alignment > settings, system_values > pair_comparisons > pair_table, with words
from pair_sentences and method_notes > comparison. gate: gate_limits, gate_inputs > gate_means,
gate_drops > verdict. associate: keyed_tables, join_columns > key_join > matching > correlations >
association. The tests are in significance (pairwise_tests, joint_tests, anytime), corrections,
noninferiority and regression.

It is imported by output, cli and `rankql.testing`; it imports engines, evaluation and what is
below.
"""
