use crate::Instance;
use std::{collections::HashMap, sync::Arc};

/// The instance domains of a `pmcd`'s metrics, each with an index of its instances.
#[derive(Debug, Default)]
pub(crate) struct LiveDomains {
    by_number: HashMap<u32, LiveDomain>,
    /// Of all domains together.
    instance_count: usize,
}

#[derive(Debug, Default)]
struct LiveDomain {
    /// The places of the metrics that have this domain.
    metrics: Vec<usize>,
    instances: Arc<[Instance]>,
    /// The place of each among `instances`, by identifier.
    places: HashMap<i32, usize>,
    /// Of this domain, when it was asked for last.
    left_out: u64,
}

impl LiveDomains {
    /// Says that the metric at `place` has the domain `number`.
    pub(crate) fn add_metric(&mut self, number: u32, place: usize) {
        let domain = self.by_number.entry(number).or_default();
        domain.metrics.push(place);
    }

    /// How many instances `number` may have beside those of the other domains.
    pub(crate) fn room(&self, number: u32, instances_max: usize) -> usize {
        let own = self.by_number.get(&number);
        let own = own.map_or(0, |domain| domain.instances.len());
        instances_max.saturating_sub(self.instance_count - own)
    }

    /// Replaces the instances of a domain, and gives them with the places of the metrics
    /// that have it. Nothing is kept of a domain that no metric has.
    pub(crate) fn replace(
        &mut self,
        number: u32,
        instances: Vec<Instance>,
        left_out: u64,
    ) -> Option<(&[usize], Arc<[Instance]>)> {
        let domain = self.by_number.get_mut(&number)?;
        self.instance_count -= domain.instances.len();
        self.instance_count += instances.len();
        let ids = instances.iter().enumerate();
        // Of two with one identifier the first counts.
        domain.places = ids.rev().map(|(place, found)| (found.id, place)).collect();
        domain.instances = instances.into();
        domain.left_out = left_out;
        Some((&domain.metrics, Arc::clone(&domain.instances)))
    }

    pub(crate) fn instance(&self, number: u32, id: i32) -> Option<&Instance> {
        let domain = self.by_number.get(&number)?;
        domain.instances.get(*domain.places.get(&id)?)
    }

    /// Whether asking for the domain may tell more than is known. It does not where some
    /// instances were left out.
    pub(crate) fn is_worth_asking(&self, number: u32) -> bool {
        let domain = self.by_number.get(&number);
        domain.is_some_and(|domain| domain.left_out == 0)
    }

    pub(crate) fn left_out(&self) -> u64 {
        let domains = self.by_number.values();
        domains.map(|domain| domain.left_out).sum()
    }
}
