//! A CSV or JSON file of ours, as people write it and `device export` does.

use super::{
    super::export::{COLUMNS, NOBODY},
    foreign_account::ForeignAccount,
};
use crate::json;
use busyhour_store::AccountEntry;
use clap::ValueEnum;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ImportFormat {
    /// A header line, and a line a device
    Csv,
    /// An array of objects
    Json,
}

/// The accounts of a text.
pub(super) fn read(
    name: &str,
    text: &str,
    format: ImportFormat,
) -> Result<Vec<ForeignAccount>, String> {
    let placed = match format {
        ImportFormat::Csv => from_csv(text),
        ImportFormat::Json => from_json(text),
    };
    let placed = placed.map_err(|reason| format!("{name}: {reason}"))?;
    let accounts = placed.into_iter().map(
        |Placed {
             place,
             realm,
             entry,
         }| ForeignAccount {
            place: format!("{name}: {place}"),
            domain: None,
            realm,
            entry,
        },
    );
    Ok(accounts.collect())
}

/// Whether a text begins as a CSV file of ours.
pub(super) fn is_csv(text: &str) -> bool {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers();
    headers.is_ok_and(|headers| headers.iter().any(|name| name == "user"))
}

/// A device of a file, and the line or element where the device is.
struct Placed {
    place: String,
    realm: Option<String>,
    /// The account, or what is wrong with its form.
    entry: Result<AccountEntry, String>,
}

/// A line of a CSV file; an empty field is not given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    user: String,
    password: Option<String>,
    md5: Option<String>,
    sha256: Option<String>,
    sha512_256: Option<String>,
    md5_address: Option<String>,
    sha256_address: Option<String>,
    sha512_256_address: Option<String>,
    iax2: Option<String>,
    max_contacts: Option<u32>,
    mailbox: Option<String>,
    hints: Option<String>,
    aliases: Option<String>,
    watchers: Option<String>,
    disabled: Option<String>,
    realm: Option<String>,
}

fn from_csv(text: &str) -> Result<Vec<Placed>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut entries = Vec::new();
    let unknown: Vec<&str> = headers
        .iter()
        .filter(|name| !COLUMNS.contains(name))
        .collect();
    if !unknown.is_empty() {
        let (unknown, known) = (unknown.join(", "), COLUMNS.join(", "));
        return Err(format!(
            "line 1: unknown columns: {unknown}; there are: {known}"
        ));
    }
    if !headers.iter().any(|name| name == "user") {
        return Err("line 1: there is no column `user`".into());
    }
    for record in reader.records() {
        let number = |position: Option<&csv::Position>| position.map_or(0, csv::Position::line);
        entries.push(match record {
            Ok(record) => {
                let line = of_record(&record, &headers);
                Placed {
                    place: format!("line {}", number(record.position())),
                    realm: line.as_ref().ok().and_then(|line| line.realm.clone()),
                    entry: line.and_then(Line::entry),
                }
            }
            Err(error) => Placed {
                place: format!("line {}", number(error.position())),
                realm: None,
                entry: Err(reason(&error)),
            },
        });
    }
    Ok(entries)
}

fn of_record(record: &csv::StringRecord, headers: &csv::StringRecord) -> Result<Line, String> {
    let line = record.deserialize(Some(headers));
    line.map_err(|error| reason(&error))
}

impl Line {
    fn entry(self) -> Result<AccountEntry, String> {
        let iax2 = yes_or_no("iax2", self.iax2.as_deref())?;
        let disabled = yes_or_no("disabled", self.disabled.as_deref())?;
        let words = |text: Option<String>| -> Vec<String> {
            let text = text.unwrap_or_default();
            text.split_ascii_whitespace().map(str::to_owned).collect()
        };
        let watchers = self.watchers.map(|text| match text == NOBODY {
            true => Vec::new(),
            false => words(Some(text)),
        });
        Ok(AccountEntry {
            user: self.user,
            password: self.password,
            md5: self.md5,
            sha256: self.sha256,
            sha512_256: self.sha512_256,
            iax2,
            max_contacts: self.max_contacts,
            mailbox: self.mailbox,
            hints: words(self.hints),
            aliases: words(self.aliases),
            watchers,
            disabled,
            md5_address: self.md5_address,
            sha256_address: self.sha256_address,
            sha512_256_address: self.sha512_256_address,
        })
    }
}

