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
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

/// A place for a job that is being kept.
type Place = oneshot::Receiver<Job>;

#[derive(Clone)]
pub struct Jobs(Arc<Inner>);

struct Inner {
    customers: Mutex<HashMap<String, mpsc::Sender<Place>>>,
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
            let (kept, is_kept) = oneshot::channel();
            let customer = job.customer.clone();
            _ = kept.send(job);
            jobs.line_up(&customer, is_kept)
                .map_err(|_| format!("too many jobs of {customer} are kept"))?;
        }
        Ok(jobs)
    }

    async fn offer(&self, customer: &str, text: &str) -> Result<i64, Refused> {
        let (kept, is_kept) = oneshot::channel();
        self.line_up(customer, is_kept)?;
        let id = self.0.store.add(customer, text).await;
        let id = id.ok_or(Refused::Closed)?;
        let (customer, text) = (customer.to_owned(), text.to_owned());
        _ = kept.send(Job { id, customer, text });
        Ok(id)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(future);
    }
}

impl Jobs {
    fn line_up(&self, customer: &str, place: Place) -> Result<(), Refused> {
        let mut customers = self.lock();
        if !customers.contains_key(customer) {
            let (sender, places) = mpsc::channel(WAITING_MAX);
            customers.insert(customer.to_owned(), sender);
            tokio::spawn(self.clone().run(customer.to_owned(), places));
        }
        let pushed = customers[customer].try_send(place);
        pushed.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Busy,
            mpsc::error::TrySendError::Closed(_) => Refused::Closed,
        })
    }

    async fn run(self, customer: String, mut places: mpsc::Receiver<Place>) {
        loop {
            let Ok(place) = timeout(IDLE, places.recv()).await else {
                let mut customers = self.lock();
                if places.is_empty() {
                    customers.remove(&customer);
                    return;
                }
                continue;
            };
            let Some(place) = place else { return };
            if let Ok(job) = place.await {
                self.carry_out(job).await;
            }
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

    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Place>>> {
        let customers = self.0.customers.lock();
        customers.unwrap_or_else(PoisonError::into_inner)
    }
}

const IDLE: Duration = Duration::from_secs(60);
