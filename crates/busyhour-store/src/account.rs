//! An account as it is stored, as people write it, and as it is shown.

use busyhour_sip::auth::{Algorithm, HexDigest, Secret};
use serde::{Deserialize, Serialize};

/// A user of a realm who may register, with limits, mailbox and hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User name as it stands in the digest; the user part of its address of record.
    pub username: String,
    /// Realm as it stands in the digest.
    pub realm: String,
    /// Hashes, or the password itself where IAX2 needs it.
    pub secret: Secret,
    /// Contacts it may have at a time; `None` means the server's limit for everybody.
    pub contacts_max: Option<u32>,
    /// The mailbox whose message counts its devices receive.
    pub mailbox: Option<String>,
    /// Extensions that show the state of its devices.
    pub hints: Vec<String>,
    /// Other names of its address of record: `user`, or `user@domain`.
    pub aliases: Vec<String>,
    /// Who may watch it: `user`, `user@domain`, `@domain` or `*`; `None` is who its domain
    /// says.
    pub watchers: Option<Vec<String>>,
    /// It is kept, but may do nothing: its devices are refused.
    pub is_disabled: bool,
}

/// An account as a person or a program writes it: the body of a request, a
/// line of a file, the arguments of a command.
///
/// ```
/// use busyhour_store::AccountEntry;
///
/// let entry = AccountEntry {
///     user: "alice".into(),
///     password: Some("wonder".into()),
///     ..AccountEntry::default()
/// };
/// let account = entry.check("example.org")?;
/// assert_eq!(account.secret.password(), None, "hashes are enough for SIP");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccountEntry {
    /// The user name.
    pub user: String,
    /// Its password; or else hashes below.
    pub password: Option<String>,
    /// MD5 of `user:realm:password` in hexadecimal digits.
    pub md5: Option<String>,
    /// SHA-256 of the same.
    pub sha256: Option<String>,
    /// SHA-512-256 of the same.
    pub sha512_256: Option<String>,
    /// MD5 of `user@domain:realm:password`, for devices that log in with their address.
    pub md5_address: Option<String>,
    /// SHA-256 of the same.
    pub sha256_address: Option<String>,
    /// SHA-512-256 of the same.
    pub sha512_256_address: Option<String>,
    /// Whether it registers by IAX2 too, which needs the password itself.
    pub iax2: bool,
    /// See [`Account::contacts_max`].
    pub max_contacts: Option<u32>,
    /// See [`Account::mailbox`].
    pub mailbox: Option<String>,
    /// See [`Account::hints`].
    pub hints: Vec<String>,
    /// See [`Account::aliases`].
    pub aliases: Vec<String>,
    /// See [`Account::watchers`].
    pub watchers: Option<Vec<String>>,
    /// See [`Account::is_disabled`].
    pub disabled: bool,
}

/// The account as it is shown to people who may read accounts; without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountView {
    /// The user name.
    pub user: String,
    /// The realm that its secret is good for.
    pub realm: String,
    /// Digest algorithms that it can register with.
    pub algorithms: Vec<&'static str>,
    /// Whether it can register by IAX2.
    pub iax2: bool,
    /// See [`Account::contacts_max`].
    pub max_contacts: Option<u32>,
    /// See [`Account::mailbox`].
    pub mailbox: Option<String>,
    /// See [`Account::hints`].
    pub hints: Vec<String>,
    /// See [`Account::aliases`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// See [`Account::watchers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watchers: Option<Vec<String>>,
    /// See [`Account::is_disabled`].
    pub disabled: bool,
}

impl AccountEntry {
    /// The account of `realm` that this asks for.
    ///
    /// # Errors
    ///
    /// Every mistake: the field and what it may be.
    pub fn check(self, realm: &str) -> Result<Account, String> {
        self.check_in(realm, None)
    }

    /// The account of `realm` that this asks for. A password is hashed for user names with
    /// `domain` as well, if there is one.
    ///
    /// # Errors
    ///
    /// Every mistake: the field and what it may be.
    pub fn check_in(self, realm: &str, domain: Option<&str>) -> Result<Account, String> {
        let secret = self.secret(realm, domain);
        let mistakes = self.mistakes(secret.as_ref().err());
        match secret {
            Ok(secret) if mistakes.is_empty() => Ok(Account {
                username: self.user,
                realm: realm.to_owned(),
                secret,
                contacts_max: self.max_contacts,
                mailbox: self.mailbox,
                hints: self.hints,
                aliases: self.aliases,
                watchers: self.watchers,
                is_disabled: self.disabled,
            }),
            _ => Err(mistakes.join("; ")),
        }
    }

