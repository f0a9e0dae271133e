-- Catalogue metrics: what all rankings together show. A row is an item shown to a user; take the top of each ranking with
-- WHERE pos <= 10. Group by a slice for the value of the slice, which is not a mean over users. Load common.sql first.
--
--   catalogue_coverage(item, catalogue)  different items / the items that could be shown
--   gini(item)                           (2 * the sum of i * n(i) / the sum of n(i) - N - 1) / N, where the i-th of N items, the
--                                        least shown first, is in n(i) rows
--   shannon_entropy(item)                the sum of -s * log2(s), where s is the share of the rows that an item has
--   average_popularity(popularity)       avg(popularity)
--   novelty(popularity, users)           avg(log2(users / popularity))
--   freshness(created_at, shown_at)      avg(shown_at - created_at), in days
--   personalisation(user, item)          1 - the sum of n * (n - 1) / the sum of n * (users - 1), where n users see an item
--   exposure(pos, k)                     the sum of 1 / log2(pos + 1) over the rows with pos <= k
--   exposure_disparity(exposure, merit)  the sum of abs(share of the exposure - share of the merit) / 2

-- The number of different items, independent of the collation.
CREATE OR REPLACE MACRO rankql_distinct(item) AS count(DISTINCT encode(CAST(item AS VARCHAR)));

-- A number of items or users, at least `found`. The first message depends on `found` (by an empty text), because DuckDB
-- computes constants while it plans.
CREATE OR REPLACE MACRO rankql_total(total, found, name, of) AS
    CASE WHEN total IS NULL THEN rankql_fail(name || ' must be given: the number of ' || of || left(rankql_text(found), 0))
         WHEN rankql_option(total) >= 1 AND rankql_option(total) = floor(rankql_option(total)) AND rankql_option(total) < found
         THEN rankql_fail(name || ' must be the number of ' || of || ': ' || rankql_text(total) || ' is less than the '
                    || rankql_text(found) || ' that were shown')
         ELSE rankql_whole(total, name)
    END;

CREATE OR REPLACE MACRO catalogue_coverage(item, catalogue := NULL) AS
    rankql_distinct(item)
    / rankql_total(catalogue, rankql_distinct(item), 'catalogue', 'items that could be shown');
COMMENT ON MACRO catalogue_coverage IS 'Catalogue coverage: the share of the catalogue that is shown at least once.';


-- How evenly items are shown.

-- How often each item was shown, ascending.
CREATE OR REPLACE MACRO rankql_counts(item) AS
    coalesce(list_sort(CAST(map_values(histogram(item)) AS DOUBLE[]), 'ASC', 'NULLS LAST'), []);

CREATE OR REPLACE MACRO rankql_catalogue(catalogue, counts) AS
    CASE WHEN rankql_text(catalogue) = 'shown' THEN CAST(len(counts) AS DOUBLE)
         ELSE rankql_total(catalogue, len(counts), 'catalogue',
                           'items that could be shown (or ''shown'', to count the items that were)') END;

-- The Gini index of ascending counts of n items; those without a count are never shown.
CREATE OR REPLACE MACRO rankql_gini(counts, n, norm) AS
    (2 * list_sum(list_transform(counts, lambda x, i: x * i)) / list_sum(counts) + n - 2 * len(counts) - 1) / nullif(n - norm, 0);

CREATE OR REPLACE MACRO rankql_entropy(counts) AS
    abs(log2(list_sum(counts)) - list_sum(list_transform(counts, lambda x: x * log2(x))) / list_sum(counts));

CREATE OR REPLACE MACRO gini(item, catalogue := NULL, norm := 'n') AS
    -- In a list, because DuckDB skips the checks in a divisor if the dividend is NULL.
    list_transform([{'counts': rankql_counts(item), 'n': rankql_catalogue(catalogue, rankql_counts(item)),
                     'norm': CASE rankql_text(norm) WHEN 'n' THEN 0 WHEN 'n-1' THEN 1
                        ELSE rankql_fail('norm must be ''n'' or ''n-1'', not ' || rankql_text(norm)) END}], lambda x_:
        rankql_gini(x_['counts'], x_['n'], x_['norm']))[1];
