-- What every family stands on: arguments checked and typed, tops of rankings, ties. Load this file first.
-- These helpers are not part of the interface; their names start with rankql_. A variable of a lambda whose fields are
-- read ends with _: in a query of a table that is called x, x.pos would be the column of that table.

-- A value as an error shows it.
CREATE OR REPLACE MACRO rankql_text(value) AS coalesce(CAST(value AS VARCHAR), 'NULL');

-- Is it text, or a list of text? (typeof() of a column is a constant: what is decided by it costs nothing.)
CREATE OR REPLACE MACRO rankql_is_text(value) AS typeof(value) SIMILAR TO '(VARCHAR|ENUM|JSON).*';

-- Is the number no NaN? DuckDB 2.0 answers isnan() and comparisons of a Parquet column from its minimum and maximum,
-- which leave NaN out; isfinite() and isinf() look.
CREATE OR REPLACE MACRO rankql_no_nan(value) AS isfinite(value) OR isinf(value);

-- The grade as DOUBLE, NULL where unjudged.
CREATE OR REPLACE MACRO rankql_grade(rel) AS
    CASE WHEN rankql_is_text(rel) THEN error('rel must be a number, not text; cast it first')
         WHEN typeof(rel) NOT IN ('FLOAT', 'DOUBLE') OR isfinite(CAST(rel AS DOUBLE)) THEN CAST(rel AS DOUBLE)
         WHEN rel IS NOT NULL THEN error('rel must be a finite number, not ' || rankql_text(rel))
    END;

-- The grade with its negative part cut off, NULL where unjudged. (greatest() takes four times as long.)
CREATE OR REPLACE MACRO rankql_gain(rel) AS
    CASE WHEN rankql_grade(rel) < 0 THEN 0 * rankql_grade(rel) ELSE rankql_grade(rel) END;

-- An option as DOUBLE, NULL where it is no number.
CREATE OR REPLACE MACRO rankql_option(value) AS
    CASE WHEN typeof(value) <> 'VARCHAR' THEN TRY_CAST(value AS DOUBLE) END;

CREATE OR REPLACE MACRO rankql_threshold(threshold) AS
    CASE WHEN isfinite(rankql_option(threshold)) THEN rankql_option(threshold)
         ELSE error('threshold must be a finite number, not ' || rankql_text(threshold))
    END;

-- 1 where relevant, 0 where judged and not relevant, NULL where unjudged.
CREATE OR REPLACE MACRO rankql_hit(rel, threshold) AS
    CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 1.0::DOUBLE
         WHEN rel IS NOT NULL THEN 0.0::DOUBLE
    END;

-- An option that is true or false.
CREATE OR REPLACE MACRO rankql_flag(value, name) AS
    CASE rankql_text(value) WHEN 'true' THEN true
                            WHEN 'false' THEN false
                            ELSE error(name || ' must be true or false, not ' || rankql_text(value)) END;

-- The cutoff as DOUBLE; beyond every position where there is none.
CREATE OR REPLACE MACRO rankql_cutoff(k) AS
    CASE WHEN k IS NULL THEN 9007199254740992::DOUBLE
         WHEN rankql_option(k) BETWEEN 1 AND 9007199254740992 AND rankql_option(k) = floor(rankql_option(k))
         THEN rankql_option(k)
         ELSE error('k must be a whole number from 1, or left out for the whole ranking; not ' || rankql_text(k))
    END;

-- The same where it is checked elsewhere, so that an argument of max(x, k) may be made of it.
CREATE OR REPLACE MACRO rankql_limit(k) AS greatest(1, coalesce(TRY_CAST(k AS BIGINT), 9007199254740992));

-- The position as DOUBLE within the cutoff; NULL beyond it and where not retrieved. A whole number may be wrong within
-- the cutoff alone, where it is looked at last.
CREATE OR REPLACE MACRO rankql_pos(pos, k, name := 'pos') AS
    CASE WHEN rankql_is_text(pos) THEN error(name || ' must be a number, not text; cast it first')
         WHEN typeof(pos) NOT LIKE '%INT%' AND NOT (
              isfinite(CAST(pos AS DOUBLE)) AND CAST(pos AS DOUBLE) BETWEEN 1 AND 9007199254740992
              AND CAST(pos AS DOUBLE) = floor(CAST(pos AS DOUBLE)))
         THEN error(name || ' must be a whole number from 1, not ' || rankql_text(pos))
         WHEN k IS NULL OR CAST(pos AS DOUBLE) <= rankql_cutoff(k)
         THEN CASE WHEN CAST(pos AS DOUBLE) < 1
                   THEN error(name || ' must be a whole number from 1, not ' || rankql_text(pos))
                   ELSE CAST(pos AS DOUBLE) END
    END;

