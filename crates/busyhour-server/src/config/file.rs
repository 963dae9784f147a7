use super::{
    KEYS, Loaded, Problem, SettingKey, SettingOrigin,
    tables::{
        accounts, certificates, domains,
        entry::{Reported, TableEntry},
        hints, lists, peers, push, registrars, tokens, webhooks,
    },
};
use std::{collections::HashSet, ops::Range};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

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
    // After a syntax error the parser guesses the rest, and its problems would mislead.
    match errors.is_empty() {
        true => reader.document(document.get_ref()),
        false => reader.loaded.is_unread = true,
    }
    // The parser returns tables sorted by name; people read in the order of the file.
    reader
        .problems
        .sort_by_key(|problem| problem.origin.position());
    reader.problems
}

/// One pass over one file: it writes settings to `loaded` and mistakes to `problems`.
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
                "domain" => self.domains(value),
                "hint" => self.hints(value),
                "list" => self.lists(value),
                "certificate" => self.certificates(value),
                "peer" => self.peers(value),
                "push" => self.push(value),
                "registrar" => self.registrars(value),
                "webhook" => self.webhooks(value),
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
            match SettingKey::find(&format!("{section}.{}", name.get_ref())) {
                Some(key) => self.setting(key, value),
                None => {
                    let kind = format!("setting in [{section}]");
                    self.unknown(&kind, name.get_ref(), name.span(), &names_in(section));
                }
            }
        }
    }

    fn setting(&mut self, key: &'static SettingKey, value: &Spanned<DeValue<'_>>) {
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
        let mut users = HashSet::new();
        let read = |entry: &mut TableEntry<'_>| accounts::read(entry, &mut users);
        for (span, account) in self.entries("account", accounts::FIELDS, value, read) {
            if account.user.contains('@') {
                let origin = self.origin(span);
                self.loaded.accounts.push((account.user.clone(), origin));
            }
            // `read` has checked that no earlier account has this user.
            let _ = self.loaded.config.accounts.add(account);
        }
    }

    fn account_ranges(&mut self, value: &Spanned<DeValue<'_>>) {
        let ranges = self.entries(
            "account_range",
            accounts::RANGE_FIELDS,
            value,
            accounts::read_range,
        );
        for (_, range) in ranges {
            self.loaded.config.accounts.add_range(range);
        }
    }

    fn hints(&mut self, value: &Spanned<DeValue<'_>>) {
        let mut extensions = HashSet::new();
        let read = |entry: &mut TableEntry<'_>| Ok(hints::read(entry, &mut extensions));
        for (span, hint) in self.entries("hint", hints::FIELDS, value, read) {
            self.loaded.config.hints.extend(hint.whole());
            let origin = self.origin(span);
            self.loaded.hints.push((hint, origin));
        }
    }

    fn certificates(&mut self, value: &Spanned<DeValue<'_>>) {
        let read = certificates::read;
        for (span, files) in self.entries("certificate", certificates::FIELDS, value, read) {
            self.loaded.config.certificates.push(files);
            let origin = self.origin(span);
            self.loaded.certificates.push(origin);
        }
    }

    fn lists(&mut self, value: &Spanned<DeValue<'_>>) {
        let mut names = HashSet::new();
        let read = |entry: &mut TableEntry<'_>| Ok(lists::read(entry, &mut names));
        for (span, list) in self.entries("list", lists::FIELDS, value, read) {
            self.loaded.config.lists.extend(list.whole());
            let origin = self.origin(span);
            self.loaded.lists.push((list, origin));
        }
    }

    fn peers(&mut self, value: &Spanned<DeValue<'_>>) {
        for (span, peer) in self.entries("peer", peers::FIELDS, value, peers::read) {
            self.loaded.config.peers.push(peer);
            let origin = self.origin(span);
            self.loaded.peers.push(origin);
        }
    }

    fn push(&mut self, value: &Spanned<DeValue<'_>>) {
        for (_, push) in self.entries("push", push::FIELDS, value, push::read) {
            self.loaded.config.push.push(push);
        }
    }

    fn registrars(&mut self, value: &Spanned<DeValue<'_>>) {
        let fields = registrars::FIELDS;
        for (span, it) in self.entries("registrar", fields, value, registrars::read) {
            self.loaded.config.registrars.push(it);
            let origin = self.origin(span);
            self.loaded.registrars.push(origin);
        }
    }

    fn webhooks(&mut self, value: &Spanned<DeValue<'_>>) {
        let mut names = HashSet::new();
        let read = |entry: &mut TableEntry<'_>| webhooks::read(entry, &mut names);
        for (_, webhook) in self.entries("webhook", webhooks::FIELDS, value, read) {
            self.loaded.config.webhooks.push(webhook);
        }
    }

    fn tokens(&mut self, value: &Spanned<DeValue<'_>>) {
        for (_, token) in self.entries("token", tokens::FIELDS, value, tokens::read) {
            self.loaded.config.tokens.push(token);
        }
    }

    fn domains(&mut self, value: &Spanned<DeValue<'_>>) {
        let mut hosts = HashSet::new();
        let read = |entry: &mut TableEntry<'_>| domains::read(entry, &mut hosts);
        for (_, domain) in self.entries("domain", domains::FIELDS, value, read) {
            self.loaded.config.tenants.push(domain);
        }
    }

    /// Reads the elements of an array of tables with `read`; each mistake in them is a
    /// problem.
    fn entries<T>(
        &mut self,
        what: &str,
        fields: &[&'static str],
        value: &Spanned<DeValue<'_>>,
        mut read: impl FnMut(&mut TableEntry<'_>) -> Result<T, Reported>,
    ) -> Vec<(Range<usize>, T)> {
        let Some(elements) = value.get_ref().as_array() else {
            self.report(value.span(), format!("{what}: write it as [[{what}]]"));
            return Vec::new();
        };
        let mut entries = Vec::new();
        for element in elements {
            let mistakes = match TableEntry::new(element, fields) {
                Ok(mut entry) => {
                    let made = read(&mut entry).ok();
                    entries.extend(made.map(|made| (element.span(), made)));
                    entry.into_mistakes()
                }
                Err(mistake) => vec![mistake],
            };
            for (span, message) in mistakes {
                self.report(span, format!("{what}: {message}"));
            }
        }
        entries
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

    fn origin(&self, span: Range<usize>) -> SettingOrigin {
        SettingOrigin::in_file(self.name, self.text, span.start)
    }
}

/// The text form that [`SettingKey::set`] takes; `None` for a value that no setting
/// has.
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
    let mut sections: Vec<_> = KEYS.iter().map(SettingKey::section).collect();
    sections.dedup();
    sections.extend([
        "account",
        "account_range",
        "certificate",
        "hint",
        "list",
        "peer",
        "push",
        "registrar",
        "token",
        "webhook",
        "domain",
    ]);
    sections
}

fn names_in(section: &str) -> Vec<&'static str> {
    let keys = KEYS.iter().filter(|key| key.section() == section);
    keys.map(SettingKey::name).collect()
}

