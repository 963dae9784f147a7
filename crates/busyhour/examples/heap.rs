//! An indexed heap: a job list whose priorities change while jobs wait.
//!
//!     cargo run -p busyhour --example heap

use busyhour::heap::Heap;

fn main() {
    let mut jobs = Heap::max();
    jobs.push((10, "write the report"));
    let call = jobs.push((20, "answer the call"));
    let backup = jobs.push((5, "run the backup"));

    // Everything is found again by its handle.
    jobs.update(backup, |job| job.0 = 30);
    jobs.remove(call);

    while let Some((priority, job)) = jobs.pop() {
        println!("{priority:3}  {job}");
    }
}
