-- Propensities: the probability that users look at a position, relative to position 1, from a log of impressions and
-- clicks. In the position-based model P(click) = propensity(position) * attraction(query, item). Load common.sql first.

-- Impressions and clicks by query, item and position. Rows without a position are checked, but not counted.
CREATE OR REPLACE MACRO rankql_impressions(log, query, item, pos, click, slice) AS TABLE
    SELECT s, q, i, CAST(k AS BIGINT) AS k, CAST(count(*) AS DOUBLE) AS n, sum(c) AS c
    FROM (SELECT s, q, i, k,
                 CASE WHEN k IS NOT NULL AND c IS NULL THEN rankql_fail(click || ' must be 0 or 1, not NULL')
                      ELSE rankql_clicked(c, click) END AS c
          FROM (SELECT rankql_slice(rankql_row, slice) AS s, rankql_id(rankql_row, query) AS q,
                       CASE WHEN item IS NOT NULL THEN rankql_id(rankql_row, item) END AS i,
                       rankql_pos(struct_extract(rankql_row, pos), NULL, pos) AS k,
                       struct_extract(rankql_row, click) AS c
                FROM query_table(log) AS rankql_row))
    GROUP BY s, q, i, k
    HAVING count(k) > 0; -- WHERE k IS NOT NULL would run before the checks

-- The clicks at a position. An error if the log cannot compare positions.
CREATE OR REPLACE MACRO rankql_position_clicks(k, n, c, s, slice) AS
    CASE WHEN sum(sum(n)) OVER () = sum(sum(c)) OVER ()
         THEN rankql_fail('the log holds clicks only. Propensities also need the impressions without a click')
         WHEN min(k) OVER (PARTITION BY s) > 1
         THEN rankql_fail('the log must have rows at position 1, to which propensities are relative'
                    || CASE WHEN slice IS NULL THEN ''
                            ELSE '; there are none where ' || slice || ' is ' || rankql_text(s.value) END)
         ELSE sum(c) END;

-- The propensity from its logarithm x, or the end of its interval in a direction. Position 1 is always 1.
CREATE OR REPLACE MACRO rankql_propensity(k, x, reach, direction) AS
    CASE WHEN k = 1 THEN 1::DOUBLE
         WHEN direction = 0 THEN exp(x)
         WHEN abs(x) + reach <= 700 THEN exp(x + direction * reach) END;

-- Note on a position: why it has no propensity (x is NULL) or no interval (lo is NULL), or a warning. `shown` is the mean
-- number of impressions of a query and item in the click model: with 4, 8 and 12, 53%, 80% and 93% of its intervals hold.
CREATE OR REPLACE MACRO rankql_position_note(k, c, first, component, x, done, one, queries, lo, shown) AS
    CASE WHEN k = 1 THEN NULL
         WHEN c = 0 THEN 'no click'
         WHEN first = 0 THEN 'no click at position 1'
         WHEN component > 1 THEN 'not connected with position 1'
         WHEN x IS NULL THEN 'too few clicks compare it with position 1'
         WHEN NOT done THEN 'not converged: raise max_iterations or use harvested_propensity'
         WHEN one THEN 'no interval: it is 1, the most that the model allows'
         WHEN queries < 2 THEN 'no interval: it rests on one query'
         WHEN lo IS NULL THEN 'no interval: too few clicks'
         WHEN shown < 12 THEN 'biased: fewer than 12 impressions per query and item. Use harvested_propensity'
         WHEN queries < 30 THEN 'the interval rests on fewer than 30 queries' END;

