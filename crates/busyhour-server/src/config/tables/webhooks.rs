use super::entry::{Reported, TableEntry};
use crate::server::{WebhookConfig, WebhookEntry};
use std::{collections::HashSet, fs};

/// Reads a `[[webhook]]`, and the files with its secrets.
pub(in crate::config) fn read(
    entry: &mut TableEntry<'_>,
    names: &mut HashSet<String>,
) -> Result<(String, WebhookConfig), Reported> {
    let default = WebhookEntry::default();
    let name = entry.required("name", TableEntry::text);
    let url = entry.required("url", TableEntry::text);
    let kinds = entry.texts("kinds");
    let user = entry.text("user");
    let having = entry.texts("having");
    let snapshot = entry.yes_or_no("snapshot");
    let secret = secret_of(entry, "secret_file");
    let authorization = secret_of(entry, "authorization_file");
    let batch = entry.whole("batch");
    let batch_milliseconds = entry.whole("batch_milliseconds");
    let timeout_seconds = entry.whole("timeout_seconds");
    let give_up_seconds = entry.whole("give_up_seconds");
    let name = name?;
    let written = WebhookEntry {
        url: url?,
        kinds: kinds?.unwrap_or_default(),
        user: user?,
        having: having?.unwrap_or_default(),
        snapshot: snapshot?.unwrap_or(default.snapshot),
        secret: secret?,
        authorization: authorization?,
        batch: batch?.map_or(default.batch, |count| count as usize),
        batch_milliseconds: batch_milliseconds?.unwrap_or(default.batch_milliseconds),
        timeout_seconds: timeout_seconds?.unwrap_or(default.timeout_seconds),
        give_up_seconds: give_up_seconds?.unwrap_or(default.give_up_seconds),
    };
    let checked = written.check(&name).map_err(|mistake| mistake.to_string());
    let config = entry.check(checked)?;
    match names.insert(name.clone()) {
        true => Ok((name, config)),
        false => Err(entry.mistake(format!("name: there are two webhooks `{name}`"))),
    }
}

/// What stands in the file that a field names, without the end of its line.
pub(super) fn secret_of(
    entry: &mut TableEntry<'_>,
    field: &'static str,
) -> Result<Option<String>, Reported> {
    let Some(path) = entry.text(field)? else {
        return Ok(None);
    };
    let read = fs::read_to_string(&path);
    let read = read.map_err(|error| format!("{field}: {path}: {error}"));
    let text = entry.check(read)?.trim().to_owned();
    match text.is_empty() {
        true => Err(entry.mistake(format!("{field}: {path}: it is empty"))),
        false => Ok(Some(text)),
    }
}

pub(in crate::config) const FIELDS: &[&str] = &[
    "name",
    "url",
    "kinds",
    "user",
    "having",
    "snapshot",
    "secret_file",
    "authorization_file",
    "batch",
    "batch_milliseconds",
    "timeout_seconds",
    "give_up_seconds",
];
