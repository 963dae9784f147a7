//! A key for each customer: the jobs of one are sections of its serializer, which come one after
//! the other. Customers without jobs are removed.

use crate::{Job, Queue, Refused, Retry, WAITING_MAX, Work, carry_out, store::Store};
use busyhour::{
    keyed::{Keyed, KeyedError},
    pool::{PushError, TaskPool},
    runtime::Runtime,
};
use std::{error::Error, time::Duration};
use tokio::{runtime::Handle, sync::oneshot};

pub struct Jobs {
    runtime: Runtime,
    customers: Keyed<String>,
    store: Store,
    work: Work,
    retry: Retry,
}

impl Queue for Jobs {
    fn open(store: Store, work: Work, retry: Retry) -> Result<Self, Box<dyn Error>> {
        // The work may use tokio's processes, sockets and timers.
        let tokio = Handle::current();
        let pool = TaskPool::builder().workers(2).poll_context(move |poll| {
            let _inside = tokio.enter();
            poll();
        });
        let runtime = Runtime::builder().pool(pool).build()?;
        let template = runtime.serializer("customer").capacity(WAITING_MAX);
        let customers = Keyed::<String>::builder(&template.template()?, runtime.timers())
            .idle_after(Duration::from_secs(60))
            .build();
        let jobs = Self {
            runtime,
            customers,
            store,
            work,
            retry,
        };
        jobs.resume()?;
        Ok(jobs)
    }

    async fn offer(&self, customer: &str, text: &str) -> Result<i64, Refused> {
        let (kept, is_kept) = oneshot::channel();
        self.line_up(customer, is_kept)?;
        let id = self.store.add(customer, text).await;
        let id = id.map_err(|_| Refused::Closed)?;
        let (customer, text) = (customer.to_owned(), text.to_owned());
        _ = kept.send(Job { id, customer, text });
        Ok(id)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.pool().spawn(future);
    }
}

impl Jobs {
    /// Takes a place behind the customer's other jobs, for one that is being kept. A job that
    /// could not be kept leaves it without a trace.
    fn line_up(&self, customer: &str, is_kept: oneshot::Receiver<Job>) -> Result<(), Refused> {
        let (store, work, retry) = (self.store.clone(), self.work.clone(), self.retry);
        let timers = self.runtime.timers().clone();
        let section = self.customers.spawn_exclusive(customer, move |_| {
            Box::pin(async move {
                if let Ok(job) = is_kept.await {
                    let sleep = |delay| timers.sleep(delay);
                    carry_out((job, &store), (&work, retry), sleep).await;
                }
            })
        });
        section.map(drop).map_err(|error| match error {
            KeyedError::Serializer(PushError::Full) | KeyedError::TooManyKeys(_) => Refused::Busy,
            _ => Refused::Closed,
        })
    }

    /// Lines up what was kept before. Of one customer no more than may wait are kept, and one
    /// that was being done.
    fn resume(&self) -> Result<(), Box<dyn Error>> {
        let waiting =
            tokio::task::block_in_place(|| Handle::current().block_on(self.store.waiting()))?;
        for job in waiting {
            let (kept, is_kept) = oneshot::channel();
            let customer = job.customer.clone();
            _ = kept.send(job);
            self.line_up(&customer, is_kept)
                .map_err(|_| format!("too many jobs of {customer} are kept"))?;
        }
        Ok(())
    }
}

impl Drop for Jobs {
    /// What is being done is dropped, and done again after a restart.
    fn drop(&mut self) {
        self.runtime.shutdown(Duration::ZERO);
    }
}
