//! Telephones at this node whose registrations other nodes have.

pub(super) mod handed_flows;
