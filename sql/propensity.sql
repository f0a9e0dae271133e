-- Propensities: how likely each position is looked at, relative to the first, from a log of what was shown where and
-- clicked. Under the position-based model a click has the chance propensity(position) * attraction(query, item). Load
-- common.sql first.

-- What was shown: the impressions and clicks of each item of each query by position.
CREATE OR REPLACE MACRO rankql_impressions(log, query, item, pos, click, slice) AS TABLE
    SELECT s, CASE WHEN q.value IS NULL THEN error(query || ' must not be NULL') ELSE q END AS q,
           CASE WHEN item IS NOT NULL AND i.value IS NULL THEN error(item || ' must not be NULL') ELSE i END AS i,
           CAST(k AS BIGINT) AS k, CAST(count(*) AS DOUBLE) AS n,
           sum(CASE WHEN c IS NULL THEN error(click || ' must be 0 or 1, not NULL')
                    ELSE rankql_clicked(c, click) END) AS c
    FROM (SELECT rankql_key(CASE WHEN slice IS NOT NULL THEN struct_extract(rankql_row, slice) END) AS s,
                 rankql_key(struct_extract(rankql_row, query)) AS q,
                 rankql_key(CASE WHEN item IS NOT NULL THEN struct_extract(rankql_row, item) END) AS i,
                 rankql_pos(struct_extract(rankql_row, pos), NULL, pos) AS k,
                 struct_extract(rankql_row, click) AS c
          FROM query_table(log) AS rankql_row)
    WHERE k IS NOT NULL
    GROUP BY s, q, i, k;

-- The clicks at a position, once the log is found fit to compare positions.
CREATE OR REPLACE MACRO rankql_position_clicks(k, n, c, s, slice) AS
    CASE WHEN sum(sum(n)) OVER () = sum(sum(c)) OVER ()
         THEN error('the log holds clicks only; propensities need the impressions without a click too')
         WHEN min(k) OVER (PARTITION BY s) > 1
         THEN error('the log must have rows at position 1, to which propensities are relative'
                    || CASE WHEN slice IS NULL THEN ''
                            ELSE '; there are none where ' || slice || ' is ' || rankql_text(s.value) END)
         ELSE sum(c) END;

-- What is said of a position: why it has no propensity, or no interval. x is NULL where it cannot be told.
CREATE OR REPLACE MACRO rankql_position_note(k, c, first, component, x, done, bound, reach) AS
    CASE WHEN k = 1 THEN NULL
         WHEN c = 0 THEN 'no click'
         WHEN first = 0 THEN 'no click at position 1'
         WHEN component > 1 THEN 'not connected with position 1'
         WHEN x IS NULL THEN 'no clicks that compare it with position 1'
         WHEN NOT done THEN 'not converged; raise max_iterations'
         WHEN bound THEN 'no interval: as high as an attraction of 1 lets it be'
         WHEN reach IS NULL THEN 'no interval: it rests on one query' END;

-- Position 1 is what the others are relative to. A bound beyond all numbers is none.
CREATE OR REPLACE MACRO rankql_propensity(k, x) AS
    CASE WHEN k = 1 THEN 1::DOUBLE WHEN abs(x) < 700 THEN exp(x) END;


CREATE OR REPLACE MACRO randomised_propensity(
    log, query := 'query', pos := 'pos', click := 'click', slice := NULL, confidence := 0.95
) AS TABLE
    WITH shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, NULL, pos, click, slice)
    ), positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM shown GROUP BY s, k
    ), moves AS ( -- how far each query moves the logarithm of the rate of each position
        SELECT shown.s AS s, q, shown.k AS k,
               (shown.c - shown.n * positions.c / positions.n) / nullif(positions.c, 0) AS move
        FROM shown JOIN positions ON shown.s IS NOT DISTINCT FROM positions.s AND shown.k = positions.k
    ), paired AS (
        SELECT s, k, move, max(move) FILTER (WHERE k = 1) OVER (PARTITION BY s, q) AS first FROM moves
    ), spread AS (
        SELECT s, k, sum(move * move) AS own, coalesce(sum(move * first), 0) AS shared FROM paired GROUP BY s, k
    ), queries AS (
        SELECT s, CAST(count(DISTINCT q) AS DOUBLE) AS queries FROM shown GROUP BY s
    ), compared AS (
        SELECT positions.s AS s, positions.k AS k, positions.n AS n, positions.c AS c,
               first.c AS first, ln(nullif(positions.c, 0) / positions.n * first.n / nullif(first.c, 0)) AS x,
               rankql_z(confidence) * sqrt(greatest(0, spread.own + origin.own - 2 * spread.shared)
                                           * queries / nullif(queries - 1, 0)) AS reach
        FROM positions
        JOIN spread ON positions.s IS NOT DISTINCT FROM spread.s AND positions.k = spread.k
        JOIN positions AS first ON positions.s IS NOT DISTINCT FROM first.s AND first.k = 1
        JOIN spread AS origin ON positions.s IS NOT DISTINCT FROM origin.s AND origin.k = 1
        JOIN queries ON positions.s IS NOT DISTINCT FROM queries.s
    ), found AS (
        SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x) AS propensity,
               rankql_propensity(k, x - reach) AS lo, rankql_propensity(k, x + reach) AS hi,
               CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, 1::BIGINT AS component,
               rankql_position_note(k, c, first, 1, x, true, false, reach) AS note
        FROM compared
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM found ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE randomised_propensity IS 'Propensities of positions from a log in which what stands where was drawn at random.';


