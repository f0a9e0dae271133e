"""Charts and the HTML report.

`panels` has the parts of charts, `charts` draws results and comparisons, `report` writes the
report, and `page` has what all pages have. It imports decisions, diagnostics and what is below.
Nothing imports it but the `plot` and `save` methods of results, when they are called.
"""
