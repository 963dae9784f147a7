//! One program a station.

use crate::{
    library::CRATE,
    program::{check, compile, compile_plain, run_python},
};
use std::path::Path;

#[test]
fn buffers_agree_with_a_list_of_what_is_pinned() {
    check("buffers.c", &[]);
}

#[test]
fn a_heap_agrees_with_a_sorted_scan() {
    check("heap.c", &[]);
}

#[test]
fn a_run_queue_agrees_with_a_scan_of_goodness() {
    check("run_queue.c", &[]);
}

#[test]
fn a_timer_queue_agrees_with_a_scan_of_deadlines() {
    check("timer_queue.c", &[]);
}

#[test]
fn timers_agree_with_a_list_in_virtual_time() {
    check("timers.c", &[]);
}

#[test]
fn timers_run_in_an_epoll_loop_and_in_a_driver() {
    check("loops.c", &[]);
}

#[test]
fn a_pool_runs_every_task_once_and_frees_every_data_once() {
    check("pool.c", &[]);
}

#[test]
fn tasks_that_wait_end_once_and_a_shutdown_names_what_it_left() {
    check("spawn.c", &[]);
}

#[test]
fn serializers_keep_their_order_and_their_bounds() {
    check("serializer.c", &[]);
}

#[test]
fn a_simulation_replays_from_its_seed() {
    check("simulation.c", &[]);
}

#[test]
fn topics_agree_with_an_array_of_last_values() {
    check("topic.c", &[]);
}

#[test]
fn topics_tell_of_their_subscriptions_and_queues_of_their_alerts() {
    check("notices.c", &[]);
}

/// The header needs neither exceptions nor the newest standard, and is right for both.
#[test]
fn closures_of_cpp_run_and_are_freed() {
    compile("closures.cpp", &["-std=c++20", "-fno-rtti", "-Wpedantic"]).run(&[]);
    compile_plain(
        "closures.cpp",
        &["-fsyntax-only", "-fno-exceptions", "-Wpedantic"],
    );
}

#[test]
fn python_calls_and_is_called() {
    run_python(&Path::new(CRATE).join("tests/c/smoke.py"));
}

/// In a simulation, so that none of 6,000 calls waits for a thread.
#[test]
fn every_function_bears_null_wrong_sizes_a_shutdown_and_the_end_of_its_parents() {
    run_python(&Path::new(CRATE).join("tests/c/every_function.py"));
}