-- What a query and item tell of the positions k and l: of two positions the clicks of each, had both been shown half as
-- often as the harmonic mean of their impressions (Mantel and Haenszel); or, for the click model, of each position
-- k = l its impressions and its clicks.
CREATE OR REPLACE MACRO rankql_unit(cells, pairs) AS
    CASE WHEN pairs = 'model'
         THEN list_transform(cells, lambda a: {'k': a.k, 'l': a.k, 'x': a.n, 'y': a.c})
         ELSE flatten(list_transform(cells, lambda a: list_transform(
            list_filter(cells, lambda b: CASE pairs WHEN 'all' THEN a.k < b.k
                                                    WHEN 'adjacent' THEN a.k + 1 = b.k
                                                    WHEN 'first' THEN a.k = 1 AND b.k > 1 END),
            lambda b: {'k': a.k, 'l': b.k, 'x': a.c * b.n / (a.n + b.n), 'y': b.c * a.n / (a.n + b.n)})))
    END;

-- Which positions it compares: `win` where clicks say that a is not infinitely worse than b.
CREATE OR REPLACE MACRO rankql_edges(unit, pairs) AS
    CASE WHEN pairs = 'model'
         THEN list_transform([len([x for x in unit if x.y > 0]) > 0], lambda clicked:
                flatten(list_transform(unit, lambda a: list_transform(list_filter(unit, lambda b: a.k <> b.k),
                    lambda b: {'a': a.k, 'b': b.k, 'win': clicked}))))[1]
         ELSE flatten(list_transform(unit, lambda x: [
            {'a': x.k, 'b': x.l, 'win': x.x > 0}, {'a': x.l, 'b': x.k, 'win': x.y > 0}])) END;

-- What of a unit tells on positions that can be told, these numbered: no comparison without clicks, no position alone
-- (unless it was always clicked, which an attraction of at most 1 has to explain).
CREATE OR REPLACE MACRO rankql_telling(unit, told, pairs) AS
    list_transform([list_transform(
        list_filter(unit, lambda a: list_contains(told, a.k) AND list_contains(told, a.l)
                                    AND (pairs = 'model' OR a.x + a.y > 0)),
        lambda a: {'k': list_position(told, a.k), 'l': list_position(told, a.l), 'x': a.x, 'y': a.y})], lambda cells:
        CASE WHEN pairs <> 'model' OR (list_sum([a.y for a in cells]) > 0
                                       AND (len(cells) > 1 OR cells[1].x = cells[1].y))
             THEN cells ELSE [] END)[1];

-- The odds o of a click at the best position for which `clicks` are as many as expected: the sum over `parts`,
-- positions with m impressions unclicked and `share` of the propensity of the best, of m share o / (1 + (1 - share) o).
-- It rises ever less, so that Newton's steps from below stay below.
CREATE OR REPLACE MACRO rankql_odds(parts, clicks) AS
    list_reduce(
        list_concat([clicks / list_sum(list_transform(parts, lambda x: x.m * x.share))],
                    list_transform(range(12), lambda i: CAST(0 AS DOUBLE))),
        lambda o, unused: o + (clicks - list_sum(list_transform(parts, lambda x:
                                   x.m * x.share * o / (1 + (1 - x.share) * o))))
                              / list_sum(list_transform(parts, lambda x:
                                   x.m * x.share / pow(1 + (1 - x.share) * o, 2))));

