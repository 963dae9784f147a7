//! The one list of what the interface does.

use super::{
    operation::Operation,
    schemas::{self, Schemas, choice, gathered, list, open, page, text, whole},
};
use crate::{
    server::CallOutcome,
    web::api::{
        devices::{ORDERS, STATES, TRANSPORTS},
        operating::operator::LEVELS,
    },
};
use axum::http::Method;
use serde_json::{Value, json};

/// Every operation, by what it is about.
pub(super) fn all() -> Vec<Operation> {
    [
        overview(),
        devices(),
        accounts(),
        settings_by_name(),
        calls(),
        inside(),
        operating(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn get(path: &'static str, tag: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::GET, path, tag, summary)
}

fn put(path: &'static str, tag: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::PUT, path, tag, summary)
}

fn patch(path: &'static str, tag: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::PATCH, path, tag, summary)
}

fn post(path: &'static str, tag: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::POST, path, tag, summary)
}

fn delete(path: &'static str, tag: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::DELETE, path, tag, summary)
}

fn named(name: &str) -> Value {
    Schemas::reference(name)
}

fn overview() -> Vec<Operation> {
    const TAG: &str = "Overview";
    vec![
        get(
            "/api/v1/health",
            TAG,
            "Says in words what is wrong, since when, and what to do",
        )
        .gives(200, "How the server is", named("Health")),
        get("/api/v1/stats", TAG, "Gives all statistics").gives(
            200,
            "The snapshot",
            named("Stats"),
        ),
        get(
            "/api/v1/events",
            TAG,
            "Sends the statistics once a second, the last two minutes first",
        )
        .gives_as(
            EVENTS,
            200,
            "Server-sent events `stats` and `queues`",
            text(),
        ),
        get(
            "/api/v1/changes",
            TAG,
            "Sends registrations, devices, mailboxes, hints and calls as they change",
        )
        .query(
            "kind",
            text(),
            "Of `registration`, `device`, `mailbox`, `hint` and `call`, with commas between",
        )
        .query(
            "user",
            text(),
            "A user, mailbox, extension or address of record",
        )
        .query(
            "having",
            text(),
            "An element that a change must have, or `name=value`",
        )
        .query(
            "snapshot",
            json!({ "type": "boolean" }),
            "Whether the last values come first",
        )
        .gives_as(EVENTS, 200, "Server-sent events", text()),
        get(
            "/api/v1/alerts",
            TAG,
            "Lists limits that were reached, and queues that are too long",
        )
        .gives(200, "The alerts", list("alerts", open())),
        get(
            "/api/v1/session",
            TAG,
            "Says what the token of the request allows",
        )
        .gives(200, "Who asks", named("Session")),
        get("/api/v1/openapi.json", TAG, "Describes this interface").gives(
            200,
            "OpenAPI 3.1",
            open(),
        ),
    ]
}

fn devices() -> Vec<Operation> {
    const TAG: &str = "Devices";
    let sorts = ORDERS
        .iter()
        .flat_map(|(name, _)| [(*name).to_owned(), format!("-{name}")]);
    let sorts: Vec<String> = sorts.collect();
    vec![
        get(
            "/api/v1/devices",
            TAG,
            "Finds devices: registered ones, and accounts of the store that are not",
        )
        .query(
            "search",
            text(),
            "In the address of record, a contact, a source or a user agent, in any case",
        )
        .query(
            "state",
            choice(STATES.map(|(name, _)| name)),
            "Only those in this state",
        )
        .query(
            "transport",
            choice(TRANSPORTS.map(|(name, _)| name)),
            "Only those with a contact over it",
        )
        .query(
            "sort",
            choice(sorts.iter().map(String::as_str)),
            "The order; with `-` the last one first",
        )
        .paged()
        .across_nodes()
        .gives(200, "A page of devices", named("DevicePage")),
        get(
            "/api/v1/devices/{aor}",
            TAG,
            "Shows the device of an address of record",
        )
        .named(
            "aor",
            "`sip:alice@example.com`, `alice@example.com`, or `alice` in the first domain",
        )
        .across_nodes()
        .refused(504, "The node that has it did not answer")
        .gives(200, "The device", named("DeviceView")),
        get("/api/v1/watchers", TAG, "Lists subscriptions")
            .query(
                "search",
                text(),
                "In what is watched, in the account or the address, in any case",
            )
            .query(
                "limit",
                json!({ "type": "integer", "minimum": 1, "maximum": 100_000 }),
                "The length of the page",
            )
            .query("after", whole(), "The `next` of the page before")
            .across_nodes()
            .gives(200, "A page of watchers", named("WatcherPage")),
        get(
            "/api/v1/bindings",
            TAG,
            "Lists registered contacts, sorted by address of record",
        )
        .query(
            "user",
            text(),
            "All contacts of one user or address of record instead of a page",
        )
        .paged()
        .across_nodes()
        .gives(
            200,
            "A page of contacts",
            gathered(page("bindings", named("BindingView"))),
        ),
        get(
            "/api/v1/bindings/{aor}",
            TAG,
            "Shows the contacts of an address of record",
        )
        .named(
            "aor",
            "`sip:alice@example.com`, `alice@example.com`, or `alice` in the first domain",
        )
        .across_nodes()
        .refused(
            504,
            "The node that has it did not answer: it may have been done",
        )
        .gives(200, "Its contacts", page("bindings", named("BindingView"))),
        delete(
            "/api/v1/bindings/{aor}",
            TAG,
            "Ends the contacts of an address of record",
        )
        .named("aor", "As for GET")
        .query("contact", text(), "Only the contact with this URI")
        .across_nodes()
        .refused(
            504,
            "The node that has it did not answer: it may have been done",
        )
        .gives(200, "How many were removed, durably", removed()),
        get(
            "/api/v1/failures",
            TAG,
            "Lists registrations that failed recently, the last one first",
        )
        .query("user", text(), "Only those of this user")
        .limited()
        .across_nodes()
        .gives(
            200,
            "The failures",
            gathered(list("failures", schemas::failure())),
        ),
        get(
            "/api/v1/trace",
            TAG,
            "Sends the SIP messages of one device, live, one JSON object a line",
        )
        .needs(
            "user",
            json!({ "type": "string", "minLength": 1 }),
            "A user, or an address of record",
        )
        .query(
            "bodies",
            choice(["yes", "no"]),
            "Whether bodies are sent, too",
        )
        .gives_as(
            "application/x-ndjson",
            200,
            "Messages until the client or the server goes",
            text(),
        ),
    ]
}

fn accounts() -> Vec<Operation> {
    const TAG: &str = "Accounts";
    vec![
        get(
            "/api/v1/accounts",
            TAG,
            "Lists accounts of the store, without secrets",
        )
        .paged()
        .gives(
            200,
            "A page of accounts",
            page("accounts", schemas::account()),
        ),
        get(
            "/api/v1/accounts/{user}",
            TAG,
            "Shows an account, and its last failures",
        )
        .named(
            "user",
            "The user name; with its domain, if that has accounts of its own",
        )
        .gives(200, "The account", schemas::account()),
        put(
            "/api/v1/accounts/{user}",
            TAG,
            "Stores an account, or replaces it",
        )
        .named("user", "The user name")
        .sends(schemas::account_entry())
        .gives(200, "It was replaced", schemas::account())
        .gives(201, "It is new", schemas::account())
        .refused(
            409,
            "`sip.auth` is `open`, or the domain has no room for more",
        ),
        patch(
            "/api/v1/accounts/{user}",
            TAG,
            "Disables an account, or enables it",
        )
        .named("user", "The user name")
        .sends(schemas::account_change())
        .gives(200, "It was changed", schemas::account())
        .refused(409, "`sip.auth` is `open`"),
        post(
            "/api/v1/accounts/{user}/password",
            TAG,
            "Gives an account a new password",
        )
        .named("user", "The user name")
        .may_send(schemas::new_password())
        .gives(
            200,
            "The password, if the server has made it",
            schemas::password(),
        )
        .refused(409, "`sip.auth` is `open`"),
        delete(
            "/api/v1/accounts/{user}",
            TAG,
            "Removes an account with its contacts and subscriptions; of an account that the service for credentials has, what \
             it said is forgotten",
        )
        .named("user", "The user name")
        .done(204, "It is gone")
        .refused(409, "`sip.auth` is `open`"),
        get(
            "/api/v1/tenants",
            TAG,
            "Lists domains with settings of their own",
        )
        .gives(200, "The domains", list("tenants", schemas::tenant())),
        get("/api/v1/tenants/{name}", TAG, "Shows a domain")
            .named("name", "The domain")
            .gives(200, "The domain", schemas::tenant()),
        put(
            "/api/v1/tenants/{name}",
            TAG,
            "Sets up a domain, or changes it",
        )
        .named("name", "The domain")
        .sends(open())
        .gives(200, "It was changed", schemas::tenant())
        .gives(201, "It is new", schemas::tenant())
        .refused(
            409,
            "The configuration file has it, or it conflicts with what is there",
        ),
        delete("/api/v1/tenants/{name}", TAG, "Removes a domain")
            .named("name", "The domain")
            .done(204, "It is gone")
            .refused(
                409,
                "The configuration file has it, or it still has accounts",
            ),
    ]
}

fn settings_by_name() -> Vec<Operation> {
    const TAG: &str = "Mailboxes, hints, lists";
    vec![
        get("/api/v1/mailboxes", TAG, "Lists mailboxes")
            .paged()
            .gives(
                200,
                "A page of mailboxes",
                page("mailboxes", schemas::mailbox()),
            ),
        get("/api/v1/mailboxes/{id}", TAG, "Shows a mailbox")
            .named("id", "Its name")
            .gives(200, "What waits in it", schemas::mailbox()),
        put(
            "/api/v1/mailboxes/{id}",
            TAG,
            "Sets what waits in a mailbox",
        )
        .named("id", "Its name")
        .sends(schemas::mailbox_entry())
        .gives(200, "It was changed", schemas::mailbox())
        .gives(201, "It is new", schemas::mailbox())
        .refused(409, "There are `limits.mailboxes`"),
        delete(
            "/api/v1/mailboxes/{id}",
            TAG,
            "Removes what was set for a mailbox",
        )
        .named("id", "Its name")
        .done(204, "It is gone")
        .refused(409, "A device publishes it"),
        get("/api/v1/hints", TAG, "Lists extensions and their devices")
            .paged()
            .gives(200, "A page of hints", page("hints", schemas::hint())),
        get("/api/v1/hints/{extension}", TAG, "Shows an extension")
            .named("extension", "Its name")
            .gives(200, "Its devices and their state", schemas::hint()),
        put(
            "/api/v1/hints/{extension}",
            TAG,
            "Sets the devices of an extension",
        )
        .named("extension", "Its name")
        .sends(schemas::hint_entry())
        .gives(200, "It was changed", schemas::hint())
        .gives(201, "It is new", schemas::hint())
        .refused(
            409,
            "The configuration file has it, or there are `limits.hints`",
        ),
        delete("/api/v1/hints/{extension}", TAG, "Removes an extension")
            .named("extension", "Its name")
            .done(204, "It is gone")
            .refused(409, "The configuration file or an account has it"),
        get("/api/v1/lists", TAG, "Lists the lists of resources")
            .paged()
            .gives(
                200,
                "A page of lists",
                page("lists", schemas::resource_list()),
            ),
        get("/api/v1/lists/{name}", TAG, "Shows a list")
            .named("name", "Its name")
            .gives(200, "Its entries", schemas::resource_list()),
        put("/api/v1/lists/{name}", TAG, "Sets a list")
            .named("name", "Its name")
            .sends(schemas::resource_list_entry())
            .gives(200, "It was changed", schemas::resource_list())
            .gives(201, "It is new", schemas::resource_list())
            .refused(
                409,
                "The configuration file has it, or there are `limits.lists`",
            ),
        delete("/api/v1/lists/{name}", TAG, "Removes a list")
            .named("name", "Its name")
            .done(204, "It is gone")
            .refused(409, "The configuration file has it"),
    ]
}

fn calls() -> Vec<Operation> {
    const TAG: &str = "Calls";
    let mut records = page("call_records", schemas::call_record());
    records["properties"]["call_records"]["items"]["additionalProperties"] = json!(true);
    vec![
        get("/api/v1/calls", TAG, "Lists calls that last")
            .limited()
            .across_nodes()
            .gives(200, "The calls", gathered(list("calls", open()))),
        get(
            "/api/v1/call-records",
            TAG,
            "Lists records of calls that ended, the last one first",
        )
        .paged()
        .query("user", text(), "Who called, was called or answered")
        .query(
            "from",
            text(),
            "Begun since then: a time of RFC 3339, or seconds since 1970",
        )
        .query("until", text(), "Begun before then")
        .query(
            "outcome",
            choice(CallOutcome::ALL.map(CallOutcome::as_str)),
            "What became of it",
        )
        .query(
            "format",
            choice(["json", "csv"]),
            "Instead of the header Accept",
        )
        .gives(200, "A page of records", records)
        .gives_as("text/csv; charset=utf-8", 200, "A page of records", text()),
        get(
            "/api/v1/peers",
            TAG,
            "Lists the peers, each with its addresses",
        )
        .gives(200, "The peers", list("peers", open())),
        get("/api/v1/cluster", TAG, "Lists the nodes of the cluster").gives(
            200,
            "The nodes",
            list("nodes", open()),
        ),
        post(
            "/api/v1/cluster/nodes/{name}/drain",
            TAG,
            "Lets a node give its partitions to the others",
        )
        .named("name", "Its name")
        .gives(200, "The nodes, as they were before", list("nodes", open()))
        .refused(404, "No node of this name lives")
        .refused(503, "The database cannot keep it"),
        post(
            "/api/v1/cluster/partitions/{partition}/move/{name}",
            TAG,
            "Lets a node have a partition while it lives",
        )
        .named("partition", "A number from 0 to 255")
        .named("name", "The node")
        .gives(200, "The nodes, as they were before", list("nodes", open()))
        .refused(404, "There is no such partition or node")
        .refused(503, "The database cannot keep it"),
        post(
            "/api/v1/cluster/partitions/{partition}/release",
            TAG,
            "Lets a partition fall to any node again",
        )
        .named("partition", "A number from 0 to 255")
        .gives(200, "The nodes, as they were before", list("nodes", open()))
        .refused(404, "There is no such partition, or no cluster")
        .refused(503, "The database cannot keep it"),
        get(
            "/api/v1/registrars",
            TAG,
            "Lists each address of record at a registrar behind",
        )
        .gives(200, "The addresses", list("registrars", open())),
        get("/api/v1/media", TAG, "Lists the media relays").gives(
            200,
            "The relays",
            list("media", open()),
        ),
    ]
}

fn inside() -> Vec<Operation> {
    const TAG: &str = "Inside";
    let item = open;
    vec![
        get("/api/v1/queues", TAG, "Lists every queue").gives(
            200,
            "The queues",
            list("queues", item()),
        ),
        get(
            "/api/v1/timers",
            TAG,
            "Lists timers, those first that are due first",
        )
        .limited()
        .gives(200, "The timers", list("timers", item())),
        get("/api/v1/topics", TAG, "Lists topics of the bus").gives(
            200,
            "The topics",
            list("topics", item()),
        ),
        get(
            "/api/v1/subscriptions",
            TAG,
            "Lists subscriptions on the bus, the longest queues first",
        )
        .limited()
        .gives(200, "The subscriptions", list("subscriptions", item())),
        get(
            "/api/v1/buffers",
            TAG,
            "Lists who holds packet memory, and the oldest buffers",
        )
        .gives(200, "The holders", list("owners", item())),
        get("/api/v1/workers", TAG, "Lists the workers").gives(
            200,
            "The workers",
            list("workers", item()),
        ),
        get("/api/v1/stores", TAG, "Shows the database").gives(
            200,
            "The database",
            list("stores", item()),
        ),
    ]
}

fn operating() -> Vec<Operation> {
    const TAG: &str = "Operating";
    vec![
        get(
            "/api/v1/settings",
            TAG,
            "Lists the settings in effect, each with its origin",
        )
        .gives(200, "The settings", list("settings", named("SettingView")))
        .refused(404, "The program around the server has no configuration"),
        post(
            "/api/v1/reload",
            TAG,
            "Reads the configuration again, as SIGHUP does",
        )
        .gives(
            200,
            "What has changed, and what needs a restart",
            named("ReloadReport"),
        )
        .refused(404, "The program around the server has no configuration")
        .refused(409, "All that is wrong with it; nothing has changed"),
        get(
            "/api/v1/log",
            TAG,
            "Gives the last lines of the log, the oldest first",
        )
        .query(
            "after",
            whole(),
            "Only those behind the line with this number",
        )
        .limited()
        .query("level", choice(LEVELS), "Only this level and worse ones")
        .query("search", text(), "In the message or a field, in any case")
        .gives(200, "The lines", list("lines", named("LogLine")))
        .refused(404, "The program around the server keeps no log"),
        get(
            "/api/v1/storm",
            TAG,
            "Shows the storm that lasts, or how the last one was",
        )
        .gives(200, "The storm", named("StormView"))
        .refused(404, "The program around the server makes no storms"),
        post(
            "/api/v1/storm",
            TAG,
            "Begins a small storm of registrations against the server itself",
        )
        .may_send(schemas::storm_plan())
        .gives(201, "It has begun", named("StormView"))
        .refused(404, "The program around the server makes no storms")
        .refused(409, "A storm lasts, or the server takes no SIP over UDP"),
        get(
            "/api/v1/certificates",
            TAG,
            "Lists the certificates that peers are shown",
        )
        .gives(200, "The certificates", list("certificates", open())),
        post(
            "/api/v1/certificates/reload",
            TAG,
            "Reads the certificates again",
        )
        .done(204, "They are in use")
        .refused(404, "There are none")
        .refused(409, "Why one cannot be used"),
        post(
            "/api/v1/certificates/renew",
            TAG,
            "Orders a certificate by ACME now",
        )
        .done(202, "It is ordered")
        .refused(404, "`acme.directory` is off"),
        get("/api/v1/webhooks", TAG, "Lists where changes are posted to").gives(
            200,
            "The webhooks",
            list("webhooks", schemas::webhook()),
        ),
        get("/api/v1/webhooks/{name}", TAG, "Shows a webhook")
            .named("name", "Its name")
            .gives(200, "The webhook", schemas::webhook()),
        put("/api/v1/webhooks/{name}", TAG, "Sets a webhook")
            .named("name", "Its name")
            .sends(open())
            .gives(200, "It was changed", schemas::webhook())
            .gives(
                201,
                "It is new; `secret` is told here alone",
                schemas::webhook(),
            )
            .refused(
                409,
                "The configuration file has it, or there are as many as may be",
            ),
        delete("/api/v1/webhooks/{name}", TAG, "Removes a webhook")
            .named("name", "Its name")
            .done(204, "It is gone")
            .refused(409, "The configuration file has it"),
        post("/api/v1/webhooks/{name}/test", TAG, "Posts a test event")
            .named("name", "Its name")
            .gives(200, "What the receiver answered", open()),
    ]
}

fn removed() -> Value {
    json!({
        "type": "object",
        "properties": { "removed": { "type": "integer", "minimum": 0 } },
        "required": ["removed"],
    })
}

const EVENTS: &str = "text/event-stream";
