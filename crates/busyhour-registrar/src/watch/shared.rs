//! States as the nodes of a cluster tell them each other: JSON, of which a later version may say
//! more.

use super::{
    CallNames, DeviceState, DialogChange, DialogDirection, DialogIdentity, DialogInfo, DialogState,
    DialogStep, Document, Published, Reachable, stored::StoredDocument,
};
use crate::registrar::{BindingId, Contact, ContactParts};
use busyhour::bus::Name;
use busyhour_sip::Flow;
use serde::{Deserialize, Serialize};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

/// What watchers are told of a device. Where its contacts are is for its owner alone.
#[derive(Serialize, Deserialize)]
struct SharedDevice {
    /// The id and the preference of each contact.
    contacts: Vec<(u64, Option<u16>)>,
    published: Option<Vec<(u64, StoredDocument)>>,
}

/// A dialog that lives.
#[derive(Serialize, Deserialize)]
struct SharedDialog {
    version: u64,
    call_id: String,
    caller_tag: String,
    /// Display name and URI of the caller, and of the called side.
    identities: [Option<(String, String)>; 2],
    callee_tag: Option<String>,
    is_caller: bool,
    state: String,
    is_local_hold: bool,
    is_remote_hold: bool,
}

impl DeviceState {
    /// As it is told to other nodes.
    pub fn to_shared(&self) -> Vec<u8> {
        let contacts = self.contacts.iter();
        let contacts = contacts.map(|it| (it.id.0, it.contact.q_milli()));
        let published = self.published.as_ref().map(|all| {
            let all = all.iter();
            all.map(|one| (one.number, StoredDocument::from(&*one.document)))
                .collect()
        });
        let shared = SharedDevice {
            contacts: contacts.collect(),
            published,
        };
        // It has no keys but texts, so it can be written.
        serde_json::to_vec(&shared).unwrap_or_default()
    }

    /// What another node has told of a device; `None` if this version cannot read it.
    ///
    /// ```
    /// use busyhour::bus::Name;
    /// use busyhour_registrar::watch::{DeviceState, LineState};
    ///
    /// let alice = Name::new("sip:alice@example.com");
    /// let told = br#"{"contacts":[[7,500]],"published":null}"#;
    /// let state = DeviceState::from_shared(&alice, told).expect("readable");
    /// assert_eq!(LineState::of(Some(&state)), LineState::Idle);
    /// assert_eq!(state.to_shared(), told);
    /// ```
    pub fn from_shared(device: &Name, bytes: &[u8]) -> Option<Self> {
        let shared: SharedDevice = serde_json::from_slice(bytes).ok()?;
        let contacts = shared.contacts.into_iter().map(|(id, q_milli)| Reachable {
            id: BindingId(id),
            contact: somewhere(q_milli),
        });
        let published = shared.published.map(|all| {
            let all = all.into_iter().map(|(number, document)| Published {
                number,
                document: Arc::new(Document::from(document)),
            });
            all.collect()
        });
        Some(Self {
            device: device.clone(),
            contacts: contacts.collect(),
            published,
        })
    }
}

/// A contact of which only the preference is known.
fn somewhere(q_milli: Option<u16>) -> Contact {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Contact::new(ContactParts {
        uri: "",
        parameters: "",
        q_milli,
        call_id: "",
        path: "",
        user_agent: "",
        flow: Flow::udp(nowhere, nowhere),
    })
}

impl DialogChange {
    /// The dialog as it is told to the node that has its device; `None` if it has ended.
    pub fn to_shared(&self) -> Option<Vec<u8>> {
        let DialogStep::Is(info) = &self.step else {
            return None;
        };
        Some(info.to_shared(self.version))
    }