-- The attraction of an item, at most 1, that makes its clicks most likely; positions have the propensities exp(x).
CREATE OR REPLACE MACRO rankql_attraction(unit, x) AS
    list_transform([list_max([exp(x[a.k]) for a in unit if a.x > a.y])], lambda best: coalesce(least(1, list_transform([
        rankql_odds(list_transform(list_filter(unit, lambda a: a.x > a.y),
                                   lambda a: {'m': a.x - a.y, 'share': exp(x[a.k]) / best}),
                    list_sum([a.y for a in unit]))], lambda o: o / (1 + o) / best)[1]), 1))[1];

-- A unit at x: its likelihood; the slope and the curvature of that by position, or by pair of them; and whether the
-- attraction moves along.
CREATE OR REPLACE MACRO rankql_fitted(unit, x, pairs) AS
    CASE WHEN pairs = 'model'
         THEN list_transform([rankql_attraction(unit, x)], lambda r: list_transform([
                list_transform(unit, lambda a: {'k': a.k, 'l': a.l, 'y': a.y, 'm': a.x - a.y,
                    'p': exp(x[a.k]) * r, 'off': CASE WHEN a.x > a.y THEN 1 - exp(x[a.k]) * r ELSE 1 END})],
                lambda cells: {
                    'f': list_sum([CASE WHEN a.y > 0 THEN a.y * ln(a.p) ELSE 0 END + a.m * ln(a.off) for a in cells]),
                    'free': r < 1,
                    'cells': list_transform(cells, lambda a: {
                        'k': a.k, 'l': a.l, 'u': a.y - a.m * a.p / a.off, 'w': a.m * a.p / (a.off * a.off),
                        'y': a.y})})[1])[1]
         ELSE list_transform([
                list_transform(unit, lambda a: {'k': a.k, 'l': a.l, 'x': a.x, 'y': a.y,
                                                'p': 1 / (1 + exp(x[a.l] - x[a.k])),
                                                'off': 1 / (1 + exp(x[a.k] - x[a.l]))})], lambda games: {
                    'f': list_sum([a.x * ln(a.p) + a.y * ln(a.off) for a in games]),
                    'free': false,
                    'cells': list_transform(games, lambda a: {
                        'k': a.k, 'l': a.l, 'u': a.x * a.off - a.y * a.p, 'w': (a.x + a.y) * a.p * a.off,
                        'y': a.y})})[1] END;

-- The slope and the curvature as terms of a vector and of a matrix. (What is added to the curvature keeps the matrix
-- regular where all impressions are clicked; it is too small to matter elsewhere.)
CREATE OR REPLACE MACRO rankql_terms(fitted, pairs) AS
    list_transform([fitted], lambda here: list_concat(
        [{'k': 1::BIGINT, 'l': 1::BIGINT, 'u': 0::DOUBLE, 'h': 0::DOUBLE, 'f': here.f}],
        CASE WHEN pairs = 'model'
             THEN list_transform([CASE WHEN here.free THEN list_sum([a.w for a in here.cells]) ELSE 0 END],
                lambda whole: flatten(list_transform(here.cells, lambda a: list_transform(here.cells, lambda b: {
                    'k': a.k, 'l': b.k, 'u': CASE WHEN a.k = b.k THEN a.u ELSE 0 END,
                    'h': CASE WHEN a.k = b.k THEN a.w + 1e-9 * a.y ELSE 0 END
                         - CASE WHEN whole > 0 THEN a.w * b.w / whole ELSE 0 END,
                    'f': 0::DOUBLE}))))[1]
             ELSE flatten(list_transform(here.cells, lambda a: [
                    {'k': a.k, 'l': a.k, 'u': a.u, 'h': a.w, 'f': 0::DOUBLE},
                    {'k': a.l, 'l': a.l, 'u': -a.u, 'h': a.w, 'f': 0::DOUBLE},
                    {'k': a.k, 'l': a.l, 'u': 0::DOUBLE, 'h': -a.w, 'f': 0::DOUBLE},
                    {'k': a.l, 'l': a.k, 'u': 0::DOUBLE, 'h': -a.w, 'f': 0::DOUBLE}])) END))[1];

-- Which positions stay where they are: position 1, or in the click model, whose propensities are at most 1, those at 1
-- that would rise, and the first at 1 where none would.
CREATE OR REPLACE MACRO rankql_held(x, slope, pairs) AS
    CASE WHEN pairs <> 'model' THEN list_transform(x, lambda a, i: i = 1)
         WHEN len([i for a, i in x if a = 0 AND slope[i] >= 0]) > 0
         THEN list_transform(x, lambda a, i: a = 0 AND slope[i] >= 0)
         ELSE list_transform(x, lambda a, i: i = list_position(x, 0)) END;

