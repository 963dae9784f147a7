use crate::config::file::nearest;
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// One element of an array of tables, read field by field, so that no mistake hides another.
pub(in crate::config) struct TableEntry<'e> {
    table: &'e DeTable<'e>,
    span: Range<usize>,
    /// Fields whose names in the file are almost right.
    misspelt: Vec<&'static str>,
    mistakes: Vec<Mistake>,
}

/// A mistake: its place in the file, and what is wrong.
pub(in crate::config) type Mistake = (Range<usize>, String);

/// There is no value; the mistake was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) struct Reported;

impl<'e> TableEntry<'e> {
    /// Reports every field that is not one of `known`.
    pub(in crate::config) fn new(
        element: &'e Spanned<DeValue<'e>>,
        known: &[&'static str],
    ) -> Result<Self, Mistake> {
        let Some(table) = element.get_ref().as_table() else {
            return Err((element.span(), "write it as a table".into()));
        };
        let mut entry = Self {
            table,
            span: element.span(),
            misspelt: Vec::new(),
            mistakes: Vec::new(),
        };
        let names = table.keys();
        for name in names.filter(|name| !known.contains(&name.get_ref().as_ref())) {
            entry.unknown(name.get_ref(), name.span(), known);
        }
        Ok(entry)
    }

    /// A text, if it is given.
    pub(in crate::config) fn text(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, Reported> {
        self.value(field, "a text in quotes", |value| {
            value.as_str().map(str::to_owned)
        })
    }

    /// A whole number of zero or more, if it is given.
    pub(in crate::config) fn whole(
        &mut self,
        field: &'static str,
    ) -> Result<Option<u64>, Reported> {
        self.value(field, "a whole number", |value| {
            let number = value.as_integer()?;
            u64::from_str_radix(number.as_str(), number.radix()).ok()
        })
    }

    /// `true` or `false`, if it is given.
    pub(in crate::config) fn yes_or_no(
        &mut self,
        field: &'static str,
    ) -> Result<Option<bool>, Reported> {
        self.value(field, "true or false", |value| value.as_bool())
    }

    /// Any number of texts, if they are given.
    pub(in crate::config) fn texts(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Vec<String>>, Reported> {
        self.value(field, "texts in quotes, in brackets", |value| {
            let texts = value.as_array()?.iter();
            texts
                .map(|text| text.get_ref().as_str().map(str::to_owned))
                .collect()
        })
    }

    /// The value of `field`, which must be given.
    pub(in crate::config) fn required<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> Result<Option<T>, Reported>,
    ) -> Result<T, Reported> {
        match read(self, field)? {
            Some(value) => Ok(value),
            None => Err(self.mistake(format!("{field} is missing"))),
        }
    }

    /// Returns a valid value, or else adds a mistake.
    pub(in crate::config) fn check<T>(
        &mut self,
        checked: Result<T, String>,
    ) -> Result<T, Reported> {
        checked.map_err(|message| self.mistake(message))
    }

    /// Adds a mistake in the entry as a whole.
    pub(in crate::config) fn mistake(&mut self, message: impl Into<String>) -> Reported {
        self.mistakes.push((self.span.clone(), message.into()));
        Reported
    }

    /// # Errors
    ///
    /// If a mistake was found.
    pub(in crate::config) fn sound(&self) -> Result<(), Reported> {
        match self.mistakes.is_empty() {
            true => Ok(()),
            false => Err(Reported),
        }
    }

    pub(in crate::config) fn into_mistakes(self) -> Vec<Mistake> {
        self.mistakes
    }

    fn value<T>(
        &mut self,
        field: &'static str,
        wanted: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<T>, Reported> {
        let Some(value) = self.table.get(field) else {
            return match self.misspelt.contains(&field) {
                true => Err(Reported),
                false => Ok(None),
            };
        };
        if let Some(value) = read(value.get_ref()) {
            return Ok(Some(value));
        }
        // The value itself may be a password.
        let found = value.get_ref().type_str();
        let message = format!("{field}: found {found}; give {wanted}");
        self.mistakes.push((value.span(), message));
        Err(Reported)
    }

    fn unknown(&mut self, found: &str, span: Range<usize>, known: &[&'static str]) {
        let near = nearest(found, known);
        self.misspelt.extend(near);
        let hint = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        let known = known.join(", ");
        let message = format!("unknown field `{found}`{hint}; there are: {known}");
        self.mistakes.push((span, message));
    }
}
