"""Propensities: how likely each position is looked at, relative to the first, from a log.

The log has a row for each item shown: query, item, position, and whether it was clicked. Under the
position-based model a click has the chance propensity(position) * attraction(query, item); of the
propensities only the ratios can be told, so that of position 1 is 1. The model has no trust bias:
that higher positions are clicked for being there, whatever is seen.

A propensity that comes out above 1 is left as it is: weight clicks by the lesser of it and 1. One
that cannot be told is NULL, and `note` says why; `component` is the lowest position with which a
position is connected, step by step, by what the method compares. Intervals are those of logarithms,
by the sandwich of scores summed by query, whose clicks need not be independent; they are too short
where they rest on few queries, which `note` says of fewer than 30. A row without a position was not
shown and does not count; its click may be NULL, but its query and item may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from rankql.arguments import Column, check, check_pos, column, number, option, z
from rankql.debias import check_clicks
from rankql.forms import Frame, need_columns, sort_key

Vector: TypeAlias = list[float]
Matrix: TypeAlias = list[list[float]]
Method: TypeAlias = "Callable[[pl.DataFrame], _Told]"


def randomised_propensity(
    frame: Frame,
    query: Column = "query",
    pos: Column = "pos",
    click: Column = "click",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> Frame:
    """Propensities of positions from a log in which what stands where was drawn at random.

    The click rate of a position over that of position 1. A slot need not have been drawn in every
    query, but what stands there must not depend on the position: else use harvesting. A log without
    position 1, or of clicks alone, is an error. Joachims, Swaminathan and Schnabel 2017.

    >>> log = pl.DataFrame({"query": [1, 1, 2, 2], "pos": [1, 2, 1, 2], "click": [1, 1, 1, 0]})
    >>> log.pipe(randomised_propensity).select("pos", "propensity", "impressions", "clicks").rows()
    [(1, 1.0, 2, 2), (2, 0.5, 2, 1)]
    """
    columns = {"s": slice, "q": query, "k": pos, "c": click}
    return _estimated(frame, columns, confidence, _randomised)


def harvested_propensity(
    frame: Frame,
    pairs: str = "all",
    query: Column = "query",
    item: Column = "item",
    pos: Column = "pos",
    click: Column = "click",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> Frame:
    """Propensities of positions from items that one query has shown at several of them.

    The clicks at positions k and l of a query and item shown n_k and n_l times there are compared
    as if both were n_k n_l / (n_k + n_l) times (Mantel and Haenszel); sums of these, over queries
    and items, are in the ratio of the propensities. Of "all" pairs it is the Bradley-Terry model
    that fits them best; of "adjacent" ones a chain from position 1; of those with the "first" their
    ratio. What a query shows at one position alone tells nothing. AllPairs, AdjacentChain and
    PivotOne of Agarwal et al. 2019, with weights.

    >>> rows = [("a", 1, 1), ("a", 1, 1), ("a", 2, 1), ("a", 2, 0), ("b", 2, 1), ("c", 1, 0)]
    >>> log = pl.DataFrame(rows, ["item", "pos", "click"], orient="row").with_columns(query=1)
    >>> log.pipe(harvested_propensity).select("pos", pl.col("propensity").round(9), "note").rows()
    [(1, 1.0, None), (2, 0.5, 'no interval: it rests on one query')]
    """
    option("pairs", pairs, "all", "adjacent", "first")
    columns = {"s": slice, "q": query, "i": item, "k": pos, "c": click}
    return _estimated(frame, columns, confidence, partial(_harvested, pairs=pairs))


def click_model(
    frame: Frame,
    query: Column = "query",
    item: Column = "item",
    pos: Column = "pos",
    click: Column = "click",
    slice: Column | None = None,
    confidence: float = 0.95,
    tolerance: float = 1e-9,
    max_iterations: int = 10000,
) -> Frame:
    """The position-based click model: the propensities under which the clicks are most likely.

    A look has a chance of at most 1, and so has a click on what is looked at, each query and item
    having that which is best: where EM ends (Wang et al. 2018), but by Newton's method, as EM
    creeps where clicks are rare. `iterations` counts its steps; `converged` says that the next
    would move no propensity by more than `tolerance` of itself.

    With few impressions of each query and item it is biased towards equal propensities, as each has
    an attraction of its own to fit, of at most 1; harvesting is not: use that.

    >>> shown = [(1, 1, 6, 10), (1, 2, 3, 10), (2, 1, 4, 10), (2, 2, 2, 10)]
    >>> rows = [(q, "a", pos, int(j < c)) for q, pos, c, n in shown for j in range(n)]
    >>> log = pl.DataFrame(rows, ["query", "item", "pos", "click"], orient="row")
    >>> log.pipe(click_model).select(pl.col("propensity").round(9), "converged").rows()
    [(1.0, True), (0.5, True)]
    """
    ok = 0 < number(tolerance) < 1
    check(ok, f"tolerance must lie between 0 and 1, not {tolerance}")
    ok = number(max_iterations) >= 1 and number(max_iterations) % 1 == 0
    check(ok, f"max_iterations must be a whole number from 1, not {max_iterations}")
    columns = {"s": slice, "q": query, "i": item, "k": pos, "c": click}
    method = partial(_modelled, tolerance=tolerance, most=int(max_iterations))
    return _estimated(frame, columns, confidence, method, iterated=True)


class _Told(NamedTuple):
    """What a method tells of positions: logarithms x, their standard errors, and how it went."""

    component: dict[int, int]
    x: dict[int, float]
    error: dict[int, float]
    queries: dict[int, int]
    held: Collection[int] = ()
    turns: int = 0
    done: bool = True


def _estimated(
    frame: Frame,
    columns: dict[str, Column | None],
    confidence: float,
    method: Method,
    iterated: bool = False,
) -> Frame:
    """The rows of the result, slice by slice."""
    errors = z(confidence)
    exprs = {name: column(given) for name, given in columns.items() if given is not None}
    need_columns(frame, *exprs.values())
    names = {name: expr.meta.output_name() for name, expr in exprs.items()}
    given = frame.lazy().select(**{"s": pl.lit(0), "i": pl.lit(0), **exprs})
    schema: dict[str, Any] = {"slice": given.collect_schema()["s"], **_SCHEMA}

    def found(log: pl.DataFrame) -> pl.DataFrame:
        rows = [
            {"slice": s, **row}
            for s, cells in _slices(_cells(log, names), names)
            for row in _rows(cells, method, errors)
        ]
        return pl.DataFrame(rows, schema, orient="row")

    lazily = given.map_batches(
        found,
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
        schema=schema,
    )
    lazily = lazily.drop(
        [] if "s" in names else "slice", [] if iterated else ["iterations", "converged"]
    )
    return lazily if isinstance(frame, pl.LazyFrame) else lazily.collect()


_SCHEMA = {
    "pos": pl.Int64,
    "propensity": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "impressions": pl.Int64,
    "clicks": pl.Int64,
    "component": pl.Int64,
    "iterations": pl.Int64,
    "converged": pl.Boolean,
    "note": pl.String,
}


def _cells(log: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """The impressions and clicks of each item of each query by position."""
    check_pos(log["k"], names["k"])
    for name in ("q", "i"):
        check(log[name].null_count() == 0, f"{names.get(name)} must not be NULL")
    clicked = check_clicks(log["c"], names["c"])
    shown = log.with_columns(c=clicked, k=pl.col("k").cast(pl.Int64)).drop_nulls("k")
    check(shown["c"].null_count() == 0, f"{names['c']} must be 0 or 1, not NULL")
    n, c = pl.len().cast(pl.Float64), pl.col("c").sum()
    cells = shown.group_by("s", "q", "i", "k").agg(n=n, c=c)
    check(
        cells.is_empty() or cells["n"].sum() > cells["c"].sum(),
        "the log holds clicks only; propensities need the impressions without a click too",
    )
    return cells


def _slices(cells: pl.DataFrame, names: dict[str, str]) -> Iterator[tuple[Any, pl.DataFrame]]:
    cells = cells.sort(sort_key("s", cells["s"].dtype), nulls_last=True)
    for (s,), part in cells.group_by("s", maintain_order=True):
        where = f"; there are none where {names['s']} is {_word(s)}" if "s" in names else ""
        message = "the log must have rows at position 1, to which propensities are relative"
        check((part["k"] == 1).any(), message + where)
        yield s, part.drop("s").sort("q", "i", "k")


def _word(value: object) -> str:
    """A value as SQL shows it."""
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(cells: pl.DataFrame, method: Method, errors: float) -> Iterator[dict[str, Any]]:
    """The positions of a slice, each with what is told of it."""
    totals = _totals(cells)
    told = method(cells)
    for k, (n, c) in totals.items():
        x, reach = told.x.get(k), errors * told.error.get(k, math.inf)
        lo, value, hi = (None, None, None) if x is None else (x - reach, x, x + reach)
        if not told.done or reach + abs(x or 0) > 700:  # beyond all numbers
            lo = hi = None
        lo, value, hi = (0, 0, 0) if k == 1 else (lo, value, hi)
        yield {
            "pos": k,
            "propensity": None if value is None else math.exp(value),
            "lo": None if lo is None else math.exp(lo),
            "hi": None if hi is None else math.exp(hi),
            "impressions": int(n),
            "clicks": int(c),
            "component": told.component[k],
            "iterations": told.turns,
            "converged": told.done,
            "note": _note(k, c, totals[1][1], lo, told),
        }


def _totals(cells: pl.DataFrame) -> dict[int, tuple[float, float]]:
    """The impressions and clicks of each position."""
    sums = cells.group_by("k").agg(pl.col("n", "c").sum()).sort("k")
    return {k: (n, c) for k, n, c in sums.rows()}


def _note(k: int, c: float, first: float, lo: float | None, told: _Told) -> str | None:
    """Why a position has no propensity, or no interval, or one to beware of."""
    if k == 1:
        return None
    if c == 0:
        return "no click"
    if first == 0:
        return "no click at position 1"
    if told.component[k] > 1:
        return "not connected with position 1"
    if k not in told.x:
        return "too few clicks compare it with position 1"
    if not told.done:
        return "not converged: raise max_iterations or use harvested_propensity"
    if k in told.held and 1 in told.held:
        return "no interval: it is 1, the most that the model allows"
    queries = min(told.queries.get(k, 0), told.queries.get(1, 0))
    if queries < 2:
        return "no interval: it rests on one query"
    if lo is None:
        return "no interval: too few clicks"
    return "the interval rests on fewer than 30 queries" if queries < 30 else None


def _randomised(cells: pl.DataFrame) -> _Told:
    totals = _totals(cells)
    (n1, c1), component = totals[1], dict.fromkeys(totals, 1)
    x = {k: math.log(c / n * n1 / c1) for k, (n, c) in totals.items() if c > 0 and c1 > 0}
    # How far each query moves the logarithm of the rate of each position, and of the first.
    n, c = (pl.col(name).sum().over("k") for name in ("n", "c"))
    moves = cells.select("q", "k", move=(pl.col("c") - pl.col("n") * c / n) / c)
    first = moves.filter(pl.col("k") == 1).select("q", first="move")
    paired = moves.join(first, on="q", how="left").with_columns(pl.col("first").fill_null(0))
    found = paired.group_by("k").agg(
        own=pl.col("move").pow(2).sum(),
        shared=(pl.col("move") * pl.col("first")).sum(),
        queries=pl.len(),
    )
    spread = {k: (own, shared, shown) for k, own, shared, shown in found.rows()}
    queries = cells["q"].n_unique()
    error = {
        k: math.sqrt(max(0, own + spread[1][0] - 2 * shared) * queries / (queries - 1))
        for k, (own, shared, shown) in spread.items()
        if k in x and min(shown, spread[1][2]) > 1
    }
    return _Told(component, x, error, {k: shown for k, (_, _, shown) in spread.items()})


def _harvested(cells: pl.DataFrame, pairs: str) -> _Told:
    # Of the two positions, the clicks of each, both shown equally often.
    one, two = pl.col("k"), pl.col("l")
    wanted = {"all": one < two, "adjacent": one + 1 == two, "first": (one == 1) & (two > 1)}
    other = cells.rename({"k": "l", "n": "m", "c": "d"})
    n, m = pl.col("n"), pl.col("m")
    games = (
        cells.join(other, on=["q", "i"])
        .filter(wanted[pairs])
        .group_by("q", "k", "l")
        .agg(x=(pl.col("c") * m / (n + m)).sum(), y=(pl.col("d") * n / (n + m)).sum())
    )
    sums = games.group_by("k", "l").agg(pl.col("x", "y").sum())
    edges = [(a, b, x > 0) for a, b, x, _ in sums.rows()]
    edges += [(b, a, y > 0) for a, b, _, y in sums.rows()]
    return _likeliest(_totals(cells), edges, _sides(games), _sides(sums), 1e-9, 1000)


def _sides(games: pl.DataFrame) -> pl.DataFrame:
    """Pairs as units of the click model, shown so often that no limit of 1 binds.

    Their likelihood is then that of Bradley and Terry.
    """
    games = games.with_row_index("unit").with_columns(n=pl.lit(1e30))
    one = games.drop("l", "y").rename({"x": "c"})
    two = games.drop("k", "x").rename({"l": "k", "y": "c"})
    return pl.concat([one, two], how="diagonal")


def _modelled(cells: pl.DataFrame, tolerance: float, most: int) -> _Told:
    # What was never clicked has the attraction 0 and tells nothing.
    units = cells.filter(pl.col("c").sum().over("q", "i") > 0)
    units = units.with_columns(unit=pl.struct("q", "i").rle_id())
    met = units.join(units.select("unit", l="k"), on="unit").select("k", "l").unique()
    edges = [(a, b, True) for a, b in met.rows() if a != b]
    return _likeliest(_totals(cells), edges, units, units, tolerance, most)


def _likeliest(
    totals: dict[int, tuple[float, float]],
    edges: list[tuple[int, int, bool]],
    units: pl.DataFrame,
    sums: pl.DataFrame,
    tolerance: float,
    most: int,
) -> _Told:
    """Where the clicks of units are most likely, by Newton's method: their likelihood is concave.

    A step from x to y is halved where it falls at y more than half as fast as it rose.
    """
    component, told = _connected(totals, edges)
    units, sums = _telling(units, told), _telling(sums, told)
    if sums.is_empty():
        return _Told(component, {}, {}, {})
    clicks, still = [totals[k][1] for k in told], [0.0] * len(told)
    x = y = _moved([math.log(c / n) for n, c in (totals[k] for k in told)], still)
    step, slope, turns, done = still, still, 0, False
    while not done and turns < most:
        (fresh, matrix), turns = _slopes(_seen(sums, y), len(y)), turns + 1
        if sum((fresh[i] + slope[i] / 2) * (y[i] - a) for i, a in enumerate(x)) >= 0:
            x, step, slope = y, _newton(y, fresh, matrix, clicks), fresh
            y = _moved(x, step)
            done = max(abs(y[i] - a) for i, a in enumerate(x)) < tolerance
        else:
            step = [a / 2 for a in step]
            y = _moved(x, step)

    # The covariance: how far each query moves each position against the first.
    bound = [u > 1e-6 * c for u, c in zip(slope, clicks, strict=True)]
    held = bound if any(bound) else [k == 1 for k in told]
    inverse = _inverse(matrix, [_HELD if stays else 0.0 for stays in held])
    apart = [[a - inverse[0][j] for j, a in enumerate(line)] for line in inverse]
    slopes = _seen(units, y).group_by("q", "j").agg(pl.col("u").sum())
    way = (pl.Series(str(i), line).gather(slopes["j"]) for i, line in enumerate(apart))
    moves = slopes.select("q", *(to * slopes["u"] for to in way))
    moves = moves.group_by("q").agg(pl.all().sum())
    squares = moves.select(pl.exclude("q").pow(2).sum()).row(0)
    number_of = {told[j]: n for j, n in slopes.group_by("j").len().rows()}
    values: dict[int, float] = {}
    error: dict[int, float] = {}
    for i, k in enumerate(told):
        if not done or not math.isnan(sum(apart[i])):
            values[k] = y[i] - y[0]
            if min(number_of.get(k, 0), number_of.get(1, 0)) > 1 and not (held[i] and held[0]):
                error[k] = math.sqrt(squares[i] * len(moves) / (len(moves) - 1))
    limits = [k for k, stays in zip(told, held, strict=True) if stays]
    return _Told(component, values, error, number_of, limits, turns, done)


def _moved(x: Vector, step: Vector) -> Vector:
    """A step from x, as far as the limit of 1 lets it go.

    The best position is always looked at: to look less at all is never more likely.
    """
    y = [min(0.0, a + b) for a, b in zip(x, step, strict=True)]
    return [a - max(y) for a in y]


def _newton(x: Vector, slope: Vector, matrix: Matrix, clicks: Vector) -> Vector:
    """Newton's step, damped, as some directions may be flat; what the limit of 1 binds stays."""
    more = [_HELD if a == 0 and slope[i] > 0 else 1e-6 * clicks[i] for i, a in enumerate(x)]
    step = [sum(a * slope[j] for j, a in enumerate(line)) for line in _inverse(matrix, more)]
    return [a / max(1, *map(abs, step)) for a in step]


