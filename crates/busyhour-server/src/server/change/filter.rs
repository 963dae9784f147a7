//! Which changes a reader wants: patterns of records, of which one must match.

use super::element::{
    CALLED_USER, CALLEE, CALLEE_USER, CALLER, ChangeKind, ElementShape, TO, USER, element_named,
};
use busyhour::bus::{Name, Record, RecordPattern, Value};

/// What a reader of changes asks for; everything by default.
#[derive(Debug, Clone, Default)]
pub struct ChangeFilter {
    /// A record that matches none is not told; if there is none, all are. They differ in
    /// kind and in whom they are about, so there are few.
    patterns: Vec<RecordPattern>,
    /// What each record must have besides.
    having: RecordPattern,
    /// Nothing is told of other domains.
    domain: Option<Box<str>>,
}

impl ChangeFilter {
    /// Reads the parameters of a request, each of which may be absent.
    ///
    /// - `kinds`: names of kinds with commas between them; a record must be of one of them;
    /// - `user`: a user part, or an address of record: whom the record is about, or who calls,
    ///   is called or answers;
    /// - `having`: with commas between them, names of elements that a record must have, or
    ///   names with `=` and a value; at most 16.
    ///
    /// # Errors
    ///
    /// A line that says what is wrong, and what is allowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour_server::server::ChangeFilter;
    ///
    /// assert!(ChangeFilter::read(Some("call,device"), Some("alice"), Some("line=ringing")).is_ok());
    /// let refused = ChangeFilter::read(Some("calls"), None, None).unwrap_err();
    /// assert!(refused.starts_with("kind: `calls` is not one of registration, device, "));
    /// ```
    pub fn read(
        kinds: Option<&str>,
        user: Option<&str>,
        having: Option<&str>,
    ) -> Result<Self, String> {
        let mut patterns = vec![RecordPattern::new()];
        if let Some(kinds) = kinds {
            patterns.clear();
            for kind in kinds.split(',') {
                let pattern = of_kind(kind)?;
                if !patterns.contains(&pattern) {
                    patterns.push(pattern);
                }
            }
        }
        if let Some(user) = user {
            let with_user = patterns.iter().flat_map(|pattern| of_user(pattern, user));
            patterns = with_user.collect();
        }
        patterns.retain(|pattern| *pattern != RecordPattern::new());
        let mut conditions = having.iter().flat_map(|having| having.split(','));
        let having = conditions
            .by_ref()
            .take(CONDITIONS_MAX)
            .try_fold(RecordPattern::new(), with_element)?;
        match conditions.next() {
            Some(_) => Err(format!("having: at most {CONDITIONS_MAX} conditions")),
            None => Ok(Self {
                patterns,
                having,
                domain: None,
            }),
        }
    }

    /// Only what one domain may know: what becomes of its own devices, mailboxes and extensions,
    /// and the calls that a device of its takes part in.
    #[must_use]
    pub fn within(mut self, domain: &str) -> Self {
        self.domain = Some(domain.into());
        self
    }

    pub(super) fn wants(&self, record: &Record) -> bool {
        if !self
            .domain
            .as_ref()
            .is_none_or(|own| is_within(record, own))
        {
            return false;
        }
        let mut patterns = self.patterns.iter();
        let is_meant = self.patterns.is_empty() || patterns.any(|pattern| pattern.matches(record));
        is_meant && self.having.matches(record)
    }
}

/// Whether a record is about somebody of a domain.
fn is_within(record: &Record, domain: &str) -> bool {
    let is_own = |name: &Name| {
        let of = name.rsplit_once('@');
        of.is_some_and(|(_, of)| of == domain)
    };
    let is_party = |id| matches!(record.get(id), Some(Value::Text(device)) if is_own(device));
    match record.sort() == ChangeKind::Call as u16 {
        true => is_party(CALLER) || is_party(CALLEE),
        false => is_own(record.subject()),
    }
}

fn of_kind(name: &str) -> Result<RecordPattern, String> {
    let kind = ChangeKind::from_name(name).ok_or_else(|| {
        let names = ChangeKind::ALL.map(ChangeKind::name).join(", ");
        format!("kind: `{name}` is not one of {names}; separate several with commas")
    })?;
    Ok(RecordPattern::new().sort(kind as u16))
}

fn of_user(pattern: &RecordPattern, user: &str) -> Vec<RecordPattern> {
    let name = Name::new(user);
    let having = |id| (pattern.clone()).having(id, Value::Text(name.clone()));
    match user.contains(':') {
        true => {
            let subject = pattern.clone().subject(name.clone());
            vec![subject, having(CALLER), having(CALLEE), having(TO)]
        }
        false => vec![having(USER), having(CALLEE_USER), having(CALLED_USER)],
    }
}

fn with_element(pattern: RecordPattern, condition: &str) -> Result<RecordPattern, String> {
    let (name, wanted) = match condition.split_once('=') {
        Some((name, wanted)) => (name, Some(wanted)),
        None => (condition, None),
    };
    let (id, shape) =
        element_named(name).ok_or_else(|| format!("having: there is no element `{name}`"))?;
    let Some(wanted) = wanted else {
        return Ok(pattern.exists(id));
    };
    let no_value = |what: &str| format!("having: the value of `{name}` is {what}");
    let value = match shape {
        ElementShape::Text => Value::Text(Name::new(wanted)),
        ElementShape::LongText => Value::Bytes(wanted.as_bytes().into()),
        ElementShape::Number => Value::U32(wanted.parse().map_err(|_| no_value("a number"))?),
        ElementShape::Switch if wanted == "true" => Value::Flags(1),
        ElementShape::Switch => return Err(no_value("true; nothing else can be asked for")),
        ElementShape::Lines => return Err(no_value("a list; ask for its name only")),
        ElementShape::Numbers => {
            let numbers = wanted.split(' ').map(str::parse::<u16>);
            let numbers = numbers.collect::<Result<_, _>>();
            Value::Bits(numbers.map_err(|_| no_value("numbers with spaces between them"))?)
        }
    };
    Ok(pattern.having(id, value))
}

/// A reader asks for few; each is looked at for each change.
const CONDITIONS_MAX: usize = 16;
