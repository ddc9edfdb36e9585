// The charts of an analysis, from the numbers that its page holds.
import { byId, element } from "./elements.js";
import { legend, lines, paintMatrix, viridis } from "./charts.js";

const content = JSON.parse(byId("content").textContent);

function select(label, options) {
  return element("select", { "aria-label": label }, ...options.map((option, k) => element("option", { value: k }, option)));
}

function slider(label, last) {
  return element("input", { type: "range", min: 0, max: last, value: last, "aria-label": label });
}

function controls(named) {
  return element("div", { class: "controls" }, ...Object.entries(named).map(([label, made]) => element("label", {}, `${label} `, made)));
}

function drawHops() {
  const { names, numbers } = content.hops;
  const weights = select("weights", ["softmax x gates", "softmax alone"]);
  const layer = select("layer", ["all", ...content.layers.map((number) => `layer ${number}`)]);
  const place = element("div");
  byId("hops").append(controls({ weights, layer }), place);
  const draw = () => {
    const [rows, even] = weights.value === "0" ? [content.hops.product, content.hops.even_product] : [content.hops.softmax, content.hops.even];
    const first = matchMedia("(prefers-color-scheme: dark)").matches ? 0.35 : 0; // the darkest colors are for white paper
    const series = rows.map((values, k) => ({ name: `layer ${content.layers[k]}`, values, color: viridis(first + (0.92 - first) * k / Math.max(1, rows.length - 1)) }));
    series.push({ name: "even", values: even, color: "#889", dashed: true });
    const chart = lines(series, names, "hops", { joined: numbers, zero: true, width: 620, height: 270 });
    const chosen = Number(layer.value) - 1;
    [...chart.querySelectorAll("g")].forEach((group, k) => group.classList.toggle("faded", chosen >= 0 && k !== chosen && k < rows.length));
    place.replaceChildren(chart, element("figcaption", { class: "names" }, ...legend(series)));
  };
  weights.onchange = layer.onchange = draw;
  draw();
}

function drawHeads() {
  const row = element("div", { class: "row" });
  byId("heads").append(row);
  for (const [title, matrix] of Object.entries(content.heads)) {
    const all = matrix.flat(), low = Math.min(...all), high = Math.max(...all);
    const head = element("tr", {}, element("th", { scope: "col" }, "layer \\ head"), ...matrix[0].map((_, k) => element("th", { scope: "col" }, `${k + 1}`)));
    const body = matrix.map((values, k) => element("tr", {}, element("th", {}, `${content.layers[k]}`), ...values.map((value, h) => {
      const cell = element("td", { title: `layer ${content.layers[k]}, head ${h + 1}: ${value}` });
      cell.style.background = viridis(high > low ? (value - low) / (high - low) : 0.5);
      return cell;
    })));
    const table = element("table", { class: "heat" }, element("thead", {}, head), element("tbody", {}, ...body));
    row.append(element("figure", {}, table, element("figcaption", {}, `${title}: layers by heads, from ${low.toPrecision(3)} to ${high.toPrecision(3)}`)));
  }
}

function drawEdges() {
  const row = element("div", { class: "row" });
  byId("edges").append(row);
  const names = content.edges.change[0].map((_, k) => `${k + 1}`), kinds = ["node with itself", "edges", "other pairs"];
  for (const [key, title] of [["change", "change in layer"], ["likeness", "likeness to the input after layer"]]) {
    const series = content.edges[key].map((values, k) => ({ name: kinds[k], values, color: ["#3266ad", "#d1662f", "#4d9a4d"][k] }));
    row.append(element("figure", {}, lines(series, names, title, { zero: true, height: 270 }), element("figcaption", { class: "names" }, ...legend(series))));
  }
}

function drawGraph() {
  const graph = select("graph", content.graphs.map(({ name }) => name));
  const matrix = select("matrix", ["softmax x gates", "softmax", "gates"]);
  const layer = slider("layer", content.layers.length - 1), head = slider("head", content.graphs[0].heads);
  const note = element("p", { class: "note", "aria-live": "polite" }), axes = element("p", { class: "note" });
  const canvas = element("canvas", { tabindex: 0, role: "img" });
  const from = element("span"), bar = element("canvas", { width: 100, height: 1 }), to = element("span");
  for (let k = 0; k < 100; k++) {
    bar.getContext("2d").fillStyle = viridis(k / 99);
    bar.getContext("2d").fillRect(k, 0, 1, 1);
  }
  byId("graph").append(controls({ graph, matrix, layer, head }), note, canvas, element("div", { class: "scale" }, from, bar, to), axes);
  let place = [0, 0];
  const current = () => {
    const shown = content.graphs[graph.value], pack = shown[["product", "softmax", "gates"][matrix.value]];
    const n = shown.size, start = (Number(layer.value) * (shown.heads + 1) + Number(head.value)) * n * n;
    pack.decoded ||= Uint8Array.from(atob(pack.bytes), (letter) => letter.charCodeAt(0));
    const shares = [...Array(n).keys()].map((i) => Array.from(pack.decoded.subarray(start + i * n, start + (i + 1) * n), (step) => step / 255));
    return { shown, n, shares, low: pack.low[layer.value][head.value], high: pack.high[layer.value][head.value] };
  };
  const draw = () => {
    const { shown, n, shares, low, high } = current();
    paintMatrix(canvas, shares, viridis);
    from.textContent = low.toPrecision(2);
    to.textContent = high.toPrecision(2);
    const mean = Number(head.value) === shown.heads ? "mean of all heads" : `head ${Number(head.value) + 1}`;
    const cut = n < shown.nodes + shown.virtual ? `, the first ${n} of ${shown.nodes + shown.virtual} nodes` : "";
    note.textContent = `layer ${content.layers[layer.value]}, ${mean}${cut}`;
    const real = `nodes 0 to ${n - shown.virtual - 1}`;
    axes.textContent = `Rows from the top: who looks; columns from the left: who is looked at; ${shown.virtual ? `${shown.virtual} virtual nodes, then ${real}` : real}.`;
    canvas.setAttribute("aria-label", `${note.textContent}; arrow keys read the entries`);
  };
  const read = (...entry) => {
    const { shown, n, shares, low, high } = current();
    const [i, j] = (place = entry.map((k) => Math.min(Math.max(k, 0), n - 1)));
    const name = (k) => (k < shown.virtual ? `virtual node ${k + 1}` : `node ${k - shown.virtual}`);
    note.textContent = `${name(i)} looks at ${name(j)}: ${(low + (high - low) * shares[i][j]).toPrecision(3)}`;
  };
  canvas.onmousemove = (event) => {
    const box = canvas.getBoundingClientRect(), { n } = current();
    read(Math.floor(n * (event.clientY - box.top) / box.height), Math.floor(n * (event.clientX - box.left) / box.width));
  };
  canvas.onkeydown = (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    read(place[0] + move[0], place[1] + move[1]);
  };
  canvas.onmouseleave = canvas.onblur = draw;
  graph.onchange = matrix.onchange = layer.oninput = head.oninput = draw;
  draw();
}

drawHops();
drawHeads();
drawEdges();
drawGraph();
