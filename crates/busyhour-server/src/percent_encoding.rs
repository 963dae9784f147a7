//! Percent-encoding (RFC 3986 §2.1) of texts that become parts of a URL.

use std::fmt::Write;

/// Appends a text with all but unreserved characters encoded.
pub(crate) fn put_percent_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing into a text does not fail.
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay_as_they_are() {
        let mut out = String::from("/");
        put_percent_encoded(&mut out, "a-Z_.~9 /?%é");
        assert_eq!(out, "/a-Z_.~9%20%2F%3F%25%C3%A9");
    }
}
