// The last lines of the log.

import { get, query } from "./api.js";
import { clock, count, debounce, empty, every, h, heading } from "./ui.js";

/** So many lines are drawn. */
const DRAWN_MAX = 500;
const LEVELS = { error: "bad", warn: "warn", info: "good", debug: "", trace: "" };

export function show(place, { signal }) {
  const wanted = { level: "", search: "" };
  const lines = h("div", { className: "log", role: "log", "aria-label": "Log", tabindex: "0", "aria-live": "off" });
  const box = h("section", { className: "panel flush" }, lines);
  const figure = h("span", { className: "dim", role: "status" });
  let last = 0;
  let begun;
  let isFollowing = true;
  let round = 0;

  const row = (line) => h("div", {},
    h("span", { className: "dim" }, clock(line.at_unix_ms)),
    h("span", {}, h("span", { className: `tag ${LEVELS[line.level]}` }, line.level)),
    h("span", { className: "text" }, line.message, [["event", line.event], ...Object.entries(line.fields)].map(([name, value]) => [" ", h("span", { className: "dim" }, `${name}=`), value]).flat()));

  async function draw() {
    const mine = round;
    const told = await get(query("/log", { ...wanted, after: last || undefined, limit: DRAWN_MAX }), { signal });
    if (mine !== round) return;
    if (begun && begun !== told.begun_unix_ms) {
      // The server was restarted, and counts from 1 again.
      begun = told.begun_unix_ms;
      last = 0;
      return draw();
    }
    begun = told.begun_unix_ms;
    if (told.lines.length) {
      if (!last) lines.replaceChildren();
      last = told.lines.at(-1).number;
      lines.append(...told.lines.map(row));
      while (lines.childElementCount > DRAWN_MAX) lines.firstChild.remove();
      if (isFollowing) lines.scrollTop = lines.scrollHeight;
    } else if (!last) {
      lines.replaceChildren(empty("Nothing to show", wanted.level || wanted.search ? "No line matches." : "What the server says from now on appears here."));
    }
    figure.textContent = last ? `${count(lines.childElementCount)} lines` : "";
  }

  const change = (some) => {
    Object.assign(wanted, some);
    last = 0;
    round += 1;
    draw().catch(() => {});
  };
  place.append(
    heading("Log", figure),
    h("div", { className: "tools" },
      h("label", { className: "wide" }, "Search", h("input", { type: "search", placeholder: "user, address, words", oninput: debounce((event) => change({ search: event.target.value.trim() })) })),
      h("label", {}, "Level", h("select", { onchange: (event) => change({ level: event.target.value }) },
        [["", "all"], ["info", "info and worse"], ["warn", "warnings and errors"], ["error", "errors"]].map(([value, text]) => h("option", { value }, text)))),
      h("label", {}, "Follow", h("select", { onchange: (event) => { isFollowing = event.target.value === "yes"; } }, h("option", { value: "yes" }, "yes"), h("option", { value: "no" }, "no")))),
    box);
  every(1500, signal, draw);
}
