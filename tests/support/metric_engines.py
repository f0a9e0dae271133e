"""One way to evaluate a metric over many groups, on every engine and in every form.

    engine.run("ndcg", groups, {"k": 3})  ->  one value per group, None where NULL

What a group is depends on the metric:
  ndcg           rows (rel, pos); (rel, pos, query) for micro_*, (rel, score) for rmse and mae,
                 (reference, pos) for tau_ap and rbo
  ndcg_by_score  rows (rel, score, item)
  list_ndcg      a pair (rels, ideal): grades in rank order; the grades of all judged items or None

List and score engines take rows (rel, pos) too and translate them: a gap becomes an unjudged entry
or item, a judged item that was not retrieved goes into `ideal` or has no score. `cannot` says for
which rows there is no such translation, or which other engine is asked.

The pseudo-option gain='exp2' composes exp2_gain into the call, as a user writes it.
"""

import math
import random
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import polars as pl

import rankql
from rankql.core.base.errors import database_message
from rankql.core.metrics.all_metrics import EVALUATED, FUNCTIONS
from rankql.core.metrics.macros import read_sql
from support import signatures

# SQL type -> polars type
TYPES = {
    **{"TINYINT": pl.Int8, "SMALLINT": pl.Int16, "INTEGER": pl.Int32, "BIGINT": pl.Int64},
    **{"UTINYINT": pl.UInt8, "USMALLINT": pl.UInt16, "UINTEGER": pl.UInt32, "UBIGINT": pl.UInt64},
    **{"HUGEINT": pl.Int128, "FLOAT": pl.Float32, "DOUBLE": pl.Float64},
    **{"DECIMAL(9,2)": pl.Decimal(9, 2), "BOOLEAN": pl.Boolean, "VARCHAR": pl.String},
}
NUMBERS = dict.fromkeys(("rel", "score", "rels", "ideal"), "DOUBLE")
NUMBERS |= dict.fromkeys(("pos", "reference"), "BIGINT")
LISTS = {"rels", "ideal"}
# The columns of the metrics beyond accuracy, of which rel and pos are as they are elsewhere.
BEYOND = {
    **dict.fromkeys(("item", "category", "attribute"), pl.String),
    **dict.fromkeys(("user", "pos"), pl.Int64),
    **dict.fromkeys(("popularity", "created_at", "shown_at", "rel"), pl.Float64),
    **dict.fromkeys(("exposure", "merit", "target"), pl.Float64),
    **dict.fromkeys(("attributes", "subtopics"), pl.List(pl.String)),
    **{"embedding": pl.List(pl.Float64), "baseline": pl.Boolean},
}


class Column(str):
    """An option that names a column."""


def names(metric):
    """The columns of the groups of a metric."""
    if metric in signatures.BEYOND:
        columns = signatures.BEYOND[metric].items()
        return [name for name, default in columns if default is signatures.NEEDED]
    if metric.startswith("list_"):
        return ["rels", "ideal"]
    if metric.endswith("_by_score"):
        return ["rel", "score", "item"]
    if metric in signatures.RATING:
        return ["rel", "score"]
    if metric in signatures.TWO_RANKINGS:
        return ["reference", "pos"]
    return ["rel", "pos", "query"] if metric in signatures.MICRO else ["rel", "pos"]


def flat(metric, groups):
    """All rows as columns, with the number of the group in `g`, in an order that says nothing."""
    if metric.startswith("list_"):
        rows = [(g, *group) for g, group in enumerate(groups)]
    else:
        rows = [(g, *row) for g, group in enumerate(groups) for row in group]
    random.Random(5).shuffle(rows)
    header = ["g", *names(metric)]
    values = zip(*rows, strict=True) if rows else [()] * len(header)
    return dict(zip(header, map(list, values), strict=True))


