-- Ranking metrics as plain SQL. Each statement is one SELECT that needs no function of rankql and no extension: window
-- functions, CASE, ln, exp, power and sqrt are enough. The tests run all of them on DuckDB, SQLite, Postgres and Spark.
--
-- They read one of two tables:
--   ranked (query, item, rel, pos)    pos is 1 for the first item, and NULL if an item was judged, but not retrieved
--   scored (query, item, rel, score)  the same with scores; the first statement makes positions of them
-- rel is the grade, a number: an item is relevant from the threshold on. It is NULL if nobody judged the item.
--
-- Nothing is refused: the positions of a query must be distinct whole numbers, its items distinct, and grades finite. The macros
-- of the other files check all of this, and have the options that are missing here.
--
-- /*k*/ 10 is the parameter k: write your number for 10. For the complete ranking write 1000000000, or take the statement
-- without @k if there is one. 1e0 is there so that no database divides whole numbers, ln(2) because not all have log2.


-- Positions from scores: the highest score first, and of equal scores the item that is last in the order of the database.
SELECT query, item, rel, CASE WHEN score IS NOT NULL THEN row_number() OVER (
    PARTITION BY query ORDER BY CASE WHEN score IS NULL THEN 1 ELSE 0 END, score DESC, item DESC) END AS pos
FROM scored;

-- Mean over queries: here of RR@k, which makes it MRR@k. avg leaves out the queries of which the value is NULL.
WITH v AS (
    SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1
        THEN coalesce(1e0 / min(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN pos END), 0) END AS rr
    FROM ranked GROUP BY query)
SELECT avg(rr) AS mrr, count(*) AS queries, count(*) - count(rr) AS undefined FROM v;


-- CG@k: the sum of the grades in the first k positions. Never NULL.
SELECT query, coalesce(sum(CASE WHEN pos <= /*k*/ 10 THEN rel END), 0) AS cg
FROM ranked GROUP BY query;

-- DCG@k: the sum of rel / log2(pos + 1). Never NULL.
SELECT query, coalesce(sum(CASE WHEN pos <= /*k*/ 10 THEN rel * ln(/*base*/ 2) / ln(pos + 1) END), 0) AS dcg
FROM ranked GROUP BY query;

-- DCG(gain=exp2)@k: the sum of (2^rel - 1) / log2(pos + 1). Never NULL.
SELECT query, coalesce(sum(CASE WHEN pos <= /*k*/ 10 THEN (power(2, rel) - 1) * ln(/*base*/ 2) / ln(pos + 1) END), 0) AS dcg
FROM ranked GROUP BY query;

-- IDCG@k: the DCG of all judged items, best first, whose negative grades count 0. Never NULL.
WITH g AS (SELECT query, CASE WHEN rel > 0 THEN rel ELSE 0 END AS gain FROM ranked),
     b AS (SELECT query, gain, row_number() OVER (PARTITION BY query ORDER BY gain DESC) AS best FROM g)
SELECT query, sum(CASE WHEN best <= /*k*/ 10 THEN gain * ln(/*base*/ 2) / ln(best + 1) ELSE 0 END) AS idcg
FROM b GROUP BY query;

-- IDCG(gain=exp2)@k: the same with the gain 2^rel - 1. Never NULL.
WITH g AS (SELECT query, CASE WHEN rel > 0 THEN power(2, rel) - 1 ELSE 0 END AS gain FROM ranked),
     b AS (SELECT query, gain, row_number() OVER (PARTITION BY query ORDER BY gain DESC) AS best FROM g)
SELECT query, sum(CASE WHEN best <= /*k*/ 10 THEN gain * ln(/*base*/ 2) / ln(best + 1) ELSE 0 END) AS idcg
FROM b GROUP BY query;

-- nDCG@k: DCG@k / IDCG@k, where negative grades count 0. NULL if no grade is positive.
WITH g AS (SELECT query, pos, CASE WHEN rel > 0 THEN rel ELSE 0 END AS gain FROM ranked),
     b AS (SELECT query, pos, gain, row_number() OVER (PARTITION BY query ORDER BY gain DESC) AS best FROM g)
