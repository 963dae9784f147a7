//! A domain with accounts of its own, and how it writes the names of its users.

use std::borrow::Cow;

/// A domain that is served beside the others: its accounts are its own, or the server's.
///
/// ```
/// use busyhour_registrar::Tenant;
///
/// let tenant = Tenant { aliases: vec!["www.a.example".into()], ..Tenant::new("a.example") };
/// assert_eq!(tenant.realm, "a.example");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tenant {
    /// The host of its addresses of record, in lower case.
    pub name: String,
    /// The realm of its digest challenges.
    pub realm: String,
    /// Other hosts that mean the same domain, in lower case.
    pub aliases: Vec<String>,
    /// Whether its users are the accounts of the server itself, as it is with a domain of
    /// `sip.domains`.
    pub has_server_accounts: bool,
    /// How it writes the names of its users.
    pub names: UserNames,
}

/// How user parts are written, so that one person has one address of record.
///
/// ```
/// use busyhour_registrar::UserNames;
///
/// let names = UserNames { fold_case: true, phone_numbers: true, country_code: "49".into() };
/// assert_eq!(names.written("Alice"), "alice");
/// assert_eq!(names.written("+49-(30)-123.456"), "+4930123456");
/// assert_eq!(names.written("0049 30 123"), "0049 30 123", "a space is no separator of a URI");
/// assert_eq!(names.written("004930123"), "+4930123");
/// assert_eq!(names.written("030123"), "+4930123");
/// assert_eq!(names.written("100"), "100", "an extension");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserNames {
    /// Upper and lower case mean the same. RFC 3261 §19.1.4 tells them apart.
    pub fold_case: bool,
    /// Telephone numbers are the same with visual separators (RFC 3966 §5.1.1) and without.
    pub phone_numbers: bool,
    /// `00` stands for `+` before a number, and `0` for `+` with this country code; empty:
    /// they stand for themselves.
    pub country_code: String,
}

impl Tenant {
    /// A domain with accounts of its own, whose realm is its name.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            realm: name.clone(),
            name,
            ..Self::default()
        }
    }
}

impl UserNames {
    /// Whether each name stands for itself.
    pub fn are_exact(&self) -> bool {
        !self.fold_case && !self.phone_numbers
    }

    /// The name as it is written here.
    pub fn written<'u>(&self, user: &'u str) -> Cow<'u, str> {
        if self.phone_numbers && is_phone_number(user) {
            return self.number(user);
        }
        match self.fold_case && user.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(user.to_ascii_lowercase()),
            false => Cow::Borrowed(user),
        }
    }

    fn number<'u>(&self, user: &'u str) -> Cow<'u, str> {
        let subscriber = user.split(';').next().unwrap_or(user);
        let digits: String = subscriber
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == '+')
            .collect();
        let code = &self.country_code;
        let full = match (code.is_empty(), digits.strip_prefix("00")) {
            (true, _) => digits,
            (false, Some(rest)) => format!("+{rest}"),
            (false, None) => match digits.strip_prefix('0') {
                Some(rest) if !rest.is_empty() => format!("+{code}{rest}"),
                _ => digits,
            },
        };
        match full == user {
            true => Cow::Borrowed(user),
            false => Cow::Owned(full),
        }
    }
}

/// Digits, with a plus before them and visual separators among them; parameters of the
/// number may follow (RFC 3966 §3).
fn is_phone_number(user: &str) -> bool {
    let subscriber = user.split(';').next().unwrap_or(user);
    let rest = subscriber.strip_prefix('+').unwrap_or(subscriber);
    let is_one = |c: char| c.is_ascii_digit() || "-.()".contains(c);
    rest.chars().all(is_one) && rest.chars().any(|c| c.is_ascii_digit())
}
