"""Tables that tests write, on pages of the documentation."""

import re
import unicodedata


def with_table(page, name, table):
    """The text of a page with the table between `<!-- name: ... -->` and `<!-- end -->`."""
    marked = re.compile(rf"(<!-- {name}.*?-->\n).*?(<!-- end -->)", re.DOTALL)
    text, n = marked.subn(lambda result: f"{result[1]}\n{table}\n\n{result[2]}", page.read_text())
    assert n, f"{page} has no table {name}"
    return text


def aligned(text):
    """The text with the columns of its Markdown tables padded to equal width on the screen."""
    return re.sub(r"(?:^\|.*\|\n)+", lambda table: align(table[0]), text, flags=re.MULTILINE)


def align(table):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    widths = [max(map(width, column)) for column in zip(*(rows[:1] + rows[2:]), strict=True)]
    rows[1] = ["-" * size for size in widths]
    padded = (
        [cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)]
        for row in rows
    )
    return "".join(f"| {' | '.join(row)} |\n" for row in padded)


def width(text):
    """Columns of a fixed-width font: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
