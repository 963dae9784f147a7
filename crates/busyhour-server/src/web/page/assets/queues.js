// What waits: queues, timers, topics, workers, memory. Rows open.

import { get } from "./api.js";
import { onSample, queues as liveQueues } from "./live.js";
import { bytes, count, empty, every, h, heading, span, table, tag } from "./ui.js";

const ALL = "all";
const age = (one) => Math.max(one.oldest_waiting_ns ?? 0, one.running_for_ns ?? 0);
const high = (one) => (one.is_high ? tag("too long", "bad") : age(one) > 1e9 ? tag("slow", "warn") : null);
const optional = (value, words = count) => (value === null || value === undefined ? null : words(value));

const TABS = {
  queues: {
    title: "Queues", about: "What waits for a worker, the disk or the network. A row opens its kind.",
    columns: [
      { title: "Queue", cell: (one) => h("a", { href: `#/queues/queues/${encodeURIComponent(one.kind)}` }, one.kind) },
      { title: "Which", long: true, cell: (one) => one.name },
      { title: "", cell: high },
      { title: "Waiting", number: true, cell: (one) => (one.queued_bytes === null ? count(one.queued_len) : bytes(one.queued_bytes)) },
      { title: "Most ever", number: true, cell: (one) => optional(one.queued_high_water) },
      { title: "Room", number: true, cell: (one) => optional(one.capacity) ?? optional(one.capacity_bytes, bytes) },
      { title: "First waits", number: true, cell: (one) => optional(one.oldest_waiting_ns, span) },
      { title: "Running", cell: (one) => one.running && `${one.running} for ${span(one.running_for_ns)}` },
      { title: "Done", number: true, cell: (one) => optional(one.processed) },
      { title: "Refused", number: true, cell: (one) => (one.refused ? h("span", { className: "bad" }, count(one.refused)) : optional(one.refused)) },
    ],
  },
  timers: {
    title: "Timers", path: "/timers?limit=200", list: "timers", about: "Those that are due first.",
    total: (told) => `${count(told.pending_count)} pending`,
    columns: [
      { title: "Timer", cell: (one) => one.label || "unnamed" },
      { title: "Due in", number: true, cell: (one) => span(one.due_in_ns) },
      { title: "Every", number: true, cell: (one) => optional(one.period_ns, span) },
      { title: "State", cell: (one) => tag(one.phase) },
      { title: "Runs on", long: true, cell: (one) => one.executor },
    ],
  },
  topics: {
    title: "Topics", path: "/topics", list: "topics", about: "The last value of each key, and who hears of it.",
    columns: [
      { title: "Topic", cell: (one) => one.name },
      { title: "Cached", number: true, cell: (one) => count(one.cached_count) },
      { title: "Subscribers", number: true, cell: (one) => count(one.subscription_count ?? 0) },
      { title: "Published", number: true, cell: (one) => count(one.published) },
      { title: "Delivered", number: true, cell: (one) => count(one.delivered) },
      { title: "Conflated", number: true, cell: (one) => optional(one.conflated) },
      { title: "Lost", number: true, cell: (one) => optional(one.lost) },
    ],
  },
  subscriptions: {
    title: "Subscriptions", path: "/subscriptions?limit=200", list: "subscriptions", about: "The longest queues first.",
    total: (told) => `${count(told.subscription_count)} in all`,
    columns: [
      { title: "Subscriber", long: true, cell: (one) => one.name },
      { title: "Topic", cell: (one) => one.topic },
      { title: "Waiting", number: true, cell: (one) => count(one.queued_len) },
      { title: "Room", number: true, cell: (one) => count(one.capacity) },
      { title: "Lost", number: true, cell: (one) => count(one.lost) },
      { title: "", cell: (one) => (one.is_lagging ? tag("lags", "warn") : null) },
    ],
  },
  memory: {
    title: "Memory", path: "/buffers", list: "owners", about: "Who holds packets.",
    columns: [
      { title: "Holder", cell: (one) => one.owner },
      { title: "Buffers", number: true, cell: (one) => count(one.live_count) },
      { title: "Memory", number: true, cell: (one) => bytes(one.live_bytes) },
      { title: "Oldest", number: true, cell: (one) => span(one.oldest_age_ns) },
      { title: "It begins", long: true, mono: true, cell: (one) => one.oldest_begins },
    ],
  },
};

export function show(place, { signal, argument }) {
  const [id = "queues", kind] = (argument ?? "queues").split("/");
  const tab = TABS[id] ?? TABS.queues;
  const body = h("section", { className: "panel flush" });
  place.append(heading("Queues and timers"),
    h("nav", { className: "tabs", "aria-label": "What waits" }, Object.entries(TABS).map(([name, one]) =>
      h("a", { href: `#/queues/${name}`, "aria-current": one === tab ? "true" : undefined }, one.title))),
    h("p", { className: "dim" }, kind ? h("a", { href: "#/queues/queues" }, "← All queues") : tab.about), body);

  const draw = (rows, total) => {
    // A selection or the focus in the table outlives a redraw only if nothing is replaced.
    if (body.contains(document.activeElement) && body.querySelector("table")) return;
    if (!rows.length) body.replaceChildren(empty("Nothing here", "This list is empty at the moment."));
    else body.replaceChildren(table(tab.columns, rows, { label: tab.title }), total && h("div", { className: "foot" }, total));
  };
  if (tab === TABS.queues) {
    onSample(signal, () => {
      const rows = liveQueues.filter((one) => (kind ? one.kind === kind : one.name === ALL || one.is_high || age(one) > 1e8 || onlyOne(one)));
      rows.sort((one, other) => (other.is_high || 0) - (one.is_high || 0) || age(other) - age(one) || other.queued_len - one.queued_len || one.kind.localeCompare(other.kind));
      draw(rows.slice(0, 200), `${count(liveQueues.length)} queues are listed by kind and by the busiest of each`);
    });
  } else {
    every(2000, signal, async () => {
      const told = await get(tab.path, { signal });
      draw(told[tab.list], tab.total?.(told));
    });
  }
}

const onlyOne = (one) => liveQueues.filter((other) => other.kind === one.kind && other.name === ALL).length === 0;
