use super::entry::{Reported, TableEntry};
use crate::web::{Scope, Token};

/// Reads a `[[token]]`.
pub(in crate::config) fn read(entry: &mut TableEntry<'_>) -> Result<Token, Reported> {
    let name = entry
        .required("name", TableEntry::text)
        .and_then(|name| entry.check(name_of(name)));
    let scope = entry
        .required("scope", TableEntry::text)
        .and_then(|text| entry.check(scope(&text)));
    let sha256 = entry
        .required("sha256", TableEntry::text)
        .and_then(|text| entry.check(sha256(&text).ok_or(NO_HASH.into())));
    let domain = entry.text("domain");
    Ok(Token {
        name: name?,
        scope: scope?,
        sha256: sha256?,
        domain: domain?,
    })
}

/// Writes thirty-two bytes in hexadecimal digits.
pub(in crate::config) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name_of(text: String) -> Result<String, String> {
    match (1..=NAME_LEN_MAX).contains(&text.len()) {
        true => Ok(text),
        false => Err(format!("name: give 1 to {NAME_LEN_MAX} characters")),
    }
}

fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "read" => Ok(Scope::Read),
        "write" => Ok(Scope::Write),
        other => Err(format!(
            "scope: `{other}` is not allowed; give one of: read, write"
        )),
    }
}

fn sha256(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

pub(in crate::config) const FIELDS: &[&str] = &["name", "scope", "sha256", "domain"];
const NAME_LEN_MAX: usize = 64;
const NO_HASH: &str = "sha256: give 64 hexadecimal digits; `busyhour token NAME` prints them";

#[cfg(test)]
mod tests {
    use crate::{
        config::{Config, Overrides},
        web::{Scope, Token},
    };

    fn parse(text: &str) -> Result<Vec<Token>, String> {
        let parsed = Config::parse("f.toml", text, &Overrides::default());
        parsed
            .map(|loaded| loaded.config.tokens)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_printed_token_is_read_as_the_same_token() {
        let tokens = vec![Token::new("shop", Scope::Write, "secret")];
        let mut loaded = Config::parse("f.toml", "", &Overrides::default()).unwrap();
        loaded.config.tokens = tokens.clone();
        assert_eq!(parse(&loaded.print()).unwrap(), tokens);
    }

    #[test]
    fn mistakes_name_the_field() {
        let entry = |scope: &str, hash: &str| {
            let text =
                format!("[[token]]\nname = \"x\"\nscope = \"{scope}\"\nsha256 = \"{hash}\"\n");
            parse(&text).unwrap_err()
        };
        assert!(entry("all", "00").contains("f.toml:1:1: token: scope: `all` is not allowed"));
        assert!(entry("read", "00").contains("token: sha256: give 64"));
        assert!(entry("read", &"x".repeat(64)).contains("token: sha256: give 64"));
    }
}
