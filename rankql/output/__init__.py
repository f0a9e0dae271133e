"""Charts and the HTML report.

It is imported by cli, and by results when `plot` or `save` is called; it may import everything
else.
"""