COMMENT ON MACRO gini IS 'Gini index of how often items are shown: 0 if all equally often, near 1 if only a few.';

CREATE OR REPLACE MACRO shannon_entropy(item, catalogue := NULL, normalized := false) AS
    list_transform([{'counts': rankql_counts(item), 'normalized': rankql_flag(normalized, 'normalized'),
                     'n': CASE WHEN catalogue IS NOT NULL OR rankql_text(normalized) = 'true'
                               THEN rankql_catalogue(catalogue, rankql_counts(item)) END}], lambda x_:
        rankql_entropy(x_['counts']) / CASE WHEN x_['normalized'] THEN nullif(log2(x_['n']), 0) ELSE 1 END)[1];
COMMENT ON MACRO shannon_entropy IS 'Shannon entropy of how often items are shown, in bits: high if attention is spread.';


-- How well known and how new the items are.

-- The self-information of an item in bits, NULL if nobody had it.
CREATE OR REPLACE MACRO rankql_information(popularity, users) AS
    log2(rankql_option(users) / nullif(rankql_known_by(
        popularity, rankql_total(users, 0, 'users', 'users in the training data')), 0));

-- The self-information of an item that one user had.
CREATE OR REPLACE MACRO rankql_most_bits(users) AS log2(rankql_total(users, 0, 'users', 'users in the training data'));

-- 0 for a time, checked, NULL if it is unknown.
CREATE OR REPLACE MACRO rankql_time(value, name) AS
    CASE WHEN rankql_is_clock(value) AND isfinite(rankql_instant(value)) THEN 0
         WHEN value IS NOT NULL OR NOT rankql_is_clock(value) THEN rankql_refuse_time(value, name) END;

-- The age of an item when it was shown: in days if the times are timestamps, NULL if one of them is unknown. Its first condition
-- checks both, once: each check adds 2 ms of planning.
CREATE OR REPLACE MACRO rankql_item_age(created_at, shown_at) AS
    CASE WHEN coalesce(rankql_time(created_at, 'created_at'), 1) + coalesce(rankql_time(shown_at, 'shown_at'), 1) > 0 THEN NULL
         WHEN rankql_is_time(created_at) <> rankql_is_time(shown_at)
         THEN rankql_fail('created_at and shown_at must be of one kind, timestamps or numbers, not ' || typeof(created_at) || ' and '
                    || typeof(shown_at) || left(rankql_text(created_at), 0))
         WHEN rankql_instant(created_at) > rankql_instant(shown_at)
         THEN rankql_fail('created_at must not be after shown_at: ' || rankql_text(created_at) || ' is after ' || rankql_text(shown_at))
         ELSE (rankql_instant(shown_at) - rankql_instant(created_at))
              / CASE WHEN rankql_is_time(created_at) THEN 86400000000 ELSE 1 END END;

CREATE OR REPLACE MACRO average_popularity(popularity, unseen := 'zero') AS
    coalesce(sum(rankql_amount(popularity, 'popularity')), 0) / nullif(CASE rankql_text(unseen)
        WHEN 'zero' THEN count(*)
        WHEN 'drop' THEN count(*) FILTER (WHERE rankql_unchecked(popularity) <> 0)
        ELSE rankql_fail('unseen must be ''zero'' or ''drop'', not ' || rankql_text(unseen)) END, 0);
COMMENT ON MACRO average_popularity IS 'Average popularity: the mean popularity of the items shown.';

