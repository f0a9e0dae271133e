-- What every family stands on: arguments checked and typed, tops of rankings, ties. Load this file first.
-- These helpers are not part of the interface; their names start with rankql_. A field of a variable of a lambda is read
-- as x_['pos']: in HAVING, and in a query of a table that is called x_, DuckDB would take x_.pos for a column.


-- Errors.

-- Raise an error. DuckDB's error() is volatile: it would forbid HAVING and QUALIFY by an alias of a metric, and ORDER BY
-- of a metric inside a window. This cast is not volatile and raises: "Could not convert string 'rankql: ...' to INT64".
-- A value of that map has no type of its own, so the call may stand in a CASE of any type. (An entry of [NULL] would do,
-- if DuckDB did not infer from its statistics that it is NULL, and leave the call out.)
-- Call it only as a result of a CASE, not in a condition that is constant: DuckDB works those out when it plans.
CREATE OR REPLACE MACRO rankql_fail(message) AS MAP {0: NULL}[CAST('rankql: ' || message AS BIGINT)];

-- A value, once something else is checked: NULL where that is NULL. A sum, because DuckDB works out constant conditions
-- when it plans, and an error must wait for a row.
CREATE OR REPLACE MACRO rankql_checked(value, checked) AS value + 0 * checked;

-- A value as an error shows it.
CREATE OR REPLACE MACRO rankql_text(value) AS coalesce(CAST(value AS VARCHAR), 'NULL');

