"""Agreement of annotators, and a tally of grades: by hand, by definition, by other libraries."""

from itertools import combinations

import duckdb
import krippendorff
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

import rankql
from support import metric_engines
from support.calls import assert_rows, assert_table, table_ways
from support.components import optional
from support.parameters import cycled, few

inter_rater = optional("statsmodels.stats.inter_rater")


def units(*rows):
    """The labels of coders, one text for each, by unit; `*` is missing."""
    return pl.DataFrame(
        [
            (unit, "ABCDEFGHIJKLMN"[coder], None if label == "*" else int(label))
            for coder, labels in enumerate(rows)
            for unit, label in enumerate(labels.split())
        ],
        schema={"unit": pl.Int64, "annotator": pl.String, "label": pl.Int64},
        orient="row",
    )


# Wikipedia, Krippendorff's alpha: 3 coders, 15 units, of which 12 can be paired.
CODERS = units(
    "* * * * * 3 4 1 2 1 1 3 3 * 3",
    "1 * 2 1 3 3 4 3 * * * * * * *",
    "* * 2 1 3 4 4 * 2 1 1 3 3 * 4",
)
PUBLISHED = {"nominal": 0.691, "ordinal": 0.807, "interval": 0.811}


@few(2)("level", PUBLISHED)
def test_alpha_is_as_published(level):
    alpha = rankql.krippendorff_alpha(CODERS, level)["krippendorff_alpha"].item()
    assert round(alpha, 3) == PUBLISHED[level]
    row = {"krippendorff_alpha": alpha, "units": 12, "labels": 26, "single": 1}
    names = {"unit": "doc", "annotator": "who", "label": "grade"}
    assert_table("krippendorff_alpha", CODERS.rename(names), {"level": level, **names}, [row])


LABELS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from("ABCD"), st.sampled_from([None, 0, 1, 2, 3, 7])),
    min_size=1,
    max_size=24,
    unique_by=lambda row: row[:2],
).map(lambda rows: pl.DataFrame(rows, {"unit": pl.Int64, "annotator": pl.String, "label": pl.Int64},
                                orient="row"))  # fmt: skip


@few(1)("level", [*PUBLISHED, "ratio"])
@given(frame=LABELS)
def test_alpha_equals_the_package_krippendorff(level, frame):
    pairable, value = frame.drop_nulls("label").filter(pl.len().over("unit") > 1), None
    if pairable["label"].n_unique() > 1:  # else there are no pairs, or one label
        table = frame.pivot("annotator", index="unit", values="label").drop("unit")
        coders = table.cast(pl.Float64).to_numpy().T  # NaN where there is no label
        value = float(krippendorff.alpha(coders, level_of_measurement=level))
    rows = [] if frame["label"].null_count() == len(frame) else [{"krippendorff_alpha": value}]
    for way, run in table_ways("krippendorff_alpha", frame, {"level": level}):
        assert_rows("", way, run().select("krippendorff_alpha"), rows)


def test_alpha_is_undefined_without_pairs_or_with_one_label():
    """Also if the label is rounded."""
    same = units("2 2 2", "2 2 2")
    parts = [same, units("1 2 *", "* * 3"), same.with_columns(label=pl.lit(0.1))]
    frame = pl.concat(x.cast({"label": float}).with_columns(i=n) for n, x in enumerate(parts))
    for level in (*PUBLISHED, "ratio"):
        for way, run in table_ways("krippendorff_alpha", frame, {"level": level, "slice": "i"}):
            assert run()["krippendorff_alpha"].to_list() == [None] * 3, way


@few(2)(
    ("frame", "options"),
    [
        *((CODERS.with_columns(pl.col("label") + base), {"level": "interval"})
          for base in (1e9, -1e12, 2**50)),
        (CODERS.with_columns(pl.col("label").cast(pl.String)), {"level": "nominal"}),
        (CODERS.with_columns(pl.col("label") * 1e200), {}),
        # Where nobody is named, a unit may have the same label as often as it likes.
        (CODERS.drop("annotator"), {"annotator": None}),
    ],
    ids=["1e9", "-1e12", "2**50", "text", "huge", "no annotators"],
)  # fmt: skip
def test_alpha_is_the_same_of_other_labels(frame, options):
    expected = rankql.krippendorff_alpha(CODERS, options.get("level", "ordinal"))
    assert_table("krippendorff_alpha", frame, options, expected.rows(named=True))


@few(1)("weights", ["none", "linear", "quadratic"])
@given(frame=LABELS)
def test_cohens_kappa_equals_scikit_learn(weights, frame):
    """For every two annotators over the units that both have labelled."""
    labels = frame.drop_nulls("label")
    expected = []
    for a, b in combinations(sorted(labels["annotator"].unique()), 2):
        one, two = (dict(labels.filter(annotator=x)["unit", "label"].rows()) for x in (a, b))
        both = sorted(set(one) & set(two))
        if both:
            x, y = [one[u] for u in both], [two[u] for u in both]
            kappa = None
            if len({*x, *y}) > 1:
                option = None if weights == "none" else weights
                # All the labels from 0 to 7, so that their places are their values.
                kappa = float(cohen_kappa_score(x, y, weights=option, labels=range(8)))
            row = {"annotator": a, "other": b, "cohen_kappa": kappa, "units": len(both)}
            expected.append(row)
    assert_table("cohen_kappa", frame, {"weights": weights}, expected)


