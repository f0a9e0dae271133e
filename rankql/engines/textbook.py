"""Metrics as plain SQL, without functions of rankql: the statements of sql/textbook.sql."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from textwrap import indent

from rankql.core.base.errors import RankqlError, require
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import quote, sql_folder
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import parse

_STATEMENT = re.compile(r"^-- ([^:\n]+): .*\n(?:-- .*\n)*((?:(?!--).+\n)+)", re.MULTILINE)
# A number that the caller may change.
_PARAMETER = re.compile(r"/\*(\w+)\*/ ([\d.e]+)")
_STEP = re.compile(r"(\w+) AS \(\s*SELECT")
# Names that databases read as they are, and the parts of a path.
_NAME = re.compile(r"""[A-Za-z_]\w*|"[^"]+"|`[^`]+`""")
_PART = re.compile(r"""[^."`]+|"[^"]+"|`[^`]+`""")


def plain_sql(
    metrics: str | Sequence[str],
    table: str | None = None,
    *,
    query: str = "query",
    item: str = "item",
    rel: str = "rel",
    pos: str | None = None,
    score: str | None = None,
) -> str:
    """Write metrics as plain SQL, which runs on databases without functions of rankql.

    A statement per metric, with the values per query: a SELECT with window functions, CASE, ln and
    exp, of the file sql/textbook.sql. It checks nothing: positions of a query must be distinct and
    grades finite. Metrics and options that the file lacks are refused.

    Parameters
    ----------
    metrics : str or sequence of str
        Names such as 'nDCG@10', as in `evaluate`.
    table : str, optional
        A table with a row per query and item. By default it is called ranked, or scored if it has
        scores.
    query, item, rel : str
        Its columns. Plain names and names in quotes are written as they are, others get quotes.
        The item only orders equal scores.
    pos : str, optional
        Its column of positions, by default pos.
    score : str, optional
        Its column of scores, instead of positions.

    Examples
    --------
    >>> print(plain_sql("CG@10", "shop.shown", query="user id", rel="grade"))
    -- CG@10
    WITH ranked AS (SELECT t."user id" AS query, t.grade AS rel, t.pos AS pos FROM shop.shown t)
    SELECT query, coalesce(sum(CASE WHEN pos <= /*k*/ 10 THEN rel END), 0) AS cg
    FROM ranked GROUP BY query;
    """
    require(pos is None or score is None, "Pass pos= or score=, not both")
    columns = {"query": query, "item": item, "rel": rel, "pos": pos, "score": score}
    for name in (table, *columns.values()):
        ok = isinstance(name, str | None) and name != ""
        require(ok, f"Pass tables and columns by their names, not {name!r}")
    return "\n\n".join(_write(metric, table, columns) for metric in parse(metrics))


def _write(metric: Metric, table: str | None, columns: Mapping[str, str | None]) -> str:
    """The statement of a metric, after the steps that make its table of that of the caller."""
    text = _fill_in(metric)
    of_scores = "FROM scored" in text
    hint = f"{metric.name} compares grades with scores. Pass score= instead of pos="
    require(not of_scores or columns["pos"] is None, hint)
    ranks = columns["score"] is not None and not of_scores
    source, place = ("scored", "score") if of_scores or ranks else ("ranked", "pos")
    roles = {x: columns[x] or x for x in ("query", *["item"] * ranks, "rel", place)}
    table, steps = table or source, list[str]()
    if table != source or any(role != column for role, column in roles.items()):
        listed = ", ".join(f"t.{_name(column)} AS {role}" for role, column in roles.items())
        path = ".".join(map(_name, _PART.findall(table)))
        steps.append(f"{source} AS (SELECT {listed} FROM {path} t)")
    if ranks:
        steps.append(f"ranked AS (\n{indent(read_textbook()['Positions from scores'], ' ' * 9)})")
    if steps:
        between = "\n" if text.startswith("SELECT") else ",\n     "
        text = "WITH " + ",\n     ".join(steps) + between + text.removeprefix("WITH ")
        hint = f"is also a step of the query. Rename it, or write its schema, as in main.{table}"
        require(table.strip('"`').lower() not in _STEP.findall(text), f"Table {table!r} {hint}")
    return f"-- {metric.name}\n{text};"


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else quote(name)


def _fill_in(metric: Metric) -> str:
    """The statement of a metric, with its parameters."""
    text = find_statement(metric)
    assert metric.record
    values = {name: option.default for name, option in metric.record.options.items()}
    values |= {**metric.options, "k": metric.k or 1_000_000_000}
    for name, example in _PARAMETER.findall(text):
        call = replace(metric, label="", options={**metric.options, name: example}).canonical
        meaning = f"{metric.record.options[name].required}. Write {call}, for example"
        require(values[name] is not None, f"{metric.name}: {name} must be given: {meaning}")
    return _PARAMETER.sub(lambda x: f"/*{x[1]}*/ {_number(values[x[1]])}", text)


def _number(value: float) -> str:
    """A number that no database takes for a decimal."""
    text = f"{value:.17g}"
    return text if text.lstrip("-").isdigit() or "e" in text else f"{float(value)!r}e0"


def find_statement(metric: Metric) -> str:
    """The statement of a metric, whose parameters may have any value."""
    statements = read_textbook()
    parameters = dict(_PARAMETER.findall(_read()))
    metric = metric.under(vars(Conventions()))
    fixed = {name: value for name, value in metric.options.items() if name not in parameters}
    title = replace(metric, label="", k=None, options=fixed).canonical
    titles = [f"{title}@k"] if metric.k else [title, f"{title}@k"]
    for text in filter(None, map(statements.get, titles)):
        if metric.options.keys() - fixed <= {name for name, _ in _PARAMETER.findall(text)}:
            return text
    stem = re.split(r"\W", title)[0]
    reason = dict(re.findall(r"(?m)^--   (\w+): (.*)", _read())).get(stem, "")
    offered = ", ".join(x for x in statements if re.split(r"\W", x)[0] == stem)
    raise RankqlError(
        f"{metric.name} has no plain SQL{reason and f': {reason}'}. "
        f"{f'Take {offered}, or compute' if offered else 'Compute'} it in DuckDB"
    )


@cache
def read_textbook() -> dict[str, str]:
    """The statements by title, such as nDCG(gain=exp2)@k."""
    return {title: sql.rstrip(";\n") for title, sql in _STATEMENT.findall(_read())}


@cache
def _read() -> str:
    return (sql_folder() / "textbook.sql").read_text("utf-8")
