//! The jobs in SQLite. One thread writes; all that waits when it begins goes into one transaction.

use crate::Job;
use rusqlite::{Connection, Result, Row};
use std::{error::Error, path::Path, sync::mpsc, thread};
use tokio::sync::oneshot;

/// Clones share the thread, which ends with the last one.
#[derive(Clone)]
pub struct Store(mpsc::Sender<Statement>);

type Statement = Box<dyn FnOnce(&Connection) -> Result<Box<dyn FnOnce()>> + Send>;

impl Store {
    pub fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let database = Connection::open(path)?;
        database.execute_batch(TABLES)?;
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("store".into()).spawn(move || {
            if let Err(error) = write(database, &receiver) {
                eprintln!("jobs: the database cannot be written any more: {error}");
            }
        })?;
        Ok(Self(sender))
    }

    /// Keeps a job; its number, once it is committed.
    pub async fn add(&self, customer: &str, text: &str) -> Option<i64> {
        let insert = "INSERT INTO job (customer, text) VALUES (?1, ?2) RETURNING id";
        let values = [customer.to_owned(), text.to_owned()];
        self.ask(move |database| {
            let mut insert = database.prepare_cached(insert)?;
            insert.query_row(values, |row| row.get(0))
        })
        .await
    }

    /// Notes that a job was done, or that it has failed for good. If that cannot be written, it
    /// is done again after a restart.
    pub async fn end(&self, id: i64, is_done: bool) {
        let update = "UPDATE job SET is_done = ?2 WHERE id = ?1";
        let noted = self.ask(move |it| it.prepare_cached(update)?.execute((id, is_done)));
        _ = noted.await;
    }

    /// The jobs that are neither done nor failed, the oldest first.
    pub async fn waiting(&self) -> Option<Vec<Job>> {
        let select = "SELECT id, customer, text FROM job WHERE is_done IS NULL ORDER BY id";
        let job = |row: &Row<'_>| {
            let (id, customer, text) = row.try_into()?;
            Ok(Job { id, customer, text })
        };
        let waiting = self.ask(move |it| it.prepare(select)?.query_map([], job)?.collect());
        waiting.await
    }

    /// What `statement` gives, once it is committed; nothing if the database cannot be written.
    pub async fn ask<T: Send + 'static>(
        &self,
        statement: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let statement: Statement = Box::new(|database| {
            let value = statement(database)?;
            // Who asked may have gone.
            Ok(Box::new(move || _ = sender.send(value)))
        });
        _ = self.0.send(statement); // without its thread, the receiver is told
        receiver.await.ok()
    }
}

fn write(mut database: Connection, asked: &mpsc::Receiver<Statement>) -> Result<()> {
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

/// A job that waits has nothing in `is_done`, later whether it was done.
const TABLES: &str = "
    PRAGMA journal_mode = wal;
    CREATE TABLE IF NOT EXISTS job (
        id INTEGER PRIMARY KEY, customer TEXT NOT NULL, text TEXT NOT NULL, is_done INTEGER);
    CREATE INDEX IF NOT EXISTS waiting ON job (id) WHERE is_done IS NULL;";
/// Statements in one transaction.
const GROUP_MAX: usize = 4_096;
