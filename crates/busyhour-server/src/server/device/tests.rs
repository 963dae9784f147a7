use super::{removal::RemovalError, *};
use crate::server::{
    core::Core,
    sip::transactions::{Begun, Repeated},
};
use busyhour::{bus::Delivery, runtime::Runtime};
use busyhour_registrar::{EndedBinding, watch::RegistrationState};
use busyhour_sip::Transport;
use busyhour_store::{
    AccountListener, CallRecordLimits, CallRecordQuery, CallRecordRow, Completion, Contents,
    DiskBehaviour, EndListener, MemoryStore, Refused, SimulatedDisk, Store, StoreError, StoreStats,
};
use std::{net::SocketAddr, sync::atomic::AtomicUsize, time::Duration};

#[test]
fn many_new_watchers_of_a_registration_do_not_fill_the_queue() {
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 1);
    let alice = Name::new("sip:alice@example.com");
    let told: Arc<Mutex<u32>> = Arc::default();
    let ear = told.clone();
    let feed = core
        .devices
        .topics
        .registrations
        .subscribe()
        .key(alice.clone());
    let _feed = feed.start(move |_| *ear.lock().unwrap() += 1);
    for _ in 0..2 {
        let device = core.devices.open(&alice, Holder::NOBODY).expect("room");
        (0..1000).for_each(|_| assert!(core.devices.show_registration(&alice)));
        assert_eq!(core.devices.table.strand_of(&device).len(), 1);
        runtime.simulation().expect("virtual").run_until_idle();
    }
    assert_eq!(*told.lock().unwrap(), 2, "one for all who came before it");
}

#[test]
fn a_device_removed_from_a_full_table_is_shown_without_contacts() {
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 1);
    let alice = Name::new("sip:alice@example.com");
    let device = core.devices.open(&alice, Holder::NOBODY).expect("room");
    device.retire(&core.devices, &mut device.lock());
    let bob = core.devices.open("sip:bob@example.com", Holder::NOBODY);
    assert!(bob.is_ok() && core.devices.open(&alice, Holder::NOBODY).is_err());

    let told: Arc<Mutex<Vec<RegistrationState>>> = Arc::default();
    let ear = told.clone();
    let serializer = runtime.pool().ephemeral();
    let feed = core
        .devices
        .topics
        .registrations
        .subscribe()
        .key(alice.clone());
    let _feed = feed.on(&serializer).start(move |delivery| {
        if let Delivery::Event(state, _) = delivery {
            ear.lock().unwrap().push((*state).clone());
        }
    });
    device.publish_full();
    runtime.simulation().expect("virtual").run_until_idle();
    assert_eq!(*told.lock().unwrap(), [RegistrationState::none(&alice)]);
}

#[test]
fn a_device_that_was_made_for_a_request_without_a_place_leaves_the_table() {
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 10);
    let open = || {
        core.devices
            .open("sip:alice@example.com", Holder::NOBODY)
            .expect("room")
    };
    let device = open();
    assert!(device.push_publish_full(&core.devices));
    device.leave_if_idle(&core.devices);
    assert_eq!(core.devices.table.len(), 0);
    runtime.simulation().expect("virtual").run_until_idle();
    assert_eq!(core.devices.table.len(), 0);
}

#[test]
fn a_long_registration_beyond_its_share_leaves_no_device() {
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 10);
    let pad = "x".repeat(3000);
    let text = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
         From: <sip:alice@example.com>;tag=1\r\nTo: <sip:alice@example.com>\r\n\
         Call-ID: 1\r\nCSeq: 1 REGISTER\r\nContact: <sip:alice@192.0.2.7>\r\n\
         User-Agent: {pad}\r\nContent-Length: 0\r\n\r\n"
    );
    let message = Message::parse(text.as_bytes()).expect("sound");
    let address = |port| SocketAddr::from(([192, 0, 2, 7], port));
    let flow = Flow::udp(address(5060), address(5060));
    let holder = core.holder(flow, Some("alice"));
    // Others of the source use up what it may have.
    let begin = |port| {
        let key = core.responder.transactions().key(&message, address(port));
        core.responder.transactions().begin(
            key,
            core.clock.now(),
            holder,
            text.len(),
            Repeated::Same,
        )
    };
    let begun = (6000..).map(begin).find(|begun| *begun != Begun::New);
    assert!(matches!(begun, Some(Begun::Refused(_))), "{begun:?}");

    let datagram = runtime.buffers().copy_from(text.as_bytes()).expect("room");
    core.receive(flow, &datagram);
    runtime.simulation().expect("virtual").run_until_idle();
    assert!(core.stats().traffic.refused_share > 0);
    assert_eq!(core.devices.table.len(), 0);
}

