//! A connection whose client has a limited time to read what is written.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// Fails with [`io::ErrorKind::TimedOut`] once writing has waited for too long.
///
/// Waiting uses up a time budget, and each 4 KiB that are written give back one
/// second, up to the initial budget. If a client reads nothing, its connection ends
/// after that time. If it reads a byte now and then, the connection ends a little
/// later. If it reads slowly but steadily, the connection never ends.
pub(in crate::web) struct Patient<S> {
    stream: S,
    patience: Duration,
    left: Duration,
    waits_since: Option<Instant>,
    timeout: Option<Pin<Box<Sleep>>>,
    /// Called when the time budget is used up.
    gives_up: Box<dyn Fn() + Send>,
}

impl<S> Patient<S> {
    pub(in crate::web) fn new(
        stream: S,
        patience: Duration,
        gives_up: impl Fn() + Send + 'static,
    ) -> Self {
        Self {
            stream,
            patience,
            left: patience,
            waits_since: None,
            timeout: None,
            gives_up: Box::new(gives_up),
        }
    }

    fn wrote(&mut self, count: usize) {
        if let Some(since) = self.waits_since.take() {
            let paid = Duration::from_millis(count as u64 * 1000 / BYTES_PER_SECOND);
            let left = self.left.saturating_sub(since.elapsed());
            self.left = (left + paid).min(self.patience);
            self.timeout = None;
        }
    }

    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let until = since + self.left;
        let timeout = self
            .timeout
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        ready!(timeout.as_mut().poll(context));
        (self.gives_up)();
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                self.wrote(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.poll_patience(context).map(Err),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, room)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

const BYTES_PER_SECOND: u64 = 4096;
