// The frame: which view is shown, who is signed in, which colours.

import * as api from "./api.js";
import { askUser, attempt, empty, h, panel, toast } from "./ui.js";
import { follow, unfollow } from "./live.js";
import * as overview from "./overview.js";
import * as devices from "./devices.js";
import * as lamps from "./lamps.js";
import * as watchers from "./watchers.js";
import * as mailboxes from "./mailboxes.js";
import * as calls from "./calls.js";
import * as domains from "./domains.js";
import * as queues from "./queues.js";
import * as storm from "./storm.js";
import * as cluster from "./cluster.js";
import * as settings from "./settings.js";
import * as log from "./log.js";

const VIEWS = [
  { id: "overview", title: "Overview", view: overview, isOfServer: true },
  { group: "Telephony" },
  { id: "devices", title: "Devices", view: devices },
  { id: "lamps", title: "Lamps", view: lamps },
  { id: "watchers", title: "Watchers", view: watchers, isOfServer: true },
  { id: "mailboxes", title: "Mailboxes", view: mailboxes },
  { id: "calls", title: "Calls", view: calls, isOfServer: true },
  { id: "domains", title: "Domains", view: domains },
  { group: "Server", isOfServer: true },
  { id: "queues", title: "Queues and timers", view: queues, isOfServer: true },
  { id: "storm", title: "Storm", view: storm, isOfServer: true },
  { id: "cluster", title: "Cluster", view: cluster, isOfServer: true, isThere: () => nodes.length > 0 },
  { id: "settings", title: "Settings", view: settings, isOfServer: true },
  { id: "log", title: "Log", view: log, isOfServer: true },
];
const LINKS = [
  { title: "Telephone", href: "/telephone/", isThere: () => session?.telephone },
  { title: "HTTP interface", href: "/api/v1/" },
];

const byId = (id) => document.getElementById(id);
const main = byId("main");
let shown;

/** A token of one domain does not see the server, nor what is of other domains. */
const isAllowed = (one) => (!session?.domain || !one.isOfServer) && (one.isThere?.() ?? true);

function drawNavigation(current) {
  const item = ({ id, title }) => h("li", {}, h("a", { href: `#/${id}`, "aria-current": id === current ? "page" : undefined }, title));
  const lists = [];
  for (const one of VIEWS.filter(isAllowed)) {
    if (one.group || lists.length === 0) lists.push(one.group ? [h("div", { className: "group" }, one.group), h("ul")] : [h("ul")]);
    if (one.id) lists.at(-1).at(-1).append(item(one));
  }
  lists.at(-1).at(-1).append(...LINKS.filter((one) => one.isThere?.() ?? true).map(({ title, href }) => h("li", {}, h("a", { href }, title))));
  byId("views").replaceChildren(...lists.flat());
}

/** Shows the view that the address names: `#/devices/sip:alice@example.com`. */
function show() {
  const [, id = "overview", ...rest] = location.hash.split("/");
  const allowed = VIEWS.filter((one) => one.id && isAllowed(one));
  const found = allowed.find((one) => one.id === id) ?? allowed[0];
  shown?.abort();
  shown = new AbortController();
  drawNavigation(found.id);
  document.title = `${found.title} – Busyhour`;
  const place = h("div", { className: "stack" });
  main.replaceChildren(place);
  const argument = rest.length ? decodeURIComponent(rest.join("/")) : undefined;
  found.view.show(place, { signal: shown.signal, argument, canWrite });
}

// ---- who ----------------------------------------------------------------

let session = null;
let nodes = [];
export const canWrite = () => session?.scope === "write";

async function learnSession() {
  try {
    session = await api.get("/session");
    nodes = session.domain ? [] : (await api.get("/cluster")).nodes;
    byId("who").textContent = session.token ? `${session.token}, may ${session.scope}${session.domain ? ` in ${session.domain}` : ""}` : session.scope === "write" ? "local, may write" : "reading without a token";
    byId("version").textContent = session.version;
  } catch (error) {
    if (api.token() && error.status === 401) {
      api.setToken(null);
      toast("The server does not know this token. A new one is known within a second or two.", true);
      // On the server's own machine one may read without a token.
      return learnSession();
    }
    session = null;
    byId("who").textContent = "not signed in";
  }
  byId("sign").textContent = api.token() ? "Sign out" : "Sign in";
  return session !== null;
}

async function signIn() {
  const given = await askUser({
    title: "Sign in with a token",
    text: "On the server, `busyhour token add NAME --scope write` makes one. It is kept in this tab alone, until the tab is closed.",
    fields: [{ name: "token", label: "Token", type: "password", required: true }],
    submit: "Sign in",
  });
  if (!given?.token) return;
  api.setToken(given.token.trim());
  const isKnown = await learnSession();
  if (!isKnown && api.token()) await attempt(() => api.get("/session"));
  begin();
}

byId("sign").addEventListener("click", async () => {
  if (!api.token()) return signIn();
  api.setToken(null);
  await learnSession();
  begin();
});

function needSignIn() {
  shown?.abort();
  drawNavigation();
  main.replaceChildren(panel(null, null, empty("Sign in to go on", "From another machine reading needs a token of scope read, and changing one of scope write.",
    h("p", {}, h("button", { type: "button", className: "primary", onclick: signIn }, "Sign in")))));
}

// ---- colours ------------------------------------------------------------

const THEMES = ["system", "light", "dark"];
function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("busyhour.theme", theme);
  byId("theme").textContent = `Colours: ${theme}`;
}
byId("theme").addEventListener("click", () => {
  const now = localStorage.getItem("busyhour.theme") ?? "system";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});

// ---- begin --------------------------------------------------------------

const STATES = { live: ["live", "ok"], lost: ["connection lost", "critical"], refused: ["not signed in", "warning"] };

function begin() {
  if (!session) return needSignIn();
  const say = ([text, kind]) => {
    byId("state").textContent = text;
    byId("state").className = `pill ${kind}`;
  };
  if (session.domain) {
    // The statistics are of the whole server.
    unfollow();
    say([session.domain, "ok"]);
  } else {
    follow((state) => say(STATES[state]));
  }
  show();
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  if (session) show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
setTheme(localStorage.getItem("busyhour.theme") ?? "system");
await learnSession();
begin();