    /// Checks everything except the password, for a caller that has not asked for it
    /// yet.
    ///
    /// # Errors
    ///
    /// Every mistake: the field and what it may be.
    pub fn check_before_password(&self) -> Result<(), String> {
        let mistakes = self.mistakes(None);
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(mistakes.join("; ")),
        }
    }

    fn mistakes(&self, of_secret: Option<&String>) -> Vec<String> {
        let name = check_username(&self.user).err();
        let mistakes = name.into_iter().chain(of_secret.cloned());
        mistakes.chain(self.check_belongings()).collect()
    }

    fn check_belongings(&self) -> impl Iterator<Item = String> {
        let count = self.max_contacts.map_or(1, u64::from);
        let contacts = within("max_contacts", count, 1, 1000).err();
        let mailbox = self.mailbox.as_ref().filter(|name| !is_mailbox_name(name));
        let mailbox =
            mailbox.map(|name| format!("mailbox: `{name}` is not allowed; give {MAILBOX_RULE}"));
        let hints = within("hints", self.hints.len() as u64, 0, HINTS_MAX).err();
        let hint = self.hints.iter().find(|hint| !is_extension(hint));
        let hint =
            hint.map(|hint| format!("hints: `{hint}` is not an extension; give {EXTENSION_RULE}"));
        let contacts = contacts.into_iter().chain(mailbox);
        contacts.chain(hints).chain(hint).chain(self.check_names())
    }

    /// What is wrong with its aliases and watchers.
    fn check_names(&self) -> impl Iterator<Item = String> {
        let watchers = self.watchers.as_deref().unwrap_or_default();
        let aliases_count = within("aliases", self.aliases.len() as u64, 0, ALIASES_MAX).err();
        let watchers_count = within("watchers", watchers.len() as u64, 0, WATCHERS_MAX).err();
        let alias = self.aliases.iter().find(|alias| !is_address(alias));
        let alias = alias.map(|alias| format!("aliases: `{alias}`: give {ADDRESS_RULE}"));
        let watcher = watchers.iter().find(|watcher| !is_watcher(watcher));
        let watcher = watcher.map(|watcher| format!("watchers: `{watcher}`: give {WATCHER_RULE}"));
        let counts = aliases_count.into_iter().chain(watchers_count);
        counts.chain(alias).chain(watcher)
    }

    fn secret(&self, realm: &str, domain: Option<&str>) -> Result<Secret, String> {
        let hashes = self.hashes()?;
        let of_address = self.address_hashes()?;
        let is_hashed = !hashes.is_empty() || !of_address.is_empty();
        match (&self.password, !is_hashed) {
            (Some(password), true) if (1..=PASSWORD_LEN_MAX).contains(&password.len()) => {
                Ok(match self.iax2 {
                    true => Secret::plaintext(password.as_str()),
                    false => hashes_of(&self.user, realm, domain, password),
                })
            }
            (Some(_), true) => Err(format!("password: give 1 to {PASSWORD_LEN_MAX} characters")),
            (None, false) if self.iax2 => {
                Err("iax2: IAX2 needs the password itself; hashes are not enough".into())
            }
            (None, false) => Ok(Secret::hashed(hashes).with_address(of_address)),
            (None, true) => Err(NO_SECRET.into()),
            (Some(_), false) => Err(NOT_BOTH.into()),
        }
    }

    fn hashes(&self) -> Result<Vec<(Algorithm, HexDigest)>, String> {
        digests([
            (Algorithm::Md5, "md5", &self.md5),
            (Algorithm::Sha256, "sha256", &self.sha256),
            (Algorithm::Sha512_256, "sha512_256", &self.sha512_256),
        ])
    }

    fn address_hashes(&self) -> Result<Vec<(Algorithm, HexDigest)>, String> {
        digests([
            (Algorithm::Md5, "md5_address", &self.md5_address),
            (Algorithm::Sha256, "sha256_address", &self.sha256_address),
            (
                Algorithm::Sha512_256,
                "sha512_256_address",
                &self.sha512_256_address,
            ),
        ])
    }
}

