// Elements and numbers. Text from users only ever becomes text, never markup.

export const byId = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A number as people read it; any other value as text. */
export function readable(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

/** A number and the interval around it, to two digits of half its width: "0.56" and "0.20 to 0.93". */
export function around(value, low, high) {
  if (low === null || high === null) return [readable(value), "any number"]; // too few labels for a bound
  const half = (high - low) / 2;
  if (!(half > 0)) return [readable(value), `${readable(low)} to ${readable(high)}`];
  const digits = Math.min(Math.max(1 - Math.floor(Math.log10(half)), 0), 12);
  const [shown, from, to] = [value, low, high].map((x) => x.toFixed(digits));
  return [shown, `${from} to ${to}`];
}
