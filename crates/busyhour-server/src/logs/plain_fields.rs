//! The fields of a line without colours: the same bytes as `tracing-subscriber` writes, with less work. It writes each part as a
//! text that may have a style, which takes nearly as much as all else of a line (docs/missed.md, IAX2).

use std::{
    error::Error,
    fmt::{self, Debug, Display, Write},
    iter,
};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::{VisitFmt, VisitOutput},
    fmt::{FormatFields, format::Writer},
};

/// Writes the message, and `name=value` for each other field.
pub(super) fn plain_fields() -> impl for<'w> FormatFields<'w> + 'static {
    plain_visitor
}

struct PlainVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

fn plain_visitor(writer: Writer<'_>) -> PlainVisitor<'_> {
    PlainVisitor {
        writer,
        is_first: true,
        result: Ok(()),
    }
}

impl PlainVisitor<'_> {
    fn put(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        if name == "message" {
            return write!(Escaped(&mut self.writer), "{value:?}");
        }
        self.writer
            .write_str(name.strip_prefix("r#").unwrap_or(name))?;
        self.writer.write_char('=')?;
        write!(self.writer, "{value:?}")
    }
}

impl Visit for PlainVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let text = escaped(value);
        match value.source() {
            None => self.record_debug(field, &format_args!("{text}")),
            Some(first) => {
                let sources = iter::successors(Some(first), |&it| it.source());
                let sources: Vec<_> = sources.map(escaped).collect();
                let (name, sources) = (field.name(), sources.join(", "));
                self.record_debug(field, &format_args!("{text} {name}.sources=[{sources}]"));
            }
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // What the crate `log` says of a line is in the line already.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.put(field.name(), value);
        }
    }
}

impl VisitOutput<fmt::Result> for PlainVisitor<'_> {
    fn finish(self) -> fmt::Result {
        self.result
    }
}

impl VisitFmt for PlainVisitor<'_> {
    fn writer(&mut self) -> &mut dyn Write {
        &mut self.writer
    }
}

/// Few log an error as such, and none where it counts.
fn escaped(error: &(impl Display + ?Sized)) -> String {
    let mut text = String::new();
    // Writing into a text never fails.
    let _ = write!(Escaped(&mut Writer::new(&mut text)), "{error}");
    text
}

/// Writes without the signs of escape sequences, which a terminal obeys: a message may have words of a client in it. Other fields
/// that a client chooses are shown as `Debug` shows a text, which has none.
struct Escaped<'w, 'a>(&'w mut Writer<'a>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_obeyed) {
            let (before, sign) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut signs = sign.chars();
            match signs.next().map_or(0, u32::from) {
                ascii @ ..0x80 => write!(self.0, "\\x{ascii:02x}")?,
                other => write!(self.0, "\\u{{{other:x}}}")?,
            }
            rest = signs.as_str();
        }
        self.0.write_str(rest)
    }
}

fn is_obeyed(sign: char) -> bool {
    matches!(
        sign,
        '\x1b' | '\x07' | '\x08' | '\x0c' | '\x7f' | '\u{80}'..='\u{9f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io,
        sync::{Arc, Mutex},
    };
    use tracing::{Subscriber, subscriber::with_default};
    use tracing_subscriber::fmt::{MakeWriter, format, layer};
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'w> MakeWriter<'w> for Written {
        type Writer = Self;

        fn make_writer(&'w self) -> Self {
            self.clone()
        }
    }

    impl Written {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn plain(written: &Written) -> impl Subscriber + Send + Sync + use<> {
        let lines = format().with_ansi(false).without_time();
        let layer = layer().with_ansi(false).with_writer(written.clone());
        let layer = layer.event_format(lines).fmt_fields(plain_fields());
        tracing_subscriber::registry().with(layer)
    }

    fn usual(written: &Written) -> impl Subscriber + Send + Sync + use<> {
        let lines = format().with_ansi(false).without_time();
        let layer = layer().with_ansi(false).with_writer(written.clone());
        tracing_subscriber::registry().with(layer.event_format(lines))
    }

    fn log_all() {
        let (error, text) = (io::Error::other("no\x1broom"), "a \"b\"\x1b[31m\u{9b}c\n");
        let address = std::net::Ipv4Addr::LOCALHOST;
        tracing::info!(%address, port = 7, protocol = "sip", ?text, is_new = true, "registration added");
        tracing::warn!(%error, number = -7, share = 0.5, "{text} and \x07\x08\x0c\x7f\u{80}ä");
        tracing::error!(r#type = "x", list = ?[1, 2], "");
        tracing::info!("only a message");
        tracing::info!(only = "a field");
        tracing::info!(
            text,
            nothing = tracing::field::Empty,
            some = Some(7),
            "known"
        );
        let refused = io::Error::other(io::Error::other(Broken("in\x1b")));
        tracing::warn!(error = &refused as &(dyn Error + 'static), "with sources");
        tracing::warn!(error = &Broken("\x07") as &(dyn Error + 'static));
        tracing::info!(message = "a text", after = 1);
        tracing::info!(log.line = 7, before = 1, "of the crate log");
        let span = tracing::info_span!("call", user = "a", later = tracing::field::Empty);
        let _entered = span.enter();
        span.record("later", 7);
        tracing::info!("in a span");
    }

    #[derive(Debug)]
    struct Broken(&'static str);

    impl Display for Broken {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "broken {}", self.0)
        }
    }

    impl Error for Broken {}

    #[test]
    fn the_fields_are_those_of_the_usual_format() {
        let (own, others) = (Written::default(), Written::default());
        with_default(plain(&own), log_all);
        with_default(usual(&others), log_all);
        assert_eq!(own.text().lines().count(), 12, "one text has two lines");
        // Where no other crate asks `tracing-subscriber` for it, it shows what is left out here.
        assert!(!own.text().contains("log.line"));
        assert_eq!(own.text(), others.text().replace("log.line=7 ", ""));
    }
}
