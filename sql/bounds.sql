-- Bounds: the lowest and highest possible value of a metric if all unjudged items that were retrieved were judged, as
-- {'low', 'high'}; NULL if the metric stays undefined. Load the other families first. The macros take
--   items    the retrieved items of one query, [{'pos', 'rel'}], by pos; rel NULL: unjudged
--   judged   the grades of all judged items of the query, retrieved or not
--   levels   the possible grades of an unjudged item, ascending from 0
-- and k and the options of the metric. If m unjudged items are relevant, the top m are best and the bottom m are worst, so
-- metrics of hits only need m = 0, 1, 2, ...

-- The typed items, empty without a list.
CREATE OR REPLACE MACRO rankql_items(items) AS coalesce(CAST(items AS STRUCT(pos DOUBLE, rel DOUBLE)[]), []);

-- 1 or 0 as in rankql_hit, also for unjudged items if all or no levels are relevant; NULL if it is open.
CREATE OR REPLACE MACRO rankql_mark(rel, levels, threshold) AS
    coalesce(rankql_hit(rel, threshold), CASE WHEN levels[1] >= rankql_threshold(threshold) THEN 1
                                              WHEN levels[-1] < rankql_threshold(threshold) THEN 0 END);

CREATE OR REPLACE MACRO rankql_places(items) AS list_transform(items, lambda x_: x_['pos']);

-- The items, the positions of hits and of open items, and the number of relevant items without the open ones.
CREATE OR REPLACE MACRO rankql_marked(items, judged, levels, threshold) AS
    list_transform([list_transform(rankql_items(items), lambda x_:
        {'pos': x_['pos'], 'hit': rankql_mark(x_['rel'], levels, threshold), 'new': x_['rel'] IS NULL})], lambda marks: {
        'items': marks,
        'hits': rankql_places(list_filter(marks, lambda x_: x_['hit'] = 1)),
        'open': rankql_places(list_filter(marks, lambda x_: x_['hit'] IS NULL)),
        'relevant': rankql_list_relevant(coalesce(judged, []), threshold)
                    + len(list_filter(marks, lambda x_: x_['new'] AND x_['hit'] = 1))})[1];

-- The number of positions within the cutoff.
CREATE OR REPLACE MACRO rankql_within(positions, k) AS
    len(list_filter(positions, lambda p: p <= rankql_cutoff(k)));

-- For m = 0, 1, 2, ... relevant open items: the fewest and most hits within the cutoff, and all relevant items.
CREATE OR REPLACE MACRO rankql_bound_hits(items, judged, k, levels, threshold) AS
    list_transform([rankql_marked(items, judged, levels, threshold)], lambda marked_:
        list_transform([{
            'hits': rankql_within(marked_['hits'], k), 'open': rankql_within(marked_['open'], k), 'all': len(marked_['open']),
            'relevant': marked_['relevant'], 'retrieved': rankql_within(rankql_places(marked_['items']), k)}], lambda n_:
            list_transform(range(n_['all'] + 1), lambda m: {
                'fewest': CAST(n_['hits'] + greatest(m - (n_['all'] - n_['open']), 0) AS DOUBLE),
                'most': CAST(n_['hits'] + least(m, n_['open']) AS DOUBLE),
                'relevant': n_['relevant'] + m,
                'retrieved': n_['retrieved']}))[1])[1];

-- The minimum and maximum, ignoring undefined values.
CREATE OR REPLACE MACRO rankql_span(lows, highs) AS
    {'low': CAST(list_min(lows) AS DOUBLE), 'high': CAST(list_max(highs) AS DOUBLE)};

CREATE OR REPLACE MACRO rankql_bounds_precision_at(
    items, judged, k, levels, threshold := 1, denominator := 'k'
) AS
    list_transform([rankql_bound_hits(items, judged, k, levels, threshold)], lambda hits: rankql_span(
        list_transform(hits, lambda x_: rankql_precision(x_['fewest'], x_['relevant'], x_['retrieved'], k, denominator)),
        list_transform(hits, lambda x_: rankql_precision(x_['most'], x_['relevant'], x_['retrieved'], k, denominator))))[1];

CREATE OR REPLACE MACRO rankql_bounds_recall_at(items, judged, k, levels, threshold := 1) AS
    list_transform([rankql_bound_hits(items, judged, k, levels, threshold)], lambda hits: rankql_span(
        list_transform(hits, lambda x_: x_['fewest'] / nullif(x_['relevant'], 0)),
        list_transform(hits, lambda x_: x_['most'] / nullif(x_['relevant'], 0))))[1];