-- An argument that must be a number, as an error shows it: text as text.
CREATE OR REPLACE MACRO rankql_number_text(value) AS
    CASE WHEN typeof(value) = 'VARCHAR' THEN 'the text ''' || CAST(value AS VARCHAR) || '''' ELSE rankql_text(value) END;

-- Is it text, or a list of text? (typeof() of a column is a constant: what is decided by it costs nothing.)
CREATE OR REPLACE MACRO rankql_is_text(value) AS typeof(value) SIMILAR TO '(VARCHAR|ENUM|JSON).*';

-- Is it a list?
CREATE OR REPLACE MACRO rankql_is_list(value) AS typeof(value) LIKE '%]' OR typeof(value) = '"NULL"';

-- Is the number no NaN? DuckDB 2.0 answers isnan() and comparisons of a Parquet column from its minimum and maximum,
-- which leave NaN out; isfinite() and isinf() look.
CREATE OR REPLACE MACRO rankql_no_nan(value) AS isfinite(value) OR isinf(value);


-- Arguments, checked.

-- An option as DOUBLE, NULL where it is no number.
CREATE OR REPLACE MACRO rankql_option(value) AS
    CASE WHEN typeof(value) <> 'VARCHAR' THEN TRY_CAST(value AS DOUBLE) END;

CREATE OR REPLACE MACRO rankql_threshold(threshold) AS
    CASE WHEN isfinite(rankql_option(threshold)) THEN rankql_option(threshold)
         ELSE rankql_fail('threshold must be a finite number, not ' || rankql_number_text(threshold))
    END;

-- An option that is true or false.
CREATE OR REPLACE MACRO rankql_flag(value, name) AS
    CASE rankql_text(value) WHEN 'true' THEN true
                            WHEN 'false' THEN false
                            ELSE rankql_fail(name || ' must be true or false, not ' || rankql_text(value)) END;

-- The cutoff as DOUBLE; beyond every position where there is none.
CREATE OR REPLACE MACRO rankql_cutoff(k) AS
    CASE WHEN k IS NULL THEN 9007199254740992::DOUBLE
         WHEN rankql_option(k) BETWEEN 1 AND 9007199254740992 AND rankql_option(k) = floor(rankql_option(k))
         THEN rankql_option(k)
         ELSE rankql_fail('k must be a whole number from 1, or left out for the whole ranking; not ' || rankql_number_text(k))
    END;

-- The same where it is checked elsewhere, so that an argument of max(x, k) may be made of it.
CREATE OR REPLACE MACRO rankql_limit(k) AS greatest(1, coalesce(TRY_CAST(k AS BIGINT), 9007199254740992));

-- p, the chance to look at the next item.
CREATE OR REPLACE MACRO rankql_patience(p) AS
    CASE WHEN p IS NULL THEN rankql_fail('p must be given: the chance to look at the next item, between 0 and 1')
         WHEN rankql_option(p) > 0 AND rankql_option(p) < 1 THEN rankql_option(p)
         ELSE rankql_fail('p must lie between 0 and 1, not ' || rankql_number_text(p))
    END;

-- Does the caller want the mean over all orders of tied items?
CREATE OR REPLACE MACRO rankql_expected(ties) AS
    CASE rankql_text(ties) WHEN 'item' THEN false
              WHEN 'expected' THEN true
              ELSE rankql_fail('ties must be ''item'' or ''expected'', not ' || rankql_text(ties))
    END;

-- k and ties as one number, for rankql_checked.
CREATE OR REPLACE MACRO rankql_k_and_ties(k, ties) AS rankql_cutoff(k) * CAST(rankql_expected(ties) AS DOUBLE);


-- Columns of a row, checked.

-- The grade as DOUBLE, NULL where unjudged.
CREATE OR REPLACE MACRO rankql_grade(rel) AS
    CASE WHEN rankql_is_text(rel) THEN rankql_fail('rel must be a number, not text; cast it first')
         WHEN typeof(rel) NOT IN ('FLOAT', 'DOUBLE') OR isfinite(CAST(rel AS DOUBLE)) THEN CAST(rel AS DOUBLE)
         WHEN rel IS NOT NULL THEN rankql_fail('rel must be a finite number, not ' || rankql_text(rel))
    END;

-- The grade with its negative part cut off, NULL where unjudged. (greatest() takes four times as long.)
CREATE OR REPLACE MACRO rankql_gain(rel) AS
    CASE WHEN rankql_grade(rel) < 0 THEN 0 * rankql_grade(rel) ELSE rankql_grade(rel) END;

-- 1 where relevant, 0 where judged and not relevant, NULL where unjudged.
CREATE OR REPLACE MACRO rankql_hit(rel, threshold) AS
    CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 1.0::DOUBLE
         WHEN rel IS NOT NULL THEN 0.0::DOUBLE
    END;

-- The position as DOUBLE within the cutoff; NULL beyond it and where not retrieved. A whole number may be wrong within
-- the cutoff alone, where it is looked at last.
CREATE OR REPLACE MACRO rankql_pos(pos, k, name := 'pos') AS
    CASE WHEN rankql_is_text(pos) THEN rankql_fail(name || ' must be a number, not text; cast it first')
         WHEN typeof(pos) NOT LIKE '%INT%' AND NOT (
              isfinite(CAST(pos AS DOUBLE)) AND CAST(pos AS DOUBLE) BETWEEN 1 AND 9007199254740992
              AND CAST(pos AS DOUBLE) = floor(CAST(pos AS DOUBLE)))
         THEN rankql_fail(name || ' must be a whole number from 1, not ' || rankql_text(pos))
         WHEN k IS NULL OR CAST(pos AS DOUBLE) <= rankql_cutoff(k)
         THEN CASE WHEN CAST(pos AS DOUBLE) < 1
                   THEN rankql_fail(name || ' must be a whole number from 1, not ' || rankql_text(pos))
                   ELSE CAST(pos AS DOUBLE) END
    END;

-- The position of a hit within the cutoff, else NULL. A sum, so that both arguments are checked in every row.
CREATE OR REPLACE MACRO rankql_hit_pos(rel, pos, k, threshold) AS
    rankql_pos(pos, k) + CASE WHEN rankql_hit(rel, threshold) = 1 THEN 0 END;

-- Scores: the ranking is by score descending; items of equal score are in the order of `tie`, descending.
CREATE OR REPLACE MACRO rankql_score(score) AS
    CASE WHEN rankql_is_text(score) THEN rankql_fail('score must be a number, not text; cast it first')
         WHEN score IS NULL OR rankql_no_nan(CAST(score AS DOUBLE)) THEN score
         ELSE rankql_fail('score must be a number, not nan')
    END;

-- The text bytes of an item, by which equal scores are ordered, an item that is NULL last.
CREATE OR REPLACE MACRO rankql_bytes(item) AS coalesce(encode(CAST(item AS VARCHAR)), ''::BLOB);

-- 1 where the item was clicked, 0 where it was not, NULL where it was not shown.
CREATE OR REPLACE MACRO rankql_clicked(click, name := 'click') AS
    CASE WHEN rankql_is_text(click) THEN rankql_fail(name || ' must be 0 or 1, not text; cast it first')
         WHEN isfinite(TRY_CAST(click AS DOUBLE)) AND TRY_CAST(click AS DOUBLE) IN (0, 1)
         THEN TRY_CAST(click AS DOUBLE)
         WHEN click IS NOT NULL THEN rankql_fail(name || ' must be 0 or 1, not ' || rankql_text(click))
    END;

-- What tells one value from another, and orders them, whatever the collation: text is compared by its bytes, which come
-- first, so that its letters, which a collation may take for equal, are looked at where the bytes are equal alone.
CREATE OR REPLACE MACRO rankql_key(value) AS
    {'bytes': CASE WHEN rankql_is_text(value) THEN encode(CAST(value AS VARCHAR)) END, 'value': value};

-- The key of a column of a row; of a slice that is not asked for one and the same.
CREATE OR REPLACE MACRO rankql_slice(row_, slice) AS
    rankql_key(CASE WHEN slice IS NOT NULL THEN struct_extract(row_, slice) END);

-- The key of a query or an item, which must not be missing.
CREATE OR REPLACE MACRO rankql_id(row_, name) AS
    CASE WHEN struct_extract(row_, name) IS NULL THEN rankql_fail(name || ' must not be NULL')
         ELSE rankql_key(struct_extract(row_, name)) END;


-- Of a group.

-- R, the number of relevant items of the group.
CREATE OR REPLACE MACRO rankql_relevant(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_hit(rel, threshold) = 1) AS DOUBLE);

-- The number of items that a share is taken of: k, or what was retrieved where k is left out.
CREATE OR REPLACE MACRO rankql_size(k, retrieved) AS
    CASE WHEN k IS NULL THEN CAST(retrieved AS DOUBLE) ELSE rankql_cutoff(k) END;

CREATE OR REPLACE MACRO rankql_shared() AS
    'several items share a position: GROUP BY the query, or number positions with row_number()';

-- A metric of one ranking, unless more items stand in the counted positions than there are positions.
-- (The + 1 lets DuckDB work out the position once for the count, the maximum and the discount log2(position + 1).)
CREATE OR REPLACE MACRO rankql_one_ranking(value, pos, k) AS
    CASE WHEN count(rankql_pos(pos, k) + 1) > max(rankql_pos(pos, k) + 1) - 1
         THEN rankql_fail(rankql_shared()) ELSE value END;

CREATE OR REPLACE MACRO rankql_rounding() AS 9.094947017729282e-13::DOUBLE;

-- A metric that is 1 for a perfect ranking and never more. Sums round, so what is within 2^-40 (4,096 ulps, 9.1e-13) of 1
-- is exactly 1; every engine and form has this rule. What is further above 1 has counted a position twice.
CREATE OR REPLACE MACRO rankql_at_most_one(value) AS
    list_transform([value], lambda x: CASE WHEN x > 1 + rankql_rounding() THEN rankql_fail(rankql_shared())
                                           WHEN x >= 1 - rankql_rounding() THEN 1 ELSE x END)[1];

-- The same of a metric that may be above 1.
CREATE OR REPLACE MACRO rankql_near_one(value) AS
    list_transform([value], lambda x: CASE WHEN abs(x - 1) <= rankql_rounding() THEN 1 ELSE x END)[1];


-- Lists of grades in rank order.

-- The grades of a list, each checked.
CREATE OR REPLACE MACRO rankql_grades(rels) AS
    CASE WHEN rankql_is_text(rels) THEN rankql_fail('rel must be a number, not text; cast it first')
         ELSE list_transform(CAST(rels AS DOUBLE[]), lambda x: rankql_grade(x))
    END;

-- A grade that stands in a list more often than in the list of all judged grades; NULL where there is none.
CREATE OR REPLACE MACRO rankql_lacking(ideal, rels) AS
    list_transform([{'rels': list_aggregate(rels, 'histogram'), 'ideal': list_aggregate(ideal, 'histogram')}],
        lambda counts_: list_min(list_filter(map_keys(counts_['rels']), lambda grade:
            counts_['rels'][grade] > coalesce(counts_['ideal'][grade], 0))))[1];

-- The grades of all judged items: those of `ideal`, or of the list itself, which is checked also where they are not.
CREATE OR REPLACE MACRO rankql_judged(ideal, rels) AS
    CASE WHEN ideal IS NULL THEN rankql_grades(rels)
         WHEN NOT rankql_is_list(ideal)
         THEN rankql_fail('ideal must be a list of grades, not ' || rankql_text(ideal))
         WHEN rels IS NOT NULL THEN list_transform([rankql_lacking(rankql_grades(ideal), rankql_grades(rels))],
            lambda lacking: CASE
                WHEN lacking IS NULL THEN rankql_grades(ideal)
                ELSE rankql_fail('ideal must contain every grade of the list, as often; it lacks a '
                                 || rankql_text(lacking)
                                 || '. Pass the grades of all judged items, retrieved or not') END)[1]
    END;

-- The first k of a list.
CREATE OR REPLACE MACRO rankql_top(list, k) AS list[:CAST(rankql_cutoff(k) AS BIGINT)];

-- The sum of a list: 0 where it is empty, NULL where there is no list.
CREATE OR REPLACE MACRO rankql_sum(list) AS
    CASE WHEN list IS NOT NULL THEN coalesce(list_sum(list), 0) END;

-- 1 or 0 for each grade of a list, NULL where unjudged.
CREATE OR REPLACE MACRO rankql_hits(rels, threshold) AS
    list_transform(rankql_grades(rels), lambda x: rankql_hit(x, threshold));

-- Where the ones stand in a list of hits.
CREATE OR REPLACE MACRO rankql_ones(hits) AS
    list_filter(list_transform(hits, lambda hit, i: CASE WHEN hit = 1 THEN i END), lambda i: i IS NOT NULL);

-- The positions of the hits in a list within the cutoff.
CREATE OR REPLACE MACRO rankql_hit_positions(rels, k, threshold) AS
    rankql_ones(rankql_top(rankql_hits(rels, threshold), k));

-- R of a list of grades.
CREATE OR REPLACE MACRO rankql_list_relevant(rels, threshold) AS
    rankql_sum(rankql_hits(rels, threshold));


-- A user who walks down the list.

-- One step of a user who walks down the list: `stop` where the walk ends with that chance, `utility` if it does.
CREATE OR REPLACE MACRO rankql_step(pos, stop, utility) AS
    {'pos': CAST(pos AS DOUBLE), 'left': 1 - CAST(stop AS DOUBLE), 'gain': CAST(stop * utility AS DOUBLE)};

-- The expected utility of a walk: the steps, in order of position, follow one another while the user is left.
CREATE OR REPLACE MACRO rankql_walk(steps) AS
    list_reduce(
        list_concat([rankql_step(0, 0, 0)], steps),
        lambda a_, b_: {'pos': b_['pos'], 'left': a_['left'] * b_['left'], 'gain': a_['gain'] + a_['left'] * b_['gain']}
    ).gain;


-- Rankings by score, and ties.

CREATE OR REPLACE MACRO rankql_ranking(value, score, tie) AS
    coalesce(list_sort(
        list({'score': rankql_score(score), 'tie': tie, 'value': CAST(value AS DOUBLE)})
            FILTER (WHERE score IS NOT NULL), 'DESC', 'NULLS LAST'), []);

CREATE OR REPLACE MACRO rankql_values(ranking) AS list_transform(ranking, lambda x_: x_['value']);

-- A ranking cut into groups of equal score: where each begins, and its values.
-- (`list_transform([x], lambda name: ...)[1]` gives x a name. A slice would copy the whole list for each group.)
CREATE OR REPLACE MACRO rankql_tied(ranking) AS
    list_transform([ranking], lambda items:
        list_transform([list_filter(range(1, len(items) + 1),
                                    lambda i: i = len(items) OR items[i].score <> items[i + 1].score)], lambda ends:
            list_transform(ends, lambda hi, g: {
                'lo': coalesce(ends[g - 1], 0) + 1,
                'values': list_transform(range(coalesce(ends[g - 1], 0) + 1, hi + 1), lambda i: items[i].value)
            }))[1])[1];

-- The same of hits, counted: m items from position lo, r of them relevant, n judged and not relevant.
CREATE OR REPLACE MACRO rankql_tied_hits(hit, score) AS
    list_transform(rankql_tied(rankql_ranking(hit, score, NULL)), lambda tied_: {
        'lo': tied_['lo'],
        'm': len(tied_['values']),
        'r': coalesce(list_sum(tied_['values']), 0),
        'n': list_count(tied_['values']) - coalesce(list_sum(tied_['values']), 0)});

-- A ranking by score as the list forms take it: its grades in order, and those of all judged items.
CREATE OR REPLACE MACRO rankql_lists(rel, score, item) AS
    {'rels': rankql_values(rankql_ranking(rankql_grade(rel), score, rankql_bytes(item))),
     'ideal': coalesce(list(rankql_grade(rel)), [])};

-- The values in rank order; with ties 'expected' each tied item has the mean of its peers, unjudged counting 0, NULL
-- where all are unjudged: what is linear in the values is then its own exact mean over all orders.
CREATE OR REPLACE MACRO rankql_by_score(value, score, item, ties) AS
    CASE WHEN rankql_expected(ties)
         THEN flatten(list_transform(
                rankql_tied(rankql_ranking(value, score, NULL)),
                lambda tied_: list_resize(
                    CAST([] AS DOUBLE[]), len(tied_['values']), list_sum(tied_['values']) / len(tied_['values']))))
         ELSE rankql_values(rankql_ranking(value, score, rankql_bytes(item)))
    END;

-- The chance, by position, of the first hit to stand there if none came before:
-- r / (m - t + 1) for the t-th of a tied group.
CREATE OR REPLACE MACRO rankql_first_hit(hit, score) AS
    flatten(list_transform(rankql_tied_hits(hit, score), lambda tied_:
        list_transform(range(1, tied_['m'] + 1), lambda t: least(1, tied_['r'] / (tied_['m'] - t + 1)))));


-- Tables.

-- A table of scores with the column `pos` added, the columns named by text. struct_insert() refuses to add it twice.
CREATE OR REPLACE MACRO ranked(scores, query := 'user', item := 'item', score := 'score') AS TABLE
    SELECT unnest(struct_insert(rankql_row, pos :=
        CASE WHEN rankql_score(struct_extract(rankql_row, score)) IS NOT NULL THEN row_number() OVER (
            PARTITION BY CASE WHEN query IS NOT NULL THEN struct_extract(rankql_row, query) END
            ORDER BY struct_extract(rankql_row, score) DESC NULLS LAST,
                     rankql_bytes(struct_extract(rankql_row, item)) DESC NULLS LAST) END))
    FROM query_table(scores) AS rankql_row;
COMMENT ON MACRO TABLE ranked IS 'The table with `pos`, the position of each item by its score within its query.';

-- What is read from a table, by the name that an error gives it: grades, scores and positions, from numbers or text.
CREATE OR REPLACE MACRO rankql_is_rel(value) AS isfinite(value);

CREATE OR REPLACE MACRO rankql_is_score(value) AS rankql_no_nan(value);

CREATE OR REPLACE MACRO rankql_is_pos(value) AS
    isfinite(value) AND value BETWEEN 1 AND 9007199254740992 AND value = floor(value);

CREATE OR REPLACE MACRO rankql_read(value, valid, name, must) AS
    CASE WHEN valid THEN TRY_CAST(value AS DOUBLE)
         WHEN value IS NOT NULL THEN rankql_fail(name || ' must be ' || must || ', not ' || CAST(value AS VARCHAR))
    END;

CREATE OR REPLACE MACRO rankql_read_rel(value, name) AS
    rankql_read(value, rankql_is_rel(TRY_CAST(value AS DOUBLE)), name, 'a finite number');

CREATE OR REPLACE MACRO rankql_read_score(value, name) AS
    rankql_read(value, rankql_is_score(TRY_CAST(value AS DOUBLE)), name, 'a number');

CREATE OR REPLACE MACRO rankql_read_pos(value, name) AS
    rankql_read(value, rankql_is_pos(TRY_CAST(value AS DOUBLE)), name, 'a whole number from 1');

-- Rounded to 32 bits, as trec_eval's scores are; what is too large for them is infinite.
CREATE OR REPLACE MACRO rankql_float32(score) AS
    CASE WHEN score IS NOT NULL THEN coalesce(
        TRY_CAST(score AS FLOAT), CASE WHEN score > 0 THEN 'inf'::FLOAT ELSE '-inf'::FLOAT END) END;

-- Which columns come back: no keys, and the slice where there is one.
CREATE OR REPLACE MACRO rankql_handed(name, slice) AS
    name NOT IN ('s', 'a', 'b') AND (slice IS NOT NULL OR name <> 'slice');


-- Quantiles.

-- A polynomial, by its coefficients from the highest power down.
CREATE OR REPLACE MACRO rankql_polynomial(coefficients, x) AS
    list_reduce(coefficients, lambda sum, next: sum * x + next);

-- The value below which a standard normal variable lies with the chance p, to 16 digits: Wichura 1988, AS 241.
CREATE OR REPLACE MACRO rankql_normal_quantile(p) AS
    list_transform([{'q': CAST(p AS DOUBLE) - 0.5,
                     'r': sqrt(-ln(least(CAST(p AS DOUBLE), 1 - CAST(p AS DOUBLE))))}], lambda x_:
        CASE WHEN abs(x_['q']) <= 0.425
             THEN x_['q'] * rankql_polynomial(
                    [2509.0809287301227e0, 33430.57558358813e0, 67265.7709270087e0, 45921.95393154987e0,
                     13731.69376550946e0, 1971.5909503065513e0, 133.14166789178438e0, 3.3871328727963665e0],
                    0.180625 - x_['q'] * x_['q'])
                  / rankql_polynomial(
                    [5226.495278852854e0, 28729.085735721943e0, 39307.89580009271e0, 21213.794301586597e0,
                     5394.196021424751e0, 687.1870074920579e0, 42.31333070160091e0, 1e0],
                    0.180625 - x_['q'] * x_['q'])
             WHEN x_['r'] <= 5
             THEN sign(x_['q']) * rankql_polynomial(
                    [0.0007745450142783414e0, 0.022723844989269184e0, 0.2417807251774506e0,
                     1.2704582524523684e0, 3.6478483247632045e0, 5.769497221460691e0, 4.630337846156546e0,
                     1.4234371107496835e0],
                    x_['r'] - 1.6)
                  / rankql_polynomial(
                    [1.0507500716444169e-09, 0.0005475938084995345e0, 0.015198666563616457e0,
                     0.14810397642748008e0, 0.6897673349851e0, 1.6763848301838038e0, 2.053191626637759e0, 1e0],
                    x_['r'] - 1.6)
             ELSE sign(x_['q']) * rankql_polynomial(
                    [2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784e0,
                     0.026532189526576124e0, 0.29656057182850487e0, 1.7848265399172913e0, 5.463784911164114e0,
                     6.657904643501103e0],
                    x_['r'] - 5)
                  / rankql_polynomial(
                    [2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05,
                     0.0007868691311456133e0, 0.014875361290850615e0, 0.1369298809227358e0, 0.599832206555888e0,
                     1e0],
                    x_['r'] - 5)
        END)[1];

-- ln(cosh(u)), without loss of digits where u is small.
CREATE OR REPLACE MACRO rankql_log_cosh(u) AS asinh(sinh(u) * tanh(u) / 2);

-- ln(B(1/2, a)) of the beta function. A series from 15 on, where the difference of two lgamma() loses digits.
CREATE OR REPLACE MACRO rankql_log_beta_half(a) AS
    ln(pi()) / 2 + CASE
        WHEN a < 15 THEN lgamma(a) - lgamma(a + 0.5)
        ELSE rankql_polynomial([-17 / 14336, 1 / 640, -1 / 192, 1 / 8], 1 / (a * a)) / a - ln(a) / 2 END;

-- The integral of exp(height - df * ln(cosh(x))) from middle - half to middle + half, by Gauss-Legendre quadrature with
-- 32 nodes: 16 are listed with their weights, the other 16 mirror them.
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

-- The quantile of Student's t distribution with `df` degrees of freedom: the value below which it lies with
-- probability p. NULL where p is not between 0 and 1 or df is not above 0.
--
-- With t = sqrt(df) * sinh(u), u has the density cosh(u)^-df / B(1/2, df/2). Newton's method finds u, from the quantile
-- of the normal distribution: where p is between 0.1 and 0.9 on the integral from 0 to u, else on the logarithm of the
-- integral from u to where the density has fallen by a factor of exp(-30). Above 1e13 degrees of freedom the normal
-- distribution has the same digits.
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

-- How many standard errors an interval of this confidence reaches to either side.
CREATE OR REPLACE MACRO rankql_z(confidence) AS
    CASE WHEN rankql_option(confidence) > 0 AND rankql_option(confidence) < 1
         THEN -rankql_normal_quantile((1 - rankql_option(confidence)) / 2)
         ELSE rankql_fail('confidence must lie between 0 and 1, not ' || rankql_number_text(confidence))
    END;