def frame(data, types):
    """The columns as a polars frame, with types for rel, pos, score and the entries of lists."""
    series = []
    for name, values in data.items():
        if name not in NUMBERS:
            inferred = name == "item" and any(value is not None for value in values)
            kind = None if inferred else BEYOND.get(name, pl.Int64)
            column = pl.Series(name, values, dtype=kind)
            series.append(column.cast(types[name]) if name in types else column)
            continue
        expected = TYPES[{**NUMBERS, **types}[name]]
        made_as = pl.String if expected == pl.String else pl.Float64
        if name in LISTS:
            expected, made_as = pl.List(expected), pl.List(made_as)
        elif made_as == pl.Float64:
            values = [None if value is None else float(value) for value in values]
        series.append(pl.Series(name, values, dtype=made_as).cast(expected))
    return pl.DataFrame(series)


def in_order(pairs, groups):
    """The values by group, each of which must be there once."""
    pairs = list(pairs)
    result = dict(pairs)
    assert len(result) == len(pairs) == len(groups), f"{len(pairs)} results of {len(groups)} groups"
    return [result[g] for g in range(len(groups))]


# rows as lists, rows as scores


def gaps(group):
    taken = {pos for _, pos in group if pos is not None}
    return [pos for pos in range(1, max(taken, default=0)) if pos not in taken]


def as_list(metric, group):
    grades = {pos: rel for rel, pos in group if pos is not None}
    rels = [grades.get(pos) for pos in range(1, max(grades, default=0) + 1)]
    return rels, [rel for rel, _ in group if rel is not None]


def as_scores(group):
    filled = [*group, *((None, pos) for pos in gaps(group))]
    return [(rel, pos if pos is None else -pos, f"item {i}") for i, (rel, pos) in enumerate(filled)]


def counts_retrieved(metric, options):
    """Does the number of retrieved items matter? Then a gap is not an unjudged item."""
    of = options.get("denominator", "k" if metric in ("precision_at", "f1_at", "set_ap") else None)
    whole = options.get("k") is None
    return of == "retrieved" or (whole and (of == "k" or metric in ("judged_at", "num_ret")))


def no_expectation(metric, options):
    """Is ties='expected' refused?"""
    refused = FUNCTIONS[metric].no_expected_ties
    of_pairs = metric.startswith("kendall") and options.get("k") is not None
    return of_pairs or (refused is not None and refused.items() <= options.items())


# SQL


def literal(value):
    if isinstance(value, Column):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'::DOUBLE"
    return "NULL" if value is None else str(value)


def call(metric, arguments, options):
    """The text of a call: k by position as in ndcg(rel, pos, 10), the other options by name."""
    arguments, options = list(arguments), dict(options)
    if options.pop("gain", None):
        arguments[0] = arguments[0].replace("rel", "exp2_gain(rel)", 1)
        if metric.startswith("list_"):
            arguments[0] = "[exp2_gain(rel) for rel in rels]"
            if "ideal" in options:
                options["ideal"] = Column("[exp2_gain(rel) for rel in ideal]")
    if "k" in options:
        arguments.append(literal(options.pop("k")))
    arguments += [f"{name} := {literal(value)}" for name, value in options.items()]
    return f"{metric}({', '.join(arguments)})"


@cache
def macro_file():
    """A database file with the macros, in a folder that goes with this process."""
    folder = tempfile.TemporaryDirectory(prefix="rankql")
    with duckdb.connect(Path(folder.name) / "macros.duckdb") as con:
        con.execute(read_sql())
    return folder


def with_macros(con):
    """The connection, with the macros: to register them takes a second, to attach them 50 ms."""
    con.execute(f"ATTACH '{macro_file().name}/macros.duckdb' AS macros_of_tests (READ_ONLY)")
    con.execute("SET search_path = 'memory.main,macros_of_tests.main'")
    return con


def connect(**settings):
    """A connection with the macros, under the given settings; what eats memory fails by itself."""
    con = with_macros(duckdb.connect(config={"memory_limit": "3GB"}))
    for name, value in settings.items():
        con.execute(f"SET {name} = '{value}'")
    return con


connection = cache(connect)