SELECT query, sum(CASE WHEN pos <= /*k*/ 10 THEN gain * ln(/*base*/ 2) / ln(pos + 1) ELSE 0 END)
    / nullif(sum(CASE WHEN best <= /*k*/ 10 THEN gain * ln(/*base*/ 2) / ln(best + 1) ELSE 0 END), 0) AS ndcg
FROM b GROUP BY query;

-- nDCG(gain=exp2)@k: the same with the gain 2^rel - 1. NULL if no grade is positive.
WITH g AS (SELECT query, pos, CASE WHEN rel > 0 THEN power(2, rel) - 1 ELSE 0 END AS gain FROM ranked),
     b AS (SELECT query, pos, gain, row_number() OVER (PARTITION BY query ORDER BY gain DESC) AS best FROM g)
SELECT query, sum(CASE WHEN pos <= /*k*/ 10 THEN gain * ln(/*base*/ 2) / ln(pos + 1) ELSE 0 END)
    / nullif(sum(CASE WHEN best <= /*k*/ 10 THEN gain * ln(/*base*/ 2) / ln(best + 1) ELSE 0 END), 0) AS ndcg
FROM b GROUP BY query;


-- P@k: hits in the first k positions / k. Never NULL.
SELECT query, sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1e0 ELSE 0 END) / /*k*/ 10 AS precision_at
FROM ranked GROUP BY query;

-- P: hits / retrieved items. 0 if nothing is retrieved.
SELECT query, coalesce(sum(CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 1e0 ELSE 0 END)
    / nullif(count(pos), 0), 0) AS precision_at
FROM ranked GROUP BY query;

-- P(denominator=retrieved)@k: hits in the first k positions / items there. 0 if there are none.
SELECT query, coalesce(sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1e0 ELSE 0 END)
    / nullif(count(CASE WHEN pos <= /*k*/ 10 THEN 1 END), 0), 0) AS precision_at
FROM ranked GROUP BY query;

-- R@k: hits in the first k positions / R, the number of relevant items. NULL if R is 0.
SELECT query, sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1e0 ELSE 0 END)
    / nullif(sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END), 0) AS recall_at
FROM ranked GROUP BY query;

-- F1@k: 2 * hits in the first k positions / (k + R). NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 2e0 ELSE 0 END)
    / (/*k*/ 10 + sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END)) END AS f1_at
FROM ranked GROUP BY query;

-- F1: 2 * hits / (retrieved items + R). NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    sum(CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 2e0 ELSE 0 END)
    / (count(pos) + sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END)) END AS f1_at
FROM ranked GROUP BY query;

-- Success@k: 1 if a hit is in the first k positions, else 0. Its mean is the hit rate. NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    max(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1 ELSE 0 END) END AS hit_at
FROM ranked GROUP BY query;

-- AllRel@k: 1 if all relevant items are in the first k positions, else 0. NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    min(CASE WHEN rel < /*threshold*/ 1 OR rel IS NULL OR pos <= /*k*/ 10 THEN 1 ELSE 0 END) END AS all_rel_at
FROM ranked GROUP BY query;

-- Rprec: hits in the first R positions / R. NULL if R is 0.
WITH h AS (SELECT query, pos, CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END AS hit FROM ranked),
     c AS (SELECT query, pos, hit, sum(hit) OVER (PARTITION BY query) AS r FROM h)
SELECT query, 1e0 * sum(CASE WHEN pos <= r THEN hit ELSE 0 END) / nullif(max(r), 0) AS r_precision
FROM c GROUP BY query;

-- AP@k: the sum of the precision at each hit in the first k positions / the smaller of k and R. NULL if R is 0.
WITH h AS (SELECT query, pos, CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END AS hit FROM ranked),
     c AS (SELECT query, pos, hit, sum(CASE WHEN pos IS NOT NULL THEN hit ELSE 0 END)
                  OVER (PARTITION BY query ORDER BY pos ROWS UNBOUNDED PRECEDING) AS hits FROM h)
