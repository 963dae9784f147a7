//! The filter of a socket that drops a share of the REGISTERs that come, by chance, in the kernel.

use super::drop_program::drop_program;
use nix::libc;
use socket2::{SockFilter, SockRef};
use std::{io, net::UdpSocket, time::Duration};

/// What the kernel drops of one socket now. It counts that with what it drops for lack of room.
#[derive(Debug)]
pub(super) struct DropFilter {
    dropped: Dropped,
    /// When the program that searches for credentials may be tried, after the kernel has refused it.
    next_search: NextSearch,
}

/// When something that was refused is tried again. Times are since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NextSearch {
    Now,
    /// It was refused for lack of memory, after which it rests for so long: the kernel says the same if there is no memory now and
    /// if the socket may never have so much.
    After {
        time: Duration,
        rest: Duration,
    },
    /// It was refused for good.
    Never,
}

impl NextSearch {
    fn is_due(self, now: Duration) -> bool {
        match self {
            Self::Now => true,
            // If it is further away than any rest, the clock was set back.
            Self::After { time, rest } => now >= time || time - now > rest,
            Self::Never => false,
        }
    }

    /// What follows from this error. Each rest is twice as long as the one before: a try costs 280 µs.
    fn after(self, error: &io::Error, now: Duration) -> Self {
        if !matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS)) {
            return Self::Never;
        }
        let rest = match self {
            Self::After { rest, .. } => (rest * 2).min(REST_MAX),
            _ => REST_MIN,
        };
        let time = now + rest;
        Self::After { time, rest }
    }
}

/// What is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Dropped {
    Nothing,
    /// This share of all REGISTERs.
    Any(f64),
    /// This share of those that do not show the credentials of a device.
    WithoutCredentials(f64),
}

impl Dropped {
    /// How much of that which has the chance.
    pub(super) fn share(self) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::Any(share) | Self::WithoutCredentials(share) => share,
        }
    }
}

impl DropFilter {
    /// Drops nothing.
    pub(super) fn new() -> Self {
        Self {
            dropped: Dropped::Nothing,
            next_search: NextSearch::Now,
        }
    }

    /// What is dropped now.
    pub(super) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Drops this from now on. A small change is none: the kernel translates each program anew.
    ///
    /// While something is dropped, a read that waits ends with `EAGAIN` after 20 ms, so that whoever reads learns that the load
    /// is over.
    ///
    /// # Errors
    ///
    /// When the kernel takes no filter; then what was dropped still is. Or when it has no room for one that searches: then this
    /// share of all REGISTERs is dropped, whenever one should search, until that is tried again after a second, two and so on up to
    /// about a minute. If it refuses that one for another reason, it is not tried again.
    pub(super) fn set(
        &mut self,
        socket: &UdpSocket,
        dropped: Dropped,
        now: Duration,
    ) -> io::Result<()> {
        let dropped = match dropped {
            Dropped::WithoutCredentials(share) if !self.next_search.is_due(now) => {
                Dropped::Any(share)
            }
            other => other,
        };
        if self.is_near(dropped) {
            return Ok(());
        }
        let socket = SockRef::from(socket);
        // Set before the filter is: without it, nobody might learn that the load is over.
        if dropped != Dropped::Nothing {
            socket.set_read_timeout(Some(QUIET))?;
        }
        let set = match dropped {
            Dropped::Nothing => socket.detach_filter(),
            Dropped::Any(share) => attach(&socket, share, false),
            Dropped::WithoutCredentials(share) => self.search(&socket, share, now),
        };
        if set.is_ok() {
            self.dropped = dropped;
        }
        if self.dropped == Dropped::Nothing {
            socket.set_read_timeout(None)?;
        }
        set
    }

    /// The kernel charges a program before it releases the one before, and may have room for one long one only
    /// (net.core.optmem_max is 20 KiB on many systems). So a short one is in between, and stays if there is not even room for one.
    fn search(&mut self, socket: &SockRef<'_>, share: f64, now: Duration) -> io::Result<()> {
        if self.dropped != Dropped::Any(share) {
            attach(socket, share, false)?;
            self.dropped = Dropped::Any(share);
        }
        let searches = attach(socket, share, true);
        self.next_search = match &searches {
            Ok(()) => NextSearch::Now,
            Err(error) => self.next_search.after(error, now),
        };
        searches
    }

