//! Futures that keep a serializer for themselves until they end.

use std::{
    collections::VecDeque,
    future::pending,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    keyed::Keyed,
    pool::{JoinError, JoinHandle, PushError, TaskPool, WaitError},
    serializer::{Serializer, ShutdownGroup},
    timer::Timers,
};
use proptest::prelude::*;
use tokio::sync::oneshot;

const LONG: Duration = Duration::from_secs(30);

fn simulated() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(UnixTime::default()))
}

fn run(pool: &TaskPool) {
    while pool.step() {}
}

fn real() -> TaskPool {
    TaskPool::builder().workers(2).build().unwrap()
}

/// A section that says when it begins and ends, and ends when the sender does
/// something.
fn section(
    serializer: &Serializer,
    log: &Sender<&'static str>,
) -> (JoinHandle<()>, oneshot::Sender<()>) {
    let (ends, ended) = oneshot::channel();
    let log = log.clone();
    let handle = serializer.spawn_exclusive(async move {
        log.send("begins").unwrap();
        ended.await.unwrap();
        log.send("ends").unwrap();
    });
    (handle.unwrap(), ends)
}

fn say(serializer: &Serializer, log: &Sender<&'static str>, what: &'static str) {
    let log = log.clone();
    serializer.push(move || log.send(what).unwrap()).unwrap();
}

