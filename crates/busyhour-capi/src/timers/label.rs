use crate::{
    edge::{Failure, Outcome, optional_text},
    result::bh_result,
};
use std::{
    collections::HashSet,
    ffi::c_char,
    sync::{Mutex, PoisonError},
};

/// A label that lives as long as the process: the library compares labels by their address first, and a report may show one
/// at any time. So each is kept once, for good, and their number is bounded.
pub(super) fn label(given: *const c_char) -> Outcome<&'static str> {
    let Some(name) = optional_text(given, "options.label")? else {
        return Ok("");
    };
    let mut labels = LABELS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = labels.get_or_insert_with(HashSet::new);
    if let Some(label) = known.get(name) {
        return Ok(label);
    }
    if known.len() >= LABELS_MAX {
        let message = "the process has 4,096 labels: a label names a class of timers; tell single ones apart by their owner";
        return Err(Failure::new(bh_result::BH_FULL, message));
    }
    let label: &'static str = Box::leak(name.into());
    known.insert(label);
    Ok(label)
}

static LABELS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
const LABELS_MAX: usize = 4096;