-- The position of a hit within the cutoff, else NULL. A sum, so that both arguments are checked in every row.
CREATE OR REPLACE MACRO rankql_hit_pos(rel, pos, k, threshold) AS
    rankql_pos(pos, k) + CASE WHEN rankql_hit(rel, threshold) = 1 THEN 0 END;

-- R, the number of relevant items of the group.
CREATE OR REPLACE MACRO rankql_relevant(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_hit(rel, threshold) = 1) AS DOUBLE);

-- p, the chance to look at the next item.
CREATE OR REPLACE MACRO rankql_patience(p) AS
    CASE WHEN p IS NULL THEN error('p must be given: the chance to look at the next item, between 0 and 1')
         WHEN rankql_option(p) > 0 AND rankql_option(p) < 1 THEN rankql_option(p)
         ELSE error('p must lie between 0 and 1, not ' || rankql_text(p))
    END;

-- The grades of a list, each checked.
CREATE OR REPLACE MACRO rankql_grades(rels) AS
    CASE WHEN rankql_is_text(rels) THEN error('rel must be a number, not text; cast it first')
         ELSE list_transform(CAST(rels AS DOUBLE[]), lambda x: rankql_grade(x))
    END;

-- The grades of all judged items: those of `ideal`, or of the list itself, which is checked also where they are not.
CREATE OR REPLACE MACRO rankql_judged(ideal, rels) AS
    CASE WHEN list_count(rankql_grades(rels)) >= 0 THEN coalesce(rankql_grades(ideal), rankql_grades(rels)) END;

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

-- The number of items that a share is taken of: k, or what was retrieved where k is left out.
CREATE OR REPLACE MACRO rankql_size(k, retrieved) AS
    CASE WHEN k IS NULL THEN CAST(retrieved AS DOUBLE) ELSE rankql_cutoff(k) END;

-- One step of a user who walks down the list: `stop` where the walk ends with that chance, `utility` if it does.
CREATE OR REPLACE MACRO rankql_step(pos, stop, utility) AS
    {'pos': CAST(pos AS DOUBLE), 'left': 1 - CAST(stop AS DOUBLE), 'gain': CAST(stop * utility AS DOUBLE)};

-- The expected utility of a walk: the steps, in order of position, follow one another while the user is left.
CREATE OR REPLACE MACRO rankql_walk(steps) AS
    list_reduce(
        list_concat([rankql_step(0, 0, 0)], steps),
        lambda a_, b_: {'pos': b_.pos, 'left': a_.left * b_.left, 'gain': a_.gain + a_.left * b_.gain}
    ).gain;

-- Scores: the ranking is by score descending; items of equal score are in the order of `tie`, descending.
CREATE OR REPLACE MACRO rankql_score(score) AS
    CASE WHEN rankql_is_text(score) THEN error('score must be a number, not text; cast it first')
         WHEN score IS NULL OR rankql_no_nan(CAST(score AS DOUBLE)) THEN score
         ELSE error('score must be a number, not nan')
    END;

CREATE OR REPLACE MACRO rankql_ranking(value, score, tie) AS
    coalesce(list_sort(
        list({'score': rankql_score(score), 'tie': tie, 'value': CAST(value AS DOUBLE)})
            FILTER (WHERE score IS NOT NULL), 'DESC', 'NULLS LAST'), []);

-- The text bytes of an item, by which equal scores are ordered, an item that is NULL last.
CREATE OR REPLACE MACRO rankql_bytes(item) AS coalesce(encode(CAST(item AS VARCHAR)), ''::BLOB);

CREATE OR REPLACE MACRO rankql_values(ranking) AS list_transform(ranking, lambda x_: x_.value);

-- Does the caller want the mean over all orders of tied items?
CREATE OR REPLACE MACRO rankql_expected(ties) AS
    CASE ties WHEN 'item' THEN false
              WHEN 'expected' THEN true
              ELSE error('ties must be ''item'' or ''expected'', not ' || rankql_text(ties))
    END;

-- 0, once k and ties are found in order: what R is compared with before anything else is worked out.
CREATE OR REPLACE MACRO rankql_none(k, ties) AS 0 * rankql_cutoff(k) * CAST(rankql_expected(ties) AS DOUBLE);

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
        'lo': tied_.lo,
        'm': len(tied_.values),
        'r': coalesce(list_sum(tied_.values), 0),
        'n': list_count(tied_.values) - coalesce(list_sum(tied_.values), 0)});

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
                    CAST([] AS DOUBLE[]), len(tied_.values), list_sum(tied_.values) / len(tied_.values))))
         ELSE rankql_values(rankql_ranking(value, score, rankql_bytes(item)))
    END;