-- Of the matrix and the vector what concerns the others.
CREATE OR REPLACE MACRO rankql_held_matrix(matrix, held) AS
    list_transform(matrix, lambda line, i: list_transform(line, lambda a, j:
        CASE WHEN held[i] OR held[j] THEN CAST(i = j AS DOUBLE) ELSE a END));

CREATE OR REPLACE MACRO rankql_held_vector(vector, held) AS
    list_transform(vector, lambda a, i: CASE WHEN held[i] THEN 0 ELSE a END);

-- Linear equations, by Gauss and Jordan: lines of a matrix, each with its right sides appended. The matrices here are
-- positive definite and need no pivots.
CREATE OR REPLACE MACRO rankql_eliminated(lines) AS list_reduce(
    list_concat([lines], list_transform(range(len(lines)), lambda x: CAST([] AS DOUBLE[][]))),
    lambda m, unused, i: list_transform([list_transform(m[i - 1], lambda a: a / m[i - 1][i - 1])], lambda top:
        list_transform(m, lambda line, j: CASE WHEN j = i - 1 THEN top
            ELSE list_transform(line, lambda a, c: a - line[i - 1] * top[c]) END))[1]);

CREATE OR REPLACE MACRO rankql_solved(matrix, vector) AS
    list_transform(rankql_eliminated(list_transform(matrix, lambda line, i: list_append(line, vector[i]))),
        lambda line: line[-1]);

