-- Helpers of all families: checks of arguments, rankings by score, ties. Load this file first.
--
--   discounted_gain(rel, factor)      rel * factor, for an item that counts less
--   grades_of(retrieved, relevant)    for each retrieved id its grade in the relevant ones, for list_ndcg and others
--   ranked(scores)                    `pos` is row_number() OVER (PARTITION BY query ORDER BY score DESC, item DESC)
--   ranked_table(run, judgments)      run FULL JOIN judgments USING (query, item), with `rel` and `pos`
--   collapsed(chunks)                 the first row of each query and document, and positions without the others
--
-- Private macros start with rankql_. Fields of lambda variables are written x_['pos'], because DuckDB can take x_.pos for
-- a column.


-- Errors.

-- Raise an error. DuckDB's error() is volatile, which forbids HAVING and QUALIFY on an alias of a metric, and ORDER BY a
-- metric in a window. This cast is not volatile: "Could not convert string 'rankql: ...' to INT64". The value of the map has
-- no type, so a CASE of any type can call it. ([NULL] does not work: DuckDB infers NULL from statistics and drops the call.)
-- Call it only in a result of CASE. DuckDB computes constant conditions while it plans.
CREATE OR REPLACE MACRO rankql_fail(message) AS MAP {0: NULL}[CAST('rankql: ' || message AS BIGINT)];

-- The same as a number, which DuckDB plans in a third of the time.
CREATE OR REPLACE MACRO rankql_refuse(message) AS CAST('rankql: ' || message AS BIGINT);

-- `value` if `checked` passes its checks. A sum, because DuckDB computes constant conditions while it plans.
CREATE OR REPLACE MACRO rankql_checked(value, checked) AS value + 0 * checked;

-- The text of a value in an error.
CREATE OR REPLACE MACRO rankql_text(value) AS coalesce(CAST(value AS VARCHAR), 'NULL');

