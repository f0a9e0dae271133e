"""Labels by language models beside human ones: agreement, and what changes for the systems."""

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.metrics import cohen_kappa_score

import rankql
from rankql import RankqlError, judges
from rankql.cli.main import main
from rankql.core.base.errors import Question
from support import judged_runs
from support.paths import ROOT
from support.refusals import refuses

LLMJUDGE = ROOT.parent / "shared" / "data" / "llmjudge"
# Kappa and alpha as published (Rahmani and others 2025, table 3).
PUBLISHED = {
    "willia-umbrela1": (0.2863, 0.4918),
    "h2oloo-fewself": (0.2774, 0.4958),
    "Olz-gpt4o": (0.2625, 0.5020),
    "RMITIR-GPT4o": (0.2388, 0.4108),
    "NISTRetrieval-instruct0": (0.1877, 0.3819),
    "TREMA-4prompts": (0.1829, 0.2888),
    "prophet-setting2": (0.1757, 0.3144),
    "TREMA-nuggets": (0.0604, 0.1691),
}


def simulated(queries=30):
    """Human labels, those of a judge with errors, and three runs, the last the best."""
    rng, human = np.random.default_rng(3), judged_runs.simulated(queries, queries)[1]
    slips = pl.Series(rng.choice([-1, 0, 0, 1], human.height))
    llm = human.with_columns(rel=(pl.col("rel") + slips).clip(0, 3))
    noise = {name: pl.Series(rng.normal(0, s, human.height)) for name, s in (("a", 3), ("b", 1))}
    noise["c"] = noise["b"] / 3
    runs = {
        name: human.select("query", "item", score=pl.col("rel") + values)
        for name, values in noise.items()
    }
    return human, llm, runs


@pytest.mark.skipif(not LLMJUDGE.exists(), reason="llmjudge is not here")
def test_published_agreement():
    files = {name: LLMJUDGE / f"{name}.qrels" for name in PUBLISHED}
    table = judges(files, LLMJUDGE / "human.qrels").table
    assert table["pairs"].unique().to_list() == [4423]
    for name, expected in PUBLISHED.items():
        values = dict(table.filter(judge=name).select("measure", "value").rows())
        row = (values["cohen_kappa"], values["krippendorff_alpha"])
        assert tuple(round(x, 4) for x in row) == expected


def test_measures_are_those_of_the_sql():
    human, llm, _ = simulated()
    table = dict(judges(llm, human).summary.select("measure", "value").rows())
    both = pl.concat(
        frame.select(unit=pl.concat_str("query", "item"), annotator=pl.lit(name), label="rel")
        for name, frame in (("a", human), ("b", llm))
    )
    for measure, expected in {
        "cohen_kappa": rankql.cohen_kappa(both)["cohen_kappa"][0],
        "weighted_kappa": rankql.cohen_kappa(both, "quadratic")["cohen_kappa"][0],
        "krippendorff_alpha": rankql.krippendorff_alpha(both)["krippendorff_alpha"][0],
        "exact_agreement": (human["rel"] == llm["rel"]).mean(),
        "mean_difference": (llm["rel"] - human["rel"]).mean(),
        "false_positives": llm.filter(human["rel"] < 1)["rel"].ge(1).mean(),
        "false_negatives": llm.filter(human["rel"] >= 1)["rel"].lt(1).mean(),
    }.items():
        assert table[measure] == pytest.approx(expected, abs=1e-12), measure


def test_intervals_leave_out_one_query_at_a_time():
    human, llm, _ = simulated(12)
    row = judges(llm, human).table.filter(measure="cohen_kappa").row(0, named=True)
    left_out = [
        judges(llm, human.filter(pl.col("query") != query)).table.filter(measure="cohen_kappa")
        for query in human["query"].unique()
    ]
    values = np.array([frame["value"][0] for frame in left_out])
    error = np.sqrt(11 / 12 * np.square(values - values.mean()).sum())
    assert row["hi"] - row["lo"] == pytest.approx(2 * 2.200985 * error, rel=1e-6)


