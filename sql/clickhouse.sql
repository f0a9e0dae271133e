-- DuckDB's functions in ClickHouse's SQL (rankql/engines/translation.py). Functions called here are ClickHouse's, except
-- rankql_ macros. Lists are never NULL: that of an empty group is empty. The casts of the macros make values Nullable.

-- DuckDB's name of the type.
CREATE OR REPLACE MACRO rankql_type(value) AS
    replace(replace(replace(replace(
        upper(extract(toTypeName(value), '^(?:Nullable\\(|LowCardinality\\()*([^)]*)')),
        'NOTHING', '"NULL"'), 'STRING', 'VARCHAR'), 'FLOAT64', 'DOUBLE'), 'FLOAT32', 'FLOAT');

-- Raised by rankql/engines/clickhouse_errors.py.
CREATE OR REPLACE MACRO rankql_fail(message) AS error(message);

CREATE OR REPLACE MACRO typeof(value) AS rankql_type(value);

CREATE OR REPLACE MACRO rankql_is_text(value) AS
    match(toTypeName(value), '^(Array\\(|Nullable\\(|LowCardinality\\()*(String|FixedString|Enum)');

CREATE OR REPLACE MACRO rankql_is_literal(value) AS false;

CREATE OR REPLACE MACRO isfinite(value) AS isFinite(value);

CREATE OR REPLACE MACRO isinf(value) AS isInfinite(value);

CREATE OR REPLACE MACRO encode(text) AS toString(text);

CREATE OR REPLACE MACRO hash(value) AS cityHash64(toString(value));

CREATE OR REPLACE MACRO contains(text, part) AS position(text, part) > 0;

-- DuckDB writes fractions differently, which would order equal scores differently.
CREATE OR REPLACE MACRO rankql_bytes(item) AS
    CASE WHEN match(toTypeName(item), '^(Nullable\\(|LowCardinality\\()*(String|FixedString|Enum|UInt|Int|Nothing)')
         THEN coalesce(toString(item), '')
         ELSE toString(error('item must be text or a whole number. Cast it first')) END;

-- Lists.

-- In tuples, because groupArray drops NULL.
CREATE OR REPLACE MACRO list(value) AS arrayMap(x -> tupleElement(x, 1), groupArray(tuple(value)));

-- The k largest, best first.
CREATE OR REPLACE MACRO max(value, k) AS arraySlice(arrayReverseSort(groupArray(value)), 1, k);

CREATE OR REPLACE MACRO any_value(value) AS any(value);

CREATE OR REPLACE MACRO len(list) AS toInt64(length(list));

CREATE OR REPLACE MACRO flatten(list) AS arrayFlatten(list);

CREATE OR REPLACE MACRO list_count(list) AS toInt64(arrayCount(x -> isNotNull(x), list));

CREATE OR REPLACE MACRO list_sum(list) AS arrayReduce('sumOrNull', list);

CREATE OR REPLACE MACRO list_avg(list) AS arrayReduce('avgOrNull', list);

CREATE OR REPLACE MACRO list_min(list) AS arrayReduce('minOrNull', list);

CREATE OR REPLACE MACRO list_max(list) AS arrayReduce('maxOrNull', list);

CREATE OR REPLACE MACRO list_unique(list) AS toInt64(arrayReduce('uniqExact', list));

CREATE OR REPLACE MACRO list_concat(one, other) AS arrayConcat(one, other);

CREATE OR REPLACE MACRO list_reduce(list, step) AS arrayFold(step, arraySlice(list, 2), arrayElement(list, 1));

CREATE OR REPLACE MACRO list_resize(list, n, value) AS arrayResize(list, n, value);

CREATE OR REPLACE MACRO list_inner_product(one, other) AS arraySum((x, y) -> x * y, one, other);

CREATE OR REPLACE MACRO rankql_retrieved(pos, k) AS count(rankql_pos(pos, k));

-- Always false: a loop over the few gains is faster than a product with the weights.
CREATE OR REPLACE MACRO rankql_few(k) AS false;

-- One way for all k, without the two branches of DuckDB.
CREATE OR REPLACE MACRO rankql_best(grade, positive, k) AS
    arraySlice(arrayReverseSort(groupArray(grade) FILTER (WHERE positive)), 1, rankql_limit(k));

-- The hits of all rankings, at most k of each.
CREATE OR REPLACE MACRO rankql_hits_wanted(rel, pos, k, threshold, query) AS
    CASE WHEN rankql_slots(pos, k, query) >= 0
         THEN toFloat64(arrayCount(n -> n <= rankql_cutoff(k), arrayEnumerateUniq(
                groupArray(concat(toString(isNull(query)), ifNull(toString(query), '')))
                    FILTER (WHERE rankql_hit(rel, threshold) = 1)))) END;

-- ClickHouse has no type for a CASE of an error or a list.
CREATE OR REPLACE MACRO rankql_grades(rels) AS arrayMap(x -> rankql_grade(x), rels);

CREATE OR REPLACE MACRO rankql_lacking(ideal, rels) AS
    arrayElementOrNull(arraySort(arrayFilter(grade ->
        countEqual(rels, grade) > countEqual(ideal, grade), arrayDistinct(rels))), 1);

CREATE OR REPLACE MACRO rankql_judged(ideal, rels) AS
    CASE WHEN ideal IS NULL THEN rankql_grades(rels) ELSE arraySlice(rankql_grades(ideal), 1 + CASE
        WHEN rankql_lacking(rankql_grades(ideal), rankql_grades(rels)) IS NOT NULL
        THEN rankql_fail('ideal must contain every grade of the list, at least as often. It lacks a '
                         || rankql_text(rankql_lacking(rankql_grades(ideal), rankql_grades(rels)))
                         || '. Pass the grades of all judged items, retrieved or not')
        ELSE 0 END) END;

CREATE OR REPLACE MACRO list_grade_up(list, direction, nulls) AS
    arrayMap(x -> tupleElement(x, 2), arraySort(arrayZip(list, arrayEnumerate(list))));

CREATE OR REPLACE MACRO range(low, high) AS
    range(toInt64(coalesce(low, 0)), toInt64(coalesce(high + 0 * low, low, 0)));

-- The number of pairs of different grades: all pairs minus those of equal grades.
CREATE OR REPLACE MACRO rankql_pairs(grades) AS
    toInt64(length(grades)) * (toInt64(length(grades)) - 1) / 2 - arraySum(n -> n - 1, arrayEnumerateUniq(grades));

-- A list and an error have no common type: other values fail in the cast.
CREATE OR REPLACE MACRO rankql_discounts(discounts) AS accurateCast(discounts, 'Array(Nullable(Float64))');

-- In lambdas ClickHouse computes branches that are not taken: with stop 'rel' the scale must not fail.
CREATE OR REPLACE MACRO rankql_stop_gain(rel, max_rel, stop) AS
    CASE WHEN rankql_text(stop) = 'exp2' THEN rankql_scaled(rel, CASE WHEN rankql_text(stop) = 'rel' THEN 1 ELSE max_rel END)
         WHEN rankql_text(stop) <> 'rel' THEN rankql_fail('stop must be ''exp2'' or ''rel'', not ' || rankql_text(stop))
         WHEN max_rel IS NOT NULL THEN rankql_fail('max_rel is for stop ''exp2'', not for ''rel''')
         WHEN rankql_grade(rel) NOT BETWEEN 0 AND 1
         THEN rankql_fail('rel must lie between 0 and 1 for stop ''rel'', not ' || rankql_text(rel))
         ELSE rankql_grade(rel)
    END;