-- The text of a value that should be a number in an error.
CREATE OR REPLACE MACRO rankql_number_text(value) AS
    CASE WHEN typeof(value) = 'VARCHAR' THEN 'the text ''' || CAST(value AS VARCHAR) || '''' ELSE rankql_text(value) END;

-- Is it text, or a list of text? typeof() of a column is constant, so this costs nothing.
CREATE OR REPLACE MACRO rankql_is_text(value) AS typeof(value) SIMILAR TO '(?s)(VARCHAR|ENUM|JSON).*';

-- Is its type one of numbers? Those of text, bits and booleans are not, although DuckDB casts them to numbers if it is told to. The
-- type is constant, so this costs nothing, and it is planned in a quarter of the time of a regular expression on typeof().
CREATE OR REPLACE MACRO rankql_is_numeric(value) AS can_cast_implicitly(value, NULL::DOUBLE);

-- Grades and amounts may be true or false.
CREATE OR REPLACE MACRO rankql_holds_no_numbers(value) AS NOT (rankql_is_numeric(value) OR typeof(value) = 'BOOLEAN');

CREATE OR REPLACE MACRO rankql_is_list(value) AS ends_with(typeof(value), ']') OR typeof(value) = '"NULL"';

-- Is it a number or a text that is written in the call, in place of a column? In a struct, a column has the alias of its field,
-- whatever its name, and a literal its text. The comparison comes first: over Parquet, the regular expression alone would run for
-- every row, which took ndcg from 5 to 9 times a sum.
CREATE OR REPLACE MACRO rankql_is_literal(value) AS
    typeof(value) IN ('INTEGER', 'BIGINT', 'VARCHAR') AND alias({'a': value}) <> 'struct_pack(a)'
    AND regexp_matches(alias(value), '^(-?[0-9]+$|'')');

-- The error for a literal in place of a column, such as a k without the position before it.
CREATE OR REPLACE MACRO rankql_refuse_literal(value, name) AS
    rankql_refuse(name || ' must be a column, not ' || alias(value) || '. k comes after ' || name);

-- The name of a type in an error.
CREATE OR REPLACE MACRO rankql_kind(value) AS regexp_replace(typeof(value), '(?s)^(VARCHAR|ENUM|JSON).*', 'text');

-- The text of the error for a column of another type. One text for all types, because a CASE takes longer to plan.
CREATE OR REPLACE MACRO rankql_no_number(value, name) AS
    name || ' must be a number, not ' || rankql_kind(value)
    || '. Cast it first. Times: row_number() OVER (PARTITION BY query ORDER BY shown_at) in a subquery, or epoch(shown_at) as the score. Ids and words: click_id IS NOT NULL, or CASE';

-- Is the number not NaN? DuckDB 2.0 answers isnan() of Parquet columns from statistics, which leave NaN out.
CREATE OR REPLACE MACRO rankql_no_nan(value) AS isfinite(value) OR isinf(value);


-- Arguments, checked.

-- An option as DOUBLE, NULL if it is not a number.
CREATE OR REPLACE MACRO rankql_option(value) AS
    CASE WHEN rankql_is_numeric(value) THEN TRY_CAST(value AS DOUBLE) END;

CREATE OR REPLACE MACRO rankql_threshold(threshold) AS
    CASE WHEN isfinite(rankql_option(threshold)) THEN rankql_option(threshold)
         ELSE rankql_refuse('threshold must be a finite number, not ' || rankql_number_text(threshold))
    END;

CREATE OR REPLACE MACRO rankql_flag(value, name) AS
    CASE rankql_text(value) WHEN 'true' THEN true
                            WHEN 'false' THEN false
                            ELSE rankql_fail(name || ' must be true or false, not ' || rankql_text(value)) END;

-- The cutoff as DOUBLE. Without k it is above every position. Every check of a position contains this, so rankql_option is not
-- used, which would add three CASE.
CREATE OR REPLACE MACRO rankql_cutoff(k) AS
    CASE WHEN k IS NULL THEN 9007199254740992::DOUBLE
         WHEN rankql_is_numeric(k) AND TRY_CAST(k AS DOUBLE) BETWEEN 1 AND 9007199254740992
              AND TRY_CAST(k AS DOUBLE) = floor(TRY_CAST(k AS DOUBLE)) THEN TRY_CAST(k AS DOUBLE)
         ELSE rankql_refuse('k must be a whole number from 1, not ' || rankql_number_text(k)
                          || '. Leave k out for the complete ranking')
    END;

-- The cutoff for max(x, k), which does not accept a check.
CREATE OR REPLACE MACRO rankql_limit(k) AS greatest(1, coalesce(TRY_CAST(k AS BIGINT), 9007199254740992));

-- Whether a product with the weights of k positions is faster than a loop over the list.
CREATE OR REPLACE MACRO rankql_few(k) AS rankql_limit(k) <= 100;

-- At most 100, because DuckDB builds constant lists while it plans, needed or not.
CREATE OR REPLACE MACRO rankql_some(k) AS least(rankql_limit(k), 100);

-- p, the probability of looking at the next item.
CREATE OR REPLACE MACRO rankql_patience(p) AS
    CASE WHEN p IS NULL THEN rankql_refuse('p must be given: the probability of looking at the next item, between 0 and 1')
         WHEN rankql_option(p) > 0 AND rankql_option(p) < 1 THEN rankql_option(p)
         ELSE rankql_refuse('p must lie between 0 and 1, not ' || rankql_number_text(p))
    END;

-- true if the result is the mean over all orders of tied items.
CREATE OR REPLACE MACRO rankql_expected(ties) AS
    CASE rankql_text(ties) WHEN 'item' THEN false
              WHEN 'expected' THEN true
              ELSE rankql_fail('ties must be ''item'' or ''expected'', not ' || rankql_text(ties))
    END;

-- k and ties as one number, for rankql_checked.
CREATE OR REPLACE MACRO rankql_k_and_ties(k, ties) AS rankql_cutoff(k) * CAST(rankql_expected(ties) AS DOUBLE);


-- Columns of a row, checked.

-- Is it a finite number of which a sum does not overflow? Then DCG / ideal DCG would be 0. The factor makes numbers above 1e302
-- infinite: a comparison would be answered from the statistics of a file, which leave NaN out.
CREATE OR REPLACE MACRO rankql_is_rel(value) AS isfinite(value * 1797693.1348623156::DOUBLE);

-- The text of a finite number ends with a digit.
CREATE OR REPLACE MACRO rankql_refuse_rel(rel) AS rankql_refuse(regexp_replace(
    'rel must be a finite number, not ' || rankql_text(rel), '[0-9]$', '\0. It is at most 1e302: rescale the grades'));

-- The grade as DOUBLE, NULL if unjudged.
CREATE OR REPLACE MACRO rankql_grade(rel) AS
    CASE WHEN rankql_holds_no_numbers(rel) THEN rankql_refuse(rankql_no_number(rel, 'rel'))
         WHEN typeof(rel) IN ('FLOAT', 'DOUBLE') AND NOT rankql_is_rel(CAST(rel AS DOUBLE)) THEN rankql_refuse_rel(rel)
         ELSE CAST(rel AS DOUBLE)
    END;

-- A grade or position as DOUBLE, which another part of the metric must check. Each check adds up to 1 ms of planning.
CREATE OR REPLACE MACRO rankql_unchecked(value) AS TRY_CAST(value AS DOUBLE);

-- 0 for a negative grade, else 1: a factor, because greatest() takes four times as long.
CREATE OR REPLACE MACRO rankql_if_positive(rel) AS CASE WHEN rankql_unchecked(rel) < 0 THEN 0.0::DOUBLE ELSE 1.0::DOUBLE END;

-- The grade or 0 if it is negative, NULL if unjudged; unchecked.
CREATE OR REPLACE MACRO rankql_gain(rel) AS rankql_unchecked(rel) * rankql_if_positive(rel);

-- 1 if relevant, 0 if judged and not relevant, NULL if unjudged.
CREATE OR REPLACE MACRO rankql_hit(rel, threshold) AS
    CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 1.0::DOUBLE
         WHEN rel IS NOT NULL THEN 0.0::DOUBLE
    END;

CREATE OR REPLACE MACRO rankql_refuse_pos(pos, name) AS
    rankql_refuse(name || ' must be a whole number from 1, not ' || rankql_text(pos)
                || CASE WHEN pos = 0 THEN '. Position 1 is the top: add 1, or is the order rel, pos?'
                        WHEN isfinite(CAST(pos AS DOUBLE)) AND CAST(pos AS DOUBLE) <> floor(CAST(pos AS DOUBLE))
                        THEN '. If it is a score, rank by it first, as ndcg_by_score does'
                        WHEN CAST(pos AS DOUBLE) > 9007199254740992 THEN '. Use NULL for items that were not retrieved' ELSE '' END);

-- The position as DOUBLE, NULL beyond the cutoff and if not retrieved. isfinite() finds NaN, see rankql_no_nan.
CREATE OR REPLACE MACRO rankql_pos(pos, k, name := 'pos') AS
    CASE WHEN rankql_is_literal(pos) THEN rankql_refuse_literal(pos, name)
         WHEN NOT rankql_is_numeric(pos) THEN rankql_refuse(rankql_no_number(pos, name))
         WHEN CAST(pos AS DOUBLE) < 1 OR CAST(pos AS DOUBLE) > 9007199254740992 OR typeof(pos) NOT LIKE '%INT%' AND NOT (
              isfinite(CAST(pos AS DOUBLE)) AND CAST(pos AS DOUBLE) = floor(CAST(pos AS DOUBLE)))
         THEN rankql_refuse_pos(pos, name)
         WHEN k IS NULL OR CAST(pos AS DOUBLE) <= rankql_cutoff(k) THEN CAST(pos AS DOUBLE)
    END;

-- The position of a hit within the cutoff, else NULL. A sum, to check both arguments in every row.
CREATE OR REPLACE MACRO rankql_hit_pos(rel, pos, k, threshold) AS
    rankql_pos(pos, k) + CASE WHEN rankql_hit(rel, threshold) = 1 THEN 0 END;

CREATE OR REPLACE MACRO rankql_score(score) AS
    CASE WHEN rankql_holds_no_numbers(score) THEN rankql_fail(rankql_no_number(score, 'score'))
         WHEN score IS NULL OR rankql_no_nan(CAST(score AS DOUBLE)) THEN score
         ELSE rankql_fail('score must be a number, not nan')
    END;

-- Text that is compared byte by byte. From DuckDB 2.0.1 on, list_contains and list_position follow the user's collation too.
CREATE OR REPLACE MACRO rankql_exact(text) AS CAST(text AS VARCHAR) COLLATE C;

-- A list as texts without the collation of a column, with which rankql_exact cannot be compared: the text of the list has none. The
-- casts bind any type.
CREATE OR REPLACE MACRO rankql_texts(list) AS CAST(CAST(list AS VARCHAR) AS VARCHAR[]);

-- The bytes of an item, which order equal scores. NULL is last.
CREATE OR REPLACE MACRO rankql_bytes(item) AS
    CASE WHEN rankql_is_literal(item) THEN encode(CAST(rankql_refuse_literal(item, 'item') AS VARCHAR))
         ELSE coalesce(encode(CAST(item AS VARCHAR)), ''::BLOB) END;

-- 1 if clicked, 0 if shown and not clicked, NULL if not shown.
CREATE OR REPLACE MACRO rankql_clicked(click, name := 'click') AS
    CASE WHEN rankql_is_text(click) THEN rankql_refuse(name || ' must be 0 or 1, not text. Cast it first')
         WHEN isfinite(TRY_CAST(click AS DOUBLE)) AND TRY_CAST(click AS DOUBLE) IN (0, 1)
         THEN TRY_CAST(click AS DOUBLE)
         WHEN click IS NOT NULL THEN rankql_refuse(name || ' must be 0 or 1, not ' || rankql_text(click))
    END;

-- A key that compares and orders values independent of the collation: the bytes of text come first.
CREATE OR REPLACE MACRO rankql_key(value) AS
    {'bytes': CASE WHEN rankql_is_text(value) THEN encode(CAST(value AS VARCHAR)) END, 'value': value};

-- A column of finite numbers as DOUBLE. `fits` is the condition and `must` its text in an error.
CREATE OR REPLACE MACRO rankql_number(value, fits, name, must) AS
    CASE WHEN rankql_holds_no_numbers(value) THEN rankql_refuse(rankql_no_number(value, name))
         WHEN isfinite(TRY_CAST(value AS DOUBLE)) AND fits THEN TRY_CAST(value AS DOUBLE)
         WHEN value IS NOT NULL THEN rankql_refuse(name || ' must be ' || must || ', not ' || rankql_text(value))
    END;

CREATE OR REPLACE MACRO rankql_finite(value, name) AS rankql_number(value, true, name, 'a finite number');

-- A finite number from 0.
CREATE OR REPLACE MACRO rankql_amount(value, name) AS
    rankql_number(value, TRY_CAST(value AS DOUBLE) >= 0, name, 'a finite number from 0');

-- The number of users who had an item, at most all.
CREATE OR REPLACE MACRO rankql_known_by(popularity, users) AS
    CASE WHEN rankql_amount(popularity, 'popularity') > users
         THEN rankql_refuse('popularity must not exceed users: ' || rankql_text(popularity) || ' is above '
                    || CAST(users AS BIGINT))
         WHEN rankql_amount(popularity, 'popularity') > 0 AND rankql_amount(popularity, 'popularity') < 1
         THEN rankql_refuse('popularity must be a number of users, 0 or from 1, not ' || rankql_text(popularity))
         ELSE rankql_amount(popularity, 'popularity') END;

CREATE OR REPLACE MACRO rankql_is_time(value) AS
    typeof(value) = 'DATE' OR starts_with(typeof(value), 'TIMESTAMP') AND NOT ends_with(typeof(value), ']');

-- Numeric types, as typeof() writes them.
CREATE OR REPLACE MACRO rankql_numeric() AS
    '(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\([0-9]+,[0-9]+\)|BOOLEAN|"NULL")';

CREATE OR REPLACE MACRO rankql_is_number(value) AS typeof(value) SIMILAR TO rankql_numeric();

-- Is it a time: a timestamp or a number?
CREATE OR REPLACE MACRO rankql_is_clock(value) AS rankql_is_time(value) OR rankql_is_numeric(value);

-- A time or duration as a number: microseconds (a month has 30 days), or the number itself.
CREATE OR REPLACE MACRO rankql_instant(value) AS
    CASE WHEN typeof(value) LIKE 'TIMESTAMP% WITH TIME ZONE'
         THEN CAST(epoch_us(TRY_CAST(value AS TIMESTAMPTZ)) AS DOUBLE)
         WHEN rankql_is_time(value) THEN CAST(epoch_us(TRY_CAST(value AS TIMESTAMP)) AS DOUBLE)
         WHEN typeof(value) = 'INTERVAL' THEN CAST(epoch_us(TRY_CAST(value AS INTERVAL)) AS DOUBLE)
         WHEN NOT rankql_is_text(value) THEN TRY_CAST(value AS DOUBLE)
    END;

-- The error for a value that is not a time.
CREATE OR REPLACE MACRO rankql_refuse_time(value, moment) AS rankql_refuse(moment || ' must be a timestamp or a '
    || CASE WHEN rankql_is_clock(value) THEN 'finite number, not ' || rankql_text(value)
            ELSE 'number, not ' || rankql_kind(value) || '. Cast it first' END);

-- A finite option that must satisfy a condition.
CREATE OR REPLACE MACRO rankql_argument(value, fits, name, must) AS
    CASE WHEN fits AND isfinite(rankql_option(value)) THEN rankql_option(value)
         ELSE rankql_refuse(name || must || ', not ' || rankql_text(value)) END;

CREATE OR REPLACE MACRO rankql_whole(value, name) AS
    rankql_argument(value, rankql_option(value) BETWEEN 1 AND 9007199254740992
                           AND rankql_option(value) = floor(rankql_option(value)),
                    name, ' must be a whole number from 1');

-- The key of a slice; without a slice, one key for all rows.
CREATE OR REPLACE MACRO rankql_slice(row_, slice) AS
    rankql_key(CASE WHEN slice IS NOT NULL THEN struct_extract(row_, slice) END);

-- The key of a query or an item, which must not be NULL.
CREATE OR REPLACE MACRO rankql_id(row_, name) AS
    rankql_key(CASE WHEN struct_extract(row_, name) IS NULL THEN rankql_fail(name || ' must not be NULL')
                    ELSE struct_extract(row_, name) END);

CREATE OR REPLACE MACRO discounted_gain(rel, factor) AS
    rankql_grade(rel) * CASE WHEN isfinite(TRY_CAST(factor AS DOUBLE)) AND TRY_CAST(factor AS DOUBLE) > 1
        THEN rankql_refuse('factor must be above 0 and at most 1, not ' || rankql_text(factor)
                         || '. For an item that counts more, pass rel * factor as the grade: the ideal then has it too')
        ELSE coalesce(rankql_number(factor, TRY_CAST(factor AS DOUBLE) > 0, 'factor', 'above 0 and at most 1'), 1) END;
COMMENT ON MACRO discounted_gain IS 'Gain of an item that counts less, such as a promoted one: rel * factor.';


-- Of a group.

-- R, the number of relevant items.
CREATE OR REPLACE MACRO rankql_relevant(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_hit(rel, threshold) = 1) AS DOUBLE);

-- The denominator of a share: k, or the retrieved items without k.
CREATE OR REPLACE MACRO rankql_size(k, retrieved) AS
    CASE WHEN k IS NULL THEN CAST(retrieved AS DOUBLE) ELSE rankql_cutoff(k) END;

CREATE OR REPLACE MACRO rankql_shared() AS
    'several items share a position: if a join repeats an item, keep one row per query and item. If the group holds several '
    || 'queries, add the query to GROUP BY. If items are tied, number positions with row_number(), or rank by score: '
    || 'ndcg_by_score(rel, score, item, ties := ''expected'')';

-- The number of retrieved items within the cutoff. Unchecked: another part of the metric must check the position.
CREATE OR REPLACE MACRO rankql_retrieved(pos, k) AS
    count(CASE WHEN k IS NULL OR rankql_unchecked(pos) <= rankql_limit(k) THEN pos END);

-- 0. It stands outside all aggregates, so that a column k must be in GROUP BY: k is the same in all rows of a group.
CREATE OR REPLACE MACRO rankql_one_k(k) AS CASE WHEN k IS NULL THEN 0 ELSE 0 END;

-- The number of different positions in a list. If there are as many as from the lowest to the highest, hashes say whether they are
-- all of these: the xor of hash(i) and hash(i - 1) over all is that of the two ends. This is wrong in 1 of 2^60 cases, and never if
-- there is a gap. list_unique() alone takes 3 times as long.
CREATE OR REPLACE MACRO rankql_different_in(positions) AS list_transform([positions], lambda far:
    CASE WHEN len(far) = list_max(far) - list_min(far) + 1
              AND list_bit_xor(list_transform(far, lambda i: xor(hash(i), hash(i - 1)))) = xor(hash(list_max(far)), hash(list_min(far) - 1))
         THEN len(far) ELSE list_unique(far) END)[1];

-- The number of different positions within the cutoff, unchecked: a bit for each up to 125, and a list of those beyond.
CREATE OR REPLACE MACRO rankql_different(pos, k) AS
    coalesce(bit_count(bit_or(CASE WHEN rankql_unchecked(pos) BETWEEN 1 AND least(rankql_limit(k), 125)
                                   THEN 1::HUGEINT << CAST(rankql_unchecked(pos) AS INTEGER) END)), 0)
    + CASE WHEN rankql_limit(k) > 125 THEN coalesce(rankql_different_in(list(CAST(rankql_unchecked(pos) AS BIGINT)) FILTER (
          WHERE rankql_unchecked(pos) > 125 AND rankql_unchecked(pos) <= rankql_limit(k))), 0) ELSE 0 END;

-- A metric of one ranking. An error if several items share a position: more items than different positions.
CREATE OR REPLACE MACRO rankql_one_ranking(value, pos, k) AS
    CASE WHEN count(rankql_pos(pos, k)) > rankql_different(pos, k) + rankql_one_k(k) THEN rankql_refuse(rankql_shared()) ELSE value END;

-- A metric without a cutoff, with a place for one as the others have it: a threshold there would be another number.
CREATE OR REPLACE MACRO rankql_no_cutoff(value, k, name) AS
    CASE WHEN k IS NULL THEN value ELSE rankql_refuse(name || ' has no cutoff: write threshold := ' || rankql_text(k)) END;

CREATE OR REPLACE MACRO rankql_rounding() AS 9.094947017729282e-13::DOUBLE;

-- A metric that is at most 1. Values within 2^-40 (9.1e-13) of 1 are exactly 1 in every engine and form, because sums
-- round. A value above that has counted a position twice.
CREATE OR REPLACE MACRO rankql_at_most_one(value) AS
    list_transform([value], lambda x: CASE WHEN x > 1 + rankql_rounding() THEN rankql_refuse(rankql_shared())
                                           WHEN x >= 1 - rankql_rounding() THEN 1 ELSE x END)[1];

-- The same rule for a metric that can exceed 1.
CREATE OR REPLACE MACRO rankql_near_one(value) AS
    list_transform([value], lambda x: CASE WHEN abs(x - 1) <= rankql_rounding() THEN 1 ELSE x END)[1];


-- Lists of grades in rank order.
--
-- DuckDB replaces a macro call by its text, and binds and optimises an argument wherever the macro names it. So a list form names
-- each argument once or twice, in a struct, and computes in lambdas over a list of it: list_transform([{'rels': rels}], lambda x_: ...)[1].
-- DuckDB does not simplify what a lambda computes, and sets it up for every 2,048 rows. So nothing that takes long stands twice in
-- one (it is a field of the next struct), and what constants decide stands outside.

-- An error if a type is not that of a list of numbers, else NULL.
CREATE OR REPLACE MACRO rankql_refuse_type(type) AS list_transform([type], lambda type: CASE
    WHEN type SIMILAR TO '(?s)(VARCHAR|ENUM|JSON).*' THEN rankql_refuse('rel must be a number, not text. Cast it first')
    WHEN type SIMILAR TO '(?s)(BIT|BLOB|UUID|DATE|TIME|INTERVAL|STRUCT|MAP|UNION).*|.*\].*\]'
    THEN rankql_refuse('rel must be a number, not ' || type || '. Cast it first') END)[1];

-- The grades of a list, each checked.
CREATE OR REPLACE MACRO rankql_grades(rels) AS
    CASE WHEN rankql_refuse_type(typeof(rels)) IS NULL
         THEN list_transform(CAST(rels AS DOUBLE[]), lambda x: CASE WHEN NOT rankql_is_rel(x) THEN rankql_refuse_rel(x) ELSE x END) END;

-- A grade that is in a list more often than among all judged grades, NULL if there is none. Only bpref reads those up to 0.
CREATE OR REPLACE MACRO rankql_lacking(ideal, rels, every) AS
    list_transform([{'rels': list_aggregate(rels, 'histogram'), 'ideal': list_aggregate(ideal, 'histogram')}],
        lambda counts_: list_min(list_filter(map_keys(counts_['rels']), lambda grade:
            (every OR grade > 0) AND counts_['rels'][grade] > coalesce(counts_['ideal'][grade], 0))))[1];

-- The grades of all judged items, checked, and that they contain those of the list.
CREATE OR REPLACE MACRO rankql_ideal(ideal, rels, every) AS
    CASE WHEN ideal IS NOT NULL THEN list_transform([{'ideal': ideal, 'rels': rels}], lambda x_: CASE
        WHEN NOT rankql_is_list(x_['ideal'])
        THEN rankql_fail('ideal must be a list of grades, not ' || rankql_text(x_['ideal']))
        WHEN x_['rels'] IS NULL THEN NULL
        WHEN rankql_lacking(rankql_grades(x_['ideal']), rankql_grades(x_['rels']), every) IS NULL THEN CAST(x_['ideal'] AS DOUBLE[])
        ELSE rankql_fail('ideal must contain every ' || if(every, '', 'positive ') || 'grade of the list, at least as often. It lacks a '
                         || rankql_text(rankql_lacking(CAST(x_['ideal'] AS DOUBLE[]), CAST(x_['rels'] AS DOUBLE[]), every))
                         || '. Pass the grades of all judged items, retrieved or not') END)[1] END;

-- Where the first k of a list end.
CREATE OR REPLACE MACRO rankql_end(k) AS CAST(
    CASE WHEN rankql_is_list(k) AND typeof(k) <> '"NULL"' THEN rankql_refuse('k must be a whole number from 1, not a list. The list '
        || 'forms take one list, the grades in rank order: list_ndcg(list(rel ORDER BY pos), 10)') ELSE rankql_cutoff(k) END AS BIGINT);

-- The arguments of a list form, checked.
CREATE OR REPLACE MACRO rankql_arguments(rels, ideal, k, every := false) AS
    [{'rels': rankql_grades(rels), 'ideal': rankql_ideal(ideal, rels, every), 'end': rankql_end(k)}];

-- The grades of all judged items: `ideal`, or the list itself without it.
CREATE OR REPLACE MACRO rankql_judged(x_) AS CASE WHEN x_['ideal'] IS NULL THEN x_['rels'] ELSE x_['ideal'] END;

-- The first k of a list.
CREATE OR REPLACE MACRO rankql_top(list, k) AS list[:rankql_end(k)];

-- The sum of a list: 0 if it is empty, NULL without a list.
CREATE OR REPLACE MACRO rankql_sum(list) AS
    CASE WHEN list IS NOT NULL THEN coalesce(list_sum(list), 0) END;

-- 1 for a hit, 0 for another judged item, NULL if unjudged.
CREATE OR REPLACE MACRO rankql_hits(grades, threshold) AS
    list_transform(grades, lambda grade: CAST(grade >= rankql_threshold(threshold) AS DOUBLE));

-- The positions of ones in a list.
CREATE OR REPLACE MACRO rankql_ones(hits) AS
    list_filter(list_transform(hits, lambda hit, i: CASE WHEN hit = 1 THEN i END), lambda i: i IS NOT NULL);

-- The positions of the hits in a list of grades.
CREATE OR REPLACE MACRO rankql_hit_positions(grades, threshold) AS list_filter(
    list_transform(grades, lambda grade, i: CASE WHEN grade >= rankql_threshold(threshold) THEN i END), lambda i: i IS NOT NULL);

-- R of a list of grades.
CREATE OR REPLACE MACRO rankql_list_relevant(grades, threshold) AS
    CAST(len(list_filter(grades, lambda grade: grade >= rankql_threshold(threshold))) AS DOUBLE);


-- Lists of ids.

CREATE OR REPLACE MACRO rankql_holds_grades(relevant) AS typeof(relevant) SIMILAR TO '(?s)(MAP|STRUCT)\(.*';

-- Is there a field of this name, in text of the fields of a struct and their types? Those of structs in it do not count.
CREATE OR REPLACE MACRO rankql_names_field(fields, name) AS regexp_matches(
    list_reduce([fields, '', '', ''], lambda kinds, step: regexp_replace(kinds, '\([^()]*\)', '', 'g')),
    '(^|, )("' || name || '"|' || name || ') ');

-- The first of the names that is a field of the structs of a list.
CREATE OR REPLACE MACRO rankql_field(listed, names) AS
    list_transform([typeof(listed)[8:-4]], lambda fields: list_filter(names, lambda name: rankql_names_field(fields, name))[1])[1];

-- A grade that was written as text.
CREATE OR REPLACE MACRO rankql_read_grade(grade, name) AS
    CASE WHEN grade IS NOT NULL THEN coalesce(
        CASE WHEN NOT contains(grade, '_') THEN TRY_CAST(grade AS DOUBLE) END,
        CASE grade WHEN 'true' THEN 1 WHEN 'false' THEN 0 END,
        rankql_refuse(name || ' must have numbers as grades, not ' || grade)) END;

-- The ids and grades of a list of structs, by the first of the fields that it has. A cast to a MAP binds any type.
CREATE OR REPLACE MACRO rankql_graded_ids(listed, name) AS
    list_transform([{
        'rows': CAST(listed AS MAP(VARCHAR, VARCHAR)[]),
        'id': coalesce(rankql_field(listed, ['id', 'item', 'key']), rankql_fail(name || ' has no id or item: ' || typeof(listed))),
        'grade': rankql_field(listed, ['grade', 'rel', 'value'])}], lambda listed_: list_transform(listed_['rows'], lambda x_: {
            'id': x_[listed_['id']],
            'grade': CASE WHEN listed_['grade'] IS NULL THEN 1 ELSE rankql_read_grade(x_[listed_['grade']], name) END}))[1];

CREATE OR REPLACE MACRO rankql_repeated(ids) AS
    list_filter(ids, lambda id: list_count(list_filter(ids, lambda other: other = rankql_exact(id))) > 1)[1];

-- These ids and grades as a map. An id with one grade may be there several times.
CREATE OR REPLACE MACRO rankql_one_grade(listed, name) AS
    list_transform([list_distinct(list_filter(listed, lambda x_: x_['id'] IS NOT NULL))], lambda pairs_:
        CASE WHEN list_unique(list_transform(pairs_, lambda x_: x_['id'])) < len(pairs_)
             THEN rankql_fail(name || ' has different grades for '
                              || rankql_repeated(list_transform(pairs_, lambda x_: x_['id'])) || '. Keep one')
             ELSE map_from_entries(pairs_) END)[1];

-- The grades of a MAP or struct of id: grade.
CREATE OR REPLACE MACRO rankql_map(grades, name) AS
    CASE WHEN rankql_holds_grades(grades) THEN CAST(grades AS MAP(VARCHAR, DOUBLE))
         ELSE rankql_fail(name || ' must be a list of ids or a MAP of id: grade, not ' || typeof(grades)) END;

-- The grades of ids as a map: 1 for each id of a list, or those of a MAP, of a struct {id: grade}, or of a list of structs
-- with an id and a grade.
CREATE OR REPLACE MACRO rankql_grade_map(relevant, name) AS
    CASE WHEN NOT rankql_is_list(relevant) THEN rankql_map(relevant, name)
         WHEN rankql_holds_grades(relevant) THEN rankql_one_grade(rankql_graded_ids(relevant, name), name)
         ELSE map_from_entries(list_transform(list_distinct(rankql_texts(relevant)), lambda id: {'id': id, 'grade': 1.0::DOUBLE}))
    END;

-- Ids as text: those of a MAP or struct by its values, the highest first.
CREATE OR REPLACE MACRO rankql_ids(ids, name) AS
    CASE WHEN NOT rankql_is_list(ids)
         THEN list_transform(list_sort(list_transform(list_filter(
                  map_entries(rankql_map(ids, name)), lambda x_: x_['value'] IS NOT NULL),
                  lambda x_: {'last': -x_['value'], 'id': x_['key']})), lambda x_: x_['id'])
         WHEN rankql_holds_grades(ids) THEN list_transform(rankql_graded_ids(ids, name), lambda x_: x_['id'])
         ELSE rankql_texts(ids)
    END;

CREATE OR REPLACE MACRO grades_of(retrieved, relevant) AS
    list_transform([{'ids': rankql_ids(retrieved, 'retrieved'), 'grades': rankql_grade_map(relevant, 'relevant'),
                     'is_ideal': rankql_exact(retrieved) = rankql_exact(relevant)}], lambda x_:
        CASE WHEN x_['grades'] IS NULL THEN NULL
             WHEN x_['is_ideal']
             THEN list_transform(list_filter(x_['ids'], lambda id, i: id IS NULL OR list_position(x_['ids'], rankql_exact(id)) = i),
                                 lambda id: x_['grades'][id])
             WHEN list_unique(x_['ids']) < list_count(x_['ids'])
             THEN rankql_fail('retrieved must not repeat an id, but ' || rankql_repeated(x_['ids'])
                              || ' is there twice. Keep the first')
             ELSE list_transform(x_['ids'], lambda id: x_['grades'][id]) END)[1];
COMMENT ON MACRO grades_of IS 'Grades of retrieved ids, in order: those of the relevant ids, and NULL for the others.';


-- A user who walks down the list.

-- One step: with probability `stop` the user stops and gains `utility`.
CREATE OR REPLACE MACRO rankql_step(pos, stop, utility) AS
    {'pos': CAST(pos AS DOUBLE), 'left': 1 - CAST(stop AS DOUBLE), 'gain': CAST(stop * utility AS DOUBLE)};

-- The expected utility of a user who walks down the list.
CREATE OR REPLACE MACRO rankql_walk(steps) AS
    list_reduce(
        list_concat([rankql_step(0, 0, 0)], steps),
        lambda a_, b_: {'pos': b_['pos'], 'left': a_['left'] * b_['left'], 'gain': a_['gain'] + a_['left'] * b_['gain']}
    ).gain;


-- The k highest positive grades, best first. max(x, k) needs one pass, but reserves 16 * k bytes per group, so it is used
-- for small k only.
CREATE OR REPLACE MACRO rankql_best(grade, positive, k) AS
    CASE WHEN rankql_limit(k) <= 20 THEN max(grade, least(rankql_limit(k), 20)) FILTER (WHERE positive)
         ELSE list_sort(list(grade) FILTER (WHERE positive), 'DESC', 'NULLS LAST')[:rankql_limit(k)]
    END;

-- Does an item gain in the ideal ranking?
CREATE OR REPLACE MACRO rankql_gains(grade, retrieved, ideal) AS
    grade > 0 AND CASE rankql_text(ideal)
        WHEN 'judged' THEN true
        WHEN 'retrieved' THEN retrieved
        ELSE rankql_fail('ideal must be ''judged'' or ''retrieved'', not ' || rankql_text(ideal))
    END;

CREATE OR REPLACE MACRO rankql_in_ideal(rel, retrieved, ideal) AS rankql_gains(rankql_grade(rel), retrieved, ideal);

-- The positive grades of the ideal ranking, best first.
CREATE OR REPLACE MACRO rankql_best_ideal(rel, retrieved, ideal, k) AS
    rankql_best(rankql_unchecked(rel), rankql_in_ideal(rel, retrieved, ideal), k);

CREATE OR REPLACE MACRO rankql_list_best(x_) AS
    list_sort(list_filter(rankql_judged(x_), lambda grade: grade > 0), 'DESC', 'NULLS LAST')[:x_['end']];


-- Rankings by score, and ties.

CREATE OR REPLACE MACRO rankql_ranking(value, score, tie) AS
    coalesce(list_sort(
        list({'score': rankql_score(score), 'tie': tie, 'value': CAST(value AS DOUBLE)})
            FILTER (WHERE score IS NOT NULL), 'DESC', 'NULLS LAST'), []);

-- A ranking whose ties are ordered by item. An error if it is the same in all rows. Of text, hashes are faster to compare.
CREATE OR REPLACE MACRO rankql_ranking_by_item(value, score, item) AS
    rankql_ranking(value, score, rankql_bytes(item))[:CASE WHEN count(score) > 1 AND min(hash(item)) = max(hash(item))
        THEN rankql_refuse('item must distinguish the items of a group, but is the same in all rows')
        ELSE count(score) END];

CREATE OR REPLACE MACRO rankql_values(ranking) AS list_transform(ranking, lambda x_: x_['value']);

-- Groups of equal score: the first position and the values of each.
-- `list_transform([x], lambda name: ...)[1]` names x. A slice would copy the complete list for each group.
CREATE OR REPLACE MACRO rankql_tied(ranking) AS
    list_transform([ranking], lambda items:
        list_transform([list_filter(range(1, len(items) + 1),
                                    lambda i: i = len(items) OR items[i].score <> items[i + 1].score)], lambda ends:
            list_transform(ends, lambda hi, g: {
                'lo': coalesce(ends[g - 1], 0) + 1,
                'values': list_transform(range(coalesce(ends[g - 1], 0) + 1, hi + 1), lambda i: items[i].value)
            }))[1])[1];

-- Groups of equal score: m items from position lo, r of them relevant, n judged and not relevant.
CREATE OR REPLACE MACRO rankql_tied_hits(hit, score) AS
    list_transform(rankql_tied(rankql_ranking(hit, score, NULL)), lambda tied_: {
        'lo': tied_['lo'],
        'm': len(tied_['values']),
        'r': coalesce(list_sum(tied_['values']), 0),
        'n': list_count(tied_['values']) - coalesce(list_sum(tied_['values']), 0)});

-- A ranking by score as rankql_arguments of a list form: its grades in order, and the grades of all judged items.
CREATE OR REPLACE MACRO rankql_arguments_by_score(rel, score, item, k) AS
    [{'rels': rankql_values(rankql_ranking_by_item(rankql_grade(rel), score, item)),
      'ideal': coalesce(list(rankql_grade(rel)), []), 'end': rankql_end(k)}];

-- The values in rank order. With ties 'expected' each tied item has the mean of its group (unjudged items count 0), so a
-- metric that is linear in the values equals its mean over all orders.
CREATE OR REPLACE MACRO rankql_by_score(value, score, item, ties) AS
    CASE WHEN rankql_expected(ties)
         THEN flatten(list_transform(
                rankql_tied(rankql_ranking(value, score, NULL)),
                lambda tied_: list_resize(
                    CAST([] AS DOUBLE[]), len(tied_['values']), list_sum(tied_['values']) / len(tied_['values']))))
         ELSE rankql_values(rankql_ranking_by_item(value, score, item))
    END;

-- The probability of a first hit at each position, given no hit above: r / (m - t + 1) for the t-th of a tied group.
CREATE OR REPLACE MACRO rankql_first_hit(hit, score) AS
    flatten(list_transform(rankql_tied_hits(hit, score), lambda tied_:
        list_transform(range(1, tied_['m'] + 1), lambda t: least(1, tied_['r'] / (tied_['m'] - t + 1)))));


-- Tables.

-- The value of the only row of a query and an item.
CREATE OR REPLACE MACRO rankql_only(value, item, name) AS
    CASE WHEN count(*) = 1 THEN any_value(value)
         ELSE rankql_fail(name || ' must have one row per query and item, but has several of item '
                          || rankql_text(item) || '. GROUP BY both first') END;

-- A value of a column, which must be there. `found` is the type of a struct of it and of __rankql_none; `kinds` those of it
-- and of other columns, whose `arguments` are named if they lack.
CREATE OR REPLACE MACRO rankql_there(value, found, names, label, arguments, kinds := ['STRUCT(__rankql_none'], macro := 'ranked_table', ids := '*') AS
    CASE WHEN found NOT LIKE 'STRUCT(__rankql_none%' THEN value
         ELSE rankql_fail(list_transform([list_filter(list_zip(names, arguments, kinds), lambda e: e[3] LIKE 'STRUCT(__rankql_none%')], lambda lacks:
             macro || ' needs ' || array_to_string(list_transform(lacks, lambda e: e[2]), ', ') || ': ' || label || ' has no column '''
             || array_to_string(list_transform(lacks, lambda e: e[1]), ''' and no column ''') || '''. Name '
             || CASE WHEN len(lacks) > 1 THEN 'columns: ' ELSE 'a column: ' END
             || array_to_string(list_transform(lacks, lambda e: e[2]), ' :=, ') || ' :='
             || CASE lacks[-1][2] WHEN 'rel' THEN '. If every item is relevant, add it: SELECT DISTINCT ' || ids || ', 1 AS rel FROM ' || label
                                ELSE '' END)[1]) END;
-- Is every judged item relevant: is there no column of grades, and none but those that are named, or does the caller say 1?
CREATE OR REPLACE MACRO rankql_is_one(argument, value, v_type, o_type) AS
    argument = 'rel' AND v_type LIKE 'STRUCT(__rankql_none%'
    AND (value = '1' OR value = 'rel' AND o_type LIKE 'STRUCT(__rankql_none%');

-- A value that must not be NULL.
CREATE OR REPLACE MACRO rankql_not_null(value, name, label) AS
    CASE WHEN value IS NOT NULL THEN value
         ELSE rankql_fail(name || ' must not be NULL. Leave such rows of the ' || label || ' out: WHERE ' || name
                          || ' IS NOT NULL') END;

-- A key is a column, or a list of them: the names of a list, the column that is called query in the result (__rankql_zero is
-- 0 in every row), and whether a column is one of the others.
CREATE OR REPLACE MACRO rankql_keys(query) AS CASE WHEN rankql_is_list(query) THEN TRY_CAST(query AS VARCHAR[]) ELSE [] END;
CREATE OR REPLACE MACRO rankql_query_name(query) AS
    CASE WHEN NOT rankql_is_list(query) THEN CAST(query AS VARCHAR)
         WHEN list_contains(rankql_keys(query), 'query') THEN 'query' ELSE '__rankql_zero' END;
CREATE OR REPLACE MACRO rankql_is_key(name, query) AS
    lower(name) <> 'query' AND list_contains(list_transform(rankql_keys(query), lambda key: lower(key)), lower(name));

-- Is a column one of a list, or the only one? The first of them that a type of a struct does not have.
CREATE OR REPLACE MACRO rankql_names(columns) AS
    CASE WHEN rankql_is_list(columns) THEN rankql_keys(columns) WHEN columns IS NULL THEN [] ELSE [CAST(columns AS VARCHAR)] END;
CREATE OR REPLACE MACRO rankql_is_in(name, columns) AS
    columns IS NOT NULL AND list_contains(list_transform(rankql_names(columns), lambda each: lower(each)), lower(name));
CREATE OR REPLACE MACRO rankql_absent(kind, columns) AS
    list_filter(rankql_names(columns), lambda each: NOT contains(lower(kind), lower(each)))[1];

-- The first key of a list that a row does not have, or that is NULL.
CREATE OR REPLACE MACRO rankql_lacking_key(keys, query) AS
    list_filter(rankql_keys(query), lambda name: lower(name) <> 'query' AND NOT list_contains(list_transform(
        list_filter(map_entries(CAST(keys AS MAP(VARCHAR, VARCHAR))), lambda e: e.value IS NOT NULL),
        lambda e: lower(e.key)), lower(name)))[1];

-- The rows of a run or of judgments, one per query and item. The value is a position or a grade. It is 1 in a table that has
-- no column `rel` and none but those that are named.
CREATE OR REPLACE MACRO rankql_items(source, label, query, item, value, argument, attributes, system := NULL) AS TABLE
    SELECT s, q, k, i, rankql_only(v, i, label) AS v FROM (
        SELECT rankql_not_null(rankql_there(q, q_type, [rankql_query_name(query), item, value], label, ['query', 'item', argument],
                                            [q_type, i_type, CASE WHEN rankql_is_one(argument, value, v_type, o_type) THEN '' ELSE v_type END]),
                               rankql_query_name(query), label) AS q,
               CASE WHEN NOT rankql_is_list(query) OR rankql_lacking_key(k, query) IS NULL THEN k
                    WHEN contains(lower(typeof(k)), lower(rankql_lacking_key(k, query)))
                    THEN rankql_not_null(CASE WHEN false THEN k END, rankql_lacking_key(k, query), label)
                    ELSE rankql_there(k, 'STRUCT(__rankql_none', [rankql_lacking_key(k, query)], label, ['query']) END AS k,
               rankql_not_null(rankql_there(i, i_type, [item, value], label, ['item', argument],
                                            [i_type, CASE WHEN rankql_is_one(argument, value, v_type, o_type) THEN '' ELSE v_type END]), item, label) AS i,
               CASE WHEN system IS NULL THEN NULL WHEN rankql_absent(typeof(s), system) IS NULL THEN s
                    ELSE rankql_there(s, 'STRUCT(__rankql_none', [rankql_absent(typeof(s), system)], label, ['system']) END AS s,
               CASE WHEN rankql_is_one(argument, value, v_type, o_type) THEN 1
                    ELSE rankql_there(v, v_type, [value], label, [argument], ids := array_to_string(list_append(rankql_names(query), item), ', ')) END AS v
        FROM (SELECT coalesce(*COLUMNS(lambda name: lower(name) IN (lower(rankql_query_name(query)), '__rankql_none'))) AS q,
                     coalesce(*COLUMNS(lambda name: lower(name) IN (lower(item), '__rankql_none'))) AS i,
                     coalesce(*COLUMNS(lambda name: lower(name) IN (lower(value), '__rankql_none'))) AS v,
                     struct_pack(*COLUMNS(lambda name: name = '__rankql_none' OR rankql_is_key(name, query))) AS k,
                     struct_pack(*COLUMNS(lambda name: name = '__rankql_none' OR rankql_is_in(name, system))) AS s,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(rankql_query_name(query)), '__rankql_none')))) AS q_type,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(item), '__rankql_none')))) AS i_type,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) IN (lower(value), '__rankql_none')))) AS v_type,
                     typeof(struct_pack(*COLUMNS(lambda name: name = '__rankql_none' OR rankql_is_in(name, attributes)))) AS b_type,
                     typeof(struct_pack(*COLUMNS(lambda name: lower(name) NOT IN (
                        lower(rankql_query_name(query)), lower(item), '__rankql_zero') AND NOT rankql_is_key(name, query)
                        AND NOT rankql_is_in(name, attributes) AND NOT rankql_is_in(name, system)))) AS o_type
              FROM (SELECT *, 0 AS __rankql_zero, NULL AS __rankql_none FROM query_table(source)))
        WHERE CASE WHEN label = 'run' AND rankql_absent(b_type, attributes) IS NOT NULL
                   THEN rankql_there(true, 'STRUCT(__rankql_none', [rankql_absent(b_type, attributes)], label, ['by']) ELSE true END)
    GROUP BY s, q, k, i;

-- The attributes of the queries of a run, as columns of the struct `b`.
CREATE OR REPLACE MACRO rankql_attributes(source, query, attributes) AS TABLE
    SELECT q, k, CASE WHEN count(DISTINCT b) > 1
                      THEN rankql_fail('by must have one value per query, but ' || rankql_text(attributes) || ' of query '
                                       || rankql_text(q) || ' has ' || rankql_text(count(DISTINCT b)))
                      ELSE any_value(b) END AS b
    FROM (SELECT coalesce(*COLUMNS(lambda name: lower(name) IN (lower(rankql_query_name(query)), '__rankql_none'))) AS q,
                 struct_pack(*COLUMNS(lambda name: name = '__rankql_none' OR rankql_is_key(name, query))) AS k,
                 struct_pack(*COLUMNS(lambda name: name = '__rankql_none' OR rankql_is_in(name, attributes))) AS b
          FROM (SELECT *, 0 AS __rankql_zero, NULL AS __rankql_none FROM query_table(source)) WHERE attributes IS NOT NULL)
    GROUP BY q, k;

-- Whether a column is returned: not the keys, and `slice` only with a slice.
CREATE OR REPLACE MACRO rankql_handed(name, slice) AS
    name NOT IN ('s', 'a', 'b') AND (slice IS NOT NULL OR name <> 'slice');

-- A column by its name, or the first one if the table does not have it; and its type, as rankql_there asks for it.
CREATE OR REPLACE MACRO rankql_has_field(row_, name) AS rankql_names_field(lower(typeof(row_)[8:-2]), lower(name));
CREATE OR REPLACE MACRO rankql_field_of(row_, name) AS
    struct_extract(row_, CASE WHEN rankql_has_field(row_, name) THEN name
        ELSE replace(regexp_extract(typeof(row_)[8:-2], '^("(?:[^"]|"")*"|[^ ]+) ', 1), '"', '') END);
CREATE OR REPLACE MACRO rankql_kind_of(row_, name) AS CASE WHEN name IS NULL OR rankql_has_field(row_, name) THEN '' ELSE 'STRUCT(__rankql_none' END;

-- Columns are named by text.
CREATE OR REPLACE MACRO ranked(scores, query := 'query', item := 'item', score := 'score') AS TABLE
    SELECT unnest(rankql_row),
        CASE WHEN rankql_score(rankql_field_of(rankql_row, score)) IS NOT NULL THEN row_number() OVER (
            PARTITION BY CASE WHEN query IS NOT NULL THEN rankql_field_of(rankql_row, query) END
            ORDER BY rankql_field_of(rankql_row, score) DESC NULLS LAST,
                     rankql_bytes(rankql_field_of(rankql_row, item)) DESC NULLS LAST) END AS pos
    FROM query_table(scores) AS rankql_row
    WHERE CASE WHEN rankql_has_field(rankql_row, 'pos') THEN rankql_fail('the table has a column ''pos'' already: drop or rename it')
               ELSE rankql_there(true, rankql_kind_of(rankql_row, query) || rankql_kind_of(rankql_row, item) || rankql_kind_of(rankql_row, score),
                                 [query, item, score], 'the table', ['query', 'item', 'score'],
                                 [rankql_kind_of(rankql_row, query), rankql_kind_of(rankql_row, item), rankql_kind_of(rankql_row, score)], 'ranked') END;
COMMENT ON MACRO TABLE ranked IS 'The table with `pos`, the position of each item by its score within its query.';

-- `pos` is NULL for items of the judgments only, `rel` for items of the run only. Each system has all judgments. UNION ALL makes ids of
-- two types text, which a join refuses; its second part is empty.
CREATE OR REPLACE MACRO ranked_table(
    run, judgments, query := 'query', item := 'item', rel := 'rel', pos := 'pos', "by" := NULL, system := NULL
) AS TABLE
    WITH __rankql_run AS (FROM rankql_items(run, 'run', query, item, pos, 'pos', "by", system := system)),
         __rankql_judgments AS (FROM rankql_items(judgments, 'judgments', query, item, rel, 'rel', "by")),
         __rankql_systems AS (SELECT DISTINCT s FROM __rankql_run WHERE system IS NOT NULL)
    SELECT COLUMNS(lambda name: name IN ('item', 'rel', 'pos') OR rankql_is_key(name, query) OR rankql_is_in(name, "by")
                                OR rankql_is_in(name, system) OR name = 'query' AND rankql_query_name(query) <> '__rankql_zero')
    FROM (SELECT unnest(s), q AS query, unnest(k), unnest(b), i AS item, r AS rel, CAST(rankql_pos(p, NULL, pos) AS BIGINT) AS pos
          FROM (SELECT coalesce(a_.s, b_.s) AS s, coalesce(a_.q, b_.q) AS q, coalesce(a_.k, b_.k) AS k, coalesce(a_.i, b_.i) AS i,
                       a_.v AS p, b_.v AS r
                FROM (FROM __rankql_run UNION ALL SELECT NULL, q, k, i, NULL FROM __rankql_judgments WHERE false) AS a_
                     FULL JOIN (SELECT e_.s, q, k, i, v FROM __rankql_judgments LEFT JOIN __rankql_systems AS e_ ON true
                                UNION ALL SELECT s, q, k, i, NULL FROM __rankql_run WHERE false) AS b_
                     ON a_.q = b_.q AND a_.k = b_.k AND a_.i = b_.i AND (system IS NULL OR a_.s = b_.s))
               LEFT JOIN (FROM rankql_attributes(run, query, "by") UNION ALL
                          SELECT q, k, NULL FROM __rankql_judgments WHERE false) USING (q, k));
COMMENT ON MACRO TABLE ranked_table IS 'One row per query and item of a run and its judgments, with `rel` and `pos`.';

-- Documents below a dropped chunk move up by the number of dropped chunks above them.
CREATE OR REPLACE MACRO collapsed(chunks, document := 'document', positions := 'renumber', query := 'query') AS TABLE
    WITH __rankql_placed AS (
        SELECT *, rankql_slice(rankql_row, query) AS rankql_q, rankql_id(rankql_row, document) AS rankql_d,
               rankql_pos(pos, NULL) AS rankql_p
        FROM query_table(chunks) AS rankql_row
    ), __rankql_numbered AS (
        SELECT *, row_number() OVER (PARTITION BY rankql_q ORDER BY rankql_p ASC NULLS LAST) AS rankql_n,
               CASE WHEN rankql_p IS NOT NULL AND count(*) OVER (PARTITION BY rankql_q, rankql_p) > 1
                    THEN rankql_fail(rankql_shared()) END AS rankql_once
        FROM __rankql_placed
    ), __rankql_documents AS (
        FROM __rankql_numbered
        QUALIFY row_number() OVER (PARTITION BY rankql_q, rankql_d ORDER BY rankql_n ASC NULLS LAST) = 1
    )
    SELECT * EXCLUDE (rankql_q, rankql_d, rankql_p, rankql_n, rankql_once) REPLACE (CAST(
        CASE positions
            WHEN 'renumber' THEN rankql_p - rankql_n
                                 + row_number() OVER (PARTITION BY rankql_q ORDER BY rankql_n ASC NULLS LAST)
            WHEN 'keep' THEN rankql_p
            ELSE rankql_fail('positions must be ''renumber'' or ''keep'', not ' || rankql_text(positions))
        END + CASE WHEN rankql_once IS NULL THEN 0 ELSE rankql_once END AS BIGINT) AS pos)
    FROM __rankql_documents;
COMMENT ON MACRO TABLE collapsed IS 'The rankings with the best chunk of each document; the others are dropped.';


-- Quantiles.

-- ln(cosh(u)), exact for small u.
CREATE OR REPLACE MACRO rankql_log_cosh(u) AS asinh(sinh(u) * tanh(u) / 2);

-- ln(B(1/2, a)) of the beta function. From 15 a series, because the difference of two lgamma() loses digits.
CREATE OR REPLACE MACRO rankql_log_beta_half(a) AS
    ln(pi()) / 2 + CASE
        WHEN a < 15 THEN lgamma(a) - lgamma(a + 0.5)
        ELSE list_reduce([-17 / 14336, 1 / 640, -1 / 192, 1 / 8], lambda sum, next: sum * (1 / (a * a)) + next) / a - ln(a) / 2 END;

-- The integral of exp(height - df * ln(cosh(x))) from middle - half to middle + half, by Gauss-Legendre quadrature with
-- 32 nodes. The 16 listed nodes are mirrored.
CREATE OR REPLACE MACRO rankql_integrate_cosh(df, height, middle, half) AS
    half * list_sum(list_transform(
        [0.048307665687738366e0, 0.14447196158279652e0, 0.2392873622521371e0, 0.33186860228212767e0,
            0.4213512761306353e0, 0.5068999089322294e0, 0.5877157572407623e0, 0.6630442669302152e0,
            0.7321821187402897e0, 0.7944837959679424e0, 0.84936761373257e0, 0.8963211557660521e0,
            0.9349060759377397e0, 0.9647622555875064e0, 0.9856115115452684e0, 0.9972638618494816e0],
        lambda node, i: (exp(height - df * rankql_log_cosh(middle - half * node))
                         + exp(height - df * rankql_log_cosh(middle + half * node))) *
            [0.09654008851472766e0, 0.09563872007927471e0, 0.09384439908080451e0, 0.09117387869576378e0,
            0.08765209300440378e0, 0.08331192422694671e0, 0.07819389578707023e0, 0.07234579410884834e0,
            0.06582222277636168e0, 0.058684093478535565e0, 0.05099805926237609e0, 0.042835898022226836e0,
            0.034273862913021765e0, 0.025392065309262024e0, 0.016274394730905743e0,
            0.007018610009470506e0][i]));

-- The p-quantile of Student's t distribution with `df` degrees of freedom, NULL outside 0 < p < 1 and df > 0.
-- With t = sqrt(df) * sinh(u), u has the density cosh(u)^-df / B(1/2, df/2). Newton's method starts at the normal quantile.
-- For p between 0.1 and 0.9 it uses the integral from 0 to u, else the logarithm of the integral of the tail, up to where the
-- density has fallen by exp(-30). Above 1e13 degrees of freedom the normal distribution has the same digits.
CREATE OR REPLACE MACRO rankql_t_quantile(p, df) AS
    list_transform([{
        'p': CAST(p AS DOUBLE),
        'df': CASE WHEN df > 1e13 THEN 1e13::DOUBLE ELSE CAST(df AS DOUBLE) END,
        'central': p BETWEEN 0.1 AND 0.9}], lambda x_: CASE WHEN x_['p'] > 0 AND x_['p'] < 1 AND x_['df'] > 0 THEN
            sign(x_['p'] - 0.5) * sqrt(x_['df']) * sinh(list_reduce(
                [sqrt(-2 * ln(2 * least(x_['p'], 1 - x_['p'])) / x_['df']), 1, 2, 3, 4, 5, 6],
                lambda u, step: list_transform([{
                    'height': x_['df'] * rankql_log_cosh(u),
                    'goal': rankql_log_beta_half(x_['df'] / 2) + ln(
                        CASE WHEN x_['central'] THEN greatest(1e-300, abs(x_['p'] - 0.5)) ELSE least(x_['p'], 1 - x_['p']) END),
                    'end': CASE WHEN x_['central'] THEN 0
                                ELSE acosh(exp(least(700, rankql_log_cosh(u) + 30 / x_['df']))) END}],
                lambda y_: list_transform([
                    rankql_integrate_cosh(x_['df'], y_['height'], (y_['end'] + u) / 2, abs(y_['end'] - u) / 2)],
                    lambda area: u + CASE
                        WHEN x_['central'] THEN exp(y_['goal'] + y_['height']) - area
                        ELSE area * (ln(area) - y_['goal'] - y_['height']) END)[1])[1])) END)[1];

-- The level of a confidence interval, checked.
CREATE OR REPLACE MACRO rankql_confidence(confidence) AS
    CASE WHEN rankql_option(confidence) > 0 AND rankql_option(confidence) < 1 THEN rankql_option(confidence)
         ELSE rankql_refuse('confidence must lie between 0 and 1, not ' || rankql_number_text(confidence))
    END;

-- Half the width of a confidence interval in standard errors: the normal quantile.
CREATE OR REPLACE MACRO rankql_z(confidence) AS rankql_t_quantile((1 + rankql_confidence(confidence)) / 2, 1e13);
