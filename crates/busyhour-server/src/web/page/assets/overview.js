// How the server is, in words, and the figures of the last two minutes.

import { get } from "./api.js";
import { HISTORY_LEN, history, onSample, rate } from "./live.js";
import { bare, bytes, count, empty, every, h, heading, moment, panel, rateText, seconds, span, sparkline, table } from "./ui.js";

const rated = (counter) => ({ value: (now, before) => rate(now, before, counter), words: rateText, unit: "/s" });
const gauge = (value, words = count) => ({ value, words, unit: "" });

const CARDS = [
  { title: "Devices", ...gauge((s) => s.registrar.device_count), detail: (s) => `${count(s.registrar.binding_count)} contacts` },
  { title: "Registrations", ...rated((s) => s.registrar.accepted), detail: (s) => `${count(s.registrar.accepted)} since the start` },
  { title: "Answered within (p99)", ...gauge((s) => s.registrar.latency_p99_ns, span), detail: (s) => `half of them in ${span(s.registrar.latency_p50_ns)}` },
  { title: "Calls", ...gauge((s) => s.calls.dialogs.call_count), detail: (s) => `${count(s.iax2.call_count)} of IAX2` },
  { title: "Watchers", ...gauge((s) => s.watch.watcher_count), detail: (s) => `${count(s.watch.notified)} NOTIFY sent` },
  { title: "NOTIFY", ...rated((s) => s.watch.notified), detail: (s) => `${count(s.watch.retransmitted)} sent again` },
  { title: "Messages received", ...rated((s) => s.traffic.received), detail: (s, b) => `${rateText(rate(s, b, (x) => x.traffic.sent))} /s sent` },
  { title: "Waiting for a worker", ...gauge((s) => s.runtime.pool.queued_len), detail: (s) => `${count(s.runtime.pool.worker_count)} workers, ${count(s.runtime.pool.idle_worker_count)} idle` },
  { title: "Waiting for the disk", ...gauge((s) => s.store.queued_len), detail: (s, b) => `${rateText(rate(s, b, (x) => x.store.transactions))} commits /s` },
  { title: "Packet memory", ...gauge((s) => s.runtime.buffers.live_bytes, bytes), detail: (s) => `of ${bytes(s.runtime.buffers.budget_bytes)}` },
];

export function show(place, { signal }) {
  const health = h("div", {}, panel(null, null, h("p", { className: "dim" }, "Looking …")));
  const cards = h("div", { className: "cards", role: "group", "aria-label": "Figures of the last two minutes" });
  const failures = h("div");
  place.append(heading("Overview"), health, cards, failures);

  every(4000, signal, async () => health.replaceChildren(drawHealth(await get("/health", { signal }))));
  every(5000, signal, async () => failures.replaceChildren(drawFailures((await get("/failures?limit=6", { signal })).failures)));
  onSample(signal, () => drawCards(cards));
}

function drawHealth({ status, findings, version, uptime_seconds }) {
  if (!findings.length) {
    return panel(null, null, h("div", { className: "well" }, h("span", { className: "mark", "aria-hidden": "true" }, "✓"),
      h("div", {}, h("h2", {}, "All is well"),
        h("p", { className: "dim" }, `Version ${version} has served for ${seconds(uptime_seconds)}; no limit was reached within the last two minutes.`))));
  }
  const titles = {
    critical: "The server cannot do its work",
    warning: "The server needs attention",
    notice: "The server is well; single clients are limited",
  };
  const item = (one) => h("li", { className: one.severity },
    h("strong", {}, one.what),
    h("div", { className: "dim" }, `since ${moment(one.since_unix_seconds * 1000)}${one.count ? `, ${count(one.count)} times within two minutes` : ""}`),
    h("div", {}, one.advice));
  return panel(titles[status], null, h("ul", { className: "findings" }, findings.map(item)));
}

function drawCards(cards) {
  const last = history.length - 1;
  const [now, before] = [history[last], history[last - 1]];
  if (!now) return;
  cards.replaceChildren(...CARDS.map((card) => {
    // The first sample has no rate: it would draw a false step from zero.
    const values = history.map((s, i) => card.value(s, history[i - 1])).slice(card.unit ? 1 : 0);
    const most = card.words(Math.max(...values, 0));
    return h("article", { className: "card" }, h("h3", {}, card.title),
      h("div", { className: "value" }, card.words(card.value(now, before)), card.unit && h("small", {}, ` ${card.unit}`)),
      sparkline(values, HISTORY_LEN, `${card.title}: at most ${most} within two minutes`),
      h("div", { className: "detail" }, card.detail(now, before)));
  }));
}

function drawFailures(failures) {
  if (!failures.length) return panel("Failed registrations", null, empty("None lately", "Wrong passwords and refused requests will be listed here, with their user and address."));
  const made = panel("Failed registrations", "the last ones", table([
    { title: "User", cell: (one) => h("a", { href: `#/devices/${encodeURIComponent(one.user)}` }, bare(one.user)) },
    { title: "Reason", cell: (one) => one.reason },
    { title: "From", cell: (one) => `${one.transport} ${one.source}` },
    { title: "Times", number: true, cell: (one) => count(one.count) },
    { title: "Last", number: true, cell: (one) => moment(one.at_unix_seconds * 1000) },
  ], failures, { label: "Failed registrations" }));
  made.classList.add("flush");
  return made;
}
