// The drawing of a graph: nodes that can be clicked, or reached with Tab and the arrow keys.
import { drawn } from "./elements.js";

const RADIUS = 0.42;

export class GraphDrawing {
  /** drawing: x, y, labels, names, edges from the server; choose(k) is called when a node is chosen. */
  constructor(place, drawing, choose) {
    this.drawing = drawing;
    this.choose = choose;
    this.under = drawn("g");
    this.rays = drawn("g");
    this.faint = Math.min(1, (2.5 * drawing.x.length) / Math.max(drawing.edges.length, 1)); // many edges are drawn thin
    this.nodes = drawing.x.map((_, k) => this.#node(k));
    const svg = drawn("svg", { viewBox: this.#frame(), role: "group", "aria-label": "Graph; arrow keys move between nodes" });
    const wedged = new Set(drawing.wedges.flatMap(([i, j]) => [`${i} ${j}`, `${j} ${i}`]));
    const bonds = drawing.edges.filter(([i, j]) => !wedged.has(`${i} ${j}`)).map(([i, j, order]) => this.#bond(i, j, order));
    svg.append(this.under, ...bonds, ...drawing.wedges.map((wedge) => this.#wedge(...wedge)), this.rays, ...this.nodes);
    place.replaceChildren(svg);
  }

  #frame() {
    const { x, y } = this.drawing;
    const [left, top] = [Math.min(...x) - 1, Math.min(...y) - 1];
    let [width, height] = [Math.max(...x) - left + 1, Math.max(...y) - top + 1];
    const [wide, high] = [Math.max(width, 9), Math.max(height, 6)]; // a small molecule is not drawn huge
    return `${left - (wide - width) / 2} ${top - (high - height) / 2} ${wide} ${high}`;
  }

  #bond(i, j, order) {
    const { x, y } = this.drawing;
    const [dx, dy] = [x[j] - x[i], y[j] - y[i]];
    const length = Math.hypot(dx, dy) || 1;
    const lines = order === 2 || order === 1.5 ? [-0.09, 0.09] : order === 3 ? [-0.16, 0, 0.16] : [0];
    return drawn("g", {}, ...lines.map((shift, number) => {
      const [sx, sy] = [(-dy / length) * shift, (dx / length) * shift];
      const dashes = order === 1.5 && number ? { "stroke-dasharray": "0.2 0.2" } : {};
      return drawn("line", { class: "bond", "stroke-width": 0.02 + 0.05 * this.faint, "stroke-opacity": 0.15 + 0.85 * this.faint, x1: x[i] + sx, y1: y[i] + sy, x2: x[j] + sx, y2: y[j] + sy, ...dashes });
    }));
  }

  /** A bond from a stereo center i out of the plane: a full triangle toward the reader, a hatched one away. */
  #wedge(i, j, toward) {
    const { x, y } = this.drawing;
    const [dx, dy] = [x[j] - x[i], y[j] - y[i]];
    const length = Math.hypot(dx, dy) || 1;
    const at = (share, side) => [x[i] + dx * share + (-dy / length) * 0.14 * share * side, y[i] + dy * share + (dx / length) * 0.14 * share * side];
    if (toward) return drawn("polygon", { class: "wedge", points: [[x[i], y[i]], at(1, 1), at(1, -1)].map((point) => point.join(",")).join(" ") });
    return drawn("g", {}, ...[0.2, 0.35, 0.5, 0.65, 0.8, 0.95].map((share) => {
      const [[x1, y1], [x2, y2]] = [at(share, 1), at(share, -1)];
      return drawn("line", { class: "bond", "stroke-width": 0.06, x1, y1, x2, y2 });
    }));
  }

  /** Where the number of a node stands: away from its edges. */
  #aside(k) {
    const { x, y, edges } = this.drawing;
    let [right, down] = [0, 0];
    for (const [i, j] of edges) {
      if (i !== k && j !== k) continue;
      const other = i === k ? j : i;
      const length = Math.hypot(x[k] - x[other], y[k] - y[other]) || 1;
      right += (x[k] - x[other]) / length;
      down += (y[k] - y[other]) / length;
    }
    const size = Math.hypot(right, down);
    const [dx, dy] = size > 0.2 ? [right / size, down / size] : [0.58, 0.81];
    return { x: x[k] + 0.6 * dx, y: y[k] + 0.6 * dy };
  }

  #node(k) {
    const { x, y, labels, names } = this.drawing;
    const size = Math.min(0.46, 1.5 / Math.max(labels[k].length, 1));
    const node = drawn("g", { class: "node", role: "button", tabindex: k ? -1 : 0, "aria-pressed": false, "aria-label": names[k] },
      drawn("circle", { cx: x[k], cy: y[k], r: labels[k] ? RADIUS : RADIUS * 0.8 }),
      drawn("text", { x: x[k], y: y[k], "font-size": size }, labels[k]),
      drawn("text", { class: "number", ...this.#aside(k) }, labels[k] === names[k] ? "" : (names[k].match(/\d+$/)?.[0] ?? "")),
      drawn("title", {}, names[k]));
    node.addEventListener("click", () => this.#chosen(k));
    node.addEventListener("keydown", (event) => this.#pressed(event, k));
    return node;
  }

  #chosen(k) {
    this.#reach(k);
    this.choose(k);
  }

  #reach(k) {
    this.nodes.forEach((node, other) => node.setAttribute("tabindex", other === k ? 0 : -1));
  }

  #pressed(event, k) {
    const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter" || event.key === " ") this.#chosen(k);
    else if (directions[event.key]) this.#move(k, ...directions[event.key]);
    else return;
    event.preventDefault();
  }

  /** Focus the nearest node in a direction; the four directions together reach every node. */
  #move(k, right, down) {
    const { x, y } = this.drawing;
    let [best, least] = [-1, Infinity];
    x.forEach((_, other) => {
      const [dx, dy] = [x[other] - x[k], y[other] - y[k]];
      const ahead = dx * right + dy * down;
      const aside = Math.abs(dx * down) + Math.abs(dy * right);
      const far = Math.hypot(ahead, aside);
      if (ahead > 0.01 && aside <= 1.5 * ahead && far < least) [best, least] = [other, far];
    });
    if (best < 0) return;
    this.#reach(best);
    this.nodes[best].focus();
  }

  /** Color nodes (and edges) by shares between -1 and 1; `chosen` gets a ring, and rays to the nodes it looks at. */
  color({ nodes, edges = [], chosen = null, texts = [] }) {
    const { x, y } = this.drawing;
    this.under.replaceChildren();
    this.rays.replaceChildren();
    for (const [i, j, share] of edges) {
      const line = drawn("line", { x1: x[i], y1: y[i], x2: x[j], y2: y[j], "stroke-width": 0.06 + 0.36 * this.faint, "stroke-linecap": "round" });
      line.style.stroke = mixed(share);
      this.under.append(line);
    }
    if (chosen !== null) {
      nodes.forEach((share, j) => {
        if (j === chosen || share < 0.08) return;
        this.rays.append(drawn("line", { class: "ray", x1: x[chosen], y1: y[chosen], x2: x[j], y2: y[j], "stroke-width": 0.04 + 0.2 * share, "stroke-opacity": 0.15 + 0.45 * share }));
      });
    }
    this.nodes.forEach((node, k) => {
      node.querySelector("circle").style.fill = mixed(nodes[k]);
      node.setAttribute("aria-pressed", k === chosen);
      const text = texts[k] === undefined ? this.drawing.names[k] : `${this.drawing.names[k]}: ${texts[k]}`;
      node.setAttribute("aria-label", text);
      node.querySelector("title").textContent = text;
    });
  }
}

function mixed(share) {
  const strength = Math.round(100 * Math.min(Math.abs(share), 1));
  return `color-mix(in srgb, var(${share < 0 ? "--cool" : "--hot"}) ${strength}%, var(--paper))`;
}