def test_grades_and_confusion():
    human, llm, _ = simulated()
    report = judges(llm, human, threshold=2)
    for side, frame in (("human", human), ("llm", llm)):
        counts = frame["rel"].value_counts(normalize=True).sort("rel")
        assert report.grades[side].to_list() == pytest.approx(counts["proportion"].to_list())
    shares = report.confusion.select("lo", "hi", value="share")
    for ends in (report.grades.select(lo="human_lo", hi="human_hi", value="human"), shares):
        ends = ends.drop_nulls("lo")
        assert len(ends) and ends.select(pl.col("value").is_between("lo", "hi").all()).item()
    pairs = human.select(human=pl.col("rel").cast(float), llm=llm["rel"].cast(float))
    cells = report.confusion.filter(pl.col("pairs") > 0).select("human", "llm", "pairs")
    expected = pairs.group_by("human", "llm").len("pairs").sort("human", "llm")
    assert cells.sort("human", "llm").rows() == expected.rows()
    rows = report.confusion.group_by("human").agg(pl.col("share").sum())
    assert rows["share"].to_list() == pytest.approx([1] * 4)


def test_systems_under_both_labels():
    """On the queries of both; the bias is that of paired values."""
    human, llm, runs = simulated()
    both = llm.filter(pl.col("query") < "q020")
    human = human.filter(pl.col("query") < "q020")
    turned = human.with_columns(rel=3 - pl.col("rel"))
    report = judges({"llm": llm, "turned": turned}, human, runs, ["nDCG@5", "P@3", "microP@3"])
    for metric in ("nDCG@5", "P@3"):
        rows = report.systems.filter(metric=metric, judge="llm").sort("system")
        for column, labels in (("human", human), ("llm", both)):
            means = rankql.evaluate(runs, labels, metric).summary["mean"].to_list()
            assert rows[column].to_list() == pytest.approx(means)
        assert (rows["llm"] - rows["human"]).to_list() == pytest.approx(rows["bias"].to_list())
    orders = report.orders.filter(metric="nDCG@5")
    assert orders.select("judge", "best", "tau_b", "swapped", "best_stays").rows() == [
        ("llm", "c", 1, 0, True), ("turned", "c", -1, 3, False)
    ]  # fmt: skip
    kappas = report.summary.filter(measure="weighted_kappa")["value"]
    assert kappas[1] < 0 < kappas[0]
    assert {*report.systems["metric"]} == {"nDCG@5", "P@3"}
    assert report.notes.count("microP@3 has one value for all queries: not compared") == 1


def test_labels_as_dicts():
    """Of named annotators too, of whom one is the other's measure."""
    human, llm, _ = simulated()
    dicts = [{query: dict(rows["item", "rel"].rows()) for (query,), rows in x.group_by("query")}
             for x in (llm, human)]  # fmt: skip
    expected = judges(llm, human).table
    assert judges(*dicts).table.equals(expected)
    assert judges({"llm": dicts[0]}, dicts[1]).table.equals(expected)
    report = judges({"ann": llm}, {"bo": human})
    assert "people" not in " ".join(report.notes)
    assert report.table.drop("judge").equals(expected.drop("judge"))
    with pytest.raises(RankqlError, match="human must be one table of labels, not several"):
        judges(llm, {"bo": human, "cy": human})


def test_several_judges():
    """If all queries agree, the interval is that of equal values; a coefficient has none."""
    human, llm, runs = simulated()
    report = judges({"good": llm, "perfect": human.clone()}, human, runs)
    assert report.table["judge"].to_list() == ["good"] * 7 + ["perfect"] * 7
    assert "krippendorff_alpha" in repr(report) and "best_stays" in repr(report)
    parts = {"table", "grades", "confusion", "systems", "orders", "threshold"}
    assert parts <= {*report.to_dict()}
    perfect = report.summary.filter(judge="perfect").select("measure", "value", "lo", "hi").rows()
    assert perfect[0][1:] == (1, pytest.approx(0.025 ** (1 / 30)), 1)
    assert perfect[1][1:] == (1, None, None)


def test_labels_of_one_only_are_left_out_and_counted():
    human, llm, _ = simulated(9)
    report = judges(llm.head(60), human)
    assert report.table["pairs"][0] == 60
    assert any("48 items" in note for note in report.notes)
    assert any("rough" in note for note in report.notes)
    for queries, noted in ((49, True), (50, False)):
        many = judges(*simulated(queries)[1::-1])
        assert any("rough" in note for note in many.notes) == noted
    one = judges(llm.head(1), human)
    assert one.table["lo"].null_count() == 7 and "one query has none" in one.notes[-1]


