use super::{
    BATCH_LEN, Datagram,
    drop_filter::{DropFilter, Dropped},
    early_drop::EarlyDrop,
    local::local_of,
    send::SendQueue,
    shown_credentials::Judged,
    standing_queue::StandingQueue,
    stats::{SocketCounters, add, read},
};
use crate::server::ReadMode;
use busyhour::{
    buffer::{Buffer, BufferMut, BufferPool},
    pool::{InlineRunner, TaskPool},
};
use busyhour_sip::Flow;
use nix::{
    cmsg_space,
    errno::Errno,
    libc,
    sys::{
        socket::{
            ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg,
            recvmsg, setsockopt, sockopt,
        },
        time::TimeSpec,
    },
};
use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The receiving half of one socket, run by its own thread.
pub(super) struct Receiver {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) local: SocketAddr,
    pub(super) buffers: BufferPool,
    /// What leaves through the same socket.
    pub(super) queue: Arc<SendQueue>,
    pub(super) counters: Arc<SocketCounters>,
    /// The receiver shall end.
    pub(super) is_stopped: Arc<AtomicBool>,
}

/// Where the datagrams of one call land.
struct ReceiveBatch {
    /// A pinned buffer for each datagram; `None` where the pool had none.
    slots: Vec<Option<BufferMut>>,
    /// For each slot, room for the rest of a datagram that is too long for it.
    spill: Vec<u8>,
    headers: MultiHeaders<SockaddrStorage>,
    /// Room for what the kernel says beside the bytes of one datagram.
    control: Vec<u8>,
    /// The datagrams of the last call.
    arrivals: Vec<ReceivedMeta>,
    /// So many calls ask for one datagram before one looks whether more have come.
    single_calls_left: usize,
    /// The kernel says when each comes.
    is_stamped: bool,
    /// When the last call returned, since the Unix epoch; read once for all that is decided by it, and only if something is: the
    /// call brought a whole batch, or the kernel says when each came.
    now: Duration,
    /// The kernel says to which of our addresses each comes.
    is_told_local: bool,
    early_drop: EarlyDrop,
    drop_filter: DropFilter,
    /// The kernel has refused a filter of this socket, and that is in the log.
    was_filter_refused: bool,
    standing: StandingQueue,
}

/// What is known of a datagram beside its bytes.
struct ReceivedMeta {
    len: usize,
    source: Option<SocketAddr>,
    /// The arrival time since the Unix epoch, if the kernel records it.
    came_at: Option<Duration>,
    /// The local address that it came to, if the socket has several.
    local: Option<IpAddr>,
}

impl Receiver {
    /// Gives every datagram that `read_mode` wants to `deliver`, in order, until the
    /// stop signal, and pauses while it wants none.
    pub(super) fn run(
        &self,
        pool: &TaskPool,
        deliver: &dyn Fn(Datagram),
        read_mode: &dyn Fn() -> ReadMode,
    ) {
        let mut runner = pool.inline_runner();
        let mut batch = ReceiveBatch::new(self.local);
        while !self.is_stopped() {
            let read_mode = read_mode();
            if read_mode == ReadMode::Nothing {
                thread::sleep(REST);
                continue;
            }
            let is_behind = read_mode == ReadMode::Fresh || batch.is_behind();
            let is_stamped = is_behind || batch.may_be_behind();
            self.stamp(&mut batch, is_stamped);
            if !is_behind {
                self.let_all_in(&mut batch);
            }
            let received = self.receive(&mut batch);
            match received {
                // It did not come from the network.
                Ok(()) if self.is_stopped() => return,
                Ok(()) => self.hand_on(&mut batch, is_behind, &mut runner, deliver),
                Err(Errno::EINTR) => {}
                // Nothing came, or it was dropped: the load is over.
                Err(Errno::EAGAIN) => {
                    batch.standing.note_end();
                    self.let_all_in(&mut batch);
                }
                Err(error) => self.failed(error),
            }
        }
    }

