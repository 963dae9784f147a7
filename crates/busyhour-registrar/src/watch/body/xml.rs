//! Text that may stand in XML.

use std::fmt::{self, Display, Formatter, Write};

/// Shows text so that it may stand in an attribute or between tags. Characters
/// that XML 1.0 cannot hold become U+FFFD.
pub(in crate::watch) struct Escaped<'a>(pub(in crate::watch) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                control if control < ' ' || control == '\u{fffe}' || control == '\u{ffff}' => {
                    f.write_char(char::REPLACEMENT_CHARACTER)?;
                }
                plain => f.write_char(plain)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        let text = Escaped("<a b=\"c\">&'\u{1}é").to_string();
        assert_eq!(text, "&lt;a b=&quot;c&quot;&gt;&amp;&apos;\u{fffd}é");
    }
}