CREATE OR REPLACE MACRO novelty(popularity, users := NULL, unseen := 'one_user', normalized := false) AS
    -- In a list, because DuckDB skips the checks of a dividend if the divisor is a constant NULL.
    list_transform([{'bits': CASE rankql_text(unseen)
        WHEN 'one_user' THEN avg(coalesce(rankql_information(popularity, users), rankql_most_bits(users)))
        WHEN 'drop' THEN avg(rankql_information(popularity, users))
        WHEN 'max' THEN (sum(rankql_information(popularity, users))
            + (count(*) - count(rankql_information(popularity, users))) * max(rankql_information(popularity, users)))
            / count(*)
        ELSE rankql_fail('unseen must be ''one_user'', ''drop'' or ''max'', not ' || rankql_text(unseen)) END,
        'most': CASE WHEN rankql_flag(normalized, 'normalized') THEN nullif(rankql_most_bits(users), 0) ELSE 1 END}],
        lambda x_: x_['bits'] / x_['most'])[1];
COMMENT ON MACRO novelty IS 'Novelty: the mean self-information of the items shown, in bits: high if few users know them.';

CREATE OR REPLACE MACRO freshness(created_at, shown_at) AS avg(rankql_item_age(created_at, shown_at));
COMMENT ON MACRO freshness IS 'Freshness: the mean age of the items when they were shown, in days: low if they are new.';


-- What each user sees.

-- Personalisation from the number of users to whom each item was shown.
CREATE OR REPLACE MACRO rankql_personalisation(counts, users) AS
    1 - list_sum(list_transform(counts, lambda n: CAST(n AS DOUBLE) * (n - 1)))
        / nullif(CAST(list_sum(counts) AS DOUBLE) * (users - 1), 0);

CREATE OR REPLACE MACRO personalisation(user, item) AS
    list_transform([list(DISTINCT {'user': user, 'item': item}) FILTER (WHERE user IS NOT NULL AND item IS NOT NULL)],
        lambda shown: rankql_personalisation(
            map_values(list_aggregate(list_transform(shown, lambda x_: x_['item']), 'histogram')),
            list_unique(list_transform(shown, lambda x_: x_['user']))))[1];
COMMENT ON MACRO personalisation IS 'Personalisation: the share of their lists that two users do not have in common.';


-- The attention that items get.

CREATE OR REPLACE MACRO rankql_attention(pos, attention) AS
    CASE WHEN attention IS NULL THEN 1 / log2(pos + 1)
         WHEN pos IS NOT NULL THEN coalesce(
            CASE WHEN starts_with(typeof(attention), 'VARCHAR') OR NOT contains(typeof(attention), '[')
                 THEN rankql_fail('attention must be a list of numbers, not ' || rankql_text(attention))
                 ELSE rankql_amount(TRY_CAST(attention AS DOUBLE[])[CAST(pos AS BIGINT)], 'attention') END,
            rankql_fail('attention must have a value for every position shown: there is none for '
                  || rankql_text(CAST(pos AS BIGINT)))) END;

CREATE OR REPLACE MACRO exposure(pos, k := NULL, attention := NULL) AS
    coalesce(sum(rankql_attention(rankql_pos(pos, k), attention)), 0);
COMMENT ON MACRO exposure IS 'Exposure: the attention that the positions of a group of items get.';

CREATE OR REPLACE MACRO exposure_disparity(exposure, merit) AS
    list_transform([list_filter(list({'e': coalesce(rankql_amount(exposure, 'exposure'), 0), 'm': rankql_amount(merit, 'merit')}),
                                lambda x_: x_['m'] IS NOT NULL)],
        lambda rows: list_transform([{
            'e': nullif(list_sum(list_transform(rows, lambda x_: x_['e'])), 0),
            'm': nullif(list_sum(list_transform(rows, lambda x_: x_['m'])), 0)
        }], lambda total_:
            list_sum(list_transform(rows, lambda x_: abs(x_['e'] / total_['e'] - x_['m'] / total_['m']))) / 2)[1])[1];
COMMENT ON MACRO exposure_disparity IS 'Exposure disparity: the share of the exposure that must move to be proportional to merit.';
