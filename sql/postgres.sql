-- {% macro postgres_functions() %}{% raw %}
-- (This is a comment, but not for dbt, to which the file is the text of a macro.)
-- The metrics of one ranking as aggregates of Postgres, tested on 15 and 18:
--     SELECT "user", ndcg(rel, pos, 10) FROM shown GROUP BY "user";
-- Run it with `psql -f`. The functions go into the current schema, the first of search_path that exists. For another one, run
-- SET search_path TO metrics before, or let `rankql sql --engine postgres --schema metrics` write it.
-- Options follow in the order of DuckDB, and those at the end may be left out. k NULL is the complete ranking.
-- The file can be run again. It replaces its own functions, which it knows by their comments, and no others.

BEGIN;

-- The functions call each other by bare names until the last block.
SET LOCAL check_function_bodies = off;

DO $check$
DECLARE
    name text;
BEGIN
    IF current_schema() IS NULL THEN
        RAISE EXCEPTION 'rankql: no schema of search_path (%) exists. Create it first', current_setting('search_path');
    END IF;
    SELECT format('%I.%I(%s)', current_schema(), p.proname, pg_get_function_identity_arguments(p.oid)) INTO name FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = to_regnamespace(quote_ident(current_schema()))
        AND (p.proname LIKE 'rankql\_%' OR p.proname IN (
            'exp2_gain', 'cg', 'dcg', 'idcg', 'ndcg', 'precision_at', 'recall_at', 'f1_at', 'hit_at', 'all_rel_at', 'r_precision', 'ap',
            'interpolated_precision', 'set_ap', 'infap', 'bpref', 'judged_at', 'num_ret', 'num_rel', 'num_rel_ret',
            'false_answer', 'false_abstention', 'forbidden_at', 'rr', 'arhr', 'err', 'nerr', 'rbp', 'rbp_residual', 'rmse', 'mse', 'mae'))
        AND coalesce(obj_description(p.oid, 'pg_proc'), '') NOT LIKE 'rankql: %'
    ORDER BY p.oid LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'rankql: your function % would be replaced. Rename it, or install into another schema: SET search_path', name;
    END IF;
END $check$;

-- Errors.

CREATE OR REPLACE FUNCTION rankql_text(value float8) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE value WHEN 'NaN' THEN 'nan' WHEN 'Infinity' THEN 'inf' WHEN '-Infinity' THEN '-inf'
        ELSE coalesce(value::text, 'NULL') END
$$;

CREATE OR REPLACE FUNCTION rankql_fail(message text) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RAISE EXCEPTION 'rankql: %', message;
END $$;

-- What is wrong with a row. `was` is the cutoff of the rows before.
CREATE OR REPLACE FUNCTION rankql_refuse(rel float8, pos float8, k float8, was float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN rankql_fail(CASE
        WHEN k < 1 OR k > 9007199254740992 OR k <> floor(k)
        THEN 'k must be a whole number from 1, not ' || rankql_text(k) || '. Leave k out for the complete ranking'
        WHEN pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos)
        THEN 'pos must be a whole number from 1, not ' || rankql_text(pos) || CASE
            WHEN pos = 0 THEN '. Position 1 is the top: add 1, or is the order rel, pos?'
            WHEN pos <> floor(pos) THEN '. If it is a score, rank by it first, with row_number()' ELSE '' END
        WHEN abs(rel) > 1.7976931348623157e308 THEN 'rel must be a finite number, not ' || rankql_text(rel)
        ELSE 'k must be the same in all rows of a group, not ' || rankql_text(was) || ' and ' || rankql_text(k) END);
END $$;

