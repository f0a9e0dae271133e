-- Propensities: how likely each position is looked at, relative to the first, from a log of what was shown where and
-- clicked. Under the position-based model a click has the chance propensity(position) * attraction(query, item). Load
-- common.sql first.

-- What was shown: the impressions and clicks of each item of each query by position. A row without a position is checked
-- too, but not counted.
CREATE OR REPLACE MACRO rankql_impressions(log, query, item, pos, click, slice) AS TABLE
    SELECT s, q, i, CAST(k AS BIGINT) AS k, CAST(count(*) AS DOUBLE) AS n, sum(c) AS c
    FROM (SELECT s, k, CASE WHEN q.value IS NULL THEN error(query || ' must not be NULL') ELSE q END AS q,
                 CASE WHEN item IS NOT NULL AND i.value IS NULL THEN error(item || ' must not be NULL') ELSE i END AS i,
                 CASE WHEN k IS NOT NULL AND c IS NULL THEN error(click || ' must be 0 or 1, not NULL')
                      ELSE rankql_clicked(c, click) END AS c
          FROM (SELECT rankql_key(CASE WHEN slice IS NOT NULL THEN struct_extract(rankql_row, slice) END) AS s,
                       rankql_key(struct_extract(rankql_row, query)) AS q,
                       rankql_key(CASE WHEN item IS NOT NULL THEN struct_extract(rankql_row, item) END) AS i,
                       rankql_pos(struct_extract(rankql_row, pos), NULL, pos) AS k,
                       struct_extract(rankql_row, click) AS c
                FROM query_table(log) AS rankql_row))
    GROUP BY s, q, i, k
    HAVING count(k) > 0; -- k IS NOT NULL would be looked at before what is to be checked

-- The clicks at a position, once the log is found fit to compare positions.
CREATE OR REPLACE MACRO rankql_position_clicks(k, n, c, s, slice) AS
    CASE WHEN sum(sum(n)) OVER () = sum(sum(c)) OVER ()
         THEN error('the log holds clicks only; propensities need the impressions without a click too')
         WHEN min(k) OVER (PARTITION BY s) > 1
         THEN error('the log must have rows at position 1, to which propensities are relative'
                    || CASE WHEN slice IS NULL THEN ''
                            ELSE '; there are none where ' || slice || ' is ' || rankql_text(s.value) END)
         ELSE sum(c) END;

-- What is said of a position: why it has no propensity, or no interval, or one to beware of. x is NULL where it cannot
-- be told, `lo` where it has no interval, which would rest on so many queries.
CREATE OR REPLACE MACRO rankql_position_note(k, c, first, component, x, done, one, queries, lo) AS
    CASE WHEN k = 1 THEN NULL
         WHEN c = 0 THEN 'no click'
         WHEN first = 0 THEN 'no click at position 1'
         WHEN component > 1 THEN 'not connected with position 1'
         WHEN x IS NULL THEN 'too few clicks compare it with position 1'
         WHEN NOT done THEN 'not converged: raise max_iterations or use harvested_propensity'
         WHEN one THEN 'no interval: it is 1, the most that the model allows'
         WHEN queries < 2 THEN 'no interval: it rests on one query'
         WHEN lo IS NULL THEN 'no interval: too few clicks'
         WHEN queries < 30 THEN 'the interval rests on fewer than 30 queries' END;

-- The propensity at a logarithm x and what is beyond it, up or down: position 1 is what the others are relative to, and
-- an interval beyond all numbers is none.
CREATE OR REPLACE MACRO rankql_propensity(k, x, reach, direction) AS
    CASE WHEN k = 1 THEN 1::DOUBLE
         WHEN direction = 0 THEN exp(x)
         WHEN abs(x) + reach <= 700 THEN exp(x + direction * reach) END;


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
                                    rankql_propensity(k, x, reach, -1)) AS note
        FROM compared
        UNION ALL BY NAME -- no row, but checked also where the log has none
        SELECT 0 AS a WHERE rankql_z(confidence) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM found ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE randomised_propensity IS 'Propensities of positions from a log in which what stands where was drawn at random.';


