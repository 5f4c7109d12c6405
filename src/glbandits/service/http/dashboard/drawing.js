"use strict";
// Elements, numbers and times. Data becomes text, never markup, because ids come from clients.

const Z95 = 1.96;
const byId = (id) => document.getElementById(id);

/** An element with attributes, and with children that are elements or text. */
const element = (name, attributes, ...children) => build(document.createElement(name), attributes, children);
/** The same for SVG. */
const shape = (name, attributes, ...children) => build(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const line = (style, x1, x2, y1, y2) => shape("line", { class: style, x1, x2, y1, y2 });

/** A table. Cells are texts or elements. */
function table(head, rows) {
  const row = (cells, name) => element("tr", {}, ...cells.map((cell) => element(name, {}, cell)));
  return element("table", {}, element("thead", {}, row(head, "th")), element("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
}

/** A text that is cut off where there is no room, with the whole text as its title. */
const clipped = (text) => element("span", { class: "clip", title: text }, text);

/** The items of a list of names and texts. */
const pairs = (texts) => Object.entries(texts).map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text)));

function bar(share, style) {
  const inside = element("i", { class: style });
  inside.style.width = `${100 * share}%`;
  return element("div", { class: "bar", "aria-hidden": "true" }, inside);
}

const count = (number) => number.toLocaleString("en");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const decisions = (number) => plural(number, "decision");
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %` : "–");

/** Number of decimals so that the half-width of an interval has two digits. */
const decimals = (half) => (half > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(half)))) : 3);

function plain(number, digits) {
  if (Math.abs(number) >= 1e6 || (digits >= 6 && number && Math.abs(number) < 1e-4)) return number.toExponential(1).replaceAll("-", "−");
  return number.toFixed(digits).replace(/^-(?=[0.]+$)/, "").replace("-", "−");
}

/** A number with its 95 % interval, and with as many decimals as the interval needs. */
const estimate = ({ value, error }) => [value, Z95 * error].map((number) => plain(number, decimals(Z95 * error))).join(" ± ");

/** A signed number with the ends of its interval. */
function between(value, low, high) {
  const [middle, ...ends] = [value, low, high].map((number) => (number > 0 ? "+" : "") + plain(number, decimals((high - low) / 2)));
  return `${middle} (${ends.join(" to ")})`;
}

function duration(seconds) {
  if (seconds < 0.001) return "0 ms";
  if (seconds < 1) return `${(1000 * seconds).toPrecision(2) * 1} ms`;
  if (seconds < 100) return `${(1 * seconds.toPrecision(seconds < 10 ? 2 : 3)).toLocaleString("en")} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A time, with its day unless that is today. */
function timeText(milliseconds, precise = false) {
  const date = new Date(milliseconds);
  const time = { hour: "2-digit", minute: "2-digit", ...(precise && { second: "2-digit" }), hourCycle: "h23" };
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString("en-GB", today ? time : { day: "numeric", month: "short", ...time });
}

/** The same for a time that may be years away, with its year unless that is the present one. */
function dayText(milliseconds) {
  const date = new Date(milliseconds), year = date.getFullYear();
  return timeText(milliseconds) + (year === new Date().getFullYear() ? "" : ` ${year}`);
}

function multiples(low, high, step) {
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

/** The ends of an axis for a range of values. */
function spread(low, high) {
  const margin = 0.08 * (high - low) || 0.5;
  return [low - margin, high + margin];
}

/** About so many round numbers between two numbers. */
function roundNumbers(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return multiples(low, high, step).map((value) => [value, plain(value, digits)]);
}

const DURATIONS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 43200, 86400, 172800, 604800, 1209600, 2592000, 5184000];

/** At most six round durations between two durations. */
function roundDurations(low, high) {
  const between = DURATIONS.filter((value) => value >= low && value <= high);
  const every = Math.ceil(between.length / 6);
  return between.filter((_, index) => index % every === 0).map((value) => [value, duration(value)]);
}

const TIME_STEPS = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000];

/** About so many round times between two times, in the local time zone. */
function roundTimes(low, high, about) {
  const rough = (high - low) / 1000 / about;
  const step = 1000 * (TIME_STEPS.find((size) => size >= rough) ?? TIME_STEPS.at(-1));
  const shift = 60000 * new Date(high).getTimezoneOffset();
  const form = step >= 86400000 ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (step < 60000) form.second = "2-digit";
  return multiples(low - shift, high - shift, step).map((at) => [at + shift, new Date(at + shift).toLocaleString("en-GB", form)]);
}
