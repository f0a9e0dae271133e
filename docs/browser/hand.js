// nDCG by hand: a ranking whose items can be moved, and what the metrics make of it.

import { asCode, discountAt, evaluateRanking, gainOf, idealGrades } from "./metrics.js";

const METRICS = {
  dcg: ["DCG", "the sum of the contributions"],
  idcg: ["IDCG", "the DCG of the best order of all judged items"],
  ndcg: ["nDCG", "DCG / IDCG, where negative gains count as 0"],
  ap: ["AP", "the mean precision at the relevant items"],
  rr: ["RR", "1 / the position of the first relevant item"],
  err: ["ERR", "the expected 1 / position at which a user stops"],
  rbp: ["RBP", "relevant items, weighted by the chance that a user sees them"],
};
const EXAMPLES = [
  { grades: [3, 2, 3, 0, 1, 2], missing: [3, 2], note: "two more were not retrieved" },
  { grades: [2, 3, 1, 0] },
  { grades: [3, 0, 3, 0] },
  { grades: [5, 2, 3], maxRel: 5 },
  { grades: [3, null, 2, 0], note: "the second is unjudged" },
  { grades: [2, 3, 1, 0], quiz: "ndcg", question: "What is the nDCG of 2, 3, 1, 0?" },
  { grades: [3, 0, 3, 0], quiz: "ap", question: "What is the AP of 3, 0, 3, 0?" },
  { grades: [5, 2, 3], maxRel: 5, quiz: "dcg", question: "What is the DCG of 5, 2, 3?" },
];
const UNJUDGED = "–";

const find = (id) => document.getElementById(id);
const list = document.querySelector("#ranking tbody");
let items = [];
let quiz = null;
let names = 0;

export function formatNumber(value, digits = 4) {
  return value === null ? "undefined" : value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");
}

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// Items

function addItem(grade) {
  const name = `Item ${++names}`;
  const dots = element("i", { ariaHidden: "true" }, "⠿ ");
  const word = element("span", {}, "Item ");
  const handle = element("button", { type: "button", className: "handle" }, dots, word, String(names));
  handle.setAttribute("aria-describedby", "moved");
  const field = element("input", { type: "text", inputMode: "decimal", className: "grade" });
  field.value = grade ?? UNJUDGED;
  field.setAttribute("aria-label", `Grade of ${name}, ${UNJUDGED} if unjudged`);
  const remove = element("button", { type: "button", className: "remove" }, "×");
  remove.setAttribute("aria-label", `Remove ${name}`);
  const cells = Array.from({ length: 4 }, () => element("td"));
  const [position, ...numbers] = cells;
  const row = element(
    "tr", {}, element("th", { scope: "row" }, handle), position, element("td", {}, field),
    ...numbers, element("td", {}, remove),
  );
  const item = { name, grade, row, cells, handle, field };
  handle.addEventListener("keydown", (event) => moveByKey(event, item));
  handle.addEventListener("pointerdown", (event) => drag(event, item));
  field.addEventListener("input", update);
  remove.addEventListener("click", () => removeItem(item));
  items.push(item);
  list.append(row);
}

function removeItem(item) {
  if (items.length === 1) return;
  const place = items.indexOf(item);
  items.splice(place, 1);
  item.row.remove();
  items[Math.min(place, items.length - 1)].handle.focus();
  update();
}

function moveItem(item, place) {
  const from = items.indexOf(item);
  const to = Math.max(0, Math.min(items.length - 1, place));
  if (from === to) return;
  items.splice(from, 1);
  items.splice(to, 0, item);
  arrange(item);
  update();
  const value = evaluateRanking(grades(), options()).ndcg;
  const now = quiz ? "" : `, nDCG ${formatNumber(value)}`;
  find("moved").textContent = `${item.name}: position ${to + 1} of ${items.length}${now}`;
}

// Put the rows in order. The moved row stays in the page, so that it keeps the focus and pointer.
function arrange(moved) {
  const place = items.indexOf(moved);
  items.slice(0, place).forEach((item) => list.insertBefore(item.row, moved.row));
  items.slice(place + 1).forEach((item) => list.append(item.row));
}

function moveByKey(event, item) {
  const place = items.indexOf(item);
  const target = { ArrowUp: place - 1, ArrowDown: place + 1, Home: 0, End: items.length - 1 };
  if (!(event.key in target)) return;
  event.preventDefault();
  moveItem(item, target[event.key]);
}

function drag(event, item) {
  if (event.button) return;
  item.row.classList.add("dragged");
  item.handle.setPointerCapture(event.pointerId);
  const follow = ({ clientY }) => {
    const above = items.filter(({ row }) => {
      const { top, height } = row.getBoundingClientRect();
      return row !== item.row && clientY > top + height / 2;
    });
    moveItem(item, above.length);
  };
  const stop = () => {
    item.row.classList.remove("dragged");
    item.handle.removeEventListener("pointermove", follow);
  };
  item.handle.addEventListener("pointermove", follow);
  item.handle.addEventListener("lostpointercapture", stop, { once: true });
}

// Reading

const problem = (text) => {
  throw new RangeError(text);
};

function readNumber(text, what, fits, rule) {
  const value = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(value) && fits(value) ? value : problem(`${what} must be ${rule}, not '${text}'.`);
}

const any = () => true;

function readGrade(text, what) {
  return ["", "-", UNJUDGED].includes(text.trim())
    ? null
    : readNumber(text, what, any, `a number, or ${UNJUDGED} if unjudged`);
}

const grades = () => items.map(({ field, name }) => readGrade(field.value, `The grade of ${name}`));

