//! What a description of a runtime tells.

use busyhour::{
    bus::Event, keyed::Keyed, runtime::Runtime, serializer::ShutdownGroup, task::Overflow,
};
use std::{future::pending, time::Duration};

#[derive(Clone)]
struct Tick(u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}

fn settle(runtime: &Runtime) {
    runtime.simulation().unwrap().run_until_idle();
}

#[test]
fn tables_of_keys_and_groups_are_listed_as_long_as_they_live() {
    let runtime = Runtime::simulated(1);
    let group = ShutdownGroup::named("devices");
    let template = runtime.serializer("device").group(&group);
    let template = template.template().unwrap();
    let keyed = Keyed::<u32>::builder(&template, runtime.timers());
    let keyed = keyed.max_keys(10).build();
    for key in 0..3 {
        keyed.push(&key, |()| ()).unwrap();
    }
    let described = runtime.describe();
    assert_eq!(described.key_tables.len(), 1);
    assert_eq!(described.key_tables[0].keys, keyed.stats());
    assert_eq!(described.groups, [group.stats()]);
    let tree = described.to_string();
    for line in [
        "group devices: 3 serializers, 3 busy, 3 waiting, 0 run",
        "keys device: 3 of 10, 3 created, 0 evicted, 0 refused",
    ] {
        assert!(tree.contains(line), "{line} in {tree}");
    }
    let again = runtime.serializer("other").group(&group).build().unwrap();
    assert_eq!(runtime.describe().groups.len(), 1, "listed once");
    settle(&runtime);
    drop((keyed, template, group, again));
    let described = runtime.describe();
    assert!(described.key_tables.is_empty() && described.groups.is_empty());
}

#[test]
fn futures_are_counted_until_they_are_freed() {
    let runtime = Runtime::simulated(1);
    let calls = runtime.serializer("calls").capacity(1).build().unwrap();
    let sleeping = [
        runtime.pool().spawn(pending::<()>()),
        runtime.pool().spawn_as(Default::default(), pending::<()>()),
        calls.spawn(pending()),
    ];
    _ = runtime.pool().spawn(async {});
    settle(&runtime);
    assert_eq!(
        runtime.stats().pool.future_count,
        0,
        "nothing can wake these"
    );
    drop(sleeping);
    let timers = runtime.timers();
    let minute = Duration::from_secs(60);
    let slept = [
        runtime.pool().spawn(timers.sleep(minute)),
        runtime
            .pool()
            .spawn_as(Default::default(), timers.sleep(minute)),
        calls.spawn(timers.sleep(minute)),
    ];
    settle(&runtime);
    calls.push(|| ()).unwrap();
    assert!(
        calls.try_spawn(async {}).is_err(),
        "refused ones do not count"
    );
    assert!(runtime.describe().to_string().contains(", 3 futures,"));
    runtime.simulation().unwrap().run_for(2 * minute);
    assert_eq!(runtime.stats().pool.future_count, 0);
    drop(slept);
}

#[test]
fn who_keeps_a_serializer_is_told() {
    let runtime = Runtime::simulated(1);
    let orders = runtime.serializer("orders").build().unwrap();
    let nameless = runtime.pool().ephemeral();
    let timers = runtime.timers();
    let minute = Duration::from_secs(60);
    let sections = [&orders, &nameless].map(|it| it.spawn_exclusive(timers.sleep(minute)));
    orders.push(|| ()).unwrap();
    settle(&runtime);
    let described = runtime.describe();
    assert!(described.serializers[0].is_in_section);
    assert_eq!(described.held_without_name_count, 1);
    let tree = described.to_string();
    assert!(
        tree.contains("orders: 1 waiting") && tree.contains("; an exclusive section keeps it"),
        "{tree}"
    );
    assert!(tree.contains("1 serializers without a name are suspended or kept"));
    runtime.simulation().unwrap().run_for(minute);
    let described = runtime.describe();
    assert!(!described.serializers[0].is_in_section);
    assert_eq!(described.held_without_name_count, 0);
    for section in sections {
        assert_eq!(section.unwrap().wait(), Ok(()));
    }
}

#[test]
fn topics_timers_losses_and_suspensions_are_in_the_tree() {
    let runtime = Runtime::simulated(1);
    let calls = runtime.serializer("calls").capacity(1);
    let calls = calls.overflow(Overflow::DropOldest).build().unwrap();
    let topic = runtime.topic::<Tick>("ticks").cached().build();
    let heard = topic.subscribe().name("slow").on(&calls).start(|_| ());
    _ = topic.publish(Tick(1));
    let suspension = calls.suspend();
    (0..3).for_each(|_| calls.push(|| ()).unwrap());
    let expiry = runtime.timers().timer().label("expiry").on(&calls);
    expiry.after(Duration::from_secs(1)).run(|| ()).unwrap();
    let tree = runtime.describe().to_string();
    for line in [
        "; suspended; 0 rejected, 2 dropped, 0 panicked",
        "ticks: 1 keys, 1 published",
        "slow on calls: 1 of 1024 waiting",
        "expiry: 1 pending",
    ] {
        assert!(tree.contains(line), "{line} in {tree}");
    }
    drop((suspension, heard));
}