/// Left out it is no.
fn yes_or_no(field: &str, given: Option<&str>) -> Result<bool, String> {
    match given.unwrap_or("no") {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" | "" => Ok(false),
        other => Err(format!("{field}: `{other}` is not allowed; give yes or no")),
    }
}

/// What is wrong with a field. The value is left out, since it may be a password.
fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            // `max_contacts` is the only number in a line.
            Some(_) => "max_contacts: give a whole number".to_owned(),
            None => err.kind().to_string(),
        },
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} fields, but the first line names {expected_len}"),
        _ => error.to_string(),
    }
}

/// An object of a JSON file: the account, and the realm of its hashes.
struct Element {
    realm: Option<String>,
    entry: AccountEntry,
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Element, M::Error> {
        let mut realm = None;
        let fields = MapAccessDeserializer::new(WithoutRealm {
            map,
            realm: &mut realm,
        });
        let entry = AccountEntry::deserialize(fields)?;
        Ok(Element { realm, entry })
    }
}

/// The fields of an element as they are read, so that a mistake has the place of its field.
struct WithoutRealm<'r, M> {
    map: M,
    realm: &'r mut Option<String>,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for WithoutRealm<'_, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if key != "realm" {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            *self.realm = self.map.next_value()?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}

fn from_json(text: &str) -> Result<Vec<Placed>, String> {
    let elements: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| json::mistake_at(&error))?;
    let mut lines = Lines::new(text);
    let placed = |element: &RawValue| {
        let first = lines.line_of(element.get());
        let parsed = serde_json::from_str::<Element>(element.get());
        let place = |error: &serde_json::Error| first + error.line().saturating_sub(1);
        Placed {
            place: format!("line {}", parsed.as_ref().map_or_else(place, |_| first)),
            realm: parsed
                .as_ref()
                .ok()
                .and_then(|element| element.realm.clone()),
            entry: parsed
                .map(|element| element.entry)
                .map_err(|error| json::mistake(&error)),
        }
    };
    Ok(elements.into_iter().map(placed).collect())
}

/// The lines of a text. The pieces must be looked up in their order.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            offset: 0,
            line: 1,
        }
    }

    /// The line on which `piece` begins, counted from 1.
    fn line_of(&mut self, piece: &str) -> usize {
        let offset = piece.as_ptr().addr() - self.text.as_ptr().addr();
        let between = self.text.get(self.offset..offset).unwrap_or_default();
        self.line += between.matches('\n').count();
        self.offset = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(placed: Vec<Placed>) -> Vec<Result<busyhour_store::Account, String>> {
        let entries = placed.into_iter().map(|one| one.entry);
        entries
            .map(|entry| entry.and_then(|entry| entry.check("r")))
            .collect()
    }

    #[test]
    fn csv_and_json_give_the_same_accounts() {
        let csv = "user,password,iax2,max_contacts,mailbox,hints,watchers,disabled\n\
            alice,\"a,b\",yes,2,100,200 201,-,yes\nbob,c,,,,,,\n";
        let json = r#"[{"user": "alice", "password": "a,b", "iax2": true, "max_contacts": 2,
            "mailbox": "100", "hints": ["200", "201"], "watchers": [], "disabled": true}, {"user": "bob", "password": "c"}]"#;
        let of_csv = entries(from_csv(csv).unwrap());
        assert_eq!(of_csv, entries(from_json(json).unwrap()));
        let alice = of_csv[0].as_ref().unwrap();
        assert_eq!((alice.hints.len(), &alice.watchers), (2, &Some(Vec::new())));
        assert!(alice.is_disabled);
    }

    #[test]
    fn errors_name_their_line_and_never_a_secret() {
        let placed = from_csv("user,password\na b,x\nc,\nd,y\n").unwrap();
        assert_eq!(placed[0].place, "line 2");
        let refused = entries(placed);
        assert!(
            refused[0]
                .as_ref()
                .unwrap_err()
                .contains("`a b` is not a user name")
        );
        assert!(refused[1].as_ref().unwrap_err().contains("password"));
        let unknown = from_csv("user,pasword\na,secret\n").err().unwrap();
        assert!(
            unknown.contains("pasword") && !unknown.contains("secret"),
            "{unknown}"
        );
    }
}
