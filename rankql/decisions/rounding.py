"""The size below which a difference is one of rounding, relative to the greatest value."""

ROUNDING = 1e-12
