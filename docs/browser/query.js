// The SQL of an evaluation, with the conventions of rankql.evaluate and rankql.compare.

import { Problem, literal, quote } from "./engine.js";
import { DISTANCES, METRICS, ROLES } from "./names.js";

// Columns, recognised as by find_name of rankql.core.base.column_names

const squash = (name) => name.toLowerCase().replace(/[-_\s]/g, "");
const SPELLINGS = [(name) => name.toLowerCase(), squash];

export function findName(columns, names) {
  for (const spell of SPELLINGS) {
    const spelled = new Map([...columns].reverse().map((column) => [spell(column), column]));
    const name = names.find((one) => spelled.has(spell(one)));
    if (name) return spelled.get(spell(name));
  }
  return null;
}

// The column of each role, and what the file is: a ranking or judgments.
export function recognise(columns) {
  const names = Object.keys(columns);
  const roles = Object.fromEntries(
    Object.entries(ROLES).map(([role, known]) => [role, findName(names, known)]),
  );
  if (names.includes("tag") && names.includes("q0")) roles.pos = null; // as in trec_eval
  if (!roles.rel && names.some((name) => squash(name) === "corpusid")) {
    return { roles: { ...roles, rel: roles.score, score: null }, use: "judgments" };
  }
  return { roles, use: roles.rel && !roles.pos && !roles.score ? "judgments" : "ranking" };
}

// Recognised names of ids that all files have hold the same ids.
export function preferCommonIds(files) {
  const named = files.filter(({ columns }) => !("q0" in columns || "iteration" in columns));
  for (const role of ["query", "item"]) {
    const common = ROLES[role].find((name) =>
      SPELLINGS.some((spell) =>
        named.every(({ columns }) => Object.keys(columns).map(spell).includes(spell(name))),
      ),
    );
    if (common) named.forEach((file) => (file.roles[role] = findName(Object.keys(file.columns), [common])));
  }
}

// Metrics

export function parseMetrics(text) {
  const parts = text.match(/(?:[^,(]|\([^)]*\)?)+/g)?.map((part) => part.trim()).filter(Boolean) ?? [];
  const metrics = new Map();
  let before = null;
  for (const part of parts) {
    const isCutoff = /^\d+$/.test(part) && before?.k;
    before = isCutoff ? parseMetric(`${before.base}@${part}`) : parseMetric(part);
    metrics.set(before.name, before);
  }
  if (!metrics.size) throw new Problem("No metric is named. Write one, such as nDCG@10.");
  return [...metrics.values()];
}

function parseMetric(text) {
  const match = /^([A-Za-z]\w*)\s*(?:\(([^()]*)\))?\s*(?:@\s*(\S+))?$/.exec(text);
  const record = match && METRICS.find(({ name, aliases }) =>
    [name, ...aliases].some((known) => known.toLowerCase() === match[1].toLowerCase()));
  if (!record) {
    const known = METRICS.map(({ name }) => name).join(", ");
    throw new Problem(`Unknown metric '${text}'. Available: ${known}, such as nDCG@10 or P(rel=2)@5.`);
  }
  const [, , optionText = "", k = null] = match;
  const takesK = record.options.some(({ name }) => name === "k");
  if (k !== null && !takesK) throw new Problem(`${record.name} has no cutoff. Leave out @${k}.`);
  if (k !== null && !/^[1-9]\d{0,14}$/.test(k)) {
    throw new Problem(`'${text}': k must be a whole number from 1, not ${k}.`);
  }
  const options = new Map(optionText.split(",").filter((part) => part.trim())
    .map((part) => parseOption(part, record, text)));
  for (const { name, required } of record.options) {
    if (required && name !== "max_rel" && !options.has(name)) {
      throw new Problem(`'${text}': ${name} must be given, as in ${record.name}(${name}=0.8).`);
    }
  }
  const spelled = [...options].map(([name, value]) => `${name === "threshold" ? "rel" : name}=${value}`);
  const base = record.name + (spelled.length ? `(${spelled.join(", ")})` : "");
  return { record, options, k, base, name: k === null ? base : `${base}@${k}` };
}

function parseOption(part, record, text) {
  const [name, value] = part.split("=").map((side) => side.trim());
  const known = { rel: "threshold", cutoff: "k" }[name] ?? name;
  if (known === "gain" && record.gain) {
    if (["linear", "exp2", "binary"].includes(value)) return [known, value];
    throw new Problem(`'${text}': gain must be linear, exp2 or binary, not ${value}.`);
  }
  const option = record.options.find((one) => one.name === known && known !== "k");
  if (!option) {
    const names = record.options.map((one) => (one.name === "threshold" ? "rel" : one.name)).join(", ");
    throw new Problem(`'${text}': ${record.name} has no option '${name}'. Options: ${names}.`);
  }
  const choice = option.choices.find((one) => one.toLowerCase() === value?.toLowerCase());
  if (option.choices.length && choice) return [known, choice];
  if (option.choices.length) {
    throw new Problem(`'${text}': ${name} must be ${option.choices.join(" or ")}, not ${value}.`);
  }
  if (option.kind === "flag" && ["true", "false"].includes(value)) return [known, value];
  if (!value || !Number.isFinite(Number(value))) {
    throw new Problem(`'${text}': ${name} must be a number, not ${value || "empty"}.`);
  }
  return [known, value];
}

