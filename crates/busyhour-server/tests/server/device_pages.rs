//! Pages of devices, found by rows that follow what happens, compared with what each device says of itself.

use crate::{
    Fixture,
    exchange::{digest_config, proven},
    local,
    random::Random,
};
use busyhour_server::server::{
    Accounts, DeviceOrder, DeviceQuery, DeviceReach, DeviceView, ServerConfig,
};
use busyhour_sip::{Flow, Transport, auth::Secret};
use busyhour_store::AccountEntry;
use std::{borrow::Cow, cmp::Ordering, net::SocketAddr, sync::Arc, time::Duration};

#[test]
fn pages_show_what_each_device_says_of_itself_whatever_has_happened() {
    let mut world = World::new();
    for _ in 0..STEPS * scale() {
        world.happen();
        world.compare_a_query();
    }
    let rows = world.server.stats().device_index;
    assert_eq!(rows.row_count, world.views().len() as u64);
    assert!(rows.row_bytes > 50 * rows.row_count, "{rows:?}");
    world.compare_bindings();
    let registrar = world.server.stats().registrar;
    assert!(registrar.expired > 0, "some had time to end: {registrar:?}");
    // Nobody has looked for some time.
    world.server.pass(301);
    let rows = world.server.stats().device_index;
    assert_eq!((rows.row_count, rows.row_bytes), (0, 0));
    world.compare_a_query();
}

struct World {
    server: Fixture,
    random: Random,
    cseq: u32,
    /// The connection that each user has used last.
    flows: Vec<Option<Flow>>,
}

impl World {
    fn new() -> Self {
        let mut config = ServerConfig {
            accounts: Arc::new(Everybody),
            ..digest_config()
        };
        config.registration.expires_min = Duration::from_secs(6);
        Self {
            server: Fixture::with(config),
            random: Random::new(),
            cseq: 0,
            flows: vec![None; USERS],
        }
    }

    fn happen(&mut self) {
        let number = self.random.below(USERS);
        let user = user(number);
        let done = Box::new(|_: Result<_, _>| ());
        match self.random.below(14) {
            0..=4 => self.register(number),
            5 => self.send(number, self.flow(number), "Contact: *\r\nExpires: 0"),
            6 => self.end_connection(number),
            7 | 8 => {
                let entry = AccountEntry {
                    user: user.clone(),
                    password: Some(user),
                    ..AccountEntry::default()
                };
                self.server.server.put_account(entry, done).unwrap();
            }
            9 => {
                let is_disabled = self.random.below(3) > 0;
                let server = &self.server.server;
                server.disable_account(&user, is_disabled, done).unwrap();
            }
            10 => self.server.server.remove_account(&user, done).unwrap(),
            11 => self.server.pass(40),
            _ => {
                let seconds = 1 + self.random.below(10);
                self.server.pass(seconds as u64);
            }
        }
        self.server.settle();
    }

    fn register(&mut self, number: usize) {
        let flow = match self.random.below(3) {
            0 => self.new_connection(),
            _ => self.flow(number),
        };
        self.flows[number] = Some(flow);
        let contact = self.random.below(3);
        let expires = [6, 60, 360][self.random.below(3)];
        let agent = AGENTS[self.random.below(AGENTS.len())];
        let remote = flow.remote;
        let contacts = match self.random.below(4) {
            0 => format!("Contact: <sip:Line{contact}@{remote}>, <sip:other@{remote}>"),
            _ => format!("Contact: <sip:Line{contact}@{remote}>"),
        };
        let headers = format!("{contacts}\r\nExpires: {expires}\r\nUser-Agent: {agent}");
        self.send(number, flow, &headers);
    }

    fn new_connection(&mut self) -> Flow {
        let port = 1024 + self.random.below(50_000) as u16;
        Flow {
            transport: Transport::Tcp,
            connection: 1 + self.cseq,
            ..Flow::udp(local(), SocketAddr::from(([198, 51, 100, 7], port)))
        }
    }

    fn flow(&self, number: usize) -> Flow {
        let own = SocketAddr::from(([192, 0, 2, number as u8], 5060));
        self.flows[number].unwrap_or_else(|| Flow::udp(local(), own))
    }