CREATE OR REPLACE MACRO rankql_bounds_f1_at(items, judged, k, levels, threshold := 1, denominator := 'k') AS
    list_transform([rankql_bound_hits(items, judged, k, levels, threshold)], lambda hits: rankql_span(
        list_transform(hits, lambda x_: rankql_f1(x_['fewest'], x_['relevant'], x_['retrieved'], k, denominator)),
        list_transform(hits, lambda x_: rankql_f1(x_['most'], x_['relevant'], x_['retrieved'], k, denominator))))[1];

-- For metrics that never fall with one more relevant item: the positions of hits with the fewest relevant items (one at the
-- bottom if there is none) and with all; NULL if undefined.
CREATE OR REPLACE MACRO rankql_bound_positions(items, judged, k, levels, threshold) AS
    list_transform([rankql_marked(items, judged, levels, threshold)], lambda marked_: {
        'low': list_filter(CASE WHEN marked_['relevant'] > 0 THEN marked_['hits']
                                WHEN len(marked_['open']) > 0 THEN [marked_['open'][-1]] END,
                           lambda p: p <= rankql_cutoff(k)),
        'high': list_filter(CASE WHEN marked_['relevant'] + len(marked_['open']) > 0
                                 THEN list_concat(marked_['hits'], marked_['open']) END,
                            lambda p: p <= rankql_cutoff(k))})[1];

CREATE OR REPLACE MACRO rankql_bounds_hit_at(items, judged, k, levels, threshold := 1) AS
    list_transform([rankql_bound_positions(items, judged, k, levels, threshold)], lambda x_: {
        'low': CAST(len(x_['low']) > 0 AS DOUBLE), 'high': CAST(len(x_['high']) > 0 AS DOUBLE)})[1];

-- The state while open items become relevant one by one: `above` hits above, `rest` the sum of 1 / position over the hits
-- below, `total` the sum of precisions at the hits, `m` items so far, `best` the extreme ap so far.
CREATE OR REPLACE MACRO rankql_ap_item(open, weight, above, rest, total, best) AS {
    'open': CAST(open AS DOUBLE), 'weight': CAST(weight AS DOUBLE), 'above': CAST(above AS DOUBLE),
    'rest': CAST(rest AS DOUBLE), 'total': CAST(total AS DOUBLE), 'm': 0::DOUBLE, 'best': CAST(best AS DOUBLE)};

-- The ap with m open items relevant. `n` are constants.
CREATE OR REPLACE MACRO rankql_ap_of(total, m, n, k, denominator) AS
    rankql_ap(total, n['hits'] + m, n['relevant'] + m, n['retrieved'], k, denominator);

-- The sum of precisions with one more hit: its own, and the increase of those below.
CREATE OR REPLACE MACRO rankql_ap_total(a, b) AS a['total'] + b['open'] * ((a['above'] + 1) * b['weight'] + a['rest']);

CREATE OR REPLACE MACRO rankql_ap_lowest(steps, n, k, denominator) AS
    list_reduce(list_concat([rankql_ap_item(0, 0, n['hits'], 0, n['total'], rankql_ap_of(n['total'], 0, n, k, denominator))],
                            list_reverse(steps)), lambda a_, b_: {
        'open': 0::DOUBLE, 'weight': 0::DOUBLE, 'above': a_['above'] - (1 - b_['open']), 'rest': a_['rest'] + b_['weight'],
        'total': rankql_ap_total(a_, b_), 'm': a_['m'] + b_['open'],
        'best': least(a_['best'], CASE WHEN b_['open'] = 1 THEN
            rankql_ap_of(rankql_ap_total(a_, b_), a_['m'] + 1, n, k, denominator) END)}).best;

CREATE OR REPLACE MACRO rankql_ap_highest(steps, n, k, denominator) AS
    list_reduce(list_concat([rankql_ap_item(0, 0, 0, n['rest'], n['total'], rankql_ap_of(n['total'], 0, n, k, denominator))],
                            steps), lambda a_, b_: {
        'open': 0::DOUBLE, 'weight': 0::DOUBLE, 'above': a_['above'] + 1, 'rest': a_['rest'] - (1 - b_['open']) * b_['weight'],
        'total': rankql_ap_total(a_, b_), 'm': a_['m'] + b_['open'],
        'best': greatest(a_['best'], CASE WHEN b_['open'] = 1 THEN
            rankql_ap_of(rankql_ap_total(a_, b_), a_['m'] + 1, n, k, denominator) END)}).best;

