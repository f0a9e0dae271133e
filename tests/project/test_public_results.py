"""No class of a result loses a public name. They stand with their arguments in a JSON file."""

import inspect
import json
from pathlib import Path

import rankql
from rankql.core.base.results import TableResult

FILE = Path(__file__).with_name("result_names.json")
# What Python and notebooks call.
SPECIAL = ("__bool__", "__getitem__", "__iter__", "__len__", "_repr_html_")


def describe(member):
    """The arguments of a method; otherwise that it is an attribute."""
    if not inspect.isfunction(member):
        return "attribute"
    empty = inspect.Parameter.empty
    arguments = inspect.signature(member).parameters.values()
    return f"({', '.join(str(x.replace(annotation=empty)) for x in arguments)})"


def list_names(cls):
    """The public methods, properties and fields of a class."""
    fields = dict.fromkeys(getattr(cls, "__dataclass_fields__", ()), "attribute")
    members = {name: describe(member) for name, member in inspect.getmembers(cls)}
    special = {name: "special" for name in SPECIAL if hasattr(cls, name)}
    names = fields | members
    return special | {name: names[name] for name in names if not name.startswith("_")}


def list_classes():
    classes = [getattr(rankql, name) for name in rankql.__all__]
    results = [x for x in classes if inspect.isclass(x) and issubclass(x, TableResult)]
    others = [rankql.Finding]
    return {cls.__name__: dict(sorted(list_names(cls).items())) for cls in [*results, *others]}


def test_no_public_name_of_a_result_is_lost():
    saved, now = json.loads(FILE.read_text("utf-8")), list_classes()
    assert len(saved) > 12 and saved["Comparison"]["leaderboard"] == "(self)"
    lost = {cls: {*names.items()} - {*now[cls].items()} for cls, names in saved.items()}
    assert not {cls: names for cls, names in lost.items() if names}


if __name__ == "__main__":
    FILE.write_text(json.dumps(list_classes(), indent=1, sort_keys=True) + "\n", "utf-8")
