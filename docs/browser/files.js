// Evaluate your own files: what the page asks and shows. SQL is in query.js, DuckDB in engine.js.

import { Problem, openEngine, quote } from "./engine.js";
import { evaluateFiles } from "./evaluation.js";
import { DEFAULT_METRICS, HAS_ENGINE, ROLES } from "./names.js";
import { preferCommonIds, recognise } from "./query.js";

const find = (id) => document.getElementById(id);
const SHOWN = 200;
const NONE = "";
let engine = null;
let files = [];
let count = 0;

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// One task at a time; its error is shown, its other errors are logged.
let last = Promise.resolve();
function run(what, task) {
  last = last.then(async () => {
    find("files-problem").hidden = true;
    find("progress").textContent = what;
    try {
      await task();
      find("progress").textContent = "";
    } catch (error) {
      find("progress").textContent = "";
      find("files-problem").textContent = error instanceof Problem ? error.message : `${error}`;
      find("files-problem").hidden = false;
      find("files-problem").scrollIntoView({ block: "nearest" });
    }
  });
  return last;
}

// Files

function addFiles(chosen) {
  run("Opening DuckDB, which this page loads once ...", async () => {
    engine ??= await openEngine();
    for (const file of chosen) {
      find("progress").textContent = `Reading ${file.name} ...`;
      const table = `file${count + 1}`;
      const { columns, rows } = await engine.load(file, table);
      count += 1;
      files.push({ name: file.name, table, columns, rows, ...recognise(columns) });
    }
  }).then(() => {
    preferCommonIds(files);
    showFiles();
  });
}

function select(label, values, selected, change) {
  const options = values.map(([value, text]) => element("option", { value, selected: value === selected }, text));
  const field = element("select", {}, ...options);
  field.addEventListener("change", () => change(field.value));
  return element("label", {}, `${label} `, field);
}

function showFiles() {
  find("loaded").replaceChildren(...files.map(showFile));
  find("request").hidden = find("editor").hidden = !files.length;
  const taken = new Set(files.flatMap(({ roles }) => Object.values(roles)));
  const names = files.flatMap(({ columns }) => Object.keys(columns)).filter((name) => !taken.has(name));
  const chosen = find("by").value;
  find("by").replaceChildren(
    element("option", { value: NONE }, "all queries together"),
    ...[...new Set(names)].map((value) => element("option", { value, selected: value === chosen }, value)),
  );
  find("tables").textContent = `Tables: ${files.map(({ table, name }) => `${table} (${name})`).join(", ")}; ` +
    "after an evaluation also ranking and per_query.";
}

function showFile(file) {
  const names = Object.keys(file.columns);
  const columns = [[NONE, "none"], ...names.map((name) => [name, name])];
  const uses = [["ranking", "a ranking"], ["judgments", "the judgments"]];
  const remove = element("button", { type: "button" }, "Remove");
  remove.addEventListener("click", () => {
    files = files.filter((other) => other !== file);
    run("", () => engine.rows(`DROP TABLE IF EXISTS ${quote(file.table)}`));
    showFiles();
    find("chooser").focus();
  });
  return element(
    "fieldset", { className: "controls" },
    element("legend", {}, `${file.name}: ${file.rows.toLocaleString("en")} rows`),
    select("This is", uses, file.use, (use) => (file.use = use)),
    ...Object.keys(ROLES).map((role) =>
      select({ rel: "Grade", pos: "Position" }[role] ?? role[0].toUpperCase() + role.slice(1),
        columns, file.roles[role] ?? NONE, (name) => (file.roles[role] = name || null))),
    remove,
  );
}

// Results

