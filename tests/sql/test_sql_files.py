"""The SQL files: what their heads say, the order of macros, and what replaces some of them."""

import re
from functools import cache

import pytest

from rankql.core.metrics import macros
from support.paths import PACKAGE, ROOT

NAME = re.compile(r"^CREATE OR REPLACE MACRO (\w+)", re.MULTILINE)
CALL = re.compile(r"\b(\w+)\(")
# Say what to write, and are listed in a sentence.
HINTS = {*macros._HINTS, "mrr"}


@cache
def text(stem):
    return (ROOT / "sql" / f"{stem}.sql").read_text("utf-8")


def public(names):
    """The names of metrics and tables, forms over lists and by score left out."""
    metrics = [name for name in names if not name.startswith("rankql_") and name not in HINTS]
    forms = {f"list_{name}" for name in metrics} | {f"{name}_by_score" for name in metrics}
    return [name for name in metrics if name not in forms]


@pytest.mark.parametrize("family", macros.FAMILIES)
def test_the_head_lists_the_public_macros(family):
    """One formula a line, in the order of the file."""
    head = text(family).partition("\n\n")[0]
    assert re.findall(r"^--   (\w+)\(.*\)  +\S", head, re.MULTILINE) == public(
        NAME.findall(text(family))
    )


@pytest.mark.parametrize("family", macros.FAMILIES)
def test_public_macros_end_their_section(family):
    for section in text(family).split("\n\n\n"):
        is_public = [not name.startswith("rankql_") for name in NAME.findall(section)]
        assert is_public == sorted(is_public), section.partition("\n")[0]


def calls(*stems):
    """What each macro of files calls, by its name and number of parameters."""
    bodies = [re.sub(r"^(--|COMMENT ON).*\n", "", text(x), flags=re.MULTILINE) for x in stems]
    statements = macros._split("\n".join(bodies))
    return {
        (name, body[: body.index(")")].count(",")): {*CALL.findall(body)} - {name}
        for name, body in statements.items()
    }


@cache
def called_in_python():
    return {x for path in PACKAGE.rglob("*.py") for x in CALL.findall(path.read_text("utf-8"))}


@pytest.mark.parametrize("other", [None, "trusted", "spark"])
def test_every_private_macro_is_called(other):
    """From a public one, or from SQL in Python. So is what replaces some for evaluate and Spark."""
    original = calls(*macros.FAMILIES)
    replacing = calls(other) if other else {}
    names = {name for name, _ in original}
    names = {x for x in names if not x.startswith("rankql_")} | names & called_in_python()
    reached = set[str]()
    while names:
        reached |= names
        found = [more for key, more in (original | replacing).items() if key[0] in names]
        names = set().union(*found) - reached
    assert sorted({name for name, _ in replacing or original} - reached) == []
    if other == "trusted":  # spark.sql also replaces functions of DuckDB
        assert replacing.keys() <= original.keys()
