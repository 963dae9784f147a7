//! What goes wrong reaches a subscriber of the crate `tracing`, with the names of what it happened
//! to. One test: a program has one subscriber.
#![cfg(all(feature = "tracing", feature = "runtime"))]

use busyhour::{bus::Event, clock::UnixTime, pool::TaskPool, runtime::Runtime};
use std::{
    fmt::{Debug, Write},
    panic,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::set_global_default,
};

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(Level, String)>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.insert_str(0, &format!("{value:?}")),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("busyhour")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("nothing opens a span");
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0
            .lock()
            .unwrap()
            .push((*event.metadata().level(), line.0));
        panic!("a panic of the subscriber ends no worker");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Told {
    fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[derive(Clone)]
struct Tick(u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}

#[test]
fn what_goes_wrong_is_told_with_its_names() {
    panic::set_hook(Box::new(|_| ()));
    let told = Told::default();
    set_global_default(told.clone()).unwrap();
    let clock = busyhour::clock::Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::simulated(1, clock.clone());

    let orders = pool.serializer("orders").watermarks(0, 2).build().unwrap();
    orders.push(|| panic!("no such order")).unwrap();
    orders.push(|| ()).unwrap();
    assert_eq!(
        told.take(),
        [(
            Level::WARN,
            "a queue is long pool=\"busyhour\" serializer=\"orders\" number=0 queued_len=2"
                .to_owned()
        )]
    );
    while pool.step() {}
    let [panicked, short] = &told.take()[..] else {
        panic!("two events")
    };
    assert_eq!(panicked.0, Level::ERROR);
    assert_eq!(
        panicked.1,
        "a task panicked pool=\"busyhour\" panic=\"no such order\""
    );
    assert_eq!(short.0, Level::INFO);

    let runtime = Runtime::simulated(1);
    let ticks = runtime.topic::<Tick>("ticks").cached().build();
    let slow = ticks.subscribe().name("slow").replay().capacity(1);
    let _slow = slow.on(runtime.pool()).start(|_| ());
    let simulation = runtime.simulation().unwrap();
    simulation.run_until_idle();
    for number in 0..3 {
        _ = ticks.publish(Tick(number));
    }
    simulation.run_until_idle();
    let lagged = told.take();
    assert!(!lagged.is_empty(), "two of three found no room");
    for (level, line) in lagged {
        assert_eq!(level, Level::WARN);
        let begin = "a subscription lagged topic=\"ticks\" subscription=\"slow\" lost=";
        assert!(line.starts_with(begin), "{line}");
    }

    let real = TaskPool::builder()
        .name("real")
        .workers(1)
        .clock(clock.clone());
    let real = real.build().unwrap();
    let advancing = clock.clone();
    let long = move || {
        advancing
            .as_virtual()
            .unwrap()
            .advance(Duration::from_millis(250))
    };
    real.push(long).unwrap();
    assert!(real.shutdown(Duration::MAX).is_clean());
    let line = "a turn took long pool=\"real\" worker=0 milliseconds=250";
    assert_eq!(told.take(), [(Level::WARN, line.to_owned())]);
}
