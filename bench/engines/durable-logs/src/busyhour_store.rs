//! The store with its journal, through its public interface.

use crate::{
    durable_log::{DurableLog, Outcome, Setup},
    newest::Newest,
    refresh::Refresh,
};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, Lease};
use busyhour_sip::Flow;
use busyhour_store::{Change, CommitError, SqliteOptions, SqliteStore, Store};
use rusqlite::Connection;
use std::{
    fs,
    path::Path,
    process::Command,
    sync::mpsc::{Receiver, Sender, channel},
};

/// A group is one batch with one completion if `IS_ONE_BATCH`. Otherwise each refresh is a batch of its own, as in the
/// server, and all of a group are under way together.
pub struct Committer<const IS_ONE_BATCH: bool> {
    store: SqliteStore,
    sender: Sender<Result<(), CommitError>>,
    committed: Receiver<Result<(), CommitError>>,
}

impl<const IS_ONE_BATCH: bool> DurableLog for Committer<IS_ONE_BATCH> {
    fn open(folder: &Path, setup: Setup) -> Outcome<Self> {
        Self::with_bindings(folder, setup.bindings)
    }

    fn recover(folder: &Path, _: Setup) -> Outcome<(Self, Newest)> {
        let recovered = Self::from(open(folder)?);
        let newest = newest(&recovered.store)?;
        Ok((recovered, newest))
    }

    fn commit(&mut self, group: &[Refresh]) -> Outcome<()> {
        if IS_ONE_BATCH {
            self.send(group.iter().map(|one| renew(*one)).collect())?;
            return self.receive();
        }
        for one in group {
            self.send(vec![renew(*one)])?;
        }
        group.iter().try_for_each(|_| self.receive())
    }

    fn copy(&self, folder: &Path) -> Outcome<()> {
        copy(folder)
    }

    /// A load waits until the database has followed; it leaves out the bindings, which the others do not read either.
    fn settle(&mut self) -> Outcome<()> {
        self.store.load_lazily()?;
        Ok(())
    }

    fn seen(folder: &Path, _: Setup) -> Outcome<u64> {
        refreshes(folder)
    }
}

impl<const IS_ONE_BATCH: bool> Committer<IS_ONE_BATCH> {
    fn with_bindings(folder: &Path, bindings: u64) -> Outcome<Self> {
        // Made now, since the store looks at its files more often for a while after their folder has changed.
        fs::create_dir(folder.join(COPY))?;
        let mut made = Self::from(open(folder)?);
        let ids: Vec<u64> = (1..=bindings).collect();
        for some in ids.chunks(1000) {
            made.send(some.iter().map(|id| put(*id)).collect())?;
            made.receive()?;
        }
        made.settle()?;
        Ok(made)
    }

    fn from(store: SqliteStore) -> Self {
        let (sender, committed) = channel();
        Self {
            store,
            sender,
            committed,
        }
    }

    fn send(&self, changes: Vec<Change>) -> Outcome<()> {
        let sender = self.sender.clone();
        let told = move |outcome| drop(sender.send(outcome));
        Ok(self.store.commit(changes, Box::new(told))?)
    }

    fn receive(&self) -> Outcome<()> {
        Ok(self.committed.recv()??)
    }
}

fn open(folder: &Path) -> Outcome<SqliteStore> {
    let mut options = SqliteOptions::new(folder.join(DATABASE));
    options.eager_bindings_max = 0;
    Ok(SqliteStore::open(options)?)
}

/// Copies the files as they are: the database, which is behind, and the journal, which has the rest. The transaction keeps SQLite from
/// using its log again from its begin, so that the log has all that a checkpoint writes meanwhile. It is another process that copies, because
/// SQLite's locks on a file end when its own process closes that file.
fn copy(folder: &Path) -> Outcome<()> {
    let reader = Connection::open(folder.join(DATABASE))?;
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let files = ["", "-wal", ".journal"].map(|end| folder.join(format!("{DATABASE}{end}")));
    let copied = Command::new("cp")
        .args(files)
        .arg(folder.join(COPY))
        .status()?;
    match copied.success() {
        true => Ok(()),
        false => Err("the store cannot be copied".into()),
    }
}

/// What the copy has by its journal; what is in the store that ended in an orderly way must be the same.
fn refreshes(folder: &Path) -> Outcome<u64> {
    let refreshes_in = |folder: &Path| Outcome::Ok(newest(&open(folder)?)?.refreshes());
    let (copied, ended) = (refreshes_in(&folder.join(COPY))?, refreshes_in(folder)?);
    match copied == ended {
        true => Ok(copied),
        false => Err(format!("{copied} refreshes are in the copy, {ended} in the store").into()),
    }
}

fn newest(store: &SqliteStore) -> Outcome<Newest> {
    let bindings = store.load()?.bindings.into_iter();
    let refreshes = bindings.map(|one| Refresh {
        id: one.id.0,
        cseq: one.lease.cseq,
    });
    Ok(refreshes.collect())
}

fn put(id: u64) -> Change {
    BindingChange::Put {
        id: BindingId(id),
        aor: format!("sip:device{id}@example.com").into(),
        contact: Contact::new(ContactParts {
            uri: &format!("sip:device{id}@192.0.2.1:5062"),
            parameters: "",
            q_milli: None,
            call_id: &format!("{id}-call@192.0.2.1"),
            path: "",
            user_agent: "a telephone of some make",
            flow: Flow::udp(([192, 0, 2, 1], 5062).into(), ([192, 0, 2, 2], 5060).into()),
        }),
        lease: lease(Refresh { id, cseq: 1 }),
    }
    .into()
}

fn renew(one: Refresh) -> Change {
    BindingChange::Renew {
        id: BindingId(one.id),
        lease: lease(one),
    }
    .into()
}

fn lease(one: Refresh) -> Lease {
    Lease {
        cseq: one.cseq,
        granted_s: Refresh::GRANTED_S,
        expires_at: UnixTime::from_nanos(one.expires_at_ns()),
        removed: false,
    }
}

const DATABASE: &str = "busyhour.db";
const COPY: &str = "copy";
