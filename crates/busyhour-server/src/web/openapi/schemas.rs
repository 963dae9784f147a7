//! What is sent and received, as JSON schemas: of structs of this crate by their comments, of those of other crates by
//! an example of them.

use crate::{
    logs::recent::LogLine,
    server::{DevicePage, ServerStats, WatcherPage, WatcherView},
    web::{
        api::{
            bindings::BindingView,
            operating::operator::{ReloadReport, Session, SettingView},
            operating::storm::StormView,
        },
        findings::Health,
        protocol::problem::HttpProblem,
    },
};
use busyhour_registrar::watch::MessageSummary;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::{RefOr, schema::Schema},
};

/// The schemas that have a name.
pub(super) struct Schemas(Map<String, Value>);

impl Schemas {
    /// All of them, by name.
    pub(super) fn all() -> Value {
        let mut all = Self(Map::new());
        all.add::<HttpProblem>();
        all.add::<Health>();
        all.add::<Session>();
        all.add::<SettingView>();
        all.add::<ReloadReport>();
        all.add::<LogLine>();
        all.add::<StormView>();
        all.add::<DevicePage>();
        all.add::<WatcherPage>();
        all.add::<WatcherView>();
        all.add::<BindingView>();
        for page in ["DevicePage", "WatcherPage"] {
            all.change(page, gathered);
        }
        for entry in ["DeviceView", "WatcherView", "BindingView"] {
            all.change(entry, of_a_node);
        }
        all.0
            .insert("Stats".into(), of_example(&ServerStats::default()));
        Value::Object(all.0)
    }

    fn add<T: ToSchema>(&mut self) {
        let mut used: Vec<(String, RefOr<Schema>)> = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut used);
        for (name, schema) in used {
            // What utoipa makes can always be serialized.
            let schema = serde_json::to_value(schema).unwrap_or_default();
            self.0.entry(name).or_insert(schema);
        }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(Value) -> Value) {
        if let Some(schema) = self.0.get_mut(name) {
            *schema = change(schema.take());
        }
    }

    /// Where a schema of that name is.
    pub(super) fn reference(name: &str) -> Value {
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }
}

/// The fields of an example, each with the type of its value. A list or object without entries, and nothing, may be
/// anything.
pub(super) fn of_example(example: &impl Serialize) -> Value {
    of_value(&serde_json::to_value(example).unwrap_or_default())
}

fn of_value(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(_) => json!({ "type": "number" }),
        Value::String(_) => json!({ "type": "string" }),
        Value::Array(items) => match items.first() {
            Some(first) => json!({ "type": "array", "items": of_value(first) }),
            None => json!({ "type": "array" }),
        },
        Value::Object(fields) => {
            let required: Vec<_> = fields.keys().collect();
            let properties: Map<_, _> = fields
                .iter()
                .map(|(name, value)| (name.clone(), of_value(value)))
                .collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
    }
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn choice<'n>(names: impl IntoIterator<Item = &'n str>) -> Value {
    json!({ "enum": names.into_iter().collect::<Vec<_>>() })
}

/// A list under its name, with the number of all if that is told.
pub(super) fn list(name: &str, item: Value) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "array", "items": item } },
        "required": [name],
    })
}

/// A page of a list under its name.
pub(super) fn page(name: &str, item: Value) -> Value {
    let mut page = list(name, item);
    page["properties"]["next"] = json!({ "type": ["string", "null"] });
    page["required"] = json!([name, "next"]);
    page
}

/// A list of the whole cluster, if the server is in one.
pub(super) fn gathered(mut page: Value) -> Value {
    page["properties"]["unanswered_nodes"] = texts();
    page
}

/// An entry of such a list.
fn of_a_node(mut entry: Value) -> Value {
    entry["properties"]["node"] = text();
    entry
}

/// An object with these fields, of which the first `needed` are always there.
fn object(needed: usize, fields: &[(&str, Value)]) -> Value {
    let required: Vec<_> = fields.iter().take(needed).map(|(name, _)| *name).collect();
    let properties: Map<_, _> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The same as what is received: other fields are refused.
fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = json!(false);
    object
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn maybe(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn maybe_texts() -> Value {
    json!({ "type": ["array", "null"], "items": { "type": "string" } })
}

pub(super) fn account() -> Value {
    object(
        8,
        &[
            ("user", text()),
            ("realm", text()),
            ("algorithms", texts()),
            ("iax2", json!({ "type": "boolean" })),
            ("max_contacts", maybe("integer")),
            ("mailbox", maybe("string")),
            ("hints", texts()),
            ("disabled", json!({ "type": "boolean" })),
            ("aliases", texts()),
            ("watchers", texts()),
            ("failures", json!({ "type": "array", "items": failure() })),
        ],
    )
}

pub(super) fn account_entry() -> Value {
    closed(object(
        0,
        &[
            ("user", text()),
            ("password", maybe("string")),
            ("md5", maybe("string")),
            ("sha256", maybe("string")),
            ("sha512_256", maybe("string")),
            ("md5_address", maybe("string")),
            ("sha256_address", maybe("string")),
            ("sha512_256_address", maybe("string")),
            ("iax2", json!({ "type": "boolean" })),
            (
                "max_contacts",
                json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 1000 }),
            ),
            ("mailbox", maybe("string")),
            ("hints", texts()),
            ("aliases", texts()),
            ("watchers", maybe_texts()),
            ("disabled", json!({ "type": "boolean" })),
        ],
    ))
}