    /// Asks for a few datagrams, or, if so many were there, for a whole batch: if they
    /// come one at a time, a batch would be prepared for nothing, and it is asked for one.
    fn receive(&self, batch: &mut ReceiveBatch) -> nix::Result<()> {
        if batch.single_calls_left > 0 {
            batch.single_calls_left -= 1;
            batch.refill(1, &self.buffers);
            batch.receive_one(&self.socket)?;
            batch.note_time();
            return Ok(());
        }
        let is_busy = batch.arrivals.len() >= FEW;
        let len = if is_busy { BATCH_LEN } else { FEW };
        batch.refill(len, &self.buffers);
        batch.receive(len, &self.socket)?;
        if batch.arrivals.len() == 1 {
            batch.single_calls_left = SINGLE_CALLS;
        }
        batch.note_time();
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// A few are processed here, one by one; more are left to the pool's workers. What this
    /// thread sends meanwhile leaves together, after every few.
    fn hand_on(
        &self,
        batch: &mut ReceiveBatch,
        is_behind: bool,
        runner: &mut InlineRunner,
        deliver: &dyn Fn(Datagram),
    ) {
        add(&self.counters.receive_calls, 1);
        let are_few = batch.arrivals.len() < FEW;
        if batch.is_stamped {
            self.note_wait(batch, is_behind);
        }
        let since = is_behind.then(|| batch.now.saturating_sub(STALE));
        let sends = self.queue.put_off(&self.socket, &self.counters);
        for index in 0..batch.arrivals.len() {
            let ReceivedMeta {
                len, source, local, ..
            } = batch.arrivals[index];
            add(&self.counters.received, 1);
            add(&self.counters.received_bytes, len);
            if batch.arrivals[index].is_stale(since) {
                add(&self.counters.dropped_stale, 1);
                continue;
            }
            if batch.is_stamped || batch.standing.is_full() {
                batch.note(index, len, &self.counters);
            }
            let payload = batch.payload(index, len, &self.buffers);
            match (payload, source) {
                (Some(payload), Some(remote)) => {
                    let local = local.map_or(self.local, |ip| self.at(ip));
                    let flow = Flow::udp(local, remote);
                    let datagram = Datagram { flow, payload };
                    let panics = &self.counters.panics;
                    let deal = || panics.contain(flow, || deliver(datagram));
                    match are_few {
                        true => runner.run(deal),
                        false => deal(),
                    }
                }
                (None, _) => add(&self.counters.dropped_no_buffer, 1),
                // No family but IP ever arrives on an IP socket.
                (_, None) => add(&self.counters.receive_errors, 1),
            }
            if index % FEW == FEW - 1 {
                sends.send();
            }
        }
    }

    fn at(&self, ip: IpAddr) -> SocketAddr {
        SocketAddr::new(ip, self.local.port())
    }

    /// Has the kernel say when each datagram came, or not. It begins to note that for a socket when it is first asked to say it,
    /// and goes on until the socket is closed. So the first time, what waits already has no arrival time, and gets that of the call
    /// that reads it, as if it were fresh; later it has its own.
    fn stamp(&self, batch: &mut ReceiveBatch, is_wanted: bool) {
        if batch.is_stamped != is_wanted {
            let set = setsockopt(&self.socket, sockopt::ReceiveTimestampns, &is_wanted);
            // Without it all count as fresh.
            batch.is_stamped = is_wanted && set.is_ok();
            batch.headers = MultiHeaders::preallocate(BATCH_LEN, None);
        }
    }

    /// Nothing is dropped in the kernel any more, but for lack of room.
    fn let_all_in(&self, batch: &mut ReceiveBatch) {
        batch.early_drop.rest();
        if batch.drop_filter.dropped() != Dropped::Nothing {
            self.filter(batch, Dropped::Nothing);
        }
    }

    /// Takes in how long the first of these datagrams has waited; if the receiver is behind, the kernel drops as much as that says.
    fn note_wait(&self, batch: &mut ReceiveBatch, is_behind: bool) {
        let Some(wait) = batch.wait() else {
            return;
        };
        batch.standing.note_wait(wait);
        if is_behind && let Some(dropped) = batch.early_drop.look(batch.now, wait) {
            self.filter(batch, dropped);
        }
    }

    fn filter(&self, batch: &mut ReceiveBatch, dropped: Dropped) {
        let before = batch.drop_filter.dropped();
        if let Err(error) = batch.drop_filter.set(&self.socket, dropped, batch.now) {
            self.filter_refused(batch, &error);
        }
        let after = batch.drop_filter.dropped();
        if before == Dropped::Nothing && after != Dropped::Nothing {
            add(&self.counters.early_drops_begun, 1);
        }
        let permille = (after.share() * 1000.0) as u64;
        let dropped_now = &self.counters.early_drop_permille;
        dropped_now.store(permille, Ordering::Relaxed);
    }

    fn filter_refused(&self, batch: &mut ReceiveBatch, error: &io::Error) {
        let (local, dropped) = (self.local, batch.drop_filter.dropped());
        match std::mem::replace(&mut batch.was_filter_refused, true) {
            true => tracing::debug!(%local, %error, ?dropped, "the kernel still takes no filter"),
            false => tracing::warn!(
                %local, %error, ?dropped,
                "the kernel takes no filter: under more load than the server can serve, it drops REGISTERs that show credentials like all \
                 others, or those that come last; raise net.core.optmem_max to 65536"
            ),
        }
    }

    fn failed(&self, error: Errno) {
        add(&self.counters.receive_errors, 1);
        tracing::warn!(local = %self.local, %error, "receiving failed");
    }
}

impl ReceiveBatch {
    fn new(local: SocketAddr) -> Self {
        Self {
            is_told_local: local.ip().is_unspecified(),
            slots: (0..BATCH_LEN).map(|_| None).collect(),
            // Zeroed lazily by the operating system: untouched pages cost nothing.
            spill: vec![0; BATCH_LEN * DATAGRAM_LEN_MAX],
            headers: MultiHeaders::preallocate(BATCH_LEN, None),
            control: cmsg_space!(TimeSpec, libc::in6_pktinfo),
            arrivals: Vec::with_capacity(BATCH_LEN),
            single_calls_left: 0,
            is_stamped: false,
            now: Duration::ZERO,
            early_drop: EarlyDrop::default(),
            drop_filter: DropFilter::new(),
            was_filter_refused: false,
            standing: StandingQueue::default(),
        }
    }

