//! `busyhour device import` from other servers, `device export`, and accounts that an HTTP service
//! keeps: a telephone with its old password registers here.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/http_receiver.rs"]
#[allow(dead_code)] // others test the client with the rest
mod http_receiver;
#[path = "../tenants/telephone.rs"]
mod telephone;

mod asterisk;
mod credentials;
mod export;
mod freeswitch;
mod kamailio;
mod world;
