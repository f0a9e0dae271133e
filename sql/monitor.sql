-- Metrics by day, watched against a baseline period. Load common.sql first.
-- The rule in words, and how often it is right: docs/monitor.md.
--
--   monitor_days(daily, baseline)  (the median of the same weekdays of the baseline - the value of a day) / their spread, and alarms
--   monitor_baseline(daily)        the first and the last day of the baseline of each series

-- What a day lacks. Differences of sums in another order are 0.
CREATE OR REPLACE MACRO rankql_shortfall(expected, v) AS
    CASE WHEN abs(expected - v) <= 1e-12 * abs(expected) THEN 0 WHEN isfinite(expected - v) THEN expected - v
         WHEN expected IS NOT NULL THEN rankql_fail('value is too large: a difference of two days is no finite number') END;

-- `value`, or the error for a column that the table does not have. `found` is the type of a struct of it and of __rankql_none.
CREATE OR REPLACE MACRO rankql_daily(value, found, name, argument) AS
    CASE WHEN name IS NULL THEN NULL WHEN found NOT LIKE 'STRUCT(__rankql_none%' THEN value
         ELSE rankql_fail('monitor_days needs ' || argument || ': the table has no column ''' || name || '''. Name one: '
                          || argument || ' := ''...''') END;

-- The days of each series against each baseline: `baselines` has the last days of them.
CREATE OR REPLACE MACRO rankql_compared_days(daily, baselines, series, day, value, error, period) AS TABLE
    WITH __rankql_logged AS (
        SELECT struct_pack(until := until, key := rankql_key(rankql_daily(s, s_type, series, 'series'))) AS s, CAST(rankql_daily(d, d_type, day, 'day') AS DATE) AS d,
               rankql_finite(rankql_daily(v, v_type, value, 'value'), value) AS v,
               CASE WHEN error IS NOT NULL THEN rankql_finite(rankql_daily(e, e_type, error, 'error'), error) END AS e
        FROM (SELECT unnest(baselines) AS until,
                     coalesce(*COLUMNS(lambda name: lower(name) IN (lower(series), '__rankql_none'))) AS s,
                     coalesce(*COLUMNS(lambda name: lower(name) IN (lower(day), '__rankql_no_day'))) AS d,
                     coalesce(*COLUMNS(lambda name: lower(name) IN (lower(value), '__rankql_none'))) AS v,
                     coalesce(*COLUMNS(lambda name: lower(name) IN (lower(error), '__rankql_none'))) AS e,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(series), '__rankql_none')))) AS s_type,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(day), '__rankql_none')))) AS d_type,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(value), '__rankql_none')))) AS v_type,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(error), '__rankql_none')))) AS e_type
              FROM (SELECT *, NULL AS __rankql_none, NULL::DATE AS __rankql_no_day FROM query_table(daily)))
    ), __rankql_placed AS (
        SELECT s, v, coalesce(CASE WHEN e < 0 THEN rankql_fail(error || ' must not be negative, not ' || e) ELSE e END, 0) AS e,
               CASE period WHEN 'day' THEN isodow(d) WHEN 'week' THEN 1
                    ELSE rankql_fail('period must be ''day'' or ''week'', not ' || rankql_text(period)) END AS weekday,
               weekday > 5 AS weekend, date_diff(period, DATE '2000-01-03', d) AS step,
               CASE WHEN s.until IS NULL THEN rankql_fail('baseline must be the last day of the baseline period, not NULL')
                    ELSE d <= s.until END AS old,
               CASE WHEN count(*) OVER (PARTITION BY s, date_diff(period, DATE '2000-01-03', d)) = 1 THEN d
                    ELSE rankql_fail(period || ' ' || d || ' occurs twice' || CASE WHEN series IS NULL THEN '. Name the column of the series: series := ''slice'''
                                     ELSE ' in the series ' || rankql_text(s.key.value) END) END AS d
        FROM __rankql_logged WHERE v IS NOT NULL AND d IS NOT NULL
    ), __rankql_weekdays AS (
        SELECT s, weekday, median(v) AS middle, count(*) AS n FROM __rankql_placed WHERE old GROUP BY ALL
    ), __rankql_usual AS (
        SELECT s, favg(e ORDER BY d) AS usual_e FROM __rankql_placed WHERE old GROUP BY s
    ), __rankql_centred AS (
        SELECT p.*, w.n, coalesce(u.usual_e, 0) AS usual_e, abs(rankql_shortfall(w.middle, p.v)) AS far
        FROM __rankql_placed AS p LEFT JOIN __rankql_weekdays AS w USING (s, weekday) LEFT JOIN __rankql_usual AS u USING (s)
    ), __rankql_ordered AS (
        SELECT s, step, far, lag(far) OVER nearer AS before, row_number() OVER nearer AS place, count(*) OVER (PARTITION BY s) AS days
        FROM __rankql_centred WHERE old WINDOW nearer AS (PARTITION BY s ORDER BY far, d)
    ), __rankql_outages AS (
        -- The days of a constant series that differ are one outage, which lasts at most a quarter of the baseline. The days of an
        -- outage are 10 times as far as the others, if these hardly vary.
        SELECT s, coalesce(max(step) FILTER (WHERE far > 0) - min(step) FILTER (WHERE far > 0) + 1 <= 0.25 * any_value(days), true) AS constant,
               min(far) FILTER (WHERE before > 0 AND far > 10 * before AND place > 0.75 * days) AS far_out
        FROM __rankql_ordered GROUP BY s
    ), __rankql_gaps AS (
        SELECT s, a.weekend, a.usual_e, abs(rankql_shortfall(a.v, b.v)) AS gap, greatest(a.far, b.far) AS far
        FROM __rankql_centred AS a JOIN __rankql_centred AS b USING (s, weekday) WHERE a.old AND b.old AND a.d < b.d
    ), __rankql_quarters AS (
        -- The first quartile of the gaps of normal values is 0.4506 standard deviations (Qn of Rousseeuw and Croux). An outage of
        -- a week moves the median. Rounded values have gaps of 0, which do not count. But most gaps of a constant series are 0. Of a
        -- series that is almost constant, most others are those of the outage.
        SELECT s, weekend, any_value(usual_e) AS usual_e, quantile_cont(gap, 0.25) FILTER (WHERE gap > 0) AS quarter,
               quantile_cont(gap, 0.25) FILTER (WHERE gap > 0 AND gaps.far < far_out) AS inner_quarter,
               CASE WHEN quantile_disc(gap, 0.7) = 0 OR any_value(constant) THEN 0
                    ELSE CASE WHEN 10 * inner_quarter < quarter THEN inner_quarter ELSE quarter END / 0.4506 END AS rough
        FROM __rankql_gaps AS gaps JOIN __rankql_outages USING (s) GROUP BY ALL
    ), __rankql_rough AS (
        -- Weekends vary at least as much as the other days: they are too few to show less.
        SELECT s, greatest(max(rough) FILTER (WHERE NOT weekend), max(usual_e)) AS weekdays,
               greatest(weekdays, max(rough) FILTER (WHERE weekend)) AS weekends
        FROM __rankql_quarters GROUP BY s
    ), __rankql_spreads AS (
        -- The mean gap of normal values is 2 / sqrt(pi) standard deviations.
        SELECT s, 6 * any_value(r.weekdays) AS far5, 6 * any_value(r.weekends) AS far7,
               greatest(coalesce(avg(gap) FILTER (WHERE NOT weekend AND far <= 6 * r.weekdays) * sqrt(pi()) / 2, 0), any_value(usual_e)) AS spread5,
               greatest(spread5, avg(gap) FILTER (WHERE weekend AND far <= 6 * r.weekends) * sqrt(pi()) / 2) AS spread7
        FROM __rankql_gaps JOIN __rankql_rough AS r USING (s) GROUP BY s
    ), __rankql_watched AS (
        -- Few days measure the spread badly, more series have more chances, and so has a baseline that grows: all widen the limits.
        SELECT s, 1.05 * min(n) / (min(n) - CASE period WHEN 'week' THEN 3.75 ELSE 8.75 / count(*) END) * (greatest(3, count(*) OVER (PARTITION BY s.until)) / 3) ** 0.125 AS widening
        FROM __rankql_weekdays WHERE n >= CASE period WHEN 'week' THEN 8 ELSE 3 END GROUP BY s HAVING period = 'week' OR count(*) >= 5
    ), __rankql_judged AS (
        SELECT c.*, w.widening, old AND far > CASE WHEN weekend THEN far7 ELSE far5 END AS outlying,
               (CASE WHEN weekend THEN spread7 ELSE spread5 END) + greatest(0, e - usual_e) AS spread,
               CASE WHEN w.widening IS NOT NULL AND NOT old AND (n >= 3 OR period = 'week') THEN d
                    WHEN NOT old AND (SELECT count(*) FROM __rankql_watched) = 0
                    THEN rankql_fail('the baseline up to ' || s.until || CASE period WHEN 'week' THEN ' must have 8 weeks. Choose a later day'
                                     ELSE ' must have five weekdays three times each. Choose a later day, or pass period := ''week'' if each row is a week' END)
               END AS watched
        FROM __rankql_centred AS c LEFT JOIN __rankql_spreads USING (s) LEFT JOIN __rankql_watched AS w USING (s)
    ), __rankql_usable AS (
        SELECT * REPLACE (CASE WHEN count(*) FILTER (WHERE outlying) OVER all_days <= 0.25 * count(*) FILTER (WHERE old) OVER all_days
                          THEN watched END AS watched)
        FROM __rankql_judged WINDOW all_days AS (PARTITION BY s)
    ), __rankql_compared AS (
        SELECT *, median(v) FILTER (WHERE old AND NOT outlying) OVER (PARTITION BY s, weekday) AS expected,
               rankql_shortfall(expected, v) AS loss,
               CASE WHEN watched IS NULL THEN NULL WHEN spread > 0 THEN loss / spread
                    WHEN loss = 0 THEN 0 ELSE sign(loss) * 'Infinity'::DOUBLE END AS z
        FROM __rankql_usable
    ), __rankql_scored AS (
        -- Two days must both be bad. In a week, a day counts so much at most: one outage is one alarm. Smaller losses that last
        -- are found by means of four and of 13 weeks, in which a day counts half as much, while the last week has half of it.
        SELECT *,
               CASE WHEN period = 'day' AND count(z) OVER month >= 20 THEN favg(greatest(-3 * widening, least(3 * widening, z))) OVER month END AS z_month,
               CASE WHEN period = 'day' AND count(z) OVER quarter >= 65 THEN favg(greatest(-3 * widening, least(3 * widening, z))) OVER quarter END AS z_quarter,
               count(*) OVER two = 2 AND min(z) OVER two >= 3.6 * widening AS two_days,
               CASE WHEN count(z) OVER week >= 5 THEN favg(greatest(-6 * widening, least(6 * widening, z))) OVER week END AS z_week
        FROM __rankql_compared
        WINDOW two AS (PARTITION BY s, watched IS NULL ORDER BY step RANGE BETWEEN 1 PRECEDING AND CURRENT ROW),
               week AS (PARTITION BY s, watched IS NULL ORDER BY step RANGE BETWEEN 6 PRECEDING AND CURRENT ROW),
               month AS (PARTITION BY s, watched IS NULL ORDER BY step RANGE BETWEEN 27 PRECEDING AND CURRENT ROW),
               quarter AS (PARTITION BY s, watched IS NULL ORDER BY step RANGE BETWEEN 90 PRECEDING AND CURRENT ROW)
    )
    SELECT *, CASE WHEN watched IS NOT NULL THEN z >= 10 * widening OR two_days OR coalesce(z_week >= 2.2 * widening, false)
                                                 OR coalesce(z_month >= 1.2 * widening AND z_week >= 0.6 * widening, false)
                                                 OR coalesce(z_quarter >= 0.85 * widening AND z_week >= 0.425 * widening, false) END AS alarm
    FROM __rankql_scored;

