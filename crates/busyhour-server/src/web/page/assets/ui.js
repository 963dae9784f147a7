// Elements, words for numbers, and the parts that several views have.

import { Refusal } from "./api.js";

/** An element: properties, then children. Texts are never read as HTML. */
export function h(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// ---- numbers in words ---------------------------------------------------

export const count = (value) => Math.round(value).toLocaleString("en-US");
export const rateText = (value) => (value < 100 ? value.toFixed(1).replace(/\.0$/, "") : count(value));

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function span(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns === 0) return "0";
  if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`;
  return seconds(ns / 1e9);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 10) return `${minutes} min ${Math.floor(value % 60)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = (unixMs) => new Date(unixMs).toLocaleTimeString("en-GB");
export const moment = (unixMs) => {
  const at = new Date(unixMs);
  return at.toDateString() === new Date().toDateString() ? clock(unixMs) : `${at.toLocaleDateString("en-GB")} ${clock(unixMs)}`;
};

/** `alice@example.com` instead of `sip:alice@example.com`. */
export const bare = (uri) => String(uri ?? "").replace(/^sips?:/, "");

export const words = (state) => String(state).replaceAll("-", " ");

// ---- parts --------------------------------------------------------------

export function heading(title, ...tools) {
  return h("div", { className: "head" }, h("h1", {}, title), h("span", { className: "spacer" }), ...tools);
}

export function panel(title, note, ...children) {
  const header = title && h("header", {}, h("h2", {}, title), note && h("span", { className: "dim" }, note));
  return h("section", { className: "panel" }, header, ...children);
}

export const empty = (title, text, ...more) => h("div", { className: "empty" }, h("strong", {}, title), h("p", {}, text), ...more);
/** Which nodes of the cluster gave no answer for a list; nothing if all have. */
export const silentNodes = ({ unanswered_nodes: silent }) => silent && h("p", { className: "warning", role: "status" },
  `What ${silent.length > 1 ? "these nodes of the cluster have is missing, since they give" : "this node of the cluster has is missing, since it gives"} no answer: ${silent.join(", ")}`);
export const tag = (text, kind = "") => h("span", { className: `tag ${kind}` }, text);

/**
 * A table. Columns: { title, cell(row), number, sort, long, mono, wrap }. `order` is the column that is sorted by, with `-` in front
 * for descending; `onOrder` hears a click.
 */
export function table(columns, rows, { label, order, onOrder } = {}) {
  const head = columns.map((column) => {
    const name = order?.replace("-", "");
    const isOrdered = column.sort && column.sort === name;
    const direction = isOrdered ? (order.startsWith("-") ? "descending" : "ascending") : undefined;
    const arrow = { ascending: " ↑", descending: " ↓" }[direction] ?? "";
    const flip = () => onOrder(isOrdered && !order.startsWith("-") ? `-${column.sort}` : column.sort);
    const text = column.sort && onOrder ? h("button", { type: "button", onclick: flip }, column.title + arrow) : column.title;
    return h("th", { scope: "col", className: column.number ? "number" : undefined, "aria-sort": direction }, text || h("span", { className: "sr" }, "actions"));
  });
  const body = rows.map((row) => h("tr", {}, columns.map((column) => {
    const cell = column.cell(row);
    const kind = [column.number && "number", column.long && "long", column.mono && "mono", column.wrap && "wrap"].filter(Boolean).join(" ");
    const title = column.long && typeof cell === "string" ? cell : undefined;
    return h("td", { className: kind || undefined, title }, cell ?? (column.title ? "–" : ""));
  })));
  return h("div", { className: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

export function toast(text, isBad = false) {
  const line = h("div", { className: isBad ? "bad" : undefined }, text);
  document.getElementById("toast").append(line);
  setTimeout(() => line.remove(), isBad ? 8000 : 4000);
}

/** Runs something for the user, and says why it did not work. */
export async function attempt(work, done) {
  try {
    const result = await work();
    if (done) toast(done);
    return result;
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    if (!(error instanceof Refusal)) throw error;
    toast(error.status === 401 ? `${error.message}. Sign in with a token of scope write.` : error.message, true);
    return undefined;
  }
}

/** A dialog with a form. Fields: { name, label, type, value, hint, required }. Gives the values, or null. */
export function askUser({ title, text, fields = [], submit = "OK", isDanger = false }) {
  return new Promise((resolve) => {
    const inputs = fields.map((field) => h("label", { className: "field" }, field.label,
      field.type === "textarea" ? h("textarea", { name: field.name, rows: "4" }, field.value ?? "")
        : h("input", { name: field.name, type: field.type ?? "text", value: field.value ?? "", required: field.required, min: field.min, max: field.max, autocomplete: "off" }),
      field.hint && h("span", {}, field.hint)));
    const form = h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, title), text && h("p", {}, text), ...inputs,
      h("div", { className: "actions" },
        h("button", { type: "button", onclick: () => box.close() }, "Cancel"),
        h("button", { type: "submit", value: "ok", className: isDanger ? "danger" : "primary" }, submit)));
    const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    box.addEventListener("close", () => {
      resolve(box.returnValue === "ok" ? Object.fromEntries(new FormData(form)) : null);
      box.remove();
    });
    document.body.append(box);
    box.showModal();
  });
}

/** A line of the last values; the newest at the right. */
export function sparkline(values, length, label) {
  const top = Math.max(...values, 0) || 1;
  const right = length - 1;
  const points = values.map((value, i) => `${right - (values.length - 1 - i)},${(33 - (value / top) * 31).toFixed(1)}`);
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };
  const drawing = svg("svg", { viewBox: `0 0 ${right} 34`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  if (points.length) {
    const left = points[0].split(",")[0];
    drawing.append(svg("polygon", { points: `${left},34 ${points.join(" ")} ${right},34` }), svg("polyline", { points: points.join(" ") }));
  }
  return drawing;
}

/** Calls at most once in `ms`, with the last arguments. */
export function debounce(work, ms = 250) {
  let timer;
  return (...rest) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...rest), ms);
  };
}

/** Runs now and then every `ms` until `signal` ends it, but not while the tab is hidden. */
export function every(ms, signal, work) {
  const run = async () => {
    if (signal.aborted) return;
    if (!document.hidden) {
      try {
        await work();
      } catch (error) {
        if (error.name !== "AbortError" && !(error instanceof Refusal)) throw error;
      }
    }
    if (!signal.aborted) setTimeout(run, ms);
  };
  run();
}
