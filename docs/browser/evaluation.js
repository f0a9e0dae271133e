// Evaluate files, and compare two rankings: runs the SQL of query.js and checks what it reads.

import { Problem, literal, quote } from "./engine.js";
import {
  adjust, differencesSql, intervalOf, judgmentsSql, parseMetrics, perQuerySql, rankingSql, requireRoles,
  slicesSql, summarySql,
} from "./query.js";

export async function evaluateFiles(engine, files, metricText, by) {
  const metrics = parseMetrics(metricText);
  const rankings = files.filter(({ use }) => use === "ranking");
  const judgments = files.filter(({ use }) => use === "judgments");
  requireFiles(rankings, judgments);
  const judged = judgments.length > 0;
  [...rankings, ...judgments].forEach((file) => requireRoles(file, judged));
  nameSystems(rankings);

  const script = [];
  const execute = async (sql) => {
    script.push(`${sql};`);
    return engine.rows(sql);
  };
  for (const file of [...judgments, ...rankings]) await requireIds(engine, file);
  if (judged) await execute(judgmentsSql(judgments[0]));
  const parts = rankings.map((file) => rankingSql(file, judged));
  await execute(`CREATE OR REPLACE TABLE ranking AS ${parts.join("\nUNION ALL ")}`);
  const notes = judged ? await requireOverlap(engine, rankings) : [];
  await requireUnique(engine, rankings);
  if (by) await addSlices(engine, execute, [...judgments, ...rankings], by);
  const [{ highest }] = await engine.rows(
    `SELECT coalesce(max(rel), 1)::DOUBLE AS highest FROM ${judged ? "qrels" : "ranking"}`,
  );
  await execute(perQuerySql(metrics, highest > 0 ? highest : 1, Boolean(by)));

  const summary = await execute(summarySql(metrics, Boolean(by)));
  const comparison = rankings.length === 2 ? await compare(execute, metrics, by, rankings) : null;
  return {
    summary: summaryTable(summary, metrics, by),
    comparison,
    perQuery: await perQueryTable(engine, metrics, by),
    notes: [...notes, "Conventions: rankql (defaults)", columnsLine(files)],
    sql: script.join("\n\n"),
  };
}

// Names the columns that are not called like their role, and positions beside scores. As remarks of rankql.
export function columnsLine(files) {
  const tables = new Map();
  for (const { name, roles } of files) {
    const rivals = roles.pos && roles.score ? ["pos", "score"] : [];
    const named = Object.entries(roles).filter(([role, x]) => x && (x !== role || rivals.includes(role)));
    const used = named.map(([role, column]) => `${role} = ${column}`).join(", ");
    if (used) tables.set(used, [...(tables.get(used) ?? []), name]);
  }
  const lines = [...tables].map(([used, names]) => `${names.join(" and ")}: ${used}`);
  return `Columns: ${lines.join("; ") || "as named"}`;
}

function requireFiles(rankings, judgments) {
  if (!rankings.length) {
    throw new Problem("No file is a ranking. Add a table with positions or scores.");
  }
  if (rankings.length > 2) {
    throw new Problem(`${rankings.length} files are rankings. Remove some: two can be compared.`);
  }
  if (judgments.length > 1) {
    throw new Problem(`${judgments.length} files are judgments. Remove all but one.`);
  }
}

// Two files of the same name are told apart by a number.
function nameSystems(rankings) {
  const names = rankings.map(({ name }) => name.replace(/(\.(parquet|pq|csv|tsv|txt|run|trec|gz))+$/i, "") || name);
  rankings.forEach((file, i) => {
    file.system = names[0] === names[1] ? `${names[i]} (${i + 1})` : names[i];
  });
}

async function requireIds(engine, { name, table, roles, rows }) {
  for (const role of ["query", "item"].filter((one) => roles[one])) {
    const sql = `SELECT count(${quote(roles[role])})::DOUBLE AS n FROM ${quote(table)}`;
    const [{ n }] = await engine.rows(sql);
    if (n < rows) throw new Problem(`${name}: ${roles[role]} is NULL in ${rows - n} of ${rows} rows. Leave them out.`);
  }
}

async function requireOverlap(engine, rankings) {
  const notes = [];
  for (const { name, table, roles, system } of rankings) {
    const query = `SELECT DISTINCT CAST(${quote(roles.query)} AS VARCHAR) AS query FROM ${quote(table)}`;
    const [{ present, common }] = await engine.rows(`SELECT
        count(*) FILTER (present)::DOUBLE AS present, count(*) FILTER (present AND rel IS NOT NULL)::DOUBLE AS common
      FROM ranking WHERE system = ${literal(system)}`);
    const examples = async (sql) =>
      (await engine.rows(`SELECT query FROM (${sql}) ORDER BY query LIMIT 3`)).map((row) => `'${row.query}'`).join(", ");
    if (!present) {
      throw new Problem(
        `No query of ${name} is judged: it has ${await examples(query)}, the judgments have ` +
          `${await examples("SELECT DISTINCT query FROM qrels")}. Write query ids the same way in both.`,
      );
    }
    if (!common) {
      const item = (source, where) => `SELECT min(item) AS query FROM ${source} ${where}`;
      throw new Problem(
        `No item of ${name} is judged: it has ${await examples(item("ranking", "WHERE present"))}, the judgments ` +
          `have ${await examples(item("qrels", ""))}. Write item ids the same way in both.`,
      );
    }
    const [{ n, left }] = await engine.rows(`SELECT count(*)::DOUBLE AS n,
        count(*) FILTER (query NOT IN (SELECT query FROM qrels))::DOUBLE AS left FROM (${query})`);
    const are = left === 1 ? "is" : "are";
    if (left) notes.push(`${left} of ${n} queries of ${name} ${are} not judged and left out.`);
  }
  return notes;
}

