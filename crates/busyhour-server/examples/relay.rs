//! The least that carries a call: it copies each datagram to the other side through the server's
//! sockets, with a Via and a Record-Route more or a Via less, and reads nothing but a method. So
//! it costs what receiving and sending the messages of a call costs, which no proxy with these
//! sockets goes below. It knows one callee: whoever has sent REGISTER.
//!
//! ```text
//! cargo run --release -p busyhour-server --example relay -- 127.0.0.1:5070 &
//! busyhour storm --calls --target 127.0.0.1:5070 --devices 1000 --rate 200 --over 5s --pid $!
//! ```

use std::{
    error::Error,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
    thread,
};

use busyhour::{
    buffer::{Buffer, BufferPool},
    pool::TaskPool,
};
use busyhour_server::{
    net::{Udp, UdpOptions},
    server::{Network, ReadMode},
};
use busyhour_sip::Flow;

/// Who sends from where.
#[derive(Default)]
struct Sides {
    callee: Option<SocketAddr>,
    caller: Option<SocketAddr>,
}

struct Relay {
    sides: Mutex<Sides>,
    buffers: BufferPool,
    udp: OnceLock<Arc<Udp>>,
}

impl Relay {
    fn receive(&self, flow: Flow, datagram: &[u8]) {
        if datagram.starts_with(b"REGISTER ") || datagram.starts_with(b"OPTIONS ") {
            if datagram.starts_with(b"REGISTER ") {
                self.sides().callee = Some(flow.remote);
            }
            return self.send(flow, [b"SIP/2.0 200 OK\r\n", after_line(datagram)]);
        }
        if datagram.starts_with(b"INVITE ") {
            self.sides().caller = Some(flow.remote);
            self.send(flow, [b"SIP/2.0 100 Trying\r\n", after_line(datagram)]);
        }
        let Some(to) = self.other(flow.remote) else {
            return;
        };
        let to = Flow::udp(flow.local, to);
        let rest = after_line(datagram);
        let start = &datagram[..datagram.len() - rest.len()];
        match start {
            [b'S', b'I', b'P', b'/', ..] => self.send(to, [start, after_line(rest)]),
            [b'I', b'N', b'V', ..] => self.send(to, [start, VIA, RECORD_ROUTE, rest]),
            _ => self.send(to, [start, VIA, rest]),
        }
    }

    fn send<const PARTS: usize>(&self, flow: Flow, parts: [&[u8]; PARTS]) {
        let copy: Result<Buffer, _> = self.buffers.copy_from(&parts.concat());
        if let (Ok(copy), Some(udp)) = (copy, self.udp.get()) {
            // What is lost is sent again, as on any network.
            let _ = udp.send(flow, copy);
        }
    }

    fn other(&self, from: SocketAddr) -> Option<SocketAddr> {
        let sides = self.sides();
        match sides.callee == Some(from) {
            true => sides.caller,
            false => sides.callee,
        }
    }

    fn sides(&self) -> std::sync::MutexGuard<'_, Sides> {
        self.sides.lock().expect("nobody panics with it")
    }
}

/// What follows the first line.
fn after_line(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == b'\n');
    end.map_or(&[], |end| &text[end + 1..])
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:5070");
    let udp = Arc::new(Udp::bind(&UdpOptions::new([address.parse()?]))?);
    let relay = Arc::new(Relay {
        sides: Mutex::default(),
        buffers: BufferPool::builder().build()?,
        udp: OnceLock::new(),
    });
    let _ = relay.udp.set(udp.clone());
    let (buffers, pool) = (relay.buffers.clone(), TaskPool::builder().build()?);
    let deliver = move |datagram: busyhour_server::net::Datagram| {
        relay.receive(datagram.flow, &datagram.payload);
    };
    udp.start(&buffers, &pool, deliver, || ReadMode::All)?;
    println!("copying between two sides on {}", udp.addresses()[0]);
    loop {
        thread::park();
    }
}

/// As long as those that the server writes for IPv4 addresses and short names.
const VIA: &[u8] =
    b"Via: SIP/2.0/UDP 127.0.0.1:50600;rport;branch=z9hG4bKbh00000000000000000000000000000000000000000000\r\n";
const RECORD_ROUTE: &[u8] =
    b"Record-Route: <sip:00000000000000000000000000000000000000000000000000000000000@127.0.0.1:50600;lr>\r\n\
      Record-Route: <sip:00000000000000000000000000000000000000000000000000000000000@127.0.0.1:50600;lr>\r\n";