    fn end_connection(&mut self, number: usize) {
        if let Some(flow) = self.flows[number].take_if(|flow| flow.transport == Transport::Tcp) {
            self.server.server.flow_failed(flow);
            self.server.simulation().run_until_idle();
        }
    }

    fn send(&mut self, number: usize, flow: Flow, headers: &str) {
        let user = user(number);
        self.cseq += 1;
        let cseq = self.cseq;
        let request = format!(
            "REGISTER sip:example.com SIP/2.0\r\n\
             Via: SIP/2.0/{} {};branch=z9hG4bK{cseq};rport\r\n\
             From: <sip:{user}@example.com>;tag=f1\r\n\
             To: <sip:{user}@example.com>\r\n\
             Call-ID: {user}\r\n\
             CSeq: {cseq} REGISTER\r\n\
             {headers}\r\n\
             Content-Length: 0\r\n\r\n",
            flow.transport.parameter().to_uppercase(),
            flow.remote,
        );
        self.server.sent();
        self.receive(flow, &request);
        let challenge = self.server.sent().remove(0);
        if challenge.starts_with("SIP/2.0 401 ") {
            let request = request.replace("z9hG4bK", "z9hG4bKp");
            self.receive(flow, &proven(&request, &challenge, &user, &user, 1));
        }
    }

    fn receive(&mut self, flow: Flow, text: &str) {
        let buffers = self.server.runtime.buffers();
        let message = buffers.copy_from(text.as_bytes()).unwrap();
        self.server.server.message(flow, &message);
        self.server.simulation().run_until_idle();
    }

    /// What is true.
    fn views(&self) -> Vec<DeviceView> {
        let views = (0..USERS).map(|number| self.server.server.device(&aor(number)));
        views.flatten().collect()
    }

    fn compare_a_query(&mut self) {
        let query = self.query();
        let wanted = self
            .views()
            .into_iter()
            .filter(|view| is_wanted(view, &query));
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_by(|one, other| directed(compare(one, other, query.order), &query));
        let mut found = Vec::new();
        let mut next = query.clone();
        loop {
            let page = self.server.server.find_devices(&next);
            assert_eq!(page.match_count, wanted.len() as u64, "{query:?}");
            assert!(page.devices.len() <= query.limit, "{query:?}");
            found.extend(page.devices);
            match page.next {
                Some(after) => next.after = Some(after),
                None => break,
            }
        }
        assert_eq!(found.len(), wanted.len(), "{query:?}");
        let place = |view: &DeviceView| (view.sort_key.clone(), view.aor.clone());
        let is_before = |one: &DeviceView, other: &DeviceView| {
            directed(place(one).cmp(&place(other)), &query) == Ordering::Less
        };
        let is_sorted = found.windows(2).all(|two| is_before(&two[0], &two[1]));
        assert!(is_sorted, "{query:?}: {found:#?}");
        // A device alone has no place.
        found.iter_mut().for_each(|view| view.sort_key.clear());
        let same = |(one, other)| compare(one, other, query.order) == Ordering::Equal;
        assert!(found.iter().zip(&wanted).all(same), "{query:?}: {found:#?}");
        found.sort_by(|one, other| one.aor.cmp(&other.aor));
        wanted.sort_by(|one, other| one.aor.cmp(&other.aor));
        assert_eq!(found, wanted, "{query:?}");
    }