fn said(log: &Receiver<&'static str>) -> Vec<&'static str> {
    log.try_iter().collect()
}

#[test]
fn other_tasks_wait_until_the_section_has_ended() {
    let pool = simulated();
    let calls = pool.serializer("calls").build().unwrap();
    let (log, heard) = mpsc::channel();
    say(&calls, &log, "before");
    let (handle, ends) = section(&calls, &log);
    say(&calls, &log, "behind");
    run(&pool);
    assert_eq!(said(&heard), ["before", "begins"]);
    assert!(!calls.is_idle());
    assert_eq!(calls.len(), 1);
    ends.send(()).unwrap();
    run(&pool);
    assert_eq!(said(&heard), ["ends", "behind"]);
    assert_eq!(handle.wait(), Ok(()));
    assert!(calls.is_idle());
}

#[test]
fn a_section_that_never_suspends_is_one_task() {
    let pool = simulated();
    let calls = pool.serializer("calls").build().unwrap();
    let handle = calls.spawn_exclusive(async { 7 }).unwrap();
    run(&pool);
    assert_eq!(handle.wait(), Ok(7));
    assert_eq!(calls.stats().processed, 1);
}

#[test]
fn abort_panic_and_the_loss_of_the_last_waker_end_it() {
    let pool = simulated();
    let calls = pool.ephemeral();
    let (log, heard) = mpsc::channel();

    let (aborted, _ends) = section(&calls, &log);
    say(&calls, &log, "after the abort");
    run(&pool);
    aborted.abort();
    run(&pool);
    assert_eq!(said(&heard), ["begins", "after the abort"]);
    assert_eq!(aborted.wait(), Err(JoinError::Aborted));

    let (resumes, resumed) = oneshot::channel::<()>();
    let panics = async move {
        resumed.await.unwrap();
        resume_unwind(Box::new("on purpose"));
    };
    let panicked = calls.spawn_exclusive(panics).unwrap();
    say(&calls, &log, "after the panic");
    run(&pool);
    resumes.send(()).unwrap();
    run(&pool);
    let payload = panicked.wait().unwrap_err().into_panic().unwrap();
    assert_eq!(payload.downcast_ref(), Some(&"on purpose"));

    let forgotten = calls.spawn_exclusive(pending::<()>()).unwrap();
    say(&calls, &log, "after the loss");
    run(&pool);
    assert_eq!(said(&heard), ["after the panic", "after the loss"]);
    assert_eq!(forgotten.wait(), Err(JoinError::Dropped));
}

#[test]
fn an_abort_after_the_wake_ends_it_too() {
    let pool = simulated();
    let calls = pool.serializer("calls").build().unwrap();
    let (log, heard) = mpsc::channel();
    let (handle, ends) = section(&calls, &log);
    say(&calls, &log, "behind");
    run(&pool);
    ends.send(()).unwrap();
    handle.abort();
    run(&pool);
    assert_eq!(said(&heard), ["begins", "behind"]);
    assert_eq!(handle.wait(), Err(JoinError::Aborted));
    let stats = pool.stats();
    assert_eq!(stats.queued_len, 0, "{stats:?}");
}

#[test]
fn what_a_section_captured_is_dropped_before_the_next_task() {
    let pool = simulated();
    let calls = pool.serializer("calls").build().unwrap();
    let held = Arc::new(());
    let in_section = Arc::clone(&held);
    let (ends, ended) = oneshot::channel::<()>();
    let handle = calls.spawn_exclusive(async move {
        let _in_section = in_section;
        ended.await.unwrap();
    });
    let count = calls.spawn_exclusive(async move { Arc::strong_count(&held) });
    run(&pool);
    ends.send(()).unwrap();
    run(&pool);
    assert_eq!(handle.unwrap().wait(), Ok(()));
    assert_eq!(count.unwrap().wait(), Ok(1));
}

#[test]
fn waiting_for_itself_is_an_error() {
    let pool = simulated();
    let calls = pool.serializer("calls").capacity(1).build().unwrap();
    let same = calls.clone();
    let section = calls.spawn_exclusive(async move {
        let plain = same.spawn(async { 1 }).await;
        assert!(matches!(plain, Err(JoinError::Deadlock(_))), "{plain:?}");
        let inner = same.spawn_exclusive(async { 1 });
        assert_eq!(inner.err(), Some(PushError::Full), "the poll above waits");
        let waits = same.push_wait(|| 1);
        assert!(matches!(waits, Err(WaitError::Deadlock(_))), "{waits:?}");
        let room = same.push_async(|| ()).await;
        assert_eq!(room, Err(PushError::Full));
    });
    run(&pool);
    assert_eq!(section.unwrap().wait(), Ok(()));
}

#[test]
fn sections_that_wait_for_each_other_are_told_so() {
    let pool = simulated();
    let [one, other] = ["one", "other"].map(|name| pool.serializer(name).build().unwrap());
    let crossing = |own: &Serializer, awaited: &Serializer| {
        let awaited = awaited.clone();
        let section = own.spawn_exclusive(async move { awaited.spawn(async { 7 }).await });
        section.unwrap()
    };
    let handles = [crossing(&one, &other), crossing(&other, &one)];
    run(&pool);
    let results = handles.map(|handle| handle.wait().unwrap());
    let deadlocks = results.iter().filter(|result| result.is_err()).count();
    assert_eq!(deadlocks, 1, "{results:?}");
    assert!(results.contains(&Ok(7)), "{results:?}");
    let Some(Err(JoinError::Deadlock(cycle))) = results.iter().find(|result| result.is_err())
    else {
        panic!("{results:?}");
    };
    let cycle = cycle.to_string();
    assert!(cycle.contains("one") && cycle.contains("other"), "{cycle}");
}

#[test]
fn a_wait_that_has_ended_closes_no_cycle() {
    let pool = simulated();
    let [one, other] = ["one", "other"].map(|name| pool.serializer(name).build().unwrap());
    let kept = Arc::new(Mutex::new(None));
    let (first, target) = (Arc::clone(&kept), other.clone());
    // It polls the handle once and ends: from then on it waits for nothing.
    let gives_up = one.spawn_exclusive(async move {
        let mut handle = target.spawn(pending::<()>());
        let polled = std::future::poll_fn(|context| {
            let polled = std::pin::Pin::new(&mut handle).poll(context);
            std::task::Poll::Ready(polled.is_pending())
        });
        assert!(polled.await);
        *first.lock().unwrap() = Some(handle);
    });
    run(&pool);
    assert_eq!(gives_up.unwrap().wait(), Ok(()));
    let target = one.clone();
    let waits = other.spawn_exclusive(async move { target.spawn(async { 7 }).await });
    run(&pool);
    assert_eq!(waits.unwrap().wait(), Ok(Ok(7)));
    drop(kept);
}

#[test]
fn a_full_queue_refuses_a_section() {
    let pool = simulated();
    let calls = pool.serializer("calls").capacity(2).build().unwrap();
    let (log, _heard) = mpsc::channel();
    let (_first, _ends) = section(&calls, &log);
    run(&pool);
    let waiting = [(); 2].map(|()| calls.spawn_exclusive(async {}).unwrap());
    let refused = calls.spawn_exclusive(async {});
    assert_eq!(refused.err(), Some(PushError::Full));
    assert_eq!(calls.stats().rejected, 1);
    drop(waiting);
}

#[test]
fn a_suspended_serializer_does_not_poll_its_section() {
    let pool = simulated();
    let calls = pool.ephemeral();
    let (log, heard) = mpsc::channel();
    let (handle, ends) = section(&calls, &log);
    run(&pool);
    let suspension = calls.suspend();
    ends.send(()).unwrap();
    run(&pool);
    assert_eq!(said(&heard), ["begins"]);
    assert_eq!(calls.stats().suspend_count, 1);
    drop(suspension);
    run(&pool);
    assert_eq!(said(&heard), ["ends"]);
    assert_eq!(handle.wait(), Ok(()));
}

#[test]
fn a_shutdown_waits_for_a_section_that_another_thread_ends() {
    for name in [Some("calls"), None] {
        let pool = real();
        let calls = match name {
            Some(name) => pool.serializer(name).build().unwrap(),
            None => pool.ephemeral(),
        };
        let (log, heard) = mpsc::channel();
        let (handle, ends) = section(&calls, &log);
        say(&calls, &log, "behind");
        assert_eq!(heard.recv(), Ok("begins"));
        let shutting_down = pool.clone();
        let shutdown = thread::spawn(move || shutting_down.shutdown(LONG));
        while pool.push(|| ()).is_ok() {
            thread::yield_now();
        }
        ends.send(()).unwrap();
        let report = shutdown.join().unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(said(&heard), ["ends", "behind"]);
        assert_eq!(handle.wait(), Ok(()));
    }
}

#[test]
fn a_shutdown_ends_a_section_that_waits_too_long() {
    for name in [Some("calls"), None] {
        let pool = real();
        let calls = match name {
            Some(name) => pool.serializer(name).build().unwrap(),
            None => pool.ephemeral(),
        };
        let (log, heard) = mpsc::channel();
        let (handle, ends) = section(&calls, &log);
        say(&calls, &log, "behind");
        assert_eq!(heard.recv(), Ok("begins"));
        let report = pool.shutdown(Duration::from_millis(1));
        assert_eq!(
            (report.not_run, report.unfinished_workers),
            (1, 0),
            "{report:?}"
        );
        assert_eq!(handle.wait(), Err(JoinError::Dropped));
        assert!(ends.is_closed(), "the future is dropped");
        assert!(said(&heard).is_empty());
    }
}

#[test]
fn a_shutdown_inside_a_section_does_not_wait_for_it() {
    let pool = real();
    let calls = pool.serializer("calls").build().unwrap();
    let (resumes, resumed) = oneshot::channel::<()>();
    let same = pool.clone();
    let section = calls.spawn_exclusive(async move {
        resumed.await.unwrap();
        same.shutdown(LONG)
    });
    resumes.send(()).unwrap();
    let report = section.unwrap().wait().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_group_waits_for_its_sections_and_ends_them() {
    let pool = real();
    let (group, late) = (ShutdownGroup::new(), ShutdownGroup::new());
    let calls = pool.serializer("calls").group(&group).build().unwrap();
    let (log, heard) = mpsc::channel();
    let (handle, ends) = section(&calls, &log);
    assert_eq!(heard.recv(), Ok("begins"));
    let closing = thread::spawn(move || group.shutdown(LONG));
    while calls.push(|| ()).is_ok() {
        thread::yield_now();
    }
    ends.send(()).unwrap();
    assert!(closing.join().unwrap().is_clean());
    assert_eq!(handle.wait(), Ok(()));

    let slow = pool.serializer("slow").group(&late).build().unwrap();
    let (handle, _ends) = section(&slow, &log);
    say(&slow, &log, "behind");
    let report = late.shutdown(Duration::from_millis(1));
    assert_eq!(handle.wait(), Err(JoinError::Dropped));
    assert!(report.not_run >= 1, "{report:?}");
}

#[test]
fn the_state_is_there_after_each_end() {
    let pool = simulated();
    let count = pool.serializer("count").build().unwrap().with_state(1);
    let (ends, ended) = oneshot::channel::<()>();
    let adds = count.spawn_exclusive(move |count| {
        Box::pin(async move {
            *count += 1;
            ended.await.unwrap();
            *count *= 10;
            *count
        })
    });
    run(&pool);
    ends.send(()).unwrap();
    run(&pool);
    assert_eq!(adds.unwrap().wait(), Ok(20));
    let (_never, aborted) = oneshot::channel::<()>();
    let adds = count.spawn_exclusive(move |count| {
        Box::pin(async move {
            *count += 1;
            aborted.await.unwrap();
        })
    });
    let adds = adds.unwrap();
    run(&pool);
    adds.abort();
    let panics = count.spawn_exclusive(|count| {
        Box::pin(async move {
            *count += 1;
            resume_unwind(Box::new("on purpose"));
        })
    });
    run(&pool);
    assert!(
        panics
            .unwrap()
            .wait()
            .is_err_and(|error: JoinError| error.is_panic())
    );
    assert_eq!(count.push_wait(|count| *count), Ok(22));
}

#[test]
fn a_key_is_not_evicted_during_a_section() {
    let clock = Clock::simulated(UnixTime::default());
    let pool = TaskPool::simulated(1, clock.clone());
    let timers = Timers::builder().clock(clock).build();
    let template = pool.serializer("key").template().unwrap();
    let (evicted, states) = mpsc::channel();
    let keyed = Keyed::<u32>::builder(&template, &timers)
        .with_state(|key| vec![*key])
        .on_evict(move |_, state| evicted.send(state).unwrap())
        .build();
    let (ends, ended) = oneshot::channel::<()>();
    let section = keyed.spawn_exclusive(&7, move |state| {
        Box::pin(async move {
            ended.await.unwrap();
            state.push(8);
        })
    });
    run(&pool);
    assert!(keyed.evict(&7));
    keyed.push(&7, |state| state.push(9)).unwrap();
    run(&pool);
    assert!(states.try_recv().is_err() && keyed.contains(&7));
    ends.send(()).unwrap();
    run(&pool);
    assert_eq!(section.unwrap().wait(), Ok(()));
    assert_eq!(states.try_recv(), Ok(vec![7, 8]));
    assert_eq!(keyed.push_wait(&7, |state| state.clone()), Ok(vec![7, 9]));
}

/// What may happen to one serializer. Sections are known by their number.
#[derive(Debug, Clone)]
enum Operation {
    Push,
    /// A section that waits this often.
    Section(usize),
    Wake(usize),
    Abort(usize),
    Suspend,
    Resume,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => Just(Operation::Push),
        3 => (0..4_usize).prop_map(Operation::Section),
        6 => any::<usize>().prop_map(Operation::Wake),
        1 => any::<usize>().prop_map(Operation::Abort),
        1 => Just(Operation::Suspend),
        1 => Just(Operation::Resume),
    ]
}

/// What happened: the number of the task or section, and how far it came.
type Trace = Arc<Mutex<Vec<(usize, usize)>>>;

/// The model: who waits in order, and the section that has begun.
#[derive(Default)]
struct Model {
    waiting: VecDeque<Item>,
    begun: Option<Item>,
    is_suspended: bool,
    trace: Vec<(usize, usize)>,
}

#[derive(Debug, Clone)]
struct Item {
    number: usize,
    steps_left: usize,
    steps: usize,
    wakes: usize,
    is_aborted: bool,
}

impl Model {
    fn run(&mut self) {
        while !self.is_suspended {
            let Some(mut item) = self.begun.take().or_else(|| self.waiting.pop_front()) else {
                return;
            };
            while !item.is_aborted {
                if item.steps == 0 {
                    self.trace.push((item.number, 0));
                    item.steps = 1;
                } else if item.steps_left == 0 {
                    break;
                } else if item.wakes > 0 {
                    item.wakes -= 1;
                    item.steps_left -= 1;
                    self.trace.push((item.number, item.steps));
                    item.steps += 1;
                } else {
                    self.begun = Some(item);
                    return;
                }
            }
        }
    }

    /// One that has begun is dropped at once, a waiting one in its turn.
    fn abort(&mut self, number: usize) {
        self.begun.take_if(|item| item.number == number);
        if let Some(item) = self.find(number) {
            item.is_aborted = true;
        }
    }

    fn find(&mut self, number: usize) -> Option<&mut Item> {
        let mut all = self.begun.iter_mut().chain(&mut self.waiting);
        all.find(|item| item.number == number)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sections_and_tasks_run_as_in_the_model(
        operations in proptest::collection::vec(operation(), 0..80)
    ) {
        let pool = simulated();
        let calls = pool.ephemeral();
        let (trace, mut model) = (Trace::default(), Model::default());
        let (mut sections, mut suspensions, mut number) = (Vec::new(), Vec::new(), 0);
        for operation in operations {
            match operation {
                Operation::Push => {
                    let traced = Arc::clone(&trace);
                    calls.push(move || traced.lock().unwrap().push((number, 0))).unwrap();
                    model.waiting.push_back(Item { number, steps_left: 0, steps: 0, wakes: 0, is_aborted: false });
                    number += 1;
                }
                Operation::Section(waits) => {
                    let (wakes, mut woken) = tokio::sync::mpsc::unbounded_channel::<()>();
                    let traced = Arc::clone(&trace);
                    let section = calls.spawn_exclusive(async move {
                        traced.lock().unwrap().push((number, 0));
                        for step in 1..=waits {
                            woken.recv().await.unwrap();
                            traced.lock().unwrap().push((number, step));
                        }
                    });
                    sections.push((number, wakes, section.unwrap()));
                    model.waiting.push_back(Item { number, steps_left: waits, steps: 0, wakes: 0, is_aborted: false });
                    number += 1;
                }
                Operation::Wake(index) if !sections.is_empty() => {
                    let (number, wakes, _) = &sections[index % sections.len()];
                    _ = wakes.send(());
                    if let Some(item) = model.find(*number) {
                        item.wakes += 1;
                    }
                }
                Operation::Abort(index) if !sections.is_empty() => {
                    let (number, _, handle) = &sections[index % sections.len()];
                    handle.abort();
                    model.abort(*number);
                }
                Operation::Suspend => {
                    suspensions.push(calls.suspend());
                    model.is_suspended = true;
                }
                Operation::Resume => {
                    suspensions.pop();
                    model.is_suspended = !suspensions.is_empty();
                }
                Operation::Wake(_) | Operation::Abort(_) => {}
            }
            run(&pool);
            model.run();
            prop_assert_eq!(&*trace.lock().unwrap(), &model.trace);
            let is_idle = model.waiting.is_empty() && model.begun.is_none();
            prop_assert_eq!(calls.is_idle(), is_idle);
        }
    }
}
