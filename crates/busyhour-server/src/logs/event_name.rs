//! The name of an event in each line of the log, for programs: it stays when the sentence gets better.

use super::plain_fields::plain_fields;
use std::{
    fmt::{self, Debug, Write},
    io,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    fmt::{
        FmtContext, FormatEvent, FormatFields, format,
        format::{Format, JsonFields, Writer},
        layer,
    },
    registry::{LookupSpan, Registry},
};

/// Lines on standard error that end with `event=NAME`.
pub(super) fn text_lines(is_coloured: bool) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = format().with_ansi(is_coloured).with_target(false);
    // Otherwise a reader of the log that is gone makes every line panic.
    let layer = layer().with_ansi(is_coloured).log_internal_errors(false);
    let form = NameForm::Text;
    let layer = layer
        .with_writer(io::stderr)
        .event_format(Named { lines, form });
    match is_coloured {
        true => layer.boxed(),
        false => layer.fmt_fields(plain_fields()).boxed(),
    }
}

/// Objects whose last field is `event`.
pub(super) fn json_lines() -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = format().json().flatten_event(true);
    layer()
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .fmt_fields(JsonFields::new())
        .event_format(Named {
            lines,
            form: NameForm::Json,
        })
        .boxed()
}

/// Lines with the names of their events.
struct Named<F> {
    lines: Format<F>,
    form: NameForm,
}

#[derive(Clone, Copy)]
enum NameForm {
    Text,
    Json,
}

impl<S, N, F> FormatEvent<S, N> for Named<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
    Format<F>: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::with_capacity(LINE_LEN);
        self.lines
            .format_event(context, Writer::new(&mut line), event)?;
        let Some(name) = made_name(event) else {
            return writer.write_str(&line);
        };
        let line = line.trim_end_matches('\n');
        match self.form {
            NameForm::Text => writeln!(writer, "{line} event={name}"),
            NameForm::Json => {
                let fields = line.strip_suffix('}').unwrap_or(line);
                writeln!(writer, "{fields},\"event\":\"{name}\"}}")
            }
        }
    }
}

/// The name that is made of an event's text; none if a field of the event gives it.
fn made_name(event: &Event<'_>) -> Option<String> {
    let mut found = NamingFields::default();
    event.record(&mut found);
    (!found.is_given).then(|| of_text(&found.text))
}

#[derive(Default)]
struct NamingFields {
    is_given: bool,
    text: String,
}

impl Visit for NamingFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            NAME => self.is_given = true,
            "message" => self.text = value.to_owned(),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.text.clear();
            // A string takes everything.
            let _ = write!(self.text, "{value:?}");
        }
    }
}

/// `login_failed` of `login failed`: the words of the text without an article in front, up to the first
/// sign that begins an explanation.
pub(super) fn of_text(text: &str) -> String {
    let end = explanation(text.as_bytes()).unwrap_or(text.len());
    let words = text[..end]
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let is_article = |word: &str| {
        ["a", "an", "the"]
            .iter()
            .any(|it| word.eq_ignore_ascii_case(it))
    };
    let mut name = String::with_capacity(end);
    for (index, word) in words.enumerate() {
        if index == 0 && is_article(word) {
            continue;
        }
        if !name.is_empty() {
            name.push('_');
        }
        name.push_str(word);
    }
    name.make_ascii_lowercase();
    name
}

/// Where the sign stands that begins an explanation.
fn explanation(text: &[u8]) -> Option<usize> {
    let begins = |pair: &[u8]| matches!(pair, [b';' | b':' | b'.' | b',', b' '] | [b' ', b'(']);
    text.windows(2).position(begins)
}

/// Most lines are shorter.
const LINE_LEN: usize = 256;
/// The field with the name of an event whose text varies.
pub(super) const NAME: &str = "event";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_words_of_the_text() {
        for (text, name) in [
            ("login failed", "login_failed"),
            ("a limit was reached", "limit_was_reached"),
            (
                "NATS cannot be reached; trying again",
                "nats_cannot_be_reached",
            ),
            (
                "the receiver wants nothing more (410)",
                "receiver_wants_nothing_more",
            ),
            (
                "no local socket for `busyhour show`; set http.socket",
                "no_local_socket_for_busyhour_show",
            ),
            (
                "limits.x_per_second was reached: y",
                "limits_x_per_second_was_reached",
            ),
        ] {
            assert_eq!(of_text(text), name);
        }
        for text in [
            "",
            "the",
            "a: b",
            "(x",
            " (x",
            "Ä the ä; b",
            "The door; x",
            "An X",
        ] {
            assert_eq!(of_text(text), words_of(text), "{text}");
        }
    }

    /// The same, by the words as a list.
    fn words_of(text: &str) -> String {
        let ends = ["; ", ": ", " (", ". ", ", "].map(|end| text.find(end));
        let end = ends.into_iter().flatten().min().unwrap_or(text.len());
        let text = text[..end].to_ascii_lowercase();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let mut words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        if words
            .first()
            .is_some_and(|first| ["a", "an", "the"].contains(first))
        {
            words.remove(0);
        }
        words.join("_")
    }
}
