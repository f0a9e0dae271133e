"""Write the generated parts of the documentation and of the tests again.

python tests/generate.py            all of them, in some minutes
python tests/generate.py docs sql   these
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import polars as pl

from rankql.cli import demo
from rankql.core.metrics import macros
from support import copies, native_files
from support.paths import ROOT

sys.path.append(str(ROOT / "tests" / "docs"))
import case_table
import column_page
import doc_blocks
import metric_pages
import negative_grades
import notebooks
import tools_table


def docs():
    """The output below the blocks of README.md and docs/."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        demo.write_shop(Path("rankql-demo"))
        with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
            for page in doc_blocks.RUN:
                page.write_text(doc_blocks.run_blocks(page.read_text()))
    for page in doc_blocks.ENGLISH:
        page.write_text(doc_blocks.with_english_blocks(page), "utf-8")


def metrics():
    """docs/reference/metrics.md and plain-sql.md, and the number of metrics."""
    for name in metric_pages.PAGES:
        (metric_pages.FOLDER / name).write_text(metric_pages.written(name))
    for name in metric_pages.COUNTED:
        (ROOT / name).write_text(metric_pages.counted(name), "utf-8")


def grades():
    """What a grade of -1 does to every metric, in docs/labels.md."""
    negative_grades.PAGE.write_text(negative_grades.with_table())


def cases():
    """The table of hand-checked cases by engine, in docs/reference/cases.md."""
    case_table.PAGE.write_text(case_table.with_table(), "utf-8")


def columns():
    """The names of columns that are recognised, in docs/reference/columns.md."""
    column_page.PAGE.write_text(column_page.with_table(), "utf-8")


def tools():
    """The sections of tools in docs/coming-from.md and its Chinese twin."""
    for language, page in tools_table.PAGES.items():
        page.write_text(tools_table.with_sections(language), "utf-8")


def notebook():
    """The outputs of the Jupyter notebook."""
    with tempfile.TemporaryDirectory() as folder:
        notebooks.nbformat.write(notebooks.executed(folder), notebooks.JUPYTER)


def arguments():
    """How often each macro names its arguments, in tests/sql/copies.csv, where no number rises."""
    copies.TABLE.write_text(copies.written(), "utf-8")


def native():
    """The macros of dbt that call the functions."""
    for path, text in native_files.DBT_FILES.items():
        path.write_text(text, "utf-8")


def sql():
    """The file with all macros, sql/rankql.sql."""
    (ROOT / "sql" / "rankql.sql").write_text(macros.read_sql(), "utf-8")


PARTS = (sql, arguments, native, metrics, grades, cases, columns, tools, docs, notebook)
GENERATED = {part.__name__: part for part in PARTS}

if __name__ == "__main__":
    for name in sys.argv[1:] or GENERATED:
        if name not in GENERATED:
            sys.exit(f"Unknown part {name!r}. Available: {', '.join(GENERATED)}.")
        GENERATED[name]()