-- With denominator 'found', items beyond the cutoff only make ap defined.
CREATE OR REPLACE MACRO rankql_bounds_ap(items, judged, k, levels, threshold := 1, denominator := 'min') AS
    list_transform([rankql_marked(items, judged, levels, threshold)], lambda marked_:
        list_transform([list_transform(
            list_filter(marked_['items'], lambda x_: (x_['hit'] IS NULL OR x_['hit'] = 1)
                                                AND (denominator <> 'found' OR x_['pos'] <= rankql_cutoff(k))),
            lambda x_: rankql_ap_item(x_['hit'] IS NULL, CASE WHEN x_['pos'] <= rankql_cutoff(k) THEN 1 / x_['pos'] ELSE 0 END,
                                     0, 0, 0, NULL))], lambda steps:
            list_transform([list_filter(steps, lambda x_: x_['open'] = 0)], lambda hits:
                list_transform([{
                    'hits': len(hits),
                    'rest': rankql_sum(list_transform(hits, lambda x_: x_['weight'])),
                    'total': rankql_sum(list_transform(hits, lambda x_, j: x_['weight'] * j)),
                    'relevant': marked_['relevant'] + CASE WHEN denominator = 'found'
                        THEN len(marked_['open']) - rankql_within(marked_['open'], k) ELSE 0 END,
                    'retrieved': rankql_within(rankql_places(marked_['items']), k)}], lambda n: {
                    'low': rankql_ap_lowest(steps, n, k, denominator),
                    'high': rankql_ap_highest(steps, n, k, denominator)})[1])[1])[1])[1];

-- The sums of the first 0, 1, 2, ... entries: that of m is at m + 1.
CREATE OR REPLACE MACRO rankql_sums(list) AS
    list_transform([list], lambda x: list_transform(range(len(x) + 1), lambda m:
        CAST(coalesce(list_sum(x[:m]), 0) AS DOUBLE)))[1];

CREATE OR REPLACE MACRO rankql_bounds_rr(items, judged, k, levels, threshold := 1) AS
    list_transform([rankql_bound_positions(items, judged, k, levels, threshold)], lambda x_: {
        'low': CASE WHEN x_['low'] IS NOT NULL THEN coalesce(1 / list_min(x_['low']), 0) END,
        'high': CASE WHEN x_['high'] IS NOT NULL THEN coalesce(1 / list_min(x_['high']), 0) END})[1];

CREATE OR REPLACE MACRO rankql_bounds_arhr(items, judged, k, levels, threshold := 1) AS
    list_transform([rankql_bound_positions(items, judged, k, levels, threshold)], lambda x_: {
        'low': rankql_sum(list_transform(x_['low'], lambda p: 1 / p)),
        'high': rankql_sum(list_transform(x_['high'], lambda p: 1 / p))})[1];

-- err with all unjudged items at one level.
CREATE OR REPLACE MACRO rankql_err_at(items, level, k, max_rel, p, stop) AS
    rankql_walk(list_transform(list_filter(items, lambda x_: x_['pos'] <= rankql_cutoff(k)), lambda x_: rankql_step(
        x_['pos'], rankql_stop(coalesce(x_['rel'], level), max_rel, stop), rankql_utility(x_['pos'], p))));

-- err never falls if a grade rises. If no judged grade is positive, the minimum has one unjudged item at the bottom at the
-- lowest level above 0.
CREATE OR REPLACE MACRO rankql_bounds_err(items, judged, k, levels, max_rel := NULL, p := 1, stop := 'exp2') AS
    list_transform([{'items': rankql_items(items), 'use': coalesce(rankql_highest(judged, max_rel, stop) > 0, false)
                                                          AND rankql_cutoff(k) * rankql_utility(1, p) > 0}], lambda x_:
        list_transform([list_filter(x_['items'], lambda item_: item_['rel'] IS NULL)], lambda open: {
            'low': CASE WHEN x_['use'] THEN rankql_err_at(x_['items'], 0, k, max_rel, p, stop)
                        WHEN len(open) > 0 AND len(levels) > 1
                        THEN rankql_err_at([open[-1]], levels[2], k, max_rel, p, stop) END,
            'high': CASE WHEN x_['use'] OR (len(open) > 0 AND levels[-1] > 0)
                         THEN rankql_err_at(x_['items'], levels[-1], k, max_rel, p, stop) END})[1])[1];

-- rbp with all unjudged items at one level.
CREATE OR REPLACE MACRO rankql_rbp_at(items, level, k, p, threshold, max_rel) AS
    (1 - rankql_patience(p)) * rankql_sum(list_transform(
        list_filter(items, lambda x_: x_['pos'] <= rankql_cutoff(k)),
        lambda x_: rankql_worth(coalesce(x_['rel'], level), threshold, max_rel) * rankql_look(x_['pos'], p)));

