"""What a metric consists of, and what is missing: "Add a metric" in CONTRIBUTING.md as a test."""

import importlib
import re

import metric_pages
import rankql
from rankql.core.metrics import macros
from rankql.core.metrics.all_metrics import FUNCTIONS
from support import definitions, hand_cases, signatures
from support.paths import ROOT


def missing():
    """What metrics lack, each with its place; of complete ones, which texts are not generated."""
    named = {
        name: family
        for family in signatures.METRIC_FAMILIES
        for name in signatures.macros_of(family)
        if name not in signatures.NO_METRICS
    }
    others = functions() | dict.fromkeys(FUNCTIONS.keys() - named, "<family>")
    absent = [f"{name}: a macro, in sql/{family}.sql" for name, family in others.items()]
    lacking = [f"{name}: {what}" for name, family in named.items() for what in lacks(name, family)]
    return absent + lacking or generated()


def functions():
    """The functions of polars without a macro, with their module."""
    unknown = {*rankql.__all__} - {*macros.read_parameters()}
    places = {name: getattr(getattr(rankql, name), "__module__", "") for name in unknown}
    families = {f"rankql.core.expressions.{x}": x for x in signatures.METRIC_FAMILIES}
    return {name: families[place] for name, place in places.items() if place in families}


def lacks(name, family):
    """What a metric with this macro lacks, or one of its forms."""
    of_metric = signatures.metric_of(name) == name
    module = importlib.import_module(f"rankql.core.expressions.{family if of_metric else 'forms'}")
    if name not in macros.read_comments():
        yield f"COMMENT ON MACRO, in sql/{family}.sql"
    if not hasattr(module, name):
        yield f"a function, in rankql/core/expressions/{family}.py"
    if name not in rankql.__all__:
        yield "its name, in rankql/__init__.pyi (twice)"
    cases = [case for case in hand_cases.ALL if case.metric == name]
    if not of_metric:
        if not cases:
            yield "a case, in tests/cases"
        return
    if not hasattr(definitions, name):
        yield "a function that defines it, in tests/support/definitions.py"
    if len(cases) < 3:
        yield f"three cases, in tests/cases/{family}.csv (it has {len(cases)})"
    for option, default in macros.read_parameters()[name].items():
        refused = option == "k" and not signatures.takes_k(name)
        if default is not None and not refused and all(option not in x.options for x in cases):
            yield f"a case with {option}=, so that no engine may ignore it"
    yield from lacks_record(name)
    page = (ROOT / "docs" / "metrics" / f"{family}.md").read_text("utf-8")
    before, directive, _ = page.partition(f".. autofunction:: rankql.{name}\n")
    text = re.sub(r"^\|.*", "", before, flags=re.MULTILINE)  # without tables
    if not directive or not re.search(rf"\b{name}\b", text):
        yield f"a text and its autofunction, in docs/metrics/{family}.md"


def lacks_record(name):
    """What its record lacks, or says otherwise than the macro."""
    if name not in FUNCTIONS:
        yield "a record, in rankql/core/metrics/all_metrics.py"
        return
    record = FUNCTIONS[name]
    known = dict.fromkeys(record.columns) | {p.name: p.sql_default for p in record.parameters}
    for option, default in macros.read_parameters()[name].items():
        if option in record.columns and default is not None:
            yield f"the parameter {option}, in PARAMETERS of rankql/core/metrics/metric_record.py"
        elif known[option] != default:
            yield (
                f"own=(Parameter({option!r}, {default}),) in its record: {option} is {default} in "
                f"the macro, and {known[option]} of other metrics"
            )


def generated():
    """The texts that are not as they would be generated now."""
    texts = {ROOT / "sql" / "rankql.sql": (macros.read_sql(), "python tests/generate.py sql")}
    command = "python tests/generate.py metrics"
    for name in metric_pages.PAGES:
        texts[metric_pages.FOLDER / name] = metric_pages.written(name), command
    for name in metric_pages.COUNTED:
        texts[ROOT / name] = metric_pages.counted(name), command
    return [
        f"{path.relative_to(ROOT)}: run {command}"
        for path, (text, command) in texts.items()
        if path.read_text("utf-8").strip() != text.strip()
    ]
