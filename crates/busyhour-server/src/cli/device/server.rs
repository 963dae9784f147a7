//! What a running server remembers of a device. The command asks for it over the local
//! socket or HTTP, since the store does not contain it.

use crate::{
    cli::{
        running_server::RunningServer,
        which_server::{WhichServer, servers_of},
    },
    config::Http,
};
use clap::Args;
use serde::Deserialize;

/// Which server is asked: the one that is named, or that of the configuration.
#[derive(Debug, Args)]
pub(super) struct ApiServer {
    #[command(flatten)]
    which: WhichServer,
}

/// A registration that failed, in the form of `/api/v1/failures`.
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
    pub(super) fn failures(&self, user: &str, http: &Http) -> Result<serde_json::Value, String> {
        self.list("failures", user, http)
    }

    /// The bindings of a user's addresses of record, as JSON; or why they are unknown.
    pub(super) fn bindings(&self, user: &str, http: &Http) -> Result<serde_json::Value, String> {
        self.list("bindings", user, http)
    }

    /// Requests the list of a user from `/api/v1/NAME`, of the first server that answers.
    fn list(&self, name: &str, user: &str, http: &Http) -> Result<serde_json::Value, String> {
        let query: String = form_urlencoded::byte_serialize(user.as_bytes()).collect();
        let mut problems = Vec::new();
        for server in self.servers(http)? {
            match server.get(&format!("/api/v1/{name}?user={query}")) {
                Ok(list) => return read(&list, name, &server),
                Err(problem) => problems.push(problem),
            }
        }
        Err(problems.join("; "))
    }

    fn servers(&self, http: &Http) -> Result<Vec<RunningServer>, String> {
        match self.which.named() {
            Some(named) => Ok(vec![named]),
            None => servers_of(http),
        }
    }
}

fn read(list: &str, name: &str, server: &RunningServer) -> Result<serde_json::Value, String> {
    let not_ours = |_| {
        let name = server.name();
        format!("the program at {name} is not a busyhour server of this version")
    };
    let list: serde_json::Value = serde_json::from_str(list).map_err(not_ours)?;
    Ok(list[name].clone())
}

/// A binding, in the form of `/api/v1/bindings`.
#[derive(Debug, Deserialize)]
pub(super) struct Registered {
    aor: String,
    contact: String,
    source: String,
    reach: String,
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
            reach,
        } = self;
        let reach = match reach.as_str() {
            "unreachable" => ", cannot be reached",
            "unverified" => ", not heard since the server started",
            _ => "",
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
