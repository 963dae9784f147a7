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
/// assert_eq!(Token::of_row("shop", &row), Some(token));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The name that people use for it.
    pub name: String,
    /// What the token allows.
    pub scope: Scope,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
}

/// The value of the token's row in the store; the key is its name.
#[derive(Serialize, Deserialize)]
struct TokenRow {
    scope: Scope,
    sha256: [u8; 32],
}

impl Token {
    /// The token `text` under a name.
    pub fn new(name: impl Into<String>, scope: Scope, text: &str) -> Self {
        Self {
            name: name.into(),
            scope,
            sha256: Sha256::digest(text).into(),
        }
    }

    /// The row for the store.
    pub fn row(&self) -> String {
        let (scope, sha256) = (self.scope, self.sha256);
        serde_json::to_string(&TokenRow { scope, sha256 }).unwrap_or_default()
    }

    /// Reads a row of the store; `None` if a newer version wrote it.
    pub fn of_row(name: &str, row: &str) -> Option<Self> {
        let TokenRow { scope, sha256 } = serde_json::from_str(row).ok()?;
        let name = name.to_owned();
        Some(Self {
            name,
            scope,
            sha256,
        })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({}, {:?})", self.name, self.scope)
    }
}
