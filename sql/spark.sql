-- DuckDB's functions in Spark's SQL (rankql/engines/translation.py). Functions called here are Spark's, except rankql_ macros.
-- As in DuckDB, the list of an empty group is NULL, and lists keep NULL entries.

-- DuckDB's name of the type.
CREATE OR REPLACE MACRO typeof(value) AS
    replace(replace(upper(typeof(value)), 'STRING', 'VARCHAR'), 'VOID', '"NULL"');

CREATE OR REPLACE MACRO rankql_is_text(value) AS typeof(value) RLIKE '^(array<)?(string|varchar|char)';

CREATE OR REPLACE MACRO rankql_kind(value) AS CASE WHEN rankql_is_text(value) THEN 'text' ELSE typeof(value) END;

CREATE OR REPLACE MACRO rankql_is_numeric(value) AS typeof(value) RLIKE '^((tiny|small|big)?int|float|double|decimal.*|void)$';

CREATE OR REPLACE MACRO rankql_holds_no_numbers(value) AS NOT (rankql_is_numeric(value) OR typeof(value) = 'boolean');

-- Spark computes conditions on the type while it plans, so integers are not checked in every row.
CREATE OR REPLACE MACRO rankql_is_integer(value) AS typeof(value) RLIKE '^(tiny|small|big)?int$';

-- Short checks of rows, because they are most of the text of a metric.
CREATE OR REPLACE MACRO rankql_refuse_rel(rel) AS raise_error('rel must be a finite number, not ' || rel);

CREATE OR REPLACE MACRO rankql_grade(rel) AS
    CASE WHEN rankql_holds_no_numbers(rel) THEN raise_error('rel must be a number, not ' || rankql_kind(rel) || '. Cast it first')
         WHEN rankql_is_integer(rel) OR abs(CAST(rel AS DOUBLE)) < CAST('Infinity' AS DOUBLE) THEN CAST(rel AS DOUBLE)
         WHEN rel IS NOT NULL THEN rankql_refuse_rel(rel) END;

CREATE OR REPLACE MACRO rankql_grades(rels) AS
    CASE WHEN typeof(rels) RLIKE 'string|char' THEN raise_error('rel must be a number, not text. Cast it first')
         ELSE transform(CAST(rels AS ARRAY<DOUBLE>), x -> CASE
             WHEN abs(x) < CAST('Infinity' AS DOUBLE) THEN x
             WHEN x IS NOT NULL THEN rankql_refuse_rel(x) END) END;

CREATE OR REPLACE MACRO rankql_hits(rels, threshold) AS
    transform(rankql_grades(rels), x -> CAST(x >= rankql_threshold(threshold) AS DOUBLE));

CREATE OR REPLACE MACRO rankql_if_positive(rel) AS CASE WHEN TRY_CAST(rel AS DOUBLE) < 0D THEN 0D ELSE 1D END;

CREATE OR REPLACE MACRO rankql_is_literal(value) AS false;

CREATE OR REPLACE MACRO rankql_hit(rel, threshold) AS CAST(rankql_grade(rel) >= rankql_threshold(threshold) AS DOUBLE);

CREATE OR REPLACE MACRO rankql_pos(pos, k) AS
    CASE WHEN NOT rankql_is_numeric(pos) THEN raise_error('pos must be a number, not ' || rankql_kind(pos) || '. Cast it first')
         WHEN CAST(pos AS DOUBLE) >= 1 AND CAST(pos AS DOUBLE) <= 9007199254740992
              AND (rankql_is_integer(pos) OR CAST(pos AS DOUBLE) % 1 = 0)
         THEN CASE WHEN k IS NULL OR CAST(pos AS DOUBLE) <= rankql_cutoff(k) THEN CAST(pos AS DOUBLE) END
         WHEN pos IS NOT NULL THEN raise_error('pos must be a whole number from 1, not ' || pos) END;

CREATE OR REPLACE MACRO rankql_retrieved(pos, k) AS count(rankql_pos(pos, k));

-- A bit for each position from `first` on, of 63.
CREATE OR REPLACE MACRO rankql_bits_from(pos, k, first) AS
    coalesce(bit_count(bit_or(CASE WHEN TRY_CAST(pos AS DOUBLE) BETWEEN first AND least(first + 62, rankql_cutoff(k))
                                   THEN shiftleft(1L, CAST(pos AS INT) - first) END)), 0);

