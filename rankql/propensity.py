"""Propensities: how likely each position is looked at, relative to the first, from a log.

The log has a row for each item shown: query, item, position, and whether it was clicked. Under the
position-based model a click has the chance propensity(position) * attraction(query, item); of the
propensities only the ratios can be told, so that of position 1 is 1. The model has no trust bias:
that higher positions are clicked for being there, whatever is seen.

A propensity that comes out above 1 is left as it is: weight clicks by the lesser of it and 1. One
that cannot be told is NULL, and `note` says why; `component` is the lowest position with which a
position is connected, step by step, by what the method compares. Intervals are those of logarithms,
by the sandwich of scores summed by query, whose clicks need not be independent, for many queries. A
row without a position was not shown and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from rankql.arguments import Column, check, check_pos, column, number, option, z
from rankql.debias import check_clicks
from rankql.forms import Frame, need_columns

Matrix: TypeAlias = list[list[float]]
# What is known at a place: the likelihood, its slope, its curvature.
Seen: TypeAlias = tuple[float, list[float], Matrix]
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
    max_iterations: int = 100,
) -> Frame:
    """The position-based click model: the propensities under which the clicks are most likely.

    Where the EM of Wang et al. 2018 ends, with a chance of at most 1 for a look and for a click on
    what is looked at. EM takes thousands of steps where clicks are rare; here it is Newton's method
    on the likelihood, attractions at their best, which `converged` when no propensity moves by more
    than `tolerance` of itself. With few impressions of each query and item the estimate is biased
    towards equal propensities, as each has an attraction of its own to fit; harvesting is not.

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
    error: dict[int, float | None]
    bound: Collection[int] = ()
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
    shown = log.filter(pl.col("k").is_not_null())
    for name in ("q", "i"):
        check(shown[name].null_count() == 0, f"{names.get(name)} must not be NULL")
    check(shown["c"].null_count() == 0, f"{names['c']} must be 0 or 1, not NULL")
    clicked = check_clicks(shown["c"], names["c"])
    shown = shown.with_columns(c=clicked, k=pl.col("k").cast(pl.Int64))
    n, c = pl.len().cast(pl.Float64), pl.col("c").sum()
    cells = shown.group_by("s", "q", "i", "k").agg(n=n, c=c)
    check(
        cells.is_empty() or cells["n"].sum() > cells["c"].sum(),
        "the log holds clicks only; propensities need the impressions without a click too",
    )
    return cells


def _slices(cells: pl.DataFrame, names: dict[str, str]) -> Iterator[tuple[Any, pl.DataFrame]]:
    for (s,), part in cells.sort("s", nulls_last=True).group_by("s", maintain_order=True):
        where = f"; there are none where {names['s']} is {_word(s)}" if "s" in names else ""
        message = "the log must have rows at position 1, to which propensities are relative"
        check((part["k"] == 1).any(), message + where)
        yield s, part.drop("s")


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
        x, error = told.x.get(k), told.error.get(k)
        reach = None if x is None or error is None else errors * error
        yield {
            "pos": k,
            "propensity": _power(k, x),
            "lo": _power(k, None if x is None or reach is None else x - reach),
            "hi": _power(k, None if x is None or reach is None else x + reach),
            "impressions": int(n),
            "clicks": int(c),
            "component": told.component[k],
            "iterations": told.turns,
            "converged": told.done,
            "note": _note(k, c, totals[1][1], reach, told),
        }


def _totals(cells: pl.DataFrame) -> dict[int, tuple[float, float]]:
    """The impressions and clicks of each position."""
    sums = cells.group_by("k").agg(pl.col("n", "c").sum()).sort("k")
    return {k: (n, c) for k, n, c in sums.rows()}


def _power(k: int, x: float | None) -> float | None:
    """Position 1 is what the others are relative to. A bound beyond all numbers is none."""
    if k == 1:
        return 1.0
    return None if x is None or abs(x) >= 700 else math.exp(x)


