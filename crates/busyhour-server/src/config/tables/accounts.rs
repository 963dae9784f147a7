use super::entry::{Reported, TableEntry};
use crate::config::secrets::credential;
use busyhour_sip::auth::{Algorithm, HexDigest, Secret};
use busyhour_store::{MAILBOX_RULE, check_username, is_domain, is_mailbox_name};
use std::{
    collections::{HashMap, HashSet, hash_map},
    fmt,
};

/// Who may register: single accounts and numbered ranges.
///
/// ```
/// use busyhour_sip::auth::Secret;
/// use busyhour_server::config::{AccountRange, ConfiguredAccounts};
///
/// let mut accounts = ConfiguredAccounts::default();
/// accounts.add_range(AccountRange {
///     prefix: "device".into(),
///     first: 1,
///     count: 12_000,
///     digits: 0,
///     secret: Secret::plaintext("busyhour"),
/// });
/// assert!(accounts.secret("device12000").is_some());
/// assert!(accounts.secret("device12001").is_none());
/// ```
#[derive(Clone, PartialEq, Default)]
pub struct ConfiguredAccounts {
    by_user: HashMap<String, Secret>,
    /// Contains only the mailboxes that do not have the name of their user.
    mailboxes: HashMap<String, String>,
    ranges: Vec<AccountRange>,
}

/// One account, from an `[[account]]`.
#[derive(Clone, PartialEq)]
pub struct Account {
    /// The user part of its address of record, and its digest user name; `user@domain` in a domain
    /// with accounts of its own.
    pub user: String,
    /// The password or hashes with which it authenticates.
    pub secret: Secret,
    /// Its mailbox; `None`: the mailbox has the name of the user.
    pub mailbox: Option<String>,
}

/// Many accounts that differ only in a number, from an `[[account_range]]`.
///
/// A range costs the same memory whatever its count.
#[derive(Clone, PartialEq)]
pub struct AccountRange {
    /// The text before the number.
    pub prefix: String,
    /// The first number.
    pub first: u64,
    /// How many numbers.
    pub count: u64,
    /// The number of digits; zeros fill missing ones. 0 adds no zeros.
    pub digits: usize,
    /// The secret that all of them share.
    pub secret: Secret,
}

impl ConfiguredAccounts {
    /// Adds one account.
    ///
    /// # Errors
    ///
    /// When the user exists already.
    pub fn add(&mut self, account: Account) -> Result<(), String> {
        match self.by_user.entry(account.user) {
            hash_map::Entry::Occupied(known) => {
                Err(format!("user `{}` already exists", known.key()))
            }
            hash_map::Entry::Vacant(place) => {
                if let Some(mailbox) = account.mailbox {
                    self.mailboxes.insert(place.key().clone(), mailbox);
                }
                place.insert(account.secret);
                Ok(())
            }
        }
    }

    /// Adds a range. Single accounts come before ranges; where ranges overlap, the
    /// first one counts.
    pub fn add_range(&mut self, range: AccountRange) {
        self.ranges.push(range);
    }

    /// The secret of `user`, if there is such an account.
    pub fn secret(&self, user: &str) -> Option<&Secret> {
        self.by_user.get(user).or_else(|| {
            let range = self.ranges.iter().find(|range| range.contains(user))?;
            Some(&range.secret)
        })
    }

    /// Whether somebody of this name has an account, in any domain.
    pub(in crate::config) fn has_user(&self, user: &str) -> bool {
        let is_it = |name: &String| name.split('@').next() == Some(user);
        self.secret(user).is_some() || self.by_user.keys().any(is_it)
    }

    /// The mailbox of `user`, if it does not have the name of the user.
    pub fn mailbox(&self, user: &str) -> Option<&str> {
        self.mailboxes.get(user).map(String::as_str)
    }

    /// The number of accounts; an account that was given twice counts twice.
    pub fn len(&self) -> u64 {
        let ranged: u64 = self.ranges.iter().map(|range| range.count).sum();
        ranged + self.by_user.len() as u64
    }

    /// Whether there is no account.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The users of single accounts, in alphabetical order.
    pub(in crate::config) fn users(&self) -> Vec<&str> {
        let mut users: Vec<&str> = self.by_user.keys().map(String::as_str).collect();
        users.sort_unstable();
        users
    }

