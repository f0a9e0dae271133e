-- Replaces helpers in rankql.evaluate, which has checked columns and arguments. Metrics stay the same.

CREATE OR REPLACE MACRO rankql_grade(rel) AS rel;

CREATE OR REPLACE MACRO rankql_option(value) AS CAST(value AS DOUBLE);

CREATE OR REPLACE MACRO rankql_threshold(threshold) AS CAST(threshold AS DOUBLE);

CREATE OR REPLACE MACRO rankql_one_threshold(threshold) AS 0;

CREATE OR REPLACE MACRO rankql_cutoff(k) AS CAST(coalesce(k, 9007199254740992) AS DOUBLE);

CREATE OR REPLACE MACRO rankql_pos(pos, k, name := 'pos') AS
    CASE WHEN k IS NULL OR pos <= k THEN CAST(pos AS DOUBLE) END;

CREATE OR REPLACE MACRO rankql_hit_pos(rel, pos, k, threshold) AS
    CASE WHEN rel >= threshold AND (k IS NULL OR pos <= k) THEN CAST(pos AS DOUBLE) END;

-- evaluate finds shared positions itself, and names them.
CREATE OR REPLACE MACRO rankql_one_ranking(value, pos, k) AS value;

CREATE OR REPLACE MACRO rankql_in_bits(k) AS false;

CREATE OR REPLACE MACRO rankql_counts_grades(rel, discounts, ideal) AS false;

CREATE OR REPLACE MACRO rankql_hit_count(rel, pos, k, threshold) AS
    count(rankql_hit_pos(rel, pos, k, threshold));

CREATE OR REPLACE MACRO rankql_packed_hits(rel, pos, k, threshold) AS 0;

CREATE OR REPLACE MACRO rankql_packed_dcg(rel, pos, k, discounts) AS 0.0::DOUBLE;

CREATE OR REPLACE MACRO rankql_first_pos(rel, pos, k, threshold) AS
    min(rankql_hit_pos(rel, pos, k, threshold));

CREATE OR REPLACE MACRO rankql_relevant(rel, threshold) AS CAST(count(*) FILTER (WHERE rel >= threshold) AS DOUBLE);

CREATE OR REPLACE MACRO rankql_patience(p) AS CAST(p AS DOUBLE);

CREATE OR REPLACE MACRO rankql_scaled(rel, max_rel) AS greatest(rel, 0 * rel);

CREATE OR REPLACE MACRO rankql_grades(rels) AS CAST(rels AS DOUBLE[]);

CREATE OR REPLACE MACRO rankql_once(positions, name) AS len(positions) > 0;

CREATE OR REPLACE MACRO rankql_flag(value, name) AS CAST(value AS BOOLEAN);

CREATE OR REPLACE MACRO rankql_expected(ties) AS ties = 'expected';

CREATE OR REPLACE MACRO rankql_discounts(discounts) AS CAST(discounts AS DOUBLE[]);

CREATE OR REPLACE MACRO rankql_valid(discounts) AS 1;

CREATE OR REPLACE MACRO rankql_base(base) AS log2(CAST(base AS DOUBLE));

CREATE OR REPLACE MACRO rankql_negative(rel, negative) AS CASE WHEN negative = 'keep' OR rel >= 0 THEN rel ELSE 0 * rel END;

CREATE OR REPLACE MACRO rankql_in_ideal(rel, retrieved, ideal) AS rel > 0 AND (ideal = 'judged' OR retrieved);