-- The days of each series against its own baseline. With `grow`, that becomes longer with the log: from the first 28 days (or those
-- to `baseline`) by a week, up to 8 times, while 28 days follow it. It stops before a week with an alarm, or a mean that would hold one.
CREATE OR REPLACE MACRO rankql_grown_days(daily, baseline, series, day, value, error, period, grow) AS TABLE
    WITH __rankql_ends AS (
        SELECT min(d) AS first, coalesce(CAST(baseline AS DATE), CASE WHEN grow AND period <> 'day' THEN rankql_fail('grow := true is for days: leave it out') WHEN grow THEN min(d) + 27 END) AS shortest,
               CASE WHEN grow THEN list_transform(range(9), lambda i: shortest + 7 * CAST(i AS INTEGER)) ELSE [shortest] END AS untils,
               list_filter(untils, lambda until: until = shortest OR until <= max(d) - 28) AS possible
        FROM (SELECT CAST(coalesce(*COLUMNS(lambda name: lower(name) IN (lower(day), '__rankql_no_day'))) AS DATE) AS d
              FROM (SELECT *, NULL::DATE AS __rankql_no_day FROM query_table(daily)))
    ), __rankql_stopped AS (
        SELECT *, coalesce(min(s.until) FILTER (WHERE d > s.until AND d <= s.until + 7 AND (alarm OR abs(z_week) >= 1.1 * widening)) OVER same,
                           max(s.until) OVER same) AS until
        FROM rankql_compared_days(daily, (SELECT CASE WHEN shortest IS NULL THEN [shortest] ELSE possible END FROM __rankql_ends), series, day, value, error, period)
        WINDOW same AS (PARTITION BY s.key)
    )
    SELECT *, (SELECT first FROM __rankql_ends) AS first FROM __rankql_stopped WHERE s.until = until;

