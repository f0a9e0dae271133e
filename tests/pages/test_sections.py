"""The queries that changed most, as the report shows them; the page is in test_report.py."""

import rankql
from rankql.pages.report import Texts, make_cases_section, open_source


def test_the_items_that_moved_a_query():
    old, new = {"a": [*"xy"], "b": [*"yx"]}, {"a": [*"yx"], "b": [*"xy"]}
    qrels = {"a": {"x": 1, "y": 0}, "b": {"x": 1}}
    comparison = rankql.compare({"old": old, "new": new}, qrels, "RR", threshold=1)
    with open_source(comparison, Texts({"item": {"x": "a shoe"}})) as source:
        section = make_cases_section(source)
    assert [*section.cases] == ["new loses most against old", "new gains most against old"]
    (case,), (gain,) = section.cases.values()
    assert (case.query, case.a, case.b, case.difference) == ("a", 1, 0.5, -0.5)
    assert (gain.query, gain.a, gain.b, gain.difference) == ("b", 0.5, 1, 0.5)
    moved, *tops = case.tables
    assert moved.title == "Items that moved query a: contributions"
    assert moved.rows == [
        ["item", "grade", "position in old", "position in new", "old", "new", "change"],
        ["x: a shoe", "1", "1", "2", "1.0000", "0.5000", "-0.5000"],
    ]
    assert [top.title.partition(";")[0] for top in tops] == ["old: RR 1.0000", "new: RR 0.5000"]
    assert [top.rows[1][:3] for top in tops] == [["1", "x: a shoe", "1"], ["1", "y", "0"]]