pub(super) fn account_change() -> Value {
    closed(object(1, &[("disabled", json!({ "type": "boolean" }))]))
}

pub(super) fn new_password() -> Value {
    closed(object(
        0,
        &[(
            "password",
            json!({ "type": ["string", "null"], "minLength": 1 }),
        )],
    ))
}

pub(super) fn password() -> Value {
    object(2, &[("user", text()), ("password", maybe("string"))])
}

pub(super) fn failure() -> Value {
    object(
        7,
        &[
            ("user", text()),
            ("at_unix_seconds", json!({ "type": "integer" })),
            ("source", text()),
            ("transport", text()),
            ("protocol", choice(["sip", "iax2"])),
            ("reason", text()),
            ("count", json!({ "type": "integer" })),
            ("node", text()),
        ],
    )
}

fn counts() -> Value {
    let number = || json!({ "type": "integer", "minimum": 0 });
    json!({
        "type": ["object", "null"],
        "properties": { "new": number(), "old": number(), "urgent_new": number(), "urgent_old": number() },
    })
}

fn summary(needed: usize, first: &[(&str, Value)]) -> Value {
    let classes =
        ["voice", "fax", "pager", "multimedia", "text", "none"].map(|name| (name, counts()));
    let rest = [("account", maybe("string")), ("waiting", maybe("boolean"))];
    let fields: Vec<_> = first.iter().cloned().chain(rest).chain(classes).collect();
    object(needed, &fields)
}

pub(super) fn mailbox() -> Value {
    summary(1, &[("id", text())])
}

pub(super) fn mailbox_entry() -> Value {
    debug_assert!(serde_json::from_value::<MessageSummary>(json!({})).is_ok());
    closed(summary(0, &[]))
}

pub(super) fn hint() -> Value {
    object(
        4,
        &[
            ("extension", text()),
            ("devices", texts()),
            ("state", text()),
            ("configured", json!({ "type": "boolean" })),
        ],
    )
}

pub(super) fn hint_entry() -> Value {
    closed(object(1, &[("devices", texts())]))
}

pub(super) fn resource_list() -> Value {
    object(
        3,
        &[
            ("name", text()),
            ("entries", json!({ "type": "array" })),
            ("configured", json!({ "type": "boolean" })),
            ("title", text()),
        ],
    )
}

pub(super) fn resource_list_entry() -> Value {
    closed(object(
        1,
        &[("entries", texts()), ("title", maybe("string"))],
    ))
}

pub(super) fn tenant() -> Value {
    object(
        17,
        &[
            ("name", text()),
            ("configured", json!({ "type": "boolean" })),
            ("server_accounts", json!({ "type": "boolean" })),
            ("account_count", whole()),
            ("contact_count", whole()),
            ("watcher_count", whole()),
            ("call_count", whole()),
            ("memory_bytes", whole()),
            ("registrations", whole()),
            ("refused", whole()),
            ("refused_accounts", whole()),
            ("refused_contacts", whole()),
            ("refused_registrations", whole()),
            ("refused_watchers", whole()),
            ("refused_calls", whole()),
            ("refused_memory", whole()),
            ("refused_other_share", whole()),
            ("realm", text()),
            ("aliases", texts()),
            ("max_accounts", whole()),
            ("max_contacts", whole()),
            ("max_watchers", whole()),
            ("max_calls", whole()),
            ("registrations_per_second", whole()),
            ("memory_kib", whole()),
        ],
    )
}

pub(super) fn webhook() -> Value {
    object(
        3,
        &[
            ("name", text()),
            ("url", text()),
            ("state", text()),
            ("secret", text()),
        ],
    )
}

pub(super) fn call_record() -> Value {
    object(
        4,
        &[
            ("id", json!({ "type": "integer" })),
            ("call_id", text()),
            ("from", text()),
            ("to", text()),
            ("began_at_ns", json!({ "type": "integer" })),
            ("outcome", text()),
            ("status", json!({ "type": "integer" })),
            ("media_failure", json!({ "type": ["string", "null"] })),
        ],
    )
}

pub(super) fn storm_plan() -> Value {
    let whole =
        |least: u32, most: u32| json!({ "type": "integer", "minimum": least, "maximum": most });
    closed(object(
        0,
        &[
            ("devices", whole(1, 2000)),
            ("seconds", whole(1, 60)),
            ("watchers", whole(0, 2000)),
        ],
    ))
}

/// An object whose fields the long reference lists.
pub(super) fn open() -> Value {
    json!({ "type": "object" })
}

pub(super) fn whole() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
