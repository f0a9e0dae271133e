"""The sections of the report on ranks and on the stages of a pipeline."""

import polars as pl
import pytest

import rankql

pytestmark = pytest.mark.report

RANKS = {"a": 1, "b": 2, "c": 9}
QUERIES = [f"q{i}" for i in range(12)]


def run(pos):
    """One relevant item per query, at this position; every third time one below."""
    rows = [(q, f"x{p}", p) for q in QUERIES for p in range(1, 12)]
    frame = pl.DataFrame(rows, schema=["query", "item", "pos"], orient="row")
    place = pos + (pl.col("query").str.slice(1).cast(pl.Int64) % 3 == 0).cast(pl.Int64)
    return frame.with_columns(
        item=pl.when(pl.col("pos") == place).then(pl.lit("hit")).otherwise("item")
    )


RUNS = {name: run(pos) for name, pos in RANKS.items()}
GONE = pl.DataFrame({"query": QUERIES, "item": "gone", "rel": 2})
QRELS = pl.concat([GONE.with_columns(item=pl.lit("hit"), rel=pl.lit(1, pl.Int32)), GONE])
RETRIEVAL = QRELS.filter(pl.col("item") == "hit").select("query", "item")


@pytest.fixture(scope="module")
def comparison():
    return rankql.compare(RUNS, QRELS, ["RR@10", "nDCG@10"])


def make(section, comparison, stages=None):
    from rankql.output.report_source import open_source
    from rankql.output.texts import Texts

    with open_source(comparison, Texts(None), stages) as source:
        return section(source)


def test_leaderboard(comparison):
    from rankql.output.report_sections import make_ranks_section

    section = make(make_ranks_section, comparison)
    assert section.tables[0].rows[1:] == [["a", "▲ 1", "▲ 1"], ["b", "2", "2"], ["c", "3", "3"]]
    assert section.remarks == [f"{comparison.title}."]
    (rows,) = comparison.plot("ranks", "RR@10").to_dict()["datasets"].values()
    columns = ("system", "ranks", "maybe_best")
    ranks = [tuple(row[name] for name in columns) for row in rows]
    assert ranks == [("a", "1", True), ("b", "2", False), ("c", "3", False)]
    against = rankql.compare(RUNS, QRELS, "RR", baseline="a")
    assert make(make_ranks_section, against) is None
    with pytest.raises(rankql.RankqlError, match="leaderboard needs all pairs"):
        against.plot("ranks")


def test_funnel(comparison, tmp_path):
    """One funnel per run, which ends with the run; of one table, by its column of systems."""
    from rankql.output.report_funnel import make_funnel_section

    table = pl.concat([table.with_columns(s=pl.lit(name)) for name, table in RUNS.items()])
    one = rankql.compare(table, QRELS, "nDCG@10", system="s")
    titles = [
        f"Pipeline that ends with {name}: {result.title}."
        for name, table in RUNS.items()
        if (result := rankql.funnel({"first": RETRIEVAL, name: table}, QRELS))
    ]
    for compared in (comparison, one):
        section = make(make_funnel_section, compared, {"first": RETRIEVAL})
        assert section.remarks == titles
        losses, items = section.tables
        assert [row[:2] for row in losses.rows[1:4]] == [["a", "first"], ["a", "a"], ["a", "order"]]
        assert items.caption == "a: relevant items lost by first, 10 of 12"
        assert len(section.figures) == len(RUNS)
        assert not any("Means" in note for note in section.notes)
    assert make(make_funnel_section, comparison) is None
    comparison.save(tmp_path / "report.html", stages={"first": RETRIEVAL})
    assert 'id="funnel"' in (tmp_path / "report.html").read_text("utf-8")


def test_stages_that_do_not_fit(comparison, tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises(rankql.RankqlError, match="'a' is the name of a stage and of a run"):
        comparison.save(path, stages={"a": RETRIEVAL})
    with pytest.raises(rankql.RankqlError, match="No item column in stage 'first'"):
        comparison.save(path, stages={"first": RETRIEVAL.drop("item")})
    results = {name: rankql.evaluate(table, QRELS, "RR") for name, table in RUNS.items()}
    message = "^stages: the runs are needed, but .* from results. Compare the runs, or leave"
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.compare(results).save(path, stages={"first": RETRIEVAL})
    with pytest.raises(rankql.RankqlError, match=r"^stages must be a dict .*, not list"):
        comparison.save(path, stages=[RETRIEVAL])
    with pytest.raises(rankql.RankqlError, match=r"^stages= is only for a report: save as .html"):
        comparison.save(tmp_path / "report.md", stages={"first": RETRIEVAL})
    assert not [*tmp_path.iterdir()]


def test_means_by_other_rules_are_explained():
    """A funnel has rules of its own for undefined and missing queries."""
    from rankql.output.report_funnel import make_funnel_section

    more = pl.concat([QRELS, QRELS[:1].with_columns(query=pl.lit("none"), rel=pl.lit(0, pl.Int32))])
    zero = rankql.compare({"a": RUNS["a"]}, more, "nDCG@10", undefined="zero")
    (note,) = make(make_funnel_section, zero, {"first": RETRIEVAL}).notes[:1]
    means = {row["system"]: row["mean"] for row in zero.summary.to_dicts()}
    value = means["a"] * 13 / 12
    assert note.startswith(f"nDCG@10 of a is {value:.4f} here, but {means['a']:.4f} in Means. ")
    assert note.endswith("Means have undefined='zero' and missing='zero'.")


def test_metrics_of_the_catalogue_have_no_difference_by_query():
    from rankql.output.report_sections import make_differences_section

    runs = {name: RUNS[name] for name in "ab"}
    compared = rankql.compare(runs, QRELS, ["RR", "g = gini(item, catalogue := 500)"])
    assert len(make(make_differences_section, compared).figures) == 3
