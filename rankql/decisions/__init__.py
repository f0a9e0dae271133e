"""Is it better, may it ship, does it pay: compare, gate, associate, and their statistics.

- `compare`: arguments > alignment > system_values > pair_comparisons > pair_table, with sentences
  from pair_sentences and method_notes, makes a comparison.
- `gate`: gate_limits and gate_inputs > gate_means and gate_drops (noninferiority, paired_runs,
  margin_decisions) > verdict.
- `associate`: key_join > correlations > association.
- Tests: sample > pairwise_tests, resampling, anytime > significance, corrections.

It imports engines, evaluation and what is below; output, cli and `rankql.testing` import it.
"""
