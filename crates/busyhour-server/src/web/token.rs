//! Tokens for the HTTP interface; the server stores their hashes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read everything.
    Read,
    /// Read everything and change things.
    Write,
}

/// A token as the server stores it: by its hash.
///
/// ```
/// use busyhour_server::web::{Scope, Token};
///
/// let token = Token::new("shop", Scope::Write, "bh_secret");
/// let row = token.row();
/// assert!(!row.contains("bh_secret"));
/// assert_eq!(Token::of_row("shop", &row), Some(token.clone()));
/// let of_one = token.in_domain(Some("a.example".into()));
/// assert_eq!(Token::of_row("shop", &of_one.row()), Some(of_one));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The name that people use for it.
    pub name: String,
    /// What the token allows.
    pub scope: Scope,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
    /// The only domain that it is for.
    pub domain: Option<String>,
}

/// The value of the token's row in the store; the key is its name.
#[derive(Serialize, Deserialize)]
struct TokenRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<Scope>,
    sha256: [u8; 32],
    /// In place of the scope, so that a version that knows no such tokens ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope_in: Option<(String, Scope)>,
}

impl Token {
    /// The token `text` under a name.
    pub fn new(name: impl Into<String>, scope: Scope, text: &str) -> Self {
        Self {
            name: name.into(),
            scope,
            sha256: Sha256::digest(text).into(),
            domain: None,
        }
    }

    /// The same token for one domain alone, or for all.
    #[must_use]
    pub fn in_domain(self, domain: Option<String>) -> Self {
        Self { domain, ..self }
    }

    /// The row for the store.
    pub fn row(&self) -> String {
        let row = TokenRow {
            scope: self.domain.is_none().then_some(self.scope),
            sha256: self.sha256,
            scope_in: self.domain.clone().map(|domain| (domain, self.scope)),
        };
        serde_json::to_string(&row).unwrap_or_default()
    }

    /// Reads a row of the store; `None` if a newer version wrote it.
    pub fn of_row(name: &str, row: &str) -> Option<Self> {
        let row: TokenRow = serde_json::from_str(row).ok()?;
        let (domain, scope) = match row.scope_in {
            Some((domain, scope)) => (Some(domain), scope),
            None => (None, row.scope?),
        };
        Some(Self {
            name: name.to_owned(),
            scope,
            sha256: row.sha256,
            domain,
        })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({}, {:?})", self.name, self.scope)
    }
}