-- The chance, by position, of the first hit to stand there if none came before:
-- r / (m - t + 1) for the t-th of a tied group.
CREATE OR REPLACE MACRO rankql_first_hit(hit, score) AS
    flatten(list_transform(rankql_tied_hits(hit, score), lambda tied_:
        list_transform(range(1, tied_.m + 1), lambda t: least(1, tied_.r / (tied_.m - t + 1)))));


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
         WHEN value IS NOT NULL THEN error(name || ' must be ' || must || ', not ' || CAST(value AS VARCHAR))
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

-- 1 where the item was clicked, 0 where it was not, NULL where it was not shown.
CREATE OR REPLACE MACRO rankql_clicked(click, name := 'click') AS
    CASE WHEN rankql_is_text(click) THEN error(name || ' must be 0 or 1, not text; cast it first')
         WHEN isfinite(TRY_CAST(click AS DOUBLE)) AND TRY_CAST(click AS DOUBLE) IN (0, 1)
         THEN TRY_CAST(click AS DOUBLE)
         WHEN click IS NOT NULL THEN error(name || ' must be 0 or 1, not ' || rankql_text(click))
    END;

-- What tells one value from another, and orders them, whatever the collation: text is compared by its bytes, which come
-- first, so that its letters, which a collation may take for equal, are looked at where the bytes are equal alone.
CREATE OR REPLACE MACRO rankql_key(value) AS
    {'bytes': CASE WHEN rankql_is_text(value) THEN encode(CAST(value AS VARCHAR)) END, 'value': value};

-- Which columns come back: no keys, and the slice where there is one.
CREATE OR REPLACE MACRO rankql_handed(name, slice) AS
    name NOT IN ('s', 'a', 'b') AND (slice IS NOT NULL OR name <> 'slice');

-- A polynomial, by its coefficients from the highest power down.
CREATE OR REPLACE MACRO rankql_polynomial(coefficients, x) AS
    list_reduce(coefficients, lambda sum, next: sum * x + next);

-- The value below which a standard normal variable lies with the chance p, to 16 digits: Wichura 1988, AS 241.
CREATE OR REPLACE MACRO rankql_normal_quantile(p) AS
    list_transform([{'q': CAST(p AS DOUBLE) - 0.5,
                     'r': sqrt(-ln(least(CAST(p AS DOUBLE), 1 - CAST(p AS DOUBLE))))}], lambda x_:
        CASE WHEN abs(x_.q) <= 0.425
             THEN x_.q * rankql_polynomial(
                    [2509.0809287301227e0, 33430.57558358813e0, 67265.7709270087e0, 45921.95393154987e0,
                     13731.69376550946e0, 1971.5909503065513e0, 133.14166789178438e0, 3.3871328727963665e0],
                    0.180625 - x_.q * x_.q)
                  / rankql_polynomial(
                    [5226.495278852854e0, 28729.085735721943e0, 39307.89580009271e0, 21213.794301586597e0,
                     5394.196021424751e0, 687.1870074920579e0, 42.31333070160091e0, 1e0],
                    0.180625 - x_.q * x_.q)
             WHEN x_.r <= 5
             THEN sign(x_.q) * rankql_polynomial(
                    [0.0007745450142783414e0, 0.022723844989269184e0, 0.2417807251774506e0,
                     1.2704582524523684e0, 3.6478483247632045e0, 5.769497221460691e0, 4.630337846156546e0,
                     1.4234371107496835e0],
                    x_.r - 1.6)
                  / rankql_polynomial(
                    [1.0507500716444169e-09, 0.0005475938084995345e0, 0.015198666563616457e0,
                     0.14810397642748008e0, 0.6897673349851e0, 1.6763848301838038e0, 2.053191626637759e0, 1e0],
                    x_.r - 1.6)
             ELSE sign(x_.q) * rankql_polynomial(
                    [2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784e0,
                     0.026532189526576124e0, 0.29656057182850487e0, 1.7848265399172913e0, 5.463784911164114e0,
                     6.657904643501103e0],
                    x_.r - 5)
                  / rankql_polynomial(
                    [2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05,
                     0.0007868691311456133e0, 0.014875361290850615e0, 0.1369298809227358e0, 0.599832206555888e0,
                     1e0],
                    x_.r - 5)
        END)[1];

-- How many standard errors an interval of this confidence reaches to either side.
CREATE OR REPLACE MACRO rankql_z(confidence) AS
    CASE WHEN rankql_option(confidence) > 0 AND rankql_option(confidence) < 1
         THEN -rankql_normal_quantile((1 - rankql_option(confidence)) / 2)
         ELSE error('confidence must lie between 0 and 1, not ' || rankql_text(confidence))
    END;
