//! The run queue of Linux 2.2: one list, which each pick scans completely, and
//! a walk over every task, asleep or not, when an epoch begins.

use busyhour::run_queue::{Class, Mode, Priority, QueueEnd, RealTimePriority, RunQueue};
use busyhour::run_queue::{SchedState, Thresholds, WorkerId};
use std::time::Duration;

/// One operation. An operation that does not fit the entity's state (such as
/// waking one that is awake) does nothing, so every sequence is valid.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    Wake(usize, usize, QueueEnd),
    /// Pick an entity and put it back.
    Turn(usize, u32),
    /// Put an entity back and pick the next in one call, as a busy worker does.
    Switch(usize, u32),
    Pick(usize),
    PutBack(usize, u32),
    Sleep(usize, u32),
    Remove(usize),
    SetClass(usize, Class),
    /// A running entity creates another one, in the place of one that sleeps.
    Fork(usize, usize, Class),
    /// An entity that sleeps ends, and one that nobody created takes its place.
    Replace(usize),
}

impl Operation {
    /// Makes an operation of 64 bits, whatever they are, for generators,
    /// shrinkers and fuzzers.
    pub fn decode(bits: u64, entity_count: usize) -> Self {
        let [kind, worker, value, other, ..] = bits.to_le_bytes();
        let entity = (bits >> 32) as usize % entity_count;
        let worker = usize::from(worker) % WORKERS;
        // Often less than a tick, sometimes many ticks.
        let ran_ns = u32::from(value).pow(2) % (5 * TICK_NS);
        match kind % 18 {
            0..4 => Self::Turn(worker, ran_ns),
            4..6 => Self::Switch(entity, ran_ns),
            6..8 => Self::Wake(entity, worker, QueueEnd::Back),
            8 => Self::Wake(entity, worker, QueueEnd::Front),
            9..11 => Self::Pick(worker),
            11..13 => Self::PutBack(entity, ran_ns),
            13 => Self::Sleep(entity, ran_ns),
            14 => Self::Remove(entity),
            15 => Self::SetClass(entity, class(value)),
            16 => Self::Fork(
                entity,
                (entity + usize::from(other)) % entity_count,
                class(value),
            ),
            _ => Self::Replace(entity),
        }
    }
}

const WORKERS: usize = 2;
const TICK_NS: u32 = 10_000;

fn class(value: u8) -> Class {
    match value {
        0..8 => Class::RealTime(RealTimePriority::new(value)),
        8..128 => Class::Normal(Priority::DEFAULT),
        128.. => Class::Normal(Priority::new(value % 41)),
    }
}

/// Applies each operation to the run queues and to the model, and compares
/// them.
pub struct Driver {
    queues: [RunQueue<usize>; WORKERS],
    sched_states: Vec<SchedState>,
    model: Naive,
    /// How often each mode was in use, and how often the mode changed.
    pub met: Met,
}

#[derive(Debug, Default)]
pub struct Met {
    pub picks: u64,
    pub epochs: u64,
    pub long: u64,
    pub turns_of_mode: u64,
    pub forks: u64,
}

impl Driver {
    pub fn new(entity_count: usize) -> Self {
        Self::with_thresholds(entity_count, Thresholds::DEFAULT)
    }

    pub fn with_thresholds(entity_count: usize, thresholds: Thresholds) -> Self {
        Self {
            queues: std::array::from_fn(|worker| {
                let tick = Duration::from_nanos(u64::from(TICK_NS));
                RunQueue::with_thresholds(WorkerId::new(worker as u16), tick, thresholds)
            }),
            sched_states: vec![SchedState::default(); entity_count],
            model: Naive::new(entity_count),
            met: Met::default(),
        }
    }

    pub fn apply(&mut self, operation: Operation) {
        let modes = self.modes();
        match operation {
            Operation::Wake(entity, worker, place) => self.wake(entity, worker, place),
            Operation::Turn(worker, ran_ns) => {
                if let Some(entity) = self.pick(worker) {
                    self.put_back(entity, ran_ns);
                }
            }
            Operation::Pick(worker) => drop(self.pick(worker)),
            Operation::PutBack(entity, ran_ns) => self.put_back(entity, ran_ns),
            Operation::Switch(entity, ran_ns) => self.switch(entity, ran_ns),
            Operation::Sleep(entity, ran_ns) => self.sleep(entity, ran_ns),
            Operation::Remove(entity) => self.remove(entity),
            Operation::SetClass(entity, class) => self.set_class(entity, class),
            Operation::Fork(parent, child, class) => self.fork(parent, child, class),
            Operation::Replace(entity) => self.replace(entity),
        }
        self.met.long += u64::from(modes.contains(&Mode::Bucketed));
        self.met.turns_of_mode += u64::from(modes != self.modes());
    }

