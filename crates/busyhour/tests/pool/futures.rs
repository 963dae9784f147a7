//! Futures of a pool inside other runtimes, with their reactors.

use std::{
    cell::Cell,
    future::Future,
    io::{Read, Write},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use busyhour::{
    pool::{JoinError, TaskPool},
    run_queue::Class,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle},
};

const SHORT: Duration = Duration::from_millis(1);

fn pool_in(handle: Handle) -> TaskPool {
    let pool = TaskPool::builder().workers(1).poll_context(move |poll| {
        let _inside = handle.enter();
        poll();
    });
    pool.build().unwrap()
}

/// Echoes one line through sockets and timers of tokio.
async fn echo() -> std::io::Result<String> {
    tokio::time::sleep(SHORT).await;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut client = TcpStream::connect(listener.local_addr()?).await?;
    let (mut server, _) = listener.accept().await?;
    client.write_all(b"hello").await?;
    client.shutdown().await?;
    let mut line = String::new();
    server.read_to_string(&mut line).await?;
    Ok(line)
}

/// Waits for each way to run a future, as a task of tokio.
async fn echo_in_each_way(pool: &TaskPool) {
    let calls = pool.serializer("calls").build().unwrap();
    let handles = [
        pool.spawn(echo()),
        pool.spawn_as(Class::default(), echo()),
        calls.spawn(echo()),
        calls.spawn_exclusive(echo()).unwrap(),
    ];
    for handle in handles {
        assert_eq!(handle.await.unwrap().unwrap(), "hello");
    }
}

#[test]
fn tokios_sockets_and_timers_work_beside_its_current_thread() {
    let tokio = Builder::new_current_thread().enable_all().build().unwrap();
    let pool = pool_in(tokio.handle().clone());
    tokio.block_on(echo_in_each_way(&pool));
}

#[test]
fn tokios_sockets_and_timers_work_beside_its_threads() {
    let mut options = Builder::new_multi_thread();
    let tokio = options.worker_threads(2).enable_all().build().unwrap();
    let pool = pool_in(tokio.handle().clone());
    tokio.block_on(echo_in_each_way(&pool));
    // Also for a thread that knows nothing of tokio.
    assert_eq!(pool.spawn(echo()).wait().unwrap().unwrap(), "hello");
}

#[test]
fn without_the_context_the_handle_tells_what_is_missing() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let error = pool.spawn(echo()).wait().unwrap_err();
    let JoinError::Panicked(payload) = &error else {
        panic!("{error}");
    };
    let message = payload.message().unwrap();
    assert!(message.contains("reactor"), "{message}");
    assert!(error.to_string().contains(&message), "{error}");
}

#[test]
fn smols_reactor_needs_no_context() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let calls = pool.serializer("calls").build().unwrap();
    let echo = || async {
        async_io::Timer::after(SHORT).await;
        let listener = async_io::Async::<std::net::TcpListener>::bind(([127, 0, 0, 1], 0))?;
        let address = listener.get_ref().local_addr()?;
        let client = async_io::Async::<std::net::TcpStream>::connect(address).await?;
        let (server, _) = listener.accept().await?;
        client
            .write_with(|mut client| client.write(b"hello"))
            .await?;
        let mut line = [0; 5];
        let count = server
            .read_with(|mut server| server.read(&mut line))
            .await?;
        Ok::<_, std::io::Error>(line[..count].to_vec())
    };
    let handles = [calls.spawn(echo()), calls.spawn_exclusive(echo()).unwrap()];
    for handle in handles {
        assert_eq!(async_io::block_on(handle).unwrap().unwrap(), b"hello");
    }
}

/// Runs a future on this thread, with no runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn no_runtime_is_needed() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let calls = pool.serializer("calls").capacity(1).build().unwrap();
    let sum = block_on(async {
        calls.push_async(|| ()).await.unwrap();
        let section = calls.reserve().await.unwrap();
        let section = section.spawn_exclusive(async { 1 }).unwrap();
        let plain = calls.spawn(async { 2 });
        section.await.unwrap() + plain.await.unwrap()
    });
    assert_eq!(sum, 3);
}

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Asserts that it is polled and dropped inside the context.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        assert!(IS_INSIDE.get(), "dropped outside");
    }
}

#[test]
fn a_future_is_polled_and_dropped_inside_the_context() {
    let pool = TaskPool::builder().workers(1).poll_context(|poll| {
        IS_INSIDE.set(true);
        poll();
        IS_INSIDE.set(false);
    });
    let pool = pool.build().unwrap();
    let futures = || async {
        let _inside = Inside;
        assert!(IS_INSIDE.get());
        busyhour::pool::yield_now().await;
        assert!(IS_INSIDE.get());
    };
    assert_eq!(pool.spawn(futures()).wait(), Ok(()));
    assert_eq!(pool.spawn_as(Class::default(), futures()).wait(), Ok(()));
    // The channel keeps the waker: without it the pool might give the future up before it is aborted.
    let (_ends, waits) = tokio::sync::oneshot::channel::<()>();
    let aborted = pool.spawn(async move {
        let _inside = Inside;
        _ = waits.await;
    });
    aborted.abort();
    assert_eq!(aborted.wait(), Err(JoinError::Aborted));
    assert!(pool.push_wait(|| !IS_INSIDE.get()).unwrap());
    assert_eq!(pool.stats().panicked, 0);
}

#[test]
fn a_context_that_fails_ends_the_future() {
    let lazy = TaskPool::builder().workers(1).poll_context(|_poll| ());
    let panics = TaskPool::builder()
        .workers(1)
        .poll_context(|_poll| std::panic::resume_unwind(Box::new("on purpose")));
    for pool in [lazy, panics] {
        let pool = pool.build().unwrap();
        for handle in [
            pool.spawn(async {}),
            pool.spawn_as(Class::default(), async {}),
        ] {
            assert!(handle.wait().unwrap_err().is_panic());
        }
        assert_eq!(pool.push_wait(|| 7), Ok(7), "tasks run outside of it");
    }
}
