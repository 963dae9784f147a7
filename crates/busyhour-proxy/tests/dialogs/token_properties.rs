//! What holds for any token and any bytes; the fuzz target has the same body.

use busyhour::bus::Name;
use busyhour_proxy::dialogs::{Party, Role, RouteToken, RouteTokens};
use busyhour_sip::{Flow, Transport, Uri};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// As a text it is no token of ours. As the parts of a token it is written and read, fits
/// into a URI, and is refused if one character differs.
pub fn hold(bytes: &[u8]) {
    let tokens = RouteTokens::new([3; 32]);
    let text = String::from_utf8_lossy(bytes);
    assert!(tokens.read(&text, "c").is_err());
    let (token, call_id) = token_of(bytes);
    let mut written = String::new();
    tokens.write(&token, &call_id, &mut written);
    assert_eq!(tokens.read(&written, &call_id), Ok(token));
    let uri = format!("sip:{written}@192.0.2.1;lr");
    let parsed =
        Uri::parse(&uri).and_then(|uri| uri.as_sip().and_then(|sip| sip.user.map(str::to_owned)));
    assert_eq!(parsed.as_deref(), Some(&*written));
    let mut forged = written.clone().into_bytes();
    let place = bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>() % forged.len();
    forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("letters");
    assert!(tokens.read(&forged, &call_id).is_err(), "{forged}");
    assert!(tokens.read(&written[..place], &call_id).is_err());
    assert!(tokens.read(&written, &format!("{call_id}x")).is_err());
}

/// A token made of bytes, and a Call-ID.
fn token_of(bytes: &[u8]) -> (RouteToken, String) {
    let mut rest = bytes.iter().copied();
    let mut take = || rest.next().unwrap_or(0);
    let kind = take();
    let mut address = |is_v6: bool| match is_v6 {
        true => {
            let ip = Ipv6Addr::from(std::array::from_fn(|_| take()));
            let port = u16::from_be_bytes([take(), take()]);
            SocketAddr::from(SocketAddrV6::new(ip, port, 0, take().into()))
        }
        false => {
            let ip = Ipv4Addr::new(take(), take(), take(), take());
            SocketAddr::from((ip, u16::from_be_bytes([take(), take()])))
        }
    };
    let transports = [
        Transport::Udp,
        Transport::Tcp,
        Transport::Tls,
        Transport::Ws,
        Transport::Wss,
    ];
    let flow = Flow {
        local: address(kind & 1 != 0),
        remote: address(kind & 2 != 0),
        transport: transports[usize::from(kind >> 2 & 7) % transports.len()],
        connection: if kind & 16 != 0 {
            u32::from_be_bytes([kind; 4])
        } else {
            0
        },
        node: u16::from(kind % 3),
    };
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .rev()
        .take(40)
        .collect();
    let party = match kind >> 5 & 3 {
        0 => Party::nobody(flow),
        1 => Party::device(Name::new(&text), flow),
        2 => Party::peer(Name::new(&text), flow),
        _ => Party::device(Name::new(&format!("sip:{text}")), flow),
    };
    let role = if kind & 128 != 0 {
        Role::Callee
    } else {
        Role::Caller
    };
    let carrier = u16::from(kind % 5);
    let token = RouteToken {
        role,
        party,
        carrier,
    };
    (token, text)
}
