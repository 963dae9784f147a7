//! The presence body: PIDF (RFC 3863), one tuple a contact.

use super::{DeviceState, Reachable, xml::Escaped};
use busyhour::bus::Name;
use std::io::Write;

pub(super) fn write(out: &mut Vec<u8>, device: &Name, state: Option<&DeviceState>) {
    // Writing to a Vec can't fail.
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
         <presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"{}\">\r\n",
        Escaped(device)
    );
    match state {
        None => out.extend_from_slice(CLOSED),
        Some(state) => state.contacts.iter().for_each(|c| write_tuple(out, c)),
    }
    out.extend_from_slice(b"</presence>\r\n");
}

fn write_tuple(out: &mut Vec<u8>, reachable: &Reachable) {
    let id = reachable.id.0;
    let contact = &reachable.contact;
    let _ = write!(
        out,
        "<tuple id=\"b{id}\"><status><basic>open</basic></status><contact"
    );
    if let Some(q_milli) = contact.q_milli {
        let _ = write!(
            out,
            " priority=\"{}.{:03}\"",
            q_milli / 1000,
            q_milli % 1000
        );
    }
    let _ = write!(out, ">{}</contact></tuple>\r\n", Escaped(&contact.uri));
}

/// A tuple has an id, also the one that says that there is nobody.
const CLOSED: &[u8] = b"<tuple id=\"none\"><status><basic>closed</basic></status></tuple>\r\n";
