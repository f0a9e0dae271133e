"""Every fault of the data at every door: cases/faults.toml."""

import pytest

from support import case_matrix, faults


def test_every_fault_has_a_cell_for_every_door():
    """One in eight also for each other engine."""
    for fault in faults.FAULTS:
        assert fault.cells.keys() - {*faults.THERE} == {*faults.HERE}, fault.name
    for door in faults.THERE:
        assert len(faults.of_engine(door)) >= len(faults.FAULTS) // 8


@pytest.mark.few(40)
@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("door", faults.HERE)
def test_a_door_says_what_its_cell_says(fault, door):
    faults.require(fault, door, faults.HERE[door])


@pytest.mark.parametrize(
    ("place", "door"),
    [
        pytest.param(engine.place, engine.name, marks=engine.marks, id=engine.name)
        for engine in map(case_matrix.ENGINES.get, faults.THERE)
    ],
)
def test_an_engine_says_what_its_cell_says(place, door):
    with case_matrix.PLACES[place]() as made:
        ask = faults.THERE[door](made)
        for fault in faults.of_engine(door):
            faults.require(fault, door, ask)
