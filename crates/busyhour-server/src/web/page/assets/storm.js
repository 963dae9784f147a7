// A small storm of registrations against this server, seen live.

import { get, post } from "./api.js";
import { HISTORY_LEN, history, onSample, rate } from "./live.js";
import { attempt, count, every, h, heading, panel, rateText, span, sparkline } from "./ui.js";

const LIVE = [
  { title: "Registrations", value: (now, before) => rate(now, before, (s) => s.registrar.accepted), words: (value) => `${rateText(value)} /s` },
  { title: "Devices", value: (now) => now.registrar.device_count, words: count },
  { title: "Answered within (p99)", value: (now) => now.registrar.latency_p99_ns, words: span },
  { title: "NOTIFY", value: (now, before) => rate(now, before, (s) => s.watch.notified), words: (value) => `${rateText(value)} /s` },
];

export function show(place, { signal }) {
  const state = h("div");
  const live = h("div", { className: "cards", role: "group", "aria-label": "Figures of the last two minutes" });
  const number = (name, label, value, most, least) => h("label", { className: "field" }, label,
    h("input", { type: "number", name, value: String(value), min: String(least), max: String(most), required: true }));
  const button = h("button", { type: "submit", className: "primary" }, "Start");
  const form = h("form", { className: "tools", onsubmit: start },
    number("devices", "Devices, 1 to 2,000", 200, 2000, 1), number("seconds", "Seconds, 1 to 60", 10, 60, 1),
    number("watchers", "Watchers, none or as many", 0, 2000, 0), button);

  async function start(event) {
    event.preventDefault();
    const plan = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, Number(value)]));
    const begun = await attempt(() => post("/storm", plan), "The storm begins.");
    if (begun) draw(begun);
  }

  function draw(storm) {
    button.disabled = storm.is_running;
    button.textContent = storm.is_running ? "It lasts" : "Start";
    if (storm.is_running) {
      const lasted = Math.max(0, (Date.now() - storm.begun_unix_ms) / 1000);
      state.replaceChildren(panel("It lasts", `${count(storm.plan.devices)} devices over ${storm.plan.seconds} s, since ${lasted.toFixed(0)} s`));
    } else if (storm.problem) {
      state.replaceChildren(panel("It did not work", null, h("p", { className: "error" }, storm.problem)));
    } else if (storm.report) {
      state.replaceChildren(reportOf(storm.report));
    } else {
      state.replaceChildren();
    }
  }

  place.append(
    heading("Storm"),
    panel("A small storm", null,
      h("p", { className: "dim" }, "Devices that do not exist register here, each once, evenly spread. If the server asks for passwords, they have accounts storm-small-… for as long as it lasts; nothing of these is stored. Larger storms come from another machine: busyhour storm."),
      form),
    state, live);
  every(1000, signal, async () => draw(await get("/storm", { signal })));
  onSample(signal, () => {
    const last = history.length - 1;
    if (last < 0) return;
    live.replaceChildren(...LIVE.map((one) => {
      const values = history.slice(1).map((s, i) => one.value(s, history[i]));
      return h("article", { className: "card" }, h("h3", {}, one.title),
        h("div", { className: "value" }, one.words(one.value(history[last], history[last - 1]))),
        sparkline(values, HISTORY_LEN, `${one.title}: at most ${one.words(Math.max(...values, 0))} within two minutes`));
    }));
  });
}

function reportOf(report) {
  const line = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
  const us = (value) => (value === null || value === undefined ? "–" : span(value * 1000));
  return panel(report.failed ? "Some registrations failed" : "Every registration was answered", null, h("dl", {},
    ...line("Registered", `${count(report.acknowledged)} in ${report.seconds.toFixed(1)} s, ${rateText(report.register_per_s)} a second`),
    ...line("Answered", `half of them in ${us(report.p50_us)}, 99 % in ${us(report.p99_us)}, all in ${us(report.max_us)}`),
    ...line("Failed", `${count(report.failed)}${report.failed ? `: ${Object.entries(report.failures).map(([why, times]) => `${why} ${times} times`).join(", ")}` : ""}`),
    ...line("Sent again", count(report.retransmitted)),
    ...(report.watch ? line("Notified", `${count(report.watch.notified)} times; the last change was told after ${report.watch.told_after_ms.toFixed(0)} ms`) : [])));
}
