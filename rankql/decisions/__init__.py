"""Is it better, may it ship, does it pay? compare, gate, associate, judges and audit.

- `compare`: alignment > pairs > comparison.
- `gate`: alignment > gate_limits > verdict.
- `associate`, and its coefficients in `stats.correlation`.

Their statistics are in `stats`. It imports engines, evaluation and the packages below. output, cli
and `rankql.testing` import it.
"""
