"""Plan: the inputs read, metrics, conventions and the order of ties resolved once."""