SELECT query, sum(CASE WHEN pos <= /*k*/ 10 THEN 1e0 * hit * hits / pos ELSE 0 END)
    / nullif(CASE WHEN sum(hit) < /*k*/ 10 THEN sum(hit) ELSE /*k*/ 10 END, 0) AS ap
FROM c GROUP BY query;

-- AP(denominator=R)@k: the same sum / R. NULL if R is 0.
WITH h AS (SELECT query, pos, CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END AS hit FROM ranked),
     c AS (SELECT query, pos, hit, sum(CASE WHEN pos IS NOT NULL THEN hit ELSE 0 END)
                  OVER (PARTITION BY query ORDER BY pos ROWS UNBOUNDED PRECEDING) AS hits FROM h)
SELECT query, sum(CASE WHEN pos <= /*k*/ 10 THEN 1e0 * hit * hits / pos ELSE 0 END) / nullif(sum(hit), 0) AS ap
FROM c GROUP BY query;

-- SetAP: precision * recall of all retrieved items: hits^2 / (retrieved items * R). NULL if R is 0.
WITH c AS (SELECT query, sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END) AS r, count(pos) AS n,
                  sum(CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 1e0 ELSE 0 END) AS hits
           FROM ranked GROUP BY query)
SELECT query, CASE WHEN r > 0 THEN coalesce(hits * hits / nullif(n * r, 0), 0) END AS set_ap FROM c;

-- Bpref: the sum over the hits of 1 - min(n_j, R) / min(R, N), / R. N items are judged not relevant, and n_j of them stand
-- above the hit j. Unjudged items do not count. NULL if R is 0.
WITH h AS (SELECT query, pos, CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END AS hit,
                  CASE WHEN rel < /*threshold*/ 1 THEN 1 ELSE 0 END AS miss FROM ranked),
     c AS (SELECT query, pos, hit, sum(hit) OVER (PARTITION BY query) AS r, sum(miss) OVER (PARTITION BY query) AS n,
                  sum(CASE WHEN pos IS NOT NULL THEN miss ELSE 0 END)
                  OVER (PARTITION BY query ORDER BY pos ROWS UNBOUNDED PRECEDING) AS above FROM h)
SELECT query, 1e0 * sum(CASE WHEN hit = 0 OR pos IS NULL THEN 0 WHEN above = 0 THEN 1
        ELSE 1 - 1e0 * CASE WHEN above < r THEN above ELSE r END / CASE WHEN r < n THEN r ELSE n END END)
    / nullif(max(r), 0) AS bpref
FROM c GROUP BY query;

-- Judged@k: judged items in the first k positions / k. Never NULL.
SELECT query, 1e0 * count(CASE WHEN pos <= /*k*/ 10 THEN rel END) / /*k*/ 10 AS judged_at FROM ranked GROUP BY query;

-- Judged: judged items that are retrieved / retrieved items. 0 if nothing is retrieved.
SELECT query, coalesce(1e0 * count(CASE WHEN pos IS NOT NULL THEN rel END) / nullif(count(pos), 0), 0) AS judged_at
FROM ranked GROUP BY query;

-- Forbidden@k: 1 if an item with a grade below 0 is in the first k positions, else 0. NULL if no grade is below 0.
SELECT query, CASE WHEN min(rel) < 0 THEN max(CASE WHEN rel < 0 AND pos <= /*k*/ 10 THEN 1 ELSE 0 END) END AS forbidden_at
FROM ranked GROUP BY query;

-- FalseAnswer: 1 if something is shown, else 0, where judged items are not relevant. NULL if R is above 0 or nothing is judged.
SELECT query, CASE WHEN max(rel) < /*threshold*/ 1 THEN CASE WHEN count(pos) > 0 THEN 1 ELSE 0 END END AS false_answer
FROM ranked GROUP BY query;

-- FalseAbstention: 1 if nothing is shown, else 0, where something is relevant. NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN CASE WHEN count(pos) = 0 THEN 1 ELSE 0 END END AS false_abstention
FROM ranked GROUP BY query;

-- NumRet: the number of retrieved items.
SELECT query, count(pos) AS num_ret FROM ranked GROUP BY query;

