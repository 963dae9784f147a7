//! `busyhour device import` from other servers, and `device export`: a telephone with its old
//! password registers here.

#[path = "../support/mod.rs"]
mod support;
#[path = "../tenants/telephone.rs"]
mod telephone;

mod asterisk;
mod export;
mod freeswitch;
mod kamailio;
mod world;
