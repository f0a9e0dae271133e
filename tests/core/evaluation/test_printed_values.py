"""Values that tools have printed, as input of read_values, compare, gate and the command line."""

import gzip
import json
import random

import polars as pl
import pytest
import pytrec_eval
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few, slow

QRELS = {f"q{i}": {"a": 1, "b": 0} for i in range(30)}
RANDOM = random.Random(1)
RUNS = {
    name: {q: {"a": 2.0 if RANDOM.random() < share else 0.5, "b": 1.0} for q in QRELS}
    for name, share in (("old", 0.4), ("new", 0.8))
}
NAMES = ["map", "recip_rank", "num_ret"]
VALUES = {n: pytrec_eval.RelevanceEvaluator(QRELS, {*NAMES}).evaluate(r) for n, r in RUNS.items()}
EXPECTED = rankql.compare(RUNS, QRELS, "AP").pairs
LONG = pl.DataFrame(
    [(n, q, m, x) for n, of in VALUES.items() for q, each in of.items() for m, x in each.items()],
    schema=["name", "qid", "measure", "value"],
    orient="row",
)


def total(values, metric):
    numbers = [each[metric] for each in values.values()]
    return sum(numbers) / (1 if metric == "num_ret" else len(numbers))


def trec_eval(values, wrong=0.0):
    """As `trec_eval -q` prints them."""
    lines = [f"{m:22}\t{q}\t{x:.4f}" for q, each in values.items() for m, x in each.items()]
    lines += ["runid                 \tall\tmine", "num_q                 \tall\t30"]
    return "\n".join([*lines, *(f"{m:22}\tall\t{total(values, m) + wrong:.4f}" for m in NAMES)])


def ir_measures(values, wrong=0.0):
    """As `ir_measures -q` prints them."""
    lines = [f"{q}\t{m}\t{x:.4f}" for q, each in values.items() for m, x in each.items()]
    return "\n".join([*lines, *(f"all\t{m}\t{total(values, m) + wrong:.4f}" for m in NAMES)])


@pytest.fixture(
    params=[
        (trec_eval, ""),
        *map(slow, ((ir_measures, ".gz"), (ir_measures, ""), (trec_eval, ".gz"))),
    ]
)  # fmt: skip
def paths(request, tmp_path):
    form, zipped = request.param
    for name, values in VALUES.items():
        text = form(values).encode()
        path = tmp_path / f"{name}.txt{zipped}"
        path.write_bytes(gzip.compress(text) if zipped else text)
    return {name: str(tmp_path / f"{name}.txt{zipped}") for name in VALUES}


def by_metric(values):
    return {metric: {q: each[metric] for q, each in values.items()} for metric in NAMES}


