use crate::{Error, parse_time};

/// The parameters of a request: the pairs of its URL, then those of its form.
///
/// Grafana sends some in one place and some in the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the query of a URL (after `?`) and a body of the type
    /// `application/x-www-form-urlencoded`. Text that is not a pair is ignored.
    ///
    /// ```
    /// use busyhour_graphite::Parameters;
    ///
    /// let parameters = Parameters::parse("from=-1h", b"target=a.*&target=b");
    /// assert_eq!(parameters.get("from"), Some("-1h"));
    /// assert_eq!(parameters.all("target").collect::<Vec<_>>(), ["a.*", "b"]);
    /// ```
    pub fn parse(query: &str, form: &[u8]) -> Self {
        let pairs = [query.as_bytes(), form]
            .into_iter()
            .flat_map(form_urlencoded::parse);
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The last value given for `name`, unless it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).last().filter(|value| !value.is_empty())
    }

    /// Every value given for `name`; PHP's way of writing lists, `name[]`, counts too.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let is_it = move |found: &str| found.strip_suffix("[]").unwrap_or(found) == name;
        self.0
            .iter()
            .filter(move |(found, _)| is_it(found))
            .map(|(_, value)| value.as_str())
    }

    /// Whether `name` is given and means yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !matches!(value, "0" | "false" | "no"))
    }

    /// A whole number in a range, if given.
    pub(crate) fn whole(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        // Grafana may send the width of a panel as a fraction.
        let whole = text.split('.').next().unwrap_or_default().parse().ok();
        let whole = whole.filter(|whole| (min..=max).contains(whole));
        whole.map(Some).ok_or_else(|| {
            Error::Request(format!(
                "{name}: `{text}` is not allowed; give a whole number from {min} to {max}"
            ))
        })
    }

    pub(crate) fn time(&self, name: &str, default: &str, now: i64) -> Result<i64, Error> {
        let text = self.get(name).unwrap_or(default);
        parse_time(text, now).map_err(|error| Error::Request(format!("{name}: {error}")))
    }
}
