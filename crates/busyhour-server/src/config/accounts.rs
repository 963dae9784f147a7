use crate::{
    auth::{Algorithm, HexDigest, Secret},
    store::{MAILBOX_RULE, check_username, is_mailbox_name},
};
use serde::Deserialize;
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
};

/// Who may register: single accounts and numbered ranges.
///
/// ```
/// use busyhour_server::{
///     auth::Secret,
///     config::{AccountRange, Accounts},
/// };
///
/// let mut accounts = Accounts::default();
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
pub struct Accounts {
    by_user: HashMap<String, Secret>,
    /// Only those that are not called as their user is.
    mailboxes: HashMap<String, String>,
    ranges: Vec<AccountRange>,
}

/// One account, as `[[account]]` gives it.
#[derive(Clone, PartialEq)]
pub struct Account {
    /// The user part of its address of record, which is its digest user name too.
    pub user: String,
    /// What it proves itself with.
    pub secret: Secret,
    /// Its mailbox; `None` is the one called as the user is.
    pub mailbox: Option<String>,
}

/// Many accounts that differ in a number only, as `[[account_range]]` gives them.
///
/// A range costs the same memory whatever its count.
#[derive(Clone, PartialEq)]
pub struct AccountRange {
    /// What stands before the number.
    pub prefix: String,
    /// The first number.
    pub first: u64,
    /// How many numbers.
    pub count: u64,
    /// Digits the number is filled to with zeros; 0 fills none.
    pub digits: usize,
    /// The secret all of them share.
    pub secret: Secret,
}

impl Accounts {
    /// Adds one account.
    ///
    /// # Errors
    ///
    /// A sentence when the user is there already.
    pub fn add(&mut self, account: Account) -> Result<(), String> {
        match self.by_user.entry(account.user) {
            Entry::Occupied(known) => Err(format!("user `{}` is there already", known.key())),
            Entry::Vacant(place) => {
                if let Some(mailbox) = account.mailbox {
                    self.mailboxes.insert(place.key().clone(), mailbox);
                }
                place.insert(account.secret);
                Ok(())
            }
        }
    }

    /// Adds a range; where ranges overlap the first one counts, and single accounts before any.
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

    /// The mailbox of `user`, where it is not called as the user is.
    pub fn mailbox(&self, user: &str) -> Option<&str> {
        self.mailboxes.get(user).map(String::as_str)
    }

    /// How many accounts there are; those given twice count twice.
    pub fn len(&self) -> u64 {
        let ranged: u64 = self.ranges.iter().map(|range| range.count).sum();
        ranged + self.by_user.len() as u64
    }

    /// Whether nobody can register.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The users of single accounts, in alphabetical order.
    pub(super) fn users(&self) -> Vec<&str> {
        let mut users: Vec<&str> = self.by_user.keys().map(String::as_str).collect();
        users.sort_unstable();
        users
    }

    pub(super) fn ranges(&self) -> &[AccountRange] {
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
        in_range && number == format!("{value:0width$}", width = self.digits)
    }
}

impl fmt::Debug for Accounts {
    /// How many there are; who they are is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accounts({})", self.len())
    }
}

/// `[[account]]` as written, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountEntry {
    user: String,
    password: Option<String>,
    md5: Option<String>,
    sha256: Option<String>,
    sha512_256: Option<String>,
    mailbox: Option<String>,
}

/// `[[account_range]]` as written, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeEntry {
    prefix: String,
    #[serde(default = "one")]
    first: u64,
    count: u64,
    #[serde(default)]
    digits: usize,
    password: String,
}

impl AccountEntry {
    /// # Errors
    ///
    /// Every mistake, a sentence each.
    pub(super) fn check(self) -> Result<Account, Vec<String>> {
        let mut mistakes = Vec::new();
        let hashes = collect(
            &mut mistakes,
            hashes([
                (Algorithm::Md5, "md5", self.md5),
                (Algorithm::Sha256, "sha256", self.sha256),
                (Algorithm::Sha512_256, "sha512_256", self.sha512_256),
            ]),
        );
        let user = collect(&mut mistakes, user(self.user));
        let mailbox = collect(&mut mistakes, self.mailbox.map(mailbox).transpose());
        let secret = hashes.and_then(|hashes| {
            let secret = secret(self.password, hashes);
            collect(&mut mistakes, secret)
        });
        match (user, secret, mailbox) {
            (Some(user), Some(secret), Some(mailbox)) => Ok(Account {
                user,
                secret,
                mailbox,
            }),
            _ => Err(mistakes),
        }
    }
}

