//! What waits, who may have how much of it, and for how long.

pub(in crate::server) mod kept_question;
pub(in crate::server) mod kept_request;

use crate::lock::lock;
use crate::server::{
    cluster::partition_routes::{PartitionOwner, PartitionRoutes},
    load::shares::{Holder, Holders, Parts, Shares},
    spans::request_span::RequestSpan,
    stats::{counters::Counter, latency::Latency},
};
use busyhour::{clock::Instant, runtime::Runtime};
use busyhour_cluster::{Keeping, KeptRequests, PARTITION_COUNT, Partition};
use kept_question::{KeptQuestion, OnOwner};
use kept_request::{KeptRequest, PlacedRequest};
use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The requests that wait for their partitions.
pub(in crate::server) struct KeptMessages {
    runtime: Runtime,
    routes: Arc<PartitionRoutes>,
    /// No other lock is taken under it, but those of timers and buffers, and nothing foreign is called or dropped.
    waiting: Mutex<WaitingMessages>,
    /// Of which partitions something waits; written under the lock.
    waits: Box<[AtomicBool]>,
    /// Bytes.
    room: Arc<Shares>,
    holders: Holders,
    ways: OnceLock<KeptWays>,
    counters: KeptCounters,
    /// How long requests and questions have waited that wait no more.
    times: Latency,
}

/// What the server does with what has waited.
pub(super) struct KeptWays {
    /// Has somebody take a turn of a partition; called under locks of devices.
    pub(super) take_turn: Box<dyn Fn(Partition) + Send + Sync>,
    /// Ends what nobody has served in time; called under no lock.
    pub(super) give_up: Box<dyn Fn(KeptRequest) + Send + Sync>,
}

struct WaitingMessages {
    requests: KeptRequests<PlacedRequest>,
    /// In the order of their deadlines. They are no requests of a device, so nothing waits behind them.
    questions: VecDeque<KeptQuestion>,
    /// A timer looks for those that are late.
    is_timed: bool,
    /// The server ends, and nothing waits any more.
    is_closed: bool,
}

#[derive(Default)]
struct KeptCounters {
    kept: Counter,
    copies: Counter,
    refused: Counter,
    late: Counter,
}

/// How much waits and has waited.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server::cluster) struct KeptFigures {
    pub(in crate::server::cluster) kept: u64,
    pub(in crate::server::cluster) waiting: u64,
    pub(in crate::server::cluster) copies: u64,
    pub(in crate::server::cluster) refused: u64,
    pub(in crate::server::cluster) late: u64,
    pub(in crate::server::cluster) time_p50_ns: u64,
    pub(in crate::server::cluster) time_p99_ns: u64,
    pub(in crate::server::cluster) time_max_ns: u64,
}

impl KeptMessages {
    /// A source has so many percent of the room. Nobody may guess the seed.
    pub(in crate::server::cluster) fn new(
        runtime: &Runtime,
        routes: Arc<PartitionRoutes>,
        (seed, source_percent): (u64, u64),
    ) -> Self {
        let parts = Parts {
            by_source: source_percent,
            by_account: 100,
            by_domain: 100,
            least: SHARE_BYTES_MIN,
        };
        Self {
            runtime: runtime.clone(),
            routes,
            waiting: Mutex::new(WaitingMessages {
                requests: KeptRequests::new(PATIENCE),
                questions: VecDeque::new(),
                is_timed: false,
                is_closed: false,
            }),
            waits: (0..PARTITION_COUNT)
                .map(|_| AtomicBool::default())
                .collect(),
            room: Arc::new(Shares::new(room_bytes(runtime), parts)),
            holders: Holders::new(seed),
            ways: OnceLock::new(),
            counters: KeptCounters::default(),
            times: Latency::new(),
        }
    }

    /// What is done with what has waited. Before this is set nothing goes on.
    pub(super) fn go_on_with(&self, ways: KeptWays) {
        // It is set once, at the start.
        let _ = self.ways.set(ways);
    }

