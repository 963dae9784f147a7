//! One life of a node, from its join to its end.

mod hand_over;

use crate::{
    Action, Failure, Grant, Life, Member, NodeView, Partition, PartitionView, Reply, Route, Timing,
    View, assignment,
};
use busyhour::clock::Instant;
use hand_over::HandOver;
use std::collections::BTreeMap;

/// What a node knows and holds: time and the database's answers go in, actions come out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    member: Member,
    timing: Timing,
    /// Until when the node may answer from memory, by its own clock.
    lease_end: Instant,
    /// Before the last view was asked for.
    view_read_at: Instant,
    beat: Beat,
    view: Option<View>,
    held: BTreeMap<Partition, Holding>,
    hand_over: HandOver,
    fencing: Fencing,
    drain: Drain,
    undrain: Undrain,
    has_ended: bool,
}

/// When the lease is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Beat {
    Due(Instant),
    /// It was asked for at this time, and is on its way.
    Asked(Instant),
}

/// Lives of others that are to be ended. The view is read again when all of them are answered, so that what
/// nodes had that died together is taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Fencing {
    unanswered: usize,
    has_ended_one: bool,
}

/// How far a node is in leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Drain {
    No,
    /// The database must be told.
    Wanted,
    Asked,
    /// The database knows it.
    Marked,
}

/// Whether the database knows that the node can serve, which has joined as one that drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Undrain {
    /// It need not be told: it knows, the node is not ready, or an operator wants it drained.
    No,
    /// It must be told, unless the next view shows that it knows.
    Wanted,
    Asked,
}

/// A partition that the node was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Holding {
    epoch: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Loading,
    Serving,
    Closing,
    /// Nothing is on its way any more, and nobody to give it to is known yet.
    Settled,
    Giving,
    /// It is unknown whether it was given, so a new epoch of our own must be asked for.
    Unsure,
    /// The database has refused to give it: the next view tells whether it is still ours.
    Refused,
}

impl Node {
    /// A member that has just joined; `asked_at` is from before it asked for that.
    pub fn new(member: Member, timing: Timing, asked_at: Instant) -> Self {
        Self {
            member,
            timing,
            lease_end: asked_at + (timing.lease - timing.margin),
            view_read_at: asked_at,
            beat: Beat::Due(asked_at),
            view: None,
            held: BTreeMap::new(),
            hand_over: HandOver::new(),
            fencing: Fencing::default(),
            drain: Drain::No,
            undrain: Undrain::No,
            has_ended: false,
        }
    }

    /// Which life of which node it is.
    pub fn member(&self) -> Member {
        self.member
    }

    /// What the last beat has read.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Who answers for a partition.
    pub fn route(&self, now: Instant, partition: Partition) -> Route {
        match self.held.get(&partition) {
            Some(holding) if holding.phase == Phase::Serving && self.may_answer(now) => {
                Route::Here(holding.grant(partition))
            }
            Some(_) => Route::Wait,
            None => self.elsewhere(partition),
        }
    }

    /// Whether the node's lease holds, by its own clock.
    pub fn may_answer(&self, now: Instant) -> bool {
        now < self.lease_end && !self.has_ended
    }

    /// Until when that is so.
    pub fn lease_end(&self) -> Instant {
        self.lease_end
    }

    /// The database had the [view](Self::view) as it is then, or later.
    pub fn view_read_at(&self) -> Instant {
        self.view_read_at
    }

    /// How many partitions the node holds, whatever their phase.
    pub fn held_len(&self) -> usize {
        self.held.len()
    }