-- NumRel: the number of relevant items, R.
SELECT query, sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END) AS num_rel FROM ranked GROUP BY query;

-- NumRelRet: the number of hits, which are relevant and retrieved.
SELECT query, sum(CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 1 ELSE 0 END) AS num_rel_ret
FROM ranked GROUP BY query;

-- microP@k: hits of all queries in the first k positions / (k * queries). Never NULL.
SELECT sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1e0 ELSE 0 END) / (/*k*/ 10 * count(DISTINCT query))
    AS micro_precision_at
FROM ranked;

-- microP: hits of all queries / retrieved items of all queries. 0 if nothing is retrieved.
SELECT coalesce(sum(CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 1e0 ELSE 0 END) / nullif(count(pos), 0), 0)
    AS micro_precision_at
FROM ranked;

-- microR@k: hits of all queries in the first k positions / relevant items of all queries. NULL if there are none.
SELECT sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1e0 ELSE 0 END)
    / nullif(sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END), 0) AS micro_recall_at
FROM ranked;

-- microF1@k: 2 * hits of all queries in the first k positions / (k * queries + relevant items of all queries). NULL if none is.
SELECT CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 2e0 ELSE 0 END)
    / (/*k*/ 10 * count(DISTINCT query) + sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END)) END AS micro_f1_at
FROM ranked;

-- microF1: 2 * hits of all queries / (retrieved + relevant items of all queries). NULL if none is relevant.
SELECT CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    sum(CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 2e0 ELSE 0 END)
    / (count(pos) + sum(CASE WHEN rel >= /*threshold*/ 1 THEN 1 ELSE 0 END)) END AS micro_f1_at
FROM ranked;


-- RR@k: 1 / the position of the first hit, 0 if none is in the first k. Its mean is MRR@k. NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    coalesce(1e0 / min(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN pos END), 0) END AS rr
FROM ranked GROUP BY query;

-- ARHR@k: the sum of 1 / pos over the hits in the first k positions. NULL if R is 0.
SELECT query, CASE WHEN max(rel) >= /*threshold*/ 1 THEN
    sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10 THEN 1e0 / pos ELSE 0 END) END AS arhr
FROM ranked GROUP BY query;

