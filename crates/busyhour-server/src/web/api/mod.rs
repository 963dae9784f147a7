//! The routes of the API for accounts, failures, mailboxes, hints, lists and webhooks, of what the
//! server holds at this moment, and of what changes.

pub(in crate::web) mod accounts;
pub(in crate::web) mod bindings;
pub(in crate::web) mod failures;
pub(in crate::web) mod devices;
pub(in crate::web) mod call_records;
pub(in crate::web) mod live;
pub(in crate::web) mod trace;
pub(in crate::web) mod changes;
pub(in crate::web) mod tenants;
pub(in crate::web) mod settings_api;
pub(in crate::web) mod setting_routes;
pub(in crate::web) mod list_routes;
pub(in crate::web) mod pending_commit;
pub(in crate::web) mod operating;
pub(in crate::web) mod paging;
pub(in crate::web) mod body;