def test_files_are_read_alike_everywhere(paths):
    for systems in (paths, {name: rankql.read_values(path) for name, path in paths.items()}):
        comparison = rankql.compare(systems, metrics="map")
        assert comparison.pairs["n"].to_list() == [30]
        assert comparison.pairs["p"].item() == pytest.approx(EXPECTED["p"].item(), rel=1e-6)
        assert "'all' has the means and is left out" in comparison.notes
    if paths["new"].endswith(".gz"):
        return
    gate = rankql.gate(paths["new"], baseline=paths["old"], max_drop="map:0.1")
    assert gate.passed
    arguments = ["compare", *(f"{name}={path}" for name, path in paths.items()), "--format", "csv"]
    result = CliRunner().invoke(main, [*arguments, "-m", "map"])
    assert result.exit_code == 0 and ",30," in result.stdout
    arguments = ["gate", paths["new"], "--baseline", paths["old"], "--max-drop", "map:0.1"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    arguments = ["gate", paths["new"], "--min", "AP>=0.1"]  # map by its name in rankql
    assert CliRunner().invoke(main, arguments).exit_code == 0


@few(1)("pandas", [False, True])
def test_frames_and_dicts(pandas, tmp_path):
    one = LONG.filter(name="new").drop("name")
    frames = [LONG, one, one.rename({"measure": "metric"}), one.rename({"measure": "name"})]
    frames[0] = frames[0].rename({"name": "system"})
    for i, frame in enumerate([LONG, *frames]):
        result = rankql.read_values(frame.to_pandas() if pandas else frame)
        assert result.meta.system == (i < 2) and {*result.metrics} == {*NAMES}
        means = (
            dict(result.summary.filter(metric="map").select("system", "mean").rows())
            if i < 2
            else {"new": result["map"]}
        )
        assert means["new"] == pytest.approx(total(VALUES["new"], "map"))
    own = LONG.rename({"qid": "user_key", "name": "model"})
    named = rankql.read_values(own, query="user_key", system="model", metrics="map")
    assert named.meta.system and named.metrics == ["map"]
    path = tmp_path / "perquery.csv"
    LONG.write_csv(path)
    for data in (LONG.to_pandas() if pandas else LONG, path, str(path)):
        pairs = rankql.compare(data, metrics="map").pairs
        assert pairs["p"].item() == pytest.approx(EXPECTED["p"].item())


def test_dicts_are_read_by_the_names_of_metrics(tmp_path):
    forms = [VALUES, {name: by_metric(values) for name, values in VALUES.items()}]
    for i, systems in enumerate(forms):
        pairs = rankql.compare(systems, metrics="map").pairs
        assert pairs["p"].item() == pytest.approx(EXPECTED["p"].item())
        path = tmp_path / f"values{i}.json"
        path.write_text(json.dumps(systems["new"]))
        assert rankql.read_values(path)["map"] == pytest.approx(total(VALUES["new"], "map"))
    for unclear in ({"q1": {"map": 0.5, "mine": 1.0}}, {"map": {"AP": 0.5}}):
        with pytest.raises(rankql.RankqlError, match="Which keys are metrics"):
            rankql.read_values(unclear)


def test_the_calls_of_an_unclear_dict_work():
    data = {"q1": {"map": 0.5, "mine": 1.0}, "q2": {"map": 0.25, "mine": 2.0}}
    with pytest.raises(rankql.RankqlError) as error:
        rankql.read_values(data)
    code = str(error.value).partition("pass read_values(")[2].partition("); if the outer")[0]
    result = rankql.read_values(eval(code, {"pl": pl, "data": data}))
    assert result["map"] == 0.375 and result["mine"] == 1.5


@pytest.mark.parametrize("form", [trec_eval, ir_measures])
def test_a_query_called_all_that_is_not_the_mean_is_asked_about(form, tmp_path):
    path = tmp_path / "new.txt"
    path.write_text(form(VALUES["new"], wrong=0.01))
    with pytest.raises(rankql.RankqlError, match=r"'all' has \w+ = .* not the mean of the others"):
        rankql.read_values(path)
    twice = form(VALUES["new"]) + "\n" + form(VALUES["new"])
    path.write_text(twice)
    with pytest.raises(rankql.RankqlError, match="has several values of"):
        rankql.read_values(path)


def test_what_missing_queries_count():
    few = dict([*VALUES["new"].items()][:12])
    systems = {"old": VALUES["old"], "new": few}
    for missing, n in ((None, 30), ("zero", 30), ("skip", 12)):
        assert rankql.compare(systems, metrics="map", missing=missing).pairs["n"].item() == n
    gate = rankql.gate(few, baseline=VALUES["old"], max_drop="map:0.1", missing="skip")
    assert gate.table["n"].to_list() == [12]
    with pytest.raises(rankql.RankqlError, match="missing must be 'zero' or 'skip'"):
        rankql.compare(systems, metrics="map", missing="error")


def test_runs_are_not_values(tmp_path):
    """Lines of three columns are values only if one of the first two is a metric."""
    path = tmp_path / "run.tsv"
    path.write_text("q1\ta\t1\nq1\tb\t2\n")
    judged = {"q1": {"b": 1}}
    assert rankql.evaluate(path, judged, "RR")["RR"] == 0.5
    assert rankql.compare({"a": path, "b": path}, judged, "RR").pairs["mean_a"].item() == 0.5
    assert rankql.compare(RUNS, QRELS, "AP").pairs["n"].item() == 30


@few(2)("name", ["board", "board.tsv", "board.txt"])
@pytest.mark.parametrize("topics", [("dl19", "dl20"), ("300", "301")])
def test_boards_have_the_run_first(name, topics, tmp_path):
    rows = [
        (run, topic, "ndcg", value)
        for run, values in (("bm25", (0.5, 0.4)), ("splade", (0.6, 0.75)))
        for topic, value in zip(topics, values, strict=True)
    ]
    path, mark = tmp_path / name, "\t" if name.endswith("tsv") else " "
    path.write_text("".join(mark.join(map(str, row)) + "\n" for row in rows))
    frame = pl.DataFrame(rows, schema=["run_id", "topic", "measure", "value"], orient="row")
    for data in (path, frame, frame.rename({"run_id": "run"})):
        summary = rankql.read_values(data).summary
        assert summary.select("system", "mean").rows() == [("bm25", 0.45), ("splade", 0.675)]
        assert summary["metric"].unique().to_list() == ["ndcg"]


def test_judgments_and_tables_with_a_header_are_no_boards(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("q1 0 map 1\nq1 0 b 0\n")
    assert rankql.evaluate({"q1": {"map": 1.0, "b": 2.5}}, path, "RR")["RR"] == 0.5
    path = tmp_path / "values.tsv"
    path.write_text("query\tndcg\tmap\nq1\t0.5\t0.25\n")
    assert rankql.read_values(path).metrics == ["ndcg", "map"]


def test_a_row_of_means_in_a_table_of_values_is_left_out(tmp_path):
    table = pl.DataFrame({"query": ["q1", "q2", "q3", "all"], "map": [0.25, 0.5, 0.25, 0.3333]})
    path = tmp_path / "values.csv"
    table.write_csv(path)
    for data in (table, path):
        result = rankql.read_values(data)
        assert result.per_query["query"].to_list() == ["q1", "q2", "q3"]
        assert result.notes == ["'all' has the means and is left out"]
    other = table.with_columns(map=pl.Series([0.25, 0.5, 0.25, 0.45]))
    with pytest.raises(rankql.RankqlError, match="not the mean of the others"):
        rankql.read_values(other)
    assert rankql.read_values(table[3:]).per_query["map"].to_list() == [0.3333]  # a query