/// The hashes that are given, each in its field.
fn digests<const N: usize>(
    fields: [(Algorithm, &str, &Option<String>); N],
) -> Result<Vec<(Algorithm, HexDigest)>, String> {
    let given = fields
        .into_iter()
        .filter_map(|(algorithm, field, value)| Some((algorithm, field, value.as_ref()?)));
    let digests = given.map(|(algorithm, field, value)| {
        let digest = HexDigest::from_hex(algorithm, value);
        let refusal = || format!("{field}: give {} hexadecimal digits", algorithm.digits());
        Ok((algorithm, digest.ok_or_else(refusal)?))
    });
    let mut digests: Vec<_> = digests.collect::<Result<_, String>>()?;
    // In the order in which a password's hashes are.
    let order = |one: &(Algorithm, HexDigest)| Algorithm::ALL.iter().position(|all| *all == one.0);
    digests.sort_by_key(order);
    Ok(digests)
}

fn hashes_of(user: &str, realm: &str, domain: Option<&str>, password: &str) -> Secret {
    let secret = Secret::hashes_of(user, realm, password);
    match domain {
        Some(domain) => {
            let address = format!("{user}@{domain}");
            let of_address = Secret::hashes_of(&address, realm, password);
            secret.with_address(of_address.hashes().iter().copied())
        }
        None => secret,
    }
}

impl AccountView {
    /// What stores the same account with a password, or without a secret.
    pub fn with_password(self, password: Option<String>) -> AccountEntry {
        // Whoever adds a field decides here whether it stays.
        let Self {
            user,
            realm: _,
            algorithms: _,
            iax2,
            max_contacts,
            mailbox,
            hints,
            aliases,
            watchers,
            disabled,
        } = self;
        AccountEntry {
            user,
            password,
            md5: None,
            sha256: None,
            sha512_256: None,
            md5_address: None,
            sha256_address: None,
            sha512_256_address: None,
            iax2,
            max_contacts,
            mailbox,
            hints,
            aliases,
            watchers,
            disabled,
        }
    }
}

impl Account {
    /// What may be shown of it.
    pub fn view(&self) -> AccountView {
        let known = Algorithm::ALL.into_iter().rev();
        AccountView {
            user: self.username.clone(),
            realm: self.realm.clone(),
            algorithms: known
                .filter(|&algorithm| self.secret.works_with(algorithm))
                .map(Algorithm::name)
                .collect(),
            iax2: self.secret.password().is_some(),
            max_contacts: self.contacts_max,
            mailbox: self.mailbox.clone(),
            hints: self.hints.clone(),
            aliases: self.aliases.clone(),
            watchers: self.watchers.clone(),
            disabled: self.is_disabled,
        }
    }
}

/// RFC 3261 user characters that need no escape, so that a name compares as written.
///
/// # Errors
///
/// A sentence that says what a user name may be.
pub fn check_username(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not a user name; give 1 to 64 letters, digits or {PLAIN}"
    ))
}

/// Hashes as one word of a row: `MD5=… SHA-256=…`, and `MD5@=…` for those of addresses, which
/// older versions ignore.
pub(super) fn hashes_text(secret: &Secret) -> String {
    let hashes = secret.hashes().iter();
    let of_address = secret.address_hashes().iter();
    let words = hashes.map(|(name, hex)| format!("{name}={hex}"));
    let words = words.chain(of_address.map(|(name, hex)| format!("{name}@={hex}")));
    words.collect::<Vec<_>>().join(" ")
}

/// The secret of a row. Hashes of an unknown algorithm or of a wrong length are
/// ignored.
pub(super) fn secret_of_row(password: Option<String>, hashes: &str) -> Secret {
    if let Some(password) = password {
        return Secret::plaintext(password);
    }
    let digest = |name: &str, hex: &str| {
        let algorithm = Algorithm::from_name(name)?;
        Some((algorithm, HexDigest::from_hex(algorithm, hex)?))
    };
    let words = || hashes.split(' ').filter_map(|word| word.split_once('='));
    let secret = Secret::hashed(words().filter_map(|(name, hex)| digest(name, hex)));
    match hashes.contains('@') {
        true => secret
            .with_address(words().filter_map(|(name, hex)| digest(name.strip_suffix('@')?, hex))),
        false => secret,
    }
}

/// Hints as one word of a row.
pub(super) fn hints_text(hints: &[String]) -> String {
    hints.join(" ")
}

/// The hints of a row.
pub(super) fn hints_of_row(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Whether a mailbox may have this name: any user name is allowed, and the names that
/// other systems give to mailboxes.
pub fn is_mailbox_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c) || "@#".contains(c);
    (1..=128).contains(&name.len()) && name.chars().all(plain)
}

