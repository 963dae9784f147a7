//! A channel and a task for each customer, in a table behind a mutex. A task that is idle removes
//! itself, under the mutex, so that no job comes in between.

use crate::{Job, Refused, WAITING_MAX, Work, measure::Queue, store::Store};
use busyhour::timer::Backoff;
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc::{self, OwnedPermit, error::TrySendError},
    time::{sleep, timeout},
};

#[derive(Clone)]
pub struct Jobs(Arc<Inner>);

struct Inner {
    customers: Mutex<HashMap<String, mpsc::Sender<Job>>>,
    store: Store,
    work: Work,
    retry: Backoff,
}

impl Queue for Jobs {
    async fn open(store: Store, work: Work, retry: Backoff) -> Result<Self, Box<dyn Error>> {
        let jobs = Self(Arc::new(Inner {
            customers: Mutex::default(),
            store,
            work,
            retry,
        }));
        let waiting = jobs.0.store.waiting().await;
        for job in waiting.ok_or("the database cannot be read")? {
            let place = jobs.place(&job.customer);
            let place = place.map_err(|_| format!("too many jobs of {} are kept", job.customer))?;
            place.send(job);
        }
        Ok(jobs)
    }

    async fn offer(&self, customer: &str, text: &str) -> Result<i64, Refused> {
        let place = self.place(customer)?;
        let id = self.0.store.add(customer, text).await;
        let id = id.ok_or(Refused::Closed)?;
        let (customer, text) = (customer.to_owned(), text.to_owned());
        place.send(Job { id, customer, text });
        Ok(id)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(future);
    }
}

impl Jobs {
    /// A place among the customer's jobs, for one that is being kept.
    fn place(&self, customer: &str) -> Result<OwnedPermit<Job>, Refused> {
        let mut customers = self.lock();
        if !customers.contains_key(customer) {
            let (sender, jobs) = mpsc::channel(WAITING_MAX);
            customers.insert(customer.to_owned(), sender);
            tokio::spawn(self.clone().run(customer.to_owned(), jobs));
        }
        let place = customers[customer].clone().try_reserve_owned();
        place.map_err(|error| match error {
            TrySendError::Full(_) => Refused::Busy,
            TrySendError::Closed(_) => Refused::Closed,
        })
    }

    async fn run(self, customer: String, mut jobs: mpsc::Receiver<Job>) {
        loop {
            let Ok(job) = timeout(IDLE, jobs.recv()).await else {
                let mut customers = self.lock();
                // Nor does anybody have a place.
                if jobs.capacity() == WAITING_MAX {
                    customers.remove(&customer);
                    return;
                }
                continue;
            };
            let Some(job) = job else { return };
            self.carry_out(job).await;
        }
    }

    /// Tries a job until it is done or has failed too often; notes which.
    async fn carry_out(&self, job: Job) {
        let Inner {
            store, work, retry, ..
        } = &*self.0;
        for delay in retry.delays() {
            if work(job.clone()).await.is_ok() {
                return store.end(job.id, true).await;
            }
            sleep(delay).await;
        }
        let is_done = work(job.clone()).await.is_ok();
        store.end(job.id, is_done).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Job>>> {
        let customers = self.0.customers.lock();
        customers.unwrap_or_else(PoisonError::into_inner)
    }
}

const IDLE: Duration = Duration::from_secs(60);
