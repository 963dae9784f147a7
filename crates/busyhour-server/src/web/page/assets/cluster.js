// The nodes of the cluster: who lives, who owns how many partitions, and what this node handed on.

import { get, post } from "./api.js";
import { HISTORY_LEN, history, onSample, rate } from "./live.js";
import { askUser, attempt, count, empty, every, h, heading, panel, rateText, sparkline, table, tag } from "./ui.js";

const LIVES = {
  up: ["up", "good"],
  draining: ["draining", "warn"],
  late: ["late: its lease is over", "bad"],
  down: ["down", ""],
};
const RATES = [
  { title: "Handed on", counter: (s) => s.cluster.handed_on, detail: (s) => `${count(s.cluster.not_taken)} not taken` },
  { title: "Taken", counter: (s) => s.cluster.taken, detail: () => "from other nodes" },
  { title: "Sent for others", counter: (s) => s.cluster.sent_for_others, detail: (s) => `${count(s.cluster.undelivered)} lost on the way` },
  { title: "Waited", counter: (s) => s.cluster.kept, detail: (s) => `${count(s.cluster.kept_waiting)} wait for an owner` },
  { title: "Set aside", counter: (s) => s.cluster.set_aside, detail: () => "without an owner" },
];

export function show(place, { signal, canWrite }) {
  const state = h("div");
  const nodes = h("section", { className: "panel flush" });
  const cards = h("div", { className: "cards", role: "group", "aria-label": "Figures of this node, of the last two minutes" });

  async function drain(one) {
    const given = await askUser({
      title: `Drain ${one.name}?`,
      text: `It gives its ${count(one.partitions)} partitions to the other nodes. It still takes requests for them, until it is stopped; started again, it gets partitions.`,
      submit: "Drain",
      isDanger: true,
    });
    if (!given) return;
    const told = await attempt(() => post(`/cluster/nodes/${encodeURIComponent(one.name)}/drain`), `${one.name} gives its partitions away.`);
    if (told) draw(told.nodes);
  }

  async function move() {
    const given = await askUser({
      title: "Move a partition",
      text: "The node has it from now on, for as long as it lives and does not drain. Requests for its addresses wait for a moment.",
      fields: [
        { name: "partition", label: "Partition", type: "number", min: 0, max: 255, required: true, hint: "the first byte of the MD5 of an address of record" },
        { name: "node", label: "Node", required: true, hint: "the name of a node" },
      ],
      submit: "Move",
    });
    if (!given) return;
    const path = `/cluster/partitions/${encodeURIComponent(given.partition)}/move/${encodeURIComponent(given.node.trim())}`;
    const told = await attempt(() => post(path), `Partition ${given.partition} moves to ${given.node.trim()}.`);
    if (told) draw(told.nodes);
  }

  async function release(partition) {
    const told = await attempt(() => post(`/cluster/partitions/${partition}/release`), `Partition ${partition} falls to any node again.`);
    if (told) draw(told.nodes);
  }

  const pins = (one) => h("span", {}, ...one.pinned.map((partition) => (canWrite()
    ? h("button", { type: "button", title: `Release partition ${partition}`, onclick: () => release(partition) }, `${partition} ×`)
    : h("span", {}, `${partition} `))));

  const moving = h("button", { type: "button", hidden: true, onclick: move }, "Move a partition");

  function draw(known) {
    moving.hidden = known.length < 2 || !canWrite();
    const isLast = known.filter((one) => one.life === "up").length < 2;
    const action = (one) => one.life === "up" && !isLast && canWrite() && h("button", { type: "button", onclick: () => drain(one) }, "Drain");
    nodes.replaceChildren(known.length ? table([
      { title: "Node", cell: (one) => (one.is_asked ? h("strong", {}, `${one.name} (this one)`) : one.name) },
      { title: "State", cell: (one) => (one.life === "draining" && !one.partitions ? tag("drained, or starting", "warn") : tag(...LIVES[one.life])) },
      { title: "Partitions", number: true, cell: (one) => count(one.partitions) },
      { title: "Moved to it", cell: (one) => (one.pinned.length ? pins(one) : "") },
      { title: "Number", number: true, cell: (one) => count(one.number) },
      { title: "Epoch", number: true, cell: (one) => count(one.epoch) },
      { title: "", cell: (one) => action(one) || "" },
    ], known, { label: "Nodes of the cluster" }) : empty("This server is alone", "With cluster.node and cluster.nats in the settings it shares its addresses with other nodes."));
  }

  place.append(heading("Cluster", moving), state, nodes, cards);
  every(2000, signal, async () => draw((await get("/cluster", { signal })).nodes));
  onSample(signal, () => {
    const now = history.at(-1);
    if (!now?.cluster) return;
    state.replaceChildren(drawState(now.cluster));
    cards.replaceChildren(...RATES.map(({ title, counter, detail }) => {
      const values = history.slice(1).map((s, i) => rate(s, history[i], counter));
      return h("article", { className: "card" }, h("h3", {}, title),
        h("div", { className: "value" }, rateText(values.at(-1) ?? 0), h("small", {}, " /s")),
        sparkline(values, HISTORY_LEN, `${title}: at most ${rateText(Math.max(...values, 0))} a second within two minutes`),
        h("div", { className: "detail" }, detail(now)));
    }));
  });
}

function drawState(cluster) {
  const problems = [
    !cluster.has_lease && "The lease of this node is over: it answers nothing until it has one again. Look at PostgreSQL and at the network to it.",
    !cluster.is_broker_connected && "NATS cannot be reached: requests for addresses of other nodes are refused, or have to be sent again. Look at cluster.nats and at the network to it.",
    cluster.is_broker_connected && !cluster.is_whole && "What other nodes say of devices is read again: hints, lists and lamps may show an old state of their devices.",
    cluster.partitions_orphaned > 0 && `${count(cluster.partitions_orphaned)} partitions have no owner; the nodes that live take them within seconds, and nodes that start once they can serve.`,
  ].filter(Boolean);
  if (problems.length) return panel("The cluster needs attention", null, h("ul", { className: "findings" }, problems.map((one) => h("li", { className: "warning" }, one))));
  return panel("This node is well", null, h("p", {}, `${count(cluster.nodes_up)} nodes share the addresses; this one serves ${count(cluster.partitions_served)} of the partitions.`));
}