    pub(in crate::config) fn ranges(&self) -> &[AccountRange] {
        &self.ranges
    }
}

impl AccountRange {
    /// Whether `user` is one of the range, written exactly as the range writes it.
    pub fn contains(&self, user: &str) -> bool {
        let Some(number) = user.strip_prefix(self.prefix.as_str()) else {
            return false;
        };
        let Ok(value) = number.parse::<u64>() else {
            return false;
        };
        let in_range = value >= self.first && value - self.first < self.count;
        in_range && self.is_spelled(number)
    }

    /// Whether a number is written with as many digits as the range has, and with zeros in
    /// front only to have so many. This is asked of each registration.
    fn is_spelled(&self, number: &str) -> bool {
        let len = self.digits.max(1);
        let has_digits_only = number.bytes().all(|byte| byte.is_ascii_digit());
        let has_zeros = number.len() > len && number.starts_with('0');
        has_digits_only && number.len() >= len && !has_zeros
    }
}

impl fmt::Debug for ConfiguredAccounts {
    /// Prints only the number of accounts, since names are private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfiguredAccounts({})", self.len())
    }
}

/// Reads an `[[account]]`; `users` are the earlier ones.
pub(in crate::config) fn read(
    entry: &mut TableEntry<'_>,
    users: &mut HashSet<String>,
) -> Result<Account, Reported> {
    let domain = entry.text("domain").and_then(|domain| {
        let checked = domain.map(host).transpose();
        entry.check(checked)
    });
    let user = entry
        .required("user", TableEntry::text)
        .and_then(|name| entry.check(user(name)))
        .and_then(|user| match domain? {
            Some(domain) => Ok(format!("{user}@{domain}")),
            None => Ok(user),
        })
        .and_then(|user| match users.insert(user.clone()) {
            true => Ok(user),
            false => Err(entry.mistake(format!("user `{user}` already exists"))),
        });
    let secret = secret(entry);
    let mailbox = entry.text("mailbox").and_then(|name| {
        let checked = name.map(mailbox).transpose();
        entry.check(checked)
    });
    Ok(Account {
        user: user?,
        secret: secret?,
        mailbox: mailbox?,
    })
}

/// Reads an `[[account_range]]`.
pub(in crate::config) fn read_range(entry: &mut TableEntry<'_>) -> Result<AccountRange, Reported> {
    let prefix = entry
        .required("prefix", TableEntry::text)
        .and_then(|prefix| entry.check(user(prefix)));
    let first = entry.whole("first").map(|first| first.unwrap_or(1));
    let first = first.and_then(|first| entry.check(within("first", first, 0, 1 << 53)));
    let count = entry
        .required("count", TableEntry::whole)
        .and_then(|count| entry.check(within("count", count, 1, 10_000_000)));
    let digits = entry.whole("digits").map(Option::unwrap_or_default);
    let digits = digits.and_then(|digits| entry.check(within("digits", digits, 0, 16)));
    let password = entry
        .required("password", TableEntry::text)
        .and_then(|password| entry.check(usable(password)));
    Ok(AccountRange {
        prefix: prefix?,
        first: first?,
        count: count?,
        digits: digits? as usize,
        secret: Secret::plaintext(password?),
    })
}

/// Reads a password, or else hashes.
fn secret(entry: &mut TableEntry<'_>) -> Result<Secret, Reported> {
    let password = entry.text("password");
    let hashes = [
        hash(entry, Algorithm::Md5, "md5"),
        hash(entry, Algorithm::Sha256, "sha256"),
        hash(entry, Algorithm::Sha512_256, "sha512_256"),
    ];
    let has_hash = hashes.iter().any(|hash| !matches!(hash, Ok(None)));
    match (password, has_hash) {
        (Ok(None), false) => Err(entry.mistake(NO_SECRET)),
        (Ok(None), true) => {
            let [md5, sha256, sha512_256] = hashes;
            let hashes = [md5?, sha256?, sha512_256?];
            Ok(Secret::hashed(hashes.into_iter().flatten()))
        }
        (_, true) => Err(entry.mistake(NOT_BOTH)),
        (password, false) => {
            let password = password?.unwrap_or_default();
            entry.check(usable(password)).map(Secret::plaintext)
        }
    }
}

