// Mailboxes: what waits in each, and setting it.

import { get, put, query, remove } from "./api.js";
import { askUser, attempt, count, empty, h, heading, table, tag } from "./ui.js";

const PAGE = 50;
const CLASSES = ["voice", "fax", "pager", "multimedia", "text", "none"];

export function show(place, { signal }) {
  const list = h("section", { className: "panel flush" });
  const before = [];
  let after;

  let turns = 0;
  async function draw() {
    // An answer that comes after a later one was asked for is of no use.
    const turn = ++turns;
    const page = await attempt(() => get(query("/mailboxes", { after, limit: PAGE }), { signal }));
    if (!page || turn !== turns) return;
    if (!page.mailboxes.length) {
      list.replaceChildren(empty("No mailboxes yet", "A voice mail system sets what waits in a mailbox over HTTP or by PUBLISH; then the lamps of its telephones light."));
      return;
    }
    const others = (one) => CLASSES.slice(1).reduce((sum, kind) => sum + (one[kind]?.new ?? 0), 0);
    list.replaceChildren(table([
      { title: "Mailbox", cell: (one) => h("button", { type: "button", className: "plain", onclick: () => edit(one, draw) }, one.id) },
      { title: "Lamp", cell: (one) => (one.waiting ?? CLASSES.some((kind) => one[kind]?.new) ? tag("lit", "warn") : tag("dark")) },
      { title: "New voice", number: true, cell: (one) => count(one.voice?.new ?? 0) },
      { title: "Old voice", number: true, cell: (one) => count(one.voice?.old ?? 0) },
      { title: "Urgent", number: true, cell: (one) => count(one.voice?.urgent_new ?? 0) },
      { title: "Other new", number: true, cell: (one) => count(others(one)) },
      { title: "Call", cell: (one) => one.account },
    ], page.mailboxes, { label: "Mailboxes" }),
    h("div", { className: "foot" }, h("span", { className: "spacer" }),
      h("button", { type: "button", disabled: !before.length, onclick: () => { after = before.pop(); draw(); } }, "Previous"),
      h("button", { type: "button", disabled: !page.next, onclick: () => { before.push(after); after = page.next; draw(); } }, "Next")));
  }

  place.append(heading("Mailboxes", h("button", { type: "button", className: "primary", onclick: () => edit(null, draw) }, "Set a mailbox")), list);
  draw();
}

async function edit(one, done) {
  const given = await askUser({
    title: one ? `Mailbox ${one.id}` : "Set a mailbox",
    text: one ? "No number in New and Old removes what was set." : undefined,
    fields: [
      ...(one ? [] : [{ name: "id", label: "Mailbox", required: true, hint: "as in the account; by default its user" }]),
      { name: "new", label: "New voice messages", type: "number", min: "0", value: String(one?.voice?.new ?? 1) },
      { name: "old", label: "Old voice messages", type: "number", min: "0", value: String(one?.voice?.old ?? 0) },
    ],
    submit: "Save",
  });
  if (!given) return;
  const id = one?.id ?? given.id;
  const path = `/mailboxes/${encodeURIComponent(id)}`;
  const isRemoval = given.new === "" && given.old === "";
  const { id: _, ...rest } = one ?? {};
  const voice = { ...rest.voice, new: Number(given.new || 0), old: Number(given.old || 0) };
  await attempt(() => (isRemoval ? remove(path) : put(path, { ...rest, voice })), isRemoval ? `The mailbox ${id} is gone.` : `The mailbox ${id} is set.`);
  done();
}
