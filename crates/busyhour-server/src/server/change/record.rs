//! What became of something, as a record. Pure.

use super::element::{
    CALLED_USER, CALLEE, CALLEE_USER, CALLER, CONTACT_COUNT, CONTACTS, ChangeKind, END, ENDED_BY,
    EVENT, FROM, GONE, LINE, PRESENCE, REACHABLE, SOURCES, STATE, STATUS, TALK_TIME_MS, TO, USER,
    USER_AGENTS, WAITING, message_count,
};
use busyhour::{
    bus::{ElementId, Name, Record, Value},
    clock::Instant,
};
use busyhour_proxy::dialogs::{CallRecord, LiveCall, Role};
use busyhour_registrar::{
    Bindings, Tally, user_of,
    watch::{DeviceState, ExtensionState, LineState, Mailbox, MessageCounts},
};
use busyhour_sip::Uri;

/// What became of the contacts of an address of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum RegistrationEvent {
    /// There is a contact more, whatever else.
    Registered,
    /// A contact was registered again with another URI, flow or parameter.
    Refreshed,
    /// A contact that was not reached registered again, or answers.
    Reachable,
    /// The device took a contact back.
    Unregistered,
    /// A contact was not registered again in time.
    Expired,
    /// The account is gone, or an operator removed the contact.
    Deactivated,
    /// A contact is not reached any more.
    Unreachable,
}

