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


-- Packed numbers: a ranking in one sum, and its grades in another, for ndcg, dcg, ap, rr, precision_at, recall_at, f1_at, hit_at
-- and all_rel_at. It has no public macros, and changes no result: what a metric is, its own file says. Load common.sql first.
--
-- The ranking, for k up to 20. Each row within k adds a whole number to one sum:
--
--    127        92 91                                40 39            20 19             0
--   +-------------+------------------------------------+----------------+----------------+
--   | items       | DCG * 2^46                         | hits           | positions      |
--   +-------------+------------------------------------+----------------+----------------+
--
--   positions  A bit for each: bit 0 is position 1. Only if all positions differ has the sum as many bits here as items.
--   hits       A bit for each position of a relevant item.
--   DCG        rel / log2(pos + 1), of whole grades from 0 to 5, rounded to 2^-46. Five at each of 20 positions make 35.2,
--              for which 52 bits are enough, and the rounding of 20 rows is below 2e-13. Other grades add 0: see rankql_other_dcg.
--   items      1 for each row, up to 2^35.
--
-- The ranking, for larger k and without k. Positions have no bits here: rankql_different counts those that differ.
--
--    127                                               40 39                              0
--   +----------------------------------------------------+---------------------------------+
--   | hits                                               | items                           |
--   +----------------------------------------------------+---------------------------------+
--
-- The grades, for ndcg. Five counts of the judged items, retrieved or not, from the left of those with at least grade 1, 2, 3, 4
-- and 5. They are 12 bits each for k up to 20, and 25 else: a group with more than 4,095 or 33,554,431 gains is an error.
--
--   +----------------+----------------+----------------+----------------+----------------+
--   | 1 or more      | 2 or more      | 3 or more      | 4 or more      | 5              |
--   +----------------+----------------+----------------+----------------+----------------+
--
-- What it earns, over 10M rows of Parquet, in units of a plain sum: precision_at takes 2.3 (3.4 with a count of positions, their
-- maximum and minimum, and a sum of hits), ndcg for k = 10 takes 3.5 (5.0 with these and a sum of gains), and without k 9 (11
-- with sorted lists). A count of 12 bits takes .6, and one of 25 bits .9; max(x, k) takes 1 to 2. Metrics of one query share
-- the sum. All checks of rel, pos, k and threshold are in it, once.


-- The ranking.

CREATE OR REPLACE MACRO rankql_in_bits(k) AS rankql_limit(k) <= 20;

CREATE OR REPLACE MACRO rankql_is_whole(rel) AS
    typeof(rel) IN ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'UTINYINT', 'USMALLINT', 'UINTEGER');

