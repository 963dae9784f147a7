//! Kills the server again and again with `kill -9` during a storm: every
//! acknowledged registration is there afterwards.

mod support;

use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, Lease};
use busyhour_sip::Flow;
use busyhour_store::{Change, SqliteOptions, SqliteStore, Store};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use support::{Place, ServerProcess, busyhour, ports::free_port, random::Random};

const DEVICES: usize = 4_000;
const KILLS: usize = 5;
/// More than a start reads before it serves.
const STORED: usize = 60_000;
const OPEN: &str = "[sip]\nauth = \"open\"\ndomains = [\"busyhour.test\"]\n";
/// One source is all devices: on a busy machine what waits for it would be beyond a share, and be
/// refused.
const CONFIGURATION: &str = "
[limits]
source_percent = 100
account_percent = 100
[[account_range]]
prefix = \"device\"
count = 4000
password = \"busyhour\"
";

#[test]
fn every_acknowledged_binding_survives_kills_and_none_appears_from_nowhere() {
    let mut random = Random::new();
    let seed = random.seed;
    let place = Place::new();
    let journal = place.file("journal", "");
    // A port that no other program gets while the server is down.
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut server = serve(&place, address);
    let mut storm = storm(address, &journal);
    for kill_at in moments(&mut random) {
        wait_for_acknowledgements(&journal, kill_at, &mut storm);
        server.kill();
        server = serve(&place, address);
        compare(&server, &journal, seed);
    }
    let status = storm.wait().unwrap();
    assert!(
        status.success(),
        "the storm: {status}, seed {seed}\n{}",
        server.log()
    );
    compare(&server, &journal, seed);
    assert_eq!(server.stat("/registrar/binding_count"), DEVICES as u64);
    assert!(server.stop().success());
}

#[test]
fn watchers_are_notified_of_changes_after_a_kill_as_before_it() {
    let place = Place::new();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut server = serve_with(&place, address, OPEN);
    let lamp = Phone::new(address);
    lamp.send(&request(
        &lamp,
        "SUBSCRIBE",
        "",
        "Event: presence\r\nExpires: 3600",
    ));
    assert!(lamp.next("SIP/2.0 ").starts_with("SIP/2.0 200 "));
    assert!(lamp.told().contains("<basic>closed</basic>"));
    for life in 1..4 {
        server.kill();
        server = serve_with(&place, address, OPEN);
        assert_eq!(server.stat("/watch/restored"), 1, "life {life}");
        // The watcher gets the state again at once, although it has not
        // changed.
        lamp.told();
        let phone = Phone::new(address);
        let contact = |expires_s: u32| {
            let at = phone.0.local_addr().unwrap();
            format!("Contact: <sip:alice@{at}>;expires={expires_s}")
        };
        phone.send(&request(&phone, "REGISTER", "1", &contact(600)));
        assert!(phone.next("SIP/2.0 ").starts_with("SIP/2.0 200 "));
        assert!(lamp.told().contains("<basic>open</basic>"), "life {life}");
        phone.send(&request(&phone, "REGISTER", "2", &contact(0)));
        assert!(phone.next("SIP/2.0 ").starts_with("SIP/2.0 200 "));
        assert!(lamp.told().contains("<basic>closed</basic>"), "life {life}");
    }
    assert!(server.stop().success());
}

/// More registrations than a start reads before it serves: what is acknowledged while they are read, and what nobody has
/// asked for, is all there after the last kill.
#[test]
fn kills_while_registrations_are_read_lose_none_and_bring_none_back() {
    let place = Place::new();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    assert!(serve_with(&place, address, OPEN).stop().success());
    fill(&place.path("busyhour.db"));
    let (mut random, mut has_read_meanwhile) = (Random::new(), false);
    let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
    for life in 0..4 {
        let server = serve_with(&place, address, OPEN);
        let phone = Phone::new(address);
        for turn in 0..6 {
            let number = random.below(STORED);
            if removed.contains(&number) || added.contains(&number) {
                continue;
            }
            let headers = if turn % 3 == 0 {
                removed.insert(number);
                "Contact: *\r\nExpires: 0".to_owned()
            } else {
                added.insert(number);
                format!("Contact: <sip:new{number}@192.0.2.77>;expires=3600")
            };
            phone.send(&register_stored(&phone, number, life * 10 + turn, &headers));
            let answer = phone.next("SIP/2.0 ");
            assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
            let contacts = if turn % 3 == 0 { 0 } else { 2 };
            assert_eq!(
                answer.matches("\r\nContact: ").count(),
                contacts,
                "{answer}"
            );
        }
        has_read_meanwhile |= server.stat("/registrar/unread_count") > 0;
        server.kill();
    }
    assert!(
        has_read_meanwhile,
        "no kill came while registrations were read"
    );
    let server = serve_with(&place, address, OPEN);
    let contacts_of = |number: usize| {
        let path = format!("/api/v1/bindings/stored{number}@busyhour.test");
        let found = ureq::get(format!("http://{}{path}", server.http)).call();
        match found {
            Ok(response) => {
                let body = response.into_body().read_to_string().unwrap();
                body.matches("\"contact\"").count()
            }
            Err(ureq::Error::StatusCode(404)) => 0,
            Err(error) => panic!("{number}: {error}"),
        }
    };
    for number in &removed {
        assert_eq!(contacts_of(*number), 0, "{number} was removed");
    }
    for number in &added {
        assert_eq!(contacts_of(*number), 2, "{number} has another one");
    }
    server.wait_for("/registrar/unread_count", |count| count == 0);
    let expected = STORED - removed.len() + added.len();
    assert_eq!(server.stat("/registrar/binding_count"), expected as u64);
    // What was removed is remembered for a while, for late duplicates.
    let devices = server.stat("/registrar/device_count");
    let least = (STORED - removed.len()) as u64;
    assert!((least..=STORED as u64).contains(&devices), "{devices}");
    assert!(server.stop().success());
}

