use super::inject_queue::InjectQueue;
use crate::{cost::compare, task::Task};
use concurrent_queue::ConcurrentQueue;

/// Tasks from one thread to another, in batches; measured without the other
/// thread, since that isolates the queue.
#[test]
#[ignore = "prints what it costs, for scripts/parts.sh"]
fn cost_of_an_injected_task() {
    const BATCH: u64 = 64;
    let ours = InjectQueue::default();
    ours.open();
    let theirs = ConcurrentQueue::<Task>::unbounded();
    compare(
        "task through the inject queue",
        |count| {
            for _ in 0..count / BATCH {
                for _ in 0..BATCH {
                    assert!(ours.push(|| Task::new(|| ())).is_ok());
                }
                drop(ours.take());
            }
        },
        ("concurrent-queue", &mut |count| {
            for _ in 0..count / BATCH {
                for _ in 0..BATCH {
                    assert!(theirs.push(Task::new(|| ())).is_ok());
                }
                theirs.try_iter().for_each(drop);
            }
        }),
    );
}
