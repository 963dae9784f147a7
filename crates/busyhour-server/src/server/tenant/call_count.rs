//! Calls that accounts of domains with settings of their own have begun.

use super::tenants::{TenantState, Tenants};
use busyhour::bus::Name;
use busyhour_proxy::dialogs::CallEvent;
use std::sync::Arc;

/// Counts what became of calls.
pub(in crate::server) fn count(tenants: &Tenants, events: &[CallEvent]) {
    if !tenants.domains().have_tenants() {
        return;
    }
    for event in events {
        match event {
            CallEvent::Began(call) => {
                of(tenants, call.caller_device.as_ref())
                    .iter()
                    .for_each(|one| one.call_began());
            }
            CallEvent::Answered(_) => {}
            CallEvent::Ended(record) => {
                let tenant = of(tenants, record.caller_device.as_ref());
                tenant.iter().for_each(|one| one.call_ended());
            }
        }
    }
}

fn of(tenants: &Tenants, caller: Option<&Name>) -> Option<Arc<TenantState>> {
    tenants.of_aor(caller?)
}
