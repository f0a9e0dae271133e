"""The table of the documentation that says how many hand-checked cases agree on which engine."""

import doc_tables
from support import case_matrix, hand_cases
from support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "cases.md"


def cell(engine, cases):
    """`52` cases are equal, or `48 / 10` where 10 are refused, as test_matrix.py tests."""
    entries = [case_matrix.refused(engine, case) for case in cases]
    refused = sum(
        bool(entry and entry.error) or case_matrix.lacks(engine, case)
        for entry, case in zip(entries, cases, strict=True)
    )
    return f"{len(cases) - refused} / {refused}" if refused else str(len(cases))


def table():
    """The cells by engine and family, and what is refused."""
    lines = [f"| cases | {' | '.join(case_matrix.ENGINES)} |"]
    lines.append(f"|---|{'--:|' * len(case_matrix.ENGINES)}")
    for family, cases in hand_cases.FAMILIES.items():
        row = " | ".join(cell(engine, cases) for engine in case_matrix.ENGINES.values())
        lines.append(f"| {family} | {row} |")
    messages = {}
    for entry in case_matrix.REFUSED:
        others = [name for name in case_matrix.ENGINES if name not in entry.engines]
        names = f"all but {' and '.join(others)}" if len(others) < 3 else ", ".join(entry.engines)
        messages.setdefault(names, []).append(entry.what)
    natives = ", ".join(case_matrix.NATIVE)
    messages[natives] = [
        "functions and options that are not in their files, which are errors of the engine"
    ]
    refused = [f"- {names}: {'; '.join(what)}" for names, what in messages.items()]
    return "\n".join([*lines, "", "Refused:", "", *refused])


def with_table():
    """The page with its table as it is now."""
    return doc_tables.with_table(PAGE, "matrix", table())