-- What a query and item tell of the positions k and l: of two positions the clicks of each, had both been shown half as
-- often as the harmonic mean of their impressions (Mantel and Haenszel); or, for the click model, of each position
-- k = l its impressions and its clicks, if it has clicks at all (its attraction is 0 if not).
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
         THEN flatten(list_transform(unit, lambda a: list_transform(list_filter(unit, lambda b: a.k <> b.k),
                lambda b: {'a': a.k, 'b': b.k, 'win': true})))
         ELSE flatten(list_transform(unit, lambda x: [
            {'a': x.k, 'b': x.l, 'win': x.x > 0}, {'a': x.l, 'b': x.k, 'win': x.y > 0}])) END;

-- What of a unit tells on positions that can be told, these numbered.
CREATE OR REPLACE MACRO rankql_telling(unit, told, pairs) AS
    list_transform([list_transform(
        list_filter(unit, lambda a: list_contains(told, a.k) AND list_contains(told, a.l)
                                    AND (pairs = 'model' OR a.x + a.y > 0)),
        lambda a: {'k': list_position(told, a.k), 'l': list_position(told, a.l), 'x': a.x, 'y': a.y})], lambda cells:
        CASE WHEN list_sum([a.x + a.y for a in cells]) > 0 AND (pairs <> 'model' OR list_sum([a.y for a in cells]) > 0)
             THEN cells ELSE [] END)[1];

-- The odds o of a click at the best position for which `clicks` are as many as expected: the sum over `parts`,
-- positions with m impressions unclicked and `share` of the propensity of the best, of m share o / (1 + (1 - share) o).
-- It rises ever less, so that Newton's steps from below stay below.
CREATE OR REPLACE MACRO rankql_odds(parts, clicks) AS
    list_reduce(
        list_concat([clicks / list_sum(list_transform(parts, lambda x: x.m * x.share))],
                    list_transform(range(8), lambda i: CAST(0 AS DOUBLE))),
        lambda o, unused: o + (clicks - list_sum(list_transform(parts, lambda x:
                                   x.m * x.share * o / (1 + (1 - x.share) * o))))
                              / list_sum(list_transform(parts, lambda x:
                                   x.m * x.share / pow(1 + (1 - x.share) * o, 2))));

-- The attraction of an item, at most 1, that makes its clicks most likely; positions have the propensities p.
CREATE OR REPLACE MACRO rankql_attraction(unit, p) AS
    list_transform([list_max([p[a.k] for a in unit if a.x > a.y])], lambda best: coalesce(least(1, list_transform([
        rankql_odds(list_transform(list_filter(unit, lambda a: a.x > a.y),
                                   lambda a: {'m': a.x - a.y, 'share': p[a.k] / best}),
                    list_sum([a.y for a in unit]))], lambda o: o / (1 + o) / best)[1]), 1))[1];

-- The E step: how often each position of a unit was looked at, as far as its clicks tell; and their likelihood.
CREATE OR REPLACE MACRO rankql_looks(unit, p) AS
    list_transform([rankql_attraction(unit, p)], lambda r: list_transform(unit, lambda a: {
        'k': a.k, 'n': a.x,
        'looks': a.y + CASE WHEN a.x > a.y THEN (a.x - a.y) * p[a.k] * (1 - r) / (1 - p[a.k] * r) ELSE 0 END,
        'f': CASE WHEN a.y > 0 THEN a.y * ln(p[a.k] * r) ELSE 0 END
             + CASE WHEN a.x > a.y THEN (a.x - a.y) * ln(1 - p[a.k] * r) ELSE 0 END}))[1];

-- Where two steps of EM foretell that it ends (SQUAREM); at most half of the way to a propensity of 1, and at most a
-- factor of exp(10) down: far beyond, chances would be 0, which have no logarithm.
CREATE OR REPLACE MACRO rankql_length(x) AS sqrt(list_sum(list_transform(x, lambda a: a * a)));

