use serde::Deserialize;
use std::{collections::HashMap, fmt};

/// Who may register: single accounts and numbered ranges.
///
/// ```
/// use busyhour_server::config::{Accounts, AccountRange, Secret};
///
/// let mut accounts = Accounts::default();
/// accounts.add_range(AccountRange {
///     prefix: "device".into(),
///     first: 1,
///     count: 12_000,
///     digits: 0,
///     secret: Secret::Password("busyhour".into()),
/// });
/// assert!(accounts.secret_of("device12000").is_some());
/// assert!(accounts.secret_of("device12001").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accounts {
    by_user: HashMap<String, Secret>,
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
///
/// A range costs the same memory whatever its count.
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
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself: good for every algorithm.
    Password(String),
    /// Digests of `user:realm:password` in lower-case hex, for the algorithms given.
    Hashes {
        /// For `algorithm=MD5`: 32 digits.
        md5: Option<String>,
        /// For `algorithm=SHA-256`: 64 digits.
        sha256: Option<String>,
        /// For `algorithm=SHA-512-256`: 64 digits.
        sha512_256: Option<String>,
    },
}

impl Accounts {
    /// Adds one account.
    ///
    /// # Errors
    ///
    /// A sentence when the user is there already.
    pub fn add(&mut self, account: Account) -> Result<(), String> {
        if self.by_user.contains_key(&account.user) {
            return Err(format!("user `{}` is there already", account.user));
        }
        self.by_user.insert(account.user, account.secret);
        Ok(())
    }

    /// Adds a range; where ranges overlap the first one counts, and single accounts before any.
    pub fn add_range(&mut self, range: AccountRange) {
        self.ranges.push(range);
    }

    /// The secret of `user`, if there is such an account.
    pub fn secret_of(&self, user: &str) -> Option<&Secret> {
        self.by_user.get(user).or_else(|| {
            let range = self.ranges.iter().find(|range| range.contains(user))?;
            Some(&range.secret)
        })
    }

    /// How many accounts there are, overlaps counted twice.
    pub fn len(&self) -> u64 {
        let ranged: u64 = self.ranges.iter().map(|range| range.count).sum();
        ranged + self.by_user.len() as u64
    }

    /// Whether nobody can register.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn singles(&self) -> Vec<(&String, &Secret)> {
        let mut singles: Vec<_> = self.by_user.iter().collect();
        singles.sort_by_key(|(user, _)| *user);
        singles
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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(…)",
            Self::Hashes { .. } => "Hashes(…)",
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
        let hashed = self.md5.is_some() || self.sha256.is_some() || self.sha512_256.is_some();
        let secret = match (self.password, hashed) {
            (Some(password), false) => Secret::Password(not_empty(password)?),
            (None, true) => Secret::Hashes {
                md5: hex("md5", 32, self.md5)?,
                sha256: hex("sha256", 64, self.sha256)?,
                sha512_256: hex("sha512_256", 64, self.sha512_256)?,
            },
            _ => return Err(EITHER.into()),
        };
        Ok(Account { user, secret })
    }
}

impl RangeEntry {
    pub(super) fn check(self) -> Result<AccountRange, String> {
        if !(1..=10_000_000).contains(&self.count) {
            return Err("count: give a whole number from 1 to 10000000".into());
        }
        if self.first > 1 << 53 {
            return Err("first: give a whole number from 0 to 9007199254740992".into());
        }
        if self.digits > 15 {
            return Err("digits: give a whole number from 0 to 15".into());
        }
        Ok(AccountRange {
            prefix: user(self.prefix)?,
            first: self.first,
            count: self.count,
            digits: self.digits,
            secret: Secret::Password(not_empty(self.password)?),
        })
    }
}

const EITHER: &str = "give either password or hashes (md5, sha256, sha512_256), not both";

fn one() -> u64 {
    1
}

/// RFC 3261 user characters that need no escape, so that a name compares as written.
fn user(name: String) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.!~*'()&=+$,;?/".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(name);
    }
    Err(format!(
        "`{name}` is not a user name; give 1 to 64 letters, digits or -_.!~*'()&=+$,;?/"
    ))
}

fn not_empty(password: String) -> Result<String, String> {
    if password.is_empty() {
        return Err("password: give at least one character".into());
    }
    Ok(password)
}

fn hex(field: &str, digits: usize, value: Option<String>) -> Result<Option<String>, String> {
    let Some(value) = value else {
        return Ok(None);
    };
    if value.len() == digits && value.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(Some(value.to_ascii_lowercase()));
    }
    Err(format!("{field}: give {digits} hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(digits: usize) -> AccountRange {
        AccountRange {
            prefix: "d".into(),
            first: 5,
            count: 10,
            digits,
            secret: Secret::Password("x".into()),
        }
    }

    #[test]
    fn a_range_holds_its_bounds_and_one_spelling_each() {
        assert!(range(0).contains("d5"));
        assert!(range(0).contains("d14"));
        for user in [
            "d4",
            "d15",
            "d05",
            "d+5",
            "d",
            "5",
            "D5",
            "d5 ",
            "d99999999999999999999",
        ] {
            assert!(!range(0).contains(user), "{user}");
        }
        assert!(range(4).contains("d0005"));
        assert!(!range(4).contains("d5"));
    }

    #[test]
    fn a_user_can_be_there_once() {
        let account = Account {
            user: "alice".into(),
            secret: Secret::Password("x".into()),
        };
        let mut accounts = Accounts::default();
        accounts.add(account.clone()).unwrap();
        assert_eq!(
            accounts.add(account).unwrap_err(),
            "user `alice` is there already"
        );
    }

    #[test]
    fn secrets_stay_out_of_debug_output() {
        let shown = format!("{:?}", Secret::Password("hunter2".into()));
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn hashes_have_the_length_of_their_algorithm() {
        assert!(hex("md5", 32, Some("0".repeat(31))).is_err());
        assert!(hex("md5", 32, Some("g".repeat(32))).is_err());
        assert_eq!(
            hex("md5", 32, Some("A".repeat(32))),
            Ok(Some("a".repeat(32)))
        );
    }
}
