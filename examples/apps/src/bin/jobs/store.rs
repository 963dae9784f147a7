//! The jobs in SQLite. One thread writes; all that waits when it begins goes into one transaction.

use crate::Job;
use rusqlite::{Connection, Row};
use std::{error::Error, io, path::Path, sync::mpsc, thread};
use tokio::sync::oneshot;

/// Clones share the thread, which ends with the last one.
#[derive(Clone)]
pub struct Store {
    sender: mpsc::Sender<Statement>,
}

type Statement = Box<dyn FnOnce(&Connection) -> rusqlite::Result<AfterCommit> + Send>;
type AfterCommit = Box<dyn FnOnce()>;

impl Store {
    pub fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let database = Connection::open(path)?;
        database.pragma_update(None, "journal_mode", "wal")?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS job (
                 id INTEGER PRIMARY KEY,
                 customer TEXT NOT NULL,
                 text TEXT NOT NULL,
                 -- Nothing as long as it waits, then whether it was done.
                 is_done INTEGER
             );
             CREATE INDEX IF NOT EXISTS waiting ON job (id) WHERE is_done IS NULL;",
        )?;
        let (sender, receiver) = mpsc::channel();
        let builder = thread::Builder::new().name("jobs-store".to_owned());
        builder.spawn(move || {
            if let Err(error) = write(database, &receiver) {
                eprintln!("jobs: the database cannot be written any more: {error}");
            }
        })?;
        Ok(Self { sender })
    }

    /// Keeps a job; its number, once it is committed.
    pub async fn add(&self, customer: &str, text: &str) -> io::Result<i64> {
        let values = [customer.to_owned(), text.to_owned()];
        self.ask(move |database| {
            let insert = "INSERT INTO job (customer, text) VALUES (?1, ?2)";
            database.prepare_cached(insert)?.execute(values)?;
            Ok(database.last_insert_rowid())
        })
        .await
    }

    /// Notes that a job was done, or that it has failed for good. If that cannot be written, it
    /// is done again after a restart.
    pub async fn end(&self, id: i64, is_done: bool) {
        let update = "UPDATE job SET is_done = ?2 WHERE id = ?1";
        let noted = self.ask(move |database| {
            let mut update = database.prepare_cached(update)?;
            update.execute((id, is_done))
        });
        _ = noted.await;
    }

    /// The jobs that are neither done nor failed, the oldest first.
    pub async fn waiting(&self) -> io::Result<Vec<Job>> {
        let select = "SELECT id, customer, text FROM job WHERE is_done IS NULL ORDER BY id";
        self.ask(move |database| {
            let mut select = database.prepare(select)?;
            select.query_map([], job)?.collect()
        })
        .await
    }

    /// What `statement` gives, once it is committed.
    pub async fn ask<T: Send + 'static>(
        &self,
        statement: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, receiver) = oneshot::channel();
        let statement: Statement = Box::new(|database| {
            let value = statement(database)?;
            // Who asked may have gone.
            Ok(Box::new(move || _ = sender.send(value)))
        });
        let gone = || io::Error::other("the database cannot be written");
        self.sender.send(statement).map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())
    }
}

fn write(mut database: Connection, asked: &mpsc::Receiver<Statement>) -> rusqlite::Result<()> {
    while let Ok(first) = asked.recv() {
        let transaction = database.transaction()?;
        let mut told = vec![first(&transaction)?];
        for statement in asked.try_iter().take(GROUP_MAX) {
            told.push(statement(&transaction)?);
        }
        transaction.commit()?;
        told.into_iter().for_each(|tell| tell());
    }
    Ok(())
}

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        id: row.get(0)?,
        customer: row.get(1)?,
        text: row.get(2)?,
    })
}

/// Statements in one transaction.
const GROUP_MAX: usize = 4_096;