CREATE OR REPLACE MACRO rankql_leap(a, b, c) AS
    list_transform([{'first': list_transform(a, lambda x, i: b[i] - x),
                     'turn': list_transform(a, lambda x, i: c[i] - b[i] - (b[i] - x))}], lambda v:
        list_transform([greatest(1, coalesce(rankql_length(v.first) / nullif(rankql_length(v.turn), 0), 1))],
            lambda pace: list_transform(a, lambda x, i:
                greatest(c[i] - 10, least(x + 2 * pace * v.first[i] + pace * pace * v.turn[i], c[i] / 2))))[1])[1];

-- The slope and the curvature of the likelihood of a unit at x, the logarithms of the propensities, as terms of a vector
-- and of a matrix. In the model the attraction moves along where its limit of 1 does not bind it: where its clicks are
-- as many as expected; of an item seen at one position nothing then remains.
CREATE OR REPLACE MACRO rankql_terms(unit, x, pairs) AS
    CASE WHEN pairs = 'model'
         THEN list_transform([list_transform([rankql_attraction(unit, list_transform(x, lambda a: exp(a)))], lambda r:
            list_transform(unit, lambda a: {'k': a.k, 'y': a.y,
                'u': a.y - CASE WHEN a.x > a.y THEN (a.x - a.y) * exp(x[a.k]) * r / (1 - exp(x[a.k]) * r) ELSE 0 END,
                'w': CASE WHEN a.x > a.y THEN (a.x - a.y) * exp(x[a.k]) * r / pow(1 - exp(x[a.k]) * r, 2)
                          ELSE 0 END}))[1]], lambda cells:
            list_transform([{'bound': list_sum([a.u for a in cells]) >= 1e-6 * list_sum([a.y for a in cells]),
                             'w': list_sum([a.w for a in cells])}], lambda whole:
                CASE WHEN whole.bound OR len(cells) > 1
                     THEN flatten(list_transform(cells, lambda a: list_transform(cells, lambda b: {
                        'k': a.k, 'l': b.k, 'u': CASE WHEN a.k = b.k THEN a.u ELSE 0 END,
                        'h': CASE WHEN a.k = b.k THEN a.w ELSE 0 END
                             - CASE WHEN whole.bound OR whole.w = 0 THEN 0 ELSE a.w / whole.w * b.w END})))
                     ELSE [] END)[1])[1]
         ELSE flatten(list_transform(unit, lambda a: list_transform([{
                'u': a.x / (1 + exp(x[a.k] - x[a.l])) - a.y / (1 + exp(x[a.l] - x[a.k])),
                'w': (a.x + a.y) / (1 + exp(x[a.k] - x[a.l])) / (1 + exp(x[a.l] - x[a.k]))}], lambda game: [
                {'k': a.k, 'l': a.k, 'u': game.u, 'h': game.w}, {'k': a.l, 'l': a.l, 'u': -game.u, 'h': game.w},
                {'k': a.k, 'l': a.l, 'u': 0::DOUBLE, 'h': -game.w},
                {'k': a.l, 'l': a.k, 'u': 0::DOUBLE, 'h': -game.w}])[1])) END;

-- Which positions a limit of 1 binds, where the likelihood would still rise; the first where there is none, as one must
-- stay for the others to be told.
CREATE OR REPLACE MACRO rankql_held(slope, clicks) AS
    list_transform([list_transform(slope, lambda u, i: abs(u) > 1e-6 * clicks[i])], lambda bound:
        CASE WHEN list_bool_or(bound) THEN bound ELSE list_transform(slope, lambda u, i: i = 1) END)[1];

-- Of the matrix what concerns the others.
CREATE OR REPLACE MACRO rankql_held_matrix(matrix, held) AS
    list_transform(matrix, lambda line, i: list_transform(line, lambda a, j:
        CASE WHEN held[i] OR held[j] THEN CAST(i = j AS DOUBLE) ELSE a END));

