"""Numbers: text, NaN, NA and fill-ins are read, and which way they go is decided."""
