//! Whose turn it is in a run with a budget: rounds are outermost, so each part has its first round
//! before any has its second.

use std::time::Duration;

/// The turns that parts take, one round each.
pub struct Turns {
    parts: Vec<PartTurns>,
    /// How many rounds each part shall have.
    rounds: usize,
    /// The round that is being run, from 0.
    round: usize,
    /// The next part of that round.
    next: usize,
}

/// What a part has had.
struct PartTurns {
    weight: u32,
    /// How long its last round took.
    took: Duration,
}

/// One round of one part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    pub part: usize,
    pub round: usize,
    /// After so long its processes are ended.
    pub most: Duration,
}

impl Turns {
    pub fn new(weights: impl IntoIterator<Item = u32>, rounds: usize) -> Self {
        let took = Duration::ZERO;
        let part = |weight| PartTurns { weight, took };
        Self {
            parts: weights.into_iter().map(part).collect(),
            rounds,
            round: 0,
            next: 0,
        }
    }

    /// The next turn, if so much of the budget is left. A later round is left out if the part's
    /// last one took longer than its share of what is left.
    pub fn next(&mut self, left: Duration) -> Option<Turn> {
        while self.round < self.rounds && !left.is_zero() {
            let (part, round) = (self.next, self.round);
            let Some(share) = self.share(left) else {
                (self.round, self.next) = (round + 1, 0);
                continue;
            };
            self.next += 1;
            let most = match round {
                0 => (share * OVERRUN_MOST).min(left),
                _ if self.parts[part].took > share => continue,
                _ => left,
            };
            return Some(Turn { part, round, most });
        }
        None
    }

    /// The share of the next part among those that are still to run in this round; `None` at the
    /// round's end.
    fn share(&self, left: Duration) -> Option<Duration> {
        let part = self.parts.get(self.next)?;
        let weights = self.parts[self.next..].iter().map(|part| part.weight);
        Some(left * part.weight / weights.sum::<u32>().max(1))
    }

    /// Notes how long a turn took.
    pub fn took(&mut self, turn: Turn, time: Duration) {
        self.parts[turn.part].took = time;
    }
}

/// How many times its share the first round of a part may take, so that its largest sizes get one;
/// the parts after it then share the rest.
const OVERRUN_MOST: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs parts of these weights, of which each round takes so many seconds unless it is ended;
    /// returns the turns, and whether one was ended.
    fn simulated(parts: &[(u32, u64)], rounds: usize, budget: u64) -> (Vec<Turn>, bool) {
        let mut turns = Turns::new(parts.iter().map(|(weight, _)| *weight), rounds);
        let (mut left, mut is_cut) = (Duration::from_secs(budget), false);
        let mut taken = Vec::new();
        while let Some(turn) = turns.next(left) {
            let wanted = Duration::from_secs(parts[turn.part].1);
            is_cut |= wanted > turn.most;
            let time = wanted.min(turn.most);
            left = left.checked_sub(time).expect("a turn ends with the budget");
            turns.took(turn, time);
            taken.push(turn);
        }
        (taken, is_cut)
    }

    #[test]
    fn each_part_has_its_first_round_before_any_has_its_second() {
        // As long as a round of each part takes for the record, with what was cut there at the end.
        let record = [
            (1, 3),
            (1, 1),
            (36, 117),
            (1, 4),
            (10, 60),
            (6, 20),
            (5, 30),
            (6, 26),
            (4, 25),
            (14, 36),
            (5, 27),
            (2, 1),
            (14, 50),
            (14, 73),
            (6, 13),
            (14, 60),
            (5, 20),
            (8, 30),
            (5, 25),
            (14, 50),
            (5, 30),
            (10, 60),
            (5, 30),
        ];
        let (turns, is_cut) = simulated(&record, 3, 18 * 60);
        assert!(!is_cut);
        let first: Vec<_> = turns[..record.len()]
            .iter()
            .map(|turn| (turn.round, turn.part))
            .collect();
        let wanted: Vec<_> = (0..record.len()).map(|part| (0, part)).collect();
        assert_eq!(first, wanted);
        let later = turns[record.len()..].iter();
        let of_round = |round| later.clone().filter(|turn| turn.round == round).count();
        assert!(of_round(1) > 0 && of_round(0) == 0);
        assert!(turns.is_sorted_by_key(|turn| turn.round));
    }

    #[test]
    fn with_time_enough_every_part_has_every_round() {
        let (turns, is_cut) = simulated(&[(1, 5), (3, 1)], 3, 100);
        assert!(!is_cut);
        assert_eq!(turns.len(), 6);
    }

    #[test]
    fn a_part_that_takes_too_long_is_ended_and_leaves_the_others_their_share() {
        let (turns, is_cut) = simulated(&[(1, 1_000), (1, 5), (1, 5)], 3, 60);
        assert!(is_cut);
        assert_eq!(turns[0].most, Duration::from_secs(40));
        let of_part = |part| turns.iter().filter(|turn| turn.part == part).count();
        assert_eq!((of_part(0), of_part(1), of_part(2)), (1, 2, 2));
    }

    #[test]
    fn without_time_there_is_no_turn() {
        assert_eq!(simulated(&[(1, 1)], 3, 0).0, []);
    }
}