    /// Compares all that can be seen from outside.
    pub fn check(&self) {
        for (worker, queue) in self.queues.iter().enumerate() {
            assert_eq!(queue.len(), self.model.lists[worker].len());
            assert_eq!(queue.epoch(), self.model.epochs[worker]);
        }
        for (entity, task) in self.model.tasks.iter().enumerate() {
            let mut sched_state = self.sched_states[entity].clone();
            if let Some(home) = task.home {
                self.queues[home].sync_epoch(&mut sched_state);
            }
            assert_eq!(i64::from(sched_state.counter()), task.counter, "{entity}");
        }
    }

    fn modes(&self) -> [Mode; WORKERS] {
        std::array::from_fn(|worker| self.queues[worker].mode())
    }

    fn wake(&mut self, entity: usize, worker: usize, place: QueueEnd) {
        let task = &mut self.model.tasks[entity];
        if task.state != State::Asleep {
            return;
        }
        let sched_state = &mut self.sched_states[entity];
        if let Some(home) = task.home {
            self.queues[home].sync_epoch(sched_state);
        }
        self.queues[worker].wake(entity, sched_state, place);
        self.model.wake(entity, worker, place);
    }

    fn pick(&mut self, worker: usize) -> Option<usize> {
        let epoch = self.queues[worker].epoch();
        let picked = self.queues[worker].pick();
        assert_eq!(picked, self.model.pick(worker));
        self.met.picks += u64::from(picked.is_some());
        self.met.epochs += u64::from(epoch != self.queues[worker].epoch());
        picked
    }

    fn put_back(&mut self, entity: usize, ran_ns: u32) {
        if let State::Running(worker) = self.model.tasks[entity].state {
            let ran = Duration::from_nanos(u64::from(ran_ns));
            self.queues[worker].put_back(entity, &mut self.sched_states[entity], ran);
            self.model.put_back(entity, worker, ran_ns);
        }
    }

    fn switch(&mut self, entity: usize, ran_ns: u32) {
        if let State::Running(worker) = self.model.tasks[entity].state {
            let ran = Duration::from_nanos(u64::from(ran_ns));
            let next = self.queues[worker].switch(entity, &mut self.sched_states[entity], ran);
            self.model.put_back(entity, worker, ran_ns);
            assert_eq!(Some(next), self.model.pick(worker));
            self.met.picks += 1;
        }
    }

    fn sleep(&mut self, entity: usize, ran_ns: u32) {
        if let State::Running(worker) = self.model.tasks[entity].state {
            let ran = Duration::from_nanos(u64::from(ran_ns));
            self.queues[worker].charge(&mut self.sched_states[entity], ran);
            self.model.charge(entity, worker, ran_ns);
            self.model.tasks[entity].state = State::Asleep;
        }
    }

    fn remove(&mut self, entity: usize) {
        let state = self.model.tasks[entity].state;
        for worker in 0..WORKERS {
            let is_here = state == State::Queued(worker);
            let before = self.sched_states[entity].clone();
            let removed = self.queues[worker].remove(&entity, &mut self.sched_states[entity]);
            assert_eq!(removed, is_here.then_some(entity));
            assert!(is_here || before == self.sched_states[entity]);
            if is_here {
                self.model.remove(entity, worker);
            }
        }
    }

    fn set_class(&mut self, entity: usize, class: Class) {
        let task = &self.model.tasks[entity];
        if !matches!(task.state, State::Queued(_)) {
            let sched_state = &mut self.sched_states[entity];
            if let Some(home) = task.home {
                self.queues[home].sync_epoch(sched_state);
            }
            sched_state.set_class(class);
            self.model.set_class(entity, class);
        }
    }
}

impl Driver {
    fn fork(&mut self, parent: usize, child: usize, class: Class) {
        let State::Running(worker) = self.model.tasks[parent].state else {
            return;
        };
        if self.model.tasks[child].state == State::Asleep {
            let parent_state = &mut self.sched_states[parent];
            self.sched_states[child] = self.queues[worker].fork(parent_state, class);
            self.model.fork(parent, child, class, worker);
            self.met.forks += 1;
        }
    }

    fn replace(&mut self, entity: usize) {
        if self.model.tasks[entity].state == State::Asleep {
            self.sched_states[entity] = SchedState::default();
            self.model.tasks[entity] = Task::new();
        }
    }
}