def _note(k: int, c: float, first: float, reach: float | None, told: _Told) -> str | None:
    """Why a position has no propensity, or no interval."""
    if k == 1:
        return None
    if c == 0:
        return "no click"
    if first == 0:
        return "no click at position 1"
    if told.component[k] > 1:
        return "not connected with position 1"
    if k not in told.x:
        return "no clicks that compare it with position 1"
    if not told.done:
        return "not converged; raise max_iterations"
    if k in told.bound:
        return "no interval: as high as an attraction of 1 lets it be"
    return "no interval: it rests on one query" if reach is None else None


def _randomised(cells: pl.DataFrame) -> _Told:
    totals = _totals(cells)
    (n1, c1), component = totals[1], dict.fromkeys(totals, 1)
    x = {k: math.log(c / n * n1 / c1) for k, (n, c) in totals.items() if c > 0 and c1 > 0}
    queries = cells["q"].n_unique()
    if c1 == 0 or queries < 2:
        return _Told(component, x, {})
    # How far each query moves the logarithm of the rate of each position, and of the first.
    n, c = (pl.col(name).sum().over("k") for name in ("n", "c"))
    moves = cells.select("q", "k", move=(pl.col("c") - pl.col("n") * c / n) / c)
    first = moves.filter(pl.col("k") == 1).select("q", first="move")
    paired = moves.join(first, on="q", how="left").with_columns(pl.col("first").fill_null(0))
    squares = paired.group_by("k").agg(
        own=pl.col("move").pow(2).sum(), shared=(pl.col("move") * pl.col("first")).sum()
    )
    own = {k: (own, shared) for k, own, shared in squares.rows()}
    scale = queries / (queries - 1)
    error: dict[int, float | None] = {
        k: math.sqrt(max(0, own[k][0] + own[1][0] - 2 * own[k][1]) * scale) for k in x
    }
    return _Told(component, x, error)


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
    sums = games.group_by("k", "l").agg(pl.col("x", "y").sum()).rows()
    totals = _totals(cells)
    edges = [(a, b, x > 0) for a, b, x, _ in sums] + [(b, a, y > 0) for a, b, _, y in sums]
    component, told = _connected(totals, edges)
    at = {k: i for i, k in enumerate(told)}
    known = [(at[a], at[b], x, y) for a, b, x, y in sums if a in at and b in at and x + y > 0]

    def look(x: Sequence[float]) -> Seen:
        f, slope, matrix = 0.0, [0.0] * len(x), [[0.0] * len(x) for _ in x]
        for i, j, wins, losses in known:
            p, off = 1 / (1 + math.exp(x[j] - x[i])), 1 / (1 + math.exp(x[i] - x[j]))
            u, w = wins * off - losses * p, (wins + losses) * p * off
            f += wins * math.log(p) + losses * math.log(off)
            slope[i], slope[j] = slope[i] + u, slope[j] - u
            matrix[i][i], matrix[j][j] = matrix[i][i] + w, matrix[j][j] + w
            matrix[i][j], matrix[j][i] = matrix[i][j] - w, matrix[j][i] - w
        return f, slope, matrix

    guess = [_rate(*totals[k]) for k in told]
    x, held, matrix, turns, done = _climb(look, guess, 1e-9, 1000, bounded=False)
    games = games.filter(one.is_in(told) & two.is_in(told) & (pl.col("x") + pl.col("y") > 0))
    apart = _mapped(two, told, x) - _mapped(one, told, x)
    u = pl.col("x") / (1 + (-apart).exp()) - pl.col("y") / (1 + apart.exp())
    sides = games.with_columns(u=u)
    slopes = pl.concat([sides.select("q", "k", "u"), sides.select("q", k="l", u=-pl.col("u"))])
    return _told(component, told, x, held, matrix, slopes, turns, done)