def _telling(units: pl.DataFrame, told: list[int]) -> pl.DataFrame:
    """What tells of positions that can be told, these numbered."""
    ranks = pl.col("k").replace_strict(told, range(len(told)), default=None, return_dtype=pl.Int64)
    clicks = pl.col("c").sum().over("unit")
    units = units.with_columns(j=ranks, m=pl.col("n") - pl.col("c")).drop_nulls("j")
    units = units.with_columns(clicks=clicks, size=pl.len().over("unit"))
    return units.filter(pl.col("clicks") > 0)


def _seen(cells: pl.DataFrame, x: Vector) -> pl.DataFrame:
    """With u and w, of the slope and the curvature.

    An attraction moves along where its limit of 1 does not bind it: where its clicks are as many as
    expected. Of an item at one position nothing then remains.
    """
    u, w, p, m = (pl.col(name) for name in ("u", "w", "p", "m"))
    odds = pl.when(m > 0).then(p / (1 - p)).otherwise(0)
    bound = u.sum().over("unit") > 1e-10 * pl.col("clicks")
    return (
        _attracted(cells, x)
        .with_columns(p=p * pl.col("r"))
        .with_columns(u=pl.col("c") - m * odds, w=m * odds * (1 + odds))
        .filter(bound | (pl.col("size") > 1))
        .with_columns(share=pl.when(~bound & (w > 0)).then(w / w.sum().over("unit")).otherwise(0))
    )


