//! Telephones at this node.

pub(super) mod registered_flows;
