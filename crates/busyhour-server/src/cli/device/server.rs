//! What a running server remembers of a device. The command asks for it over HTTP,
//! since the store does not contain it.

use crate::cli::running_server::{RunningServer, reachable};
use clap::Args;
use serde::Deserialize;
use std::net::SocketAddr;

/// Which server is asked.
#[derive(Debug, Args)]
pub(super) struct ApiServer {
    /// HTTP address of the running server, which knows the bindings and failed
    /// registrations [default: http.listen of the configuration]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
}

/// A registration that failed, in the form of `/api/failures`.
#[derive(Debug, Deserialize)]
pub(super) struct FailedRegistration {
    pub(super) at_unix_seconds: i64,
    pub(super) source: String,
    pub(super) transport: String,
    pub(super) reason: String,
    pub(super) count: u64,
}

impl ApiServer {
    /// The failures of a user, the last one first, as JSON; or why they are unknown.
    pub(super) fn failures(
        &self,
        user: &str,
        listen: Option<SocketAddr>,
    ) -> Result<serde_json::Value, String> {
        self.list("failures", user, listen)
    }

    /// The bindings of a user's addresses of record, as JSON; or why they are unknown.
    pub(super) fn bindings(
        &self,
        user: &str,
        listen: Option<SocketAddr>,
    ) -> Result<serde_json::Value, String> {
        self.list("bindings", user, listen)
    }

    /// Requests the list of a user from `/api/NAME`.
    fn list(
        &self,
        name: &str,
        user: &str,
        listen: Option<SocketAddr>,
    ) -> Result<serde_json::Value, String> {
        let address = self.http.or(listen.map(reachable));
        let address = address.ok_or("the server has no HTTP (http.listen is off)")?;
        let query: String = form_urlencoded::byte_serialize(user.as_bytes()).collect();
        let list =
            RunningServer::Address(address, None).get(&format!("/api/{name}?user={query}"))?;
        let list: serde_json::Value = serde_json::from_str(&list).map_err(|_| {
            format!("the program at {address} is not a busyhour server of this version")
        })?;
        Ok(list[name].clone())
    }
}

/// A binding, in the form of `/api/bindings`.
#[derive(Debug, Deserialize)]
pub(super) struct Registered {
    aor: String,
    contact: String,
    source: String,
    reachable: bool,
    expires_in_seconds: u64,
}

impl Registered {
    /// One line for people.
    pub(super) fn line(&self) -> String {
        let Self {
            aor,
            contact,
            source,
            expires_in_seconds,
            ..
        } = self;
        let reach = if self.reachable {
            ""
        } else {
            ", cannot be reached"
        };
        format!("{aor} at {contact} from {source}, {expires_in_seconds} s left{reach}")
    }
}

impl FailedRegistration {
    /// One line for people.
    pub(super) fn line(&self) -> String {
        let at = jiff::Timestamp::from_second(self.at_unix_seconds);
        let at = at.map_or(String::new(), |at| at.to_string());
        let Self {
            source,
            transport,
            reason,
            count,
            ..
        } = self;
        let times = if *count == 1 { "once" } else { "times" };
        let count = match count {
            1 => times.to_owned(),
            _ => format!("{count} {times}"),
        };
        format!("{at} from {source} over {transport}: {reason} ({count})")
    }
}
