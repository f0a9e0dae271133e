"""Ask: a question offers the calls that were tried."""