def _modelled(cells: pl.DataFrame, tolerance: float, most: int) -> _Told:
    totals = _totals(cells)
    unit = ["q", "i"]
    cells = cells.with_columns(clicks=pl.col("c").sum().over(unit))
    met = cells.join(cells.select(*unit, l="k"), on=unit).filter(pl.col("k") != pl.col("l"))
    edges = met.group_by("k", "l").agg((pl.col("clicks") > 0).any()).rows()
    component, told = _connected(totals, edges)
    # No comparison without clicks, no position alone (unless it was always clicked, which an
    # attraction of at most 1 has to explain).
    cells = cells.filter(pl.col("k").is_in(told)).with_columns(
        clicks=pl.col("c").sum().over(unit), size=pl.len().over(unit)
    )
    always = pl.col("n") == pl.col("c")
    cells = cells.filter((pl.col("clicks") > 0) & ((pl.col("size") > 1) | always))
    cells = cells.with_columns(unit=pl.struct(unit).rank("dense"), m=pl.col("n") - pl.col("c"))

    def at(x: Sequence[float]) -> pl.DataFrame:
        """The slope and curvature of each cell, and whether its attraction moves along."""
        r = _attraction(cells.with_columns(p=_mapped(pl.col("k"), told, x).exp()))
        p, m, c = pl.col("p"), pl.col("m"), pl.col("c")
        off = pl.when(m > 0).then(1 - p).otherwise(1)
        seen = r.with_columns(p=p * pl.col("r")).with_columns(
            f=pl.when(c > 0).then(c * p.log()).otherwise(0) + m * off.log(),
            u=c - m * p / off,
            w=m * p / (off * off),
        )
        whole = pl.col("w").sum().over("unit")
        return seen.with_columns(
            share=pl.when((pl.col("r") < 1) & (whole > 0)).then(pl.col("w") / whole).otherwise(0)
        )

    def look(x: Sequence[float]) -> Seen:
        seen = at(x)
        slope, matrix = [0.0] * len(x), [[0.0] * len(x) for _ in x]
        own = pl.col("w").sum() + 1e-9 * pl.col("c").sum()  # regular where all are clicked
        for k, u, w in seen.group_by("k").agg(u=pl.col("u").sum(), w=own).rows():
            slope[told.index(k)], matrix[told.index(k)][told.index(k)] = u, w
        met = seen.join(seen.select("unit", l="k", v="w"), on="unit").group_by("k", "l")
        for a, b, h in met.agg((pl.col("share") * pl.col("v")).sum()).rows():
            matrix[told.index(a)][told.index(b)] -= h
        return float(seen["f"].sum()), slope, matrix

    guess = [_rate(*totals[k]) for k in told]
    x, held, matrix, turns, done = _climb(look, guess, tolerance, most, bounded=True)
    slopes = at(x).select("q", "k", "u")
    return _told(component, told, x, held, matrix, slopes, turns, done)


def _attraction(cells: pl.DataFrame) -> pl.DataFrame:
    """With r, the attraction, at most 1, that makes the clicks of each unit most likely.

    The odds o at the best position p with unclicked impressions solve: clicks = sum of m share o /
    (1 + (1 - share) o), share being p over the best, which rises ever less: steps from below stay
    below.
    """
    some, m, o = pl.col("m") > 0, pl.col("m"), pl.col("o")
    best = pl.when(some).then(pl.col("p")).max().over("unit")
    cells = cells.with_columns(best=best).with_columns(share=pl.col("p") / pl.col("best"))
    share = pl.col("share")
    start = pl.col("clicks") / (m * share).sum().over("unit")
    cells = cells.with_columns(o=start)
    for _ in range(12):
        down = 1 + (1 - share) * o
        beyond = pl.col("clicks") - (m * share * o / down).sum().over("unit")
        cells = cells.with_columns(o=o + beyond / (m * share / (down * down)).sum().over("unit"))
    r = pl.min_horizontal(1.0, o / (1 + o) / pl.col("best"))
    return cells.with_columns(r=pl.when(pl.col("best").is_null()).then(1.0).otherwise(r))


def _mapped(k: pl.Expr, told: list[int], x: Sequence[float]) -> pl.Expr:
    return k.replace_strict(told, list(x), return_dtype=pl.Float64)


def _rate(n: float, c: float) -> float:
    return math.log(c / n) if c > 0 else 0.0


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


