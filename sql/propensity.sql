-- Propensities: the probability that users look at a position, relative to position 1, from a log of impressions and
-- clicks. In the position-based model P(click) = propensity(position) * attraction(query, item). Load common.sql first.
--
--   randomised_propensity(log)  the clicks per impression at a position / those at position 1
--   harvested_propensity(log)   the propensities under which the clicks are most likely, where a click on an item that a query shows at
--                               positions i and j is at i with probability propensity(i) / (propensity(i) + propensity(j))

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

-- Note on a position: why it has no propensity (x is NULL) or no interval (lo is NULL), or a warning.
CREATE OR REPLACE MACRO rankql_position_note(k, c, first, component, x, queries, lo) AS
    CASE WHEN k = 1 THEN NULL
         WHEN c = 0 THEN 'no click'
         WHEN first = 0 THEN 'no click at position 1'
         WHEN component > 1 THEN 'not connected with position 1'
         WHEN x IS NULL THEN 'too few clicks compare it with position 1'
         WHEN queries < 2 THEN 'no interval: it rests on one query'
         WHEN lo IS NULL THEN 'no interval: too few clicks'
         WHEN queries < 30 THEN 'the interval rests on fewer than 30 queries' END;

CREATE OR REPLACE MACRO randomised_propensity(
    log, query := 'query', pos := 'pos', click := 'click', slice := NULL, confidence := 0.95
) AS TABLE
    WITH __rankql_shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, NULL, pos, click, slice)
    ), __rankql_positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM __rankql_shown GROUP BY s, k
    ), __rankql_moves AS ( -- the influence of each query on the logarithm of the rate of each position
        SELECT shown.s AS s, q, shown.k AS k,
               (shown.c - shown.n * positions.c / positions.n) / nullif(positions.c, 0) AS move
        FROM __rankql_shown AS shown JOIN __rankql_positions AS positions ON shown.s IS NOT DISTINCT FROM positions.s AND shown.k = positions.k
    ), __rankql_paired AS (
        SELECT s, k, move, max(move) FILTER (WHERE k = 1) OVER (PARTITION BY s, q) AS first FROM __rankql_moves
    ), __rankql_spread AS (
        SELECT s, k, sum(move * move) AS own, coalesce(sum(move * first), 0) AS shared,
               CAST(count(*) AS DOUBLE) AS shown
        FROM __rankql_paired GROUP BY s, k
    ), __rankql_queries AS (
        SELECT s, CAST(count(DISTINCT q) AS DOUBLE) AS queries FROM __rankql_shown GROUP BY s
    ), __rankql_compared AS (
        SELECT positions.s AS s, positions.k AS k, positions.n AS n, positions.c AS c,
               first.c AS first, ln(nullif(positions.c, 0) / positions.n * first.n / nullif(first.c, 0)) AS x,
               least(spread.shown, origin.shown) AS queries,
               CASE WHEN least(spread.shown, origin.shown) > 1
                    THEN rankql_z(confidence) * sqrt(greatest(0, spread.own + origin.own - 2 * spread.shared)
                                                     * queries.queries / (queries.queries - 1)) END AS reach
        FROM __rankql_positions AS positions
        JOIN __rankql_spread AS spread ON positions.s IS NOT DISTINCT FROM spread.s AND positions.k = spread.k
        JOIN __rankql_positions AS first ON positions.s IS NOT DISTINCT FROM first.s AND first.k = 1
        JOIN __rankql_spread AS origin ON positions.s IS NOT DISTINCT FROM origin.s AND origin.k = 1
        JOIN __rankql_queries AS queries ON positions.s IS NOT DISTINCT FROM queries.s
    ), __rankql_found AS (
        SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x, reach, 0) AS propensity,
               rankql_propensity(k, x, reach, -1) AS lo, rankql_propensity(k, x, reach, 1) AS hi,
               CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, 1::BIGINT AS component,
               rankql_position_note(k, c, first, 1, x, queries, rankql_propensity(k, x, reach, -1)) AS note
        FROM __rankql_compared
        UNION ALL BY NAME -- no row: checks the options of an empty log
        SELECT 0 AS a WHERE rankql_z(confidence) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_found ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE randomised_propensity IS 'Propensities of positions from a log in which what stands where was drawn at random.';


-- Items that one query has shown at several positions.

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

-- The slope of the likelihood of Bradley and Terry in the logarithms x of the propensities, and the negative of its
-- curvature. `wins` has the clicks of each position against each other one.
CREATE OR REPLACE MACRO rankql_slope(wins, x) AS
    list_transform(wins, lambda line, i: list_sum(list_transform(line, lambda w, j:
        w - (w + wins[j][i]) / (1 + exp(x[j] - x[i])))));

