use super::StreamPolicy;
use socket2::{SockRef, TcpKeepalive};
use std::{io, net::TcpStream};

/// Makes the kernel check whether the peer is still there: it sends keep-alives after a
/// silence, and ends the connection if keep-alives or sent data stay unacknowledged for
/// `policy.unanswered`.
///
/// # Errors
///
/// What the kernel does not take.
pub(super) fn watch_over(socket: &TcpStream, policy: &StreamPolicy) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let asking = TcpKeepalive::new()
        .with_time(policy.keepalive)
        .with_interval(policy.unanswered / PROBES)
        .with_retries(PROBES);
    socket.set_tcp_keepalive(&asking)?;
    socket.set_tcp_user_timeout(Some(policy.unanswered))
}

const PROBES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, time::Duration};

    #[test]
    fn the_kernel_gets_the_timeout_of_a_dead_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let policy = StreamPolicy {
            keepalive: Duration::from_secs(77),
            unanswered: Duration::from_secs(33),
            ..StreamPolicy::default()
        };
        watch_over(&socket, &policy).unwrap();
        let socket = SockRef::from(&socket);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), policy.keepalive);
        let interval = socket.tcp_keepalive_interval().unwrap();
        assert_eq!(interval, Duration::from_secs(11));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(policy.unanswered));
    }
}