CREATE OR REPLACE FUNCTION rankql_threshold(threshold float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF threshold IS NULL OR abs(threshold) > 1.7976931348623157e308 THEN
        PERFORM rankql_fail('threshold must be a finite number, not ' || rankql_text(threshold));
    END IF;
    RETURN threshold;
END $$;

-- The place of a word among those allowed, from 0.
CREATE OR REPLACE FUNCTION rankql_choice(name text, value text, words text[]) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    quoted text := '''' || array_to_string(words[:cardinality(words) - 1], ''', ''') || ''' or '''
        || words[cardinality(words)] || '''';
BEGIN
    RETURN coalesce(array_position(words, value) - 1, rankql_fail(
        name || ' must be ' || quoted || ', not ' || coalesce(value, 'NULL')));
END $$;

CREATE OR REPLACE FUNCTION rankql_patience(p float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF p > 0 AND p < 1 THEN RETURN p; END IF;
    RETURN rankql_fail('p must lie between 0 and 1, not ' || rankql_text(p));
END $$;

CREATE OR REPLACE FUNCTION rankql_scale(max_rel float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF max_rel > 0 AND max_rel <= 1.7976931348623157e308 THEN RETURN max_rel; END IF;
    RETURN rankql_fail('max_rel must be a finite number above 0, not ' || rankql_text(max_rel));
END $$;

-- The state of an aggregate is an array: 1 k, 2 to 4 the positions within k up to 46, 92 and 138, 5 to 7 sums, 8 a minimum, 9 items
-- beyond 138, 10 the first and 11 the last of their positions, 12 and 13 options. From 14 on: positions or pairs of items. In that
-- of gain, what differs starts at 12. A cell of positions is the sum of 2^47 + 2^position: the items, and a bit for each position.
-- Sums, grades and hits are all that grows, because Postgres copies a state for each row.

CREATE OR REPLACE FUNCTION rankql_start(k float8, one float8 DEFAULT NULL, other float8 DEFAULT NULL) RETURNS float8[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY[coalesce(k, 9007199254740992), 0, 0, 0, 0, 0, 0, 9007199254740992, 0, 9007199254740992, 0, one, other]::float8[]
$$;

-- With the position of an item. Where an aggregate steps, these lines stand in place of the call, which would take longer.
CREATE OR REPLACE FUNCTION rankql_place(s float8[], pos float8) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos <= s[1] THEN
        IF pos <= 46 THEN
            s[2] := s[2] + (140737488355328 + 2 ^ pos);
        ELSIF pos <= 92 THEN
            s[3] := s[3] + (140737488355328 + 2 ^ (pos - 46));
        ELSIF pos <= 138 THEN
            s[4] := s[4] + (140737488355328 + 2 ^ (pos - 92));
        ELSE
            s[9:11] := ARRAY[s[9] + 1, least(s[10], pos), greatest(s[11], pos)];
        END IF;
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_merge_places(a float8[], b float8[]) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF a[1] <> b[1] THEN PERFORM rankql_refuse(NULL, NULL, b[1], a[1]); END IF;
    a[2:4] := ARRAY[a[2] + b[2], a[3] + b[3], a[4] + b[4]];
    a[9:11] := ARRAY[a[9] + b[9], least(a[10], b[10]), greatest(a[11], b[11])];
    RETURN a;
END $$;

CREATE OR REPLACE FUNCTION rankql_merge(a float8[], b float8[]) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    a := rankql_merge_places(a, b);
    a[5:8] := ARRAY[a[5] + b[5], a[6] + b[6], a[7] + b[7], least(a[8], b[8])];
    RETURN a || b[14:];
END $$;

CREATE OR REPLACE FUNCTION rankql_shared() RETURNS void LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_fail('several items share a position: if a join repeats an item, keep one row per query and item. If the group '
        || 'holds several queries, add the query to GROUP BY. If items are tied, number positions with row_number()');
END $$;

-- The items of a cell of positions, and how many of them share one: 2^46 items and more are an error before.
CREATE OR REPLACE FUNCTION rankql_repeated(cell float8) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (cell::bigint >> 47) - bit_count((cell::bigint & 140737488355327)::bit(64))
$$;

-- The items with a position within k.
CREATE OR REPLACE FUNCTION rankql_items(s float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT s[9] + (s[2]::bigint >> 47) + (s[3]::bigint >> 47) + (s[4]::bigint >> 47)
$$;

-- An error if two items share a position up to 138, for which a sum of powers of 2 has fewer bits than summands (those that are
-- carried only make more items), or if there are more items beyond than positions from the first to the last.
CREATE OR REPLACE FUNCTION rankql_one_ranking(s float8[]) RETURNS void LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF greatest(s[2], s[3], s[4]) >= 9007199254740992 OR s[9] > greatest(s[11] - s[10] + 1, 0) THEN
        PERFORM rankql_shared();
    ELSIF rankql_repeated(s[2]) > 0 OR rankql_repeated(s[3]) > 0 OR rankql_repeated(s[4]) > 0 THEN
        PERFORM rankql_shared();
    END IF;
END $$;

-- A metric without a cutoff, with a place for one as the others have it: a threshold there would be another number.
CREATE OR REPLACE FUNCTION rankql_no_cutoff(s float8[], name text) RETURNS void LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF s[12] IS NOT NULL THEN
        PERFORM rankql_fail(format('%s has no cutoff. A threshold is the fourth argument: %s(rel, pos, NULL, %s)',
                                   name, name, rankql_text(s[12])));
    END IF;
END $$;

-- A metric that is at most 1. Values within 2^-40 of 1 are 1, because sums round.
CREATE OR REPLACE FUNCTION rankql_at_most_one(value float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF value > 1 + 9.094947017729282e-13 THEN
        PERFORM rankql_shared();
    END IF;
    RETURN CASE WHEN value >= 1 - 9.094947017729282e-13 THEN 1 ELSE value END;
END $$;

-- 2^x and p^x. Postgres raises an error where they are too small for a number.
CREATE OR REPLACE FUNCTION rankql_power(base float8, x float8) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN x * ln(base) > -700 THEN power(base, x) ELSE 0 END
$$;

-- Gain: 5 is the sum of the positive grades by discount, 6 that of the negative ones, 7 ln(base), 8 whether the negative ones
-- count. From 12 on: minus the discounts, and the positive grades, each with minus its number, highest first as far as cell 60.
-- This is written for speed: no function is called for an ordinary row.

CREATE OR REPLACE FUNCTION rankql_gain_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL,
    discounts float8[] DEFAULT NULL, base float8 DEFAULT 2, ideal text DEFAULT 'judged', negative text DEFAULT 'zero'
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    i int;
BEGIN
    -- What is not an ordinary row.
    IF s IS NULL OR rel < 0 OR discounts IS NOT NULL OR coalesce(k, 9007199254740992) <> s[1]
       OR pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308 THEN
        IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308
           OR k < 1 OR k > 9007199254740992 OR k <> floor(k) OR coalesce(k, 9007199254740992) <> s[1] THEN
            PERFORM rankql_refuse(rel, pos, k, s[1]);
        END IF;
        IF s IS NULL THEN
            s := ARRAY[coalesce(k, 9007199254740992), 0, 0, 0, 0, 0, 0.6931471805599453, 0, 0, 9007199254740992, 0];
            IF (discounts IS NULL AND base = 2 AND ideal = 'judged' AND negative = 'zero') IS NOT TRUE THEN
                s := rankql_gain_options(s, discounts, base, ideal, negative);
            END IF;
        END IF;
        IF (rel < 0 OR discounts IS NOT NULL AND rel = 0) AND pos <= s[1] THEN
            s[6] := s[6] + rel / CASE WHEN discounts IS NULL THEN ln(pos + 1) ELSE rankql_discount(discounts, pos) END;
        END IF;
    END IF;
    IF rel > 0 THEN
        -- First, because it copies a state that has changed.
        i := CASE WHEN ideal = 'judged' OR pos IS NOT NULL THEN coalesce(array_position(s, rel, 12), 0) ELSE -1 END;
        IF i > 0 THEN
            s[i + 1] := s[i + 1] - 1;
        ELSIF i = 0 THEN
            i := cardinality(s) + 1;
            WHILE i > 13 AND i < 60 AND s[i - 2] < rel AND (discounts IS NULL OR s[i - 2] > 0) LOOP
                s[i + 1] := s[i - 1];
                s[i] := s[i - 2];
                i := i - 2;
            END LOOP;
            s[i] := rel;
            s[i + 1] := -1;
            IF i >= 60 AND i > 68 + 4 * s[1] THEN s := rankql_gain_sorted(s); END IF;
        END IF;
        IF pos <= coalesce(k, 9007199254740992) THEN
            s[5] := s[5] + rel / CASE WHEN discounts IS NULL THEN ln(pos + 1) ELSE rankql_discount(discounts, pos) END;
        END IF;
    END IF;
    s := rankql_place(s, pos);
    RETURN s;
END $$;

-- The discounts that the ideal may take, the smallest first.
CREATE OR REPLACE FUNCTION rankql_gain_options(s float8[], discounts float8[], base float8, ideal text, negative text)
RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    discount float8;
BEGIN
    PERFORM rankql_choice('ideal', ideal, '{judged,retrieved}');
    s[8] := rankql_choice('negative', negative, '{zero,keep}');
    IF discounts IS NULL THEN
        IF base IS NULL OR base <= 1 OR base > 1.7976931348623157e308 THEN
            PERFORM rankql_fail('base must be a finite number above 1, not ' || rankql_text(base));
        END IF;
        s[7] := ln(base);
        RETURN s;
    END IF;
    FOREACH discount IN ARRAY discounts LOOP
        IF discount IS NULL OR discount <= 0 OR discount > 1.7976931348623157e308 THEN
            PERFORM rankql_fail('discounts must be finite numbers above 0, not ' || rankql_text(discount));
        END IF;
    END LOOP;
    s[7] := 1;
    RETURN s || ARRAY(SELECT -d FROM unnest(discounts[:least(s[1], cardinality(discounts))]) AS d ORDER BY d);
END $$;

CREATE OR REPLACE FUNCTION rankql_discount(discounts float8[], pos float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos > cardinality(discounts) THEN
        PERFORM rankql_fail('discounts has ' || cardinality(discounts) || ' entries, but position ' || pos
            || ' is counted: give more, or a lower k');
    END IF;
    RETURN discounts[pos::int];
END $$;

-- The first grade, after the discounts.
CREATE OR REPLACE FUNCTION rankql_gain_first(s float8[]) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    i int := 12;
BEGIN
    WHILE s[i] < 0 LOOP i := i + 1; END LOOP;
    RETURN i;
END $$;

-- With the k highest grades, in order.
CREATE OR REPLACE FUNCTION rankql_gain_sorted(s float8[]) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    first CONSTANT int := rankql_gain_first(s);
BEGIN
    RETURN s[:first - 1] || ARRAY(
        SELECT unnest(ARRAY[grade, number]) FROM (
            SELECT s[i] AS grade, sum(s[i + 1]) AS number FROM generate_series(first, cardinality(s), 2) AS i
            GROUP BY s[i] ORDER BY s[i] DESC LIMIT s[1]::bigint) AS grades);
END $$;

CREATE OR REPLACE FUNCTION rankql_gain_merge(a float8[], b float8[]) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    i int;
    j int := rankql_gain_first(b);
BEGIN
    a := rankql_merge_places(a, b);
    a[5:6] := ARRAY[a[5] + b[5], a[6] + b[6]];
    IF cardinality(a) + cardinality(b) >= 60 THEN
        RETURN rankql_gain_sorted(a || b[j:]);
    END IF;
    WHILE j < cardinality(b) LOOP
        i := array_position(a, b[j], 12);
        IF i IS NULL THEN
            i := cardinality(a) + 1;
            WHILE i > 13 AND a[i - 2] BETWEEN 0 AND b[j] LOOP
                a[i + 1] := a[i - 1];
                a[i] := a[i - 2];
                i := i - 2;
            END LOOP;
            a[i] := b[j];
            a[i + 1] := b[j + 1];
        ELSE
            a[i + 1] := a[i + 1] + b[j + 1];
        END IF;
        j := j + 2;
    END LOOP;
    RETURN a;
END $$;

-- The ideal, without the factor ln(base). NULL if no grade is positive.
CREATE OR REPLACE FUNCTION rankql_ideal(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    first int := 12;
    i int;
    place int := 0;
    last int;
    total float8;
BEGIN
    IF cardinality(s) >= 60 THEN s := rankql_gain_sorted(s); END IF;
    WHILE s[first] < 0 LOOP first := first + 1; END LOOP;
    i := first;
    WHILE s[i] > 0 AND place < s[1] LOOP
        last := least(s[1], place - s[i + 1]);
        total := coalesce(total, 0);
        IF first = 12 THEN
            FOR n IN place + 2..last + 1 LOOP total := total + s[i] / ln(n::float8); END LOOP;
        ELSIF last > first - 12 THEN
            PERFORM rankql_discount(s[12:first - 1], greatest(place + 1, first - 11));
        ELSE
            FOR n IN place + 12..last + 11 LOOP total := total - s[i] / s[n]; END LOOP;
        END IF;
        place := last;
        i := i + 2;
    END LOOP;
    RETURN total;
END $$;

CREATE OR REPLACE FUNCTION rankql_dcg(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce((s[5] + s[6]) * s[7], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_idcg(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(rankql_ideal(s) * s[7], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_ndcg(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    value float8;
BEGIN
    PERFORM rankql_one_ranking(s);
    value := (s[5] + CASE WHEN s[8] = 1 THEN s[6] ELSE 0 END) / rankql_ideal(s);
    RETURN CASE WHEN value < 1 - 9.094947017729282e-13 THEN value ELSE rankql_at_most_one(value) END;
END $$;

-- Sums of grades within k: 5 is the sum, 6 the number of judged items. 7 is the number of grades below 0, 8 their first position.

CREATE OR REPLACE FUNCTION rankql_grades_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308
       OR k < 1 OR k > 9007199254740992 OR k <> floor(k) OR coalesce(k, 9007199254740992) <> s[1] THEN
        PERFORM rankql_refuse(rel, pos, k, s[1]);
    END IF;
    s := coalesce(s, rankql_start(k, k));
    IF rel < 0 THEN s[7:8] := ARRAY[s[7] + 1, least(s[8], pos)]; END IF;
    s := rankql_place(s, pos);
    IF pos <= s[1] AND rel IS NOT NULL THEN s[5:6] := ARRAY[s[5] + rel, s[6] + 1]; END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_cg(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(s[5], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_judged_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(s[6] / greatest(coalesce(s[12], rankql_items(s)), 1), 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_forbidden_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[7] > 0 THEN (s[8] <= coalesce(s[12], 9007199254740991))::int END;
END $$;

CREATE OR REPLACE FUNCTION rankql_num_ret(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(rankql_items(s), 0);
END $$;

-- Hits: 5 those within k, 6 all relevant items, 7 the sum of 1 / position, 8 the first position, 12 k, 13 the denominator.

CREATE OR REPLACE FUNCTION rankql_hits_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL,
    threshold float8 DEFAULT 1, denominator text DEFAULT 'k'
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308
       OR k < 1 OR k > 9007199254740992 OR k <> floor(k) OR coalesce(k, 9007199254740992) <> s[1] THEN
        PERFORM rankql_refuse(rel, pos, k, s[1]);
    END IF;
    IF s IS NULL THEN
        PERFORM rankql_threshold(threshold);
        s := rankql_start(k, k, rankql_choice('denominator', denominator, '{k,retrieved,min}'));
    END IF;
    s := rankql_place(s, pos);
    IF rel >= threshold THEN
        s[6] := s[6] + 1;
        IF pos <= s[1] THEN
            s[5] := s[5] + 1;
            s[7:8] := ARRAY[s[7] + 1 / pos, least(s[8], pos)];
        END IF;
    END IF;
    RETURN s;
END $$;

-- What the hits are divided by.
CREATE OR REPLACE FUNCTION rankql_denominator(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE s[13] WHEN 0 THEN coalesce(s[12], rankql_items(s)) WHEN 1 THEN rankql_items(s)
        ELSE least(coalesce(s[12], rankql_items(s)), s[6]) END;
END $$;

CREATE OR REPLACE FUNCTION rankql_precision_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce(s[5] / greatest(rankql_denominator(s), 1), 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_recall_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN s[5] / nullif(s[6], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_f1_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[6] > 0 THEN 2 * s[5] / (rankql_denominator(s) + s[6]) END;
END $$;

CREATE OR REPLACE FUNCTION rankql_hit_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[6] > 0 THEN (s[5] > 0)::int END;
END $$;

CREATE OR REPLACE FUNCTION rankql_all_rel_at(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[6] > 0 THEN (s[5] = s[6])::int END;
END $$;

CREATE OR REPLACE FUNCTION rankql_set_ap(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_no_cutoff(s, 'set_ap');
    RETURN rankql_precision_at(s) * rankql_recall_at(s);
END $$;

CREATE OR REPLACE FUNCTION rankql_num_rel(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_no_cutoff(s, 'num_rel');
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(s[6], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_num_rel_ret(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(s[5], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_false_abstention(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_no_cutoff(s, 'false_abstention');
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[6] > 0 THEN (rankql_items(s) = 0)::int END;
END $$;

CREATE OR REPLACE FUNCTION rankql_rr(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[6] > 0 THEN CASE WHEN s[5] > 0 THEN 1 / s[8] ELSE 0 END END;
END $$;

CREATE OR REPLACE FUNCTION rankql_arhr(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[6] > 0 THEN s[7] END;
END $$;

-- Positions of the hits within k, from 14 on. 6 is the number of relevant items, 12 k, 13 an option.

CREATE OR REPLACE FUNCTION rankql_places_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL,
    threshold float8 DEFAULT 1, denominator text DEFAULT 'min'
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308
       OR k < 1 OR k > 9007199254740992 OR k <> floor(k) OR coalesce(k, 9007199254740992) <> s[1] THEN
        PERFORM rankql_refuse(rel, pos, k, s[1]);
    END IF;
    IF s IS NULL THEN
        PERFORM rankql_threshold(threshold);
        s := rankql_start(k, k, rankql_choice('denominator', denominator, '{min,R,found,k}'));
    END IF;
    s := rankql_place(s, pos);
    IF rel >= threshold THEN
        s[6] := s[6] + 1;
        IF pos <= s[1] THEN s := s || pos; END IF;
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_ap(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    precisions float8;
BEGIN
    PERFORM rankql_one_ranking(s);
    SELECT coalesce(sum(i / p), 0) INTO precisions
    FROM (SELECT p, row_number() OVER (ORDER BY p) AS i FROM unnest(s[14:]) AS p) AS hits;
    RETURN rankql_at_most_one(CASE WHEN s[6] > 0 THEN precisions / greatest(1, CASE s[13]
        WHEN 0 THEN least(s[1], s[6]) WHEN 1 THEN s[6] WHEN 2 THEN cardinality(s) - 13 ELSE coalesce(s[12], rankql_items(s)) END) END);
END $$;

CREATE OR REPLACE FUNCTION rankql_r_precision(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_no_cutoff(s, 'r_precision');
    PERFORM rankql_one_ranking(s);
    RETURN (SELECT count(*) FROM unnest(s[14:]) AS p WHERE p <= s[6]) / nullif(s[6], 0);
END $$;

-- Of interpolated precision, 12 is the recall, and 13 what rounds the number of hits that it needs.
CREATE OR REPLACE FUNCTION rankql_recall_step(s float8[], rel float8, pos float8, recall float8 DEFAULT NULL,
    threshold float8 DEFAULT 1, rounding text DEFAULT 'up'
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308 THEN
        PERFORM rankql_refuse(rel, pos, NULL, NULL);
    END IF;
    IF s IS NULL THEN
        PERFORM rankql_threshold(threshold);
        IF recall < 0 OR recall > 1 THEN
            PERFORM rankql_fail('recall must lie between 0 and 1, not ' || rankql_text(recall));
        END IF;
        s := rankql_start(NULL, recall, 0.9 - 0.4 * rankql_choice('rounding', rounding, '{up,nearest}'));
    END IF;
    s := rankql_place(s, pos);
    IF rel >= threshold THEN
        s[6] := s[6] + 1;
        IF pos IS NOT NULL THEN s := s || pos; END IF;
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_interpolated_precision(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    value float8;
BEGIN
    PERFORM rankql_one_ranking(s);
    IF s IS NULL OR s[6] = 0 THEN RETURN NULL; END IF;
    SELECT avg(best) INTO value FROM (
        SELECT coalesce((SELECT max(i / p) FROM (SELECT p, row_number() OVER (ORDER BY p) AS i FROM unnest(s[14:]) AS p) AS hits
                         WHERE i >= floor(recall * s[6] + s[13])), 0) AS best
        FROM unnest(CASE WHEN s[12] IS NULL THEN ARRAY(SELECT tenth / 10.0::float8 FROM generate_series(0, 10) AS tenth)
                         ELSE s[12:12] END) AS recall) AS bests;
    RETURN value;
END $$;

-- Judged items: pairs of position and 1 for a hit, 0 for another judged item, -1 for one in the sample that is not judged.
-- 5 is the number of relevant items, 6 that of the others.

CREATE OR REPLACE FUNCTION rankql_judged_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL,
    threshold float8 DEFAULT 1
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308 THEN
        PERFORM rankql_refuse(rel, pos, NULL, NULL);
    END IF;
    IF s IS NULL THEN
        PERFORM rankql_threshold(threshold);
        s := rankql_start(NULL, k);
    END IF;
    s := rankql_place(s, pos);
    IF rel >= threshold THEN s[5] := s[5] + 1; ELSIF rel IS NOT NULL THEN s[6] := s[6] + 1; END IF;
    IF pos IS NOT NULL AND rel IS NOT NULL THEN
        s := s || ARRAY[pos, CASE WHEN rel >= threshold THEN 1 WHEN rel >= 0 THEN 0 ELSE -1 END];
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_false_answer(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_no_cutoff(s, 'false_answer');
    PERFORM rankql_one_ranking(s);
    RETURN CASE WHEN s[5] = 0 AND s[6] > 0 THEN (rankql_items(s) > 0)::int END;
END $$;

CREATE OR REPLACE FUNCTION rankql_bpref(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    value float8;
BEGIN
    PERFORM rankql_no_cutoff(s, 'bpref');
    PERFORM rankql_one_ranking(s);
    SELECT sum(1 - least(above, s[5]) / greatest(least(s[5], s[6]), 1)) INTO value FROM (
        SELECT s[i + 1] AS kind, count(*) FILTER (WHERE s[i + 1] < 1) OVER (ORDER BY s[i], s[i + 1] ROWS UNBOUNDED PRECEDING) AS above
        FROM generate_series(14, cardinality(s), 2) AS i) AS items WHERE kind = 1;
    RETURN CASE WHEN s[5] > 0 THEN coalesce(value, 0) / s[5] END;
END $$;

CREATE OR REPLACE FUNCTION rankql_infap(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    value float8;
BEGIN
    PERFORM rankql_no_cutoff(s, 'infap');
    PERFORM rankql_one_ranking(s);
    SELECT sum((1 + pool * (hits + 0.00001) / (judged + 0.00002)) / pos) INTO value FROM (
        SELECT s[i] AS pos, s[i + 1] AS kind, count(*) OVER above AS pool,
            count(*) FILTER (WHERE s[i + 1] = 1) OVER above AS hits, count(*) FILTER (WHERE s[i + 1] >= 0) OVER above AS judged
        FROM generate_series(14, cardinality(s), 2) AS i
        WINDOW above AS (ORDER BY s[i] ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS items WHERE kind = 1;
    RETURN CASE WHEN s[5] > 0 THEN coalesce(value, 0) / s[5] END;
END $$;

-- Cascade: pairs of the position, or 0 beyond k, and the positive grade. 5 is their number, 12 max_rel or NULL, 13 p.

CREATE OR REPLACE FUNCTION rankql_cascade_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL,
    max_rel float8 DEFAULT NULL, p float8 DEFAULT 1, stop text DEFAULT 'exp2', ideal text DEFAULT 'judged'
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308
       OR k < 1 OR k > 9007199254740992 OR k <> floor(k) OR coalesce(k, 9007199254740992) <> s[1] THEN
        PERFORM rankql_refuse(rel, pos, k, s[1]);
    END IF;
    IF s IS NULL THEN
        PERFORM rankql_choice('ideal', ideal, '{judged,retrieved}');
        IF rankql_choice('stop', stop, '{exp2,rel}') = 1 AND max_rel IS NOT NULL THEN
            PERFORM rankql_fail('max_rel is for stop ''exp2'', not for ''rel''');
        ELSIF stop = 'exp2' AND max_rel IS NULL THEN
            PERFORM rankql_fail('max_rel must be given: the highest grade of the scale');
        ELSIF stop = 'exp2' THEN
            PERFORM rankql_scale(max_rel);
        END IF;
        IF p IS DISTINCT FROM 1 THEN PERFORM rankql_patience(p); END IF;
        s := rankql_start(k, max_rel, p);
    END IF;
    IF rel > max_rel THEN
        PERFORM rankql_fail('rel must not exceed max_rel: ' || rankql_text(rel) || ' is above ' || rankql_text(max_rel));
    ELSIF max_rel IS NULL AND (rel < 0 OR rel > 1) THEN
        PERFORM rankql_fail('rel must lie between 0 and 1 for stop ''rel'', not ' || rankql_text(rel));
    END IF;
    s := rankql_place(s, pos);
    IF rel > 0 THEN
        s[5] := s[5] + 1;
        IF ideal = 'judged' OR pos IS NOT NULL THEN
            s := s || ARRAY[CASE WHEN pos <= s[1] THEN pos ELSE 0 END, rel];
            IF cardinality(s) > 60 + 8 * s[1] THEN s := rankql_cascade_cut(s); END IF;
        END IF;
    END IF;
    RETURN s;
END $$;

-- Without items beyond k that are not among the k highest grades.
CREATE OR REPLACE FUNCTION rankql_cascade_cut(s float8[]) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN s[:13] || ARRAY(
        SELECT unnest(ARRAY[pos, grade]) FROM (
            SELECT s[i] AS pos, s[i + 1] AS grade, row_number() OVER (PARTITION BY s[i] > 0 ORDER BY s[i + 1] DESC) AS place
            FROM generate_series(14, cardinality(s), 2) AS i) AS items
        WHERE pos > 0 OR place <= s[1]);
END $$;

-- The expected utility of a user who walks down items: positions and grades.
CREATE OR REPLACE FUNCTION rankql_walk(places float8[], grades float8[], max_rel float8, p float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    arriving float8 := 1;
    total float8 := 0;
    stop float8;
    reading float8;
BEGIN
    FOR i IN 1..cardinality(places) LOOP
        reading := rankql_power(p, places[i] - 1);
        EXIT WHEN arriving < 1e-150 OR reading < 1e-150;
        stop := CASE WHEN max_rel IS NULL THEN grades[i]
                     ELSE rankql_power(2, grades[i] - max_rel) - rankql_power(2, -max_rel) END;
        IF stop > 1e-150 THEN
            total := total + arriving * stop * reading / places[i];
            arriving := arriving * (1 - stop);
        END IF;
    END LOOP;
    RETURN total;
END $$;

CREATE OR REPLACE FUNCTION rankql_err(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    places float8[];
    grades float8[];
BEGIN
    PERFORM rankql_one_ranking(s);
    SELECT array_agg(s[i] ORDER BY s[i]), array_agg(s[i + 1] ORDER BY s[i]) INTO places, grades
    FROM generate_series(14, cardinality(s), 2) AS i WHERE s[i] > 0;
    RETURN CASE WHEN s[5] > 0 THEN rankql_walk(coalesce(places, '{}'), grades, s[12], s[13]) END;
END $$;

CREATE OR REPLACE FUNCTION rankql_nerr(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    grades CONSTANT float8[] := ARRAY(
        SELECT s[i + 1] FROM generate_series(14, cardinality(s), 2) AS i ORDER BY s[i + 1] DESC LIMIT s[1]::bigint);
BEGIN
    RETURN rankql_at_most_one(rankql_err(s) / nullif(rankql_walk(
        ARRAY(SELECT generate_series(1, cardinality(grades))::float8), grades, s[12], s[13]), 0));
END $$;

-- Rank-biased precision: 5 is the sum of the worth by the chance of a look, 6 that of the judged items, 12 p.

CREATE OR REPLACE FUNCTION rankql_rbp_step(s float8[], rel float8, pos float8, k float8 DEFAULT NULL,
    p float8 DEFAULT NULL, threshold float8 DEFAULT 1, max_rel float8 DEFAULT NULL
) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    look float8;
BEGIN
    IF pos < 1 OR pos > 9007199254740992 OR pos <> floor(pos) OR abs(rel) > 1.7976931348623157e308
       OR k < 1 OR k > 9007199254740992 OR k <> floor(k) OR coalesce(k, 9007199254740992) <> s[1] THEN
        PERFORM rankql_refuse(rel, pos, k, s[1]);
    END IF;
    IF s IS NULL THEN
        IF p IS NULL THEN
            PERFORM rankql_fail('p must be given: the probability of looking at the next item, between 0 and 1');
        END IF;
        PERFORM rankql_patience(p), rankql_threshold(threshold);
        IF max_rel IS NOT NULL THEN PERFORM rankql_scale(max_rel); END IF;
        s := rankql_start(k, p);
    END IF;
    IF rel > max_rel THEN
        PERFORM rankql_fail('rel must not exceed max_rel: ' || rankql_text(rel) || ' is above ' || rankql_text(max_rel));
    END IF;
    s := rankql_place(s, pos);
    IF rel IS NOT NULL AND pos <= s[1] THEN
        look := rankql_power(p, pos - 1);
        s[6] := s[6] + look;
        IF max_rel IS NULL AND rel >= threshold THEN
            s[5] := s[5] + look;
        ELSIF max_rel IS NOT NULL AND rel > 0 AND look > 1e-150 AND rel / max_rel > 1e-150 THEN
            s[5] := s[5] + look * (rel / max_rel);
        END IF;
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_rbp(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN coalesce(rankql_at_most_one((1 - s[12]) * s[5]), 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_rbp_residual(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    PERFORM rankql_one_ranking(s);
    RETURN 1 - coalesce(rankql_at_most_one((1 - s[12]) * s[6]), 0);
END $$;

-- Ratings: 5 is the sum of squares, 6 that of absolute errors, 7 their number.

CREATE OR REPLACE FUNCTION rankql_rating_step(s float8[], rel float8, score float8) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF abs(rel) > 1.7976931348623157e308 THEN
        PERFORM rankql_fail('rel must be a finite number, not ' || rankql_text(rel));
    ELSIF abs(score) > 1.7976931348623157e308 THEN
        PERFORM rankql_fail('score must be a finite number, not ' || rankql_text(score));
    END IF;
    s := coalesce(s, rankql_start(NULL));
    IF rel IS NOT NULL AND score IS NOT NULL THEN
        s[5:7] := ARRAY[s[5] + (rel - score) * (rel - score), s[6] + abs(rel - score), s[7] + 1];
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION rankql_rmse(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN sqrt(s[5] / nullif(s[7], 0));
END $$;

CREATE OR REPLACE FUNCTION rankql_mse(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN s[5] / nullif(s[7], 0);
END $$;

CREATE OR REPLACE FUNCTION rankql_mae(s float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN s[6] / nullif(s[7], 0);
END $$;

-- Exponential gain of a grade: ndcg(exp2_gain(rel), pos, 10).
CREATE OR REPLACE FUNCTION exp2_gain(rel float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF abs(rel) > 1.7976931348623157e308 THEN
        PERFORM rankql_fail('rel must be a finite number, not ' || rankql_text(rel));
    END IF;
    RETURN CASE WHEN rel < 1024 THEN rankql_power(2, rel) - 1 WHEN rel >= 1024 THEN 'Infinity' END;
END $$;

CREATE OR REPLACE FUNCTION exp2_gain(rel boolean) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT rel::int::float8
$$;

-- The aggregates: one for each number of arguments, with a numeric and with a boolean rel. The step of a shorter one has the
-- defaults in place of the other options. To add a metric, add its row here, and its functions above.
DO $create$
DECLARE
    home CONSTANT text := quote_ident(current_schema());
    metric record;
    step record;
    kind text;
    names text[];
    kinds text;
    parameters text;
    name text;
    value text;
    body text;
    function text;
    placed CONSTANT text := (SELECT substring(prosrc FROM 'BEGIN(.*)RETURN s') FROM pg_catalog.pg_proc
                             WHERE oid = to_regproc(home || '.rankql_place'));
BEGIN
    FOR metric IN SELECT m.name, m.state, string_to_array(m.arguments, ' ') AS arguments, m.comment FROM (VALUES
        ('cg', 'grades', 'rel pos k', 'the sum of the grades in the first k positions'),
        ('dcg', 'gain', 'rel pos k discounts base', 'discounted cumulative gain'),
        ('idcg', 'gain', 'rel pos k discounts base ideal', 'the DCG of the best order'),
        ('ndcg', 'gain', 'rel pos k discounts base ideal negative', 'normalised DCG, 1 for the best order'),
        ('precision_at', 'hits', 'rel pos k threshold denominator', 'the relevant items in the first k positions, divided by k'),
        ('recall_at', 'hits', 'rel pos k threshold', 'the share of the relevant items in the first k positions'),
        ('f1_at', 'hits', 'rel pos k threshold denominator', 'the harmonic mean of precision and recall'),
        ('hit_at', 'hits', 'rel pos k threshold', '1 if a relevant item is in the first k positions, else 0'),
        ('all_rel_at', 'hits', 'rel pos k threshold', '1 if every relevant item is in the first k positions, else 0'),
        ('r_precision', 'places', 'rel pos k threshold', 'precision in the first R positions, of R relevant items'),
        ('ap', 'places', 'rel pos k threshold denominator', 'average precision'),
        ('interpolated_precision', 'recall', 'rel pos recall threshold rounding', 'the highest precision at this recall or above'),
        ('set_ap', 'hits', 'rel pos k threshold', 'precision times recall over all retrieved items'),
        ('infap', 'judged', 'rel pos k threshold', 'average precision, estimated from a sample of judgments'),
        ('bpref', 'judged', 'rel pos k threshold', 'how few judged non-relevant items are above the relevant ones'),
        ('judged_at', 'grades', 'rel pos k', 'the share of judged items in the first k positions'),
        ('num_ret', 'grades', 'rel pos', 'the number of retrieved items'),
        ('num_rel', 'hits', 'rel pos k threshold', 'the number of relevant items'),
        ('num_rel_ret', 'hits', 'rel pos k threshold', 'the number of relevant items in the first k positions'),
        ('false_answer', 'judged', 'rel pos k threshold', '1 if something is shown although nothing is relevant'),
        ('false_abstention', 'hits', 'rel pos k threshold', '1 if nothing is shown although something is relevant'),
        ('forbidden_at', 'grades', 'rel pos k', '1 if an item with a grade below 0 is in the first k positions, else 0'),
        ('rr', 'hits', 'rel pos k threshold', '1 / the position of the first relevant item'),
        ('arhr', 'hits', 'rel pos k threshold', 'the sum of 1 / position over the hits'),
        ('err', 'cascade', 'rel pos k max_rel p stop', 'expected reciprocal rank of the item where a user stops'),
        ('nerr', 'cascade', 'rel pos k max_rel p stop ideal', 'ERR, divided by that of the best order'),
        ('rbp', 'rbp', 'rel pos k p threshold max_rel', 'rank-biased precision'),
        ('rbp_residual', 'rbp', 'rel pos k p', 'how much RBP would rise if every unjudged item were relevant'),
        ('rmse', 'rating', 'rel score', 'root mean squared error of scores'),
        ('mse', 'rating', 'rel score', 'mean squared error of scores'),
        ('mae', 'rating', 'rel score', 'mean absolute error of scores')
    ) AS m (name, state, arguments, comment) LOOP
        SELECT p.oid, p.prosrc, p.proargnames AS names, p.proargtypes::oid[] AS types INTO STRICT step FROM pg_catalog.pg_proc AS p
        WHERE p.oid = to_regproc(format('%s.rankql_%s_step', home, metric.state));
        FOR n IN 2..cardinality(metric.arguments) LOOP
            names := metric.arguments[:n];
            function := format('%s.%I', home, array_to_string(ARRAY['rankql', metric.state] || names[3:], '_'));
            FOREACH kind IN ARRAY ARRAY['double precision', 'boolean'] LOOP
                body := replace(step.prosrc, 's := rankql_place(s, pos);', placed);
                FOR name, value IN
                    SELECT a.name, format('(%s)', coalesce(pg_get_function_arg_default(step.oid, i::int), 'flag::int::double precision'))
                    FROM unnest(step.names) WITH ORDINALITY AS a (name, i)
                    WHERE i > 3 AND a.name <> ALL (names) OR i = 2 AND kind = 'boolean' LOOP
                    -- Not within quotes, which every second part is.
                    SELECT string_agg(CASE i % 2 WHEN 1 THEN regexp_replace(part, format('\m%s\M', name), value, 'g') ELSE part END,
                                      '''' ORDER BY i)
                    INTO body FROM unnest(string_to_array(body, '''')) WITH ORDINALITY AS p (part, i);
                END LOOP;
                SELECT string_agg(format_type(type, NULL), ', '), string_agg(format('%I %s', a.name, format_type(type, NULL)), ', ')
                INTO kinds, parameters FROM unnest(names[2:]) AS a (name),
                    LATERAL (SELECT step.types[array_position(step.names, a.name) - 1] AS type) AS b;
                EXECUTE format(
                    'CREATE OR REPLACE FUNCTION %s(s double precision[], %s %s, %s) RETURNS double precision[] '
                    'LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS %L',
                    function, CASE kind WHEN 'boolean' THEN 'flag' ELSE 'rel' END, kind, parameters, body);
                EXECUTE format(
                    'CREATE OR REPLACE AGGREGATE %1$s.%2$I(%3$s, %4$s) (SFUNC = %5$s, STYPE = double precision[], '
                    'FINALFUNC = %1$s.%6$I, COMBINEFUNC = %1$s.%7$I, PARALLEL = SAFE)',
                    home, metric.name, kind, kinds, function, 'rankql_' || metric.name,
                    CASE metric.state WHEN 'gain' THEN 'rankql_gain_merge' ELSE 'rankql_merge' END);
                EXECUTE format('COMMENT ON AGGREGATE %s.%I(%s, %s) IS %L', home, metric.name, kind, kinds,
                               'rankql: ' || metric.comment);
            END LOOP;
        END LOOP;
    END LOOP;
    FOR function IN SELECT p.oid::regprocedure FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = (SELECT pronamespace FROM pg_catalog.pg_proc WHERE oid = step.oid) AND p.prokind = 'f'
            AND (p.proname LIKE 'rankql\_%' OR p.proname = 'exp2_gain') AND obj_description(p.oid, 'pg_proc') IS NULL LOOP
        EXECUTE format('COMMENT ON FUNCTION %s IS %L', function, 'rankql: part of the metrics');
    END LOOP;
END $create$;

-- From here on the functions call each other with the name of their schema, so that they work whatever the search_path is: CREATE
-- and REFRESH MATERIALIZED VIEW and restored dumps have a safe one.
DO $qualify$
DECLARE
    home CONSTANT text := quote_ident(current_schema());
    calls CONSTANT text := '(?<![\w.])(rankql_\w+|exp2_gain)(?=\()';
    function record;
BEGIN
    FOR function IN SELECT p.oid FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = to_regnamespace(home) AND p.prokind = 'f'
            AND (p.proname LIKE 'rankql\_%' OR p.proname = 'exp2_gain') AND p.prosrc ~ calls LOOP
        EXECUTE regexp_replace(pg_get_functiondef(function.oid), calls, replace(home, '\', '\\') || '.\1', 'g');
    END LOOP;
END $qualify$;

COMMIT;
-- {% endraw %}{% endmacro %}
