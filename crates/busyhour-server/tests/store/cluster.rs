//! Several real servers on one PostgreSQL, with a real NATS between them.

use crate::{
    nats_server::NatsServer,
    support::{Place, ServerProcess, busyhour, phone::Phone, postgres::Postgres},
    wait_until,
};
use postgres::{Client, NoTls};
use rcgen::generate_simple_self_signed;
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// What the nodes of one test share.
pub struct Site {
    pub postgres: Postgres,
    pub nats: NatsServer,
    nats_url: String,
    place: Place,
    /// What all of them have in their configuration files.
    configuration: String,
    auth: &'static str,
}

impl Site {
    pub fn new() -> Self {
        Self::with("")
    }

    /// Whose nodes have this configuration beside their flags.
    pub fn with(configuration: &str) -> Self {
        let nats = NatsServer::start();
        let url = nats.options().servers.join(",");
        Self::on((nats, url), Place::new(), configuration)
    }

    /// Whose NATS asks for a password, over TLS. The nodes have both in files.
    fn secured() -> Self {
        let identity =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let place = Place::new();
        let file = |name: &str, text: &str| place.file(name, text).display().to_string();
        let certificate = file("nats.pem", &identity.cert.pem());
        let key = file("nats.key", &identity.signing_key.serialize_pem());
        let user = file("nats-user", "busyhour\na secret\n");
        let nats = NatsServer::start_with(&format!(
            "authorization {{ users = [ {{ user: busyhour, password: \"a secret\" }} ] }}\n\
             tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}"
        ));
        let configuration =
            format!("[cluster]\nnats_user = \"{user}\"\nnats_authorities = \"{certificate}\"\n");
        let url = nats.options().servers.join(",");
        let url = url.replace("nats://127.0.0.1", "tls://localhost");
        Self::on((nats, url), place, &configuration)
    }

    fn on((nats, nats_url): (NatsServer, String), place: Place, configuration: &str) -> Self {
        let postgres = Postgres::start();
        postgres.database(DATABASE);
        Self {
            postgres,
            nats,
            nats_url,
            place,
            configuration: configuration.to_owned(),
            auth: "open",
        }
    }

    /// Whose devices have to prove their accounts.
    pub fn with_accounts() -> Self {
        Self {
            auth: "digest",
            ..Self::new()
        }
    }

    /// As another program would change the database.
    pub fn sql(&self, statements: &str) {
        self.postgres.sql(DATABASE, statements);
    }

    /// Three nodes, each with its third of the partitions.
    pub fn three_nodes(&self) -> [Node; 3] {
        let nodes = ["alpha", "beta", "gamma"].map(|name| self.node(name));
        for node in &nodes {
            node.0.wait_for("/cluster/partitions_served", |served| {
                served == 85 || served == 86
            });
        }
        nodes
    }

    /// A node that has joined.
    pub fn node(&self, name: &str) -> Node {
        self.node_over(name, &self.nats_url)
    }

    /// The same, which reaches NATS at this URL.
    pub fn node_over(&self, name: &str, nats_url: &str) -> Node {
        let mut command = self.command_over(name, nats_url);
        let process = ServerProcess::start(&mut command, &self.place);
        Node(process, self.socket(name), name.to_owned())
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.place.path(&format!("{name}.sock"))
    }

    fn command(&self, name: &str) -> Command {
        self.command_over(name, &self.nats_url)
    }

    fn command_over(&self, name: &str, nats_url: &str) -> Command {
        let mut command = busyhour();
        let configuration = self.place.file("busyhour.toml", &self.configuration);
        command.arg("serve").arg("--config").arg(configuration);
        let settings = [
            ("sip-listen", "127.0.0.1:0".to_owned()),
            ("sip-auth", self.auth.to_owned()),
            ("sip-domains", "example.com".to_owned()),
            ("iax2-listen", "off".to_owned()),
            ("http-listen", "127.0.0.1:0".to_owned()),
            ("http-socket", self.socket(name).display().to_string()),
            ("store-url", self.postgres.url(DATABASE)),
            ("cluster-node", name.to_owned()),
            ("cluster-nats", nats_url.to_owned()),
        ];
        for (flag, value) in settings {
            command.arg(format!("--{flag}")).arg(value);
        }
        command
    }
}

/// One of the servers, its local socket and its name.
pub struct Node(pub ServerProcess, PathBuf, pub String);

impl Node {
    pub fn serves(&self) -> u64 {
        self.0.stat("/cluster/partitions_served")
    }

    pub fn wait_until_it_serves(&self, count: u64) {
        self.0
            .wait_for("/cluster/partitions_served", |served| served == count);
    }

