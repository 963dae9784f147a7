//! The publications of one presentity, with a clock of their own.

use busyhour::clock::{Instant, UnixTime};
use busyhour_registrar::{
    BindingId, EndedBinding, Refusal,
    watch::{Granted, Keep, Publications, Publish, PublishStep, Restorable, WatchPolicy},
};
use busyhour_sip::Message;
use std::time::Duration;

#[test]
fn a_tag_is_valid_until_its_publication_ends_and_not_at_its_end() {
    let mut publications = Publications::default();
    let created = publish(&mut publications, "Expires: 60\r\n", 0);
    assert_eq!(created, Ok(PublishStep::Created));
    assert_eq!(publications.next_expiry(), Some(at(60_000)));
    let refresh = "SIP-If-Match: t1\r\nExpires: 60\r\n";
    let late = publish(&mut publications, refresh, 60_000);
    assert_eq!(late, Err(Refusal::ConditionFailed));
    let in_time = publish(&mut publications, refresh, 59_999);
    assert_eq!(in_time, Ok(PublishStep::Modified));
    let again = publish(&mut publications, refresh, 59_999);
    assert_eq!(
        again,
        Err(Refusal::ConditionFailed),
        "the publication has another tag"
    );
    assert!(publications.expire(at(119_998)).packages.is_empty());
    assert_eq!(publications.expire(at(119_999)).packages.len(), 1);
    assert!(publications.is_empty());
}

/// Its answer was lost with the node that gave it, and it comes to the next owner of the device, which has what was stored.
#[test]
fn a_request_that_comes_again_to_another_owner_is_answered_as_it_was() {
    let named = |cseq: u32, more: &str| format!("Call-ID: c@a\r\nCSeq: {cseq} PUBLISH\r\n{more}");
    let modify = "SIP-If-Match: t1\r\nExpires: 60\r\n";
    let mut publications = Publications::default();
    publish(&mut publications, &named(1, "Expires: 60\r\n"), 0).expect("granted");
    let (granted, stored) = answer(&mut publications, &named(2, modify), 1_000);
    assert_eq!(granted.step, PublishStep::Modified);
    let mut next_owner = Publications::default();
    let row = EndedBinding {
        id: BindingId(7),
        expires_at: UnixTime::from_nanos(1),
    };
    let stored = Restorable::read(&stored.expect("it is kept")).expect("as it was written");
    next_owner.put_back(stored, row, at(61_000), at(2_000));
    for publications in [&mut publications, &mut next_owner] {
        let (again, stored) = answer(publications, &named(2, modify), 3_000);
        assert_eq!(
            (again.step, &again.etag),
            (PublishStep::Repeated, &granted.etag)
        );
        assert_eq!((again.expires_s, stored), (58, None), "what is left of it");
        // It is another request, whatever its numbers are.
        for other in [named(3, modify), named(2, &modify.replace("60", "61"))] {
            let refused = publish(publications, &other, 3_000);
            assert_eq!(refused, Err(Refusal::ConditionFailed));
        }
        let next = format!("SIP-If-Match: {}\r\n", granted.etag);
        let next = publish(publications, &named(3, &next), 4_000);
        assert_eq!(next, Ok(PublishStep::Modified));
        let late = publish(publications, &named(2, modify), 5_000);
        assert_eq!(
            late,
            Err(Refusal::ConditionFailed),
            "a later one was answered"
        );
    }
}

