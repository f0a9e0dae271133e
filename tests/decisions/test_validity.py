"""How a comparison is to be read: runs of other queries, seen items, ceilings, rare losses."""

import numpy as np
import polars as pl
import pytest

import rankql
from support.parameters import few


def rankings(queries=40, seed=1, missing=0, shift=0.0):
    """A run of ten items per query, without the last `missing` queries, and judgments."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), 10)
    item, rel = np.tile(np.arange(10), queries), (np.arange(10 * queries) % 10 < 3).astype(int)
    run = pl.DataFrame({"query": query, "item": item, "score": rng.normal(size=query.size)})
    run = run.with_columns(score=pl.col("score") + shift * rel)
    return run.filter(pl.col("query") < queries - missing), pl.DataFrame(
        {"query": query, "item": item, "rel": rel}
    )


@pytest.mark.parametrize(("missing", "comparable"), [(20, True), (21, False)])
def test_a_run_of_few_queries_is_not_compared(missing, comparable):
    run, qrels = rankings()
    part = rankings(missing=missing, shift=5.0)[0]
    title = repr(rankql.compare({"old": run, "dead": part}, qrels, "RR")).split("\n")[0]
    said = f"Not comparable: 'dead' ranks {40 - missing} of 40 queries"
    assert title.startswith(said if not comparable else "Is dead better than old?"), title


def test_a_gate_fails_a_run_of_few_queries_and_decides_nothing_by_such_a_baseline():
    run, qrels = rankings(shift=5.0)
    part = rankings(missing=25, shift=5.0)[0]
    failed = rankql.gate(part, qrels, baseline=run, max_drop="RR:0.9")
    assert failed.outcome == "failed" and "the run ranks 15 of 40 queries" in str(failed)
    none = rankql.gate(run, qrels, baseline=part, max_drop="RR:0.9", inconclusive="warn")
    assert none.outcome == "inconclusive" and "the baseline ranks 15 of 40" in str(none)
    fine = rankings(missing=20, shift=5.0)[0]
    assert "not comparable" not in str(rankql.gate(fine, qrels, baseline=run, max_drop="RR:0.9"))


@few(1)(("share", "noted"), [(0.5, True), (0.0, False)])
def test_seen_items_of_one_system_are_in_the_title(share, noted):
    run, qrels = rankings()
    other, train = rankings(seed=2)[0], run.filter(pl.col("item") < 10 * share)
    clean = run.filter(pl.col("item") >= 10 * share)
    train = train if len(train) else pl.DataFrame({"query": [0], "item": [99]})
    comparison = rankql.compare(
        {"new": other, "old": clean}, qrels, "Recall@5", train=train.select("query", "item")
    )
    title = repr(comparison).split("\n")[0]
    assert ("% of the items of new were seen in train and none of those of old" in title) == noted
    both = rankql.compare(
        {"new": other, "old": run}, qrels, "Recall@5", train=train.select("query", "item")
    )
    assert "seen in train" not in repr(both).split("\n")[0]


def test_seen_items_of_several_systems_are_in_the_title():
    run, qrels = rankings()
    train, clean = run.filter(pl.col("item") < 5), run.filter(pl.col("item") >= 5)
    runs = {"old": clean} | {f"new{i}": rankings(seed=i)[0] for i in range(2, 5)}
    options = {"train": train.select("query", "item"), "baseline": "old"}
    title = rankql.compare(runs, qrels, "Recall@5", **options).title
    assert "% of the items of new2, new3 and new4 were seen in train and none of those" in title
    assert " of old: pass seen='drop'" in title
    same = {name: x for name, x in runs.items() if name != "old"}
    assert (
        "seen in train" not in rankql.compare(same, qrels, "Recall@5", train=options["train"]).title
    )


def test_evaluate_and_compare_say_how_they_count_a_missing_query():
    run, qrels = rankings()
    graded = run.join(qrels, on=["query", "item"], how="left")
    runs = {"a": graded, "b": graded.filter(pl.col("query") > 0)}
    notes = " ".join(rankql.evaluate(runs, metrics="nDCG@5").notes)
    assert "compare counts queries that a system lacks as the worst value" in notes
    assert "evaluate leaves them out" in " ".join(rankql.compare(runs, metrics="nDCG@5").notes)
    judged = {name: x.drop("rel") for name, x in runs.items()}
    assert "evaluate leaves" not in " ".join(rankql.compare(judged, qrels, "nDCG@5").notes)


def test_a_metric_at_its_ceiling_is_noted():
    run, qrels = rankings()
    other = rankings(seed=2)[0]
    notes = rankql.compare({"a": run, "b": other}, qrels, ["R@10", "nDCG"]).notes
    (note,) = [note for note in notes if "can hardly show a difference" in note]
    assert note.startswith("R@10 is 1 for 100% of queries in both")
    spread = rankql.compare({"a": rankings()[0], "b": other}, qrels, ["RR", "P@3"]).notes
    assert not [note for note in spread if "can hardly show" in note]
    empty = pl.DataFrame({"query": range(1000, 1099), "item": 1, "rel": 0})
    empty = pl.concat([qrels, empty.cast(dict(qrels.schema))])
    counts = {"a": run, "b": other}, empty, "R@10"  # of the others, 99 are 0
    assert any("R@10 is 1" in note for note in rankql.compare(*counts).notes)
    assert not any("R@10 is 1" in x for x in rankql.compare(*counts, undefined="zero").notes)


@pytest.mark.parametrize(("queries", "noted"), [(58, True), (59, False)])
def test_rare_losses_that_few_queries_do_not_show_are_noted(queries, noted):
    """With 59 queries, a loss that hits one in twenty is in all but 5% of samples."""
    assert (0.95**queries <= 0.05) != noted
    run, qrels = rankings(queries)
    other = rankings(queries, seed=2)[0]
    said = f"Rare losses may not be seen: {queries} queries contain none of the losses"
    comparison = rankql.compare({"a": run, "b": other}, qrels, "RR")
    verdict = rankql.gate(other, qrels, baseline=run, max_drop="RR:0.5")
    for notes in (comparison.notes, verdict.notes):
        assert any(note.startswith(said) for note in notes) == noted
        assert sum("Rare losses" in note for note in notes) == noted


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("queries", "losses", "size", "noted"),
    [(59, 0, 0, True), (149, 2, 0.9, True), (150, 2, 0.9, False), (100, 3, 0.25, False),
     (100, 30, 0.24, True), (100, 3, 0.24, True)],
)  # fmt: skip
def test_few_or_small_losses_of_up_to_149_queries_may_hide_rarer_ones(queries, losses, size, noted):
    """With 149 queries, a loss that hits one in fifty is in all but 5% of samples."""
    values = [0.5 - size] * losses + [0.9] * (queries - losses)
    runs = {"a": [0.5] * queries, "b": values}
    rows = [(x, i, v) for x, all_values in runs.items() for i, v in enumerate(all_values)]
    table = pl.DataFrame(rows, ["system", "query", "RR"], orient="row")
    values = rankql.read_values(table, query="query", system="system")
    for baseline in runs:
        notes = rankql.compare(values, baseline=baseline).notes
        said = f"Losses of one query in fifty may not be seen: {queries} queries contain none"
        assert any(note.startswith(said) for note in notes) == noted
        assert not any("Rare losses" in note for note in notes)


@pytest.mark.slow
def test_the_note_is_there_where_a_rare_loss_is_not_seen():
    """One query in fifty loses half, the others gain: b is found better in one sample of seven."""
    rng, false = np.random.default_rng(4), 0
    for _ in range(80):
        lost = rng.random(100) < 0.02
        difference = np.where(lost, -0.5, 0.5 / 49) + rng.normal(0, 0.005, 100)
        rows = pl.DataFrame({"query": range(100), "RR": 0.5 + difference, "system": "b"})
        rows = pl.concat([rows.with_columns(RR=0.5, system=pl.lit("a")), rows])
        comparison = rankql.compare(rankql.read_values(rows, query="query", system="system"))
        if comparison.pairs["verdict"].item() == "better":
            false += 1
            assert any("Losses of one query in fifty" in note for note in comparison.notes)
    assert 0.04 < false / 80 < 0.3


@pytest.mark.parametrize("clusters", [20, 100])
def test_rare_losses_are_counted_in_clusters(clusters):
    run, qrels = rankings(200)
    users = pl.DataFrame({"query": range(200), "user": [i % clusters for i in range(200)]})
    runs = {"a": run, "b": rankings(200, seed=2)[0]}
    notes = rankql.compare(runs, qrels, "RR", cluster="user", attributes=users).notes
    said = f"{clusters} clusters contain none of the losses that hit one cluster in twenty"
    assert any(said in note for note in notes) == (clusters < 59)


@pytest.mark.parametrize(("systems", "noted"), [(10, False), (11, True)])
def test_the_best_of_many_systems_is_partly_the_luckiest(systems, noted):
    runs = {f"s{i}": rankings(30, seed=i)[0] for i in range(systems)}
    notes = rankql.compare(runs, rankings(30)[1], "RR", baseline="s0").notes
    assert any(f"The best of {systems} systems is partly the luckiest" in x for x in notes) == noted
