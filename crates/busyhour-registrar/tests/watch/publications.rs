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
