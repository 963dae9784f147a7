//! The fields of a line without colours: the same bytes as `tracing-subscriber` writes, with less work. It writes each part as a
//! text that may have a style, which for seven fields took a quarter of the instructions of a registration.

use std::fmt::{self, Debug, Write};
use tracing::field::Field;
use tracing_subscriber::{
    field::MakeExt,
    fmt::{
        FormatFields,
        format::{Writer, debug_fn},
    },
};

/// Writes the message, and `name=value` for each other field.
pub(super) fn plain_fields() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(put).delimited(" ")
}

fn put(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    if field.name() == "message" {
        return write!(Escaped(writer), "{value:?}");
    }
    let name = field.name();
    writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
    writer.write_char('=')?;
    write!(writer, "{value:?}")
}

/// Writes without the signs that a terminal obeys: a message may have words of a client in it. Other fields that a client chooses
/// are shown as `Debug` shows a text, which has none.
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
    }

    #[test]
    fn the_fields_are_those_of_the_usual_format() {
        let (own, others) = (Written::default(), Written::default());
        with_default(plain(&own), log_all);
        with_default(usual(&others), log_all);
        assert_eq!(own.text().lines().count(), 7, "one text has two lines");
        assert_eq!(own.text(), others.text());
    }
}
