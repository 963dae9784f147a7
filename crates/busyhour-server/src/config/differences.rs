//! What differs between two configurations, and what of it a running server takes.

use super::{Config, KEYS, SettingKey};

impl Config {
    /// The settings that differ in `other`, and the kinds of tables.
    pub fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'static str> + 'a {
        let differ = |key: &&SettingKey| key.show(self) != key.show(other);
        let settings = KEYS.iter().filter(differ).map(|key| key.path);
        let tables = [
            ("[[account]]", self.accounts != other.accounts),
            ("[[token]]", self.tokens != other.tokens),
            ("[[peer]]", self.peers != other.peers),
            ("[[registrar]]", self.registrars != other.registrars),
            ("[[push]]", self.push != other.push),
            ("[[webhook]]", self.webhooks != other.webhooks),
            ("[[hint]]", self.hints != other.hints),
            ("[[certificate]]", self.certificates != other.certificates),
            ("[[list]]", self.lists != other.lists),
            ("[[domain]]", self.tenants != other.tenants),
        ];
        let tables = tables.into_iter().filter(|(_, differs)| *differs);
        settings.chain(tables.map(|(table, _)| table))
    }

    /// This configuration with all of `newer` that a running server takes.
    #[must_use]
    pub fn with_live_of(&self, newer: &Self) -> Self {
        let mut merged = Self {
            accounts: newer.accounts.clone(),
            tokens: newer.tokens.clone(),
            webhooks: newer.webhooks.clone(),
            hints: newer.hints.clone(),
            lists: newer.lists.clone(),
            tenants: newer.tenants.clone(),
            ..self.clone()
        };
        for key in KEYS.iter().filter(|key| key.is_live()) {
            // What one configuration has, another may have.
            let _ = key.set(&mut merged, &key.show(newer));
        }
        merged
    }
}

impl SettingKey {
    /// Whether a running server takes a new value when it reads its configuration again.
    pub fn is_live(&self) -> bool {
        LIVE.contains(&self.path)
    }

    /// What a change of it needs: `live`, a reload, or `restart`.
    pub fn change(&self) -> &'static str {
        match self.is_live() {
            true => "live",
            false => "restart",
        }
    }
}

const LIVE: &[&str] = &[
    "sip.min_expires_seconds",
    "sip.default_expires_seconds",
    "sip.max_expires_seconds",
    "sip.max_contacts",
    "limits.contact_bytes",
    "calls.records_days",
    "calls.records_max",
    "http.requests_per_second",
    "runtime.drain_seconds",
    "log.level",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_live_setting_is_there_and_is_no_secret() {
        for path in LIVE {
            let key = SettingKey::find(path).unwrap_or_else(|| panic!("{path}"));
            let shown = key.show(&Config::default());
            assert_eq!(key.set(&mut Config::default(), &shown), Ok(()), "{path}");
        }
    }
}
