"""A closer look is taken where its fault may be, and ordinary data need none."""

import random
from contextlib import contextmanager
from operator import attrgetter

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.evaluation.checks.causes import Causes
from rankql.core.evaluation.evaluate import evaluate, open_evaluation
from rankql.core.evaluation.reduce import fetch
from rankql.core.evaluation.reduce.fetch import MOST_ROWS
from rankql.core.tables import private
from rankql.core.tables.request import RankingRules, Request
from support.parameters import few

LOOKS = ("tied", "first.finds_itself", "reversed", "spelled")


def ranked(seed, queries=60, items=20, form="doc{}", skill=0.7):
    """A run and judgments: relevant items rank better by the skill, and not all are retrieved."""
    rnd = random.Random(seed)
    run, qrels = [], []
    for q in range(queries):
        ids = rnd.sample(range(1, 10_000), 2 * items)
        relevant = {x for x in ids if rnd.random() < 0.15}
        shown = [x for x in ids[:items] if x not in relevant or rnd.random() < 0.8]
        run += [(f"q{q}", form.format(x), rnd.random() + skill * (x in relevant)) for x in shown]
        qrels += [(f"q{q}", form.format(x), 1) for x in relevant]
    frame = pl.DataFrame(run, ["query", "item", "score"], orient="row")
    return frame, pl.DataFrame(qrels, ["query", "item", "rel"], orient="row")


def looks(run, qrels, metrics=("nDCG@5",), **options):
    """The looks that have a cause."""
    rules = RankingRules.of(options, evaluate)
    with open_evaluation(Request(run, qrels, [*metrics], rules)) as evaluation:
        causes = Causes(fetch.reduce_tables(evaluation))
        return {name for name in LOOKS if attrgetter(name)(causes)}


def in_files(tmp_path, run, qrels):
    """The same as files that are too large to be kept in memory."""
    more = pl.concat(
        [run] + [run.with_columns(query=f"{i} " + pl.col("query")) for i in range(100)]
    )
    for name, frame in (("run", more), ("qrels", qrels)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    assert more.height > MOST_ROWS
    return str(tmp_path / "run.parquet"), str(tmp_path / "qrels.parquet")


@few(2)("metrics", [("nDCG@5",), ("AP",), ("R@100", "P@3"), ("nDCG@20", "AP")])
@pytest.mark.parametrize("seed", range(5))
def test_ordinary_data_need_no_look(seed, metrics):
    for form in ("doc{}", "{}", "B0{:06}X"):
        assert looks(*ranked(seed, form=form), metrics) == set()


@few(1)("metrics", [("nDCG@5",), ("AP",), ("R@100", "P@3")])
@pytest.mark.parametrize("seed", range(5))
def test_reversed_scores_are_looked_at(seed, metrics, tmp_path):
    run, qrels = ranked(seed, skill=-0.7)
    assert "reversed" in looks(run, qrels, metrics)
    assert "reversed" in looks(*in_files(tmp_path, run, qrels), metrics)
    assert any("in reverse order" in x for x in rankql.evaluate(run, qrels, [*metrics]).notes)


@few(2)(
    "spell",
    [
        pl.col("item").str.to_uppercase(), *(pl.format(x, "item") for x in (
            "{} ", "{}#1", "http://a/{}", "{}.0")),
        *(pl.col("item").str.replace("doc", x) for x in ("doc-", "doc0", "DOC_")),
    ],
)  # fmt: skip
def test_ids_of_two_forms_are_looked_at(spell, tmp_path):
    run, qrels = ranked(1)
    odd = pl.col("item").str.slice(-1).is_in([*"13579"])
    other = run.with_columns(item=pl.when(odd).then(spell).otherwise("item"))
    assert "spelled" in looks(other, qrels)
    assert "spelled" in looks(*in_files(tmp_path, other, qrels))
    assert "spelled" not in looks(*in_files(tmp_path, run, qrels))


def test_ids_that_are_not_in_memory_are_looked_at():
    run, qrels = ranked(1)
    assert "spelled" in looks(run, qrels, item=("item || ''", "item"))


def test_a_query_that_finds_itself_and_ties_are_looked_at(tmp_path):
    run, qrels = ranked(2)
    queries = run["query"].unique()
    own = pl.DataFrame({"query": queries, "item": queries, "score": 9.0})
    assert "first.finds_itself" in looks(pl.concat([own, run]), qrels)
    assert "first.finds_itself" in looks(*in_files(tmp_path, pl.concat([own, run]), qrels))
    tied = run.with_columns(score=pl.col("score").round(1))
    assert "tied" in looks(tied, qrels) and "tied" in looks(*in_files(tmp_path, tied, qrels))
    assert any("order equal scores" in x for x in rankql.evaluate(tied, qrels, "nDCG@5").notes)


def test_ties_below_what_a_reduction_reads_are_looked_at():
    """P@1 reads the first positions only, others of the same evaluation more."""
    run, qrels = ranked(2)
    tied = run.with_columns(score=pl.col("score").round(2))
    for other in ("own = ndcg(rel, pos, 20)", "nDCG(base=3)@20"):
        assert "tied" not in looks(tied, qrels, ["P@1"])
        assert "tied" in looks(tied, qrels, ["P@1", other])


class Counting:
    """A connection that notes its statements."""

    def __init__(self, con, statements):
        self.con, self.statements = con, statements

    def cursor(self):
        return Counting(self.con.cursor(), self.statements)

    def __getattr__(self, name):
        value = getattr(self.con, name)
        if name not in ("execute", "sql"):
            return value

        def call(sql, *more):
            self.statements.append(sql)
            result = value(sql, *more)
            return self if result is self.con else result

        return call


@contextmanager
def statements(monkeypatch):
    """The statements on connections of our own, but for settings."""
    found = []
    monkeypatch.setattr(private, "_DATABASES", {})
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *x, **y: Counting(connect(*x, **y), found))
    yield lambda: [x for x in found if not x.startswith(("SET ", "RESET "))]


@few(2)("shape", ["frames", "scores", "lists", "Parquet", "CSV"])
def test_small_evaluations_need_no_statement(shape, monkeypatch, tmp_path):
    run, qrels = ranked(3)
    rows = {q: dict(zip(x["item"], x["score"], strict=True)) for (q,), x in run.group_by("query")}
    judged = {q: dict(zip(x["item"], x["rel"], strict=True)) for (q,), x in qrels.group_by("query")}
    if shape == "scores":
        run, qrels = rows, judged
    elif shape == "lists":
        run = {q: sorted(x, key=x.get, reverse=True) for q, x in rows.items()}
        qrels = {q: [*x] for q, x in judged.items()}
    elif shape == "Parquet":
        run.write_parquet(tmp_path / "run.parquet")
        run = str(tmp_path / "run.parquet")
    elif shape == "CSV":  # read into a table of which the rows are kept, and which is dropped
        run.write_csv(tmp_path / "run.csv")
        run = str(tmp_path / "run.csv")
    most = {"Parquet": 2, "CSV": 4}.get(shape, 0)
    with statements(monkeypatch) as counted:
        rankql.evaluate(run, qrels, ["nDCG@10", "AP"]).summary  # noqa: B018
        first = len(counted())
        rankql.evaluate(run, qrels, ["nDCG@10", "AP"]).summary  # noqa: B018
        assert len(counted()) - first <= most, counted()[first:]
