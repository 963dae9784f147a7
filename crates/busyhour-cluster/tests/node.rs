//! For how long nobody serves a partition while nodes die and come back, if each transaction takes
//! so long as on a machine that is much too busy.
//!
//! The nodes are the crate's own `Node`s, and the database is its `Tables`; each node asks it for one
//! thing at a time, as the server's thread does.

use busyhour::clock::Instant;
use busyhour_cluster::{Action, Failure, Grant, Node, Partition, Reply, Route, Tables, Timing};
use std::{collections::VecDeque, time::Duration};

/// Who comes back gets its part, 2 to 16 partitions in a transaction. A partition is away while that is done, for
/// the beat that tells its next owner, and while it is read. When each partition had its own transaction, it
/// was away for 16 of them, and while nobody waited until those before were served, it was away while others were read.
#[test]
fn partitions_that_go_to_nodes_that_come_back_are_away_for_a_few_transactions() {
    let cluster = come_back(true);
    assert!(cluster.absent_max <= 5 * TRANSACTION, "{cluster:?}");
    assert!(cluster.moved <= 45 * TRANSACTION, "{cluster:?}");
}

/// As from nodes of an earlier build, or without NATS: then the next ones are given with a beat.
#[test]
fn partitions_go_to_nodes_that_do_not_say_what_they_serve() {
    let cluster = come_back(false);
    assert!(cluster.absent_max <= 6 * TRANSACTION, "{cluster:?}");
    assert!(cluster.moved <= 135 * TRANSACTION, "{cluster:?}");
}

fn come_back(is_heard: bool) -> Cluster {
    let mut cluster = Cluster::settled();
    cluster.is_heard = is_heard;
    cluster.kill_two();
    cluster.run(Duration::from_secs(20));
    assert_eq!(cluster.served_by(0), 256);
    cluster.forget_absences();
    cluster.start(1);
    cluster.start(2);
    cluster.run(Duration::from_secs(60));
    println!("{cluster:?}");
    assert_eq!([0, 1, 2].map(|node| cluster.served_by(node)), [86, 85, 85]);
    cluster
}

/// When the leases have ended, the next beat sees that. Then both are fenced, the view is read anew, and all
/// that they had is taken and read: five transactions, with the beat.
#[test]
fn partitions_of_two_nodes_that_die_at_once_are_away_for_a_lease_a_beat_and_five_transactions() {
    let timing = Timing::default();
    let limit = timing.lease + timing.beat + 5 * TRANSACTION;
    let mut longest = Duration::ZERO;
    for phase_ms in (0..1000).step_by(50) {
        let mut cluster = Cluster::settled();
        cluster.run(Duration::from_millis(phase_ms));
        cluster.kill_two();
        cluster.run(Duration::from_secs(20));
        assert_eq!(cluster.served_by(0), 256);
        longest = longest.max(cluster.absent_max);
    }
    println!("at most {longest:?}");
    assert!(longest <= limit + 10 * STEP, "{longest:?}");
}

/// A node says that it is ready until a view shows that the database knows it: the question or the answer may be lost, and so may what
/// was answered, if the database fails over.
#[test]
fn a_node_says_that_it_is_ready_until_the_database_knows_it() {
    let (timing, mut now) = (Timing::default(), Instant::from_nanos(0));
    let mut tables = Tables::new(timing);
    let member = tables.join(now, "alpha").expect("nobody has it");
    tables.drain(member).expect("it lives");
    let mut node = Node::new(member, timing, now);
    let mut beat = |node: &mut Node, tables: &mut Tables| {
        now = now + timing.beat;
        assert_eq!(node.on_time(now), [Action::Beat]);
        node.on_reply(now, Reply::Beaten(tables.beat(now, member)))
    };
    assert_eq!(beat(&mut node, &mut tables), [], "it is not ready");
    assert_eq!(node.on_ready(), Some(Action::Undrain));
    assert_eq!(beat(&mut node, &mut tables), [], "it is asked");
    // It does not know whether it was done.
    let lost = Reply::Undrained(Err(Failure::Away));
    assert_eq!(node.on_reply(Instant::from_nanos(0), lost), []);
    assert_eq!(beat(&mut node, &mut tables), [Action::Undrain]);
    let answered = || Reply::Undrained(Ok(()));
    let is_taking = |actions: &[Action]| matches!(actions, [Action::Announce, Action::Take(orphans)] if orphans.len() == 256);
    let actions = node.on_reply(Instant::from_nanos(0), answered());
    assert!(is_taking(&actions), "{actions:?}");
    // It was done, and is undone with what the database has lost.
    let actions = beat(&mut node, &mut tables);
    assert_eq!(actions, [Action::Undrain]);
    tables.undrain(member).expect("it lives");
    let _ = node.on_reply(Instant::from_nanos(0), answered());
    let actions = beat(&mut node, &mut tables);
    assert!(matches!(actions[..], [Action::Take(_)]), "{actions:?}");
    // Later it is an operator who wants that.
    tables.drain(member).expect("it lives");
    assert_eq!(beat(&mut node, &mut tables), []);
}

