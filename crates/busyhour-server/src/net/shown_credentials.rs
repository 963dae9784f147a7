//! How many of the credentials that REGISTERs show answer a challenge.
//!
//! The server says of each REGISTER whether its credentials answer a challenge, or that another node of the cluster checks
//! them. It is compared with how many showed credentials when they were read: so all that shows them and proves nothing counts
//! against them, also what is no request at all, and what is sent again and again.
//!
//! A device whose nonce has become too old shows its credentials twice, and the second ones are accepted. The first ones are not
//! checked. So each that is accepted vouches for one of those: who knows no password is spared with an old nonce only as far
//! as devices send as many right ones. Another node says only what it accepts, so there each vouches for one more, whatever that
//! is.

/// What became of credentials that were shown since a socket was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// They answered a challenge that their source was sent.
    pub(super) answers: u64,
    /// They answered one whose nonce is no longer valid or was used before, rightly or not.
    pub(super) of_old_nonces: u64,
    /// Another node of the cluster checks them.
    pub(super) elsewhere: u64,
    /// It has accepted them.
    pub(super) accepted_elsewhere: u64,
}

/// Watches them.
#[derive(Debug, Default)]
pub(super) struct ShownCredentials {
    /// Sums over the last ones that were looked at.
    shown: f64,
    answers: f64,
    of_old_nonces: f64,
    elsewhere: f64,
    accepted_elsewhere: f64,
    /// Until the last look.
    judged: Judged,
    are_trusted: bool,
}

impl ShownCredentials {
    /// So many more were read that show credentials, of which one was looked at; `judged` until now.
    pub(super) fn note(&mut self, read: u32, judged: Judged) {
        let read = f64::from(read);
        // Nobody looks while there is little to do: what was judged then was not shown here.
        let since = |now: u64, before: u64| (now.saturating_sub(before) as f64).min(read * AT_MOST);
        let answers = since(judged.answers, self.judged.answers);
        let of_old_nonces = since(judged.of_old_nonces, self.judged.of_old_nonces);
        let elsewhere = since(judged.elsewhere, self.judged.elsewhere);
        let accepted = since(judged.accepted_elsewhere, self.judged.accepted_elsewhere);
        self.judged = judged;
        for (sum, more) in [
            (&mut self.shown, read),
            (&mut self.answers, answers),
            (&mut self.of_old_nonces, of_old_nonces),
            (&mut self.elsewhere, elsewhere),
            (&mut self.accepted_elsewhere, accepted),
        ] {
            *sum += more - *sum / LATELY;
        }
        // More are judged than were seen to be shown where some write them otherwise: they vouch for nobody.
        self.elsewhere = self.elsewhere.min(self.shown);
        self.answers = self.answers.min(self.shown - self.elsewhere);
        self.judge(LOOKS_MIN * read);
    }

    /// Whether hardly any of them are shown by somebody who was not asked. None are known to be right at first.
    pub(super) fn are_trusted(&self) -> bool {
        self.are_trusted
    }

    fn judge(&mut self, shown_min: f64) {
        let vouched_for = (ACCEPTED_VOUCHES_FOR * self.accepted_elsewhere).min(self.elsewhere);
        let right = self.answers + self.answers.min(self.of_old_nonces);
        self.are_trusted = match (right + vouched_for) / self.shown {
            _ if self.shown < shown_min => self.are_trusted,
            part if self.are_trusted => part >= TRUSTED_UNTIL,
            part => part >= TRUSTED_FROM,
        };
    }
}

