use super::{
    KEYS, Key, Loaded, Origin, Problem,
    accounts::{AccountEntry, RangeEntry},
    tokens::TokenEntry,
};
use crate::server::HintConfig;
use serde::{Deserialize, de::DeserializeOwned};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// `[[hint]]` as written; whether it can be depends on `sip.domains`, too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HintEntry {
    extension: String,
    devices: Vec<String>,
}

/// Reads the TOML `text` of the file called `name` into `loaded`; returns every problem.
pub(super) fn read(name: &str, text: &str, loaded: &mut Loaded) -> Vec<Problem> {
    let mut reader = Reader {
        name,
        text,
        loaded,
        problems: Vec::new(),
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.syntax(error);
    }
    // After a syntax error the rest is a guess, and its problems would mislead.
    if errors.is_empty() {
        reader.document(document.get_ref());
    }
    // Tables come in the order of their names; people read in the order of the file.
    reader
        .problems
        .sort_by_key(|problem| problem.origin.position());
    reader.problems
}

/// One pass over one file: what it sets goes to `loaded`, what is wrong to `problems`.
struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    loaded: &'a mut Loaded,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn document(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            match name.get_ref().as_ref() {
                "account" => self.accounts(value),
                "account_range" => self.account_ranges(value),
                "token" => self.tokens(value),
                "hint" => self.hints(value),
                section if is_section(section) => self.section(section, value),
                unknown => self.unknown("section", unknown, name.span(), &sections()),
            }
        }
    }

    fn section(&mut self, section: &str, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.report(value.span(), format!("{section}: write it as [{section}]"));
        };
        for (name, value) in table {
            match Key::find(&format!("{section}.{}", name.get_ref())) {
                Some(key) => self.setting(key, value),
                None => {
                    let kind = format!("setting in [{section}]");
                    self.unknown(&kind, name.get_ref(), name.span(), &names_in(section));
                }
            }
        }
    }

    fn setting(&mut self, key: &'static Key, value: &Spanned<DeValue<'_>>) {
        let set = match text_of(value.get_ref()) {
            Some(text) => key.set(&mut self.loaded.config, &text),
            None => Err(key.refusal(self.text.get(value.span()).unwrap_or_default())),
        };
        match set {
            Ok(()) => {
                let origin = self.origin(value.span());
                self.loaded.origins.insert(key.path, origin);
            }
            Err(refusal) => {
                self.loaded.invalid.insert(key.path);
                self.report(value.span(), refusal);
            }
        }
    }

    fn accounts(&mut self, value: &Spanned<DeValue<'_>>) {
        for (span, entry) in self.entries::<AccountEntry>("account", value) {
            let accounts = &mut self.loaded.config.accounts;
            let added = entry
                .check()
                .and_then(|account| accounts.add(account).map_err(|mistake| vec![mistake]));
            self.keep(span, "account", added);
        }
    }

    fn hints(&mut self, value: &Spanned<DeValue<'_>>) {
        for (span, entry) in self.entries::<HintEntry>("hint", value) {
            let HintEntry { extension, devices } = entry;
            let hints = &mut self.loaded.config.hints;
            let is_known = hints.iter().any(|hint| hint.extension == extension);
            let added = match is_known {
                true => Err(vec![format!("hint `{extension}` is there already")]),
                false => {
                    hints.push(HintConfig { extension, devices });
                    let origin = self.origin(span.clone());
                    self.loaded.hint_origins.push(origin);
                    Ok(())
                }
            };
            self.keep(span, "hint", added);
        }
    }

    fn account_ranges(&mut self, value: &Spanned<DeValue<'_>>) {
        for (span, entry) in self.entries::<RangeEntry>("account_range", value) {
            let added = entry
                .check()
                .map(|range| self.loaded.config.accounts.add_range(range));
            self.keep(span, "account_range", added);
        }
    }

    fn tokens(&mut self, value: &Spanned<DeValue<'_>>) {
        for (span, entry) in self.entries::<TokenEntry>("token", value) {
            let added = entry
                .check()
                .map(|token| self.loaded.config.tokens.push(token))
                .map_err(|mistake| vec![mistake]);
            self.keep(span, "token", added);
        }
    }

    /// The well-formed elements of an array of tables; the others become problems.
    fn entries<T: DeserializeOwned>(
        &mut self,
        what: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Vec<(Range<usize>, T)> {
        let Some(elements) = value.get_ref().as_array() else {
            self.report(value.span(), format!("{what}: write it as [[{what}]]"));
            return Vec::new();
        };
        let mut entries = Vec::new();
        for element in elements {
            let known = self.without_unknown_fields::<T>(what, element);
            match T::deserialize(ValueDeserializer::from(known)) {
                Ok(entry) => entries.push((element.span(), entry)),
                Err(error) => {
                    let span = error.span().unwrap_or(element.span());
                    self.report(span, format!("{what}: {}", error.message()));
                }
            }
        }
        entries
    }

    /// An element less its fields that nobody knows, each of which becomes a problem.
    fn without_unknown_fields<'d, T: DeserializeOwned>(
        &mut self,
        what: &str,
        element: &Spanned<DeValue<'d>>,
    ) -> Spanned<DeValue<'d>> {
        let mut known = element.clone();
        while let Err(error) = T::deserialize(ValueDeserializer::from(known.clone())) {
            let (Some(span), DeValue::Table(table)) = (error.span(), known.get_mut()) else {
                break;
            };
            let is_unknown = error.message().starts_with("unknown field");
            let mut names = table.keys();
            let Some(name) = names.find(|name| is_unknown && name.span() == span) else {
                break;
            };
            let name = name.get_ref().to_string();
            table.remove(name.as_str());
            self.report(span, format!("{what}: {}", error.message()));
        }
        known
    }

    fn keep(&mut self, span: Range<usize>, what: &str, added: Result<(), Vec<String>>) {
        for refusal in added.err().into_iter().flatten() {
            self.report(span.clone(), format!("{what}: {refusal}"));
        }
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let message = error.message().replace('\n', " ");
        self.report(error.span().unwrap_or(0..0), format!("not TOML: {message}"));
    }

    fn unknown(&mut self, kind: &str, found: &str, span: Range<usize>, known: &[&str]) {
        let hint = nearest(found, known).map_or(String::new(), |n| format!(" (did you mean {n}?)"));
        let allowed = known.join(", ");
        self.report(
            span,
            format!("unknown {kind}: `{found}`{hint}; there are: {allowed}"),
        );
    }

    fn report(&mut self, span: Range<usize>, message: String) {
        let origin = self.origin(span);
        self.problems.push(Problem::new(origin, message));
    }

    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::in_file(self.name, self.text, span.start)
    }
}

