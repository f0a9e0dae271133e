"""Settings of the test suite.

Property tests draw few examples by default, more with HYPOTHESIS_PROFILE=ci, and new ones and many
more with HYPOTHESIS_PROFILE=long.

RANKQL_EVERY=n takes every n-th test only, for a run beside the complete one.

RANKQL_ERRORS=file adds the errors that the tests trigger to that file. After all parts of the suite
`python tests/untriggered_errors.py file` fails if an error in the source was never triggered.
"""

import os
import re
import sys
import traceback
from collections import Counter
from pathlib import Path

import click
import duckdb
import pytest
from hypothesis import HealthCheck, settings

from rankql.errors import RankqlError
from support.components import BROWSERS, COMPONENTS, program
from support.paths import PACKAGE

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("brief", max_examples=4, derandomize=True, **QUIET)
settings.register_profile("ci", max_examples=5, derandomize=True, **QUIET)
settings.register_profile("long", max_examples=500, database=None, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))

# Fixtures that start a component: their tests get its marker.
STARTED_BY = {"browser": "browser", "server": "postgres"}
# The default run takes every n-th test of these files, and every n-th parameter of these tests. The
# others are slow.
THINNED = {
    "test_associate.py": 3,
    "test_beyond_accuracy.py": 2,
    "test_blocks.py::test_blocks": 2,
    "test_bounds.py": 3,
    "test_check.py": 2,
    "test_cli.py": 2,
    "test_coming_from.py": 3,
    "test_compare.py": 2,
    "test_convert.py": 2,
    "test_correlation.py": 3,
    "test_wrong_input.py": 3,
    "test_funnel.py": 2,
    "test_id_lists.py": 2,
    "test_monitor.py": 2,
    "test_profiles.py": 2,
    "test_shapes.py": 2,
    "test_weights.py": 2,
    "test_evaluate.py": 3,
    "test_explain.py": 3,
    "test_metric_records.py": 4,
    "test_packed_evaluation.py": 3,
    "test_gate.py": 2,
    "test_inputs.py": 2,
    "test_limits.py": 4,
    "test_matrix.py": 2,
    "test_options.py": 5,
    "test_properties.py": 2,
    "test_ranges.py": 3,
    "test_register.py": 2,
    "test_significance.py": 3,
    "test_sql_clauses.py": 2,
    "test_values_per_query.py": 3,
    "test_windows.py": 4,
    "test_beyond_accuracy.py::test_k_beyond_the_list": 3,
    "test_beyond_accuracy.py::test_properties": 3,
    "test_beyond_accuracy.py::test_types": 4,
    "test_bounds.py::test_every_judgement": 2,
    "test_bounds.py::test_many_rankings": 5,
    "test_bounds.py::test_nothing_unjudged": 3,
    "test_check.py::test_odd_names": 4,
    "test_correlation.py::test_correlate": 3,
    "test_wrong_input.py::test_argument": 5,
    "test_wrong_input.py::test_pos": 7,
    "test_wrong_input.py::test_rel": 8,
    "test_evaluate.py::test_parts_are_the_same": 3,
    "test_explain.py::test_against_evaluate": 20,
    "test_explain.py::test_ids_of_any_type": 5,
    "test_explain.py::test_the_ideal_is_what_evaluate_makes_of_the_best_order": 4,
    "test_metric_records.py::test_the_better_direction_is_that_of_better_items_on_top": 3,
    "test_metric_records.py::test_values_lie_within_the_range": 3,
    "test_packed_evaluation.py::test_beside_plain_metrics": 3,
    "test_packed_evaluation.py::test_by": 4,
    "test_packed_evaluation.py::test_conventions": 8,
    "test_packed_evaluation.py::test_highest_grades": 3,
    "test_packed_evaluation.py::test_items_that_come_twice": 3,
    "test_packed_evaluation.py::test_keys": 4,
    "test_packed_evaluation.py::test_many_rankings": 4,
    "test_packed_evaluation.py::test_names_of_ours": 4,
    "test_packed_evaluation.py::test_one_cutoff": 3,
    "test_packed_evaluation.py::test_options": 10,
    "test_packed_evaluation.py::test_other_grades_fall_back": 4,
    "test_packed_evaluation.py::test_positions_that_come_twice": 4,
    "test_packed_evaluation.py::test_settings": 3,
    "test_packed_evaluation.py::test_sources": 3,
    "test_packed_evaluation.py::test_systems": 3,
    "test_packed_evaluation.py::test_types": 4,
    "test_inputs.py::test_distances_are_best_where_they_are_lowest": 5,
    "test_inputs.py::test_queries_of_any_name": 4,
    "test_inputs.py::test_slices_by_any_name": 3,
    "test_large.py::test_large_ranking": 5,
    "test_large.py::test_large_scores": 5,
    "test_limits.py::test_sensitivity": 3,
    "test_limits.py::test_sensitivity_of_ranked_tables": 3,
    "test_oracles.py::test_sklearn_gain": 4,
    "test_properties.py::test_expected_over_ties": 3,
    "test_properties.py::test_lists": 2,
    "test_properties.py::test_rankings": 5,
    "test_properties.py::test_scores": 2,
    "test_properties.py::test_settings": 4,
    "test_properties.py::test_types": 3,
    "test_ranges.py::test_cost_of_k": 5,
    "test_ranges.py::test_cost_of_k_in_evaluate": 3,
    "test_ranges.py::test_merged_rankings": 4,
    "test_ranges.py::test_merged_rankings_in_evaluate": 3,
    "test_ranges.py::test_perfect_is_1": 4,
    "test_register.py::test_every_macro_in_any_schema": 2,
    "test_significance.py::test_every_table_has_numbers_or_words": 3,
    "test_significance.py::test_intervals_agree_with_verdicts": 7,
    "test_significance.py::test_the_interval_of_randomisation_inverts_it": 5,
    "test_sql_clauses.py::test_alias": 3,
    "test_sql_clauses.py::test_window": 3,
}
# The errors that tests triggered, in all processes of this run.
SEEN: set = set()