def _slopes(seen: pl.DataFrame, size: int) -> tuple[Vector, Matrix]:
    slope, matrix = [0.0] * size, [[0.0] * size for _ in range(size)]
    for j, by, on in seen.group_by("j").agg(pl.col("u").sum(), pl.col("w").sum()).rows():
        slope[j], matrix[j][j] = by, on
    pairs = seen.join(seen.select("unit", l="j", v="w"), on="unit").group_by("j", "l")
    for i, j, h in pairs.agg((pl.col("share") * pl.col("v")).sum()).rows():
        matrix[i][j] -= h
    return slope, matrix


# The curvature of a position that its limit binds: so large that it stays.
_HELD = 1e300


def _attracted(cells: pl.DataFrame, x: Vector) -> pl.DataFrame:
    """With p, the propensity, and r, the attraction, at most 1, that makes the clicks most likely.

    The odds o of a click at the best position with unclicked impressions solve: clicks = sum of
    m share o / (1 + (1 - share) o), share being p over the best; this rises ever less, so that
    Newton's steps from below stay below.
    """
    m, o, share = pl.col("m"), pl.col("o"), pl.col("share")
    cells = cells.with_columns(
        p=pl.Series(x).exp().gather(cells["j"]), clicks=pl.col("c").sum().over("unit")
    ).with_columns(best=pl.when(m > 0).then(pl.col("p")).max().over("unit"))
    cells = cells.with_columns(share=pl.col("p") / pl.col("best"))
    cells = cells.with_columns(o=pl.col("clicks") / (m * share).sum().over("unit"))
    for _ in range(8):
        down = 1 + (1 - share) * o
        beyond = pl.col("clicks") - (m * share * o / down).sum().over("unit")
        before = cells["o"]
        cells = cells.with_columns(o=o + beyond / (m * share / (down * down)).sum().over("unit"))
        if not (cells["o"] > before * (1 + 1e-15)).any():
            break
    r = pl.min_horizontal(1.0, o / (1 + o) / pl.col("best"))
    return cells.with_columns(r=pl.when(pl.col("best").is_null()).then(1.0).otherwise(r))


