use super::*;
use busyhour::{bus::Delivery, runtime::Runtime};

#[test]
fn many_who_begin_to_watch_a_registration_fill_no_lane() {
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 1);
    let alice = Name::new("sip:alice@example.com");
    let told: Arc<Mutex<u32>> = Arc::default();
    let ear = told.clone();
    let feed = core.registrations().subscribe().key(alice.clone());
    let _feed = feed.start(move |_| *ear.lock().unwrap() += 1);
    for _ in 0..2 {
        let device = core
            .devices()
            .open(&alice, Holder::NOBODY, &core)
            .expect("room");
        (0..1000).for_each(|_| assert!(core.show_registration(&alice)));
        assert_eq!(core.devices().lane(device.hash()).len(), 1);
        runtime.simulation().expect("virtual").run_until_idle();
    }
    assert_eq!(*told.lock().unwrap(), 2, "one for all who came before it");
}

#[test]
fn one_that_left_a_full_table_is_shown_as_having_no_contacts() {
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 1);
    let alice = Name::new("sip:alice@example.com");
    let device = core
        .devices()
        .open(&alice, Holder::NOBODY, &core)
        .expect("room");
    device.retire(&core, &mut device.lock());
    let bob = core
        .devices()
        .open("sip:bob@example.com", Holder::NOBODY, &core);
    assert!(bob.is_ok() && core.devices().open(&alice, Holder::NOBODY, &core).is_err());

    let told: Arc<Mutex<Vec<RegistrationState>>> = Arc::default();
    let ear = told.clone();
    let serializer = runtime.pool().ephemeral();
    let feed = core.registrations().subscribe().key(alice.clone());
    let _feed = feed.on(&serializer).start(move |delivery| {
        if let Delivery::Event(state, _) = delivery {
            ear.lock().unwrap().push((*state).clone());
        }
    });
    device.show();
    runtime.simulation().expect("virtual").run_until_idle();
    assert_eq!(*told.lock().unwrap(), [RegistrationState::none(&alice)]);
}
