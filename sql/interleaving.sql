-- Interleaving: two rankings shown as one, and which one the clicks prefer. Load common.sql first.
--
--   team_draft(a, b)                  items and their teams: in each round a toss decides which ranking first adds its best item
--                                     that is not there yet
--   team_draft_credit(picks, clicks)  sign(clicks on the team of a - clicks on the team of b)
--   sign_test(preference)             min(1, 2 * the probability of at most min(wins, losses) heads in wins + losses tosses)

-- A ranking as text, without duplicates.
CREATE OR REPLACE MACRO rankql_side(items, name) AS
    CASE WHEN typeof(items) NOT LIKE '%]'
         THEN rankql_fail(name || ' must be a list of items, not ' || rankql_text(items))
         WHEN list_count(TRY_CAST(items AS VARCHAR[])) < len(TRY_CAST(items AS VARCHAR[]))
         THEN rankql_fail(name || ' must not hold NULL')
         WHEN list_unique(TRY_CAST(items AS VARCHAR[])) < len(TRY_CAST(items AS VARCHAR[]))
         THEN rankql_fail(name || ' must not hold an item twice')
         ELSE rankql_texts(items) END;

-- The turns of a draft: at most k, enough for both rankings.
CREATE OR REPLACE MACRO rankql_turns(a, b, k) AS
    range(0, CAST(least(rankql_cutoff(k), len(a) + len(b)) AS BIGINT));

-- Heads or tails: the first bit of an MD5 sum, the same for a seed and toss in every engine. Seeds of other types are refused,
-- because engines write them differently.
CREATE OR REPLACE MACRO rankql_toss(seed, toss) AS
    CASE WHEN seed IS NULL THEN rankql_fail('seed must be given: a value that differs between impressions, such as their id')
         WHEN typeof(seed) NOT SIMILAR TO '(?s)VARCHAR|ENUM\(.*\)|UUID|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BIGNUM'
         THEN rankql_fail('seed must be text, a whole number or a UUID, not ' || rankql_text(seed))
         ELSE md5(CAST(seed AS VARCHAR) || ':' || CAST(toss AS VARCHAR)) < '8' END;

-- The best item that is not shown yet.
CREATE OR REPLACE MACRO rankql_next(items, shown) AS
    list_filter(items, lambda item: NOT list_contains(shown, rankql_exact(item)))[1];

-- Whether the second team of a round can pick an item, and the first could as second. Otherwise the longer ranking would get
-- more than its share.
CREATE OR REPLACE MACRO rankql_answers(shown, first, second) AS
    rankql_next(second, shown) IS NOT NULL AND (
        rankql_next(first, shown) IS NOT NULL
        OR coalesce(list_position(second, rankql_exact(shown[-1]))
                    > list_position(second, rankql_exact(rankql_next(second, shown))), true));