    /// What another node has told of a dialog of a device; `None` if this version cannot read
    /// it.
    pub fn from_shared(device: &Name, id: u64, bytes: &[u8]) -> Option<Self> {
        let shared: SharedDialog = serde_json::from_slice(bytes).ok()?;
        let identities = shared.identities.each_ref().map(|identity| {
            let (display, uri) = identity.as_ref()?;
            Some(DialogIdentity { display, uri })
        });
        let names = CallNames::new(&shared.call_id, &shared.caller_tag, identities)?;
        let states = [
            DialogState::Trying,
            DialogState::Proceeding,
            DialogState::Early,
            DialogState::Confirmed,
        ];
        let mut states = states.into_iter();
        let info = DialogInfo {
            names: Arc::new(names),
            callee_tag: shared.callee_tag.map(Arc::from),
            direction: match shared.is_caller {
                true => DialogDirection::Initiator,
                false => DialogDirection::Recipient,
            },
            state: states.find(|state| state.as_str() == shared.state)?,
            is_local_hold: shared.is_local_hold,
            is_remote_hold: shared.is_remote_hold,
        };
        Some(Self {
            device: device.clone(),
            id,
            version: shared.version,
            step: DialogStep::Is(info),
        })
    }
}

impl DialogInfo {
    /// As it is told to the node that has its device, with the version of its last change.
    pub fn to_shared(&self, version: u64) -> Vec<u8> {
        let identities = [DialogDirection::Initiator, DialogDirection::Recipient].map(|side| {
            let DialogIdentity { display, uri } = self.names.identity(side)?;
            Some((display.to_owned(), uri.to_owned()))
        });
        let shared = SharedDialog {
            version,
            call_id: self.names.call_id().to_owned(),
            caller_tag: self.names.caller_tag().to_owned(),
            identities,
            callee_tag: self.callee_tag.as_deref().map(str::to_owned),
            is_caller: self.direction == DialogDirection::Initiator,
            state: self.state.as_str().to_owned(),
            is_local_hold: self.is_local_hold,
            is_remote_hold: self.is_remote_hold,
        };
        // It has no keys but texts, so it can be written.
        serde_json::to_vec(&shared).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{DialogEnd, Package};

    #[test]
    fn a_device_is_read_as_it_was_told() {
        let device = Name::new("sip:alice@example.com");
        let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:a\">\
            <tuple id=\"t\"><status><basic>open</basic></status></tuple></presence>";
        let document = Document::read(Package::Presence, body.as_bytes(), 1024).expect("sound");
        let state = DeviceState {
            device: device.clone(),
            contacts: [Some(500), None]
                .into_iter()
                .zip(1..)
                .map(|(q_milli, id)| Reachable {
                    id: BindingId(id),
                    contact: somewhere(q_milli),
                })
                .collect(),
            published: Some(Arc::from([Published {
                number: 3,
                document: Arc::new(document),
            }])),
        };
        let told = state.to_shared();
        assert_eq!(DeviceState::from_shared(&device, &told), Some(state));
        assert_eq!(DeviceState::from_shared(&device, b"{}"), None);
    }

    #[test]
    fn a_dialog_is_read_as_it_was_told() {
        let device = Name::new("sip:alice@example.com");
        let bob = DialogIdentity {
            display: "Bob",
            uri: "sip:bob@example.com",
        };
        let change = DialogChange {
            device: device.clone(),
            id: 7,
            version: 3,
            step: DialogStep::Is(DialogInfo {
                names: Arc::new(CallNames::new("c", "t", [Some(bob), None]).expect("short")),
                callee_tag: Some("u".into()),
                direction: DialogDirection::Recipient,
                state: DialogState::Early,
                is_local_hold: false,
                is_remote_hold: true,
            }),
        };
        let told = change.to_shared().expect("it lives");
        assert_eq!(DialogChange::from_shared(&device, 7, &told), Some(change));
        let ended = DialogChange {
            step: DialogStep::Ended {
                end: DialogEnd::RemoteBye,
                code: None,
            },
            ..DialogChange::from_shared(&device, 7, &told).expect("readable")
        };
        assert_eq!(ended.to_shared(), None);
    }
}