/// An operator has had it drained, or the program ends, before the database knew that it was ready.
#[test]
fn a_node_that_is_drained_or_leaves_does_not_say_that_it_is_ready() {
    let (timing, now) = (Timing::default(), Instant::from_nanos(0));
    let ends: [fn(&mut Node); 2] = [Node::on_drained, |node| {
        node.on_leave_wanted(Instant::from_nanos(0));
    }];
    for end in ends {
        let mut tables = Tables::new(timing);
        let member = tables.join(now, "alpha").expect("nobody has it");
        tables.drain(member).expect("it lives");
        let mut node = Node::new(member, timing, now);
        assert_eq!(node.on_ready(), None, "it has no view");
        end(&mut node);
        assert_eq!(node.on_time(now), [Action::Beat]);
        let actions = node.on_reply(now, Reply::Beaten(tables.beat(now, member)));
        assert!(!actions.contains(&Action::Undrain), "{actions:?}");
    }
}

struct Cluster {
    now: Instant,
    tables: Tables,
    servers: Vec<Server>,
    /// Since when nobody has served each partition.
    absent_since: Vec<Option<Instant>>,
    absent_max: Duration,
    began: Instant,
    /// How long it took until the last partition was served anew.
    moved: Duration,
    /// What nodes say that they serve is heard.
    is_heard: bool,
}

#[derive(Default)]
struct Server {
    node: Option<Node>,
    asks: VecDeque<Action>,
    /// What the database does for it, until then.
    asked: Option<(Action, Instant)>,
    /// What is being read together, until then; and what waits for that.
    loading: Option<(Vec<Grant>, Instant)>,
    loads: Vec<Grant>,
    is_told: bool,
    /// What others have said that they serve.
    served: Vec<Grant>,
}

impl Cluster {
    /// Three nodes that have shared the partitions.
    fn settled() -> Self {
        let mut cluster = Self {
            now: Instant::from_nanos(0),
            tables: Tables::new(Timing::default()),
            servers: (0..3).map(|_| Server::default()).collect(),
            absent_since: vec![None; 256],
            absent_max: Duration::ZERO,
            began: Instant::from_nanos(0),
            moved: Duration::ZERO,
            is_heard: true,
        };
        (0..3).for_each(|number| cluster.start(number));
        cluster.run(Duration::from_secs(60));
        let served = [0, 1, 2].map(|node| cluster.served_by(node));
        assert_eq!(served.iter().sum::<usize>(), 256);
        cluster.forget_absences();
        cluster
    }

    fn forget_absences(&mut self) {
        (self.absent_max, self.moved, self.began) = (Duration::ZERO, Duration::ZERO, self.now);
    }

    fn start(&mut self, number: usize) {
        let name = ["alpha", "beta", "gamma"][number];
        let member = self.tables.join(self.now, name).expect("nobody has it");
        let node = Node::new(member, Timing::default(), self.now);
        self.servers[number].node = Some(node);
    }

    fn kill_two(&mut self) {
        self.servers[1] = Server::default();
        self.servers[2] = Server::default();
    }