    /// The users whose contacts it has.
    pub fn users(&self) -> BTreeSet<String> {
        let body = self
            .0
            .get(&format!("/api/v1/bindings?limit=1000&node={}", self.2));
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        let bindings = body["bindings"].as_array().expect("a list").iter();
        let aors = bindings.map(|it| it["aor"].as_str().expect("a text").to_owned());
        aors.collect()
    }

    /// The answer to a REGISTER of a user who has never registered before.
    pub fn register(&self, user: &str) -> String {
        let mut phone = Phone::new(&self.0, 9, user);
        let request = phone.register_request();
        phone.ask(&request)
    }

    /// Sends a request with a body, or none, over its local socket, and returns the answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut connection = UnixStream::connect(&self.1).expect("it listens");
        let len = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
        );
        connection.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The exit code of `busyhour cluster drain`.
    fn drain(&self, name: &str) -> Option<i32> {
        let mut command = busyhour();
        command.args(["cluster", "drain", name, "--socket"]);
        command
            .arg(&self.1)
            .output()
            .expect("it runs")
            .status
            .code()
    }

    /// The exit code of `busyhour cluster move`.
    fn move_partition(&self, arguments: &[&str]) -> Option<i32> {
        let mut command = busyhour();
        command.args(["cluster", "move"]).args(arguments);
        command.arg("--socket").arg(&self.1);
        command.output().expect("it runs").status.code()
    }

    /// What `busyhour cluster status` says.
    fn status(&self) -> String {
        let http = self.0.http.to_string();
        let mut command = busyhour();
        let output = command
            .args(["cluster", "status", "--http", &http])
            .output();
        String::from_utf8(output.expect("it runs").stdout).expect("text")
    }
}

pub fn aors(users: &[&str]) -> BTreeSet<String> {
    let aor = |user: &&str| format!("sip:{user}@example.com");
    users.iter().map(aor).collect()
}

/// What was answered is in the database, and while that is away nobody is told that it was done.
#[test]
fn a_partition_is_moved_when_the_database_has_it() {
    let mut site = Site::new();
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(256);
    let post = |path: &str| alpha.ask("POST", &format!("/api/v1/cluster/{path}"), "");
    let answer = post("partitions/7/move/alpha");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    site.sql(
        "DO $$ BEGIN ASSERT 1 = (SELECT count(*) FROM cluster_partition JOIN cluster_node \
         ON pinned = node WHERE partition = 7 AND name = 'alpha'); END $$",
    );
    site.postgres.crash();
    for path in ["partitions/7/release", "nodes/alpha/drain"] {
        let answer = post(path);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("the database gave no answer"), "{answer}");
    }
}

/// Others would give away what nobody serves yet.
#[test]
fn a_node_that_starts_is_assigned_nothing_until_it_can_serve() {
    let site = Site::new();
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(256);
    let session = || Client::connect(&site.postgres.url(DATABASE), NoTls).expect("it listens");
    let (mut holder, mut asker) = (session(), session());
    // Which it reads when it starts.
    let mut lock = holder.transaction().expect("begun");
    lock.batch_execute("LOCK TABLE account IN ACCESS EXCLUSIVE MODE")
        .expect("locked");
    let mut beta = || {
        let sql = "SELECT is_draining, (SELECT count(*) FROM cluster_partition WHERE owner = node) \
            FROM cluster_node WHERE name = 'beta'";
        let row = asker.query_opt(sql, &[]).expect("an answer");
        row.map(|row| (row.get::<_, bool>(0), row.get::<_, i64>(1)))
    };
    thread::scope(|scope| {
        let started = scope.spawn(|| site.node("beta"));
        // By a view that has it, alpha would have given it its half.
        let is_shown = || alpha.ask("GET", "/api/v1/cluster", "").contains("draining");
        wait_until(is_shown, || "beta is not draining".to_owned());
        assert_eq!(beta(), Some((true, 0)));
        assert_eq!(alpha.serves(), 256);
        lock.rollback().expect("unlocked");
        started.join().expect("it starts").wait_until_it_serves(128);
        assert_eq!(beta(), Some((false, 128)));
    });
}

