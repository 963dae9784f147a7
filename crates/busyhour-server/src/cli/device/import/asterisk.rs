//! Asterisk's PJSIP: `ps_auths`, `ps_endpoints` and `ps_aors`, as tables of a database or as
//! sections of `pjsip.conf`.

use super::{
    foreign_account::ForeignAccount,
    tables::{TableRow, Tables},
};
use busyhour_store::AccountEntry;
use std::collections::{HashMap, HashSet};

/// The three kinds of objects, by what they are called.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) auths: Vec<(String, TableRow)>,
    pub(super) endpoints: Vec<(String, TableRow)>,
    pub(super) aors: Vec<(String, TableRow)>,
}

impl Objects {
    pub(super) fn of(tables: &Tables) -> Self {
        let named = |table: &str| {
            let rows = tables.rows(table).iter();
            rows.map(|row| (row.text("id").unwrap_or_default().to_owned(), row.clone()))
                .collect()
        };
        Self {
            auths: named("ps_auths"),
            endpoints: named("ps_endpoints"),
            aors: named("ps_aors"),
        }
    }

    /// The accounts: one for each `auth` that an endpoint uses for what comes in; without
    /// endpoints, one for each `auth`.
    pub(super) fn accounts(&self) -> Vec<ForeignAccount> {
        let aors: HashMap<&str, &TableRow> = self
            .aors
            .iter()
            .map(|(name, row)| (name.as_str(), row))
            .collect();
        let mut used: HashMap<&str, &TableRow> = HashMap::new();
        for (_, endpoint) in &self.endpoints {
            for auth in list(endpoint.text("auth")) {
                used.insert(auth, endpoint);
            }
        }
        // Those that an endpoint uses to call others are no devices of ours.
        let outbound = self
            .endpoints
            .iter()
            .flat_map(|(_, row)| list(row.text("outbound_auth")));
        let outbound: HashSet<&str> = outbound.collect();
        let auths = self.auths.iter().filter(|(name, _)| {
            used.contains_key(name.as_str())
                || self.endpoints.is_empty() && !outbound.contains(name.as_str())
        });
        auths
            .map(|(name, auth)| {
                let endpoint = used.get(name.as_str()).copied();
                let aor = endpoint.and_then(|endpoint| list(endpoint.text("aors")).next());
                let aor = aor.unwrap_or(name);
                account(auth, aor, endpoint, aors.get(aor).copied())
            })
            .collect()
    }

    /// The user of the account that has an address of record, where it has another name.
    pub(super) fn users(&self) -> HashMap<String, String> {
        let auth = |name: &str| self.auths.iter().find(|(known, _)| known == name);
        let mut users = HashMap::new();
        for (_, endpoint) in &self.endpoints {
            let user = list(endpoint.text("auth")).find_map(|name| auth(name)?.1.text("username"));
            for aor in list(endpoint.text("aors")) {
                let user = user.unwrap_or(aor).to_owned();
                users.entry(aor.to_owned()).or_insert(user);
            }
        }
        users
    }
}

/// `aor` is the user part of its address of record.
fn account(
    auth: &TableRow,
    aor: &str,
    endpoint: Option<&TableRow>,
    settings: Option<&TableRow>,
) -> ForeignAccount {
    let user = auth.text("username").unwrap_or(aor).to_owned();
    let mailboxes = settings.and_then(|settings| settings.text("mailboxes"));
    let mailboxes = mailboxes.or_else(|| endpoint.and_then(|endpoint| endpoint.text("mailboxes")));
    let contacts = settings.and_then(|settings| settings.text("max_contacts"));
    let contacts = contacts
        .and_then(|count| count.parse().ok())
        .filter(|count| *count > 0);
    let entry = AccountEntry {
        aliases: Vec::from_iter((aor != user).then(|| aor.to_owned())),
        user,
        max_contacts: contacts,
        mailbox: list(mailboxes).next().map(str::to_owned),
        ..AccountEntry::default()
    };
    let md5 = auth.text("md5_cred").or_else(|| {
        let digest = auth.text("password_digest")?;
        digest
            .strip_prefix("MD5:")
            .or_else(|| digest.strip_prefix("md5:"))
    });
    let kind = auth.text("auth_type").unwrap_or("userpass");
    let entry = match (
        kind.to_ascii_lowercase().as_str(),
        auth.text("password"),
        md5,
    ) {
        ("google_oauth", _, _) => Err("auth_type google_oauth is no password".to_owned()),
        ("md5", _, Some(md5)) | (_, None, Some(md5)) => Ok(AccountEntry {
            md5: Some(md5.to_lowercase()),
            ..entry
        }),
        (_, Some(password), _) => Ok(AccountEntry {
            password: Some(password.to_owned()),
            ..entry
        }),
        (_, None, None) => Err("it has neither password nor md5_cred".to_owned()),
    };
    ForeignAccount {
        place: auth.place.clone(),
        domain: endpoint
            .and_then(|endpoint| endpoint.text("from_domain"))
            .map(str::to_owned),
        realm: Some(auth.text("realm").unwrap_or(DEFAULT_REALM).to_owned()),
        entry,
    }
}

/// The elements of a list with commas.
fn list(text: Option<&str>) -> impl Iterator<Item = &str> {
    let parts = text.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty())
}

/// `default_realm` of Asterisk.
const DEFAULT_REALM: &str = "asterisk";
