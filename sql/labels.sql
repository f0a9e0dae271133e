-- Labels: grades from events and annotators, agreement, splits of a log. Load common.sql first.
--
--   graded(event, grades)       the highest grade of the events, or their sum
--   consensus(rel, weight)      the sum of rel * weight / the sum of weight, or the median or the most frequent grade
--   krippendorff_alpha(labels)  1 - the mean disagreement of two labels of one unit / that of any two labels
--   cohen_kappa(labels)         1 - the disagreements of two annotators / those that are expected by chance
--   tally(labels)               count(*) of each grade, and its share
--   leave_one_out(log, n)       `split` is test for the n latest events of each user
--   time_split(log, since)      `split` is test from a time on, or for the last share of the rows
--   most_popular(train, k)      for each user the k items with most users that the user does not have

-- Is `unknown` valid: a grade, NULL or 'error'?
CREATE OR REPLACE MACRO rankql_is_unknown(unknown) AS
    unknown IS NULL OR CASE WHEN rankql_is_text(unknown) THEN encode(rankql_text(unknown)) = encode('error')
                            ELSE coalesce(isfinite(TRY_CAST(unknown AS DOUBLE)), false) END;

-- A time of the same type as `moment`, which is one if `timed`.
CREATE OR REPLACE MACRO rankql_moment(value, timed, name) AS
    CASE WHEN isfinite(rankql_instant(value)) AND rankql_is_time(value) = timed
         THEN rankql_instant(value)
         ELSE rankql_fail(name || CASE WHEN timed
                                 THEN ' must be a timestamp' ELSE ' must be a finite number' END
                    || ', as moment is, not ' || rankql_text(value))
    END;

-- A number of rankql_instant as text.
CREATE OR REPLACE MACRO rankql_moment_text(number, timed) AS
    CASE WHEN timed THEN CAST(make_timestamp(CAST(number AS BIGINT)) AS VARCHAR) ELSE rankql_text(number) END;

-- The age of an event at `until`. A sum, because DuckDB computes constant conditions while it plans. Without `until` nothing
-- may fail, because DuckDB plans it too.
CREATE OR REPLACE MACRO rankql_age(moment, until) AS
    CASE WHEN until IS NULL THEN NULL
         WHEN rankql_is_clock(moment) AND isfinite(rankql_instant(moment)) THEN -rankql_instant(moment)
         ELSE rankql_refuse_time(moment, 'moment') END
    + rankql_moment(until, rankql_is_time(moment), 'until');

-- A duration of the type that fits `moment`.
CREATE OR REPLACE MACRO rankql_duration(value, moment, name) AS
    CASE WHEN rankql_instant(value) > 0 AND isfinite(rankql_instant(value))
              AND (typeof(value) = 'INTERVAL') = rankql_is_time(moment) AND NOT rankql_is_time(value)
         THEN rankql_instant(value)
         ELSE rankql_fail(name || CASE WHEN rankql_is_time(moment)
                                 THEN ' must be an interval above 0, as moment is a timestamp'
                                 ELSE ' must be a number above 0, as moment is a number' END
                    || ', not ' || rankql_text(value))
    END;

-- The remaining weight of an event at `until`: NULL from `until` on and before the window.
CREATE OR REPLACE MACRO rankql_left(moment, until, within, half_life) AS
    CASE WHEN until IS NULL AND (within IS NOT NULL OR half_life IS NOT NULL)
         THEN rankql_fail('until must be given: the time that within and half_life count back from')
         WHEN until IS NULL THEN 1.0::DOUBLE
         WHEN rankql_age(moment, until) > 0
              AND (within IS NULL OR rankql_age(moment, until) <= rankql_duration(within, moment, 'within'))
         THEN CASE WHEN half_life IS NULL THEN 1.0::DOUBLE
                   ELSE pow(2, -rankql_age(moment, until) / rankql_duration(half_life, moment, 'half_life')) END
    END;

-- Events and their grades, from a MAP or a STRUCT of numbers, recognised by its type.
CREATE OR REPLACE MACRO rankql_mapping(grades) AS
    CASE WHEN typeof(grades) NOT SIMILAR TO '(?s)(MAP|STRUCT)\(.*'
         THEN rankql_fail('grades must be a MAP of events and their grades, not ' || rankql_text(grades))
         WHEN typeof(grades) SIMILAR TO '(?s)MAP\(.*, ' || rankql_numeric() || '\)|'
                  || 'STRUCT\((("([^"]|"")*"|[^" ]+) ' || rankql_numeric() || '(, |\)))+'
              AND len([grade for grade in map_values(TRY_CAST(grades AS MAP(VARCHAR, DOUBLE)))
                       if NOT isfinite(grade)]) = 0
         THEN TRY_CAST(grades AS MAP(VARCHAR, DOUBLE))
         ELSE rankql_fail('grades must be finite numbers, not ' || rankql_text(grades))
    END;