-- What a row adds for k up to 20, at [8 * position + grade - 7]: 2^92, the DCG * 2^40, 2^20 for a hit, and 1, both moved to the
-- position. Other grades than 0 to 5 have the index of 6 if they are hits, else of 7.
CREATE OR REPLACE MACRO rankql_marks(threshold) AS
    list_transform(range(0, 160), lambda i: 4951760157141521099596496896 + CAST(CASE WHEN i % 8 < 6
            THEN round(70368744177664 * (i % 8) / log2(i // 8 + 2)) ELSE 0 END AS HUGEINT) * 1099511627776
        + CAST(CASE WHEN i % 8 = 6 OR i % 8 < 6 AND i % 8 >= rankql_option(threshold)
                    THEN 1048577::BIGINT ELSE 1::BIGINT END << (i // 8) AS HUGEINT));

-- What a row adds.
CREATE OR REPLACE MACRO rankql_mark(rel, pos, k, threshold) AS
    CASE WHEN rankql_in_bits(k) THEN (rankql_marks(threshold))[8 * CAST(pos AS BIGINT) - 7 + CASE
             WHEN rankql_is_whole(rel) AND rankql_unchecked(rel) BETWEEN 0 AND 5 THEN CAST(rankql_unchecked(rel) AS BIGINT)
             WHEN rankql_unchecked(rel) >= rankql_option(threshold) THEN 6 ELSE 7 END]
         WHEN rankql_unchecked(rel) >= rankql_option(threshold) THEN 1099511627777 ELSE 1 END;

-- The same, checked; NULL beyond the cutoff and if not retrieved.
CREATE OR REPLACE MACRO rankql_row_bits(rel, pos, k, threshold) AS
    CASE WHEN rankql_is_literal(pos) THEN rankql_refuse_literal(pos, 'pos')
         WHEN NOT rankql_is_numeric(pos) THEN rankql_refuse(rankql_no_number(pos, 'pos'))
         WHEN rankql_holds_no_numbers(rel) THEN rankql_refuse(rankql_no_number(rel, 'rel'))
         WHEN rankql_unchecked(pos) < 1 OR rankql_unchecked(pos) > 9007199254740992 OR typeof(pos) NOT LIKE '%INT%' AND NOT (
              isfinite(rankql_unchecked(pos)) AND rankql_unchecked(pos) = floor(rankql_unchecked(pos)))
         THEN rankql_refuse_pos(pos, 'pos')
         WHEN typeof(rel) IN ('FLOAT', 'DOUBLE') AND NOT rankql_is_rel(rankql_unchecked(rel)) THEN rankql_refuse_rel(rel)
         WHEN rankql_unchecked(pos) <= rankql_checked(
              CASE WHEN k IS NULL THEN 1.7e308 ELSE rankql_cutoff(k) END, rankql_threshold(threshold))
         THEN rankql_mark(rel, pos, k, threshold) END;

-- The sum, and for larger k the number of different positions, for the macros below.
CREATE OR REPLACE MACRO rankql_ranking_sum(rel, pos, k, threshold) AS
    [{'places': sum(rankql_row_bits(rel, pos, k, threshold)),
      'positions': CASE WHEN NOT rankql_in_bits(k) THEN rankql_different(pos, k) END}];

-- What is read from it, `bits` for k up to 20 and else `counts`, or an error if several items share a position. DuckDB does not
-- simplify what a lambda computes, so there is as little as possible in it.
CREATE OR REPLACE MACRO rankql_unshared(x_, bits, counts) AS
    CASE WHEN x_['positions'] IS NULL THEN CASE WHEN bit_count(CAST(x_['places'] & 1048575 AS BIGINT)) <> x_['places'] >> 92
                                           THEN rankql_refuse(rankql_shared()) ELSE bits END
         WHEN x_['places'] % 1099511627776 > x_['positions'] THEN rankql_refuse(rankql_shared()) ELSE counts END;

CREATE OR REPLACE MACRO rankql_hit_bits(places) AS CAST((places >> 20) & 1048575 AS BIGINT);

-- The number of hits.
CREATE OR REPLACE MACRO rankql_hit_count(rel, pos, k, threshold) AS
    coalesce(list_transform(rankql_ranking_sum(rel, pos, k, threshold), lambda x_: rankql_unshared(
        x_, CAST(bit_count(rankql_hit_bits(x_['places'])) AS DOUBLE),
        CAST(x_['places'] // 1099511627776 AS DOUBLE)))[1], 0);

-- The number of relevant items, which is counted beside the sum; that checks rel.
CREATE OR REPLACE MACRO rankql_relevant_count(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_unchecked(rel) >= rankql_threshold(threshold)) AS DOUBLE);

-- A position within the cutoff, beside the sum, which checks it.
CREATE OR REPLACE MACRO rankql_counted_pos(pos, k) AS
    CASE WHEN k IS NULL OR rankql_unchecked(pos) <= rankql_limit(k) THEN rankql_unchecked(pos) END;

-- The first position of a hit: in bits, subtracting 1 changes the lowest one and those below it.
CREATE OR REPLACE MACRO rankql_first_pos(rel, pos, k, threshold) AS
    list_transform(rankql_ranking_sum(rel, pos, k, threshold), lambda x_: rankql_unshared(x_, CAST(bit_count(
        xor(nullif(rankql_hit_bits(x_['places']), 0), rankql_hit_bits(x_['places']) - 1)) AS DOUBLE), 0))[1]
    + CASE WHEN rankql_in_bits(k) THEN 0
           ELSE min(CASE WHEN rankql_unchecked(rel) >= rankql_option(threshold) THEN rankql_counted_pos(pos, k) END) END;

-- The bits of the hits, 0 for larger k.
CREATE OR REPLACE MACRO rankql_packed_hits(rel, pos, k, threshold) AS
    list_transform(rankql_ranking_sum(rel, pos, k, threshold), lambda x_: rankql_unshared(x_, rankql_hit_bits(x_['places']), 0))[1];

-- The sum of the precisions at the hits: for each, the number of hits up to it, divided by its position.
CREATE OR REPLACE MACRO rankql_bit_precisions(bits, k) AS
    list_transform([bits], lambda bits: list_sum(list_transform(range(1, least(rankql_limit(k), 20) + 1), lambda i:
        ((bits >> (i - 1)) & 1) * bit_count(bits & ((1::BIGINT << i) - 1)) / i)))[1];

-- The DCG, 0 for larger k.
CREATE OR REPLACE MACRO rankql_packed_dcg(rel, pos, k, discounts) AS
    coalesce(list_transform(rankql_ranking_sum(rel, pos, k, 1), lambda x_: rankql_unshared(
        x_, CAST((x_['places'] >> 40) & 4503599627370495 AS DOUBLE), 0))[1], 0)
    * CASE WHEN discounts IS NULL THEN 1.4210854715202004e-14::DOUBLE ELSE 0.0::DOUBLE END;


-- The grades.

CREATE OR REPLACE MACRO rankql_counts_grades(rel, discounts, ideal) AS
    discounts IS NULL AND rankql_text(ideal) = 'judged' AND rankql_is_whole(any_value(rel));

-- Other grades than 0 to 5 have no index.
CREATE OR REPLACE MACRO rankql_grade_index(rel) AS CAST(TRY_CAST(rel AS UTINYINT) AS BIGINT) + 1;

CREATE OR REPLACE MACRO rankql_grade_counts(rel, k) AS coalesce(CASE WHEN rankql_in_bits(k)
    THEN sum([0, 281474976710656, 281543696187392, 281543712964608, 281543712968704, 281543712968705][rankql_grade_index(rel)])
    ELSE sum([0, 1267650600228229401496703205376, 1267650638007161264453864914944, 1267650638007162390353771757568,
              1267650638007162390353805312000, 1267650638007162390353805312001][rankql_grade_index(rel)]) END, 0);

CREATE OR REPLACE MACRO rankql_bits(k) AS CASE WHEN rankql_in_bits(k) THEN 12 ELSE 25 END;

-- The rows with other grades that gain or, if `negative` is 'keep', lose.
CREATE OR REPLACE MACRO rankql_uncounted(rel, pos, negative) AS
    list({'rel': rankql_unchecked(rel), 'pos': rankql_unchecked(pos)})
        FILTER (WHERE rankql_unchecked(rel) > 5 OR rankql_text(negative) = 'keep' AND rankql_unchecked(rel) < 0);

CREATE OR REPLACE MACRO rankql_uncounted_dcg(rows_, k) AS
    coalesce(list_sum(list_transform(rows_, lambda x_:
        CASE WHEN x_['pos'] <= rankql_limit(k) THEN x_['rel'] / log2(x_['pos'] + 1) END)), 0);

-- The sum of the first discounts, as many as items, up to k. DuckDB plans a text in a tenth of the time of a list.
CREATE OR REPLACE MACRO rankql_first_discounts(items, k) AS (CAST('[0.0, 1.0, 1.6309297535714575, 2.1309297535714578, 2.5616063116448506, 2.9484591188793923, 3.304666305987414,
        3.6379996393207477, 3.9534645161064765, 4.254494511770457, 4.543559338088346, 4.8225022837394755, 5.092740438166795,
        5.355389973203989, 5.611347998013804, 5.861347998013804, 6.10599854013203, 6.345811006700162, 6.5812199200668,
        6.812598133226559, 7.040268381923513]' AS DOUBLE[]))[1 + least(items, rankql_some(k))];

-- The ideal DCG of the counts for k up to 20, NULL without gains: each item adds 1 for each grade that it reaches.
CREATE OR REPLACE MACRO rankql_counted_dcg(counts, k) AS CASE WHEN counts > 0 THEN
    rankql_first_discounts(counts >> 48, k) + rankql_first_discounts((counts >> 36) & 4095, k)
    + rankql_first_discounts((counts >> 24) & 4095, k) + rankql_first_discounts((counts >> 12) & 4095, k)
    + rankql_first_discounts(counts & 4095, k) END;

-- The same for every k, with others before them: as many counts as reach i are the grade of the i-th counted item.
CREATE OR REPLACE MACRO rankql_mixed_dcg(levels, uncounted, k) AS
    list_sum(list_transform(list_concat(list_sort(list_filter(uncounted, lambda grade: grade > 0), 'DESC', 'NULLS LAST'),
        list_transform([levels], lambda levels: list_transform(range(1, least(levels[1], rankql_limit(k)) + 1), lambda i: 1.0::DOUBLE
            + (levels[2] >= i)::INT + (levels[3] >= i)::INT + (levels[4] >= i)::INT + (levels[5] >= i)::INT))[1])[:rankql_limit(k)],
        lambda grade, i: grade / log2(i + 1)));

CREATE OR REPLACE MACRO rankql_counted_ideal(counts, uncounted, k) AS
    CASE WHEN counts >> (5 * rankql_bits(k)) > 0
         THEN rankql_refuse('rel has more than ' || ((1 << rankql_bits(k)) - 1)
                            || ' grades above 0 in a group. Pass CAST(rel AS DOUBLE), which is sorted instead')
         WHEN rankql_in_bits(k) AND uncounted IS NULL THEN rankql_counted_dcg(CAST(counts AS BIGINT), k)
         ELSE list_transform([counts], lambda counts: rankql_mixed_dcg(list_transform([4, 3, 2, 1, 0], lambda grade: CAST(
             (counts >> (rankql_bits(k) * grade)) & ((1 << rankql_bits(k)) - 1) AS BIGINT)),
             list_transform(uncounted, lambda x_: x_['rel']), k))[1] END;


-- Gain: the grades of the items shown, lower positions counting less. Load common.sql, then packed.sql first.
--
--   exp2_gain(rel)      2^rel - 1, to pass for rel
--   cg(rel, pos, k)     the sum of rel over the rows with pos <= k
--   dcg(rel, pos, k)    the sum of rel / log2(pos + 1) over the rows with pos <= k
--   idcg(rel, pos, k)   the dcg of the best order: the grades above 0, shown or not, the highest at 1, the next at 2, up to k
--   ndcg(rel, pos, k)   dcg / idcg, where a grade below 0 counts 0; NULL if no grade is above 0
--
-- A grade that is NULL adds nothing, and without k all positions count. `base` is that of the logarithm, and `discounts` takes the
-- place of log2(pos + 1). list_dcg(rels, k) has the grades in rank order, and dcg_by_score(rel, score, item, k) ranks by score.

-- Discounts as DOUBLE[]. Text is cast too: rankql_valid refuses it.
CREATE OR REPLACE MACRO rankql_discounts(discounts) AS TRY_CAST(discounts AS DOUBLE[]);

-- The discount of a position. The list must be long enough. Multiply by rankql_valid first, whose errors come first.
CREATE OR REPLACE MACRO rankql_listed(pos, discounts) AS
    coalesce(rankql_discounts(discounts)[CAST(pos AS BIGINT)], CASE WHEN CAST(pos AS BIGINT) > len(rankql_discounts(discounts))
        THEN rankql_refuse('discounts has ' || len(rankql_discounts(discounts)) || ' entries, but position ' || CAST(pos AS BIGINT)
                   || ' is counted: give more, or a lower k') END);

-- 1 if the discounts are finite numbers above 0, else an error.
CREATE OR REPLACE MACRO rankql_valid(discounts) AS
    CASE WHEN rankql_is_text(discounts) OR NOT rankql_is_list(discounts)
         THEN rankql_refuse('discounts must be a list of numbers, not ' || rankql_text(discounts))
         ELSE coalesce(list_min(list_transform(rankql_discounts(discounts), lambda d: CASE WHEN d > 0 AND isfinite(d) THEN 1
             ELSE rankql_refuse('discounts must be finite numbers above 0, not ' || rankql_text(d)) END)), 1)
    END;

-- log2(base): log2(x) / log2(base) is the logarithm to that base.
CREATE OR REPLACE MACRO rankql_base(base) AS
    CASE WHEN rankql_option(base) > 1 AND isfinite(rankql_option(base)) THEN log2(rankql_option(base))
         ELSE rankql_refuse('base must be a finite number above 1, not ' || rankql_text(base))
    END;

-- What a sum of gain / log2(pos + 1) is multiplied by: log2(base), or 1 with discounts. Checks both options.
CREATE OR REPLACE MACRO rankql_dcg_factor(discounts, base) AS
    CASE WHEN discounts IS NULL THEN rankql_base(base) ELSE rankql_valid(discounts) END;

-- A grade, or 0 if it is negative and that does not count.
CREATE OR REPLACE MACRO rankql_signed(grade, negative) AS
    grade * CASE rankql_text(negative) WHEN 'zero' THEN rankql_if_positive(grade)
                  WHEN 'keep' THEN 1.0::DOUBLE
                  ELSE rankql_refuse('negative must be ''zero'' or ''keep'', not ' || rankql_text(negative))
    END;

CREATE OR REPLACE MACRO rankql_negative(rel, negative) AS rankql_signed(rankql_grade(rel), negative);

-- The sum of gain / log2(pos + 1) over the rows that rankql_packed_dcg leaves out: with a larger k, discounts, or grades other than
-- whole numbers from 0 to 5.
CREATE OR REPLACE MACRO rankql_other_dcg(rel, pos, k, discounts, negative) AS
    coalesce(sum(CASE WHEN (NOT rankql_in_bits(k) OR NOT rankql_is_whole(rel) OR discounts IS NOT NULL
                            OR rankql_unchecked(rel) < 0 OR rankql_unchecked(rel) > 5)
                           AND (k IS NULL OR rankql_unchecked(pos) <= rankql_limit(k))
        THEN rankql_signed(rankql_unchecked(rel), negative) / CASE WHEN discounts IS NULL THEN log2(rankql_unchecked(pos) + 1)
             WHEN rel IS NOT NULL THEN rankql_valid(discounts) * rankql_listed(pos, discounts) END END), 0);

-- The sum of gain / log2(pos + 1) over all rows within k, without rankql_dcg_factor. With an `ideal`, rankql_idcg lists the rows of
-- other grades, and they are added up from its list.
CREATE OR REPLACE MACRO rankql_dcg(rel, pos, k, discounts, ideal, negative) AS
    rankql_packed_dcg(rel, pos, k, discounts)
    + CASE WHEN rankql_in_bits(k) AND rankql_counts_grades(rel, discounts, ideal)
           THEN rankql_uncounted_dcg(rankql_uncounted(rel, pos, negative), k)
           ELSE rankql_other_dcg(rel, pos, k, discounts, negative) END;

-- The discounted sum of a list of gains, NULL if it is empty.
CREATE OR REPLACE MACRO rankql_list_dcg(gains, discounts) AS
    list_sum(list_transform(gains, lambda gain, i: gain / CASE
        WHEN discounts IS NULL THEN log2(i + 1) WHEN gain IS NOT NULL THEN rankql_listed(i, discounts) END));

-- The discounted sum of gains in descending order: the best item has the smallest discount. NULL or 0 without gains.
CREATE OR REPLACE MACRO rankql_ideal_dcg(gains, k, discounts) AS
    CASE WHEN discounts IS NOT NULL
         THEN list_transform([list_sort(rankql_discounts(discounts)[:rankql_limit(k)], 'ASC', 'NULLS LAST')],
                             lambda least: rankql_list_dcg(gains, least))[1]
         WHEN rankql_few(k)
         THEN list_inner_product(list_resize(gains, rankql_some(k), 0),
                                 list_transform(range(1, rankql_some(k) + 1), lambda i: 1 / log2(i + 1)))
         ELSE rankql_list_dcg(gains, NULL)
    END;

-- The discounted sum of the grades above 0 in the best order, without rankql_dcg_factor: from counts of grades, or a sorted list.
CREATE OR REPLACE MACRO rankql_idcg(rel, pos, k, discounts, ideal, negative) AS
    CASE WHEN rankql_counts_grades(rel, discounts, ideal)
         THEN rankql_counted_ideal(rankql_grade_counts(rel, k), rankql_uncounted(rel, pos, negative), k)
         ELSE rankql_ideal_dcg(rankql_best(rankql_unchecked(rel), rankql_gains(rankql_unchecked(rel), pos IS NOT NULL, ideal), k),
                               k, discounts) END;

-- The checks of rankql_grade, which would name rel twice more.
CREATE OR REPLACE MACRO exp2_gain(rel) AS
    CASE WHEN rankql_holds_no_numbers(rel) THEN rankql_refuse(rankql_no_number(rel, 'rel'))
         WHEN NOT rankql_is_rel(CAST(rel AS DOUBLE)) THEN rankql_refuse_rel(rel)
         ELSE pow(2.0::DOUBLE, CAST(rel AS DOUBLE)) - 1 END;
COMMENT ON MACRO exp2_gain IS 'Exponential gain of a grade: 2^rel - 1. NULL if the grade is NULL.';

CREATE OR REPLACE MACRO cg(rel, pos, k := NULL) AS
    rankql_one_ranking(coalesce(sum(rankql_checked(rankql_grade(rel), rankql_pos(pos, k))), 0), pos, k);
COMMENT ON MACRO cg IS 'Cumulative gain: the sum of the grades in the first k positions.';

CREATE OR REPLACE MACRO dcg(rel, pos, k := NULL, discounts := NULL, base := 2) AS
    rankql_dcg(rel, pos, k, discounts, NULL, 'keep') * rankql_dcg_factor(discounts, base);
COMMENT ON MACRO dcg IS 'Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.';

CREATE OR REPLACE MACRO idcg(rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged') AS
    rankql_one_ranking(
        rankql_dcg_factor(discounts, base)
        * coalesce(rankql_ideal_dcg(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), k, discounts), 0), pos, k);
COMMENT ON MACRO idcg IS 'Ideal DCG: the highest DCG that any order of the judged items can reach.';

CREATE OR REPLACE MACRO ndcg(
    rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged', negative := 'zero'
) AS
    rankql_at_most_one(
        rankql_checked(rankql_dcg(rel, pos, k, discounts, ideal, negative), rankql_dcg_factor(discounts, base))
        / rankql_idcg(rel, pos, k, discounts, ideal, negative));
COMMENT ON MACRO ndcg IS 'Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.';


-- The ideal DCG of a list, from rankql_arguments.
CREATE OR REPLACE MACRO rankql_list_idcg(x_, discounts, base) AS
    coalesce(rankql_ideal_dcg(rankql_list_best(x_), x_['end'], discounts), 0 * len(x_['rels'])) * rankql_dcg_factor(discounts, base);

CREATE OR REPLACE MACRO list_cg(rels, k := NULL) AS
    coalesce(list_sum(rankql_top(rankql_grades(rels), k)), 0 * len(CAST(rels AS DOUBLE[])));
COMMENT ON MACRO list_cg IS 'cg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_dcg(rels, k := NULL, discounts := NULL, base := 2) AS
    coalesce(rankql_list_dcg(rankql_top(rankql_grades(rels), k), discounts), 0 * len(CAST(rels AS DOUBLE[])))
    * rankql_dcg_factor(discounts, base);
COMMENT ON MACRO list_dcg IS 'dcg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_idcg(rels, k := NULL, discounts := NULL, base := 2, ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_: rankql_list_idcg(x_, discounts, base))[1];
COMMENT ON MACRO list_idcg IS 'idcg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_ndcg(rels, k := NULL, discounts := NULL, base := 2, negative := 'zero', ideal := NULL) AS
    rankql_at_most_one(list_transform(list_transform(rankql_arguments(rels, ideal, k), lambda x_: {
        'dcg': rankql_dcg_factor(discounts, base) * coalesce(rankql_list_dcg(list_transform(
            x_['rels'][:x_['end']], lambda grade: rankql_signed(grade, negative)), discounts), 0 * len(x_['rels'])),
        'idcg': rankql_list_idcg(x_, discounts, base)}), lambda x_: x_['dcg'] / nullif(x_['idcg'], 0))[1]);
COMMENT ON MACRO list_ndcg IS 'ndcg over a list of grades in rank order.';


CREATE OR REPLACE MACRO cg_by_score(rel, score, item, k := NULL, ties := 'item') AS
    list_cg(rankql_by_score(rankql_grade(rel), score, item, ties), k);
COMMENT ON MACRO cg_by_score IS 'cg with a score and an item instead of the position.';

CREATE OR REPLACE MACRO dcg_by_score(rel, score, item, k := NULL, discounts := NULL, base := 2, ties := 'item') AS
    list_dcg(rankql_by_score(rankql_grade(rel), score, item, ties), k, discounts, base);
COMMENT ON MACRO dcg_by_score IS 'dcg with a score and an item instead of the position.';

CREATE OR REPLACE MACRO idcg_by_score(
    rel, score, item, k := NULL, discounts := NULL, base := 2, ideal := 'judged', ties := 'item'
) AS
    rankql_checked(
        coalesce(rankql_ideal_dcg(rankql_best_ideal(rel, score IS NOT NULL, ideal, k), k, discounts), 0)
        * rankql_dcg_factor(discounts, base),
        count(rankql_score(score)) * rankql_k_and_ties(k, ties));
COMMENT ON MACRO idcg_by_score IS 'idcg with a score and an item instead of the position.';

CREATE OR REPLACE MACRO ndcg_by_score(
    rel, score, item, k := NULL, discounts := NULL, base := 2, ideal := 'judged', negative := 'zero', ties := 'item'
) AS
    rankql_at_most_one(
        list_dcg(rankql_by_score(rankql_negative(rel, negative), score, item, ties), k, discounts, base)
        / (rankql_ideal_dcg(rankql_best_ideal(rel, score IS NOT NULL, ideal, k), k, discounts)
           * rankql_dcg_factor(discounts, base)));
COMMENT ON MACRO ndcg_by_score IS 'ndcg with a score and an item instead of the position.';


-- Precision and recall: how many of the items shown are relevant, and how many of the relevant ones are shown. Load common.sql,
-- then packed.sql first.
--
-- An item is relevant if rel >= threshold, and a hit if it also has pos <= k. R is the number of relevant items, shown or not.
--
--   precision_at(rel, pos, k)         hits / k; without k, hits / items shown
--   recall_at(rel, pos, k)            hits / R
--   f1_at(rel, pos, k)                2 * hits / (k + R), the harmonic mean of both
--   hit_at(rel, pos, k)               1 if hits > 0, else 0
--   all_rel_at(rel, pos, k)           1 if hits = R, else 0
--   r_precision(rel, pos)             hits with k = R, / R
--   ap(rel, pos, k)                   the sum over the hits of (hits up to it) / pos, / min(k, R)
--   interpolated_precision(rel, pos)  the mean over r in 0, 0.1, ..., 1 of the highest precision where recall is at least r
--   set_ap(rel, pos)                  precision_at(rel, pos) * recall_at(rel, pos)
--   infap(rel, pos)                   the sum over the hits of the precision that a sample of judgments lets expect, / R
--   bpref(rel, pos)                   the sum over the hits of 1 - min(n, R) / min(N, R), / R, with N items judged and not relevant,
--                                     n of them above the hit
--   judged_at(rel, pos, k)            items with a grade and pos <= k, / k
--   num_ret(rel, pos)                 items shown
--   num_rel(rel, pos)                 R
--   num_rel_ret(rel, pos, k)          hits
--   false_answer(rel, pos)            1 if something is shown, else 0; only where R = 0
--   false_abstention(rel, pos)        1 if nothing is shown, else 0; only where R > 0
--   forbidden_at(rel, pos, k)         1 if an item has rel < 0 and pos <= k, else 0
--   micro_precision_at(rel, pos, k)   of all rankings: the sum of hits / the sum of k
--   micro_recall_at(rel, pos, k)      of all rankings: the sum of hits / the sum of R
--   micro_f1_at(rel, pos, k)          of all rankings: 2 * the sum of hits / the sum of k + R
--
-- What is divided by R is NULL if nothing is relevant. list_ap(rels, k) has the grades in rank order, and
-- ap_by_score(rel, score, item, k) ranks by score. hr, hit_rate, hits_at, success, p_at, precision_k, map_at,
-- average_precision, mean_average_precision and ndcg_at only say what to write, as mrr does.

-- What the hits are divided by.
CREATE OR REPLACE MACRO rankql_denominator(relevant, retrieved, k, denominator) AS CASE rankql_text(denominator)
    WHEN 'k' THEN rankql_size(k, retrieved)
    WHEN 'retrieved' THEN CAST(retrieved AS DOUBLE)
    WHEN 'min' THEN least(rankql_size(k, retrieved), relevant)
    ELSE rankql_refuse('denominator must be ''k'', ''retrieved'' or ''min'', not ' || rankql_text(denominator)) END;

-- hits / denominator. If the denominator is 0 there are no hits, so 1 does as well. nullif() would write it out twice.
CREATE OR REPLACE MACRO rankql_precision(hits, relevant, retrieved, k, denominator) AS
    coalesce(hits / greatest(rankql_denominator(relevant, retrieved, k, denominator), 1), 0);

-- The harmonic mean of precision, with this denominator, and recall.
CREATE OR REPLACE MACRO rankql_f1(hits, relevant, retrieved, k, denominator) AS
    2 * hits / CASE WHEN relevant > 0 THEN rankql_denominator(relevant, retrieved, k, denominator) + relevant END;

CREATE OR REPLACE MACRO rankql_recall(rel, pos, k, threshold) AS
    count(rankql_hit_pos(rel, pos, k, threshold)) / nullif(rankql_relevant(rel, threshold), 0);

CREATE OR REPLACE MACRO precision_at(rel, pos, k := NULL, threshold := 1, denominator := 'k') AS
    rankql_precision(rankql_hit_count(rel, pos, k, threshold), rankql_relevant_count(rel, threshold), rankql_retrieved(pos, k),
                     k, denominator);
COMMENT ON MACRO precision_at IS 'Precision: the relevant items in the first k positions, divided by k.';

CREATE OR REPLACE MACRO recall_at(rel, pos, k := NULL, threshold := 1) AS
    rankql_hit_count(rel, pos, k, threshold) / nullif(rankql_relevant_count(rel, threshold), 0);
COMMENT ON MACRO recall_at IS 'Recall: the share of the relevant items that are in the first k positions.';

CREATE OR REPLACE MACRO f1_at(rel, pos, k := NULL, threshold := 1, denominator := 'k') AS
    rankql_f1(rankql_hit_count(rel, pos, k, threshold), rankql_relevant_count(rel, threshold), rankql_retrieved(pos, k),
              k, denominator);
COMMENT ON MACRO f1_at IS 'F1: the harmonic mean of precision and recall in the first k positions.';

CREATE OR REPLACE MACRO hit_at(rel, pos, k := NULL, threshold := 1) AS
    least(rankql_hit_count(rel, pos, k, threshold), 1) * CASE WHEN rankql_relevant_count(rel, threshold) > 0 THEN 1.0::DOUBLE END;
COMMENT ON MACRO hit_at IS 'Hit rate of one ranking: 1 if a relevant item is in the first k positions, else 0.';

CREATE OR REPLACE MACRO all_rel_at(rel, pos, k := NULL, threshold := 1) AS
    CAST(rankql_hit_count(rel, pos, k, threshold) = nullif(rankql_relevant_count(rel, threshold), 0) AS DOUBLE);
COMMENT ON MACRO all_rel_at IS 'All relevant: 1 if every relevant item is in the first k positions, else 0.';

-- Only say what to write, as mrr does.
CREATE OR REPLACE MACRO hr(rel, pos, k := NULL, threshold := 1) AS rankql_fail('hr is the mean of hit_at over the queries: use avg(hit_at(...)), with hit_at(rel, pos, k) by query');
CREATE OR REPLACE MACRO hit_rate(rel, pos, k := NULL, threshold := 1) AS rankql_fail('hit_rate is the mean of hit_at over the queries: use avg(hit_at(...)), with hit_at(rel, pos, k) by query');
CREATE OR REPLACE MACRO hits_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('hits_at is hit_at here: use hit_at(rel, pos, k)');
CREATE OR REPLACE MACRO success(rel, pos, k := NULL, threshold := 1) AS rankql_fail('success is hit_at here: use hit_at(rel, pos, k)');
CREATE OR REPLACE MACRO p_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('p_at is precision_at here: use precision_at(rel, pos, k)');
CREATE OR REPLACE MACRO precision_k(rel, pos, k := NULL, threshold := 1) AS rankql_fail('precision_k is precision_at here: use precision_at(rel, pos, k)');
CREATE OR REPLACE MACRO map_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('map_at is the mean of ap over the queries: use avg(ap(...)), with ap(rel, pos, k) by query');
CREATE OR REPLACE MACRO average_precision(rel, pos, k := NULL, threshold := 1) AS rankql_fail('average_precision is ap here: use ap(rel, pos, k)');
CREATE OR REPLACE MACRO mean_average_precision(rel, pos, k := NULL, threshold := 1) AS rankql_fail('mean_average_precision is the mean of ap over the queries: use avg(ap(...)), with ap(rel, pos, k) by query');
CREATE OR REPLACE MACRO ndcg_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('ndcg_at is ndcg here: use ndcg(rel, pos, k)');

CREATE OR REPLACE MACRO r_precision(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(list_transform([{
        'hits': list(rankql_pos(pos, NULL)) FILTER (WHERE rankql_hit_pos(rel, pos, NULL, threshold) > 0),
        'relevant': rankql_relevant(rel, threshold)}], lambda x_:
            coalesce(len(list_filter(x_['hits'], lambda p: p <= x_['relevant'])), 0)
            / CASE WHEN x_['relevant'] > 0 THEN x_['relevant'] END)[1], pos, NULL), k, 'r_precision');
COMMENT ON MACRO r_precision IS 'R-precision: precision in the first R positions, where R is the number of relevant items.';


-- Average and interpolated precision.

-- The sum of the precisions at the hits, divided by the denominator. NULL without relevant items.
CREATE OR REPLACE MACRO rankql_ap(precisions, hits, relevant, retrieved, k, denominator) AS
    coalesce(precisions, 0) / CASE WHEN rankql_text(denominator) NOT IN ('min', 'R', 'found', 'k')
         THEN rankql_refuse('denominator must be ''min'', ''R'', ''found'' or ''k'', not ' || rankql_text(denominator))
         WHEN rankql_checked(relevant, rankql_cutoff(k)) > 0
         THEN greatest(CASE rankql_text(denominator)
        WHEN 'found' THEN CAST(hits AS DOUBLE)
        WHEN 'k' THEN rankql_size(k, retrieved)
        ELSE least(CASE rankql_text(denominator) WHEN 'min' THEN rankql_cutoff(k) ELSE 9007199254740992::DOUBLE END, relevant)
    END, 1) END;

-- The sum of the precisions at the hits, in order: the i-th is at positions[i].
CREATE OR REPLACE MACRO rankql_precisions(positions) AS list_sum(list_transform(positions, lambda p, i: i / CAST(p AS DOUBLE)));

-- The recalls of interpolated precision: the one given, or 0, 0.1, ..., 1.
CREATE OR REPLACE MACRO rankql_recalls(recall) AS
    CASE WHEN recall IS NULL THEN list_transform(range(0, 11), lambda tenth: tenth / 10)
         ELSE [rankql_argument(recall, rankql_option(recall) BETWEEN 0 AND 1, 'recall', ' must lie between 0 and 1')] END;

-- The mean over the recalls of the highest precision at a hit with at least this recall. recall * R is rounded up, but a fraction
-- below 0.1 down, as in trec_eval 9; or to the nearest, as in trec_eval 10.
CREATE OR REPLACE MACRO rankql_interpolated(positions, relevant, recalls, rounding) AS
    list_transform([{'positions': list_sort(positions, 'ASC', 'NULLS LAST'), 'relevant': relevant, 'recalls': recalls,
        'shift': CASE rankql_text(rounding) WHEN 'up' THEN 0.9::DOUBLE WHEN 'nearest' THEN 0.5::DOUBLE
            ELSE rankql_refuse('rounding must be ''up'' or ''nearest'', not ' || rankql_text(rounding)) END}], lambda x_:
        CASE WHEN x_['relevant'] > 0 THEN list_avg(list_transform(x_['recalls'], lambda recall_: coalesce(list_max(
            list_transform(x_['positions'], lambda p, i:
                CASE WHEN i >= floor(recall_ * x_['relevant'] + x_['shift']) THEN i / CAST(p AS DOUBLE) END)), 0))) END)[1];

CREATE OR REPLACE MACRO ap(rel, pos, k := NULL, threshold := 1, denominator := 'min') AS
    rankql_at_most_one(rankql_ap(
        CASE WHEN rankql_in_bits(k) THEN rankql_bit_precisions(rankql_packed_hits(rel, pos, k, threshold), k)
             ELSE rankql_precisions(list_sort(list(rankql_counted_pos(pos, k))
                 FILTER (WHERE rankql_unchecked(rel) >= rankql_option(threshold) AND rankql_counted_pos(pos, k) > 0), 'ASC', 'NULLS LAST'))
                 + 0 * rankql_packed_hits(rel, pos, k, threshold) END,
        count(rankql_counted_pos(pos, k)) FILTER (WHERE rankql_unchecked(rel) >= rankql_option(threshold)),
        rankql_relevant_count(rel, threshold), rankql_retrieved(pos, k), k, denominator));
COMMENT ON MACRO ap IS 'Average precision: the sum of the precision at each hit in the first k, over min(k, R).';

CREATE OR REPLACE MACRO interpolated_precision(rel, pos, recall := NULL, threshold := 1, rounding := 'up') AS
    rankql_one_ranking(rankql_interpolated(
        list(rankql_pos(pos, NULL)) FILTER (WHERE rankql_hit_pos(rel, pos, NULL, threshold) > 0),
        rankql_relevant(rel, threshold), rankql_recalls(recall), rounding), pos, NULL);
COMMENT ON MACRO interpolated_precision IS 'Interpolated precision: the highest precision at any position with at least this recall.';

CREATE OR REPLACE MACRO set_ap(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(precision_at(rel, pos, NULL, threshold) * recall_at(rel, pos, NULL, threshold), k, 'set_ap');
COMMENT ON MACRO set_ap IS 'Set AP: precision times recall over all retrieved items.';


-- Incomplete judgments.

-- An item for rankql_infap. A negative grade is in the sample, but not judged.
CREATE OR REPLACE MACRO rankql_sampled(rel, pos, threshold) AS {
    'pos': CAST(pos AS DOUBLE),
    'hits': coalesce(rankql_hit(rel, threshold), 0::DOUBLE),
    'judged': CASE WHEN rankql_hit(rel, threshold) = 1 OR rankql_grade(rel) >= 0 THEN 1::DOUBLE ELSE 0::DOUBLE END,
    'pool': CASE WHEN rel IS NULL THEN 0::DOUBLE ELSE 1::DOUBLE END,
    'total': 0::DOUBLE};

-- The sum over the hits of the precision that is expected there: of the items above, those in the sample are assumed to be
-- relevant as often as the judged ones, smoothed by 0.00001 as in trec_eval.
CREATE OR REPLACE MACRO rankql_inferred(pool, judged, hits, pos) AS
    (1 + pool * (hits + 0.00001::DOUBLE) / (judged + 0.00002::DOUBLE)) / pos;

CREATE OR REPLACE MACRO rankql_infap(items, relevant) AS
    list_reduce(list_concat([rankql_sampled(NULL::DOUBLE, 0, 1)], items), lambda a_, b_: {
        'pos': b_['pos'],
        'hits': a_['hits'] + b_['hits'],
        'judged': a_['judged'] + b_['judged'],
        'pool': a_['pool'] + b_['pool'],
        'total': a_['total'] + b_['hits'] * rankql_inferred(a_['pool'], a_['judged'], a_['hits'], b_['pos'])}).total
    / CASE WHEN relevant > 0 THEN relevant END;

-- The value of a relevant item in bpref with n judged non-relevant items above it.
CREATE OR REPLACE MACRO rankql_preferred(n, relevant, nonrelevant) AS
    1 - least(CAST(n AS DOUBLE), relevant) / greatest(least(relevant, nonrelevant), 1);

-- bpref from the judged items in rank order, 1 or 0. The j-th relevant, at i, has i - j others above it.
CREATE OR REPLACE MACRO rankql_bpref(hits, relevant, nonrelevant) AS
    list_transform([{'nonrelevant': nonrelevant, 'relevant': relevant}], lambda judged_: CASE WHEN judged_['relevant'] > 0 THEN
        coalesce(list_sum(list_transform(
            rankql_ones(hits), lambda i, j: rankql_preferred(i - j, judged_['relevant'], judged_['nonrelevant']))), 0)
        / judged_['relevant'] END)[1];

CREATE OR REPLACE MACRO rankql_nonrelevant(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_hit(rel, threshold) = 0) AS DOUBLE);

CREATE OR REPLACE MACRO infap(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_infap(
        list_sort(list(rankql_sampled(rel, rankql_pos(pos, NULL), threshold)) FILTER (WHERE rankql_pos(pos, NULL) > 0),
                  'ASC', 'NULLS LAST'), rankql_relevant(rel, threshold)), pos, NULL), k, 'infap');
COMMENT ON MACRO infap IS 'Inferred AP: average precision, estimated if only a sample of the pool is judged.';

CREATE OR REPLACE MACRO bpref(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_bpref(
        list_transform(list_sort(list({'pos': rankql_pos(pos, NULL), 'hit': rankql_hit(rel, threshold)})
                           FILTER (WHERE rankql_pos(pos, NULL) + rankql_hit(rel, threshold) IS NOT NULL),
                       'ASC', 'NULLS LAST'), lambda x_: x_['hit']),
        rankql_relevant(rel, threshold), rankql_nonrelevant(rel, threshold)), pos, NULL), k, 'bpref');
COMMENT ON MACRO bpref IS 'Binary preference: how few judged non-relevant items are above the relevant ones.';


-- Counts, and items that should not be shown.

-- 1 if something is shown, else 0, for a judged ranking of which nothing is relevant.
CREATE OR REPLACE MACRO rankql_false_answer(shown, relevant, judged) AS
    CASE WHEN shown IS NOT NULL AND relevant = 0 AND judged > 0 THEN CAST(shown > 0 AS DOUBLE) END;

-- 1 if nothing is shown, else 0, for a ranking of which something is relevant.
CREATE OR REPLACE MACRO rankql_false_abstention(shown, relevant) AS
    CASE WHEN shown IS NOT NULL AND relevant > 0 THEN CAST(shown = 0 AS DOUBLE) END;

-- Success, where the relevant items are those with a grade below 0.
CREATE OR REPLACE MACRO rankql_forbidden(rel) AS CAST(rankql_grade(rel) < 0 AS TINYINT);

CREATE OR REPLACE MACRO judged_at(rel, pos, k := NULL) AS
    rankql_one_ranking(rankql_precision(
        count(rankql_checked(rankql_pos(pos, k), rankql_grade(rel))), NULL, rankql_retrieved(pos, k), k, 'k'), pos, k);
COMMENT ON MACRO judged_at IS 'Judged share: the judged items in the first k positions, divided by k.';

CREATE OR REPLACE MACRO num_ret(rel, pos) AS
    rankql_one_ranking(CAST(count(rankql_checked(rankql_pos(pos, NULL), coalesce(rankql_grade(rel), 0))) AS DOUBLE), pos, NULL);
COMMENT ON MACRO num_ret IS 'The number of retrieved items.';

CREATE OR REPLACE MACRO num_rel(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_relevant(rel, threshold), pos, NULL), k, 'num_rel');
COMMENT ON MACRO num_rel IS 'The number of relevant items, retrieved or not.';

CREATE OR REPLACE MACRO num_rel_ret(rel, pos, k := NULL, threshold := 1) AS
    rankql_one_ranking(CAST(count(rankql_hit_pos(rel, pos, k, threshold)) AS DOUBLE), pos, k);
COMMENT ON MACRO num_rel_ret IS 'The number of relevant items in the first k positions.';

CREATE OR REPLACE MACRO false_answer(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_false_answer(
        count(rankql_pos(pos, NULL)), rankql_relevant(rel, threshold), count(rel)), pos, NULL), k, 'false_answer');
COMMENT ON MACRO false_answer IS 'False answer: 1 if something is shown although nothing is relevant, else 0.';

CREATE OR REPLACE MACRO false_abstention(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_false_abstention(
        count(rankql_pos(pos, NULL)), rankql_relevant(rel, threshold)), pos, NULL), k, 'false_abstention');
COMMENT ON MACRO false_abstention IS 'False abstention: 1 if nothing is shown although something is relevant, else 0.';

CREATE OR REPLACE MACRO forbidden_at(rel, pos, k := NULL) AS hit_at(rankql_forbidden(rel), pos, k);
COMMENT ON MACRO forbidden_at IS 'Forbidden: 1 if an item with a grade below 0 is in the first k positions, else 0.';


-- All rankings together.

CREATE OR REPLACE MACRO rankql_rankings(query) AS count(DISTINCT query) + CAST(count(*) > count(query) AS BIGINT);

-- The number of positions in all rankings: k for each.
CREATE OR REPLACE MACRO rankql_slots(pos, k, query) AS
    CASE WHEN k IS NULL THEN CAST(count(pos) AS DOUBLE)
         WHEN typeof(any_value(query)) = '"NULL"' AND count(*) > 0
         THEN rankql_refuse('query must be given with k: the column that distinguishes the rankings')
         WHEN count(rankql_pos(pos, k)) > rankql_cutoff(k) * rankql_rankings(query)
         THEN rankql_refuse('query must identify one ranking, but has too few values for so many items: '
                    || rankql_rankings(query))
         ELSE rankql_cutoff(k) * rankql_rankings(query)
    END;

-- The sum over all rankings of min(k, R), without k of min(retrieved, R).
CREATE OR REPLACE MACRO rankql_hits_wanted(rel, pos, k, threshold, query) AS
    CASE WHEN rankql_slots(pos, k, query) >= 0
         THEN coalesce(list_sum(list_transform(
                map_entries(histogram(rankql_key(query)) FILTER (WHERE rankql_hit(rel, threshold) = 1)),
                lambda relevant: least(CAST(relevant.value AS DOUBLE), rankql_size(k, coalesce(map_extract_value(
                    histogram(rankql_key(query)) FILTER (WHERE pos IS NOT NULL), relevant.key), 0))))), 0)
    END;

-- The sum over all rankings of the denominator of precision.
CREATE OR REPLACE MACRO rankql_denominators(rel, pos, k, threshold, query, denominator) AS CASE rankql_text(denominator)
    WHEN 'k' THEN rankql_slots(pos, k, query)
    WHEN 'retrieved' THEN CAST(count(rankql_pos(pos, k)) AS DOUBLE)
    WHEN 'min' THEN rankql_hits_wanted(rel, pos, k, threshold, query)
    ELSE rankql_refuse('denominator must be ''k'', ''retrieved'' or ''min'', not ' || rankql_text(denominator)) END;

-- 0. A column there is that of the queries, whose place is after the threshold. In a struct, a column has the alias of its field.
CREATE OR REPLACE MACRO rankql_one_threshold(threshold) AS coalesce(max(CASE WHEN alias({'a': threshold}) = 'struct_pack(a)'
    THEN rankql_refuse('threshold must be one number, not a column. Name the argument: query := or threshold :=') END), 0);

CREATE OR REPLACE MACRO micro_precision_at(
    rel, pos, k := NULL, threshold := 1, query := NULL, denominator := 'k'
) AS
    coalesce(count(rankql_hit_pos(rel, pos, k, threshold))
             / greatest(rankql_denominators(rel, pos, k, threshold, query, denominator), 1), 0) + rankql_one_threshold(threshold);
COMMENT ON MACRO micro_precision_at IS 'Micro precision: the hits of all rankings, divided by k times the number of rankings.';

-- `query` changes nothing: it may stand here as in micro_precision_at.
CREATE OR REPLACE MACRO micro_recall_at(rel, pos, k := NULL, threshold := 1, query := NULL) AS
    rankql_recall(rel, pos, k, threshold) + rankql_one_k(k) + rankql_one_threshold(threshold);
COMMENT ON MACRO micro_recall_at IS 'Micro recall: the share of the relevant items of all rankings in their first k positions.';

CREATE OR REPLACE MACRO micro_f1_at(rel, pos, k := NULL, threshold := 1, query := NULL, denominator := 'k') AS
    CASE WHEN rankql_relevant(rel, threshold) > 0 THEN
        2 * count(rankql_hit_pos(rel, pos, k, threshold))
        / (rankql_denominators(rel, pos, k, threshold, query, denominator) + rankql_relevant(rel, threshold)) END
    + rankql_one_threshold(threshold);
COMMENT ON MACRO micro_f1_at IS 'Micro F1: the harmonic mean of micro precision and micro recall.';


-- What is counted in a list, from rankql_arguments: the hits, R, and the items within k.
CREATE OR REPLACE MACRO rankql_list_counts(arguments, threshold) AS list_transform(arguments, lambda x_: {
    'hits': rankql_list_relevant(x_['rels'][:x_['end']], threshold),
    'relevant': rankql_list_relevant(rankql_judged(x_), threshold),
    'retrieved': len(x_['rels'][:x_['end']])});

-- The same with the positions of the hits.
CREATE OR REPLACE MACRO rankql_list_places(arguments, threshold) AS list_transform(arguments, lambda x_: {
    'hits': rankql_hit_positions(x_['rels'][:x_['end']], threshold),
    'relevant': rankql_list_relevant(rankql_judged(x_), threshold),
    'retrieved': len(x_['rels'][:x_['end']])});

CREATE OR REPLACE MACRO rankql_list_ap(arguments, k, threshold, denominator) AS
    list_transform(rankql_list_places(arguments, threshold), lambda x_: CASE WHEN x_['retrieved'] IS NOT NULL THEN rankql_ap(
        rankql_precisions(x_['hits']), len(x_['hits']), x_['relevant'], x_['retrieved'], k, denominator) END)[1];

CREATE OR REPLACE MACRO rankql_list_interpolated(arguments, recall, threshold, rounding) AS
    list_transform(rankql_list_places(arguments, threshold), lambda x_:
        rankql_interpolated(x_['hits'], x_['relevant'], rankql_recalls(recall), rounding))[1];

CREATE OR REPLACE MACRO rankql_list_infap(arguments, threshold) AS
    list_transform(arguments, lambda x_: rankql_infap(
        list_transform(x_['rels'], lambda grade, i: rankql_sampled(grade, i, threshold)),
        rankql_list_relevant(rankql_judged(x_), threshold)))[1];

CREATE OR REPLACE MACRO rankql_list_bpref(arguments, threshold) AS
    list_transform(list_transform(arguments, lambda x_: {
        'hits': list_filter(rankql_hits(x_['rels'], threshold), lambda hit: hit IS NOT NULL),
        'relevant': rankql_list_relevant(rankql_judged(x_), threshold), 'judged': list_count(rankql_judged(x_))}), lambda x_:
            rankql_bpref(x_['hits'], x_['relevant'], x_['judged'] - x_['relevant']))[1];

-- The number of grades below 0.
CREATE OR REPLACE MACRO rankql_list_forbidden(grades) AS len(list_filter(grades, lambda grade: grade < 0));

CREATE OR REPLACE MACRO list_precision_at(rels, k := NULL, threshold := 1, denominator := 'k', ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_: CASE WHEN x_['hits'] IS NOT NULL THEN
        rankql_precision(x_['hits'], x_['relevant'], x_['retrieved'], k, denominator) END)[1];
COMMENT ON MACRO list_precision_at IS 'precision_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_recall_at(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        x_['hits'] / nullif(x_['relevant'], 0))[1];
COMMENT ON MACRO list_recall_at IS 'recall_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_f1_at(rels, k := NULL, threshold := 1, denominator := 'k', ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        rankql_f1(x_['hits'], x_['relevant'], x_['retrieved'], k, denominator))[1];
COMMENT ON MACRO list_f1_at IS 'f1_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_hit_at(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        CASE WHEN x_['relevant'] > 0 THEN CAST(x_['hits'] > 0 AS DOUBLE) END)[1];
COMMENT ON MACRO list_hit_at IS 'hit_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_all_rel_at(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        CASE WHEN x_['relevant'] > 0 THEN CAST(x_['hits'] = x_['relevant'] AS DOUBLE) END)[1];
COMMENT ON MACRO list_all_rel_at IS 'all_rel_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_r_precision(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_: {
        'rels': x_['rels'], 'relevant': rankql_list_relevant(rankql_judged(x_), threshold)}), lambda x_:
            rankql_list_relevant(x_['rels'][:CAST(x_['relevant'] AS BIGINT)], threshold)
            / CASE WHEN x_['relevant'] > 0 THEN x_['relevant'] END)[1], k, 'list_r_precision');
COMMENT ON MACRO list_r_precision IS 'r_precision over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_ap(rels, k := NULL, threshold := 1, denominator := 'min', ideal := NULL) AS
    rankql_list_ap(rankql_arguments(rels, ideal, k), k, threshold, denominator);
COMMENT ON MACRO list_ap IS 'ap over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_interpolated_precision(rels, recall := NULL, threshold := 1, rounding := 'up', ideal := NULL) AS
    rankql_list_interpolated(rankql_arguments(rels, ideal, NULL), recall, threshold, rounding);
COMMENT ON MACRO list_interpolated_precision IS 'interpolated_precision over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_set_ap(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_list_counts(rankql_arguments(rels, ideal, NULL), threshold), lambda x_:
        rankql_precision(x_['hits'], NULL, x_['retrieved'], NULL, 'k') * (x_['hits'] / nullif(x_['relevant'], 0)))[1], k, 'list_set_ap');