    fn compare_bindings(&self) {
        let mut wanted = self.views();
        wanted.sort_by(|one, other| one.aor.cmp(&other.aor));
        let of_view = |view: &DeviceView| {
            let contacts = view.contacts.iter();
            contacts
                .map(|one| (view.aor.clone(), one.contact.clone()))
                .collect::<Vec<_>>()
        };
        let wanted: Vec<_> = wanted.iter().flat_map(of_view).collect();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.server.server.bindings(after.as_deref(), 3, None);
            let listed = page.bindings.iter();
            found.extend(
                listed.map(|one| (one.aor.to_string(), one.binding.contact.uri().to_owned())),
            );
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, wanted);
    }

    fn query(&mut self) -> DeviceQuery {
        let orders = [
            DeviceOrder::Aor,
            DeviceOrder::LastSeen,
            DeviceOrder::Expires,
            DeviceOrder::UserAgent,
            DeviceOrder::Contacts,
        ];
        let states = [
            DeviceReach::Registered,
            DeviceReach::Unreachable,
            DeviceReach::Offline,
            DeviceReach::Disabled,
        ];
        let mut of = |count| self.random.below(count);
        DeviceQuery {
            text: TEXTS
                .get(of(2 * TEXTS.len()))
                .map(|text| (*text).to_owned()),
            state: states.get(of(8)).copied(),
            transport: ["udp", "tcp", "tls"]
                .get(of(9))
                .map(|name| (*name).to_owned()),
            domain: ["example.com", "example.org"]
                .get(of(6))
                .map(|name| (*name).to_owned()),
            order: orders[of(orders.len())],
            is_descending: of(2) == 0,
            after: None,
            limit: 1 + of(9),
        }
    }
}

fn is_wanted(view: &DeviceView, query: &DeviceQuery) -> bool {
    let has = |text: &str| {
        let wanted = query.text.as_deref().unwrap_or_default();
        text.to_lowercase().contains(&wanted.to_lowercase())
    };
    let mut contacts = view.contacts.iter();
    let is_over = |name: &String| view.contacts.iter().any(|one| one.transport == name);
    query.state.is_none_or(|state| view.state == state)
        && query.transport.as_ref().is_none_or(is_over)
        && (query.domain.as_ref()).is_none_or(|domain| view.aor.ends_with(domain))
        && (has(&view.aor)
            || contacts.any(|one| has(&one.contact) || has(&one.user_agent) || has(&one.source)))
}

/// Moments are compared by whole seconds, so some are equal here that are not in the server.
fn compare(one: &DeviceView, other: &DeviceView, order: DeviceOrder) -> Ordering {
    let (one, other) = (Shown(one), Shown(other));
    match order {
        DeviceOrder::Aor => one.0.aor.cmp(&other.0.aor),
        DeviceOrder::LastSeen => one.seen().cmp(&other.seen()),
        DeviceOrder::Expires => one.left().cmp(&other.left()),
        DeviceOrder::UserAgent => one.agent().cmp(&other.agent()),
        DeviceOrder::Contacts => one.0.contacts.len().cmp(&other.0.contacts.len()),
    }
}

struct Shown<'v>(&'v DeviceView);

impl Shown<'_> {
    /// The earlier, the less.
    fn seen(&self) -> Option<i64> {
        Some(-i64::try_from(self.0.last_seen_seconds?).unwrap())
    }

    fn left(&self) -> Option<u64> {
        self.0
            .contacts
            .iter()
            .map(|one| one.expires_in_seconds)
            .min()
    }

    fn agent(&self) -> Option<String> {
        self.0
            .contacts
            .iter()
            .map(|one| one.user_agent.to_lowercase())
            .min()
    }
}

fn directed(order: Ordering, query: &DeviceQuery) -> Ordering {
    match query.is_descending {
        true => order.reverse(),
        false => order,
    }
}

/// Anybody may register; each password is the name.
struct Everybody;

impl Accounts for Everybody {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        Some(Cow::Owned(Secret::plaintext(username)))
    }
}

/// How many times as long it is to take.
fn scale() -> usize {
    let scale = std::env::var("BUSYHOUR_TEST_SCALE");
    scale.map_or(1, |scale| scale.parse().expect("a number"))
}

/// Some have a capital, which a search does not ask for and an order does.
fn user(number: usize) -> String {
    match number % 3 {
        0 => format!("Desk{number}"),
        _ => format!("phone{number}"),
    }
}

fn aor(number: usize) -> String {
    format!("sip:{}@example.com", user(number))
}

const USERS: usize = 24;
const STEPS: usize = 300;
const AGENTS: [&str; 5] = [
    "Snom D785",
    "snom D315",
    "Zoë's phone",
    "GXP",
    "a b 192.0.2.3",
];
const TEXTS: [&str; 9] = [
    "SNOM",
    "ZOË",
    "desk",
    "PHONE1",
    "192.0.2.3",
    ":5060",
    "line1",
    "nobody",
    "@example.com",
];