-- Linear equations, by Gauss and Jordan: lines of a matrix, each with its right sides appended. The matrices here are
-- positive definite and need no pivots; what cannot be solved, as one is not, is NULL.
CREATE OR REPLACE MACRO rankql_eliminated(matrix, right_sides) AS list_reduce(
    list_concat([list_transform(matrix, lambda line, i: list_concat(line, right_sides[i]))],
                list_transform(matrix, lambda line: CAST([] AS DOUBLE[][]))),
    lambda m, unused, i: list_transform([list_transform(m[i - 1], lambda a:
            CASE WHEN m[i - 1][i - 1] > 1e-12 * matrix[i - 1][i - 1] THEN a / m[i - 1][i - 1] END)], lambda top:
        list_transform(m, lambda line, j: CASE WHEN j = i - 1 THEN top WHEN line[i - 1] = 0 THEN line
            ELSE list_transform(line, lambda a, c: a - line[i - 1] * top[c]) END))[1]);

CREATE OR REPLACE MACRO rankql_inverse(matrix) AS
    list_transform(
        rankql_eliminated(matrix, list_transform(matrix, lambda line, i:
            list_transform(line, lambda a, j: CAST(i = j AS DOUBLE)))),
        lambda line: line[len(line) // 2 + 1:]);

-- Newton's step from x, position 1 staying. No two positions part by more than a factor of e in a step: the likelihood
-- is concave and curves at most e times as much there, so that each step raises it.
CREATE OR REPLACE MACRO rankql_newton(slope, matrix) AS
    list_transform(
        rankql_eliminated(rankql_held_matrix(matrix, list_transform(slope, lambda u, i: i = 1)),
                          list_transform(slope, lambda u, i: [CASE WHEN i = 1 THEN 0 ELSE u END])),
        lambda line: line[-1]);

CREATE OR REPLACE MACRO rankql_moved(x, step) AS
    list_transform([greatest(1, list_max(step) - list_min(step))], lambda pace:
        list_transform(x, lambda a, i: a + step[i] / pace))[1];

-- How far apart two lists of numbers are.
CREATE OR REPLACE MACRO rankql_farthest(x, y) AS list_max(list_transform(x, lambda a, i: abs(a - y[i])));

CREATE OR REPLACE MACRO rankql_iterations(most) AS
    CASE WHEN rankql_option(most) >= 1 AND rankql_option(most) = floor(rankql_option(most)) THEN rankql_option(most)
         ELSE error('max_iterations must be a whole number from 1, not ' || rankql_text(most)) END;

CREATE OR REPLACE MACRO rankql_tolerance(tolerance) AS
    CASE WHEN rankql_option(tolerance) > 0 AND rankql_option(tolerance) < 1 THEN rankql_option(tolerance)
         ELSE error('tolerance must lie between 0 and 1, not ' || rankql_text(tolerance)) END;

-- Harvesting and the click model: the logarithms x of the propensities at which a likelihood is highest, of the one by
-- Newton's method, of the other by EM; and their covariance, clustered by query.
CREATE OR REPLACE MACRO rankql_propensities(
    log, pairs, query, item, pos, click, slice, confidence, tolerance, max_iterations
) AS TABLE
    WITH RECURSIVE shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, item, pos, click, slice)
    ), positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM shown GROUP BY s, k
    ), units AS MATERIALIZED (
        SELECT s, q, rankql_unit(list({'k': k, 'n': n, 'c': c} ORDER BY k ASC), pairs) AS unit
        FROM shown GROUP BY s, q, i HAVING pairs <> 'model' OR sum(c) > 0
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
        SELECT s, list(k ORDER BY k ASC) AS ks, list(c ORDER BY k ASC) AS clicks,
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
    ), climb AS (
        SELECT s, 0 AS turn, false AS done, guess AS x FROM starts WHERE pairs <> 'model'
        UNION ALL
        SELECT s, turn + 1, list_max([abs(a) for a in step]) < 1e-9, rankql_moved(x, step)
        FROM (SELECT climb.*, rankql_newton(slope, matrix) AS step
              FROM climb JOIN (
                SELECT s, list(u ORDER BY k ASC) AS slope, list(line ORDER BY k ASC) AS matrix
                FROM (SELECT s, k, sum(u) AS u, list(h ORDER BY l ASC) AS line
                      FROM (SELECT s, k, l, sum(u) AS u, sum(h) AS h
                            FROM (SELECT climb.s AS s, unnest(rankql_terms(unit, x, pairs), recursive := true)
                                  FROM climb JOIN rounds ON climb.s IS NOT DISTINCT FROM rounds.s
                                  WHERE NOT done AND turn < 1000)
                            GROUP BY s, k, l)
                      GROUP BY s, k)
                GROUP BY s) AS seen ON climb.s IS NOT DISTINCT FROM seen.s)
    ), em AS ( -- trail: a point, where EM goes from it and from there, and where this foretells that it ends
        SELECT s, 0 AS turn, clicks[1] = 0 AS done, [list_transform(ks, lambda k: ln(0.5))] AS trail,
               '-infinity'::DOUBLE AS f
        FROM starts WHERE pairs = 'model'
        UNION ALL
        SELECT s, turn + 1, len(trail) = 2 AND rankql_farthest(trail[1], leap) < rankql_tolerance(tolerance),
               CASE len(trail) WHEN 1 THEN [trail[1], image]
                               WHEN 2 THEN [trail[1], trail[2], image, leap]
                               ELSE [CASE WHEN f >= before THEN image ELSE trail[3] END] END, f
        FROM (SELECT em.s AS s, turn, trail, em.f AS before, seen.f AS f, image,
                     CASE WHEN len(trail) = 2 THEN rankql_leap(trail[1], trail[2], image) END AS leap
              FROM em JOIN (
                SELECT s, sum(f) AS f, list(ln(looks / n) ORDER BY k ASC) AS image
                FROM (SELECT s, k, sum(times * f) AS f, sum(times * looks) AS looks, sum(times * n) AS n
                      FROM (SELECT s, times, unnest(rankql_looks(unit, p), recursive := true)
                            FROM (SELECT em.s AS s, times, unit, list_transform(trail[-1], lambda a: exp(a)) AS p
                                  FROM em JOIN rounds ON em.s IS NOT DISTINCT FROM rounds.s
                                  WHERE times > 0 AND NOT done AND turn < rankql_iterations(max_iterations)))
                      GROUP BY s, k)
                GROUP BY s) AS seen ON em.s IS NOT DISTINCT FROM seen.s)
    ), ended AS MATERIALIZED (
        SELECT s, max(turn) AS turn, arg_max(done, turn) AS done, arg_max(x, turn) AS x FROM climb GROUP BY s
        UNION ALL
        SELECT s, max(turn), arg_max(done, turn), list_transform(arg_max(trail[least(len(trail), 3)], turn), lambda a:
                   a - list_max(arg_max(trail[least(len(trail), 3)], turn))) FROM em GROUP BY s
    ), curved AS (
        SELECT s, list(u ORDER BY k ASC) AS slope, list(line ORDER BY k ASC) AS matrix
        FROM (SELECT s, k, sum(u) AS u, list(h ORDER BY l ASC) AS line
              FROM (SELECT s, k, l, sum(times * u) AS u, sum(times * h) AS h
                    FROM (SELECT ended.s AS s, times, unnest(rankql_terms(unit, x, pairs), recursive := true)
                          FROM ended JOIN rounds ON ended.s IS NOT DISTINCT FROM rounds.s)
                    GROUP BY s, k, l)
              GROUP BY s, k)
        GROUP BY s
    ), fitted AS MATERIALIZED (
        SELECT * EXCLUDE (matrix), rankql_inverse(matrix) AS inverse
        FROM (SELECT s, turn, done, x, ks, held, rankql_held_matrix(matrix, held) AS matrix
              FROM (SELECT ended.*, ks, matrix, rankql_held(slope, clicks) AS held
                    FROM ended JOIN curved ON ended.s IS NOT DISTINCT FROM curved.s
                    JOIN starts ON ended.s IS NOT DISTINCT FROM starts.s))
    ), slopes AS (
        SELECT s, q, a.k AS k, sum(a.u) AS u
        FROM (SELECT units.s AS s, q, unnest(list_filter(
                         rankql_terms(rankql_telling(unit, ks, pairs), x, pairs), lambda a: a.k = a.l)) AS a
              FROM units JOIN fitted ON units.s IS NOT DISTINCT FROM fitted.s
              WHERE len(rankql_telling(unit, ks, pairs)) > 0)
        GROUP BY s, q, a.k
    ), queries AS MATERIALIZED (
        SELECT s, q, list({'k': k, 'u': u}) AS slopes FROM slopes GROUP BY s, q
    ), meat AS MATERIALIZED (
        SELECT s, k, l, sum(m) AS m, CAST(count(*) AS DOUBLE) AS n
        FROM (SELECT s, unnest(flatten(list_transform(slopes, lambda a: list_transform(slopes, lambda b:
                         {'k': a.k, 'l': b.k, 'm': a.u * b.u}))), recursive := true) FROM queries)
        GROUP BY s, k, l
    ), spread AS (
        SELECT fitted.s AS s, j, sum(CASE WHEN held[k] OR held[l] THEN 0
                   ELSE m * (inverse[j][k] - inverse[1][k]) * (inverse[j][l] - inverse[1][l]) END) AS variance,
               least(coalesce(max(n) FILTER (WHERE k = j AND l = j), 0),
                     coalesce(max(n) FILTER (WHERE k = 1 AND l = 1), 0)) AS queries
        FROM (SELECT *, unnest(range(1, len(x) + 1)) AS j FROM fitted) AS fitted
        JOIN meat ON fitted.s IS NOT DISTINCT FROM meat.s
        GROUP BY fitted.s, j
    ), clusters AS (
        SELECT s, CAST(count(*) AS DOUBLE) AS n FROM queries GROUP BY s
    ), told AS (
        SELECT fitted.s AS s, ks[j] AS k, queries, held[j] AND held[1] AND abs(fitted.x[j] - fitted.x[1]) < 1e-6 AS one,
               CASE WHEN NOT done OR inverse[j][1] + inverse[1][1] IS NOT NULL
                    THEN fitted.x[j] - fitted.x[1] END AS x,
               CASE WHEN done AND queries > 1 AND NOT (held[j] AND held[1])
                    THEN rankql_z(confidence) * sqrt(greatest(0, variance) * clusters.n / (clusters.n - 1)) END AS reach
        FROM fitted JOIN spread ON fitted.s IS NOT DISTINCT FROM spread.s
        JOIN clusters ON fitted.s IS NOT DISTINCT FROM clusters.s
    ), compared AS (
        SELECT placed.*, told.x AS x, reach, turn, done, one, queries,
               max(c) FILTER (WHERE placed.k = 1) OVER (PARTITION BY placed.s) AS first
        FROM placed JOIN ended ON placed.s IS NOT DISTINCT FROM ended.s
        LEFT JOIN told ON placed.s IS NOT DISTINCT FROM told.s AND placed.k = told.k
    )
    SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x, reach, 0) AS propensity,
           rankql_propensity(k, x, reach, -1) AS lo, rankql_propensity(k, x, reach, 1) AS hi,
           CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, component,
           CAST(turn AS BIGINT) AS iterations, done AS converged,
           rankql_position_note(k, c, first, component, x, done, one, queries,
                                rankql_propensity(k, x, reach, -1)) AS note
    FROM compared
    UNION ALL BY NAME -- no row, but checked also where the log has none
    SELECT 0 AS a WHERE rankql_z(confidence) + rankql_tolerance(tolerance) + rankql_iterations(max_iterations)
                        + len(pairs) < 0;

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
    tolerance := 1e-9, max_iterations := 10000
) AS TABLE
    SELECT COLUMNS(lambda name: rankql_handed(name, slice))
    FROM rankql_propensities(log, 'model', query, item, pos, click, slice, confidence, tolerance, max_iterations)
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE click_model IS 'The position-based click model: the propensities under which the clicks are most likely.';