function call({ record, options, k }, highest) {
  const gain = { exp2: "exp2_gain(rel)", binary: "CAST(rel >= 1 AS DOUBLE)" }[options.get("gain")] ?? "rel";
  const named = new Map([...options].filter(([name]) => name !== "gain"));
  if (record.function === "err" && named.get("stop") !== "rel" && !named.has("max_rel")) {
    named.set("max_rel", highest);
  }
  const choices = new Set(record.options.filter((o) => o.choices.length).map((o) => o.name));
  const written = [...named].map(([name, value]) => `${name} := ${choices.has(name) ? literal(value) : value}`);
  return `${record.function}(${[gain, "pos", ...(k === null ? [] : [k]), ...written].join(", ")})`;
}

// Tables

// An id as text; whole numbers in columns of fractions as whole numbers.
function idText(file, role) {
  const column = quote(file.roles[role]);
  return /^(DOUBLE|FLOAT|DECIMAL)/.test(file.columns[file.roles[role]])
    ? `CASE WHEN ${column} = floor(${column}) AND abs(${column}) < 9007199254740992
        THEN CAST(CAST(${column} AS BIGINT) AS VARCHAR) ELSE CAST(${column} AS VARCHAR) END`
    : `CAST(${column} AS VARCHAR)`;
}

function numberOf(file, role) {
  const column = file.roles[role];
  const value = `rankql_read_${role}(${quote(column)}, ${literal(`${file.name}: ${column}`)})`;
  const name = column.toLowerCase().replace(/[-_\s]/g, "");
  return role === "score" && DISTANCES.includes(name) ? `(0 - ${value})` : value;
}

export function requireRoles(file, judged) {
  const needed = file.use === "judgments" ? ["query", "item", "rel"]
    : judged ? ["query", "item"] : file.roles.pos ? ["query", "rel"] : ["query", "item", "rel"];
  const words = { rel: "grade", pos: "position" };
  for (const role of needed) {
    if (!file.roles[role]) {
      const remedy = role === "rel" ? ", or add a file of judgments" : "";
      throw new Problem(
        `No ${words[role] ?? role} column in ${file.name}: expected one of ${ROLES[role].join(", ")}. ` +
          `Found: ${Object.keys(file.columns).join(", ")}. Choose the column${remedy}.`,
      );
    }
  }
  if (file.use === "ranking" && !file.roles.pos && !file.roles.score) {
    throw new Problem(
      `No position or score column in ${file.name}: expected one of ` +
        `${[...ROLES.pos, ...ROLES.score].join(", ")}. Choose the column.`,
    );
  }
}

export function judgmentsSql(file) {
  return `CREATE OR REPLACE TABLE qrels AS
    SELECT ${idText(file, "query")} AS query, ${idText(file, "item")} AS item, ${numberOf(file, "rel")} AS rel
    FROM ${quote(file.table)} WHERE ${quote(file.roles.rel)} IS NOT NULL`;
}

// The rows of one ranking, with the grades and the judged items that it lacks.
export function rankingSql(file, judged) {
  const item = file.roles.item ? idText(file, "item") : "NULL";
  const order = "ORDER BY score DESC NULLS LAST, encode(item) DESC NULLS LAST";
  const pos = file.roles.pos
    ? numberOf(file, "pos")
    : `CASE WHEN score IS NOT NULL THEN row_number() OVER (PARTITION BY query ${order}) END`;
  const score = file.roles.pos ? "" : `, ${numberOf(file, "score")} AS score`;
  const grade = judged ? "" : `, ${numberOf(file, "rel")} AS rel`;
  const place = file.roles.pos ? `, ${pos} AS pos` : "";
  const rows = `SELECT ${idText(file, "query")} AS query, ${item} AS item${grade}${score}${place}
      FROM ${quote(file.table)}`;
  const placed = file.roles.pos ? rows : `SELECT * EXCLUDE (score), ${pos} AS pos FROM (${rows})`;
  const system = `${literal(file.system)} AS system`;
  return judged
    ? `SELECT ${system}, query, item, qrels.rel, pos, run.query IS NOT NULL AS present FROM qrels
      FULL JOIN (FROM (${placed}) SEMI JOIN qrels USING (query)) AS run USING (query, item)`
    : `SELECT ${system}, query, item, rel, pos, true AS present FROM (${placed})`;
}

export function slicesSql(file, by) {
  return `CREATE OR REPLACE TABLE slices AS
    SELECT ${idText(file, "query")} AS query, min(CAST(${quote(by)} AS VARCHAR)) AS slice,
      max(CAST(${quote(by)} AS VARCHAR)) AS other
    FROM ${quote(file.table)} GROUP BY ALL`;
}

