//! A key for each customer, whose jobs are sections of its serializer. Idle customers are removed.

use crate::{Job, Refused, WAITING_MAX, Work, store::Store};
use busyhour::keyed::{KeyPermit, Keyed};
use busyhour::{pool::TaskPool, runtime::Runtime, timer::Backoff};
use std::{error::Error, time::Duration};
use tokio::runtime::Handle;

pub struct Jobs {
    runtime: Runtime,
    customers: Keyed<String>,
    store: Store,
    work: Work,
    retry: Backoff,
}

impl Jobs {
    /// Begins with what was kept before: of each customer what may wait, and what was being done.
    pub async fn open(store: Store, work: Work, retry: Backoff) -> Result<Self, Box<dyn Error>> {
        // The work may use tokio's processes, sockets and timers.
        let tokio = Handle::current();
        let pool = TaskPool::builder().workers(2).poll_context(move |poll| {
            let _inside = tokio.enter();
            poll();
        });
        let runtime = Runtime::builder().pool(pool).build()?;
        let customer = runtime.serializer("customer").capacity(WAITING_MAX);
        let customers = Keyed::builder(&customer.template()?, runtime.timers());
        let customers = customers.idle_after(Duration::from_secs(60)).build();
        let jobs = Self {
            runtime,
            customers,
            store,
            work,
            retry,
        };
        let waiting = jobs.store.waiting().await;
        for job in waiting.ok_or("the database cannot be read")? {
            let place = jobs.place(&job.customer);
            let place = place.map_err(|_| format!("too many jobs of {} are kept", job.customer))?;
            jobs.queue(place, job);
        }
        Ok(jobs)
    }

    /// Keeps a job; returns its number once it is in the database.
    pub async fn offer(&self, customer: &str, text: &str) -> Result<i64, Refused> {
        let place = self.place(customer)?;
        let id = self.store.add(customer, text).await;
        let id = id.ok_or(Refused::Closed)?;
        let (customer, text) = (customer.to_owned(), text.to_owned());
        self.queue(place, Job { id, customer, text });
        Ok(id)
    }

    /// Runs what offers jobs where they are done, so that none of the two outruns the other.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.pool().spawn(future);
    }

    /// A place among the customer's jobs, for one that is being kept.
    fn place(&self, customer: &str) -> Result<KeyPermit<String>, Refused> {
        let place = self.customers.try_reserve(customer);
        place.map_err(|error| match error.is_full() {
            true => Refused::Busy,
            false => Refused::Closed,
        })
    }

    /// Has a job done behind the customer's others, or after a restart if the queue ends before.
    fn queue(&self, place: KeyPermit<String>, job: Job) {
        let (store, work, retry) = (self.store.clone(), self.work.clone(), self.retry);
        let timers = self.runtime.timers().clone();
        _ = place.spawn_exclusive(move |_| {
            Box::pin(async move {
                let done = timers.retry(retry, || work(job.clone())).await;
                store.end(job.id, done.is_ok()).await;
            })
        });
    }
}

impl Drop for Jobs {
    /// What is being done is dropped, and done again after a restart.
    fn drop(&mut self) {
        self.runtime.shutdown(Duration::ZERO);
    }
}