-- One pick. Turns, from 0, come in pairs: a toss decides who is first.
CREATE OR REPLACE MACRO rankql_pick(state, turn, a, b, seed) AS
    list_transform([{'heads': rankql_toss(seed, turn // 2)}], lambda toss_: CASE
        WHEN state['done'] OR CASE
            WHEN turn % 2 = 0
            THEN rankql_next(a, state['items']) IS NULL OR rankql_next(b, state['items']) IS NULL
            WHEN toss_['heads'] THEN NOT rankql_answers(state['items'], a, b)
            ELSE NOT rankql_answers(state['items'], b, a) END
        THEN {'items': state['items'], 'teams': state['teams'], 'turn': turn, 'done': true}
        WHEN toss_['heads'] = (turn % 2 = 0)
        THEN {'items': list_append(state['items'], rankql_next(a, state['items'])), 'teams': list_append(state['teams'], 'A'),
              'turn': turn, 'done': false}
        ELSE {'items': list_append(state['items'], rankql_next(b, state['items'])), 'teams': list_append(state['teams'], 'B'),
              'turn': turn, 'done': false} END)[1];

CREATE OR REPLACE MACRO rankql_draft(a, b, k, seed, top) AS
    list_transform([list_reduce(
        list_concat(
            [{'items': top, 'teams': list_transform(top, lambda x: CAST(NULL AS VARCHAR)), 'turn': -1::BIGINT,
              'done': false}],
            list_transform(rankql_turns(a, b, k)[:greatest(0, len(rankql_turns(a, b, k)) - len(top))],
                lambda turn: {'items': CAST([] AS VARCHAR[]), 'teams': CAST([] AS VARCHAR[]), 'turn': turn,
                              'done': false})),
        lambda state, next_: rankql_pick(state, next_['turn'], a, b, seed))],
        lambda state_: list_transform(state_['items'], lambda item, i: {'item': item, 'team': state_['teams'][i]}))[1];

-- The common prefix of two rankings.
CREATE OR REPLACE MACRO rankql_common(a, b) AS
    a[:coalesce(list_min(list_filter(range(1, least(len(a), len(b)) + 1), lambda i: a[i] <> rankql_exact(b[i]))) - 1,
                least(len(a), len(b)))];

CREATE OR REPLACE MACRO team_draft(a, b, k := NULL, seed := NULL, prefix := false) AS
    CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN
        list_transform([{'a': rankql_side(a, 'a'), 'b': rankql_side(b, 'b')}], lambda x_:
            rankql_draft(x_['a'], x_['b'], k, seed,
            CASE WHEN rankql_flag(prefix, 'prefix') THEN rankql_top(rankql_common(x_['a'], x_['b']), k)
                 ELSE CAST([] AS VARCHAR[]) END))[1] END;
COMMENT ON MACRO team_draft IS 'Interleave two rankings: teams pick items in turn, and a coin toss decides who is first.';


-- What the clicks prefer.

-- The result of team_draft; a log can have added fields.
CREATE OR REPLACE MACRO rankql_picks(picks) AS
    CASE WHEN typeof(picks) SIMILAR TO '(?is)STRUCT\((.*, )?"?item"? .*\)\[\]'
              AND typeof(picks) SIMILAR TO '(?is)STRUCT\((.*, )?"?team"? .*\)\[\]'
         THEN TRY_CAST(picks AS STRUCT(item VARCHAR, team VARCHAR)[])
         ELSE rankql_fail('picks must be a list of items and their teams, as of team_draft, not ' || rankql_text(picks)) END;

-- The clicked items, in any order, with repetitions.
CREATE OR REPLACE MACRO rankql_clicks(clicks) AS
    CASE WHEN typeof(clicks) LIKE '%]' THEN rankql_texts(clicks)
         ELSE rankql_fail('clicks must be a list of items, not ' || rankql_text(clicks)) END;

-- The binomial coefficient is computed with lgamma(), exact to 1e-9 for n = 1,000,000.
CREATE OR REPLACE MACRO rankql_even(fewer, n) AS
    CASE WHEN n > 0 THEN least(1, 2 * list_sum(list_transform(range(0, CAST(fewer AS BIGINT) + 1), lambda i:
        exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * ln(2))))) END;

-- 1 if A has more clicks, -1 if B has, else 0.
CREATE OR REPLACE MACRO team_draft_credit(picks, clicks) AS
    CASE WHEN picks IS NOT NULL AND clicks IS NOT NULL THEN
        list_transform([[pick_['team'] for pick_ in rankql_picks(picks)
                         if list_contains(rankql_clicks(clicks), rankql_exact(pick_['item']))]],
            lambda teams: CAST(sign(
                len([team for team in teams if team = 'A']) - len([team for team in teams if team = 'B'])) AS DOUBLE))[1] END;
COMMENT ON MACRO team_draft_credit IS 'Which ranking the clicks on a team draft prefer: 1 for A, -1 for B, 0 for neither.';

CREATE OR REPLACE MACRO sign_test(preference) AS
    list_transform([{'up': CAST(count(*) FILTER (WHERE rankql_finite(preference, 'preference') > 0) AS DOUBLE),
                     'down': CAST(count(*) FILTER (WHERE rankql_finite(preference, 'preference') < 0) AS DOUBLE)}],
        lambda x_: rankql_even(least(x_['up'], x_['down']), x_['up'] + x_['down']))[1];
COMMENT ON MACRO sign_test IS 'Two-sided p-value of the sign test: wins against losses, without ties.';
