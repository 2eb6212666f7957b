// Renders pages in headless Chromium, checks them with axe-core, and writes a picture of each.
//
//   node scripts/screenshots.mjs AXE.js DIR PAGE.html…
//
// Chromium is controlled through its DevTools pipe (--remote-debugging-pipe: JSON messages that end with a zero byte
// on the file descriptors 3 and 4), which needs no other package. Findings are printed, one per line; the exit status
// is 1 if there is one.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

const WIDTHS = [1280, 390];
const SCHEMES = ["light", "dark"];
/** A taller page has several pictures; more pictures than N_PARTS_MAX are omitted. */
const HEIGHT_MAX = 1800;
const N_PARTS_MAX = 8;

const [axePath, out, ...pages] = process.argv.slice(2);
const axe = readFileSync(axePath, "utf8");
const profile = mkdtempSync(join(tmpdir(), "evenkeel-screenshots-"));
const options = ["--headless", "--remote-debugging-pipe", "--hide-scrollbars", "--disable-gpu", `--user-data-dir=${profile}`];
// Chromium refuses its sandbox for root.
if (process.getuid() === 0) options.push("--no-sandbox");
const browser = spawn("chromium", options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
browser.on("error", (error) => { console.error(`cannot start chromium: ${error.message}`); process.exit(1); });

let nPictures = 0;
const waiting = new Map();
const listeners = new Set();
let lastId = 0;
let unread = "";
browser.stdio[4].setEncoding("utf8").on("data", (text) => {
  const parts = (unread + text).split("\0");
  unread = parts.pop();
  for (const message of parts.map((part) => JSON.parse(part))) {
    if (message.id === undefined) { listeners.forEach((listener) => listener(message)); continue; }
    const { done, fail } = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) fail(new Error(message.error.message));
    else done(message.result);
  }
});

/** Sends a command to a session; without a session, to the browser. */
function send(method, params = {}, sessionId) {
  const id = ++lastId;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((done, fail) => waiting.set(id, { done, fail }));
}

/** Opens a tab and returns its session and its errors. */
async function open() {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const errors = [];
  listeners.add(({ method, params, sessionId: from }) => {
    if (from !== sessionId) return;
    if (method === "Runtime.exceptionThrown") errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error") errors.push(params.entry.text);
  });
  for (const domain of ["Page", "Runtime", "Log"]) await send(`${domain}.enable`, {}, sessionId);
  return { sessionId, targetId, errors };
}

async function evaluate(sessionId, expression) {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

function loaded(sessionId) {
  return new Promise((done) => {
    const listener = ({ method, sessionId: from }) => {
      if (from !== sessionId || method !== "Page.loadEventFired") return;
      listeners.delete(listener);
      done();
    };
    listeners.add(listener);
  });
}

// Runs in the page. Axe-core does not check whether something is cut, and whether labels differ.
function drawingErrors() {
  const found = [];
  const axis = [...document.querySelectorAll("#axis text")].map((label) => label.textContent);
  if (new Set(axis).size < axis.length) found.push(`labels of the time axis are equal: ${axis.join(", ")}`);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth - root.clientWidth} px wider than the window`);
  for (const text of document.querySelectorAll("svg text")) {
    const box = text.getBoundingClientRect();
    const card = text.closest(".card")?.getBoundingClientRect();
    if (box.width && card && (box.left < card.left - 1 || box.right > card.right + 1) && !text.closest(".scroll, .row")) {
      found.push(`the text "${text.textContent}" of a chart is cut`);
    }
  }
  for (const cell of document.querySelectorAll("td, th, dd, p, li, figcaption")) {
    const style = getComputedStyle(cell);
    const isText = [...cell.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim().length > 24);
    const lines = cell.clientHeight / (parseFloat(style.lineHeight) || 20);
    if (isText && cell.clientWidth < 90 && lines > 8) found.push(`"${cell.textContent.slice(0, 30)}…" has one word per line`);
  }
  return found;
}

async function picture(sessionId, width, name) {
  const height = await evaluate(sessionId, "document.documentElement.scrollHeight");
  const nParts = Math.min(N_PARTS_MAX, Math.ceil(height / HEIGHT_MAX));
  for (let part = 0; part < nParts; part++) {
    const y = part * HEIGHT_MAX;
    const clip = { x: 0, y, width, height: Math.min(HEIGHT_MAX, height - y), scale: 1 };
    const { data } = await send("Page.captureScreenshot", { clip, captureBeyondViewport: true }, sessionId);
    writeFileSync(join(out, `${name}-${part + 1}.png`), Buffer.from(data, "base64"));
    nPictures++;
  }
}

async function check(page, width, scheme) {
  const { sessionId, targetId, errors } = await open();
  await send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 }, sessionId);
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] }, sessionId);
  const isLoaded = loaded(sessionId);
  await send("Page.navigate", { url: `file://${resolve(page)}` }, sessionId);
  await isLoaded;
  await evaluate(sessionId, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
  const findings = [...errors, ...await evaluate(sessionId, `(${drawingErrors})()`)];
  await evaluate(sessionId, `${axe}; 0`);
  const { violations } = await evaluate(sessionId, `axe.run(document, { resultTypes: ["violations"] })`);
  for (const { id, help, nodes } of violations) {
    findings.push(`${id}: ${help} (${nodes.length}): ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary.replaceAll("\n", " ")}`);
  }
  await picture(sessionId, width, `${basename(page, ".html")}-${width}-${scheme}`);
  await send("Target.closeTarget", { targetId });
  return findings;
}

let nFindings = 0;
for (const page of pages) {
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) {
      const findings = await check(page, width, scheme);
      nFindings += findings.length;
      for (const finding of findings) console.log(`${basename(page)} at ${width} px, ${scheme}: ${finding}`);
    }
  }
}
await send("Browser.close");
await new Promise((done) => browser.on("close", done));
rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
console.log(`${nPictures} pictures in ${out}, findings: ${nFindings}`);
process.exit(nFindings ? 1 : 0);