COMMENT ON MACRO list_set_ap IS 'set_ap over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_infap(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(rankql_list_infap(rankql_arguments(rels, ideal, NULL), threshold), k, 'list_infap');
COMMENT ON MACRO list_infap IS 'infap over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_bpref(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(rankql_list_bpref(rankql_arguments(rels, ideal, NULL, every := true), threshold), k, 'list_bpref');
COMMENT ON MACRO list_bpref IS 'bpref over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_judged_at(rels, k := NULL) AS
    list_transform([{'rels': rankql_grades(rels), 'end': rankql_end(k), 'size': rankql_size(k, NULL)}], lambda x_:
        list_count(x_['rels'][:x_['end']])
        / CASE WHEN x_['rels'] IS NOT NULL THEN greatest(coalesce(x_['size'], CAST(len(x_['rels']) AS DOUBLE)), 1) END)[1];
COMMENT ON MACRO list_judged_at IS 'judged_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_num_ret(rels) AS
    CAST(len(rankql_grades(rels)) AS DOUBLE);
COMMENT ON MACRO list_num_ret IS 'num_ret over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_num_rel(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_:
        rankql_list_relevant(rankql_judged(x_), threshold))[1], k, 'list_num_rel');
COMMENT ON MACRO list_num_rel IS 'num_rel over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_num_rel_ret(rels, k := NULL, threshold := 1) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, NULL, k), threshold), lambda x_: x_['hits'])[1];
COMMENT ON MACRO list_num_rel_ret IS 'num_rel_ret over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_false_answer(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_: rankql_false_answer(
        len(x_['rels']), rankql_list_relevant(rankql_judged(x_), threshold), list_count(rankql_judged(x_))))[1], k, 'list_false_answer');
COMMENT ON MACRO list_false_answer IS 'false_answer over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_false_abstention(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_: rankql_false_abstention(
        len(x_['rels']), rankql_list_relevant(rankql_judged(x_), threshold)))[1], k, 'list_false_abstention');
COMMENT ON MACRO list_false_abstention IS 'false_abstention over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_forbidden_at(rels, k := NULL, ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_:
        CAST(rankql_list_forbidden(x_['rels'][:x_['end']]) > 0 AS DOUBLE)
        / CASE WHEN rankql_list_forbidden(rankql_judged(x_)) > 0 THEN 1 END)[1];
COMMENT ON MACRO list_forbidden_at IS 'forbidden_at over a list of grades in rank order.';


-- Hits in the top k by score; the expected number with ties 'expected'.
CREATE OR REPLACE MACRO rankql_hits_by_score(rel, score, item, k, threshold, ties) AS
    rankql_sum(rankql_top(rankql_by_score(rankql_hit(rel, threshold), score, item, ties), k));

CREATE OR REPLACE MACRO rankql_retrieved_by_score(score, k) AS
    least(rankql_cutoff(k), CAST(count(rankql_score(score)) AS DOUBLE));

-- The chance that all r hits of each tied group of m are among its s places within k: the product of (s - i) / (m - i).
CREATE OR REPLACE MACRO rankql_expected_all(hit, score, k) AS
    list_reduce(list_concat([1.0::DOUBLE], flatten(list_transform(rankql_tied_hits(hit, score), lambda tied_:
        list_transform(range(0, CAST(tied_['r'] AS BIGINT)), lambda i:
            greatest(least(rankql_cutoff(k) - tied_['lo'] + 1, tied_['m']) - i, 0) / (tied_['m'] - i))))), lambda a, b: a * b);

-- The positions of a tied group within the cutoff.
CREATE OR REPLACE MACRO rankql_positions(tied, k) AS
    range(tied['lo'], CAST(least(CAST(tied['lo'] + tied['m'] - 1 AS DOUBLE), rankql_cutoff(k)) AS BIGINT) + 1);

-- The expected sum of precisions over all orders of tied items. The t-th place of a group of m items at lo, r of them hits
-- and `above` hits before it, adds r/m * (above + 1 + (t - 1) * (r - 1) / (m - 1)) / position.
CREATE OR REPLACE MACRO rankql_expected_precisions(hit, score, k) AS
    list_reduce(
        list_concat([{'hits': 0::DOUBLE, 'one': 0::DOUBLE, 'more': 0::DOUBLE, 'total': 0::DOUBLE}], list_transform(
            list_filter(rankql_tied_hits(hit, score), lambda tied_: tied_['r'] > 0),
            lambda tied_: {
                'hits': tied_['r'],
                'one': tied_['r'] / tied_['m'] * rankql_sum(list_transform(
                    rankql_positions(tied_, k), lambda i: 1 / CAST(i AS DOUBLE))),
                'more': tied_['r'] / tied_['m'] * (tied_['r'] - 1) / greatest(tied_['m'] - 1, 1) * rankql_sum(list_transform(
                    rankql_positions(tied_, k), lambda i: (i - tied_['lo']) / CAST(i AS DOUBLE))),
                'total': 0::DOUBLE})),
        lambda a_, b_: {'hits': a_['hits'] + b_['hits'], 'one': 0::DOUBLE, 'more': 0::DOUBLE,
                      'total': a_['total'] + (a_['hits'] + 1) * b_['one'] + b_['more']}).total;

-- The expected bpref over all orders of tied items: 0 to n of the n non-relevant items of its group are above a relevant
-- item, with equal probability.
CREATE OR REPLACE MACRO rankql_expected_bpref(hit, score, relevant, nonrelevant) AS
    CASE WHEN relevant > 0 THEN list_reduce(
        list_concat([{'nonrelevant': 0::DOUBLE, 'relevant': 0::DOUBLE, 'bpref': 0::DOUBLE}], list_transform(
            rankql_tied_hits(hit, score),
            lambda tied_: {'nonrelevant': CAST(tied_['n'] AS DOUBLE), 'relevant': CAST(tied_['r'] AS DOUBLE), 'bpref': 0::DOUBLE})),
        lambda a_, b_: {
            'nonrelevant': a_['nonrelevant'] + b_['nonrelevant'],
            'relevant': 0::DOUBLE,
            'bpref': a_['bpref'] + CASE WHEN b_['relevant'] > 0 THEN b_['relevant'] * list_avg(list_transform(
                range(0, CAST(b_['nonrelevant'] AS BIGINT) + 1),
                lambda u: rankql_preferred(a_['nonrelevant'] + u, relevant, nonrelevant))) ELSE 0 END
        }).bpref / relevant END;

CREATE OR REPLACE MACRO precision_at_by_score(
    rel, score, item, k := NULL, threshold := 1, denominator := 'k', ties := 'item'
) AS
    rankql_precision(rankql_hits_by_score(rel, score, item, k, threshold, ties), rankql_relevant(rel, threshold),
                     rankql_retrieved_by_score(score, k), k, denominator);
COMMENT ON MACRO precision_at_by_score IS 'precision_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO recall_at_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_hits_by_score(rel, score, item, k, threshold, ties) / nullif(rankql_relevant(rel, threshold), 0);
COMMENT ON MACRO recall_at_by_score IS 'recall_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO f1_at_by_score(
    rel, score, item, k := NULL, threshold := 1, denominator := 'k', ties := 'item'
) AS
    rankql_f1(rankql_hits_by_score(rel, score, item, k, threshold, ties),
              rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)),
              rankql_retrieved_by_score(score, k), k, denominator);
