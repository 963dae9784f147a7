//! Which node handles a request.

mod call_carrier;
pub(in crate::server) mod request_route;
