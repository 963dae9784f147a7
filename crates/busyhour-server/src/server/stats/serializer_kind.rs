//! The serializers of one kind: all have the same watermarks, and are counted while
//! more waits in one of them than its high watermark allows.

use super::{QueueKindStats, queues::SerializerListing};
use busyhour::{
    runtime::Runtime,
    serializer::{AlertGroup, Serializer, SerializerTemplate},
};

/// Makes the serializers of one kind.
pub(in crate::server) struct SerializerKind {
    options: KindOptions,
    template: SerializerTemplate,
    alerts: AlertGroup,
}

/// What the serializers of a kind have in common.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct KindOptions {
    /// The `kind` of their queues.
    pub(in crate::server) name: &'static str,
    /// So few waiting tasks end an alert.
    pub(in crate::server) low: usize,
    /// So many waiting tasks begin one.
    pub(in crate::server) high: usize,
    /// What a task without a label is: one that a timer or the event bus has pushed.
    pub(in crate::server) unlabelled: &'static str,
}

impl SerializerKind {
    /// # Panics
    ///
    /// If the watermarks contradict each other; they are constants.
    pub(in crate::server) fn new(runtime: &Runtime, options: KindOptions) -> Self {
        let alerts = AlertGroup::new();
        let serializer = runtime.serializer(options.name);
        let marked = serializer.watermarks(options.low, options.high);
        let template = marked.alert_group(&alerts).template();
        Self {
            options,
            template: template.expect("low < high ≤ 65,536"),
            alerts,
        }
    }

    /// A new serializer of this kind.
    pub(in crate::server) fn ephemeral(&self) -> Serializer {
        self.template.ephemeral()
    }

    /// An empty list for what its serializers hold.
    pub(in crate::server) fn listing(&self) -> SerializerListing {
        SerializerListing::new(self.options)
    }

    /// What these of its serializers hold, of which each has a part of the work.
    pub(in crate::server) fn listing_of_parts(&self, parts: &[Serializer]) -> SerializerListing {
        let mut listing = self.listing();
        for (place, part) in parts.iter().enumerate() {
            listing.add(part.stats(), || format!("part {place}"));
        }
        listing
    }

    /// How often its queues were too long.
    pub(in crate::server) fn stats(&self) -> QueueKindStats {
        QueueKindStats {
            name: self.options.name,
            high_watermark: self.options.high as u64,
            alerts_raised: self.alerts.raised_count(),
            high_count: self.alerts.alert_count() as u64,
        }
    }
}