/// The known word most like `found`, if one is so similar that `found` may be a typing
/// mistake.
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
        assert_eq!(
            found,
            "f.toml:3:1: account: unknown field `pasword` (did you mean password?); there are: \
             user, domain, password, md5, sha256, sha512_256, mailbox"
        );
        let found = problems("[[account]]\nuser = \"alice\"\n");
        assert!(found.starts_with("f.toml:1:1: account: "), "{found}");
    }

    #[test]
    fn every_mistake_of_an_entry_is_told_at_once() {
        let told = problems(
            "[[webhook]]\nname = \"a b\"\nurl = \"ftp://x\"\nkinds = [\"nothing\"]\nbatch = 0\n\
             timeout_seconds = \"x\"\ngive_up_seconds = 0\n\n[[push]]\nprovider = \"p\"\n\
             service = \"none\"\nwait_seconds = 61\nawake_seconds = 0\nper_hour = 0\n",
        );
        for mistake in [
            "webhook: name: ",
            "webhook: url: ",
            "`nothing`",
            "webhook: batch: ",
            "webhook: timeout_seconds: ",
            "webhook: give_up_seconds: ",
            "push: service: ",
            "push: url is missing",
            "push: wait_seconds: ",
            "push: awake_seconds: ",
            "push: per_hour: ",
        ] {
            assert!(told.contains(mistake), "{mistake}\n{told}");
        }
    }
}
