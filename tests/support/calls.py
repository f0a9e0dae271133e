"""The same call in SQL and in polars, and assertions about both."""

import re
from datetime import date, datetime, timedelta

import rankql
from support import metric_engines
from support.metric_engines import complaint


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
    con = con or metric_engines.connection()
    con.register("handed", frame.to_arrow())
    return con


def by_sql(name, frame, arguments, options, con=None):
    """The values of a macro by group `g`."""
    call = f"{name}({', '.join(map(literal, arguments))}{options_of(options)})"
    con = connected(frame, con)
    return dict(con.execute(f"SELECT g, {call} FROM handed GROUP BY g").fetchall())


def by_polars(name, frame, arguments, options, lazy=False):
    """The same of the function, in polars."""
    value = getattr(rankql, name)(*arguments, **options)
    if lazy:
        return dict(frame.lazy().group_by("g").agg(value).collect(engine="streaming").rows())
    return dict(frame.group_by("g").agg(value).rows())


def ways(name, frame, arguments, options):
    columns = [metric_engines.Column(a) if isinstance(a, str) else a for a in arguments]
    named = {
        key: metric_engines.Column(value) if key in ("moment", "weight") else value
        for key, value in options.items()
    }
    yield "sql", lambda: by_sql(name, frame, columns, named)
    yield "polars", lambda: by_polars(name, frame, arguments, options)
    yield "streaming", lambda: by_polars(name, frame, arguments, options, lazy=True)


def assert_values(name, frame, arguments, options, expected):
    for way, run in ways(name, frame, arguments, options):
        found = run()
        assert set(found) == set(expected), way
        wrong = {g: found[g] for g in found if not metric_engines.same(found[g], expected[g])}
        assert not wrong, f"{way}: {wrong}, expected {expected}"


def assert_refused(name, frame, arguments, options, pattern):
    for way, run in ways(name, frame, arguments, options):
        said = complaint(run)
        assert re.fullmatch(pattern, said), f"{way}: {said}"


def table_ways(name, frame, options):
    """A table macro over a table, a view of it in the query, and the function of a frame."""
    call = f"{name}('handed'{options_of(options)})"
    yield "sql", lambda: connected(frame).sql(f"FROM {call}").pl()
    function = getattr(rankql, name)
    yield "polars", lambda: function(frame.lazy(), **options).collect(engine="streaming")


def assert_table(name, frame, options, expected):
    """The rows, in their order; those of a log in any."""
    for way, run in table_ways(name, frame, options):
        found = run()
        assert found.columns == list(expected[0]) if expected else True, way
        rows = found.rows(named=True)
        if name in ("leave_one_out", "time_split"):
            rows, wanted = (
                sorted(r, key=lambda x: str(list(x.values()))) for r in (rows, expected)
            )
        else:
            wanted = expected
        assert len(rows) == len(wanted), f"{way}: {rows}"
        for row, want in zip(rows, wanted, strict=True):
            for column, value in want.items():
                same = metric_engines.same(row[column], value) if isinstance(value, float) else (
                    row[column] == value)  # fmt: skip
                assert same, f"{way}: {row}, expected {want}"


def assert_table_refused(name, frame, options, pattern):
    for way, run in table_ways(name, frame, options):
        said = complaint(run)
        assert re.fullmatch(pattern, said), f"{way}: {said}"
