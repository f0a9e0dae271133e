"""Names and ids of the user are values: braces, percent signs and quotes in them mean nothing."""

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

# What a template of str.format, of SQL or of a regular expression would read.
WORDS = ["{0}", "{}", "{", "}", "{query!r}", "%s100%", "it's", 'a"b', "\\1", "^$"]


def make_tables(word):
    """A run and judgments, with the word in every name and id."""
    ids = [f"{word}{x}" for x in "abc"]
    items = [f"{word}{x}" for x in "xyz"]
    names = {role: f"{word} {role}" for role in ("query", "item", "score", "rel")}
    run = pl.DataFrame({
        names["query"]: [x for x in ids for _ in items],
        names["item"]: items * 3,
        names["score"]: [3.0, 2, 1, 1, 2, 3, 3, 1, 2],
    })  # fmt: skip
    qrels = pl.DataFrame({
        names["query"]: [x for x in ids[:2] for _ in items],
        names["item"]: items * 2,
        names["rel"]: [1, 0, 2, 0, 1, 0],
        f"{word} part": [f"{word}{x}" for x in "tttvvv"],
    })  # fmt: skip
    return run, qrels, names


@few(1)("word", WORDS)
def test_names_and_ids_are_no_templates(word):
    run, qrels, names = make_tables(word)
    plain, judged, plainly = make_tables("p")
    part = f"{word} part"
    metrics = ["nDCG@10", "AP"]
    runs = {f"{word} 1": run, f"{word} 2": run.with_columns(-pl.col(names["score"]))}
    result = rankql.evaluate(runs, qrels, metrics, by=part, cluster=part, **names)
    others = {"p 1": plain, "p 2": plain.with_columns(-pl.col("p score"))}
    expected = rankql.evaluate(others, judged, metrics, by="p part", cluster="p part", **plainly)
    assert result.summary["mean"].to_list() == expected.summary["mean"].to_list()
    assert [*result.notes] == [
        x.replace("p part", part)
        .replace("run 'p 1'", f"run {f'{word} 1'!r}")
        .replace("run 'p 2'", f"run {f'{word} 2'!r}")
        .replace("'pc'", repr(f"{word}c"))
        for x in expected.notes
    ]
    assert repr(f"{word}c") in result.notes[0]


@few(1)("word", WORDS)
def test_all_commands_read_such_names(word):
    run, qrels, names = make_tables(word)
    other = run.with_columns(-pl.col(names["score"]))
    comparison = rankql.compare({f"{word} 1": run, word: other}, qrels, "nDCG@10", **names)
    assert comparison.systems == [f"{word} 1", word] and comparison.title
    limits = {"minimum": "nDCG@10>=0.1", "max_drop": "nDCG@10:0.1"}
    assert len(rankql.gate(run, qrels, other, **limits, **names).table) == 2
    spelled = run.with_columns(pl.col(names["item"]) + " ")
    kinds = [finding.kind for finding in rankql.check(spelled, qrels, **names)]
    assert "id-spelling" in kinds
    explained = rankql.explain(run, qrels, f"{word}a", "nDCG@10", **names)
    assert f"{word}x" in str(explained)


@few(1)("word", WORDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run, names: pl.concat([run, run]), "run has duplicates: query {a!r}, item {x!r}"),
        (
            lambda run, names: run.with_columns(pl.col(names["item"]) + "#1"),
            "No item of the run is judged for its query: for query {a!r}",
        ),
        (
            lambda run, names: run.with_columns(pl.col(names["query"]) + "#1"),
            "No query of the run is judged: it has {b!r}, ",
        ),
    ],
)
def test_errors_have_such_ids_as_they_are(word, change, message):
    """In a table of one query: no other column can be suggested as the query."""
    run, qrels, names = make_tables(word)
    ids = {"a": f"{word}a", "b": f"{word}a#1", "x": f"{word}x"}
    with pytest.raises(RankqlError) as error:
        rankql.evaluate(change(run, names), qrels, "nDCG@10", **names)
    assert str(error.value).startswith(message.format(**ids))


@few(1)("word", WORDS)
def test_files_of_such_names(word, tmp_path):
    run, qrels, names = make_tables(word)
    files = tmp_path / f"run{word}.parquet", tmp_path / f"qrels{word}.csv"
    run.write_parquet(files[0])
    qrels.write_csv(files[1])
    written = tmp_path / f"values{word}.parquet"
    result = rankql.evaluate(*files, "nDCG@10", output=written, **names)
    assert rankql.combine([written])["nDCG@10"] == result["nDCG@10"]
    files[0].write_bytes(files[0].read_bytes()[:100])
    with pytest.raises(RankqlError) as error:
        rankql.evaluate(*files, "nDCG@10", **names)
    assert f"{str(files[0])!r} is not a complete Parquet file" in str(error.value)


def test_lists_of_grades_in_columns_of_such_names():
    rows = {"{0}": ["q"], "retrieved": [["x", "y"]], "relevant": [[{"id": "y", "{0} rel": 2}]]}
    result = rankql.evaluate(pl.DataFrame(rows), None, ["nDCG@10", "RR"], query="{0}")
    assert result["RR"] == 0.5


@pytest.mark.parametrize("names", [["slice", "by_slice"], ["by_mean", "mean", "by_by_mean"]])
def test_attributes_are_named_apart_from_columns_of_the_summary(names):
    run, qrels, columns = make_tables("p")
    slices = {name: pl.lit(name) for name in names}
    qrels = qrels.with_columns(**slices)
    result = rankql.evaluate(run, qrels, "nDCG@10", by=names, **columns)
    (row,) = result.summary.filter(pl.col("slice") != "all").to_dicts()
    assert {x for x in row.values() if isinstance(x, str)} >= {*names}
    assert all(row[name] == name for name in names if name not in ("slice", "mean"))
    assert row["slice"].startswith(names[0]) and row["mean"] > 0
