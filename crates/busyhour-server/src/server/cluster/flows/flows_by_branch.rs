//! Which flow an answer belongs to that comes, or leaves, over another one.

use busyhour_sip::Flow;
use std::collections::{HashMap, VecDeque};

/// The flow that each request belongs to, by its branch.
#[derive(Default)]
pub(in crate::server::cluster) struct FlowsByBranch {
    flows: HashMap<u64, Flow>,
    order: VecDeque<u64>,
}

impl FlowsByBranch {
    pub(in crate::server::cluster) fn insert(&mut self, branch: u64, flow: Flow) {
        if self.flows.insert(branch, flow).is_none() {
            self.order.push_back(branch);
        }
        if self.order.len() > REQUESTS_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.flows.remove(&oldest));
        }
    }

    pub(in crate::server::cluster) fn flow_of(&self, branch: u64) -> Option<Flow> {
        self.flows.get(&branch).copied()
    }
}

/// Whose answers are awaited: more than are sent in the seconds that an answer may take. The oldest are forgotten.
const REQUESTS_MAX: usize = 16_384;