CREATE OR REPLACE MACRO rankql_curvature(wins, x) AS
    list_transform([list_transform(wins, lambda line, i: list_transform(line, lambda w, j:
            (w + wins[j][i]) / (2 + exp(x[j] - x[i]) + exp(x[i] - x[j]))))], lambda weights:
        list_transform(weights, lambda line, i: list_transform(line, lambda w, j:
            CASE WHEN i = j THEN list_sum(line) - w ELSE -w END)))[1];

-- Newton's step, damped because some directions can be flat. It changes no ratio of propensities by more than the factor e:
-- then the likelihood rises.
CREATE OR REPLACE MACRO rankql_newton(wins, x, clicks) AS
    list_transform([list_transform(
        rankql_inverse(rankql_curvature(wins, x), list_transform(clicks, lambda c: 1e-6 * c)),
        lambda line: list_inner_product(line, rankql_slope(wins, x)))], lambda step:
        list_transform(step, lambda a: a / greatest(1, list_max(step) - list_min(step))))[1];

CREATE OR REPLACE MACRO rankql_chosen_pairs(pairs) AS
    CASE WHEN rankql_text(pairs) IN ('all', 'adjacent', 'first') THEN pairs
         ELSE rankql_fail('pairs must be ''all'', ''adjacent'' or ''first'', not ' || rankql_text(pairs)) END;

