//! Serializers of one kind, alerts by group and in all, and finding by name.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use busyhour::{
    bus::Delivery,
    clock::{Clock, UnixTime},
    pool::{PushError, TaskPool},
    run_queue::RealTimePriority,
    runtime::Runtime,
    serializer::{AlertGroup, Serializer, SerializerBuildError, ShutdownGroup, Watermark},
    stats::SerializerStats,
    task::Overflow,
};

fn pool() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(UnixTime::default()))
}

fn fill(serializer: &Serializer, count: usize) {
    (0..count).for_each(|_| serializer.push(|| ()).unwrap());
}

fn run(pool: &TaskPool) {
    while pool.step() {}
}

#[test]
fn serializers_of_a_template_have_its_bound_each_for_itself() {
    let pool = pool();
    let template = pool.serializer("device").capacity(2).template().unwrap();
    let (one, other) = (template.ephemeral(), template.ephemeral());
    fill(&one, 2);
    fill(&other, 1);
    assert_eq!(one.push(|| ()), Err(PushError::Full));
    assert_eq!((one.len(), other.len()), (2, 1));
    let dropping = pool.serializer("newest").capacity(1);
    let dropping = dropping.overflow(Overflow::DropOldest).template().unwrap();
    let newest = dropping.ephemeral();
    fill(&newest, 3);
    assert_eq!(newest.len(), 1);
    let names = [one.name(), other.name(), newest.name(), template.name()];
    assert_eq!(names, ["", "", "", "device"]);
    let marked = pool
        .serializer("marked")
        .watermarks(0, 2)
        .template()
        .unwrap();
    let marked = marked.ephemeral();
    assert_eq!(
        (marked.name(), marked.stats().high_watermark),
        ("marked", Some(2))
    );
    assert!(pool.serializer_stats().is_empty(), "none is listed by name");
    assert!(pool.find_serializer("marked").is_none());
    assert!(
        pool.serializer("marked").build().is_ok(),
        "the name is not taken"
    );
}

#[test]
fn serializers_of_a_template_have_its_class() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let alarms = pool
        .serializer("alarm")
        .real_time(RealTimePriority::new(50));
    let (alarms, order) = (alarms.template().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let (plain, alarm) = (pool.ephemeral(), alarms.ephemeral());
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let (started, go) = (
        Arc::new(std::sync::Barrier::new(2)),
        Arc::new(std::sync::Barrier::new(2)),
    );
    let held = (Arc::clone(&started), Arc::clone(&go));
    pool.push(move || {
        held.0.wait();
        held.1.wait();
    })
    .unwrap();
    started.wait();
    plain.push(note("plain")).unwrap();
    alarm.push(note("alarm")).unwrap();
    go.wait();
    assert!(pool.shutdown(Duration::from_secs(10)).is_clean());
    assert_eq!(*order.lock().unwrap(), ["alarm", "plain"]);
}

#[test]
fn serializers_of_a_template_belong_to_its_group_which_sums_them_up() {
    let (clock, group) = (Clock::simulated(UnixTime::default()), ShutdownGroup::new());
    let pool = TaskPool::simulated(1, clock.clone());
    let template = pool.serializer("device").group(&group).template().unwrap();
    let devices: Vec<Serializer> = (0..5).map(|_| template.ephemeral()).collect();
    fill(&devices[1], 1);
    run(&pool);
    fill(&devices[2], 3);
    clock.as_virtual().unwrap().advance(Duration::from_secs(2));
    fill(&devices[3], 1);
    let stats = group.stats();
    assert_eq!((stats.serializer_count, stats.busy_count), (5, 2));
    assert_eq!((stats.queued_len, stats.longest_queued_len), (4, 3));
    assert_eq!((stats.queued_high_water, stats.processed), (3, 1));
    assert_eq!(stats.oldest_waiting_ns, 2_000_000_000);
    let report = group.shutdown(Duration::from_secs(1));
    assert_eq!((report.ran, report.is_clean()), (4, true));
    assert!(devices.iter().all(|device| device.push(|| ()).is_err()));
    drop(devices);
    assert_eq!(group.stats(), Default::default());
}

#[test]
fn a_shutdown_of_the_pool_finds_what_waits_in_serializers_of_a_template() {
    let pool = pool();
    let template = pool
        .serializer("device")
        .watermarks(0, 2)
        .template()
        .unwrap();
    let (device, other) = (template.ephemeral(), template.ephemeral());
    let suspension = device.suspend();
    fill(&device, 3);
    fill(&other, 1);
    let report = pool.shutdown(Duration::from_millis(1));
    assert_eq!((report.ran, report.not_run), (1, 3));
    assert_eq!(pool.alert_count(), 0, "what was dropped waits no more");
    drop(suspension);
}

