// The settings in effect, with where each one comes from.

import { get, post } from "./api.js";
import { attempt, count, debounce, empty, h, heading, panel, table, tag } from "./ui.js";

export async function show(place, { signal }) {
  const list = h("div", { className: "stack" });
  const report = h("div");
  let settings = [];
  let wanted = "";
  let isChangedOnly = false;

  function draw() {
    const text = wanted.toLowerCase();
    const found = settings.filter((one) => (!isChangedOnly || one.origin !== "default")
      && (!text || `${one.name} ${one.value} ${one.help}`.toLowerCase().includes(text)));
    const sections = Map.groupBy ? Map.groupBy(found, (one) => one.name.split(".")[0]) : group(found);
    const made = [...sections].map(([section, some]) => {
      const box = panel(section, null, table([
        { title: "Setting", wrap: true, cell: (one) => h("div", {}, h("code", {}, one.name), h("div", { className: "dim" }, one.help)) },
        { title: "Value", wrap: true, cell: (one) => h("code", {}, one.value || "(none)") },
        { title: "From", cell: (one) => (one.origin === "default" ? h("span", { className: "dim" }, "default") : tag(one.origin, "accent")) },
      ], some, { label: `Settings of ${section}` }));
      box.classList.add("flush");
      return box;
    });
    list.replaceChildren(...(made.length ? made : [panel(null, null, empty(settings.length ? "No setting matches" : "No settings", settings.length ? "Search for less." : "The server tells none."))]));
  }

  async function reload() {
    const told = await attempt(() => post("/reload"), "The configuration is read again.");
    if (!told) return;
    const lines = [
      `${count(told.configured_accounts)} accounts and ${count(told.tokens)} tokens of the file are in effect.`,
      told.certificate_problem && `The certificates are those from before: ${told.certificate_problem}`,
      told.needs_restart.length ? `These settings have changed and need a restart: ${told.needs_restart.join(", ")}` : "No other setting has changed.",
    ];
    report.replaceChildren(panel("Read again", null, ...lines.filter(Boolean).map((line) => h("p", {}, line))));
  }

  place.append(
    heading("Settings", h("button", { type: "button", onclick: reload, title: "What SIGHUP does" }, "Read the configuration again")), report,
    h("div", { className: "tools" },
      h("label", { className: "wide" }, "Search", h("input", { type: "search", oninput: debounce((event) => { wanted = event.target.value.trim(); draw(); }, 120) })),
      h("label", {}, "Show", h("select", { onchange: (event) => { isChangedOnly = event.target.value === "changed"; draw(); } },
        h("option", { value: "all" }, "all"), h("option", { value: "changed" }, "those that were set")))),
    list);
  const told = await attempt(() => get("/settings", { signal }));
  settings = told?.settings ?? [];
  draw();
}

function group(list) {
  const groups = new Map();
  for (const one of list) {
    const section = one.name.split(".")[0];
    groups.set(section, [...(groups.get(section) ?? []), one]);
  }
  return groups;
}