    /// A fresh buffer wherever an earlier call's was handed on.
    fn refill(&mut self, len: usize, buffers: &BufferPool) {
        let slots = self.slots.iter_mut().take(len);
        for slot in slots.filter(|slot| slot.is_none()) {
            *slot = buffers.alloc(SLOT_LEN).ok();
        }
    }

    /// Waits for the first datagram and takes those that are there, at most `len`.
    fn receive(&mut self, len: usize, socket: &UdpSocket) -> nix::Result<()> {
        self.arrivals.clear();
        if self.is_stamped || self.is_told_local {
            // Set again each time: the kernel overwrites the size of the room with the
            // size that it used.
            let space = cmsg_space!(TimeSpec, libc::in6_pktinfo);
            self.headers = MultiHeaders::preallocate(len, Some(space));
        }
        let spills = self.spill.chunks_exact_mut(DATAGRAM_LEN_MAX);
        let mut slices: Vec<[IoSliceMut<'_>; 2]> = self
            .slots
            .iter_mut()
            .zip(spills)
            .take(len)
            .map(|(slot, spill)| {
                let slot = slot.as_deref_mut().unwrap_or_default();
                [IoSliceMut::new(slot), IoSliceMut::new(spill)]
            })
            .collect();
        let received = recvmmsg(
            socket.as_raw_fd(),
            &mut self.headers,
            slices.iter_mut(),
            MsgFlags::MSG_WAITFORONE,
            None,
        )?;
        self.arrivals
            .extend(received.map(|one| ReceivedMeta::of(&one)));
        Ok(())
    }

    /// Waits for one datagram.
    fn receive_one(&mut self, socket: &UdpSocket) -> nix::Result<()> {
        self.arrivals.clear();
        let slot = self.slots.first_mut().and_then(Option::as_deref_mut);
        let spill = self.spill.get_mut(..DATAGRAM_LEN_MAX);
        let mut room = [slot, spill].map(|part| IoSliceMut::new(part.unwrap_or_default()));
        let is_told = self.is_stamped || self.is_told_local;
        let control = is_told.then_some(self.control.as_mut_slice());
        let received = recvmsg(socket.as_raw_fd(), &mut room, control, MsgFlags::empty())?;
        self.arrivals.push(ReceivedMeta::of(&received));
        Ok(())
    }

    /// Shows datagram `index` to what decides about the next ones.
    fn note(&mut self, index: usize, len: usize, counters: &SocketCounters) {
        let judged = || Judged {
            answers: read(&counters.credentials_answering),
            of_old_nonces: read(&counters.credentials_of_old_nonces),
            elsewhere: read(&counters.credentials_elsewhere),
            accepted_elsewhere: read(&counters.credentials_accepted_elsewhere),
        };
        if let Some(slot) = self.slots.get(index).and_then(Option::as_deref) {
            let (datagram, dropped) = (&slot[..len.min(slot.len())], self.drop_filter.dropped());
            self.early_drop.note(datagram, dropped, judged);
        }
    }

    /// Takes in when the last call returned, and whether it brought as many as it asked for.
    fn note_time(&mut self) {
        let is_full = self.arrivals.len() == BATCH_LEN;
        if is_full || self.is_stamped {
            self.now = now();
        }
        match is_full {
            true => self.standing.note_full(self.now),
            false => self.standing.note_end(),
        }
    }

    /// Whether registrations have to wait for long, and not just for a moment.
    fn is_behind(&self) -> bool {
        self.early_drop.are_registers_most()
            && (!self.early_drop.is_idle() || self.standing.stands())
    }

    /// Whether [`is_behind`](Self::is_behind) may be so soon; what kind of load it is need not be known yet.
    fn may_be_behind(&self) -> bool {
        self.standing.may_stand()
    }

    /// How long the first of the last call has waited, if that was recorded.
    fn wait(&self) -> Option<Duration> {
        let came_at = self.arrivals.first()?.came_at?;
        let wait = self.now.checked_sub(came_at)?;
        (wait < CLOCK_WAS_SET).then_some(wait)
    }

    /// The bytes of datagram `index`, pinned; `None` when the pool is at its budget.
    fn payload(&mut self, index: usize, len: usize, buffers: &BufferPool) -> Option<Buffer> {
        let mut slot = self.slots.get_mut(index)?.take()?;
        if len <= slot.len() {
            slot.truncate(len);
            return Some(slot.freeze());
        }
        let mut whole = buffers.alloc(len).ok()?;
        let (head, tail) = whole.split_at_mut(slot.len());
        head.copy_from_slice(&slot);
        let spill = self.spill.get(index * DATAGRAM_LEN_MAX..)?;
        tail.copy_from_slice(spill.get(..tail.len())?);
        Some(whole.freeze())
    }
}

impl ReceivedMeta {
    fn of(one: &RecvMsg<'_, '_, SockaddrStorage>) -> Self {
        let mut landed = Self {
            len: one.bytes,
            source: one.address.as_ref().and_then(address),
            came_at: None,
            local: None,
        };
        for message in one.cmsgs().into_iter().flatten() {
            landed.note(&message);
        }
        landed
    }

