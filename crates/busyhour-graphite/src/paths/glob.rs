use crate::{Error, error::Limit};

/// One alternative of a path pattern: no braces, and as many nodes as its matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(char),
    /// `?`: one character of a node.
    One,
    /// `*`: any number of characters of a node.
    Any,
    /// `[a-z]`, or `[!a-z]` for all others.
    Class(Vec<(char, char)>, bool),
}

impl Pattern {
    /// The patterns that `expression` stands for: one for each combination of
    /// what its braces hold.
    pub(crate) fn alternatives(expression: &str) -> Result<Vec<Self>, Error> {
        let braces = expression.matches('{').count();
        if expression.len() > PATTERN_LEN_MAX || braces > BRACES_MAX {
            let what = format!(
                "a pattern has {} bytes and {braces} braces (at most {PATTERN_LEN_MAX} and {BRACES_MAX}); ask for less at once",
                expression.len()
            );
            return Err(Error::TooLarge(Limit::Depth, what));
        }
        let mut expanded = vec![expression.to_owned()];
        while expanded.iter().any(|text| text.contains(['{', '}'])) {
            let mut next = Vec::new();
            for text in expanded {
                expand_first(text, &mut next)?;
            }
            if next.len() > ALTERNATIVES_MAX {
                let what = format!(
                    "{expression}: braces stand for more than {ALTERNATIVES_MAX} patterns; use * or fewer alternatives"
                );
                return Err(Error::TooLarge(Limit::Series, what));
            }
            expanded = next;
        }
        expanded.sort_unstable();
        expanded.dedup();
        Ok(expanded.into_iter().map(Self::new).collect())
    }

    fn new(text: String) -> Self {
        let tokens = tokens(&text);
        Self { text, tokens }
    }

    /// How many nodes it has.
    pub(crate) fn depth(&self) -> usize {
        self.text.matches('.').count() + 1
    }

    /// What every match begins with.
    pub(crate) fn literal_prefix(&self) -> &str {
        let end = self.text.find(['*', '?', '[', ']']);
        &self.text[..end.unwrap_or(self.text.len())]
    }

    /// Whether the whole of `path` is a match. Takes at most the product of the
    /// lengths: a later star makes the earlier ones settled.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let (mut token, mut rest) = (0, path.chars());
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            if let Some(Token::Any) = self.tokens.get(token) {
                token += 1;
                retry = Some((token, rest.clone()));
                continue;
            }
            let mut after = rest.clone();
            let is_match = match (self.tokens.get(token), after.next()) {
                (None, None) => return true,
                (Some(expected), Some(c)) => expected.takes(c),
                _ => false,
            };
            if is_match {
                (token, rest) = (token + 1, after);
                continue;
            }
            // The last star takes one more character, if it may.
            let Some((after_star, mut longer)) = retry.take() else {
                return false;
            };
            if longer.next().is_none_or(|c| c == '.') {
                return false;
            }
            (token, rest) = (after_star, longer.clone());
            retry = Some((after_star, longer));
        }
    }
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == c,
            Self::One | Self::Any => c != '.',
            Self::Class(ranges, is_negated) => {
                let is_in = ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&c));
                c != '.' && is_in != *is_negated
            }
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        tokens.push(match c {
            '*' => Token::Any,
            '?' => Token::One,
            '[' => match class(rest.as_str()) {
                Some((class, after)) => {
                    rest = after.chars();
                    class
                }
                None => Token::Literal('['),
            },
            c => Token::Literal(c),
        });
    }
    tokens
}

/// What stands after `[`, up to its `]`; `None` when there is none.
fn class(text: &str) -> Option<(Token, &str)> {
    let (inside, after) = text
        .split_once(']')
        .filter(|(inside, _)| !inside.is_empty())?;
    let is_negated = inside.starts_with(['!', '^']);
    let mut chars = inside.chars().skip(usize::from(is_negated)).peekable();
    let mut ranges = Vec::new();
    while let Some(first) = chars.next() {
        let mut ahead = chars.clone();
        let last = ahead.next_if_eq(&'-').and_then(|_| ahead.next());
        if last.is_some() {
            chars = ahead;
        }
        ranges.push((first, last.unwrap_or(first)));
    }
    Some((Token::Class(ranges, is_negated), after))
}

/// Replaces the first innermost braces of `text` by each of their alternatives.
fn expand_first(text: String, out: &mut Vec<String>) -> Result<(), Error> {
    let Some(end) = text.find('}') else {
        return unclosed(text, out);
    };
    let Some(begin) = text[..end].rfind('{') else {
        return Err(Error::request(format!("{text}: a }} without its {{")));
    };
    let (before, after) = (&text[..begin], &text[end + 1..]);
    for alternative in text[begin + 1..end].split(',') {
        if out.len() > ALTERNATIVES_MAX {
            break;
        }
        out.push(format!("{before}{alternative}{after}"));
    }
    Ok(())
}

/// A text without a closing brace may not have an opening one either.
fn unclosed(text: String, out: &mut Vec<String>) -> Result<(), Error> {
    if text.contains('{') {
        return Err(Error::request(format!("{text}: a {{ without its }}")));
    }
    out.push(text);
    Ok(())
}

/// More than any dashboard needs; each alternative is one walk over the paths with its
/// prefix.
const ALTERNATIVES_MAX: usize = 256;
/// Each takes a round over all alternatives.
const BRACES_MAX: usize = 32;
const PATTERN_LEN_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_match(pattern: &str, path: &str) -> bool {
        let patterns = Pattern::alternatives(pattern).unwrap();
        patterns.iter().any(|pattern| pattern.matches(path))
    }

    #[test]
    fn wildcards_stay_within_a_node() {
        for (pattern, path, expected) in [
            ("a.*.c", "a.b.c", true),
            ("a.*", "a.b.c", false),
            ("a.*b*", "a.xbx", true),
            ("a.*b*", "a.xx", false),
            ("a.b?", "a.bc", true),
            ("a.b?", "a.b", false),
            ("a.b?c", "a.b.c", false),
            ("[a-c]x[0-9]", "bx7", true),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "ax", false),
            ("web.{one,two*}", "web.two2", true),
            ("web.{one,two}", "web.three", false),
            ("{a,b{c,d}}.x", "bd.x", true),
            ("{a.b,c}.x", "a.b.x", true),
            ("a.", "a.", true),
            ("[x", "[x", true),
        ] {
            assert_eq!(is_match(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn braces_are_bounded_and_balanced() {
        let many = "{a,b}".repeat(20);
        assert!(matches!(
            Pattern::alternatives(&many),
            Err(Error::TooLarge(..))
        ));
        for text in ["{a", "a}", "}{"] {
            assert!(
                matches!(Pattern::alternatives(text), Err(Error::Request(_))),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_path_matches_itself_with_inserted_stars(path in "[a-c.]{0,12}", at in 0usize..13, end in 0usize..13) {
            let (at, end) = (at.min(path.len()), end.min(path.len()));
            prop_assume!(at <= end && !path[at..end].contains('.'));
            let pattern = format!("{}*{}", &path[..at], &path[end..]);
            prop_assert!(is_match(&pattern, &path));
        }

        #[test]
        fn no_input_makes_it_panic(pattern in "\\PC{0,24}", path in "\\PC{0,24}") {
            if let Ok(patterns) = Pattern::alternatives(&pattern) {
                for pattern in patterns {
                    pattern.matches(&path);
                    pattern.literal_prefix();
                }
            }
        }
    }
}
