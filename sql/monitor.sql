-- Metrics by day, watched against a fixed baseline period. Load common.sql first.
-- The statistics, in words: docs/monitor.md.

CREATE OR REPLACE MACRO rankql_yearly(alpha) AS
    rankql_argument(alpha, rankql_option(alpha) > 0 AND rankql_option(alpha) < 1, 'alpha', ' must lie between 0 and 1');

CREATE OR REPLACE MACRO rankql_family(family) AS
    CASE WHEN family IS NOT NULL THEN rankql_argument(family, rankql_option(family) >= 1, 'family', ' must be a number of series from 1') END;

CREATE OR REPLACE MACRO rankql_not_negative(number, name) AS
    CASE WHEN number < 0 THEN rankql_fail(name || ' must not be negative, not ' || number) ELSE number END;

-- The loss over some days in standard errors: the noise of each day, and that of the means of the weekdays, each of which
-- counts in every week. If days resemble the day before, `inflation` widens both.
CREATE OR REPLACE MACRO rankql_standardised(loss, noise, shared, weeks, inflation) AS
    CASE WHEN NOT isfinite(loss ** 2 + noise + shared) THEN rankql_fail('value is too large: its variance is no finite number')
         WHEN noise + shared > 0 THEN loss / sqrt((noise + weeks * shared) * inflation)
         WHEN abs(loss) < 1e-12 THEN 0 ELSE sign(loss) * 'Infinity'::DOUBLE END;

-- What a day lacks. Differences of sums in another order are 0.
CREATE OR REPLACE MACRO rankql_shortfall(expected, v) AS
    CASE WHEN abs(expected - v) <= 1e-12 * abs(expected) THEN 0 ELSE expected - v END;

