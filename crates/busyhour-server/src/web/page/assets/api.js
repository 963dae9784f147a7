// Requests to the server, with the token of this tab, and streams of events.

const ROOT = "/api/v1";
const TOKEN = "busyhour.token";

/** A request that the server refused: what is wrong and what to do. */
export class Refusal extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "the server has refused it");
    this.status = problem.status;
    this.field = problem.field;
  }
}

// It lives as long as the tab, and no other site can send it.
export const token = () => sessionStorage.getItem(TOKEN);
export const setToken = (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN));

function headers(more = {}) {
  return token() ? { ...more, Authorization: `Bearer ${token()}` } : more;
}

async function ask(method, path, { body, signal } = {}) {
  const sent = body === undefined ? {} : { "Content-Type": "application/json" };
  let answer;
  try {
    answer = await fetch(ROOT + path, { method, headers: headers(sent), body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ detail: "the server does not answer", status: 0 });
  }
  if (!answer.ok) throw new Refusal(await answer.json().catch(() => ({ status: answer.status })));
  return answer.status === 204 || answer.status === 202 ? null : answer.json();
}

export const get = (path, options) => ask("GET", path, options);
export const put = (path, body) => ask("PUT", path, { body });
export const patch = (path, body) => ask("PATCH", path, { body });
export const post = (path, body) => ask("POST", path, { body });
export const remove = (path) => ask("DELETE", path);

/** `/devices?search=a&limit=50`, without the empty ones. */
export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** A file with the token of this tab: a link could not send it. */
export async function download(path, name) {
  const answer = await fetch(ROOT + path, { headers: headers() });
  if (!answer.ok) throw new Refusal(await answer.json().catch(() => ({ status: answer.status })));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/**
 * Server-sent events until `signal` ends them. EventSource could not send a token. After a loss it goes on behind the last
 * event; `onState` hears whether the stream is there.
 */
export async function stream(path, { signal, onEvent, onState = () => {} }) {
  // Kept here, since a connection that breaks throws away what its reader knew.
  const place = { last: "" };
  while (!signal.aborted) {
    try {
      const answer = await fetch(ROOT + path, { headers: headers(place.last ? { "Last-Event-ID": place.last } : {}), signal });
      if (!answer.ok) throw new Refusal(await answer.json().catch(() => ({ status: answer.status })));
      onState("live");
      await read(answer.body.getReader(), onEvent, place);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && (error.status === 401 || error.status === 403)) return onState("refused", error);
    }
    onState("lost");
    await new Promise((done) => setTimeout(done, 2000));
  }
}

async function read(reader, onEvent, place) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data += line.slice(5).trimStart();
        else if (line.startsWith("id:")) place.last = line.slice(3).trim();
      }
      if (data) onEvent(name, data);
    }
  }
}
