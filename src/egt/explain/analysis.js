"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const SVG = "http://www.w3.org/2000/svg";

function make(parent, name, attributes = {}, text = "") {
  const svg = parent.namespaceURI === SVG || name === "svg";
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return parent.appendChild(element);
}

function color(share) {
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const mix = stops[low].map((value, k) => Math.round(value + (stops[low + 1][k] - value) * (place - low)));
  return `rgb(${mix.join(",")})`;
}

function choose(parent, label, options) {
  const holder = make(parent, "label", {}, label + " ");
  const select = make(holder, "select");
  options.forEach((option, k) => make(select, "option", { value: k }, option));
  return select;
}

function slide(parent, label, last) {
  const holder = make(parent, "label", {}, label + " ");
  return make(holder, "input", { type: "range", min: 0, max: last, value: last, "aria-label": label });
}

/* Lines over places on the x axis, one per name; the first `joined` places are joined by lines. */
function chart(parent, lines, names, joined, title, width = 620) {
  const height = 270, left = 46, bottom = 40, top = 12, right = 36;
  const svg = make(parent, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
  const all = lines.flatMap(line => line.values), low = Math.min(0, ...all), high = Math.max(low + 1e-9, ...all);
  const x = k => left + (width - left - right) * (names.length < 2 ? 0.5 : k / (names.length - 1));
  const y = value => top + (height - top - bottom) * (1 - (value - low) / (high - low));
  for (let step = 0; step <= 4; step++) {
    const value = low + (high - low) * step / 4;
    make(svg, "line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" });
    make(svg, "text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, value.toPrecision(2));
  }
  const every = Math.ceil(names.length / 18);
  names.forEach((name, k) => {
    if (k % every === 0 || k >= joined) make(svg, "text", { x: x(k), y: height - bottom + 16, "text-anchor": "middle" }, name);
  });
  make(svg, "text", { x: width / 2, y: height - 5, "text-anchor": "middle" }, title);
  return lines.map(line => {
    const group = make(svg, "g", {});
    const points = line.values.slice(0, joined).map((value, k) => `${x(k).toFixed(1)},${y(value).toFixed(1)}`);
    const dashed = line.dashed ? " dashed" : "";
    make(group, "polyline", { points: points.join(" "), fill: "none", stroke: line.color, "stroke-width": 2, class: dashed });
    line.values.forEach((value, k) => {
      const dot = make(group, "circle", { cx: x(k), cy: y(value), r: k < joined ? 2.2 : 3.5, fill: line.color });
      make(dot, "title", {}, `${line.name}, ${names[k]}: ${value}`);
    });
    return group;
  });
}

/* A name for each line in its color. */
function legend(parent, lines) {
  const caption = make(parent, "figcaption", { class: "names" });
  lines.forEach(line => {
    const name = make(caption, "span");
    make(name, "b", { style: `color:${line.color}` }, line.dashed ? "\u2504" : "\u2501");
    name.append(` ${line.name}`);
  });
}

function drawHops() {
  const parent = document.getElementById("hops"), { names, numbers, even } = content.hops;
  const controls = make(parent, "div", { class: "controls" }), place = make(parent, "div");
  const kind = choose(controls, "weights", ["softmax x gates", "softmax alone"]);
  const layer = choose(controls, "layer", ["all", ...content.layers.map(number => `layer ${number}`)]);
  const draw = () => {
    place.replaceChildren();
    const rows = kind.value === "0" ? content.hops.product : content.hops.softmax;
    const first = matchMedia("(prefers-color-scheme: dark)").matches ? 0.35 : 0; // the darkest colors are for white paper
    const lines = rows.map((values, k) => ({ name: `layer ${content.layers[k]}`, values, color: color(first + (0.92 - first) * k / Math.max(1, rows.length - 1)) }));
    lines.push({ name: "even", values: even, color: "#889", dashed: true });
    const groups = chart(place, lines, names, numbers, "hops");
    legend(place, lines);
    groups.forEach((group, k) => { if (layer.value !== "0" && k !== layer.value - 1 && k < rows.length) group.classList.add("faded"); });
  };
  kind.onchange = layer.onchange = draw;
  draw();
}

function drawHeads() {
  const row = make(document.getElementById("heads"), "div", { class: "row" });
  for (const [title, matrix] of Object.entries(content.heads)) {
    const figure = make(row, "figure"), table = make(figure, "table", { class: "heat" });
    const all = matrix.flat(), low = Math.min(...all), high = Math.max(...all);
    const top = make(make(table, "thead"), "tr"), body = make(table, "tbody");
    make(top, "th", { scope: "col" }, "layer \\ head");
    matrix[0].forEach((_, head) => make(top, "th", { scope: "col" }, `${head + 1}`));
    matrix.forEach((values, k) => {
      const line = make(body, "tr");
      make(line, "th", {}, `${content.layers[k]}`);
      values.forEach((value, head) => {
        const shade = color(high > low ? (value - low) / (high - low) : 0.5);
        make(line, "td", { style: `background:${shade}`, title: `layer ${content.layers[k]}, head ${head + 1}: ${value}` });
      });
    });
    make(figure, "figcaption", {}, `${title}: layers by heads, from ${low.toPrecision(3)} to ${high.toPrecision(3)}`);
  }
}

function drawEdges() {
  const row = make(document.getElementById("edges"), "div", { class: "row" });
  const names = content.edges.change[0].map((_, k) => `${k + 1}`), kinds = ["node with itself", "edges", "other pairs"];
  for (const [key, title] of [["change", "change in layer"], ["likeness", "likeness to the input after layer"]]) {
    const lines = content.edges[key].map((values, k) => ({ name: kinds[k], values, color: ["#3266ad", "#d1662f", "#4d9a4d"][k] }));
    const figure = make(row, "figure");
    chart(figure, lines, names, names.length, title, 420);
    legend(figure, lines);
  }
}

function drawGraph() {
  const parent = document.getElementById("graph"), controls = make(parent, "div", { class: "controls" });
  const which = choose(controls, "graph", content.graphs.map(graph => graph.name));
  const kind = choose(controls, "matrix", ["softmax x gates", "softmax", "gates"]);
  const layer = slide(controls, "layer", content.layers.length - 1), head = slide(controls, "head", content.graphs[0].heads);
  const told = make(parent, "p", { class: "told", "aria-live": "polite" });
  const canvas = make(parent, "canvas", { tabindex: 0, role: "img" });
  const scale = make(parent, "div", { class: "scale" }), from = make(scale, "span"), bar = make(scale, "canvas", { width: 100, height: 1 }), to = make(scale, "span");
  for (let k = 0; k < 100; k++) {
    bar.getContext("2d").fillStyle = color(k / 99);
    bar.getContext("2d").fillRect(k, 0, 1, 1);
  }
  const axes = make(parent, "p", { class: "told" });
  let place = [0, 0];
  const shown = () => {
    const graph = content.graphs[which.value], pack = graph[["product", "softmax", "gates"][kind.value]];
    const n = graph.size, at = (+layer.value * (graph.heads + 1) + +head.value) * n * n;
    pack.decoded ||= Uint8Array.from(atob(pack.bytes), letter => letter.charCodeAt(0));
    const low = pack.low[layer.value][head.value], high = pack.high[layer.value][head.value];
    from.textContent = low.toPrecision(2);
    to.textContent = high.toPrecision(2);
    return { graph, n, steps: pack.decoded.subarray(at, at + n * n), value: step => low + (high - low) * step / 255 };
  };
  const name = (graph, k) => k < graph.virtual ? `virtual node ${k + 1}` : `node ${k - graph.virtual}`;
  const draw = () => {
    const { graph, n, steps } = shown();
    canvas.width = canvas.height = n;
    const image = canvas.getContext("2d").createImageData(n, n);
    steps.forEach((step, k) => {
      const [red, green, blue] = color(step / 255).match(/\d+/g);
      image.data.set([red, green, blue, 255], 4 * k);
    });
    canvas.getContext("2d").putImageData(image, 0, 0);
    const mean = +head.value === graph.heads ? "mean of all heads" : `head ${+head.value + 1}`;
    const cut = graph.size < graph.nodes + graph.virtual ? `, the first ${graph.size} of ${graph.nodes + graph.virtual} nodes` : "";
    told.textContent = `layer ${content.layers[layer.value]}, ${mean}${cut}`;
    const real = `nodes 0 to ${n - graph.virtual - 1}`;
    axes.textContent = `Rows from the top: who looks; columns from the left: who is looked at; ${graph.virtual ? `${graph.virtual} virtual nodes, then ${real}` : real}.`;
    canvas.setAttribute("aria-label", `${told.textContent}; arrow keys read the entries`);
  };
  const tell = (...asked) => {
    const { graph, n, steps, value } = shown();
    place = asked.map(k => Math.min(Math.max(k, 0), n - 1));
    const [i, j] = place;
    told.textContent = `${name(graph, i)} looks at ${name(graph, j)}: ${value(steps[i * n + j]).toPrecision(3)}`;
  };
  canvas.onmousemove = event => {
    const box = canvas.getBoundingClientRect(), { n } = shown();
    tell(Math.floor(n * (event.clientY - box.top) / box.height), Math.floor(n * (event.clientX - box.left) / box.width));
  };
  canvas.onkeydown = event => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    tell(place[0] + move[0], place[1] + move[1]);
  };
  canvas.onmouseleave = canvas.onblur = draw;
  which.onchange = kind.onchange = layer.oninput = head.oninput = draw;
  draw();
}

drawHops();
drawHeads();
drawEdges();
drawGraph();