def _climb(
    look: Callable[[Sequence[float]], Seen],
    guess: list[float],
    tolerance: float,
    most: int,
    bounded: bool,
) -> tuple[list[float], list[bool], Matrix, int, bool]:
    """Newton's method, each step halved until the likelihood rises.

    What comes back is the place, which positions stay where they are, the curvature, the number of
    turns, and whether it converged.
    """
    top = max(guess)
    x, tried, best = guess, [a - top for a in guess], -math.inf
    step, pace, held, matrix = [0.0] * len(x), 1.0, [True] * len(x), [[0.0] * len(x) for _ in x]
    for turn in range(1, most + 1):
        f, slope, curved = look(tried)
        better = not f < best - 1e-12 * abs(best)
        if better:
            x, best = tried, f
            held = _held(x, slope) if bounded else [i == 0 for i in range(len(x))]
            matrix = _held_matrix(curved, held)
            right = [[0.0 if h else u] for u, h in zip(slope, held, strict=True)]
            step = [a for (a,) in _solved(matrix, right)]
            # No two positions part by more than a factor of e.
            pace = 1 / max(1, max(*step, 0) - min(*step, 0))
        else:
            pace /= 2
        tried = [a + pace * b for a, b in zip(x, step, strict=True)]
        if bounded:
            tried = [min(0.0, a) for a in tried]
            tried = [a - max(tried) for a in tried]
        if better and max(map(abs, step)) < tolerance:
            return tried, held, matrix, turn, True
    return x, held, matrix, most, False


def _held(x: Sequence[float], slope: Sequence[float]) -> list[bool]:
    """Of propensities of at most 1, those at 1 that would rise; the first at 1 where none would."""
    held = [a == 0 and u >= 0 for a, u in zip(x, slope, strict=True)]
    return held if any(held) else [i == x.index(0) for i in range(len(x))]


def _held_matrix(matrix: Matrix, held: Sequence[bool]) -> Matrix:
    return [
        [float(i == j) if held[i] or held[j] else a for j, a in enumerate(line)]
        for i, line in enumerate(matrix)
    ]


def _solved(matrix: Matrix, right: Matrix) -> Matrix:
    """Linear equations, by Gauss and Jordan; the matrices are positive definite, without pivots."""
    lines = [line + more for line, more in zip(matrix, right, strict=True)]
    for i in range(len(lines)):
        top = lines[i] = [a / lines[i][i] for a in lines[i]]
        for j, line in enumerate(lines):
            if j != i and line[i] != 0:
                lines[j] = [a - line[i] * b for a, b in zip(line, top, strict=True)]
    return [line[len(lines) :] for line in lines]


def _told(
    component: dict[int, int],
    told: list[int],
    x: list[float],
    held: list[bool],
    matrix: Matrix,
    slopes: pl.DataFrame,
    turns: int,
    done: bool,
) -> _Told:
    """The logarithms relative to position 1, with standard errors: slopes vary by query."""
    inverse = _solved(matrix, [[float(i == j) for j in range(len(x))] for i in range(len(x))])
    slopes = slopes.group_by("q", "k").agg(pl.col("u").sum())
    met = slopes.join(slopes.select("q", l="k", v="u"), on="q").group_by("k", "l")
    meat = met.agg(m=(pl.col("u") * pl.col("v")).sum(), n=pl.len()).rows()
    queries = slopes["q"].n_unique()
    at = {k: i for i, k in enumerate(told)}
    number_of = {a: n for a, b, _, n in meat if a == b}
    bound = {k for k in told if k > 1 and held[at[k]] and held[0]}
    error: dict[int, float | None] = {}
    for k, j in at.items():
        if k in bound or number_of.get(k, 0) < 2:
            continue
        to = [a - b for a, b in zip(inverse[j], inverse[0], strict=True)]
        free = [0.0 if h else a for a, h in zip(to, held, strict=True)]
        variance = math.fsum(m * free[at[a]] * free[at[b]] for a, b, m, _ in meat)
        error[k] = math.sqrt(max(0, variance) * queries / (queries - 1))
    return _Told(component, {k: x[i] - x[0] for k, i in at.items()}, error, bound, turns, done)