-- The grade of an event: NULL without an event, or if the mapping says NULL.
CREATE OR REPLACE MACRO rankql_event(event, grades, unknown) AS
    CASE WHEN typeof(event) NOT SIMILAR TO '(?s)(VARCHAR|ENUM\(|"NULL"|BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER).*'
              OR typeof(event) LIKE '%]'
         THEN rankql_fail('event must be text, a whole number or a boolean, not ' || typeof(event) || '. Cast it to text')
         WHEN event IS NULL THEN NULL
         WHEN list_contains(map_keys(rankql_mapping(grades)), rankql_exact(event))
         THEN map_values(rankql_mapping(grades))[
              list_position(map_keys(rankql_mapping(grades)), rankql_exact(event))]
         WHEN typeof(unknown) <> 'VARCHAR' THEN TRY_CAST(unknown AS DOUBLE)
         ELSE rankql_fail('event ' || rankql_text(event) || ' has no grade. Add it to grades, or set unknown to a grade. '
                    || 'Events with a grade: ' || array_to_string(map_keys(rankql_mapping(grades)), ', '))
    END;

CREATE OR REPLACE MACRO rankql_at_most(total, cap) AS
    CASE WHEN total IS NOT NULL THEN least(total, rankql_option(cap)) END;

CREATE OR REPLACE MACRO graded(
    event, grades, how := 'max', cap := NULL, moment := NULL, until := NULL, within := NULL, half_life := NULL,
    unknown := 'error'
) AS
    CASE WHEN NOT rankql_is_unknown(unknown)
         THEN rankql_fail('unknown must be a grade or ''error'', not ' || rankql_text(unknown))
         WHEN rankql_text(how) = 'max' THEN CASE WHEN cap IS NULL
            THEN max(rankql_left(moment, until, within, half_life) * rankql_event(event, grades, unknown))
            ELSE rankql_fail('cap is for how ''sum'', not for ''max''') END
         WHEN rankql_text(how) = 'sum' THEN CASE WHEN cap IS NULL OR isfinite(rankql_option(cap))
            THEN rankql_at_most(
                sum(rankql_left(moment, until, within, half_life) * rankql_event(event, grades, unknown)), cap)
            ELSE rankql_fail('cap must be a finite number, not ' || rankql_text(cap)) END
         ELSE rankql_fail('how must be ''max'' or ''sum'', not ' || rankql_text(how))
    END;
COMMENT ON MACRO graded IS 'The grade of events by a mapping: the highest or the sum, optionally decaying with time.';


-- Grades from annotators.

-- The weight of a label. Weights of missing labels are checked too.
CREATE OR REPLACE MACRO rankql_label_weight(rel, weight) AS
    CASE WHEN rankql_is_number(weight) AND rankql_option(weight) >= 0 AND isfinite(rankql_option(weight))
         THEN CASE WHEN rankql_grade(rel) IS NOT NULL THEN rankql_option(weight) END
         WHEN rel IS NOT NULL OR weight IS NOT NULL
         THEN rankql_fail('weight must be a finite number from 0, not ' || rankql_text(weight))
    END;

-- The sum of the weights of labels.
CREATE OR REPLACE MACRO rankql_total_weight(rel, weight) AS
    CASE WHEN sum(rankql_label_weight(rel, weight)) = 0 THEN rankql_fail('weight must not be 0 for all labels of a group')
         ELSE sum(rankql_label_weight(rel, weight)) END;

-- The weight of each grade, own and cumulative.
CREATE OR REPLACE MACRO rankql_ballots(votes) AS
    list_transform(list_sort(list_distinct(list_transform(votes, lambda vote_: vote_['rel'])), 'ASC', 'NULLS LAST'),
        lambda grade: {
            'rel': grade,
            'own': list_sum([vote_['weight'] for vote_ in votes if vote_['rel'] = grade]),
            'down': list_sum([vote_['weight'] for vote_ in votes if vote_['rel'] <= grade])});

-- The labels with a weight, in order.
CREATE OR REPLACE MACRO rankql_votes(rel, weight) AS
    coalesce(list_sort(list({'rel': rankql_grade(rel), 'weight': rankql_label_weight(rel, weight)})
        FILTER (WHERE rankql_label_weight(rel, weight) > 0), 'ASC', 'NULLS LAST'), []);

-- Weights are equal if they differ by less than 1e-9 of the total, because sums of fractions round.
CREATE OR REPLACE MACRO rankql_median(ballots, whole) AS
    (list_min([b_['rel'] for b_ in ballots if b_['down'] >= whole * (0.5 - 1e-9)])
     + list_min([b_['rel'] for b_ in ballots if b_['down'] > whole * (0.5 + 1e-9)])) / 2;

