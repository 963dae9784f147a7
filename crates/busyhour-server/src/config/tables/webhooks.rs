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
    let number =
        |given: Result<Option<u64>, Reported>, default| given.ok().flatten().unwrap_or(default);
    // A field that has its mistake already stands for a valid one, so that the others are checked.
    let written = WebhookEntry {
        url: url.unwrap_or(ANY_URL.to_owned()),
        kinds: kinds.ok().flatten().unwrap_or_default(),
        user: user.ok().flatten(),
        having: having.ok().flatten().unwrap_or_default(),
        snapshot: snapshot.ok().flatten().unwrap_or(default.snapshot),
        secret: secret.ok().flatten(),
        authorization: authorization.ok().flatten(),
        batch: number(batch, default.batch as u64) as usize,
        batch_milliseconds: number(batch_milliseconds, default.batch_milliseconds),
        timeout_seconds: number(timeout_seconds, default.timeout_seconds),
        give_up_seconds: number(give_up_seconds, default.give_up_seconds),
    };
    let name = name.ok();
    for mistake in written.mistakes(name.as_deref().unwrap_or(ANY_NAME)) {
        entry.mistake(mistake.to_string());
    }
    if let Some(name) = name.iter().find(|name| !names.insert((*name).clone())) {
        entry.mistake(format!("name: there are two webhooks `{name}`"));
    }
    entry.sound()?;
    let name = name.unwrap_or_default();
    let checked = written.check(&name).map_err(|mistake| mistake.to_string());
    Ok((name, entry.check(checked)?))
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

/// Stand for those that are missing.
const ANY_URL: &str = "https://localhost/";
const ANY_NAME: &str = "webhook";