    /// Whether something of a partition waits or goes on at this moment, so that what comes now has to wait behind it.
    pub(in crate::server::cluster) fn waits(&self, partition: Partition) -> bool {
        self.waits[partition.index()].load(Ordering::SeqCst)
    }

    /// Keeps a request until somebody serves its partition.
    ///
    /// # Errors
    ///
    /// Its span, if there is no room.
    pub(in crate::server) fn keep(
        self: &Arc<Self>,
        partition: Partition,
        name: u128,
        request: KeptRequest,
    ) -> Result<(), RequestSpan> {
        self.keep_by(partition, request, |requests, now, request| {
            requests.keep(now, partition, name, request)
        })
    }

    /// As [`keep`](Self::keep), for one that could not be done: it waits before those that came meanwhile.
    pub(in crate::server) fn put_back(
        self: &Arc<Self>,
        partition: Partition,
        name: u128,
        request: KeptRequest,
    ) -> Result<(), RequestSpan> {
        let place = request.place;
        self.keep_by(partition, request, |requests, now, request| {
            requests.put_back(now, partition, name, place, request)
        })
    }

    fn keep_by(
        self: &Arc<Self>,
        partition: Partition,
        request: KeptRequest,
        keep: impl FnOnce(
            &mut KeptRequests<PlacedRequest>,
            Instant,
            &mut dyn FnMut() -> Option<PlacedRequest>,
        ) -> Keeping,
    ) -> Result<(), RequestSpan> {
        let holder = Holder::of_source(self.holders.of(request.flow.remote.ip(), None).source());
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return Err(request.span);
        }
        let (now, mut request) = (self.now(), Some(request));
        let (room, buffers) = ((&self.room, holder), self.runtime.buffers());
        let mut place = || PlacedRequest::place(now, room, buffers, &mut request);
        let keeping = keep(&mut waiting.requests, now, &mut place);
        self.note_waits(&waiting, partition);
        self.set_timer(&mut waiting);
        drop(waiting);
        self.count(keeping);
        // Somebody may have come to serve it just before it waited.
        self.begin_turn(partition);
        match (keeping, request) {
            (Keeping::Refused, Some(refused)) => Err(refused.span),
            (Keeping::Copy, Some(mut copy)) => {
                copy.span.discard();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count(&self, keeping: Keeping) {
        match keeping {
            Keeping::Kept => self.counters.kept.increment(),
            Keeping::Copy => self.counters.copies.increment(),
            Keeping::Refused => self.counters.refused.increment(),
        }
    }

    /// As [`keep`](Self::keep), for a question over HTTP. If somebody has the partition, that is told at once; but another node that
    /// asks takes this one for the owner, and may know more.
    pub(in crate::server::cluster) fn ask(
        self: &Arc<Self>,
        partition: Partition,
        is_of_node: bool,
        told: OnOwner,
    ) {
        let known_in = match self.routes.owner_of(partition, self.now()) {
            PartitionOwner::At { epoch, .. } if is_of_node => epoch,
            PartitionOwner::Nobody => 0,
            PartitionOwner::Here | PartitionOwner::At { .. } => return told(),
        };
        let question = KeptQuestion {
            partition,
            known_in,
            since: self.now(),
            told,
        };
        let mut waiting = lock(&self.waiting);
        let refused = match waiting.is_closed || waiting.questions.len() == QUESTIONS_MAX {
            true => Some(question),
            false => {
                waiting.questions.push_back(question);
                None
            }
        };
        self.set_timer(&mut waiting);
        drop(waiting);
        match refused {
            Some(question) => {
                self.counters.refused.increment();
                drop(question);
            }
            None => {
                self.counters.kept.increment();
                // Somebody may have come to serve it just before it waited.
                self.answer_questions();
            }
        }
    }

    /// The routes are others: what waits for those that are served now goes on.
    pub(in crate::server::cluster) fn look(self: &Arc<Self>) {
        let waiting = lock(&self.waiting);
        let (now, partitions) = (
            self.now(),
            waiting.requests.partitions().collect::<Vec<_>>(),
        );
        let is_late = waiting.next_late().is_some_and(|late| late <= now);
        drop(waiting);
        for partition in partitions {
            self.begin_turn(partition);
        }
        self.answer_questions();
        if is_late {
            // There was no room for a timer.
            self.drop_late();
        }
    }

    fn answer_questions(&self) {
        let now = self.now();
        let goes_on = |question: &KeptQuestion| {
            may_go_on(
                self.routes.owner_of(question.partition, now),
                question.known_in,
            )
        };
        let mut waiting = lock(&self.waiting);
        if waiting.questions.is_empty() {
            return;
        }
        let questions = mem::take(&mut waiting.questions);
        let (answered, left): (VecDeque<_>, _) = questions.into_iter().partition(goes_on);
        waiting.questions = left;
        drop(waiting);
        for question in answered {
            self.times.record(now - question.since);
            (question.told)();
        }
    }

    fn begin_turn(&self, partition: Partition) {
        let Some(ways) = self.ways.get() else { return };
        let owner = self.routes.owner_of(partition, self.now());
        let goes_on = |kept: &PlacedRequest| kept.goes_on(owner);
        let has_turn = lock(&self.waiting).requests.begin_turn(partition, goes_on);
        if has_turn {
            (ways.take_turn)(partition);
        }
    }

    /// The next one of the turn; `None` ends the turn.
    pub(super) fn next(&self, partition: Partition) -> Option<KeptRequest> {
        loop {
            let owner = self.routes.owner_of(partition, self.now());
            let goes_on = |kept: &PlacedRequest| kept.goes_on(owner);
            let mut waiting = lock(&self.waiting);
            let next = waiting.requests.next(partition, goes_on);
            self.note_waits(&waiting, partition);
            drop(waiting);
            if let Some((place, next)) = next {
                return Some(KeptRequest {
                    place,
                    ..self.end_wait(next)
                });
            }
            // Who saw the partition come before the turn was over has begun none.
            let owner = self.routes.owner_of(partition, self.now());
            let goes_on = |kept: &PlacedRequest| kept.goes_on(owner);
            if !lock(&self.waiting).requests.begin_turn(partition, goes_on) {
                return None;
            }
        }
    }

    fn end_wait(&self, kept: PlacedRequest) -> KeptRequest {
        self.times.record(self.now() - kept.since);
        kept.request
    }

    /// Nothing waits any more.
    pub(in crate::server) fn close(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.is_closed = true;
        let ended = waiting.requests.take_late(Instant::from_nanos(u64::MAX));
        let questions = mem::take(&mut waiting.questions);
        self.note_all(&waiting);
        drop(waiting);
        drop((ended, questions));
    }

    pub(in crate::server::cluster) fn figures(&self) -> KeptFigures {
        let [time_p50_ns, time_p99_ns] = self.times.permille_ns([500, 990]);
        let waiting = lock(&self.waiting);
        KeptFigures {
            kept: self.counters.kept.get(),
            waiting: (waiting.requests.len() + waiting.questions.len()) as u64,
            copies: self.counters.copies.get(),
            refused: self.counters.refused.get(),
            late: self.counters.late.get(),
            time_p50_ns,
            time_p99_ns,
            time_max_ns: self.times.max_ns(),
        }
    }

    fn set_timer(self: &Arc<Self>, waiting: &mut WaitingMessages) {
        let Some(late) = waiting.next_late().filter(|_| !waiting.is_timed) else {
            return;
        };
        let kept = Arc::downgrade(self);
        let look = move || kept.upgrade().map_or((), |kept| kept.drop_late());
        let rest = late - self.now();
        let timer = self.runtime.timers().timer().label("cluster").after(rest);
        // Without room for a timer the next request sets it, or a look at the routes, which comes with each beat.
        waiting.is_timed = timer.on(self.runtime.pool()).run(look).is_ok();
    }

    fn drop_late(self: &Arc<Self>) {
        let now = self.now();
        let mut waiting = lock(&self.waiting);
        waiting.is_timed = false;
        let late = waiting.requests.take_late(now);
        let is_on_time = |question: &KeptQuestion| question.deadline() > now;
        let on_time = (waiting.questions.iter()).position(is_on_time);
        let rest = on_time.unwrap_or(waiting.questions.len());
        let kept = waiting.questions.split_off(rest);
        let late_questions = mem::replace(&mut waiting.questions, kept);
        self.note_all(&waiting);
        self.set_timer(&mut waiting);
        let partitions: Vec<Partition> = waiting.requests.partitions().collect();
        drop(waiting);
        (self.counters.late).add((late.len() + late_questions.len()) as u64);
        for question in late_questions {
            self.times.record(now - question.since);
        }
        for kept in late {
            let request = self.end_wait(kept);
            if let Some(ways) = self.ways.get() {
                (ways.give_up)(request);
            }
        }
        // What is the first now may have somebody who serves it, which the one before it had not.
        for partition in partitions {
            self.begin_turn(partition);
        }
    }

    fn note_waits(&self, waiting: &WaitingMessages, partition: Partition) {
        let waits = waiting.requests.waits(partition);
        self.waits[partition.index()].store(waits, Ordering::SeqCst);
    }

    fn note_all(&self, waiting: &WaitingMessages) {
        for number in 0..=u8::MAX {
            self.note_waits(waiting, Partition(number));
        }
    }

    fn now(&self) -> Instant {
        self.runtime.clock().now()
    }
}

impl WaitingMessages {
    fn next_late(&self) -> Option<Instant> {
        let question = self.questions.front().map(KeptQuestion::deadline);
        [self.requests.next_late(), question]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Whether something may go to who has its partition: what another node has handed here only if that is known by a later epoch.
fn may_go_on(owner: PartitionOwner, known_in: u64) -> bool {
    match owner {
        PartitionOwner::Here => true,
        PartitionOwner::At { epoch, .. } => epoch > known_in,
        PartitionOwner::Nobody => false,
    }
}

fn room_bytes(runtime: &Runtime) -> u64 {
    let budget = runtime.buffers().stats().budget_bytes;
    (budget / MEMORY_PART).min(BYTES_MAX)
}

/// How long a request waits after its last copy. A client sends one after 0.5, 1.5 and 3.5 s (RFC 3261 §17.1.2.2), so what is kept ends
/// only between the last two of these, if at all; over a connection this is how long a client is told nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions over HTTP, beyond which they are refused.
const QUESTIONS_MAX: usize = 1024;
/// Of the memory of buffers, all of them together have at most this part.
const MEMORY_PART: u64 = 16;
const BYTES_MAX: u64 = 16 << 20;
/// What each source may have.
const SHARE_BYTES_MIN: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::{kept_request::charge_bytes, *};
    use busyhour::buffer::Buffer;
    use busyhour_cluster::{Action, KeptPlace, Node, PartitionView, Reply, Tables, Timing};
    use busyhour_sip::Flow;
    use std::net::SocketAddr;

    /// Those of a node without a lease, the routes that it looks at, and the turns that have begun.
    fn kept(runtime: &Runtime) -> (Arc<KeptMessages>, Arc<PartitionRoutes>, Arc<Mutex<Turns>>) {
        let routes = Arc::new(PartitionRoutes::new());
        let kept = Arc::new(KeptMessages::new(runtime, routes.clone(), (1, 10)));
        let turns: Arc<Mutex<Turns>> = Arc::default();
        let (begun, late) = (turns.clone(), turns.clone());
        kept.go_on_with(KeptWays {
            take_turn: Box::new(move |partition| lock(&begun).begun.push(partition)),
            give_up: Box::new(move |_| lock(&late).given_up += 1),
        });
        (kept, routes, turns)
    }

    #[derive(Default)]
    struct Turns {
        begun: Vec<Partition>,
        given_up: u64,
    }

    fn flow(source: [u8; 4]) -> Flow {
        let [local, remote] = [[192, 0, 2, 1], source].map(|it| SocketAddr::from((it, 5060)));
        Flow::udp(local, remote)
    }

    fn request(flow: Flow, datagram: &Buffer, known_in: u64) -> KeptRequest {
        KeptRequest {
            known_in,
            flow,
            datagram: datagram.clone(),
            place: KeptPlace::BEHIND,
            span: RequestSpan::default(),
        }
    }

    #[test]
    fn a_source_has_a_share_of_the_room_and_gives_it_back() {
        let runtime = Runtime::simulated(1);
        let (kept, _, turns) = kept(&runtime);
        let datagram = runtime.buffers().copy_from(b"REGISTER").unwrap();
        let mut names = 0..;
        let mut is_kept = |source| {
            let name = names.next().unwrap();
            let request = request(flow(source), &datagram, 0);
            kept.keep(PARTITION, name, request).is_ok()
        };
        let (greedy, other) = ([198, 51, 100, 1], [203, 0, 113, 1]);
        let room = room_bytes(&runtime) / charge_bytes(datagram.len());
        let count = (0..room).filter(|_| is_kept(greedy)).count() as u64;
        assert_eq!(count, room / 10);
        assert_eq!(kept.figures().refused, room - count);
        assert!(is_kept(other), "it has its own share");
        runtime.simulation().unwrap().run_for(PATIENCE);
        assert_eq!(
            (kept.figures().late, lock(&turns).given_up),
            (count + 1, count + 1)
        );
        assert!(is_kept(greedy), "it was given back");
        assert!(kept.waits(PARTITION));
        kept.close();
        assert!(!kept.waits(PARTITION) && !is_kept(other));
        assert_eq!(kept.room.used(), 0);
        assert!(lock(&turns).begun.is_empty(), "nobody had the partition");
    }

    /// Two nodes that take each other for the owner do not hand it to and fro.
    #[test]
    fn what_was_handed_here_goes_on_by_a_later_epoch_of_its_partition() {
        let runtime = Runtime::simulated(1);
        let (kept, routes, turns) = kept(&runtime);
        let datagram = runtime.buffers().copy_from(b"REGISTER").unwrap();
        let handed = request(flow([198, 51, 100, 1]), &datagram, 5);
        assert!(kept.keep(PARTITION, 1, handed).is_ok());
        for (epoch, turn_count) in [(4, 0), (5, 0), (6, 1)] {
            routes.follow(&knowing_owner(epoch), runtime.clock().now());
            kept.look();
            assert_eq!(lock(&turns).begun.len(), turn_count, "{epoch}");
        }
        assert!(kept.next(PARTITION).is_some());
        assert!(kept.next(PARTITION).is_none());
        assert!(!kept.waits(PARTITION));
    }

    /// Nothing waits behind a question, and it waits behind nothing.
    #[test]
    fn a_question_that_waits_holds_up_no_request() {
        let runtime = Runtime::simulated(1);
        let (kept, routes, turns) = kept(&runtime);
        let follow = |epoch| {
            routes.follow(&knowing_owner(epoch), runtime.clock().now());
            kept.look();
        };
        let told = Arc::new(AtomicBool::new(false));
        let tell = told.clone();
        // A node that takes this one for the owner by epoch 5.
        follow(5);
        kept.ask(
            PARTITION,
            true,
            Box::new(move || tell.store(true, Ordering::SeqCst)),
        );
        assert_eq!(kept.figures().waiting, 1);
        assert!(!kept.waits(PARTITION), "a request that comes now goes on");
        let datagram = runtime.buffers().copy_from(b"REGISTER").unwrap();
        let request = request(flow([198, 51, 100, 1]), &datagram, 4);
        assert!(kept.keep(PARTITION, 1, request).is_ok());
        assert_eq!(lock(&turns).begun, [PARTITION], "by epoch 5");
        assert!(kept.next(PARTITION).is_some());
        assert!(!told.load(Ordering::SeqCst), "the question waits");
        // The turn goes on at this moment.
        assert!(kept.waits(PARTITION));
        follow(6);
        assert!(told.load(Ordering::SeqCst));
        assert!(kept.next(PARTITION).is_none());
        assert_eq!(kept.figures().waiting, 0);
    }

    /// It comes back as another one of the same device waits already.
    #[test]
    fn what_is_kept_a_second_time_goes_on_first() {
        let runtime = Runtime::simulated(1);
        let (kept, routes, _) = kept(&runtime);
        let now = || runtime.clock().now();
        let keep = |name: u128, text: &[u8]| {
            let datagram = runtime.buffers().copy_from(text).unwrap();
            let request = request(flow([198, 51, 100, 1]), &datagram, 0);
            assert!(kept.keep(PARTITION, name, request).is_ok());
        };
        keep(1, b"first");
        routes.follow(&knowing_owner(5), now());
        kept.look();
        let first = kept.next(PARTITION).expect("it goes on");
        assert_eq!(&*first.datagram, b"first");
        routes.clear();
        keep(2, b"second");
        assert!(kept.next(PARTITION).is_none(), "nobody has the partition");
        assert!(kept.put_back(PARTITION, 1, first).is_ok());
        routes.follow(&knowing_owner(6), now());
        kept.look();
        let next = || kept.next(PARTITION).map(|it| it.datagram.to_vec());
        let order = [next(), next(), next()];
        let expected = [Some(b"first".to_vec()), Some(b"second".to_vec()), None];
        assert_eq!(order, expected);
        assert!(!kept.waits(PARTITION));
        assert_eq!((kept.figures().kept, kept.room.used()), (3, 0));
    }

    #[test]
    fn how_long_something_has_waited_is_told() {
        let runtime = Runtime::simulated(1);
        let (kept, routes, _) = kept(&runtime);
        let datagram = runtime.buffers().copy_from(b"REGISTER").unwrap();
        let keep = |name| {
            let request = request(flow([198, 51, 100, 1]), &datagram, 0);
            assert!(kept.keep(PARTITION, name, request).is_ok());
        };
        let pass = |time| runtime.simulation().unwrap().run_for(time);
        let times = || {
            let figures = kept.figures();
            [
                figures.time_p50_ns,
                figures.time_p99_ns,
                figures.time_max_ns,
            ]
        };
        assert_eq!(times(), [0; 3]);
        // It is late, and two are not.
        keep(1);
        pass(PATIENCE);
        let late_ns = PATIENCE.as_nanos() as u64;
        assert_eq!(times(), [late_ns; 3]);
        keep(2);
        kept.ask(PARTITION, false, Box::new(|| ()));
        let time = Duration::from_millis(300);
        pass(time);
        routes.follow(&knowing_owner(5), runtime.clock().now());
        kept.look();
        assert!(kept.next(PARTITION).is_some());
        let [half, most, max] = times();
        let time_ns = time.as_nanos() as u64;
        assert!((time_ns..time_ns + time_ns / 8).contains(&half), "{half}");
        assert_eq!([most, max], [late_ns; 2]);
    }

    /// A node that has read that another one has all partitions, each in this epoch.
    fn knowing_owner(epoch: u64) -> Node {
        let (timing, now) = (Timing::default(), Instant::from_nanos(0));
        let mut tables = Tables::new(timing);
        let [own, other] = ["alpha", "beta"].map(|name| tables.join(now, name).unwrap());
        let mut node = Node::new(own, timing, now);
        assert_eq!(node.on_time(now), [Action::Beat]);
        let mut view = tables.beat(now, own).unwrap();
        view.partitions.fill(PartitionView {
            owner: Some(other),
            epoch,
            pinned: None,
        });
        node.on_reply(now, Reply::Beaten(Ok(view)));
        node
    }

    const PARTITION: Partition = Partition(7);
}
