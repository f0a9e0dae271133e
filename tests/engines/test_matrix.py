"""Every hand-checked case on every engine, and the table of it that users read.

`python tests/generate.py cases` writes the table.
"""

from itertools import chain

import pytest

import case_table
from support import case_matrix, hand_cases
from support.parameters import slow


@pytest.fixture(scope="module")
def place(request):
    with case_matrix.PLACES[request.param]() as made:
        yield made


@pytest.mark.few(1)
@pytest.mark.parametrize("family", [x if x == "rating" else slow(x) for x in hand_cases.FAMILIES])
@pytest.mark.parametrize(
    ("place", "name"),
    [pytest.param(e.place, e.name, marks=e.marks, id=e.name) for e in case_matrix.ENGINES.values()],
    indirect=["place"],
)
def test_matrix(place, name, family):
    wrong = case_matrix.run(case_matrix.ENGINES[name], place, hand_cases.FAMILIES[family])
    assert not wrong, "\n".join(wrong)


def test_the_table_has_the_cases_of_every_engine_and_family():
    page = case_table.PAGE.read_text("utf-8")
    assert page == case_table.with_table(), "run python tests/generate.py cases"


def test_every_expected_error_belongs_to_a_case():
    for entry in case_matrix.REFUSED:
        for engine in map(case_matrix.ENGINES.get, entry.engines):
            cases = chain.from_iterable(hand_cases.FAMILIES.values())
            assert any(case_matrix.refused(engine, case) is entry for case in cases), entry
