-- nDCG of a simulated shop, in the DuckDB command line. From the project's folder, after `python -m rankql demo`:
--     duckdb < examples/shop.sql
.read sql/rankql.sql

-- The data: a row for each item in a ranking. rel is what the user did: 3 bought, 2 put into the cart, 1 clicked,
-- 0 skipped, NULL not seen. Items without pos were bought elsewhere.
CREATE TEMP VIEW shop AS FROM 'rankql-demo/shop.parquet';
DESCRIBE shop;
SELECT rel, count(*) AS items, count(pos) AS shown FROM shop GROUP BY rel ORDER BY rel;

-- First one value per ranking, then the average. nDCG is undefined if the user liked nothing: no order is better.
CREATE TEMP TABLE quality AS
SELECT segment, query, ndcg(rel, pos, 10) AS ndcg, rr(rel, pos, threshold := 3) AS rr_bought
FROM shop GROUP BY segment, query;

SELECT coalesce(segment, 'all') AS segment, count(*) AS queries, count(*) - count(ndcg) AS undefined,
       round(avg(ndcg), 4) AS ndcg, round(avg(rr_bought), 4) AS rr_bought
FROM quality GROUP BY ROLLUP (segment) ORDER BY segment;

-- By user, so that frequent users do not count more.
SELECT count(*) AS users, round(avg(ndcg), 4) AS ndcg
FROM (SELECT user, avg(ndcg) AS ndcg FROM quality JOIN (SELECT DISTINCT query, user FROM shop) USING (query) GROUP BY user);

-- Any expression can be the gain: here a purchase is worth ten clicks.
SELECT segment, round(avg(ndcg), 4) AS ndcg_in_clicks FROM (
    SELECT segment, query, ndcg(CASE rel WHEN 3 THEN 10 WHEN 2 THEN 4 ELSE rel END, pos, 10) AS ndcg
    FROM shop GROUP BY segment, query
) GROUP BY segment ORDER BY segment;

-- The scores of another ranker, for the same judgments. Items that it did not rank have no score.
SELECT round(avg(ndcg), 4) AS ndcg_of_new FROM (
    SELECT query, ndcg_by_score(rel, new.score, item, 10) AS ndcg
    FROM shop LEFT JOIN 'rankql-demo/new.parquet' AS new USING (query, item) GROUP BY query
);

-- One row per ranking, with its grades as a list.
CREATE TEMP TABLE lists AS
SELECT query, list(rel ORDER BY pos) FILTER (pos IS NOT NULL) AS shown, list(rel) AS judged FROM shop GROUP BY query;

SELECT round(avg(list_ndcg(shown, 10, ideal := judged)), 4) AS ndcg_of_lists FROM lists;

-- The rankings that lost most: something was bought, and stood far down.
SELECT query, round(ndcg, 4) AS ndcg, round(rr_bought, 4) AS rr_bought, shown
FROM quality JOIN lists USING (query) WHERE rr_bought > 0 ORDER BY quality.ndcg, query LIMIT 5;