/// The same of the request that takes the publication back: there is nothing any more that has its entity-tag.
#[test]
fn a_removal_that_comes_again_to_another_owner_is_answered_as_it_was() {
    let named = |cseq: u32, more: &str| format!("Call-ID: c@a\r\nCSeq: {cseq} PUBLISH\r\n{more}");
    let remove = "SIP-If-Match: t1\r\nExpires: 0\r\n";
    let mut publications = Publications::default();
    publish(&mut publications, &named(1, "Expires: 60\r\n"), 0).expect("granted");
    let (granted, stored) = answer(&mut publications, &named(2, remove), 1_000);
    assert_eq!(granted.step, PublishStep::Removed);
    assert_eq!((publications.len(), publications.removed_len()), (0, 1));
    assert!(publications.told().is_none());
    let row = EndedBinding {
        id: BindingId(7),
        expires_at: UnixTime::from_nanos(1),
    };
    let stored = stored.expect("it is kept");
    let restorable = Restorable::read(&stored).expect("as it was written");
    assert!(restorable.is_removal());
    assert_eq!(restorable.device(), "sip:alice@example.com");
    let mut next_owner = Publications::default();
    next_owner.put_back(restorable, row, at(33_000), at(2_000));
    assert!(next_owner.told().is_none());
    assert_eq!((next_owner.len(), next_owner.removed_len()), (0, 1));
    for publications in [&mut publications, &mut next_owner] {
        let (again, stored) = answer(publications, &named(2, remove), 3_000);
        assert_eq!(
            (again.step, &again.etag, again.expires_s, stored),
            (PublishStep::Repeated, &granted.etag, 0, None)
        );
        // It is another request, whatever its numbers are.
        for other in [named(3, remove), named(2, &remove.replace("t1", "t2"))] {
            let refused = publish(publications, &other, 3_000);
            assert_eq!(refused, Err(Refusal::ConditionFailed));
        }
        assert_eq!(publications.next_expiry(), Some(at(33_000)));
        assert_eq!(publications.expire(at(32_999)).forgotten_count, 0);
        assert_eq!(publications.expire(at(33_000)).forgotten_count, 1);
        assert!(publications.is_empty());
        let late = publish(publications, &named(2, remove), 33_000);
        assert_eq!(late, Err(Refusal::ConditionFailed));
    }
}

/// A copy of the first request comes when the publication has gone on: it must not begin another one, whose entity-tag
/// nobody knows.
#[test]
fn a_late_copy_of_a_first_publication_begins_no_other() {
    let named = |cseq: u32, more: &str| format!("Call-ID: c@a\r\nCSeq: {cseq} PUBLISH\r\n{more}");
    let first = named(1, "Expires: 60\r\n");
    let mut publications = Publications::default();
    publish(&mut publications, &first, 0).expect("granted");
    let modify = named(2, "SIP-If-Match: t1\r\nExpires: 60\r\n");
    let (_, stored) = answer(&mut publications, &modify, 1_000);
    let stored = Restorable::read(&stored.expect("it is kept")).expect("as it was written");
    let row = EndedBinding {
        id: BindingId(7),
        expires_at: UnixTime::from_nanos(1),
    };
    let mut next_owner = Publications::default();
    next_owner.put_back(stored, row, at(61_000), at(2_000));
    for publications in [&mut publications, &mut next_owner] {
        let late = publish(publications, &first, 9_000);
        assert_eq!((late, publications.len()), (Ok(PublishStep::Repeated), 1));
        // It is taken back, and one more copy comes.
        let remove = named(3, "SIP-If-Match: u2\r\nExpires: 0\r\n");
        publish(publications, &remove, 10_000).expect("granted");
        let late = publish(publications, &first, 20_000);
        assert_eq!((late, publications.len()), (Ok(PublishStep::Repeated), 0));
    }
    // A telephone that counts from one again begins a publication.
    assert!(publications.expire(at(42_000)).packages.is_empty());
    let anew = publish(&mut publications, &first, 42_000);
    assert_eq!(anew, Ok(PublishStep::Created));
}

/// A telephone that has published for long, takes that back and starts again counts from one: its first request is no copy.
#[test]
fn a_publication_begins_anew_soon_after_a_long_one_was_taken_back() {
    let named = |cseq: u32, more: &str| format!("Call-ID: c@a\r\nCSeq: {cseq} PUBLISH\r\n{more}");
    let first = named(1, "Expires: 60\r\n");
    let mut publications = Publications::default();
    publish(&mut publications, &first, 0).expect("granted");
    let remove = named(2, "SIP-If-Match: t1\r\nExpires: 0\r\n");
    let removed = publish(&mut publications, &remove, 40_000);
    assert_eq!(removed, Ok(PublishStep::Removed));
    let anew = publish(&mut publications, &first, 41_000);
    assert_eq!((anew, publications.len()), (Ok(PublishStep::Created), 1));
}