def pytest_configure(config):
    for name, component in COMPONENTS.items():
        needs = " and ".join([*component.modules, *(group[0] for group in component.programs)])
        config.addinivalue_line("markers", f"{name}: needs {needs}")
    watch(SEEN)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark heavy and slow tests, before pytest selects by marker."""
    counted, every = Counter(), int(os.environ.get("RANKQL_EVERY", "1"))
    for number, item in enumerate(items):
        if number % every:
            item.add_marker("slow")
        file = item.path.name
        for part in (f"{file}::{getattr(item, 'originalname', item.name)}", file):
            counted[part] += 1
            if (counted[part] - 1) % THINNED.get(part, 1):
                item.add_marker("slow")
                break
        for fixture in STARTED_BY.keys() & set(item.fixturenames):
            item.add_marker(STARTED_BY[fixture])
        if any(component.heavy for component in needed(item)):
            item.add_marker("heavy")


def needed(item):
    names = {marker.name for marker in item.iter_markers()}
    return [component for name, component in COMPONENTS.items() if name in names]


def pytest_runtest_setup(item):
    """Skip a test if a component is missing, or fail if CI=true."""
    for component in needed(item):
        if component.missing:
            reason = f"not installed: {component.missing}; {component.remedy}"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    SEEN.update(getattr(node, "workeroutput", {}).get("errors", ()))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["errors"] = SEEN
    elif "RANKQL_ERRORS" in os.environ:
        from support import triggered_errors

        triggered_errors.record(Path(os.environ["RANKQL_ERRORS"]), SEEN)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(program, BROWSERS)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


def watch(seen):
    """Put into `seen` the lines in which ours are raised, and what ours and DuckDB's say."""
    began = {kind: kind.__init__ for kind in (RankqlError, click.UsageError, duckdb.Error)}

    def init(error, *given, **named):
        next(start for kind, start in began.items() if isinstance(error, kind))(
            error, *given, **named
        )
        line = re.sub(r"^[\w ]+ Error: ", "", "".join(map(str, given)).partition("\n")[0])
        seen.add(line.encode("utf-8", "replace").decode())
        if not isinstance(error, duckdb.Error):
            frames = traceback.walk_stack(sys._getframe(1))
            places = ((frame.f_code.co_filename, line) for frame, line in frames)
            seen.update(place for place in places if place[0].startswith(f"{PACKAGE}{os.sep}"))

    for kind in began:
        kind.__init__ = init