COMMENT ON MACRO f1_at_by_score IS 'f1_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO hit_at_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)) > 0 THEN CASE WHEN rankql_expected(ties)
        THEN rankql_walk(list_transform(rankql_top(rankql_first_hit(rankql_hit(rel, threshold), score), k),
                                        lambda stop, i: rankql_step(i, stop, 1)))
        ELSE CAST(rankql_hits_by_score(rel, score, item, k, threshold, ties) > 0 AS DOUBLE) END END;
COMMENT ON MACRO hit_at_by_score IS 'hit_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO all_rel_at_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_expected(ties)
         THEN floor(rankql_recall(rel, CASE WHEN score IS NOT NULL THEN 1 END, NULL, threshold))
              * rankql_expected_all(rankql_hit(rel, threshold), score, k)
         ELSE floor(recall_at_by_score(rel, score, item, k, threshold, ties)) END;
COMMENT ON MACRO all_rel_at_by_score IS 'all_rel_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO r_precision_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(recall_at_by_score(
        rel, score, item, nullif(rankql_relevant(rel, threshold), 0), threshold, ties), k, 'r_precision_by_score');
COMMENT ON MACRO r_precision_by_score IS 'r_precision with a score and an item instead of the position.';

CREATE OR REPLACE MACRO ap_by_score(
    rel, score, item, k := NULL, threshold := 1, denominator := 'min', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties) AND rankql_text(denominator) = 'found'
         THEN rankql_fail('ties ''expected'' is not available for ap with denominator ''found''. Use ''item''')
         WHEN rankql_expected(ties)
         THEN rankql_ap(rankql_expected_precisions(rankql_hit(rel, threshold), score, k), NULL,
                        rankql_relevant(rel, threshold), rankql_retrieved_by_score(score, k), k, denominator)
         ELSE rankql_list_ap(rankql_arguments_by_score(rel, score, item, k), k, threshold, denominator)
    END;
COMMENT ON MACRO ap_by_score IS 'ap with a score and an item instead of the position.';

CREATE OR REPLACE MACRO interpolated_precision_by_score(
    rel, score, item, recall := NULL, threshold := 1, rounding := 'up', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties)
         THEN rankql_fail('ties ''expected'' is not available for interpolated_precision. Use ''item''')
         ELSE rankql_list_interpolated(rankql_arguments_by_score(rel, score, item, NULL), recall, threshold, rounding) END;
COMMENT ON MACRO interpolated_precision_by_score IS 'interpolated_precision with a score and an item instead of the position.';

CREATE OR REPLACE MACRO set_ap_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(precision_at_by_score(rel, score, item, NULL, threshold, 'k', ties)
    * recall_at_by_score(rel, score, item, NULL, threshold, ties), k, 'set_ap_by_score');
COMMENT ON MACRO set_ap_by_score IS 'set_ap with a score and an item instead of the position.';

CREATE OR REPLACE MACRO infap_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(CASE WHEN rankql_expected(ties) THEN rankql_fail('ties ''expected'' is not available for infap. Use ''item''')
         ELSE rankql_list_infap(rankql_arguments_by_score(rel, score, item, NULL), threshold) END, k, 'infap_by_score');
COMMENT ON MACRO infap_by_score IS 'infap with a score and an item instead of the position.';

CREATE OR REPLACE MACRO bpref_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(CASE WHEN rankql_expected(ties)
         THEN rankql_expected_bpref(rankql_hit(rel, threshold), score,
                                    rankql_relevant(rel, threshold), rankql_nonrelevant(rel, threshold))
         ELSE rankql_list_bpref(rankql_arguments_by_score(rel, score, item, NULL), threshold)
    END, k, 'bpref_by_score');
COMMENT ON MACRO bpref_by_score IS 'bpref with a score and an item instead of the position.';

CREATE OR REPLACE MACRO judged_at_by_score(rel, score, item, k := NULL, ties := 'item') AS
    rankql_precision(rankql_sum(rankql_top(rankql_by_score(
        CAST(rankql_grade(rel) IS NOT NULL AS DOUBLE), score, item, ties), k)), NULL, count(score), k, 'k');
COMMENT ON MACRO judged_at_by_score IS 'judged_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO num_ret_by_score(rel, score, item, ties := 'item') AS rankql_sum(rankql_by_score(
    rankql_checked(1::DOUBLE, coalesce(rankql_grade(rel), 0)), score, item, ties));
COMMENT ON MACRO num_ret_by_score IS 'num_ret with a score and an item instead of the position.';

CREATE OR REPLACE MACRO num_rel_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(rankql_checked(rankql_relevant(rel, threshold), num_ret_by_score(rel, score, item, ties)), k, 'num_rel_by_score');
COMMENT ON MACRO num_rel_by_score IS 'num_rel with a score and an item instead of the position.';

CREATE OR REPLACE MACRO num_rel_ret_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_hits_by_score(rel, score, item, k, threshold, ties);
COMMENT ON MACRO num_rel_ret_by_score IS 'num_rel_ret with a score and an item instead of the position.';

CREATE OR REPLACE MACRO false_answer_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(rankql_false_answer(
        num_ret_by_score(rel, score, item, ties), rankql_relevant(rel, threshold), count(rel)), k, 'false_answer_by_score');
COMMENT ON MACRO false_answer_by_score IS 'false_answer with a score and an item instead of the position.';

CREATE OR REPLACE MACRO false_abstention_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(rankql_false_abstention(
        num_ret_by_score(rel, score, item, ties), rankql_relevant(rel, threshold)), k, 'false_abstention_by_score');
COMMENT ON MACRO false_abstention_by_score IS 'false_abstention with a score and an item instead of the position.';

CREATE OR REPLACE MACRO forbidden_at_by_score(rel, score, item, k := NULL, ties := 'item') AS
    hit_at_by_score(rankql_forbidden(rel), score, item, k, 1, ties);
COMMENT ON MACRO forbidden_at_by_score IS 'forbidden_at with a score and an item instead of the position.';


-- Cascade metrics: a user reads from the top and stops. Load common.sql, then packed.sql first.
--
-- A hit is a row with rel >= threshold and pos <= k.
--
--   rr(rel, pos, k)               1 / the first position of a hit, 0 without hits
--   arhr(rel, pos, k)             the sum over the hits of 1 / pos
--   err(rel, pos, k, max_rel)     the sum over pos <= k of 1 / pos * the chance to stop there: s of this item and no item above,
--                                 where s = (2^rel - 1) / 2^max_rel
--   nerr(rel, pos, k, max_rel)    err / the err of the best order
--   rbp(rel, pos, k, p)           (1 - p) * the sum over the hits of p^(pos - 1)
--   rbp_residual(rel, pos, k, p)  1 - (1 - p) * the sum of p^(pos - 1) over the rows with a grade and pos <= k
--
-- rr and arhr are NULL if nothing is relevant, err and nerr if no grade is above 0. list_rr(rels, k) has the grades in rank order,
-- and rr_by_score(rel, score, item, k) ranks by score.

CREATE OR REPLACE MACRO rr(rel, pos, k := NULL, threshold := 1) AS
    coalesce(1 / rankql_first_pos(rel, pos, k, threshold), 0) / CASE WHEN rankql_relevant_count(rel, threshold) > 0 THEN 1 END;
COMMENT ON MACRO rr IS 'Reciprocal rank: 1 / the position of the first relevant item in the first k positions.';

-- Only say what to write: without them, DuckDB suggests err, recall_at and mean.
CREATE OR REPLACE MACRO mrr(rel, pos, k := NULL, threshold := 1) AS
    rankql_fail('mrr is the mean of rr over the queries: use avg(rr(...)), with rr(rel, pos, k) by query');
CREATE OR REPLACE MACRO mean_reciprocal_rank(rel, pos, k := NULL, threshold := 1) AS
    rankql_fail('mean_reciprocal_rank is the mean of rr over the queries: use avg(rr(...)), with rr(rel, pos, k) by query');
CREATE OR REPLACE MACRO reciprocal_rank(rel, pos, k := NULL, threshold := 1) AS
    rankql_fail('reciprocal_rank is rr here: use rr(rel, pos, k)');

CREATE OR REPLACE MACRO arhr(rel, pos, k := NULL, threshold := 1) AS
    rankql_one_ranking(CASE WHEN rankql_relevant(rel, threshold) > 0 THEN
        coalesce(sum(1 / rankql_hit_pos(rel, pos, k, threshold)), 0) END, pos, k);
COMMENT ON MACRO arhr IS 'Reciprocal hit rank: the sum of 1 / position over the hits in the first k positions.';


-- A user who stops at an item that satisfies.

-- The highest grade of the scale. Not NULL: DuckDB skips the checks in an expression with a constant NULL.
CREATE OR REPLACE MACRO rankql_scale_end(max_rel) AS
    CASE WHEN max_rel IS NULL THEN rankql_refuse('max_rel must be given: the highest grade of the scale')
         WHEN rankql_option(max_rel) > 0 AND isfinite(rankql_option(max_rel)) THEN rankql_option(max_rel)
         ELSE rankql_refuse('max_rel must be a finite number above 0, not ' || rankql_text(max_rel))
    END;

-- The gain of a grade, at most max_rel.
CREATE OR REPLACE MACRO rankql_scaled(rel, max_rel) AS
    CASE WHEN rankql_option(max_rel) > 0 AND isfinite(rankql_option(max_rel)) THEN CASE
         WHEN rankql_grade(rel) > rankql_option(max_rel)
         THEN rankql_refuse('rel must not exceed max_rel: ' || rankql_text(rel) || ' is above ' || rankql_text(max_rel))
         ELSE rankql_gain(rel) END
         ELSE rankql_scale_end(max_rel)
    END;

-- The input of rankql_stop: a grade on a scale, or the probability itself.
CREATE OR REPLACE MACRO rankql_stop_gain(rel, max_rel, stop) AS
    CASE WHEN rankql_text(stop) = 'exp2' THEN rankql_scaled(rel, max_rel)
         WHEN rankql_text(stop) <> 'rel' THEN rankql_refuse('stop must be ''exp2'' or ''rel'', not ' || rankql_text(stop))
         WHEN max_rel IS NOT NULL THEN rankql_refuse('max_rel is for stop ''exp2'', not for ''rel''')
         WHEN rankql_grade(rel) NOT BETWEEN 0 AND 1
         THEN rankql_refuse('rel must lie between 0 and 1 for stop ''rel'', not ' || rankql_text(rel))
         ELSE rankql_unchecked(rel)
    END;

-- The probability that a gain satisfies the user: (2^gain - 1) / 2^max_rel, without overflow.
CREATE OR REPLACE MACRO rankql_satisfied(gain, max_rel, stop) AS
    CASE WHEN rankql_text(stop) = 'rel' THEN gain
         ELSE pow(2.0::DOUBLE, gain - rankql_option(max_rel)) - pow(2.0::DOUBLE, -rankql_option(max_rel)) END;

CREATE OR REPLACE MACRO rankql_stop(rel, max_rel, stop) AS
    rankql_satisfied(rankql_stop_gain(rel, max_rel, stop), max_rel, stop);

-- The utility of a position to a user who reads on with probability p.
CREATE OR REPLACE MACRO rankql_utility(pos, p) AS
    CASE WHEN rankql_option(p) = 1 THEN 1 / pos
         WHEN p IS NULL THEN rankql_refuse('p must lie between 0 and 1, not NULL')
         ELSE pow(rankql_patience(p), pos - 1) / pos END;

-- The err of grades in order, all positive.
CREATE OR REPLACE MACRO rankql_err(grades, max_rel, p, stop) AS
    rankql_walk(list_transform(grades, lambda grade, i:
        rankql_step(i, rankql_satisfied(grade, max_rel, stop), rankql_utility(CAST(i AS DOUBLE), p))));

CREATE OR REPLACE MACRO err(rel, pos, k := NULL, max_rel := NULL, p := 1, stop := 'exp2') AS
    rankql_one_ranking(CASE WHEN max(rankql_stop_gain(rel, max_rel, stop)) > 0 THEN
        rankql_walk(list_sort(
            list(rankql_step(rankql_unchecked(pos), rankql_satisfied(rankql_unchecked(rel), max_rel, stop),
                             rankql_utility(rankql_unchecked(pos), p)))
                FILTER (WHERE rankql_pos(pos, k) > 0 AND rankql_unchecked(rel) > 0),
            'ASC', 'NULLS LAST')) END, pos, k);
COMMENT ON MACRO err IS 'Expected reciprocal rank of the item where a user stops.';

CREATE OR REPLACE MACRO nerr(rel, pos, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := 'judged') AS
    rankql_at_most_one(err(rel, pos, k, max_rel, p, stop)
        / list_transform([rankql_err(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), max_rel, p, stop)],
                         lambda best: nullif(best, 0))[1]);
COMMENT ON MACRO nerr IS 'Normalised ERR: err, divided by that of the best order.';


-- A user who reads on with probability p.

-- The value of an item in rbp: 1 for a hit, or rel / max_rel.
CREATE OR REPLACE MACRO rankql_worth(rel, threshold, max_rel) AS
    CASE WHEN max_rel IS NULL THEN rankql_hit(rel, threshold)
         ELSE rankql_scaled(rel, max_rel) / rankql_scale_end(max_rel) END;

-- The probability that a user looks at a position.
CREATE OR REPLACE MACRO rankql_look(pos, p) AS pow(rankql_patience(p), pos - 1);

CREATE OR REPLACE MACRO rbp(rel, pos, k := NULL, p := NULL, threshold := 1, max_rel := NULL) AS
    rankql_one_ranking(rankql_at_most_one((1 - rankql_patience(p))
        * coalesce(sum(rankql_worth(rel, threshold, max_rel) * rankql_look(rankql_pos(pos, k), p)), 0)), pos, k);
COMMENT ON MACRO rbp IS 'Rank-biased precision: the hits, weighted by the probability that a user sees them.';

CREATE OR REPLACE MACRO rbp_residual(rel, pos, k := NULL, p := NULL) AS
    rankql_one_ranking(1 - rankql_at_most_one((1 - rankql_patience(p))
        * coalesce(sum(rankql_look(rankql_checked(rankql_pos(pos, k), rankql_grade(rel)), p)), 0)), pos, k);
COMMENT ON MACRO rbp_residual IS 'Residual of RBP: how much it would rise if every unjudged item were relevant.';


CREATE OR REPLACE MACRO rankql_list_rr(arguments, threshold) AS
    list_transform(arguments, lambda x_:
        coalesce(1 / CAST(rankql_hit_positions(x_['rels'][:x_['end']], threshold)[1] AS DOUBLE), 0)
        / CASE WHEN rankql_list_relevant(rankql_judged(x_), threshold) > 0 THEN 1 END)[1];

-- err of a list, from rankql_arguments. All grades of the list are in `ideal`, which is checked.
CREATE OR REPLACE MACRO rankql_list_err(x_, max_rel, p, stop) AS
    rankql_walk(list_transform(x_['rels'][:x_['end']], lambda grade, i:
        rankql_step(i, coalesce(rankql_satisfied(rankql_gain(grade), max_rel, stop), 0), rankql_utility(CAST(i AS DOUBLE), p))))
    / CASE WHEN rankql_checked(list_max(list_transform(rankql_judged(x_), lambda grade: rankql_stop_gain(grade, max_rel, stop))),
                               rankql_utility(1, p)) > 0 THEN 1 END;

CREATE OR REPLACE MACRO list_rr(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_list_rr(rankql_arguments(rels, ideal, k), threshold);
COMMENT ON MACRO list_rr IS 'rr over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_arhr(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_:
        coalesce(list_sum(list_transform(rankql_hit_positions(x_['rels'][:x_['end']], threshold), lambda i: 1 / CAST(i AS DOUBLE))), 0)
        / CASE WHEN rankql_list_relevant(rankql_judged(x_), threshold) > 0 THEN 1 END)[1];
COMMENT ON MACRO list_arhr IS 'arhr over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_err(rels, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_: rankql_list_err(x_, max_rel, p, stop))[1];
COMMENT ON MACRO list_err IS 'err over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_nerr(rels, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := NULL) AS
    rankql_at_most_one(list_transform(list_transform(rankql_arguments(rels, ideal, k), lambda x_: {
        'err': rankql_list_err(x_, max_rel, p, stop),
        'best': rankql_err(rankql_list_best(x_), max_rel, p, stop)}), lambda x_:
            x_['err'] / nullif(x_['best'], 0))[1]);
COMMENT ON MACRO list_nerr IS 'nerr over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_rbp(rels, k := NULL, p := NULL, threshold := 1, max_rel := NULL) AS
    rankql_at_most_one((1 - rankql_patience(p)) * list_transform([{'rels': rankql_grades(rels), 'end': rankql_end(k)}], lambda x_:
        coalesce(list_sum(list_transform(x_['rels'], lambda grade, i:
            rankql_worth(grade, threshold, max_rel) * rankql_look(i, p))[:x_['end']]), 0 * len(x_['rels'])))[1]);
COMMENT ON MACRO list_rbp IS 'rbp over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_rbp_residual(rels, k := NULL, p := NULL) AS
    1 - rankql_at_most_one((1 - rankql_patience(p)) * list_transform([{'rels': rankql_grades(rels), 'end': rankql_end(k)}], lambda x_:
        coalesce(list_sum(list_transform(x_['rels'][:x_['end']], lambda grade, i:
            rankql_look(rankql_checked(i, grade), p))), 0 * len(x_['rels'])))[1]);
COMMENT ON MACRO list_rbp_residual IS 'rbp_residual over a list of grades in rank order.';


CREATE OR REPLACE MACRO rr_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)) > 0 THEN CASE WHEN rankql_expected(ties)
        THEN rankql_walk(list_transform(rankql_top(rankql_first_hit(rankql_hit(rel, threshold), score), k),
                                        lambda stop, i: rankql_step(i, stop, 1 / CAST(i AS DOUBLE))))
        ELSE rankql_list_rr(rankql_arguments_by_score(rel, score, item, k), threshold) END END;
COMMENT ON MACRO rr_by_score IS 'rr with a score and an item instead of the position.';

CREATE OR REPLACE MACRO arhr_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)) > 0 THEN
        rankql_sum(list_transform(rankql_top(rankql_by_score(rankql_hit(rel, threshold), score, item, ties), k),
                                  lambda hit, i: hit / i)) END;
COMMENT ON MACRO arhr_by_score IS 'arhr with a score and an item instead of the position.';

CREATE OR REPLACE MACRO err_by_score(
    rel, score, item, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties) THEN rankql_fail('ties ''expected'' is not available for err. Use ''item''')
         ELSE list_transform(rankql_arguments_by_score(rel, score, item, k),
                             lambda x_: rankql_list_err(x_, max_rel, p, stop))[1] END;
COMMENT ON MACRO err_by_score IS 'err with a score and an item instead of the position.';

CREATE OR REPLACE MACRO nerr_by_score(
    rel, score, item, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := 'judged', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties) THEN rankql_fail('ties ''expected'' is not available for nerr. Use ''item''')
         ELSE rankql_at_most_one(err_by_score(rel, score, item, k, max_rel, p, stop)
            / nullif(rankql_err(rankql_best_ideal(rel, score IS NOT NULL, ideal, k), max_rel, p, stop), 0)) END;
COMMENT ON MACRO nerr_by_score IS 'nerr with a score and an item instead of the position.';

CREATE OR REPLACE MACRO rbp_by_score(
    rel, score, item, k := NULL, p := NULL, threshold := 1, max_rel := NULL, ties := 'item'
) AS
    rankql_at_most_one((1 - rankql_patience(p)) * rankql_sum(list_transform(
        rankql_top(rankql_by_score(rankql_worth(rel, threshold, max_rel), score, item, ties), k),
        lambda worth, i: worth * rankql_look(i, p))));
COMMENT ON MACRO rbp_by_score IS 'rbp with a score and an item instead of the position.';

CREATE OR REPLACE MACRO rbp_residual_by_score(rel, score, item, k := NULL, p := NULL, ties := 'item') AS
    1 - rankql_at_most_one((1 - rankql_patience(p)) * rankql_sum(list_transform(
        rankql_top(rankql_by_score(CAST(rankql_grade(rel) IS NOT NULL AS DOUBLE), score, item, ties), k),
        lambda judged, i: judged * rankql_look(i, p))));