CREATE OR REPLACE MACRO randomised_propensity(
    log, query := 'query', pos := 'pos', click := 'click', slice := NULL, confidence := 0.95
) AS TABLE
    WITH shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, NULL, pos, click, slice)
    ), positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM shown GROUP BY s, k
    ), moves AS ( -- the influence of each query on the logarithm of the rate of each position
        SELECT shown.s AS s, q, shown.k AS k,
               (shown.c - shown.n * positions.c / positions.n) / nullif(positions.c, 0) AS move
        FROM shown JOIN positions ON shown.s IS NOT DISTINCT FROM positions.s AND shown.k = positions.k
    ), paired AS (
        SELECT s, k, move, max(move) FILTER (WHERE k = 1) OVER (PARTITION BY s, q) AS first FROM moves
    ), spread AS (
        SELECT s, k, sum(move * move) AS own, coalesce(sum(move * first), 0) AS shared,
               CAST(count(*) AS DOUBLE) AS shown
        FROM paired GROUP BY s, k
    ), queries AS (
        SELECT s, CAST(count(DISTINCT q) AS DOUBLE) AS queries FROM shown GROUP BY s
    ), compared AS (
        SELECT positions.s AS s, positions.k AS k, positions.n AS n, positions.c AS c,
               first.c AS first, ln(nullif(positions.c, 0) / positions.n * first.n / nullif(first.c, 0)) AS x,
               least(spread.shown, origin.shown) AS queries,
               CASE WHEN least(spread.shown, origin.shown) > 1
                    THEN rankql_z(confidence) * sqrt(greatest(0, spread.own + origin.own - 2 * spread.shared)
                                                     * queries.queries / (queries.queries - 1)) END AS reach
        FROM positions
        JOIN spread ON positions.s IS NOT DISTINCT FROM spread.s AND positions.k = spread.k
        JOIN positions AS first ON positions.s IS NOT DISTINCT FROM first.s AND first.k = 1
        JOIN spread AS origin ON positions.s IS NOT DISTINCT FROM origin.s AND origin.k = 1
        JOIN queries ON positions.s IS NOT DISTINCT FROM queries.s
    ), found AS (
        SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x, reach, 0) AS propensity,
               rankql_propensity(k, x, reach, -1) AS lo, rankql_propensity(k, x, reach, 1) AS hi,
               CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, 1::BIGINT AS component,
               rankql_position_note(k, c, first, 1, x, true, false, queries,
                                    rankql_propensity(k, x, reach, -1), NULL) AS note
        FROM compared
        UNION ALL BY NAME -- no row: checks the options of an empty log
        SELECT 0 AS a WHERE rankql_z(confidence) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM found ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE randomised_propensity IS 'Propensities of positions from a log in which what stands where was drawn at random.';

-- The cells of a unit (impressions and clicks of an item of a query by position) at identified positions: their number k,
-- unclicked impressions m and clicks c.
CREATE OR REPLACE MACRO rankql_telling(unit, told) AS
    list_transform([list_transform(
        list_filter(unit, lambda a_: list_contains(told, a_['k'])),
        lambda a_: {'k': list_position(told, a_['k']), 'm': a_['n'] - a_['c'], 'c': a_['c']})], lambda cells:
        CASE WHEN list_sum([a_['c'] for a_ in cells]) > 0 THEN cells ELSE [] END)[1];

-- A step from x within the limit of 1. The best position has propensity 1, which is never less likely.
CREATE OR REPLACE MACRO rankql_moved(x, step) AS
    list_transform([list_transform(x, lambda a, i: least(0, a + step[i]))], lambda y:
        list_transform(y, lambda a: a - list_max(y)))[1];

