// DuckDB in the browser: opens it with the macros, reads files into its tables, and runs SQL.

import { moduleAddress, readBytes, startWorker } from "./assets.js";

// An error whose text is for the user.
export class Problem extends Error {}

export const quote = (name) => `"${name.replaceAll('"', '""')}"`;
export const literal = (text) => `'${text.replaceAll("'", "''")}'`;

const QRELS = ["query", "iteration", "item", "rel"];
const RUN = ["query", "q0", "item", "rank", "score", "tag"];
const SUPPORTED = "Supported: Parquet, CSV and TSV with names of columns, and TREC, optionally .gz.";
const HEAD = 2 ** 20;
// Without a network, DuckDB cannot download extensions.
const SETTINGS = "SET autoload_known_extensions = false; SET autoinstall_known_extensions = false;";

export async function openEngine() {
  // All at once, so that the network can be off from here on.
  const [duckdb, parquet, worker, wasm, macros] = await Promise.all([
    moduleAddress("duckdb-browser.mjs").then((address) => import(address)),
    openParquet(),
    startWorker(),
    readBytes("duckdb-eh.wasm"),
    readBytes("rankql.sql"),
  ]);
  worker.postMessage(wasm, [wasm]);
  const db = new duckdb.AsyncDuckDB(new duckdb.VoidLogger(), worker);
  await db.instantiate("data:,"); // the worker has the WebAssembly and asks for no address
  const con = await db.connect();
  await con.query(SETTINGS + new TextDecoder().decode(macros));
  return new Engine(duckdb, parquet, db, con);
}

class Engine {
  constructor(duckdb, parquet, db, con) {
    Object.assign(this, { duckdb, parquet, db, con });
  }

  // The rows of a query as objects; whole numbers of 64 bits must be cast.
  async rows(sql) {
    try {
      return (await this.con.query(sql)).toArray().map((row) => row.toJSON());
    } catch (error) {
      throw new Problem(reword(error));
    }
  }

  // Read a file into a table. The name of the file is used in errors only.
  async load(file, table) {
    await this.rows(`DROP TABLE IF EXISTS ${quote(table)}`);
    const start = new Uint8Array(await file.slice(0, 4).arrayBuffer());
    if (!file.size) throw new Problem(`${file.name} is empty. Choose another file.`);
    const isParquet = new TextDecoder().decode(start) === "PAR1";
    if (isParquet || /\.(parquet|pq)$/i.test(file.name)) await this.#loadParquet(file, table);
    else if (/^(255,254|254,255)/.test(start.join())) {
      throw new Problem(`${file.name} is not UTF-8 text. Convert it, for example: iconv -f UTF-16 -t UTF-8`);
    } else await this.#loadText(await unzip(file, start), file.name, table);
    const columns = await this.rows(`SELECT column_name AS name, column_type AS type
      FROM (DESCRIBE ${quote(table)})`);
    const [{ rows }] = await this.rows(`SELECT count(*)::DOUBLE AS rows FROM ${quote(table)}`);
    if (!rows) throw new Problem(`${file.name} has no rows. Choose another file.`);
    return { columns: Object.fromEntries(columns.map(({ name, type }) => [name, type])), rows };
  }

  async #loadParquet(file, table) {
    let stream;
    try {
      stream = this.parquet.readParquet(new Uint8Array(await file.arrayBuffer())).intoIPCStream();
    } catch (error) {
      throw new Problem(
        `Cannot read ${file.name} as Parquet: ${reword(error)}\n` +
          "The file may be damaged or incomplete. Write it again, or export it as CSV.",
      );
    }
    try {
      stream = await widenHalfFloats(stream);
      await this.con.insertArrowFromIPCStream(stream, { name: table, schema: "main", create: true });
    } catch (error) {
      throw new Problem(
        `Cannot read the columns of ${file.name}: ${reword(error)}\n` +
          "Leave out the columns that rankql does not need, or cast them to text or numbers.",
      );
    }
    await this.#repairColumns(table);
  }

  // Arrow brings a UUID as 16 bytes, and an INTERVAL with another unit: it is left out.
  async #repairColumns(table) {
    for (const { name, type } of await this.rows(`SELECT column_name AS name, column_type AS type
        FROM (DESCRIBE ${quote(table)}) WHERE column_type IN ('BLOB', 'INTERVAL')`)) {
      const alter = `ALTER TABLE ${quote(table)}`;
      const column = quote(name);
      if (type === "INTERVAL") {
        await this.rows(`${alter} DROP COLUMN ${column}`);
        continue;
      }
      const [{ other }] = await this.rows(`SELECT count(*) FILTER (octet_length(${column}) <> 16)::DOUBLE AS other
        FROM ${quote(table)}`);
      if (!other) await this.rows(`${alter} ALTER ${column} TYPE UUID USING CAST(hex(${column}) AS UUID)`);
    }
  }

  async #loadText(file, name, table) {
    const text = await file.slice(0, HEAD).text();
    const { sql, kind } = readText(text, name);
    const handle = `${table}.txt`; // never the name of the user's file
    const { BROWSER_FILEREADER } = this.duckdb.DuckDBDataProtocol;
    await this.db.registerFileHandle(handle, file, BROWSER_FILEREADER, true);
    try {
      await this.con.query(`CREATE TABLE ${quote(table)} AS ${sql(literal(handle))}`);
    } catch (error) {
      throw new Problem(
        `Cannot read ${name} as ${kind}: ${reword(error)}\n${SUPPORTED} Text must be UTF-8.`,
      );
    } finally {
      await this.db.dropFile(handle);
    }
  }
}

