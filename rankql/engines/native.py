"""Metrics as functions of other databases: their files in sql/, and evaluations that call them.

Spark needs none: `translate` writes the metrics out, and says so for the other databases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from rankql.core.base.errors import RankqlError, require, require_known, require_package
from rankql.core.evaluation.evaluate import evaluate, open_evaluation
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import literal, quote, sql_folder
from rankql.core.metrics.metric_record import IS_RELEVANT, Metric
from rankql.core.metrics.parse import parse
from rankql.core.tables.request import DEFAULT_METRICS, RankingRules, Request
from rankql.engines.native_columns import column_label, of_file, sides, write_column

Engine = Literal["postgres", "clickhouse", "snowflake", "bigquery"]


@dataclass(frozen=True)
class Dialect:
    """How an engine writes what SQL leaves open."""

    # Runs the file.
    install: str
    # The text of a value, and what compares it by bytes.
    text: str = "CAST({} AS VARCHAR)"
    collation: str = ""
    quotes: str = '"'
    end: str = ""


DIALECTS: Mapping[str, Dialect] = {
    "postgres": Dialect("psql -v ON_ERROR_STOP=1 -f {}", "CAST({} AS TEXT)", ' COLLATE "C"'),
    "clickhouse": Dialect(
        "clickhouse-client --queries-file {}",
        "toString({})",
        end="\nSETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1",
    ),
    "snowflake": Dialect("snow sql -f {}"),
    "bigquery": Dialect("bq query --use_legacy_sql=false < {}", "CAST({} AS STRING)", quotes="`"),
}

# Engines that people ask for.
_WITHOUT = ("databricks", "datafusion", "redshift", "trino")


def native_sql(engine: Engine, *, schema: str | None = None, prefix: str = "") -> str:
    """The file that creates the metrics as functions of a database.

    Parameters
    ----------
    engine : str
        'postgres', 'clickhouse', 'snowflake' or 'bigquery'.
    schema : str, optional
        The schema of Postgres or the dataset of BigQuery for the functions, which exists already.
        In Postgres, 'pg_temp' serves roles that may not create functions.
    prefix : str
        The beginning of all names, for ClickHouse, whose functions are global.

    Examples
    --------
    >>> "CREATE OR REPLACE FUNCTION ndcg AS (rel, pos, k) ->" in native_sql("clickhouse")
    True
    """
    _refuse_unsupported(engine)
    require_known("engine", engine, get_args(Engine))
    text = (sql_folder() / f"{engine}.sql").read_text("utf-8")
    shared = dict(_SHARED.findall(text))
    text = re.sub(r"(?m)^-- rankql: (\w+)\n", lambda x: shared[x[1]], _SHARED.sub("", text))
    place = f"not for {engine}. Leave it out"
    if prefix:
        require(engine == "clickhouse", f"prefix= is for clickhouse, {place}")
        fits = re.fullmatch(r"[A-Za-z_]\w*", prefix) is not None
        require(fits, f"prefix must have letters, digits and _ only, not {prefix!r}")
        names = "|".join(re.findall(r"^CREATE OR REPLACE FUNCTION (\w+)", text, re.MULTILINE))
        # In names that are called, created or listed, not in messages.
        text = re.sub(rf"(?<![\w.])({names})(?=\(| AS \(|'[,)])", rf"{prefix}\1", text)
    if schema is not None:
        fits = engine in ("postgres", "bigquery")
        require(fits, f"schema= is for postgres and bigquery, {place}")
        require(bool(schema), "schema must be a name, not ''")
        if engine == "bigquery":
            return text.replace("dataset.", f"`{schema}`.")
        text = text.replace("BEGIN;\n", f"BEGIN;\nSET LOCAL search_path TO {quote(schema)};\n", 1)
    return text


# Code that handlers share. In a handler the line "-- rankql: NAME" stands for it.
_SHARED = re.compile(r"(?ms)^-- rankql: shared (\w+)\n(.*?)^-- rankql: end\n\n")


def install_command(engine: str) -> str:
    """The commands that create the functions."""
    file = f"{engine}.sql"
    return f"rankql sql --engine {engine} > {file} && {DIALECTS[engine].install.format(file)}"


def translate(query: str, dialect: str) -> str:
    """Translate a query that calls metrics from DuckDB's SQL into that of Spark.

    The metrics are written out in the SQL of the dialect. Functions and syntax that may mean
    something else there raise a RankqlError that names them. Values equal those of DuckDB to 1e-12.
    Wrong options are errors of `translate`, wrong data is an error of the translated query. Other
    databases run such queries as they are, once they have the functions: see `native_sql`.

    >>> text = translate("SELECT user, ndcg(rel, pos, 10) AS n FROM t GROUP BY user", "spark")
    >>> text.startswith("SELECT `user`, "), "ndcg(" in text
    (True, False)
    """
    if isinstance(dialect, str) and dialect in DIALECTS:
        raise RankqlError(
            f"{dialect} needs no translation: it runs SELECT ndcg(rel, pos, 10) once it has the "
            f"functions. Install them: {install_command(dialect)}"
        )
    _refuse_unsupported(dialect)
    require_known("dialect", dialect, ("spark", *DIALECTS))
    require_package("sqlglot", "dialects", f"dialect {dialect}")
    from rankql.engines.translation import translate_query

    return translate_query(query)


def _refuse_unsupported(engine: str) -> None:
    """Refuse an engine that people ask for, and say what it can run."""
    hint = (
        f"rankql has no functions for {engine}. Write the metric as plain SQL, which needs none: "
        "rankql sql --plain -m nDCG@10 TABLE, in Python rankql.plain_sql('nDCG@10', 'TABLE'). Or "
        f"use Spark or DuckDB on the same tables. Available: spark, {', '.join(DIALECTS)}"
    )
    require(isinstance(engine, str), f"the engine must be a name, not {engine!r}")
    require(engine not in _WITHOUT, hint)


def render_native_query(
    engine: str,
    run: str,
    qrels: str,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    schema: str | None = None,
    prefix: str = "",
    **options: Any,
) -> str:
    """An evaluation in the SQL of a database with the functions: a row per judged query.

    Run and judgments are tables there. If files have these names, their columns are read, and the
    tables are named after them.
    """
    require_known("dialect", engine, get_args(Engine))
    for rule in ("by", "attributes", "weight"):
        require(not options.pop(rule, None), f"{rule}= needs DuckDB. Leave it out, or use eval")
    dialect, rules = DIALECTS[engine], RankingRules.of(options, evaluate)
    _refuse_rules(rules)
    name = partial(quote, mark=dialect.quotes)
    conventions: Conventions = rules.conventions
    records: Sequence[Metric] = parse(metrics)
    specs: list[Mapping[str, Any]]
    given = {"run": run, "qrels": qrels}
    if os.path.exists(run) and os.path.exists(qrels):
        with open_evaluation(Request(run, qrels, metrics, rules)) as plan:
            conventions, records = plan.conventions, plan.metrics
        files = [plan.inputs.runs[None], plan.inputs.judging[0]]
        specs = [{x: of_file(f, x, rules.columns.get(x)) for x in f.roles} for f in files]
        paths = {x: [os.path.basename(path).partition(".")[0]] for x, path in given.items()}
    else:
        named = {role: column for role, column in rules.columns.items() if column}
        case = str.upper if engine == "snowflake" else str.lower  # as it stores names
        roles = {role: case(role) for role in rules.columns} | named
        place = "pos" if "pos" in named else "score"
        pairs = {x: sides(x, roles[x]) for x in ("query", "item", place, "rel")}
        specs = [{x: pairs[x][i] for x in ("query", "item", last)}
                 for i, last in enumerate((place, "rel"))]  # fmt: skip
        paths = {x: table.split(".") for x, table in given.items()}
    shown, judged = (
        {x: write_column(x, spec, dialect.text, dialect.quotes) for x, spec in side.items()}
        for side in specs
    )
    item = dialect.text.format(shown["item"]) + dialect.collation
    order = f"{shown.get('score')} DESC, {item} DESC"
    number = f"row_number() OVER (PARTITION BY {shown['query']} ORDER BY {order})"
    qualifier = f"{name(schema)}." if schema else prefix
    if engine == "bigquery":
        qualifier = f"{name(schema or 'dataset')}."
    names = [column_label(specs[1]["query"]), *(metric.name for metric in records)]
    label, *labels = [re.sub(r"\W+", "_", x) if engine == "bigquery" else x for x in names]
    calls = [_call(engine, qualifier, metric, conventions) for metric in records]
    values = [f"{call} AS {name(label)}" for call, label in zip(calls, labels, strict=True)]
    score = shown.get("score", "NULL")
    query = (sql_folder() / "evaluation.sql").read_text("utf-8").rstrip().format(
        **judged, label=name(label),
        **{table: ".".join(map(name, path)) for table, path in paths.items()},
        **{f"{table}_text": literal(".".join(path)) for table, path in paths.items()},
        **{f"twice_{x}": dialect.text.format(f"twice.{x}") for x in ("query", "item")},
        run_query=shown["query"], run_item=shown["item"],
        score=score, pos=shown.get("pos", number), place=shown.get("pos", score),
        values=",\n    ".join(values), end=dialect.end,
    )  # fmt: skip
    return query.replace(" AS INT)", " AS INT64)") if engine == "bigquery" else query


def _refuse_rules(rules: RankingRules) -> None:
    """Refuse rules that the query cannot follow."""
    given = vars(rules) | vars(rules.conventions)
    allowed: dict[str, Sequence[object]] = {
        "ties": ("item",),
        "unjudged": ("zero",),
        "negative": ("zero", "keep"),
        "undefined": ("skip", "zero", "one", "error"),
        "gain": ("linear", "exp2", "binary"),
        "float32": (False,),
        "ignore_identical_ids": (None, False),
        **dict.fromkeys(("order", "collapse", "positions", "system", "descending"), (None,)),
    }
    for rule, values in allowed.items():
        fits = any(given[rule] is value or given[rule] == value for value in values)
        require(fits, f"{rule}={given[rule]!r} needs DuckDB. Leave it out, or use eval")


def _call(engine: str, qualifier: str, metric: Metric, conventions: Conventions) -> str:
    """The call of a metric, with its options by position."""
    record = metric.record
    reason = record.not_native if record else "it is an expression"
    if record is None or reason or record.level != "ranking":
        reason = reason or "it is a mean over rankings"
        raise RankqlError(f"{metric.name} needs DuckDB: {reason}. Leave it out, or use eval")
    values, known = metric.arguments(vars(conventions)), record.native_options(engine)
    gain, threshold = metric.gain(vars(conventions)), metric.threshold(vars(conventions))
    rel = f"{qualifier}exp2_gain(rel)" if gain == "exp2" else "rel"
    as_hits = "threshold" in values.keys() - known and not record.reads_sample
    if gain == "binary" or as_hits:
        relevant = IS_RELEVANT.format(threshold=threshold)
        rel = f"CASE WHEN {relevant} THEN 1 WHEN rel IS NOT NULL THEN 0 END"
        values.pop("threshold", None)
    for name, value in values.items():
        problem = f"{metric.name}: the function of {engine} has no option {name} ({value})"
        require(name in known, f"{problem}. Leave it out, or use eval")
    parameters = {parameter.name: parameter for parameter in record.parameters}
    for name in known:
        need = parameters[name].required
        needed = need and name not in values and values.get("stop") != "rel"
        require(not needed, f"{metric.name}: {name} must be given: {need}")
    last = max((known.index(name) + 1 for name in values), default=0)
    arguments = [values.get(name, parameters[name].default) for name in known]
    texts = map(literal, arguments[:last] if engine == "postgres" else arguments)
    listed = [f"ARRAY{x}" if x.startswith("[") else x for x in texts]
    place = "score" if record.compares_scores else "pos"
    return f"{qualifier}{record.macro}({', '.join([rel, place, *listed])})"