def labelled(noise, queries=60, seed=4):
    """A table with a column for each annotator: grades 0 to 3 with errors of this size."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(1, 1, (queries, 10))
    columns = {
        name: np.round(truth + rng.normal(0, e, truth.shape)).clip(0, 3).astype(int).ravel()
        for name, e in noise.items()
    }
    keys = {"query": np.repeat(np.arange(queries), 10), "item": np.tile(np.arange(10), queries)}
    return pl.DataFrame({**keys, **columns})


def test_labels_may_be_text_and_have_a_row_each():
    numbers = labelled({"ann": 0.6, "bo": 0.6, "gpt": 0.6})
    who, grades = ["ann", "bo", "gpt"], {"none": 0, "low": 1, "mid": 2, "high": 3, "REFUSED": None}
    names = {"annotators": who[:2], "models": who[2:]}
    expected = judges(numbers, **names).table
    words = {grade: word for word, grade in grades.items() if grade is not None}
    text = numbers.with_columns(pl.col(who).replace_strict(words))
    assert judges(text, **names, rel=grades).table.equals(expected)
    for wide, column, rel in ((text, "label", grades), (numbers, "rel", None)):
        rows = wide.unpivot(who, index=["query", "item"], variable_name="rater", value_name=column)
        assert judges(rows, **names, rel=rel).table.equals(expected)
    refused = text[:1].with_columns(query=pl.lit(99), gpt=pl.lit("REFUSED"))
    assert judges(pl.concat([text, refused.cast(text.schema)]), **names, rel=grades).table.equals(
        expected
    )
    with pytest.raises(RankqlError, match=r"rel=\{'high': \.\.\., 'low': "):
        judges(text, **names)
    with pytest.raises(RankqlError, match=r"^llama has no labels"):
        judges(rows, annotators=["ann"], models=["llama"])


def test_tables_without_queries_have_one_for_each_item(tmp_path):
    """As crowd-kit has labels by task and worker, and cleanlab a wide table with its index."""
    rows = labelled({"ann": 0.5, "bo": 0.5}).with_columns(
        item=pl.concat_str("query", "item", separator="-")
    )
    names = {"annotators": ["ann", "bo"]}
    expected = judges(rows.with_columns(query="item"), **names).table
    wide = rows.drop("query")
    wide.rename({"item": ""}).write_csv(tmp_path / "wide.csv")
    long = wide.unpivot(["ann", "bo"], index="item", variable_name="worker", value_name="label")
    for labels in (wide, tmp_path / "wide.csv", long.rename({"item": "task"})):
        report = judges(labels, **names)
        assert report.table.equals(expected)
        assert any("No column has queries: each" in note for note in report.notes)
    more = wide.with_columns(text=pl.lit("..."))
    with pytest.raises(RankqlError, match="No query column"):
        judges(more, **names)
    assert judges(more, **names, item="item").table.equals(expected)
    assert judges(rows, **names).notes == []


def test_rows_of_annotators_with_the_label_of_a_model():
    """As argilla has responses of people and the suggestion of a model in one record."""
    wide = labelled({"ann": 0.5, "bo": 0.5, "gpt": 0.5})
    names = {"annotators": ["ann", "bo"], "models": ["gpt"]}
    index = ["query", "item", "gpt"]
    long = wide.unpivot(["ann", "bo"], index=index, variable_name="rater", value_name="rel")
    assert judges(long, **names).table.equals(judges(wide, **names).table)
    ann = long.filter(rater="ann")
    report = judges(ann, judge_rel="gpt")
    assert report.table.drop("judge").equals(
        judges(wide, annotators=["ann"], models=["gpt"]).table.drop("judge")
    )
    two = long.with_columns(pl.when(rater="bo").then(pl.col("gpt") + 1).otherwise("gpt"))
    with pytest.raises(RankqlError, match=r"^gpt has several labels for an item"):
        judges(two, **names)


def test_labels_are_read_as_judgments_are():
    """Lists, yes and no; a column that may have the grades is asked about."""
    llm = {1: {"a": 1, "b": 0}, 2: {"a": 1, "b": 0}}
    words = pl.DataFrame({"query": [1, 1, 2, 2], "item": [*"abab"], "rel": ["yes", "no"] * 2})
    lists = words.select("query", relevant=pl.struct(id="item", grade=pl.col("rel") == "yes"))
    lists = lists.group_by("query", maintain_order=True).all()
    frames = [words, lists, words.to_pandas().replace({"rel": {"yes": 1, "no": float("nan")}})]
    reports = [judges(llm, human) for human in frames]
    for each in reports:
        assert each.table.filter(measure="exact_agreement")["value"].item() == 1
    assert "human: 2 of 4 values of rel are NaN, as pandas writes missing ones" in repr(reports[2])
    with pytest.raises(RankqlError, match=r"Is anna the grade of item\?\n\nPass:\n    rel='anna'$"):
        judges(llm, words.select("query", "item", anna=pl.Series([1, 0, 2, 0])))


def test_a_model_is_held_to_a_second_person():
    """The sentence has the kappas of the table, and an interval that leaves out one query."""
    others = ("llama", "bo")
    wide = labelled({"ann": 0.6, "bo": 0.6, "gpt": 0.6, "llama": 1.5})
    report = judges(wide, annotators=["ann", "bo"], models=["gpt", "llama"])
    assert report.title.startswith("gpt agrees with ann as much as bo does: weighted kappa ")
    (worse,) = report.sentences
    assert worse.startswith("llama agrees with ann less than bo does: weighted kappa ")
    kappas = dict(report.table.filter(measure="weighted_kappa").select("judge", "value").rows())
    assert f"kappa {kappas['llama']:.2f} against {kappas['bo']:.2f}, difference" in worse

    def difference(rows):
        llama, bo = (cohen_kappa_score(rows["ann"], rows[x], weights="quadratic") for x in others)
        return llama - bo

    value = difference(wide)
    left_out = [difference(wide.filter(pl.col("query") != query)) for query in range(60)]
    width = 2.000995 * np.sqrt(59 * np.var(left_out))
    assert (
        f"difference {value:+.2f} (95% CI {value - width:.2f} to {value + width:.2f}; 600" in worse
    )


def test_few_labels_do_not_tell_and_much_better_is_said():
    wide = labelled({"ann": 0.6, "bo": 0.6, "gpt": 0.8, "best": 0.0}, queries=12, seed=8)
    report = judges(wide, annotators=["ann", "bo"], models=["gpt", "best"])
    assert report.title.startswith("Too few queries to tell whether gpt agrees with ann as much as")
    many = labelled({"ann": 0.9, "bo": 0.9, "best": 0.0}, queries=200)
    better = judges(many, annotators=["ann", "bo"], models=["best"]).title
    assert better.startswith("best agrees with ann more than bo does")


def test_as_much_needs_20_queries_of_which_none_has_most_pairs():
    """Fewer may not show a query in which the model fails."""
    wide = labelled({"ann": 0.2, "bo": 0.2, "gpt": 0.2}, queries=60)
    most = wide.filter(pl.col("query") == 0)
    more = [most.with_columns(item=pl.col("item") + 10 * i) for i in range(1, 30)]
    for rows, told in (
        (wide.filter(pl.col("query") < 20), True),
        (wide.filter(pl.col("query") < 19), False),
        (pl.concat([wide, *more[:28]]), True),  # 29 of 88 times as many pairs
        (pl.concat([wide, *more]), False),
    ):
        title = judges(rows, annotators=["ann", "bo"], models=["gpt"]).title
        words = "gpt agrees with ann as much as bo does: weighted kappa"
        start = words if told else f"Too few queries to tell whether {words}"
        assert title.startswith(start), title


def test_annotators_alone_and_their_consensus():
    """Only items with all labels count; one annotator has no second one to be compared with."""
    wide = labelled({"ann": 0.6, "bo": 0.6, "cy": 0.6, "gpt": 0.6})
    gaps = wide.with_columns(bo=pl.when(pl.int_range(pl.len()) % 6 > 0).then("bo"))
    report = judges(gaps, annotators=["ann", "bo", "cy"], models=["gpt"])
    assert report.table["pairs"].unique().to_list() == [500]
    assert report.notes == ["100 of 600 items lack a label: left out"]
    assert len([report.title, *report.sentences]) == 2
    alone = judges(wide, annotators=["ann"], models=["gpt"])
    pair = [wide.select("query", "item", rel=name) for name in ("gpt", "ann")]
    assert alone.title.startswith("gpt agrees with ann on ") and alone.table.drop("judge").equals(
        judges(*pair).table.drop("judge")
    )
    middle = wide.select("query", "item", rel=pl.concat_list("ann", "bo", "cy").list.median())
    for how, human in (
        ("median", middle),
        ("mean", wide.select("query", "item", rel=pl.mean_horizontal("ann", "bo", "cy"))),
    ):
        result = judges(wide, annotators=["ann", "bo", "cy"], models=["gpt"], consensus=how)
        assert result.table.drop("judge").equals(judges(pair[0], human).table.drop("judge"))


LABELS = labelled({"ann": 0.6, "gpt": 0.6}, queries=12)
test_wrong_annotators = refuses("annotators", globals(), "judges(LABELS, %s)")


def test_annotators_on_the_command_line(tmp_path, monkeypatch):
    """With runs, whose columns have the names of the table."""
    monkeypatch.chdir(tmp_path)
    wide = labelled({"ann": 0.6, "bo": 0.6, "gpt": 0.6}).rename({"query": "topic"})
    wide.write_csv("labels.csv")
    wide.select("topic", "item", score="bo").write_csv("run.csv")
    command = "judges labels.csv --annotators ann,bo --models gpt --query topic --run run.csv"
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("gpt agrees with ann as much as bo does")
    assert "nDCG@10" in done.stdout
    done = CliRunner().invoke(main, ["judges", "labels.csv"])
    assert done.exit_code == 2 and "or --annotators and --models" in done.stderr


@pytest.mark.parametrize("constant", [["ann"], ["ann", "bo", "gpt"]])
def test_constant_labels_have_no_kappa_and_an_answer(constant):
    rows = [(f"q{q}", f"d{i}", q * i % 3, (q + i) % 3, i % 2) for q in range(50) for i in range(6)]
    frame = pl.DataFrame(rows, ["query", "item", "ann", "bo", "gpt"], orient="row")
    frame = frame.with_columns(pl.lit(1).alias(name) for name in constant)
    result = judges(frame, annotators=["ann", "bo"], models=["gpt"])
    assert result.title.startswith("Cannot tell whether gpt agrees with ann as much as bo does")
    kappas = result.table.filter(pl.col("measure").str.contains("kappa"))
    assert kappas["lo"].null_count() == kappas["hi"].null_count() == 4


def both_labels():
    """40 prompts with 5 passages; the model is off by a grade in some of them."""
    rng = np.random.default_rng(11)
    rows = [
        (f"p{q}", f"d{d}", human, min(2, max(0, human + int(rng.integers(-1, 2)))))
        for q in range(40)
        for d in range(5)
        for human in [int(rng.integers(0, 3))]
    ]
    names = ["prompt_id", "passage_id", "human", "llm"]
    return pl.DataFrame(rows, schema=names, orient="row")


def agreement(report):
    return report.table.filter(measure="exact_agreement")["value"].item()


def test_two_columns_of_one_table(tmp_path):
    table = both_labels()
    expected = (table["human"] == table["llm"]).mean()
    key = {"query": "prompt_id"}
    named = {**key, "rel": "human", "judge_rel": "llm"}
    assert agreement(judges(table, table, **named)) == expected
    assert agreement(judges(table, **named)) == expected
    assert agreement(judges(table, annotators=["human", "llm"], **key)) == expected
    table.write_csv(tmp_path / "labels.csv")
    path = str(tmp_path / "labels.csv")
    right = "the same table. Which .* of the model?\n\nPass:\n    rel='human', judge_rel='llm'"
    for tables in ((table, table), (table,), (path, tmp_path / "labels.csv")):
        for options in (key, {**key, "rel": "human"}):
            if len(tables) == 1 and "rel" in options:
                continue
            with pytest.raises(RankqlError, match=right.replace("?", r"\?")):
                judges(*tables, **options)
    with pytest.raises(RankqlError, match="judge_rel='llm' is the column of people too"):
        judges(table, table, **key, rel="llm", judge_rel="llm")
    command = ["judges", path, "--query", "prompt_id", "--format", "csv"]
    printed = CliRunner().invoke(main, [*command, "--rel", "human", "--judge-rel", "llm"])
    assert f"llm,exact_agreement,{expected}" in printed.stdout
    printed = CliRunner().invoke(main, command)
    assert "    --rel human --judge-rel llm\n" in printed.stderr


def test_a_question_about_labels_offers_no_constant(tmp_path):
    """That each label is 1 says nothing on agreement, and labels have no score."""
    table = both_labels().rename({"prompt_id": "frage_id", "passage_id": "stelle"})
    paths = [str(tmp_path / name) for name in ("llm.csv", "human.csv")]
    for column, path in zip(("llm", "human"), paths, strict=True):
        table.select("frage_id", "stelle", note=column).write_csv(path)
    with pytest.raises(Question) as asked:
        judges(*paths)
    names = {"query": "frage_id", "item": "stelle", "rel": "note"}
    assert asked.value.calls == [names, {**names, "query": "stelle", "item": "frage_id"}]
    assert asked.value.blanks == dict.fromkeys(names, "...")
    assert "each value" not in str(asked.value)
    assert agreement(judges(*paths, **names)) == (table["human"] == table["llm"]).mean()


def test_a_judge_is_called_like_the_column_of_its_labels():
    table, key = both_labels().rename({"llm": "gpt4o"}), {"query": "prompt_id"}
    people, judge = table.drop("gpt4o"), table.drop("human")
    named = {**key, "rel": "human", "judge_rel": "gpt4o"}
    words = table.with_columns(pl.col("gpt4o").replace_strict({0: "no", 1: "part", 2: "yes"}))
    named_words = {**named, "judge_rel": ("gpt4o", {"no": 0, "part": 1, "yes": 2})}
    for report in (judges(table, **named), judges(judge, people, **key),
                   judges(words, **named_words)):  # fmt: skip
        assert report.table["judge"].unique().to_list() == ["gpt4o"]
    runs = {x: people.select("prompt_id", "passage_id", score=y) for x, y in
            (("old", pl.int_range(pl.len())), ("new", "human"))}  # fmt: skip
    report = judges(table, None, runs, "P@1", **named)
    assert report.title.startswith("May gpt4o replace people to compare old and new on P@1?")
    same = judges(judge.rename({"gpt4o": "rel"}), people.rename({"human": "rel"}), **key)
    assert same.table["judge"].unique().to_list() == ["llm"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("human", "llm"),
    [
        ("human_label", "llm_label"),
        ("expertGrade", "GPT"),
        ("annotator1", "gpt4o"),
        ("manual", "model_grade"),
        ("a", "b"),
    ],
)
def test_two_tables_with_names_of_their_own(human, llm):
    table = both_labels()
    expected = (table["human"] == table["llm"]).mean()
    judge = table.rename({"llm": llm}).drop("human")
    people = table.rename({"human": human}).drop("llm")
    key = {"query": "prompt_id"}
    assert agreement(judges(judge, people, **key, rel=human, judge_rel=llm)) == expected
    if human != "a":
        assert agreement(judges(judge, people, **key)) == expected
        assert agreement(judges(judge, people, **key, rel=human)) == expected
    else:
        with pytest.raises(
            RankqlError, match="judge_rel='a': no column of that name in judge 'llm'"
        ):
            judges(judge, people, **key, rel=human)


def test_a_word_of_two_columns_asks_and_names_of_people_are_no_labels():
    table = both_labels().rename({"llm": "gpt_label", "human": "human_label"})
    judge = table.with_columns(llm=1 - pl.col("gpt_label")).drop("human_label")
    people = table.drop("gpt_label").with_columns(annotator=pl.lit("ann"))
    wrong = "gpt_label and llm may be the labels.\n\nPass one of:\n    judge_rel='gpt_label'\n"
    with pytest.raises(RankqlError, match=wrong):
        judges(judge, people, query="prompt_id")
    judge = judge.drop("llm")
    expected = (table["human_label"] == table["gpt_label"]).mean()
    assert agreement(judges(judge, people, query="prompt_id")) == expected


def test_random_pairs_are_refused_with_a_remedy():
    table = both_labels()
    people = table.select("prompt_id", "passage_id", rel="human").sample(60, seed=1)
    judge = table.select("prompt_id", "passage_id", rel="llm")
    run = table.select("prompt_id", "passage_id", score="llm")
    with pytest.raises(RankqlError, match=r"labels\. Draw whole queries, or see Random pairs"):
        judges(judge, people, run, "P@1", query="prompt_id")