async function requireUnique(engine, rankings) {
  const judged = rankings.some(({ roles }) => !roles.item) ? "rel > 0 AND item IS NOT NULL" : "rel > 0";
  // Hashes are compared first, which is three times as fast.
  const hashes = await engine.rows(`SELECT 1 FROM ranking WHERE ${judged}
    GROUP BY hash(system, query, item) HAVING count(*) > 1 LIMIT 1`);
  if (!hashes.length) return;
  const [twice] = await engine.rows(`SELECT system, query, item FROM ranking WHERE ${judged}
    GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1`);
  if (twice) {
    throw new Problem(
      `Item '${twice.item}' of query '${twice.query}' is in ${twice.system} or its judgments twice. ` +
        "Keep one row per query and item.",
    );
  }
}

async function addSlices(engine, execute, files, by) {
  await execute(slicesSql(files.find(({ columns }) => by in columns), by));
  const [several] = await engine.rows("FROM slices WHERE slice <> other ORDER BY query LIMIT 1");
  if (several) {
    throw new Problem(
      `${by} must have one value per query, but query '${several.query}' has '${several.slice}' and ` +
        `'${several.other}'. Choose another column.`,
    );
  }
}

// Comparison

async function compare(execute, metrics, by, rankings) {
  const [a, b] = rankings.map(({ system }) => system);
  const rows = await execute(differencesSql(metrics, Boolean(by), [a, b]));
  adjust(rows);
  const levels = rows.filter(({ p }) => p !== null);
  const values = levels.map(({ level, n, error }, i) => `(${i}, ${level}::DOUBLE, ${n}::DOUBLE, ${error}::DOUBLE)`);
  const widths = values.length
    ? await execute(`SELECT rankql_t_quantile(1 - level / 2, n - 1) * error AS width
        FROM (VALUES ${values.join(", ")}) AS tests(i, level, n, error) ORDER BY i`)
    : [];
  levels.forEach((row, i) => (row.width = widths[i].width));
  return {
    names: ["slice", "metric", a, b, "difference", "lo", "hi", "p", "adjusted p", "queries", "verdict"],
    rows: rows.map((row) => [
      sliceLabel(row, by), metrics[row.i].name, row.a, row.b, row.difference,
      ...(row.p === null ? [null, null, null, null] : [row.difference - row.width, row.difference + row.width, row.p, row.adjusted]),
      row.n, verdictOf(row, a, b),
    ]),
    sentences: rows.filter(({ sliced }) => !sliced).map((row) => describe(row, metrics[row.i], a, b, levels.length)),
  };
}

function verdictOf({ p, adjusted, difference, n, largest }, a, b) {
  if (p === null) return n < 2 ? "not testable" : largest <= 1e-12 ? "no difference" : "zero variance";
  return adjusted > 0.05 ? "no significant difference" : `${difference > 0 ? b : a} is better`;
}

function describe(row, { name }, a, b, tests) {
  const { difference, p, adjusted, width, n } = row;
  const queries = `${n.toLocaleString("en")} ${n === 1 ? "query" : "queries"}`;
  if (p === null) return `${name}: ${verdictOf(row, a, b)} between ${b} and ${a} (${queries}).`;
  const sign = adjusted > 0.05 || difference > 0 ? 1 : -1;
  const [better, worse] = sign > 0 ? [b, a] : [a, b];
  const digits = Math.max(2, Math.min(12, 1 - Math.floor(Math.log10(width))));
  const [mean, lo, hi] = [difference, difference - sign * width, difference + sign * width]
    .map((value) => (sign * value).toFixed(digits).replace(/^-(0\.?0*)$/, "$1"));
  const chance = adjusted < 0.001 ? "p < 0.001" : `p = ${adjusted.toPrecision(2)}`;
  const how = tests > 1 ? `, Holm-adjusted for ${tests} tests` : "";
  const inside = `(95% CI ${lo} to ${hi}; ${chance}${how}; ${queries})`;
  return adjusted > 0.05
    ? `${name}: no significant difference between ${b} and ${a}: ${mean} ${inside}.`
    : `${name}: ${better} beats ${worse} by ${mean} ${inside}.`;
}

// Tables

const sliceLabel = ({ sliced, slice }, by) => (sliced ? `${by}=${slice ?? "NULL"}` : "all");

function summaryTable(rows, metrics, by) {
  return {
    names: ["system", "slice", "metric", "mean", "lo", "hi", "queries", "undefined", "missing"],
    rows: rows.map((row) => [
      row.system, sliceLabel(row, by), metrics[row.i].name, row.mean,
      ...intervalOf(row, metrics[row.i].record), row.queries, row.undefined, row.missing,
    ]),
  };
}

async function perQueryTable(engine, metrics, by) {
  const names = ["system", "query", ...(by ? ["slice"] : []), ...metrics.map(({ name }) => name)];
  const rows = await engine.rows(`SELECT ${names.map(quote).join(", ")} FROM per_query ORDER BY system, query`);
  return { names, rows: rows.map((row) => names.map((name) => row[name])) };
}