CREATE OR REPLACE MACRO rankql_majority(ballots, whole, ties) AS
    list_transform([[b_['rel'] for b_ in ballots if b_['own'] >= list_max([c_['own'] for c_ in ballots]) - whole * 1e-9]],
        lambda most: CASE rankql_text(ties)
            WHEN 'low' THEN list_min(most)
            WHEN 'high' THEN list_max(most)
            WHEN 'null' THEN CASE WHEN len(most) = 1 THEN most[1] END
        END)[1];

CREATE OR REPLACE MACRO consensus(rel, weight := 1, how := 'mean', ties := 'low') AS
    CASE WHEN rankql_text(ties) NOT IN ('low', 'high', 'null')
         THEN rankql_fail('ties must be ''low'', ''high'' or ''null'', not ' || rankql_text(ties))
         WHEN rankql_text(how) = 'mean'
         THEN sum(rankql_grade(rel) * rankql_label_weight(rel, weight)) / rankql_total_weight(rel, weight)
         WHEN rankql_text(how) = 'median' THEN list_transform([{
            'whole': rankql_total_weight(rel, weight), 'ballots': rankql_ballots(rankql_votes(rel, weight))}],
            lambda x_: rankql_median(x_['ballots'], x_['whole']))[1]
         WHEN rankql_text(how) = 'majority' THEN list_transform([{
            'whole': rankql_total_weight(rel, weight), 'ballots': rankql_ballots(rankql_votes(rel, weight))}],
            lambda x_: rankql_majority(x_['ballots'], x_['whole'], ties))[1]
         ELSE rankql_fail('how must be ''mean'', ''median'' or ''majority'', not ' || rankql_text(how))
    END;
COMMENT ON MACRO consensus IS 'One grade from several annotators: their weighted mean, median or majority.';


-- Agreement.

-- Is it a column with the labels of one annotator? With several such columns, `label` is a list.
CREATE OR REPLACE MACRO rankql_is_label(name, label) AS
    name = '__rankql_none' OR rankql_is_list(label) AND rankql_is_in(name, label);

-- The rows of a table of labels; with several columns of labels, a row for each.
CREATE OR REPLACE MACRO rankql_label_rows(labels, label) AS TABLE
    SELECT *, unnest(__rankql_names) AS __rankql_name, unnest(__rankql_values) AS __rankql_label
    FROM (SELECT *, list_value(*COLUMNS(lambda name: rankql_is_label(name, label))) AS __rankql_values,
                 map_keys(CAST(struct_pack(*COLUMNS(lambda name: rankql_is_label(name, label))) AS MAP(VARCHAR, VARCHAR)))
                     AS __rankql_names
          FROM (SELECT *, row_number() OVER () AS __rankql_index, NULL AS __rankql_none FROM query_table(labels)));

-- The labels of a table as keys: s slice, u unit, a annotator, v label. Columns are named by text.
CREATE OR REPLACE MACRO rankql_labels(labels, unit, annotator, label, slice) AS TABLE
    SELECT s, u, a,
           CASE WHEN typeof(v) IN ('FLOAT', 'DOUBLE') AND NOT isfinite(TRY_CAST(v AS DOUBLE))
                THEN rankql_fail(rankql_text(label) || ' must be a finite number, not ' || rankql_text(v))
                WHEN annotator IS NOT NULL AND count(*) OVER (PARTITION BY s, u, a) > 1
                THEN rankql_fail(annotator || ' ' || rankql_text(a.value) || ' has labelled ' || unit || ' '
                           || rankql_text(u.value) || ' twice. Keep one of the labels')
                ELSE rankql_key(v) END AS v
    FROM (SELECT rankql_slice(rankql_row, slice) AS s,
                 rankql_id(rankql_row, CASE WHEN rankql_is_list(label) AND unit = 'unit' THEN '__rankql_index' ELSE unit END) AS u,
                 CASE WHEN annotator IS NOT NULL
                      THEN rankql_id(rankql_row, CASE WHEN rankql_is_list(label) THEN '__rankql_name' ELSE annotator END) END AS a,
                 struct_extract(rankql_row, CASE WHEN rankql_is_list(label) THEN '__rankql_label' ELSE CAST(label AS VARCHAR) END) AS v
          FROM rankql_label_rows(labels, label) AS rankql_row
          WHERE CASE WHEN rankql_is_list(label) AND len(__rankql_names) <= len(rankql_keys(label))
                     THEN rankql_fail('label: the table lacks one of the columns ' || array_to_string(rankql_keys(label), ', '))
                     ELSE true END)
    WHERE v IS NOT NULL;

