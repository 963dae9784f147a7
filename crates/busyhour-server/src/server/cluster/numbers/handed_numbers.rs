//! Requests that nodes hand to each other without an answer, and those of them that are lost.
//!
//! What came in a datagram is handed on without an answer, since its sender sends it again. So that a loss is
//! counted all the same, each node numbers what it hands to each other one, and the other one
//! looks which numbers are missing. A message may overtake others, so a number counts as lost only when it
//! has not come and 4,096 later ones have been said, or when the node that said it is gone. Numbers need no
//! store: the life of the node is their upper part, and each life begins anew.
//!
//! Each node has its own counter and its own lock, so threads that hand on to different nodes, or hear
//! different nodes, do not wait for each other, and to hand on takes no lock at all.

use crate::lock::lock;
use crate::server::stats::counters::Counter;
use std::{
    array,
    collections::BTreeSet,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// The numbers of what this node hands on, and of what is handed to it.
pub(in crate::server::cluster) struct HandedNumbers {
    /// Before the first number of this life.
    base: u64,
    /// By the number of the node; a page comes with the first message of one of its nodes.
    pages: Box<[OnceLock<NodePage>]>,
    /// Requests handed on without an answer.
    pub(in crate::server::cluster) unconfirmed: Counter,
    /// Those of other nodes that did not come here.
    pub(in crate::server::cluster) lost: Counter,
}

type NodePage = Box<[NumbersOfNode; PAGE_LEN]>;

/// What was handed to one node, and what came from it.
#[derive(Default)]
#[repr(align(64))]
struct NumbersOfNode {
    said: AtomicU64,
    /// `None` if nothing has come since it lives.
    heard: Mutex<Option<HeardNumbers>>,
}

/// Which numbers of one node have come.
struct HeardNumbers {
    highest: u64,
    /// Lower ones that may still come.
    missing: BTreeSet<u64>,
}

impl HandedNumbers {
    pub(in crate::server::cluster) fn of_life(epoch: u64) -> Self {
        Self {
            base: epoch << LIFE_SHIFT,
            pages: (0..PAGE_COUNT).map(|_| OnceLock::new()).collect(),
            unconfirmed: Counter::default(),
            lost: Counter::default(),
        }
    }

    /// The number of the next request for a node.
    pub(in crate::server::cluster) fn next(&self, node: u16) -> u64 {
        let said = &self.of(node).said;
        self.base | (1 + said.fetch_add(1, Ordering::Relaxed))
    }

    /// A request with this number has come from a node.
    pub(in crate::server::cluster) fn heard(&self, node: u16, number: u64) {
        let mut heard = lock(&self.of(node).heard);
        let numbers = heard.get_or_insert_with(|| HeardNumbers::from(number));
        self.lost.add(numbers.hear(number));
    }

    /// Only these nodes live: what others have said and has not come does not come any more.
    pub(in crate::server::cluster) fn retain(&self, live: &BTreeSet<u16>) {
        let nodes = (self.pages.iter().enumerate())
            .filter_map(|(index, page)| Some((index * PAGE_LEN, page.get()?)))
            .flat_map(|(first, page)| (first..).zip(page.iter()));
        for (_, numbers) in nodes.filter(|(node, _)| !live.contains(&(*node as u16))) {
            let gone = lock(&numbers.heard).take();
            self.lost.add(gone.map_or(0, |gone| gone.missing()));
        }
    }

    fn of(&self, node: u16) -> &NumbersOfNode {
        let node = usize::from(node);
        let page = self.pages[node / PAGE_LEN]
            .get_or_init(|| Box::new(array::from_fn(|_| NumbersOfNode::default())));
        &page[node % PAGE_LEN]
    }
}

impl HeardNumbers {
    /// With this one as the first that is known of: a node that began to listen has missed nothing.
    fn from(number: u64) -> Self {
        Self {
            highest: number,
            missing: BTreeSet::new(),
        }
    }

    /// How many are known to be lost now and were not before.
    fn hear(&mut self, number: u64) -> u64 {
        let (life, last_life) = (number >> LIFE_SHIFT, self.highest >> LIFE_SHIFT);
        if life > last_life {
            let lost = self.missing();
            *self = Self::from(life << LIFE_SHIFT);
            return lost + self.hear(number);
        }
        if number <= self.highest {
            self.missing.remove(&number);
            return 0;
        }
        let next = self.highest.saturating_add(1);
        let awaited = number.saturating_sub(WINDOW).max(next);
        let mut lost = awaited - next;
        self.missing.extend(awaited..number);
        self.highest = number;
        while self.missing.first().is_some_and(|it| number - it > WINDOW) {
            self.missing.pop_first();
            lost += 1;
        }
        lost
    }

    fn missing(&self) -> u64 {
        self.missing.len() as u64
    }
}

/// Nodes whose numbers are together: 4 KiB.
const PAGE_LEN: usize = 64;
const PAGE_COUNT: usize = (u16::MAX as usize + 1) / PAGE_LEN;
/// More than a life hands on.
const LIFE_SHIFT: u32 = 40;
/// So many numbers may still come after a higher one: a thread may be put off between taking a number and
/// sending it, while others send.
const WINDOW: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Beside a count of those that were taken out, whatever overtook what.
        #[test]
        fn as_many_are_lost_as_did_not_come(
            fates in prop::collection::vec((0_u64..20, any::<u64>()), 1..500),
            first in 1_u64..1_000,
        ) {
            let numbers = HandedNumbers::of_life(0);
            numbers.heard(7, first);
            let mut waiting = Vec::new();
            let mut taken_out = 0;
            for (number, (fate, random)) in (first + 1..).zip(&fates) {
                match fate {
                    0 => taken_out += 1,
                    _ => waiting.push(number),
                }
                // It comes before up to ten earlier ones.
                while waiting.len() > (*random % 10) as usize {
                    let place = (*random as usize / 10) % waiting.len();
                    numbers.heard(7, waiting.swap_remove(place));
                }
            }
            for number in waiting {
                numbers.heard(7, number);
            }
            prop_assert!(numbers.lost.get() <= taken_out);
            // What is missing at the end is lost when the node is gone.
            let last = first + fates.len() as u64;
            numbers.heard(7, last + 1);
            numbers.retain(&BTreeSet::new());
            prop_assert_eq!(numbers.lost.get(), taken_out);
        }
    }

    #[test]
    fn a_gap_longer_than_the_window_is_lost_at_once_but_for_what_may_still_come() {
        let numbers = HandedNumbers::of_life(0);
        numbers.heard(7, 1);
        numbers.heard(7, 10_001);
        assert_eq!(numbers.lost.get(), 9_999 - WINDOW);
        for late in 9_950..10_001 {
            numbers.heard(7, late);
        }
        assert_eq!(numbers.lost.get(), 9_999 - WINDOW, "the others are awaited");
        numbers.retain(&BTreeSet::from([7]));
        assert_eq!(numbers.lost.get(), 9_999 - WINDOW);
        numbers.retain(&BTreeSet::from([8]));
        assert_eq!(numbers.lost.get(), 9_999 - 51);
        assert_eq!(
            (numbers.next(7), numbers.next(7), numbers.next(8)),
            (1, 2, 1)
        );
    }

    #[test]
    fn a_number_is_lost_when_so_many_later_ones_have_come() {
        let numbers = HandedNumbers::of_life(0);
        numbers.heard(7, 1);
        for number in 3..=2 + WINDOW {
            numbers.heard(7, number);
        }
        assert_eq!(numbers.lost.get(), 0);
        numbers.heard(7, 3 + WINDOW);
        assert_eq!(numbers.lost.get(), 1);
        numbers.heard(7, 2);
        assert_eq!(numbers.lost.get(), 1, "it comes too late");
    }

    #[test]
    fn threads_that_hand_on_to_one_node_share_its_numbers() {
        let numbers = HandedNumbers::of_life(2);
        let take = || (0..500).map(|_| numbers.next(900)).collect::<Vec<_>>();
        let mut all = std::thread::scope(|scope| {
            let threads = [scope.spawn(take), scope.spawn(take)];
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("it counts"))
                .collect::<Vec<_>>()
        });
        all.sort_unstable();
        let first = 2 << LIFE_SHIFT;
        assert!(all.into_iter().eq(first + 1..=first + 1000));
        assert_eq!(numbers.next(899), first + 1);
    }

    #[test]
    fn a_new_life_begins_anew_and_what_the_one_before_has_said_does_not_come_any_more() {
        let (first, second) = (HandedNumbers::of_life(3), HandedNumbers::of_life(4));
        let numbers = HandedNumbers::of_life(0);
        let said = |of: &HandedNumbers| of.next(7);
        numbers.heard(1, said(&first));
        let late = said(&first);
        numbers.heard(1, said(&first));
        assert_eq!(numbers.lost.get(), 0);
        let missed = said(&second);
        numbers.heard(1, said(&second));
        assert_eq!(numbers.lost.get(), 1, "that of the first life");
        numbers.heard(1, late);
        numbers.heard(1, missed);
        numbers.retain(&BTreeSet::new());
        assert_eq!(numbers.lost.get(), 1, "all of the second life has come");
    }
}
