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
