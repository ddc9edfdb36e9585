// Bars, lines, and matrices on a canvas, for the page of a model and for that of an analysis.
import { drawn, element, readable } from "./elements.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [46, 14, 12, 34];

function frame(low, high, title, width, height) {
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart", role: "img", "aria-label": title });
  const up = (value) => TOP + (height - TOP - BOTTOM) * (1 - (value - low) / (high - low || 1));
  for (const value of ticks(low, high)) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: up(value), y2: up(value) }));
    svg.append(drawn("text", { x: LEFT - 6, y: up(value) + 4, "text-anchor": "end" }, readable(value, 3)));
  }
  svg.append(drawn("text", { x: (LEFT + width) / 2, y: height - 2, "text-anchor": "middle" }, title));
  return { svg, up };
}

/** Round numbers between two limits: three to seven of them. */
function ticks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

/** Names below the places of a chart, as many as there is room for; all from `joined` on. */
function below(svg, names, across, height, joined = names.length) {
  const every = Math.ceil(names.length / 14);
  names.forEach((name, k) => {
    if (k % every === 0 || k >= joined) svg.append(drawn("text", { x: across(k), y: height - BOTTOM + 17, "text-anchor": "middle" }, name));
  });
}

/** Bars with a name below each, and a mark for what even attention would give. */
export function bars(names, values, marks, title, width = 420, height = 210) {
  const { svg, up } = frame(0, Math.max(...values, ...marks, 1e-9), title, width, height);
  const wide = (width - LEFT - RIGHT) / names.length;
  names.forEach((name, k) => {
    const x = LEFT + wide * k;
    const bar = drawn("rect", { class: "bar", x: x + wide * 0.16, width: wide * 0.68, y: up(values[k]), height: up(0) - up(values[k]), rx: 2 });
    bar.append(drawn("title", {}, `${name}: ${readable(values[k], 3)}, evenly ${readable(marks[k], 3)}`));
    svg.append(bar, drawn("line", { class: "mark", x1: x + wide * 0.08, x2: x + wide * 0.92, y1: up(marks[k]), y2: up(marks[k]) }));
  });
  below(svg, names, (k) => LEFT + wide * (k + 0.5), height);
  return svg;
}

/**
 * Lines over named places. series: {name, values, color, dashed}, null for a value that is missing; the first `joined`
 * places are joined, the others are dots; a dashed line stands at the place `best`; `zero` starts the axis there.
 */
export function lines(series, names, title, { joined = names.length, best = null, zero = false, width = 420, height = 210 } = {}) {
  const known = series.flatMap(({ values }) => values).filter((value) => value !== null);
  const low = Math.min(...known, ...(zero ? [0] : []));
  const { svg, up } = frame(low, Math.max(...known, low + 1e-9), title, width, height);
  const across = (k) => LEFT + (width - LEFT - RIGHT) * (names.length < 2 ? 0.5 : k / (names.length - 1));
  if (best !== null && best < names.length) svg.append(drawn("line", { class: "best", x1: across(best), x2: across(best), y1: TOP, y2: height - BOTTOM }));
  for (const { name, values, color, dashed } of series) {
    const points = values.slice(0, joined).map((value, k) => (value === null ? "" : `${across(k).toFixed(1)},${up(value).toFixed(1)}`));
    const group = drawn("g", {}, drawn("polyline", { points: points.join(" ").trim(), fill: "none", "stroke-width": 2, class: dashed ? "dashed" : "" }));
    group.firstChild.style.stroke = color;
    values.forEach((value, k) => {
      if (value === null || (names.length > 60 && k < joined)) return;
      const dot = drawn("circle", { cx: across(k), cy: up(value), r: k < joined ? 2.2 : 3.5 }, drawn("title", {}, `${name}, ${names[k]}: ${value}`));
      dot.style.fill = color;
      group.append(dot);
    });
    svg.append(group);
  }
  below(svg, names, across, height, joined);
  return svg;
}

/** A name for each line in its color. */
export function legend(series) {
  return series.map(({ name, color, dashed }) => {
    const sample = element("b", {}, dashed ? "\u2504" : "\u2501");
    sample.style.color = color;
    return element("span", {}, sample, ` ${name} `);
  });
}

/** Draw a matrix of numbers between 0 and 1, one cell per entry, shade(share) being its color; frame a chosen row. */
export function paintMatrix(canvas, matrix, shade, chosen = null) {
  const cell = Math.max(1, Math.floor(720 / matrix.length));
  canvas.width = canvas.height = matrix.length * cell;
  const context = canvas.getContext("2d");
  matrix.forEach((row, i) => row.forEach((share, j) => {
    context.fillStyle = shade(share);
    context.fillRect(j * cell, i * cell, cell, cell);
  }));
  if (chosen === null) return;
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  context.lineWidth = Math.max(2, cell / 8);
  context.strokeRect(1, chosen * cell, canvas.width - 2, cell);
}

/** The color of a share on the scale of the figures, from dark to bright. */
export function viridis(share) {
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const mix = stops[low].map((value, k) => Math.round(value + (stops[low + 1][k] - value) * (place - low)));
  return `rgb(${mix.join(",")})`;
}