def _connected(
    totals: dict[int, tuple[float, float]], edges: Iterable[tuple[int, int, bool]]
) -> tuple[dict[int, int], list[int]]:
    """The lowest position that each is connected with, and those that can be told from 1.

    An edge (a, b, win) is there where a and b are compared, with `win` where clicks say that a is
    not infinitely worse than b. A position without a click has the propensity 0, and compares
    nothing.
    """
    both: dict[int, set[int]] = {k: set() for k in totals}
    ahead: dict[int, set[int]] = {k: set() for k in totals}
    back: dict[int, set[int]] = {k: set() for k in totals}
    for a, b, win in edges:
        both[a].add(b)
        if win and totals[b][1] > 0:
            ahead[a].add(b)
            back[b].add(a)
    component: dict[int, int] = {}
    for k in totals:
        if k not in component:
            component |= dict.fromkeys(_reached(k, both), k)
    return component, sorted(_reached(1, ahead) & _reached(1, back))


def _reached(start: int, edges: dict[int, set[int]]) -> set[int]:
    seen, last = {start}, {start}
    while last:
        last = set().union(*(edges[k] for k in last)) - seen
        seen |= last
    return seen


def _inverse(matrix: Matrix, more: Vector) -> Matrix:
    """The inverse of a matrix, `more` added to its diagonal, by Gauss and Jordan.

    The matrices are positive definite, without pivots; where they are not, it is NaN.
    """
    size = range(len(matrix))
    whole = [
        [a + more[i] * (i == j) for j, a in enumerate(line)] + [float(i == j) for j in size]
        for i, line in enumerate(matrix)
    ]
    lines = whole.copy()
    for i in size:
        sound = lines[i][i] > 1e-12 * whole[i][i]
        top = lines[i] = [a / lines[i][i] if sound else math.nan for a in lines[i]]
        for j, line in enumerate(lines):
            if j != i and line[i] != 0:
                lines[j] = [a - line[i] * b for a, b in zip(line, top, strict=True)]
    return [line[len(lines) :] for line in lines]
