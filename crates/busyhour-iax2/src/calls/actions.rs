//! What has to be done after an event.

use super::Request;
use busyhour_sip::Flow;

/// Datagrams to send and requests to make, in order. Kept and used again, so
/// that a busy table allocates nothing for it.
#[derive(Debug, Default)]
pub struct Actions {
    bytes: Vec<u8>,
    ends: Vec<(Flow, usize)>,
    requests: Vec<Request>,
    challenged: Vec<(Flow, Box<str>)>,
}

impl Actions {
    /// The datagrams, each with its way.
    pub fn frames(&self) -> impl Iterator<Item = (Flow, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).filter_map(|(start, (flow, end))| {
            let datagram = self.bytes.get(start..*end)?;
            Some((*flow, datagram))
        })
    }

    /// The datagrams in boxes of their own; they are forgotten here.
    pub fn take_frames(&mut self) -> Vec<(Flow, Box<[u8]>)> {
        let frames = self.frames().map(|(flow, frame)| (flow, frame.into()));
        let frames = frames.collect();
        self.bytes.clear();
        self.ends.clear();
        frames
    }

    /// The requests; they are forgotten here.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Users who are asked for a password now; they are forgotten here.
    pub fn take_challenged(&mut self) -> Vec<(Flow, Box<str>)> {
        std::mem::take(&mut self.challenged)
    }

    /// Forgets everything but the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.requests.clear();
        self.challenged.clear();
    }

    /// How many datagrams there are.
    pub(super) fn frame_count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Adds the datagram that `write` appends, and returns it.
    pub(super) fn send(&mut self, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.ends.push((flow, self.bytes.len()));
        self.bytes.get(start..).unwrap_or_default()
    }

    pub(super) fn note_challenged(&mut self, flow: Flow, username: Box<str>) {
        self.challenged.push((flow, username));
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.requests.push(request);
    }
}
