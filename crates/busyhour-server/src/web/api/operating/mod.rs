//! What operators do with a running server: settings, log, storms, certificates, webhooks.

pub(in crate::web) mod operator;
pub(in crate::web) mod storm;
pub(in crate::web) mod certificates;
pub(in crate::web) mod webhooks;