CREATE OR REPLACE MACRO rankql_label(v, option) AS
    CASE WHEN rankql_is_number(v.value) AND option IN ('level ''interval''', 'weights ''quadratic''')
              AND abs(TRY_CAST(v.value AS DOUBLE)) > 1e100 -- its square overflows
         THEN rankql_fail('labels must lie between -1e100 and 1e100 for ' || option || ', not ' || rankql_text(v.value))
         WHEN rankql_is_number(v.value) THEN TRY_CAST(v.value AS DOUBLE)
         ELSE rankql_fail('labels must be numbers for ' || option || ', not ' || rankql_kind(v.value) || '. Cast them first')
    END;

-- A label on a scale with a zero.
CREATE OR REPLACE MACRO rankql_ratio_label(v) AS
    CASE WHEN rankql_is_number(v.value) AND TRY_CAST(v.value AS DOUBLE) < 0
         THEN rankql_fail('labels must be 0 or more for level ''ratio'', not ' || rankql_text(v.value))
         ELSE rankql_label(v, 'level ''ratio''') END;

-- The probability that two values, drawn without replacement, differ.
CREATE OR REPLACE MACRO rankql_unlike(v) AS
    (pow(count(v), 2) - list_sum(list_transform(map_values(histogram(v)), lambda n: pow(n, 2))))
    / nullif(count(v) * (count(v) - 1.0::DOUBLE), 0);

-- The sum over all ordered pairs of ((a - b) / (a + b))^2, from counts of labels.
CREATE OR REPLACE MACRO rankql_ratios(counts) AS
    list_transform([map_entries(counts)], lambda cells: list_sum(list_transform(cells, lambda a_: list_sum(list_transform(
        cells, lambda b_: CASE WHEN a_['key'] = b_['key'] THEN 0
            ELSE a_['value'] * b_['value'] * pow((a_['key'] - b_['key']) / (a_['key'] + b_['key']), 2) END)))))[1];

-- The distance of two labels.
CREATE OR REPLACE MACRO rankql_apart(x, y, weights) AS
    CASE rankql_text(weights)
        WHEN 'none' THEN CAST(x <> y AS DOUBLE)
        WHEN 'linear' THEN abs(rankql_label(x, 'weights ''linear''') - rankql_label(y, 'weights ''linear'''))
        WHEN 'quadratic'
        THEN pow(rankql_label(x, 'weights ''quadratic''') - rankql_label(y, 'weights ''quadratic'''), 2)
        ELSE rankql_fail('weights must be ''none'', ''linear'' or ''quadratic'', not ' || rankql_text(weights)) END;

