-- nDCG of a simulated shop by segment, in a plain DuckDB. From the project's folder, after `python -m rankql demo`:
--     duckdb < examples/shop.sql
.read sql/rankql.sql

-- One value per ranking first; the average after, with what it leaves out.
CREATE TEMP VIEW quality AS
SELECT segment, query,
       ndcg(rel, pos, 10)              AS ndcg,
       ndcg(exp2_gain(rel), pos, 10)   AS ndcg_exponential,
       rr(rel, pos, threshold := 3)    AS rr_bought,
       judged_at(rel, pos, 10)         AS judged
FROM 'rankql-demo/shop.parquet'
GROUP BY segment, query;

SELECT segment, count(*) AS queries, count(*) - count(ndcg) AS undefined,
       avg(ndcg), avg(ndcg_exponential), avg(rr_bought), avg(judged)
FROM quality
GROUP BY segment
ORDER BY segment;

-- The rankings that lost most: something was bought, and stood far down.
SELECT query, ndcg, rr_bought FROM quality WHERE rr_bought > 0 ORDER BY ndcg, query LIMIT 5;