-- ERR@k: the sum of stop / pos * the chance to get there, which is the product of 1 - stop over the items above: exp of the sum
-- of ln(1 - stop). stop is (2^rel - 1) / 2^max_rel; max_rel is the highest grade of the scale. NULL if no grade is positive, and
-- if one is above max_rel.
WITH s AS (SELECT query, rel, pos, CASE WHEN rel > 0 AND rel <= /*max_rel*/ 3 AND pos IS NOT NULL
                  THEN (power(2, rel) - 1) / power(2e0, /*max_rel*/ 3) ELSE 0e0 END AS stop FROM ranked),
     l AS (SELECT query, rel, pos, stop, sum(ln(1 - stop))
                  OVER (PARTITION BY query ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS looks FROM s)
SELECT query, CASE WHEN max(rel) > 0 AND max(rel) <= /*max_rel*/ 3 THEN
    sum(CASE WHEN pos <= /*k*/ 10 THEN exp(coalesce(looks, 0)) * stop / pos ELSE 0 END) END AS err
FROM l GROUP BY query;

-- RBP@k: (1 - p) * the sum of p^(pos - 1) over the hits in the first k positions. Never NULL.
SELECT query, (1 - /*p*/ 0.8e0) * sum(CASE WHEN rel >= /*threshold*/ 1 AND pos <= /*k*/ 10
    THEN power(/*p*/ 0.8e0, pos - 1) ELSE 0 END) AS rbp
FROM ranked GROUP BY query;

-- RBPres@k: what items that are unjudged or below k could add to RBP: 1 - (1 - p) * the sum of p^(pos - 1) over judged items.
SELECT query, 1 - (1 - /*p*/ 0.8e0) * sum(CASE WHEN rel IS NOT NULL AND pos <= /*k*/ 10
    THEN power(/*p*/ 0.8e0, pos - 1) ELSE 0 END) AS rbp_residual
FROM ranked GROUP BY query;


-- AUC: the share of pairs of a hit and another judged retrieved item in which the hit is above. NULL if one kind is missing.
WITH h AS (SELECT query, pos, CASE WHEN rel >= /*threshold*/ 1 AND pos IS NOT NULL THEN 1 ELSE 0 END AS hit,
                  CASE WHEN rel < /*threshold*/ 1 AND pos IS NOT NULL THEN 1 ELSE 0 END AS miss FROM ranked),
     c AS (SELECT query, hit, miss, sum(miss)
                  OVER (PARTITION BY query ORDER BY pos ROWS UNBOUNDED PRECEDING) AS above FROM h)
SELECT query, 1 - 1e0 * sum(hit * above) / nullif(sum(hit) * sum(miss), 0) AS auc FROM c GROUP BY query;

-- TauDistance@k: the number of pairs in the first k positions of which the lower item has the higher grade. Never NULL.
SELECT a.query, count(b.query) AS kendall_tau_distance
FROM ranked a LEFT JOIN ranked b ON a.query = b.query AND a.pos < b.pos AND a.rel < b.rel AND b.pos <= /*k*/ 10
GROUP BY a.query;

-- TauDistance(normalized=true)@k: that number / the pairs whose grades differ. NULL if there are none.
SELECT a.query, sum(CASE WHEN a.rel < b.rel THEN 1e0 ELSE 0 END) / nullif(count(b.query), 0) AS kendall_tau_distance
FROM ranked a LEFT JOIN ranked b ON a.query = b.query AND a.pos < b.pos AND a.rel <> b.rel AND b.pos <= /*k*/ 10
GROUP BY a.query;

-- TauB@k: (pairs in the order of the grades - pairs in the other order) / sqrt(pairs whose grades differ * all pairs) of judged
-- items in the first k positions. NULL if no two grades differ.
SELECT a.query, sum(CASE WHEN a.rel > b.rel THEN 1e0 WHEN a.rel < b.rel THEN -1e0 ELSE 0 END)
    / nullif(sqrt(1e0 * count(b.query) * sum(CASE WHEN a.rel <> b.rel THEN 1 ELSE 0 END)), 0) AS kendall_tau_b
FROM ranked a LEFT JOIN ranked b
    ON a.query = b.query AND a.pos < b.pos AND a.rel IS NOT NULL AND b.rel IS NOT NULL AND b.pos <= /*k*/ 10
GROUP BY a.query;


-- MAE: the mean of |rel - score|. Rows without a grade or a score are left out. NULL if no row has both.
SELECT query, avg(1e0 * abs(rel - score)) AS mae FROM scored GROUP BY query;

-- MSE: the mean of (rel - score)^2. NULL if no row has both.
SELECT query, avg(1e0 * (rel - score) * (rel - score)) AS mse FROM scored GROUP BY query;

-- RMSE: the root of MSE. NULL if no row has both.
SELECT query, sqrt(avg(1e0 * (rel - score) * (rel - score))) AS rmse FROM scored GROUP BY query;

-- microMAE: MAE over all rows, whatever the query. NULL if no row has both.
SELECT avg(1e0 * abs(rel - score)) AS mae FROM scored;

-- microMSE: MSE over all rows, whatever the query. NULL if no row has both.
SELECT avg(1e0 * (rel - score) * (rel - score)) AS mse FROM scored;

-- microRMSE: RMSE over all rows, whatever the query. NULL if no row has both.
SELECT sqrt(avg(1e0 * (rel - score) * (rel - score))) AS rmse FROM scored;


-- Without a statement:
--   nERR: it is ERR / the ERR of the rows sorted by grade, two statements in one
--   IPrec: recall * R is rounded up, which databases with decimals do differently
--   infAP: it needs four running sums, of the pool, its judged items, its hits and all positions
--   GMAP: it is exp(avg(ln(ap))) over AP, with 0.00001 for every value below
--   GAUC: it is the mean of AUC over queries, weighted by their judged retrieved items
--   tau_ap: it compares two rankings, place by place
--   rbo: it compares two rankings at every depth, beyond their ends