COMMENT ON MACRO rbp_residual_by_score IS 'rbp_residual with a score and an item instead of the position.';


-- Order: whether better items are above worse ones. Load common.sql first.
--
--   kendall_tau_distance(rel, pos, k)  the pairs with the lower grade above the higher
--   kendall_tau_b(rel, pos, k)         (pairs with the higher grade above - pairs with the lower one above)
--                                      / sqrt(pairs of different grades * all pairs)
--   auc(rel, pos)                      of the pairs of a relevant and another judged item, the share with the relevant one above
--   tau_ap(reference, pos, k)          2 / (n - 1) * the sum over pos from 2 to n of (the items above that are also above in the
--                                      reference) / (pos - 1), - 1
--   rbo(reference, pos, k, p)          (1 - p) * the sum over depths d of p^(d - 1) * (the items that both have in their first d) / d,
--                                      beyond the rankings as it is at their ends
--
-- Items without a grade are left out. list_auc(rels) has the grades in rank order, and auc_by_score(rel, score) ranks by score.

-- The grades in rank order, unjudged ones left out.
CREATE OR REPLACE MACRO rankql_ordered(rel, pos, k) AS
    coalesce(list_transform(list_sort(list({'pos': rankql_pos(pos, k), 'grade': rankql_grade(rel)})
        FILTER (WHERE rankql_pos(pos, k) + rankql_grade(rel) IS NOT NULL), 'ASC', 'NULLS LAST'),
        lambda x_: x_['grade']), []);

-- The number of inversions of a permutation, by merge sort: at each level, sorting a block of 2^(b + 1) places moves items of
-- its right half up by one place for each inversion. A key holds the block, the number, and the half.
CREATE OR REPLACE MACRO rankql_permutation_inversions(places) AS
    list_reduce(
        list_concat([0::BIGINT], range(0, CAST(ceil(log2(greatest(len(places), 1))) AS BIGINT))),
        lambda total, b: total + CAST(
            coalesce(list_sum(list_transform(places, lambda place, i: ((i - 1) >> b) % 2 * i)), 0)
            - coalesce(list_sum(list_transform(
                list_sort(list_transform(places, lambda place, i:
                    (((i - 1) >> (b + 1)) * len(places) + place - 1) * 2 + ((i - 1) >> b) % 2), 'ASC', 'NULLS LAST'),
                lambda key, i: key % 2 * i)), 0) AS BIGINT));

-- The number of pairs with the lower grade above, in a list of grades in rank order.
CREATE OR REPLACE MACRO rankql_inversions(grades) AS
    list_transform([list_transform(
        list_sort(list_transform(grades, lambda grade, i: {'below': -grade, 'place': i}), 'ASC', 'NULLS LAST'),
        lambda x_: x_['place'])], lambda places: rankql_permutation_inversions(places))[1];

-- The number of pairs of different grades.
CREATE OR REPLACE MACRO rankql_pairs(grades) AS
    (len(grades) * (len(grades) - 1) - coalesce(list_sum(list_transform(
        map_values(list_aggregate(grades, 'histogram')), lambda n: n * (n - 1))), 0)) / 2;

-- The number of inversions, or its share of the pairs of different grades.
CREATE OR REPLACE MACRO rankql_distance(grades, normalized) AS
    list_transform([grades], lambda ordered: CASE WHEN rankql_flag(normalized, 'normalized')
         THEN rankql_inversions(ordered) / nullif(rankql_pairs(ordered), 0)
         ELSE CAST(rankql_inversions(ordered) AS DOUBLE) END)[1];

-- Concordant minus discordant pairs, divided by the geometric mean of the pairs of different grades and all pairs.
CREATE OR REPLACE MACRO rankql_tau_b(grades) AS
    list_transform([grades], lambda ordered: list_transform([{'items': len(ordered), 'pairs': rankql_pairs(ordered)}], lambda x_:
        CASE WHEN x_['pairs'] > 0 THEN (x_['pairs'] - 2 * rankql_inversions(ordered))
             / sqrt(x_['pairs'] * (x_['items'] * (x_['items'] - 1) / 2)) END)[1])[1];

-- The share of pairs of a relevant and another judged item with the relevant one above, from the hits, 1 or 0, in rank order.
-- The j-th relevant item, at i, has i - j others above it.
CREATE OR REPLACE MACRO rankql_auc(hits) AS
    list_transform(list_transform([hits], lambda hits: {'hits': hits, 'relevant': list_sum(hits)}), lambda x_:
        1 - (list_sum(rankql_ones(x_['hits'])) - x_['relevant'] * (x_['relevant'] + 1) / 2)
            / nullif(x_['relevant'] * (len(x_['hits']) - x_['relevant']), 0))[1];

CREATE OR REPLACE MACRO kendall_tau_distance(rel, pos, k := NULL, normalized := false) AS
    rankql_one_ranking(list_avg(list_transform([rankql_ordered(rel, pos, k)], lambda x: rankql_distance(x, normalized))),
                       pos, k);
COMMENT ON MACRO kendall_tau_distance IS 'Kendall''s distance: the number of pairs in which the lower grade is above the higher.';

CREATE OR REPLACE MACRO kendall_tau_b(rel, pos, k := NULL) AS
    rankql_one_ranking(list_avg(list_transform([rankql_ordered(rel, pos, k)], lambda x: rankql_tau_b(x))), pos, k);
COMMENT ON MACRO kendall_tau_b IS 'Kendall''s tau-b between grades and positions: 1 for the best order, if no grades are equal.';

CREATE OR REPLACE MACRO auc(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_auc(
        list_transform(list_sort(list({'pos': rankql_pos(pos, NULL), 'hit': rankql_hit(rel, threshold)})
                           FILTER (WHERE rankql_pos(pos, NULL) + rankql_hit(rel, threshold) IS NOT NULL),
                       'ASC', 'NULLS LAST'), lambda x_: x_['hit'])), pos, NULL), k, 'auc');
COMMENT ON MACRO auc IS 'Area under the ROC curve: the share of pairs with the relevant item above the other one.';


-- Two rankings of the same items, `reference` and `pos`. NULL: the item is not in the ranking.

-- Whether the ranking has an item. Two items at one position are an error.
CREATE OR REPLACE MACRO rankql_once(positions, name) AS
    CASE WHEN list_unique(positions) < len(positions)
         THEN rankql_fail(name || ' must not be the same for two items of a group: ties have no order')
         ELSE len(positions) > 0 END;

CREATE OR REPLACE MACRO rankql_both(reference, pos, k) AS
    rankql_once(list(rankql_pos(reference, k, name := 'reference'))
                    FILTER (WHERE rankql_pos(reference, k, name := 'reference') IS NOT NULL), 'reference')
    AND rankql_once(list(rankql_pos(pos, k)) FILTER (WHERE rankql_pos(pos, k) IS NOT NULL), 'pos');

-- For the items of both rankings in the order of the reference: their places v by `pos`.
CREATE OR REPLACE MACRO rankql_permutation(reference, pos, k) AS
    list_grade_up(list_transform(list_sort(
        list({'pos': rankql_pos(pos, k), 'reference': rankql_pos(reference, k, name := 'reference')})
            FILTER (WHERE rankql_pos(pos, k) + rankql_pos(reference, k, name := 'reference') IS NOT NULL),
        'ASC', 'NULLS LAST'), lambda x_: x_['reference']), 'ASC', 'NULLS LAST');

