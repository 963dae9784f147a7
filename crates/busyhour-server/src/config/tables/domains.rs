use super::entry::{Reported, TableEntry};
use crate::server::TenantConfig;
use std::collections::HashSet;

/// Reads a `[[domain]]`; `hosts` are those of the earlier ones.
pub(in crate::config) fn read(
    entry: &mut TableEntry<'_>,
    hosts: &mut HashSet<String>,
) -> Result<TenantConfig, Reported> {
    let name = entry.required("name", TableEntry::text);
    let realm = entry.text("realm");
    let aliases = entry.texts("aliases");
    let watchers = entry.texts("watchers");
    let [fold_case, phone_numbers] =
        ["fold_case", "phone_numbers"].map(|field| entry.yes_or_no(field));
    let country_code = entry.text("country_code");
    let [accounts, contacts, of_watchers, calls, rate, memory] =
        QUOTAS.map(|field| entry.whole(field));
    let config = TenantConfig {
        name: name?,
        realm: realm?,
        aliases: aliases?.unwrap_or_default(),
        fold_case: fold_case?.unwrap_or_default(),
        phone_numbers: phone_numbers?.unwrap_or_default(),
        country_code: country_code?.unwrap_or_default(),
        watchers: watchers?.unwrap_or_default(),
        max_accounts: accounts?,
        max_contacts: contacts?,
        max_watchers: of_watchers?,
        max_calls: calls?,
        registrations_per_second: rate?,
        memory_kib: memory?,
    };
    let mut mistakes = config.mistakes();
    for host in [&config.name].into_iter().chain(&config.aliases) {
        if !hosts.insert(host.clone()) {
            mistakes.push(format!("`{host}` is a host of an earlier domain"));
        }
    }
    match mistakes.is_empty() {
        true => Ok(config),
        false => Err(entry.mistake(mistakes.join("; "))),
    }
}

pub(in crate::config) const FIELDS: &[&str] = &[
    "name",
    "realm",
    "aliases",
    "fold_case",
    "phone_numbers",
    "country_code",
    "watchers",
    "max_accounts",
    "max_contacts",
    "max_watchers",
    "max_calls",
    "registrations_per_second",
    "memory_kib",
];
const QUOTAS: [&str; 6] = [
    "max_accounts",
    "max_contacts",
    "max_watchers",
    "max_calls",
    "registrations_per_second",
    "memory_kib",
];

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};

    fn parse(text: &str) -> Result<crate::config::Loaded, String> {
        let parsed = Config::parse("f.toml", text, &Overrides::default());
        parsed.map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_printed_domain_is_read_as_the_same_domain() {
        let text = "[[domain]]\nname = \"a.example\"\nrealm = \"A\"\naliases = [\"www.a.example\"]\n\
            fold_case = true\nphone_numbers = true\ncountry_code = \"49\"\n\
            watchers = [\"@b.example\"]\nmax_accounts = 5\nmemory_kib = 64\n";
        let loaded = parse(text).unwrap();
        let again = parse(&loaded.print()).unwrap();
        assert_eq!(again.config.tenants, loaded.config.tenants);
        assert_eq!(loaded.config.tenants[0].max_accounts, Some(5));
    }

    #[test]
    fn mistakes_name_the_field() {
        let refusal = parse("[[domain]]\nname = \"A example\"\n").unwrap_err();
        assert!(
            refusal.contains("f.toml:1:1: domain: name: `A example`"),
            "{refusal}"
        );
        let twice = "[[domain]]\nname = \"a\"\n[[domain]]\nname = \"b\"\naliases = [\"a\"]\n";
        let refusal = parse(twice).unwrap_err();
        assert!(
            refusal.contains("`a` is a host of an earlier domain"),
            "{refusal}"
        );
    }
}
