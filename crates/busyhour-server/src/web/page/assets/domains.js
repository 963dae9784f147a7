// Domains with settings of their own: what each may have, what it has, and what was refused to it.

import { get } from "./api.js";
import { attempt, bytes, count, debounce, empty, h, heading, table, tag } from "./ui.js";

const PAGE = 100;
/** So often is it read again, if there are not too many. */
const AGAIN_MS = 5000;
const AGAIN_MAX = 1000;
/** From this part of a quota on it is nearly used up. */
const NEAR = 0.9;
const QUOTAS = [
  { title: "Accounts", sort: "account_count", max: "max_accounts" },
  { title: "Contacts", sort: "contact_count", max: "max_contacts" },
  { title: "Watchers", sort: "watcher_count", max: "max_watchers" },
  { title: "Calls", sort: "call_count", max: "max_calls" },
];

/** What can be refused, the one of a quota by its name. */
const REFUSALS = [
  ["accounts", "refused_accounts"], ["contacts", "refused_contacts"], ["registrations", "refused_registrations"],
  ["watchers", "refused_watchers"], ["calls", "refused_calls"], ["memory", "refused_memory"], ["other", "refused_other_share"],
];

/** `2 contacts, 1 calls`: what was refused, and how often. */
function refusals(one) {
  return REFUSALS.filter(([, field]) => one[field]).map(([name, field]) => `${count(one[field])} ${name}`).join(", ");
}

/** The part of the quota that is used; without one none is. */
const part = (one, { sort, max }) => (one[max] === undefined ? 0 : one[max] === 0 ? 1 : one[sort] / one[max]);
const fullest = (one) => Math.max(...QUOTAS.map((quota) => part(one, quota)));
const FILTERS = [
  { id: "", title: "all", matches: () => true },
  { id: "near", title: "near a quota", matches: (one) => fullest(one) >= NEAR },
  { id: "refused", title: "with refusals", matches: (one) => one.refused > 0 },
  { id: "configured", title: "of the file", matches: (one) => one.configured },
];

export function show(place, { signal }) {
  const wanted = { search: "", filter: "", sort: "name", shown: PAGE };
  const list = h("section", { className: "panel flush" });
  let domains = [];

  async function read() {
    const told = await attempt(() => get("/tenants", { signal }));
    if (!told) return;
    domains = told.tenants;
    draw();
    if (domains.length <= AGAIN_MAX) setTimeout(() => signal.aborted || read(), AGAIN_MS);
  }

  function draw() {
    const hosts = (one) => [one.name, one.realm, ...(one.aliases ?? [])].filter(Boolean);
    const { matches } = FILTERS.find(({ id }) => id === wanted.filter);
    const found = domains.filter((one) => matches(one) && hosts(one).some((host) => host.includes(wanted.search)));
    if (!found.length) {
      list.replaceChildren(domains.length ? empty("No domain matches", "Search for less, or choose another filter.")
        : empty("No domains of their own", "All users are of the server's domains (sip.domains). `busyhour domain add DOMAIN` gives a customer accounts, a realm and quotas of its own."));
      return;
    }
    found.sort(by(wanted.sort));
    const rows = found.slice(0, wanted.shown);
    list.replaceChildren(table([
      { title: "Domain", sort: "name", cell: (one) => h("span", {}, one.name, one.configured ? " " : "", one.configured ? tag("file") : "") },
      { title: "Also", long: true, cell: (one) => hosts(one).slice(1).join(", ") || null },
      ...QUOTAS.map((quota) => ({ title: quota.title, sort: quota.sort, number: true, cell: (one) => used(one, quota) })),
      { title: "Registrations", sort: "registrations", number: true, cell: (one) => count(one.registrations) },
      { title: "Memory", sort: "memory_bytes", number: true, cell: (one) => bytes(one.memory_bytes) },
      { title: "Refused", sort: "refused", number: true, cell: (one) => (one.refused ? tag(count(one.refused), "bad") : "0") },
      { title: "What was refused", long: true, cell: (one) => refusals(one) || null },
    ], rows, { label: "Domains", order: wanted.sort, onOrder: (sort) => change({ sort }) }),
    h("div", { className: "foot" },
      h("span", { role: "status" }, `${count(rows.length)} of ${count(found.length)}${found.length < domains.length ? `, of ${count(domains.length)} in all` : ""}`), h("span", { className: "spacer" }),
      h("button", { type: "button", disabled: rows.length === found.length, onclick: () => change({ shown: wanted.shown + PAGE }) }, "More")));
  }

  function change(some) {
    Object.assign(wanted, { shown: PAGE }, some);
    draw();
  }

  const search = debounce((text) => change({ search: text.trim().toLowerCase() }));
  place.append(heading("Domains"),
    h("div", { className: "tools" },
      h("label", { className: "wide" }, "Search", h("input", { type: "search", placeholder: "domain, alias, realm", oninput: (event) => search(event.target.value) })),
      h("label", {}, "Filter", h("select", { onchange: (event) => change({ filter: event.target.value }) },
        FILTERS.map(({ id, title }) => h("option", { value: id }, title))))),
    list,
    h("p", { className: "dim" }, "Refused are accounts, contacts, registrations, subscriptions (watchers) and calls beyond a quota, requests for which the domain has no memory left, and others beyond its share of the server, since the start of the server. A server in a cluster counts what it has itself."));
  list.replaceChildren(empty("Looking …", "The domains are read."));
  read();
}

/** `12 of 100`, in the colour of how near that is. */
function used(one, quota) {
  const has = count(one[quota.sort]);
  if (one[quota.max] === undefined) return has;
  const is = part(one, quota);
  const text = `${has} of ${count(one[quota.max])}`;
  return is >= NEAR ? tag(text, is >= 1 ? "bad" : "warn") : text;
}

function by(sort) {
  const name = sort.replace("-", "");
  const sign = sort.startsWith("-") ? -1 : 1;
  return (one, other) => {
    const order = name === "name" ? one.name.localeCompare(other.name) : one[name] - other[name];
    return sign * order || one.name.localeCompare(other.name);
  };
}
