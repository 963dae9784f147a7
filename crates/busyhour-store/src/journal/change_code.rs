//! Changes as bytes: numbers begin with their lowest byte, texts and lists with their length.

use crate::{CallRecordRow, Change, SoftState, SoftStateKind};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, Lease};
use busyhour_sip::Flow;

impl Change {
    /// Whether it can be written to a journal. The others are of kinds that tools change as well, so
    /// they are always in the database itself.
    pub(crate) fn is_journaled(&self) -> bool {
        match self {
            Self::Binding(_)
            | Self::PutSoftState(_)
            | Self::RemoveSoftState(_)
            | Self::PutCallRecord(_) => true,
            Self::PutAccount(_)
            | Self::RemoveAccount { .. }
            | Self::PutSetting { .. }
            | Self::RemoveSetting { .. } => false,
        }
    }
}

/// Appends a change that [is journaled](Change::is_journaled) to `bytes`; of others, nothing.
pub(super) fn encode(change: &Change, bytes: &mut Vec<u8>) {
    match change {
        Change::Binding(BindingChange::Put {
            id,
            aor,
            contact,
            lease,
        }) => {
            bytes.push(PUT);
            put_u64(bytes, id.0);
            put_text(bytes, aor);
            put_contact(bytes, contact);
            put_lease(bytes, lease);
        }
        Change::Binding(BindingChange::Renew { id, lease }) => {
            bytes.push(RENEW);
            put_u64(bytes, id.0);
            put_lease(bytes, lease);
        }
        Change::Binding(BindingChange::Remove { id }) => {
            bytes.push(REMOVE);
            put_u64(bytes, id.0);
        }
        Change::PutSoftState(row) => {
            bytes.push(PUT_SOFT_STATE);
            put_u64(bytes, row.id.0);
            put_text(bytes, row.kind.name());
            put_text(bytes, &row.value);
            put_u32(bytes, row.granted_s);
            put_u64(bytes, row.expires_at.as_nanos());
        }
        Change::RemoveSoftState(id) => {
            bytes.push(REMOVE_SOFT_STATE);
            put_u64(bytes, id.0);
        }
        Change::PutCallRecord(row) => {
            bytes.push(PUT_CALL_RECORD);
            put_call_record(bytes, row);
        }
        Change::PutAccount(_)
        | Change::RemoveAccount { .. }
        | Change::PutSetting { .. }
        | Change::RemoveSetting { .. } => {}
    }
}

/// The changes that were appended to each other in `bytes`.
///
/// # Errors
///
/// What is wrong, in words for an operator.
pub(super) fn decode_all(bytes: &[u8]) -> Result<Vec<Change>, &'static str> {
    let mut reader = ChangeReader(bytes);
    let mut changes = Vec::new();
    while !reader.0.is_empty() {
        changes.push(reader.change()?);
    }
    Ok(changes)
}

/// What is left to be read.
struct ChangeReader<'b>(&'b [u8]);

