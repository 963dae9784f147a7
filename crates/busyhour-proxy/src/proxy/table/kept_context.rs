//! A context in its place in the table, and what is left of it once its call is answered.

use crate::{
    proxy::{
        TransactionId,
        branch::{Cancel, ClientBranch},
        context::Context,
    },
    routing::CompactFlow,
    transaction::{ClientTransaction, ServerTransaction},
};
use busyhour::{clock::Instant, timer::QueueHandle};
use busyhour_sip::Flow;

/// A context, whole or in little memory.
#[derive(Debug)]
pub(super) enum KeptContext<P> {
    Whole(Box<Context<P>>),
    /// Most are of calls that were answered by the only telephone that was called, and wait for
    /// nothing but the end of their transactions.
    Answered(Box<AnsweredContext<P>>),
}

/// An INVITE whose only branch has answered it.
#[derive(Debug)]
pub(super) struct AnsweredContext<P> {
    id: TransactionId,
    key: u128,
    data: P,
    began_at: Instant,
    upstream: CompactFlow,
    final_status: u16,
    is_cancelled: bool,
    has_progress: bool,
    session_s: u32,
    timer: QueueHandle,
    /// When the server transaction ends.
    ends_at: Instant,
    branch: AnsweredBranch,
}

#[derive(Debug)]
struct AnsweredBranch {
    label: u64,
    flow: CompactFlow,
    is_registered: bool,
    has_provisional: bool,
    is_abandoned: bool,
    /// When the client transaction ends.
    ends_at: Instant,
}

impl<P> KeptContext<P> {
    pub fn new(context: Context<P>) -> Self {
        Self::Whole(Box::new(context))
    }

    /// Whole, for a step.
    pub fn opened(self) -> Self {
        match self {
            Self::Answered(answered) => Self::Whole(Box::new((*answered).into())),
            whole => whole,
        }
    }

    /// In little memory, if nothing is lost by that.
    pub fn settled(self) -> Self {
        match self {
            Self::Whole(context) => match AnsweredContext::of(context) {
                Ok(answered) => Self::Answered(answered),
                Err(context) => Self::Whole(context),
            },
            answered => answered,
        }
    }

    pub fn id(&self) -> TransactionId {
        match self {
            Self::Whole(context) => context.id,
            Self::Answered(context) => context.id,
        }
    }

    pub fn key(&self) -> u128 {
        match self {
            Self::Whole(context) => context.key,
            Self::Answered(context) => context.key,
        }
    }

    pub fn data(&self) -> &P {
        match self {
            Self::Whole(context) => &context.data,
            Self::Answered(context) => &context.data,
        }
    }

    pub fn data_mut(&mut self) -> &mut P {
        match self {
            Self::Whole(context) => &mut context.data,
            Self::Answered(context) => &mut context.data,
        }
    }

    /// Where the request came from.
    pub fn upstream(&self) -> Flow {
        match self {
            Self::Whole(context) => context.upstream.get(),
            Self::Answered(context) => context.upstream.get(),
        }
    }

    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Whole(context) => context.held_bytes,
            Self::Answered(_) => 0,
        }
    }

    /// 0 before it is sent.
    pub fn final_status(&self) -> u16 {
        match self {
            Self::Whole(context) => context.final_status,
            Self::Answered(context) => context.final_status,
        }
    }

    /// Where the branch with this number was sent.
    pub fn branch_flow(&self, number: u16) -> Option<Flow> {
        let flow = match self {
            Self::Whole(context) => &context.branches.get(usize::from(number))?.flow,
            Self::Answered(context) if number == 0 => &context.branch.flow,
            Self::Answered(_) => return None,
        };
        Some(flow.get())
    }
}

impl<P> AnsweredContext<P> {
    /// Gives the context back if there is more to keep of it.
    fn of(context: Box<Context<P>>) -> Result<Box<Self>, Box<Context<P>>> {
        let (Some(ends_at), [branch]) = (context.answered_until(), &context.branches[..]) else {
            return Err(context);
        };
        let Some(branch_ends_at) = branch.answered_until() else {
            return Err(context);
        };
        let branch = AnsweredBranch {
            label: branch.label,
            flow: branch.flow.clone(),
            is_registered: branch.is_registered,
            has_provisional: branch.has_provisional,
            is_abandoned: branch.is_abandoned,
            ends_at: branch_ends_at,
        };
        let context = *context;
        Ok(Box::new(Self {
            id: context.id,
            key: context.key,
            data: context.data,
            began_at: context.began_at,
            upstream: context.upstream,
            final_status: context.final_status,
            is_cancelled: context.is_cancelled,
            has_progress: context.has_progress,
            session_s: context.session_s,
            timer: context.timer,
            ends_at,
            branch,
        }))
    }
}

impl<P> From<AnsweredContext<P>> for Context<P> {
    fn from(answered: AnsweredContext<P>) -> Self {
        Self {
            id: answered.id,
            key: answered.key,
            data: answered.data,
            began_at: answered.began_at,
            upstream: answered.upstream,
            server: ServerTransaction::accepted(answered.ends_at),
            last_response: None,
            pending: None,
            branches: vec![answered.branch.into()],
            final_status: answered.final_status,
            is_cancelled: answered.is_cancelled,
            has_progress: answered.has_progress,
            session_s: answered.session_s,
            held_bytes: 0,
            timer: answered.timer,
        }
    }
}

impl From<AnsweredBranch> for ClientBranch {
    /// Its target does not matter any more.
    fn from(answered: AnsweredBranch) -> Self {
        Self {
            label: answered.label,
            flow: answered.flow,
            is_registered: answered.is_registered,
            target: 0,
            hop: 0,
            breadth: 0,
            client: ClientTransaction::accepted(answered.ends_at),
            resend: None,
            cancel: Cancel::Over,
            timer_c: Instant::FAR_FUTURE,
            gives_up_at: Instant::FAR_FUTURE,
            has_provisional: answered.has_provisional,
            is_done: true,
            is_abandoned: answered.is_abandoned,
        }
    }
}

// An answered call costs this until its transactions have ended.
const _: () = assert!(size_of::<AnsweredContext<()>>() <= 160);
