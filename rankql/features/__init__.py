"""What an evaluation can do more, one file each.

`judge` corrects means by human labels, `anytime` watches them, `collections` evaluates several.
`systems` opens what holds values or rankings. `catalogue`, `training` and `training_checks` know
the items of train and others, `filters` leaves out what does not count. `values` reads tables of
values per query, `combine` joins results, `convert` writes runs and judgments in other formats,
`table_hashes` records what was read.

It imports core and shapes; it is imported by all packages above.
"""