export function perQuerySql(metrics, highest, hasSlices) {
  const values = metrics.map((metric) => `${call(metric, highest)} AS ${quote(metric.name)}`);
  return `CREATE OR REPLACE TABLE per_query AS
    SELECT * FROM (SELECT system, query, NOT bool_or(present) AS missing,
      ${values.join(",\n      ")}
    FROM ranking GROUP BY system, query)
    ${hasSlices ? "LEFT JOIN (SELECT query, slice FROM slices) USING (query)" : ""} ORDER BY system, query`;
}

const perMetric = (metrics, columns) =>
  metrics.map(({ name }, i) => `SELECT ${columns}, ${i} AS i, ${quote(name)} AS value FROM per_query`)
    .join("\n      UNION ALL ");
const setsOf = (keys, hasSlices) =>
  `GROUP BY GROUPING SETS ((${keys})${hasSlices ? `, (${keys}, slice)` : ""})`;
const isSlice = (hasSlices) => (hasSlices ? "grouping(slice) = 0 AS sliced, slice" : "false AS sliced, NULL AS slice");

export function summarySql(metrics, hasSlices) {
  const columns = `system, missing${hasSlices ? ", slice" : ""}`;
  return `SELECT system, ${isSlice(hasSlices)}, i, favg(value) AS mean,
      stddev_samp(value) / sqrt(count(value)) * rankql_t_quantile(0.975, count(value) - 1) AS width,
      min(value) AS least, max(value) AS most, count(*)::DOUBLE AS queries,
      (count(*) - count(value))::DOUBLE AS undefined, count(*) FILTER (missing)::DOUBLE AS missing
    FROM (${perMetric(metrics, columns)})
    ${setsOf("system, i", hasSlices)} ORDER BY system, sliced, slice NULLS LAST, i`;
}

// A query that one ranking lacks counts as 0 if the other has a value.
export function differencesSql(metrics, hasSlices, [a, b]) {
  const side = (system) => `(FROM (${perMetric(metrics, `system, query${hasSlices ? ", slice" : ""}`)})
      WHERE system = ${literal(system)})`;
  const value = (one, other) => `CASE WHEN ${one}.query IS NULL THEN 0 * ${other}.value ELSE ${one}.value END`;
  return `SELECT *, CASE WHEN n > 1 AND largest > 1e-12 AND error > 1e-12 * greatest(1, largest)
        THEN rankql_t_p(difference / error, n - 1) END AS p
    FROM (SELECT ${isSlice(hasSlices)}, i, count(d)::DOUBLE AS n, favg(d) AS difference, max(abs(d)) AS largest,
        favg(a) FILTER (d IS NOT NULL) AS a, favg(b) FILTER (d IS NOT NULL) AS b,
        stddev_samp(d) / sqrt(count(d)) AS error
      FROM (SELECT *, b - a AS d FROM (SELECT i, ${hasSlices ? "coalesce(x.slice, y.slice) AS slice," : ""}
          ${value("x", "y")} AS a, ${value("y", "x")} AS b
        FROM ${side(a)} AS x FULL JOIN ${side(b)} AS y USING (query, i)))
      ${setsOf("i", hasSlices)}) ORDER BY sliced, slice NULLS LAST, i`;
}

// Statistics of small tables

// The interval of a mean, as interval_within_range of rankql.core.stats.means.
export function intervalOf({ mean, width, least, most }, record) {
  if (width === null || mean === null || !Number.isFinite(width)) return [null, null];
  const lowest = record.lowest !== null && least >= record.lowest - 1e-9 ? record.lowest : null;
  const highest = record.highest !== null && most <= record.highest + 1e-9 ? record.highest : null;
  const share = lowest === null || highest === null ? 0 : (mean - lowest) / (highest - lowest);
  if (!(share > 0 && share < 1)) {
    return [Math.max(mean - width, lowest ?? -Infinity), Math.min(mean + width, highest ?? Infinity)];
  }
  const reach = width / (highest - lowest) / (share * (1 - share));
  const end = (by) => lowest + ((highest - lowest) * share) / (share + (1 - share) * Math.exp(by));
  return [end(reach), end(-reach)];
}

// Holm's adjusted p-values, and the level of each test, as in rankql.core.stats.tests.
export function adjust(rows, alpha = 0.05) {
  const tested = rows.filter(({ p }) => p !== null).sort((x, y) => x.p - y.p);
  let highest = 0;
  tested.forEach((row, i) => {
    highest = Math.max(highest, row.p * (tested.length - i));
    row.adjusted = Math.min(1, highest);
  });
  const rejections = tested.filter(({ adjusted }) => adjusted <= alpha).length;
  for (const row of tested) {
    const rejected = row.adjusted <= alpha;
    const step = rejected ? tested.findIndex(({ p }) => p === row.p) : rejections;
    const level = alpha / (tested.length - step);
    row.level = rejected ? Math.max(level, row.p) : Math.min(level, row.p * (1 - 2 ** -52));
  }
}
