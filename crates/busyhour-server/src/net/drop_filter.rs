//! The filter of a socket that drops a share of the REGISTERs that come, by chance, in the kernel.

use socket2::{SockFilter, SockRef};
use std::{io, net::UdpSocket, time::Duration};

/// What the kernel drops of one socket now. It counts that with what it drops for lack of room.
#[derive(Debug)]
pub(super) struct DropFilter {
    dropped: Dropped,
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

impl DropFilter {
    /// Drops nothing.
    pub(super) fn new() -> Self {
        Self {
            dropped: Dropped::Nothing,
        }
    }

    /// Drops this from now on. A small change is none: the kernel translates each program anew.
    ///
    /// While something is dropped, a read that waits ends with `EAGAIN` after 20 ms, so that whoever reads learns that the load
    /// is over.
    ///
    /// # Errors
    ///
    /// When the kernel takes no filter; then what was dropped still is, or this share of all REGISTERs.
    pub(super) fn set(&mut self, socket: &UdpSocket, dropped: Dropped) -> io::Result<()> {
        if self.is_near(dropped) {
            return Ok(());
        }
        let socket = SockRef::from(socket);
        // Set before the filter is: without it, nobody might learn that the load is over.
        if dropped != Dropped::Nothing {
            socket.set_read_timeout(Some(QUIET))?;
        }
        match dropped {
            Dropped::Nothing => socket.detach_filter()?,
            Dropped::Any(share) => socket.attach_filter(&by_chance(share, Vec::new()))?,
            Dropped::WithoutCredentials(share) => {
                // The kernel charges a program before it releases the one before, and may have room for one long one only
                // (net.core.optmem_max is 20 KiB on many systems). So a short one is in between.
                if matches!(self.dropped, Dropped::WithoutCredentials(_)) {
                    socket.attach_filter(&by_chance(share, Vec::new()))?;
                    self.dropped = Dropped::Any(share);
                }
                socket.attach_filter(&by_chance(share, find_credentials()))?;
            }
        }
        self.dropped = dropped;
        match dropped {
            Dropped::Nothing => socket.set_read_timeout(None),
            _ => Ok(()),
        }
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

/// A program of classic BPF: a random number below the share of all numbers drops a REGISTER, unless `unless` returns before.
/// A load behind the end of a datagram would drop it.
fn by_chance(share: f64, unless: Vec<SockFilter>) -> Vec<SockFilter> {
    let below = (share * f64::from(u32::MAX)) as u32;
    let mut program = vec![
        SockFilter::new(LOAD_LEN, 0, 0, 0),
        SockFilter::new(JUMP_IF_AT_LEAST, 0, 4, UDP_HEADER_LEN as u32 + 4),
        SockFilter::new(LOAD_WORD, 0, 0, UDP_HEADER_LEN as u32),
        SockFilter::new(JUMP_IF_EQUAL, 0, 2, u32::from_be_bytes(*b"REGI")),
        SockFilter::new(LOAD_WORD, 0, 0, RANDOM),
        SockFilter::new(JUMP_IF_AT_LEAST, 0, 1, below),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ];
    program.extend(unless);
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

/// Returns if the credentials are in the first bytes of the datagram, and goes on behind itself if not.
///
/// Wherever they lie, one of the words that are looked at lies in them, which has one of a few values: so there is one look
/// for each `STRIDE` bytes.
fn find_credentials() -> Vec<SockFilter> {
    let words: Vec<u32> = CREDENTIALS
        .windows(4)
        .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let stride = words.len();
    let looks = SEARCHED_LEN / stride;
    let look_len = words.len() + 5;
    let mut program = Vec::with_capacity(looks * look_len);
    for look in 0..looks {
        let at = (UDP_HEADER_LEN + look * stride) as u32;
        let behind = ((looks - look) * look_len - 3) as u32;
        program.push(SockFilter::new(LOAD_LEN, 0, 0, 0));
        program.push(SockFilter::new(JUMP_IF_AT_LEAST, 1, 0, at + 4));
        program.push(SockFilter::new(JUMP, 0, 0, behind));
        program.push(SockFilter::new(LOAD_WORD, 0, 0, at));
        for (index, word) in words.iter().enumerate() {
            let left = (words.len() - index - 1) as u8;
            program.push(SockFilter::new(
                JUMP_IF_EQUAL,
                left,
                u8::from(left == 0),
                *word,
            ));
        }
        program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    }
    program
}

/// How a request shows that its device was challenged. Hardly any writes the scheme otherwise; such a one has the chance of all.
pub(super) const CREDENTIALS: &[u8; 22] = b"Authorization: Digest ";
/// From linux/bpf_common.h: `BPF_LD | BPF_W | BPF_ABS`, `BPF_LD | BPF_W | BPF_LEN`, `BPF_JMP | BPF_JA`,
/// `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_JMP | BPF_JGE | BPF_K`, `BPF_RET | BPF_K`.
const LOAD_WORD: u16 = 0x20;
const LOAD_LEN: u16 = 0x80;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// From linux/filter.h: `SKF_AD_OFF + SKF_AD_RANDOM`.
const RANDOM: u32 = (-0x1000_i32 + 56) as u32;
/// A filter of such a socket sees this before the bytes.
const UDP_HEADER_LEN: usize = 8;
/// Most telephones write credentials before that; those that do not have the chance of all.
const SEARCHED_LEN: usize = 1024;
/// Under a load that is worth a filter, datagrams that pass are a few milliseconds apart at most.
const QUIET: Duration = Duration::from_millis(20);
/// The short program costs 11 µs to translate, the long one 280.
const SMALL: f64 = 1.0 / 32.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 400 such datagrams arrive. One that passes any filter follows each few of them, so that none is waited for in vain.
    fn arrived(socket: &UdpSocket, datagram: &[u8]) -> usize {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_addr().unwrap()).unwrap();
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
        filter.set(&socket, Dropped::Any(0.5)).unwrap();
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
        filter.set(&socket, Dropped::Any(0.9)).unwrap();
        let few = arrived(&socket, &register(400));
        assert!((5..100).contains(&few), "{few}");
        filter.set(&socket, Dropped::Nothing).unwrap();
        assert_eq!(arrived(&socket, &register(400)), 400);
    }

    #[test]
    fn the_share_of_those_without_credentials_changes_again_and_again() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        for share in [1.0, 0.5, 0.0, 1.0] {
            filter
                .set(&socket, Dropped::WithoutCredentials(share))
                .unwrap();
            assert_eq!(filter.dropped, Dropped::WithoutCredentials(share));
        }
        assert_eq!(arrived(&socket, &register(400)), 0);
    }

    #[test]
    fn credentials_pass_wherever_they_are() {
        let (socket, mut filter) = (socket(), DropFilter::new());
        filter
            .set(&socket, Dropped::WithoutCredentials(1.0))
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
            .set(&socket, Dropped::WithoutCredentials(0.5))
            .unwrap();
        let half = arrived(&socket, &register(400));
        assert!((120..280).contains(&half), "{half}");
    }
}