impl RegistrationEvent {
    /// What a registration did that watchers see.
    pub(in crate::server) fn of(tally: Tally) -> Self {
        match tally {
            Tally { added: 1.., .. } => Self::Registered,
            Tally { removed: 1.., .. } => Self::Unregistered,
            Tally { returned: 1.., .. } => Self::Reachable,
            _ => Self::Refreshed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Refreshed => "refreshed",
            Self::Reachable => "reachable",
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::Deactivated => "deactivated",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The contacts of an address of record; with `event` what became of them, without it only
/// what they are.
pub(in crate::server) fn registration(
    aor: &Name,
    event: Option<RegistrationEvent>,
    bindings: &Bindings,
    now: Instant,
) -> Record {
    let (mut contacts, mut sources, mut user_agents) = (Vec::new(), Vec::new(), Vec::new());
    let (mut count, mut reachable) = (0_u16, Vec::new());
    for binding in bindings.active(now) {
        let parts = binding.contact.parts();
        put_line(&mut contacts, parts.uri);
        put_line(&mut sources, &parts.flow.remote.to_string());
        put_line(&mut user_agents, parts.user_agent);
        if binding.contact.is_reachable() {
            reachable.push(count);
        }
        count = count.saturating_add(1);
    }
    let record = begin(
        ChangeKind::Registration,
        aor,
        event.map(RegistrationEvent::name),
    );
    let record = record.with(USER, text(user_of(aor)));
    let record = record.with(CONTACT_COUNT, Value::U32(count.into()));
    if count == 0 {
        return gone(record);
    }
    let record = record
        .with(CONTACTS, Value::Bytes(contacts.into()))
        .with(SOURCES, Value::Bytes(sources.into()))
        .with(USER_AGENTS, Value::Bytes(user_agents.into()));
    match reachable.is_empty() {
        true => record,
        false => record.with(REACHABLE, Value::Bits(reachable.into_iter().collect())),
    }
}

/// What a device does; `None` is a device that cannot be reached and publishes nothing.
pub(in crate::server) fn device(
    aor: &Name,
    is_change: bool,
    state: Option<&DeviceState>,
) -> Record {
    let record = begin(ChangeKind::Device, aor, changed(is_change));
    let record = record.with(USER, text(user_of(aor)));
    let record = record.with(LINE, line(LineState::of(state)));
    let Some(state) = state else {
        return gone(record.with(CONTACT_COUNT, Value::U32(0)));
    };
    let count = u32::try_from(state.contacts.len()).unwrap_or(u32::MAX);
    let record = record.with(CONTACT_COUNT, Value::U32(count));
    match state.presence() {
        presence if presence.is_empty() => record,
        presence => record.with(PRESENCE, Value::Bytes(presence.into_bytes().into())),
    }
}

/// What waits in a mailbox; `None` if nothing is known of it any more.
pub(in crate::server) fn mailbox(id: &Name, is_change: bool, mailbox: Option<&Mailbox>) -> Record {
    let record = begin(ChangeKind::Mailbox, id, changed(is_change));
    let record = record.with(USER, Value::Text(id.clone()));
    let Some(Mailbox { summary, .. }) = mailbox else {
        return gone(record);
    };
    let is_waiting = u32::from(summary.is_waiting());
    let mut record = record.with(WAITING, Value::Flags(is_waiting));
    let classes = [
        summary.voice,
        summary.fax,
        summary.pager,
        summary.multimedia,
        summary.text,
        summary.none,
    ];
    for (class, counts) in classes.into_iter().enumerate() {
        let Some(counts) = counts else { continue };
        let MessageCounts {
            new,
            old,
            urgent_new,
            urgent_old,
        } = counts;
        for (count, number) in [new, old, urgent_new, urgent_old].into_iter().enumerate() {
            record.set(message_count(class, count), Value::U32(number));
        }
    }
    record
}

/// What the devices of an extension do together; `None` if it has no hint any more.
pub(in crate::server) fn hint(
    extension: &Name,
    is_change: bool,
    state: Option<&ExtensionState>,
) -> Record {
    let record = begin(ChangeKind::Hint, extension, changed(is_change));
    let record = record.with(USER, Value::Text(extension.clone()));
    match state {
        Some(state) => record.with(LINE, line(state.line)),
        None => gone(record),
    }
}

/// A call that lasts: with `event` it has just become so.
pub(in crate::server) fn live_call(call: &LiveCall, event: Option<&'static str>) -> Record {
    let record = begin(ChangeKind::Call, &Name::new(call.names.call_id()), event);
    let record = record.with(STATE, text(call.state.as_str()));
    let record = parties(record, [call.caller(), call.callee()]);
    devices(record, [&call.caller_device, &call.callee_device])
}

/// A call that has ended.
pub(in crate::server) fn ended_call(call: &CallRecord) -> Record {
    let record = begin(
        ChangeKind::Call,
        &Name::new(call.names.call_id()),
        Some("ended"),
    );
    let record = parties(gone(record), [call.caller(), call.callee()]);
    let mut record = devices(record, [&call.caller_device, &call.answered_by]);
    record.set(END, text(call.end.as_str()));
    if call.status > 0 {
        record.set(STATUS, Value::U32(call.status.into()));
    }
    if let Some(role) = call.ended_by {
        let side = match role {
            Role::Caller => "caller",
            Role::Callee => "callee",
        };
        record.set(ENDED_BY, text(side));
    }
    if let Some(talk_time) = call.talk_time {
        let milliseconds = u32::try_from(talk_time.as_millis()).unwrap_or(u32::MAX);
        record.set(TALK_TIME_MS, Value::U32(milliseconds));
    }
    record
}

/// Whether the record says that nothing is left to tell of its subject.
pub(super) fn is_gone(record: &Record) -> bool {
    record.get(GONE).is_some()
}

/// Whether two records of one subject tell the same state, whatever happened.
pub(super) fn tells_the_same(one: &Record, other: &Record) -> bool {
    fn state(record: &Record) -> impl Iterator<Item = &busyhour::bus::Element> {
        record.iter().filter(|element| element.id != EVENT)
    }
    state(one).eq(state(other))
}

fn begin(kind: ChangeKind, subject: &Name, event: Option<&str>) -> Record {
    let record = Record::new(kind as u16, subject.clone());
    match event {
        Some(event) => record.with(EVENT, text(event)),
        None => record,
    }
}

fn changed(is_change: bool) -> Option<&'static str> {
    is_change.then_some("changed")
}

fn gone(record: Record) -> Record {
    record.with(GONE, Value::Flags(1))
}

fn parties(record: Record, [from, to]: [&str; 2]) -> Record {
    // A URI that was too long to keep is empty.
    let with = |record: Record, id: ElementId, uri: &str| match uri {
        "" => record,
        uri => record.with(id, text(uri)),
    };
    let called = Uri::parse(to);
    let called = called.as_ref().and_then(Uri::as_sip);
    let called = called.and_then(|uri| uri.user).unwrap_or("");
    let record = with(with(record, FROM, from), TO, to);
    with(record, CALLED_USER, called)
}

fn devices(mut record: Record, [caller, callee]: [&Option<Name>; 2]) -> Record {
    for (device, ids) in [(caller, [CALLER, USER]), (callee, [CALLEE, CALLEE_USER])] {
        if let Some(device) = device {
            record.set(ids[0], Value::Text(device.clone()));
            record.set(ids[1], text(user_of(device)));
        }
    }
    record
}

fn line(state: LineState) -> Value {
    text(match state {
        LineState::Invalid => "invalid",
        LineState::Unavailable => "unavailable",
        LineState::Idle => "idle",
        LineState::OnHold => "on-hold",
        LineState::Ringing => "ringing",
        LineState::InUse => "in-use",
        LineState::Busy => "busy",
        LineState::RingInUse => "ring-in-use",
    })
}

fn text(text: &str) -> Value {
    Value::Text(Name::new(text))
}

/// A header may be folded, and each line end here is between two contacts.
fn put_line(lines: &mut Vec<u8>, line: &str) {
    let unfolded = line.bytes().map(|byte| match byte {
        b'\r' | b'\n' => b' ',
        other => other,
    });
    lines.extend(unfolded);
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::change::{filter::ChangeFilter, view::json};
    use busyhour::clock::UnixTime;
    use busyhour_registrar::watch::MessageSummary;
    use std::sync::Arc;

    fn summary() -> Record {
        let voice = MessageCounts {
            new: 2,
            old: 8,
            urgent_new: 1,
            urgent_old: 0,
        };
        let id = Name::new("alice");
        let summary = MessageSummary {
            voice: Some(voice),
            ..MessageSummary::default()
        };
        let summary = Arc::new(summary);
        mailbox(&id.clone(), true, Some(&Mailbox { id, summary }))
    }

    #[test]
    fn a_change_is_one_object_with_its_elements_by_name() {
        let at = UnixTime::from_secs(1);
        assert_eq!(
            json(&summary(), at),
            r#"{"at_ns":1000000000,"event":"changed","kind":"mailbox","mailbox":"alice","user":"alice","voice_new":2,"voice_old":8,"voice_urgent_new":1,"voice_urgent_old":0,"waiting":true}"#
        );
        let gone = mailbox(&Name::new("alice"), true, None);
        assert_eq!(
            json(&gone, at),
            r#"{"at_ns":1000000000,"event":"changed","gone":true,"kind":"mailbox","mailbox":"alice","user":"alice"}"#
        );
    }

    #[test]
    fn a_filter_of_a_domain_wants_what_is_of_it() {
        let own = ChangeFilter::default().within("a.example");
        let aor = |text: &str| Name::new(text);
        let device = |text| device(&aor(text), true, None);
        assert!(own.wants(&device("sip:alice@a.example")));
        assert!(!own.wants(&device("sip:alice@b.example")));
        assert!(!own.wants(&device("sip:a.example")));
        assert!(
            !own.wants(&summary()),
            "a mailbox of the server's own realm"
        );
        let call = |caller: Option<&str>, callee: Option<&str>| {
            let record = begin(ChangeKind::Call, &aor("1@a.example"), Some("began"));
            let [caller, callee] = [caller, callee].map(|device| device.map(aor));
            devices(record, [&caller, &callee])
        };
        let (alice, bob) = (Some("sip:alice@a.example"), Some("sip:bob@b.example"));
        assert!(own.wants(&call(alice, bob)) && own.wants(&call(bob, alice)));
        assert!(!own.wants(&call(bob, None)) && !own.wants(&call(None, None)));
    }

    #[test]
    fn a_filter_wants_by_kind_user_and_elements() {
        let wants = |kind: &str, user: &str, having: &str| {
            let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
            let [kind, user, having] = [kind, user, having].map(|text| text.to_owned().leak());
            let filter = ChangeFilter::read(given(kind), given(user), given(having));
            filter.map(|filter| filter.wants(&summary()))
        };
        for (kind, user, having) in [
            ("", "", ""),
            ("call,mailbox", "", ""),
            ("", "alice", "voice_new"),
            ("mailbox", "alice", "voice_new=2,waiting=true"),
        ] {
            assert_eq!(
                wants(kind, user, having),
                Ok(true),
                "{kind} {user} {having}"
            );
        }
        for (kind, user, having) in [
            ("call", "", ""),
            ("", "bob", ""),
            ("", "sip:alice@example.com", ""),
            ("", "", "fax_new"),
            ("", "", "voice_new=3"),
            ("mailbox", "alice", "voice_new,gone"),
        ] {
            assert_eq!(
                wants(kind, user, having),
                Ok(false),
                "{kind} {user} {having}"
            );
        }
        for (kind, having) in [
            ("", "new"),
            ("", "voice_new=many"),
            ("", "waiting=false"),
            ("", "contacts=sip:a"),
            ("", "reachable=first"),
            ("mail", ""),
        ] {
            assert!(wants(kind, "", having).is_err(), "{kind} {having}");
        }
    }
}