    fn served_by(&self, number: usize) -> usize {
        let node = self.servers[number].node.as_ref();
        let is_served = |partition: &u8| {
            node.is_some_and(|it| {
                matches!(it.route(self.now, Partition(*partition)), Route::Here(_))
            })
        };
        (0..=u8::MAX).filter(is_served).count()
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + STEP;
            (0..self.servers.len()).for_each(|number| self.step(number));
            self.look();
        }
    }

    /// Who is served, and since when who is not.
    fn look(&mut self) {
        for partition in 0..=u8::MAX {
            let routes = self
                .servers
                .iter()
                .filter_map(|server| server.node.as_ref());
            let mut routes = routes.map(|node| node.route(self.now, Partition(partition)));
            let is_served = routes.any(|route| matches!(route, Route::Here(_)));
            let since = &mut self.absent_since[usize::from(partition)];
            match (is_served, *since) {
                (true, Some(at)) => {
                    *since = None;
                    self.absent_max = self.absent_max.max(self.now - at);
                    self.moved = self.now - self.began;
                }
                (false, None) => *since = Some(self.now),
                _ => {}
            }
        }
    }

    fn step(&mut self, number: usize) {
        let server = &mut self.servers[number];
        let Some(node) = &mut server.node else {
            return;
        };
        if std::mem::take(&mut server.is_told) {
            node.on_announced(self.now);
        }
        let served = std::mem::take(&mut server.served);
        let actions = node.on_served(self.now, served);
        self.follow(number, actions);
        self.finish_loading(number);
        self.finish_asking(number);
        self.ask(number);
    }

    fn finish_loading(&mut self, number: usize) {
        let mut said = Vec::new();
        let (now, server) = (self.now, &mut self.servers[number]);
        if let Some((grants, _)) = server.loading.take_if(|(_, until)| *until <= now) {
            for grant in grants {
                let node = server.node.as_mut().expect("it lives");
                let actions = node.on_loaded(grant);
                assert_eq!(actions, [Action::SayServed(grant)]);
                said.push(grant);
            }
        }
        if server.loading.is_none() && !server.loads.is_empty() {
            server.loading = Some((std::mem::take(&mut server.loads), now + TRANSACTION));
        }
        let others = (0..self.servers.len()).filter(|other| *other != number && self.is_heard);
        for other in others {
            self.servers[other].served.extend(&said);
        }
    }

    fn finish_asking(&mut self, number: usize) {
        let now = self.now;
        let server = &mut self.servers[number];
        let Some((action, _)) = server.asked.take_if(|(_, until)| *until <= now) else {
            return;
        };
        let node = server.node.as_mut().expect("it lives");
        let (member, tables) = (node.member(), &mut self.tables);
        let reply = match action {
            Action::Beat => Reply::Beaten(tables.beat(now, member)),
            Action::Fence(other) => Reply::Ended(tables.fence(now, member, other)),
            Action::Take(seen) => Reply::Taken(tables.take(now, member, &seen)),
            Action::Give(grants, to) => {
                let given = tables.give(member, &grants, to);
                Reply::Given(grants, to, given)
            }
            other => panic!("nobody leaves: {other:?}"),
        };
        let actions = node.on_reply(now, reply);
        self.follow(number, actions);
    }

    /// The next thing, if nothing is asked for; the lease goes first.
    fn ask(&mut self, number: usize) {
        let (now, server) = (self.now, &mut self.servers[number]);
        if server.asked.is_some() {
            return;
        }
        let node = server.node.as_mut().expect("it lives");
        for action in node.on_time(now) {
            match action {
                Action::Beat => self.servers[number].asks.push_front(action),
                _ => self.follow(number, vec![action]),
            }
        }
        let server = &mut self.servers[number];
        let next = server.asks.pop_front();
        server.asked = next.map(|action| (action, now + TRANSACTION));
    }

    fn follow(&mut self, number: usize, actions: Vec<Action>) {
        let mut waiting = VecDeque::from(actions);
        while let Some(action) = waiting.pop_front() {
            match action {
                Action::Load(grant) => self.servers[number].loads.push(grant),
                Action::Close(grants) => {
                    let node = self.servers[number].node.as_mut().expect("it lives");
                    waiting.extend(node.on_settled(grants));
                }
                Action::Unload(_) => {}
                Action::Announce => {
                    for other in (0..self.servers.len()).filter(|other| *other != number) {
                        self.servers[other].is_told = true;
                    }
                }
                asked => self.servers[number].asks.push_back(asked),
            }
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let served = [0, 1, 2].map(|node| self.served_by(node));
        write!(
            out,
            "{served:?} served; nobody served one for {:?}, the last one was served after {:?}",
            self.absent_max, self.moved
        )
    }
}

/// On the machine where this was found.
const TRANSACTION: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(10);