/// Who begins and ends publications all the time takes no more memory than for so many.
#[test]
fn the_number_of_removals_that_are_remembered_is_limited() {
    let mut publications = Publications::default();
    for cseq in 0..40 {
        let named = |more: &str| format!("Call-ID: {cseq}@a\r\nCSeq: 1 PUBLISH\r\n{more}");
        publish(&mut publications, &named(""), 0).expect("granted");
        let removed = publish(
            &mut publications,
            &named("SIP-If-Match: t1\r\nExpires: 0\r\n"),
            0,
        );
        assert_eq!(removed, Ok(PublishStep::Removed));
    }
    assert_eq!(publications.removed_len(), 16);
    let ended = publications.expire(at(32_000));
    assert_eq!((ended.forgotten_count, ended.packages.len()), (16, 0));
}

/// A second publication would be told for as long as it was granted, since nobody knows its entity-tag.
#[test]
fn a_first_publication_that_comes_again_is_one() {
    let mut publications = Publications::default();
    let first = "Call-ID: c@a\r\nCSeq: 1 PUBLISH\r\n";
    for step in [PublishStep::Created, PublishStep::Repeated] {
        assert_eq!(publish(&mut publications, first, 0), Ok(step));
    }
    assert_eq!(publications.len(), 1);
}

#[test]
fn the_number_of_publications_is_limited() {
    let mut publications = Publications::default();
    for _ in 0..COUNT_MAX {
        assert!(publish(&mut publications, "", 0).is_ok());
    }
    let one_more = publish(&mut publications, "", 0);
    assert_eq!(one_more, Err(Refusal::TooManyPublications));
    let nothing = publish(&mut publications, "Expires: 0\r\n", 0);
    assert_eq!(nothing, Ok(PublishStep::Nothing));
    assert_eq!(publications.len(), COUNT_MAX);
}

#[test]
fn a_body_is_at_most_as_long_as_the_policy_allows() {
    let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\"><note>x</note></presence>";
    let read = |publication_len_max| {
        let text = format!(
            "PUBLISH sip:alice@example.com SIP/2.0\r\nEvent: presence\r\n\
             Content-Type: application/pidf+xml\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let message = Message::parse(text.as_bytes()).unwrap();
        let policy = WatchPolicy {
            publication_len_max,
            ..WatchPolicy::default()
        };
        Publish::read(&message, &policy).map(|publish| publish.document.is_some())
    };
    assert_eq!(read(body.len()), Ok(true));
    assert_eq!(read(body.len() - 1), Err(Refusal::TooLarge));
}

/// The tag is `t` and the number of earlier publications plus one.
fn publish(
    publications: &mut Publications,
    headers: &str,
    milliseconds: u64,
) -> Result<PublishStep, Refusal> {
    let (granted, _) = try_publish(publications, headers, milliseconds)?;
    Ok(granted.step)
}

/// What is answered, and what is stored.
fn answer(
    publications: &mut Publications,
    headers: &str,
    milliseconds: u64,
) -> (Granted, Option<String>) {
    try_publish(publications, headers, milliseconds).expect("it is granted")
}

fn try_publish(
    publications: &mut Publications,
    headers: &str,
    milliseconds: u64,
) -> Result<(Granted, Option<String>), Refusal> {
    let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\"/>";
    let text = format!(
        "PUBLISH sip:alice@example.com SIP/2.0\r\n\
         Event: presence\r\n\
         Content-Type: application/pidf+xml\r\n\
         {headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let message = Message::parse(text.as_bytes()).unwrap();
    let publish = Publish::read(&message, &WatchPolicy::default())?;
    let is_first = publish.if_match.is_none();
    let number = publications.len() as u64 + 1;
    let tag = if is_first { "t" } else { "u" };
    let mut new = || (number, format!("{tag}{number}"));
    let plan = publications.plan(publish, None, COUNT_MAX, at(milliseconds), &mut new)?;
    let granted = plan.granted.clone();
    let stored = match publications.keep("sip:alice@example.com", &plan) {
        Some(Keep::Put(_, stored)) => Some(stored),
        _ => None,
    };
    publications.apply(plan);
    Ok((granted, stored))
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

const COUNT_MAX: usize = 3;
