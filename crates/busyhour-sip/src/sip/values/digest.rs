//! Digest credentials and challenges (RFC 3261 §22.4, RFC 7616).

use crate::sip::text::lex::Cursor;

/// What a client sends in Authorization or Proxy-Authorization. Quoted values
/// stand here without quotes, escapes included; absent ones are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the parameter of that name")]
pub struct DigestCredentials<'a> {
    pub username: &'a str,
    pub realm: &'a str,
    pub nonce: &'a str,
    pub uri: &'a str,
    pub response: &'a str,
    /// Empty means MD5.
    pub algorithm: &'a str,
    pub cnonce: &'a str,
    pub opaque: &'a str,
    /// Empty for the form of RFC 2069, without nonce count.
    pub qop: &'a str,
    /// Eight hexadecimal digits where `qop` stands.
    pub nc: &'a str,
}

/// What a server sends in WWW-Authenticate or Proxy-Authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the parameter of that name")]
pub struct DigestChallenge<'a> {
    pub realm: &'a str,
    pub nonce: &'a str,
    pub opaque: &'a str,
    /// Empty means MD5.
    pub algorithm: &'a str,
    /// The list as written; empty where none is offered.
    pub qop: &'a str,
    /// The nonce was too old, the secret was right.
    pub stale: bool,
}

impl<'a> DigestCredentials<'a> {
    /// Reads one value. `Some(None)` for another scheme than Digest, `None`
    /// when the grammar is broken or a mandatory parameter is absent. Nonce and response
    /// may both be empty: so a client of IMS names its user before it has a challenge
    /// (3GPP TS 24.229, 5.1.1.2).
    pub fn parse(text: &'a str) -> Option<Option<Self>> {
        let mut this = Self::default();
        let digest = each_parameter(text, |name, value| this.set(name, value))?;
        let is_named = ![this.username, this.realm, this.uri].contains(&"");
        let is_whole = is_named && this.nonce.is_empty() == this.response.is_empty();
        if !digest {
            return Some(None);
        }
        is_whole.then_some(Some(this))
    }

    /// The nonce count.
    pub fn nonce_count(&self) -> Option<u32> {
        u32::from_str_radix(self.nc, 16)
            .ok()
            .filter(|_| self.nc.len() == 8)
    }

    fn set(&mut self, name: &str, value: &'a str) {
        let field = match name.len() {
            2 if name.eq_ignore_ascii_case("nc") => &mut self.nc,
            3 if name.eq_ignore_ascii_case("uri") => &mut self.uri,
            3 if name.eq_ignore_ascii_case("qop") => &mut self.qop,
            5 if name.eq_ignore_ascii_case("realm") => &mut self.realm,
            5 if name.eq_ignore_ascii_case("nonce") => &mut self.nonce,
            6 if name.eq_ignore_ascii_case("cnonce") => &mut self.cnonce,
            6 if name.eq_ignore_ascii_case("opaque") => &mut self.opaque,
            8 if name.eq_ignore_ascii_case("username") => &mut self.username,
            8 if name.eq_ignore_ascii_case("response") => &mut self.response,
            9 if name.eq_ignore_ascii_case("algorithm") => &mut self.algorithm,
            _ => return,
        };
        *field = value;
    }
}

impl<'a> DigestChallenge<'a> {
    /// Reads one value. `Some(None)` for another scheme than Digest, `None`
    /// when the grammar is broken or the nonce is absent.
    pub fn parse(text: &'a str) -> Option<Option<Self>> {
        let mut this = Self::default();
        let digest = each_parameter(text, |name, value| this.set(name, value))?;
        if !digest {
            return Some(None);
        }
        (!this.nonce.is_empty()).then_some(Some(this))
    }

    /// Whether `auth` is among the offered qualities of protection.
    pub fn offers_auth(&self) -> bool {
        self.qop
            .split(',')
            .any(|qop| qop.trim().eq_ignore_ascii_case("auth"))
    }

    fn set(&mut self, name: &str, value: &'a str) {
        match name.to_ascii_lowercase().as_str() {
            "realm" => self.realm = value,
            "nonce" => self.nonce = value,
            "opaque" => self.opaque = value,
            "algorithm" => self.algorithm = value,
            "qop" => self.qop = value,
            "stale" => self.stale = value.eq_ignore_ascii_case("true"),
            _ => {}
        }
    }
}

/// Calls `set` for every parameter; `Some(false)` when the scheme is not Digest.
fn each_parameter<'a>(text: &'a str, mut set: impl FnMut(&str, &'a str)) -> Option<bool> {
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    if !cursor.token()?.eq_ignore_ascii_case("Digest") {
        return Some(false);
    }
    loop {
        cursor.skip_space();
        let name = cursor.token()?;
        if !cursor.eat_spaced(b'=') {
            return None;
        }
        set(name, cursor.value()?);
        cursor.skip_space();
        if cursor.is_end() {
            return Some(true);
        }
        if !cursor.eat(b',') {
            return None;
        }
    }
}
