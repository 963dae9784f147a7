//! The publications of one presentity, with a clock of their own.

use busyhour::clock::Instant;
use busyhour_registrar::{
    Refusal,
    watch::{Publications, Publish, PublishStep, WatchPolicy},
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
    let step = plan.granted.step;
    publications.apply(plan);
    Ok(step)
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

const COUNT_MAX: usize = 3;
