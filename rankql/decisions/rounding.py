"""The size below which a difference is one of rounding."""

ROUNDING = 1e-12
