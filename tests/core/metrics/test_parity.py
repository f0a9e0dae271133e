"""One name, one list of parameters, one line of text for a metric, whether macro or function."""

import inspect
import re
import zlib
from collections import defaultdict

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.metrics import macros
from support import metric_engines, signatures
from support.calls import in_sql
from support.metric_engines import complaint, same
from support.parameters import cycled, few, slow
from support.paths import ROOT

# Functions of rankql besides metrics; its classes begin with a capital.
TASKS = {
    *("associate", "audit", "check", "combine", "compare", "convert", "evaluate", "explain"),
    *("funnel", "gate", "grade_events", "judges", "metrics", "min_scores", "verify", "monitor"),
    *("native_sql", "plain_sql", "queries_needed", "read_values", "register", "translate"),
    "span_judgments",
}
METRICS = [name for name in rankql.__all__ if name not in TASKS and name[0].islower()]
MACRO = re.compile(r"^CREATE OR REPLACE MACRO (\w+)", re.MULTILINE)


def test_names():
    """Every macro is public in Python, and the other way round; it brings its comment."""
    assert set(METRICS) - signatures.INCOMPLETE == set(signatures.EVERYTHING)
    con = duckdb.connect()
    rankql.register(con)
    rows = con.execute("SELECT function_name, comment FROM duckdb_functions()").fetchall()
    assert macros.read_comments().items() <= dict(rows).items()


@few(24)("name", signatures.EVERYTHING)
def test_a_function_agrees_with_its_macro(name):
    """The first line of the docstring is COMMENT ON MACRO; test_reference_page.py runs its example.

    Parameters have the same defaults; a table comes first under the engine's own word.
    """
    docstring = inspect.getdoc(getattr(rankql, name))
    line = docstring.split("\n")[0]
    assert macros.read_comments()[name] == line
    assert len(line) > 20 and line.endswith(".") and ">>> " in docstring
    start = name in signatures.TABLES
    python = [*inspect.signature(getattr(rankql, name)).parameters.values()][start:]
    sql = [*signatures.EVERYTHING[name].items()][start:]
    assert [parameter.name for parameter in python] == [parameter for parameter, _ in sql]
    for parameter, (_, default) in zip(python, sql, strict=True):
        if default == signatures.NEEDED:  # a column, which may have its own name in polars
            assert parameter.default in (inspect.Parameter.empty, parameter.name)
        else:
            assert parameter.default == default
            assert type(parameter.default) is type(default)


def test_macro_names_are_unique():
    """A macro of another file would replace the first one without a word."""
    names = MACRO.findall(macros.read_sql())
    assert sorted(names) == sorted(set(names))


@few(1)("family", macros.FAMILIES[1:])
def test_a_family_needs_what_its_head_names(family):
    """After these files, in this order, each of its macros can be called."""
    con = duckdb.connect()
    text = (ROOT / "sql" / f"{family}.sql").read_text("utf-8")
    (load,) = re.findall(
        r"Load (common\.sql.*?) first\.", re.sub(r"\n-- ?", " ", text.partition("\n\n")[0])
    )
    needed = re.findall(r"(\w+)\.sql", load)
    assert needed == [x for x in macros.FAMILIES if x in needed]
    texts = [(ROOT / "sql" / f"{name}.sql").read_text("utf-8") for name in needed]
    con.execute("\n".join([*texts, text])).fetchall()
    for name in MACRO.findall(text):
        if name in signatures.EVERYTHING and name not in signatures.TABLES:
            needed = [x for x in signatures.EVERYTHING[name].values() if x == signatures.NEEDED]
            call = f"SELECT {name}({', '.join(['NULL'] * len(needed))})"
            message = metric_engines.complaint(lambda call=call: con.execute(call).fetchall())
            assert "Exception: " not in message, message  # but one of ours


# Options of the wrong type: the same value, or refused in the same words