-- The number of different positions within the cutoff: bits up to 126, and a set of those beyond.
CREATE OR REPLACE MACRO rankql_different(pos, k) AS
    rankql_bits_from(pos, k, 1) + CASE WHEN rankql_cutoff(k) > 63 THEN rankql_bits_from(pos, k, 64) ELSE 0 END
    + CASE WHEN rankql_cutoff(k) > 126 THEN array_size(collect_set(CASE
        WHEN TRY_CAST(pos AS DOUBLE) > 126 AND TRY_CAST(pos AS DOUBLE) <= rankql_cutoff(k) THEN CAST(pos AS DOUBLE) END)) ELSE 0 END;

-- Counts and lists, where DuckDB has bits.
CREATE OR REPLACE MACRO rankql_in_bits(k) AS false;

CREATE OR REPLACE MACRO rankql_counts_grades(rel, discounts, ideal) AS false;

CREATE OR REPLACE MACRO rankql_hit_count(rel, pos, k, threshold) AS
    rankql_one_ranking(count(rankql_hit_pos(rel, pos, k, threshold)), pos, k);

CREATE OR REPLACE MACRO rankql_packed_hits(rel, pos, k, threshold) AS rankql_hit_count(rel, pos, k, threshold);

-- No grade is read here, but each is checked. A product with 0 would be computed without its count.
CREATE OR REPLACE MACRO rankql_packed_dcg(rel, pos, k, discounts) AS
    rankql_one_ranking(CASE WHEN count(rankql_grade(rel)) >= 0 THEN 0 END, pos, k);

CREATE OR REPLACE MACRO rankql_first_pos(rel, pos, k, threshold) AS
    rankql_one_ranking(min(rankql_hit_pos(rel, pos, k, threshold)), pos, k);

CREATE OR REPLACE MACRO rankql_score(score) AS
    CASE WHEN rankql_holds_no_numbers(score) THEN raise_error('score must be a number, not ' || rankql_kind(score) || '. Cast it first')
         WHEN isnan(CAST(score AS DOUBLE)) THEN raise_error('score must be a number, not nan') ELSE score END;

CREATE OR REPLACE MACRO rankql_option(value) AS CASE WHEN rankql_is_numeric(value) THEN TRY_CAST(value AS DOUBLE) END;

CREATE OR REPLACE MACRO rankql_is_list(value) AS typeof(value) RLIKE '^(array<|void)';

CREATE OR REPLACE MACRO rankql_fail(message) AS raise_error(message);

CREATE OR REPLACE MACRO rankql_refuse(message) AS raise_error(message);

-- In Spark NaN is above all numbers.
CREATE OR REPLACE MACRO isfinite(value) AS abs(value) < CAST('Infinity' AS DOUBLE);

CREATE OR REPLACE MACRO encode(text) AS CAST(text AS BINARY);

CREATE OR REPLACE MACRO hash(value) AS xxhash64(value);

CREATE OR REPLACE MACRO rankql_exact(text) AS CAST(text AS STRING);

CREATE OR REPLACE MACRO rankql_texts(list) AS CAST(list AS ARRAY<STRING>);

-- DuckDB writes fractions differently, which would order equal scores differently.
CREATE OR REPLACE MACRO rankql_bytes(item) AS
    CASE WHEN typeof(item) RLIKE '^(string|varchar|char|tinyint|smallint|int|bigint|void)'
         THEN coalesce(CAST(CAST(item AS STRING) AS BINARY), CAST('' AS BINARY))
         ELSE CAST(raise_error('item must be text or a whole number. Cast it first') AS BINARY) END;

-- Lists.

CREATE OR REPLACE MACRO rankql_keep(list) AS get(filter(array(list), x -> array_size(x) > 0), 0);

CREATE OR REPLACE MACRO list(value) AS
    transform(rankql_keep(collect_list(struct(value AS value))), x -> x.value);

-- The k largest, best first.
CREATE OR REPLACE MACRO max(value, k) AS
    slice(sort_array(rankql_keep(collect_list(value)), false), 1, CAST(least(k, 2147483647) AS INT));

CREATE OR REPLACE MACRO any_value(value) AS any_value(value, true);

CREATE OR REPLACE MACRO len(list) AS CAST(array_size(list) AS BIGINT);

CREATE OR REPLACE MACRO list_count(list) AS CAST(array_size(filter(list, x -> x IS NOT NULL)) AS BIGINT);

CREATE OR REPLACE MACRO list_sum(list) AS
    aggregate(list, CAST(NULL AS DOUBLE), (total, x) -> coalesce(total + x, x, total));

CREATE OR REPLACE MACRO rankql_sum(list) AS aggregate(list, 0D, (total, x) -> total + coalesce(x, 0D));

