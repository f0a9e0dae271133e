// The metrics of one ranking, as in sql/gain.sql, sql/precision.sql and sql/cascade.sql. A grade of
// null is an unjudged item: it keeps its position and gains nothing. `missing` holds the grades of
// items that are judged, but not retrieved. Undefined is null.

// Sums round: a perfect ranking is exactly 1.
const atMostOne = (value) => (value !== null && value >= 1 - 2 ** -40 ? 1 : value);
const sum = (values) => values.reduce((total, value) => total + value, 0);

export function gainOf(grade, gain) {
  if (grade === null) return 0;
  return gain === "exp2" ? 2 ** grade - 1 : grade;
}

export const discountAt = (position) => Math.log2(position + 1);

// Gains of nDCG are not negative, those of DCG keep their sign.
const discounted = (gains) => sum(gains.map((gain, i) => gain / discountAt(i + 1)));

// The grades in the first k positions, and those of the best possible order.
export function idealGrades(grades, { k = null, missing = [] } = {}) {
  const judged = [...grades, ...missing].filter((grade) => grade !== null && grade > 0);
  return judged.sort((a, b) => b - a).slice(0, k ?? undefined);
}

export function evaluateRanking(grades, options = {}) {
  const { k = null, gain = "linear", threshold = 1, maxRel = 4, p = 0.8, missing = [] } = options;
  const top = grades.slice(0, k ?? undefined);
  const judged = [...grades, ...missing].filter((grade) => grade !== null);
  const relevant = judged.filter((grade) => grade >= threshold).length;
  const hits = top.flatMap((g, i) => (g !== null && g >= threshold ? [i + 1] : []));

  const gains = top.map((grade) => gainOf(grade, gain));
  const ideal = discounted(idealGrades(grades, { k, missing }).map((g) => gainOf(g, gain)));
  const positive = discounted(gains.map((value) => Math.max(value, 0)));
  return {
    dcg: discounted(gains),
    idcg: ideal,
    ndcg: ideal > 0 ? atMostOne(positive / ideal) : null,
    ap: relevant
      ? atMostOne(sum(hits.map((at, i) => (i + 1) / at)) / Math.min(k ?? Infinity, relevant))
      : null,
    rr: relevant ? (hits.length ? 1 / hits[0] : 0) : null,
    err: judged.some((grade) => grade > 0) ? expectedReciprocalRank(top, maxRel) : null,
    rbp: atMostOne((1 - p) * sum(hits.map((at) => p ** (at - 1)))),
  };
}

// A user stops at an item with probability (2^grade - 1) / 2^maxRel.
function expectedReciprocalRank(grades, maxRel) {
  let left = 1;
  return sum(
    grades.map((grade, i) => {
      const stop = (2 ** Math.max(grade ?? 0, 0) - 1) / 2 ** maxRel;
      const value = (left * stop) / (i + 1);
      left *= 1 - stop;
      return value;
    }),
  );
}

// The same values in SQL and polars.
export function asCode(grades, options = {}) {
  const { k = null, gain = "linear", threshold = 1, maxRel = 4, p = 0.8, missing = [] } = options;
  const write = (none) => (values) => `[${values.map((value) => value ?? none).join(", ")}]`;
  const code = (equals, prefix, rels, gains, judged, gainsOfJudged) => {
    const cut = k === null ? [] : [`k${equals}${k}`];
    const relevant = threshold === 1 ? [] : [`threshold${equals}${threshold}`];
    const ideal = missing.length ? [`ideal${equals}${judged}`] : [];
    const gainIdeal = missing.length ? [`ideal${equals}${gainsOfJudged}`] : [];
    return [
      ["dcg", gains, ...cut],
      ["idcg", gains, ...cut, ...gainIdeal],
      ["ndcg", gains, ...cut, ...gainIdeal],
      ["ap", rels, ...cut, ...relevant, ...ideal],
      ["rr", rels, ...cut, ...relevant, ...ideal],
      ["err", rels, ...cut, `max_rel${equals}${maxRel}`, ...ideal],
      ["rbp", rels, ...cut, `p${equals}${p}`, ...relevant],
    ].map(([name, ...rest]) => `${prefix}list_${name}(${rest.join(", ")})`);
  };
  const judged = [...grades, ...missing];
  const exp2 = gain === "exp2";

  const sqlGain = (column) => (exp2 ? `list_transform(${column}, lambda rel: exp2_gain(rel))` : column);
  const sql = code(" := ", "", "rels", sqlGain("rels"), "judged", sqlGain("judged"));
  const sqlColumns = [
    `${write("NULL")(grades)}::DOUBLE[] AS rels`,
    ...(missing.length ? [`${write("NULL")(judged)}::DOUBLE[] AS judged`] : []),
  ];

  // polars takes no integers and fractions in one list.
  const whole = judged.every((grade) => grade === null || Number.isInteger(grade));
  const polarsList = (values) =>
    write("None")(values.map((value) => (whole || !Number.isInteger(value) ? value : `${value}.0`)));
  const polarsGain = (column) =>
    exp2 ? `pl.col("${column}").list.eval(rankql.exp2_gain(pl.element()))` : `"${column}"`;
  const polars = code(
    "=", "rankql.", '"rels"', polarsGain("rels"), '"judged"', polarsGain("judged"),
  );
  const polarsColumns = [
    `"rels": [${polarsList(grades)}]`,
    ...(missing.length ? [`"judged": [${polarsList(judged)}]`] : []),
  ];
  return {
    sql: `SELECT ${sql.join(", ")} FROM (SELECT ${sqlColumns.join(", ")});`,
    polars: `pl.DataFrame({${polarsColumns.join(", ")}}).select(${polars.join(", ")})`,
  };
}
