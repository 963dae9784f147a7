use busyhour::clock::Instant;
use busyhour_proxy::dns::{AnswerCache, DnsAnswer, Question, Record, RecordKind, TtlBounds};
use std::{net::Ipv4Addr, time::Duration};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn question(number: u32) -> Question {
    Question::new(&format!("Host{number}.Example."), RecordKind::A)
}

fn found(ttl_s: u64) -> DnsAnswer {
    let address = Record::Address(Ipv4Addr::new(192, 0, 2, 1).into());
    DnsAnswer::Found([address].into(), Duration::from_secs(ttl_s))
}

#[test]
fn an_answer_lasts_as_long_as_it_says_within_bounds() {
    let mut cache = AnswerCache::new(1, 8, TtlBounds::default());
    for (number, (answer, lasts_s)) in [
        (found(60), 60),
        (found(0), 5),
        (found(1_000_000), 3600),
        (DnsAnswer::Nothing(Duration::from_secs(86_400)), 300),
        (DnsAnswer::Nothing(Duration::ZERO), 5),
        (DnsAnswer::Failed, 5),
    ]
    .into_iter()
    .enumerate()
    {
        let question = question(number as u32);
        cache.put(at(100), question.clone(), answer.clone());
        let is_same = |kept: DnsAnswer| match (kept, &answer) {
            (DnsAnswer::Found(kept, left), DnsAnswer::Found(records, _)) => {
                assert_eq!(left, Duration::from_secs(1));
                kept == *records
            }
            (DnsAnswer::Nothing(_), DnsAnswer::Nothing(_))
            | (DnsAnswer::Failed, DnsAnswer::Failed) => true,
            _ => false,
        };
        let last = cache.get(at(100 + lasts_s - 1), &question);
        assert!(last.is_some_and(is_same), "{number}");
        assert_eq!(cache.get(at(100 + lasts_s), &question), None, "{number}");
    }
}

#[test]
fn a_full_cache_drops_what_ends_first_and_forgets_what_has_ended() {
    let mut cache = AnswerCache::new(1, 3, TtlBounds::default());
    for (number, ttl_s) in [(1, 50), (2, 40), (3, 60), (4, 55)] {
        cache.put(at(0), question(number), found(ttl_s));
    }
    assert_eq!(cache.len(), 3);
    assert_eq!(cache.get(at(1), &question(2)), None);
    assert!(
        [1, 3, 4]
            .iter()
            .all(|it| cache.get(at(1), &question(*it)).is_some())
    );
    cache.put(at(57), question(5), found(10));
    assert_eq!(cache.len(), 2, "two have ended");
}

#[test]
fn a_new_answer_replaces_the_old_one() {
    let mut cache = AnswerCache::new(1, 3, TtlBounds::default());
    cache.put(at(0), question(1), DnsAnswer::Failed);
    cache.put(at(1), question(1), found(60));
    assert_eq!(cache.len(), 1);
    assert!(matches!(
        cache.get(at(30), &question(1)),
        Some(DnsAnswer::Found(..))
    ));
    assert!(!cache.is_empty());
}
