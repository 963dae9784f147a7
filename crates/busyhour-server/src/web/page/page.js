"use strict";
(() => {
  const HISTORY_LEN = 120;
  const ROWS_MAX = 20;
  // Every kind has a line, and the busiest queues have one of their own.
  const QUEUES_MAX = 50;
  const SLOW_NS = 100e6;
  const STUCK_NS = 1e9;
  const history = [];

  const byId = (id) => document.getElementById(id);

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- figures in words -------------------------------------------------

  function count(value) {
    return Math.round(value).toLocaleString("en-US");
  }

  function rateText(value) {
    return value < 100 ? value.toFixed(1).replace(/\.0$/, "") : count(value);
  }

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
  }

  function span(ns) {
    if (ns === 0) return "–";
    if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`;
    if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`;
    if (ns < 60e9) return `${(ns / 1e9).toFixed(1)} s`;
    const minutes = Math.floor(ns / 60e9);
    if (minutes < 60) return `${minutes} min ${Math.floor((ns / 1e9) % 60)} s`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }

  // ---- the snapshot -----------------------------------------------------

  const sum = (list, field) => list.reduce((total, one) => total + one[field], 0);

  /** What a counter grew in a second, between two snapshots. */
  function rate(before, now, counter) {
    if (!before) return 0;
    const seconds = (now.runtime.taken_at_ns - before.runtime.taken_at_ns) / 1e9;
    return seconds > 0 ? Math.max(0, counter(now) - counter(before)) / seconds : 0;
  }

  const find = (list, name) => list.find((one) => one.name === name);

  const rated = (counter) => ({ value: (now, before) => rate(before, now, counter), show: rateText, unit: "/s" });
  const gauge = (value, show = count) => ({ value, show, unit: "" });

  const CARDS = [
    { id: "bindings", title: "Registered contacts", ...gauge((s) => s.registrar.binding_count),
      detail: (s) => `${count(s.registrar.device_count)} devices, ${count(s.registrar.expired)} expired` },
    { id: "registrations", title: "Registrations", ...rated((s) => s.registrar.accepted),
      detail: (s) => `${count(s.registrar.accepted)} since the start` },
    { id: "latency", title: "Latency, p99", ...gauge((s) => s.registrar.latency_p99_ns, span),
      detail: (s) => `p50 ${span(s.registrar.latency_p50_ns)}, worst ${span(s.registrar.latency_max_ns)}` },
    { id: "watchers", title: "Watchers", ...gauge((s) => s.watch.watcher_count),
      detail: (s) => `${count(s.watch.notified)} NOTIFY sent, ${count(s.watch.retransmitted)} again` },
    { id: "notifies", title: "NOTIFY", ...rated((s) => s.watch.notified),
      detail: (s) => `${count(s.watch.confirmed)} confirmed` },
    { id: "iax2", title: "IAX2 calls", ...gauge((s) => s.iax2.call_count),
      detail: (s) => `${count(s.iax2.accepted)} registered, ${count(s.iax2.retransmitted)} frames sent again` },
    { id: "datagrams", title: "Datagrams received", ...rated((s) => s.traffic.received),
      detail: (s, before) => `${rateText(rate(before, s, (x) => x.traffic.sent))} /s sent` },
    { id: "tasks", title: "Tasks run", ...rated((s) => s.runtime.pool.processed),
      detail: (s) => `${count(s.runtime.pool.worker_count)} workers, ${count(s.runtime.pool.idle_worker_count)} idle` },
    { id: "queue", title: "Waiting for a worker", ...gauge((s) => s.runtime.pool.queued_len),
      detail: (s) => `most ever ${count(s.runtime.pool.queued_high_water)}` },
    { id: "timers", title: "Timers", ...gauge((s) => s.runtime.timers.pending_count),
      detail: (s) => `late by ${span(s.runtime.timers.lateness_p99_ns)} (p99)` },
    { id: "cache", title: "Cached states", ...gauge((s) => sum(s.runtime.topics, "cached_count")),
      detail: (s, before) => `${rateText(rate(before, s, (x) => sum(x.runtime.topics, "delivered")))} deliveries /s` },
    { id: "store", title: "Waiting for the disk", ...gauge((s) => s.store.queued_len),
      detail: (s, before) => {
        const commits = rate(before, s, (x) => x.store.transactions);
        const changes = rate(before, s, (x) => x.store.committed);
        return `${rateText(commits)} commits /s of ${rateText(commits ? changes / commits : 0)}`;
      } },
    { id: "memory", title: "Packet memory", ...gauge((s) => s.runtime.buffers.live_bytes, bytes),
      detail: (s) => `of ${bytes(s.runtime.buffers.budget_bytes)}, ${count(s.runtime.buffers.live_count)} buffers` },
  ];

  /** Counters whose growth means that something was refused, dropped or failed. */
  const LOSS = /refused|rejected|dropped|lost|failed|failures|panicked|no_buffer|evicted|malformed|foreign|given_up|overflow|truncated|errors/;

  function losses(node, path, found) {
    for (const [name, value] of Object.entries(node)) {
      if (name === "serializers" || name === "topics") continue;
      if (typeof value === "number" && LOSS.test(name) && value > 0) found.push([`${path}${name}`, value]);
      else if (value && typeof value === "object") losses(value, `${path}${name}.`, found);
    }
    return found;
  }

  // ---- cards ------------------------------------------------------------

  function buildCards() {
    for (const card of CARDS) {
      const made = element("article", "card");
      made.id = `card-${card.id}`;
      made.innerHTML =
        '<h2></h2><div class="value">–</div>' +
        '<svg viewBox="0 0 119 40" preserveAspectRatio="none" role="img"><polygon/><polyline/></svg>' +
        '<div class="detail"></div>';
      made.querySelector("h2").textContent = card.title;
      made.querySelector(".value").id = `value-${card.id}`;
      byId("cards").append(made);
    }
  }

  function drawCards() {
    const last = history.length - 1;
    const [now, before] = [history[last], history[last - 1]];
    for (const card of CARDS) {
      const made = byId(`card-${card.id}`);
      const value = made.querySelector(".value");
      value.textContent = card.show(card.value(now, before));
      if (card.unit) value.append(" ", element("small", "", card.unit));
      made.querySelector(".detail").textContent = card.detail(now, before);
      drawSparkline(made.querySelector("svg"), card);
    }
  }

  function drawSparkline(svg, card) {
    // The first sample has no rate: it would draw a false step from zero.
    const values = history.map((s, i) => card.value(s, history[i - 1])).slice(card.unit ? 1 : 0);
    const top = Math.max(...values, 0) || 1;
    const right = HISTORY_LEN - 1;
    const points = values.map((value, i) => [right - (values.length - 1 - i), 39 - (value / top) * 38]);
    const line = points.map(([x, y]) => `${x},${y.toFixed(1)}`).join(" ");
    svg.querySelector("polyline").setAttribute("points", line);
    const area = points.length ? `${points[0][0]},40 ${line} ${right},40` : "";
    svg.querySelector("polygon").setAttribute("points", area);
    svg.setAttribute("aria-label", `${card.title}: at most ${card.show(top)} in the last two minutes`);
  }

  // ---- tables -----------------------------------------------------------

  function row(cells) {
    const made = element("tr");
    cells.forEach(([text, className], i) => made.append(element("td", i ? className : "name", text)));
    return made;
  }

  const severity = (ns) => (ns > STUCK_NS ? "bad" : ns > SLOW_NS ? "warn" : "");
  const loss = (value) => [count(value), value > 0 ? "bad" : "none"];

  const same = (one) => (other) => other.kind === one.kind && other.name === one.name;

  const age = (one) => Math.max(one.oldest_waiting_ns, one.running_for_ns);

  /** By how long something has waited or run, alerts first. */
  function slowest(a, b) {
    return (b.is_high || false) - (a.is_high || false) || age(b) - age(a) ||
      b.queued_len - a.queued_len || a.kind.localeCompare(b.kind) || a.name.localeCompare(b.name);
  }

  function drawQueues(list, earlier, seconds) {
    const all = [...list].sort(slowest);
    const slow = all.filter((one) => one.is_high || severity(age(one)));
    byId("queues-summary").textContent =
      `${all.length}, ${slow.length} slow${all.length > QUEUES_MAX ? `; the ${QUEUES_MAX} slowest` : ""}`;
    const known = (value, show) => (value === null ? "–" : show(value));
    byId("queues").tBodies[0].replaceChildren(...all.slice(0, QUEUES_MAX).map((one) => {
      const past = earlier.find(same(one));
      const grown = past && seconds > 0 ? Math.max(0, one.processed - past.processed) / seconds : 0;
      const made = row([
        [one.kind],
        [one.name, "name"],
        [count(one.queued_len), one.is_high ? "bad" : one.queued_len ? "" : "none"],
        [known(one.queued_high_water, count)],
        [known(one.high_watermark, count)],
        [known(one.oldest_waiting_ns, span), severity(one.oldest_waiting_ns)],
        [one.running ?? "–", "name"],
        [known(one.running_for_ns, span), severity(one.running_for_ns)],
        [known(one.processed, () => rateText(grown))],
        [known(one.processed, count)],
        one.refused === null ? ["–"] : loss(one.refused),
      ]);
      if (slow.includes(one)) made.className = "slow";
      return made;
    }));
  }

  function drawTopics(now, before) {
    const topics = now.runtime.topics;
    byId("topics-summary").textContent = `${topics.length}`;
    byId("topics").tBodies[0].replaceChildren(...topics.slice(0, ROWS_MAX).map((one) => {
      const past = before && find(before.runtime.topics, one.name);
      const grown = (field) => rateText(past ? rate(before, now, (s) => (s === now ? one : past)[field]) : 0);
      return row([
        [one.name], [count(one.cached_count)], [count(one.subscriber_count)], [grown("published")],
        [grown("delivered")], [count(one.delivered)], [count(one.conflated)], loss(one.lost),
      ]);
    }));
  }

  function drawLosses(now, before) {
    const found = losses(now, "", []);
    const past = new Map(before ? losses(before, "", []) : found);
    const growing = found.filter(([path, value]) => value > (past.get(path) ?? 0));
    byId("losses-summary").textContent = found.length
      ? `${found.length} counters, ${growing.length} growing` : "nothing was refused, dropped or lost";
    byId("losses").replaceChildren(...found.map(([path, value]) => {
      const item = element("li");
      const grows = value > (past.get(path) ?? 0);
      item.append(element("span", "", path), element("span", grows ? "bad" : "", count(value)));
      return item;
    }));
  }

  // ---- the stream -------------------------------------------------------

  let drawing = false;

  function draw() {
    drawing = false;
    const last = history.length - 1;
    const [now, before] = [history[last], history[last - 1]];
    byId("uptime").textContent = `up ${span(now.uptime_ns)}`;
    drawCards();
    drawLosses(now, before);
    drawTopics(now, before);
  }

  function receive(stats) {
    const newest = history[history.length - 1];
    // Time that runs backwards is a new server: its counters begin again.
    if (newest && stats.runtime.taken_at_ns < newest.runtime.taken_at_ns) history.length = 0;
    history.push(stats);
    if (history.length > HISTORY_LEN) history.shift();
    if (!drawing) {
      drawing = true;
      requestAnimationFrame(draw);
    }
  }

  let lastQueues = { list: [], at: 0 };

  function receiveQueues(list) {
    const at = performance.now();
    drawQueues(list, lastQueues.list, (at - lastQueues.at) / 1e3);
    lastQueues = { list, at };
  }

  function state(className, text) {
    byId("state").className = `pill ${className}`;
    byId("state").textContent = text;
  }

  function listen() {
    const events = new EventSource("/api/events");
    events.addEventListener("open", () => state("live", "live"));
    events.addEventListener("stats", (event) => receive(JSON.parse(event.data)));
    events.addEventListener("queues", (event) => receiveQueues(JSON.parse(event.data)));
    events.addEventListener("error", () => {
      state("lost", "no connection");
      // Some failures end an EventSource for good; then only a new one helps.
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
    });
  }

  // ---- colours ----------------------------------------------------------

  const THEMES = ["auto", "light", "dark"];

  function theme(name) {
    byId("theme").textContent = name;
    document.documentElement.dataset.theme = name;
    try {
      localStorage.setItem("theme", name);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }

  function storedTheme() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  }

  byId("theme").addEventListener("click", () => {
    const next = THEMES.indexOf(byId("theme").textContent) + 1;
    theme(THEMES[next % THEMES.length]);
  });

  theme(THEMES.includes(storedTheme()) ? storedTheme() : "auto");
  buildCards();
  listen();
})();