-- 1 - the mean disagreement of two labels of one unit, divided by that of any two labels. Ordinal labels become mid-ranks.
CREATE OR REPLACE MACRO krippendorff_alpha(
    labels, level := 'ordinal', unit := 'unit', annotator := 'annotator', label := 'label', slice := NULL
) AS TABLE
    WITH __rankql_pairable AS (
        SELECT s, u, CASE WHEN count(*) OVER (PARTITION BY s, u) > 1 THEN v END AS v
        FROM rankql_labels(labels, unit, annotator, label, slice)
    ), __rankql_numbered AS (
        SELECT s, u, v, CASE rankql_text(level)
            WHEN 'nominal' THEN NULL
            WHEN 'ordinal' THEN rankql_label(v, 'level ''ordinal''')
            WHEN 'interval' THEN rankql_label(v, 'level ''interval''')
            WHEN 'ratio' THEN rankql_ratio_label(v)
            ELSE rankql_fail('level must be ''nominal'', ''ordinal'', ''interval'' or ''ratio'', not '
                             || rankql_text(level)) END AS x
        FROM __rankql_pairable
    ), __rankql_placed AS (
        SELECT s, u, v, CASE WHEN level = 'ratio' THEN x
            WHEN level <> 'ordinal' THEN x - min(x) OVER (PARTITION BY s) -- squares stay exact
            WHEN x IS NOT NULL THEN rank() OVER (PARTITION BY s ORDER BY x ASC NULLS LAST)
                                    + count(*) OVER (PARTITION BY s, x) / 2.0::DOUBLE END AS x
        FROM __rankql_numbered
    ), __rankql_spread AS (
        SELECT s, grouping(u) = 1 AS whole, CAST(count(v) AS DOUBLE) AS n,
               CASE WHEN level = 'nominal' THEN rankql_unlike(v)
                    WHEN level = 'ratio' THEN rankql_ratios(histogram(x)) / nullif(count(x) * (count(x) - 1.0::DOUBLE), 0)
                    WHEN min(x) < max(x) THEN var_samp(x)
                    WHEN count(x) > 1 THEN 0.0::DOUBLE END AS d -- exactly 0 if all are equal
        FROM __rankql_placed GROUP BY GROUPING SETS ((s, u), (s))
    ), __rankql_found AS (
        SELECT s, s.value AS slice,
               1 - sum(n * d) FILTER (WHERE NOT whole) / nullif(max(n * d) FILTER (WHERE whole), 0)
                   AS krippendorff_alpha,
               count(*) FILTER (WHERE NOT whole AND n > 1) AS units,
               CAST(max(n) FILTER (WHERE whole) AS BIGINT) AS labels,
               count(*) FILTER (WHERE NOT whole AND n = 0) AS single
        FROM __rankql_spread GROUP BY s
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_found ORDER BY s ASC NULLS LAST;
COMMENT ON MACRO TABLE krippendorff_alpha IS 'Krippendorff''s alpha: how far annotators agree beyond chance; labels may be missing.';

CREATE OR REPLACE MACRO cohen_kappa(
    labels, weights := 'none', unit := 'unit', annotator := 'annotator', label := 'label', slice := NULL
) AS TABLE
    WITH __rankql_given AS MATERIALIZED (
        FROM rankql_labels(labels, unit, annotator, label, slice)
    ), __rankql_pairs AS MATERIALIZED (
        SELECT one.s AS s, one.a AS a, two.a AS b, one.v AS x, two.v AS y, CAST(count(*) AS DOUBLE) AS n
        FROM __rankql_given AS one JOIN __rankql_given AS two
            ON one.s IS NOT DISTINCT FROM two.s AND one.u = two.u AND one.a < two.a
        GROUP BY ALL
    ), __rankql_xs AS (
        SELECT s, a, b, x, sum(n) AS n FROM __rankql_pairs GROUP BY s, a, b, x
    ), __rankql_ys AS (
        SELECT s, a, b, y, sum(n) AS n FROM __rankql_pairs GROUP BY s, a, b, y
    ), __rankql_chance AS (
        SELECT xs.s AS s, xs.a AS a, xs.b AS b, sum(xs.n * ys.n * rankql_apart(x, y, weights)) / sum(xs.n * ys.n) AS d
        FROM __rankql_xs AS xs JOIN __rankql_ys AS ys ON xs.s IS NOT DISTINCT FROM ys.s AND xs.a = ys.a AND xs.b = ys.b
        GROUP BY xs.s, xs.a, xs.b
    ), __rankql_seen AS (
        SELECT s, a, b, sum(n * rankql_apart(x, y, weights)) / sum(n) AS d, CAST(sum(n) AS BIGINT) AS n
        FROM __rankql_pairs GROUP BY s, a, b
    ), __rankql_found AS (
        SELECT seen.s AS s, seen.a AS a, seen.b AS b,
               seen.s.value AS slice, seen.a.value AS annotator, seen.b.value AS other,
               1 - seen.d / nullif(chance.d, 0) AS cohen_kappa, seen.n AS units
        FROM __rankql_seen AS seen JOIN __rankql_chance AS chance
            ON seen.s IS NOT DISTINCT FROM chance.s AND seen.a = chance.a AND seen.b = chance.b
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_found
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST, b ASC NULLS LAST;
COMMENT ON MACRO TABLE cohen_kappa IS 'Cohen''s kappa of every two annotators: how far they agree beyond chance.';

CREATE OR REPLACE MACRO tally(labels, label := 'rel', slice := NULL) AS TABLE
    WITH __rankql_found AS (
        SELECT rankql_slice(rankql_row, slice) AS s, rankql_key(struct_extract(rankql_row, label)) AS a, count(*) AS n
        FROM query_table(labels) AS rankql_row GROUP BY ALL
    ), __rankql_shared AS (
        SELECT s, a, s.value AS slice, a.value AS grade, n,
               n / CAST(sum(n) OVER (PARTITION BY s) AS DOUBLE) AS share FROM __rankql_found
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_shared
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE tally IS 'Which grades there are, and how often; NULL is an item that nobody judged.';


-- A log in two parts.

-- ISO 8601 text as a number of microseconds. A cast to TIMESTAMP ignores the offset of a time zone.
CREATE OR REPLACE MACRO rankql_iso_instant(value) AS CAST(CASE
    WHEN regexp_matches(CAST(value AS VARCHAR), ':[0-9]{2}([.][0-9]+)? *([+-][0-9]{2}(:?[0-9]{2})?|[Zz])$')
    THEN epoch_us(TRY_CAST(value AS TIMESTAMPTZ)) ELSE epoch_us(TRY_CAST(value AS TIMESTAMP)) END AS DOUBLE);

-- The time of an event as a number.
CREATE OR REPLACE MACRO rankql_logged(value, moment) AS
    CASE WHEN rankql_is_clock(value) AND isfinite(rankql_instant(value)) THEN rankql_instant(value)
         WHEN rankql_is_text(value) AND isfinite(rankql_iso_instant(value)) THEN rankql_iso_instant(value)
         ELSE rankql_refuse_time(value, moment) END;

-- 'test' or 'train'. `kind` is the type of the row, `others` its type without a column `split`.
CREATE OR REPLACE MACRO rankql_part(kind, others, is_test) AS
    CASE WHEN kind <> others THEN rankql_fail('the log has a column ''split'' already: drop or rename it')
         WHEN is_test THEN 'test' ELSE 'train' END;

-- `value`, or the error for a column that the log does not have. `found` is the type of a struct of it and of __rankql_none.
CREATE OR REPLACE MACRO rankql_column(value, found, name, argument) AS
    CASE WHEN name IS NULL THEN NULL WHEN found NOT LIKE 'STRUCT(__rankql_none%' THEN value
         ELSE rankql_fail('the log has no column ''' || name || '''. Name one: ' || argument || ' := ''...''') END;

-- The rows of a log: q, i and t are the values of three columns, of which the first two may be NULL; `others` is the type of
-- the row without a column `split`.
CREATE OR REPLACE MACRO rankql_log(log, query, item, moment) AS TABLE
    SELECT rankql_row, others, rankql_column(q, q_type, query, 'query') AS q, rankql_column(i, i_type, item, 'item') AS i,
           rankql_column(t, t_type, moment, 'moment') AS t
    FROM (SELECT __rankql_row AS rankql_row,
                 typeof(struct_pack(*COLUMNS(lambda name: lower(name) NOT IN ('split', '__rankql_row', '__rankql_none')))) AS others,
                 coalesce(*COLUMNS(lambda name: lower(name) IN (lower(query), '__rankql_none'))) AS q,
                 coalesce(*COLUMNS(lambda name: lower(name) IN (lower(item), '__rankql_none'))) AS i,
                 coalesce(*COLUMNS(lambda name: lower(name) IN (lower(moment), '__rankql_none'))) AS t,
                 typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(query), '__rankql_none')))) AS q_type,
                 typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(item), '__rankql_none')))) AS i_type,
                 typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(moment), '__rankql_none')))) AS t_type
          FROM (SELECT *, rankql_row AS __rankql_row, NULL AS __rankql_none FROM query_table(log) AS rankql_row));