#[test]
fn options_that_contradict_each_other_make_no_template() {
    let pool = pool();
    let empty = pool.serializer("").template();
    assert!(matches!(empty, Err(SerializerBuildError::NameEmpty)));
    let marks = pool.serializer("device").watermarks(3, 3).template();
    assert!(matches!(marks, Err(SerializerBuildError::Watermarks(_))));
}

#[test]
fn serializers_of_a_template_alert_under_its_name() {
    let runtime = Runtime::simulated(1);
    let devices = runtime
        .serializer("device")
        .watermarks(0, 2)
        .template()
        .unwrap();
    let (one, other) = (devices.ephemeral(), devices.ephemeral());
    fill(&one, 1);
    fill(&other, 1);
    assert!(
        runtime.queue_alerts().is_empty(),
        "each has a queue of its own"
    );
    fill(&other, 1);
    let alert = runtime.queue_alerts().find(|_| true).unwrap();
    assert_eq!((alert.mark, alert.queued_len), (Watermark::High, 2));
    assert_eq!(&*alert.serializer.name, "device");
}

#[test]
fn a_serializer_of_a_template_that_is_low_hides_no_other_that_is_high() {
    let (runtime, told) = (Runtime::simulated(1), Arc::new(Mutex::new(Vec::new())));
    let hook = Arc::clone(&told);
    let alerts = runtime.queue_alerts();
    let _subscription = alerts.subscribe().start(move |delivery| {
        if let Delivery::Event(alert, _) = delivery {
            hook.lock().unwrap().push(alert.mark);
        }
    });
    let devices = runtime.serializer("device").watermarks(0, 2);
    let devices = devices.template().unwrap();
    let (high, falls) = (devices.ephemeral(), devices.ephemeral());
    let suspension = high.suspend();
    fill(&high, 2);
    fill(&falls, 2);
    assert_eq!(alerts.len(), 2, "each under a key of its own");
    runtime.simulation().unwrap().run_until_idle();
    let cached = alerts.find(|_| true).unwrap();
    assert_eq!((cached.mark, alerts.len()), (Watermark::High, 1));
    drop(suspension);
    runtime.simulation().unwrap().run_until_idle();
    assert!(alerts.is_empty(), "only those that are high are kept");
    use Watermark::{High, Low};
    assert_eq!(*told.lock().unwrap(), [High, High, Low, Low]);
}

#[test]
fn alerts_that_came_before_the_topic_was_wanted_are_in_its_cache() {
    let runtime = Runtime::simulated(1);
    let marked = |name| runtime.serializer(name).watermarks(0, 2);
    let (high, low) = (marked("high").build(), marked("low").build());
    let (high, low) = (high.unwrap(), low.unwrap());
    let of_template = marked("device").template().unwrap().ephemeral();
    let _suspension = high.suspend();
    for serializer in [&low, &of_template, &high] {
        fill(serializer, 2);
    }
    runtime.simulation().unwrap().run_until_idle();
    assert!(runtime.stats().topics.is_empty(), "nobody wants the topic");

    let alerts = runtime.queue_alerts();
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    let _subscription = alerts.subscribe().replay().start(move |delivery| {
        if let Delivery::Event(alert, _) = delivery {
            let name = alert.serializer.to_string();
            hook.lock().unwrap().push((name, alert.mark));
        }
    });
    fill(&of_template, 2);
    let alert = |name: &str, mark| (name.to_owned(), mark);
    use Watermark::{High, Low};
    let mut told = told.lock().unwrap().clone();
    let last = told.pop();
    told.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(told, [alert("high", High), alert("low", Low)]);
    assert_eq!(last, Some(alert("device #1", High)));
    assert_eq!(runtime.stats().topics[0].name, "serializer.alerts");
}

#[test]
fn alerts_are_counted_by_group_and_in_all() {
    let (pool, group, empty) = (pool(), AlertGroup::new(), AlertGroup::new());
    let named = pool
        .serializer("named")
        .watermarks(1, 3)
        .alert_group(&group);
    let named = named.build().unwrap();
    let outside = pool.serializer("outside").watermarks(0, 1).build().unwrap();
    let template = pool
        .serializer("device")
        .watermarks(0, 2)
        .alert_group(&group);
    let template = template.template().unwrap();
    let (one, other) = (template.ephemeral(), template.ephemeral());
    let counts = || (group.alert_count(), pool.alert_count());
    assert_eq!(counts(), (0, 0));
    fill(&named, 2);
    assert_eq!(counts(), (0, 0));
    fill(&named, 2);
    assert_eq!(counts(), (1, 1), "counted once, however far it is above");
    fill(&outside, 1);
    assert_eq!(counts(), (1, 2));
    fill(&one, 2);
    fill(&other, 2);
    assert_eq!(counts(), (3, 4));
    run(&pool);
    assert_eq!(counts(), (0, 0));
    fill(&named, 3);
    assert_eq!(counts(), (1, 1));
    run(&pool);
    assert_eq!((counts(), empty.alert_count()), ((0, 0), 0));
}

