//! Kamailio's and OpenSIPS' tables: `subscriber`, and the aliases of `dbaliases`.

use super::{
    foreign_account::ForeignAccount,
    tables::{TableRow, Tables},
};
use busyhour_sip::auth::Algorithm;
use busyhour_store::AccountEntry;
use std::collections::HashMap;

/// The accounts of the tables.
pub(super) fn accounts(tables: &Tables) -> Vec<ForeignAccount> {
    let mut aliases: HashMap<(&str, &str), Vec<String>> = HashMap::new();
    for row in tables.rows("dbaliases") {
        let text = |column| row.text(column).unwrap_or_default();
        let (alias, domain) = (text("alias_username"), text("alias_domain"));
        let of = (text("username"), text("domain"));
        let alias = match domain.is_empty() || domain == of.1 {
            true => alias.to_owned(),
            false => format!("{alias}@{domain}"),
        };
        aliases.entry(of).or_default().push(alias);
    }
    let rows = tables.rows("subscriber").iter();
    rows.map(|row| {
        let text = |column| row.text(column).unwrap_or_default();
        let of = (text("username"), text("domain"));
        account(row, aliases.remove(&of).unwrap_or_default())
    })
    .collect()
}

/// The password counts if the hash is its hash; otherwise the hash does, as Kamailio takes it
/// without `calculate_ha1`. The realm of the hashes is the domain.
fn account(row: &TableRow, aliases: Vec<String>) -> ForeignAccount {
    let user = row.text("username").unwrap_or_default().to_owned();
    let domain = row.text("domain").map(str::to_owned);
    let (ha1, ha1b) = (row.text("ha1"), row.text("ha1b"));
    let realm = domain.clone().unwrap_or_default();
    let password = row.text("password").filter(|password| {
        ha1.is_none_or(|ha1| ha1.eq_ignore_ascii_case(&hash(ha1, &user, &realm, password)))
    });
    let entry = AccountEntry {
        user,
        aliases,
        ..AccountEntry::default()
    };
    let entry = match (password, ha1, ha1b) {
        (Some(password), _, _) => Ok(AccountEntry {
            password: Some(password.to_owned()),
            ..entry
        }),
        (None, None, None) => Err("it has neither password nor ha1".to_owned()),
        (None, ha1, ha1b) => Ok(with_hashes(entry, ha1, ha1b)),
    };
    ForeignAccount {
        place: row.place.clone(),
        realm: domain.clone(),
        domain,
        entry,
    }
}

/// A hash of 64 digits is SHA-256's.
fn with_hashes(entry: AccountEntry, ha1: Option<&str>, ha1b: Option<&str>) -> AccountEntry {
    let of_len = |hash: Option<&str>, is_long: bool| {
        let hash = hash.filter(|hash| (hash.len() == SHA_256_DIGITS) == is_long);
        hash.map(str::to_lowercase)
    };
    AccountEntry {
        md5: of_len(ha1, false),
        sha256: of_len(ha1, true),
        md5_address: of_len(ha1b, false),
        sha256_address: of_len(ha1b, true),
        ..entry
    }
}

fn hash(like: &str, user: &str, realm: &str, password: &str) -> String {
    let algorithm = match like.len() == SHA_256_DIGITS {
        true => Algorithm::Sha256,
        false => Algorithm::Md5,
    };
    let parts = [user, realm, password].map(str::as_bytes);
    algorithm.hash(&parts).to_string()
}

const SHA_256_DIGITS: usize = 64;
