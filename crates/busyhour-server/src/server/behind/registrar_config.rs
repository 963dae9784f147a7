use std::{net::SocketAddr, time::Duration};
use thiserror::Error;

/// A server behind this one, at which addresses of record are registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// Its name in lists and in the log.
    pub name: String,
    /// Where it takes REGISTER over UDP.
    pub address: SocketAddr,
    /// The domains whose addresses of record it has; all if there are none.
    pub domains: Vec<String>,
    /// The lifetime to ask for.
    pub expires: Duration,
    /// User and password for all addresses; without them, those of each account.
    pub credentials: Option<(String, String)>,
    /// How long telephones stay registered while it does not answer.
    pub keep: Duration,
    /// New requests to it a second.
    pub rate: u32,
}

/// What is wrong with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RegistrarMistake {
    /// Its name.
    #[error("name: give 1 to 64 letters, digits, or any of -_.")]
    Name,
    /// Its lifetime.
    #[error("expires_seconds: give 300 to 604800")]
    Expires,
    /// Its patience.
    #[error("keep_seconds: give 0 to 604800")]
    Keep,
    /// Its pace.
    #[error("per_second: give 1 to 10000")]
    Rate,
}

impl RegistrarConfig {
    /// Checks it.
    ///
    /// # Errors
    ///
    /// The first mistake.
    pub fn check(&self) -> Result<(), RegistrarMistake> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=64).contains(&self.name.len()) && self.name.bytes().all(is_allowed);
        let expires_s = self.expires.as_secs();
        match () {
            () if !is_name => Err(RegistrarMistake::Name),
            () if !(300..=WEEK_S).contains(&expires_s) => Err(RegistrarMistake::Expires),
            () if self.keep.as_secs() > WEEK_S => Err(RegistrarMistake::Keep),
            () if !(1..=10_000).contains(&self.rate) => Err(RegistrarMistake::Rate),
            () => Ok(()),
        }
    }
}

const WEEK_S: u64 = 604_800;