async function openParquet() {
  const parquet = await import(await moduleAddress("parquet_wasm.js"));
  parquet.initSync({ module: await readBytes("parquet_wasm_bg.wasm") });
  return parquet;
}

// DuckDB takes no numbers of 16 bits from Arrow.
async function widenHalfFloats(stream) {
  const { default: arrow } = await import(await moduleAddress("arrow.mjs"));
  const table = arrow.tableFromIPC(stream);
  const isHalf = ({ type }) => arrow.DataType.isFloat(type) && type.precision === arrow.Precision.HALF;
  if (!table.schema.fields.some(isHalf)) return stream;
  const columns = table.schema.fields.map((field) => {
    const values = table.getChild(field.name);
    return [field.name, isHalf(field) ? asFloats(arrow, [...values]) : values];
  });
  return arrow.tableToIPC(new arrow.Table(Object.fromEntries(columns)), "stream");
}

// Arrow's own builders evaluate text as code, which the policy of the page refuses.
function asFloats(arrow, values) {
  const nullBitmap = new Uint8Array(Math.ceil(values.length / 8));
  values.forEach((value, i) => (nullBitmap[i >> 3] |= (value !== null) << (i & 7)));
  return arrow.makeVector(arrow.makeData({
    type: new arrow.Float32(),
    length: values.length,
    nullCount: values.filter((value) => value === null).length,
    data: Float32Array.from(values, (value) => value ?? 0),
    nullBitmap,
  }));
}

async function unzip(file, start) {
  if (start[0] !== 0x1f || start[1] !== 0x8b) return file;
  try {
    return await new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).blob();
  } catch {
    throw new Problem(`Cannot unzip ${file.name}: it is damaged or incomplete. Compress it again.`);
  }
}

// How to read a text file, from its first lines. As in rankql, columns are text.
function readText(text, name) {
  const lines = text.split(/\r?\n/).slice(0, 1000).filter((line) => line.trim() && !/^\s*#/.test(line));
  const first = lines[0]?.trim() ?? "";
  const fields = first.split(/\s+/);
  const isNumber = (word) => word !== undefined && word !== "" && !Number.isNaN(Number(word));
  const last = { 3: 2, 4: 3, 6: 4 }[fields.length] ?? (fields.length > 6 ? 4 : 0);
  if (/^[[{]/.test(first)) throw new Problem(`Cannot read ${name}: it is JSON. ${SUPPORTED}`);
  if (last && isNumber(fields[last]) && !/,/.test(first)) {
    if (fields.length === 3 || (fields.length === 4 && isMsMarco(lines))) {
      throw new Problem(
        `${name} looks like an MS MARCO run, which has no names of columns. ` +
          "Add a first line with the names: query, item, rank and score, separated as the others.",
      );
    }
    return readTrec(lines, fields.length === 4 ? QRELS : RUN);
  }
  if (!/[,\t;|]/.test(first)) throw new Problem(`Cannot read ${name}: unknown format. ${SUPPORTED}`);
  return { kind: "CSV", sql: (path) => `FROM read_csv(${path}, all_varchar = true, header = true)` };
}

// Ranks that go up by 1 in the third column, as in rankql.shapes.open.text_files.
function isMsMarco(lines) {
  const rows = lines.map((line) => line.trim().split(/\s+/));
  const ranks = rows.filter((row) => row[0] === rows[0][0]).map((row) => row[2]);
  const items = new Set(rows.map((row) => row[1]));
  const judgments = items.size === 1 && (rows.length > 1 || ["0", "Q0"].includes(rows[0][1]));
  return ranks.every((rank, i) => rank === String(i + 1)) && !judgments;
}

function readTrec(lines, columns) {
  const isSplitBy = (line, separator) =>
    line.split(separator).length === columns.length && !/^\s|\s$|\s\s/.test(line);
  const separator = [" ", "\t"].find((one) => lines.every((line) => isSplitBy(line, one)));
  const options = "header = false, quote = '', escape = '', auto_detect = false";
  if (separator) {
    const types = columns.map((name) => `${name}: 'VARCHAR'`).join(", ");
    return {
      kind: "TREC",
      sql: (path) => `FROM read_csv(${path}, delim = ${literal(separator)}, ${options},
        columns = {${types}}) WHERE NOT starts_with(query, '#')`,
    };
  }
  const few = `'a line has ' || len(line) || ' columns, not ${columns.length}: ' || array_to_string(line, ' ')`;
  const wrong = columns === RUN ? "< 6" : "<> 4";
  const fields = columns.map((name, i) => `line[${i + 1}] AS ${name}`).join(", ");
  return {
    kind: "TREC",
    sql: (path) => `SELECT ${fields} FROM (
        SELECT CASE WHEN len(line) ${wrong} THEN rankql_fail(${few}) ELSE line END AS line FROM (
        SELECT string_split_regex(trim(line, ' ' || chr(9)), '\\s+') AS line
        FROM read_csv(${path}, delim = '\\0', ${options}, columns = {'line': 'VARCHAR'})
        WHERE trim(line, ' ' || chr(9)) <> '' AND NOT starts_with(ltrim(line), '#')))`,
  };
}

// The text of an error: that of our macros, or the first lines of DuckDB's.
export function reword(error) {
  const text = String(error?.message ?? error);
  const own = /Could not convert string '+rankql: ([^]*?)'+ to INT64/.exec(text);
  const message = /"exception_message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text.split(/\n\s*\n/)[0];
  return (own ? own[1].replaceAll("''", "'") : message).trim().slice(0, 1000);
}
