"""Is it better, may it ship, does it pay? compare, gate, associate, judges and audit.

- `compare`: alignment > pairs > comparison.
- `gate`: alignment > gate_limits > verdict.
- `associate`, and its coefficients in `core.stats.correlation`.

Their statistics are in `core.stats`. It imports engines and the packages below. pages, cli and
`rankql.testing` import it.
"""
