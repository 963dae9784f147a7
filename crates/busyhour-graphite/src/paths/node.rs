use std::fmt::Write;

/// Any name as one node of a path.
///
/// Letters, digits, `_` and `-` stand for themselves; every other byte is `~`
/// and two hexadecimal digits, so that dots, spaces, slashes and glob characters
/// of a device's or a disk's name cannot be taken for anything else, and no two
/// names become one.
///
/// ```
/// use busyhour_graphite::{node, unescaped};
///
/// assert_eq!(node("cpu0"), "cpu0");
/// assert_eq!(node("/dev/sda 1.5"), "~2Fdev~2Fsda~201~2E5");
/// assert_eq!(unescaped("~2Fdev~2Fsda~201~2E5"), "/dev/sda 1.5");
/// ```
pub fn node(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "~{byte:02X}");
        }
    }
    out
}

/// The name that a node stands for; what is no escape stays as it is.
pub fn unescaped(node: &str) -> String {
    let mut bytes = Vec::with_capacity(node.len());
    let mut rest = node.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = tail
            .get(..2)
            .filter(|_| *first == b'~')
            .and_then(hexadecimal);
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_name_is_restored(name in "\\PC{0,20}") {
            let escaped = node(&name);
            prop_assert!(escaped.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-~".contains(&byte)));
            prop_assert_eq!(unescaped(&escaped), name);
        }
    }
}