function showTable(caption, names, rows, download) {
  const isNumber = (value) => typeof value === "number";
  const cell = (value) => element("td", { className: isNumber(value) ? "number" : "" }, show(value));
  const body = rows.slice(0, SHOWN).map((row) => element("tr", {}, ...row.map(cell)));
  const numeric = names.map((_, i) => rows.some((row) => isNumber(row[i])));
  const head = names.map((name, i) => element("th", { scope: "col", className: numeric[i] ? "number" : "" }, name));
  const more = rows.length > SHOWN ? ` (the first ${SHOWN} of ${rows.length.toLocaleString("en")} rows)` : "";
  const table = element(
    "table", {}, element("caption", {}, caption + more),
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body),
  );
  const save = element("button", { type: "button" }, `Download ${download}`);
  save.addEventListener("click", () => downloadCsv(download, names, rows));
  const scroll = element("div", { className: "scroll", tabIndex: 0 }, table);
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", caption);
  return element("div", {}, scroll, element("p", {}, save));
}

function show(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) > 1) return value.toLocaleString("en");
  return Number.isInteger(value) ? String(value) : formatDecimal(value);
}

function formatDecimal(value) {
  if (Math.abs(value) >= 0.0001) return value.toFixed(4);
  return value.toExponential(1);
}

function downloadCsv(name, names, rows) {
  const field = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const text = [names, ...rows].map((row) => row.map(field).join(",")).join("\n");
  const address = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function evaluate(event) {
  event.preventDefault();
  run("Evaluating ...", async () => {
    find("results").replaceChildren();
    const result = await evaluateFiles(engine, files, find("metrics").value, find("by").value);
    const { summary, comparison, perQuery } = result;
    find("results").replaceChildren(
      element("h3", {}, "Results"),
      showTable("Means with 95% confidence intervals", summary.names, summary.rows, "summary.csv"),
      ...(comparison
        ? [
            ...comparison.sentences.map((text) => element("p", {}, text)),
            showTable("Differences", comparison.names, comparison.rows, "comparison.csv"),
          ]
        : []),
      showTable("Values per query", perQuery.names, perQuery.rows, "per_query.csv"),
      ...result.notes.map((text) => element("p", { className: "notes" }, text)),
      element("details", {}, element("summary", {}, "The SQL of this evaluation"), element("pre", { tabIndex: 0 }, result.sql)),
    );
  });
}

// SQL editor

const QUERY = /^(\s|--.*\n)*(SELECT|WITH|FROM|VALUES|DESCRIBE|SHOW|SUMMARIZE|PIVOT|UNPIVOT|TABLE|\()/i;

function runQuery() {
  run("Running ...", async () => {
    const text = find("query").value.trim().replace(/;+$/, "");
    find("answer-table").replaceChildren();
    if (!text) throw new Problem("The query is empty. Write one, such as FROM file1 LIMIT 10.");
    if (!QUERY.test(text)) {
      await engine.rows(text);
      find("answer-table").replaceChildren(element("p", {}, "Done."));
      return;
    }
    // Text shows every type.
    await engine.rows(`CREATE OR REPLACE TEMP TABLE rankql_answer AS FROM (${text}\n)`);
    const columns = await engine.rows("SELECT column_name AS name FROM (DESCRIBE rankql_answer)");
    const rows = await engine.rows("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM rankql_answer");
    const names = columns.map(({ name }) => name);
    const table = showTable("Answer", names, rows.map((row) => names.map((name) => row[name])), "answer.csv");
    find("answer-table").replaceChildren(table);
  });
}

function listen() {
  find("metrics").value = DEFAULT_METRICS.join(", ");
  find("query").value = "SELECT system, query, ndcg(rel, pos, 10) AS ndcg\nFROM ranking GROUP BY ALL ORDER BY ndcg LIMIT 10;";
  find("chooser").addEventListener("change", () => {
    addFiles([...find("chooser").files]);
    find("chooser").value = "";
  });
  const drop = find("drop");
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    addFiles([...event.dataTransfer.files]);
  });
  find("request").addEventListener("submit", evaluate);
  find("run-query").addEventListener("click", runQuery);
  find("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) runQuery();
  });
}

if (HAS_ENGINE) listen();
find("no-engine").hidden = HAS_ENGINE;
find("evaluation").hidden = !HAS_ENGINE;
