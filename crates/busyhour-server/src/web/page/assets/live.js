// The one stream of statistics, which all views share: a sample a second, the last two minutes first.

import { stream } from "./api.js";

export const HISTORY_LEN = 120;
export const history = [];
export let queues = [];
const listeners = new Set();

/** Calls `listener` after each sample, until `signal` ends it. */
export function onSample(signal, listener) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
  if (history.length) listener();
}

let running;

/** Ends the stream of statistics, and forgets them. */
export function unfollow() {
  running?.abort();
  history.length = 0;
}

/** Begins, or begins again with another token. */
export function follow(onState) {
  unfollow();
  running = new AbortController();
  let isDue = false;
  const tell = () => {
    isDue = false;
    listeners.forEach((listener) => listener());
  };
  stream("/events", {
    signal: running.signal,
    onState,
    onEvent(name, data) {
      if (name === "queues") queues = JSON.parse(data);
      if (name === "stats") {
        history.push(JSON.parse(data));
        if (history.length > HISTORY_LEN) history.shift();
      }
      // Two minutes come at once: they are drawn once.
      if (!isDue) {
        isDue = true;
        setTimeout(tell, 60);
      }
    },
  });
}

/** What a counter grew in a second between the last two samples. */
export function rate(now, before, counter) {
  if (!before) return 0;
  const elapsed = (now.runtime.taken_at_ns - before.runtime.taken_at_ns) / 1e9;
  return elapsed > 0 ? Math.max(0, counter(now) - counter(before)) / elapsed : 0;
}
