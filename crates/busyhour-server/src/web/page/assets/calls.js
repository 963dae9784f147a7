// Calls that last, and records of those that ended.

import { download, get, query } from "./api.js";
import { attempt, bare, count, debounce, empty, every, h, heading, moment, panel, silentNodes, span, table, tag } from "./ui.js";

const PAGE = 50;
const OUTCOMES = ["answered", "busy", "no-answer", "cancelled", "unavailable", "refused", "failed"];
const STATES = { confirmed: "good", early: "warn" };

export function show(place, { signal }) {
  const live = h("div");
  const wanted = { user: "", outcome: "" };
  const records = h("section", { className: "panel flush" });
  let shownRows = [];

  every(2000, signal, async () => {
    const page = await get("/calls?limit=100", { signal });
    const { calls, call_count } = page;
    const made = calls.length ? panel("Now", `${count(call_count)} calls${call_count > calls.length ? `, the ${calls.length} longest shown` : ""}`, table([
      { title: "From", cell: (one) => bare(one.caller ?? one.from) },
      { title: "To", cell: (one) => bare(one.callee ?? one.to) },
      { title: "State", cell: (one) => tag(one.state === "confirmed" ? "talking" : one.state === "early" ? "ringing" : one.state, STATES[one.state]) },
      { title: "On hold by", cell: (one) => one.hold ?? "" },
      { title: "For", number: true, cell: (one) => span(one.since_ns) },
      ...(calls[0]?.node ? [{ title: "Node", cell: (one) => one.node }] : []),
      { title: "Call-ID", long: true, mono: true, cell: (one) => one.call_id },
    ], calls, { label: "Calls that last" })) : panel("Now", null, empty("No calls", "Calls between devices and to peers are shown here while they last."));
    if (calls.length) made.classList.add("flush");
    live.replaceChildren(silentNodes(page) ?? "", made);
  });

  let turns = 0;
  async function draw(after) {
    // An answer that comes after a later one was asked for is of no use.
    const turn = ++turns;
    const page = await attempt(() => get(query("/call-records", { ...wanted, limit: PAGE, after }), { signal }));
    if (!page || turn !== turns) return;
    shownRows = after ? shownRows.concat(page.call_records) : page.call_records;
    const head = h("header", {}, h("h2", {}, "Ended"), h("span", { className: "spacer" }),
      h("button", { type: "button", onclick: () => attempt(() => download(query("/call-records", { ...wanted, format: "csv", limit: 100000 }), "calls.csv")) }, "Save as CSV"));
    if (!shownRows.length) return records.replaceChildren(head, empty("No records", wanted.user || wanted.outcome ? "No call matches." : "A call is recorded when it ends."));
    records.replaceChildren(head, table([
      { title: "Began", cell: (one) => moment(one.began_at_ns / 1e6) },
      { title: "From", cell: (one) => bare(one.caller ?? one.from) },
      { title: "To", cell: (one) => bare(one.to) },
      { title: "Outcome", cell: (one) => tag(one.outcome.replace("-", " "), one.outcome === "answered" ? "good" : one.outcome === "failed" ? "bad" : "") },
      { title: "Status", number: true, cell: (one) => (one.status ? String(one.status) : null) },
      { title: "Media", cell: (one) => (one.media_failure ? tag(one.media_failure.replaceAll("-", " "), "bad") : null) },
      { title: "Rang after", number: true, cell: (one) => span(one.post_dial_delay_ns) },
      { title: "Talked", number: true, cell: (one) => span(one.talk_time_ns) },
    ], shownRows, { label: "Records of calls" }),
    h("div", { className: "foot" }, h("span", { role: "status" }, `${count(shownRows.length)} shown`), h("span", { className: "spacer" }),
      h("button", { type: "button", disabled: !page.next, onclick: () => draw(page.next) }, "More")));
  }

  const change = (some) => { Object.assign(wanted, some); draw(); };
  place.append(heading("Calls"), live,
    h("div", { className: "tools" },
      h("label", { className: "wide" }, "User", h("input", { type: "search", placeholder: "who called, was called or answered", oninput: debounce((event) => change({ user: event.target.value.trim() })) })),
      h("label", {}, "Outcome", h("select", { onchange: (event) => change({ outcome: event.target.value }) },
        h("option", { value: "" }, "all"), OUTCOMES.map((one) => h("option", { value: one }, one.replace("-", " ")))))),
    records);
  draw();
}
