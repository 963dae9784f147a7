//! Grants every REGISTER at once and remembers nothing: the ceiling of the
//! storm itself, to be known before a server's ceiling is believed.
//!
//! ```text
//! cargo run --release -p busyhour-server --example reflector -- 127.0.0.1:5070 &
//! busyhour storm --target 127.0.0.1:5070 --closed 64 --kind refresh --over 5s
//! ```

use std::io::{IoSlice, IoSliceMut, Result};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use busyhour_sip::{HeaderName, Message, ResponseBuilder, Status};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

fn main() -> Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:5070".into());
    let socket = UdpSocket::bind(&address)?;
    println!("granting every REGISTER on {}", socket.local_addr()?);
    let mut room = vec![0; BATCH * DATAGRAM_BYTES];
    let mut incoming = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut outgoing = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut answers: Vec<Vec<u8>> = vec![Vec::new(); BATCH];
    loop {
        let sources = receive(&socket, &mut room, &mut incoming)?;
        let requests = room.chunks_exact(DATAGRAM_BYTES).zip(&sources);
        for ((room, (length, _)), answer) in requests.zip(&mut answers) {
            answer.clear();
            grant(&room[..*length], answer);
        }
        send(&socket, &answers[..sources.len()], &sources, &mut outgoing)?;
    }
}

type Sources = Vec<(usize, Option<SockaddrStorage>)>;

fn receive(
    socket: &UdpSocket,
    room: &mut [u8],
    headers: &mut MultiHeaders<SockaddrStorage>,
) -> Result<Sources> {
    let mut slices: Vec<[IoSliceMut<'_>; 1]> = room
        .chunks_exact_mut(DATAGRAM_BYTES)
        .map(|room| [IoSliceMut::new(room)])
        .collect();
    let flags = MsgFlags::MSG_WAITFORONE;
    let results = recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), flags, None)?;
    Ok(results
        .map(|result| (result.bytes, result.address))
        .collect())
}

fn grant(request: &[u8], answer: &mut Vec<u8>) {
    let Ok(request) = Message::parse(request) else {
        return;
    };
    let contact = request.header(HeaderName::Contact).unwrap_or("");
    ResponseBuilder::new(answer, &request, Status::OK, None)
        .to_tag("reflector")
        .header(HeaderName::Contact, format_args!("{contact};expires=3600"))
        .finish();
}

fn send(
    socket: &UdpSocket,
    answers: &[Vec<u8>],
    sources: &Sources,
    headers: &mut MultiHeaders<SockaddrStorage>,
) -> Result<()> {
    let slices: Vec<[IoSlice<'_>; 1]> = answers
        .iter()
        .map(|answer| [IoSlice::new(answer)])
        .collect();
    let addresses: Vec<_> = sources.iter().map(|(_, source)| *source).collect();
    // What the system refuses is retransmitted, as on a real network.
    let _ = sendmmsg(
        socket.as_raw_fd(),
        headers,
        &slices,
        &addresses,
        [],
        MsgFlags::empty(),
    );
    Ok(())
}

const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 2048;