/// All tasks, and the list of runnable ones of each worker.
pub struct Naive {
    tasks: Vec<Task>,
    lists: [Vec<usize>; WORKERS],
    epochs: [u32; WORKERS],
    /// Entities without a parent that were queued in this epoch.
    newcomers: [u32; WORKERS],
}

#[derive(Clone)]
struct Task {
    counter: i64,
    priority: i64,
    real_time: Option<i64>,
    uncharged_ns: u32,
    /// The worker that it was last woken for; its epochs count for the task.
    home: Option<usize>,
    ran_on: Option<usize>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asleep,
    Queued(usize),
    Running(usize),
}

impl Task {
    fn new() -> Self {
        Self {
            counter: 20,
            priority: 20,
            real_time: None,
            uncharged_ns: 0,
            home: None,
            ran_on: None,
            state: State::Asleep,
        }
    }
}

impl Naive {
    fn new(task_count: usize) -> Self {
        Self {
            tasks: vec![Task::new(); task_count],
            lists: Default::default(),
            epochs: [0; WORKERS],
            newcomers: [0; WORKERS],
        }
    }

    fn wake(&mut self, entity: usize, worker: usize, place: QueueEnd) {
        match place {
            QueueEnd::Front => self.lists[worker].insert(0, entity),
            QueueEnd::Back => self.lists[worker].push(entity),
        }
        if self.tasks[entity].home.is_none() {
            self.tasks[entity].ran_on = Some(worker);
            self.newcomers[worker] += 1;
            if self.newcomers[worker] > RunQueue::<usize>::NEWCOMERS_PER_EPOCH {
                self.tasks[entity].counter = 0;
            }
        }
        self.tasks[entity].home = Some(worker);
        self.tasks[entity].state = State::Queued(worker);
    }

    fn pick(&mut self, worker: usize) -> Option<usize> {
        let (mut best, mut best_goodness) = (None, -1000);
        for (index, &entity) in self.lists[worker].iter().enumerate() {
            let goodness = self.goodness(entity, worker);
            if goodness > best_goodness {
                (best, best_goodness) = (Some(index), goodness);
            }
        }
        if best_goodness == 0 {
            self.begin_epoch(worker);
            return self.pick(worker);
        }
        let entity = self.lists[worker].remove(best?);
        self.tasks[entity].state = State::Running(worker);
        Some(entity)
    }

    fn goodness(&self, entity: usize, worker: usize) -> i64 {
        let task = &self.tasks[entity];
        match (task.real_time, task.counter) {
            (Some(priority), _) => 1000 + priority,
            (None, 0) => 0,
            (None, counter) if task.ran_on == Some(worker) => counter + task.priority + 15,
            (None, counter) => counter + task.priority,
        }
    }

    fn begin_epoch(&mut self, worker: usize) {
        self.epochs[worker] += 1;
        self.newcomers[worker] = 0;
        for task in &mut self.tasks {
            if task.home == Some(worker) {
                task.counter = task.counter / 2 + task.priority;
            }
        }
    }

    fn put_back(&mut self, entity: usize, worker: usize, ran_ns: u32) {
        self.charge(entity, worker, ran_ns);
        self.wake(entity, worker, QueueEnd::Back);
    }

    fn charge(&mut self, entity: usize, worker: usize, ran_ns: u32) {
        let task = &mut self.tasks[entity];
        task.ran_on = Some(worker);
        task.uncharged_ns += ran_ns.max(TICK_NS / 1000 + 1);
        while task.uncharged_ns >= TICK_NS {
            task.uncharged_ns -= TICK_NS;
            task.counter = (task.counter - 1).max(0);
        }
    }

    fn remove(&mut self, entity: usize, worker: usize) {
        self.lists[worker].retain(|&queued| queued != entity);
        self.tasks[entity].state = State::Asleep;
    }

    /// As `do_fork` of Linux 2.2, but that the odd tick stays with the parent
    /// instead of being lost.
    fn fork(&mut self, parent: usize, child: usize, class: Class, worker: usize) {
        self.tasks[child] = Task {
            home: Some(worker),
            ran_on: Some(worker),
            ..Task::new()
        };
        self.set_class(child, class);
        let counter = self.tasks[parent].counter;
        let given = (counter / 2).min(self.tasks[child].priority);
        self.tasks[parent].counter = counter - given;
        self.tasks[child].counter = given;
    }

    fn set_class(&mut self, entity: usize, class: Class) {
        let task = &mut self.tasks[entity];
        (task.priority, task.real_time) = match class {
            Class::Normal(priority) => (i64::from(priority.get()), None),
            Class::RealTime(priority) => (20, Some(i64::from(priority.get()))),
        };
    }
}
