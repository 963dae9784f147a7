//! Questions to DNS servers, on a thread of their own.

use crate::server::{AnswerListener, Resolver};
use busyhour_proxy::dns::{DnsAnswer, Naptr, Question, Record, RecordKind, Srv};
use domain::{
    base::{Message, Name, Rtype, Ttl, iana::Rcode, name::ToName},
    rdata::AllRecordData,
    resolv::stub::{
        StubResolver,
        conf::{ResolvConf, ServerConf, Transport},
    },
};
use std::{cell::Cell, io, net::SocketAddr, rc::Rc, str::FromStr, thread, time::Duration};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
    time::timeout,
};

/// Asks DNS servers by UDP, and by TCP what does not fit; of several, the next one if one does not
/// answer. What it is asked at the same time is bounded by whoever asks.
pub struct DnsClient {
    questions: UnboundedSender<(Question, AnswerListener)>,
}

impl DnsClient {
    /// Starts the thread `bh-dns`, which ends with the last handle. Without addresses, the
    /// servers are those of the system (`/etc/resolv.conf`).
    ///
    /// # Errors
    ///
    /// When the system refuses the thread.
    pub fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let servers = match servers {
            [] => ResolvConf::default().servers,
            own => {
                let server = |address: &SocketAddr| ServerConf::new(*address, Transport::UdpTcp);
                own.iter().map(server).collect()
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (questions, asked) = unbounded_channel();
        let thread = thread::Builder::new().name("bh-dns".into());
        thread.spawn(move || runtime.block_on(LocalSet::new().run_until(serve(servers, asked))))?;
        Ok(Self { questions })
    }
}

impl Resolver for DnsClient {
    fn ask(&self, question: Question, listener: AnswerListener) {
        if let Err(refused) = self.questions.send((question, listener)) {
            let (_, listener) = refused.0;
            listener(DnsAnswer::Failed);
        }
    }
}

async fn serve(servers: Vec<ServerConf>, mut asked: UnboundedReceiver<(Question, AnswerListener)>) {
    // One for each server: a server that fails must not end the question.
    let resolver = |server: ServerConf| {
        let mut conf = ResolvConf::new();
        conf.servers = vec![server];
        conf.options.timeout = SERVER_TIMEOUT;
        conf.finalize();
        StubResolver::from_conf(conf)
    };
    let servers = servers.into_iter().take(SERVERS_MAX);
    let resolvers = Rc::new(Resolvers {
        all: servers.map(resolver).collect(),
        first: Cell::new(0),
    });
    while let Some((question, listener)) = asked.recv().await {
        let resolvers = resolvers.clone();
        tokio::task::spawn_local(async move {
            let answer = ask_each(&resolvers, &question).await;
            listener(answer.unwrap_or(DnsAnswer::Failed));
        });
    }
}

struct Resolvers {
    all: Box<[StubResolver]>,
    /// The one that answered last is asked first, so that one that is silent costs one wait.
    first: Cell<usize>,
}

/// The first answer that says something; `None` if there is none.
async fn ask_each(resolvers: &Resolvers, question: &Question) -> Option<DnsAnswer> {
    // A name that DNS cannot have does not exist.
    let Ok(name) = Name::<Vec<u8>>::from_str(&question.name) else {
        return Some(DnsAnswer::Nothing(SILENT_TTL));
    };
    let (first, count) = (resolvers.first.get(), resolvers.all.len());
    for place in (first..first + count).map(|place| place % count) {
        let asked = resolvers.all[place].query((&name, rtype(question.kind)));
        let Ok(Ok(message)) = timeout(SERVER_TIMEOUT, asked).await else {
            continue;
        };
        let message = message.into_message();
        let rcode = message.header().rcode();
        if (rcode == Rcode::NOERROR || rcode == Rcode::NXDOMAIN)
            && let Some(answer) = read(&message)
        {
            resolvers.first.set(place);
            return Some(answer);
        }
    }
    None
}

/// What a message says; `None` if it is malformed.
fn read<Octets: domain::dep::octseq::Octets>(message: &Message<Octets>) -> Option<DnsAnswer> {
    let (mut records, mut ttl) = (Vec::new(), Duration::MAX);
    let owner = message.canonical_name()?;
    for record in message.answer().ok()? {
        let record = record.ok()?;
        let Ok(Some(record)) = record.to_record::<AllRecordData<_, _>>() else {
            continue;
        };
        // What leads to the owner counts as well.
        ttl = ttl.min(duration(record.ttl()));
        if record.owner().name_eq(&owner) {
            records.extend(record_of(record.data()));
        }
    }
    records.truncate(RECORDS_MAX);
    Some(match records.is_empty() {
        false => DnsAnswer::Found(records.into(), ttl),
        true => DnsAnswer::Nothing(nothing_ttl(message).unwrap_or(SILENT_TTL)),
    })
}

fn record_of<Octets, N>(data: &AllRecordData<Octets, N>) -> Option<Record>
where
    Octets: AsRef<[u8]>,
    N: ToName + std::fmt::Display,
{
    Some(match data {
        AllRecordData::A(a) => Record::Address(a.addr().into()),
        AllRecordData::Aaaa(aaaa) => Record::Address(aaaa.addr().into()),
        AllRecordData::Srv(srv) => Record::Srv(Srv {
            priority: srv.priority(),
            weight: srv.weight(),
            port: srv.port(),
            target: text(srv.target()),
        }),
        AllRecordData::Naptr(naptr) => Record::Naptr(Naptr {
            order: naptr.order(),
            preference: naptr.preference(),
            flags: String::from_utf8_lossy(naptr.flags().as_ref()).into(),
            service: String::from_utf8_lossy(naptr.services().as_ref()).into(),
            replacement: text(naptr.replacement()),
        }),
        _ => return None,
    })
}

/// Without its last dot; the root is empty.
fn text(name: &(impl ToName + std::fmt::Display)) -> Box<str> {
    let text = name.to_string();
    text.strip_suffix('.').unwrap_or(&text).into()
}

/// For how long there is nothing (RFC 2308 §5).
fn nothing_ttl<Octets: domain::dep::octseq::Octets>(message: &Message<Octets>) -> Option<Duration> {
    let mut authorities = message.authority().ok()?;
    authorities.find_map(|record| {
        let record = record.ok()?;
        let record = record.to_record::<AllRecordData<_, _>>().ok()??;
        match record.data() {
            AllRecordData::Soa(soa) => Some(duration(soa.minimum()).min(duration(record.ttl()))),
            _ => None,
        }
    })
}

fn duration(ttl: Ttl) -> Duration {
    Duration::from_secs(ttl.as_secs().into())
}

fn rtype(kind: RecordKind) -> Rtype {
    match kind {
        RecordKind::Naptr => Rtype::NAPTR,
        RecordKind::Srv => Rtype::SRV,
        RecordKind::A => Rtype::A,
        RecordKind::Aaaa => Rtype::AAAA,
    }
}

/// For which a server may be silent.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
/// As the system's own resolver has.
const SERVERS_MAX: usize = 3;
/// Of one answer.
const RECORDS_MAX: usize = 64;
/// If nothing says how long there is nothing.
const SILENT_TTL: Duration = Duration::from_secs(30);