impl RangeEntry {
    /// # Errors
    ///
    /// Every mistake, a sentence each.
    pub(super) fn check(self) -> Result<AccountRange, Vec<String>> {
        let mut mistakes = Vec::new();
        for number in [
            within("count", self.count, 1, 10_000_000),
            within("first", self.first, 0, 1 << 53),
            within("digits", self.digits as u64, 0, 16),
        ] {
            collect(&mut mistakes, number);
        }
        let prefix = collect(&mut mistakes, user(self.prefix));
        let password = collect(&mut mistakes, not_empty(self.password));
        match (prefix, password) {
            (Some(prefix), Some(password)) if mistakes.is_empty() => Ok(AccountRange {
                prefix,
                first: self.first,
                count: self.count,
                digits: self.digits,
                secret: Secret::plaintext(password),
            }),
            _ => Err(mistakes),
        }
    }
}

/// What is right, or else one mistake more.
fn collect<T>(mistakes: &mut Vec<String>, checked: Result<T, String>) -> Option<T> {
    checked.map_err(|mistake| mistakes.push(mistake)).ok()
}

fn secret(password: Option<String>, hashes: Vec<(Algorithm, HexDigest)>) -> Result<Secret, String> {
    match (password, hashes.is_empty()) {
        (Some(password), true) => not_empty(password).map(Secret::plaintext),
        (None, false) => Ok(Secret::hashed(hashes)),
        (None, true) => Err(NO_SECRET.into()),
        (Some(_), false) => Err(NOT_BOTH.into()),
    }
}

fn one() -> u64 {
    1
}

fn user(name: String) -> Result<String, String> {
    check_username(&name).map(|()| name)
}

fn mailbox(name: String) -> Result<String, String> {
    match is_mailbox_name(&name) {
        true => Ok(name),
        false => Err(format!("mailbox: `{name}` is none; give {MAILBOX_RULE}")),
    }
}

fn not_empty(password: String) -> Result<String, String> {
    if password.is_empty() {
        return Err("password: give at least one character".into());
    }
    Ok(password)
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("{field}: give a whole number from {min} to {max}"))
}

fn hashes(
    given: [(Algorithm, &str, Option<String>); 3],
) -> Result<Vec<(Algorithm, HexDigest)>, String> {
    let mut hashes = Vec::new();
    for (algorithm, field, value) in given {
        if let Some(value) = value {
            let digest = HexDigest::from_hex(algorithm, &value);
            let refusal = || format!("{field}: give {} hexadecimal digits", algorithm.digits());
            hashes.push((algorithm, digest.ok_or_else(refusal)?));
        }
    }
    Ok(hashes)
}

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
    fn a_range_holds_its_bounds_and_one_spelling_each() {
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
        let mut accounts = Accounts::default();
        accounts.add_range(range(0));
        accounts.add(single("d9")).unwrap();
        assert!(accounts.secret("d9") == Some(&Secret::plaintext("single")));
        assert!(accounts.secret("d10") == Some(&Secret::plaintext("range")));
    }

    #[test]
    fn a_user_can_be_there_once() {
        let mut accounts = Accounts::default();
        accounts.add(single("alice")).unwrap();
        let refusal = accounts.add(single("alice")).unwrap_err();
        assert_eq!(refusal, "user `alice` is there already");
    }

    #[test]
    fn hashes_have_the_length_of_their_algorithm() {
        const NONE: (Algorithm, &str, Option<String>) = (Algorithm::Sha256, "", None);
        let of = |value: &str| hashes([(Algorithm::Md5, "md5", Some(value.into())), NONE, NONE]);
        assert!(of(&"0".repeat(31)).is_err());
        assert!(of(&"g".repeat(32)).is_err());
        assert_eq!(of(&"A".repeat(32)).unwrap()[0].1.as_str(), "a".repeat(32));
    }
}