impl<'b> ChangeReader<'b> {
    fn change(&mut self) -> Result<Change, &'static str> {
        let kind = self.u8()?;
        Ok(match kind {
            PUT => Change::Binding(BindingChange::Put {
                id: self.id()?,
                aor: self.text()?.into(),
                contact: self.contact()?,
                lease: self.lease()?,
            }),
            RENEW => Change::Binding(BindingChange::Renew {
                id: self.id()?,
                lease: self.lease()?,
            }),
            REMOVE => Change::Binding(BindingChange::Remove { id: self.id()? }),
            PUT_SOFT_STATE => Change::PutSoftState(self.soft_state()?),
            REMOVE_SOFT_STATE => Change::RemoveSoftState(self.id()?),
            PUT_CALL_RECORD => Change::PutCallRecord(Box::new(self.call_record()?)),
            _ => return Err("a change of an unknown kind"),
        })
    }

    fn contact(&mut self) -> Result<Contact, &'static str> {
        Ok(Contact::new(ContactParts {
            uri: self.text()?,
            parameters: self.text()?,
            q_milli: self.maybe(Self::u16)?,
            call_id: self.text()?,
            path: self.text()?,
            user_agent: self.text()?,
            flow: Flow::from_texts(self.text()?, self.text()?).ok_or("a flow that is none")?,
        }))
    }

    fn lease(&mut self) -> Result<Lease, &'static str> {
        Ok(Lease {
            cseq: self.u32()?,
            granted_s: self.u32()?,
            expires_at: UnixTime::from_nanos(self.u64()?),
            removed: self.u8()? != 0,
        })
    }

    fn soft_state(&mut self) -> Result<SoftState, &'static str> {
        Ok(SoftState {
            id: self.id()?,
            kind: SoftStateKind::from_name(self.text()?)
                .ok_or("a soft state of an unknown kind")?,
            value: self.text()?.into(),
            granted_s: self.u32()?,
            expires_at: UnixTime::from_nanos(self.u64()?),
        })
    }

    fn call_record(&mut self) -> Result<CallRecordRow, &'static str> {
        Ok(CallRecordRow {
            id: self.u64()?,
            call_id: self.text()?.into(),
            from: self.text()?.into(),
            to: self.text()?.into(),
            caller: self.maybe_text()?,
            answered_by: self.maybe_text()?,
            began_at_ns: self.u64()?,
            rang_at_ns: self.maybe(Self::u64)?,
            answered_at_ns: self.maybe(Self::u64)?,
            ended_at_ns: self.u64()?,
            post_dial_delay_ns: self.maybe(Self::u64)?,
            talk_time_ns: self.maybe(Self::u64)?,
            outcome: self.text()?.into(),
            status: self.u16()?,
            end: self.text()?.into(),
            ended_by: self.maybe_text()?,
            caller_flow: self.text()?.into(),
            callee_flow: self.maybe_text()?,
            media_failure: self.maybe_text()?,
        })
    }

    fn id(&mut self) -> Result<BindingId, &'static str> {
        self.u64().map(BindingId)
    }

    fn maybe_text(&mut self) -> Result<Option<Box<str>>, &'static str> {
        self.maybe(|reader| reader.text().map(Box::from))
    }

    fn maybe<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, &'static str>,
    ) -> Result<Option<T>, &'static str> {
        match self.u8()? {
            0 => Ok(None),
            _ => read(self).map(Some),
        }
    }

    fn text(&mut self) -> Result<&'b str, &'static str> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len).ok_or(CUT)?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| "a text that is none")
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (array, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*array)
    }
}

fn put_contact(bytes: &mut Vec<u8>, contact: &Contact) {
    let contact = contact.parts();
    put_text(bytes, contact.uri);
    put_text(bytes, contact.parameters);
    put_maybe(bytes, contact.q_milli, |bytes, q| {
        bytes.extend(q.to_le_bytes());
    });
    put_text(bytes, contact.call_id);
    put_text(bytes, contact.path);
    put_text(bytes, contact.user_agent);
    put_text(bytes, &contact.flow.local_text());
    put_text(bytes, &contact.flow.remote_text());
}

fn put_lease(bytes: &mut Vec<u8>, lease: &Lease) {
    put_u32(bytes, lease.cseq);
    put_u32(bytes, lease.granted_s);
    put_u64(bytes, lease.expires_at.as_nanos());
    bytes.push(lease.removed.into());
}

fn put_call_record(bytes: &mut Vec<u8>, row: &CallRecordRow) {
    put_u64(bytes, row.id);
    for text in [&row.call_id, &row.from, &row.to] {
        put_text(bytes, text);
    }
    put_maybe_text(bytes, row.caller.as_deref());
    put_maybe_text(bytes, row.answered_by.as_deref());
    put_u64(bytes, row.began_at_ns);
    put_maybe(bytes, row.rang_at_ns, put_u64);
    put_maybe(bytes, row.answered_at_ns, put_u64);
    put_u64(bytes, row.ended_at_ns);
    put_maybe(bytes, row.post_dial_delay_ns, put_u64);
    put_maybe(bytes, row.talk_time_ns, put_u64);
    put_text(bytes, &row.outcome);
    bytes.extend(row.status.to_le_bytes());
    put_text(bytes, &row.end);
    put_maybe_text(bytes, row.ended_by.as_deref());
    put_text(bytes, &row.caller_flow);
    put_maybe_text(bytes, row.callee_flow.as_deref());
    put_maybe_text(bytes, row.media_failure.as_deref());
}

fn put_maybe_text(bytes: &mut Vec<u8>, text: Option<&str>) {
    put_maybe(bytes, text, put_text);
}

fn put_maybe<T>(bytes: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    bytes.push(value.is_some().into());
    if let Some(value) = value {
        put(bytes, value);
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_u32(bytes, text.len() as u32);
    bytes.extend(text.as_bytes());
}

fn put_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend(value.to_le_bytes());
}

fn put_u64(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend(value.to_le_bytes());
}

const CUT: &str = "a change that is cut off";
const PUT: u8 = 1;
const RENEW: u8 = 2;
const REMOVE: u8 = 3;
const PUT_SOFT_STATE: u8 = 4;
const REMOVE_SOFT_STATE: u8 = 5;
const PUT_CALL_RECORD: u8 = 6;
