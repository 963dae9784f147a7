//! The presence body: PIDF (RFC 3863), one tuple a contact, and then what the
//! device publishes. Of an extension one tuple says what its devices do together.
//!
//! Who is in a call is on the phone (RFC 4480 §3.2). A device that publishes a person says that
//! itself, and a document has one person only (RFC 4479 §3.2).
//!
//! A tuple of a registered contact names the address of record: anybody with an account
//! may watch presence, but only the device's own account may see its address, in `reg`.

use crate::watch::{
    DeviceState, Document, LineState, Published, Reachable, State, Told, body::xml::Escaped,
};
use busyhour::bus::Name;
use busyhour_sip::Quality;
use std::io::Write;

pub(in crate::watch) fn write(out: &mut Vec<u8>, told: Told<'_>) {
    // Writing to a Vec can't fail.
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
         <presence xmlns=\"{NAMESPACE}\" entity=\"{}\">\r\n",
        Escaped(told.entity)
    );
    match told.state {
        Some(State::Device(device)) => write_device(out, told.entity, device),
        Some(State::Extension(extension)) => write_line(out, extension.line),
        Some(State::Mailbox(_) | State::Registration(_) | State::Watchers(_)) | None => {
            out.extend_from_slice(CLOSED)
        }
    }
    out.extend_from_slice(b"</presence>\r\n");
}

fn write_device(out: &mut Vec<u8>, entity: &Name, device: &DeviceState) {
    let published = || {
        device
            .published()
            .iter()
            .filter_map(|published| match &*published.document {
                Document::Presence(elements) => Some((published.number, elements)),
                Document::Dialog { .. } | Document::Messages(_) => None,
            })
    };
    for contact in device.contacts.iter() {
        write_tuple(out, entity, contact);
    }
    // A published tuple comes before the notes and persons of its document, and
    // theirs before the next one's: the schema asks for tuples first only within
    // the namespace of PIDF, and readers take them in any order.
    let has_tuple = !device.contacts.is_empty() || published().any(|(_, e)| e.has("tuple"));
    if !has_tuple {
        out.extend_from_slice(CLOSED);
    }
    for (number, elements) in published() {
        elements.write(out, number);
    }
    if is_on_the_phone(device) {
        write_activity(out, ON_THE_PHONE);
    }
}

/// Whether the body says that somebody talks on the telephone: from the moment a device dials or
/// has answered, also while the call is on hold.
pub(super) fn is_on_the_phone(device: &DeviceState) -> bool {
    use LineState::{InUse, OnHold, RingInUse};
    let says_itself = |published: &Published| match &*published.document {
        Document::Presence(elements) => elements.has("person"),
        Document::Dialog { .. } | Document::Messages(_) => false,
    };
    let line = LineState::of(Some(device));
    matches!(line, InUse | OnHold | RingInUse) && !device.published().iter().any(says_itself)
}

fn write_activity(out: &mut Vec<u8>, activity: &str) {
    let _ = write!(
        out,
        "<person xmlns=\"urn:ietf:params:xml:ns:pidf:data-model\" id=\"user\">\
         <activities xmlns=\"urn:ietf:params:xml:ns:pidf:rpid\"><{activity}/></activities>\
         </person>\r\n"
    );
}

/// Phones show the note, and some light a lamp by the activity (RFC 4480).
fn write_line(out: &mut Vec<u8>, line: LineState) {
    let (basic, note, activity) = match line {
        LineState::Invalid | LineState::Unavailable => ("closed", "Unavailable", None),
        LineState::Idle => ("open", "Ready", None),
        LineState::OnHold => ("open", "On hold", Some(ON_THE_PHONE)),
        LineState::Ringing => ("open", "Ringing", Some(ON_THE_PHONE)),
        LineState::InUse | LineState::RingInUse => ("open", "On the phone", Some(ON_THE_PHONE)),
        LineState::Busy => ("open", "Busy", Some("busy")),
    };
    let _ = write!(
        out,
        "<tuple id=\"line\"><status><basic>{basic}</basic></status><note>{note}</note></tuple>\r\n"
    );
    if let Some(activity) = activity {
        write_activity(out, activity);
    }
}

fn write_tuple(out: &mut Vec<u8>, entity: &Name, reachable: &Reachable) {
    let id = reachable.id.0;
    let _ = write!(
        out,
        "<tuple id=\"b{id}\"><status><basic>open</basic></status><contact"
    );
    if let Some(q_milli) = reachable.contact.q_milli() {
        let quality = Quality::from_thousandths(q_milli);
        let _ = write!(out, " priority=\"{quality}\"");
    }
    let _ = write!(out, ">{}</contact></tuple>\r\n", Escaped(entity));
}

/// RFC 4480 §3.2.
const ON_THE_PHONE: &str = "on-the-phone";
pub(in crate::watch) const NAMESPACE: &str = "urn:ietf:params:xml:ns:pidf";
/// Every tuple needs an id, also the one for a device without contacts.
const CLOSED: &[u8] = b"<tuple id=\"none\"><status><basic>closed</basic></status></tuple>\r\n";
