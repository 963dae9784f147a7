use std::{fmt, sync::Arc};

use super::{
    Serializer, ShutdownGroup, core::Core, named_state::NamedState, overload::SharedMarks,
    state::Bound,
};
use crate::{pool::TaskPool, run_queue::Class};

/// The options that many serializers of one kind share: one for each device,
/// call or connection. From
/// [`SerializerBuilder::template`](super::SerializerBuilder::template).
///
/// A serializer that is made from it has no name of its own, and
/// [`TaskPool::serializer_stats`] does not list it; a group shows what its
/// members hold in all. Capacity, overflow policy, class and group cost it no
/// memory. Watermarks cost an allocation; a serializer that has them bears the
/// template's name, so that its alerts tell the kind, and a number of its own
/// ([`SerializerId`](super::SerializerId)).
///
/// # Examples
///
/// ```
/// use busyhour::{pool::TaskPool, serializer::ShutdownGroup};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = TaskPool::builder().workers(1).build()?;
/// let group = ShutdownGroup::new();
/// let devices = pool.serializer("device").capacity(16).group(&group).template()?;
/// let (one, other) = (devices.ephemeral(), devices.ephemeral());
/// one.push(|| ())?;
/// other.push_wait(|| ())?;
/// assert_eq!(group.stats().serializer_count, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SerializerTemplate {
    template: Arc<Template>,
}

/// What the serializers of one template share.
pub(super) struct Template {
    pub(super) pool: TaskPool,
    pub(super) name: Arc<str>,
    pub(super) bound: Bound,
    pub(super) class: Class,
    pub(super) group: Option<ShutdownGroup>,
    pub(super) marks: Option<Arc<SharedMarks>>,
}

impl SerializerTemplate {
    pub(super) fn new(template: Template) -> Self {
        Self {
            template: Arc::new(template),
        }
    }

    /// The name of the kind.
    pub fn name(&self) -> &str {
        &self.template.name
    }

    pub(crate) fn pool(&self) -> &TaskPool {
        &self.template.pool
    }

    /// A new serializer of this kind.
    pub fn ephemeral(&self) -> Serializer {
        let template = &self.template;
        let named = |marks| {
            let number = template.pool.shared().registry.next_number();
            NamedState::of_template(Arc::clone(&template.name), marks, number)
        };
        let named_state = template.marks.clone().map(named);
        let core = Core::new(
            template.pool.clone(),
            template.bound,
            template.class,
            named_state,
        );
        if let Some(group) = &template.group {
            group.join(&core);
        }
        Serializer { core }
    }
}

impl fmt::Debug for SerializerTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SerializerTemplate")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
