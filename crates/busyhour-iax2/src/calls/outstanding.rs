//! Frames that were sent and not yet acknowledged.

use std::time::Duration;

use busyhour::clock::Instant;

use super::Actions;
use busyhour_sip::Flow;

/// The frames of one call that may have to be sent again (RFC 5456 §7).
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    frames: Vec<Sent>,
}

/// The device did not acknowledge a frame in spite of all retransmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Silent;

#[derive(Debug)]
struct Sent {
    number: u8,
    datagram: Box<[u8]>,
    retries: u32,
    due: Instant,
}

impl Outstanding {
    /// Whether a frame that is no verdict finds room.
    pub fn has_room(&self) -> bool {
        self.frames.len() < REPLIES_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Keeps a frame that is sent now.
    pub fn push(&mut self, now: Instant, number: u8, datagram: &[u8]) {
        self.frames.push(Sent {
            number,
            datagram: datagram.into(),
            retries: 0,
            due: now + FIRST_WAIT,
        });
    }

    /// The other side expects `inbound` next, so it has all before it.
    pub fn acknowledge(&mut self, inbound: u8) {
        self.frames
            .retain(|frame| !is_before(frame.number, inbound));
    }

    /// Retransmits every frame from number `from` on; returns how many.
    pub fn resend(&mut self, from: u8, inbound: u8, flow: Flow, out: &mut Actions) -> u64 {
        let mut count = 0;
        for frame in &mut self.frames {
            if !is_before(frame.number, from) {
                frame.resend(inbound, flow, out);
                count += 1;
            }
        }
        count
    }

    /// Retransmits the frames that are due, and doubles their wait; returns how many.
    ///
    /// # Errors
    /// When a frame was sent as often as it may be.
    pub fn expire(
        &mut self,
        now: Instant,
        inbound: u8,
        flow: Flow,
        out: &mut Actions,
    ) -> Result<u64, Silent> {
        let mut count = 0;
        for frame in self.frames.iter_mut().filter(|frame| frame.due <= now) {
            if frame.retries == RETRIES_MAX {
                return Err(Silent);
            }
            frame.retries += 1;
            frame.due = now + FIRST_WAIT * 2u32.pow(frame.retries);
            frame.resend(inbound, flow, out);
            count += 1;
        }
        Ok(count)
    }

    /// When something is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.frames.iter().map(|frame| frame.due).min()
    }
}

impl Sent {
    /// Marked as a retransmission, and with the newest acknowledgement.
    fn resend(&mut self, inbound: u8, flow: Flow, out: &mut Actions) {
        if let Some(octet) = self.datagram.get_mut(RETRANSMITTED_AT) {
            *octet |= RETRANSMITTED;
        }
        if let Some(octet) = self.datagram.get_mut(INBOUND_AT) {
            *octet = inbound;
        }
        out.send(flow, |bytes| bytes.extend_from_slice(&self.datagram));
    }
}

/// Whether `number` comes before `other`, where numbers begin again after 255.
pub(super) fn is_before(number: u8, other: u8) -> bool {
    (number.wrapping_sub(other) as i8) < 0
}

/// Longer than any round trip that a telephone tolerates.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// As often as Asterisk: after 0.5, 1.5, 3.5 and 7.5 s; at 15.5 s it is over.
const RETRIES_MAX: u32 = 4;
/// A device asks for one thing at a time.
const REPLIES_MAX: usize = 4;
/// Where a full frame has its `R` bit and its inbound number (RFC 5456 §8.1.1).
const RETRANSMITTED_AT: usize = 2;
const RETRANSMITTED: u8 = 0x80;
const INBOUND_AT: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        let address = ([192, 0, 2, 1], 4569).into();
        Flow::udp(address, address)
    }

    fn at_ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_wait_doubles_until_the_device_is_given_up() {
        let mut outstanding = Outstanding::default();
        outstanding.push(at_ms(0), 0, &[0; 12]);
        let mut out = Actions::default();
        for due in [500, 1_500, 3_500, 7_500] {
            assert_eq!(outstanding.next_due(), Some(at_ms(due)));
            let early = outstanding.expire(at_ms(due - 1), 9, flow(), &mut out);
            assert_eq!(early, Ok(0));
            assert_eq!(outstanding.expire(at_ms(due), 9, flow(), &mut out), Ok(1));
        }
        assert_eq!(
            outstanding.expire(at_ms(15_500), 9, flow(), &mut out),
            Err(Silent)
        );
        let frames = out.take_frames();
        assert_eq!(frames.len(), 4);
        assert_eq!((frames[0].1[2], frames[0].1[9]), (0x80, 9));
    }

    #[test]
    fn sequence_numbers_continue_after_255() {
        let mut outstanding = Outstanding::default();
        for number in [254, 255, 0, 1] {
            outstanding.push(at_ms(0), number, &[number; 12]);
        }
        assert!(!outstanding.has_room());
        outstanding.acknowledge(0);
        let mut out = Actions::default();
        assert_eq!(outstanding.resend(1, 0, flow(), &mut out), 1);
        assert_eq!(outstanding.resend(254, 0, flow(), &mut out), 2);
        outstanding.acknowledge(2);
        assert!(outstanding.is_empty());
    }
}