-- The sum of C / (v - 1) over the places v from 2, where C smaller places are before v: all before it minus the larger
-- ones, by which v moves up at the levels of a merge sort. Each x holds its block, v - 1 and its half.
CREATE OR REPLACE MACRO rankql_agreements(places) AS
    list_sum(list_transform(range(0, CAST(ceil(log2(len(places))) AS BIGINT) + 1), lambda b:
        list_sum(list_transform(
            list_sort(list_transform(places, lambda v, t:
                (((t - 1) >> b) * len(places) + v - 1) * 2 + ((2 * t - 1) >> b) % 2), 'ASC', 'NULLS LAST'),
            lambda x, j: CASE WHEN x // 2 % len(places) > 0 THEN
                CAST((j - 1) * (x % 2 - x // 2 // len(places) % 2) AS DOUBLE) / (x // 2 % len(places)) END))));

-- The sum over the first n depths d of p^(d - 1) * (1 - p) times the share of the d items that both rankings have.
-- `depths` are the depths from which an item is shared. Weights below 1e-18 are left out.
CREATE OR REPLACE MACRO rankql_overlap(depths, n, p) AS
    (1 - p) / p * coalesce(list_sum(list_transform(
        list_sort(list_concat(
            list_transform(depths, lambda depth: 2 * CAST(depth AS BIGINT)),
            list_transform(range(CAST(list_min(depths) AS BIGINT),
                                 CAST(least(n, ceil(-41.5 / ln(p))) AS BIGINT) + 1),
                           lambda d: 2 * d + 1)), 'ASC', 'NULLS LAST'),
        lambda x, j: CASE WHEN x % 2 = 1 THEN
            (j - x // 2 + list_min(depths) - 1) * pow(p, x // 2) / (x // 2) END)), 0);

-- The same for one item shared from the top, over the depths beyond n.
CREATE OR REPLACE MACRO rankql_beyond(n, p) AS
    greatest(0, least(pow(p, n) / (n + 1),
        (p - 1) / p * ln(1 - p) - rankql_overlap([1], n, p)));

-- The weight beyond depth n that is unknown after n items.
CREATE OR REPLACE MACRO rankql_unseen(n, p) AS pow(p, n) - n * rankql_beyond(n, p);

CREATE OR REPLACE MACRO rankql_residual(shared, short, long, p) AS
    rankql_unseen(short, p) + rankql_unseen(long, p) - rankql_unseen(short + long - shared, p);

-- rbo from the depths at which both rankings have an item, and the lengths. Identical rankings are exactly 1.
CREATE OR REPLACE MACRO rankql_rbo(depths, short, long, p, bound) AS
    CASE rankql_text(bound)
        WHEN 'ext' THEN CASE WHEN len(depths) = long AND list_sum(depths) = long * (long + 1) / 2 THEN 1 ELSE
            least(1, list_sum(list_transform([
                {'within': list_filter(depths, lambda depth: depth <= short), 'length': short},
                {'within': list_filter(depths, lambda depth: depth > short), 'length': long}
            ], lambda part_:
                rankql_overlap(part_['within'], part_['length'], p)
                + len(part_['within']) * pow(p, part_['length']) / part_['length']))) END
        WHEN 'min' THEN rankql_overlap(depths, long, p) + len(depths) * rankql_beyond(long, p)
        WHEN 'max' THEN rankql_overlap(depths, long, p) + len(depths) * rankql_beyond(long, p)
                        + rankql_residual(len(depths), short, long, p)
        WHEN 'residual' THEN rankql_residual(len(depths), short, long, p)
        ELSE rankql_fail('bound must be ''ext'', ''min'', ''max'' or ''residual'', not ' || rankql_text(bound))
    END;

CREATE OR REPLACE MACRO tau_ap(reference, pos, k := NULL) AS
    CASE WHEN rankql_both(reference, pos, k) THEN
        list_avg(list_transform([rankql_permutation(reference, pos, k)], lambda places:
            CASE WHEN len(places) > 1
                 THEN 2 / CAST(len(places) - 1 AS DOUBLE) * rankql_agreements(places) - 1 END)) + rankql_one_k(k) END;
COMMENT ON MACRO tau_ap IS 'AP correlation with a reference order: Kendall''s tau with more weight at the top.';

CREATE OR REPLACE MACRO rbo(reference, pos, k := NULL, p := NULL, bound := 'ext') AS
    CASE WHEN rankql_both(reference, pos, k) THEN
        list_avg(list_transform([{
            'p': rankql_patience(p),
            'depths': coalesce(
                list(greatest(rankql_pos(reference, k, name := 'reference'), rankql_pos(pos, k)))
                FILTER (WHERE rankql_pos(reference, k, name := 'reference') + rankql_pos(pos, k) IS NOT NULL), []),
            'short': least(max(rankql_pos(reference, k, name := 'reference')), max(rankql_pos(pos, k))),
            'long': greatest(max(rankql_pos(reference, k, name := 'reference')), max(rankql_pos(pos, k)))
        }], lambda two_: rankql_rbo(two_['depths'], two_['short'], two_['long'], two_['p'], bound))) + rankql_one_k(k) END;
COMMENT ON MACRO rbo IS 'Rank-biased overlap: what two rankings have in common, with more weight at the top.';


-- The grades of a list, unjudged ones left out.
CREATE OR REPLACE MACRO rankql_list_ordered(grades) AS list_filter(grades, lambda grade: grade IS NOT NULL);

CREATE OR REPLACE MACRO list_kendall_tau_distance(rels, k := NULL, normalized := false) AS
    rankql_checked(rankql_distance(rankql_list_ordered(rankql_top(rankql_grades(rels), k)), normalized), len(CAST(rels AS DOUBLE[])));
COMMENT ON MACRO list_kendall_tau_distance IS 'kendall_tau_distance over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_kendall_tau_b(rels, k := NULL) AS
    rankql_tau_b(rankql_list_ordered(rankql_top(rankql_grades(rels), k)));
COMMENT ON MACRO list_kendall_tau_b IS 'kendall_tau_b over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_auc(rels, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_auc(rankql_list_ordered(rankql_hits(rankql_grades(rels), threshold))), k, 'list_auc');
COMMENT ON MACRO list_auc IS 'auc over a list of grades in rank order.';


-- The grades in rank order, or with ties 'expected' in the best and in the worst order of ties, whose mean is that of all.
CREATE OR REPLACE MACRO rankql_orders(rel, score, item, k, ties, metric) AS
    CASE WHEN NOT rankql_expected(ties)
         THEN [rankql_list_ordered(rankql_top(rankql_values(rankql_ranking_by_item(rankql_grade(rel), score, item)), k))]
         WHEN k IS NOT NULL
         THEN rankql_fail('ties ''expected'' is not available for ' || metric || ' with k. Leave k out')
         ELSE [rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, NULL))),
               rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, -rankql_grade(rel))))]
    END;

-- The hits of judged items, ordered by score, then by `tie`.
CREATE OR REPLACE MACRO rankql_judged_hits(rel, score, tie, threshold) AS
    list_filter(rankql_values(rankql_ranking(rankql_hit(rel, threshold), score, tie)), lambda hit: hit IS NOT NULL);

CREATE OR REPLACE MACRO kendall_tau_distance_by_score(
    rel, score, item, k := NULL, normalized := false, ties := 'item'
) AS
    list_avg(list_transform(rankql_orders(rel, score, item, k, ties, 'kendall_tau_distance'),
                            lambda x: rankql_distance(x, normalized)));
COMMENT ON MACRO kendall_tau_distance_by_score IS 'kendall_tau_distance with a score and an item instead of the position.';

CREATE OR REPLACE MACRO kendall_tau_b_by_score(rel, score, item, k := NULL, ties := 'item') AS
    list_avg(list_transform(rankql_orders(rel, score, item, k, ties, 'kendall_tau_b'), lambda x: rankql_tau_b(x)));
COMMENT ON MACRO kendall_tau_b_by_score IS 'kendall_tau_b with a score and an item instead of the position.';

-- A tied pair counts half, whatever `ties`: the mean of the best and of the worst order of ties. `item` is not read.
CREATE OR REPLACE MACRO auc_by_score(rel, score, item := NULL, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(CASE WHEN rankql_expected(ties) IS NOT NULL
         THEN (rankql_auc(rankql_judged_hits(rel, score, rankql_hit(rel, threshold), threshold))
               + rankql_auc(rankql_judged_hits(rel, score, -rankql_hit(rel, threshold), threshold))) / 2 END, k, 'auc_by_score');
COMMENT ON MACRO auc_by_score IS 'auc with a score instead of the position. Ties count half.';


-- Rating: errors of predicted scores against grades. Load common.sql first.
--
--   rmse(rel, score)  sqrt(avg((rel - score)^2))
--   mse(rel, score)   avg((rel - score)^2)
--   mae(rel, score)   avg(abs(rel - score))

-- The score is checked in a condition, because DuckDB skips the checks of a subtrahend if every grade is NULL.
CREATE OR REPLACE MACRO rankql_error(rel, score) AS
    CASE WHEN rankql_holds_no_numbers(score) THEN rankql_fail(rankql_no_number(score, 'score'))
         WHEN score IS NOT NULL AND NOT isfinite(CAST(score AS DOUBLE))
         THEN rankql_fail('score must be a finite number, not ' || rankql_text(score))
         ELSE rankql_grade(rel) - CAST(score AS DOUBLE) END;

CREATE OR REPLACE MACRO rmse(rel, score) AS sqrt(avg(pow(rankql_error(rel, score), 2)));
COMMENT ON MACRO rmse IS 'Root mean squared error of scores against grades. NULL if no row has both.';

CREATE OR REPLACE MACRO mse(rel, score) AS avg(pow(rankql_error(rel, score), 2));
COMMENT ON MACRO mse IS 'Mean squared error of scores against grades. NULL if no row has both.';

CREATE OR REPLACE MACRO mae(rel, score) AS avg(abs(rankql_error(rel, score)));
COMMENT ON MACRO mae IS 'Mean absolute error of scores against grades. NULL if no row has both.';


-- Catalogue metrics: what all rankings together show. A row is an item shown to a user; take the top of each ranking with
-- WHERE pos <= 10. Group by a slice for the value of the slice, which is not a mean over users. Load common.sql first.
--
--   catalogue_coverage(item, catalogue)  different items / the items that could be shown
--   gini(item)                           (2 * the sum of i * n(i) / the sum of n(i) - N - 1) / N, where the i-th of N items, the
--                                        least shown first, is in n(i) rows
--   shannon_entropy(item)                the sum of -s * log2(s), where s is the share of the rows that an item has
--   average_popularity(popularity)       avg(popularity)
--   novelty(popularity, users)           avg(log2(users / popularity))
--   freshness(created_at, shown_at)      avg(shown_at - created_at), in days
--   personalisation(user, item)          1 - the sum of n * (n - 1) / the sum of n * (users - 1), where n users see an item
--   exposure(pos, k)                     the sum of 1 / log2(pos + 1) over the rows with pos <= k
--   exposure_disparity(exposure, merit)  the sum of abs(share of the exposure - share of the merit) / 2

-- The number of different items, independent of the collation.
CREATE OR REPLACE MACRO rankql_distinct(item) AS count(DISTINCT encode(CAST(item AS VARCHAR)));

-- A number of items or users, at least `found`. The first message depends on `found` (by an empty text), because DuckDB
-- computes constants while it plans.
CREATE OR REPLACE MACRO rankql_total(total, found, name, of) AS
    CASE WHEN total IS NULL THEN rankql_fail(name || ' must be given: the number of ' || of || left(rankql_text(found), 0))
         WHEN rankql_option(total) >= 1 AND rankql_option(total) = floor(rankql_option(total)) AND rankql_option(total) < found
         THEN rankql_fail(name || ' must be the number of ' || of || ': ' || rankql_text(total) || ' is less than the '
                    || rankql_text(found) || ' that were shown')
         ELSE rankql_whole(total, name)
    END;

CREATE OR REPLACE MACRO catalogue_coverage(item, catalogue := NULL) AS
    rankql_distinct(item)
    / rankql_total(catalogue, rankql_distinct(item), 'catalogue', 'items that could be shown');
COMMENT ON MACRO catalogue_coverage IS 'Catalogue coverage: the share of the catalogue that is shown at least once.';


-- How evenly items are shown.

-- How often each item was shown, ascending.
CREATE OR REPLACE MACRO rankql_counts(item) AS
    coalesce(list_sort(CAST(map_values(histogram(item)) AS DOUBLE[]), 'ASC', 'NULLS LAST'), []);

CREATE OR REPLACE MACRO rankql_catalogue(catalogue, counts) AS
    CASE WHEN rankql_text(catalogue) = 'shown' THEN CAST(len(counts) AS DOUBLE)
         ELSE rankql_total(catalogue, len(counts), 'catalogue',
                           'items that could be shown (or ''shown'', to count the items that were)') END;

-- The Gini index of ascending counts of n items; those without a count are never shown.
CREATE OR REPLACE MACRO rankql_gini(counts, n, norm) AS
    (2 * list_sum(list_transform(counts, lambda x, i: x * i)) / list_sum(counts) + n - 2 * len(counts) - 1) / nullif(n - norm, 0);

CREATE OR REPLACE MACRO rankql_entropy(counts) AS
    abs(log2(list_sum(counts)) - list_sum(list_transform(counts, lambda x: x * log2(x))) / list_sum(counts));

CREATE OR REPLACE MACRO gini(item, catalogue := NULL, norm := 'n') AS
    -- In a list, because DuckDB skips the checks in a divisor if the dividend is NULL.
    list_transform([{'counts': rankql_counts(item), 'n': rankql_catalogue(catalogue, rankql_counts(item)),
                     'norm': CASE rankql_text(norm) WHEN 'n' THEN 0 WHEN 'n-1' THEN 1
                        ELSE rankql_fail('norm must be ''n'' or ''n-1'', not ' || rankql_text(norm)) END}], lambda x_:
        rankql_gini(x_['counts'], x_['n'], x_['norm']))[1];
COMMENT ON MACRO gini IS 'Gini index of how often items are shown: 0 if all equally often, near 1 if only a few.';

CREATE OR REPLACE MACRO shannon_entropy(item, catalogue := NULL, normalized := false) AS
    list_transform([{'counts': rankql_counts(item), 'normalized': rankql_flag(normalized, 'normalized'),
                     'n': CASE WHEN catalogue IS NOT NULL OR rankql_text(normalized) = 'true'
                               THEN rankql_catalogue(catalogue, rankql_counts(item)) END}], lambda x_:
        rankql_entropy(x_['counts']) / CASE WHEN x_['normalized'] THEN nullif(log2(x_['n']), 0) ELSE 1 END)[1];
COMMENT ON MACRO shannon_entropy IS 'Shannon entropy of how often items are shown, in bits: high if attention is spread.';


-- How well known and how new the items are.

-- The self-information of an item in bits, NULL if nobody had it.
CREATE OR REPLACE MACRO rankql_information(popularity, users) AS
    log2(rankql_option(users) / nullif(rankql_known_by(
        popularity, rankql_total(users, 0, 'users', 'users in the training data')), 0));

-- The self-information of an item that one user had.
CREATE OR REPLACE MACRO rankql_most_bits(users) AS log2(rankql_total(users, 0, 'users', 'users in the training data'));

-- 0 for a time, checked, NULL if it is unknown.
CREATE OR REPLACE MACRO rankql_time(value, name) AS
    CASE WHEN rankql_is_clock(value) AND isfinite(rankql_instant(value)) THEN 0
         WHEN value IS NOT NULL OR NOT rankql_is_clock(value) THEN rankql_refuse_time(value, name) END;

-- The age of an item when it was shown: in days if the times are timestamps, NULL if one of them is unknown. Its first condition
-- checks both, once: each check adds 2 ms of planning.
CREATE OR REPLACE MACRO rankql_item_age(created_at, shown_at) AS
    CASE WHEN coalesce(rankql_time(created_at, 'created_at'), 1) + coalesce(rankql_time(shown_at, 'shown_at'), 1) > 0 THEN NULL
         WHEN rankql_is_time(created_at) <> rankql_is_time(shown_at)
         THEN rankql_fail('created_at and shown_at must be of one kind, timestamps or numbers, not ' || typeof(created_at) || ' and '
                    || typeof(shown_at) || left(rankql_text(created_at), 0))
         WHEN rankql_instant(created_at) > rankql_instant(shown_at)
         THEN rankql_fail('created_at must not be after shown_at: ' || rankql_text(created_at) || ' is after ' || rankql_text(shown_at))
         ELSE (rankql_instant(shown_at) - rankql_instant(created_at))
              / CASE WHEN rankql_is_time(created_at) THEN 86400000000 ELSE 1 END END;

CREATE OR REPLACE MACRO average_popularity(popularity, unseen := 'zero') AS
    coalesce(sum(rankql_amount(popularity, 'popularity')), 0) / nullif(CASE rankql_text(unseen)
        WHEN 'zero' THEN count(*)
        WHEN 'drop' THEN count(*) FILTER (WHERE rankql_unchecked(popularity) <> 0)
        ELSE rankql_fail('unseen must be ''zero'' or ''drop'', not ' || rankql_text(unseen)) END, 0);
COMMENT ON MACRO average_popularity IS 'Average popularity: the mean popularity of the items shown.';

CREATE OR REPLACE MACRO novelty(popularity, users := NULL, unseen := 'one_user', normalized := false) AS
    -- In a list, because DuckDB skips the checks of a dividend if the divisor is a constant NULL.
    list_transform([{'bits': CASE rankql_text(unseen)
        WHEN 'one_user' THEN avg(coalesce(rankql_information(popularity, users), rankql_most_bits(users)))
        WHEN 'drop' THEN avg(rankql_information(popularity, users))
        WHEN 'max' THEN (sum(rankql_information(popularity, users))
            + (count(*) - count(rankql_information(popularity, users))) * max(rankql_information(popularity, users)))
            / count(*)
        ELSE rankql_fail('unseen must be ''one_user'', ''drop'' or ''max'', not ' || rankql_text(unseen)) END,
        'most': CASE WHEN rankql_flag(normalized, 'normalized') THEN nullif(rankql_most_bits(users), 0) ELSE 1 END}],
        lambda x_: x_['bits'] / x_['most'])[1];
COMMENT ON MACRO novelty IS 'Novelty: the mean self-information of the items shown, in bits: high if few users know them.';

CREATE OR REPLACE MACRO freshness(created_at, shown_at) AS avg(rankql_item_age(created_at, shown_at));
COMMENT ON MACRO freshness IS 'Freshness: the mean age of the items when they were shown, in days: low if they are new.';


-- What each user sees.

-- Personalisation from the number of users to whom each item was shown.
CREATE OR REPLACE MACRO rankql_personalisation(counts, users) AS
    1 - list_sum(list_transform(counts, lambda n: CAST(n AS DOUBLE) * (n - 1)))
        / nullif(CAST(list_sum(counts) AS DOUBLE) * (users - 1), 0);

CREATE OR REPLACE MACRO personalisation(user, item) AS
    list_transform([list(DISTINCT {'user': user, 'item': item}) FILTER (WHERE user IS NOT NULL AND item IS NOT NULL)],
        lambda shown: rankql_personalisation(
            map_values(list_aggregate(list_transform(shown, lambda x_: x_['item']), 'histogram')),
            list_unique(list_transform(shown, lambda x_: x_['user']))))[1];
COMMENT ON MACRO personalisation IS 'Personalisation: the share of their lists that two users do not have in common.';


-- The attention that items get.

CREATE OR REPLACE MACRO rankql_attention(pos, attention) AS
    CASE WHEN attention IS NULL THEN 1 / log2(pos + 1)
         WHEN pos IS NOT NULL THEN coalesce(
            CASE WHEN starts_with(typeof(attention), 'VARCHAR') OR NOT contains(typeof(attention), '[')
                 THEN rankql_fail('attention must be a list of numbers, not ' || rankql_text(attention))
                 ELSE rankql_amount(TRY_CAST(attention AS DOUBLE[])[CAST(pos AS BIGINT)], 'attention') END,
            rankql_fail('attention must have a value for every position shown: there is none for '
                  || rankql_text(CAST(pos AS BIGINT)))) END;

CREATE OR REPLACE MACRO exposure(pos, k := NULL, attention := NULL) AS
    coalesce(sum(rankql_attention(rankql_pos(pos, k), attention)), 0);
COMMENT ON MACRO exposure IS 'Exposure: the attention that the positions of a group of items get.';

CREATE OR REPLACE MACRO exposure_disparity(exposure, merit) AS
    list_transform([list_filter(list({'e': coalesce(rankql_amount(exposure, 'exposure'), 0), 'm': rankql_amount(merit, 'merit')}),
                                lambda x_: x_['m'] IS NOT NULL)],
        lambda rows: list_transform([{
            'e': nullif(list_sum(list_transform(rows, lambda x_: x_['e'])), 0),
            'm': nullif(list_sum(list_transform(rows, lambda x_: x_['m'])), 0)
        }], lambda total_:
            list_sum(list_transform(rows, lambda x_: abs(x_['e'] / total_['e'] - x_['m'] / total_['m']))) / 2)[1])[1];
COMMENT ON MACRO exposure_disparity IS 'Exposure disparity: the share of the exposure that must move to be proportional to merit.';


-- Diversity: how different and how unexpected the items of one ranking are, in the first k positions or in all. Means divide
-- by the number of items shown, never by k. Load common.sql first.
--
--   category_diversity(category, pos, k)     pairs of different categories / pairs
--   jaccard_diversity(attributes, pos, k)    the mean over the pairs of 1 - common attributes / attributes of either
--   cosine_diversity(embedding, pos, k)      the mean over the pairs of 1 - cosine
--   missing_at(attribute, pos, k)            items without the attribute / items
--   duplicate_share(item, pos, k)            items that are also above / items
--   near_duplicate_share(embedding, pos, k)  items with a cosine >= similarity to one above / items
--   unexpectedness(baseline, pos, k)         items that the baseline does not show / items
--   serendipity(rel, baseline, pos, k)       relevant items that the baseline does not show / items
--   subtopic_recall(subtopics, pos, k)       different subtopics of the items / all subtopics
--   alpha_dcg(subtopics, pos, k)             the sum over the items and their subtopics of (1 - alpha)^n / log2(pos + 1), where n
--                                            items above have the subtopic
--   alpha_ndcg(subtopics, pos, k)            alpha_dcg / that of the order that takes the best next item each time
--   err_ia(subtopics, pos, k)                alpha * the sum over the items and their subtopics of (1 - alpha)^n / pos, / all subtopics

-- The values shown that are not NULL. Not in FILTER, which would compute them twice.
CREATE OR REPLACE MACRO rankql_known(value, pos, k) AS
    list_filter(coalesce(list(value) FILTER (WHERE rankql_pos(pos, k) IS NOT NULL), []), lambda x: x IS NOT NULL);

CREATE OR REPLACE MACRO rankql_two(n) AS CAST(n AS DOUBLE) * (n - 1) / 2;

-- The mean distance over pairs, from the sum over pairs with two known values. NULL without pairs.
CREATE OR REPLACE MACRO rankql_mean_distance(total, known, shown, missing) AS
    CASE rankql_text(missing)
        WHEN 'drop' THEN total / nullif(rankql_two(known), 0)
        WHEN 'different' THEN (total + rankql_two(shown) - rankql_two(known)) / nullif(rankql_two(shown), 0)
        WHEN 'same' THEN total / nullif(rankql_two(shown), 0)
        ELSE rankql_fail('missing must be ''drop'', ''different'' or ''same'', not ' || rankql_text(missing)) END;

-- The number of pairs of different values.
CREATE OR REPLACE MACRO rankql_unlike_pairs(known) AS
    rankql_two(len(known))
    - coalesce(list_sum(list_transform(map_values(list_aggregate(known, 'histogram')), lambda n: rankql_two(n))), 0);

-- A list of attributes as a set of texts, NULL if it is empty.
CREATE OR REPLACE MACRO rankql_set(attributes, name) AS
    CASE WHEN NOT rankql_is_list(attributes)
         THEN rankql_fail(name || ' must be a list, not ' || typeof(attributes) || '. Pass a list, such as [a, b]')
         WHEN len(list_distinct(rankql_texts(attributes))) > 0
         THEN list_sort(list_distinct(rankql_texts(attributes)), 'ASC', 'NULLS LAST') END;

-- The sum of Jaccard's distance over all pairs of sets. An index is 30 times as fast as a slice, and the filter as
-- list_intersect.
CREATE OR REPLACE MACRO rankql_jaccard(sets) AS
    list_transform([sets], lambda v: coalesce(list_sum(list_transform(v, lambda a, i:
        list_sum(list_transform(range(i + 1, len(v) + 1), lambda j:
            list_transform([len(list_filter(a, lambda x: list_contains(v[j], rankql_exact(x))))], lambda common:
                1 - common / (CAST(len(a) AS DOUBLE) + len(v[j]) - common))[1])))), 0))[1];

-- Spark refuses list_dot_product, as its arrays have other type names.
CREATE OR REPLACE MACRO rankql_squared(vector) AS list_dot_product(vector, vector);

-- A copy as a list: list functions fail on the entries of an array that is NULL. No lambda, because DuckDB 2.0 fails on one
-- in nested aggregates.
CREATE OR REPLACE MACRO rankql_doubles(embedding) AS list_concat(CAST(embedding AS DOUBLE[]), CAST([] AS DOUBLE[]));

-- Whether there is a (valid) vector.
CREATE OR REPLACE MACRO rankql_is_vector(embedding) AS
    CASE WHEN rankql_is_text(embedding) OR typeof(embedding) LIKE '%]%]'
              OR NOT rankql_is_list(embedding)
         THEN rankql_fail('embedding must be a list of numbers, not ' || typeof(embedding))
         WHEN embedding IS NULL THEN false
         WHEN list_count(CAST(embedding AS DOUBLE[])) < len(CAST(embedding AS DOUBLE[]))
         THEN rankql_fail('embedding must hold finite numbers only, not ' || rankql_text(embedding))
         WHEN rankql_squared(rankql_doubles(embedding)) BETWEEN 5e-324 AND 1.7976931348623157e308
         THEN true
         WHEN rankql_squared(rankql_doubles(embedding)) = 0
         THEN rankql_fail('embedding must not be all zeros, which has no direction: make it NULL')
         ELSE rankql_fail('embedding must hold finite numbers only, not ' || rankql_text(embedding)) END;

-- The vectors shown, in order, all of one length. FLOATs are collected as they are, in half the memory.
CREATE OR REPLACE MACRO rankql_vectors(embedding, pos, k) AS
    list_transform([list_transform(coalesce(list_sort(
        list({'pos': rankql_pos(pos, k), 'value': embedding})
            FILTER (WHERE rankql_is_vector(embedding) AND rankql_pos(pos, k) IS NOT NULL),
        'ASC', 'NULLS LAST'), []), lambda x_: CAST(x_['value'] AS DOUBLE[]))], lambda v:
        CASE WHEN list_unique(list_transform(v, lambda a: len(a))) > 1
             THEN rankql_fail('embedding must have one length in a ranking, not '
                        || list_min(list_transform(v, lambda a: len(a))) || ' and '
                        || list_max(list_transform(v, lambda a: len(a))))
             ELSE v END)[1];

-- The sum of the cosine distance over all pairs. The squared sum of n unit vectors is n + twice the cosines.
CREATE OR REPLACE MACRO rankql_cosine(vectors) AS
    list_transform([vectors], lambda v: list_transform([list_transform(v, lambda a: 1 / sqrt(rankql_squared(a)))],
        lambda scale: greatest(0, CAST(len(v) AS DOUBLE) * len(v) - coalesce(list_sum(list_transform(
            range(1, len(v[1]) + 1), lambda d: pow(list_inner_product(scale, list_transform(v, lambda a: a[d])), 2))), 0))
            / 2)[1])[1];

CREATE OR REPLACE MACRO category_diversity(category, pos, k := NULL, missing := 'drop') AS
    rankql_one_ranking(
        list_transform([{'known': rankql_known(category, pos, k), 'shown': count(rankql_pos(pos, k))}],
            lambda x_: rankql_mean_distance(rankql_unlike_pairs(x_['known']), len(x_['known']), x_['shown'], missing))[1], pos, k);
COMMENT ON MACRO category_diversity IS 'Intra-list diversity by category: the share of pairs of different categories.';

CREATE OR REPLACE MACRO jaccard_diversity(attributes, pos, k := NULL, missing := 'drop') AS
    rankql_one_ranking(
        list_transform([{'known': rankql_known(rankql_set(attributes, 'attributes'), pos, k),
                         'shown': count(rankql_pos(pos, k))}],
            lambda x_: rankql_mean_distance(rankql_jaccard(x_['known']), len(x_['known']), x_['shown'], missing))[1], pos, k);
COMMENT ON MACRO jaccard_diversity IS 'Intra-list diversity by attributes: the mean Jaccard distance of the pairs.';

CREATE OR REPLACE MACRO cosine_diversity(embedding, pos, k := NULL, missing := 'drop') AS
    rankql_one_ranking(
        list_transform([{'known': rankql_vectors(embedding, pos, k),
                         'shown': count(rankql_pos(pos, k))}],
            lambda x_: rankql_mean_distance(rankql_cosine(x_['known']), len(x_['known']), x_['shown'], missing))[1], pos, k);
COMMENT ON MACRO cosine_diversity IS 'Intra-list diversity by embedding: the mean cosine distance of the pairs.';


-- What is missing, and what is there twice.

-- The number of items shown, NULL if there is none.
CREATE OR REPLACE MACRO rankql_number_shown(pos, k) AS
    nullif(CAST(count(rankql_pos(pos, k)) AS DOUBLE), 0);

-- The number of items with a similar one above. Cosines of equal vectors can round below 1.
CREATE OR REPLACE MACRO rankql_near(vectors, similarity) AS
    list_transform([vectors], lambda v: len(list_filter(v, lambda a, i:
        coalesce(list_max(list_transform(range(1, i), lambda j: list_cosine_similarity(a, v[j]))), -2)
        >= similarity - 1e-12)))[1];

CREATE OR REPLACE MACRO rankql_similarity(similarity) AS
    CASE WHEN similarity IS NULL
         THEN rankql_fail('similarity must be given: the cosine from which two items are duplicates, such as 0.95')
         WHEN rankql_option(similarity) BETWEEN -1 AND 1 THEN rankql_option(similarity)
         ELSE rankql_fail('similarity must lie between -1 and 1, not ' || rankql_text(similarity)) END;

CREATE OR REPLACE MACRO missing_at(attribute, pos, k := NULL) AS
    rankql_one_ranking(
        count(*) FILTER (WHERE rankql_pos(pos, k) IS NOT NULL AND (attribute IS NULL OR (rankql_is_list(attribute)
                               AND CAST(attribute AS VARCHAR) SIMILAR TO '\[(NULL(, NULL)*)?\]')))
        / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO missing_at IS 'The share of the items shown that lack the attribute.';

CREATE OR REPLACE MACRO duplicate_share(item, pos, k := NULL) AS
    rankql_one_ranking(
        (len(rankql_known(item, pos, k)) - list_unique(rankql_known(item, pos, k))) / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO duplicate_share IS 'The share of the items shown that already appear above.';

CREATE OR REPLACE MACRO near_duplicate_share(embedding, pos, k := NULL, similarity := NULL) AS
    rankql_one_ranking(
        rankql_near(rankql_vectors(embedding, pos, k), rankql_similarity(similarity)) / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO near_duplicate_share IS 'The share of the items shown that are near-duplicates of an item above.';


-- What the baseline does not show.

-- 1 if the baseline shows the item too, else 0.
CREATE OR REPLACE MACRO rankql_expected_item(baseline) AS
    CASE WHEN typeof(baseline) NOT IN ('BOOLEAN', '"NULL"')
         THEN rankql_fail('baseline must be true or false, not ' || typeof(baseline)
                    || '. Pass a condition, such as rank <= 10')
         ELSE CAST(coalesce(CAST(baseline AS BOOLEAN), false) AS DOUBLE) END;

CREATE OR REPLACE MACRO unexpectedness(baseline, pos, k := NULL) AS
    rankql_one_ranking(
        sum((1 - rankql_expected_item(baseline)) * CASE WHEN rankql_pos(pos, k) IS NOT NULL THEN 1 END)
        / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO unexpectedness IS 'Unexpectedness: the share of the items shown that the baseline does not show.';

CREATE OR REPLACE MACRO serendipity(rel, baseline, pos, k := NULL, threshold := 1) AS
    rankql_one_ranking(
        sum((1 - rankql_expected_item(baseline)) * coalesce(rankql_hit(rel, threshold), 0)
            * CASE WHEN rankql_pos(pos, k) IS NOT NULL THEN 1 END)
        / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO serendipity IS 'Serendipity: the share of the items shown that are relevant and not in the baseline.';


-- Subtopics.

CREATE OR REPLACE MACRO rankql_all(sets) AS coalesce(list_distinct(flatten(sets)), []);

-- The sets of all items with subtopics.
CREATE OR REPLACE MACRO rankql_sets(subtopics) AS
    list_filter(coalesce(list(rankql_set(subtopics, 'subtopics')), []), lambda x: x IS NOT NULL);

-- The sum of weights over the items of each subtopic; each item counts 1 - alpha of the one before.
CREATE OR REPLACE MACRO rankql_novel(shown, alpha) AS
    coalesce(list_sum(list_transform(rankql_all(list_transform(shown, lambda x_: x_['set'])), lambda topic:
        list_sum(list_transform(list_filter(shown, lambda x_: list_contains(x_['set'], rankql_exact(topic))), lambda x_, c:
            x_['weight'] * pow(1 - alpha, c - 1))))), 0);

-- The items shown, in order, with the weight of the position.
CREATE OR REPLACE MACRO rankql_weighted(subtopics, pos, k, weight) AS
    list_filter(list_sort(
        list({'pos': rankql_pos(pos, k), 'weight': weight, 'set': rankql_set(subtopics, 'subtopics')})
            FILTER (WHERE rankql_pos(pos, k) IS NOT NULL),
        'ASC', 'NULLS LAST'), lambda x_: x_['set'] IS NOT NULL);

-- The probability that an item satisfies a user who looks for one of its subtopics.
CREATE OR REPLACE MACRO rankql_alpha(alpha) AS
    CASE WHEN rankql_option(alpha) BETWEEN 0 AND 1 THEN rankql_option(alpha)
         ELSE rankql_fail('alpha must lie between 0 and 1, not ' || rankql_text(alpha)) END;

-- The gain of an item's topics after those seen.
CREATE OR REPLACE MACRO rankql_topic_gain(topics, seen, alpha) AS
    list_sum(list_transform(topics, lambda topic:
        pow(1 - alpha, len(list_filter(seen, lambda other: other = rankql_exact(topic))))));

-- The greedy ideal: the item with the highest gain at each position. Ties (up to 12 decimals) go to the item that takes least
-- from the others, then to the first by its subtopics.
CREATE OR REPLACE MACRO rankql_greedy(sets, k, alpha) AS
    list_reduce(
        list_transform(range(0, CAST(least(len(sets), rankql_cutoff(k)) AS BIGINT) + 1), lambda t: {
            't': t, 'dcg': 0.0::DOUBLE, 'seen': CAST([] AS VARCHAR[]),
            'left': list_transform(sets, lambda topics, i: {'i': i, 'topics': topics})}),
        lambda a_, b_: list_transform([list_min(list_transform(a_['left'], lambda x_: {
                'loss': -round(rankql_topic_gain(x_['topics'], a_['seen'], alpha), 12),
                'taken': round(list_sum(list_transform(x_['topics'], lambda topic:
                    rankql_topic_gain([topic], a_['seen'], alpha)
                    * len(list_filter(a_['left'], lambda other_: list_contains(other_['topics'], rankql_exact(topic)))))), 12),
                'topics': x_['topics'], 'i': x_['i']}))], lambda best_: {
            't': b_['t'],
            'dcg': a_['dcg'] + rankql_topic_gain(best_['topics'], a_['seen'], alpha) / log2(b_['t'] + 1),
            'seen': list_concat(a_['seen'], best_['topics']),
            'left': list_filter(a_['left'], lambda x_: x_['i'] <> best_['i'])})[1]
    ).dcg;

CREATE OR REPLACE MACRO subtopic_recall(subtopics, pos, k := NULL) AS
    rankql_one_ranking(
        CAST(len(rankql_all(rankql_known(rankql_set(subtopics, 'subtopics'), pos, k))) AS DOUBLE)
        / nullif(len(rankql_all(rankql_sets(subtopics))), 0), pos, k);
COMMENT ON MACRO subtopic_recall IS 'Subtopic recall: the share of the subtopics that the items shown cover.';

CREATE OR REPLACE MACRO alpha_dcg(subtopics, pos, k := NULL, alpha := 0.5) AS
    rankql_one_ranking(
        rankql_novel(rankql_weighted(subtopics, pos, k, 1 / log2(rankql_pos(pos, k) + 1)), rankql_alpha(alpha)), pos, k);
COMMENT ON MACRO alpha_dcg IS 'DCG of subtopics: each repetition of a subtopic loses the share alpha of its gain.';

CREATE OR REPLACE MACRO alpha_ndcg(subtopics, pos, k := NULL, alpha := 0.5) AS
    rankql_one_ranking(
        CASE WHEN len(rankql_sets(subtopics)) > 0 THEN rankql_near_one(
            rankql_novel(rankql_weighted(subtopics, pos, k, 1 / log2(rankql_pos(pos, k) + 1)), rankql_alpha(alpha))
            / rankql_greedy(rankql_sets(subtopics), k, rankql_alpha(alpha))) END, pos, k);
COMMENT ON MACRO alpha_ndcg IS 'alpha_dcg divided by that of the ideal ranking, which is built greedily, item by item.';

CREATE OR REPLACE MACRO err_ia(subtopics, pos, k := NULL, alpha := 0.5) AS
    rankql_one_ranking(
        rankql_alpha(alpha)
        * rankql_novel(rankql_weighted(subtopics, pos, k, 1 / rankql_pos(pos, k)), rankql_alpha(alpha))
        / nullif(len(rankql_all(rankql_sets(subtopics))), 0), pos, k);
COMMENT ON MACRO err_ia IS 'Intent-aware ERR: the mean over the subtopics of the expected reciprocal rank of each.';


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


-- Debias: clicks corrected for position bias. Load common.sql, packed.sql and gain.sql first.
--
--   debiased(click, propensity)  avg(click / propensity), with `predicted` avg(predicted + (click - propensity * predicted) / propensity)
--   counterfactual(log)          dcg, idcg, rr and clicks of a new ranking, with such grades, and with weights that add up (SNIPS)

-- The grade of an item: the prediction, corrected by its clicks.
CREATE OR REPLACE MACRO rankql_corrected(clicked, seen, divisor, prediction) AS
    coalesce(avg(coalesce(prediction, 0) + (clicked - seen * coalesce(prediction, 0)) / divisor), avg(prediction));

-- A probability above 0.
CREATE OR REPLACE MACRO rankql_chance(value, name) AS
    rankql_number(value, TRY_CAST(value AS DOUBLE) > 0 AND TRY_CAST(value AS DOUBLE) <= 1, name,
                  'above 0 and at most 1');

-- The propensity of a position, which must be given for every item shown.
CREATE OR REPLACE MACRO rankql_seen(click, propensity, name := 'propensity') AS
    CASE WHEN propensity IS NULL AND click IS NOT NULL
         THEN rankql_fail(name || ' must be given where an item was shown. Estimate it, or leave out such rows')
         ELSE rankql_chance(propensity, name) END;

-- The smallest propensity to divide by; NULL without clipping.
CREATE OR REPLACE MACRO rankql_clip(clip) AS
    CASE WHEN clip IS NOT NULL THEN rankql_argument(
        clip, rankql_option(clip) > 0 AND rankql_option(clip) <= 1, 'clip', ' must be above 0 and at most 1') END;

-- The propensity to divide a click by.
CREATE OR REPLACE MACRO rankql_divisor(seen, clip) AS
    CASE WHEN clip IS NULL THEN seen ELSE greatest(seen, rankql_clip(clip)) END;

CREATE OR REPLACE MACRO rankql_prediction(predicted, name := 'predicted') AS
    CASE WHEN predicted IS NOT NULL AND NOT rankql_is_text(predicted)
              AND coalesce(TRY_CAST(predicted AS DOUBLE) NOT BETWEEN 0 AND 1, true)
         THEN rankql_fail(name || ' must lie between 0 and 1, not ' || rankql_text(predicted))
         ELSE rankql_amount(predicted, name) END;

CREATE OR REPLACE MACRO debiased(click, propensity, clip := NULL, predicted := NULL) AS
    rankql_corrected(rankql_clicked(click), rankql_seen(click, propensity),
                     rankql_divisor(rankql_seen(click, propensity), clip), rankql_prediction(predicted));
COMMENT ON MACRO debiased IS 'The grade of an item, estimated from its clicks and corrected for position bias.';


-- A new ranking.

-- The weights of clicks: their sum, sum of squares, maximum, and the number of clipped clicks.
CREATE OR REPLACE MACRO rankql_load(clicked, seen, divisor) AS
    {'clicks': coalesce(sum(clicked), 0), 'weight': coalesce(sum(clicked / divisor), 0),
     'squares': coalesce(sum(clicked / divisor / divisor), 0), 'largest': max(nullif(clicked / divisor, 0)),
     'cut': coalesce(sum(clicked * CAST(divisor > seen AS DOUBLE)), 0)};

-- The number of positions of a query. Two items at one position are an error.
CREATE OR REPLACE MACRO rankql_alone(p, pos, q, query) AS
    CASE WHEN count(p) > list_unique(list(p))
         THEN rankql_fail(pos || ' must be unique in a query: two items of ' || query || ' ' || rankql_text(q.value)
                    || ' have the same position')
         ELSE count(p) END;

-- The expected reciprocal rank if grades are probabilities of relevance. It is linear in each grade, so estimates above 1
-- or below 0 are possible.
CREATE OR REPLACE MACRO rankql_expected_rr(grade, p, k) AS
    rankql_walk(list_sort(list(rankql_step(p, grade, 1 / p)) FILTER (WHERE rankql_checked(rankql_pos(p, k), grade) IS NOT NULL),
                          'ASC', 'NULLS LAST'));

-- A position up to 2^53, beyond which two positions can be the same DOUBLE.
CREATE OR REPLACE MACRO rankql_place(pos, name) AS
    CASE WHEN rankql_pos(pos, NULL, name) <= 9007199254740992 AND TRY_CAST(pos AS HUGEINT) <= 9007199254740992
         THEN rankql_pos(pos, NULL, name)
         WHEN pos IS NOT NULL THEN rankql_refuse_pos(pos, name) END;

-- A value that must be the same in all rows of a query and item.
CREATE OR REPLACE MACRO rankql_sole(value, name, q, i, query, item) AS
    CASE WHEN min(value) < max(value) OR count(value) NOT IN (0, count(*))
         THEN rankql_fail(name || ' must be the same in all rows of a query and item: ' || item || ' ' || rankql_text(i.value)
                    || ' of ' || query || ' ' || rankql_text(q.value) || ' has several')
         ELSE min(value) END;

-- The standard error of a ratio of sums over independent rows, by the delta method.
CREATE OR REPLACE MACRO rankql_ratio_error(value, part, estimate) AS
    sqrt(sum(pow(value - estimate * part, 2)) * count(value) / nullif(count(value) - 1.0::DOUBLE, 0))
    / nullif(sum(rankql_checked(part, value)), 0);

-- Is a value outside the range of a metric, by more than sums round? `most` is NULL if it has no highest value.
CREATE OR REPLACE MACRO rankql_impossible(value, most) AS value < -1e-9 OR coalesce(value > most + 1e-9, false);

-- The bounds of an interval, which do not leave the range if the value does not.
CREATE OR REPLACE MACRO rankql_lower_bound(value, reach) AS
    CASE WHEN value - reach < 0 AND NOT rankql_impossible(value, NULL) THEN 0 ELSE value - reach END;

CREATE OR REPLACE MACRO rankql_upper_bound(value, reach, most) AS
    CASE WHEN value + reach > most AND NOT rankql_impossible(value, most) THEN most ELSE value + reach END;

-- Warnings about an estimate. Right ones are often outside the range, but not their intervals. `best` is the largest value.
CREATE OR REPLACE MACRO rankql_warning(lo, hi, best, estimator, queries, clicks, size, largest, total, unsupported) AS
    nullif(concat_ws('; ',
        CASE WHEN hi < -1e-9 THEN 'the value is impossible: below 0'
             WHEN lo > best + 1e-9 THEN 'the value is impossible: above ' || format('{:.3g}', best) END,
        CASE WHEN estimator = 'IPS' AND clicks > 0 AND total = clicks AND largest = 1
             THEN 'all clicks have propensity 1: IPS equals the naive estimate' END,
        CASE WHEN clicks = 0 THEN 'there is no click in the first positions'
             WHEN size < 100 THEN 'the effective sample size is below 100' END,
        CASE WHEN largest > 0.1 * total THEN 'one click has more than 10% of the weight' END,
        CASE WHEN unsupported > 0.1 THEN 'more than 10% of the items were never shown' END,
        CASE WHEN queries = 1 THEN 'no interval: it rests on one query'
             WHEN queries < 30 THEN 'the interval rests on fewer than 30 queries' END), '');

-- Columns are named by text; s and q are the keys of slice and query. Per item: position p, examination e, and for each
-- estimator its grade and the weights of its clicks. Each value is a ratio of sums: the denominator counts queries, or sums
-- grades in SNIPS. The same queries count for every estimator; value is NULL for the others.
CREATE OR REPLACE MACRO counterfactual(
    log, k := NULL, clip := NULL, predicted := NULL, examination := NULL, query := 'query', item := 'item',
    click := 'click', propensity := 'propensity', pos := 'pos', slice := NULL, confidence := 0.95
) AS TABLE
    WITH __rankql_given AS (
        SELECT rankql_slice(rankql_row, slice) AS s, rankql_id(rankql_row, query) AS q, rankql_id(rankql_row, item) AS i,
               struct_extract(rankql_row, click) AS c, struct_extract(rankql_row, propensity) AS t,
               rankql_place(struct_extract(rankql_row, pos), pos) AS p,
               CASE WHEN examination IS NOT NULL THEN struct_extract(rankql_row, examination) END AS e,
               CASE WHEN predicted IS NOT NULL THEN struct_extract(rankql_row, predicted) END AS r
        FROM query_table(log) AS rankql_row
    ), __rankql_shown AS (
        SELECT s, q, i, p, rankql_clicked(c, click) AS c, rankql_seen(c, t, propensity) AS t,
               CASE WHEN examination IS NOT NULL AND e IS NULL AND p IS NOT NULL
                    THEN rankql_fail(examination || ' must be given where ' || pos || ' is')
                    ELSE rankql_chance(e, examination) END AS e,
               rankql_prediction(r, predicted) AS r
        FROM __rankql_given
    ), __rankql_items AS (
        SELECT s, q, rankql_sole(p, pos, q, i, query, item) AS p,
               CASE WHEN examination IS NOT NULL THEN rankql_sole(e, examination, q, i, query, item) END AS e,
               nullif(count(c), 0) AS n, rankql_load(c, t, t) AS whole,
               CASE WHEN clip IS NOT NULL THEN rankql_load(c, t, rankql_divisor(t, clip)) END AS cut,
               CASE WHEN predicted IS NOT NULL THEN rankql_corrected(c, t, rankql_divisor(t, clip), r) END AS dr
        FROM __rankql_shown GROUP BY s, q, i
    ), __rankql_estimates AS (
        SELECT s, q, p, n IS NULL AS unsupported, unnest(list_filter([
            {'place': 1, 'estimator': 'naive', 'grade': whole.clicks / n, 'e': CAST(e > 0 AS DOUBLE), 'load': {
                'clicks': whole.clicks, 'weight': whole.clicks, 'squares': whole.clicks,
                'largest': CASE WHEN whole.clicks > 0 THEN 1 END, 'cut': 0}},
            {'place': 2, 'estimator': 'IPS', 'grade': whole.weight / n, 'e': e, 'load': whole},
            CASE WHEN clip IS NOT NULL
                 THEN {'place': 3, 'estimator': 'clipped IPS', 'grade': cut.weight / n, 'e': e, 'load': cut} END,
            {'place': 4, 'estimator': 'SNIPS', 'grade': whole.weight / n, 'e': e, 'load': whole},
            CASE WHEN predicted IS NOT NULL
                 THEN {'place': 5, 'estimator': 'DR', 'grade': dr, 'e': e, 'load': coalesce(cut, whole)} END
        ], lambda way: way IS NOT NULL), recursive := true)
        FROM __rankql_items
    ), __rankql_queries AS (
        SELECT s, place, estimator, bool_or(NOT unsupported) AS shown, sum(clicks) > 0 AS clicked, sum(grade) AS total,
               dcg(grade, p, k) AS dcg, coalesce(dcg(1, p, k), 0) AS best, idcg(grade, p, k) AS idcg, coalesce(rankql_expected_rr(grade, p, k), 0) AS rr,
               coalesce(sum(grade / rankql_pos(p, k)), 0) AS arhr,
               coalesce(sum(rankql_checked(grade * e, rankql_pos(p, k))), 0) AS looks,
               CAST(rankql_checked(count(rankql_pos(p, k)), rankql_alone(p, pos, q, query)) AS DOUBLE) AS top,
               CAST(count(rankql_pos(p, k)) FILTER (WHERE unsupported) AS DOUBLE) AS unsupported,
               sum(rankql_checked(clicks, rankql_pos(p, k))) AS clicks,
               sum(rankql_checked(weight, rankql_pos(p, k))) AS weight,
               sum(rankql_checked(squares, rankql_pos(p, k))) AS squares,
               max(rankql_checked(largest, rankql_pos(p, k))) AS largest,
               sum(rankql_checked(cut, rankql_pos(p, k))) AS cut
        FROM __rankql_estimates GROUP BY s, q, place, estimator
    ), __rankql_lines AS (
        SELECT * EXCLUDE (best), unnest(list_filter(CASE WHEN estimator = 'SNIPS' THEN [
            {'line': 1, 'metric': 'DCG', 'counts': shown, 'sum': dcg, 'part': total, 'best': 1},
            {'line': 2, 'metric': 'nDCG', 'counts': clicked, 'sum': dcg, 'part': idcg, 'best': 1},
            {'line': 3, 'metric': 'RR', 'counts': shown, 'sum': arhr, 'part': total, 'best': 1},
            {'line': 4, 'metric': 'CTR', 'counts': shown AND top > 0, 'sum': looks, 'part': total, 'best': 1}
        ] ELSE [
            {'line': 1, 'metric': 'DCG', 'counts': shown, 'sum': dcg, 'part': 1, 'best': best},
            {'line': 2, 'metric': 'nDCG', 'counts': clicked, 'sum': dcg / nullif(idcg, 0), 'part': 1, 'best': 1},
            {'line': 3, 'metric': 'RR', 'counts': shown, 'sum': rr, 'part': 1, 'best': 1},
            {'line': 4, 'metric': 'CTR', 'counts': shown AND top > 0, 'sum': looks / nullif(top, 0), 'part': 1, 'best': 1}
        ] END, lambda x_: x_['line'] < 4 OR examination IS NOT NULL), recursive := true)
        FROM __rankql_queries
    ), __rankql_measured AS (
        SELECT *, CASE WHEN counts THEN sum END AS value FROM __rankql_lines
    ), __rankql_summed AS (
        SELECT *, sum(value) OVER same / nullif(sum(rankql_checked(part, value)) OVER same, 0) AS estimate
        FROM __rankql_measured WINDOW same AS (PARTITION BY s, line, place)
    ), __rankql_added AS (
        SELECT s, line, place, metric, estimator, any_value(estimate) AS value, count(value) AS n,
               count(*) - count(value) AS left_out, sum(rankql_checked(best, value)) / nullif(count(value), 0) AS best,
               rankql_ratio_error(value, part, estimate) * rankql_z(confidence) AS reach,
               coalesce(sum(rankql_checked(clicks, value)), 0) AS clicks, coalesce(sum(rankql_checked(weight, value)), 0) AS weight,
               sum(rankql_checked(squares, value)) AS squares, max(rankql_checked(largest, value)) AS largest,
               sum(rankql_checked(cut, value)) AS cut, sum(rankql_checked(unsupported, value)) AS unsupported, sum(rankql_checked(top, value)) AS top
        FROM __rankql_summed GROUP BY s, line, place, metric, estimator
    ), __rankql_watched AS (
        SELECT *, weight * weight / nullif(squares, 0) AS size, unsupported / nullif(top, 0) AS never,
               CASE WHEN metric <> 'DCG' OR estimator = 'SNIPS' THEN 1 END AS most FROM __rankql_added
    ), __rankql_found AS (
        SELECT s, line AS a, place AS b, s.value AS slice, estimator, value,
               CASE WHEN k IS NULL THEN metric ELSE metric || '@' || CAST(rankql_cutoff(k) AS BIGINT) END AS metric,
               rankql_lower_bound(value, reach) AS lo, rankql_upper_bound(value, reach, most) AS hi, n AS queries, left_out,
               CAST(clicks AS BIGINT) AS clicks, size AS effective_sample_size, largest AS largest_weight,
               cut / nullif(clicks, 0) AS clipped, never AS unsupported,
               rankql_warning(coalesce(lo, value), coalesce(hi, value), best, estimator, n, clicks, size, largest, weight, never) AS warning
        FROM __rankql_watched
        UNION ALL BY NAME -- no row: checks the options of an empty log
        SELECT 0 AS a WHERE rankql_z(confidence) + rankql_cutoff(k) + coalesce(rankql_clip(clip), 0) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_found
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST, b ASC NULLS LAST;
COMMENT ON MACRO TABLE counterfactual IS 'What DCG, nDCG, RR and CTR of a new ranking would be, from the clicks on those shown so far.';


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


-- Interleaving: two rankings shown as one, and which one the clicks prefer. Load common.sql first.
--
--   team_draft(a, b)                  items and their teams: in each round a toss decides which ranking first adds its best item
--                                     that is not there yet
--   team_draft_credit(picks, clicks)  sign(clicks on the team of a - clicks on the team of b)
--   sign_test(preference)             min(1, 2 * the probability of at most min(wins, losses) heads in wins + losses tosses)

-- A ranking as text, without duplicates.
CREATE OR REPLACE MACRO rankql_side(items, name) AS
    CASE WHEN typeof(items) NOT LIKE '%]'
         THEN rankql_fail(name || ' must be a list of items, not ' || rankql_text(items))
         WHEN list_count(TRY_CAST(items AS VARCHAR[])) < len(TRY_CAST(items AS VARCHAR[]))
         THEN rankql_fail(name || ' must not hold NULL')
         WHEN list_unique(TRY_CAST(items AS VARCHAR[])) < len(TRY_CAST(items AS VARCHAR[]))
         THEN rankql_fail(name || ' must not hold an item twice')
         ELSE rankql_texts(items) END;

-- The turns of a draft: at most k, enough for both rankings.
CREATE OR REPLACE MACRO rankql_turns(a, b, k) AS
    range(0, CAST(least(rankql_cutoff(k), len(a) + len(b)) AS BIGINT));

-- Heads or tails: the first bit of an MD5 sum, the same for a seed and toss in every engine. Seeds of other types are refused,
-- because engines write them differently.
CREATE OR REPLACE MACRO rankql_toss(seed, toss) AS
    CASE WHEN seed IS NULL THEN rankql_fail('seed must be given: a value that differs between impressions, such as their id')
         WHEN typeof(seed) NOT SIMILAR TO '(?s)VARCHAR|ENUM\(.*\)|UUID|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BIGNUM'
         THEN rankql_fail('seed must be text, a whole number or a UUID, not ' || rankql_text(seed))
         ELSE md5(CAST(seed AS VARCHAR) || ':' || CAST(toss AS VARCHAR)) < '8' END;

-- The best item that is not shown yet.
CREATE OR REPLACE MACRO rankql_next(items, shown) AS
    list_filter(items, lambda item: NOT list_contains(shown, rankql_exact(item)))[1];

-- Whether the second team of a round can pick an item, and the first could as second. Otherwise the longer ranking would get
-- more than its share.
CREATE OR REPLACE MACRO rankql_answers(shown, first, second) AS
    rankql_next(second, shown) IS NOT NULL AND (
        rankql_next(first, shown) IS NOT NULL
        OR coalesce(list_position(second, rankql_exact(shown[-1]))
                    > list_position(second, rankql_exact(rankql_next(second, shown))), true));

-- One pick. Turns, from 0, come in pairs: a toss decides who is first.
CREATE OR REPLACE MACRO rankql_pick(state, turn, a, b, seed) AS
    list_transform([{'heads': rankql_toss(seed, turn // 2)}], lambda toss_: CASE
        WHEN state['done'] OR CASE
            WHEN turn % 2 = 0
            THEN rankql_next(a, state['items']) IS NULL OR rankql_next(b, state['items']) IS NULL
            WHEN toss_['heads'] THEN NOT rankql_answers(state['items'], a, b)
            ELSE NOT rankql_answers(state['items'], b, a) END
        THEN {'items': state['items'], 'teams': state['teams'], 'turn': turn, 'done': true}
        WHEN toss_['heads'] = (turn % 2 = 0)
        THEN {'items': list_append(state['items'], rankql_next(a, state['items'])), 'teams': list_append(state['teams'], 'A'),
              'turn': turn, 'done': false}
        ELSE {'items': list_append(state['items'], rankql_next(b, state['items'])), 'teams': list_append(state['teams'], 'B'),
              'turn': turn, 'done': false} END)[1];

CREATE OR REPLACE MACRO rankql_draft(a, b, k, seed, top) AS
    list_transform([list_reduce(
        list_concat(
            [{'items': top, 'teams': list_transform(top, lambda x: CAST(NULL AS VARCHAR)), 'turn': -1::BIGINT,
              'done': false}],
            list_transform(rankql_turns(a, b, k)[:greatest(0, len(rankql_turns(a, b, k)) - len(top))],
                lambda turn: {'items': CAST([] AS VARCHAR[]), 'teams': CAST([] AS VARCHAR[]), 'turn': turn,
                              'done': false})),
        lambda state, next_: rankql_pick(state, next_['turn'], a, b, seed))],
        lambda state_: list_transform(state_['items'], lambda item, i: {'item': item, 'team': state_['teams'][i]}))[1];

-- The common prefix of two rankings.
CREATE OR REPLACE MACRO rankql_common(a, b) AS
    a[:coalesce(list_min(list_filter(range(1, least(len(a), len(b)) + 1), lambda i: a[i] <> rankql_exact(b[i]))) - 1,
                least(len(a), len(b)))];

CREATE OR REPLACE MACRO team_draft(a, b, k := NULL, seed := NULL, prefix := false) AS
    CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN
        list_transform([{'a': rankql_side(a, 'a'), 'b': rankql_side(b, 'b')}], lambda x_:
            rankql_draft(x_['a'], x_['b'], k, seed,
            CASE WHEN rankql_flag(prefix, 'prefix') THEN rankql_top(rankql_common(x_['a'], x_['b']), k)
                 ELSE CAST([] AS VARCHAR[]) END))[1] END;
COMMENT ON MACRO team_draft IS 'Interleave two rankings: teams pick items in turn, and a coin toss decides who is first.';


-- What the clicks prefer.

-- The result of team_draft; a log can have added fields.
CREATE OR REPLACE MACRO rankql_picks(picks) AS
    CASE WHEN typeof(picks) SIMILAR TO '(?is)STRUCT\((.*, )?"?item"? .*\)\[\]'
              AND typeof(picks) SIMILAR TO '(?is)STRUCT\((.*, )?"?team"? .*\)\[\]'
         THEN TRY_CAST(picks AS STRUCT(item VARCHAR, team VARCHAR)[])
         ELSE rankql_fail('picks must be a list of items and their teams, as of team_draft, not ' || rankql_text(picks)) END;

-- The clicked items, in any order, with repetitions.
CREATE OR REPLACE MACRO rankql_clicks(clicks) AS
    CASE WHEN typeof(clicks) LIKE '%]' THEN rankql_texts(clicks)
         ELSE rankql_fail('clicks must be a list of items, not ' || rankql_text(clicks)) END;

-- The binomial coefficient is computed with lgamma(), exact to 1e-9 for n = 1,000,000.
CREATE OR REPLACE MACRO rankql_even(fewer, n) AS
    CASE WHEN n > 0 THEN least(1, 2 * list_sum(list_transform(range(0, CAST(fewer AS BIGINT) + 1), lambda i:
        exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * ln(2))))) END;

-- 1 if A has more clicks, -1 if B has, else 0.
CREATE OR REPLACE MACRO team_draft_credit(picks, clicks) AS
    CASE WHEN picks IS NOT NULL AND clicks IS NOT NULL THEN
        list_transform([[pick_['team'] for pick_ in rankql_picks(picks)
                         if list_contains(rankql_clicks(clicks), rankql_exact(pick_['item']))]],
            lambda teams: CAST(sign(
                len([team for team in teams if team = 'A']) - len([team for team in teams if team = 'B'])) AS DOUBLE))[1] END;
COMMENT ON MACRO team_draft_credit IS 'Which ranking the clicks on a team draft prefer: 1 for A, -1 for B, 0 for neither.';

CREATE OR REPLACE MACRO sign_test(preference) AS
    list_transform([{'up': CAST(count(*) FILTER (WHERE rankql_finite(preference, 'preference') > 0) AS DOUBLE),
                     'down': CAST(count(*) FILTER (WHERE rankql_finite(preference, 'preference') < 0) AS DOUBLE)}],
        lambda x_: rankql_even(least(x_['up'], x_['down']), x_['up'] + x_['down']))[1];
COMMENT ON MACRO sign_test IS 'Two-sided p-value of the sign test: wins against losses, without ties.';


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


-- Means of weighted rows: by traffic, by revenue, or by the inverse of the sampling probability. Load common.sql first.
--
--   weighted_mean(value, weight)  the sum of value * weight / the sum of weight, its interval, and as many rows of equal weight as
--                                 tell as much: (the sum of weight)^2 / the sum of weight^2

CREATE OR REPLACE MACRO rankql_row_weight(weight) AS
    CASE WHEN weight IS NULL
         THEN rankql_fail('weight must be given in every row: it is NULL. Use 0 where a row does not count')
         WHEN TRY_CAST(weight AS DOUBLE) > 0 AND TRY_CAST(weight AS DOUBLE) NOT BETWEEN 1e-100 AND 1e100
         THEN rankql_fail('weight must be 0 or from 1e-100 to 1e100, not ' || rankql_text(weight)
                          || '. Only ratios matter: divide all by the same number')
         ELSE rankql_amount(weight, 'weight') END;

-- The mean of rows {'value', 'weight'} with weights above 0, what its interval needs, and the effective number of rows.
-- `odds` is the weight of a row over that of all others. The standard error is the jackknife's, which leaves out one row at a
-- time; the degrees of freedom are Satterthwaite's for it, about n_eff - 1. With equal weights, both are those of Student's t.
-- tests/run_simulation.py measures how often the interval contains the true mean.
CREATE OR REPLACE MACRO rankql_weighted_rows(rows) AS
    list_transform([rows], lambda list_: list_transform([{
        'rows': list_, 'total': list_aggregate(list_transform(list_, lambda r: r['weight']), 'fsum'),
        'sum': list_aggregate(list_transform(list_, lambda r: r['value'] * r['weight']), 'fsum')}], lambda a_:
    list_transform([{
        'mean': a_['sum'] / a_['total'], 'n': len(a_['rows']), 'total': a_['total'], 'weights': list_sum(
            list_transform(a_['rows'], lambda r: r['weight'] * r['weight'])),
        'rows': list_transform(a_['rows'], lambda r: {
            'odds': r['weight'] / nullif(a_['total'] - r['weight'], 0),
            'rest': r['weight'] * (r['value'] - a_['sum'] / a_['total']),
            'off': r['weight'] / nullif(a_['total'] - r['weight'], 0) * (r['value'] - a_['sum'] / a_['total'])})}], lambda b_:
    list_transform([{
        -- A row with almost all of the weight leaves no digits of the others.
        'error': CASE WHEN list_bool_and(list_transform(b_['rows'], lambda r: coalesce(r['odds'] <= 1e10, false))) THEN sqrt((1 - 1 / b_['n']) * list_sum(list_transform(b_['rows'], lambda r: r['off'] * r['off']))) END,
        'skewness': list_avg(list_transform(b_['rows'], lambda r: pow(r['rest'], 3)))
            / nullif(pow(list_avg(list_transform(b_['rows'], lambda r: pow(r['rest'], 2))), 1.5), 0),
        'odds': list_sum(list_transform(b_['rows'], lambda r: r['odds'])),
        'squares': list_sum(list_transform(b_['rows'], lambda r: pow(r['odds'], 2))),
        'fourths': list_sum(list_transform(b_['rows'], lambda r: pow(r['odds'], 4)))}], lambda c_: {
        'mean': b_['mean'], 'n_eff': pow(b_['total'], 2) / b_['weights'], 'error': c_['error'], 'skewness': c_['skewness'],
        'df': greatest(1, least(b_['n'] - 1, pow(c_['odds'], 2) / (c_['squares'] + pow(c_['squares'], 2) - c_['fourths'])))
        })[1])[1])[1])[1];

-- Rows are sorted, so that their order does not change the last digits.
CREATE OR REPLACE MACRO weighted_mean(value, weight, confidence := 0.95) AS
    list_transform([list_transform([rankql_weighted_rows(
        list_sort(list({'value': rankql_finite(value, 'value'), 'weight': rankql_row_weight(weight)})
            FILTER (WHERE CASE WHEN rankql_row_weight(weight) > 0 THEN value IS NOT NULL ELSE false END), 'ASC', 'NULLS LAST'))],
        lambda y_: {'mean': y_['mean'], 'n_eff': y_['n_eff'],
            'width': y_['error'] * rankql_t_quantile((1 + rankql_confidence(confidence)) / 2, y_['df'])})[1]],
        lambda x_: {'mean': x_['mean'], 'lo': x_['mean'] - x_['width'], 'hi': x_['mean'] + x_['width'],
                    'n_eff': x_['n_eff']})[1];
COMMENT ON MACRO weighted_mean IS 'Weighted mean with its confidence interval and the effective number of rows.';


-- Spans: relevant text as places [start, end) in documents, which chunks of any size may cover. Load common.sql first.
--
--   span_judged(chunks, spans)  judgments of the chunks of a collection that cover a span, and of the spans that none covers

-- The characters of a span that must be covered. Rounding of the product adds none.
CREATE OR REPLACE MACRO rankql_share_of(length, cover) AS greatest(1, ceil(cover::DOUBLE * length * (1 - 1e-12)));

-- The same with a check of the share; by default one character.
CREATE OR REPLACE MACRO rankql_needed(length, cover) AS
    CASE WHEN cover IS NULL THEN 1
         WHEN rankql_option(cover) > 0 AND rankql_option(cover) <= 1 THEN rankql_share_of(length, rankql_option(cover))
         ELSE rankql_fail('cover must lie between 0 and 1, not ' || rankql_text(cover)) END;

-- Does a chunk cover a span, by the characters that both have?
CREATE OR REPLACE MACRO rankql_covers(common, chunk, span, cover, iou) AS
    CASE WHEN iou IS NULL THEN common >= rankql_needed(span, cover)
         WHEN cover IS NOT NULL THEN rankql_fail('cover and iou are two rules. Pass one of them')
         WHEN rankql_option(iou) > 0 AND rankql_option(iou) <= 1
         THEN common::DOUBLE / (chunk + span - common) >= rankql_option(iou)
         ELSE rankql_fail('iou must lie between 0 and 1, not ' || rankql_text(iou)) END;

-- Spans of rankings r, each once.
CREATE OR REPLACE MACRO rankql_places(spans) AS TABLE
    SELECT row_number() OVER () AS id, * FROM (SELECT DISTINCT r, document, s, e, evidence FROM query_table(spans));

-- The union of spans as intervals. Exact copies must go first: windows may order them in two ways.
CREATE OR REPLACE MACRO rankql_intervals(spans) AS TABLE
    WITH __rankql_marked AS (
        SELECT *, coalesce(s > max(e) OVER (PARTITION BY r, document ORDER BY s, e
                                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS first
        FROM (SELECT DISTINCT r, document, s, e FROM query_table(spans))
    ), __rankql_numbered AS (
        SELECT *, sum(first::INT) OVER (PARTITION BY r, document ORDER BY s, e ROWS UNBOUNDED PRECEDING) AS part
        FROM __rankql_marked
    )
    SELECT row_number() OVER () AS id, r, min(s) AS s, max(e) AS e, document FROM __rankql_numbered GROUP BY r, document, part;

-- Places are cut at the ends of the chunks that overlap them, and nowhere else. A piece has its length, the first position of a
-- chunk that holds it, and the offset in the context at which it first stands.
CREATE OR REPLACE MACRO rankql_pieces(context, places) AS TABLE
    WITH __rankql_pairs AS MATERIALIZED (
        SELECT x.r, x.id, greatest(c.s, x.s) AS cs, least(c.e, x.e) AS ce, c.pos, c.off + greatest(c.s, x.s) - c.s AS off
        FROM query_table(places) AS x JOIN query_table(context) AS c
             ON c.r = x.r AND c.document = x.document AND c.s < x.e AND c.e > x.s
    ), __rankql_many AS MATERIALIZED (
        SELECT id FROM __rankql_pairs GROUP BY id HAVING count(*) > 1
    ), __rankql_shared AS MATERIALIZED (
        FROM __rankql_pairs SEMI JOIN __rankql_many USING (id)
    ), __rankql_points AS (
        SELECT id, cs AS p FROM __rankql_shared UNION SELECT id, ce FROM __rankql_shared
    ), __rankql_cuts AS (
        SELECT id, p, lead(p) OVER (PARTITION BY id ORDER BY p) AS q FROM __rankql_points
    )
    SELECT id, ce - cs AS len, pos, off FROM __rankql_pairs ANTI JOIN __rankql_many USING (id)
    UNION ALL
    SELECT id, q - p, min(pos), min(off + p - cs)
    FROM __rankql_cuts JOIN __rankql_shared USING (id) WHERE cs <= p AND ce >= q GROUP BY id, p, q;

-- The different characters of the places of each ranking.
CREATE OR REPLACE MACRO rankql_characters(places) AS TABLE
    SELECT r, sum(greatest(0, e - greatest(s, coalesce(before, s)))) AS n
    FROM (SELECT r, s, e, max(e) OVER (PARTITION BY r, document ORDER BY s
                                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
          FROM query_table(places)) GROUP BY r;

-- A place as an id.
CREATE OR REPLACE MACRO rankql_span_id(document, s, e) AS CAST(document AS VARCHAR) || ':' || s || '-' || e;

-- chunks: the collection, with the columns item (NULL: the place is the id), document, start and end. spans: query, document,
-- start, end, rel, and evidence, which several spans share if one of them suffices. An evidence of which no chunk covers a relevant
-- span is a row, so that its query counts it as not found; several at one place are one row. A query without spans is judged too.
CREATE OR REPLACE MACRO span_judged(chunks, spans, cover := NULL, iou := NULL, threshold := 1) AS TABLE
    WITH __rankql_places AS (
        SELECT DISTINCT coalesce(CAST(item AS VARCHAR), rankql_span_id(document, "start", "end")) AS i,
               document, "start" AS s, "end" AS e
        FROM query_table(chunks)
    ), __rankql_chunks AS (
        SELECT * REPLACE (CASE WHEN count(*) OVER (PARTITION BY i) = 1 THEN i ELSE rankql_fail('the chunk ' || i
                          || ' is at several places. Write ids that are unique in the collection') END AS i)
        FROM __rankql_places
    ), __rankql_spans AS MATERIALIZED (
        SELECT query, document, "start" AS s, "end" AS e, CAST(rel AS DOUBLE) AS rel, rel >= threshold AS relevant,
               coalesce(CAST(evidence AS VARCHAR), rankql_span_id(document, "start", "end")) AS x
        FROM query_table(spans)
    ), __rankql_covered AS MATERIALIZED (
        SELECT query, i, rel, relevant, x, (least(c.e, p.e) - greatest(c.s, p.s)) / (p.e - p.s)::DOUBLE AS share
        FROM __rankql_spans AS p JOIN __rankql_chunks AS c ON c.document = p.document AND c.s < p.e AND c.e > p.s
        WHERE rankql_covers(least(c.e, p.e) - greatest(c.s, p.s), c.e - c.s, p.e - p.s, cover, iou)
    )
    SELECT query, i AS item, max(rel) AS rel, max(share) FILTER (WHERE rel = best) AS share,
           list_sort(list(DISTINCT x) FILTER (WHERE relevant), 'ASC', 'NULLS LAST') AS subtopics
    FROM (SELECT *, max(rel) OVER (PARTITION BY query, i) AS best FROM __rankql_covered) GROUP BY query, i
    UNION ALL
    SELECT query, i, max(rel), 0, list_sort(list(x), 'ASC', 'NULLS LAST')
    FROM (SELECT query, x, min(rankql_span_id(document, s, e)) AS i, max(rel) AS rel
          FROM __rankql_spans ANTI JOIN __rankql_covered USING (query, x, relevant)
          WHERE relevant AND s IS NOT NULL GROUP BY query, x) GROUP BY query, i
    UNION ALL
    SELECT query, 'no evidence', 0, 0, NULL FROM __rankql_spans GROUP BY query HAVING count(s) = 0
    ORDER BY ALL;
COMMENT ON MACRO TABLE span_judged IS 'Judgments of the chunks of a collection that cover a span, and of the spans that no chunk covers.';
