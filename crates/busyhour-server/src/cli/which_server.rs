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
        let Some(file) = &self.config else {
            return RunningServer::find().map_err(Failure::running);
        };
        let loaded = Config::load(Some(file), &Overrides::default())?;
        let servers = servers_of(&loaded.config.http).map_err(Failure::running)?;
        // Only the first is certainly the server of this configuration.
        let first = servers.into_iter().next();
        let first = first.ok_or_else(|| Failure::running(NOWHERE))?;
        Ok(first.with_token(self.which.token.clone()))
    }
}

/// The socket of a configuration, which needs no token, then its address. If it does not say where the
/// socket is, that of the process comes first that listens at its address, and that of the only server
/// that runs here is last: it may be another one's. Port 0 is none that could be asked: the server has
/// taken one that was free.
pub(super) fn servers_of(http: &Http) -> Result<Vec<RunningServer>, String> {
    let listens = http.listen.filter(|address| address.port() != 0);
    let address = listens.map(reachable);
    let address = address.map(|address| RunningServer::Address(address, None));
    match (&http.socket, address) {
        (SocketPlace::At(path), address) => {
            let socket = RunningServer::Socket(path.clone());
            Ok([socket].into_iter().chain(address).collect())
        }
        (SocketPlace::Auto, Some(address)) => {
            let own = listens.and_then(RunningServer::listening_at);
            let any = RunningServer::find().ok();
            Ok(own.into_iter().chain([address]).chain(any).collect())
        }
        (SocketPlace::Auto, None) => RunningServer::find().map(|found| vec![found]),
        (SocketPlace::Off, Some(address)) => Ok(vec![address]),
        (SocketPlace::Off, None) if http.listen.is_some() => Err(ANY_PORT.into()),
        (SocketPlace::Off, None) => Err(NOWHERE.into()),
    }
}

const NOWHERE: &str =
    "the server has neither HTTP nor a local socket: http.listen and http.socket are off";

const ANY_PORT: &str = "http.listen has port 0, so the server's port is not known, and http.socket is off; \
    name the address with --http ADDRESS";

impl WhichServer {
    pub(super) fn named(&self) -> Option<RunningServer> {
        let socket = self.socket.clone().map(RunningServer::Socket);
        let address = |address| RunningServer::Address(address, self.token.clone());
        socket.or_else(|| self.http.map(address))
    }
}
