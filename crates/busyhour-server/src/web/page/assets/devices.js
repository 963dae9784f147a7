// Devices: found among a million, a page at a time; and one of them with what can be done about it.

import { get, patch, post, put, query, remove } from "./api.js";
import { askUser, attempt, bare, count, debounce, empty, h, heading, moment, panel, seconds, silentNodes, span, table, tag } from "./ui.js";

const PAGE = 50;
const STATES = { registered: "good", unreachable: "warn", offline: "", disabled: "bad" };
const latency = (contact) => (contact && contact.latency_us !== null ? span(contact.latency_us * 1000) : null);

export function show(place, view) {
  if (view.argument) showOne(place, view);
  else showList(place, view);
}

// ---- all ----------------------------------------------------------------

function showList(place, view) {
  const wanted = { search: "", state: "", transport: "", sort: "aor", after: undefined };
  const before = [];
  const list = h("section", { className: "panel flush" });
  const field = (label, ...rest) => h("label", {}, label, ...rest);
  const pick = (name, values) => h("select", { onchange: (event) => change({ [name]: event.target.value }) },
    values.map(([value, text]) => h("option", { value }, text)));
  const search = debounce((text) => change({ search: text.trim() }));

  function change(some) {
    Object.assign(wanted, some, { after: undefined });
    before.length = 0;
    return draw();
  }

  let running;
  async function draw() {
    running?.abort();
    running = new AbortController();
    view.signal.addEventListener("abort", () => running.abort());
    const page = await attempt(() => get(query("/devices", { ...wanted, limit: PAGE }), { signal: running.signal }));
    if (page) list.replaceChildren(...drawPage(page));
  }

  function drawPage(page) {
    if (!page.devices.length) return [silentNodes(page) ?? "", nothing(wanted)];
    const rows = table([
      { title: "Device", sort: "aor", cell: (one) => h("a", { href: link(one.aor) }, bare(one.aor)) },
      { title: "State", cell: (one) => tag(one.state, STATES[one.state]) },
      { title: "Contacts", sort: "contacts", number: true, cell: (one) => count(one.contacts.length) },
      { title: "User agent", sort: "user_agent", long: true, cell: (one) => one.contacts[0]?.user_agent || null },
      { title: "Flow", cell: (one) => one.contacts[0] && `${one.contacts[0].transport.toUpperCase()} ${one.contacts[0].source}` },
      { title: "Latency", number: true, cell: (one) => latency(one.contacts[0]) },
      { title: "Last seen", sort: "last_seen", number: true, cell: (one) => (one.last_seen_seconds === null ? null : `${seconds(one.last_seen_seconds)} ago`) },
      { title: "Ends in", sort: "expires", number: true, cell: (one) => one.contacts[0] && seconds(one.contacts[0].expires_in_seconds) },
      { title: "Watchers", number: true, cell: (one) => count(one.watcher_count) },
    ], page.devices, { label: "Devices", order: wanted.sort, onOrder: (sort) => change({ sort }) });
    const first = before.length * PAGE + 1;
    const foot = h("div", { className: "foot" },
      h("span", { role: "status" }, `${count(first)} to ${count(first + page.devices.length - 1)} of ${count(page.match_count)}`), h("span", { className: "spacer" }),
      h("button", { type: "button", disabled: !before.length, onclick: () => { wanted.after = before.pop(); draw(); } }, "Previous"),
      h("button", { type: "button", disabled: !page.next, onclick: () => { before.push(wanted.after); wanted.after = page.next; draw(); } }, "Next"));
    return [silentNodes(page) ?? "", rows, foot];
  }

  place.append(
    heading("Devices", h("button", { type: "button", className: "primary", onclick: () => newAccount(draw) }, "New account")),
    h("div", { className: "tools" },
      h("label", { className: "wide" }, "Search", h("input", { type: "search", placeholder: "user, address, user agent", oninput: (event) => search(event.target.value) })),
      field("State", pick("state", [["", "all"], ["registered", "registered"], ["unreachable", "unreachable"], ["offline", "offline"], ["disabled", "disabled"]])),
      field("Transport", pick("transport", [["", "all"], ["udp", "UDP"], ["tcp", "TCP"], ["tls", "TLS"], ["ws", "WebSocket"], ["wss", "WebSocket, TLS"]]))),
    list);
  draw();
}

