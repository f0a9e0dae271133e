"""wide(rows="system", columns=["collection", "metric"]): the cells are those of the summary."""

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

RUN = pl.DataFrame(
    [
        (system, f"t{q}", f"d{d}", float((step * q + 3 * d * step) % 11), ["A", "B & C"][q % 3 > 0])
        for system, step in (("bm25", 2), ("dense", 5), ("ours", 7))
        for q in range(24)
        for d in range(6)
    ],
    schema=["system", "query", "item", "score", "collection"],
    orient="row",
)
QRELS = RUN.filter(system="ours").select("query", "item", rel=(pl.col("score") > 6).cast(int))
METRICS = ["nDCG@3", "AP"]


def results():
    options = {"by": "collection"}
    yield rankql.evaluate(RUN, QRELS, METRICS, **options)
    yield rankql.compare(RUN, QRELS, METRICS, **options)
    yield rankql.compare(RUN, QRELS, METRICS, baseline="bm25", **options)


@few(1)("order", [["collection", "metric"], ["metric", "collection"]])
def test_cells_are_means_of_the_summary(order):
    for result in results():
        table = result.wide(rows="system", columns=order)
        summary = getattr(result, "result", result).summary
        heads = [x for x in table.table.columns if x in table.higher_is_better]
        values = ["A", "B & C"]
        pairs = [(x, y) for x in values for y in METRICS]
        if order[0] == "metric":
            pairs = [(x, y) for y in METRICS for x in values]
        assert heads == [" ".join(p if order[0] == "collection" else p[::-1]) for p in pairs]
        assert {*table.table["system"]} == {"bm25", "dense", "ours"} and table.table.height == 3
        for row in table.table.to_dicts():
            for head, (value, metric) in zip(heads, pairs, strict=True):
                part = summary.filter(
                    system=row["system"], metric=metric, slice=f"collection={value}"
                )
                assert row[head] == part["mean"].item()
        latex = table.to_latex(caption="Means of \\textsc{ours}", label="tab:ours")
        heads = ["A", "B \\& C"] if order[0] == "collection" else METRICS
        over = " & ".join(f"\\multicolumn{{2}}{{c}}{{{x}}}" for x in heads)
        assert latex.count("\\begin{tabular}") == 1 and f"{over} \\\\\n\\cmidrule" in latex
        # The text on the test and the signs follows the caption.
        assert "\\caption{Means of \\textsc{ours}" in latex and "}\n\\label{tab:ours}" in latex
        assert ("\\textsc{ours}. Paired t test" in latex) == bool(table.method)


def test_slices_by_another_attribute_have_no_column():
    run = RUN.with_columns(language=pl.when(pl.col("query") < "t2").then(pl.lit("all")))
    one = rankql.evaluate(run, QRELS, METRICS, by="language", mean="slices")
    by = [["collection"], ["language"], ["collection", "language"]]
    three = rankql.evaluate(run, QRELS, METRICS, by=by)
    expected, table = (x.wide("system", ["language", "metric"]).table for x in (one, three))
    assert table.equals(expected) and table.width == 5


def test_a_comparison_has_its_signs():
    result = rankql.compare(RUN, QRELS, METRICS, by="collection", baseline="bm25")
    table = result.wide(rows="system", columns=["collection", "metric"])
    marked = {
        (mark[: -len(" marks")], row["system"])
        for mark in table.marks.values()
        for row in table.table.to_dicts()
        if row[mark]
    }
    significant = result.pairs.filter(pl.col("verdict").is_in(["better", "worse"]))
    significant = significant.filter(pl.col("slice") != "all")
    expected = {
        (f"{row['slice'].removeprefix('collection=')} {row['metric']}", row["b"])
        for row in significant.to_dicts()
    }
    assert marked == expected and marked


@few(1)(
    ("rows", "columns"),
    [("system", ["metric"]), ("system", ["town", "metric"]), ("metric", ["collection", "metric"])],
)
def test_other_heads_are_refused(rows, columns):
    right = r"Pass rows='system', columns=\['collection', 'metric'\]"
    for result in results():
        with pytest.raises(RankqlError, match=right):
            result.wide(rows=rows, columns=columns)


@few(1)("metrics", [["nDCG@3"], METRICS])
def test_a_file_of_many_systems_has_a_row_for_each(metrics, tmp_path):
    """With all queries and each slice, and a caption that names metrics, queries and judgments."""
    QRELS.write_parquet(tmp_path / "gold.parquet")
    runs = {f"s{i}": RUN.filter(system="ours").drop("system").with_columns(
        score=(pl.col("score") * (i + 2)) % (i + 5)) for i in range(10)}  # fmt: skip
    options = {"metrics": metrics, "by": "collection"}
    for function in (rankql.evaluate, rankql.compare):
        result = function(runs, str(tmp_path / "gold.parquet"), **options)
        result.save(tmp_path / "means.tex")
        latex = (tmp_path / "means.tex").read_text()
        names = " and ".join(x.replace("_", "\\_") for x in metrics)
        assert f"\\caption{{Means of {names} on 24 queries of gold.parquet." in latex
        assert latex.count("\\begin{tabular}") == 1 and "& B \\& C}" not in latex
        over = [f"\\multicolumn{{{len(metrics)}}}{{c}}{{{x}}}" for x in ("all", "A", "B \\& C")]
        assert " & ".join(over) in latex
        means = getattr(result, "result", result).means
        for i, line in enumerate(x for x in latex.splitlines() if " & s" in x or x[:1] == "s"):
            assert line.count("&") == 3 * len(metrics) + (function is rankql.compare) or i == 0
        best = means.filter(slice="all", metric=metrics[0], system="s0")["mean"].item()
        assert f"s0 & {best:.4f}" in latex.replace("\\textbf{", "").replace("}", "")
        assert ("a & s" in latex) == (function is rankql.compare)


def test_few_systems_are_across():
    latex = rankql.evaluate(RUN, QRELS, "AP", by="collection", system="system").to_latex()
    assert "bm25 & dense & ours" in latex and "Means by metric" in latex