/// Stores a contact for each of so many devices.
fn fill(database: &Path) {
    let store = SqliteStore::open(SqliteOptions::new(database)).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let lease = Lease {
        cseq: 1,
        granted_s: 3600,
        expires_at: UnixTime::from_secs(now.as_secs() + 3600),
        removed: false,
    };
    let flow = Flow::udp(
        "127.0.0.1:5060".parse().unwrap(),
        "192.0.2.7:5060".parse().unwrap(),
    );
    let puts = (0..STORED).map(|number| {
        let (uri, call_id) = (
            format!("sip:s@192.0.2.7:5060;n={number}"),
            format!("c{number}"),
        );
        Change::Binding(BindingChange::Put {
            id: BindingId(number as u64 + 1),
            aor: format!("sip:stored{number}@busyhour.test").into(),
            contact: Contact::new(ContactParts {
                uri: &uri,
                parameters: "",
                q_milli: None,
                call_id: &call_id,
                path: "",
                user_agent: "phone",
                flow,
            }),
            lease,
        })
    });
    let (told, fate) = mpsc::channel();
    let done = move |outcome: Result<(), _>| told.send(outcome).unwrap();
    store.commit(puts.collect(), Box::new(done)).unwrap();
    fate.recv().unwrap().unwrap();
}

fn register_stored(phone: &Phone, number: usize, cseq: usize, headers: &str) -> String {
    let at = phone.0.local_addr().unwrap();
    format!(
        "REGISTER sip:busyhour.test SIP/2.0\r\n\
         Via: SIP/2.0/UDP {at};branch=z9hG4bK{number}.{cseq};rport\r\n\
         From: <sip:stored{number}@busyhour.test>;tag=f\r\n\
         To: <sip:stored{number}@busyhour.test>\r\n\
         Call-ID: new{number}\r\n\
         CSeq: {} REGISTER\r\n\
         {headers}\r\n\
         Content-Length: 0\r\n\r\n",
        cseq + 2
    )
}

/// A telephone over UDP, and the CSeq of the last NOTIFY that it accepted.
struct Phone(UdpSocket, Cell<u64>);

impl Phone {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self(socket, Cell::new(0))
    }

    fn send(&self, text: &str) {
        self.0.send(text.as_bytes()).unwrap();
    }

    /// The next message that begins with `begin`. While there is no server, the
    /// system reports an error.
    fn next(&self, begin: &str) -> String {
        let mut room = [0; 65_536];
        loop {
            match self.0.recv(&mut room) {
                Ok(len) if room[..len].starts_with(begin.as_bytes()) => {
                    return String::from_utf8_lossy(&room[..len]).into_owned();
                }
                Err(error) if error.kind() != ErrorKind::ConnectionRefused => {
                    panic!("no message that begins with {begin:?}: {error}")
                }
                _ => {}
            }
        }
    }

    /// The next NOTIFY with a higher CSeq than the earlier ones; it is answered.
    fn told(&self) -> String {
        let notify = self.next("NOTIFY ");
        let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let mut answer = "SIP/2.0 200 OK\r\n".to_owned();
        for line in notify
            .split("\r\n")
            .filter(|line| copied.iter().any(|n| line.starts_with(n)))
        {
            answer += line;
            answer += "\r\n";
        }
        let (_, number) = answer.split_once("CSeq: ").unwrap();
        let number = number.split(' ').next().unwrap().parse().unwrap();
        self.send(&(answer.clone() + "Content-Length: 0\r\n\r\n"));
        match number > self.1.replace(number) {
            true => notify,
            false => self.told(),
        }
    }
}

