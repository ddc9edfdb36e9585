// What the model looks at: drawing, matrix and hop profile of one layer and head.
import { byId, element, readable } from "./elements.js";
import { ask } from "./requests.js";
import { GraphDrawing } from "./graph.js";
import { bars, paintMatrix } from "./charts.js";

const FROM_VIRTUAL = "from virtual";

export class AttentionView {
  /** molecule: whether nodes are atoms; onChoice(k) is called when a node of the graph is chosen. */
  constructor(molecule, onChoice) {
    this.molecule = molecule;
    this.onChoice = onChoice;
    for (const id of ["layer", "head", "weights"]) byId(id).addEventListener("input", () => this.#load());
    const matrix = byId("matrix");
    matrix.addEventListener("click", (event) => this.matrix && this.#choose(this.#cell(event)[0]));
    matrix.addEventListener("pointermove", (event) => this.matrix && this.#point(...this.#cell(event)));
    matrix.addEventListener("pointerleave", () => this.matrix && this.#point());
    byId("attention").addEventListener("keydown", (event) => { if (event.key === "Escape") this.#choose(null); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.matrix && this.#paint());
  }

  /** found: what the server says about one graph. */
  async show(found) {
    const { attention, drawing } = found;
    this.found = found;
    this.matrix = null;
    this.chosen = null; // position among all nodes, virtual ones first; null is the average
    this.known = new Map();
    this.names = [...Array(attention.virtual).keys()].map((k) => `virtual ${k + 1}`).concat(drawing.names);
    const old = [Number(byId("layer").value), Number(byId("head").value)];
    byId("layer").max = attention.layers.length - 1;
    byId("head").max = attention.heads;
    byId("layer").value = Math.min(this.#used ? old[0] : attention.layers.length - 1, attention.layers.length - 1);
    byId("head").value = this.#used ? Math.min(old[1], attention.heads) : 0;
    this.#used = true;
    this.graph = new GraphDrawing(byId("drawing"), drawing, (k) => this.#choose(k + attention.virtual));
    this.#lookers();
    await this.#load();
  }

  #used = false;
  #request = null;

  #lookers() {
    const virtual = [...Array(this.found.attention.virtual).keys()];
    const button = (text, who) => {
      const made = element("button", { type: "button", "aria-pressed": this.chosen === who }, text);
      made.addEventListener("click", () => this.#choose(who));
      return made;
    };
    this.buttons = new Map([[null, button("Average", null)], ...virtual.map((k) => [k, button(`Virtual ${k + 1}`, k)])]);
    byId("looker").replaceChildren(...this.buttons.values());
  }

  #choose(who) {
    this.chosen = who;
    if (who !== null && who >= this.found.attention.virtual) this.onChoice(who - this.found.attention.virtual);
    if (this.matrix) this.#paint();
  }

  async #load() {
    const [layer, head, of] = [Number(byId("layer").value), Number(byId("head").value), byId("weights").value];
    byId("layer-shown").textContent = `${this.found.attention.layers[layer]} of ${this.found.attention.layers.length}`;
    byId("head-shown").textContent = head ? `${head} of ${this.found.attention.heads}` : "mean of all";
    byId("head").setAttribute("aria-valuetext", byId("head-shown").textContent);
    this.#hops(layer, head, of);
    this.#request?.abort();
    const key = `${layer} ${head} ${of}`;
    if (!this.known.has(key)) {
      const { signal } = (this.#request = new AbortController());
      const known = this.known;
      try {
        const found = await ask("weights", { look: this.found.look, layer, head: head ? head - 1 : null, of }, { signal });
        known.set(key, found.matrix);
      } catch (error) {
        if (error.name !== "AbortError") byId("said").textContent = error.message;
        return;
      }
      if (known !== this.known) return; // another graph has come
    }
    this.matrix = this.known.get(key);
    this.#paint();
  }

  #hops(layer, head, of) {
    const { hops, heads, ...profiles } = this.found.attention;
    byId("hops").parentElement.hidden = of === "gates";
    if (of === "gates") return;
    const kept = hops.map((name, k) => k).filter((k) => hops[k] !== FROM_VIRTUAL);
    const value = (rows, k) => (head ? rows[head - 1][k] : rows.reduce((sum, row) => sum + row[k], 0) / heads);
    const even = (k) => (of === "product" ? value(profiles.even_product[layer], k) : profiles.even[k]);
    const name = (k) => hops[k].replace("to virtual", "virtual").replace("unreachable", "∞");
    byId("hops").replaceChildren(bars(kept.map(name), kept.map((k) => value(profiles[of][layer], k)), kept.map(even), this.molecule ? "bonds" : "hops"));
  }

  #paint() {
    const { virtual } = this.found.attention;
    const size = this.matrix.length;
    const mean = (j) => this.matrix.reduce((sum, row) => sum + row[j], 0) / size;
    const weights = this.chosen === null ? this.matrix.map((_, j) => mean(j)) : this.matrix[this.chosen];
    const real = weights.slice(virtual);
    const most = Math.max(...real, 1e-12);
    const chosen = this.chosen === null || this.chosen < virtual ? null : this.chosen - virtual;
    this.graph.color({ nodes: real.map((weight) => weight / most), chosen, texts: real.map((weight) => readable(weight, 2)) });
    for (const [who, button] of this.buttons) button.setAttribute("aria-pressed", who === this.chosen);
    const hot = getComputedStyle(document.documentElement).getPropertyValue("--hot").trim(); // six digits of a color
    const largest = Math.max(...this.matrix.map((row) => Math.max(...row)), 1e-12);
    const shade = (share) => hot + Math.round(255 * share).toString(16).padStart(2, "0");
    paintMatrix(byId("matrix"), this.matrix.map((row) => row.map((weight) => weight / largest)), shade, this.chosen);
    this.#say(weights);
    this.#point();
  }

  #say(weights) {
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    const list = order.map((j) => `${j === this.chosen ? "itself" : this.names[j]} (${readable(weights[j], 2)})`).join(", ");
    byId("said").textContent = this.chosen === null
      ? `Most looked at on average: ${list}. Click ${this.molecule ? "an atom" : "a node"} to see where it looks.`
      : `${this.names[this.chosen]} looks most at ${list}.`;
  }

  #cell(event) {
    const box = byId("matrix").getBoundingClientRect();
    const at = (place, length) => Math.min(this.matrix.length - 1, Math.max(0, Math.floor((place / length) * this.matrix.length)));
    return [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
  }

  #point(i, j) {
    byId("cell").textContent = i === undefined
      ? `Each row is ${this.molecule ? "an atom" : "a node"} that looks, each column one that is looked at${this.found.attention.virtual ? "; virtual nodes come first" : ""}. From 0 (blank) to ${readable(Math.max(...this.matrix.map((row) => Math.max(...row))), 2)} (full color).`
      : `${this.names[i]} looks at ${this.names[j]}: ${readable(this.matrix[i][j], 3)}`;
  }
}
