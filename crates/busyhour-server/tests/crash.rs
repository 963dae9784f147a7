//! `kill -9` in the middle of a storm, again and again: what was acknowledged is there.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::Duration,
};
use support::{Place, ServerProcess, busyhour, random::Random, sipp::free_port};

const DEVICES: usize = 12_000;
const KILLS: usize = 5;
const CONFIGURATION: &str = "
[[account_range]]
prefix = \"device\"
count = 12000
password = \"busyhour\"
";

#[test]
fn every_acknowledged_binding_survives_kills_and_none_appears_from_nowhere() {
    let mut random = Random::new();
    let seed = random.seed;
    let place = Place::new();
    let journal = place.file("journal", "");
    // One that nobody else is given while the server is away.
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

/// The server on the address that the storm sends to, now and after each kill.
fn serve(place: &Place, sip: SocketAddr) -> ServerProcess {
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
        .arg(place.file("busyhour.toml", CONFIGURATION));
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
        "3000",
        "--domain",
        "busyhour.test",
    ]);
    command.arg("--journal").arg(journal);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the storm starts")
}

/// Moments of killing, as numbers of acknowledgements: one in each part of the storm.
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
        thread::sleep(Duration::from_millis(2));
    }
}

/// Acknowledged ⊆ bound ⊆ offered, at a moment while the storm goes on.
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

/// What the storm offered, and what was acknowledged to it.
#[derive(Default)]
struct Journal {
    offered: BTreeSet<String>,
    acknowledged: BTreeMap<String, u64>,
}

impl Journal {
    fn read(path: &Path) -> Self {
        let mut journal = Self::default();
        let text = fs::read_to_string(path).unwrap();
        // The last line may be half written; it counts once it is whole.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["offered", aor] => drop(journal.offered.insert(aor.to_owned())),
                ["acknowledged", aor, cseq] => {
                    journal
                        .acknowledged
                        .insert(aor.to_owned(), cseq.parse().unwrap());
                }
                _ => panic!("a strange line in the journal: {line}"),
            }
        }
        journal
    }
}
