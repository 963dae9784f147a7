//! Which of several refusals goes back (RFC 3261 §16.7, step 6).

use busyhour::buffer::Buffer;

/// The best final response so far, and the challenges of others.
#[derive(Debug, Default)]
pub(super) struct BestResponse {
    chosen: Option<Candidate>,
    /// All 401 and 407, whose challenges go back together (step 7).
    challenging: Vec<Buffer>,
}

/// A final response other than 2xx.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub status: u16,
    /// The branch it came from; none for one of ours.
    pub branch: Option<u16>,
    /// As it was received; none if nothing was received.
    pub received: Option<Buffer>,
}

impl BestResponse {
    pub fn offer(&mut self, candidate: Candidate) {
        if is_challenge(candidate.status) {
            self.challenging.extend(candidate.received.clone());
        }
        let is_better = |chosen: &Candidate| rank(&candidate) < rank(chosen);
        if self.chosen.as_ref().is_none_or(is_better) {
            self.chosen = Some(candidate);
        }
    }

    pub fn chosen(&self) -> Option<&Candidate> {
        self.chosen.as_ref()
    }

    /// 0 if there is none.
    pub fn status(&self) -> u16 {
        self.chosen.as_ref().map_or(0, |chosen| chosen.status)
    }

    /// The other responses whose challenges go with the chosen one.
    pub fn other_challenges(&self) -> impl Iterator<Item = &Buffer> {
        let chosen = self.chosen.as_ref();
        let chosen = chosen.filter(|chosen| is_challenge(chosen.status));
        let chosen = chosen.and_then(|chosen| chosen.received.as_ref());
        let others = self.challenging.iter().skip(usize::from(chosen.is_some()));
        others.filter(move |_| chosen.is_some())
    }

    pub fn held_bytes(&self) -> usize {
        let chosen = self.chosen.iter().flat_map(|chosen| &chosen.received);
        chosen.chain(&self.challenging).map(|held| held.len()).sum()
    }
}

pub(super) fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

/// Lower is better; of equal ones the first that came is chosen. Any 6xx comes first, then
/// the lowest class. Within a class those come first that tell the caller what to change
/// (401, 407, 415, 420, 484), and those last that say least: a 503, which is not to be
/// forwarded, a cancelled or a silent branch.
fn rank(candidate: &Candidate) -> (u16, u8) {
    let class = candidate.status / 100;
    let within = match candidate.status {
        401 | 407 => 0,
        415 | 420 | 484 => 1,
        503 => 8,
        487 => 8,
        408 => 9,
        _ => 5,
    };
    (if class == 6 { 0 } else { class }, within)
}