-- The unit of a number that counts from 1970 to a time of 1990 to 2100: 1 for seconds, and one more for each division by 1000;
-- or NULL.
CREATE OR REPLACE MACRO rankql_unit(value) AS
    list_position([value BETWEEN 6.3e8 AND 4.2e9, value BETWEEN 6.3e11 AND 4.2e12,
                   value BETWEEN 6.3e14 AND 4.2e15, value BETWEEN 6.3e17 AND 4.2e18], true);

-- The unit of a time, and the time.
CREATE OR REPLACE MACRO rankql_in_unit(value) AS
    'in ' || ['seconds', 'milliseconds', 'microseconds', 'nanoseconds'][rankql_unit(value)] || ' (' || CAST(CAST(value AS BIGINT) AS VARCHAR) || ')';

-- Have all numbers that are times of a log one unit? The error names one of the lowest, one of the highest, and the rows of the
-- latter.
CREATE OR REPLACE MACRO rankql_has_one_unit(log, moment) AS TABLE
    SELECT CASE WHEN rankql_unit(min(t)) < rankql_unit(max(t))
                THEN rankql_fail(moment || ' has times ' || rankql_in_unit(min(t)) || ' and, in '
                                 || histogram(rankql_unit(t))[rankql_unit(max(t))] || ' of ' || count(*) || ' rows, ' || rankql_in_unit(max(t))
                                 || '. Divide those above ' || CAST(CAST(1e8 * pow(1000, rankql_unit(max(t)) - 1) AS BIGINT) AS VARCHAR)
                                 || ' by ' || CAST(CAST(pow(1000, rankql_unit(max(t)) - rankql_unit(min(t))) AS BIGINT) AS VARCHAR)
                                 || ' first')
                ELSE true END AS one
    FROM (SELECT CASE WHEN rankql_is_number(t) AND rankql_unit(rankql_instant(t)) > 0 THEN rankql_instant(t) END AS t
          FROM (SELECT coalesce(*COLUMNS(lambda name: lower(name) IN (lower(moment), '__rankql_none'))) AS t
                FROM (SELECT *, NULL AS __rankql_none FROM query_table(log))));