/// The text form that [`Key::set`] takes; `None` for what no setting can be.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Array(elements) => {
            let texts = elements.iter().map(|element| element.get_ref().as_str());
            texts
                .collect::<Option<Vec<_>>>()
                .map(|texts| texts.join(","))
        }
        _ => None,
    }
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.section() == name)
}

fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = KEYS.iter().map(Key::section).collect();
    sections.dedup();
    sections.extend(["account", "account_range", "hint", "token"]);
    sections
}

fn names_in(section: &str) -> Vec<&'static str> {
    let keys = KEYS.iter().filter(|key| key.section() == section);
    keys.map(Key::name).collect()
}

/// The known word most like `found`, if any is like enough to be a slip of the hand.
pub(super) fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |word: &&&str| (strsim::jaro_winkler(found, word) * 1000.0) as u32;
    let best = known.iter().max_by_key(likeness)?;
    (likeness(&best) > 800).then_some(*best)
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};

    fn problems(text: &str) -> String {
        let parsed = Config::parse("f.toml", text, &Overrides::default());
        parsed.unwrap_err().to_string()
    }

    #[test]
    fn every_problem_of_a_file_is_reported_with_its_place() {
        let text =
            "[sip]\nauth = \"basic\"\nlisten = [\"127.0.0.1:5060\", 7]\n\n[htpp]\nlisten = 1\n";
        let found = problems(text);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 3, "{found}");
        assert!(
            found.contains(
                "f.toml:2:8: sip.auth: `basic` is not allowed; give one of: digest, open"
            )
        );
        assert!(
            found.contains("f.toml:3:10: sip.listen: `[\"127.0.0.1:5060\", 7]` is not allowed")
        );
        assert!(found.contains("f.toml:5:2: unknown section: `htpp` (did you mean http?)"));
    }

    #[test]
    fn an_unknown_setting_lists_the_known_ones() {
        let found = problems("[log]\nlevl = \"info\"\n");
        assert_eq!(
            found,
            "f.toml:2:1: unknown setting in [log]: `levl` (did you mean level?); there are: level, format"
        );
    }

    #[test]
    fn a_syntax_error_is_reported_alone() {
        let found = problems("[sip\nauth = \"basic\"\n");
        assert!(found.starts_with("f.toml:1:"), "{found}");
        assert!(!found.contains("basic` is not allowed"), "{found}");
    }

    #[test]
    fn a_section_that_is_no_table_is_refused() {
        assert_eq!(problems("log = 3\n"), "f.toml:1:7: log: write it as [log]");
        assert_eq!(
            problems("account = 3\n"),
            "f.toml:1:11: account: write it as [[account]]"
        );
    }

    #[test]
    fn numbers_may_be_written_in_any_radix() {
        let text = "[sip]\nmin_expires_seconds = 0x20\ndefault_expires_seconds = 1_000\n";
        let loaded = Config::parse("f.toml", text, &Overrides::default()).unwrap();
        assert_eq!(loaded.config.registration.expires_min.as_secs(), 32);
        assert_eq!(loaded.config.registration.expires_default.as_secs(), 1000);
        let origin = &loaded.origins["sip.min_expires_seconds"];
        assert_eq!(origin.to_string(), "f.toml:2:23");
    }

    #[test]
    fn an_account_problem_names_the_field() {
        let found = problems("[[account]]\nuser = \"alice\"\npasword = \"x\"\n");
        assert!(
            found.contains("f.toml:3:1: account: unknown field `pasword`"),
            "{found}"
        );
        let found = problems("[[account]]\nuser = \"alice\"\n");
        assert!(found.starts_with("f.toml:1:1: account: "), "{found}");
    }
}
