"""Tables that tests write, on pages of the documentation."""

import re


def with_table(page, name, table):
    """The text of a page with the table between `<!-- name: ... -->` and `<!-- end -->`."""
    marked = re.compile(rf"(<!-- {name}.*?-->\n).*?(<!-- end -->)", re.DOTALL)
    text, n = marked.subn(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page.read_text())
    assert n, f"{page} has no table {name}"
    return text
