// Tables that can be sorted by any column.
import { element, readable } from "./elements.js";

/** A plain table. */
export function plainTable(columns, rows) {
  const numeric = columns.map((_, c) => rows.every((row) => typeof row[c] === "number"));
  const kind = (c) => (numeric[c] ? { class: "number" } : {});
  return element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map((name, c) => element("th", { scope: "col", ...kind(c) }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, c) => element("td", kind(c), readable(cell)))))));
}

export class SortedTable {
  /** table: where to draw; open(of) is called when a row is chosen. */
  constructor(table, open) {
    this.table = table;
    this.open = open;
  }

  show({ columns, rows, of }) {
    const used = columns.map((name, c) => c === 0 || !["warning", "error"].includes(name) || rows.some((row) => row[c]));
    this.columns = columns.map((name, c) => ({ name, c, numeric: rows.some((row) => typeof row[c] === "number") })).filter(({ c }) => used[c]);
    this.rows = rows.map((cells, k) => ({ cells, of: of[k], k }));
    this.error = columns.indexOf("error");
    this.by = null;
    this.chosen = null;
    this.#draw();
  }

  choose(of) {
    this.chosen = of;
    for (const row of this.table.tBodies[0]?.rows ?? []) row.classList.toggle("chosen", row.dataset.of === String(of));
  }

  #sort(c) {
    const down = this.by?.c === c && !this.by.down;
    this.by = { c, down };
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true }));
    const isEmpty = ({ cells }) => cells[c] === "" || cells[c] === null;
    this.rows.sort((a, b) => isEmpty(a) - isEmpty(b) || (down ? -1 : 1) * order(a.cells[c], b.cells[c]) || a.k - b.k);
    this.#draw();
    this.table.tHead.querySelector(`[data-column="${c}"]`).focus();
  }

  #draw() {
    const head = this.columns.map(({ name, c, numeric }) => {
      const by = this.by?.c === c ? this.by : null;
      const button = element("button", { type: "button", "data-column": c }, name + (by ? (by.down ? " ▾" : " ▴") : ""));
      button.addEventListener("click", () => this.#sort(c));
      return element("th", { scope: "col", class: numeric ? "number" : "", "aria-sort": by ? (by.down ? "descending" : "ascending") : "none" }, button);
    });
    this.table.replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...this.rows.map((row) => this.#row(row))));
    this.choose(this.chosen);
  }

  #row({ cells, of }) {
    const bad = this.error >= 0 && cells[this.error];
    const made = this.columns.map(({ c, numeric }, place) => {
      const text = readable(cells[c]);
      if (place || bad) return element("td", { class: numeric ? "number" : text.length > 24 ? "long" : "" }, text);
      return element("td", {}, element("button", { type: "button", title: "Look at it" }, text));
    });
    const row = element("tr", { "data-of": of, class: bad ? "bad" : "good" }, ...made);
    if (!bad) row.addEventListener("click", () => this.open(of)); // its button too
    return row;
  }
}
