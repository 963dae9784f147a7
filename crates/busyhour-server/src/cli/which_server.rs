use super::running_server::RunningServer;
use clap::Args;
use std::{net::SocketAddr, path::PathBuf};

/// Which running server a command asks, if it is named.
#[derive(Debug, Args)]
pub(super) struct WhichServer {
    /// The local socket of the server, instead of the one that is found
    #[arg(long, value_name = "PATH", conflicts_with = "http")]
    socket: Option<PathBuf>,

    /// The HTTP address of the server, instead of its local socket
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,

    /// The token for an HTTP address of another machine
    #[arg(
        long,
        value_name = "TOKEN",
        env = "BUSYHOUR_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

impl WhichServer {
    pub(super) fn named(&self) -> Option<RunningServer> {
        let socket = self.socket.clone().map(RunningServer::Socket);
        let address = |address| RunningServer::Address(address, self.token.clone());
        socket.or_else(|| self.http.map(address))
    }
}
