-- DuckDB's functions in ClickHouse's SQL, for rankql/translation.py: here, the functions called are those of
-- ClickHouse, but for what begins with rankql_. A list is never NULL there: one of an empty group is empty. What may be
-- without a value is of a type that may be NULL, which the casts of the macros see to.

-- What type a value has, as DuckDB calls it.
CREATE OR REPLACE MACRO rankql_type(value) AS
    replace(replace(replace(replace(
        upper(extract(toTypeName(value), '^(?:Nullable\\(|LowCardinality\\()*([^)]*)')),
        'NOTHING', '"NULL"'), 'STRING', 'VARCHAR'), 'FLOAT64', 'DOUBLE'), 'FLOAT32', 'FLOAT');

CREATE OR REPLACE MACRO typeof(value) AS rankql_type(value);

CREATE OR REPLACE MACRO rankql_is_text(value) AS
    match(toTypeName(value), '^(Array\\(|Nullable\\(|LowCardinality\\()*(String|FixedString|Enum)');

CREATE OR REPLACE MACRO isfinite(value) AS isFinite(value);

CREATE OR REPLACE MACRO isinf(value) AS isInfinite(value);

CREATE OR REPLACE MACRO encode(text) AS toString(text);

CREATE OR REPLACE MACRO contains(text, part) AS position(text, part) > 0;

-- Numbers that are no whole ones are not the same text in DuckDB, and equal scores would be in another order.
CREATE OR REPLACE MACRO rankql_bytes(item) AS
    CASE WHEN match(toTypeName(item), '^(Nullable\\(|LowCardinality\\()*(String|FixedString|Enum|UInt|Int|Nothing)')
         THEN coalesce(toString(item), '')
         ELSE toString(error('item must be text or a whole number; cast it first')) END;

-- Lists.

-- In tuples, for a NULL would be left out.
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

-- Never a product with the weights: a walk over the few gains is quicker.
CREATE OR REPLACE MACRO rankql_few(k) AS false;

-- Both ways to keep the k largest would be gone.
CREATE OR REPLACE MACRO rankql_best(grade, k) AS
    arraySlice(arrayReverseSort(groupArray(grade) FILTER (WHERE grade > 0)), 1, rankql_limit(k));

-- A CASE that is an error or a list has no type.
CREATE OR REPLACE MACRO rankql_grades(rels) AS arrayMap(x -> rankql_grade(x), rels);

CREATE OR REPLACE MACRO rankql_judged(ideal, rels) AS
    arraySlice(coalesce(rankql_grades(ideal), rankql_grades(rels)), 1 + 0 * length(rankql_grades(rels)));

CREATE OR REPLACE MACRO list_grade_up(list, direction, nulls) AS
    arrayMap(x -> tupleElement(x, 2), arraySort(arrayZip(list, arrayEnumerate(list))));

CREATE OR REPLACE MACRO range(low, high) AS
    range(toInt64(coalesce(low, 0)), toInt64(coalesce(high + 0 * low, low, 0)));

-- The number of pairs of different grades: all, but those of each with the equal ones before it.
CREATE OR REPLACE MACRO rankql_pairs(grades) AS
    toInt64(length(grades)) * (toInt64(length(grades)) - 1) / 2 - arraySum(n -> n - 1, arrayEnumerateUniq(grades));