/// So many that were looked at.
const LATELY: f64 = 256.0;
const LOOKS_MIN: f64 = 32.0;
/// Itself, and the one before it, whose nonce was too old.
const ACCEPTED_VOUCHES_FOR: f64 = 2.0;
/// The numbers that are judged between two looks differ by chance, but hardly any is as many times their mean.
const AT_MOST: f64 = 8.0;
const TRUSTED_FROM: f64 = 7.0 / 8.0;
const TRUSTED_UNTIL: f64 = 3.0 / 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 13;

    /// Looks at so many, of which these shares answer, answer old nonces, are checked elsewhere and are accepted there.
    fn look_at(shown: &mut ShownCredentials, looks: u32, shares: [f64; 4]) {
        let from = shown.judged;
        for look in 1..=looks {
            let [answers, old, elsewhere, accepted] =
                shares.map(|share| (f64::from(look * READ) * share) as u64);
            let judged = Judged {
                answers: from.answers + answers,
                of_old_nonces: from.of_old_nonces + old,
                elsewhere: from.elsewhere + elsewhere,
                accepted_elsewhere: from.accepted_elsewhere + accepted,
            };
            shown.note(READ, judged);
        }
    }

    /// The same of a server alone.
    fn look(shown: &mut ShownCredentials, looks: u32, answers: f64) {
        look_at(shown, looks, [answers, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn they_are_trusted_once_nearly_all_answer_until_a_third_as_many_false_ones_come() {
        let mut shown = ShownCredentials::default();
        assert!(!shown.are_trusted());
        look(&mut shown, 1000, 0.0);
        assert!(!shown.are_trusted(), "nobody asks for them here");
        look(&mut shown, 2000, 0.95);
        assert!(shown.are_trusted());
        look(&mut shown, 2000, 0.8);
        assert!(shown.are_trusted(), "fewer, but not few");
        look(&mut shown, 2000, 0.7);
        assert!(!shown.are_trusted());
        look(&mut shown, 2000, 0.8);
        assert!(!shown.are_trusted(), "more, but not nearly all");
    }

    #[test]
    fn a_flood_is_noticed_within_some_hundred_looks() {
        let mut shown = ShownCredentials::default();
        look(&mut shown, 2000, 1.0);
        look(&mut shown, 200, 0.4);
        assert!(!shown.are_trusted());
    }

    #[test]
    fn answers_to_old_nonces_count_as_far_as_as_many_are_accepted() {
        let mut shown = ShownCredentials::default();
        look_at(&mut shown, 2000, [0.5, 0.5, 0.0, 0.0]);
        assert!(shown.are_trusted(), "devices that refresh");
        look_at(&mut shown, 2000, [0.3, 0.7, 0.0, 0.0]);
        assert!(!shown.are_trusted(), "and one who knows no password");
        look_at(&mut shown, 2000, [0.5, 0.5, 0.0, 0.0]);
        assert!(shown.are_trusted());
        look_at(&mut shown, 2000, [0.0, 1.0, 0.0, 0.0]);
        assert!(!shown.are_trusted(), "he is alone");
    }

    #[test]
    fn what_is_checked_elsewhere_counts_once_it_is_accepted() {
        let mut shown = ShownCredentials::default();
        look_at(&mut shown, 2000, [0.3, 0.0, 0.7, 0.7]);
        assert!(shown.are_trusted(), "newcomers at one node of three");
        look_at(&mut shown, 2000, [0.3, 0.0, 0.7, 0.35]);
        assert!(shown.are_trusted(), "refreshes whose nonce is too old");
        look_at(&mut shown, 2000, [0.15, 0.0, 0.66, 0.66]);
        assert!(shown.are_trusted(), "fewer, but not few");
        look_at(&mut shown, 2000, [0.0, 0.0, 1.0, 1.0]);
        assert!(shown.are_trusted(), "one node of many");
    }

    #[test]
    fn false_ones_for_accounts_of_other_nodes_are_noticed() {
        for (answers, elsewhere, accepted) in [(0.0, 1.0, 0.0), (0.1, 0.9, 0.3), (0.2, 0.8, 0.25)] {
            let mut shown = ShownCredentials::default();
            look_at(&mut shown, 2000, [0.3, 0.0, 0.7, 0.7]);
            assert!(shown.are_trusted());
            look_at(&mut shown, 2000, [answers, 0.0, elsewhere, accepted]);
            assert!(!shown.are_trusted(), "{answers} {elsewhere} {accepted}");
        }
    }

    #[test]
    fn what_was_judged_while_nobody_looked_is_no_credit() {
        let mut shown = ShownCredentials::default();
        shown.judged.answers = 100;
        let mut judged = shown.judged;
        judged.answers += 1_000_000;
        shown.note(READ, judged);
        (0..1000).for_each(|_| shown.note(READ, judged));
        assert!(!shown.are_trusted());
    }
}
