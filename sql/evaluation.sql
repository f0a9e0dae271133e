SELECT any_query AS {label},
    {values}
FROM (
    SELECT coalesce(judged.query, shown.query) AS any_query, judged.query AS judged_query, rel, pos, score
    FROM (
        SELECT {query} AS query, {item} AS item, {rel} AS rel
        FROM {qrels} AS judgments WHERE {rel} IS NOT NULL
    ) AS judged
    FULL JOIN (
        SELECT {run_query} AS query, {run_item} AS item, {score} AS score,
            {pos} AS pos
        FROM {run} AS ranking WHERE {place} IS NOT NULL
    ) AS shown ON judged.query = shown.query AND judged.item = shown.item
) AS ranked
GROUP BY any_query
HAVING count(judged_query) > 0
ORDER BY 1{end}