def complaint(run):
    """What is said by what refuses, or by name: another kind of error, or none."""
    try:
        return f"no error but {run()}"
    except duckdb.ConversionException as error:
        return database_message(error).partition(". Times: ")[0]  # remedies in SQL
    except rankql.RankqlError as error:
        # polars appends the expression in which a function of ours raised.
        return str(error).partition("\n\nThis error occurred in the following expression")[0]
    except (duckdb.Error, pl.exceptions.PolarsError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def as_form(form, metric, groups, options, types, ties):
    """The call of a form: groups of rows become lists, with `ideal` where needed, or scores."""
    own_form = metric.startswith("list_") or metric.endswith("_by_score")
    if form == "list" and not own_form:
        needs_ideal = metric in signatures.TAKES_IDEAL and options.get("ideal") != "retrieved"
        needs_ideal &= any(pos is None for group in groups for _, pos in group)
        options = {name: value for name, value in options.items() if name != "ideal"}
        groups = [as_list(metric, group) for group in groups]
        groups = groups if needs_ideal else [(rels, None) for rels, _ in groups]
        types = {"rels": types["rel"], "ideal": types["rel"]} if "rel" in types else {}
        metric = f"list_{metric}"
    elif form == "score" and not own_form:
        groups = [as_scores(group) for group in groups]
        types = {"rel": types["rel"]} if "rel" in types else {}
        metric = f"{metric}_by_score"
    if form == "list" and any(ideal is not None for _, ideal in groups):
        options = {**options, "ideal": Column("ideal")}
    return metric, groups, options | ({"ties": ties} if form == "score" and ties else {}), types


def arguments_of(form, metric):
    """The columns of a call."""
    return ["rels"] if form == "list" else [name for name in names(metric) if name != "query"]


class Form:
    """What engines of SQL and of polars have in common."""

    form, whole, ties = "rows", False, None

    def cannot(self, metric, options, group):
        """Has the form no words for the group? Without rows there is no group."""
        plain = metric.removeprefix("list_").removesuffix("_by_score")
        if self.form != "list" and not group and not self.whole:
            return True
        if self.ties == "expected" and no_expectation(plain, options):
            return True
        if self.form == "rows" or plain != metric:
            return False
        # Rows that cannot be given as a list or as scores.
        has_gaps = bool(counts_retrieved(metric, options) and gaps(group))
        return metric not in signatures.RANKING or has_gaps


@dataclass
class Sql(Form):
    """SELECT ndcg(rel, pos, 10) FROM ... GROUP BY g, or list_ndcg(rels, 10) of each row

    With `whole`, a query for each group, without GROUP BY: an empty table has a result too.
    """

    form: str = "rows"
    whole: bool = False
    ties: str | None = None
    con: duckdb.DuckDBPyConnection | None = None

    def relation(self, metric, groups, types):
        """Make the groups a relation `input_rows` and return the text of a query over it."""
        data = flat(metric, groups)
        kinds = {name: {**NUMBERS, **types}[name] for name in NUMBERS if name in data}
        wide = {name: kind if kind == "VARCHAR" else "DOUBLE" for name, kind in kinds.items()}
        con = self.con or connection()
        con.register("input_rows", frame(data, {**types, **wide}).to_arrow())
        casts = [
            f"CAST({name} AS {kind}{'[]' if name in LISTS else ''}) AS {name}"
            for name, kind in kinds.items()
        ]
        others = [name for name in data if name not in kinds]
        return con, f"(SELECT {', '.join(others + casts)} FROM input_rows)"

    def run(self, metric, groups, options, **types):
        metric, groups, options, types = as_form(
            self.form, metric, groups, options, types, self.ties
        )
        con, source = self.relation(metric, groups, types)
        text = call(metric, arguments_of(self.form, metric), options)
        if self.whole:
            queries = (f"SELECT {text} FROM {source} WHERE g = {g}" for g in range(len(groups)))
            return [con.execute(query).fetchall()[0][0] for query in queries]
        grouped = "" if self.form == "list" else " GROUP BY g"
        return in_order(con.execute(f"SELECT g, {text} FROM {source}{grouped}").fetchall(), groups)


# polars


def expression(metric, options, arguments=None):
    arguments, options = arguments or names(metric), dict(options)
    if options.pop("gain", None):
        if metric.startswith("list_"):
            gain = rankql.exp2_gain(pl.element())
            arguments = [pl.col("rels").list.eval(gain)]
            if "ideal" in options:
                options["ideal"] = pl.col("ideal").list.eval(gain)
        else:
            arguments = [rankql.exp2_gain(arguments[0]), *arguments[1:]]
    return getattr(rankql, metric)(*arguments, **options).alias("value")


def of_frame(values):
    assert values.schema["value"] == pl.Float64, f"a value of type {values.schema['value']}"
    return values.select("g", "value").rows()


def piped(data, metric, options, by, arguments=()):
    """df.pipe(rankql.ndcg, by="g", k=10), with the gain in place of the grades."""
    if "gain" in options:
        data = data.with_columns(rankql.exp2_gain("rel").alias("rel"))
        options = {name: value for name, value in options.items() if name != "gain"}
    data = data.pipe(getattr(rankql, metric), *arguments, by=by, **options)
    return data.rename({metric: "value"})


@dataclass
class Polars(Form):
    """df.group_by("g").agg(rankql.ndcg("rel", "pos", k=10)), or in another context

    With `whole`, a call for each group: an empty frame has a result too.
    """

    context: str = "agg"
    streaming: bool = False
    form: str = "rows"
    whole: bool = False
    ties: str | None = None

    def run(self, metric, groups, options, **types):
        metric, groups, options, types = as_form(
            self.form, metric, groups, options, types, self.ties
        )
        rows = frame(flat(metric, groups), types)
        if self.whole:
            parts = (rows.filter(g=g) for g in range(len(groups)))
            return [self.collected(part, metric, options, None).item() for part in parts]
        values = self.collected(rows, metric, options, "g")
        if self.context == "over":
            assert values.height == rows.height
            return in_order(set(of_frame(values)), groups)
        return in_order(of_frame(values), groups)

    def collected(self, rows, metric, options, by):
        """The values of a frame, by `g` or of all rows."""
        arguments, data = arguments_of(self.form, metric), rows.lazy() if self.streaming else rows
        if self.context == "pipe":
            values = piped(data, metric, options, by, arguments if self.form == "score" else ())
        else:
            value = expression(metric, options, arguments)
            values = {
                "agg": lambda: data.group_by("g").agg(value),
                "over": lambda: data.with_columns(value.over("g")),
                "select": lambda: data.select(*([by] if by else []), value),
            }[self.context]()
        return values.collect(engine="streaming") if self.streaming else values

    def cannot(self, metric, options, group):
        of_rows = metric in signatures.ROWS or metric in signatures.BEYOND
        return (self.form == "rows" and not of_rows) or super().cannot(metric, options, group)


class PipeLists:
    """df.pipe(rankql.list_ndcg, by="g"), which does not exist"""

    def run(self, metric, groups, options, **types):
        rows = frame(flat(metric, groups), types)
        return of_frame(rows.pipe(getattr(rankql, metric), by="g"))

    def cannot(self, metric, options, group):
        return not metric.startswith("list_")


# evaluate


def name_of(metric, options):
    """The metric in the words of evaluate: its text, and the options that are conventions."""
    options = dict(options)
    discounts = {"discounts": options.pop("discounts")} if options.get("discounts") else {}
    options = {name: value for name, value in options.items() if value is not None}
    cutoff = f"@{options.pop('k')}" if "k" in options else ""
    given = ", ".join(f"{name}={value}" for name, value in options.items())
    plain, micro = metric.removeprefix("micro_"), metric in signatures.MICRO
    known = (m.name for m in EVALUATED if m.macro == plain and bool(m.weight) == micro)
    return f"{next(known, metric)}({given}){cutoff}", discounts


def cannot_evaluate(metric, group):
    """Is it a mean over rankings, is nothing judged, or do items share a position?"""
    if metric in signatures.MICRO or not group:
        return True
    if metric in signatures.RANKING and all(rel is None for rel, *_ in group):
        return True
    taken = [pos for rel, pos, *_ in group if pos is not None and rel is not None and rel > 0]
    return metric not in signatures.RATING and len(taken) > len(set(taken))


@dataclass
class EvaluateRanked:
    """rankql.evaluate(ranked table, metrics="nDCG@10").per_query"""

    def run(self, metric, groups, options, **types):
        data = frame(flat(metric, groups), types)
        if metric in signatures.RATING:
            data = data.with_columns(item=pl.int_range(pl.len()))
        else:  # a query of its own, or all grades may be fractions, which evaluate refuses
            more = pl.DataFrame({"g": [-1], "rel": [1.0], "pos": [1]})
            data = pl.concat([data, more], how="diagonal_relaxed")
        text, discounts = name_of(metric, options)
        result = rankql.evaluate(data, metrics=text, query="g", **AS_MACROS, **discounts)
        values = result.per_query.rename({next(iter(result)): "value"}).filter(pl.col("g") >= 0)
        return in_order(of_frame(values), groups)

    def cannot(self, metric, options, group):
        return cannot_evaluate(metric, group)


# Nothing is filled in for missing queries, and fractions are grades below the threshold.
AS_MACROS = {"interval": None, "missing": "skip", "threshold": 1}


@dataclass
class EvaluateJoined:
    """rankql.evaluate(run, qrels, "nDCG@10", ties="item"), by positions or by scores

    With `rows`, the groups have scores and items; otherwise the score is -pos.
    """

    place: str = "pos"
    rows: bool = False

    def run(self, metric, groups, options, **types):
        data = frame(flat(metric, groups), types)
        if not self.rows:
            item = pl.format("i{}", pl.int_range(pl.len()))
            data = data.with_columns(item=item, score=-pl.col("pos").cast(pl.Float64))
        # A query of its own that is always there: no table is empty.
        more = pl.DataFrame({"g": [-1], "item": ["x"], "rel": [1.0], "score": [1.0], "pos": [1]})
        data = pl.concat([data, more], how="diagonal_relaxed")
        run = data.filter(pl.col(self.place).is_not_null()).select("g", "item", self.place)
        qrels = data.filter(pl.col("rel").is_not_null()).select("g", "item", "rel")
        options = dict(options)
        ties = {"ties": options.pop("ties")} if "ties" in options else {}
        text, discounts = name_of(metric.removesuffix("_by_score"), options)
        result = rankql.evaluate(run, qrels, text, query="g", **AS_MACROS, **ties, **discounts)
        # With the values of missing queries, which the mean leaves out.
        values = result.frame().select("g", value=next(iter(result))).filter(pl.col("g") >= 0)
        return in_order(of_frame(values), groups)

    def cannot(self, metric, options, group):
        if self.rows or metric.endswith("_by_score"):
            return not (self.rows and metric.endswith("_by_score"))
        if metric in signatures.RATING or all(rel is None for rel, *_ in group):
            return True
        # Scores have no gaps.
        return cannot_evaluate(metric, group) or (self.place == "score" and bool(gaps(group)))


class EvaluateWhole:
    """rankql.evaluate(ranked table, metrics="microP@5")["microP@5"], for each group

    It is asked too for what evaluate refuses: rows and metrics that the others leave out.
    """

    def run(self, metric, groups, options, **types):
        given = {"query": "query" if metric in signatures.MICRO else "g", "interval": None}
        given["metrics"], _ = name_of(metric, {n: o for n, o in options.items() if n != "query"})
        if metric not in signatures.ROWS or metric in signatures.TWO_RANKINGS:
            return rankql.evaluate(pl.DataFrame({"g": [0], "rel": [1], "pos": [1]}), **given)
        data = frame(flat(metric, groups), types)
        wholes = (data.filter(pl.col("g") == g) for g in range(len(groups)))
        results = [rankql.evaluate(whole, **given) for whole in wholes]
        return [result[next(iter(result))] for result in results]

    def cannot(self, metric, options, group):
        if metric.endswith("_by_score") or metric in signatures.RATING:
            return True
        return metric in signatures.RANKING and not cannot_evaluate(metric, group)


ROWS = {
    **{"sql": Sql(), "sql whole table": Sql(whole=True)},
    **{"polars": Polars(), "polars streaming": Polars(streaming=True)},
    **{"polars over": Polars("over"), "polars select": Polars("select", whole=True)},
    **{"pipe": Polars("pipe"), "pipe streaming": Polars("pipe", streaming=True)},
}
LIST = {
    **{"sql list": Sql("list"), "polars list": Polars("select", form="list")},
    "polars list streaming": Polars("select", streaming=True, form="list"),
}
SCORE = {
    **{"sql score": Sql("score"), "polars score": Polars(form="score")},
    "polars score streaming": Polars(streaming=True, form="score"),
    "pipe score": Polars("pipe", form="score"),
}
EXPECTED = {
    "sql score expected": Sql("score", ties="expected"),
    "polars score expected": Polars(form="score", ties="expected"),
}
# Whole runs have errors of their own, which test_errors.py is about.
EVALUATE = {
    **{"evaluate ranked": EvaluateRanked(), "evaluate joined": EvaluateJoined()},
    "evaluate scored": EvaluateJoined("score"),
}
# For the hand cases alone.
MORE = {
    "polars over streaming": Polars("over", streaming=True),
    "polars select streaming": Polars("select", streaming=True, whole=True),
    **{"pipe whole": Polars("pipe", whole=True), "pipe list": PipeLists()},
    **{"evaluate scores": EvaluateJoined("score", rows=True), "evaluate whole": EvaluateWhole()},
}
ENGINES = {**ROWS, **LIST, **SCORE, **EXPECTED, **EVALUATE, **MORE}
# One of each kind. The others ask polars in another way, or each group by itself.
PLAIN = ("sql", "polars", "sql list", "polars list", "sql score", "polars score")


def engines_for(metric):
    """The engines that can be asked for this metric at all."""
    if metric.startswith("list_"):
        return LIST
    if metric.endswith("_by_score"):
        return SCORE
    return {**ROWS, **LIST, **SCORE, **EXPECTED} if metric in signatures.RANKING else ROWS


def with_evaluate(metric):
    """Those, and evaluate where it has the metric."""
    whole = metric in (*signatures.RANKING, *signatures.RATING)
    return {**engines_for(metric), **(EVALUATE if whole else {})}


def same(value, expected):
    """Equal to 1e-12, NULL where NULL, and a float."""
    if value is None or expected is None:
        return value is expected
    return type(value) is float and abs(value - expected) <= 1e-12 * (1 + abs(expected))


def differences(engine, metric, groups, options, expected, **types):
    """What the engine gets wrong, as lines to read; groups that it cannot say are left out."""
    able = [g for g, group in enumerate(groups) if not engine.cannot(metric, options, group)]
    if not able:
        return []
    values = engine.run(metric, [groups[g] for g in able], options, **types)
    return [
        f"{call(metric, names(metric), options)} of {groups[g]}: {value}, expected {expected[g]}"
        for g, value in zip(able, values, strict=True)
        if not same(value, expected[g])
    ]


def assert_agree(metric, groups, options, expected, names=None, pool=None, **types):
    """The engines give the expected values."""
    for name, engine in (pool or engines_for)(metric).items():
        if names is None or name in names:
            # A query for each group takes its time: a few groups will do.
            most = 2 if name in ("sql whole table", "polars select") else None
            wrong = differences(engine, metric, groups[:most], options, expected[:most], **types)
            assert not wrong, f"{name}:\n" + "\n".join(wrong)


def state(con):
    """The tables, views and settings of a connection, and the functions that a user may call."""
    return [
        con.execute(f"SELECT * FROM {what} ORDER BY ALL").fetchall()
        for what in (
            "(SELECT table_name FROM duckdb_tables())",
            "(SELECT view_name FROM duckdb_views())",
            "(SELECT name, value FROM duckdb_settings() WHERE name NOT LIKE '%profil%')",
            "(SELECT function_name FROM duckdb_functions() WHERE function_name[:7] <> 'rankql ')",
        )
    ]