    /// Takes what the kernel says beside the bytes.
    fn note(&mut self, message: &ControlMessageOwned) {
        match message {
            ControlMessageOwned::ScmTimestampns(at) => self.came_at = Some((*at).into()),
            other => self.local = self.local.or_else(|| local_of(other)),
        }
    }

    /// Whether it came before `since`, so that its sender has retransmitted it or soon
    /// will. A much earlier time means that the clock was set.
    fn is_stale(&self, since: Option<Duration>) -> bool {
        let age = since.zip(self.came_at);
        let older = age.and_then(|(since, came_at)| since.checked_sub(came_at));
        older.is_some_and(|older| !older.is_zero() && older < CLOCK_WAS_SET)
    }
}

/// Since the Unix epoch.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().copied();
    let v6 = || storage.as_sockaddr_in6().copied();
    v4.map(|v4| SocketAddrV4::from(v4).into())
        .or_else(|| v6().map(|v6| SocketAddrV6::from(v6).into()))
}

/// Datagrams of one call that are no sign of load.
const FEW: usize = 8;
/// Few enough that a batch that begins is seen soon.
const SINGLE_CALLS: usize = 7;
/// Together with the wait inside, less than the half second after which a client
/// retransmits (RFC 3261's T1): otherwise each request would be processed twice.
const STALE: Duration = Duration::from_millis(250);
/// While the server wants no datagrams. In that time at most some hundred requests are processed:
/// far fewer than wait inside, so no worker runs out of work.
const REST: Duration = Duration::from_millis(1);
/// No datagram waits as long in a socket that is read.
const CLOCK_WAS_SET: Duration = Duration::from_secs(60);
/// Room for every SIP message but the rare giant, which costs a copy.
const SLOT_LEN: usize = 2048;
/// More than UDP can carry, so that nothing is ever cut off.
const DATAGRAM_LEN_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::{super::drop_filter::tests::lock, *};
    use std::sync::Mutex;
    use tracing::{Event, Level, Subscriber, field::Field};
    use tracing_subscriber::{
        Layer,
        layer::{Context, SubscriberExt},
    };

