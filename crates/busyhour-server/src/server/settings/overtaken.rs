//! Settings that were set at another node, while a change of ours is on its way.

use busyhour_store::Refused;

/// What was read of the database counts only while no change of ours is on its way.
///
/// # Errors
///
/// [`Refused::Overtaken`].
pub(super) fn unless(is_overtaken: &dyn Fn() -> bool) -> Result<(), Refused> {
    match is_overtaken() {
        true => Err(Refused::Overtaken),
        false => Ok(()),
    }
}