function nothing({ search, state, transport }) {
  if (search || state || transport) return empty("No device matches", "Search for less, or choose other filters.");
  return empty("No devices yet", "A device appears here when its account is made, or when it registers. `busyhour device add USER` makes an account, and so does New account.");
}

const link = (aor) => `#/devices/${encodeURIComponent(aor)}`;

async function newAccount(done) {
  const given = await askUser({
    title: "New account",
    fields: [
      { name: "user", label: "User", required: true, hint: "what stands before @ in the address; user@domain for a domain with its own accounts" },
      { name: "password", label: "Password", hint: "leave it empty, and the server makes one" },
      { name: "mailbox", label: "Mailbox", hint: "whose message counts its telephone shows" },
      { name: "hints", label: "Extensions", hint: "lamps that show its state, with commas between" },
    ],
    submit: "Make it",
  });
  if (!given) return;
  const path = `/accounts/${encodeURIComponent(given.user)}`;
  const password = given.password || randomText();
  const hints = given.hints.split(",").map((one) => one.trim()).filter(Boolean);
  const made = await attempt(() => put(path, { password, mailbox: given.mailbox || null, hints }), `The account ${given.user} is there.`);
  if (made && !given.password) await tellPassword(given.user, password);
  done();
}

function randomText() {
  const letters = "abcdefghijkmnpqrstuvwxyz23456789";
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) => letters[byte % letters.length]).join("");
}

const tellPassword = (user, password) => askUser({
  title: `The password of ${user}`,
  text: "It is shown once: only its hashes are stored.",
  fields: [{ name: "password", label: "Password", value: password }],
  submit: "Done",
});

// ---- one ----------------------------------------------------------------

async function showOne(place, view) {
  const name = view.argument;
  const body = h("div", { className: "stack" });
  const user = bare(name);
  place.append(h("a", { href: "#/devices" }, "← All devices"), heading(user), body);

  async function draw() {
    const address = encodeURIComponent(name);
    const found = await get(`/devices/${address}`, { signal: view.signal }).catch((error) => {
      if (error.status !== 404) return attempt(() => Promise.reject(error));
    });
    const [told, failed, watched] = await Promise.all([
      found?.account ? get(`/accounts/${encodeURIComponent(found.account)}`, { signal: view.signal }).catch(() => null) : null,
      get(query("/failures", { user: name }), { signal: view.signal }).catch(() => ({ failures: [] })),
      get(query("/watchers", { search: found?.aor ?? name, limit: 100 }), { signal: view.signal }).catch(() => ({ watchers: [] })),
    ]);
    if (view.signal.aborted) return;
    body.replaceChildren(...[
      contacts(found, address, draw),
      told && accountOf(told, draw),
      failures(failed.failures),
      watchers(watched.watchers.filter((one) => one.resource === found?.aor)),
    ].filter(Boolean));
  }
  await draw();
}

function contacts(found, address, draw) {
  const end = async (contact) => {
    const what = contact ? `the contact ${contact.contact}` : "all contacts";
    const sure = await askUser({ title: "Unregister", text: `This ends ${what}. A telephone that is there registers again by itself.`, submit: "Unregister", isDanger: true });
    if (sure) await attempt(() => remove(query(`/bindings/${address}`, { contact: contact?.contact })), "Unregistered.");
    if (sure) draw();
  };
  if (!found?.contacts.length) {
    return panel("Contacts", null, empty("Not registered", "No contact of this device is valid. Failed registrations, if there were any, are below."));
  }
  const made = panel("Contacts", `last seen ${seconds(found.last_seen_seconds)} ago`, table([
    { title: "Contact", cell: (one) => h("span", { className: "mono" }, one.contact) },
    { title: "State", cell: (one) => (one.reachable ? tag("reachable", "good") : tag("unreachable", "warn")) },
    { title: "User agent", cell: (one) => one.user_agent || null },
    { title: "Flow", cell: (one) => `${one.transport.toUpperCase()} ${one.source} to ${one.local}` },
    { title: "Latency", number: true, cell: latency },
    { title: "Ends in", number: true, cell: (one) => seconds(one.expires_in_seconds) },
    { title: "", cell: (one) => h("button", { type: "button", className: "danger", onclick: () => end(one), "aria-label": `Unregister ${one.contact}` }, "Unregister") },
  ], found.contacts, { label: "Contacts" }),
  h("div", { className: "foot" }, h("button", { type: "button", className: "danger", onclick: () => end() }, "Unregister all")));
  made.classList.add("flush");
  return made;
}

