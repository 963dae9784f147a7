//! The dialog body (RFC 4235): always full state. No dialog passes through a
//! registrar, so the list is empty; how many contacts the device has stands in
//! an element of our own namespace, which the schema allows behind the list.

use super::{DeviceState, xml::Escaped};
use busyhour::bus::Name;
use std::io::Write;

pub(super) fn write(out: &mut Vec<u8>, device: &Name, state: Option<&DeviceState>, version: u32) {
    let contact_count = state.map_or(0, |state| state.contacts.len());
    // Writing to a Vec can't fail.
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
         <dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" \
         version=\"{version}\" state=\"full\" entity=\"{}\">\r\n\
         <registration xmlns=\"urn:busyhour:registration\" contacts=\"{contact_count}\"/>\r\n\
         </dialog-info>\r\n",
        Escaped(device)
    );
}
