"""How often each macro names its arguments. DuckDB plans every copy.

`python tests/generate.py arguments` writes the table, in which a number can only fall.
"""

from functools import cache

from support import metric_engines, signatures
from support.paths import ROOT

TABLE = ROOT / "tests" / "sql" / "copies.csv"
MACROS = [
    *(*signatures.METRICS, *signatures.SCORES, *signatures.LISTS),
    *("exp2_gain", "discounted_gain", "grades_of"),
]
# An argument is marked by a condition with its number.
ARGUMENTS = {
    "rel": (777_001, "1"),
    "rels": (777_001, "[1, 0]"),
    "retrieved": (777_001, "['a', 'b']"),
    "pos": (777_002, "1"),
    "ideal": (777_002, "[1, 0]"),
    "relevant": (777_002, "['b']"),
    "score": (777_003, "0.5"),
    "item": (777_004, "'a'"),
    "reference": (777_005, "2"),
    "factor": (777_006, "0.5"),
}


def marked(name):
    number, value = ARGUMENTS[name]
    return f"CASE WHEN i < {number} THEN {value} END"


@cache
def count(macro):
    """The number of copies of each argument in the plan that DuckDB has not optimised yet."""
    metric = signatures.metric_of(macro)
    options = {x: str(y) for x, y in signatures.REQUIRED.get(metric, {}).items()}
    names = [
        name
        for name, default in signatures.EVERYTHING[macro].items()
        if name in ARGUMENTS and (default == signatures.NEEDED or macro in signatures.LISTS)
    ]
    arguments = {name: marked(name) for name in names} | options
    call = ", ".join(f"{name} := {value}" for name, value in arguments.items())
    query = f"SELECT {macro}({call}) FROM range(3) AS r (i)"
    con = metric_engines.connection()
    sql = "SELECT json_serialize_plan(?, optimize := false)"
    ((plan,),) = con.execute(sql, [query]).fetchall()
    assert '"error":false' in plan, plan[:500]
    return {name: plan.count(str(ARGUMENTS[name][0])) for name in names}


def read():
    """The table: for each macro its arguments, and how often it names each."""
    lines = TABLE.read_text("utf-8").splitlines() if TABLE.exists() else []
    rows = {macro: counts.split() for macro, counts in (line.split(",") for line in lines)}
    return {macro: dict(zip(x[::2], map(int, x[1::2]), strict=True)) for macro, x in rows.items()}


def written():
    """The table again, in which no number rises."""
    before, lines = read(), []
    for macro in MACROS:
        counts = {x: min(n, before.get(macro, {}).get(x, n)) for x, n in count(macro).items()}
        lines.append(f"{macro},{' '.join(f'{x} {n}' for x, n in counts.items())}\n")
    return "".join(lines)
