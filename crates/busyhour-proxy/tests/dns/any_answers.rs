//! Any bytes as what DNS answers, and as what is done with kept answers: a name is located after
//! few questions and leads only where it may; the cache keeps what a naive one keeps.

use crate::zone::Zone;
use busyhour::clock::Instant;
use busyhour_proxy::dns::{
    AnswerCache, DnsAnswer, HopName, Question, Record, RecordKind, Transports, TtlBounds,
};
use busyhour_sip::{Transport, Uri};
use std::{collections::HashSet, net::IpAddr, time::Duration};

/// The body of the property.
pub fn hold(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.byte() % 2 {
        0 => locates_soundly(&mut input),
        _ => keeps_like_a_naive_one(&mut input),
    }
}

fn locates_soundly(input: &mut Input<'_>) {
    let transports = input.byte();
    let allowed = Transports {
        udp: transports & 1 != 0,
        tcp: transports & 2 != 0,
        tls: transports & 4 != 0,
    };
    let uri = format!(
        "sip{}:bob@{}{}{}",
        if transports & 8 != 0 { "s" } else { "" },
        input.name(),
        ["", ":5070", ":0", ""][usize::from(transports >> 4) % 4],
        ["", ";transport=tcp", ";transport=tls", ";maddr=b.example"][usize::from(transports >> 6)],
    );
    let uri = Uri::parse(&uri);
    let Some(name) = uri.and_then(|uri| HopName::of_uri(uri.as_sip()?)) else {
        return;
    };
    assert!(
        name.host.parse::<IpAddr>().is_err(),
        "an address is no name"
    );
    let draw = u64::from(input.number());
    let mut zone = Zone::default().only(allowed);
    while !input.0.is_empty() {
        zone = input.add_to(zone);
    }
    let (rounds, found) = zone.follow(&name);
    assert!(rounds.len() <= ROUNDS_MAX, "{rounds:?}");
    let questions: Vec<_> = rounds.iter().flatten().collect();
    assert!(questions.len() <= QUESTIONS_MAX, "{}", questions.len());
    let Ok(servers) = found else {
        return;
    };
    let order = servers.order(|| draw);
    let all: HashSet<_> = servers.addresses().collect();
    assert_eq!(order.iter().copied().collect::<HashSet<_>>(), all);
    assert!(!order.is_empty() && order.len() <= 16 * 8);
    for (over, address) in order {
        assert!(address.port() != 0);
        assert!(!address.ip().is_unspecified() && !address.ip().is_multicast());
        assert!(!name.is_secure || over == Transport::Tls);
        assert!(name.transport.is_none_or(|named| named == over));
        assert!(name.port.is_none_or(|port| port == address.port()));
        assert!(match over {
            Transport::Udp => allowed.udp,
            Transport::Tcp => allowed.tcp,
            Transport::Tls => allowed.tls,
            Transport::Ws | Transport::Wss => false,
        });
    }
    let priorities = servers.servers().iter().map(|server| server.priority);
    assert!(priorities.is_sorted());
}

/// Answers in the order in which they came, each with its end.
type Naive = Vec<(Question, DnsAnswer, Instant)>;

fn keeps_like_a_naive_one(input: &mut Input<'_>) {
    let bounds = TtlBounds::default();
    let capacity = usize::from(input.byte() % 4) + 1;
    let mut cache = AnswerCache::new(1, capacity, bounds);
    let (mut naive, mut now): (Naive, _) = (Vec::new(), Instant::ZERO);
    while !input.0.is_empty() {
        let question = Question::new(["a", "b", "c", "d", "e"][input.below(5)], RecordKind::A);
        match input.below(4) {
            0 => now = now + Duration::from_secs(u64::from(input.number() % 600)),
            1 | 2 => {
                let answer = input.answer();
                cache.put(now, question.clone(), answer.clone());
                put(&mut naive, capacity, now, (question, answer, bounds));
            }
            _ => assert_eq!(cache.get(now, &question), get(&naive, now, &question)),
        }
        assert_eq!(cache.len(), naive.len());
        assert_eq!(cache.is_empty(), naive.is_empty());
    }
}