function options() {
  const field = (id) => find(id).value;
  const whole = (value) => Number.isInteger(value) && value >= 1;
  const missing = field("missing").split(/[\s,]+/).filter(Boolean);
  // A field of type number is empty if its text is not a number.
  const k = field("k") === "" && !find("k").validity.badInput;
  return {
    k: k ? null : readNumber(field("k"), "The cutoff k", whole, "a whole number from 1"),
    gain: field("gain"),
    threshold: readNumber(field("threshold"), "The lowest relevant grade", any, "a number"),
    maxRel: readNumber(field("max-rel"), "The highest grade", (x) => x > 0, "a number above 0"),
    p: readNumber(field("p"), "p of RBP", (x) => x > 0 && x < 1, "between 0 and 1"),
    missing: missing.map((text) => readNumber(text, "A grade that was not retrieved", any, "a number")),
  };
}

// Showing

function update() {
  let settings, ranking;
  try {
    [ranking, settings] = [grades(), options()];
    const highest = Math.max(...ranking, ...settings.missing);
    if (highest > settings.maxRel) {
      problem(`Grade ${highest} is above the highest grade of the scale, ${settings.maxRel}. Raise it.`);
    }
  } catch (error) {
    find("problem").textContent = error.message;
    find("problem").hidden = false;
    return;
  }
  find("problem").hidden = true;
  items.forEach((item, i) => showItem(item, i + 1, ranking[i], settings));
  showIdeal(ranking, settings);
  showValues(evaluateRanking(ranking, settings));
  const code = asCode(ranking, settings);
  find("sql").textContent = code.sql;
  find("polars").textContent = `import polars as pl, rankql\n${code.polars}`;
}

function showItem({ row, cells }, position, grade, { k, gain, threshold }) {
  const counts = k === null || position <= k;
  const value = gainOf(grade, gain);
  const shown = [
    String(position),
    String(Number(value.toFixed(2))),
    formatNumber(discountAt(position), 3),
    counts ? formatNumber(value / discountAt(position), 3) : "beyond k",
  ];
  cells.forEach((cell, i) => (cell.textContent = shown[i]));
  row.classList.toggle("beyond", !counts);
  row.classList.toggle("relevant", grade !== null && grade >= threshold);
}

function showIdeal(ranking, settings) {
  const ideal = idealGrades(ranking, settings);
  find("ideal").textContent = ideal.length
    ? `Ideal order: ${ideal.join(", ")}.`
    : "No grade is positive, so there is no ideal order, and nDCG is undefined.";
}

function showValues(values) {
  const rows = Object.entries(METRICS).map(([metric, [name, text]]) => {
    const value = element("td", { className: "number" }, quiz ? "?" : formatNumber(values[metric]));
    value.dataset.metric = metric;
    if (!quiz) value.title = String(values[metric] ?? "undefined: NULL");
    return element("tr", {}, element("th", { scope: "row" }, name), value, element("td", {}, text));
  });
  document.querySelector("#values tbody").replaceChildren(...rows);
}

// Examples and quizzes

function start(example) {
  items = [];
  names = 0;
  list.replaceChildren();
  example.grades.forEach(addItem);
  find("missing").value = (example.missing ?? []).join(", ");
  find("max-rel").value = example.maxRel ?? 3;
  find("k").value = "";
  find("gain").value = "linear";
  find("threshold").value = 1;
  find("p").value = 0.8;
  quiz = example.quiz ?? null;
  find("quiz").hidden = !quiz;
  find("question").textContent = quiz ? `${example.question} Two decimals are enough.` : "";
  find("answer").value = find("reply").textContent = "";
  update();
}

function check(event) {
  event.preventDefault();
  if (!quiz) return;
  const value = evaluateRanking(grades(), options())[quiz];
  const answer = Number(find("answer").value.replace(",", ".") || NaN);
  const right = Math.abs(answer - value) <= 0.0051;
  const exact = `${METRICS[quiz][0]} is ${formatNumber(value)}.`;
  find("reply").textContent = right
    ? `Correct: ${exact} Now move an item and see what changes.`
    : `Not ${find("answer").value || "an empty answer"}. ${METRICS[quiz][0]} is ${METRICS[quiz][1]}. Try again.`;
  if (right) reveal();
}

function reveal() {
  quiz = null;
  update();
}

function listExamples() {
  const entry = (example, i) => {
    const text = example.question ?? [example.grades.map((g) => g ?? UNJUDGED).join(", "), example.note].filter(Boolean).join(" – ");
    return element("option", { value: i }, text);
  };
  const entries = EXAMPLES.map(entry);
  const group = (label, of) => element("optgroup", { label }, ...entries.filter((_, i) => of(EXAMPLES[i])));
  find("example").append(group("Examples", (e) => !e.quiz), group("Quizzes", (e) => e.quiz));
}

async function copy(button) {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(find(button.dataset.copies).textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(find(button.dataset.copies));
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => (button.textContent = said), 2000);
}

find("not-started").remove();
listExamples();
start(EXAMPLES[0]);
find("example").addEventListener("change", () => start(EXAMPLES[find("example").value]));
find("controls").addEventListener("input", (event) => event.target.id !== "example" && update());
find("controls").addEventListener("submit", (event) => event.preventDefault());
find("quiz").addEventListener("submit", check);
find("reveal").addEventListener("click", () => {
  reveal();
  find("reply").textContent = "";
});
find("add").addEventListener("click", () => {
  addItem(0);
  update();
});
find("best").addEventListener("click", () => {
  const order = new Map(items.map((item) => [item, readGrade(item.field.value, item.name) ?? -Infinity]));
  items.sort((a, b) => order.get(b) - order.get(a));
  list.append(...items.map(({ row }) => row));
  update();
});
document.querySelectorAll("[data-copies]").forEach((button) => button.addEventListener("click", () => copy(button)));
