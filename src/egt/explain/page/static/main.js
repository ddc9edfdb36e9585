// The page: asks for a molecule, a file or a graph of the data set, and shows what the model makes of it.
import { around, byId, element, readable } from "./elements.js";
import { ask } from "./requests.js";
import { AttentionView } from "./attention.js";
import { ExplanationView } from "./explanation.js";
import { SortedTable, plainTable } from "./table.js";
import { legend, lines } from "./charts.js";

const MOST_PARTS = 500; // nodes or edges of one graph whose answers are listed

const about = await ask("about").catch((error) => { fail(error); throw error; });
const explanation = new ExplanationView(about, fail);
const attention = new AttentionView(about.molecules, (node) => explanation.choose(node));
const results = new SortedTable(byId("table").querySelector("table"), (of) => look(opened.data, of));
let opened = null;
let shown = null; // data and row of the answer

describe();
choose(about.molecules ? "smiles" : Object.keys(about.splits).length ? "split" : "file");

// What the page is about

function describe() {
  document.title = `${about.name} · egt`;
  byId("name").textContent = about.name;
  const metric = about.metrics.test?.[about.metric];
  const many = about.members > 1;
  const facts = [`predicts ${about.targets.slice(0, 4).join(", ")}${about.targets.length > 4 ? ", …" : ""}`, ...(many ? [`mean of ${about.members} models`] : []), `${readable(about.parameters)} parameters${many ? " each" : ""}`, `${about.layers} layers, ${about.heads} heads`];
  if (typeof metric === "number") facts.push(`test ${spelled(about.metric)} ${readable(metric, 3)}`);
  byId("facts").textContent = facts.join(" · ");
  byId("by-smiles").hidden = !about.molecules;
  byId("by-split").hidden = !Object.keys(about.splits).length;
  byId("file-hint").textContent = `${about.molecules ? "A .csv, .smi or .sdf file of molecules" : "A .jsonl, .graphml or other graph file"}: at most ${about.limits.rows.toLocaleString("en")} rows and ${about.limits.bytes / 1e6} MB.`;
  for (const word of document.querySelectorAll("[data-molecule]")) if (about.molecules) word.textContent = word.dataset.molecule;
  byId("features").hidden = !about.features.length;
  byId("features").replaceChildren(...about.features.map((name) => element("label", {}, name, element("input", { type: "number", step: "any", placeholder: "mean", "data-feature": name }))));
  byId("member-label").hidden = !many;
  byId("member").replaceChildren(...[...Array(about.members).keys()].map((k) => element("option", { value: k }, `${k + 1} of ${about.members}`)));
  byId("table-meaning").textContent = uncertainty("_set", "_low to _high", "_std").join(" ");
  byId("meaning").textContent = [...uncertainty(), ...(about.meaning ? [`${about.targets[0]} is ${about.meaning}.`] : [])].join(" ");
  byId("split").replaceChildren(...Object.entries(about.splits).reverse().map(([name, size]) => element("option", { value: name }, `${name} (${size.toLocaleString("en")})`)));
  train();
}

/** What intervals, sets and deviations mean, in sentences; with the ends of their columns, where there are any. */
function uncertainty(set, interval, std) {
  const [percent, said] = [`${Math.round(100 * about.interval)}%`, []];
  const columns = (ends) => (ends ? ` (${ends})` : "");
  if (about.interval) said.push(`${about.classes ? `Sets${columns(set)} hold the true class` : `Intervals${columns(interval)} hold the true value`} of ${percent} of rows like those of validation.`);
  if (about.members > 1) said.push(`Deviations${columns(std)} are between the ${about.members} models.`);
  return said;
}

/** Abbreviations as people write them, words as they are. */
function spelled(metric) {
  return metric.length <= 4 ? metric.toUpperCase() : metric.replaceAll("_", " ");
}

function train() {
  byId("training").hidden = false;
  if (about.members > 1) byId("training-title").append(` (curves of the first of ${about.members} models)`);
  const charts = Object.entries(about.curves).map(([name, values]) => {
    const series = Object.entries(values).map(([line, numbers], k) => ({ name: line, values: numbers, color: `var(${["--cool", "--hot"][k % 2]})` }));
    const epochs = Array.from({ length: Math.max(...series.map((line) => line.values.length)) }, (_, k) => String(k + 1));
    const caption = series.length > 1 ? [`${name}: `, ...legend(series)] : [`validation ${spelled(name)}`];
    return element("figure", {}, lines(series, epochs, "epoch", { best: about.best_epoch - 1 }), element("figcaption", { class: "soft" }, ...caption));
  });
  if (charts.length) charts.at(-1).lastChild.append(`; dashed: epoch ${about.best_epoch}, whose weights were kept`);
  byId("curves").replaceChildren(...(charts.length ? charts : [element("p", { class: "soft" }, "The run folder with the curves is not beside this artifact.")]));
  const splits = Object.keys(about.metrics);
  const names = Object.keys(about.metrics[splits[0]] ?? {}).filter((name) => !name.startsWith("num_"));
  byId("metrics").replaceChildren(plainTable(["metric", ...splits], names.map((name) => [name, ...splits.map((split) => about.metrics[split][name])])));
}

