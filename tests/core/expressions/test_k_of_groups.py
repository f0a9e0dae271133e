"""A cutoff of each group or list, as an expression or a name: the values with that cutoff."""

import inspect
import re

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from rankql.core.metrics.all_metrics import FUNCTIONS
from support import metric_engines
from support.parameters import few

ROWS = pl.DataFrame(
    [
        (user, f"{user * place % 7}-{place}", grade, None if place == 5 else place, 2 + user % 3)
        for user in range(12)
        for place, grade in enumerate((0, user % 3, None, 1, 2, user % 2), 1)
    ],
    schema=["user", "item", "rel", "pos", "k"],
    orient="row",
).with_columns(
    score=10 - pl.col("pos"),
    category=pl.col("item").str.head(1),
    attribute="item",
    attributes=pl.concat_list("item"),
    subtopics=pl.concat_list(pl.col("item").str.head(1)),
    baseline=pl.col("rel") == 1,
    embedding=pl.concat_list(pl.col("pos").fill_null(1).cast(float), pl.lit(1.0)),
)
REQUIRED = {
    "rbp": {"p": 0.8},
    "rbp_residual": {"p": 0.8},
    "near_duplicate_share": {"similarity": 0.9},
}
NAMES = [
    form
    for name, function in FUNCTIONS.items()
    for form in (name, f"{name}_by_score")
    if "k" in function.options and not name.startswith("micro") and hasattr(rankql, form)
    and "reference" not in inspect.signature(getattr(rankql, form)).parameters
]  # fmt: skip


@few(6)("name", NAMES)
def test_each_group_has_its_own_cutoff(name):
    metric = getattr(rankql, name)
    options = dict(REQUIRED.get(name.removesuffix("_by_score"), {}))
    if "err" in name and "max_rel" in inspect.signature(metric).parameters:
        options["max_rel"] = 2
    constant = [
        ROWS.filter(k=k).group_by("user").agg(value=metric(k=k, **options)) for k in (2, 3, 4)
    ]
    own = ROWS.group_by("user").agg(value=metric(k=pl.col("k"), **options))
    expected = pl.concat(constant).sort("user")["value"]
    assert own.sort("user")["value"].to_list() == pytest.approx(expected.to_list(), abs=1e-12)


def test_a_frame_sql_and_a_stream_have_the_same_values():
    con = metric_engines.connect()
    con.register("rows", ROWS)
    sql = "SELECT user, ndcg(rel, pos, k) AS ndcg FROM rows GROUP BY user, k ORDER BY user"
    expected = [value for _, value in con.sql(sql).fetchall()]
    lazy = ROWS.lazy().group_by("user").agg(rankql.ndcg(k="k"))
    for values in (
        ROWS.pipe(rankql.ndcg, k="k", by="user"),
        ROWS.pipe(rankql.ndcg, k=pl.col("k"), by="user"),
        lazy.collect(engine="streaming"),
    ):
        assert values.sort("user")["ndcg"].to_list() == pytest.approx(expected, abs=1e-12)
    whole = ROWS.with_columns(k=None).pipe(rankql.ndcg, k="k", by="user").sort("user")
    expected = ROWS.pipe(rankql.ndcg, by="user").sort("user")["ndcg"].to_list()
    assert whole["ndcg"].to_list() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (pl.col("pos").fill_null(9), "not 1 and 2"),
        (pl.when(pl.col("pos") < 3).then(2), "not None and 2"),
        (pl.col("k") * 0, "not 0"),
        (pl.col("k") / 2 + 1.25, "not 2.25"),
        (pl.col("item"), "not String"),
    ],
)
def test_other_cutoffs_are_refused(k, message):
    rows = ROWS.filter(user=0)
    message = f"k must be one whole number from 1 in a group, {message}"
    for metric in (rankql.ndcg, rankql.rr_by_score):
        with pytest.raises(RankqlError, match=re.escape(message)):
            rows.group_by("user").agg(metric(k=k))


def test_lists_have_a_cutoff_each():
    lists = pl.DataFrame({"rels": [[0, 1, 2], [1, 0, 1], None, [2, 1]], "k": [2, None, 1, 1]})
    values = lists.select(value=rankql.list_ndcg("rels", k="k"))["value"].to_list()
    expected = [
        lists[n].select(value=rankql.list_ndcg("rels", k=k)).item()
        for n, k in enumerate(lists["k"])
    ]
    assert values == pytest.approx(expected, abs=1e-12) and values[0] != values[1]
    with pytest.raises(RankqlError, match="k must be a whole number from 1, not 0"):
        lists.select(rankql.list_rr("rels", k=pl.col("k") * 0))


def test_metrics_of_all_rankings_have_one_cutoff():
    with pytest.raises(RankqlError, match="k must be a whole number from 1, not the text 'k'"):
        rankql.micro_recall_at(query="user", k="k")