/// A third of the commits fail: those removals say so and leave every contact.
#[test]
fn a_removal_that_the_store_does_not_take_leaves_all_contacts() {
    let runtime = Runtime::simulated(1);
    let behaviour = DiskBehaviour {
        failures_per_mille: 333,
        ..DiskBehaviour::default()
    };
    let disk = SimulatedDisk::new(1, behaviour);
    let store = Box::new(disk.open(runtime.clock().clone()));
    let core = Core::simulated_with(&runtime, 10, store);
    let settle = || {
        runtime.simulation().expect("virtual").run_until_idle();
        while let Some(due) = disk.next_due() {
            let clock = runtime.clock().as_virtual().expect("virtual");
            clock.advance_to(due);
            disk.run_due();
            runtime.simulation().expect("virtual").run_until_idle();
        }
    };
    let aor = "sip:alice@example.com";
    let address = SocketAddr::from(([192, 0, 2, 7], 5060));
    let mut cseq = 0;
    let mut register = || {
        cseq += 1;
        let text = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{cseq}\r\n\
             From: <{aor}>;tag=1\r\nTo: <{aor}>\r\nCall-ID: 1\r\nCSeq: {cseq} REGISTER\r\n\
             Contact: <sip:alice@192.0.2.7>, <sip:alice@192.0.2.8>\r\nContent-Length: 0\r\n\r\n"
        );
        let datagram = runtime.buffers().copy_from(text.as_bytes()).expect("room");
        core.receive(Flow::udp(address, address), &datagram);
        settle();
    };
    let bound = || core.devices.bindings_at(aor).bindings.len();
    let (mut removed, mut failed) = (0, 0);
    for _ in 0..60 {
        while bound() < 2 {
            register();
        }
        let told: Arc<Mutex<Vec<Result<u64, RemovalError>>>> = Arc::default();
        let ear = told.clone();
        let listener = Arc::new(move |outcome| ear.lock().unwrap().push(outcome));
        core.devices
            .remove_bindings(aor, Some("sip:alice@192.0.2.8"), listener);
        settle();
        match (told.lock().unwrap().as_slice(), bound()) {
            ([Ok(1)], 1) => removed += 1,
            ([Err(RemovalError::Store)], 2) => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        removed > 10 && failed > 10,
        "{removed} removed, {failed} failed"
    );

    // A closed store takes nothing.
    while bound() < 2 {
        register();
    }
    core.devices.persistence.store().close(Duration::ZERO);
    let told: Arc<Mutex<Vec<Result<u64, RemovalError>>>> = Arc::default();
    let ear = told.clone();
    let listener = Arc::new(move |outcome| ear.lock().unwrap().push(outcome));
    core.devices.remove_bindings(aor, None, listener);
    settle();
    assert_eq!(*told.lock().unwrap(), [Err(RemovalError::Store)]);
    assert_eq!(bound(), 2);
}

/// With a node of a cluster more connections end at once than a queue of the server has room for.
#[test]
fn however_many_connections_end_at_once_each_end_is_treated() {
    const ENDS: u32 = 70_000;
    let runtime = Runtime::simulated(1);
    let core = Core::simulated(&runtime, 10);
    let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"].map(|it| it.parse().unwrap());
    let flow = |connection| Flow {
        transport: Transport::Tcp,
        connection,
        node: 2,
        ..Flow::udp(local, remote)
    };
    let (aor, last) = ("sip:alice@example.com", flow(ENDS));
    let text = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP {remote};branch=z9hG4bK1\r\n\
         From: <{aor}>;tag=1\r\nTo: <{aor}>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:alice@{remote};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
    );
    let datagram = runtime.buffers().copy_from(text.as_bytes()).expect("room");
    core.receive(last, &datagram);
    let simulation = runtime.simulation().expect("virtual");
    simulation.run_until_idle();
    let device = core.devices.table.find(aor).expect("it is registered");
    let is_reached = || device.contact_over(last, core.clock.now()).is_some();
    assert!(is_reached());
    for connection in 1..ENDS {
        let now = core.clock.now();
        (core.devices.flows).enter((flow(connection), None), &device, now);
    }
    for connection in 1..=ENDS {
        core.devices.flow_failed(flow(connection));
    }
    simulation.run_until_idle();
    assert!(!is_reached(), "the last one was refused");
    assert_eq!(core.devices.flows.len(), 0);
}

/// Takes everything, and panics at the fifth end of a contact.
struct FragileStore {
    inner: MemoryStore,
    ends: AtomicUsize,
}

impl Store for FragileStore {
    fn load(&self) -> Result<Contents, StoreError> {
        self.inner.load()
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        self.inner.commit(changes, done)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn purge(&self, ended: &[EndedBinding]) {
        let before = self.ends.fetch_add(ended.len(), Ordering::Relaxed);
        assert_ne!(before, 4, "as this test wants it");
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        self.inner.call_records(query)
    }

    fn remove_old_call_records(&self, limits: CallRecordLimits) {
        self.inner.remove_old_call_records(limits);
    }

    fn watch_accounts(&self, revision: u64, listener: AccountListener) {
        self.inner.watch_accounts(revision, listener);
    }

    fn watch_end(&self, listener: EndListener) {
        self.inner.watch_end(listener);
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn close(&self, deadline: Duration) -> bool {
        self.inner.close(deadline)
    }
}

#[test]
fn a_panic_over_one_device_whose_contacts_end_leaves_the_others_their_ends() {
    let runtime = Runtime::simulated(1);
    let store = Box::new(FragileStore {
        inner: MemoryStore::new(),
        ends: AtomicUsize::new(0),
    });
    let core = Core::simulated_with(&runtime, 10, store);
    let table = &core.devices.table;
    let aors = (0..).map(|number| format!("sip:user{number}@example.com"));
    let of_one_shard = aors.filter(|aor| table.shard_of(aor) == 7).take(10);
    let address = SocketAddr::from(([192, 0, 2, 7], 5060));
    let simulation = runtime.simulation().expect("virtual");
    for (number, aor) in of_one_shard.enumerate() {
        let text = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{number}\r\n\
             From: <{aor}>;tag=1\r\nTo: <{aor}>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:a@192.0.2.7>\r\nContent-Length: 0\r\n\r\n"
        );
        let datagram = runtime.buffers().copy_from(text.as_bytes()).expect("room");
        core.receive(Flow::udp(address, address), &datagram);
        simulation.run_until_idle();
    }
    assert_eq!(table.len(), 10);
    simulation.run_for(Duration::from_secs(2 * 3600));
    assert_eq!(table.len(), 1, "all but the one that panicked");
}