fn request(phone: &Phone, method: &str, number: &str, headers: &str) -> String {
    let at = phone.0.local_addr().unwrap();
    let contact = match method {
        "SUBSCRIBE" => format!("Contact: <sip:lamp@{at}>\r\n"),
        _ => String::new(),
    };
    format!(
        "{method} sip:alice@busyhour.test SIP/2.0\r\n\
         Via: SIP/2.0/UDP {at};branch=z9hG4bK{method}{number}{at};rport\r\n\
         From: <sip:alice@busyhour.test>;tag=f\r\n\
         To: <sip:alice@busyhour.test>\r\n\
         Call-ID: {method}{at}\r\n\
         CSeq: 1{number} {method}\r\n\
         {contact}{headers}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// Starts the server on the address to which the storm sends, first and after each
/// kill.
fn serve(place: &Place, sip: SocketAddr) -> ServerProcess {
    serve_with(place, sip, CONFIGURATION)
}

fn serve_with(place: &Place, sip: SocketAddr, configuration: &str) -> ServerProcess {
    let mut command = busyhour();
    command.args([
        "serve",
        "--iax2-listen",
        "127.0.0.1:0",
        "--sip-listen",
        &sip.to_string(),
        "--sip-tcp",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ]);
    command.arg("--store-path").arg(place.path("busyhour.db"));
    command
        .arg("--config")
        .arg(place.file("busyhour.toml", configuration));
    ServerProcess::start(&mut command, place)
}

fn storm(target: SocketAddr, journal: &Path) -> Child {
    let mut command = busyhour();
    command.args([
        "storm",
        "--target",
        &target.to_string(),
        "--auth",
        "device{n}:busyhour",
    ]);
    command.args([
        "--devices",
        &DEVICES.to_string(),
        "--rate",
        "2000",
        "--domain",
        "busyhour.test",
        // What is asked is whether something is lost. A machine with other work may take longer than the usual patience.
        "--patience",
        "300s",
    ]);
    command.arg("--journal").arg(journal);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the storm starts")
}

/// The moments of the kills, as numbers of acknowledgements: one in each part of the
/// storm.
fn moments(random: &mut Random) -> [usize; KILLS] {
    let part = DEVICES / (KILLS + 1);
    std::array::from_fn(|kill| kill * part + 1 + random.below(part))
}

fn wait_for_acknowledgements(journal: &Path, count: usize, storm: &mut Child) {
    while Journal::read(journal).acknowledged.len() < count {
        let ended = storm.try_wait().unwrap();
        assert_eq!(
            ended, None,
            "the storm ended before {count} acknowledgements"
        );
        // Each look reads all that was written.
        thread::sleep(Duration::from_millis(10));
    }
}

/// Checks during the storm that every acknowledged binding is bound, and every
/// bound one was offered.
fn compare(server: &ServerProcess, journal: &Path, seed: u64) {
    let before = Journal::read(journal);
    let bound = bindings(server);
    let after = Journal::read(journal);
    for (aor, cseq) in &before.acknowledged {
        let found = bound.get(aor);
        assert!(
            found >= Some(cseq),
            "seed {seed}: {aor} CSeq {cseq} was acknowledged, found {found:?}"
        );
    }
    for aor in bound.keys() {
        assert!(
            after.offered.contains(aor),
            "seed {seed}: {aor} was never sent"
        );
    }
}

/// CSeq of each binding by its address of record.
fn bindings(server: &ServerProcess) -> BTreeMap<String, u64> {
    let page: serde_json::Value =
        serde_json::from_str(&server.get("/api/bindings?limit=100000")).unwrap();
    assert!(page["next"].is_null(), "one page holds all");
    let bindings = page["bindings"].as_array().unwrap().iter();
    bindings
        .map(|binding| {
            let aor = binding["aor"].as_str().unwrap().to_owned();
            (aor, binding["cseq"].as_u64().unwrap())
        })
        .collect()
}

/// The registrations that the storm offered, and those that were acknowledged.
#[derive(Default)]
struct Journal {
    offered: BTreeSet<String>,
    acknowledged: BTreeMap<String, u64>,
}

impl Journal {
    fn read(path: &Path) -> Self {
        let mut journal = Self::default();
        let text = fs::read_to_string(path).unwrap();
        // The last line may still be incomplete; then it does not count.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["offered", aor] => drop(journal.offered.insert(aor.to_owned())),
                ["acknowledged", aor, cseq] => {
                    journal
                        .acknowledged
                        .insert(aor.to_owned(), cseq.parse().unwrap());
                }
                _ => panic!("an unknown line in the journal: {line}"),
            }
        }
        journal
    }
}
