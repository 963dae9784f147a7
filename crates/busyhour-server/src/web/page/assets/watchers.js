// Subscriptions: who watches what.

import { get, query } from "./api.js";
import { attempt, bare, count, debounce, empty, h, heading, seconds, silentNodes, table, tag } from "./ui.js";

const PAGE = 50;

export function show(place, { signal }) {
  const wanted = { search: "", after: undefined };
  const before = [];
  const list = h("section", { className: "panel flush" });

  let turns = 0;
  async function draw() {
    // An answer that comes after a later one was asked for is of no use.
    const turn = ++turns;
    const page = await attempt(() => get(query("/watchers", { ...wanted, limit: PAGE }), { signal }));
    if (!page || turn !== turns) return;
    if (!page.watchers.length) {
      list.replaceChildren(silentNodes(page) ?? "", wanted.search ? empty("No watcher matches", "Search for less.")
        : empty("Nobody watches", "A telephone that shows lamps, presence or message counts subscribes to them, and appears here."));
      return;
    }
    const first = before.length * PAGE + 1;
    list.replaceChildren(silentNodes(page) ?? "", table([
      { title: "Watches", cell: (one) => (one.is_list ? h("span", {}, bare(one.resource), " ", tag("list")) : bare(one.resource)) },
      { title: "Event", cell: (one) => tag(one.package) },
      { title: "Account", cell: (one) => one.account },
      { title: "From", cell: (one) => `${one.transport.toUpperCase()} ${one.source}` },
      { title: "Waiting", number: true, cell: (one) => count(one.queued_len) },
      { title: "Ends in", number: true, cell: (one) => seconds(one.expires_in_seconds) },
    ], page.watchers, { label: "Watchers" }),
    h("div", { className: "foot" },
      h("span", { role: "status" }, `${count(first)} to ${count(first + page.watchers.length - 1)} of ${count(page.match_count)}`), h("span", { className: "spacer" }),
      h("button", { type: "button", disabled: !before.length, onclick: () => { wanted.after = before.pop(); draw(); } }, "Previous"),
      h("button", { type: "button", disabled: page.next === null, onclick: () => { before.push(wanted.after); wanted.after = page.next; draw(); } }, "Next")));
  }

  const search = debounce((text) => {
    Object.assign(wanted, { search: text.trim(), after: undefined });
    before.length = 0;
    draw();
  });
  place.append(heading("Watchers"),
    h("div", { className: "tools" }, h("label", { className: "wide" }, "Search", h("input", { type: "search", placeholder: "address, account, event", oninput: (event) => search(event.target.value) }))),
    list);
  draw();
}