-- The inverse of a matrix with `more` added to its diagonal, by Gauss-Jordan elimination without pivots. NULL if the matrix
-- is not positive definite. Entries with 1e300 added become 0.
CREATE OR REPLACE MACRO rankql_inverse(matrix, more) AS
    list_transform([list_transform(matrix, lambda line, i: list_concat(
            list_transform(line, lambda a, j: a + CASE WHEN i = j THEN more[i] ELSE 0 END),
            list_transform(line, lambda a, j: CAST(i = j AS DOUBLE))))], lambda lines:
        list_transform(
            list_reduce(
                list_concat([lines], list_transform(lines, lambda line: CAST([] AS DOUBLE[][]))),
                lambda m, unused, i: list_transform([list_transform(m[i - 1], lambda a: CASE
                        WHEN m[i - 1][i - 1] > 1e-12 * lines[i - 1][i - 1] THEN a / m[i - 1][i - 1] END)], lambda top:
                    list_transform(m, lambda line, j: CASE WHEN j = i - 1 THEN top WHEN line[i - 1] = 0 THEN line
                        ELSE list_transform(line, lambda a, c: a - line[i - 1] * top[c]) END))[1]),
            lambda line: line[len(line) // 2 + 1:]))[1];

-- Newton's step, damped because some directions can be flat. Propensities at the limit of 1 stay.
CREATE OR REPLACE MACRO rankql_newton(x, slope, matrix, clicks) AS
    list_transform([list_transform(
        rankql_inverse(matrix, list_transform(x, lambda a, i:
            CASE WHEN a = 0 AND slope[i] > 0 THEN 1e300 ELSE 1e-6 * clicks[i] END)),
        lambda line: list_inner_product(line, slope))], lambda step:
        list_transform(step, lambda a: a / greatest(1, list_max([abs(b) for b in step]))))[1];

-- The odds o of a click at the best position, from clicks = the sum over `parts` of m * share * o / (1 + (1 - share) * o): m
-- unclicked impressions, `share` the propensity relative to the best. The sum is concave, so Newton's steps stay below.
CREATE OR REPLACE MACRO rankql_odds(parts, clicks) AS
    list_reduce(
        list_concat([clicks / list_sum(list_transform(parts, lambda x_: x_['m'] * x_['share']))],
                    list_transform(range(8), lambda i: CAST(0 AS DOUBLE))),
        lambda o, unused: o + (clicks - list_sum(list_transform(parts, lambda x_:
                                   x_['m'] * x_['share'] * o / (1 + (1 - x_['share']) * o))))
                              / list_sum(list_transform(parts, lambda x_:
                                   x_['m'] * x_['share'] / pow(1 + (1 - x_['share']) * o, 2))));

-- The maximum likelihood attraction of an item, at most 1, given the propensities p.
CREATE OR REPLACE MACRO rankql_attraction(unit, p) AS
    list_transform([list_max([p[a_['k']] for a_ in unit if a_['m'] > 0])], lambda best: coalesce(least(1, list_transform([
        rankql_odds(list_transform(list_filter(unit, lambda a_: a_['m'] > 0),
                                   lambda a_: {'m': a_['m'], 'share': p[a_['k']] / best}),
                    list_sum([a_['c'] for a_ in unit]))], lambda o: o / (1 + o) / best)[1]), 1))[1];

-- Gradient and Hessian of a unit's likelihood in the logarithms of the propensities p. The attraction is optimised along,
-- unless it is at its limit of 1; then an item seen at one position contributes nothing.
CREATE OR REPLACE MACRO rankql_terms(unit, p) AS
    list_transform([list_transform([rankql_attraction(unit, p)], lambda r: list_transform(
        list_transform(unit, lambda a_: {'k': a_['k'], 'm': a_['m'], 'c': a_['c'],
            'odds': CASE WHEN a_['m'] > 0 THEN p[a_['k']] * r / (1 - p[a_['k']] * r) ELSE 0 END}),
        lambda a_: {'k': a_['k'], 'c': a_['c'], 'u': a_['c'] - a_['m'] * a_['odds'], 'w': a_['m'] * a_['odds'] * (1 + a_['odds'])}))[1]],
        lambda cells:
        list_transform([{'bound': list_sum([a_['u'] for a_ in cells]) >= 1e-10 * list_sum([a_['c'] for a_ in cells]),
                         'w': list_sum([a_['w'] for a_ in cells])}], lambda whole_:
            CASE WHEN whole_['bound'] OR len(cells) > 1
                 THEN flatten(list_transform(cells, lambda a_: list_transform(cells, lambda b_: {
                    'k': a_['k'], 'l': b_['k'], 'u': CASE WHEN a_['k'] = b_['k'] THEN a_['u'] ELSE 0 END,
                    'h': CASE WHEN a_['k'] = b_['k'] THEN a_['w'] ELSE 0 END
                         - CASE WHEN whole_['bound'] OR whole_['w'] = 0 THEN 0 ELSE a_['w'] / whole_['w'] * b_['w'] END})))
                 ELSE [] END)[1])[1];

-- Harvesting and the click model: maximum likelihood of the logarithms x of the propensities by Newton's method, and their
-- covariance, clustered by query. A pair of positions is a unit with so many impressions that attraction has no limit: the
-- model of Bradley and Terry.
CREATE OR REPLACE MACRO rankql_propensities(
    log, pairs, query, item, pos, click, slice, confidence, max_iterations
) AS TABLE
    WITH RECURSIVE shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, item, pos, click, slice)
    ), positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM shown GROUP BY s, k
    ), games AS MATERIALIZED ( -- the clicks of two positions, as if shown equally often
        SELECT a.s AS s, a.q AS q, a.k AS k, b.k AS l, sum(a.c * b.n / (a.n + b.n)) AS x,
               sum(b.c * a.n / (a.n + b.n)) AS y
        FROM shown AS a JOIN shown AS b ON a.s IS NOT DISTINCT FROM b.s AND a.q = b.q AND a.i IS NOT DISTINCT FROM b.i
        WHERE CASE pairs WHEN 'all' THEN a.k < b.k
                         WHEN 'adjacent' THEN a.k + 1 = b.k
                         WHEN 'first' THEN a.k = 1 AND b.k > 1 END
        GROUP BY a.s, a.q, a.k, b.k
    ), units AS MATERIALIZED (
        SELECT s, q, list({'k': k, 'n': n, 'c': c} ORDER BY k ASC) AS unit FROM shown WHERE pairs = 'model'
        GROUP BY s, q, i HAVING sum(c) > 0
        UNION ALL
        SELECT s, q, [{'k': k, 'n': 1e30, 'c': x}, {'k': l, 'n': 1e30, 'c': y}] FROM games
    ), patterns AS MATERIALIZED (
        SELECT s, unit, CAST(count(*) AS DOUBLE) AS times FROM units WHERE pairs = 'model' GROUP BY s, unit
        UNION ALL
        SELECT s, [{'k': k, 'n': 1e30, 'c': sum(x)}, {'k': l, 'n': 1e30, 'c': sum(y)}], 1 FROM games GROUP BY s, k, l
    ), depth AS ( -- an item shown at one position compares nothing
        SELECT s, sum(times * list_sum([a_['n'] for a_ in unit])) / sum(times) AS shown
        FROM patterns WHERE pairs = 'model' AND len(unit) > 1 GROUP BY s
    ), edges AS MATERIALIZED ( -- `win`: clicks show that a is not infinitely worse than b
        SELECT edge.s AS s, edge.a AS a, edge.b AS b, bool_or(edge.win AND positions.c > 0) AS win
        FROM (SELECT s, unnest(flatten(list_transform(unit, lambda a_: list_transform(
                         list_filter(unit, lambda b_: a_['k'] <> b_['k']),
                         lambda b_: {'a': a_['k'], 'b': b_['k'], 'win': a_['c'] > 0 OR pairs = 'model'}))), recursive := true)
              FROM patterns) AS edge
        JOIN positions ON edge.s IS NOT DISTINCT FROM positions.s AND edge.b = positions.k
        GROUP BY edge.s, edge.a, edge.b
    ), ways AS (
        SELECT s, k AS a, k AS b, unnest([false, true]) AS win FROM positions
        UNION
        SELECT ways.s, ways.a, edges.b, ways.win
        FROM ways JOIN edges ON ways.s IS NOT DISTINCT FROM edges.s AND ways.b = edges.a
        WHERE edges.win OR NOT ways.win
    ), placed AS MATERIALIZED (
        SELECT positions.s AS s, k, any_value(n) AS n, any_value(c) AS c,
               min(CASE WHEN ways.a = k THEN ways.b ELSE ways.a END) FILTER (WHERE NOT win) AS component,
               k = 1 OR (bool_or(win AND ways.a = 1) AND bool_or(win AND ways.b = 1)) AS told
        FROM positions JOIN ways ON positions.s IS NOT DISTINCT FROM ways.s AND (k = ways.a OR k = ways.b)
        GROUP BY positions.s, k
    ), starts AS MATERIALIZED (
        SELECT s, list(k ORDER BY k ASC) AS ks, list(c ORDER BY k ASC) AS clicks,
               list(CASE WHEN c > 0 THEN ln(c / n) ELSE 0 END ORDER BY k ASC) AS guess, list(0::DOUBLE) AS still
        FROM placed WHERE told GROUP BY s
    ), rounds AS MATERIALIZED ( -- and one without impressions, so that the matrix is complete
        SELECT patterns.s AS s, times, rankql_telling(unit, ks) AS unit
        FROM patterns JOIN starts ON patterns.s IS NOT DISTINCT FROM starts.s
        WHERE len(rankql_telling(unit, ks)) > 0
        UNION ALL
        SELECT s, 0, list_transform(ks, lambda k, i: {'k': i, 'm': 1::DOUBLE, 'c': 0::DOUBLE}) FROM starts
    ), climb AS ( -- a step from x to y, halved if the likelihood falls at y more than half as fast as it rose at x
        SELECT s, 0 AS turn, clicks[1] = 0 AS done, clicks, x, x AS y, still AS step, still AS slope,
               CAST(NULL AS DOUBLE[][]) AS matrix
        FROM (SELECT *, rankql_moved(guess, still) AS x FROM starts)
        UNION ALL
        SELECT s, turn + 1, ahead AND list_max(list_transform(x, lambda a, i: abs(y[i] - a)))
                            < 1e-9, clicks, x, y, step, slope, matrix
        FROM (SELECT *, rankql_moved(x, step) AS y
              FROM (SELECT s, turn, ahead, clicks, matrix, unnest(CASE WHEN ahead
                        THEN {'x': y, 'step': rankql_newton(y, fresh, matrix, clicks), 'slope': fresh}
                        ELSE {'x': x, 'step': list_transform(step, lambda a: a / 2), 'slope': slope} END)
                    FROM (SELECT climb.* EXCLUDE (matrix), fresh, seen.matrix AS matrix, list_sum(list_transform(x,
                                     lambda a, i: (fresh[i] + slope[i] / 2) * (y[i] - a))) >= 0 AS ahead
                          FROM climb JOIN (
                            SELECT s, list(u ORDER BY k ASC) AS fresh, list(line ORDER BY k ASC) AS matrix
                            FROM (SELECT s, k, sum(u) AS u, list(h ORDER BY l ASC) AS line
                                  FROM (SELECT s, k, l, sum(times * u) AS u, sum(times * h) AS h
                                        FROM (SELECT s, times, unnest(rankql_terms(unit, p), recursive := true)
                                              FROM (SELECT climb.s AS s, times, unit,
                                                           list_transform(y, lambda a: exp(a)) AS p
                                                    FROM climb JOIN rounds ON climb.s IS NOT DISTINCT FROM rounds.s
                                                    WHERE NOT done AND turn < rankql_whole(max_iterations, 1, 'max_iterations')))
                                        GROUP BY s, k, l)
                                  GROUP BY s, k)
                            GROUP BY s) AS seen ON climb.s IS NOT DISTINCT FROM seen.s)))
    ), fitted AS MATERIALIZED (
        SELECT *, rankql_inverse(matrix, list_transform(held, lambda stays: CASE WHEN stays THEN 1e300 ELSE 0 END))
                      AS inverse
        FROM (SELECT s, turn, done, matrix, y AS x,
                     list_transform(slope, lambda u, i: u > 1e-6 * clicks[i]) AS bound,
                     CASE WHEN list_bool_or(bound) THEN bound ELSE list_transform(x, lambda a, i: i = 1) END AS held
              FROM climb QUALIFY turn = max(turn) OVER (PARTITION BY s))
    ), slopes AS MATERIALIZED (
        SELECT s, q, a.k AS k, sum(a.u) AS u
        FROM (SELECT units.s AS s, q, unnest(list_filter(
                         rankql_terms(rankql_telling(unit, ks), list_transform(x, lambda a: exp(a))),
                         lambda a_: a_['k'] = a_['l'])) AS a
              FROM units JOIN fitted ON units.s IS NOT DISTINCT FROM fitted.s
              JOIN starts ON units.s IS NOT DISTINCT FROM starts.s
              WHERE len(rankql_telling(unit, ks)) > 0)
        GROUP BY s, q, a.k
    ), apart AS ( -- the influence of a slope at k on position j, relative to the first
        SELECT s, j, unnest(range(1, len(line) + 1)) AS k, unnest(list_transform(line, lambda a, k: a - first[k])) AS push
        FROM (SELECT s, unnest(range(1, len(x) + 1)) AS j, unnest(inverse) AS line, inverse[1] AS first FROM fitted)
    ), moves AS ( -- the influence of each query
        SELECT slopes.s AS s, q, j, sum(u * push) AS move, bool_or(slopes.k = j) AS there
        FROM slopes JOIN apart ON slopes.s IS NOT DISTINCT FROM apart.s AND slopes.k = apart.k
        GROUP BY slopes.s, q, j
    ), spread AS (
        SELECT s, j, sqrt(sum(move * move) * count(*) / (count(*) - 1)) AS error,
               CAST(count(*) FILTER (WHERE there) AS DOUBLE) AS n
        FROM moves GROUP BY s, j
    ), told AS (
        SELECT fitted.s AS s, ks[a.j] AS k, least(a.n, first.n) AS queries, held[a.j] AND held[1] AS one,
               CASE WHEN NOT done OR inverse[a.j][1] + inverse[1][1] IS NOT NULL THEN x[a.j] - x[1] END AS x,
               CASE WHEN done AND queries > 1 AND NOT one THEN rankql_z(confidence) * a.error END AS reach
        FROM fitted JOIN starts ON fitted.s IS NOT DISTINCT FROM starts.s
        JOIN spread AS a ON fitted.s IS NOT DISTINCT FROM a.s
        JOIN spread AS first ON fitted.s IS NOT DISTINCT FROM first.s AND first.j = 1
    ), compared AS (
        SELECT placed.*, told.x AS x, reach, turn, done, one, queries,
               max(c) FILTER (WHERE placed.k = 1) OVER (PARTITION BY placed.s) AS first, shown
        FROM placed JOIN fitted ON placed.s IS NOT DISTINCT FROM fitted.s
        LEFT JOIN depth ON placed.s IS NOT DISTINCT FROM depth.s
        LEFT JOIN told ON placed.s IS NOT DISTINCT FROM told.s AND placed.k = told.k
    )
    SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x, reach, 0) AS propensity,
           rankql_propensity(k, x, reach, -1) AS lo, rankql_propensity(k, x, reach, 1) AS hi,
           CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, component,
           CAST(turn AS BIGINT) AS iterations, done AS converged,
           rankql_position_note(k, c, first, component, x, done, one, queries,
                                rankql_propensity(k, x, reach, -1), shown) AS note
    FROM compared
    UNION ALL BY NAME -- no row: checks the options of an empty log
    SELECT 0 AS a WHERE rankql_z(confidence) + rankql_whole(max_iterations, 1, 'max_iterations')
                        + len(pairs) < 0;