/// Whether this names an address: a user of the account's own domain, or `user@domain`.
pub fn is_address(text: &str) -> bool {
    let (user, domain) = match text.split_once('@') {
        Some((user, domain)) => (user, Some(domain)),
        None => (text, None),
    };
    check_username(user).is_ok() && domain.is_none_or(is_domain)
}

/// Whether a domain may be called so: a host name or an IP address, in lower case.
pub fn is_domain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:[]".contains(c);
    (1..=253).contains(&text.len()) && text.chars().all(plain)
}

/// Whether a list of watchers may name this.
pub fn is_watcher(text: &str) -> bool {
    match text.strip_prefix('@') {
        Some(domain) => is_domain(domain),
        None => text == "*" || is_address(text),
    }
}

/// Whether an extension may be called so.
pub fn is_extension(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+*".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("{field}: give a whole number from {min} to {max}"))
}

const PLAIN: &str = "-_.!~*'()&=+$,;?/";
/// The rule of [`is_mailbox_name`], for messages.
pub const MAILBOX_RULE: &str = "1 to 128 letters, digits or any of -_.!~*'()&=+$,;?/@#";
/// What [`is_extension`] wants, for a message.
pub const EXTENSION_RULE: &str = "1 to 64 letters, digits or any of -_.+*";
const NOT_BOTH: &str = "give either password or hashes (md5, sha256, sha512_256), not both";
const NO_SECRET: &str = "give a password, or hashes (md5, sha256, sha512_256)";
/// The rule of [`is_address`], for messages.
pub const ADDRESS_RULE: &str = "a user name, or user@domain with the domain in lower case";
/// The rule of [`is_watcher`], for messages.
pub const WATCHER_RULE: &str = "user, user@domain, @domain or *";
const HINTS_MAX: u64 = 64;
const ALIASES_MAX: u64 = 64;
const WATCHERS_MAX: u64 = 256;
const PASSWORD_LEN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AccountEntry {
        AccountEntry {
            user: "alice".into(),
            password: Some("wonder".into()),
            ..AccountEntry::default()
        }
    }

    fn refusal(entry: AccountEntry) -> String {
        entry.check("r").unwrap_err()
    }

    #[test]
    fn a_password_becomes_hashes_unless_iax2_needs_it() {
        let account = entry().check("r").unwrap();
        assert_eq!(account.secret, Secret::hashes_of("alice", "r", "wonder"));
        assert!(!account.view().iax2);
        let entry = AccountEntry {
            iax2: true,
            ..entry()
        };
        let account = entry.check("r").unwrap();
        assert_eq!(account.secret.password(), Some("wonder"));
        assert_eq!(account.view().algorithms, ["MD5", "SHA-256", "SHA-512-256"]);
    }

    #[test]
    fn a_stored_account_is_read_as_it_was_written() {
        let secret = Secret::hashes_of("alice", "r", "wonder");
        assert_eq!(secret_of_row(None, &hashes_text(&secret)), secret);
        let hints = ["100".to_owned(), "200".to_owned()];
        assert_eq!(hints_of_row(&hints_text(&hints)), hints);
        assert!(hints_of_row("").is_empty());
        assert!(secret_of_row(None, "MD5=12 FUTURE=00").hashes().is_empty());
        let both = hashes_of("alice", "r", Some("a.example"), "wonder");
        assert_eq!(secret_of_row(None, &hashes_text(&both)), both);
        assert_eq!(both.address_hashes().len(), 3);
    }

    #[test]
    fn mistakes_name_the_field() {
        let user = |user: &str| AccountEntry {
            user: user.into(),
            ..entry()
        };
        assert!(refusal(user("")).contains("is not a user name"));
        assert!(refusal(user("a b")).contains("is not a user name"));
        let both = AccountEntry {
            md5: Some("0".repeat(32)),
            ..entry()
        };
        assert_eq!(refusal(both.clone()), NOT_BOTH);
        let hashed = AccountEntry {
            password: None,
            iax2: true,
            ..both
        };
        assert!(refusal(hashed).starts_with("iax2: "));
        let mailbox = AccountEntry {
            mailbox: Some("a b".into()),
            ..entry()
        };
        assert!(refusal(mailbox).starts_with("mailbox: "));
        let contacts = AccountEntry {
            max_contacts: Some(0),
            ..entry()
        };
        assert_eq!(
            refusal(contacts),
            "max_contacts: give a whole number from 1 to 1000"
        );
        let long = AccountEntry {
            password: Some("x".repeat(257)),
            ..entry()
        };
        assert_eq!(refusal(long), "password: give 1 to 256 characters");
    }
}
