// Bars over hops, lines over epochs, and a matrix on a canvas.
import { drawn, readable } from "./page.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [420, 210, 46, 10, 12, 34];

function frame(low, high, label) {
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  const up = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low || 1));
  for (const value of ticks(low, high)) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: up(value), y2: up(value) }));
    svg.append(drawn("text", { x: LEFT - 6, y: up(value) + 4, "text-anchor": "end" }, readable(value, 3)));
  }
  return { svg, up };
}

/** Round numbers between two limits: three to seven of them. */
function ticks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9); k++) found.push(k * step);
  return found;
}

function below(svg, x, text) {
  svg.append(drawn("text", { x, y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, text));
}

/** Bars with a name below each, and a mark for what would be expected. */
export function bars(names, values, marks, label) {
  const { svg, up } = frame(0, Math.max(...values, ...marks, 1e-9), label);
  const wide = (WIDTH - LEFT - RIGHT) / names.length;
  names.forEach((name, k) => {
    const x = LEFT + wide * k;
    const bar = drawn("rect", { class: "bar", x: x + wide * 0.16, width: wide * 0.68, y: up(values[k]), height: up(0) - up(values[k]), rx: 2 });
    bar.append(drawn("title", {}, `${name}: ${readable(values[k], 3)}, evenly ${readable(marks[k], 3)}`));
    svg.append(bar, drawn("line", { class: "mark", x1: x + wide * 0.08, x2: x + wide * 0.92, y1: up(marks[k]), y2: up(marks[k]) }));
    if (names.length <= 14 || k % Math.ceil(names.length / 12) === 0) below(svg, x + wide / 2, name);
  });
  svg.append(drawn("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 2, "text-anchor": "middle" }, "hops"));
  return svg;
}

/** Lines over 1, 2, 3, ...; a dashed line at the epoch whose weights were kept. */
export function lines(series, best, label) {
  const known = Object.values(series).flat().filter((value) => value !== null);
  const { svg, up } = frame(Math.min(...known), Math.max(...known), label);
  const longest = Math.max(...Object.values(series).map((values) => values.length));
  const across = (k) => LEFT + ((WIDTH - LEFT - RIGHT) * k) / Math.max(longest - 1, 1);
  if (best <= longest) svg.append(drawn("line", { class: "best", x1: across(best - 1), x2: across(best - 1), y1: TOP, y2: HEIGHT - BOTTOM }, drawn("title", {}, `epoch ${best}, whose weights were kept`)));
  Object.entries(series).forEach(([name, values], number) => {
    const points = values.map((value, k) => (value === null ? "" : `${across(k).toFixed(1)},${up(value).toFixed(1)}`));
    svg.append(drawn("polyline", { class: `line${number % 2}`, points: points.join(" ").trim() }));
    if (Object.keys(series).length > 1) svg.append(drawn("text", { class: `name${number % 2}`, x: WIDTH - RIGHT - 4, y: TOP + 12 + 16 * number, "text-anchor": "end" }, name));
  });
  for (const k of new Set([0, Math.floor(longest / 2), longest - 1])) below(svg, across(k), String(k + 1));
  svg.append(drawn("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 2, "text-anchor": "middle" }, "epoch"));
  return svg;
}

/** Draw a matrix on a canvas, one cell per entry; the row of who looks is framed. */
export function paintMatrix(canvas, matrix, chosen) {
  const size = matrix.length;
  const cell = Math.max(1, Math.floor(720 / size));
  canvas.width = canvas.height = size * cell;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const context = canvas.getContext("2d");
  context.fillStyle = color("--paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = color("--hot");
  const most = Math.max(...matrix.map((row) => Math.max(...row)), 1e-12);
  matrix.forEach((row, i) => row.forEach((value, j) => {
    context.globalAlpha = value / most;
    context.fillRect(j * cell, i * cell, cell, cell);
  }));
  context.globalAlpha = 1;
  if (chosen === null) return;
  context.strokeStyle = color("--accent");
  context.lineWidth = Math.max(2, cell / 8);
  context.strokeRect(1, chosen * cell, canvas.width - 2, cell);
}