fn put(
    naive: &mut Naive,
    capacity: usize,
    now: Instant,
    (question, answer, bounds): (Question, DnsAnswer, TtlBounds),
) {
    naive.retain(|(other, _, until)| *until > now && *other != question);
    if naive.len() >= capacity {
        let ends = naive.iter().enumerate();
        let first = ends.min_by_key(|(place, (.., until))| (*until, *place));
        naive.remove(first.expect("it is full").0);
    }
    let until = now + bounds.life_of(&answer);
    naive.push((question, answer, until));
}

fn get(naive: &Naive, now: Instant, wanted: &Question) -> Option<DnsAnswer> {
    let mut kept = naive.iter();
    let (_, answer, until) =
        kept.find(|(question, _, until)| question == wanted && *until > now)?;
    let left = *until - now;
    Some(match answer {
        DnsAnswer::Found(records, _) => DnsAnswer::Found(records.clone(), left),
        DnsAnswer::Nothing(_) => DnsAnswer::Nothing(left),
        DnsAnswer::Failed => DnsAnswer::Failed,
    })
}

/// Bytes as numbers and names; zeros at the end.
struct Input<'b>(&'b [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let first = self.0.split_first();
        first.map_or(0, |(first, rest)| {
            self.0 = rest;
            *first
        })
    }

    fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// One that leads somewhere, or any text.
    fn name(&mut self) -> String {
        let choice = self.below(NAMES.len() + 1);
        if let Some(name) = NAMES.get(choice) {
            return (*name).to_owned();
        }
        let (text, rest) = self.0.split_at(self.0.len().min(8));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn add_to(&mut self, zone: Zone) -> Zone {
        let (kind, name, next) = (self.below(5), self.name(), self.name());
        let numbers = (self.number(), self.number(), self.number());
        match kind {
            0 => {
                let [flags, service] = [FLAGS[self.below(3)], SERVICES[self.below(4)]];
                zone.naptr(&name, (numbers.0, numbers.1), (flags, service, &next))
            }
            1 => zone.srv(&name, numbers, &next),
            2 => {
                let [high, low] = numbers.0.to_be_bytes();
                zone.a(&name, &format!("{high}.0.2.{low}"))
            }
            3 => zone.aaaa(&name, &format!("{:x}:db8::{:x}", numbers.1, numbers.0)),
            _ => zone.silent(&name, KINDS[self.below(KINDS.len())]),
        }
    }

    fn answer(&mut self) -> DnsAnswer {
        let ttl = Duration::from_secs(u64::from(self.number()));
        match self.below(3) {
            0 => DnsAnswer::Found([Record::Address([192, 0, 2, 1].into())].into(), ttl),
            1 => DnsAnswer::Nothing(ttl),
            _ => DnsAnswer::Failed,
        }
    }
}

const NAMES: [&str; 6] = [
    "a.example",
    "_sip._udp.a.example",
    "_sip._tcp.a.example",
    "_sips._tcp.a.example",
    "b.example",
    "",
];
const FLAGS: [&str; 3] = ["s", "S", "u"];
const SERVICES: [&str; 4] = ["SIP+D2U", "sip+d2t", "SIPS+D2T", "E2U+sip"];
const KINDS: [RecordKind; 4] = [
    RecordKind::Naptr,
    RecordKind::Srv,
    RecordKind::A,
    RecordKind::Aaaa,
];
/// NAPTR; SRV and addresses of each of its four services; SRV of every transport, the addresses
/// of one of them, and of the name itself.
const ROUNDS_MAX: usize = 1 + 4 * 2 + 3;
/// Each service has at most 16 hosts, each with two kinds of addresses.
const QUESTIONS_MAX: usize = 1 + 4 * (1 + 32) + 3 + 32 + 2;