-- Are items that a user had earlier left out?
CREATE OR REPLACE MACRO rankql_drops(seen) AS CASE rankql_text(seen) WHEN 'NULL' THEN false WHEN 'drop' THEN true
    ELSE rankql_fail('seen must be ''drop'' or NULL, not ' || rankql_text(seen)) END;

-- The log for a split. With seen 'drop', an event goes if its user and item occurred earlier.
CREATE OR REPLACE MACRO rankql_split_log(log, seen, query, item, moment) AS TABLE
    SELECT rankql_row, others, rankql_key(q) AS q, i, rankql_logged(t, moment) AS t, rankql_is_time(t) OR rankql_is_text(t) AS timed
    FROM rankql_log(log, query, item, moment)
    WHERE (SELECT one FROM rankql_has_one_unit(log, moment))
    QUALIFY NOT rankql_drops(seen) OR q IS NULL OR i IS NULL OR coalesce(
        rankql_logged(t, moment) = min(rankql_logged(t, moment)) OVER (
            PARTITION BY CASE WHEN seen IS NOT NULL THEN rankql_key(q) END,  -- else one partition, in no time
                         CASE WHEN seen IS NOT NULL THEN rankql_key(i) END), true);

-- Does a row count as training, by the value of a column that splits the log? `found` is the type of a struct of it and of
-- __rankql_none.
CREATE OR REPLACE MACRO rankql_trains(value, found) AS
    CASE WHEN found LIKE 'STRUCT(__rankql_none%' THEN true
         WHEN lower(trim(CAST(value AS VARCHAR))) IN ('train', 'training') THEN true
         WHEN lower(trim(CAST(value AS VARCHAR))) IN ('test', 'testing', 'valid', 'validation', 'val', 'dev') THEN false
         ELSE rankql_fail('the log has a column ' || split_part(found, '(', 2)[:strpos(split_part(found, '(', 2), ' ') - 1] || ' with '
                          || rankql_text(value) || ', which is not train, test or valid. split := NULL counts all rows') END;

-- Is a column the one that says whether a row is train or test, or __rankql_none?
CREATE OR REPLACE MACRO rankql_splits(name, known, split, query, item) AS
    name = '__rankql_none' OR split IS NOT NULL AND lower(name) NOT IN (lower(query), lower(item))
    AND regexp_replace(lower(name), '[-_ ]', '', 'g') = known;

-- The rows of a log that count as training: all, or those of train if a column splits the log. The first column counts.
CREATE OR REPLACE MACRO rankql_train(log, query, item, split) AS TABLE
    SELECT rankql_row
    FROM (SELECT __rankql_row AS rankql_row,
                 coalesce(*COLUMNS(lambda name: rankql_splits(name, 'split', split, query, item))) AS s,
                 coalesce(*COLUMNS(lambda name: rankql_splits(name, 'fold', split, query, item))) AS f,
                 coalesce(*COLUMNS(lambda name: rankql_splits(name, 'istest', split, query, item))) AS t,
                 typeof(struct_pack(*COLUMNS(lambda name: rankql_splits(name, 'split', split, query, item)))) AS s_type,
                 typeof(struct_pack(*COLUMNS(lambda name: rankql_splits(name, 'fold', split, query, item)))) AS f_type
          FROM (SELECT *, rankql_row AS __rankql_row, NULL AS __rankql_none FROM query_table(log) AS rankql_row))
    WHERE CASE WHEN NOT coalesce(split = 'auto', true)
               THEN rankql_fail('split must be ''auto'' or NULL, not ' || rankql_text(split))
               WHEN s_type NOT LIKE 'STRUCT(__rankql_none%' THEN rankql_trains(s, s_type)
               WHEN f_type NOT LIKE 'STRUCT(__rankql_none%' THEN rankql_trains(f, f_type)
               ELSE NOT coalesce(lower(trim(CAST(t AS VARCHAR))) IN ('1', 'true'), false) END;

-- Rows with the same time and item stay together; nothing is random. By id, of two items at one time the same would always be
-- held out.
CREATE OR REPLACE MACRO leave_one_out(
    log, n := 1, query := 'user', item := 'item', moment := 'time', seen := NULL, basket := false
) AS TABLE
    WITH __rankql_latest AS (
        SELECT rankql_row, q, others, rankql_whole(n, 'n') >= CASE WHEN rankql_flag(basket, 'basket')
            THEN dense_rank() OVER (PARTITION BY q ORDER BY t DESC NULLS LAST)
            ELSE rank() OVER (PARTITION BY q ORDER BY t DESC NULLS LAST,
                              md5(CAST(q.value AS VARCHAR) || ' ' || CAST(i AS VARCHAR)) DESC NULLS LAST) END AS last
        FROM rankql_split_log(log, seen, query, item, moment)
    )
    SELECT unnest(rankql_row),
           rankql_part(typeof(rankql_row), others, last AND NOT bool_and(last) OVER (PARTITION BY q)) AS split
    FROM __rankql_latest;