function accountOf(account, draw) {
  const path = `/accounts/${encodeURIComponent(account.user)}`;
  const change = async () => {
    const given = await askUser({
      title: `New password for ${account.user}`,
      text: "Its telephones have to be given it, too.",
      fields: [{ name: "password", label: "Password", hint: "leave it empty, and the server makes one" }],
      submit: "Change it",
    });
    if (!given) return;
    const told = await attempt(() => post(`${path}/password`, given.password ? { password: given.password } : {}), "The password is changed.");
    if (told?.password) await tellPassword(account.user, told.password);
  };
  const end = async () => {
    const sure = await askUser({ title: "Remove the account", text: `${account.user} cannot register any more; its contacts and subscriptions end.`, submit: "Remove", isDanger: true });
    if (!sure) return;
    await attempt(() => remove(path), `The account ${account.user} is gone.`);
    draw();
  };
  const disable = async () => {
    const sure = account.disabled || await askUser({
      title: "Disable the account",
      text: `The telephones of ${account.user} are refused, and its contacts and subscriptions end. Everything else of it stays, and Enable undoes it.`,
      submit: "Disable",
      isDanger: true,
    });
    if (!sure) return;
    const word = account.disabled ? "enabled" : "disabled";
    await attempt(() => patch(path, { disabled: !account.disabled }), `The account ${account.user} is ${word}.`);
    draw();
  };
  const list = (values) => (values?.length ? values.join(", ") : "none");
  const line = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
  return panel("Account", account.realm,
    h("dl", {}, ...line("State", account.disabled ? tag("disabled", "bad") : tag("enabled", "good")), ...line("Mailbox", account.mailbox ?? "its user"), ...line("Extensions", list(account.hints)), ...line("Other names", list(account.aliases)),
      ...line("Contacts at most", account.max_contacts ?? "as everybody"), ...line("Logs in with", account.algorithms.join(", ")), ...line("IAX2", account.iax2 ? "yes" : "no")),
    h("div", { className: "actions" },
      h("button", { type: "button", onclick: change }, "New password"),
      h("button", { type: "button", className: account.disabled ? undefined : "danger", onclick: disable }, account.disabled ? "Enable account" : "Disable account"),
      h("button", { type: "button", className: "danger", onclick: end }, "Remove account")));
}

function failures(list) {
  if (!list.length) return null;
  const made = panel("Failed registrations", null, table([
    { title: "Reason", cell: (one) => one.reason },
    { title: "From", cell: (one) => `${one.transport.toUpperCase()} ${one.source}` },
    { title: "Times", number: true, cell: (one) => count(one.count) },
    { title: "Last", number: true, cell: (one) => moment(one.at_unix_seconds * 1000) },
  ], list, { label: "Failed registrations" }));
  made.classList.add("flush");
  return made;
}

function watchers(list) {
  if (!list.length) return null;
  const made = panel("Watched by", null, table([
    { title: "Account", cell: (one) => one.account },
    { title: "Event", cell: (one) => one.package },
    { title: "From", cell: (one) => `${one.transport.toUpperCase()} ${one.source}` },
    { title: "Ends in", number: true, cell: (one) => seconds(one.expires_in_seconds) },
  ], list, { label: "Watchers of this device" }));
  made.classList.add("flush");
  return made;
}