    fn is_near(&self, dropped: Dropped) -> bool {
        match (self.dropped, dropped) {
            (Dropped::Nothing, Dropped::Nothing) => true,
            (Dropped::Any(was), Dropped::Any(is)) => (was - is).abs() < SMALL,
            (Dropped::WithoutCredentials(was), Dropped::WithoutCredentials(is)) => {
                (was - is).abs() < 2.0 * SMALL
            }
            _ => false,
        }
    }
}

fn attach(socket: &SockRef<'_>, share: f64, is_searching: bool) -> io::Result<()> {
    let program = drop_program(share, is_searching);
    let program: Vec<SockFilter> = program.into_iter().map(SockFilter::from).collect();
    socket.attach_filter(&program)
}

/// Under a load that is worth a filter, datagrams that pass are a few milliseconds apart at most.
const QUIET: Duration = Duration::from_millis(20);
/// The short program costs 11 µs to translate, the long one 280.
const SMALL: f64 = 1.0 / 32.0;
/// Between two tries of a search for which there was no memory.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(64);

#[cfg(test)]
pub(super) mod tests {
    use super::{super::drop_program::CREDENTIALS, *};
    use nix::{setsockopt_impl, sockopt_impl, sys::socket::setsockopt};

    /// How many of 400 such datagrams arrive. One that passes any filter follows each few of them, so that none is waited for in vain.
    fn arrived(socket: &UdpSocket, datagram: &[u8]) -> usize {
        let here = socket.local_addr().unwrap();
        let sender = UdpSocket::bind((here.ip(), 0)).unwrap();
        sender.connect(here).unwrap();
        let mut bytes = [0; 2048];
        let mut count = 0;
        for _ in 0..20 {
            for _ in 0..20 {
                sender.send(datagram).unwrap();
            }
            sender.send(MARK).unwrap();
            loop {
                let len = socket.recv(&mut bytes).unwrap();
                if bytes[..len] == *MARK {
                    break;
                }
                count += 1;
            }
        }
        count
    }

    const NOON: Duration = Duration::from_secs(1_800_000_000);
    const MARK: &[u8] = b"mark";

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    /// A REGISTER of so many bytes.
    fn register(len: usize) -> Vec<u8> {
        let mut datagram = b"REGISTER ".to_vec();
        datagram.resize(len, b'.');
        datagram
    }

