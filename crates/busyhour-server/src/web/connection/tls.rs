//! HTTPS: connections that are encrypted before a request is read.

use rustls::ServerConfig;
use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How new connections are encrypted. It can be replaced at any time; connections that exist
/// go on as they are.
#[derive(Clone, Default)]
pub struct WebTls(Arc<RwLock<Option<Arc<ServerConfig>>>>);

impl WebTls {
    /// New connections use this from now on; without one they are closed.
    pub fn replace(&self, config: Option<Arc<ServerConfig>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn config(&self) -> Option<Arc<ServerConfig>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Shakes hands, within a time.
    pub(in crate::web) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config().ok_or(io::ErrorKind::NotConnected)?;
        let shaking = TlsAcceptor::from(config).accept(stream);
        timeout(HANDSHAKE, shaking).await?
    }
}

const HANDSHAKE: Duration = Duration::from_secs(10);
