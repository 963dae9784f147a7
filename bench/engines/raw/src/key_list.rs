//! Timers as a list of deadlines that is put in order when they expire: what an expiry costs
//! whose adds pay nothing for the order.

use kit::{Args, timers};

pub fn run(args: &Args) {
    timers::run(args, KeyList::default);
}

/// No slot is used again until all are empty, and no handle is checked.
#[derive(Default)]
struct KeyList {
    timers: Vec<Timer>,
    sorted: Vec<Timer>,
    places: Vec<u32>,
    live: u64,
}

#[derive(Clone, Copy, Default)]
struct Timer {
    deadline_ns: u64,
    id: u64,
}

impl timers::Timers for KeyList {
    type Handle = usize;

    fn add(&mut self, deadline_ns: u64, id: u64) -> usize {
        self.live += 1;
        self.timers.push(Timer { deadline_ns, id });
        self.timers.len() - 1
    }

    fn cancel(&mut self, handle: usize) -> bool {
        self.timers[handle].id = CANCELLED;
        self.live -= 1;
        if self.live == 0 {
            self.timers.clear();
        }
        true
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        self.scatter();
        sort_nearly_sorted(&mut self.sorted);
        for timer in &self.sorted {
            on_expire(timer.deadline_ns, timer.id);
        }
        self.timers.clear();
        self.live = 0;
    }

    fn len(&self) -> u64 {
        self.live
    }
}

impl KeyList {
    /// Puts each timer near its place by its deadline alone: the cheapest order there is for
    /// deadlines that are spread evenly, as they are here.
    fn scatter(&mut self) {
        self.timers.retain(|timer| timer.id != CANCELLED);
        let deadlines = self.timers.iter().map(|timer| timer.deadline_ns);
        let widen = |(first, last): (u64, u64), at: u64| (first.min(at), last.max(at));
        let (first_ns, last_ns) = deadlines.fold((u64::MAX, 0), widen);
        let parts = self.timers.len().next_power_of_two();
        let span_bits = u64::BITS - last_ns.saturating_sub(first_ns).leading_zeros();
        let shift = span_bits.saturating_sub(parts.ilog2());
        let part = |timer: &Timer| ((timer.deadline_ns - first_ns) >> shift) as usize & (parts - 1);
        self.places.clear();
        self.places.resize(parts, 0);
        let places = &mut self.places[..parts];
        self.timers
            .iter()
            .for_each(|timer| places[part(timer)] += 1);
        let mut begin = 0;
        for place in &mut *places {
            (*place, begin) = (begin, begin + *place);
        }
        self.sorted.resize(self.timers.len(), Timer::default());
        for timer in &self.timers {
            let place = &mut places[part(timer)];
            self.sorted[*place as usize] = *timer;
            *place += 1;
        }
    }
}

fn sort_nearly_sorted(timers: &mut [Timer]) {
    for index in 1..timers.len() {
        let timer = timers[index];
        let mut at = index;
        while at > 0 && timers[at - 1].deadline_ns > timer.deadline_ns {
            timers[at] = timers[at - 1];
            at -= 1;
        }
        timers[at] = timer;
    }
}

const CANCELLED: u64 = u64::MAX;
