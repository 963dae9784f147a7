//! Certificates from an authority by ACME (RFC 8555), ordered and renewed by one thread,
//! `bh-acme`. The protocol is that of `instant-acme`; here is when to order, how the authority
//! finds that the names are ours, and that no good certificate is replaced by a bad one.
//!
//! - An order begins when a third of the certificate's life is left, at a moment of that time
//!   that chance chooses, so that servers which began together do not renew together.
//! - What fails is tried again after rests that grow from minutes to hours. An authority that
//!   says that there were too many requests is left alone for some hours.
//! - A certificate is written into the folder beside the old one, read as the server reads it,
//!   and takes its place only if it is for all names, has its key, and is valid.

mod answers;
mod authority;
mod client;
mod dns_hook;
mod options;
mod renewal;
mod requested;
mod storage;

pub use answers::ChallengeAnswers;
pub use client::AcmeClient;
pub use options::{AcmeChallenge, AcmeOptions};
pub use storage::acme_files;