-- One row per series and day. `baseline` is the last day of the baseline period; with `grow := true` each series' own grows from there,
-- or from the first 28 days if it is NULL. A series is watched, on the weekdays that the period has three times, if these are five or
-- more, and at most a quarter of its days lie far outside; otherwise `alarm` is NULL. `error` is the column of standard errors.
-- With `period := 'week'` a row is a week: all are alike, as if each were the same weekday, and the baseline has 8 of them.
-- An alarm is held until the mean of the last seven days is below half its limit.
CREATE OR REPLACE MACRO monitor_days(daily, baseline, series := NULL, day := 'day', value := 'value', error := NULL, period := 'day', grow := false) AS TABLE
    SELECT s.key.value AS series, d AS day, v AS value, until AS baseline, expected, spread, 3.6 * widening * spread AS band, loss, z AS z_day, z_week, outlying, alarm,
           CASE WHEN alarm IS NOT NULL THEN coalesce(last_value(CASE WHEN alarm THEN true WHEN z_week < 1.1 * widening THEN false END IGNORE NULLS)
               OVER (PARTITION BY s, watched IS NULL ORDER BY step), false) END AS held
    FROM rankql_grown_days(daily, baseline, series, day, value, error, period, grow) ORDER BY rankql_text(s.key.value), d;
COMMENT ON MACRO TABLE monitor_days IS 'The value of each day against the same weekdays of a baseline period, with alarms.';

-- The first and the last day of the baseline of each series, which grows with the log.
CREATE OR REPLACE MACRO monitor_baseline(daily, baseline := NULL, series := NULL, day := 'day', value := 'value', error := NULL) AS TABLE
    SELECT DISTINCT s.key.value AS series, first, until AS last
    FROM rankql_grown_days(daily, baseline, series, day, value, error, 'day', true) ORDER BY rankql_text(series);
COMMENT ON MACRO TABLE monitor_baseline IS 'The first and last day of the baseline of monitor_days of each series, which grows with the log to 84 days.';
