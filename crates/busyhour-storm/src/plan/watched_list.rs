//! A list that holds all devices (RFC 4662), watched instead of each device by itself.

use std::collections::HashMap;

use crate::plan::users::StormUsers;

/// The list, and which device each of its documents is of.
#[derive(Debug)]
pub(crate) struct WatchedList {
    /// What a SUBSCRIBE asks for.
    pub uri: String,
    /// By address of record.
    devices: HashMap<String, u32>,
}

impl WatchedList {
    /// The list `name` of the devices' domain.
    pub fn new(name: &str, users: &StormUsers, devices: u32) -> Self {
        let aor = |device| (users.aor(device).to_string(), device);
        Self {
            uri: format!("sip:{name}@{}", users.domain),
            devices: (0..devices).map(aor).collect(),
        }
    }

    /// The documents in the body of a NOTIFY, each with its device. Presence and dialogs name
    /// their entity, and the list itself has none.
    pub fn documents<'b>(&'b self, body: &'b [u8]) -> impl Iterator<Item = (u32, &'b [u8])> {
        memchr::memmem::find_iter(body, ENTITY).filter_map(|at| {
            let rest = body.get(at + ENTITY.len()..)?;
            let entity = rest.split(|byte| *byte == b'"').next()?;
            let device = self.devices.get(std::str::from_utf8(entity).ok()?)?;
            let end = memchr::memmem::find(rest, NEXT_PART).unwrap_or(rest.len());
            Some((*device, rest.get(..end)?))
        })
    }
}

const ENTITY: &[u8] = b" entity=\"";
const NEXT_PART: &[u8] = b"\r\n--";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::args::Transport;

    #[test]
    fn each_document_is_given_to_its_device() {
        let users = StormUsers {
            user: "d{n}".parse().unwrap(),
            password: None,
            domain: "example.com".into(),
            transport: Transport::Udp,
            first: 1,
            stride: 1,
            algorithm: None,
            expires_s: 60,
            run: 1,
        };
        let list = WatchedList::new("panel", &users, 2);
        assert_eq!(list.uri, "sip:panel@example.com");
        let body = b"--x\r\n<list uri=\"sip:panel@example.com\"/>\r\n\r\n--x\r\n\r\n\
            <presence entity=\"sip:d2@example.com\">two</presence>\r\n\r\n--x\r\n\r\n\
            <presence entity=\"sip:d1@example.com\">one</presence>\r\n\r\n--x--\r\n";
        let documents = list.documents(body);
        let text =
            |(device, text): (u32, &[u8])| (device, String::from_utf8_lossy(text).into_owned());
        let found: Vec<_> = documents.map(text).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].0 == 1 && found[0].1.contains("two") && !found[0].1.contains("one"));
        assert!(found[1].0 == 0 && found[1].1.contains("one"));
    }
}
