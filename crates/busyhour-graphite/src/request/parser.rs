use crate::{Argument, Call, Error, Expression, Limits, error::Limit};

pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Expression, Error> {
    if text.len() > limits.expression_len_max {
        let (found, max) = (text.len(), limits.expression_len_max);
        let what = format!("a target has {found} bytes (at most {max}); split it into several");
        return Err(Error::TooLarge(Limit::Depth, what));
    }
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        depth_max: limits.depth_max,
    };
    let expression = parser.pipeline()?;
    parser.end()?;
    Ok(expression)
}

struct Parser<'a> {
    text: &'a str,
    /// In bytes.
    at: usize,
    depth: usize,
    depth_max: usize,
}

impl<'a> Parser<'a> {
    /// `path|f(..)|g(..)` is `g(f(path, ..), ..)`.
    fn pipeline(&mut self) -> Result<Expression, Error> {
        let outer = self.depth;
        self.deeper()?;
        let mut expression = self.value()?;
        while self.take('|') {
            self.deeper()?;
            let Expression::Call(mut call) = self.value()? else {
                return Err(self.mistake("expected a function after |"));
            };
            let value = expression;
            call.arguments.insert(0, Argument { name: None, value });
            expression = Expression::Call(call);
        }
        self.depth = outer;
        Ok(expression)
    }

    fn value(&mut self) -> Result<Expression, Error> {
        self.skip_spaces();
        match self.peek() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote).map(Expression::Text),
            Some(_) => self.word(),
            None => Err(self.mistake("expected a path or a function")),
        }
    }

    /// A number, a word, a call or a path: they begin alike.
    fn word(&mut self) -> Result<Expression, Error> {
        let begin = self.at;
        let path = self.path();
        if path.is_empty() {
            return Err(self.mistake("expected a path or a function"));
        }
        if self.peek() == Some('(') {
            return self.call(begin, path);
        }
        Ok(plain(path))
    }

    fn call(&mut self, begin: usize, name: &str) -> Result<Expression, Error> {
        if !is_name(name) {
            self.at = begin;
            return Err(self.mistake("a function's name has only letters, digits and _"));
        }
        self.take('(');
        let mut arguments = Vec::new();
        if !self.take(')') {
            loop {
                arguments.push(self.argument()?);
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return Err(self.mistake("expected , or )"));
                }
            }
        }
        let name = name.to_owned();
        Ok(Expression::Call(Call { name, arguments }))
    }

    fn argument(&mut self) -> Result<Argument, Error> {
        self.skip_spaces();
        let begin = self.at;
        let name = self.path();
        if is_name(name) && self.take('=') {
            let name = Some(name.to_owned());
            let value = self.pipeline()?;
            return Ok(Argument { name, value });
        }
        self.at = begin;
        let value = self.pipeline()?;
        Ok(Argument { name: None, value })
    }

    /// Up to what cannot be part of a path; within braces commas can.
    fn path(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let mut braces = 0_usize;
        let mut end = rest.len();
        for (at, c) in rest.char_indices() {
            match c {
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                ',' if braces > 0 => {}
                ',' | '(' | ')' | '|' | '=' | '"' | '\'' => {
                    end = at;
                    break;
                }
                c if c.is_whitespace() || c.is_control() => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        self.at += end;
        &rest[..end]
    }

    fn quoted(&mut self, quote: char) -> Result<String, Error> {
        let inside = &self.text[self.at + 1..];
        let Some(end) = inside.find(quote) else {
            return Err(self.mistake("a quote that does not end"));
        };
        self.at += end + 2;
        Ok(inside[..end].to_owned())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.skip_spaces();
        match self.peek() {
            None => Ok(()),
            Some(c) => Err(self.mistake(&format!("`{c}` does not belong here"))),
        }
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth <= self.depth_max {
            return Ok(());
        }
        let max = self.depth_max;
        let what = format!("a target has calls within calls deeper than {max}; use fewer");
        Err(Error::TooLarge(Limit::Depth, what))
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        is_there
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn mistake(&self, what: &str) -> Error {
        let column = self.text[..self.at].chars().count() + 1;
        let shown: String = self.text.chars().take(SHOWN_LEN_MAX).collect();
        Error::Request(format!("target `{shown}`, character {column}: {what}"))
    }
}

/// A word that is neither quoted nor called.
fn plain(word: &str) -> Expression {
    match word.to_ascii_lowercase().as_str() {
        "true" => return Expression::Flag(true),
        "false" => return Expression::Flag(false),
        "none" => return Expression::Nothing,
        _ => {}
    }
    // Words that Rust would parse as numbers, such as `inf`, are paths.
    let is_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let number = is_number.then(|| word.parse::<f64>().ok()).flatten();
    let is_whole = !word.contains(['.', 'e', 'E']);
    match number.filter(|number| number.is_finite()) {
        Some(number) => Expression::Number(number, is_whole),
        None => Expression::Path(word.to_owned()),
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_part)
}

/// Of a target in a message about it.
const SHOWN_LEN_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Expression, Error> {
        parse(text, &Limits::default())
    }

    fn path(text: &str) -> Argument {
        let value = Expression::Path(text.into());
        Argument { name: None, value }
    }

    #[test]
    fn values_of_each_kind_are_distinguished() {
        let Expression::Call(call) =
            parsed("f(a.{b,c}.*, -1.5 ,10,'x, y',true,None,w=\"z\",1min.x)").unwrap()
        else {
            panic!("no call");
        };
        let values: Vec<_> = call
            .arguments
            .iter()
            .map(|argument| &argument.value)
            .collect();
        assert_eq!(*values[0], Expression::Path("a.{b,c}.*".into()));
        assert_eq!(*values[1], Expression::Number(-1.5, false));
        assert_eq!(*values[2], Expression::Number(10.0, true));
        assert_eq!(*values[3], Expression::Text("x, y".into()));
        assert_eq!(*values[4], Expression::Flag(true));
        assert_eq!(*values[5], Expression::Nothing);
        assert_eq!(call.arguments[6].name.as_deref(), Some("w"));
        assert_eq!(*values[7], Expression::Path("1min.x".into()));
    }

    #[test]
    fn calls_nest_and_pipe() {
        let inner = Call {
            name: "g".into(),
            arguments: vec![path("a")],
        };
        let value = Expression::Call(inner);
        let outer = Call {
            name: "f".into(),
            arguments: vec![Argument { name: None, value }],
        };
        assert_eq!(parsed("f(g(a))"), Ok(Expression::Call(outer.clone())));
        assert_eq!(parsed("a | g() | f()"), Ok(Expression::Call(outer)));
    }

    #[test]
    fn errors_name_their_position() {
        for (text, place) in [
            ("", 1),
            ("f(a", 4),
            ("f(a))", 5),
            ("f('a", 3),
            ("a|b", 4),
            ("a b", 3),
            ("a.b(c)", 1),
            ("f(,)", 3),
        ] {
            let message = parsed(text).unwrap_err().to_string();
            assert!(
                message.contains(&format!("character {place}: ")),
                "{message}"
            );
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        for text in [
            "f(".repeat(40),
            "a".to_owned() + &"|f()".repeat(40),
            "a".repeat(20_000),
        ] {
            assert!(matches!(
                parsed(&text),
                Err(Error::TooLarge(Limit::Depth, _))
            ));
        }
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(text in "[a-c0-9.*{}()|,='\" ]{0,40}|\\PC{0,20}") {
            let _ = parsed(&text);
        }
    }
}