-- The maximum likelihood of the logarithms x of the propensities, and their covariance, clustered by query.
CREATE OR REPLACE MACRO harvested_propensity(
    log, pairs := 'all', query := 'query', item := 'item', pos := 'pos', click := 'click', slice := NULL,
    confidence := 0.95
) AS TABLE
    WITH RECURSIVE __rankql_shown AS MATERIALIZED (
        FROM rankql_impressions(log, query, item, pos, click, slice)
    ), __rankql_positions AS MATERIALIZED (
        SELECT s, k, sum(n) AS n, rankql_position_clicks(k, n, c, s, slice) AS c FROM __rankql_shown GROUP BY s, k
    ), __rankql_games AS MATERIALIZED ( -- the clicks of two positions, as if shown equally often
        SELECT a.s AS s, a.q AS q, a.k AS k, b.k AS l, sum(a.c * b.n / (a.n + b.n)) AS x,
               sum(b.c * a.n / (a.n + b.n)) AS y
        FROM __rankql_shown AS a JOIN __rankql_shown AS b ON a.s IS NOT DISTINCT FROM b.s AND a.q = b.q AND a.i IS NOT DISTINCT FROM b.i
        WHERE CASE rankql_chosen_pairs(pairs) WHEN 'all' THEN a.k < b.k
                         WHEN 'adjacent' THEN a.k + 1 = b.k
                         WHEN 'first' THEN a.k = 1 AND b.k > 1 END
        GROUP BY a.s, a.q, a.k, b.k
    ), __rankql_sides AS MATERIALIZED ( -- the clicks of a position against another one
        SELECT s, a, b, sum(won) AS won
        FROM (SELECT s, k AS a, l AS b, x AS won FROM __rankql_games UNION ALL SELECT s, l, k, y FROM __rankql_games)
        GROUP BY s, a, b
    ), __rankql_edges AS MATERIALIZED ( -- `win`: clicks show that a is not infinitely worse than b
        SELECT sides.s AS s, a, b, won > 0 AND c > 0 AS win
        FROM __rankql_sides AS sides JOIN __rankql_positions AS positions ON sides.s IS NOT DISTINCT FROM positions.s AND b = k
    ), __rankql_ways AS (
        SELECT s, k AS a, k AS b, unnest([false, true]) AS win FROM __rankql_positions
        UNION
        SELECT ways.s, ways.a, edges.b, ways.win
        FROM __rankql_ways AS ways JOIN __rankql_edges AS edges ON ways.s IS NOT DISTINCT FROM edges.s AND ways.b = edges.a
        WHERE edges.win OR NOT ways.win
    ), __rankql_placed AS MATERIALIZED (
        SELECT positions.s AS s, k, any_value(n) AS n, any_value(c) AS c,
               min(CASE WHEN ways.a = k THEN ways.b ELSE ways.a END) FILTER (WHERE NOT win) AS component,
               k = 1 OR (bool_or(win AND ways.a = 1) AND bool_or(win AND ways.b = 1)) AS told
        FROM __rankql_positions AS positions JOIN __rankql_ways AS ways ON positions.s IS NOT DISTINCT FROM ways.s AND (k = ways.a OR k = ways.b)
        GROUP BY positions.s, k
    ), __rankql_climb AS (
        SELECT s, 0 AS turn, clicks[1] = 0 AS done, ks, clicks, wins, x
        FROM (SELECT s, list(k ORDER BY k ASC) AS ks, list(c ORDER BY k ASC) AS clicks,
                     list(line ORDER BY k ASC) AS wins, list(CASE WHEN c > 0 THEN ln(c / n) ELSE 0 END ORDER BY k ASC) AS x
              FROM (SELECT own.s AS s, own.k AS k, any_value(own.n) AS n, any_value(own.c) AS c,
                           list(coalesce(won, 0) ORDER BY other.k ASC) AS line
                    FROM __rankql_placed AS own JOIN __rankql_placed AS other ON own.s IS NOT DISTINCT FROM other.s
                    LEFT JOIN __rankql_sides AS sides ON own.s IS NOT DISTINCT FROM sides.s AND own.k = sides.a AND other.k = sides.b
                    WHERE own.told AND other.told GROUP BY own.s, own.k)
              GROUP BY s)
        UNION ALL
        SELECT s, turn + 1, list_max([abs(a) for a in step]) < 1e-9, ks, clicks, wins,
               list_transform(x, lambda a, i: a + step[i])
        FROM (SELECT *, rankql_newton(wins, x, clicks) AS step FROM __rankql_climb WHERE NOT done AND turn < 1000)
    ), __rankql_fitted AS MATERIALIZED ( -- relative to the first
        SELECT s, ks, x, rankql_inverse(rankql_curvature(wins, x),
                                        list_transform(x, lambda a, i: CASE WHEN i = 1 THEN 1e300 ELSE 0 END)) AS inverse
        FROM __rankql_climb WHERE done
    ), __rankql_slopes AS (
        SELECT s, q, unnest([{'k': k, 'u': u}, {'k': l, 'u': -u}], recursive := true)
        FROM (SELECT games.s AS s, q, list_position(ks, k) AS k, list_position(ks, l) AS l,
                     games.x - (games.x + y) / (1 + exp(fitted.x[list_position(ks, l)] - fitted.x[list_position(ks, k)])) AS u
              FROM __rankql_games AS games JOIN __rankql_fitted AS fitted ON games.s IS NOT DISTINCT FROM fitted.s
              WHERE games.x + y > 0 AND list_contains(ks, k) AND list_contains(ks, l))
    ), __rankql_moves AS ( -- the influence of each query
        SELECT s, q, j, sum(u * push[k]) AS move, bool_or(k = j) AS there
        FROM (SELECT slopes.*, unnest(range(1, len(inverse) + 1)) AS j, unnest(inverse) AS push
              FROM __rankql_slopes AS slopes JOIN __rankql_fitted AS fitted ON slopes.s IS NOT DISTINCT FROM fitted.s)
        GROUP BY s, q, j
    ), __rankql_spread AS (
        SELECT s, j, sqrt(sum(move * move) * count(*) / (count(*) - 1)) AS error,
               CAST(count(*) FILTER (WHERE there) AS DOUBLE) AS n
        FROM __rankql_moves GROUP BY s, j
    ), __rankql_told AS (
        SELECT fitted.s AS s, ks[a.j] AS k, least(a.n, first.n) AS queries,
               CASE WHEN inverse[a.j][1] IS NOT NULL THEN x[a.j] - x[1] END AS x,
               CASE WHEN least(a.n, first.n) > 1 THEN rankql_z(confidence) * a.error END AS reach
        FROM __rankql_fitted AS fitted JOIN __rankql_spread AS a ON fitted.s IS NOT DISTINCT FROM a.s
        JOIN __rankql_spread AS first ON fitted.s IS NOT DISTINCT FROM first.s AND first.j = 1
    ), __rankql_compared AS (
        SELECT placed.*, x, reach, queries, max(c) FILTER (WHERE placed.k = 1) OVER (PARTITION BY placed.s) AS first
        FROM __rankql_placed AS placed LEFT JOIN __rankql_told AS told ON placed.s IS NOT DISTINCT FROM told.s AND placed.k = told.k
    ), __rankql_found AS (
        SELECT s, k AS a, s.value AS slice, k AS pos, rankql_propensity(k, x, reach, 0) AS propensity,
               rankql_propensity(k, x, reach, -1) AS lo, rankql_propensity(k, x, reach, 1) AS hi,
               CAST(n AS BIGINT) AS impressions, CAST(c AS BIGINT) AS clicks, component,
               rankql_position_note(k, c, first, component, x, queries, rankql_propensity(k, x, reach, -1)) AS note
        FROM __rankql_compared
        UNION ALL BY NAME -- no row: checks the options of an empty log
        SELECT 0 AS a WHERE rankql_z(confidence) + len(rankql_chosen_pairs(pairs)) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_found ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE harvested_propensity IS 'Propensities of positions from items that one query has shown at several of them.';
