//! Offers and answers (RFC 3264), as far as they put a side on hold.
//!
//! An offer counts once it is answered: a re-INVITE or UPDATE that fails changes nothing
//! (RFC 3261 §14.1, RFC 3311 §5.1), and neither does one that comes late.

use busyhour_sip::sdp::MediaDirection;

use super::party::Role;

/// Requests that one side has sent within a dialog and that are not answered, and which
/// side has the other one on hold.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Few: a side has one offer under way at a time.
    waiting: Vec<Waiting>,
    /// By role.
    holds: [bool; 2],
    /// The highest CSeq of each role whose answer was taken in.
    last_cseq: [Option<u32>; 2],
}

/// A request that may change the session.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    sender: Role,
    cseq: u32,
    /// The description in the request; or, once answered, in the response.
    offer: Option<MediaDirection>,
    /// It was answered by an offer, which the ACK answers.
    is_offered_back: bool,
}

impl Exchange {
    /// Whether this side has the other one on hold.
    pub fn holds(&self, role: Role) -> bool {
        self.holds[role as usize]
    }

    /// Of a session whose beginning nobody saw only an answer is known. Who is not sent
    /// anything has asked for that; who sends and does not receive holds.
    pub fn adopt(&mut self, sender: Role, answer: MediaDirection) {
        self.holds[sender as usize] = !answer.sends;
        self.holds[sender.other() as usize] = answer.sends && !answer.receives;
    }

    /// A request that may change the session goes through.
    pub fn request(&mut self, sender: Role, cseq: u32, offer: Option<MediaDirection>) {
        if self.is_late(sender, cseq) || self.find(sender, cseq).is_some() {
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(Waiting {
            sender,
            cseq,
            offer,
            is_offered_back: false,
        });
    }

    /// Its final response goes through; returns whether that was a success not seen before.
    pub fn response(
        &mut self,
        sender: Role,
        cseq: u32,
        is_success: bool,
        answer: Option<MediaDirection>,
    ) -> bool {
        let Some(index) = self.find(sender, cseq) else {
            return false;
        };
        if self.waiting[index].is_offered_back {
            return false;
        }
        let offer = self.waiting[index].offer;
        match (is_success, offer, answer) {
            (true, None, Some(_)) => {
                let waiting = &mut self.waiting[index];
                (waiting.offer, waiting.is_offered_back) = (answer, true);
            }
            (true, Some(offer), Some(answer)) => {
                self.take(index);
                self.agree(sender, offer, answer);
            }
            _ => drop(self.take(index)),
        }
        if is_success {
            let last = &mut self.last_cseq[sender as usize];
            *last = (*last).max(Some(cseq));
        }
        is_success
    }

    /// An ACK goes through, perhaps with the answer to the offer of a 2xx.
    pub fn ack(&mut self, sender: Role, cseq: u32, answer: Option<MediaDirection>) {
        let found = self.find(sender, cseq);
        let Some(index) = found.filter(|index| self.waiting[*index].is_offered_back) else {
            return;
        };
        let waiting = self.take(index);
        if let (Some(offer), Some(answer)) = (waiting.offer, answer) {
            self.agree(sender.other(), offer, answer);
        }
    }

    /// The two sides have agreed. Who answers an offer of silence with silence holds
    /// nothing by that: it stays as it was (RFC 6337 §5.3).
    fn agree(&mut self, offerer: Role, offer: MediaDirection, answer: MediaDirection) {
        self.holds[offerer as usize] = !offer.receives;
        let answerer = &mut self.holds[offerer.other() as usize];
        match (answer.receives, offer.sends) {
            (true, _) => *answerer = false,
            (false, true) => *answerer = true,
            (false, false) => {}
        }
    }

    /// A session that nobody is changing takes no memory here.
    fn take(&mut self, index: usize) -> Waiting {
        let waiting = self.waiting.remove(index);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
        waiting
    }

    fn find(&self, sender: Role, cseq: u32) -> Option<usize> {
        let is_it = |waiting: &Waiting| waiting.sender == sender && waiting.cseq == cseq;
        self.waiting.iter().position(is_it)
    }

    fn is_late(&self, sender: Role, cseq: u32) -> bool {
        self.last_cseq[sender as usize].is_some_and(|last| cseq <= last)
    }
}

/// One of each side, and what was lost on the way.
const WAITING_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use Role::{Callee, Caller};

