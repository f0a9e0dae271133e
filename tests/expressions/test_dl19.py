"""Real data by DuckDB's CSV reader: three runs of TREC 2019 Deep Learning, beside trec_eval."""

import ir_measures
import pytest
import pytrec_eval

import rankql
from support import metric_engines
from support.dl19 import JOINED, JUDGMENTS, RUN, RUNS
from support.paths import DL19

pytestmark = pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")


@pytest.fixture(scope="module")
def bm25():
    con = metric_engines.connect()
    con.execute(JUDGMENTS)
    con.execute(RUN % "BM25")
    con.execute(JOINED)
    return con


def test_published(bm25):
    """What the README of the data says of BM25: from scores, and from positions."""
    for source in ("ranked('joined', query := 'query')", "(SELECT *, file_pos AS pos FROM joined)"):
        values = bm25.execute(f"""
            SELECT avg(ndcg), avg(ap), avg(rr), count(*) FROM (
                SELECT ndcg(rel, pos, 10) AS ndcg, ap(rel, pos, denominator := 'R') AS ap,
                       rr(rel, pos, 10) AS rr
                FROM {source} GROUP BY query)
        """).fetchall()[0]
        assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233", "43.0000"]
    values = bm25.execute("""
        SELECT avg(ndcg), avg(ap), avg(rr) FROM (
            SELECT ndcg_by_score(rel, score, item, 10) AS ndcg,
                   ap_by_score(rel, score, item, denominator := 'R') AS ap,
                   rr_by_score(rel, score, item, 10) AS rr
            FROM joined GROUP BY query)
    """).fetchall()[0]
    assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233"]


# evaluate

CUTOFFS = (1, 5, 10, 20, 100, 1000)
# our spelling -> trec_eval's name
TREC_EVAL = {
    **{f"nDCG@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"AP(denominator=R)@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"P@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"R@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"Success@{k}": f"success_{k}" for k in (1, 5, 10)},
    "nDCG": "ndcg",
    "AP": "map",
    "RR": "recip_rank",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "P": "set_P",
    "R": "set_recall",
    "F1": "set_F",
}


def trec_dicts(name):
    run, qrels = {}, {}
    for line in (DL19 / f"{name}.run").read_text().splitlines():
        query, _, item, _, score, _ = line.split()
        run.setdefault(query, {})[item] = float(score)
    for line in (DL19 / "dl19.qrels").read_text().splitlines():
        query, _, item, rel = line.split()
        qrels.setdefault(query, {})[item] = int(rel)
    return run, qrels


@pytest.mark.parametrize("name", RUNS)
def test_evaluate_equals_trec_eval(name):
    """All shared measures, by their names and by ours, per query, to 1e-9."""
    run, qrels = trec_dicts(name)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(TREC_EVAL.values())).evaluate(run)
    paths = DL19 / f"{name}.run", DL19 / "dl19.qrels"
    ours = rankql.evaluate(*paths, list(TREC_EVAL), conventions="trec_eval").per_query
    named = rankql.evaluate(*paths, [n for n in TREC_EVAL.values() if n != "ndcg"]).per_query
    assert len(ours) == len(named) == len(theirs) == 43
    for row in ours.to_dicts():
        for metric, trec_name in TREC_EVAL.items():
            value = row.get(metric, row.get(metric.replace("(denominator=R)", "")))
            assert value == pytest.approx(theirs[row["query"]][trec_name], abs=1e-9), metric
    assert ours.drop("query").mean().row(0) == pytest.approx(
        tuple(sum(q[n] for q in theirs.values()) / 43 for n in TREC_EVAL.values()), abs=1e-9
    )
    by_name = rankql.evaluate(*paths, list(TREC_EVAL.values()), conventions="trec_eval").per_query
    for column in by_name.columns[1:]:
        assert by_name[column].to_list() == pytest.approx(ours[column].to_list(), abs=1e-12)


IR_MEASURES = [
    *(f"{m}@{k}" for m in ("nDCG", "P", "R", "RR", "Success", "Judged") for k in (1, 5, 10, 100)),
    *(f"{m}(rel=2)@{k}" for m in ("P", "R", "RR", "Success") for k in (5, 10)),
    *("nDCG", "AP", "RR", "Rprec", "Bpref", "AP(rel=2)", "RR(rel=2)", "Rprec(rel=2)"),
]


@pytest.mark.parametrize("name", RUNS)
def test_evaluate_equals_ir_measures(name):
    """The same strings are given to both. (Its AP@k divides by R: AP(denominator=R)@k of ours.)"""
    run, qrels = trec_dicts(name)
    paths = DL19 / f"{name}.run", DL19 / "dl19.qrels"
    ours = rankql.evaluate(*paths, [*IR_MEASURES, "AP(denominator=R)@10"]).per_query
    ours = ours.rename({"AP(denominator=R)@10": "AP@10"})
    measures = [ir_measures.parse_measure(m) for m in (*IR_MEASURES, "AP@10")]
    values = {row["query"]: row for row in ours.to_dicts()}
    seen = set()
    for result in ir_measures.iter_calc(measures, qrels, run):
        name = str(result.measure)
        assert values[result.query_id][name] == pytest.approx(result.value, abs=1e-9), name
        seen.add(name)
    assert seen == {*IR_MEASURES, "AP@10"}
