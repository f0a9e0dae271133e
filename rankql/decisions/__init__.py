"""Is it better, may it ship, does it pay: compare, gate, associate, and their statistics.

- `compare`: arguments > alignment > system_values > pair_comparisons > pair_table > comparison.
- `gate`: gate_inputs > gate_limits and gate_drops (noninferiority) > verdict.
- `associate`: key_join > correlations > association.
- Tests: sample > pairwise_tests and anytime > significance.

It imports engines, evaluation and what is below; output, cli and `rankql.testing` import it.
"""
