// Colours, number formats and the shared time range. Names and reasons are only set by textContent or
// createTextNode, so that they are never parsed as HTML.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/** Makes an element with attributes and children; strings become text. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svg(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const colour = (idx) => (idx === null || idx < 0 ? "var(--faint)" : `var(--c${idx % 8})`);

/** Seconds with digits according to the length of the interval. */
function seconds(us, span = us) {
  const digits = span < 2e4 ? 5 : span < 2e6 ? 3 : span < 60e6 ? 2 : span < 600e6 ? 1 : 0;
  return `${(us / 1e6).toFixed(digits)} s`;
}

/** A label of a time axis that ends at `last`: all labels have one form. Below one second it has the digits of the step,
 * so that no two labels are equal. */
function clock(us, step, last) {
  const whole = Math.round(us / 1e6);
  if (step < 1e6) return `${(us / 1e6).toFixed(Math.ceil(6 - Math.log10(Math.max(1, step))))} s`;
  if (last < 120e6 && step < 60e6) return `${whole} s`;
  const two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return last < 3600e6 ? `${m}:${two(s)}` : `${h}:${two(m)}:${two(s)}`;
}

/** 1 200 000 as 1.2 M. */
function short(value) {
  if (value === null) return "–";
  for (const [size, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size * 0.9995) return `${+(value / size).toPrecision(3)} ${prefix}`;
  }
  return String(+value.toPrecision(3));
}

/** Round steps: at most n of them in a span. */
function niceStep(span, n) {
  const rough = span / Math.max(1, n);
  const size = 10 ** Math.floor(Math.log10(rough || 1));
  return [1, 2, 5, 10].map((k) => k * size).find((step) => step >= rough) || size * 10;
}

/** Steps that clocks have: 1, 2, 5, 10, 15, 30 s, minutes, hours. */
function niceTimeStep(span, n) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  const rough = span / Math.max(1, n) / 1e6;
  if (rough < 1) return niceStep(span, n);
  return (steps.find((step) => step >= rough) || Math.ceil(rough / 86400) * 86400) * 1e6;
}

/** The time range of all charts. */
const view = {
  from: 0,
  to: Math.max(1, data.end),
  listeners: [],
  set(from, to) {
    const least = Math.min(data.end, 2000);
    const span = Math.min(Math.max(to - from, least), Math.max(1, data.end));
    this.from = Math.min(Math.max(0, from), Math.max(0, data.end - span));
    this.to = this.from + span;
    this.listeners.forEach((listener) => listener());
  },
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  },
  whole() {
    return this.from <= 0 && this.to >= data.end;
  },
};

/** Left end of the time axis. */
const GUTTER = () => (window.innerWidth <= 620 ? 96 : 188);
const PAD_RIGHT = 14;
function scale(width, left) {
  const span = view.to - view.from;
  const wide = Math.max(10, width - left - PAD_RIGHT);
  const x = (us) => left + ((us - view.from) / span) * wide;
  x.back = (px) => view.from + ((px - left) / wide) * span;
  x.wide = wide;
  return x;
}

/** Ticks of the time axis as [us, label]. */
function timeTicks(wide) {
  // Labels of less than 10 ms are longer.
  const width = view.to - view.from < 1e5 ? 90 : 65;
  const step = niceTimeStep(view.to - view.from, Math.max(2, Math.floor(wide / width)));
  const ticks = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.to + 1; at += step) {
    ticks.push([at, clock(at, step, view.to)]);
  }
  return ticks;
}

/** Draws a tick label inside the chart. */
function tickLabel(x, at, label, y, width) {
  const half = label.length * 3.8;
  const px = Math.min(x(at), width - 4 - half);
  return svg("text", { x: px, y, "text-anchor": "middle" }, label);
}

// One tooltip for all charts.
const tip = $("tip");
function showTip(x, y, parts) {
  tip.replaceChildren(...parts);
  tip.classList.remove("hidden");
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth - 8 ? Math.max(8, x - box.width - 16) : x + 16;
  const top = y + 18 + box.height > innerHeight - 8 ? Math.max(8, y - box.height - 14) : y + 18;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}
const hideTip = () => tip.classList.add("hidden");
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

// The theme follows the system until the reader selects one.
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
function remembered() {
  try { return localStorage.getItem("evenkeel-theme"); } catch { return null; }
}
function setTheme(theme) {
  root.dataset.theme = theme;
  $("theme").setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
}
setTheme(remembered() || (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => remembered() || setTheme(dark.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => {
  const theme = root.dataset.theme === "dark" ? "light" : "dark";
  setTheme(theme);
  try { localStorage.setItem("evenkeel-theme", theme); } catch { /* No storage for a page from a file. */ }
});

/** Marks one button of a group as selected and passes its value to a callback; returns a function that selects one. */
function segments(id, choose) {
  const buttons = [...$(id).querySelectorAll("button")];
  const press = (value) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.value === value)));
    choose(value);
  };
  for (const button of buttons) button.addEventListener("click", () => press(button.value));
  return press;
}

/** Whether a job has a text in its name, its state or its end: failed jobs are found as "failed" and "oom-killed". */
function isFound(job, text) {
  return [job.name, job.state, job.mark, job.ending].join(" ").toLowerCase().includes(text);
}

/** Calls back with the searched text. The fields of the timeline and of the table of jobs have one text. */
function onSearch(listener) {
  const fields = [$("find"), $("filter")].filter((field) => field);
  for (const field of fields) {
    field.addEventListener("input", () => {
      fields.forEach((other) => { other.value = field.value; });
      listener(field.value.trim().toLowerCase());
    });
  }
}
