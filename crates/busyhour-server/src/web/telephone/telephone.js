// A small telephone over JsSIP: it registers, calls, answers, hangs up and shows lamps.
"use strict";

const at = (id) => document.getElementById(id);
const say = (text) => { at("status").textContent = text; };
// What style sheets and tests look at.
const mark = (name, value) => { document.body.dataset[name] = value; };

const MEDIA = { mediaConstraints: { audio: true, video: false }, pcConfig: { iceServers: [] } };
// Addresses of this machine are known at once, and nobody else is asked for others.
const CANDIDATES_MS = 300;
const LAMP_SECONDS = 600;

let telephone = null;
let session = null;
const lamps = new Map();

/** Where this server speaks SIP over WebSocket: the page names its ports. */
function serverAddress() {
  const named = document.querySelector('meta[name="sip-ports"]').content.split(" ").filter(Boolean);
  const ports = Object.fromEntries(named.map((entry) => entry.split(":")));
  const scheme = location.protocol === "https:" || !ports.ws ? "wss" : "ws";
  return ports[scheme] ? `${scheme}://${location.hostname}:${ports[scheme]}/` : "";
}

function register(event) {
  event.preventDefault();
  telephone?.stop();
  const [user, domain] = [at("user").value.trim(), at("domain").value.trim()];
  try {
    telephone = new JsSIP.UA({
      sockets: [new JsSIP.WebSocketInterface(at("server").value.trim())],
      uri: `sip:${user}@${domain}`,
      password: at("password").value,
      display_name: user,
      register_expires: 300,
      session_timers: false,
      user_agent: "Busyhour telephone",
    });
  } catch (error) {
    registered(false, `Not registered: ${error.message}`);
    return;
  }
  const own = telephone;
  // One that was replaced says nothing any more.
  const on = (name, run) => own.on(name, (event) => { if (own === telephone) run(event); });
  on("connecting", () => say("Connecting …"));
  on("disconnected", () => registered(false, "The connection is gone. It is made again."));
  on("registered", () => registered(true, `Registered as ${user}@${domain}.`));
  on("unregistered", () => registered(false, "Not registered."));
  on("registrationFailed", ({ cause, response }) =>
    registered(false, `Not registered: ${response ? answered(response) : cause}.`));
  on("newRTCSession", ({ session: begun, originator }) => begin(begun, originator));
  own.start();
}

function unregister() {
  telephone?.stop();
  telephone = null;
  registered(false, "Not registered.");
}

function registered(isRegistered, text) {
  mark("registration", isRegistered ? "registered" : "none");
  for (const id of ["dial-fields", "watch-fields"]) at(id).disabled = !isRegistered && !session;
  at("unregister").disabled = !isRegistered;
  say(text);
}

function answered({ status_code, reason_phrase }) {
  return `${status_code} ${reason_phrase}`;
}

function call(event) {
  event.preventDefault();
  const target = at("number").value.trim();
  const uri = /[@:]/.test(target) ? target : `sip:${target}@${at("domain").value.trim()}`;
  try {
    telephone.call(uri, MEDIA);
  } catch (error) {
    end(`No call: ${error.message}`);
  }
}

function begin(begun, originator) {
  if (session) {
    begun.terminate({ status_code: 486 });
    return;
  }
  session = begun;
  const other = begun.remote_identity.display_name || begun.remote_identity.uri.user;
  const isIncoming = originator === "remote";
  state(isIncoming ? "incoming" : "calling", isIncoming ? `${other} calls.` : `Calling ${other} …`);
  if (isIncoming) at("answer").focus();
  begun.on("progress", () => { if (!isIncoming) state("ringing", `It rings at ${other}.`); });
  begun.on("confirmed", () => state("talking", `Talking to ${other}.`));
  begun.on("ended", ({ cause }) => end(`The call has ended: ${cause}.`));
  begun.on("failed", ({ cause, message }) =>
    end(`No call: ${message?.status_code ? answered(message) : cause}.`));
  const play = (connection) => connection.addEventListener("track", ({ streams: [stream] }) => {
    at("remote").srcObject = stream;
  });
  if (begun.connection) play(begun.connection);
  else begun.on("peerconnection", ({ peerconnection }) => play(peerconnection));
  let wait = 0;
  begun.on("icecandidate", ({ ready }) => {
    clearTimeout(wait);
    wait = setTimeout(ready, CANDIDATES_MS);
  });
}

function state(name, text) {
  mark("call", name);
  at("call").disabled = true;
  at("answer").disabled = name !== "incoming";
  at("hangup").disabled = false;
  at("mute").disabled = name !== "talking";
  say(text);
}

function end(text) {
  session = null;
  mark("call", "none");
  at("call").disabled = false;
  for (const id of ["answer", "hangup", "mute"]) at(id).disabled = true;
  at("mute").setAttribute("aria-pressed", "false");
  at("remote").srcObject = null;
  say(text);
}

function mute() {
  if (!session) return;
  const wasMuted = session.isMuted().audio;
  if (wasMuted) session.unmute({ audio: true }); else session.mute({ audio: true });
  at("mute").setAttribute("aria-pressed", String(!wasMuted));
}

/** A lamp that shows the calls of a user (RFC 4235). */
function watch(event) {
  event.preventDefault();
  const user = at("watched").value.trim();
  at("watched").value = "";
  if (!user || lamps.has(user)) return;
  const lamp = document.createElement("li");
  const show = (name) => {
    lamp.dataset.state = name;
    lamp.textContent = `${user}: ${LAMP_TEXTS[name]}`;
  };
  show("unknown");
  at("lamps").append(lamp);
  const subscriber = telephone.subscribe(
    `sip:${user}@${at("domain").value.trim()}`, "dialog", "application/dialog-info+xml", { expires: LAMP_SECONDS });
  lamps.set(user, subscriber);
  subscriber.on("notify", (isFinal, notify, body) => show(strongest(body)));
  subscriber.on("terminated", () => { lamps.delete(user); lamp.remove(); });
  subscriber.subscribe();
}

/** The state of a document of dialogs that a lamp shows: a call before one that rings. */
function strongest(body) {
  const documentOfDialogs = new DOMParser().parseFromString(body || "", "application/xml");
  const states = [...documentOfDialogs.querySelectorAll("dialog > state")].map((it) => it.textContent.trim());
  return ["confirmed", "early", "proceeding", "trying"].find((name) => states.includes(name)) ?? "terminated";
}

const LAMP_TEXTS = {
  unknown: "unknown", terminated: "free", early: "rings", proceeding: "calls", trying: "calls", confirmed: "busy",
};

at("account").addEventListener("submit", register);
at("unregister").addEventListener("click", unregister);
at("dial").addEventListener("submit", call);
at("answer").addEventListener("click", () => session?.answer(MEDIA));
at("hangup").addEventListener("click", () => session?.terminate());
at("mute").addEventListener("click", mute);
at("watch").addEventListener("submit", watch);
at("server").value = serverAddress();
at("domain").value = location.hostname;
mark("registration", "none");
mark("call", "none");