    fn direction(sends: bool, receives: bool) -> Option<MediaDirection> {
        Some(MediaDirection { sends, receives })
    }

    fn after(exchanges: &[(Role, Option<MediaDirection>, Option<MediaDirection>)]) -> [bool; 2] {
        let mut exchange = Exchange::default();
        for (cseq, (sender, offer, answer)) in exchanges.iter().enumerate() {
            exchange.request(*sender, cseq as u32, *offer);
            exchange.response(*sender, cseq as u32, true, *answer);
        }
        Role::ALL.map(|role| exchange.holds(role))
    }

    #[test]
    fn who_does_not_receive_holds() {
        let (both, sendonly) = (direction(true, true), direction(true, false));
        let (recvonly, inactive) = (direction(false, true), direction(false, false));
        // RFC 3264 §8.4.
        assert_eq!(after(&[(Caller, both, both)]), [false, false]);
        assert_eq!(after(&[(Caller, sendonly, recvonly)]), [true, false]);
        assert_eq!(after(&[(Callee, sendonly, recvonly)]), [false, true]);
        assert_eq!(after(&[(Caller, inactive, inactive)]), [true, false]);
        assert_eq!(after(&[(Caller, both, sendonly)]), [false, true]);
        // RFC 6337 §5.3: the held side holds as well.
        assert_eq!(after(&[(Caller, sendonly, inactive)]), [true, true]);
        assert_eq!(after(&[(Caller, recvonly, sendonly)]), [false, false]);
    }

    #[test]
    fn a_hold_lasts_until_its_side_receives_again() {
        let (both, sendonly) = (direction(true, true), direction(true, false));
        let (recvonly, inactive) = (direction(false, true), direction(false, false));
        let held = (Caller, sendonly, recvonly);
        assert_eq!(after(&[held, (Callee, recvonly, sendonly)]), [true, false]);
        assert_eq!(after(&[held, (Callee, inactive, inactive)]), [true, true]);
        assert_eq!(after(&[held, (Caller, both, both)]), [false, false]);
        assert_eq!(after(&[held, (Callee, both, both)]), [false, false]);
    }

    #[test]
    fn a_failure_or_a_late_request_changes_nothing() {
        let (both, sendonly) = (direction(true, true), direction(true, false));
        let mut exchange = Exchange::default();
        exchange.request(Caller, 2, sendonly);
        assert!(!exchange.response(Caller, 2, false, None));
        assert!(!exchange.holds(Caller));
        exchange.request(Caller, 3, both);
        assert!(exchange.response(Caller, 3, true, both));
        exchange.request(Caller, 2, sendonly);
        assert!(!exchange.response(Caller, 2, true, both));
        assert!(!exchange.holds(Caller));
    }

    #[test]
    fn an_offer_in_a_2xx_is_answered_by_the_ack() {
        let (sendonly, recvonly) = (direction(true, false), direction(false, true));
        let mut exchange = Exchange::default();
        exchange.request(Caller, 2, None);
        assert!(exchange.response(Caller, 2, true, sendonly));
        assert!(
            !exchange.response(Caller, 2, true, sendonly),
            "it came again"
        );
        assert!(!exchange.holds(Callee));
        exchange.ack(Caller, 2, recvonly);
        assert_eq!(Role::ALL.map(|role| exchange.holds(role)), [false, true]);
    }

    #[test]
    fn glare_leaves_the_offer_of_the_other_side() {
        // RFC 3261 §14.2: both get 491; each offer is one's own.
        let (both, sendonly) = (direction(true, true), direction(true, false));
        let mut exchange = Exchange::default();
        exchange.request(Caller, 5, sendonly);
        exchange.request(Callee, 5, both);
        assert!(!exchange.response(Caller, 5, false, None));
        assert!(exchange.response(Callee, 5, true, both));
        assert_eq!(Role::ALL.map(|role| exchange.holds(role)), [false, false]);
    }

    #[test]
    fn requests_without_an_answer_take_no_more_room() {
        let mut exchange = Exchange::default();
        (0..100).for_each(|cseq| exchange.request(Caller, cseq, direction(true, false)));
        assert_eq!(exchange.waiting.len(), WAITING_MAX);
    }
}