CREATE OR REPLACE MACRO list_avg(list) AS
    aggregate(list, struct(CAST(NULL AS DOUBLE) AS total, 0L AS n),
              (a, x) -> struct(coalesce(a.total + x, x, a.total) AS total, a.n + CAST(x IS NOT NULL AS BIGINT) AS n),
              a -> a.total / nullif(a.n, 0));

CREATE OR REPLACE MACRO list_min(list) AS array_min(list);

CREATE OR REPLACE MACRO list_max(list) AS array_max(list);

CREATE OR REPLACE MACRO list_unique(list) AS
    CAST(array_size(array_distinct(filter(list, x -> x IS NOT NULL))) AS BIGINT);

CREATE OR REPLACE MACRO list_concat(one, other) AS concat(coalesce(one, array()), coalesce(other, array()));

CREATE OR REPLACE MACRO list_reduce(list, step) AS
    get(transform(array(list), x -> aggregate(slice(x, 2, 2147483647), get(x, 0), step)), 0);

CREATE OR REPLACE MACRO rankql_walk(steps) AS
    coalesce(aggregate(steps, struct(1D AS left, 0D AS gain),
                       (a, b) -> struct(a.left * b.left AS left, a.gain + a.left * b.gain AS gain), a -> a.gain), 0D);

CREATE OR REPLACE MACRO list_resize(list, n, value) AS
    slice(concat(list, array_repeat(CAST(value AS DOUBLE), CAST(n AS INT))), 1, CAST(n AS INT));

CREATE OR REPLACE MACRO list_inner_product(one, other) AS
    aggregate(zip_with(one, other, (x, y) -> x * y), CAST(0 AS DOUBLE), (total, x) -> total + x);

-- Always false (k is checked): Spark would compute the weights for every group.
CREATE OR REPLACE MACRO rankql_few(k) AS rankql_cutoff(k) < 1;

CREATE OR REPLACE MACRO list_grade_up(list, direction, nulls) AS
    transform(array_sort(transform(list, (x, i) -> struct(x AS x, i + 1L AS i))), x -> x.i);

CREATE OR REPLACE MACRO range(low, high) AS
    slice(sequence(CAST(low AS BIGINT), CAST(greatest(low, high - 1) AS BIGINT)), 1, CAST(greatest(0, high - low) AS INT));

-- The number of pairs of different grades, counted in sorted order.
CREATE OR REPLACE MACRO rankql_pairs(grades) AS
    aggregate(sort_array(grades), struct(CAST(NULL AS DOUBLE) AS grade, 0L AS run, 0L AS n, 0D AS pairs),
              (a, grade) -> CASE WHEN grade = a.grade
                  THEN struct(grade AS grade, a.run + 1L AS run, a.n + 1L AS n, a.pairs + a.n - a.run AS pairs)
                  ELSE struct(grade AS grade, 1L AS run, a.n + 1L AS n, a.pairs + a.n AS pairs) END,
              a -> a.pairs);

-- Histograms.

CREATE OR REPLACE MACRO rankql_lacking(ideal, rels, every) AS
    get(transform(array(struct(ideal AS ideal, rels AS rels)), lists ->
        array_min(filter(array_distinct(lists.rels), grade ->
            (every OR grade > 0) AND array_size(filter(lists.rels, x -> x = grade)) > array_size(filter(lists.ideal, x -> x = grade))))), 0);

-- The hits of all rankings, at most k of each, or as many as it retrieves: in sorted order, those without a hit of the same ranking k places before.
CREATE OR REPLACE MACRO rankql_hits_wanted(rel, pos, k, threshold, query) AS
    CASE WHEN k IS NULL
         THEN CAST(get(transform(
            array(struct(sort_array(collect_list(struct(query AS query)) FILTER (WHERE rankql_hit(rel, threshold) = 1)) AS hits,
                         collect_list(struct(query AS query)) FILTER (WHERE pos IS NOT NULL) AS shown)),
            both -> array_size(filter(both.hits, (hit, i) ->
                i + 1 - array_position(both.hits, hit) < array_size(filter(both.shown, item -> item <=> hit))))), 0) AS DOUBLE)
         WHEN rankql_slots(pos, k, query) >= 0
         THEN CAST(get(transform(
            array(sort_array(collect_list(struct(query AS query)) FILTER (WHERE rankql_hit(rel, threshold) = 1))),
            hits -> array_size(filter(hits, (hit, i) ->
                i < rankql_cutoff(k) OR NOT hit <=> get(hits, CAST(i - rankql_cutoff(k) AS INT))))), 0) AS DOUBLE)
    END;
