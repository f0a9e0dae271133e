"""Verdicts as JUnit XML, which CI servers show as tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree


class JUnitCase(NamedTuple):
    """A test: what was checked, and the outcome."""

    metric: str
    title: str
    message: str
    # 'failure' or 'skipped'; None if it passed.
    tag: str | None
    status: str


def render_junit(command: str, cases: Sequence[JUnitCase]) -> str:
    """The tests of a command of rankql as JUnit XML."""
    counts = Counter(case.tag for case in cases)
    totals = {
        "name": f"rankql {command}",
        "tests": str(len(cases)),
        "failures": str(counts["failure"]),
        "errors": "0",
        "skipped": str(counts["skipped"]),
    }
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", totals)
    for case in cases:
        names = {"classname": f"rankql.{command}.{case.metric}", "name": case.title}
        names = {key: _clean(value) for key, value in names.items()}
        element, message = ElementTree.SubElement(suite, "testcase", names), _clean(case.message)
        if case.tag:
            ElementTree.SubElement(element, case.tag, message=message).text = message
            if case.tag == "failure":
                element[-1].set("type", case.status)
        else:
            ElementTree.SubElement(element, "system-out").text = message
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _clean(text: str) -> str:
    """Text without characters that XML does not allow, even escaped."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