fn hash(
    entry: &mut TableEntry<'_>,
    algorithm: Algorithm,
    field: &'static str,
) -> Result<Option<(Algorithm, HexDigest)>, Reported> {
    let Some(value) = entry.text(field)? else {
        return Ok(None);
    };
    let digest = HexDigest::from_hex(algorithm, &value);
    let refusal = || format!("{field}: give {} hexadecimal digits", algorithm.digits());
    let digest = entry.check(digest.ok_or_else(refusal))?;
    Ok(Some((algorithm, digest)))
}

fn user(name: String) -> Result<String, String> {
    check_username(&name).map(|()| name)
}

fn host(domain: String) -> Result<String, String> {
    match is_domain(&domain) {
        true => Ok(domain),
        false => Err(format!(
            "domain: `{domain}`: give a host name in lower case"
        )),
    }
}

fn mailbox(name: String) -> Result<String, String> {
    match is_mailbox_name(&name) {
        true => Ok(name),
        false => Err(format!(
            "mailbox: `{name}` is not allowed; give {MAILBOX_RULE}"
        )),
    }
}

/// A password, or the credential that has it.
fn usable(password: String) -> Result<String, String> {
    match credential(&password) {
        Ok(given) => not_empty(given.unwrap_or(password)),
        Err(problem) => Err(format!("password: {problem}")),
    }
}

fn not_empty(password: String) -> Result<String, String> {
    if password.is_empty() {
        return Err("password: give at least one character".into());
    }
    Ok(password)
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<u64, String> {
    match (min..=max).contains(&value) {
        true => Ok(value),
        false => Err(format!("{field}: give a whole number from {min} to {max}")),
    }
}

pub(in crate::config) const FIELDS: &[&str] = &[
    "user",
    "domain",
    "password",
    "md5",
    "sha256",
    "sha512_256",
    "mailbox",
];
pub(in crate::config) const RANGE_FIELDS: &[&str] =
    &["prefix", "first", "count", "digits", "password"];
const NOT_BOTH: &str = "give either password or hashes (md5, sha256, sha512_256), not both";
const NO_SECRET: &str = "give a password, or hashes (md5, sha256, sha512_256)";

#[cfg(test)]
mod tests {
    use super::*;

    fn range(digits: usize) -> AccountRange {
        AccountRange {
            prefix: "d".into(),
            first: 5,
            count: 10,
            digits,
            secret: Secret::plaintext("range"),
        }
    }

    fn single(user: &str) -> Account {
        Account {
            user: user.into(),
            secret: Secret::plaintext("single"),
            mailbox: None,
        }
    }

    #[test]
    fn the_spelling_is_that_of_the_format() {
        let numbers = [
            "0", "7", "07", "10", "010", "0010", "00", "000", "", "+7", "7 ", "٧",
        ];
        for digits in 0..5 {
            for number in numbers {
                let value = number.parse::<u64>();
                let is_same = value.is_ok_and(|value| number == format!("{value:0digits$}"));
                assert_eq!(
                    range(digits).is_spelled(number),
                    is_same,
                    "{number}, {digits}"
                );
            }
        }
    }

    #[test]
    fn a_range_contains_its_bounds_and_one_spelling_of_each_number() {
        assert!(range(0).contains("d5"));
        assert!(range(0).contains("d14"));
        let strangers = [
            "d4",
            "d15",
            "d05",
            "d+5",
            "d",
            "5",
            "D5",
            "d5 ",
            "d99999999999999999999",
        ];
        for user in strangers {
            assert!(!range(0).contains(user), "{user}");
        }
        assert!(range(4).contains("d0005"));
        assert!(!range(4).contains("d5"));
    }

    #[test]
    fn a_single_account_wins_over_a_range() {
        let mut accounts = ConfiguredAccounts::default();
        accounts.add_range(range(0));
        accounts.add(single("d9")).unwrap();
        assert!(accounts.secret("d9") == Some(&Secret::plaintext("single")));
        assert!(accounts.secret("d10") == Some(&Secret::plaintext("range")));
    }

    #[test]
    fn a_user_can_exist_only_once() {
        let mut accounts = ConfiguredAccounts::default();
        accounts.add(single("alice")).unwrap();
        let refusal = accounts.add(single("alice")).unwrap_err();
        assert_eq!(refusal, "user `alice` already exists");
    }
}
