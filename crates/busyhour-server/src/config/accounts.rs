use crate::{
    auth::{Algorithm, HexDigest},
    store::{self, AccountHash},
};
use serde::Deserialize;
use std::{collections::HashSet, fmt};

/// Who may register: single accounts and numbered ranges.
///
/// ```
/// use busyhour_server::config::{AccountRange, Accounts, Secret};
///
/// let mut accounts = Accounts::default();
/// accounts.add_range(AccountRange {
///     prefix: "device".into(),
///     first: 1,
///     count: 12_000,
///     digits: 0,
///     secret: Secret::Password("busyhour".into()),
/// });
/// let expanded = accounts.expand("busyhour");
/// assert_eq!(expanded.len(), 12_000);
/// assert_eq!(expanded[11_999].username, "device12000");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accounts {
    singles: Vec<Account>,
    /// The users of `singles`.
    users: HashSet<String>,
    ranges: Vec<AccountRange>,
}

/// One account, as `[[account]]` gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// The user part of its address of record, which is its digest user name too.
    pub user: String,
    /// What it proves itself with.
    pub secret: Secret,
}

/// Many accounts that differ in a number only, as `[[account_range]]` gives them.
#[derive(Debug, Clone, PartialEq)]
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

/// What an account proves itself with; never shown by `Debug`.
#[derive(Clone, PartialEq)]
pub enum Secret {
    /// The password itself: good for every algorithm.
    Password(String),
    /// Digests of `user:realm:password`, for the algorithms given.
    Hashes(Vec<(Algorithm, HexDigest)>),
}

impl Accounts {
    /// Adds one account.
    ///
    /// # Errors
    ///
    /// A sentence when the user is there already.
    pub fn add(&mut self, account: Account) -> Result<(), String> {
        if !self.users.insert(account.user.clone()) {
            return Err(format!("user `{}` is there already", account.user));
        }
        self.singles.push(account);
        Ok(())
    }

    /// Adds a range.
    pub fn add_range(&mut self, range: AccountRange) {
        self.ranges.push(range);
    }

    /// How many accounts there are; those in two ranges count twice.
    pub fn len(&self) -> u64 {
        let ranged: u64 = self.ranges.iter().map(|range| range.count).sum();
        ranged + self.singles.len() as u64
    }

    /// Whether nobody can register.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every account with its hashes in `realm`; of several for one user the
    /// single one counts, or else the first range's.
    pub fn expand(&self, realm: &str) -> Vec<store::Account> {
        let mut seen = HashSet::new();
        let singles = self.singles.iter().cloned();
        let ranged = self.ranges.iter().flat_map(AccountRange::accounts);
        singles
            .chain(ranged)
            .filter(|account| seen.insert(account.user.clone()))
            .map(|account| account.in_realm(realm))
            .collect()
    }

    pub(super) fn singles(&self) -> &[Account] {
        &self.singles
    }

    pub(super) fn ranges(&self) -> &[AccountRange] {
        &self.ranges
    }
}

impl Account {
    fn in_realm(self, realm: &str) -> store::Account {
        store::Account {
            hashes: self.secret.hashes(&self.user, realm),
            username: self.user,
            realm: realm.to_owned(),
        }
    }
}

impl AccountRange {
    fn accounts(&self) -> impl Iterator<Item = Account> {
        let numbers = self.first..self.first + self.count;
        numbers.map(|number| Account {
            user: format!("{}{number:0width$}", self.prefix, width = self.digits),
            secret: self.secret.clone(),
        })
    }
}

impl Secret {
    fn hashes(&self, user: &str, realm: &str) -> Vec<AccountHash> {
        match self {
            Self::Password(password) => {
                let parts = [user.as_bytes(), realm.as_bytes(), password.as_bytes()];
                let hash = |algorithm: Algorithm| account_hash(algorithm, algorithm.hash(&parts));
                Algorithm::ALL.into_iter().map(hash).collect()
            }
            Self::Hashes(hashes) => {
                let hash = |(algorithm, digest): &_| account_hash(*algorithm, *digest);
                hashes.iter().map(hash).collect()
            }
        }
    }
}