    /// When [`on_time`](Self::on_time) has something to do; `None` while only an answer is awaited.
    pub fn next_due(&self) -> Option<Instant> {
        if self.has_ended {
            return None;
        }
        [self.beat_due(), self.hand_over.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    fn beat_due(&self) -> Option<Instant> {
        match self.beat {
            Beat::Due(at) => Some(at),
            Beat::Asked(_) => None,
        }
    }

    /// Beats, and closes the next of what others should have, if that is due.
    pub fn on_time(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.has_ended {
            return actions;
        }
        if self.beat_due().is_some_and(|due| due <= now) {
            self.beat = Beat::Asked(now);
            actions.push(Action::Beat);
        }
        if self.hand_over.end_rest(now) {
            actions.extend(self.balance(now));
        }
        actions
    }

    /// Another node said that there is something new: the next beat is due at once.
    pub fn on_announced(&mut self, now: Instant) {
        if matches!(self.beat, Beat::Due(_)) {
            self.beat = Beat::Due(now);
        }
    }

    /// The program can serve partitions: from now on the node is assigned its part. That is said until a view shows that the
    /// database knows it.
    pub fn on_ready(&mut self) -> Option<Action> {
        if self.drain != Drain::No || self.has_ended {
            return None;
        }
        self.undrain = Undrain::Wanted;
        self.undrain()
    }

    /// An operator has had the node drained: it gives everything away and goes on living, and does not say any more that it is
    /// ready.
    pub fn on_drained(&mut self) {
        self.undrain = Undrain::No;
    }

    /// The node is to leave: it gives everything away.
    pub fn on_leave_wanted(&mut self, now: Instant) {
        self.undrain = Undrain::No;
        if self.drain == Drain::No {
            self.drain = Drain::Wanted;
            self.on_announced(now);
        }
    }

    /// The database has answered at `now`.
    pub fn on_reply(&mut self, now: Instant, reply: Reply) -> Vec<Action> {
        if self.has_ended {
            return Vec::new();
        }
        match reply {
            Reply::Beaten(Ok(view)) => self.on_view(now, view),
            Reply::Taken(Ok(granted)) => {
                granted.into_iter().map(|grant| self.hold(grant)).collect()
            }
            Reply::Given(asked, to, Ok(given)) => self.on_given(now, &asked, to, &given),
            Reply::Given(asked, _, Err(Failure::Away)) => self.on_unknown(&asked),
            Reply::Ended(Ok(is_ended)) => self.on_fenced(now, is_ended),
            Reply::Ended(Err(Failure::Away)) => self.on_fenced(now, false),
            Reply::Drained(Ok(())) => {
                self.drain = Drain::Marked;
                self.on_announced(now);
                Vec::new()
            }
            Reply::Drained(Err(Failure::Away)) => {
                self.drain = Drain::Wanted;
                Vec::new()
            }
            Reply::Undrained(Ok(())) => self.on_undrained(now),
            Reply::Undrained(Err(Failure::Away)) => {
                self.say_again();
                Vec::new()
            }
            Reply::Beaten(Err(Failure::Away)) => {
                self.beat = Beat::Due(now + self.timing.beat);
                Vec::new()
            }
            Reply::Taken(Err(Failure::Away)) => Vec::new(),
            Reply::Beaten(Err(Failure::LifeOver))
            | Reply::Ended(Err(Failure::LifeOver))
            | Reply::Taken(Err(Failure::LifeOver))
            | Reply::Given(_, _, Err(Failure::LifeOver))
            | Reply::Drained(Err(Failure::LifeOver))
            | Reply::Undrained(Err(Failure::LifeOver)) => self.end(),
        }
    }

    /// What was committed to a partition has been read.
    pub fn on_loaded(&mut self, grant: Grant) -> Vec<Action> {
        match self.advance(grant, Phase::Loading, Phase::Serving) {
            true => vec![Action::SayServed(grant)],
            false => Vec::new(),
        }
    }

    /// Others serve these partitions: what they were given has arrived, and more may be given, after a rest.
    pub fn on_served(
        &mut self,
        now: Instant,
        served: impl IntoIterator<Item = Grant>,
    ) -> Vec<Action> {
        match self.hand_over.note_served(served) && !self.has_ended {
            true => self.balance(now),
            false => Vec::new(),
        }
    }

    /// No change of these partitions, which were to be closed, is on its way any more. They are given
    /// away together.
    pub fn on_settled(&mut self, grants: impl IntoIterator<Item = Grant>) -> Vec<Action> {
        for grant in grants {
            self.advance(grant, Phase::Closing, Phase::Settled);
        }
        let mut actions = self.give_settled();
        actions.extend(self.go_on_leaving());
        actions
    }

    fn on_view(&mut self, now: Instant, view: View) -> Vec<Action> {
        if let Beat::Asked(asked_at) = self.beat {
            self.lease_end = asked_at + (self.timing.lease - self.timing.margin);
            self.view_read_at = asked_at;
            self.beat = Beat::Due(now.max(asked_at + self.timing.beat));
        }
        self.hand_over.give_up_after(now, self.timing.beat);
        let mut actions = self.reconcile(&view);
        actions.extend(self.fence(&view));
        self.view = Some(view);
        actions.extend(self.undrain());
        actions.extend(self.balance(now));
        actions.extend(self.give_settled());
        actions.extend(self.go_on_leaving());
        actions
    }

    /// Ends the lives whose leases have ended, unless that is asked for already.
    fn fence(&mut self, view: &View) -> Vec<Action> {
        if self.fencing.unanswered > 0 {
            return Vec::new();
        }
        let fences: Vec<Action> = late_nodes(view).map(Action::Fence).collect();
        self.fencing.unanswered = fences.len();
        fences
    }

    fn on_fenced(&mut self, now: Instant, is_ended: bool) -> Vec<Action> {
        let fencing = &mut self.fencing;
        fencing.unanswered = fencing.unanswered.saturating_sub(1);
        fencing.has_ended_one |= is_ended;
        if fencing.unanswered == 0 && std::mem::take(&mut fencing.has_ended_one) {
            self.on_announced(now);
        }
        Vec::new()
    }

    /// Holds what the view says is ours, and lets go of what is not.
    fn reconcile(&mut self, view: &View) -> Vec<Action> {
        let mut actions = Vec::new();
        for (partition, found) in view.iter() {
            let grant = Grant {
                partition,
                epoch: found.epoch,
            };
            let is_ours = view.owner(partition) == Some(self.member);
            let held = self.held.get(&partition).map(|holding| holding.epoch);
            if held == Some(found.epoch) {
                if is_ours {
                    self.advance(grant, Phase::Refused, Phase::Serving);
                }
                continue;
            }
            // A lower epoch shows that the database has lost what it had granted.
            if held.is_some() {
                actions.extend(self.let_go(partition));
            }
            if is_ours {
                actions.push(self.hold(grant));
            }
        }
        actions
    }

    /// Takes orphans that are assigned to this node, and closes what is assigned to others.
    fn balance(&mut self, now: Instant) -> Vec<Action> {
        let Some(view) = &self.view else {
            return Vec::new();
        };
        let wanted = assignment(view);
        let orphans = self.orphans(view, &wanted);
        let mut actions = Vec::new();
        if !orphans.is_empty() {
            actions.push(Action::Take(orphans));
        }
        actions.extend(self.close(now, &wanted));
        actions
    }

    fn orphans(&self, view: &View, wanted: &[Option<Member>]) -> Vec<Grant> {
        let is_to_be_taken = |(partition, _): &(Partition, PartitionView)| {
            wanted[partition.index()] == Some(self.member)
                && view.owner(*partition).is_none()
                && !self.held.contains_key(partition)
        };
        let orphans = view.iter().filter(is_to_be_taken);
        let seen = orphans.map(|(partition, found)| Grant {
            partition,
            epoch: found.epoch,
        });
        seen.collect()
    }

    /// Closes a few of those that others should have, so that each is away for as long as a few take. A node that leaves does not wait
    /// until its next owners serve them, and closes all: the end of its life makes orphans of what nobody can be given.
    fn close(&mut self, now: Instant, wanted: &[Option<Member>]) -> Option<Action> {
        let is_moving =
            |holding: &&Holding| matches!(holding.phase, Phase::Closing | Phase::Giving);
        let (member, is_leaving) = (self.member, self.drain == Drain::Marked);
        let moving = self.held.values().filter(is_moving).count();
        self.hand_over.update(now, moving);
        let room = match is_leaving {
            true => LEAVING_MAX.saturating_sub(moving),
            false => self.hand_over.room(),
        };
        let is_foreign = |partition: &Partition| match wanted[partition.index()] {
            Some(owner) => owner != member,
            None => is_leaving,
        };
        let closing = (self.held.iter_mut())
            .filter(|(partition, holding)| holding.phase == Phase::Serving && is_foreign(partition))
            .take(room);
        let close = |(partition, holding): (&Partition, &mut Holding)| {
            holding.phase = Phase::Closing;
            holding.grant(*partition)
        };
        let closing: Vec<Grant> = closing.map(close).collect();
        if closing.is_empty() {
            self.hand_over.is_done();
            return None;
        }
        self.hand_over.begin(now);
        Some(Action::Close(closing))
    }

    /// Gives away what is settled, each member's part at once, or serves it again if it should stay.
    fn give_settled(&mut self) -> Vec<Action> {
        let Some(view) = &self.view else {
            return Vec::new();
        };
        let wanted = assignment(view);
        let mut given: BTreeMap<Member, Vec<Grant>> = BTreeMap::new();
        for (partition, holding) in &mut self.held {
            let to = match (holding.phase, wanted[partition.index()]) {
                (Phase::Settled, Some(to)) if to == self.member => {
                    holding.phase = Phase::Serving;
                    continue;
                }
                (Phase::Settled, Some(to)) => to,
                (Phase::Unsure, _) => self.member,
                _ => continue,
            };
            holding.phase = Phase::Giving;
            let grants = given.entry(to).or_default();
            grants.push(holding.grant(*partition));
        }
        let give = |(to, grants)| Action::Give(grants, to);
        given.into_iter().map(give).collect()
    }

    fn go_on_leaving(&mut self) -> Vec<Action> {
        let is_settled = |holding: &Holding| holding.phase == Phase::Settled;
        match self.drain {
            Drain::Wanted => {
                self.drain = Drain::Asked;
                vec![Action::Drain]
            }
            Drain::Marked if self.held.values().all(is_settled) => {
                self.has_ended = true;
                vec![Action::Leave, Action::Announce, Action::End]
            }
            _ => Vec::new(),
        }
    }

    /// An answer is no proof: a database that fails over may lose what it has answered, and then the next view shows that.
    fn undrain(&mut self) -> Option<Action> {
        // The first view is from after its join.
        if self.undrain != Undrain::Wanted || self.view.is_none() {
            return None;
        }
        let is_draining = self.own_view().is_some_and(|own| own.is_draining);
        self.undrain = match is_draining {
            true => Undrain::Asked,
            false => Undrain::No,
        };
        is_draining.then_some(Action::Undrain)
    }

    fn on_undrained(&mut self, now: Instant) -> Vec<Action> {
        if self.undrain != Undrain::Asked {
            return Vec::new();
        }
        self.undrain = Undrain::Wanted;
        if let Some(own) = self.own_view() {
            own.is_draining = false;
        }
        let mut actions = vec![Action::Announce];
        actions.extend(self.balance(now));
        actions
    }

    /// Unless an operator, or the program's end, has come between.
    fn say_again(&mut self) {
        if self.undrain == Undrain::Asked {
            self.undrain = Undrain::Wanted;
        }
    }

    fn own_view(&mut self) -> Option<&mut NodeView> {
        let nodes = self.view.as_mut().map(|view| view.nodes.iter_mut());
        let own = self.member;
        nodes?.find(|node| node.member == own)
    }

    fn on_given(
        &mut self,
        now: Instant,
        asked: &[Grant],
        to: Member,
        given: &[Grant],
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for grant in asked {
            if !self.is_giving(*grant) {
                continue;
            }
            if given.contains(grant) {
                actions.extend(self.gave(now, *grant, to));
            } else {
                self.advance(*grant, Phase::Giving, Phase::Refused);
                self.on_announced(now);
            }
        }
        if !actions.is_empty() {
            actions.push(Action::Announce);
            actions.extend(self.balance(now));
            actions.extend(self.go_on_leaving());
        }
        actions
    }

    /// A partition has another owner, or a new epoch of our own.
    fn gave(&mut self, now: Instant, grant: Grant, to: Member) -> Option<Action> {
        if to == self.member {
            let holding = self.held.get_mut(&grant.partition)?;
            (holding.epoch, holding.phase) = (grant.epoch + 1, Phase::Serving);
            return None;
        }
        let known = self.view.as_mut();
        if let Some(known) = known.and_then(|view| view.partitions.get_mut(grant.partition.index()))
        {
            (known.owner, known.epoch) = (Some(to), grant.epoch + 1);
        }
        (self.hand_over).note_given(now, grant.partition, grant.epoch + 1);
        self.held.remove(&grant.partition);
        Some(Action::Unload(grant))
    }

    fn is_giving(&self, grant: Grant) -> bool {
        let holding = self.held.get(&grant.partition);
        holding.is_some_and(|it| it.epoch == grant.epoch && it.phase == Phase::Giving)
    }

    fn on_unknown(&mut self, asked: &[Grant]) -> Vec<Action> {
        for grant in asked {
            self.advance(*grant, Phase::Giving, Phase::Unsure);
        }
        Vec::new()
    }

    fn hold(&mut self, grant: Grant) -> Action {
        let holding = Holding {
            epoch: grant.epoch,
            phase: Phase::Loading,
        };
        self.held.insert(grant.partition, holding);
        Action::Load(grant)
    }

    fn let_go(&mut self, partition: Partition) -> Option<Action> {
        let holding = self.held.remove(&partition)?;
        Some(Action::Unload(holding.grant(partition)))
    }

    /// Whether it was in that phase.
    fn advance(&mut self, grant: Grant, from: Phase, to: Phase) -> bool {
        let holding = self.held.get_mut(&grant.partition);
        let is_it = |holding: &&mut Holding| holding.epoch == grant.epoch && holding.phase == from;
        holding.filter(is_it).is_some_and(|holding| {
            holding.phase = to;
            true
        })
    }

    fn elsewhere(&self, partition: Partition) -> Route {
        let owner = self.view.as_ref().and_then(|view| view.owner(partition));
        match owner {
            Some(owner) if owner != self.member => Route::At(owner),
            _ => Route::Wait,
        }
    }

    fn end(&mut self) -> Vec<Action> {
        self.has_ended = true;
        self.held.clear();
        vec![Action::End]
    }
}

impl Holding {
    fn grant(&self, partition: Partition) -> Grant {
        Grant {
            partition,
            epoch: self.epoch,
        }
    }
}

fn late_nodes(view: &View) -> impl Iterator<Item = Member> {
    let is_late = |node: &&crate::NodeView| node.life == Life::Late;
    view.nodes.iter().filter(is_late).map(|node| node.member)
}

/// How many partitions a node that leaves closes at a time: those that nobody serves meanwhile.
const LEAVING_MAX: usize = 32;
