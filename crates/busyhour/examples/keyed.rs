//! Orders by customer: each customer's in order, with a state that survives its
//! eviction.

use busyhour::{keyed::Keyed, runtime::Runtime};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    let template = runtime.serializer("customer").capacity(100).template()?;
    // What stands for a database.
    let database = Arc::new(Mutex::new(HashMap::<String, u64>::new()));
    let (loading, saving) = (Arc::clone(&database), Arc::clone(&database));
    let customers = Keyed::<String>::builder(&template, runtime.timers())
        .idle_after(Duration::from_secs(60))
        .max_keys(10_000)
        .with_state(move |name| loading.lock().unwrap().get(name).copied().unwrap_or(0))
        .on_evict(move |name, total| _ = saving.lock().unwrap().insert(name.clone(), total))
        .build();

    for (name, price) in [("alice", 30), ("bob", 12), ("alice", 5)] {
        customers.push(name, move |total| *total += price)?;
    }
    println!(
        "alice owes {}",
        customers.push_wait("alice", |total| *total)?
    );

    customers.evict_all();
    assert!(runtime.shutdown(Duration::from_secs(5)).is_clean());
    println!("saved: {:?}", database.lock().unwrap());
    Ok(())
}