CREATE OR REPLACE MACRO rankql_inverse(matrix) AS
    list_transform(
        rankql_eliminated(list_transform(matrix, lambda line, i: list_concat(
            line, list_transform(line, lambda a, j: CAST(i = j AS DOUBLE))))),
        lambda line: line[len(line) // 2 + 1:]);

-- How much of a step is taken at first: no two positions part by more than a factor of e.
CREATE OR REPLACE MACRO rankql_pace(step) AS
    1 / greatest(1, greatest(list_max(step), 0) - least(list_min(step), 0));

CREATE OR REPLACE MACRO rankql_moved(x, step, pace, pairs) AS
    CASE WHEN pairs <> 'model' THEN list_transform(x, lambda a, i: a + pace * step[i])
         ELSE list_transform([list_transform(x, lambda a, i: least(0, a + pace * step[i]))], lambda moved:
                list_transform(moved, lambda a: a - list_max(moved)))[1] END;

CREATE OR REPLACE MACRO rankql_iterations(most) AS
    CASE WHEN rankql_option(most) >= 1 AND rankql_option(most) = floor(rankql_option(most)) THEN rankql_option(most)
         ELSE error('max_iterations must be a whole number from 1, not ' || rankql_text(most)) END;

CREATE OR REPLACE MACRO rankql_tolerance(tolerance) AS
    CASE WHEN rankql_option(tolerance) > 0 AND rankql_option(tolerance) < 1 THEN rankql_option(tolerance)
         ELSE error('tolerance must lie between 0 and 1, not ' || rankql_text(tolerance)) END;

-- Harvesting and the click model: the logarithms x of the propensities at which a likelihood is highest, by Newton's
-- method, each step halved until it rises; and their covariance, clustered by query.
CREATE OR REPLACE MACRO rankql_propensities(
    log, pairs, query, item, pos, click, slice, confidence, tolerance, max_iterations
) AS TABLE
    WITH RECURSIVE shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, item, pos, click, slice)
    ), positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM shown GROUP BY s, k
    ), units AS MATERIALIZED (
        SELECT s, q, rankql_unit(list({'k': k, 'n': n, 'c': c} ORDER BY k ASC), pairs) AS unit
        FROM shown GROUP BY s, q, i
    ), patterns AS MATERIALIZED (
        SELECT s, unit, CAST(count(*) AS DOUBLE) AS times FROM units WHERE pairs = 'model' GROUP BY s, unit
        UNION ALL
        SELECT s, list({'k': k, 'l': l, 'x': x, 'y': y} ORDER BY k ASC, l ASC), 1
        FROM (SELECT s, u.k AS k, u.l AS l, sum(u.x) AS x, sum(u.y) AS y
              FROM (SELECT s, unnest(unit) AS u FROM units WHERE pairs <> 'model') GROUP BY s, u.k, u.l) GROUP BY s
    ), edges AS MATERIALIZED ( -- a position without a click has the propensity 0, and compares nothing
        SELECT edge.s AS s, edge.a AS a, edge.b AS b, bool_or(edge.win AND positions.c > 0) AS win
        FROM (SELECT s, unnest(rankql_edges(unit, pairs), recursive := true) FROM patterns) AS edge
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
        SELECT s, list(k ORDER BY k ASC) AS ks,
               list(CASE WHEN c > 0 THEN ln(c / n) ELSE 0 END ORDER BY k ASC) AS guess
        FROM placed WHERE told GROUP BY s
    ), rounds AS MATERIALIZED ( -- and one of no impressions, so that the matrix has all its places
        SELECT patterns.s AS s, times, rankql_telling(unit, ks, pairs) AS unit
        FROM patterns JOIN starts ON patterns.s IS NOT DISTINCT FROM starts.s
        WHERE len(rankql_telling(unit, ks, pairs)) > 0
        UNION ALL
        SELECT s, 0, list_transform(rankql_unit(list_transform(ks, lambda k, i: {'k': i, 'n': 1, 'c': 0}),
                                                CASE WHEN pairs = 'model' THEN 'model' ELSE 'all' END),
                                    lambda a: {'k': a.k, 'l': a.l, 'x': 0::DOUBLE, 'y': 0::DOUBLE})
        FROM starts
    ), fit AS (
        SELECT s, 0 AS turn, false AS done, guess AS x, list_transform(guess, lambda a: a - list_max(guess)) AS tried,
               '-infinity'::DOUBLE AS f, CAST(NULL AS DOUBLE[]) AS step, 1::DOUBLE AS pace,
               CAST(NULL AS DOUBLE[][]) AS matrix, CAST(NULL AS BOOLEAN[]) AS held
        FROM starts
        UNION ALL
        SELECT s, turn, done, x, rankql_moved(x, step, pace, pairs), f, step, pace, matrix, held
        FROM (SELECT *, better AND list_max([abs(a) for a in step]) < rankql_tolerance(tolerance) AS done,
                     CASE WHEN better THEN rankql_pace(step) ELSE last_pace / 2 END AS pace
              FROM (SELECT * EXCLUDE (slope),
                           CASE WHEN better THEN rankql_solved(matrix, rankql_held_vector(slope, held))
                                ELSE last_step END AS step
                    FROM (SELECT * REPLACE (CASE WHEN better THEN rankql_held_matrix(matrix, held) ELSE last_matrix END
                                            AS matrix)
                          FROM (SELECT fit.s AS s, turn + 1 AS turn, slope, seen.matrix AS matrix,
                                       fit.step AS last_step, fit.pace AS last_pace, fit.matrix AS last_matrix,
                                       NOT seen.f < fit.f - 1e-12 * abs(fit.f) AS better,
                                       CASE WHEN better THEN tried ELSE x END AS x,
                                       CASE WHEN better THEN seen.f ELSE fit.f END AS f,
                                       CASE WHEN better THEN rankql_held(tried, slope, pairs) ELSE fit.held END AS held
                                FROM fit JOIN (
                                    SELECT s, sum(f) AS f, list(u ORDER BY k ASC) AS slope,
                                           list(line ORDER BY k ASC) AS matrix
                                    FROM (SELECT s, k, sum(f) AS f, sum(u) AS u, list(h ORDER BY l ASC) AS line
                                          FROM (SELECT s, k, l, sum(times * f) AS f, sum(times * u) AS u,
                                                       sum(times * h) AS h
                                                FROM (SELECT fit.s AS s, times, unnest(rankql_terms(
                                                                 rankql_fitted(unit, tried, pairs), pairs),
                                                                 recursive := true)
                                                      FROM fit JOIN rounds ON fit.s IS NOT DISTINCT FROM rounds.s
                                                      WHERE NOT done AND turn < rankql_iterations(max_iterations))
                                                GROUP BY s, k, l)
                                          GROUP BY s, k)
                                    GROUP BY s) AS seen ON fit.s IS NOT DISTINCT FROM seen.s))))
    ), fitted AS MATERIALIZED (
        SELECT s, max(turn) AS turn, arg_max(done, turn) AS done,
               arg_max(CASE WHEN done THEN tried ELSE x END, turn) AS x, arg_max(held, turn) AS held,
               rankql_inverse(arg_max(matrix, turn)) AS inverse
        FROM fit GROUP BY s
    ), slopes AS (
        SELECT s, q, a.k AS k, sum(a.u) AS u
        FROM (SELECT units.s AS s, q, unnest(list_filter(
                         rankql_terms(rankql_fitted(rankql_telling(unit, ks, pairs), x, pairs), pairs)[2:],
                         lambda a: a.k = a.l)) AS a, held
              FROM units JOIN starts ON units.s IS NOT DISTINCT FROM starts.s
              JOIN fitted ON units.s IS NOT DISTINCT FROM fitted.s)
        GROUP BY s, q, a.k
    ), queries AS (
        SELECT s, q, list({'k': k, 'u': u}) AS slopes FROM slopes GROUP BY s, q
    ), meat AS (
        SELECT s, k, l, sum(m) AS m, CAST(count(*) AS DOUBLE) AS n
        FROM (SELECT s, unnest(flatten(list_transform(slopes, lambda a: list_transform(slopes, lambda b:
                         {'k': a.k, 'l': b.k, 'm': a.u * b.u}))), recursive := true) FROM queries)
        GROUP BY s, k, l
    ), spread AS (
        SELECT fitted.s AS s, j, sum(CASE WHEN held[k] OR held[l] THEN 0
                   ELSE m * (inverse[j][k] - inverse[1][k]) * (inverse[j][l] - inverse[1][l]) END) AS variance,
               max(meat.n) FILTER (WHERE k = j AND l = j) AS n
        FROM (SELECT *, unnest(range(1, len(x) + 1)) AS j FROM fitted) AS fitted
        JOIN meat ON fitted.s IS NOT DISTINCT FROM meat.s
        GROUP BY fitted.s, j
    ), clusters AS (
        SELECT s, CAST(count(*) AS DOUBLE) AS n FROM queries GROUP BY s
    ), told AS (
        SELECT fitted.s AS s, ks[spread.j] AS k, fitted.x[spread.j] - fitted.x[1] AS x,
               held[spread.j] AND held[1] AS bound,
               CASE WHEN NOT (held[spread.j] AND held[1]) AND spread.n > 1
                    THEN rankql_z(confidence) * sqrt(greatest(0, variance) * clusters.n / (clusters.n - 1)) END AS reach
        FROM fitted JOIN starts ON fitted.s IS NOT DISTINCT FROM starts.s
        JOIN spread ON fitted.s IS NOT DISTINCT FROM spread.s
        JOIN clusters ON fitted.s IS NOT DISTINCT FROM clusters.s
    ), compared AS (
        SELECT placed.*, told.x AS x, reach, turn, done, bound,
               max(c) FILTER (WHERE placed.k = 1) OVER (PARTITION BY placed.s) AS first
        FROM placed JOIN fitted ON placed.s IS NOT DISTINCT FROM fitted.s
        LEFT JOIN told ON placed.s IS NOT DISTINCT FROM told.s AND placed.k = told.k
    )
    SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x) AS propensity,
           rankql_propensity(k, x - reach) AS lo, rankql_propensity(k, x + reach) AS hi,
           CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, component,
           CAST(turn AS BIGINT) AS iterations, done AS converged,
           rankql_position_note(k, c, first, component, x, done, bound, reach) AS note
    FROM compared;