#[test]
fn a_node_has_what_a_killed_one_had_acknowledged() {
    let site = Site::secured();
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(256);
    for user in USERS {
        assert!(alpha.register(user).starts_with("SIP/2.0 200 "));
    }
    // The second node takes its half, and has what the first one knew of it.
    let beta = site.node("beta");
    beta.wait_until_it_serves(128);
    alpha.wait_until_it_serves(128);
    let (of_alpha, of_beta) = (alpha.users(), beta.users());
    assert!(of_alpha.is_disjoint(&of_beta));
    assert_eq!(&of_alpha | &of_beta, aors(&USERS));
    alpha.0.kill();
    beta.wait_until_it_serves(256);
    assert_eq!(beta.users(), aors(&USERS));
    for user in USERS {
        assert!(beta.register(user).starts_with("SIP/2.0 200 "));
    }
    // It tells what its last beat has read.
    let tells = |words: [&str; 2]| {
        let status = beta.status();
        let mut lines = status.lines();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    for words in [["alpha", "down"], ["beta", "256"]] {
        wait_until(|| tells(words), || beta.status());
    }
    assert_eq!(beta.drain("alpha"), Some(1), "it does not live");
    // It comes back under its name, as another life.
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(128);
    beta.wait_until_it_serves(128);
    assert_eq!(&alpha.users() | &beta.users(), aors(&USERS));
    // A partition that was moved stays where it is, until it is released.
    let of_alpha = alpha.users();
    let moved = of_alpha.first().expect("it has some").clone();
    let partition = busyhour_cluster::Partition::of(&moved).to_string();
    assert_eq!(beta.move_partition(&[&partition, "beta"]), Some(0));
    wait_until(|| beta.users().contains(&moved), || beta.status());
    // While it moves it may be shown by both.
    let is_gone = || !alpha.users().contains(&moved);
    wait_until(is_gone, || "alpha still shows what it gave away".to_owned());
    let shown = |node: &Node| {
        let status = node.status();
        let mut words = status.split_whitespace();
        words.any(|word| word == partition)
    };
    wait_until(|| shown(&alpha) && shown(&beta), || alpha.status());
    assert_eq!(
        (alpha.serves(), beta.serves()),
        (128, 128),
        "another one went back"
    );
    assert_eq!(beta.move_partition(&[&partition, "nobody"]), Some(1));
    assert_eq!(beta.move_partition(&[&partition, "--release"]), Some(0));
    wait_until(|| !shown(&alpha) && !shown(&beta), || alpha.status());
    // One that is drained has nothing, and takes requests for the others.
    assert_eq!(beta.drain("alpha"), Some(0));
    beta.wait_until_it_serves(256);
    alpha.wait_until_it_serves(0);
    assert!(alpha.register("ada").starts_with("SIP/2.0 200 "));
    // One that leaves has given everything away when it ends.
    assert!(alpha.0.stop().success());
    beta.wait_until_it_serves(256);
    assert_eq!(beta.users(), aors(&USERS));
}

/// A request may come to any node; the answer comes back from there, and so do later messages.
#[test]
fn any_node_takes_any_request_and_answers_it() {
    let site = Site::new();
    let nodes = site.three_nodes();
    let [alpha, beta, gamma] = &nodes;
    let mut phones = Vec::new();
    for user in USERS {
        let mut phone = Phone::new(&alpha.0, 9, user);
        let request = phone.register_request();
        let answer = phone.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        phones.push(phone);
    }
    // Each node has its own users, and nobody has one twice.
    let users = nodes.each_ref().map(Node::users);
    assert!(users.iter().all(|users| !users.is_empty()), "{users:?}");
    assert_eq!(users.iter().map(BTreeSet::len).sum::<usize>(), USERS.len());
    assert_eq!(
        users.into_iter().flatten().collect::<BTreeSet<_>>(),
        aors(&USERS)
    );
    let handed_on = alpha.0.stat("/cluster/handed_on");
    assert!(handed_on > 0);
    // Nobody says of a datagram whether it was taken.
    assert_eq!(alpha.0.stat("/cluster/handed_unconfirmed"), handed_on);
    // A refresh may come to another node.
    for phone in &mut phones {
        phone.server = gamma.0.sip;
        let request = phone.register_request();
        let answer = phone.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        assert_eq!(answer.matches("Contact:").count(), 1, "{answer}");
    }
    over_a_connection(beta);
    for node in &nodes {
        assert_eq!(node.0.stat("/cluster/handed_lost"), 0);
    }
    // Watchers at all nodes are told, whoever has the device, and wherever it registers.
    let mut watchers = nodes
        .each_ref()
        .map(|node| Phone::new(&node.0, 11, "watcher"));
    for watcher in &mut watchers {
        let request = watcher.subscribe_request("mia", "");
        let answer = watcher.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    for (node, basic) in [(beta, "open"), (gamma, "closed")] {
        let mut phone = Phone::new(&node.0, 12, "mia");
        let mut request = phone.register_request();
        if basic == "closed" {
            let contact = "Contact: *\r\nExpires: 0\r\n";
            request = phone.request(
                "REGISTER",
                "sip:example.com",
                "sip:mia@example.com",
                contact,
            );
        }
        let answer = phone.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        for watcher in &watchers {
            wait_until_told(watcher, &format!("<basic>{basic}</basic>"));
        }
    }
}

/// A client over TCP has its answer on its connection, whoever has its address.
fn over_a_connection(node: &Node) {
    let mut connection = TcpStream::connect(node.0.tcp).expect("the server listens");
    let address = connection.local_addr().expect("connected");
    for (number, user) in USERS.iter().enumerate() {
        let request = format!(
            "REGISTER sip:example.com SIP/2.0\r\n\
             Via: SIP/2.0/TCP {address};branch=z9hG4bKt{number};rport\r\n\
             From: <sip:{user}@example.com>;tag=t{number}\r\n\
             To: <sip:{user}@example.com>\r\n\
             Call-ID: tcp{number}@{address}\r\n\
             CSeq: 1 REGISTER\r\n\
             Contact: <sip:{user}@{address};transport=tcp>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).expect("an answer");
            answer.extend(byte);
        }
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        assert_eq!(answer.matches("Contact:").count(), 2, "{answer}");
    }
}

/// Waits for a NOTIFY with these words, and answers all that come.
fn wait_until_told(watcher: &Phone, words: &str) {
    let given_up_at = Instant::now() + PATIENCE;
    loop {
        let notify = watcher.notified_until(given_up_at);
        let notify = notify.unwrap_or_else(|| panic!("no NOTIFY with {words}"));
        if notify.contains(words) {
            return;
        }
    }
}

#[test]
fn a_node_that_stood_still_for_longer_than_its_lease_ends() {
    let site = Site::new();
    let (mut alpha, beta) = (site.node("alpha"), site.node("beta"));
    beta.wait_until_it_serves(128);
    alpha.0.stand_still();
    beta.wait_until_it_serves(256);
    alpha.0.go_on();
    assert_eq!(alpha.0.wait().code(), Some(1));
    let log = alpha.0.log();
    assert!(log.contains("the lease of this node has ended"), "{log}");
    assert_eq!(beta.serves(), 256);
}

#[test]
fn two_processes_cannot_have_one_name() {
    let site = Site::new();
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(256);
    let output = site.command("alpha").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(error.contains("cluster.node alpha"), "{error}");
    alpha.wait_until_it_serves(256);
}

/// A frame of IAX2 is of a call that the node has numbered to which it came, so no other one can take it.
#[test]
fn a_node_of_a_cluster_does_not_speak_iax2() {
    let site = Site::new();
    let command = site.command("alpha");
    let arguments: Vec<_> = command.get_args().collect();
    let iax2 = arguments.iter().position(|one| *one == "--iax2-listen");
    let (before, after) = arguments.split_at(iax2.expect("it is off"));
    let mut command = busyhour();
    command.args(before).args(["--iax2-listen", "127.0.0.1:0"]);
    let output = command.args(&after[2..]).output().expect("it runs");
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(
        error.contains("IAX2 is not handed from node to node"),
        "{error}"
    );
}

/// While the database is away nobody has an address; that is not the same as nothing there.
#[test]
fn without_a_lease_the_answer_is_to_try_again() {
    let mut site = Site::new();
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(256);
    assert!(alpha.register("ada").starts_with("SIP/2.0 200 "));
    let asked = |path: &str| alpha.ask("GET", path, "");
    let paths = ["/api/v1/bindings/ada", "/api/v1/devices/ada"];
    for path in paths {
        wait_until(|| asked(path).starts_with("HTTP/1.1 200 "), || asked(path));
    }
    assert!(asked("/api/v1/bindings/bob").starts_with("HTTP/1.1 404 "));
    site.postgres.crash();
    for path in paths.into_iter().chain(["/api/v1/bindings/bob"]) {
        wait_until(|| asked(path).starts_with("HTTP/1.1 503 "), || asked(path));
        let answer = asked(path).to_ascii_lowercase();
        assert!(answer.contains("\r\nretry-after: "), "{answer}");
    }
    site.postgres.run();
    for path in paths {
        wait_until(|| asked(path).starts_with("HTTP/1.1 200 "), || asked(path));
    }
}

/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);
pub const DATABASE: &str = "cluster";
pub const USERS: [&str; 12] = [
    "ada", "bob", "carl", "dora", "emil", "fay", "gus", "hans", "ida", "jan", "kim", "lea",
];
