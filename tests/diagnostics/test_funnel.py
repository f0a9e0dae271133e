"""The losses of a funnel against their definition in plain Python."""

import math
import random
from collections import Counter

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few

QRELS = pl.DataFrame({"query": 1, "item": ["a", "b"], "rel": [1, 1]})
RETRIEVAL = pl.DataFrame({"query": 1, "item": ["x", "a"]})
RANK = RETRIEVAL.with_columns(pos=pl.Series([1, 2]))


def draw(seed, nested):
    """Judgments and three stages of some queries, the last one with scores without ties."""
    rng = random.Random(seed)
    qrels, stages = [], [[], [], []]
    for query in range(rng.randint(2, 12)):
        items = [f"i{n}" for n in range(rng.randint(1, 15))]
        judged = [item for item in items if rng.random() < 0.8]
        qrels += [(query, item, rng.choice([0, 0, 1, 2, 3.5])) for item in judged]
        kept = items
        for stage in stages:
            kept = [item for item in (kept if nested else items) if rng.random() < 0.7]
            stage += [(query, item, rng.random()) for item in kept]
    schema = {"query": pl.Int64, "item": pl.String, "score": pl.Float64}
    first, second, final = (pl.DataFrame(rows, schema, orient="row") for rows in stages)
    qrels = pl.DataFrame(qrels, ["query", "item", "rel"], orient="row")
    return {"first": first.drop("score"), "second": second.drop("score"), "final": final}, qrels


def dcg(grades, k):
    return math.fsum(grade / math.log2(place + 2) for place, grade in enumerate(grades[:k]))


def by_definition(stages, qrels, query, k):
    """The losses of a query and the stage that loses each relevant item; None if undefined."""
    grades = dict(qrels.filter(query=query).select("item", "rel").rows())
    ideal = dcg(sorted(grades.values(), reverse=True), k)
    if not ideal:
        return None, {}
    tables = {name: table.filter(query=query) for name, table in stages.items()}
    best = [1.0]
    for table in tables.values():
        best.append(dcg(sorted((grades.get(x, 0) for x in table["item"]), reverse=True), k) / ideal)
    order = tables["final"].sort("score", descending=True)["item"].to_list()
    value = dcg([grades.get(item, 0) for item in order], k) / ideal
    losses = [a - b for a, b in zip(best, [*best[1:], value], strict=True)]
    lost = {}
    for item in (item for item, grade in grades.items() if grade >= 1):
        last = max((i for i, x in enumerate(tables.values(), 1) if item in [*x["item"]]), default=0)
        below = "order" if item not in order[:k] else None
        lost[item] = [*stages][last] if last < len(stages) else below
    return [*losses, value], lost