CREATE OR REPLACE MACRO rankql_chosen_pairs(pairs) AS
    CASE WHEN rankql_text(pairs) IN ('all', 'adjacent', 'first') THEN pairs
         ELSE error('pairs must be ''all'', ''adjacent'' or ''first'', not ' || rankql_text(pairs)) END;

CREATE OR REPLACE MACRO harvested_propensity(
    log, pairs := 'all', query := 'query', item := 'item', pos := 'pos', click := 'click', slice := NULL,
    confidence := 0.95
) AS TABLE
    SELECT COLUMNS(lambda name: rankql_handed(name, slice) AND name NOT IN ('iterations', 'converged'))
    FROM rankql_propensities(log, rankql_chosen_pairs(pairs), query, item, pos, click, slice, confidence, 1e-9, 1000)
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE harvested_propensity IS 'Propensities of positions from items that one query has shown at several of them.';

CREATE OR REPLACE MACRO click_model(
    log, query := 'query', item := 'item', pos := 'pos', click := 'click', slice := NULL, confidence := 0.95,
    tolerance := 1e-9, max_iterations := 100
) AS TABLE
    SELECT COLUMNS(lambda name: rankql_handed(name, slice))
    FROM rankql_propensities(log, 'model', query, item, pos, click, slice, confidence, tolerance, max_iterations)
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE click_model IS 'The position-based click model: the propensities under which the clicks are most likely.';