// Asking

function choose(from) {
  for (const radio of document.querySelectorAll("[name=from]")) radio.checked = radio.value === from;
  for (const kind of ["smiles", "file", "split"]) byId(`from-${kind}`).hidden = kind !== from;
  fail(null);
}

for (const radio of document.querySelectorAll("[name=from]")) radio.addEventListener("change", () => choose(radio.value));
for (const button of document.querySelectorAll("[data-smiles]")) button.addEventListener("click", () => { byId("smiles").value = button.dataset.smiles; predictSmiles(); });
byId("smiles").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  predictSmiles();
});
on("from-smiles", "submit", predictSmiles);
on("from-file", "submit", predictFile);
on("from-split", "submit", () => openSplit(Number(byId("row").value), false));
on("all", "click", () => openSplit(Number(byId("row").value), true));
on("another", "click", () => { byId("row").value = Math.floor(Math.random() * about.splits[byId("split").value]); openSplit(Number(byId("row").value), false); });
on("before", "click", () => openSplit(opened.start - about.limits.page, true));
on("after", "click", () => openSplit(opened.start + about.limits.page, true));
on("csv", "click", download);
on("member", "change", () => look(shown.data, shown.row));
byId("form").disabled = false; // everything that is typed or clicked from now on is heard

function on(id, what, act) {
  byId(id).addEventListener(what, (event) => { event.preventDefault(); act(); });
}

function predictSmiles() {
  return work(async () => {
    const smiles = byId("smiles").value.split("\n").filter((line) => line.trim());
    const features = Object.fromEntries([...document.querySelectorAll("[data-feature]")].map((field) => [field.dataset.feature, field.value === "" ? null : Number(field.value)]));
    await open(await ask("smiles", { smiles, features }));
  });
}

function predictFile() {
  return work(async () => {
    const [file] = byId("file").files;
    if (!file) throw new Error("Choose a file first.");
    if (file.size > about.limits.bytes) throw new Error(`${file.name} has ${(file.size / 1e6).toFixed(1)} MB; the page takes at most ${about.limits.bytes / 1e6} MB. \`egt predict\` takes any size.`);
    await open(await ask(`upload?name=${encodeURIComponent(file.name)}`, file));
  });
}

function openSplit(row, asTable) {
  return work(async () => {
    const split = byId("split").value;
    if (!(row >= 0 && row < about.splits[split])) throw new Error(`The rows of ${split} are 0 to ${about.splits[split] - 1}.`);
    byId("table").hidden = !asTable;
    if (!asTable) return show(split, row);
    opened = { ...(await ask("split", { split, start: row })), split };
    showTable();
    hide();
  });
}

/** One row is shown at once, several as a table. */
async function open(found) {
  opened = found;
  byId("table").hidden = found.total < 2;
  showTable();
  const first = found.columns.indexOf("error");
  const good = found.rows.findIndex((row) => !row[first]);
  hide();
  if (good >= 0) await show(found.data, found.of[good]);
  else if (found.total === 1) throw new Error(found.rows[0][first]);
}

function look(data, row) {
  return work(() => show(data, row));
}