    fn receiver() -> (Receiver, ReceiveBatch) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = socket.local_addr().unwrap();
        let receiver = Receiver {
            socket: Arc::new(socket),
            local,
            buffers: BufferPool::builder().build().unwrap(),
            queue: Arc::new(SendQueue::new(1)),
            counters: Arc::default(),
            is_stopped: Arc::default(),
        };
        (receiver, ReceiveBatch::new(local))
    }

    /// So many calls in a row that bring nothing but REGISTERs which have waited for long, as many as they asked for, since so long ago.
    fn fill(batch: &mut ReceiveBatch, since: Duration) {
        batch.standing.note_end();
        let now = now();
        batch.standing.note_full(now - since);
        batch.standing.note_wait(STALE);
        batch.standing.note_full(now);
        for _ in 0..10_000 {
            let dropped = Dropped::Nothing;
            let note = || Judged::default();
            batch.early_drop.note(b"REGISTER sip:a", dropped, note);
        }
    }

    #[test]
    fn arrival_times_are_recorded_before_the_receiver_is_behind_and_do_not_make_it_wait_again() {
        let (receiver, mut batch) = receiver();
        fill(&mut batch, STALE / 2);
        assert!(batch.may_be_behind() && !batch.is_behind());
        fill(&mut batch, STALE);
        receiver.stamp(&mut batch, true);
        assert!(batch.is_behind(), "it has waited for long enough");
        receiver.let_all_in(&mut batch);
        assert!(batch.is_behind());
        batch.standing.note_end();
        assert!(!batch.may_be_behind() && !batch.is_behind());
    }

    /// The first time it has one if another program of the machine asks for arrival times, so nothing is said of that.
    #[test]
    fn what_waits_has_its_arrival_time_once_the_kernel_notes_it() {
        let (receiver, mut batch) = receiver();
        let mut has_its_own = || {
            receiver.stamp(&mut batch, false);
            receiver.socket.send_to(b"x", receiver.local).unwrap();
            thread::sleep(REST);
            let asked_at = now();
            receiver.stamp(&mut batch, true);
            receiver.receive(&mut batch).unwrap();
            batch.arrivals[0].came_at.expect("it is said") < asked_at
        };
        has_its_own();
        // The kernel begins to note them a while after it is asked for the first time.
        assert!((0..1_000).any(|_| has_its_own()));
        receiver.stamp(&mut batch, false);
        receiver.socket.send_to(b"x", receiver.local).unwrap();
        receiver.receive(&mut batch).unwrap();
        assert_eq!(batch.arrivals[0].came_at, None, "it is not said any more");
    }

    #[test]
    fn what_shows_credentials_is_spared_if_the_server_says_that_it_answers() {
        let (receiver, mut batch) = receiver();
        let shows = b"REGISTER sip:a SIP/2.0\r\nAuthorization: Digest username";
        for answers in [false, true] {
            for index in 0..20_000 {
                let datagram = if index % 2 == 0 {
                    &shows[..]
                } else {
                    b"REGISTER sip:a"
                };
                let mut slot = receiver.buffers.alloc(datagram.len()).unwrap();
                slot.copy_from_slice(datagram);
                batch.slots[0] = Some(slot);
                batch.note(0, datagram.len(), &receiver.counters);
                let is_answer = answers && index % 2 == 0;
                add(
                    &receiver.counters.credentials_answering,
                    usize::from(is_answer),
                );
            }
            let dropped = batch.early_drop.look(now(), STALE).unwrap();
            let spares = matches!(dropped, Dropped::WithoutCredentials(_));
            assert_eq!(spares, answers);
            batch.early_drop = EarlyDrop::default();
        }
    }

    #[test]
    fn the_share_that_is_dropped_is_shown_and_how_often_that_began() {
        let (receiver, mut batch) = receiver();
        let shown = || {
            let stats = receiver.counters.read();
            (stats.early_drop_permille_max, stats.early_drops_begun)
        };
        receiver.filter(&mut batch, Dropped::Any(0.25));
        assert_eq!(shown(), (250, 1));
        receiver.filter(&mut batch, Dropped::WithoutCredentials(0.5));
        assert_eq!(shown(), (500, 1));
        receiver.let_all_in(&mut batch);
        receiver.let_all_in(&mut batch);
        assert_eq!(shown(), (0, 1));
        receiver.filter(&mut batch, Dropped::Any(0.75));
        assert_eq!(shown(), (750, 2));
        lock(&receiver.socket);
        receiver.filter(&mut batch, Dropped::Nothing);
        assert_eq!(shown(), (750, 2), "it still is");
    }

    /// What was logged.
    struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut fields = String::new();
            event.record(&mut |_: &Field, value: &dyn std::fmt::Debug| {
                fields.push_str(&format!("{value:?} "));
            });
            let level = *event.metadata().level();
            self.0.lock().unwrap().push((level, fields));
        }
    }

    #[test]
    fn a_refused_filter_is_a_warning_once() {
        let (receiver, mut batch) = receiver();
        lock(&receiver.socket);
        let lines = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Lines(Arc::clone(&lines)));
        tracing::subscriber::with_default(subscriber, || {
            for share in [0.3, 0.5, 0.7] {
                receiver.filter(&mut batch, Dropped::Any(share));
            }
        });
        let lines = lines.lock().unwrap();
        let levels: Vec<_> = lines.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [Level::WARN, Level::DEBUG, Level::DEBUG]);
        assert!(lines[0].1.contains("net.core.optmem_max"), "{lines:?}");
        let stats = receiver.counters.read();
        assert_eq!(stats.early_drops_begun, 0);
        assert_eq!(
            receiver.socket.read_timeout().unwrap(),
            None,
            "nothing is dropped"
        );
    }

    #[test]
    fn earlier_datagrams_are_stale_unless_the_clock_was_set() {
        let came = |came_at: Option<u64>| ReceivedMeta {
            len: 0,
            source: None,
            came_at: came_at.map(Duration::from_secs),
            local: None,
        };
        let since = Some(Duration::from_secs(1000));
        assert!(came(Some(999)).is_stale(since));
        assert!(!came(Some(1000)).is_stale(since));
        assert!(!came(Some(5000)).is_stale(since));
        assert!(!came(Some(900)).is_stale(since), "the clock was set");
        assert!(!came(None).is_stale(since) && !came(Some(999)).is_stale(None));
    }
}
