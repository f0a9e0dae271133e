"""Systems x collections: each collection is what it is alone, and the means over all are named."""

import random
import re
from functools import cache

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from rankql.features.collections import find_collections
from support.parameters import few

SIZES = {"scifact": 40, "covid": 25, "fiqa": 60}
SYSTEMS = ["bm25", "dense", "fusion"]
METRICS = ["nDCG@10", "AP"]
RNG = random.Random(5)
QRELS = {
    name: {f"q{i}": {f"d{j}": RNG.choice([0, 0, 1, 2]) for j in range(9)} for i in range(size)}
    for name, size in SIZES.items()
}
RUNS = {
    system: {
        name: {q: {d: RNG.random() + shift * g for d, g in x.items()} for q, x in judged.items()}
        for name, judged in QRELS.items()
    }
    for system, shift in zip(SYSTEMS, (0.1, 0.3, 0.5), strict=True)
}


def as_frame(data, number):
    rows = [(q, d, x) for q, items in data.items() for d, x in items.items()]
    return pl.DataFrame(rows, ["query", "item", number], orient="row")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files as they lie in a folder: runs/SYSTEM.COLLECTION.run and qrels/COLLECTION.qrels."""
    folder = tmp_path_factory.mktemp("collections")
    for each in ("runs", "qrels"):
        (folder / each).mkdir()
    for name, judged in QRELS.items():
        lines = [f"{q} 0 {d} {g}" for q, items in judged.items() for d, g in items.items()]
        (folder / "qrels" / f"{name}.qrels").write_text("\n".join(lines))
        for system in SYSTEMS:
            run = RUNS[system][name]
            lines = [f"{q} Q0 {d} 1 {x!r} t" for q, items in run.items() for d, x in items.items()]
            (folder / "runs" / f"{system}.{name}.run").write_text("\n".join(lines))
    return folder


def forms(folder):
    paths = {s: {c: folder / "runs" / f"{s}.{c}.run" for c in SIZES} for s in SYSTEMS}
    judged = {c: str(folder / "qrels" / f"{c}.qrels") for c in SIZES}
    frames = {s: {c: as_frame(x, "score") for c, x in of.items()} for s, of in RUNS.items()}
    graded = {c: as_frame(x, "rel") for c, x in QRELS.items()}
    return {
        "dicts": (RUNS, QRELS),
        "files": (paths, judged),
        "frames": (frames, graded),
        "lists of files": ({s: [*x.values()] for s, x in paths.items()}, [*judged.values()]),
        "lists of frames": ({s: [*x.values()] for s, x in frames.items()}, [*graded.values()]),
        "lists of dicts": ({s: [*x.values()] for s, x in RUNS.items()}, [*QRELS.values()]),
        "lists of items": (
            {s: {c: {q: sorted(y, key=y.get, reverse=True) for q, y in x.items()}
                 for c, x in of.items()} for s, of in RUNS.items()}, QRELS,
        ),
    }  # fmt: skip


@cache
def compared(correction="holm"):
    return rankql.compare(RUNS, QRELS, METRICS, correction=correction)


@cache
def alone(name):
    """The pairs and the means of one collection without the others."""
    data = {system: runs[name] for system, runs in RUNS.items()}, QRELS[name], METRICS
    return rankql.compare(*data, correction="none").pairs, rankql.evaluate(*data).summary


def mean_alone(name, system, metric):
    return alone(name)[1].filter(system=system, metric=metric)["mean"].item()


FORMS = ["dicts", "files", "frames", "lists of files", "lists of frames", "lists of dicts",
         "lists of items"]  # fmt: skip


@few(1)("form", FORMS)
def test_each_collection_equals_itself_alone(folder, form):
    runs, qrels = forms(folder)[form]
    data = (runs, qrels, METRICS)
    comparison = compared("none") if form == "dicts" else rankql.compare(*data, correction="none")
    result = rankql.evaluate(*data)
    unnamed = form in ("lists of frames", "lists of dicts")
    for i, name in enumerate(SIZES, 1):
        label = f"collection=collection {i}" if unnamed else f"collection={name}"
        other, means = alone(name)
        keys = ["metric", "a", "b"]
        numbers = ["mean_a", "mean_b", "difference", "lo", "hi", "p", "n"]
        for column in numbers:
            pairs = (x.sort(keys)[column] for x in (comparison.pairs.filter(slice=label), other))
            one, two = (x.to_list() for x in pairs)
            assert one == pytest.approx(two, abs=1e-12), (name, column)
        own = result.summary.filter(slice=label)
        for frame in (own, means):
            assert frame.height == 6
        columns = ["system", "metric", "queries", "mean"]
        tables = (x.select(columns).sort(columns) for x in (own, means))
        assert_frame_equal(*tables, check_exact=False)


def test_both_means_over_collections_are_named():
    result = rankql.evaluate(RUNS, QRELS, METRICS)
    table = result.wide().table
    heads = [f"{c} {m}" for c in [*SIZES, "mean of collections", "all queries"] for m in METRICS]
    assert table.columns == ["system", *heads] and result.table.equals(table)
    assert table["system"].to_list() == SYSTEMS
    for row in table.to_dicts():
        for metric in METRICS:
            values = {x: mean_alone(x, row["system"], metric) for x in SIZES}
            assert row[f"mean of collections {metric}"] == pytest.approx(sum(values.values()) / 3)
            total = sum(values[c] * n for c, n in SIZES.items()) / sum(SIZES.values())
            assert row[f"all queries {metric}"] == pytest.approx(total)
    turned = result.wide(rows="system", columns=["metric", "collection"]).table
    assert turned.columns[1:3] == ["nDCG@10 scifact", "nDCG@10 covid"]


def test_the_mean_of_collections_is_tested_over_queries_within_them():
    """As the mean of slices of one table, and not as three numbers."""

    def stack(data, number):
        frames = (as_frame(x, number).with_columns(collection=pl.lit(c)) for c, x in data.items())
        return pl.concat(frames)

    runs = {system: stack(of, "score") for system, of in RUNS.items()}
    options = {"query": ["collection", "query"], "by": "collection", "mean": "slices"}
    one = rankql.compare(runs, stack(QRELS, "rel"), METRICS, **options)
    several = compared()
    keys = ["metric", "slice", "a", "b"]
    for column in ("mean_a", "difference", "lo", "hi", "p_adjusted", "n"):
        a, b = (x.pairs.sort(keys)[column].to_list() for x in (one, several))
        assert a == pytest.approx(b, abs=1e-12), column
    row = several.pairs.filter(slice="mean of slices", metric="AP", a="bm25", b="fusion")
    assert row["n"].item() == sum(SIZES.values()) and row["p"].item() < 1e-6


def test_a_system_without_a_collection(folder):
    runs = RUNS | {"dense": {x: y for x, y in RUNS["dense"].items() if x != "covid"}}
    comparison = rankql.compare(runs, QRELS, METRICS, correction="none")
    full = compared("none")
    note = "dense has no run of covid: its means there and over all collections are empty"
    evaluated = rankql.evaluate(runs, QRELS, METRICS)
    places = ["covid", "mean of collections", "all queries"]
    for result in (comparison, evaluated):
        assert note in repr(result)
        (row,) = result.wide().table.filter(system="dense").to_dicts()
        for metric in METRICS:
            assert all(row[f"{x} {metric}"] is None for x in places)
            assert row[f"fiqa {metric}"] == pytest.approx(
                full.wide().table.filter(system="dense")[f"fiqa {metric}"].item()
            )
    # Everything else is what it is with this run.
    lacking = {("dense", x) for x in ("collection=covid", "all", "mean of slices")}
    numbers = ["metric", "slice", "a", "b", "mean_a", "mean_b", "difference", "lo", "hi", "p", "n"]
    kept = [
        row for row in full.pairs.select(numbers).rows()
        if not {(row[2], row[1]), (row[3], row[1])} & lacking
    ]  # fmt: skip
    assert len(kept) == comparison.pairs.height
    for one, two in zip(comparison.pairs.select(numbers).rows(), kept, strict=True):
        assert one[:4] == two[:4] and one[4:] == pytest.approx(two[4:], abs=1e-12)
    pair = rankql.compare({x: runs[x] for x in ("bm25", "dense")}, QRELS, "AP")
    assert pair.title == "Undecided: bm25 and dense do not both have runs of all collections"
    assert pair.pairs["slice"].to_list() == ["collection=fiqa", "collection=scifact"]


def test_latex_has_a_head_over_each_collection():
    latex = compared().to_latex(caption="Means of \\textsc{all}", label="tab:own")
    assert (
        "\\multicolumn{2}{c}{} & \\multicolumn{2}{c}{scifact} & \\multicolumn{2}{c}{covid} & "
        "\\multicolumn{2}{c}{fiqa} & \\multicolumn{2}{c}{mean of collections} & "
        "\\multicolumn{2}{c}{all queries} \\\\\n\\cmidrule(lr){3-4} \\cmidrule(lr){5-6}"
    ) in latex
    assert f" & system{' & nDCG@10 & AP' * 5} \\\\" in latex
    caption = re.search(r"\\caption\{(.*)\}\n", latex)[1]
    assert caption.startswith("Means of \\textsc{all}. Paired t test widened for skewness, Holm")
    assert caption.endswith(
        "letters: systems that are significantly worse (adjusted p at most 0.05)."
    )
    assert "\\label{tab:own}" in latex


def run_cli(folder, *arguments, code=0):
    command = [str(folder / x) if "{" in x or "=" in x else x for x in arguments]
    command = [x.replace(f"{folder}/one=", f"one={folder}/") for x in command]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("command", ["eval", pytest.param("compare", marks=pytest.mark.report)])
def test_globs_of_the_command_line(folder, command, tmp_path):
    patterns = ("runs/{system}.{collection}.run", "qrels/{collection}.qrels")
    done = run_cli(folder, command, *patterns, "-m", "AP", "--format", "json", "-o",
                   str(tmp_path / "out.html"))  # fmt: skip
    assert '"collection=fiqa"' in done.stdout
    page = (tmp_path / "out.html").read_text("utf-8")
    assert "mean of collections" in page and "covid" in page
    one = run_cli(folder, "eval", "one=runs/bm25.{collection}.run", patterns[1], "-m", "AP")
    expected = rankql.evaluate({"one": RUNS["bm25"]}, QRELS, "AP").summary
    assert f"{expected.filter(slice='collection=fiqa')['mean'].item():.4f}" in one.stdout


def test_patterns_without_a_name_are_refused(folder):
    wrong = run_cli(
        folder, "eval", "runs/bm25.{collection}.run", "qrels/{collection}.qrels", code=2
    )
    assert "needs {system} and {collection}, or NAME= before it" in wrong.stderr
    of_one = run_cli(folder, "eval", "runs/{system}.covid.run", str(folder / "qrels/covid.qrels"))
    assert of_one.stdout.startswith("system")


# What is not of several collections


@few(4)(
    ("runs", "qrels"),
    [
        ({"q1": {"d1": 1.0}}, {"q1": {"d1": 1}}),
        ({"q1": ["d1", "d2"]}, {"q1": {"d1": 1}}),
        ({"s": {"q1": {"d1": 1.0}}}, {"q1": {"d1": 1}}),
        ({"s": {"q1": {"d1": {"score": 1.0}}}}, {"q1": {"d1": {"rel": 1}}}),
        ({"s": [{"query": "q1", "item": "d1", "score": 1.0}]},
         [{"query": "q1", "item": "d1", "rel": 1}]),
        ({"s": {"q1": ["d1"]}}, {"q1": {"relevant": ["d1"]}}),
        ({"s": {"q1": "d1"}}, {"q1": "d1"}),
        ({"s": {"q1": "doc.txt"}}, {"q1": "doc.txt"}),
        ({"a": {"x": {"q": {"d": 1.0}}}, "b": {"y": {"q": {"d": 1.0}}}}, {"x": {"q": {"d": 1}}}),
        ({"a": [{"q": {"d": 1.0}}]}, [{"q": {"d": 1}}, {"q": {"d": 1}}]),
    ],
)  # fmt: skip
def test_what_is_of_one_collection_stays_so(runs, qrels):
    assert find_collections(runs, qrels) is None


def test_parts_stay_parts():
    runs = {"s": {"per_question": {"q1": {"d1": 1.0, "d2": 0.5}}, "mean": {"q": {"d": 1.0}}}}
    judged = {"per_question": {"q1": {"d1": 0, "d2": 1}}, "mean": {"q": {"d": 1}}}
    part = rankql.evaluate(runs, judged, "RR", part=["per_question"] * 2)
    assert part.summary["mean"].to_list() == [0.5]


def test_errors_name_the_collection():
    broken = {s: x | {"covid": {"q0": {"d0": float("nan")}}} for s, x in RUNS.items()}
    with pytest.raises(RankqlError, match=r"^Collection 'covid': "):
        rankql.evaluate(broken, QRELS, "AP")
    with pytest.raises(RankqlError, match="by= does not support several collections"):
        rankql.compare(RUNS, QRELS, "AP", by="x")
    with pytest.raises(RankqlError, match="collection 'new', but no system has a run of it"):
        rankql.evaluate(RUNS, QRELS | {"new": QRELS["covid"]}, "AP")


def test_collections_of_one_system_need_its_name():
    """Judgments of one collection for the runs of all would be wrong numbers."""
    frames = {c: as_frame(x, "score") for c, x in RUNS["bm25"].items()}
    graded = {c: as_frame(x, "rel") for c, x in QRELS.items()}
    asked = "and 'fiqa' of run and qrels: are they collections. Pass {'system': run}"
    for run, qrels in [(RUNS["bm25"], QRELS), (frames, graded)]:
        for function in (rankql.evaluate, rankql.compare):
            with pytest.raises(RankqlError, match=asked):
                function(run, qrels, "AP")
    with pytest.raises(RankqlError, match=r"'collection 3' of run and qrels: are they coll"):
        rankql.evaluate([*frames.values()], [*graded.values()], "AP")
    one = rankql.evaluate({"system": RUNS["bm25"]}, QRELS, "AP", by="collection")
    assert one.summary["mean"].equals(
        rankql.evaluate({"bm25": frames}, graded, "AP").summary["mean"]
    )


def test_functions_of_one_collection_say_so():
    frames = {s: {c: as_frame(x, "score") for c, x in of.items()} for s, of in RUNS.items()}
    judged = {c: as_frame(x, "rel") for c, x in QRELS.items()}
    asked = "and 'fiqa' of run and qrels are collections. {} reads one: pass its run and its qrels$"
    data = [(RUNS, QRELS), (RUNS["bm25"], QRELS), (frames, judged), (frames["bm25"], judged)]
    for function in (rankql.explain, rankql.check):
        for run, qrels in data:
            with pytest.raises(RankqlError, match=asked.format(function.__name__)):
                function(run, qrels)
        function(RUNS["bm25"]["fiqa"], QRELS["fiqa"])
    part = {"per_question": {"q1": {"d1": 1.0, "d2": 0.5}}, "mean": {"q": {"d": 1.0}}}
    assert rankql.check(part, part, part=["per_question"] * 2)


def test_a_gate_on_collections():
    by = {x: rankql.evaluate({x: RUNS[x]}, QRELS, "AP") for x in ("dense", "bm25")}
    limits = {"minimum": "AP>=0.1, mean of slices: AP>=0.1", "max_drop": "AP:0.5"}
    separate = rankql.gate(by["dense"], baseline=by["bm25"], by="collection", **limits)
    runs = ({x: RUNS[x]} for x in by)
    whole = rankql.gate(next(runs), QRELS, next(runs), by="collection", **limits)
    assert whole.table.equals(separate.table) and len(separate.table) == 9
    for name in QRELS:
        row = separate.table.filter(slice=f"collection={name}", check="AP drop <= 0.5")
        values = [mean_alone(name, x, "AP") for x in by]
        assert row.select("mean", "baseline").row(0) == pytest.approx(values, abs=1e-12)
    short = rankql.evaluate({"fusion": RUNS["fusion"]}, QRELS, "AP", interval=None)
    assert rankql.gate(short, minimum="AP>=0.1").passed