    #[test]
    fn about_the_share_is_dropped_until_nothing_is() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        assert_eq!(arrived(&socket, &register(400)), 400);
        filter.set(&socket, Dropped::Any(0.5), NOON).unwrap();
        for len in [9, 400, 1400] {
            let half = arrived(&socket, &register(len));
            assert!((120..280).contains(&half), "{half} of {len} bytes");
        }
        for other in [
            &b""[..],
            b"x",
            b"REG",
            b"\r\n\r\n",
            b"INVITE sip:a SIP/2.0",
            &[0; 1400],
        ] {
            assert_eq!(arrived(&socket, other), 400, "{other:?}");
        }
        filter.set(&socket, Dropped::Any(0.9), NOON).unwrap();
        let few = arrived(&socket, &register(400));
        assert!((5..100).contains(&few), "{few}");
        filter.set(&socket, Dropped::Nothing, NOON).unwrap();
        assert_eq!(arrived(&socket, &register(400)), 400);
    }

    #[test]
    fn empty_lines_hide_no_register_and_keepalives_pass() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        filter.set(&socket, Dropped::Any(1.0), NOON).unwrap();
        for lines in [1, 2, 3, 4, 100] {
            let hidden = [b"\r\n".repeat(lines), register(400)].concat();
            assert_eq!(arrived(&socket, &hidden), 0, "{lines}");
        }
        for other in [
            &b"\r\n"[..],
            b"\r\n\r\n",
            b"\r\nINVITE sip:a SIP/2.0",
            b"\r\n\r\nINVITE sip:a SIP/2.0",
            b"\r\n\r\nREG",
        ] {
            assert_eq!(arrived(&socket, other), 400, "{other:?}");
        }
    }

    #[test]
    fn what_comes_over_ipv6_is_dropped_as_well() {
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        let mut filter = DropFilter::new();
        let with = [&register(300)[..], CREDENTIALS].concat();
        filter.set(&socket, Dropped::Any(1.0), NOON).unwrap();
        assert_eq!(arrived(&socket, &register(400)), 0);
        assert_eq!(arrived(&socket, &with), 0);
        filter
            .set(&socket, Dropped::WithoutCredentials(1.0), NOON)
            .unwrap();
        assert_eq!(arrived(&socket, &register(400)), 0);
        assert_eq!(arrived(&socket, &with), 400);
        assert_eq!(arrived(&socket, b"INVITE sip:a SIP/2.0"), 400);
    }

    sockopt_impl!(
        /// Nobody changes the filter of the socket any more.
        LockFilter,
        SetOnly,
        libc::SOL_SOCKET,
        libc::SO_LOCK_FILTER,
        bool
    );

    /// The kernel refuses each change from now on.
    pub(in crate::net) fn lock(socket: &UdpSocket) {
        setsockopt(socket, LockFilter, &true).unwrap();
    }

    #[test]
    fn a_refused_filter_leaves_what_was() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        let wanted = [
            Dropped::Any(0.5),
            Dropped::WithoutCredentials(0.9),
            Dropped::Nothing,
        ];
        filter.set(&socket, wanted[0], NOON).unwrap();
        lock(&socket);
        for other in [wanted[1], wanted[2], Dropped::Any(0.9)] {
            filter.set(&socket, other, NOON).unwrap_err();
            assert_eq!(filter.dropped(), wanted[0]);
        }
    }

    #[test]
    fn where_the_kernel_has_no_room_for_a_search_all_have_the_same_chance() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        filter.next_search = NextSearch::Never;
        for share in [0.5, 1.0] {
            let wanted = Dropped::WithoutCredentials(share);
            filter.set(&socket, wanted, NOON).unwrap();
            assert_eq!(filter.dropped(), Dropped::Any(share));
        }
        let with = [&register(300)[..], CREDENTIALS].concat();
        assert_eq!(arrived(&socket, &with), 0);
    }

    #[test]
    fn a_search_for_which_there_was_no_memory_is_tried_again() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        let refused = io::Error::from_raw_os_error(libc::ENOMEM);
        filter.next_search = NextSearch::Now.after(&refused, NOON);
        let wanted = Dropped::WithoutCredentials(0.5);
        filter.set(&socket, wanted, NOON + REST_MIN / 2).unwrap();
        assert_eq!(filter.dropped(), Dropped::Any(0.5));
        filter.set(&socket, wanted, NOON + REST_MIN).unwrap();
        assert_eq!(filter.dropped(), wanted);
        assert_eq!(filter.next_search, NextSearch::Now);
    }

    #[test]
    fn it_rests_for_longer_each_time_up_to_a_minute_and_for_ever_if_it_is_forbidden() {
        let (mut next, mut now, mut rests) = (NextSearch::Now, NOON, Vec::new());
        for error in [libc::ENOMEM, libc::ENOBUFS].repeat(5) {
            next = next.after(&io::Error::from_raw_os_error(error), now);
            let rest = (0..100).find(|rest| next.is_due(now + Duration::from_secs(*rest)));
            rests.push(rest.unwrap());
            assert!(
                next.is_due(now - Duration::from_secs(3600)),
                "the clock was set"
            );
            now += Duration::from_secs(rest.unwrap());
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 64, 64, 64, 64]);
        let forbidden = io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(next.after(&forbidden, now), NextSearch::Never);
        assert!(!NextSearch::Never.is_due(now + REST_MAX * 1000));
    }

    #[test]
    fn the_share_of_those_without_credentials_changes_again_and_again() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        for share in [1.0, 0.5, 0.0, 1.0] {
            filter
                .set(&socket, Dropped::WithoutCredentials(share), NOON)
                .unwrap();
            assert_eq!(filter.dropped, Dropped::WithoutCredentials(share));
        }
        assert_eq!(arrived(&socket, &register(400)), 0);
    }

    #[test]
    fn credentials_pass_wherever_they_are() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        filter
            .set(&socket, Dropped::WithoutCredentials(1.0), NOON)
            .unwrap();
        for before in (9..60).chain([500, 950]) {
            let mut datagram = register(before);
            datagram.extend(CREDENTIALS);
            assert_eq!(arrived(&socket, &datagram), 400, "{before}");
            datagram.extend([b'.'; 300]);
            assert_eq!(arrived(&socket, &datagram), 400, "{before}");
        }
        for len in [9, 10, 30, 500, 1024, 1500] {
            assert_eq!(arrived(&socket, &register(len)), 0, "{len}");
        }
        assert_eq!(arrived(&socket, b"INVITE sip:a SIP/2.0"), 400);
        filter
            .set(&socket, Dropped::WithoutCredentials(0.5), NOON)
            .unwrap();
        let half = arrived(&socket, &register(400));
        assert!((120..280).contains(&half), "{half}");
    }
}