# Each as SQL and as Python have it.
WRONG = {"NULL": None, "'10'": "10", "-1": -1, "1e300": 1e300, "true": True}
WRONG |= {"[1, 2]": [1, 2], "['x']": ["x"], "{'a': 1}": {"a": 1}}
# Of the list and score forms, whose options are checked by the same helpers.
FORMS = ("'10'", "[1, 2]")
DATA = pl.DataFrame(
    {
        "rel": [1.0, 0.0, 1.0], "pos": [1, 2, 3], "reference": [2, 1, 3], "query": [1, 1, 1],
        "score": [3.0, 2.0, 1.0], "item": ["a", "b", "c"], "rels": [[1.0, 0.0, 1.0]] * 3,
        "user": [1, 1, 2], "popularity": [1.0, 1.0, 1.0], "value": [1.0, 0.0, 1.0],
        "weight": [1.0, 1.0, 2.0], "exposure": [1.0, 0.5, 0.25], "merit": [1.0, 1.0, 1.0],
        "target": [1.0, 1.0, 1.0], "category": ["x", "y", "x"], "attribute": ["x", None, "y"],
        "attributes": [["x"], ["x", "y"], None], "baseline": [True, False, True],
        "embedding": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "click": [1, 0, 1],
        "subtopics": [["x"], ["x", "y"], ["y"]], "propensity": [1.0, 0.5, 0.25],
        "event": ["x", "x", "x"],
    }
)  # fmt: skip
# Options that a call cannot do without, and those that another value of an option needs.
NEEDED = {"max_rel": "2", "p": "0.5", "users": "3", "catalogue": "9", "similarity": "0.9"}
NEEDED |= {"query": "query"}
# Of rbp, which needs no scale.
SCALE = ("max_rel", True)
# Of what is a column in one language, or of no one type, other tests tell.
LEFT_OUT = {"query", "weight", "moment", "until", "within", "half_life", "unknown", "predicted"}


def calls():
    """Each option of each function of columns."""
    groups = ("ROWS", "LISTS", "SCORES", "BEYOND", "DEBIAS")
    for group in groups:
        for name, parameters in getattr(signatures, group).items():
            columns = [p for p, default in parameters.items() if default is signatures.NEEDED]
            left_out = {*columns, *LEFT_OUT, *(["ideal"] if group == "LISTS" else [])}  # a column
            left_out |= set() if signatures.takes_k(name) else {"k"}
            if name != "graded":
                yield from ((name, columns, p) for p in parameters if p not in left_out)


def evaluate_both(name, columns, option, text, value):
    """What SQL and Python make of it: a value or the text of an error."""
    options = {option: (text, value)}
    is_rbp = name.removeprefix("list_").removesuffix("_by_score") == "rbp"
    for other, default in signatures.EVERYTHING[name].items():
        if other in NEEDED.keys() - {option} and default is None and (other, is_rbp) != SCALE:
            needed = NEEDED[other]
            options[other] = (needed, needed if other == "query" else float(needed))
    frame = DATA.head(1) if name.startswith("list_") or name == "exp2_gain" else DATA
    sql = ", ".join([*columns, *(f"{o} := {t}" for o, (t, _) in options.items())])
    python = getattr(rankql, name)
    arguments = {o: v for o, (_, v) in options.items()}
    return (
        value_or_complaint(lambda: in_sql(f"{name}({sql})", frame)),
        value_or_complaint(lambda: frame.select(python(*columns, **arguments)).item()),
    )


def value_or_complaint(run):
    values = []
    message = complaint(lambda: values.append(run()))
    return values[0] if values else message


def agree(sql, python):
    """Equal values, or the same message but for how the languages print the value."""
    if isinstance(sql, str) and isinstance(python, str):
        heads = [re.split(r",? not | is above |It lacks ", text)[0] for text in (sql, python)]
        return heads[0].lower() == heads[1].lower() and "Error" not in heads[0]
    return not isinstance(sql, str) and not isinstance(python, str) and same(sql, python)


def turns():
    """Each call with a part of the wrong values: the functions with an option take turns.

    So do the list form and the score form of a metric, with its options.
    """
    functions = defaultdict(list)
    for name, columns, option in calls():
        is_list, is_score = name.startswith("list_"), name.endswith("_by_score")
        metric = name.removeprefix("list_").removesuffix("_by_score")
        if (is_list, is_score)[zlib.crc32(f"{metric} {option}".encode()) % 2]:
            continue
        functions[option, is_list or is_score].append((name, columns))
    for (option, form), named in functions.items():
        parts = [[text] for text in FORMS] if form else [[*WRONG][turn::4] for turn in range(4)]
        for texts, (name, columns) in cycled(parts, named):
            yield (slow if form else pytest.param)(name, columns, option, texts)


@few(6)(("name", "columns", "option", "texts"), [*turns()], ids=str)
def test_option(name, columns, option, texts):
    for text in texts:
        sql, python = evaluate_both(name, columns, option, text, WRONG[text])
        refused = WRONG[text] is True and "not True" in str(python)  # in SQL it is 1
        assert refused or agree(sql, python), (text, sql, python)