async function work(act) {
  fail(null);
  const start = performance.now();
  byId("working").textContent = "Working…";
  document.body.setAttribute("aria-busy", "true");
  try {
    await act();
    byId("working").textContent = `Answered in ${Math.round(performance.now() - start)} ms.`;
  } catch (error) {
    byId("working").textContent = "";
    fail(error);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

function fail(error) {
  byId("problem").hidden = !error;
  byId("problem").textContent = error ? kind(error.message) : "";
}

/** RDKit's words, without where they come from, and what to look for. */
function kind(message) {
  const found = message.match(/^SMILES row \d+: SMILES '(.*?)' cannot be read: (?:SMILES Parse Error: )?(.*)$/s);
  if (!found) return message;
  return `Sorry, “${found[1]}” could not be read as a molecule: ${found[2]}. Is every ring number, bracket and parenthesis closed?`;
}

// Answers

function showTable() {
  const { start, total, split } = opened;
  const shown = new Set(opened.of).size;
  byId("table-title").textContent = split ? `Predictions of ${split}, rows ${start}–${start + shown - 1} of ${total.toLocaleString("en")}` : `Predictions for ${total.toLocaleString("en")} rows`;
  byId("before").hidden = !(split && start > 0);
  byId("after").hidden = !(split && start + shown < total);
  results.show(opened);
}

function download() {
  const link = element("a", { href: URL.createObjectURL(new Blob([opened.csv], { type: "text/csv" })), download: `${about.name}-predictions.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function hide() {
  for (const id of ["answer", "attention", "why"]) byId(id).hidden = true;
}

async function show(data, row) {
  const found = await ask("look", { data, row, member: Number(byId("member").value) });
  shown = { data, row };
  results.choose(row);
  hide();
  byId("answer").hidden = false;
  byId("answer-of").textContent = found.title;
  byId("warning").hidden = !found.warning;
  byId("warning").textContent = found.warning;
  byId("values").replaceChildren(about.level === "graph" ? values(found.prediction) : parts(found.prediction));
  typical(found);
  if (found.unseen) return;
  byId("attention").hidden = byId("why").hidden = false;
  explanation.show(found);
  await attention.show(found);
}

/** The columns about how certain a target is; they stand beside its value. */
function besides(name) {
  return [...(about.interval ? [`${name}_low`, `${name}_high`, `${name}_set`] : []), ...(about.members > 1 ? [`${name}_std`] : [])];
}

/** The value of a target as it is shown, and what stands beside it: its interval or set, its deviation. */
function valued(name, at) {
  const value = at(name) === "" ? null : at(name);
  const [low, high, set, std] = ["low", "high", "set", "std"].map((end) => (besides(name).includes(`${name}_${end}`) ? at(`${name}_${end}`) : undefined));
  const percent = `${Math.round(100 * about.interval)}%`;
  const spread = std === undefined ? [] : [`± ${readable(std, 2)} between the models`];
  if (low !== undefined && typeof value === "number") {
    const [text, bounds] = around(value, low, high);
    return [text, [`(${bounds}: ${percent} interval)`, ...spread]];
  }
  return [readable(value), [...(set === undefined ? [] : [`${percent} set: ${set.replaceAll("|", ", ") || "empty, unlike all classes"}`]), ...spread]];
}

function values({ columns, answers, rows: [row] }) {
  const at = (name) => row[columns.indexOf(name)];
  const aside = new Set(about.targets.flatMap(besides));
  return element("dl", { class: "values" }, ...answers.filter((name) => !aside.has(name)).map((name) => {
    const value = at(name);
    if (about.targets.includes(name)) {
      const [text, beside] = valued(name, at);
      return element("div", {}, element("dt", {}, name), element("dd", {}, text, ...beside.map((line) => element("span", { class: "beside" }, line))));
    }
    const isShare = name.endsWith("_probability") && typeof value === "number";
    const shown = isShare ? `${(100 * value).toFixed(1)}%` : readable(value === "" ? null : value);
    const label = name.endsWith("_true") ? `${name.slice(0, -5)}, true value` : isShare ? `${name.slice(0, -12)}, probability` : name;
    const meter = isShare ? [element("meter", { min: 0, max: 1, value, "aria-hidden": true })] : [];
    return element("div", { class: isShare || name.endsWith("_true") ? "share" : "" }, element("dt", {}, label), element("dd", {}, shown, ...meter));
  }));
}

function parts({ columns, answers, rows }) {
  const kept = answers.map((name) => columns.indexOf(name));
  const made = plainTable(answers, rows.slice(0, MOST_PARTS).map((row) => kept.map((c) => row[c])));
  const cut = rows.length > MOST_PARTS ? [element("p", { class: "soft small" }, `The first ${MOST_PARTS} of ${rows.length.toLocaleString("en")} rows; \`egt predict\` writes all.`)] : [];
  return element("div", {}, element("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "answer-title" }, made), ...cut);
}

function typical({ unseen, nodes, edges, known, familiarity }) {
  const metric = about.metrics.test?.[about.metric];
  const said = [about.molecules ? `${nodes.toLocaleString("en")} atoms, ${(edges / 2).toLocaleString("en")} bonds.` : `${nodes.toLocaleString("en")} nodes, ${edges.toLocaleString("en")} directed edges.`];
  if (known) said.push("This molecule was in the training data, so this is no test of the model.");
  else if (familiarity !== null) said.push(`Similarity to the nearest training molecule: ${readable(familiarity, 2)} (1 has the same fragments, 0 none in common).`);
  if (typeof metric === "number") said.push(`On the test split of its run this model has ${spelled(about.metric)} ${readable(metric, 3)}; that is its typical quality, not the certainty of this one answer.`);
  if (unseen) said.push(unseen);
  byId("typical").textContent = said.join(" ");
}