CREATE OR REPLACE MACRO rankql_bounds_rbp(items, judged, k, levels, p := NULL, threshold := 1, max_rel := NULL) AS
    list_transform([rankql_items(items)], lambda xs: {
        'low': rankql_rbp_at(xs, levels[1], k, p, threshold, max_rel),
        'high': rankql_rbp_at(xs, levels[-1], k, p, threshold, max_rel)})[1];

CREATE OR REPLACE MACRO rankql_bounds_cg(items, judged, k, levels) AS
    list_transform([list_filter(rankql_items(items), lambda x_: x_['pos'] <= rankql_cutoff(k))], lambda xs: {
        'low': rankql_sum(list_transform(xs, lambda x_: coalesce(x_['rel'], levels[1]))),
        'high': rankql_sum(list_transform(xs, lambda x_: coalesce(x_['rel'], levels[-1])))})[1];

-- The weight of a position in dcg, 0 beyond the cutoff.
CREATE OR REPLACE MACRO rankql_weight(pos, k, discounts, base) AS
    CASE WHEN pos > rankql_cutoff(k) THEN 0
         WHEN discounts IS NULL THEN rankql_base(base) / log2(pos + 1)
         ELSE 1 / rankql_listed(pos, discounts) END;

-- The dcg of the judged items, and the weights of the unjudged items, descending.
CREATE OR REPLACE MACRO rankql_open_gains(items, k, discounts, base, negative) AS
    list_transform([list_transform(rankql_items(items), lambda x_:
        {'gain': rankql_negative(x_['rel'], negative), 'weight': rankql_weight(x_['pos'], k, discounts, base)})], lambda xs: {
        'own': rankql_sum(list_transform(xs, lambda x_: x_['gain'] * x_['weight']))
               / CASE WHEN discounts IS NULL THEN 1 ELSE rankql_valid(discounts) END,
        'weights': list_sort(list_transform(list_filter(xs, lambda x_: x_['gain'] IS NULL), lambda x_: x_['weight']),
                             'DESC', 'NULLS LAST')})[1];

CREATE OR REPLACE MACRO rankql_bounds_dcg(items, judged, k, levels, discounts := NULL, base := 2) AS
    list_transform([rankql_open_gains(items, k, discounts, base, 'keep')], lambda x_: {
        'low': x_['own'] + levels[1] * rankql_sum(x_['weights']),
        'high': x_['own'] + levels[-1] * rankql_sum(x_['weights'])})[1];

-- Slices of the grade scale, from each grade that occurs to the next: width, the number of judged items at least that high,
-- and the lowest level of an unjudged item that high (NULL without one). idcg is the sum of width times the sum of the
-- weights of the items that high.
CREATE OR REPLACE MACRO rankql_slices(best, levels) AS
    list_transform([list_sort(list_distinct(list_concat(best, list_filter(levels, lambda level: level > 0))),
                              'ASC', 'NULLS LAST')], lambda edges:
        list_transform(edges, lambda edge, i: {
            'width': edge - coalesce(edges[i - 1], 0),
            'judged': len(list_filter(best, lambda grade: grade >= edge)),
            'level': list_min(list_filter(levels, lambda level: level >= edge))}))[1];

-- The weights of the first n positions of the ideal ranking, descending.
CREATE OR REPLACE MACRO rankql_ideal_weights(n, k, discounts, base) AS
    CASE WHEN discounts IS NULL THEN list_transform(range(1, n + 1), lambda i: rankql_base(base) / log2(i + 1))
         ELSE list_transform([list_sort(rankql_top(CAST(discounts AS DOUBLE[]), k), 'ASC', 'NULLS LAST')], lambda least:
            list_transform(range(1, n + 1), lambda i: 1 / rankql_listed(i, least)))[1] END;

-- The idcg of some slices with m more items that high.
CREATE OR REPLACE MACRO rankql_slices_idcg(slices, ideal, m) AS
    rankql_sum(list_transform(slices, lambda slice_: slice_['width'] * ideal[least(slice_['judged'] + m + 1, len(ideal))]));

