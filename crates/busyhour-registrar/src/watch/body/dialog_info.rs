//! The dialog body (RFC 4235): always full state. Of a device it holds the
//! dialogs that the device publishes, since none passes through a registrar; how
//! many contacts it has stands in an element of our own namespace, which the
//! schema allows behind the list. Of an extension it holds what its devices do
//! together, as a dialog or two; and if none of them is registered, that element
//! with no contacts.

use crate::watch::{Document, LineState, State, Told, body::xml::Escaped};
use busyhour::bus::Name;
use std::io::Write;

pub(in crate::watch) fn write(out: &mut Vec<u8>, told: Told<'_>) {
    // Writing to a Vec can't fail.
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
         <dialog-info xmlns=\"{NAMESPACE}\" \
         version=\"{}\" state=\"full\" entity=\"{}\">\r\n",
        told.version,
        Escaped(told.entity)
    );
    match told.state {
        Some(State::Extension(extension)) => {
            write_line(out, told.entity, extension.line);
            // Nobody can be called there; idle looks the same without this.
            if matches!(extension.line, LineState::Unavailable | LineState::Invalid) {
                write_contacts(out, 0);
            }
        }
        Some(State::Device(device)) => {
            for published in device.published() {
                if let Document::Dialog { dialogs, .. } = &*published.document {
                    dialogs.write(out, published.number);
                }
            }
            write_contacts(out, device.contacts.len());
        }
        Some(State::Mailbox(_) | State::Registration(_) | State::Watchers(_)) | None => {
            write_contacts(out, 0)
        }
    }
    out.extend_from_slice(b"</dialog-info>\r\n");
}

fn write_contacts(out: &mut Vec<u8>, count: usize) {
    let _ = write!(
        out,
        "<registration xmlns=\"urn:busyhour:registration\" contacts=\"{count}\"/>\r\n"
    );
}

/// Lamps go by the state: off when terminated, on when confirmed, blinking when
/// early.
fn write_line(out: &mut Vec<u8>, entity: &Name, line: LineState) {
    let dialogs: &[&[u8]] = match line {
        LineState::Invalid | LineState::Unavailable | LineState::Idle => &[TERMINATED],
        LineState::InUse | LineState::Busy => &[CONFIRMED],
        LineState::Ringing => &[EARLY],
        LineState::RingInUse => &[CONFIRMED, EARLY],
        LineState::OnHold => return write_held(out, entity),
    };
    for dialog in dialogs {
        out.extend_from_slice(dialog);
    }
}

fn write_held(out: &mut Vec<u8>, entity: &Name) {
    let _ = write!(
        out,
        "<dialog id=\"call\"><state>confirmed</state><local><target uri=\"{}\">\
         <param pname=\"+sip.rendering\" pval=\"no\"/></target></local></dialog>\r\n",
        Escaped(entity)
    );
}

pub(in crate::watch) const NAMESPACE: &str = "urn:ietf:params:xml:ns:dialog-info";
const TERMINATED: &[u8] = b"<dialog id=\"call\"><state>terminated</state></dialog>\r\n";
const CONFIRMED: &[u8] = b"<dialog id=\"call\"><state>confirmed</state></dialog>\r\n";
const EARLY: &[u8] =
    b"<dialog id=\"ring\" direction=\"recipient\"><state>early</state></dialog>\r\n";
