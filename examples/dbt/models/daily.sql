{{ rankql.means(
    ref('per_query'),
    metrics=['ndcg_10', 'ap', 'recall_10'],
    by=['day'],
    more={
        'undefined': 'count(*) - count(ndcg_10)',
        'micro_recall_10': 'sum(found) / nullif(sum(relevant), 0)',
    },
) }}
