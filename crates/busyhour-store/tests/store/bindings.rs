//! Bindings that are read while a server serves are those that are read at once.

use crate::sample::{commit, put};
use crate::support::random::Random;
use busyhour::clock::{Clock, UnixTime};
use busyhour_registrar::BindingId;
use busyhour_store::{
    BindingReader, BindingRows, DiskBehaviour, SimulatedDisk, SqliteOptions, SqliteStore, Store,
    StoredBinding,
};
use std::sync::Arc;

/// More than one portion of each way to read them.
const ROWS: u64 = 700;

/// `store` has these rows, and reads them later.
fn are_read_later(store: &dyn Store) {
    let ids: Vec<_> = (1..=ROWS).map(|number| number * number).collect();
    let puts = ids.iter().map(|id| put(*id, 1)).collect();
    commit(store, puts).unwrap();
    let all = store.load().unwrap();
    assert_eq!(all.bindings.len() as u64, ROWS);
    let (contents, reader) = store.load_lazily().unwrap();
    let reader: Arc<dyn BindingReader> = reader.expect("they are many");
    assert!(contents.bindings.is_empty());
    assert_eq!(contents.highest_id(), all.highest_id());
    let hash = |aor: &str| aor.bytes().map(u64::from).sum::<u64>();
    let mut keys = reader.keys(&hash).unwrap();
    keys.sort_unstable_by_key(|(_, id)| *id);
    let expected = all.bindings.iter().map(|row| (hash(&row.aor), row.id));
    assert!(keys.into_iter().eq(expected));
    assert_eq!(in_order(&*reader), all.bindings);
    let mut random = Random::new();
    for _ in 0..50 {
        let wanted: Vec<_> = (0..random.below(5))
            .map(|_| all.bindings[random.below(ROWS as usize)].clone())
            .collect();
        let ids: Vec<_> = wanted.iter().map(|row| row.id).collect();
        assert_eq!(reader.read(&ids).unwrap().bindings, wanted);
    }
    assert_eq!(reader.read(&[BindingId(2)]).unwrap().bindings, []);
}

fn in_order(reader: &dyn BindingReader) -> Vec<StoredBinding> {
    let mut all: Vec<StoredBinding> = Vec::new();
    loop {
        let last = all.last().map(|row| row.id);
        let rows = reader.read_behind(last, 64).unwrap();
        let Some(last_id) = rows.last_id else {
            return all;
        };
        let rows = rows.all().unwrap();
        assert!(rows.len() <= 64 && rows.last().map(|row| row.id) == Some(last_id));
        all.extend(rows);
    }
}

#[test]
fn a_database_reads_many_bindings_later_and_few_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = |eager_bindings_max| {
        SqliteStore::open(SqliteOptions {
            eager_bindings_max,
            ..SqliteOptions::new(folder.path().join("busyhour.db"))
        })
    };
    let store = open(ROWS as usize - 1).unwrap();
    are_read_later(&store);
    drop(store);
    let (contents, reader) = open(ROWS as usize).unwrap().load_lazily().unwrap();
    assert!(reader.is_none());
    assert_eq!(contents.bindings.len() as u64, ROWS);
}

/// Who waits for the end of the store is told why, if there is one.
#[test]
fn rows_that_make_no_sense_are_told_apart_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busyhour.db");
    let options = SqliteOptions {
        eager_bindings_max: 0,
        ..SqliteOptions::new(&path)
    };
    let store = SqliteStore::open(options.clone()).unwrap();
    commit(&store, vec![put(6, 1), put(7, 1), put(8, 1)]).unwrap();
    drop(store);
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute("UPDATE contact SET remote = 'nowhere' WHERE id = 7", [])
        .unwrap();
    drop(other);
    let store = SqliteStore::open(options).unwrap();
    let (told, end) = std::sync::mpsc::channel();
    store.watch_end(Box::new(move |error| told.send(error.to_string()).unwrap()));
    let (_, reader) = store.load_lazily().unwrap();
    let reader = reader.unwrap();
    let behind = |after: u64, count| reader.read_behind(Some(BindingId(after)), count).unwrap();
    let ids = |rows: &BindingRows| rows.bindings.iter().map(|row| row.id.0).collect::<Vec<_>>();
    let all = behind(0, 9);
    assert_eq!((ids(&all), all.last_id), (vec![6, 8], Some(BindingId(8))));
    assert_eq!(
        ids(&reader.read(&[8, 7, 6].map(BindingId)).unwrap()),
        [8, 6]
    );
    // Who goes on behind it does not read it again.
    let alone = behind(6, 1);
    assert_eq!((ids(&alone), alone.last_id), (vec![], Some(BindingId(7))));
    let (id, error) = &alone.unreadable[0];
    assert_eq!(*id, BindingId(7));
    reader.give_up(error);
    let reason = end.recv().unwrap();
    assert!(
        reason.contains("contact row 7") && reason.contains("nowhere"),
        "{reason}"
    );
}

#[test]
fn a_simulated_disk_reads_them_later_as_well() {
    let clock = Clock::simulated(UnixTime::from_secs(1_700_000_000));
    let behaviour = DiskBehaviour {
        eager_bindings_max: ROWS as usize - 1,
        ..DiskBehaviour::default()
    };
    let disk = SimulatedDisk::new(1, behaviour);
    let store = disk.open(clock.clone());
    let ids: Vec<_> = (1..=ROWS).collect();
    let puts = ids.iter().map(|id| put(*id, 1)).collect();
    store.commit(puts, Box::new(|fate| fate.unwrap())).unwrap();
    clock
        .as_virtual()
        .unwrap()
        .advance_to(disk.next_due().unwrap());
    disk.run_due();
    let (_, reader) = store.load_lazily().unwrap();
    assert_eq!(in_order(&*reader.unwrap()), store.load().unwrap().bindings);
}
