"""The same call in SQL and in polars, and assertions about both."""

import operator
import re
import zlib
from datetime import date, datetime, timedelta

import rankql
from support import metric_engines
from support.metric_engines import complaint

# Whose rows may come in any order.
SPLITS = ("leave_one_out", "time_split")
# The functions that estimate propensities, and their options.
PROPENSITIES = [("randomised_propensity", {}), ("harvested_propensity", {})]
PROPENSITIES += [("harvested_propensity", {"pairs": pairs}) for pairs in ("adjacent", "first")]


def literal(value):
    """A value as SQL."""
    if isinstance(value, dict):
        return f"MAP {{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, datetime):
        return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, timedelta):
        return f"INTERVAL '{value // timedelta(microseconds=1)} microseconds'"
    return metric_engines.literal(value)


def options_of(options):
    return "".join(f", {name} := {literal(value)}" for name, value in options.items())


def connected(frame, con=None):
    """A connection in which the frame is the table input_rows."""
    con = con or metric_engines.connection()
    con.register("input_rows", frame.to_arrow())
    return con


def by_sql(name, frame, arguments, options, con=None):
    """The values of a macro by group `g`."""
    call = f"{name}({', '.join(map(literal, arguments))}{options_of(options)})"
    query = f"SELECT g, {call} FROM input_rows GROUP BY g"
    return dict(connected(frame, con).execute(query).fetchall())


def by_polars(name, frame, arguments, options, engine):
    """The values of a function by group `g`."""
    value = getattr(rankql, name)(*arguments, **options)
    return dict(frame.lazy().group_by("g").agg(value).collect(engine=engine).rows())


def ways(name, frame, arguments, options):
    """A macro of the groups `g`, and the function in the engines of polars, which take turns."""
    columns = [metric_engines.Column(a) if isinstance(a, str) else a for a in arguments]
    named = {
        key: metric_engines.Column(value) if key in ("moment", "weight") else value
        for key, value in options.items()
    }
    yield "sql", lambda: by_sql(name, frame, columns, named)
    turn = zlib.crc32(repr((name, arguments, options, frame.rows())).encode()) % 2
    engine = ("in-memory", "streaming")[turn]
    yield engine, lambda: by_polars(name, frame, arguments, options, engine)


# Of a connection, which change no table.
SETTINGS = {
    "default_null_order": "nulls_first", "default_order": "desc", "integer_division": True,
    "threads": 1, "default_collation": "nocase",
}  # fmt: skip


def table_ways(name, frame, options):
    """A table macro, under other settings, and the function of a frame."""
    con = metric_engines.connection(**SETTINGS)
    call = f"{name}('input_rows'{options_of(options)})"
    yield "sql", lambda: connected(frame, con).sql(f"FROM {call}").pl()
    function = getattr(rankql, name)
    yield "polars", lambda: function(frame.lazy(), **options).collect(engine="streaming")


def both(call, frame):
    """The value of `ndcg(rel, pos, k := 10)` over a frame, in SQL and in polars."""
    return in_sql(call, frame), in_polars(call, frame)


def in_sql(call, frame):
    return connected(frame).execute(f"SELECT {call} FROM input_rows").fetchall()[0][0]


def in_polars(call, frame):
    """The same text as Python: columns by name, options with `=`."""
    scope = {name: name for name in frame.columns}
    scope |= {name: getattr(rankql, name) for name in re.findall(r"\w+(?=\()", call)}
    return frame.select(eval(call.replace(":=", "="), scope)).item()


def assert_both_refuse(call, frame, pattern):
    for way in (in_sql, in_polars):
        message = complaint(lambda way=way: way(call, frame))
        assert re.match(pattern, message), f"{way.__name__}: {message}"


def assert_values(name, frame, arguments, options, expected):
    for way, run in ways(name, frame, arguments, options):
        values = run()
        assert set(values) == set(expected), way
        wrong = {g: values[g] for g in values if not metric_engines.same(values[g], expected[g])}
        assert not wrong, f"{way}: {wrong}, expected {expected}"


def assert_rows(name, way, result, expected):
    """The rows, in their order; those of splits in any."""
    assert not expected or result.columns == list(expected[0]), way
    rows = result.rows(named=True)
    if name in SPLITS:
        rows, expected = (sorted(r, key=lambda x: str([*x.values()])) for r in (rows, expected))
    assert len(rows) == len(expected), f"{way}: {rows}"
    for row, values in zip(rows, expected, strict=True):
        for column, value in values.items():
            same = metric_engines.same if isinstance(value, float) else operator.eq
            assert same(row[column], value), f"{way}: {row}, expected {values}"


def assert_table(name, frame, options, expected):
    for way, run in table_ways(name, frame, options):
        assert_rows(name, way, run(), expected)


def assert_message(way, run, pattern):
    message = complaint(run)
    assert re.fullmatch(pattern, message), f"{way}: {message}"


def assert_refused(name, frame, arguments, options, pattern):
    for way, run in ways(name, frame, arguments, options):
        assert_message(way, run, pattern)


def assert_table_refused(name, frame, options, pattern):
    for way, run in table_ways(name, frame, options):
        assert_message(way, run, pattern)
