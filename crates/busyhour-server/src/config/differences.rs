//! What differs between two configurations.

use super::{Config, KEYS, SettingKey};

impl Config {
    /// The settings that differ in `other`, and the kinds of tables; accounts and tokens are
    /// neither.
    pub fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'static str> + 'a {
        let differ = |key: &&SettingKey| key.show(self) != key.show(other);
        let settings = KEYS.iter().filter(differ).map(|key| key.path);
        let tables = [
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
}
