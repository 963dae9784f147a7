use axum::serve::Listener;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// A listener that accepts only while fewer than a given number of connections
/// live; the others wait in the kernel's backlog.
pub(super) struct LimitedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

/// A connection, and its place among those that may live.
pub(super) struct LimitedStream {
    stream: TcpStream,
    _permit: Option<OwnedSemaphorePermit>,
}

impl LimitedListener {
    pub(super) fn new(listener: TcpListener, max_connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(max_connections));
        Self { listener, permits }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        // The semaphore is never closed, so a permit always comes in the end.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let stream = LimitedStream {
            stream,
            _permit: permit,
        };
        (stream, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_holds_its_place_until_it_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        runtime.unwrap().block_on(hold_and_let_go());
    }

    async fn hold_and_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut limited = LimitedListener::new(listener, 2);
        let _first = TcpStream::connect(address).await.unwrap();
        let (accepted, _) = limited.accept().await;
        assert_eq!(limited.permits.available_permits(), 1);
        drop(accepted);
        assert_eq!(limited.permits.available_permits(), 2);
    }
}
