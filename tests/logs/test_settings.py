"""Settings of a connection, collations, threads and the order of rows change no result."""

import random

import polars as pl
import pytest

import rankql
from support import metric_engines
from support.calls import assert_rows, connected, options_of

SETTINGS = [
    {"default_null_order": "nulls_first", "default_order": "desc"},
    {"integer_division": True},
    {"threads": 1},
    {"default_collation": "nocase"},
    {"default_collation": "noaccent"},
]


def log():
    """Events of users and items that collations would merge, each item in one new position."""
    draw = random.Random(3)
    rows = [
        (user, item, pos, draw.randint(1, 3), draw.randint(0, 1), draw.choice([0.2, 0.5, 1.0]))
        for user in ("u", "U", "ú")
        for pos, item in enumerate("aAáb", 1)
        for _ in range(30)
    ]
    names = ["user", "item", "pos", "shown_at", "click", "propensity"]
    frame = pl.DataFrame(rows, names, orient="row").with_row_index("time")
    return frame.with_columns(
        time=pl.col("time").shuffle(1).cast(pl.Int64), rel=pl.col("shown_at") % 3,
        annotator=pl.format("{}{}", pl.lit("x"), pl.int_range(pl.len()).over("user", "item")),
        unit=pl.concat_str("user", "item"), label=pl.col("item").shuffle(2),
    )  # fmt: skip


CALLS = [
    ("tally", {"label": "label"}),
    ("tally", {"label": "label", "slice": "user"}),
    ("krippendorff_alpha", {"level": "nominal", "slice": "user"}),
    ("krippendorff_alpha", {"label": "shown_at"}),
    ("cohen_kappa", {}),
    ("cohen_kappa", {"label": "shown_at", "weights": "linear"}),
    ("leave_one_out", {}),
    ("time_split", {"share": 0.5, "query": "user"}),
    ("randomised_propensity", {"query": "user", "pos": "shown_at"}),
    ("harvested_propensity", {"query": "user", "pos": "shown_at"}),
    ("counterfactual", {"k": 3, "clip": 0.3, "query": "user"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CALLS)
def test_settings_change_no_table(name, options):
    frame = log()
    expected = getattr(rankql, name)(frame, **options).rows(named=True)
    for seed, setting in enumerate(SETTINGS):
        con = metric_engines.connect(**setting)
        shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
        call = f"{name}('input_rows'{options_of(options)})"
        assert_rows(name, setting, connected(shuffled, con).sql(f"FROM {call}").pl(), expected)
