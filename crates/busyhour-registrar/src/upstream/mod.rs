//! Registration at a registrar behind this one: the short refreshes of telephones end here, and
//! one long registration of each address of record goes on.
//!
//! **What is known of an address.** Whether it has a telephone here: that follows from its
//! bindings, which are durable, and is stored nowhere else. Until when the registrar behind *has*
//! it, by its last 200: it is renewed before then. And until when it *may have* it, by what was
//! asked of it: whatever becomes of an answer, it has nothing after that.
//!
//! **Order.** There is one request of an address at a time, and the next one follows its answer,
//! at the earliest a second after it was sent. So the registrar hears of an address in order, and
//! a telephone that comes and goes makes one request a second at most.
//!
//! **Crashes.** What a request may change is stored before it leaves: a REGISTER stores until when
//! the registrar may have the address, the end of a registration stores that the registrar has it
//! no more for sure. So all that the registrar may have is in the store at each moment. After a
//! crash an address that has a telephone, and that the registrar has for sure, is renewed when it
//! is time. All others are told at once: those that have a telephone anew, the rest that they have
//! ended.
//!
//! **A registrar that is away, or that has forgotten all.** Three requests without an answer, and
//! it is away: one request at a time asks for it. When it answers again, everything is told anew.
//! While it answers, it is asked twice a minute which contacts it has of one address. If ours is
//! not among them, that address is told again, and another one is asked about at once. If it has
//! neither, it has started anew, and everything is told again. All of this keeps to the
//! number of requests a second that the policy has.

mod table;
mod times;
mod upstream_entry;
mod upstream_step;

pub use table::UpstreamTable;
pub use upstream_step::{
    UpstreamAnswer, UpstreamAsk, UpstreamPolicy, UpstreamRefusal, UpstreamRow, UpstreamStep,
};