COMMENT ON MACRO TABLE leave_one_out IS 'The log with `split`: test for the last event of each user, train for those before.';

-- Rows with the same time stay together. The latest time is always in the test, unless it is the only one.
CREATE OR REPLACE MACRO time_split(
    log, since := NULL, share := NULL, query := NULL, item := NULL, moment := 'time', seen := NULL
) AS TABLE
    WITH __rankql_logged AS (
        SELECT * REPLACE (CASE WHEN query IS NOT NULL THEN q END AS q)
        FROM rankql_split_log(log, seen, CASE WHEN seen IS NULL THEN query ELSE coalesce(query, 'user') END,
                              CASE WHEN seen IS NULL THEN item ELSE coalesce(item, 'item') END, moment)
    ), __rankql_placed AS (
        SELECT *, cume_dist() OVER latest_first AS part,
               rank() OVER latest_first = 1 AND cume_dist() OVER latest_first < 1 AS last
        FROM __rankql_logged WINDOW latest_first AS (PARTITION BY q ORDER BY t DESC NULLS LAST)
    )
    SELECT unnest(rankql_row), rankql_part(typeof(rankql_row), others, CASE
        WHEN (since IS NULL) = (share IS NULL)
        THEN rankql_fail('either since or share must be given: a time, or a share of the rows')
        WHEN since IS NOT NULL
        THEN CASE WHEN rankql_moment(since, timed, 'since') BETWEEN min(t) OVER () AND max(t) OVER () OR t IS NULL
                  THEN t >= rankql_moment(since, timed, 'since')
                  ELSE rankql_fail('since must lie within the times of the log, from ' || rankql_moment_text(min(t) OVER (), timed)
                                   || ' to ' || rankql_moment_text(max(t) OVER (), timed) || ', not ' || rankql_text(since)) END
        WHEN NOT coalesce(rankql_option(share) > 0 AND rankql_option(share) < 1, false)
        THEN rankql_fail('share must lie between 0 and 1, not ' || rankql_text(share))
        WHEN NOT bool_or(last) OVER ()
        THEN rankql_fail('share leaves no row to test on: ' || moment || ' has only one value'
                         || CASE WHEN query IS NULL THEN '' ELSE ' for each ' || query END
                         || '. Use finer times, or leave_one_out')
        ELSE last OR part <= rankql_option(share) END) AS split
    FROM __rankql_placed;
COMMENT ON MACRO TABLE time_split IS 'The log with `split`: test from a time on, or for the last share of the rows, train before.';

-- The popularity of an item is the number of its users, and ties go to the lower item. A user with n seen items finds k others among the k + n most popular ones.
CREATE OR REPLACE MACRO most_popular(
    train, k := 10, seen := 'drop', users := NULL, query := 'user', item := 'item', split := 'auto'
) AS TABLE
    WITH __rankql_pairs AS MATERIALIZED (
        SELECT DISTINCT rankql_id(rankql_row, query) AS q, rankql_id(rankql_row, item) AS i
        FROM rankql_train(train, query, item, split)
    ), __rankql_popular AS MATERIALIZED (
        SELECT i, row_number() OVER (ORDER BY count(*) DESC, i ASC NULLS LAST) AS place FROM __rankql_pairs GROUP BY i
    ), __rankql_had AS (
        FROM __rankql_pairs WHERE rankql_drops(seen)
    ), __rankql_people AS (
        SELECT q, count(i) + rankql_whole(k, 'k') AS n
        FROM (SELECT DISTINCT rankql_id(rankql_row, query) AS q FROM query_table(coalesce(users, train)) AS rankql_row)
             LEFT JOIN __rankql_had USING (q)
        GROUP BY q
    ), __rankql_listed AS (
        SELECT q, unnest(range(1, CAST(least(n, (SELECT count(*) FROM __rankql_popular)) AS BIGINT) + 1)) AS place FROM __rankql_people
    )
    SELECT q.value AS "user", i.value AS item, pos, 1.0::DOUBLE / pos AS score
    FROM (SELECT q, i, row_number() OVER (PARTITION BY q ORDER BY place ASC NULLS LAST) AS pos
          FROM __rankql_listed JOIN __rankql_popular USING (place) ANTI JOIN __rankql_had USING (q, i))
    WHERE pos <= k ORDER BY q ASC NULLS LAST, pos ASC NULLS LAST;
COMMENT ON MACRO TABLE most_popular IS 'A run that shows each user the most popular items of a log that the user does not have yet.';
