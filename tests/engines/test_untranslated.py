"""What translate() refuses, by engine: the query, and the words that say why.

Each would be another value or other rows if it were passed on. No engine is needed.
"""

import dataclasses

import duckdb
import pytest

import rankql
from rankql.engines import windows
from rankql.engines.sql_trees import parse_sql, window_macros
from rankql.engines.windows import ENGINES
from rankql.errors import database_message
from support import metric_engines

CG = "SELECT u, cg(rel, pos) FROM t"
COLUMNS = {
    "kendall_tau_b(rel, pos)": "has no translation for {}; DuckDB and Spark have it",
    "kendall_tau_distance(rel, pos)": "kendall_tau_distance() has no translation",
    "tau_ap(place, pos)": "tau_ap() has no translation",
    "rbo(place, pos, p := 0.9)": "rbo() has no translation",
    "gini(item)": "gini() has no translation",
    "ndcg_by_score(rel, score, item)": "ndcg_by_score() has no translation",
    "list_ap(rels)": "list_ap() has no translation",
    "median(rel), cg(rel, pos)": "median() has no translation for {}",
    "max(rel, 3), cg(rel, pos)": "max() has no translation for {}",
    "rank, cg(rel, pos)": "rank is neither a key nor in an aggregate; put it into GROUP BY",
    "sum(rel) OVER (), cg(rel, pos)": "rel is neither a key nor in an aggregate",
    "*, cg(rel, pos)": "* beside a metric has no translation for {}; name the columns",
    "cg(rel, pos) FILTER (WHERE pos < 3)": "FILTER on cg has no translation for {}; filter",
    "cg(rel, pos) OVER (PARTITION BY u)": "cg(...) OVER",
    "cg(ndcg(rel, pos), pos)": "ndcg() where rows are not grouped",
    "cg(rel, pos, k := n)": "cg with k from a column has no translation for {}; give a constant",
    "cg(rel, pos, (SELECT 1))": "a query in the list of a SELECT of metrics",
    "cg(rel, pos, k := DATE '2026-01-01')": "An option must be a number, a",
    "list_transform([1], lambda x: x), cg(rel, pos)": "Lambda has no translation",
    "cg(rel, rankql_place)": "names with rankql_ at the start are reserved. Rename it",
    "cg(sum(rel), pos)": "an aggregate or a window within cg()",
    "cg(rel, row_number() OVER ())": "an aggregate or a window within cg()",
    "round(avg(rel)), cg(rel, pos)": "round() has no translation",
    "sum(x ORDER BY y), cg(rel, pos)": "ORDER BY within sum()",
    "strftime(u, '%Y'), cg(rel, pos)": "strftime()",
    "cg(rel[1], pos)": "Bracket",
    "cg(rel)": "cg needs the argument pos",
    "cg(rel, pos, kk := 3)": "cg: 'kk' is unknown or repeated",
}
REFUSED = {
    "spark": {
        "SELECT list_sort(x) FROM t": "list_sort() in another order than 'ASC' or 'DESC'",
        "SELECT x[2:3] FROM t": "x[2:3]",
        "SELECT x[-1] FROM t": "x[-1]",
        "SELECT x SIMILAR TO y FROM t": "has no translation for Spark; put it into a view",
        "SELECT x LIKE 'a%' FROM t": "x LIKE 'a%' has no",
        "SELECT CAST(x AS INT) FROM t": "CAST(x AS INT)",
        "SELECT a / 2 FROM t": "a / 2",
        "SELECT typeof(a) FROM t": "typeof()",
        "SELECT strftime(d, '%Y'), ndcg(rel, pos) FROM t": "strftime()",
        "SELECT list(x ORDER BY y) FROM t": "ORDER BY within list()",
        "SELECT a IN (SELECT b FROM u) FROM t": "a IN (SELECT b FROM u)",
        "SELECT ndcg(rel, pos) FILTER (WHERE pos < 3) FROM t": "FILTER on ndcg",
        "SELECT ndcg(rel, pos) OVER (PARTITION BY u) FROM t": "ndcg(...) OVER",
        "SELECT ndcg(rel) FROM t": "ndcg needs the argument pos",
        "FROM abs(3)": "the table function ABS(3)",
        "FROM ranked('t')": "ranked()",
        "SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS a": "BY NAME",
        # Where the word is no keyword it would be an alias of t, and the join another one.
        "FROM t POSITIONAL JOIN s": "POSITIONAL JOIN",
        "FROM t ASOF JOIN s USING (u)": "ASOF JOIN",
        "SELECT a FROM t WHERE a NOT IN (1, NULL)": "a IN (1, NULL)",
        "SELECT (SELECT max(b) FROM u WHERE u.a = t.a) FROM t": "(SELECT MAX(b) FROM u",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)": "Exists",
        "SELECT a % 2 FROM t": "a % 2",
        "SELECT MAP {'a': 1}": "ToMap",
        "SELECT graded(e, MAP {'buy': 3}) FROM t": "ToMap",
        "SELECT graded(e, g) FROM t": "graded: ",
        "SELECT current_date": "CurrentDate",
        "SELECT 1; SELECT 2": "cannot be read as one statement",
        "SELECT gini(item) FROM t": "gini: histogram() has no translation for Spark",
        "SELECT ndcg(rel, pos, kk := 3) FROM t": "'kk'",
        "SELECT FROM WHERE": "cannot be read as one statement of DuckDB",
    },
    "postgres": {f"SELECT u, {text} FROM t GROUP BY u": said for text, said in COLUMNS.items()} | {
        "SELECT DISTINCT cg(rel, pos) FROM t GROUP BY u": "DISTINCT beside a metric",
        "SELECT cg(rel, pos, sum(DISTINCT": "cannot be read as one statement of DuckDB",
        "SELECT u FROM t WHERE cg(rel, pos) > 1": "cg() where rows are not grouped",
        "SELECT lower(u) AS v, cg(rel, pos) FROM t GROUP BY v": "GROUP BY v, an alias,",
        f"{CG} GROUP BY ROLLUP (u)": "GROUP BY ROLLUP (u) has no",
        f"{CG} GROUP BY u WITH ROLLUP": "GROUP BY with grouping sets",
        f"{CG} GROUP BY GROUPING SETS ((u))": "GROUP BY GROUPING SETS",
        f"{CG} GROUP BY 3": "GROUP BY 3 has no translation",
        f"{CG} GROUP BY u ORDER BY ALL": "ORDER BY ALL",
        f"{CG} GROUP BY u QUALIFY u > 1": "QUALIFY beside a metric",
        f"{CG} SEMI JOIN s USING (u) GROUP BY u": "SEMI JOIN",
        f"{CG} ANTI JOIN s USING (u) GROUP BY u": "ANTI JOIN",
        f"SELECT u FROM a EXCEPT ({CG} GROUP BY u)": "Except has no translation for Postgres",
        "SELECT cg(rel, pos) FROM t GROUP BY sum(u)": "GROUP BY SUM(u) has no translation",
        "SELECT cg(rel, pos) FROM t GROUP BY 'x'": "GROUP BY 'x' has no translation",
        "SELECT TRY_CAST(a AS DOUBLE) FROM t": "TRY_CAST(a AS DOUBLE)",
        "SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS a": "BY NAME",
    },
    "datafusion": {"SELECT a FROM t INTERSECT SELECT a FROM u": "Intersect"},
    "trino": {
        "SELECT u, median(rel), cg(rel, pos) FROM t GROUP BY u": "median() has no translation",
        "SELECT a FROM t SEMI JOIN u USING (a)": "SEMI JOIN",
        "SELECT a FROM t POSITIONAL JOIN u": "POSITIONAL JOIN",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "query"), [(engine, query) for engine in REFUSED for query in REFUSED[engine]]
)
def test_queries_without_a_translation_are_refused(engine, query):
    with pytest.raises(rankql.RankqlError) as error:
        rankql.translate(query, engine)
    name = ENGINES[engine].name if engine in ENGINES else ""
    assert REFUSED[engine][query].format(name) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "call",
    [
        "ndcg(rel, pos, 0)",
        "ndcg(rel, pos, k := 2.5)",
        "ap(rel, pos, denominator := 'r')",
        "precision_at(rel, pos, 3, denominator := 'R')",
        "ndcg(rel, pos, base := 1)",
        "ndcg(rel, pos, ideal := 'x')",
        "ndcg(rel, pos, negative := 'x')",
        "ndcg(rel, pos, discounts := [1, -1])",
        "hit_at(rel, pos, threshold := 'nan'::DOUBLE)",
        "err(rel, pos)",
        "err(rel, pos, max_rel := 0)",
        "err(rel, pos, max_rel := 3, p := 0)",
        "rbp(rel, pos)",
        "rbp(rel, pos, p := 1)",
        "rbp_residual(rel, pos, p := NULL)",
        "micro_precision_at(rel, pos, 3)",
    ],
)
def test_options_are_refused_in_the_words_of_the_macros(call):
    with pytest.raises(duckdb.Error) as theirs:
        metric_engines.connection().execute(f"SELECT {call} FROM (VALUES (1.0, 1)) AS t (rel, pos)")
    with pytest.raises(rankql.RankqlError) as ours:
        rankql.translate(f"SELECT u, {call} FROM t GROUP BY u", "postgres")
    assert str(ours.value) == database_message(theirs.value)


@pytest.mark.parametrize(
    ("body", "message"), [("sum(list_zip(rel, pos))", "list_zip()"), ("sum(rel[pos])", "Bracket")]
)
def test_a_macro_without_window_form_is_refused(body, message, monkeypatch):
    macro = dataclasses.replace(window_macros()["cg"], body=parse_sql(body, "duckdb"))
    monkeypatch.setitem(window_macros(), "cg", macro)
    with pytest.raises(rankql.RankqlError) as error:
        windows.translate_to_windows(f"{CG} GROUP BY u", "postgres")
    assert f"cg: {message} has no translation" in str(error.value)


def test_an_unknown_dialect_is_corrected():
    for name, correct in (("postgre", "postgres"), ("sparc", "spark")):
        with pytest.raises(rankql.RankqlError, match=f"'{name}'. Did you mean '{correct}'"):
            rankql.translate("SELECT 1", name)
