//! Ports of 127.0.0.1 for programs that cannot use port 0.

use std::{
    mem,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    process,
    sync::atomic::{AtomicU16, Ordering},
};

/// A port that no other test gets while this process lives. It is below the range from which the
/// system chooses ports, so no other program takes it before that program does.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Programs that start together are far apart.
    let first = (process::id() % 80 * 100) as u16;
    let mut tries = (0..8_000).map(|_| {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed);
        20_000 + first.wrapping_add(offset) % 8_000
    });
    let is_ours = |port: &u16| is_free(*port) && reserve(*port);
    tries.find(is_ours).expect("a free port")
}

/// Whether nobody is bound to a port.
pub fn is_free(port: u16) -> bool {
    let address = ("127.0.0.1", port);
    UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
}

/// Takes a name that can be had once in a network namespace, until this process ends.
fn reserve(port: u16) -> bool {
    let name = format!("busyhour-test-port-{port}");
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    UnixListener::bind_addr(&name).map(mem::forget).is_ok()
}
