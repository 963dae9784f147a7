use crate::{Error, Limits, request::parser};

/// One target, parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A path with wildcards.
    Path(String),
    /// A function and its arguments.
    Call(Call),
    /// A number, and whether it was written as a whole one, which names of results show.
    Number(f64, bool),
    /// What stood between quotes.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// `None`.
    Nothing,
}

/// A function and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// As it was written.
    pub name: String,
    /// In the order they were written.
    pub arguments: Vec<Argument>,
}

/// One argument of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// Given by name, as in `func='max'`.
    pub name: Option<String>,
    /// Its value.
    pub value: Expression,
}

impl Expression {
    /// Reads a target: `scale(web.*.hits,10)`, or with pipes `web.*.hits|scale(10)`.
    ///
    /// # Errors
    ///
    /// [`Error::Request`] with the place of a mistake, [`Error::TooLarge`] when
    /// it is longer or deeper than allowed.
    ///
    /// ```
    /// use busyhour_graphite::{Expression, Limits};
    ///
    /// let limits = Limits::default();
    /// assert_eq!(
    ///     Expression::parse("a.*|scale(10)", &limits),
    ///     Expression::parse("scale(a.*, 10)", &limits),
    /// );
    /// let mistake = Expression::parse("scale(a.*", &limits).unwrap_err();
    /// assert_eq!(mistake.to_string(), "target `scale(a.*`, character 10: expected , or )");
    /// ```
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, Error> {
        parser::parse(text, limits)
    }
}