CREATE OR REPLACE MACRO rankql_chosen_pairs(pairs) AS
    CASE WHEN rankql_text(pairs) IN ('all', 'adjacent', 'first') THEN pairs
         ELSE rankql_fail('pairs must be ''all'', ''adjacent'' or ''first'', not ' || rankql_text(pairs)) END;

CREATE OR REPLACE MACRO harvested_propensity(
    log, pairs := 'all', query := 'query', item := 'item', pos := 'pos', click := 'click', slice := NULL,
    confidence := 0.95
) AS TABLE
    SELECT COLUMNS(lambda name: rankql_handed(name, slice) AND name NOT IN ('iterations', 'converged'))
    FROM rankql_propensities(log, rankql_chosen_pairs(pairs), query, item, pos, click, slice, confidence, 1000)
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE harvested_propensity IS 'Propensities of positions from items that one query has shown at several of them.';

CREATE OR REPLACE MACRO click_model(
    log, query := 'query', item := 'item', pos := 'pos', click := 'click', slice := NULL, confidence := 0.95,
    max_iterations := 10000
) AS TABLE
    SELECT COLUMNS(lambda name: rankql_handed(name, slice))
    FROM rankql_propensities(log, 'model', query, item, pos, click, slice, confidence, max_iterations)
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE click_model IS 'The position-based click model: the propensities under which the clicks are most likely.';