-- One row per series and day. `baseline` is the last day of the baseline period. A series is watched if the period has all
-- weekdays of it, each twice; otherwise z is NULL. `family` is the number of series that share alpha. With `queries`, the
-- squared error of a day is at least the usual variance of a query / its queries: few queries can have equal values.
CREATE OR REPLACE MACRO monitor_days(daily, baseline, alpha := 0.05, family := NULL, series := NULL, day := 'day',
                                     value := 'value', error := NULL, queries := NULL) AS TABLE
    WITH logged AS (
        SELECT rankql_slice(rankql_row, series) AS s, CAST(struct_extract(rankql_row, day) AS DATE) AS d,
               rankql_finite(struct_extract(rankql_row, value), value) AS v,
               CASE WHEN error IS NOT NULL THEN rankql_finite(struct_extract(rankql_row, coalesce(error, value)), error) END AS e,
               CASE WHEN queries IS NOT NULL THEN rankql_finite(struct_extract(rankql_row, coalesce(queries, value)), queries) END AS q
        FROM query_table(daily) AS rankql_row
    ), placed AS (
        SELECT s, v, isodow(d) AS weekday,
               rankql_not_negative(q, queries) AS q,
               CASE WHEN baseline IS NULL THEN rankql_fail('baseline must be the last day of the baseline period, not NULL')
                    ELSE d <= CAST(baseline AS DATE) END AS old,
               coalesce(rankql_not_negative(e, error), 0) ** 2 AS e2,
               CASE WHEN count(*) OVER (PARTITION BY s, d) = 1 THEN d
                    ELSE rankql_fail('day ' || d || ' occurs twice' || CASE WHEN series IS NULL THEN '. Name the column of the series: series := ''slice'''
                                     ELSE ' in the series ' || rankql_text(s.value) END) END AS d
        FROM logged WHERE v IS NOT NULL AND d IS NOT NULL
    ), weekdays AS (
        SELECT s, weekday, favg(v ORDER BY d) AS expected, count(*) AS n FROM placed WHERE old GROUP BY ALL
    ), residuals AS (
        SELECT p.*, w.expected, w.n, rankql_shortfall(w.expected, v) AS loss,
               lag(rankql_shortfall(w.expected, v)) OVER (PARTITION BY s ORDER BY d) AS loss_before
        FROM placed AS p LEFT JOIN weekdays AS w USING (s, weekday)
    ), baselines AS (
        SELECT s, count(*) - 7 AS df, favg(e2 ORDER BY d) AS usual_e2, favg(e2 * q ORDER BY d) AS query_e2,
               fsum(loss ** 2 ORDER BY d) AS squares,
               fsum(loss * loss_before ORDER BY d) AS products, sqrt(count(*)) AS root
        FROM residuals WHERE old GROUP BY s HAVING count(DISTINCT weekday) = 7 AND min(n) >= 2
    ), limits AS (
        -- A year has 365 days with three looks each. They overlap, and count as two.
        SELECT s, usual_e2, query_e2, squares / df AS noise, rankql_t_quantile(1 - rankql_yearly(alpha)
                   / (730 * coalesce(rankql_family(family), count(*) OVER ())), df) AS threshold,
               least(0.9, greatest(0, coalesce(products / nullif(squares, 0), 0) + 0.5 / root)) AS resemblance
        FROM baselines
    ), noisy AS (
        SELECT r.*, l.threshold, l.noise + greatest(0, greatest(r.e2, l.query_e2 / nullif(r.q, 0)) - l.usual_e2) AS noise, l.noise / r.n AS shared,
               (1 + resemblance) / (1 - resemblance) AS inflation,
               CASE WHEN threshold IS NOT NULL AND NOT old THEN d
                    WHEN NOT old AND (SELECT count(*) FROM limits) = 0
                    THEN rankql_fail('the baseline up to ' || baseline || ' must have each weekday twice. Choose a later day')
               END AS watched
        FROM residuals AS r LEFT JOIN limits AS l USING (s)
    ), days AS (
        -- In a week, a day counts at most as what sets off an alarm by itself: one outage is one alarm.
        SELECT *, threshold * sqrt(noise + shared) AS band, greatest(-band, least(band, loss)) AS clipped FROM noisy
    ), summed AS (
        SELECT *, count(*) OVER week AS n7, fsum(clipped) OVER week AS loss7, favg(loss) OVER week AS loss_week,
               favg(loss) OVER month AS loss_month, fsum(noise) OVER week AS noise7,
               fsum(shared) OVER week AS shared7, count(*) OVER month AS n28, fsum(clipped) OVER month AS loss28,
               fsum(noise) OVER month AS noise28, fsum(shared) OVER month AS shared28
        FROM days
        WINDOW week AS (PARTITION BY s, watched IS NULL ORDER BY d RANGE BETWEEN INTERVAL 6 DAYS PRECEDING AND CURRENT ROW),
               month AS (PARTITION BY s, watched IS NULL ORDER BY d RANGE BETWEEN INTERVAL 27 DAYS PRECEDING AND CURRENT ROW)
    ), scored AS (
        SELECT *, CASE WHEN watched IS NOT NULL THEN rankql_standardised(loss, noise, shared, 1, 1) END AS z_day,
               -- A week may lack two days, and four weeks eight. Without noise a day sets off every alarm by itself.
               CASE WHEN watched IS NOT NULL AND n7 >= 5 AND (noise7 + shared7 > 0 OR loss_week = 0)
                    THEN rankql_standardised(loss7, noise7, shared7, 1, inflation) END AS z_week,
               CASE WHEN watched IS NOT NULL AND n28 >= 20 AND (noise28 + shared28 > 0 OR loss_month = 0)
                    THEN rankql_standardised(loss28, noise28, shared28, 4, inflation) END AS z_month
        FROM summed
    )
    SELECT s.value AS series, d AS day, v AS value, expected, band, loss, loss_week, loss_month, z_day, z_week, z_month, threshold,
           greatest(z_day, z_week, z_month) >= threshold AS alarm
    FROM scored ORDER BY rankql_text(s.value), d;
COMMENT ON MACRO TABLE monitor_days IS 'The value of each day against the same weekdays of a baseline period, with alarms.';
