//! The routes of the API for accounts, failures, mailboxes and hints, and of what the server
//! holds at this moment.

pub(in crate::web) mod accounts;
pub(in crate::web) mod failures;
pub(in crate::web) mod live;
pub(in crate::web) mod settings_api;
pub(in crate::web) mod setting_routes;
pub(in crate::web) mod pending_commit;
pub(in crate::web) mod paging;
