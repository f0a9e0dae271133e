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
    WHERE (
        SELECT CASE WHEN count(*) > 0 THEN CAST('rankql: ' || {qrels_text} || ' has duplicates: '
            || min('query ' || {twice_query} || ', item ' || {twice_item}) || '. Keep one row of each' AS INT) ELSE 0 END
        FROM (
            SELECT {query} AS query, {item} AS item FROM {qrels} AS judgments WHERE {rel} IS NOT NULL
            GROUP BY 1, 2 HAVING count(*) > 1
        ) AS twice
    ) = 0 AND (
        SELECT CASE WHEN count(*) > 0 THEN CAST('rankql: ' || {run_text} || ' has duplicates: '
            || min('query ' || {twice_query} || ', item ' || {twice_item}) || '. Keep one row of each' AS INT) ELSE 0 END
        FROM (
            SELECT {run_query} AS query, {run_item} AS item FROM {run} AS ranking WHERE {place} IS NOT NULL
            GROUP BY 1, 2 HAVING count(*) > 1
        ) AS twice
    ) = 0
) AS ranked
GROUP BY any_query
HAVING count(judged_query) > 0
ORDER BY 1{end}
