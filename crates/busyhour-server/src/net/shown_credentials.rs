//! How many of the credentials that REGISTERs show answer a challenge.
//!
//! The server says of each REGISTER whether its credentials answer a challenge, or that another node of the cluster checks
//! them. It is compared with how many showed credentials when they were read: so all that shows them and proves nothing counts
//! against them, also what is no request at all, and what is sent again and again.

/// What became of credentials that were shown since a socket was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// They answered a challenge that their source was sent.
    pub(super) answers: u64,
    /// Another node of the cluster checked them.
    pub(super) elsewhere: u64,
}

/// Watches them.
#[derive(Debug, Default)]
pub(super) struct ShownCredentials {
    /// Sums over the last ones that were looked at.
    shown: f64,
    answers: f64,
    elsewhere: f64,
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
        let elsewhere = since(judged.elsewhere, self.judged.elsewhere);
        self.judged = judged;
        for (sum, more) in [
            (&mut self.shown, read),
            (&mut self.answers, answers),
            (&mut self.elsewhere, elsewhere),
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
        let checked = self.shown - self.elsewhere;
        self.are_trusted = match self.answers / checked {
            _ if self.shown < shown_min => self.are_trusted,
            // Too few to tell.
            _ if checked < self.shown / 8.0 => true,
            part if self.are_trusted => part >= TRUSTED_UNTIL,
            part => part >= TRUSTED_FROM,
        };
    }
}

/// So many that were looked at.
const LATELY: f64 = 256.0;
const LOOKS_MIN: f64 = 32.0;
/// The numbers that are judged between two looks differ by chance, but hardly any is as many times their mean.
const AT_MOST: f64 = 8.0;
const TRUSTED_FROM: f64 = 7.0 / 8.0;
const TRUSTED_UNTIL: f64 = 3.0 / 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 13;

    /// Looks at so many, of which these shares answer and are checked elsewhere.
    fn look(shown: &mut ShownCredentials, looks: u32, (answers, elsewhere): (f64, f64)) {
        let mut judged = shown.judged;
        let (from, each) = (judged, f64::from(READ));
        for look in 1..=looks {
            judged.answers = from.answers + (f64::from(look) * each * answers) as u64;
            judged.elsewhere = from.elsewhere + (f64::from(look) * each * elsewhere) as u64;
            shown.note(READ, judged);
        }
    }

    #[test]
    fn they_are_trusted_once_nearly_all_answer_until_a_third_as_many_false_ones_come() {
        let mut shown = ShownCredentials::default();
        assert!(!shown.are_trusted());
        look(&mut shown, 1000, (0.0, 0.0));
        assert!(!shown.are_trusted(), "nobody asks for them here");
        look(&mut shown, 2000, (0.95, 0.0));
        assert!(shown.are_trusted());
        look(&mut shown, 2000, (0.8, 0.0));
        assert!(shown.are_trusted(), "fewer, but not few");
        look(&mut shown, 2000, (0.7, 0.0));
        assert!(!shown.are_trusted());
        look(&mut shown, 2000, (0.8, 0.0));
        assert!(!shown.are_trusted(), "more, but not nearly all");
    }

    #[test]
    fn a_flood_is_noticed_within_some_hundred_looks() {
        let mut shown = ShownCredentials::default();
        look(&mut shown, 2000, (1.0, 0.0));
        look(&mut shown, 200, (0.4, 0.0));
        assert!(!shown.are_trusted());
    }

    #[test]
    fn what_is_checked_elsewhere_counts_for_nothing() {
        let mut shown = ShownCredentials::default();
        look(&mut shown, 2000, (0.3, 0.66));
        assert!(shown.are_trusted(), "one node of three");
        look(&mut shown, 2000, (0.1, 0.66));
        assert!(!shown.are_trusted(), "others are false");
        look(&mut shown, 2000, (0.0, 1.0));
        assert!(shown.are_trusted(), "one node of many");
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