-- For each level above 0, what it adds to dcg and idcg if the m unjudged items with the largest weights reach it, for
-- m = 0, 1, 2, ... Items beyond the cutoff are last and add to idcg only.
CREATE OR REPLACE MACRO rankql_level_gains(slices, ideal, shown, unjudged, levels) AS
    list_transform(list_sort(list_distinct(list_filter(levels, lambda level: level > 0)), 'ASC', 'NULLS LAST'),
                   lambda level:
        list_transform([list_filter(slices, lambda slice_: slice_['level'] = level)], lambda own:
            list_transform([rankql_sum(list_transform(own, lambda slice_: slice_['width']))], lambda width: {
                'dcg': list_transform(shown, lambda sum: width * sum),
                'idcg': list_transform(range(unjudged + 1), lambda m: rankql_slices_idcg(own, ideal, m)),
                'width': width})[1])[1]);

CREATE OR REPLACE MACRO rankql_one_ndcg(own, above, dcg, idcg) AS
    (own + rankql_sum(dcg)) / nullif(above + rankql_sum(idcg), 0);

-- The minimum: 0 or one level for the bottom m.
CREATE OR REPLACE MACRO rankql_lowest_ndcg(levels, s) AS
    list_transform([levels], lambda chosen: list_min(list_transform(s['hidden'], lambda sum, m:
        rankql_one_ndcg(s['own'], s['above'], list_transform(chosen, lambda x_: x_['width'] * sum),
                        list_transform(chosen, lambda x_: x_['idcg'][m])))))[1];

CREATE OR REPLACE MACRO rankql_peak(list) AS
    list_transform([list], lambda x: list_position(x, list_max(x)))[1];

-- The maximum by Dinkelbach's method: given the ndcg t so far, each level takes the m with the highest dcg - t * idcg, and the
-- result is the next t. It never falls and is exact after a few rounds.
CREATE OR REPLACE MACRO rankql_highest_ndcg(start, s) AS
    list_reduce(list_concat([CAST(start AS DOUBLE)], list_transform(range(10), lambda i: 0::DOUBLE)), lambda t, i:
        list_transform([list_transform(s['levels'], lambda x_:
            rankql_peak(list_transform(x_['dcg'], lambda dcg, m: dcg - t * x_['idcg'][m])))], lambda peaks:
            coalesce(rankql_one_ndcg(s['own'], s['above'], list_transform(s['levels'], lambda x_, i: x_['dcg'][peaks[i]]),
                                     list_transform(s['levels'], lambda x_, i: x_['idcg'][peaks[i]])), t))[1]);

-- If the ideal has retrieved items only, `judged` are their grades.
-- The minimum has the bottom m unjudged items at the top level, or at the lowest above 0 if the dcg of judged items is
-- negative and no judged grade positive. The maximum has its own m per level; if the highest dcg is negative, the highest
-- idcg is best.
CREATE OR REPLACE MACRO rankql_bounds_ndcg(
    items, judged, k, levels, discounts := NULL, base := 2, negative := 'zero'
) AS
    list_transform([{'gains': rankql_open_gains(items, k, discounts, base, negative),
                     'best': rankql_list_best(coalesce(CAST(judged AS DOUBLE[]), []), k)}], lambda x_:
        list_transform([{
            'slices': rankql_slices(x_['best'], CAST(levels AS DOUBLE[])),
            'ideal': rankql_sums(rankql_ideal_weights(
                CAST(least(len(x_['best']) + len(x_['gains']['weights']), rankql_cutoff(k)) AS BIGINT), k, discounts, base)),
            'shown': rankql_sums(list_filter(x_['gains']['weights'], lambda weight: weight > 0))}], lambda y_:
            list_transform([{
                'own': x_['gains']['own'],
                'hidden': rankql_sums(list_reverse(x_['gains']['weights'])),
                'above': rankql_slices_idcg(list_filter(y_['slices'], lambda slice_: slice_['level'] IS NULL), y_['ideal'], 0),
                'levels': rankql_level_gains(y_['slices'], y_['ideal'], y_['shown'], len(x_['gains']['weights']),
                                             CAST(levels AS DOUBLE[])),
                'barren': x_['gains']['own'] < 0 AND len(x_['best']) = 0}], lambda s_:
                list_transform([rankql_one_ndcg(
                    s_['own'], s_['above'], list_transform(s_['levels'], lambda level_: level_['width'] * s_['hidden'][-1]),
                    list_transform(s_['levels'], lambda level_: level_['idcg'][-1]))], lambda start: {
                    'low': rankql_lowest_ndcg(CASE WHEN s_['barren'] THEN s_['levels'][:1] ELSE s_['levels'] END, s_),
                    'high': CASE WHEN start < 0 THEN start ELSE rankql_highest_ndcg(start, s_) END})[1])[1])[1])[1];