def test_tally_counts_grades():
    frame = pl.DataFrame({"rel": [0, 2, 0, None, -1], "lang": ["de", "de", "en", "en", "en"]})
    rows = [(-1, 1, 0.2), (0, 2, 0.4), (2, 1, 0.2), (None, 1, 0.2)]
    columns = ("grade", "n", "share")
    assert_table("tally", frame, {}, [dict(zip(columns, row, strict=True)) for row in rows])


LABELLED = {"unit": [1, 1] * 2, "annotator": ["x", "y"] * 2, "label": [1, 0] * 2}
POSITIONS = {"query": [1, 1] * 2, "item": 1, "pos": [1, 2] * 2, "click": [1, 0] * 2}
SLICED = {
    **dict.fromkeys(("krippendorff_alpha", "cohen_kappa"), LABELLED),
    "tally": {"rel": [1, 2]},
    "counterfactual": {"query": [1, 2], "item": 1, "click": 1, "propensity": 1.0, "pos": 1},
    **dict.fromkeys(("randomised_propensity", "harvested_propensity"), POSITIONS),
}


@few(1)("name", SLICED)
def test_slices_of_an_enum_are_in_the_order_of_text(name):
    frame = pl.DataFrame(SLICED[name])
    half = len(frame) // 2
    for kind in (pl.Enum(["z", "a"]), pl.Categorical):
        parts = frame.with_columns(part=pl.Series(["z"] * half + ["a"] * half).cast(kind))
        for way, run in table_ways(name, parts, {"slice": "part"}):
            slices = run()["slice"].cast(pl.String).unique(maintain_order=True)
            assert slices.to_list() == ["a", "z"], way
    if name == "tally":
        for _, run in table_ways(name, parts, {"label": "part"}):
            assert run()["grade"].cast(pl.String).to_list() == ["a", "z"]


@few(2)(
    ("unit", "function"),
    cycled(
        [["query_text", "doc_id"], ("query_text", "doc_id"), ["query_text", pl.col("doc_id")],
         pl.struct("query_text", "doc_id"), pl.concat_str("query_text", "doc_id", separator=" ")],
        [rankql.cohen_kappa, rankql.krippendorff_alpha],
    ),
)  # fmt: skip
def test_a_unit_of_several_columns(function, unit):
    """As one column of pairs, in Python and in SQL."""
    frame = CODERS.with_columns(
        query_text=pl.format("q {}", pl.col("unit") // 4), doc_id=pl.col("unit") % 4
    )
    expected = function(CODERS)
    assert function(frame.drop("unit"), unit=unit).equals(expected)
    assert function(frame.drop("unit").lazy(), unit=unit).collect().equals(expected)
    con = metric_engines.connect()
    con.register("labels", frame.drop("unit"))
    unit = "{'q': query_text, 'd': doc_id} AS unit"
    con.execute(f"CREATE VIEW coded AS SELECT annotator, label, {unit} FROM labels")
    assert con.sql(f"FROM {function.__name__}('coded')").pl().equals(expected)


@pytest.mark.slow
def test_columns_of_annotators_are_rows_of_labels():
    """Of all kinds of frames, with and without a unit, and where a label is missing."""
    wide = pl.DataFrame({"q": [1, 1, 2, 2], "item": [1, 2, 1, 2], "ann": [0, 1, 1, 2],
                         "bo": [0, 1, 2, None], "site": [*"xxyy"]})  # fmt: skip
    rows = wide.unpivot(["ann", "bo"], index=["q", "item", "site"], variable_name="annotator",
                        value_name="label")  # fmt: skip
    for function in (rankql.cohen_kappa, rankql.krippendorff_alpha):
        for options in ({}, {"slice": "site"}):
            expected = rows.pipe(function, unit=["q", "item"], **options)
            for unit in ({}, {"unit": ["q", "item"]}):
                found = wide.pipe(function, label=["ann", pl.col("bo")], **unit, **options)
                assert found.equals(expected)
            lazy = wide.lazy().pipe(function, label=["ann", "bo"], **options)
            assert lazy.collect().equals(expected)
            pandas = wide.to_pandas().pipe(function, label=["ann", "bo"], **options)
            assert pl.from_pandas(pandas).equals(expected)
            con = metric_engines.connect()
            con.register("labels", wide)
            names = "".join(f", {name} := {value!r}" for name, value in options.items())
            in_sql = f"FROM {function.__name__}('labels', label := ['ann', 'bo']{names})"
            assert con.sql(in_sql).pl().equals(expected)
    with pytest.raises(duckdb.Error, match="the table lacks one of the columns ann, cy"):
        con.sql("FROM cohen_kappa('labels', label := ['ann', 'cy'])").fetchall()
    assert wide.pipe(rankql.cohen_kappa, label=["ann", "bo"])["units"].item() == 3
    with pytest.raises(rankql.RankqlError, match="Leave out annotator="):
        wide.pipe(rankql.cohen_kappa, label=["ann", "bo"], annotator="site")
