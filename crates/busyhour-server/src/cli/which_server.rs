use super::{
    Failure,
    running_server::{RunningServer, reachable},
};
use crate::config::{Config, Http, Overrides, SocketPlace};
use clap::Args;
use std::{net::SocketAddr, path::PathBuf};

/// Which running server a command asks: the one that is named, that of a configuration, or the
/// only one that runs here.
#[derive(Debug, Args)]
pub(super) struct AskedServer {
    #[command(flatten)]
    which: WhichServer,

    /// The server's configuration file, which says where it answers
    #[arg(long, short, value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    config: Option<PathBuf>,
}

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

impl AskedServer {
    /// # Errors
    ///
    /// If the configuration has mistakes, or if there is no such server, or more than one.
    pub(super) fn find(&self) -> Result<RunningServer, Failure> {
        if let Some(named) = self.which.named() {
            return Ok(named);
        }
        let servers = match &self.config {
            None => RunningServer::find().map(|server| vec![server]),
            Some(file) => {
                let loaded = Config::load(Some(file), &Overrides::default())?;
                servers_of(&loaded.config.http)
            }
        };
        // A socket of the configuration is preferred: it needs no token.
        let first = servers.map(|servers| servers.into_iter().next());
        let first = first.map_err(Failure::running)?;
        first.ok_or_else(|| Failure::running(NOWHERE))
    }
}

/// The socket of a configuration, then its address. If it does not say where the socket is, that of
/// the only server that runs here comes first.
pub(super) fn servers_of(http: &Http) -> Result<Vec<RunningServer>, String> {
    let socket = match &http.socket {
        SocketPlace::At(path) => Ok(RunningServer::Socket(path.clone())),
        SocketPlace::Auto => RunningServer::find(),
        SocketPlace::Off => Err(NOWHERE.into()),
    };
    let address = http.listen.map(reachable);
    let address = address.map(|address| RunningServer::Address(address, None));
    match (socket, address) {
        (Ok(socket), address) => Ok([socket].into_iter().chain(address).collect()),
        (Err(_), Some(address)) => Ok(vec![address]),
        (Err(reason), None) => Err(reason),
    }
}

const NOWHERE: &str =
    "the server has neither HTTP nor a local socket: http.listen and http.socket are off";

impl WhichServer {
    pub(super) fn named(&self) -> Option<RunningServer> {
        let socket = self.socket.clone().map(RunningServer::Socket);
        let address = |address| RunningServer::Address(address, self.token.clone());
        socket.or_else(|| self.http.map(address))
    }
}