#[test]
fn a_serializer_that_ends_while_it_is_high_is_no_longer_counted() {
    let (clock, alerts) = (Clock::simulated(UnixTime::default()), AlertGroup::new());
    let pool = TaskPool::simulated(1, clock);
    let (group, name) = (ShutdownGroup::new(), "ends");
    let build = || pool.serializer(name).watermarks(0, 2).alert_group(&alerts);
    let ends = build().group(&group).build().unwrap();
    let suspension = ends.suspend();
    fill(&ends, 2);
    assert_eq!((alerts.alert_count(), pool.alert_count()), (1, 1));
    assert_eq!(group.shutdown(Duration::from_micros(3)).not_run, 2);
    assert_eq!((alerts.alert_count(), pool.alert_count()), (0, 0));
    drop((suspension, ends));
    assert_eq!((alerts.alert_count(), pool.alert_count()), (0, 0));
}

/// The marks that a hook was told while `end` ended a serializer that was high.
fn told_until(end: impl FnOnce(&TaskPool, &ShutdownGroup)) -> Vec<Watermark> {
    let (pool, group, told) = (pool(), ShutdownGroup::new(), Arc::default());
    let hook = Arc::clone(&told);
    let ends = pool.serializer("ends").group(&group);
    let ends = ends.on_alert(1, 3, move |alert| {
        let hook: &Mutex<Vec<Watermark>> = &hook;
        hook.lock().unwrap().push(alert.mark);
    });
    let ends = ends.build().unwrap();
    let suspension = ends.suspend();
    fill(&ends, 4);
    end(&pool, &group);
    drop((suspension, ends));
    run(&pool);
    std::mem::take(&mut told.lock().unwrap())
}

#[test]
fn a_shutdown_that_empties_a_queue_tells_that_it_is_low() {
    let alternate = [Watermark::High, Watermark::Low];
    let by_group = told_until(|_, group| {
        assert_eq!(group.shutdown(Duration::from_micros(3)).not_run, 4);
    });
    assert_eq!(by_group, alternate);
    let by_pool = told_until(|pool, _| {
        assert_eq!(pool.shutdown(Duration::from_micros(3)).not_run, 4);
    });
    assert_eq!(by_pool, alternate);
}

fn stats_of(pool: &TaskPool, name: &str) -> SerializerStats {
    let mut all = pool.serializer_stats().into_iter();
    all.find(|stats| stats.name == name).unwrap()
}

#[test]
fn the_stats_show_the_watermarks_and_whether_they_are_crossed() {
    let pool = pool();
    let marked = pool.serializer("marked").watermarks(1, 3).build().unwrap();
    let _plain = pool.serializer("plain").build().unwrap();
    let marks = |name: &str| {
        let stats = stats_of(&pool, name);
        (stats.low_watermark, stats.high_watermark, stats.is_high)
    };
    assert_eq!(marks("plain"), (None, None, false));
    assert_eq!(marks("marked"), (Some(1), Some(3), false));
    fill(&marked, 3);
    assert!(marks("marked").2);
    assert!(pool.step());
    assert!(marks("marked").2 || marked.len() <= 1);
    run(&pool);
    assert!(!marks("marked").2);
}

#[test]
fn the_high_water_begins_again_when_it_is_reset() {
    let pool = pool();
    let calls = pool.serializer("calls").build().unwrap();
    fill(&calls, 5);
    run(&pool);
    fill(&calls, 2);
    assert_eq!(calls.reset_high_water(), 5);
    assert_eq!(calls.stats().queued_high_water, 2);
    fill(&calls, 1);
    assert_eq!(stats_of(&pool, "calls").queued_high_water, 3);
    run(&pool);
    pool.reset_high_waters();
    assert_eq!(stats_of(&pool, "calls").queued_high_water, 0);
    assert_eq!(calls.stats().processed, 8, "counters go on");
}

#[test]
fn a_serializer_is_found_by_its_name_while_it_lives() {
    let pool = pool();
    assert!(pool.find_serializer("calls").is_none());
    let calls = pool.serializer("calls").build().unwrap();
    let found = pool.find_serializer("calls").unwrap();
    assert_eq!(found, calls);
    assert!(pool.find_serializer("call").is_none());
    fill(&found, 1);
    drop(calls);
    assert_eq!(pool.find_serializer("calls").unwrap().len(), 1);
    drop(found);
    run(&pool);
    assert!(pool.find_serializer("calls").is_none());
}
