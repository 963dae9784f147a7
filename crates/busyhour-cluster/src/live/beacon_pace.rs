//! How often a node says how many changes it has made.

use crate::{Life, Member, View};

/// A node says it with each beat while there is news, and seldom otherwise: each beacon wakes every node of the cluster.
///
/// There is news after a change, after the connection has changed, and when the view shows other lives than before. The next
/// four beats say it, so that it is heard if the broker loses one of them; after that, one beat of five does, so that whoever
/// has missed all of them hears it then.
#[derive(Debug, Default)]
pub(super) struct BeaconPace {
    number: u64,
    lives: Vec<Member>,
    /// Beats since there was news.
    beats: u64,
}

impl BeaconPace {
    /// So many beats say the same.
    const REPEATED: u64 = 4;
    /// One beat of so many says what has been said as often.
    const SELDOM: u64 = 5;

    /// With each beat: whether a beacon with this number is due, while these are the nodes.
    pub(super) fn is_due(&mut self, number: u64, view: &View) -> bool {
        let lives = || {
            let nodes = view.nodes.iter().filter(|node| node.life != Life::Over);
            nodes.map(|node| node.member)
        };
        if number != self.number || !lives().eq(self.lives.iter().copied()) {
            self.number = number;
            self.lives = lives().collect();
            self.begin_anew();
        }
        self.beats += 1;
        self.beats <= Self::REPEATED || self.beats.is_multiple_of(Self::SELDOM)
    }

    /// There is other news.
    pub(super) fn begin_anew(&mut self) {
        self.beats = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeNumber, NodeView};

    fn view(lives: &[(u16, u64, Life)]) -> View {
        let nodes = lives.iter().map(|(node, epoch, life)| NodeView {
            member: Member {
                node: NodeNumber(*node),
                epoch: *epoch,
            },
            name: node.to_string().into(),
            life: *life,
            is_draining: false,
        });
        View {
            nodes: nodes.collect(),
            partitions: Vec::new(),
        }
    }

    fn due(pace: &mut BeaconPace, number: u64, view: &View, beats: u64) -> Vec<u64> {
        (1..=beats).filter(|_| pace.is_due(number, view)).collect()
    }

    #[test]
    fn what_is_new_is_said_with_the_next_beats_and_seldom_after_that() {
        let (mut pace, alone) = (BeaconPace::default(), view(&[(1, 1, Life::Current)]));
        let seldom = [1, 2, 3, 4, 5, 10, 15];
        assert_eq!(due(&mut pace, 0, &alone, 17), seldom);
        assert_eq!(due(&mut pace, 1, &alone, 17), seldom, "a change");
        for (lives, why) in [
            (
                vec![(1, 1, Life::Current), (2, 1, Life::Current)],
                "a node joins",
            ),
            (
                vec![(1, 1, Life::Current), (2, 2, Life::Current)],
                "another life",
            ),
            (
                vec![(1, 1, Life::Current), (2, 2, Life::Over)],
                "a life is over",
            ),
        ] {
            assert_eq!(due(&mut pace, 1, &view(&lives), 17), seldom, "{why}");
        }
        let is_over = view(&[(1, 1, Life::Current), (2, 2, Life::Over)]);
        assert_eq!(due(&mut pace, 1, &is_over, 4), [3], "nothing is new");
        pace.begin_anew();
        assert_eq!(due(&mut pace, 1, &is_over, 17), seldom, "the connection");
    }

    /// Never two beats in a row without news are further apart than this.
    #[test]
    fn what_nobody_has_heard_is_said_again_within_five_beats() {
        let (mut pace, alone) = (BeaconPace::default(), view(&[(1, 1, Life::Current)]));
        let said = due(&mut pace, 0, &alone, 1000);
        assert!(
            said.windows(2)
                .all(|two| two[1] - two[0] <= BeaconPace::SELDOM)
        );
    }
}
