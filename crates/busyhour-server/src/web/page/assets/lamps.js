// Extensions as a wall of lamps, as a telephone's side panel has them; it changes as they do.

import { get, put, query, remove, stream } from "./api.js";
import { askUser, attempt, count, debounce, empty, h, heading, panel, tag, words } from "./ui.js";

/** So many lamps are drawn; the search finds the others. */
const DRAWN_MAX = 1000;
/** Changes are drawn at most so often. */
const DRAW_MS = 200;
/** After losses the list is read at most so often. */
const REREAD_MS = 2000;

export function show(place, { signal }) {
  const hints = new Map();
  const drawn = new Map();
  const changed = new Set();
  const wall = h("div", { className: "lamps", role: "list", "aria-label": "Lamps" });
  const box = h("div", {}, panel(null, null, h("p", { className: "dim" }, "Looking …")));
  const figure = h("span", { className: "dim", role: "status" });
  let wanted = "";
  let heard = 0;

  function face(hint) {
    const lamp = drawn.get(hint.extension) ?? h("button", { type: "button", onclick: () => edit(hints.get(hint.extension), reread) }, h("b"), h("span"));
    lamp.className = `lamp ${hint.state}`;
    lamp.firstChild.textContent = hint.extension;
    const [first, ...others] = (hint.devices ?? []).map((device) => device.replace(/^sips?:/, "").split("@")[0]);
    lamp.lastChild.textContent = words(hint.state) + (first ? ` · ${first}${others.length ? ` +${others.length}` : ""}` : "");
    lamp.title = hint.devices?.map((device) => device.replace(/^sips?:/, "")).join(", ") ?? "";
    drawn.set(hint.extension, lamp);
    return lamp;
  }

  function drawAll() {
    const found = [...hints.values()].filter((hint) => !wanted || hint.extension.includes(wanted) || hint.devices?.some((device) => device.includes(wanted)));
    found.sort((one, other) => one.extension.localeCompare(other.extension, "en", { numeric: true }));
    const some = found.slice(0, DRAWN_MAX);
    drawn.clear();
    wall.replaceChildren(...some.map((hint) => h("div", { role: "listitem" }, face(hint))));
    figure.textContent = `${count(found.length)} lamps${found.length > some.length ? `, the first ${count(some.length)} shown` : ""}`;
    if (!hints.size) {
      box.replaceChildren(panel(null, null, empty("No lamps yet", "An extension stands for one or several devices, and its lamp shows what they do together. Make one here, or with `busyhour device add USER --hint 100`.")));
    } else {
      box.replaceChildren(found.length ? wall : panel(null, null, empty("No lamp matches", "Search for less.")));
    }
  }

  /** What has changed while the list is read: the list may be older. */
  let newer;
  async function reread() {
    const all = new Map();
    const mine = new Map();
    newer = mine;
    let after;
    do {
      const page = await attempt(() => get(query("/hints", { limit: 5000, after }), { signal }));
      if (!page) return;
      page.hints.forEach((hint) => all.set(hint.extension, hint));
      after = page.next;
    } while (after);
    hints.clear();
    all.forEach((hint, extension) => hints.set(extension, hint));
    mine.forEach(apply);
    drawAll();
  }

  function apply(change) {
    if (change.gone) hints.delete(change.extension);
    else hints.set(change.extension, { ...hints.get(change.extension), extension: change.extension, state: change.line });
  }

  // Losses come in numbers: the list is read for many of them at once.
  let isStale = false;
  let isRereading = false;
  async function rereadSoon() {
    isStale = true;
    if (isRereading) return;
    isRereading = true;
    while (isStale && !signal.aborted) {
      isStale = false;
      await reread();
      await new Promise((done) => setTimeout(done, REREAD_MS));
    }
    isRereading = false;
  }

  /** However many changes come, each lamp is drawn once in a while, in its last state. */
  function drawChanged() {
    const isNew = [...changed].some((extension) => !drawn.has(extension) && !wanted && drawn.size < DRAWN_MAX);
    const isGone = [...changed].some((extension) => !hints.has(extension));
    if (isNew || isGone) drawAll();
    else changed.forEach((extension) => drawn.has(extension) && face(hints.get(extension)));
    changed.clear();
  }
  const timer = setInterval(() => changed.size && !document.hidden && drawChanged(), DRAW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));

  const rate = h("span", { className: "dim" });
  const second = setInterval(() => {
    rate.textContent = heard ? `${count(heard)} changes in the last second` : "";
    heard = 0;
  }, 1000);
  signal.addEventListener("abort", () => clearInterval(second));

  place.append(
    heading("Lamps", rate, h("button", { type: "button", className: "primary", onclick: () => edit(null, reread) }, "New lamp")),
    h("div", { className: "tools" },
      h("label", { className: "wide" }, "Search", h("input", { type: "search", placeholder: "extension or device", oninput: debounce((event) => { wanted = event.target.value.trim(); drawAll(); }) })),
      h("span", {}, tag("idle", "good"), " ", tag("ringing", "warn"), " ", tag("in use", "bad"), " ", tag("on hold", "accent"), " ", tag("unavailable")), figure),
    box);
  reread().then(() => stream("/changes?kind=hint&snapshot=true", {
    signal,
    onEvent(name, data) {
      // Changes are missing: what is drawn may be wrong, and what is gone was not told.
      if (name === "lost" || name === "reset") rereadSoon();
      if (name !== "change" && name !== "state") return;
      const change = JSON.parse(data);
      if (name === "change") heard += 1;
      apply(change);
      newer?.set(change.extension, change);
      changed.add(change.extension);
    },
  }));
}

async function edit(hint, done) {
  const given = await askUser({
    title: hint ? `Lamp ${hint.extension}` : "New lamp",
    text: hint?.configured ? "The configuration file has it, so it can only be changed there." : undefined,
    fields: [
      ...(hint ? [] : [{ name: "extension", label: "Extension", required: true }]),
      { name: "devices", label: "Devices", value: hint?.devices?.map((device) => device.replace(/^sips?:/, "")).join(", ") ?? "", hint: "users or addresses with commas between; none removes the lamp" },
    ],
    submit: "Save",
  });
  if (!given) return;
  const extension = hint?.extension ?? given.extension;
  const path = `/hints/${encodeURIComponent(extension)}`;
  const devices = given.devices.split(",").map((one) => one.trim()).filter(Boolean);
  await attempt(() => (devices.length ? put(path, { devices }) : remove(path)), devices.length ? `The lamp ${extension} is set.` : `The lamp ${extension} is gone.`);
  done();
}