fn account_hash(algorithm: Algorithm, digest: HexDigest) -> AccountHash {
    AccountHash {
        algorithm: algorithm.name().to_owned(),
        hex: digest.as_str().to_owned(),
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(…)",
            Self::Hashes(_) => "Hashes(…)",
        })
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
    pub(super) fn check(self) -> Result<Account, String> {
        let user = user(self.user)?;
        let hashes = hashes([
            (Algorithm::Md5, "md5", self.md5),
            (Algorithm::Sha256, "sha256", self.sha256),
            (Algorithm::Sha512_256, "sha512_256", self.sha512_256),
        ])?;
        let secret = match (self.password, hashes.is_empty()) {
            (Some(password), true) => Secret::Password(not_empty(password)?),
            (None, false) => Secret::Hashes(hashes),
            _ => return Err(EITHER.into()),
        };
        Ok(Account { user, secret })
    }
}

impl RangeEntry {
    pub(super) fn check(self) -> Result<AccountRange, String> {
        within("count", self.count, 1, 10_000_000)?;
        within("first", self.first, 0, 1 << 53)?;
        within("digits", self.digits as u64, 0, 16)?;
        Ok(AccountRange {
            prefix: user(self.prefix)?,
            first: self.first,
            count: self.count,
            digits: self.digits,
            secret: Secret::Password(not_empty(self.password)?),
        })
    }
}

fn one() -> u64 {
    1
}

/// RFC 3261 user characters that need no escape, so that a name compares as written.
fn user(name: String) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(name);
    }
    Err(format!(
        "`{name}` is not a user name; give 1 to 64 letters, digits or {PLAIN}"
    ))
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

const EITHER: &str = "give either password or hashes (md5, sha256, sha512_256), not both";
const PLAIN: &str = "-_.!~*'()&=+$,;?/";

#[cfg(test)]
mod tests {
    use super::*;

    fn single(user: &str, password: &str) -> Account {
        Account {
            user: user.into(),
            secret: Secret::Password(password.into()),
        }
    }

    fn range(digits: usize) -> AccountRange {
        AccountRange {
            prefix: "d".into(),
            first: 9,
            count: 2,
            digits,
            secret: Secret::Password("range".into()),
        }
    }

    fn users(accounts: &Accounts) -> Vec<String> {
        let expanded = accounts.expand("r");
        expanded
            .into_iter()
            .map(|account| account.username)
            .collect()
    }

    #[test]
    fn a_range_numbers_its_users() {
        let mut accounts = Accounts::default();
        accounts.add_range(range(0));
        accounts.add_range(range(4));
        assert_eq!(users(&accounts), ["d9", "d10", "d0009", "d0010"]);
    }

    #[test]
    fn a_single_account_wins_over_a_range() {
        let mut accounts = Accounts::default();
        accounts.add_range(range(0));
        accounts.add(single("d9", "single")).unwrap();
        assert_eq!(users(&accounts), ["d9", "d10"]);
        let expected = Algorithm::Md5.hash(&[b"d9", b"r", b"single"]);
        let hashes = &accounts.expand("r")[0].hashes;
        assert!(hashes.iter().any(|hash| hash.hex == expected.as_str()));
    }

    #[test]
    fn a_user_can_be_there_once() {
        let mut accounts = Accounts::default();
        accounts.add(single("alice", "x")).unwrap();
        let refusal = accounts.add(single("alice", "y")).unwrap_err();
        assert_eq!(refusal, "user `alice` is there already");
    }

    #[test]
    fn secrets_stay_out_of_debug_output() {
        let shown = format!("{:?}", single("alice", "hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn hashes_have_the_length_of_their_algorithm() {
        let of = |value: &str| hashes([(Algorithm::Md5, "md5", Some(value.into())), NONE, NONE]);
        const NONE: (Algorithm, &str, Option<String>) = (Algorithm::Sha256, "", None);
        assert!(of(&"0".repeat(31)).is_err());
        assert!(of(&"g".repeat(32)).is_err());
        assert_eq!(of(&"A".repeat(32)).unwrap()[0].1.as_str(), "a".repeat(32));
    }
}
