//! What DNS knows in a test.

use busyhour_proxy::dns::{
    DnsAnswer, HopName, Location, Naptr, NotLocated, Question, Record, RecordKind, Servers, Srv,
    Transports, locate,
};
use busyhour_sip::{Transport, Uri};
use std::{cell::RefCell, collections::HashMap, net::SocketAddr, time::Duration};

/// Records by their questions.
#[derive(Debug, Clone, Default)]
pub struct Zone {
    records: HashMap<Question, Vec<Record>>,
    silent: Vec<Question>,
    ttls: HashMap<Question, u64>,
    transports: Option<Transports>,
}

impl Zone {
    fn add(mut self, name: &str, kind: RecordKind, record: Record) -> Self {
        let records = self.records.entry(Question::new(name, kind));
        records.or_default().push(record);
        self
    }

    pub fn a(self, name: &str, ip: &str) -> Self {
        self.add(name, RecordKind::A, Record::Address(ip.parse().unwrap()))
    }

    pub fn aaaa(self, name: &str, ip: &str) -> Self {
        self.add(name, RecordKind::Aaaa, Record::Address(ip.parse().unwrap()))
    }

    pub fn srv(self, name: &str, (priority, weight, port): (u16, u16, u16), target: &str) -> Self {
        let srv = Srv {
            priority,
            weight,
            port,
            target: target.into(),
        };
        self.add(name, RecordKind::Srv, Record::Srv(srv))
    }

    pub fn naptr(
        self,
        name: &str,
        (order, preference): (u16, u16),
        (flags, service, replacement): (&str, &str, &str),
    ) -> Self {
        let naptr = Naptr {
            order,
            preference,
            flags: flags.into(),
            service: service.into(),
            replacement: replacement.into(),
        };
        self.add(name, RecordKind::Naptr, Record::Naptr(naptr))
    }

    /// Nobody answers this question.
    pub fn silent(mut self, name: &str, kind: RecordKind) -> Self {
        self.silent.push(Question::new(name, kind));
        self
    }

    pub fn ttl(mut self, name: &str, kind: RecordKind, seconds: u64) -> Self {
        self.ttls.insert(Question::new(name, kind), seconds);
        self
    }

    pub fn only(mut self, transports: Transports) -> Self {
        self.transports = Some(transports);
        self
    }

    pub fn answer(&self, question: &Question) -> DnsAnswer {
        let ttl = Duration::from_secs(*self.ttls.get(question).unwrap_or(&600));
        match self.records.get(question) {
            _ if self.silent.contains(question) => DnsAnswer::Failed,
            Some(records) => DnsAnswer::Found(records.clone().into(), ttl),
            None => DnsAnswer::Nothing(ttl),
        }
    }

    /// The questions in the rounds in which they were asked, and where they lead.
    pub fn follow(&self, name: &HopName) -> (Vec<Vec<Question>>, Result<Servers, NotLocated>) {
        let known: RefCell<HashMap<Question, DnsAnswer>> = RefCell::default();
        let transports = self.transports.unwrap_or(Transports::ALL);
        let mut rounds = Vec::new();
        loop {
            let know = |question: &Question| known.borrow().get(question).cloned();
            match locate(name, transports, know) {
                Location::Found(servers) => return (rounds, Ok(servers)),
                Location::Not(reason, _) => return (rounds, Err(reason)),
                Location::Asks(questions) => {
                    assert!(!questions.is_empty(), "it would wait for ever");
                    for question in &questions {
                        let answer = self.answer(question);
                        let again = known.borrow_mut().insert(question.clone(), answer);
                        assert_eq!(again, None, "{question:?} was answered");
                    }
                    rounds.push(questions);
                }
            }
        }
    }

    pub fn servers(&self, uri: &str) -> Result<Servers, NotLocated> {
        self.follow(&hop(uri)).1
    }

    /// In the order in which a request tries them, with the lightest draw.
    pub fn addresses(&self, uri: &str) -> Vec<(Transport, SocketAddr)> {
        self.servers(uri).unwrap().order(|| 1)
    }
}

pub fn hop(uri: &str) -> HopName {
    HopName::of_uri(Uri::parse(uri).unwrap().as_sip().unwrap()).expect("a name")
}

pub fn at(transport: Transport, address: &str) -> (Transport, SocketAddr) {
    (transport, address.parse().unwrap())
}