@few(1)("nested", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_against_the_definition(seed, nested):
    stages, qrels = draw(f"{seed} {nested}", nested)
    k = [1, 3, 10, 100][seed]
    parts = qrels.with_columns(part=pl.col("query") % 2)
    funnel = rankql.funnel(stages, parts, k, by="part")
    names = [f"loss: {name}" for name in (*stages, "order")]
    for query, *values in funnel.per_query.select("query", *names, f"nDCG@{k}").rows():
        expected, lost = by_definition(stages, qrels, query, k)
        if expected is None:
            assert values == [None] * len(values)
            continue
        assert values == pytest.approx(expected, abs=1e-12)
        assert math.fsum(values) == pytest.approx(1, abs=1e-12)
        assert dict(funnel.items.filter(query=query).select("item", "lost_by").rows()) == lost
    value = rankql.evaluate(stages["final"], qrels, f"nDCG@{k}")[f"nDCG@{k}"]
    table = funnel.table.filter(slice="all")
    assert table["after"][-1] == value
    assert table["own"].to_list() == [None, None, pytest.approx(value), None]
    assert table.columns.index("own") == table.columns.index("hi") + 1
    for part in (0, 1):
        of_part = funnel.per_query.filter(pl.col("query") % 2 == part).drop_nulls(names)
        losses = funnel.table.filter(slice=f"part={part}")["loss"].to_list()
        means = of_part.select(pl.mean(*names)).row(0)
        assert losses == pytest.approx([*means], abs=1e-12) or not len(of_part)
    assert math.fsum(table["loss"]) == pytest.approx(1 - value, abs=1e-12)
    assert table.select(pl.col("loss").is_between("lo", "hi").all()).item()
    if nested:
        assert not funnel.added and (table["lo"] >= 0).all()
    added = {
        later: stages[later].join(stages[before], on=["query", "item"], how="anti").height
        for before, later in (("first", "second"), ("second", "final"))
    }
    assert funnel.added == {name: count for name, count in added.items() if count}
    for column, counts in (("added", added), ("lost", Counter(funnel.items["lost_by"]))):
        assert table[column].to_list() == [counts.get(stage, 0) for stage in table["stage"]]
    for name in funnel.added:
        assert any(line.startswith(f"{name} has ") for line in funnel.notes)


def test_by_hand():
    """One of two relevant items is missing, and the other is second: 1 / (1 + 1/log2 3)."""
    ideal = 1 + 1 / math.log2(3)
    funnel = rankql.funnel({"retrieval": RETRIEVAL, "rank": RANK}, QRELS)
    losses = [1 - 1 / ideal, 0, (1 - 1 / math.log2(3)) / ideal]
    assert funnel.table["loss"].to_list() == pytest.approx(losses, abs=1e-15)
    assert funnel.table["recall"].to_list() == [0.5, 0.5, None]
    assert funnel.items.rows() == [(1, "a", 1.0, 2, None), (1, "b", 1.0, None, "retrieval")]
    assert funnel.title == (
        "nDCG@10 is 0.387. retrieval and the order of the final ranking lose most: 0.387 and 0.226"
        ", not significantly more than the others"
    )
    assert funnel.table["own"].to_list() == [None, pytest.approx(0.387, abs=1e-3), None]
    perfect = rankql.funnel({"rank": QRELS.with_columns(pos=pl.Series([1, 2]))}, QRELS)
    assert perfect.title == "nDCG@10 is 1.000: nothing is lost"


@few(1)("form", ["paths", "list", "distance", "text ids"])
def test_forms_of_stages(form, tmp_path):
    stages, qrels = draw("kinds", nested=True)
    expected = rankql.funnel(stages, qrels, 3).table
    if form == "paths":
        for name, table in stages.items():
            table.write_parquet(tmp_path / f"{name}.parquet")
        stages = {name: tmp_path / f"{name}.parquet" for name in stages}
    elif form == "list":
        stages = [*stages.values()]
        numbers = {name: f"stage {i}" for i, name in enumerate(["first", "second", "final"], 1)}
        expected = expected.with_columns(pl.col("stage").replace(numbers))
    elif form == "distance":
        stages["final"] = stages["final"].select("query", "item", distance=-pl.col("score"))
    else:
        stages["first"] = stages["first"].with_columns(pl.col("query").cast(pl.String))
    assert rankql.funnel(stages, qrels, 3).table.equals(expected)


@pytest.mark.slow
def test_lists_of_ids():
    """Of any stage and of the judgments, next to tables with one row per item."""
    expected = rankql.funnel({"retrieval": RETRIEVAL, "rank": RANK}, QRELS).table.drop("own")
    lists = pl.DataFrame({"query": [1], "retrieved": [["x", "a"]]})
    relevant = pl.DataFrame({"query": [1], "relevant": [["a", "b"]]})
    for first, last, judged in (
        (lists, lists, relevant),
        (RETRIEVAL, lists, QRELS),
        (lists, RANK, relevant),
    ):
        table = rankql.funnel({"retrieval": first, "rank": last}, judged).table
        assert table.drop("own").equals(expected)


def test_a_gain_of_its_own():
    options = {"k": 2, "gain": "exp2"}
    judged = QRELS.with_columns(rel=pl.Series([1, 3]))
    funnel = rankql.funnel({"rank": RANK}, judged, **options)
    value = rankql.evaluate(RANK, judged, "nDCG@2", gain="exp2")["nDCG@2"]
    assert funnel.table["after"][-1] == value and funnel.metric == "nDCG@2"


def test_a_stage_without_relevant_items():
    """It loses everything that is left."""
    judged = pl.concat([QRELS, pl.DataFrame({"query": 1, "item": ["x"], "rel": [0]})])
    funnel = rankql.funnel({"first": RETRIEVAL.filter(item="x"), "rank": RANK}, judged)
    assert funnel.title == (
        "nDCG@10 is 0.387. first and the order of the final ranking lose most: 1.000 and 0.226, "
        "not significantly more than the others"
    )
    assert funnel.table["after"].to_list()[:1] == [0.0]
    assert funnel.table["loss"][0] == 1 and funnel.table["loss"][1] < 0


def test_intervals_stay_within_what_is_possible():
    """A loss is at most 1, and at least -1; of a stage that adds nothing, at least 0."""
    qrels = {"q": {"a": 1}, "p": {"c": 1}}
    stages = {"first": {"q": ["b"], "p": ["c"]}, "last": {"q": ["b", "a"], "p": ["c"]}}
    funnel = rankql.funnel(stages, qrels, 2)
    first, last, order = funnel.table.select("loss", "lo", "hi").rows()
    assert first[1] > 0 and last[1] < 0 and order[1] > 0
    assert all(-1 <= lo <= loss <= hi <= 1 for loss, lo, hi in (first, last, order))


def test_a_loss_has_the_interval_of_a_value_from_0_to_1():
    """As nDCG has it: 4 of 20 questions lost are 0.2, with the interval of the share kept."""
    (loss,) = lossy(20, range(4), ()).table.filter(stage="retrieved").select("lo", "hi").rows()
    kept = pl.DataFrame({"query": range(20), "AP": [0.0] * 4 + [1.0] * 16})
    (share,) = rankql.read_values(kept, metrics="AP").summary.select("lo", "hi").rows()
    assert loss == pytest.approx((1 - share[1], 1 - share[0]))


def test_losses_beyond_one_if_grades_may_be_negative():
    qrels = {f"q{i}": {"a": 1 + i % 2, "b": -1, "c": -1} for i in range(9)}
    every, bad = (dict.fromkeys(qrels, items) for items in (["a", "b", "c"], ["b", "c"]))
    funnel = rankql.funnel({"first": every, "last": bad}, qrels, 3, negative="keep")
    table = funnel.table.drop_nulls("loss")
    assert table["loss"].max() > 1 and table["lo"].count()
    assert ((table["lo"] <= table["loss"]) & (table["loss"] <= table["hi"])).all()
    assert table["after"].to_list()[-1] == pytest.approx(1 - math.fsum(table["loss"]))


@pytest.mark.report
def test_chart(tmp_path):
    """The bars are the losses of the table, from 1 down to nDCG."""
    stages, qrels = draw("chart", nested=True)
    funnel = rankql.funnel(stages, qrels)
    (rows,) = funnel.plot().to_dict()["datasets"].values()
    after = [round(value, 6) for value in funnel.table["after"]]
    assert [row["stage"] for row in rows] == ["first", "second", "final", "order", "nDCG@10"]
    assert [row["after"] for row in rows] == pytest.approx([*after, after[-1]], abs=1e-5)
    assert [row["before"] for row in rows] == pytest.approx([1, *after[:-1], 0], abs=1e-5)
    funnel.save(tmp_path / "funnel.html")
    page = (tmp_path / "funnel.html").read_text("utf-8")
    assert page.index("<table") < page.index("<svg") and funnel.title in page


@few(1)(("one", "piece"), [("red shoe", "shoe"), ("d0, large", "d0")])
def test_ids_with_blanks_or_commas_are_one_id(one, piece):
    rows = [("a", one, 1), ("b", one, 1), ("a", piece, 1)]
    frame = pl.DataFrame({"query": ["a", "b"], "item": [one, one], "score": [1.0, 1.0]})
    for grade, run in (("rel", {"a": {one: 1.0}, "b": {one: 1.0}}), ("my_grade", frame)):
        qrels = pl.DataFrame(rows, schema=["query", "item", grade], orient="row")
        found = rankql.funnel({"one": run, "two": run}, qrels, rel=grade)
        assert found.table["recall"].to_list()[:2] == [0.75, 0.75]


def test_one_decision_about_cells_holds_for_all_stages():
    # Of both stages more complete cells match the judgments; of the last one alone, more pieces.
    qrels = pl.DataFrame({"query": list("abc"), "item": ["red shoe"] * 3})
    first = [("a", "shoe", 1), ("a", "red shoe", 2), ("b", "red shoe", 1), ("c", "red shoe", 1)]
    last = [("a", "shoe", 1), ("b", "shoe", 1), ("c", "red shoe", 1)]
    stages = {
        name: pl.DataFrame(rows, schema=["query", "item", "pos"], orient="row")
        for name, rows in (("first", first), ("last", last))
    }
    found = rankql.funnel(stages, qrels, rel="1")
    assert found.table["recall"].to_list()[:2] == pytest.approx([1, 1 / 3])
    assert found.table["after"].to_list() == pytest.approx([1, 1 / 3, 1 / 3])


def chunked(stages, by):
    """Each item as two chunks, of which the second comes later."""
    later = {
        "score": pl.col("score") - 100 * pl.col("n"),
        "pos": pl.col("pos") * 2 - 1 + pl.col("n"),
    }
    numbers = pl.DataFrame({"n": [0, 1]})
    columns = [pl.format("{}#{}", "item", "n").alias("item"), pl.col("item").alias("document")]
    return {
        name: table.join(numbers, how="cross").with_columns(
            *columns, *([later[by]] if by in table.columns else [])).drop("n")
        for name, table in stages.items()
    }  # fmt: skip


@few(1)(("collapse", "by", "judged"), [("#", "score", "chunks"), ("document", "pos", "documents")])
def test_chunks_of_documents(collapse, by, judged):
    """The funnel of chunks with collapse= is that of documents."""
    stages, qrels = draw("chunks", nested=True)
    if by == "pos":
        rank = pl.col("score").rank("ordinal", descending=True).over("query")
        stages["final"] = stages["final"].select("query", "item", pos=rank)
    expected = rankql.funnel(stages, qrels, 3)
    chunks = qrels.with_columns(document="item", item=pl.col("item") + "#0")
    found = rankql.funnel(chunked(stages, by), chunks if judged == "chunks" else qrels, 3,
                          collapse=collapse)  # fmt: skip
    for name in ("loss", "after", "recall", "lost"):
        assert found.table[name].to_list() == pytest.approx(expected.table[name].to_list())
    assert found.items.select("query", "item", "lost_by").equals(
        expected.items.select("query", "item", "lost_by"))  # fmt: skip
    assert found.items["position"].to_list() == expected.items["position"].to_list()


@few(1)("form", ["lists", "lists of chunks", "files"])
def test_the_judgments_are_lists_of_the_stages(form, tmp_path):
    gold = [["a", "b"], ["c"]]
    first = {"query": ["q", "p"], "retrieved_ids": [["x", "a", "b"], ["d"]], "relevant_ids": gold}
    last = {"query": ["q", "p"], "retrieved_ids": [["x", "a"], ["d", "e"]], "relevant_ids": gold}
    qrels = pl.DataFrame({"query": [*"qqp"], "item": [*"abc"], "rel": 1})
    stages = {"retrieve": pl.DataFrame(first), "rank": pl.DataFrame(last)}
    expected = rankql.funnel({k: v.drop("relevant_ids") for k, v in stages.items()}, qrels, 2)
    options = {}
    if form == "lists of chunks":
        options, part = {"collapse": "#"}, pl.element() + "#1"
        stages = {k: v.with_columns(pl.col("retrieved_ids").list.eval(part))
                  for k, v in stages.items()}  # fmt: skip
    if form == "files":
        for name, frame in stages.items():
            frame.write_ndjson(tmp_path / f"{name}.jsonl")
        paths = [f"{name}={tmp_path}/{name}.jsonl" for name in stages]
        done = CliRunner().invoke(main, ["funnel", *paths, "-k", "2"])
        assert done.exit_code == 0 and done.stdout.startswith(expected.title)
        return
    assert rankql.funnel(stages, k=2, **options).table.equals(expected.table)


@pytest.mark.slow
def test_a_final_ranking_of_documents_after_chunks():
    stages, qrels = draw("chunks", nested=True)
    expected = rankql.funnel(stages, qrels, 3)
    mixed = {**chunked(stages, "score"), "final": stages["final"]}
    found = rankql.funnel(mixed, qrels, 3, collapse="#")
    assert found.table["loss"].to_list() == pytest.approx(expected.table["loss"].to_list())
    assert found.items["position"].to_list() == expected.items["position"].to_list()
    with pytest.raises(rankql.RankqlError, match="no id of the run contains '#'"):
        rankql.funnel(stages, qrels, 3, collapse="#")


STAGE = pl.DataFrame({"query": ["q"] * 3, "item": ["a", "b", "c"], "score": [3.0, 2.0, 1.0]})
ONE_ITEM = pl.DataFrame({"query": ["q"], "item": ["a"], "rel": [1]})


def test_wrong_numbers_of_the_final_stage_are_named_by_their_column():
    for role in ("score", "pos"):
        wrong = STAGE.select("query", "item", pl.lit(float("nan")).alias(role))
        with pytest.raises(rankql.RankqlError, match=f"stage 'y': {role} must be .*, not nan"):
            rankql.funnel({"x": STAGE, "y": wrong}, ONE_ITEM, k=2)


def test_duplicates_name_their_stage_and_the_key():
    for stage in ("x", "y"):
        stages = {"x": STAGE, "y": STAGE} | {stage: pl.concat([STAGE, STAGE[:2]])}
        with pytest.raises(
            rankql.RankqlError, match=f"^stage '{stage}' has duplicates: query 'q', "
        ) as e:
            rankql.funnel(stages, ONE_ITEM, k=2)
        assert "system" not in str(e.value)
    note, *_ = rankql.funnel(stages, ONE_ITEM, k=2, collapse="item").notes
    assert note.startswith("stage 'y': 2 of 5 rows repeat a document (item)")
    countries = {"de": STAGE, "fr": STAGE.with_columns(score=-pl.col("score"))}
    both = pl.concat(x.with_columns(country=pl.lit(name)) for name, x in countries.items())
    with pytest.raises(
        rankql.RankqlError, match=r"the queries:\n    query=\['query', 'country'\]$"
    ):
        rankql.funnel(stages | {"y": both}, ONE_ITEM, k=2)


def lossy(queries, retrieved, shown):
    """Stages that lose the one relevant item of some queries."""
    names = [f"q{i}" for i in range(queries)]
    first = {q: ["b", "c"] if i in retrieved else ["a", "b"] for i, q in enumerate(names)}
    last = {q: ["b"] if i in {*retrieved, *shown} else ["a"] for i, q in enumerate(names)}
    return rankql.funnel({"retrieved": first, "shown": last}, {q: {"a": 1} for q in names})


UNCLEAR = ", not significantly more than the others"


ALONE = "the others nothing ({} of {} queries, not significant)"


@few(3)(
    ("queries", "retrieved", "shown", "lose"),
    [
        (40, 6, 0, "retrieved loses 0.150, " + ALONE.format(6, 40)),  # p = 0.031, of two tests
        (40, 4, 4, "retrieved and shown lose most: 0.100 and 0.100" + UNCLEAR),
        (40, 4, 5, "shown and retrieved lose most: 0.125 and 0.100" + UNCLEAR),
        (40, 1, 20, "shown loses most: 0.500"),
        (40, 12, 10, "retrieved and shown lose most: 0.300 and 0.250"),
        (40, 10, 0, "retrieved loses most: 0.250"),
        (40, 8, 0, "retrieved loses most: 0.200"),
        (40, 4, 0, "retrieved loses 0.100, " + ALONE.format(4, 40)),
        (20, 1, 0, "retrieved loses 0.050, " + ALONE.format(1, 20)),
    ],
)
def test_one_stage_loses_most_only_if_it_loses_more_than_the_others(
    queries, retrieved, shown, lose
):
    funnel = lossy(queries, range(retrieved), range(retrieved, retrieved + shown))
    assert funnel.title == f"nDCG@10 is {funnel.table['after'][-1]:.3f}. {lose}"


@pytest.mark.slow
@few(1)(
    ("share", "repeats"),
    [(0.3, 4), (0.1, 4),
     *(pytest.param(x, 300, marks=pytest.mark.simulation) for x in (0.1, 0.3))],
)  # fmt: skip
def test_of_two_stages_that_lose_alike_one_is_rarely_named_alone(share, repeats):
    """Samples of 20 questions, each of which one of the stages loses with this probability."""
    rng, alone = random.Random(f"alike {share}"), 0
    for _ in range(repeats):
        drawn = [rng.random() for _ in range(20)]
        retrieved = [i for i, x in enumerate(drawn) if x < share / 2]
        shown = [i for i, x in enumerate(drawn) if share / 2 <= x < share]
        title = lossy(20, retrieved, shown).title
        alone += " loses most" in title and not title.endswith(UNCLEAR)
    assert alone <= 0.05 * repeats + 2 * (0.05 * repeats) ** 0.5


def test_both_tables_name_the_query_alike():
    stages = {"first": pl.DataFrame({"question": ["q"], "item": ["a"], "pos": [1]})}
    funnel = rankql.funnel(stages, pl.DataFrame({"question": ["q"], "item": ["a"], "rel": [1]}))
    assert funnel.items.columns[0] == funnel.per_query.columns[0] == "question"


@pytest.mark.slow
def test_stages_of_one_table(tmp_path, monkeypatch):
    """In the order in which they occur, as tables of their own."""
    qrels = pl.DataFrame({"query": [1, 1, 2], "item": [*"abc"], "rel": [2, 1, 1]})
    stages = {
        "retrieval": pl.DataFrame({"query": [1, 1, 2], "item": [*"xac"], "score": [3.0, 2.0, 1.0]}),
        "filter": pl.DataFrame({"query": [1, 2], "item": [*"ac"], "score": [1.0, 1.0]}),
        "ann": pl.DataFrame({"query": [1], "item": ["a"], "score": [1.0]}),
    }
    long = pl.concat(rows.with_columns(stage=pl.lit(name)) for name, rows in stages.items())
    expected = rankql.funnel(stages, qrels)
    result = rankql.funnel(long, qrels, system="stage")
    assert result.table.equals(expected.table) and result.items.equals(expected.items)
    assert result.table["stage"].to_list() == ["retrieval", "filter", "ann", "order"]
    with pytest.raises(rankql.RankqlError, match="system='step': no column of that name"):
        rankql.funnel(long, qrels, system="step")
    monkeypatch.chdir(tmp_path)
    long.write_csv("long.csv")
    qrels.write_csv("qrels.csv")
    command = ["funnel", "long.csv", "qrels.csv", "--system", "stage", "--format", "csv"]
    printed = CliRunner().invoke(main, command).stdout
    assert printed.splitlines()[1:] == expected.table.write_csv().splitlines()[1:]
